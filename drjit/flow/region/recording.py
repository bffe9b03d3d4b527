"""The recorded body of a loop, branch or call, from which derivatives are computed.

Traversals visit the variables of its operations. The nodes that they compute are then copied,
together with the values of the body that these need, to where they are used, with replacements for
the nodes that stood for the state or the arguments. The body itself does not run again.

Arrays that a body writes differentiable values to are its targets. They belong to the enclosing
code, and their contents after the block are a further result, whose gradient propagates to the
values that were written and to the previous contents.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import attrgetter
from typing import Any

from ...ad import graph, memory_rules, traverse
from ...ad.bodies import OuterGradients, body_scope
from ...ad.graph import ADMode, GradScope, Value, Var, variable_of, visible
from ...ad.scatter_target import GradMemory, ScatterTarget, private_copy, take_targets, target_of
from ...function.ad.custom import HUB, ValueOp, attach
from ...jit.ir import dtype as dt
from ...jit.ir import op
from ...jit.ir.node import LITERAL, Node, apply, literal, make, next_serial, resize
from ...jit.ir.scope import innermost, stack
from ...jit.trace import record
from ...jit.trace.substitute import Span, Substitution
from ...jit.tuples import NamedTuple

NOTHING = Value(literal(dt.mask, False), None)
Memories = list[list[Node]]
"""The memory of the derivatives of targets: of each the node, or none."""


def is_zero(n: Node | None) -> bool:
    """Returns whether a gradient is known to be 0."""
    return n is None or (n.op is LITERAL and n.data == 0)


# ---- Targets


class Target:
    """A target: the `array`, until it has been attached, the reductions with which bodies write to
    it, and its variable `before`. Within another body, the latter stands for the target in that
    body, and `memory` is where that body stores the target's derivatives."""

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
        for w in take_targets():
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
                outer = target_of(t.array)
                t.before, t.memory = outer.var, outer.memory
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
                target_of(t.array).scatters.append(v)
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

    def gradients(self, given: list[Node]) -> Memories:
        """Returns memory for a reverse-mode traversal, given gradients of the targets.

        Raises:
            RuntimeError: scatters with and without a sum cannot be separated.
        """
        found = []
        for t, g in zip(self.rows, given, strict=True):
            if t.memory is not None:
                found.append(t.memory.nodes)
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
                found.append([resize(g, t.size) if t.kinds == {"add"} else private_copy(g, t.size)])
        return found

    def before(self, memories: Memories) -> list[Node]:
        """Returns the gradients of the targets' previous contents after the traversal: those of
        `inputs`."""
        return [self._result(t, n) for t, n in zip(self.rows, memories, strict=True) if t.before]

    def tangents(self, given: list[Node]) -> Memories:
        """Returns memory for a forward-mode traversal, given tangents of the targets' previous
        contents."""
        tangents = iter(given)
        found = []
        for t in self.rows:
            n = None if t.before is None else next(tangents)
            if t.memory is not None:
                found.append(t.memory.nodes)
            else:
                found.append([private_copy(literal(t.dtype, 0) if n is None else n, t.size)])
        return found

    def after(self, memories: Memories) -> list[Node]:
        """Returns the tangents of the targets after the traversal."""
        return [self._result(t, n) for t, n in zip(self.rows, memories, strict=True)]

    def _result(self, t: Target, memory: list[Node]) -> Node:
        # If the memory belongs to an enclosing body, that body propagates its contents.
        return memory[0] if memory and t.memory is None else literal(t.dtype, 0, t.size)


# ---- Bodies


class RecordedRegion:
    """The outcome of tracing a body once, made at its end, within its recording and the scope
    `inner`.

    `nodes` stood for the state or arguments, and `mask` for the active lanes. `inputs` are the
    variables that the body received, and `results` what it returned, or `NOTHING` for arrays that
    it has written to, which nothing else may hold. `written` are the targets of its scatters with
    their numbers in `Targets`. `variables` are those of its operations, in order, on which results
    depend, and `free_variables` the earlier ones on which these depend.
    """

    variables: Sequence[Var] = ()
    free_variables: Sequence[Var] = ()
    _shared: dict[Node, Node] | None = None
    _uses_copies: bool | None = None
    _bits: dict[Var, int] | None = None

    def __init__(
        self,
        nodes: Sequence[Node],
        inputs: Sequence[Var | None],
        results: list[Value],
        targets: Targets,
        inner: GradScope,
    ) -> None:
        recording = stack()[-1]
        self.nodes, self.inputs, self.begin = nodes, inputs, inner.isolate_from
        self.mask, self.depth = recording.mask, recording.depth
        self.lanes = nodes[0].size if nodes else self.mask.size
        self._first = nodes[0].serial if nodes else self.begin
        self._last = next_serial()
        # In this scope; derivatives are computed in others.
        self.results = results = graph.without_suspended(results)
        self.written = targets.note() if inner.outer_gradients.written else []
        found = {*map(variable_of, results)}
        if self.written:
            found.update(self.scatters)
        found.discard(None)
        if found or inner.tape:
            self._find_dependences(found, inner.tape)  # type: ignore[arg-type]

    @property
    def scatters(self) -> list[Var]:
        """The variables of scatters, on which nothing depends."""
        return [v for _, w in self.written for v in w.scatters]

    def share(self, results: Sequence[Node]) -> None:
        """Records the replacements of nodes of a body that is now shared with other calls; the call
        returned `results`."""
        for block in {n.deps[0] for n in results if n.op is op.result}:
            shared, count = block.data.shared, len(self.nodes)
            if shared is not None and shared.inside[:count] == self.nodes:
                more = block.deps[count : block.data.counts[0]]
                self._shared = dict(zip(shared.inside[count:], more, strict=True))

    # ---- Dependences

    def _find_dependences(self, needed: set[Any], tape: list[Var]) -> None:
        """Finds the variables of the body that some results depend on: those `needed`, and then
        the variables these were computed from."""
        own: list[Var] = []
        needs, begin = needed.update, self.begin
        for v in reversed(tape):
            # Traversals within the body have stored gradients there.
            v.grad = v.grad_var = None
            if v in needed:
                own.append(v)
                needs(v.deps)
        rest = needed.difference(own)
        rest.discard(None)
        variables: list[Var] = []
        free: list[Var] = []
        for v in sorted(rest, key=attrgetter("serial")):
            (free if v.serial < begin else variables).append(v)  # without dependences
        variables += reversed(own)
        self.variables, self.free_variables = variables, free

    def _compute_reach(self) -> dict[Var, int]:
        """Determines the sources that each variable depends on, as bit sets."""
        reach: dict[Var, int] = {}
        sources: list[Var] = []
        self._sources = sources
        for v in self.free_variables:
            reach[v] = 1 << len(sources)
            sources.append(v)
        for v in self.variables:
            bits = 0
            for d in v.deps:
                if d is not None:
                    bits |= reach[d]
            if bits == 0:
                bits = 1 << len(sources)
                sources.append(v)
            reach[v] = bits
        self._bits = reach
        return reach

    def sources(self, results: Iterable[Var | None]) -> list[Var]:
        """Returns the inputs of the body and the earlier variables on which some variables
        depend."""
        return self.sources_in(self.reach(results))

    def reach(self, variables: Iterable[Var | None]) -> int:
        """Returns the sources on which some variables depend, as a bit set."""
        bits, known = 0, self._compute_reach() if self._bits is None else self._bits
        for v in variables:
            bits |= known.get(v, 0)  # type: ignore[arg-type]
        return bits

    def sources_in(self, bits: int) -> list[Var]:
        """Returns the sources in a bit set."""
        found = []
        while bits:
            lowest = bits & -bits
            found.append(self._sources[lowest.bit_length() - 1])
            bits ^= lowest
        return found

    # ---- Derivatives

    @contextmanager
    def derived(
        self, outer_gradients: OuterGradients, mask: Node | None = None
    ) -> Iterator["DerivedBody"]:
        """Prepares the body for `pull` and `push` in a recording of its own, parts of which can be
        instantiated again. Variables of gathered arrays from outside have their gradients in
        `outer_gradients`."""
        here = record.reopened(mask or self.mask, self.depth)
        with body_scope(outer_gradients, self.begin), here as scope:
            yield DerivedBody(self, scope)

    @property
    def uses_copies(self) -> bool:
        """Whether a copy of the body provides all primal values that derivatives need; it does not
        provide those of custom operations and loops."""
        if self._uses_copies is None:
            found = [v.data.op for v in self.variables if v.rule is HUB]
            self._uses_copies = not found or all(
                isinstance(o, ValueOp) and o.uses_copies() for o in found
            )
        return self._uses_copies

    def pull(
        self, seeds: Iterable[tuple[Var, Node]], inputs: Sequence[Var | None], memories: Memories,
        copies: Substitution | None = None,
    ) -> list[Node | None]:  # fmt: skip
        """Propagates gradients of results, and of targets, which are in `memories`, back to
        inputs of the body. Returns the gradients of the inputs and, lane by lane, of the variables
        from outside. Primal values are taken from `copies`, if given."""
        with self._memories(memories):
            for v in self.free_variables:
                v.grad = v.grad_var = None
            for v, g in seeds:
                v.grad = g if v.grad is None else apply(op.add, v.grad, g)
            for _, w in self.written:
                if w.memory.nodes:
                    for v in w.scatters:
                        v.grad = literal(v.dtype, 0)  # includes variables of inner bodies
            reached: set[Var | None] = set()
            variables: list[Var] = []
            for v in reversed(self.variables):
                if v.rule is not None and (v.grad is not None or v in reached):
                    reached.update(v.deps)
                    variables.append(v)
            variables.reverse()
            self._visit(ADMode.Backward, variables, copies)
            return [None if v is None else v.grad for v in (*inputs, *self.free_variables)]

    def push(
        self, seeds: Iterable[tuple[Var | None, Node]], results: Iterable[Var | None],
        memories: Memories, copies: Substitution | None = None,
    ) -> list[Node | None]:  # fmt: skip
        """Propagates tangents of inputs of the body, and of variables from outside, forward to
        results and targets."""
        with self._memories(memories):
            for _, w in self.written:
                w.var.grad = literal(w.var.dtype, 0)  # so that scatters are visited
            for v, g in seeds:
                if v is not None:
                    v.grad = g
            sources = [v for v in self.free_variables if v.grad is not None]
            reached = {*sources, *[v for v in self.variables if v.grad is not None]}
            variables = []
            for v in self.variables:
                if v in reached or not reached.isdisjoint(v.deps):
                    reached.add(v)
                    variables.append(v)
            self._visit(ADMode.Forward, [*sources, *variables], copies)
            return [None if v is None else v.grad for v in results]

    @contextmanager
    def _memories(self, memories: Memories) -> Iterator[None]:
        """Has targets store their derivatives in `memories` during a traversal, which leaves no
        gradients behind in the body, and those of earlier variables as they were."""
        for k, w in self.written:
            w.memory.nodes = memories[k]
        with graph.restored_gradients(self.free_variables):
            try:
                yield
            finally:
                for v in self.variables:
                    v.grad = v.grad_var = None

    @staticmethod
    def _visit(mode: ADMode, variables: list[Var], copies: Substitution | None) -> None:
        """Visits variables, whose rules find copies of the primal values."""
        if not variables:
            return
        if copies is None:
            traverse.visit(mode, variables)
            return
        values: list[Node] = []
        add = values.append
        for v in variables:
            if v.rule is not None:
                v.rule.visit_primals(v, add)
        if not values:  # derivatives need no primal values
            traverse.visit(mode, variables)
            return
        copies(values)
        get = copies.replacements.get
        before = [(v, v.inputs, v.result) for v in variables]
        for v, inputs, result in before:
            if inputs:
                v.inputs = tuple(map(get, inputs, inputs))
            if result is not None:
                v.result = get(result, result)
        try:
            traverse.visit(mode, variables)
        finally:
            for v, inputs, result in before:
                v.inputs, v.result = inputs, result

    def recomputed(
        self, values: Sequence[Value], places: Sequence[int], mask: Node,
        enclosing: "Recomputation | None",
    ) -> "Recomputation":  # fmt: skip
        """Recomputes the body with separate variables, so that it can be differentiated twice, for
        other values of the inputs, of which those at the `places` are symbolic. `enclosing`
        is the body around it, if that is recomputed as well."""
        given, size = [*values], self.lanes
        if size == 1:
            size = max([mask.size, *[values[k].node.size for k in places]])
        for k in places:
            if given[k].node.size == 1:
                given[k] = memory_rules.broadcast_to(given[k], size)
        nodes = [given[k].node for k in places]
        copies = self.substitution(nodes, mask, enclosing=enclosing and enclosing.copies)
        made: dict[Any, Var | None] = {**enclosing.made} if enclosing else {}
        made |= zip(self.inputs, [v.var for v in given], strict=True)
        return Recomputation(self.variables, copies, made | {None: None})

    def substitution(
        self, nodes: Sequence[Node], mask: Node | None, derived: "DerivedBody | None" = None,
        enclosing: Substitution | None = None,
    ) -> Substitution:  # fmt: skip
        """Returns a copier of values of the body into the innermost recording, with other nodes for
        the state and the lanes, and for values of the `enclosing` body."""
        made = self._shared or {}
        if enclosing is not None and made:
            made = dict(zip(made, enclosing([*made.values()]), strict=True))
        made = made | dict(zip(self.nodes, nodes, strict=False))
        if mask is not None:
            made[self.mask] = mask
        span = None if derived is None else derived.span
        return Substitution(
            made, Span(self._first, self._last), self.depth, self.lanes, span, enclosing
        )


class RecordedOp(ValueOp):
    """A symbolic loop, branch or call in the graph of derivatives, as it has been recorded; `what`
    is its name."""

    what: str
    targets: Targets
    # The tangents of the results from those of the arguments, and the gradients of the arguments
    # from those of the results.
    push: Callable[[list[Node]], list[Node]]
    pull: Callable[[list[Node]], list[Node]]

    def _attach(self, outputs: list[Node], inputs: list[Var]) -> list[Var | None]:
        """Connects the results, and what was written to, to the variables they were computed from;
        returns the variables of the results."""
        count = len(outputs)
        outputs, inputs = outputs + self.targets.outputs(), inputs + self.targets.inputs()
        found = attach(self, outputs, inputs)
        self.targets.attach(found[count:])
        return found[:count]

    def lanes(self) -> AbstractContextManager[Any]:
        """Restricts what is traced to the lanes that take part."""
        return nullcontext()

    def forward(self) -> None:
        self._propagate(self.push, self.arguments, self.results)

    def backward(self) -> None:
        self._propagate(self.pull, self.results, self.arguments)

    def _propagate(self, step: Any, before: list[Var], after: list[Var]) -> None:
        gradients = self.gradients(before)
        with self.lanes():
            found = step(gradients)
        self.accumulate(after, found)

    def name(self) -> str:
        return self.what


class Recomputation:
    """A recomputed body: `copies` maps its nodes to their copies, and `made` its variables to
    theirs."""

    def __init__(
        self, variables: Sequence[Var], copies: Substitution, made: dict[Any, Var | None]
    ) -> None:
        self.copies, self.made = copies, made
        self._operations: dict[Var | None, list[Value]] = {}  # calls and loops, and their results
        copies([n for v in variables for n in (*v.inputs, v.result) if n is not None])
        for v in variables:
            if v.rule is not None:
                made[v] = self._again(v)

    def _again(self, v: Var) -> Var | None:
        if v.rule is HUB and isinstance(v.data.op, ValueOp):
            self._operations[v] = v.data.op.recomputed(self)
            return None
        if v.deps[0] in self._operations:
            value = self._operations[v.deps[0]][v.data]
            return (
                memory_rules.broadcast_to(value, v.size).var if value.node.size == 1 else value.var
            )
        get, variable, lanes_ = self.copies.replacements.get, self.made.get, self.copies.size
        result = None if v.result is None else get(v.result, v.result)
        deps, inputs = tuple(map(variable, v.deps, v.deps)), tuple(map(get, v.inputs, v.inputs))
        made = graph.record_again(v, deps, inputs, result)
        if made and v.size == 1 and (not inputs or lanes_ in [n.size for n in inputs]):
            made.size = lanes_
        return made

    def values(self, values: Sequence[Value]) -> list[Value]:
        """Returns the copies of values of the body, or of enclosing bodies."""
        nodes = self.copies([n for n, _ in values])
        return [Value(n, self.made.get(v, v)) for n, (_, v) in zip(nodes, values, strict=True)]


class DerivedBody:
    """A computation derived from a body while this is open, for example by a traversal, with its
    side effects. `parameters` are nodes that stand for further values, `results` the final
    results."""

    def __init__(self, body: RecordedRegion, scope: record.Scope) -> None:
        self.body, self.scope, self.span = body, scope, Span()
        self.parameters: list[Node] = []
        self.results: list[Node] = []
        self._dependences: list[Node] | None = None

    def stand_ins(self, values: Iterable[Node]) -> list[Node]:
        """Returns nodes for values that are known when the results are used."""
        body = self.body
        self.parameters += [make(op.state, n.dtype, body.lanes, (), body.depth) for n in values]
        return [*self.parameters]

    def close(self, results: list[Node]) -> None:
        """Ends the computation, given its results."""
        self.span.close()
        self.results = results

    def needs(self) -> set[Node]:
        """The nodes of the body's state on which the results depend."""
        roots = [*self.results, *self.scope.effects]
        self._dependences = self.body.substitution((), None, self).collect(roots)
        return {*self.body.nodes}.intersection(self._dependences)

    def again(
        self, nodes: Sequence[Node], given: Sequence[Node] = (), mask: Node | None = None
    ) -> list[Node]:
        """Returns the results in the innermost recording, with other nodes for the state and the
        lanes; its side effects become part of that recording."""
        again = self.body.substitution(nodes, mask, self)
        again.extend(dict(zip(self.parameters, given, strict=True)))
        found = again([*self.results, *self.scope.effects], self._dependences)
        if (scope := innermost()) is not None:  # which the side effects become part of
            scope.effects += self.scope.effects
            scope.afters += self.scope.afters
        return found[: len(self.results)]


# ---- Sums: results that are an input plus something that does not depend on it


class Term(NamedTuple):
    """A result of an operation that is the value of the variable `start` plus something that
    depends on `others`."""

    start: Var
    others: set[Var]


def adds_to(result: Var | None, own: Var, body: RecordedRegion) -> bool:
    """Returns whether a result is `own`, an input, plus something that does not depend on it."""
    return result is own or bool(accumulated_inputs(result, body.reach([own]), body))


def accumulated_inputs(v: Var | None, inputs: int, body: RecordedRegion) -> int:
    """Returns the inputs, as a bit set, to which a value adds something that does not depend on
    them."""
    if v is None or not (inputs := inputs & body.reach([v])):
        return 0
    if v.rule is None:
        return inputs
    match v.rule.name:
        case "add":
            a, b = v.deps
            rest = inputs & ~body.reach([b])
            return accumulated_inputs(a, rest, body) | accumulated_inputs(
                b, inputs & ~body.reach([a]), body
            )
        case "sub":
            return accumulated_inputs(v.deps[0], inputs & ~body.reach(v.deps[1:]), body)
        case "fma":
            return accumulated_inputs(v.deps[2], inputs & ~body.reach(v.deps[:2]), body)
        case "select":  # both operands must add to it: elsewhere, the sum would start again
            rest = accumulated_inputs(v.deps[1], inputs & ~body.reach(v.deps[:1]), body)
            return accumulated_inputs(v.deps[2], rest, body)
        case "result":  # of a branch, call or other custom operation
            known = getattr(v.deps[0].data.op, "term", None)  # type: ignore[union-attr]
            if known is not None and (term := known(v.data)) is not None:
                return accumulated_inputs(term.start, inputs & ~body.reach(term.others), body)
    return 0
