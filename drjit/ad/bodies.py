"""Derivatives within the body of a branch, call or loop that is being recorded.

The body is traced on inputs of its own, and traversals stay within it. Where it gathers from outer
variables, or propagates gradients to them itself, their gradients are accumulated with atomic
additions.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..jit.ir import dtype as dt
from ..jit.ir import node, op
from ..jit.ir.node import BUFFER, Node, next_serial
from ..jit.ir.scope import active, recording, region
from ..jit.run import schedule
from ..jit.trace.access import Access
from . import graph, sink, traverse
from .graph import ADMode, GradScope, Value, Var
from .scatter_target import ScatterTarget


class OuterGradients:
    """Gradients of variables from outside the bodies being recorded. Each is a variable whose
    gradient has memory of its own, to which the bodies add atomically. This covers the arrays that
    they gather from and, if `atomic`, everything reached by traversals within them.

    Variables from serial number `first` on belong to the body. `copies` has the primal values if
    its derivatives use copies of these (see `flow.region.recording`). `written` has the arrays that
    the body scatters differentiable values to. `aliases` maps the inputs of the body to the outer
    variables that they stand for.
    """

    def __init__(self, atomic: bool = False) -> None:
        self.outer: OuterGradients | None = graph.outer_gradients() if graph.scopes else None
        self.atomic = atomic
        self.first = 0
        self.copies: Any = None
        self.written: dict[int, ScatterTarget] = {}
        self.aliases: dict[Var, Var] = {}
        self.reached: set[Var] = set()  # inputs reached by traversals
        self.seeds: dict[Var, Any] = {}  # outer variables at which traversals in the body begin
        self._shared: dict[Var, Node | None] = {}  # the part of an input's gradient that is shared
        self._region, self._lanes = region(), active().size
        self._slots: dict[Var, Var] = {}
        self._resumed: dict[Var, Node | None] = {}  # None once bodies add to it

    def alias(self, pairs: dict[Var, Var]) -> None:
        """Makes inputs of the body stand for outer variables, whose gradients they share;
        traversals within the body add to these."""
        if self.atomic:
            self.aliases.update(pairs)
            for own, around in pairs.items():
                self._shared[own] = own.grad = around.grad

    def share(self, v: Var) -> None:
        """Adds to the shared gradient of an input what the body has assigned to its own."""
        g, known = v.grad, self._shared[v]
        if g is not None and g is not known:
            self.add(v, g if known is None else node.apply(op.sub, g, known))
            self._shared[v] = v.grad = g

    def __getitem__(self, v: Var) -> Var:
        """Returns the variable to whose gradient bodies add for an outer variable."""
        v = self.aliases.get(v, v)
        if v.serial >= self.first:
            raise RuntimeError(
                "the gradient of dr.gather() in a symbolic loop, branch or call: the array was "
                "computed from differentiable values within it. Compute it before, or use "
                "mode='evaluated'."
            )
        if self.outer is not None:
            if v.serial < self.outer.first or v in self.outer.aliases:
                return self.outer[v]
            raise RuntimeError(
                "the gradient of a value that the body of a symbolic loop, branch or call computes "
                "was to be propagated from within another one inside of it. Propagate it in the "
                "body that computes the value, or use mode='evaluated'."
            )
        slot = self._slots.get(v)
        if slot is None:
            slot = self._slots[v] = graph.new_slot(v)
            if v.size == 1 and self._region is not None and v.serial >= self._region.outermost:
                slot.size = self._lanes  # of which each has a gradient
            slot.grad = self._resumed.get(v)
            if slot.grad is None:
                slot.grad = schedule.materialize(node.literal(v.dtype, 0, slot.size))
            else:
                self._resumed[v] = None  # nothing else may hold what is written to
        return slot

    def resume(self, variables: Iterable[Var]) -> None:
        """Detaches gradients that are in memory from some variables, for the bodies to add to them;
        `pop` returns them."""
        if self.outer is not None or recording():
            return
        for v in variables:
            in_memory = v.grad is not None and v.grad.op is BUFFER and v.grad.size == v.size > 1
            if in_memory and v.grad_var is None and graph.visible(v):
                self._resumed[v], v.grad = v.grad, None

    def abandon(self) -> None:
        """Puts back what `resume` has detached, once side effects have been undone."""
        for v in list(self._resumed):
            v.grad = self.pop(v)

    def takes(self, v: Var) -> bool:
        """Returns whether contributions to the gradient of a variable are collected here."""
        return self.atomic and (v.serial < self.first or v in self.aliases)

    def add(self, v: Var, g: Node) -> None:
        """Adds the gradient of each lane to that lane's entry, or to the only entry."""
        slot = self[v]
        if v in self.aliases:
            self.reached.add(v)
            v, own = self.aliases[v], v
            own.grad = g if own.grad is None else node.apply(op.add, own.grad, g)
            self._shared[own] = own.grad
        index = node.lane(slot.size) if slot.size > 1 else node.literal(dt.u32, 0)
        graph.scatter_gradient(slot, [g], Access(index, what="gradient", reduce="add"))

    def pop(self, v: Var) -> Node | None:
        """Returns the accumulated gradient of a variable, once the bodies have been recorded."""
        slot, before = self._slots.pop(v, None), self._resumed.pop(v, None)
        return before if slot is None else slot.grad

    def finish(self) -> None:
        """Continues the traversals of recorded bodies outside them."""
        waiting = [v for v in self.seeds if v not in self._slots]
        for v in list(self._slots):
            g = self.pop(v)
            if g is not None:
                if v.size == 1 != g.size:
                    g = sink.summed_contribution(v, Value(g)).node
                v.grad = g if v.grad is None else node.apply(op.add, v.grad, g)
                waiting.append(v)
        inner = graph.scope() or GradScope()
        inner.postponed.update(dict.fromkeys([v for v in waiting if v.serial < inner.isolate_from]))
        waiting = [v for v in waiting if v.serial >= inner.isolate_from and v.rule is not None]
        if waiting:
            traverse.propagate(ADMode.Backward, waiting)


@contextmanager
def body_scope(
    outer_gradients: OuterGradients, first: int | None = None, copies: Any = None
) -> Iterator[GradScope]:
    """Opens a scope for tracing a body, or one body after the other. Traversals do not leave it:
    they store the gradients of outer variables in `outer_gradients`.

    To visit the variables of a body that has been recorded, pass the serial number `first` at which
    it begins; `copies` has primal values (see `OuterGradients`)."""
    outer_gradients.first = next_serial() if first is None else first
    outer_gradients.copies = copies
    around = graph.scope() or graph.OUTSIDE
    inner = GradScope(around.all, around.variables, outer_gradients.first, None, outer_gradients)
    inner.tape = tape = []
    graph.enter_scope(inner)
    try:
        yield inner
    finally:
        left = graph.leave_scope()
        if first is None:
            outer_gradients.seeds.update(left.postponed)
        tape.clear()  # there may be references to the scope
        outer_gradients.copies = None
