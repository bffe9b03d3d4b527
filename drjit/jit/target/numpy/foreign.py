"""Functions of another compiler on NumPy: one call of its machine code for all lanes."""

from typing import Any

import numpy as np

from ...ir.dtype import BY_CODE
from ..foreign import ForeignFunction


def call(function: ForeignFunction, *operands: Any) -> Any:
    """Calls a function for all active lanes; the last operand is their mask."""
    from ..simd.foreign import on_host

    codes = (*function.arguments, "mask")
    pairs = zip(np.broadcast_arrays(*operands), codes, strict=True)
    arguments = [np.asarray(x, BY_CODE[code].numpy, order="C") for x, code in pairs]
    lanes = arguments[-1]
    results = [np.zeros(lanes.shape, BY_CODE[code].numpy) for code in function.returned]
    places = np.array([x.ctypes.data for x in (*arguments, *results)], np.uintp)
    on_host(function)(places.ctypes.data, lanes.size)
    return results[0] if len(results) == 1 else tuple(results)
