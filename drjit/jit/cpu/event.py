"""Events of the processor's queue: the class of `drjit.llvm.Event`."""

import ctypes
import time

from drjit.jit import device
from drjit.jit.cpu import launcher, runtime


class Event(device.Event):
    """A mark in the queue of jobs; see `device.Event`."""

    __slots__ = ("_ticket", "_times")

    def __init__(self, enable_timing: bool = True) -> None:
        super().__init__(enable_timing)
        self._ticket = 0
        self._times = launcher.Times()

    def record(self) -> None:
        self._times = times = launcher.Times()
        if runtime.control() is None:
            self._ticket = runtime.submitted
            times.start = time.perf_counter_ns()
        else:
            # A job without a kernel, which only writes the time.
            place = ctypes.addressof(times)
            self._ticket = runtime.launch(None, 0, 0, 1, True, times, None, place)
        self._recorded = True

    def query(self) -> bool:
        return self._ticket <= runtime.completed()

    def wait(self) -> None:
        runtime.wait(self._ticket)

    def _milliseconds(self, end: "Event") -> float:
        return (end._times.start - self._times.start) * 1e-6

    @property
    def handle(self) -> int:
        return id(self)
