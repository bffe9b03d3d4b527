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
    """Writes to standard error, if there is one: a message never ends a program.

    In services and programs with windows, `sys.stderr` is None, and `print` would take that for
    standard output.
    """
    if sys.stderr is not None:
        try:
            sys.stderr.write(text)
        except (OSError, ValueError):  # it is closed, or cannot encode the text
            return


_logged: set[tuple] = set()
_registries: dict[str, dict] = {}


def _file_and_line(location: Location) -> tuple[str, int]:
    return (location[0].co_filename, line_of(location)) if location else ("?", 0)


def log_once(text: str, *args: object) -> None:
    """Logs a warning once for each line of the user's program that causes it. `text`, without its
    arguments, tells whether two warnings are the same."""
    if level >= LogLevel.Warn.value:
        key = text, *_file_and_line(user_location())
        if key not in _logged:
            _logged.add(key)
            log(LogLevel.Warn, text, *args)


def warn(text: str, location: Location | None = None) -> None:
    """Issues a RuntimeWarning for a line of the user's program, by default the one that runs.

    Python's filters decide whether it is shown: by default once for each line, even if numbers in
    the text differ. The text up to its first colon tells whether two warnings are the same.
    """
    file, line = _file_and_line(user_location() if location is None else location)
    registry = _registries.setdefault(file, {})
    about = text.partition(":")[0], RuntimeWarning, line
    shown = [k for k in registry if isinstance(k, tuple)]
    if any((k[0].partition(":")[0], *k[1:]) == about for k in shown):
        registry[text, RuntimeWarning, line] = 1  # as Python marks the warnings it has shown
    warnings.warn_explicit(text, RuntimeWarning, file, line, registry=registry)
