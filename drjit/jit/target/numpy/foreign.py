"""Functions that another compiler made, on NumPy arrays: one call of machine code for all lanes."""

import ctypes
from functools import cache
from typing import Any

import numpy as np

from ...ir.dtype import BY_CODE
from .. import image
from ..foreign import ForeignFunction


def call(function: ForeignFunction, *operands: Any) -> Any:
    """Calls a function for all active lanes; the last operand is their mask."""
    codes = (*function.arguments, "mask")
    pairs = zip(np.broadcast_arrays(*operands), codes, strict=True)
    arguments = [np.asarray(x, BY_CODE[code].numpy, order="C") for x, code in pairs]
    lanes = arguments[-1]
    results = [np.zeros(lanes.shape, BY_CODE[code].numpy) for code in function.returned]
    words = np.array([0, *[x.ctypes.data for x in (*arguments, *results)]], np.uintp)
    run: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 4)
    run(_kernel(function).kernel)(words.ctypes.data, 0, lanes.size, 0, 0)
    return results[0] if len(results) == 1 else tuple(results)


@cache
def _kernel(function: ForeignFunction) -> image.Loaded:
    """Returns a kernel that calls a function, for packets of one lane: arrays have no padding."""
    from .. import simd

    inputs = {f"x{k}": code for k, code in enumerate((*function.arguments, "mask"))}
    outputs = {f"y{k}": code for k, code in enumerate(function.returned)}
    lines = [
        *[f"{x} = load({code}, p[{k}], i)" for k, (x, code) in enumerate(inputs.items(), 1)],
        f"{', '.join(outputs)} = {function.name}({', '.join(inputs)})",
        *[
            f"store({code}, p[{k}], i, {y})"
            for k, (y, code) in enumerate(outputs.items(), 1 + len(inputs))
        ],
    ]
    text = "\n    ".join(["def kernel(i, p):", *lines])
    return image.Loaded(simd.compile(text, "host", 1, by_numba=False).code, "host", False)
