"""The common part of reductions and scatter-reductions: operations and neutral elements."""

from typing import Any

import numpy as np

from ...ir import op as ops
from ...ir.dtype import by_numpy

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
    """Returns the neutral element of a reduction."""
    return dtype.type(ops.neutral(op, by_numpy()[dtype]))


def passed_over(op: str, dtype: np.dtype) -> Any:
    """Returns a value that leaves an element unchanged when combined into memory, which may contain
    a NaN."""
    return dtype.type(ops.passed_over(op, by_numpy()[dtype]))
