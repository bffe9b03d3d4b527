"""Kernels of the processor: the text, the words of its parameter block, launches of the variant
that `variants` chooses, compiling, and the change to a better variant while launches go on.

Threads of `background` compile while the program goes on, and launches may be queued before their
kernel is compiled. What is compiled first may be a baseline; the optimized variant follows once it
pays. The disk cache keeps all variants.
"""

import ctypes
import struct
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from .. import flags, log, progress
from ..device import ErrorWords, Kernel, Operands, size_class, whole_blocks
from ..flags import JitFlag
from ..ir import op
from ..native import division
from ..run import cache, events, history, recompiled
from ..run.launch import ErrorRecord, checked, is_settled, layout_of, link
from ..target import library
from ..text.program import Output, Program, Work
from ..tuples import NamedTuple
from . import background, interpreted, memory, runtime, variants
from .launcher import JobEntry, OwnTimes, Times
from .memory import Buffer
from .variants import Variant

_ASK_EVERY = 16  # launches between two checks of whether to optimize a kernel

# Plain numbers: testing for an enumeration member takes ten times as long.
_DEBUG, _BLOCKING = int(JitFlag.Debug), int(JitFlag.LaunchBlocking)
_WAITING = _DEBUG | _BLOCKING | int(JitFlag.KernelHistory)
"""Flags under which launches wait for their kernels."""
SLOW = _WAITING | int(JitFlag.Record)
"""Flags under which launches take the general way."""

_kernels: dict[Any, "CpuKernel"] = {}
_spare_reports: list[ErrorWords] = []  # unused ones: of launches that have ended without an error


_Entries = JobEntry * 2  # the second one is the end


class CompiledCode(NamedTuple):
    """A compiled variant in memory, whether it came from memory or disk, which one it is, and the
    seconds that it took to compile or load."""

    loaded: Any
    state: str
    variant: Variant
    seconds: float


class CpuKernel(Kernel):
    """A kernel with the layout of its parameter block, its machine code once there is some, and the
    time that it has run interpreted."""

    def __init__(
        self,
        text: str,
        layout: str,
        cost: int,
        program: Program | None = None,
        work: Work | None = None,
    ) -> None:
        self.records: list[Any] = []  # where native code counts launches, see `plans`
        super().__init__(memory.Buffer.device, text, program, work)
        self.cost = cost  # lane-operations of a lane
        self.loaded: Any = None  # the code that launches run, and its variant
        self.running: Variant | None = None
        self.is_baseline = False  # whether that is a baseline
        self.task: background.Task | None = None  # of the thread that compiles it
        self.failed = False  # whether that has failed
        self.cached: bool | None = None  # see is_cached
        self.clock = Times()  # of compiled launches, written by the workers
        entries = _Entries()
        self.entry, self.entry_address = entries[0], ctypes.addressof(entries)
        self.entry.times = ctypes.addressof(self.clock)
        outputs = program.outputs if program is not None else ()
        self.outputs = tuple([(_output_kind(o), o.dtype.itemsize * o.dtype.count) for o in outputs])
        # The kinds of a launch's buffers, and the bytes of an entry. A reduction has two buffers,
        # of which the first one is for the partial results of blocks.
        self.buffers: list[tuple[str, int]] = []
        places: list[int | None] = []
        for kind, nbytes in self.outputs:
            if kind == "reduce":
                self.buffers.append(("partial", 8))
            places.append(None if kind == "effect" else len(self.buffers))
            if kind != "effect":
                self.buffers.append((kind, nbytes))
        # The number of each output's buffer, None for an effect; or None if the outputs are all
        # buffers in this order.
        self.output_places = places if places != [*range(len(self.buffers))] else None
        # The lanes of the last launch by `begin`, and the capacities of its buffers.
        self.size, self.capacities = 0, []
        # On NumPy: the cost per lane, and of the calls.
        fused = variants.NUMPY_FUSED
        self.numpy_cost = cost + (fused * work.fused if work else 0)
        self.numpy_calls = work.calls + fused * work.fused_calls if work else cost
        self.pack = struct.Struct("<" + layout).pack
        # The most lanes that the calling thread computes; none of a loop, which Ctrl-C could not
        # end.
        self.inline_lanes = 0 if self.loops else (division.INLINE_WORK - 1) // max(cost, 1)
        self.functions: dict[str, Any] = {}  # by variant, where that is interpreted
        self.runs_as_python: bool | None = None  # whether it can; None if not known
        # Of interpreted launches: the estimated time, against which compiling is weighed, the
        # measured time, and their number.
        self.estimated_seconds = self.interpreted_seconds = 0.0
        self.interpreted_launches = 0

    @property
    def tier(self) -> str:
        if variants.pinned in variants.INTERPRETED:
            return variants.pinned
        return "compiled" if self.address else "python" if self.state == "python" else "numpy"

    @property
    def launches(self) -> int:
        return self.counted + sum([r.launches for r in self.records])

    @property
    def mean_time(self) -> float:
        launches = self.interpreted_launches + self.clock.launches
        return (self.interpreted_seconds + self.clock.total * 1e-9) / launches if launches else 0.0

    @property
    def can_be_interrupted(self) -> bool:
        return not self.address or variants.pinned in variants.INTERPRETED

    def launch(self, size: int, operands: Operands, record: Any) -> list[Buffer | None]:
        inputs, literals, checks, targets = operands
        code = self.entry.kernel
        interpreted_only = variants.pinned in variants.INTERPRETED or flags.current & _DEBUG
        if not code or interpreted_only:
            if not targets and variants.prefers_python(self, size):
                outputs = interpreted.run_on_numbers(self, size, operands, record)
                if outputs is not None:
                    return outputs
            if variants.prefers_numpy(self, size):
                return interpreted.run_on_numpy(self, size, operands, record)
        work = size * self.cost
        if not code:
            self.compile(work)
        elif self.is_baseline:
            variants.optimize_if_hot(self)
        inline = work < division.INLINE_WORK and not self.loops  # which Ctrl-C could not end
        block = block_for(work, size)
        copies = 0
        if nbytes := sum([_copy_bytes(e) for e in targets if e.mode == "expand"]):
            block, copies = _divide_copies(size, block, nbytes)
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
        outputs = []
        for (kind, _), nbytes in zip(self.buffers, self.buffer_sizes(size), strict=True):
            b = memory.allocate(8 * -(-size // block) if kind == "partial" else nbytes)
            outputs.append(b)
            words.append(b.address)
        launch(self, words, size, block, inline, record, copies)
        if self.output_places is not None:
            return [None if k is None else outputs[k] for k in self.output_places]
        return outputs

    def begin(self, size: int, operands: Operands) -> list[Any] | None:
        if size > self.inline_lanes or self.loaded is None or flags.current & SLOW:
            return None
        if runtime.unfinished or log.level >= 3 or variants.pinned in variants.INTERPRETED:
            return None
        # This check takes half as long as a launch.
        if self.is_baseline and not self.counted % _ASK_EVERY and variants.should_optimize(self):
            return None
        inputs, literals, checks, targets = operands
        words: list[Any] = [0]
        for n in inputs:
            b = n.data
            if b.source is not None and not is_settled(b):
                return None
            words.append(b.address or b.copy_for_launch())
        for n in literals:
            words.append(n.data)
        if checks:
            words += [c.data[0] for c in checks]
        if targets:
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
            self.size, self.capacities = size, [*map(size_class, self.buffer_sizes(size))]
        outputs: list[Any] = memory.allocate_all(self.capacities, words)
        if checks:
            try:
                report = _spare_reports.pop()
            except IndexError:
                report = self.device.error_words()
            words[0] = report.address
        if not runtime.start(self.entry_address, self.pack(*words), size):
            return None
        self.counted += 1
        if self.output_places is not None:
            outputs = [None if k is None else outputs[k] for k in self.output_places]
        if checks:
            if report.words[0]:
                self.record_failure(report, operands, outputs)
            else:
                _spare_reports.append(report)
        return outputs

    def record_failure(self, report: ErrorWords, operands: Operands, outputs: list) -> None:
        """Notes that an index was out of bounds in a launch that is over."""
        inputs, _, checks, targets = operands
        failed = ErrorRecord(self.device, checked(checks), report)
        runtime.run_check(failed.check)
        link([n.data for n in inputs], outputs, [e.buffer for e in targets], failed)

    def buffer_sizes(self, size: int) -> list[int]:
        """Returns the bytes of each buffer of a launch in one block."""
        lanes = {"store": size, "vectors": whole_blocks(size)}
        return [itemsize * lanes.get(kind, 1) for kind, itemsize in self.buffers]

    # ---- Machine code

    @property
    def address(self) -> int:
        """The address of the machine code, or 0."""
        return self.entry.kernel

    def is_cached(self) -> bool:
        """Returns whether the disk cache had a compiled variant at the first call."""
        if self.cached is None:
            compiled = variants.candidates(self, variants.compiler_options(), True)
            self.cached = any(cache.has(variant.key) for variant in compiled)
        return self.cached

    def compile(self, work: int) -> None:
        """Loads machine code for a launch of `work` lane-operations from the disk cache, or has it
        compiled, unless there is some or will be soon. A baseline from the disk cache, which an
        earlier process has run as well, is replaced if launches are long.

        Raises:
            KernelError: the text violates the rules of the language.
        """
        if self.address:
            return
        options, watched = variants.compiler_options(), bool(flags.current & _WAITING)
        # Numba does not work in several threads, nor with forks meanwhile: it imports and logs.
        by_caller = options & variants.NUMBA or runtime.thread_count() == 1
        waits = watched or by_caller or self.failed
        task = self.task
        self.compiled_at = self.compiled_at or self.launches
        if task is not None:
            task.wait() if waits else task.hurry()
            if not waits or self.address:
                return
        unoptimized = not watched and variants.has_little_work(self, work)
        candidates = variants.candidates(self, options, unoptimized)
        code = self._from_disk(candidates)
        if code is None:
            recompiled.count(self.text)
            compiled = partial(self.compiled, candidates[-1], options)
            if not waits and self._submit(compiled, urgent=True):
                return
            code = compiled()
        self.adopt(code)
        if code.state == "disk" and code.variant.is_baseline and variants.has_long_work(self, work):
            self.submit_optimized()

    def submit_optimized(self) -> None:
        """Has the optimized variant compiled when threads have nothing more urgent to do."""
        options = variants.compiler_options()
        if not self.failed and not options & variants.NUMBA:
            best = variants.optimized(self, options)
            self._submit(lambda: self._from_disk([best]) or self.compiled(best, options))

    def _submit(self, work: Callable[[], CompiledCode], urgent: bool = False) -> bool:
        """Has another thread compile or load code; returns whether that was possible."""
        library.prepare(self.text)
        # Set before the task begins, as the task itself resets it at its end.
        self.task = task = background.Task(partial(self._run, work))
        if background.enqueue(task, runtime.thread_count(), urgent):
            return True
        self.task = None
        return False

    def _run(self, work: Callable[[], CompiledCode]) -> None:
        try:
            code = work()
        except BaseException as error:
            # In this order: `launch` below looks at the task after it has queued a job.
            self.failed, self.is_baseline, self.task = True, False, None
            if not self.address:
                runtime.fail_jobs(self.entry, error)
            return
        self.adopt(code)

    def adopt(self, code: CompiledCode) -> None:
        """Has launches run code from now on, including those that wait for it."""
        before = self.loaded  # freed at the end: meanwhile, another thread may launch it
        loaded, self.state, self.running, self.seconds = code  # before anybody sees a result
        runtime.open_jobs(self.entry, loaded.kernel, loaded.finish)
        self.loaded = loaded
        self.is_baseline = code.variant.is_baseline
        if before is not None:
            runtime.retain(before)  # queued launches may still run it
        self.task = None
        self.log_code()

    def _from_disk(self, candidates: list[Variant]) -> CompiledCode | None:
        """Loads the first of some variants that the disk cache has."""
        from ..target.image import Loaded

        start = time.perf_counter()
        for variant in candidates:
            if (entry := cache.get(variant.key)) is None:
                continue
            try:
                loaded = Loaded(entry.code, self.name, entry.has_finish)
            except Exception as error:  # a damaged entry is compiled again
                log.log(
                    log.LogLevel.Warn, "cache entry %s cannot be loaded (%s)", variant.key, error
                )
                continue
            seconds = time.perf_counter() - start
            if (sink := events.sink) is not None:
                sink.made("load", start, self)
            return CompiledCode(loaded, "disk", variant, seconds)
        return None

    def compiled(self, variant: Variant, options: int) -> CompiledCode:
        """Compiles a variant."""
        from ..target import simd
        from ..target.image import Loaded

        start, spent = time.perf_counter(), time.thread_time()
        contract, by_numba = bool(options & variants.FAST_MATH), bool(options & variants.NUMBA)
        with progress.compiling(self, not self.address):
            code = simd.compile(
                self.text, self.name, variant.lanes, contract, by_numba=by_numba,
                level=variant.level,
            )  # fmt: skip
        loaded = Loaded(code.code, self.name, code.has_finish)
        cache.put(variant.key, self.text, code.code, code.has_finish)
        variants.compile_seconds += time.thread_time() - spent
        seconds = time.perf_counter() - start
        if (sink := events.sink) is not None:
            how = "without optimization" if variant.is_baseline else ""
            sink.made("compile", start, self, how)
        return CompiledCode(loaded, "memory", variant, seconds)


def for_program(text: str, program: Program, work: Work | None = None) -> CpuKernel:
    """Returns the kernel of a program and its text; `work` has to be given for a program without
    instructions. There is one per process, text, and way to launch it, because the text does not
    show parameters that nothing reads."""
    layout = layout_of(program)
    key = text, layout, *[(o.kind, o.dtype) for o in program.outputs]
    kernel = _kernels.get(key)
    if kernel is None:
        work = work or program.work
        kernel = _kernels[key] = CpuKernel(text, layout, work.cost, program, work)
    return kernel


def text_of(*statements: str) -> str:
    """Returns the text of a kernel of these statements."""
    return "\n    ".join(["def kernel(i, p):", *statements]) + "\n"


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


def block_for(work: int, size: int) -> int:
    """Returns the lanes of a block: whole packets, and a single block if the calling thread does
    the work."""
    return division.block_for(work, size, runtime.thread_count())


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
    if flags.current & history.OBSERVED:
        times = OwnTimes(clock, runtime.thread_count() if events.sink is not None else 0)
        clock = ctypes.addressof(times)
    expected = kernel.clock.last or runtime.UNKNOWN_NS
    is_compiled = entry.kernel
    runtime.launch(
        entry,
        kernel.pack(*words),
        size,
        block,
        inline,
        (kernel, record, times),
        record.check if record else None,
        clock,
        expected if is_compiled else runtime.COMPILING_NS,
        copies,
    )
    if not is_compiled and kernel.task is None and not entry.kernel:
        runtime.open_jobs(entry, 0, 0)  # compiling has failed meanwhile
    if times is not None:
        history.add(kernel, size, "compiled", times)
    if log.level >= 3:
        where = "in this thread" if inline else f"blocks of {block}"
        kernel.log("launched, %d lanes, %s", size, where)


def for_text(text: str, words: int, cost: int) -> CpuKernel:
    """Returns the kernel of a text that is not made from a program, with parameter blocks of so
    many words."""
    found = _kernels.get(text)
    if found is None:
        found = _kernels[text] = CpuKernel(text, "Q" * words, cost)
    return found


def run_text(
    text: str, cost: int, size: int, arguments: list, block: int = 0, entries: int = 0,
    work: int = 0, on_numpy: bool | None = None,
) -> bool:  # fmt: skip
    """Launches the kernel of a text that is not made from a program. `cost` is that of a lane, or
    `work` if it depends on the arguments. An argument is a size, or a buffer with its element type
    and size. Returns whether the kernel runs on NumPy, which depends on the number of `entries`, by
    default that of lanes.

    `block` prescribes the lanes of a block, `on_numpy` whether to run on NumPy: launches that pass
    on results of blocks must agree on both.
    """
    kernel = for_text(text, 1 + len(arguments), cost)
    if on_numpy is None:
        on_numpy = variants.prefers_numpy(kernel, entries or size)
    kernel.counted += 1
    if on_numpy:
        p = [a if isinstance(a, int) else a[0].array(a[1].numpy, a[2]) for a in arguments]
        interpreted.interpret(kernel, [None, *p], size)
    else:
        work = size * (work or cost)
        if not kernel.address:
            kernel.compile(work)
        elif kernel.is_baseline:
            variants.optimize_if_hot(kernel)
        words = [0]
        for a in arguments:
            words.append(a if isinstance(a, int) else a[0].address or a[0].copy_for_launch())
        launch(kernel, words, size, block or block_for(work, size), work < division.INLINE_WORK)
    buffers = [a[0] for a in arguments if not isinstance(a, int)]
    link(buffers, buffers)
    if flags.current & _BLOCKING:
        runtime.sync()
    return on_numpy


def _copy_bytes(effect: Any) -> int:
    return effect.size * effect.dtype.accumulator.itemsize


def _divide_copies(size: int, block: int, nbytes: int) -> tuple[int, int]:
    """Returns the lanes of a block, and the number of private copies of `nbytes` bytes each."""
    threads = runtime.thread_count()
    block = division.block_with_copies(block, size, threads, nbytes)
    return block, division.copies_for(block, size, threads)


def _accumulators(effect: Any, copies: int) -> Buffer:
    """Returns private copies of a scatter target, filled with a value that the reduction ignores.
    The first of them is the target itself if it has the accumulator's type.
    """
    dtype = effect.dtype.accumulator
    size = (copies - (dtype is effect.dtype)) * effect.size
    room = memory.allocate_for(dtype, size, host=True)
    room.fill(dtype, size, op.ignored(effect.reduce, dtype))
    return room
