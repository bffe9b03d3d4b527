"""Scans, reductions of blocks and compression on the processor, each a launch or two of a kernel
text of its own. A prefix reduction over many lanes takes two: totals of blocks, then the running
values (Blelloch, "Prefix sums and their applications", 1990).
"""

from functools import lru_cache
from math import lcm

from ..device import Buffer
from ..ir import dtype as dt
from ..ir.op import identity
from ..run import launch
from . import kernel, runtime
from .kernel import text_of
from .memory import PADDING, allocate_for

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


# Lanes below which one thread is faster than several that have to wait for each other.
_ONE_BLOCK = 65536
# Elements above which a block reduction with few results is divided further.
_DIVIDED = 1 << 18
# Bytes of accumulators that stay in the nearest cache, and fewest rows that are worth a task.
_STRIP, _SHORTEST = 1 << 14, 16


def _blocks(size: int, multiple: int = 64) -> int:
    """Returns the number of lanes per block for launches that must agree on it."""
    count = 4 * runtime.thread_count()
    return max(-(-size // (count * multiple)), -(-_ONE_BLOCK // multiple)) * multiple


def prefix(reduce: str, t: dt.DType, n: int, source: Buffer, exclusive: bool, run: int) -> Buffer:
    names = {"t": t.code, "op": reduce, "inclusive": not exclusive}
    result = allocate_for(t, n)
    values, results = (source, t, n), (result, t, n)
    if run < n:
        scan = _SCAN_BLOCKS.format(**names)
        # Blocks of the launch are whole packets and whole runs.
        kernel.run_text(scan, 8, n, [values, run, results], _blocks(n, lcm(run, 64)))
        return result
    block = _blocks(n)
    count = -(-n // block)
    accumulator = t.accumulator
    totals = (allocate_for(dt.u64, count, host=True), accumulator, count)
    on_numpy = None
    if count == 1:
        totals[0].fill(accumulator, 1, identity(reduce, accumulator))
    else:
        on_numpy = kernel.run_text(_TOTALS.format(**names), 3, n, [values, totals], block)
    arguments = [values, totals, results]
    kernel.run_text(_SCAN.format(**names), 8, n, arguments, block, on_numpy=on_numpy)
    return result


def block_reduce(reduce: str, t: dt.DType, n: int, source: Buffer, run: int) -> Buffer:
    pieces = _pieces(reduce, t, n, run)
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


def _pieces(reduce: str, t: dt.DType, n: int, run: int) -> int:
    """Returns the number of equal pieces into which to divide a run, so that every thread gets
    packets of results."""
    wanted = 64 * runtime.thread_count() * run // n
    if run == 1 or n < _DIVIDED or wanted < 2 or (t is dt.f16 and reduce in ("add", "mul")):
        return 1
    return next((k for k in range(wanted, 1, -1) if run % k == 0), 1)


@lru_cache(256)
def _rows(
    t: dt.DType, matrices: int, rows: int, columns: int, threads: int
) -> tuple[Buffer, int, int, int, int]:
    """Returns how rows are reduced: the table passed to the kernel, the number of tasks, their
    cost, and the elements of memory that threads and partial results need."""
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
    words.write(dt.i64, table)
    partial = matrices * chunks * columns if chunks > 1 else 0
    return words, tasks, max(1, size // (4 * tasks)), 2 * threads * strip, partial


def reduce_rows(
    reduce: str, t: dt.DType, n: int, source: Buffer, rows: int, columns: int
) -> Buffer:
    matrices = n // (rows * columns)
    threads = runtime.thread_count()
    table, tasks, cost, scratch, partial = _rows(t, matrices, rows, columns, threads)
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
    block = _blocks(n)
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
