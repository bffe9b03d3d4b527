"""A module of functions that other processes import; see test_dask.py and test_pickle.py."""

import numpy as np

import drjit as dr
from drjit.llvm.ad import Array2f, Float, UInt
from drjit.opt import Adam


@dr.syntax
def escape(c: Array2f, limit: int = 50) -> UInt:
    """The number of iterations after which points leave the Mandelbrot set."""
    z, n = Array2f(0), UInt(0)
    while (dr.squared_norm(z) < 4) & (n < limit):
        z = Array2f(z.x * z.x - z.y * z.y, 2 * z.x * z.y) + c
        n += 1
    return n


def tile(first_row: int, rows: int, size: int) -> np.ndarray:
    """Some rows of a picture of `size` x `size` pixels."""
    i = dr.arange(UInt, rows * size)
    x, y = Float(i % size), Float(i // size + first_row)
    n = escape(Array2f(x / size * 3 - 2, y / size * 3 - 1.5))
    return n.numpy().reshape(rows, size)


@dr.freeze
def twice(x: Float) -> Float:
    return 2 * x


@dr.kernel
def saxpy(i, a, x, y, result):
    store(f32, result, i, literal(f32, a) * load(f32, x, i) + load(f32, y, i))  # noqa: F821


class Model:
    @dr.freeze
    def shifted(self, x: Float) -> Float:
        return x + 1


def fitted(rate: float, steps: int = 30) -> float:
    """The loss after some steps of an optimizer with the given learning rate."""
    opt = Adam(rate, {"x": Float(1, 2)})
    for _ in range(steps):
        dr.backward(dr.sum(dr.square(opt["x"] - 3)))
        opt.step()
    return float(dr.sum(dr.square(dr.detach(opt["x"]) - 3))[0])


def continued(opt: Adam) -> Adam:
    """An optimizer after one more step."""
    dr.backward(dr.sum(dr.square(opt["x"])))
    opt.step()
    return opt
