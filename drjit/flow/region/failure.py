"""Exceptions in functions that a loop, branch or call runs: the statement raises one that is both a
`RuntimeError` and of the same type, with the original as its cause.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...jit.ir.scope import StateTarget


class RecordAgain(Exception):
    """A statement must be recorded again, with other arrays as its state or result."""


class Failure(RuntimeError):
    """A function called by a statement raised an exception, which is the `__cause__`."""

    _text = ""
    _kind: type[Exception] = RuntimeError

    def __str__(self) -> str:
        return self._text

    def __reduce__(self) -> Any:
        return _made, (self._kind, self._text, self.args, vars(self))


@lru_cache(256)
def _class(kind: type[Exception]) -> type[Failure]:
    bases = (Failure,) if kind is RuntimeError else (Failure, kind)
    own = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "_kind": kind}
    return type(kind.__name__, bases, own)


def _made(kind: type[Exception], text: str, args: tuple, attributes: dict[str, Any]) -> Failure:
    try:
        cls = _class(kind)
        made: Failure = kind.__new__(cls, *args)
        if kind.__module__ == "builtins":
            kind.__init__(made, *args)  # sets attributes
    except Exception:  # the class cannot have subclasses, or cannot be constructed like this
        made = Failure()
    made.args = args
    vars(made).update(attributes)
    made._text = text
    return made


def failed(what: str, error: Exception) -> Failure:
    """Returns the exception to raise from `error`, which a function has raised. Its traceback
    extends to that place, because debuggers show the last one."""
    kind = error._kind if isinstance(error, Failure) else type(error)
    name = "" if kind is RuntimeError or isinstance(error, Failure) else f"{kind.__name__}: "
    text = f"{what}: encountered an exception (see above). {name}{error}"
    trace = error.__traceback__
    return _made(kind, text, error.args, vars(error)).with_traceback(trace and trace.tb_next)


def call(what: str, function: Callable[..., Any], *args: Any) -> Any:
    """Returns the result of a function of a loop or branch.

    Raises:
        RuntimeError: the function raised an exception; the error is also of that type.
    """
    try:
        return function(*args)
    except StateTarget:  # the enclosing statement will record it again
        raise
    except Exception as error:
        raise failed(what, error) from error
