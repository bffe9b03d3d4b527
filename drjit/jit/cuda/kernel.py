"""Kernels of GPUs: their parameter block, their machine code, and their launches."""

import json
import struct
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drjit.jit import debug, flags, log
from drjit.jit.device import Buffer, Kernel, elements
from drjit.jit.flags import JitFlag
from drjit.jit.ir.node import BUFFER, make
from drjit.jit.run import cache, history
from drjit.jit.run.launch import as_python, layout_of
from drjit.jit.target.cuda.form import EACH
from drjit.jit.target.numpy.reduction import passed_over
from drjit.jit.text.program import Program

# Plain numbers: testing for an enumeration member takes ten times as long.
_DEBUG, _HISTORY = int(JitFlag.Debug), int(JitFlag.KernelHistory)
_REDUCED = int(JitFlag.ReducedPrecision)
_PRODUCTS = "matvec(f16,", "matvec(f32,", "outer(f32,"  # which may be less precise
_WATCHED = _DEBUG | int(JitFlag.LaunchBlocking)

MEASURED = 4
"""How many launches of a kernel are timed, besides those with `JitFlag.KernelHistory`."""

# The parameters after the block: the number of lanes, and the address of the counter.
_LAST = struct.Struct("<qQ").pack


class Duration:
    """The time of a launch, known when that has ended: `last` is in nanoseconds."""

    __slots__ = ("end", "start")

    def __init__(self, device: Any) -> None:
        self.start, self.end = device.event(), device.event()
        self.start.record()

    @property
    def last(self) -> int:
        return round(self.start.elapsed_time(self.end) * 1e6)


class Code:
    """Machine code on a device: a kernel's entry and, if it has one, the entry that finishes."""

    __slots__ = ("entry", "finish", "form", "module", "queue")

    def __init__(self, device: Any, form: Any, image: bytes) -> None:
        driver = device.driver
        self.queue, self.form = device.queue, form
        self.module = driver.load(image)
        self.entry = driver.function(self.module, form.entry)
        self.finish = driver.function(self.module, form.finish) if form.finish else 0
        if form.shared:
            driver.set_dynamic_shared(self.entry, form.shared)

    def __del__(self, _finalizing: Any = sys.is_finalizing) -> None:
        if not _finalizing():
            self.queue.unload(self.module)


class CudaKernel(Kernel):
    """A kernel with its parameter block, and its machine code once there is some: for each setting
    of the flags that it depends on."""

    __slots__ = ("codes", "depends", "measured", "outputs", "pack", "words")

    def __init__(self, device: Any, text: str, layout: str, program: Program | None) -> None:
        name = "k" + cache.blake2b(text.encode(), digest_size=8).hexdigest()
        super().__init__(device, text, name, program)
        outputs = program.outputs if program is not None else ()
        self.outputs = tuple([(o.kind, o.dtype) for o in outputs])
        self.pack = struct.Struct("<" + layout).pack
        self.words = program.words if program is not None else 0
        self.depends = _REDUCED if any(p in text for p in _PRODUCTS) else 0
        self.codes: dict[int, Code] = {}
        self.measured: list[Duration] = []

    @property
    def tier(self) -> str:
        return "compiled" if self.codes else "numpy"

    @property
    def mean_time(self) -> float:
        times = [m.last for m in self.measured]
        return sum(times) / len(times) * 1e-9 if times else 0.0

    def launch(
        self, size: int, inputs: list, literals: list, checks: Sequence, targets: Sequence,
        record: Any,
    ) -> list[Buffer | None]:  # fmt: skip
        if flags.current & _DEBUG:
            return self._on_numpy(size, inputs, literals, checks, targets, record)
        code = self.codes.get(flags.current & self.depends) or self.compile()
        device: Any = self.device
        words: list[Any] = [record.words.ctypes.data if record else 0]
        for n in inputs:
            words.append(n.data.address)
        for n in literals:
            words.append(n.data)
        for c in checks:
            words.append(c.data[0])
        # Buffers need not be kept beyond this function: memory freed then serves later launches
        # only, and the stream runs them in order.
        temporary: list[Buffer] = []
        largest = 0
        for e in targets:
            words.append(e.buffer.address)
            if e.mode == "expand":
                acc, start = e.dtype.accumulator, 0
                if acc is not e.dtype:
                    start = passed_over(e.reduce, np.dtype(acc.numpy))
                    temporary.append(device.filled(acc, e.size, start))
                    start, largest = temporary[-1].address, max(largest, e.size)
                words += [start, e.size]
        grid = self.blocks(code.form, size)
        outputs: list[Buffer | None] = []
        for kind, t in self.outputs:
            if kind == "effect":
                outputs.append(None)
                continue
            lanes = size
            if kind == "reduce":
                temporary.append(device.allocate(8 * grid))
                words.append(temporary[-1].address)
                lanes = 1
            outputs.append(b := device.allocate_for(t, lanes))
            words.append(b.address)
        block, keep = self.pack(*words), self
        if not code.form.by_value:
            memory = device.upload(np.frombuffer(block, np.uint8))
            block, keep = struct.pack("<Q", memory.address), (self, memory)
        block += _LAST(size, device.counter)
        self.queue(code, block, size, grid, largest, record, keep)
        return outputs

    def repeated(self, step: Any, general: Callable[[list], None]) -> Callable[[list], None]:
        wide = any(mode == "expand" and t.accumulator is not t for _, t, _, _, mode in step.effects)
        return general if step.checks or self.loops or wide else self._direct(step, general)

    def _direct(self, step: Any, general: Callable[[list], None]) -> Callable[[list], None]:
        """`repeated` for a kernel that needs no error record and nothing else prepared: only
        addresses change in its parameter block."""
        size, inputs = step.size, step.inputs
        numbers = [value for _, value in step.literals]
        targets = [(e[0], (0, e[2]) if e[4] == "expand" else ()) for e in step.effects]
        device: Any = self.device
        allocate = device.pool.allocate
        results = []
        for number, t, reduced in filter(None, step.outputs):
            lanes = 1 if reduced else size
            results.append((number, t, lanes, reduced, t.itemsize * elements(t, lanes)))
        read = [*inputs, *[k for k, _ in targets]]
        last = _LAST(size, device.counter)

        def run(values: list) -> None:
            code = self.codes.get(flags.current & self.depends)
            if code is None or flags.current & _WATCHED or not code.form.by_value:
                general(values)
                return
            for k in read:
                if values[k].data.source is not None:
                    general(values)
                    return
            grid = self.blocks(code.form, size)
            words: list[Any] = [0]
            for k in inputs:
                words.append(values[k].data.address)
            words += numbers
            for k, more in targets:
                words.append(values[k].data.address)
                words += more
            temporary = []
            for number, t, lanes, reduced, nbytes in results:
                if reduced:
                    temporary.append(allocate(8 * grid))
                    words.append(temporary[-1].address)
                b = allocate(nbytes)
                words.append(b.address)
                values[number] = make(BUFFER, t, lanes, (), b)
            self.launches += 1
            self.queue(code, self.pack(*words) + last, size, grid)

        return run

    def blocks(self, form: Any, size: int) -> int:
        """Returns the number of blocks of a launch."""
        device: Any = self.device
        blocks = -(-size // form.threads)
        return min(blocks, form.each * device.multiprocessors) if form.strides else blocks

    def queue(
        self, code: Code, block: bytes, size: int, grid: int, largest: int = 0, record: Any = None,
        keep: Any = None,
    ) -> None:  # fmt: skip
        """Queues the launch of `grid` blocks with a parameter block, and that of the entry that
        finishes over the largest number of accumulators. `size` is for the log and the history."""
        device: Any = self.device
        queue, form = device.queue, code.form
        threads = (form.threads, 1, 1)
        watched = flags.current & _HISTORY
        time = Duration(device) if watched or len(self.measured) < MEASURED else None
        keep = keep or self
        queue.launch(code.entry, (grid, 1, 1), threads, block, form.shared, self.name, record, keep)
        if code.finish and largest:
            blocks = min(-(-largest // form.threads), EACH * device.multiprocessors)
            queue.launch(code.finish, (blocks, 1, 1), threads, block, 0, self.name, None, keep)
        if time is not None:
            time.end.record()
            if len(self.measured) < MEASURED:
                self.measured.append(time)
            if watched:
                history.add(self, size, "compiled", time)
        if log.level >= 3:
            log.log(
                log.LogLevel.Info,
                "kernel %s: launched, %d lanes, %d blocks of %d threads",
                self.name, size, grid, form.threads,
            )  # fmt: skip

    # ---- Code

    def compile(self) -> Code:
        """Returns the machine code, from the disk cache or compiled from the text."""
        device: Any = self.device
        start = time.perf_counter()
        contract = bool(flags.current & JitFlag.FastMath)
        setting = flags.current & self.depends
        key = cache.digest(self.text, "cuda", contract, setting, self.words, device.image_kind())
        entry, code = cache.get(key), None
        if entry is not None:
            try:
                code, self.state = Code(device, *_decoded(entry.code)), "disk"
            except Exception as error:  # a damaged entry is compiled again
                log.log(log.LogLevel.Warn, "cache entry %s cannot be loaded (%s)", key, error)
        if code is None:
            form = self.lowered(contract, bool(setting))
            image = device.assemble(form.code, self.name)
            form = form._replace(code="")
            code, self.state = Code(device, form, image), "memory"
            cache.put(key, self.text, _encoded(form, image), bool(form.finish))
        self.codes[setting] = code
        self.seconds = time.perf_counter() - start
        self.made_at = self.launches
        self.tell_of_code()
        return code

    def lowered(self, contract: bool, reduced: bool = False) -> Any:
        """Returns the kernel as PTX, with how it is launched."""
        from drjit.jit.target import cuda

        device: Any = self.device
        return cuda.compile(self.text, self.name, self.words, contract, device.capability, reduced)

    # ---- Debug mode

    def _on_numpy(
        self, size: int, inputs: list, literals: list, checks: Sequence, targets: Sequence,
        record: Any,
    ) -> list[Buffer | None]:  # fmt: skip
        """Runs the text as Python on copies of what it reads, for debuggers."""
        device: Any = self.device
        device.drain()

        written: dict[Buffer, np.ndarray] = {}

        def changed(e: Any) -> np.ndarray:
            if e.buffer not in written:
                written[e.buffer] = device.download(e.buffer, e.dtype, elements(e.dtype, e.size))
            return written[e.buffer]

        def made(t: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
            values = np.empty(n, t.numpy)
            return values, values

        p, results = as_python(
            self.program,
            size,
            (inputs, literals, checks, targets, record),
            lambda t, n, b: device.download(b, t, n),
            changed,
            made,
        )
        if self.state == "new":
            self.state = "numpy"
        start = time.perf_counter()
        debug.run(self.text, self.name, p, size)
        if flags.current & _HISTORY:
            history.add(self, size, "numpy", time.perf_counter() - start)
        for buffer, values in written.items():
            device.write(buffer, values)
        if record is not None:
            device.queue.report(record)
        return [None if values is None else device.upload(values) for values in results]


def _encoded(form: Any, image: bytes) -> bytes:
    """Returns machine code with how it is launched, for the disk cache."""
    return json.dumps(form).encode() + b"\n" + image


def _decoded(code: bytes) -> tuple[Any, bytes]:
    from drjit.jit.target.cuda.form import Compiled

    head, _, image = code.partition(b"\n")
    return Compiled(*json.loads(head)), image


def for_program(device: Any, text: str, program: Program) -> CudaKernel:
    """Returns the kernel of a program and its text. There is one for each text and way to launch
    it, because the text does not show parameters that nothing reads."""
    layout = layout_of(program)
    key = text, layout, *[(o.kind, o.dtype) for o in program.outputs]
    found = device.made.get(key)
    if found is None:
        found = device.made[key] = CudaKernel(device, text, layout, program)
    return found
