"""Copies values of lanes out of a running kernel, so that recorded code can print them.

Each lane that reaches the statement claims the next slot with an atomic counter and writes its
values there.
"""

from ..device import current
from ..ir import dtype as dt
from ..ir import op
from ..ir.node import BUFFER, Node, apply, broadcast_size, buffer, literal, make
from ..lazy import np
from ..run import launch, pending
from .access import Access, Replacement, scatter


class Sample:
    """The values that up to `capacity` executions of a statement saw."""

    __slots__ = ("_arrays", "_counter", "capacity")

    def __init__(self, values: list[Node], active: Node, capacity: int, what: str) -> None:
        self.capacity = capacity
        size = broadcast_size((*values, active), what)
        if active.op is op.literal:
            active = literal(dt.mask, active.data, size)
        at = Access(literal(dt.u32, 0), active, what)
        self._counter = scatter(Replacement(_zeros(dt.u32, 1)), [], at, op.scatter_inc)
        self._arrays: list[Node] = []
        if self._counter is None:  # there are no lanes
            return
        slot = pending.old_value(self._counter, dt.u32)
        taken = apply(op.lt, slot, literal(dt.u32, capacity))
        if active.op is not op.literal:
            taken = apply(op.and_, taken, active)
        # Not a literal where values have size 1: within a body, the kernel may have more lanes.
        at = Access(slot, taken, what, inside=True)
        for value in (make(op.lane, dt.u32, size, (), current()), *values):
            after = scatter(Replacement(_zeros(value.dtype, capacity)), [value], at)
            if after is not None:
                self._arrays.append(after)

    @property
    def is_complete(self) -> bool:
        """Whether the kernel that contains the statement has been launched: an observer of
        evaluations (`schedule.observers`) waits for that."""
        return self._counter is None or self._counter.op is BUFFER

    def read(self) -> tuple[int, np.ndarray, list[np.ndarray]]:
        """Returns how often the statement was executed, and the lanes and values of the executions
        that were kept, lane by lane and in execution order within each lane."""
        if self._counter is None:
            return 0, np.zeros(0, np.uint32), []
        count = int(launch.to_numpy(dt.u32, 1, self._counter.data)[0])
        kept = min(count, self.capacity)
        found = [launch.to_numpy(n.dtype, n.size, n.data)[:kept] for n in self._arrays]
        order = np.argsort(found[0], kind="stable")
        lanes, *values = [array[order] for array in found]
        return count, lanes, values


def _zeros(dtype: dt.DType, size: int) -> Node:
    return buffer(dtype, size, launch.from_numpy(dtype, np.zeros(size, dtype.numpy)))
