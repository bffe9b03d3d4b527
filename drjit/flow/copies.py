"""Copies of functions and of what they refer to, with which loops, branches and calls trace them
again for derivatives: what the program does afterwards to its variables and arrays makes no
difference, and the graph of derivatives does not refer to the program's arrays, which refer to it.
"""

from collections.abc import Iterable, Sequence
from copy import copy
from functools import partial
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from ..array.base import ArrayBase
from ..array.leaf import new
from ..array.pytree import ROLES, rebuilt, role
from ..array.tree import inside, opened, set_contents
from ..jit.node import literal
from .state import Content, assign, holding

_DEEPEST = 3  # objects within objects whose attributes are looked at
_SIMPLE = frozenset((bool, int, float, str, type(None)))


class Copies:
    """A copy of `roots`, functions and trees, in which each array of `known` holds what is given
    with it, and each of `targets`, to which the functions write, zeros if it is not among these.

    Copied are the functions with the variables that they have captured, these arrays, and all that
    leads to them: lists, tuples, dictionaries, structures, and, if there are targets, objects with
    attributes. What is the same object stays one. The rest, such as what functions refer to by
    global names, is shared with the program.
    """

    def __init__(
        self, roots: tuple, known: Iterable[tuple[Any, Content]], targets: Sequence[Any] = ()
    ) -> None:
        self._arrays: list[tuple[Any, Content]] = []
        zeros = [(a, Content(literal(a._n.dtype, 0, a._n.size), a._a)) for a in targets]
        copier = _Copier([*known, *zeros], self._arrays, _DEEPEST if targets else 0)
        self.roots = copier.run(roots)

    def restore(self) -> None:
        """Undoes what the functions did to the arrays."""
        for a, value in self._arrays:
            assign(a, value)


class _Copier:
    """Makes copies, and adds those of arrays to a list, with what they hold. It refers to the
    originals."""

    def __init__(
        self, known: list[tuple[Any, Content]], arrays: list[tuple[Any, Content]], deepest: int
    ) -> None:
        self._known: dict[int, tuple[Any, Content]] = {}
        for a, value in known:
            self._known.setdefault(id(a), (a, value))
        self._arrays, self._deepest = arrays, deepest
        self._made: dict[int, Any] = {}
        self._changing: set[int] = set()

    def run(self, roots: tuple) -> tuple:
        """The copies of some objects."""
        self._changing = self._leading_to_known(roots)
        return tuple([self._copy(v) for v in roots])

    def _leading_to_known(self, roots: tuple) -> set[int]:
        """The numbers (`id`) of the objects below the roots that contain an array of `known`."""
        above: dict[int, list[int]] = {}
        seen: set[int] = set()
        pending = [(v, 0) for v in roots]
        for value, depth in pending:  # which grows
            inside, depth = _inside(value, depth, self._deepest)
            for part in inside:
                if id(part) not in seen:
                    seen.add(id(part))
                    pending.append((part, depth))
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
        elif kind == "other":
            made = self._made[id(value)] = object.__new__(type(value))
            vars(made).update({name: self._copy(v) for name, v in vars(value).items()})
        else:
            keys, parts = opened(value, kind)
            is_array = isinstance(value, ArrayBase)
            made = self._made[id(value)] = new(type(value)) if is_array else copy(value)
            if kind == "nested":
                made._c = []
            set_contents(made, keys, [self._copy(v) for v in parts])
        return made


def _contents(cell: CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:  # a variable without a value
        return []


def _inside(value: Any, depth: int, deepest: int) -> tuple[list[Any], int]:
    """What an object consists of, and in how many objects with attributes that is."""
    kind = type(value)
    if kind in _SIMPLE:
        return [], depth
    if kind is FunctionType:
        more = (value.__defaults__, value.__kwdefaults__, vars(value))
        return [*(value.__closure__ or ()), *[v for v in more if v]], depth
    if kind is CellType:
        return _contents(value), depth
    if kind is MethodType:
        return [value.__func__, value.__self__], depth
    if kind is partial:
        return [value.func, value.args, value.keywords], depth
    found = inside(value)
    if found is not None:
        return [*found], depth
    if depth < deepest and not isinstance(value, (ArrayBase, ModuleType)) and _is_plain(kind):
        return [*vars(value).values()], depth + 1
    return [], depth


def _is_plain(kind: type) -> bool:
    """Whether objects of a class consist of their attributes, which are in a dictionary."""
    bases = kind.__mro__
    return (
        kind.__new__ is object.__new__
        and kind.__dictoffset__ != 0
        and not any(vars(c).get("__slots__") for c in bases)
    )
