"""Matrices against numpy.linalg and SciPy."""

import numpy as np
import pytest
import scipy.linalg

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import (
    Array1f,
    Array3f,
    Array3i,
    Array22f,
    Float,
    Matrix2f,
    Matrix2f16,
    Matrix3f,
    Matrix3f16,
    Matrix4f64,
    Matrix44f,
    TensorXf,
    ad,
)

TYPES = [
    (space, n, suffix)
    for space in ("scalar", "llvm", "llvm.ad")
    for n in (2, 3, 4)
    for suffix in ("f16", "f", "f64")
]
SPACES = {"scalar": scalar, "llvm": dr.llvm, "llvm.ad": ad}
TOLERANCE = {"f16": 3e-2, "f": 3e-5, "f64": 1e-12}


def matrices(n, count=5):
    """Well-conditioned matrices, half of which mirror."""
    rng = np.random.default_rng(n)
    q = np.linalg.qr(rng.normal(size=(count, n, n)))[0]
    r = np.linalg.qr(rng.normal(size=(count, n, n)))[0]
    return q * rng.uniform(0.5, 2, (count, 1, n)) @ r


def make(space, n, suffix, values):
    """A matrix array for NumPy matrices of shape (count, n, n); `drjit.scalar` takes the first."""
    cls = getattr(SPACES[space], f"Matrix{n}{suffix}")
    return cls(values[0].tolist()) if space == "scalar" else cls(np.moveaxis(values, 0, -1))


def numpy(value):
    """The entries with the lanes first."""
    a = np.asarray(value.numpy() if hasattr(value, "numpy") else value, np.float64)
    traced = hasattr(value, "numpy") and value.__meta__.is_jit
    return np.moveaxis(a, -1, 0) if traced else a[None]


@pytest.mark.parametrize(("space", "n", "suffix"), TYPES)
def test_functions_agree_with_numpy(space, n, suffix, tier):
    values = matrices(n)
    a = make(space, n, suffix, values)
    if space == "scalar":
        values = values[:1]
    tolerance = {"rtol": TOLERANCE[suffix], "atol": TOLERANCE[suffix]}
    np.testing.assert_allclose(numpy(dr.det(a)), np.linalg.det(values), **tolerance)
    np.testing.assert_allclose(numpy(dr.inverse(a)), np.linalg.inv(values), **tolerance)
    np.testing.assert_allclose(numpy(dr.trace(a)), np.trace(values, axis1=1, axis2=2), **tolerance)
    np.testing.assert_allclose(numpy(dr.frob(a)), np.sum(values**2, (1, 2)), **tolerance)
    diagonal = dr.diag(a)
    np.testing.assert_allclose(numpy(diagonal), np.diagonal(values, 0, 1, 2), **tolerance)
    again = dr.diag(diagonal)
    assert type(again) is type(a)
    np.testing.assert_allclose(numpy(again), values * np.eye(n), **tolerance)


@pytest.mark.parametrize(("space", "n", "suffix"), TYPES)
def test_polar_decomposition_agrees_with_scipy(space, n, suffix, tier):
    values = matrices(n)
    q, p = dr.polar_decomp(make(space, n, suffix, values))
    for i, a in enumerate(values[:1] if space == "scalar" else values):
        want_q, want_p = scipy.linalg.polar(a)
        tolerance = {"rtol": TOLERANCE[suffix], "atol": TOLERANCE[suffix]}
        np.testing.assert_allclose(numpy(q)[i], want_q, **tolerance)
        np.testing.assert_allclose(numpy(p)[i], want_p, **tolerance)


def test_polar_decomposition_of_ill_conditioned_matrices_converges():
    u, v = matrices(3, 1)[0], matrices(3, 2)[1]
    u, v = np.linalg.qr(u)[0], np.linalg.qr(v)[0]
    a = u @ np.diag([1e-5, 1.0, 1e5]) @ v
    q, _ = dr.polar_decomp(dr.llvm.Matrix3f64(a[..., None]), 12)
    np.testing.assert_allclose(numpy(q)[0], u @ v, atol=1e-7)


def test_no_steps_of_the_polar_decomposition():
    a = Matrix2f([[1, 2], [3, 4]])
    q, p = dr.polar_decomp(a, 0)
    np.testing.assert_allclose(numpy(q)[0], [[1, 2], [3, 4]])
    np.testing.assert_allclose(numpy(p)[0], [[10, 14], [14, 20]])


def test_inverse_of_anything_else_is_the_reciprocal():
    assert dr.inverse(2.0) == 0.5
    np.testing.assert_allclose(dr.inverse(Float(2, 4)).numpy(), [0.5, 0.25])
    got = dr.inverse(Array22f([[1, 2], [4, 8]]))
    np.testing.assert_allclose(numpy(got)[0], [[1, 0.5], [0.25, 0.125]])


@pytest.mark.parametrize(
    "cls", [Matrix2f, Matrix2f16, Matrix3f, Matrix4f64, scalar.Matrix2f, scalar.Matrix3f64]
)
def test_singular_matrices_give_infinities_and_nan(cls, tier):
    zero = cls(0)
    assert np.all(numpy(dr.det(zero)) == 0)
    assert np.all(np.isnan(numpy(dr.inverse(zero))))
    q, p = dr.polar_decomp(zero)
    assert np.all(np.isnan(numpy(q)))
    assert not np.any(np.isfinite(numpy(p)))


def test_matrix_of_rank_one_has_no_finite_inverse(tier):
    got = numpy(dr.inverse(Matrix2f([[1, 2], [2, 4]])))
    assert not np.any(np.isfinite(got))


def test_matrices_of_vectors():
    a = Matrix44f(2)
    np.testing.assert_allclose(dr.det(a).numpy(), np.full((4, 1), 16))
    np.testing.assert_allclose(dr.trace(a).numpy(), np.full((4, 1), 8))
    np.testing.assert_allclose(dr.frob(a).numpy(), np.full((4, 1), 16))
    np.testing.assert_allclose(
        dr.inverse(a).numpy(), 0.5 * np.eye(4)[:, :, None, None] * np.ones((4, 1))
    )
    assert type(dr.diag(a)).__name__ == "Array44f"


def test_each_lane_has_its_own_factor(tier):
    """On either side."""
    a, x = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([2.0, -4.0, 0.5])
    m, s = Matrix2f(a), Float(x)
    for found in (m * s, s * m):
        np.testing.assert_array_equal(found.numpy(), a[:, :, None] * x)
    np.testing.assert_array_equal((m / s).numpy(), a[:, :, None] / x)


def test_no_lanes():
    empty = dr.zeros(Matrix3f, 0)
    assert len(dr.det(empty)) == 0
    assert dr.inverse(empty).shape == (3, 3, 0)
    assert dr.polar_decomp(empty)[0].shape == (3, 3, 0)


@pytest.mark.parametrize("name", ["det", "trace", "frob", "polar_decomp"])
@pytest.mark.parametrize("value", [1.0, Float(1), Array3f(1), Array22f(1), TensorXf([[1.0]]), "x"])
def test_other_values_than_matrices_are_refused(name, value):
    with pytest.raises(TypeError, match=rf"dr\.{name}\(\): expected a matrix"):
        getattr(dr, name)(value)


@pytest.mark.parametrize("value", [1.0, Float(1), Array1f(1), Array3i(1), Array22f(1), [1, 2]])
def test_diag_refuses_what_has_no_matrix_type(value):
    with pytest.raises(TypeError, match=r"dr\.diag\(\): expected a matrix, or a vector"):
        dr.diag(value)


def test_inverse_refuses_integers_and_text():
    with pytest.raises(RuntimeError, match="not supported"):
        dr.inverse(dr.llvm.Int(2))
    with pytest.raises(TypeError, match="expected"):
        dr.inverse("x")


def test_polar_decomposition_checks_its_number_of_steps():
    with pytest.raises(TypeError, match="'it' must be an integer"):
        dr.polar_decomp(Matrix3f16(1), "x")
    with pytest.raises(RuntimeError, match="negative"):
        dr.polar_decomp(Matrix2f(1), -1)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_matrices_with_constants_and_of_changing_sizes(n, tier):
    """What is repeated for arrays of data, and what is traced for constants, agree."""
    rng = np.random.default_rng(n)
    cls = getattr(llvm, f"Matrix{n}f64")
    for size in (1, 5, 17):
        values = rng.normal(size=(n, n, size))
        varying, mixed = cls(values), cls(values)
        mixed[0, n - 1] = 1
        full = values.copy()
        full[0, n - 1] = 1
        for m, v in ((varying, values), (mixed, full)):
            stacked = np.moveaxis(v, -1, 0)
            inverse = np.moveaxis(np.linalg.inv(stacked), 0, -1)
            np.testing.assert_allclose(dr.inverse(m), inverse, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(1 / m, inverse, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(dr.det(m), np.linalg.det(stacked), rtol=1e-9, atol=1e-11)
            product = np.moveaxis(stacked @ np.moveaxis(values, -1, 0), 0, -1)
            np.testing.assert_allclose(m @ varying, product, atol=1e-12)
            q, p = dr.polar_decomp(m)
            np.testing.assert_allclose(q @ p, v, atol=1e-9)


@pytest.mark.parametrize(
    "tier", ["numpy", pytest.param("compiled", marks=pytest.mark.sweep)], indirect=True
)
def test_derivatives_of_the_polar_decomposition(tier):
    m = llvm.ad.Matrix3f64([[2, 0.3, 0.1], [0.2, 1, 0.4], [0, 0.5, 3]])
    assert dr.check_grad(lambda m: dr.polar_decomp(m)[0], m)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_matrices_in_loops(n, tier):
    rng = np.random.default_rng(n)
    cls = getattr(llvm, f"Matrix{n}f64")
    values = rng.normal(size=(n, n, 17)) + 3 * np.eye(n)[..., None]

    @dr.syntax
    def halves(m, count):
        total = llvm.Float64(0)
        while count > 0:
            total += dr.det(m)
            m = dr.inverse(m)
            count -= 1
        return m, total

    m, total = halves(cls(values), dr.arange(llvm.Int, 17) % 3)
    stacked = np.moveaxis(values, -1, 0)
    inverse = np.linalg.inv(stacked)
    odd = np.arange(17) % 3 == 1
    want = np.moveaxis(np.where(odd[:, None, None], inverse, stacked), 0, -1)
    np.testing.assert_allclose(m, want, rtol=1e-8, atol=1e-10)
    steps = np.array([0 * total.numpy(), np.linalg.det(stacked), np.linalg.det(inverse)])
    sums = np.cumsum(steps, axis=0)
    np.testing.assert_allclose(total, sums[np.arange(17) % 3, np.arange(17)], rtol=1e-8)
