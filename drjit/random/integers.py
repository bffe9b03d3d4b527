"""Unbiased uniform integers in an interval, from random words."""

import functools
import operator
from collections.abc import Sequence
from typing import Any

from ..array import table
from ..array.base import ArrayBase
from ..array.pytree import leaf_arrays
from ..function.data.reduce import any as any_of
from ..function.evaluation import eval as evaluate
from ..function.kernel_loop import kernel_loop
from ..function.math import arithmetic
from ..jit.ir import dtype as dt
from ..jit.ir.dtype import DType
from .words import Words, into


def check_interval(dtype: DType, low: int, high: int) -> None:
    """Raises a ValueError if the interval [low, high) is empty or exceeds the type."""
    least = -(1 << 31) if dtype.is_signed else 0
    if low >= high:
        raise ValueError(f"Generator.integers(): the interval [{low}, {high}) is empty")
    if low < least or high > least + (1 << 32):
        raise ValueError(
            f"Generator.integers(): the interval [{low}, {high}) is not within the range of "
            f"{dtype.name}"
        )


def bounded(rng: Any, target: Any, low: Any, high: Any, closed: bool) -> Any:
    """Returns integers in an interval: the upper half of word * range; words whose lower half is
    below 2**32 mod range are rejected.
    """
    if not target.words.traced:
        return _bounded_plain(rng, target, low, high + closed)

    def draw() -> Any:
        return words_of.build(rng._draw(words_of, _words_of_block))

    words_of = type(target)(table.like(target.cls, dt.u32), target.shape, "integers", integer=True)
    cls = words_of.cls
    recorded = rng._keeps()
    if isinstance(low, int) and isinstance(high, int):
        size = high + closed - low
        threshold = (1 << 32) % size
        if size == 1 << 32:
            return _shifted(target, draw(), low)
        extent = cls(size)
    else:
        extent, threshold = _extent(cls, low, high, closed, not recorded)
    state = rng._seed, rng._counter
    word = draw()
    if not all(a._node.size for a in leaf_arrays(word)):  # nothing to be rejected
        return word if target.dtype is dt.u32 else target.cls(word)
    if isinstance(threshold, int) and threshold == 0:
        return _shifted(target, arithmetic.mul_hi(word, extent), low)
    if recorded:
        word = _redrawn(rng, words_of, state, word, extent, threshold)
        return _shifted(target, _upper(word, extent), low)
    while True:
        rejected = word * extent < threshold
        evaluate(word, rejected)
        if not any_of(_entries(rejected), axis=None):
            return _shifted(target, _upper(word, extent), low)
        word = arithmetic.select(rejected, draw(), word)


def _words_of_block(w: Words, words4: list[Any], dtype: DType) -> list[Any]:
    return words4


def _redrawn(rng: Any, target: Any, state: tuple, word: Any, extent: Any, threshold: Any) -> Any:
    """Replaces rejected words in a loop within the program. Redraws for the call that began at
    `state` use streams that nothing else uses.
    """
    w = target.words
    seed, counter = into(w, dt.u64, state[0], False), into(w, dt.u32, state[1], False)
    shown = word * 0
    limits = list(zip(*(leaf_arrays(shown + v) for v in (extent, threshold)), strict=True))

    def rejected(numbers: Sequence[Any]) -> list[Any]:
        return [v * e < t for v, (e, t) in zip(numbers, limits, strict=True)]

    def cond(again: Any, *numbers: Any) -> Any:
        return functools.reduce(operator.or_, rejected(numbers))

    def body(again: Any, *numbers: Any) -> list[Any]:
        others, _ = rng._numbers(target, _words_of_block, seed, counter, again)
        rows = zip(rejected(numbers), others, numbers, strict=True)
        return [again + 1, *[arithmetic.select(*row) for row in rows]]

    found = kernel_loop([w.UInt(1), *leaf_arrays(word)], cond, body)
    return target.build(found[1:])


def _entries(value: Any) -> Any:
    return value._array if value._kind == "tensor" else value


def _upper(word: Any, extent: Any) -> Any:
    """Returns the upper half of the product; the word itself if the range is 2**32, which is
    represented as 0."""
    return arithmetic.select(extent == 0, word, arithmetic.mul_hi(word, extent))


def _extent(cls: Any, low: Any, high: Any, closed: bool, check: bool) -> tuple[Any, Any]:
    """Returns the number of integers in each interval, modulo 2**32, and the rejection
    threshold."""
    if check and any_of(_entries(high < low if closed else high <= low), axis=None):
        raise ValueError("Generator.integers(): an interval is empty")
    extent = _bits(cls, high) - _bits(cls, low) + int(closed)
    divisor = arithmetic.maximum(extent, 1)
    return extent, arithmetic.select(extent == 0, 0, (0 - extent) % divisor)


def _bits(cls: Any, value: Any) -> Any:
    """Returns a bound as 32 bits."""
    return cls(value) if isinstance(value, ArrayBase) else cls(value & 0xFFFFFFFF)


def _shifted(target: Any, offset: Any, low: Any) -> Any:
    """Returns the result for the offset from the lower bound."""
    value = offset + _bits(type(offset), low)
    return value if target.dtype is dt.u32 else target.cls(value)


def _bounded_plain(rng: Any, target: Any, low: int, high: int) -> Any:
    size = high - low

    def rejected(word: int) -> bool:
        return word * size & 0xFFFFFFFF < (1 << 32) % size

    numbers = rng._draw(target, _words_of_block)
    while any(map(rejected, numbers)):
        again = rng._draw(target, _words_of_block)
        numbers = [b if rejected(a) else a for a, b in zip(numbers, again, strict=True)]
    return target.build([(v * size >> 32) + low for v in numbers])
