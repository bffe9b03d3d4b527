"""Events of a GPU's stream: the class of `drjit.cuda.Event`."""

import contextlib
import sys
from typing import Any

from drjit.jit import device
from drjit.jit.cuda.runtime import Queue


class CudaEvent(device.Event):
    """A mark in the stream of a GPU; see `drjit.jit.device.Event`."""

    __slots__ = ("_event",)
    queue: Queue

    def __init__(self, enable_timing: bool = True) -> None:
        super().__init__(enable_timing)
        self._event = self.queue.driver.create_event(enable_timing)

    def record(self) -> None:
        self.queue.mark()  # so that launches before the event are known to have ended with it
        self.queue.record(self._event)
        self._recorded = True

    def query(self) -> bool:
        return self.queue.reached(self._event)

    def wait(self) -> None:
        self.queue.wait_for_event(self._event)
        self.queue.raise_errors()

    def _milliseconds(self, end: "CudaEvent") -> float:
        return self.queue.driver.elapsed(self._event, end._event)

    @property
    def handle(self) -> int:
        return self._event

    def __del__(self, _finalizing: Any = sys.is_finalizing) -> None:
        if hasattr(self, "_event") and not _finalizing():
            # Errors after a fork, or when another one has ended the use of the device.
            with contextlib.suppress(RuntimeError):
                self.queue.driver.destroy_event(self._event)


def event_of(queue: Queue) -> type[CudaEvent]:
    """Returns the class of events in a queue."""
    members = {"__slots__": (), "__doc__": device.Event.__doc__, "queue": queue}
    return type("Event", (CudaEvent,), members)
