"""A loop or branch: its functions and its mode, and its state: PyTrees of arrays whose values are
exchanged while the objects remain, what a function changes in them, and how that is undone.

The position of an array is its place among the leaves of the tree before the body, or of the first
function's result in a branch. An array that is the same object on both sides is updated in place,
so that all references to it see the result; everything else is returned as new objects.

Functions also reach arrays other than through the variables: those that they capture, and those in
attributes of objects that are no PyTrees. Their values cannot be exchanged, so functions may read
them and scatter to them, but not change them otherwise.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from copy import copy
from functools import partial
from itertools import zip_longest
from math import prod
from operator import is_not
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ...ad.graph import Value
from ...array import leaf, pytree
from ...array.base import ArrayBase, KernelValue, type_label
from ...array.pytree import ROLES, leaf_arrays, role
from ...array.tree import ARRAY, Tree, differs, keys_and_parts, rebuilt, set_contents
from ...jit import flags, log
from ...jit.ir.node import AFTER, BUFFER, Node, literal, make
from ...jit.ir.scope import StateAccessError
from ...jit.trace import record
from ...jit.tuples import NamedTuple
from .messages import NUMBERS, check_pair, check_same, failed

# ---- Arrays outside of the state


FLOW = "_drjit_flow"
"""The name by which code made by `syntax` accesses the functions that it calls."""
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


class OuterArrays:
    """Arrays, by name, that functions reach other than through the variables, as they are before
    these run: those that they capture, or attributes of an `owner` that is no PyTree, the object of
    the state at a `place`."""

    def __init__(
        self, arrays: Iterable[tuple[str, Any]], owner: Any = None, place: int = 0
    ) -> None:
        self.owner, self.place = owner, place
        self.rows = [
            (name, array, [WeakValue(leaf.value(a)) for a in leaf_arrays(array)])
            for name, array in arrays
        ]

    def changed(self, written: Set[int] = frozenset()) -> str | None:
        """Returns the name of an array that has changed other than by a scatter, if any. The nodes
        of scatters have the serial numbers `written`, or are pending."""
        for name, array, before in self.rows:
            if self.owner is not None and vars(self.owner).get(name) is not array:
                return name
            for a, saved in zip_longest(leaf_arrays(array), before):
                if a is None or saved is None:
                    return name
                n = a._node
                if n.serial != saved.serial and n.op is not AFTER and n.serial not in written:
                    return name
        return None

    def check(self, what: str) -> None:
        """Raises a RuntimeError if a captured array has changed other than by a scatter; its
        contents are restored."""
        if (name := self.changed()) is not None:
            self.restore()
            raise RuntimeError(
                f"{what}: the captured variable '{name}' changes. Pass it as one of the "
                "variables, and return it."
            )

    def restore(self) -> None:
        """Undoes changes."""
        for name, array, before in self.rows:
            if self.owner is not None:
                vars(self.owner)[name] = array
            for a, saved in zip(leaf_arrays(array), before, strict=False):
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


_CLOSED = (), (FLOW,)
_NO_ARRAYS = OuterArrays(())


def _captures(f: FunctionType) -> bool:
    """Returns whether a function may capture arrays, which most that `syntax` makes do not."""
    return bool(f.__defaults__ or f.__kwdefaults__ or f.__code__.co_freevars not in _CLOSED)


def captured_arrays(functions: Sequence[Callable[..., Any]], state: Iterable[Any]) -> OuterArrays:
    """Returns the traced one-dimensional arrays in the variables that functions capture from
    enclosing functions, except those in `state`."""
    reached = {id(f): f for f in functions if isinstance(f, FunctionType) and _captures(f)}
    if not reached:
        return _NO_ARRAYS
    found: dict[int, tuple[str, Any]] = {}
    pending = list(reached.values())
    for f in pending:  # the list grows during iteration
        for name, value in _variables(f):
            if isinstance(value, FunctionType) and id(value) not in reached:
                reached[id(value)] = value
                pending.append(value)
            for a in pytree.leaf_arrays(value):
                if a._kind == "leaf":
                    found.setdefault(id(a), (name, a))
    for a in state if found else ():
        found.pop(id(a), None)
    return OuterArrays(found.values())


def _variables(f: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields the variables that a function captures, and the defaults of its arguments."""
    code = f.__code__
    for name, cell in zip(code.co_freevars, f.__closure__ or (), strict=True):
        if name != FLOW:
            with suppress(ValueError):  # a variable without a value
                yield name, cell.cell_contents
    defaults = f.__defaults__ or ()
    end = code.co_argcount
    yield from zip(code.co_varnames[end - len(defaults) : end], defaults, strict=True)
    yield from (f.__kwdefaults__ or {}).items()


MODES = (None, "scalar", "symbolic", "evaluated")
_SIMPLE = frozenset((*NUMBERS, str, type(None), type))


# ---- Functions and modes


class RecordAgain(Exception):
    """A statement must be recorded again, with other arrays as its state or result."""


def call(what: str, function: Callable[..., Any], *args: Any) -> Any:
    """Returns the result of a function of a loop or branch.

    Raises:
        RuntimeError: the function raised an exception; the error is also of that type.
    """
    try:
        return function(*args)
    except StateAccessError:  # the enclosing statement will record it again
        raise
    except Exception as error:
        raise failed(what, error) from error


def check_mode(mode: Any, what: str) -> None:
    """Raises a RuntimeError if there is no such mode."""
    if mode not in MODES:
        raise RuntimeError(
            f"{what}: invalid 'mode' argument: it must be None, 'scalar', 'symbolic' or "
            f"'evaluated', not {mode!r}"
        )


def chosen_mode(mode: str | None, flag: flags.JitFlag, what: str) -> str:
    """Returns the mode of a statement that is not scalar: the given one, or the one selected by a
    flag; within a recording, it is symbolic."""
    if mode is None and flags.current & flag:
        return "symbolic"
    if mode is None and record.recording():
        log.log(
            log.LogLevel.Warn,
            f"{what}: forcing conditional statement to symbolic mode, although {flag} is off, "
            "since it is part of another symbolic operation",
        )
        return "symbolic"
    return mode or "evaluated"


def mask_of(test: Any, what: str, noun: str) -> Any:
    """Returns a condition as a one-dimensional mask.

    Raises:
        RuntimeError: it is not a mask.
    """
    if isinstance(test, ArrayBase) and test.__meta__.is_jit and test._dtype.is_mask:
        if test._kind == "leaf":
            return test
        if test._kind == "tensor":
            return test._array
    raise RuntimeError(
        f"{what}: {noun} is of type {type_label(test)}. Expected a traced Boolean array of one "
        "dimension such as drjit.auto.Bool, a Boolean tensor, or a Python bool."
    )


# ---- What tracing a body has revealed


class BodyProfile:
    """What only tracing a body reveals. It is kept with the code of the body, so that from the next
    time on, the body is traced only once.

    `tables` are the positions of the arrays that it has read like tables, with `gather`, although
    these have as many entries as there are lanes; `tracks` says that it has referred to
    differentiable arrays from outside.
    """

    def __init__(self) -> None:
        self.tables: set[int] = set()
        self.tracks = False


_profiles: weakref.WeakKeyDictionary[CodeType, BodyProfile] = weakref.WeakKeyDictionary()
# The same by the identities of existing code objects, because comparing code objects is slow.
_by_identity: dict[int, tuple[BodyProfile, weakref.ref[CodeType]]] = {}


def profile_of(body: Callable[..., Any]) -> BodyProfile:
    """Returns the profile of a function, to which callers add."""
    code = getattr(body, "__code__", None)
    if code is None:
        return BodyProfile()
    key = id(code)
    entry = _by_identity.get(key)
    if entry is None:
        reference = weakref.ref(code, lambda _: _by_identity.pop(key, None))
        entry = _by_identity[key] = _profiles.setdefault(code, BodyProfile()), reference
    return entry[0]


# ---- The state


def names(count: int, labels: Sequence[str], noun: str, what: str) -> tuple[str, ...]:
    """Returns the names of the entries of a tuple for messages.

    Raises:
        RuntimeError: the number of labels differs from the number of entries.
    """
    if not labels:
        return tuple([f"{noun}[{k}]" for k in range(count)])
    if len(labels) != count:
        raise RuntimeError(
            f"{what}: there are {count} variables ('{noun}') and {len(labels)} labels"
        )
    return tuple(labels)


class State:
    """The values of named variables, and the arrays in them.

    `leaves` are the one-dimensional arrays that hold the contents. `tree` is the current
    decomposition of the values, even if a body changes them in place. Results of bodies are not
    watched: nothing will be restored in them.
    """

    _undone = False  # whether containers that have since been restored had changed
    attributes: Sequence[OuterArrays] = ()
    origin: "State | None" = None
    """What the values are the results of, for messages."""
    _containers: Sequence[tuple[Any, Any, Sequence[Any]]] = ()
    """Mutable containers, with their parts."""

    def __init__(
        self, values: tuple, titles: Sequence[str], what: str, watched: bool = True
    ) -> None:
        self.titles, self.what, self.values = titles, what, values
        self.tree = tree = Tree(values)
        self.leaves = tree.leaves
        if watched and (tree.parts or tree.others):
            self.attributes = [
                OuterArrays(found.items(), tree.objects[k], k)
                for k in self._watch(tree)
                if (found := arrays_in_attributes(tree.objects[k]))
            ]

    def _take_apart(self, tree: Tree) -> None:
        self.tree, self.leaves = tree, tree.leaves
        self._watch(tree)

    def _watch(self, tree: Tree) -> list[int]:
        """Notes what containers consist of. Returns the positions of other objects, except for
        those of the simplest types."""
        containers: list[tuple[Any, Any, Sequence[Any]]] = []
        self._containers = containers
        for k, found in tree.parts.items():
            v = tree.objects[k]
            if not isinstance(v, tuple):
                containers.append((v, tree.keys.get(k), found))
        others = [k for k in tree.others if tree.classes[k] not in _SIMPLE]
        for k in others:
            v = tree.objects[k]
            if isinstance(v, ArrayBase):
                containers.append((v, *keys_and_parts(v, v._kind)))
        return others

    @property
    def paths(self) -> list[str]:
        """The names of the arrays in messages."""
        return array_paths(self.tree, self.titles)

    def like(self, values: tuple) -> "State":
        """Returns a state with other values of the same structure, except for arrays."""
        made = object.__new__(State)
        vars(made).update(vars(self))
        made.values = values
        made._take_apart(Tree(values))
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

    def restore(self, contents: Sequence[Value | None]) -> None:
        """Undoes what a body has changed, after an exception: see `restore_variables`, and arrays
        that are attributes."""
        self.restore_variables(contents)
        for a in self.attributes:
            a.restore()

    def restore_variables(self, contents: Sequence[Value | None]) -> None:
        """Undoes a body's changes to the arrays and to the lists and structures around them."""
        self.put(contents)
        for row in self._containers:
            if differs(*row):
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
        for k, (v, current) in (
            enumerate(zip(contents, now, strict=True)) if now != contents else ()
        ):
            if v is not None and v != current:
                found[id(self.leaves[k])] = k
            elif found:
                found.pop(id(self.leaves[k]), None)
        for k, row in enumerate(self._containers, len(now)):
            c, _, inside = row
            if differs(*row) or (found and role(type(c)) == "tensor" and id(inside[0]) in found):
                found[id(c)] = k
        return [*found.values()]

    def undo(self, k: int, contents: Sequence[Value | None]) -> None:
        """Undoes a body's changes to one of the `objects`."""
        if k >= len(self.leaves):
            self._put_back(self._containers[k - len(self.leaves)])
        elif (value := contents[k]) is not None:
            leaf.assign(self.leaves[k], value)

    def check_initialized(self) -> None:
        """Raises a RuntimeError if an array is empty, or a variable is undefined."""
        for k, array in enumerate(self.leaves):
            if array._node.size == 0:
                raise RuntimeError(
                    f"{self.what}: state variable '{self.paths[k]}' of type '{type_label(array)}' "
                    "is uninitialized (it has 0 entries). Give it a value first, for example with "
                    "dr.zeros()."
                )

    def check_attributes(self, written: Set[int]) -> None:
        """Raises a RuntimeError if an array that is an attribute of an object other than a PyTree
        has changed, other than by scatters, whose nodes have the serial numbers `written`.
        """
        for a in self.attributes:
            if (name := a.changed(written)) is not None:
                raise RuntimeError(
                    f"{self.what}: attribute '{name}' of variable '{self.path(a.place)}' "
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
        if not tree.has_structure_of(after):
            check = partial(check_same, self) if strict else None
            return tree.matched(after, partial(check_pair, self), check)
        if strict:
            before, now = tree.objects, after.objects
            for k in tree.others:
                if before[k] is not now[k]:
                    check_same(self, k, now[k])
        return after

    def path(self, k: int) -> str:
        """Returns the name of an object in messages."""
        return self.tree.labels(self.titles)[k]

    def place(self, after: Tree, contents: Sequence[Value], like: bool = False) -> tuple:
        """Returns the values of `after`, a version returned by `match`, with the given contents:
        the same objects where both versions have them, and new ones elsewhere.

        A tensor with one entry that gets more becomes one-dimensional or, if it should be `like`
        the others, takes the shape of the first tensor with that many entries.
        """
        before = self.tree
        leaves = []
        for old, now, value in zip(before.leaves, after.leaves, contents, strict=True):
            if now is old:
                leaf.assign(now, value)
            else:
                now = with_value(now, value)
            leaves.append(now)
        return tuple(after.reassemble(leaves, partial(self._container, after, like)))

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
            if not any(map(is_not, values, after.parts[k])):
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


def array_paths(tree: Tree, titles: Sequence[str]) -> list[str]:
    """Returns the names of a tree's arrays in messages."""
    return [path for path, n in zip(tree.labels(titles), tree.counts, strict=True) if n == ARRAY]


def copied(array: Any) -> Any:
    """Returns a one-dimensional array, or a vector, with the same contents, including
    derivatives."""
    return with_value(array, leaf.value(array))


def with_value(array: Any, value: Value) -> Any:
    """Returns a new array, or vector, of the same type with the given contents."""
    if isinstance(array, KernelValue):
        return array._with(value)
    return leaf.from_value(type(array), value)


# ---- Private copies


class _ContainerCopy(NamedTuple):
    """A copy of a container, kept alive so that its id is not reused; its original; and the parts
    of each, or for arrays the contents of the one-dimensional ones."""

    copy: Any
    original: Any
    parts: Sequence[Any]
    original_parts: Sequence[Any]
    start: list[Value | None]


class PrivateState:
    """The state of a loop with private arrays and containers for its body: `state`. Other
    references to the same arrays do not see them change while the loop runs or is recorded. The
    arrays at the positions `kept` remain the same objects, because arrays that a body scatters to
    must have a single owner.

    An object that occurs in several places, be it an array, list, dictionary or structure, becomes
    several objects here.
    """

    def __init__(self, state: State, kept: Set[int]) -> None:
        tree = self._tree = state.tree
        # Copies of one-dimensional arrays, their originals, and their contents, by number.
        self._arrays: dict[int, tuple[Any, Any, Value]] = {}
        self._copies: dict[int, _ContainerCopy] = {}
        leaves = [*tree.leaves]
        for k, original in enumerate(tree.leaves):
            if k not in kept:
                value = leaf.value(original)
                made = leaves[k] = with_value(original, value)
                self._arrays[id(made)] = made, original, value
        self._same = {id(tree.leaves[k]) for k in kept} if kept else frozenset()
        self.state = state.like(tuple(tree.reassemble(leaves, self._copy)))

    def _copy(self, k: int, values: list[Any]) -> Any:
        """Returns the copy of a container, which consists of copies."""
        tree = self._tree
        cls, original, parts = tree.classes[k], tree.objects[k], tree.parts[k]
        start: list[Value | None] = []
        if issubclass(cls, ArrayBase):
            for v in values:
                if inner := self._copies.get(id(v)):
                    start += inner.start
                else:
                    known = self._arrays.get(id(v))
                    start.append(known and known[2])  # nothing may hold the contents of others
        elif not any(map(is_not, values, parts)):
            return original
        made = _like(original, tree.keys.get(k), values)
        self._copies[id(made)] = _ContainerCopy(made, original, values, parts, start)
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
                        leaf.assign(original, now)
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
        keys, now = keys_and_parts(value, kind)
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
        changed = changed or not _same_objects(now, known.parts)
        if _same_objects(values, known.original_parts) and (
            not changed or isinstance(value, tuple)
        ):
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
    if role(cls) != "struct":
        return rebuilt(cls, keys, values)
    made = copy(container)
    set_contents(made, keys, values)
    return made


def _same_objects(values: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(values) == len(others) and not any(map(is_not, values, others))
