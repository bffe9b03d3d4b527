"""Indexed access to buffers: gathers, scatters, and atomic updates, as nodes.

Indices are checked against the size of the buffer unless `JitFlag.BoundsChecks` is off. A scatter
writes in place if nothing else holds the target, and otherwise to a copy.
"""

import weakref
from collections.abc import Callable
from typing import Any

from .. import flags
from ..device import Device
from ..flags import JitFlag
from ..ir import dtype as dt
from ..ir import effects, op
from ..ir.dtype import DType
from ..ir.location import user_location
from ..ir.node import (
    AFTER,
    BUFFER,
    LITERAL,
    Node,
    apply,
    bitcast,
    broadcast_size,
    cast,
    literal,
    make,
    resize,
)
from ..ir.scope import ACTIVE, WRITTEN, StateTarget, innermost, stack
from ..ir.scope import lanes as group_lanes
from ..run import schedule
from ..run.launch import OutOfBoundsError, out_of_bounds

# Above this number of entries, a scatter-reduction with `ReduceMode.Auto` uses atomics rather than
# private copies.
expand_threshold = 1 << 20

releases: list[Callable[[], None]] = []
"""Callbacks that release nodes that are no longer needed; called before a target is copied because
it is still held."""


def _unsigned(index: Node) -> Node:
    """Casts an index to `u32` or `u64`, which turns negative ones into huge, out-of-bounds ones."""
    t = index.dtype
    if t.bits < 32:
        index = cast(dt.i32 if t.is_signed else dt.u32, index)
        t = index.dtype
    return bitcast(dt.u32 if t.bits == 32 else dt.u64, index)


def bounds(
    index: Node, active: Node, size: int, what: str, packet: int = 1, inside: bool = False
) -> tuple[Node, Node]:
    """Returns the unsigned index and the mask of lanes that may access a buffer of `size` entries,
    or of packets of `count` entries each. `inside` promises that no index is out of bounds.

    Raises:
        IndexError: a constant index is out of bounds.
        TypeError: the index is not an integer, or `active` is not a mask.
    """
    if not index.dtype.is_int:
        raise TypeError(f"{what}: the index must be an integer array, not {index.dtype.name}")
    if not active.dtype.is_mask:
        raise TypeError(f"{what}: 'active' must be a mask, not {active.dtype.name}")
    if active.op is op.in_bounds and active.deps[:1] == (index,):
        limits = active.data  # read after the operands: a node that is being evaluated has neither
        if limits is not None and limits[4:] == (size, packet) and innermost() is None:
            return index, active
    signed = index.dtype.is_signed
    count = size // packet
    certain = index.op is LITERAL and active.op is LITERAL and active.data
    if certain and index.size * active.size and not 0 <= index.data < count:
        raise OutOfBoundsError(out_of_bounds(what, index.data, size, packet))
    scope = innermost()
    if certain:
        return _unsigned(index), ACTIVE if scope is None else scope.mask
    index = _unsigned(index)
    if size >= 1 << 31:
        index = cast(dt.u64, index)
    lanes_active = ACTIVE if scope is None else scope.mask
    if active.op is LITERAL and active.data:
        active = lanes_active
    elif active.op is not LITERAL and active is not lanes_active:
        active = apply(op.and_, active, lanes_active)
    if flags.current & JitFlag.BoundsChecks and active.op is not LITERAL and not inside:
        lanes = broadcast_size((index, active), what)
        data = (count, what, user_location(), signed, size, packet)
        active = make(op.in_bounds, dt.mask, lanes, (index, active), data)
    return index, active


def refuse_written(source: Node, what: str) -> None:
    """Raises a RuntimeError if an open recording of this thread computes the array or writes to
    it."""
    if source.op is op.state:
        raise StateTarget(source, False)
    if source.op is AFTER and any(source.deps[0] in s.effects for s in stack()):
        raise RuntimeError(f"{what}: {WRITTEN}")


def entry_index(index: Node, size: int) -> Node:
    """Returns the index with which to gather from a source of `size` entries; a source of one entry
    is read at index 0 by all lanes."""
    return literal(dt.u32, 0, index.size) if size == 1 else index


def gather(
    source: Node, index: Node, active: Node, what: str = "gather", inside: bool = False
) -> Node:
    """Returns the entries of `source` at `index`, or 0 where `active` is false or the index is out
    of bounds; `inside` promises that none is. A source with one entry, or a literal one, is
    broadcast to all indices.
    """
    if innermost() is not None:
        refuse_written(source, what)
    lanes = broadcast_size((index, active), what)
    dtype = source.dtype
    constant = source.op is LITERAL and source.size > 0
    if constant or source.size == 1:
        index = literal(dt.u32, 0, index.size)
        _, mask = bounds(index, active, 1, what, 1, True)
        value = literal(dtype, source.data) if constant else source
        if mask.op is LITERAL:
            value = literal(dtype, 0)
        elif mask is not ACTIVE:
            value = apply(op.select, mask, value, literal(dtype, 0))
        return resize(value, lanes if lanes != 1 else mask.size)
    index, mask = bounds(index, active, source.size, what, 1, inside)
    if lanes == 1:
        lanes = mask.size  # the lanes to which code is restricted
    if mask.op is LITERAL:
        return literal(dtype, 0, lanes)
    return make(op.gather, dtype, lanes, (source, index, mask))


def gather_packet(
    source: Node,
    index: Node,
    active: Node,
    count: int,
    what: str = "gather",
    inside: bool = False,
) -> list[Node]:
    """Gathers `count` (2 to 16) consecutive entries per lane, starting at `index * count`, from a
    source whose size is a multiple of `count`; see `gather`.
    """
    if innermost() is not None:
        refuse_written(source, what)
    lanes = broadcast_size((index, active), what)
    index, mask = bounds(index, active, source.size, what, count, inside)
    if lanes == 1:
        lanes = mask.size
    if mask.op is LITERAL:
        return [literal(source.dtype, 0, lanes) for _ in range(count)]
    packet = make(op.packet, source.dtype, lanes, (source, index, mask), count)
    return [make(op.component, source.dtype, lanes, (packet,), j) for j in range(count)]


def gather_weighted(
    source: Node, taps: list[tuple[Node, Node]], active: Node, count: int, what: str
) -> list[Node] | None:
    """Returns weighted sums of records with `count` (2 to 16) components, for pairs of indices,
    which must be in bounds, and weights of the source's type; 0 where `active` is false. Even and
    odd taps are summed separately. Returns None where gathers and products are faster.
    """
    if innermost() is not None:
        refuse_written(source, what)
    if source.op is LITERAL or any(w.dtype is not source.dtype for _, w in taps):
        return None
    lanes = broadcast_size((active, *[n for tap in taps for n in tap]), what)
    operands = []
    mask = active
    for index, weight in taps:
        index, mask = bounds(index, active, source.size, what, count, True)
        operands += [index, weight]
    if lanes == 1:
        lanes = mask.size
    if mask.op is LITERAL or any(n.dtype is not operands[0].dtype for n in operands[::2]):
        return None
    found = make(op.weighted, source.dtype, lanes, (source, mask, *operands), count)
    return [make(op.component, source.dtype, lanes, (found,), j) for j in range(count)]


class Replacement:
    """The node that a scatter is about to replace, taken out of its array.

    Between `take` and `put` the array holds nothing, so that whether somebody else holds the node
    can be seen from a weak reference. A constant becomes data on a device, by default the current
    one.
    """

    __slots__ = ("_device", "_node", "dtype", "size")

    def __init__(self, node: Node, device: Device | None = None) -> None:
        self._node: Node | None = node
        self._device = device
        self.dtype, self.size = node.dtype, node.size

    def own(self) -> Node:
        """Returns a node with a buffer that nothing else holds: the given node or a copy."""
        node = self._node
        self._node = None
        if node is None:
            raise RuntimeError("a scatter target was taken twice")
        if node.op is not BUFFER and node.op is not AFTER:
            if node.op is op.state:
                raise StateTarget(node, True)
            node = schedule.materialize(node, self._device)
        buffer = node.data
        if buffer.views == 0 and buffer.owner is None:
            op_, deps, dtype, size = node.op, node.deps, node.dtype, node.size
            witness = weakref.ref(node)
            del node
            if witness() is not None:
                for release in releases:
                    release()
            held = witness()
            if held is None:
                own = make(op_, dtype, size, deps, buffer)
                if op_ is AFTER:
                    effects.wait(own, deps[0])
                return own
            node = held
        copy = make(op.copy, self.dtype, self.size, (node,))
        schedule.evaluate([copy])
        return copy


def writing(operands: tuple[Node, ...], what: str) -> int:
    """Returns the number of lanes that write, given the values, index and mask of a scatter."""
    lanes = broadcast_size(operands, what)
    return group_lanes() if lanes == 1 else lanes


def is_idle(
    values: list[Node], index: Node, active: Node, size: int, what: str, packet: int = 1
) -> bool:
    """Returns whether `scatter` has nothing to do, because there are no lanes or none is active."""
    lanes = broadcast_size((*values, index, active), what)
    return lanes == 0 or bounds(index, active, size, what, packet)[1].op is LITERAL


def scatter(
    kind: op.Op,
    target: Replacement,
    values: list[Node],
    index: Node,
    active: Node,
    what: str,
    reduce: str = "",
    mode: str = "direct",
    packet: int = 1,
    checked: bool = False,
) -> Node | None:
    """Queues a scatter of the given kind. Returns the node that replaces the target's, or None if
    there is nothing to do.

    `values` are the operands that precede the index: the value, the expected and the new value, or
    the components of a packet. `checked` says that `bounds` has already been called.
    """
    lanes = writing((*values, index, active), what)
    mask = active
    if not checked:
        index, mask = bounds(index, active, target.size, what, packet)
    if lanes == 1:
        lanes = mask.size
    if lanes == 0 or mask.op is LITERAL:
        return None
    with schedule.lock:  # in between, another thread must not evaluate the target
        before = target.own()
        effect = schedule.Effect(before.data, target.dtype, target.size, reduce, mode)
        return schedule.add_effect(kind, (*values, index, mask), lanes, effect, before)


def reduce_mode(mode: Any, target: Any, lanes: int) -> str:
    """Chooses how a scatter-reduction is carried out for a `ReduceMode`; only the type and the size
    of the target matter."""
    name = mode.name
    if name in ("Direct", "Local"):
        return "direct"
    if name == "NoConflicts":
        return "no_conflicts"
    if name == "Expand":
        return "expand"
    small = target.size <= min(expand_threshold, 4 * lanes)
    return "expand" if small and not target.dtype.is_mask else "direct"


def reduce_all(reduce: str, a: Node) -> Node:
    """Reduces all lanes to one."""
    dtype: DType = a.dtype
    if a.size == 0:
        return literal(dtype, op.identity(reduce, dtype))
    if a.size == 1:
        return a
    if a.op is LITERAL:
        if reduce == "add":
            # Round once: the size may not be representable in the element type.
            return literal(dtype, a.data * a.size)
        if reduce != "mul":
            return literal(dtype, a.data)
    made = make(op.reduce, dtype, 1, (a,), reduce)
    if a.op is op.result:
        a.deps[0].data.values.append(weakref.ref(made))
    return made
