"""The objects of `values` on NumPy: one can step through a statement's loops with a debugger and
print every number, and a read beyond the end of an array is an error.

>>> code = Stepping()
>>> total = [code.zeros("f32", 4)]
>>> x = code.pointer("f32", np.arange(8, dtype=np.float32))
>>> for k in code.range(0, 8, 4, total):
...     total[0] = total[0] + (x + k).load(4)
>>> total[0]
Vector([ 4.,  6.,  8., 10.], dtype=float32)
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...ir.dtype import ALL
from ..numpy.elementwise import OPERATIONS
from .ir import BYTES, Machine

_TYPES: dict[str, Any] = {t.code: t.numpy for t in ALL} | {"mask": np.uint8}


class Vector(np.ndarray):
    """A vector of elements."""

    def cast(self, code: str) -> "Vector":
        """See `values.Vector.cast`."""
        return self.astype(_TYPES[code]).view(Vector)

    def words(self) -> list[int]:
        """See `values.Vector.words`."""
        return self.tolist()

    def times_plus(self, factor: "Vector", term: "Vector") -> "Vector":
        """See `values.Vector.times_plus`; rounded once only if doubles are enough for that."""
        wide = self.astype(np.float64) * factor + term
        return wide.astype(self.dtype).view(Vector)


class Pointer:
    """The place of an element in an array; `+` counts elements."""

    def __init__(self, code: str, array: np.ndarray, offset: int = 0):
        self.code, self.array, self.offset = code, array, offset

    def __repr__(self) -> str:
        return f"Pointer({self.array.dtype}[{self.array.size}], {self.offset})"

    def __add__(self, offset: int) -> "Pointer":
        return Pointer(self.code, self.array, self.offset + offset)

    def _places(self, lanes: int, mask: np.ndarray | None) -> np.ndarray:
        places = self.offset + np.arange(lanes)
        chosen = places if mask is None else places[mask]
        if chosen.size and not 0 <= chosen.min() <= chosen.max() < self.array.size:
            raise IndexError(f"{lanes} elements at {self!r}: not all are within the array")
        return places

    def load(self, lanes: int, mask: np.ndarray | None = None) -> Vector:
        """See `values.Pointer.load`."""
        result = np.zeros(lanes, self.array.dtype).view(Vector)
        chosen = slice(None) if mask is None else mask
        result[chosen] = self.array[self._places(lanes, mask)[chosen]]
        return result

    def splat(self, lanes: int) -> Vector:
        """See `values.Pointer.splat`."""
        return np.repeat(self.load(1), lanes).view(Vector)

    def word(self) -> int:
        """See `values.Pointer.word`."""
        return int(self.load(1)[0])

    count = word

    def set_count(self, number: int) -> None:
        """See `values.Pointer.set_count`."""
        self.store(np.array([number]))

    def counted(self) -> int:
        """See `values.Pointer.counted`."""
        before = self.count()
        self.set_count(before + 1)
        return before

    def store_lane(self, x: np.ndarray, lane: int) -> None:
        """See `values.Pointer.store_lane`."""
        self.store(x[lane : lane + 1])

    def store(self, x: np.ndarray, mask: np.ndarray | None = None) -> None:
        """See `values.Pointer.store`."""
        chosen = slice(None) if mask is None else mask
        self.array[self._places(len(x), mask)[chosen]] = x[chosen]

    def prefetch(self, how: str) -> None:
        """Does nothing."""


class Stepping:
    """Runs loops and branches as they come. It has the methods of `values.Code`, with Python's
    numbers as words and flags."""

    def __init__(self, register_bytes: int = 32, task: int = 0, thread: int = 0):
        self.machine = Machine(register_bytes, has_gathers=False)
        self._task, self._thread = task, thread

    def task(self) -> int:
        return self._task

    def thread(self) -> int:
        return self._thread

    def pointer(self, code: str, array: np.ndarray) -> Pointer:
        return Pointer(code, array)

    def numbers(self, name: str, table: np.ndarray, names: Sequence[str]) -> dict[str, int]:
        return {entry: int(table[k]) for k, entry in enumerate(names)}

    def width(self, code: str) -> int:
        return self.machine.register_bytes // BYTES[code]

    def least(self, x: int, y: int) -> int:
        return min(x, y)

    def zeros(self, code: str, lanes: int) -> Vector:
        return self.full(code, lanes, 0)

    def full(self, code: str, lanes: int, number: float) -> Vector:
        return np.full(lanes, number, _TYPES[code]).view(Vector)

    def word(self, number: int) -> int:
        return number

    def lane_numbers(self, lanes: int) -> Vector:
        return np.arange(lanes, dtype=np.uint32).view(Vector)

    def select(self, mask: Any, x: Any, y: Any) -> Any:
        if isinstance(mask, bool | np.bool_):
            return x if mask else y
        return np.where(mask, x, y).astype(x.dtype).view(type(x))

    def shifted(self, x: Any, by: int, fill: Any = None) -> Any:
        first = np.zeros_like(x) if fill is None else fill
        return np.concatenate([first[len(x) - by :], x[: len(x) - by]]).view(type(x))

    def last_everywhere(self, x: Any) -> Any:
        return np.full_like(x, x[-1])

    def part(self, x: Any, first: int, lanes: int) -> Any:
        return x[first : first + lanes]

    def chosen(self, x: Vector, mask: np.ndarray) -> tuple[Vector, int]:
        count = int(mask.sum())
        return np.resize(x[mask], len(x)).view(Vector) if count else x, count

    def counted(self, x: Vector, mask: np.ndarray, table: Pointer) -> tuple[Vector, int]:
        bits = int(np.packbits(mask, bitorder="little")[0])
        return (table + bits * len(x)).load(len(x)) + x[0], int(mask.sum())

    def below(self, count: int, lanes: int) -> np.ndarray:
        return np.arange(lanes) < count

    def everywhere(self, flag: bool, lanes: int) -> np.ndarray:
        return np.full(lanes, flag)

    def first(self, count: int, lanes: int) -> np.ndarray | None:
        return None if count == lanes else self.below(count, lanes)

    def room(self, name: str, code: str, count: int) -> Pointer:
        return Pointer(code, np.zeros(count, _TYPES[code]))

    def combine(self, op: str, x: Any, y: Any) -> Any:
        return OPERATIONS[op](x, y)

    def total(self, op: str, before: Sequence[Any], x: Any) -> list[Any]:
        if len(before) == 1:
            return [self.combine(op, x, before[0])]
        total, lost = before
        full = x + lost
        after = (total + full).view(Vector)
        rest = full - (after - total)
        return [after, np.where(np.isnan(rest - rest), 0, rest).astype(x.dtype).view(Vector)]

    def transposed(self, rows: Sequence[Vector]) -> list[Vector]:
        return [x.view(Vector) for x in np.stack(rows, axis=1)]

    def alternated(self, x: Vector, y: Vector, step: int, odd: bool) -> Vector:
        groups = [v.reshape(-1, step)[odd::2] for v in (x, y)]
        return np.stack(groups, axis=1).reshape(-1).view(Vector)

    def joined(self, parts: Sequence[Vector]) -> Vector:
        return np.concatenate(parts).view(Vector)

    def totals(self, rows: Sequence[Vector]) -> Vector:
        return np.stack(rows).sum(axis=1).view(Vector)

    def range(
        self, start: int, end: int, step: int = 1, carried: list | None = None
    ) -> Iterator[int]:
        return iter(range(start, end, step))

    def when(self, flag: bool, carried: list | None = None) -> Iterator[None]:
        if flag:
            yield

    def choose(self, flag: bool, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        return yes() if flag else no()
