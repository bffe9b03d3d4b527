"""Optimizers: their numbers, options, mapping, errors, saved states, and what a step costs."""

import gc
import re
import subprocess
import sys

import numpy as np
import pytest
from helpers import growth, launched

import drjit as dr
from drjit import llvm
from drjit.jit.cpu import variants
from drjit.llvm.ad import (
    Array1f,
    Array2f,
    Array3f,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Matrix2f,
    TensorXf,
    TensorXf16,
    TensorXf64,
    UInt,
)
from drjit.opt import SGD, Adam, AdamW, GradScaler, Muon, Optimizer, RMSProp

STEPS = 20

# Every option, with the parameters after three steps that the reference gives (see `recorded`).
CASES = {
    "SGD": (SGD, {}, [0.306262, 0.756845, -2.108288, -504.865662, -1.365169, 0.306262]),
    "momentum": (
        SGD,
        {"momentum": 0.9},
        [-0.308997, -2.162384, -13.132662, -645.819092, -2.144787, -0.308997],
    ),
    "nesterov": (
        SGD,
        {"momentum": 0.9, "nesterov": True},
        [-2.359299, -11.372158, -127.301178, -10096.545898, -5.612278, -2.359299],
    ),
    "RMSProp": (RMSProp, {}, [-1.895566, 0.943091, 1.9923, -6.766099, -2.447783, -1.895566]),
    "Adam": (Adam, {}, [0.773314, 1.781529, 2.731689, -4.295901, 0.217097, 0.773314]),
    "amsgrad": (
        Adam,
        {"amsgrad": True, "beta_2": 0.5},
        [0.790429, 1.801352, 2.749186, -4.276202, 0.239583, 0.790429],
    ),
    "uniform": (
        Adam,
        {"uniform": True},
        [0.993107, 1.964716, 2.890034, -4.295901, 0.488451, 0.993107],
    ),
    "AdamW": (
        AdamW,
        {"weight_decay": 0.1},
        [0.743831, 1.726774, 2.64707, -4.174416, 0.205341, 0.743831],
    ),
    "Muon": (Muon, {}, [1.169592, 1.894694, 2.903298, -4.227036, 0.238971, 1.050933]),
}
MORE = {
    "RMSProp, large epsilon": (RMSProp, {"alpha": 0.9, "epsilon": 1e-3}),
    "Adam, large epsilon": (Adam, {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-2}),
    "amsgrad, uniform": (Adam, {"amsgrad": True, "uniform": True, "beta_2": 0.8}),
    "AdamW, uniform": (AdamW, {"uniform": True, "weight_decay": 0.2}),
    "Muon, decay": (Muon, {"weight_decay": 0.1, "momentum": 0.8}),
    "Muon, plain": (Muon, {"nesterov": False, "ns_steps": 3}),
    "Muon, no iteration": (Muon, {"ns_steps": 0, "momentum": 0.0}),
}
ALL = {name: case[:2] for name, case in CASES.items()} | MORE
BY_NAME = pytest.mark.parametrize("name", ALL)


def newton_schulz(m: np.ndarray, iterations: int) -> np.ndarray:
    x = m / (np.sqrt((m * m).sum()) + 1e-7)
    for _ in range(iterations):
        x = 3.4445 * x - 4.775 * x @ x.T @ x + 2.0315 * x @ x.T @ x @ x.T @ x
    return x


def formula(cls, options: dict, lr: float, x: np.ndarray, g: np.ndarray, t: int, kept: dict):
    """One step in the way of the papers, in double precision."""

    def option(name, default):
        return options.get(name, default)

    def average(name, value, beta):
        kept[name] = beta * kept.get(name, 0) + (1 - beta) * value
        return kept[name]

    def root(v, epsilon):
        return np.sqrt(v + epsilon**2) if epsilon <= 1e-6 else np.sqrt(v) + epsilon

    epsilon = option("epsilon", 1e-8)
    if cls in (SGD, Muon):
        mu = option("momentum", 0.95 if cls is Muon else 0)
        kept["v"] = mu * kept.get("v", 0) + g
        u = g + mu * kept["v"] if option("nesterov", cls is Muon) else kept["v"]
        if cls is Muon:
            rows, columns = x.shape
            u = newton_schulz(u, option("ns_steps", 5)) * max(1, rows / columns) ** 0.5
            x = x * (1 - lr * option("weight_decay", 0))
        return x - lr * u
    if cls is RMSProp:
        return x - lr * g / root(average("v", g * g, option("alpha", 0.99)), epsilon)
    beta_1, beta_2 = option("beta_1", 0.9), option("beta_2", 0.999)
    m, v = average("m", g, beta_1), average("v", g * g, beta_2)
    if option("amsgrad", False):
        v = kept["largest"] = np.maximum(v, kept.get("largest", 0))
    elif option("uniform", False):
        v = v.max()
    if cls is AdamW:
        x = x * (1 - lr * option("weight_decay", 0.01))
    return x - lr * np.sqrt(1 - beta_2**t) / (1 - beta_1**t) * m / root(v, epsilon)


def descend(opt: Optimizer, gradients: dict[str, np.ndarray], **step) -> None:
    """A step with the given gradients."""
    for name, g in gradients.items():
        x = opt[name]
        dr.backward(dr.sum(x * type(x)(g.astype(np.array(x).dtype)), axis=None))
    opt.step(**step)


def recorded(cls, options: dict) -> list[float]:
    opt = cls(0.1, **options)
    opt["x"] = TensorXf([[1, 2], [3, -4], [0.5, 1]])
    for i in range(3):
        x = opt["x"]
        dr.backward(dr.sum((x - i) ** 3 + dr.sin(x * 2), axis=None))
        opt.step()
    return np.array(opt["x"]).ravel().tolist()


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_the_reference(name: str, tier: str):
    cls, options, expected = CASES[name]
    np.testing.assert_allclose(recorded(cls, options), expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("wide", [False, True])
@BY_NAME
@pytest.mark.compiled_every(3)
def test_twenty_steps_follow_the_formula(name: str, wide: bool, masked: bool, tier: str):
    cls, options = ALL[name]
    tensor, dtype = (TensorXf64, np.float64) if wide else (TensorXf, np.float32)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((5, 3)).astype(dtype)
    opt = cls(0.05, {"x": tensor(x)}, mask_updates=masked, **options)
    x = x.astype(np.float64)
    kept: dict = {}
    for t in range(1, STEPS + 1):
        g = rng.standard_normal(x.shape) * 10 ** rng.uniform(-3, 1, x.shape)
        g = (g * (rng.random(x.shape) < 0.7)).astype(dtype)
        descend(opt, {"x": g})
        before = dict(kept)
        new = formula(cls, options, 0.05, x, g.astype(np.float64), t, kept)
        if masked:
            x = np.where(g != 0, new, x)
            # What is remembered about an untouched entry stays as well.
            kept = {k: np.where(g != 0, v, before.get(k, 0)) for k, v in kept.items()}
        else:
            x = new
        tolerance = 1e-12 if wide else 1e-5
        np.testing.assert_allclose(np.array(opt["x"]), x, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "name", [n for n, (cls, options) in ALL.items() if cls is not Muon and "uniform" not in options]
)
def test_every_kind_of_parameter_is_optimized_by_its_entries(name: str):
    cls, options = ALL[name]
    entries = np.arange(1, 5, dtype=np.float32)
    flat = cls(0.1, {"x": Float(entries)}, **options)
    others = cls(
        0.1,
        {
            "tensor": TensorXf(entries.reshape(2, 2)),
            "nested": Array2f(Float(1, 2), Float(3, 4)),
            "complex": Complex2f(Float(1, 2), Float(3, 4)),
            "matrix": Matrix2f(1, 2, 3, 4),
        },
        **options,
    )
    for _ in range(3):
        dr.backward(dr.sum(dr.square(flat["x"])))
        flat.step()
        t, n, c, m = others["tensor"], others["nested"], others["complex"], others["matrix"]
        loss = dr.sum(t * t, axis=None).array + dr.sum(dr.squared_norm(n))
        loss += dr.sum(dr.square(c.real) + dr.square(c.imag)) + dr.squared_norm(m[0])
        dr.backward(loss + dr.squared_norm(m[1]))
        others.step()
    expected = np.array(flat["x"])
    for key in ("tensor", "nested", "matrix"):
        np.testing.assert_array_equal(np.array(others[key]).ravel(), expected)
    np.testing.assert_array_equal(np.array(others["complex"].real), expected[:2])
    np.testing.assert_array_equal(np.array(others["complex"].imag), expected[2:])


def test_uniform_takes_the_largest_component_of_an_entry():
    opt = Adam(0.1, {"x": Array2f(Float(0, 0), Float(0, 0))}, uniform=True)
    x = opt["x"]
    dr.backward(dr.sum(x.x * Float(1, 2) + x.y * Float(4, 1)))
    opt.step()
    assert dr.allclose(opt["x"], Array2f([-0.025, -0.1], [-0.1, -0.05]), rtol=1e-4)


def test_uniform_has_nothing_to_compare_within_one_component():
    opt = Adam(0.1, {"x": Array1f(Float(1, 2))}, uniform=True)
    dr.backward(dr.sum(dr.square(opt["x"].x)))
    opt.step()
    assert dr.allclose(opt["x"].x, Float(0.9, 1.9), rtol=1e-4)


def test_a_component_that_entries_share_remains_one_number():
    opt = SGD(0.1, {"x": Array2f([1, 2, 3], 1)})
    dr.backward(dr.sum(opt["x"].x * opt["x"].y))
    opt.step()
    assert len(opt["x"].y) == 1
    assert dr.allclose(opt["x"].y, 0.4)


# ---- Precision


def test_half_precision_is_optimized_in_single_precision():
    opt = SGD(2.0**-14, {"x": Float16(1, 2)})
    for _ in range(32):
        x = opt["x"]
        assert type(x) is Float16
        dr.backward(dr.sum(x))
        opt.step()
    assert type(dict(opt.items())["x"]) is Float
    assert opt["x"].numpy().tolist() == [1 - 2.0**-9, 2 - 2.0**-9]


def test_half_precision_without_promotion():
    opt = SGD(2.0**-14, {"x": Float16(1, 2)}, promote_fp16=False)
    for _ in range(32):
        dr.backward(dr.sum(opt["x"]))
        opt.step()
    assert opt["x"].numpy().tolist() == [1, 2]
    assert type(next(opt.values())) is Float16


@pytest.mark.parametrize("cls", [RMSProp, Adam])
@pytest.mark.parametrize("kind", [Float16, Float, Float64])
@pytest.mark.parametrize("epsilon", [0, 1e-30, 1e-8, 1e-3])
def test_a_zero_gradient_divides_nothing_by_zero(cls, kind, epsilon: float, tier: str):
    opt = cls(0.1, {"x": kind(1, 2)}, epsilon=epsilon, promote_fp16=False)
    dr.backward(dr.sum(opt["x"] * kind(0, 1)))
    opt.step()
    x = opt["x"].numpy()
    assert x[0] == 1
    assert np.isfinite(x[1])
    assert x[1] < 2


# ---- The mapping


def test_mapping():
    opt = Adam(0.1, {"b": Float(1), "a": Float(2)})
    opt.update({"c": Float(3)}, d=Float(4))
    assert list(opt) == list(opt.keys()) == ["b", "a", "c", "d"]
    assert len(opt) == 4
    assert "a" in opt and "z" not in opt
    assert opt["a"] is opt["a"]
    assert dr.grad_enabled(opt["a"])
    del opt["a"]
    assert [(k, v[0]) for k, v in opt.items()] == [("b", 1), ("c", 3), ("d", 4)]
    assert opt.pop("c")[0] == 3
    assert opt != Adam(0.1) and opt == opt
    opt.clear()
    assert not opt
    opt.step()


def test_a_parameter_is_cut_off_from_what_made_it():
    source = Float(1, 2)
    dr.enable_grad(source)
    opt = SGD(0.1, {"x": source * 2})
    dr.backward(dr.sum(opt["x"]))
    assert source.grad.numpy().tolist() == [0, 0]
    assert opt["x"].grad.numpy().tolist() == [1, 1]
    opt.step()
    assert source.numpy().tolist() == [1, 2]
    assert opt["x"].grad.numpy().tolist() == [0, 0]


def test_assignments_of_the_same_shape_keep_the_state():
    opt = Adam(0.1, {"x": Float(1, 2, 3)})
    descend(opt, {"x": np.ones(3)})
    opt.set_learning_rate(x=0.5)
    kept = opt.state["x"][3][1].numpy()
    for value in (Float(4, 5, 6), Float64(1, 2, 3), TensorXf([1, 2, 3]), Float16(1, 2, 3)):
        opt["x"] = value
        assert opt.learning_rate("x") == 0.5
        assert opt.state["x"][3][0] == 1
        moment = opt.state["x"][3][1].numpy()
        np.testing.assert_allclose(moment, kept, rtol=1e-7)
        dr.backward(dr.sum(opt["x"] * 0, axis=None))
    opt.step()
    for value in (Float(4, 5), Float(1, 2, 3), TensorXf([[1, 2, 3]]), Array3f(1, 2, 3)):
        opt.set_learning_rate(x=0.5)
        opt["x"] = value
        assert opt.learning_rate("x") is None
        assert opt.state["x"][3][0] == 0


def test_reset():
    opt = Adam(0.1, {"x": Float(1), "y": Float(1)})
    opt.set_learning_rate(x=0.5, y=0.5)
    fresh = Adam(0.1, {"x": Float(1), "y": Float(1)})
    descend(opt, {"x": np.ones(1), "y": np.ones(1)})
    opt.reset("x")
    assert [opt.state[k][3][0] for k in "xy"] == [0, 1]
    assert (opt.learning_rate("x"), opt.learning_rate("y")) == (None, 0.5)
    opt.reset()
    opt.update(x=Float(1), y=Float(1))
    for o in (opt, fresh):
        descend(o, {"x": np.ones(1) * 3, "y": np.ones(1)})
    assert opt["x"].numpy() == fresh["x"].numpy()
    with pytest.raises(KeyError, match="z"):
        opt.reset("z")


def test_text():
    opt = Adam(0.25, {"x": Array3f(1, 2, 3), "y": TensorXf([[1, 2]])})
    opt.set_learning_rate(y=Float(0.5))
    assert repr(opt) == (
        "Adam[\n  parameters = ['x', 'y'],\n  total_count = 5,\n"
        "  lr = {'default': 0.25, 'y': [0.5]},\n  beta = (0.9, 0.999),\n  epsilon = 1e-08\n]"
    )
    assert repr(SGD(1)).endswith("  momentum = 0\n  nesterov = False\n]")
    assert repr(RMSProp(1)).endswith("  alpha = 0.99,\n  epsilon = 1e-08\n]")
    assert repr(AdamW(1)).endswith("  epsilon = 1e-08,\n  weight_decay = 0.01\n]")
    assert repr(Muon(1)).endswith(
        "  momentum = 0.95,\n  nesterov = True,\n  ns_steps = 5,\n  weight_decay = 0\n]"
    )


# ---- Learning rates and arguments of a step


def test_learning_rates():
    opt = SGD(0.5, {"x": Float(0, 0), "y": Float(0, 0), "z": Float(0, 0)})
    opt.set_learning_rate({"y": 0.25}, z=Float(1, 2))
    ones = dict.fromkeys("xyz", np.ones(2))
    descend(opt, ones)
    assert [opt[k].numpy().tolist() for k in "xyz"] == [[-0.5, -0.5], [-0.25, -0.25], [-1, -2]]
    opt.set_learning_rate(np.float64(2), y=None)
    assert (opt.learning_rate(), opt.learning_rate("y")) == (2, None)
    descend(opt, ones)
    assert [opt[k].numpy().tolist() for k in "xy"] == [[-2.5, -2.5], [-2.25, -2.25]]


@pytest.mark.parametrize("cls", [SGD, RMSProp, Adam, AdamW])
def test_a_learning_rate_array_is_like_a_number_and_stays_the_same(cls, tier: str):
    rate = Float(0.1)
    first, second = cls(0.1, {"x": Float(1, 2)}), cls(rate, {"x": Float(1, 2), "y": Float64(1, 2)})
    for _ in range(4):
        descend(first, {"x": np.array([1, 0.5])})
        descend(second, {"x": np.array([1, 0.5]), "y": np.array([1, 0.5])})
    np.testing.assert_allclose(second["x"].numpy(), first["x"].numpy(), rtol=1e-6)
    np.testing.assert_allclose(second["y"].numpy(), first["x"].numpy(), rtol=1e-5)
    assert rate.numpy() == np.float32(0.1)


def test_step_arguments(tier: str):
    def after(**step):
        opt = SGD(1.0, {"x": Float(0, 0, 0), "h": Float16(0, 0, 0)}, momentum=0.5)
        for _ in range(2):
            descend(opt, {"x": np.array([1, 2, 3]), "h": np.array([1, 2, 3])}, **step)
        assert opt["x"].numpy().tolist() == opt["h"].numpy().tolist()
        return opt["x"].numpy().tolist()

    assert after() == after(active=True) == after(active=Bool(True)) == [-2.5, -5, -7.5]
    assert after(grad_scale=2) == after(grad_scale=Float64(2)) == [-5, -10, -15]
    assert after(grad_scale=Float(1, 0, 2)) == [-2.5, 0, -15]
    assert after(active=False) == after(active=dr.opaque(Bool, False)) == [0, 0, 0]
    assert after(active=Bool(True, False, True)) == [-2.5, 0, -7.5]
    assert after(eval=False) == after()


def test_without_evaluation_results_remain_expressions():
    opt = Adam(0.1, {"x": Float(1, 2)})
    descend(opt, {"x": np.ones(2)}, eval=False)
    assert opt["x"].state is dr.VarState.Unevaluated
    descend(opt, {"x": np.ones(2)})
    assert opt["x"].state is dr.VarState.Evaluated
    assert opt.state["x"][3][1].state is dr.VarState.Evaluated


def test_a_skipped_adam_step_counts():
    opt = Adam(0.1, {"x": Float(1)})
    descend(opt, {"x": np.ones(1)}, active=False)
    assert opt.state["x"][3][0] == 1


def test_steps_where_derivatives_are_suspended():
    opt = SGD(0.5, {"x": Float(1)})
    dr.backward(opt["x"] * 2)
    with dr.suspend_grad():
        opt.step()
    assert opt["x"].numpy() == 0
    assert dr.grad_enabled(opt["x"])


# ---- Errors


@pytest.mark.parametrize("value", [1.0, UInt(1), Bool(True), "a", [Float(1)], None])
def test_parameters_that_are_none(value):
    opt = Adam(0.1)
    with pytest.raises(
        TypeError, match=r'dr\.opt\.Adam\.__setitem__\(\): cannot register parameter "x" of type'
    ):
        opt["x"] = value
    assert not opt


def test_parameters_of_types_without_derivatives():
    with pytest.raises(TypeError, match="differentiable"):
        SGD(0.1, {"x": llvm.Float(1)})
    with pytest.raises(RuntimeError, match=r'parameter "x" is empty! Its shape is \(0,\)'):
        SGD(0.1, {"x": Float([])})
    with pytest.raises(TypeError, match=r"update\(\): 'params' must be a mapping"):
        SGD(0.1, [("x", Float(1))])  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [Float(1), TensorXf([1]), TensorXf([[[1]]]), Matrix2f(1)])
def test_muon_wants_matrices(value):
    opt = Muon(0.1)
    with pytest.raises(RuntimeError, match=r"'x' must be a tensor of two dimensions, not .*shape"):
        opt["x"] = value


def test_muon_leaves_the_rest_of_a_mapping_to_others():
    net = {"w": TensorXf([[1, 2]]), "bias": TensorXf([1, 2]), "f": Float(1)}
    opt = Muon(0.1, net)
    assert list(opt) == ["w"]
    opt.update(net, v=TensorXf([[1]]), scale=Float(1))
    assert list(opt) == ["w", "v"]
    with pytest.raises(TypeError, match="'params' must be a mapping"):
        opt.update(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("half", [True, False])
def test_muon_treats_matrices_together_as_one_by_one(half: bool):
    numbers = np.random.default_rng(1)
    kind = TensorXf16 if half else TensorXf
    shapes = [(3, 17), (17, 3), (16, 16), (17, 3), (1, 33), (16, 16), (1, 1), (33, 1), (2, 17)]
    start = {f"x{i}": kind(numbers.normal(size=shape)) for i, shape in enumerate(shapes)}
    start["other"] = TensorXf(numbers.normal(size=(16, 16)))
    together = Muon(0.1, start, promote_fp16=False)
    alone = {name: Muon(0.1, {name: value}, promote_fp16=False) for name, value in start.items()}
    for _ in range(3):
        gradients = {name: numbers.normal(size=value.shape) for name, value in start.items()}
        descend(together, gradients)
        for name, g in gradients.items():
            descend(alone[name], {name: g})
    for name, value in start.items():
        assert together[name].shape == value.shape
        tolerance = 1e-2 if half else 1e-5
        found, expected = np.array(together[name]), np.array(alone[name][name])
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_muon_launches_as_much_for_many_matrices_of_a_shape_as_for_one():
    def launches(count: int) -> int:
        opt = Muon(0.1, {f"x{i}": TensorXf(np.eye(8, 5) + i) for i in range(count)})
        for name in opt:
            dr.set_grad(opt[name], TensorXf(np.ones((8, 5))))
        return len(launched(opt.step))

    assert launches(6) - launches(1) <= 2 * 5  # each is gathered, and copied back


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (SGD, {"momentum": -1}, "SGD(): 'momentum' must be >= 0, not -1"),
        (SGD, {"nesterov": True}, "SGD(): 'nesterov' needs a momentum > 0"),
        (RMSProp, {"alpha": 1}, "RMSProp(): 'alpha' must be in [0, 1), not 1"),
        (RMSProp, {"epsilon": -1}, "RMSProp(): 'epsilon' must be >= 0, not -1"),
        (Adam, {"beta_1": 1.5}, "Adam(): 'beta_1' must be in [0, 1), not 1.5"),
        (AdamW, {"beta_2": -1}, "AdamW(): 'beta_2' must be in [0, 1), not -1"),
        (AdamW, {"weight_decay": -1}, "AdamW(): 'weight_decay' must be >= 0, not -1"),
        (Muon, {"momentum": 1}, "Muon(): 'momentum' must be in [0, 1), not 1"),
        (Muon, {"ns_steps": -1}, "Muon(): 'ns_steps' must be >= 0, not -1"),
    ],
)
def test_options_out_of_range(cls, options: dict, message: str):
    with pytest.raises(RuntimeError, match=re.escape(message)):
        cls(0.1, **options)


def test_bad_learning_rates_change_nothing():
    opt = Adam(0.1, {"x": Float(1)})
    for bad in ("fast", [0.1], UInt(1), Array3f(1)):
        with pytest.raises(TypeError, match=r"set_learning_rate\(\): a learning rate must be"):
            opt.set_learning_rate(0.5, x=bad)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a learning rate must be"):
            Adam(bad)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="y"):
        opt.set_learning_rate(0.5, x=1.0, y=1.0)
    assert (opt.learning_rate(), opt.learning_rate("x")) == (0.1, None)


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        ({"active": 1}, TypeError, "'active' must be a bool or a flat mask"),
        ({"active": Bool(True, False)}, RuntimeError, "'active' has 2 entries, but parameter 'y'"),
        ({"grad_scale": "a"}, TypeError, "'grad_scale' must be a number or a flat array"),
        (
            {"grad_scale": Float(1, 2)},
            RuntimeError,
            "'grad_scale' has 2 entries, but parameter 'y'",
        ),
    ],
)
def test_a_step_that_fails_changes_nothing(step: dict, error, message: str):
    opt = SGD(0.5, {"x": Float(1, 1), "y": Float(1, 2, 3)})
    with pytest.raises(error, match=re.escape(f"dr.opt.SGD.step(): {message}")):
        descend(opt, {"x": np.ones(2), "y": np.ones(3)}, **step)
    opt.set_learning_rate(Float(1, 2))
    with pytest.raises(
        RuntimeError, match="the learning rate has 2 entries, but parameter 'y' has 3"
    ):
        opt.step()
    opt.set_learning_rate(0.5)
    assert opt["x"].numpy().tolist() == [1, 1]
    opt.step()
    assert opt["x"].numpy().tolist() == [0.5, 0.5]
    assert opt["y"].numpy().tolist() == [0.5, 1.5, 2.5]


# ---- Saving


def of_many_kinds(cls, options: dict) -> Optimizer:
    if cls is Muon:
        return cls(0.1, {"x": TensorXf([[1, 2], [3, 4]]), "h": TensorXf16([[1, 2, 3]])}, **options)
    params = {
        "layers.0.weights": TensorXf([[1, 2], [3, 4]]),
        "lr": Float16(1, 2, 3),
        "a": Array3f([1, 2], [3, 4], 5),
        "c": Complex2f(Float(1, 2), Float(3, 4)),
        "d": Float64(1, 2),
    }
    return cls(Float(0.1), params, **options)


def some_steps(opt: Optimizer) -> None:
    for i in range(3):
        for x in [opt[key] for key in opt]:
            parts = [x.real, x.imag] if dr.is_complex_v(x) else [x]
            for part in parts:
                dr.backward(dr.sum(part * part * (i + 1), axis=None))
        opt.step()


@BY_NAME
@pytest.mark.compiled_every(3)
def test_training_goes_on_bit_for_bit_from_a_saved_state(name: str, tier: str):
    cls, options = ALL[name]
    opt = of_many_kinds(cls, options)
    some_steps(opt)
    first = next(iter(opt))
    opt.set_learning_rate(**{first: 0.25})
    saved = opt.state_dict()
    copies = []
    for state in (saved, {k: np.array(v) for k, v in saved.items()}):
        copies.append(of_many_kinds(cls, options))
        copies[-1].load_state_dict(state)
    for o in (opt, *copies):
        some_steps(o)
    dr.eval([[*dict(o.items()).values(), *o.state_dict().values()] for o in (opt, *copies)])
    for other in copies:
        assert other.learning_rate(first) == 0.25
        assert type(other[first]) is type(opt[first])
        for key, value in opt.items():
            assert type(dict(other.items())[key]) is type(value)
            np.testing.assert_array_equal(np.array(dict(other.items())[key]), np.array(value))
        for key, value in opt.state_dict().items():
            np.testing.assert_array_equal(np.array(other.state_dict()[key]), np.array(value), key)


def test_states_that_do_not_fit():
    opt = Adam(0.1, {"x": Float(1, 2)})
    saved = opt.state_dict()
    what = r"dr\.opt\.Adam\.load_state_dict\(\)"
    for change, error, message in (
        ({"y.value": Float(1)}, KeyError, "unknown: y.value"),
        ({"x.value": Float(1, 2, 3)}, ValueError, r"'x.value' has the shape \(3,\)"),
        (
            {"x.first_moment": np.ones(2)},
            TypeError,
            "'x.first_moment' has the element type float64",
        ),
        ({"lr": "a"}, TypeError, "a learning rate must be"),
    ):
        with pytest.raises(error, match=f"{what}: .*{message}|{message}"):
            opt.load_state_dict(saved | {"x.steps": 5} | change)
        assert opt.state["x"][3][0] == 0
    del saved["x.second_moment"]
    with pytest.raises(KeyError, match=f"{what}: .*missing: x.second_moment"):
        opt.load_state_dict(saved)


# ---- The gradient scaler


def scaled_step(scaler: GradScaler, opt: Optimizer, factor: float) -> None:
    loss = dr.sum(dr.square(opt["x"])) * dr.opaque(Float, factor)
    dr.backward(scaler.scale(loss))
    scaler.step(opt)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_scaler(bad: float, tier: str, capsys: pytest.CaptureFixture):
    opt = SGD(0.25, {"x": Float(1, 2)}, momentum=0.5)
    exact = SGD(0.25, {"x": Float(1, 2)}, momentum=0.5)
    scaler = GradScaler(8.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=3, debug=True)
    assert (scaler.scale_factor, scaler.it) == (8.0, 0)
    history = []
    for i in range(9):
        overflow = i in (5, 6)
        scaled_step(scaler, opt, bad if overflow else 1.0)
        if not overflow:
            dr.backward(dr.sum(dr.square(exact["x"])))
            exact.step()
        np.testing.assert_allclose(opt["x"].numpy(), exact["x"].numpy(), rtol=1e-6)
        history.append((scaler.scale_factor[0], scaler.it[0]))
    assert history == [
        (8, 1), (8, 2), (8, 3), (24, 4), (72, 5), (18, 0), (4.5, 0), (4.5, 1), (4.5, 2)
    ]  # fmt: skip
    assert capsys.readouterr().out.splitlines() == [
        "GradScaler: increasing step size scale to [24]",
        "GradScaler: increasing step size scale to [72]",
        "GradScaler: detected overflow/NaN, reducing step size scale to [18]",
        "GradScaler: detected overflow/NaN, reducing step size scale to [4.5]",
    ]
    assert scaler.scale(Float(1))[0] == 4.5
    assert scaler.unscale(Float(9))[0] == 2


def test_one_bad_gradient_skips_all_parameters(tier: str):
    opt = SGD(0.5, {"x": Float(1, 2), "y": TensorXf([[1, 2]]), "h": Float16(1)})
    scaler = GradScaler(4.0)
    for _ in range(2):
        dr.backward(scaler.scale(dr.sum(opt["x"]) + dr.sum(opt["y"], axis=None).array))
        dr.backward(opt["h"] * dr.inf)
        scaler.step(opt)
    assert opt["x"].numpy().tolist() == [1, 2]
    assert np.array(opt["y"]).tolist() == [[1, 2]]
    assert scaler.scale_factor[0] == 1


def test_scaler_saves_small_gradients_of_half_precision():
    opt = SGD(1.0, {"x": Float16(1)})
    scaler = GradScaler()
    small = 2.0**-26
    dr.backward(scaler.scale(Float(opt["x"]) * small))
    scaler.step(opt)
    assert dict(opt.items())["x"][0] == np.float32(1) - np.float32(small)


def test_scaler_state():
    opt = SGD(0.5, {"x": Float(1)})
    scaler, other = GradScaler(8.0, growth_interval=1), GradScaler(growth_interval=1)
    for _ in range(2):
        scaled_step(scaler, opt, 1.0)
    other.load_state_dict(scaler.state_dict())
    assert (other.scale_factor, other.it) == (16, 2)
    for s in (scaler, other):
        scaled_step(s, opt, 1.0)
    assert (scaler.scale_factor[0], scaler.it[0]) == (other.scale_factor[0], other.it[0])
    with pytest.raises(KeyError, match="expected the entries 'scale_factor' and 'it', got"):
        other.load_state_dict({"scale": 1})


def test_scaler_errors():
    with pytest.raises(TypeError, match="expected an optimizer, not float"):
        GradScaler().step(1.0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the scaler itself determines active and grad_scale"):
        GradScaler().step(SGD(0.1), active=True, grad_scale=1)
    with pytest.raises(RuntimeError, match="'init_scale' must be > 0, not 0"):
        GradScaler(init_scale=0)
    with pytest.raises(RuntimeError, match=r"'growth_factor' must be >= 1, not 0\.5"):
        GradScaler(growth_factor=0.5)
    for factor in (0, 1):
        with pytest.raises(RuntimeError, match=r"'backoff_factor' must be in \(0, 1\), not"):
            GradScaler(backoff_factor=factor)
    GradScaler().step(SGD(0.1))


# ---- Costs


@pytest.mark.parametrize("name", [n for n in ALL if "Muon" not in n])
def test_a_step_is_one_kernel_that_is_compiled_once(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")
    cls, options = ALL[name]
    opt = cls(0.1, {"x": Float(np.arange(1, 18))}, **options)

    def step(rate):
        opt.set_learning_rate(rate)
        x = opt["x"]
        dr.set_grad(x, Float(np.ones(17)))
        opt.step()

    step(0.1)
    for i in range(4):
        history = launched(lambda i=i: step(0.1 / (i + 2)))
        assert len(history) == (2 if options.get("uniform") and not options.get("amsgrad") else 1)
        assert all(k["cache_hit"] for k in history)


@pytest.mark.parametrize("optimizer", [SGD, Adam, Muon])
def test_scaled_steps_compile_nothing_after_the_first(optimizer, monkeypatch):
    monkeypatch.setattr(variants, "pinned", "compiled")
    opt = optimizer(0.1, {"x": TensorXf([[1, 2], [3, 4]])})
    scaler = GradScaler(growth_interval=2)

    def step(factor):
        dr.backward(scaler.scale(dr.sum(dr.square(opt["x"]), axis=None).array) * factor)
        scaler.step(opt)

    for _ in range(2):
        step(dr.opaque(Float, 1.0))
    for factor in (1.0, np.inf, 1.0, 1.0, 1.0, 1.0):
        opaque = dr.opaque(Float, factor)
        assert all(k.get("cache_hit", True) for k in launched(lambda f=opaque: step(f)))


def test_hundreds_of_steps_keep_nothing(monkeypatch):
    # At once, not after some steps.
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")
    opt = Adam(1e-3, {"x": Float(np.ones(100))})
    scaler = GradScaler()

    def steps(n):
        for _ in range(n):
            scaled_step(scaler, opt, 1.0)
        dr.sync_thread()

    gc.disable()  # what is not freed at once is part of a cycle
    try:
        assert growth(lambda: steps(300), collect=False) < 20
    finally:
        gc.enable()


def test_the_module_is_imported_when_it_is_used():
    code = (
        "import drjit as dr, sys; before = 'drjit.opt' in sys.modules; "
        "print(before, dr.opt.Adam.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False Adam\n"
