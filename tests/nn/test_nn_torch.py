"""Parameters of networks under the names and in the shapes of PyTorch, and the exchange with it."""

import importlib.util

import numpy as np
import pytest

import drjit as dr
import drjit.nn as nn
from drjit.llvm.ad import Float, TensorXf, TensorXf16, TensorXf64

TYPES = [TensorXf16, TensorXf, TensorXf64]
needs_torch = pytest.mark.skipif(not importlib.util.find_spec("torch"), reason="needs PyTorch")
NAMES = ["0.weight", "0.bias", "2.0.weight", "3.weight", "3.bias"]
SHAPES = [(8, 2), (8,), (5, 8), (1, 5), (1,)]


def network(cls=TensorXf, layout=None, seed=0):
    inner = nn.Sequential(nn.Linear(8, 5, bias=False), nn.Tanh())
    net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), inner, nn.Linear(5, 1), prefix="net")
    net = net.alloc(cls, rng=dr.rng(seed=seed))
    return net if layout is None else nn.pack(net, layout=layout)


def outputs(net, x):
    """What a network makes of NumPy data of shape (2, N)."""
    cls = type(net["net.weights"] if "net.weights" in net else net["net.layers.0.bias"])
    if cls._kind == "tensor":
        return np.asarray(net(cls(x))).ravel()
    return np.asarray(next(iter(net(nn.CoopVec(*[cls(row) for row in x])))))


def values(rng):
    return {name: rng.normal(size=shape) for name, shape in zip(NAMES, SHAPES, strict=True)}


def expected(given, x):
    h = np.maximum(given["0.weight"] @ x + given["0.bias"][:, None], 0)
    h = np.tanh(given["2.0.weight"] @ h)
    return (given["3.weight"] @ h + given["3.bias"][:, None]).ravel()


@pytest.mark.parametrize("cls", TYPES)
@pytest.mark.parametrize("layout", [None, "training", "inference"])
@pytest.mark.parametrize("size", [1, 15, 17])
def test_names_shapes_and_values_in_both_directions(cls, layout, size):
    rng = np.random.default_rng(0)
    given, x = values(rng), rng.uniform(size=(2, size))
    net = network(cls, layout)
    assert net.load_state_dict(given) == ([], [])
    tolerance = 2e-2 if cls is TensorXf16 else 1e-5
    np.testing.assert_allclose(outputs(net, x), expected(given, x), atol=tolerance)
    found = net.state_dict()
    assert list(found) == NAMES
    assert [v.shape for v in found.values()] == SHAPES
    assert all(type(v) is cls and not dr.grad_enabled(v) for v in found.values())
    for name, value in given.items():
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(cls(value)))
    other = network(cls, "training", seed=1)
    other.load_state_dict(found)  # also from one network to another
    np.testing.assert_array_equal(*[np.asarray(n.state_dict()["3.weight"]) for n in (net, other)])


@pytest.mark.parametrize("layout", [None, "training"])
@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"0.bias": None}, KeyError, r"\(missing: '0.bias'\); it has '0.weight', '0.bias', '2.0"),
        ({"7.x": 1}, KeyError, r"\(unexpected: '7.x'\); it has '0.weight'"),
        ({"0.weight": np.zeros((2, 8))}, ValueError, r"'0.weight' has shape \(2, 8\), the netwo"
         r"rk's \(8, 2\). Matrices have the shape \(outputs, inputs\)"),
        ({"3.bias": np.zeros((1, 1))}, ValueError, r"'3.bias' has shape \(1, 1\), the network's"),
        ({"3.bias": 2}, ValueError, r"'3.bias' has shape \(\), the network's \(1,\)"),
        ({"3.bias": np.zeros(1, complex)}, TypeError, "'3.bias' cannot be converted to drjit"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_an_error_that_changes_nothing(layout, change, kind, text):
    net = network(layout=layout)
    before = {k: np.array(v) for k, v in net.state_dict().items()}
    given = values(np.random.default_rng(0)) | change
    given = {k: v for k, v in given.items() if v is not None}
    with pytest.raises(kind, match=text):
        net.load_state_dict(given)
    for k, v in net.state_dict().items():
        np.testing.assert_array_equal(np.asarray(v), before[k])


def test_names_that_differ_are_ignored_on_request():
    net = network()
    found = net.load_state_dict({"3.bias": [5], "extra": [1]}, strict=False)
    assert found == (["0.weight", "0.bias", "2.0.weight", "3.weight"], ["extra"])
    assert list(net["net.layers.3.bias"]) == [5]
    assert next(iter(net.state_dict(prefix="decoder."))) == "decoder.0.weight"
    net.load_state_dict({"decoder.3.bias": [6]}, strict=False, prefix="decoder.")
    assert list(net["net.layers.3.bias"]) == [6]


def test_a_network_without_parameters_says_so():
    with pytest.raises(KeyError, match=r"it has none; see Module.alloc\(\)"):
        nn.Linear(2, 1).load_state_dict({"weight": [[1, 2]]})
    assert nn.ReLU().load_state_dict({}) == ([], [])


def test_modules_of_ones_own_keep_the_names_of_fields():
    class Net(nn.Module):
        DRJIT_STRUCT = {"first": nn.Module, "layers": list, "scale": TensorXf}  # noqa: RUF012

        def __init__(self):
            self.first = nn.Linear(2, 3).alloc(TensorXf)
            self.layers = [nn.Linear(3, 3, bias=False).alloc(TensorXf)]
            self.scale = Float(1, 2)

    net = Net()
    assert list(net.state_dict()) == ["first.weight", "first.bias", "layers.0.weight", "scale"]
    net.load_state_dict(net.state_dict() | {"scale": np.array([3.0, 4.0])})
    assert type(net.scale) is Float and list(net.scale) == [3, 4]


@pytest.mark.parametrize("layout", [None, "training"])
def test_parameters_stay_differentiable(layout):
    net = network(layout=layout)
    dr.enable_grad(dict(net))
    net.load_state_dict(net.state_dict())
    assert all(dr.grad_enabled(v) for v in net.values())
    free = network(layout=layout)
    free.load_state_dict(net.state_dict())
    assert not any(dr.grad_enabled(v) for v in free.values())


def torch_network(torch, dtype):
    inner = torch.nn.Sequential(torch.nn.Linear(8, 5, bias=False), torch.nn.Tanh())
    layers = torch.nn.Linear(2, 8), torch.nn.ReLU(), inner, torch.nn.Linear(5, 1)
    return torch.nn.Sequential(*layers).to(dtype)


@needs_torch
@pytest.mark.parametrize("cls", TYPES)
@pytest.mark.parametrize("layout", [None, "training", "inference"])
def test_pytorch_computes_the_same(cls, layout):
    import torch

    dtype = {TensorXf16: torch.float16, TensorXf: torch.float32, TensorXf64: torch.float64}[cls]
    x = np.random.default_rng(0).uniform(size=(2, 17))
    theirs = torch_network(torch, dtype)
    ours = network(cls, layout)
    ours.load_state_dict(theirs.state_dict())
    tolerance = 2e-3 if cls is TensorXf16 else 1e-6
    with torch.no_grad():
        wanted = theirs(torch.tensor(x.T, dtype=dtype)).numpy().ravel()
        np.testing.assert_allclose(outputs(ours, x), wanted, atol=tolerance)
        back = torch_network(torch, dtype)
        back.load_state_dict({k: v.torch() for k, v in ours.state_dict().items()})
        found = back(torch.tensor(x.T, dtype=dtype)).numpy().ravel()
    np.testing.assert_array_equal(found, wanted)


@needs_torch
def test_parameters_and_bfloat16_of_pytorch():
    import torch

    layer, ours = torch.nn.Linear(2, 3), nn.Linear(2, 3).alloc(TensorXf)
    ours.load_state_dict(dict(layer.named_parameters()))  # they require gradients
    np.testing.assert_array_equal(np.asarray(ours["weights"]), layer.weight.detach().numpy())
    ours.load_state_dict(layer.to(torch.bfloat16).state_dict())
    wanted = layer.weight.detach().float().numpy()
    np.testing.assert_array_equal(np.asarray(ours["weights"]), wanted)
