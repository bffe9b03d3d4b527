"""Context managers that switch the tracking of derivatives off and on, or confine traversals."""

from typing import Any

from ..ad import graph, traverse
from ..ad.graph import Scope
from .grad import leaves


class _Scope:
    """A context manager that enters a scope of the graph of derivatives."""

    def __init__(self, *args: Any, when: bool = True) -> None:
        self._args, self._when = args, when

    def _inner(self, outer: Scope) -> Scope:
        raise NotImplementedError

    def _variables(self) -> frozenset[int] | None:
        """The variables of the arguments; None if there are no arguments, which means all."""
        if not self._args:
            return None
        return frozenset([a._a.serial for a in leaves(self._args) if a._a is not None])

    def __enter__(self) -> None:
        if self._when:
            graph.push(self._inner(graph.scope() or Scope()))

    def __exit__(self, kind: Any, *_: object) -> None:
        if self._when:
            graph.pop()


class suspend_grad(_Scope):
    """Context manager that stops tracking derivatives with respect to the given arrays or PyTrees,
    or with respect to anything if there are none.

    Operations on suspended arrays record nothing, and their gradients read as 0. `when=False` makes
    it do nothing. It may be nested with `resume_grad`.

    >>> x = ad.Float(1)
    >>> dr.enable_grad(x)
    >>> with dr.suspend_grad():
    ...     y = x * 2
    >>> dr.grad_enabled(y)
    False
    """

    def _inner(self, outer: Scope) -> Scope:
        return outer.suspended(self._variables())


class resume_grad(_Scope):
    """Context manager that tracks derivatives again, with respect to the given arrays or PyTrees,
    or to everything.

    >>> x, y = ad.Float(1), ad.Float(1)
    >>> dr.enable_grad(x, y)
    >>> with dr.suspend_grad():
    ...     with dr.resume_grad(x):
    ...         print(dr.grad_enabled(x), dr.grad_enabled(y))
    True False
    """

    def _inner(self, outer: Scope) -> Scope:
        return outer.resumed(self._variables())


class isolate_grad(_Scope):
    """Context manager that confines reverse traversals to what is recorded within: gradients wait
    at its boundary and are propagated further at its end.

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

    def __init__(self, when: bool = True) -> None:
        super().__init__(when=when)

    def _inner(self, outer: Scope) -> Scope:
        return outer.isolated()

    def __exit__(self, kind: Any, *_: object) -> None:
        if self._when:
            inner = graph.pop()
            if kind is None:
                traverse.finish_isolation(inner)


__all__ = ["isolate_grad", "resume_grad", "suspend_grad"]
