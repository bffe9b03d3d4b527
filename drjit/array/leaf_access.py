"""Indexed access, reductions and scans of leaf arrays: the layer where each of them is connected to
nodes and derivatives.

Operands are leaves of one namespace with valid element types; the functions of `drjit.function`
convert, broadcast over components, and check. A scatter replaces the node of its target; if it
fails, the target is unchanged.
"""

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ..ad import lanes, matrix, scatter_target
from ..ad.graph import Value, visible
from ..jit.device import using
from ..jit.ir import dtype as dt
from ..jit.ir import node as ir
from ..jit.ir import op
from ..jit.ir.node import Node
from ..jit.ir.scope import active as active_lanes
from ..jit.ir.scope import innermost, recording
from ..jit.primitives import collective, sorting
from ..jit.run import schedule
from ..jit.trace import access
from . import table
from .leaf import from_value, wrap
from .leaf import value as value_of

F = TypeVar("F", bound=Callable)


def _on_its_device(function: F) -> F:
    """Decorator of functions of an array that launch something, constants or not, where that is."""

    @wraps(function)
    def call(*args: Any) -> Any:
        value = args[1] if type(args[0]) is str else args[0]
        with using(value._device):
            return function(*args)

    return call  # type: ignore[return-value]


def _wide(index: Node) -> Node:
    """Converts an index to 64 bits, where its multiples cannot overflow."""
    return ir.cast(dt.i64 if index.dtype.is_signed else dt.u64, index)


def gather(
    source: Any,
    index: Any,
    active: Any,
    what: str = "dr.gather",
    inside: bool = False,
    mode: Any = op.ReduceMode.Auto,
) -> Any:
    """Returns the entries of `source` at `index`, and 0 where `active` is false or the index is out
    of bounds; `inside` promises that none is. `mode` is for the adjoint."""
    if source._var is None:
        return wrap(
            type(source), access.gather(source._node, index._node, active._node, what, inside)
        )
    return from_value(
        type(source), lanes.gather(value_of(source), index._node, active._node, what, inside, mode)
    )


def gather_packet(
    source: Any,
    index: Any,
    active: Any,
    count: int,
    what: str = "dr.gather",
    inside: bool = False,
    mode: Any = op.ReduceMode.Auto,
) -> list:
    """Returns `count` consecutive entries per lane, starting at entry `index * count`; see
    `gather`."""
    if count == 1:
        return [gather(source, index, active, what, inside, mode)]
    n, cls = source._node, type(source)
    if 2 <= count <= 16 and n.size % count == 0 and not n.is_literal:
        source_value = value_of(source)
        values = lanes.gather_packet(
            source_value, index._node, active._node, count, what, inside, mode
        )
        return [from_value(cls, c) for c in values]
    if n.size == 1:
        return [gather(source, index, active, what, mode=mode) for _ in range(count)]
    index, mask = access.bounds(index._node, active._node, n.size, what, count)
    return [
        from_value(cls, lanes.gather(value_of(source), i, mask, what, mode=mode))
        for i in entries(index, count)
    ]


def gather_weighted(
    source: Any, indices: list, weights: list, active: Any, count: int, what: str
) -> list | None:
    """Returns weighted sums of records with `count` components, with weights of the source's type,
    for indices known to be in bounds. Returns None if gathers and products are faster, or necessary
    because derivatives are recorded.
    """
    if source._var is not None or not 2 <= count <= 16 or source._node.size % count:
        return None
    if any(type(w) is not type(source) or w._var is not None for w in weights):
        return None
    taps = [(i._node, w._node) for i, w in zip(indices, weights, strict=True)]
    found = access.gather_weighted(source._node, taps, active._node, count, what)
    return None if found is None else [wrap(type(source), n) for n in found]


def _update(
    target: Any,
    kind: op.Op,
    values: list[Node],
    index: Node,
    active: Node,
    what: str,
    reduce: str = "",
    mode: str = "direct",
    packet: int = 1,
) -> bool:
    """Queues a scatter and stores the resulting node in the target as the only reference, so that
    the next scatter can write in place. Returns whether there was anything to do."""
    node = target._node
    witness = weakref.ref(node)
    target._node = None
    taken = access.Replacement(node, target._device)
    del node
    after = None
    try:
        after = access.scatter(kind, taken, values, index, active, what, reduce, mode, packet)
    finally:
        # Until the scatter replaces it, the old node is kept alive by `taken` or by a frame of the
        # exception's traceback.
        target._node = witness() if after is None else after
    return after is not None


def _differentiable(target: Any, values: list) -> bool:
    """Returns whether a scatter is part of the derivative graph."""
    if not target._diff or not any(v._var is not None for v in (target, *values)):
        return False
    return not recording() or any(visible(v._var) is not None for v in (target, *values))


def _record(
    reduce: str, target: Any, value: Any, index: Node, mask: Node, before: Node | None
) -> None:
    """Records the update of a target whose node was `before`; some reductions need that."""
    if recording():
        scatter_target.record(reduce, target, value_of(value), index, mask)
        return
    if innermost() is not None:
        mask = ir.apply(op.and_, mask, active_lanes())
    n = target._node
    old = Value(n if before is None else before, target._var)
    new = Value(value._node, value._var)
    target._var = lanes.record_scatter(reduce, old, new, index, mask, n).var


def check(size: int, values: list, index: Any, active: Any, what: str) -> None:
    """Raises the errors that a scatter to a target of `size` entries would raise immediately,
    without any change."""
    ir.broadcast_size((*[v._node for v in values], index._node, active._node), what)
    access.bounds(index._node, active._node, size, what)


def scatter(
    target: Any,
    values: list,
    index: Any,
    active: Any,
    what: str = "dr.scatter",
    mode: str = "direct",
) -> None:
    """Writes components `values` to the entries `index * len(values) + 0, 1, ...` of `target`.
    Several scatters with the mode `disjoint` write to different entries, so their order does not
    matter."""
    nodes = [v._node for v in values]
    count = len(nodes)
    if 2 <= count <= 16 and target._node.size % count == 0:
        differentiable = _differentiable(target, values)
        done = _update(
            target, op.scatter_packet, nodes, index._node, active._node, what, "", mode, count
        )
        if done and differentiable:
            for j, v in enumerate(values):
                _record("", target, v, lanes.entry(index._node, count, j), active._node, None)
        return
    where, mask = _records(target, index, active, count, what)
    for value, entry in zip(values, where, strict=True):
        differentiable = _differentiable(target, [value])
        done = _update(target, op.scatter, [value._node], entry, mask, what, "", mode)
        if done and differentiable:
            _record("", target, value, entry, mask, None)


def _records(
    target: Any, index: Any, active: Any, count: int, what: str
) -> tuple[list[Node], Node]:
    """Returns the entries of the components of records, and the mask of lanes whose entire record
    lies within the target."""
    if count == 1:
        return [index._node], active._node
    bounded, mask = access.bounds(index._node, active._node, target._node.size, what, count)
    return entries(bounded, count), mask


def entries(index: Node, count: int) -> list[Node]:
    """Returns the indices `index * count + j` of the components of a record."""
    if count == 1:
        return [index]
    wide = _wide(index)
    first = ir.apply(op.mul, wide, ir.literal(wide.dtype, count))
    return [ir.apply(op.add, first, ir.literal(wide.dtype, j)) for j in range(count)]


def scatter_reduce(
    reduce: str,
    target: Any,
    values: list,
    index: Any,
    active: Any,
    mode: Any,
    what: str = "dr.scatter_reduce",
) -> None:
    """Combines components `values` with the entries `index * len(values) + 0, 1, ...` of
    `target`."""
    where, mask = _records(target, index, active, len(values), what)
    differentiable = _differentiable(target, values)
    # Sums do not need the old entries, so the target may change in place.
    keep = differentiable and reduce != "add" and not recording()
    for value, entry in zip(values, where, strict=True):
        size = ir.broadcast_size((value._node, entry, mask), what)
        how = access.reduce_mode(mode, target._node, size)
        before = target._node if keep else None
        done = _update(target, op.scatter_reduce, [value._node], entry, mask, what, reduce, how)
        if done and differentiable:
            _record(reduce, target, value, entry, mask, before)


def _atomic(
    target: Any, kind: op.Op, values: list[Node], index: Any, active: Any, what: str
) -> Node:
    """Queues an atomic operation and returns the old values."""
    size = ir.broadcast_size((*values, index._node, active._node), what)
    dtype = target._node.dtype
    if not _update(target, kind, values, index._node, active._node, what):
        return ir.literal(dtype, 0, size)
    return schedule.effect_value(target._node, dtype)


def scatter_inc(target: Any, index: Any, active: Any, what: str = "dr.scatter_inc") -> Any:
    """Atomically adds 1 to entries of `target` and returns their old values."""
    return wrap(type(target), _atomic(target, op.scatter_inc, [], index, active, what))


def scatter_exch(
    target: Any, value: Any, index: Any, active: Any, what: str = "dr.scatter_exch"
) -> Any:
    """Atomically replaces entries of `target` and returns their old values. Derivatives are valid
    if no index occurs twice."""
    differentiable = _differentiable(target, [value])
    old = _atomic(target, op.scatter_exch, [value._node], index, active, what)
    if not differentiable:
        return wrap(type(target), old)
    return _old_value("scatter_exch", target, value, index._node, active._node, active._node, old)


def scatter_cas(
    target: Any, compare: Any, value: Any, index: Any, active: Any, what: str = "dr.scatter_cas"
) -> Any:
    """Atomically replaces entries of `target` that equal `compare` bit by bit, and returns their
    old values. Derivatives are valid if no index occurs twice."""
    differentiable = _differentiable(target, [value])
    old = _atomic(target, op.scatter_cas, [compare._node, value._node], index, active, what)
    if not differentiable:
        return wrap(type(target), old)
    swapped = ir.apply(op.and_, active._node, ir.apply(op.eq, old, compare._node))
    return _old_value("scatter_cas", target, value, index._node, active._node, swapped, old)


def _old_value(
    kind: str, target: Any, value: Any, index: Node, active: Node, mask: Node, old: Node
) -> Any:
    """Records an atomic operation that replaced entries in the lanes of `mask`. Returns the array
    of the old values, which all `active` lanes have."""
    if recording():
        v = scatter_target.record(kind, target, value_of(value), index, mask)
        return from_value(type(target), Value(old, v))
    source = value_of(target)
    _record("", target, value, index, mask, None)
    return from_value(type(target), lanes.record_gather(source, index, active, old))


def reduce_all(reduce: str, value: Any) -> Any:
    """Reduces all entries to one by `add`, `mul`, `min`, `max`, `and` or `or`."""
    return from_value(type(value), lanes.reduce(reduce, value_of(value)))


@_on_its_device
def prefix(reduce: str, value: Any, exclusive: bool, block_size: int = 0) -> Any:
    """Returns the prefix reduction of all entries, or within runs of `block_size` entries."""
    return from_value(type(value), lanes.prefix(reduce, value_of(value), exclusive, block_size))


@_on_its_device
def block_reduce(reduce: str, value: Any, block_size: int) -> Any:
    """Reduces each run of `block_size` entries."""
    return from_value(type(value), lanes.reduce(reduce, value_of(value), block_size))


def compress(mask: Any, result: type) -> Any:
    """Returns the indices where a mask is true, as an array of class `result`."""
    return wrap(result, collective.compress(mask._node))


def bounded(index: Any, active: Any, size: int, what: str) -> tuple[Any, Any]:
    """Returns an unsigned index, and the mask of lanes where it is below `size`; others are
    reported."""
    n, mask = access.bounds(index._node, active._node, size, what)
    if mask is access.ACTIVE:  # stands for the lanes of a kernel and is not a value to keep
        mask = ir.literal(dt.mask, True)
    cls = table.find(index._namespace, "leaf", n.dtype)
    return wrap(cls, n), wrap(cls.Mask, mask)


@_on_its_device
def reduce_rows(reduce: str, value: Any, rows: int, columns: int) -> Any:
    """Reduces matrices of `rows` by `columns` entries along their columns."""
    if value._var is not None and reduce == "add":
        return from_value(type(value), matrix.sum_rows(value_of(value), rows, columns))
    if value._var is not None:
        # In terms of differentiable operations: the rows of the transposed matrices.
        index = table.find(value._namespace, "leaf", dt.u32)
        lane = wrap(index, ir.lane(value._node.size))
        place = lane // (rows * columns) * (rows * columns)
        place = place + lane % rows * columns + lane // rows % columns
        yes = wrap(value.Mask, ir.literal(dt.mask, True))
        return block_reduce(reduce, gather(value, place, yes), rows)
    return wrap(type(value), collective.reduce_rows(reduce, value._node, rows, columns))


@_on_its_device
def argsort(value: Any, result: type, descending: bool, run: int = 0) -> Any:
    """Returns the sorting order of the entries, or of each run's entries, as an array of class
    `result`."""
    return wrap(result, sorting.argsort(value._node, descending, run))


def sort_keys(value: Any) -> Any:
    """Returns unsigned integers that sort like the entries, with NaN as the largest."""
    n = sorting.keys(value._node, False)
    if n.dtype.bits < 32:
        n = ir.cast(dt.u32, n)
    return wrap(table.find(value._namespace, "leaf", n.dtype), n)


@_on_its_device
def sort(value: Any, descending: bool) -> Any:
    """Sorts all entries."""
    if value._var is not None:
        index = argsort(value, table.find(value._namespace, "leaf", dt.u32), descending)
        return gather(value, index, wrap(value.Mask, ir.literal(dt.mask, True)))
    return wrap(type(value), sorting.sort(value._node, descending))


@_on_its_device
def matmul(a: Any, b: Any, layout: Any) -> Any:
    """Returns products of matrices; see `drjit.jit.primitives.matmul.ProductLayout`."""
    return from_value(type(a), matrix.matmul(value_of(a), value_of(b), layout))
