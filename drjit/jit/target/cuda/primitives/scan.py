"""Prefix reductions, of all elements or within runs of them, and the compression of masks. A tile
is scanned by its threads, its warps, and then as a whole. What comes before it is found in one of
three ways:

* Runs within a tile: nothing; several runs are scanned together.
* Integers of up to 32 bits: by looking back at the tiles before (`lookback`).
* Others: each block goes through consecutive tiles. If there are several blocks to a run, a launch
  of `Runs` first reduces the elements of each, which takes a second pass over memory, but the
  order of the operations is always the same: so are sums of floats.
"""

from typing import Any, NamedTuple

from ...simd.compensated_sum import is_long
from ...simd.ir import FLOATS
from ...simd.reduction import accumulator, starting_value
from ...simd.values import Value, Word
from ..function import THREADS, WARP
from ..threads import BlockScan, ScanState, of_block
from ..values import GpuPointer, in_register
from .entry import EntryCode, MemoryTile, TileShape
from .lookback import TICKET, before_tile, next_tile
from .reductions import Total

TOTAL = 1
"""The word with the number of all indices: see `lookback`."""

# Eight bytes that are 0 or 1, times this: the highest byte is made of their bits.
_GATHERS_BITS = sum(1 << 56 - 7 * k for k in range(8))


class TileScan:
    """The scan of a tile of elements; `run` is the length of runs in it, if there are several."""

    def __init__(self, c: EntryCode, spec: Any, run: Value | None = None) -> None:
        self.c, self.op, self.code, self.run = c, spec.op, spec.code, run
        self.inclusive, self.acc = spec.inclusive, accumulator(spec.code)
        self.scan = BlockScan(c, self.op, self.acc, run is not None)
        self.nothing = self.start = self.scan.start.x
        if not self.inclusive:  # the start is visible
            self.start = c.number(self.acc, starting_value(self.op, self.acc))

    def of(self, tile: MemoryTile, base: GpuPointer) -> None:
        """Scans a tile in memory."""
        rows, heads = [self._accumulated(x) for x in tile.load(base)], self._heads(tile)
        self.tile, self.heads, self.parts, self.total = tile, heads, [], self.scan.start
        for number, (xs, begins) in enumerate(zip(rows, heads, strict=True)):
            states = [ScanState(*state) for state in zip(xs, begins, strict=True)]
            for j in range(1, len(states)):
                states[j] = self.scan.join(states[j - 1], states[j])
            lanes, all_lanes = self.scan.of_warp(states[-1])
            if number:
                lanes, all_lanes = (self.scan.join(self.total, s) for s in (lanes, all_lanes))
            self.parts.append((lanes, states))
            self.total = all_lanes
        self.warps, self.total = self.scan.of_block("scan", self.total)

    def _accumulated(self, x: Value) -> list[Value]:
        """Returns the elements of a row in the type of the accumulator, without NaN where that is
        ignored."""
        c, op, acc = self.c, self.op, self.acc
        x = x.cast(in_register(acc))
        if op in ("min", "max") and acc in FLOATS:
            x = c.combine(op, x, c.neutral(op, acc, x.lanes))
        return x.elements()

    def _heads(self, tile: MemoryTile) -> list[list[Any]]:
        """Returns for each element whether a run begins with it."""
        width, found = tile.shape.width, []
        for first in tile.places:
            if self.run is None:
                found.append([None] * width)
                continue
            place = first % self.run
            heads = [place == 0]
            for _ in range(1, width):
                place = place + 1
                place = self.c.select(place == self.run, self.c.number("u32", 0), place)
                heads.append(place == 0)
            found.append(heads)
        return found

    def store(self, base: GpuPointer, before: Value) -> None:
        """Stores the results, given the reduction of what comes before the tile."""
        c, rows = self.c, []
        begins = None if self.run is None else c.flag(False)
        begun = self.scan.join(ScanState(before, begins), self.warps)
        for (lanes, states), heads in zip(self.parts, self.heads, strict=True):
            first = self.scan.join(begun, lanes)
            xs = [self.scan.join(first, s).x for s in states]
            if not self.inclusive:
                xs = [first.x, *xs[:-1]]
                if begins is not None:
                    xs = [c.select(h, self.start, x) for h, x in zip(heads, xs, strict=True)]
            rows.append(c.vector(xs).cast(in_register(self.code)))
        self.tile.store(base, rows)


class ShortRuns(NamedTuple):
    """Scans runs of which at least one fits in a tile.

    Parameters: the elements; the results; their number; elements of a run; those of as many runs
    as fit in a tile; whether tiles of as many are aligned.
    """

    op: str
    code: str
    inclusive: bool

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        source, result = (
            c.buffer("source", self.code, read_only=True),
            c.buffer("result", self.code),
        )
        n, run, span, aligned = c.sizes("n", "run", "span", "aligned")
        first = c.block() * span
        scan = TileScan(c, self, run.cast("u32"))
        scan.of(MemoryTile(c, self.code, c.least(n - first, span), aligned), source + first)
        scan.store(result + first, scan.nothing)


class LookBackScan(NamedTuple):
    """Scans integers of up to 32 bits in a single pass.

    Parameters: the elements; the results; their number; elements of a run, and its tiles; whether
    runs are aligned; the words of the tiles (see `lookback`).
    """

    op: str
    code: str
    inclusive: bool

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        code = self.code
        source, result = c.buffer("source", code, read_only=True), c.buffer("result", code)
        n, run, tiles, aligned = c.sizes("n", "run", "tiles", "aligned")
        words = c.buffer("words", "u64")
        number = next_tile(c, words + TICKET)
        which, earlier = c.parts(number, tiles)
        start, origin = earlier * TileShape.of(code).size, which * run
        left = c.least(run, n - origin) - start
        first = origin + start
        scan = TileScan(c, self)
        scan.of(MemoryTile(c, code, left, aligned), source + first)
        # Elements beyond the end of a run count in the total of its last tile, which nobody reads.
        total = scan.total.x
        before = before_tile(c, self.op, words, number, earlier, total, scan.nothing)
        scan.store(result + first, before)


class ChainedScan(NamedTuple):
    """Scans with several tiles to a block, one after the other.

    Parameters: the elements; the results; their number; elements of a run; elements of a piece,
    whole tiles; pieces of a run; whether runs are aligned; the totals of pieces, unless a run has
    only one. The last run may be shorter than the others, and have fewer pieces.
    """

    op: str
    code: str
    inclusive: bool

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        code = self.code
        source, result = c.buffer("source", code, read_only=True), c.buffer("result", code)
        n, run, chunk, pieces, aligned = c.sizes("n", "run", "chunk", "pieces", "aligned")
        scan = TileScan(c, self)
        totals = c.buffer("totals", scan.acc, read_only=True)
        which, piece = c.parts(c.block(), pieces)
        start, origin = piece * chunk, which * run
        end = c.least(c.least(start + chunk, run), n - origin)
        carried = self._before(c, scan, totals, piece)
        for at in c.range(start, end, TileShape.of(code).size, carried):
            scan.of(MemoryTile(c, code, end - at, aligned), source + origin + at)
            scan.store(result + origin + at, carried[0])
            carried[:] = c.total(self.op, carried, scan.total.x)
            c.f.barrier()

    def _before(self, c: EntryCode, scan: TileScan, totals: GpuPointer, piece: Word) -> list[Value]:
        """Returns the reduction of the pieces before this one."""
        earlier, thread = Total(c, self.op, scan.acc, 1), c.thread()
        place = totals + (c.block() - piece) + thread
        x = earlier.horizontal(earlier.over(place, piece - thread, THREADS, THREADS)[0])
        x = of_block(c, self.op, x, c.shared("earlier", scan.acc, THREADS // WARP))
        lost = [c.number(scan.acc, -0.0)] * is_long(self.op, scan.acc)
        return c.total(self.op, [scan.start, *lost], x)


# ---- compression


class Compress(NamedTuple):
    """Compresses a mask: finds the indices at which it is true, in a single pass. They are
    collected in shared memory, so that consecutive threads write them to consecutive places.

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
