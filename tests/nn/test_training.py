"""Training as a whole: numbers of the reference after fifty steps, and what a step costs the host:
no waiting for the step before, no compiling, no growth of memory. Also what is said to those who
mix up networks, packed networks and optimizers.
"""

import ctypes
import gc
import importlib.util
from collections import Counter
from pathlib import Path

import native_kernels
import numpy as np
import pytest
from helpers import DEVICE, growth, standing_still

import drjit as dr
from drjit import nn
from drjit.auto.ad import Array2f, Array3f, Float, Float16, TensorXf, TensorXf16, Texture2f
from drjit.jit.cpu import kernel, memory, runtime, variants
from drjit.opt import Adam, GradScaler


def script(name):
    """A script that also runs under the reference, as a module."""
    spec = importlib.util.spec_from_file_location(
        name, Path(__file__).parents[1] / "oracle" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


oracle = script("training")


# What the reference (1.5.0) finds in fifty steps: the last loss, and evenly spaced ones of the
# entries that tests/oracle/training.py prints.
FIFTY_STEPS = {
    "single": {
        "loss": [0.051898],
        "parameters": [
            *(-0.005954, -0.039982, 0.172428, -0.153485, 0.069542),
            *(0.017393, -0.076476, 0.018515, 0.045236, 0.064265),
        ],
    },
    "half": {
        "loss": [0.057209],
        "parameters": [
            *(-0.012032, -0.046906, 0.156982, -0.141846, 0.069946),
            *(0.017746, -0.076843, 0.018585, 0.049194, 0.063721),
        ],
    },
    "hash": {
        "loss": [0.123426],
        "parameters": [
            *(-0.078918, -0.003035, -0.076906, -0.01083, 0.002512, -0.05443),
            *(-0.405889, -0.301201, -0.2443, -0.1613, -0.161939),
        ],
        "grid": [
            *(0.503728, 0.539275, 0.439287, 0.485297, 0.477586, 0.326214),
            *(0.41681, 0.483118, 0.473924, 0.426116, 0.44048),
        ],
    },
    "bias": {
        "loss": [0.108654],
        "parameters": [
            *(-0.040357, 0.003564, -0.081648, 0.181649, -0.211169, 0.228403),
            *(0.156197, -0.092262, 0.048748, 0.064757, -0.048361),
        ],
    },
}


# The same in two steps of 256 positions.
TWO_STEPS = {
    "single": {
        "loss": [0.379576],
        "parameters": [
            *(-0.045503, -0.079362, 0.124902, -0.098416, 0.081528),
            *(-0.008955, -0.063761, 0.027871, 0.03951, 0.072574),
        ],
    },
    "half": {
        "loss": [0.412857],
        "parameters": [
            *(-0.047424, -0.081177, 0.123352, -0.098755, 0.083374),
            *(-0.010948, -0.061768, 0.02977, 0.037537, 0.074524),
        ],
    },
    "hash": {
        "loss": [0.368958],
        "parameters": [
            *(-0.132376, -0.058498, -0.019162, -0.068842, -0.054136, 0.00228),
            *(-0.345898, -0.244002, -0.217, -0.104997, -0.104461),
        ],
        "grid": [
            *(-0.005328, 0.019814, 0.007414, 5.5e-05, -4.1e-05, 0.019734),
            *(-9.5e-05, 0.016687, 0.012997, -7.6e-05, 0.016827),
        ],
    },
    "bias": {
        "loss": [0.484642],
        "parameters": [
            *(-0.075426, -0.038761, -0.110225, 0.142009, -0.188104, 0.198366),
            *(0.197785, -0.118417, 0.05757, 0.101398, -0.001982),
        ],
    },
}

# Hours on an emulated device, and gigabytes.
LONG = [pytest.mark.processor] * (not DEVICE.on_host)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        *((name, 2) for name in TWO_STEPS),
        *(pytest.param(name, 50, marks=LONG) for name in FIFTY_STEPS),
    ],
)
def test_steps_agree_with_the_reference(name, steps):
    found = oracle.train(name, steps, grid=16 if steps == 2 else 64)
    tolerance = 5e-3 if name == "half" else 1e-3
    for key, expected in (TWO_STEPS if steps == 2 else FIFTY_STEPS)[name].items():
        every = max(1, len(found[key]) // 10)
        own = found[key][::every][:11]
        assert len(own) == len(expected)
        assert np.linalg.norm(own - expected) < tolerance * np.linalg.norm(expected), key


# What the reference finds in tests/oracle/quality.py, in decibels.
QUALITY = {
    ("tri", "single"): 12.829,
    ("tri", "half"): 12.757,
    ("sin", "single"): 12.897,
    ("sin", "half"): 12.814,
    ("hash", "single"): 20.456,
    ("hash", "half"): 19.497,
    ("permuto", "single"): 20.054,
    ("permuto", "half"): 19.261,
}
# Of the others, the example itself runs one.
QUICK = [("hash", "single"), ("permuto", "half")]


@pytest.mark.parametrize(
    ("encoding", "precision"),
    [
        pytest.param(*key, marks=LONG or [pytest.mark.sweep] * (key not in QUICK), id="-".join(key))
        for key in QUALITY
    ],
)
def test_pictures_become_as_good_as_those_of_the_reference(encoding, precision):
    found = script("quality").quality(encoding, precision)
    assert found == pytest.approx(QUALITY[encoding, precision], abs=0.3)


@pytest.mark.processor
@pytest.mark.parametrize("name", ["bias", "hash"])
def test_both_tiers_learn_the_same(name, monkeypatch):
    found = []
    for tier in ("numpy", "compiled"):
        monkeypatch.setattr(variants, "pinned", tier)
        found.append(oracle.train(name, steps=5))
    for key, value in found[0].items():
        np.testing.assert_allclose(value, found[1][key], rtol=1e-3, atol=1e-4)


class Training:
    """A network that learns a picture, one step a call."""

    def __init__(self, half=True, batch=4096):
        self.batch = batch
        self.rng = dr.rng(seed=1)
        cast = [nn.Cast(Float16)] if half else []
        layers = [nn.TriEncode(4, 0.2), *cast, nn.Linear(-1, 16), nn.LeakyReLU()]
        net = nn.Sequential(*layers, nn.Linear(-1, 3), nn.Exp())
        net = net.alloc(TensorXf16 if half else TensorXf, 2, rng=dr.rng(seed=0))
        self.net = nn.pack(net, layout="training")
        self.texture = Texture2f(TensorXf(oracle.image()))
        self.opt = Adam(lr=1e-3)
        self.opt.update(self.net)
        self.scaler = GradScaler()

    def step(self, factor=1.0):
        self.net.update(self.opt)
        p = self.rng.random(Array2f, (2, self.batch))
        difference = self.texture.eval(p) - Array3f(self.net(nn.CoopVec(p)))
        loss = dr.squared_norm(difference) * factor
        dr.backward(self.scaler.scale(loss))
        self.scaler.step(self.opt)
        return loss


@pytest.fixture
def gate():
    """Opens a gate: jobs queued after it wait until it is called."""
    flag = np.ones(1, "q")

    def close():
        flag[0] = 0
        params = (ctypes.c_int64 * 1)(flag.ctypes.data)
        runtime.launch(native_kernels.entry("gate"), params, 1, 1, keep=flag)

    yield close
    flag[0] = 1
    runtime.sync()


@pytest.mark.processor
@pytest.mark.parametrize("half", [True, False])
def test_a_step_does_not_wait_for_the_one_before(half, gate, monkeypatch):
    monkeypatch.setattr(variants, "pinned", "compiled")
    training = Training(half)
    for _ in range(3):
        training.step()
    dr.sync_thread()
    gate()

    def refuse(ticket):
        raise AssertionError("a step waits")

    with monkeypatch.context() as patched:
        patched.setattr(runtime, "_await", refuse)
        for _ in range(3):
            training.step()
    assert runtime.completed() < runtime.submitted


@pytest.mark.processor
def test_a_small_kernel_that_waits_for_the_queue_is_compiled(monkeypatch):
    monkeypatch.setattr(variants, "pinned", "auto")
    monkeypatch.setattr(kernel.CpuKernel, "is_cached", lambda self: False)
    clock = standing_still(monkeypatch)
    DEVICE.forget_kernels()  # others may have run this one

    def tiers():
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            dr.eval(dr.arange(Float, 17) * 3 - 0.125)
            return [entry["tier"] for entry in dr.kernel_history()]

    def wait(ticket=None):
        clock.now += 0.2

    dr.eval(dr.sqrt(dr.arange(Float, 1000)))
    assert tiers() == tiers() == ["numpy"]
    with monkeypatch.context() as patched:
        patched.setattr(runtime, "completed", lambda: -1)
        patched.setattr(runtime, "drain", wait)
        assert tiers() == ["numpy"]
    assert tiers() == ["compiled"]


@pytest.mark.parametrize("half", [True, False])
def test_steps_compile_nothing_whatever_the_learning_rate(half, tier):
    dr.flush_kernel_cache()
    training = Training(half, batch=256)
    factors = [dr.opaque(Float, factor) for factor in (1.0, 1.0, 1.0, dr.inf, 1.0, 1.0)]
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):  # for which fills are kernels too
        for factor in factors[:3]:
            training.step(factor)
        before = len(DEVICE.kernels())
        dr.kernel_history_clear()
        for i, factor in enumerate(factors):
            training.opt.set_learning_rate(1e-3 / (i + 1))
            training.step(factor)
        history = dr.kernel_history()
    assert len(DEVICE.kernels()) == before
    launches = Counter(entry["hash"] for entry in history)
    assert all(count % len(factors) == 0 for count in launches.values()), launches


def test_training_keeps_nothing(monkeypatch):
    monkeypatch.setattr(variants, "pinned", "compiled")
    training = Training(batch=4096 if DEVICE.on_host else 256)

    def used(steps=25 if DEVICE.on_host else 2):
        for _ in range(steps):
            training.step()
            dr.sync_thread()
        statistics = DEVICE.memory_statistics()
        return statistics["in_use"], statistics["in_use"] + statistics["pooled"]

    gc.disable()  # what is not freed at once is part of a cycle
    try:
        before = used()
        assert growth(used, collect=False) < 20
        assert used() == before
    finally:
        gc.enable()


@pytest.mark.processor
def test_the_host_is_not_far_ahead_with_memory_that_it_writes(gate, monkeypatch):
    size = memory.HOST_AHEAD // 16
    waited = []
    gate()
    monkeypatch.setattr(runtime, "_await", waited.append)
    for _ in range(16):
        memory.allocate(size, host=True)
        runtime.launch(None, 0, 0, 1)
    assert not waited
    start = memory.statistics()["misses"]
    memory.allocate(size, host=True)
    assert len(waited) == 1
    assert memory.statistics()["misses"] == start + 1


def test_a_loss_that_is_no_number_is_skipped_and_reported(capsys):
    training = Training(half=False, batch=256)
    training.scaler = GradScaler(debug=True)
    training.step()
    before, moments = training.opt["weights"].numpy(), training.opt.state_dict()
    loss = training.step(dr.nan)
    assert np.isnan(loss.numpy()).all()
    assert "detected overflow/NaN, reducing" in capsys.readouterr().out
    np.testing.assert_array_equal(training.opt["weights"].numpy(), before)
    for key in ("weights.first_moment", "weights.second_moment"):
        np.testing.assert_array_equal(training.opt.state_dict()[key].numpy(), moments[key].numpy())
    training.step()
    assert not np.array_equal(training.opt["weights"].numpy(), before)
    assert np.isfinite(training.opt["weights"].numpy()).all()


def network():
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(-1, 1))
    return net.alloc(TensorXf, 2, rng=dr.rng(seed=0))


def reverse_for_inference():
    net, opt = nn.pack(network(), layout="inference"), Adam(lr=1e-3)
    opt.update(net)
    net.update(opt)
    (y,) = net(nn.CoopVec(Array2f(1, 2)))
    dr.backward(dr.sum(y))


def update_with_another_shape():
    net, opt = network(), Adam(lr=1e-3)
    opt.update(net)
    opt["layers.0.weights"] = TensorXf([[1, 2]])
    net.update(opt)


MISTAKES = [
    (reverse_for_inference, RuntimeError, r"'inference'.*layout='training'"),
    (update_with_another_shape, ValueError, r"'layers.0.weights' has shape \(4, 2\), .*\(1, 2\)"),
    (lambda: network().update(nn.pack(network())), KeyError, "no parameter 'weights'; there is"),
    (lambda: nn.pack(network()).update(network()), KeyError, "there is 'weights'"),
    (lambda: network().update(3), TypeError, r"update\(\): expected a mapping.*got int"),
    (lambda: network().update("ab"), TypeError, r"update\(\): expected a mapping.*got str"),
    (lambda: Adam(1, network())["x"], KeyError, r"Adam: no parameter 'x'; there is 'layers.0.w"),
    (lambda: Adam(1).pop("x"), KeyError, "Adam: no parameter 'x'; there is none"),
    (lambda: Adam(1).set_learning_rate(x=1), KeyError, "Adam: no parameter 'x'"),
    (lambda: Adam(1).reset("x"), KeyError, "Adam: no parameter 'x'"),
]


@pytest.mark.parametrize(("call", "kind", "text"), MISTAKES)
def test_mistakes_are_explained(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
