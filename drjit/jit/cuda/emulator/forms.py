"""What an instruction does, as a row of data: `form("add.rn.ftz.f32")`.

A `Form` says how each operand is read (as which type) and gives the Python expression of each
result. The expressions are what the generated code of a kernel consists of; functions in them are
those of `numeric`, or methods of the machine `m`. Forms of memory and control flow have no
expression: `kind` names the function of `emit` that generates their code.

Types are those of NumPy by their size in bits (u32, i32, f32, ...), "pred", and some with a
meaning:

* x16, x32, x64: an integer of which the sign does not matter, in the signedness of the result;
* b16, b32, b64: bits that are only moved, in the type of the result;
* u32>u64 and its like: read as the first type, and widened to the second; shift: an amount;
* f16x2, u16x2, i16x2, f32x2: words as rows of two numbers;
* address: an operand in brackets; u32* and its like: all elements of a vector.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from .errors import UnknownInstruction
from .parse import SIZES


@dataclass(slots=True)
class Form:
    """How the operands of an instruction are read, and the expressions of its results."""

    results: tuple[str, ...]
    sources: tuple[str, ...]
    texts: tuple[str, ...] = ()
    # Whether results may be NaN with a payload: see `numeric.canonical`.
    arithmetic: bool = False
    kind: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    # Operands that are not written: the carry flag.
    hidden_results: tuple[str, ...] = ()
    hidden_sources: tuple[str, ...] = ()
    # How many of the leading operands are written to, and whether they are read as well.
    destinations: int = 1
    accumulates: bool = False

    @property
    def tuple_size(self) -> int:
        """If the expression gives a tuple, its smallest possible length; otherwise 0."""
        several = self.sources[:1] in (("u32*",), ("f32*",), ("address",))
        several |= len(self.results) > 1
        return len(self.results) if self.kind == "warp" and several else 0

    @property
    def uses_place(self) -> bool:
        """Whether an expression calls a method of the machine with the executing threads."""
        return any("(place" in text for text in self.texts)


Rule = Callable[[list[str]], Form]
F = TypeVar("F", bound=Rule)
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[F], F]:
    """Registers a function that takes the name of an instruction and its qualifiers, as a list, and
    returns its form."""

    def register(function: F) -> F:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


@lru_cache(maxsize=4096)
def form(opcode: str) -> Form:
    """The form of an instruction with all its qualifiers. Raises `UnknownInstruction`."""
    q = opcode.split(".")
    name = q[0]
    if not any(name in table for table in (RULES, EXPRESSIONS, FLOATS)):
        raise UnknownInstruction(f"unknown instruction {opcode}")
    try:
        if name in FLOATS and is_float(operand_type(q[-1])):
            return _float(q)
        return RULES[name](q) if name in RULES else _expression(q, *EXPRESSIONS[name])
    except (KeyError, IndexError, ValueError):
        raise UnknownInstruction(f"unknown variant of an instruction: {opcode}") from None


# Instructions that are one expression, with the types of their result and operands. T stands for
# the type of the instruction, X for that with or without a sign.
EXPRESSIONS = {
    "and": ("X", "X X", "{0} & {1}"),
    "or": ("X", "X X", "{0} | {1}"),
    "xor": ("X", "X X", "{0} ^ {1}"),
    "not": ("X", "X", "~{0}"),
    "neg": ("T", "T", "-{0}"),
    "abs": ("T", "T", "np.abs({0})"),
    "min": ("T", "T T", "np.minimum({0}, {1})"),
    "max": ("T", "T T", "np.maximum({0}, {1})"),
    # NumPy, like PTX, shifts by more than the width as if bit by bit.
    "shl": ("X", "X shift", "{0} << {1}"),
    "shr": ("T", "T shift", "{0} >> {1}"),
    "div": ("T", "T T", "quotient({0}, {1})"),
    "rem": ("T", "T T", "remainder({0}, {1})"),
    "popc": ("u32", "T", "np.bitwise_count({0}).astype(u32)"),
    "clz": ("u32", "T", "lzcnt({0}).astype(u32)"),
    "brev": ("T", "T", "brev({0})"),
    "bfe": ("T", "T u32 u32", "extract_field({0}, {1}, {2})"),
    "bfi": ("T", "T T u32 u32", "insert_field({0}, {1}, {2}, {3})"),
    "copysign": ("T", "T T", "np.copysign({1}, {0})"),
    "prmt": ("u32", "u32 u32 u32", "permute({0}, {1}, {2})"),
    "lop3": ("u32", "u32 u32 u32 number", "logic3({0}, {1}, {2}, {3})"),
}
# Arithmetic on floats of the type {T}; the translator calls minima of three operands min3.
FLOATS = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "fma": "fma_{T}({0}, {1}, {2})",
    "mad": "fma_{T}({0}, {1}, {2})",
    "div": "{0} / {1}",
    "div.approx": "divide_approximate({0}, {1})",
    "sqrt": "np.sqrt({0})",
    "rcp": "{T}(1) / {0}",
    "rcp.approx": 'approximate("rcp", {0})',
    **{
        name: f'approximate("{name}", {{0}})'
        for name in ("rsqrt", "sin", "cos", "ex2", "lg2", "tanh")
    },
    "neg": "-{0}",
    "abs": "np.abs({0})",
    "min": "minimum({0}, {1})",
    "max": "maximum({0}, {1})",
    "min3": "minimum(minimum({0}, {1}), {2})",
    "max3": "maximum(maximum({0}, {1}), {2})",
}


def _expression(q: list[str], result: str, sources: str, text: str) -> Form:
    if q[1:-1] not in ([], ["relu"]):
        raise KeyError
    types = {"T": operand_type(q[-1]), "X": signless_type(q[-1])}
    kinds = [types.get(name, name) for name in (result, *sources.split())]
    return Form((kinds[0],), tuple(kinds[1:]), (_relu(q, text),))


def operand_type(name: str) -> str:
    """The type in which an operand is read: "s32" becomes "i32", "b32" "u32"."""
    if name[0] == "b" and name[1:].isdigit():
        return "u" + name[1:]
    if name[0] == "s" and name[1:2].isdigit():
        return "i" + name[1:]
    if name in SIZES:
        return name
    raise KeyError(name)


def signless_type(name: str) -> str:
    """The type for an operation that treats signed and unsigned numbers alike."""
    kind = operand_type(name)
    return "x" + kind[1:] if kind[0] in "iu" and "x" not in kind else kind


def is_float(kind: str) -> bool:
    return kind[0] == "f"


# Types of pairs: of their halves, and of the words.
PAIRS = {
    "f16x2": ("f16", "u32"),
    "u16x2": ("u16", "u32"),
    "i16x2": ("i16", "u32"),
    "f32x2": ("f32", "u64"),
}


def width(kind: str) -> int:
    """The size of a register that holds an operand of a type, in bits; 1 of a predicate."""
    if kind == "pred":
        return 1
    if kind in PAIRS:
        return int(PAIRS[kind][1][1:])
    return int(kind[1:])


def number_type(kind: str) -> str:
    """The type of the numbers in an operand: for pairs, that of their halves."""
    return PAIRS[kind][0] if kind in PAIRS else kind


# ---- floats

_REFUSED = frozenset(("rz", "rm", "rp", "xorsign", "satfinite"))


def _refuse_modifiers(q: list[str]) -> None:
    """Refuses modifiers that compilers of kernels do not use."""
    if not _REFUSED.isdisjoint(q):
        raise KeyError


def _relu(q: list[str], text: str) -> str:
    return f"relu({text})" if "relu" in q else text


def _float(q: list[str]) -> Form:
    """Arithmetic rounded to nearest, with `.ftz`, `.sat`, `.relu` and `.NaN` around it."""
    _refuse_modifiers(q)
    approximate = f"{q[0]}.approx"
    text = FLOATS[approximate if "approx" in q and approximate in FLOATS else q[0]]
    kind = operand_type(q[-1])
    mixed = q[-2:] == ["f32", "f16"]  # halves and a float, from compute capability 10.0 on
    count = 1 + max(k for k in range(3) if f"{{{k}}}" in text)
    operands = [f"{{{k}}}" for k in range(count)]
    sources = (*["f16"] * (count - 1), "f32") if mixed else (kind,) * count
    kind = "f32" if mixed else kind
    if mixed:
        operands[:-1] = [f"{x}.astype(f32)" for x in operands[:-1]]
    flushes = "ftz" in q and "f64" not in kind
    if flushes:
        operands = [f"flush({x})" for x in operands]
    text = text.format(*operands, T=number_type(kind))
    if "NaN" in q:
        text = f"nan_if_any({text}, {', '.join(operands)})"
    text = f"flush({text})" if flushes else text
    text = f"saturate({text})" if "sat" in q else text
    return Form((kind,), sources, (_relu(q, text),), arithmetic=True)


@rule("testp")
def _test(q: list[str]) -> Form:
    if q[1] != "infinite":
        raise KeyError
    return Form(("pred",), (operand_type(q[-1]),), ("np.isinf({0})",))


# ---- conversions

_INTEGRAL = {"rni", "rzi", "rmi", "rpi"}


@rule("cvt")
def _convert(q: list[str]) -> Form:
    _refuse_modifiers(q)
    if q[-2] == "f16x2":  # the first operand is the upper half
        text = "np.stack(np.broadcast_arrays({1}, {0}), 1).astype(f16)"
        return Form(("f16x2",), ("f32", "f32"), (_relu(q, text),), arithmetic=True)
    if "tf32" in q:
        if "rna" not in q:
            raise KeyError
        return Form(("f32",), ("f32",), (_relu(q, "to_tf32({0})"),))
    result, source = operand_type(q[-2]), operand_type(q[-1])
    integral = next((m for m in q if m in _INTEGRAL), "")
    x = "flush({0})" if "ftz" in q and source == "f32" else "{0}"
    changed = x if result == source else f"{x}.astype({result})"
    if not is_float(source) and not is_float(result):
        text = f"saturated({x}, {result})" if "sat" in q else changed
        return Form((result,), (source,), (text,))
    if not is_float(result):
        text = f'to_integer({x}, {result}, "{integral or "rzi"}")'
        return Form((result,), (source,), (text,))
    if integral and is_float(source):
        text = f'integral({x}, "{integral}")'
        changed = text if result == source else f"{text}.astype({result})"
    text = f"saturate({changed})" if "sat" in q else changed
    if "ftz" in q and result == "f32":
        text = f"flush({text})"
    return Form((result,), (source,), (_relu(q, text),), arithmetic=True)


# ---- integers


@rule("add", "sub", "addc", "subc")
def _add(q: list[str]) -> Form:
    """Sums, also with the carry flag, which is a predicate register `%CC`: add.cc, addc, ..."""
    kind, reads, writes = operand_type(q[-1]), q[0][3:] == "c", "cc" in q
    symbol, out = ("+", "carry_out") if q[0][:3] == "add" else ("-", "borrow_out")
    if "sat" in q:
        text = f"saturated({{0}}.astype(i64) {symbol} {{1}}, {number_type(kind)})"
        return Form((kind,), (kind, kind), (text,))
    if not reads and not writes:
        kind = signless_type(q[-1])
        return Form((kind,), (kind, kind), (f"{{0}} {symbol} {{1}}",))
    kind = "u" + kind[1:]
    carry = "{2}" if reads else "false"
    text = f"{{0}} {symbol} {{1}}" + (f" {symbol} {{2}}.astype({kind})" if reads else "")
    return Form(
        (kind, "pred") if writes else (kind,),
        (kind, kind, "pred") if reads else (kind, kind),
        (text, f"{out}({{0}}, {{1}}, {carry})") if writes else (text,),
        hidden_results=("%CC",) if writes else (),
        hidden_sources=("%CC",) if reads else (),
    )


@rule("mul", "mad")
def _multiply(q: list[str]) -> Form:
    if "cc" in q or "sat" in q:
        raise KeyError
    kind, text = signless_type(q[-1]), "{0} * {1}"
    factor = kind
    if "wide" in q:
        factor = operand_type(q[-1])
        kind = f"{factor[0]}{int(factor[1:]) * 2}"
        factor = f"{factor}>{kind}"
    elif "hi" in q:
        kind = factor = operand_type(q[-1])
        text = "mul_hi({0}, {1})"
    if q[0] == "mul":
        return Form((kind,), (factor, factor), (text,))
    return Form((kind,), (factor, factor, kind), (f"{text} + {{2}}",))


@rule("shf")
def _funnel_shift(q: list[str]) -> Form:
    amount = "{2} & u32(31)" if "wrap" in q else "np.minimum({2}, u32(32))"
    name = "funnel_left" if "l" in q else "funnel_right"
    return Form(("u32",), ("u32", "u32", "u32"), (f"{name}({{0}}, {{1}}, {amount})",))


# ---- predicates and selections

_SYMBOLS = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip
# Comparisons of floats: equ, neu, ... hold if an operand is NaN, eq, ne, ... do not.
_OF_FLOATS = {
    "ne": "(({a} < {b}) | ({a} > {b}))",
    "equ": "(~(({a} < {b}) | ({a} > {b})))",
    "neu": "({a} != {b})",
    "ltu": "(~({a} >= {b}))",
    "leu": "(~({a} > {b}))",
    "gtu": "(~({a} <= {b}))",
    "geu": "(~({a} < {b}))",
    "num": "(({a} == {a}) & ({b} == {b}))",
    "nan": "(({a} != {a}) | ({b} != {b}))",
}


def _compared(q: list[str], kind: str) -> str:
    """The comparison of two operands."""
    if {"and", "or", "xor"} & {*q}:  # with a predicate
        raise KeyError
    a, b = ("flush({0})", "flush({1})") if "ftz" in q else ("{0}", "{1}")
    if is_float(kind) and q[1] in _OF_FLOATS:
        return _OF_FLOATS[q[1]].format(a=a, b=b)
    return f"({a} {_SYMBOLS[q[1]]} {b})"


@rule("setp")
def _set_predicate(q: list[str]) -> Form:
    kind = signless_type(q[-1]) if q[1] in ("eq", "ne") else operand_type(q[-1])
    text = _compared(q, kind)
    texts = (f"{text}[:, 0]", f"{text}[:, 1]") if kind in PAIRS else (text, f"~{text}")
    return Form(("pred", "pred"), (kind, kind), texts)


@rule("set")
def _set(q: list[str]) -> Form:
    result, kind = operand_type(q[-2]), operand_type(q[-1])
    if is_float(result):
        raise KeyError
    word, bits = ("u16x2", "u16") if kind in PAIRS else ("u" + result[1:],) * 2
    return Form((word,), (kind, kind), (f"-{_compared(q, kind)}.astype({bits})",))


@rule("selp")
def _select(q: list[str]) -> Form:
    kind = "b" + str(width(operand_type(q[-1])))
    return Form((kind,), (kind, kind, "pred"), ("where({2}, {0}, {1})",))


@rule("mov")
def _move(q: list[str]) -> Form:
    if q[-1] == "pred":
        return Form(("pred",), ("pred",), ("{0}",))
    kind = "b" + str(width(operand_type(q[-1])))
    return Form((kind,), (kind,), ("{0}",), kind="mov")


# ---- memory

_SPACES = {"global", "shared", "local", "param", "const"}
_STRONG = {"volatile", "relaxed", "acquire", "release", "mmio"}
ATOMICS = {"add", "min", "max", "and", "or", "xor", "exch", "cas"}


def _space(q: list[str]) -> str:
    return next((s for s in (name.partition(":")[0] for name in q) if s in _SPACES), "")


def _type(q: list[str]) -> str:
    return next(name for name in reversed(q) if name in SIZES)


def _count(q: list[str]) -> int:
    return next((int(name[1:]) for name in q if name in ("v2", "v4", "v8")), 1)


def _moved_type(name: str) -> str:
    """The type of an element that is only moved: signed only if the sign is to be extended."""
    return ("b" if name[0] == "b" else operand_type(name)[0]) + str(SIZES[name] * 8)


def _access(q: list[str]) -> dict[str, object]:
    return {"space": _space(q), "count": _count(q), "strong": bool(_STRONG & set(q))}


@rule("ld", "ldu")
def _load(q: list[str]) -> Form:
    element = _moved_type(_type(q))
    return Form((element,), ("address",), kind="load", details=_access(q))


@rule("st")
def _store(q: list[str]) -> Form:
    element = _moved_type(_type(q))
    details = _access(q)
    return Form((), ("address", element), kind="store", details=details, destinations=0)


@rule("atom", "red")
def _atomic(q: list[str]) -> Form:
    if "async" in q:
        raise KeyError
    operation = next(name for name in q if name in ATOMICS)
    kind = operand_type(_type(q))
    if kind in PAIRS:
        raise KeyError
    if operation in ("exch", "cas", "and", "or", "xor"):
        kind = "b" + kind[1:]
    details = {"space": _space(q), "operation": operation, "count": _count(q)}
    if q[0] == "red":
        return Form((), ("address", kind), kind="atomic", details=details, destinations=0)
    return Form((kind,), ("address", kind, kind), kind="atomic", details=details)


@rule(
    "prefetch", "prefetchu", "discard", "applypriority", "membar", "fence", "pmevent", "nanosleep",
    "griddepcontrol", "brkpt",
)  # fmt: skip
def _nothing(q: list[str]) -> Form:
    if q[:3] == ["fence", "proxy", "async"]:
        return _machine_call((), "publish_barriers(place)", ())
    return Form((), (), kind="nothing", destinations=0)


_BOX = "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"


@rule("cp")
def _copy(q: list[str]) -> Form:
    if ".".join(q) == _BOX:
        return _machine_call((), "copy_box(place, {0}, {1}, {2})", ("address", "box", "address"))
    if q[1] != "async" or "mbarrier" in q or "bulk" in q:
        raise KeyError
    if q[2] == "commit_group":
        return _machine_call((), "async_commit(place)", ())
    if q[2] in ("wait_group", "wait_all"):
        pending = "{0}" if q[2] == "wait_group" else "-1"
        return _machine_call((), f"async_wait(place, {pending})", ("number",))
    sources = ("address", "address", "number", "u32")
    return Form((), sources, kind="async_copy", destinations=0)


@rule("cvta")
def _convert_address(q: list[str]) -> Form:
    space = q[2] if q[1] == "to" else q[1]
    space = space.partition(":")[0]
    name = "cvta_to" if q[1] == "to" else "cvta"
    size = q[-1][1:]
    return Form((f"u{size}",), (f"u{size}",), kind="cvta", details={"to": name, "space": space})


# ---- control flow


@rule("bra", "brx", "ret", "exit", "trap", "call")
def _control(q: list[str]) -> Form:
    if q[0] == "trap":
        return _machine_call((), "trap(place)", ("u64",))
    sources = ("u32", "label") if q[0] == "brx" else ("u64",)
    kind = {"bra": "branch", "brx": "table", "ret": "return"}.get(q[0], q[0])
    return Form((), sources, kind=kind, destinations=0)


# ---- warps and blocks


def _machine_call(results: tuple, call: str, sources: tuple, members: int | None = None) -> Form:
    """An instruction that calls a method of the machine. Those of a warp wait for the threads that
    the operand at `members` names, or (-1) for all of them."""
    details = {} if members is None else {"members": members}
    kind, count = "machine" if members is None else "warp", min(len(results), 1)
    return Form(results, sources, (f"m.{call}",), kind=kind, details=details, destinations=count)


@rule("bar", "barrier")
def _barrier(q: list[str]) -> Form:
    if "warp" in q:
        return _machine_call((), "warp_barrier(place, {0})", ("u32",), 0)
    if "sync" not in q:
        raise KeyError
    details = {"aligned": q[0] == "bar" or "aligned" in q, "members": 0}
    return Form((), ("u32",), kind="barrier", details=details, destinations=0)


@rule("shfl", "vote")
def _collective(q: list[str]) -> Form:
    if "sync" not in q:
        raise KeyError
    if q[0] == "shfl":
        call = f'shuffle(place, "{q[2]}", {{0}}, {{1}}, {{2}}, {{3}})'
        return _machine_call(("b32", "pred"), call, ("b32", "u32", "u32", "u32"), 3)
    result = "u32" if q[2] == "ballot" else "pred"
    return _machine_call((result,), f'vote(place, "{q[2]}", {{0}}, {{1}})', ("pred", "u32"), 1)


@rule("activemask")
def _active(q: list[str]) -> Form:
    return _machine_call(("u32",), "active(place)", ())


@rule("mma")
def _mma(q: list[str]) -> Form:
    """mma.sync.aligned.m16n8k16.row.col.d.a.b.c"""
    if q[4:6] != ["row", "col"] or len(q) != 10 or q[3] not in _SHAPES.get(q[7], ()):
        raise KeyError
    if q[7] != q[8] or q[6] != q[9] or (q[6] == "f16" and q[7] != "f16"):
        raise KeyError
    kind = "f32" if q[6] == "f32" else "u32"
    call = f'mma(place, "{q[7]}", {q[3].rpartition("k")[2]}, {{0}}, {{1}}, {{2}})'
    return _machine_call((kind,), call, ("u32*", "u32*", f"{kind}*"), -1)


_SHAPES = {
    "f16": ("m16n8k16", "m16n8k8"),
    "tf32": ("m16n8k8", "m16n8k4"),
}


@rule("mbarrier")
def _phases(q: list[str]) -> Form:
    """Barriers in the shared memory of the block."""
    if q[-2:] != ["shared::cta", "b64"]:
        raise KeyError
    calls = {
        "init": ((), "barrier_init(place, {0}, {1})", ("address", "u32")),
        "arrive": (("u64",), "barrier_arrive(place, {0})", ("address",)),
        "arrive.expect_tx": (("u64",), "barrier_arrive(place, {0}, {1})", ("address", "u32")),
        "try_wait.parity": (
            ("pred",), "barrier_try_wait(place, {0}, {1})", ("address", "u32"),
        ),
    }  # fmt: skip
    return _machine_call(*calls[".".join(q[1:-2])])


@rule("wgmma")
def _group(q: list[str]) -> Form:
    """wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16, and what orders it"""
    if q[2:4] != ["sync", "aligned"]:
        raise KeyError
    if q[1] in ("fence", "commit_group"):
        return _machine_call((), f"group_{q[1].split('_')[0]}(place)", (), -1)
    if q[1] == "wait_group":
        return _machine_call((), "group_wait(place, {0})", ("number",), -1)
    columns = int(q[4].removeprefix("m64n").removesuffix("k16"))
    if q[1] != "mma_async" or q[5:] != ["f32", "f16", "f16"] or columns % 8:
        raise KeyError
    call = f"group_mma(place, {columns}, {', '.join([f'{{{k}}}' for k in range(8)])})"
    sources = ("f32*", "u64", "u64", "pred", *["number"] * 4)
    made = _machine_call(("f32",), call, sources, -1)
    made.accumulates = True
    return made


@rule("ldmatrix")
def _load_matrix(q: list[str]) -> Form:
    if "m8n8" not in q or q[-1] != "b16":
        raise KeyError
    count = next(int(name[1:]) for name in q if name in ("x1", "x2", "x4"))
    call = f"load_matrix(place, {{0}}, {count}, {'trans' in q})"
    return _machine_call(("u32",), call, ("address",), -1)
