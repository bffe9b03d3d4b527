"""Traversal of a regular grid along rays, cell by cell, and line integrals of interpolated volumes.

Follows J. Amanatides and A. Woo, "A Fast Voxel Traversal Algorithm for Ray Tracing" (1987). Cells
and resolutions are given from the last axis to the first, (z, y, x), like the shape of a tensor,
and positions as (x, y, z).
"""

import math
import operator
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .array import leaf_access, signatures
from .array.base import ArrayBase, type_label
from .array.promote import number_type, promote
from .array.table import find
from .flow.loop.while_loop import while_loop
from .function.conversion import related
from .function.data import reduce
from .function.data.create import arange
from .function.math.arithmetic import clip, floor, fma, maximum, minimum, select
from .function.math.vector import norm
from .jit.ir import dtype as dt
from .jit.ir.node import LITERAL
from .jit.trace.access import Access

if TYPE_CHECKING:
    from .array.kinds import Active, Convertible, HasMask, Sequences, ToUInt

__all__ = ["dda", "integrate", "integrate_ref"]

T = TypeVar("T", bound=Any)
Vec = TypeVar("Vec", bound=ArrayBase)
Cell = TypeVar("Cell", bound=Any)

MODES = (None, "scalar", "symbolic", "evaluated")
LABELS = ("state", "cell", "position", "distance", "active")


def dda(
    ray_o: "HasMask[ToUInt[Cell, Any, Any, Any, Any, Any]] | Sequences",
    ray_d: Vec,
    ray_max: "Convertible",
    grid_res: "int | Sequences | ArrayBase",
    grid_min: "Convertible",
    grid_max: "Convertible",
    func: Callable[[T, Cell, Vec, Vec, Any], tuple[T, Any]],
    state: T,
    active: "Active" = True,
    mode: str | None = None,
    max_iterations: int | None = None,
) -> T:
    """Calls a function for every grid cell along a ray, in order, and returns the final state.

    The ray goes from `ray_o` to `ray_o + ray_max * ray_d`; `ray_d` may have any length, and
    `ray_max` may be infinite. The grid has `grid_res` cells between the points `grid_min` and
    `grid_max`. The function is called as `func(state, index, p_in, p_out, active)` with the index
    of the cell, the positions in [0, 1]^n within the cell where the ray enters and leaves, and a
    mask of the rays concerned, which excludes rays that start on the boundary of the cell and point
    away from it. It returns the new state and a mask of the rays that continue. The state is any
    PyTree of arrays; it changes only in the lanes of rays that have not ended.

    With arrays of `drjit.scalar`, this is a plain loop, and the state may be anything.

    Raises:
        TypeError: arguments have wrong types or different numbers of dimensions, or `func` does not
            return a pair.
        RuntimeError: `mode` is unknown.

    >>> def visit(cells, index, p_in, p_out, active):
    ...     return [*cells, index], True
    >>> import math
    >>> from drjit.scalar import Array2f, Array2u
    >>> box = Array2u(2), Array2f(0), Array2f(1)
    >>> dda(Array2f(0, 0.4), Array2f(1, 0.3), math.inf, *box, visit, [])
    [[0, 0], [1, 0], [1, 1]]
    """
    what = "drjit.dda.dda"
    if mode not in MODES:
        raise RuntimeError(f"{what}(): unknown mode {mode!r}; expected one of {MODES}")
    limit = None if max_iterations is None else operator.index(max_iterations)
    o, d, low, high = _vectors((ray_o, ray_d, grid_min, grid_max), what)
    vector = type(o)
    size, traced = vector._size, vector.__meta__.is_jit
    unsigned, signed = (related(vector, dtype=t) for t in (dt.u32, dt.i32))
    res = signed(*reversed(list(_cells(grid_res, unsigned, what))))
    _check_lane(ray_max, vector, "ray_max", what)

    # From here on in units of cells: o + t d with the same t.
    scale = vector(res) / (high - low)
    o, d = (o - low) * scale, d * scale
    forward = d > 0
    moving = forward | (d < 0)
    inverse = 1 / select(moving, d, 1)
    start, end = _span(moving, -o * inverse, (vector(res) - o) * inverse, ray_max)
    within = (moving & (o == o)) | ((d == 0) & (o >= 0) & (o <= vector(res)))
    alive: Any = reduce.all(within & (res > 0)) & reduce.any(moving) & (start < end) & active
    if not traced and not alive:
        return state
    if traced and alive._node.op is LITERAL and not alive._node.data:
        # Broadcast the state to the lanes of the rays, as happens if the mask is not a constant.
        alive = arange(find(vector._namespace, "leaf", dt.u32), len(start)) < 0

    point = select(alive, fma(d, start, o), 0)
    cell = signed(clip(floor(point), 0, vector(res - 1)))
    here = clip(point - vector(cell), 0, 1)
    exit_, step = select(forward, vector(1), 0), select(forward, signed(1), -1)

    def body(values: tuple) -> tuple:
        user, cell, here, before, active = values
        corner = vector(cell)
        t_next = select(moving, (corner + exit_ - o) * inverse, math.inf)
        t = minimum(reduce.min(t_next), end)
        leaving = t_next <= t
        there = select(leaving, exit_, clip(fma(d, t, o) - corner, 0, 1))
        index = unsigned(*[cell[size - 1 - i] for i in range(size)])
        answer = func(user, index, vector(here), vector(there), active & (t > before))
        user, go_on = _pair(answer, what)
        cell = select(leaving, cell + step, cell)
        here = select(leaving, 1 - exit_, there)
        active = reduce.all((cell >= 0) & (cell < res)) & (t < end) & go_on & active
        return user, cell, here, t, active

    return _loop((state, cell, here, start, alive), body, limit, mode if traced else "scalar")[0]


def _pair(answer: Any, what: str) -> tuple[Any, Any]:
    if isinstance(answer, tuple) and len(answer) == 2:
        return answer
    raise TypeError(f"{what}(): 'func' must return the state and a mask, got {type_label(answer)}")


def _span(moving: Any, a: Any, b: Any, ray_max: Any) -> tuple[Any, Any]:
    """Returns the distances at which a ray enters and leaves a box, given the distances `a` and `b`
    of its sides in the dimensions in which the ray moves."""
    near = select(moving, minimum(a, b), -math.inf)
    far = select(moving, maximum(a, b), math.inf)
    return maximum(reduce.max(near), 0.0), minimum(reduce.min(far), ray_max)


def _loop(
    values: tuple, body: Callable[[tuple], tuple], limit: int | None, mode: str | None
) -> tuple:
    """Repeats `body` while the last value is true, at most `limit` times."""
    if limit is None or limit < 0:
        return while_loop(
            values, lambda *v: v[-1], lambda *v: body(v), LABELS, "dda", mode, max_iterations=limit
        )
    number = find(type(values[1])._namespace, "leaf", dt.u32)(0)
    return while_loop(
        (*values, number),
        lambda *v: v[-2] & (v[-1] < limit),
        lambda *v: (*body(v[:-1]), v[-1] + 1),
        (*LABELS, "count"),
        "dda",
        mode,
        max_iterations=limit,
    )


def _vectors(values: tuple, what: str) -> list[Any]:
    """Converts positions and directions to vectors of one type."""
    try:
        found = promote(*values)
    except RuntimeError as problem:
        raise TypeError(f"{what}(): {problem}") from None
    first = found[0]
    fits = isinstance(first, ArrayBase) and first.__meta__.kind == "vector"
    if not fits or len(first.__meta__.dims) != 1 or not first._size or not first._dtype.is_float:
        shown = ", ".join(type_label(v) for v in values)
        raise TypeError(
            f"{what}(): rays and bounds must be floating-point vectors such as "
            f"drjit.llvm.Array3f, got {shown}"
        )
    return found


def _cells(grid_res: Any, unsigned: Any, what: str) -> Any:
    """Converts the resolution to a vector of integers."""
    count = unsigned._size
    if isinstance(grid_res, ArrayBase):
        fits = grid_res._kind == "nested" and len(grid_res) == count and grid_res._dtype.is_int
    elif isinstance(grid_res, (list, tuple)):
        fits = len(grid_res) == count
    else:
        fits = number_type(type(grid_res)) is int
    if not fits:
        raise TypeError(f"{what}(): 'grid_res' must be {count} integers, got {grid_res!r}")
    return unsigned(grid_res)


def _check_lane(value: Any, vector: Any, name: str, what: str) -> None:
    """Raises unless a value is a number or an array with one number per lane."""
    if isinstance(value, ArrayBase):
        fits = vector.__meta__.is_jit and value._kind == "leaf"
    else:
        fits = number_type(type(value)) is not None
    if not fits:
        raise TypeError(
            f"{what}(): '{name}' must be a number or of type {type_label(vector.Value)}, "
            f"got {type_label(value)}"
        )


@signatures.line_integral
def integrate(
    ray_o: Any,
    ray_d: Any,
    ray_max: Any,
    grid_min: Any,
    grid_max: Any,
    vol: Any,
    active: Any = None,
    mode: str | None = None,
) -> Any:
    """Returns the integral of a linearly, bilinearly or trilinearly interpolated volume along the
    part of a ray that lies within the bounds, with respect to arc length.

    The entries of the tensor `vol`, of shape (x,), (y, x) or (z, y, x), are values at points that
    divide the box from `grid_min` to `grid_max` evenly, with the first and last on its faces.
    Within a cell, the interpolant is a polynomial of degree 3 along the ray, which Simpson's rule
    integrates exactly. The ray is as in `dda`; inactive rays return 0.

    Raises:
        TypeError: `vol` is not a floating-point tensor with as many axes as the rays have
            components, or other arguments have wrong types.
        RuntimeError: the tensor is empty, or `mode` is unknown.

    >>> integrate(Array1f(0), Array1f(1), 9.0, Array1f(0), Array1f(2), TensorXf([1, 2, 4]))
    [4.5]
    """
    what = "drjit.dda.integrate"
    o, d, low, high, res = _volume((ray_o, ray_d, grid_min, grid_max), vol, what)
    vector = type(o)
    edges = (high - low) / vector(*reversed(res))

    def add(total: Any, index: Any, p_in: Any, p_out: Any, mask: Any) -> tuple[Any, Any]:
        value = _interpolant(_corners(vol, index, mask, what))
        mean = (value(p_in) + 4 * value((p_in + p_out) * 0.5) + value(p_out)) * (1 / 6)
        return fma(norm((p_out - p_in) * edges), mean, total), True

    start = vector.Value(0)
    mask = True if active is None else active
    return dda(o, d, ray_max, res, low, high, add, start, mask, mode)


@signatures.sampled_integral
def integrate_ref(
    ray_o: Any,
    ray_d: Any,
    ray_max: Any,
    grid_min: Any,
    grid_max: Any,
    vol: Any,
    n_samples: int,
) -> Any:
    """Approximates `integrate` as an independent reference: the midpoint rule with `n_samples`
    evenly spaced samples of the part of the ray within the bounds.

    Raises:
        TypeError, RuntimeError: see `integrate`.
        ValueError: the number of samples is not positive.

    >>> ray = Array1f(0), Array1f(1), 9.0
    >>> integrate_ref(*ray, Array1f(0), Array1f(2), TensorXf([1, 2, 4]), 100)
    [4.5]
    """
    what = "drjit.dda.integrate_ref"
    count = operator.index(n_samples)
    if count < 1:
        raise ValueError(f"{what}(): 'n_samples' must be positive, got {n_samples}")
    o, d, low, high, res = _volume((ray_o, ray_d, grid_min, grid_max), vol, what)
    vector = type(o)
    _check_lane(ray_max, vector, "ray_max", what)
    cells = vector(*reversed(res))
    signed, unsigned = (related(vector, dtype=t) for t in (dt.i32, dt.u32))
    moving = d != 0
    a, b = (low - o) / select(moving, d, 1), (high - o) / select(moving, d, 1)
    outside = ~moving & ((o < low) | (o > high))
    start, end = _span(moving, a, b, ray_max)
    active = (start < end) & reduce.all(~outside) & reduce.any(moving)
    step = select(active, (end - start) / count, 0)

    def add(k: Any, total: Any) -> tuple[Any, Any]:
        t = fma(step, vector.Value(k) + 0.5, start)
        point = clip((fma(d, t, o) - low) / (high - low), 0, 1) * cells
        cell = signed(clip(floor(point), 0, cells - 1))
        index = unsigned(*reversed(list(cell)))
        value = _interpolant(_corners(vol, index, active, what))(point - vector(cell))
        return k + 1, total + select(active, value, 0)

    if not vector.__meta__.is_jit and not active:
        count = 0
    state = find(vector._namespace, "leaf", dt.u32)(0), step * 0
    _, total = while_loop(state, lambda k, total: k < count, add, ("k", "total"), "integrate_ref")
    return total * step * norm(d)


def _volume(rays: tuple, vol: Any, what: str) -> tuple[Any, Any, Any, Any, list[int]]:
    """Returns rays and bounds as vectors of one type, and the number of cells of a volume."""
    o, d, low, high = _vectors(rays, what)
    vector = type(o)
    shape = vol._shape if isinstance(vol, ArrayBase) and vol._kind == "tensor" else ()
    if not 1 <= len(shape) <= 3 or len(shape) != vector._size or vol._dtype is not vector._dtype:
        raise TypeError(
            f"{what}(): 'vol' must be a tensor of the rays' element type with {vector._size} axes "
            f"(up to 3), got {type_label(vol)}{f' of shape {shape}' if shape else ''}"
        )
    if 0 in shape:
        raise RuntimeError(f"{what}(): the volume is empty, its shape is {shape}")
    return o, d, low, high, [max(n - 1, 1) for n in shape]


def _corners(vol: Any, index: Any, mask: Any, what: str) -> list[Any]:
    """Returns the values at the corners of a cell, with the offset along the last axis varying
    fastest."""
    shape, array = vol._shape, vol._array
    first: Any = 0
    offsets = [0]
    for i, n in enumerate(shape):
        first = index[i] if i == 0 else first * n + index[i]
        offsets = [k * n + step for k in offsets for step in (0, int(n > 1))]
    if array.__meta__.is_jit:
        # Cells lie within the grid, so no index needs a check.
        inside = prod(shape) < 1 << 31
        cells = [first + k if k else first for k in offsets]
        places = [Access(i._node, mask._node, what, inside=inside) for i in cells]
        return [leaf_access.gather(array, at) for at in places]
    return [array[cast(int, first + k)] for k in offsets]


def _interpolant(corners: list[Any]) -> Callable[[Any], Any]:
    """Returns the interpolant of corner values as a function of the position (x, y, z) within the
    cell."""
    edges = _edges(corners)

    def at(point: Any) -> Any:
        values = [fma(point[0], slope, a) for a, slope in edges]
        for i in range(1, len(point)):
            values = [fma(point[i], slope, a) for a, slope in _edges(values)]
        return values[0]

    return at


def _edges(values: list[Any]) -> list[tuple[Any, Any]]:
    """Returns the first value of each pair, and the difference to the second."""
    return [(a, b - a) for a, b in zip(values[::2], values[1::2], strict=True)]
