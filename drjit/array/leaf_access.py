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

from ..ad import matrix, memory_rules, scatter_target
from ..ad.graph import Value, visible
from ..jit.device import current
from ..jit.ir import dtype as dt
from ..jit.ir import node as ir
from ..jit.ir import op
from ..jit.ir.scope import recording, using
from ..jit.primitives import collective
from ..jit.run import launch, pending
from ..jit.trace import access
from . import table
from .leaf import from_value, wrap
from .leaf import value as value_of

F = TypeVar("F", bound=Callable)


def _on_its_device(function: F) -> F:
    """Decorator of functions that launch work on an array, even if it is constant: the work runs on
    the array's device."""

    @wraps(function)
    def call(*args: Any) -> Any:
        value = args[1] if type(args[0]) is str else args[0]
        device = value._device
        if device is None or device is current():
            return function(*args)
        with using(device):
            return function(*args)

    return call  # type: ignore[return-value]


def gather(source: Any, at: access.Access) -> Any:
    """Returns the entries of `source`, and 0 for inactive lanes."""
    cls = type(source)
    if source._var is not None:
        return from_value(cls, memory_rules.gather(value_of(source), at))
    return wrap(cls, access.gather(source._node, at))


def gather_packet(source: Any, at: access.Access) -> list:
    """Returns the entries of records, as one array each."""
    cls = type(source)
    if source._var is None:
        return [wrap(cls, n) for n in access.gather_packet(source._node, at)]
    return [from_value(cls, v) for v in memory_rules.gather_packet(value_of(source), at)]


def gather_weighted(source: Any, taps: list[access.Access], weights: list) -> list | None:
    """Returns weighted sums of the entries of records, with weights of the source's type. Returns
    None where gathers and products are faster, or are needed because derivatives are recorded.
    """
    if any(type(a) is not type(source) or a._var is not None for a in (source, *weights)):
        return None
    found = access.gather_weighted(source._node, taps, [w._node for w in weights])
    return None if found is None else [wrap(type(source), n) for n in found]


def replace(array: Any, change: Callable[..., ir.Node | None], *args: Any) -> bool:
    """Replaces the node of an array by the result of `change(replacement, *args)`. The replacement
    takes over the only reference to the old node, so that a scatter can write in place. If the
    result is None, or `change` fails, the array is unchanged. Returns whether the node was
    replaced."""
    if launch.on_change is not None:
        launch.on_change(array, array._node)
    node = array._node
    witness = weakref.ref(node)
    array._node = None
    # A frozen function repeats what it has recorded for memory of its own.
    replacement = access.WriteTarget(node, array._device, launch.on_read is None)
    del node
    after = None
    try:
        after = change(replacement, *args)
    finally:
        # Until it is replaced, the old node is kept alive by `replacement` or by a frame of the
        # exception's traceback.
        array._node = witness() if after is None else after
    return after is not None


def _differentiable(target: Any, values: list) -> bool:
    """Returns whether a scatter is part of the derivative graph."""
    if not target._diff:
        return False
    if target._var is None and not any(v._var for v in values):
        return False
    return not recording() or any(visible(v._var) is not None for v in (target, *values))


def _record(target: Any, value: Any, at: access.Access, before: ir.Node | None = None) -> None:
    """Records the update of a target whose node was `before`; some reductions need that."""
    if recording():
        scatter_target.record(at.reduce, target, value_of(value), at)
        return
    n = target._node
    old = Value(n if before is None else before, target._var)
    target._var = memory_rules.record_scatter(old, value_of(value), at, n).var


def scatter(target: Any, values: list, at: access.Access) -> bool:
    """Writes a value to each entry of the records, or combines it with the entry. Returns whether
    there was something to do."""
    size = target._node.size
    before = None
    differentiable = _differentiable(target, values)
    if differentiable and at.reduce not in ("", "add") and not recording():
        if at.packet > 1:  # each entry's scatter has to see the result of the previous one
            for value, one in zip(values, at.entries(size), strict=True):
                scatter(target, [value], one)
            return True
        before = target._node  # sums do not need it, so the target may change in place
    nodes = [values[0]._node] if len(values) == 1 else [v._node for v in values]
    if not replace(target, access.scatter, nodes, at):
        return False
    if differentiable:
        for value, one in zip(values, at.entries(size), strict=True):
            _record(target, value, one, before)
    return True


def atomic(kind: op.Op, target: Any, values: list, at: access.Access) -> Any:
    """Performs an atomic operation in each lane, and returns the previous values of the entries.
    Derivatives hold where no index occurs twice."""
    differentiable = _differentiable(target, values)
    nodes, cls = [v._node for v in values], type(target)
    if not replace(target, access.scatter, nodes, at, kind):
        size = ir.broadcast_size((*nodes, at.index, at.mask), at.what)
        return wrap(cls, ir.literal(cls._dtype, 0, size))
    old = pending.old_value(target._node, cls._dtype)
    if not differentiable:
        return wrap(cls, old)
    value, written = values[-1], at
    if kind is op.scatter_cas:
        swapped = ir.apply(op.and_, at.mask, ir.apply(op.eq, old, nodes[0]))
        written = access.Access(at.index, swapped, at.what)
    if recording():
        v = scatter_target.record(kind.name, target, value_of(value), written)
        return from_value(cls, Value(old, v))
    source = value_of(target)
    _record(target, value, written)
    return from_value(cls, memory_rules.record_gather(source, at, old))


def reduce_all(reduce: str, value: Any) -> Any:
    """Reduces all entries to one by `add`, `mul`, `min`, `max`, `and` or `or`."""
    if value._var is None and value._node.op is not ir.LITERAL:
        return wrap(type(value), access.reduce_all(reduce, value._node))
    return from_value(type(value), memory_rules.reduce(reduce, value_of(value)))


@_on_its_device
def prefix(reduce: str, value: Any, exclusive: bool, block_size: int = 0) -> Any:
    """Returns the prefix reduction of all entries, or within runs of `block_size` entries."""
    return from_value(
        type(value), memory_rules.prefix(reduce, value_of(value), exclusive, block_size)
    )


@_on_its_device
def reverse(value: Any, block_size: int) -> Any:
    """Reverses the entries within runs of `block_size` entries; the last run may be shorter."""
    return from_value(type(value), memory_rules.reverse(value_of(value), block_size))


@_on_its_device
def block_reduce(reduce: str, value: Any, block_size: int) -> Any:
    """Reduces each run of `block_size` entries."""
    return from_value(type(value), memory_rules.reduce(reduce, value_of(value), block_size))


@_on_its_device
def compress(mask: Any, result: type) -> Any:
    """Returns the indices where a mask is true, as an array of class `result`."""
    return wrap(result, collective.compress(mask._node))


def bounded(index: Any, active: Any, size: int, what: str) -> tuple[Any, Any]:
    """Returns an unsigned index, and the mask of lanes where it is below `size`; others are
    reported."""
    n, mask, _ = access.Access(index._node, active._node, what).bounds(size)
    if mask is access.ACTIVE:  # stands for the lanes of a kernel, and is no value to keep
        mask = access.ALWAYS
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
        return block_reduce(reduce, gather(value, access.Access(place._node)), rows)
    return wrap(type(value), collective.reduce_rows(reduce, value._node, rows, columns))


@_on_its_device
def argsort(value: Any, result: type, descending: bool, run: int = 0) -> Any:
    """Returns the sorting order of the entries, or of each run's entries, as an array of class
    `result`."""
    return wrap(result, collective.argsort(value._node, descending, run))


def sort_keys(value: Any) -> Any:
    """Returns unsigned integers that sort like the entries, with NaN as the largest."""
    n = collective.sort_keys(value._node, False)
    if n.dtype.bits < 32:
        n = ir.cast(dt.u32, n)
    return wrap(table.find(value._namespace, "leaf", n.dtype), n)


@_on_its_device
def sort(value: Any, descending: bool) -> Any:
    """Sorts all entries."""
    if value._var is not None:
        index = argsort(value, table.find(value._namespace, "leaf", dt.u32), descending)
        return gather(value, access.Access(index._node))
    return wrap(type(value), collective.sort(value._node, descending))


@_on_its_device
def matmul(a: Any, b: Any, layout: Any) -> Any:
    """Returns products of matrices; see `drjit.jit.primitives.matmul.ProductLayout`."""
    return from_value(type(a), matrix.matmul(value_of(a), value_of(b), layout))
