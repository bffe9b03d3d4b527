"""Copies of the state of a loop for its body, so that whatever else refers to the same arrays does
not see them change while the loop runs, or is recorded.
"""

from collections.abc import Set
from typing import Any

from ..array import pytree
from ..array.base import ArrayBase, KernelValue
from ..array.leaf import new
from .state import Content, State, assign, content, copied, frozen, is_traced, parts, set_branches


class Shelter:
    """The state with arrays and containers of its own: `state`. The arrays at the positions `kept`
    stay the same objects, as those that a body scatters to may have one owner only.

    An array that occurs several times becomes several variables; a list, dictionary or structure
    stays one.
    """

    def __init__(self, state: State, kept: Set[int] = frozenset()) -> None:
        self._kept, self._position = kept, -1
        self._originals: dict[int, Any] = {}
        self._starts: dict[int, Content] = {}
        self._made: dict[int, Any] = {}
        self._copies: list[Any] = []  # alive, so that nothing else gets their numbers
        self.state = State(tuple([self._copy(v) for v in state.values]), state.titles, state.what)

    def _copy(self, value: Any) -> Any:
        if is_traced(value):
            made = self._array(value)
        elif id(value) in self._made:
            self._position += len(pytree.leaf_arrays(value))
            return self._made[id(value)]
        else:
            found = None if isinstance(value, ArrayBase) else pytree.children(value)
            if found is None:
                return value
            values = [self._copy(v) for _, v in found[0]]
            if all(v is old for v, (_, old) in zip(values, found[0], strict=True)):
                return value
            made = self._made[id(value)] = frozen(value, values)
        if made is not value:
            self._originals[id(made)] = value
            self._copies.append(made)
        return made

    def _array(self, value: Any) -> Any:
        if value._kind in ("leaf", "vector"):
            self._position += 1
            if self._position in self._kept:
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

        Of several variables that were the same array, those that change give it their contents in
        order; those that do not become arrays of their own if it has changed.
        """
        original = self._originals.get(id(value), value)
        if not is_traced(value):
            found = None if isinstance(value, ArrayBase) else pytree.children(value)
            if found is None:
                return value
            values = [self.returned(v) for _, v in found[0]]
            if original is value and all(
                v is old for v, (_, old) in zip(values, found[0], strict=True)
            ):
                return value
            if isinstance(value, tuple):
                before = [v for _, v in pytree.children(original)[0]]  # type: ignore[index]
                same = all(v is old for v, old in zip(values, before, strict=True))
                return original if same else found[1](values)
            set_branches(original, [*value] if isinstance(value, dict) else None, values)
        elif original is not value and self._is_unchanged(value):
            now = [content(a) for a in pytree.leaf_arrays(original)]
            return original if now == [content(a) for a in pytree.leaf_arrays(value)] else value
        elif value._kind == "leaf" or isinstance(value, KernelValue):
            if original is not value:
                assign(original, content(value))
        elif value._kind == "tensor":
            original._array, original._shape = self.returned(value._array), value._shape
        else:
            original._c[:] = [self.returned(c) for _, c in parts(value) or ()]
        return original

    def _is_unchanged(self, value: Any) -> bool:
        return all(self._starts.get(id(a)) == content(a) for a in pytree.leaf_arrays(value))
