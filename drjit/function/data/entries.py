"""Indexed access to the entries of flat arrays and tensors, both traced and of `drjit.scalar`."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...array import leaf
from ...jit.lazy import np
from ..conversion import lanes, pick

# Flat arrays: one-dimensional traced arrays, and those of `drjit.scalar`


def flat_size(array: Any) -> int:
    """Returns the number of entries of a flat array."""
    return array._node.size if array._kind == "leaf" else len(array._components)


def take_entries(array: Any, size: int, index: Callable[[Any], Any], what: str) -> Any:
    """Returns the array of `size` entries whose entry i is entry `index(i)` of a flat array."""
    cls = type(array)
    if array._kind == "nested":
        return pick(array, np.broadcast_to(index(lanes(cls, size)), size), what)
    if array._node.is_literal and array._var is None:
        return leaf.literal(cls, array._node.data, size)
    if size == 0:
        return leaf.literal(cls, 0, 0)
    if array._node.size == 1:
        return leaf.resize(array, size)
    return pick(array, index(lanes(cls, size)), what)


def places(index: Any, shape: Sequence[int]) -> list[Any]:
    """Returns the position along each axis of a tensor's entry with a flat index."""
    found: list[Any] = []
    for axis in range(len(shape) - 1, -1, -1):
        n = shape[axis]
        if n == 1:
            found.append(0)
        elif prod(shape[:axis]) == 1:
            found.append(index)
        else:
            found.append(index % n)
            index = index // n
    return found[::-1]


def flat_index(places: Sequence[Any], shape: Sequence[int]) -> Any:
    """Returns the flat index of a tensor's entry with the given position along each axis."""
    found: Any = None
    for place, n in zip(places, shape, strict=True):
        if n != 1:
            found = place if found is None else found * n + place
    return 0 if found is None else found


def host_entries(array: Any, shape: Sequence[int]) -> np.ndarray:
    """Returns the entries of a flat `drjit.scalar` array as Python numbers in the given shape."""
    found = np.empty(len(array._components), object)
    found[:] = array._components
    return found.reshape(shape)
