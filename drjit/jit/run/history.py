"""The history of launched kernels, recorded if `JitFlag.KernelHistory` is set. Launches on all
devices and in all tiers come here, also for the `sink` of a report."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from .. import flags
from ..tuples import NamedTuple
from . import events


class WholeOperation(NamedTuple):
    """An operation that may take several launches: its kind, and the number of entries."""

    kind: str
    size: int


class Launch(NamedTuple):
    """One launch: its kernel, size, tier, and its time, either in seconds or as an object that will
    have it as `last`, in nanoseconds.

    `first` says whether the kernel was compiled or loaded for this launch, or the launch waited for
    that; `rendering` how many seconds making the text took, if that was for this launch; `mode`
    whether a frozen function recorded or replayed it. Launches of one operation have the same
    `whole`. The text is the one that people see.
    """

    kernel: Any
    size: int
    tier: str
    time: Any
    state: str
    first: bool
    rendering: float
    mode: str
    whole: WholeOperation | None
    text: str


class _Now(threading.local):
    mode = "Inactive"
    whole: WholeOperation | None = None
    text: tuple[Any, str] = None, ""  # of a kernel that is about to be launched


now = _Now()
"""The operation that this thread's launches belong to."""

launches: list[Launch] = []
_HISTORY = int(flags.JitFlag.KernelHistory)
OBSERVED = _HISTORY | int(flags.JitFlag.Record)
"""Flags under which launches are to be recorded here."""


def add(kernel: Any, size: int, tier: str, time: Any) -> None:
    """Records a launch."""
    number = kernel.launches
    rendering = kernel.rendering if number == 1 else 0.0
    # What an operation reads may be computed on the way, by kernels of programs.
    whole = now.whole if kernel.program is None else None
    launch = Launch(
        kernel, size, tier, time, kernel.state, number == kernel.compiled_at, rendering, now.mode,
        whole, now.text[1] if now.text[0] is kernel else kernel.text,
    )  # fmt: skip
    if flags.current & _HISTORY:
        launches.append(launch)
    if (sink := events.sink) is not None:
        sink.launched(launch)


def take() -> list[list[Launch]]:
    """Returns the launches since the last call, grouped by operation."""
    taken = launches[:]
    launches.clear()
    found: dict[int, list[Launch]] = {}
    for launch in taken:
        found.setdefault(id(launch if launch.whole is None else launch.whole), []).append(launch)
    return list(found.values())


def one_operation(kind: str, size: Callable[..., int]) -> Callable[[Callable], Callable]:
    """Decorator of functions whose launches of kernel texts form a single operation; `size`
    computes the number of entries from the arguments."""

    def decorator(function: Callable) -> Callable:
        @wraps(function)
        def call(*arguments: Any) -> Any:
            if not flags.current & OBSERVED or now.whole is not None:
                return function(*arguments)
            now.whole = WholeOperation(kind, size(*arguments))
            try:
                return function(*arguments)
            finally:
                now.whole = None

        return call

    return decorator
