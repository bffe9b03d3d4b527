"""Derivatives of symbolic calls and branches: the functions are traced again, each on
differentiable copies of the arguments, and its gradients are propagated within the block that it
becomes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ..ad import capture, graph, vector
from ..ad.algebra import RECORDED
from ..ad.graph import Scope, Value, Var, visible
from ..array import leaf, pytree
from ..function.custom import CustomOp, custom
from ..jit import access, node, op, record
from ..jit.dtype import DType
from ..jit.node import LITERAL, Node
from ..jit.scope import active, innermost
from .loop_trace import Term, adds_to, below
from .masked import rehearsed
from .state import Content
from .targets import Targets, is_zero
from .vectors import features, packed


class Recorded:
    """A call or branch as its derivatives need it: the masks of the lanes of the functions, and
    what the arguments hold.

    `passed` numbers the arguments that the functions see as symbolic ones, `outside` those that
    they see as they are, like captured arrays. `outputs` numbers the differentiable results,
    `around` are variables that are no arguments but on which results depend, `targets` what the
    functions write to. `trace(k, contents)` calls function `k` again and gives its results.
    """

    def __init__(
        self,
        what: str,
        arguments: Sequence[Content],
        passed: Sequence[int],
        masks: list[Node],
        outside: set[int] | frozenset[int] = frozenset(),
    ) -> None:
        self.what, self.masks, self.namespace = what, masks, ""
        if innermost() is not None:
            self.masks = [node.apply(op.and_, m, active()) for m in masks]
        self.scope = graph.scope() or Scope()
        self.arguments = [Content(n, visible(v)) for n, v in arguments]
        self.inside = [k for k in range(len(arguments)) if k not in outside]
        self.variables = [self.arguments[k].var for k in self.inside]
        self.passed = passed
        self.trace: Callable[[int, list[Content]], list[Content]] = lambda k, contents: contents
        self.outputs: set[int] = set()
        self.around: list[Var] = []
        self.captured: list[list[Var]] = []  # the same for each function
        self.terms: dict[int, Term] = {}
        self.targets = Targets()

    @property
    def nodes(self) -> list[Node]:
        """What the functions see symbolic arguments for."""
        return [self.arguments[k].node for k in self.passed]

    def inputs(self, names: list[Node]) -> list[Content]:
        """The arguments on other nodes, with variables of their own where those of the call have
        one."""
        found = [*self.arguments]
        for k, n in zip(self.passed, names, strict=True):
            found[k] = Content(n, None)
        for k in self.inside:
            n, around = found[k].node, self.arguments[k].var
            if around is None:
                continue
            found[k] = Content(n, own := graph.new_input(n))
            if (slots := graph.slots()) is not None:
                slots.alias(own, around)
        return found

    def note(self, contents: list[Content], results: Sequence[Any], inner: Scope) -> None:
        """Notes on what the results of a function, arrays or None, depend, while its scope is open.
        `contents` is what it got."""
        variables = [None if a is None else visible(a._a) for a in results]
        self.outputs |= {k for k, v in enumerate(variables) if v is not None}
        if inner.slots.outer is not None:
            self._note_terms(contents, variables, inner.isolate_from)
        scatters = self.targets.note()
        self.captured.append(self._depends(variables, scatters, inner))
        arrays = [*[results[k] for k in self.outputs], *[t.array for t in self.targets.rows]]
        self.namespace = arrays[0].__meta__.namespace if arrays else self.namespace
        self.around = list(dict.fromkeys([*self.around, *self.captured[-1]]))

    def _note_terms(self, contents: list[Content], results: list[Var | None], first: int) -> None:
        """Notes which results are, in all functions, the same argument plus something: a loop
        around may sum up."""
        inputs = {
            own: outer
            for (_, own), (_, outer) in zip(contents, self.arguments, strict=True)
            if own is not None and outer is not None and own.serial >= first
        }
        for k, v in enumerate(results):
            before = self.terms.pop(k, None)
            if v is None or (self.captured and before is None):
                continue
            for own, outer in inputs.items():
                if (before is None or before.start is outer) and adds_to(v, own, first):
                    found = [inputs.get(d, d) for d in below(v, first) if d is not own]
                    others = {d for d in found if d.serial < first}
                    self.terms[k] = Term(outer, others | (before.others if before else set()))
                    break

    @property
    def differentiable(self) -> bool:
        """Whether a result or target depends on a differentiable variable."""
        return bool(self.outputs or self.targets.rows)

    @staticmethod
    def _depends(results: list[Var | None], scatters: list[Var], inner: Scope) -> list[Var]:
        found = [v for v in results if v is not None]
        return capture.captured(found + scatters, inner.isolate_from)

    def attached(self, results: Sequence[Node]) -> list[Content]:
        """The results, made to depend on what they were computed from; so is what the functions
        have written to."""
        found = [Content(n, None) for n in results]
        numbers, targets = sorted(self.outputs), self.targets
        if not self.differentiable:
            return found
        values = [features(self.namespace, Value(results[k])) for k in numbers]
        wanted = [*self._wanted(), *targets.inputs()]
        inputs = [
            features(self.namespace, Value(node.literal(v.dtype, 0, v.size), v)) for v in wanted
        ]
        attached = custom(_Call, self, [*values, *targets.outputs()], inputs)
        for k, a in zip(numbers, attached, strict=False):
            found[k] = Content(results[k], packed(a).var)
        targets.attach(attached[len(numbers) :])
        return found

    def _wanted(self) -> list[Var]:
        """The variables on which results depend: of arguments, and captured ones."""
        return [v for v in (*self.variables, *self.around) if v is not None]

    def backward(self, gradients: list[Node]) -> list[Node]:
        """The gradients of arguments, captured variables and targets before from those of the
        results and targets."""
        given, written = gradients[: len(self.outputs)], gradients[len(self.outputs) :]
        slots = capture.Slots()
        wanted = self._wanted()
        held = self.targets.gradients(written)
        touched: set[int] = set()  # those with a gradient that is not all 0

        def propagate(
            number: int, contents: list[Content], results: list[Content], seeds: list[Node]
        ) -> list[Node]:
            pairs = [
                (v, g) for (_, own), g in zip(results, seeds, strict=True)
                if (v := visible(own)) is not None
            ]  # fmt: skip
            inputs = [v for k in self.inside if (v := contents[k].var) is not None]
            written = self.targets.bind(number, held)
            found = capture.pull(pairs, inputs, self.around, written)
            touched.update([k for k, g in enumerate(found) if not is_zero(g)])
            return [_or_zero(g, v.dtype) for g, v in zip(found, wanted, strict=True)]

        found = self._replay(given, slots, propagate)
        for k, v in enumerate(wanted):
            n, added = found[k], slots.pop(v)
            if k not in touched:
                n = node.literal(v.dtype, 0)
            elif v.size == 1 and not record.recording():
                is_vector = n.dtype.is_vector
                n = vector.sum_lanes(Value(n)).node if is_vector else access.reduce_all("add", n)
            found[k] = n if added is None else node.apply(op.add, added, n)
        return found + self.targets.before(held)

    def forward(self, gradients: list[Node]) -> list[Node]:
        """The gradients of results and targets from those of the arguments and of targets before;
        captured variables have theirs."""
        count = len([v for v in self.variables if v is not None])
        given, before = gradients[:count], gradients[count + len(self.around) :]
        held = self.targets.tangents(before)

        def propagate(
            number: int, contents: list[Content], results: list[Content], seeds: list[Node]
        ) -> list[Node]:
            inputs = [v for k in self.inside if (v := contents[k].var) is not None]
            variables = [visible(v.var) for v in results]
            written = self.targets.bind(number, held)
            pairs = zip(inputs, seeds, strict=True)
            found = capture.push(pairs, self.around, variables, written)
            return [_or_zero(g, v.node.dtype) for v, g in zip(results, found, strict=True)]

        found = self._replay(given, capture.Slots(), propagate)
        return found + self.targets.after(held)

    def _replay(self, given: list[Node], slots: Any, propagate: Any) -> list[Node]:
        """Records, for every function, its trace and what `propagate` computes from its number,
        arguments and differentiable results, and from `given` values."""
        passed = [n for n in given if n.op is not LITERAL]

        def body(number: int) -> Callable[[list[Node]], list[Node]]:
            def trace(names: list[Node]) -> list[Node]:
                rest = iter(names[len(self.passed) :])
                seeds = [n if n.op is LITERAL else next(rest) for n in given]
                with capture.body(slots) as inner:
                    contents = self.inputs(names[: len(self.passed)])
                    found = self.trace(number, contents)
                    record.drop_effects()  # which the call itself has had
                    self._check_captured(number, found, inner)
                    results = [found[k] for k in sorted(self.outputs)]
                    return propagate(number, contents, results, seeds)

            return trace

        bodies = [body(k) for k in range(len(self.masks))]
        now, then = graph.scope(), self.scope
        graph.push(Scope(then.all, then.variables, slots=now.slots if now else None))
        try:
            return record.branches(self.masks, bodies, self.nodes + passed, self.what)
        finally:
            graph.pop()

    def recomputed(self) -> list[Value]:
        """The differentiable results once more, by operations that can be differentiated: every
        function runs for all lanes.

        Raises:
            RuntimeError: functions scatter differentiable values.
        """
        self.targets.check_first_order(self.what)
        then, found = self.scope, list[Value]()
        graph.push(Scope(then.all, then.variables, graph.next_serial()))
        try:
            for number, mask in enumerate(self.masks):
                with rehearsed(mask, self.what):
                    results = self.trace(number, self.arguments)
                rows = [Value(*results[k]) for k in sorted(self.outputs)]
                found = found or [Value(node.literal(r.node.dtype, 0)) for r in rows]
                pairs = zip(rows, found, strict=True)
                found = [RECORDED.select(Value(mask), new, old) for new, old in pairs]
        finally:
            graph.pop()
        return found

    def _check_captured(self, number: int, results: list[Content], inner: Scope) -> None:
        """Raises if a function depends on other arrays than when it was called."""
        variables = [visible(v.var) for v in results]
        scatters = [v for w in graph.slots().written.values() for v in w.scatters]
        if self._depends(variables, scatters, inner) != self.captured[number]:
            raise RuntimeError(
                f"{self.what}: an array that function {number} uses from outside has changed since "
                "the call. Differentiate before such arrays change, or pass them as arguments."
            )


def _or_zero(n: Node | None, dtype: DType) -> Node:
    return node.literal(dtype, 0) if n is None else n


class _Call(CustomOp):
    """A symbolic call or branch in the graph of derivatives. `terms` are those of its results that
    are an argument plus something; see `loop_trace.adds_to`."""

    def eval(self, recorded: Recorded, outputs: list[Any], inputs: list[Any]) -> list[Any]:
        self.recorded = recorded
        pairs = zip(sorted(recorded.outputs), outputs, strict=False)
        numbers = [k for k, a in pairs for _ in pytree.leaf_arrays(a)]
        terms = enumerate([recorded.terms.get(k) for k in numbers])
        self.terms = {k: term for k, term in terms if term is not None}
        return outputs

    def forward(self) -> None:
        given = [packed(g).node for g in self.grad_in("inputs")]
        found = self.recorded.forward(given)
        self.set_grad_out([features(self.recorded.namespace, Value(n)) for n in found])

    def backward(self) -> None:
        given = [packed(g).node for g in self.grad_out()]
        found = self.recorded.backward(given)
        self.set_grad_in("inputs", [features(self.recorded.namespace, Value(n)) for n in found])

    def recomputed(self) -> list[Value]:
        found = self.recorded.recomputed()
        arrays = [features(self.recorded.namespace, v) for v in found]
        return [leaf.value(a) for a in pytree.leaf_arrays(arrays)]

    def name(self) -> str:
        return self.recorded.what
