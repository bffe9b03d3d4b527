"""Cooperative vectors as lists of their features, for code that drops lanes or passes arrays to
functions.
"""

from collections.abc import Callable
from operator import is_not
from typing import Any

from ...ad.graph import Value
from ...array import leaf, pytree, table
from ...array.base import KernelValue
from ...array.tree import Tree, rebuilt


class _Features(list):
    """The features of a vector; each vector type has its own subclass, which stores the type."""

    like: KernelValue


_classes: dict[tuple[Any, ...], type[_Features]] = {}


def _class(v: KernelValue) -> type[_Features]:
    key = (type(v), v.__meta__, v._node.dtype, getattr(v, "_layout", None))
    found = _classes.get(key)
    if found is None:
        like = v._with_number(0)
        found = _classes.setdefault(key, type(type(v).__name__, (_Features,), {"like": like}))
    return found


def holds_vectors(tree: Any) -> bool:
    """Returns whether a tree contains cooperative vectors."""
    return has_vectors(Tree((tree,)))


def has_vectors(tree: Tree) -> bool:
    """See `holds_vectors`."""
    return bool([cls for cls in {*tree.classes} if issubclass(cls, KernelValue)])


def spread(tree: Any) -> Any:
    """Replaces the cooperative vectors in a tree by their features."""
    return pytree.map_tree(_spread, tree) if holds_vectors(tree) else tree


def _spread(value: Any) -> Any:
    if not isinstance(value, KernelValue):
        return value
    cls = table.find(value.__meta__.namespace, "leaf", value._dtype)
    from ...ad import vector  # which programs without cooperative vectors do not need

    parts = vector.unpack(Value(value._node, value._var))
    return _class(value)([leaf.from_value(cls, part) for part in parts])


def joined(tree: Any, like: Tree | None = None) -> Any:
    """The inverse of `spread`; a tree without such features is returned unchanged. `like` has the
    same structure, if that is known."""
    known = like or Tree((tree,))
    if not [cls for cls in {*known.classes} if issubclass(cls, _Features)]:
        return tree
    apart = Tree((tree,))

    def made(k: int, values: list[Any]) -> Any:
        cls, before = apart.classes[k], apart.inside[k]
        if issubclass(cls, _Features):
            from ...ad import vector

            return cls.like._with(vector.pack([leaf.value(a) for a in values]))
        if any(map(is_not, values, before)):
            return rebuilt(cls, apart.keys.get(k), values)
        return apart.objects[k]

    return apart.put_together(apart.leaves, made)[0]


def reading(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function of trees with vectors so that it accepts trees with features."""
    return lambda *args, **kwargs: function(*joined(args), **joined(kwargs))


def spreading(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `reading`; the results are also trees with features."""
    return lambda *args, **kwargs: spread(function(*joined(args), **joined(kwargs)))
