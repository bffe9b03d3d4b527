"""PyTrees go from one backend to the other and back. The GPU is the emulated one."""

from dataclasses import dataclass

import numpy as np
import pytest
from cuda_namespace import registered
from helpers import launched, tracked

import drjit as dr
from drjit import llvm, nn
from drjit.array.table import SPECS
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.opt import Adam

CUDA, LLVM = dr.JitBackend.CUDA, dr.JitBackend.LLVM


@pytest.fixture(autouse=True, scope="module")
def gpu():
    with registered(Cuda(EmulatedDriver())) as made:
        yield made


def there_and_back(value):
    moved = dr.migrate(value, CUDA)
    return moved, dr.migrate(moved, LLVM)


@pytest.mark.parametrize("namespace", ["llvm", "llvm.ad"])
@pytest.mark.parametrize("name", SPECS)
def test_every_type_has_a_counterpart(namespace, name):
    cls = getattr(dr.llvm.ad if namespace == "llvm.ad" else dr.llvm, name)
    value = dr.ones(cls, (2, 3) if dr.is_tensor_v(cls) else 3)
    moved, back = there_and_back(value)
    expected = getattr(dr.cuda.ad if namespace == "llvm.ad" else dr.cuda, name)
    assert type(moved) is expected and type(back) is cls
    assert dr.shape(moved) == dr.shape(back) == dr.shape(value)
    np.testing.assert_array_equal(moved.numpy(), value.numpy())
    np.testing.assert_array_equal(back.numpy(), value.numpy())


@pytest.mark.parametrize("size", [0, 1, 15, 17, 1000])
@pytest.mark.parametrize("name", ["Float", "Float16", "UInt64", "Bool"])
def test_every_size(name, size):
    entries = np.arange(size) % 3
    value = getattr(llvm, name)(entries.astype(bool) if name == "Bool" else entries)
    moved, back = there_and_back(value)
    assert len(moved) == len(back) == size
    np.testing.assert_array_equal(moved.numpy(), value.numpy())
    np.testing.assert_array_equal(back.numpy(), value.numpy())


def test_a_copy_is_independent_and_a_literal_stays_one():
    x = llvm.Float([1, 2])
    y = dr.migrate(x, CUDA)
    y[0] = 5
    assert list(x) == [1, 2] and list(y) == [5, 2]
    assert dr.migrate(llvm.Float(3), CUDA).state is dr.VarState.Literal


@dataclass
class Ray:
    origin: object
    time: object
    name: str


def test_containers_are_kept():
    shared = llvm.Float([1, 2])
    tree = {"ray": Ray(llvm.Array2f([1, 2], 3), shared, "r"), "rest": (shared, [4, None])}
    moved, back = there_and_back(tree)
    assert type(moved["ray"]) is Ray and moved["ray"].name == "r"
    assert type(moved["ray"].origin) is dr.cuda.Array2f
    assert moved["ray"].time is moved["rest"][0]  # copied once
    assert moved["rest"][1] == [4, None]
    assert type(back["ray"].origin) is llvm.Array2f
    assert dr.all(back["ray"].origin == tree["ray"].origin, axis=None)


def test_what_is_on_the_backend_stays_the_same():
    x, y, z = llvm.Float([1, 2]), dr.cuda.Float([3, 4]), dr.scalar.Array2f(1, 2)
    found = dr.migrate([x, y, z], LLVM)
    assert found[0] is x and found[2] is z
    assert type(found[1]) is llvm.Float and list(found[1]) == [3, 4]


def test_one_kernel_computes_what_is_moved():
    x = dr.opaque(llvm.Float, 1, 10)
    kernels = launched(lambda: dr.migrate([x + 1, x + 2, llvm.Array2f(x + 3, x)], CUDA))
    assert len(kernels) == 1


def test_generators_continue():
    moved, back = there_and_back(llvm.PCG32(5))
    assert type(moved) is dr.cuda.PCG32 and type(back) is llvm.PCG32
    expected = llvm.PCG32(5).next_float32().numpy()
    np.testing.assert_array_equal(moved.next_float32().numpy(), expected)
    np.testing.assert_array_equal(back.next_float32().numpy(), expected)


@pytest.mark.parametrize("packed", [False, True])
def test_networks_compute_the_same(packed):
    layers = [nn.Cast(llvm.ad.Float16), nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 2)]
    net = nn.Sequential(*layers, prefix="net").alloc(llvm.ad.TensorXf16, 2)
    if packed:
        net = nn.pack(net)
    moved = dr.migrate(net, CUDA)
    assert moved.layers[0].dtype is dr.cuda.ad.Float16
    assert list(moved.keys()) == list(net.keys())
    x = np.array([[1, 2, 3], [0, 1, 0]], np.float32)
    if packed:
        assert moved.layers[1].weights.buffer is moved.layers[3].weights.buffer
    else:
        net, moved = nn.pack(net), nn.pack(moved)
    arrays = (llvm.ad.Array2f, net), (dr.cuda.ad.Array2f, moved)
    expected, found = [cls(n(nn.CoopVec(cls(x)))).numpy() for cls, n in arrays]
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-4)


def test_derivatives_stay_behind():
    x = tracked([1, 2])
    with pytest.raises(TypeError, match=r"at \['a'\]\[1\] of type drjit.llvm.ad.Float has deriv"):
        dr.migrate({"a": [1, x]}, CUDA)
    with pytest.raises(TypeError, match="Array2f has derivatives"):
        dr.migrate(llvm.ad.Array2f(1, x * 2), CUDA)
    with pytest.raises(TypeError, match="derivatives"):
        dr.migrate(Adam(lr=1, params={"x": x}), CUDA)
    moved = dr.migrate(dr.detach(x), CUDA)
    dr.enable_grad(moved)
    dr.backward(dr.square(moved))
    assert list(dr.migrate(dr.grad(moved), LLVM)) == [2, 4]
    with pytest.raises(TypeError, match="derivatives"):
        dr.migrate(moved, LLVM)
    with dr.suspend_grad():
        assert type(dr.migrate(x, CUDA)) is dr.cuda.ad.Float


def test_what_cannot_go_is_named():
    texture = llvm.Texture2f([2, 2], 1)
    with pytest.raises(TypeError, match=r"at \[1\] of type drjit.llvm.Texture2f stays.*tensor\(\)"):
        dr.migrate((1, texture), CUDA)
    assert dr.migrate(texture, LLVM) is texture
    with pytest.raises(TypeError, match="the CoopVec exists within kernels only"):
        dr.migrate(nn.CoopVec(llvm.ad.Float(1, 2)), CUDA)
    assert len(dr.migrate(nn.CoopVec(llvm.ad.Float(1, 2)), LLVM)) == 1
    with pytest.raises(TypeError, match="RayPtr has references that belong to their backend"):
        dr.migrate(dr.instance_t(llvm.UInt, Ray)([None]), CUDA)


def test_wrong_arguments():
    for wrong in ("cuda", dr.JitBackend.Invalid, dr.JitBackend.Metal, None):
        with pytest.raises(TypeError, match=r"dr.migrate\(\): expected dr.JitBackend.LLVM or"):
            dr.migrate(llvm.Float(1), wrong)
    endless = []
    endless.append(endless)
    with pytest.raises(RecursionError, match="contain themselves"):
        dr.migrate(endless, CUDA)


def test_values_are_needed():
    @dr.freeze
    def frozen(x):
        return dr.migrate(x, CUDA)

    with pytest.raises(RuntimeError, match="reads the contents of an array"):
        frozen(llvm.Float(1, 2, 3))
    with pytest.raises(RuntimeError, match="known only when the whole kernel runs"):
        dr.if_stmt(
            args=(llvm.Float(1, 2),),
            cond=llvm.Bool(True, False),
            true_fn=lambda x: dr.migrate(x, CUDA),
            false_fn=lambda x: x,
        )


def test_a_backend_that_is_missing(monkeypatch):
    monkeypatch.setattr("drjit.function.exchange.migrate.find", lambda _: None)
    with pytest.raises(RuntimeError, match=r"dr.migrate\(\): "):
        dr.migrate(llvm.Float(1), CUDA)
