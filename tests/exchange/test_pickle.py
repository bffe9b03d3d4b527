"""Functions, networks and optimizers that are sent to other processes."""

import copy
import pickle

import numpy as np
import pytest
import sweeping

import drjit as dr
import drjit.nn as nn
from drjit.llvm.ad import Float, TensorXf, TensorXf16
from drjit.opt import SGD, Adam, AdamW, GradScaler, Muon, RMSProp

again = [lambda v: pickle.loads(pickle.dumps(v)), copy.deepcopy]


@pytest.mark.parametrize("name", ["escape", "tile", "twice", "saxpy", "fitted"])
def test_functions_of_modules_are_found_by_their_name(name):
    function = getattr(sweeping, name)
    assert pickle.loads(pickle.dumps(function)) is function


def test_frozen_methods():
    method = pickle.loads(pickle.dumps(sweeping.Model().shifted))
    assert list(method(Float(1, 2))) == [2, 3]


def test_kernel_texts_keep_arguments_and_lines():
    text = "def twice(i, a, x, y):\n    store(f32, y, i, literal(f32, a) * load(f32, x, i))"
    made = pickle.loads(pickle.dumps(dr.kernel(text)))
    assert list(made(2, Float(1, 2))) == list(made(x=Float(1, 2), a=2)) == [2, 4]
    assert repr(made) == "<kernel twice(a: f32 number, x: f32 array) -> f32 array>"


def test_functions_of_the_main_program_with_cloudpickle():
    cloudpickle = pytest.importorskip("cloudpickle")
    factor = 3

    @dr.freeze(limit=2)
    def frozen(x):
        return x * factor

    @dr.kernel
    def scaled(i, a, x, y):
        store(f32, y, i, literal(f32, a) * load(f32, x, i) * factor)  # noqa: F821

    @dr.syntax
    def halved(x):
        while x > factor:
            x = x / 2
        return x

    def sent(v):
        return pickle.loads(cloudpickle.dumps(v))

    for _ in range(3):
        assert list(sent(frozen)(Float(1, 2))) == [3, 6]
    made = sent(frozen)
    for x in (Float(1, 2), Float(3, 4), Float(3, 4, 5)):
        made(x)
    assert made.n_recordings == 1 and made.n_cached_recordings == 1
    assert list(sent(scaled)(2, Float(1, 2))) == [6, 12]
    assert list(sent(halved)(Float(2, 5, 8))) == [2, 2.5, 2]


def test_namespaces_are_imported():
    for module in (dr.scalar, dr.llvm, dr.llvm.ad, dr.auto.ad):
        assert pickle.loads(pickle.dumps(module)) is module


@pytest.mark.parametrize("again", again)
@pytest.mark.parametrize("make", [SGD, Adam, AdamW, RMSProp])
@pytest.mark.parametrize("cls", [TensorXf, TensorXf16])
def test_optimizers_go_on_where_they_were(again, make, cls):
    def step(opt):
        dr.backward(dr.sum(dr.square(opt["x"].array)))
        opt.step()
        return np.array(opt["x"])

    opt = make(lr=0.1, params={"x": cls([[1, 2], [3, 4]])})
    opt.set_learning_rate(x=0.2)
    step(opt)
    other = again(opt)
    assert other.learning_rate("x") == 0.2
    for _ in range(2):
        np.testing.assert_array_equal(step(other), step(opt))


def test_an_optimizer_within_another():
    params = {"w": TensorXf([[1, 2], [3, 4]]), "b": TensorXf([1, 2])}

    def step(muon, adam):
        source = {**muon, **adam}
        dr.backward(dr.sum(dr.square((source["w"] @ source["b"]).array)))
        muon.step()
        adam.step()
        return np.array(muon["w"])

    pair = Muon(0.1, {"w": params["w"]}), Adam(0.1, {"b": params["b"]})
    step(*pair)
    other = pickle.loads(pickle.dumps(pair))
    np.testing.assert_array_equal(step(*other), step(*pair))


def test_a_shallow_copy_of_an_optimizer_has_the_same_variables():
    opt = SGD(0.5, {"x": Float(1, 2)})
    other = copy.copy(opt)
    dr.backward(dr.sum(other["x"]))
    assert list(opt["x"].grad) == [1, 1]


@pytest.mark.parametrize("again", again)
@pytest.mark.parametrize("layout", [None, "training", "inference"])
def test_networks_are_trained_on(again, layout):
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(-1, 1)).alloc(TensorXf)
    net = net if layout is None else nn.pack(net, layout=layout)

    def outputs(net):
        if layout is None:
            return np.array(net(TensorXf([[1, 2], [3, 4]]))).ravel()
        return np.array(next(iter(net(nn.CoopVec(Float(1, 2), Float(3, 4))))))

    other = again(net)
    # Whether the code of a kernel is optimized meanwhile decides about the last bit.
    np.testing.assert_allclose(outputs(other), outputs(net), rtol=1e-5)
    before = outputs(net)
    other.update({name: value * 2 for name, value in other.items()})  # one buffer for all layers
    assert not np.allclose(outputs(other), before, rtol=1e-5)
    np.testing.assert_allclose(outputs(net), before, rtol=1e-5)


def test_generators_and_scalers():
    rng, scaler = dr.rng(seed=3), GradScaler(init_scale=8)
    rng.random(Float, 5)
    other, factor = pickle.loads(pickle.dumps((rng, scaler)))
    np.testing.assert_array_equal(other.random(Float, 17), rng.random(Float, 17))
    assert factor.scale_factor == 8
