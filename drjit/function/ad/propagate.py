"""Traversals of the derivative graph that start or end at arrays and PyTrees: `dr.forward`,
`dr.backward`, their building blocks, and the context managers that suspend derivative tracking or
confine traversals.

Throughout, `args` are arrays or PyTrees of arrays. Anything other than differentiable floating
point arrays is ignored.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from enum import Enum
from typing import Any, TypeVar, TypeVarTuple

from ...ad import graph
from ...ad import traverse as traversal
from ...ad.graph import ADFlag, ADMode, GradScope, Var
from ...array import pytree, signatures
from ...array.base import type_label
from ...jit import flags as jit_flags
from ...jit import log
from ...jit.enumeration import Named
from ...jit.flags import JitFlag
from ..signature import explains_misuse
from .grad import grad, leaves, variables

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def _check_mode(mode: Any, what: str) -> None:
    if not isinstance(mode, ADMode):
        raise TypeError(
            f"{what}(): incompatible function arguments: 'mode' must be a dr.ADMode, not {mode!r}"
        )
    if mode is ADMode.Primal:
        raise RuntimeError(f"{what}(): 'mode' must be ADMode.Forward or ADMode.Backward")


def _check_flags(flags: Any, what: str) -> None:
    if not isinstance(flags, int):
        raise TypeError(
            f"{what}(): incompatible function arguments: 'flags' must be a combination of "
            f"dr.ADFlag, not {flags!r}"
        )


@explains_misuse
def enqueue(mode: ADMode, *args: Any, **kwargs: Any) -> None:
    """Enqueues the variables that the next `traverse` visits: all those that the given arrays
    influence (`ADMode.Forward`), or all those that they depend on (`ADMode.Backward`). A single
    argument may be passed as `arg`.

    Raises:
        TypeError: the mode is not an `ADMode`, or there are other keyword arguments.
        RuntimeError: the mode is `ADMode.Primal`.
    """
    _check_mode(mode, "dr.enqueue")
    if kwargs:
        if args or list(kwargs) != ["arg"]:
            raise TypeError(
                "dr.enqueue(): incompatible function arguments: the arrays are given "
                "by position, or a single one as 'arg'"
            )
        args = (kwargs["arg"],)
    arrays = pytree.arrays(args)
    traversal.enqueue(mode, variables(args), device=arrays[0]._device if arrays else None)


@explains_misuse
def traverse(mode: ADMode, flags: ADFlag | int = ADFlag.Default) -> None:
    """Propagates gradients through all enqueued variables in the given direction.

    `flags` say what is discarded along the way: edges (`ADFlag.ClearEdges`), the gradients where
    the traversal starts (`ClearInput`), and those between its two ends (`ClearInterior`). With
    `ADFlag.KeepGraph`, gradients can be differentiated again, and edges are kept.

    Raises:
        TypeError: the mode is not an `ADMode`, or the flags are not a combination of `ADFlag`.
        RuntimeError: the mode is `ADMode.Primal`.

    >>> x = ad.Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> y.grad = 10
    >>> dr.enqueue(dr.ADMode.Backward, y)
    >>> dr.traverse(dr.ADMode.Backward)
    >>> x.grad
    [60]
    """
    _check_mode(mode, "dr.traverse")
    _check_flags(flags, "dr.traverse")
    traversal.traverse(mode, int(flags))


def propagate(
    mode: ADMode, args: Any, flags: int = ADFlag.Default, along: ADMode | None = None
) -> None:
    """Enqueues the variables of a PyTree and traverses them; see `ad.traverse.propagate`."""
    arrays = pytree.arrays(args)
    device = arrays[0]._device if arrays else None
    traversal.propagate(mode, variables((args,)), int(flags), 0, device, along=along)


def _checked(args: tuple, flags: Any, what: str) -> list[Var]:
    """Returns the variables of arguments.

    Raises:
        TypeError: the flags are not a combination of `ADFlag`.
        RuntimeError: there are none, `ADFlag.AllowNoGrad` is not set, and `JitFlag.SymbolicCalls`
            is set.
    """
    _check_flags(flags, what)
    result = variables(args)
    if not result and not flags & ADFlag.AllowNoGrad and jit_flags.current & JitFlag.SymbolicCalls:
        shown = ", ".join(type_label(a) for a in args)
        raise RuntimeError(
            f"{what}(<{shown}>): the argument does not depend on the input of a differentiation, "
            "that is on any variable that derivatives are tracked for. Did you forget "
            "dr.enable_grad(), or is it suspended, detached, or an integer? If this may happen, "
            "pass flags=dr.ADFlag.Default | dr.ADFlag.AllowNoGrad."
        )
    return result


def _from(mode: ADMode, arg: Any, flags: Any, what: str, anew: bool) -> None:
    """Propagates the gradient of an argument. It is set to 1 if `anew`, or if there is none."""
    arrays = (arg,) if getattr(type(arg), "_kind", "") == "leaf" else pytree.arrays(arg)
    if not arrays:
        raise TypeError(
            f"{what}(): incompatible function arguments: expected an array, not a {type_label(arg)}"
        )
    seeds = _checked((arg,), flags, what)
    if not seeds:
        return
    if any(v.data is graph.FREED for v in seeds):
        log.warn(
            f"{what}() once more: an earlier traversal has freed the computation of the argument, "
            "so that no derivative goes through it. Compute it anew, or keep it, by "
            f"{what}(y, dr.ADFlag.ClearVertices) the first time"
        )
    computed = [v for v in seeds if v.rule is not None]
    traversal.propagate(mode, seeds, int(flags), 0, arrays[0]._device, anew)
    for v in computed:
        if v.rule is None:
            v.data = graph.FREED


@explains_misuse
def forward_from(arg: object, flags: ADFlag | int = ADFlag.Default) -> None:
    """Propagates the gradient of `arg` to everything computed from it.

    If `arg` as a whole has no gradient, or a constant 0, it is first set to 1.

    Raises:
        RuntimeError: no derivatives are tracked for `arg`; see `backward`.

    >>> x = ad.Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> x.grad = 10
    >>> dr.forward_from(x)
    >>> y.grad
    [60]
    """
    _from(ADMode.Forward, arg, flags, "dr.forward_from", anew=False)


@explains_misuse
def forward(arg: object, flags: ADFlag | int = ADFlag.Default) -> None:
    """Computes the derivatives of everything computed from `arg` with respect to `arg`: sets its
    gradient to 1 and calls `forward_from`.

    Raises:
        RuntimeError: no derivatives are tracked for `arg`; see `backward`.

    >>> x = ad.Float(10)
    >>> dr.enable_grad(x)
    >>> y = x**2
    >>> dr.forward(x)
    >>> y.grad
    [20]
    """
    _from(ADMode.Forward, arg, flags, "dr.forward", anew=True)


@explains_misuse
def backward_from(arg: object, flags: ADFlag | int = ADFlag.Default) -> None:
    """Propagates the gradient of `arg` to everything that it was computed from.

    If `arg` as a whole has no gradient, or a constant 0, it is first set to 1.

    Raises:
        RuntimeError: `arg` has no derivatives; see `backward`.

    >>> x = ad.Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> y.grad = 10
    >>> dr.backward_from(y)
    >>> x.grad
    [60]
    """
    _from(ADMode.Backward, arg, flags, "dr.backward_from", anew=False)


@explains_misuse
def backward(arg: object, flags: ADFlag | int = ADFlag.Default) -> None:
    """Computes the derivatives of `arg` with respect to everything that it was computed from: sets
    its gradient to 1 and calls `backward_from`.

    Gradients accumulate over several calls. By default, the graph behind `arg` is freed, so a
    second call does nothing; see `traverse` for the flags.

    Raises:
        RuntimeError: `arg` has no derivatives, and `flags` do not contain `ADFlag.AllowNoGrad` (not
            raised if `JitFlag.SymbolicCalls` is off).
        TypeError: `arg` contains no array.

    >>> x = ad.Float(10)
    >>> dr.enable_grad(x)
    >>> dr.backward(x**2)
    >>> x.grad
    [20]
    """
    _from(ADMode.Backward, arg, flags, "dr.backward", anew=True)


def _to(mode: ADMode, args: tuple, flags: Any, what: str) -> Any:
    if len(args) == 2 and type(args[1]) is int:
        args, flags = args[:1], args[1]
    if _checked(args, flags, what):
        opposite = ADMode.Forward if mode is ADMode.Backward else ADMode.Backward
        propagate(mode, args, flags, along=opposite)
    return grad(args[0]) if len(args) == 1 else grad(args)


@signatures.gradients_of
@explains_misuse
def forward_to(*args: Any, flags: ADFlag | int = ADFlag.Default) -> Any:
    """Propagates the gradients of inputs to `args`, and returns the gradients of `args`.

    Raises:
        RuntimeError: `args` have no derivatives; see `backward`.

    >>> x = ad.Float(3)
    >>> dr.enable_grad(x)
    >>> x.grad = 10
    >>> dr.forward_to(x * x)
    [60]
    """
    return _to(ADMode.Forward, args, flags, "dr.forward_to")


@signatures.gradients_of
@explains_misuse
def backward_to(*args: Any, flags: ADFlag | int = ADFlag.Default) -> Any:
    """Propagates the gradients of outputs back to `args` and to nothing else, and returns the
    gradients of `args`.

    Raises:
        RuntimeError: no derivatives are tracked for `args`; see `backward`.

    >>> x = ad.Float(3)
    >>> dr.enable_grad(x)
    >>> y = x * x
    >>> y.grad = 10
    >>> dr.backward_to(x)
    [60]
    """
    return _to(ADMode.Backward, args, flags, "dr.backward_to")


class ADScope(Named, Enum):
    """The effect of an `ADContextManager`."""

    Invalid = 0
    Suspend = 1
    Resume = 2
    Isolate = 3


ADScope.__module__ = "drjit.detail"


class NullContextManager(nullcontext):
    """A context manager that does nothing."""

    __module__ = "drjit.detail"


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
        graph.enter_scope(inner)

    def __exit__(self, kind: Any, *_: object) -> None:
        inner = graph.leave_scope()
        if self._kind is ADScope.Isolate and kind is None:
            traversal.finish_isolation(inner)


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


@explains_misuse
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


@explains_misuse
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


@explains_misuse
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
