"""What reductions and scatter-reductions share: operations and neutral elements."""

from typing import Any

import numpy as np

from ...ir.dtype import BY_NUMPY
from ...ir.op import neutral

# `min` and `max` prefer the operand that is not NaN.
OPERATIONS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def identity(op: str, dtype: np.dtype) -> Any:
    """The neutral element of a reduction."""
    return dtype.type(neutral(op, BY_NUMPY[dtype]))


def passed_over(op: str, dtype: np.dtype) -> Any:
    """What leaves an element as it is when it is combined into memory, which may hold a NaN."""
    if op in ("min", "max") and dtype.kind == "f":
        return dtype.type(np.nan)
    return identity(op, dtype)
