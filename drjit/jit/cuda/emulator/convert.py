"""`cvt` of PTX: conversions between numbers, with its rounding modes, on NumPy arrays.

Sources: "Parallel Thread Execution ISA", section "Data Movement and Conversion Instructions: cvt"
(in particular what becomes of NaN and of numbers that are out of range).
"""

from typing import Any

import numpy as np

from drjit.jit.cuda.emulator.numeric import (
    directed,
    f32,
    f64,
    narrow,
    neighbour,
    odd_sum,
    u32,
    where,
)

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


def from_integer(x: np.ndarray, dtype: Any, mode: str) -> np.ndarray:
    """Integers as numbers."""
    if mode == "rn":
        return x.astype(dtype)
    if x.dtype.itemsize < 8:
        return directed(x.astype(f64), 0.0, mode, dtype) if dtype != f64 else x.astype(f64)
    out = np.empty(x.shape, dtype)
    for k, value in enumerate(x.tolist()):
        out[k] = _directed_integer(value, dtype, mode)
    return out


def _directed_integer(value: int, dtype: Any, mode: str) -> Any:
    nearest = dtype(value)
    above, below = nearest > 0, nearest < 0
    if np.isfinite(nearest):
        above, below = int(nearest) > value, int(nearest) < value
    return neighbour(nearest, above, below, mode, value > 0)


def to_float(x: np.ndarray, dtype: Any, mode: str) -> np.ndarray:
    """Numbers as numbers of another size."""
    if mode in ("", "rn"):
        return x.astype(dtype)
    return directed(x.astype(f64), 0.0, mode, dtype)


def to_bf16(x: np.ndarray, mode: str) -> np.ndarray:
    """Numbers or integers as bfloat16 (uint16)."""
    if x.dtype.kind == "f" and x.dtype.itemsize < 8:
        return narrow(x.astype(f32), mode)
    if x.dtype.itemsize == 8 and x.dtype.kind in "iu":
        # Exact in two parts; their sum rounded to odd can be rounded again.
        low = x & x.dtype.type(0xFFFF)
        x = odd_sum((x - low).astype(f64), low.astype(f64))
    return narrow(_odd_f32(x.astype(f64)), mode)


def _odd_f32(x: np.ndarray) -> np.ndarray:
    """float64 rounded to odd in float32."""
    bits = directed(x, 0.0, "rz", f32).view(u32)
    inexact = (bits.view(f32).astype(f64) != x) & (x == x)
    return (bits | inexact.astype(u32)).view(f32)


def to_tf32(x: np.ndarray, mode: str) -> np.ndarray:
    """float32 with ten digits after the point: nearest, halfway cases away from zero (rna) or to
    even (rn), or towards zero (rz)."""
    bits = x.view(u32)
    if mode == "rna":
        up = bits + u32(0x1000)
    elif mode == "rn":
        up = bits + u32(0xFFF) + ((bits >> u32(13)) & u32(1))
    else:
        up = bits
    return where(np.isfinite(x), (up & u32(0xFFFFE000)).view(f32), x)
