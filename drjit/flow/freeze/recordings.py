"""The recordings of a frozen function: those for one input structure, for certain values of
literals, and for certain or for any sizes of arrays.

Two recordings for different sizes are compared: if they differ only in numbers proportional to a
size, they determine the recordings for other sizes. Numbers that do not change are treated as
constants; hence a size that was the same in both must stay the same. If anything cannot be
explained, the recordings remain tied to their own sizes.
"""

from itertools import count
from operator import index
from types import CodeType
from typing import Any

from ...jit.ir.dtype import DType
from ...jit.ir.node import Node, normalize
from ...jit.lazy import np
from ...jit.run.freeze import Recording, Replay, ValueNumber
from ...jit.run.freeze_size import Size
from ...jit.run.launch import to_numpy
from ...jit.tuples import NamedTuple


class Different(Exception):
    """The recordings differ in more than sizes."""


class Proportion(NamedTuple):
    """A number that was `value` when size number `which` consisted of `at` parts of a length."""

    value: int
    which: int
    at: int
    length: int

    def number(self, sizes: tuple[int, ...]) -> int:
        number, rest = divmod(self.value * _parts(sizes[self.which], self.length), self.at)
        if rest:
            raise Different
        return number


class SizedNumber(NamedTuple):
    """A number that depends on sizes; `options` are equally good explanations. `dtype` is the
    element type of a literal, which may be the reciprocal."""

    options: tuple[Proportion, ...]
    dtype: DType | None = None
    inverse: bool = False

    def value(self, sizes: tuple[int, ...]) -> Any:
        found = {option.number(sizes) for option in self.options}
        if len(found) > 1:
            raise Different
        number = found.pop()
        return number if self.dtype is None else _literal(self.dtype, number, self.inverse)


class GeneralRecording(NamedTuple):
    """A recording in which some numbers depend on sizes. Sizes in `fixed` must not change, and
    those in `even` must remain multiples of a length."""

    recording: Recording
    fixed: tuple[tuple[int, int], ...]
    even: tuple[tuple[int | SizedNumber, int], ...]

    def for_sizes(self, sizes: tuple[int, ...]) -> Recording | None:
        """Returns the recording for given sizes, or None if it cannot be determined."""
        if any(sizes[k] != n for k, n in self.fixed):
            return None
        recording = self.recording
        try:
            even = _filled(self.even, sizes)
            steps, outcome = _filled((recording.steps, recording.outcome), sizes)
        except Different:
            return None
        if any(n % length for n, length in even):
            return None
        return recording._replace(steps=steps, outcome=outcome, sizes=sizes)


def generalize(a: Recording, b: Recording) -> GeneralRecording:
    """Generalizes two recordings for different sizes.

    Raises:
        Different: they cannot be generalized.
    """
    if (
        a.uses.decisions != b.uses.decisions
        or a.count != b.count
        or a.written != b.written
        or not _same_constants(a, b)
        or any(getattr(s, "sizes", None) is not None for s in a.steps)
    ):
        raise Different
    merger = _Merger(a, b)
    even = merger.divisions()
    steps, outcome = merger.merge((a.steps, a.outcome), (b.steps, b.outcome))
    fixed = [(k, n) for k, (n, m) in enumerate(zip(a.sizes, b.sizes, strict=True)) if n == m]
    return GeneralRecording(a._replace(steps=steps, outcome=outcome), tuple(fixed), even)


def _same_constants(a: Recording, b: Recording) -> bool:
    return len(a.constants) == len(b.constants) and all(
        k == j and n.dtype is m.dtype and n.size == m.size and _bytes(n) == _bytes(m)
        for (k, n), (j, m) in zip(a.constants, b.constants, strict=True)
    )


def _bytes(n: Node) -> bytes:
    """Returns the contents of a constant, which no kernel writes to."""
    return to_numpy(n.dtype, n.size, n.data).tobytes()


class _Merger:
    def __init__(self, first: Recording, second: Recording) -> None:
        self._first, self._second = first.uses.divisions, second.uses.divisions
        lengths = dict.fromkeys([1, *[length for _, length in self._first]])
        self._pairs = [
            (k, length, _parts(n, length), _parts(m, length))
            for k, (n, m) in enumerate(zip(first.sizes, second.sizes, strict=True))
            for length in lengths
        ]

    def divisions(self) -> tuple[tuple[int | SizedNumber, int], ...]:
        """The sizes that were divided without remainder, each with the length of the parts."""
        found = []
        if len(self._first) != len(self._second):
            raise Different
        for (n, length), (m, other) in zip(self._first, self._second, strict=True):
            even = not n % length
            if length != other or even is not (not m % length):
                raise Different
            if n != m and _parts(n, length) == _parts(m, length):
                raise Different  # their number does not reveal its dependence on the size
            if even:
                found.append((self.merge(n, m), length))
        return tuple(dict.fromkeys(found))

    def merge(self, a: Any, b: Any) -> Any:
        """Returns nested tuples with proportions in place of numbers that differ."""
        if a is b:
            return a
        cls = type(a)
        if isinstance(a, Size) or isinstance(b, Size):
            a, b, cls = index(a), index(b), int
        if cls is not type(b):
            raise Different
        if isinstance(a, tuple):
            if a and b and type(a[0]) is type(b[0]) is CodeType:
                # Where something was, for messages: not always the same instruction of a line, as
                # Python replaces instructions by special ones.
                return a
            if len(a) != len(b):
                raise Different
            items = [self.merge(x, y) for x, y in zip(a, b, strict=True)] if not (
                a and isinstance(a[0], DType)
            ) else self._literal(a, b)  # fmt: skip
            return tuple(items) if cls is tuple else cls(*items)
        if cls is int and a != b:
            return SizedNumber(self._options(a, b))
        if cls is np.ndarray:
            same = a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        else:
            same = bool(a == b) and (cls is not float or repr(a) == repr(b))
        if not same:
            raise Different
        return a

    def _options(self, a: int, b: int) -> tuple[Proportion, ...]:
        found = [
            Proportion(a, k, n, length)
            for k, length, n, m in self._pairs
            if n != m and a * m == b * n
        ]
        if not found:
            raise Different
        return tuple(found)

    def _literal(self, a: tuple, b: tuple) -> list[Any]:
        """Returns a literal: its element type, its value and possibly a size."""
        dtype, x, *rest = a
        other, y, *others = b
        if dtype is not other:
            raise Different
        value = x
        if repr(x) != repr(y):
            value = self._explained(dtype, x, y)
        return [dtype, value, *[self.merge(p, q) for p, q in zip(rest, others, strict=True)]]

    def _explained(self, dtype: DType, x: Any, y: Any) -> SizedNumber:
        """Returns a literal that is a number of entries, or the reciprocal of one."""
        for inverse in (False, True):
            numbers = [_as_integer(1 / v if inverse and v else v) for v in (x, y)]
            if all(
                n is not None and n > 0 and _literal(dtype, n, inverse) == v
                for n, v in zip(numbers, (x, y), strict=True)
            ):
                return SizedNumber(self._options(*numbers), dtype, inverse)  # type: ignore[arg-type]
        raise Different


def _parts(size: int, length: int) -> int:
    return -(-size // length)


def _as_integer(x: float) -> int | None:
    return round(x) if abs(x) < 1 << 53 else None


def _literal(dtype: DType, number: int, inverse: bool) -> Any:
    return normalize(dtype, 1 / number if inverse else number)


def _filled(d: Any, sizes: tuple[int, ...]) -> Any:
    """Returns nested tuples with numbers in place of proportions."""
    if type(d) is SizedNumber:
        return d.value(sizes)
    if not isinstance(d, tuple) or type(d) is ValueNumber:
        return d
    items = [_filled(x, sizes) for x in d]
    if all(x is y for x, y in zip(d, items, strict=True)):
        return d
    return tuple(items) if type(d) is tuple else type(d)(*items)


_READY = 16  # number of input sizes for which steps are kept ready
_TIED = 16  # number of recordings per input structure that match only their own sizes

_tick = count().__next__


class Family:
    """The recordings for inputs that differ only in the sizes of arrays."""

    def __init__(self) -> None:
        self.recorded: dict[tuple[int, ...], Recording] = {}
        self.general: list[GeneralRecording] = []
        self.ready: dict[tuple[int, ...], Replay] = {}
        self.last_use = 0

    def __len__(self) -> int:
        return len(self.general) + len(self.recorded)

    def find(self, sizes: tuple[int, ...]) -> Replay | None:
        """Returns the recording for given array sizes, if there is one."""
        self.last_use = _tick()
        found = self.ready.get(sizes)
        if found is None:
            recording = self.recorded.pop(sizes, None)
            if recording is not None:
                self.recorded[sizes] = recording  # as the most recently used one
            for general in self.general:
                recording = recording or general.for_sizes(sizes)
            if recording is not None:
                if len(self.ready) >= _READY:
                    del self.ready[next(iter(self.ready))]
                found = self.ready[sizes] = Replay(recording, recording.outcome.values())
        return found

    def has(self, sizes: tuple[int, ...], replay: Replay) -> bool:
        """Returns whether `find` would return this, and notes its use if so."""
        if self.ready.get(sizes) is not replay:
            return False
        self.last_use = _tick()
        return True

    def add(self, recording: Recording) -> bool:
        """Adds a recording. Returns whether it is new, rather than an existing one with other
        sizes."""
        self.ready.pop(recording.sizes, None)
        self.recorded.pop(recording.sizes, None)
        for sizes, other in self.recorded.items():
            try:
                general = generalize(other, recording)
            except Different:
                continue
            del self.recorded[sizes]
            # Others that are special cases of it.
            self.general = [g for g in self.general if general.for_sizes(g.recording.sizes) is None]
            self.recorded = {n: p for n, p in self.recorded.items() if general.for_sizes(n) is None}
            self.general.append(general)
            return False
        if len(self.recorded) >= _TIED:
            self.drop(next(iter(self.recorded)))
        self.recorded[recording.sizes] = recording
        return True

    def drop_oldest(self) -> None:
        """Forgets one recording."""
        if self.recorded:
            self.drop(next(iter(self.recorded)))
        else:
            self.general.pop(0)
            self.ready.clear()

    def drop(self, sizes: tuple[int, ...]) -> None:
        """Forgets a recording that turned out not to match."""
        self.ready.pop(sizes, None)
        self.recorded.pop(sizes, None)


class Structure:
    """The recordings for one input structure by the values of literals, the latest values, and the
    literals that change from call to call and are therefore data."""

    def __init__(self, values: list[Any], changing: set[int]) -> None:
        self.last, self.changing = values, changing
        self.families: dict[tuple, Family] = {}
