"""Data that an object computes once, from arrays that it is given, and uses any number of times:
the levels of a texture, the entries of packed matrices. Users do not know the operations in
between, so that nothing they do frees these: to them, uses of the object depend on the given arrays
directly.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from ..jit.ir.scope import recording
from .algebra import keep_graph
from .graph import ADMode, GradScope, Value, Var, as_value, gradients_kept, new_input, seen, within
from .memory_rules import LaneRule
from .traverse import visit


class Computation:
    """The graph of a linear function of some arrays, apart from that of the program: it begins at
    variables of its own, in place of those of the arrays."""

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
        traversal around it keeps other threads out; a finalizer may be in here a second time."""
        with gradients_kept(self.order):
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
    """The variable of a result; its data are the computation and its own variable there. Its edges
    last, what it has passed on does not, and scopes suspend it with what it depends on."""

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
    """Returns the results of a linear function of values, with derivatives that pass any number of
    times. Within a body that is being recorded, what it computes is part of that."""
    values = seen(values)
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
