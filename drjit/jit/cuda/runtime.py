"""The order of work on a device: launches and copies in one stream, what is kept alive until they
have ended, waiting for them, and the events of `drjit.cuda.Event`.

Memory that is freed may be used again by later work at once, because a stream does one thing after
the other. Only what the host reads or writes itself has to wait. Progress is known from markers:
events that are recorded every few launches, and where something waits.
"""

import atexit
import contextlib
import math
import sys
import time
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from .. import device, locks
from ..run import events
from .driver import CudaError, Driver

AHEAD_MS = 50.0
"""How much work may be queued, measured by the time that launches took before. A program that is
faster than the device stays this close to it, which bounds the age of its output and the delay of
reads and Ctrl-C."""
MARKERS = 64  # may be waiting at most, whatever the launches before them take
SPACING = 16  # launches from one marker to the next, fewer if they take long
SPIN_SECONDS = 200e-6  # how long a waiter polls without sleeping in between
_LONGEST_SLEEP = 1e-3
_SHORTEST = 1e-4  # milliseconds of a launch; what events measure may be 0
_EXIT_SECONDS = 1.0


_Entry = list[Any]
"""A launch, or something else to keep alive until the launches before it have ended: its ticket,
its name, what it keeps alive, and its error record. A launch gets its ticket once the driver has
queued it: finalizers may launch and wait meanwhile."""


class Queue:
    """The stream of a device, and what its unfinished work needs.

    The ticket of a launch or copy is its number. `submitted` is the newest one, `completed` the
    newest one known to have ended.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.stream = driver.create_stream()
        self.green = 0  # the green context of the stream, 0 for none
        self.make_room: Callable[[], None] = lambda: None  # gives memory back to the driver
        self.submitted = self.completed = 0
        self.lock = locks.lock
        self._entries: deque[_Entry] = deque()
        self._markers: deque[tuple[int, int]] = deque()  # ticket, event
        self._due = SPACING  # the ticket at which the next marker is due
        self._crowded = False  # whether there may be too many markers
        self._last: tuple[int, int] | None = None  # the newest marker that was reached
        self._events: list[int] = []  # for markers
        self._mean = 1.0  # milliseconds of a launch
        self.errors = device.Errors()
        self._has_told = False  # whether an error that ended the use of the device has been raised
        self.forked = False  # whether this process is a child, which cannot use the driver
        _queues.add(self)

    # ---- Work

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: bytes,
        shared: int = 0,
        name: str = "",
        record: Any = None,
        keep: object = None,
    ) -> int:
        """Queues a launch and returns its ticket; waits if too much is queued.

        `record` and `keep` are kept until it has ended. Then the `check` of the record is called,
        which returns None or an exception for `sync` to raise.
        """
        if self._crowded:
            self.throttle()
        with self.lock:
            entry: _Entry = [math.inf, name, keep, record]
            launch = function, grid, block, shared, self.stream, parameters, name
            self._queue(entry, self.driver.launch, *launch)
            if self.submitted >= self._due:
                self.mark()
        return entry[0]

    def copy(self, to: int, source: int, nbytes: int) -> None:
        """Queues a copy between addresses on the device or in pinned memory."""
        with self.lock:
            self._queue(None, self.driver.copy, to, source, nbytes, self.stream)

    def fill(self, to: int, value: int, width: int, count: int) -> None:
        """Queues writing the bits of a value `count` times, in 1, 2 or 4 bytes each."""
        with self.lock:
            self._queue(None, self.driver.fill, to, value, width, count, self.stream)

    def call_optional(self, function: str, *arguments: Any) -> None:
        """Queues work by another function of the driver, which takes the stream last."""
        with self.lock:
            self._queue(None, self.driver.call_optional, function, *arguments, self.stream)

    def _queue(self, entry: _Entry | None, function: Callable[..., Any], *arguments: Any) -> None:
        """Calls a function of the driver that queues work, and then gives it its ticket. A launch
        may need memory that the driver does not have, such as for what its threads keep there."""
        queued = True
        try:
            # An interrupt may occur anywhere: the entry that keeps memory alive comes first.
            if entry is not None:
                self._entries.append(entry)
            self.call_with_room(function, *arguments)
        except Exception:
            queued = False
            raise
        finally:
            self.submitted += queued
            if entry is not None:
                entry[0] = self.submitted

    def switch_stream(self, stream: int, green: int = 0) -> tuple[int, int]:
        """Sends later work to another stream, that of a green context if there is one, where it
        waits for all that is queued; returns the previous stream and its context."""
        with self.lock:
            before, event = (self.stream, self.green), self.driver.create_event()
            try:
                self.record(event)
                self.call(self.driver.wait_for, stream, event)
            finally:
                self.driver.destroy_event(event)
            self.stream, self.green = stream, green
        return before

    def record(self, event: int) -> None:
        """Moves an event of the driver to the end of the queue."""
        try:
            self.call(self.driver.record, event, self.stream)
        except CudaError as error:
            # An event belongs to the primary context, and the stream of a green context to that.
            # Drivers that tell these apart record the event for the green context.
            if not self.green or error.name != "CUDA_ERROR_INVALID_HANDLE":
                raise
            self.call(self.driver.call_optional, "cuGreenCtxRecordEvent", self.green, event)

    def reached(self, event: int) -> bool:
        """Returns whether the work before an event of the driver has ended."""
        return self.call(self.driver.reached, event)

    def unload(self, module: int) -> None:
        """Unloads a module of the driver when the launches queued so far have ended."""
        self._entries.append([self.submitted, "", _UnloadedModule(self.driver, module), None])

    def retain(self, thing: object) -> None:
        """Keeps an object until the work queued so far has ended."""
        if self.completed < self.submitted:
            self._entries.append([self.submitted, "", thing, None])

    # ---- Waiting

    def drain(self) -> None:
        """Waits for all work, and leaves errors that the checks of launches return for `sync`.

        Raises:
            CudaError: a launch failed.
        """
        ticket = self.submitted
        if self.completed < ticket:
            with self.lock:
                if not self._markers or self._markers[-1][0] < ticket:
                    self.mark()
            self.wait(lambda: self._progress() >= ticket)
        if self._entries:
            self._prune()

    def sync(self) -> None:
        """Waits for all work, and raises the first error in it. An interrupt (Ctrl-C) ends the wait
        with KeyboardInterrupt; loops that have not ended `GRACE_SECONDS` later are stopped."""
        self.drain()
        self.raise_errors()

    def raise_errors(self) -> None:
        """Raises the first error of the launches that have ended."""
        self._progress()
        self._prune()
        self.errors.raise_first()

    def wait(self, over: Callable[[], bool]) -> None:
        """Waits until `over` returns True, with Ctrl-C as in `sync`."""
        events.timed("wait", self._wait, over)

    def _wait(self, over: Callable[[], bool]) -> None:
        try:
            _poll(over)
        except KeyboardInterrupt as interrupt:
            device.stop_loops(interrupt, partial(_poll, over), self._stop_loops)
            raise

    def wait_for_event(self, event: int) -> None:
        """Waits until an event of the driver is reached."""
        self.wait(lambda: self.reached(event))

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function of the driver; see `_explain` for its errors."""
        try:
            return function(*arguments)
        except CudaError as error:
            self._explain(error)
            raise

    def call_with_room(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function of the driver that may need memory: if there is none left, once more
        when what the pool does not use has been given back."""
        try:
            return self.call(function, *arguments)
        except CudaError as error:
            if not error.is_out_of_memory:
                raise
        self.make_room()
        return self.call(function, *arguments)

    def _explain(self, error: CudaError) -> None:
        """An error of the driver may report that an earlier launch failed. Then it gets a note with
        the kernels that it may be, and the queue is emptied."""
        self._has_told = self._has_told or error.is_of_launch
        if error.is_of_launch and (names := self._abandon()):
            error.add_note(f"One of these kernels failed, or several: {', '.join(names)}.")

    # ---- Progress

    def mark(self) -> None:
        """Records a marker after the newest launch."""
        with self.lock:
            event = self._events.pop() if self._events else self.driver.create_event(timing=True)
            ticket = self.submitted  # finalizers may launch while the event is recorded
            self.record(event)
            self._markers.append((ticket, event))
            self._due = self.submitted + max(1, int(min(SPACING, AHEAD_MS / (4 * self._mean))))
            self._crowded = len(self._markers) > 2

    def _progress(self) -> int:
        """Returns the ticket of the newest launch that has ended."""
        with self.lock:
            while self._markers and self.reached((first := self._markers[0])[1]):
                if not self._markers or self._markers[0] is not first:
                    continue  # a finalizer has waited as well
                ticket, event = self._markers.popleft()
                if self._last is not None:
                    before, start = self._last
                    if ticket > before:
                        passed = self.driver.elapsed(start, event) / (ticket - before)
                        self._mean = max(passed, _SHORTEST)
                    self._events.append(start)
                self._last = ticket, event
                self.completed = max(self.completed, ticket)
        return self.completed

    def throttle(self) -> None:
        """Waits until no more is queued than `AHEAD_MS` and `MARKERS` allow; if this thread holds
        the lock, the wait is put off."""
        if locks.is_held():
            locks.due[self.throttle] = None
            return

        def close() -> bool:
            ahead = self.submitted - self._progress()
            markers = len(self._markers)
            return markers <= 2 or (markers < MARKERS and ahead * self._mean <= AHEAD_MS)

        if not close():
            self.wait(close)
        self._crowded = False
        self._prune()

    def _prune(self) -> None:
        """Drops the entries of launches that have ended and calls their checks."""
        if not self._entries:
            return
        done = []
        with self.lock:
            while True:
                # Up to `del`, nothing is called and no loop goes on: no finalizer can do the same.
                if not self._entries or self._entries[0][0] > self.completed:
                    break
                entry = self._entries[0]
                del self._entries[0]
                done.append(entry)
        # Outside the lock, because destructors run foreign code.
        for *_, record in done:
            if record is not None:
                self.errors.check(record.check)

    def _abandon(self) -> list[str]:
        """Forgets all unfinished work after an error; returns the names of the kernels."""
        with self.lock:
            names = dict.fromkeys([name for _, name, *_ in self._entries if name])
            self._entries.clear()
            self._events += [event for _, event in self._markers]
            self._markers.clear()
            self._due, self._crowded = self.submitted + SPACING, False
            self.completed = self.submitted
        return [*names]

    def _stop_loops(self) -> None:
        for ticket, _, _, record in list(self._entries):
            if record is not None and ticket > self.completed:
                record.words[device.STOP_WORD] = 1

    # ---- The end of the process

    def finish(self) -> None:
        """Shows errors that nobody has seen as warnings."""
        told = self._has_told
        try:
            self.mark()
            ticket = self.submitted
            _poll(lambda: self._progress() >= ticket, _EXIT_SECONDS)
            self._prune()
        except RuntimeError as error:
            if not told:
                self.errors.append(error)
        self.errors.warn()

    def disable(self) -> None:
        """Makes the driver unusable, in a forked child, where it does not work."""
        self.forked = True
        self.driver.__class__ = _Forked  # pyright: ignore[reportAttributeAccessIssue]
        self._abandon()
        self.errors.clear()


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


class _UnloadedModule:
    """A module of the driver that ends with this object."""

    def __init__(self, driver: Driver, module: int) -> None:
        self.driver, self.module = driver, module

    def __del__(self) -> None:
        with contextlib.suppress(RuntimeError):  # after an error, or a fork
            self.driver.unload(self.module)


def _poll(over: Callable[[], bool], seconds: float | None = None) -> bool:
    """Polls until the answer is True, or time is up; returns the last answer."""
    start = time.monotonic()
    pause = 20e-6
    while not over():
        passed = time.monotonic() - start
        if seconds is not None and passed > seconds:
            return False
        if passed > SPIN_SECONDS:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_SLEEP)
    return True


class _Forked(Driver):
    """What a driver becomes in a forked child."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(
            "CUDA cannot be used after a fork: start processes with the method 'spawn' "
            "(multiprocessing.get_context('spawn')), or use CUDA only after the fork"
        )


_queues: "weakref.WeakSet[Queue]" = weakref.WeakSet()


@atexit.register
def _at_exit() -> None:
    for queue in list(_queues):
        if not queue.forked:
            queue.finish()


def _after_fork(in_child: bool) -> None:
    if in_child:
        for queue in list(_queues):
            queue.disable()


locks.resume_hooks.append(_after_fork)
