"""The primitives of the processor: scans, reductions of blocks, compression, sorting and products
of matrices, each a launch or two of a kernel text of its own.

A prefix reduction over many lanes takes two: totals of blocks, then the running values (Blelloch,
"Prefix sums and their applications", 1990).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import lcm
from typing import Any

from .. import processor
from ..device import Buffer
from ..ir import dtype as dt
from ..ir.op import starting_value
from ..lazy import np
from ..native import division
from ..run import launch
from . import kernel, runtime
from .kernel import text_of
from .memory import PADDING, allocate, allocate_for

_LOAD, _STORE = "x0 = load({t}, p[1], i)", "store({t}, p[3], i, v0)"
_TOTALS = text_of(_LOAD, "scan_totals({t}, {op!r}, p[2], i, x0)")
_SCAN = text_of(_LOAD, "v0 = scan({t}, {op!r}, p[2], i, x0, {inclusive})", _STORE)
_SCAN_BLOCKS = text_of(_LOAD, "v0 = scan_blocks({t}, {op!r}, i, x0, p[2], {inclusive})", _STORE)
_BLOCK_REDUCE = text_of(
    "v0 = active(i)",
    "v1 = lane(i)",
    "c0 = literal(u32, p[2])",
    "v2 = v1 * c0",
    "v3 = block_reduce({t}, {op!r}, p[1], v2, c0, v0)",
    "store({t}, p[3], i, v3)",
)
_REDUCE_ROWS = text_of("reduce_rows({t}, {op!r}, p[1], p[2], i, p[3], p[4], p[5])")
_COUNTS = text_of(
    "x0 = load(mask, p[1], i)",
    "v0 = u32(x0)",
    "scan_totals(u32, 'add', p[2], i, v0)",
    "reduce(u32, 'add', p[3], p[4], i, v0)",
)
_COMPRESS = text_of("x0 = load(mask, p[1], i)", "compress(p[2], p[3], i, x0)")


def _block_lanes(size: int, multiple: int = 64) -> int:
    """Returns the number of lanes per block for launches that must agree on it."""
    return division.lanes_of_block(size, multiple, runtime.thread_count())


def prefix(reduce: str, t: dt.DType, n: int, source: Buffer, exclusive: bool, run: int) -> Buffer:
    names = {"t": t.code, "op": reduce, "inclusive": not exclusive}
    result = allocate_for(t, n)
    values, results = (source, t, n), (result, t, n)
    if run < n:
        scan = _SCAN_BLOCKS.format(**names)
        # Blocks of the launch are whole packets and whole runs.
        kernel.run_text(scan, 8, n, [values, run, results], _block_lanes(n, lcm(run, 64)))
        return result
    block = _block_lanes(n)
    count = -(-n // block)
    accumulator = t.accumulator
    totals = (allocate_for(dt.u64, count, host=True), accumulator, count)
    on_numpy = None
    if count == 1:
        totals[0].fill(accumulator, 1, starting_value(reduce, accumulator))
    else:
        on_numpy = kernel.run_text(_TOTALS.format(**names), 3, n, [values, totals], block)
    arguments = [values, totals, results]
    kernel.run_text(_SCAN.format(**names), 8, n, arguments, block, on_numpy=on_numpy)
    return result


def block_reduce(reduce: str, t: dt.DType, n: int, source: Buffer, run: int) -> Buffer:
    in_half = t is dt.f16 and reduce in ("add", "mul")  # so would be the sums of pieces
    pieces = 1 if in_half else division.pieces(run, n, runtime.thread_count())
    if pieces > 1:
        parts = block_reduce(reduce, t, n, source, run // pieces)
        return block_reduce(reduce, t, n // (run // pieces), parts, pieces)
    count = n // run
    result = allocate_for(t, count)
    reduction = _BLOCK_REDUCE.format(t=t.code, op=reduce)
    # A short run costs as much as one that fills a few vectors.
    work = max(64, 2 * run)
    arguments = [(source, t, n), run, (result, t, count)]
    kernel.run_text(reduction, 4, count, arguments, entries=n, work=work)
    return result


@lru_cache(256)
def _row_plan(
    t: dt.DType, matrices: int, rows: int, columns: int, threads: int
) -> tuple[Buffer, int, int, int, int]:
    """Returns how rows are reduced: the table passed to the kernel, the number of tasks, their
    cost, and the elements of memory that threads and partial results need."""
    table = [0] * 7
    tasks = division.row_plan(table, matrices, rows, columns, threads, t.accumulator.itemsize)
    words = allocate_for(dt.i64, len(table), host=True)
    words.write(dt.i64, table)
    chunks, strip = table[4:6]
    partial = matrices * chunks * columns if chunks > 1 else 0
    cost = max(1, matrices * rows * columns // (4 * tasks))
    return words, tasks, cost, 2 * threads * strip, partial


def reduce_rows(
    reduce: str, t: dt.DType, n: int, source: Buffer, rows: int, columns: int
) -> Buffer:
    matrices = n // (rows * columns)
    threads = runtime.thread_count()
    table, tasks, cost, scratch, partial = _row_plan(t, matrices, rows, columns, threads)
    accumulator = t.accumulator
    result = allocate_for(t, matrices * columns)
    reduction = _REDUCE_ROWS.format(t=t.code, op=reduce)
    arguments = [
        (source, t, n), (result, t, matrices * columns), (table, dt.i64, 7),
        (allocate_for(accumulator, scratch), accumulator, 0),
        (allocate_for(accumulator, partial), accumulator, 0),
    ]  # fmt: skip
    kernel.run_text(reduction, 1, tasks, arguments, 1, n, cost)
    return result


def compress(n: int, mask: Buffer) -> tuple[Buffer, int]:
    source = (mask, dt.mask, n)
    block = _block_lanes(n)
    count = -(-n // block)
    starts = (allocate_for(dt.u64, count + 1), dt.u32, count + 1)
    partials = (allocate_for(dt.u64, count), dt.u32, count)
    total = (allocate_for(dt.u32, 1), dt.u32, 1)
    on_numpy = kernel.run_text(_COUNTS, 4, n, [source, starts, partials, total], block)
    size = launch.entries(dt.u32, 1, total[0])[0]
    result = allocate_for(dt.u32, size)
    if size:
        starts[0].put(dt.u32, count, size + PADDING // 4)
        arguments = [source, starts, (result, dt.u32, size)]
        kernel.run_text(_COMPRESS, 6, n, arguments, block, on_numpy=on_numpy)
    return result, size


# ---- Sorting by radix from the lowest digit up, each pass stable, its work shared by all threads
#
# A pass counts how often each digit occurs in each block of lanes, `finish` turns counts into
# positions, and a second launch moves keys there (D. E. Knuth, The Art of Computer Programming 3,
# section 5.2.5).

_LOAD_PAYLOAD = "x1 = load(u32, p[5], i)"
_COUNT = text_of(_LOAD, "radix_count(p[2], i, x0, p[3])")
_MOVE = text_of(_LOAD, "radix_move(p[2], i, x0, p[3], p[4], x0)")
_MOVE_PAIRS = text_of(_LOAD, _LOAD_PAYLOAD, "radix_move(p[2], i, x0, p[3], p[4], x0, p[6], x1)")
# The last pass needs no keys, and a key of 32 bits moves with its payload as one word, which takes
# two thirds of the time of two stores to different places.
_MOVE_PAYLOAD = text_of(_LOAD, _LOAD_PAYLOAD, "radix_move(p[2], i, x0, p[3], p[4], x1)")
_JOIN = text_of(
    _LOAD,
    _LOAD_PAYLOAD,
    "v0 = u64(x0)",
    "v1 = shl(v0, 32)",
    "v2 = u64(x1)",
    "v3 = v1 | v2",
    "radix_move(p[2], i, x0, p[3], p[4], v3)",
)
_MOVE_LOW = text_of(_LOAD, "v0 = u32(x0)", "radix_move(p[2], i, x0, p[3], p[4], v0)")
_DIGIT = 11
_ENTRIES = (1 << _DIGIT) + 1  # as in target/simd/radix.py
# Below this number of lanes, one thread is faster than several with tables of their own.
_SORTED_BLOCK = 1 << 15


def sort(t: dt.DType, n: int, keys: Buffer, payload: Buffer | None, bits: int) -> Buffer:
    blocks = min(2 * runtime.thread_count(), -(-n // _SORTED_BLOCK))
    block = -(-n // (blocks * 64)) * 64
    entries = -(-n // block) * _ENTRIES
    on_numpy = None
    columns = [(keys, t, n)] if payload is None else [(keys, t, n), (payload, dt.u32, n)]
    for text, key, shift, results in _passes(t, payload is not None, bits):
        table = _zeros(entries), dt.u32, entries
        count, counted = _COUNT.format(t=key.code), [columns[0], table, shift]
        on_numpy = kernel.run_text(count, 8, n, counted, block, 8 * n, on_numpy=on_numpy)
        moved = [(allocate_for(r, n), r, n) for r in results]
        arguments = [*counted, moved[0]]
        if "p[5]" in text:
            arguments += [columns[1], *moved[1:]]
        kernel.run_text(text.format(t=key.code), 16, n, arguments, block, on_numpy=on_numpy)
        columns = moved
    return columns[0][0]


def _passes(
    t: dt.DType, has_payload: bool, bits: int
) -> Iterator[tuple[str, dt.DType, int, Sequence[dt.DType]]]:
    """Yields the kernel of each pass, the type of its keys, where their digit begins, and the types
    of what it moves."""
    *shifts, last = range(0, bits, _DIGIT)
    if not has_payload:
        for shift in (*shifts, last):
            yield _MOVE, t, shift, (t,)
    elif t.bits > 32 or not shifts:
        for shift in shifts:
            yield _MOVE_PAIRS, t, shift, (t, dt.u32)
        yield _MOVE_PAYLOAD, t, last, (dt.u32,)
    else:
        yield _JOIN, t, 0, (dt.u64,)
        for shift in shifts[1:]:
            yield _MOVE, dt.u64, 32 + shift, (dt.u64,)
        yield _MOVE_LOW, dt.u64, 32 + last, (dt.u32,)


def _zeros(count: int) -> Buffer:
    table = allocate_for(dt.u32, count, host=True)
    table.fill(dt.u32, count, 0)
    return table


# ---- Products of matrices: a launch whose tasks are tiles of the result

_MATMUL = text_of(
    "matmul({t}, {rows}, {columns}, {depth}, p[1], p[2], p[3], i, p[4], p[5], {at}, {bt})"
)
# Bytes of a column of a block of B. If the rows of A that a register tile needs are packed, they
# fill half of the first-level cache. If they are read in place, the second level serves as well.
_DEPTH, _DEPTH_PACKED = 4096, 2048
# The fewest and most columns of the largest tiles.
_COLUMNS = 64, 256
# Multiply-adds of one of the lane-operations by which a launch is weighed.
_PER_LANE = 8


def _widest_tile(depth: int) -> int:
    """Returns the most columns of a tile, for columns of B of `depth` bytes: these fill half of a
    core's second-level cache, if that has 512 KiB or more."""
    fewest, most = _COLUMNS
    columns = processor.second_level_cache() // 2 // depth
    return min(max(columns // fewest * fewest, fewest), most)


def _tile_plan(layout: Any, t: dt.DType) -> tuple:
    """Returns how products of a layout are divided, which the layout remembers: the text of the
    kernel, the number of tasks and their cost, a table as an argument, the type of the sums, and
    the bytes of scratch memory."""
    threads = runtime.thread_count()
    tiles = layout.plans.get(("cpu", t, threads))
    if tiles is None:
        tiles = layout.plans["cpu", t, threads] = _plan_tiles(layout, t, threads)
    return tiles


def product_text(layout: Any, t: dt.DType) -> tuple[str, int]:
    """Returns the text of the kernel for products of a layout, and the bytes of a column of a block
    of B."""
    m, n, _ = layout.sizes
    at, bt = layout.transposed
    rows = 1 if m == 1 else 4 if m <= 4 else 8
    columns = 8 if n <= 8 else 16 if n <= 16 else 64
    column = _DEPTH_PACKED if at or t is not t.accumulator else _DEPTH
    depth = column // t.accumulator.itemsize
    text = _MATMUL.format(t=t.code, rows=rows, columns=columns, depth=depth, at=at, bt=bt)
    return text, column


def _plan_tiles(layout: Any, t: dt.DType, threads: int) -> tuple:
    m, n, k = layout.sizes
    count = len(layout.offsets)
    accumulator = t.accumulator
    text, column = product_text(layout, t)
    depth = column // accumulator.itemsize
    sizes, widest = [0] * 8, _widest_tile(column)
    tasks = division.tile_plan(sizes, m, n, k, count, threads, depth, widest)
    *_, mb, nb, _, _, room = sizes
    table = np.concatenate([np.array(sizes, np.int64), layout.offsets.ravel()])
    words = allocate_for(dt.i64, table.size, host=True)
    words.array(table.dtype, table.size)[:] = table
    cost = max(1, mb * nb * k // _PER_LANE)
    scratch = threads * room * accumulator.itemsize
    return text, tasks, cost, (words, dt.i64, table.size), accumulator, scratch


def matmul(t: dt.DType, a: tuple[Buffer, int], b: tuple[Buffer, int], layout: Any) -> Buffer:
    m, n, k = layout.sizes
    size = m * n * len(layout.offsets)
    text, tasks, cost, table, accumulator, nbytes = _tile_plan(layout, t)
    result, scratch = allocate(size * t.itemsize), allocate(nbytes)
    arguments = [
        (a[0], t, a[1]), (b[0], t, b[1]), (result, t, size),
        table, (scratch, accumulator, 0),
    ]  # fmt: skip
    entries = size * k // _PER_LANE
    kernel.run_text(text, 1, tasks, arguments, 1, entries, cost)
    return result
