"""The state of loops and branches: PyTrees of arrays whose values are exchanged while the objects
remain; comparison of the state before and after a body; and messages that name the differences.

The position of an array is its place among the leaves of the tree before the body, or of the first
function's result in a branch. An array that is the same object on both sides is updated in place,
so that all references to it see the result; everything else is returned as new objects.
"""

import weakref
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache, partial
from itertools import chain
from math import prod
from operator import attrgetter, is_not
from types import FunctionType, ModuleType
from typing import Any

from ...ad.graph import Value
from ...array import leaf, pytree
from ...array.base import ArrayBase, KernelValue, type_label
from ...array.pytree import ROLES, role
from ...array.tree import ARRAY, Tree, differs, opened, rebuilt, set_contents
from ...jit.ir.node import AFTER, BUFFER, Node, literal, make
from .undefined import Undefined, UndefinedError

_NUMBERS = (bool, int, float)
_ARRAYS = frozenset(("leaf", "nested", "tensor", "vector"))
_SIMPLE = frozenset((*_NUMBERS, str, type(None), type))
_PLAIN = (ModuleType, FunctionType, type, ArrayBase)


def assign(array: Any, value: Value) -> None:
    """Sets the contents of an array."""
    array._node = value.node
    if array._diff:
        array._var = value.var


def is_traced(value: Any) -> bool:
    """Returns whether a value is an array, or a vector, that can be part of kernels."""
    kind = type(value)
    if issubclass(kind, ArrayBase):
        return kind.__meta__.is_jit
    return issubclass(kind, KernelValue)


def names(count: int, labels: Sequence[str], noun: str, what: str) -> tuple[str, ...]:
    """Returns the names of the entries of a tuple for messages.

    Raises:
        RuntimeError: the number of labels differs from the number of entries.
    """
    if not labels:
        return numbered(count, noun)
    if len(labels) != count:
        raise RuntimeError(
            f"{what}: there are {count} variables ('{noun}') and {len(labels)} labels"
        )
    return tuple(labels)


@lru_cache(64)
def numbered(count: int, noun: str) -> tuple[str, ...]:
    """Returns names of the entries of a tuple without labels."""
    return tuple([f"{noun}[{k}]" for k in range(count)])


class Attributes:
    """The arrays, `found` by name, among the attributes of an object other than a PyTree, so that a
    loop or branch cannot exchange their values.

    Evaluated contents are held weakly, because a scatter would have to copy them if anything else
    held them.
    """

    def __init__(self, place: int, owner: Any, found: dict[str, Any]) -> None:
        self.place, self.owner, self.found = place, owner, found
        leaves = self._leaves()
        self._serials = [*map(_serial, leaves)]
        self._before = [*zip(_held([*map(_node, leaves)]), map(_var, leaves), strict=True)]

    def _leaves(self) -> list[Any]:
        return [*chain.from_iterable(map(pytree.leaf_arrays, self.found.values()))]

    def changed(self, written: Set[int]) -> str | None:
        """Returns the name of an array that has changed other than by a scatter, if any. The nodes
        of scatters have the serial numbers `written`, or are pending."""
        now, found = vars(self.owner), self.found
        same = not any(map(is_not, map(now.get, found), found.values()))
        if same and [*map(_serial, self._leaves())] == self._serials:
            return None
        serials = iter(self._serials)
        for name, array in found.items():
            if now.get(name) is not array:
                return name
            for a in pytree.leaf_arrays(array):
                n = a._node
                if n.serial != next(serials, -1) and n.op is not AFTER and n.serial not in written:
                    return name
        return None

    def restore(self) -> None:
        """Undoes changes."""
        vars(self.owner).update(self.found)
        rows = zip(self._leaves(), self._serials, self._before, strict=False)
        for a, serial, (held, var) in rows:
            if a._node.serial != serial and a._node.op is not AFTER:
                n = held if isinstance(held, Node) else held()
                if n is not None:
                    assign(a, Value(n, var))


_serial, _node, _var = attrgetter("_node.serial"), attrgetter("_node"), attrgetter("_var")


def _is_tensor(container: Any) -> bool:
    return isinstance(container, ArrayBase) and container._kind == "tensor"


def _held(nodes: Sequence[Node]) -> list[Node | weakref.ref[Node]]:
    """Returns the nodes, or references to evaluated contents that do not hold them."""
    return [weakref.ref(n) if n.op is AFTER or n.op is BUFFER else n for n in nodes]


class WeakValue:
    """The contents of an array, as long as they exist."""

    def __init__(self, value: Value) -> None:
        n, self.var, self.serial = value.node, value.var, value.node.serial
        (self._node,) = _held((n,))
        self.dtype, self.size = n.dtype, n.size
        self.memory = n.data if n.op is BUFFER else None

    def content(self) -> Value | None:
        n = self._node if isinstance(self._node, Node) else self._node()
        return None if n is None else Value(n, self.var)

    def restore(self, array: Any) -> None:
        """Restores the contents of an array that has changed other than by a scatter."""
        value = self.content()
        if value is not None and array._node is not value.node and array._node.op is not AFTER:
            assign(array, value)

    def recovered(self) -> Value | None:
        """Returns the contents; if a scatter that was undone took them over, from their memory."""
        found = self.content()
        if found is None and self.memory is not None:
            found = Value(make(BUFFER, self.dtype, self.size, (), self.memory), self.var)
        return found

    def stand_in(self) -> Value:
        """Returns contents of the same type and size."""
        return Value(literal(self.dtype, 0, self.size), self.var)


def _attributes(value: Any) -> dict[str, Any]:
    """Returns the traced arrays among the attributes of an object that is not a PyTree."""
    found = {}
    if hasattr(value, "__dict__") and not isinstance(value, _PLAIN):
        for name, array in [*vars(value).items()]:
            kind = ROLES.get(type(array))
            if kind != "other" and (kind in _ARRAYS or is_traced(array)):
                found[name] = array
    return found


class State:
    """The values of named variables, and the arrays in them.

    `leaves` are the one-dimensional arrays that hold the contents. `tree` is the current
    decomposition of the values, even if a body changes them in place. Results of bodies are not
    watched: nothing will be restored in them.
    """

    _undone = False  # whether containers that have since been restored had changed
    attributes: Sequence[Attributes] = ()
    origin: "State | None" = None
    """What the values are the results of, for messages."""
    _containers: Sequence[tuple[Any, Any, Sequence[Any]]] = ()
    """Mutable containers, with their parts."""

    def __init__(
        self,
        values: tuple,
        titles: Sequence[str],
        what: str,
        watched: bool = True,
        tree: Tree | None = None,
    ) -> None:
        self.titles, self.what, self.values = titles, what, values
        self.tree = tree = tree or Tree(values)
        self.leaves = tree.leaves
        if watched and (tree.inside or tree.others):
            self.attributes = [
                Attributes(k, tree.objects[k], found)
                for k in self._watch(tree)
                if (found := _attributes(tree.objects[k]))
            ]

    def _take_apart(self, tree: Tree) -> None:
        self.tree, self.leaves = tree, tree.leaves
        self._watch(tree)

    def _watch(self, tree: Tree) -> list[int]:
        """Notes what containers consist of. Returns the positions of other objects, except for
        those of the simplest types."""
        containers: list[tuple[Any, Any, Sequence[Any]]] = []
        self._containers = containers
        for k, found in tree.inside.items():
            v = tree.objects[k]
            if not isinstance(v, tuple):
                containers.append((v, tree.keys.get(k), found))
        others = [k for k in tree.others if tree.classes[k] not in _SIMPLE]
        for k in others:
            v = tree.objects[k]
            if isinstance(v, ArrayBase):
                containers.append((v, *opened(v, v._kind)))
        return others

    @property
    def paths(self) -> "Paths":
        """The names of the arrays in messages."""
        return Paths(self.tree, self.titles)

    def like(self, values: tuple) -> "State":
        """Returns a state with other values of the same structure, except for arrays."""
        made = object.__new__(State)
        vars(made).update(vars(self))
        made.values = values
        made._take_apart(Tree(values, self.tree.plan))
        return made

    def contents(self) -> list[Value]:
        """Returns the current contents of the arrays."""
        return leaf.values(self.leaves)

    def put(self, contents: Sequence[Value | None]) -> None:
        """Sets the contents of the arrays; None leaves one unchanged."""
        for array, value in zip(self.leaves, contents, strict=True):
            if value is not None:
                array._node, var = value
                if array._var is not var:  # and so the array has one
                    array._var = var

    def restore(
        self, contents: Sequence[Value | None], changed: Sequence[int] | None = None
    ) -> None:
        """Undoes a body's changes to the arrays and to the lists and structures around them.
        `changed` are the numbers of those that have changed, if `changed` and `check_attributes`
        have looked."""
        self.put(contents)
        if changed is None:
            for row in self._containers:
                if differs(*row):
                    self._put_back(row)
            for a in self.attributes:
                a.restore()
        else:
            first = len(self.leaves)
            for k in changed:
                if k >= first and differs(*(row := self._containers[k - first])):
                    self._put_back(row)
        if self._undone:
            self._undone = False
            self._take_apart(Tree(self.values))

    def _put_back(self, row: tuple[Any, Any, Sequence[Any]]) -> None:
        """Restores the parts of a container."""
        set_contents(*row)
        if differs(*row):  # because a structure may copy assigned attributes
            self._undone = True

    def objects(self) -> list[Any]:
        """Returns the objects that may change in place: one-dimensional arrays, then containers."""
        return [*self.leaves, *[row[0] for row in self._containers]]

    def changed(self, contents: Sequence[Value | None]) -> list[int]:
        """Returns the positions in `objects` of those that have changed since they had these
        contents, the last one of each."""
        found: dict[int, int] = {}
        now = self.contents()
        for k, (v, held) in enumerate(zip(contents, now, strict=True)) if now != contents else ():
            if v is not None and v != held:
                found[id(self.leaves[k])] = k
            elif found:
                found.pop(id(self.leaves[k]), None)
        for k, row in enumerate(self._containers, len(now)):
            c, _, inside = row
            if differs(*row) or (found and _is_tensor(c) and id(inside[0]) in found):
                found[id(c)] = k
        return [*found.values()]

    def undo(self, k: int, contents: Sequence[Value | None]) -> None:
        """Undoes a body's changes to one of the `objects`."""
        if k >= len(self.leaves):
            self._put_back(self._containers[k - len(self.leaves)])
        elif (value := contents[k]) is not None:
            assign(self.leaves[k], value)

    def check_initialized(self) -> None:
        """Raises a RuntimeError if an array is empty, or a variable is undefined."""
        for k, array in enumerate(self.leaves):
            if array._node.size == 0:
                raise RuntimeError(
                    f"{self.what}: state variable '{self.paths[k]}' of type '{type_label(array)}' "
                    "is uninitialized (it has 0 entries). Give it a value first, for example with "
                    "dr.zeros()."
                )

    def check_attributes(self, written: Set[int] = frozenset()) -> None:
        """Raises a RuntimeError if an array that is an attribute of an object other than a PyTree
        has changed, other than by scatters, whose nodes have the serial numbers `written`.
        """
        for a in self.attributes:
            if (name := a.changed(written)) is not None:
                raise RuntimeError(
                    f"{self.what}: attribute '{name}' of variable '{self._path(a.place)}' "
                    f"changes, but {type_label(a.owner)} is no PyTree. Make it a data class, or "
                    "give it a table DRJIT_STRUCT of its fields, or use a variable of its own for "
                    "the attribute."
                )

    def match(self, after: Tree, strict: bool) -> Tree:
        """Returns another version of the values, in the order of this one.

        Raises:
            RuntimeError: the versions differ in more than the contents of arrays; the message names
                the variable.
        """
        tree = self.tree
        if not tree.fits(after):
            return tree.matched(after, self._check_pair, self._check_same if strict else None)
        if strict:
            before, now = tree.objects, after.objects
            for k in tree.others:
                if before[k] is not now[k]:
                    self._check_same(k, now[k])
        return after

    def _path(self, k: int) -> str:
        return self.tree.labels(self.titles)[k]

    def _check_pair(self, i: int, after: Tree, j: int) -> None:
        """Raises a RuntimeError if two corresponding objects have different types or parts."""
        before, what = self.tree, self.what
        old, now = before.objects[i], after.objects[j]
        if type(old) is not type(now):
            path = self._path(i)
            initial = self.origin._find(path, old) if self.origin else old
            if type(initial) is not type(old):
                old, now = initial, old
            raise _changed_type(old, now, path, what)
        mine, theirs = before.keys.get(i), after.keys.get(j)
        if isinstance(old, dict) and {*mine} != {*theirs}:  # type: ignore[misc]
            raise RuntimeError(
                f"{what}: the keys of state variable '{self._path(i)}' changed from "
                f"{list(mine)} to {list(theirs)}"  # type: ignore[arg-type]
            )
        if before.counts[i] != after.counts[j]:
            raise RuntimeError(
                f"{what}: the size of state variable '{self._path(i)}' of type '{type_label(now)}' "
                f"changed from {before.counts[i]} to {after.counts[j]}"
            )
        if isinstance(old, ArrayBase) and mine != theirs:
            sizes = {before.inside[i][0]._node.size, after.inside[j][0]._node.size}
            if len(sizes - {1}) > 1:
                raise RuntimeError(
                    f"{what}: the size of state variable '{self._path(i)}' of type "
                    f"'{type_label(now)}' changed: it has the shape {mine} before and {theirs} "
                    "afterwards"
                )

    def _check_same(self, k: int, after: Any) -> None:
        """Raises a RuntimeError if a value other than an array has changed."""
        before = self.tree.objects[k]
        if not _same(before, after):
            path = self._path(k)
            initial = self.origin._find(path, before) if self.origin else before
            if not _same(initial, before):
                before, after = initial, before
            raise RuntimeError(
                f"{self.what}: the non-array state variable '{path}' of type "
                f"'{type_label(after)}' changed from '{before}' to '{after}'. Its value would have "
                "to be the same for all entries of the condition: make it an array, such as "
                f"{_array_hint(after)}, or pass strict=False to ignore this."
            )

    def _find(self, path: str, other: Any) -> Any:
        """Returns the value with a path; another one if there is none."""
        paths = self.tree.labels(self.titles)
        return self.tree.objects[paths.index(path)] if path in paths else other

    def place(self, after: Tree, contents: Sequence[Value], like: bool = False) -> tuple:
        """Returns the values of `after`, a version returned by `match`, with the given contents:
        the same objects where both versions have them, and new ones elsewhere.

        A tensor with one entry that gets more becomes one-dimensional or, if it should be `like`
        the others, takes the shape of the first tensor with that many entries.
        """
        before = self.tree
        leaves = []
        for old, now, value in zip(before.leaves, after.leaves, contents, strict=True):
            if now is not old:
                if isinstance(now, KernelValue):
                    leaves.append(now._with(value))
                    continue
                now = leaf.new(type(now))
            now._node, var = value
            if now._diff:
                now._var = var
            leaves.append(now)
        if len(leaves) == len(after.counts):
            return tuple(leaves)
        return tuple(after.put_together(leaves, partial(self._container, after, like)))

    def _container(self, after: Tree, like: bool, k: int, values: list[Any]) -> Any:
        """Returns the replacement of a container of another version."""
        before = self.tree
        own, other, keys = after.objects[k], before.objects[k], before.keys.get(k)
        if isinstance(own, ArrayBase):
            made: Any = own if own is other else leaf.new(type(own))
            if own._kind == "tensor":
                known = [after.keys[k], before.keys[k], own._shape]
                made._shape = self._shape(values[0]._node.size, known, like)
                made._array = values[0]
            elif made is own:
                made._components[:] = values
            else:
                made._components = values
            return made
        if isinstance(own, tuple):
            if not any(map(is_not, values, after.inside[k])):
                return own
        elif own is other:
            set_contents(own, keys, values)
            return own
        return rebuilt(type(own), keys, values)

    def _shape(self, size: int, known: list[tuple[int, ...]], like: bool) -> tuple[int, ...]:
        if prod(known[0]) != 1 and not any(prod(shape) == size for shape in known):
            return known[0]  # of a loop that drops lanes
        if like:
            tree = self.tree
            known = known + [tree.keys[k] for k in tree.keys if role(tree.classes[k]) == "tensor"]
        return next((s for s in known if prod(s) == size), (size,))


class Paths(Sequence[str]):
    """The names of a tree's arrays in messages, determined on demand."""

    def __init__(self, tree: Tree, titles: Sequence[str]) -> None:
        self._tree, self._titles = tree, titles

    def alone(self) -> "Paths":
        """The same names, without a reference to values."""
        return Paths(self._tree.structure(), self._titles)

    def __len__(self) -> int:
        return self._tree.counts.count(ARRAY)

    def __getitem__(self, k: Any) -> Any:
        return [*self][k]

    def __iter__(self) -> Iterator[str]:
        found = zip(self._tree.labels(self._titles), self._tree.counts, strict=True)
        return iter([path for path, n in found if n == ARRAY])


def copied(array: Any) -> Any:
    """Returns a one-dimensional array, or a vector, with the same contents, including
    derivatives."""
    return holding(array, leaf.value(array))


def holding(array: Any, value: Value) -> Any:
    """Returns a new array, or vector, of the same type with the given contents."""
    if isinstance(array, KernelValue):
        return array._with(value)
    made = leaf.new(type(array))
    made._node, var = value
    if made._diff:
        made._var = var
    return made


def _array_hint(value: Any) -> str:
    kind = {bool: "Bool", int: "Int", float: "Float"}.get(type(value), "Float")
    return f"{kind}({value!r})" if type(value) in _NUMBERS else f"{kind}(...)"


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, ArrayBase):
        return list(a) == list(b)
    try:
        return bool(a == b) or (a != a and b != b)
    except Exception:  # a user-defined comparison
        return False


def _changed_type(before: Any, after: Any, path: str, what: str) -> RuntimeError:
    if isinstance(before, Undefined) or isinstance(after, Undefined):
        return UndefinedError(
            f"{what}: variable '{path}' does not have a value on all paths. It is of type "
            f"{type_label(after if isinstance(before, Undefined) else before)} on one of them; "
            "give it a value of that type before the statement."
        )
    hint = ""
    if type(before) in _NUMBERS and isinstance(after, ArrayBase):
        hint = f" Start with an array: {type(after).__name__}({before!r})."
    return RuntimeError(
        f"{what}: the type of state variable '{path}' changed from '{type_label(before)}' to "
        f"'{type_label(after)}', which is not permitted.{hint}"
    )
