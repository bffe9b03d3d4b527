"""A recorded symbolic loop that can run again, as needed by its derivatives: in a kernel, from
given values of its variables, or iteration by iteration.
"""

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ...ad import capture
from ...ad.algebra import RECORDED
from ...ad.graph import Value
from ...array import leaf
from ...jit.ir import dtype as dt
from ...jit.ir import node as ir
from ...jit.ir import op
from ...jit.ir.dtype import DType
from ...jit.ir.node import Node
from ...jit.ir.scope import ACTIVE, active, innermost
from ...jit.run import schedule
from ...jit.trace import record
from ..region.merging import masked
from ..region.recording import EVERYWHERE, Recomputation, RecordedOp, RecordedRegion


class RecordedLoop(RecordedOp):
    """A recorded loop.

    `before` is what the variables were, `paths` are their names, `places` the positions of those
    that are symbolic, `changing` those that the loop changes. `condition` is that of the loop,
    `recorded` the body as it was traced, and `after` what it makes of the symbolic variables.
    """

    def __init__(
        self, what: str, paths: Sequence[str], before: list[Value], places: list[int],
        changing: set[int], condition: Node, recorded: RecordedRegion,
    ) -> None:  # fmt: skip
        self.what, self.paths, self.before = what, paths, before
        self.places, self.changing = places, changing
        self.condition, self.recorded = condition, recorded
        # The loop that the nodes of the body belong to, until it has run.
        self.loop: weakref.ref[Node] | None = None
        self.after = [recorded.results[k].node for k in places]
        self.size = 1
        self._mask = None if innermost() is None else active()

    def lanes(self) -> AbstractContextManager[Any]:
        """Restricts what is traced to the lanes that the loop was recorded for."""
        if self._mask is None or self._mask is active():
            return EVERYWHERE
        return masked(self._mask)

    def nodes(self) -> list[Node]:
        """The initial values of the variables at `places`."""
        return [self.before[k].node for k in self.places]

    def kinds(self) -> dict[int, DType]:
        """The types of the changing variables."""
        return {k: self.before[k].node.dtype for k in self.places if k in self.changing}

    # ---- Parts of a kernel

    def run_test(self, nodes: Sequence[Node]) -> Node:
        """Returns the condition of a loop for given nodes."""
        return self.recorded.substitution(nodes, active())([self.condition])[0]

    def run_body(self, nodes: Sequence[Node]) -> list[Node]:
        """Returns the result of the body of a loop for given nodes."""
        return self.recorded.substitution(nodes, active())(self.after)

    def count(self) -> Node:
        """Returns the number of iterations of each lane."""
        return ir.resize(self.counting()[-1], self.size)

    def counting(self, visit: Callable[[list[Node]], None] = lambda nodes: None) -> list[Node]:
        """Runs the loop with a counter as an additional last variable; `visit` sees it in every
        iteration along with the others. If the loop has not run, this need not run it twice."""

        def step(nodes: list[Node]) -> list[Node]:
            visit([*self.recorded.nodes, *nodes])
            return [ir.apply(op.add, nodes[0], number(1))]

        found = self.extended([number(0)], step)
        if found is not None:
            return found

        def body(nodes: list[Node]) -> list[Node]:
            visit(nodes)
            return [*self.run_body(nodes[:-1]), ir.apply(op.add, nodes[-1], number(1))]

        start = [*self.nodes(), number(0)]
        return record.loop(start, lambda nodes: self.run_test(nodes[:-1]), body, self.what)

    def extended(self, start: list[Node], step: record.Body) -> list[Node] | None:
        """Adds variables, which `step` advances, to the recorded loop and returns their final
        values; None if it has run, or belongs to an open recording."""
        loop = self.loop and self.loop()
        return None if loop is None else record.extend(loop, start, step)

    def repeated(
        self, start: list[Node], step: record.Body, outer_gradients: capture.OuterGradients
    ) -> list[Node]:
        """Runs the loop again, with additional variables, which `step` advances while propagating
        derivatives. Returns their final values."""
        count = len(self.places)
        with self.recorded.derived(outer_gradients) as derived:
            derived.close([*self.after, *step(derived.stand_ins(start))])
        finals = record.loop(
            [*self.nodes(), *start],
            lambda nodes: self.run_test(nodes[:count]),
            lambda nodes: derived.again(nodes[:count], nodes[count:], active()),
            self.what,
        )
        return finals[count:]

    def advanced(self, begin: list[Node], count: Node) -> list[Node]:
        """Returns the variables some iterations later."""

        def body(nodes: list[Node]) -> list[Node]:
            return [*self.run_body(nodes[:-1]), ir.apply(op.sub, nodes[-1], number(1))]

        left = lambda nodes: ir.apply(op.ne, nodes[-1], number(0))  # noqa: E731
        return record.loop([*begin, count], left, body, self.what)[:-1]

    def unrolled(self, enclosing: Recomputation | None) -> list[Value]:
        """Returns the final contents of the variables, computed iteration by iteration with
        differentiable operations. `enclosing` is the body that contains the loop, if that is
        recomputed as well.

        Raises:
            RuntimeError: the loop is part of an open recording, so the number of iterations is
                unknown, or vectors are among its variables.
        """
        if record.recording() or any(t.is_vector for t in self.kinds().values()):
            raise RuntimeError(
                f"{self.what}: ADFlag.KeepGraph needs derivatives of derivatives, for which "
                "symbolic loops are carried out step by step. That is not possible while another "
                "loop, branch or call around them is recorded, nor with cooperative vectors as "
                "variables. Use mode='evaluated' for what is around."
            )
        body, contents, active_mask = self.recorded, self.before, self._mask or ACTIVE
        if enclosing is not None:
            contents = enclosing.values(contents)
            (active_mask,) = enclosing.copies([active_mask])
        contents = [*contents]
        while True:
            nodes = [contents[k].node for k in self.places]
            copied = body.substitution(nodes, active_mask, enclosing=enclosing and enclosing.copies)
            active_mask = ir.apply(op.and_, active_mask, copied([self.condition])[0])
            schedule.evaluate(nodes)
            # A mask that stands for all lanes of a kernel cannot be evaluated.
            if active_mask is not ACTIVE and not leaf.any_set(active_mask):
                return contents
            again = body.recomputed(contents, self.places, active_mask, enclosing)
            mask = Value(ir.literal(dt.mask, True) if active_mask is ACTIVE else active_mask)
            results = again.values(body.results)
            for k in self.changing:
                contents[k] = RECORDED.select(mask, results[k], contents[k])


def loop_of(results: list[Node]) -> weakref.ref[Node] | None:
    """Returns the loop that computed some results."""
    found = [n.deps[0] for n in results if n.op is op.result and n.deps[0].op is op.loop]
    return weakref.ref(found[0]) if found else None


def number(value: int) -> Node:
    """Returns the value of a counter."""
    return ir.literal(dt.u32, value)


def zero(dtype: DType) -> Node:
    """Returns the initial value of a sum."""
    return ir.literal(dtype, 0)
