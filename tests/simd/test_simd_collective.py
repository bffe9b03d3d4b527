"""Prefix reductions, block reductions and compression, compiled, against NumPy."""

import numpy as np
import pytest

import drjit as dr
from drjit.jit.cpu import primitives as cpu_collective
from drjit.jit.cpu import runtime, variants
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import node
from drjit.jit.ir.op import starting_value
from drjit.jit.primitives import collective
from drjit.jit.run import launch, schedule
from drjit.jit.target import packet_width, simd

SIZES = (1, 15, 16, 17, 1000, 100003)
FUNCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}
# Of the width that only other processors have by default, one type of each size and kind.
every_type = pytest.mark.parametrize(
    ("t", "lanes"),
    [
        (t, lanes)
        for lanes in (8, 16)
        for t in dt.ALL
        if lanes == simd.default_lanes() or t in (dt.mask, dt.i8, dt.f16, dt.u32, dt.f32, dt.f64)
    ],
    ids=lambda p: f"{p} lanes" if isinstance(p, int) else p.name,
    indirect=["lanes"],
)
prefixes = pytest.mark.parametrize("exclusive", [False, True], ids=["inclusive", "exclusive"])


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    """A cache folder for each number of lanes."""
    return {lanes: str(tmp_path_factory.mktemp(f"lanes{lanes}")) for lanes in (8, 16)}


@pytest.fixture(params=[8, 16], ids=["8 lanes", "16 lanes"], autouse=True)
def lanes(request, monkeypatch, caches):
    """Compiled kernels of that many lanes, in small blocks shared by two threads."""
    dr.flush_kernel_cache()
    monkeypatch.setattr(variants, "pinned", "compiled")
    monkeypatch.setattr(packet_width, "default_lanes", lambda: request.param)
    monkeypatch.setenv("DRJIT_CACHE_DIR", caches[request.param])
    monkeypatch.setattr(cpu_collective, "_block_lanes", small_blocks)
    threads = runtime.thread_count()
    runtime.set_thread_count(2)
    yield request.param
    runtime.set_thread_count(threads)
    dr.flush_kernel_cache()


def small_blocks(size, multiple=64):
    return multiple * max(1, 448 // multiple)


def reductions(t):
    return ("and", "or") if t.is_mask else FUNCTIONS if t.is_int else ("add", "mul", "min", "max")


def numbers(t, op, n):
    """Values whose sums and products are exact in any order."""
    rng = np.random.default_rng(n)
    if t.is_mask:
        return rng.random(n) < (0.95 if op == "and" else 0.05)
    if t.is_int:
        info = np.iinfo(t.numpy)
        return rng.integers(info.min, info.max, n, t.numpy, endpoint=True)
    if op == "mul":
        return rng.choice([1, -1, 2, 0.5], n, p=[0.5, 0.49, 0.005, 0.005]).astype(t.numpy)
    x = rng.integers(-3, 4, n).astype(t.numpy)
    if op != "add":
        x = np.where(rng.random(n) < 0.3, np.nan, x * rng.random(n)).astype(t.numpy)
    return x


def array(t, x):
    return node.buffer(t, x.size, launch.from_numpy(t, x))


def data(n):
    n = schedule.materialize(n)
    return launch.to_numpy(n.dtype, n.size, n.data).copy()


def accumulator(t):
    return np.dtype(np.float32) if t is dt.f16 else t.numpy


def scanned(t, op, x, exclusive):
    kind = accumulator(t)
    start = np.asarray([starting_value(op, t)], kind)
    with np.errstate(all="ignore"):
        total = FUNCTIONS[op].accumulate(np.concatenate([start, x.astype(kind)]), dtype=kind)
        return (total[:-1] if exclusive else total[1:]).astype(t.numpy)


@prefixes
@every_type
def test_prefix_reductions(t, exclusive):
    for op in reductions(t):
        for n in SIZES:
            x = numbers(t, op, n)
            got = data(collective.prefix(op, array(t, x), exclusive))
            np.testing.assert_array_equal(got, scanned(t, op, x, exclusive), f"{op}, {n}")


@prefixes
@every_type
def test_prefix_reductions_of_runs(t, exclusive):
    for op in reductions(t):
        for length, count in ((2, 501), (3, 300), (8, 57), (16, 64), (25, 40), (64, 15), (1000, 7)):
            x = numbers(t, op, length * count)
            got = data(collective.prefix(op, array(t, x), exclusive, length))
            want = [scanned(t, op, run, exclusive) for run in x.reshape(count, length)]
            np.testing.assert_array_equal(got, np.concatenate(want), f"{op}, {length}")


@every_type
def test_block_reductions(t):
    kind = accumulator(t)
    for op in reductions(t):
        for length in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 1000):
            for count in (1, 15, 17, 100):
                x = numbers(t, op, length * count)
                got = data(collective.block_reduce(op, array(t, x), length))
                with np.errstate(all="ignore"):
                    runs = x.reshape(count, length).astype(kind)
                    start = kind.type(starting_value(op, t))
                    want = FUNCTIONS[op].reduce(runs, axis=1, dtype=kind, initial=start)
                if length == 1:
                    want = x
                np.testing.assert_array_equal(got, want.astype(t.numpy), f"{op}, {length}")


def test_reductions_of_few_large_blocks_are_divided():
    rng = np.random.default_rng(0)
    for t, count, length in ((dt.i32, 3, 100_000), (dt.f32, 2, 131_101), (dt.f16, 2, 150_000)):
        x = rng.integers(-3, 4, count * length).astype(t.numpy)
        got = data(collective.block_reduce("add", array(t, x), length))
        want = x.reshape(count, length).astype(accumulator(t)).sum(axis=1)
        np.testing.assert_array_equal(got, want.astype(t.numpy))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("share", [0, 0.01, 0.5, 1])
@pytest.mark.parametrize("width", [1, 4])
def test_compress(width, share, threads, lanes, monkeypatch):
    monkeypatch.setattr(packet_width, "packet_lanes", lambda text: width * lanes)
    runtime.set_thread_count(threads)
    for n in SIZES:
        x = np.random.default_rng(n).random(n) < share
        got = data(collective.compress(array(dt.mask, x)))
        np.testing.assert_array_equal(got, np.flatnonzero(x).astype(np.uint32))


def test_prefix_sums_do_not_depend_on_threads():
    x = np.random.default_rng(1).random(100_003).astype(np.float32)
    results = []
    for threads in (1, 2):
        runtime.set_thread_count(threads)
        results.append(data(collective.prefix("add", array(dt.f32, x), False)))
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], np.cumsum(x, dtype=np.float64), rtol=1e-5)


def test_sums_of_negative_zeros():
    zeros = array(dt.f32, np.full(40, -0.0, np.float32))
    for exclusive in (False, True):
        assert not np.signbit(data(collective.prefix("add", zeros, exclusive))[0])


def test_launches_of_a_prefix_run_on_the_same_tier(monkeypatch):
    answers = iter([False, True, True])
    monkeypatch.setattr(variants, "prefers_numpy", lambda *_: next(answers))
    x = np.random.default_rng(2).integers(-9, 9, 5000).astype(np.int32)
    got = data(collective.prefix("add", array(dt.i32, x), False))
    np.testing.assert_array_equal(got, np.cumsum(x, dtype=np.int32))
    assert next(answers)


def test_number_of_lanes(lanes):
    ir = simd.compile("def kernel(i, p):\n    compress(p[1], p[2], i, active(i))", "k").ir
    assert f"<{lanes} x i32>" in ir
