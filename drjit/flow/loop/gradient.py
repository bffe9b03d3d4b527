"""Derivatives of symbolic loops, computed from the recorded body.

Forward mode runs tangents along with the state. Reverse mode runs the loop backwards: it visits
iterations from the last to the first, has the body on what they began with (`trajectory`),
and propagates gradients through it. A loop that only sums up terms needs no storage: the gradient
of every term is that of the sum, so that one pass, in any order, does.
"""

from collections.abc import Sequence

from ...ad import capture, sink
from ...ad.graph import Value, Var, visible
from ...function.ad.custom import attached
from ...jit import log
from ...jit.ir import node as ir
from ...jit.ir import op
from ...jit.ir.node import Node
from ...jit.ir.scope import active
from ...jit.trace import record
from ..region.recording import Memories, Recomputation, RecordedRegion, Targets, is_zero
from .recorded_loop import RecordedLoop, number, zero
from .trajectory import trajectory

SUM = -1


class Trace:
    """The dependences of a body's results on its inputs, by position: `reach[k]` are the positions
    of inputs, `touching` those of the results that depend on earlier variables, and `written` the
    inputs on which scatters, as further results, depend. `results` are variables or None, `inputs`
    the positions of the variables that stood for the state."""

    def __init__(
        self, body: RecordedRegion, results: Sequence[Var | None], inputs: dict[Var, int]
    ) -> None:
        self.body = body
        self.reach: list[set[int]] = []
        self.touching: set[int] = set()
        for k, v in enumerate(results):
            sources = body.sources([v])
            self.reach.append({inputs[d] for d in sources if d in inputs})
            if any(d.serial < body.begin for d in sources):
                self.touching.add(k)
        self.written: set[int] = set()
        if body.written:
            self.written = {inputs[d] for d in body.sources(body.scatters) if d in inputs}

    def spread(self, active: set[int]) -> set[int]:
        """Returns the positions whose values depend, after any number of iterations, on those of
        `active` or on earlier variables."""
        active = active | self.touching
        while True:
            more = {k for k, reach in enumerate(self.reach) if reach & active} - active
            if not more:
                return active
            active |= more


class Tape(RecordedLoop):
    """A recorded loop in the form that its derivatives need; see `RecordedLoop`.

    `inputs` are the positions of differentiable variables, `outputs` those of differentiable
    results, and `free_variables` those from outside on which results depend. `sums` are the
    positions of variables that the loop only adds to, and `targets` what it writes to.
    """

    def __init__(
        self, what: str, paths: Sequence[str], before: list[Value], places: list[int],
        condition: Node, trace: Trace, targets: Targets, changing: set[int], sums: set[int],
        limit: int | None,
    ) -> None:  # fmt: skip
        given = {k for k in places if visible(before[k].var) is not None}
        tracked = trace.spread(given) & set(places)
        super().__init__(what, paths, before, places, changing, condition, trace.body)
        self.limit, self.free_variables, self.targets = (
            limit or 0,
            trace.body.free_variables,
            targets,
        )
        self.sums = sums & tracked
        self.inputs = sorted(given)
        self.outputs = sorted(tracked & changing)
        self.simple = all(
            k in self.sums and not trace.reach[k] & (set(self.outputs) - {k}) for k in self.outputs
        )
        # Replacements of entries are undone in reverse order.
        kinds = {kind for t in targets.rows for kind in t.kinds}
        self.simple = self.simple and kinds <= {"add"} and not trace.written & set(self.outputs)

    # ---- Connecting to the graph

    def attached(self, finals: list[Node]) -> dict[int, Value]:
        """Returns the final values of the variables, by position, as results of a differentiable
        operation."""
        self.size = max([n.size for n in finals], default=1)
        outputs = [finals[self.places.index(k)] for k in self.outputs]
        inputs = [*self.wanted(), *self.targets.inputs()]
        found = attached(self, [*outputs, *self.targets.outputs()], inputs)
        self.targets.attach(found[len(outputs) :])
        pairs = zip(outputs, found, strict=False)
        return {k: Value(*pair) for k, pair in zip(self.outputs, pairs, strict=True)}

    def wanted(self) -> list[Var]:
        """The variables that receive gradients: inputs and captured ones."""
        found = [visible(self.before[k].var) for k in self.inputs]
        return [v for v in (*found, *self.free_variables) if v is not None]

    def recomputed(self, enclosing: Recomputation | None = None) -> list[Value]:
        self.targets.check_first_order(self.what)
        contents = self.unrolled(enclosing)
        return [contents[k] for k in self.outputs]

    # ---- Forward mode

    def push(self, tangents: list[Node]) -> list[Node]:
        """Returns tangents of the outputs and targets, given tangents of the inputs and of the
        targets' previous contents; captured variables have theirs."""
        given = dict(zip(self.inputs, tangents, strict=False))
        memories = self.targets.tangents(tangents[len(self.inputs) + len(self.free_variables) :])
        body, moving, outer_gradients = self.recorded, self.outputs, capture.OuterGradients()
        kinds = [body.results[k].node.dtype for k in moving]
        fixed = [(body.inputs[k], given[k]) for k in self.inputs if k not in moving]

        def step(nodes: list[Node]) -> list[Node]:
            """Returns the tangents after an iteration, given those before."""
            seeds = [(body.inputs[k], n) for k, n in zip(moving, nodes, strict=True)]
            found = body.push(seeds + fixed, [body.results[k].var for k in moving], memories)
            return [n or zero(t) for t, n in zip(kinds, found, strict=True)]

        start = [given.get(k, zero(self.before[k].node.dtype)) for k in moving]
        with body.entered(outer_gradients):
            found = self.extended(start, step)
        if found is None:
            found = self.repeated(start, step, outer_gradients)
        return found + self.targets.after(memories)

    # ---- Reverse mode

    def pull(self, gradients: list[Node]) -> list[Node]:
        """Returns gradients of the wanted variables and of the targets' previous contents, given
        gradients of the outputs and targets."""
        if self.limit == SUM and not self.simple:
            self._check_sum()
        outer_gradients = capture.OuterGradients()
        count = len(self.outputs)
        memories = self.targets.gradients(gradients[count:])
        if self.simple or self.limit == SUM:
            found = self._backward_sum(gradients[:count], memories, outer_gradients)
        else:
            found = self._backward_general(gradients[:count], memories, outer_gradients)
        for k, v in enumerate(self.wanted()):
            if v.size == 1:
                found[k] = sink.arriving(v, Value(found[k]), self.size).node
            added = outer_gradients.pop(v)
            if added is not None:
                found[k] = added if is_zero(found[k]) else _sum(added, found[k])
        return found + self.targets.before(memories)

    def _check_sum(self) -> None:
        """Warns that a loop with `max_iterations=-1` is assumed to sum up terms that do not depend
        on the sums.

        Raises:
            RuntimeError: it changes a variable that is an input of the derivatives, or the loop
                replaces entries of arrays.
        """
        wrong = [k for k in self.outputs if k not in self.sums] or self.outputs
        name = f"'{self.paths[wrong[0]]}'" if wrong else "an array"
        hint = "Leave 'max_iterations' out, or give an upper bound."
        text = (
            f"{self.what}: max_iterations=-1 promises a loop that only sums up terms which do not "
            f"depend on the sums, but variable {name} is not such a sum"
        )
        kinds = {kind for t in self.targets.rows for kind in t.kinds}
        if {*self.inputs} & {*self.outputs} or not kinds <= {"add"}:
            raise RuntimeError(f"{text}. {hint}")
        log.once(f"{text}: its derivatives are those of each iteration by itself. {hint}")

    def _fixed(self) -> list[int]:
        """Returns the inputs that the loop does not change."""
        return [k for k in self.inputs if k not in self.changing]

    def _pull(
        self, gradients: Sequence[Node], memories: Memories, moving: Sequence[int]
    ) -> tuple[list[Node], list[Node]]:
        """Returns the gradients of the variables `moving`, and of the fixed ones and captured
        variables, before an iteration, given those of the outputs after it and of the targets,
        which are in `memories`."""
        body = self.recorded
        seeds = [
            (v, g)
            for k, g in zip(self.outputs, gradients, strict=True)
            if (v := body.results[k].var) is not None
        ]
        wanted = [*moving, *self._fixed()]
        pulled = body.pull(seeds, [body.inputs[k] for k in wanted], memories)
        kinds = [self.before[k].node.dtype for k in wanted] + [v.dtype for v in self.free_variables]
        found = [n or zero(t) for t, n in zip(kinds, pulled, strict=True)]
        return found[: len(moving)], found[len(moving) :]

    def _collected(self) -> list[Node]:
        """Returns the initial values of gradient sums, for fixed inputs and captured variables."""
        kinds = [self.before[k].node.dtype for k in self._fixed()]
        return [zero(t) for t in (*kinds, *[v.dtype for v in self.free_variables])]

    def _in_order(self, moved: dict[int, Node], collected: list[Node]) -> list[Node]:
        """Returns gradients in the order of `wanted`."""
        fixed = dict(zip(self._fixed(), collected, strict=False))
        inputs = [moved[k] if k in moved else fixed[k] for k in self.inputs]
        return [*inputs, *collected[len(fixed) :]]

    def _backward_sum(
        self, gradients: list[Node], memories: Memories, outer_gradients: capture.OuterGradients
    ) -> list[Node]:
        def pull(sums: list[Node]) -> list[Node]:
            return [*map(_sum, sums, self._pull(gradients, memories, ())[1])]

        found = self.repeated(self._collected(), pull, outer_gradients)
        return self._in_order(dict(zip(self.outputs, gradients, strict=True)), found)

    def _backward_general(
        self, gradients: list[Node], memories: Memories, outer_gradients: capture.OuterGradients
    ) -> list[Node]:
        moving, recorded = self.outputs, self.recorded
        with recorded.derived(outer_gradients) as derived:
            pulled, more = self._pull(derived.stand_ins(gradients), memories, moving)
            derived.close([*pulled, *more])
        needs = derived.needs()
        needed = {k for k, n in zip(self.places, recorded.nodes, strict=True) if n in needs}
        found = trajectory(self, self.limit, needed & self.changing)
        collected = self._collected()
        first, last = 1 + len(moving), 1 + len(moving) + len(collected)
        start = [found.count, *gradients, *collected, *found.start]

        def test(nodes: list[Node]) -> Node:
            return ir.apply(op.ne, nodes[0], number(0))

        def body(nodes: list[Node]) -> list[Node]:
            iteration = ir.apply(op.sub, nodes[0], number(1))
            begin, kept = found.at(iteration, nodes[last:])
            out = derived.again(begin, nodes[1:first], active())
            sums = map(_sum, nodes[first:last], out[len(moving) :])
            return [iteration, *out[: len(moving)], *sums, *kept]

        try:
            finals = record.loop(start, test, body, self.what)
        except BaseException:
            found.discard()
            raise
        moved = dict(zip(moving, finals[1:first], strict=True))
        return self._in_order(moved, finals[first:last])


def _sum(a: Node, b: Node) -> Node:
    return a if is_zero(b) else ir.apply(op.add, a, b)
