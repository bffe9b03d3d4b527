"""The body of a loop, branch or call as it was recorded, from which derivatives are made.

Traversals visit the variables that its operations have. What they compute is then copied, together
with the values of the body that it needs, to where it is wanted, with other nodes in place of those
that stood for the state or the arguments. The body itself does not run again.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from operator import attrgetter
from typing import Any

from ...ad import capture, graph, lanes, traverse
from ...ad.graph import Scope, Value, Var, visible
from ...ad.scatter_target import ScatterTarget
from ...ad.traverse import ADMode
from ...function.ad.custom import HUB, ValueOp
from ...jit.ir import dtype as dt
from ...jit.ir import op
from ...jit.ir.node import Node, apply, literal, make
from ...jit.ir.scope import innermost
from ...jit.trace import record
from ...jit.trace.substitute import Span, Substitution

_serial = attrgetter("serial")

NOTHING = Value(literal(dt.mask, False), None)
Memories = list[list[Node]]
"""The memory of the derivatives of targets; see `targets`."""


class RecordedRegion:
    """What one tracing of a body has given.

    `nodes` stood for the state or arguments, `mask` for the lanes. `inputs` are the variables that
    the body got, `results` what came of it, or `NOTHING` for arrays that it has written to, which
    nobody may hold; `written` are the targets of its scatters with their numbers in
    `targets.Targets`. `variables` are those of its operations, in order, as far as results depend
    on them, `around` those from before on which they depend. It `moves` if its nodes can serve
    another block, having no side effects that must not be repeated.
    """

    def __init__(self, nodes: Sequence[Node], inner: Scope) -> None:
        """Begins within a recording and the scope `inner`."""
        recording = innermost()
        assert recording is not None
        self.nodes = nodes
        self.inputs: list[Var | None] = []
        self.mask, self.depth = recording.mask, recording.depth
        self.lanes = nodes[0].size if nodes else self.mask.size
        self._span = Span(nodes[0].serial if nodes else None)
        self.begin = inner.isolate_from
        self.moves = False
        self.results: list[Value] = []
        self.written: list[tuple[int, ScatterTarget]] = []
        self.variables: list[Var] = []
        self.around: list[Var] = []
        self._shared: dict[Node, Node] = {}
        self._sources: list[Var] = []
        self._reach: dict[Var, int] = {}

    def close(self, results: list[Value], written: list[tuple[int, ScatterTarget]]) -> None:
        """Ends the tracing, with its results and the targets that it has written to."""
        self._span.close()
        recording = innermost()
        assert recording is not None
        self.moves = not any(e.op.block or e.data.value for e in recording.effects)
        # In this scope; derivatives are made in others.
        if graph.hiding():
            results = [Value(n, visible(v)) for n, v in results]
        self.results = results
        self.written = written
        found = [r.var for r in self.results if r.var is not None]
        self._follow(found + self.scatters, graph.tapes()[-1])

    @property
    def scatters(self) -> list[Var]:
        """The variables of scatters, on which nothing depends."""
        return [v for _, w in self.written for v in w.scatters]

    def share(self, results: Sequence[Node]) -> None:
        """Notes what the nodes stand for that the body depends on since other calls share it: its
        call gave these results."""
        for block in {n.deps[0] for n in results if n.op is op.result}:
            shared, count = block.data.shared, len(self.nodes)
            if shared is not None and shared.inside[:count] == self.nodes:
                more = block.deps[count : block.data.counts[0]]
                self._shared = dict(zip(shared.inside[count:], more, strict=True))

    # ---- What depends on what

    def _follow(self, results: list[Var], tape: list[Var]) -> None:
        """Finds the variables of the body below some results."""
        needed: set[Any] = {*results}  # and then what these were computed from
        own, needs, begin = list[Var](), needed.update, self.begin
        for v in reversed(tape):
            # Traversals within the body have put gradients there.
            v.grad = v.grad_var = None
            if v in needed:
                own.append(v)
                needs(v.deps)
        rest = needed.difference(own)
        rest.discard(None)
        for v in sorted(rest, key=_serial):
            (self.around if v.serial < begin else self.variables).append(v)  # without dependencies
        self.variables += reversed(own)

    def _bits(self) -> dict[Var, int]:
        """The sources that each variable depends on: one bit for each."""
        reach, sources = self._reach, self._sources
        if not reach:
            for v in self.around:
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
        return reach

    def sources(self, results: Iterable[Var | None]) -> list[Var]:
        """The inputs of the body and variables from before on which some variables depend."""
        return self.of_bits(self.reach(results))

    def reach(self, variables: Iterable[Var | None]) -> int:
        """The sources on which some variables depend, if on any: one bit for each."""
        bits, known = 0, self._bits()
        for v in variables:
            bits |= known.get(v, 0)  # type: ignore[arg-type]
        return bits

    def of_bits(self, bits: int) -> list[Var]:
        """The sources that bits stand for."""
        found = []
        while bits:
            lowest = bits & -bits
            found.append(self._sources[lowest.bit_length() - 1])
            bits ^= lowest
        return found

    # ---- Derivatives

    @contextmanager
    def entered(
        self, outer_gradients: capture.OuterGradients, copies: Substitution | None = None
    ) -> Iterator[None]:
        """Within, `pull` and `push` visit the variables of the body; those of gathered arrays from
        around it have their gradients in `outer_gradients`, calls within it have their operands in
        `copies`."""
        outer_gradients.first, outer_gradients.copies = self.begin, copies
        inner = (graph.scope() or Scope()).isolated()
        inner.isolate_from, inner.outer_gradients, inner.tape = self.begin, outer_gradients, []
        graph.push(inner)
        try:
            yield
        finally:
            graph.pop()
            inner.tape.clear()
            outer_gradients.copies = None

    @contextmanager
    def derived(
        self, outer_gradients: capture.OuterGradients, mask: Node | None = None
    ) -> Iterator["Derived"]:
        """The same in a recording of its own, of which parts can be had again."""
        with self.entered(outer_gradients), record.part(mask or self.mask, self.depth) as scope:
            yield Derived(self, scope)

    @cached_property
    def follows(self) -> bool:
        """Whether all primal values that derivatives need can be asked of a copy of the body: not
        those that custom operations and loops have."""
        operations = [v.data.op for v in self.variables if v.rule is HUB]
        return all(isinstance(op, ValueOp) and op.follows() for op in operations)

    def pull(
        self, seeds: Iterable[tuple[Var, Node]], inputs: Sequence[Var | None], held: Memories,
        copies: Substitution | None = None,
    ) -> list[Node | None]:  # fmt: skip
        """Propagates gradients of results, and of targets, which are `held` in memory, back to
        inputs of the body; gives what has come there, and to the variables from around it, lane by
        lane. Primal values are those of `copies`, if these are given."""
        self._bind(held)
        before = [(v, v.grad, v.grad_var) for v in self.around]
        for v in self.around:
            v.grad = v.grad_var = None
        try:
            for v, g in seeds:
                v.grad = g if v.grad is None else apply(op.add, v.grad, g)
            for _, w in self.written:
                if w.memory.held:
                    for v in w.scatters:
                        v.grad = literal(v.dtype, 0)  # makes those of inner bodies take part
            reached = {v for v in self.variables if v.grad is not None}
            needs = reached.update
            variables = [v for v in reversed(self.variables) if v in reached and not needs(v.deps)]
            self._visit(ADMode.Backward, variables[::-1], copies)
            return [None if v is None else v.grad for v in (*inputs, *self.around)]
        finally:
            self._clear(before)

    def push(
        self, seeds: Iterable[tuple[Var | None, Node]], results: Iterable[Var | None],
        held: Memories, copies: Substitution | None = None,
    ) -> list[Node | None]:  # fmt: skip
        """Propagates tangents of inputs of the body, and those that variables from around it have,
        forward to results, and to targets."""
        self._bind(held)
        before = [(v, v.grad, v.grad_var) for v in self.around]
        try:
            for _, w in self.written:
                w.var.grad = literal(w.var.dtype, 0)  # so that scatters are visited
            for v, g in seeds:
                if v is not None:
                    v.grad = g
            sources = [v for v in self.around if v.grad is not None]
            reached = {*sources, *[v for v in self.variables if v.grad is not None]}
            variables = []
            for v in self.variables:
                if v in reached or not reached.isdisjoint(v.deps):
                    reached.add(v)
                    variables.append(v)
            self._visit(ADMode.Forward, [*sources, *variables], copies)
            return [None if v is None else v.grad for v in results]
        finally:
            self._clear(before)

    @staticmethod
    def _visit(mode: ADMode, variables: list[Var], copies: Substitution | None) -> None:
        """Visits variables, whose rules find copies of the primal values."""
        if copies is None:
            traverse.visit(mode, variables)
            return
        values: list[Node] = []
        add = values.append
        for v in variables:
            if v.rule is not None:
                v.rule.reads(v, add)
        copies(values)
        get = copies.made.get
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

    def _bind(self, held: Memories) -> None:
        for k, w in self.written:
            w.memory.held = held[k]

    def _clear(self, around: list[tuple[Var, Node | None, Var | None]]) -> None:
        for v in self.variables:
            v.grad = v.grad_var = None
        for v, g, own in around:
            v.grad, v.grad_var = g, own

    def stand_ins(self, values: Iterable[Node]) -> list[Node]:
        """Nodes for more variables of a loop."""
        return [make(op.state, n.dtype, self.lanes, (), self.depth) for n in values]

    def again(
        self, roots: Sequence[Node], nodes: Sequence[Node], mask: Node | None = None
    ) -> list[Node]:
        """Values of the body in the innermost recording, with other nodes for what stood for the
        state, and for the lanes."""
        return self.substitution(nodes, mask)(roots)

    def recomputed(
        self, values: Sequence[Value], places: Sequence[int], mask: Node,
        around: "Recomputation | None",
    ) -> "Recomputation":  # fmt: skip
        """The body once more, with variables of its own, so that it can be differentiated twice: on
        other values of the inputs, of which those at the `places` are symbolic. `around` is what it
        lies in, if that is computed again as well."""
        given, size = [*values], self.lanes
        if size == 1:
            size = max([mask.size, *[values[k].node.size for k in places]])
        for k in places:
            if given[k].node.size == 1:
                given[k] = lanes.full(given[k], size)
        nodes = [given[k].node for k in places]
        copies = self.substitution(nodes, mask, around=around and around.copies)
        made: dict[Any, Var | None] = {**around.made} if around else {}
        made |= zip(self.inputs, [v.var for v in given], strict=True)
        return Recomputation(self.variables, copies, made | {None: None})

    def substitution(
        self, nodes: Sequence[Node], mask: Node | None, derived: "Derived | None" = None,
        around: Substitution | None = None,
    ) -> Substitution:  # fmt: skip
        """See `again`. What is taken from `around` the body is replaced as well."""
        made = self._shared
        if around is not None and made:
            made = dict(zip(made, around([*made.values()]), strict=True))
        made = made | dict(zip(self.nodes, nodes, strict=False))
        if mask is not None:
            made[self.mask] = mask
        span = None if derived is None else derived.span
        return Substitution(made, self._span, self.depth, self.lanes, span, around)


class RecordedOp(ValueOp):
    """A symbolic loop, branch or call in the graph of derivatives, as it has been recorded; `what`
    is its name."""

    what: str

    def lanes(self) -> AbstractContextManager[Any]:
        """Restricts what is traced to the lanes that take part."""
        return nullcontext()

    def push(self, tangents: list[Node]) -> list[Node]:
        """The tangents of the results from those of the arguments."""
        raise NotImplementedError

    def pull(self, gradients: list[Node]) -> list[Node]:
        """The gradients of the arguments from those of the results."""
        raise NotImplementedError

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
    """A body that is computed again: what its nodes have become in `copies`, and its variables in
    `made`."""

    def __init__(
        self, variables: list[Var], copies: Substitution, made: dict[Any, Var | None]
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
            return lanes.full(value, v.size).var if value.node.size == 1 else value.var
        get, variable, lanes_ = self.copies.made.get, self.made.get, self.copies.size
        result = None if v.result is None else get(v.result, v.result)
        deps, inputs = tuple(map(variable, v.deps, v.deps)), tuple(map(get, v.inputs, v.inputs))
        made = graph.recorded_again(v, deps, inputs, result)
        if made and v.size == 1 and (not inputs or lanes_ in [n.size for n in inputs]):
            made.size = lanes_
        return made

    def values(self, values: Sequence[Value]) -> list[Value]:
        """What has become of values of the body, or of those around it."""
        nodes = self.copies([n for n, _ in values])
        return [Value(n, self.made.get(v, v)) for n, (_, v) in zip(nodes, values, strict=True)]


class Derived:
    """What is computed from a body while this is open, as by a traversal, and its side effects.
    `given` are nodes that stand for further values, `results` what comes of it in the end."""

    def __init__(self, body: RecordedRegion, scope: record.Scope) -> None:
        self.body, self.scope, self.span = body, scope, Span()
        self.given: list[Node] = []
        self.results: list[Node] = []
        self._inside: list[Node] | None = None

    def stand_ins(self, values: Iterable[Node]) -> list[Node]:
        """Nodes for values that are known when the results are used."""
        self.given += self.body.stand_ins(values)
        return [*self.given]

    def close(self, results: list[Node]) -> None:
        """Ends the computation, which gave these results."""
        self.span.close()
        self.results = results

    def needs(self) -> set[Node]:
        """The nodes for the state of the body on which the results depend."""
        roots = [*self.results, *self.scope.effects]
        self._inside = self.body.substitution((), None, self).inside(roots)
        return {*self.body.nodes}.intersection(self._inside)

    def again(
        self, nodes: Sequence[Node], given: Sequence[Node] = (), mask: Node | None = None
    ) -> list[Node]:
        """The results in the innermost recording, with other nodes for what stood for the state,
        and for the lanes; its side effects are part of that from now on."""
        again = self.body.substitution(nodes, mask, self)
        again.extend(dict(zip(self.given, given, strict=True)))
        found = again([*self.results, *self.scope.effects], self._inside)
        self._hand_over()
        return found[: len(self.results)]

    def moved(self, begin: dict[Node, Node]) -> bool:
        """Makes the results, and the body itself, part of the innermost recording, where nodes for
        the state become the gathers that are given. Gives whether it could be done."""
        gathers = [*begin.values()]
        if any(n.op is not op.gather or n.size != self.body.lanes for n in gathers):
            return False
        if gathers and not record.precede(self.body.nodes[0], gathers):
            return False
        for n, given in begin.items():
            n.op, n.deps, n.data = given.op, given.deps, given.data
        self._hand_over()
        return True

    def _hand_over(self) -> None:
        """Makes the side effects part of the innermost recording."""
        if (around := innermost()) is not None:
            around.effects += self.scope.effects
            around.afters += self.scope.afters
