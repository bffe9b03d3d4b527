"""Functions of another compiler on NumPy: one call of its machine code for all lanes."""

from typing import Any

import numpy as np

from ..foreign import ForeignFunction

_TYPES = {"mask": np.bool_, "f32": np.float32, "f64": np.float64} | {
    f"{sign}{bits}": np.dtype(f"{sign}{bits // 8}") for bits in (8, 16, 32, 64) for sign in "iu"
}


def call(function: ForeignFunction, *operands: Any) -> Any:
    """Calls a function for all active lanes; the last operand is their mask."""
    from ..simd.foreign import on_host

    codes = (*function.arguments, "mask")
    whole = zip(np.broadcast_arrays(*operands), codes, strict=True)
    given = [np.asarray(x, _TYPES[code], order="C") for x, code in whole]
    found = [np.zeros(given[-1].shape, _TYPES[code]) for code in function.returned]
    places = np.array([x.ctypes.data for x in (*given, *found)], np.uintp)
    on_host(function)(places.ctypes.data, given[-1].size)
    return found[0] if len(found) == 1 else tuple(found)
