"""Types of what the interface takes as an argument and calls: with them, type checkers know that
the arguments of `dr.switch`, `dr.dispatch` and `dr.custom` fit, and what the result is.
"""

from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)
Instance = TypeVar("Instance", contravariant=True)


class CallablePT(Protocol[P, T_co]):
    """A function with parameters `P` and a result of type `T_co`."""

    __module__ = "drjit"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


class CallableSelfPT(Protocol[Instance, P, T_co]):
    """A method, or a function whose first argument is an instance."""

    __module__ = "drjit"

    def __call__(self, arg0: Instance, /, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


class CustomOpT(Protocol[P, T_co]):
    """A custom operation, whose method `eval` has parameters `P` and a result of type `T_co`."""

    __module__ = "drjit"

    def eval(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...


__all__ = ["CallablePT", "CallableSelfPT", "CustomOpT"]
