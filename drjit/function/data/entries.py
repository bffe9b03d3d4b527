"""Entries of flat arrays and tensors, taken by their index: of traced arrays, and of those of
`drjit.scalar`.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...array import leaf
from ..conversion import lanes, nested, pick

# Flat arrays: one-dimensional traced arrays, and those of `drjit.scalar`, whose indices are NumPy
# arrays


def flat_size(array: Any) -> int:
    """The number of entries of a flat array."""
    return array._node.size if array._kind == "leaf" else len(array._components)


def take_entries(array: Any, size: int, index: Callable[[Any], Any], what: str) -> Any:
    """The array of `size` entries whose entry i is entry `index(i)` of a flat array."""
    cls = type(array)
    if array._kind == "nested":
        found = np.broadcast_to(index(np.arange(size)), size).tolist()
        return nested(cls, [array._components[i] for i in found])
    if array._node.is_literal and array._var is None:
        return leaf.literal(cls, array._node.data, size)
    if size == 0:
        return leaf.literal(cls, 0, 0)
    if array._node.size == 1:
        return leaf.resize(array, size)
    return pick(array, index(lanes(cls, size)), what)


def places(index: Any, shape: Sequence[int]) -> list[Any]:
    """The place along each axis of the entry of a tensor at a flat index."""
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
    """The flat index of the entry of a tensor at a place along each axis."""
    found: Any = None
    for place, n in zip(places, shape, strict=True):
        if n != 1:
            found = place if found is None else found * n + place
    return 0 if found is None else found


def host_entries(array: Any, shape: Sequence[int]) -> np.ndarray:
    """The entries of a flat array of `drjit.scalar` as Python numbers, in a shape."""
    found = np.empty(len(array._components), object)
    found[:] = array._components
    return found.reshape(shape)
