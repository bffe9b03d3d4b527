# ruff: noqa: E501, F401, F403
"""Gradients: tracking, assignment, traversals and flags, values at awkward points."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit.llvm.ad import *

cases(
    """
## tracking
x = Float(1, 2); dr.enable_grad(x); (dr.grad_enabled(x), dr.grad_enabled([1, {"a": x}]), x.index_ad > 0, (x * 2).index_ad != x.index_ad, Float(1).index_ad)
x = UInt(1); dr.enable_grad(x); (dr.grad_enabled(x), dr.enable_grad(1.0), dr.enable_grad(None), dr.enable_grad())
x = Float(1); dr.enable_grad(x); y = x * 2; dr.disable_grad(y); (dr.grad_enabled(y), dr.grad_enabled(x))
x = Float(1, 2); dr.enable_grad(x); (type(dr.detach(x)), type(dr.detach(x, preserve_type=False)), dr.grad_enabled(dr.detach(x)), dr.detach([x, 3, "a"]))
dr.grad(Float(1, 2)), dr.grad(1.0), dr.grad(3), dr.grad(UInt(1, 2)), UInt(1).grad, dr.grad({"b": [3, Float(4)]})
## assignment
x = Float(1, 2); dr.enable_grad(x); x.grad = 5; x.grad
x = Float(1, 2); dr.enable_grad(x); x.grad = [5, 6]; dr.accum_grad(x, 1); x.grad
x = Float(1); dr.enable_grad(x); x.grad = Float(5, 6); x.grad
x = Float(1, 2); dr.enable_grad(x); x.grad = Float(1, 2, 3)
x = Float(1, 2); dr.enable_grad(x); x.grad = "a"
x = Float(1, 2); dr.enable_grad(x); x.grad = None
x = Float(1, 2); x.grad = 3; x.grad
x = Array3f(1, 2, 3); dr.enable_grad(x); x.grad = 3; x.grad
x = Array3f(1, 2, 3); dr.enable_grad(x); x.grad = [1, 2, 3]; x.grad
x = TensorXf([1, 2, 3, 4], (2, 2)); dr.enable_grad(x); x.grad = 3; x.grad
x = Float(1, 2); dr.enable_grad(x); z = dr.replace_grad(Float(5), x * 3); dr.backward(z); (z, x.grad)
## traversals
dr.backward(Float(1))
dr.forward(UInt(1))
dr.backward(1.0)
dr.backward(Float(1), dr.ADFlag.AllowNoGrad), dr.enqueue(dr.ADMode.Backward, Float(1)), dr.traverse(dr.ADMode.Backward)
dr.enqueue(3, Float(1))
dr.traverse(dr.ADMode.Primal)
x = Float(1, 2); dr.enable_grad(x); y = x * x; y.grad = 2; dr.backward_to(x)
x = Float(1, 2); dr.enable_grad(x); y, z = x * x, x * 3; x.grad = 2; dr.forward_to(y, z)
x = Float(1, 2); dr.enable_grad(x); y = x * x; dr.backward(y); dr.backward(y); (x.grad, y.grad)
x = Float(1, 2); dr.enable_grad(x); y = x * x; dr.backward(y); z = y * 2; dr.backward(z); x.grad
x = Float(1); dr.enable_grad(x); y = x * Float(1, 2, 3); y.grad = Float(1, 2, 3); dr.backward_to(x)
def back(flags): a = Float(1); dr.enable_grad(a); b = a * 2; c = b * 2; dr.backward(c, flags=flags); return a.grad, b.grad, c.grad
def forth(flags): a = Float(1); dr.enable_grad(a); b = a * 2; c = b * 2; dr.forward(a, flags=flags); return a.grad, b.grad, c.grad
[(back(k), forth(k)) for k in range(8)]
## values
def g(f, *v): x = Float(*v); dr.enable_grad(x); dr.backward(f(x)); return x.grad
g(dr.abs, -1, 0, 1), g(dr.sqrt, 0, 1), g(dr.rcp, 0), g(dr.log, 0), g(dr.asin, 1), g(dr.cbrt, 0, 8)
g(lambda x: dr.minimum(x, 1), 0, 1, 2), g(lambda x: dr.maximum(x, 1), 0, 1, 2), g(lambda x: dr.clip(x, 0, 1), -1, 0, .5, 1, 2)
g(dr.min, 1, 1, 2), g(dr.max, 1, 2, 2), g(dr.prod, 1, 2, 3), g(dr.mean, 1, 2), g(lambda x: dr.dot(x, Float(3, 4)), 1, 2)
g(lambda x: dr.hypot(x, Float(0, 4, 0)), 0, 3, 1), g(dr.safe_sqrt, 0, -1), g(dr.rsqrt, 0, 4)
g(lambda x: dr.select(x > 0, dr.sqrt(x), 0), 0, 1), g(lambda x: dr.select(x > 0, dr.log(x) * dr.rcp(x), 0), 0, 1)
g(lambda x: Float16(x) * 2, 0.5), g(lambda x: Float64(x) * 2, 0.5), g(lambda x: dr.mulsign(x, Float(-1)), 0.5)
g(dr.floor, 0.5)
g(lambda x: x > 0, 0.5)
g(lambda x: Float(UInt(x)), 0.5)
g(lambda x: dr.gather(Float, x, UInt(0, 0, 1), Bool(True, True, False)), 1, 2, 3), g(dr.cumsum, 1, 2, 3), g(dr.prefix_sum, 1, 2, 3)
g(lambda x: dr.block_sum(x, 2), 1, 2, 0, 3), g(lambda x: dr.block_reduce(dr.ReduceOp.Max, x, 2), 1, 1, 0, 3)
g(lambda x: dr.repeat(x, 2) * Float(1, 2, 3, 4), 1, 2), g(lambda x: dr.tile(x, 2) * Float(1, 2, 3, 4), 1, 2), g(lambda x: dr.unravel(Array3f, x).x, 1, 2, 3)
v, t = Float(1, 2, 3), Float(1, 2, 2, 4); dr.enable_grad(v, t); u = t * 1; dr.scatter_reduce(dr.ReduceOp.Min, u, v, UInt(0, 1, 1)); dr.backward(u); (v.grad, t.grad, u)
v, t = Float(1, 2, 3), Float(1, 2, 2, 4); dr.enable_grad(v, t); u = t * 1; dr.scatter_reduce(dr.ReduceOp.Max, u, v, UInt(0, 1, 1)); dr.backward(u); (v.grad, t.grad, u)
v, t = Float(1, 2), Float(0, 0, 0); dr.enable_grad(v, t); dr.scatter(t, v, UInt(0, 1)); dr.backward(t * 2); (t.grad, v.grad)
m = Matrix2f(1, 2, 3, 4); dr.enable_grad(m); dr.backward(m @ m); m.grad
z = Complex2f(1, 2); dr.enable_grad(z); dr.backward(dr.exp(z)); z.grad
""",
    globals(),
)
