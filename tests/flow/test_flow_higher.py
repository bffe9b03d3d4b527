"""Derivatives of derivatives through loops, branches and calls, in all modes, against finite
differences of gradients."""

import numpy as np
import pytest
from helpers import growth, living_variables
from test_ad_higher import KEEP, check
from test_flow_grad import CASES, COUNTS, F, X, loop, times

import drjit as dr
from drjit import nn
from drjit.llvm.ad import Float64, UInt

MODES = ("symbolic", "evaluated")
SOME = (
    "nested", "call in loop", "loop in branch", "branch in loop", "loop in call", "product, one",
    "initial, one",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "symbolic") for name in CASES),
        # Iterations that are evaluated are operations like those without a loop.
        *(
            pytest.param(name, "evaluated", marks=[pytest.mark.sweep] * (name not in SOME))
            for name in CASES
        ),
    ],
)
def test_hessians(name, mode, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    function, *args = CASES[name]
    check(lambda *a: function(mode, *a), [a.numpy() for a in args])


@pytest.mark.parametrize(
    "name", [*SOME[:3], *(pytest.param(name, marks=pytest.mark.sweep) for name in SOME[3:])]
)
def test_hessians_of_compiled_kernels(name, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")
    function, *args = CASES[name]
    check(lambda *a: function("symbolic", *a), [a.numpy() for a in args])


def captured_table(mode, x, table, scale):
    """Functions that read arrays from around them."""
    functions = [
        lambda x, k, active: x * x * dr.gather(Float64, table, k) ** 2,
        lambda x, k, active: dr.sin(x * scale),
        lambda x, k, active: x * x * scale * dr.gather(Float64, table, k, active),
    ]
    return dr.switch(COUNTS % 4, functions, x, COUNTS % 5, COUNTS % 4 < 3, mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.compiled_every(2)
def test_calls_that_read_captured_arrays(mode, tier):
    check(lambda *a: captured_table(mode, *a), [X.numpy(), X.numpy() + 0.3, [0.8]])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.compiled_every(2)
def test_methods_of_objects(mode, tier):
    class Material:
        def __init__(self, albedo):
            self.albedo = Float64(albedo)

        def shade(self, x):
            return dr.exp(x * self.albedo) * self.albedo

    objects = [Material(0.4), Material(1.2)]
    pointer = dr.instance_t(Float64, Material)([objects[k] for k in (0, 1, 1, 0, 1)])

    def shade(x, a, b):
        objects[0].albedo, objects[1].albedo = a, b
        return dr.dispatch(pointer, Material.shade, x, mode=mode)

    try:
        check(shade, [X.numpy(), [0.4], [1.2]])
    finally:
        dr.detail.clear_registry()


@pytest.mark.parametrize("mode", MODES)
def test_third_derivatives(mode, tier):
    x = F(0.7, 1.3)
    dr.enable_grad(x)
    y = loop(mode, lambda i, y: i < 4, lambda i, y: (i + 1, y * x), UInt(0), F(1))[1]
    for factor in (4, 12, 24):
        dr.backward(y, flags=KEEP)
        y = x.grad
        dr.clear_grad(x)
        power = {4: 3, 12: 2, 24: 1}[factor]
        np.testing.assert_allclose(y.numpy(), factor * np.array([0.7, 1.3]) ** power)


def test_side_effects_of_functions_happen_once(tier):
    for differentiated in (False, True):
        counter, x = dr.zeros(UInt, 4), F(0.7, 1.3)
        dr.enable_grad(x)

        def step(i, y, x=x, counter=counter):
            dr.scatter_inc(counter, i)
            return i + 1, y * x

        def call(x, step=step):
            return loop("symbolic", lambda i, y: i < 3, step, UInt(0), x)[1]

        y = dr.switch(UInt(0, 1), [call, lambda x: x * x], x)
        if differentiated:
            dr.backward(y, flags=KEEP)
            assert dr.grad_enabled(x.grad)
            dr.eval(x.grad)
        np.testing.assert_array_equal(counter.numpy(), [1, 1, 1, 0])


def test_gradients_that_functions_propagate_are_propagated_once(tier):
    x = F(0.5, 0.7)
    dr.enable_grad(x)

    def propagating(z):
        dr.backward(x * x)
        return z * x

    y = dr.switch(UInt(0, 0), [propagating], x)
    dr.backward(y, flags=KEEP)
    np.testing.assert_allclose(x.grad.numpy(), [2, 2.8])


def test_functions_run_once(tier):
    x, calls = F(0.5, 0.7), []
    dr.enable_grad(x)

    def cube(z):
        calls.append(z)
        return loop("symbolic", lambda i, y: i < 2, lambda i, y: (i + 1, y * z), UInt(0), z)[1]

    y = dr.if_stmt((x,), x > 0.6, cube, lambda z: z, mode="symbolic")
    dr.backward(y, flags=KEEP)
    gradient = x.grad
    np.testing.assert_allclose(gradient.numpy(), [1, 3 * 0.7**2])
    dr.clear_grad(x)
    dr.backward(gradient)
    np.testing.assert_allclose(x.grad.numpy(), [0, 6 * 0.7])
    assert len(calls) == 1


def test_graphs_are_freed():
    def use():
        x = F(0.7, 1.3)
        dr.enable_grad(x)
        y = times("symbolic", lambda i, y: (dr.switch(i % 2, [dr.sin, dr.cos], y * X[0]),), X)[0]
        dr.backward(dr.switch(UInt(0, 1), [dr.sin, lambda x: x * x], x) + dr.sum(y), flags=KEEP)
        assert dr.grad_enabled(x.grad)

    assert growth(use, living_variables) == 0


def test_where_it_is_not_possible():
    x = F(0.5, 0.7)
    dr.enable_grad(x)

    def gradient(z):
        z = dr.detach(z)
        dr.enable_grad(z)
        y = loop("symbolic", lambda i, y: i < 3, lambda i, y: (i + 1, y * z), UInt(0), F(1))[1]
        dr.backward(y, flags=KEEP)
        return z.grad

    with pytest.raises(RuntimeError, match=r"KeepGraph.*while another loop, branch or call"):
        dr.switch(UInt(0, 0), [gradient], x)

    v = nn.CoopVec(x, x * x)
    v = loop("symbolic", lambda i, v: i < 3, lambda i, v: (i + 1, v * v), UInt(0), v)[1]
    with pytest.raises(RuntimeError, match=r"KeepGraph.*cooperative vectors"):
        dr.backward(dr.sum(v), flags=KEEP)
