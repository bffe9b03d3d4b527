"""Background work: threads that compile kernels while the program goes on.

Work that something waits for comes first. A thread ends when nothing is left to do, so that no end
of a process has to tell it to; Python waits for those that are still at work. Forks wait as well:
in a child, these threads would be gone, and locks that they held would stay locked.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any

MOST = 8  # threads
SWITCH = 1e-3
"""Seconds after which a thread lets another one run Python, while there are threads. The program
gets its turn sooner, whenever it has released the interpreter for a moment."""

_lock = threading.RLock()  # reentrant: the garbage collector may run anything anywhere
_urgent: deque["Task"] = deque()
_others: deque["Task"] = deque()
_unfinished: set["Task"] = set()
_threads: set[int] = set()  # their identifiers
_usual: float | None = None  # the program's switch interval while ours is in force


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
        """Returns whether it has ended."""
        return self._work is None

    def wait(self) -> None:
        """Waits for its end."""
        with self._over:
            pass

    def hurry(self) -> None:
        """Has it done before work that nothing waits for."""
        with _lock:
            if self in _others:
                _others.remove(self)
                _urgent.append(self)

    def result(self) -> Any:
        """Waits for its end, and returns what the work has returned, or raises what it has
        raised."""
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
    """Has work done by one of at most so many `threads`, `urgent` work before all other. Returns
    None if no thread can be started."""
    _at_fork()
    task = Task(work)
    queue = _urgent if urgent else _others
    with _lock:
        queue.append(task)
        _unfinished.add(task)
        if len(_threads) < min(threads, MOST) and not _start() and not _threads:
            queue.remove(task)
            _unfinished.remove(task)
            return None
    return task


def is_own_thread() -> bool:
    """Returns whether the calling thread does background work."""
    return threading.get_ident() in _threads


def finish() -> None:
    """Waits for all work submitted so far, and for what that submits."""
    while _unfinished and not is_own_thread():
        with _lock:
            tasks = [*_unfinished]
        for task in tasks:
            task.wait()


def _start() -> bool:
    """Starts a thread; returns whether that was possible."""
    global _usual
    thread = threading.Thread(target=_work, name="drjit-compiler")
    try:
        thread.start()
    except RuntimeError:  # the process is ending, or has reached its limit of threads
        return False
    _threads.add(thread.ident or 0)
    if _usual is None and sys.getswitchinterval() > SWITCH:
        _usual = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH)
    return True


def _work() -> None:
    while True:
        with _lock:
            if not _urgent and not _others:
                _leave()
                return
            task = (_urgent or _others).popleft()
        task.run()
        del task  # and what it keeps alive


def _leave() -> None:
    """Takes note that the calling thread ends."""
    global _usual
    _threads.discard(threading.get_ident())
    if not _threads and _usual is not None:
        if sys.getswitchinterval() == SWITCH:  # otherwise the program has set another one
            sys.setswitchinterval(_usual)
        _usual = None


def _forget() -> None:
    """Starts anew in a forked child."""
    global _lock
    _lock = threading.RLock()
    for queue in (_urgent, _others, _unfinished, _threads):
        queue.clear()
    _leave()


@cache
def _at_fork() -> None:
    """Has forks wait for work. Functions registered later run earlier: the work itself may wait for
    locks of what was imported before, such as `logging`."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=finish, after_in_child=_forget)
