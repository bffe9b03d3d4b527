"""Protocols of arguments that the interface calls. They let type checkers verify the arguments of
`dr.switch`, `dr.dispatch` and `dr.custom` and infer the result type.
"""

from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
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
