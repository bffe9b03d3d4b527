"""Recordings for arrays of any size. Two recordings of a function for different sizes are
compared: if they differ only in numbers that are in proportion to a size, they say what happens for
others.

Numbers that do not change are taken as constants, hence a size that was the same in both has to
stay the same. Whatever cannot be explained leaves the recordings to their own sizes.
"""

from operator import index
from typing import Any, NamedTuple

import numpy as np

from ..jit.dtype import DType
from ..jit.freeze import Bound, Slot, Step
from ..jit.freeze_size import Size
from ..jit.node import Node, normalize
from .freeze_result import Outcome


class Program(NamedTuple):
    """A recording: its steps, the number of its values, the constants among them, inputs that it
    writes to in place, and what it leaves behind. `sizes` are those of the inputs, 0 and 1 left
    out; if it is `fixed`, there is no telling what happens for others."""

    steps: tuple[Step, ...]
    count: int
    constants: tuple[tuple[int, Node], ...]
    written: tuple[int, ...]
    outcome: Outcome
    sizes: tuple[int, ...]
    fixed: bool


class Different(Exception):
    """Recordings differ in more than sizes."""


class _Proportion(NamedTuple):
    """A number that was `value` where size number `which` was `at`."""

    value: int
    which: int
    at: int

    def number(self, sizes: tuple[int, ...]) -> int:
        number, rest = divmod(self.value * sizes[self.which], self.at)
        if rest:
            raise Different
        return number


class _Number(NamedTuple):
    """A number that depends on sizes; `options` are equally good explanations. `dtype` is the
    element type of a literal, which may be the reciprocal."""

    options: tuple[_Proportion, ...]
    dtype: DType | None = None
    inverse: bool = False

    def value(self, sizes: tuple[int, ...]) -> Any:
        found = {option.number(sizes) for option in self.options}
        if len(found) > 1:
            raise Different
        number = found.pop()
        return number if self.dtype is None else _literal(self.dtype, number, self.inverse)


class General(NamedTuple):
    """A recording in which some numbers depend on sizes. Sizes in `fixed` may not change."""

    program: Program
    fixed: tuple[tuple[int, int], ...]

    def for_sizes(self, sizes: tuple[int, ...]) -> Program | None:
        """The recording for given sizes; None if there is no telling what it would be."""
        if any(sizes[k] != n for k, n in self.fixed):
            return None
        program = self.program
        try:
            steps, outcome = _filled((program.steps, program.outcome), sizes)
        except Different:
            return None
        return program._replace(steps=steps, outcome=outcome, sizes=sizes)


def merged(a: Program, b: Program) -> General:
    """What two recordings for different sizes have in common.

    Raises:
        Different: it is not enough.
    """
    if (
        a.fixed
        or b.fixed
        or a.count != b.count
        or a.written != b.written
        or not _same_constants(a, b)
    ):
        raise Different
    if any(isinstance(s, Bound) or getattr(s, "sizes", None) is not None for s in a.steps):
        raise Different
    merger = _Merger(a.sizes, b.sizes)
    steps, outcome = merger.merge((a.steps, a.outcome), (b.steps, b.outcome))
    fixed = [(k, n) for k, (n, m) in enumerate(zip(a.sizes, b.sizes, strict=True)) if n == m]
    return General(a._replace(steps=steps, outcome=outcome), tuple(fixed))


def _same_constants(a: Program, b: Program) -> bool:
    return len(a.constants) == len(b.constants) and all(
        k == j and n.dtype is m.dtype and n.size == m.size and _bytes(n) == _bytes(m)
        for (k, n), (j, m) in zip(a.constants, b.constants, strict=True)
    )


def _bytes(n: Node) -> bytes:
    """The contents of a constant, which no kernel writes to."""
    return n.data.array(n.dtype.numpy, n.size).tobytes()


class _Merger:
    def __init__(self, first: tuple[int, ...], second: tuple[int, ...]) -> None:
        self._pairs = [(k, n, m) for k, (n, m) in enumerate(zip(first, second, strict=True))]

    def merge(self, a: Any, b: Any) -> Any:
        """Nested tuples with proportions in place of numbers that differ."""
        if a is b:
            return a
        cls = type(a)
        if isinstance(a, Size) or isinstance(b, Size):
            a, b, cls = index(a), index(b), int
        if cls is not type(b):
            raise Different
        if isinstance(a, tuple):
            if len(a) != len(b):
                raise Different
            items = [self.merge(x, y) for x, y in zip(a, b, strict=True)] if not (
                a and isinstance(a[0], DType)
            ) else self._literal(a, b)  # fmt: skip
            return tuple(items) if cls is tuple else cls(*items)
        if cls is int and a != b:
            return _Number(self._options(a, b))
        if cls is np.ndarray:
            same = a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        else:
            same = bool(a == b) and (cls is not float or repr(a) == repr(b))
        if not same:
            raise Different
        return a

    def _options(self, a: int, b: int) -> tuple[_Proportion, ...]:
        found = [_Proportion(a, k, n) for k, n, m in self._pairs if n != m and a * m == b * n]
        if not found:
            raise Different
        return tuple(found)

    def _literal(self, a: tuple, b: tuple) -> list[Any]:
        """A literal: its element type, its value and perhaps a size."""
        dtype, x, *rest = a
        other, y, *others = b
        if dtype is not other:
            raise Different
        value = x
        if repr(x) != repr(y):
            value = self._explained(dtype, x, y)
        return [dtype, value, *[self.merge(p, q) for p, q in zip(rest, others, strict=True)]]

    def _explained(self, dtype: DType, x: Any, y: Any) -> _Number:
        """A literal that is a number of entries, or the reciprocal of one."""
        for inverse in (False, True):
            numbers = [_whole(1 / v if inverse and v else v) for v in (x, y)]
            if all(
                n is not None and n > 0 and _literal(dtype, n, inverse) == v
                for n, v in zip(numbers, (x, y), strict=True)
            ):
                return _Number(self._options(*numbers), dtype, inverse)  # type: ignore[arg-type]
        raise Different


def _whole(x: float) -> int | None:
    return round(x) if abs(x) < 1 << 53 else None


def _literal(dtype: DType, number: int, inverse: bool) -> Any:
    return normalize(dtype, 1 / number if inverse else number)


def _filled(d: Any, sizes: tuple[int, ...]) -> Any:
    """Nested tuples with numbers in place of proportions."""
    if type(d) is _Number:
        return d.value(sizes)
    if not isinstance(d, tuple) or type(d) is Slot:
        return d
    items = [_filled(x, sizes) for x in d]
    if all(x is y for x, y in zip(d, items, strict=True)):
        return d
    return tuple(items) if type(d) is tuple else type(d)(*items)
