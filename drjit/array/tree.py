"""Decomposition of values into all of their objects, down to one-dimensional arrays, and reassembly
around other arrays: the view that loops, branches and calls have of their variables.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from operator import is_not
from typing import Any

from ..ad.graph import as_value
from ..jit.ir.node import Node
from . import pytree
from .base import ArrayBase
from .leaf import from_value, new
from .pytree import LAYOUTS, ROLES, role, steps, too_deep

ARRAY = -1
OTHER = -2


def keys_and_parts(value: Any, kind: str) -> tuple[Any, Sequence[Any]]:
    """Returns the keys, field names or shape of a container, which may be an array, and its
    parts."""
    if kind == "nested":
        return None, value._components[:]
    if kind == "tensor":
        return value._shape, [value._array]
    return pytree.keys_and_parts(value, kind)


def rebuilt(cls: Any, keys: Any, values: list[Any]) -> Any:
    """Returns a new container of a class. A tensor whose entries do not match its shape becomes
    one-dimensional.

    Raises:
        IncompatibleError: the class is a structure that cannot be created without arguments.
    """
    if not issubclass(cls, ArrayBase):
        return pytree.rebuilt(cls, keys, values)
    made: Any = new(cls)
    if cls._kind == "nested":
        made._components = values
    else:
        made._array, size = values[0], values[0]._node.size
        made._shape = keys if prod(keys) == size else (size,)
    return made


def differs(container: Any, keys: Any, values: Sequence[Any]) -> bool:
    """Returns whether a container differs from the given parts, shape or keys."""
    if isinstance(container, list):
        now = container
    elif isinstance(container, ArrayBase):
        array: Any = container
        if array._kind == "tensor":
            return array._array is not values[0] or array._shape != keys
        now = array._components
    elif isinstance(container, dict):
        if len(container) != len(values):
            return True
        now = [container.get(key, _MISSING) for key in keys]
    else:
        now = [getattr(container, name, None) for name in keys]
    return len(now) != len(values) or any(map(is_not, now, values))


_MISSING = object()


def set_contents(container: Any, keys: Any, values: Sequence[Any]) -> None:
    """Replaces the parts of a container, which must not be a tuple."""
    if isinstance(container, ArrayBase):
        array: Any = container
        if array._kind == "tensor":
            array._array, array._shape = values[0], keys
        else:
            array._components[:] = values
    elif isinstance(container, list):
        container[:] = values
    elif isinstance(container, dict):
        container.clear()
        container.update(zip(keys, values, strict=True))
    else:
        for name, value in zip(keys, values, strict=True):
            if getattr(container, name, None) is not value:
                object.__setattr__(container, name, value)


def _named_steps(cls: Any, keys: Any, count: int) -> list[str]:
    is_vector = keys is None and issubclass(cls, ArrayBase) and cls.__meta__.kind != "matrix"
    return (
        [f".{name}" for name in "xyzw"[:count]]
        if is_vector and count <= 4
        else steps(cls, keys, count)
    )


class Tree:
    """The decomposition of some values.

    `objects` lists all objects, each before its parts, and `classes` their types. `counts` has the
    number of parts of each object: ARRAY stands for one-dimensional arrays and vectors, which are
    also in `leaves`, and OTHER for anything else that is not opened, at the positions `others`. By
    position, `parts` has the parts of containers, and `keys` the keys of dictionaries, names of
    fields, and shapes.
    """

    __slots__ = ("classes", "counts", "keys", "leaves", "objects", "others", "parts")

    def __init__(self, values: Sequence[Any]) -> None:
        self.others: list[int] = []
        self.keys: dict[int, Any] = {}
        self.parts: dict[int, Sequence[Any]] = {}
        self.classes: list[type] = [*map(type, values)]
        if [*map(ROLES.get, self.classes)].count("leaf") == len(values):
            self.objects: list[Any] = [*values]
            self.counts: list[int] = [ARRAY] * len(values)
            self.leaves: list[Any] = [*values]
            return
        self.objects, self.counts, self.leaves = [], [], []
        try:
            self._add(values)
        except RecursionError:
            raise too_deep() from None
        self.classes = [*map(type, self.objects)]

    def _add(self, values: Iterable[Any]) -> None:
        objects, counts, leaves, roles = self.objects, self.counts, self.leaves, ROLES.get
        for v in values:
            cls = type(v)
            objects.append(v)
            kind = roles(cls)
            layout = None
            if kind is None:
                layout = LAYOUTS.get(id(cls))
                kind = role(cls) if layout is None else "struct"
            if kind == "leaf" or kind == "vector":
                counts.append(ARRAY)
                leaves.append(v)
            elif kind == "other":
                self.others.append(len(counts))
                counts.append(OTHER)
            else:
                k = len(counts)
                if kind == "nested":
                    keys, found = None, v._components[:]
                elif cls is tuple or cls is list:
                    keys, found = None, [*v]
                elif layout is None:
                    keys, found = keys_and_parts(v, kind)
                else:
                    keys, read = layout
                    found = read(v)
                if keys is not None:
                    self.keys[k] = keys
                self.parts[k] = found
                counts.append(len(found))
                if kind == "nested" and found and roles(type(found[0])) == "leaf":
                    # As in most arrays, all of the same class.
                    objects += found
                    counts += [ARRAY] * len(found)
                    leaves += found
                else:
                    self._add(found)

    def has_structure_of(self, other: "Tree") -> bool:
        """Returns whether another tree has the same structure, tensor shapes and order of keys."""
        return (
            self.classes == other.classes
            and self.counts == other.counts
            and self.keys == other.keys
        )

    def labels(
        self, titles: Iterable[str], steps: Callable[[Any, Any, int], list[str]] = steps
    ) -> list[str]:
        """Returns the notation of the path to each object, given names of the values."""
        found: list[str] = []
        pending = [*titles][::-1]
        for k, n in enumerate(self.counts):
            path = pending.pop()
            found.append(path)
            if n > 0:
                cls, keys = self.classes[k], self.keys.get(k)
                is_tensor = keys is not None and issubclass(cls, ArrayBase)
                names = [""] if is_tensor else steps(cls, keys, n)
                pending += [path + name for name in reversed(names)]
        return found

    def names(self, titles: Iterable[str], places: Sequence[int]) -> list[str]:
        """Returns the names of the arrays at some places for the texts of kernels, in which
        components of vectors are called as labels do."""
        paths = zip(self.labels(titles, _named_steps), self.counts, strict=True)
        found = [path for path, n in paths if n == ARRAY]
        return [found[k] for k in places]

    def paired(self, other: "Tree") -> Iterator[tuple[int, int]]:
        """Yields corresponding positions of two trees. The caller continues only if the objects at
        both have the same number of parts, and dictionaries the same keys."""
        mine, theirs = self.rows(), other.rows()
        pending = [*zip(mine[-1], theirs[-1], strict=True)][::-1]
        while pending:
            i, j = pending.pop()
            yield i, j
            parts = theirs[j]
            if issubclass(self.classes[i], dict):
                places = dict(zip(other.keys[j], parts, strict=True))
                parts = [places[key] for key in self.keys[i]]
            pending += [*zip(mine[i], parts, strict=True)][::-1]

    def matched(
        self,
        other: "Tree",
        check: Callable[[int, "Tree", int], None],
        check_constant: Callable[[int, Any], None] | None,
    ) -> "Tree":
        """Returns another version of the tree in the order of this one. `check(i, other, j)` raises
        if the objects at corresponding positions are incompatible, in which case they need not be
        opened, and `check_constant(i, value)` if anything other than an array differs."""
        if self.has_structure_of(other):
            for k in self.others if check_constant else ():
                check_constant(k, other.objects[k])  # type: ignore[misc]
            return other
        order: list[int] = []
        for i, j in self.paired(other):
            check(i, other, j)
            if check_constant and self.counts[i] == OTHER:
                check_constant(i, other.objects[j])
            order.append(j)
        return other.ordered(order)

    def rows(self) -> list[list[int]]:
        """Returns the positions of each object's parts, followed by the positions of the values."""
        found: list[list[int]] = []
        stack: list[int] = []
        for k in range(len(self.counts) - 1, -1, -1):
            found.append(_popped(stack, max(self.counts[k], 0)))
            stack.append(k)
        return [*found[::-1], stack[::-1]]

    def ordered(self, order: list[int]) -> "Tree":
        """Returns the tree with its objects at the given positions, in that order."""
        made = Tree(())
        for i, k in enumerate(order):
            made.objects.append(self.objects[k])
            made.classes.append(self.classes[k])
            made.counts.append(self.counts[k])
            if k in self.parts:
                made.parts[i] = self.parts[k]
            if k in self.keys:
                made.keys[i] = self.keys[k]
        made.leaves = [v for v, n in zip(made.objects, made.counts, strict=True) if n == ARRAY]
        made.others = [k for k, n in enumerate(made.counts) if n == OTHER]
        return made

    def structure(self) -> "Tree":
        """Returns what `labels` and `has_structure_of` need, which refers to no objects."""
        made = object.__new__(Tree)
        made.classes, made.counts, made.keys = self.classes, self.counts, self.keys
        made.others = self.others
        return made

    def without_arrays(self) -> "Tree":
        """Returns the structure alone, which refers to no arrays."""
        made = self.structure()
        made.leaves, made.parts = [], {}
        made.objects = [None] * len(self.objects)
        for k in self.others:
            made.objects[k] = self.objects[k]
        return made

    def with_contents(self, contents: Iterable[tuple[Node, Any]]) -> list[Any]:
        """Returns the values with new arrays that hold the given nodes and derivative variables."""
        kinds = [cls for cls, n in zip(self.classes, self.counts, strict=True) if n == ARRAY]
        values = map(as_value, contents)
        return self.reassemble([*map(from_value, kinds, values)])

    def reassemble(
        self, leaves: Sequence[Any], make: Callable[[int, list[Any]], Any] | None = None
    ) -> list[Any]:
        """Returns the values around other arrays, with each container replaced by the result of
        `make(position, contents)`. By default, containers are created anew, and other arrays are
        copied."""
        if len(leaves) == len(self.counts):
            return [*leaves]
        counts, stack, k = self.counts, [], len(self.counts)
        take = reversed(leaves).__next__
        for n in reversed(counts):
            k -= 1
            if n == ARRAY:
                stack.append(take())
            elif n == OTHER:
                v = self.objects[k]
                stack.append(type(v)(v) if make is None and isinstance(v, ArrayBase) else v)
            else:
                found = _popped(stack, n)
                made = make(k, found) if make else rebuilt(self.classes[k], self.keys.get(k), found)
                stack.append(made)
        stack.reverse()
        return stack


def _popped(stack: list[Any], count: int) -> list[Any]:
    """Pops a number of objects from the end of a stack."""
    if not count:
        return []
    found = stack[: -count - 1 : -1]
    del stack[-count:]
    return found


def map_arrays(f: Callable[[Any, Any], Any], tree: Any) -> Any:
    """Returns a tree of the same structure with `f(array, class)` in place of every traced
    one-dimensional array, in the order of `traced_arrays`, and copies of all other arrays.

    A tensor whose number of entries changes becomes one-dimensional.
    """
    decomposed = Tree((tree,))
    leaves = [f(a, type(a)) if a._kind == "leaf" else a for a in decomposed.leaves]
    return decomposed.reassemble(leaves)[0]


def traced_arrays(tree: Any) -> list[Any]:
    """Returns the traced one-dimensional arrays in a tree."""
    return [a for a in Tree((tree,)).leaves if a._kind == "leaf"]
