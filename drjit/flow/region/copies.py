"""Copies of functions and of what they refer to, with which loops, branches and calls trace them
again for derivatives: what the program does afterwards to its variables and arrays makes no
difference, and the graph of derivatives does not refer to the program's arrays, which refer to it.
"""

from collections.abc import Iterable
from copy import copy
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

from ...ad.graph import Value
from ...array.base import ArrayBase
from ...array.leaf import new
from ...array.pytree import ROLES, rebuilt, role
from ...array.tree import inside, opened, set_contents
from .state import assign, holding

_SIMPLE = frozenset((bool, int, float, str, type(None)))


class FunctionCopies:
    """A copy of `roots`, functions and trees, in which each array of `known` holds what is given
    with it.

    Copied are the functions with the variables that they have captured, these arrays, and all that
    leads to them: lists, tuples, dictionaries and structures. What is the same object stays one.
    The rest, such as what functions refer to by global names, is shared with the program.
    """

    def __init__(self, roots: tuple, known: Iterable[tuple[Any, Value]]) -> None:
        self._arrays: list[tuple[Any, Value]] = []
        self.roots = _Copier(known, self._arrays).run(roots)

    def restore(self) -> None:
        """Undoes what the functions did to the arrays."""
        for a, value in self._arrays:
            assign(a, value)


class _Copier:
    """Makes copies, and adds those of arrays to a list, with what they hold. It refers to the
    originals."""

    def __init__(self, known: Iterable[tuple[Any, Value]], arrays: list[tuple[Any, Value]]) -> None:
        self._known: dict[int, tuple[Any, Value]] = {}
        for a, value in known:
            self._known.setdefault(id(a), (a, value))
        self._arrays = arrays
        self._made: dict[int, Any] = {}
        self._changing: set[int] = set()

    def run(self, roots: tuple) -> tuple:
        """The copies of some objects."""
        self._changing = self._leading_to_known(roots) if self._known else set()
        return tuple([self._copy(v) for v in roots])

    def _leading_to_known(self, roots: tuple) -> set[int]:
        """The numbers (`id`) of the objects below the roots that contain an array of `known`."""
        above: dict[int, list[int]] = {}
        seen: set[int] = set()
        for value in (pending := [*roots]):  # which grows
            for part in _inside(value):
                if id(part) not in seen:
                    seen.add(id(part))
                    pending.append(part)
                above.setdefault(id(part), []).append(id(value))
        found = dict.fromkeys(self._known)
        for number in (order := list(found)):  # which grows
            for k in above.get(number, ()):
                if k not in found:
                    found[k] = None
                    order.append(k)
        return set(found)

    def _copy(self, value: Any) -> Any:
        made = self._made.get(id(value))
        if made is not None:
            return made
        kind = type(value)
        if kind is FunctionType and value.__closure__:
            return self._function(value)
        if id(value) not in self._changing:
            return value
        if kind is FunctionType:
            return self._function(value)
        if kind is MethodType:
            made = MethodType(self._copy(value.__func__), self._copy(value.__self__))
        elif kind is partial:
            args, keywords = self._copy(value.args), self._copy(value.keywords)
            made = partial(self._copy(value.func), *args, **keywords)
        elif isinstance(value, tuple):
            made = rebuilt(kind, None, [self._copy(v) for v in value])
        else:
            return self._changeable(value)
        self._made[id(value)] = made
        return made

    def _function(self, f: FunctionType) -> FunctionType:
        cells = f.__closure__ or ()
        fresh = [(old, CellType()) for old in cells if id(old) not in self._made]
        self._made.update({id(old): made for old, made in fresh})
        closure = tuple([self._made[id(c)] for c in cells])
        made = FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, closure)
        self._made[id(f)] = made  # a function may refer to itself
        made.__qualname__ = f.__qualname__
        made.__defaults__ = self._copy(f.__defaults__)
        made.__kwdefaults__ = self._copy(f.__kwdefaults__)
        vars(made).update({name: self._copy(v) for name, v in vars(f).items()})
        for old, own in fresh:
            for value in _contents(old):
                own.cell_contents = self._copy(value)
        return made

    def _changeable(self, value: Any) -> Any:
        """An array, or an object whose contents may change, so that they may contain itself."""
        kind = ROLES.get(type(value)) or role(type(value))
        if kind == "leaf" or kind == "vector":
            content = self._known[id(value)][1]
            made = self._made[id(value)] = holding(value, content)
            self._arrays.append((made, content))
        else:
            keys, parts = opened(value, kind)
            is_array = isinstance(value, ArrayBase)
            made = self._made[id(value)] = new(type(value)) if is_array else copy(value)
            if kind == "nested":
                made._components = []
            set_contents(made, keys, [self._copy(v) for v in parts])
        return made


def _contents(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # a variable without a value
        return []


def _inside(value: Any) -> Iterable[Any]:
    """What an object consists of."""
    kind = type(value)
    if kind in _SIMPLE:
        return ()
    if kind is FunctionType:
        more = (value.__defaults__, value.__kwdefaults__, vars(value))
        return [*(value.__closure__ or ()), *[v for v in more if v]]
    if kind is CellType:
        return _contents(value)
    if kind is MethodType:
        return value.__func__, value.__self__
    if kind is partial:
        return value.func, value.args, value.keywords
    return inside(value) or ()
