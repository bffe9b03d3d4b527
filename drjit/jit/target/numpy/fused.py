"""Fused multiply-add in NumPy, rounded exactly once: bit-identical to hardware.

Both sizes use rounding to odd: a sum rounded to odd in more precision than the result has can be
rounded again without double rounding errors (S. Boldo, G. Melquiond, "Emulation of FMA and
correctly rounded sums: proved algorithms using rounding to odd", IEEE Transactions on Computers
57(4), 2008). Error terms are those of T. J. Dekker (TwoProduct) and D. E. Knuth (TwoSum).
"""

from typing import Any

import numpy as np

from .. import number

_SPLIT = float(2**27 + 1)
# The bits of a float64 beyond the digits of a float32: all of them set, and as they are halfway
# between two float32 numbers. Then the bits of the smallest normal float32 as a float64, shifted
# left by one, past the sign.
_REST, _HALFWAY = (1 << 29) - 1, 1 << 28
_LEAST = (1023 - 126) << 53


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    p = a * b
    c, d = a * _SPLIT, b * _SPLIT
    ah, bh = c - (c - a), d - (d - b)
    al, bl = a - ah, b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _odd_sum(a: Any, b: Any) -> Any:
    """`a + b`, rounded to odd: if inexact, to the neighbour whose last bit is 1."""
    s, error = _two_sum(a, b)
    bits = s.view(np.int64)
    inexact = ((error > 0) | (error < 0)) & ((bits & 1) == 0)
    step = np.where((error > 0) == (s > 0), np.int64(1), np.int64(-1))
    return np.where(inexact, bits + step, bits).view(np.float64)


def fma_f32(x: Any, y: Any, z: Any) -> Any:
    """`x * y + z` for float32, rounded once: exact product and sum in float64.

    That the sum has already been rounded matters only where it lies halfway between two results, or
    where these are subnormal: there it is rounded to odd instead.
    """
    wide = np.float64
    product, addend = x.astype(wide) * y.astype(wide), z.astype(wide)
    total = product + addend
    bits = total.view(np.uint64)
    doubtful = ((bits & _REST) == _HALFWAY) | ((bits << 1) - 1 < _LEAST)  # 0 is none of these
    if doubtful.any():
        total = _odd_sum(product, addend)
    return total.astype(np.float32)[()]


def fma_f64(x: Any, y: Any, z: Any) -> Any:
    """`x * y + z` for float64, rounded once: the paper's Fma, with extreme exponents treated
    separately. Scalars take a fraction of the time as Python numbers."""
    if type(x) is type(y) is type(z) is np.float64:
        return np.float64(number.fma_f64(float(x), float(y), float(z)))
    uh, ul = _two_product(x, y)
    th, tl = _two_sum(z, ul)
    vh, vl = _two_sum(uh, th)
    result = vh + _odd_sum(tl, vl)
    product, size = np.abs(uh), np.abs(z)
    safe = (product > 2.0**-960) & (product < 2.0**1000) & (size < 2.0**1000)
    safe = safe & (np.abs(x) < 2.0**990) & (np.abs(y) < 2.0**990)
    if np.all(safe):
        return result[()]
    return _extremes(*np.broadcast_arrays(x, y, z, result, safe))


def _extremes(x: Any, y: Any, z: Any, result: Any, safe: Any) -> Any:
    """Replaces results that are not `safe`. Where a factor is zero or not finite, or only the
    addend is not finite, NumPy's product and sum are right; others are computed one by one."""
    product = x * y
    simple = ~(np.isfinite(x) & np.isfinite(y)) | (x == 0) | (y == 0)
    simple = simple | (np.isfinite(product) & ~np.isfinite(z))
    found = np.where(safe, result, product + z)
    for k in np.argwhere(~(safe | simple)):
        at = tuple(k)
        found[at] = number.fma_f64(*(float(v[at]) for v in (x, y, z)))
    return found[()]
