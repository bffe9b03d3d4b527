"""Decomposition of PyTrees of arrays into the numbers of their variables and reassembly, for
libraries that process the variables of a program themselves.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ...ad.graph import Value
from ...array import leaf
from ...array.base import type_label
from ...array.tree import Tree, map_arrays, traced_arrays
from ...function.ad import grad
from ...function.inspect import traits
from ...jit.ir.node import AFTER, literal
from .messages import size_changed
from .state import State, names

T = TypeVar("T", bound=Any)


def collect_indices(arg: object, /) -> list[int]:
    """Returns the numbers of the variables of a PyTree, in order: `index_ad << 32 | index`.

    >>> x = Float(1, 2)
    >>> dr.detail.collect_indices([x, "a", 3]) == [x.index]
    True
    """
    return [leaf.number_of(a) for a in traced_arrays(arg)]


def _variable(index: int, array: Any, what: str) -> Any:
    """Returns the variable with a number as an array of another one's class."""
    try:
        value = leaf.find_number(index)
    except RuntimeError as error:
        raise RuntimeError(f"{what}: {error}") from None
    cls = type(array)
    if value is None:
        return leaf.wrap(cls, literal(cls._dtype, 0, 0))
    if value.node.dtype is not cls._dtype:
        raise RuntimeError(
            f"{what}: variable {index} has the element type {value.node.dtype.name}, "
            f"but {type_label(cls)} takes its place"
        )
    return leaf.from_value(cls, value)


def update_indices(value: T, indices: Sequence[int]) -> T:
    """Returns a copy of a PyTree with the variables of the given numbers (see `collect_indices`)
    instead of its own. A tensor whose number of entries changes becomes one-dimensional.

    Raises:
        RuntimeError: there are too many or too few numbers, or a number belongs to no variable or
            to one of another element type.

    >>> x, y = Float(1, 2), Float(3, 4)
    >>> dr.detail.update_indices({"a": x}, dr.detail.collect_indices(y))
    {'a': [3, 4]}
    """
    what = "drjit.detail.update_indices()"
    needed = len(traced_arrays(value))
    if needed != len(indices):
        raise RuntimeError(f"{what}: {len(indices)} indices for {needed} variables")
    new = iter(indices)
    return map_arrays(lambda a, _: _variable(next(new), a, what), value)


def traverse_py_cb_ro(arg0: object, arg1: Callable[..., Any], /) -> None:
    """Calls a function with the number of every variable in the attributes of an object, and with
    two empty strings.

    >>> class Point:
    ...     pass
    >>> p, numbers = Point(), []
    >>> p.x = Float(1, 2)
    >>> dr.detail.traverse_py_cb_ro(p, lambda index, *_: numbers.append(index))
    >>> numbers == [p.x.index]
    True
    """
    for index in collect_indices(_attributes(arg0)):
        arg1(index, "", "")


def traverse_py_cb_rw(arg0: object, arg1: Callable[..., int], /) -> None:
    """Calls a function like `traverse_py_cb_ro`, and replaces each variable by the one whose number
    it returns.

    Raises:
        RuntimeError: the function does not return the number of a variable of the same element
            type.

    >>> class Point:
    ...     pass
    >>> p, y = Point(), Float(3, 4)
    >>> p.x = Float(1, 2)
    >>> dr.detail.traverse_py_cb_rw(p, lambda index, *_: y.index)
    >>> p.x
    [3, 4]
    """
    what = "drjit.detail.traverse_py_cb_rw()"
    for array in traced_arrays(_attributes(arg0)):
        index = arg1(leaf.number_of(array), "", "")
        if not isinstance(index, int):
            raise RuntimeError(f"{what}: expected an index from the callback, not {index!r}")
        leaf.assign(array, leaf.value(_variable(index, array, what)))


def _attributes(owner: Any) -> Any:
    """Returns the container of an object's variables: itself if it is a PyTree, otherwise its
    attributes."""
    if traits.is_array_v(owner) or isinstance(owner, (list, tuple, dict)):
        return owner
    return getattr(owner, "__dict__", None) or owner


def new_grad(arg: T, /) -> T:
    """Returns a copy of a PyTree whose floating point arrays of `.ad` types are new differentiable
    variables, independent of how they were computed.

    >>> x = dr.detail.new_grad(ad.Float(1, 2))
    >>> dr.backward(x * x)
    >>> x.grad
    [2, 4]
    """
    made = map_arrays(lambda a, cls: leaf.wrap(cls, a._node), arg)
    grad.enable_grad(made)
    return made


def check_compatibility(arg0: object, arg1: object, arg2: bool, arg3: str, /) -> None:
    """Checks that two PyTrees have the same structure and types and, if the third argument is set,
    compatible array sizes. The fourth argument names the PyTree in messages.

    Raises:
        RuntimeError: they differ.

    >>> dr.detail.check_compatibility([Float(1, 2)], [Float(3)], True, "state")
    """
    what = "drjit.detail.check_compatibility()"
    state = State((arg0,), (arg3,), what)
    after = state.match(Tree((arg1,)), True).leaves
    if arg2:
        _check_sizes(state, after, what)


def _check_sizes(state: State, after: list[Any], what: str) -> None:
    for path, a, b in zip(state.paths, state.leaves, after, strict=True):
        before, now = a._node.size, b._node.size
        if before != now and 1 not in (before, now):
            raise size_changed(what, path, a, before, now, ". These sizes are not compatible.")


class IndexVector:
    """A list of variable numbers (see `collect_indices`) that keeps the variables alive.

    >>> v = dr.detail.IndexVector()
    >>> x = Float(1, 2)
    >>> v.append(x.index)
    >>> dr.detail.update_indices(Float(), list(v))
    [1, 2]
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, Any]] = []  # with the variables

    def append(self, arg: int, /) -> None:
        """Appends a number. Raises `RuntimeError` if no variable has it."""
        self._rows.append((arg, leaf.find_number(arg)))

    def clear(self) -> None:
        """Removes all numbers."""
        self._rows.clear()

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[int]:
        return iter([index for index, _ in self._rows])

    def __getitem__(self, arg: int, /) -> int:
        return self._rows[arg][0]

    def __setitem__(self, arg0: int, arg1: int, /) -> None:
        self._rows[arg0] = arg1, leaf.find_number(arg1)


class VariableTracker:
    """Reads and writes the variables of a PyTree repeatedly, and checks that its structure, types
    and (with `check_size`) sizes do not change; with `strict`, neither may anything other than
    arrays.

    `labels` names the entries of a tuple or list in messages; without them, the PyTree as a whole
    is called `default_label`.

    >>> x, y = Float(1, 2), Float(3, 4)
    >>> tracker, new = dr.detail.VariableTracker(), dr.detail.IndexVector()
    >>> tracker.read((x,))[0] == x.index
    True
    >>> new.append(y.index)
    >>> tracker.write((x,), new)
    >>> x
    [3, 4]
    >>> tracker.restore()
    ([1, 2],)
    """

    def __init__(self, strict: bool = True, check_size: bool = True) -> None:
        self._strict, self._check_size = strict, check_size
        self.clear()

    def clear(self) -> None:
        """Forgets the PyTree."""
        self._state: State | None = None
        self._contents: list[Value] = []
        self._latest: tuple = ()

    def _arrays(
        self, state: Any, labels: Sequence[str], default_label: str, what: str
    ) -> list[Any]:
        """Returns the one-dimensional arrays of a version of the PyTree, which is the first one or
        compatible with it."""
        values = tuple(state) if labels else (state,)
        titles = names(len(values), labels, "state", what) if labels else (default_label,)
        if self._state is None or self._state.titles != titles:
            self._state = State(values, titles, what)
            self._contents = self._state.contents()
        after = self._state.match(Tree(values), self._strict).leaves
        if self._check_size:
            _check_sizes(self._state, after, what)
        self._latest = values
        return after

    def read(
        self, state: object, labels: Sequence[str] = (), default_label: str = "state"
    ) -> IndexVector:
        """Returns the numbers of the PyTree's variables.

        Raises:
            RuntimeError: the PyTree is incompatible with the first one.
        """
        found = IndexVector()
        for a in self._arrays(state, labels, default_label, "drjit.detail.VariableTracker.read()"):
            found.append(leaf.number_of(a))
        return found

    def write(
        self,
        state: object,
        indices: IndexVector,
        preserve_dirty: bool = False,
        labels: Sequence[str] = (),
        default_label: str = "state",
    ) -> None:
        """Assigns the variables with the given numbers to the arrays of the PyTree; with
        `preserve_dirty`, arrays with pending side effects keep theirs.

        Raises:
            RuntimeError: the PyTree is incompatible with the first one, or the numbers are invalid.
        """
        what = "drjit.detail.VariableTracker.write()"
        arrays = self._arrays(state, labels, default_label, what)
        if len(arrays) != len(indices):
            raise RuntimeError(f"{what}: {len(indices)} indices for {len(arrays)} variables")
        made = [_variable(index, a, what) for a, index in zip(arrays, indices, strict=True)]
        for a, new in zip(arrays, made, strict=True):
            if not (preserve_dirty and a._node.op is AFTER):
                leaf.assign(a, leaf.value(new))

    def verify_size(self, arg: int, /) -> None:
        """Raises a RuntimeError if the size of an array is neither this one nor 1."""
        paths = self._state.paths if self._state else ()
        for path, a in zip(paths, traced_arrays(self._latest), strict=True):
            if a._node.size not in (1, arg):
                raise RuntimeError(
                    f"drjit.detail.VariableTracker.verify_size(): variable '{path}' has "
                    f"{a._node.size} entries, which does not go with {arg}"
                )

    def rebuild(self, labels: Sequence[str] = (), default_label: str = "state") -> Any:
        """Returns the PyTree in its latest version."""
        self._state_of(labels, default_label, "rebuild")
        return self._latest if labels else self._latest[0]

    def restore(self, labels: Sequence[str] = (), default_label: str = "state") -> Any:
        """Returns the PyTree in its first version: arrays, lists and structures get their contents
        back."""
        state = self._state_of(labels, default_label, "restore")
        state.restore(self._contents)
        self._latest = state.values
        return state.values if labels else state.values[0]

    def _state_of(self, labels: Sequence[str], default_label: str, what: str) -> State:
        wanted = tuple(labels) or (default_label,)
        if self._state is None or self._state.titles != wanted:
            raise RuntimeError(
                f"drjit.detail.VariableTracker.{what}(): no tree with the labels "
                f"{[*wanted]} was read or written"
            )
        return self._state
