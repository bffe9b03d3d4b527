"""Derivatives of derivatives: Hessian-vector products in three ways against finite differences of
gradients."""

import itertools

import numpy as np
import pytest
from helpers import growth, living_variables
from test_ad_lanes import FUNCTIONS, X
from test_ad_rules import points

import drjit as dr
from drjit import ADFlag
from drjit.ad.rules import RULES
from drjit.array import leaf, pytree
from drjit.llvm.ad import Array2f64, Float, Float64, UInt

KEEP = ADFlag.Default | ADFlag.KeepGraph


def loss(f, xs):
    """A number with a Hessian that is not constant, from all entries of a result."""
    total = Float64(0)
    for k, a in enumerate(pytree.leaf_arrays(f(*xs))):
        weight = Float64(1 + 0.5 * np.cos(np.arange(len(a)) + k))
        total += dr.sum(a * weight) + 0.1 * dr.sum(a * a)
    return total


def gradient(f, points):
    xs = [Float64(p) for p in points]
    dr.enable_grad(xs)
    dr.backward(loss(f, xs))
    found = dr.grad(xs)
    dr.eval(found)
    return [g.numpy() for g in found]


def expected(f, points, directions, h=1e-5):
    """The difference, which NumPy computes: kernels that only serve it are not compiled."""
    ends = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
        for step in (h, -h):
            moved = [p + step * v for p, v in zip(points, directions, strict=True)]
            ends.append(gradient(f, moved))
    return [(a - b) / (2 * h) for a, b in zip(*ends, strict=True)]


def reverse_over_forward(f, xs, vs):
    y = loss(f, xs)
    dr.set_grad(xs, vs)
    dr.enqueue(dr.ADMode.Forward, xs)
    dr.traverse(dr.ADMode.Forward, KEEP)
    dr.clear_grad(xs)
    dr.backward(dr.grad(y))
    return dr.grad(xs)


def forward_over_reverse(f, xs, vs):
    dr.backward(loss(f, xs), flags=KEEP)
    gs = dr.grad(xs)
    dr.set_grad(xs, vs)
    dr.enqueue(dr.ADMode.Forward, xs)
    dr.traverse(dr.ADMode.Forward)
    return dr.grad(gs)


def reverse_over_reverse(f, xs, vs):
    dr.backward(loss(f, xs), flags=KEEP)
    product = sum(dr.dot(g, v) for g, v in zip(dr.grad(xs), vs, strict=True))
    dr.clear_grad(xs)
    dr.backward(product)
    return dr.grad(xs)


WAYS = [reverse_over_forward, forward_over_reverse, reverse_over_reverse]


def check(f, points, h=1e-5):
    points = [np.array(p, float) for p in points]
    directions = [np.cos(3 * np.arange(p.size) + k) for k, p in enumerate(points)]
    wanted = expected(f, points, directions, h)
    for way in WAYS:
        xs = [Float64(p) for p in points]
        dr.enable_grad(xs)
        found = way(f, xs, [Float64(v) for v in directions])
        dr.eval(found)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b, rtol=2e-6, atol=2e-6, err_msg=way.__name__)


@pytest.mark.parametrize("op_", RULES, ids=str)
def test_operations(op_):
    operands = points(op_)
    masks = [a for a in operands if type(a) is not Float64]
    check(
        lambda *xs: leaf.apply(op_, *masks, *xs),
        [a.numpy() for a in operands if type(a) is Float64],
    )


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n != "half precision"])
def test_lanes(name):
    check(FUNCTIONS[name], [X])


@pytest.mark.parametrize("name", ["product", "block Mul"])
def test_products_with_zeros(name):
    x = np.array(X)
    x[2] = 0
    check(FUNCTIONS[name], [x])


def rosenbrock(x):
    a, b = dr.gather(Float64, x, UInt(0, 1, 2)), dr.gather(Float64, x, UInt(1, 2, 3))
    return 100 * dr.square(b - a * a) + dr.square(1 - a)


def test_rosenbrock(tier):
    check(rosenbrock, [[0.3, -0.7, 1.2, 0.8]])


def test_hessian_of_a_masked_function():
    check(lambda x: dr.select(x > 0, dr.sqrt(x) * dr.log(x), 0), [[-1, 4, 2, -0.5]])


def test_third_derivative():
    x = Float64(0.7, 1.1)
    dr.enable_grad(x)
    y = dr.sin(x)
    for _ in range(2):
        dr.backward(y, flags=KEEP)
        y = x.grad
        dr.clear_grad(x)
    dr.backward(y)
    np.testing.assert_allclose(x.grad.numpy(), -np.cos([0.7, 1.1]), rtol=1e-14)


def test_nested_arrays_have_gradients_that_can_be_differentiated():
    v = Array2f64([1, 2], [3, 4])
    dr.enable_grad(v)
    dr.backward(dr.squared_norm(v) * v.x, flags=KEEP)
    g = v.grad
    dr.clear_grad(v)
    dr.backward(g.y)
    assert [list(c) for c in v.grad] == [[6, 8], [2, 4]]


def test_gradients_are_constants_by_default():
    x = Float(3)
    dr.enable_grad(x)
    dr.backward(x * x)
    assert not dr.grad_enabled(x.grad)
    dr.backward(x * x, flags=KEEP)
    assert dr.grad_enabled(x.grad)


def test_custom_operations_refuse():
    class Square(dr.CustomOp):
        def eval(self, x):
            return x * x

    x = Float(3)
    dr.enable_grad(x)
    y = dr.custom(Square, x)
    with pytest.raises(RuntimeError, match=r"KeepGraph.*custom"):
        dr.backward(y, flags=KEEP)


def test_kept_graphs_are_freed():
    def use():
        x = Float(3)
        dr.enable_grad(x)
        dr.backward(dr.sin(x) * x, flags=KEEP)

    assert growth(use, living_variables) == 0


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("zeros", [(), (1,), (1, 3), (0, 1, 2)])
def test_hessian_of_running_products(zeros, exclusive, tier):
    values, weights = np.array([1.5, 2, 0.5, 3, 1]), np.array([0.3, -0.7, 1.1, 0.5, 0.9])
    values[list(zeros)] = 0
    n = len(values)
    expected = np.zeros((n, n))
    for i, j, k in itertools.product(range(n), range(n), range(n)):
        used = range(k + (not exclusive))
        if i != j and i in used and j in used:
            expected[i, j] += weights[k] * np.prod([values[m] for m in used if m not in (i, j)])
    for i in range(n):
        x = Float64(values)
        dr.enable_grad(x)
        y = dr.prefix_reduce(dr.ReduceOp.Mul, x, exclusive=exclusive)
        dr.backward(dr.sum(Float64(weights) * y), dr.ADFlag.Default | dr.ADFlag.KeepGraph)
        row = dr.sum(x.grad * Float64(np.eye(n)[i]))
        dr.clear_grad(x)
        dr.backward(row, dr.ADFlag.Default | dr.ADFlag.AllowNoGrad)
        np.testing.assert_allclose(x.grad.numpy(), expected[i], atol=1e-12)
        # Forward over forward: the same entries from tangents of tangents.
        x = Float64(values)
        dr.enable_grad(x)
        y = dr.sum(Float64(weights) * dr.prefix_reduce(dr.ReduceOp.Mul, x, exclusive=exclusive))
        dr.set_grad(x, Float64(np.eye(n)[i]))
        dr.forward_from(x, dr.ADFlag.Default | dr.ADFlag.KeepGraph)
        slope = y.grad
        dr.clear_grad(x)
        dr.backward(slope, dr.ADFlag.Default | dr.ADFlag.AllowNoGrad)
        np.testing.assert_allclose(x.grad.numpy(), expected[i], atol=1e-12)
