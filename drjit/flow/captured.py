"""Arrays that functions refer to as variables of the functions around them.

A loop or branch cannot exchange their values, so that its functions may read them, and scatter to
them, but not change them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from ..array import pytree
from ..jit.node import AFTER
from .state import Content, Held, State, assign, content


def closure_arrays(functions: Sequence[Callable[..., Any]]) -> list[tuple[str, Any]]:
    """The traced one-dimensional arrays, each once, in the variables that functions have captured,
    and the names of these."""
    found: dict[int, tuple[str, Any]] = {}
    seen: set[int] = set()
    stack = list(functions)
    while stack:
        f = stack.pop()
        if id(f) in seen or not isinstance(f, FunctionType):
            continue
        seen.add(id(f))
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # a variable without a value
                continue
            if isinstance(value, FunctionType):
                stack.append(value)
            for a in pytree.leaf_arrays(value):
                if a._kind == "leaf":
                    found.setdefault(id(a), (name, a))
    return list(found.values())


class Pinned:
    """What arrays held, which may have changed."""

    def __init__(self, arrays: list[tuple[Any, Content]]) -> None:
        self._arrays = arrays

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """Within, the arrays hold it again."""
        now = [content(a) for a, _ in self._arrays]
        for a, value in self._arrays:
            assign(a, value)
        try:
            yield
        finally:
            for (a, _), value in zip(self._arrays, now, strict=True):
                assign(a, value)


class Captured:
    """What captured arrays hold before functions run."""

    def __init__(self, functions: Sequence[Callable[..., Any]], state: State) -> None:
        own = {id(a) for a in state.leaves}
        self._arrays = [
            (name, a, Held(content(a))) for name, a in closure_arrays(functions) if id(a) not in own
        ]

    def check(self, what: str) -> None:
        """Raises:
        RuntimeError: an array has changed, other than by a scatter; it is put back.
        """
        for name, a, before in self._arrays:
            if a._n.serial != before.serial and a._n.op is not AFTER:
                self.restore()
                raise RuntimeError(
                    f"{what}: the captured variable '{name}' changes. Pass it as one of the "
                    "variables, and return it."
                )

    def pinned(self) -> "Pinned":
        """What the arrays held, for functions that are called again. Of arrays that functions have
        written to and not read, it is lost, and zeros serve as well."""
        return Pinned([(a, v.content() or v.stand_in()) for _, a, v in self._arrays])

    def restore(self) -> None:
        """Undoes changes."""
        for _, a, before in self._arrays:
            before.restore(a)
