"""Sorting, order statistics and variances against NumPy."""

import warnings

import hypothesis.extra.numpy as npst
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit.jit.cpu import primitives, runtime, variants
from drjit.jit.target import packet_width
from drjit.llvm import (
    Array3f,
    Bool,
    Float,
    Float16,
    Float64,
    Int,
    Int8,
    Int64,
    TensorXf,
    TensorXi,
    UInt,
    UInt8,
    UInt64,
)

TYPES = [Bool, Int8, UInt8, Int, UInt, Int64, UInt64, Float16, Float, Float64]
every_type = pytest.mark.parametrize("cls", TYPES, ids=lambda t: t.__name__)


def data(cls, n, seed=0):
    rng = np.random.default_rng(seed)
    dtype = cls(0).numpy().dtype
    if dtype.kind == "b":
        return rng.random(n) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, n, dtype, endpoint=True)
    x = (rng.standard_normal(n) * 10.0 ** rng.integers(-8, 4, n)).astype(dtype)
    x[::7], x[3::50], x[5::31], x[6::31] = np.nan, np.inf, 0, -0.0
    return x


def same(found, expected):
    np.testing.assert_array_equal(found.numpy(), expected)


@every_type
@pytest.mark.parametrize("n", [1, 2, 16, 17, 1000])
def test_every_type(cls, n, tier):
    x = data(cls, n)
    same(dr.sort(cls(x)), np.sort(x))
    same(dr.argsort(cls(x)), np.argsort(x, kind="stable"))
    found = dr.argsort(cls(x), descending=True)
    assert type(found) is UInt
    same(found, n - 1 - np.argsort(x[::-1], kind="stable")[::-1])
    same(dr.sort(cls(x), descending=True), np.sort(x)[::-1])


@pytest.mark.parametrize("lanes", [8, 16], ids=["8 lanes", "16 lanes"])
@pytest.mark.parametrize("cls", [Float, Int64, Float16], ids=["Float", "Int64", "Float16"])
def test_several_blocks(cls, lanes, monkeypatch, tmp_path):
    dr.flush_kernel_cache()
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(packet_width, "default_lanes", lambda: lanes)
    monkeypatch.setattr(variants, "pinned", "compiled")
    monkeypatch.setattr(primitives, "_SORTED_BLOCK", 256)
    before = runtime.thread_count()
    runtime.set_thread_count(3)
    try:
        for n in (5000, 5001, 12345):
            x = data(cls, n, n)
            same(dr.sort(cls(x)), np.sort(x))
            same(dr.argsort(cls(x)), np.argsort(x, kind="stable"))
    finally:
        runtime.set_thread_count(before)
        dr.flush_kernel_cache()


def test_equal_entries_keep_their_order(tier):
    x = np.arange(5000) % 7
    same(dr.argsort(Int(x)), np.argsort(x, kind="stable"))
    same(dr.argsort(Float(np.where(x % 2, 0.0, -0.0))), np.arange(5000))


@given(
    a=npst.arrays(
        np.float32,
        npst.array_shapes(max_dims=3, max_side=9, min_side=0),
        elements=st.sampled_from([0, 1, 2, 3, -1, np.nan, np.inf]),
    ),
    choice=st.data(),
)
@settings(max_examples=50)
def test_axes(tier, a, choice):
    axis = choice.draw(st.integers(-a.ndim, a.ndim - 1))
    t = TensorXf(a)
    same(dr.sort(t, axis), np.sort(a, axis))
    same(dr.argsort(t, axis), np.argsort(a, axis, kind="stable"))
    same(dr.sort(t, axis, descending=True), np.flip(np.sort(a, axis), axis))
    if a.shape[axis] and a.size:
        order = np.argsort(a, axis, kind="stable")
        rank = (a.shape[axis] - 1) // 2
        values, index = dr.median(t, axis, return_index=True)
        same(index, np.take(order, rank, axis))
        same(values, np.take(np.sort(a, axis), rank, axis))
        same(dr.argmin(t, axis), np.take(order, 0, axis))
        same(dr.argmax(t, axis, keepdims=True), np.argmax(a, axis, keepdims=True))


@pytest.mark.parametrize("rows", [1, 3000])
def test_many_rows(rows, tier):
    a = np.random.default_rng(1).random((rows, 5)).astype(np.float32)
    same(dr.sort(TensorXf(a)), np.sort(a))
    same(dr.sort(TensorXf(a), 0), np.sort(a, 0))


def test_other_arrays():
    a = np.float32([[3, 4], [1, 9], [2, 0]])
    same(dr.sort(Array3f(a), 0), np.sort(a, 0))
    same(dr.sort(Array3f(a)), np.sort(a))
    same(dr.argsort(Array3f(a), 0), np.argsort(a, 0))
    s = dr.scalar.ArrayXf([3, 1, 2])
    assert list(dr.sort(s)) == [1, 2, 3] and list(dr.argsort(s, descending=True)) == [0, 2, 1]
    assert list(dr.argmin(s)) == [1] and list(dr.median(s)) == [2]
    t = dr.scalar.TensorXf(a)
    same(dr.sort(t, 0), np.sort(a, 0))
    same(dr.argmax(t, 0), np.argmax(a, 0))
    assert len(dr.sort(Float())) == 0 and len(dr.argsort(Float())) == 0


def test_positions_of_extremes(tier):
    a = np.float32([[3, 1, 1], [9, 0, 9]])
    t = TensorXf(a)
    assert dr.argmin(t).numpy().tolist() == [4] and dr.argmax(t).numpy().tolist() == [3]
    same(dr.argmin(t, 1), [1, 1])
    same(dr.argmax(t, 1, keepdims=True), [[0], [0]])
    assert dr.argmax(Bool(False, True, True)).numpy().tolist() == [1]
    assert dr.argmin(Float(np.nan, np.nan)).numpy().tolist() == [0]
    assert dr.argmax(Float(1, np.nan, 3)).numpy().tolist() == [1]
    assert dr.argmin(TensorXf(np.zeros((0, 3))), 1).shape == (0,)


def test_median(tier):
    a = np.float32([[3, 1, 2], [9, np.nan, 7]])
    t = TensorXf(a)
    same(dr.median(t), [2, 9])
    same(dr.median(t, None), 3)
    same(dr.median(t, (0, 1), keepdims=True), [[3]])
    values, index = dr.median(t, (0, 1), return_index=True)
    assert values.shape == () and index.numpy() == 0
    values, index = dr.median(Float(3, 1, 2, 10), return_index=True)
    assert values.numpy().tolist() == [2] and index.numpy().tolist() == [2]
    same(dr.median(Array3f([1, 5], 2, 3), 1), [[1], [2], [3]])


@pytest.mark.parametrize(
    ("value", "want", "place"),
    [
        ([5, 1, 3], 3, 2),
        ([5, 1, 3, 7], 3, 2),
        ((1.0, 2, 7, 4), 2, 1),
        (5.5, 5.5, 0),
        (7, 7, 0),
        ([2.0, float("nan"), 3.0], 3.0, 2),
        (np.array([4, 1, 2]), 2, 2),
    ],
    ids=str,
)
def test_the_median_of_python_values(value, want, place):
    assert dr.median(value) == want
    assert dr.median(value, return_index=True) == (want, place)
    with pytest.raises(RuntimeError, match="no entries"):
        dr.median([])


def test_median_without_rows(tier):
    nothing = dr.zeros(TensorXf, (0, 2))
    values, positions = dr.median(nothing, 1, return_index=True)
    assert values.shape == positions.shape == np.median(np.zeros((0, 2)), 1).shape
    assert dr.median(nothing, 1, keepdims=True).shape == (0, 1)
    with pytest.raises(RuntimeError, match="no entries"):
        dr.median(nothing, 0)


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 2), ()], ids=str)
@pytest.mark.parametrize("ddof", [0, 1])
def test_variance(axis, ddof, tier):
    a = np.random.default_rng(5).random((3, 4, 5)).astype(np.float32)
    for ours, numpys in ((dr.var, np.var), (dr.std, np.std)):
        for keepdims in (False, True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NumPy's, where nothing is left to divide by
                expected = numpys(a, axis, ddof=ddof, keepdims=keepdims)
            found = ours(TensorXf(a), axis, keepdims=keepdims, ddof=ddof)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_variance_of_other_values():
    assert dr.var([1, 2, 4]) == pytest.approx(14 / 9)
    assert dr.std([1, 3]) == 1
    np.testing.assert_allclose(dr.var(Array3f(1, 2, 4)).numpy(), [14 / 9], rtol=1e-6)
    same(dr.var(Array3f([1, 2], [3, 4], [5, 9]), 1), [[0.25], [0.25], [4]])
    assert dr.var(Float16([0, 500])).numpy().tolist() == [62496]  # the sum would overflow
    assert np.isnan(dr.var(Float(1), ddof=1).numpy()).all()
    assert np.isnan(dr.var(TensorXf(np.zeros((2, 0))), 1).numpy()).all()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: dr.sort([3, 1]), TypeError, "not list"),
        (lambda: dr.sort(Float(1), 1), RuntimeError, "axis 1 is out of bounds"),
        (lambda: dr.sort(TensorXf(1)), RuntimeError, "axis -1 is out of bounds"),
        (lambda: dr.argsort(Float(1), None), TypeError, "must be an int"),
        (lambda: dr.median(Float()), RuntimeError, "no entries"),
        (lambda: dr.median(TensorXf([1]), 3), RuntimeError, "out-of-bounds axis 3"),
        (lambda: dr.argmin(Float()), ValueError, "no entries"),
        (lambda: dr.argmax(Array3f(1)), TypeError, "one-dimensional"),
        (lambda: dr.argmax(TensorXf([1]), 1), RuntimeError, "axis 1 is out of bounds"),
        (lambda: dr.var(TensorXi([1])), TypeError, "integers"),
    ],
)
def test_what_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()
