"""Products of matrices on the processor: a launch whose tasks are tiles of the result."""

from typing import Any

from .. import processor
from ..device import Buffer
from ..ir import dtype as dt
from ..lazy import np
from . import kernel, runtime
from .kernel import text_of
from .memory import allocate, allocate_for

_MATMUL = text_of(
    "matmul({t}, {rows}, {columns}, {depth}, p[1], p[2], p[3], i, p[4], p[5], {at}, {bt})"
)
# Bytes of a column of a block of B. The rows of A that a register tile needs fill half of the first
# level's cache if they are packed. Read where they are, they may as well come from the second.
_DEPTH, _DEPTH_PACKED = 4096, 2048
# The largest tiles: rows, and the fewest and most columns.
_ROWS, _COLUMNS = 528, (64, 256)
# The multiples in which tiles are cut: those of register tiles.
_STEP = (24, 64)
# Columns that a packed block of B, or of sums, may have beyond those of its tile: those of the
# widest register tile.
_PAD = 128
# Rows of A's packed panel, and the gap between them (see target/simd/packing.py).
_PANEL, _GAP = 8, 16
# Multiply-adds of one of the lane-operations by which a launch is weighed.
_PER_LANE = 8


def _largest(depth: int) -> tuple[int, int]:
    """Returns the rows and columns of the largest tile, for columns of B of `depth` bytes: these
    fill half of a core's second-level cache, if that has 512 KiB or more."""
    fewest, most = _COLUMNS
    columns = processor.second_level_cache() // 2 // depth
    return _ROWS, min(max(columns // fewest * fewest, fewest), most)


def _cut(size: int, largest: int, step: int, parts: int) -> int:
    """Returns the size of roughly equal pieces: at least `parts` of them, unless they become too
    small."""
    count = max(-(-size // largest), min(parts, -(-size // step)))
    return -(-size // (count * step)) * step


def _tiles_of(layout: Any, t: dt.DType) -> tuple:
    """How products of a layout are cut, which it remembers: the text of the kernel, the number of
    tasks and their cost, a table as an argument, the type of the sums, and the bytes of the tasks'
    memory."""
    threads = runtime.thread_count()
    tiles = layout.plans.get(("cpu", t, threads))
    if tiles is None:
        tiles = layout.plans["cpu", t, threads] = _cut_up(layout, t, threads)
    return tiles


def _cut_up(layout: Any, t: dt.DType, threads: int) -> tuple:
    m, n, k = layout.sizes
    count = len(layout.offsets)
    at, bt = layout.transposed
    rows = 1 if m == 1 else 4 if m <= 4 else 8
    columns = 8 if n <= 8 else 16 if n <= 16 else 64
    accumulator = t.accumulator
    packed = at or t is not accumulator
    column = _DEPTH_PACKED if packed else _DEPTH
    depth = column // accumulator.itemsize
    tile_m, tile_n = _largest(column)
    # Threads get several tiles each, unless they would be smaller than what they need to pay off.
    wanted = -(-4 * threads // count) if m * n * k > 1 << 18 else 1
    mb = _cut(m, tile_m, _STEP[0], 1)
    tiles_m = -(-m // mb)
    nb = _cut(n, tile_n, _STEP[1], -(-wanted // tiles_m))
    tiles_n = -(-n // nb)
    if tiles_m * tiles_n < wanted:
        mb = _cut(m, tile_m, _STEP[0], -(-wanted // tiles_n))
        tiles_m = -(-m // mb)
    room = (nb + _PAD) * depth + _PANEL * (depth + _GAP)
    if k > depth:
        room += (mb + _PANEL) * (nb + _PAD)
    sizes = np.array([m, n, k, mb, nb, tiles_m, tiles_n, room], np.int64)
    table = np.concatenate([sizes, layout.offsets.ravel()])
    words = allocate_for(dt.i64, table.size, host=True)
    words.array(table.dtype, table.size)[:] = table
    text = _MATMUL.format(t=t.code, rows=rows, columns=columns, depth=depth, at=at, bt=bt)
    cost = max(1, mb * nb * k // _PER_LANE)
    tasks = count * tiles_m * tiles_n
    scratch = threads * room * accumulator.itemsize
    return text, tasks, cost, (words, dt.i64, table.size), accumulator, scratch


def matmul(t: dt.DType, a: tuple[Buffer, int], b: tuple[Buffer, int], layout: Any) -> Buffer:
    m, n, k = layout.sizes
    size = m * n * len(layout.offsets)
    text, tasks, cost, table, accumulator, nbytes = _tiles_of(layout, t)
    result, scratch = allocate(size * t.itemsize), allocate(nbytes)
    arguments = [
        (a[0], t, a[1]), (b[0], t, b[1]), (result, t, size),
        table, (scratch, accumulator, 0),
    ]  # fmt: skip
    entries = size * k // _PER_LANE
    kernel.run_text(text, 1, tasks, arguments, 1, entries, cost)
    return result
