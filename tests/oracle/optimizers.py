# ruff: noqa: F403, F405
"""Optimizers and the gradient scaler: options, learning rates, masks, assignments."""

import numpy as np

import drjit as dr
from drjit.llvm.ad import *
from drjit.opt import *

OPTIONS = {
    SGD: [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}],
    RMSProp: [{}, {"alpha": 0.9, "epsilon": 1e-3}, {"epsilon": 1e-6}],
    Adam: [
        {},
        {"beta_1": 0.8, "beta_2": 0.95, "epsilon": 1e-2},
        {"amsgrad": True, "beta_2": 0.8},
        {"uniform": True},
        {"amsgrad": True, "uniform": True, "beta_2": 0.8},
    ],
    AdamW: [{}, {"weight_decay": 0.1, "amsgrad": True}, {"weight_decay": 0.1, "uniform": True}],
    Muon: [
        {},
        {"momentum": 0.0, "nesterov": False},
        {"nesterov": False, "ns_steps": 3, "momentum": 0.8},
        {"weight_decay": 0.1},
        {"ns_steps": 0},
    ],
}
STEPS = 10
MODES = ("plain", "masked", "rates", "schedule", "scaled", "active")


np.set_printoptions(precision=6, linewidth=200)


def attempt(function):
    try:
        return function()
    except Exception as error:
        return type(error).__name__


def parameters(matrices):
    rng = np.random.default_rng(1)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    if matrices:
        return {
            "x": TensorXf(normal(4, 6)),
            "y": TensorXf(normal(6, 4)),
            "h": TensorXf16(normal(3, 4).astype(np.float16)),
            "unused": TensorXf(normal(2, 3)),
        }
    return {
        "x": Float(normal(17)),
        "y": Array3f(normal(3, 5)),
        "t": TensorXf(normal(5, 3)),
        "h": Float16(normal(7).astype(np.float16)),
        "d": Float64(normal(4).astype(np.float64)),
        "c": Complex2f(Float(normal(3)), Float(normal(3))),
        "unused": Float(normal(3)),
    }


def train(optimizer, options, mode):
    options = options | {"mask_updates": mode == "masked"}
    opt = optimizer(0.05, **options)
    opt.update(parameters(optimizer is Muon))
    if mode == "rates":
        opt.set_learning_rate(x=0.01, y=0.002)
    rng = np.random.default_rng(2)
    for i in range(STEPS):
        loss = Float64(0)
        for name in list(opt.keys()):
            if name == "unused":
                continue
            x = opt[name]
            shape = np.array(x).shape
            g = rng.standard_normal(shape) * 10 ** rng.uniform(-4, 1, shape)
            if mode == "masked":
                g *= rng.random(shape) < 0.6
            if dr.is_complex_v(x):
                term = dr.sum(x.real * Float(g)) - dr.sum(x.imag * Float(2 * g))
            else:
                term = dr.sum(x * type(x)(g.astype(np.array(x).dtype)), axis=None)
            loss = loss + Float64(term.array if dr.is_tensor_v(term) else term)
        dr.backward(loss)
        step = {}
        if mode == "schedule":
            opt.set_learning_rate(0.05 / (i + 1))
        if mode == "scaled":
            step["grad_scale"] = dr.opaque(Float, 0.25 + i)
        if mode == "active":
            step["active"] = dr.opaque(Bool, i % 3 != 1)
        opt.step(**step)
    print(" ".join(str(opt).split()), mode)
    for name, x in opt.items():
        every = np.array(x).ravel()
        norm = np.sqrt((np.abs(every.astype(complex)) ** 2).sum())
        print("", name, type(x).__name__, every[: len(every) // 2 : 2], norm)


def assignments():
    opt = Adam(0.1)

    def step():
        x = opt["x"]
        dr.backward(dr.sum(dr.square(x), axis=None))
        opt.step()
        print(type(opt["x"]).__name__, opt["x"], opt.learning_rate("x"))

    values = [
        Float(1, 2, 3),
        Float(4, 5, 6),
        TensorXf([4, 5, 6]),
        Float(4, 5),
        Float(4),
        TensorXf([[4], [5]]),
        TensorXf([[4, 5]]),
        Array2f(4, 5),
        Float16(4, 5),
        Float(4, 5),
    ]
    for value in values:
        opt["x"] = value
        step()
        opt.set_learning_rate(x=0.25)
    opt.reset("x")
    step()
    opt.reset()
    step()
    print(opt["x"] is opt["x"], dr.grad_enabled(opt["x"]), list(opt), "x" in opt, len(opt))
    opt.set_learning_rate({"x": 0.5})
    print(opt.learning_rate(), opt.learning_rate("x"), opt)
    opt.set_learning_rate({"x": None})
    print(opt.learning_rate(), opt.learning_rate("x"))
    opt.set_learning_rate(None)
    print(opt.learning_rate())


def errors():
    opt = Adam(0.1)
    for value in (1.0, UInt(1), Bool(True), "a", [Float(1)], None):
        print(attempt(lambda value=value: opt.__setitem__("x", value)))
    print(attempt(lambda: opt.__setitem__("x", Float([]))))
    print(attempt(lambda: opt["x"]), attempt(lambda: opt.__delitem__("x")))
    print(attempt(lambda: opt.reset("x")), attempt(lambda: opt.learning_rate("x")))
    print(attempt(lambda: opt.set_learning_rate(x=1.0)))
    wrong = [
        (SGD, {"momentum": -1}),
        (SGD, {"nesterov": True}),
        (RMSProp, {"alpha": 1}),
        (RMSProp, {"epsilon": -1}),
        (Adam, {"beta_1": 1}),
        (Adam, {"beta_2": -1}),
        (Adam, {"epsilon": -1}),
        (AdamW, {"weight_decay": -1}),
        (Muon, {"momentum": 1}),
    ]
    for optimizer, options in wrong:
        print(attempt(lambda optimizer=optimizer, options=options: optimizer(0.1, **options)))
    muon = Muon(0.1)
    for value in (Float(1), TensorXf([1]), TensorXf([[[1]]]), Matrix2f(1)):
        print(attempt(lambda value=value: muon.__setitem__("x", value)))


def scaling(optimizer, debug):
    scaler = GradScaler(8.0, growth_factor=3.0, backoff_factor=0.25, growth_interval=3, debug=debug)
    opt = optimizer(0.1, {"x": Float(1, 2, 3), "h": Float16(1, 1)})
    for i in range(12):
        factor = dr.opaque(Float, float("inf") if i in (5, 6, 10) else 1.0)
        loss = dr.sum(opt["x"] ** 2) * factor + dr.sum(Float(opt["h"]))
        dr.backward(scaler.scale(loss))
        scaler.step(opt)
        print(scaler.scale_factor, scaler.it, opt["x"], opt["h"])
    print(scaler.scale(Float(1, 2)), scaler.unscale(Float(1, 2)))


for optimizer, choices in OPTIONS.items():
    for k, options in enumerate(choices):
        # Every mode with the default options, and two of them with each of the others.
        for mode in MODES if not options else MODES[k % 3 :: 3]:
            train(optimizer, options, mode)
assignments()
errors()
for optimizer in (SGD, Adam, AdamW):
    scaling(optimizer, optimizer is SGD)
print(attempt(lambda: GradScaler(growth_factor=0.5)) in ("Exception", "RuntimeError"))
print(attempt(lambda: GradScaler(backoff_factor=2)) in ("Exception", "RuntimeError"))
