"""Layers and networks: values and gradients for tensors and cooperative vectors, allocation, and
what is raised.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from nn_networks import differences, evaluate, evaluated, inputs, model, network

import drjit as dr
import drjit.nn as nn
from drjit.llvm import TensorXf as DetachedTensorXf
from drjit.llvm.ad import (
    Array2f,
    Float,
    Float16,
    Float64,
    TensorXf,
    TensorXf16,
    TensorXf64,
    TensorXi,
    UInt,
    UInt64,
)

MODES = ("tensor", "vector")
DTYPES = {"half": TensorXf16, "single": TensorXf, "double": TensorXf64}
TOLERANCE = {TensorXf16: 4e-3, TensorXf: 2e-6, TensorXf64: 1e-12}


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# Activations with their definitions in NumPy.
ACTIVATIONS: dict[str, tuple[nn.Module, Callable[[np.ndarray], np.ndarray]]] = {
    "relu": (nn.ReLU(), lambda x: np.maximum(x, 0)),
    "leaky": (nn.LeakyReLU(), lambda x: np.where(x > 0, x, 0.01 * x)),
    "leaky steep": (nn.LeakyReLU(3), lambda x: np.where(x > 0, x, 3 * x)),
    "leaky negative": (nn.LeakyReLU(-0.5), lambda x: np.where(x > 0, x, -0.5 * x)),
    "exp": (nn.Exp(), np.exp),
    "exp2": (nn.Exp2(), np.exp2),
    "tanh": (nn.Tanh(), np.tanh),
    "sigmoid": (nn.Sigmoid(), sigmoid),
    "silu": (nn.SiLU(), lambda x: x * sigmoid(x)),
    "gelu": (
        nn.GELU(),
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
    "softplus": (nn.Softplus(), lambda x: np.log1p(np.exp(x))),
    "scale add": (nn.ScaleAdd(2, -1), lambda x: 2 * x - 1),
}


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


# ---- Activations


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.compiled_every(3)
def test_activations(name: str, dtype: Any, mode: str, tier: str):
    layer, f = ACTIVATIONS[name]
    for n in (1, 15, 17):
        x = inputs(3, n)
        y = evaluate(layer, dtype(x), mode)
        assert type(y) is dtype
        np.testing.assert_allclose(y.numpy(), f(x), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.compiled_every(5)
def test_gradients_of_activations(name: str, mode: str, tier: str):
    layer, f = ACTIVATIONS[name]
    points = inputs(2, 17)
    x = TensorXf64(points)
    dr.enable_grad(x)
    dr.backward(evaluate(layer, x, mode))
    np.testing.assert_allclose(dr.grad(x).numpy(), differences(f, points), atol=1e-8)
    x = TensorXf64(points)
    dr.enable_grad(x)
    y = evaluate(layer, x, mode)
    dr.forward(x)
    np.testing.assert_allclose(dr.grad(y).numpy(), differences(f, points), atol=1e-8)


@pytest.mark.parametrize("name", ["sigmoid", "silu", "gelu", "softplus", "tanh"])
def test_large_inputs_overflow_nowhere(name: str, mode: str):
    layer, _ = ACTIVATIONS[name]
    limits = {"sigmoid": (0, 1), "tanh": (-1, 1)}.get(name, (0, 1000))
    x = TensorXf([[-1000, 1000]])
    dr.enable_grad(x)
    y = evaluate(layer, x, mode)
    dr.backward(y)
    np.testing.assert_allclose(y.numpy(), [limits], atol=1e-6)
    slope = 0 if name in ("sigmoid", "tanh") else 1
    np.testing.assert_allclose(dr.grad(x).numpy(), [[0, slope]], atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        # The greater of two equal values is the second array, but the first cooperative vector.
        (nn.ReLU(), {"tensor": 0, "vector": 1}),
        (nn.LeakyReLU(0.25), {"tensor": 0.25, "vector": 0.25}),
        (nn.Softplus(), {"tensor": 0.5, "vector": 0.5}),
        (nn.SiLU(), {"tensor": 0.5, "vector": 0.5}),
    ],
)
def test_gradients_at_zero(layer: nn.Module, expected: dict[str, float], mode: str):
    x = TensorXf([[0.0]])
    dr.enable_grad(x)
    dr.backward(evaluate(layer, x, mode))
    assert dr.grad(x).numpy() == [[expected[mode]]]


def test_nan_passes_activations(mode: str):
    for layer, _ in ACTIVATIONS.values():
        assert np.isnan(evaluate(layer, TensorXf([[np.nan]]), mode).numpy())


def test_activations_take_arrays_and_numbers():
    assert nn.ReLU()(-3) == 0
    assert dr.all(nn.LeakyReLU(0.5)(Float(-1, 2)) == Float(-0.5, 2))
    assert dr.all(nn.ReLU()(Array2f(-1, 2)) == Array2f(0, 2), axis=None)


@pytest.mark.parametrize("packed", [False, True])
def test_slopes_scales_and_offsets_are_parameters(packed: bool, tier: str):
    net: Any = nn.Sequential(nn.LeakyReLU(Float(0.25)), nn.ScaleAdd(Float(3), Float(1)))
    names = ["layers.0.negative_slope", "layers.1.scale", "layers.1.offset"]
    assert list(net) == names
    if packed:
        net = nn.pack(net, layout="training")
        assert list(net) == ["weights"]
        np.testing.assert_array_equal(net["weights"].numpy(), [0.25, 3, 1])
    for value in net.values():
        dr.enable_grad(value)
    x = TensorXf([[-1, 2, -3]])
    y = evaluate(net, x, "vector" if packed else "tensor")
    np.testing.assert_allclose(y.numpy(), [[0.25, 7, -1.25]])
    dr.backward(y)
    found = np.concatenate([dr.grad(value).numpy() for value in net.values()])
    np.testing.assert_allclose(found, [-12, 1, 3])


# ---- Linear layers


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.compiled_every(5)
def test_linear_layers(dtype: Any, bias: bool, mode: str, tier: str):
    for columns, rows, n in ((1, 1, 1), (3, 5, 15), (17, 15, 17), (16, 16, 16), (2, 33, 4)):
        net = nn.Linear(columns, rows, bias).alloc(dtype)
        if bias:
            net["bias"] = inputs(rows, 1, 5)[:, 0]
        weights = net["weights"].numpy().astype(np.float64)
        x = inputs(columns, n)
        expected = weights @ x + (net["bias"].numpy()[:, None] if bias else 0)
        given = dtype(x)
        if mode == "tensor":
            y = net(given).numpy()
        else:
            vector = nn.pack(net)(nn.CoopVec(*[row.array for row in given]))
            y = np.stack([feature.numpy() for feature in evaluated(*vector)])
        assert y.dtype == given.numpy().dtype
        scale = np.abs(expected).max()
        np.testing.assert_allclose(y, expected, atol=4 * TOLERANCE[dtype] * scale)


@pytest.mark.parametrize("bias", [False, True])
def test_gradients_of_linear_layers(bias: bool, mode: str, tier: str):
    columns, rows, n = 5, 3, 17
    net = nn.Linear(columns, rows, bias).alloc(TensorXf64)
    points, seeds = inputs(columns, n), inputs(rows, n, 9)
    x = TensorXf64(points)
    dr.enable_grad(x, net)
    used = nn.pack(net, layout="training") if mode == "vector" else net
    dr.backward(evaluate(used, x, mode) * TensorXf64(seeds))
    weights = net["weights"].numpy()
    np.testing.assert_allclose(dr.grad(net["weights"]).numpy(), seeds @ points.T, rtol=1e-12)
    np.testing.assert_allclose(dr.grad(x).numpy(), weights.T @ seeds, rtol=1e-12)
    if bias:
        np.testing.assert_allclose(dr.grad(net["bias"]).numpy(), seeds.sum(1), rtol=1e-12)


def test_tensors_of_one_and_three_dimensions():
    net = nn.Linear(2, 3).alloc(TensorXf)
    net["bias"] = [1, 2, 3]
    weights, bias = net["weights"].numpy(), net["bias"].numpy()
    x = inputs(2, 5).astype(np.float32)
    np.testing.assert_allclose(net(TensorXf(x[:, 0])).numpy(), weights @ x[:, 0] + bias, rtol=1e-5)
    batch = np.stack([x, 2 * x])
    expected = weights @ batch + bias[:, None]
    np.testing.assert_allclose(net(TensorXf(batch)).numpy(), expected, rtol=1e-5)


# ---- Networks


def test_gradients_of_a_network(mode: str, tier: str):
    net = network(TensorXf64)
    values = [v.numpy() for v in net.values()]
    points = inputs(2, 7)
    dr.enable_grad(net)
    used = nn.pack(net, layout="training") if mode == "vector" else net
    y = evaluate(used, TensorXf64(points), mode)
    np.testing.assert_allclose(y.numpy(), model(values, points), rtol=1e-12)
    dr.backward(y)
    for i, value in enumerate(net.values()):

        def f(p: np.ndarray, i: int = i) -> np.ndarray:
            return model([*values[:i], p, *values[i + 1 :]], points)

        np.testing.assert_allclose(dr.grad(value).numpy(), differences(f, values[i]), atol=1e-8)


def test_no_points(mode: str, tier: str):
    net = nn.Sequential(nn.Linear(2, 3), nn.Softplus(), nn.SinEncode(1)).alloc(TensorXf)
    if mode == "tensor":
        assert net(TensorXf(np.zeros((2, 0)))).shape == (6, 0)
    else:
        assert [len(v) for v in nn.pack(net)(nn.CoopVec(Float(), Float()))] == [0] * 6


def test_both_modes_agree_in_half_precision(tier: str):
    net = network(TensorXf16)
    x = TensorXf16(inputs(2, 33))
    a = evaluate(net, x, "tensor").numpy().astype(np.float64)
    b = evaluate(nn.pack(net), x, "vector").numpy()
    np.testing.assert_allclose(a, b, rtol=4e-3)


def test_a_packed_network_in_a_larger_kernel(tier: str):
    net = nn.pack(network(TensorXf), layout="training")
    x, y = Float(inputs(1, 17)[0]), dr.arange(Float, 17) / 17
    weights = Float(net["weights"])
    dr.enable_grad(x, weights)
    net["weights"] = weights
    a, b, c = net(nn.CoopVec(dr.sin(x), y))
    loss = dr.sum(a * b - c * x)
    dr.backward(loss)
    packed = net["weights"].numpy().astype(np.float64)
    sizes = [(17, 2), (17,), (15, 17), (3, 15), (3,)]
    ends = np.cumsum([np.prod(s) for s in sizes])

    def f(x: np.ndarray) -> np.ndarray:
        parameters = [p.reshape(s) for p, s in zip(np.split(packed, ends), sizes, strict=False)]
        a, b, c = model(parameters, np.stack([np.sin(x), np.arange(17) / 17]))
        return a * b - c * x

    points = x.numpy().astype(np.float64)
    np.testing.assert_allclose(loss.numpy(), f(points).sum(), rtol=1e-5)
    np.testing.assert_allclose(dr.grad(x).numpy(), differences(f, points), atol=1e-5)
    assert np.abs(dr.grad(weights).numpy()).min() > 0


@dataclass
class Skip(nn.Module):
    """A layer of one's own: adds the input of a network to its output."""

    net: Any = None

    def _alloc(self, dtype: type, size: int, rng: Any) -> tuple["Skip", int]:
        net, size = self.net._alloc(dtype, size, rng)
        return Skip(net), size

    def __call__(self, arg: Any, /) -> Any:
        return self.net(arg) + arg


def test_layers_of_ones_own(mode: str, tier: str):
    inner = nn.Sequential(nn.Linear(-1, 5), nn.Tanh(), nn.Linear(-1, 3))
    net = nn.Sequential(Skip(inner), nn.Linear(-1, 1)).alloc(TensorXf, 3)
    names = ["layers.0.net.layers.0", "layers.0.net.layers.2", "layers.1"]
    assert list(net) == [f"{name}.{kind}" for name in names for kind in ("weights", "bias")]
    a, b, c, d, e, f = (v.numpy() for v in net.values())
    x = inputs(3, 7).astype(np.float32)
    expected = e @ (c @ np.tanh(a @ x + b[:, None]) + d[:, None] + x) + f[:, None]
    used = nn.pack(net) if mode == "vector" else net
    np.testing.assert_allclose(evaluate(used, TensorXf(x), mode).numpy(), expected, rtol=1e-4)


@dr.syntax
def repeated(net: Any, x: Any, n: Any) -> Any:
    i = UInt(0)
    while i < n:
        x = net(x)
        i += 1
    return x


def test_a_packed_network_as_part_of_a_loop(tier: str):
    net = nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(Float(0.5))).alloc(TensorXf)
    net["layers.0.bias"] = [1, -1]
    packed, points = nn.pack(net), inputs(2, 5).astype(np.float32)
    counts = np.array([3, 0, 1, 2, 7])
    expected = points.copy()
    for k, n in enumerate(counts):
        for _ in range(n):
            expected[:, k] = net(TensorXf(expected[:, k])).numpy()
    y = repeated(packed, nn.CoopVec(Float(points[0]), Float(points[1])), UInt(counts))
    np.testing.assert_allclose(Array2f(y).numpy(), expected, rtol=1e-5)
    assert list(packed) == ["weights"]


def test_casts(mode: str):
    net = nn.Sequential(nn.Cast(Float16), nn.Linear(-1, 3), nn.Cast(TensorXf64)).alloc(
        TensorXf16, 2
    )
    used = nn.pack(net, layout="training") if mode == "vector" else net
    x = TensorXf(inputs(2, 5))
    dr.enable_grad(x)
    if mode == "tensor":
        y = used(x)
        assert type(y) is TensorXf64
    else:
        vector = used(nn.CoopVec(x[0].array, x[1].array))
        assert vector.type is Float64
        y = TensorXf64(vector)
    dr.backward(y)
    expected = np.repeat(net["layers.1.weights"].numpy().astype(float).sum(0)[:, None], 5, 1)
    np.testing.assert_allclose(dr.grad(x).numpy(), expected, rtol=4e-3)


# ---- Allocation

# The initial weights of the reference, generator with seed 0 and the default one.
WEIGHTS = {
    "seed": """-0x1.5b66680000000p-3 0x1.14b1b60000000p-4 0x1.01c9540000000p-2
        -0x1.d926760000000p-4 0x1.60d29c0000000p-5 0x1.000f000000000p-5 0x1.ac731a0000000p-2
        0x1.40da920000000p-2 0x1.393c640000000p-2 -0x1.2454e40000000p-2 -0x1.55c1840000000p-4
        -0x1.02a4a80000000p-8 -0x1.ac1a540000000p-2 -0x1.38233a0000000p-4
        0x1.720eb60000000p-3""",
    "default": """-0x1.de38460000000p-4 -0x1.2c680e0000000p-2 -0x1.2c2a7a0000000p-2
        0x1.284cf60000000p-2 -0x1.2afdba0000000p-3 0x1.3436260000000p-2 -0x1.4d7e220000000p-2
        0x1.2f161a0000000p-2 -0x1.28f39a0000000p-5 -0x1.47e0020000000p-3 -0x1.400e0e0000000p-3
        0x1.e4cf9c0000000p-4 -0x1.441c5a0000000p-2 0x1.d077b20000000p-3 0x1.a4c47a0000000p-2""",
}


@pytest.mark.parametrize("which", WEIGHTS)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_initial_weights(which: str, dtype: Any, tier: str):
    rng = dr.rng(seed=0) if which == "seed" else None
    net = nn.Sequential(nn.Linear(3, 5), nn.Linear(-1, 2)).alloc(dtype, 3, rng)
    expected = np.array([float.fromhex(v) for v in WEIGHTS[which].split()]).reshape(5, 3)
    found = net["layers.0.weights"].numpy()
    np.testing.assert_array_equal(found, expected.astype(found.dtype))
    np.testing.assert_array_equal(net["layers.0.bias"].numpy(), np.zeros(5))
    # The next layer's come from the same stream, and are larger.
    assert 0.5 < np.abs(net["layers.1.weights"].numpy()).max() <= 2**-0.5


def test_layers_share_the_kernels_that_initialize_them(tier):
    def kernels(layers):
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            net = nn.Sequential(*layers).alloc(TensorXf16, 2)
            dr.eval(dict(net))
            return {entry["hash"] for entry in dr.kernel_history()}

    assert kernels([nn.Linear(-1, 2)]) == kernels([nn.Linear(-1, 2)] * 5 + [nn.Linear(-1, 400)])


def test_layers_are_initialized_in_a_symbolic_loop():
    def body(i, x, rng):
        weights = nn.Linear(1, 1, False).alloc(TensorXf, rng=rng).weights
        return i + 1, x + weights.array, rng

    def run(mode):
        state = UInt(0), Float(0), dr.rng(seed=UInt64(7))
        return dr.while_loop(state, lambda i, *_: i < 3, body, mode=mode)[1][0]

    assert run("symbolic") == run("evaluated") != 0


def test_allocation_makes_a_copy():
    net = nn.Sequential(nn.Linear(-1, 2))
    first = net.alloc(TensorXf, 2)
    assert list(net) == []
    second = first.alloc(TensorXf, 2, rng=dr.rng(seed=1))
    assert np.all(first["layers.0.weights"].numpy() != second["layers.0.weights"].numpy())
    assert type(nn.Linear(2, 3).alloc(DetachedTensorXf)["weights"]) is DetachedTensorXf


def test_sizes_follow_from_the_input():
    layers = [nn.Linear(-1, -1), nn.Tanh(), nn.Linear(-1, 3), nn.ReLU(), nn.Linear(-1, -1)]
    net = nn.Sequential(*layers).alloc(TensorXf, 5)
    shapes = [v.shape for k, v in net.items() if k.endswith("weights")]
    assert shapes == [(5, 5), (3, 5), (3, 3)]


L = nn.Linear
ALLOCATIONS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: L(-1, 3).alloc(TensorXf), RuntimeError, "input features of Linear.* is unknown"),
    (
        lambda: nn.Sequential(nn.TriEncode(2), L(-1, 3)).alloc(TensorXf),
        RuntimeError,
        "input features of Linear.* is unknown",
    ),
    (
        lambda: nn.Sequential(L(2, 3), L(4, 3)).alloc(TensorXf, 2),
        ValueError,
        r"Linear\(in_features=4, out_features=3\) needs 4 input features, but gets 3",
    ),
    (lambda: L(2, 3).alloc(TensorXf, 4), ValueError, "needs 2 input features, but gets 4"),
    (lambda: L(-1, 3).alloc(TensorXf, 0), ValueError, "needs at least 1 input features"),
    (lambda: L(2, 3).alloc(Float, 2), TypeError, "Tensor type .* got drjit.llvm.ad.Float$"),
    (lambda: L(2, 3).alloc(TensorXi, 2), TypeError, "Tensor type .* got drjit.llvm.ad.TensorXi$"),
    (lambda: L(2, 3).alloc(float, 2), TypeError, "Tensor type .* got float$"),
    (lambda: L(2, 3).alloc(None, 2), TypeError, "Tensor type .* got None$"),
    (lambda: L(2, 3).alloc(TensorXf, 2.0), TypeError, "size must be an int, got 2.0"),
    (lambda: L(2, 3).alloc(TensorXf, 2, 3), TypeError, r"as dr\.rng\(\) makes one, got int"),
    (lambda: L(0, 3), ValueError, "in_features must be at least 1, or -1"),
    (lambda: L(2, -2), ValueError, "out_features must be at least 1, or -1"),
    (lambda: L(2.5, 3), TypeError, "in_features must be an int, got 2.5"),
    (lambda: nn.Sequential(L(2, 3), 3), TypeError, "argument 1 must be a module .* got int"),
    (lambda: nn.Sequential([L(2, 3)]), TypeError, "argument 0 must be a module .* got list"),
    (lambda: nn.Sequential(prefix=3), TypeError, "prefix must be a string, got 3"),
    (lambda: nn.Cast(3), TypeError, "dtype must be an array type such as Float16, got 3"),
]


@pytest.mark.parametrize(("call", "kind", "text"), ALLOCATIONS)
def test_what_cannot_be_made(call: Callable[[], Any], kind: type[Exception], text: str):
    with pytest.raises(kind, match=text):
        call()


def vector(*sizes: int) -> Any:
    return nn.CoopVec(*[Float(*range(n)) for n in sizes])


def allocated() -> Any:
    return L(2, 3).alloc(TensorXf)


CALLS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: L(2, 3)(TensorXf([[1], [2]])), RuntimeError, r"uninitialized network.*net\.alloc\("),
    (lambda: L(2, 3)(vector(1, 1)), RuntimeError, "uninitialized network"),
    (lambda: allocated()(vector(1, 1)), RuntimeError, r"packed weights.*drjit\.nn\.pack\("),
    (lambda: nn.pack(allocated())(TensorXf([[1], [2]])), RuntimeError, r"weights are packed"),
    (lambda: nn.pack(allocated())(vector(1)), ValueError, "has 2 input features, .* has 1"),
    (
        lambda: allocated()(TensorXf([[1, 2, 3]])),
        ValueError,
        r"has 2 input features, but the input, of shape \(1, 3\), has 1",
    ),
    (lambda: allocated()(TensorXf(1.0)), ValueError, "without dimensions"),
    (
        lambda: allocated()(TensorXf16([[1], [2]])),
        TypeError,
        r"drjit\.llvm\.ad\.TensorXf, the input of type .*TensorXf16\..*nn\.Cast\(TensorXf\)",
    ),
    (
        lambda: nn.pack(allocated())(nn.CoopVec(Float16(1), 2)),
        TypeError,
        r"nn\.Cast\(Float\)",
    ),
    (lambda: allocated()(Array2f(1, 2)), TypeError, r"tensor of shape \(2, N\) or a .*Array2f"),
    (lambda: allocated()([1, 2]), TypeError, "or a cooperative vector, got list"),
    (lambda: allocated()(np.ones((2, 3))), TypeError, "got numpy.ndarray"),
    (lambda: nn.ScaleAdd()(TensorXf([1])), RuntimeError, "both a scale and an offset"),
    (lambda: nn.ScaleAdd(2)(TensorXf([1])), RuntimeError, "both a scale and an offset"),
    (lambda: nn.Cast()(TensorXf([1])), TypeError, "made without a type"),
    (lambda: nn.Module()(3), NotImplementedError, r"drjit\.nn\.Module: .* no __call__"),
]


@pytest.mark.parametrize(("call", "kind", "text"), CALLS)
def test_what_cannot_be_evaluated(call: Callable[[], Any], kind: type[Exception], text: str):
    with pytest.raises(kind, match=text):
        call()


def test_an_assigned_parameter_is_the_very_object_if_its_type_fits():
    net = nn.Sequential(L(2, 3), nn.Tanh()).alloc(TensorXf, 2)
    weights, bias = TensorXf([[1, 2], [3, 4], [5, 6]]), TensorXf([1, 2, 3])
    net["layers.0.weights"] = weights
    net.update({"layers.0.bias": bias})
    assert net["layers.0.weights"] is net.layers[0].weights is weights
    assert net.layers[0].bias is bias
    optimizer = dr.opt.Adam(0.1, net)
    net.update(optimizer)
    assert net.layers[0].weights is optimizer["layers.0.weights"]
    net["layers.0.weights"] = TensorXf16(weights)
    assert type(net.layers[0].weights) is TensorXf
