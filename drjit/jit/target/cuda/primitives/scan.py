"""Prefix reductions, of all elements or within runs of them. A tile is scanned by its threads, its
warps, and then as a whole. What comes before it is found in one of three ways:

* Runs within a tile: nothing; several runs are scanned together.
* Integers of up to 32 bits: by looking back at the tiles before (`lookback`).
* Others: each block goes through consecutive tiles. If there are several blocks to a run, a launch
  of `Runs` first reduces the elements of each, which takes a second pass over memory, but the
  order of the operations is always the same: so are sums of floats.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...simd.atomic import combine
from ...simd.compensated_sum import add_long, is_long
from ...simd.ir import FLOATS, MEMORY, constant
from ...simd.loops import address, cast, least, loop
from ...simd.reduction import accumulator, starting_value
from ..form import THREADS
from ..function import shared
from ..threads import BlockScan, ScanState, of_block
from .entry import EntryFunction, row
from .lookback import before_tile, next_tile
from .run_reduction import Total
from .tiles import MemoryTile, TileShape


class TileScan:
    """The scan of a tile of elements."""

    def __init__(
        self, f: EntryFunction, op: str, code: str, *, inclusive: bool, run: str = ""
    ) -> None:
        self.f, self.op, self.code, self.inclusive = f, op, code, inclusive
        self.acc, self.run = accumulator(code), run
        self.scan = BlockScan(f, op, self.acc, bool(run))
        # The start is visible if a run begins with it.
        start = self.scan.start.x
        if not inclusive:
            start = constant("u8" if code == "mask" else self.acc, starting_value(op, self.acc))
        self.start = start

    def of(self, tile: MemoryTile, base: str) -> None:
        """Scans a tile in memory."""
        rows = [self._accumulated(x, tile) for x in tile.load(base)]
        heads = self._heads(tile) if self.run else []
        self.tile, self.parts, self.total = tile, [], self.scan.start
        for number, xs in enumerate(rows):
            states = [ScanState(x) for x in xs]
            if heads:
                states = [ScanState(x, h) for x, h in zip(xs, heads[number], strict=True)]
            for j in range(1, len(states)):
                states[j] = self.scan.join(states[j - 1], states[j])
            lanes, all_lanes = self.scan.of_warp(states[-1])
            if number:
                lanes, all_lanes = (self.scan.join(self.total, s) for s in (lanes, all_lanes))
            self.parts.append((lanes, states))
            self.total = all_lanes
        self.warps, self.total = self.scan.of_block("scan", self.total)
        self.heads = heads

    def _accumulated(self, x: str, tile: MemoryTile) -> list[str]:
        """Returns the elements of a row in the type of the accumulator, without NaN where that is
        ignored."""
        f, op, acc, width = self.f, self.op, self.acc, tile.shape.width
        x, kind = cast(f, width, x, self.code, acc), row(acc, width)
        if op in ("min", "max") and acc in FLOATS:
            x = combine(f, op, acc, x, f"splat ({MEMORY[acc]} {self.scan.start.x})", kind)
        return f.split(kind, x, width)

    def _heads(self, tile: MemoryTile) -> list[list[str]]:
        """Returns for each element whether a run begins with it."""
        f, found = self.f, []
        for first in tile.places:
            place, heads = f.op(f"urem i32 {first}, {self.run}"), []
            for j in range(tile.shape.width):
                if j:
                    place = f.op(f"add i32 {place}, 1")
                    ends = f.op(f"icmp eq i32 {place}, {self.run}")
                    place = f.op(f"select i1 {ends}, i32 0, i32 {place}")
                heads.append(f.op(f"icmp eq i32 {place}, 0"))
            found.append(heads)
        return found

    def store(self, base: str, before: str) -> None:
        """Stores the results, given the reduction of what comes before the tile."""
        f, code, width = self.f, self.code, self.tile.shape.width
        begun = self.scan.join(ScanState(before, "false"), self.warps)
        rows = []
        for number, (lanes, states) in enumerate(self.parts):
            first = self.scan.join(begun, lanes)
            following = [self.scan.join(first, s) for s in states]
            xs = [s.x for s in following]
            if not self.inclusive:
                xs = [first.x, *xs[:-1]]
                if self.heads:
                    xs = [self._started(h, x) for h, x in zip(self.heads[number], xs, strict=True)]
            x = f.joined(row(self.acc, width), xs)
            rows.append(cast(f, width, x, self.acc, code))
        self.tile.store(base, rows)

    def _started(self, begins: str, x: str) -> str:
        kind = MEMORY[self.acc]
        return self.f.op(f"select i1 {begins}, {kind} {self.start}, {kind} {x}")


class ShortRuns(NamedTuple):
    """Scans runs of which at least one fits in a tile.

    Parameters: the elements; the results; their number; elements of a run; those of as many runs
    as fit in a tile; whether tiles of as many are aligned.
    """

    op: str
    code: str
    inclusive: bool

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        source, result = f.buffer("source", read_only=True), f.buffer("result")
        n, run, span, aligned = (f.size(name) for name in ("n", "run", "span", "aligned"))
        first = f.op(f"mul i64 {f.block_number()}, {span}")
        length = f.op(f"trunc i64 {run} to i32")
        scan = TileScan(f, self.op, self.code, inclusive=self.inclusive, run=length)
        tile = MemoryTile.of(f, self.code, least(f, f.op(f"sub i64 {n}, {first}"), span), aligned)
        scan.of(tile, address(f, self.code, source, first))
        scan.store(address(f, self.code, result, first), scan.scan.start.x)


class LookBackScan(NamedTuple):
    """Scans integers of up to 32 bits in a single pass.

    Parameters: the elements; the results; their number; elements of a run, and its tiles; whether
    runs are aligned; the words of the tiles (see `lookback`).
    """

    op: str
    code: str
    inclusive: bool

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        op, code = self.op, self.code
        source, result = f.buffer("source", read_only=True), f.buffer("result")
        n, run, tiles, aligned = (f.size(name) for name in ("n", "run", "tiles", "aligned"))
        words = f.buffer("words")
        number = next_tile(f, words)
        which = f.op(f"udiv i64 {number}, {tiles}")
        earlier = f.op(f"sub i64 {number}, {f.op(f'mul i64 {which}, {tiles}')}")
        start = f.op(f"mul i64 {earlier}, {TileShape.of(code).size}")
        origin = f.op(f"mul i64 {which}, {run}")
        end = least(f, run, f.op(f"sub i64 {n}, {origin}"))
        first = f.op(f"add i64 {origin}, {start}")
        scan = TileScan(f, op, code, inclusive=self.inclusive)
        tile = MemoryTile.of(f, code, f.op(f"sub i64 {end}, {start}"), aligned)
        scan.of(tile, address(f, code, source, first))
        # Elements beyond the end of a run count in the total of its last tile, which nobody reads.
        before = before_tile(f, op, scan.acc, words, number, earlier, scan.total.x)
        scan.store(address(f, code, result, first), before)


class ChainedScan(NamedTuple):
    """Scans with several tiles to a block, one after the other.

    Parameters: the elements; the results; their number; elements of a run; elements of a piece,
    whole tiles; pieces of a run; whether runs are aligned; the totals of pieces, unless a run has
    only one. The last run may be shorter than the others, and have fewer pieces.
    """

    op: str
    code: str
    inclusive: bool

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        code, size = self.code, TileShape.of(self.code).size
        source, result = f.buffer("source", read_only=True), f.buffer("result")
        n, run, chunk, pieces, aligned = (
            f.size(name) for name in ("n", "run", "chunk", "pieces", "aligned")
        )
        totals = f.buffer("totals", read_only=True)
        number = f.block_number()
        which = f.op(f"udiv i64 {number}, {pieces}")
        piece = f.op(f"sub i64 {number}, {f.op(f'mul i64 {which}, {pieces}')}")
        scan = TileScan(f, self.op, code, inclusive=self.inclusive)
        start = f.op(f"mul i64 {piece}, {chunk}")
        origin = f.op(f"mul i64 {which}, {run}")
        end = least(f, f.op(f"add i64 {start}, {chunk}"), run)
        end = least(f, end, f.op(f"sub i64 {n}, {origin}"))
        carried = self._before(f, scan, totals, number, piece)
        with loop(f, start, end, size, [(MEMORY[scan.acc], x) for x in carried]) as (at, sums):
            tile = MemoryTile.of(f, code, f.op(f"sub i64 {end}, {at}"), aligned)
            scan.of(tile, address(f, code, source, origin, at))
            scan.store(address(f, code, result, origin, at), sums[0])
            sums[:] = joined(scan, sums, scan.total.x)
            f.barrier()

    def _before(
        self, f: EntryFunction, scan: TileScan, totals: str, number: str, piece: str
    ) -> list[str]:
        """Returns the reduction of the pieces before this one."""
        op, acc = self.op, scan.acc
        earlier = Total.of(f, op, acc, 1)
        first = f.op(f"sub i64 {number}, {piece}")
        left = f.op(f"sub i64 {piece}, {f.thread()}")
        place = address(f, acc, totals, first, f.thread())
        x = earlier.horizontal(earlier.over(place, left, THREADS, THREADS))
        x = of_block(f, op, acc, x, shared(f, "@earlier", THREADS // 32, acc))
        start = [scan.start] + [constant(acc, -0.0)] * is_long(op, acc)
        return joined(scan, start, x)


def joined(scan: TileScan, before: Sequence[str], x: str) -> list[str]:
    """Returns what comes before the next tile: a sum of floats with what rounding took from it."""
    f, kind = scan.f, MEMORY[scan.acc]
    if len(before) > 1:
        return [*add_long(f, kind, before, x)]
    return [combine(f, scan.op, scan.acc, x, before[0], kind)]
