"""Products of matrices and batches of them: a launch whose tasks are tiles of the result."""

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from ..ir import dtype as dt
from ..ir.node import Node, buffer, literal
from ..run import kernel, runtime, schedule
from ..run.freeze import operation
from ..run.history import one_operation
from ..run.memory import Buffer, allocate, allocate_for

_MATMUL = """def kernel(i, p):
    matmul({t}, {rows}, {columns}, {depth}, p[1], p[2], p[3], i, p[4], p[5], {at}, {bt})
"""
# Size in bytes of a column of a block of B, and the largest tiles, in rows and columns: a block
# fills half of a core's L2 cache. If packed, the rows of A for a register tile fill half of the L1
# cache; if read in place, they may as well come from L2.
_DEPTH, _TILE = 4096, (528, 128)
_DEPTH_PACKED, _TILE_PACKED = 2048, (528, 256)
# Tiles are cut at multiples of these, the sizes of register tiles.
_STEP = (24, 64)
# Columns that a packed block of B, or of sums, may have beyond its tile: those of the widest
# register tile.
_PAD = 128
# Rows of A's packed panel, and the gap between them (see target/simd/packing.py).
_PANEL, _GAP = 8, 16
# Number of multiply-adds that count as one lane-operation in the cost of a launch.
_PER_LANE = 8
# Up to this number of matrices in a batch, the tiling is cached.
REMEMBERED = 64


def _cut(size: int, largest: int, step: int, parts: int) -> int:
    """Returns the size of roughly equal pieces: at least `parts` of them, unless they become too
    small."""
    count = max(-(-size // largest), min(parts, -(-size // step)))
    return -(-size // (count * step)) * step


class _Tiles(NamedTuple):
    """The tiling of a product: the kernel, its table and the table's size, the number of tasks and
    their cost, the type of the sums, and the bytes of the tasks' memory."""

    text: str
    table: Buffer
    words: int
    tasks: int
    cost: int
    accumulator: dt.DType
    scratch: int


class ProductLayout:
    """The layout of a batch of products of `m` by `k` and `k` by `n` matrices. Transposed matrices
    are stored as `k` by `m`, or `n` by `k`, and each row of `offsets` has the start of the
    operands. The tiling of the products is cached; see `layout`.
    """

    __slots__ = ("_tiles", "offsets", "sizes", "transposed")

    def __init__(
        self, sizes: tuple[int, int, int], transposed: tuple[bool, bool], offsets: np.ndarray
    ) -> None:
        self.sizes = sizes
        self.transposed = transposed
        self.offsets = offsets
        self._tiles: dict[tuple[dt.DType, int], _Tiles] = {}

    def tiles(self, t: dt.DType, threads: int) -> _Tiles:
        found = self._tiles.get((t, threads))
        if found is None:
            found = self._tiles[t, threads] = _cut_up(self, t, threads)
        return found

    def flipped(self) -> "ProductLayout":
        """The layout of the transposed products, with the operands swapped."""
        (m, n, k), (at, bt) = self.sizes, self.transposed
        return layout((n, m, k), (not bt, not at), self.offsets[:, ::-1])


@lru_cache(256)
def _remembered(
    sizes: tuple[int, int, int], transposed: tuple[bool, bool], offsets: bytes
) -> ProductLayout:
    return ProductLayout(sizes, transposed, np.frombuffer(offsets, np.int64).reshape(-1, 2))


def layout(
    sizes: tuple[int, int, int], transposed: tuple[bool, bool], offsets: np.ndarray
) -> ProductLayout:
    """Returns the layout of products in memory. Equal layouts of few matrices are the same
    object."""
    if len(offsets) > REMEMBERED:
        return ProductLayout(sizes, transposed, offsets)
    return _remembered(sizes, transposed, offsets.tobytes())


def _cut_up(layout: ProductLayout, t: dt.DType, threads: int) -> _Tiles:
    m, n, k = layout.sizes
    count = len(layout.offsets)
    at, bt = layout.transposed
    rows = 1 if m == 1 else 4 if m <= 4 else 8
    columns = 8 if n <= 8 else 16 if n <= 16 else 64
    accumulator = t.accumulator
    packed = at or t is not accumulator
    depth = (_DEPTH_PACKED if packed else _DEPTH) // accumulator.itemsize
    tile_m, tile_n = _TILE_PACKED if packed else _TILE
    # Each thread gets several tiles, unless they would become too small to be worthwhile.
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
    return _Tiles(text, words, table.size, tasks, cost, accumulator, scratch)


@operation
@one_operation("BatchedGemm", lambda a, b, layout: prod(layout.sizes[:2]) * len(layout.offsets))
def matmul(a: Node, b: Node, layout: ProductLayout) -> Node:
    """Returns products of matrices."""
    t = a.dtype
    m, n, k = layout.sizes
    size = m * n * len(layout.offsets)
    if size == 0 or k == 0:
        return literal(t, 0, size)
    if n == 1 and m > 1:
        # The result has the same layout either way; a single row needs no padding.
        return matmul(b, a, layout.flipped())
    tiles = layout.tiles(t, runtime.thread_count())
    launch = kernel.for_text(tiles.text, 6, 1)
    on_numpy = launch.prefers_numpy(size * k // _PER_LANE)
    result = allocate(size * t.itemsize)
    scratch = allocate(0 if on_numpy else tiles.scratch)
    arguments = [
        *[(schedule.materialize(x).data, t, x.size) for x in (a, b)],
        (result, t, size),
        (tiles.table, dt.i64, tiles.words),
        (scratch, tiles.accumulator, 0),
    ]
    kernel.run_text(launch, tiles.tasks, arguments, 1, on_numpy, tiles.cost)
    return buffer(t, size, result)
