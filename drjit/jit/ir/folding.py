"""Arithmetic on the numbers of literals, as kernels compute it: conversion to an element type, and
operations with a quick equivalent in Python. `drjit/jit/target/number.py` has the others.
"""

import math
import operator
import struct
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from ..lazy import np
from . import dtype as dt
from . import op


def normalize(dtype: dt.DType, value: Any) -> Any:
    """Returns the Python number that a literal of the given type stores for `value`."""
    return NORMALIZE[dtype.element](value)


def _to_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _rounder(form: str) -> Callable[[Any], float]:
    pack, unpack = struct.Struct(form).pack, struct.Struct(form).unpack

    def rounded(value: Any) -> float:
        try:
            return unpack(pack(value))[0]
        except OverflowError:
            return math.inf if value > 0 else -math.inf
        except struct.error:  # not a number, but convertible to one
            return rounded(_to_float(value))

    return rounded


def _wrapper(dtype: dt.DType) -> Callable[[Any], int]:
    low, high, count = dtype.low, dtype.high, 1 << dtype.bits

    def wrapped(value: Any) -> int:
        if type(value) is not int:
            if isinstance(value, (float, np.floating)):
                if value != value:
                    return 0
                return low if value <= low else high if value >= high else int(value)
            value = int(value)
        return value if low <= value <= high else (value - low) % count + low

    return wrapped


NORMALIZE: dict[dt.DType, Callable[[Any], Any]] = {t: _wrapper(t) for t in dt.ALL if t.is_int}
NORMALIZE |= {dt.mask: bool, dt.f64: _to_float, dt.f16: _rounder("e"), dt.f32: _rounder("f")}
"""`normalize` by type, without vector types."""


class _Table(dict[float, float]):
    """The values of a function that have been asked for. (The keys of `lru_cache` are objects that
    the garbage collector would have to visit.)"""

    def __init__(self, function: Callable[[float], float]) -> None:
        self._function = function

    def __missing__(self, x: float) -> float:
        if len(self) >= 4096:
            self.clear()
        value = self[x] = self._function(x)
        return value


ROUNDED = {t: _Table(NORMALIZE[t]).__getitem__ for t in dt.ALL if t.is_float}
"""The same for floating-point types, by looking numbers up: programs use the same few constants
over and over, and rounding takes longer. Not for zeros: 0.0 and -0.0 are equal as keys."""


@cache
def folder(op_: op.Op, dtype: dt.DType) -> Callable[..., Any] | None:
    """Returns a fast constant folder: a function from the data of literal operands to the data of
    the result, which returns None in cases that `number` handles. Functions of the math library
    have no such folder."""
    if op_ is op.fma and dtype is dt.f32:
        return _fma_f32
    plain = _PLAIN.get(op_)
    if op_ in _OF_BITS:
        plain = partial(_OF_BITS[op_], dtype.bits)
    elif op_ is op.not_ and dtype.is_mask:
        return operator.not_
    normalized = ROUNDED[dtype] if dtype.is_float else NORMALIZE[dtype]
    if plain is None or op_.result == "mask":
        return plain

    def folded(*values: Any) -> Any:
        value = plain(*values)
        return normalized(value) if value else value

    return folded


def _fma_f32(a: float, b: float, c: float) -> float | None:
    """Returns `a * b + c`, rounded once, or None if that is not finite."""
    rounded = NORMALIZE[dt.f32]
    product = a * b
    total = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)  # error of the sum (Knuth, TAOCP 2, 4.2.2)
    value = ROUNDED[dt.f32](total) if total else total
    if error == 0:
        return value
    if error != error or math.isinf(value):
        return None
    # The exact sum lies between `total` and the next double in its direction. It rounds like both
    # of them; if they round differently, like the one that is not a midpoint of two values.
    other = rounded(math.nextafter(total, math.copysign(math.inf, error)))
    return other if abs(total - value) == abs(other - total) and other != value else value


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    """Returns a function that rounds floats to integers and keeps signs of zeros."""

    def rounded(a: float) -> float:
        return math.copysign(function(a), a) if math.isfinite(a) else a

    return rounded


# Operations for which double precision and one more rounding, or unbounded integers, give the exact
# result. (A quotient or root of 24-bit numbers is never so close to the midpoint of two of them
# that rounding to 53 bits first changes the result.)
_PLAIN: dict[op.Op, Callable[..., Any]] = {
    **{o: o.python for o in (*op.ARITHMETIC, *op.COMPARISONS) if o.kind == "infix"},
    op.neg: operator.neg,
    op.div: lambda a, b: a / b if b else None,
    op.select: lambda m, a, b: a if m else b,
    op.sqrt: lambda a: math.sqrt(a) if a >= 0 else None,
    op.not_: operator.invert,
    op.abs: abs,
    op.minimum: lambda a, b: a if a < b else b,
    op.maximum: lambda a, b: a if a > b else b,
    op.floor: _whole(math.floor),
    op.ceil: _whole(math.ceil),
    op.trunc: _whole(math.trunc),
    op.round: _whole(round),
}
# Functions of the number of bits and the operands.
_OF_BITS: dict[op.Op, Callable[..., int | None]] = {
    op.shl: lambda bits, a, b: a << b if 0 <= b < bits else None,
    op.shr: lambda bits, a, b: a >> b if 0 <= b < bits else None,
    op.popcnt: lambda bits, a: (a % (1 << bits)).bit_count(),
    op.lzcnt: lambda bits, a: bits - (a % (1 << bits)).bit_length(),
    op.tzcnt: lambda bits, a: (a & -a).bit_length() - 1 if a else bits,
}
