"""Recovery of a loop's variables at the beginning of each iteration, for reverse-mode derivatives,
which visit iterations from last to first.

`StoredTrajectory` keeps them in memory. If that is impossible, because the loop is part of a kernel
with an unknown number of lanes, `CheckpointedTrajectory` keeps a few of them in each lane and
recomputes the ones in between.
"""

from typing import TYPE_CHECKING

from ...jit.ir import dtype as dt
from ...jit.ir import node as ir
from ...jit.ir import op
from ...jit.ir.dtype import DType
from ...jit.ir.node import LARGEST, Node
from ...jit.run import freeze, freeze_size, schedule
from ...jit.trace import access, record
from ...jit.trace.access import Access, Replacement

if TYPE_CHECKING:
    from .gradient import RecordedLoop

_WHAT = "gradient of dr.while_loop()"
MEMORY = 1 << 30
"""Maximum memory, in bytes, for stored variables of a loop."""
PACKET = 16
CHECKPOINTS = 12
"""Maximum number of iterations that a lane stores at a time. With this many, 2**12 iterations take
12/2 times as many steps as one pass."""


def number(value: int) -> Node:
    """Returns the value of a counter."""
    return ir.literal(dt.u32, value)


def zero(dtype: DType) -> Node:
    """Returns the initial value of a sum."""
    return ir.literal(dtype, 0)


class StoredTrajectory:
    """The variables at the places `needed` in all iterations, whose number per lane is bounded, or
    in as many as fit into `MEMORY`, from which the others are recomputed.

    `count` is the number of iterations of each lane, which may exceed the bound. The iterations of
    a packet of lanes are stored side by side.
    """

    def __init__(self, replay: "RecordedLoop", iterations: int, needed: set[int]) -> None:
        self.replay, self.start = replay, []
        lanes = freeze_size.parts(replay.size, PACKET) * PACKET
        kinds = replay.kinds()
        total = iterations * lanes * sum(t.itemsize for k, t in kinds.items() if k in needed)
        self._stride = max(1, -(-total // MEMORY), -(-iterations * lanes // LARGEST))
        if self._stride == 1:
            kinds = {k: t for k, t in kinds.items() if k in needed}
        rows = -(-iterations // self._stride)
        self._memory = memory = {k: _unwritten(t, rows * lanes) for k, t in kinds.items()}
        lane = ir.lane(replay.size)
        packet = ir.apply(op.mul, ir.apply(op.quotient, lane, number(PACKET)), number(rows))
        first = ir.apply(op.mul, packet, number(PACKET))
        self._first = ir.apply(op.add, first, ir.apply(op.remainder, lane, number(PACKET)))

        def store(nodes: list[Node]) -> None:
            mask = ir.apply(op.lt, nodes[-1], number(iterations))
            if self._stride > 1:
                mask = ir.apply(
                    op.and_, mask, ir.apply(op.eq, self._remainder(nodes[-1]), number(0))
                )
            at = Access(self._place(nodes[-1]), mask, _WHAT, inside=True)
            for k, n in zip(replay.places, nodes, strict=False):
                if k in memory:
                    after = access.scatter(Replacement(memory.pop(k)), [n], at)
                    if after is not None:
                        memory[k] = after

        count = replay.counting(store)[-1]
        self.count = ir.resize(count, replay.size)

    def _remainder(self, iteration: Node) -> Node:
        return ir.apply(op.remainder, iteration, number(self._stride))

    def _place(self, iteration: Node) -> Node:
        row = ir.apply(op.quotient, iteration, number(self._stride))
        return ir.apply(op.add, self._first, ir.apply(op.mul, row, number(PACKET)))

    def at(self, iteration: Node, kept: list[Node]) -> tuple[list[Node], list[Node]]:
        """Returns the needed variables at the beginning of an iteration. `kept` is what a reverse
        pass hands on from one iteration to the next, initially `start`; its new value is returned
        second.
        """
        at = Access(self._place(iteration), what=_WHAT, inside=True)
        begin = [
            access.gather(self._memory[k], at) if k in self._memory else self.replay.before[k].node
            for k in self.replay.places
        ]
        if self._stride > 1:
            begin = self.replay.advanced(begin, self._remainder(iteration))
        return begin, kept

    def discard(self) -> None:
        """Discards the storing pass if it has not yet run."""
        record.discard(list(self._memory.values()))


class CheckpointedTrajectory:
    """The variables at some earlier iterations, which every lane keeps on a stack: halfway from the
    beginning to the current iteration, halfway from there, and so on. Recomputing `n` iterations
    takes `n * log2(n) / 2` steps as long as `CHECKPOINTS` entries are enough. `limit` is an upper
    bound on the number of iterations, if any.
    """

    def __init__(self, replay: "RecordedLoop", limit: int) -> None:
        self.replay = replay
        self.count = replay.count()
        self._depth = min(CHECKPOINTS, limit.bit_length()) if limit > 0 else CHECKPOINTS
        kinds = replay.kinds()
        # The bottom of the stack: the number of the iteration, and the variables.
        self._bottom = [number(0), *[replay.before[k].node for k in kinds]]
        # The height of the stack, and its entries, with those of each variable side by side.
        types = [dt.u32, *kinds.values()]
        self.start = [number(0), *[zero(t) for t in types for _ in range(self._depth)]]

    def at(self, iteration: Node, kept: list[Node]) -> tuple[list[Node], list[Node]]:
        """See `StoredTrajectory.at`."""
        height, columns = kept[0], self._columns(kept[1:])
        passed = ir.apply(op.gt, _chosen(height, self._bottom[0], columns[0]), iteration)
        height = ir.apply(op.select, passed, ir.apply(op.sub, height, number(1)), height)
        top = [_chosen(height, b, c) for b, c in zip(self._bottom, columns, strict=True)]
        width = len(top)

        def test(nodes: list[Node]) -> Node:
            return ir.apply(op.lt, nodes[1], iteration)

        def body(nodes: list[Node]) -> list[Node]:
            """Goes half of the way and leaves a checkpoint there."""
            height, position, values = nodes[0], nodes[1], nodes[2 : 1 + width]
            left = ir.apply(op.sub, iteration, position)
            half = ir.apply(op.sub, left, ir.apply(op.quotient, left, number(2)))
            full = ir.apply(op.eq, height, number(self._depth))
            step = ir.apply(op.select, full, left, half)
            values = self._advanced(values, step)
            position = ir.apply(op.add, position, step)
            between = ir.apply(op.lt, position, iteration)
            more = ir.apply(op.add, height, number(1))
            height = ir.apply(op.select, between, more, height)
            columns = [
                [
                    ir.apply(op.select, ir.apply(op.and_, between, _is(height, k)), v, entry)
                    for k, entry in enumerate(column, 1)
                ]
                for v, column in zip(
                    [position, *values], self._columns(nodes[1 + width :]), strict=True
                )
            ]
            return [height, position, *values, *[n for c in columns for n in c]]

        found = record.loop([height, *top, *kept[1:]], test, body, self.replay.what)
        return self._begin(found[2 : 1 + width]), [found[0], *found[1 + width :]]

    def _columns(self, entries: list[Node]) -> list[list[Node]]:
        return [entries[k : k + self._depth] for k in range(0, len(entries), self._depth)]

    def _begin(self, values: list[Node]) -> list[Node]:
        moving = dict(zip(self.replay.kinds(), values, strict=True))
        return [moving.get(k, self.replay.before[k].node) for k in self.replay.places]

    def _advanced(self, values: list[Node], count: Node) -> list[Node]:
        after = self.replay.advanced(self._begin(values), count)
        return [
            n for k, n in zip(self.replay.places, after, strict=True) if k in self.replay.changing
        ]

    def discard(self) -> None:
        """Does nothing: there is nothing to discard."""


def _is(height: Node, k: int) -> Node:
    return ir.apply(op.eq, height, number(k))


def _chosen(height: Node, bottom: Node, column: list[Node]) -> Node:
    """Returns the top of a stack."""
    value = bottom
    for k, entry in enumerate(column, 1):
        value = ir.apply(op.select, _is(height, k), entry, value)
    return value


def trajectory(
    replay: "RecordedLoop", limit: int, places: set[int]
) -> StoredTrajectory | CheckpointedTrajectory:
    """Returns the earlier values of the variables at some places in a loop that takes at most
    `limit` iterations, if that is positive."""
    if record.recording() or any(t.is_vector for t in replay.kinds().values()):
        return CheckpointedTrajectory(replay, limit)
    if 0 < limit * replay.size * 8 * len(places) <= MEMORY:
        found = StoredTrajectory(replay, limit, places)
        if _most(found) <= limit:
            return found
    return StoredTrajectory(replay, _largest(replay.count()), places)


def _most(found: StoredTrajectory) -> int:
    """Returns the largest number of iterations of any lane."""
    try:
        return _largest(found.count)
    except BaseException:
        found.discard()
        raise


def _largest(count: Node) -> int:
    return freeze.largest(schedule.materialize(count))


def _unwritten(dtype: DType, size: int) -> Node:
    """Returns memory with undefined contents."""
    if size == 0 or dtype.is_mask:
        return schedule.materialize(ir.literal(dtype, 0, size))
    return freeze.uninitialized(dtype, size)
