# ruff: noqa: E501, F401, F403, F405
"""Calls of one of several functions, and local memory."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit.llvm import ad
from drjit.llvm.ad import *


class Pair:
    """A structure."""

    DRJIT_STRUCT = {"a": Float, "b": UInt}  # noqa: RUF012


idx = UInt(0, 1, 2, 1, 0)
x = Float(1, 2, 3, 4, 5)
two = [lambda x: x + 1, lambda x: x * 2]
three = [lambda x: x + 1, lambda x: x * 2, lambda x: x * x]
masked = [lambda x, m: x + 1, lambda x, m: x * 2, lambda x, m: x * x]
on = Bool(True, False, True, True, False)


def named(name):
    """Functions with a mask of that name."""
    return [eval(f"lambda x, {name}: {body}") for body in ("x + 1", "x * 2", "x * x")]


def gradient(mode, forward):
    """Derivatives with respect to an argument and to captured values."""
    y, c, table = Float(x), Float(3), Float(10, 20, 30, 40, 50)
    dr.enable_grad(y, c, table)
    targets = [
        lambda v: v * v * c,
        lambda v: v * dr.gather(Float, table, UInt(v) - 1),
        lambda v: c * c + v,
    ]
    r = dr.switch(idx, targets, y, mode=mode)
    if forward:
        dr.set_grad(y, 1)
        dr.set_grad(c, 10)
        dr.set_grad(table, 100)
        dr.forward_to(r)
        return r, r.grad
    dr.backward(r)
    return r, y.grad, c.grad, table.grad


def effect(mode, scatter):
    """The target of side effects."""
    target = dr.zeros(Float, 5)
    result = dr.switch(
        idx,
        [lambda v, i, m: scatter(target, v + 1, i), lambda v, i, m: scatter(target, v * 2, i)] * 2,
        x,
        dr.arange(UInt, 5),
        on,
        mode=mode,
    )
    return result, target


def loop(mode):
    """Local memory as the state of a loop."""
    n = dr.arange(UInt, 4)

    def body(i, memory):
        memory[i] = i * 10 + n
        return i + 1, memory

    i, memory = dr.while_loop(
        (UInt(0), dr.alloc_local(UInt, 5, value=dr.zeros(UInt))),
        lambda i, m: i < n,
        body,
        mode=mode,
    )
    return i, [memory[k] for k in range(5)]


def remembered(value, write, *at):
    """What is in local memory after a write."""
    memory = dr.alloc_local(type(value), 4, value=value)
    write(memory)
    return [memory[k] for k in at]


CALLS = """
dr.switch(idx, three, x, mode=MODE)
dr.switch(1, three, x, mode=MODE)
dr.switch(-1, three, x, mode=MODE)
dr.switch(7, three, x, mode=MODE)
dr.switch(True, three, x, mode=MODE)
dr.switch(Int(0, 1, 2, 1, 0), three, x, mode=MODE)
dr.switch(UInt64(0, 1, 2, 1, 0), three, x, mode=MODE)
dr.switch(UInt8(0, 1, 2, 1, 0), three, x, mode=MODE)
dr.switch(Float(0, 1, 2, 1, 0), three, x, mode=MODE)
dr.switch("a", three, x, mode=MODE)
dr.switch(Array3f(1), three, x, mode=MODE)
dr.switch(UInt(1), three, x, mode=MODE)
dr.switch(idx, three, Float(3), mode=MODE)
dr.switch(UInt(0, 1), three, x, mode=MODE)
dr.switch(idx, [], x, mode=MODE)
dr.switch(UInt(0, 0, 0), two[:1], Float(1, 2, 3), mode=MODE)
dr.switch(idx, tuple(three), x, mode=MODE)
dr.switch(idx, three[0], x, mode=MODE)
dr.switch(idx, {0: three[0]}, x, mode=MODE)
dr.switch(idx, masked, x, True, mode=MODE)
dr.switch(idx, masked, x, False, mode=MODE)
dr.switch(idx, masked, x, on, mode=MODE)
dr.switch(idx, masked, x, ad.Bool(False), mode=MODE)
dr.switch(idx, masked, x, 3, mode=MODE)
dr.switch(1, masked, x, False, mode=MODE)
dr.switch(1, masked, x, on, mode=MODE)
dr.switch(idx, named("active"), x, active=on, mode=MODE)
dr.switch(idx, named("mask"), x, mask=on, mode=MODE)
dr.switch(idx, named("other"), x, other=on, mode=MODE)
dr.switch(idx, three, x, active=on, mode=MODE)
dr.switch(idx, [lambda x, m: m] * 3, x, on, mode=MODE)
dr.switch(idx, [lambda m, x: dr.select(m, x, -x)] * 3, on, x, mode=MODE)
dr.switch(idx, [lambda x: None] * 3, x, mode=MODE)
dr.switch(idx, [lambda x: None, lambda x: x, lambda x: x], x, mode=MODE)
dr.switch(idx, [lambda x: 1] * 3, x, mode=MODE)
dr.switch(idx, [lambda x: "a"] * 3, x, mode=MODE)
dr.switch(idx, [lambda x: Float(1), lambda x: Float(2), lambda x: Float(3)], x, mode=MODE)
dr.switch(idx, [lambda: Float(1), lambda: Float(2), lambda: Float(3)], mode=MODE)
dr.switch(idx, [lambda x: {"a": x, "b": Array3f(x)}] * 3, x, mode=MODE)
dr.switch(idx, [lambda d: d["a"], lambda d: d["b"], lambda d: d["a"]], {"a": x, "b": x * 10}, mode=MODE)
dr.switch(idx, [lambda d: d[0] * d[1], lambda d: d[0] + d[1], lambda d: d[0]], [x, 3], mode=MODE)
dr.switch(idx, [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y], x, y=Float(10), mode=MODE)
dr.switch(idx, [lambda x: 1 / 0] * 3, x, mode=MODE)
dr.switch(idx, three, x, label="name", mode=MODE)
dr.switch(idx, three, x, label=3, mode=MODE)
dr.switch(UInt(0, 1), [lambda x: Array3f(x, 1, 2), lambda x: Array3f(0, x, x)], Float(1, 2), mode=MODE)
dr.switch(UInt(0, 1), [lambda x: x > 1] * 2, Float(1, 2), mode=MODE)
dr.switch(UInt(0, 1), [lambda x: Float16(x), lambda x: Float16(x) * 2], Float(1, 2), mode=MODE)
dr.switch(UInt(0, 1), [lambda x: UInt8(x), lambda x: UInt8(x) * 2], Float(1, 2), mode=MODE)
dr.switch(UInt(0, 1), [lambda x: x, lambda x: x @ x], Matrix2f(1, 2, 3, 4), mode=MODE)
dr.switch(UInt(0, 0), [Array2f] * 2, Float(1, 2), mode=MODE)
dr.switch(UInt(0, 1, 2), three, TensorXf(Float(1, 2, 3)), mode=MODE)
c = Float(10); dr.switch(idx, [lambda x: x + c, lambda x: x * c, lambda x: x], x, mode=MODE)
dr.switch(idx, [lambda x, i: dr.switch(i % 2, two, x, mode=MODE) + 1, lambda x, i: x] * 2, x, UInt(0, 1, 1, 1, 1), mode=MODE)
g = PCG32(5); dr.switch(idx, [lambda r: r.next_float32()] * 3, g, mode=MODE)
g = PCG32(5); dr.switch(idx, [lambda r: (r.next_float32(), r)] * 3, g, mode=MODE)[1].state
y = [Float(x)]; dr.switch(idx, [lambda y: y.append(1)] * 3, y, mode=MODE); y
effect(MODE, dr.scatter)
effect(MODE, dr.scatter_add)
gradient(MODE, False)
gradient(MODE, True)
y = Float(x); dr.enable_grad(y); dr.switch(idx, [lambda x: dr.grad_enabled(x)] * 3, y, mode=MODE)
c, t = Float(3), Float(10, 20, 30); dr.enable_grad(c, t); dr.switch(UInt(0, 1, 0), [lambda x, k: dr.backward(x * c * dr.gather(Float, t, k)), lambda x, k: None], Float(1, 2, 3), UInt(0, 1, 2), mode=MODE); dr.eval(c.grad); c.grad, t.grad
y = Float(x); dr.enable_grad(y); dr.grad_enabled(dr.switch(idx, [lambda x: dr.detach(x)] * 3, y, mode=MODE))
y = Float(x); dr.enable_grad(y); dr.grad_enabled(dr.switch(idx, [lambda x: dr.detach(x), lambda x: x] * 2, y, mode=MODE))
loop(MODE)
"""

cases("## symbolic\n" + CALLS.replace("MODE", "'symbolic'"), globals())
cases("## evaluated\n" + CALLS.replace("MODE", "'evaluated'"), globals())
cases(
    """
## modes
dr.switch(idx, three, x)
dr.switch(idx, three, x, mode="other")
dr.dispatch(UInt(1, 2), lambda s, x: x, Float(1))
dr.dispatch(1, lambda s, x: x, Float(1))
## local memory
dr.alloc_local(Float, 4)
len(dr.alloc_local(Float, 4))
len(dr.alloc_local(Float, 0))
dr.alloc_local(Float, -1)
dr.alloc_local(Float, 3.0)
dr.alloc_local("x", 3)
dr.alloc_local(float, 3)
dr.alloc_local(Float, 70000)
dr.alloc_local(TensorXf, 3)
dr.alloc_local(ArrayXf, 3)
dr.alloc_local(dict, 3)
dr.alloc_local(Float, 4, value=dr.zeros(Float))[3]
dr.alloc_local(Array3f, 3, value=dr.zeros(Array3f))[1]
dr.alloc_local(tuple, 3, value=(Float(1), UInt(2)))[0]
dr.alloc_local(Float, 4, value=dr.zeros(Float))["a"]
remembered(dr.zeros(UInt, 3), lambda m: m.write(UInt(7, 8, 9), UInt(0, 1, 2)), 0, 1, 2)
remembered(dr.zeros(UInt, 3), lambda m: m.write(UInt(7, 8, 9), UInt(0, 1, 2), Bool(True, False, True)), 0, 1, 2)
remembered(dr.zeros(Float, 3), lambda m: m.write(UInt(1, 2, 3), 0), 0, 1)
remembered(dr.zeros(Float, 3), lambda m: m.write("a", 0), 0)
m = dr.alloc_local(UInt, 4, value=dr.zeros(UInt, 3)); m[UInt(0, 1, 2)] = UInt(7, 8, 9); m[UInt(2, 1, 0)], m.read(UInt(0, 1, 2), Bool(True, True, False))
m = dr.alloc_local(UInt, 4, value=dr.zeros(UInt, 3)); k = dr.Local(m); m[UInt(0, 0, 0)] = 5; m[0], k[0]
m = dr.alloc_local(Pair, 3, value=dr.zeros(Pair, 2)); p = Pair(); p.a = Float(1, 2); p.b = UInt(3, 4); m[1] = p; m[1].a, m[1].b, m[0].a
m = dr.alloc_local(Float, 3, value=dr.zeros(Float, 2)); m[UInt(1, 2)] = Float(3, 4); dr.eval(m[1]); m[UInt(2, 2)]
## order of threads
dr.reorder_threads(UInt(1, 2, 3), 2, Float(1, 2, 3))
dr.reorder_threads(UInt(1, 2, 3), 2, (Float(1, 2, 3), UInt(1)))
dr.reorder_threads(1, 2, Float(1, 2, 3))
dr.reorder_threads(Int(1, 2, 3), 2, Float(1, 2, 3))
dr.reorder_threads(UInt(1, 2), 3, 5)
""",
    globals(),
)
