"""Derivatives of tensor operations: products, reductions over axes, sorts, indexing."""

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Float64, TensorXf64


def data(shape, seed):
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def check(function, *arrays):
    """Reverse and forward mode against finite differences in double precision."""
    tensors = [TensorXf64(a) for a in arrays]
    for t in tensors:
        dr.enable_grad(t)
    result = function(*tensors)
    weight = data(result.shape, 99)
    loss = dr.sum(result * TensorXf64(weight))
    dr.backward(loss)
    step = 1e-6
    for i, (t, a) in enumerate(zip(tensors, arrays, strict=True)):
        direction = data(a.shape, 50 + i)
        moved = []
        for sign in (1, -1):
            others = [
                TensorXf64(b + sign * step * direction if j == i else b)
                for j, b in enumerate(arrays)
            ]
            moved.append((function(*others).numpy() * weight).sum())
        expected = (moved[0] - moved[1]) / (2 * step)
        found = (dr.grad(t).numpy() * direction).sum()
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-8)
        forward = [TensorXf64(b) for b in arrays]
        dr.enable_grad(forward[i])
        value = function(*forward)
        dr.set_grad(forward[i], TensorXf64(direction))
        dr.forward_to(value)
        tangent = (dr.grad(value).numpy() * weight).sum()
        assert tangent == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize(
    "leads", [((), ()), ((3,), (3,)), ((3,), ()), ((), (3,)), ((2, 1), (1, 3))], ids=str
)
def test_products(flags, leads, tier):
    at, bt = map(bool, flags)
    a = data((*leads[0], *((5, 4) if at else (4, 5))), 1)
    b = data((*leads[1], *((3, 5) if bt else (5, 3))), 2)
    check(lambda x, y: dr.matmul(x, y, at, bt), a, b)


@pytest.mark.parametrize("shapes", [((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 3))], ids=str)
def test_products_of_vectors(shapes):
    check(lambda x, y: x @ y, *[data(s, k) for k, s in enumerate(shapes)])


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (0, 1), None], ids=str)
def test_reductions(axis, tier):
    a = data((3, 4, 5), 3)
    check(lambda t: dr.sum(t * t, axis), a)
    check(lambda t: dr.max(t, axis), a)
    check(lambda t: dr.std(t, axis, keepdims=True), a)


def test_movements():
    a = data((3, 4), 4)
    check(lambda t: dr.sort(t, 0) * t, a)
    check(lambda t: dr.median(t, 1), a)
    check(lambda t: t.T @ t, a)
    check(lambda t: t[::-1, dr.llvm.ad.UInt(0, 2, 2)], a)
    check(lambda t: dr.concat([t, dr.take(t, [1], 0)]), a)
    check(lambda t: dr.take_interp(t, Float64(0.5, 1.25), 1), a)
    check(lambda t: TensorXf64(dr.sort(t.array)), a)
