"""Products of matrices and batches of them: a launch whose tasks are tiles of the result."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from . import dtype as dt
from . import kernel, runtime, schedule
from .freeze import operation
from .memory import Buffer, allocate_for
from .node import Node, buffer, literal

_MATMUL = """def kernel(i, p):
    matmul({t}, {rows}, {depth}, p[1], p[2], p[3], i, p[4], p[5], p[6], {at}, {bt})
"""
# Bytes of a column of a block of B: it and its neighbours fill half of a core's second-level cache,
# the rows of A that a register tile needs half of the first.
_DEPTH = 2048
# Largest tiles, in rows and columns, and the multiples in which they are cut: those of register
# tiles.
_TILE = (528, 256)
_STEP = (24, 64)
# Columns that the packed block of B may have beyond those of the tile.
_PAD = 256
# Rows of A's packed panel, and the gap between them (see target/simd/product.py).
_PANEL, _GAP = 8, 16
# Multiply-adds of one of the lane-operations by which a launch is weighed.
_PER_LANE = 8
# Products of a batch up to which it is remembered how they are cut.
_REMEMBERED = 64


def _cut(size: int, largest: int, step: int, parts: int) -> int:
    """The size of about equal pieces, at least so many if they are not too small."""
    count = max(-(-size // largest), min(parts, -(-size // step)))
    return -(-size // (count * step)) * step


class _Tiles(NamedTuple):
    """How a product is cut: the rows of its register tiles and the depth of its blocks, the table
    that the kernel reads and its size, the number of tasks, what one costs, and the elements of
    their memory."""

    rows: int
    depth: int
    table: Buffer
    words: int
    tasks: int
    cost: int
    scratch: int


@lru_cache(256)
def _tiles(accumulator: dt.DType, m: int, n: int, k: int, offsets: bytes, threads: int) -> _Tiles:
    count = len(offsets) // 16
    rows = 1 if m == 1 else 4 if m <= 4 else 8
    depth = _DEPTH // accumulator.itemsize
    # Threads get several tiles each, unless they would be smaller than what they need to pay off.
    wanted = -(-4 * threads // count) if m * n * k > 1 << 18 else 1
    mb = _cut(m, *(_TILE[0], _STEP[0]), 1)
    tiles_m = -(-m // mb)
    nb = _cut(n, *(_TILE[1], _STEP[1]), -(-wanted // tiles_m))
    tiles_n = -(-n // nb)
    if tiles_m * tiles_n < wanted:
        mb = _cut(m, *(_TILE[0], _STEP[0]), -(-wanted // tiles_n))
        tiles_m = -(-m // mb)
    room = (nb + _PAD) * depth + _PANEL * (depth + _GAP)
    sizes = np.array([m, n, k, mb, nb, tiles_m, tiles_n, room], np.int64)
    table = np.concatenate([sizes, np.frombuffer(offsets, np.int64)])
    words = allocate_for(dt.i64, table.size, host=True)
    words.array(table.dtype, table.size)[:] = table
    cost = max(1, mb * nb * k // _PER_LANE)
    tasks = count * tiles_m * tiles_n
    return _Tiles(rows, depth, words, table.size, tasks, cost, threads * room)


@operation
def matmul(
    a: Node,
    b: Node,
    m: int,
    n: int,
    k: int,
    a_transposed: bool,
    b_transposed: bool,
    offsets: np.ndarray,
) -> Node:
    """The products of `m` by `k` and `k` by `n` matrices, one after the other. Transposed ones are
    stored as `k` by `m`, or `n` by `k`. A row of `offsets` says where in `a` and in `b` they start.
    """
    t = a.dtype
    count = len(offsets)
    size = m * n * count
    if size == 0 or k == 0:
        return literal(t, 0, size)
    if n == 1 and m > 1:
        # The result has the same layout either way; a single row needs no padding.
        return matmul(b, a, 1, m, k, False, not a_transposed, offsets[:, ::-1])
    accumulator = dt.f32 if t is dt.f16 else t
    cut = _tiles if count <= _REMEMBERED else _tiles.__wrapped__
    plan = cut(accumulator, m, n, k, offsets.tobytes(), runtime.thread_count())
    text = _MATMUL.format(
        t=t.code, rows=plan.rows, depth=plan.depth, at=a_transposed, bt=b_transposed
    )
    launch = kernel.for_text(text, 7, 1)
    on_numpy = launch.prefers_numpy(size * k // _PER_LANE)
    result = allocate_for(t, size)
    scratch = allocate_for(accumulator, 0 if on_numpy else plan.scratch)
    partial = allocate_for(accumulator, size) if t is dt.f16 and k > plan.depth else result
    arguments = [
        *[(schedule.materialize(x).data, t, x.size) for x in (a, b)],
        (result, t, size),
        (plan.table, dt.i64, plan.words),
        (scratch, accumulator, 0),
        (partial, accumulator, 0),
    ]
    kernel.run_text(launch, plan.tasks, arguments, 1, on_numpy, plan.cost)
    return buffer(t, size, result)
