"""Statements with loops of their own on NumPy arrays: matrix products, reductions over rows, and
the passes of a radix sort.
"""

from typing import Any

import numpy as np

from .elementwise import OPERATIONS, Type, Value, identity
from .memory import LaneRange

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
    """The products of a batch of matrices, for all tiles at once."""
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
    found = OPERATIONS[op].reduce(source, axis=2, dtype=dtype, initial=identity(op, dtype))
    result[: matrices * columns] = found.ravel()


def radix_count(starts: Any, i: LaneRange, x: Value, shift: int) -> None:
    """Does nothing: all lanes are one block here, and `radix_move` knows every key."""


def radix_move(starts: Any, i: LaneRange, x: Value, shift: int, *moved: Any) -> None:
    """Writes each of some values in the order of a digit of the key."""
    shifted = np.broadcast_to(x, i.end - i.begin) >> x.dtype.type(shift)
    order = np.argsort(shifted.astype(np.uint16) & np.uint16(_DIGIT), kind="stable")
    for buffer, v in zip(moved[::2], moved[1::2], strict=True):
        buffer[:] = v[order]
