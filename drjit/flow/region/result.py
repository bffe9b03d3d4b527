"""Trees of arrays passed into and out of traced functions: new arrays in the same structure, and
compatibility checks.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ...array.base import ArrayBase, IncompatibleError, type_label
from ...array.tree import Tree


def map_arrays(f: Callable[[Any, Any], Any], tree: Any) -> Any:
    """Returns a tree of the same structure with `f(array, class)` in place of every traced
    one-dimensional array, in the order of `traced`, and copies of all other arrays.

    A tensor whose number of entries changes becomes one-dimensional.
    """
    apart = Tree((tree,))
    made = [f(a, type(a)) if a._kind == "leaf" else a for a in apart.leaves]
    return apart.put_together(made)[0]


def traced(tree: Any) -> list[Any]:
    """Returns the traced one-dimensional arrays in a tree."""
    return [a for a in Tree((tree,)).leaves if a._kind == "leaf"]


def compare(what: str, first: Any, other: Any) -> None:
    """Checks that two results can be merged lane by lane; see `matched`."""
    matched(what, Tree((first,)), Tree((other,)))


def matched(what: str, first: Tree, other: Tree) -> Tree:
    """Returns a result in the order of another one with which it can be merged lane by lane: they
    have the same structure and array types, and everything other than arrays is equal.

    Raises:
        IncompatibleError: they are incompatible.
    """
    return first.matched(
        other, partial(_check_structure, what, first), partial(_check_constant, what, first)
    )


def _path(tree: Tree, k: int) -> str:
    return tree.labels(["result"])[k]


def _check_structure(what: str, first: Tree, i: int, other: Tree, j: int) -> None:
    cls, mine, theirs = first.classes[i], first.counts[i], other.counts[j]
    if cls is not other.classes[j]:
        raise IncompatibleError(
            f"{what}: inconsistent types for field '{_path(first, i)}': "
            f"{type_label(other.classes[j])} and {type_label(cls)}. All functions must return the "
            "same types; convert explicitly."
        )
    if issubclass(cls, dict) and {*first.keys[i]} != {*other.keys[j]}:
        raise IncompatibleError(
            f"{what}: inconsistent dictionary keys for field '{_path(first, i)}' "
            f"({list(other.keys[j])} and {list(first.keys[i])})"
        )
    if mine != theirs:
        of = f", which is of type {type_label(cls)}" if issubclass(cls, ArrayBase) else ""
        raise IncompatibleError(
            f"{what}: inconsistent sizes for field '{_path(first, i)}' ({theirs} and {mine}){of}"
        )


def _check_constant(what: str, first: Tree, k: int, other: Any) -> None:
    mine = first.objects[k]
    try:
        if isinstance(mine, ArrayBase):
            same = list(mine) == list(other)
        else:
            same = mine is other or bool(mine == other)
    except (TypeError, ValueError, RuntimeError):
        same = False
    if not same:
        raise IncompatibleError(
            f"{what}: inconsistent scalar Python object of type '{type_label(mine)}' for field "
            f"'{_path(first, k)}', which is {mine!r} for one function and {other!r} for another. "
            "It must be the same for all; return an array instead."
        )
