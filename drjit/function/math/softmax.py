"""Sums of exponentials along axes that do not overflow: softmax, and its logarithm.

All are relative to the largest entry, which derivatives take for a constant.
"""

from collections.abc import Callable
from types import EllipsisType
from typing import Any, TypeAlias

from ...array import leaf
from ...array.base import KernelValue
from ...array.pytree import map_tree
from ...array.special import is_special
from ..conversion import T, in_single, is_array, map_leaves, unexpected
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

    def weights(x: Any, top: Any, powers: Any, size: Any) -> Any:
        scale = 1 / size
        return map_tree(lambda v: v * scale, powers)

    return _relative(weights, value, axis, "dr.softmax")


def log_softmax(value: T, axis: Axes = ...) -> T:
    """Returns the logarithm of `softmax`, which is accurate also where that rounds to 0: logarithms
    of probabilities, as the losses of classifiers need them.

    Raises:
        TypeError, RuntimeError: as for `softmax`.

    >>> dr.log_softmax(Float(0, 1000))
    [-1000, 0]
    """

    def logarithms(x: Any, top: Any, powers: Any, size: Any) -> Any:
        scale = log(size)
        return map_tree(lambda v: v - scale, x)

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

    what = "dr.logsumexp"
    found = _relative(lambda x, top, powers, size: top + log(size), value, axis, what)
    if keepdims or getattr(value, "_kind", "") != "tensor":
        return found
    return squeeze(found, axes_of(axis, value.ndim, tuple(range(value.ndim)), what))


def _relative(f: Callable[..., Any], value: Any, axis: Any, what: str) -> Any:
    """Returns `f` of the entries relative to the largest ones, of these (0 if that is not finite),
    of exponentials of the former, and of their sums along the axes."""
    for v in value if isinstance(value, (list, tuple)) else [value]:
        if is_array(v):
            fits = v._dtype.is_float and not is_special(v) and len(v.__meta__.dims) < 2
        else:
            fits = isinstance(v, (KernelValue, int, float)) and v is not True
        if not fits:
            expected = "floating point numbers in an array of at most one level, or a tensor"
            raise unexpected(what, expected, v)

    def computed(value: Any) -> Any:
        kind = getattr(value, "_kind", "")
        along: Any = {"keepdims": True} if kind == "tensor" else {}
        top = largest(value, axis, **along)
        if kind in ("leaf", "nested") and 0 in value.shape:  # sizes 0 and 1 do not go together
            return top if what == "dr.logsumexp" else value
        top = _constant(select(isfinite(top), top, 0.0))
        relative = map_tree(lambda v: v - top, value)
        powers = map_tree(exp, relative)
        return f(relative, top, powers, total(powers, axis, **along))

    return in_single(computed, value)


def _constant(value: Any) -> Any:
    """Returns a value without its derivatives."""
    if not is_array(value) or not value._diff:
        return value
    return map_leaves(value, lambda a: leaf.wrap(type(a), a._node))
