"""Arrays that an object computes once from others and uses any number of times; see
`drjit.ad.derived`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ..ad.derived import derive
from ..ad.graph import Value
from . import leaf
from .base import ArrayBase


def derived(function: Callable[..., Sequence[Any]], *arrays: Any) -> list[Any]:
    """Returns the results of a linear function of one-dimensional traced arrays, which are such
    arrays as well. Derivatives of what is computed from them pass any number of times."""
    classes: list[type] = []

    def on_values(values: list[Value]) -> list[Value]:
        found = function(*map(leaf.from_value, map(type, arrays), values))
        classes[:] = map(type, found)
        return leaf.values(found)

    made = derive(on_values, leaf.values(arrays))
    return [leaf.from_value(cls, v) for cls, v in zip(classes, made, strict=True)]


def converted(cls: Any, value: Any) -> Any:
    """Returns an array or tensor of a class: the value itself if it is one."""
    if type(value) is cls:
        return value
    if isinstance(value, ArrayBase) and value._kind == cls._kind:
        if cls._kind == "tensor" and getattr(value._array, "_var", None) is not None:
            (array,) = derived(lambda a: [cls.Array(a)], value._array)
            return cls(array, shape=value._shape)
        if cls._kind == "leaf" and getattr(value, "_var", None) is not None:
            return derived(lambda a: [cls(a)], value)[0]
    return cls(value)
