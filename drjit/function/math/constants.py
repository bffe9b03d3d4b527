"""Mathematical constants, and properties of floating point types."""

import math
from typing import Any

from ...array.base import ArrayBase
from ...jit.ir import dtype as dt
from ..conversion import unexpected

e = math.e
pi = math.pi
inf = math.inf
nan = math.nan
newaxis = None
two_pi = 2.0 * math.pi
four_pi = 4.0 * math.pi
inv_pi = 1.0 / math.pi
inv_two_pi = 0.5 / math.pi
inv_four_pi = 0.25 / math.pi
sqrt_pi = math.sqrt(math.pi)
sqrt_two_pi = math.sqrt(2.0 * math.pi)
sqrt_four_pi = math.sqrt(4.0 * math.pi)
inv_sqrt_pi = 1.0 / sqrt_pi
inv_sqrt_two_pi = 1.0 / sqrt_two_pi
inv_sqrt_four_pi = 1.0 / sqrt_four_pi
sqrt_two = math.sqrt(2.0)
inv_sqrt_two = 1.0 / sqrt_two
log_two = math.log(2.0)
inv_log_two = 1.0 / log_two

_BITS = {dt.f16: 11, dt.f32: 24, dt.f64: 53}
"""Bits of the significand, including the leading one."""
_LIMIT = {dt.f16: 16, dt.f32: 128, dt.f64: 1024}
"""The exponent of the smallest power of two that is too large for the type."""


def _dtype(arg: Any, name: str) -> dt.DType:
    cls = arg if isinstance(arg, type) else type(arg)
    if not issubclass(cls, ArrayBase) or not cls._dtype.is_float:
        raise unexpected(f"dr.{name}", "a floating-point array or type", arg, "got")
    return cls._dtype


def epsilon(arg: object, /) -> float:
    """Returns the largest relative error of rounding to the element type: half the distance from 1
    to the next number.

    Raises:
        TypeError: the argument is not a floating point array or type.
    """
    return 2.0 ** -_BITS[_dtype(arg, "epsilon")]


def one_minus_epsilon(arg: object, /) -> float:
    """Returns the largest number below 1.

    Raises:
        TypeError: the argument is not a floating point array or type.
    """
    return 1.0 - 2.0 ** -_BITS[_dtype(arg, "one_minus_epsilon")]


def recip_overflow(arg: object, /) -> float:
    """Returns the largest number whose reciprocal overflows.

    Raises:
        TypeError: the argument is not a floating point array or type.
    """
    return 2.0 ** -_LIMIT[_dtype(arg, "recip_overflow")]


def smallest(arg: object, /) -> float:
    """Returns the smallest positive normal number.

    Raises:
        TypeError: the argument is not a floating point array or type.
    """
    return 2.0 ** (2 - _LIMIT[_dtype(arg, "smallest")])


def largest(arg: object, /) -> float:
    """Returns the largest finite number.

    Raises:
        TypeError: the argument is not a floating point array or type.
    """
    t = _dtype(arg, "largest")
    return (2.0 - 2.0 ** (1 - _BITS[t])) * 2.0 ** (_LIMIT[t] - 1)
