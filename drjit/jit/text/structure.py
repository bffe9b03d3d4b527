"""The structure of a program: a key, by which a known program is found in one dictionary look-up.
In a new program, each node also gets an integer (`Node.id`) that identifies what it computes from
inputs and literals, so that common subexpressions are merged.

Literals are parameters of kernels, not part of them, but equal literals share one parameter.
Otherwise, neither a constant that occurs a hundred times nor anything computed from it would be
recognized as common. The sharing is determined when a structure first occurs. Two literals that
turn out to have been equal by coincidence are separated from then on, so a number that changes from
launch to launch costs one more kernel, not one per value.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from operator import attrgetter
from struct import Struct
from typing import Any

from .. import substitutes as native
from ..device import Device
from ..ir import op
from ..ir.nesting import RegionOperands
from ..ir.node import AFTER, BUFFER, LITERAL, Node
from ..tuples import NamedTuple
from . import program


class _Packers(dict[int, Callable[..., bytes]]):
    def __missing__(self, count: int) -> Callable[..., bytes]:
        self[count] = pack = Struct(f"{count}Q").pack
        return pack


_packers = _Packers()  # functions that pack a number of words into bytes


_interned: dict[tuple, int] = defaultdict(count().__next__)
"""The number of each computation: its operation, type and data, and the numbers of its operands."""
_INTERN_LIMIT = 1 << 20
_equal: dict[tuple, tuple[int, ...]] = {}
"""The parameter number of each literal of a structure; equal numbers are one parameter."""
_STATE, _IN_BOUNDS = op.state, op.in_bounds
_serial = attrgetter("serial")


def is_full() -> bool:
    """Returns whether there are too many structures to remember them."""
    return len(_interned) > _INTERN_LIMIT


def forget() -> None:
    """Forgets all structures."""
    _interned.clear()
    _equal.clear()


_WORD = (1 << 64) - 1

# What identifies a node besides its operation and its operands.
ELEMENTWISE, IS_LITERAL, IS_BUFFER, TYPE_AND_DATA, IS_STATE, CHECK, TYPE_ONLY, NOTHING, BODIES = (
    range(9)
)
_OF_REGIONS, WITH_DATA = (IS_STATE, BODIES), (TYPE_AND_DATA, IS_STATE)
_TYPED = (*WITH_DATA, TYPE_ONLY)


_KINDS = {
    LITERAL: IS_LITERAL, BUFFER: IS_BUFFER, _STATE: IS_STATE, _IN_BOUNDS: CHECK,
    AFTER: TYPE_ONLY,  # its data is memory
}  # fmt: skip

# The code of an operation: its number, what identifies its nodes (`ProgramGraph.key` adds more for
# effects), whether it may wait, and which operands it reads as memory.
for _number, _op in enumerate(op.TABLE.values()):
    _kind = (
        ELEMENTWISE if _op.elementwise else NOTHING if _op.effect else BODIES if _op.block else None
    )
    _kind = _KINDS.get(_op, TYPE_AND_DATA) if _kind is None else _kind
    _op.code = _number | _kind << 8 | _op.waits << 12
    _op.word = 2 * _number
    if _op.reads:
        _op.code |= sum([1 << k for k in range(8)[_op.reads]]) << 16


class ProgramGraph:
    """The nodes below some roots. `order` lists them in traversal order, with repetitions. The
    nodes that the scheduler must treat specially are `noted`, but no gathers from memory that has
    been computed; loops and branches are the `blocks`. The program takes `inputs`, a literal for
    each parameter (`literals`), and bounds `checks`. The `parts` of its key say how these depend on
    each other.

    Visited nodes carry the `mark`. Their `id` is the position of their first occurrence in `order`,
    or that of an equal literal.
    """

    __slots__ = (
        "blocks", "checks", "inputs", "literals", "mark", "noted", "open", "order", "parts",
    )  # fmt: skip

    def __init__(self, roots: Sequence[Node]) -> None:
        order: list[Node] = [*roots]
        inputs: list[Node] = []
        literals: list[Node] = []
        noted: list[Node] = []
        checks: list[Node] = []
        regions: list[Node] = []
        key: list[Any] = []
        mark = object()
        collect = native.collect_nodes or collect_nodes
        words = collect(order, inputs, literals, noted, checks, regions, key, mark)
        if words is None:
            words = collect_nodes(order, inputs, literals, noted, checks, regions, key, mark)
        key.append(words)
        for n in inputs:
            key.append(n.data.device)
        self.order, self.inputs, self.literals = order, inputs, literals
        self.noted, self.checks, self.blocks = noted, checks, regions
        self.mark, self.parts = mark, key
        self.open = 0  # nodes that are defined only in bodies, minus those of visited bodies
        if regions:
            self._examine_regions()

    def _examine_regions(self) -> None:
        """Looks at nodes inside of bodies, and those with bodies, some of which calls share."""
        regions, self.blocks = self.blocks, []
        bodies = set()
        for n in regions:
            if n.op is _STATE:
                self.open += 1
                continue
            self.blocks.append(n)
            self.parts.append(n.data.static)
            body = n.data.shared
            if body is None or body not in bodies:
                self.open -= _own_states(n)
                bodies.add(body)

    def split(self) -> tuple[list[Node], list[Node]]:
        """Returns the literals and buffers, and the other nodes, without duplicates."""
        leaves: list[Node] = []
        others: list[Node] = []
        for n in dict.fromkeys(self.order):
            (leaves if n.op is LITERAL or n.op is BUFFER else others).append(n)
        return leaves, others

    def ordered(self) -> list[Node]:
        """Returns all nodes, operands before results: literals and buffers, then the others in
        order of creation."""
        leaves, others = self.split()
        return leaves + sorted(others, key=_serial)

    def effects(self) -> list[Node]:
        """Returns the side effects, in order."""
        found = [n for n in self.noted if n.op.effect]
        return sorted(found, key=_serial) if len(found) > 1 else found

    def devices(self) -> set[Device]:
        """Returns the devices of the program's data: inputs, targets of effects, and nodes without
        operands that were created for a device."""
        found = {part for part in self.parts if isinstance(part, Device)}
        return found | {n.data.buffer.device for n in self.effects()}

    def key(self, device: Device, effects: Sequence[Node] = (), *orders: object) -> tuple:
        """Returns the key of the program with its `effects` and their `orders`; the device is where
        a program of constants runs."""
        if not effects:
            return (*self.parts, device)
        rows = [*self.parts, device]
        places: dict[Any, tuple[int, Node]] = {}
        for n in effects:
            e = n.data
            at = _place(n, places)
            rows += (n.id, e.dtype, e.reduce, e.mode, e.shape, e.buffer.device, at)
        return (*rows, *orders)

    def writers(self) -> list[Node]:
        """Returns the first effect on each target, in order."""
        places: dict[Any, tuple[int, Node]] = {}
        for n in self.effects():
            _place(n, places)
        return [n for _, n in places.values()]


def collect_nodes(
    order: list[Node], inputs: list[Node], literals: list[Node], noted: list[Node],
    checks: list[Node], regions: list[Node], rows: list[Any], mark: object,
) -> bytes:  # fmt: skip
    """Adds the nodes below those in `order` to the lists of a graph, and returns a part of its key.
    The first occurrence of a node has a word with its operation, and others with what else
    identifies it; what is no number is added to `rows`. A later occurrence has a number. Since the
    number of operands is known, no two programs have the same key. `regions` are nodes inside of
    bodies, and those with bodies."""
    words = [len(order)]
    values: dict[tuple, int] = {}
    for k, n in enumerate(order):  # it grows during iteration
        if n.mark is mark:
            words.append(2 * n.id + 1)
            continue
        n.mark = mark
        n.id = k
        o = n.op
        if o.elementwise:
            deps = n.deps
            order += deps
            if len(deps) != 1:
                words.append(o.word)
                continue
            # It may be a conversion, or have a constant as its other operand.
            words.append(o.word + (n.dtype.number << 9))
        elif o is LITERAL:
            dtype, value = n.dtype, n.data
            first = values.setdefault((dtype, value or repr(value)), k)  # 0.0 and -0.0 differ
            if first == k:
                literals.append(n)
                words.append(o.word + (dtype.number << 9))
            else:
                n.id = first
                words.append(2 * first + 1)
            continue
        elif o is BUFFER:
            inputs.append(n)
            words.append(o.word + (n.dtype.number << 9) + ((n.size == 1) << 48))
            continue
        else:
            deps = n.deps
            order += deps
            kind = o.code >> 8 & 15
            words += (o.word + (n.dtype.number << 9 if kind in _TYPED else 0), len(deps))
            if o.waits and not (o.reads and _are_in_memory(deps[o.reads])):
                noted.append(n)
            if kind == CHECK:
                checks.append(n)
            elif kind in _OF_REGIONS:
                regions.append(n)
            if kind not in WITH_DATA:
                continue
        data = n.data
        if data is None:
            words.append(0)
        elif type(data) is int:
            words += (1, data & _WORD)
        else:
            words.append(2)
            rows.append(data)
    return _packers[len(words)](*words)


def is_open(n: Node) -> bool:
    """Returns whether a value is defined only in the body of a loop or branch that is being
    recorded."""
    seen, todo, states = {n}, [n], 0
    bodies: set[Any] = set()  # bodies shared by calls
    while todo:
        a = todo.pop()
        if a.op is _STATE:
            states += 1
        elif a.op.block and (a.data.shared is None or a.data.shared not in bodies):
            states -= _own_states(a)
            bodies.add(a.data.shared)
        for d in a.deps:
            if d not in seen:
                seen.add(d)
                todo.append(d)
    return states != 0


def assign_numbers(nodes: list[Node], parameters: Sequence[int]) -> None:
    """Numbers the nodes of a program, given in order; `parameters` are those of its literals."""
    literals = iter(parameters)
    places: dict[Any, tuple[int, Node]] = {}
    inputs = checks = effects = states = 0
    interned = _interned
    for n in nodes:
        o = n.op
        deps = [d.id for d in n.deps]
        if o.elementwise:
            n.id = interned[o, n.dtype, n.data, *deps]
        elif o is LITERAL:
            n.id = interned[o, n.dtype, next(literals)]
        elif o is BUFFER:
            n.id = interned[o, n.dtype, inputs, n.size == 1]
            inputs += 1
        elif o is _STATE:
            n.id = interned[o, n.dtype, states, n.data]
            states += 1
        elif o is _IN_BOUNDS:
            n.id = interned[o, *deps, checks]
            checks += 1
        elif o.block:
            n.id = interned[o, *deps, n.data.static]
        elif o.effect:  # no two are equal
            e = n.data
            n.id = interned[o, *deps, e.static, e.shape, _place(n, places), effects]
            effects += 1
        else:
            n.id = interned[o, *deps, n.dtype, n.data]


class KernelArguments(NamedTuple):
    """The positions of the inputs, literals and bounds checks that a kernel takes among those of
    the program, which are in traversal order; None if it takes all of them in that order."""

    inputs: tuple[int, ...] | None
    literals: tuple[int, ...] | None
    checks: tuple[int, ...] | None


def canonicalize(
    graph: ProgramGraph, roots: Sequence[Node], again: bool = False
) -> tuple[list[Node], KernelArguments]:
    """Numbers the nodes of a new program. Literals share a parameter if they were equal in all
    programs with this structure. Inputs and literals are ordered by first use, because their order
    of creation often changes from one step of a program to the next. Returns the nodes of the
    program's kernel in order, and the kernel's arguments. `again` says that it has a kernel
    already."""
    place = {n.id: k for k, n in enumerate(graph.literals)}
    nodes = graph.ordered()
    if any(n.op.block for n in nodes):
        needed = _needed(roots)
        for n in nodes:
            if n not in needed:  # an operand of a block that no used result depends on
                n.id = -1
        nodes = [n for n in nodes if n in needed]
    nodes = _by_first_use(_topologically_sorted(nodes))
    occurrences = [place[n.id] for n in nodes if n.op is LITERAL]
    assign_numbers(nodes, range(len(occurrences)))
    structure = tuple([n.id for n in roots])
    joint: dict[tuple[int, int], int] = {}
    pairs = zip(_equal.get(structure, occurrences), occurrences, strict=True)
    shared = tuple([joint.setdefault(pair, len(joint)) for pair in pairs])
    if not again:
        _equal[structure] = shared
    if shared != tuple(range(len(occurrences))):  # some share a parameter
        assign_numbers(nodes, shared)
    literals = dict(zip(reversed(shared), reversed(occurrences), strict=True))
    inputs = {n: k for k, n in enumerate(graph.inputs)}
    checks = {n: k for k, n in enumerate(graph.checks)}
    return nodes, KernelArguments(
        _places([inputs[n] for n in nodes if n.op is BUFFER], graph.inputs),
        _places([literals[at] for at in range(len(literals))], graph.literals),
        _places([checks[n] for n in nodes if n.op is _IN_BOUNDS], graph.checks),
    )


def _places(positions: list[int], among: list[Node]) -> tuple[int, ...] | None:
    return None if positions == [*range(len(among))] else tuple(positions)


def _needed(roots: Sequence[Node]) -> set[Node]:
    """Returns the nodes that roots depend on; in loops and branches, by way of the results that are
    used."""
    parts: dict[Node, RegionOperands] = {}
    # The values that a node has if it stands for a variable of a loop or branch.
    behind: dict[Node, tuple[Node, ...]] = {}

    def enter(block: Node) -> RegionOperands:
        operands = parts.get(block)
        if operands is None:
            operands = parts[block] = RegionOperands(block)
            for inside, results in zip(operands.inside, operands.results, strict=True):
                for k, n in enumerate(inside):
                    again = (results[k],) if block.op is op.loop else ()
                    behind[n] = (operands.inputs[k], *again, *behind.get(n, ()))
                    if n in needed:  # by another call of the same body
                        stack.append(operands.inputs[k])
        return operands

    needed: set[Node] = set()
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n in needed:
            continue
        needed.add(n)
        if n.op.block:
            operands = enter(n)
            stack += [e for effects in operands.effects for e in effects]
            if n.op is op.loop:
                stack += (operands.live, operands.outer, operands.test)
            stack += operands.masks
        elif n.op is op.result:
            operands = enter(n.deps[0])
            stack.append(n.deps[0])
            stack += [results[n.data] for results in operands.results]
            if n.deps[0].op is op.loop:
                stack.append(operands.inside[0][n.data])
        elif n.op is _STATE:
            stack += behind.get(n, ())
        else:
            stack += n.deps
    return needed


def _topologically_sorted(nodes: list[Node]) -> list[Node]:
    """Returns the nodes, with the parameters of a shared body moved after the operands of its first
    call, which may be younger."""
    if not any(n.op is op.branch and n.data.shared is not None for n in nodes):
        return nodes
    present = set(nodes)  # the needed nodes of a block
    values = {name: value for name, value in _initial_values(nodes).items() if name in present}
    if all(name.serial > value.serial for name, value in values.items()):
        return nodes
    ordered: dict[Node, None] = {}
    for last in nodes:
        stack = [last]
        while stack:
            n = stack[-1]
            deps = (values[n],) if n in values else n.deps
            waiting = [d for d in deps if d not in ordered and d in present]
            if waiting and n not in ordered:
                stack += waiting
            else:
                ordered[stack.pop()] = None
    return list(ordered)


def _initial_values(nodes: list[Node]) -> dict[Node, Node]:
    """Returns the initial value of each node that stands for a variable or parameter of a loop or
    branch."""
    values: dict[Node, Node] = {}
    for n in nodes:
        if n.op.block:
            parts = RegionOperands(n)
            for inside in parts.inside:
                for name, start in zip(inside, parts.inputs, strict=True):
                    values.setdefault(name, start)
    return values


def _by_first_use(nodes: list[Node]) -> list[Node]:
    """Returns the nodes in order, with inputs and literals placed before their first use."""
    leaves = {n for n in nodes if n.op is LITERAL or n.op is BUFFER}  # those not placed yet
    ordered: list[Node] = []
    behind = _initial_values(nodes)  # the node of a variable may equal it
    for n in nodes:
        if n.op is LITERAL or n.op is BUFFER:
            continue
        for d in (behind[n],) if n in behind else n.deps:
            if d in leaves:
                leaves.remove(d)
                ordered.append(d)
        ordered.append(n)
    return ordered


def _own_states(block: Node) -> int:
    """Returns how many nodes stand for the state or the parameters inside a loop or branch."""
    counts = block.data.counts
    return counts[0] + 1 if block.op is op.loop else counts[0] * len(counts[2])


def _place(effect: Node, places: dict[Any, tuple[int, Node]]) -> int:
    """Returns the number of an effect's target, which is added to `places` if it is new. Expanded
    reductions into one buffer have one target, so that they share the private copies."""
    target = program.shared_target(effect.data) or effect
    return places.setdefault(target, (len(places), effect))[0]


def _are_in_memory(nodes: tuple[Node, ...]) -> bool:
    """Returns whether none of the nodes has to be computed."""
    for n in nodes:  # noqa: SIM110 (`all` would start a generator)
        if n.op is not BUFFER:
            return False
    return True
