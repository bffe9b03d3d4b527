"""Arrays that the functions of a loop or branch reach other than through its variables: those that
they capture, and those in attributes of objects that are no PyTrees. Their values cannot be
exchanged, so functions may read them and scatter to them, but not change them otherwise."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any

from ...ad.graph import Value
from ...array import leaf, pytree
from ...array.base import ArrayBase, KernelValue
from ...array.pytree import leaf_arrays
from ...jit.ir.node import AFTER, BUFFER, Node, literal, make

_PLAIN = (ModuleType, FunctionType, type, ArrayBase)


class WeakValue:
    """The contents of an array, as long as they exist. Evaluated contents are held weakly, because
    a scatter would have to copy them if anything else held them."""

    def __init__(self, value: Value) -> None:
        n, self.var, self.serial = value.node, value.var, value.node.serial
        self._node: Node | weakref.ref[Node] = n
        if n.op is AFTER or n.op is BUFFER:
            self._node = weakref.ref(n)
        self.dtype, self.size = n.dtype, n.size
        self.memory = n.data if n.op is BUFFER else None

    def content(self) -> Value | None:
        n = self._node if isinstance(self._node, Node) else self._node()
        return None if n is None else Value(n, self.var)

    def restore(self, array: Any) -> None:
        """Restores the contents of an array that has changed other than by a scatter."""
        value = self.content()
        if value is not None and array._node is not value.node and array._node.op is not AFTER:
            leaf.assign(array, value)

    def recovered(self) -> Value | None:
        """Returns the contents; if a scatter that was undone took them over, from their memory."""
        found = self.content()
        if found is None and self.memory is not None:
            found = Value(make(BUFFER, self.dtype, self.size, (), self.memory), self.var)
        return found

    def stand_in(self) -> Value:
        """Returns contents of the same type and size."""
        return Value(literal(self.dtype, 0, self.size), self.var)


class AttributeArrays:
    """The arrays, by `name`, among the attributes of an object other than a PyTree, so that a loop
    or branch cannot exchange their values."""

    def __init__(self, place: int, owner: Any, arrays: dict[str, Any]) -> None:
        self.place, self.owner, self.arrays = place, owner, arrays
        self._before = [WeakValue(leaf.value(a)) for a in self._leaves()]

    def _leaves(self) -> list[Any]:
        return [*chain.from_iterable(map(leaf_arrays, self.arrays.values()))]

    def changed(self, written: Set[int]) -> str | None:
        """Returns the name of an array that has changed other than by a scatter, if any. The nodes
        of scatters have the serial numbers `written`, or are pending."""
        now, before = vars(self.owner), iter(self._before)
        for name, array in self.arrays.items():
            if now.get(name) is not array:
                return name
            for a in leaf_arrays(array):
                n, saved = a._node, next(before, None)
                same = saved is not None and n.serial == saved.serial
                if not same and n.op is not AFTER and n.serial not in written:
                    return name
        return None

    def restore(self) -> None:
        """Undoes changes."""
        vars(self.owner).update(self.arrays)
        for a, saved in zip(self._leaves(), self._before, strict=False):
            saved.restore(a)


def arrays_in_attributes(value: Any) -> dict[str, Any]:
    """Returns the traced arrays, and vectors, among the attributes of an object that is not a
    PyTree."""
    if not hasattr(value, "__dict__") or isinstance(value, _PLAIN):
        return {}
    found = {}
    for name, array in [*vars(value).items()]:
        cls: Any = type(array)
        if cls.__meta__.is_jit if issubclass(cls, ArrayBase) else issubclass(cls, KernelValue):
            found[name] = array
    return found


class ClosureArrays:
    """The contents of arrays that functions capture from enclosing functions, except those in
    `state`, before they run.

    A loop or branch cannot exchange their values, so its functions may read them and scatter to
    them, but not change them otherwise.
    """

    def __init__(self, functions: Sequence[Callable[..., Any]], state: Iterable[Any]) -> None:
        own = {id(a) for a in state}
        self.arrays = [
            (name, a, WeakValue(leaf.value(a)))
            for name, a in _captured(functions)
            if id(a) not in own
        ]

    def check(self, what: str) -> None:
        """Raises a RuntimeError if an array has changed other than by a scatter; its contents are
        restored.
        """
        for name, a, before in self.arrays:
            if a._node.serial != before.serial and a._node.op is not AFTER:
                self.restore()
                raise RuntimeError(
                    f"{what}: the captured variable '{name}' changes. Pass it as one of the "
                    "variables, and return it."
                )

    def restore(self) -> None:
        """Undoes changes."""
        for _, a, before in self.arrays:
            before.restore(a)


def _captured(functions: Sequence[Callable[..., Any]]) -> list[tuple[str, Any]]:
    """Returns the traced one-dimensional arrays, without duplicates, in the variables that
    functions capture, and their names."""
    found: dict[int, tuple[str, Any]] = {}
    seen: set[int] = set()
    pending = list(functions)
    while pending:
        f = pending.pop()
        if not isinstance(f, FunctionType) or id(f) in seen:
            continue
        seen.add(id(f))
        for name, value in _variables(f):
            if isinstance(value, FunctionType):
                pending.append(value)
            for a in pytree.leaf_arrays(value):
                if a._kind == "leaf":
                    found.setdefault(id(a), (name, a))
    return list(found.values())


def _variables(f: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields the variables that a function captures, and the defaults of its arguments."""
    code = f.__code__
    for name, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # a variable without a value
            continue
    defaults = f.__defaults__ or ()
    end = code.co_argcount
    yield from zip(code.co_varnames[end - len(defaults) : end], defaults, strict=True)
    yield from (f.__kwdefaults__ or {}).items()
