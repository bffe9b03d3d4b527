"""The primitives of a GPU against NumPy, on the emulated driver, which also reports races and
accesses out of bounds; and what the assembler says about their kernels."""

import gc
import struct
from typing import Any

import numpy as np
import pytest
from ptxas_resources import ptxas, resources
from test_collective import CASES
from test_collective import sample as values_of

import drjit as dr
from drjit.jit.cuda import primitives
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.cuda.emulator import Memory, Module
from drjit.jit.device import Buffer
from drjit.jit.ir import dtype as dt
from drjit.jit.ir.dtype import DType, types_by_numpy
from drjit.jit.ir.op import neutral
from drjit.jit.primitives import matmul
from drjit.jit.run import history, launch
from drjit.jit.target.cuda.primitives import dots, products, radix, scan
from drjit.jit.target.cuda.primitives.entry import EntryCode, TileShape
from drjit.jit.target.cuda.primitives.reductions import Rows, Runs
from drjit.jit.target.numpy.elementwise import OPERATIONS

pytest.importorskip("llvmlite")

SIZES = (2, 15, 17, 31, 32, 33, 255, 256, 257, 1000, 4097)
LONG = 100_000
# Cases in which the kernels differ; the others differ in an instruction.
DISTINCT = [
    (dt.u8, "add"), (dt.i64, "add"), (dt.f16, "add"), (dt.f32, "add"), (dt.mask, "and"),
    (dt.f64, "min"), (dt.i32, "max"), (dt.f32, "mul"),
]  # fmt: skip
every_case = pytest.mark.parametrize(
    ("t", "op"),
    [pytest.param(*c, marks=() if c in DISTINCT else pytest.mark.sweep) for c in CASES],
    ids=str,
)


@pytest.fixture(scope="module")
def gpu():
    made = Cuda(EmulatedDriver())
    yield made
    made.sync()
    gc.collect()


def put(gpu: Cuda, values: np.ndarray) -> Buffer:
    return gpu.upload(np.ravel(values))


def got(gpu: Cuda, b: Buffer, t: DType, size: int) -> np.ndarray:
    gpu.drain()
    return gpu.download(b, t, size)


def shifted(gpu: Cuda, values: np.ndarray) -> Buffer:
    """Memory that is aligned to an element only, as another library may pass it."""
    b = gpu.upload(np.concatenate([values[:1], values]))
    other: Any = Buffer()
    other.address, other.source, other.owner = b.address + values.itemsize, None, b
    return other


def wide(t: DType, values: np.ndarray, op: str) -> np.ndarray:
    """Values in the type that accumulates, with the neutral element in place of NaN."""
    found = values.astype(t.accumulator.numpy)
    if op in ("min", "max") and t.is_float:
        found[np.isnan(found)] = neutral(op, t)
    return found


def reduced(t: DType, op: str, values: np.ndarray, axis: int) -> np.ndarray:
    x = wide(t, values, op)
    with np.errstate(all="ignore"):
        return OPERATIONS[op].reduce(x, axis=axis, dtype=x.dtype).astype(t.numpy)


def running(t: DType, op: str, values: np.ndarray, exclusive: bool) -> np.ndarray:
    x = wide(t, values, op)
    with np.errstate(all="ignore"):
        found = OPERATIONS[op].accumulate(x, dtype=x.dtype)
    if exclusive:
        start = 0 if op == "add" else neutral(op, types_by_numpy()[x.dtype])
        found = np.concatenate([np.full(1, start, x.dtype), found[:-1]])
    return found.astype(t.numpy)


def sample(t: DType, op: str, size: int) -> np.ndarray:
    """Values whose reductions are exact in any order; some are NaN if that is ignored."""
    x = values_of(t, op, size)
    if t.is_float and op == "mul":
        x[10:] = np.sign(x[10:])
    if t.is_float and op in ("min", "max"):
        x[:: 1 + x.size // 7] = np.nan
    return x


# ------------------------------------------------------------------------------------- reductions


@every_case
def test_block_reduce(gpu, t, op):
    for length in (*SIZES, 5000):
        for count in (1, 3) if length > 300 else (1, 130):
            x = sample(t, op, count * length)
            found = gpu.block_reduce(op, t, x.size, put(gpu, x), length)
            expected = reduced(t, op, x.reshape(count, length), 1)
            np.testing.assert_array_equal(got(gpu, found, t, count), expected, f"{count} {length}")


@every_case
def test_long_runs_are_the_work_of_several_blocks(gpu, t, op):
    x = sample(t, op, LONG)
    found = gpu.block_reduce(op, t, LONG, put(gpu, x), LONG)
    np.testing.assert_array_equal(got(gpu, found, t, 1), reduced(t, op, x[None], 1))


@every_case
def test_reduce_rows(gpu, t, op):
    for matrices, r, c in (
        (1, 2, 1), (3, 17, 3), (2, 1000, 2), (1, 33, 257), (5, 7, 32), (1, 4097, 16), (1, 300, 500),
    ):  # fmt: skip
        x = sample(t, op, matrices * r * c)
        found = gpu.reduce_rows(op, t, x.size, put(gpu, x), r, c)
        expected = reduced(t, op, x.reshape(matrices, r, c), 1).ravel()
        np.testing.assert_array_equal(
            got(gpu, found, t, expected.size), expected, f"{matrices} of {r} by {c}"
        )


def test_reductions_of_memory_that_is_not_aligned(gpu):
    x = sample(dt.f16, "add", 3000)
    found = gpu.block_reduce("add", dt.f16, 3000, shifted(gpu, x), 1000)
    expected = reduced(dt.f16, "add", x.reshape(3, 1000), 1)
    np.testing.assert_array_equal(got(gpu, found, dt.f16, 3), expected)
    found = gpu.reduce_rows("add", dt.f16, 3000, shifted(gpu, x), 30, 100)
    expected = reduced(dt.f16, "add", x.reshape(30, 100), 0)
    np.testing.assert_array_equal(got(gpu, found, dt.f16, 100), expected)


@pytest.mark.parametrize("t", [dt.f16, dt.f32, dt.f64], ids=str)
def test_sums_are_nearly_exact(gpu, t):
    """Halves accumulate in single precision and are rounded once; others keep what rounding takes
    from them."""
    x = np.random.default_rng(3).random(LONG).astype(t.numpy)
    if t is dt.f16:
        x /= 16
    exact = x.astype(np.longdouble)
    for found, expected in (
        (gpu.block_reduce("add", t, LONG, put(gpu, x), LONG), exact.sum(keepdims=True)),
        (gpu.block_reduce("add", t, LONG, put(gpu, x), 500), exact.reshape(-1, 500).sum(1)),
        (gpu.reduce_rows("add", t, LONG, put(gpu, x), 50_000, 2), exact.reshape(-1, 2).sum(0)),
    ):
        y = got(gpu, found, t, expected.size)
        np.testing.assert_array_less(abs(y - expected), 3 * np.spacing(expected.astype(t.numpy)))


def test_small_terms_after_a_large_one_count(gpu):
    """They are all in one of 32 threads, whose sum they would not change."""
    x = np.full(1000, 0.01, np.float32)
    x[0], x[992] = 1 << 20, -1 << 20
    found = gpu.block_reduce("add", dt.f32, 1000, shifted(gpu, x), 1000)
    np.testing.assert_allclose(got(gpu, found, dt.f32, 1), 9.98, atol=0.1)


def test_negative_zeros_and_infinities_of_sums(gpu):
    zeros = np.full(100, -0.0, np.float32)
    found = got(gpu, gpu.block_reduce("add", dt.f32, 100, put(gpu, zeros), 100), dt.f32, 1)
    assert np.signbit(found[0])
    large = np.full(5000, np.inf, np.float32)
    found = got(gpu, gpu.block_reduce("add", dt.f32, 5000, put(gpu, large), 5000), dt.f32, 1)
    assert found[0] == np.inf
    nothing = np.full(100, np.nan, np.float32)
    found = got(gpu, gpu.block_reduce("min", dt.f32, 100, put(gpu, nothing), 100), dt.f32, 1)
    assert found[0] == np.inf


# ------------------------------------------------------------------------------------------ scans


@pytest.mark.every(3)
@every_case
@pytest.mark.parametrize("exclusive", [False, True], ids=["inclusive", "exclusive"])
def test_prefix(gpu, t, op, exclusive):
    for n in SIZES:
        x = sample(t, op, n)
        found = gpu.prefix(op, t, n, put(gpu, x), exclusive, n)
        np.testing.assert_array_equal(got(gpu, found, t, n), running(t, op, x, exclusive), f"{n}")


@every_case
@pytest.mark.parametrize("exclusive", [False, True], ids=["inclusive", "exclusive"])
def test_prefix_of_runs(gpu, t, op, exclusive):
    for n, run in ((33, 2), (1000, 17), (4097, 256), (5000, 1000), (9001, 4500), (10_000, 4096)):
        x = sample(t, op, n)
        found = gpu.prefix(op, t, n, put(gpu, x), exclusive, run)
        expected = [running(t, op, x[k : k + run], exclusive) for k in range(0, n, run)]
        np.testing.assert_array_equal(
            got(gpu, found, t, n), np.concatenate(expected), f"{n} by {run}"
        )


@every_case
def test_prefix_of_many(gpu, t, op):
    x = sample(t, op, LONG)
    found = gpu.prefix(op, t, LONG, put(gpu, x), True, LONG)
    expected = running(t, op, x, True)
    if t is dt.f16 and op == "add":  # beyond 2048, a half has no bit for the units
        assert abs(expected).max() < 2048
    np.testing.assert_array_equal(got(gpu, found, t, LONG), expected)


@pytest.mark.parametrize("t", [dt.u8, dt.i32, dt.f64], ids=str)
def test_prefix_of_memory_that_is_not_aligned(gpu, t):
    for n in (3000, 10_000):
        x = sample(t, "add", n)
        found = gpu.prefix("add", t, n, shifted(gpu, x), False, n)
        np.testing.assert_array_equal(got(gpu, found, t, n), running(t, "add", x, False))


@pytest.mark.parametrize("t", [dt.f32, dt.f64], ids=str)
def test_prefix_sums_are_nearly_exact(gpu, t):
    x = np.random.default_rng(3).random(LONG).astype(t.numpy)
    y = got(gpu, gpu.prefix("add", t, LONG, put(gpu, x), False, LONG), t, LONG)
    exact = np.cumsum(x.astype(np.longdouble))
    np.testing.assert_array_less(abs(y - exact), 4 * np.spacing(exact.astype(t.numpy)))


def test_tiles_look_back_over_more_than_a_warp(gpu):
    """Each of 40 tiles has a total of its own."""
    n = 40 * TileShape.of("u32").size - 5
    x = np.random.default_rng(1).integers(0, 1 << 31, n, np.uint32)
    found = gpu.prefix("add", dt.u32, n, put(gpu, x), False, n)
    np.testing.assert_array_equal(got(gpu, found, dt.u32, n), np.cumsum(x, dtype=np.uint32))


# ------------------------------------------------------------------------------------ compression


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 1])
def test_compress(gpu, share):
    for n in (*SIZES, LONG):
        x = np.random.default_rng(n).random(n) < share
        for source in (put(gpu, x), shifted(gpu, x)):
            found, size = gpu.compress(n, source)
            assert size == x.sum()
            np.testing.assert_array_equal(got(gpu, found, dt.u32, size), np.flatnonzero(x))


def test_few_indices_take_little_memory(gpu):
    x = np.zeros(LONG, bool)
    x[[5, 77_777]] = True
    found, size = gpu.compress(LONG, put(gpu, x))
    assert size == 2 and found.nbytes < 1000
    assert got(gpu, found, dt.u32, 2).tolist() == [5, 77_777]


# ---------------------------------------------------------------------------------------- sorting


def keys_of(t: DType, kind: str, n: int) -> np.ndarray:
    x = np.random.default_rng(n).integers(0, (1 << t.bits) - 1, n, t.numpy, endpoint=True)
    if kind == "few":
        x >>= t.numpy.type(t.bits - 3)
    if kind == "high":  # passes of the lower digits are skipped
        x &= t.numpy.type(7 << t.bits - 8)
    if kind == "equal":
        x[:] = 3
    return x


def sorts(gpu: Cuda, t: DType, x: np.ndarray, bits: int) -> None:
    n = x.size
    order = np.argsort(x, kind="stable")
    payload = np.random.default_rng(1).integers(0, 1 << 32, n, np.uint32)
    moved = gpu.sort(t, n, put(gpu, x), put(gpu, payload), bits)
    np.testing.assert_array_equal(got(gpu, moved, dt.u32, n), payload[order])
    source = put(gpu, x)
    found = gpu.sort(t, n, source, None, bits)
    np.testing.assert_array_equal(got(gpu, found, t, n), x[order])
    np.testing.assert_array_equal(got(gpu, source, t, n), x)  # is not touched


UNSIGNED = [dt.u8, dt.u16, dt.u32, dt.u64]


@pytest.mark.parametrize("t", UNSIGNED, ids=str)
def test_sort_within_a_tile(gpu, t):
    for n in (2, 1000, radix.tile_size(t.code)):
        sorts(gpu, t, keys_of(t, "any", n), t.bits)
    sorts(gpu, t, keys_of(t, "equal", 100), t.bits)


@pytest.mark.every(3)
@pytest.mark.parametrize("t", UNSIGNED, ids=str)
def test_sort_of_several_tiles(gpu, t):
    n = 2 * radix.tile_size(t.code) + 77
    sorts(gpu, t, keys_of(t, "any", n), t.bits)


@pytest.mark.parametrize("kind", ["few", "high", "equal"])
@pytest.mark.parametrize("t", [dt.u32, pytest.param(dt.u16, marks=pytest.mark.sweep)], ids=str)
def test_digits_that_are_equal_everywhere_are_skipped(gpu, t, kind):
    sorts(gpu, t, keys_of(t, kind, 2 * radix.tile_size(t.code) + 77), t.bits)


def test_sort_of_fewer_bits(gpu):
    for n in (100, 7000):
        x = np.random.default_rng(n).integers(0, 1 << 11, n, np.uint32)
        sorts(gpu, dt.u32, x, 11)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["any", "few", "high", "equal"])
@pytest.mark.parametrize("t", UNSIGNED, ids=str)
def test_sort_of_many(gpu, t, kind):
    sorts(gpu, t, keys_of(t, kind, LONG), t.bits)


# ----------------------------------------------------------------------------------------- products

FLOATS = [dt.f16, dt.f32, dt.f64]
ROUNDING = {dt.f16: 2e-3, dt.f32: 1e-6, dt.f64: 1e-15}
TRANSPOSED = [(False, False), (False, True), (True, False), (True, True)]
every_float = pytest.mark.parametrize("t", FLOATS, ids=str)


def multiplies(
    gpu: Cuda, t: DType, m: int, n: int, k: int, transposed: tuple[bool, bool], count: int = 1,
    aligned: bool = True, rounding: float = 0, **options: bool,
) -> None:  # fmt: skip
    """Compares products of matrices, of which the last is also the first, with NumPy's."""
    rng = np.random.default_rng(m + 10 * n + 100 * k)
    a, b = (rng.uniform(-1, 1, (count, *shape)).astype(t.numpy) for shape in ((m, k), (k, n)))
    offsets = np.arange(count)[:, None] * [m * k, k * n]
    if count > 2:
        offsets[-1] = 0
        a[-1], b[-1] = a[0], b[0]
    upload = put if aligned else shifted
    buffers = []
    for x, flips in zip((a, b), transposed, strict=True):
        stored = np.ascontiguousarray(x.swapaxes(1, 2) if flips else x).ravel()
        buffers.append((upload(gpu, stored), stored.size))
    layout = matmul.layout((m, n, k), transposed, offsets.astype(np.int64))
    found = primitives.matmul(gpu, t, *buffers, layout, **options)
    y = got(gpu, found, t, count * m * n).reshape(count, m, n)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    error = rounding or ROUNDING[t]
    np.testing.assert_allclose(
        y, expected, error, error * 2 * np.sqrt(k), err_msg=f"{m} {n} {k} {transposed}"
    )


@pytest.mark.every(2)
@every_float
@pytest.mark.parametrize("transposed", TRANSPOSED, ids=["", "At", "Bt", "At Bt"])
def test_matmul(gpu, t, transposed):
    for m, n, k in ((2, 3, 5), (33, 40, 16), (17, 65, 31)):
        multiplies(gpu, t, m, n, k, transposed)
    multiplies(gpu, t, 24, 40, 48, transposed, count=3)


@every_float
@pytest.mark.parametrize("transposed", TRANSPOSED, ids=["", "At", "Bt", "At Bt"])
def test_matmul_with_a_row(gpu, t, transposed):
    for n, k in ((1, 33), (15, 2), (257, 40), (32, 1000)):
        multiplies(gpu, t, 1, n, k, transposed)
    multiplies(gpu, t, 1, 5, 700, transposed, count=4)


@every_float
def test_a_long_depth_is_divided_among_blocks(gpu, t):
    multiplies(gpu, t, 1, 2, 9000, (False, True))
    multiplies(gpu, t, 1, 2, 9000, (False, False))
    multiplies(gpu, t, 3, 5, 601, (True, False))


@every_float
def test_matmul_of_memory_that_is_not_aligned(gpu, t):
    multiplies(gpu, t, 40, 24, 32, (False, False), aligned=False)
    multiplies(gpu, t, 1, 24, 32, (False, True), aligned=False)


@pytest.mark.sweep
@every_float
@pytest.mark.parametrize("transposed", TRANSPOSED, ids=["", "At", "Bt", "At Bt"])
def test_matmul_of_many_sizes(gpu, t, transposed):
    for m, n, k in (
        (128, 128, 40), (129, 257, 33), (256, 31, 64), (15, 300, 100), (300, 15, 100),
        (64, 64, 255),
    ):  # fmt: skip
        multiplies(gpu, t, m, n, k, transposed)


TILINGS = [
    (dt.f16, products.TensorCores, 128, 256), (dt.f16, products.TensorCores, 128, 128),
    (dt.f16, products.TensorCores, 64, 64),
    (dt.f16, products.TensorCores, 16, 128), (dt.f16, products.TensorCores, 128, 16),
    (dt.f32, products.TensorCores, 128, 128), (dt.f32, products.MultiplyAdds, 128, 128),
    (dt.f32, products.MultiplyAdds, 64, 64), (dt.f64, products.MultiplyAdds, 64, 64),
    (dt.f64, products.MultiplyAdds, 32, 32),
]  # fmt: skip


@pytest.mark.parametrize(("t", "kind", "rows", "columns"), TILINGS)
def test_tilings(t, kind, rows, columns):
    """Products that nearly fill a tile are computed by one."""
    gpu = Cuda(EmulatedDriver())
    gpu.multiprocessors = 1
    reduced = t is dt.f32 and kind is products.TensorCores
    rounding = 2e-3 if reduced else 0
    m, n = rows - 3 if rows > 16 else 16, columns - 5
    multiplies(gpu, t, m, n, 40, (False, True), reduced=reduced, rounding=rounding)
    (spec,) = [k.spec for k in gpu.kernels() if k.program is None]
    assert (type(spec), spec.rows, spec.columns) == (kind, rows, columns)


@pytest.mark.parametrize("capability", [(7, 0), (7, 5)], ids=str)
def test_matmul_on_older_gpus(capability):
    """Without asynchronous copies, and without the instructions for halves."""
    gpu = Cuda(EmulatedDriver(capability=capability))
    for t in FLOATS:
        multiplies(gpu, t, 40, 50, 33, (True, False))
        multiplies(gpu, t, 40, 48, 32, (False, False))
    assert not any(type(k.spec) is products.TensorCores for k in gpu.kernels())


def test_sums_of_products_of_halves_are_rounded_once(gpu):
    ones = np.ones(4096, np.float16)
    a, b = put(gpu, ones), put(gpu, ones)
    for sizes in ((1, 1, 4096), (2, 2, 2048)):
        layout = matmul.layout(sizes, (False, True), np.zeros((1, 2), np.int64))
        found = primitives.matmul(gpu, dt.f16, (a, 4096), (b, 4096), layout)
        assert set(got(gpu, found, dt.f16, sizes[0] * sizes[1]).tolist()) == {sizes[2]}


def test_infinities_stay_where_they_are(gpu):
    """Nothing beyond the edges of matrices takes part."""
    for t in FLOATS:
        a, b = np.ones((3, 5), t.numpy), np.ones((5, 7), t.numpy)
        a[1, 2] = np.inf
        layout = matmul.layout((3, 7, 5), (False, False), np.zeros((1, 2), np.int64))
        found = primitives.matmul(gpu, t, (put(gpu, a), 15), (put(gpu, b), 35), layout)
        expected = np.full((3, 7), 5.0)
        expected[1] = np.inf
        np.testing.assert_array_equal(got(gpu, found, t, 21).reshape(3, 7), expected)


def test_reads_of_shared_memory_do_not_conflict():
    """Neither those of small matrices nor of rows and columns of threads."""
    memory = Memory()
    for code, spec in (
        ("f16", lambda o: products.TensorCores(o, 128, 256, 2, 1)),
        ("f16", lambda o: products.TensorCores(o, 128, 128, 2)),
        ("f32", lambda o: products.TensorCores(o, 64, 64, 2)),
        ("f32", lambda o: products.MultiplyAdds(o, 128, 128, 8, 8, 8)),
        ("f64", lambda o: products.MultiplyAdds(o, 64, 64, 8, 4, 4)),
    ):
        for transposed in TRANSPOSED[1:3]:
            width = 16 // dt.BY_CODE[code].itemsize
            made = spec(products.ProductForm(code, code, *transposed, width, width, False, True))
            entry = EntryCode()
            made.emit(entry)
            form = entry.compiled("k", (9, 0))
            size = 256 * 64 * dt.BY_CODE[code].itemsize
            a, b, c = (memory.allocate(n) for n in (size, size, 128 * 256 * 8))
            memory.view(a, size)[:] = memory.view(b, size)[:] = 0
            words = struct.pack("<8q", a, b, c, made.rows, made.columns, 32, 32, 1)
            run = Module(form.code, memory).entries["k"]
            report = run.launch((1, 1, 1), (form.threads, 1, 1), words, shared=form.shared)
            assert not report.bank_conflicts, (made, report.bank_conflicts)


# --------------------------------------------------------------------------- kernels and launches

KERNELS = [
    Runs("add", "f32", "f32", 4, 8), Runs("add", "f16", "f32", 8, 256, True),
    Runs("min", "u8", "u8", 16, 32), Rows("add", "f32", "f32", 4, 32),
    Rows("mul", "f64", "f64", 2, 8), scan.ShortRuns("add", "u8", True),
    scan.ShortRuns("max", "f32", False), scan.LookBackScan("add", "u32", False),
    scan.ChainedScan("add", "f64", False), scan.ChainedScan("add", "f16", True),
    scan.Compress(), radix.CountDigits("u32", 4), radix.PlanPasses(8),
    radix.SortTile("u32", True), radix.SortDigit("u64", True), radix.SortDigit("u32", False),
    dots.Dots("f16", "f32", 8, 32, True), dots.RowSums("f32", "f32", 4, 32, False),
]  # fmt: skip


@pytest.mark.parametrize("capability", [(7, 0), (9, 0)], ids=str)
def test_the_assembler_accepts_every_kernel(capability):
    tool = ptxas()
    if tool is None:
        pytest.skip("ptxas is not installed")
    target = f"sm_{max(capability[0] * 10 + capability[1], 75)}"
    for spec in KERNELS:
        entry = EntryCode()
        spec.emit(entry)
        (found,) = resources(tool, entry.compiled("k", capability).code, target).values()
        assert found.spill_stores <= 16, (spec, found)
        assert found.shared <= 48 << 10, (spec, found)


def test_two_blocks_that_sort_fit_on_a_multiprocessor():
    tool = ptxas()
    if tool is None:
        pytest.skip("ptxas is not installed")
    for code in ("u32", "u64"):
        entry = EntryCode()
        radix.SortDigit(code, True).emit(entry)
        (found,) = resources(tool, entry.compiled("k", (9, 0)).code, "sm_90").values()
        assert found.registers <= 128 and not found.spill_stores, found
        assert found.shared <= 48 << 10


@pytest.mark.parametrize("transposed", TRANSPOSED, ids=["", "At", "Bt", "At Bt"])
@pytest.mark.parametrize(("columns", "together"), [(128, 2), (256, 1)])
def test_products_of_halves_keep_their_sums_in_registers(transposed, columns, together):
    tool = ptxas()
    if tool is None:
        pytest.skip("ptxas is not installed")
    layout = products.ProductForm("f16", "f16", *transposed, 8, 8, False, True)
    entry = EntryCode()
    products.TensorCores(layout, 128, columns, 2, together).emit(entry)
    form = entry.compiled("k", (9, 0))
    (found,) = resources(tool, form.code, "sm_90").values()
    # The blocks of a multiprocessor have 65536 registers together.
    assert found.registers <= 256 // together and not found.spill_stores and not found.stack, found
    assert form.code.count("mma.sync") == columns // 4 and "cp.async" in form.code
    assert form.shared <= (227 << 10) // 2


@pytest.mark.parametrize(
    ("size", "columns", "stages"), [(256, 64, 3), (1024, 128, 3), (4096, 256, 4), (4096, 256, 3)]
)
def test_large_products_of_halves_have_large_tiles(size, columns, stages, monkeypatch):
    gpu, specs = Cuda(EmulatedDriver()), []
    gpu.multiprocessors = 132
    gpu.shared_limit = 227 << 10 if stages == 4 else 99 << 10
    monkeypatch.setattr(primitives, "_run", lambda device, spec, *_: specs.append(spec))
    layout = matmul.layout((size, size, size), (False, False), np.zeros((1, 2), np.int64))
    operand = put(gpu, np.ones(8, np.float16)), size * size
    primitives.matmul(gpu, dt.f16, operand, operand, layout)
    assert (specs[0].columns, specs[0].stages) == (columns, stages)


def test_a_kernel_is_made_once_and_stored(gpu):
    x = put(gpu, np.arange(5000, dtype=np.float32))
    for n in (100, 110, 120):
        gpu.prefix("add", dt.f32, n, x, False, n)
    (first,) = [
        k for k in gpu.kernels() if k.text == "ShortRuns(op='add', code='f32', inclusive=True)\n"
    ]
    assert first.launches >= 3 and first.tier == "compiled" and first.program is None
    other = Cuda(EmulatedDriver())
    other.prefix("add", dt.f32, 100, put(other, np.ones(100, np.float32)), False, 100)
    (again,) = other.kernels()
    assert again.state == "disk" and again.name == first.name


def test_memory_in_between_serves_later_launches_only():
    """On a slow GPU, nothing has run yet when the memory for parts and tables is freed."""
    gpu = Cuda(EmulatedDriver(delayed=True))
    n = 9000
    x = np.random.default_rng(1).integers(0, 1 << 20, n).astype(np.uint32)
    y = x.astype(np.float32)
    source, keys = put(gpu, y), put(gpu, x)
    ones = put(gpu, np.ones(n, np.float32))
    layout = matmul.layout((1, 3, 3000), (False, False), np.zeros((1, 2), np.int64))
    found = [
        (gpu.prefix("max", dt.f32, n, source, False, n), dt.f32, n),
        (gpu.sort(dt.u32, n, keys, None, 20), dt.u32, n),
        (gpu.block_reduce("max", dt.f32, n, source, n), dt.f32, 1),
        (primitives.matmul(gpu, dt.f32, (ones, n), (source, n), layout), dt.f32, 3),
    ]
    running, ordered, largest, sums = [got(gpu, *f) for f in found]
    np.testing.assert_array_equal(running, np.maximum.accumulate(y))
    np.testing.assert_array_equal(ordered, np.sort(x))
    assert largest[0] == y.max()
    np.testing.assert_allclose(sums, y.reshape(3000, 3).sum(0), 1e-5)


def test_launches_are_recorded(gpu):
    source = put(gpu, np.ones(LONG, np.float32))
    history.take()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        gpu.prefix("add", dt.f32, LONG, source, False, LONG)
    entries = [e for (e,) in history.take()]
    assert [type(e.kernel.spec) for e in entries] == [Runs, scan.ChainedScan]
    assert all(e.size == LONG and e.time.last >= 0 for e in entries)


def test_an_error_of_what_is_read_is_one_of_what_is_written(gpu):
    x = put(gpu, np.ones(100, np.float32))
    x.source = launch.ErrorRecord(gpu, [])
    assert gpu.prefix("add", dt.f32, 100, x, False, 100).source is x.source
    assert gpu.block_reduce("add", dt.f32, 100, x, 10).source is x.source
    x.source.error = launch.OutOfBoundsError("an index is out of bounds")
    gpu.queue.errors.append(x.source.error)
    with pytest.raises(IndexError, match="an index"):
        gpu.compress(100, x)
