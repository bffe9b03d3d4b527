"""Calls that do not fit a function's parameters, reported in the words that users search for."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def described(function: Callable[P, R]) -> Callable[P, R]:
    """The function, where a call with too few, too many or unknown arguments is an error that says
    so. It costs a call, so that functions which are called for every operation go without.
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
