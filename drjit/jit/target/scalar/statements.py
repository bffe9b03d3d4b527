"""What statements on lanes and memory become in an exported function: a table of rules for each
place where they may stand. `w` is the writer of the kernel."""

# Statements have the forms of the language, so that syntax trees are not examined further.
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportArgumentType=false

from ast import Constant, unparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ...ir.dtype import BY_CODE, VECTOR_BLOCK
from ...ir.op import ignored, neutral
from ..language import STATEMENTS
from .expressions import FLOATS, Fragment, NameScope, constant
from .module import ExportedModule

if TYPE_CHECKING:
    from .kernel import KernelWriter


class Fold(NamedTuple):
    """A reduction over lanes, or a target with private copies: its operation, element type and
    words."""

    op: str
    code: str
    word: int


def ignored_constant(op: str, code: str) -> str:
    """Returns the text of the number that leaves memory unchanged: see `op.ignored`."""
    return constant(code, ignored(op, BY_CODE[code]))


def fold(module: ExportedModule, op: str, code: str, x: str, y: str) -> str:
    """Returns the combination of two values, of which the second is the new one."""
    if op in ("min", "max"):
        text = f"{module.use('f' + op)}({x}, {y})"
        return text if code in FLOATS else f"{code}({text})" if code != "mask" else text
    symbol = {"add": "+", "mul": "*", "and": "&", "or": "|"}[op]
    text = f"{x} {symbol} {y}"
    return text if code in ("f32", "f64", "mask") else f"{code}({text})"


def neutral_constant(r: Fold) -> str:
    """Returns the value at which a reduction starts."""
    return constant(r.code, neutral(r.op, BY_CODE[r.code]))


def _element(w: "KernelWriter", args: list[Any], at: str) -> Fragment:
    """The element of an array, for `load` and `broadcast`."""
    code = args[0].id
    return Fragment(code, w.element(code, w.word(args[1]), at), True)


def _gather(w: "KernelWriter", scope: NameScope, args: list[Any]) -> Fragment:
    code = args[0].id
    x, m = scope.expr(args[2]), scope.expr(args[3])
    text = w.element(code, w.word(args[1]), x.text)
    return Fragment(code, f"{text} if {m.inner} else {constant(code, 0)}")


def _in_bounds(w: "KernelWriter", scope: NameScope, args: list[Any]) -> Fragment:
    x, m = scope.expr(args[2]), scope.expr(args[4])
    index = args[3].slice
    at = str(index.value - w.first_check) if isinstance(index, Constant) else (
        f"{unparse(index)} - {w.first_check}"
    )  # fmt: skip
    site = unparse(args[1])
    size = w.uniform_size(at) if at.isdecimal() and scope.cases else f"sizes[{at}]"
    given = f"error, {site}, u64({x.text}), {size}, {m.text}, i"
    if scope.cases:
        text = f"{w.module.use('inside_tile')}({given}, full, rare)"
        return Fragment("", text, several=("mask",), cases=True)
    return Fragment("mask", f"{w.module.use('inside')}({given})", True)


def _feature(w: "KernelWriter", scope: NameScope, args: list[Any]) -> Fragment:
    name, k = args[0].id, args[1].value
    at = str(k) if name in w.uniform_vectors else f"{k}, k"
    return Fragment(w.vectors[name][0], f"{name}_[{at}]", True)


def _take(w: "KernelWriter", scope: NameScope, args: list[Any]) -> Fragment:
    name = args[0].id
    code = w.vectors[name][0]
    x, m = scope.expr(args[1]), scope.expr(args[2])
    return Fragment(code, f"{name}_[{x.text}, k] if {m.inner} else {constant(code, 0)}")


MEMORY: dict[str, Callable[[Any, NameScope, list[Any]], Fragment]] = {
    "lane": lambda w, s, a: Fragment("u32", "u32(i)", True),
    "active": lambda w, s, a: Fragment("mask", "True", True),
    "going": lambda w, s, a: s.expr(a[1]),
    "load": lambda w, s, a: _element(w, a, "i"),
    "broadcast": lambda w, s, a: _element(w, a, "0"),
    "literal": lambda w, s, a: Fragment(a[0].id, w.word(a[1]), True),
    "gather": _gather, "in_bounds": _in_bounds, "feature": _feature, "take": _take,
}  # fmt: skip


def _entry(x: Fragment, count: int, j: int) -> str:
    """Where entry `j` of record `x` is in memory."""
    return f"u64({x.text}) * u64({count}) + u64({j})" if count > 1 else x.text


def _packet(w: "KernelWriter", targets: list[str], args: list[Any]) -> list[str]:
    code, array = args[0].id, w.word(args[1])
    x, m = w.scope.expr(args[2]), w.scope.expr(args[3])
    w.scope.codes.update(dict.fromkeys(targets, code))
    texts = [w.element(code, array, _entry(x, len(targets), j)) for j in range(len(targets))]
    zero = constant(code, 0)
    return [f"{t} = {v} if {m.inner} else {zero}" for t, v in zip(targets, texts, strict=True)]


def _weighted(w: "KernelWriter", targets: list[str], args: list[Any]) -> list[str]:
    code, array = args[0].id, w.word(args[1])
    m, count = w.scope.expr(args[2]), len(targets)
    taps = [w.scope.expr(a) for a in args[4:]]
    w.module.use("fma")
    lines = [f"{t} = {constant(code, 0)}" for t in targets]
    w.scope.codes.update(dict.fromkeys(targets, code))
    lines.append(f"if {m.text}:")
    for j, t in enumerate(targets):
        sides = ["", ""]
        for k in range(0, len(taps), 2):
            element = w.element(code, array, _entry(taps[k], count, j))
            side, weight = k // 2 % 2, taps[k + 1].text
            text = f"fma({weight}, {element}, {sides[side]})" if sides[side] else (
                f"{weight} * {element}"
            )  # fmt: skip
            sides[side] = w.scope.wrapped(code, text).text
        text = " + ".join([s for s in sides if s])
        lines.append(f"    {t} = {w.scope.wrapped(code, text).text if sides[1] else text}")
    return lines


def _vector(w: "KernelWriter", targets: list[str], args: list[Any]) -> list[str]:
    code, (name,) = args[0].id, targets
    w.vectors[name] = code, len(args) - 1
    values = [w.scope.typed(w.scope.expr(a), code) for a in args[1:]]
    w.group().read([name])  # its array
    lines: list[str] = []
    first = 0
    for j, v in enumerate(values):  # equal features that follow each other are a loop
        if j + 1 < len(values) and values[j + 1].text == v.text:
            continue
        if j - first < 3:
            lines += [f"{name}_[{f}, k] = {v.text}" for f in range(first, j + 1)]
        else:
            head = f"for f in range({first}, {j + 1}):"
            lines += [head, f"    {name}_[f, k] = {v.text}"]
        first = j + 1
    return lines


def _total(w: "KernelWriter", targets: list[str], args: list[Any]) -> list[str]:
    name, (t,) = args[0].id, targets
    code, count = w.vectors[name]
    w.scope.codes[t] = code
    lines = [
        f"{t} = {constant(code, 0)}",
        f"for f in range({count}):",
        f"    {t} += {name}_[f, k]",
    ]
    if code == "f16":
        lines.append(f"{t} = {w.module.use('half')}({t})")
    elif code not in FLOATS:
        lines[-1] = f"    {t} = {code}({t} + {name}_[f, k])"
    return lines


def _put(w: "KernelWriter", targets: list[str], args: list[Any]) -> list[str]:
    name, (t,) = args[0].id, targets
    code, count = w.vectors[name]
    w.vectors[t] = code, count
    at = w.scope.typed(w.scope.expr(args[1]), "i64")
    value, m = w.scope.expr(args[2]), w.scope.expr(args[3])
    w.group().read([t])
    lines = [f"for f in range({count}):", f"    {t}_[f, k] = {name}_[f, k]"] if t != name else []
    text = w.scope.typed(value, code).text
    return [*lines, f"if {m.text}:", f"    {t}_[{at.text}, k] = {text}"]


def _load_vector(w: "KernelWriter", targets: list[str], args: list[Any], at: str = "") -> list[str]:
    code, count, (t,) = args[0].id, args[1].value, targets
    w.vectors[t] = code, count
    w.group().read([t])
    text = w.element(code, w.word(args[2]), at or _place(count))
    return [f"for f in range({count}):", f"    {t}_[f, k] = {text}"]


def _broadcast_vector(w: "KernelWriter", targets: list[str], args: list[Any]) -> list[str]:
    return _load_vector(w, targets, args, f"f * {VECTOR_BLOCK}")


def _place(count: int) -> str:
    """Where feature `f` of lane `i` is in a buffer of vectors."""
    block = f"u64({VECTOR_BLOCK})"
    return f"i // {block} * u64({VECTOR_BLOCK * count}) + u64({VECTOR_BLOCK} * f) + i % {block}"


def _old_value(
    w: "KernelWriter", targets: list[str], args: list[Any], new: str, test: str
) -> list[str]:
    code, array, (t,) = args[0].id, w.word(args[1]), targets
    w.sequential = True
    x, m = w.scope.expr(args[-2]), w.scope.expr(args[-1])
    w.scope.codes[t] = code
    put = w.put(code, array, x.text, Fragment(code, new))
    lines = [
        f"{t} = {constant(code, 0)}",
        f"if {m.text}:",
        f"    {t} = {w.element(code, array, x.text)}",
    ]
    return [*lines, f"    if {test}:", f"        {put}"] if test else [*lines, f"    {put}"]


def _inc(w: "KernelWriter", targets: list[str], args: list[Any]) -> list[str]:
    code = args[0].id
    return _old_value(w, targets, args, f"{code}({targets[0]} + {constant(code, 1)})", "")


def _exch(w: "KernelWriter", targets: list[str], args: list[Any]) -> list[str]:
    return _old_value(w, targets, args, w.scope.expr(args[2]).text, "")


def _cas(w: "KernelWriter", targets: list[str], args: list[Any]) -> list[str]:
    code = args[0].id
    compare, value = w.scope.expr(args[2]), w.scope.expr(args[3])
    bits = {"f16": "u16", "f32": "u32", "f64": "u64"}.get(code, code)
    old = w.scope.bitcast(bits, Fragment(code, targets[0], True)).text
    same = f"{old} == {w.scope.bitcast(bits, w.scope.typed(compare, code)).text}"
    return _old_value(w, targets, args, value.text, same)


SEVERAL: dict[str, Callable[[Any, list[str], list[Any]], list[str]]] = {
    "gather_packet": _packet, "gather_weighted": _weighted, "vector": _vector, "total": _total,
    "put": _put, "load_vector": _load_vector, "broadcast_vector": _broadcast_vector,
    "scatter_inc": _inc, "scatter_exch": _exch, "scatter_cas": _cas,
}  # fmt: skip


def _store(w: "KernelWriter", args: list[Any]) -> list[str]:
    return [w.put(args[0].id, w.word(args[1]), "i", w.scope.expr(args[3]))]


def _store_vector(w: "KernelWriter", args: list[Any]) -> list[str]:
    code, count, name = args[0].id, args[1].value, args[4].id
    value = Fragment(code, f"{name}_[f, k]", True)
    return [
        f"for f in range({count}):",
        "    " + w.put(code, w.word(args[2]), _place(count), value),
    ]


def _scatter(w: "KernelWriter", args: list[Any]) -> list[str]:
    t, p, v, x, m = args
    return _scatter_packet(w, [t, p, x, m, v])


def _scatter_packet(w: "KernelWriter", args: list[Any]) -> list[str]:
    code, array = args[0].id, w.word(args[1])
    x, m, *values = (w.scope.expr(a) for a in args[2:])
    lines = [w.put(code, array, _entry(x, len(values), j), v) for j, v in enumerate(values)]
    return [f"if {m.text}:", *[f"    {line}" for line in lines]]


def _combine(w: "KernelWriter", code: str, op: str, array: str, at: str, value: Fragment) -> str:
    private = w.is_private(array)
    element = f"{array}[{at}]" if private else w.element(code, array, at)
    t = "f32" if code == "f16" else code
    text = fold(w.module, op, t, element, w.scope.typed(value, code).inner)
    if code == "f16" and not private:
        text = w.scope.wrapped(code, text).text
    return w.put(code, array, at, Fragment(code, text))


def _scatter_reduce(w: "KernelWriter", args: list[Any]) -> list[str]:
    code, op, mode = args[0].id, args[1].value, args[2].value
    w.sequential = w.sequential or mode == "direct"
    v, x, m = (w.scope.expr(a) for a in args[4:7])
    return [f"if {m.text}:", "    " + _combine(w, code, op, w.word(args[3]), x.text, v)]


def _expand(w: "KernelWriter", args: list[Any]) -> list[str]:
    *words, v, x, m = args
    return _expand_packet(w, [*words, x, m, v])


def _expand_packet(w: "KernelWriter", args: list[Any]) -> list[str]:
    code, op, array = args[0].id, args[1].value, w.word(args[2])
    w.note_copies(op, code, w.number(args[2]), args)
    x, m, *values = (w.scope.expr(a) for a in args[5:])
    n = len(values)
    lines = [_combine(w, code, op, array, _entry(x, n, j), v) for j, v in enumerate(values)]
    return [f"if {m.text}:", *[f"    {line}" for line in lines]]


def _reduce(w: "KernelWriter", args: list[Any]) -> list[str]:
    code, op = args[0].id, args[1].value
    k = w.number(args[3])
    w.scratch.update((w.number(args[2]),))
    r = Fold(op, code, k)
    w.reductions.append(r)
    value = w.scope.typed(w.scope.expr(args[5]), code)
    if w.is_float_sum(r):
        return [f"sum{k}[k] = {value.text}"]
    t = "f32" if code == "f16" else code
    return [f"total{k} = {fold(w.module, op, t, f'total{k}', value.inner)}"]


EFFECTS: dict[str, Callable[[Any, list[Any]], list[str]]] = {
    "store": _store, "stream": _store, "store_vector": _store_vector, "scatter": _scatter,
    "scatter_packet": _scatter_packet, "scatter_reduce": _scatter_reduce,
    "scatter_reduce_expand": _expand, "scatter_reduce_packet": _expand_packet, "reduce": _reduce,
}  # fmt: skip
# Statements that may be repeated for the same lanes: no others are in one loop with library
# functions that have rare cases.
_REPEATABLE = frozenset((
    "lane", "active", "going", "load", "broadcast", "literal", "feature", "vector", "total",
    "load_vector", "broadcast_vector", "store", "stream", "store_vector", "gather", "in_bounds",
))  # fmt: skip
ONCE = frozenset((*MEMORY, *SEVERAL, *EFFECTS, "take")) - _REPEATABLE
WHOLE = frozenset(("matvec", "outer", "accumulate", "total", "take", "put", "store_vector"))
ON_LANES = frozenset((*SEVERAL, "feature", "take", "gather", "in_bounds"))
VECTORS = frozenset([s.name for s in STATEMENTS.values() if s.is_of_vectors])
