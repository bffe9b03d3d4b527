"""Background work, one piece at a time in a separate thread."""

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

_executor: "Executor | None" = None
_last: "Future | None" = None


def submit(work: Callable[[], Any]) -> "Future | None":
    """Submits background work; the future says when it is done. Does nothing and returns None
    while other work is running, which the end of the process waits for, or if no thread can be
    started."""
    global _executor, _last
    if _last is not None and not _last.done():
        return None
    try:
        if _executor is None:
            from concurrent.futures import ThreadPoolExecutor  # slow to import

            _at_fork()
            _executor = ThreadPoolExecutor(1, "drjit")
        _last = _executor.submit(work)
    except RuntimeError:  # the process is ending, or has reached its limit of threads
        _executor = None
        return None
    return _last


def finish() -> None:
    """Waits for submitted work."""
    if _last is not None:
        _last.exception()


def _forget() -> None:
    """Drops the thread in a forked child, where it does not exist."""
    global _executor, _last
    _executor = _last = None


@cache
def _at_fork() -> None:
    """Has forks wait for work, whose locks would stay locked. Functions registered later run
    earlier: the work itself may wait for locks of what was imported before, such as `logging`."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=finish, after_in_child=_forget)
