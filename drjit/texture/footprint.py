"""The footprint of a pixel in a texture: from the derivatives of the position to the level and to
the positions along its longer axis.

After the functional specification of Direct3D 11.3, section 7.18.11. The ellipse that a pixel
covers has the singular values of the Jacobian as axes, so that a rotation of the screen axes, or
which of them is the first, changes nothing.
"""

import operator
from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from typing import Any, NamedTuple

from ..function.math.arithmetic import ceil, maximum, minimum, select
from ..function.math.transcendental import log2, sqrt

# Ratios of axes that exceed a whole number by rounding need no further tap.
_SLACK = 1e-3
_TINY = 1e-30


class Footprint(NamedTuple):
    """How a footprint is covered: the level (0 or more), the number of taps as a float, and the
    vector, in positions, along which they lie."""

    lod: Any
    taps: Any
    axis: list[Any]


def footprint(
    ddx: Sequence[Any], ddy: Sequence[Any], sizes: Sequence[int], max_aniso: int
) -> Footprint:
    """The footprint of a pixel whose position in the texture, of `sizes` texels along x, y and z,
    has these derivatives along the axes of the screen.

    As many taps, of at most `max_aniso`, as the longer axis is longer than the other; they are as
    wide as that, or wider where they would not cover the longer axis.
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
    # The direction on the screen of the longer axis, from the larger of two equal expressions.
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
    """The length of a vector, which may have no components."""
    return sqrt(_dot(values, values)) if values else nothing
