"""Operations across lanes: prefix and block reductions, and compression of masks.

They are kernel texts of their own that read evaluated buffers. A prefix reduction over many lanes
takes two launches: one for the totals of blocks, then one for the running values (Blelloch, "Prefix
sums and their applications", 1990).
"""

from functools import lru_cache
from math import lcm
from typing import NamedTuple

from ..ir import dtype as dt
from ..ir.node import LITERAL, Node, buffer, lane, literal
from ..ir.op import identity
from ..run import kernel, runtime, schedule
from ..run.freeze import operation
from ..run.history import one_operation
from ..run.memory import Buffer, allocate_for

_TOTALS = """def kernel(i, p):
    x0 = load({t}, p[1], i)
    scan_totals({t}, {op!r}, p[2], i, x0)
"""
_SCAN = """def kernel(i, p):
    x0 = load({t}, p[1], i)
    v0 = scan({t}, {op!r}, p[2], i, x0, {inclusive})
    store({t}, p[3], i, v0)
"""
_SCAN_BLOCKS = """def kernel(i, p):
    x0 = load({t}, p[1], i)
    v0 = scan_blocks({t}, {op!r}, i, x0, p[2], {inclusive})
    store({t}, p[3], i, v0)
"""
_BLOCK_REDUCE = """def kernel(i, p):
    v0 = active(i)
    v1 = lane(i)
    c0 = literal(u32, p[2])
    v2 = v1 * c0
    v3 = block_reduce({t}, {op!r}, p[1], v2, c0, v0)
    store({t}, p[3], i, v3)
"""
_REDUCE_ROWS = """def kernel(i, p):
    reduce_rows({t}, {op!r}, p[1], p[2], i, p[3], p[4], p[5])
"""
_COUNTS = """def kernel(i, p):
    x0 = load(mask, p[1], i)
    v0 = u32(x0)
    scan_totals(u32, 'add', p[2], i, v0)
    reduce(u32, 'add', p[3], p[4], i, v0)
"""
_COMPRESS = """def kernel(i, p):
    x0 = load(mask, p[1], i)
    compress(p[2], p[3], i, x0)
"""


def _evaluated(a: Node) -> Buffer:
    return schedule.materialize(a).data


# Below this number of lanes, one thread is faster than several that must synchronize.
_ONE_BLOCK = 65536
# Above this number of elements, a block reduction with few results is subdivided.
_DIVIDED = 1 << 18
# Size in bytes of the accumulators that stay in the L1 cache, and the minimum number of rows for a
# task.
_STRIP, _SHORTEST = 1 << 14, 16


def _blocks(size: int, multiple: int = 64) -> int:
    """Returns the number of lanes per block for launches that must agree on it."""
    count = 4 * runtime.thread_count()
    return max(-(-size // (count * multiple)), -(-_ONE_BLOCK // multiple)) * multiple


@operation
@one_operation("BlockPrefixReduce", lambda reduce, a, *_: a.size)
def prefix(reduce: str, a: Node, exclusive: bool, block_size: int = 0) -> Node:
    """Returns the prefix reduction of all lanes, or within runs of `block_size` lanes."""
    n, t = a.size, a.dtype
    if n == 0:
        return literal(t, 0, 0)
    block_size = block_size or n
    if block_size == 1 or n == 1:
        return literal(t, identity(reduce, t), n) if exclusive else a
    names = {"t": t.code, "op": reduce, "inclusive": not exclusive}
    source = (_evaluated(a), t, n)
    result = allocate_for(t, n)
    if block_size < n:
        launch = kernel.for_text(_SCAN_BLOCKS.format(**names), 4, 8)
        # Blocks of the launch are whole packets and whole runs.
        lanes = _blocks(n, lcm(block_size, 64))
        kernel.run_text(launch, n, [source, block_size, (result, t, n)], lanes)
    else:
        block = _blocks(n)
        count = -(-n // block)
        accumulator = t.accumulator
        totals = (allocate_for(dt.u64, count, host=True), accumulator, count)
        launch = kernel.for_text(_SCAN.format(**names), 4, 8)
        on_numpy = launch.prefers_numpy(n)
        if count == 1:
            totals[0].array(accumulator.numpy, 1)[0] = identity(reduce, accumulator)
        else:
            first = kernel.for_text(_TOTALS.format(**names), 3, 3)
            kernel.run_text(first, n, [source, totals], block, on_numpy)
        kernel.run_text(launch, n, [source, totals, (result, t, n)], block, on_numpy)
    return buffer(t, n, result)


def block_reduce(reduce: str, a: Node, block_size: int) -> Node:
    """Reduces each run of `block_size` lanes, which must divide the size."""
    return _block_reduce(reduce, a, block_size, a.size // block_size)


@operation
@one_operation("BlockReduce", lambda reduce, a, *_: a.size)
def _block_reduce(reduce: str, a: Node, block_size: int, count: int) -> Node:
    """Reduces `count` runs. A recording with this number is invalid for sizes that are not
    multiples."""
    t, n = a.dtype, a.size
    if block_size == 1 or n == 0:
        return a
    pieces = _pieces(reduce, a, block_size)
    if pieces > 1:
        return block_reduce(reduce, block_reduce(reduce, a, block_size // pieces), pieces)
    result = allocate_for(t, count)
    launch = kernel.for_text(_BLOCK_REDUCE.format(t=t.code, op=reduce), 4, 4)
    arguments = [(_evaluated(a), t, n), block_size, (result, t, count)]
    # A short run costs as much as one that fills a few vectors.
    cost = max(64, 2 * block_size)
    kernel.run_text(launch, count, arguments, 0, launch.prefers_numpy(n), cost)
    return buffer(t, count, result)


def _pieces(reduce: str, a: Node, block_size: int) -> int:
    """Returns the number of equal pieces into which to divide a run, so that every thread gets
    packets of results."""
    wanted = 64 * runtime.thread_count() * block_size // a.size
    if a.size < _DIVIDED or wanted < 2 or (a.dtype is dt.f16 and reduce in ("add", "mul")):
        return 1
    return next((k for k in range(wanted, 1, -1) if block_size % k == 0), 1)


class _Rows(NamedTuple):
    """How rows are reduced: the table passed to the kernel, the number of tasks, their cost, and
    their memory in elements."""

    table: Buffer
    tasks: int
    cost: int
    scratch: int
    partial: int


@lru_cache(256)
def _rows(t: dt.DType, matrices: int, rows: int, columns: int, threads: int) -> _Rows:
    size, width = matrices * rows * columns, t.accumulator.itemsize
    strip = min(-(-columns // 64) * 64, _STRIP // width)
    strips = -(-columns // strip)
    tasks = matrices * strips
    wanted = 4 * threads if size >= _DIVIDED else 1
    chunk = max(-(-rows * tasks // wanted), min(rows, _SHORTEST))
    chunk = min(rows, -(-chunk // 8) * 8)
    chunks = -(-rows // chunk)
    tasks *= chunks
    table = [matrices, rows, columns, chunk, chunks, strip, strips]
    words = allocate_for(dt.i64, len(table), host=True)
    words.array(dt.i64.numpy, len(table))[:] = table
    partial = matrices * chunks * columns if chunks > 1 else 0
    return _Rows(words, tasks, max(1, size // (4 * tasks)), 2 * threads * strip, partial)


@operation
@one_operation("BlockReduce", lambda reduce, a, *_: a.size)
def reduce_rows(reduce: str, a: Node, rows: int, columns: int) -> Node:
    """Reduces matrices of `rows` by `columns` lanes along their columns, with `columns` results for
    each.
    """
    t, size = a.dtype, a.size
    if rows == 1 or size == 0:
        return a
    matrices = size // (rows * columns)
    plan = _rows(t, matrices, rows, columns, runtime.thread_count())
    accumulator = t.accumulator
    result = allocate_for(t, matrices * columns)
    launch = kernel.for_text(_REDUCE_ROWS.format(t=t.code, op=reduce), 6, 1)
    arguments = [
        (_evaluated(a), t, size), (result, t, matrices * columns), (plan.table, dt.i64, 7),
        (allocate_for(accumulator, plan.scratch), accumulator, 0),
        (allocate_for(accumulator, plan.partial), accumulator, 0),
    ]  # fmt: skip
    kernel.run_text(launch, plan.tasks, arguments, 1, launch.prefers_numpy(size), plan.cost)
    return buffer(t, matrices * columns, result)


@operation(sized_by_data=True)
@one_operation("Compress", lambda mask: mask.size)
def compress(mask: Node) -> Node:
    """Returns the `u32` indices of the lanes where a mask is true.

    Waits for the mask, because the size of the result depends on it.
    """
    n = mask.size
    if mask.op is LITERAL:
        return lane(n) if mask.data else literal(dt.u32, 0, 0)
    if n == 0:
        return literal(dt.u32, 0, 0)
    source = (_evaluated(mask), dt.mask, n)
    block = _blocks(n)
    count = -(-n // block)
    starts = (allocate_for(dt.u64, count), dt.u32, count)
    partials = (allocate_for(dt.u64, count), dt.u32, count)
    total = (allocate_for(dt.u32, 1), dt.u32, 1)
    first, launch = kernel.for_text(_COUNTS, 5, 4), kernel.for_text(_COMPRESS, 4, 6)
    on_numpy = first.prefers_numpy(n)
    kernel.run_text(first, n, [source, starts, partials, total], block, on_numpy)
    size = int(kernel.to_numpy(dt.u32, 1, total[0])[0])
    result = allocate_for(dt.u32, size)
    if size:
        kernel.run_text(launch, n, [source, starts, (result, dt.u32, size)], block, on_numpy)
    return buffer(dt.u32, size, result)
