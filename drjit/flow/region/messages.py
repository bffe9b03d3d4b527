"""What goes wrong in a loop, branch or call: exceptions of its functions, variables without a
value, and versions of the variables that differ in more than the contents of arrays."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NoReturn

from ...array.base import ArrayBase, IncompatibleError, type_label
from ...array.tree import Tree

if TYPE_CHECKING:
    from .state import State

NUMBERS = (bool, int, float)


# ---- Exceptions in functions


class Failure(RuntimeError):
    """A function called by a statement raised an exception, which is the `__context__`. This one is
    both a `RuntimeError` and of the same type."""

    _text = ""
    _kind: type[Exception] = RuntimeError

    def __str__(self) -> str:
        return self._text

    def __reduce__(self) -> Any:
        return _failure, (self._kind, self._text, self.args, vars(self))


@lru_cache(256)
def _class(kind: type[Exception]) -> type[Failure]:
    bases = (Failure,) if kind is RuntimeError else (Failure, kind)
    own = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "_kind": kind}
    return type(kind.__name__, bases, own)


def _failure(kind: type[Exception], text: str, args: tuple, attributes: dict[str, Any]) -> Failure:
    try:
        cls = _class(kind)
        made: Failure = kind.__new__(cls, *args)
        if kind.__module__ == "builtins":
            kind.__init__(made, *args)  # sets attributes
    except Exception:  # the class cannot have subclasses, or cannot be constructed like this
        made = Failure()
    made.args = args
    vars(made).update(attributes)
    made._text = text
    return made


def failed(what: str, error: Exception) -> Failure:
    """Returns the exception to raise from `error`, which a function has raised. Its traceback
    extends to that place, because debuggers show the last one."""
    kind = error._kind if isinstance(error, Failure) else type(error)
    name = "" if kind is RuntimeError or isinstance(error, Failure) else f"{kind.__name__}: "
    text = str(error)
    if not text.startswith(f"{what}: "):  # which says where it was
        text = f"{what}: encountered an exception (see above). {name}{text}"
    trace = error.__traceback__
    return _failure(kind, text, error.args, vars(error)).with_traceback(trace and trace.tb_next)


# ---- Variables without a value


class UndefinedError(NameError, RuntimeError):
    """A variable has a value on only some of the paths that lanes take together."""


class Undefined:
    """Stands for the value of a variable that has none, which a loop or branch may assign. Every
    use raises what Python would raise."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __repr__(self) -> str:
        return f"<undefined variable {object.__getattribute__(self, '_name')!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Undefined)

    __hash__ = None  # type: ignore[assignment]


def _use(self: Undefined, *_: Any) -> NoReturn:
    name = object.__getattribute__(self, "_name")
    raise UnboundLocalError(
        f"cannot access local variable '{name}' where it is not associated with a value"
    )


_OPERATORS = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
    "lshift", "rshift", "lt", "le", "gt", "ge", "neg", "pos", "invert", "bool", "len", "iter",
    "getitem", "setitem", "call", "int", "float", "index",
]  # fmt: skip
for _name in _OPERATORS:
    for _form in (_name, "r" + _name, "i" + _name):
        setattr(Undefined, f"__{_form}__", _use)
Undefined.__getattr__ = _use  # type: ignore[attr-defined]


def value(read: Callable[[], Any], name: str) -> Any:
    """Returns the result of `read`, the value of a variable of that name, or a stand-in if it has
    none."""
    try:
        return read()
    except NameError:
        return Undefined(name)


def is_undefined(variable: Any) -> bool:
    """Returns whether a variable has no value."""
    return type(variable) is Undefined


# ---- Versions of variables that do not match


def size_changed(
    what: str, path: str, array: Any, before: int, after: int, more: str = ""
) -> RuntimeError:
    """Returns the error for a variable whose size differs from that of another version."""
    label = type_label(array)
    changed = f"the size of state variable '{path}' of type '{label}' changed from {before}"
    return RuntimeError(f"{what}: {changed} to {after}{more}")


def check_pair(state: "State", i: int, after: Tree, j: int) -> None:
    """Raises a RuntimeError if an object of a state and the corresponding one of another version
    have different types or parts."""
    before, what = state.tree, state.what
    old, now = before.objects[i], after.objects[j]
    if type(old) is not type(now):
        path = state.path(i)
        initial = _initial(state, path, old)
        if type(initial) is not type(old):
            old, now = initial, old
        raise _changed_type(old, now, path, what)
    mine, theirs = before.keys.get(i), after.keys.get(j)
    if isinstance(old, dict) and {*mine} != {*theirs}:  # type: ignore[misc]
        raise RuntimeError(
            f"{what}: the keys of state variable '{state.path(i)}' changed from "
            f"{list(mine)} to {list(theirs)}"  # type: ignore[arg-type]
        )
    if before.counts[i] != after.counts[j]:
        raise size_changed(what, state.path(i), now, before.counts[i], after.counts[j])
    if isinstance(old, ArrayBase) and mine != theirs:
        sizes = {before.parts[i][0]._node.size, after.parts[j][0]._node.size}
        if len(sizes - {1}) > 1:
            raise RuntimeError(
                f"{what}: the size of state variable '{state.path(i)}' of type "
                f"'{type_label(now)}' changed: it has the shape {mine} before and {theirs} "
                "afterwards"
            )


def check_same(state: "State", k: int, after: Any) -> None:
    """Raises a RuntimeError if a value other than an array has changed."""
    before = state.tree.objects[k]
    if not _same(before, after):
        path = state.path(k)
        initial = _initial(state, path, before)
        if not _same(initial, before):
            before, after = initial, before
        raise RuntimeError(
            f"{state.what}: the non-array state variable '{path}' of type "
            f"'{type_label(after)}' changed from '{before}' to '{after}'. Its value would have "
            "to be the same for all entries of the condition: make it an array, such as "
            f"{_array_hint(after)}, or pass strict=False to ignore this."
        )


def _initial(state: "State", path: str, other: Any) -> Any:
    """Returns the value with a path among those that a state is the result of; another one if
    there is none."""
    if state.origin is None:
        return other
    paths = state.origin.tree.labels(state.origin.titles)
    return state.origin.tree.objects[paths.index(path)] if path in paths else other


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, ArrayBase):
        return list(a) == list(b)
    try:
        return bool(a == b) or (a != a and b != b)
    except Exception:  # a user-defined comparison
        return False


def _array_hint(value: Any) -> str:
    kind = {bool: "Bool", int: "Int", float: "Float"}.get(type(value), "Float")
    return f"{kind}({value!r})" if type(value) in NUMBERS else f"{kind}(...)"


def _changed_type(before: Any, after: Any, path: str, what: str) -> RuntimeError:
    if isinstance(before, Undefined) or isinstance(after, Undefined):
        return UndefinedError(
            f"{what}: variable '{path}' does not have a value on all paths. It is of type "
            f"{type_label(after if isinstance(before, Undefined) else before)} on one of them; "
            "give it a value of that type before the statement."
        )
    hint = ""
    if type(before) in NUMBERS and isinstance(after, ArrayBase):
        hint = f" Start with an array: {type(after).__name__}({before!r})."
    return RuntimeError(
        f"{what}: the type of state variable '{path}' changed from '{type_label(before)}' to "
        f"'{type_label(after)}', which is not permitted.{hint}"
    )


# ---- Results of functions that do not match


def matched(what: str, first: Tree, other: Tree) -> Tree:
    """Returns a result in the order of another one with which it can be merged lane by lane: they
    have the same structure and array types, and everything other than arrays is equal.

    Raises:
        IncompatibleError: they are incompatible.
    """
    return first.matched(
        other, partial(_check_structure, what, first), partial(_check_constant, what, first)
    )


def _path(tree: Tree, k: int) -> str:
    return tree.labels(["result"])[k]


def _check_structure(what: str, first: Tree, i: int, other: Tree, j: int) -> None:
    cls, mine, theirs = first.classes[i], first.counts[i], other.counts[j]
    if cls is not other.classes[j]:
        raise IncompatibleError(
            f"{what}: inconsistent types for field '{_path(first, i)}': "
            f"{type_label(other.classes[j])} and {type_label(cls)}. All functions must return the "
            "same types; convert explicitly."
        )
    if issubclass(cls, dict) and {*first.keys[i]} != {*other.keys[j]}:
        raise IncompatibleError(
            f"{what}: inconsistent dictionary keys for field '{_path(first, i)}' "
            f"({list(other.keys[j])} and {list(first.keys[i])})"
        )
    if mine != theirs:
        of = f", which is of type {type_label(cls)}" if issubclass(cls, ArrayBase) else ""
        raise IncompatibleError(
            f"{what}: inconsistent sizes for field '{_path(first, i)}' ({theirs} and {mine}){of}"
        )


def _check_constant(what: str, first: Tree, k: int, other: Any) -> None:
    mine = first.objects[k]
    if not _same(mine, other):
        raise IncompatibleError(
            f"{what}: inconsistent scalar Python object of type '{type_label(mine)}' for field "
            f"'{_path(first, k)}', which is {mine!r} for one function and {other!r} for another. "
            "It must be the same for all; return an array instead."
        )
