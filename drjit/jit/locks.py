"""The lock of the package, what its own threads may do, and forks. docs/concurrency.md has the
rules, and says why no thread waits for ever.

The threads of a program share one lock, which is reentrant. The package has threads of its own, for
compiling and for writing the disk cache: they never take it, and run no code of the program.
"""

import _thread
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

CHECKED = os.environ.get("DRJIT_CHECK_LOCKS", "0") not in ("", "0")
"""Whether the rules are checked: whoever breaks one gets a `LockError`."""
IMPORT_SECONDS = 5.0
"""How long a fork waits for other threads that import modules of the package."""

own_threads: set[int] = set()
"""The identifiers of the package's own threads, while they are at work: they run no code of the
program then, as the collector is paused."""


class LockError(RuntimeError):
    """A rule of docs/concurrency.md was broken."""


_Reentrant: Any = _thread.RLock  # type checkers take it for final


class CheckedLock(_Reentrant):
    """A reentrant lock that checks the rules. The base class releases it, since an interrupt may
    end any function written in Python before its first statement."""

    def __init__(self) -> None:
        self._stack: list[str] = []  # of whoever holds it

    def acquire(self, *options: Any) -> bool:
        if is_own_thread():
            holder = "".join(self._stack) or "nobody\n"
            raise LockError(
                "a thread of the package takes the program's lock, which is held by\n"
                f"{holder}It may only be taken by threads of the program."
            )
        if not self._is_owned() and (held := _leaves.get(threading.get_ident())):
            raise LockError(f"the program's lock is taken while {held[-1]} is held")
        before = times_held()
        try:
            super().acquire(*options)
            self._stack = _stack()
        except BaseException:  # an interrupt, perhaps after it was acquired
            if times_held() > before:
                self.release()
            raise
        return True

    def __enter__(self) -> bool:
        return self.acquire()


def _stack() -> list[str]:
    """Returns where the caller was called, innermost last. It needs no module, as it also runs in
    the middle of imports."""
    frame, rows = sys._getframe(2), []
    while frame and len(rows) < 12:
        code = frame.f_code
        rows.append(f'  File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}\n')
        frame = frame.f_back
    return rows[::-1]


lock: Any = CheckedLock() if CHECKED else threading.RLock()
"""What threads of the program hold while they evaluate, launch, or change tables that others use.
Reentrant: finalizers and handlers of signals run anywhere, and may evaluate."""
is_held: Callable[[], bool] = lock._is_owned
"""Whether this thread holds it."""


def times_held() -> int:
    """Returns how often this thread has acquired the lock."""
    return int(repr(lock).partition("count=")[2].split()[0]) if is_held() else 0


traversals = 0
"""How often the lock was acquired for traversals of the derivative graph; only its holder changes
this."""


class released:
    """A block of statements without the lock, where a traversal of the derivative graph calls code
    of the program or of others. If this thread holds the lock for anything else as well, it keeps
    it: a finalizer may differentiate in the middle of an evaluation."""

    __slots__ = ("_state", "_traversals")

    def __enter__(self) -> None:
        global traversals
        self._state, self._traversals = None, traversals
        count = times_held()
        if 0 < count <= traversals:
            self._state = count, threading.get_ident()
            traversals = 0
            try:
                lock._release_save()
            except BaseException:  # an interrupt
                self.__exit__()
                raise

    def __exit__(self, *_: object) -> None:
        global traversals
        if self._state is not None:
            if not is_held():
                lock._acquire_restore(self._state)
            traversals = self._traversals


_leaves: dict[int, list[str]] = {}
IMPORT = "the lock of the module "

due: dict[Callable[[], None], None] = {}
"""Functions that wait for something, to be called once this thread, or another one, no longer
holds the lock."""


def catch_up() -> None:
    """Calls what is due, unless this thread holds the lock."""
    while due and not is_held():
        for wait in list(due):
            due.pop(wait, None)
            wait()


class leaf:
    """A block of statements that holds another lock, a leaf in the order of locks: checks that no
    other lock is taken inside, unless the one held is that of a module that is being imported."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        if CHECKED:
            held = _leaves.setdefault(threading.get_ident(), [])
            if held and held[-1] != self.name and not held[-1].startswith(IMPORT):
                raise LockError(f"{self.name} is taken while {held[-1]} is held")
            held.append(self.name)

    def __exit__(self, *_: object) -> None:
        if CHECKED:
            _leaves[threading.get_ident()].pop()


def check_wait(what: str) -> None:
    """Checks that this thread may wait for a job or a task."""
    if is_own_thread():
        raise LockError(f"a thread of the package waits for {what}")
    if held := _leaves.get(threading.get_ident()):
        raise LockError(f"a thread waits for {what} while {held[-1]} is held")


def is_own_thread() -> bool:
    """Returns whether the calling thread is one of the package's own."""
    return threading.get_ident() in own_threads


class own_thread:
    """The statements of one of the package's own threads that run while the collector is paused."""

    def __enter__(self) -> None:
        own_threads.add(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        own_threads.discard(threading.get_ident())


# ---- Native code that takes long

in_native: set[int] = set()
"""The package's own threads that are inside of such code."""
ending = False
"""Whether the process is about to end."""


class native_call:
    """A block of statements that calls native code which may take long. No thread comes back from
    there once the process is about to end."""

    def __enter__(self) -> None:
        if is_own_thread():
            in_native.add(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        if threading.get_ident() in in_native:
            if ending:
                still = threading.Lock()
                still.acquire()
                still.acquire()
            in_native.discard(threading.get_ident())


# ---- Forks

settle_hooks: list[Callable[[], None]] = []
"""Functions that wait for what a child would miss, such as work of other threads."""
settled_hooks: list[Callable[[], bool]] = []
"""Functions that return whether there is nothing to wait for, called with the lock held."""
stop_hooks: list[Callable[[], None]] = []
"""Functions that stop the package's own threads, called with the lock held."""
resume_hooks: list[Callable[[bool], None]] = []
"""Functions to go on with after a fork, called with the lock held; with True in the child."""
_forking = False  # whether the lock is held for a fork


def _before_fork() -> None:
    global _forking
    if is_own_thread():  # which would wait for itself
        return
    while True:
        _await_imports()
        for wait in settle_hooks:
            wait()
        lock.acquire()
        if all(settled() for settled in settled_hooks):
            break
        lock.release()
    _forking = True
    for end in stop_hooks:
        end()


def _after_fork(in_child: bool) -> None:
    global _forking
    if not in_child and not _forking:
        return
    if in_child and not is_held():  # an interrupt has ended the wait for it
        lock._at_fork_reinit()
        lock.acquire()
    _forking = False
    try:
        for go_on in resume_hooks:
            go_on(in_child)
    finally:
        lock.release()


def _await_imports() -> None:
    """Waits until no other thread is importing a module of the package: a child would have only a
    part of the module, and its lock would stay locked. The wait is limited, as an import may wait
    for what this thread holds."""
    end = time.monotonic() + IMPORT_SECONDS
    while module_being_imported(threading.get_ident().__ne__) and time.monotonic() < end:
        time.sleep(1e-3)


def module_being_imported(by: Callable[[int], bool]) -> str | None:
    """Returns the name of a module of the package that is being imported by a thread whose
    identifier `by` accepts, if there is one."""
    table: dict[str, Any] = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    for name, reference in list(table.items()):
        if name.partition(".")[0] == __name__.partition(".")[0]:
            owner = getattr(reference(), "owner", None)
            if owner is not None and by(owner):
                return name
    return None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(False),
        after_in_child=lambda: _after_fork(True),
    )
