"""Loops whose condition is an array, independent of the mode: calls of their functions, and checks
of the results."""

from collections.abc import Callable, Sequence, Set
from itertools import chain
from operator import attrgetter
from typing import Any

from ...ad.graph import Value
from ...array.base import type_label
from ...array.tree import Tree
from ..region.condition import mask_of
from ..region.failure import call
from ..region.state import State
from ..region.tables import known


def returned(result: Any, count: int, what: str) -> tuple:
    """Checks the result of a body that received `count` variables.

    Raises:
        RuntimeError: it is not a tuple of that length.
    """
    if not isinstance(result, tuple):
        raise RuntimeError(f"{what}: 'body' must return a tuple, not {type_label(result)}")
    if len(result) != count:
        raise RuntimeError(
            f"{what}: 'body' must return the {count} variables that it got, not {len(result)}"
        )
    return result


_size, _node_size = attrgetter("_node.size"), attrgetter("node.size")


class ArrayLoop:
    """The components of a loop whose condition is an array, with the initial value `test`."""

    def __init__(
        self, start: State, cond: Callable, body: Callable, label: str, strict: bool, test: Any
    ) -> None:
        self.start, self.label, self.strict, self.test = start, label, strict, test
        self.cond, self.body, self.what, self.known = cond, body, start.what, known(body)
        if test._node.size and 0 in map(_size, start.leaves):
            start.check_initialized()

    def run_cond(self, state: State) -> Any:
        return mask_of(call(self.what, self.cond, *state.values), self.what, "the loop condition")

    def run_body(self, state: State, written: Set[int] = frozenset()) -> tuple[Tree, list[Any]]:
        """Returns the result of the body, and the arrays in it. `written` receives the serial
        numbers of nodes created by scatters."""
        values = returned(call(self.what, self.body, *state.values), len(state.values), self.what)
        if state.attributes:
            state.check_attributes(written)
        after = state.match(Tree(values, state.tree.plan), self.strict)
        arrays, leaves = after.leaves, state.leaves
        if len({*map(id, leaves)}) == len(leaves):
            return after, arrays
        first: dict[int, int] = {}
        for k, array in enumerate(leaves):
            other = first.setdefault(id(array), k)
            if arrays[k] is not arrays[other]:
                paths = state.paths
                raise RuntimeError(
                    f"{self.what}: variables '{paths[other]}' and '{paths[k]}' are the same object "
                    "before an iteration, but not after it"
                )
        return after, arrays

    def check_sizes(
        self,
        state: State,
        before: Sequence[Value | None],
        after: Sequence[Value],
        size: int,
        written: Set[int] = frozenset(),
        broadcast: bool = True,
        lanes: int = 1,
    ) -> None:
        """Raises a RuntimeError if the size of a changing variable is incompatible with the
        condition or with another variable. A condition of size 1 is compatible with all, if it
        may be `broadcast`; the number of `lanes` is that of a variable if it is another one."""
        if {1, size}.issuperset(map(_node_size, chain(filter(None, before), after))):
            return  # as in most loops
        fits: int | None = None  # the variable that determines the size, if not the condition
        if size == 1 != lanes:
            fits = next((k for k, a in enumerate(self.start.leaves) if _size(a) == lanes), None)
            size = 1 if fits is None else lanes
        for k, (a, b) in enumerate(zip(before, after, strict=True)):
            if a is None or b.node is a.node or b.node.serial in written:
                continue
            for n in (a.node, b.node):
                if n.size != 1 and n.size != size:
                    if size != 1 or not broadcast:
                        raise self._misfit(state, k, (a.node.size, b.node.size), size, fits)
                    size, fits = n.size, k

    def _misfit(
        self, state: State, k: int, sizes: tuple[int, int], size: int, fits: int | None
    ) -> RuntimeError:
        """Returns the error for a variable whose `sizes`, before and after an iteration, do not fit
        the size of the loop, which has been determined by another one, or the condition."""
        before, after = sizes
        origin = "the condition" if fits is None else f"'{state.paths[fits]}'"
        typed = f"state variable '{state.paths[k]}' of type '{type_label(state.leaves[k])}'"
        if after == 0:
            return RuntimeError(
                f"{self.what}: {typed} is uninitialized: it has 0 entries after an iteration, and "
                f"{origin} has {size}."
            )
        if before != after and 1 not in sizes:
            changed = f"{self.what}: the size of {typed} changed from {before} to {after}."
            return RuntimeError(changed + f" In {origin} it is {size}." * (fits != k))
        wrong = before if before not in (1, size) else after
        return RuntimeError(
            f"{self.what}: this operation processes arrays of size {size}, while state variable "
            f"'{state.paths[k]}' has an incompatible size {wrong}. The size {size} is that of "
            f"{origin}."
        )
