"""Derivatives of symbolic calls and branches: gradients propagate through the recording of each
function, and this computation becomes a block of its own.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

from ...ad import capture, graph, vector
from ...ad.algebra import RECORDED
from ...ad.graph import GradScope, Value, Var, as_value, visible
from ...function.ad.custom import attached
from ...jit.ir import node, op
from ...jit.ir.dtype import DType
from ...jit.ir.node import LITERAL, Node
from ...jit.ir.scope import active, innermost
from ...jit.trace import access, record
from ...jit.trace.substitute import Substitution
from ..region.dependence import Term, is_sum, starts
from ..region.recorded import NOTHING, Recomputation, RecordedOp, RecordedRegion
from ..region.targets import Targets, is_zero


class RecordedCall(RecordedOp):
    """A call or branch as its derivatives need it: the masks of the lanes of the functions, and
    what the arguments hold.

    `passed` lists the positions of arguments that the functions see as symbolic values, `outside`
    those that they see unchanged, like captured arrays. `bodies` are the functions. `outputs` lists
    the positions of differentiable results, `around` the variables other than arguments on which
    results depend, and `targets` what the functions write to.
    """

    def __init__(
        self,
        what: str,
        arguments: Sequence[Value],
        passed: Sequence[int],
        masks: list[Node],
        outside: set[int] | frozenset[int] = frozenset(),
    ) -> None:
        self.what, self.masks = what, masks
        if innermost() is not None:
            self.masks = [node.apply(op.and_, m, active()) for m in masks]
        self.scope = graph.scope() or GradScope()
        self.given = [*arguments]
        if graph.hiding():
            self.given = [Value(n, visible(v)) for n, v in arguments]
        self.tracked = [
            k for k, v in enumerate(self.given) if v.var is not None and k not in outside
        ]
        self.variables = [self.given[k].var for k in self.tracked]
        self.passed = passed
        self.outputs: set[int] = set()
        self.around: list[Var] = []
        self.bodies: list[RecordedRegion] = []
        self.targets = Targets()

    def follows(self) -> bool:
        return all(body.follows for body in self.bodies)

    def term(self, number: int) -> Term | None:
        """What one of the results is if it is an argument plus something; see
        `dependence.starts`."""
        return self._terms.get(sorted(self.outputs)[number])

    @property
    def nodes(self) -> list[Node]:
        """The nodes of the arguments that are symbolic in the functions."""
        return [self.given[k].node for k in self.passed]

    def begin(self, names: list[Node], inner: GradScope) -> tuple[RecordedRegion, list[Value]]:
        """Starts the trace of a function, and returns its arguments on other nodes, with variables
        of their own where those of the call have one."""
        found = [*self.given]
        body = RecordedRegion(names, inner)
        for k, n in zip(self.passed, names, strict=True):
            found[k] = as_value((n, None))
        if self.tracked:
            nodes = [found[k].node for k in self.tracked]
            inputs, alias = graph.new_inputs(nodes), inner.outer_gradients.alias
            for k, n, own, around in zip(self.tracked, nodes, inputs, self.variables, strict=True):
                found[k] = as_value((n, own))
                alias(own, around)
        body.inputs = [v.var for v in found]
        return body, found

    def note(self, body: RecordedRegion, results: Sequence[Value | None]) -> None:
        """Records the dependences of a function's results while its scope is open. None stands for
        arrays that it has written to."""
        body.close([v or NOTHING for v in results], self.targets.note())
        self.bodies.append(body)
        self.outputs.update([k for k, v in enumerate(body.results) if v.var is not None])
        if body.around:
            self.around = list(dict.fromkeys([*self.around, *body.around]))

    @cached_property
    def _terms(self) -> dict[int, Term]:
        """Returns the results that are, in all functions, the same argument plus something: an
        enclosing loop may be a sum, in which case it calls this."""
        found: dict[int, Term] = {}
        for number, body in enumerate(self.bodies):
            found = self._terms_of(body, found if number else None)
        return found

    def _terms_of(self, body: RecordedRegion, known: dict[int, Term] | None) -> dict[int, Term]:
        """Does the same for one function, among those results that are `known` from others."""
        inputs = {
            own: outer
            for own, (_, outer) in zip(body.inputs, self.given, strict=True)
            if own is not None and outer is not None and own.serial >= body.begin
        }
        terms: dict[int, Term] = {}
        for k in range(len(body.results)) if known is None else known:
            v, before = body.results[k].var, None if known is None else known[k]
            if not is_sum(v):
                continue
            for own in body.of_bits(starts(v, body.reach(inputs), body)):
                outer = inputs[own]
                if before is None or before.start is outer:
                    found = [inputs.get(d, d) for d in body.sources([v]) if d is not own]
                    others = {d for d in found if d.serial < body.begin}
                    terms[k] = Term(outer, others | (before.others if before else set()))
                    break
        return terms

    @property
    def differentiable(self) -> bool:
        """Whether a result or target depends on a differentiable variable."""
        return bool(self.outputs or self.targets.rows)

    def attached(self, results: Sequence[Node]) -> list[Value]:
        """Returns the results, connected to the values they were computed from, as are the targets
        of the functions."""
        found = [as_value((n, None)) for n in results]
        numbers, targets = sorted(self.outputs), self.targets
        if not self.differentiable:
            return found
        for body in self.bodies:
            body.share(results)
        outputs = [*[results[k] for k in numbers], *targets.outputs()]
        variables = attached(self, outputs, [*self._wanted(), *targets.inputs()])
        for k, v in zip(numbers, variables, strict=False):
            found[k] = as_value((results[k], v))
        targets.attach(variables[len(numbers) :])
        return found

    def _wanted(self) -> list[Var]:
        """Returns the variables on which results depend: of arguments, and captured ones."""
        return [v for v in (*self.variables, *self.around) if v is not None]

    def pull(self, gradients: list[Node]) -> list[Node]:
        """Returns gradients of the arguments, of captured variables, and of the targets' previous
        contents, given gradients of the results and targets."""
        given, written = gradients[: len(self.outputs)], gradients[len(self.outputs) :]
        outer_gradients = capture.OuterGradients()
        wanted = self._wanted()
        held = self.targets.gradients(written)
        touched: set[int] = set()  # those whose gradient is not 0 everywhere

        def propagate(
            body: RecordedRegion, seeds: list[Node], copies: Substitution | None
        ) -> list[Node]:
            pairs = [
                (v, g)
                for k, g in zip(sorted(self.outputs), seeds, strict=True)
                if (v := body.results[k].var) is not None
            ]
            inputs = self._inputs(body)
            pulled = body.pull(pairs, inputs, held, copies)
            at = dict(zip(body.around, pulled[len(inputs) :], strict=True))
            found = [*pulled[: len(inputs)], *[at.get(v) for v in self.around]]
            touched.update([k for k, g in enumerate(found) if not is_zero(g)])
            return [_or_zero(g, v.dtype) for g, v in zip(found, wanted, strict=True)]

        found = self._derived(given, outer_gradients, propagate)
        for k, v in enumerate(wanted):
            n, added = found[k], outer_gradients.pop(v)
            if k not in touched:
                n = node.literal(v.dtype, 0)
            elif v.size == 1 and not record.recording():
                is_vector = n.dtype.is_vector
                n = vector.sum_lanes(Value(n)).node if is_vector else access.reduce_all("add", n)
            found[k] = n if added is None else node.apply(op.add, added, n)
        return found + self.targets.before(held)

    def push(self, gradients: list[Node]) -> list[Node]:
        """Returns tangents of results and targets, given tangents of the arguments and of the
        targets' previous contents; captured variables have theirs."""
        count = len(self.variables)
        given, before = gradients[:count], gradients[count + len(self.around) :]
        held = self.targets.tangents(before)

        def propagate(
            body: RecordedRegion, seeds: list[Node], copies: Substitution | None
        ) -> list[Node]:
            results = [body.results[k] for k in sorted(self.outputs)]
            pairs = zip(self._inputs(body), seeds, strict=True)
            found = body.push(pairs, [v.var for v in results], held, copies)
            return [
                _or_zero(g, self._type(k)) for k, g in zip(sorted(self.outputs), found, strict=True)
            ]

        found = self._derived(given, capture.OuterGradients(), propagate)
        return found + self.targets.after(held)

    def _type(self, k: int) -> DType:
        """Returns the type of a result."""
        kinds = [b.results[k] for b in self.bodies if b.results[k].var is not None]
        return kinds[0].node.dtype

    def _inputs(self, body: RecordedRegion) -> list[Var]:
        """Returns the variables that stand for arguments in a function."""
        return [body.inputs[k] for k in self.tracked]  # type: ignore[misc]

    def _derived(
        self,
        given: list[Node],
        outer_gradients: capture.OuterGradients,
        propagate: Callable[[RecordedRegion, list[Node], Substitution | None], list[Node]],
    ) -> list[Node]:
        """Records, for every function, what `propagate` computes from it and from `given`
        values."""
        passed = [n for n in given if n.op is not LITERAL]
        count = len(self.passed)
        masks, nodes = self.masks, self.nodes
        around = outer_gradients.outer and outer_gradients.outer.copies
        if around is not None:
            copied = around([*masks, *nodes])
            masks, nodes = copied[: len(masks)], copied[len(masks) :]

        def block(body: RecordedRegion) -> Callable[[list[Node]], list[Node]]:
            def trace(names: list[Node]) -> list[Node]:
                rest = iter(names[count:])
                seeds = [n if n.op is LITERAL else next(rest) for n in given]
                if not body.variables:  # it returns its arguments
                    return propagate(body, seeds, None)
                if not body.follows:
                    with body.derived(outer_gradients, active()) as derived:
                        derived.close(propagate(body, seeds, None))
                    return derived.again(names[:count])
                copies = body.substitution(names[:count], active(), around=around)
                with body.entered(outer_gradients, copies):
                    return propagate(body, seeds, copies)

            return trace

        then, now = self.scope, graph.outer_gradients()
        with graph.within(GradScope(then.all, then.variables, outer_gradients=now)):
            bodies = [block(b) for b in self.bodies]
            return record.branches(masks, bodies, nodes + passed, self.what)

    def recomputed(self, around: Recomputation | None = None) -> list[Value]:
        """Recomputes the differentiable results with differentiable operations: every function is
        computed for all lanes. `around` is the body that contains the call, if that is recomputed
        as well.

        Raises:
            RuntimeError: functions scatter differentiable values.
        """
        self.targets.check_first_order(self.what)
        arguments, masks, found = self.given, self.masks, list[Value]()
        if around is not None:
            arguments, masks = around.values(arguments), around.copies(masks)
        for body, mask in zip(self.bodies, masks, strict=True):
            lanes = node.apply(op.and_, mask, active())
            again = body.recomputed(arguments, self.passed, lanes, around)
            rows = again.values([body.results[k] for k in sorted(self.outputs)])
            found = found or [Value(node.literal(r.node.dtype, 0)) for r in rows]
            pairs = zip(rows, found, strict=True)
            found = [RECORDED.select(Value(mask), new, old) for new, old in pairs]
        return found


def _or_zero(n: Node | None, dtype: DType) -> Node:
    return node.literal(dtype, 0) if n is None else n
