"""Sorting: a radix sort from the lowest digit to the highest. Each pass is stable, and all threads
share its work.

Keys are unsigned integers that sort like the values. A pass counts the occurrences of each digit in
each block of lanes, `finish` turns counts into positions, and a second launch moves the keys (D. E.
Knuth, The Art of Computer Programming 3, section 5.2.5).
"""

from ..ir import dtype as dt
from ..ir import op
from ..ir.dtype import DType
from ..ir.node import Node, apply, bitcast, buffer, cast, lane, literal
from ..run import kernel, runtime, schedule
from ..run.freeze import operation
from ..run.history import one_operation
from ..run.memory import Buffer, allocate_for

_COUNT = """def kernel(i, p):
    x0 = load({t}, p[1], i)
    radix_count(p[2], i, x0, p[3])
"""
_MOVE = """def kernel(i, p):
    x0 = load({t}, p[1], i)
    radix_move(p[2], i, x0, p[3], p[4], x0)
"""
_MOVE_PAIRS = """def kernel(i, p):
    x0 = load({t}, p[1], i)
    x1 = load(u32, p[5], i)
    radix_move(p[2], i, x0, p[3], p[4], x0, p[6], x1)
"""
_DIGIT = 11
_ENTRIES = (1 << _DIGIT) + 1  # as in target/simd/radix.py
_UNSIGNED = {1: dt.u8, 2: dt.u16, 4: dt.u32, 8: dt.u64}
# Below this number of lanes, one thread is faster than several with separate tables.
_ONE_BLOCK = 1 << 15


def keys(a: Node, descending: bool, exact: bool = False) -> Node:
    """Returns unsigned integers that sort like the values, with NaN as the largest.

    With `exact`, negative zero comes before zero, so `values` recovers every number.
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


def values(t: DType, x: Node, descending: bool) -> Node:
    """Returns the values of keys: the inverse of `keys` with `exact`."""
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
    found, _ = _sorted(keys(a, descending, exact=True), None, a.dtype.bits)
    return values(a.dtype, found, descending)


def argsort(a: Node, descending: bool, run: int = 0) -> Node:
    """Returns the lanes in the order of their values, as `u32`; lanes with equal values keep their
    order.

    With `run`, each run of that many lanes is sorted separately; lanes are then counted from the
    first of all lanes.
    """
    n = a.size
    if n <= 1 or run == 1:
        return lane(n) if n else literal(dt.u32, 0, 0)
    _, order = _sorted(keys(a, descending), lane(n), a.dtype.bits)
    if run and run < n:
        # Sort the sorted values stably by run.
        number = apply(op.quotient, order, literal(dt.u32, run))
        _, order = _sorted(number, order, (n // run - 1).bit_length())
    return order


@operation
@one_operation("MkPerm", lambda key, *_: key.size)
def _sorted(key: Node, payload: Node | None, bits: int) -> tuple[Node, Node]:
    """Sorts keys of `bits` bits, and a payload along with them."""
    n, t = key.size, key.dtype
    source = schedule.materialize(key).data
    carried = schedule.materialize(payload).data if payload is not None else None
    threads = runtime.thread_count()
    blocks = min(2 * threads, -(-n // _ONE_BLOCK))
    block = -(-n // (blocks * 64)) * 64
    blocks = -(-n // block)
    count = kernel.for_text(_COUNT.format(t=t.code), 4, 8)
    text = _MOVE if carried is None else _MOVE_PAIRS
    move = kernel.for_text(text.format(t=t.code), 5 if carried is None else 7, 16)
    on_numpy = count.prefers_numpy(8 * n)
    for shift in range(0, bits, _DIGIT):
        starts = _zeros(blocks * _ENTRIES)
        table = (starts, dt.u32, blocks * _ENTRIES)
        keys_ = (source, t, n)
        kernel.run_text(count, n, [keys_, table, shift], block, on_numpy)
        moved = allocate_for(t, n)
        arguments = [keys_, table, shift, (moved, t, n)]
        if carried is not None:
            moved_too = allocate_for(dt.u32, n)
            arguments += [(carried, dt.u32, n), (moved_too, dt.u32, n)]
            carried = moved_too
        kernel.run_text(move, n, arguments, block, on_numpy)
        source = moved
    found = buffer(t, n, source)
    return found, found if carried is None else buffer(dt.u32, n, carried)


def _zeros(count: int) -> Buffer:
    made = allocate_for(dt.u32, count, host=True)
    made.array(dt.u32.numpy, count)[:] = 0
    return made
