"""Cooperative vectors as lists of their features, for what drops lanes on the way or hands arrays
to functions.
"""

from collections.abc import Callable
from typing import Any

from ..ad import vector
from ..ad.graph import Value
from ..array import leaf, pytree, table
from ..array.base import KernelValue


class _Features(list):
    """The features of a vector; a subclass for each type of vectors knows one of these."""

    like: KernelValue


_classes: dict[tuple[Any, ...], type[_Features]] = {}


def _class(v: KernelValue) -> type[_Features]:
    key = (type(v), v.__meta__, v._n.dtype, getattr(v, "_layout", None))
    found = _classes.get(key)
    if found is None:
        like = v._with_number(0)
        found = _classes.setdefault(key, type(type(v).__name__, (_Features,), {"like": like}))
    return found


def holds_vectors(tree: Any) -> bool:
    """Whether there are cooperative vectors in a tree."""
    return any(isinstance(v, KernelValue) for v in pytree.leaves(tree))


def spread(tree: Any) -> Any:
    """The tree with the features of cooperative vectors instead of these."""
    return pytree.map_tree(_spread, tree) if holds_vectors(tree) else tree


def _spread(value: Any) -> Any:
    if not isinstance(value, KernelValue):
        return value
    meta = value.__meta__
    cls = table.find(meta.namespace, "leaf", value._dtype)
    parts = vector.unpack(Value(value._n, value._a))
    return _class(value)([leaf.from_value(cls, part) for part in parts])


def joined(tree: Any) -> Any:
    """The opposite of `spread`; a tree without such features is given back as it is."""
    if isinstance(tree, _Features):
        return tree.like._with(vector.pack([leaf.value(a) for a in tree]))
    found = pytree.children(tree)
    if found is None:
        return tree
    branches, rebuild = found
    values = [joined(v) for _, v in branches]
    if all(new is old for new, (_, old) in zip(values, branches, strict=True)):
        return tree
    return rebuild(values)


def reading(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of such trees, from one of trees with vectors."""
    return lambda *args, **kwargs: function(*joined(args), **joined(kwargs))


def spreading(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with such trees as results."""
    return lambda *args, **kwargs: spread(function(*joined(args), **joined(kwargs)))
