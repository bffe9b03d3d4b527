"""Arrays that functions capture from enclosing functions.

A loop or branch cannot exchange their values, so its functions may read them and scatter to them,
but not change them otherwise.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any

from ...array import leaf, pytree
from ...jit.ir.node import AFTER
from .state import WeakValue


def closure_arrays(functions: Sequence[Callable[..., Any]]) -> list[tuple[str, Any]]:
    """Returns the traced one-dimensional arrays, without duplicates, in the variables that
    functions capture, and their names."""
    found: dict[int, tuple[str, Any]] = {}
    seen: set[int] = set()
    stack = list(functions)
    while stack:
        f = stack.pop()
        if not isinstance(f, FunctionType) or id(f) in seen:
            continue
        seen.add(id(f))
        for name, value in _variables(f):
            if isinstance(value, FunctionType):
                stack.append(value)
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


FLOW = "_drjit_flow"
"""The name by which code made by `syntax` accesses the functions that it calls."""
_NOTHING = (), (FLOW,)


class CapturedArrays:
    """The contents of captured arrays before functions run, except those in `state`."""

    arrays: Sequence[tuple[str, Any, WeakValue]] = ()

    def __init__(self, functions: Sequence[Callable[..., Any]], state: Iterable[Any] = ()) -> None:
        for f in functions:
            if isinstance(f, FunctionType) and (
                f.__defaults__ or f.__kwdefaults__ or f.__code__.co_freevars not in _NOTHING
            ):
                break
        else:  # as with most functions that `syntax` makes
            return
        if found := closure_arrays(functions):
            own = {id(a) for a in state}
            self.arrays = [
                (name, a, WeakValue(leaf.value(a))) for name, a in found if id(a) not in own
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
