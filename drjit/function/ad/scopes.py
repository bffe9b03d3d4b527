"""Context managers that disable and enable derivative tracking, or confine traversals."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

from ...ad import graph, traverse
from ...ad.graph import GradScope
from ...jit.enumeration import Named
from ..signature import described
from .grad import leaves


class ADScope(Named, Enum):
    """The effect of an `ADContextManager`."""

    Invalid = 0
    Suspend = 1
    Resume = 2
    Isolate = 3


ADScope.__module__ = "drjit.detail"


class NullContextManager:
    """A context manager that does nothing."""

    __module__ = "drjit.detail"

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class ADContextManager:
    """The result of `suspend_grad`, `resume_grad` and `isolate_grad`: a context manager that enters
    a scope of the derivative graph. `indices` are the numbers (`index_ad`) of the variables to
    suspend or resume; if there are none, all are.

    Raises:
        RuntimeError: the kind of scope is invalid, or variables were passed for isolation.
    """

    __module__ = "drjit.detail"

    def __init__(self, scope: ADScope, indices: Sequence[int], /) -> None:
        if scope is ADScope.Invalid:
            raise RuntimeError("drjit.detail.ADContextManager(): the kind of scope is invalid")
        if scope is ADScope.Isolate and indices:
            raise RuntimeError(
                "drjit.detail.ADContextManager(): a scope that isolates does so for all variables, "
                f"but {len(indices)} were given"
            )
        self._kind, self._variables = scope, frozenset(indices) if indices else None

    def __enter__(self) -> None:
        outer = graph.scope() or GradScope()
        if self._kind is ADScope.Isolate:
            inner = outer.isolated()
        else:
            inner = outer.switched(self._kind is ADScope.Resume, self._variables)
        graph.push(inner)

    def __exit__(self, kind: Any, *_: object) -> None:
        inner = graph.pop()
        if self._kind is ADScope.Isolate and kind is None:
            traverse.finish_isolation(inner)


def _entered(scope: ADScope, args: tuple, when: bool) -> ADContextManager | NullContextManager:
    if not when:
        return NullContextManager()
    if not args:
        return ADContextManager(scope, [])
    found = [a._var.serial for a in leaves(args) if a._var is not None]
    return ADContextManager(scope, found or [0])  # no variable has the number 0


def resumed() -> graph.within:
    """`resume_grad` of everything, for frequent use within the package."""
    return graph.within((graph.scope() or GradScope()).switched(True, None))


@described
def suspend_grad(*args: object, when: bool = True) -> ADContextManager | NullContextManager:
    """Context manager that disables derivative tracking for the given arrays or PyTrees, or for
    everything if there are none.

    Operations on suspended arrays record nothing, and their gradients read as 0. With `when=False`,
    it does nothing. It may be nested with `resume_grad`.

    >>> x = ad.Float(1)
    >>> dr.enable_grad(x)
    >>> with dr.suspend_grad():
    ...     y = x * 2
    >>> dr.grad_enabled(y)
    False
    """
    return _entered(ADScope.Suspend, args, when)


@described
def resume_grad(*args: object, when: bool = True) -> ADContextManager | NullContextManager:
    """Context manager that enables derivative tracking again for the given arrays or PyTrees, or
    for everything.

    >>> x, y = ad.Float(1), ad.Float(1)
    >>> dr.enable_grad(x, y)
    >>> with dr.suspend_grad():
    ...     with dr.resume_grad(x):
    ...         print(dr.grad_enabled(x), dr.grad_enabled(y))
    True False
    """
    return _entered(ADScope.Resume, args, when)


@described
def isolate_grad(when: bool = True) -> ADContextManager | NullContextManager:
    """Context manager that confines reverse-mode traversals to the operations recorded within:
    gradients stop at its boundary and are propagated further when it ends.

    >>> x = ad.Float(1)
    >>> dr.enable_grad(x)
    >>> y = x * 2
    >>> with dr.isolate_grad():
    ...     dr.backward(y * 3)
    ...     print(x.grad, y.grad)
    [0] [3]
    >>> x.grad
    [6]
    """
    return _entered(ADScope.Isolate, (), when)
