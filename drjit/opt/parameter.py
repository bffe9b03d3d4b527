"""The parameter of an optimizer and its state: the inputs of a step, and how parameters are
created, laid out and saved.
"""

from collections.abc import Iterable
from math import prod
from typing import Any

from ..ad.graph import new_input
from ..array import leaf
from ..array.annotations import ArrayOrFloat as LearningRate
from ..array.annotations import Extra
from ..array.base import ArrayBase
from ..array.pytree import leaf_arrays
from ..function import evaluation
from ..function.ad import grad as derivatives
from ..function.conversion import converted, map_leaves, related
from ..function.data import create
from ..function.inspect import traits
from ..jit.lazy import np
from ..jit.tuples import NamedTuple

State = tuple[Any, bool, LearningRate | None, Extra]
"""A differentiable parameter (in single precision if promoted from half precision), whether it is
promoted, its individual learning rate, and the optimizer's state."""


class StepInputs(NamedTuple):
    """The inputs of a parameter's step: entries and gradients, detached and in the form of
    `entries`, the learning rate, and the optimizer's state."""

    value: Any
    grad: Any
    lr: Any
    extra: Any


class RateCache(dict):
    """Caches products of learning rates and factors for all parameters of a step."""

    def product(self, tp: type, *args: LearningRate) -> Any:
        """Returns the product of numbers and arrays as an array of type `tp`."""
        # An array must outlive its id in the key.
        key = (tp, *[id(a) if isinstance(a, ArrayBase) else a for a in args])
        if key not in self:
            product = tp(prod([a for a in args if not isinstance(a, ArrayBase)]))
            for a in args:
                if isinstance(a, ArrayBase):
                    product = product * tp(a)
            self[key] = product, args
        return self[key][0]


def check_fraction(optimizer: str, name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise RuntimeError(f"dr.opt.{optimizer}(): '{name}' must be in [0, 1), not {value}")


def check_not_negative(optimizer: str, name: str, value: float) -> None:
    if not value >= 0:
        raise RuntimeError(f"dr.opt.{optimizer}(): '{name}' must be >= 0, not {value}")


def option(value: float) -> str:
    """Formats a number for `repr`: 0.95, 0, 1e-08."""
    return f"{value:g}"


def entries_class(cls: type) -> Any:
    """Returns the class of a parameter's entries in a step: the flat array of a tensor, and the
    nested array for complex numbers, quaternions and matrices."""
    return related(cls, kind="leaf", dims=()) if cls._kind == "tensor" else traits.array_t(cls)  # type: ignore[attr-defined]


def entries(value: Any) -> Any:
    """Returns the detached entries of a parameter."""
    flat = value._array if value._kind == "tensor" else value
    return with_leaves(type(flat).Array, flat, detached_leaves(flat))


def detached_leaves(value: Any) -> list[Any]:
    return [leaf.wrap(type(a), a._node) for a in leaf_arrays(value)]


def with_leaves(cls: Any, like: Any, leaves: Iterable[Any]) -> Any:
    """Returns an array of class `cls` with the structure of `like` and the given components."""
    following = iter(leaves)
    return converted(like, cls, lambda *_: next(following))


def blank(value: Any) -> Any:
    """Returns evaluated zeros for the entries of a parameter."""
    zeros = map_leaves(entries(value), create.zeros_like)
    evaluation.make_opaque(zeros)
    return zeros


def layout(value: Any) -> tuple:
    """Returns the properties that an assignment must preserve for the state to be kept."""
    return traits.shape(value), [len(a) for a in leaf_arrays(value)]


def like(value: Any, x: Any) -> Any:
    """Returns the given entries in the shape of a parameter."""
    return with_leaves(type(value), value, leaf_arrays(x))


def tracked(value: Any, x: Any) -> Any:
    """Returns a new differentiable parameter like `value`, with the given entries. Called within
    `scopes.resumed`."""
    leaves = detached_leaves(x)
    for a in leaves:
        a._var = new_input(a._node)
    return with_leaves(type(value), value, leaves)


def stored_rate(rate: Any) -> Any:
    return derivatives.detach(rate, False) if isinstance(rate, ArrayBase) else np.array(rate)


def loaded_rate(saved: Any, parameter: Any) -> Any:
    """Returns a saved learning rate; an array is converted to the parameter's kind."""
    if saved is None or isinstance(saved, ArrayBase):
        return saved
    host = np.asarray(saved)
    if host.ndim == 0 or parameter is None:
        return host.item()
    return type(leaf_arrays(parameter)[0])(host)


def is_like(part: Any, value: Any) -> bool:
    """Returns whether a part of the state has one entry per entry of the parameter."""
    return type(part) is entries_class(type(value)) and (
        [len(a) for a in leaf_arrays(part)] == [len(a) for a in leaf_arrays(value)]
    )


def stored(part: Any, value: Any) -> Any:
    """Converts a part of a parameter's state to the form in which it is saved."""
    if not isinstance(part, ArrayBase):
        return np.array(part)
    if is_like(part, value):
        return like(derivatives.detach(value, False), part)
    return np.array(part[0]) if part._kind == "leaf" and len(part) == 1 else part


def loaded(saved: Any, part: Any, value: Any, what: str) -> Any:
    """Converts the result of `stored` back to the kind of another part."""
    if not isinstance(part, ArrayBase):
        return type(part)(np.asarray(saved).item())
    if is_like(part, value):
        part = entries(restored(saved, like(derivatives.detach(value, False), part), what))
        evaluation.make_opaque(part)
        return part
    host = np.asarray(saved)
    return type(part)(host.item() if host.ndim == 0 else host)


def restored(saved: Any, value: Any, what: str) -> Any:
    """Converts a saved array to one like `value`."""
    given = np.asarray(saved)
    expected = np.asarray(derivatives.detach(value, False))
    if given.shape != expected.shape:
        raise ValueError(f"{what} has the shape {given.shape}, the optimizer's {expected.shape}")
    if given.dtype != expected.dtype:
        raise TypeError(f"{what} has the element type {given.dtype}, expected {expected.dtype}")
    # A component shared by all entries is saved once per entry.
    made = type(value)(given)
    if value._kind == "tensor":
        return made
    pairs = zip(leaf_arrays(made), leaf_arrays(value), strict=True)
    leaves = [a if len(a) == len(b) else type(a)(a[0]) for a, b in pairs]
    return with_leaves(type(made), made, leaves)
