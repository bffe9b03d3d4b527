"""A stable radix sort, from the lowest digit of 8 bits up. The digits of all passes are counted at
once; then each pass is a single one over memory, in which tiles look back for the number of equal
digits before them. A. Adinets, D. Merrill, "Onesweep: a faster least significant digit radix sort
for GPUs" (2022).

A warp finds which of its lanes have equal digits by votes on their bits (S. Ashkiani et al., "GPU
multisplit", 2016).
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...simd.ir import BITS, BYTES, MEMORY, constant
from ...simd.loops import address, choose, during, least, loop, when
from ..form import THREADS
from ..function import WARP, assembly, shared
from ..threads import (
    BlockScan,
    ScanState,
    is_first,
    lane_of_warp,
    load_shared,
    of_block,
    shared_address,
    store_shared,
    warp_of_block,
)
from .entry import EntryFunction
from .lookback import next_tile, tell, told
from .tiles import MemoryTile, TileShape

DIGIT = 8
"""Bits of a digit."""
BINS = 1 << DIGIT
STATUS = 2
"""How many states of a word of a tile each pass adds."""

# The lanes whose bit of a digit is the same. LLVM would make twice as many instructions of it.
_SAME_BIT = (
    "{{ .reg .pred p; and.b32 $0, $1, {bit}; setp.ne.b32 p, $0, 0; "
    "vote.sync.ballot.b32 $0, p, -1; @!p not.b32 $0, $0; }}"
)
_WARPS = THREADS // WARP
assert BINS == THREADS  # a thread for each digit


def tile_size(code: str) -> int:
    """Returns the number of keys that a block sorts at a time."""
    return THREADS * _items(code)


def _items(code: str) -> int:
    return 12 if BYTES[code] == 8 else 24


def _digit(f: EntryFunction, code: str, key: str, shift: str) -> str:
    """Returns a digit of a key as `i32`; the shift has the type of the key."""
    kind = MEMORY[code]
    x = f.op(f"lshr {kind} {key}, {shift}")
    if BITS[code] != 32:
        x = f.op(f"{'trunc' if BITS[code] > 32 else 'zext'} {kind} {x} to i32")
    return f.op(f"and i32 {x}, {BINS - 1}")


def _shift(f: EntryFunction, code: str, shift: str) -> str:
    """Returns a shift (`i64`) in the type of the keys."""
    return shift if BITS[code] == 64 else f.op(f"trunc i64 {shift} to {MEMORY[code]}")


class CountDigits(NamedTuple):
    """Counts how often each digit occurs, in the passes of keys.

    Parameters: the keys, and their number; whether they are aligned; the counts, 32 bits each.
    """

    code: str
    passes: int

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        code, passes = self.code, self.passes
        source, n, aligned = f.buffer("source", read_only=True), f.size("n"), f.size("aligned")
        result = f.buffer("counts")
        counts = shared(f, "@counts", passes * BINS, "u32")
        thread = f.special("tid.x")
        for k in range(passes):
            at = shared_address(f, "u32", counts, f.op(f"add i32 {thread}, {BINS * k}"))
            f.do(f"store i32 0, ptr addrspace(3) {at}, align 4")
        f.barrier()
        size = TileShape.of(code).size
        blocks = f.once("%blocks", f"zext i32 {f.special('nctaid.x')} to i64")
        start = f.op(f"mul i64 {f.block_number()}, {size}")
        with loop(f, start, n, f.op(f"mul i64 {blocks}, {size}")) as (first, _):
            tile = MemoryTile.of(f, code, f.op(f"sub i64 {n}, {first}"), aligned)
            rows = tile.load(address(f, code, source, first))
            for place, x in zip(tile.places, rows, strict=True):
                for j, key in enumerate(tile.elements(x)):
                    inside = f.op(f"icmp ult i32 {f.op(f'add i32 {place}, {j}')}, {tile.count}")
                    with when(f, inside):
                        for k in range(passes):
                            # Adding the constant 1, the hardware joins lanes with equal digits.
                            digit = _digit(f, code, key, str(DIGIT * k))
                            at = f.op(f"add i32 {digit}, {BINS * k}")
                            at = shared_address(f, "u32", counts, at)
                            f.op(f"atomicrmw add ptr addrspace(3) {at}, i32 1 monotonic")
        f.barrier()
        for k in range(passes):
            at = f.op(f"add i32 {thread}, {BINS * k}")
            x = load_shared(f, "u32", counts, at)
            with when(f, f.op(f"icmp ne i32 {x}, 0")):
                place = address(f, "u32", result, f.op(f"zext i32 {at} to i64"))
                f.op(f"atomicrmw add ptr {place}, i32 {x} monotonic")


class PlanPasses(NamedTuple):
    """Turns the counts of each pass into the positions where digits begin, and plans the passes:
    one in which all keys have the same digit is skipped, unless it is the last and all others are.
    The last of the others writes to the first buffer.

    Parameters: the counts, and the number of keys; the positions, 32 bits each; a word for each
    pass, which is 0 if it is skipped, and otherwise has its source and, from bit 2 on, its target:
    1 and 2 are the two buffers, 3 is the memory of the unsorted keys.
    """

    passes: int

    def emit(self, f: EntryFunction) -> None:
        """Writes the body: one block, with a thread for each digit."""
        counts, n = f.buffer("counts", read_only=True), f.size("n")
        starts, plan = f.buffer("starts"), f.buffer("plan")
        most = f.op(f"trunc i64 {n} to i32")
        scan, runs = BlockScan(f, "add", "u32"), []
        for k in range(self.passes):
            at = f.op(f"add i64 {f.thread()}, {BINS * k}")
            x = f.op(f"load i32, ptr {address(f, 'u32', counts, at)}, align 4")
            lanes, all_lanes = scan.of_warp(ScanState(x))
            warps, _ = scan.of_block(f"scan.{k}", all_lanes)
            first = scan.join(warps, lanes).x
            f.do(f"store i32 {first}, ptr {address(f, 'u32', starts, at)}, align 4")
            is_all = f.op(f"zext i1 {f.op(f'icmp eq i32 {x}, {most}')} to i32")
            room = shared(f, f"@all.{k}", _WARPS, "u32")
            runs.append(f.op(f"icmp eq i32 {of_block(f, 'or', 'u32', is_all, room)}, 0"))
        some = runs[0]
        for r in runs[1:]:
            some = f.op(f"or i1 {some}, {r}")
        runs[-1] = f.op(f"or i1 {runs[-1]}, {f.op(f'xor i1 {some}, true')}")
        with when(f, is_first(f)):
            # From the last pass back: the last one that runs writes to the first buffer.
            target, words = "1", []
            for r in reversed(runs):
                source = f.op(f"sub i64 3, {target}")
                words.append((r, source, target))
                target = f.op(f"select i1 {r}, i64 {source}, i64 {target}")
            before = "false"
            for k, (r, source, target) in enumerate(reversed(words)):
                source = f.op(f"select i1 {before}, i64 {source}, i64 3")
                w = f.op(f"or i64 {source}, {f.op(f'shl i64 {target}, 2')}")
                w = f.op(f"select i1 {r}, i64 {w}, i64 0")
                f.do(f"store i64 {w}, ptr {address(f, 'u64', plan, k)}, align 8")
                before = f.op(f"or i1 {before}, {r}")


class _TileSort:
    """The keys of a tile, in registers: each warp has a part of it, in rows of a key per lane.
    Those beyond the end come last."""

    def __init__(self, f: EntryFunction, code: str, count: str, *, has_payload: bool) -> None:
        self.f, self.code, self.count = f, code, count
        self.items, self.size = _items(code), tile_size(code)
        first = f.op(f"mul i32 {warp_of_block(f)}, {WARP * self.items}")
        first = f.op(f"add i32 {first}, {lane_of_warp(f)}")
        self.places = [f.op(f"add i32 {first}, {WARP * k}") for k in range(self.items)]
        # Keys, and later their payload, pass through the same memory.
        self.widest = "u32" if has_payload and BYTES[code] < 4 else code
        self.room = shared(f, "@exchange", self.size, self.widest)
        # How many keys with each digit the warps have; later, where these begin in the tile.
        self.counters = shared(f, "@counters", _WARPS * BINS, "u32")
        own = f.op(f"mul i32 {warp_of_block(f)}, {BINS}")
        self.own = shared_address(f, "u32", self.counters, own)

    def load(self, code: str, base: str, fill: str) -> list[str]:
        """Returns elements of the tile."""
        f, kind = self.f, MEMORY[code]

        def element(index: str) -> str:
            place = address(f, code, base, f.op(f"zext i32 {index} to i64"))
            return f.op(f"load {kind}, ptr {place}, align {BYTES[code]}")

        def clamped() -> list[str]:
            last, xs = f.op(f"sub i32 {self.count}, 1"), []
            for p in self.places:
                x = element(f.op(f"call i32 @llvm.umin.i32(i32 {p}, i32 {last})"))
                inside = f.op(f"icmp ult i32 {p}, {self.count}")
                xs.append(f.op(f"select i1 {inside}, {kind} {x}, {kind} {fill}"))
            return xs

        whole = f.op(f"icmp eq i32 {self.count}, {self.size}")
        kinds = [kind] * self.items
        return choose(f, whole, lambda: [element(p) for p in self.places], clamped, kinds)

    def store(
        self, code: str, xs: Sequence[str], base: str, places: Sequence[str], targets: Sequence[str]
    ) -> None:
        """Stores elements at targets (`i64`), unless their places are beyond the end."""
        f = self.f
        for x, at, k in zip(xs, places, targets, strict=True):
            with when(f, f.op(f"icmp ult i32 {at}, {self.count}")):
                place = address(f, code, base, k)
                f.do(f"store {MEMORY[code]} {x}, ptr {place}, align {BYTES[code]}")

    def ranked(self, keys: Sequence[str], shift: str) -> tuple[list[str], list[str]]:
        """Returns digits, and how many equal ones come before in the warp."""
        f, code = self.f, self.code
        for k in range(BINS // WARP):
            at = f.op(f"add i32 {lane_of_warp(f)}, {WARP * k}")
            store_shared(f, "u32", "0", self.own, at)
        f.do("call void @llvm.nvvm.bar.warp.sync(i32 -1)")
        digits = [_digit(f, code, key, shift) for key in keys]
        return digits, [self._rank(digit) for digit in digits]

    def _rank(self, digit: str) -> str:
        f, peers = self.f, "-1"
        for k in range(DIGIT):
            text = _SAME_BIT.format(bit=1 << k)
            same = assembly(f, text, "=r,r", [f"i32 {digit}"], "i32")
            peers = f.op(f"and i32 {peers}, {same}") if k else same
        earlier, later = (
            f.op(f"and i32 {peers}, {f.special(f'lanemask.{which}')}") for which in ("lt", "gt")
        )
        before = f.op(f"call i32 @llvm.ctpop.i32(i32 {earlier})")
        # The last of them counts them all.
        with when(f, f.op(f"icmp eq i32 {later}, 0"), [("i32", "0")]) as old:
            place = shared_address(f, "u32", self.own, digit)
            number = f.op(f"add i32 {before}, 1")
            old[0] = f.op(f"atomicrmw add ptr addrspace(3) {place}, i32 {number} monotonic")
        # A shuffle takes the lane modulo 32: 31 less the number of leading zeros.
        last = f.op(f"xor i32 {f.op(f'call i32 @llvm.ctlz.i32(i32 {peers}, i1 true)')}, -1")
        return f.op(f"add i32 {f.shuffled('idx', 'u32', old[0], last)}, {before}")

    def totals(self) -> tuple[list[str], str]:
        """Returns how often the digit of the thread occurs in the warps before each, and in the
        tile."""
        f = self.f
        f.barrier()
        thread, total, before = f.special("tid.x"), "0", []
        for k in range(_WARPS):
            at = f.op(f"add i32 {thread}, {BINS * k}")
            before.append(total)
            total = f.op(f"add i32 {total}, {load_shared(f, 'u32', self.counters, at)}")
        return before, total

    def start(self, before: Sequence[str], total: str) -> str:
        """Returns where the digit of the thread begins in the sorted tile, of which it tells the
        warps their parts."""
        f, thread = self.f, self.f.special("tid.x")
        scan = BlockScan(f, "add", "u32")
        lanes, all_lanes = scan.of_warp(ScanState(total))
        first = scan.join(scan.of_block("scan", all_lanes)[0], lanes).x
        for k, x in enumerate(before):
            at = f.op(f"add i32 {thread}, {BINS * k}")
            store_shared(f, "u32", f.op(f"add i32 {first}, {x}"), self.counters, at)
        return first

    def positions(self, digits: Sequence[str], ranks: Sequence[str]) -> list[str]:
        """Returns where the keys are in the sorted tile."""
        f = self.f
        found = []
        for digit, rank in zip(digits, ranks, strict=True):
            found.append(f.op(f"add i32 {load_shared(f, 'u32', self.own, digit)}, {rank}"))
        return found

    def exchanged(
        self, code: str, xs: Sequence[str], positions: Sequence[str], places: Sequence[str]
    ) -> list[str]:
        """Puts elements at their positions, and returns those at other places."""
        f = self.f
        for x, at in zip(xs, positions, strict=True):
            store_shared(f, code, x, self.room, at)
        f.barrier()
        return [load_shared(f, code, self.room, at) for at in places]


class SortTile(NamedTuple):
    """Sorts keys that fit in a tile, in one block.

    Parameters: the keys, their number, and their bits; the results; with a payload, this and its
    results.
    """

    code: str
    has_payload: bool

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        code = self.code
        source, n, bits = f.buffer("source", read_only=True), f.size("n"), f.size("bits")
        result = f.buffer("result")
        count = f.op(f"trunc i64 {n} to i32")
        tile = _TileSort(f, code, count, has_payload=self.has_payload)
        given = [(code, source, result, constant(code, -1))]
        if self.has_payload:
            given.append(("u32", f.buffer("payload", read_only=True), f.buffer("moved"), "0"))
        columns = [tile.load(c, base, fill) for c, base, _, fill in given]
        flat = [(MEMORY[c], x) for (c, *_), xs in zip(given, columns, strict=True) for x in xs]
        with loop(f, 0, bits, DIGIT, flat) as (at, values):
            columns = [values[k : k + tile.items] for k in range(0, len(values), tile.items)]
            digits, ranks = tile.ranked(columns[0], _shift(f, code, at))
            tile.start(*tile.totals())
            f.barrier()
            positions, moved = tile.positions(digits, ranks), []
            for (c, *_), xs in zip(given, columns, strict=True):
                moved += tile.exchanged(c, xs, positions, tile.places)
                f.barrier()
            values[:] = moved
        targets = [f.op(f"zext i32 {p} to i64") for p in tile.places]
        for number, (c, _, target, _) in enumerate(given):
            xs = values[number * tile.items : (number + 1) * tile.items]
            tile.store(c, xs, target, tile.places, targets)


class SortDigit(NamedTuple):
    """One pass of a sort.

    Parameters: the keys, and the two buffers; with a payload, the same of that; the number of keys;
    the first bit of the digit; the word of the plan; the positions where digits begin; the counter
    of tiles; a word of each tile for each digit, and what was added to their states before.
    """

    code: str
    has_payload: bool

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        code = self.code
        f.together = 2
        columns = [(code, [f.buffer(f"keys.{k}") for k in range(3)], constant(code, -1))]
        if self.has_payload:
            columns.append(("u32", [f.buffer(f"payload.{k}") for k in range(3)], "0"))
        n, shift = f.size("n"), f.size("shift")
        plan, starts, ticket = (f.buffer(name) for name in ("plan", "starts", "ticket"))
        words, states = f.buffer("words"), f.size("states")
        step = f.op(f"load i64, ptr {plan}, align 8")
        with when(f, f.op(f"icmp ne i64 {step}, 0")):
            given = [(c, *_buffers(f, step, places), fill) for c, places, fill in columns]
            number = next_tile(f, ticket)
            first = f.op(f"mul i64 {number}, {tile_size(code)}")
            count = least(f, f.op(f"sub i64 {n}, {first}"), tile_size(code))
            count = f.op(f"trunc i64 {count} to i32")
            tile = _TileSort(f, code, count, has_payload=self.has_payload)
            keys = tile.load(code, address(f, code, given[0][1], first), given[0][3])
            shift = _shift(f, code, shift)
            digits, ranks = tile.ranked(keys, shift)
            before, total = tile.totals()
            look = _LookBack(f, words, number, states)
            look.tell_own(total)
            start = tile.start(before, total)
            place = address(f, "u32", starts, f.thread())
            base = f.op(f"load i32, ptr {place}, align 4, !invariant.load !0")
            base = f.op(f"add i32 {base}, {look.before(total)}")
            # Where in the result, less where in the tile.
            bases = shared(f, "@bases", BINS, "u32")
            base = f.op(f"sub i32 {base}, {start}")
            store_shared(f, "u32", base, bases, f.special("tid.x"))
            f.barrier()
            positions = tile.positions(digits, ranks)
            thread = f.special("tid.x")
            sorted_ = [f.op(f"add i32 {thread}, {THREADS * k}") for k in range(tile.items)]
            keys = tile.exchanged(code, keys, positions, sorted_)
            targets = []
            for at, key in zip(sorted_, keys, strict=True):
                base = load_shared(f, "u32", bases, _digit(f, code, key, shift))
                targets.append(f.op(f"zext i32 {f.op(f'add i32 {base}, {at}')} to i64"))
            tile.store(code, keys, given[0][2], sorted_, targets)
            for c, source, target, fill in given[1:]:
                xs = tile.load(c, address(f, c, source, first), fill)
                f.barrier()
                xs = tile.exchanged(c, xs, positions, sorted_)
                tile.store(c, xs, target, sorted_, targets)


def _buffers(f: EntryFunction, step: str, places: Sequence[str]) -> list[str]:
    """Returns source and target of a pass, as planned."""
    keys, *buffers = places
    found = []
    for shift in (0, 2):
        which = f.op(f"and i64 {f.op(f'lshr i64 {step}, {shift}')}, 3")
        at = buffers[0]
        for k, other in ((2, buffers[1]), (3, keys)):
            at = f.op(f"select i1 {f.op(f'icmp eq i64 {which}, {k}')}, ptr {other}, ptr {at}")
        found.append(at)
    return found


class _LookBack:
    """How often the digit of a thread occurs in the tiles before. What a word tells is in its upper
    half: nothing in this pass, the number in the tile, or in all up to it."""

    def __init__(self, f: EntryFunction, words: str, tile: str, states: str) -> None:
        self.f, self.tile = f, tile
        at = f.op(f"add i64 {f.op(f'mul i64 {tile}, {BINS}')}, {f.thread()}")
        self.place = address(f, "u64", words, at)
        self.own, self.all = (f.op(f"shl i64 {f.op(f'add i64 {states}, {k}')}, 32") for k in (1, 2))
        self.is_start = f.op(f"icmp eq i64 {tile}, 0")

    def tell_own(self, total: str) -> None:
        """Tells the number in the tile."""
        f = self.f
        status = f.op(f"select i1 {self.is_start}, i64 {self.all}, i64 {self.own}")
        tell(f, self.place, f.op(f"or i64 {status}, {f.op(f'zext i32 {total} to i64')}"))

    def before(self, total: str) -> str:
        """Returns the number in the tiles before, and tells that of all up to this one."""
        f = self.f
        start = [("ptr", self.place), ("i32", "0"), ("i1", self.is_start)]
        with during(f, lambda v: f.op(f"xor i1 {v[2]}, true"), start) as state:
            place, found, _ = state
            earlier = address(f, "u64", place, -BINS)
            w = told(f, earlier)
            is_told = f.op(f"icmp uge i64 {w}, {self.own}")
            x = f.op(f"select i1 {is_told}, i32 {f.op(f'trunc i64 {w} to i32')}, i32 0")
            place = f.op(f"select i1 {is_told}, ptr {earlier}, ptr {place}")
            ends = f.op(f"icmp uge i64 {w}, {self.all}")
            state[:] = [place, f.op(f"add i32 {found}, {x}"), ends]
        found = state[1]
        with when(f, f.op(f"xor i1 {self.is_start}, true")):
            whole = f.op(f"zext i32 {f.op(f'add i32 {found}, {total}')} to i64")
            tell(f, self.place, f.op(f"or i64 {self.all}, {whole}"))
        return found
