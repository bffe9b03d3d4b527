"""The vertices of hash encodings: the corners of grid cells, as in Instant NGP, and the corners of
simplices, which have one more corner than there are dimensions.
"""

import operator
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

from ..array import leaf
from ..function.math.arithmetic import select
from .encoding import HashEncoding, Level, Vertex, linear

# One factor per dimension (T. Müller et al., 2022, equation 4; further primes for more than 3
# dimensions).
_PRIMES = (1, 2654435761, 805459861, 3674653429, 2097192037, 1434869437, 2165219737)


class HashGridEncoding(HashEncoding):
    """Features on a hierarchy of grids, stored in hash tables and interpolated linearly along each
    dimension (T. Müller, A. Evans, C. Schied, and A. Keller, "Instant neural graphics primitives
    with a multiresolution hash encoding", 2022). A look-up reads `2**dimension` entries per level.

    See `HashEncoding` for the arguments. Hashed levels support up to 7 dimensions; the constructor
    raises a ValueError if there are more.

    >>> from drjit.llvm import Array2f, Float
    >>> enc = HashGridEncoding(Float, 2, n_levels=1, base_resolution=4)
    >>> enc.params = dr.arange(Float, 32)
    >>> enc(Array2f([0, 0.5], 0.5))
    [[17, 18],
     [20, 21]]
    """

    __module__ = "drjit.hashgrid"
    _name = "HashGrid"

    def _made_levels(self) -> list[Level]:
        levels = super()._made_levels()
        if self._dimension > len(_PRIMES) and any(level.hashed for level in levels):
            raise ValueError(
                f"{self._what()}: with dimension={self._dimension} no level can be "
                f"hashed, only up to {len(_PRIMES)} dimensions can. Use PermutoEncoding, or a "
                "larger hashmap_size or fewer or coarser levels."
            )
        return levels

    def _aligned(self) -> bool:
        return self._align_corners and not self._torchngp_compat

    def hash(self, key: Iterable[Any]) -> Any:
        """Returns the hash of integer coordinates: each is multiplied by a large prime, and the
        products are combined by xor.

        Raises:
            IndexError: there are more than 7 coordinates.
        """
        parts = self._coordinates(key, "hash")
        if len(parts) > len(_PRIMES):
            raise IndexError(
                f"{self._what('hash')}: defined for up to {len(_PRIMES)} coordinates, got "
                f"{len(parts)}"
            )
        return reduce(operator.xor, map(operator.mul, parts, _PRIMES))

    def _vertices(self, level: Level, cell: list[Any], fraction: list[Any]) -> Iterator[Vertex]:
        factors = _PRIMES if level.hashed else self._strides(level)
        combine = operator.xor if level.hashed else operator.add
        numbers, weights = [], []
        for x, t, factor in zip(cell, fraction, factors, strict=False):
            lower = x * factor
            ends = lower, lower + factor
            shares = 1.0 - t, t
            if not numbers:
                numbers, weights = list(ends), list(shares)
                continue
            numbers = [combine(n, end) for end in ends for n in numbers]
            weights = [w * share for share in shares for w in weights]
        return zip(numbers, weights, strict=True)


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
        size = number._node.size
        steps: list[Any] = [leaf.literal(type(number), f, size) for f in factors]
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
