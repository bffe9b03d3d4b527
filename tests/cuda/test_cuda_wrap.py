"""Functions of PyTorch on tensors in the memory of a GPU, and of Dr.Jit there. The device is the
emulated one, and PyTorch an imitation whose tensors are on it: their only operation is a product
with a number."""

import ctypes
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from cuda_namespace import registered

import drjit as dr
from drjit.function.exchange import wrap as exchange
from drjit.function.exchange.torch import Torch
from drjit.jit.cuda import dlpack
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.emulated import EmulatedDriver


def memory(address, dtype, shape):
    """An array of what is at an address, which is in the process."""
    nbytes = np.dtype(dtype).itemsize * int(np.prod(shape))
    return np.frombuffer((ctypes.c_ubyte * nbytes).from_address(address), dtype).reshape(shape)


class Imitation:
    """The module."""

    strided = "strided"

    def __init__(self, gpu):
        self.gpu, self.Tensor = gpu, Tensor
        self.autograd = SimpleNamespace(
            Function=Function, forward_ad=SimpleNamespace(_current_level=-1), backward=self.backward
        )

    def from_dlpack(self, array):
        taken = dlpack.take_array(array.__dlpack__(stream=1), "torch")
        held = memory(taken.address, taken.dtype.numpy, taken.shape)
        return Tensor(self.gpu, held, taken.owner)

    def tensor(self, values):
        """A new tensor on the GPU."""
        values = np.asarray(values)
        address = self.gpu.driver.allocate(max(values.nbytes, 8))
        held = memory(address, values.dtype, values.shape)
        held[...] = values
        return Tensor(self.gpu, held)

    def set_grad_enabled(self, _):
        return nullcontext()

    def is_grad_enabled(self):
        return True

    def zeros_like(self, t):
        return self.tensor(np.zeros_like(t.held))

    @staticmethod
    def backward(results, gradients, retain_graph):
        for r, g in zip(results, gradients, strict=True):
            assert isinstance(g, Tensor)
            source, factor = r.source
            source.grad = g * factor


class Function:
    """`torch.autograd.Function`, whose result knows how to find gradients."""

    @classmethod
    def apply(cls, *arguments):
        results = cls.forward(*arguments)
        context = SimpleNamespace(
            set_materialize_grads=lambda _: None, save_for_forward=lambda *_: None,
            mark_non_differentiable=lambda *_: None,
        )  # fmt: skip
        context.save_for_backward = lambda *t: setattr(context, "saved_tensors", t)
        cls.setup_context(context, arguments, results)
        for r in results:
            r.context, r.function = context, cls
        return results


class Tensor:
    """An array of a GPU."""

    requires_grad, grad, source, layout = False, None, None, "strided"

    def __init__(self, gpu, held, owner=None):
        self.gpu, self.held, self.owner = gpu, held, owner
        self.device = SimpleNamespace(type="cuda")
        self.address, self.dtype = held.ctypes.data, f"torch.{held.dtype}"

    def detach(self):
        return Tensor(self.gpu, self.held, self)

    resolve_neg = resolve_conj = lambda self: self

    def is_complex(self):
        return self.held.dtype.kind == "c"

    def is_floating_point(self):
        return self.held.dtype.kind == "f"

    def requires_grad_(self):
        self.requires_grad = True

    def clone(self):
        return Imitation(self.gpu).tensor(self.held)

    def __mul__(self, factor):
        made = Imitation(self.gpu).tensor(self.held * np.asarray(factor, self.held.dtype))
        made.source, made.requires_grad = (self, factor), self.requires_grad
        return made

    @property
    def __cuda_array_interface__(self):  # version 2 has no stream
        return {
            "version": 2, "shape": self.held.shape, "typestr": self.held.dtype.str,
            "data": (self.address, False), "strides": None,
        }  # fmt: skip


@pytest.fixture
def torch(monkeypatch):
    with registered(Cuda(EmulatedDriver())) as gpu:
        made = Imitation(gpu)
        monkeypatch.setitem(sys.modules, "torch", made)
        monkeypatch.setattr(Torch, "shares", lambda self, device: True)
        monkeypatch.setattr(gpu.staging, "download", None)  # nothing goes to the host
        exchange._framework.cache_clear()
        yield made
        exchange._framework.cache_clear()


def read(torch, x):
    """The entries of an array or a tensor."""
    return np.array((x if isinstance(x, Tensor) else torch.from_dlpack(x)).held)


def test_a_function_of_pytorch_on_arrays_of_a_gpu(torch):
    ad, seen = dr.cuda.ad, []

    @dr.wrap("drjit", "torch")
    def tripled(x, y):
        seen.extend([x, y])
        return {"x": x * 3, "y": y * 2}

    x, y = ad.Float([1, 2, 3]), ad.Array3f([1, 2], 3, 4)
    dr.enable_grad(x)
    found = tripled(x, y=y)
    assert seen[0].address == x._node.data.address  # no copy
    assert type(found["x"]) is ad.TensorXf and type(found["y"]) is ad.TensorXf
    assert found["x"]._array._node.data.owner is not None
    np.testing.assert_array_equal(read(torch, found["x"]), [3, 6, 9])
    np.testing.assert_array_equal(read(torch, found["y"]), [[2, 4], [6, 6], [8, 8]])
    dr.backward(found["x"] * ad.TensorXf([1, 10, 100]))
    np.testing.assert_array_equal(read(torch, x.grad), [3, 30, 300])


@pytest.mark.parametrize("name", ["Complex2f", "Array2f", "Float16", "Float64", "TensorXf"])
def test_gradients_have_the_form_of_the_arguments(torch, name):
    cls = getattr(dr.cuda.ad, name)
    x = cls([1, 2, 3, 4], [5, 6, 7, 8]) if name in ("Complex2f", "Array2f") else cls([1, 2])
    dr.enable_grad(x)
    y = dr.wrap("drjit", "torch")(lambda x: x * 3)(x)
    dr.backward(dr.sum(y * y, axis=None))
    gradient = dr.grad(x)
    parts = [gradient.real, gradient.imag] if name == "Complex2f" else [gradient]
    expected = {
        "Complex2f": [[1, 2, 3, 4], [5, 6, 7, 8]],
        "Array2f": [[[1, 2, 3, 4], [5, 6, 7, 8]]],
    }
    for part, want in zip(parts, expected.get(name, [[1, 2]]), strict=True):
        np.testing.assert_array_equal(read(torch, part), 18 * np.array(want))


def test_a_function_of_drjit_on_tensors_of_a_gpu(torch):
    seen = []

    @dr.wrap("torch", "drjit")
    def f(x, k):
        seen.append((type(x), x._array._node.data.address))
        return x * x * k, dr.sum(x)

    x = torch.tensor(np.array([[1, 2], [3, 4]], np.float32))
    square, total = f(x, 2)
    assert seen == [(dr.cuda.ad.TensorXf, x.address)]
    np.testing.assert_array_equal(read(torch, square), [[2, 8], [18, 32]])
    np.testing.assert_array_equal(read(torch, total), 10)

    x.requires_grad = True
    square, total = f(x, 2)
    ones = torch.tensor(np.ones((2, 2), np.float32))
    _, gradient = square.function.backward(square.context, ones, None)
    assert isinstance(gradient, Tensor)
    np.testing.assert_array_equal(read(torch, gradient), [[4, 8], [12, 16]])
    tangent = square.function.jvp(square.context, None, ones)[1]
    np.testing.assert_array_equal(read(torch, tangent), 4)


def test_what_is_refused(torch):
    f = dr.wrap("torch", "drjit")(lambda x: x)
    with pytest.raises(TypeError, match=r"torch.complex64.*no equivalent.*real and imaginary"):
        f(torch.tensor(np.ones(2, np.complex64)))
    other = torch.tensor(np.ones(2, np.float32))
    other.device = SimpleNamespace(type="mps", __str__=lambda: "mps:0")
    with pytest.raises(TypeError, match=r"on the device .*mps.*\.cpu\(\)"):
        f(other)


def test_without_a_usable_gpu(torch, monkeypatch):
    monkeypatch.setattr("drjit.function.exchange.bridge.find", lambda backend: None)
    with pytest.raises(TypeError, match=r"PyTorch array is on a GPU, and the CUDA backend is not"):
        dr.wrap("torch", "drjit")(lambda x: x)(torch.tensor(np.ones(2, np.float32)))


def test_tensors_without_a_stream_wait_for_the_default_one():
    with registered(Cuda(EmulatedDriver(delayed=True))) as gpu:
        t = Imitation(gpu).tensor(np.zeros(3, np.float32))
        source = np.array([1, 2, 3], np.float32)
        gpu.driver.copy(t.address, source.ctypes.data, 12, 1)
        assert dr.cuda.Float(t).numpy().tolist() == [1, 2, 3]
