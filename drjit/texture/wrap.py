"""Wrapping of integer positions beyond the boundary of a texture: repeat, clamp or mirror."""

from typing import Any

from ..array import leaf
from ..array.base import ArrayBase
from ..function.math import arithmetic
from ..jit.ir import op
from .modes import WrapMode


def _remainder(i: Any, n: int) -> Any:
    """Returns `i` modulo `n`, in 0 to n-1 also for negative numbers."""
    if not isinstance(i, ArrayBase):
        return i % n
    # In the kernel language, the remainder has the sign of the dividend.
    rest = leaf.apply(op.remainder, i, leaf.literal(type(i), n))
    return arithmetic.select(rest < 0, rest + n, rest)


def _clamped(i: Any, n: int) -> Any:
    if not isinstance(i, ArrayBase):
        return max(min(i, n - 1), 0)
    last, first = leaf.literal(type(i), n - 1), leaf.literal(type(i), 0)
    return leaf.apply(op.maximum, leaf.apply(op.minimum, i, last), first)


def _reflected(i: Any, n: int) -> Any:
    """Maps positions to a period of 2n whose second half runs backwards."""
    return arithmetic.minimum(i, 2 * n - 1 - i)


def wrapped(mode: WrapMode, first: Any, n: int, count: int = 1) -> list[Any]:
    """Returns the positions of `count` neighbouring texels from number `first` on, in a row of
    `n`."""
    if mode is WrapMode.Clamp:
        return [_clamped(first + k if k else first, n) for k in range(count)]
    period = n if mode is WrapMode.Repeat else 2 * n
    position = _remainder(first, period)
    found = [position]
    for _ in range(count - 1):
        following = position + 1
        position = arithmetic.select(following == period, 0, following)
        found.append(position)
    return found if mode is WrapMode.Repeat else [_reflected(i, n) for i in found]
