"""What reductions and scatter-reductions share: operations, accumulators, neutral elements."""

from typing import Any

import numpy as np

from .elementwise import Type

# `min` and `max` prefer the operand that is not NaN.
OPERATIONS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def accumulator(t: Type) -> np.dtype:
    """The type in which reductions of a type accumulate."""
    return np.dtype(np.float32) if t.dtype == np.float16 else t.dtype


def identity(op: str, dtype: np.dtype) -> Any:
    """The neutral element of a reduction."""
    if op in ("add", "or"):
        # -0.0 is neutral to both zeros, 0.0 is not.
        return dtype.type(-0.0 if dtype.kind == "f" else 0)
    if op == "mul":
        return dtype.type(1)
    if op == "and":
        return np.invert(dtype.type(0))
    if dtype.kind == "f":
        return dtype.type(np.inf if op == "min" else -np.inf)
    info = np.iinfo(dtype)
    return dtype.type(info.max if op == "min" else info.min)


def passed_over(op: str, dtype: np.dtype) -> Any:
    """What leaves an element as it is when it is combined into memory, which may hold a NaN."""
    if op in ("min", "max") and dtype.kind == "f":
        return dtype.type(np.nan)
    return identity(op, dtype)
