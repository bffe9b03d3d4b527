"""Derivatives of symbolic calls: the functions are traced again, each on differentiable copies of
the arguments, and its gradients are propagated within the block that it becomes.
"""

from collections.abc import Callable
from typing import Any

from ..ad import capture, graph
from ..ad.graph import Scope, Value, Var, visible
from ..array import leaf, table
from ..function.custom import CustomOp, custom
from ..jit import access, node, op, record
from ..jit.dtype import DType
from ..jit.node import LITERAL, Node
from .result import map_arrays, traced


class Recorded:
    """A call as its derivatives need it: the functions and the masks of their lanes, and the
    arguments.

    `passed` are nodes of arguments that the functions see as symbolic ones; constants stay what
    they are, so that functions are simplified for them. `outputs` numbers the differentiable
    results, `around` are variables that are no arguments but on which results depend.
    """

    def __init__(self, what: str, arguments: Any, masks: list[Node]) -> None:
        self.what, self.masks = what, masks
        self.scope = graph.scope() or Scope()
        arrays = traced(arguments)
        self.variables = [visible(a._a) for a in arrays]
        # Arrays of its own: those of the program may change.
        self.arguments = map_arrays(lambda a, cls: leaf.wrap(cls, a._n), arguments)
        self.passed = [a._n for a in arrays if a._n.op is not LITERAL]
        self.bodies: list[Callable[..., Any]] = []
        self.outputs: set[int] = set()
        self.around: list[Var] = []
        self.captured: list[list[Var]] = []  # the same for each function
        self.classes: list[Any] = []

    def inputs(self, names: list[Node]) -> tuple[Any, list[Var | None]]:
        """The arguments on other nodes, and their variables: new ones where the arguments of the
        call have one."""
        nodes, variables = iter(names), iter(self.variables)
        fresh: list[Var | None] = []

        def convert(a: Any, cls: Any) -> Any:
            n = a._n if a._n.op is LITERAL else next(nodes)
            v = None if next(variables) is None else graph.new_input(n)
            fresh.append(v)
            return leaf.from_value(cls, Value(n, v))

        return map_arrays(convert, self.arguments), fresh

    def note(self, results: list[Any], inner: Scope) -> None:
        """Notes on what the results of a function depend, while its scope is open."""
        variables = [visible(a._a) for a in results]
        self.outputs |= {k for k, v in enumerate(variables) if v is not None}
        found = capture.captured([v for v in variables if v is not None], inner.isolate_from)
        self.captured.append(found)
        self.around = list(dict.fromkeys([*self.around, *found]))

    def attached(self, results: Any) -> Any:
        """The results, made to depend on what they were computed from."""
        if not self.outputs:
            return results
        arrays = traced(results)
        outputs = [arrays[k] for k in sorted(self.outputs)]
        self.classes = [type(a) for a in outputs]
        inputs = [self._array(v, node.literal(v.dtype, 0, v.size), v) for v in self._wanted()]
        attached = custom(_Call, self, outputs, inputs)
        for a, b in zip(outputs, attached, strict=True):
            a._a = b._a
        return results

    def _wanted(self) -> list[Var]:
        """The variables on which results depend: of arguments, and captured ones."""
        return [v for v in (*self.variables, *self.around) if v is not None]

    def _array(self, v: Var, n: Node, own: Var | None = None) -> Any:
        """An array of the type of a variable."""
        cls = table.find(self.classes[0]._namespace, "leaf", v.dtype)
        return leaf.from_value(cls, Value(n, own))

    def backward(self, gradients: list[Any]) -> list[Any]:
        """The gradients of arguments and captured variables from those of the results."""
        given = [g._n for g in gradients]
        slots = capture.Slots()
        wanted = self._wanted()
        touched: set[int] = set()  # those with a gradient that is not all 0

        def propagate(results: list[Any], fresh: list[Var | None], seeds: list[Node]) -> list[Node]:
            pairs = [
                (v, g)
                for a, g in zip(results, seeds, strict=True)
                if (v := visible(a._a)) is not None
            ]
            inputs = [v for v in fresh if v is not None]
            found = capture.pull(pairs, inputs, self.around)
            touched.update([k for k, g in enumerate(found) if not _is_zero(g)])
            return [_or_zero(g, v.dtype) for g, v in zip(found, wanted, strict=True)]

        found = self._replay(given, slots, propagate)
        for k, v in enumerate(wanted):
            n, added = found[k], slots.pop(v)
            if k not in touched:
                n = node.literal(v.dtype, 0)
            elif v.size == 1 and not record.recording():
                n = access.reduce_all("add", n)
            found[k] = n if added is None else node.apply(op.add, added, n)
        return [self._array(v, n) for v, n in zip(wanted, found, strict=True)]

    def forward(self, gradients: list[Any]) -> list[Any]:
        """The gradients of results from those of the arguments; captured variables have theirs."""
        count = len([v for v in self.variables if v is not None])
        given = [g._n for g in gradients[:count]]

        def propagate(results: list[Any], fresh: list[Var | None], seeds: list[Node]) -> list[Node]:
            inputs = [v for v in fresh if v is not None]
            variables = [visible(a._a) for a in results]
            found = capture.push(zip(inputs, seeds, strict=True), self.around, variables)
            return [_or_zero(g, a._n.dtype) for a, g in zip(results, found, strict=True)]

        found = self._replay(given, capture.Slots(), propagate)
        return [leaf.wrap(cls, n) for cls, n in zip(self.classes, found, strict=True)]

    def _replay(self, given: list[Node], slots: Any, propagate: Any) -> list[Node]:
        """Records, for every function, its trace and what `propagate` computes from its
        differentiable results, the variables of its arguments, and `given` values."""
        passed = [n for n in given if n.op is not LITERAL]

        def body(number: int, function: Callable[..., Any]) -> Callable[[list[Node]], list[Node]]:
            def trace(names: list[Node]) -> list[Node]:
                rest = iter(names[len(self.passed) :])
                seeds = [n if n.op is LITERAL else next(rest) for n in given]
                with capture.body(slots) as inner:
                    (args, kwargs), fresh = self.inputs(names)
                    arrays = traced(function(*args, **kwargs))
                    record.drop_effects()  # which the call itself has had
                    self._check_captured(number, arrays, inner)
                    results = [arrays[k] for k in sorted(self.outputs)]
                    return propagate(results, fresh, seeds)

            return trace

        bodies = [body(k, f) for k, f in enumerate(self.bodies)]
        now, then = graph.scope(), self.scope
        graph.push(Scope(then.all, then.variables, then.start, slots=now.slots if now else None))
        try:
            return record.branches(self.masks, bodies, self.passed + passed, self.what)
        finally:
            graph.pop()

    def _check_captured(self, number: int, results: list[Any], inner: Scope) -> None:
        """Raises if a function depends on other arrays than when it was called."""
        variables = [visible(a._a) for a in results]
        found = capture.captured([v for v in variables if v is not None], inner.isolate_from)
        if found != self.captured[number]:
            raise RuntimeError(
                f"{self.what}: an array that function {number} uses from outside has changed since "
                "the call. Differentiate before such arrays change, or pass them as arguments."
            )


def _is_zero(n: Node | None) -> bool:
    return n is None or (n.op is LITERAL and n.data == 0)


def _or_zero(n: Node | None, dtype: DType) -> Node:
    return node.literal(dtype, 0) if n is None else n


class _Call(CustomOp):
    """A symbolic call in the graph of derivatives."""

    def eval(self, recorded: Recorded, outputs: list[Any], inputs: list[Any]) -> list[Any]:
        self.recorded = recorded
        return outputs

    def forward(self) -> None:
        self.set_grad_out(self.recorded.forward(self.grad_in("inputs")))

    def backward(self) -> None:
        self.set_grad_in("inputs", self.recorded.backward(self.grad_out()))

    def name(self) -> str:
        return self.recorded.what
