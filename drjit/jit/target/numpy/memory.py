"""Lanes and memory of the kernel language on NumPy arrays: loads, gathers, scatters, atomics.

Lanes take effect one after the other, so the highest lane wins and atomics return old values in the
order of lanes. An index beyond the end of a buffer never reaches memory.
"""

from typing import Any

import numpy as np

from .elementwise import OPERATIONS, Type, Value, fma, ignored_number


class LaneRange:
    """The lanes from `begin` to `end` (exclusive) of a launch."""

    __slots__ = ("begin", "end")

    def __init__(self, begin: int, end: int):
        self.begin, self.end = begin, end

    def __repr__(self) -> str:  # for debuggers
        return f"lanes {self.begin} to {self.end - 1}"


def lane(i: LaneRange) -> Value:
    """The indices of the lanes."""
    return np.arange(i.begin, i.end, dtype=np.uint32)


def active(i: LaneRange) -> Value:
    """The mask of the lanes within the range: all of them."""
    return np.ones(i.end - i.begin, np.bool_)


def load(t: Type, buffer: Any, i: LaneRange) -> Value:
    """The elements of the lanes (a copy: later scatters do not change it)."""
    return buffer[i.begin : i.end].copy()


def broadcast(t: Type, buffer: Any) -> Value:
    """Element 0 of a buffer."""
    return buffer[0]


def literal(t: Type, word: Any) -> Value:
    """A literal of the parameter block."""
    return t(word)


def store(t: Type, buffer: Any, i: LaneRange, x: Value) -> None:
    """Stores the elements of the lanes."""
    buffer[i.begin : i.end] = x


stream = store


def in_bounds(record: Any, site: int, x: Value, n: int, m: Value) -> Value:
    """`m & (x < n)`; the first active lane beyond the end is written to the error record."""
    inside = x < n
    outside = m & ~inside
    if np.any(outside) and record[0] == 0:
        at = int(np.argmax(outside))
        index = x[at] if np.ndim(x) else x
        record[:5] = np.array([1, site, int(index) & 0xFFFFFFFFFFFFFFFF, n, at], np.uint64).view(
            record.dtype
        )
    return m & inside


def going(record: Any, m: Value) -> Value:
    """The mask of the lanes that continue with a loop: Python itself raises interrupts."""
    return m


def _valid_indices(buffer: Any, x: Value, m: Value, count: int = 1) -> tuple[Value, Value]:
    """Returns indices, 0 where they are invalid, and the mask of the lanes where they are valid."""
    valid = m & (x < buffer.size // count)
    return np.where(valid, x, 0).astype(np.intp), valid


def gather(t: Type, buffer: Any, x: Value, m: Value) -> Value:
    """Element `x` of the buffer, 0 where the mask is false."""
    return gather_packet(t, buffer, x, m, 1)[0]


def gather_packet(t: Type, buffer: Any, x: Value, m: Value, count: int) -> tuple[Value, ...]:
    """Elements `x * count + j`, 0 where the mask is false."""
    index, valid = _valid_indices(buffer, x, m, count)
    zero = t.dtype.type(0)
    if not np.any(valid):
        return (np.full(np.shape(index), zero)[()],) * count
    index = index * count
    return tuple(np.where(valid, buffer[index + j], zero)[()] for j in range(count))


def gather_weighted(t: Type, buffer: Any, m: Value, count: int, *taps: Value) -> tuple[Value, ...]:
    """Weighted sums of records over even and odd taps, and the totals of both."""
    sums: list[list[Value]] = [[], []]
    for k in range(0, len(taps), 2):
        row, w, side = gather_packet(t, buffer, taps[k], m, count), taps[k + 1], k // 2 % 2
        if sums[side]:
            sums[side] = [fma(w, v, s) for v, s in zip(row, sums[side], strict=True)]
        else:
            sums[side] = [w * v for v in row]
    even, odd = sums
    total = [a + b for a, b in zip(even, odd, strict=True)] if odd else even
    return tuple(np.where(m, v, t.dtype.type(0))[()] for v in total)


def _valid_lanes(
    buffer: Any, x: Value, m: Value, *values: Value, count: int = 1
) -> tuple[Any, list[Any]]:
    """Returns the mask of the lanes with valid indices, and their indices and values."""
    index, valid = _valid_indices(buffer, x, m, count)
    index, valid, *full = np.broadcast_arrays(np.atleast_1d(index), valid, *values)
    if np.all(valid):
        return valid, [index, *full]
    return valid, [index[valid], *(v[valid] for v in full)]


def scatter(t: Type, buffer: Any, v: Value, x: Value, m: Value) -> None:
    """Writes `v` at `x`; the highest lane wins."""
    scatter_packet(t, buffer, x, m, v)


def scatter_packet(t: Type, buffer: Any, x: Value, m: Value, *values: Value) -> None:
    """Writes elements `x * count + j`; the highest lane wins."""
    count = len(values)
    _, (index, *chosen) = _valid_lanes(buffer, x, m, *values, count=count)
    for j, v in enumerate(chosen):
        buffer[index * count + j] = v


def scatter_reduce(t: Type, op: str, mode: str, buffer: Any, v: Value, x: Value, m: Value) -> None:
    """Combines `v` into element `x`, lane by lane."""
    _, (index, v) = _valid_lanes(buffer, x, m, v)
    OPERATIONS[op].at(buffer, index, v)


def scatter_reduce_expand(
    t: Type, op: str, buffer: Any, copies: Any, n: int, v: Value, x: Value, m: Value
) -> None:
    """Combines `v` into element `x` by way of an accumulator for each element."""
    if t.dtype != np.float16:
        scatter_reduce(t, op, "direct", buffer, v, x, m)
        return
    function = OPERATIONS[op]
    _, (index, v) = _valid_lanes(buffer, x, m, v)
    total = np.full(buffer.size, ignored_number(op, np.dtype(np.float32)), np.float32)
    function.at(total, index, v.astype(np.float32))
    buffer[:] = function(buffer.astype(np.float32), total).astype(np.float16)


def scatter_reduce_packet(
    t: Type, op: str, buffer: Any, copies: Any, n: int, x: Value, m: Value, *values: Value
) -> None:
    """Combines `values` into elements `x * count + j`; see `scatter_reduce_expand`."""
    for j, v in enumerate(values):
        scatter_reduce_expand(t, op, buffer[j :: len(values)], copies, n, v, x, m)


def _spread(result: Any, valid: Any) -> Value:
    """Returns the results of the valid lanes in an array of all lanes, 0 elsewhere."""
    full = np.zeros(valid.shape, result.dtype)
    full[valid] = result
    return full


def _groups(index: Any) -> tuple[Any, Any]:
    """Returns an order that groups equal indices, and the positions in it where a new index
    starts."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    return order, np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(index)]


def scatter_inc(t: Type, buffer: Any, x: Value, m: Value) -> Value:
    """Adds 1 at `x`; returns the previous value."""
    valid, (index,) = _valid_lanes(buffer, x, m)
    order, first = _groups(index)
    position = np.arange(len(index))
    rank = np.empty(len(index), np.int64)
    rank[order] = position - np.maximum.accumulate(np.where(first, position, 0))
    old = buffer[index] + rank.astype(buffer.dtype)
    np.add.at(buffer, index, buffer.dtype.type(1))
    return _spread(old, valid)


def scatter_exch(t: Type, buffer: Any, v: Value, x: Value, m: Value) -> Value:
    """Writes `v` at `x`; returns the previous value."""
    valid, (index, v) = _valid_lanes(buffer, x, m, v)
    order, first = _groups(index)
    ordered = v[order]
    old = np.empty(len(index), buffer.dtype)
    old[order] = np.where(first, buffer[index[order]], np.roll(ordered, 1))
    buffer[index] = v
    return _spread(old, valid)


def scatter_cas(t: Type, buffer: Any, compare: Value, v: Value, x: Value, m: Value) -> Value:
    """Writes `v` at `x` where the bits equal those of `compare`; returns the previous value."""
    valid, (index, compare, v) = _valid_lanes(buffer, x, m, compare, v)
    old = np.empty(len(index), buffer.dtype)
    for k, at in enumerate(index):
        old[k] = buffer[at]
        if old[k].tobytes() == compare[k].tobytes():
            buffer[at] = v[k]
    return _spread(old, valid)
