"""Derivatives of symbolic loops, computed from the recorded body.

Forward mode advances tangents along with the state. Reverse mode runs the loop backwards: it visits
iterations from the last to the first, computes the body again from the state at their beginning,
which a trajectory recovers, and propagates gradients through it. A loop that only sums up terms
needs no trajectory: the gradient of every term is that of the sum, so that one pass in any order
suffices.
"""

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ...ad import sink
from ...ad.algebra import RECORDED
from ...ad.bodies import OuterGradients, body_scope
from ...ad.graph import Value, Var, visible
from ...array import leaf
from ...jit import log
from ...jit.ir import dtype as dt
from ...jit.ir import op
from ...jit.ir.node import Node, apply, lane, literal, resize
from ...jit.ir.scope import ACTIVE, active, innermost
from ...jit.run import freeze, freeze_size, schedule
from ...jit.trace import access, record
from ..region.merging import masked
from ..region.recording import Memories, Recomputation, RecordedOp, RecordedRegion, Targets, is_zero

# ---- Trajectories: the state at the beginning of each iteration


_WHAT = "gradient of dr.while_loop()"
MEMORY = 1 << 30
"""Maximum memory, in bytes, for stored variables of a loop; with more, they are computed again."""
PACKET = 16
CHECKPOINTS = 12
"""Maximum number of iterations that a lane stores at a time. With this many, 2**12 iterations take
12/2 times as many steps as one pass."""


def u32(value: int) -> Node:
    """Returns a number as the value of a counter."""
    return literal(dt.u32, value)


def zero(dtype: dt.DType) -> Node:
    """Returns 0 as the initial value of a sum."""
    return literal(dtype, 0)


class StoredTrajectory:
    """The variables at the places `needed` in all iterations, whose number per lane is bounded.

    `count` is the number of iterations of each lane, which may exceed the bound. The iterations of
    a packet of lanes are stored side by side.
    """

    def __init__(self, loop: "RecordedLoop", iterations: int, needed: set[int]) -> None:
        self.loop, self.start = loop, []
        lanes = freeze_size.parts(loop.size, PACKET) * PACKET
        kinds = {k: t for k, t in loop.kinds().items() if k in needed}
        self._memory = memory = {k: _uninitialized(t, iterations * lanes) for k, t in kinds.items()}
        place = lane(loop.size)
        packet = apply(op.mul, apply(op.quotient, place, u32(PACKET)), u32(iterations))
        first = apply(op.mul, packet, u32(PACKET))
        self._first = apply(op.add, first, apply(op.remainder, place, u32(PACKET)))

        def store(nodes: list[Node]) -> None:
            mask = apply(op.lt, nodes[-1], u32(iterations))
            at = access.Access(self._place(nodes[-1]), mask, _WHAT, inside=True)
            for k, n in zip(loop.places, nodes, strict=False):
                if k in memory:
                    after = access.scatter(access.WriteTarget(memory.pop(k)), [n], at)
                    if after is not None:
                        memory[k] = after

        self.count = resize(loop.counting(store)[-1], loop.size)

    def _place(self, iteration: Node) -> Node:
        return apply(op.add, self._first, apply(op.mul, iteration, u32(PACKET)))

    def at(self, iteration: Node, carried: list[Node]) -> tuple[list[Node], list[Node]]:
        """Returns the needed variables at the beginning of an iteration. `carried` is what a
        reverse pass hands on from one iteration to the next, initially `start`; its new value is
        returned second.
        """
        at = access.Access(self._place(iteration), what=_WHAT, inside=True)
        begin = [
            access.gather(self._memory[k], at) if k in self._memory else self.loop.before[k].node
            for k in self.loop.places
        ]
        return begin, carried

    def discard(self) -> None:
        """Discards the storing pass if it has not yet run."""
        record.discard(list(self._memory.values()))


class CheckpointedTrajectory:
    """The variables at some earlier iterations, which every lane keeps on a stack: halfway from the
    beginning to the current iteration, halfway on from there, and so on. Recomputing `n` iterations
    takes `n * log2(n) / 2` steps as long as `CHECKPOINTS` entries are enough. `limit` is an upper
    bound on the number of iterations, if any.
    """

    def __init__(self, loop: "RecordedLoop", limit: int) -> None:
        self.loop = loop
        self.count = loop.count()
        self._depth = min(CHECKPOINTS, limit.bit_length()) if limit > 0 else CHECKPOINTS
        kinds = loop.kinds()
        # The bottom of the stack: the number of the iteration, and the variables.
        self._bottom = [u32(0), *[loop.before[k].node for k in kinds]]
        # The height of the stack, and its entries, with those of each variable side by side.
        types = [dt.u32, *kinds.values()]
        self.start = [u32(0), *[zero(t) for t in types for _ in range(self._depth)]]

    def at(self, iteration: Node, carried: list[Node]) -> tuple[list[Node], list[Node]]:
        """See `StoredTrajectory.at`."""
        height, columns = carried[0], self._columns(carried[1:])
        passed = apply(op.gt, _top(height, self._bottom[0], columns[0]), iteration)
        height = apply(op.select, passed, apply(op.sub, height, u32(1)), height)
        top = [_top(height, b, c) for b, c in zip(self._bottom, columns, strict=True)]
        width = len(top)

        def test(nodes: list[Node]) -> Node:
            return apply(op.lt, nodes[1], iteration)

        def body(nodes: list[Node]) -> list[Node]:
            """Goes half of the way and leaves a checkpoint there."""
            height, position, values = nodes[0], nodes[1], nodes[2 : 1 + width]
            left = apply(op.sub, iteration, position)
            half = apply(op.sub, left, apply(op.quotient, left, u32(2)))
            step = apply(op.select, apply(op.eq, height, u32(self._depth)), left, half)
            values = self._advanced(values, step)
            position = apply(op.add, position, step)
            between = apply(op.lt, position, iteration)
            height = apply(op.select, between, apply(op.add, height, u32(1)), height)
            columns = [
                [
                    apply(op.select, apply(op.and_, between, _is(height, k)), v, entry)
                    for k, entry in enumerate(column, 1)
                ]
                for v, column in zip(
                    [position, *values], self._columns(nodes[1 + width :]), strict=True
                )
            ]
            return [height, position, *values, *[n for c in columns for n in c]]

        found = record.loop([height, *top, *carried[1:]], test, body, self.loop.what)
        return self._begin(found[2 : 1 + width]), [found[0], *found[1 + width :]]

    def _columns(self, entries: list[Node]) -> list[list[Node]]:
        return [entries[k : k + self._depth] for k in range(0, len(entries), self._depth)]

    def _begin(self, values: list[Node]) -> list[Node]:
        moving = dict(zip(self.loop.kinds(), values, strict=True))
        return [moving.get(k, self.loop.before[k].node) for k in self.loop.places]

    def _advanced(self, values: list[Node], count: Node) -> list[Node]:
        after = self.loop.advanced(self._begin(values), count)
        return [n for k, n in zip(self.loop.places, after, strict=True) if k in self.loop.changing]

    def discard(self) -> None:
        """There is nothing to discard."""


def _is(height: Node, k: int) -> Node:
    return apply(op.eq, height, u32(k))


def _top(height: Node, bottom: Node, column: list[Node]) -> Node:
    """Returns the top of a stack."""
    value = bottom
    for k, entry in enumerate(column, 1):
        value = apply(op.select, _is(height, k), entry, value)
    return value


def trajectory(
    loop: "RecordedLoop", limit: int, places: set[int]
) -> StoredTrajectory | CheckpointedTrajectory:
    """Returns the earlier values of the variables at some places in a loop that takes at most
    `limit` iterations, if that is positive: in memory, unless the loop is part of a kernel with an
    unknown number of lanes, or they would take more than `MEMORY`."""
    kinds = loop.kinds()
    if record.recording() or any(t.is_vector for t in kinds.values()):
        return CheckpointedTrajectory(loop, limit)
    most = MEMORY // max(1, loop.size * sum(t.itemsize for k, t in kinds.items() if k in places))
    if 0 < limit <= most:
        found = StoredTrajectory(loop, limit, places)
        if _largest_count(found) <= limit:
            return found
    limit = _max_entry(loop.count())
    if limit <= most:
        return StoredTrajectory(loop, limit, places)
    return CheckpointedTrajectory(loop, limit)


def _largest_count(found: StoredTrajectory) -> int:
    """Returns the largest number of iterations of any lane."""
    try:
        return _max_entry(found.count)
    except BaseException:
        found.discard()
        raise


def _max_entry(count: Node) -> int:
    return freeze.largest(schedule.materialize(count))


def _uninitialized(dtype: dt.DType, size: int) -> Node:
    """Returns memory with arbitrary contents."""
    if size == 0 or dtype.is_mask:
        return schedule.materialize(literal(dtype, 0, size))
    return freeze.uninitialized(dtype, size)


# ---- The recorded loop


SUM = -1


class Dependences:
    """The dependences of a body's results on its inputs, by position: `reach[k]` are the inputs
    that result `k` depends on, `uses_outer` the results that depend on variables from outside, and
    `written` the inputs on which scatters, as further results, depend. `results` are variables or
    None, `inputs` the positions of the variables that stood for the state."""

    def __init__(
        self, body: RecordedRegion, results: Sequence[Var | None], inputs: dict[Var, int]
    ) -> None:
        self.body = body
        self.reach: list[set[int]] = []
        self.uses_outer: set[int] = set()
        for k, v in enumerate(results):
            sources = body.sources([v])
            self.reach.append({inputs[d] for d in sources if d in inputs})
            if any(d.serial < body.begin for d in sources):
                self.uses_outer.add(k)
        self.written: set[int] = set()
        if body.written:
            self.written = {inputs[d] for d in body.sources(body.scatters) if d in inputs}

    def closure(self, active: set[int]) -> set[int]:
        """Returns the positions whose values depend, after any number of iterations, on those of
        `active` or on earlier variables."""
        active = active | self.uses_outer
        while True:
            more = {k for k, reach in enumerate(self.reach) if reach & active} - active
            if not more:
                return active
            active |= more


class RecordedLoop(RecordedOp):
    """A recorded loop as its derivatives need it.

    `before` are the initial values of the variables, `paths` returns their names, `places` are the
    positions of those that are symbolic, and `changing` of those that the loop changes. `condition`
    is that of the loop, `recorded` the traced body, and `after` the symbolic variables after an
    iteration.

    `inputs` are the positions of differentiable variables, `outputs` those of differentiable
    results, and `free_variables` those from outside on which results depend. `sums` are the
    positions of variables that the loop only adds to, and `targets` what it writes to.
    """

    def __init__(
        self, what: str, paths: Callable[[], list[str]], before: list[Value], places: list[int],
        condition: Node, dependences: Dependences, targets: Targets, changing: set[int],
        sums: set[int], limit: int | None,
    ) -> None:  # fmt: skip
        self.what, self.paths, self.before = what, paths, before
        self.places, self.changing, self.condition = places, changing, condition
        self.recorded, self.targets, self.limit = dependences.body, targets, limit or 0
        self.free_variables = dependences.body.free_variables
        self.after = [dependences.body.results[k].node for k in places]
        self.size = 1
        # The loop that the nodes of the body belong to, until it has run.
        self.loop: weakref.ref[Node] | None = None
        self._mask = None if innermost() is None else active()
        given = {k for k in places if visible(before[k].var) is not None}
        tracked = dependences.closure(given) & set(places)
        self.sums = sums & tracked
        self.inputs, self.outputs = sorted(given), sorted(tracked & changing)
        # Replacements of entries are undone in reverse order.
        kinds = {kind for t in targets.rows for kind in t.kinds}
        self.simple = kinds <= {"add"} and not dependences.written & set(self.outputs)
        self.simple = self.simple and all(
            k in self.sums and not dependences.reach[k] & (set(self.outputs) - {k})
            for k in self.outputs
        )

    # ---- Connecting to the graph

    def attach(self, finals: list[Node]) -> dict[int, Value]:
        """Returns the final values of the variables, by position, as results of a differentiable
        operation."""
        self.size = max([n.size for n in finals], default=1)
        own = [n for k, n in zip(self.places, finals, strict=True) if k in self.changing]
        loops = [n.deps[0] for n in own if n.op is op.result and n.deps[0].op is op.loop]
        self.loop = weakref.ref(loops[0]) if loops else None
        outputs = [finals[self.places.index(k)] for k in self.outputs]
        pairs = zip(outputs, self._attach(outputs, self.differentiable_inputs()), strict=True)
        return {k: Value(*pair) for k, pair in zip(self.outputs, pairs, strict=True)}

    def differentiable_inputs(self) -> list[Var]:
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
        body, moving, outer_gradients = self.recorded, self.outputs, OuterGradients()
        kinds = [body.results[k].node.dtype for k in moving]
        fixed = [(body.inputs[k], given[k]) for k in self.inputs if k not in moving]

        def step(nodes: list[Node]) -> list[Node]:
            """Returns the tangents after an iteration, given those before."""
            seeds = [(body.inputs[k], n) for k, n in zip(moving, nodes, strict=True)]
            found = body.push(seeds + fixed, [body.results[k].var for k in moving], memories)
            return [n or zero(t) for t, n in zip(kinds, found, strict=True)]

        start = [given.get(k, zero(self.before[k].node.dtype)) for k in moving]
        with body_scope(outer_gradients, body.begin):
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
        outer_gradients = OuterGradients()
        count = len(self.outputs)
        memories = self.targets.gradients(gradients[count:])
        if self.simple or self.limit == SUM:
            found = self._backward_sum(gradients[:count], memories, outer_gradients)
        else:
            found = self._backward_general(gradients[:count], memories, outer_gradients)
        for k, v in enumerate(self.differentiable_inputs()):
            if v.size == 1:
                found[k] = sink.summed_contribution(v, Value(found[k]), self.size).node
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
        name = f"'{self.paths()[wrong[0]]}'" if wrong else "an array"
        hint = "Leave 'max_iterations' out, or give an upper bound."
        text = (
            f"{self.what}: max_iterations=-1 promises a loop that only sums up terms which do not "
            f"depend on the sums, but variable {name} is not such a sum"
        )
        kinds = {kind for t in self.targets.rows for kind in t.kinds}
        if {*self.inputs} & {*self.outputs} or not kinds <= {"add"}:
            raise RuntimeError(f"{text}. {hint}")
        log.log_once(f"{text}: its derivatives are those of each iteration by itself. {hint}")

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
        """Returns gradients in the order of `differentiable_inputs`."""
        fixed = dict(zip(self._fixed(), collected, strict=False))
        inputs = [moved[k] if k in moved else fixed[k] for k in self.inputs]
        return [*inputs, *collected[len(fixed) :]]

    def _backward_sum(
        self, gradients: list[Node], memories: Memories, outer_gradients: OuterGradients
    ) -> list[Node]:
        def pull(sums: list[Node]) -> list[Node]:
            return [*map(_sum, sums, self._pull(gradients, memories, ())[1])]

        found = self.repeated(self._collected(), pull, outer_gradients)
        return self._in_order(dict(zip(self.outputs, gradients, strict=True)), found)

    def _backward_general(
        self, gradients: list[Node], memories: Memories, outer_gradients: OuterGradients
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
            return apply(op.ne, nodes[0], u32(0))

        def body(nodes: list[Node]) -> list[Node]:
            iteration = apply(op.sub, nodes[0], u32(1))
            begin, carried = found.at(iteration, nodes[last:])
            out = derived.again(begin, nodes[1:first], active())
            sums = map(_sum, nodes[first:last], out[len(moving) :])
            return [iteration, *out[: len(moving)], *sums, *carried]

        try:
            finals = record.loop(start, test, body, self.what)
        except BaseException:
            found.discard()
            raise
        return self._in_order(dict(zip(moving, finals[1:first], strict=True)), finals[first:last])

    def lanes(self) -> AbstractContextManager[Any]:
        """Restricts what is traced to the lanes that the loop was recorded for."""
        if self._mask is None or self._mask is active():
            return nullcontext()
        return masked(self._mask)

    def nodes(self) -> list[Node]:
        """The initial values of the variables at `places`."""
        return [self.before[k].node for k in self.places]

    def kinds(self) -> dict[int, dt.DType]:
        """The types of the changing variables."""
        return {k: self.before[k].node.dtype for k in self.places if k in self.changing}

    # ---- Running again: in a kernel, from given values of the variables, or by iterations

    def run_test(self, nodes: Sequence[Node]) -> Node:
        """Returns the condition of a loop for given nodes."""
        return self.recorded.substitution(nodes, active())([self.condition])[0]

    def run_body(self, nodes: Sequence[Node]) -> list[Node]:
        """Returns the result of the body of a loop for given nodes."""
        return self.recorded.substitution(nodes, active())(self.after)

    def count(self) -> Node:
        """Returns the number of iterations of each lane."""
        return resize(self.counting()[-1], self.size)

    def counting(self, visit: Callable[[list[Node]], None] = lambda nodes: None) -> list[Node]:
        """Runs the loop with a counter as an additional last variable; `visit` sees it in every
        iteration along with the others. If the loop has not run, this need not run it twice."""

        def step(nodes: list[Node]) -> list[Node]:
            visit([*self.recorded.nodes, *nodes])
            return [apply(op.add, nodes[0], u32(1))]

        found = self.extended([u32(0)], step)
        if found is not None:
            return found

        def body(nodes: list[Node]) -> list[Node]:
            visit(nodes)
            return [*self.run_body(nodes[:-1]), apply(op.add, nodes[-1], u32(1))]

        start = [*self.nodes(), u32(0)]
        return record.loop(start, lambda nodes: self.run_test(nodes[:-1]), body, self.what)

    def extended(self, start: list[Node], step: record.Body) -> list[Node] | None:
        """Adds variables, which `step` advances, to the recorded loop and returns their final
        values; None if it has run, or belongs to an open recording."""
        loop = self.loop and self.loop()
        return None if loop is None else record.extend(loop, start, step)

    def repeated(
        self, start: list[Node], step: record.Body, outer_gradients: OuterGradients
    ) -> list[Node]:
        """Runs the loop again, with additional variables, which `step` advances while propagating
        derivatives. Returns their final values."""
        count = len(self.places)
        with self.recorded.derived(outer_gradients) as derived:
            derived.close([*self.after, *step(derived.stand_ins(start))])
        finals = record.loop(
            [*self.nodes(), *start],
            lambda nodes: self.run_test(nodes[:count]),
            lambda nodes: derived.again(nodes[:count], nodes[count:], active()),
            self.what,
        )
        return finals[count:]

    def advanced(self, begin: list[Node], count: Node) -> list[Node]:
        """Returns the variables some iterations later."""

        def body(nodes: list[Node]) -> list[Node]:
            return [*self.run_body(nodes[:-1]), apply(op.sub, nodes[-1], u32(1))]

        left = lambda nodes: apply(op.ne, nodes[-1], u32(0))  # noqa: E731
        return record.loop([*begin, count], left, body, self.what)[:-1]

    def unrolled(self, enclosing: Recomputation | None) -> list[Value]:
        """Returns the final contents of the variables, computed iteration by iteration with
        differentiable operations. `enclosing` is the body that contains the loop, if that is
        recomputed as well.

        Raises:
            RuntimeError: the loop is part of an open recording, so the number of iterations is
                unknown, or vectors are among its variables.
        """
        if record.recording() or any(t.is_vector for t in self.kinds().values()):
            raise RuntimeError(
                f"{self.what}: ADFlag.KeepGraph needs derivatives of derivatives, for which "
                "symbolic loops are carried out step by step. That is not possible while another "
                "loop, branch or call around them is recorded, nor with cooperative vectors as "
                "variables. Use mode='evaluated' for what is around."
            )
        body, contents, active_mask = self.recorded, self.before, self._mask or ACTIVE
        if enclosing is not None:
            contents = enclosing.values(contents)
            (active_mask,) = enclosing.copies([active_mask])
        contents = [*contents]
        while True:
            nodes = [contents[k].node for k in self.places]
            copied = body.substitution(nodes, active_mask, enclosing=enclosing and enclosing.copies)
            active_mask = apply(op.and_, active_mask, copied([self.condition])[0])
            schedule.evaluate(nodes)
            # A mask that stands for all lanes of a kernel cannot be evaluated.
            if active_mask is not ACTIVE and not leaf.any_set(active_mask):
                return contents
            again = body.recomputed(contents, self.places, active_mask, enclosing)
            mask = Value(literal(dt.mask, True) if active_mask is ACTIVE else active_mask)
            results = again.values(body.results)
            for k in self.changing:
                contents[k] = RECORDED.select(mask, results[k], contents[k])


def _sum(a: Node, b: Node) -> Node:
    return a if is_zero(b) else apply(op.add, a, b)
