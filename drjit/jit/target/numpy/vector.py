"""Vectors of the kernel language on NumPy arrays: a vector is an array of features and lanes, with
a single lane if it is the same for all.

Element-wise operations need no definition here: scalars broadcast along features.
"""

from typing import Any

import numpy as np

from ...ir.dtype import VECTOR_BLOCK
from .elementwise import Type, Value
from .memory import LaneRange


def vector(t: Type, *features: Value) -> Value:
    """The vector of these features."""
    rows = np.broadcast_arrays(*[np.atleast_1d(x) for x in features])
    return np.stack(rows).astype(t.dtype, copy=False)


def splat(t: Type, count: int, x: Value) -> Value:
    """The vector whose features all equal the same scalar."""
    lanes = np.atleast_1d(t(x))
    return np.broadcast_to(lanes, (count, len(lanes)))


def _in_memory(buffer: Any, count: int) -> Any:
    """Returns the blocks of vectors in a buffer: by feature, block, and lane."""
    return buffer.reshape(-1, count, VECTOR_BLOCK).swapaxes(0, 1)


def load_vector(t: Type, count: int, buffer: Any, i: LaneRange) -> Value:
    """The vectors of the lanes."""
    return _in_memory(buffer, count).reshape(count, -1)[:, i.begin : i.end].copy()


def broadcast_vector(t: Type, count: int, buffer: Any) -> Value:
    """Vector 0 of a buffer."""
    return _in_memory(buffer, count)[:, 0, :1].copy()


def store_vector(t: Type, count: int, buffer: Any, i: LaneRange, v: Value) -> None:
    """Stores the vectors of the lanes."""
    blocks = _in_memory(buffer, count)
    rows = blocks.reshape(count, -1)
    rows[:, i.begin : i.end] = v
    blocks[:] = rows.reshape(blocks.shape)


def _scalar(x: Any) -> Value:
    return x[0] if x.shape == (1,) else x


def feature(v: Value, k: int) -> Value:
    """Feature `k` as a scalar."""
    return _scalar(v[k])


def total(v: Value) -> Value:
    """Returns the sum over features."""
    wide = np.float32 if v.dtype == np.float16 else v.dtype
    return _scalar(np.add.reduce(v, axis=0, dtype=wide).astype(v.dtype))


def _rows(index: Value, m: Value, lanes: int) -> tuple[Any, ...]:
    """Returns the lanes of a mask, and the feature of a vector that each of them selects."""
    chosen = np.flatnonzero(np.broadcast_to(m, lanes))
    return chosen, np.broadcast_to(index, lanes)[chosen]


def take(v: Value, index: Value, m: Value) -> Value:
    """The feature at an index that varies between lanes, 0 where the mask is false."""
    lanes = max(v.shape[1], np.size(index), np.size(m))
    chosen, rows = _rows(index, m, lanes)
    result = np.zeros(lanes, v.dtype)
    result[chosen] = np.broadcast_to(v, (len(v), lanes))[rows, chosen]
    return _scalar(result)


def put(v: Value, index: Value, value: Value, m: Value) -> Value:
    """Replaces the feature at such an index where the mask is true."""
    lanes = max(v.shape[1], *[np.size(x) for x in (index, value, m)])
    chosen, rows = _rows(index, m, lanes)
    result = np.array(np.broadcast_to(v, (len(v), lanes)))
    result[rows, chosen] = np.broadcast_to(value, lanes)[chosen]
    return result


def _matrix(buffer: Any, first: int, rows: int, columns: int, stride: int) -> Any:
    """Returns a matrix in a buffer, sharing its memory."""
    size = buffer.itemsize
    part = buffer[int(first) :]
    return np.lib.stride_tricks.as_strided(part, (rows, columns), (stride * size, size))


def matvec(
    t: Type,
    a: Any,
    first: int,
    rows: int,
    columns: int,
    stride: int,
    transposed: bool,
    x: Value,
    bias: Any = None,
    bias_first: int = 0,
) -> Value:
    """The product of a matrix, or its transpose, with each lane of a vector, plus a bias."""
    matrix = _matrix(a, first, rows, columns, stride)
    product = (matrix.T if transposed else matrix) @ x.astype(t.accumulator, copy=False)
    if bias is not None:
        start = int(bias_first)
        product = product + bias[start : start + len(product), None]
    return product.astype(t.dtype, copy=False)


def _lanes(m: Value, *vectors: Value) -> list[Any]:
    """Returns the active lanes of vectors."""
    lanes = max([np.size(m), *[v.shape[1] for v in vectors]])
    chosen = np.broadcast_to(m, lanes)
    return [np.broadcast_to(v, (len(v), lanes))[:, chosen] for v in vectors]


def _add(buffer: Any, sums: Any) -> None:
    buffer[...] = (buffer.astype(sums.dtype, copy=False) + sums).astype(buffer.dtype)


def outer(
    t: Type,
    buffer: Any,
    copies: Any,
    n: int,
    first: int,
    rows: int,
    columns: int,
    stride: int,
    y: Value,
    x: Value,
    m: Value,
) -> None:
    """Adds the outer products of two vectors, summed over active lanes, to a matrix."""
    wide = t.accumulator
    y, x = [v.astype(wide, copy=False) for v in _lanes(m, y, x)]
    _add(_matrix(buffer, first, rows, columns, stride), y @ x.T)


def accumulate(t: Type, buffer: Any, copies: Any, n: int, first: int, y: Value, m: Value) -> None:
    """Adds a vector, summed over active lanes, to a range of a buffer."""
    (y,) = _lanes(m, y)
    start = int(first)
    sums = np.add.reduce(y, axis=1, dtype=t.accumulator)
    _add(buffer[start : start + len(y)], sums)
