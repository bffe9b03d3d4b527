"""Floating-point arithmetic as PTX defines it, on NumPy arrays.

Results of basic operations are rounded once and exact to the bit. The `.approx` instructions are
not specified to the bit; here they are the float64 function, rounded: at least as accurate as the
hardware, whose last bits differ.

NaN: NVIDIA's hardware returns one NaN (0x7fffffff; 0x7fff for 16 bits) from arithmetic on 32 and
16 bits, whatever its operands (CUDA C++ Programming Guide, "Floating-point standard"). NumPy keeps
payloads, so `canonical` replaces them where the bits of a result can be seen. float64 arithmetic
keeps payloads on both.

bfloat16 does not exist in NumPy: it is computed with as float32, whose 24 digits are enough for
one operation to be rounded twice without harm (S. A. Figueroa, "When is double rounding
innocuous?", SIGNUM Newsletter 30(3), 1995); the same makes NumPy's float16 exact.
"""

import operator
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from math import isfinite, isqrt
from typing import Any

import numpy as np

from drjit.jit.target.numpy.fused import fma_f64

f16, f32, f64 = np.float16, np.float32, np.float64
u16, u32, u64 = np.uint16, np.uint32, np.uint64
i32, i64 = np.int32, np.int64
where = np.where

_NAN = {
    np.dtype(f16): np.array([0x7FFF], u16).view(f16),
    np.dtype(f32): np.array([0x7FFFFFFF], u32).view(f32),
    np.dtype(f64): np.array([0x7FF8 << 48], u64).view(f64),
}
_TINY = {np.dtype(t): np.finfo(t).tiny for t in (f16, f32, f64)}
_ZERO, _ONE, _SIXTEEN = np.zeros(1, f32), np.ones(1, f32), np.array([16], u32)
_BITS = {2: u16, 4: u32, 8: u64}


def canonical(x: np.ndarray) -> np.ndarray:
    """The result of arithmetic, with the NaN of the hardware in place of any other."""
    nan = x != x
    if np.count_nonzero(nan):
        return where(nan, _NAN[x.dtype], x)
    return x


def flush(x: np.ndarray) -> np.ndarray:
    """Subnormal numbers (`.ftz`) become zeros of the same sign."""
    return x * (np.abs(x) >= _TINY[x.dtype])


def saturate(x: np.ndarray) -> np.ndarray:
    """Clamps to [0, 1] (`.sat`); NaN becomes 0."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    return np.fmin(np.fmax(x, zero), one) + zero


def relu(x: np.ndarray) -> np.ndarray:
    """Negative numbers become 0; NaN stays NaN."""
    return where(x < 0, x.dtype.type(0), x) + x.dtype.type(0)


# ---- fused multiply-add

# The lower half of a float64 number without what float32 keeps, and its value halfway.
_KEPT, _HALFWAY = np.array([3], u32), np.array([1 << 31], u32)
_TINIEST = np.array([2.0**-126], f32)


def fma_f32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`a * b + c`, rounded once. The product is exact in float64.

    The sum, rounded to float64, is rounded again: wrong only if it has become halfway between two
    float32 numbers, or is subnormal there. In these cases it is rounded to odd instead (S. Boldo,
    G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
    odd", IEEE Transactions on Computers 57(4), 2008).
    """
    product = a.astype(f64) * b
    total = product + c
    result = total.astype(f32)
    halfway = (total.view(u32)[::2] << _KEPT) == _HALFWAY
    if np.count_nonzero(halfway):
        return odd_sum(product, c.astype(f64)).astype(f32)
    tiny = np.abs(result) <= _TINIEST
    if np.count_nonzero(tiny) and np.count_nonzero(tiny & (result != total)):
        return odd_sum(product, c.astype(f64)).astype(f32)
    return result


def odd_sum(a: Any, b: Any) -> np.ndarray:
    """`a + b` in float64; if inexact, the neighbour whose last bit is 1 (error: Knuth's TwoSum)."""
    total, error = two_sum(a, b)
    bits = total.view(i64)
    inexact = ((error > 0) | (error < 0)) & ((bits & 1) == 0)
    step = where((error > 0) == (total > 0), i64(1), i64(-1))
    return where(inexact, bits + step, bits).view(f64)


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """`a + b` rounded, and what was lost."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def fma_f16(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`a * b + c` for float16, rounded once: in float64, it is exact wherever that matters.

    A sum that needs more than 53 bits is not near a number halfway between two of float16: a
    product has 22 bits, and none of the operands has a bit below 2**-48 or above 2**32.
    """
    return (a.astype(f64) * b + c).astype(f16)


def fma_bf16(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The same for bfloat16 numbers, given and returned as float32."""
    return widen(_bf16(odd_sum(a.astype(f64) * b, c.astype(f64))))


def fma_f64_arrays(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`a * b + c` for float64, rounded once."""
    return np.atleast_1d(fma_f64(a, b, c))


# ---- bfloat16


def widen(x: np.ndarray) -> np.ndarray:
    """bfloat16 numbers (uint16) as float32."""
    return (x.astype(u32) << _SIXTEEN).view(f32)


def narrow(x: np.ndarray, mode: str = "rn") -> np.ndarray:
    """float32 numbers rounded to bfloat16 (uint16): to nearest, halfway cases to even, or in
    another mode (rz, rm, rp)."""
    bits = x.view(u32)
    if mode == "rn":
        up = u32(0x7FFF) + ((bits >> _SIXTEEN) & u32(1))
    elif mode == "rz":
        up = u32(0)
    else:
        up = where(np.signbit(x) == (mode == "rm"), u32(0xFFFF), u32(0))
    # Infinities have no lower bits, so that nothing is carried into them.
    return where(x != x, u32(0x7FFF), (bits + up) >> _SIXTEEN).astype(u16)


def _bf16(x: np.ndarray) -> np.ndarray:
    """float64 numbers that are exact or rounded to odd, rounded to bfloat16."""
    nearest = x.astype(f32)
    wide = nearest.astype(f64)
    # float32 between (towards zero), with the last bit set where something is lost: odd again.
    bits = nearest.view(u32)
    away = np.abs(wide) > np.abs(x)
    bits = where(away, bits - u32(1), bits)
    return narrow(where((wide != x) & (x == x), bits | u32(1), bits).view(f32))


# ---- minimum and maximum


def minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smaller number; the other one if one is NaN; -0 is less than +0."""
    r = np.fmin(a, b)
    if np.count_nonzero(r) < r.size:
        bits = _BITS[r.dtype.itemsize]
        r = where(a == b, (a.view(bits) | b.view(bits)).view(r.dtype), r)
    return r


def maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The larger number; the other one if one is NaN; +0 is greater than -0."""
    r = np.fmax(a, b)
    if np.count_nonzero(r) < r.size:
        bits = _BITS[r.dtype.itemsize]
        r = where(a == b, (a.view(bits) & b.view(bits)).view(r.dtype), r)
    return r


def nan_if_any(r: np.ndarray, *operands: np.ndarray) -> np.ndarray:
    """`.NaN` of minimum and maximum: NaN if any operand is."""
    for x in operands:
        r = where(x != x, _NAN[x.dtype], r)
    return r


def xor_sign(r: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`.xorsign.abs`: the sign of a product on the minimum or maximum of absolute values."""
    return np.copysign(r, where(np.signbit(a) ^ np.signbit(b), r.dtype.type(-1), r.dtype.type(1)))


# ---- other rounding modes


def directed(total: np.ndarray, error: Any, mode: str, dtype: Any) -> np.ndarray:
    """`total + error` (float64, the error less than half a unit of the last place of the total)
    rounded once to float32 or float16: towards zero (rz), down (rm) or up (rp)."""
    r = total.astype(dtype)
    difference = r.astype(f64) - total
    above = (difference > 0) | ((difference == 0) & (error < 0))
    below = (difference < 0) | ((difference == 0) & (error > 0))
    least, most = dtype(-np.inf), dtype(np.inf)
    if mode == "rz":
        above, below = above & (total > 0), below & (total < 0)
    elif mode == "rm":
        below = np.zeros(1, bool)
    elif mode == "rp":
        above = np.zeros(1, bool)
    r = where(above, np.nextafter(r, least), r)
    return where(below, np.nextafter(r, most), r)


_OPERATIONS: dict[str, Any] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "fma": lambda a, b, c: a * b + c, "sqrt": np.sqrt,
}  # fmt: skip


def _summands(operation: str, x: Sequence[Any]) -> tuple[Any, Any]:
    """What add, sub and fma add up."""
    return x[0] * x[1] if operation == "fma" else x[0], -x[1] if operation == "sub" else x[-1]


def rounded(operation: str, mode: str, *operands: np.ndarray) -> np.ndarray:
    """An operation (add, sub, mul, div, fma, sqrt) in a rounding mode other than to nearest."""
    if operands[0].dtype == f64:  # with rational numbers: rarely used, and slow
        return np.vectorize(partial(_round_one, operation, mode), otypes=[f64])(*operands)
    x = [operand.astype(f64) for operand in operands]
    # Quotients and roots of 24-bit numbers are further from any other 24-bit number than float64
    # rounds; sums may not be.
    if operation in ("mul", "div", "sqrt"):
        return directed(_OPERATIONS[operation](*x), 0.0, mode, f32)
    first, second = _summands(operation, x)
    total, error = two_sum(first, second)
    if mode == "rm":  # a sum of opposite numbers is -0
        cancels = (total == 0) & (np.signbit(first) != np.signbit(second))
        total = where(cancels, -0.0, total)
    return directed(total, error, mode, f32)


def _round_one(operation: str, mode: str, *v: Any) -> float:
    plain = _OPERATIONS[operation](*map(f64, v))
    special = not all(map(isfinite, v)) or (operation == "div" and v[1] == 0)
    if special or (operation == "sqrt" and v[0] <= 0):
        return plain
    x = [Fraction(value) for value in v]
    if operation == "sqrt":
        digits = 1 << 1200  # an approximation from below, exact if there is an exact root
        scaled = x[0] * digits * digits
        exact = Fraction(isqrt(scaled.numerator // scaled.denominator), digits)
        if exact * exact != x[0]:
            exact += Fraction(1, 2 * digits)
    else:
        exact = _OPERATIONS[operation](*x)
    if exact == 0:
        cancels = operation in ("add", "sub", "fma") and mode == "rm" and plain == 0
        opposite = cancels and len({*map(bool, np.signbit(_summands(operation, v)))}) > 1
        return -0.0 if cancels and (np.signbit(plain) or opposite) else plain
    try:
        nearest = exact.numerator / exact.denominator
    except OverflowError:
        nearest = np.inf if exact > 0 else -np.inf
    above = nearest == np.inf or (nearest != -np.inf and Fraction(nearest) > exact)
    below = nearest == -np.inf or (nearest != np.inf and Fraction(nearest) < exact)
    nearest = neighbour(f64(nearest), above, below, mode, exact > 0)
    return np.copysign(0.0, float(exact > 0) - 0.5) if nearest == 0 else nearest


def neighbour(nearest: Any, above: bool, below: bool, mode: str, positive: bool) -> Any:
    """A number, or the next one if it is on the wrong side of an exact result for the mode."""
    if above and (mode == "rm" or (mode == "rz" and positive)):
        return np.nextafter(nearest, type(nearest)(-np.inf))
    if below and (mode == "rp" or (mode == "rz" and not positive)):
        return np.nextafter(nearest, type(nearest)(np.inf))
    return nearest


# ---- approximations


def approximate(name: str, x: np.ndarray) -> np.ndarray:
    """A function of the `.approx` instructions: that of float64, rounded to the operand's type."""
    return _FUNCTIONS[name](x.astype(f64)).astype(x.dtype)


_FUNCTIONS: dict[str, Any] = {
    "sin": np.sin,
    "cos": np.cos,
    "ex2": np.exp2,
    "lg2": np.log2,
    "tanh": np.tanh,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "rcp": lambda x: 1 / x,
}


def divide_approximate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`div.approx.f32`: a * (1 / b), where 1 / b is 0 for |b| > 2**126, as the PTX ISA says."""
    huge = np.isfinite(b) & (np.abs(b) > f32(2.0**126))
    return where(huge, a * np.copysign(_ZERO, b), a / b)


_HIGH = np.array([0xFFFFFFFF00000000], u64)


def gross(name: str, x: np.ndarray) -> np.ndarray:
    """`rcp.approx.ftz.f64`, `rsqrt.approx.ftz.f64`: the high words of operand and result only."""
    high = flush((x.view(u64) & _HIGH).view(f64))
    return flush((_FUNCTIONS[name](high).view(u64) & _HIGH).view(f64))


# ---- tests and signs


def copy_sign(sign: np.ndarray, magnitude: np.ndarray) -> np.ndarray:
    """`copysign d, a, b`: the magnitude of b with the sign of a."""
    return np.copysign(magnitude, sign)


def test_property(name: str, x: np.ndarray) -> np.ndarray:
    """`testp`: a predicate."""
    tiny, size = _TINY[x.dtype], np.abs(x)
    return {
        "finite": np.isfinite(x), "infinite": np.isinf(x), "number": x == x, "notanumber": x != x,
        "normal": np.isfinite(x) & (size >= tiny), "subnormal": (size < tiny) & (size > 0),
    }[name]  # fmt: skip
