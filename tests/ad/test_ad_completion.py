"""Reverse passes that say when gradients are complete."""

import gc

import numpy as np
import pytest

import drjit as dr
from drjit.ad import segments
from drjit.llvm.ad import Float, TensorXf, UInt


class Observer:
    """Keeps the gradients of arrays at the time when they are said to be complete."""

    def __init__(self, **arrays):
        self.arrays = arrays
        self.found, self.separate, self.left, self.rounds = {}, {}, {}, 0
        segments.observe(self)

    def variables(self):
        return [self.variable(a) for a in self.arrays.values()]

    @staticmethod
    def variable(a):
        return a._array._var if a._kind == "tensor" else a._var

    def complete(self, found, rest):
        self.rounds += not found
        for name, a in self.arrays.items():
            v = self.variable(a)
            if v in found:
                self.separate[name] = segments.is_separate([v.grad], rest)
                self.found[name] = np.array(dr.grad(a))
                self.left[name] = [v.rule.name for v in rest]


@pytest.fixture(autouse=True)
def no_others():
    yield
    gc.collect()
    assert not list(segments.observers)


def inputs(*values):
    arrays = [Float(v) for v in values]
    dr.enable_grad(arrays)
    return arrays


def test_gradients_are_complete_in_the_order_of_the_reverse_pass():
    a, b, c = inputs([1, 2], [3, 4], [5, 6])
    observer = Observer(a=a, b=b, c=c)
    y = dr.sin(a * b)
    dr.backward(dr.sum(y * c + b))  # b last: its product with a is visited after that with c
    assert list(observer.found) == ["c", "a", "b"]
    assert observer.left == {"c": ["mul", "sin"], "a": [], "b": []}  # still to be visited
    assert observer.rounds == 1  # the last call, which has nothing new
    for name, array in (("a", a), ("b", b), ("c", c)):
        np.testing.assert_array_equal(observer.found[name], array.grad)


def test_loops_branches_and_gathers_complete_gradients_once():
    @dr.syntax
    def f(x, w):
        i = UInt(0)
        while i < 3:
            x = dr.sin(x * w)
            i += 1
        if x > 0.5:
            x = x * w
        return x

    w, table, x = inputs([0.5, 2], [1, 2, 3], [1, 2])
    observer = Observer(w=w, table=table, x=x)
    dr.backward(dr.sum(f(x + dr.gather(Float, table, UInt(0, 2)), w)))
    assert sorted(observer.found) == ["table", "w", "x"]
    for name, array in (("w", w), ("table", table), ("x", x)):
        np.testing.assert_array_equal(observer.found[name], array.grad)


def test_layers_are_separate_and_what_one_kernel_computes_is_not():
    weights = {f"w{k}": TensorXf(np.eye(4) * (k + 1)) for k in range(3)}
    dr.enable_grad(weights)
    observer = Observer(**weights)
    h = dr.ones(TensorXf, (4, 5))
    for w in weights.values():
        h = dr.tanh(w @ h)
    dr.backward(dr.sum(h.array))
    assert observer.separate == {"w2": True, "w1": True, "w0": True}

    a, b = inputs([1, 2], [3, 4])
    observer = Observer(a=a, b=b)
    dr.backward(dr.sum(dr.sin(dr.sin(a) * b)))
    assert observer.separate["b"] is False


@pytest.mark.parametrize("scope", ["kept", "restricted", "other"])
def test_what_does_not_complete_gradients_is_not_observed(scope):
    a, b = inputs([1, 2], [3, 4])
    observer = Observer(a=a)
    if scope == "kept":
        dr.backward(dr.sum(a * b), dr.ADFlag.KeepGraph | dr.ADFlag.Default)
    elif scope == "restricted":
        dr.set_grad(y := a * b, 1)
        dr.backward_to(a)
        assert y is not None
    else:
        dr.backward(dr.sum(b * b))
    assert observer.found == {} and observer.rounds == 0


def test_gradients_are_complete_at_the_end_of_an_isolating_scope():
    a, b = inputs([1, 2], [3, 4])
    observer = Observer(a=a)
    with dr.isolate_grad():
        dr.backward(dr.sum(a * b))
        dr.backward(dr.sum(a * b))
        assert observer.found == {}
    np.testing.assert_array_equal(observer.found["a"], [6, 8])


def test_an_error_of_an_observer_ends_the_pass():
    class Failing(Observer):
        def complete(self, found, rest):
            raise RuntimeError("the observer fails")

    (a,) = inputs([1, 2])
    observer = Failing(a=a)
    with pytest.raises(RuntimeError, match="the observer fails"):
        dr.backward(dr.sum(a * a))
    del observer
    dr.clear_grad(a)
    dr.backward(dr.sum(a * a))
    assert list(a.grad) == [2, 4]
