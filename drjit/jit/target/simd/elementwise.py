"""The element-wise operations: one rule each, from the name to the IR that computes it.

A rule is a template, in which `{V}` is the vector type, `{S}` the suffix of an intrinsic and `{0}`
`{1}` `{2}` the operands, or a function that emits several instructions. `f16` operations compute in
`f32` and round after each operation.
"""

import re
from collections.abc import Callable
from functools import cache

from ...ir.dtype import BY_CODE
from ...ir.op import COMPARISONS
from ...ir.op import TABLE as OPERATIONS
from ...tuples import NamedTuple
from ..language import result_type
from .ir import BITS, FLOATS, INTEGERS, SCALAR, SIGNED, UNSIGNED, Function, types

Emit = Callable[..., str]


class Row(NamedTuple):
    """How an operation is emitted for one element type."""

    result: str
    emit: Emit


def _intrinsic(name: str, arity: int, more: str = "") -> str:
    operands = ", ".join(f"{{V}} {{{k}}}" for k in range(arity))
    return f"call {{V}} @llvm.{name}.{{S}}({operands}{more})"


def _negative(f: Function, code: str, x: str) -> str:
    if code == "f16":
        return _on_bits(f, "xor", x, 0x8000)
    if code in FLOATS:
        return f.op(f"fneg {f.vector[code]} {x}")
    return f.op(f"sub {f.vector[code]} zeroinitializer, {x}")


def _abs(f: Function, code: str, x: str) -> str:
    if code == "f16":
        return _on_bits(f, "and", x, 0x7FFF)
    vector, suffix = f.vector[code], f.types.suffix[code]
    if code in FLOATS:
        return f.op(f"call {vector} @llvm.fabs.{suffix}({vector} {x})")
    if code in UNSIGNED:
        return x
    return f.op(f"call {vector} @llvm.abs.{suffix}({vector} {x}, i1 false)")


def _on_bits(f: Function, op: str, x: str, pattern: int) -> str:
    bits = f.op(f"bitcast {f.vector['f16']} {x} to {f.vector['u16']}")
    bits = f.op(f"{op} {f.vector['u16']} {bits}, {f.constant('u16', pattern)}")
    return f.op(f"bitcast {f.vector['u16']} {bits} to {f.vector['f16']}")


def _shift(f: Function, code: str, x: str, count: str, right: bool) -> str:
    vector, width = f.vector[code], BITS[code]
    arithmetic = right and code in SIGNED
    op = ("ashr" if arithmetic else "lshr") if right else "shl"
    fixed = _known(count)
    if fixed is not None:
        if 0 <= fixed < width:
            return f.op(f"{op} {vector} {x}, {count}")
        if not arithmetic:
            return "zeroinitializer"
        return f.op(f"ashr {vector} {x}, {f.constant(code, width - 1)}")
    if f.machine.is_gpu and width == 64:
        # LLVM turns a shift, and the choice of zero for counts that are too large, into one
        # instruction, which takes the lower half of the count only.
        count = least(f, code, count, width)
    if arithmetic:
        return f.op(f"ashr {vector} {x}, {least(f, code, count, width - 1)}")
    inside = f.op(f"icmp ult {vector} {count}, {f.constant(code, width)}")
    shifted = f.op(f"{op} {vector} {x}, {count}")
    return f.op(f"select {f.vector['mask']} {inside}, {vector} {shifted}, {vector} zeroinitializer")


def least(f: Function, code: str, x: str, limit: int) -> str:
    """Returns unsigned integers, or a limit where they exceed it."""
    vector, most = f.vector[code], f.constant(code, limit)
    return f.op(f"call {vector} @llvm.umin.{f.types.suffix[code]}({vector} {x}, {vector} {most})")


def _known(operand: str) -> int | None:
    """Returns the value of a constant operand."""
    if operand == "zeroinitializer":
        return 0
    return int(operand[:-1].rsplit(" ", 1)[1]) if operand.startswith("splat (i") else None


def _divide(f: Function, code: str, x: str, y: str, remainder: bool) -> str:
    """Division that never traps: a zero divisor is first replaced by 1, and so is the -1 in MIN /
    -1. GPUs have a sequence of their own for what processors divide as floats."""
    vector, signed = f.vector[code], code in SIGNED
    letter = "s" if signed else "u"
    fixed = _known(y)
    if fixed == 0:
        return "zeroinitializer"
    if fixed is not None and fixed != -1:
        return f.op(f"{letter}{'rem' if remainder else 'div'} {vector} {x}, {y}")
    one, mask = f.constant(code, 1), f.vector["mask"]
    zero = bad = f.op(f"icmp eq {vector} {y}, zeroinitializer")
    if signed:
        lowest = f.op(f"icmp eq {vector} {x}, {f.constant(code, -1 << BITS[code] - 1)}")
        minus = f.op(f"icmp eq {vector} {y}, {f.constant(code, -1)}")
        bad = f.op(f"and {mask} {lowest}, {minus}")
        bad = f.op(f"or {mask} {bad}, {zero}")
    divisor = f.op(f"select {mask} {bad}, {vector} {one}, {vector} {y}")
    if BITS[code] == 64 or f.machine.is_gpu:
        if remainder:
            return f.op(f"{letter}rem {vector} {x}, {divisor}")
        quotient = f.op(f"{letter}div {vector} {x}, {divisor}")
    else:
        # The quotient of two b-bit integers, rounded to a float with more than b bits, does not
        # reach the next integer, so truncation yields the exact quotient.
        through = f.vector["f64" if BITS[code] == 32 else "f32"]
        wide = f.vector["i32"]
        a, b = x, divisor
        if BITS[code] < 32:
            extend = "sext" if signed else "zext"
            a, b = (f.op(f"{extend} {vector} {v} to {wide}") for v in (a, b))
        signs = letter if BITS[code] == 32 else "s"
        a, b = (f.op(f"{signs}itofp {wide} {v} to {through}") for v in (a, b))
        quotient = f.op(f"fdiv {through} {a}, {b}")
        quotient = f.op(f"fpto{signs}i {through} {quotient} to {wide}")
        if BITS[code] < 32:
            quotient = f.op(f"trunc {wide} {quotient} to {vector}")
        if remainder:
            product = f.op(f"mul {vector} {quotient}, {divisor}")
            return f.op(f"sub {vector} {x}, {product}")
    return f.op(f"select {mask} {zero}, {vector} zeroinitializer, {vector} {quotient}")


def remainder(f: Function, code: str, x: str, y: str) -> str:
    """`remainder(x, y)`."""
    return _divide(f, code, x, y, True)


def _mul_hi(f: Function, code: str, x: str, y: str) -> str:
    if BITS[code] == 64:
        return _mul_hi_64(f, code, x, y)
    vector, bits = f.vector[code], BITS[code]
    wide = f"<{f.lanes} x i{2 * bits}>"
    letter = "s" if code in SIGNED else "z"
    a, b = (f.op(f"{letter}ext {vector} {v} to {wide}") for v in (x, y))
    product = f.op(f"mul {wide} {a}, {b}")
    upper = f.op(f"lshr {wide} {product}, splat (i{2 * bits} {bits})")
    return f.op(f"trunc {wide} {upper} to {vector}")


def _mul_hi_64(f: Function, code: str, x: str, y: str) -> str:
    """Schoolbook multiplication of 32-bit halves; a signed product is corrected by the operands'
    signs.
    """
    vector = f.vector["u64"]
    low, half = f.constant("u64", 0xFFFFFFFF), f.constant("u64", 32)

    def op(name: str, a: str, b: str) -> str:
        return f.op(f"{name} {vector} {a}, {b}")

    x0, x1, y0, y1 = op("and", x, low), op("lshr", x, half), op("and", y, low), op("lshr", y, half)
    middle = op("add", op("mul", x1, y0), op("lshr", op("mul", x0, y0), half))
    cross = op("add", op("mul", x0, y1), op("and", middle, low))
    upper = op("add", op("mul", x1, y1), op("lshr", middle, half))
    upper = op("add", upper, op("lshr", cross, half))
    if code in SIGNED:
        sign = f.constant("u64", 63)
        upper = op("sub", upper, op("and", op("ashr", x, sign), y))
        upper = op("sub", upper, op("and", op("ashr", y, sign), x))
    return upper


def _extremum(f: Function, code: str, x: str, y: str, less: bool) -> str:
    vector = f.vector[code]
    if code in INTEGERS:
        name = ("s" if code in SIGNED else "u") + ("min" if less else "max")
        return f.op(
            f"call {vector} @llvm.{name}.{f.types.suffix[code]}({vector} {x}, {vector} {y})"
        )
    chosen = _compare(f, code, x, y, "lt" if less else "gt")
    return f.op(f"select {f.vector['mask']} {chosen}, {vector} {x}, {vector} {y}")


def _compare(f: Function, code: str, x: str, y: str, relation: str) -> str:
    if code in FLOATS:
        if code == "f16":
            x, y = (widen(f, v) for v in (x, y))
            code = "f32"
        return f.op(f"fcmp {'u' if relation == 'ne' else 'o'}{relation} {f.vector[code]} {x}, {y}")
    sign = "" if relation in ("eq", "ne") else "s" if code in SIGNED else "u"
    return f.op(f"icmp {sign}{relation} {f.vector[code]} {x}, {y}")


def widen(f: Function, x: str) -> str:
    """Converts `f16` to `f32`, in the entry block if the value is known there."""
    if x in f.head:
        return f.once(f"{x}.wide", f"fpext {f.vector['f16']} {x} to {f.vector['f32']}")
    return f.op(f"fpext {f.vector['f16']} {x} to {f.vector['f32']}")


def narrow(f: Function, x: str) -> str:
    """Converts `f32` to `f16`, rounded to nearest even."""
    return f.op(f"fptrunc {f.vector['f32']} {x} to {f.vector['f16']}")


_TO_INTEGER = frozenset({"floor", "ceil", "trunc", "round"})
_INTRINSICS = {
    "fma": "fma", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "round": "roundeven", "popcnt": "ctpop", "brev": "bitreverse",
}  # fmt: skip

# The template or emitter of an operation, for each kind of type if these differ.
TABLE: dict[str, str | Emit | dict[str, str]] = {
    "neg": _negative,
    "abs": _abs,
    "not_": {"i": "xor {V} {0}, {ONES}", "b": "xor {V} {0}, splat (i1 true)"},
    "add": {"f": "fadd {FAST}{V} {0}, {1}", "i": "add {V} {0}, {1}"},
    "sub": {"f": "fsub {FAST}{V} {0}, {1}", "i": "sub {V} {0}, {1}"},
    "mul": {"f": "fmul {FAST}{V} {0}, {1}", "i": "mul {V} {0}, {1}"},
    "div": "fdiv {FAST}{V} {0}, {1}",
    "quotient": lambda f, code, x, y: _divide(f, code, x, y, False),
    "remainder": remainder,
    "and_": "and {V} {0}, {1}",
    "or_": "or {V} {0}, {1}",
    "xor": "xor {V} {0}, {1}",
    "shl": lambda f, code, x, y: _shift(f, code, x, y, False),
    "shr": lambda f, code, x, y: _shift(f, code, x, y, True),
    "minimum": lambda f, code, x, y: _extremum(f, code, x, y, True),
    "maximum": lambda f, code, x, y: _extremum(f, code, x, y, False),
    "lzcnt": _intrinsic("ctlz", 1, ", i1 false"),
    "tzcnt": _intrinsic("cttz", 1, ", i1 false"),
    "mul_hi": _mul_hi,
}
for _name, _llvm in _INTRINSICS.items():
    TABLE[_name] = _intrinsic(_llvm, OPERATIONS[_name].arity)
for _o in COMPARISONS:
    TABLE[_o.name] = lambda f, code, x, y, relation=_o.name: _compare(f, code, x, y, relation)


@cache
def row(name: str, code: str, lanes: int, contract: bool) -> Row:
    """Returns how an operation is emitted for an element type."""
    o, t = OPERATIONS[name], BY_CODE[code]
    whole = o.name in _TO_INTEGER
    # Exact operations take f16 directly, unless there is an intrinsic for them.
    inner = "f32" if code == "f16" and (whole or not (o.exact or o in COMPARISONS)) else code
    rule = TABLE[o.name]
    if isinstance(rule, dict):
        rule = rule[t.kind]
    if isinstance(rule, str):
        spelling = types(lanes)
        rule = _from_template(
            rule.replace("{V}", spelling.vector[inner])
            .replace("{S}", spelling.suffix[inner])
            .replace("{FAST}", "contract " if contract and inner == code else "")
            .replace("{ONES}", f"splat ({SCALAR[inner]} -1)")
        )
    if inner != code:
        rule = _rounded(_opaque(rule) if whole else rule)
    return Row(result_type(o, t).code, rule)


def _from_template(template: str) -> Emit:
    # The text between the operands, which occur in order.
    parts = re.split(r"\{\d\}", template)
    if len(parts) == 2:
        a, b = parts
        return lambda f, _code, x: f.op(f"{a}{x}{b}")
    if len(parts) == 3:
        a, b, c = parts
        return lambda f, _code, x, y: f.op(f"{a}{x}{b}{y}{c}")
    a, b, c, d = parts
    return lambda f, _code, x, y, z: f.op(f"{a}{x}{b}{y}{c}{z}{d}")


def _rounded(inner: Emit) -> Emit:
    def emit(f: Function, _code: str, *operands: str) -> str:
        return narrow(f, inner(f, "f32", *[widen(f, x) for x in operands]))

    return emit


def _opaque(inner: Emit) -> Emit:
    """Emits a sign-preserving operation in a form that LLVM does not recognize: it would round in
    f16, one lane after the other.
    """

    def emit(f: Function, code: str, x: str) -> str:
        kind = f.vector[code]
        y = inner(f, code, x)
        return f.op(f"call {kind} @llvm.copysign.{f.types.suffix[code]}({kind} {y}, {kind} {x})")

    return emit
