"""The hash encoding of Instant NGP: multilinear interpolation between the corners of grid cells."""

import operator
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any

from .encoding import HashEncoding, Vertex
from .levels import Level

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
