"""Kernels of GPUs: their parameter block, their machine code, and their launches."""

import functools
import json
import struct
import sys
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np

from .. import debug, flags, log, progress
from ..device import Buffer, Kernel, Operands, elements, size_class
from ..flags import JitFlag
from ..ir import op
from ..ir.dtype import DType
from ..ir.node import BUFFER, make
from ..run import cache, events, history, recompiled
from ..run.launch import ErrorRecord, as_python, layout_of, link
from ..target.cuda import nvvm
from ..target.cuda.function import EACH, PRIVATE_BYTES, Compiled
from ..target.numpy.elementwise import ignored_number
from ..text.program import Program, Work
from . import assembler
from .memory import pattern_of

# Plain numbers: testing for an enumeration member takes ten times as long.
_DEBUG = int(JitFlag.Debug)
_REDUCED, _NUMBA = int(JitFlag.ReducedPrecision), int(JitFlag.NumbaCompiler)
_PRODUCTS = "matvec(f16,", "matvec(f32,", "outer(f32,"  # `ReducedPrecision` concerns these
_WATCHED = _DEBUG | int(JitFlag.LaunchBlocking)

MEASURED = 4
"""How many launches of a kernel are timed, besides those with `JitFlag.KernelHistory`."""

ONE_LANE = 1 << 40
"""A setting besides the flags: threads with one lane each, which access nothing beyond the last."""

_LAST = 16  # bytes behind the parameter block: the number of lanes, the address of the counter


@functools.cache
def numba_versions() -> str:
    """Returns the versions of Numba and `numba-cuda`, without importing them; nothing if these do
    not compile kernels here."""
    problem = nvvm.problem()
    if not problem:
        return " ".join([metadata.version(name) for name in ("numba", "numba-cuda")])
    text = "kernels of GPUs are compiled directly, and not by Numba: %s"
    log.log(log.LogLevel.Warn, text, problem)
    return ""


class Duration:
    """The time of a launch, known when that has ended: `last` is in nanoseconds."""

    __slots__ = ("end", "start")

    def __init__(self, device: Any) -> None:
        self.start, self.end = device.event(), device.event()
        self.start.record()

    @property
    def last(self) -> int:
        return round(self.start.elapsed_time(self.end) * 1e6)

    def interval(self, mark: Any, reached: float) -> tuple[float, float]:
        """Returns the start and the end in seconds of a clock by which a later event was reached
        at a given time; all have been reached."""
        start, end = [reached - e._milliseconds(mark) * 1e-3 for e in (self.start, self.end)]
        return start, end


class MachineCode:
    """Machine code on a device: a kernel's entry and, if there is one, its finish function."""

    __slots__ = ("entry", "finish", "form", "module", "queue", "threads")

    def __init__(self, device: Any, form: Any, image: bytes) -> None:
        driver = device.driver
        self.queue, self.form, self.threads = device.queue, form, (form.threads, 1, 1)
        call, self.module = device.queue.call_with_room, 0
        self.module = call(driver.load, image)
        self.entry = call(driver.function, self.module, form.entry)
        self.finish = call(driver.function, self.module, form.finish) if form.finish else 0
        if form.shared:
            driver.set_dynamic_shared(self.entry, form.shared)

    def __del__(self, _finalizing: Any = sys.is_finalizing) -> None:
        if self.module and not _finalizing():
            self.queue.unload(self.module)


class LaunchShape(NamedTuple):
    """What launches of compiled code over `size` lanes have in common: the number of blocks and,
    for each output, the capacities of the memory for partial results of blocks and for the result,
    0 for none."""

    size: int
    form: Any
    grid: int
    results: list[tuple[int, int]]


class CudaKernel(Kernel):
    """A kernel with the layout of its parameter block, and its machine code once there is some, for
    each setting of the flags that it depends on."""

    def __init__(
        self, device: Any, text: str, layout: str, program: Program | None, work: Work | None = None
    ) -> None:
        super().__init__(device, text, program, work)
        outputs = program.outputs if program is not None else ()
        self.outputs = tuple([(o.kind, o.dtype) for o in outputs])
        self.pack = struct.Struct(f"<{layout}qQ").pack
        self.words = program.words if program is not None else 0
        self.flag_mask = _REDUCED if any(p in text for p in _PRODUCTS) else 0
        # Functions that Numba compiled for processors are not in NVVM's dialect of LLVM IR.
        if program is not None and all(i.op is not op.foreign for i in program.instrs):
            self.flag_mask |= _NUMBA
        self.codes: dict[int, MachineCode] = {}
        self.durations: list[Duration] = []
        self.launch_shape = LaunchShape(-1, None, 0, [])

    @property
    def tier(self) -> str:
        return "compiled" if self.codes else "numpy"

    @property
    def mean_time(self) -> float:
        times = [m.last for m in self.durations]
        return sum(times) / len(times) * 1e-9 if times else 0.0

    def launch(self, size: int, operands: Operands, record: Any) -> list[Buffer | None]:
        if flags.current & _DEBUG:
            return self._on_numpy(size, operands, record)
        inputs, literals, checks, targets = operands
        words: list[Any] = [record.address if record else 0]
        read = [n.data for n in inputs]
        for b in read:
            words.append(b.address)
        for n in literals:
            words.append(n.data)
        for c in checks:
            words.append(c.data[0])
        written, large = [], False
        for e in targets:
            written.append((e.buffer, _expansion(e.dtype, e.size, e.reduce, e.mode)))
            large |= _is_large(e.dtype, e.size, e.mode)
        code = self.code_for(size, read, large)
        return self._queue_words(code, size, words, written, record)

    def repeated(self, step: Any, general: Callable[[list], None]) -> Callable[[list], None]:
        """From one launch to the next, only addresses change in the parameter block."""
        size, inputs, device = step.size, step.inputs, self.device
        numbers = [value for _, value in step.literals] + [data[0] for data, _ in step.checks]
        effects = [(k, _expansion(t, n, r, mode)) for k, t, n, r, mode in step.effects]
        large = any(_is_large(t, n, mode) for _, t, n, _, mode in step.effects)
        results = [o and (o[0], o[1], 1 if o[2] else size) for o in step.outputs]
        checks, recorded = step.checks, bool(step.checks) or self.loops

        def run(values: list) -> None:
            if flags.current & _WATCHED:
                general(values)
                return
            record = ErrorRecord(device, checks) if recorded else None
            words: list[Any] = [record.address if record else 0]
            read = [values[k].data for k in inputs]
            for b in read:
                words.append(b.address)
            words += numbers
            written = [(values[k].data, expansion) for k, expansion in effects]
            self.counted += 1
            code = self.code_for(size, read, large)
            outputs = self._queue_words(code, size, words, written, record)
            link(read, outputs, [b for b, _ in written], record if checks else None)
            for o, b in zip(results, outputs, strict=True):
                if o is not None:
                    number, t, lanes = o
                    values[number] = make(BUFFER, t, lanes, (), b)

        return run

    def code_for(self, size: int, inputs: list[Buffer], large: bool) -> MachineCode:
        """Returns the machine code for a launch, compiled if there is none. Whole packets are read
        to their end, beyond which memory of other libraries may have ended. If a target of sums is
        `large`, neighbouring threads had better add neighbouring lanes to it."""
        setting = flags.current & self.flag_mask | (ONE_LANE if large else 0)
        code = self.codes.get(setting) or self.compile(setting)
        if size % code.form.lanes and any(b.owner is not None for b in inputs):
            setting |= ONE_LANE
            code = self.codes.get(setting) or self.compile(setting)
        return code

    def _queue_words(
        self, code: MachineCode, size: int, words: list[Any],
        written: Iterable[tuple[Buffer, Any]], record: Any,
    ) -> list[Buffer | None]:  # fmt: skip
        """Queues a launch, given the words of the parameter block before its targets, and the
        targets with their expansions; see `launch`."""
        device: Any = self.device
        block = device.pool.block
        # Buffers need not be kept beyond this function: memory freed then serves later launches
        # only, and the stream runs them in order.
        temporary: list[Buffer] = []
        largest = 0
        for b, expansion in written:
            words.append(b.address)
            if expansion is not None:
                start, (n, nbytes, pattern) = 0, expansion
                if nbytes:
                    temporary.append(b := device.filled_with_pattern(pattern, nbytes))
                    start, largest = b.address, max(largest, n)
                words += (start, n)
        lanes, form, grid, results = self.launch_shape
        if lanes != size or form is not code.form:
            lanes, form, grid, results = self.launch_shape = self._launch_shape(size, code.form)
        outputs: list[Buffer | None] = []
        for partial, capacity in results:
            if partial:
                temporary.append(b := block(partial))
                words.append(b.address)
            if capacity:
                outputs.append(b := block(capacity))
                words.append(b.address)
            else:
                outputs.append(None)
        parameters, keep = self.pack(*words, size, device.counter), None
        if not form.by_value:
            memory = device.upload(np.frombuffer(parameters[:-_LAST], np.uint8))
            parameters = struct.pack("<Q", memory.address) + parameters[-_LAST:]
            keep = self, memory
        self.queue(code, parameters, size, grid, largest, record, keep)
        return outputs

    def _launch_shape(self, size: int, form: Any) -> LaunchShape:
        grid, results = self.blocks(form, size), []
        for kind, t in self.outputs:
            lanes = size if kind == "store" else 1
            partial = size_class(8 * grid) if kind == "reduce" else 0
            results.append(
                (partial, kind != "effect" and size_class(t.itemsize * elements(t, lanes)))
            )
        return LaunchShape(size, form, grid, results)

    def blocks(self, form: Any, size: int) -> int:
        """Returns the number of blocks of a launch."""
        device: Any = self.device
        blocks = -(-size // (form.threads * form.lanes))
        return min(blocks, form.each * device.multiprocessors) if form.strides else blocks

    def queue(
        self, code: MachineCode, block: bytes, size: int, grid: int, largest: int = 0,
        record: Any = None, keep: Any = None,
    ) -> None:  # fmt: skip
        """Queues the launch of `grid` blocks with a parameter block, and that of the finish
        function, if any, over the `largest` number of accumulators. `size` is for the log and the
        history."""
        device: Any = self.device
        queue, form = device.queue, code.form
        threads = code.threads
        watched = flags.current & history.OBSERVED
        time = Duration(device) if watched or len(self.durations) < MEASURED else None
        keep = keep or self
        queue.launch(code.entry, (grid, 1, 1), threads, block, form.shared, self.name, record, keep)
        if code.finish and largest:
            blocks = min(-(-largest // form.threads), EACH * device.multiprocessors)
            queue.launch(code.finish, (blocks, 1, 1), threads, block, 0, self.name, None, keep)
        if time is not None:
            time.end.record()
            if len(self.durations) < MEASURED:
                self.durations.append(time)
            if watched:
                history.add(self, size, "compiled", time)
        if log.level >= 3:
            text = "launched, %d lanes, %d blocks of %d threads"
            self.log(text, size, grid, form.threads)

    # ---- Code

    def compile(self, asked: int) -> MachineCode:
        """Returns the machine code for a setting, from the disk cache or compiled from the text."""
        device: Any = self.device
        start = time.perf_counter()
        contract = bool(flags.current & JitFlag.FastMath)
        key, setting = self.key_of(asked)
        entry, code = cache.get(key), None
        if entry is not None:
            try:
                code, self.state = MachineCode(device, *_decoded(entry.code)), "disk"
            except Exception as error:  # a damaged entry is compiled again
                log.log(log.LogLevel.Warn, "cache entry %s cannot be loaded (%s)", key, error)
        if code is None:
            recompiled.count(self.text)
            with progress.compiling(self):
                form = self.lowered(contract, setting)
                image = device.assemble(form.code, self.name)
            form = form._replace(code="")
            code, self.state = MachineCode(device, form, image), "memory"
            cache.put(key, self.text, _encoded(form, image), bool(form.finish))
        self.codes[asked] = code
        self.seconds = time.perf_counter() - start
        self.compiled_at = self.launches
        if (sink := events.sink) is not None:
            sink.made("load" if self.state == "disk" else "compile", start, self)
        self.log_code()
        return code

    def key_of(self, setting: int) -> tuple[str, int]:
        """Returns the key of machine code in the disk cache, and the setting that is possible."""
        contract = bool(flags.current & JitFlag.FastMath)
        route = (numba_versions(),) if setting & _NUMBA else ()
        if route == ("",):  # not installed
            setting, route = setting & ~_NUMBA, ()
        device: Any = self.device
        facts = "cuda", contract, setting, self.words, device.image_facts(), cache.gpu_files()
        return cache.digest(self.text, *facts, *route), setting

    def code_for_capability(self, capability: tuple[int, int], setting: int) -> tuple[bool, bytes]:
        """Returns whether there is a finish function, and machine code for other GPUs, for a
        setting of the flags, as the disk cache has it."""
        contract = bool(flags.current & JitFlag.FastMath)
        form = self.lowered(contract, self.key_of(setting)[1], capability)
        image = assembler.for_capability(capability, form.code, self.name)
        return bool(form.finish), _encoded(form._replace(code=""), image)

    def lowered(
        self, contract: bool, setting: int = 0, capability: tuple[int, int] | None = None
    ) -> Any:
        """Returns the kernel as PTX, and how to launch it, for a setting of flags."""
        from ..target import cuda

        device: Any = self.device
        of = capability or device.capability
        options = contract, of, bool(setting & _REDUCED), bool(setting & _NUMBA)
        packets = not setting & ONE_LANE
        return cuda.compile(self.text, self.name, self.words, *options, packets=packets)

    # ---- Debug mode

    def _on_numpy(self, size: int, operands: Operands, record: Any) -> list[Buffer | None]:
        """Runs the text as Python on copies of what it reads, for debuggers."""
        device: Any = self.device
        device.drain()

        written: dict[Buffer, np.ndarray] = {}

        def target_values(e: Any) -> np.ndarray:
            if e.buffer not in written:
                written[e.buffer] = device.download(e.buffer, e.dtype, elements(e.dtype, e.size))
            return written[e.buffer]

        def new_output(t: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
            values = np.empty(n, t.numpy)
            return values, values

        p, results = as_python(
            self.program,
            size,
            operands,
            record,
            lambda t, n, b: device.download(b, t, n),
            target_values,
            new_output,
        )
        if self.state == "new":
            self.state = "numpy"
        start = time.perf_counter()
        debug.run(self.text, self.name, p, size)
        if flags.current & history.OBSERVED:
            history.add(self, size, "numpy", time.perf_counter() - start)
        for buffer, values in written.items():
            device.write(buffer, values)
        if record is not None:
            device.queue.errors.check(record.check)
        return [None if values is None else device.upload(values) for values in results]


def _expansion(dtype: DType, size: int, reduce: str, mode: str) -> tuple[int, int, bytes] | None:
    """Returns the number of accumulators of a target, and, unless its own entries serve as these,
    the bytes of their memory and the pattern to fill it with; None if the kernel needs none."""
    if mode != "expand":
        return None
    wide = dtype.accumulator
    if wide is dtype:
        return size, 0, b""
    start = ignored_number(reduce, np.dtype(wide.numpy))
    return size, wide.itemsize * elements(wide, size), pattern_of(wide, start)


def _is_large(dtype: DType, size: int, mode: str) -> bool:
    """Returns whether sums are not in the memory of a block."""
    return mode == "expand" and elements(dtype, size) * dtype.accumulator.itemsize > PRIVATE_BYTES


def _encoded(form: Any, image: bytes) -> bytes:
    """Returns machine code and how to launch it, for the disk cache."""
    return json.dumps(form).encode() + b"\n" + image


def _decoded(code: bytes) -> tuple[Any, bytes]:
    head, _, image = code.partition(b"\n")
    return Compiled(*json.loads(head)), image


def for_program(device: Any, text: str, program: Program, work: Work | None = None) -> CudaKernel:
    """Returns the kernel of a program and its text; `work` has to be given for a program without
    instructions. There is one for each text and way to launch it, because the text does not show
    parameters that nothing reads."""
    layout = layout_of(program)
    key = text, layout, *[(o.kind, o.dtype) for o in program.outputs]
    kernel = device.kernel_table.get(key)
    if kernel is None:
        kernel = device.kernel_table[key] = CudaKernel(device, text, layout, program, work)
    return kernel
