"""A loop whose condition is an array, as both of its modes see it: the calls of its functions, and
the checks of what these return."""

from collections.abc import Callable, Sequence, Set
from typing import Any

from ...ad.graph import Value
from ...array.base import type_label
from ...array.tree import Tree
from ..region.condition import mask_of
from ..region.failure import call
from ..region.state import State


def returned(result: Any, count: int, what: str) -> tuple:
    """The result of a body, which got `count` variables.

    Raises:
        RuntimeError: it is no tuple, or of another length.
    """
    if not isinstance(result, tuple):
        raise RuntimeError(f"{what}: 'body' must return a tuple, not {type_label(result)}")
    if len(result) != count:
        raise RuntimeError(
            f"{what}: 'body' must return the {count} variables that it got, not {len(result)}"
        )
    return result


class Loop:
    """The parts of a loop whose condition is an array, the value of which is `test` at first."""

    def __init__(
        self, start: State, cond: Callable, body: Callable, label: str, strict: bool, test: Any
    ) -> None:
        self.start, self.label, self.strict, self.test = start, label, strict, test
        self.cond, self.body, self.what = cond, body, start.what
        if test._node.size:
            start.check_initialized()

    def run_cond(self, state: State) -> Any:
        return mask_of(call(self.what, self.cond, *state.values), self.what, "the loop condition")

    def run_body(self, state: State, written: Set[int] = frozenset()) -> tuple[Tree, list[Any]]:
        """What the body gives, and the arrays in it. `written` will be the serial
        numbers of nodes that scatters have made."""
        values = returned(call(self.what, self.body, *state.values), len(state.values), self.what)
        state.check_attributes(written)
        after = state.match(Tree(values), self.strict)
        arrays = after.leaves
        first: dict[int, int] = {}
        leaves = state.leaves
        for k, array in enumerate(leaves if len({*map(id, leaves)}) < len(leaves) else ()):
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
        paths: Sequence[str],
        before: Sequence[Value | None],
        after: Sequence[Value],
        size: int,
        written: Set[int] = frozenset(),
        broadcast: bool = True,
    ) -> None:
        """Raises:
        RuntimeError: a variable that changes does not fit the size of the condition, or
            another one. A condition of size 1 fits all, if it may be `broadcast`.
        """
        fits: int | None = None  # the variable that has the size, if it is not the condition
        for k, (a, b) in enumerate(zip(before, after, strict=True)):
            if a is None or b.node is a.node or b.node.serial in written:
                continue
            for n in (a.node, b.node):
                if n.size != 1 and n.size != size:
                    if size != 1 or not broadcast:
                        wrong = "it has an incompatible size"
                        if b.node.size == 0:
                            wrong = f"state variable '{paths[k]}' is uninitialized"
                        elif 1 not in (a.node.size, b.node.size) and a.node.size != b.node.size:
                            wrong = f"the size of state variable '{paths[k]}' changed"
                        name = "the condition" if fits is None else f"'{paths[fits]}'"
                        raise RuntimeError(
                            f"{self.what}: variable '{paths[k]}' has {a.node.size} entries before "
                            f"and {b.node.size} after an iteration, which does not fit {name} "
                            f"with {size}: {wrong}"
                        )
                    size, fits = n.size, k
