"""Kernels: the text, how often and where it ran, and the choice of the tier for the next launch.

A new, small kernel first runs on NumPy, if that has been imported, or else lane by lane as Python,
if there are very few. Once the time spent there would have paid for compiling, or if there is much
work, the text is compiled (or loaded from the disk cache) and runs on all threads from then on. A
kernel that recurs, in this process or, as it is cached, in later ones, is compiled earlier.
`compiled` has how that happens.
"""

import ctypes
import math
import os
import struct
import sys
from collections.abc import Sequence
from typing import Any

from .. import flags, log
from ..device import ErrorWords, size_class, whole_blocks
from ..flags import JitFlag
from ..ir import dtype as dt
from ..ir import op
from ..run import cache, history
from ..run.launch import ErrorRecord, checked, is_settled, layout_of, link, refer
from ..text.program import Output, Program, Work
from . import background, compiled, interpreted, memory, runtime
from .compiled import INLINE_WORK, SLOW, CompiledKernel
from .launcher import Times
from .memory import Buffer

TIERS = ("auto", "python", "numpy", "compiled")
INTERPRETED = frozenset({"python", "numpy"})
"""Those that compile nothing: on single numbers where that is possible, otherwise on NumPy."""
tier: str = os.environ.get("DRJIT_TIER", "auto")
if tier not in TIERS:
    raise ValueError(f"DRJIT_TIER={tier!r}: expected one of {', '.join(TIERS)}")

# Estimates in seconds that determine the tier. On NumPy, a fused multiply-add takes as long as
# NUMPY_FUSED other operations.
NUMPY_LAUNCH = 50e-6
NUMPY_STATEMENT = 1.5e-6
NUMPY_LANE = 0.8e-9
NUMPY_FUSED = 20
# On single numbers: a launch, and each operation on a lane.
PLAIN_LAUNCH = 30e-6
PLAIN_LANE = 2e-6
COMPILE_BASE = 12e-3
COMPILE_STATEMENT = 80e-6
LOAD = 0.2e-3  # a kernel from the disk cache
FIRST_LOAD = 3e-3
SOON = 0.6e-3  # of single numbers, after which kernels from the disk cache are loaded
FIRST_USE = 60e-3
# Compiling in the background slows the program down by this fraction of the time.
BACKGROUND = 1 / 16
FIRST_IN_BACKGROUND = 1 / 4  # and loading LLVM, during which Python often waits, by this one

# As long as NumPy has not been imported, small kernels are compiled as well, up to so many seconds:
# a later process, which finds them in the cache, then needs no NumPy.
INSTEAD_OF_NUMPY = 3.0

# Up to this many lane-operations per statement, a launch can do with a form that is there sooner
# than the best. From as many as the second figure on, the best form pays after ten or twenty
# processes: it is compiled by one that finds another form on the disk.
QUICK_WORK, LONG_WORK = 2_000_000, 1_000_000
BLOCK_WORK = 60_000
BLOCKS_PER_THREAD = 16
_OFTEN = 16  # launches after which a kernel is asked whether a better form would pay
# Private copies for sums over lanes have at most so many bytes in one launch; if threads would need
# more, there are fewer blocks, each with a copy. See also `access.EXPAND_BYTES`.
COPIES_BYTES = 1 << 28

# Plain numbers: testing for an enumeration member takes ten times as long.
_DEBUG, _HISTORY = int(JitFlag.Debug), int(JitFlag.KernelHistory)
_BLOCKING = int(JitFlag.LaunchBlocking)

_kernels: dict[Any, "CpuKernel"] = {}
_reports: list[ErrorWords] = []  # of launches that have ended without an error
_plain = 0.0  # estimated seconds that they have run on single numbers


class CpuKernel(CompiledKernel):
    """A kernel with its parameter block, and what its launches on NumPy took."""

    __slots__ = (
        "functions", "handled", "measured", "numpy_calls", "numpy_cost", "outputs", "own", "pack",
        "passed", "records", "room", "size", "spent", "time",
    )  # fmt: skip

    def __init__(
        self,
        text: str,
        layout: str,
        cost: int,
        program: Program | None = None,
        work: Work | None = None,
    ) -> None:
        self.records: list[Any] = []  # where native code counts launches, see `programs`
        super().__init__(cost, memory.Buffer.device, text, program, work)
        outputs = program.outputs if program is not None else ()
        self.outputs = tuple([(_output_kind(o), o.dtype.itemsize * o.dtype.count) for o in outputs])
        # The buffers of a launch in one block, where reductions pass a value on, and which of them
        # the outputs are (None for an effect), or None if that are all, one after the other. Their
        # bytes in the last launch, with its number of lanes.
        self.own = [
            row
            for o in self.outputs
            if o[0] != "effect"
            for row in ([("passed on", 8), o] if o[0] == "reduce" else [o])
        ]
        places = iter([k for k, (kind, _) in enumerate(self.own) if kind != "passed on"])
        passed = [None if kind == "effect" else next(places) for kind, _ in self.outputs]
        self.passed = passed if passed != [*range(len(self.own))] else None
        self.size, self.room = 0, []
        # On NumPy: the cost per lane, and of the calls.
        self.numpy_cost = cost + (NUMPY_FUSED * work.fused if work else 0)
        self.numpy_calls = work.calls + NUMPY_FUSED * work.fused_calls if work else cost
        self.pack = struct.Struct("<" + layout).pack
        self.functions: dict[str, Any] = {}  # what Python runs, by tier
        self.handled: bool | None = None  # whether it can run on single numbers
        self.spent = 0.0  # estimated seconds on NumPy, against which compiling is weighed
        self.time = 0.0  # seconds of launches on NumPy, and their number
        self.measured = 0

    @property
    def tier(self) -> str:
        return "compiled" if self.address else "python" if self.state == "python" else "numpy"

    @property
    def launches(self) -> int:
        return self.counted + sum([r.launches for r in self.records])

    @property
    def mean_time(self) -> float:
        launches = self.measured + self.clock.launches
        return (self.time + self.clock.total * 1e-9) / launches if launches else 0.0

    @property
    def can_be_interrupted(self) -> bool:
        return not self.address or tier in INTERPRETED

    def launch(
        self, size: int, inputs: list, literals: list, checks: Sequence, targets: Sequence,
        record: Any,
    ) -> list[Buffer | None]:  # fmt: skip
        code = self.entry.kernel
        compiled = code and tier not in INTERPRETED and not flags.current & _DEBUG
        if not compiled:
            if not targets and self.prefers_numbers(size):
                found = self._on_numbers(size, inputs, literals, checks, record)
                if found is not None:
                    return found
            if self.prefers_numpy(size):
                return interpreted.run_on_numpy(
                    self, size, inputs, literals, checks, targets, record
                )
        work = size * self.cost
        if not code or self.provisional:
            compile_for(self, work)
        elif not self.few:
            self.note_few()
        inline = work < INLINE_WORK and not self.loops  # which Ctrl-C could not end
        block = block_for(work, size)
        copies = 0
        if nbytes := sum([_copy_bytes(e) for e in targets if e.mode == "expand"]):
            block, copies = _shared_out(size, block, nbytes)
        # No buffer needs to be kept beyond this function: memory freed then serves later jobs only,
        # and jobs run in order.
        temporary: list[Buffer] = []
        words: list[Any] = [record.address if record else 0]
        for n in inputs:
            words.append(n.data.address or n.data.copy_for_launch())
        for n in literals:
            words.append(n.data)
        for c in checks:
            words.append(c.data[0])
        for e in targets:
            words.append(e.buffer.origin)
            if e.mode == "expand":
                temporary.append(_accumulators(e, copies))
                words += [temporary[-1].address, e.size]
        outputs: list[Buffer | None] = []
        for kind, itemsize in self.outputs:
            if kind == "store":
                b = memory.allocate(itemsize * size)
            elif kind == "reduce":
                temporary.append(memory.allocate_for(dt.u64, -(-size // block)))
                words.append(temporary[-1].address)
                b = memory.allocate(itemsize)
            elif kind == "vectors":
                b = memory.allocate(itemsize * whole_blocks(size))
            else:
                outputs.append(None)
                continue
            outputs.append(b)
            words.append(b.address)
        launch(self, words, size, block, inline, record, copies)
        return outputs

    def begin(
        self, size: int, inputs: list, literals: list, checks: Sequence, targets: Sequence
    ) -> list[Any] | None:
        # Only those small enough: `few` is 0 for kernels with loops, which Ctrl-C must be able to
        # end, and for those that are not compiled yet.
        if size > self.few or flags.current & SLOW or runtime.unfinished or log.level >= 3:
            return None
        if tier in INTERPRETED:
            return None
        # To find out takes as long as half of a launch.
        if self.provisional and self.counted % _OFTEN == 0 and self.deserves_better():
            return None
        words: list[Any] = [0]
        for n in inputs:
            b = n.data
            if b.source is not None and not is_settled(b):
                return None
            words.append(b.address or b.copy_for_launch())
        for n in literals:
            words.append(n.data)
        for c in checks:
            words.append(c.data[0])
        for e in targets:
            b = e.buffer
            if b.source is not None and not is_settled(b):
                return None
            words.append(b._block.address)  # `origin`, in half the time
            if e.mode == "expand":  # a single thread needs no private copy
                if e.dtype.accumulator is not e.dtype:
                    return None
                words += (b.address, e.size)
        if size != self.size:
            self.size, self.room = size, [*map(size_class, self.room_for(size))]
        outputs: list[Any] = memory.allocate_all(self.room)
        for b in outputs:
            words.append(b.address)
        if checks:
            try:
                report = _reports.pop()
            except IndexError:
                report = self.device.error_words()
            words[0] = report.address
        if not runtime.start(self.entry_address, self.pack(*words), size):
            return None
        self.counted += 1
        if self.passed is not None:
            outputs = [None if k is None else outputs[k] for k in self.passed]
        if checks:
            if report.words[0]:
                self.fail(report, inputs, outputs, checks, targets)
            else:
                _reports.append(report)
        return outputs

    def fail(
        self,
        report: ErrorWords,
        inputs: Sequence,
        outputs: list,
        checks: Sequence,
        targets: Sequence,
    ) -> None:
        """Takes note that an index was out of bounds in a launch that is over."""
        failed = ErrorRecord(self.device, checked(checks), report)
        runtime.report(failed.check)
        link([n.data for n in inputs], outputs, [e.buffer for e in targets], failed)

    def room_for(self, size: int) -> list[int]:
        """Returns the bytes of each buffer of a launch in one block."""
        lanes = {"store": size, "vectors": whole_blocks(size)}
        return [itemsize * lanes.get(kind, 1) for kind, itemsize in self.own]

    def prefers_numbers(self, size: int) -> bool:
        """Returns whether to run on single numbers, which new processes do as long as that takes
        less time than to import NumPy or to load a compiled form; accumulates its cost."""
        global _plain
        if tier not in ("auto", "python") or flags.current & _DEBUG:
            return False
        if tier == "auto" and (self.address or "numpy" in sys.modules):
            return False
        once = PLAIN_LAUNCH + self.cost * size * PLAIN_LANE
        first = "drjit.jit.target.image" not in sys.modules and _plain + once < FIRST_LOAD
        if first and _plain + once >= SOON:
            first = not self.is_stored()
        if tier == "auto" and self.spent + once >= LOAD and not first:
            return False
        if self.handled is None:
            from ..target import python

            self.handled = python.handles(self.text)
        if self.handled:
            self.spent += once
            _plain += once
        return self.handled

    def _on_numbers(self, *launch: Any) -> list[Buffer | None] | None:
        """Runs on single numbers; returns nothing if a loop takes longer than to load a compiled
        form."""
        global _plain
        before, seconds = self.time, FIRST_LOAD if tier == "auto" else math.inf
        found = interpreted.run_on_numbers(self, seconds, *launch)
        if self.loops:  # which have an estimate of one iteration
            self.spent += self.time - before
            _plain += self.time - before
        return found

    def prefers_numpy(self, size: int) -> bool:
        """Returns whether the NumPy tier is better for the next launch; accumulates its cost."""
        if tier == "compiled":
            return False
        if tier in INTERPRETED or flags.current & _DEBUG:
            return True
        if self.address or self.loops:  # the duration of a loop is unknown
            return False
        if "numpy" not in sys.modules and self._spares_numpy():
            return False
        once = self.numpy_calls * NUMPY_STATEMENT + self.numpy_cost * size * NUMPY_LANE
        # The estimate, or the measured time of launches.
        self.spent = max(self.spent + NUMPY_LAUNCH + once, self.time)
        if self.spent < LOAD:
            return True
        if self.is_stored():
            return False
        # Later processes find what this one compiles, even a kernel that is launched once.
        lasting = cache.is_writable()
        buy = COMPILE_BASE + COMPILE_STATEMENT * self.statements
        early = buy * BACKGROUND
        if "llvmlite" not in sys.modules:
            buy += FIRST_USE
            early += 0.0 if lasting else FIRST_USE * FIRST_IN_BACKGROUND
        if self.spent >= buy:
            return False
        if (coming := self.coming) is not None:
            return not coming.done()
        if self.spent >= early and (lasting or self.launches > 1):
            self.submit_best()
        return True

    def _spares_numpy(self) -> bool:
        """Returns whether to load the kernel, or to compile it for this and all later processes,
        because importing NumPy for it would take longer than most programs compile."""
        return self.is_stored() or (compiled.seconds < INSTEAD_OF_NUMPY and cache.is_writable())


def for_program(text: str, program: Program, work: Work | None = None) -> CpuKernel:
    """Returns the kernel of a program and its text; `work` has to be given for a program without
    instructions. There is one per process, text, and way to launch it, because the text does not
    show parameters that nothing reads."""
    layout = layout_of(program)
    key = text, layout, *[(o.kind, o.dtype) for o in program.outputs]
    found = _kernels.get(key)
    if found is None:
        work = work or program.work
        found = _kernels[key] = CpuKernel(text, layout, work.cost, program, work)
    return found


def text_of(*statements: str) -> str:
    """Returns the text of a kernel of these statements."""
    return "\n    ".join(["def kernel(i, p):", *statements]) + "\n"


def for_text(text: str, words: int, cost: int) -> CpuKernel:
    """Returns the kernel of a text that is not made from a program; all its parameters are
    addresses or sizes.
    """
    found = _kernels.get(text)
    if found is None:
        found = _kernels[text] = CpuKernel(text, "Q" * words, cost)
    return found


def _output_kind(o: Output) -> str:
    return "vectors" if o.kind == "store" and o.dtype.is_vector else o.kind


def kernels() -> list[CpuKernel]:
    """Returns all kernels that this process has encountered."""
    return list(_kernels.values())


def forget() -> None:
    """Drops every kernel."""
    runtime.drain()
    background.finish()
    _kernels.clear()


def compile_for(kernel: CpuKernel, work: int) -> None:
    """Has a kernel compiled for a launch of so many lane-operations; see `compile`."""
    little = tier == "auto" and work <= QUICK_WORK * max(kernel.statements, 4)
    kernel.compile(little, work > LONG_WORK * kernel.statements)


def block_for(work: int, size: int) -> int:
    """Returns the lanes of a block: whole packets, and a single block if the calling thread does
    the work."""
    if work < INLINE_WORK:
        return -(-size // 64) * 64
    blocks = max(1, min(runtime.thread_count() * BLOCKS_PER_THREAD, work // BLOCK_WORK))
    return -(-size // (blocks * 64)) * 64


def launch(
    kernel: CpuKernel,
    words: list,
    size: int,
    block: int,
    inline: bool,
    record: Any = None,
    copies: int = 0,
) -> None:
    """Submits a compiled kernel with the words of its parameter block."""
    entry = kernel.entry
    times, clock = None, entry.times
    if flags.current & _HISTORY:
        times = Times()
        clock = ctypes.addressof(times)
    expected = kernel.clock.last or runtime.UNKNOWN_NS
    known = entry.kernel
    runtime.launch(
        0,
        0,
        kernel.pack(*words),
        size,
        block,
        inline,
        (kernel, record, times),
        record.check if record else None,
        clock,
        expected if known else runtime.COMING_NS,
        copies,
        entry,
    )
    if not known and kernel.coming is None and not entry.kernel:
        runtime.open_jobs(entry, 0, 0)  # meanwhile, it has turned out that it cannot be compiled
    if times is not None:
        history.add(kernel, size, "compiled", times)
    if log.level >= 3:
        log.log(
            log.LogLevel.Info,
            "kernel %s: launched, %d lanes, %s",
            kernel.name,
            size,
            "in this thread" if inline else f"blocks of {block}",
        )


def run_text(
    kernel: CpuKernel,
    size: int,
    arguments: list,
    block: int = 0,
    on_numpy: bool | None = None,
    cost: int = 0,
) -> None:
    """Launches a kernel made by `for_text`: an argument is a size, or a buffer with its element
    type and size.

    `block` prescribes the lanes of a block, `on_numpy` whether to run on NumPy: launches that pass
    on results of blocks must agree on both. `cost` overrides the kernel's cost if that depends on
    the arguments.
    """
    kernel.counted += 1
    if kernel.prefers_numpy(size) if on_numpy is None else on_numpy:
        p = [a if isinstance(a, int) else a[0].array(a[1].numpy, a[2]) for a in arguments]
        interpreted.interpret(kernel, [None, *p], size)
    else:
        work = size * (cost or kernel.cost)
        if not kernel.address or kernel.provisional:
            compile_for(kernel, work)
        given = [a if isinstance(a, int) else a[0] for a in arguments]
        words = [0, *[a if isinstance(a, int) else a.address or a.copy_for_launch() for a in given]]
        block = block or block_for(work, size)
        launch(kernel, words, size, block, work < INLINE_WORK)
    buffers = [a[0] for a in arguments if not isinstance(a, int)]
    refer(buffers, buffers)
    if flags.current & _BLOCKING:
        runtime.sync()


def _copy_bytes(effect: Any) -> int:
    return effect.size * effect.dtype.accumulator.itemsize


def _shared_out(size: int, block: int, nbytes: int) -> tuple[int, int]:
    """Returns the lanes of a block, and the number of private copies of `nbytes` bytes each."""
    threads = runtime.thread_count()
    most = max(COPIES_BYTES // nbytes, 1)
    if most < threads:
        block = max(block, -(-size // (most * 64)) * 64)
    return block, max(min(threads, -(-size // block)), 1)


def _accumulators(effect: Any, copies: int) -> Buffer:
    """Returns private copies of a scatter target, filled with a value that the reduction ignores.
    The first of them is the target itself if it has the accumulator's type.
    """
    dtype = effect.dtype.accumulator
    size = (copies - (dtype is effect.dtype)) * effect.size
    room = memory.allocate_for(dtype, size, host=True)
    room.fill(dtype, size, op.passed_over(effect.reduce, dtype))
    return room
