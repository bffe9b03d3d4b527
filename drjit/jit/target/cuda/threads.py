"""How the threads of a warp and of a block work together: shared memory, reductions, and scans.

Elements are in their memory representation. Shuffles combine those of a warp, and shared memory the
results of the warps of a block. The order is always the same, so sums of floats are as well. See
M. Harris, "Optimizing parallel reduction in CUDA" (2007), and D. Merrill, A. Grimshaw, "Parallel
scan for stream architectures" (2009).
"""

from typing import Any, NamedTuple

from ..simd.atomic import combine
from ..simd.ir import BYTES, MEMORY, constant
from ..simd.loops import when
from ..simd.reduction import identity
from .function import WARP, GpuFunction, shared


def neutral(op: str, code: str) -> str:
    """Returns the neutral element of a reduction as a scalar constant."""
    return constant("u8" if code == "mask" else code, identity(op, code))


def lane_of_warp(f: GpuFunction) -> str:
    """Returns the number of the thread in its warp."""
    return f.once("%lane", f"and i32 {f.special('tid.x')}, {WARP - 1}")


def warp_of_block(f: GpuFunction) -> str:
    """Returns the number of the thread's warp."""
    return f.once("%warp", f"lshr i32 {f.special('tid.x')}, 5")


def is_first(f: GpuFunction) -> str:
    """Returns whether the thread is the first of its block."""
    return f.once("%is.first", f"icmp eq i32 {f.special('tid.x')}, 0")


def shared_address(f: GpuFunction, code: str, base: str, index: object) -> str:
    """Returns the address of an element of shared memory, given its number as `i32`."""
    return f.op(f"getelementptr {MEMORY[code]}, ptr addrspace(3) {base}, i32 {index}")


def load_shared(f: GpuFunction, code: str, base: str, index: object) -> str:
    """Returns an element of shared memory."""
    place = shared_address(f, code, base, index)
    return f.op(f"load {MEMORY[code]}, ptr addrspace(3) {place}, align {BYTES[code]}")


def store_shared(f: GpuFunction, code: str, x: str, base: str, index: object) -> None:
    """Changes an element of shared memory."""
    place = shared_address(f, code, base, index)
    f.do(f"store {MEMORY[code]} {x}, ptr addrspace(3) {place}, align {BYTES[code]}")


def of_warp(f: GpuFunction, op: str, acc: str, x: str, width: int = WARP) -> str:
    """Returns the reduction of the elements of `width` neighbouring threads, in all of them."""
    while width > 1:
        width //= 2
        x = combine(f, op, acc, f.shuffled("bfly", acc, x, width), x, MEMORY[acc])
    return x


def of_block(f: GpuFunction, op: str, acc: str, x: str, room: str) -> str:
    """Returns the reduction of the elements of all threads of a block, in all of them. `room` is
    shared memory for an element per warp; a barrier must come before its next use."""
    warps = f.threads // WARP
    x = of_warp(f, op, acc, x)
    with when(f, f.once("%leads", f"icmp eq i32 {lane_of_warp(f)}, 0")):
        store_shared(f, acc, x, room, warp_of_block(f))
    f.barrier()
    at = f.once("%of.warps", f"and i32 {lane_of_warp(f)}, {warps - 1}")
    return of_warp(f, op, acc, load_shared(f, acc, room, at), warps)


class ScanState(NamedTuple):
    """What a scan knows of some elements: their reduction and, if there are runs, whether one
    begins within (`i1`). Then only the elements from there on are reduced."""

    x: str
    begins: str = ""


class BlockScan(NamedTuple):
    """A scan over the threads of a block."""

    f: Any  # an entry with shared memory
    op: str
    acc: str
    has_runs: bool = False

    @property
    def start(self) -> ScanState:
        """The state of no elements."""
        return ScanState(neutral(self.op, self.acc), "false" if self.has_runs else "")

    def join(self, before: ScanState, after: ScanState) -> ScanState:
        """Returns the state of some elements and those that follow them."""
        f, kind = self.f, MEMORY[self.acc]
        x = combine(f, self.op, self.acc, after.x, before.x, kind)
        if not self.has_runs:
            return ScanState(x)
        x = f.op(f"select i1 {after.begins}, {kind} {after.x}, {kind} {x}")
        return ScanState(x, f.op(f"or i1 {before.begins}, {after.begins}"))

    def shuffled(self, how: str, state: ScanState, by: object) -> ScanState:
        """Returns the state of another thread of the warp."""
        f = self.f
        x = f.shuffled(how, self.acc, state.x, by)
        if not self.has_runs:
            return ScanState(x)
        bit = f.shuffled(how, "u32", f.op(f"zext i1 {state.begins} to i32"), by)
        return ScanState(x, f.op(f"trunc i32 {bit} to i1"))

    def select(self, condition: str, yes: ScanState, no: ScanState) -> ScanState:
        """Returns one of two states."""
        f, kind = self.f, MEMORY[self.acc]
        x = f.op(f"select i1 {condition}, {kind} {yes.x}, {kind} {no.x}")
        if not self.has_runs:
            return ScanState(x)
        return ScanState(x, f.op(f"select i1 {condition}, i1 {yes.begins}, i1 {no.begins}"))

    def of_warp(self, state: ScanState) -> tuple[ScanState, ScanState]:
        """Returns the state of the threads of the warp before this one, and of all of them."""
        f, lane, by = self.f, lane_of_warp(self.f), 1
        while by < WARP:
            joined = self.join(self.shuffled("up", state, by), state)
            inside = f.once(f"%lane.from.{by}", f"icmp uge i32 {lane}, {by}")
            state = self.select(inside, joined, state)
            by *= 2
        before = self.shuffled("up", state, 1)
        leads = f.once("%leads", f"icmp eq i32 {lane}, 0")
        return self.select(leads, self.start, before), self.shuffled("idx", state, WARP - 1)

    def of_block(self, name: str, state: ScanState) -> tuple[ScanState, ScanState]:
        """Returns the state of the warps before that of the thread, and of the block, given the
        same state of the warp in all its threads. Uses shared memory of a name; a barrier must come
        before its next use."""
        f, acc, warps = self.f, self.acc, self.f.threads // WARP
        room = shared(f, f"@{name}", warps, acc)
        flags = shared(f, f"@{name}.begins", warps, "u8") if self.has_runs else ""
        number = warp_of_block(f)
        with when(f, f.once("%leads", f"icmp eq i32 {lane_of_warp(f)}, 0")):
            store_shared(f, acc, state.x, room, number)
            if flags:
                store_shared(f, "u8", f.op(f"zext i1 {state.begins} to i8"), flags, number)
        f.barrier()
        before = total = self.start
        for k in range(warps):
            here = ScanState(load_shared(f, acc, room, k))
            if flags:
                here = ScanState(here.x, f.op(f"trunc i8 {load_shared(f, 'u8', flags, k)} to i1"))
            # Before the first of them, there is nothing to combine with.
            total = self.join(total, here) if k else here
            if k + 1 < warps:
                later = f.once(f"%warp.from.{k + 1}", f"icmp ugt i32 {number}, {k}")
                before = self.select(later, total, before)
        return before, total
