"""PyTrees: lists, tuples, dictionaries, data classes, and classes with a `DRJIT_STRUCT` table.

Functions that take arrays also take PyTrees, and operate on their leaves. A leaf is everything that
is not one of these containers.
"""

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, get_type_hints

from .base import ArrayBase, IncompatibleError, KernelValue
from .show import is_array

Classes = type | tuple[type, ...]


def struct_fields(cls: type) -> dict[str, Any] | None:
    """Returns names and types of the fields of a structure class: a data class or one with
    `DRJIT_STRUCT`; None for others.

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Ray:
    ...     time: float
    >>> struct_fields(Ray)
    {'time': <class 'float'>}
    """
    table = getattr(cls, "DRJIT_STRUCT", None)
    if isinstance(table, dict):
        return table
    if not is_data_class(cls):
        return None
    found = _annotated.get(cls)
    if found is None:
        try:
            hints = get_type_hints(cls)
        except NameError:  # an annotation refers to something not imported at run time
            return {f.name: f.type for f in _fields(cls)}  # type: ignore[arg-type]
        found = {f.name: hints[f.name] for f in _fields(cls)}
        if cls not in found.values():  # which would keep the class alive
            _annotated[cls] = found
    return found


# Cached facts about data classes: querying Python for them takes longer than all other work on a
# structure.
_annotated: weakref.WeakKeyDictionary[type, dict[str, Any]] = weakref.WeakKeyDictionary()
Layout = tuple[tuple[str, ...], Callable[[Any], Sequence[Any]]]
LAYOUTS: dict[int, Layout] = {}
"""The names of the fields of data classes, and what reads these, by the `id` of the class."""
_alive: dict[int, weakref.ref[type]] = {}  # the classes of `LAYOUTS`


def layout(cls: type) -> Layout | None:
    """Returns the names of the fields of a structure class, and what reads these; None for other
    classes."""
    number = id(cls)
    found = LAYOUTS.get(number)
    if found is None:
        table = getattr(cls, "DRJIT_STRUCT", None)
        if isinstance(table, dict):
            return (*table,), _attributes((*table,))
        if not is_data_class(cls):  # but it may still become one
            return None
        names = tuple([f.name for f in _fields(cls)])
        found = LAYOUTS[number] = names, _attributes(names)

        def forget(_: object) -> None:
            del _alive[number], LAYOUTS[number]

        _alive[number] = weakref.ref(cls, forget)
    return found


def field_names(cls: type) -> tuple[str, ...] | None:
    """Returns the names of the fields of a structure class, None for others."""
    found = layout(cls)
    return None if found is None else found[0]


def is_data_class(cls: type) -> bool:
    """Returns whether a class is a data class, without the module that makes them."""
    return hasattr(cls, "__dataclass_fields__")


def _fields(cls: type) -> tuple:
    """Returns the fields of a data class, whose module is loaded wherever there is one."""
    from dataclasses import fields

    return fields(cls)


def is_container(tree: Any) -> bool:
    """Returns whether a value is a container."""
    return role(type(tree)) in CONTAINERS


def make_struct(cls: type, names: Iterable[str], values: Sequence[Any]) -> Any:
    """Creates a structure with the given values of its fields, which have these names.

    A data class is created without calling its `__init__`, any other class by calling it without
    arguments.

    Raises:
        IncompatibleError: the class cannot be created without arguments.
    """
    if is_data_class(cls):
        made = object.__new__(cls)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(made, name, value)  # also for frozen data classes
    else:
        try:
            made = cls()
        except TypeError as error:
            raise IncompatibleError(
                f"{cls.__qualname__}: a class with DRJIT_STRUCT must be constructible without "
                f"arguments ({error})"
            ) from None
        for name, value in zip(names, values, strict=True):
            setattr(made, name, value)
    return made


def role(cls: type) -> str:
    """Returns the role of a class's values in a PyTree: a `leaf`, i.e. a traced one-dimensional
    array, a `vector` of kernels, a `nested` array or `tensor` of leaves, a `sequence`, `dict` or
    `struct`, or any `other` object.
    """
    found = ROLES.get(cls)
    if found is not None:
        return found
    if id(cls) in LAYOUTS:
        return "struct"
    if issubclass(cls, ArrayBase):
        found = cls._kind if cls.__meta__.is_jit else "other"
        if cls.__module__.startswith("drjit."):
            ROLES[cls] = found  # never a class of the program, which must not be kept alive
        return found
    if issubclass(cls, KernelValue):
        if cls.__module__ == "drjit":
            ROLES[cls] = "vector"
        return "vector"
    if issubclass(cls, (list, tuple, dict)) and _is_plain(cls):
        return "dict" if issubclass(cls, dict) else "sequence"
    return "other" if layout(cls) is None else "struct"


def _is_plain(cls: Any) -> bool:
    """Returns whether a list, tuple or dictionary of a class can be rebuilt from its parts. One
    with its own constructor, such as a `defaultdict`, counts as an ordinary object.
    """
    if issubclass(cls, tuple):
        return cls.__new__ is tuple.__new__ or hasattr(cls, "_make")
    base = list if issubclass(cls, list) else dict
    return cls.__init__ in (base.__init__, OrderedDict.__init__) and cls.__new__ is base.__new__


ROLES: dict[type, str] = {list: "sequence", tuple: "sequence", dict: "dict"}
ROLES |= dict.fromkeys((bool, int, float, complex, str, bytes, type(None), type), "other")
ROLES |= dict.fromkeys((FunctionType, ModuleType, SimpleNamespace), "other")
CONTAINERS = frozenset(("sequence", "dict", "struct"))


def keys_and_parts(container: Any, kind: str) -> tuple[tuple | None, Sequence[Any]]:
    """Returns the keys of a dictionary or the names of a structure's fields, and the parts."""
    if kind == "sequence":
        return None, [*container]
    if kind == "dict":
        return tuple(container), [*container.values()]
    names, read = layout(type(container)) or ((), _attributes(()))
    return names, read(container)


@lru_cache(1024)
def _attributes(names: tuple[str, ...]) -> Callable[[Any], Sequence[Any]]:
    """Returns a function that reads attributes of an object, without a step of Python for each."""
    if len(names) > 1:
        return attrgetter(*names)
    return (lambda container: (getattr(container, names[0]),)) if names else lambda container: ()


def rebuilt(cls: Any, keys: Any, values: list[Any]) -> Any:
    """Returns a new container of a class, from its keys or names and its parts.

    Raises:
        IncompatibleError: the class is a structure that cannot be created without arguments.
    """
    if cls is list:
        return values
    if cls is tuple:
        return tuple(values)
    if issubclass(cls, dict):
        return cls(zip(keys, values, strict=True))
    if issubclass(cls, (list, tuple)):
        return getattr(cls, "_make", cls)(values)
    return make_struct(cls, keys, values)


def steps(cls: Any, keys: Any, count: int) -> list[str]:
    """Returns the notation for the path from a container to each part."""
    if issubclass(cls, dict):
        return [f"[{key!r}]" for key in keys]
    if keys is None:
        keys = getattr(cls, "_fields", ())
    return [f".{name}" for name in keys] or [f"[{i}]" for i in range(count)]


def children(tree: Any) -> list[tuple[str, Any]] | None:
    """Returns the parts of a container, each with the notation of its path; None for a leaf."""
    cls = type(tree)
    kind = role(cls)
    if kind not in CONTAINERS:
        return None
    keys, values = keys_and_parts(tree, kind)
    return [*zip(steps(cls, keys, len(values)), values, strict=True)]


def too_deep() -> RecursionError:
    """Returns the error to raise instead of Python's own for an infinite tree."""
    return RecursionError(
        "the lists, tuples, dictionaries or structures are nested too deeply, or contain themselves"
    )


def walk(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yields the leaves of a PyTree in order, each with its path, such as `[0].x`.

    Raises:
        RecursionError: the PyTree is too deep, or contains itself.

    >>> list(walk({"a": [1, 2]}))
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return ((path, leaf) for path, (leaf,) in _rows((tree,), "walk"))


def leaves(tree: Any, stop: Classes = ()) -> list[Any]:
    """Returns the leaves of a PyTree in order; objects of the classes `stop` count as leaves.

    >>> leaves([1, (2, {"a": 3})])
    [1, 2, 3]
    """
    found: list[Any] = []
    try:
        _leaves((tree,), stop, found)
    except RecursionError:
        raise too_deep() from None
    return found


def _leaves(values: Iterable[Any], stop: Classes, found: list[Any]) -> None:
    for v in values:
        cls = type(v)
        kind = ROLES.get(cls) or role(cls)
        if kind in CONTAINERS and not isinstance(v, stop):
            _leaves(keys_and_parts(v, kind)[1], stop, found)
        else:
            found.append(v)


def arrays(tree: Any) -> list[Any]:
    """Returns the Dr.Jit arrays, of any kind, among the leaves of a PyTree."""
    return [v for v in leaves(tree) if is_array(v)]


def leaf_arrays(tree: Any) -> list[Any]:
    """Returns the 1-D arrays that hold the contents of a PyTree.

    These are leaf arrays, innermost components of nested arrays, and flat arrays of tensors, and
    also values of kernels, whose `_kind` is `vector`.
    """
    kind = ROLES.get(type(tree))
    if kind == "leaf":
        return [tree]
    if kind == "nested" and (parts := tree._components) and ROLES.get(type(parts[0])) == "leaf":
        return [*parts]
    found: list[Any] = []
    try:
        _collect((tree,), found)
    except RecursionError:
        raise too_deep() from None
    return found


def _collect(values: Iterable[Any], found: list[Any]) -> None:
    for v in values:
        cls = type(v)
        kind = ROLES.get(cls) or role(cls)
        if kind == "leaf" or kind == "vector":
            found.append(v)
        elif kind == "nested":
            _collect(v._components, found)
        elif kind == "tensor":
            found.append(v._array)
        elif kind != "other":
            _collect(keys_and_parts(v, kind)[1], found)
        elif isinstance(v, ArrayBase):  # of numbers, or never initialized: this raises the error
            getattr(v, "_array" if v._kind == "tensor" else "_components")


def map_tree(f: Callable[..., Any], *trees: Any, what: str = "map_tree", stop: Classes = ()) -> Any:
    """Returns a PyTree of the same structure as the first, with `f` applied to corresponding
    leaves. Objects of the classes `stop` count as leaves of a single PyTree.

    `what` names the function that the user called, for errors.

    Raises:
        RecursionError: a PyTree is too deep, or contains itself.
        TypeError: the PyTrees differ in structure.

    >>> map_tree(lambda a, b: a + b, [1, {"x": 2}], [10, {"x": 20}])
    [11, {'x': 22}]
    """
    try:
        if len(trees) == 1:
            return _mapped(f, trees, stop)[0]
        results = iter([f(*row) for _, row in _rows(trees, what)])
        return _mapped(lambda _: next(results), trees[:1], ())[0]
    except RecursionError:
        raise too_deep() from None


def _mapped(f: Callable[[Any], Any], values: Iterable[Any], stop: Classes) -> list[Any]:
    made = []
    for v in values:
        cls = type(v)
        kind = ROLES.get(cls) or role(cls)
        if kind in CONTAINERS and not isinstance(v, stop):
            keys, found = keys_and_parts(v, kind)
            made.append(rebuilt(cls, keys, _mapped(f, found, stop)))
        else:
            made.append(f(v))
    return made


def paired_leaves(first: Any, second: Any, what: str) -> Iterator[tuple[Any, ...]]:
    """Yields the leaves of a PyTree in order, each with the value at the same place of a second
    one, which may continue there. Nothing is created, so structures may be of any class.

    Raises:
        RecursionError: a PyTree is too deep, or contains itself.
        TypeError: the second PyTree lacks containers of the first one.

    >>> list(paired_leaves([1, {"x": 2}], [3, {"x": [4, 5]}], "example"))
    [(1, 3), (2, [4, 5])]
    """
    return (row for _, row in _rows((first, second), what, "inside"))


def aligned_leaves(what: str, first: Any, second: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields the leaves of two PyTrees in order with their paths. A list may be paired with a tuple
    or a structure of as many parts, and any container with an array.

    Raises:
        RecursionError: a PyTree is too deep, or contains itself.
        RuntimeError: the PyTrees differ in structure.
    """
    return ((path, a, b) for path, (a, b) in _rows((first, second), what, "alike"))


def _rows(
    trees: tuple[Any, ...], what: str, match: str = "exact"
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yields the leaves of the first PyTree in order, each with its path, and the values at the
    same place of the others. The structures must `match`: the others are `exact`ly the same, have
    any values where the first one has leaves (`inside`), or are `aligned_leaves`."""
    try:
        yield from _below(trees, what, match, "")
    except RecursionError:
        raise too_deep() from None


def _below(
    trees: tuple[Any, ...], what: str, match: str, path: str
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    first, *others = trees
    found = children(first)
    ends = match == "alike" and any(map(is_array, trees))
    if found is None or ends:
        for other in others if match != "inside" and not ends else ():
            if is_container(other):
                raise _mismatch(what, path, first, other)
        yield path, trees
        return
    columns = [_matching(first, len(found), other, what, match, path) for other in others]
    for (name, value), *row in zip(found, *columns, strict=True):
        yield from _below((value, *row), what, match, path + name)


def _matching(first: Any, count: int, other: Any, what: str, match: str, path: str) -> list[Any]:
    """Returns the parts of `other`, in the order of the `count` parts of `first`."""
    if isinstance(first, dict) and isinstance(other, dict):
        if first.keys() != other.keys():
            raise IncompatibleError(
                f"{what}(): the dictionaries{_at(path)} have different keys: "
                f"{list(first)} and {list(other)}"
            )
        return [other[k] for k in first]
    apart = {"dict", "other"} & {role(type(first)), role(type(other))}
    if type(first) is not type(other) and (match != "alike" or apart):
        raise _mismatch(what, path, first, other)
    values = [*keys_and_parts(other, role(type(other)))[1]]
    if len(values) != count:
        raise IncompatibleError(
            f"{what}(): the sequences{_at(path)} have different lengths: {count} and {len(values)}"
        )
    return values


def _mismatch(what: str, path: str, first: Any, other: Any) -> IncompatibleError:
    return IncompatibleError(
        f"{what}(): the structures of the arguments differ{_at(path)}: "
        f"{type(first).__qualname__} and {type(other).__qualname__}"
    )


def _at(path: str) -> str:
    return f" at {path}" if path else ""
