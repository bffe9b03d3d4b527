"""The primitives of a GPU: kernels that are not made from programs
(`drjit.jit.target.cuda.primitives`), and how work is divided among their blocks. The functions take
the device first; `drjit.jit.device.Device` describes them as its methods.
"""

import struct
from typing import Any, NamedTuple

import numpy as np

from .. import flags
from ..device import Buffer, size_class
from ..flags import JitFlag
from ..ir import dtype as dt
from ..ir.dtype import DType
from ..run import launch
from ..target.cuda.function import EACH, THREADS
from ..target.cuda.primitives import dots, products, radix, scan, warpgroups
from ..target.cuda.primitives.entry import EntryCode, TileShape
from ..target.cuda.primitives.lookback import FIRST
from ..target.cuda.primitives.reductions import Rows, Runs
from .kernel import CudaKernel

_BLOCKING, _REDUCED = int(JitFlag.LaunchBlocking), int(JitFlag.ReducedPrecision)
_WIDEST = 16  # bytes of an access
_SECTOR = 32  # bytes that memory delivers together

# The reads of a thread from which on more threads share a run, and the reads of a run from which on
# a whole block does.
_READS = 4
_READS_OF_BLOCK = 1024
# The fewest reads of a thread when runs or matrices are divided into pieces.
_PIECE = 8


class PrimitiveKernel(CudaKernel):
    """A kernel that `spec`, a named tuple with a method `emit`, writes."""

    __slots__ = ("spec",)

    def __init__(self, device: Any, spec: Any) -> None:
        super().__init__(device, f"{spec}\n", "", None)
        self.name = f"{type(spec).__name__}_{self.name}"
        self.spec = spec

    def lowered(self, contract: bool, setting: int = 0) -> Any:
        device: Any = self.device
        entry = EntryCode()
        self.spec.emit(entry)
        return entry.compiled(self.name, device.capability)


def _run(device: Any, spec: Any, size: int, grid: int, *arguments: Any, maps: bytes = b"") -> None:
    """Launches a kernel with maps of tensors, and buffers and numbers; `size` is the number of
    entries in the log."""
    key = type(spec), spec
    kernel = device.kernel_table.get(key)
    if kernel is None:
        kernel = device.kernel_table[key] = PrimitiveKernel(device, spec)
    kernel.counted += 1
    code = kernel.codes.get(0) or kernel.compile(0)
    words = [a if isinstance(a, int) else a.address for a in arguments]
    kernel.queue(code, maps + struct.pack(f"<{len(words)}q", *words), size, grid)


def _finish(device: Any, read: list[Buffer], written: list[Buffer]) -> None:
    """Ends a primitive: errors in what it has read become those of what it has written."""
    launch.link(read, written)
    if flags.current & _BLOCKING:
        device.sync()


def _width(address: int, t: DType, multiple: int) -> int:
    """Returns the number of elements, a divisor of `multiple`, in the widest aligned access."""
    bits = address | multiple * t.itemsize | _WIDEST
    return (bits & -bits) // t.itemsize


def _next_power_of_two(n: int) -> int:
    """Returns the next power of two."""
    return 1 << (n - 1).bit_length()


# ------------------------------------------------------------------------------------- reductions


def block_reduce(device: Any, reduce: str, t: DType, n: int, source: Buffer, run: int) -> Buffer:
    count = n // run
    result = device.allocate_for(t, count)
    _reduce_runs(device, reduce, t, t, source, result, count, run)
    _finish(device, [source], [result])
    return result


def _reduce_runs(
    device: Any, reduce: str, t: DType, to: DType, source: Buffer, result: Buffer, count: int,
    length: int,
) -> None:  # fmt: skip
    """Queues the reduction of `count` runs of `length` entries."""
    n = count * length
    width = _width(source.address, t, length)
    reads = length // width
    group = _threads_per_run(t, reads, width)
    wanted = -(-EACH * device.multiprocessors // count)
    pieces = min(wanted, -(-reads // (_PIECE * THREADS)))
    if group < THREADS or pieces <= 1:
        grid = -(-count * group // THREADS)
        spec = Runs(reduce, t.code, to.code, width, group)
        _run(device, spec, n, grid, source, result, count, length)
        return
    chunk = -(-reads // pieces) * width
    pieces = -(-length // chunk)
    acc = t.accumulator
    parts = device.allocate_for(acc, count * pieces)
    spec = Runs(reduce, t.code, acc.code, width, THREADS, True)
    total = count * pieces
    _run(device, spec, n, total, source, parts, total, length, chunk, pieces)
    _reduce_runs(device, reduce, acc, to, parts, result, count, pieces)


def _threads_per_run(t: DType, reads: int, width: int) -> int:
    """Returns how many threads share `reads` consecutive reads: enough for whole sectors of memory
    and for a moderate number of reads per thread."""
    if reads > _READS_OF_BLOCK:
        return THREADS
    sector = min(
        _next_power_of_two(reads), _next_power_of_two(max(_SECTOR // (width * t.itemsize), 1))
    )
    return min(32, max(sector, _next_power_of_two(-(-reads // _READS))))


def reduce_rows(
    device: Any, reduce: str, t: DType, n: int, source: Buffer, rows: int, columns: int
) -> Buffer:
    matrices = n // (rows * columns)
    result = device.allocate_for(t, matrices * columns)
    _reduce_rows(device, reduce, t, t, source, result, matrices, rows, columns)
    _finish(device, [source], [result])
    return result


def _reduce_rows(
    device: Any, reduce: str, t: DType, to: DType, source: Buffer, result: Buffer, matrices: int,
    rows: int, columns: int,
) -> None:  # fmt: skip
    """Queues the reduction of matrices along their columns."""
    n = matrices * rows * columns
    width = _width(source.address, t, columns)
    across = min(32, _next_power_of_two(columns // width))
    down = THREADS // across
    strips = -(-columns // (width * across))
    wanted = -(-EACH * device.multiprocessors // (matrices * strips))
    chunks = min(wanted, -(-rows // (_PIECE * down)))
    chunk = -(-rows // chunks)
    chunks = -(-rows // chunk)
    acc, parts = t.accumulator, result
    if chunks > 1:
        parts = device.allocate_for(acc, matrices * chunks * columns)
    output_type = acc if chunks > 1 else to
    spec = Rows(reduce, t.code, output_type.code, width, across)
    grid = strips * chunks * matrices
    _run(device, spec, n, grid, source, parts, rows, columns, strips, chunk, chunks)
    if chunks > 1:
        _reduce_rows(device, reduce, acc, to, parts, result, matrices, chunks, columns)


# ------------------------------------------------------------------------------------------ scans


def prefix(
    device: Any, reduce: str, t: DType, n: int, source: Buffer, exclusive: bool, run: int
) -> Buffer:
    result = device.allocate_for(t, n)
    size, what = TileShape.of(t.code).size, (reduce, t.code, not exclusive)
    if run <= size:
        span = size // run * run
        words = [source, result, n, run, span, _aligned(source, t, span)]
        _run(device, scan.ShortRuns(*what), n, -(-n // span), *words)
    else:
        _scan_long(device, what, t, n, source, result, run)
    _finish(device, [source], [result])
    return result


def _scan_long(
    device: Any, what: tuple[str, str, bool], t: DType, n: int, source: Buffer, result: Buffer,
    length: int,
) -> None:  # fmt: skip
    """Queues the scan of runs that are longer than a tile."""
    size, aligned = TileShape.of(t.code).size, _aligned(source, t, length)
    runs, tiles = -(-n // length), -(-length // size)
    last = n - (runs - 1) * length
    if not t.is_float and t.itemsize <= 4:
        total = (runs - 1) * tiles + -(-last // size)
        words = device.filled(dt.u64, FIRST + total, 0)
        spec = scan.LookBackScan(*what)
        _run(device, spec, n, total, source, result, n, length, tiles, aligned, words)
        return
    pieces = min(tiles, -(-EACH * device.multiprocessors // runs))
    chunk = -(-tiles // pieces) * size
    pieces = -(-length // chunk)
    total = (runs - 1) * pieces + -(-last // chunk)
    acc = t.accumulator
    totals = device.allocate_for(acc, total)
    if pieces > 1:
        # Nothing comes after the last one.
        width = _width(source.address, t, length)
        spec = Runs(what[0], t.code, acc.code, width, THREADS, True)
        words = [source, totals, total - 1, length, chunk, pieces]
        _run(device, spec, n, total - 1, *words)
    words = [source, result, n, length, chunk, pieces, aligned, totals]
    _run(device, scan.ChainedScan(*what), n, total, *words)


def _aligned(source: Buffer, t: DType, step: int) -> int:
    """Returns whether every `step`-th element is aligned for the widest access."""
    return int((source.address | step * t.itemsize) % _WIDEST == 0)


def compress(device: Any, n: int, mask: Buffer) -> tuple[Buffer, int]:
    tiles = -(-n // TileShape.of("mask").size)
    indices = device.allocate_for(dt.u32, n)
    words = device.filled(dt.u64, FIRST + tiles, 0)
    aligned = _aligned(mask, dt.mask, 0)
    _run(device, scan.Compress(), n, tiles, mask, n, indices, tiles, aligned, words)
    _finish(device, [mask], [indices, words])
    size = int(launch.to_numpy(dt.u64, FIRST, words)[scan.TOTAL])
    if size_class(4 * size) <= size_class(4 * n) // 2:
        indices = device.copy(indices, 4 * size)
    return indices, size


# ---------------------------------------------------------------------------------------- sorting


def sort(device: Any, t: DType, n: int, keys: Buffer, payload: Buffer | None, bits: int) -> Buffer:
    columns = [(t, keys)] if payload is None else [(t, keys), (dt.u32, payload)]
    results = [device.allocate_for(c, n) for c, _ in columns]
    size = radix.tile_size(t.code)
    if n <= size:
        words = [keys, n, bits, results[0]]
        if payload is not None:
            words += [payload, results[1]]
        _run(device, radix.SortTile(t.code, payload is not None), n, 1, *words)
    else:
        _sort_tiles(device, t, n, columns, results, bits)
    _finish(device, [b for _, b in columns], results)
    return results[-1]


def _sort_tiles(
    device: Any, t: DType, n: int, columns: list, results: list[Buffer], bits: int
) -> None:
    """Queues a pass for each digit of the keys."""
    passes = -(-bits // radix.DIGIT)
    tiles = -(-n // radix.tile_size(t.code))
    others = [device.allocate_for(c, n) for c, _ in columns]
    # The counters of tiles, the plan of each pass, its counts and the positions of its digits, and
    # the words of the tiles.
    table = passes * radix.BINS
    memory = device.filled(dt.u64, 2 * passes + table + tiles * radix.BINS, 0)
    tickets = memory.address
    plan = tickets + 8 * passes
    counts = plan + 8 * passes
    starts = counts + 4 * table
    words = starts + 4 * table
    grid = min(EACH * device.multiprocessors, -(-n // TileShape.of(t.code).size))
    keys = columns[0][1]
    aligned = _aligned(keys, t, 0)
    _run(device, radix.CountDigits(t.code, passes), n, grid, keys, n, aligned, counts)
    _run(device, radix.PlanPasses(passes), n, 1, counts, n, starts, plan)
    spec = radix.SortDigit(t.code, len(columns) > 1)
    buffers = [b for (_, a), r, o in zip(columns, results, others, strict=True) for b in (a, r, o)]
    for k in range(passes):
        _run(
            device, spec, n, tiles, *buffers, n, k * radix.DIGIT, plan + 8 * k,
            starts + 4 * radix.BINS * k, tickets + 8 * k, words, k * radix.STATUS,
        )  # fmt: skip


# ------------------------------------------------------------------------------------- products


# Tiles that blocks compute, and which part of the peak performance they reach. With multiply-adds,
# a tile and a thread's part of it are square; with tensor cores, a tile has rows, columns, and rows
# of warps.
_MULTIPLY_ADDS = {
    4: [(128, 8, 1.0), (64, 4, 0.75), (32, 2, 0.35)],
    8: [(64, 4, 1.0), (32, 2, 0.5)],
}
_TENSOR_CORES = [(128, 128, 2, 1.0), (64, 64, 2, 0.6), (16, 128, 1, 0.25), (128, 16, 8, 0.25)]
# That of large products of halves: with 64 by 64 elements a warp, shared memory delivers as much as
# tensor cores take, where 64 by 32 have to wait for it. There is a block on each multiprocessor.
_LARGE_TILE, _LARGE_SPEED = (128, 256, 2, 1), 1.4
# Columns of tiles of warpgroups; their speed is an estimate.
_WARPGROUPS = [(256, 1.7), (128, 1.3)]
# The smallest depth that is worth a block, in tiles.
_DEEP = 8


class _OperandPlaces(NamedTuple):
    """Where the operands of products begin, in entries: a table on the device if there are several
    products. No operand is less aligned than `bits`.
    """

    table: Buffer | None
    offsets: tuple[int, int]
    bits: tuple[int, int]


def _operand_places(device: Any, layout: Any) -> _OperandPlaces:
    """Returns where operands begin, which the layout remembers."""
    places = layout.plans.get("cuda")
    if places is None or (places.table is not None and places.table.device is not device):
        if len(layout.offsets) == 1:
            first = tuple(layout.offsets[0].tolist())
            places = _OperandPlaces(None, first, first)
        else:
            bits = tuple(np.bitwise_or.reduce(layout.offsets, axis=0).tolist())
            places = _OperandPlaces(device.upload(layout.offsets.ravel()), (0, 0), bits)
        layout.plans["cuda"] = places
    return places


def matmul(
    device: Any, t: DType, a: tuple[Buffer, int], b: tuple[Buffer, int], layout: Any,
    *, reduced: bool | None = None,
) -> Buffer:  # fmt: skip
    """Products of matrices. If they are `reduced`, by default with `JitFlag.ReducedPrecision`,
    single precision is rounded to 11 bits before it is multiplied, which tensor cores can do
    (TF32)."""
    if reduced is None:
        reduced = bool(flags.current & _REDUCED)
    m, n, _ = layout.sizes
    count, places = len(layout.offsets), _operand_places(device, layout)
    result = device.allocate_for(t, m * n * count)
    starts = [x.address + o * t.itemsize for (x, _), o in zip((a, b), places.offsets, strict=True)]
    bits = [x | o * t.itemsize for x, o in zip(starts, places.bits, strict=True)]
    table = [] if places.table is None else [places.table]
    how = _row_products if m == 1 else _tiled_products
    how(device, t, layout, result, starts, bits, table, reduced)
    _finish(device, [a[0], b[0]], [result])
    return result


def _tiled_products(
    device: Any, t: DType, layout: Any, result: Buffer, starts: list[int], bits: list[int],
    table: list, reduced: bool,
) -> None:  # fmt: skip
    """Queues products of matrices."""
    (m, n, k), (at, bt), count = layout.sizes, layout.transposed, len(layout.offsets)
    modern = device.capability >= (8, 0)
    widths = _width(bits[0], t, m if at else k), _width(bits[1], t, k if bt else n)
    form = products.ProductForm(t.code, t.code, at, bt, *widths, bool(table), modern)
    tilings: list[tuple[Any, float]] = [
        (products.MultiplyAdds(form, size, size, 8, each, each), speed)
        for size, each, speed in _MULTIPLY_ADDS[t.accumulator.itemsize]
    ]
    if modern and (t is dt.f16 or (t is dt.f32 and reduced)):
        tilings = [(products.TensorCores(form, *shape), v) for *shape, v in _TENSOR_CORES]
        large = products.TensorCores(form, *_LARGE_TILE)
        tiles = -(-m // large.rows) * -(-n // large.columns) * count
        if t is dt.f16 and 2 * tiles > device.multiprocessors:
            if 4 * large.stage_bytes <= device.shared_limit:
                large = large._replace(stages=4)
            tilings.append((large, _LARGE_SPEED))
    if device.has_warpgroups and t is dt.f16 and widths == (8, 8) and _steps(layout):
        tilings += [(warpgroups.WarpGroups(form, size), v) for size, v in _WARPGROUPS]
    best = None
    for spec, speed in tilings:
        tiles = -(-m // spec.rows) * -(-n // spec.columns) * count
        # With few tiles, several blocks share the depth.
        most = max(k // (spec.depth * _DEEP), 1)
        slices = max(min(device.multiprocessors // tiles, most), 1)
        chunk = -(-k // (slices * spec.depth)) * spec.depth
        slices = -(-k // chunk)
        waves = -(-tiles * slices // device.multiprocessors)
        cost = waves * spec.rows * spec.columns * chunk / speed
        if best is None or cost < best[0]:
            best = cost, spec, tiles * slices, chunk, slices
    _, spec, grid, chunk, slices = best  # type: ignore[misc]
    parts = device.allocate_for(t.accumulator, slices * count * m * n) if slices > 1 else result
    if slices > 1:
        spec = spec._replace(layout=form._replace(result=t.accumulator.code))
    words: list[Any] = [parts, m, n, k, chunk, count]
    if type(spec) is warpgroups.WarpGroups:
        steps, maps = _steps(layout), _maps(device, layout, spec, starts)
        _run(device, spec, m * n * count, grid, *words, *[int(s > 0) for s in steps], maps=maps)
    else:
        _run(device, spec, m * n * count, grid, *starts, *words, *table)
    _sum_slices(device, t, parts, result, slices, m * n * count)


def _steps(layout: Any) -> tuple[int, ...]:
    """Returns how many entries the operands of a product are from those of the one before, which
    the layout remembers; nothing if a tensor with three dimensions cannot say it."""
    if "steps" not in layout.plans:
        (m, n, k), offsets = layout.sizes, layout.offsets
        steps = tuple((offsets[1] - offsets[0]).tolist()) if len(offsets) > 1 else (0, 0)
        even = (np.diff(offsets, axis=0) == steps).all()
        apart = all(
            s == 0 or s % size == 0 < s for s, size in zip(steps, (m * k, k * n), strict=True)
        )
        layout.plans["steps"] = steps if even and apart else ()
    return layout.plans["steps"]


def _maps(device: Any, layout: Any, spec: warpgroups.WarpGroups, starts: list[int]) -> bytes:
    """Returns the maps of the operands of products, which begin where a table says if there are
    several."""
    (m, n, k), count, maps = layout.sizes, len(layout.offsets), []
    for which, (lines, operand) in enumerate(zip((m, n), spec.operands, strict=True)):
        row, rows = (k, lines) if operand.along else (lines, k)
        step, start = _steps(layout)[which], starts[which]
        if spec.layout.batched:
            start += 2 * int(layout.offsets[0, which])
        shape, strides = (row, rows, count if step else 1), (2 * row, 2 * (step or row * rows))
        maps.append(device.driver.tensor_map(start, shape, strides, (*operand.box, 1)))
    return b"".join(maps)


def _row_products(
    device: Any, t: DType, layout: Any, result: Buffer, starts: list[int], bits: list[int],
    table: list, reduced: bool,
) -> None:  # fmt: skip
    """Queues products of a row and matrices."""
    (_, n, k), (_, bt), count = layout.sizes, layout.transposed, len(layout.offsets)
    if bt:
        width = min(_width(bits[0], t, k), _width(bits[1], t, k))
        group = _threads_per_run(t, k // width, width)
        strips, step = -(-n * group // THREADS), group * width
    else:
        width = _width(bits[1], t, n)
        across = min(32, _next_power_of_two(n // width))
        strips, step = -(-n // (width * across)), THREADS // across
    wanted = -(-EACH * device.multiprocessors // (strips * count))
    slices = max(min(wanted, k // (step * _PIECE)), 1)
    chunk = -(-k // (slices * step)) * step
    slices = -(-k // chunk)
    parts = device.allocate_for(t.accumulator, slices * count * n) if slices > 1 else result
    output_type = t.accumulator if slices > 1 else t
    if bt:
        spec: Any = dots.Dots(t.code, output_type.code, width, group, bool(table))
    else:
        spec = dots.RowSums(t.code, output_type.code, width, across, bool(table))
    grid = strips * count * slices
    _run(device, spec, n * count, grid, *starts, parts, n, k, chunk, count, strips, *table)
    _sum_slices(device, t, parts, result, slices, n * count)


def _sum_slices(
    device: Any, t: DType, parts: Buffer, result: Buffer, slices: int, size: int
) -> None:
    """Queues the sum over the slices of the depth that different blocks have computed."""
    if slices > 1:
        _reduce_rows(device, "add", t.accumulator, t, parts, result, 1, slices, size)
