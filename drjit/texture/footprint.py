"""The footprint of a pixel in a texture: maps the derivatives of the position to a level and to
sample positions along the longer axis.

Follows the functional specification of Direct3D 11.3, section 7.18.11. The axes of the ellipse that
a pixel covers are the singular values of the Jacobian, so rotating or swapping the screen axes
changes nothing.
"""

import operator
from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from typing import Any

from ..function.math.arithmetic import ceil, maximum, minimum, select
from ..function.math.transcendental import log2, sqrt
from ..jit.tuples import NamedTuple

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
