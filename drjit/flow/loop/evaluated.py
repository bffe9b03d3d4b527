"""Loops that run one iteration at a time: each is evaluated before the next one is traced, as long
as some lane is active."""

from typing import TYPE_CHECKING, Any, cast

from ...ad.graph import Value
from ...ad.segments import Iterations
from ...array import leaf, leaf_access
from ...function.ad.propagate import isolate_grad
from ...function.conversion import flat_class
from ...function.evaluation import evaluate
from ...jit.ir import dtype as dt
from ...jit.ir import op, scope
from ...jit.ir.node import LITERAL, Node
from ...jit.run.schedule import as_data
from ...jit.trace import record
from ...jit.trace.access import Access
from ..region.merging import masked, merged
from ..region.state import PrivateState, State, WeakValue

if TYPE_CHECKING:
    from .while_loop import ArrayLoop


def run(loop: "ArrayLoop", before: list[Any], compress: bool) -> tuple:
    """Returns the final values of the variables, which initially hold `before`. Gradients
    propagated in iterations continue outside the loop when it has ended."""
    tables = _tables(before, loop.test._node.size)
    for k in tables:
        before[k] = None  # nothing else may hold what the loop writes to
    with isolate_grad(), scope.running():
        private = PrivateState(loop.start, tables.keys())
        state, active = private.state, leaf.wrap(type(loop.test), loop.test._node)
        for array in [active, *state.leaves]:
            n = array._node
            # As data, so that the first iteration needs no kernel of its own.
            if n.op is LITERAL and 1 < n.size == loop.test._node.size:
                array._node = as_data(n, active._device)
        # Enclosing masks cover all lanes, so none can be dropped.
        compress = compress and scope.active() is scope.ACTIVE
        lanes = _Lanes(before, active._node.size) if compress else None
        memory = {k: table.serial for k, table in tables.items()}
        steps = Iterations()
        try:
            while True:
                evaluate([active._node, *[a._node for a in state.leaves]])
                _end_iteration(steps, state)
                if not leaf.any_set(active._node, active._device):
                    break
                if lanes is not None:
                    active = lanes.compress(state, active, memory)
                dropped = lanes is not None and lanes.lane is not None
                with masked(active._node) as written:
                    state = _iteration(loop, state, active, memory, tables, dropped, written)
                    test = loop.run_cond(state)
                active = leaf.apply(op.and_, active, leaf.wrap(type(active), test._node))
            if lanes is not None:
                lanes.expand(state, memory)
        except BaseException as error:
            if lanes is not None and lanes.lane is not None:
                error.add_note(
                    f"{loop.what}: with compress=True, the body only sees the lanes that go on. "
                    "All arrays that it uses have to be variables of the loop, or have one entry."
                )
            record.discard_writes([t.memory for t in tables.values()])
            old = {k: table.recovered() for k, table in tables.items()}
            loop.start.restore([old.get(k, v) for k, v in enumerate(before)])
            raise
        return private.returned(state.values)


def _tables(before: list[Value], size: int) -> dict[int, WeakValue]:
    """Returns, by position, the arrays whose size differs from the lanes, so that a body can only
    gather from them or scatter to them."""
    return {
        k: WeakValue(v) for k, v in enumerate(before) if size != 1 and v.node.size not in (1, size)
    }


def _iteration(
    loop: "ArrayLoop",
    state: State,
    active: Any,
    memory: dict[int, int],
    tables: dict[int, WeakValue],
    dropped: bool,
    written: set[int],
) -> State:
    """Returns the state after an iteration of the active lanes; `dropped` says that these are not
    all.

    `memory` maps the positions of `tables`, and of other arrays that the body writes to by masked
    scatters, to the serial numbers of their nodes. `written` receives the serial numbers of all
    nodes created by scatters.
    """
    # Only such an array may hold its node, or it would have to be copied.
    saved = [None if k in memory else v for k, v in enumerate(state.contents())]
    after, arrays = loop.run_body(state, written)
    values = leaf.values(arrays)
    size = active._node.size
    loop.check_sizes(state, saved, values, size, written, not dropped)
    for k, (array, old) in enumerate(zip(arrays, saved, strict=True)):
        serial = array._node.serial
        if serial in written:
            memory[k] = serial
        elif old is not None:
            now = values[k]
            is_vector = now.node.dtype.is_vector
            if now != old and not (is_vector and _has_put(now.node, old.node)):
                values[k] = merged(active, now, old)
        elif memory[k] != serial:
            if k in tables:
                only = [None] * k + [tables[k].stand_in()]
                loop.check_sizes(state, only, values[: k + 1], size)
            raise RuntimeError(
                f"{loop.what}: variable '{state.paths[k]}' is the target of a scatter, and changes "
                "in other ways as well. Use two variables."
            )
    state.put(saved)
    return State(state.place(after, values, True), state.titles, state.what)


def _end_iteration(steps: Iterations, state: State) -> None:
    """Assigns new derivative variables, which the next iteration starts from, to what has changed
    in an iteration."""
    tracked = [a for a in state.leaves if a._var is not None]
    if tracked:
        ended = steps.end(leaf.values(tracked))
        for array, v in zip(tracked, ended, strict=True):
            array._var = v


def _has_put(after: Node, before: Node) -> bool:
    """Returns whether a vector equals another one, except for features of active lanes."""
    while after.op is op.put:
        after = after.deps[0]
    return after is before


class _Lanes:
    """The lanes that are still in the loop, and the values of those that have left it.

    `lane` are the numbers of the current lanes, None as long as these are all; `full` are arrays of
    all `size` lanes by position, where they have changed; and `stored_nodes` are the nodes whose
    values `full` holds.
    """

    def __init__(self, before: list[Value | None], size: int) -> None:
        self.before, self.size = before, size
        self.lane: Any = None
        self.full: dict[int, Any] = {}
        self.stored_nodes = [None if v is None else v.node for v in before]

    def compress(self, state: State, active: Any, memory: dict[int, int]) -> Any:
        """Drops inactive lanes once they are half of the current ones."""
        size = active._node.size
        if size == 1 or active._node.op is LITERAL:
            return active
        cls = type(active)
        chosen = leaf_access.compress(active, flat_class(cls, dt.u32))
        count = chosen._node.size
        if 2 * count > size:
            return active
        self._store(state, size, memory)
        at = Access(chosen._node, what="dr.while_loop", inside=True)
        for k, array in enumerate(state.leaves):
            if array._node.size == size and k not in memory:
                picked = leaf_access.gather(array, at)
                leaf.assign(array, leaf.value(picked))
                self.stored_nodes[k] = picked._node
        if self.lane is not None:
            chosen = leaf_access.gather(self.lane, at)
        self.lane = chosen
        return leaf.literal(cls, True, count)

    def expand(self, state: State, memory: dict[int, int]) -> None:
        """Restores the values of all lanes in the variables."""
        if self.lane is None:
            return
        self._store(state, self.lane._node.size, memory)
        for k, array in enumerate(state.leaves):
            if k not in memory:
                before = cast(Value, self.before[k])
                leaf.assign(array, leaf.value(self.full[k]) if k in self.full else before)

    def _store(self, state: State, size: int, memory: dict[int, int]) -> None:
        """Stores changes of the variables in the current lanes."""
        for k, array in enumerate(state.leaves):
            if k in memory or array._node is self.stored_nodes[k]:
                continue
            if self.lane is None:
                self.full[k] = leaf.resize(array, self.size)
                continue
            if k not in self.full:
                before = cast(Value, self.before[k])
                initial = leaf.wrap(type(array), before.node)
                leaf.assign(initial, before)
                self.full[k] = leaf.resize(initial, self.size)
            at = Access(self.lane._node, what="dr.while_loop")
            leaf_access.scatter(self.full[k], [leaf.resize(array, size)], at)
