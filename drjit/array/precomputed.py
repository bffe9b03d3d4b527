"""Arrays that an object computes once from others and uses any number of times; see
`drjit.ad.precomputed`."""

from collections.abc import Callable, Sequence
from typing import Any

from ..ad.graph import Value
from ..ad.precomputed import precompute
from . import leaf
from .base import ArrayBase


def precomputed(function: Callable[..., Sequence[Any]], *arrays: Any) -> list[Any]:
    """Returns the results of a linear function of one-dimensional traced arrays, which are such
    arrays as well. Derivatives propagate through the function any number of times."""
    classes: list[type] = []

    def on_values(values: list[Value]) -> list[Value]:
        found = function(*map(leaf.from_value, map(type, arrays), values))
        classes[:] = map(type, found)
        return leaf.values(found)

    made = precompute(on_values, leaf.values(arrays))
    return [leaf.from_value(cls, v) for cls, v in zip(classes, made, strict=True)]


def converted(cls: Any, value: Any) -> Any:
    """Returns an array or tensor of a class: the value itself if it is one."""
    if type(value) is cls:
        return value
    if isinstance(value, ArrayBase) and value._kind == cls._kind:
        if cls._kind == "tensor" and getattr(value._array, "_var", None) is not None:
            (array,) = precomputed(lambda a: [cls.Array(a)], value._array)
            return cls(array, shape=value._shape)
        if cls._kind == "leaf" and getattr(value, "_var", None) is not None:
            return precomputed(lambda a: [cls(a)], value)[0]
    return cls(value)
