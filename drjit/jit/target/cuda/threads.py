"""How the threads of a warp and of a block work together: reductions, and scans.

Shuffles combine the elements of a warp, and shared memory the results of the warps of a block. The
order is always the same, so sums of floats are as well. See M. Harris, "Optimizing parallel
reduction in CUDA" (2007), and D. Merrill, A. Grimshaw, "Parallel scan for stream architectures"
(2009).
"""

from typing import NamedTuple

from ..simd.values import Value
from .function import WARP
from .values import GpuCode, GpuPointer


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
