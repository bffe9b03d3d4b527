"""Arrays that the bodies of a loop, branch or call write differentiable values to. They lie around
the block, and what they hold after it is a further result: its gradient goes to the values that
were written, and to what the arrays held before."""

from typing import Any

from ...ad import graph
from ...ad.graph import Var, visible
from ...ad.scatter_target import Memory, ScatterTarget, owned, take, written
from ...jit.ir import node as ir
from ...jit.ir.node import LITERAL, Node


class Target:
    """A target: the `array`, until it has been attached, the reductions by which bodies write to
    it, and the variable that it had `before`. Within another body, that is the one which stands for
    the target there, and `memory` is where that body has the target's derivatives."""

    __slots__ = ("array", "before", "dtype", "kinds", "memory", "size")

    def __init__(self, array: Any) -> None:
        self.array, self.dtype, self.size = array, array._node.dtype, array._node.size
        self.kinds: set[str] = set()
        self.before: Var | None = None
        self.memory: Memory | None = None


class Targets:
    """The targets of one block, in `rows`."""

    def __init__(self) -> None:
        self.rows: list[Target] = []

    def note(self) -> list[tuple[int, ScatterTarget]]:
        """Adds the targets of the body that has been traced; gives its own, with their rows."""
        found = []
        for w in take():
            k = next((k for k, t in enumerate(self.rows) if t.array is w.array), len(self.rows))
            if k == len(self.rows):
                self.rows.append(Target(w.array))
            self.rows[k].kinds |= w.memory.kinds
            w.array = None  # which may refer to the results
            found.append((k, w))
        return found

    # ---- Joining the graph

    def inputs(self) -> list[Var]:
        """The variables of the targets before the block, where they have one."""
        for t in self.rows:
            if graph.outer_gradients() is None:
                t.before = visible(t.array._var)
            else:
                around = written(t.array)
                t.before, t.memory = around.var, around.memory
                t.memory.kinds |= t.kinds
        return [t.before for t in self.rows if t.before is not None]

    def outputs(self) -> list[Node]:
        """What the targets hold after the block."""
        return [t.array._node for t in self.rows]

    def attach(self, results: list[Var | None]) -> None:
        """Makes the targets depend on what was written, by new variables."""
        for t, v in zip(self.rows, results, strict=True):
            if t.memory is None:
                t.array._var = v
            elif v is not None:
                written(t.array).scatters.append(v)
            t.array = None  # which may refer to the results

    # ---- Derivatives

    def check_first_order(self, what: str) -> None:
        """Raises:
        RuntimeError: there are targets, for which there are no second derivatives.
        """
        if self.rows:
            raise RuntimeError(
                f"{what}: ADFlag.KeepGraph needs derivatives of derivatives, which symbolic loops, "
                "branches and calls that scatter differentiable values do not have. Use "
                "mode='evaluated'."
            )

    def gradients(self, given: list[Node]) -> list[list[Node]]:
        """Memory for a reverse traversal, from the gradients of the targets.

        Raises:
            RuntimeError: scatters with and without a sum cannot be taken apart.
        """
        found = []
        for t, g in zip(self.rows, given, strict=True):
            if t.memory is not None:
                found.append(t.memory.held)
            elif is_zero(g):
                found.append([])
            elif len(t.kinds) > 1:
                raise RuntimeError(
                    "derivatives of an array that a symbolic loop, branch or call writes to both "
                    "by dr.scatter and dr.scatter_add are not available in reverse mode. Use two "
                    "arrays, or mode='evaluated'."
                )
            else:
                # Sums leave the gradient as it is; what is replaced takes its gradient along.
                found.append([ir.resize(g, t.size) if t.kinds == {"add"} else owned(g, t.size)])
        return found

    def before(self, held: list[list[Node]]) -> list[Node]:
        """The gradients of what targets were before, after the traversal: those for `inputs`."""
        return [self._result(t, n) for t, n in zip(self.rows, held, strict=True) if t.before]

    def tangents(self, given: list[Node]) -> list[list[Node]]:
        """Memory for a forward traversal, from the tangents of what targets were before."""
        tangents = iter(given)
        found = []
        for t in self.rows:
            n = None if t.before is None else next(tangents)
            if t.memory is not None:
                found.append(t.memory.held)
            else:
                found.append([owned(ir.literal(t.dtype, 0) if n is None else n, t.size)])
        return found

    def after(self, held: list[list[Node]]) -> list[Node]:
        """The tangents of the targets, after the traversal."""
        return [self._result(t, n) for t, n in zip(self.rows, held, strict=True)]

    def _result(self, t: Target, held: list[Node]) -> Node:
        # Where a body around has the memory, what is there is passed on by that one.
        return held[0] if held and t.memory is None else ir.literal(t.dtype, 0, t.size)


def is_zero(n: Node | None) -> bool:
    """Whether a gradient is known to be 0."""
    return n is None or (n.op is LITERAL and n.data == 0)
