"""The typed program: what a kernel computes, in order, with nested blocks for loops and branches.
`build` makes one from nodes, `check` states what a well-formed one is.

A program knows no buffers and no sizes: those are parameters. Its rendering (`source.py`) is all
that a target sees.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from . import op
from .dtype import DType
from .nesting import Body, Nesting, Parts, leaked
from .node import BUFFER, LITERAL, Node


class Instr(NamedTuple):
    """One operation: its operands are numbers of earlier instructions, `param` the first word it
    uses of the parameter block.
    """

    op: op.Op
    dtype: DType
    args: tuple[int, ...]
    data: Any = None
    param: int = 0
    label: str = ""
    rounds: int = 1  # how often it runs, by estimate

    @property
    def cost(self) -> int:
        """Estimated elementary instructions a lane."""
        return self.op.cost * elements(self) * self.rounds


class Loop(NamedTuple):
    """What a loop does, as numbers of instructions: `states` are its variables, set to `starts`
    before the loop and to `results` after each round of `body`; the lanes of `live` go on, at first
    those of `active`, while `test` gives `condition`.
    """

    states: tuple[int, ...]
    starts: tuple[int, ...]
    results: tuple[int, ...]
    live: int
    active: int
    test: tuple[int, ...]
    condition: int
    body: tuple[int, ...]


class Function(NamedTuple):
    """A body that several calls share: what stands for their arguments, and what they need."""

    parameters: tuple[int, ...]
    returned: tuple[int, ...]


class Case(NamedTuple):
    """A body of a branch: the lanes of `mask` compute `results`. If it is that of a `function`,
    this is called with `arguments`."""

    mask: int
    body: tuple[int, ...]
    results: tuple[int, ...]
    function: Function | None = None
    arguments: tuple[int, ...] = ()


class Branch(NamedTuple):
    """Bodies for the lanes of different masks. `used` numbers the results that somebody needs,
    `results` the instructions that stand for them."""

    cases: tuple[Case, ...]
    used: tuple[int, ...]
    results: tuple[int, ...]


class Output(NamedTuple):
    """A result: instruction `value` goes to the buffer at word `param`; an effect has none."""

    kind: str  # store, reduce, effect
    dtype: DType
    value: int
    param: int


class Program(NamedTuple):
    """Instructions, outputs and the layout of the parameter block. `body` lists the instructions
    outside of loops and branches in order.

    Words of the block: the error record, then inputs, literals, sizes of bounds checks, targets of
    effects, outputs.
    """

    instrs: tuple[Instr, ...]
    outputs: tuple[Output, ...]
    inputs: tuple[DType, ...]
    literals: tuple[DType, ...]
    checks: int
    effects: tuple[tuple[DType, str], ...]
    words: int
    body: tuple[int, ...] = ()
    streams: bool = False  # results are too big for the caches and written past them

    @property
    def cost(self) -> int:
        """Estimated elementary instructions a lane."""
        return sum([i.cost for i in self.instrs]) + len(self.outputs)

    def calls(self, fused: int) -> int:
        """The same where all elements of a vector count as one, and fused multiply-adds `fused`
        times more."""
        costs = [i.op.cost * i.rounds * (1 + fused if i.op.fused else 1) for i in self.instrs]
        return sum(costs) + len(self.outputs)

    @property
    def fills(self) -> bool:
        """Whether it fills memory with constants."""
        return not self.inputs and all(i.op in (op.literal, op.copy) for i in self.instrs)

    @property
    def has_loops(self) -> bool:
        """Whether it may run for ever."""
        return any(type(i.data) is Loop for i in self.instrs)

    @property
    def fused(self) -> int:
        """The part of the cost that is due to fused multiply-adds."""
        return sum([i.cost for i in self.instrs if i.op.fused])


def elements(i: Instr) -> int:
    """How many elements of a vector or matrix an instruction computes for each lane."""
    if i.op is op.matvec:
        return i.data[0] * i.data[1]
    if i.op is op.outer:
        return i.data[3] * i.data[4]
    return i.dtype.count


def effect_words(mode: str) -> int:
    """Words of the parameter block that an effect uses: its target; per-thread copies and their
    size.
    """
    return 3 if mode == "expand" else 1


def shared_target(effect: Any) -> tuple | None:
    """What effects of a program that use the same private copies have in common; None if there are
    no such copies."""
    return (effect.buffer, effect.reduce) if effect.mode == "expand" else None


def build(nodes: list[Node], roots: list[Node], labels: dict[Node, str] | None = None) -> Program:
    """The program that computes `roots`; `nodes` are all nodes below them in order, with structural
    numbers in `Node.id`.
    """
    inputs = [n for n in nodes if n.op is BUFFER]
    # Literals that share a parameter have the same number.
    literals = [*{n.id: n for n in nodes if n.op is LITERAL}.values()]
    checks = sum(n.op is op.in_bounds for n in nodes)
    first_literal = 1 + len(inputs)
    first_check = first_literal + len(literals)
    word = {"input": 1, "literal": first_literal, "check": first_check}
    next_word = first_check + checks
    numbers: dict[int, int] = {}
    instrs: list[Instr] = []
    effects: list[tuple[DType, str]] = []
    shared: dict[tuple, int] = {}
    labels = labels or {}
    nesting = Nesting(nodes) if any(n.op.block for n in nodes) else None
    used = _used(nodes) if nesting else {}
    functions: dict[Body, Case] = {}
    home, same = (nesting.home, nesting.same) if nesting else ({}, {})
    for n in nodes:
        if n.id in numbers:
            continue
        body = home.get(n)
        if n in same:
            numbers[n.id] = numbers[same[n].id]
            continue
        if n.op.plain:
            args = tuple([numbers[d.id] for d in n.deps])
            numbers[n.id] = len(instrs)
            rounds = body.rounds if body else 1
            label = labels.get(n, "") if labels else ""
            instrs.append(Instr(n.op, n.dtype, args, n.data, 0, label, rounds))
            continue
        if nesting and n.op is op.result:
            numbers[n.id] = _result(n, nesting, numbers, instrs)
            continue
        args = tuple([numbers[d.id] for d in n.deps]) if not n.op.block else ()
        data, param = n.data, 0
        if n.op is BUFFER:
            data, param = n.size == 1, word["input"]
            word["input"] += 1
        elif n.op is LITERAL:
            data, param = None, word["literal"]
            word["literal"] += 1
        elif n.op is op.in_bounds:
            data, param = word["check"] - first_check, word["check"]
            word["check"] += 1
        elif n.op.effect:
            key = shared_target(n.data)
            data = (*n.data.static, *n.data.shape)
            param = shared.get(key, next_word) if key else next_word
            if param == next_word:
                effects.append((n.data.dtype, n.data.mode))
                next_word += effect_words(n.data.mode)
                if key:
                    shared[key] = param
        elif nesting and n.op is op.loop:
            data = _loop(n, used.get(n, ()), nesting, numbers)
        elif nesting and n in nesting.calls:
            data = _call(n, used, nesting, numbers, instrs, functions)
        elif nesting and n.op is op.branch:
            data = _branch(n, used.get(n, ()), nesting, numbers, instrs)
        numbers[n.id] = len(instrs)
        rounds = body.rounds if body else 1
        instrs.append(Instr(n.op, n.dtype, args, data, param, labels.get(n, ""), rounds))
    outputs = []
    for n in roots:
        if nesting and n in nesting.home:
            raise leaked()
        kind = "store"
        if n.op is op.reduce:
            kind = "reduce"
        elif n.op.effect or n.op.block:
            kind = "effect"
        outputs.append(Output(kind, n.dtype, numbers[n.id], next_word))
        next_word += {"reduce": 2, "store": 1, "effect": 0}[kind]
    top = range(len(instrs))
    if nesting:
        at_top = [
            n for n in nodes
            if n.op not in SYMBOLS and (nesting.origin(n) if n in same else n) not in home
        ]  # fmt: skip
        top = sorted({numbers[n.id] for n in at_top})
    return Program(
        tuple(instrs),
        tuple(outputs),
        tuple([n.dtype for n in inputs]),
        tuple([n.dtype.element for n in literals]),
        checks,
        tuple(effects),
        next_word,
        tuple(top),
    )


SYMBOLS = frozenset((op.state, op.result))


def _result(n: Node, nesting: Nesting, numbers: dict[int, int], instrs: list[Instr]) -> int:
    """The instruction that gives a result of a loop or branch."""
    block = n.deps[0]
    if block.op is op.loop:
        return numbers[nesting.parts[block].inside[0][n.data].id]  # its variable, after the loop
    branch = instrs[numbers[block.id]].data
    return branch.results[branch.used.index(n.data)]


def _used(nodes: list[Node]) -> dict[Node, list[int]]:
    """The numbers of the results of blocks that somebody needs."""
    found: dict[Node, set[int]] = {}
    for n in nodes:
        if n.op is op.result:
            found.setdefault(n.deps[0], set()).add(n.data)
    return {block: sorted(numbers) for block, numbers in found.items()}


def _inside(body: Body, wanted: list[Node], nesting: Nesting, numbers: dict[int, int]) -> tuple:
    """The instructions of a body that some values need, in order."""
    needed = nesting.reached(body, wanted)
    found = [numbers[n.id] for n in body.nodes if n in needed and n.op not in SYMBOLS]
    return tuple(dict.fromkeys(found))


def _loop(n: Node, used: Sequence[int], nesting: Nesting, numbers: dict[int, int]) -> Loop:
    """A loop with the state that somebody needs."""
    parts, (body,) = nesting.parts[n], nesting.bodies[n]
    (inside,), (results,), (effects,) = parts.inside, parts.results, parts.effects
    wanted = [parts.test, *effects]
    states = [k for k in used if inside[k] not in nesting.same]
    while True:
        needed = nesting.reached(body, wanted + [results[k] for k in states])
        more = [k for k, s in enumerate(inside) if s in needed and k not in states]
        if not more:
            break
        states += more
    states.sort()
    return Loop(
        tuple([numbers[inside[k].id] for k in states]),
        tuple([numbers[parts.inputs[k].id] for k in states]),
        tuple([numbers[results[k].id] for k in states]),
        numbers[parts.live.id],
        numbers[parts.outer.id],
        _inside(body, [parts.test], nesting, numbers),
        numbers[parts.test.id],
        _inside(body, [*effects, *[results[k] for k in states]], nesting, numbers),
    )


def _branch(
    n: Node, used: Sequence[int], nesting: Nesting, numbers: dict[int, int], instrs: list[Instr]
) -> Branch:
    """A branch with the results that somebody needs, each an instruction of its own."""
    parts = nesting.parts[n]
    cases = []
    for k, body in enumerate(nesting.bodies[n]):
        results = [parts.results[k][j] for j in used]
        inside = _inside(body, [*parts.effects[k], *results], nesting, numbers)
        mask = numbers[parts.masks[k].id]
        cases.append(Case(mask, inside, tuple([numbers[r.id] for r in results])))
    return Branch(tuple(cases), tuple(used), _results(parts, used, instrs))


def _results(parts: Parts, used: Sequence[int], instrs: list[Instr]) -> tuple[int, ...]:
    first = len(instrs)
    instrs += [Instr(op.result, parts.results[0][k].dtype, ()) for k in used]
    return tuple(range(first, first + len(used)))


def _call(
    n: Node,
    used: dict[Node, list[int]],
    nesting: Nesting,
    numbers: dict[int, int],
    instrs: list[Instr],
    functions: dict[Body, Case],
) -> Branch:
    """One of several calls that share a body, which has what one of them needs."""
    parts, (body,) = nesting.parts[n], nesting.bodies[n]
    found = functions.get(body)
    if found is None:
        (inside,), computed = parts.inside, n.data.shared.results
        wanted = sorted({k for m in nesting.calls[n] for k in used.get(m, ()) if k in computed})
        returned = [parts.results[0][k] for k in wanted]
        parameters = body.arguments or []
        found = functions[body] = Case(
            0,
            _inside(body, returned, nesting, numbers),
            (),
            Function(
                tuple([numbers[inside[k].id] for k in parameters]),
                tuple([numbers[r.id] for r in returned]),
            ),
        )
    own = used.get(n, ())
    case = found._replace(
        mask=numbers[parts.masks[0].id],
        results=tuple([numbers[parts.results[0][k].id] for k in own]),
        arguments=tuple([numbers[parts.inputs[k].id] for k in body.arguments or []]),
    )
    return Branch((case,), tuple(own), _results(parts, own, instrs))


def check(p: Program) -> None:
    """States what a well-formed program is.

    Raises:
        ValueError: an operand comes later than its use, has the wrong type, or a parameter is out
        of the block.
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
