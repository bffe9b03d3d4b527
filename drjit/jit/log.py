"""Log messages of the compiler, written to standard error, and Python's warnings.

Hot code tests `log.level >= 3` before it formats anything; `level` holds the number of the current
`LogLevel`.
"""

import enum
import sys
import warnings

from .enumeration import Named
from .ir.location import Location, line_of, user_location


class LogLevel(Named, enum.Enum):
    """How much is logged. Every level includes the previous ones."""

    Disable = 0
    Error = 1
    Warn = 2
    Info = 3
    InfoSym = 4
    Debug = 5
    Trace = 6

    def __int__(self) -> int:
        return self.value


level: int = LogLevel.Warn.value


def set_log_level(arg: LogLevel | int, /) -> None:
    """Sets the level up to which messages are logged.

    Raises:
        TypeError: the argument is neither a level nor an integer.
        ValueError: there is no level of that number.

    >>> set_log_level(LogLevel.Info); log_level()
    LogLevel.Info
    >>> set_log_level(2)
    """
    global level
    if not isinstance(arg, (LogLevel, int)):
        raise TypeError(
            "dr.set_log_level(): incompatible function arguments: expected a dr.LogLevel or its "
            f"number, got {arg!r}"
        )
    level = LogLevel(arg).value


def log_level() -> LogLevel:
    """Returns the current log level."""
    return LogLevel(level)


def log(message_level: LogLevel | int, text: str, *args: object) -> None:
    """Logs `text % args` if the level is enabled."""
    if int(message_level) <= level:
        write(f"drjit: {text % args if args else text}\n")


def write(text: str) -> None:
    """Writes to standard error, as far as there is one: a message never ends a program.

    It is None in services and programs with windows, which `print` takes for standard output.
    """
    if sys.stderr is not None:
        try:
            sys.stderr.write(text)
        except (OSError, ValueError):  # it is closed, or has no such characters
            return


_told: set[tuple] = set()
_registries: dict[str, dict] = {}


def _place(location: Location) -> tuple[str, int]:
    return (location[0].co_filename, line_of(location)) if location else ("?", 0)


def once(text: str, *args: object) -> None:
    """Logs a warning, once for each line of the user's at which it arises: `text` without its
    arguments says what it is about."""
    if level >= LogLevel.Warn.value:
        key = text, *_place(user_location())
        if key not in _told:
            _told.add(key)
            log(LogLevel.Warn, text, *args)


def warn(text: str, location: Location | None = None) -> None:
    """Issues a RuntimeWarning for a line of the user's, by default the one that runs.

    Python's filters decide whether it is shown: by default once for each line, also if numbers in
    the text differ. What it is about is before its first colon.
    """
    file, line = _place(user_location() if location is None else location)
    registry = _registries.setdefault(file, {})
    about = text.partition(":")[0], RuntimeWarning, line
    shown = [k for k in registry if isinstance(k, tuple)]
    if any((k[0].partition(":")[0], *k[1:]) == about for k in shown):
        registry[text, RuntimeWarning, line] = 1  # what Python notes of those that it has shown
    warnings.warn_explicit(text, RuntimeWarning, file, line, registry=registry)
