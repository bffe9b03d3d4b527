"""Background work: threads that compile kernels while the program goes on.

Work that something waits for comes first. Threads end when nothing is left to do. While there are
any, the collector is paused: these threads run no code of the program, so a thread that waits for
them never waits for itself. Forks wait for the work that is under way; what has not begun is left
to both processes. The end of the process waits for little of it: see `shut_down`.
"""

import _thread
import contextlib
import ctypes
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from .. import collector, locks

MOST_THREADS = 8  # threads
SWITCH = 1e-3
"""The interpreter's switch interval in seconds while there are threads. A short one lets the
program continue sooner after it has released the interpreter for a moment."""
END_SECONDS = 0.4
"""How long the end of the process waits for what later processes can use, and again for threads to
stand still."""

# Each operation on these is atomic, so they need no lock, which a finalizer or an interrupt might
# find locked.
_urgent: deque["Task"] = deque()
_others: deque["Task"] = deque()
_unfinished: set["Task"] = set()
_threads: list[object] = []  # an object for each
_program_interval: float | None = None  # the program's switch interval while ours is in force
_forking = False
_ended = False  # whether the process is about to end


class Task:
    """A piece of work."""

    __slots__ = ("_error", "_over", "_value", "_work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work
        self._value: Any = None
        self._error: BaseException | None = None
        self._over = threading.Lock()
        self._over.acquire()

    def done(self) -> bool:
        """Returns whether the task has ended."""
        return self._work is None

    def wait(self) -> None:
        """Waits until the task has ended; runs it here if no thread will."""
        locks.check_wait("a task")
        if _ended:
            if self._withdraw():
                self.run()
            return
        _restart()  # in a child
        with self._over:
            pass

    def hurry(self) -> None:
        """Moves the task ahead of work that nothing waits for."""
        if self in _others and self._withdraw():
            _urgent.append(self)
            _restart()  # the thread that would have taken it may be about to leave

    def _withdraw(self) -> bool:
        """Removes the task from the queues; returns whether it was still there."""
        for queue in (_urgent, _others):
            with contextlib.suppress(ValueError):
                queue.remove(self)
                return True
        return False

    def result(self) -> Any:
        """Waits until it has ended, and returns the result of the work, or raises its error."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def run(self) -> None:
        """Does the work."""
        try:
            assert self._work is not None
            self._value = self._work()
        except BaseException as error:
            self._error = error
        self._work = None
        _unfinished.discard(self)
        self._over.release()


def submit(work: Callable[[], Any], threads: int = 1, urgent: bool = False) -> Task | None:
    """Queues work, for which there may be up to `threads` threads; `urgent` work comes first.
    Returns None if no thread can be started."""
    task = Task(work)
    return task if enqueue(task, threads, urgent) else None


def enqueue(task: Task, threads: int = 1, urgent: bool = False) -> bool:
    """Queues a task that its owner has to know before it begins; returns whether it will run."""
    if _ended:
        return False
    _unfinished.add(task)
    (_urgent if urgent else _others).append(task)
    is_full = len(_threads) >= min(threads, MOST_THREADS)
    if not is_full and not _start() and not _threads and task._withdraw():
        _unfinished.discard(task)
        return False
    return True


def finish() -> None:
    """Waits for all work submitted so far, and for the work that this submits."""
    while tasks := list(_unfinished):
        for task in tasks:
            task.wait()


def _restart() -> None:
    """Starts a thread if there is work, but no thread to do it."""
    if (_urgent or _others) and not _threads:
        _start()


def _start() -> bool:
    """Starts a thread; returns whether that was possible."""
    global _program_interval
    if _forking:  # see `_resume`
        return True
    thread = object()
    try:
        _threads.append(thread)
        collector.pause(thread)
        if _program_interval is None and sys.getswitchinterval() > SWITCH:
            _program_interval = sys.getswitchinterval()
            sys.setswitchinterval(SWITCH)
        # Not a thread of `threading`: its start waits, and so does the end of the process for it.
        _thread.start_new_thread(_work, (thread,))
    except BaseException as error:
        _unregister(thread)
        if isinstance(error, RuntimeError):  # the process is ending, or has too many threads
            return False
        raise
    return True


def _work(thread: object) -> None:
    """The life of a thread."""
    with locks.own_thread():
        while True:
            while task := _next():
                collector.pause_again()
                task.run()
                del task  # and what it keeps alive
            _drop(thread)
            # From here on, work that is submitted has another thread started.
            if _ended or _forking or not (_urgent or _others):
                break
            _threads.append(thread)
    _unregister(thread)


def _next() -> Task | None:
    """Returns the next task, if this thread is to go on."""
    if not (_ended or _forking):
        for queue in (_urgent, _others):
            with contextlib.suppress(IndexError):
                return queue.popleft()
    return None


def _drop(thread: object) -> None:
    with contextlib.suppress(ValueError):
        _threads.remove(thread)


def _unregister(thread: object) -> None:
    """Unregisters a thread, and restores the switch interval if it was the last one."""
    global _program_interval
    _drop(thread)
    before, is_ours = _program_interval, sys.getswitchinterval() == SWITCH
    # Python lets no other thread run between the test and the call.
    if not _threads and before is not None:
        _program_interval = None
        if is_ours:  # the program has not set another one
            sys.setswitchinterval(before)
    collector.end_pause(thread)


# ---- Forks, the end of the process


def _stop() -> None:
    """Makes all threads end after their current tasks."""
    global _forking
    _forking = True
    while _threads and not _ended:
        time.sleep(1e-3)


def _resume(in_child: bool) -> None:
    global _forking
    _forking = False
    if in_child:
        for thread in _threads:  # after an interrupted wait for them
            collector.end_pause(thread)
        _threads.clear()
        locks.own_threads.clear()
    else:
        _restart()


locks.stop_hooks.append(_stop)
locks.resume_hooks.append(_resume)


def shut_down() -> None:
    """Lets the process end. Work that is not done soon is dropped, or goes on until the process has
    ended. By then, threads are inside of LLVM, or stand still as soon as they return from there:
    none may hold a lock of Python's, or be half-way through writing a file."""
    global _ended
    start = time.monotonic()
    try:
        while _threads and time.monotonic() < start + END_SECONDS:
            time.sleep(1e-3)
    except KeyboardInterrupt:
        pass  # the user does not want to wait
    _ended = locks.ending = True
    try:
        while len(_threads) > len(locks.in_native) and time.monotonic() < start + 2 * END_SECONDS:
            time.sleep(1e-3)
    except KeyboardInterrupt:
        pass
    libc: Any = ctypes.CDLL(None) if locks.in_native and sys.platform != "win32" else None
    if hasattr(libc, "on_exit"):
        # The C library calls these two in reverse order: all files are written, and the process
        # ends before LLVM's tables are destroyed, which a thread may be reading.
        for name in ("_exit", "fcloseall"):
            libc.on_exit(getattr(libc, name), None)
