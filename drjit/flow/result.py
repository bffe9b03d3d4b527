"""Trees of arrays that go into and come out of traced functions: new arrays in their structure, and
whether two of them go together.
"""

from collections.abc import Callable
from typing import Any

from ..array import leaf, pytree
from ..array.base import ArrayBase, IncompatibleError, type_label
from ..function.grad import converted
from ..jit.node import Node


def map_arrays(f: Callable[[Any, Any], Any], tree: Any) -> Any:
    """A tree of the same structure with `f(array, class)` in place of every traced one-dimensional
    array, in the order of `traced`, and copies of all other arrays.

    A tensor whose number of entries changes becomes one-dimensional.
    """

    # Calls do this several times each: what most trees consist of goes first.
    kind = type(tree)
    if getattr(kind, "_kind", None) == "leaf":
        return f(tree, kind)
    if kind is tuple or kind is list:
        return kind([map_arrays(f, v) for v in tree])
    if kind is dict:
        return {k: map_arrays(f, v) for k, v in tree.items()}
    return pytree.map_tree(lambda v: _converted(v, f), tree)


def _converted(value: Any, f: Callable[[Any, Any], Any]) -> Any:
    if not isinstance(value, ArrayBase):
        return value
    if not value.__meta__.is_jit:
        return type(value)(value)
    made = converted(value, type(value), f)
    if made._kind == "tensor" and made._array._n.size != value._array._n.size:
        made._shape = (made._array._n.size,)
    return made


def traced(tree: Any) -> list[Any]:
    """The traced one-dimensional arrays that a tree consists of."""
    found: list[Any] = []
    try:
        _collect(tree, found)
    except RecursionError:
        raise pytree.too_deep() from None
    return found


def _collect(tree: Any, found: list[Any]) -> None:
    kind = type(tree)
    if getattr(kind, "_kind", None) == "leaf":
        found.append(tree)
    elif kind is tuple or kind is list:
        for v in tree:
            _collect(v, found)
    elif kind is dict:
        for v in tree.values():
            _collect(v, found)
    else:
        found += [a for a in pytree.leaf_arrays(tree) if a._kind == "leaf"]


def replaced(tree: Any, nodes: list[Node]) -> Any:
    """The tree with other nodes for its traced arrays, without derivatives."""
    new = iter(nodes)
    return map_arrays(lambda _, cls: leaf.wrap(cls, next(new)), tree)


def compare(what: str, first: Any, other: Any, path: str = "result") -> None:
    """Checks that two results can be merged lane by lane: they have the same structure, arrays of
    the same types, and everything that is no array is equal.

    Raises:
        IncompatibleError: they do not go together.
    """
    if type(first) is not type(other):
        raise IncompatibleError(
            f"{what}: inconsistent types for field '{path}': {type_label(other)} and "
            f"{type_label(first)}. All functions must return the same types; convert explicitly."
        )
    if isinstance(first, ArrayBase):
        _compare_arrays(what, first, other, path)
        return
    if isinstance(first, dict) and first.keys() != other.keys():
        raise IncompatibleError(
            f"{what}: inconsistent dictionary keys for field '{path}' ({list(other)} and "
            f"{list(first)})"
        )
    found, theirs = pytree.children(first), pytree.children(other)
    if found is None or theirs is None:
        _compare_constants(what, first, other, path)
        return
    mine, more = found[0], dict(theirs[0])
    if len(mine) != len(more):
        raise IncompatibleError(
            f"{what}: inconsistent sizes for field '{path}' ({len(more)} and {len(mine)})"
        )
    for name, value in mine:
        compare(what, value, more[name], path + name)


def _compare_arrays(what: str, first: Any, other: Any, path: str) -> None:
    if not first.__meta__.is_jit:
        _compare_constants(what, list(first), list(other), path)
    elif first._kind == "nested":
        if len(first._c) != len(other._c):
            raise IncompatibleError(
                f"{what}: inconsistent sizes for field '{path}' ({len(other._c)} and "
                f"{len(first._c)}), which is of type {type_label(first)}"
            )
        for k, (a, b) in enumerate(zip(first._c, other._c, strict=True)):
            _compare_arrays(what, a, b, f"{path}[{k}]")


def _compare_constants(what: str, first: Any, other: Any, path: str) -> None:
    try:
        same = first is other or bool(first == other)
    except (TypeError, ValueError, RuntimeError):
        same = False
    if not same:
        raise IncompatibleError(
            f"{what}: inconsistent scalar Python object of type '{type_label(first)}' for field "
            f"'{path}', which is {first!r} for one function and {other!r} for another. It must be "
            "the same for all; return an array instead."
        )
