"""The state of optimizers as programs see it, and optimizers of one's own."""

from collections import deque
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import (
    Array2f,
    Array3f,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Matrix2f,
    Quaternion4f,
    TensorXf,
    TensorXf16,
    UInt,
)
from drjit.opt import SGD, Adam, AdamW, Muon, Optimizer, RMSProp

PARAMS: dict[str, Any] = {
    "x": Float(1, 2),
    "h": Float16(1, 2),
    "t": TensorXf([[1, 2], [3, 4]]),
    "v": Array3f(1, 2, 3),
    "k": TensorXf16([[1, 2], [3, 4]]),
}


def kinds(tree: Any) -> Any:
    if isinstance(tree, tuple):
        return tuple(kinds(v) for v in tree)
    return type(tree) if isinstance(tree, dr.ArrayBase) else tree


def squares(opt: Optimizer) -> None:
    for x in [opt[key] for key in opt]:
        dr.backward(dr.sum(x * x, axis=None))


# What is kept for a flat parameter of class F.
KEPT = {
    "SGD": (SGD, {}, lambda F: None),
    "momentum": (SGD, {"momentum": 0.5}, lambda F: F),
    "RMSProp": (RMSProp, {}, lambda F: F),
    "Adam": (Adam, {}, lambda F: (UInt, F, F, None)),
    "amsgrad": (Adam, {"amsgrad": True}, lambda F: (UInt, F, F, F)),
    "AdamW": (AdamW, {}, lambda F: (UInt, F, F, None)),
}


@pytest.mark.parametrize("name", KEPT)
def test_the_state_is_a_tuple_of_value_promoted_rate_and_what_is_kept(name: str):
    cls, options, kept = KEPT[name]
    opt = cls(0.1, PARAMS, **options)
    opt.set_learning_rate(x=0.25)
    for _ in range(2):
        found = {key: kinds(state) for key, state in opt.state.items()}
        assert found == {
            "x": (Float, False, 0.25, kept(Float)),
            "h": (Float, True, None, kept(Float)),
            "t": (TensorXf, False, None, kept(Float)),
            "v": (Array3f, False, None, kept(Array3f)),
            "k": (TensorXf, True, None, kept(Float)),
        }
        assert opt.state["x"][0] is opt["x"] and dr.grad_enabled(opt.state["h"][0])
        squares(opt)
        opt.step()
    matrices = Muon(0.1, {key: x for key, x in PARAMS.items() if key != "v"})
    assert {key: kinds(state) for key, state in matrices.state.items()} == {
        "t": (TensorXf, False, None, (Float, (2, 2))),
        "k": (TensorXf, True, None, (Float, (2, 2))),
    }


def test_the_state_has_the_numbers_of_the_reference():
    opt = Adam(0.1, {"x": Float(1, 2)})
    squares(opt)
    opt.step()
    value, promoted, lr, (steps, first, second, largest) = opt.state["x"]
    assert (promoted, lr, largest) == (False, None, None)
    assert steps[0] == 1 and steps.state is dr.VarState.Literal
    np.testing.assert_allclose(value.numpy(), [0.9, 1.9], rtol=1e-5)
    np.testing.assert_allclose(first.numpy(), [0.2, 0.4], rtol=1e-5)
    np.testing.assert_allclose(second.numpy(), [0.004, 0.016], rtol=1e-4)
    momentum = SGD(0.1, {"x": Float(1, 2)}, momentum=0.5)
    squares(momentum)
    momentum.step()
    np.testing.assert_allclose(momentum.state["x"][3].numpy(), [2, 4])


class Recorder(Optimizer[tuple[str, Any]]):
    """Notes what its hooks are called with."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.calls: list[Any] = []
        super().__init__(*args, **kwargs)

    def _reset(self, key, value, promoted):
        self.calls.append(("reset", key, type(value), promoted, dr.grad_enabled(value)))
        self.state[key] = value, promoted, None, (key, UInt(7))

    def _step(self, cache, value, grad, lr, extra):
        self.calls.append((type(value), type(grad), dr.grad_enabled(value, grad), lr, extra[0]))
        return value - grad * lr, (extra[0], extra[1] + 1)


def test_hooks_of_a_subclass():
    opt = Recorder(0.5, PARAMS)
    assert (opt.lr, opt.mask_updates, opt.promote_fp16) == (0.5, False, True)
    assert opt.calls == [
        ("reset", "x", Float, False, True),
        ("reset", "h", Float, True, True),
        ("reset", "t", TensorXf, False, True),
        ("reset", "v", Array3f, False, True),
        ("reset", "k", TensorXf, True, True),
    ]
    squares(opt)
    opt.set_learning_rate(v=0.25)
    opt.calls.clear()
    opt.step()
    assert opt.calls == [
        (Float, Float, False, 0.5, "x"),
        (Float, Float, False, 0.5, "h"),
        (Float, Float, False, 0.5, "t"),
        (Array3f, Array3f, False, 0.25, "v"),
        (Float, Float, False, 0.5, "k"),
    ]
    assert opt.state["v"][3][1] == 8
    assert dr.allclose(opt["t"], 0) and dr.allclose(opt["v"], Array3f(0.5, 1, 1.5))
    opt.calls.clear()
    opt["x"] = Float(3, 4)  # of the same shape: the state remains
    assert opt.calls == [] and opt.state["x"][3][1] == 8
    opt["x"] = Float(3, 4, 5)
    opt.reset("v")
    assert [call[1] for call in opt.calls] == ["x", "v"]
    assert opt.learning_rate("v") is None
    opt.calls.clear()
    opt.reset()
    assert [call[1] for call in opt.calls] == list("xhtvk")


def test_numbers_of_several_parts_are_given_as_nested_arrays():
    params = {
        "c": Complex2f(1, 2),
        "q": Quaternion4f(1, 2, 3, 4),
        "m": Matrix2f([[1, 2], [3, 4]]),
    }
    opt = Recorder(0.5, params)
    for key in opt:
        dr.set_grad(opt[key], opt[key])
    opt.calls.clear()
    opt.step()
    arrays = [dr.array_t(type(x)) for x in params.values()]
    assert [call[:2] for call in opt.calls] == [(cls, cls) for cls in arrays]
    for key, x in params.items():
        assert dr.allclose(opt[key], x * 0.5), key


class Choosy(Recorder):
    def _filter(self, params):
        return {k: v for k, v in params.items() if not k.startswith("_")}


def test_parameters_pass_through_the_filter():
    opt = Choosy(0.5, {"a": Float(1), "_b": Float(2)})
    opt.update({"c": Float(1), "_d": Float(2)}, e=Float(3), _f=Float(4))
    assert list(opt) == ["a", "c", "e"]
    opt["_g"] = Float(1)
    assert "_g" in opt


class Selecting(Recorder):
    def _select(self, mask, extra, new_extra):
        self.calls.append((mask.numpy().tolist(), extra[0], new_extra[0]))
        return super()._select(mask, extra, new_extra)


def test_a_mask_says_where_what_was_kept_remains():
    for options, active, unchanged, counted in (
        ({}, Bool(True, False), [False, True], [8, 7]),
        ({}, Bool(False), [True], [7]),
        ({"mask_updates": True}, None, [True, False], [7, 8]),
        ({"mask_updates": True}, Bool(True, False), [True, True], [7, 7]),
    ):
        opt = Selecting(0.5, {"x": Float(1, 2)}, **options)
        dr.backward(opt["x"] * Float(0, 1))
        opt.calls.clear()
        opt.step(active=active)
        assert opt.calls[1:] == [(unchanged, "x", "x")]
        assert opt.state["x"][3][1].numpy().tolist() == counted
    plain = Selecting(0.5, {"x": Float(1, 2)})
    plain.calls.clear()
    plain.step()
    assert len(plain.calls) == 1


class Products(Recorder):
    def _step(self, cache, value, grad, lr, extra):
        self.calls += [
            cache.product(Float, lr, 2),
            cache.product(Float, lr, 2),
            cache.product(Array2f, 3),
            cache.product(Float, Float64(2), Float(1, 2), 2),
            cache.product(Float),
        ]
        return value, extra


def test_products_of_learning_rates_are_made_once_in_a_step():
    opt = Products(0.5, {"x": Float(1), "y": Float(1)})
    opt.calls.clear()
    opt.step()
    first, again, pair, arrays, one = opt.calls[:5]
    assert first is again and first is opt.calls[5]
    assert first == 1 and type(first) is Float
    assert dr.allclose(pair, Array2f(3, 3)) and type(pair) is Array2f
    assert arrays.numpy().tolist() == [4, 8] and one == 1


class Quasi(Optimizer):
    """L-BFGS after Nocedal and Wright, "Numerical Optimization", algorithm 7.4, with the pairs of
    all parameters kept beside the state, and a step of its own."""

    def __init__(self, lr: float, params: Any = None, history: int = 6) -> None:
        self.history = history
        self.pairs: dict[str, deque] = {}
        super().__init__(lr, params)

    def _reset(self, key, value, promoted):
        self.pairs[key] = deque(maxlen=self.history)
        self.state[key] = value, promoted, None, None

    def step(self):
        for key, (value, promoted, lr, last) in list(self.state.items()):
            x, g = dr.detach(value), dr.grad(value)
            pairs = self.pairs[key]
            if last is not None:
                s, y = x - last[0], g - last[1]
                if dr.dot(s, y)[0] > 1e-10:
                    pairs.append((s, y, 1 / dr.dot(s, y)))
            direction, alphas = g, []
            for s, y, rho in reversed(pairs):
                alphas.append(rho * dr.dot(s, direction))
                direction = direction - alphas[-1] * y
            if pairs:
                s, y, _ = pairs[-1]
                direction = direction * (dr.dot(s, y) / dr.dot(y, y))
            for (s, y, rho), alpha in zip(pairs, reversed(alphas), strict=True):
                direction = direction + s * (alpha - rho * dr.dot(y, direction))
            new = x - (self.lr if lr is None else lr) * direction
            dr.enable_grad(new)
            dr.eval(new)
            self.state[key] = new, promoted, lr, (x, g)


def test_a_quasi_newton_method_with_a_step_of_its_own_finds_a_minimum():
    scale = Float(1, 10, 100)
    opt = Quasi(1.0, {"x": Float(1, 1, 1)})
    losses = []
    for i in range(25):
        loss = dr.sum(scale * dr.square(opt["x"] - 3) + (opt["x"] - 3) ** 4)
        losses.append(loss[0])
        dr.backward(loss)
        opt.set_learning_rate(0.005 if i == 0 else 1.0)
        opt.step()
    assert losses[-1] < 1e-8 < losses[0]
    assert dr.allclose(opt["x"], 3, atol=1e-3)
    opt["x"] = Float(1, 2)
    assert len(opt.pairs["x"]) == 0


def test_the_base_class_says_what_is_missing():
    empty = Optimizer(0.5)
    assert (empty.state, empty.lr, len(empty)) == ({}, 0.5, 0)
    with pytest.raises(RuntimeError, match=r"Optimizer\._reset\('x', \.\.\.\): missing implem"):
        empty["x"] = Float(1)
    assert not empty

    class Half(Optimizer):
        def _reset(self, key, value, promoted):
            self.state[key] = value, promoted, None, None

    half = Half(0.5, {"x": Float(1)})
    with pytest.raises(RuntimeError, match=r"Half\._step\(\): missing implementation"):
        half.step()
    assert half["x"] == 1


def test_what_a_class_of_ones_own_keeps_is_saved():
    def made():
        return Recorder(0.5, {"x": Float(1, 2), "c": Complex2f(1, 2)})

    opt, other = made(), made()
    for _ in range(3):
        opt["x"].grad = Float(1, 2)
        opt.step()
    saved = opt.state_dict()
    assert list(saved) == ["lr", "x.value", "x.extra[1]", "c.value", "c.extra[1]"]
    other.load_state_dict(saved)
    assert other["x"].numpy().tolist() == opt["x"].numpy().tolist()
    assert kinds(other.state["x"]) == kinds(opt.state["x"]) and other.state["x"][3][1] == 10


def test_moments_follow_the_type_of_an_assignment():
    opt = Adam(0.1, {"x": Float(1, 2)})
    squares(opt)
    opt.step()
    opt["x"] = Float64(1, 2)
    assert kinds(opt.state["x"][3]) == (UInt, Float64, Float64, None)
    np.testing.assert_allclose(opt.state["x"][3][1].numpy(), [0.2, 0.4], rtol=1e-6)
