"""The functions of a loop, branch or call, and its condition: how they are called, in which mode,
what they capture, and what is known about them from earlier calls."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from ...array import leaf, pytree
from ...array.base import ArrayBase, type_label
from ...array.tree import Tree, TreeLayout
from ...jit import flags, log
from ...jit.flags import JitFlag
from ...jit.ir.node import AFTER
from ...jit.ir.scope import StateTarget
from ...jit.trace import record
from .messages import failed
from .state import WeakValue

MODES = (None, "scalar", "symbolic", "evaluated")
FLOW = "_drjit_flow"
"""The name by which code made by `syntax` accesses the functions that it calls."""
_NOTHING = (), (FLOW,)


class RecordAgain(Exception):
    """A statement must be recorded again, with other arrays as its state or result."""


def call(what: str, function: Callable[..., Any], *args: Any) -> Any:
    """Returns the result of a function of a loop or branch.

    Raises:
        RuntimeError: the function raised an exception; the error is also of that type.
    """
    try:
        return function(*args)
    except StateTarget:  # the enclosing statement will record it again
        raise
    except Exception as error:
        raise failed(what, error) from error


# ---- Modes and conditions


def check_mode(mode: Any, what: str) -> None:
    """Raises a RuntimeError if there is no such mode."""
    if mode not in MODES:
        raise RuntimeError(
            f"{what}: invalid 'mode' argument: it must be None, 'scalar', 'symbolic' or "
            f"'evaluated', not {mode!r}"
        )


def chosen_mode(mode: str | None, flag: JitFlag, what: str) -> str:
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
    """What is found out about a body only by tracing it. It is kept with its code, which is traced
    once from the next time on.

    `tables` are the positions of the arrays that it has read like tables, with `gather`, although
    these have as many entries as there are lanes; `tracks` says that it has referred to
    differentiable arrays from outside. There are layouts to decompose its arguments and results as
    well.
    """

    __slots__ = ("_layouts", "tables", "tracks")

    def __init__(self) -> None:
        self.tables: set[int] = set()
        self.tracks = False
        self._layouts: dict[str, Any] = {}  # False if there cannot be one

    def decompose(self, values: Sequence[Any], role: str) -> Tree:
        """Returns the decomposition of values, which have probably had the same structure before;
        `role` says which values of the body they are."""
        layouts = self._layouts
        layout = layouts.get(role)
        tree = Tree(values, layout or None)
        if tree.layout is None and tree.inside and layout is not False:
            if layout is None and role in layouts:  # it is of use from the second time on
                made = TreeLayout(tree)
                layouts[role] = made.lasts and made
            else:
                layouts[role] = None
        return tree


_profiles: weakref.WeakKeyDictionary[CodeType, BodyProfile] = weakref.WeakKeyDictionary()
# The same by the identities of code objects, while these exist: to compare two of them takes long.
_by_identity: dict[int, tuple[BodyProfile, weakref.ref[CodeType]]] = {}


def profile_of(body: Callable[..., Any]) -> BodyProfile:
    """Returns the profile of a function, to be added to."""
    code = getattr(body, "__code__", None)
    if code is None:
        return BodyProfile()
    key = id(code)
    entry = _by_identity.get(key)
    if entry is None:
        profile = _profiles.setdefault(code, BodyProfile())
        entry = profile, weakref.ref(code, lambda _: _by_identity.pop(key, None))
        _by_identity[key] = entry
    return entry[0]


# ---- Captured arrays


class ClosureArrays:
    """The contents of arrays that functions capture from enclosing functions, except those in
    `state`, before they run.

    A loop or branch cannot exchange their values, so its functions may read them and scatter to
    them, but not change them otherwise.
    """

    arrays: Sequence[tuple[str, Any, WeakValue]] = ()

    def __init__(self, functions: Sequence[Callable[..., Any]], state: Iterable[Any] = ()) -> None:
        for f in functions:
            if isinstance(f, FunctionType) and (
                f.__defaults__ or f.__kwdefaults__ or f.__code__.co_freevars not in _NOTHING
            ):
                break
        else:  # as with most functions that `syntax` makes
            return
        if captured := _captured(functions):
            own = {id(a) for a in state}
            self.arrays = [
                (name, a, WeakValue(leaf.value(a))) for name, a in captured if id(a) not in own
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
