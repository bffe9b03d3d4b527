"""Functions of Numba in kernels for GPUs. The device is the emulated one."""

import math

import numpy as np
import pytest
from cuda_namespace import registered

import drjit as dr
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.emulated import EmulatedDriver

numba = pytest.importorskip("numba")
TABLE = np.array([1.0, 2.0, 4.0, 8.0])


@pytest.fixture
def ad():
    with registered(Cuda(EmulatedDriver())):
        yield dr.cuda.ad


@numba.njit
def series(x, n):
    if n < 0:
        raise ValueError("negative")
    result = 1.0
    for k in range(n):
        result = result * x + TABLE[k] * math.sin(x) + math.atan2(x, result)
    return result, n > 1


@numba.njit
def slope(x, n):
    h = 1e-6
    return (series(x + h, n)[0] - series(x - h, n)[0]) / (2 * h), 0.0


def test_values_and_gradients(ad):
    f = dr.wrap("drjit", "numba")(series)
    x, n = np.linspace(-1, 1, 40), np.arange(40) % 4
    y, more = f(ad.Float64(x), ad.Int(n))
    want = [series(*p) for p in zip(x, n, strict=True)]
    np.testing.assert_allclose(y.numpy(), [w[0] for w in want], rtol=1e-14)
    assert list(more) == [w[1] for w in want]
    g = dr.wrap("drjit", "numba", derivative=slope)(numba.njit(lambda x, n: series(x, n)[0]))
    a = ad.Float(x)
    dr.enable_grad(a)
    dr.backward(g(a, ad.Int(n)))
    expected = [slope(*p)[0] for p in zip(x, n, strict=True)]
    np.testing.assert_allclose(a.grad.numpy(), expected, atol=1e-4)


def test_exceptions(ad):
    y, _ = dr.wrap("drjit", "numba")(series)(ad.Float(1, 2, 3), ad.Int(1, 2, -1))
    with pytest.raises(ValueError, match=r"negative \(lane 2 of series"):
        y.numpy()


def test_what_gpus_do_not_have(ad):
    def allocating(n):
        return np.ones(n).sum()

    message = (
        r"allocating\(\) \(.*test_cuda_foreign.py:\d+\) needs memory for arrays.* kernels on GPUs "
        r"do not have.* drjit\.llvm"
    )
    f = dr.wrap("drjit", "numba")(allocating)
    for _ in range(2):
        with pytest.raises(TypeError, match=message):  # by the call
            f(ad.Int(1, 2))
    assert f(dr.llvm.Int(1, 2)).numpy().tolist() == [1, 2]
    gamma = dr.wrap("drjit", "numba")(lambda x: math.gamma(x))
    with pytest.raises(TypeError, match=r"needs the function .*gamma.*\(\) of the C library"):
        gamma(ad.Float(1, 2))
    sine = dr.wrap("drjit", "numba", derivative=lambda x: math.gamma(x))(lambda x: math.sin(x))
    x = ad.Float(1, 2)
    sine(x)
    dr.enable_grad(x)
    with pytest.raises(TypeError, match=r"<lambda>\(\) .*needs the function"):
        sine(x)
