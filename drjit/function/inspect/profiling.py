"""Profiler marks: `profile_mark`, `profile_range` and `profile_enable`."""

from ...array.base import type_label
from ...jit import log
from ...jit.cpu import runtime


def profile_mark(arg: str, /) -> None:
    """Writes a mark with the number of launches so far to the log, at level `Debug`.

    >>> dr.profile_mark("scene loaded")
    """
    if not isinstance(arg, str):
        raise TypeError(f"dr.profile_mark(): expected a string, got {type_label(arg)}")
    log.log(log.LogLevel.Debug, "mark %s (%d jobs queued)", arg, runtime.submitted)


class profile_range:
    """Context manager that marks the beginning and the end of a part of a program in the log.

    >>> with dr.profile_range("render"):
    ...     pass
    """

    def __init__(self, arg: str, /) -> None:
        if not isinstance(arg, str):
            raise TypeError(f"dr.profile_range(): expected a name, got {arg!r}")
        self._name = arg

    def __enter__(self) -> None:
        profile_mark(f"{self._name}: begin")

    def __exit__(self, *_: object) -> None:
        profile_mark(f"{self._name}: end")


class profile_enable:
    """Context manager that enables (or disables) marks by changing the log level.

    >>> with dr.profile_enable(False):
    ...     dr.profile_mark("not shown")
    """

    def __init__(self, active: bool = True) -> None:
        self._active = active

    def __enter__(self) -> None:
        self._before = log.level
        limit = log.LogLevel.Debug.value
        log.level = max(log.level, limit) if self._active else min(log.level, limit - 1)

    def __exit__(self, *_: object) -> None:
        log.level = self._before
