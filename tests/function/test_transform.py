"""Rotations against scipy.spatial.transform.Rotation, spherical harmonics against SciPy."""

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp
from scipy.special import sph_harm_y

import drjit as dr
from drjit import scalar
from drjit.llvm import (
    Array2f,
    Array3b,
    Array3f,
    Array3f64,
    Array3i,
    Array4f,
    Float,
    Matrix2f,
    Matrix3f,
    Matrix3f64,
    Matrix4f,
    Quaternion4f,
    Quaternion4f64,
    TensorXf,
    ad,
)

SPACES = {"scalar": scalar, "llvm": dr.llvm, "llvm.ad": ad}
TYPES = [(space, suffix) for space in SPACES for suffix in ("f16", "f", "f64")]
TOLERANCE = {"f16": 5e-3, "f": 2e-6, "f64": 1e-14}

ROTATIONS = Rotation.concatenate(
    [
        Rotation.random(6, random_state=0),
        Rotation.from_rotvec([[0, 0, 0], [math.pi, 0, 0], [0, math.pi, 0], [0, 0, math.pi]]),
    ]
)


def array(space, suffix, kind, values):
    """One array for rows of components; in `drjit.scalar` a list of arrays."""
    cls = getattr(SPACES[space], kind + suffix)
    if space == "scalar":
        return [cls(*v) for v in values.tolist()]
    return [cls(*np.ascontiguousarray(values.T))]


def rows(arrays):
    """The rows of components of arrays."""
    found = []
    for a in arrays:
        values = np.asarray(a.numpy(), np.float64)
        found.append(np.moveaxis(values, -1, 0) if a.__meta__.is_jit else values[None])
    return np.concatenate(found)


def same_rotation(got, want, tolerance):
    """Compares quaternions up to their sign."""
    sign = np.sign(np.sum(got * want, 1, keepdims=True))
    np.testing.assert_allclose(got * sign, want, atol=tolerance)


@pytest.mark.parametrize(("space", "suffix"), TYPES)
def test_conversions_agree_with_scipy(space, suffix, tier):
    tolerance = TOLERANCE[suffix]
    quats = array(space, suffix, "Quaternion4", ROTATIONS.as_quat())
    small, large = (getattr(SPACES[space], f"Matrix{n}{suffix}") for n in (3, 4))
    matrices = [dr.quat_to_matrix(small, q) for q in quats]
    np.testing.assert_allclose(rows(matrices), ROTATIONS.as_matrix(), atol=2 * tolerance)
    same_rotation(rows([dr.matrix_to_quat(m) for m in matrices]), ROTATIONS.as_quat(), tolerance)
    affine = [dr.quat_to_matrix(large, q) for q in quats]
    want = np.tile(np.eye(4), (len(ROTATIONS), 1, 1))
    want[:, :3, :3] = ROTATIONS.as_matrix()
    np.testing.assert_allclose(rows(affine), want, atol=2 * tolerance)
    same_rotation(rows([dr.matrix_to_quat(m) for m in affine]), ROTATIONS.as_quat(), tolerance)


@pytest.mark.parametrize(("space", "suffix"), TYPES)
def test_euler_angles_agree_with_scipy(space, suffix, tier):
    tolerance = 8 * TOLERANCE[suffix]
    angles = np.random.default_rng(1).uniform(-1.4, 1.4, (8, 3)) * [2, 1, 2]
    want = Rotation.from_euler("xyz", angles).as_quat()
    quats = [dr.euler_to_quat(a) for a in array(space, suffix, "Array3", angles)]
    same_rotation(rows(quats), want, tolerance)
    np.testing.assert_allclose(
        rows([dr.quat_to_euler(q) for q in quats]), angles, atol=2 * tolerance
    )


def test_angles_may_be_integers() -> None:
    assert type(dr.euler_to_quat(Array3i(1, 2, 3))) is Quaternion4f
    expected = dr.euler_to_quat(Array3f(1, 2, 3)).numpy()
    np.testing.assert_array_equal(dr.euler_to_quat(Array3i(1, 2, 3)).numpy(), expected)
    expected = dr.rotate(Quaternion4f, Array3f(0, 0, 1), 0.5).numpy()
    np.testing.assert_array_equal(dr.rotate(Quaternion4f, Array3i(0, 0, 1), 0.5).numpy(), expected)


@pytest.mark.parametrize("pitch", [math.pi / 2, -math.pi / 2, 1.57079, 1.5707, 1.57, 1.5, -1.5705])
@pytest.mark.parametrize("cls", [Array3f, Array3f64])
def test_euler_angles_near_the_poles_give_the_same_rotation(pitch, cls, tier):
    angles = np.array([0.3, pitch, 0.2])
    found = dr.quat_to_euler(dr.euler_to_quat(cls(*angles))).numpy()[:, 0]
    got, want = Rotation.from_euler("xyz", found), Rotation.from_euler("xyz", angles)
    assert (got * want.inv()).magnitude() < 1e-3
    assert found[1] == pytest.approx(pitch, abs=1e-6)
    if abs(abs(pitch) - math.pi / 2) < 3.2e-4:
        assert found[2] == 0
    else:
        np.testing.assert_allclose(found, angles, atol=1e-3)


def test_euler_angles_are_in_range(tier):
    half = Rotation.from_euler("xyz", [[3.1, 0.2, 3.1], [-3.1, 0.2, 3.0], [3.0, -1.5707963, -3.0]])
    found = dr.quat_to_euler(Quaternion4f64(*half.as_quat().T)).numpy()
    assert np.all(abs(found[[0, 2]]) <= math.pi)
    again = Rotation.from_euler("xyz", found.T)
    assert np.all((again * half.inv()).magnitude() < 1e-3)


def test_euler_angles_of_double_precision_have_all_digits(tier):
    rotations = Rotation.random(64, random_state=3)
    found = dr.quat_to_euler(Quaternion4f64(*np.ascontiguousarray(rotations.as_quat().T)))
    np.testing.assert_allclose(found.numpy().T, rotations.as_euler("xyz"), atol=1e-13)


@pytest.mark.parametrize("suffix", ["f16", "f", "f64"])
def test_components_have_the_element_type_of_the_array(suffix):
    q = getattr(dr.llvm, "Quaternion4" + suffix)(0, 0, 0.6, -0.8)
    vector = getattr(dr.llvm, "Array3" + suffix)(0.6, 0, 0.8)
    matrix = getattr(dr.llvm, "Matrix4" + suffix)(1)
    found = [
        dr.slerp(q, -q, 0.5), dr.quat_to_euler(q), dr.euler_to_quat(vector), dr.log(q),
        dr.quat_apply(q, vector), dr.rotate(type(q), vector, 0.5), dr.sphdir(q.x, 1.0),
        dr.matrix_to_quat(matrix), *dr.transform_decompose(matrix)[1:], dr.arg(vector),
    ]  # fmt: skip
    for array in found:
        assert {type(c) for c in array} == {q.Value}, type(array)


@pytest.mark.parametrize(("space", "suffix"), TYPES)
def test_rotating_vectors(space, suffix, tier):
    rng = np.random.default_rng(2)
    axes = rng.normal(size=(6, 3))
    axes /= np.linalg.norm(axes, axis=1, keepdims=True)
    angles, vectors = rng.uniform(-6, 6, 6), rng.normal(size=(6, 3))
    cls = getattr(SPACES[space], "Quaternion4" + suffix)
    axis = array(space, suffix, "Array3", axes)
    if space == "scalar":
        quats = [dr.rotate(cls, a, t) for a, t in zip(axis, angles.tolist(), strict=True)]
    else:
        quats = [dr.rotate(cls, axis[0], cls.Value(angles))]
    want = Rotation.from_rotvec(axes * angles[:, None])
    same_rotation(rows(quats), want.as_quat(), 2 * TOLERANCE[suffix])
    pairs = zip(quats, array(space, suffix, "Array3", vectors), strict=True)
    got = rows([dr.quat_apply(q, v) for q, v in pairs])
    np.testing.assert_allclose(got, want.apply(vectors), atol=8 * TOLERANCE[suffix])


@pytest.mark.parametrize(("space", "suffix"), TYPES)
def test_slerp_agrees_with_scipy(space, suffix, tier):
    ends = Rotation.random(2, random_state=3).as_quat()
    a, b = (array(space, suffix, "Quaternion4", q[None])[0] for q in ends)
    times = [0.0, 0.1, 0.5, 0.9, 1.0]
    want = Slerp([0, 1], Rotation.from_quat(ends))(times).as_quat()
    for other in (b, -b):
        same_rotation(rows([dr.slerp(a, other, t) for t in times]), want, 3 * TOLERANCE[suffix])


def test_slerp_of_nearly_the_same_rotation(tier):
    for angle in (0.0, 1e-12, 1e-7, 1e-3):
        b = dr.rotate(Quaternion4f64, Array3f64(1, 0, 0), 2 * angle)
        got = dr.slerp(Quaternion4f64(0, 0, 0, 1), b, 0.25).numpy()[:, 0]
        np.testing.assert_allclose(got, [math.sin(angle / 4), 0, 0, math.cos(angle / 4)], rtol=1e-9)


def test_slerp_takes_a_number_per_lane():
    got = dr.slerp(Quaternion4f(0, 0, 0, 1), Quaternion4f(1, 0, 0, 0), Float(0, 0.5, 1)).numpy()
    h = math.sqrt(0.5)
    np.testing.assert_allclose(got, [[0, h, 1], [0, 0, 0], [0, 0, 0], [1, h, 0]], atol=1e-6)


def test_quaternions_that_are_not_normalised():
    q = Quaternion4f64(0, 0, 1, 1)
    np.testing.assert_allclose(dr.quat_apply(q, Array3f64(1, 2, 3)).numpy()[:, 0], [-4, 2, 6])
    got = dr.matrix_to_quat(Matrix3f64(2)).numpy()[:, 0]
    np.testing.assert_allclose(got, [0, 0, 0, math.sqrt(7) / 2])


# ---- Transformations


@pytest.mark.parametrize(("space", "suffix"), TYPES)
@pytest.mark.parametrize("mirror", [False, True])
def test_composition_and_decomposition(space, suffix, mirror, tier):
    rotation = Rotation.random(random_state=4)
    axes = Rotation.random(random_state=5).as_matrix()
    stretch = axes @ np.diag([0.5, 1.0, 2.0]) @ axes.T * (-1 if mirror else 1)
    want = np.eye(4)
    want[:3, :3] = rotation.as_matrix() @ stretch
    want[:3, 3] = [5, -6, 7]
    cls = getattr(SPACES[space], "Matrix4" + suffix)
    m = cls(want.tolist())
    s, q, t = dr.transform_decompose(m)
    tolerance = 10 * TOLERANCE[suffix]
    np.testing.assert_allclose(rows([s])[0], stretch, atol=tolerance)
    same_rotation(rows([q]), rotation.as_quat()[None], tolerance)
    np.testing.assert_allclose(rows([t])[0], [5, -6, 7], atol=tolerance)
    again = dr.transform_compose(s, q, t)
    assert type(again) is cls
    np.testing.assert_allclose(rows([again])[0], want, atol=tolerance)


def test_composition_takes_a_list():
    got = dr.transform_compose(Matrix3f(2), Quaternion4f(0, 0, 0, 1), [1, 2, 3])
    np.testing.assert_allclose(
        rows([got])[0], [[2, 0, 0, 1], [0, 2, 0, 2], [0, 0, 2, 3], [0, 0, 0, 1]]
    )


def test_singular_transformations_give_nan():
    s, q, t = dr.transform_decompose(Matrix4f(0))
    assert np.all(np.isnan(s.numpy()))
    assert np.all(np.isnan(q.numpy()))
    np.testing.assert_array_equal(t.numpy(), np.zeros((3, 1)))


def test_no_lanes():
    empty = dr.zeros(Quaternion4f, 0)
    assert dr.quat_to_matrix(Matrix3f, empty).shape == (3, 3, 0)
    assert dr.matrix_to_quat(dr.zeros(Matrix3f, 0)).shape == (4, 0)
    assert dr.quat_to_euler(empty).shape == (3, 0)
    assert dr.slerp(empty, empty, 0.5).shape == (4, 0)


Q = Quaternion4f(0, 0, 0, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dr.quat_to_matrix(Matrix2f, Q), "'dtype' must be"),
        (lambda: dr.quat_to_matrix(Matrix3f64, Q), "'dtype' must be"),
        (lambda: dr.quat_to_matrix(Matrix3f, Array4f(1)), "expected a quaternion"),
        (lambda: dr.matrix_to_quat(Matrix2f(1)), "expected a matrix with 3 or 4 rows"),
        (lambda: dr.matrix_to_quat(Q), "expected a matrix"),
        (lambda: dr.quat_to_euler(Float(1)), "expected a quaternion"),
        (lambda: dr.euler_to_quat(Array2f(1)), "expected a vector of 3"),
        (lambda: dr.euler_to_quat(Array3b(True)), "expected three angles"),
        (lambda: dr.euler_to_quat([1, 2]), "expected three angles"),
        (lambda: dr.slerp(Q, Float(1), 0.5), "expected a quaternion"),
        (lambda: dr.slerp(Q, Q, Array3f(1)), "'t' must be"),
        (lambda: dr.slerp(Q, Q, "x"), "'t' must be"),
        (lambda: dr.rotate(Matrix3f, Array3f(1), 1), "'dtype' must be a quaternion"),
        (lambda: dr.rotate(Quaternion4f, Array3f64(1), 1), "'axis' must be"),
        (lambda: dr.rotate(Quaternion4f, [1, 2], 1), "expected a vector of 3"),
        (lambda: dr.rotate(Quaternion4f, Array3f(1), Array3f(1)), "'angle' must be"),
        (lambda: dr.quat_apply(Q, Array2f(1)), "expected a vector of 3"),
        (lambda: dr.quat_apply(Array3f(1), Q), "expected a quaternion"),
        (lambda: dr.transform_decompose(Matrix3f(1)), "expected a matrix with 4 rows"),
        (lambda: dr.transform_decompose(Float(1)), "expected a matrix"),
        (lambda: dr.transform_compose(Matrix4f(1), Q, Array3f(1)), "scaling matrix with 3 rows"),
        (lambda: dr.transform_compose(Matrix3f64(1), Q, Array3f(1)), "differ in element type"),
        (lambda: dr.transform_compose(Matrix3f(1), Q, Array2f(1)), "expected a vector of 3"),
        (lambda: dr.sh_eval(Array2f(1), 1), "three components"),
        (lambda: dr.sh_eval(Float(1, 2, 3), 1), "three components"),
        (lambda: dr.sh_eval(Array3i(1), 1), "floating-point"),
        (lambda: dr.sh_eval(["a", 1, 2], 1), "floating-point"),
        (lambda: dr.sh_eval(Array3f(1), 1.0), "'order' must be an integer"),
    ],
)
def test_wrong_types_are_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call()


# ---- Spherical harmonics


def harmonics(d, order):
    theta, phi = np.arccos(d[2]), np.arctan2(d[1], d[0])
    found = []
    for degree in range(order + 1):
        for m in range(-degree, degree + 1):
            y = sph_harm_y(degree, abs(m), theta, phi)
            found.append(y.real if m == 0 else math.sqrt(2) * (y.real if m > 0 else y.imag))
    return found


@pytest.mark.parametrize(("space", "suffix"), TYPES)
def test_spherical_harmonics_agree_with_scipy(space, suffix, tier):
    rng = np.random.default_rng(6)
    d = rng.normal(size=(5, 3))
    d[0] = [0, 0, 1]
    d /= np.linalg.norm(d, axis=1, keepdims=True)
    order = 2 if suffix == "f16" else 10
    for a in array(space, suffix, "Array3", d):
        got = dr.sh_eval(a, order)
        dr.eval(got)
        assert len(got) == (order + 1) ** 2
        values = np.asarray(a.numpy(), np.float64)
        want = harmonics(values / np.linalg.norm(values, axis=0), order)
        for u, v in zip(got, want, strict=True):  # the first is one number for all lanes
            atol = 100 * TOLERANCE[suffix] if suffix != "f16" else 5e-3
            found = u if space == "scalar" else np.broadcast_to(u.numpy(), v.shape)
            np.testing.assert_allclose(found, v, atol=atol)


def test_spherical_harmonics_of_sequences_and_tensors():
    d = [0.6, 0.0, 0.8]
    want = harmonics(np.array(d), 2)
    np.testing.assert_allclose(dr.sh_eval(d, 2), want, atol=1e-15)
    got = dr.sh_eval(TensorXf(d), 2)
    np.testing.assert_allclose([v.numpy() for v in got], want, atol=1e-6)
    assert [type(v) for v in dr.sh_eval(Array3f(*d), 0)] == [Float]


def test_the_order_must_not_be_negative():
    with pytest.raises(RuntimeError, match="negative"):
        dr.sh_eval(Array3f(0, 0, 1), -1)


@pytest.mark.parametrize("name", ["sh_eval", "exp", "exp2", "sqrt", "rsqrt", "log"])
def test_forward_derivatives_reach_every_part_of_a_result(name):
    def parts(*values):
        if name == "sh_eval":
            return dr.sh_eval(ad.Array3f64(*values[:3]), 4)[1:]
        return list(getattr(dr, name)(ad.Quaternion4f64(*values)))

    point, step = [ad.Float64(v) for v in (0.1, 0.2, 0.3, 0.4)], 1e-6
    dr.enable_grad(point)
    found = parts(*point)
    dr.set_grad(point, [1, 1, 1, 1])
    dr.enqueue(dr.ADMode.Forward, point)
    dr.traverse(dr.ADMode.Forward)
    ends = [parts(*[dr.detach(p) + h for p in point]) for h in (step, -step)]
    for part, high, low in zip(found, *ends, strict=True):
        want = (high[0] - low[0]) / (2 * step)
        assert dr.grad(part)[0] == pytest.approx(want, rel=1e-6, abs=1e-8)
