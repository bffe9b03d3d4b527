"""Program -> kernel text: one statement an operation, with stable names: `x` inputs, `c` literals,
`v` values.
"""

from collections.abc import Callable

from . import op
from .program import Instr, Program


def _call(name: str, args: list[str]) -> str:
    return f"{name}({', '.join(args)})"


def _operator(i: Instr, a: list[str]) -> str:
    if i.op.kind == "prefix":
        return f"{i.op.text}{a[0]}"
    if i.op.kind == "infix":
        return f"{a[0]} {i.op.text} {a[1]}"
    # A constant that code depends on (a shift count, a divisor) is part of the text.
    constant = [] if i.data is None else [str(i.data)]
    return _call(i.op.text, a + constant)


def _load(i: Instr, a: list[str]) -> str:
    if i.data:
        return f"broadcast({i.dtype.code}, p[{i.param}])"
    return f"load({i.dtype.code}, p[{i.param}], i)"


def _in_bounds(i: Instr, a: list[str]) -> str:
    return f"in_bounds(p[0], {i.data}, {a[0]}, p[{i.param}], {a[1]})"


def _scatter(i: Instr, a: list[str]) -> str:
    code = i.dtype.code
    _, reduce, mode = i.data
    target = f"p[{i.param}]"
    if i.op is op.scatter_reduce:
        if mode == "expand":
            words = [target, f"p[{i.param + 1}]", f"p[{i.param + 2}]"]
            return _call("scatter_reduce_expand", [code, repr(reduce), *words, *a])
        return _call("scatter_reduce", [code, repr(reduce), repr(mode), target, *a])
    if i.op is op.scatter_reduce_packet:
        *values, index, active = a
        words = [target, f"p[{i.param + 1}]", f"p[{i.param + 2}]"]
        return _call(i.op.name, [code, repr(reduce), *words, index, active, *values])
    if i.op is op.scatter_packet:
        *values, index, active = a
        return _call("scatter_packet", [code, target, index, active, *values])
    return _call(i.op.name, [code, target, *a])


RENDER: dict[str, Callable[[Instr, list[str]], str]] = {
    "prefix": _operator,
    "infix": _operator,
    "call": _operator,
    "cast": lambda i, a: f"{i.dtype.code}({a[0]})",
    "bitcast": lambda i, a: f"bitcast({i.dtype.code}, {a[0]})",
    "literal": lambda i, a: f"literal({i.dtype.code}, p[{i.param}])",
    "load": _load,
    "lane": lambda i, a: "lane(i)",
    "active": lambda i, a: "active(i)",
    "in_bounds": _in_bounds,
    "gather": lambda i, a: _call("gather", [i.dtype.code, *a]),
    "packet": lambda i, a: _call("gather_packet", [i.dtype.code, *a, str(i.data)]),
    "scatter": _scatter,
    "scatter_packet": _scatter,
    "scatter_reduce": _scatter,
    "scatter_reduce_packet": _scatter,
    "scatter_inc": _scatter,
    "scatter_exch": _scatter,
    "scatter_cas": _scatter,
}


_EFFECTS_WITHOUT_VALUE = ("scatter", "scatter_packet", "scatter_reduce", "scatter_reduce_packet")


def render(program: Program) -> str:
    """The kernel text of a program."""
    instrs = program.instrs
    names: list[str] = []
    lines = ["def kernel(i, p):"]
    read = _read_as_values(program)
    pairs = _sines_and_cosines(program)
    others: dict[int, str] = {}
    values = 0
    for number, i in enumerate(instrs):
        if number in others:
            names.append(others[number])
            continue
        kind = i.op.kind
        args = [names[a] for a in i.args]
        if kind in ("copy", "reduce"):
            names.append(args[0])
            continue
        if kind == "component":
            packet = instrs[i.args[0]].op is op.packet
            names.append(f"{args[0]}_{i.data}" if packet else args[0])
            continue
        if kind == "load":
            names.append(f"x{i.param - 1}")
            if number not in read:
                continue  # only gathered from
        elif kind == "literal":
            names.append(f"c{i.param - 1 - len(program.inputs)}")
        else:
            names.append(f"v{values}")
            values += kind not in _EFFECTS_WITHOUT_VALUE
        if number in pairs:
            both = [f"v{values - 1}", f"v{values}"]
            values += 1
            sine, cosine = both if i.op is op.sin else both[::-1]
            others[pairs[number]] = both[1]
            lines.append(f"    {sine}, {cosine} = sincos({args[0]})")
            continue
        if kind in ("gather", "packet"):
            args[0] = f"p[{instrs[i.args[0]].param}]"
        text = RENDER[kind](i, args)
        if kind == "packet":
            text = ", ".join(f"{names[-1]}_{j}" for j in range(i.data)) + f" = {text}"
        elif kind not in _EFFECTS_WITHOUT_VALUE:
            text = f"{names[-1]} = {text}"
        lines.append(f"    {text}" + (f"  # {i.label}" if i.label else ""))
    for o in program.outputs:
        value, code = names[o.value], o.dtype.code
        if o.kind == "store":
            how = "stream" if program.streams else "store"
            lines.append(f"    {how}({code}, p[{o.param}], i, {value})")
        elif o.kind == "reduce":
            words = f"p[{o.param}], p[{o.param + 1}]"
            lines.append(f"    reduce({code}, {instrs[o.value].data!r}, {words}, i, {value})")
    return "\n".join(lines) + "\n"


def _sines_and_cosines(program: Program) -> dict[int, int]:
    """Sines and cosines of one value, which one call gives: the first of the two, and the other.

    Those with a label keep a statement of their own, for a comment and for debuggers.
    """
    first: dict[int, int] = {}
    pairs: dict[int, int] = {}
    for number, i in enumerate(program.instrs):
        if i.op in (op.sin, op.cos) and not i.label:
            before = first.setdefault(i.args[0], number)
            if program.instrs[before].op is not i.op:
                pairs[before] = number
    return pairs


def _read_as_values(program: Program) -> set[int]:
    """Instructions whose value is an operand, not just the source of a gather."""
    used = {o.value for o in program.outputs}
    for i in program.instrs:
        used.update(i.args[1:] if i.op in (op.gather, op.packet) else i.args)
    return used
