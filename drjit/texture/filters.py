"""Texture filters: weighted sums of texels whose weights are products over the dimensions.

A filter is given by its taps: for each dimension, the positions of the texels and one list of
weights per order of derivative.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..array import leaf
from ..array.base import ArrayBase
from ..function.math import arithmetic
from ..jit.ir import op
from ..jit.tuples import NamedTuple

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


def combinations(taps: list[Taps], sizes: Sequence[Any]) -> tuple[list[Any], list[Any]]:
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
    if type(a) is type(b) is type(c) and isinstance(a, ArrayBase):
        return leaf.apply(op.fma, a, b, c)
    return arithmetic.fma(a, b, c) if isinstance(a, ArrayBase) else a * b + c


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
