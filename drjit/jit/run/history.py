"""The record of launched kernels that `JitFlag.KernelHistory` asks for."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

from .. import flags


class Whole(NamedTuple):
    """An operation that may take several launches: its kind, and the entries that it is about."""

    kind: str
    size: int


class Launch(NamedTuple):
    """One launch: its kernel, size, tier, and either seconds or the runtime's job to ask for them.

    `first` tells whether the kernel was met, compiled or loaded for this launch, `mode` whether a
    frozen function recorded or replayed it; launches of one operation have the same `whole`.
    """

    kernel: Any
    size: int
    tier: str
    time: Any
    state: str
    first: bool
    mode: str
    whole: Whole | None


class _Now(threading.local):
    mode = "Inactive"
    whole: Whole | None = None


now = _Now()
"""What the launches of this thread belong to."""

launches: list[Launch] = []


def add(kernel: Any, size: int, tier: str, time: Any) -> None:
    """Records a launch."""
    first = kernel.launches == kernel.made_at
    # What an operation reads may be computed on the way, by kernels of programs.
    whole = now.whole if kernel.program is None else None
    launches.append(Launch(kernel, size, tier, time, kernel.state, first, now.mode, whole))


def take() -> list[list[Launch]]:
    """The launches since the last call; those of one operation together."""
    taken = launches[:]
    launches.clear()
    found: dict[int, list[Launch]] = {}
    for launch in taken:
        found.setdefault(id(launch if launch.whole is None else launch.whole), []).append(launch)
    return list(found.values())


def one_operation(kind: str, size: Callable[..., int]) -> Callable[[Callable], Callable]:
    """Decorator of functions all of whose launches of kernel texts are one operation, with a number
    of entries that follows from the arguments."""

    def decorator(function: Callable) -> Callable:
        @wraps(function)
        def call(*arguments: Any) -> Any:
            if not flags.current & flags.JitFlag.KernelHistory or now.whole is not None:
                return function(*arguments)
            now.whole = Whole(kind, size(*arguments))
            try:
                return function(*arguments)
            finally:
                now.whole = None

        return call

    return decorator
