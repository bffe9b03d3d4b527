"""Work that a program does not wait for, one piece at a time in a thread of its own."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

_executor: "Executor | None" = None
_last: "Future | None" = None


def submit(work: Callable[[], Any]) -> "Future | None":
    """Hands work over; the result says when it is done. Gives None, and does nothing, while there
    is other work, for which the end of the process waits, and where there can be no thread."""
    global _executor, _last
    if _last is not None and not _last.done():
        return None
    try:
        if _executor is None:
            from concurrent.futures import ThreadPoolExecutor  # slow to import

            _executor = ThreadPoolExecutor(1, "drjit")
        _last = _executor.submit(work)
    except RuntimeError:  # the process ends, or has as many threads as it may have
        _executor = None
        return None
    return _last


def finish() -> None:
    """Waits for what was handed over."""
    if _last is not None:
        _last.exception()


def _forget() -> None:
    """In a forked process, which does not have the thread."""
    global _executor, _last
    _executor = _last = None


if hasattr(os, "register_at_fork"):  # locks that the work holds would stay locked
    os.register_at_fork(before=finish, after_in_child=_forget)
