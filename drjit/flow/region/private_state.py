"""Private copies of a loop's state for its body, so that other references to the same arrays do not
see them change while the loop runs or is recorded.
"""

from collections.abc import Sequence, Set
from operator import is_not
from typing import Any

from ...ad.graph import Value
from ...array import leaf
from ...array.base import ArrayBase
from ...array.pytree import ROLES, is_data_class, leaf_arrays, role
from ...array.tree import opened, rebuilt, set_contents
from ...jit.tuples import NamedTuple
from .state import State, assign, holding


class _ContainerCopy(NamedTuple):
    """A copy of a container, kept alive so that its id is not reused; its original; and the parts
    of each, or for arrays the contents of the one-dimensional ones."""

    copy: Any
    original: Any
    inside: Sequence[Any]
    outside: Sequence[Any]
    start: list[Value | None]


class PrivateState:
    """The state with private arrays and containers: `state`. The arrays at the positions `kept`
    remain the same objects, because arrays that a body scatters to must have a single owner.

    An object that occurs in several places, be it an array, list, dictionary or structure, becomes
    several objects here.
    """

    def __init__(self, state: State, kept: Set[int] = frozenset()) -> None:
        tree = self._tree = state.tree
        # Copies of one-dimensional arrays, their originals, and their contents, by number.
        self._arrays: dict[int, tuple[Any, Any, Value]] = {}
        self._copies: dict[int, _ContainerCopy] = {}
        leaves = [*tree.leaves]
        for k, original in enumerate(tree.leaves):
            if k not in kept:
                held = leaf.value(original)
                made = leaves[k] = holding(original, held)
                self._arrays[id(made)] = made, original, held
        self._same = {id(tree.leaves[k]) for k in kept} if kept else frozenset()
        if len(leaves) == len(tree.counts):
            self.state = State(tuple(leaves), state.titles, state.what)
        else:
            self.state = state.like(tuple(tree.put_together(leaves, self._copy)))

    def _copy(self, k: int, values: list[Any]) -> Any:
        """Returns the copy of a container, which consists of copies."""
        tree = self._tree
        cls, original, outside = tree.classes[k], tree.objects[k], tree.inside[k]
        start: list[Value | None] = []
        if issubclass(cls, ArrayBase):
            for v in values:
                if inner := self._copies.get(id(v)):
                    start += inner.start
                else:
                    known = self._arrays.get(id(v))
                    start.append(known and known[2])  # nothing may hold the contents of others
        elif not any(map(is_not, values, outside)):
            return original
        made = _like(original, tree.keys.get(k), values)
        self._copies[id(made)] = _ContainerCopy(made, original, values, outside, start)
        return made

    def returned(self, values: tuple) -> tuple:
        """Returns the results of the loop: copies are replaced by the original objects, with new
        contents.

        If an object has several copies, those that changed assign their contents to it in order.
        Unchanged copies become the original object as well, unless it has changed by then: in that
        case, they become separate objects.
        """
        return tuple(self._returned(values)[0])

    def _returned(self, values: Sequence[Any]) -> tuple[list[Any], bool]:
        """Returns the results for some objects, and whether any of them differs from the initial
        object."""
        found: list[Any] = []
        changed = False
        for v in values:
            kind = ROLES.get(type(v)) or role(type(v))
            if kind == "leaf" or kind == "vector":
                known = self._arrays.get(id(v))
                if known is None:
                    changed = changed or id(v) not in self._same
                else:
                    _, original, start = known
                    now = leaf.value(v)
                    if now != start:
                        assign(original, now)
                        v, changed = original, True
                    elif leaf.value(original) == start:
                        v = original
            elif kind != "other":
                v, other = self._container(v, kind)
                changed = changed or other
            found.append(v)
        return found, changed

    def _container(self, value: Any, kind: str) -> tuple[Any, bool]:
        known = self._copies.get(id(value))
        keys, now = opened(value, kind)
        original = value if known is None else known.original
        if isinstance(value, ArrayBase):
            if known is not None and leaf.values(leaf_arrays(value)) == known.start:
                same = leaf.values(leaf_arrays(original)) == known.start
                return (original if same else value), False
            set_contents(original, keys, self._returned(now)[0])
            return original, True
        values, changed = self._returned(now)
        if known is None:
            if any(map(is_not, values, now)):
                value = _with(value, keys, values)
            return value, True
        changed = changed or not _equal(now, known.inside)
        if _equal(values, known.outside) and (not changed or isinstance(value, tuple)):
            return original, changed
        # An unchanged container with arrays that have changed elsewhere is split off.
        return _with(original if changed else value, keys, values), changed


def _with(container: Any, keys: Any, values: list[Any]) -> Any:
    """Returns a container with other contents: itself, if it is mutable."""
    if isinstance(container, tuple):
        return rebuilt(type(container), keys, values)
    set_contents(container, keys, values)
    return container


def _like(container: Any, keys: Any, values: list[Any]) -> Any:
    """Returns a container of the same kind with the same keys or fields and other values."""
    cls = type(container)
    if role(cls) != "struct" or _is_all_fields(container, keys):
        return rebuilt(cls, keys, values)
    from copy import copy

    made = copy(container)
    set_contents(made, keys, values)
    return made


def _is_all_fields(container: Any, names: Sequence[str]) -> bool:
    """Returns whether a structure is a data class, copied in the usual way, that has no attributes
    other than its fields."""
    cls = type(container)
    if not is_data_class(cls) or hasattr(cls, "__copy__"):
        return False
    return getattr(container, "__dict__", {}).keys() == {*names}


def _equal(values: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(values) == len(others) and not any(map(is_not, values, others))
