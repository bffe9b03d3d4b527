"""Copies of the state of a loop for its body, so that whatever else refers to the same arrays does
not see them change while the loop runs, or is recorded.
"""

from collections.abc import Sequence, Set
from copy import copy
from operator import is_not
from typing import Any, NamedTuple

from ..array.base import ArrayBase
from ..array.pytree import ROLES, role
from ..array.tree import Tree, opened, rebuilt, set_contents
from .state import Content, State, assign, content, contents, copied


class _Copy(NamedTuple):
    """A copy, which is kept alive so that nothing else gets its number, its original, and what each
    of them consisted of; of arrays what the copy held."""

    copy: Any
    original: Any
    inside: Sequence[Any]
    outside: Sequence[Any]
    start: list[Content | None]


class Shelter:
    """The state with arrays and containers of its own: `state`. The arrays at the positions `kept`
    stay the same objects, as those that a body scatters to may have one owner only.

    An object that occurs at several places, be it an array, list, dictionary or structure, is
    several objects here.
    """

    def __init__(self, state: State, kept: Set[int] = frozenset()) -> None:
        tree = self._tree = state.tree
        leaves = [a if k in kept else copied(a) for k, a in enumerate(tree.leaves)]
        self._copies = {
            id(made): _Copy(made, a, (), (), [content(a)])
            for k, (made, a) in enumerate(zip(leaves, tree.leaves, strict=True))
            if k not in kept
        }
        self._same = {id(tree.leaves[k]) for k in kept}
        self.state = state.like(tuple(tree.put_together(leaves, self._copy)))

    def _copy(self, k: int, values: list[Any]) -> Any:
        """The copy of a container, which consists of copies."""
        tree = self._tree
        cls, original, outside = tree.classes[k], tree.objects[k], tree.inside[k]
        start: list[Content | None] = []
        if issubclass(cls, ArrayBase):
            known = [self._copies.get(id(a)) for a in Tree(values).leaves]
            start = [c and c.start[0] for c in known]  # nobody may hold what others do
        elif not any(map(is_not, values, outside)):
            return original
        made = _like(original, tree.keys.get(k), values)
        self._copies[id(made)] = _Copy(made, original, values, outside, start)
        return made

    def returned(self, values: tuple) -> tuple:
        """The results of the loop: original objects, with new contents, for copies.

        Of several copies of one object, those that change give it their contents in order. Those
        that do not are that object as well, unless it has changed by then: they become objects of
        their own.
        """
        return tuple(self._returned(values)[0])

    def _returned(self, values: Sequence[Any]) -> tuple[list[Any], bool]:
        """What is returned for some objects, and whether any of them is something else than the
        loop began with."""
        found: list[Any] = []
        changed = False
        for v in values:
            kind = ROLES.get(type(v)) or role(type(v))
            if kind == "other":
                found.append(v)
                continue
            known = self._copies.get(id(v))
            is_array = kind == "leaf" or kind == "vector"
            made, other = self._array(v, known) if is_array else self._container(v, known, kind)
            found.append(made)
            changed = changed or other
        return found, changed

    def _array(self, value: Any, known: _Copy | None) -> tuple[Any, bool]:
        if known is None:
            return value, id(value) not in self._same
        now, start = content(value), known.start[0]
        if now == start:
            return (known.original if content(known.original) == start else value), False
        assign(known.original, now)
        return known.original, True

    def _container(self, value: Any, known: _Copy | None, kind: str) -> tuple[Any, bool]:
        keys, now = opened(value, kind)
        original = value if known is None else known.original
        if isinstance(value, ArrayBase):
            if known is not None and contents(Tree(now).leaves) == known.start:
                same = contents(Tree((original,)).leaves) == known.start
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
        # What has not changed, but consisted of arrays that have in another place, is parted.
        return _with(original if changed else value, keys, values), changed


def _with(container: Any, keys: Any, values: list[Any]) -> Any:
    """A container with other contents: itself, if it can change."""
    if isinstance(container, tuple):
        return rebuilt(type(container), keys, values)
    set_contents(container, keys, values)
    return container


def _like(container: Any, keys: Any, values: list[Any]) -> Any:
    """A container of the same kind and keys or fields with other values."""
    if role(type(container)) != "struct":
        return rebuilt(type(container), keys, values)
    made = copy(container)
    set_contents(made, keys, values)
    return made


def _equal(values: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(values) == len(others) and not any(map(is_not, values, others))
