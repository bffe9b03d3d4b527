# ruff: noqa: E501, F401, F403, F405
"""Grid traversal and line integrals."""

import os
import sys
from math import inf

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
import drjit.scalar as s
from drjit.dda import dda, integrate
from drjit.llvm import *

V = TensorXf(dr.arange(Float, 24) ** 2, (2, 3, 4))
V2 = TensorXf(dr.arange(Float, 12) ** 2, (3, 4))


def run(o, d, t, res, low, high, active=True, stop=None):
    """The cells on the way of one ray, with the points where it enters and leaves."""

    def visit(state, index, a, b, mask):
        points = [[abs(round(float(v), 3)) for v in p] for p in (a, b)]
        return [*state, ([int(i) for i in index], *points)], stop is None or len(state) + 1 < stop

    n = len(o)
    vector, cell = getattr(s, f"Array{n}f"), getattr(s, f"Array{n}u")
    return dda(
        ray_o=vector(o),
        ray_d=vector(d),
        ray_max=t,
        grid_res=cell(res),
        grid_min=vector(low),
        grid_max=vector(high),
        func=visit,
        state=[],
        active=active,
    )


def measure(state, index, a, b, active):
    """Counts cells and adds up the lengths of the ways through them."""
    count, length = state
    return (count + 1, length + dr.norm(b - a)), Bool(True)


def rays(active=True, mode=None):
    """Three rays at once."""
    return dda(
        Array2f([0.1, -1, 5], [0.2, 0.3, 5]),
        Array2f(1, 0.5),
        Float(inf),
        Array2u(4, 8),
        Array2f(0),
        Array2f(1),
        measure,
        (UInt(0), Float(0)),
        Bool(active),
        mode=mode,
    )


cases(
    """
## one ray
run([-1, .25], [1, 0], inf, [2, 4], [0, 0], [1, 1])
run([.5, .5], [1, 1], inf, [2, 2], [0, 0], [1, 1])
run([.5, .25], [-1, -1], inf, [2, 2], [0, 0], [1, 1])
run([.5, .5], [-1, .5], inf, [2, 2], [0, 0], [1, 1])
run([.1, .1], [1, 1], .3, [4, 4], [0, 0], [1, 1])
run([.1, .1], [-1, -.5], inf, [4, 4], [0, 0], [1, 1])
run([2, 2], [1, 1], inf, [4, 4], [0, 0], [1, 1])
run([2, 2], [-1, -1], inf, [4, 4], [0, 0], [1, 1])
run([.3, .3], [0, 0], inf, [4, 4], [0, 0], [1, 1])
run([.3, .3], [0, 1], inf, [4, 4], [0, 0], [1, 1])
run([-1, -1], [1, 1], .5, [4, 4], [0, 0], [1, 1])
run([-3, .1], [2, 1], inf, [3, 2], [-2, -1], [4, 5])
run([0, 0], [1, 0], inf, [2, 2], [0, 0], [1, 1])
run([0, 1], [1, 0], inf, [2, 2], [0, 0], [1, 1])
run([1, 1], [-1, -.3], inf, [2, 3], [0, 0], [1, 1])
run([1.0, 0.5], [1, 0], inf, [2, 2], [0, 0], [1, 1])
run([.1], [1], inf, [4], [0], [1])
run([.1, .1], [1, .5], inf, [1, 1], [0, 0], [1, 1])
run([.05, .15, .3], [.2, .3, .1], inf, [2, 3, 4], [0, 0, 0], [1, 1, 1])
run([.1, .1], [1, .5], inf, [4, 4], [0, 0], [1, 1], stop=2)
run([.1, .1], [1, .5], inf, [4, 4], [0, 0], [1, 1], active=False)
## rays at once
rays(), rays(mode='symbolic'), rays(mode='evaluated')
rays([True, False, True])
## integrals
integrate(Array2f(0, 0), Array2f(1, 0), Float(inf), Array2f(0), Array2f(1), V2)
integrate(Array2f(0, 0), Array2f(2, 0), Float(inf), Array2f(0), Array2f(1), V2)
integrate(Array2f(0, 0), Array2f(2, 0), Float(.5), Array2f(0), Array2f(1), V2)
integrate(Array2f(0, 0), Array2f(.5, 0), Float(1), Array2f(0), Array2f(1), V2)
integrate(Array2f(0, 0), Array2f(1, 0), Float(inf), Array2f(0), Array2f(3, 1), V2)
integrate(Array2f(-.1, [.2, .4]), Array2f(1, .3), Float(inf), Array2f(0), Array2f(1, 1), V2)
integrate(Array2f(-.1, [.2, .4]), Array2f(1, .3), Float(inf), Array2f(0), Array2f(1, 1), V2, mode='evaluated')
integrate(Array3f(-.1, .2, .3), Array3f(1, .3, .2), Float(inf), Array3f(0), Array3f(1, 1, 1), V)
integrate(Array3f(-.1, .2, .3), Array3f(1, .3, .2), Float(inf), Array3f(0), Array3f(1, 1, 1), V, active=Bool(False))
integrate(Array2f(0, 0), Array2f(1, 0), Float(inf), Array2f(0), Array2f(1), TensorXf([[1, 2]]))
integrate(Array2f64(0, 0), Array2f64(1, 0), Float64(inf), Array2f64(0), Array2f64(1), TensorXf64(V2))
integrate(Array2f(2, 2), Array2f(1, 0), Float(inf), Array2f(0), Array2f(1), V2)
integrate(Array3f(-.1, .2, .3), Array3f(1, .3, .2), Float(inf), Array3f(0), Array3f(1, 1, 1), V2)
""",
    globals(),
)
