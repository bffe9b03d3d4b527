"""Floating-point arithmetic as PTX defines it, on NumPy arrays.

Results of basic operations are rounded once and exact to the bit. The `.approx` instructions are
not specified to the bit; here they are the float64 function, rounded: at least as accurate as the
hardware, whose last bits differ.

NaN: NVIDIA's hardware returns one NaN (0x7fffffff; 0x7fff for 16 bits) from arithmetic on 32 and
16 bits, whatever its operands (CUDA C++ Programming Guide, "Floating-point standard"). NumPy keeps
payloads, so `canonical` replaces them where the bits of a result can be seen. float64 arithmetic
keeps payloads on both.

NumPy computes with float16 as float32, whose 24 digits are enough for one operation to be rounded
twice without harm (S. A. Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3),
1995).
"""

from typing import Any

import numpy as np

from drjit.jit.target.numpy.fused import fma_f32 as fma_f32
from drjit.jit.target.numpy.fused import fma_f64 as fma_f64

f16, f32, f64 = np.float16, np.float32, np.float64
u16, u32, u64 = np.uint16, np.uint32, np.uint64
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
