"""`cvt` of PTX: conversions between numbers on NumPy arrays.

Sources: "Parallel Thread Execution ISA", section "Data Movement and Conversion Instructions: cvt"
(in particular what becomes of NaN and of numbers that are out of range).
"""

from typing import Any

import numpy as np

from drjit.jit.cuda.emulator.numeric import f32, f64, u32, where

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
