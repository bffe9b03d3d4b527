"""Matrix products of tensors against NumPy, on every shape rule and element type."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit import scalar
from drjit.jit.cpu import memory, runtime, variants
from drjit.jit.cpu import primitives as cpu_matmul
from drjit.jit.native import division
from drjit.jit.primitives import matmul as product
from drjit.jit.target.simd import llvm
from drjit.jit.target.simd.ir import Machine
from drjit.llvm import (
    Array3f,
    Float,
    Matrix2f,
    TensorXf,
    TensorXf16,
    TensorXf64,
    TensorXi,
)

TYPES = {np.float16: TensorXf16, np.float32: TensorXf, np.float64: TensorXf64}
ROUNDING = {np.float16: 4e-3, np.float32: 1e-5, np.float64: 1e-13}
every_type = pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)


def data(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def check(found, a, b):
    expected = np.matmul(a.astype(np.float64), b.astype(np.float64))
    assert tuple(found.shape) == expected.shape
    k = a.shape[-1]
    error = ROUNDING[a.dtype.type] * max(1, np.sqrt(k))
    np.testing.assert_allclose(found.numpy(), expected, rtol=error, atol=error)


SIZES = [
    (1, 1, 1), (2, 3, 4), (5, 1, 7), (1, 9, 600), (9, 1, 600), (3, 33, 40), (8, 32, 16),
    (17, 65, 31), (65, 70, 1100), (300, 20, 5), (12, 8, 600), (30, 16, 1025), (3, 12, 513),
    (1, 40, 1500), (40, 1, 700), (70, 1, 15), (8, 17, 1),
]  # fmt: skip


@every_type
@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=["", "Bt", "At", "At Bt"])
def test_sizes_and_layouts(dtype, flags, tier):
    for m, n, k in SIZES:
        a, b = data((m, k), dtype, 1), data((k, n), dtype, 2)
        cls = TYPES[dtype]
        left, right = cls(a.T if flags[0] else a), cls(b.T if flags[1] else b)
        found = dr.matmul(left, right, *map(bool, flags))
        assert type(found) is cls
        check(found, a, b)


@pytest.mark.processor
@pytest.mark.parametrize("nbytes", [16, 32, 64], ids=["16 bytes", "32 bytes", "64 bytes"])
@pytest.mark.parametrize("threads", [1, 3])
def test_many_tiles(threads, nbytes, monkeypatch, tmp_path):
    dr.flush_kernel_cache()
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(llvm, "host", lambda: Machine(nbytes, nbytes == 64))
    monkeypatch.setattr(variants, "pinned", "compiled")
    monkeypatch.setattr(cpu_matmul, "_widest_tile", lambda depth: 64)
    monkeypatch.setattr(division, "TILE_ROWS", 48)
    monkeypatch.setattr(product, "_remembered", product._remembered.__wrapped__)
    before = runtime.thread_count()
    runtime.set_thread_count(threads)
    try:
        for m, n in ((270, 410), (3, 410), (270, 1)):
            a, b = data((m, 1300)), data((1300, n))
            check(TensorXf(a) @ TensorXf(b), a, b)
            check(dr.matmul(TensorXf(a.T), TensorXf(b.T), True, True), a, b)
    finally:
        runtime.set_thread_count(before)
        dr.flush_kernel_cache()


@pytest.mark.processor
@every_type
@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=["", "Bt", "At", "At Bt"])
def test_nothing_is_written_beyond_the_memory_of_a_product(dtype, flags, monkeypatch):
    guard, made = 1 << 16, []

    def guarded(nbytes):
        buffer = memory.allocate(nbytes + guard, host=True)
        buffer.array(np.dtype(np.uint8), nbytes + guard)[nbytes:] = 0xA5
        made.append((buffer, nbytes))
        return buffer

    monkeypatch.setattr(variants, "pinned", "compiled")
    monkeypatch.setattr(cpu_matmul, "allocate", guarded)
    cls = TYPES[dtype]
    threads = runtime.thread_count()
    runtime.set_thread_count(1)  # whose memory ends where the guard begins
    try:
        for m, n, k in (
            (270, 410, 1300),
            (530, 300, 1100),
            (3, 33, 1300),
            (1, 270, 700),
            (6, 3, 20),
        ):
            a = cls(data((k, m) if flags[0] else (m, k)))
            b = cls(data((n, k) if flags[1] else (k, n)))
            dr.eval(dr.matmul(a, b, *map(bool, flags)))
        dr.sync_thread()
    finally:
        runtime.set_thread_count(threads)
    assert len(made) == 10
    for buffer, nbytes in made:
        assert (buffer.array(np.dtype(np.uint8), nbytes + guard)[nbytes:] == 0xA5).all()


RANKS = [
    ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (6, 3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 4)),
    ((1, 2, 3), (7, 3, 1)),
]  # fmt: skip


@pytest.mark.parametrize("shapes", RANKS, ids=str)
@pytest.mark.parametrize("namespace", [dr.llvm, dr.scalar], ids=["llvm", "scalar"])
def test_ranks(shapes, namespace, tier):
    a, b = data(shapes[0], seed=1), data(shapes[1], seed=2)
    check(namespace.TensorXf(a) @ namespace.TensorXf(b), a, b)


@given(
    m=st.integers(0, 20), n=st.integers(0, 40), k=st.integers(0, 40), batch=st.integers(0, 3),
    at=st.booleans(), bt=st.booleans(),
)  # fmt: skip
@settings(max_examples=60)
def test_any_size_also_none(tier, m, n, k, batch, at, bt):
    a, b = data((batch, m, k), seed=3), data((batch, k, n), seed=4)
    left = TensorXf(a.swapaxes(1, 2) if at else a)
    right = TensorXf(b.swapaxes(1, 2) if bt else b)
    check(dr.matmul(left, right, at, bt), a, b)


def test_nothing_to_add_up():
    found = dr.zeros(TensorXf, (2, 0)) @ dr.zeros(TensorXf, (0, 3))
    np.testing.assert_array_equal(found.numpy(), np.zeros((2, 3)))


def test_nan_and_infinity(tier):
    a = np.ones((20, 20), np.float32)
    a[3, 4], a[5, 6] = np.nan, np.inf
    b = np.eye(20, dtype=np.float32)
    found = (TensorXf(b) @ TensorXf(a)).numpy()
    assert np.isnan(found[:, 4]).all() and found[5, 6] == np.inf
    np.testing.assert_array_equal(found[:, :4], a[:, :4])


def test_half_precision_accumulates_in_single(tier):
    a = np.full((1, 4096), 1, np.float16)
    found = TensorXf16(a) @ TensorXf16(a.T)
    assert found.numpy().item() == 4096  # halves stop counting at 2048


def test_other_operands():
    t = TensorXf([[1, 2], [3, 4]])
    assert (t @ Float(1, 1)).numpy().tolist() == [3, 7]
    assert dr.matmul(t, np.float32([1, 1])).numpy().tolist() == [3, 7]
    assert (t @ [[1], [1]]).numpy().tolist() == [[3], [7]]
    assert dr.matmul(t, 2).numpy().tolist() == [[2, 4], [6, 8]]
    assert dr.matmul(Float(1, 2), Float(3, 4)).numpy().tolist() == [11]
    assert type(TensorXf16([[1]]) @ TensorXf([[1]])) is TensorXf
    m = Matrix2f(1, 2, 3, 4)
    assert dr.matmul(m, m, At=True).numpy().ravel().tolist() == [10, 14, 14, 20]
    t @= t
    assert t.numpy().tolist() == [[7, 10], [15, 22]]


def test_the_operator_leaves_products_with_numpy_to_numpy():
    ones = np.ones((2, 2), np.float32)
    for found in (TensorXf([[1, 2], [3, 4]]) @ ones, scalar.Matrix2f(1, 2, 3, 4) @ ones):
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, [[3, 3], [7, 7]])
    assert scalar.Array2f(1, 2) @ np.float32([3, 4]) == 11


def test_operands_are_evaluated_in_time():
    a = dr.arange(Float, 12)
    t = TensorXf(a * 2, (3, 4))
    found = t @ t.T + 1
    x = np.arange(12, dtype=np.float32).reshape(3, 4) * 2
    np.testing.assert_array_equal(found.numpy(), x @ x.T + 1)


@pytest.mark.parametrize(
    ("a", "b", "flags", "error", "text"),
    [
        (TensorXf([[1, 2]]), TensorXf([[1, 2]]), {}, ValueError, "has 2 columns.* has 1 rows"),
        (TensorXf([1]), TensorXf(1), {}, ValueError, "0-D .* B has the shape"),
        (TensorXf([1]), TensorXf([1]), {"At": True}, ValueError, "'A' operand. Its shape is"),
        (TensorXi([[1]]), TensorXi([[1]]), {}, RuntimeError, "Float16, Float32, and Float64"),
        (TensorXf([[1]]), Array3f(1), {}, TypeError, "nested"),
        (
            TensorXf(np.ones((2, 1, 1))), TensorXf(np.ones((3, 1, 1))), {},
            ValueError, r"\(got 2 vs 3\). .* \(2,\) and \(3,\)",
        ),
    ],
    ids=["sizes", "number", "flags", "integers", "nested", "broadcast"],
)  # fmt: skip
def test_what_is_refused(a, b, flags, error, text):
    with pytest.raises(error, match=text):
        dr.matmul(a, b, **flags)


@pytest.mark.processor
def test_the_kernel_is_one_line():
    dr.eval(TensorXf(data((3, 3))) @ TensorXf(data((3, 3))))
    assert any(
        "    matmul(f32, 4, 8, 1024, p[1], p[2], p[3], i, " in k.source for k in dr.kernels()
    )
