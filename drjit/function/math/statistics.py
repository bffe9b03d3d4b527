"""Variance and standard deviation along axes."""

from collections.abc import Iterable
from math import prod
from typing import Any

from ...array.elementwise import elementwise
from ...jit.ir import dtype as dt
from ...jit.ir import op
from .. import conversion
from ..conversion import is_array, label
from ..data.reduce import _scaled, axes_of, mean, refuse_integers, sum


def var(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, ddof: int = 0
) -> Any:
    """The variance along axes: the mean of the squared distances from the mean; with `ddof`, their
    sum divided by the number of entries minus `ddof`. Axes are those of `reduce`.

    Raises:
        TypeError: the array holds integers.
        RuntimeError: an axis is out of bounds.

    >>> from drjit.llvm import Float
    >>> var(Float(1, 3)), var([1, 3], ddof=1)
    ([1], 2.0)
    """
    if not is_array(value):
        if isinstance(value, Iterable):
            value = list(value)
            if any(is_array(v) for v in value):
                center = mean(value, axis, mode)
                squares = [(v - center) * (v - center) for v in value]
                return _scaled(sum(squares, axis, mode), max(len(value) - ddof, 0))
        else:
            value = [value]
        center = mean(value)
        total = sum([(v - center) ** 2 for v in value])
        n = len(value) - ddof
        return total / n if n > 0 else float("nan") if total == 0 else float("inf")
    refuse_integers(value, "dr.var", "variance")
    if value._dtype is dt.f16 and value.__meta__.is_jit:
        found = var(conversion.with_dtype(type(value), dt.f32)(value), axis, mode, keepdims, ddof)
        return conversion.with_dtype(type(found), dt.f16)(found)
    is_tensor = value._kind == "tensor"
    center = mean(value, axis, mode, is_tensor)
    off = value - center
    squares = sum(elementwise(op.mul, off, off, name="dr.var"), axis, mode, keepdims)
    shape = value.shape
    default = tuple(range(len(shape))) if is_tensor else (0,)
    count = prod(shape[a] for a in axes_of(axis, len(shape), default, f"dr.var(<{label(value)}>)"))
    return _scaled(squares, max(count - ddof, 0))


def std(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, ddof: int = 0
) -> Any:
    """The standard deviation along axes, the square root of the variance; see `var`.

    >>> from drjit.llvm import Float
    >>> std(Float(1, 3))
    [1]
    """
    if is_array(value):
        refuse_integers(value, "dr.std", "standard deviation")
    found = var(value, axis, mode, keepdims, ddof)
    return elementwise(op.sqrt, found, name="dr.std") if is_array(found) else found**0.5


__all__ = ["std", "var"]
