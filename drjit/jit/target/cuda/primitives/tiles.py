"""Tiles: consecutive elements that a block holds in registers. Each warp has a part of its own, of
rows in which every thread has 16 consecutive bytes, so that whole tiles are read and written by the
widest instructions, in whole sectors of memory.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...simd.ir import BYTES, MEMORY
from ...simd.loops import address, choose, least, when
from ..form import THREADS
from ..function import WARP
from ..threads import lane_of_warp, warp_of_block
from .entry import EntryFunction, row

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
    """A tile in memory, of which the first `count` (`i32`) elements exist, at least one. `whole`
    is whether these are all, and aligned."""

    def __init__(self, f: EntryFunction, code: str, count: str, whole: str) -> None:
        self.f, self.code, self.count, self.whole = f, code, count, whole
        self.shape = shape = TileShape.of(code)
        part = WARP * shape.width
        at = f.op(f"mul i32 {warp_of_block(f)}, {part * shape.rows}")
        at = f.op(f"add i32 {at}, {f.op(f'mul i32 {lane_of_warp(f)}, {shape.width}')}")
        # Where the thread's elements of each row begin.
        self.places = [f.op(f"add i32 {at}, {part * r}") if r else at for r in range(shape.rows)]
        self.kind = row(code, shape.width)

    @classmethod
    def of(cls, f: EntryFunction, code: str, left: str, aligned: str) -> "MemoryTile":
        """A tile with up to `left` (`i64`) elements, which begins at a multiple of the widest
        access if `aligned` (`i64`) is not 0."""
        size = TileShape.of(code).size
        count = least(f, left, size)
        whole = f.op(f"icmp eq i64 {count}, {size}")
        whole = f.op(f"and i1 {whole}, {f.op(f'icmp ne i64 {aligned}, 0')}")
        return cls(f, code, f.op(f"trunc i64 {count} to i32"), whole)

    def _each(self) -> list[str]:
        """The number of each element, row by row."""
        f, width = self.f, self.shape.width
        return [f.op(f"add i32 {p}, {j}") for p in self.places for j in range(width)]

    def _address(self, base: str, index: str) -> str:
        return address(self.f, self.code, base, self.f.op(f"zext i32 {index} to i64"))

    def load(self, base: str) -> list[str]:
        """Returns the elements in rows, as vectors; those beyond the end are the last one."""
        f, code, width = self.f, self.code, self.shape.width

        def together() -> list[str]:
            aligned = f"align {_WIDEST}, !invariant.load !0"
            places = [self._address(base, p) for p in self.places]
            return [f.op(f"load {self.kind}, ptr {p}, {aligned}") for p in places]

        def one_by_one() -> list[str]:
            last = f.op(f"sub i32 {self.count}, 1")
            xs = []
            for index in self._each():
                index = f.op(f"call i32 @llvm.umin.i32(i32 {index}, i32 {last})")
                place = self._address(base, index)
                how = f"align {BYTES[code]}, !invariant.load !0"
                xs.append(f.op(f"load {MEMORY[code]}, ptr {place}, {how}"))
            return [self.joined(xs[k : k + width]) for k in range(0, len(xs), width)]

        return choose(f, self.whole, together, one_by_one, [self.kind] * self.shape.rows)

    def store(self, base: str, rows: Sequence[str]) -> None:
        """Stores the elements that exist."""
        f, code = self.f, self.code

        def together() -> None:
            for p, x in zip(self.places, rows, strict=True):
                f.do(f"store {self.kind} {x}, ptr {self._address(base, p)}, align {_WIDEST}")

        def one_by_one() -> None:
            xs = [x for r in rows for x in self.elements(r)]
            for index, x in zip(self._each(), xs, strict=True):
                with when(f, f.op(f"icmp ult i32 {index}, {self.count}")):
                    place = self._address(base, index)
                    f.do(f"store {MEMORY[code]} {x}, ptr {place}, align {BYTES[code]}")

        choose(f, self.whole, together, one_by_one)

    def elements(self, x: str) -> list[str]:
        """Returns the elements of a row."""
        return self.f.split(self.kind, x, self.shape.width)

    def joined(self, xs: Sequence[str]) -> str:
        """Returns a row of elements."""
        return self.f.joined(self.kind, xs)
