"""The permutohedral encoding: interpolation between the corners of simplices, which have one more
corner than there are dimensions.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ..array import leaf
from ..array.base import ArrayBase
from ..function.math.arithmetic import select
from .encoding import HashEncoding, Vertex, linear
from .levels import Level

_FACTOR = 2531011


class PermutoEncoding(HashEncoding):
    """Features on a hierarchy of grids, stored in hash tables. Each grid cell is divided into
    simplices, within which features are interpolated linearly, so a look-up reads only `dimension +
    1` entries per level (R. A. Rosu and S. Behnke, "PermutoSDF: Fast multi-view reconstruction with
    implicit surfaces using permutohedral lattices", 2023).

    To reach the simplex that contains a position, start at the cell's lower corner and step along
    the dimensions in descending order of the position's fractional parts (H. W. Kuhn, "Some
    combinatorial lemmas in topology", 1960). See `HashEncoding` for the arguments.

    >>> from drjit.llvm import Array2f, Float
    >>> enc = PermutoEncoding(Float, 2, n_levels=1, base_resolution=4)
    >>> enc.params = dr.arange(Float, 32)
    >>> enc(Array2f([0, 0.5], 0.5))
    [[17, 18],
     [20, 21]]
    """

    __module__ = "drjit.hashgrid"
    _name = "PermutoEncoding"
    _repr_fields = tuple(name for name in HashEncoding._repr_fields if name != "torchngp_compat")

    def hash(self, key: Iterable[Any]) -> Any:
        """Returns the hash of integer coordinates: the value of the polynomial with these
        coefficients."""
        return linear(self._coordinates(key, "hash"), self._powers())

    def _powers(self) -> list[int]:
        """Returns the factor of each coordinate in the hash."""
        return [pow(_FACTOR, self._dimension - i, 1 << 32) for i in range(self._dimension)]

    def _vertices(self, level: Level, cell: list[Any], fraction: list[Any]) -> Iterator[Vertex]:
        # Entry numbers are linear in the coordinates, hashed or not: a step along a dimension adds
        # that dimension's factor. Therefore the factors are sorted along with the fractional parts.
        factors = self._powers() if level.hashed else self._strides(level)
        number = linear(cell, factors)
        steps: list[Any] = [_like(number, f) for f in factors]
        t = list(fraction)
        for end in range(len(t) - 1, 0, -1):
            for i in range(end):
                ordered = t[i] >= t[i + 1]
                t[i], t[i + 1] = select(ordered, t[i], t[i + 1]), select(ordered, t[i + 1], t[i])
                a, b = steps[i], steps[i + 1]
                steps[i], steps[i + 1] = select(ordered, a, b), select(ordered, b, a)
        yield number, 1.0 - t[0]
        for i, step in enumerate(steps):
            number = number + step
            yield number, t[i] - t[i + 1] if i + 1 < len(t) else t[i]


def _like(number: Any, value: int) -> Any:
    """Returns a constant with as many entries as a number has."""
    cls = type(number)
    return leaf.literal(cls, value, number._node.size) if issubclass(cls, ArrayBase) else cls(value)
