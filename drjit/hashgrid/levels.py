"""The levels of a hash encoding, and the arithmetic that determines their resolutions."""

import math
from collections.abc import Sequence
from itertools import zip_longest

from ..jit.tuples import NamedTuple


def div_round_up(num: int, divisor: int) -> int:
    """Returns the quotient of two integers, rounded up.

    >>> dr.hashgrid.div_round_up(9, 8)
    2
    """
    return -(-num // divisor)


def next_multiple(num: int, multiple: int) -> int:
    """Returns the smallest multiple of `multiple` that is at least `num`.

    >>> dr.hashgrid.next_multiple(9, 8)
    16
    """
    return div_round_up(num, multiple) * multiple


# Resolutions use exp2 and log2 of the Cephes library (S. L. Moshier, 1989), which round the same
# way on every machine. Where a resolution is an integer, the last bit decides whether a table has
# one more row, and hence how parameters stored in files are interpreted.
_EXP_P = (1.51390680115615096133e3, 2.02020656693165307700e1, 2.30933477057345225087e-2)
_EXP_Q = (4.36821166879210612817e3, 2.33184211722314911771e2, 1.0)
_LOG_P = (
    7.70838733755885391666e0, 1.79368678507819816313e1, 1.44989225341610930846e1,
    4.70579119878881725854e0, 4.97494994976747001425e-1, 1.01875663804580931796e-4,
)  # fmt: skip
_LOG_Q = (
    2.31251620126765340583e1, 7.11544750618563894466e1, 8.29875266912776603211e1,
    4.52279145837532221105e1, 1.12873587189167450590e1, 1.0,
)  # fmt: skip


def exp2(x: float) -> float:
    """Returns `2**x`, using a rational function of the distance to the nearest integer."""
    whole = math.floor(x + 0.5)
    x -= whole
    p, q = x * _polynomial(x * x, _EXP_P), _polynomial(x * x, _EXP_Q)
    return math.ldexp(1.0 + 2.0 * (p / (q - p)), whole)


def log2(x: float) -> float:
    """Returns the base-2 logarithm of a positive number, using a rational function of x - 1 for x
    between sqrt(1/2) and sqrt(2)."""
    x, exponent = math.frexp(x)
    if x < math.sqrt(0.5):
        x, exponent = 2 * x, exponent - 1
    x -= 1
    tail = x * x * x * (_polynomial(x, _LOG_P) / _polynomial(x, _LOG_Q))
    return _fma(x + _fma(x * x, -0.5, tail), 1 / math.log(2), exponent)


def _polynomial(x: float, coefficients: Sequence[float]) -> float:
    """Evaluates a polynomial, with the constant coefficient first, by Estrin's scheme."""
    while len(coefficients) > 1:
        pairs = zip_longest(coefficients[::2], coefficients[1::2], fillvalue=0.0)
        coefficients = [_fma(b, x, a) for a, b in pairs]
        x *= x
    return coefficients[0]


def _fma(a: float, b: float, c: float) -> float:
    """Returns `a * b + c`, rounded once, as the quotient of two integers is."""
    (p, s), (q, t), (r, u) = (float(v).as_integer_ratio() for v in (a, b, c))
    return (p * q * u + r * s * t) / (s * t * u)


class Level(NamedTuple):
    """A level. A position times `scale` (plus an offset) counts cells along each dimension. The
    table has `size` entries, starting at `offset`; it is `hashed` if it is too small for all
    vertices.
    """

    scale: float
    resolution: int
    hashed: bool
    offset: int
    size: int
