"""Layers that normalize or omit features: against formulas in NumPy, for tensors and cooperative
vectors, with the names of PyTorch."""

import numpy as np
import pytest

import drjit as dr
from drjit import nn
from drjit.llvm import TensorXi
from drjit.llvm.ad import Float, Float16, TensorXf, TensorXf16, TensorXf64

X = np.random.default_rng(0).normal(size=(5, 7)) * [[1], [2], [3], [0.1], [1]]
WEIGHTS, BIAS = np.random.default_rng(1).normal(size=(2, 5))


def normalized(x, weights=WEIGHTS, bias=BIAS):
    x = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    return x * weights[:, None] + bias[:, None]


def layer(cls, *args, **kwargs):
    norm = nn.LayerNorm(*args, **kwargs).alloc(cls, 5)
    norm.load_state_dict({"weight": WEIGHTS, "bias": BIAS})
    return norm


def vector(cls, x):
    return nn.CoopVec(*[cls.Array(row) for row in x])


def features(v):
    return np.array([np.array(row) for row in v], np.float64)


@pytest.mark.parametrize(
    ("cls", "tolerance"), [(TensorXf, 1e-5), (TensorXf64, 1e-12), (TensorXf16, 1e-2)]
)
def test_normalization_agrees_with_its_formula(cls, tolerance, tier):
    norm = layer(cls)
    found = norm(cls(X))
    assert type(found) is cls
    np.testing.assert_allclose(np.array(found), normalized(X), tolerance, tolerance)
    one = norm(cls(X[:, 0]))
    assert one.shape == (5,)
    np.testing.assert_allclose(np.array(one), normalized(X)[:, 0], tolerance, tolerance)
    packed = nn.pack(norm, layout="training")
    found = packed(vector(cls, X))
    assert found.type is cls.Array
    np.testing.assert_allclose(features(found), normalized(X), tolerance, tolerance)


def test_half_precision_is_normalized_in_single_precision():
    x = 200 * X  # whose squares no half-precision number holds
    expected = normalized(np.array(TensorXf16(x), np.float64))
    np.testing.assert_allclose(np.array(layer(TensorXf16)(TensorXf16(x))), expected, 1e-2, 1e-2)
    packed = nn.pack(layer(TensorXf16))
    np.testing.assert_allclose(features(packed(vector(TensorXf16, x))), expected, 1e-2, 1e-2)


def test_parts_that_are_left_out():
    plain = nn.LayerNorm(elementwise_affine=False).alloc(TensorXf64, 5)
    assert list(plain) == []
    expected = normalized(X, np.ones(5), np.zeros(5))
    np.testing.assert_allclose(np.array(plain(TensorXf64(X))), expected, 1e-12)
    np.testing.assert_allclose(features(plain(vector(TensorXf64, X))), expected, 1e-12)
    scaled = nn.LayerNorm(5, bias=False).alloc(TensorXf64)
    assert list(scaled) == ["weights"]
    scaled.load_state_dict({"weight": WEIGHTS})
    expected = normalized(X, bias=np.zeros(5))
    np.testing.assert_allclose(np.array(scaled(TensorXf64(X))), expected, 1e-12)


def test_gradients_of_inputs_and_parameters():
    norm = layer(TensorXf64)
    weights, bias = TensorXf64(WEIGHTS), TensorXf64(BIAS)

    def f(x, weights, bias):
        norm.weights, norm.bias = weights, bias
        return norm(x) * weight

    weight = TensorXf64(np.cos(X[:, :2]))
    assert dr.check_grad(f, TensorXf64(X[:, :2]), weights, bias)
    gradients = []
    for packed in (False, True):
        norm = layer(TensorXf64)
        dr.enable_grad(norm)
        if packed:
            y = [*nn.pack(norm, layout="training")(vector(TensorXf64, X))]
            dr.backward(sum(v * v for v in y))
        else:
            dr.backward(dr.sum(dr.square(norm(TensorXf64(X)))))
        gradients.append([np.array(norm[k].grad) for k in ("weights", "bias")])
    y = normalized(X)
    expected = [(2 * y * normalized(X, np.ones(5), np.zeros(5))).sum(1), (2 * y).sum(1)]
    for found in gradients:
        np.testing.assert_allclose(found, expected, 1e-10)


def test_names_and_shapes_are_those_of_pytorch():
    net = nn.Sequential(nn.Linear(1, 5), nn.LayerNorm(), nn.Linear(5, 1)).alloc(TensorXf)
    shapes = {"0.weight": (5, 1), "0.bias": (5,), "1.weight": (5,), "1.bias": (5,)}
    shapes |= {"2.weight": (1, 5), "2.bias": (1,)}
    for n in (net, nn.pack(net)):
        saved = n.state_dict()
        assert {name: value.shape for name, value in saved.items()} == shapes
        assert n.load_state_dict(saved) == ([], [])


def test_mistakes_with_normalization_are_explained():
    with pytest.raises(ValueError, match="features must be at least 1, or -1"):
        nn.LayerNorm(0)
    with pytest.raises(TypeError, match=r"features must be an int, got 2\.5"):
        nn.LayerNorm(2.5)
    with pytest.raises(RuntimeError, match=r"the number of features of LayerNorm.* is unknown"):
        nn.LayerNorm().alloc(TensorXf)
    with pytest.raises(ValueError, match="needs 3 input features, but gets 4"):
        nn.LayerNorm(3).alloc(TensorXf, 4)
    with pytest.raises(RuntimeError, match="uninitialized network"):
        nn.LayerNorm(3)(TensorXf([1, 2, 3]))
    norm = nn.LayerNorm(3).alloc(TensorXf)
    with pytest.raises(ValueError, match="the layer has 3 features, but the input has 2"):
        norm(TensorXf([1, 2]))
    for wrong in (norm, nn.pack(norm)):
        given = nn.CoopVec(Float(1), 2, 3) if wrong is norm else TensorXf([1, 2, 3])
        with pytest.raises(RuntimeError, match="cooperative vectors need packed parameters"):
            wrong(given)
    for f in (norm, nn.Dropout()):
        for wrong in (Float(1), TensorXi([1, 2, 3]), 3):
            with pytest.raises(TypeError, match="expected a tensor of floating point numbers"):
                f(wrong)


# Dropout


def test_features_are_omitted_with_the_given_probability():
    drop = nn.Dropout(0.3, seed=3)
    n = 100_000
    for found in (drop(dr.ones(TensorXf, n)), *drop(nn.CoopVec(dr.ones(Float16, n), 1))):
        values = np.array(found, np.float64)
        assert {*np.unique(values).round(2)} == {0, 1.43}
        assert abs((values == 0).mean() - 0.3) < 0.01
    assert list(nn.Dropout(1)(TensorXf([1, dr.inf]))) == [0, 0]
    assert list(nn.Dropout(0)(TensorXf([1, 2]))) == [1, 2]


def test_every_call_draws_anew_and_a_seed_repeats():
    x = dr.ones(TensorXf, (8, 16))
    runs = [[np.array(f(x)) for _ in range(2)] for f in (nn.Dropout(seed=5), nn.Dropout(seed=5))]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(*runs[0])
    net = nn.Sequential(nn.Dropout(), nn.ReLU(), nn.Dropout()).alloc(TensorXf, 4)
    assert net.layers[0].seed != net.layers[2].seed
    again = nn.Sequential(nn.Dropout(), nn.ReLU(), nn.Dropout()).alloc(TensorXf, 4)
    assert net.layers[0].seed == again.layers[0].seed


def test_networks_switch_between_training_and_evaluation():
    inner = nn.Sequential(nn.Linear(2, 8), nn.Dropout())
    net = nn.Sequential(inner, nn.LayerNorm(), nn.Linear(-1, 1)).alloc(TensorXf)
    packed = nn.pack(net, layout="training")
    x = TensorXf([[1, 2], [3, 4]])
    v = nn.CoopVec(Float(1, 2), Float(3, 4))
    assert not np.array_equal(np.array(net(x)), np.array(net(x)))
    assert not np.array_equal(features(packed(v)), features(packed(v)))
    assert net.eval() is net
    expected = np.array(net(x))
    assert np.array_equal(expected, np.array(net(x)))
    np.testing.assert_allclose(features(packed.eval()(v)), expected, 1e-5)
    assert nn.pack(net).layers[0].layers[1].training is False
    net.train()
    assert not np.array_equal(np.array(net(x)), np.array(net(x)))


def test_gradients_pass_what_is_kept():
    x = dr.ones(TensorXf, 100)
    dr.enable_grad(x)
    y = nn.Dropout(0.2, seed=1)(x)
    dr.backward(dr.sum(y))
    np.testing.assert_array_equal(np.array(x.grad), np.array(y))


def test_frozen_steps_draw_anew():
    drop = nn.Dropout(seed=3)
    x = dr.ones(TensorXf, 32)
    wanted = [np.array(nn.Dropout.__call__(drop, x)) for _ in range(4)]
    for frozen in (dr.freeze(lambda f, x: f(x)), None):
        drop = nn.Dropout(seed=3)
        if frozen is None:
            closed = dr.freeze(lambda x: drop(x))  # noqa: B023
            found = [np.array(closed(x)) for _ in range(4)]
        else:
            found = [np.array(frozen(drop, x)) for _ in range(4)]
        np.testing.assert_array_equal(found, wanted)


def test_it_trains_with_an_optimizer():
    net = nn.Sequential(
        nn.Linear(1, 16), nn.LayerNorm(), nn.Tanh(), nn.Dropout(0.05), nn.Linear(16, 1)
    )
    net = net.alloc(TensorXf)
    opt = dr.opt.Adam(lr=0.02, params=net)
    x = dr.reshape(dr.linspace(TensorXf, -1, 1, 64), (1, 64))
    losses = []
    for _ in range(150):
        net.update(opt)
        loss = dr.mean(dr.square(net(x) - dr.sin(3 * x)))
        dr.backward(loss)
        opt.step()
        losses.append(float(loss))
    assert np.mean(losses[-20:]) < 0.15 * losses[0]


def test_probabilities_are_checked():
    with pytest.raises(ValueError, match=r"p must be in \[0, 1\], got 1.5"):
        nn.Dropout(1.5)
