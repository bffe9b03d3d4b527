"""The structure of a program: every node gets an integer (`Node.id`) that stands for what it
computes from inputs and literals, so that a program seen before is found by one dictionary look-up,
and common subexpressions are one.

Literals are parameters of kernels, not part of them. Those that are equal share one, though: else
neither a constant that a program names a hundred times nor what is computed from it would be
recognized. Which ones these are is found out when a structure is met first. Two that turn out to
be equal by chance are told apart from then on, so that a number which changes from launch to launch
costs one more kernel, and not one for each value.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from . import op, program
from .effects import BLOCKS, EFFECTS
from .nesting import Parts
from .node import BUFFER, LITERAL, Node


class _Interned(dict[tuple, int]):
    """Numbers things as they come."""

    def __missing__(self, key: tuple) -> int:
        number = self[key] = len(self)
        return number


_interned = _Interned()
_INTERN_LIMIT = 1 << 20
_equal: dict[tuple, tuple[int, ...]] = {}
"""Which literals of a structure share a parameter: the numbers of these by position."""
_STATE, _IN_BOUNDS = op.state, op.in_bounds


Numbered = tuple[list[Node], list[Node], list[Node], list[Any], bool]
"""What a program refers to, in order: its inputs, a literal for each parameter, its bounds checks,
and the effects by which buffers are written to; and whether it has values that are known in the
body of a loop or branch only."""


def is_full() -> bool:
    """Whether so many structures are known that it is time to forget them."""
    return len(_interned) > _INTERN_LIMIT


def forget() -> None:
    """Forgets all structures."""
    _interned.clear()
    _equal.clear()


def is_open(n: Node) -> bool:
    """Whether a value is known only in the body of a loop or branch that is being recorded."""
    seen, todo, states = {n}, [n], 0
    bodies: set[Any] = set()  # that calls share
    while todo:
        a = todo.pop()
        if a.op is _STATE:
            states += 1
        elif a.op in BLOCKS and (a.data.shared is None or a.data.shared not in bodies):
            states -= _own_states(a)
            bodies.add(a.data.shared)
        for d in a.deps:
            if d not in seen:
                seen.add(d)
                todo.append(d)
    return states != 0


def number(nodes: list[Node], shared: Sequence[int] | None = None) -> Numbered:
    """Numbers the nodes of a program, which come in order. Literals share parameters where their
    values are equal, or as `shared` says."""
    inputs: list[Node] = []
    literals: list[Node] = []
    values: dict[Any, int] = {}
    numbers = iter(shared or ())
    checks: list[Node] = []
    places: dict[Any, tuple[int, Any]] = {}
    effects = states = closed = 0
    bodies: set[Any] = set()  # that calls share
    interned = _interned
    for n in nodes:
        o = n.op
        if o.plain:  # most are, and few operands are the rule
            deps = n.deps
            k = len(deps)
            if k == 2:
                a, b = deps
                n.id = interned[o, a.id, b.id]
            elif k == 3:
                a, b, c = deps
                n.id = interned[o, a.id, b.id, c.id]
            else:
                n.id = interned[o, deps[0].id, n.dtype, n.data]
        elif o is LITERAL:
            if shared is None:
                value = n.data
                value = (n.dtype, value or repr(value))  # the two zeros differ
                i = values.get(value)
                if i is None:
                    i = values[value] = interned[o, n.dtype, len(literals)]
                    literals.append(n)
                n.id = i
            else:
                at = next(numbers)
                if at == len(literals):
                    literals.append(n)
                n.id = interned[o, n.dtype, at]
        elif o is BUFFER:
            n.id = interned[o, n.dtype, len(inputs), n.size == 1]
            inputs.append(n)
        elif o is _STATE:
            n.id = interned[o, n.dtype, states, n.data]
            states += 1
        elif o is _IN_BOUNDS:
            n.id = interned[o, *[d.id for d in n.deps], len(checks)]
            checks.append(n)
        elif o in BLOCKS:
            n.id = interned[o, *[d.id for d in n.deps], n.data.static]
            body = n.data.shared
            if body is None or body not in bodies:
                closed += _own_states(n)
                bodies.add(body)
        elif o in EFFECTS:
            n.id = interned[_effect_key(n, places, effects)]
            effects += 1
        else:
            n.id = interned[o, *[d.id for d in n.deps], n.dtype, n.data]
    targets = [e for _, e in places.values()] if places else []
    return inputs, literals, checks, targets, states != closed


class Passed(NamedTuple):
    """The positions of the inputs, literals and bounds checks that a kernel takes, among those of
    the program as it was met."""

    inputs: tuple[int, ...]
    literals: tuple[int, ...]
    checks: tuple[int, ...]


def settle(nodes: list[Node], roots: list[Node], found: Numbered) -> tuple[list[Node], Passed]:
    """Numbers the nodes of a program that is new so that its literals share parameters where they
    did in all programs of its structure, and inputs and literals come in the order of their first
    use: which of them is older often changes from one step of a program to the next. Gives the
    nodes of which its kernel is made, in order, and what that takes."""
    if any(n.op in BLOCKS for n in nodes):
        needed = _needed(roots)
        nodes = [n for n in nodes if n in needed]
    nodes = _by_first_use(_in_order(nodes))
    all_inputs, all_literals, all_checks, _, _ = found
    place = {n.id: k for k, n in enumerate(all_literals)}
    now = [place[n.id] for n in nodes if n.op is LITERAL]
    number(nodes, range(len(now)))
    structure = tuple([n.id for n in roots])
    joint: dict[tuple[int, int], int] = {}
    pairs = zip(_equal.get(structure, now), now, strict=True)
    shared = _equal[structure] = tuple([joint.setdefault(pair, len(joint)) for pair in pairs])
    inputs, _, checks, _, _ = number(nodes, shared)
    literals = dict(zip(reversed(shared), reversed(now), strict=True))
    first = {n: k for k, n in enumerate(all_inputs)}
    second = {n: k for k, n in enumerate(all_checks)}
    return nodes, Passed(
        tuple([first[n] for n in inputs]),
        tuple([literals[at] for at in range(len(literals))]),
        tuple([second[n] for n in checks]),
    )


def _needed(roots: list[Node]) -> set[Node]:
    """The nodes that roots need: of loops and branches, those of the results that are used."""
    parts: dict[Node, Parts] = {}
    # What a node that stands for a variable of a loop or branch takes its values from.
    behind: dict[Node, tuple[Node, ...]] = {}

    def enter(block: Node) -> Parts:
        found = parts.get(block)
        if found is None:
            found = parts[block] = Parts(block)
            for inside, results in zip(found.inside, found.results, strict=True):
                for k, n in enumerate(inside):
                    again = (results[k],) if block.op is op.loop else ()
                    behind[n] = (found.inputs[k], *again, *behind.get(n, ()))
                    if n in needed:  # by another call of the same body
                        stack.append(found.inputs[k])
        return found

    needed: set[Node] = set()
    stack = list(roots)
    while stack:
        n = stack.pop()
        if n in needed:
            continue
        needed.add(n)
        if n.op in BLOCKS:
            found = enter(n)
            stack += [e for effects in found.effects for e in effects]
            if n.op is op.loop:
                stack += (found.live, found.outer, found.test)
            stack += found.masks
        elif n.op is op.result:
            found = enter(n.deps[0])
            stack.append(n.deps[0])
            stack += [results[n.data] for results in found.results]
            if n.deps[0].op is op.loop:
                stack.append(found.inside[0][n.data])
        elif n.op is _STATE:
            stack += behind.get(n, ())
        else:
            stack += n.deps
    return needed


def _in_order(nodes: list[Node]) -> list[Node]:
    """The nodes with what stands for the arguments of a shared body after those of its first call
    among them, which may be younger."""
    if not any(n.op is op.branch and n.data.shared is not None for n in nodes):
        return nodes
    given: dict[Node, Node] = {}
    present = set(nodes)  # of a block, what is needed
    for n in nodes:
        if n.op in BLOCKS:
            parts = Parts(n)
            for inside in parts.inside:
                for name, argument in zip(inside, parts.inputs, strict=True):
                    if name in present:
                        given.setdefault(name, argument)
    if all(name.serial > argument.serial for name, argument in given.items()):
        return nodes
    ordered: dict[Node, None] = {}
    for last in nodes:
        stack = [last]
        while stack:
            n = stack[-1]
            deps = (given[n],) if n in given else n.deps
            waiting = [d for d in deps if d not in ordered and d in present]
            if waiting and n not in ordered:
                stack += waiting
            else:
                ordered[stack.pop()] = None
    return list(ordered)


def _by_first_use(nodes: list[Node]) -> list[Node]:
    """The nodes in order, with inputs and literals where the first node is that uses them."""
    placed: set[Node] = set()
    ordered: list[Node] = []
    # What stands for a variable of a loop or branch may be the same as what it is at first.
    behind: dict[Node, Node] = {}
    for n in nodes:
        if n.op in BLOCKS:
            parts = Parts(n)
            for inside in parts.inside:
                for name, start in zip(inside, parts.inputs, strict=True):
                    behind.setdefault(name, start)
    for n in nodes:
        if n.op is LITERAL or n.op is BUFFER:
            continue
        for d in (behind[n],) if n in behind else n.deps:
            if (d.op is LITERAL or d.op is BUFFER) and d not in placed:
                placed.add(d)
                ordered.append(d)
        ordered.append(n)
    return ordered


def _own_states(block: Node) -> int:
    """How many nodes stand for the state or the arguments inside a loop or branch."""
    counts = block.data.counts
    return counts[0] + 1 if block.op is op.loop else counts[0] * len(counts[2])


def _effect_key(n: Node, places: dict[Any, tuple[int, Any]], number: int) -> tuple:
    """The structure of an effect; no two are the same. `places` gets its target, which expanded
    reductions into one buffer share, and with it the private copies."""
    e = n.data
    place, _ = places.setdefault(program.shared_target(e) or n, (len(places), e))
    return (n.op, *[d.id for d in n.deps], e.static, e.shape, place, number)
