"""Operations in which lanes work together: prefix and block reductions, compression of masks, and
sorting. They read evaluated buffers, and are primitives of the device that holds them.
"""

from ..device import common
from ..ir import dtype as dt
from ..ir import op
from ..ir.dtype import DType
from ..ir.node import LITERAL, Node, apply, bitcast, buffer, cast, lane, literal
from ..run import schedule
from ..run.freeze import operation
from ..run.history import one_operation


@operation
@one_operation("BlockPrefixReduce", lambda reduce, a, *_: a.size)
def prefix(reduce: str, a: Node, exclusive: bool, block_size: int = 0) -> Node:
    """Returns the prefix reduction of all lanes, or that within each run of `block_size` lanes."""
    n, t = a.size, a.dtype
    if n == 0:
        return literal(t, 0, 0)
    block_size = block_size or n
    if block_size == 1 or n == 1:
        return literal(t, op.starting_value(reduce, t), n) if exclusive else a
    source = schedule.materialize(a).data
    return buffer(t, n, source.device.prefix(reduce, t, n, source, exclusive, block_size))


def block_reduce(reduce: str, a: Node, block_size: int) -> Node:
    """Reduces each run of `block_size` lanes, which must divide the size."""
    return _block_reduce(reduce, a, block_size, a.size // block_size)


@operation
@one_operation("BlockReduce", lambda reduce, a, *_: a.size)
def _block_reduce(reduce: str, a: Node, block_size: int, count: int) -> Node:
    """Reduces `count` runs: an argument, so that a frozen recording is not replayed for a size that
    is not a multiple."""
    t, n = a.dtype, a.size
    if block_size == 1 or n == 0:
        return a
    source = schedule.materialize(a).data
    return buffer(t, count, source.device.block_reduce(reduce, t, n, source, block_size))


@operation
@one_operation("BlockReduce", lambda reduce, a, *_: a.size)
def reduce_rows(reduce: str, a: Node, rows: int, columns: int) -> Node:
    """Reduces matrices of `rows` by `columns` lanes along their columns, with `columns` results for
    each.
    """
    t, n = a.dtype, a.size
    if rows == 1 or n == 0:
        return a
    source = schedule.materialize(a).data
    return buffer(t, n // rows, source.device.reduce_rows(reduce, t, n, source, rows, columns))


@operation(sized_by_data=True)
@one_operation("Compress", lambda mask: mask.size)
def compress(mask: Node) -> Node:
    """Returns the `u32` indices of the lanes where a mask is true.

    Waits for the mask, because the size of the result depends on it.
    """
    n = mask.size
    if mask.op is LITERAL:
        return lane(n) if mask.data else literal(dt.u32, 0, 0)
    if n == 0:
        return literal(dt.u32, 0, 0)
    source = schedule.materialize(mask).data
    indices, size = source.device.compress(n, source)
    return buffer(dt.u32, size, indices)


# ---- Sorting: the device sorts unsigned integers that have the order of the values

_UNSIGNED = {1: dt.u8, 2: dt.u16, 4: dt.u32, 8: dt.u64}


def sort_keys(a: Node, descending: bool, exact: bool = False) -> Node:
    """Returns unsigned integers with the order of the values, in which NaN is the largest.

    With `exact`, negative zero comes before zero, so `sorted_values` recovers every number.
    """
    t = a.dtype
    if t.is_mask:
        t = dt.u8
        a = cast(t, a)
    unsigned = _UNSIGNED[t.itemsize]
    ones = literal(unsigned, -1)
    if not t.is_float:
        x = bitcast(unsigned, a)
        if t.is_signed:
            x = apply(op.xor, x, literal(unsigned, 1 << (t.bits - 1)))
    else:
        nan = apply(op.ne, a, a)
        if not exact:
            zero = literal(t, 0)
            a = apply(op.select, apply(op.eq, a, zero), zero, a)
        x = bitcast(unsigned, a)
        top = literal(unsigned, 1 << (t.bits - 1))
        negative = apply(op.ne, apply(op.and_, x, top), literal(unsigned, 0))
        flipped = apply(op.select, negative, apply(op.not_, x), apply(op.or_, x, top))
        x = apply(op.select, nan, ones, flipped)
    return apply(op.not_, x) if descending else x


def sorted_values(t: DType, x: Node, descending: bool) -> Node:
    """Returns the values of keys: the inverse of `sort_keys` with `exact`."""
    if descending:
        x = apply(op.not_, x)
    if t.is_mask:
        return cast(t, x)
    if not t.is_float:
        return bitcast(
            t, apply(op.xor, x, literal(x.dtype, 1 << (t.bits - 1))) if t.is_signed else x
        )
    top = literal(x.dtype, 1 << (t.bits - 1))
    positive = apply(op.ne, apply(op.and_, x, top), literal(x.dtype, 0))
    bits = apply(op.select, positive, apply(op.xor, x, top), apply(op.not_, x))
    # The largest key, of NaN, becomes the bits of a NaN.
    return bitcast(t, bits)


def sort(a: Node, descending: bool) -> Node:
    """Sorts values in increasing or decreasing order; NaN counts as larger than every number."""
    if a.size <= 1:
        return a
    keys = _sorted(sort_keys(a, descending, exact=True), None, a.dtype.bits)
    return sorted_values(a.dtype, keys, descending)


def argsort(a: Node, descending: bool, run: int = 0) -> Node:
    """Returns the lanes in the order of their values, as `u32`; lanes with equal values keep their
    order.

    With `run`, each run of that many lanes is sorted separately; lanes are then counted from the
    first of all lanes.
    """
    n = a.size
    if n <= 1 or run == 1:
        return lane(n) if n else literal(dt.u32, 0, 0)
    order = _sorted(sort_keys(a, descending), lane(n), a.dtype.bits)
    if run and run < n:
        # Sort the sorted values stably by run.
        number = apply(op.quotient, order, literal(dt.u32, run))
        order = _sorted(number, order, (n // run - 1).bit_length())
    return order


@operation
@one_operation("MkPerm", lambda key, *_: key.size)
def _sorted(key: Node, payload: Node | None, bits: int) -> Node:
    """Returns sorted keys of `bits` bits, or the payload in their order."""
    n, t = key.size, key.dtype
    source = schedule.materialize(key).data
    carried = schedule.materialize(payload).data if payload is not None else None
    device = source.device if carried is None else common(source, carried)
    result = device.sort(t, n, source, carried, bits)
    return buffer(t if payload is None else dt.u32, n, result)
