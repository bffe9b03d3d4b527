"""Modules as mappings and PyTrees: names, assignments, updates, packing, copies, printing."""

import copy
import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from nn_networks import evaluate, inputs, network

import drjit as dr
import drjit.nn as nn
from drjit.llvm.ad import (
    Array3f,
    Float,
    Float16,
    TensorXf,
    TensorXf16,
    TensorXf64,
    UInt,
)
from drjit.opt import Adam

# ---- The mapping


def test_names():
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(-1, 1)).alloc(TensorXf16, 2)
    names = ["layers.0.weights", "layers.0.bias", "layers.2.weights", "layers.2.bias"]
    assert list(net.keys()) == list(net) == names
    assert [v.shape for v in net.values()] == [(4, 2), (4,), (1, 4), (1,)]
    assert len(net) == 4
    assert "layers.0.bias" in net
    assert "layers.0" not in net
    assert 3 not in net
    assert net.get("other", 5) == 5
    assert dict(net.items())["layers.2.bias"] is net["layers.2.bias"]


def test_prefixes():
    inner = nn.Sequential(nn.Linear(2, 3), prefix="inner")
    net = nn.Sequential(inner, nn.Linear(-1, 4, bias=False), prefix="outer").alloc(TensorXf, 2)
    assert list(net) == [
        "outer.layers.0.layers.0.weights",
        "outer.layers.0.layers.0.bias",
        "outer.layers.1.weights",
    ]
    assert list(nn.pack(net)) == ["outer.weights"]
    assert list(net.layers[0]) == ["inner.layers.0.weights", "inner.layers.0.bias"]


class Custom(nn.Module):
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {
        "listed": list,
        "table": dict,
        "pair": tuple,
        "vector": Array3f,
        "count": UInt,
        "number": float,
        "net": nn.Module,
        "prefix": str,
    }

    def __init__(self) -> None:
        self.listed = [Float(1), 2]
        self.table = {"x": Float(3), 5: Float(4)}
        self.pair = (Float(5), (Float(6),))
        self.vector = Array3f(1, 2, 3)
        self.count = UInt(7)
        self.number = 0.5
        self.net = nn.Linear(1, 1, bias=False).alloc(TensorXf)
        self.prefix = "my"
        self.other = Float(8)


def test_parameters_in_containers_of_modules_of_ones_own():
    net = Custom()
    names = ["listed.0", "table.x", "table.5", "pair.0", "pair.1.0", "vector", "count"]
    assert list(net) == [f"my.{name}" for name in (*names, "net.weights")]
    net.update(dict.fromkeys(net, 9))
    for value in net.values():
        assert dr.all(value == 9, axis=None)
    assert type(net.pair) is tuple
    assert type(net["my.count"]) is UInt
    assert net.number == 0.5
    assert repr(net) == "Custom()"


class Pair(NamedTuple):
    first: Any
    second: Any


class Chain(tuple[Any, ...]):
    """A tuple with a constructor of its own."""

    name: str

    def __new__(cls, *args: Any, name: str = "") -> "Chain":
        made = super().__new__(cls, args)
        made.name = name
        return made


class Stack(list[Any]):
    """A list with a constructor of its own."""

    def __init__(self, *args: Any) -> None:
        super().__init__(args)


class Table(dict[str, Any]):
    """A dictionary with a constructor of its own."""

    def __init__(self, **entries: Any) -> None:
        super().__init__(entries)


@dataclass
class Fields:
    x: Any


class Holder(nn.Module):
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"parts": object}

    def __init__(self, parts: Any = None) -> None:
        self.parts = parts


def _layer() -> nn.Module:
    return nn.Linear(1, 1, bias=False).alloc(TensorXf)


CONTAINERS: dict[str, tuple[Any, list[str]]] = {
    "list": (lambda x: Stack(x(), x()), ["0", "1"]),
    "tuple": (lambda x: Chain(x(), x(), name="own"), ["0", "1"]),
    "named tuple": (lambda x: Pair(x(), x()), ["0", "1"]),
    "dictionary": (lambda x: Table(a=x(), b=x()), ["a", "b"]),
    "default dictionary": (lambda x: defaultdict(list, a=x(), b=x()), ["a", "b"]),
    "ordered dictionary": (lambda x: OrderedDict(a=x(), b=x()), ["a", "b"]),
    "nested": (lambda x: Stack(Table(a=Chain(x())), Pair(x(), [x()])), ["0.a.0", "1.0", "1.1.0"]),
}


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("of_modules", [False, True])
def test_parameters_in_containers_of_any_class(kind: str, of_modules: bool):
    make, names = CONTAINERS[kind]
    net = Holder(make(_layer if of_modules else lambda: Float(3)))
    names = [f"parts.{name}{'.weights' * of_modules}" for name in names]
    assert list(net) == names
    assert list(Adam(1e-2, params=net)) == names
    before = net.parts
    net.update(dict.fromkeys(names, 9))
    assert [float(dr.ravel(v)[0]) for v in net.values()] == [9] * len(names)
    assert type(net.parts) is type(before)
    assert vars(net.parts) == vars(before) if hasattr(before, "__dict__") else True
    if of_modules or not isinstance(before, tuple):
        assert net.parts is before
    assert net.alloc(TensorXf).parts is net.parts


def test_a_buffer_is_found_wherever_a_network_was_packed():
    net = nn.pack(Holder([Fields(TensorXf([1, 2])), {"b": TensorXf([3])}]), layout="training")
    assert list(net) == ["weights"]
    net["weights"] = Float(4, 5, 6)
    assert dr.all(TensorXf(nn.unpack(net).parts[0].x) == TensorXf([[4], [5]]), axis=None)
    assert list(Holder(Stack(_layer(), nn.pack(_layer())))) == ["parts.0.weights", "weights"]


def test_values_are_converted():
    net = nn.Sequential(nn.Linear(2, 3)).alloc(TensorXf16, 2)
    for value in (
        TensorXf([1, 2, 3]),
        TensorXf64([1, 2, 3]),
        Float(1, 2, 3),
        UInt(1, 2, 3),
        np.array([1, 2, 3]),
        [1, 2, 3],
    ):
        net["layers.0.bias"] = 0
        net["layers.0.bias"] = value
        assert type(net["layers.0.bias"]) is TensorXf16
        np.testing.assert_array_equal(net["layers.0.bias"].numpy(), [1, 2, 3])
    net["layers.0.weights"] = 2
    np.testing.assert_array_equal(net["layers.0.weights"].numpy(), np.full((3, 2), 2))


def test_what_is_assigned_is_the_parameter_itself_but_for_packed_ones():
    net = nn.Sequential(nn.Linear(2, 3)).alloc(TensorXf, 2)
    value = TensorXf([1, 2, 3])
    net["layers.0.bias"] = value
    assert net.layers[0].bias is value
    packed = nn.pack(net)
    buffer = dr.zeros(Float, 9)
    packed["weights"] = buffer
    buffer += 1
    np.testing.assert_array_equal(packed["weights"].numpy(), np.zeros(9))


@pytest.mark.parametrize("packed", [False, True])
def test_gradients_reach_what_was_assigned(packed: bool):
    net: Any = nn.Linear(2, 3, bias=False).alloc(TensorXf16)
    net = nn.pack(net, layout="training") if packed else net
    master = (Float if packed else TensorXf)(net["weights"]) * 1
    dr.enable_grad(master)
    net.update({"weights": master})
    assert dr.grad_enabled(net["weights"])
    x = TensorXf16([[1, 2], [3, 4]])
    dr.backward(evaluate(net, x, "vector" if packed else "tensor"))
    assert type(dr.grad(master)) is type(master)
    np.testing.assert_array_equal(dr.grad(master).numpy().ravel(), [3, 7] * 3)


def state(net: nn.Module) -> dict[str, list]:
    return {key: value.numpy().tolist() for key, value in net.items()}


MAPPINGS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda n: n["other"], KeyError, r"no parameter 'other'; there is 'layers\.0\.weights'"),
    (lambda n: n[3], KeyError, "no parameter 3;"),
    (lambda n: n.__setitem__("other", Float(1)), KeyError, "no parameter 'other'"),
    (
        lambda n: n.__setitem__("layers.0.weights", TensorXf([[1, 2, 3]])),
        ValueError,
        r"'layers\.0\.weights' has shape \(3, 2\), the value has shape \(1, 3\)",
    ),
    (
        lambda n: n.__setitem__("layers.0.weights", dr.arange(Float, 6)),
        ValueError,
        r"has shape \(3, 2\), the value has shape \(6,\)",
    ),
    (
        lambda n: n.__setitem__("layers.0.bias", None),
        TypeError,
        r"'layers\.0\.bias' of type drjit\.llvm\.ad\.TensorXf cannot be assigned .* NoneType",
    ),
    (lambda n: n.__setitem__("layers.0.bias", "text"), TypeError, "a value of type str"),
    (lambda n: n.__delitem__("layers.0.bias"), TypeError, "'layers.0.bias' cannot be deleted"),
    (lambda n: n.pop("layers.0.bias"), TypeError, "cannot be deleted"),
    (lambda n: n.popitem(), TypeError, "cannot be deleted"),
    (lambda n: n.clear(), TypeError, "cannot be deleted"),
    (
        lambda n: n.update({"layers.0.bias": TensorXf([4, 5, 6]), "other": 1}),
        KeyError,
        r"Sequential\.update\(\): no parameter 'other'; there is",
    ),
    (
        lambda n: n.update({"layers.0.bias": TensorXf([4, 5, 6]), "layers.0.weights": Float(1)}),
        ValueError,
        r"update\(\): the parameter 'layers\.0\.weights' has shape",
    ),
    (
        lambda n: n.update([("layers.0.bias", 4), ("layers.0.weights", None)]),
        TypeError,
        "NoneType",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), MAPPINGS)
def test_what_the_mapping_refuses_changes_nothing(
    call: Callable[[Any], Any], kind: type[Exception], text: str
):
    net = nn.Sequential(nn.Linear(2, 3)).alloc(TensorXf, 2)
    before = state(net)
    with pytest.raises(kind, match=text):
        call(net)
    assert state(net) == before


def test_updates():
    net = nn.Sequential(nn.Linear(1, 2)).alloc(TensorXf, 1)
    net.update({"layers.0.bias": TensorXf([4, 5])})
    assert state(net)["layers.0.bias"] == [4, 5]
    net.update([("layers.0.bias", [1, 2])], **{"layers.0.weights": [[7], [8]]})
    assert state(net) == {"layers.0.weights": [[7], [8]], "layers.0.bias": [1, 2]}
    net.update({})
    net.update()
    other = nn.Sequential(nn.Linear(1, 2)).alloc(TensorXf16, 1)
    other.update(net)
    assert state(other) == state(net)


@pytest.mark.parametrize("packed", [False, True])
def test_a_network_with_a_prefix_passes_over_what_is_of_others(packed: bool):
    net: Any = network(TensorXf, prefix="mlp")
    net = nn.pack(net) if packed else net
    values = {key: 2 * value for key, value in net.items()}
    shared = {"enc.params": Float(1, 2), **values, "mlp2.weights": Float(3)}
    net.update(shared)
    for key, value in net.items():
        np.testing.assert_array_equal(value.numpy(), values[key].numpy())
    with pytest.raises(KeyError, match=r"no parameter 'mlp\.other'; there is 'mlp\."):
        net.update({**shared, "mlp.other": Float(1)})
    with pytest.raises(KeyError, match=r"no parameter 'enc\.params'; there is 'mlp\."):
        net.update({"enc.params": Float(1)})


def test_long_messages_are_cut():
    net = nn.Sequential(*[nn.Linear(1, 1) for _ in range(20)]).alloc(TensorXf, 1)
    with pytest.raises(KeyError, match=r"'layers\.2\.bias' and 34 more"):
        net["other"]


def test_modules_are_equal_to_themselves_only():
    a, b = network(TensorXf), network(TensorXf)
    assert a == a
    assert a != b
    assert len({a, b, a}) == 2
    assert bool(a)


# ---- Packing


@pytest.mark.parametrize("layout", ["inference", "training"])
def test_a_packed_network_is_one_entry(layout: Any):
    net = network(TensorXf16)
    packed = nn.pack(net, layout=layout)
    assert isinstance(packed, nn.Sequential)
    assert list(packed) == ["weights"]
    assert type(packed["weights"]) is Float16
    flat = np.concatenate([v.numpy().ravel() for v in net.values()])
    np.testing.assert_array_equal(packed["weights"].numpy(), flat)
    assert packed["weights"] is packed.layers[0].weights.buffer
    assert len(net) == 5
    with pytest.raises(ValueError, match=r"'weights' has shape \(354,\), the value .* \(353,\)"):
        packed["weights"] = dr.zeros(Float, 353)
    with pytest.raises(KeyError, match=r"no parameter 'layers\.0\.weights'; there is 'weights'"):
        packed["layers.0.weights"]
    with pytest.raises(TypeError, match="cannot be deleted"):
        del packed["weights"]
    unpacked = nn.unpack(packed)
    for name, view in (("0", unpacked.layers[0]), ("2", unpacked.layers[2])):
        expected = net[f"layers.{name}.weights"].numpy()
        np.testing.assert_array_equal(TensorXf16(view.weights).numpy(), expected)


def test_layers_without_parameters_stay_as_they_are():
    net = nn.pack(nn.Sequential(nn.ReLU(), nn.Cast(Float16)).alloc(TensorXf, 2))
    assert list(net) == []
    assert nn.pack(nn.ReLU())(-1) == 0


def test_networks_that_are_packed_together_have_buffers_of_their_own():
    a, b = network(TensorXf, prefix="a"), network(TensorXf16, prefix="b")
    matrix = TensorXf([[1, 2], [3, 4]])
    packed_a, view, packed_b = nn.pack(a, matrix, b, layout="training")
    assert list(packed_a) == ["a.weights"]
    assert list(packed_b) == ["b.weights"]
    assert len(packed_a["a.weights"]) == len(packed_b["b.weights"]) == 354
    assert len(view.buffer) == 4


def test_packing_can_be_differentiated(tier: str):
    net = network(TensorXf)
    dr.enable_grad(net)
    x = TensorXf(inputs(2, 17))
    dr.backward(evaluate(net, x, "tensor"))
    expected = {key: dr.grad(value).numpy() for key, value in net.items()}
    dr.clear_grad(net)
    dr.backward(evaluate(nn.pack(net, layout="training"), x, "vector"))
    for key, value in net.items():
        np.testing.assert_allclose(dr.grad(value).numpy(), expected[key], rtol=1e-4, atol=1e-5)


def test_the_layout_for_inference_has_no_gradients_of_weights():
    net = nn.pack(network(TensorXf))
    dr.enable_grad(net["weights"])
    with pytest.raises(RuntimeError, match=r"'inference'.*layout='training'"):
        dr.backward(evaluate(net, TensorXf(inputs(2, 3)), "vector"))


# ---- PyTrees


def test_modules_are_trees(tier: str):
    for net in (network(TensorXf, prefix="p"), nn.pack(network(TensorXf), layout="training")):
        before = state(net)
        dr.enable_grad(net)
        assert all(dr.grad_enabled(v) for v in net.values())
        detached = dr.detach(net)
        assert type(detached) is nn.Sequential
        assert repr(detached) == repr(net)
        assert not any(dr.grad_enabled(v) for v in detached.values())
        assert state(detached) == before
        dr.make_opaque(net)
        assert dr.eval(net) is False
        dr.backward(sum(dr.sum(v * v, axis=None) for v in net.values()))
        for key, value in before.items():
            np.testing.assert_allclose(dr.grad(net[key]).numpy(), 2 * np.array(value), rtol=1e-6)


def test_gradients_of_a_module_are_a_module():
    net = network(TensorXf)
    dr.enable_grad(net)
    dr.backward(sum(dr.sum(v * v, axis=None) for v in net.values()))
    gradient = dr.grad(net)
    assert list(gradient) == list(net)
    for key, value in net.items():
        np.testing.assert_allclose(gradient[key].numpy(), 2 * value.numpy(), rtol=1e-6)


def test_a_packed_network_stays_one_after_a_traversal():
    net = dr.detach(nn.pack(network(TensorXf, prefix="p"), layout="training"))
    assert list(net) == ["p.weights"]
    net["p.weights"] = dr.zeros(Float, 354)
    y = evaluate(net, TensorXf(inputs(2, 3)), "vector")
    np.testing.assert_array_equal(y.numpy(), np.ones((3, 3)))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))])
def test_copies(duplicate: Callable[[Any], Any]):
    for net in (network(TensorXf), nn.pack(network(TensorXf16), layout="training")):
        made = duplicate(net)
        assert state(made) == state(net)
        for key in made:
            made[key] = 0
        assert state(made) != state(net)
        assert repr(made) == repr(net)


# ---- Printing

# As the reference prints it.
PRINTED = """Sequential(
  TriEncode(octaves=16, shift=0.2, in_channels=2, out_features=64),
  Cast(dtype=Float16),
  Linear(in_features=64, out_features=64, bias=False),
  LeakyReLU(),
  Linear(in_features=64, out_features=3),
  Exp()
)"""


def test_printing_a_network():
    layers = [
        nn.TriEncode(16, 0.2),
        nn.Cast(Float16),
        nn.Linear(-1, -1, bias=False),
        nn.LeakyReLU(),
        nn.Linear(-1, 3),
        nn.Exp(),
    ]
    net = nn.Sequential(*layers).alloc(dtype=TensorXf16, size=2, rng=dr.rng(seed=0))
    assert repr(net) == PRINTED
    assert str(nn.pack(net, layout="training")) == PRINTED


def printed() -> Iterator[tuple[nn.Module, str]]:
    yield nn.Module(), "Module()"
    yield nn.Linear(), "Linear(in_features=-1, out_features=-1)"
    yield nn.Linear(2, 3, False), "Linear(in_features=2, out_features=3, bias=False)"
    yield nn.Sequential(), "Sequential(\n)"
    inner = nn.Sequential(nn.ReLU(), prefix="p")
    yield nn.Sequential(inner), "Sequential(\n  Sequential(\n    ReLU()\n  )\n)"
    yield nn.ScaleAdd(2, 3), "ScaleAdd()"
    yield nn.SinEncode(3), "SinEncode(octaves=3, shift=0, in_channels=-1, out_features=-6)"
    yield nn.TriEncode(), "TriEncode(octaves=0, shift=0, in_channels=-1, out_features=0)"
    yield nn.Cast(), "Cast(dtype=None)"
    for cls in (nn.Exp, nn.Exp2, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.Softplus):
        yield cls(), f"{cls.__name__}()"


@pytest.mark.parametrize(("net", "text"), list(printed()))
def test_printing(net: nn.Module, text: str):
    assert repr(net) == text


def test_public_names():
    for name in nn.__all__:
        value = getattr(nn, name)
        if isinstance(value, type) and issubclass(value, nn.Module):
            assert value.__module__ == "drjit.nn"
