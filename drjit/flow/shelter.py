"""Copies of the state of a loop for its body, so that whatever else refers to the same arrays does
not see them change while the loop runs, or is recorded.
"""

from collections.abc import Set
from typing import Any, NamedTuple

from ..array import pytree
from ..array.base import ArrayBase, KernelValue
from ..array.leaf import new
from .state import Content, State, assign, content, copied, frozen, is_traced, parts, set_branches


class _Copy(NamedTuple):
    """A copy, which is kept alive so that nothing else gets its number, its original, and what each
    of them consisted of."""

    copy: Any
    original: Any
    inside: list[Any]
    outside: list[Any]


class Shelter:
    """The state with arrays and containers of its own: `state`. The arrays at the positions `kept`
    stay the same objects, as those that a body scatters to may have one owner only.

    An object that occurs at several places, be it an array, list, dictionary or structure, is
    several objects here.
    """

    def __init__(self, state: State, kept: Set[int] = frozenset()) -> None:
        self._kept, self._position = kept, -1
        self._copies: dict[int, _Copy] = {}
        self._starts: dict[int, Content] = {}
        self._same: set[int] = set()  # the numbers of the arrays that are no copies
        self.state = State(tuple([self._copy(v) for v in state.values]), state.titles, state.what)

    def _copy(self, value: Any) -> Any:
        inside: list[Any] = []
        outside: list[Any] = []
        if is_traced(value):
            made = self._array(value)
        else:
            found = None if isinstance(value, ArrayBase) else pytree.children(value)
            if found is None:
                return value
            outside = [v for _, v in found[0]]
            inside = [self._copy(v) for v in outside]
            if all(v is old for v, old in zip(inside, outside, strict=True)):
                return value
            made = frozen(value, inside)
        if made is not value:
            self._copies[id(made)] = _Copy(made, value, inside, outside)
        return made

    def _array(self, value: Any) -> Any:
        if value._kind in ("leaf", "vector"):
            self._position += 1
            if self._position in self._kept:
                self._same.add(id(value))
                return value
            made = copied(value)
            self._starts[id(made)] = content(made)
            return made
        made = new(type(value))
        if value._kind == "tensor":
            made._array, made._shape = self._copy(value._array), value._shape
        else:
            made._c = [self._copy(c) for c in value._c]
        return made

    def returned(self, value: Any) -> Any:
        """A result of the loop: an original object, with its new contents, for each copy.

        Of several copies of one object, those that change give it their contents in order. Those
        that do not are that object as well, unless it has changed by then: they become objects of
        their own.
        """
        return self._returned(value)[0]

    def _returned(self, value: Any) -> tuple[Any, bool]:
        """The same, and whether it is something else than the loop began with."""
        if is_traced(value):
            return self._returned_array(value)
        found = None if isinstance(value, ArrayBase) else pytree.children(value)
        if found is None:
            return value, False
        now = [v for _, v in found[0]]
        rows = [self._returned(v) for v in now]
        values = [v for v, _ in rows]
        known = self._copies.get(id(value))
        if known is None:
            if any(v is not old for v, old in zip(values, now, strict=True)):
                if isinstance(value, tuple):
                    value = found[1](values)
                else:
                    set_branches(value, [*value] if isinstance(value, dict) else None, values)
            return value, True
        changed = any(c for _, c in rows) or not _equal(now, known.inside)
        if _equal(values, known.outside) and (not changed or isinstance(value, tuple)):
            return known.original, changed
        if isinstance(value, tuple):
            return found[1](values), changed
        # What has not changed, but consisted of arrays that have in another place, is parted.
        target = known.original if changed else value
        set_branches(target, [*value] if isinstance(value, dict) else None, values)
        return target, changed

    def _returned_array(self, value: Any) -> tuple[Any, bool]:
        known = self._copies.get(id(value))
        if known is None:
            if value._kind in ("leaf", "vector"):
                return value, id(value) not in self._same
            original = value
        else:
            original = known.original
            before = [self._starts.get(id(a)) for a in pytree.leaf_arrays(value)]
            if before == [content(a) for a in pytree.leaf_arrays(value)]:
                now = [content(a) for a in pytree.leaf_arrays(original)]
                return (original if now == before else value), False
        if value._kind == "leaf" or isinstance(value, KernelValue):
            assign(original, content(value))
        elif value._kind == "tensor":
            original._array, original._shape = self.returned(value._array), value._shape
        else:
            original._c[:] = [self.returned(c) for _, c in parts(value) or ()]
        return original, True


def _equal(values: list[Any], others: list[Any]) -> bool:
    return len(values) == len(others) and all(
        v is other for v, other in zip(values, others, strict=True)
    )
