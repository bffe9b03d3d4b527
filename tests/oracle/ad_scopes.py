# ruff: noqa: F403, F405
"""Scopes that suspend, resume and isolate derivatives, and custom operations."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit.llvm.ad import *


def tracked(*values):
    x = Float(*values)
    dr.enable_grad(x)
    return x


def on(*args):
    return [dr.grad_enabled(a) for a in args]


def suspensions():
    a, b = tracked(1), tracked(2)
    found = []
    with dr.suspend_grad():
        d = Float(3)
        dr.enable_grad(d)
        a.grad = 5
        found.append((on(a, b, a * b, d), a.grad))
        with dr.resume_grad(a):
            found.append(on(a, b, a * 2, b * 2))
    with dr.suspend_grad(5, [a], {"x": b}):
        found.append(on(a, b))
    with dr.suspend_grad(a):
        found.append(on(a, b, a * b))
        with dr.resume_grad():
            found.append(on(a, b))
    with dr.suspend_grad(when=False):
        found.append(on(a, Float(a)))
    return found


def isolation(nested):
    a = tracked(1)
    b = a * 2
    found = []
    with dr.isolate_grad(), dr.isolate_grad(when=nested):
        c = b * 3
        dr.backward(c * c)
        found.append((a.grad, b.grad, c.grad))
    return [*found, (a.grad, b.grad, c.grad)]


class Scale(dr.CustomOp):
    def eval(self, value, factor=2):
        self.factor = factor
        return {"a": value * factor, "b": (value, 3)}

    def forward(self):
        g = self.grad_in("value")
        self.set_grad_out({"a": g * self.factor, "b": (g, 0)})

    def backward(self):
        g = self.grad_out()
        self.set_grad_in("value", g["a"] * self.factor + g["b"][0])


cases(
    """
suspensions()
isolation(False), isolation(True)
x = tracked(1, 2); y = dr.custom(Scale, x, factor=5); dr.backward(y["a"]); (y, x.grad)
x = tracked(1, 2); y = dr.custom(Scale, value=x); dr.forward(x); dr.grad(y)
dr.custom(Scale, Float(1)), dr.grad_enabled(dr.custom(Scale, Float(1))), dr.custom(Scale, 5)
dr.custom(5, Float(1))
""",
    globals(),
)
