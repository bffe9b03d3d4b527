"""Jacobian matrices and Hessians, of all entries and lane by lane."""

import numpy as np
import pytest

import drjit as dr
from drjit import llvm
from drjit.llvm.ad import (
    Array2f64,
    Array3f64,
    Float,
    Float16,
    Float64,
    Matrix2f64,
    Matrix3f64,
    TensorXf,
    TensorXf64,
    UInt,
)

MODES = ["reverse", "forward"]
VALUES = np.array([0.5, -1.2, 2.0])


def chain(x):
    """A result of two entries that depend on all three of the argument."""
    y = dr.sin(x) * dr.sum(x * x)
    return dr.gather(Float64, y, UInt(2, 0))


def differences(f, x, h=1e-5):
    """The derivatives of all entries by all entries, (f(x + h) - f(x - h)) / 2h."""
    unit = np.eye(x.size).reshape(x.size, *x.shape)
    rows = [(np.array(f(x + h * e)) - np.array(f(x - h * e))) / (2 * h) for e in unit]
    return np.moveaxis(np.array(rows), 0, -1).reshape(*rows[0].shape, *x.shape)


@pytest.mark.parametrize("mode", MODES)
def test_all_entries_by_all_entries(mode, tier):
    found = dr.jacobian(chain, mode=mode)(Float64(VALUES))
    assert type(found) is TensorXf64 and found.shape == (2, 3)
    wanted = differences(lambda x: chain(Float64(x)), VALUES)
    np.testing.assert_allclose(np.array(found), wanted, atol=1e-8)


@pytest.mark.parametrize("mode", MODES)
def test_tensors_nested_arrays_and_trees(mode):
    a, b = np.random.default_rng(0).normal(size=(2, 2, 3))

    def f(a, b):
        return {"product": dr.sin(a) @ dr.transpose(b), "n": 3}

    by_a, by_b = dr.jacobian(f, (0, 1), mode=mode)(TensorXf64(a), TensorXf64(b))["product"]
    assert by_a.shape == by_b.shape == (2, 2, 2, 3)
    wanted = differences(lambda a: f(TensorXf64(a), TensorXf64(b))["product"], a)
    np.testing.assert_allclose(np.array(by_a), wanted, atol=1e-8)
    wanted = differences(lambda b: f(TensorXf64(a), TensorXf64(b))["product"], b)
    np.testing.assert_allclose(np.array(by_b), wanted, atol=1e-8)

    found = dr.jacobian(lambda v: v * v.x, mode=mode)(Array2f64(a[:, :2]))
    wanted = differences(lambda v: Array2f64(v) * Array2f64(v).x, a[:, :2])
    np.testing.assert_allclose(np.array(found), wanted, atol=1e-8)

    found = dr.jacobian(lambda x: [x[0], x[1] * x[0]], mode=mode)([Float64(2), Float64(3)])
    assert repr(found) == "[[[[1]], [[0]]], [[[3]], [[2]]]]"


@pytest.mark.parametrize("mode", MODES)
def test_lane_by_lane(mode, tier):
    values = np.random.default_rng(0).normal(size=(3, 4))

    def f(p, scale):
        return Array3f64(p.x * p.y, dr.sin(p.z) * scale, p.x + p.z * p.z)

    p = Array3f64(values)
    found = dr.jacobian(f, mode=mode, per_lane=True)(p, 2)
    assert type(found) is Matrix3f64
    for lane in range(4):
        wanted = differences(lambda v: np.array(f(Array3f64(v), 2))[:, 0], values[:, lane])
        np.testing.assert_allclose(np.array(found)[..., lane], wanted, atol=1e-8)
    # A column, a row, and a list of rows.
    by_scale = dr.jacobian(f, 1, mode=mode, per_lane=True)(p, Float64(2))
    np.testing.assert_allclose(
        np.array([c.numpy() for c in by_scale]), [np.zeros(4), np.sin(values[2]), np.zeros(4)]
    )
    row = dr.jacobian(lambda p: p.x * p.y, mode=mode, per_lane=True)(p)
    assert type(row) is Array3f64
    np.testing.assert_allclose(np.array(row), [values[1], values[0], np.zeros(4)])
    rows = dr.jacobian(lambda p: Array2f64(p.x, p.z), mode=mode, per_lane=True)(p)
    assert [type(r) for r in rows] == [Array3f64] * 2


def test_newtons_method_lane_by_lane():
    def f(p):
        return Array2f64(p.x * p.x + p.y - 3, p.x + p.y * p.y - 5)

    p = Array2f64([1, 1.2], [2.5, 1])
    for _ in range(6):
        p -= dr.solve(dr.jacobian(f, per_lane=True)(p), f(p))
    np.testing.assert_allclose(np.array(p), [[1, 1], [2, 2]], atol=1e-12)


def test_second_derivatives(tier):
    def f(x):
        return dr.sum(dr.sin(x) * x) * dr.sum(x)

    found = dr.hessian(f)(Float64(VALUES))
    assert type(found) is TensorXf64
    gradient = dr.jacobian(f)
    wanted = differences(lambda x: np.array(gradient(Float64(x)))[0], VALUES)
    np.testing.assert_allclose(np.array(found), wanted, atol=1e-8)

    (xx, xy), (yx, yy) = dr.hessian(lambda x, y: dr.sum(x * x * y), (0, 1))(
        TensorXf([1, 2]), TensorXf([3, 4])
    )
    assert np.array_equal(xx, [[6, 0], [0, 8]]) and not np.array(yy).any()
    assert np.array_equal(xy, [[2, 0], [0, 4]]) and np.array_equal(yx, xy)


def test_second_derivatives_lane_by_lane():
    values = np.random.default_rng(0).normal(size=(2, 3))
    found = dr.hessian(lambda p: dr.exp(p.x) * p.y * p.y, per_lane=True)(Array2f64(values))
    assert type(found) is Matrix2f64
    x, y = np.exp(values[0]), values[1]
    np.testing.assert_allclose(np.array(found), [[x * y * y, 2 * x * y], [2 * x * y, 2 * x]])
    assert repr(dr.hessian(lambda x: x * x * x, per_lane=True)(Float(1, 2))) == "[6, 12]"
    assert repr(dr.hessian(lambda x: x, per_lane=True)(Float(1, 2))) == "[0, 0]"


def test_results_without_a_dependence_have_derivatives_0():
    for mode in MODES:
        x, y, constant = dr.jacobian(lambda x: (x, 2 * x, Float(3)), mode=mode)(Float(1))
        assert (float(x[0, 0]), float(y[0, 0]), float(constant[0, 0])) == (1, 2, 0)


def test_the_program_around_it_is_left_alone():
    scale = Float(3)
    dr.enable_grad(scale)
    x = Float(2)
    dr.enable_grad(x)
    y = x * x
    for _ in range(2):
        assert repr(dr.jacobian(lambda x: x * scale)(x)) == "[[3]]"
        assert repr(dr.hessian(lambda x: x * x * scale)(x)) == "[[6]]"
    with dr.suspend_grad():
        assert repr(dr.jacobian(lambda x: x * scale)(x)) == "[[3]]"
        assert repr(dr.hessian(lambda x: x * x * scale)(x)) == "[[6]]"
    assert scale.grad[0] == x.grad[0] == 0
    dr.backward(y)
    assert x.grad[0] == 4


def test_in_loops_and_frozen_functions():
    @dr.syntax
    def root(p):
        i = UInt(0)
        while i < 8:
            step = dr.solve(dr.jacobian(square, per_lane=True)(p), square(p))
            p = Array2f64(p - step)
            i += 1
        return p

    def square(p):
        return Array2f64(p.x * p.x - 2, p.y * p.y * p.y - p.x)

    found = np.array(root(Array2f64([1, 2, 3], 2)))
    np.testing.assert_allclose(found, [[2**0.5] * 3, [2 ** (1 / 6)] * 3], atol=1e-12)
    frozen = dr.freeze(lambda x: dr.jacobian(chain)(x))
    for values in (VALUES, VALUES + 1):
        wanted = differences(lambda x: chain(Float64(x)), values)
        np.testing.assert_allclose(np.array(frozen(Float64(values))), wanted, atol=1e-8)


def test_half_precision():
    assert repr(dr.hessian(lambda x: x * x * x)(Float16(2))) == "[[12]]"


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: dr.jacobian(abs)(3), TypeError, "argument 0, of type int, has no array of float"),
        (lambda: dr.jacobian(abs)(llvm.Float(3)), TypeError, "argument 0, of type drjit.llvm.Fl"),
        (lambda: dr.jacobian(lambda x: 3)(Float(1)), TypeError, "the result, of type int, has no"),
        (lambda: dr.jacobian(abs, 1)(Float(1)), ValueError, "'argnums' is 1, but there are 1 arg"),
        (lambda: dr.jacobian(abs, mode="x"), RuntimeError, "must be 'reverse' or 'forward', not"),
        (lambda: dr.jacobian(dr.sum, per_lane=True)(Float(1, 2)), RuntimeError,
         "a result has as many lanes as the arguments, 2, but there is one of 1"),
        (lambda: dr.jacobian(abs, per_lane=True)(TensorXf([1])), TypeError, "is a tensor, which"),
        (lambda: dr.jacobian(abs)(dr.zeros(Float, 20000)), RuntimeError,
         "there are 20000 times 20000 derivatives"),
        (lambda: dr.hessian(abs)(Float(1, 2)), TypeError, r"must be one number, but has the shap"),
    ],
)  # fmt: skip
def test_mistakes_are_explained(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
