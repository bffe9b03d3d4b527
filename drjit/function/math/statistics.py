"""Mean, variance and standard deviation along axes."""

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

from ...array import habits, leaf, signatures
from ...array.base import ArrayBase
from ...array.elementwise import elementwise
from ...array.show import common_width, inner
from ...jit.ir import dtype as dt
from ...jit.ir import op
from ...jit.ir.node import LITERAL, ROUNDED
from .. import conversion
from ..conversion import is_array, label
from ..data.reduce import axes_of, reduce_axes, sum
from ..signature import described


def _refuse_integers(value: Any, name: str, result: str) -> None:
    """Raises a TypeError for integer arrays, whose result would not be an integer."""
    meta = value.__meta__
    if value._dtype.is_int and (meta.is_jit or meta.kind == "tensor" or len(meta.dims) > 1):
        raise TypeError(
            f"{name}(<{label(value)}>): the {result} of integers is no integer; convert to "
            f"{label(conversion.with_dtype(type(value), dt.f32))} first"
        )


@signatures.reduction
def mean(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, **unknown: Any
) -> Any:
    """Returns the mean along axes: the sum times the reciprocal of the number of entries; see
    `reduce`. NaN if there are none.

    Raises:
        TypeError: the array holds integers.

    >>> from drjit.llvm import Float
    >>> dr.mean(Float(1, 2, 6)), dr.mean([1, 2])
    ([3], 1.5)
    """
    if unknown:
        raise habits.unexpected("dr.mean", unknown)
    name = "dr.mean"
    if not isinstance(value, ArrayBase):
        if isinstance(value, Iterable) and not isinstance(value, (list, tuple)):
            value = list(value)
        total = reduce_axes("add", value, axis, mode, keepdims, name)
        n = len(value) if isinstance(value, (list, tuple)) else 1
        if axis is None and n and is_array(total):
            n *= common_width([v for e in value if is_array(e) for v in inner(e)]) or 1
        return _scaled(total, n) if is_array(total) else total / n if n else float("nan")
    _refuse_integers(value, name, "mean")
    if value._dtype is dt.f16 and value.__meta__.is_jit:
        return _in_single_precision(mean, value, axis, mode, keepdims)
    total = reduce_axes("add", value, axis, mode, keepdims, name)
    return _scaled(total, _reduced_count(value, axis, name))


def _in_single_precision(function: Callable, value: Any, *args: Any) -> Any:
    """Applies a function to a half-precision array in single precision, because sums may overflow
    where the result does not."""
    found = function(conversion.with_dtype(type(value), dt.f32)(value), *args)
    return conversion.with_dtype(type(found), dt.f16)(found)


def _reduced_count(value: Any, axis: Any, name: str) -> int:
    """Returns how many entries of an array are reduced to one."""
    if value._kind == "leaf":
        return 1 if axis == () else value._node.size
    shape = conversion.shape_of(value, name)
    default = tuple(range(len(shape))) if value._kind == "tensor" else (0,)
    return prod(shape[a] for a in axes_of(axis, len(shape), default, name))


def _scaled(total: Any, n: int) -> Any:
    """Divides a sum by the number of its terms."""

    def quotient(v: Any, cls: Any) -> Any:
        if not isinstance(v, ArrayBase):
            return v / n if n else float("nan")
        if v._node.op is LITERAL or n == 0:
            return leaf.apply(op.div, v, leaf.literal(cls, n))
        rounded = ROUNDED[cls._dtype]
        return v * rounded(1 / rounded(n))

    if not isinstance(total, ArrayBase) or total._kind == "leaf":
        return quotient(total, type(total))
    return conversion.converted(total, type(total), quotient)


@signatures.deviation
@described
def var(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, ddof: int = 0
) -> Any:
    """Returns the variance along axes: the mean of the squared distances from the mean; with
    `ddof`, their sum divided by the number of entries minus `ddof`. Axes are as in `reduce`.

    Raises:
        TypeError: the array holds integers.
        RuntimeError: an axis is out of bounds.

    >>> from drjit.llvm import Float
    >>> var(Float(1, 3)), var([1, 3], ddof=1)
    ([1], 2.0)
    """
    if not isinstance(value, ArrayBase):
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
    _refuse_integers(value, "dr.var", "variance")
    if value._dtype is dt.f16 and value.__meta__.is_jit:
        return _in_single_precision(var, value, axis, mode, keepdims, ddof)
    off = value
    if 0 not in value.shape:  # what has no entries has no mean
        off = value - mean(value, axis, mode, value._kind == "tensor")
    squares = sum(elementwise(op.mul, off, off, name="dr.var"), axis, mode, keepdims)
    return _scaled(squares, max(_reduced_count(value, axis, "dr.var") - ddof, 0))


@signatures.deviation
@described
def std(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, ddof: int = 0
) -> Any:
    """Returns the standard deviation along axes, the square root of the variance; see `var`.

    >>> from drjit.llvm import Float
    >>> std(Float(1, 3))
    [1]
    """
    if is_array(value):
        _refuse_integers(value, "dr.std", "standard deviation")
    found = var(value, axis, mode, keepdims, ddof)
    return elementwise(op.sqrt, found, name="dr.std") if is_array(found) else found**0.5
