"""Derivatives of symbolic loops, by recording them again.

Forward mode runs tangents along with the state. Reverse mode runs the loop backwards: a first pass
stores the variables at the beginning of every iteration, a second one visits iterations from the
last to the first, traces the body on what they began with, and propagates gradients through it. A
loop that only sums up terms needs no storage: the gradient of every term is that of the sum, so
that one pass, in any order, does.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ..ad import capture, graph, vector
from ..ad.graph import Value, Var, visible
from ..array import leaf, table
from ..function.custom import CustomOp, custom
from ..jit import access, op, record, schedule
from ..jit import dtype as dt
from ..jit import node as jit
from ..jit.dtype import DType
from ..jit.memory import allocate_for
from ..jit.node import AFTER, LARGEST, Node
from ..jit.scope import ACTIVE, active, stack
from .captured import closure_arrays
from .loop_trace import Trace
from .state import Content, State, assign, content

WHAT = "gradient of dr.while_loop()"
SUM = -1
MEMORY = 1 << 30
"""The number of bytes that stored variables of a loop may take."""
PACKET = 16


class Tape:
    """A recorded loop as its derivatives need it.

    `state` holds arrays of its own with what the variables were before, `places` are the positions
    that are symbolic, `changing` those of them that the loop changes. `sums` are the variables that
    it only adds to.
    """

    def __init__(
        self, what: str, state: State, before: list[Content], places: list[int], trace: Trace,
        changing: set[int], sums: set[int], limit: int | None,
    ) -> None:  # fmt: skip
        self.what, self.state, self.limit = what, state, limit
        self.before, self.places, self.around = before, places, trace.around
        given = {k for k in places if visible(before[k].var) is not None}
        self.tracked = trace.spread(given) & set(places)
        self.changing, self.sums = changing, sums & self.tracked
        self.inputs = sorted(given)
        self.outputs = sorted(self.tracked & changing)
        self.simple = all(
            k in self.sums and not trace.reach[k] & (set(self.outputs) - {k}) for k in self.outputs
        )
        self.test: Callable[[State], Node] = lambda state: ACTIVE
        self.body: Callable[[State], list[Content]] = lambda state: []
        self.captured: list[tuple[Any, Content]] = []
        self.size = 1

    # ---- Joining the graph

    def attached(self, finals: list[Node]) -> dict[int, Content]:
        """The final values of the variables, by position, as results of a differentiable
        operation."""
        self.size = max([n.size for n in finals], default=1)
        namespace = self._namespace()
        outputs = [_arrays(namespace, Value(finals[self.places.index(k)])) for k in self.outputs]
        inputs = [
            _arrays(namespace, Value(jit.literal(v.dtype, 0, v.size), v)) for v in self.wanted()
        ]
        results = custom(_Loop, self, outputs, inputs)
        return {k: Content(*_value(a)) for k, a in zip(self.outputs, results, strict=True)}

    def _namespace(self) -> str:
        return self.state.leaves[self.outputs[0]].__meta__.namespace

    def wanted(self) -> list[Var]:
        """The variables that gradients go to: of inputs, and captured ones."""
        found = [visible(self.before[k].var) for k in self.inputs]
        return [v for v in (*found, *self.around) if v is not None]

    # ---- Parts of the replays

    def pin(self, functions: Sequence[Callable[..., Any]]) -> None:
        """Notes what arrays hold that functions have captured: they may change later."""
        own = {id(a) for a in self.state.leaves}
        self.captured = [
            (a, content(a))
            for _, a in closure_arrays(functions)
            if id(a) not in own and a._n.op is not AFTER
        ]

    def _contents(self, nodes: Sequence[Node], tracked: bool) -> list[Content]:
        contents = [Content(v.node, v.var) for v in self.before]
        for k, n in zip(self.places, nodes, strict=True):
            contents[k] = Content(n, graph.new_input(n) if tracked and k in self.tracked else None)
        return contents

    def run_test(self, nodes: Sequence[Node]) -> Node:
        """The condition on given nodes."""
        with self._restored(self._contents(nodes, False)):
            return self.test(self.state)

    @contextmanager
    def iteration(
        self, nodes: Sequence[Node], tracked: bool = True
    ) -> Iterator[tuple[list[Content], list[Content]]]:
        """What variables hold before and after the body, from given nodes.

        Within, arrays are what the body has made of them. Its side effects, which the loop itself
        has had, are dropped.
        """
        contents = self._contents(nodes, tracked)
        with self._restored(contents):
            results = self.body(self.state)
            record.drop_effects()
            yield contents, results

    @contextmanager
    def _restored(self, contents: list[Content]) -> Iterator[None]:
        """Gives variables other contents for some time, and captured arrays those that they had
        when the loop ran."""
        now = [content(a) for a, _ in self.captured]
        for array, value in self.captured:
            assign(array, value)
        self.state.put(contents)
        try:
            yield
        finally:
            self.state.restore(self.before)
            for (array, _), value in zip(self.captured, now, strict=True):
                assign(array, value)

    def _nodes(self) -> list[Node]:
        return [self.before[k].node for k in self.places]

    # ---- Forward mode

    def forward(self, tangents: list[Node]) -> list[Node]:
        """The tangents of the outputs, from those of the inputs; captured variables have theirs."""
        given = dict(zip(self.inputs, tangents, strict=True))
        count = len(self.places)
        moving = self.outputs
        start = [given.get(k, _zero(self.before[k].node.dtype)) for k in moving]

        def body(nodes: list[Node]) -> list[Node]:
            current = dict(zip(moving, nodes[count:], strict=True))
            with capture.body(), self.iteration(nodes[:count]) as (contents, results):
                seeds = [
                    (contents[k].var, current[k] if k in current else given[k])
                    for k in sorted(self.tracked)
                    if k in current or k in given
                ]
                found = capture.push(seeds, self.around, [results[k].var for k in moving])
            out = [n or _zero(results[k].node.dtype) for k, n in zip(moving, found, strict=True)]
            return [*[results[k].node for k in self.places], *out]

        finals = record.loop(
            [*self._nodes(), *start], lambda nodes: self.run_test(nodes[:count]), body, self.what
        )
        return finals[count:]

    # ---- Reverse mode

    def backward(self, gradients: list[Node]) -> list[Node]:
        """The gradients of the wanted variables, from those of the outputs."""
        if self.limit == SUM and not self.simple:
            wrong = [k for k in self.outputs if k not in self.sums] or self.outputs
            raise RuntimeError(
                f"{self.what}: max_iterations=-1 promises a loop that only sums up terms which do "
                f"not depend on the sums, but variable '{self.state.paths[wrong[0]]}' is not such "
                "a sum. Leave 'max_iterations' out, or give an upper bound."
            )
        slots = capture.Slots()
        if self.simple:
            found = self._backward_sum(gradients, slots)
        else:
            found = self._backward_general(gradients, slots)
        for k, v in enumerate(self.wanted()):
            if v.size == 1 and found[k].size != 1 and not record.recording():
                found[k] = access.reduce_all("add", found[k])
            elif v.size == 1 and self.size > 1 and not record.recording():
                found[k] = jit.apply(op.mul, found[k], jit.literal(v.dtype, self.size))
            added = slots.pop(v)
            if added is not None:
                found[k] = added if v.size != found[k].size else _sum(added, found[k])
        return found

    def _fixed(self) -> list[int]:
        """The inputs that the loop does not change."""
        return [k for k in self.inputs if k not in self.changing]

    def _pull(
        self, contents: list[Content], results: list[Content], gradients: Sequence[Node],
        moving: Sequence[int],
    ) -> tuple[list[Node | None], list[Node | None]]:  # fmt: skip
        """The gradients of the variables `moving`, and of the fixed ones with captured variables,
        before an iteration, from those of the outputs after it."""
        seeds = [
            (v, g)
            for k, g in zip(self.outputs, gradients, strict=True)
            if (v := results[k].var) is not None
        ]
        wanted = [*moving, *self._fixed()]
        found = capture.pull(seeds, [contents[k].var for k in wanted], self.around)
        return found[: len(moving)], found[len(moving) :]

    def _collected(self) -> list[Node]:
        """The initial values of sums of gradients, of fixed inputs and captured variables."""
        kinds = [self.before[k].node.dtype for k in self._fixed()]
        return [_zero(t) for t in (*kinds, *[v.dtype for v in self.around])]

    def _in_order(self, moved: dict[int, Node], collected: list[Node]) -> list[Node]:
        """Gradients in the order of `wanted`."""
        fixed = dict(zip(self._fixed(), collected, strict=False))
        inputs = [moved[k] if k in moved else fixed[k] for k in self.inputs]
        return [*inputs, *collected[len(fixed) :]]

    def _backward_sum(self, gradients: list[Node], slots: capture.Slots) -> list[Node]:
        count = len(self.places)

        def body(nodes: list[Node]) -> list[Node]:
            with capture.body(slots), self.iteration(nodes[:count]) as (contents, results):
                _, more = self._pull(contents, results, gradients, ())
            sums = [_sum(n, g) for n, g in zip(nodes[count:], more, strict=True)]
            return [*[results[k].node for k in self.places], *sums]

        finals = record.loop(
            [*self._nodes(), *self._collected()],
            lambda nodes: self.run_test(nodes[:count]),
            body,
            self.what,
        )
        return self._in_order(dict(zip(self.outputs, gradients, strict=True)), finals[count:])

    def _backward_general(self, gradients: list[Node], slots: capture.Slots) -> list[Node]:
        moving = self.outputs
        count, at = self._trajectory(gradients)

        def test(nodes: list[Node]) -> Node:
            return jit.apply(op.ne, nodes[0], _number(0))

        def body(nodes: list[Node]) -> list[Node]:
            iteration = jit.apply(op.sub, nodes[0], _number(1))
            adjoints, sums = nodes[1 : 1 + len(moving)], nodes[1 + len(moving) :]
            begin = at(iteration)
            with capture.body(slots), self.iteration(begin) as (contents, results):
                found, more = self._pull(contents, results, adjoints, moving)
            out = [n or _zero(g.dtype) for n, g in zip(found, adjoints, strict=True)]
            return [iteration, *out, *[_sum(n, g) for n, g in zip(sums, more, strict=True)]]

        finals = record.loop([count, *gradients, *self._collected()], test, body, self.what)
        moved = dict(zip(moving, finals[1 : 1 + len(moving)], strict=True))
        return self._in_order(moved, finals[1 + len(moving) :])

    # ---- What the variables were in every iteration

    def _trajectory(self, gradients: list[Node]) -> tuple[Node, Callable[[Node], list[Node]]]:
        """The number of iterations of each lane, and a function that gives what the variables were
        at the beginning of an iteration."""
        vector = any(self.before[k].node.dtype.is_vector for k in self.changing)
        if record.recording() or vector:
            # The number of iterations, and so the amount of memory, is not known.
            return self._count(), lambda iteration: self._advanced(self._nodes(), iteration)
        needed = self._needed(gradients)
        bound = self.limit or 0
        if 0 < bound * self.size * 8 * len(needed) <= MEMORY:
            count, at = self._stored(bound, needed)
            if _most(count) <= bound:
                return count, at
        count = self._count()
        return count, self._stored(_most(count), needed)[1]

    def _count(self) -> Node:
        """The number of iterations of each lane."""
        return jit.resize(self._counting(self.run_test)[-1], self.size)

    def _counting(
        self,
        test: Callable[[Sequence[Node]], Node],
        start: list[Node] | None = None,
        visit: Callable[[list[Node]], None] = lambda nodes: None,
    ) -> list[Node]:
        """Runs the loop with a counter as the last variable; `visit` sees what the variables are in
        every iteration."""

        def body(nodes: list[Node]) -> list[Node]:
            with self.iteration(nodes[:-1], False) as (_, results):
                visit(nodes)
                after = jit.apply(op.add, nodes[-1], _number(1))
                return [*[results[k].node for k in self.places], after]

        state = [*(start or self._nodes()), _number(0)]
        if start is None:
            return record.loop(state, lambda nodes: test(nodes[:-1]), body, self.what)
        return record.loop(state, test, body, self.what)

    def _stored(
        self, iterations: int, stored: set[int]
    ) -> tuple[Node, Callable[[Node], list[Node]]]:
        """A pass that stores what the variables at given places are at the beginning of iterations:
        of all, or of so many that they fit into `MEMORY`, from which the others are computed again.
        Gives the number of iterations of each lane, which may be more, and a function that gives
        what the variables were.

        The iterations of a packet of lanes lie side by side.
        """
        lanes = -(-self.size // PACKET) * PACKET
        kinds = {k: self.before[k].node.dtype for k in self.places if k in self.changing}
        total = iterations * lanes * sum(t.itemsize for k, t in kinds.items() if k in stored)
        stride = max(1, -(-total // MEMORY), -(-iterations * lanes // LARGEST))
        if stride == 1:
            kinds = {k: t for k, t in kinds.items() if k in stored}
        rows = -(-iterations // stride)
        memory = {k: _unwritten(t, rows * lanes) for k, t in kinds.items()}
        every, lane = _number(stride), jit.lane(self.size)
        packet = jit.apply(op.mul, jit.apply(op.quotient, lane, _number(PACKET)), _number(rows))
        first = jit.apply(op.mul, packet, _number(PACKET))
        first = jit.apply(op.add, first, jit.apply(op.remainder, lane, _number(PACKET)))

        def place(iteration: Node) -> Node:
            row = jit.apply(op.quotient, iteration, every)
            return jit.apply(op.add, first, jit.apply(op.mul, row, _number(PACKET)))

        def store(nodes: list[Node]) -> None:
            inside = jit.apply(op.lt, nodes[-1], _number(iterations))
            index, mask = place(nodes[-1]), jit.apply(op.and_, inside, active())
            if stride > 1:
                rest = jit.apply(op.remainder, nodes[-1], every)
                mask = jit.apply(op.and_, mask, jit.apply(op.eq, rest, _number(0)))
            for k, n in zip(self.places, nodes, strict=False):
                if k in memory:
                    target = access.Target(memory.pop(k))
                    after = access.scatter(op.scatter, target, [n], index, mask, WHAT, checked=True)
                    if after is not None:
                        memory[k] = after

        count = self._counting(self.run_test, None, store)[-1]

        def at(iteration: Node) -> list[Node]:
            index, yes = place(iteration), jit.literal(dt.mask, True)
            begin = [
                access.gather(memory[k], index, yes, WHAT, inside=True)
                if k in memory
                else self.before[k].node
                for k in self.places
            ]
            if stride == 1:
                return begin
            return self._advanced(begin, jit.apply(op.remainder, iteration, every))

        return jit.resize(count, self.size), at

    def _needed(self, gradients: list[Node]) -> set[int]:
        """The places of the variables whose values the gradients of an iteration depend on."""
        found: set[int] = set()
        count = len(self.places)

        def body(nodes: list[Node]) -> list[Node]:
            with (
                capture.body(capture.Slots()),
                self.iteration(nodes[:count]) as (contents, results),
            ):
                moved, more = self._pull(contents, results, nodes[count:], self.outputs)
            effects = [d for e in stack()[-1].effects for d in e.deps]
            used = _above([n for n in (*moved, *more, *effects) if n is not None], nodes[0])
            found.update(k for k, n in zip(self.places, nodes, strict=False) if n in used)
            raise _Traced

        with suppress(_Traced):
            record.loop(
                [*self._nodes(), *gradients], lambda nodes: self.run_test(nodes[:count]), body
            )
        return found

    def _advanced(self, begin: list[Node], count: Node) -> list[Node]:
        """What the variables are some iterations later."""
        return self._counting(lambda nodes: jit.apply(op.lt, nodes[-1], count), begin)[:-1]


def _most(count: Node) -> int:
    """The largest of some numbers."""
    schedule.evaluate([count])
    numbers = leaf.host_node(count)
    return int(numbers.max()) if numbers.size else 0


class _Traced(Exception):
    """A body has been traced for inspection only."""


def _above(roots: list[Node], first: Node) -> set[Node]:
    """The nodes from `first` on that others depend on."""
    stack, seen = list(roots), set(roots)
    for n in stack:  # which grows
        for d in n.deps:
            if d.serial >= first.serial and d not in seen:
                seen.add(d)
                stack.append(d)
    return seen


def _number(value: int) -> Node:
    return jit.literal(dt.u32, value)


def _zero(dtype: DType) -> Node:
    return jit.literal(dtype, 0)


def _sum(a: Node, b: Node | None) -> Node:
    return a if b is None else jit.apply(op.add, a, b)


def _unwritten(dtype: DType, size: int) -> Node:
    """Memory of undefined contents."""
    if size == 0 or dtype.is_mask:
        return schedule.materialize(jit.literal(dtype, 0, size))
    return jit.buffer(dtype, size, allocate_for(dtype, size))


def _arrays(namespace: str, value: Value) -> Any:
    """An array of a namespace for a value; for a vector the list of its features."""
    cls = table.find(namespace, "leaf", value.node.dtype.element)
    if not value.node.dtype.is_vector:
        return leaf.from_value(cls, value)
    return [leaf.from_value(cls, feature) for feature in vector.unpack(value)]


def _value(arrays: Any) -> Value:
    """The value that `_arrays` has made arrays of."""
    if isinstance(arrays, list):
        return vector.pack([leaf.value(a) for a in arrays])
    return leaf.value(arrays)


class _Loop(CustomOp):
    """A symbolic loop in the graph of derivatives."""

    def eval(self, tape: Tape, outputs: list[Any], inputs: list[Any]) -> list[Any]:
        self.tape = tape
        return outputs

    def forward(self) -> None:
        tape = self.tape
        gradients = [_value(g).node for g in self.grad_in("inputs")]
        found = tape.forward(gradients[: len(tape.inputs)])
        namespace = tape._namespace()
        self.set_grad_out([_arrays(namespace, Value(n)) for n in found])

    def backward(self) -> None:
        tape = self.tape
        found = tape.backward([_value(g).node for g in self.grad_out()])
        namespace = tape._namespace()
        self.set_grad_in("inputs", [_arrays(namespace, Value(n)) for n in found])

    def name(self) -> str:
        return self.tape.what
