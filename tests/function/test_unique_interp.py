"""Distinct entries, and interpolation between given points, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import Array3f, Float, Int, TensorXf, ad
from drjit.llvm.ad import Array3f64, Float16, Float64, TensorXf64

SUFFIXES = ["f", "f16", "f64", "i", "u", "i8", "u8", "i64", "u64", "b"]


def array_class(space, suffix):
    dtype = getattr(scalar, f"ArrayX{suffix}")
    return dtype if space is scalar else getattr(space, f"ArrayX{suffix}").Value


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("space", [llvm, ad, scalar], ids=["llvm", "ad", "scalar"])
def test_distinct_entries_agree_with_numpy(space, suffix):
    cls = array_class(space, suffix)
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 17, 1000):
        values = rng.integers(0, 2 if suffix == "b" else 50, size=n)
        entries = (values.astype(bool) if suffix == "b" else values).tolist()
        if suffix[0] == "f" and n > 2:
            entries += [dr.nan, -0.0, dr.nan, 0.0, -dr.inf]
        a = cls(entries)
        found = dr.unique(a, True, True, True)
        assert type(found[0]) is cls
        assert repr(dr.unique(a)) == repr(found[0])
        for x, wanted in zip(found, np.unique(np.array(a), True, True, True), strict=True):
            np.testing.assert_array_equal(np.array(x), wanted)


@given(st.lists(st.integers(-3, 3), max_size=40))
def test_distinct_entries_of_any_list(values):
    a = Int(values)
    found, inverse, counts = dr.unique(a, return_inverse=True, return_counts=True)
    assert list(found) == sorted({*values})
    assert [found[i] for i in inverse] == values
    assert [*counts] == [values.count(v) for v in found]


def test_distinct_entries_of_tensors():
    values = np.random.default_rng(0).integers(0, 5, size=(3, 4))
    found, inverse = dr.unique(TensorXf(values), return_inverse=True)
    assert type(found) is TensorXf
    assert inverse.shape == (3, 4)
    np.testing.assert_array_equal(np.array(found)[np.array(inverse)], values)


def test_gradients_reach_first_occurrences():
    x = Float64(3, 1, 3)
    dr.enable_grad(x)
    dr.backward(dr.sum(dr.unique(x) * Float64(1, 10)))
    assert list(x.grad) == [10, 1, 0]


@pytest.mark.parametrize("value", [Array3f(1), [1], 3])
def test_distinct_entries_of_other_values_are_rejected(value):
    with pytest.raises(TypeError, match="expected a tensor or a one-dimensional array"):
        dr.unique(value)


# Interpolation

POINTS = np.array([0, 1, 1, 3, 3.5, 3.5])
VALUES = np.random.default_rng(0).normal(size=6)
X = np.concatenate([np.random.default_rng(1).uniform(-1, 5, 50), POINTS, [np.nan, np.inf, -np.inf]])


@pytest.mark.parametrize("ends", [(None, None), (-1.0, 9.0)])
@pytest.mark.parametrize(
    ("cls", "tolerance"), [(Float64, 1e-12), (ad.Float, 1e-5), (Float16, 1e-2)]
)
def test_interpolation_agrees_with_numpy(cls, tolerance, ends, tier):
    x, fp = cls(X), cls(VALUES)
    found = dr.interp(x, cls(POINTS), fp, *ends)
    assert type(found) is cls
    wanted = np.interp(np.array(x, float), POINTS, np.array(fp, float), *ends)
    np.testing.assert_allclose(np.array(found), wanted, tolerance, tolerance)


def test_interpolation_at_arrays_of_any_kind():
    grid = X[:50].reshape(5, 10)
    for cls in (TensorXf64, scalar.TensorXf64):
        found = dr.interp(cls(grid), cls(POINTS), cls(VALUES))
        assert type(found) is cls
        np.testing.assert_allclose(np.array(found), np.interp(grid, POINTS, VALUES))
    assert repr(dr.interp(Array3f(0.5, 1, 2), [0, 1, 2], (0, 10, 30))) == "[[5, 10, 30]]"
    assert type(dr.interp(Array3f(1), [0, 1], llvm.Float64(1, 2))) is llvm.Array3f64
    assert repr(dr.interp(0.5, Float(0, 1), Int(0, 3))) == "[1.5]"
    assert repr(dr.interp(scalar.Array3f(0, 1, 2), [0, 2], [0, 1])) == "[0, 0.5, 1]"
    assert dr.interp(Float(), [0, 1], [0, 1]).shape == (0,)
    assert list(dr.interp(Float(0, 1), [0], [5])) == [5, 5]


def test_derivatives_reach_positions_points_and_values():
    x, xp, fp = Float64(0.2, 0.7, 1.5, -2, 9), Float64(0, 1, 3), Float64(1, 5, 2)
    assert dr.check_grad(dr.interp, x, xp, fp)
    assert dr.check_grad(lambda v: dr.interp(Array3f64(v, 2.1 * v, 0.5), [0, 1, 3], [1, 5, 2]), x)


def test_interpolation_in_loops_and_frozen_functions():
    @dr.syntax
    def repeated(x):
        i = ad.UInt(0)
        while i < 2:
            x = dr.interp(x, Float64(0, 1, 2), Float64(1, 0, 2))
            i += 1
        return x

    assert list(repeated(Float64(0.5, 1.5))) == [0.5, 0]
    frozen = dr.freeze(dr.interp)
    rng = np.random.default_rng(2)
    for n in (3, 3, 5, 9, 2):
        xp, fp = np.sort(rng.normal(size=n)), rng.normal(size=n)
        found = frozen(Float64(X[:20]), Float64(xp), Float64(fp))
        np.testing.assert_allclose(found, np.interp(X[:20], xp, fp))


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((0.5, [0], [1]), TypeError, "one of the arguments must be an array"),
        ((Int(1), [0], [1]), TypeError, "expected an array of floating point positions, not"),
        (("x", Float(0), [1]), TypeError, "expected an array of floating point positions, not str"),
        ((Float(1), [0, 1], [1]), ValueError, "'xp' has 2 entries and 'fp' 1"),
        ((Float(1), [], []), ValueError, "'xp' has 0 entries and 'fp' 0"),
        ((Float(1), 3, [1]), TypeError, "a tensor of one axis or a list as 'xp', not int"),
    ],
)
def test_mistakes_are_explained(arguments, kind, message):
    with pytest.raises(kind, match=message):
        dr.interp(*arguments)
