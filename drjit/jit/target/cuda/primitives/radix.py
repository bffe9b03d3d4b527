"""A stable radix sort, from the lowest digit of 8 bits up. The digits of all passes are counted at
once; then each pass is a single one over memory, in which tiles look back for the number of equal
digits before them. A. Adinets, D. Merrill, "Onesweep: a faster least significant digit radix sort
for GPUs" (2022).

A warp finds which of its lanes have equal digits by words in shared memory, one for each digit, in
which each of them sets its bit.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...simd.ir import BYTES
from ...simd.values import Flag, Value, Word
from ..function import THREADS, WARP
from ..threads import BlockScan, ScanState, of_block
from ..values import GpuPointer
from .entry import EntryCode, MemoryTile, TileShape
from .lookback import next_tile, tell, told

DIGIT = 8
"""Bits of a digit."""
BINS = 1 << DIGIT
STATUS = 2
"""How many states of a word of a tile each pass adds."""
_WARPS = THREADS // WARP

assert BINS == THREADS  # a thread for each digit


def tile_size(code: str) -> int:
    """Returns the number of keys that a block sorts at a time."""
    return THREADS * _items(code)


def _items(code: str) -> int:
    return 12 if BYTES[code] == 8 else 24


def _digit(key: Value, shift: Any) -> Value:
    """Returns a digit of a key; the shift has the type of the key."""
    return (key >> shift).cast("u32") & BINS - 1


class CountDigits(NamedTuple):
    """Counts how often each digit occurs, in the passes of keys.

    Parameters: the keys, and their number; whether they are aligned; the counts, 32 bits each.
    """

    code: str
    passes: int

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        code, passes = self.code, self.passes
        source, (n, aligned) = c.buffer("source", code, read_only=True), c.sizes("n", "aligned")
        result, counts = c.buffer("counts", "u32"), c.shared("counts", "u32", passes * BINS)
        places = [c.tid + BINS * k for k in range(passes)]
        for at in places:
            (counts + at).store(c.number("u32", 0))
        c.f.barrier()
        size, blocks = TileShape.of(code).size, c.special("nctaid.x").cast("i64")
        for first in c.range(c.block() * size, n, blocks * size):
            tile = MemoryTile(c, code, n - first, aligned)
            for place, x in zip(tile.places, tile.load(source + first), strict=True):
                for j, key in enumerate(x.elements()):
                    for _ in c.when(place + j < tile.count):
                        for k in range(passes):
                            # Adding the constant 1, the hardware joins lanes with equal digits.
                            at = _digit(key, DIGIT * k) + BINS * k
                            (counts + at).add(c.number("u32", 1))
        c.f.barrier()
        for at in places:
            x = (counts + at).load()
            for _ in c.when(x != 0):
                (result + at).add(x)


class PlanPasses(NamedTuple):
    """Turns the counts of each pass into the positions where digits begin, and plans the passes:
    one in which all keys have the same digit is skipped, unless it is the last and all others are.
    The last of the others writes to the first buffer.

    Parameters: the counts, and the number of keys; the positions, 32 bits each; a word for each
    pass, which is 0 if it is skipped, and otherwise has its source and, from bit 2 on, its target:
    1 and 2 are the two buffers, 3 is the memory of the unsorted keys.
    """

    passes: int

    def emit(self, c: EntryCode) -> None:
        """Writes the body: one block, with a thread for each digit."""
        counts, (n,) = c.buffer("counts", "u32", read_only=True), c.sizes("n")
        starts, plan = c.buffer("starts", "u32"), c.buffer("plan", "u64")
        scan, runs = BlockScan(c, "add", "u32"), []
        for k in range(self.passes):
            at = c.tid + BINS * k
            x = (counts + at).load()
            lanes, all_lanes = scan.of_warp(ScanState(x))
            warps, _ = scan.of_block(f"scan.{k}", all_lanes)
            (starts + at).store(scan.join(warps, lanes).x)
            is_all = (x == n.cast("u32")).cast("u32")
            runs.append(of_block(c, "or", is_all, c.shared(f"all.{k}", "u32", _WARPS)) == 0)
        some = runs[0]
        for r in runs[1:]:
            some = some | r
        runs[-1] = runs[-1] | ~some
        for _ in c.when(c.is_first):
            # From the last pass back: the last one that runs writes to the first buffer.
            target, words = c.word(1), []
            for r in reversed(runs):
                source = c.word(3) - target
                words.append((r, source, target))
                target = c.select(r, source, target)
            before = c.flag(False)
            for k, (r, source, target) in enumerate(reversed(words)):
                source = c.select(before, source, 3)
                (plan + k).store(c.select(r, source | target << 2, 0))
                before = before | r


class _TileSort:
    """The keys of a tile, in registers: each warp has a part of it, in rows of a key per lane.
    Those beyond the end come last."""

    def __init__(self, c: EntryCode, code: str, count: Value, *, has_payload: bool) -> None:
        self.c, self.count = c, count
        self.items, self.size = _items(code), tile_size(code)
        first = c.warp * (WARP * self.items) + c.lane
        self.places = [first + WARP * k for k in range(self.items)]
        # Keys, and later their payload, pass through the same memory.
        widest = "u32" if has_payload and BYTES[code] < 4 else code
        self.room = c.shared("exchange", widest, self.size)
        # How many keys with each digit the warps have; later, where these begin in the tile.
        self.counters = c.shared("counters", "u32", _WARPS * BINS)
        self.own = self.counters + c.warp * BINS
        # The lanes of each warp that have a digit.
        self.lanes = c.shared("lanes", "u32", _WARPS * BINS) + c.warp * BINS

    def load(self, base: GpuPointer, fill: int) -> list[Value]:
        """Returns elements of the tile."""
        c = self.c

        def clamped() -> list[Value]:
            last, xs = self.count - 1, []
            for p in self.places:
                x = (base + c.least(p, last)).load()
                xs.append(c.select(p < self.count, x, fill))
            return xs

        return c.choose(
            self.count == self.size, lambda: [(base + p).load() for p in self.places], clamped
        )

    def store(
        self, xs: Sequence[Value], base: GpuPointer, places: Sequence[Value],
        targets: Sequence[Value],
    ) -> None:  # fmt: skip
        """Stores elements at targets, unless their places are beyond the end."""
        for x, at, k in zip(xs, places, targets, strict=True):
            for _ in self.c.when(at < self.count):
                (base + k).store(x)

    def ranked(self, keys: Sequence[Value], shift: Value) -> tuple[list[Value], list[Value]]:
        """Returns digits, and how many equal ones come before in the warp."""
        c = self.c
        for k in range(BINS // WARP):
            for words in (self.own, self.lanes):
                (words + (c.lane + WARP * k)).store(c.number("u32", 0))
        c.f.meet()
        digits = [_digit(key, shift.cast(key.code)) for key in keys]
        return digits, [self._rank(digit) for digit in digits]

    def _rank(self, digit: Value) -> Value:
        c, lanes = self.c, self.lanes + digit
        lanes.set_bits(c.special("lanemask.eq"))
        c.f.meet()
        peers = lanes.load()
        c.f.meet()
        earlier, later = peers & c.special("lanemask.lt"), peers & c.special("lanemask.gt")
        before, old = c.call("ctpop", earlier), [c.number("u32", 0)]
        # The last of them counts them all, and leaves no bits for the next key.
        for _ in c.when(later == 0, old):
            old[0] = (self.own + digit).add(before + 1)
            lanes.store(c.number("u32", 0))
        c.f.meet()
        # A shuffle takes the lane modulo 32: 31 less the number of leading zeros.
        last = ~c.call("ctlz", peers, "i1 true")
        return c.shuffled("idx", old[0], last) + before

    def totals(self) -> tuple[list[Value], Value]:
        """Returns how often the digit of the thread occurs in the warps before each, and in the
        tile."""
        c = self.c
        c.f.barrier()
        total, before = c.number("u32", 0), []
        for k in range(_WARPS):
            before.append(total)
            total = total + (self.counters + (c.tid + BINS * k)).load()
        return before, total

    def start(self, before: Sequence[Value], total: Value) -> Value:
        """Returns where the digit of the thread begins in the sorted tile, of which it tells the
        warps their parts."""
        c = self.c
        scan = BlockScan(c, "add", "u32")
        lanes, all_lanes = scan.of_warp(ScanState(total))
        first = scan.join(scan.of_block("scan", all_lanes)[0], lanes).x
        for k, x in enumerate(before):
            (self.counters + (c.tid + BINS * k)).store(first + x)
        return first

    def positions(self, digits: Sequence[Value], ranks: Sequence[Value]) -> list[Value]:
        """Returns where the keys are in the sorted tile."""
        return [(self.own + d).load() + rank for d, rank in zip(digits, ranks, strict=True)]

    def exchanged(
        self, xs: Sequence[Value], positions: Sequence[Value], places: Sequence[Value]
    ) -> list[Value]:
        """Puts elements at their positions, and returns those at other places."""
        room = self.room.of(xs[0].code)
        for x, at in zip(xs, positions, strict=True):
            (room + at).store(x)
        self.c.f.barrier()
        return [(room + at).load() for at in places]


class SortTile(NamedTuple):
    """Sorts keys that fit in a tile, in one block.

    Parameters: the keys, their number, and their bits; the results; with a payload, this and its
    results.
    """

    code: str
    has_payload: bool

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        source, (n, bits) = c.buffer("source", self.code, read_only=True), c.sizes("n", "bits")
        columns = [(source, c.buffer("result", self.code), -1)]
        if self.has_payload:
            columns.append(
                (c.buffer("payload", "u32", read_only=True), c.buffer("moved", "u32"), 0)
            )
        tile = _TileSort(c, self.code, n.cast("u32"), has_payload=self.has_payload)
        size = tile.items
        values = [x for base, _, fill in columns for x in tile.load(base, fill)]
        for at in c.range(0, bits, DIGIT, values):
            digits, ranks = tile.ranked(values[:size], at)
            tile.start(*tile.totals())
            c.f.barrier()
            positions, moved = tile.positions(digits, ranks), []
            for k in range(0, len(values), size):
                moved += tile.exchanged(values[k : k + size], positions, tile.places)
                c.f.barrier()
            values[:] = moved
        for k, (_, target, _) in enumerate(columns):
            tile.store(values[k * size : (k + 1) * size], target, tile.places, tile.places)


class SortDigit(NamedTuple):
    """One pass of a sort.

    Parameters: the keys, and the two buffers; with a payload, the same of that; the number of keys;
    the first bit of the digit; the word of the plan; the positions where digits begin; the counter
    of tiles; a word of each tile for each digit, and what was added to their states before.
    """

    code: str
    has_payload: bool

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        code, size = self.code, tile_size(self.code)
        c.together = 2
        columns = [([c.buffer(f"keys.{k}", code) for k in range(3)], -1)]
        if self.has_payload:
            columns.append(([c.buffer(f"payload.{k}", "u32") for k in range(3)], 0))
        n, shift = c.sizes("n", "shift")
        plan, starts = c.buffer("plan", "i64"), c.buffer("starts", "u32", read_only=True)
        ticket, words = (c.buffer(name, "u64") for name in ("ticket", "words"))
        (states,) = c.sizes("states")
        step = plan.load()
        for _ in c.when(step != 0):
            keys, *payload = [(*_buffers(c, step, p), fill) for p, fill in columns]
            number = next_tile(c, ticket)
            first = number * size
            count = c.least(n - first, size).cast("u32")
            tile = _TileSort(c, code, count, has_payload=self.has_payload)
            xs = tile.load(keys[0] + first, keys[2])
            digits, ranks = tile.ranked(xs, shift)
            before, total = tile.totals()
            look = _LookBack(c, words, number, states)
            look.tell_own(total)
            start = tile.start(before, total)
            base = (starts + c.tid).load() + look.before(total)
            # Where in the result, less where in the tile.
            bases = c.shared("bases", "u32", BINS)
            (bases + c.tid).store(base - start)
            c.f.barrier()
            positions = tile.positions(digits, ranks)
            places = [c.tid + THREADS * k for k in range(tile.items)]
            xs = tile.exchanged(xs, positions, places)
            targets = []
            for at, x in zip(places, xs, strict=True):
                base = (bases + _digit(x, shift.cast(code))).load()
                targets.append((base + at).cast("i64"))
            tile.store(xs, keys[1], places, targets)
            for source, target, fill in payload:
                xs = tile.load(source + first, fill)
                c.f.barrier()
                tile.store(tile.exchanged(xs, positions, places), target, places, targets)


def _buffers(
    c: EntryCode, step: Word, places: Sequence[GpuPointer]
) -> tuple[GpuPointer, GpuPointer]:
    """Returns source and target of a pass, as planned."""
    keys, first, second = places

    def chosen(which: Word) -> GpuPointer:
        return c.select(which == 3, keys, c.select(which == 2, second, first))

    return chosen(step & 3), chosen(step >> 2 & 3)


class _LookBack:
    """How often the digit of a thread occurs in the tiles before. What a word tells is in its upper
    half: nothing in this pass, the number in the tile, or in all up to it."""

    def __init__(self, c: EntryCode, words: GpuPointer, tile: Word, states: Word) -> None:
        self.c, self.place = c, words + (tile * BINS + c.thread())
        self.own, self.all = ((states + k).cast("u64") << 32 for k in (1, 2))
        self.is_start: Flag = tile == 0

    def tell_own(self, total: Value) -> None:
        """Tells the number in the tile."""
        status = self.c.select(self.is_start, self.all, self.own)
        tell(self.place, status | total.cast("u64"))

    def before(self, total: Value) -> Value:
        """Returns the number in the tiles before, and tells that of all up to this one."""
        c = self.c
        state: list[Any] = [self.place, c.number("u32", 0), self.is_start]
        for _ in c.during(lambda v: ~v[2], state):
            place, found, _ = state
            earlier = place + -BINS
            w = told(earlier)
            is_told = w >= self.own
            x = c.select(is_told, w.cast("u32"), 0)
            state[:] = [c.select(is_told, earlier, place), found + x, w >= self.all]
        for _ in c.when(~self.is_start):
            tell(self.place, self.all | (state[1] + total).cast("u64"))
        return state[1]
