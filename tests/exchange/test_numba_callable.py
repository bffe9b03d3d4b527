"""`dr.wrap` with the source Numba: Dr.Jit functions of numbers in code of Numba."""

import ctypes
import math

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import ad

numba = pytest.importorskip("numba")
pytestmark = pytest.mark.processor

SIZES = (0, 1, 15, 17, 1000)


@dr.wrap(source="numba", target="drjit")
def wave(x, y):
    return dr.sin(x) * y + dr.exp(-x * x)


@dr.wrap("numba", "drjit")
@dr.syntax
def series(x):
    k, s = ad.Int(1), type(x)(0)
    while k < 6:
        s += dr.sin(x * k) / k
        k += 1
    return s


def wave_in_numpy(x, y):
    value = np.sin(x) * y + np.exp(-x * x)
    return value, np.cos(x) * y - 2 * x * np.exp(-x * x), np.sin(x)


def test_called_from_numba():
    @numba.njit
    def both(x, y):
        value, (dx, dy) = wave.value_and_grad(x, y)
        return wave(x, y), value, dx, dy

    for x, y in ((0.3, 2.0), (-1.5, 3)):
        value, dx, dy = wave_in_numpy(x, y)
        np.testing.assert_allclose(both(x, y), (value, value, dx, dy), rtol=1e-14)
    value, dx, dy = wave_in_numpy(0.3, 2.0)
    found = both(np.float32(0.3), np.float32(2))
    np.testing.assert_allclose(found, (value, value, dx, dy), rtol=1e-6)
    assert str(both.nopython_signatures[-1].return_type) == "UniTuple(float32 x 4)"


def test_called_from_python():
    assert wave(0.3, 2) == pytest.approx(wave_in_numpy(0.3, 2)[0], rel=1e-14)
    value, (dx, dy) = wave.value_and_grad(0.3, 2)
    np.testing.assert_allclose((value, dx, dy), wave_in_numpy(0.3, 2), rtol=1e-14)
    assert type(wave(ad.Float64(0.3), 2)) is ad.Float64
    with pytest.raises(TypeError, match=r"wave\(\) takes 2 numbers, not 1"):
        wave(1.0)


@pytest.mark.parametrize("size", SIZES)
def test_arrays(size):
    x, y = np.linspace(-1, 1, size), np.linspace(2, 3, size)
    value, dx, dy = wave_in_numpy(x, y)
    np.testing.assert_allclose(wave(x, y), value, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(wave(x[:, None], 2.0), wave_in_numpy(x[:, None], 2.0)[0])
    found, (gx, gy) = wave.value_and_grad(x, y)
    np.testing.assert_allclose([found, gx, gy], [value, dx, dy], rtol=1e-13, atol=1e-15)
    assert isinstance(wave.ufunc(x, 1.0), np.ndarray)

    @numba.njit
    def inside(x, y):
        return wave(x, y) + 1

    np.testing.assert_allclose(inside(x, y), value + 1, rtol=1e-13)


def test_loops_inside():
    k = np.arange(1, 6)
    assert series(0.4) == pytest.approx((np.sin(0.4 * k) / k).sum(), rel=1e-14)
    value, (slope,) = series.value_and_grad(0.4)
    assert slope == pytest.approx(np.cos(0.4 * k).sum(), rel=1e-14) and value == series(0.4)


def test_parallel_loops():
    @numba.njit(parallel=True)
    def total(n):
        s = 0.0
        for k in numba.prange(n):
            s += wave.value_and_grad(k / n, 1.0)[1][0] + series(k / n)
        return s

    x, k = np.arange(3000) / 3000, np.arange(1, 6)
    want = wave_in_numpy(x, 1.0)[1].sum() + (np.sin(x[:, None] * k) / k).sum()
    assert total(3000) == pytest.approx(want, rel=1e-12)


def test_callbacks():
    scipy = pytest.importorskip("scipy")
    integrate = pytest.importorskip("scipy.integrate")
    found = integrate.quad(scipy.LowLevelCallable(series.ctypes), 0, 1)[0]
    k = np.arange(1, 6)
    assert found == pytest.approx(((1 - np.cos(k)) / k**2).sum(), rel=1e-12)

    @numba.cfunc("float64(float64)")
    def callback(x):
        return wave(x, 2.0)

    assert callback.ctypes(0.3) == wave(0.3, 2.0)
    double = ctypes.c_double
    assert ctypes.CFUNCTYPE(double, double)(series.address)(0.4) == series(0.4)


def test_passed_as_an_argument():
    @numba.njit
    def newton(f, x):
        for _ in range(20):
            value, (slope,) = f.value_and_grad(x)
            x -= value / slope
        return x

    root = dr.wrap("numba", "drjit")(lambda x: x * x - 2)
    other = dr.wrap("numba", "drjit")(lambda x: dr.cos(x) - x)
    assert newton(root, 1.0) == pytest.approx(math.sqrt(2), rel=1e-15)
    assert newton(other, 1.0) == pytest.approx(0.7390851332151607, rel=1e-15)


def test_arrays_that_it_refers_to():
    table = dr.arange(ad.Float64, 8) * 2

    @dr.wrap("numba", "drjit")
    def look_up(x):
        return dr.gather(ad.Float64, table, ad.UInt(x)) * x + dr.max(table)

    assert look_up(3.5) == 6 * 3.5 + 14
    assert look_up.value_and_grad(3.5) == (35, (6,))

    @numba.njit
    def compiled(x):
        return look_up(x)

    for call in (look_up, compiled, lambda x: look_up(np.array([x]))):
        with pytest.raises(IndexError, match=r"out of bounds in look_up\(\)"):
            call(8.0)
    assert math.isnan(look_up.ctypes(8.0))


def test_constants_and_arguments_as_results():
    same, seven = dr.wrap("numba", "drjit")(lambda x: x), dr.wrap("numba", "drjit")(lambda x: 7)
    assert same(2.5) == 2.5 and same.value_and_grad(2.5) == (2.5, (1,))
    assert seven(2.5) == 7 and seven.value_and_grad(2.5) == (7, (0,))


def test_functions_that_do_not_fit():
    cases = [
        (lambda x: x + dr.arange(ad.Float64, 3), RuntimeError, "3 entries"),
        (lambda x: dr.sum(dr.arange(ad.Float64, 3) * x), RuntimeError, "sums one up"),
        (lambda x: (x, x), TypeError, "returned a tuple; expected one number"),
        (lambda x: x.numpy()[0], RuntimeError | TypeError, ""),
    ]
    for function, kind, message in cases[:3]:
        with pytest.raises(kind, match=message):
            dr.wrap("numba", "drjit")(function)(1.0)
