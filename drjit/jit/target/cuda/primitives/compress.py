"""Compression of masks: the indices at which they are true, in a single pass with decoupled
look-back (see `lookback`). Indices are collected in shared memory, so that they are written to
consecutive places by consecutive threads.
"""

from typing import NamedTuple

from ...simd.ir import MEMORY
from ...simd.loops import address, loop, when
from ..form import THREADS
from ..function import shared
from ..threads import BlockScan, ScanState, is_first, load_shared, store_shared
from .entry import EntryFunction
from .lookback import before_tile, next_tile
from .tiles import MemoryTile, TileShape

TOTAL = 1
"""The word with the number of all indices: see `lookback`."""

# Eight bytes that are 0 or 1, times this: the highest byte is made of their bits.
_GATHERS_BITS = sum(1 << 56 - 7 * k for k in range(8))


class Compress(NamedTuple):
    """Compresses a mask.

    Parameters: the mask, and its size; the indices; the number of tiles; whether the mask is
    aligned; the words of the tiles.
    """

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        shape = TileShape.of("mask")
        source, n, result = f.buffer("source", read_only=True), f.size("n"), f.buffer("result")
        tiles, aligned, words = f.size("tiles"), f.size("aligned"), f.buffer("words")
        number = next_tile(f, words)
        first = f.op(f"mul i64 {number}, {shape.size}")
        tile = MemoryTile.of(f, "mask", f.op(f"sub i64 {n}, {first}"), aligned)
        (x,) = tile.load(address(f, "mask", source, first))
        bits = self._bits(f, tile, x)
        count = f.op(f"call i32 @llvm.ctpop.i32(i32 {bits})")
        scan = BlockScan(f, "add", "u32")
        lanes, of_warp = scan.of_warp(ScanState(count))
        warps, total = scan.of_block("scan", of_warp)
        before = before_tile(f, "add", "u32", words, number, number, total.x)
        found = shared(f, "@found", shape.size, "u16")
        self._collect(f, tile, bits, found, scan.join(warps, lanes).x)
        with when(f, f.op(f"icmp eq i64 {f.op(f'add i64 {number}, 1')}, {tiles}")):
            with when(f, is_first(f)):
                whole = f.op(f"zext i32 {f.op(f'add i32 {before}, {total.x}')} to i64")
                f.do(f"store i64 {whole}, ptr {address(f, 'u64', words, TOTAL)}, align 8")
        f.barrier()
        start = f.op(f"trunc i64 {first} to i32")
        target = address(f, "u32", result, f.op(f"zext i32 {before} to i64"))
        end = f.op(f"zext i32 {total.x} to i64")
        with loop(f, f.thread(), end, THREADS) as (k, _):
            at = load_shared(f, "u16", found, f.op(f"trunc i64 {k} to i32"))
            index = f.op(f"add i32 {start}, {f.op(f'zext i16 {at} to i32')}")
            f.do(f"store i32 {index}, ptr {address(f, 'u32', target, k)}, align 4")

    def _bits(self, f: EntryFunction, tile: MemoryTile, x: str) -> str:
        """Returns the elements of a thread as bits."""
        words, joined = tile.shape.width // 8, "0"
        both = f.op(f"bitcast {tile.kind} {x} to <{words} x i64>")
        for k in range(words):
            part = f.op(f"extractelement <{words} x i64> {both}, i32 {k}")
            part = f.op(f"lshr i64 {f.op(f'mul i64 {part}, {_GATHERS_BITS}')}, 56")
            part = f.op(f"shl i32 {f.op(f'trunc i64 {part} to i32')}, {8 * k}")
            joined = f.op(f"or i32 {joined}, {part}")
        # Not those beyond the end.
        left = f.op(f"sub i32 {tile.count}, {tile.places[0]}")
        left = f.op(f"call i32 @llvm.smax.i32(i32 {left}, i32 0)")
        left = f.op(f"call i32 @llvm.smin.i32(i32 {left}, i32 {tile.shape.width})")
        inside = f.op(f"sub i32 {f.op(f'shl i32 1, {left}')}, 1")
        return f.op(f"and i32 {joined}, {inside}")

    def _collect(
        self, f: EntryFunction, tile: MemoryTile, bits: str, found: str, position: str
    ) -> None:
        """Writes the numbers of the elements of a thread that are true to shared memory."""
        kind = MEMORY["u16"]
        for j in range(tile.shape.width):
            bit = f.op(f"and i32 {f.op(f'lshr i32 {bits}, {j}')}, 1")
            with when(f, f.op(f"icmp ne i32 {bit}, 0")):
                place = f.op(f"trunc i32 {f.op(f'add i32 {tile.places[0]}, {j}')} to {kind}")
                store_shared(f, "u16", place, found, position)
            position = f.op(f"add i32 {position}, {bit}")
