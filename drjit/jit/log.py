"""Log messages of the compiler, written to standard error.

Hot code tests `log.level >= 3` before it formats anything; `level` holds the number of the current
`LogLevel`.
"""

import enum
import sys

from .enumeration import Named


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
        print(f"drjit: {text % args if args else text}", file=sys.stderr)
