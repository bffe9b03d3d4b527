"""Products of matrices and batches of them: a launch whose tasks are tiles of the result."""

import numpy as np

from . import dtype as dt
from . import kernel, runtime, schedule
from .freeze import operation
from .memory import allocate_for
from .node import Node, buffer, cast, literal

_MATMUL = """def kernel(i, p):
    matmul({t}, {rows}, {depth}, p[1], p[2], p[3], i, p[4], p[5], {at}, {bt})
"""
# Bytes of a row of a packed block of A or B: of B, it and its neighbours fill half of a core's
# second-level cache, of A the rows of a register tile half of the first.
_DEPTH = 2048
# Largest tiles, in rows and columns, and the multiples in which they are cut: those of register
# tiles.
_TILE = (264, 256)
_STEP = (24, 64)
# Columns that the packed block of B may have beyond those of the tile.
_PAD = 256
# Rows of A's packed panel, and the gap between them (see target/simd/product.py).
_PANEL, _GAP = 8, 16
# Multiply-adds of one of the lane-operations by which a launch is weighed.
_PER_LANE = 8


def _cut(size: int, largest: int, step: int, parts: int) -> int:
    """The size of about equal pieces, at least so many if they are not too small."""
    count = max(-(-size // largest), min(parts, -(-size // step)))
    return -(-size // (count * step)) * step


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
    rows = 1 if m == 1 else 4 if m <= 4 else 8
    depth = _DEPTH // accumulator.itemsize
    # Threads get several tiles each, unless they would be smaller than what they need to pay off.
    wanted = -(-4 * runtime.thread_count() // count) if m * n * k > 1 << 18 else 1
    mb = _cut(m, *(_TILE[0], _STEP[0]), 1)
    tiles_m = -(-m // mb)
    nb = _cut(n, *(_TILE[1], _STEP[1]), -(-wanted // tiles_m))
    tiles_n = -(-n // nb)
    if tiles_m * tiles_n < wanted:
        mb = _cut(m, *(_TILE[0], _STEP[0]), -(-wanted // tiles_n))
        tiles_m = -(-m // mb)
    room = (nb + _PAD) * depth + _PANEL * (depth + _GAP)
    sizes = np.array([m, n, k, mb, nb, tiles_m, tiles_n, room], np.int64)
    table = np.concatenate([sizes, np.ravel(offsets)])
    words = allocate_for(dt.i64, table.size, host=True)
    words.array(table.dtype, table.size)[:] = table
    text = _MATMUL.format(t=t.code, rows=rows, depth=depth, at=a_transposed, bt=b_transposed)
    launch = kernel.for_text(text, 6, 1)
    on_numpy = launch.prefers_numpy(size * k // _PER_LANE)
    threads = 1 if on_numpy else runtime.thread_count()
    scratch = allocate_for(accumulator, 0 if on_numpy else threads * room)
    result = allocate_for(accumulator, size)
    arguments = [
        *[(schedule.materialize(x).data, t, x.size) for x in (a, b)],
        (result, accumulator, size),
        (words, dt.i64, table.size),
        (scratch, accumulator, 0),
    ]
    cost = max(1, mb * nb * k // _PER_LANE)
    kernel.run_text(launch, count * tiles_m * tiles_n, arguments, 1, on_numpy, cost)
    return cast(t, buffer(accumulator, size, result))
