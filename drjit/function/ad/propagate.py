"""Traversals of the derivative graph that start or end at arrays and PyTrees: `dr.forward`,
`dr.backward`, and their building blocks.

Throughout, `args` are arrays or PyTrees of arrays. Anything other than differentiable floating
point arrays is ignored.
"""

from typing import Any, TypeVar, TypeVarTuple, overload

from ...ad import traverse as traversal
from ...ad.graph import ADFlag, ADMode, Var
from ...array import pytree
from ...array.base import type_label
from ...jit import flags as jit_flags
from ...jit.flags import JitFlag
from ..signature import described
from .grad import grad, variables

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


@described
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


@described
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


def _checked(args: tuple, flags: Any, what: str) -> list[Var]:
    """Returns the variables of arguments.

    Raises:
        TypeError: the flags are not a combination of `ADFlag`.
        RuntimeError: there are none, `ADFlag.AllowNoGrad` is not set, and `JitFlag.SymbolicCalls`
            is set.
    """
    _check_flags(flags, what)
    found = variables(args)
    if not found and not flags & ADFlag.AllowNoGrad and jit_flags.current & JitFlag.SymbolicCalls:
        shown = ", ".join(type_label(a) for a in args)
        raise RuntimeError(
            f"{what}(<{shown}>): the argument does not depend on the input of a differentiation, "
            "that is on any variable that derivatives are tracked for. Did you forget "
            "dr.enable_grad(), or is it suspended, detached, or an integer? If this may happen, "
            "pass flags=dr.ADFlag.Default | dr.ADFlag.AllowNoGrad."
        )
    return found


def _from(mode: ADMode, arg: Any, flags: Any, what: str, anew: bool) -> None:
    """Propagates the gradient of an argument. It is set to 1 if `anew`, or if there is none."""
    arrays = (arg,) if getattr(arg, "_kind", "") == "leaf" else pytree.arrays(arg)
    if not arrays:
        raise TypeError(
            f"{what}(): incompatible function arguments: expected an array, not a {type_label(arg)}"
        )
    seeds = _checked((arg,), flags, what)
    if not seeds:
        return
    traversal.enqueue(mode, seeds, device=arrays[0]._device)
    traversal.traverse(mode, int(flags), seeds, anew)


@described
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


@described
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


@described
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


@described
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
        enqueue(opposite, *args)
        traverse(mode, flags)
    return grad(args[0]) if len(args) == 1 else grad(args)


@overload
def forward_to(arg: T, /, flags: ADFlag | int = ADFlag.Default) -> T: ...


@overload
def forward_to(*args: *Ts, flags: ADFlag | int = ADFlag.Default) -> tuple[*Ts]: ...


@described
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


@overload
def backward_to(arg: T, /, flags: ADFlag | int = ADFlag.Default) -> T: ...


@overload
def backward_to(*args: *Ts, flags: ADFlag | int = ADFlag.Default) -> tuple[*Ts]: ...


@described
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
