"""Indexed access to buffers: gathers, scatters, and atomic updates, as nodes.

What lanes access is described by one `Access`, from the function that the user called down to the
node. Its index is checked against the size of the buffer unless `JitFlag.BoundsChecks` is off. A
scatter writes in place if nobody else holds the target, else into a copy.
"""

import weakref
from collections.abc import Callable
from typing import Any

from .. import flags
from ..device import Device, current
from ..flags import JitFlag
from ..ir import dtype as dt
from ..ir import effects, node, op
from ..ir.location import user_location
from ..ir.node import AFTER, BUFFER, LITERAL, Node, broadcast_size, combine, literal, make
from ..ir.op import ReduceMode
from ..ir.scope import ACTIVE, WRITTEN, StateAccessError, active, innermost, stack
from ..run import launch, pending, schedule
from ..run.launch import OutOfBoundsError, out_of_bounds

# Above this number of entries, a scatter-reduction with `ReduceMode.Auto` uses atomics rather than
# private copies.
expand_threshold = 1 << 20
# The same in bytes of all copies together, of which there are as many as threads.
EXPAND_BYTES = 1 << 26
_FEW = EXPAND_BYTES // (512 * 8)  # entries that fit for any device, which has 512 threads at most

release_hooks: list[Callable[[], None]] = []
"""Callbacks that release nodes that are no longer needed; called before a target is copied because
it is still held."""


_U32, _U64, _MASK, _IN_BOUNDS = dt.u32, dt.u64, dt.mask, op.in_bounds
_CHECKS = int(JitFlag.BoundsChecks)
_AUTO, _NO_CONFLICTS = ReduceMode.Auto, ReduceMode.NoConflicts  # looking these up takes long
ALWAYS = node.CONSTANTS[_MASK, True]
"""The mask of an access by all lanes."""


class Access:
    """Which entries of an array in memory lanes read or write: where `mask` holds, those of record
    number `index`, which has `packet` entries.

    `what` names what the user called. With `inside`, no index can be out of bounds where the mask
    holds. `mode` says how to resolve conflicts of lanes that write to the same entry; that of a
    gather is for its adjoint. With `NoConflicts`, a scatter without a reduction and those that
    follow it write to different entries, so that their order does not matter. `reduce` names the
    reduction of a scatter, '' if it has none.

    When `bounds` looks for the user's line, at least `depth` functions of this package are running,
    including the one that looks.

    An access is created once, where a user's arguments are converted, and does not change. It is
    used at once, with the same active lanes.
    """

    __slots__ = (
        "_bounds", "_size", "depth", "index", "inside", "mask", "mode", "packet", "reduce", "what",
    )  # fmt: skip

    def __init__(
        self,
        index: Node,
        mask: Node = ALWAYS,
        what: str = "dr.gather",
        packet: int = 1,
        inside: bool = False,
        mode: ReduceMode = ReduceMode.Auto,
        reduce: str = "",
    ) -> None:
        self.index, self.mask, self.what, self.packet = index, mask, what, packet
        self.inside, self.mode, self.reduce = inside, mode, reduce
        self.depth = 3
        self._size = -1  # of the array that `_bounds` was found for

    def bounds(self, size: int) -> tuple[Node, Node, int]:
        """Returns the operands of an operation on an array of `size` entries: the unsigned index,
        the mask of the active lanes in which it is within bounds, and the number of lanes.

        Raises:
            IndexError: a constant index is out of bounds.
            TypeError: the index is not an integer, or the mask not a mask.
            RuntimeError: they have incompatible sizes.
        """
        if self._size == size:
            return self._bounds
        index, mask, what, packet = self.index, self.mask, self.what, self.packet
        t, lanes, check = index.dtype, index.size, not self.inside
        scope = innermost()
        active = ACTIVE if scope is None else scope.mask
        simple = t is _U32 and size < 1 << 31 and (index.op is not LITERAL or not check)
        if simple and (mask is ALWAYS or mask is active):
            mask = active
        elif simple and mask.size == lanes and mask.dtype is _MASK and mask.op is not LITERAL:
            if check or mask.op is not _IN_BOUNDS:
                mask = _restricted(mask, active)
        else:
            index, mask, lanes, check = self._converted(size, active)
        if check and flags.current & _CHECKS and mask.op is not LITERAL:
            some = lanes
            if mask.size != 1 and mask.size != lanes:
                some = broadcast_size((index, mask), what)
            where = user_location(self.depth)
            data = (size // packet, what, where, t.is_signed, size, packet)
            mask = make(_IN_BOUNDS, _MASK, some, (index, mask), data)
        self._size = size
        # Code that is restricted to some lanes says how many there are.
        bounds = self._bounds = index, mask, mask.size if lanes == 1 else lanes
        return bounds

    def _converted(self, size: int, active: Node) -> tuple[Node, Node, int, bool]:
        """The general case of `bounds`. Returns the unsigned index, the mask restricted to `active`
        lanes, the number of lanes, and whether an index may be out of bounds."""
        index, mask, what, packet = self.index, self.mask, self.what, self.packet
        t, check = index.dtype, not self.inside
        if not t.is_int:
            raise TypeError(f"{what}: the index must be an integer array, not {t.name}")
        if not mask.dtype.is_mask:
            raise TypeError(f"{what}: 'active' must be a mask, not {mask.dtype.name}")
        lanes = index.size if mask.size == 1 else broadcast_size((index, mask), what)
        if mask.op is LITERAL:
            check = check and bool(mask.data)
            if mask.data:
                mask = active
                if index.op is LITERAL:
                    check = False
                    if lanes and not 0 <= index.data < size // packet:
                        raise OutOfBoundsError(out_of_bounds(what, index.data, size, packet))
        elif check or mask.op is not _IN_BOUNDS:
            mask = _restricted(mask, active)
        if t is not _U32 and t is not _U64:
            index = _unsigned(index)
        if size >= 1 << 31:
            index = node.cast(_U64, index)
        return index, mask, lanes, check

    def first(self) -> "Access":
        """Returns the access to an array of a single entry, which is what every index refers to."""
        index = literal(dt.u32, 0, self.index.size)
        return Access(index, self.mask, self.what, 1, True, self.mode)

    def entries(self, size: int) -> list["Access"]:
        """Returns an access to each entry of the records of an array of `size` entries."""
        if self.packet == 1:
            return [self]
        index, mask, _ = self.bounds(size)
        first = entry(index, self.packet, 0)
        places = [first, *[_after(first, j) for j in range(1, self.packet)]]
        return [Access(n, mask, self.what, 1, True, self.mode, self.reduce) for n in places]


def _restricted(mask: Node, active: Node) -> Node:
    """Returns where a mask and the active lanes hold."""
    if active is ACTIVE and mask is not active and mask.dtype is _MASK:  # simplifies nothing
        return make(op.and_, _MASK, mask.size, (mask, active))
    return mask if mask is active else node.apply(op.and_, mask, active)


def entry(index: Node, count: int, j: int) -> Node:
    """Returns the index of entry `j` of a record of `count` entries. Within bounds, no product
    wraps."""
    first = combine(op.mul, (index, literal(index.dtype, count)))
    return _after(first, j) if j else first


def _after(index: Node, j: int) -> Node:
    return combine(op.add, (index, literal(index.dtype, j)))


def _unsigned(index: Node) -> Node:
    """Casts an index to `u32` or `u64`, which turns negative ones into huge, out-of-bounds ones."""
    t = index.dtype
    if t.bits < 32:
        index = node.cast(dt.i32 if t.is_signed else dt.u32, index)
        t = index.dtype
    return node.bitcast(dt.u32 if t.bits == 32 else dt.u64, index)


def refuse_written(source: Node, what: str) -> None:
    """Raises a RuntimeError if an open recording of this thread computes the array or writes to
    it."""
    kind = source.op
    if (kind is not AFTER and kind is not op.state) or innermost() is None:
        return
    if kind is op.state:
        raise StateAccessError(source, False)
    if any(source.deps[0] in s.effects for s in stack()):
        raise RuntimeError(f"{what}: {WRITTEN}")


def gather(source: Node, at: Access) -> Node:
    """Returns the entries of `source`, and 0 for inactive lanes. If the source is a literal or has
    a single entry, every index reads the same.
    """
    size = source.size
    if source.op is not BUFFER:
        refuse_written(source, at.what)
        if source.op is LITERAL and size:
            return _gather_uniform(source, at)
    if size == 1:
        return _gather_uniform(source, at)
    index, mask, lanes = at.bounds(size)
    if mask.op is LITERAL:
        return literal(source.dtype, 0, lanes)
    return make(op.gather, source.dtype, lanes, (source, index, mask))


def _gather_uniform(source: Node, at: Access) -> Node:
    """Gathers from a source whose entries are all the same."""
    _, mask, lanes = at.first().bounds(1)
    zero = literal(source.dtype, 0)
    value = literal(source.dtype, source.data) if source.op is LITERAL else source
    if mask.op is LITERAL:
        value = zero
    elif mask is not ACTIVE:
        value = node.apply(op.select, mask, value, zero)
    return node.resize(value, lanes)


def can_gather_packets(source: Node, count: int) -> bool:
    """Returns whether one operation can read records of `count` entries."""
    return 2 <= count <= 16 and source.size % count == 0 and source.op is not LITERAL


def gather_packet(source: Node, at: Access) -> list[Node]:
    """Returns the entries of records, as one value each; see `gather`."""
    if source.size == 1:
        return [gather(source, at)] * at.packet
    if not can_gather_packets(source, at.packet):
        return [gather(source, one) for one in at.entries(source.size)]
    refuse_written(source, at.what)
    index, mask, lanes = at.bounds(source.size)
    if mask.op is LITERAL:
        return [literal(source.dtype, 0, lanes) for _ in range(at.packet)]
    packet = make(op.packet, source.dtype, lanes, (source, index, mask), at.packet)
    return _components(packet, at.packet)


def _components(packet: Node, count: int) -> list[Node]:
    return [make(op.component, packet.dtype, packet.size, (packet,), j) for j in range(count)]


def gather_weighted(source: Node, taps: list[Access], weights: list[Node]) -> list[Node] | None:
    """Returns weighted sums of the entries of records; weights have the source's type. Taps with
    even numbers and those with odd ones are summed separately. Returns None where gathers and
    products serve better.
    """
    refuse_written(source, taps[0].what)
    if not can_gather_packets(source, taps[0].packet):
        return None
    indices = [at.bounds(source.size)[0] for at in taps]
    mask, at = taps[0].bounds(source.size)[1], taps[0]
    operands = tuple([n for pair in zip(indices, weights, strict=True) for n in pair])
    lanes = broadcast_size((at.mask, *operands), at.what)
    if mask.op is LITERAL or any(i.dtype is not indices[0].dtype for i in indices):
        return None
    size = mask.size if lanes == 1 else lanes
    packet = make(op.weighted, source.dtype, size, (source, mask, *operands), at.packet)
    return _components(packet, at.packet)


class WriteTarget:
    """The node that a scatter is about to replace, taken out of its array.

    Meanwhile the array holds nothing, so a weak reference shows whether anything else holds the
    node. A constant becomes data on a device, by default the current one. `node` is the node until
    it is claimed. `explicit` says that the program itself asked for the write, which a host array
    that shares the memory is to see.
    """

    __slots__ = ("_device", "dtype", "explicit", "node", "size")

    def __init__(self, node: Node, device: Device | None = None, explicit: bool = False) -> None:
        self.node: Node | None = node
        self._device, self.explicit = device, explicit
        self.dtype, self.size = node.dtype, node.size

    def device(self) -> Device:
        """Returns the device whose memory is written."""
        node = self.node
        if node is not None and (node.op is BUFFER or node.op is AFTER):
            return node.data.device
        return self._device or current()

    def own(self, by_entry: bool = False) -> Node:
        """Returns a node with a buffer that nothing else holds; see `claim`."""
        buffer, order = self.claim(by_entry)
        if not order:
            return make(BUFFER, self.dtype, self.size, (), buffer)
        own = make(AFTER, self.dtype, self.size, order, buffer)
        effects.tie(own, order[0])
        return own

    def claim(self, by_entry: bool = False) -> tuple[Any, tuple[Node, ...]]:
        """Returns a buffer that nothing else holds, that of the node or a copy, and the pending
        side effect that writes to it, if there is one. Writes `by_entry`, rather than in packets
        that may reach beyond the end, may go to memory of host arrays."""
        node = self.node
        if node is None:
            raise RuntimeError("a scatter target was taken twice")
        if node.op is not BUFFER and node.op is not AFTER:
            if node.op is op.state:
                raise StateAccessError(node, True)
            node = schedule.materialize(node, self._device)
        if launch.on_change is not None:
            launch.on_change(None, node)
        self.node = None
        buffer = node.data
        if not buffer.shared or (by_entry and self.explicit and buffer.writes_through):
            order = node.deps if node.op is AFTER else ()
            if order and order[0].op.effect:
                order[0].data.is_claimed = True
            witness = weakref.ref(node)
            del node
            if witness() is None:
                return buffer, order
            for release in release_hooks:
                release()
            if (remaining := witness()) is None:
                return buffer, order
            node = remaining
        copy = make(op.copy, self.dtype, self.size, (node,))
        schedule.evaluate([copy], self._device)
        return copy.data, ()


def _lanes(values: list[Node], at: Access) -> int:
    """Returns the number of lanes of a scatter."""
    lanes, some = at.index.size, at.mask.size
    if len(values) == 1 and values[0].size == lanes and (some == lanes or some == 1):
        return lanes
    return broadcast_size((*values, at.index, at.mask), at.what)


def writing_lanes(value: Node, at: Access) -> int:
    """Returns the number of lanes that write in a scatter."""
    lanes = _lanes([value], at)
    return active().size if lanes == 1 else lanes


def is_idle(values: list[Node], at: Access, size: int) -> bool:
    """Returns whether `scatter` to an array of `size` entries has nothing to do, as there are no
    lanes or none of them is active. Raises the errors that `scatter` would raise."""
    lanes = _lanes(values, at)
    return at.bounds(size)[1].op is LITERAL or lanes == 0


def scatter(
    target: WriteTarget, values: list[Node], at: Access, kind: op.Op | None = None
) -> Node | None:
    """Queues the scatter of a value for each entry of the records, or an atomic operation of the
    given kind. Returns the node that replaces the target's, or None if there is nothing to do.

    `values` are the operands before the index: of an atomic operation the value, or the value to
    compare with and the new value, or none.
    """
    lanes, reduce = _lanes(values, at), at.reduce
    index, mask, _ = at.bounds(target.size)
    if lanes == 0 or mask.op is LITERAL:
        return None
    mode = _effect_mode(at, target, lanes) if reduce else "direct"
    if at.mode is _NO_CONFLICTS:
        mode = "no_conflicts" if reduce else "disjoint"
    if lanes == 1:
        lanes = mask.size
    if kind is None and at.packet > 1:
        if not _takes_packets(at, target, mode):
            return _scatter_entries(target, values, at)
        kind = op.scatter_reduce_packet if reduce else op.scatter_packet
    elif kind is None:
        kind = op.scatter_reduce if reduce else op.scatter
    with schedule.lock:  # between the two, another thread must not evaluate the target
        buffer, order = target.claim(not reduce or (at.mode is not _AUTO and mode != "expand"))
        effect = pending.Effect(buffer, target.dtype, target.size, reduce, mode)
        return pending.add(kind, (*values, index, mask), lanes, effect, order)


def _scatter_entries(target: WriteTarget, values: list[Node], at: Access) -> Node | None:
    """Scatters records entry by entry."""
    for value, one in zip(values, at.entries(target.size), strict=True):
        explicit = target.explicit
        # The node is held by nothing else.
        target = WriteTarget(scatter(target, [value], one), explicit=explicit)  # type: ignore[arg-type]
    return target.node


def _takes_packets(at: Access, target: WriteTarget, mode: str) -> bool:
    """Returns whether one operation writes records as a whole."""
    if not 2 <= at.packet <= 16 or target.size % at.packet:
        return False
    return not at.reduce or (mode == "expand" and at.reduce == "add" and target.dtype.is_float)


def _effect_mode(at: Access, target: WriteTarget, lanes: int) -> str:
    """Returns how conflicts in a scatter-reduction of `lanes` lanes are resolved."""
    if at.mode is not _AUTO:
        if at.mode in (ReduceMode.Direct, ReduceMode.Local):
            return "direct"
        if at.mode is ReduceMode.Expand:
            return "expand"
    size = target.size
    if size > 4 * lanes or size > expand_threshold or target.dtype.is_mask:
        records = at.packet > 1 and target.dtype is dt.f32 and target.device().sums_in_place
        return "expand" if records else "direct"
    if size <= _FEW:
        return "expand"
    nbytes = target.device().threads() * size * target.dtype.accumulator.itemsize
    return "expand" if nbytes <= EXPAND_BYTES else "direct"


def reduce_all(reduce: str, a: Node) -> Node:
    """Reduces all lanes to one."""
    dtype: dt.DType = a.dtype
    if a.size == 0:
        return literal(dtype, op.starting_value(reduce, dtype))
    if a.size == 1:
        return a
    if a.op is LITERAL:
        if reduce == "add":
            # Round once: the size may not be representable in the element type.
            return literal(dtype, a.data * a.size)
        if reduce != "mul":
            return literal(dtype, a.data)
    result = make(op.reduce, dtype, 1, (a,), reduce)
    if a.op is op.result:
        a.deps[0].data.values.append(weakref.ref(result))
    return result
