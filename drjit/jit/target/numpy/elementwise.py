"""Element types, element-wise operations, reductions and library functions of the kernel language
on NumPy arrays and scalars.

Python numbers among the operands take the type of the others, as in the language. Infix operators
need no definition here: NumPy's have the same meaning, including shifts by large counts. Callers
disable NumPy's floating point warnings.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...ir import op as ops
from ...ir.dtype import ALL, DType, types_by_numpy
from .. import library
from .fused import fma_f32, fma_f64

Value = Any  # an array of all lanes, or a NumPy or Python scalar

_F16, _F32, _F64 = (np.dtype(t) for t in ("float16", "float32", "float64"))
_UNSIGNED = {np.dtype(f"{k}{n}"): np.dtype(f"u{n}") for k in "iu" for n in (1, 2, 4, 8)}


class Type:
    """An element type in kernel text: `f32(x)` converts, `load(f32, ...)` names it."""

    def __init__(self, element: DType):
        self.dtype, self.scalar, self.kind = element.numpy, element.scalar, element.numpy.kind
        self.accumulator = element.accumulator.numpy
        self.low, self.high = element.low, element.high

    def __call__(self, x: Value) -> Value:
        if isinstance(x, bool | int | float):
            x = self._constant(x)
        source = x.dtype
        if source == self.dtype:
            return x
        if self.kind == "b":
            return x != 0
        if self.kind in "iu" and source.kind == "f":
            return self._saturate(x)
        if self.dtype == _F16 and source.kind != "f":
            return x.astype(_F32).astype(_F16)
        return x.astype(self.dtype)

    def _constant(self, x: bool | int | float) -> Value:
        if self.kind in "iu" and isinstance(x, int):
            return self.scalar((x - self.low) % (self.high - self.low + 1) + self.low)
        if self.kind == "b":
            return np.bool_(x != 0)
        if self.kind == "f":
            return self.scalar(x)
        return np.float64(x)

    def _saturate(self, x: Value) -> Value:
        if x.dtype == _F16:
            x = x.astype(_F32)
        # Powers of two, which are exact.
        above, below = x >= float(self.high + 1), x <= float(self.low)
        inside = np.where(above | below | (x != x), 0, x).astype(self.dtype)
        return np.where(above, self.high, np.where(below, self.low, inside))[()]

    def __repr__(self) -> str:
        return self.dtype.name


TYPES = {element.code: Type(element) for element in ALL}
mask, i8, u8, i16, u16, i32, u32, i64, u64, f16, f32, f64 = TYPES.values()


def bitcast(to: Type, x: Value) -> Value:
    """Reinterprets the bits of `x` as a type of the same size."""
    return x.view(to.dtype)


def typed(*operands: Value) -> list[Value]:
    """Returns the operands, with Python numbers converted to the type of the others."""
    dtype = next(x.dtype for x in operands if hasattr(x, "dtype"))
    return [x if hasattr(x, "dtype") else dtype.type(x) for x in operands]


def select(m: Value, x: Value, y: Value) -> Value:
    """`x` where the mask is true, `y` elsewhere."""
    return np.where(m, x, y)[()]


def fma(x: Value, y: Value, z: Value) -> Value:
    """`x * y + z`, rounded once (`f16`: once to `f32`, then to `f16`)."""
    x, y, z = typed(x, y, z)
    if x.dtype == _F32:
        return fma_f32(x, y, z)
    if x.dtype == _F64:
        return fma_f64(x, y, z)
    return (x.astype(_F32) * y.astype(_F32) + z.astype(_F32)).astype(_F16)


def minimum(x: Value, y: Value) -> Value:
    """`x < y ? x : y`."""
    return np.where(x < y, x, y)[()]


def maximum(x: Value, y: Value) -> Value:
    """`x > y ? x : y`."""
    return np.where(x > y, x, y)[()]


def remainder(x: Value, y: Value) -> Value:
    """The remainder of `quotient`; 0 if `y` is 0."""
    x, y = typed(x, y)
    one = y.dtype.type(1)
    trivial = (y == 0) if y.dtype.kind == "u" else (y == 0) | (y == -1)
    return np.fmod(x, np.where(trivial, one, y))


def quotient(x: Value, y: Value) -> Value:
    """`x / y` truncated towards zero; 0 if `y` is 0."""
    x, y = typed(x, y)
    return (x - remainder(x, y)) // y  # NumPy has the same result for 0, and wraps MIN // -1


def popcnt(x: Value) -> Value:
    """The number of set bits."""
    return np.bitwise_count(x.view(_UNSIGNED[x.dtype])).astype(x.dtype)


def lzcnt(x: Value) -> Value:
    """The number of zero bits above the highest set bit; the width for 0."""
    bits, width = x.view(_UNSIGNED[x.dtype]), 8 * x.dtype.itemsize
    shift = 1
    while shift < width:
        bits = bits | (bits >> shift)
        shift *= 2
    return (width - np.bitwise_count(bits)).astype(x.dtype)


def tzcnt(x: Value) -> Value:
    """The number of zero bits below the lowest set bit; the width for 0."""
    bits = x.view(_UNSIGNED[x.dtype])
    return np.bitwise_count(~bits & (bits - bits.dtype.type(1))).astype(x.dtype)


def brev(x: Value) -> Value:
    """The bits in reverse order."""
    bits, width = x.view(_UNSIGNED[x.dtype]), 8 * x.dtype.itemsize
    shift, low = width // 2, (1 << width) - 1
    while shift:
        low ^= (low << shift) & ((1 << width) - 1)
        bits = ((bits >> shift) & low) | ((bits & low) << shift)
        shift //= 2
    return bits.view(x.dtype)


def mul_hi(x: Value, y: Value) -> Value:
    """The upper half of the double-width product."""
    x, y = typed(x, y)
    width = 8 * x.dtype.itemsize
    if width < 64:
        wide = np.dtype(x.dtype.kind + "8")
        return ((x.astype(wide) * y.astype(wide)) >> width).astype(x.dtype)
    a, b = x.view(np.uint64), y.view(np.uint64)
    low, half = 0xFFFFFFFF, 32
    al, ah, bl, bh = a & low, a >> half, b & low, b >> half
    mid = ah * bl + ((al * bl) >> half)
    carry = (mid & low) + al * bh
    high = (ah * bh + (mid >> half) + (carry >> half)).view(x.dtype)
    if x.dtype.kind == "i":
        high = high - np.where(x < 0, y, np.int64(0)) - np.where(y < 0, x, np.int64(0))
    return high


def any_lane(m: Value) -> bool:
    """Whether the mask is true in any lane."""
    return bool(np.any(m))


def all_lanes(m: Value) -> bool:
    """Whether the mask is true in all lanes."""
    return bool(np.all(m))


def table(values: library.Table, x: Value) -> Value:
    """Element `x` of a table of the library, or the last one."""
    return np.array(values, TYPES[values.code].dtype)[np.minimum(x, len(values) - 1)]


abs, sqrt = np.abs, np.sqrt
floor, ceil, trunc, round = np.floor, np.ceil, np.trunc, np.rint
# With counts at or above the width, the result is 0, or all sign bits.
shl, shr = np.left_shift, np.right_shift

__all__ = [
    *TYPES,
    *("abs", "all_lanes", "any_lane", "bitcast", "brev", "ceil", "floor", "fma", "lzcnt"),
    *("maximum", "minimum", "mul_hi", "popcnt", "quotient", "remainder", "round", "select"),
    *("shl", "shr", "sqrt", "table", "trunc", "tzcnt"),
]


# `min` and `max` prefer the operand that is not NaN.
OPERATIONS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def neutral_number(op: str, dtype: np.dtype) -> Any:
    """Returns the neutral number of a reduction: see `op.neutral`."""
    return dtype.type(ops.neutral(op, types_by_numpy()[dtype]))


def ignored_number(op: str, dtype: np.dtype) -> Any:
    """Returns the number that leaves any element of memory unchanged: see `op.ignored`."""
    return dtype.type(ops.ignored(op, types_by_numpy()[dtype]))


@cache
def _library() -> dict[str, Any]:
    return library.load({name: globals()[name] for name in __all__})


def _call(name: str) -> Callable:
    """Returns a function of the library: `sin(x)` runs `sin_f32` or `sin_f64`."""

    def function(*arguments: Value) -> Any:
        operands = typed(*arguments)
        half = operands[0].dtype == _F16
        if half:
            operands = [x.astype(_F32) for x in operands]
        suffix = "f32" if operands[0].dtype == _F32 else "f64"
        result = _library()[f"{name}_{suffix}"](*operands)
        if not half:
            return result
        if type(result) is tuple:
            return tuple([r.astype(_F16) for r in result])
        return result.astype(_F16)

    function.__name__ = name
    return function


library_functions = {name: _call(name) for name in library.names}
