"""How the threads of a warp, of a block and of a launch work together: reductions, and scans.

Shuffles combine the elements of a warp, and shared memory the results of the warps of a block. The
last block reduces the results of all. The order depends on the number of blocks only, so sums of
floats do not change from launch to launch. See M. Harris, "Optimizing parallel reduction in CUDA"
(2007), the sample threadFenceReduction for the last block, and D. Merrill, A. Grimshaw, "Parallel
scan for stream architectures" (2009).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..simd.atomic import combine
from ..simd.compensated_sum import add_long, is_long
from ..simd.conversion import convert, to_memory
from ..simd.reduction import accumulator, neutral_number
from ..simd.values import Value
from .calls import statement
from .function import WARP
from .values import GpuCode, GpuPointer, in_register


def of_warp(c: GpuCode, op: str, x: Value, width: int = WARP) -> Value:
    """Returns the reduction of the elements of `width` neighbouring threads, in all of them."""
    while width > 1:
        width //= 2
        x = c.combine(op, c.shuffled("bfly", x, width), x)
    return x


def of_block(c: GpuCode, op: str, x: Value, room: GpuPointer) -> Value:
    """Returns the reduction of the elements of all threads of a block, in all of them. `room` is
    shared memory for an element per warp; a barrier must come before its next use."""
    warps = c.f.threads // WARP
    x = of_warp(c, op, x)
    for _ in c.when(c.lane == 0):
        (room + c.warp).store(x)
    c.f.barrier()
    return of_warp(c, op, (room + (c.lane & warps - 1)).load(), warps)


class ScanState(NamedTuple):
    """What a scan knows of some elements: their reduction and, if there are runs, whether one
    begins within. Then only the elements from there on are reduced."""

    x: Value
    begins: Value | None = None


class BlockScan(NamedTuple):
    """A scan over the threads of a block."""

    c: GpuCode
    op: str
    acc: str
    has_runs: bool = False

    @property
    def start(self) -> ScanState:
        """The state of no elements."""
        begins = self.c.flag(False) if self.has_runs else None
        return ScanState(self.c.neutral(self.op, self.acc), begins)

    def join(self, before: ScanState, after: ScanState) -> ScanState:
        """Returns the state of some elements and those that follow them."""
        x = self.c.combine(self.op, after.x, before.x)
        if before.begins is None or after.begins is None:
            return ScanState(x)
        return ScanState(self.c.select(after.begins, after.x, x), before.begins | after.begins)

    def shuffled(self, how: str, state: ScanState, by: object) -> ScanState:
        """Returns the state of another thread of the warp."""
        c, begins = self.c, state.begins
        x = c.shuffled(how, state.x, by)
        if begins is None:
            return ScanState(x)
        return ScanState(x, c.shuffled(how, begins.cast("u32"), by).cast("mask"))

    def select(self, condition: Value, yes: ScanState, no: ScanState) -> ScanState:
        """Returns one of two states."""
        parts = [
            self.c.select(condition, a, b) for a, b in zip(yes, no, strict=True) if a is not None
        ]
        return ScanState(*parts)

    def of_warp(self, state: ScanState) -> tuple[ScanState, ScanState]:
        """Returns the state of the threads of the warp before this one, and of all of them."""
        lane, by = self.c.lane, 1
        while by < WARP:
            joined = self.join(self.shuffled("up", state, by), state)
            state = self.select(lane >= by, joined, state)
            by *= 2
        before = self.shuffled("up", state, 1)
        return self.select(lane == 0, self.start, before), self.shuffled("idx", state, WARP - 1)

    def of_block(self, name: str, state: ScanState) -> tuple[ScanState, ScanState]:
        """Returns the state of the warps before that of the thread, and of the block, given the
        same state of the warp in all its threads. Uses shared memory of a name; a barrier must come
        before its next use."""
        c, warps, number = self.c, self.c.f.threads // WARP, self.c.warp
        room = c.shared(name, self.acc, warps)
        flags = c.shared(f"{name}.begins", "u8", warps) if self.has_runs else None
        for _ in c.when(c.lane == 0):
            (room + number).store(state.x)
            if flags is not None and state.begins is not None:
                (flags + number).store(state.begins.cast("u8"))
        c.f.barrier()
        before = total = self.start
        for k in range(warps):
            begins = None if flags is None else (flags + k).load().cast("mask")
            here = ScanState((room + k).load(), begins)
            # Before the first of them, there is nothing to combine with.
            total = self.join(total, here) if k else here
            if k + 1 < warps:
                before = self.select(number > k, total, before)
        return before, total


# ---- of a launch


@statement("type reduction parameter parameter lane_range operand")
def reduce(t: Any, code: str, op: str, a: int, k: int, x: str) -> None:
    """`reduce(T, 'add', p[a], p[k], i, x)`. Sums of floats keep what rounding takes from them."""
    f, acc = t.f, accumulator(code)
    kind, start = f.vector[acc], f.constant(acc, neutral_number(op, acc))
    value = convert(f, acc, code, x)
    if f.warps or f.lanes > 1:
        value = f.select(acc, t.active(), value, start)
    carried = t.carry(kind, start)
    if is_long(op, acc):
        lost = t.carry(kind, f.constant(acc, -0.0))
        carried.end, lost.end = add_long(f, kind, (carried.name, lost.name), value)
    else:
        carried.end = combine(f, op, acc, value, carried.name)
    t.reductions.append((op, code, a, k, carried.name))


def store_totals(t: Any) -> None:
    """After the lanes of a thread: stores the totals of the block, and the last block those of the
    launch."""
    if not t.reductions:
        return
    c: GpuCode = t.c
    f, warps, counter = t.f, t.f.threads // WARP, "ptr addrspace(1) %counter"
    for number, (op, code, a, _, total) in enumerate(t.reductions):
        acc = accumulator(code)
        x = _over_lanes(c, op, Value(f, in_register(acc), f.lanes, to_memory(f, acc, total)))
        x = of_block(c, op, x, c.shared(f"totals.{number}", acc, warps))
        for _ in c.when(c.is_first):
            (GpuPointer(f, acc, f.pointer(a)) + c.block()).store(x)
    flag = c.shared("last", "u32", 1)
    # The thread that has stored the totals tells it by the counter, and sees by it what others have
    # stored. Its fences make a release pattern and an acquire pattern of the atomic operation (PTX
    # ISA, memory consistency model), and the barrier orders the other threads after both.
    for _ in c.when(c.is_first):
        f.fence()
        before = Value(f, "u32", 0, f.op(f"atomicrmw add {counter}, i32 1 monotonic"))
        f.fence()
        flag.store((before == c.special("nctaid.x") - 1).cast("u32"))
    f.barrier()
    for _ in c.when(flag.load() != 0):
        _last_block(c, t.reductions)
        for _ in c.when(c.is_first):
            f.do(f"store i32 0, {counter}")


def _over_lanes(c: GpuCode, op: str, packet: Value) -> Value:
    """Returns the reduction of the elements of a packet."""
    first, *others = packet.elements()
    for x in others:
        first = c.combine(op, first, x)
    return first


def _last_block(c: GpuCode, reductions: Sequence[tuple]) -> None:
    for number, (op, code, a, k, _) in enumerate(reductions):
        acc = accumulator(code)
        x = _over_blocks(c, op, GpuPointer(c.f, acc, c.f.pointer(a)))
        x = of_block(c, op, x, c.shared(f"all.{number}", acc, c.f.threads // WARP))
        for _ in c.when(c.is_first):
            GpuPointer(c.f, code, c.f.pointer(k)).store(x.cast(in_register(code)))


def _over_blocks(c: GpuCode, op: str, base: GpuPointer) -> Value:
    """Returns the reduction of the totals of the blocks that a thread takes: those with its number
    plus a multiple of the number of threads."""
    total = [c.neutral(op, base.code)]
    for j in c.range("%thread", "%blocks", c.f.threads, total):
        total[0] = c.combine(op, (base + j).load(volatile=True), total[0])
    return total[0]
