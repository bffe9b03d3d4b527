"""What `--threads early` and `--threads late` do. Tests must not depend on how soon other threads
get their turn: with `early`, work that threads were given is over before the test goes on; with
`late`, it has not begun when the test does the next thing."""

import time
from collections.abc import Callable
from typing import Any

from drjit.jit import locks
from drjit.jit.cpu import background, runtime
from drjit.jit.run import cache

PATIENCE, SHORT = 0.5, 0.02
"""Seconds to wait for tasks and for jobs, which may wait for the test itself."""
DELAY = 0.1
"""Seconds by which what is to be late begins, and ends, later."""


def have(threads: str) -> None:
    """Has work of other threads be `early` or `late`, everywhere in this process."""
    if threads == "early":
        background.enqueue = _early(PATIENCE, background.enqueue, lambda _, task, *__: task.done())
        runtime.launch = _early(SHORT, runtime.launch, lambda job, *_: runtime.completed() >= job)
        cache.DELAY = 0.0
    else:
        background.Task.run = _late(background.Task.run)
        cache.DELAY = DELAY


def _early(patience: float, begin: Callable, is_over: Callable) -> Callable:
    def begun(*arguments: Any, **options: Any) -> Any:
        result = begin(*arguments, **options)
        end = time.monotonic() + patience
        while not (locks.is_own_thread() or is_over(result, *arguments) or time.monotonic() > end):
            time.sleep(1e-3)
        return result

    return begun


def _late(work: Callable) -> Callable:
    def done(*arguments: Any) -> Any:
        time.sleep(DELAY)
        return work(*arguments)

    return done
