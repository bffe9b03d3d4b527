"""Tiles: consecutive elements that a block holds in registers. Each warp has a part of its own, of
rows in which every thread has 16 consecutive bytes, so that whole tiles are read and written by the
widest instructions, in whole sectors of memory.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...simd.ir import BYTES
from ...simd.values import Value
from ..form import THREADS
from ..function import WARP
from ..values import GpuPointer
from .entry import EntryCode

_WIDEST = 16


class TileShape(NamedTuple):
    """The shape of a tile: elements of a thread in a row, and rows of a warp."""

    width: int
    rows: int

    @classmethod
    def of(cls, code: str) -> "TileShape":
        """The shape for a type: 16 elements to a thread, or 8 of 64 bits."""
        width = _WIDEST // BYTES[code]
        return cls(width, max(1, (8 if BYTES[code] == 8 else 16) // width))

    @property
    def size(self) -> int:
        """The number of elements."""
        return THREADS * self.width * self.rows


class MemoryTile:
    """A tile in memory with up to `left` elements, at least one, which begins at a multiple of the
    widest access if `aligned` is not 0. `whole` is whether it is aligned and has all elements."""

    def __init__(self, c: EntryCode, code: str, left: Any, aligned: Any) -> None:
        self.c, self.shape = c, (shape := TileShape.of(code))
        count = c.least(left, shape.size)
        self.whole = (count == shape.size) & (aligned != 0)
        self.count = count.cast("u32")
        part = WARP * shape.width
        at = c.warp * (part * shape.rows) + c.lane * shape.width
        # Where the thread's elements of each row begin.
        self.places = [at + part * r for r in range(shape.rows)]

    def _each(self) -> list[Value]:
        """The number of each element, row by row."""
        return [p + j for p in self.places for j in range(self.shape.width)]

    def load(self, base: GpuPointer) -> list[Value]:
        """Returns the elements in rows, as vectors; those beyond the end are the last one."""
        width = self.shape.width

        def together() -> list[Value]:
            return [(base + p).load(width) for p in self.places]

        def one_by_one() -> list[Value]:
            last = self.count - 1
            xs = [(base + self.c.least(k, last)).load() for k in self._each()]
            return [self.c.vector(xs[k : k + width]) for k in range(0, len(xs), width)]

        return self.c.choose(self.whole, together, one_by_one)

    def store(self, base: GpuPointer, rows: Sequence[Value]) -> None:
        """Stores the elements that exist."""

        def together() -> None:
            for p, x in zip(self.places, rows, strict=True):
                (base + p).store(x)

        def one_by_one() -> None:
            xs = [x for r in rows for x in r.elements()]
            for k, x in zip(self._each(), xs, strict=True):
                for _ in self.c.when(k < self.count):
                    (base + k).store(x)

        self.c.choose(self.whole, together, one_by_one)
