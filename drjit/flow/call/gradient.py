"""Derivatives of symbolic calls and branches: gradients propagate through the recording of each
function, and this computation becomes a block of its own.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from functools import cached_property, partial
from itertools import repeat
from typing import Any

from ...ad import graph, sink
from ...ad.algebra import RECORDED
from ...ad.bodies import OuterGradients, body_scope
from ...ad.graph import GradScope, Value, Var, as_value, variable_of
from ...jit.ir import node, op
from ...jit.ir.node import LITERAL, Node
from ...jit.ir.scope import active, stack
from ...jit.trace import record
from ...jit.trace.substitute import Substitution
from ..region import recording
from ..region.recording import Recomputation, RecordedOp, RecordedRegion, Targets, is_zero


def unrecorded(nodes: Iterable[Node]) -> list[Value]:
    """Returns values without variables."""
    return [*map(as_value, zip(nodes, repeat(None)))]


class RecordedCall(RecordedOp):
    """A call or branch as its derivatives need it: the masks of the lanes of the functions, and
    what the arguments hold.

    `passed` lists the positions of arguments that the functions see as symbolic values, `captured`
    those that they see unchanged. `bodies` are the functions. `outputs` lists the positions of
    differentiable results, `free_variables` those, other than arguments, on which results depend,
    and `targets` is what the functions write to.
    """

    def __init__(
        self,
        what: str,
        arguments: list[Value],
        passed: Sequence[int],
        masks: list[Node],
        captured: Set[int] = frozenset(),
    ) -> None:
        self.what, self.masks, self.passed = what, masks, passed
        if opened := stack():
            self.masks = [node.combine(op.and_, (m, opened[-1].mask)) for m in masks]
        self.scope = graph.scope()
        self.argument_values = graph.without_suspended(arguments)
        self.tracked: list[int] = []
        self.variables: list[Var] = []
        for k, v in enumerate(map(variable_of, self.argument_values)):
            if v is not None and k not in captured:
                self.tracked.append(k)
                self.variables.append(v)
        self.outputs: set[int] = set()
        self.bodies: list[RecordedRegion] = []
        self.targets = Targets()

    free_variables: Sequence[Var] = ()

    def uses_copies(self) -> bool:
        return all(body.uses_copies for body in self.bodies)

    def term(self, number: int) -> recording.Term | None:
        """What one of the results is if it is an argument plus something; see
        `recording.accumulated_inputs`."""
        return self._terms.get(sorted(self.outputs)[number])

    @property
    def nodes(self) -> list[Node]:
        """The nodes of the arguments that are symbolic in the functions."""
        return [self.argument_values[k].node for k in self.passed]

    def begin(self, names: list[Node], inner: GradScope) -> list[Value]:
        """Returns the arguments of a function that is about to be traced on other nodes, with
        variables of their own where those of the call have one."""
        found = unrecorded(names)
        if len(found) < len(self.argument_values):
            own, found = found, [*self.argument_values]
            for k, v in zip(self.passed, own, strict=True):
                found[k] = v
        if self.tracked:
            nodes = [found[k].node for k in self.tracked]
            inputs = [*map(graph.new_input, nodes)]
            for k, pair in zip(self.tracked, zip(nodes, inputs, strict=True), strict=True):
                found[k] = as_value(pair)
            inner.outer_gradients.alias(dict(zip(inputs, self.variables, strict=True)))
        return found

    def note(
        self,
        names: list[Node],
        arguments: list[Value],
        results: Sequence[Value | None],
        inner: GradScope,
    ) -> None:
        """Records the dependences of a function's results while its scope `inner` is open.
        `arguments` are what `begin` has returned. None stands for arrays that it has written to."""
        found = [v or recording.NOTHING for v in results] if None in results else [*results]
        inputs = [*map(variable_of, arguments)]
        body = RecordedRegion(names, inputs, found, self.targets, inner)  # type: ignore[arg-type]
        self.bodies.append(body)
        if not body.variables and not body.free_variables:
            return
        for k, (_, v) in enumerate(body.results):
            if v is not None:
                self.outputs.add(k)
        if body.free_variables:
            self.free_variables = list(dict.fromkeys([*self.free_variables, *body.free_variables]))

    @cached_property
    def _terms(self) -> dict[int, recording.Term]:
        """The results that are, in all functions, the same argument plus something: an enclosing
        loop may be a sum, in which case it calls this."""
        terms: dict[int, recording.Term] = {}
        for k in self.outputs:
            first, *rest = [self._accumulated_arguments(body, k) for body in self.bodies]
            for start, others in first.items():
                if all(start in found for found in rest):
                    terms[k] = recording.Term(
                        start, others.union(*[found[start] for found in rest])
                    )
                    break
        return terms

    def _accumulated_arguments(self, body: RecordedRegion, k: int) -> dict[Var, set[Var]]:
        """Returns the arguments that a function adds something to for a result, each with the other
        variables on which that depends."""
        inputs = {
            own: outer
            for own, (_, outer) in zip(body.inputs, self.argument_values, strict=True)
            if own is not None and outer is not None and own.serial >= body.begin
        }
        v, found = body.results[k].var, {}
        for own in body.sources_in(recording.accumulated_inputs(v, body.reach(inputs), body)):
            others = {inputs.get(d, d) for d in body.sources([v]) if d is not own}
            found[inputs[own]] = {d for d in others if d.serial < body.begin}
        return found

    @property
    def differentiable(self) -> bool:
        """Whether a result or target depends on a differentiable variable."""
        return bool(self.outputs or self.targets.rows)

    def attach(self, results: Sequence[Node]) -> list[Value]:
        """Returns the results, connected to the values they were computed from, as are the targets
        of the functions."""
        found = unrecorded(results)
        if not self.outputs and not self.targets.rows:
            return found
        numbers = sorted(self.outputs)
        if len(self.bodies) == 1:  # only calls of a single function share its body
            self.bodies[0].share(results)
        variables = self._attach([results[k] for k in numbers], self.differentiable_inputs())
        for k, v in zip(numbers, variables, strict=True):
            found[k] = as_value((results[k], v))
        return found

    def differentiable_inputs(self) -> list[Var]:
        """Returns the variables on which results depend: of arguments, and captured ones."""
        return [*self.variables, *self.free_variables]

    def pull(self, gradients: list[Node]) -> list[Node]:
        """Returns gradients of the arguments, of captured variables, and of the targets' previous
        contents, given gradients of the results and targets."""
        given, written = gradients[: len(self.outputs)], gradients[len(self.outputs) :]
        outer_gradients = OuterGradients()
        wanted = self.differentiable_inputs()
        memories = self.targets.gradients(written)
        touched: set[int] = set()  # those whose gradient is not 0 everywhere

        def pulled(body: RecordedRegion, seeds: list[Node], copies: Any) -> list[Node]:
            """Propagates gradients of the results through a function."""
            pairs, results = zip(sorted(self.outputs), seeds, strict=True), body.results
            pairs = [(v, g) for k, g in pairs if (v := results[k].var) is not None]
            inputs = self._inputs(body)
            found = body.pull(pairs, inputs, memories, copies)
            if self.free_variables:
                count = len(inputs)
                at = dict(zip(body.free_variables, found[count:], strict=True))
                found[count:] = map(at.get, self.free_variables)
            touched.update([k for k, g in enumerate(found) if not is_zero(g)])
            pairs = zip(found, wanted, strict=True)
            return [node.literal(v.dtype, 0) if g is None else g for g, v in pairs]

        outer_gradients.resume(self.free_variables)
        try:
            found = self._derived(given, outer_gradients, pulled)
        except BaseException:
            outer_gradients.abandon()
            raise
        for k, v in enumerate(wanted):
            n, added = found[k], outer_gradients.pop(v)
            if k not in touched:
                n, added = added or node.literal(v.dtype, 0), None
            elif v.size == 1:
                n = sink.summed_contribution(v, as_value((n, None))).node
            found[k] = n if added is None else node.apply(op.add, added, n)
        return found + self.targets.before(memories)

    def push(self, gradients: list[Node]) -> list[Node]:
        """Returns tangents of results and targets, given tangents of the arguments and of the
        targets' previous contents; captured variables have theirs."""
        count = len(self.variables)
        given, before = gradients[:count], gradients[count + len(self.free_variables) :]
        memories, numbers = self.targets.tangents(before), sorted(self.outputs)
        kinds = [
            next(b.results[k].node.dtype for b in self.bodies if b.results[k].var is not None)
            for k in numbers
        ]

        def pushed(body: RecordedRegion, seeds: list[Node], copies: Any) -> list[Node]:
            """Propagates tangents of the arguments through a function."""
            pairs = zip(self._inputs(body), seeds, strict=True)
            found = body.push(pairs, [body.results[k].var for k in numbers], memories, copies)
            return [g or node.literal(t, 0) for t, g in zip(kinds, found, strict=True)]

        found = self._derived(given, OuterGradients(), pushed)
        return found + self.targets.after(memories)

    def _inputs(self, body: RecordedRegion) -> list[Var]:
        """Returns the variables that stand for arguments in a function."""
        return [body.inputs[k] for k in self.tracked]  # type: ignore[misc]

    def _derived(
        self,
        given: list[Node],
        outer_gradients: OuterGradients,
        propagate: Callable[[RecordedRegion, list[Node], Substitution | None], list[Node]],
    ) -> list[Node]:
        """Records, for every function, what `propagate` computes from it and from `given`
        values."""
        passed = [n for n in given if n.op is not LITERAL]
        masks, nodes = self.masks, self.nodes
        enclosing = outer_gradients.outer and outer_gradients.outer.copies
        if enclosing is not None:
            copied = enclosing([*masks, *nodes])
            masks, nodes = copied[: len(masks)], copied[len(masks) :]
        then, now = self.scope or GradScope(), graph.outer_gradients()
        with graph.within(GradScope(then.all, then.variables, outer_gradients=now)):
            rest = given, outer_gradients, enclosing, propagate
            bodies = [partial(self._derived_body, b, *rest) for b in self.bodies]
            return record.branches(masks, bodies, nodes + passed, self.what)

    def _derived_body(
        self, body: RecordedRegion, given: list[Node], outer_gradients: OuterGradients,
        enclosing: Substitution | None, propagate: Callable[..., list[Node]], names: list[Node],
    ) -> list[Node]:  # fmt: skip
        """Records what `propagate` computes for one function; see `_derived`."""
        count = len(self.passed)
        rest = iter(names[count:])
        seeds = [n if n.op is LITERAL else next(rest) for n in given]
        if not any(v.rule for v in body.variables):  # it returns its arguments
            return propagate(body, seeds, None)
        if not body.uses_copies:
            with body.derived(outer_gradients, active()) as derived:
                derived.close(propagate(body, seeds, None))
            return derived.again(names[:count])
        copies = body.substitution(names[:count], active(), enclosing=enclosing)
        with body_scope(outer_gradients, body.begin, copies):
            return propagate(body, seeds, copies)

    def recomputed(self, enclosing: Recomputation | None = None) -> list[Value]:
        """Recomputes the differentiable results with differentiable operations: every function is
        computed for all lanes. `enclosing` is the body that contains the call, if that is
        recomputed as well.

        Raises:
            RuntimeError: functions scatter differentiable values.
        """
        self.targets.check_first_order(self.what)
        found: list[Value] = []
        arguments, masks = self.argument_values, self.masks
        if enclosing is not None:
            arguments, masks = enclosing.values(arguments), enclosing.copies(masks)
        for body, mask in zip(self.bodies, masks, strict=True):
            lanes = node.apply(op.and_, mask, active())
            again = body.recomputed(arguments, self.passed, lanes, enclosing)
            rows = again.values([body.results[k] for k in sorted(self.outputs)])
            found = found or [Value(node.literal(r.node.dtype, 0)) for r in rows]
            pairs = zip(rows, found, strict=True)
            found = [RECORDED.select(Value(mask), new, old) for new, old in pairs]
        return found
