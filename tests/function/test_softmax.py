"""Softmax, its logarithm and that of the sum of exponentials, against SciPy."""

import numpy as np
import pytest
import scipy.special

import drjit as dr
from drjit import nn, scalar
from drjit.llvm import Array3i, Array22f, Float, Int, Matrix2f, ad
from drjit.llvm.ad import Array3f, Array3f64, Float16, Float64, TensorXf, TensorXf16, TensorXf64

VALUES = np.random.default_rng(0).normal(size=(3, 4)) * 20
AXES = [..., None, 0, 1, -1, (0, 1)]
TOLERANCE = {"float16": 5e-3, "float32": 1e-5, "float64": 1e-12}


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize(
    "cls", [TensorXf64, TensorXf, TensorXf16, scalar.TensorXf64, scalar.TensorXf16]
)
def test_tensors_agree_with_scipy(cls, axis, tier):
    x = cls(VALUES)
    values, along = np.array(x, np.float64), None if axis is ... else axis
    tolerance = {"rtol": TOLERANCE[cls._dtype.name], "atol": TOLERANCE[cls._dtype.name]}
    for name in ("softmax", "log_softmax"):
        found = getattr(dr, name)(x, axis)
        assert type(found) is cls
        wanted = getattr(scipy.special, name)(values, along)
        np.testing.assert_allclose(np.array(found), wanted, **tolerance)
    for keepdims in (False, True):
        found = dr.logsumexp(x, axis, keepdims)
        wanted = scipy.special.logsumexp(values, along, keepdims=keepdims)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(np.array(found), wanted, **tolerance)


def test_axes_of_nested_arrays_are_those_of_sums():
    x = Array3f([1, 2], 2, 3)
    values = np.array(x)
    for axis, along in ((..., 0), (0, 0), (1, 1), (-1, 1), (None, None)):
        found = dr.softmax(x, axis)
        assert type(found) is Array3f
        np.testing.assert_allclose(np.array(found), scipy.special.softmax(values, along), 1e-6)
        assert type(dr.logsumexp(x, axis)) is type(dr.sum(x, axis))
        wanted = scipy.special.logsumexp(values, along)
        np.testing.assert_allclose(np.ravel(np.array(dr.logsumexp(x, axis))), wanted, 1e-6)


def test_sequences_numbers_and_cooperative_vectors():
    assert dr.softmax(2.0) == 1 and dr.log_softmax(2.0) == 0 and dr.logsumexp(2.0) == 2
    assert dr.softmax((0.0, 0.0)) == (0.5, 0.5)
    assert dr.logsumexp([]) == -np.inf
    x, y = dr.softmax([Float16(1), Float16(2)])
    assert type(x) is Float16 and np.isclose(x[0] + y[0], 1, atol=1e-3)
    for cls in (ad.Float, Float16):
        v = nn.CoopVec(cls(1, 2), cls(3, 5))
        wanted = scipy.special.log_softmax([[1, 2], [3, 5]], 0)
        np.testing.assert_allclose(np.array([*dr.softmax(v)]), np.exp(wanted), 5e-3)
        np.testing.assert_allclose(np.array([*dr.log_softmax(v)]), wanted, 5e-3)
        np.testing.assert_allclose(np.array(dr.logsumexp(v)), [3.126928, 5.048587], 3e-3)
    assert np.allclose(np.array(dr.softmax(scalar.Array3f(0, 0, 0))), 1 / 3)


def test_half_precision_sums_in_single_precision():
    x = dr.zeros(Float16, 100_000)  # whose sum of exponentials is no half-precision number
    assert abs(dr.logsumexp(x)[0] - np.log(100_000)) < 1e-2
    assert abs(dr.log_softmax(x)[7] + np.log(100_000)) < 1e-2


def test_entries_that_are_infinite_or_missing():
    inf = dr.inf
    assert [dr.logsumexp(Float(*v))[0] for v in ((), (-inf, -inf), (inf, 1))] == [-inf, -inf, inf]
    assert dr.softmax(Float()).shape == dr.log_softmax(Float()).shape == (0,)
    assert dr.softmax(dr.zeros(Array3f, 0)).shape == (3, 0)
    assert list(dr.softmax(Float(-inf, 1, 1))) == [0, 0.5, 0.5]
    assert np.isnan(dr.softmax(Float(dr.nan, 1)).numpy()).all()
    assert np.isnan(dr.softmax(Float(-inf, -inf)).numpy()).all()
    assert dr.softmax(dr.zeros(TensorXf, (0, 3)), axis=1).shape == (0, 3)
    assert list(dr.logsumexp(dr.zeros(TensorXf, (2, 0)), axis=1)) == [-inf, -inf]


@pytest.mark.parametrize("f", [dr.softmax, dr.log_softmax, dr.logsumexp])
def test_derivatives(f):
    weights = Float64(1, 2, -1)
    assert dr.check_grad(lambda v: f(v * 3) * weights, Float64(0.1, 0.5, -0.2))
    assert dr.check_grad(lambda v: f(Array3f64(v, v * v, 1)) * 2, Float64(0.1, 0.5))
    x = Float64(0, 1, -dr.inf)
    dr.enable_grad(x)
    dr.backward(dr.logsumexp(x))
    np.testing.assert_allclose(x.grad, scipy.special.softmax([0, 1, -np.inf]), 1e-12)


def test_it_is_part_of_loops_and_frozen_functions():
    @dr.syntax
    def repeated(x):
        i = ad.UInt(0)
        while i < 3:
            x = Array3f(dr.softmax(x))
            i += 1
        return x

    wanted = values = np.array([[1, 2], [0, 0], [3, 5]])
    for _ in range(3):
        wanted = scipy.special.softmax(wanted, 0)
    np.testing.assert_allclose(repeated(Array3f(values)), wanted, 1e-6)
    frozen = dr.freeze(dr.softmax)
    for n in (3, 4, 5):
        x = dr.linspace(Float, 0, 1, n)
        np.testing.assert_allclose(frozen(x), scipy.special.softmax(np.array(x)), 1e-5)


@pytest.mark.parametrize(
    "value", [Int(1), Array3i(1), Matrix2f(1), Array22f(1), "x", None, True, [Int(1)]], ids=str
)
def test_other_values_are_rejected(value):
    with pytest.raises(TypeError, match=r"dr\.softmax\(\): expected floating point numbers"):
        dr.softmax(value)
