"""Reductions, prefix reductions, compression, products of matrices and the passes of a radix sort
in the kernel language, on NumPy arrays.

All lanes are one block here, so the totals of blocks are those of element 0. Sums are pairwise;
`min` and `max` ignore NaN; `f16` accumulates in `f32`.
"""

from typing import Any

import numpy as np

from ...ir import op as ops
from ...ir.dtype import types_by_numpy
from .elementwise import OPERATIONS, Type, Value, neutral_number
from .memory import LaneRange

# Number of elements that a block reduction gathers at a time.
_GATHERED_ELEMENTS = 1 << 22


def _of_lanes(t: Type, i: LaneRange, x: Value) -> Any:
    return np.broadcast_to(np.asarray(x, t.accumulator), i.end - i.begin)


def reduce(t: Type, op: str, partial: Any, buffer: Any, i: LaneRange, x: Value) -> None:
    """Combines the values of all lanes into element 0 of the buffer."""
    dtype = t.accumulator
    x = _of_lanes(t, i, x)
    buffer[0] = OPERATIONS[op].reduce(x, dtype=dtype, initial=neutral_number(op, dtype))


def block_reduce(t: Type, op: str, buffer: Any, x: Value, n: Value, m: Value) -> Value:
    """Combines `n` consecutive elements from index `x` on, 0 where the mask is false."""
    dtype, length = t.accumulator, int(np.ravel(n)[0]) if np.size(n) else 0
    x, m = np.broadcast_arrays(np.atleast_1d(x), m)
    result = np.zeros(x.shape, t.dtype)
    lanes = np.flatnonzero(m & (x.astype(np.float64) + length <= buffer.size))
    rows = max(1, _GATHERED_ELEMENTS // max(length, 1))
    for k in range(0, len(lanes), rows):
        some = lanes[k : k + rows]
        elements = buffer[x[some].astype(np.intp)[:, None] + np.arange(length)].astype(dtype)
        initial = neutral_number(op, dtype)
        result[some] = OPERATIONS[op].reduce(elements, axis=1, dtype=dtype, initial=initial)
    return result


def _prefix(op: str, dtype: np.dtype, first: Any, x: Any, inclusive: bool) -> Any:
    """Returns the running values along the last axis, starting at `first`."""
    start = np.broadcast_to(dtype.type(first), (*x.shape[:-1], 1))
    values = np.concatenate([start, x], axis=-1)
    running = OPERATIONS[op].accumulate(values, axis=-1, dtype=dtype)
    return running[..., 1:] if inclusive else running[..., :-1]


def _starting_value(op: str, dtype: np.dtype) -> Any:
    """Returns the visible start of a prefix reduction: 0.0 for a sum, not -0.0."""
    return dtype.type(ops.starting_value(op, types_by_numpy()[dtype]))


def scan_totals(t: Type, op: str, totals: Any, i: LaneRange, x: Value) -> None:
    """Computes what the prefix reductions of blocks start from: here, for a single block."""
    totals[0] = _starting_value(op, t.accumulator)


def scan(t: Type, op: str, totals: Any, i: LaneRange, x: Value, inclusive: bool) -> Value:
    """Returns the prefix reduction over all lanes, starting at the total of the block."""
    return t(_prefix(op, t.accumulator, totals[0], _of_lanes(t, i, x), inclusive))


def scan_blocks(t: Type, op: str, i: LaneRange, x: Value, n: int, inclusive: bool) -> Value:
    """Returns the prefix reduction within each run of `n` lanes."""
    dtype, n = t.accumulator, int(n)
    x = _of_lanes(t, i, x)
    runs = np.full(-(-len(x) // n) * n, neutral_number(op, dtype), dtype)
    runs[: len(x)] = x
    # The first lane of a run preserves a negative zero.
    first = neutral_number(op, dtype) if inclusive else _starting_value(op, dtype)
    return t(_prefix(op, dtype, first, runs.reshape(-1, n), inclusive).ravel()[: len(x)])


def compress(positions: Any, buffer: Any, i: LaneRange, m: Value) -> None:
    """Writes the indices of the lanes where `m` is true consecutively."""
    chosen = np.flatnonzero(np.broadcast_to(m, i.end - i.begin)) + i.begin
    first = int(positions[0])
    buffer[first : first + len(chosen)] = chosen


# ----------------------------------------------------------------------------------------- tasks

_DIGIT = 2047


def matmul(
    t: Type,
    rows: int,
    columns: int,
    depth: int,
    a: Any,
    b: Any,
    c: Any,
    i: LaneRange,
    sizes: Any,
    scratch: Any,
    a_transposed: bool,
    b_transposed: bool,
) -> None:
    """Computes the products of a batch of matrices, for all tiles at once."""
    m, n, k = (int(v) for v in sizes[:3])
    for number, (first_a, first_b) in enumerate(sizes[8:].reshape(-1, 2).tolist()):
        x, y = a[first_a : first_a + m * k], b[first_b : first_b + k * n]
        x = x.reshape((k, m)).T if a_transposed else x.reshape((m, k))
        y = y.reshape((n, k)).T if b_transposed else y.reshape((k, n))
        x, y = (v.astype(t.accumulator, copy=False) for v in (x, y))
        c[number * m * n : (number + 1) * m * n] = np.matmul(x, y).ravel()


def reduce_rows(
    t: Type, op: str, x: Any, result: Any, i: LaneRange, sizes: Any, scratch: Any, partial: Any
) -> None:
    """Reduces rows, with one result per column."""
    matrices, rows, columns = (int(v) for v in sizes[:3])
    dtype = t.accumulator
    source = x[: matrices * rows * columns].reshape((matrices, rows, columns))
    # NumPy adds pairwise, with small errors, if the terms of a sum are adjacent in memory.
    source = np.ascontiguousarray(source.swapaxes(1, 2))
    sums = OPERATIONS[op].reduce(source, axis=2, dtype=dtype, initial=neutral_number(op, dtype))
    result[: matrices * columns] = sums.ravel()


def radix_count(starts: Any, i: LaneRange, x: Value, shift: int) -> None:
    """Does nothing: all lanes are one block here, and `radix_move` knows every key."""


def radix_move(starts: Any, i: LaneRange, x: Value, shift: int, *moved: Any) -> None:
    """Writes values in the order of a digit of the key `x`; `moved` are buffers, each followed by
    its values."""
    shifted = np.broadcast_to(x, i.end - i.begin) >> x.dtype.type(shift)
    order = np.argsort(shifted.astype(np.uint16) & np.uint16(_DIGIT), kind="stable")
    for buffer, v in zip(moved[::2], moved[1::2], strict=True):
        buffer[:] = v[order]
