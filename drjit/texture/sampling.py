"""Which texels a look-up reads, and their weights: the modes of textures, positions beyond the
boundary, filters, and the footprint of a pixel.
"""

import enum
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import combinations
from typing import Any

from ..array import leaf
from ..array.base import ArrayBase
from ..function.math.arithmetic import ceil, fma, maximum, minimum, select
from ..function.math.transcendental import log2, sqrt
from ..jit.enumeration import Named
from ..jit.ir import op
from ..jit.tuples import NamedTuple


class FilterMode(Named, enum.Enum):
    """How a value between texels is computed."""

    Nearest = 0
    Linear = 1


class WrapMode(Named, enum.Enum):
    """The values beyond the boundary of a texture."""

    Repeat = 0
    Clamp = 1
    Mirror = 2


class MipFilter(enum.Enum):
    """How look-ups choose between the levels of a texture, each half as large as the previous
    one."""

    Disabled = 0
    Nearest = 1
    Linear = 2


class MipBasis(enum.Enum):
    """What a MIP-mapped texture stores for each level: its texels, or their difference to the next
    coarser level (Weier et al., "Practical inverse rendering of textured and translucent
    appearance", 2025)."""

    Standard = 0
    Laplacian = 1


def mode_of(cls: Any, value: Any, what: str) -> Any:
    """Returns a member of an enumeration, given the member or its number."""
    try:
        return value if isinstance(value, cls) else cls(operator.index(value))
    except (TypeError, ValueError):
        choices = ", ".join(f"dr.{m}" for m in cls)
        raise TypeError(f"{what}: {value!r} is none of {choices}") from None


def _remainder(i: Any, n: int) -> Any:
    """Returns `i` modulo `n`, in 0 to n-1 also for negative numbers."""
    if not isinstance(i, ArrayBase):
        return i % n
    # In the kernel language, the remainder has the sign of the dividend.
    rest = leaf.apply(op.remainder, i, leaf.literal(type(i), n))
    return select(rest < 0, rest + n, rest)


def clamped(i: Any, n: Any) -> Any:
    """Returns the nearest of the positions 0 to n-1."""
    return maximum(minimum(i, n - 1), 0)


def _reflected(i: Any, n: int) -> Any:
    """Maps positions to a period of 2n whose second half runs backwards."""
    return minimum(i, 2 * n - 1 - i)


def wrapped(mode: WrapMode, first: Any, n: int, count: int = 1) -> list[Any]:
    """Returns the positions of `count` neighbouring texels from number `first` on, in a row of
    `n`."""
    if mode is WrapMode.Clamp:
        return [clamped(first + k if k else first, n) for k in range(count)]
    period = n if mode is WrapMode.Repeat else 2 * n
    position = _remainder(first, period)
    found = [position]
    for _ in range(count - 1):
        following = position + 1
        position = select(following == period, 0, following)
        found.append(position)
    return found if mode is WrapMode.Repeat else [_reflected(i, n) for i in found]


Channels = list[Any]


class Taps(NamedTuple):
    """The texels that a filter reads along one dimension, and their weights for each order of
    derivative.
    """

    positions: list[Any]
    weights: list[list[Any]]


def spline_weights(t: Any, order: int) -> list[list[Any]]:
    """Returns the weights of four neighbours for the uniform cubic B-spline and its derivatives up
    to `order`; `t` is the fraction of the way from the second to the third (C. de Boor, "A
    practical guide to splines", 1978; C. Sigg and M. Hadwiger, "Fast third-order texture
    filtering", 2005).
    """
    s, sixth = 1.0 - t, 1.0 / 6.0
    square, other = t * t, s * s
    found = [
        [
            other * s * sixth,
            (square * (0.5 * t - 1.0)) + 4.0 * sixth,
            (other * (0.5 * s - 1.0)) + 4.0 * sixth,
            square * t * sixth,
        ]
    ]
    if order > 0:
        found.append([-0.5 * other, t * (1.5 * t - 2.0), s * (2.0 - 1.5 * s), 0.5 * square])
    if order > 1:
        found.append([s, 3.0 * t - 2.0, 3.0 * s - 2.0, t])
    return found


def cells(
    taps: list[Taps], sizes: Sequence[Any], before: Any = None
) -> Iterator[tuple[Any, list[int]]]:
    """Returns the texel numbers of all combinations of taps in row-major order, and the tap of
    each dimension; dimension 0 varies fastest. `before` is the number contributed by further
    dimensions.
    """
    *inner, last = taps
    for j, number in enumerate(_numbers(last, before, sizes[len(inner)])):
        if inner:
            for found, chosen in cells(inner, sizes, number):
                yield found, [*chosen, j]
        else:
            yield number, [j]


def _numbers(taps: Taps, before: Any, size: Any) -> list[Any]:
    """Returns the entry numbers for one more dimension; `before` is the number from the outer
    ones."""
    if before is None:
        return taps.positions
    start = before * size
    return [start + position for position in taps.positions]


def texels_and_weights(taps: list[Taps], sizes: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Returns the numbers of the texels that a filter reads, and their weights."""
    return [number for number, _ in cells(taps, sizes)], _weight_products(taps)


def weighted_sum(
    fetch: Callable[[Any], Channels], numbers: list[Any], weights: list[Any]
) -> Channels:
    """Returns the weighted sum of texels for every channel."""
    total: Channels = []
    for number, weight in zip(numbers, weights, strict=True):
        texel = fetch(number)
        if total:
            total = [_fma(weight, v, s) for v, s in zip(texel, total, strict=True)]
        else:
            total = [weight * v for v in texel]
    return total


def _weight_products(taps: list[Taps]) -> list[Any]:
    """Returns the products of the weights of all combinations of taps, in the order of `cells`."""
    found = taps[-1].weights[0]
    for t in reversed(taps[:-1]):
        found = [outer * w for outer in found for w in t.weights[0]]
    return found


def _fma(a: Any, b: Any, c: Any) -> Any:
    return fma(a, b, c) if isinstance(a, ArrayBase) else a * b + c


def derivatives(
    fetch: Callable[[Any], Channels],
    taps: list[Taps],
    sizes: Sequence[int],
    order: int,
    before: Any = None,
) -> dict[tuple[int, ...], Channels]:
    """Returns the filtered value and its partial derivatives up to a total order: for each tuple of
    orders, one per dimension, the values of all channels. Dimensions are summed one after the
    other, which takes fewer operations than one sum per derivative. `before` is as for `cells`.
    """
    *inner, last = taps
    sums: dict[tuple[int, ...], Channels] = {}
    for j, number in enumerate(_numbers(last, before, sizes[len(inner)])):
        found = derivatives(fetch, inner, sizes, order, number) if inner else {(): fetch(number)}
        for orders, values in found.items():
            for d in range(order - sum(orders) + 1):
                weight, key = last.weights[d][j], (*orders, d)
                total = sums.get(key)
                sums[key] = (
                    [weight * v for v in values]
                    if total is None
                    else [_fma(weight, v, s) for v, s in zip(values, total, strict=True)]
                )
    return sums


def convert(cls: Any, value: Any) -> Any:
    """Converts a value to another entry type."""
    if isinstance(value, ArrayBase):
        return value if type(value) is cls else leaf.cast(cls, value)
    return cls(value)


# Axis ratios that exceed an integer only by rounding need no further tap.
_SLACK = 1e-3
_TINY = 1e-30


class Footprint(NamedTuple):
    """How a footprint is covered: the level (0 or more), the number of taps as a float, and the
    vector along which they lie, in units of the position."""

    lod: Any
    taps: Any
    axis: list[Any]


def footprint(
    ddx: Sequence[Any], ddy: Sequence[Any], sizes: Sequence[int], max_aniso: int
) -> Footprint:
    """Returns the footprint of a pixel whose position in the texture has the given derivatives
    along the screen axes; the texture has `sizes` texels along x, y and z.

    The number of taps, at most `max_aniso`, is the ratio of the longer axis to the shorter one. A
    tap is as wide as the shorter axis, or wider if the taps would not cover the longer axis
    otherwise.
    """
    x = [d * float(n) for d, n in zip(ddx, sizes, strict=True)]
    y = [d * float(n) for d, n in zip(ddy, sizes, strict=True)]
    xx, yy, xy = _dot(x, x), _dot(y, y), _dot(x, y)
    area = _root([x[i] * y[j] - x[j] * y[i] for i, j in combinations(range(len(x)), 2)], xx * 0.0)
    difference = xx - yy
    spread = sqrt(difference * difference + 4.0 * xy * xy)
    major = sqrt(0.5 * (xx + yy + spread))
    minor = area / maximum(major, _TINY)
    width = maximum(maximum(minor, major * (1.0 / max_aniso)), 1.0)
    taps = minimum(maximum(ceil(major / width - _SLACK), 1.0), float(max_aniso))
    # The direction of the longer axis on the screen, from the larger of two equivalent expressions.
    wide = difference >= 0
    a = select(wide, difference + spread, 2.0 * xy)
    b = select(wide, 2.0 * xy, spread - difference)
    length = sqrt(a * a + b * b)
    some = length > 0
    scale = 1.0 / select(some, length, 1.0)
    a, b = select(some, a * scale, 1.0), b * scale
    axis = [a * u + b * v for u, v in zip(ddx, ddy, strict=True)]
    return Footprint(log2(width), taps, axis)


def _dot(x: Sequence[Any], y: Sequence[Any]) -> Any:
    return reduce(operator.add, map(operator.mul, x, y))


def _root(values: list[Any], nothing: Any) -> Any:
    """Returns the length of a vector, which may have no components."""
    return sqrt(_dot(values, values)) if values else nothing
