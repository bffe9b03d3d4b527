"""Arrays that the bodies of a loop, branch or call write differentiable values to. They belong to
the enclosing code, and their contents after the block are a further result, whose gradient
propagates to the values that were written and to the previous contents."""

from typing import Any

from ...ad import graph
from ...ad.graph import Var, visible
from ...ad.scatter_target import GradMemory, ScatterTarget, owned, take, written
from ...jit.ir import node as ir
from ...jit.ir.node import LITERAL, Node


class Target:
    """A target: the `array`, until it has been attached, the reductions with which bodies write to
    it, and its variable `before`. Within another body, the latter stands for the target in that
    body, and `memory` is where that body stores the target's derivatives."""

    __slots__ = ("array", "before", "dtype", "kinds", "memory", "size")

    def __init__(self, array: Any) -> None:
        self.array, self.dtype, self.size = array, array._node.dtype, array._node.size
        self.kinds: set[str] = set()
        self.before: Var | None = None
        self.memory: GradMemory | None = None


class Targets:
    """The targets of one block, in `rows`."""

    def __init__(self) -> None:
        self.rows: list[Target] = []

    def note(self) -> list[tuple[int, ScatterTarget]]:
        """Adds the targets of the body that has just been traced; returns them with their rows."""
        found = []
        for w in take():
            k = next((k for k, t in enumerate(self.rows) if t.array is w.array), len(self.rows))
            if k == len(self.rows):
                self.rows.append(Target(w.array))
            self.rows[k].kinds |= w.memory.kinds
            w.array = None  # which may refer to the results
            found.append((k, w))
        return found

    # ---- Connecting to the graph

    def inputs(self) -> list[Var]:
        """The targets' variables before the block, where they have one."""
        for t in self.rows:
            if graph.outer_gradients() is None:
                t.before = visible(t.array._var)
            else:
                around = written(t.array)
                t.before, t.memory = around.var, around.memory
                t.memory.kinds |= t.kinds
        return [t.before for t in self.rows if t.before is not None]

    def outputs(self) -> list[Node]:
        """Returns the contents of the targets after the block."""
        return [t.array._node for t in self.rows]

    def attach(self, results: list[Var | None]) -> None:
        """Makes the targets depend on the written values, with new variables."""
        for t, v in zip(self.rows, results, strict=True):
            if t.memory is None:
                t.array._var = v
            elif v is not None:
                written(t.array).scatters.append(v)
            t.array = None  # which may refer to the results

    # ---- Derivatives

    def check_first_order(self, what: str) -> None:
        """Raises a RuntimeError if there are targets, which have no second derivatives."""
        if self.rows:
            raise RuntimeError(
                f"{what}: ADFlag.KeepGraph needs derivatives of derivatives, which symbolic loops, "
                "branches and calls that scatter differentiable values do not have. Use "
                "mode='evaluated'."
            )

    def gradients(self, given: list[Node]) -> list[list[Node]]:
        """Returns memory for a reverse-mode traversal, given gradients of the targets.

        Raises:
            RuntimeError: scatters with and without a sum cannot be separated.
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
                # Sums do not change the gradient; replaced entries take their gradient with them.
                found.append([ir.resize(g, t.size) if t.kinds == {"add"} else owned(g, t.size)])
        return found

    def before(self, held: list[list[Node]]) -> list[Node]:
        """Returns the gradients of the targets' previous contents after the traversal: those of
        `inputs`."""
        return [self._result(t, n) for t, n in zip(self.rows, held, strict=True) if t.before]

    def tangents(self, given: list[Node]) -> list[list[Node]]:
        """Returns memory for a forward-mode traversal, given tangents of the targets' previous
        contents."""
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
        """Returns the tangents of the targets after the traversal."""
        return [self._result(t, n) for t, n in zip(self.rows, held, strict=True)]

    def _result(self, t: Target, held: list[Node]) -> Node:
        # If the memory belongs to an enclosing body, that body propagates its contents.
        return held[0] if held and t.memory is None else ir.literal(t.dtype, 0, t.size)


def is_zero(n: Node | None) -> bool:
    """Returns whether a gradient is known to be 0."""
    return n is None or (n.op is LITERAL and n.data == 0)
