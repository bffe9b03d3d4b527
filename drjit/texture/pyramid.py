"""The levels of MIP-mapped textures: how one is computed from the next finer or coarser one
(Williams, "Pyramidal parametrics", 1983; Burt and Adelson, "The Laplacian pyramid as a compact
image code", 1983).

Levels are arrays of texels: traced ones, whose operations have derivatives, or NumPy's in
`drjit.scalar`.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from ..array import leaf
from ..array.base import ArrayBase
from ..function.conversion import flat_class, lanes, pick
from ..jit.ir import dtype as dt
from ..jit.lazy import np
from .modes import WrapMode
from .wrap import wrapped

Shape = tuple[int, ...]


def shapes(shape: Shape) -> list[Shape]:
    """Returns the shapes of all levels, with channels: sizes are halved and rounded down until one
    texel is left."""
    found = [shape]
    while max(shape[:-1]) > 1:
        shape = (*[max(n // 2, 1) for n in shape[:-1]], shape[-1])
        found.append(shape)
    return found


def _numbers(values: Any, size: int) -> Any:
    if isinstance(values, ArrayBase):
        return lanes(type(values), size)
    return np.arange(size, dtype=np.int64)


def _select_entries(values: Any, index: Any) -> Any:
    return pick(values, index, "Texture") if isinstance(values, ArrayBase) else values[index]


def _floats(values: Any, index: Any) -> Any:
    """An index in the type of the values."""
    if isinstance(values, ArrayBase):
        return leaf.cast(type(values), index)
    return index.astype(values.dtype)


def halved(values: Any, shape: Shape) -> Any:
    """Returns the next coarser level. Each texel averages the texels of the finer level that it
    covers: two along each axis, or three if their number is odd, of which the outer ones are
    covered in part."""
    for axis in range(len(shape) - 1):
        n = shape[axis]
        if n == 1:
            continue
        m, inner = n // 2, prod(shape[axis + 1 :])
        shape = (*shape[:axis], m, *shape[axis + 1 :])
        number = _numbers(values, prod(shape))
        row = number // inner
        place, rest = row % m, number % inner
        first = (row // m * n + place * 2) * inner + rest
        near, far = _select_entries(values, first), _select_entries(values, first + inner)
        if n == 2 * m:
            values = (near + far) * 0.5
        else:
            at, last = _floats(values, place), _select_entries(values, first + 2 * inner)
            values = (near * (m - at) + far * m + last * (at + 1)) * (1 / n)
    return values


def doubled(values: Any, coarse: Shape, fine: Shape, mode: WrapMode) -> Any:
    """Returns a level at the resolution of the next finer one, interpolated between texel
    centres."""
    shape = coarse
    for axis in range(len(shape) - 1):
        n, m = fine[axis], shape[axis]
        if n == m:
            continue
        inner = prod(shape[axis + 1 :])
        shape = (*shape[:axis], n, *shape[axis + 1 :])
        number = _numbers(values, prod(shape))
        row = number // inner
        # The place (i + 0.5) m/n - 0.5, in integers: derivatives need weights in other kernels than
        # indices, where a floating point number might be rounded to the other side of a texel.
        place = (row % n * 2 + 1) * m + n
        after = place // (2 * n)  # one more than the texel before the place
        weight = _floats(values, place - after * (2 * n)) * (1 / (2 * n))
        before, rest = row // n * m, number % inner
        ends = [
            _select_entries(values, (before + p) * inner + rest) for p in _wrapped(mode, after, m)
        ]
        values = ends[0] + (ends[1] - ends[0]) * weight
    return values


def _wrapped(mode: WrapMode, after: Any, n: int) -> list[Any]:
    """Two texels as indices within a level, given the second one."""
    if isinstance(after, ArrayBase):
        signed = leaf.cast(flat_class(type(after), dt.i32), after) - 1
        return [leaf.cast(type(after), p) for p in wrapped(mode, signed, n, 2)]
    found = np.stack([after - 1, after])
    if mode is WrapMode.Repeat:
        found %= n
    return list(np.clip(found, 0, n - 1))


def averaged(finest: Any, all_shapes: Sequence[Shape]) -> list[Any]:
    """Returns all levels, each averaged from the previous one."""
    levels = [finest]
    for shape in all_shapes[:-1]:
        levels.append(halved(levels[-1], shape))
    return levels


def decomposed(levels: list[Any], all_shapes: Sequence[Shape], mode: WrapMode) -> list[Any]:
    """Returns the difference of each level to the next coarser one."""
    return [
        fine - doubled(coarse, all_shapes[k + 1], all_shapes[k], mode)
        for k, (fine, coarse) in enumerate(pairwise(levels))
    ] + levels[-1:]


def summed(parts: list[Any], all_shapes: Sequence[Shape], mode: WrapMode) -> list[Any]:
    """Returns all levels, given their differences: the inverse of `decomposed`."""
    found = parts[-1:]
    for k in range(len(parts) - 2, -1, -1):
        found.append(parts[k] + doubled(found[-1], all_shapes[k + 1], all_shapes[k], mode))
    return found[::-1]
