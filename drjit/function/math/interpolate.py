"""Piecewise linear functions of tabulated values."""

from functools import partial
from typing import Any

from ...array.promote import promote
from ...jit.ir import dtype as dt
from ...jit.lazy import np
from .. import conversion
from ..conversion import T, flat_class, in_single, is_array, is_flat, is_real, map_leaves, related
from ..data.layout import binary_search
from ..data.memory import gather
from .arithmetic import clip, fma, minimum, select


def interp(x: T, xp: Any, fp: Any, left: float | None = None, right: float | None = None) -> T:
    """Returns the piecewise linear function through the points `xp`, in increasing order, with the
    values `fp`, at positions `x`, as `numpy.interp` does.

    Positions below the first point have its value or `left`, those above the last one its value or
    `right`; NaN stays NaN. `x` is an array of any shape, or a number; `xp` and `fp` are
    one-dimensional arrays or tensors of one size, or lists. Each position is found by a binary
    search, all of which is traced. Derivatives reach all three; at a point, they are those of the
    segment above. `float16` is computed in `float32`. For points at 0, 1, 2, ..., see
    `take_interp`.

    Raises:
        TypeError: `x` is not floating point, or there is no array among the arguments.
        ValueError: `xp` and `fp` have no entries, or differ in size.

    >>> dr.interp(Float(-1, 0.5, 2, 9), [0, 1, 3], Float(0, 10, 20))
    [0, 5, 15, 20]
    >>> dr.interp(Float(-1, 9), Float(0, 1), Float(0, 10), left=dr.nan, right=-1)
    [nan, -1]
    """
    what = "dr.interp"
    arrays = [a for a in (x, xp, fp) if is_array(a)]
    if not (is_real(x) or (is_array(x) and x._dtype.is_float)):
        raise conversion.unexpected(what, "an array of floating point positions", x)
    if not arrays:
        raise TypeError(f"{what}(): one of the arguments must be an array, such as Float(0, 1)")
    flat: Any = type(promote(*[flat_class(type(a))() for a in arrays], 0.0, name=what)[0])
    points, values = _table(flat, xp, "xp"), _table(flat, fp, "fp")
    if len(points) != len(values) or not len(points):
        raise ValueError(
            f"{what}(): 'xp' has {len(points)} entries and 'fp' {len(values)}; they must have the "
            "same number, at least one"
        )
    kind = type(x) if is_array(x) else flat
    cls = related(kind, namespace=flat._namespace, dtype=flat._dtype)

    def computed(x: Any, points: Any, values: Any) -> Any:
        return map_leaves(x, lambda v: _between(v, points, values, left, right))

    return in_single(computed, cls(x), points, values)


def _table(cls: Any, given: Any, name: str) -> Any:
    if is_array(given) and given._kind == "tensor" and len(given._shape) == 1:
        given = given._array
    if not isinstance(given, (list, tuple)) and not (is_array(given) and is_flat(type(given))):
        expected = f"a one-dimensional array, a tensor of one axis or a list as '{name}'"
        raise conversion.unexpected("dr.interp", expected, given)
    return cls(given)


def _between(x: Any, points: Any, values: Any, left: Any, right: Any) -> Any:
    if not is_array(x):  # an entry of an array of drjit.scalar
        return float(np.interp(x, list(points), list(values), left, right))
    if not len(x):
        return x
    cls, last = type(x), len(points) - 1
    pick = partial(gather, cls)
    above = binary_search(0, last + 1, lambda i: pick(points, i) <= x)
    low = clip(flat_class(cls, dt.i32)(above) - 1, 0, max(last - 1, 0))
    high = minimum(low + 1, last)
    (x0, x1), (y0, y1) = ([pick(t, low), pick(t, high)] for t in (points, values))
    weight = (x - x0) / select(x1 > x0, x1 - x0, 1.0)
    found = fma(weight, y1 - y0, y0)
    found = select(x < pick(points, 0), pick(values, 0) if left is None else left, found)
    end = pick(points, last)
    found = select(x >= end, pick(values, last), found)
    return found if right is None else select(x > end, right, found)
