"""Compression of masks: the indices at which they are true, in a single pass with decoupled
look-back (see `lookback`). Indices are collected in shared memory, so that they are written to
consecutive places by consecutive threads.
"""

from typing import NamedTuple

from ...simd.values import Value
from ..form import THREADS
from ..threads import BlockScan, ScanState
from ..values import GpuPointer
from .entry import EntryCode
from .lookback import TICKET, before_tile, next_tile
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

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        source, (n,) = c.buffer("source", "mask", read_only=True), c.sizes("n")
        result = c.buffer("result", "u32")
        tiles, aligned = c.sizes("tiles", "aligned")
        words = c.buffer("words", "u64")
        number = next_tile(c, words + TICKET)
        size = TileShape.of("mask").size
        first = number * size
        tile = MemoryTile(c, "mask", n - first, aligned)
        (x,) = tile.load(source + first)
        bits = _bits(c, tile, x)
        scan = BlockScan(c, "add", "u32")
        lanes, of_warp = scan.of_warp(ScanState(c.call("ctpop", bits)))
        warps, total = scan.of_block("scan", of_warp)
        before = before_tile(c, "add", words, number, number, total.x, c.number("u32", 0))
        found = c.shared("found", "u16", size)
        _collect(c, tile, bits, found, scan.join(warps, lanes).x)
        for _ in c.when(number + 1 == tiles):
            for _ in c.when(c.is_first):
                (words + TOTAL).store((before + total.x).cast("u64"))
        c.f.barrier()
        start, target = first.cast("u32"), result + before
        for k in c.range(c.thread(), total.x.cast("i64"), THREADS):
            at = (found + k.cast("u32")).load()
            (target + k).store(start + at.cast("u32"))


def _bits(c: EntryCode, tile: MemoryTile, x: Value) -> Value:
    """Returns the elements of a thread as bits."""
    width, joined = tile.shape.width, c.number("u32", 0)
    for k, word in enumerate(x.bits("u64", width // 8).elements()):
        joined = joined | ((word * _GATHERS_BITS) >> 56).cast("u32") << 8 * k
    # Not those beyond the end.
    left = (tile.count - tile.places[0]).bits("i32")
    inside = c.number("u32", 1) << c.least(c.most(left, 0), width)
    return joined & inside - 1


def _collect(
    c: EntryCode, tile: MemoryTile, bits: Value, found: GpuPointer, position: Value
) -> None:
    """Writes the numbers of the elements of a thread that are true to shared memory."""
    for j in range(tile.shape.width):
        bit = bits >> j & 1
        for _ in c.when(bit != 0):
            (found + position).store((tile.places[0] + j).cast("u16"))
        position = position + bit
