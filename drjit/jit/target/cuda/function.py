"""LLVM IR for one thread of a GPU: functions with packets of one or a few lanes, how threads of a
warp and of a block work together, and how compiled kernels are launched.

A kernel may be one of *whole warps*: its threads stay together, also those beyond the last lane,
because instructions of the warp need all of them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..simd.ir import Function, Machine, types

GPU = Machine(register_bytes=8, has_gathers=False)

WARP = 32
_SREG = "@llvm.nvvm.read.ptx.sreg."

DYNAMIC = "@dynamic"
"""The address of the dynamic shared memory of a block."""

THREADS = 256
"""Threads in a block."""
PRIVATE_BYTES = 1 << 14
"""Bytes of the shared memory of a block for a target of scatter-reductions."""
EACH = 8
"""Blocks for each multiprocessor in a launch in which threads stride over the lanes."""


class Compiled(NamedTuple):
    """A compiled kernel: its code (PTX), the name of its entry, and how it is launched.

    The entry takes the parameter block by value, or its address if it is not `by_value`; then the
    number of lanes as 64 bits, and the address of a 32-bit counter, which is zero before and
    afterwards. A thread takes a packet of `lanes` neighbouring lanes; with several, it also
    accesses those beyond the last one, up to the end of the packet. Each block has `threads`
    threads. If the kernel `strides`, any number of blocks does all lanes, best `each` on every
    multiprocessor; otherwise there is a thread for each packet. `finish` is the name of an entry
    with the same parameters to launch afterwards, by any number of blocks, or empty. `shared` is
    the size in bytes of the dynamic shared memory.
    """

    code: str
    entry: str
    by_value: bool
    strides: bool
    finish: str
    threads: int = THREADS
    shared: int = 0
    each: int = EACH
    lanes: int = 1


class GpuFunction(Function):
    """A function of one thread, which has one lane, or a packet of neighbouring ones."""

    scope = ' syncscope("device")'

    def __init__(
        self, first_number: int = 0, *, lanes: int = 1, warps: bool = False, threads: int = THREADS
    ):
        super().__init__(GPU, lanes, first_number)
        self.warps = warps  # whether it runs in whole warps
        self.threads = threads  # of a block
        self.computed: dict[Any, Any] = {}  # what `GpuCode.once` has computed, by its key

    def pointer(self, index: int) -> str:
        """Returns the address stored in a word of the parameter block: one of global memory."""
        name = f"%p{index}"
        self.once(f"{name}.g", f"inttoptr i64 {self.word(index)} to ptr addrspace(1)")
        return self.once(name, f"addrspacecast ptr addrspace(1) {name}.g to ptr")

    def pointer_here(self, index: object) -> str:
        """The same, loaded at its use."""
        place = self.op(f"inttoptr i64 {self.word_here(index)} to ptr addrspace(1)")
        return self.op(f"addrspacecast ptr addrspace(1) {place} to ptr")

    def any(self, mask: str) -> str:
        """Returns whether a mask is true in any lane of the thread, or of a whole warp."""
        bit = self.in_thread(mask)
        return self.vote("any", bit) if self.warps else bit

    def in_thread(self, mask: str) -> str:
        """Returns whether a mask is true in any lane of the thread."""
        kind, bit = self.vector["mask"], ""
        for k in range(self.lanes):  # LLVM would make bits of one integer of them
            one = self.op(f"extractelement {kind} {mask}, i32 {k}")
            bit = self.op(f"select i1 {bit}, i1 true, i1 {one}") if bit else one
        return bit

    def scalar(self, code: str, x: str) -> str:
        """Returns the only element of a packet."""
        kind = self.vector[code].split(" x ")[1][:-1]
        return self.op(f"bitcast {self.vector[code]} {x} to {kind}")

    def packet(self, code: str, x: str) -> str:
        """Returns the packet with an element."""
        kind = self.vector[code].split(" x ")[1][:-1]
        return self.op(f"bitcast {kind} {x} to {self.vector[code]}")

    def position(self) -> str:
        """Returns the number of the lane to load for: in whole warps, that of the last one for
        threads beyond it."""
        if not self.warps:
            return "%i"
        last = self.op("sub i64 %end, 1")
        return self.op(f"call i64 @llvm.smin.i64(i64 %i, i64 {last})")

    @contextmanager
    def pairs(self) -> Iterator[None]:
        """Code for packets of two elements: neighbouring features of a vector."""
        before = self.types, self.lanes, self.vector
        self.types, self.lanes = types(2), 2
        self.vector = self.types.vector
        yield
        self.types, self.lanes, self.vector = before

    # ------------------------------------------------------------------ threads that work together

    def special(self, name: str) -> str:
        """Returns a special register as `i32`, read in the entry block."""
        return self.once(f"%{name}", f"call i32 {_SREG}{name}()")

    def vote(self, how: str, bit: str) -> str:
        """Returns whether `any` or `all` threads of the warp have a bit."""
        return self.op(f"call i1 @llvm.nvvm.vote.{how}.sync(i32 -1, i1 {bit})")

    def barrier(self) -> None:
        """Waits for all threads of the block."""
        self.do("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")

    def meet(self) -> None:
        """Waits for all threads of the warp; they see what the others wrote before."""
        self.do("call void @llvm.nvvm.bar.warp.sync(i32 -1)")

    def fence(self) -> None:
        """Orders what the thread did before an atomic operation, or does after it, with what other
        threads of the GPU do after or before one of theirs on the same word."""
        self.do(f"fence{self.scope} acq_rel")
