"""Launching: jobs run strictly in order on worker threads, which share the blocks of each job.

Workers are threads of native code (`launcher.py`), which never need the GIL. An error inside a
kernel, found by the `check` of a launch, is raised by the next `wait` or `sync`, unless it was
raised where the result was read. Forking first waits for the queue; the child starts workers of its
own when it needs them. At exit, workers stop between two blocks.

A kernel that is still being compiled can be launched: its job is *closed*, which holds up those
behind it, until whoever compiles opens it (`open_jobs`), for which no lock is needed.
"""

import atexit
import ctypes
import math
import operator
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from .. import collector, device, frames, locks, log
from ..native import loader
from ..run import events
from . import background, launcher

SPIN_NS = 50_000  # how long an idle worker or a waiter looks for work before it sleeps
_SLICE_US = 50_000  # how long a wait sleeps before it lets Python handle signals
_EXIT_SECONDS = 1.0
AHEAD_NS = 50_000_000
"""How much work may be queued behind the oldest job, measured by the time that kernels took before.
A program that is faster than the machine stays this close to it, which bounds the age of its output
and the delay of reads and Ctrl-C."""
UNKNOWN_NS = AHEAD_NS // 8  # assumed time of a kernel before it has run once
COMPILING_NS = AHEAD_NS // 64  # the same while it is being compiled
AHEAD_JOBS = 2  # may be queued regardless of their duration, so that no worker waits for Python

submitted = 0
"""Number of jobs queued so far, which is the ticket of the newest one."""

lock = locks.lock
_control: Any = None
_address = 0
_thread_count = 0  # 0: not yet determined
unfinished: deque[tuple] = deque()  # (ticket, params, keep, check, expected)
_posting: list[int] = []
"""The tickets of unfinished jobs that are about to be queued: a finalizer may launch something
before that, and get the same."""
_ahead = 0  # the expected time of the unfinished jobs in nanoseconds
_errors = device.Errors()
_failures = device.Errors()  # why kernels could not be compiled
_seats = list(range(launcher.WAITERS))
_native: Any = None  # the functions of the launcher


def not_loaded(*_: Any) -> bool:
    """Stands for functions of native code that are not loaded yet."""
    return False


start: Callable[[int, bytes, int], bool] = not_loaded
"""Runs the `JobEntry` at an address in this thread, over `size` lanes as one block, and returns
True; or returns False if something is queued, or native code is not loaded yet. It is the shortcut
of `launch` for work of a few microseconds that needs nothing to be kept alive."""


def thread_count() -> int:
    """Returns the number of threads that run kernels.

    The default is `DRJIT_NUM_THREADS`, or else the number of CPUs that this process may use.
    """
    global _thread_count
    if not _thread_count:
        wish = os.environ.get("DRJIT_NUM_THREADS", "")
        if wish.isdecimal() and int(wish) > 0:
            count = int(wish)
        else:
            if wish:
                log.log(log.LogLevel.Warn, "DRJIT_NUM_THREADS=%r is no positive number", wish)
            affinity = getattr(os, "sched_getaffinity", None)
            count = len(affinity(0)) if affinity else os.cpu_count() or 1
        _thread_count = min(count, launcher.WORKERS)
    return _thread_count


@frames.guard
def set_thread_count(arg: int, /) -> None:
    """Sets the number of threads that run kernels; 0 and 1 both mean one.

    Waits for queued work first. Raises TypeError if the argument is not an integer, or is negative.
    """
    global _thread_count
    fault = ""
    if not hasattr(arg, "__index__"):
        fault = f"expected an int, got {type(arg).__name__}"
    elif arg < 0:
        fault = f"the number of threads cannot be negative ({arg})"
    if fault:
        raise TypeError(f"set_thread_count(): incompatible function arguments: {fault}.")
    count = min(max(operator.index(arg), 1), launcher.WORKERS)
    while True:
        _await(submitted)
        with lock:
            if _is_idle():
                if count != thread_count():
                    _thread_count = count
                    _stop(None)
                return


def launch(
    entry: Any,
    params: ctypes.Array | bytes | int,
    size: int,
    block: int,
    inline: bool = False,
    keep: object = None,
    check: Callable[[], BaseException | None] | None = None,
    times: int = 0,
    expected: int = 0,
    copies: int = 0,
) -> int:
    """Queues a job and returns its ticket immediately, unless too much is queued.

    `entry` is a `JobEntry` with the functions of a kernel (see docs/kernel-language.md), which may
    not be compiled yet, or None for a job that only takes its turn. `params` is the bytes of a
    parameter block, a ctypes array, or the address of one that `keep` holds. Threads take `block`
    lanes at a time, a multiple of the packet width. `params` and `keep` are kept alive until the
    job is complete. Then `check` is called once, from a Python thread, and returns None or an
    exception for the next `wait` or `sync` to raise. `times` is 0 or the address of a `Times`.
    `expected` is the expected duration of the job in nanoseconds, if known: see `AHEAD_NS`.
    `copies` says how many private copies there are, by default one per thread; with fewer, there
    must be no more blocks than copies.

    With `inline`, the job runs immediately in this thread if nothing is queued. The GIL stays held
    and Ctrl-C waits: this is for work of a few microseconds.
    """
    global submitted, _ahead
    if _ahead > AHEAD_NS:
        throttle()
    place = 0 if entry is None else ctypes.addressof(entry)
    while True:
        with lock:
            control = _control or _prepare()
            threads = copies or control.workers
            idle = inline and control.completed == control.submitted
            if idle and (entry is None or entry.kernel):
                kernel, finish = (entry.kernel, entry.finish) if entry is not None else (0, 0)
                _native.run(_address, kernel, finish, params, size, block, threads, times)
                ticket = submitted
                if check is None and not unfinished:
                    return ticket
                unfinished.append((ticket, params, keep, check, 0))
                break
            if not control.started:
                _start(control)
            # An interrupt may occur anywhere: the entry that keeps memory alive comes first.
            ticket = control.submitted + 1
            job = ticket, params, keep, check, expected
            before = len(_posting)
            try:
                _posting.append(ticket)
                unfinished.append(job)
                _ahead += expected
                posted = _native.post(_address, place, params, size, block, threads, times, ticket)
            finally:
                del _posting[before:]
            if posted > 0:
                submitted = control.submitted
                if unfinished[0][0] > control.completed:
                    return ticket
                break
            unfinished.remove(job)
            _ahead -= expected
        if not posted:  # otherwise, a finalizer has launched something here
            _await(ticket - launcher.JOBS)
    _prune()
    return ticket


def open_jobs(entry: Any, kernel: int, finish: int) -> None:
    """Sets the functions of an entry, and opens its closed jobs. With 0 for the functions, it only
    opens these jobs, which then do nothing."""
    if _control is None and kernel:
        functions = (ctypes.c_int64 * 2).from_address(ctypes.addressof(entry))
        functions[:] = kernel, finish  # at once: another thread may be about to launch
    elif _control is not None:
        _native.open_jobs(_address, ctypes.addressof(entry), kernel, finish)


def fail_jobs(entry: Any, error: BaseException) -> None:
    """Ends the closed jobs of an entry whose kernel cannot be compiled: the next wait raises the
    error."""
    _failures.append(error)
    open_jobs(entry, 0, 0)


def first_closed() -> int:
    """Returns the ticket of the first job that is closed, or 0."""
    return 0 if _control is None else _native.first_closed(_address)


def control() -> Any:
    """Returns the control block of the launcher, if it has run something."""
    return _control


def completed() -> int:
    """Returns the ticket of the newest job that is complete."""
    return submitted if _control is None else _control.completed


def wait(ticket: int) -> None:
    """Waits until a job and all jobs before it are complete.

    Raises the first error reported by kernels completed so far. An interrupt (Ctrl-C) ends the wait
    with KeyboardInterrupt; queued work continues in the background, but loops that have not ended
    `GRACE_SECONDS` later are stopped.
    """
    _await(ticket)
    _prune()
    _failures.raise_first()
    _errors.raise_first()


def sync() -> None:
    """Waits until all jobs are complete, like `wait`."""
    wait(submitted)


forget_error = _errors.forget
"""Suppresses an error that is raised elsewhere; returns whether it had not been raised yet."""


def drain(ticket: int | None = None) -> None:
    """Waits until a job and those before it, or all jobs, are complete, and leaves errors for the
    next `wait` or `sync`; but raises why a kernel could not be compiled.
    """
    last = submitted if ticket is None else ticket
    if _control is not None and _control.completed < last:
        _await(last)
    if unfinished:
        _prune()
    if _failures:  # reads of single entries come here
        _failures.raise_first()


def retain(thing: object) -> None:
    """Keeps an object alive until the jobs queued so far are complete."""
    last = submitted if _control is None else _control.submitted
    if completed() < last:
        unfinished.append((last, None, thing, None, 0))


class Event(device.Event):
    """A mark in the queue of jobs, of the class `drjit.llvm.Event`; see `device.Event`."""

    __slots__ = ("_ticket", "_times")

    def __init__(self, enable_timing: bool = True) -> None:
        super().__init__(enable_timing)
        self._ticket = 0
        self._times = launcher.Times()

    def record(self) -> None:
        self._times = times = launcher.Times()
        if control() is None:
            self._ticket = submitted
            times.start = time.perf_counter_ns()
        else:
            # A job without a kernel, which only writes the time.
            place = ctypes.addressof(times)
            self._ticket = launch(None, 0, 0, 1, True, times, None, place)
        self._recorded = True

    def query(self) -> bool:
        return self._ticket <= completed()

    def wait(self) -> None:
        wait(self._ticket)

    def _milliseconds(self, end: "Event") -> float:
        return (end._times.start - self._times.start) * 1e-6

    @property
    def handle(self) -> int:
        return id(self)


def _prepare() -> Any:
    """Creates the control block and loads the native code, at the first launch. A finalizer in here
    may launch something, which does the same."""
    global _control, _address, _native, start
    native = _native or launcher.Functions()
    control = launcher.new_control(thread_count(), submitted, SPIN_NS)
    address = ctypes.addressof(control)
    begin = loader.bound("start", native.addresses["start"], address)
    if _control is None:  # and stays so, because nothing is called any more
        _native, _address, start = native, address, begin
        _control = control
    return _control


def _start(control: Any) -> None:
    """Starts the workers. If an interrupt in here leads to too many, the surplus ends at once."""
    for index in range(control.workers):
        try:
            launcher.start_thread(_native.addresses["work"], ctypes.addressof(control))
        except RuntimeError as error:
            if not index:
                raise
            log.log(log.LogLevel.Warn, "only %d worker threads could be started (%s)", index, error)
            break
    control.started = 1


def _stop(seconds: float | None) -> bool:
    """Tells the workers to stop; returns whether all have done so within that time."""
    global _control, start
    start = not_loaded
    control = _control
    if control is None:
        return True
    if control.completed == control.submitted:
        _control = None  # what a finalizer launches in here runs on workers of its own
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    _native.halt(ctypes.addressof(control))
    while control.left < control.entered and time.monotonic() < deadline:
        time.sleep(2e-5)
    if _control is control:
        _control = None
    return control.left == control.entered


def _await(ticket: int) -> None:
    """Waits for a ticket with the GIL released, in slices so that Python can handle signals."""
    control = _control
    if control is None or control.completed >= ticket:
        return
    ticket = min(ticket, control.submitted)
    locks.check_wait("a job")
    events.timed("wait", _sleep, control, ticket)


def _sleep(control: Any, ticket: int) -> None:
    """Sleeps until a ticket is complete."""
    address, await_ = ctypes.addressof(control), _native.wait_for
    try:
        seat = _seats.pop()
    except IndexError:
        while control.completed < ticket:
            time.sleep(0.001)
        return
    try:
        while not await_(address, ticket, seat, _SLICE_US):
            collector.catch_up()
    except KeyboardInterrupt as interrupt:
        _stop_loops(ticket, seat, interrupt)
        raise
    finally:
        _seats.append(seat)


def throttle() -> None:
    """Waits until no more is queued than `AHEAD_NS` and `AHEAD_JOBS` allow; if this thread holds
    the lock, the wait is put off."""
    if locks.is_held():
        locks.due[throttle] = None
        return
    _prune()
    while _ahead > AHEAD_NS:
        with lock:
            if len(unfinished) <= AHEAD_JOBS or _ahead - unfinished[0][4] <= AHEAD_NS:
                return
            oldest = unfinished[0][0]
        _await(oldest)
        _prune()


def _stop_loops(ticket: int, seat: int, interrupt: KeyboardInterrupt) -> None:
    """After Ctrl-C, stops the loops of kernels; see `device.stop_loops`."""
    control, await_ = _control, _native.wait_for
    if control is None:
        return
    address = ctypes.addressof(control)
    # Jobs behind a closed one have not begun, and need not be stopped.
    last = (first_closed() or control.submitted + 1) - 1
    ticket = min(ticket, last)

    def ends(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not await_(address, ticket, seat, _SLICE_US):
            if time.monotonic() > deadline:
                return False
        return True

    def stop() -> None:
        for number, params, *_ in list(unfinished):
            if control.completed < number <= last and isinstance(params, ctypes.Array | bytes):
                record = int.from_bytes(bytes(params)[:8], "little")
                if record:
                    ctypes.c_int64.from_address(record + 8 * device.STOP_WORD).value = 1

    device.stop_loops(interrupt, ends, stop)


def prune_complete() -> None:
    """Drops what belongs to jobs that are complete."""
    if unfinished and unfinished[0][0] <= completed():
        _prune()


def _prune() -> None:
    """Drops the entries of complete jobs and calls their checks."""
    global submitted, _ahead
    if not unfinished:  # an interrupted launch has an entry
        return
    done = []
    with lock:
        limit = submitted
        if _control is not None:
            submitted, limit = _control.submitted, _control.completed
        while True:
            # Up to `del`, nothing is called and no loop goes on: no finalizer can do the same.
            if not unfinished or unfinished[0][0] > limit or unfinished[0][0] in _posting:
                break
            job = unfinished[0]
            del unfinished[0]
            _ahead -= job[4]
            done.append(job)
    # Outside the lock, because checks and destructors run foreign code.
    for _, _, _, check, _ in done:
        if check is not None:
            run_check(check)


run_check = _errors.check
"""Calls the check of work that is complete; `wait` or `sync` raises its error."""


@atexit.register
def _at_exit() -> None:
    """Stops the threads that compile, and the workers. If a worker is stuck in a kernel, the memory
    that it uses lives as long as the process. Errors that nobody has seen become warnings."""
    background.shut_down()
    try:
        stopped = _stop(_EXIT_SECONDS)
    except KeyboardInterrupt:
        stopped = False
    if not stopped:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(unfinished))
        return
    while unfinished:
        check = unfinished.popleft()[3]
        if check is not None:
            run_check(check)
    _errors.warn()


def _is_idle() -> bool:
    return completed() >= submitted


def _after_fork(in_child: bool) -> None:
    """Resets the state in a child, which has no workers. If the wait for jobs was interrupted, the
    child loses them."""
    global _control, _seats, start
    if not in_child:
        return
    start = not_loaded
    if _control is not None and _control.completed < _control.submitted:
        _errors.append(RuntimeError("The process was forked while kernels were running."))
    _control = None
    _seats = list(range(launcher.WAITERS))


locks.settle_hooks.append(lambda: _await(submitted))
locks.settled_hooks.append(_is_idle)
locks.resume_hooks.append(_after_fork)
