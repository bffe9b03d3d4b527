"""Signatures of functions: error messages for calls that do not match the parameters, in words that
users search for; the parameters themselves; and the names by which pickle finds functions."""

import sys
from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from typing import Any, ParamSpec, Protocol, TypeVar

from ..array import foreign_names

P = ParamSpec("P")
R = TypeVar("R")


def explains_misuse(function: Callable[P, R]) -> Callable[P, R]:
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
        raise foreign_names.incompatible(f"dr.{name}", text)

    return call


def signature(function: Any) -> Any:
    """Returns the `inspect.Signature` of a function. From Python 3.14 on, annotations may refer to
    names imported for type checkers alone; these stay references.

    Raises:
        TypeError: this is not callable.
        ValueError: it is written in C, and its parameters are unknown.
    """
    import inspect

    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.FORWARDREF)
    return inspect.signature(function)


def importable_name(function: Any) -> str | None:
    """Returns the name by which other processes find a function in its module, if they can. Those
    of a program's main file are sent as they are."""
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module == "__main__" or module not in sys.modules:
        return None
    try:
        return name if attrgetter(name)(sys.modules[module]) is function else None
    except AttributeError:  # a local function
        return None


T_co = TypeVar("T_co", covariant=True)
Instance = TypeVar("Instance", contravariant=True)


class CallablePT(Protocol[P, T_co]):
    """A function with parameters `P` and result type `T_co`."""

    __module__ = "drjit"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


class CallableSelfPT(Protocol[Instance, P, T_co]):
    """A method, or a function whose first argument is an instance."""

    __module__ = "drjit"

    def __call__(self, arg0: Instance, /, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


class CustomOpT(Protocol[P, T_co]):
    """A custom operation whose method `eval` has parameters `P` and result type `T_co`."""

    __module__ = "drjit"

    def eval(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...
