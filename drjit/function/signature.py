"""Error messages for calls that do not match a function's parameters, in words that users search
for."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def described(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a wrapper that explains calls with too few, too many or unknown arguments. The
    wrapper adds a call, so functions that are called for every operation do without it.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as problem:
            trace = problem.__traceback__
            if trace is None or trace.tb_next is not None:  # raised within the function
                raise
            name, _, text = str(problem).partition("() ")
        raise TypeError(f"dr.{name}(): incompatible function arguments ({text})")

    return call
