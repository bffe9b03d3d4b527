"""What is said of arguments of kernel texts."""

from operator import index
from typing import Any

from ...array.base import ArrayBase, type_label
from ...array.meta import LEAF_NAME
from ...jit.ir.dtype import DType


def as_integer(size: Any, what: str) -> int:
    try:
        return index(size)
    except TypeError:
        raise TypeError(f"{what} is a number of lanes, got {size!r}") from None


def described(value: Any, dtype: DType) -> str:
    """Returns what an argument is, and what to do about it if it should be an array."""
    label = type_label(value)
    if isinstance(value, ArrayBase):
        kind = type(value)._kind
        if kind == "tensor":
            return f"a tensor {label}: pass its .array"
        if kind == "nested":
            return f"a {label}: pass its components one by one"
        return f"a {label}; {LEAF_NAME[dtype]}(x) converts"
    return f"a {label}"
