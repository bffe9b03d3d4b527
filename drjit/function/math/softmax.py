"""Sums of exponentials along axes that do not overflow: softmax, and its logarithm.

All are relative to the largest entry, which derivatives take for a constant.
"""

from collections.abc import Callable
from types import EllipsisType
from typing import Any, TypeAlias

from ...array import leaf
from ...array.base import KernelValue
from ...array.special import is_special
from ...jit.ir import dtype as dt
from ..conversion import T, is_array, map_leaves, unexpected, with_dtype
from ..data.reduce import axes_of
from ..data.reduce import max as largest
from ..data.reduce import sum as total
from ..data.reorder import squeeze
from .arithmetic import isfinite, select
from .transcendental import exp, log

Axes: TypeAlias = int | tuple[int, ...] | EllipsisType | None


def softmax(value: T, axis: Axes = ...) -> T:
    """Returns exp(x) divided by its sum along axes: positive weights that add up to 1.

    Axes are those of `sum`: by default all of a tensor, the components of a nested array, the lanes
    of a one-dimensional array, and the entries of a list of arrays or of a cooperative vector.
    Large entries do not overflow, and entries of -inf have the weight 0; the result is NaN if all
    are. `float16` is computed in `float32`, except in cooperative vectors.

    Raises:
        TypeError: the entries are not floating point numbers.
        RuntimeError: an axis is out of bounds.

    >>> dr.softmax(TensorXf([[1, 1], [0, 1000]]), axis=1)
    [[0.5, 0.5],
     [0, 1]]
    >>> dr.softmax(Array2f(0, [0, -dr.inf]))
    [[0.5, 0.5],
     [1, 0]]
    >>> dr.softmax([Float(1), Float(1)])
    [[0.5], [0.5]]
    """

    def weights(x: Any, top: Any, along: Any) -> Any:
        e = _each(x, lambda v: exp(v - top))
        scale = 1 / along(total, e)
        return _each(e, lambda v: v * scale)

    return _relative(weights, value, axis, "dr.softmax")


def log_softmax(value: T, axis: Axes = ...) -> T:
    """Returns the logarithm of `softmax`, which is accurate also where that rounds to 0: logarithms
    of probabilities, as the losses of classifiers need them.

    Raises:
        TypeError, RuntimeError: as for `softmax`.

    >>> dr.log_softmax(Float(0, 1000))
    [-1000, 0]
    """

    def logarithms(x: Any, top: Any, along: Any) -> Any:
        size = log(along(total, _each(x, lambda v: exp(v - top))))
        return _each(x, lambda v: v - top - size)

    return _relative(logarithms, value, axis, "dr.log_softmax")


def logsumexp(value: Any, axis: Axes = ..., keepdims: bool = False) -> Any:
    """Returns the logarithm of the sum of exp(x) along axes, a smooth maximum whose gradient is
    `softmax`; -inf if there are no entries, or all of them are -inf.

    Axes are those of `softmax`; `keepdims` keeps reduced axes of tensors with size 1.

    Raises:
        TypeError, RuntimeError: as for `softmax`.

    >>> dr.logsumexp(Float(1000, 1000))
    [1000.69]
    >>> dr.logsumexp(TensorXf([[0, 0], [5, -dr.inf]]), axis=1, keepdims=True)
    [[0.693147],
     [5]]
    """

    def logarithm(x: Any, top: Any, along: Any) -> Any:
        found = top + log(along(total, _each(x, lambda v: exp(v - top))))
        if keepdims or not is_array(x) or x._kind != "tensor":
            return found
        ndim = len(x._shape)
        return squeeze(found, axes_of(axis, ndim, tuple(range(ndim)), "dr.logsumexp"))

    return _relative(logarithm, value, axis, "dr.logsumexp")


def _each(value: Any, f: Callable[[Any], Any]) -> Any:
    return type(value)([f(v) for v in value]) if isinstance(value, (list, tuple)) else f(value)


def _relative(f: Callable, value: Any, axis: Any, what: str) -> Any:
    """Returns `f(x, top, along)` for the entries, the largest ones along the axes (0 if that is not
    finite), and the function by which `f` reduces along the axes."""
    dtypes = _each(value, _float_type(what))
    if dt.f16 in dtypes if isinstance(dtypes, (list, tuple)) else dtypes is dt.f16:
        found = _relative(f, _each(value, lambda v: _converted(v, dt.f32)), axis, what)
        return _each(found, lambda v: _converted(v, dt.f16))

    def along(reduce: Callable, x: Any) -> Any:
        return reduce(x, axis, keepdims=True) if kind == "tensor" else reduce(x, axis)

    kind = getattr(value, "_kind", "")
    top = along(largest, value)
    if kind in ("leaf", "nested") and 0 in value.shape:  # sizes 0 and 1 do not go together
        return top if what == "dr.logsumexp" else value
    return f(value, _constant(select(isfinite(top), top, 0.0)), along)


def _float_type(what: str) -> Callable[[Any], Any]:
    """Returns the function that checks an operand and returns its element type."""

    def found(value: Any) -> Any:
        if is_array(value):
            if value._dtype.is_float and not is_special(value) and len(value.__meta__.dims) < 2:
                return value._dtype
        elif isinstance(value, (KernelValue, int, float)) and value is not True:
            return None
        raise unexpected(
            what, "floating point numbers in an array of at most one level, or a tensor", value
        )

    return found


def _converted(value: Any, dtype: dt.DType) -> Any:
    return with_dtype(type(value), dtype)(value) if is_array(value) else value


def _constant(value: Any) -> Any:
    """Returns a value without its derivatives."""
    if not is_array(value) or not value._diff:
        return value
    return map_leaves(value, lambda a: leaf.wrap(type(a), a._node))
