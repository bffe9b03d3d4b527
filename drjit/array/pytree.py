"""Trees of values: lists, tuples, dictionaries, data classes, and classes with a `DRJIT_STRUCT`
table.

Functions that take arrays also take such trees, and work on their leaves. A leaf is everything that
is not one of these containers.
"""

import dataclasses
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, get_type_hints

from .base import IncompatibleError, KernelValue
from .show import is_array

Rebuild = Callable[[list[Any]], Any]


def struct_fields(cls: type) -> dict[str, Any] | None:
    """Names and types of the fields of a structure class: a data class or one with `DRJIT_STRUCT`;
    None for others.

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
    names = field_names(cls)
    if names is None:
        return None
    found = _annotated.get(cls)
    if found is None:
        try:
            hints = get_type_hints(cls)
        except NameError:  # an annotation that refers to what is not imported at run time
            return {f.name: f.type for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        found = {name: hints[name] for name in names}
        if cls not in found.values():  # which would keep the class
            _annotated[cls] = found
    return found


# What is known of data classes: to ask Python for it takes longer than all else that is done with
# a structure.
_annotated: weakref.WeakKeyDictionary[type, dict[str, Any]] = weakref.WeakKeyDictionary()
_names: weakref.WeakKeyDictionary[type, tuple[str, ...] | None] = weakref.WeakKeyDictionary()


def field_names(cls: type) -> Iterable[str] | None:
    """The names of the fields of a structure class, None for others."""
    table = getattr(cls, "DRJIT_STRUCT", None)
    if isinstance(table, dict):
        return table
    try:
        return _names[cls]
    except KeyError:
        made = dataclasses.is_dataclass(cls)
        found = tuple([f.name for f in dataclasses.fields(cls)]) if made else None
        if made or cls.__module__ == "builtins" or getattr(cls, "__meta__", None) is not None:
            _names[cls] = found  # another class may become a data class yet
        return found


def is_struct(arg: Any) -> bool:
    """Whether a type or a value is a structure: a data class or a class with `DRJIT_STRUCT`."""
    return field_names(arg if isinstance(arg, type) else type(arg)) is not None


def is_container(tree: Any) -> bool:
    """Whether a value is a tree with branches."""
    return isinstance(tree, (list, tuple, dict)) or _is_structure_value(tree)


def make_struct(cls: type, values: Sequence[Any]) -> Any:
    """A structure with the given values of its fields, in their order.

    A data class is made without calling its `__init__`, any other class by calling it without
    arguments.

    Raises:
        IncompatibleError: the class cannot be made without arguments.
    """
    names = field_names(cls)
    if dataclasses.is_dataclass(cls):
        made = object.__new__(cls)
    else:
        try:
            made = cls()
        except TypeError as error:
            raise IncompatibleError(
                f"{cls.__qualname__}: a class with DRJIT_STRUCT must be constructible without "
                f"arguments ({error})"
            ) from None
    for name, value in zip(names or (), values, strict=True):
        if dataclasses.is_dataclass(cls):
            object.__setattr__(made, name, value)  # frozen data classes included
        else:
            setattr(made, name, value)
    return made


def children(tree: Any) -> tuple[list[tuple[str, Any]], Rebuild] | None:
    """The branches of a tree, or None for a leaf.

    Gives each branch with how one writes the way to it, and a function that makes a tree of the
    same kind from new branches.
    """
    cls = type(tree)
    if isinstance(tree, (list, tuple)):
        branches = [(f"[{i}]", v) for i, v in enumerate(tree)]
        if hasattr(cls, "_fields"):
            return [(f".{n}", v) for n, v in zip(cls._fields, tree, strict=True)], lambda new: cls(
                *new
            )
        return branches, cls
    if isinstance(tree, dict):
        keys = list(tree)
        return [(f"[{k!r}]", tree[k]) for k in keys], lambda new: cls(zip(keys, new, strict=True))
    names = None if isinstance(tree, type) else field_names(cls)
    if names is not None:
        return [(f".{n}", getattr(tree, n)) for n in names], lambda new: make_struct(cls, new)
    return None


def _is_structure_value(tree: Any) -> bool:
    return not isinstance(tree, type) and field_names(type(tree)) is not None


def too_deep() -> RecursionError:
    """What to raise instead of Python's own message when a tree has no end."""
    return RecursionError(
        "the lists, tuples, dictionaries or structures are nested too deeply, or contain themselves"
    )


def walk(tree: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of a tree in order, each with the way to it, such as `[0].x`.

    Raises:
        RecursionError: the tree is too deep, or contains itself.

    >>> list(walk({"a": [1, 2]}))
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    try:
        yield from _walk(tree, "")
    except RecursionError:
        raise too_deep() from None


def _walk(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    found = children(tree)
    if found is None:
        yield path, tree
        return
    for name, value in found[0]:
        yield from _walk(value, path + name)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree in order.

    >>> leaves([1, (2, {"a": 3})])
    [1, 2, 3]
    """
    return [value for _, value in walk(tree)]


def arrays(tree: Any) -> list[Any]:
    """The Dr.Jit arrays, of any kind, among the leaves of a tree."""
    return [v for v in leaves(tree) if is_array(v)]


def leaf_arrays(tree: Any) -> list[Any]:
    """The 1-D arrays that hold the contents of a tree.

    These are leaf arrays, innermost components of nested arrays, and flat arrays of tensors; and
    values of kernels, whose `_kind` is `vector`.
    """
    kind = getattr(type(tree), "_kind", None)
    if kind == "tensor":
        tree = tree._array
        kind = tree._kind
    if kind == "leaf":
        return [tree]  # what most programs evaluate and differentiate
    found: list[Any] = []
    for value in leaves(tree):
        _collect(value, found)
    return found


def _collect(value: Any, found: list[Any]) -> None:
    kind = value._kind if is_array(value) else None
    if kind == "leaf" or isinstance(value, KernelValue):
        found.append(value)
    elif kind == "nested":
        for c in value._c:
            _collect(c, found)
    elif kind == "tensor":
        _collect(value._array, found)


def map_tree(f: Callable[..., Any], *trees: Any, what: str = "map_tree") -> Any:
    """A tree of the same structure as the first, with `f` applied to corresponding leaves.

    `what` names the function that the user called, for errors.

    Raises:
        RecursionError: a tree is too deep, or contains itself.
        TypeError: the trees differ in structure.

    >>> map_tree(lambda a, b: a + b, [1, {"x": 2}], [10, {"x": 20}])
    [11, {'x': 22}]
    """
    try:
        return _map(f, trees, what, "")
    except RecursionError:
        raise too_deep() from None


def _map(f: Callable[..., Any], trees: tuple[Any, ...], what: str, path: str) -> Any:
    first = trees[0]
    found = children(first)
    if found is None:
        for other in trees[1:]:
            if is_container(other):
                raise _mismatch(what, path, first, other)
        return f(*trees)
    branches, rebuild = found
    if len(trees) == 1:
        return rebuild([_map(f, (v,), what, path + name) for name, v in branches])
    rows = [_matching(first, branches, other, what, path) for other in trees[1:]]
    return rebuild(
        [
            _map(f, (value, *others), what, path + name)
            for (name, value), *others in zip(branches, *rows, strict=True)
        ]
    )


def pairs(first: Any, second: Any, what: str) -> Iterator[tuple[Any, Any]]:
    """The leaves of a tree in order, each with what a second one, which may go on there, has in the
    same place. Nothing is made, so structures may be of any class.

    Raises:
        RecursionError: a tree is too deep, or contains itself.
        TypeError: the second tree does not have the branches of the first one.

    >>> list(pairs([1, {"x": 2}], [3, {"x": [4, 5]}], "example"))
    [(1, 3), (2, [4, 5])]
    """
    try:
        yield from _pairs(first, second, what, "")
    except RecursionError:
        raise too_deep() from None


def _pairs(first: Any, second: Any, what: str, path: str) -> Iterator[tuple[Any, Any]]:
    found = children(first)
    if found is None:
        yield first, second
        return
    others = _matching(first, found[0], second, what, path)
    for (name, a), b in zip(found[0], others, strict=True):
        yield from _pairs(a, b, what, path + name)


def _matching(first: Any, branches: list, other: Any, what: str, path: str) -> list[Any]:
    """The branches of `other` in the order of those of `first`."""
    if isinstance(first, dict) and isinstance(other, dict):
        if first.keys() != other.keys():
            raise IncompatibleError(
                f"{what}(): the dictionaries{_at(path)} have different keys: "
                f"{list(first)} and {list(other)}"
            )
        return [other[k] for k in first]
    found = children(other)
    if found is None or type(first) is not type(other):
        raise _mismatch(what, path, first, other)
    values = [v for _, v in found[0]]
    if len(values) != len(branches):
        raise IncompatibleError(
            f"{what}(): the sequences{_at(path)} have different lengths: "
            f"{len(branches)} and {len(values)}"
        )
    return values


def _mismatch(what: str, path: str, first: Any, other: Any) -> IncompatibleError:
    return IncompatibleError(
        f"{what}(): the structures of the arguments differ{_at(path)}: "
        f"{type(first).__qualname__} and {type(other).__qualname__}"
    )


def _at(path: str) -> str:
    return f" at {path}" if path else ""
