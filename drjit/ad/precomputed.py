"""Data that an object computes once from its arrays, and uses any number of times: the levels of a
texture, the entries of packed matrices. Users do not see the operations in between, and no
traversal frees these: to users, the results depend on the arrays directly.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from ..jit.ir.scope import recording
from .algebra import keep_graph
from .graph import (
    ADMode,
    GradScope,
    Value,
    Var,
    as_value,
    new_input,
    restored_gradients,
    within,
    without_suspended,
)
from .memory_rules import LaneRule
from .traverse import visit


class Computation:
    """The graph of a linear function of some arrays, separate from that of the program: it begins
    at variables of its own, in place of those of the arrays."""

    __slots__ = ("inputs", "order")

    def __init__(self, inputs: list[Var | None], outputs: Sequence[Var | None]) -> None:
        self.inputs = inputs
        found = {v for v in (*inputs, *outputs) if v is not None}
        todo = [*found]
        while todo:
            new = {d for d in todo.pop().deps if d is not None} - found
            found |= new
            todo += new
        self.order = sorted(found, key=attrgetter("serial"))

    def run(
        self, mode: ADMode, given: Sequence[tuple[Var | None, Value | None]], wanted: Sequence[Any]
    ) -> list[Value | None]:
        """Returns the gradients or tangents of the `wanted` variables for those `given`. The
        enclosing traversal keeps other threads out, but a finalizer may enter a second time."""
        with restored_gradients(self.order):
            for v in self.order:
                v.grad = v.grad_var = None
            for v, g in given:
                if v is not None and g is not None:
                    v.grad, v.grad_var = g
            visit(mode, self.order, keep_graph())
            return [
                None if v is None or v.grad is None else as_value((v.grad, v.grad_var))
                for v in wanted
            ]


class _Precomputed(LaneRule):
    """The rule of a result; its data are the computation, and the result's variable there. Its
    edges last, the gradients that it passes on do not, and scopes suspend it with its operands."""

    name = "precomputed data"
    keeps_inputs = masks = False
    lasts = True

    def forward(self, v: Var, tangents: list[Any]) -> Value | None:
        of, own = v.data
        return of.run(ADMode.Forward, list(zip(of.inputs, tangents, strict=True)), [own])[0]

    def backward(self, v: Var, g: Value, sink: Any) -> None:
        of, own = v.data
        v.grad = v.grad_var = None
        sink.kept.add(v)
        for k, found in enumerate(of.run(ADMode.Backward, [(own, g)], of.inputs)):
            if found is not None:
                sink.add(k, found)


PRECOMPUTED = _Precomputed()


def precompute(function: Callable[[list[Value]], list[Value]], values: list[Value]) -> list[Value]:
    """Returns the results of a linear function of values, through which derivatives can be
    propagated any number of times. Within a body that is being recorded, the operations become
    part of the body."""
    values = without_suspended(values)
    if recording() or not any(v.var for v in values):
        return function(values)
    with within(GradScope()):
        inputs = [None if v.var is None else new_input(v.node) for v in values]
        known = {i: v.var for v, i in zip(values, inputs, strict=True) if i is not None}
        found = function([as_value((v.node, i)) for v, i in zip(values, inputs, strict=True)])
        of = Computation(inputs, [v.var for v in found])
        deps = tuple([v.var for v in values])
        made = []
        for n, v in found:
            if v in known:  # one of the values
                v = known[v]
            elif v is not None:
                v = PRECOMPUTED.record(n, (), deps, (of, v))
            made.append(as_value((n, v)))
        return made
