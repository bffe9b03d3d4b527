"""Arithmetic and conversions as PTX defines them, on NumPy arrays. Generated code calls these
functions by their names.

Results of basic operations are rounded once, and have the same bits as on hardware. Those of
`.approx` instructions are not specified, but how far they may be off; here, they are the rounded
float64 function, or, for a test that chooses `EDGES`, as far off as the PTX ISA allows.

NaN: NVIDIA's hardware returns one NaN (0x7fffffff; 0x7fff for 16 bits) from arithmetic on 32 and
16 bits, whatever its operands (CUDA C++ Programming Guide, "Floating-point standard"). NumPy keeps
payloads, so `canonical` replaces them where the bits of a result can be seen. float64 arithmetic
keeps payloads on both.

NumPy computes with float16 as float32, whose 24 digits are enough for one operation to be rounded
twice without harm (S. A. Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3),
1995).

Conversions: "Parallel Thread Execution ISA", section "Data Movement and Conversion Instructions:
cvt" (in particular what becomes of NaN and of numbers that are out of range).
"""

from typing import Any

import numpy as np

from ...target.numpy.elementwise import brev as brev
from ...target.numpy.elementwise import lzcnt as lzcnt
from ...target.numpy.elementwise import mul_hi as mul_hi
from ...target.numpy.fused import fma_f32 as fma_f32
from ...target.numpy.fused import fma_f64 as fma_f64

f16, f32, f64 = np.float16, np.float32, np.float64
u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64
i8, i16, i32, i64 = np.int8, np.int16, np.int32, np.int64
where = np.where

_NAN = {
    np.dtype(f16): np.array([0x7FFF], u16).view(f16),
    np.dtype(f32): np.array([0x7FFFFFFF], u32).view(f32),
    np.dtype(f64): np.array([0x7FF8 << 48], u64).view(f64),
}
_TINY = {np.dtype(t): np.finfo(t).tiny for t in (f16, f32, f64)}
_ZERO = np.zeros(1, f32)
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


def fma_f16(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`a * b + c` for float16, rounded once: in float64, it is exact wherever that matters.

    A sum that needs more than 53 bits is not near a number halfway between two of float16: a
    product has 22 bits, and none of the operands has a bit below 2**-48 or above 2**32.
    """
    return (a.astype(f64) * b + c).astype(f16)


# ---- minimum and maximum


def minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smaller number; the other one if one is NaN; -0 is less than +0."""
    return _with_sign_of_zero(np.fmin(a, b), a, b, np.bitwise_or)


def maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The larger number; the other one if one is NaN; +0 is greater than -0."""
    return _with_sign_of_zero(np.fmax(a, b), a, b, np.bitwise_and)


def _with_sign_of_zero(r: np.ndarray, a: np.ndarray, b: np.ndarray, combine: Any) -> np.ndarray:
    if np.count_nonzero(r) == r.size:
        return r
    bits = _BITS[r.dtype.itemsize]
    return where(a == b, combine(a.view(bits), b.view(bits)).view(r.dtype), r)


def nan_if_any(r: np.ndarray, *operands: np.ndarray) -> np.ndarray:
    """`.NaN` of minimum and maximum: NaN if any operand is."""
    for x in operands:
        r = where(x != x, _NAN[x.dtype], r)
    return r


EDGES: dict[str, float] = {}
"""For tests: the share of the guaranteed error, from -1 to 1, that results of an instruction have.
The guarantees are those for float32."""


def approximate(name: str, x: np.ndarray) -> np.ndarray:
    """A function of the `.approx` instructions: that of float64, rounded to the operand's type."""
    wide = x.astype(f64)
    y = _FUNCTIONS[name](wide)
    nearest = y.astype(x.dtype)
    if (edge := EDGES.get(name)) is None or x.dtype != f32:
        return nearest
    y = nearest.astype(f64) if name in ("ex2", "rcp") else y  # from which their errors are counted
    limit = _ERRORS[name](wide, y)
    off = (y + edge * limit).astype(f32)
    beyond = np.abs(off - y) > limit  # by rounding
    off = where(beyond, np.nextafter(off, nearest), off)
    special = (x == 0) | ~np.isfinite(x) | ~np.isfinite(nearest)  # which are exact
    special |= (nearest == 0) & (name != "lg2")
    return where(special, nearest, off)


_FUNCTIONS: dict[str, Any] = {
    "sin": np.sin,
    "cos": np.cos,
    "ex2": np.exp2,
    "lg2": np.log2,
    "tanh": np.tanh,
    "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


def _of_angles(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    far = where(np.abs(x) <= 100 * np.pi, 2.0**-14.7, np.nan)  # NaN: nothing is guaranteed
    return where(np.abs(x) <= 2 * np.pi, 2.0**-20.5, far)


# The largest absolute error of instructions at x, where the exact result is y: see the PTX ISA,
# section "Floating Point Instructions".
_ERRORS: dict[str, Any] = {
    "sin": _of_angles,
    "cos": _of_angles,
    "ex2": lambda x, y: 2 * np.spacing(np.abs(y).astype(f32)),
    "lg2": lambda x, y: 2.0**-22 * where((x > 0.5) & (x < 2), 1, np.abs(y)),
    "tanh": lambda x, y: 2.0**-11 * np.abs(y),
    "rcp": lambda x, y: np.spacing(np.abs(y).astype(f32)),
    "rsqrt": lambda x, y: 2.0**-22.9 * np.abs(y),
}


def divide_approximate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`div.approx.f32`: a * (1 / b), where 1 / b is 0 for |b| > 2**126, as the PTX ISA says."""
    huge = np.isfinite(b) & (np.abs(b) > f32(2.0**126))
    return where(huge, a * np.copysign(_ZERO, b), a / b)


# ---- conversions

_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def integral(x: np.ndarray, mode: str) -> np.ndarray:
    """Numbers rounded to integers (rni, rzi, rmi, rpi), as numbers."""
    return _INTEGRAL[mode](x)


def to_integer(x: np.ndarray, dtype: Any, mode: str) -> np.ndarray:
    """Numbers rounded to integers, clamped to the range of the type.

    NaN becomes 0, but the highest bit alone if a type of 64 bits is involved.
    """
    info = np.iinfo(dtype)
    wide = x.itemsize == 8 or info.bits == 64
    rounded = _INTEGRAL[mode](x if x.itemsize > 2 else x.astype(f32))
    if info.bits == 32 and rounded.dtype == f32:
        rounded = rounded.astype(f64)
    # The limits as numbers of the same type: one that is exact, and one that is just too much.
    low, beyond = (
        rounded.dtype.type(info.min),
        rounded.dtype.type(2.0 ** (info.bits - (info.min < 0))),
    )
    result = rounded.astype(dtype)
    result = where(rounded >= beyond, dtype(info.max), result)
    result = where(rounded <= low, dtype(info.min), result)
    nan = x != x
    if np.count_nonzero(nan):
        bits = np.array([1 << (info.bits - 1)], f"u{info.bits // 8}")
        result = where(nan, bits.view(dtype) if wide else dtype(0), result)
    return result


def to_tf32(x: np.ndarray) -> np.ndarray:
    """float32 with ten digits after the point: nearest, halfway cases away from zero."""
    up = x.view(u32) + u32(0x1000)
    return where(np.isfinite(x), (up & u32(0xFFFFE000)).view(f32), x)


# ---- integers


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`div`: towards zero. Division by zero gives all ones, which the PTX ISA leaves open."""
    zero = b == 0
    t = a.dtype.type
    divisor = where(zero, t(1), b)
    if a.dtype.kind == "u":
        return where(zero, ~t(0), a // divisor)
    # NumPy's // rounds down. The most negative number divided by -1 is itself, in both.
    q = a // divisor
    q = where((q < 0) & (q * divisor != a), q + t(1), q)
    return where(zero, t(-1), q)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`rem`: with the sign of the dividend; by zero, the dividend."""
    zero = b == 0
    t = a.dtype.type
    one = zero | (b == t(-1)) if a.dtype.kind == "i" else zero  # INT_MIN % -1 would trap
    return where(zero, a, np.fmod(a, where(one, t(1), b)))


def saturated(x: np.ndarray, dtype: Any) -> np.ndarray:
    """Integers clamped to the range of another type."""
    info = np.iinfo(dtype)
    source = np.iinfo(x.dtype)
    low, high = max(info.min, source.min), min(info.max, source.max)
    return np.clip(x, x.dtype.type(low), x.dtype.type(high)).astype(dtype)


def carry_out(a: np.ndarray, b: np.ndarray, carry: np.ndarray) -> np.ndarray:
    """Whether `a + b + carry` needs another bit."""
    s = a + b
    t = s + carry.astype(a.dtype)
    return (s < a) | (t < s)


def borrow_out(a: np.ndarray, b: np.ndarray, borrow: np.ndarray) -> np.ndarray:
    """Whether `a - b - borrow` is negative."""
    return (a < b) | ((a == b) & borrow)


# ---- bits


def extract_field(a: np.ndarray, position: np.ndarray, length: np.ndarray) -> np.ndarray:
    """`bfe`: `length` bits of `a` from `position`; signed ones are extended by the highest."""
    bits = 8 * a.itemsize
    position, length = position & u32(255), np.minimum(length & u32(255), u32(bits))
    x = a >> np.minimum(position, u32(bits)).astype(a.dtype)
    spare = (u32(bits) - length).astype(a.dtype)
    return (x << spare) >> spare


def insert_field(
    a: np.ndarray, b: np.ndarray, position: np.ndarray, length: np.ndarray
) -> np.ndarray:
    """`bfi`: `b` with its bits from `position` replaced by the lowest `length` bits of `a`."""
    t = b.dtype.type
    position, length = (position & u32(255)).astype(t), (length & u32(255)).astype(t)
    mask = ((t(1) << length) - t(1)) << position
    return (b & ~mask) | ((a << position) & mask)


def funnel_left(low: np.ndarray, high: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """`shf.l`: the upper word of the pair, shifted left."""
    pair = high.astype(u64) << u64(32) | low
    return ((pair << amount.astype(u64)) >> u64(32)).astype(u32)


def funnel_right(low: np.ndarray, high: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """`shf.r`: the lower word of the pair, shifted right."""
    pair = high.astype(u64) << u64(32) | low
    return (pair >> amount.astype(u64)).astype(u32)


def permute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """`prmt`: four bytes of the eight of `a` (the lower ones) and `b`."""
    pair = b.astype(u64) << u64(32) | a
    result = np.zeros(1, u32)
    for k in range(4):
        selector = (c >> u32(4 * k)) & u32(15)
        byte = (pair >> ((selector & u32(7)) * u32(8)).astype(u64)).astype(u32) & u32(255)
        sign = where(byte & u32(128), u32(255), u32(0))
        result = result | where(selector & u32(8), sign, byte) << u32(8 * k)
    return result


def logic3(a: np.ndarray, b: np.ndarray, c: np.ndarray, table: int) -> np.ndarray:
    """`lop3`: a function of three bits, given by its values."""
    result = np.zeros(1, u32)
    for k in range(8):
        if table >> k & 1:
            term = (a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c)
            result = result | term
    return result


# ---- words and their parts


def pairs(x: np.ndarray, dtype: Any) -> np.ndarray:
    """Words as rows of two halves, the lower one first."""
    return np.ascontiguousarray(x).view(dtype).reshape(-1, 2)


def unpaired(rows: np.ndarray, dtype: Any) -> np.ndarray:
    """Rows of two halves as words."""
    return np.ascontiguousarray(rows).view(dtype).reshape(-1)


def join(word: Any, *parts: np.ndarray) -> np.ndarray:
    """`mov` of `{a, b, ...}`: a word from its parts, the lowest first."""
    bits = np.dtype(word).itemsize * 8 // len(parts)
    result = parts[0].astype(word)
    for k, part in enumerate(parts[1:], 1):
        result = result | part.astype(word) << word(bits * k)
    return result


def part(x: np.ndarray, dtype: Any, k: int) -> np.ndarray:
    """The k-th part of words."""
    if k:
        x = x >> x.dtype.type(np.dtype(dtype).itemsize * 8 * k)
    return x.astype(dtype)
