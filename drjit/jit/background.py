"""Work that a program does not wait for, one piece after the other in a thread of its own."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

_executor: "Executor | None" = None
_last: "Future | None" = None


def submit(work: Callable[[], Any]) -> "Future":
    """Hands work over; the result says when it is done."""
    global _executor, _last
    if _executor is None:
        from concurrent.futures import ThreadPoolExecutor  # slow to import

        _executor = ThreadPoolExecutor(1, "drjit")
    _last = _executor.submit(work)
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
