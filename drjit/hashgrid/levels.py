"""Levels of hash encodings: their resolutions, and the sizes of their tables."""

import math
from typing import NamedTuple


def div_round_up(num: int, divisor: int) -> int:
    """The quotient of two integers, rounded up.

    >>> dr.hashgrid.div_round_up(9, 8)
    2
    """
    return -(-num // divisor)


def next_multiple(num: int, multiple: int) -> int:
    """The smallest multiple of an integer that is not below `num`.

    >>> dr.hashgrid.next_multiple(9, 8)
    16
    """
    return div_round_up(num, multiple) * multiple


def exp2(x: float) -> float:
    """`2**x` by the rational function of the Cephes library (S. L. Moshier, 1989).

    Where a resolution is an integer, the last bit of this number decides whether a table has a row
    more. The way to round is part of what parameters mean that are kept in files.
    """
    whole = math.floor(x + 0.5)
    x -= whole
    z = x * x
    p = x * (
        (2.30933477057345225087e-2 * z + 2.02020656693165307700e1) * z + 1.51390680115615096133e3
    )
    q = (z + 2.33184211722314911771e2) * z + 4.36821166879210612817e3
    return math.ldexp(1.0 + 2.0 * (p / (q - p)), whole)


class Level(NamedTuple):
    """A level: a position times `scale` (plus an offset) counts cells along each dimension; its
    table has `size` entries from entry `offset` on. A table too small for all vertices is `hashed`.
    """

    scale: float
    resolution: int
    hashed: bool
    offset: int
    size: int


def levels(
    what: str,
    dimension: int,
    count: int,
    features: int,
    hashmap_size: int,
    base_resolution: int,
    per_level_scale: float,
) -> list[Level]:
    """The levels of an encoding of class `what`, one table after the other; the number of entries
    of a table is a multiple of that of features.

    Raises:
        ValueError: resolutions become too large.
    """
    found: list[Level] = []
    offset, log_scale = 0, math.log2(per_level_scale)
    for number in range(count):
        if math.log2(base_resolution) + number * log_scale >= 31:
            raise ValueError(
                f"{what}(): per_level_scale={per_level_scale} makes level {number} too fine, "
                "resolutions must be below 2**31"
            )
        scale = base_resolution * exp2(number * log_scale) - 1
        resolution = math.ceil(scale) + 1
        vertices = resolution**dimension
        size = next_multiple(min(vertices, hashmap_size), features)
        found.append(Level(scale, resolution, vertices > hashmap_size, offset, size))
        offset += size
    return found
