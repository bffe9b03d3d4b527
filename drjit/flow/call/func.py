"""`func`: a function whose body is a separate block in the kernels of its callers."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, overload

from ...array import leaf, table
from ...array.base import type_label
from ...array.pytree import leaf_arrays
from ...jit.backend import JitBackend
from ...jit.ir import dtype as dt
from .switch import switch

F = TypeVar("F", bound=Callable)


@overload
def func(f: None = None, *, backend: JitBackend | None = None) -> Callable[[F], F]: ...


@overload
def func(f: F, *, backend: JitBackend | None = None) -> F: ...


def func(f: Any = None, *, backend: JitBackend | None = None) -> Any:
    """Decorator of functions that are called like those of `dr.switch`: the body is traced with
    symbolic arguments and becomes a block of the kernel, which is skipped if no lane is active.

    The Python code runs at every call. Calls with the same trace share one body, which is compiled
    once. `backend` is required if no argument of the first call is a traced array.

    Raises:
        RuntimeError: there is neither a traced array nor a `backend`, or the function fails;
            `__cause__` has the reason.

    >>> @dr.func
    ... def plus_one(x):
    ...     return x + 1
    >>> plus_one(Float(1, 2))
    [2, 3]
    """
    if f is not None and not callable(f):
        raise TypeError(f"dr.func(): expected a function, got {type_label(f)}")

    def decorator(f: Callable) -> Callable:
        given = known = None
        if backend is not None and backend is not JitBackend.Invalid:
            given = backend.name.lower()

        @wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal known
            namespace = known = given or _namespace((args, kwargs)) or known
            if namespace is None:
                raise RuntimeError(
                    "dr.func(): could not detect the backend from the input arguments: no argument "
                    "is a traced array, which would say where the function runs. Give the "
                    "decorator the backend: @dr.func(backend=dr.JitBackend.LLVM)"
                )
            number = leaf.literal(table.find(namespace, "leaf", dt.u32), 0)
            return switch(number, [f], *args, **kwargs)

        return call

    return decorator if f is None else decorator(f)


def _namespace(arguments: Any) -> str | None:
    """Returns the namespace of the function's number, given the arguments."""
    for a in leaf_arrays(arguments):
        if a.__meta__.is_jit:
            return a._namespace
    return None
