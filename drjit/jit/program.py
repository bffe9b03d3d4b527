"""The linear, typed program: what a kernel computes, in order. `build` makes one from nodes,
`check` states what a well-formed one is.

A program knows no buffers and no sizes: those are parameters. Its rendering (`source.py`) is all
that a target sees.
"""

from typing import Any, NamedTuple

from . import dtype as dt
from . import op
from .dtype import DType
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


class Output(NamedTuple):
    """A result: instruction `value` goes to the buffer at word `param`; an effect has none."""

    kind: str  # store, reduce, effect
    dtype: DType
    value: int
    param: int


class Program(NamedTuple):
    """Instructions, outputs and the layout of the parameter block.

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
    streams: bool = False  # results are too big for the caches and written past them

    @property
    def cost(self) -> int:
        """Estimated elementary instructions a lane."""
        return sum(i.op.cost for i in self.instrs) + len(self.outputs)

    @property
    def fused(self) -> int:
        """The part of the cost that is due to fused multiply-adds."""
        return sum(i.op.cost for i in self.instrs if i.op.name in op.FUSED)


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
    literals = [n for n in nodes if n.op is LITERAL]
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
    for n in nodes:
        if n.id in numbers:
            continue
        args = tuple([numbers[d.id] for d in n.deps])
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
        elif n.op.text == "scatter":
            key = shared_target(n.data)
            data, param = n.data.static, shared.get(key, next_word) if key else next_word
            if param == next_word:
                effects.append((n.data.dtype, n.data.mode))
                next_word += effect_words(n.data.mode)
                if key:
                    shared[key] = param
        numbers[n.id] = len(instrs)
        instrs.append(Instr(n.op, n.dtype, args, data, param, labels.get(n, "")))
    outputs = []
    for n in roots:
        kind = "reduce" if n.op is op.reduce else "effect" if n.op.text == "scatter" else "store"
        outputs.append(Output(kind, n.dtype, numbers[n.id], next_word))
        next_word += {"reduce": 2, "store": 1, "effect": 0}[kind]
    return Program(
        tuple(instrs),
        tuple(outputs),
        tuple([n.dtype for n in inputs]),
        tuple([n.dtype for n in literals]),
        checks,
        tuple(effects),
        next_word,
    )


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
            result = dt.mask if row.result == "mask" else want
            if i.dtype is not result or any(t is not want for t in rest):
                raise ValueError(f"{where}: operand types {types} do not give {i.dtype}")
        if row in (op.gather, op.packet) and not types[2].is_mask:
            raise ValueError(f"{where}: the last operand is not a mask")
    for o in p.outputs:
        if not 0 <= o.value < len(p.instrs) or not o.param <= p.words:
            raise ValueError(f"output {o} refers to nothing")
