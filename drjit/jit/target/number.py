"""Operations of the kernel language on single numbers, in Python: they fold literals.

Results are those of kernels, bit by bit, except for the sign of NaN. The NumPy target would give
the same, but importing NumPy takes longer than many programs do altogether.
"""

import math
import operator
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ..ir import dtype as dt
from ..ir import op
from ..ir.dtype import DType
from ..ir.folding import folder, normalize
from ..ir.op import Op
from . import library

_INF, _NAN = math.inf, math.nan


def evaluate(op_: Op, dtype: DType, values: tuple[Any, ...]) -> Any:
    """Returns the result of an operation on operands of an element type.

    >>> evaluate(op.sin, dt.f32, (1.0,))
    0.8414709568023682
    """
    fold = folder(op_, dtype)
    value = fold(*values) if fold else None
    if value is not None:
        return value
    rare = _RARE.get(op_)
    return rare(dtype, *values) if rare else _call(op_, dtype, values)


def convert(to: DType, dtype: DType, value: Any) -> Any:
    """Returns a number of one element type as another: rounded once, integers wrap around, floats
    that become integers saturate.

    >>> convert(dt.f32, dt.i64, (1 << 62) + (1 << 38) + 1) == float((1 << 62) + (1 << 39))
    True
    """
    if to.is_mask:
        return value != 0
    if to.is_float and not dtype.is_float:
        # Double precision rounds only longer integers. A last bit that stands for all those cut off
        # makes the second rounding correct.
        excess = max(0, abs(value).bit_length() - 53)
        leading = (abs(value) >> excess) | (value % (1 << excess) != 0)
        if to is not dt.f64:
            value = math.copysign(leading << excess, value)
        if to is dt.f16:
            value = normalize(dt.f32, value)
    return normalize(to, value)


def _call(op_: Op, dtype: DType, values: tuple[Any, ...]) -> Any:
    """Evaluates a function of the math library."""
    wide = dt.f32 if dtype is dt.f16 else dtype
    function = _library()[f"{op_.name}_{wide.code}"]
    result = function(*[Number(wide, v) for v in values]).value
    return result if wide is dtype else normalize(dtype, result)


# The cases in which folders return None.


def _divided(dtype: DType, a: float, b: float) -> float:
    zero_or_nan = not a or a != a
    return _NAN if zero_or_nan else math.copysign(_INF, a) * math.copysign(1.0, b)


def _fma(dtype: DType, a: float, b: float, c: float) -> float:
    if dtype is dt.f16:
        single = partial(normalize, dt.f32)
        return normalize(dtype, single(single(a * b) + c))
    if dtype is dt.f32 and math.isfinite(a) and math.isfinite(b) and math.isfinite(c):
        return normalize(dtype, _odd_sum(a * b, c))  # the product is exact
    return fma_f64(a, b, c)


def fma_f64(a: float, b: float, c: float) -> float:
    """`a * b + c`, rounded once to double precision."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        # A product that is too large for double precision must not meet another infinity.
        return c if math.isfinite(a) and math.isfinite(b) else a * b + c
    (na, da), (nb, db), (nc, dc) = [x.as_integer_ratio() for x in (a, b, c)]
    numerator = na * nb * dc + nc * da * db
    if not numerator:
        return a * b + c
    try:
        return numerator / (da * db * dc)  # Python rounds quotients of integers correctly
    except OverflowError:
        return _INF if numerator > 0 else -_INF


def _odd_sum(a: float, b: float) -> float:
    """Returns `a + b` rounded to odd, which can be rounded again (see `numpy/fused.py`)."""
    total = a + b
    back = total - a
    error = (a - (total - back)) + (b - back)
    (bits,) = struct.unpack("q", struct.pack("d", total))
    if not error or bits & 1:
        return total
    return math.nextafter(total, math.copysign(_INF, error))


def _quotient(dtype: DType, a: int, b: int) -> int:
    quotient = abs(a) // abs(b) if b else 0
    return normalize(dtype, quotient if (a < 0) == (b < 0) else -quotient)


def _remainder(dtype: DType, a: int, b: int) -> int:
    remainder = abs(a) % abs(b) if b else 0
    return -remainder if a < 0 else remainder


def _reversed(dtype: DType, a: int) -> int:
    bits = f"{a % (1 << dtype.bits):0{dtype.bits}b}"
    return normalize(dtype, int(bits[::-1], 2))


_RARE: dict[Op, Callable[..., Any]] = {
    op.div: _divided,
    op.sqrt: lambda dtype, a: _NAN,
    op.fma: _fma,
    op.quotient: _quotient,
    op.remainder: _remainder,
    op.mul_hi: lambda dtype, a, b: normalize(dtype, a * b >> dtype.bits),
    op.brev: _reversed,
    op.shl: lambda dtype, a, b: 0,
    op.shr: lambda dtype, a, b: -1 if a < 0 else 0,
}


# The math library is text of the kernel language: here it runs on objects with its operators.


class Number:
    """A number of an element type, as the math library computes with it."""

    __slots__ = ("dtype", "value")

    def __init__(self, dtype: DType, value: Any) -> None:
        self.dtype, self.value = dtype, value


def _apply(op_: Op, *operands: Any) -> Number:
    """Applies an operation; Python numbers among the operands take the type of the others."""
    first = op_.result == "second"
    for x in operands[first:]:
        if type(x) is Number:
            dtype = x.dtype
            break
    else:
        raise TypeError(f"{op_.name}: no operand has an element type")
    values = [x.value if type(x) is Number else normalize(dtype, x) for x in operands]
    return Number(dt.mask if op_.result == "mask" else dtype, evaluate(op_, dtype, tuple(values)))


def _operator(op_: Op, reflected: bool = False) -> Callable[..., Number]:
    if reflected:
        return lambda self, other: _apply(op_, other, self)
    return lambda *operands: _apply(op_, *operands)


for _op in op.TABLE.values():
    if _op.kind in ("prefix", "infix"):
        setattr(Number, f"__{_op.method}__", _operator(_op))
        if _op.result != "mask" and _op.arity == 2:
            setattr(Number, f"__r{_op.method}__", _operator(_op, True))


class _Type:
    """An element type in the text: `f32(x)` converts, `bitcast(f32, x)` names it."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def __call__(self, x: Any) -> Number:
        to = self.dtype
        return Number(to, convert(to, x.dtype, x.value) if type(x) is Number else normalize(to, x))


def _bitcast(to: _Type, x: Number) -> Number:
    bits = struct.pack(dt.FORMATS[x.dtype], x.value)
    return Number(to.dtype, *struct.unpack(dt.FORMATS[to.dtype], bits))


def _table(values: library.Table, x: Number) -> Number:
    """Element `x` of a table of the library, or the last one."""
    return Number(dt.BY_CODE[values.code], values[min(x.value, len(values) - 1)])


LANGUAGE: dict[str, Any] = dict(
    **{t.code: _Type(t) for t in dt.ALL},
    **{o.text: partial(_apply, o) for o in op.TABLE.values() if o.kind == "call"},
    any_lane=operator.attrgetter("value"),
    bitcast=_bitcast,
    table=_table,
)


@cache
def _library() -> dict[str, Any]:
    """Returns the functions of the math library."""
    return library.load(LANGUAGE)
