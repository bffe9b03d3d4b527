"""The typed program: what a kernel computes, in order, with nested blocks for loops and branches.
`build` creates one from nodes; `check` verifies that it is well-formed.

A program contains no buffers and no sizes: those are parameters. Targets see only its rendering
(`source.py`).
"""

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from ..ir import op
from ..ir.dtype import DType
from ..ir.nesting import Nesting, Region, RegionOperands, leaked
from ..ir.node import BUFFER, LITERAL, Node
from ..tuples import NamedTuple


class Instr(NamedTuple):
    """One operation. Its operands are numbers of earlier instructions; `param` is the first word of
    the parameter block that it uses."""

    op: op.Op
    dtype: DType
    args: tuple[int, ...]
    data: Any = None
    param: int = 0
    label: str = ""
    rounds: int = 1  # estimated number of executions


class Loop(NamedTuple):
    """A loop, in terms of instruction numbers. `states` are its variables, set to `starts` before
    the loop and to `results` after each iteration of `body`. Lanes in `live`, initially those of
    `active`, continue while `test` computes `condition`.
    """

    states: tuple[int, ...]
    starts: tuple[int, ...]
    results: tuple[int, ...]
    live: int
    active: int
    test: tuple[int, ...]
    condition: int
    body: tuple[int, ...]


class SharedFunction(NamedTuple):
    """A body shared by several calls: the instructions that stand for its arguments, and what it
    needs from outside."""

    parameters: tuple[int, ...]
    returned: tuple[int, ...]


class Case(NamedTuple):
    """A body of a branch: the lanes of `mask` compute `results`. The body of a `function` is called
    with `arguments`."""

    mask: int
    body: tuple[int, ...]
    results: tuple[int, ...]
    function: SharedFunction | None = None
    arguments: tuple[int, ...] = ()


class Branch(NamedTuple):
    """Bodies for the lanes of different masks. `used` lists the positions of the results that are
    needed, and `results` the instructions that stand for them."""

    cases: tuple[Case, ...]
    used: tuple[int, ...]
    results: tuple[int, ...]


class Output(NamedTuple):
    """An output: the value of instruction `value` goes to the buffer in word `param`; an effect has
    no buffer."""

    kind: str  # store, reduce, effect
    dtype: DType
    value: int
    param: int


class Work(NamedTuple):
    """What a launch of a program does, for the choice of how to run it: the number of instructions;
    their estimated `cost` per lane in elementary instructions, and the part of it due to `fused`
    multiply-adds; the same two if operations on whole vectors cost as much as on scalars (`calls`,
    `fused_calls`); whether it only `fills` memory with constants, and whether it might not
    terminate (`loops`)."""

    instructions: int
    cost: int
    fused: int
    calls: int
    fused_calls: int
    fills: bool
    loops: bool


class Program(NamedTuple):
    """Instructions, outputs and the layout of the parameter block. `body` lists the instructions
    outside loops and branches in order.

    The block consists of the error record, followed by inputs, literals, sizes of bounds checks,
    targets of effects, and outputs.
    """

    instrs: tuple[Instr, ...]
    outputs: tuple[Output, ...]
    inputs: tuple[DType, ...]
    literals: tuple[DType, ...]
    checks: int
    effects: tuple[tuple[DType, str], ...]
    words: int
    body: tuple[int, ...] = ()
    streams: bool = False  # results exceed the caches and bypass them

    @property
    def work(self) -> Work:
        """What a launch does."""
        instrs = self.instrs
        calls = [i.op.cost * i.rounds for i in instrs]
        costs = [cost * elements(i) for cost, i in zip(calls, instrs, strict=True)]
        fused = [k for k, i in enumerate(instrs) if i.op.fused]
        return Work(
            len(instrs),
            sum(costs) + len(self.outputs),
            sum([costs[k] for k in fused]),
            sum(calls) + len(self.outputs),
            sum([calls[k] for k in fused]),
            not self.inputs and all(i.op in (op.literal, op.copy) for i in instrs),
            any(type(i.data) is Loop or i.op is op.foreign for i in instrs),
        )


def operands(i: Instr) -> Sequence[int]:
    """Returns the instructions whose values an instruction reads, without those that only name
    memory."""
    if type(i.data) is Loop:
        return (*i.data.starts, i.data.active, *i.data.results, i.data.condition)
    if type(i.data) is Branch:
        return [a for c in i.data.cases for a in (c.mask, *c.results, *c.arguments)]
    words = i.op.words
    return [a for k, a in enumerate(i.args) if k not in words] if words else i.args


def elements(i: Instr) -> int:
    """Returns the number of elements of a vector or matrix that an instruction computes per
    lane."""
    if i.op is op.matvec:
        return i.data[0] * i.data[1]
    if i.op is op.outer:
        return i.data[3] * i.data[4]
    return i.dtype.count


def effect_words(mode: str) -> int:
    """Returns the number of parameter words of an effect: its target and, if there are private
    copies, these and their size."""
    return 3 if mode == "expand" else 1


def shared_target(effect: Any) -> tuple | None:
    """Returns a key that effects have in common if they use the same private copies; None for an
    effect without such copies."""
    return (effect.buffer, effect.reduce) if effect.mode == "expand" else None


def build(nodes: list[Node], roots: list[Node], labels: dict[Node, str] | None = None) -> Program:
    """Builds the program that computes `roots`; `nodes` are all nodes below them in order, with
    structural numbers in `Node.id`.
    """
    builder = _Builder(nodes)
    builder.add(nodes, labels or {})
    outputs = builder.outputs(roots)
    return Program(
        tuple(builder.instrs),
        outputs,
        tuple([n.dtype for n in builder.inputs]),
        tuple([n.dtype.element for n in builder.literals]),
        builder.end_of_checks - builder.first_check,
        tuple(builder.effects),
        builder.words,
        builder.top_level(nodes),
    )


_PLACEHOLDERS = frozenset((op.state, op.result))


class _Builder:
    """A program under construction: its instructions so far, and the instruction of each node,
    whose structural number is the key of `numbers`."""

    def __init__(self, nodes: list[Node]) -> None:
        self.inputs = [n for n in nodes if n.op is BUFFER]
        # Literals that share a parameter have the same number.
        self.literals = [*{n.id: n for n in nodes if n.op is LITERAL}.values()]
        first_literal = 1 + len(self.inputs)
        self.first_check = first_literal + len(self.literals)
        self.end_of_checks = self.first_check + sum(n.op is op.in_bounds for n in nodes)
        self.word = {
            BUFFER: count(1),
            LITERAL: count(first_literal),
            op.in_bounds: count(self.first_check),
        }
        self.words = self.end_of_checks  # words already allocated
        self.numbers: dict[int, int] = {}
        self.instrs: list[Instr] = []
        self.effects: list[tuple[DType, str]] = []
        self.shared: dict[tuple, int] = {}
        self.nesting: Any = Nesting(nodes) if any(n.op.block for n in nodes) else None
        self.used = _used(nodes) if self.nesting else {}
        self.functions: dict[Region, Case] = {}

    def add(self, nodes: list[Node], labels: dict[Node, str]) -> None:
        """Adds the instructions of all nodes."""
        numbers, instrs, nesting = self.numbers, self.instrs, self.nesting
        home, same = (nesting.home, nesting.same) if nesting else ({}, {})
        make = Instr._make  # half the time of a call
        for n in nodes:
            if n.id in numbers:
                continue
            o = n.op
            if n in same:
                numbers[n.id] = numbers[same[n].id]
            elif nesting and o is op.result:
                numbers[n.id] = self._result(n)
            else:
                args = () if o.block else tuple([numbers[d.id] for d in n.deps])
                data, param = (n.data, 0) if o.elementwise else self._data(n)
                rounds = home[n].rounds if n in home else 1
                numbers[n.id] = len(instrs)
                instrs.append(make((o, n.dtype, args, data, param, labels.get(n, ""), rounds)))

    def _data(self, n: Node) -> tuple[Any, int]:
        """Returns an operation's data besides its operands: constants, and the first of its
        words."""
        if n.op in self.word:
            param = next(self.word[n.op])
            if n.op is BUFFER:
                return n.size == 1, param
            return None if n.op is LITERAL else param - self.first_check, param
        if n.op.effect:
            return (*n.data.static, *n.data.shape), self._effect(n.data)
        if self.nesting and n.op is op.loop:
            return self._loop(n), 0
        if self.nesting and n in self.nesting.calls:
            return self._call(n), 0
        return self._branch(n) if n.op is op.branch else n.data, 0

    def _effect(self, effect: Any) -> int:
        """Returns the first of an effect's words."""
        key = shared_target(effect)
        if key is None or key not in self.shared:
            param, self.words = self.words, self.words + effect_words(effect.mode)
            self.effects.append((effect.dtype, effect.mode))
            if key is None:
                return param
            self.shared[key] = param
        return self.shared[key]

    def outputs(self, roots: list[Node]) -> tuple[Output, ...]:
        """Returns the outputs, which occupy the last words."""
        outputs = []
        for n in roots:
            if self.nesting and n in self.nesting.home:
                raise leaked()
            kind = "effect" if n.op.effect or n.op.block else "store"
            kind = "reduce" if n.op is op.reduce else kind
            outputs.append(Output(kind, n.dtype, self.numbers[n.id], self.words))
            self.words += {"reduce": 2, "store": 1, "effect": 0}[kind]
        return tuple(outputs)

    def top_level(self, nodes: list[Node]) -> tuple[int, ...]:
        """Returns the instructions outside all loops and branches."""
        if not self.nesting:
            return tuple(range(len(self.instrs)))
        origin, home = self.nesting.origin, self.nesting.home
        outside = [n for n in nodes if n.op not in _PLACEHOLDERS and origin(n) not in home]
        return tuple(sorted({self.numbers[n.id] for n in outside}))

    def _of(self, nodes: Iterable[Node]) -> tuple[int, ...]:
        """Returns the instructions of some nodes."""
        return tuple([self.numbers[n.id] for n in nodes])

    def _result(self, n: Node) -> int:
        """Returns the instruction that computes a result of a loop or branch."""
        block = n.deps[0]
        if block.op is op.loop:
            # Its variable, after the loop.
            return self.numbers[self.nesting.parts[block].inside[0][n.data].id]
        branch = self.instrs[self.numbers[block.id]].data
        return branch.results[branch.used.index(n.data)]

    def _inside(self, body: Region, needed: set[Node]) -> tuple[int, ...]:
        """Returns the instructions of a body among the needed nodes, in order."""
        inside = [n for n in body.nodes if n in needed and n.op not in _PLACEHOLDERS]
        return tuple(dict.fromkeys(self._of(inside)))

    def _loop(self, n: Node) -> Loop:
        """Returns a loop, restricted to the state that is needed."""
        nesting = self.nesting
        parts, (body,) = nesting.parts[n], nesting.bodies[n]
        (inside,), (results,), (effects,) = parts.inside, parts.results, parts.effects
        tested = nesting.reached(body, [parts.test])
        states = [k for k in self.used.get(n, ()) if inside[k] not in nesting.same]
        while True:
            needed = nesting.reached(body, [*effects, *[results[k] for k in states]])
            known = {*states}
            more = [
                k for k, s in enumerate(inside) if k not in known and (s in needed or s in tested)
            ]
            if not more:
                break
            states += more
        states.sort()
        after = [results[k] for k in states]
        return Loop(
            self._of([inside[k] for k in states]),
            self._of([parts.inputs[k] for k in states]),
            self._of(after),
            self.numbers[parts.live.id],
            self.numbers[parts.outer.id],
            self._inside(body, tested),
            self.numbers[parts.test.id],
            self._inside(body, needed),
        )

    def _branch(self, n: Node) -> Branch:
        """Returns a branch, restricted to the results that are needed, each with an instruction of
        its own."""
        parts, used = self.nesting.parts[n], self.used.get(n, ())
        cases = []
        for k, body in enumerate(self.nesting.bodies[n]):
            results = [parts.results[k][j] for j in used]
            inside = self._inside(body, self.nesting.reached(body, [*parts.effects[k], *results]))
            cases.append(Case(self.numbers[parts.masks[k].id], inside, self._of(results)))
        return Branch(tuple(cases), tuple(used), self._results(parts, used))

    def _results(self, parts: RegionOperands, used: Sequence[int]) -> tuple[int, ...]:
        first = len(self.instrs)
        self.instrs += [Instr(op.result, parts.results[0][k].dtype, ()) for k in used]
        return tuple(range(first, first + len(used)))

    def _call(self, n: Node) -> Branch:
        """Returns one of several calls that share a body, which computes what any of them needs."""
        nesting, used = self.nesting, self.used
        parts, (body,) = nesting.parts[n], nesting.bodies[n]
        parameters = body.arguments or []
        shared_case = self.functions.get(body)
        if shared_case is None:
            (inside,), computed = parts.inside, n.data.shared.results
            wanted = {k for m in nesting.calls[n] for k in used.get(m, ()) if k in computed}
            returned = [parts.results[0][k] for k in sorted(wanted)]
            function = SharedFunction(self._of([inside[k] for k in parameters]), self._of(returned))
            needed = nesting.reached(body, returned)
            shared_case = Case(0, self._inside(body, needed), (), function)
            self.functions[body] = shared_case
        own = used.get(n, ())
        case = shared_case._replace(
            mask=self.numbers[parts.masks[0].id],
            results=self._of([parts.results[0][k] for k in own]),
            arguments=self._of([parts.inputs[k] for k in parameters]),
        )
        return Branch((case,), tuple(own), self._results(parts, own))


def _used(nodes: list[Node]) -> dict[Node, list[int]]:
    """Returns the positions of the needed results of each block."""
    positions: dict[Node, set[int]] = {}
    for n in nodes:
        if n.op is op.result:
            positions.setdefault(n.deps[0], set()).add(n.data)
    return {block: sorted(numbers) for block, numbers in positions.items()}


def check(p: Program) -> None:
    """Verifies that a program is well-formed.

    Raises:
        ValueError: an operand comes after its use or has the wrong type, or a parameter lies
            outside the block.
    """
    for number, i in enumerate(p.instrs):
        row = i.op
        where = f"instruction {number} ({row.name})"
        if any(not 0 <= a < number for a in i.args):
            raise ValueError(f"{where}: an operand comes later than its use")
        if not 0 <= i.param < p.words:
            raise ValueError(f"{where}: parameter {i.param} is outside of the block")
        types = [p.instrs[a].dtype for a in i.args]
        if row.kind in ("prefix", "infix", "call"):
            want = types[1] if row.result == "second" else types[0]
            rest = types[1:] if row.result == "second" else types
            result = want.mask_type if row.result == "mask" else want
            if i.dtype is not result or any(t is not want for t in rest):
                raise ValueError(f"{where}: operand types {types} do not give {i.dtype}")
        if row in (op.gather, op.packet) and not types[2].is_mask:
            raise ValueError(f"{where}: the last operand is not a mask")
        if type(i.data) is Loop:
            _check_loop(p, i.data, where)
        elif type(i.data) is Branch:
            _check_branch(p, i.data, where)
    for o in p.outputs:
        if not 0 <= o.value < len(p.instrs) or not o.param <= p.words:
            raise ValueError(f"output {o} refers to nothing")


def _check_loop(p: Program, loop: Loop, where: str) -> None:
    for state, start, result in zip(loop.states, loop.starts, loop.results, strict=True):
        types = {p.instrs[k].dtype for k in (state, start, result)}
        if len(types) > 1:
            raise ValueError(f"{where}: a state variable has several types, {types}")
    if any(not p.instrs[k].dtype.is_mask for k in (loop.live, loop.active, loop.condition)):
        raise ValueError(f"{where}: the condition is not a mask")


def _check_branch(p: Program, branch: Branch, where: str) -> None:
    for case in branch.cases:
        if not p.instrs[case.mask].dtype.is_mask:
            raise ValueError(f"{where}: the condition of a case is not a mask")
        for result, value in zip(branch.results, case.results, strict=True):
            if p.instrs[result].dtype is not p.instrs[value].dtype:
                raise ValueError(f"{where}: cases give different types")
