"""A parameter of an optimizer and its state, what a step works with, and how both are made, laid
out and saved.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..array import leaf
from ..array.base import ArrayBase
from ..array.pytree import leaf_arrays
from ..function import arithmetic, scopes, traits
from ..function import grad as derivatives
from ..function.parts import map_leaves, tensor

Rate = float | ArrayBase
"""A learning rate: one for all entries of a parameter, or a flat array with one per entry."""

Leaves = list[Any]
"""The flat arrays, without derivatives, that hold the contents of a parameter: a single one for
flat arrays and tensors, one per component for nested arrays."""


@dataclass(slots=True, eq=False)
class Parameter:
    """A parameter and its state.

    `value` is differentiable, and of single precision where `kind`, the type in which the parameter
    is given and returned, is a promoted one of half precision. `steps` is an array once a frozen
    function has made steps.
    """

    value: Any
    kind: type
    lr: Rate | None = None
    steps: int | ArrayBase = 0
    moments: dict[str, Leaves] = field(default_factory=dict)

    def arrays(self) -> Leaves:
        """All flat arrays that hold the parameter and its state."""
        moments = [a for moment in self.moments.values() for a in moment]
        steps = [self.steps] if isinstance(self.steps, ArrayBase) else []
        return [*leaf_arrays(self.value), *moments, *steps]


@dataclass(slots=True, eq=False)
class Job:
    """What a step works with: a parameter's entries, gradients and learning rate, the number of
    this step, starting at one, and the arrays kept from the last one. The entries of a `nested`
    parameter are those of its components, one after the other."""

    name: str
    shape: tuple[int, ...]
    nested: bool
    x: Leaves
    gradient: Leaves
    rate: Rate
    steps: int | ArrayBase
    moments: dict[str, Leaves]


Change = tuple[Leaves, dict[str, Leaves]]
"""A parameter's new entries, and the new arrays to keep."""


def scaled_rate(rate: Rate, factor: Rate, x: Any) -> Any:
    """The product of a learning rate and a number, in the precision of a parameter."""
    if isinstance(factor, ArrayBase):
        factor = type(x)(factor)
        return factor * (type(x)(rate) if isinstance(rate, ArrayBase) else rate)
    if isinstance(rate, ArrayBase):
        return type(x)(rate) * factor
    number = x._dtype.scalar
    return float(number(rate) * number(factor))


def option(value: float) -> str:
    """A number as `repr` shows it: 0.95, 0, 1e-08."""
    return f"{value:g}"


def leaves(value: Any) -> Leaves:
    return leaf_arrays(derivatives.detach(value, False))


def layout(value: Any) -> tuple:
    """What an assignment must not change if the state is to remain."""
    return traits.shape(value), [len(a) for a in leaf_arrays(value)]


def like(value: Any, leaves: Leaves) -> Any:
    """The given entries in the shape of a parameter."""
    if value._kind == "tensor":
        return tensor(type(value), leaves[0], value._shape)
    following = iter(leaves)
    return map_leaves(value, lambda _: next(following))


def tracked(value: Any, leaves: Leaves) -> Any:
    """A new differentiable parameter like `value`, with the given entries."""
    classes = [type(a) for a in leaf_arrays(value)]
    made = like(value, [leaf.wrap(c, a._n) for c, a in zip(classes, leaves, strict=True)])
    with scopes.resume_grad():
        derivatives.enable_grad(made)
    return made


def selected(masks: Sequence[Any], new: Leaves, old: Leaves) -> Leaves:
    return [arithmetic.select(m, a, b) for m, a, b in zip(masks, new, old, strict=True)]


def host_number(value: Any) -> Any:
    """A number, or the only entry of an array, as a Python number."""
    return value[0] if isinstance(value, ArrayBase) else value


def stored_rate(rate: Rate) -> Any:
    return derivatives.detach(rate, False) if isinstance(rate, ArrayBase) else np.array(rate)


def loaded_rate(stored: Any, parameter: Parameter | None) -> Any:
    """A saved learning rate; an array becomes one of the kind of the parameter."""
    if stored is None or isinstance(stored, ArrayBase):
        return stored
    host = np.asarray(stored)
    if host.ndim == 0 or parameter is None:
        return host.item()
    return type(leaves(parameter.value)[0])(host)


def restored(stored: Any, value: Any, what: str) -> Leaves:
    """The entries of a saved array that is like `value`."""
    given = np.asarray(stored)
    expected = np.asarray(derivatives.detach(value, False))
    if given.shape != expected.shape:
        raise ValueError(f"{what} has the shape {given.shape}, the optimizer's {expected.shape}")
    if given.dtype != expected.dtype:
        raise TypeError(f"{what} has the element type {given.dtype}, expected {expected.dtype}")
    # A component that all entries share is saved once per entry.
    pairs = zip(leaves(type(value)(given)), leaf_arrays(value), strict=True)
    return [a if len(a) == len(b) else type(a)(a[0]) for a, b in pairs]
