"""The library functions on the NumPy target: `sin(x)` runs the library's `sin_f32` or `sin_f64`.

The library's modules are loaded on the first call of one of their functions.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from ..library import MODULES
from .elementwise import Value, typed


def _call(name: str) -> Callable:
    def function(*arguments: Value) -> Any:
        operands = typed(*arguments)
        half = operands[0].dtype == np.float16
        if half:
            operands = [x.astype(np.float32) for x in operands]
        suffix = "f32" if operands[0].dtype == np.float32 else "f64"
        module = import_module(f"drjit.jit.target.mathlib.{MODULES[name]}")
        result = getattr(module, f"{name}_{suffix}")(*operands)
        if not half:
            return result
        if type(result) is tuple:
            return tuple([r.astype(np.float16) for r in result])
        return result.astype(np.float16)

    function.__name__ = name
    return function


functions = {name: _call(name) for name in MODULES}
