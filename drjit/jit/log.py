"""Log messages of the compiler, on standard error.

Hot code tests `log.level >= 3` itself before it formats anything; `level` holds the number of the
current `LogLevel`.
"""

import enum
import sys

from .enumeration import Named


class LogLevel(Named, enum.Enum):
    """How much is logged; every level includes the ones before it."""

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
    """Sets which messages are logged.

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
    """The current log level."""
    return LogLevel(level)


def log(message_level: LogLevel | int, text: str, *args: object) -> None:
    """Logs `text % args` if the level is on."""
    if int(message_level) <= level:
        print(f"drjit: {text % args if args else text}", file=sys.stderr)
