"""Traversal of a regular grid along rays, cell by cell, and line integrals of interpolated volumes.

After J. Amanatides and A. Woo, "A Fast Voxel Traversal Algorithm for Ray Tracing" (1987). Cells and
resolutions are given from the last axis to the first, (z, y, x), as the shape of a tensor is, and
positions as (x, y, z).
"""

import math
import operator
from collections.abc import Callable
from itertools import product
from typing import Any, cast

from .array.base import ArrayBase, type_label
from .array.promote import number_type, promote
from .array.table import find
from .function.arithmetic import clip, floor, fma, lerp, maximum, minimum, select
from .function.dot import norm
from .function.evaluation import copy
from .function.evaluation import eval as evaluate
from .function.memory import gather
from .function.parts import flat_class
from .function.reduce import all as all_
from .function.reduce import any as any_
from .function.reduce import max as max_
from .function.reduce import min as min_
from .jit import dtype as dt

__all__ = ["dda", "integrate"]

MODES = (None, "scalar", "symbolic", "evaluated")


def dda(
    ray_o: Any,
    ray_d: Any,
    ray_max: Any,
    grid_res: Any,
    grid_min: Any,
    grid_max: Any,
    func: Callable[[Any, Any, Any, Any, Any], tuple[Any, Any]],
    state: Any,
    active: Any = True,
    mode: str | None = None,
    max_iterations: int | None = None,
) -> Any:
    """Calls a function for every cell of a grid that a ray meets, in order, and gives the final
    state.

    The ray goes from `ray_o` to `ray_o + ray_max * ray_d`; `ray_d` may have any length, and
    `ray_max` may be infinite. The grid has `grid_res` cells between the points `grid_min` and
    `grid_max`. The function is called as `func(state, index, p_in, p_out, active)` with the index
    of the cell, the positions in [0, 1]^n within it where the ray enters and leaves, and a mask of
    the rays to which this applies. It returns the new state, and a mask of the rays that go on. The
    state is any tree of arrays, of which only the lanes of active rays change.

    With arrays of `drjit.scalar`, it is a plain loop, and the state may be anything.

    Raises:
        TypeError: arguments are of wrong types, or of different numbers of dimensions, or `func`
            does
            not return a pair.
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
    unsigned, signed = (_related(vector, t) for t in (dt.u32, dt.i32))
    res = signed(*reversed(list(_cells(grid_res, unsigned, what))))
    _check_lane(ray_max, vector, "ray_max", what)

    # From here on in units of cells: o + t d with the same t.
    scale = vector(res) / (high - low)
    o, d = (o - low) * scale, d * scale
    forward = d > 0
    moving = forward | (d < 0)
    inverse = 1 / select(moving, d, 1)
    t_low, t_high = -o * inverse, (vector(res) - o) * inverse
    near = select(moving, minimum(t_low, t_high), -math.inf)
    far = select(moving, maximum(t_low, t_high), math.inf)
    start, end = maximum(max_(near), 0.0), minimum(min_(far), ray_max)
    within = (moving & (o == o)) | ((d == 0) & (o >= 0) & (o <= vector(res)))
    active = all_(within & (res > 0)) & any_(moving) & (start < end) & active
    if not traced and not active:
        return state

    point = select(active, fma(d, start, o), 0)
    cell = signed(clip(floor(point), 0, vector(res - 1)))
    here = clip(point - vector(cell), 0, 1)
    exit_, step = select(forward, vector(1), 0), select(forward, signed(1), -1)

    def body(values: tuple) -> tuple:
        user, cell, here, active = values
        corner = vector(cell)
        t_next = select(moving, (corner + exit_ - o) * inverse, math.inf)
        t = minimum(min_(t_next), end)
        leaving = t_next <= t
        there = select(leaving, exit_, clip(fma(d, t, o) - corner, 0, 1))
        index = unsigned(*[cell[size - 1 - i] for i in range(size)])
        answer = func(user, index, vector(here), vector(there), active)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise TypeError(
                f"{what}(): 'func' must return the state and a mask, got {type_label(answer)}"
            )
        user, go_on = answer
        cell = select(leaving, cell + step, cell)
        here = select(leaving, 1 - exit_, there)
        active = all_((cell >= 0) & (cell < res)) & (t < end) & go_on & active
        return user, cell, here, active

    values = (state, cell, here, active)
    return _loop(values, lambda v: v[3], body, traced, limit)[0]


def _loop(
    values: tuple,
    condition: Callable[[tuple], Any],
    body: Callable[[tuple], tuple],
    traced: bool,
    limit: int | None,
) -> tuple:
    """Repeats `body` where the condition holds, at most `limit` times. Evaluates every step."""
    count = 0
    while limit is None or count < limit:
        going = condition(values)
        if not traced:
            if not going:
                break
            values = body(values)
        else:
            if not bool(any_(going)):
                return values if count else select(going, values, values)  # one entry per ray
            values = select(going, body(copy(values)), values)
            evaluate(values)
        count += 1
    return values


def _related(vector: Any, element: Any) -> Any:
    meta = vector.__meta__
    return find(meta.namespace, "vector", element, meta.dims)


def _vectors(values: tuple, what: str) -> list[Any]:
    """Positions and directions as vectors of one type."""
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
    """The resolution as a vector of integers."""
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
    """Raises if a value is neither a number nor an array of one number per lane."""
    if isinstance(value, ArrayBase):
        fits = vector.__meta__.is_jit and value._kind == "leaf"
    else:
        fits = number_type(type(value)) is not None
    if not fits:
        raise TypeError(
            f"{what}(): '{name}' must be a number or of type {type_label(vector.Value)}, "
            f"got {type_label(value)}"
        )


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
    """The integral of a linearly, bilinearly or trilinearly interpolated volume along a ray, over
    its length within the bounds.

    The entries of the tensor `vol`, of shape (x,), (y, x) or (z, y, x), are values at points that
    divide the box from `grid_min` to `grid_max` evenly, the first and last on its faces. Within a
    cell, the interpolant is a polynomial of degree 3 along the ray, which Simpson's rule integrates
    exactly. The ray is as in `dda`; rays that are not active give 0.

    Raises:
        TypeError: `vol` is not a floating-point tensor with as many axes as the rays have
            components,
            or other arguments are of wrong types.
        RuntimeError: the tensor is empty, or `mode` is unknown.

    >>> integrate(Array1f(0), Array1f(1), 9.0, Array1f(0), Array1f(2), TensorXf([1, 2, 4]))
    [4.5]
    """
    what = "drjit.dda.integrate"
    o, d, low, high = _vectors((ray_o, ray_d, grid_min, grid_max), what)
    vector = type(o)
    shape = vol._shape if isinstance(vol, ArrayBase) and vol._kind == "tensor" else ()
    if not 1 <= len(shape) <= 3 or len(shape) != vector._size or vol._dtype is not vector._dtype:
        raise TypeError(
            f"{what}(): 'vol' must be a tensor of the rays' element type with {vector._size} axes "
            f"(up to 3), got {type_label(vol)}{f' of shape {shape}' if shape else ''}"
        )
    if 0 in shape:
        raise RuntimeError(f"{what}(): the volume is empty, its shape is {shape}")
    res = [max(n - 1, 1) for n in shape]
    edges = (high - low) / vector(*reversed(res))

    def add(total: Any, index: Any, p_in: Any, p_out: Any, mask: Any) -> tuple[Any, Any]:
        corners = _corners(vol, index, mask)
        middle = (p_in + p_out) * 0.5
        mean = (
            _interpolated(corners, p_in)
            + 4 * _interpolated(corners, middle)
            + _interpolated(corners, p_out)
        ) * (1 / 6)
        return fma(norm((p_out - p_in) * edges), mean, total), True

    start = vector.Value(0)
    mask = True if active is None else active
    return dda(o, d, ray_max, res, low, high, add, start, mask, mode)


def _corners(vol: Any, index: Any, mask: Any) -> list[Any]:
    """The values at the corners of a cell, the offset along the last axis varying fastest."""
    shape, array = vol._shape, vol._array
    found = []
    for offsets in product((0, 1), repeat=len(shape)):
        where: Any = 0
        for i, (offset, n) in enumerate(zip(offsets, shape, strict=True)):
            along = index[i] + offset if n > 1 else index[i]
            where = where * n + along
        if array.__meta__.is_jit:
            found.append(gather(flat_class(type(array)), array, where, mask))
        else:
            found.append(array[cast(int, where)])
    return found


def _interpolated(corners: list[Any], point: Any) -> Any:
    """The interpolant of corner values at a position (x, y, z) within the cell."""
    values = corners
    for i in range(len(point)):
        values = [lerp(a, b, point[i]) for a, b in zip(values[::2], values[1::2], strict=True)]
    return values[0]
