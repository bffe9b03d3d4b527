"""A driver without a GPU: its memory is that of the process, and launches interpret PTX.

Work is done immediately by the thread that queues it. With `delayed`, it waits until somebody asks
for it, as on a slow GPU, so that memory which is reused too early shows up as wrong results. As on
a GPU, a launch that fails is reported by a later call; unlike there, later calls work again.
"""

import ctypes
import itertools
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from .. import collector, locks
from ..target.cuda.plan import shared_limit
from .driver import CudaError, DeviceAttribute, Driver

VERSION = 13000
_MULTIPROCESSORS = 2
_ALIGNMENT = 256
_DEFAULT_STREAM = 0
_DEFAULT_STREAMS = (0, 1, 2)  # the legacy one under two names, and that of the thread


class EmulatedDriver(Driver):
    """One emulated device of compute capability `capability`, with `limit` bytes of memory or as
    much as the system has. `emulator` interprets PTX: `drjit.jit.cuda.emulator`, or an object with
    the same names."""

    name = "emulator"
    emulated = True

    def __init__(
        self,
        capability: tuple[int, int] = (9, 0),
        limit: int | None = None,
        delayed: bool = False,
        emulator: Any = None,
    ) -> None:
        self.emulator: Any = emulator or import_module(".emulator", __package__)
        self.capability, self.limit, self.delayed = capability, limit, delayed
        self._max_shared = shared_limit(capability)
        self.memory = self.emulator.Memory(limit)
        self._handles = itertools.count(16)
        self._objects: dict[int, Any] = {}
        self._blocks: dict[int, tuple[str, int]] = {}  # address: kind, bytes
        self._queues: dict[int, deque[Callable[[], None]]] = {
            stream: deque() for stream in _DEFAULT_STREAMS
        }
        self._events: dict[int, tuple[int, list[int | None]]] = {}  # stream, [time in ns]
        self._error: CudaError | None = None
        self._lock = locks.lock

    # ---- Devices

    def version(self) -> int:
        return VERSION

    def device_count(self) -> int:
        return 1

    def device_name(self, ordinal: int) -> str:
        return "emulated"

    def device_attribute(self, ordinal: int, attribute: DeviceAttribute) -> int:
        major, minor = self.capability
        return {
            DeviceAttribute.MULTIPROCESSORS: _MULTIPROCESSORS,
            DeviceAttribute.CAPABILITY_MAJOR: major,
            DeviceAttribute.CAPABILITY_MINOR: minor,
            DeviceAttribute.MAX_SHARED_PER_BLOCK_OPTIN: self._max_shared,
        }[attribute]

    def open(self, ordinal: int) -> None:
        """Does nothing: there is one device."""

    def memory_info(self) -> tuple[int, int]:
        total = self.limit
        if total is None:
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return max(total - self.memory.used, 0), total

    # ---- Memory

    def allocate(self, nbytes: int) -> int:
        self._raise_error()
        try:
            address = self.memory.allocate(nbytes, name="device memory")
        except (MemoryError, self.emulator.EmulatorError) as error:
            text = str(error) or "out of memory"
            raise CudaError("CUDA_ERROR_OUT_OF_MEMORY", text, "allocate", 2) from None
        self._blocks[address] = "device", nbytes
        return address

    def allocate_host(self, nbytes: int) -> int:
        self._raise_error()
        owner = np.empty(nbytes + _ALIGNMENT, np.uint8)
        address = -(-owner.ctypes.data // _ALIGNMENT) * _ALIGNMENT
        self.memory.adopt(address, nbytes, owner)
        self._blocks[address] = "host", nbytes
        return address

    def release(self, address: int) -> None:
        for stream in list(self._queues):
            self._finish(stream)
        if self._blocks.get(address, ("",))[0] != "device":
            raise CudaError("CUDA_ERROR_INVALID_VALUE", "no such memory", "release", 1)
        del self._blocks[address]
        self.memory.release(address)

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self._queue(stream, lambda: ctypes.memmove(to, source, nbytes))

    def fill(self, to: int, value: int, width: int, count: int, stream: int) -> None:
        bits = value.to_bytes(width, "little")
        self._queue(stream, lambda: ctypes.memmove(to, bits * count, width * count))

    def pointer(self, address: int) -> tuple[str, int] | None:
        for start, (kind, nbytes) in list(self._blocks.items()):
            if start <= address < start + nbytes:
                return kind, 0
        return None

    # ---- Code

    def load(self, image: bytes) -> int:
        self._raise_error()
        try:
            module = self.emulator.Module(image.decode(), self.memory)
        except (self.emulator.EmulatorError, UnicodeDecodeError) as error:
            raise CudaError("CUDA_ERROR_INVALID_PTX", str(error), "load", 218) from error
        return self._new_handle(module)

    def unload(self, module: int) -> None:
        del self._objects[module]

    def function(self, module: int, name: str) -> int:
        entry = self._objects[module].entries.get(name)
        if entry is None:
            raise CudaError("CUDA_ERROR_NOT_FOUND", "named symbol not found", "function", 500, name)
        return self._new_handle([entry, 48 << 10])

    def set_dynamic_shared(self, function: int, nbytes: int) -> None:
        entry = self._objects[function][0]
        if nbytes + entry.shared_bytes > self._max_shared:
            raise CudaError(
                "CUDA_ERROR_INVALID_VALUE", f"more than {self._max_shared} bytes of shared memory",
                "set_dynamic_shared", 1,
            )  # fmt: skip
        self._objects[function][1] = nbytes + entry.shared_bytes

    def tensor_map(
        self, address: int, shape: Sequence[int], strides: Sequence[int], box: Sequence[int]
    ) -> bytes:
        try:
            return self.emulator.tensor_map(address, shape, strides, box)
        except self.emulator.EmulatorError as error:
            raise CudaError("CUDA_ERROR_INVALID_VALUE", str(error), "tensor_map", 1) from error

    def launch(
        self, function: int, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int,
        stream: int, parameters: bytes, name: str = "",
    ) -> None:  # fmt: skip
        entry, dynamic = self._objects[function]
        threads = block[0] * block[1] * block[2]
        problem = ""
        if not 0 < threads <= 1024 or min(grid) < 1:
            problem = f"a grid of {grid} blocks of {block} threads"
        elif shared + entry.shared_bytes > dynamic:
            problem = f"{shared} bytes of dynamic shared memory"
        elif len(parameters) != entry.parameter_bytes:
            problem = f"{len(parameters)} bytes of parameters instead of {entry.parameter_bytes}"
        if problem:
            raise CudaError("CUDA_ERROR_INVALID_VALUE", problem, "launch", 1, name)

        def run() -> None:
            try:
                entry.launch(grid, block, parameters, shared=shared, conflicts=False)
            except self.emulator.EmulatorError as error:
                if self._error is None:
                    failed = CudaError("CUDA_ERROR_LAUNCH_FAILED", str(error), "launch", 719, name)
                    failed.__cause__ = error
                    self._error = failed

        self._queue(stream, run)

    # ---- Streams and events

    def create_stream(self) -> int:
        stream = next(self._handles)
        self._queues[stream] = deque()
        return stream

    def destroy_stream(self, stream: int) -> None:
        self._finish(stream)
        del self._queues[stream]

    def synchronize(self, stream: int) -> None:
        self._finish(stream)
        self._raise_error()

    def done(self, stream: int) -> bool:
        ended = self._step(stream)
        self._raise_error()
        return ended

    def wait_for(self, stream: int, event: int) -> None:
        other, times = self._events[event]

        def wait() -> None:
            while times[0] is None and not self._step(other):
                pass

        self._queue(stream, wait)

    def create_event(self, timing: bool = False) -> int:
        event = next(self._handles)
        self._events[event] = _DEFAULT_STREAM, [0]
        return event

    def destroy_event(self, event: int) -> None:
        del self._events[event]

    def record(self, event: int, stream: int) -> None:
        times: list[int | None] = [None]
        self._events[event] = stream, times

        def note() -> None:
            times[0] = time.perf_counter_ns()

        self._queue(stream, note)

    def reached(self, event: int) -> bool:
        stream, times = self._events[event]
        if times[0] is None:
            self._step(stream)
        self._raise_error()
        return times[0] is not None

    def elapsed(self, start: int, end: int) -> float:
        first, last = [self._events[e][1][0] for e in (start, end)]
        if first is None or last is None:
            raise CudaError("CUDA_ERROR_NOT_READY", "an event is not reached", "elapsed", 600)
        return (last - first) * 1e-6

    # ---- Queues

    def _new_handle(self, thing: Any) -> int:
        handle = next(self._handles)
        self._objects[handle] = thing
        return handle

    def _queue(self, stream: int, work: Callable[[], Any]) -> None:
        with self._lock:
            self._raise_error()
            if self.delayed:
                self._queues[stream].append(work)
            else:
                self._execute(work)

    def _step(self, stream: int) -> bool:
        """Does the first work of a stream; returns whether none is left."""
        with self._lock:
            queue = self._queues[stream]
            if queue:
                self._execute(queue.popleft())
            return not queue

    def _execute(self, work: Callable[[], Any]) -> None:
        """Does a piece of work; no finalizer runs in the middle of it, as what it queues comes
        later."""
        with collector.paused():
            work()

    def _finish(self, stream: int) -> None:
        while not self._step(stream):
            pass

    def _raise_error(self) -> None:
        """Raises the error of an earlier launch."""
        error, self._error = self._error, None
        if error is not None:
            raise error
