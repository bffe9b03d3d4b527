"""Decompositions of small matrices against NumPy, and their derivatives against differences."""

import numpy as np
import pytest

import drjit as dr
from drjit import ADFlag, llvm, scalar
from drjit.llvm import Array2f, Array3f, Array3f64, Float, Matrix2f, Matrix3f, Matrix44f, ad
from drjit.llvm.ad import Matrix2f64, Matrix3f64, Matrix4f64

TYPES = [
    (space, n, suffix)
    for space in ("scalar", "llvm", "llvm.ad")
    for n in (2, 3, 4)
    for suffix in ("f16", "f", "f64")
]
SPACES = {"scalar": scalar, "llvm": llvm, "llvm.ad": ad}
TOLERANCE = {"f16": 3e-3, "f": 2e-6, "f64": 1e-14}
DOUBLE = {2: Matrix2f64, 3: Matrix3f64, 4: Matrix4f64}


def matrices(n, suffix):
    """Matrices of all kinds: random, of small integers, singular, zero, with equal eigenvalues,
    very large and very small."""
    rng = np.random.default_rng(n)
    special = [np.arange(n * n).reshape(n, n), np.zeros((n, n)), np.eye(n), np.ones((n, n))]
    special += [np.diag([1, 1e-6, 2, 3][:n]), np.outer(range(n), range(n)), np.eye(n)[::-1]]
    if suffix != "f16":
        special += [k * rng.normal(size=(n, n)) for k in (1e30, 1e-30)]
    whole = rng.integers(-1, 2, size=(40, n, n))
    return np.concatenate([rng.normal(size=(40, n, n)), special, whole])


def make(space, n, suffix, values):
    cls = getattr(SPACES[space], f"Matrix{n}{suffix}")
    return cls(values[0].tolist()) if space == "scalar" else cls(np.moveaxis(values, 0, -1))


def numpy(value):
    """The entries with the lanes first."""
    a = np.asarray(value, np.float64)
    return np.moveaxis(a, -1, 0) if value.__meta__.is_jit else a[None]


def close(found, wanted, suffix, scale=1.0):
    error = np.abs(found - wanted).reshape(len(found), -1).max(1) / scale
    assert error.max() < TOLERANCE[suffix]


@pytest.mark.parametrize(("space", "n", "suffix"), TYPES)
def test_eigenvalues_agree_with_numpy(space, n, suffix, tier):
    m = make(space, n, suffix, matrices(n, suffix))
    a = numpy(m)
    scale = np.abs(a).max((1, 2)) + (a == 0).all((1, 2))
    w, v = dr.eigh(m)
    assert type(v) is type(m) and w._dtype is m._dtype
    w, v, symmetric = numpy(w), numpy(v), (a + a.swapaxes(1, 2)) / 2
    close(w, np.linalg.eigvalsh(symmetric), suffix, scale)
    close(v @ v.swapaxes(1, 2), np.eye(n), suffix)
    close((v * w[:, None]) @ v.swapaxes(1, 2), symmetric, suffix, scale)


@pytest.mark.parametrize(("space", "n", "suffix"), TYPES)
def test_singular_values_agree_with_numpy(space, n, suffix, tier):
    m = make(space, n, suffix, matrices(n, suffix))
    a = numpy(m)
    scale = np.abs(a).max((1, 2)) + (a == 0).all((1, 2))
    u, s, vt = map(numpy, dr.svd(m))
    close(s, np.linalg.svd(a)[1], suffix, scale)
    for q in (u, vt):
        close(q @ q.swapaxes(1, 2), np.eye(n), suffix)
    close((u * s[:, None]) @ vt, a, suffix, scale)


@pytest.mark.parametrize(("space", "n", "suffix"), TYPES)
def test_equations_and_triangular_factors_agree_with_numpy(space, n, suffix, tier):
    rng = np.random.default_rng(n)
    q = np.linalg.qr(rng.normal(size=(20, n, n)))[0]
    m = make(space, n, suffix, q * rng.uniform(0.5, 2, (20, 1, n)) @ np.roll(q, 1, 0))
    a = numpy(m)
    b = type(dr.diag(m))(*rng.normal(size=n))
    tolerance = {"rtol": 20 * TOLERANCE[suffix], "atol": 20 * TOLERANCE[suffix]}
    x = dr.solve(m, b)
    assert type(x) is type(b)
    wanted = np.linalg.solve(a, np.broadcast_to(numpy(b), (len(a), n))[..., None])[..., 0]
    np.testing.assert_allclose(numpy(x), wanted, **tolerance)
    found = dr.solve(m, m @ m)
    assert type(found) is type(m)
    np.testing.assert_allclose(numpy(found), a, **tolerance)
    positive = m @ dr.transpose(m)
    lower = dr.cholesky(positive)
    assert type(lower) is type(m)
    np.testing.assert_allclose(numpy(lower), np.linalg.cholesky(a @ a.swapaxes(1, 2)), **tolerance)


def test_pivots_are_chosen_lane_by_lane():
    a = Matrix2f([[0, 1e-9], 2], [[1, 1], 1])
    np.testing.assert_allclose(np.array(dr.solve(a, Array2f(2, 1))), [[0, 0], [1, 1]], atol=1e-7)


def test_matrices_of_arrays_are_decomposed_entry_by_entry():
    values = np.random.default_rng(1).normal(size=(4, 4, 4, 3))
    u, s, vt = map(np.array, dr.svd(Matrix44f(values)))
    found = np.einsum("ijab,jab,jkab->ikab", u, s, vt)
    np.testing.assert_allclose(found, values, atol=1e-5)
    w, v = map(np.array, dr.eigh(Matrix44f(values)))
    found = np.einsum("ijab,jab,kjab->ikab", v, w, v)
    np.testing.assert_allclose(found, (values + values.swapaxes(0, 1)) / 2, atol=1e-5)


def test_what_cannot_be_decomposed_is_no_number():
    assert np.isnan(dr.cholesky(Matrix2f([[1, 2], [2, 1]]))[1, 1].numpy()).all()
    assert not np.isfinite(np.array(dr.solve(Matrix2f(1, 2, 2, 4), Array2f(1, 0)))).any()
    for f in (dr.eigh, dr.svd):
        found = f(Matrix3f(1, dr.nan, 0, 0, 1, 0, 0, 0, 1))
        assert np.isnan(np.array(found[0] if f is dr.eigh else found[1])).any()


def entries(m):
    """What does not depend on signs of vectors."""
    return [c * c * (1 + 0.3 * i) for i, row in enumerate(m) for c in row]


@pytest.fixture
def uncompiled(monkeypatch):
    """NumPy runs kernels of thousands of statements sooner than they are compiled."""
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")


def eigenvalues_and_vectors(w, v):
    return [*entries(v), *w]


def parts(u, s, v):
    return [*entries(u), *entries(v), *s]


def rotation(u, _, v):
    return entries(u @ v)


FUNCTIONS = {
    "cholesky": lambda m: entries(dr.cholesky(m @ m.T + type(m)(0.5))),
    "solve": lambda m: entries(dr.solve(m, m.T)),
    "solve for a vector": lambda m: [c * c for c in dr.solve(m, m[0] * m[1])],
    "eigh": lambda m: eigenvalues_and_vectors(*dr.eigh(m)),
    "svd": lambda m: parts(*dr.svd(m)),
    "rotation": lambda m: rotation(*dr.svd(m)),
}


@pytest.mark.parametrize(
    ("n", "name"), [(n, f) for f in FUNCTIONS for n in (2, 3, 4) if (n, f) != (4, "rotation")]
)
@pytest.mark.usefixtures("uncompiled")
def test_derivatives(n, name):
    values = np.random.default_rng(n).normal(size=(n, n, 1 if n == 4 else 2))
    assert dr.check_grad(FUNCTIONS[name], DOUBLE[n](values))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("n", [2, 3])
def test_second_derivatives(n, name):
    cls = DOUBLE[n]
    rng = np.random.default_rng(n)
    values, direction = rng.normal(size=(2, n, n, 2))

    def gradient(values, flags=ADFlag.Default):
        m = cls(values)
        dr.enable_grad(m)
        dr.backward(dr.sum([c * c * c for c in FUNCTIONS[name](m)], axis=None), flags=flags)
        return m, dr.grad(m)

    ends = [np.array(gradient(values + h * direction)[1]) for h in (1e-5, -1e-5)]
    m, g = gradient(values, ADFlag.Default | ADFlag.KeepGraph)
    dr.clear_grad(m)
    dr.backward(dr.sum(dr.sum(g.Array(g) * g.Array(cls(direction))), axis=None))
    wanted = (ends[0] - ends[1]) / 2e-5
    np.testing.assert_allclose(np.array(dr.grad(m)), wanted, atol=1e-6 * np.abs(wanted).max())
    dr.clear_grad(m)


def test_gradients_where_values_are_equal_are_finite():
    def gradient(m, f):
        dr.enable_grad(m)
        dr.backward(f(m))
        return np.array(m.grad)[..., 0]

    unit = np.eye(3)
    np.testing.assert_allclose(
        gradient(Matrix3f64(2), lambda m: dr.sum(dr.eigh(m)[0]) + dr.eigh(m)[1][0, 1]), unit
    )
    np.testing.assert_allclose(
        gradient(Matrix3f64(2), lambda m: (dr.svd(m)[0] @ dr.svd(m)[2])[0, 1]),
        [[0, 0.25, 0], [-0.25, 0, 0], [0, 0, 0]],
    )
    found = gradient(Matrix3f64(0), lambda m: dr.sum(dr.svd(m)[1]) + dr.svd(m)[0][0, 1])
    np.testing.assert_allclose(found, unit)


def test_a_result_is_traversed_several_times():
    m = Matrix2f64(1, 2, 3, 4)
    dr.enable_grad(m)
    w, v = dr.eigh(m)
    total = np.zeros((2, 2))
    for i in range(2):
        dr.backward(w[i], flags=ADFlag.ClearVertices)
        column = np.array([v[0, i][0], v[1, i][0]])
        total += np.outer(column, column)
        np.testing.assert_allclose(np.array(m.grad)[..., 0], total, atol=1e-12)


def test_derivatives_are_symmetric_and_values_do_not_depend_on_them():
    values = np.random.default_rng(3).normal(size=(3, 3, 5))
    m = ad.Matrix3f(values)
    before = [np.array(x) for x in (*dr.eigh(m), *dr.svd(m), dr.cholesky(m @ m.T))]
    dr.enable_grad(m)
    after = (*dr.eigh(m), *dr.svd(m), dr.cholesky(m @ m.T))
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(np.array(b), a, rtol=1e-6, atol=1e-6)
    dr.backward(dr.eigh(m)[0].x)
    np.testing.assert_allclose(np.array(m.grad), np.array(m.grad).swapaxes(0, 1), atol=1e-7)


def test_in_loops_and_frozen_functions():
    @dr.syntax
    def repeated(m):
        i = ad.UInt(0)
        total = ad.Float64(0)
        while i < 2:
            w, _ = dr.eigh(m)
            total += w.x * w.x
            m = m @ m
            i += 1
        return total

    values = np.random.default_rng(4).normal(size=(3, 3, 4))
    values += values.swapaxes(0, 1)
    squares = np.einsum("ija,jka->ika", values, values)
    lowest = [np.linalg.eigvalsh(np.moveaxis(m, -1, 0))[:, 0] for m in (values, squares)]
    np.testing.assert_allclose(
        repeated(Matrix3f64(values)).numpy(), lowest[0] ** 2 + lowest[1] ** 2, 1e-10
    )
    assert dr.check_grad(repeated, Matrix3f64(values))

    frozen = dr.freeze(lambda m, b: (dr.svd(m)[1], dr.solve(m, b)))
    for count in (3, 3, 5):
        values = np.random.default_rng(count).normal(size=(3, 3, count))
        s, x = frozen(Matrix3f(values), Array3f(1, 2, 3))
        lanes = np.moveaxis(values, -1, 0)
        np.testing.assert_allclose(numpy(s), np.linalg.svd(lanes)[1], atol=1e-5)
        np.testing.assert_allclose(numpy(Matrix3f(values) @ x), [[1, 2, 3]] * count, atol=1e-4)


@pytest.mark.parametrize("f", [dr.cholesky, dr.eigh, dr.svd])
def test_other_values_are_rejected(f):
    for value in (Float(1), Array3f(1), 3, "x"):
        with pytest.raises(TypeError, match=rf"dr\.{f.__name__}\(\): expected a matrix such as"):
            f(value)


@pytest.mark.parametrize("b", [Array2f(1), Float(1), Array3f64(1), Matrix2f(1), 3], ids=str)
def test_other_sides_are_rejected(b):
    with pytest.raises(TypeError, match=r"expected a vector or matrix of 3 rows that goes with"):
        dr.solve(Matrix3f(1), b)
