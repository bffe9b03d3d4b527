# ruff: noqa: E501, F401, F403
"""Evaluation, formatting, assertions, export and copies."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit.llvm import *
from drjit.llvm import ad

cases(
    """
## schedule and eval
dr.eval(), dr.schedule()
dr.eval(Float(1)), dr.schedule(Float(1)), dr.eval(Float(1, 2) + 1), dr.schedule(Float(1, 2) + 1), dr.eval(Float(1, 2)), dr.eval(5), dr.eval("x"), dr.eval(None), dr.eval([Float(1, 2) + 1]), dr.eval({"a": Float(1, 2) + 1})
a = Float(1, 2) + 1; dr.schedule(a); a.state, dr.schedule(a), a.state, dr.eval(a)
a = Float(1); dr.eval(a); a.state
a = Float(1); dr.make_opaque(a); a.state
a = Array3f(1); dr.make_opaque(a); (a.state, dr.make_opaque(5), dr.make_opaque([Float(1)]))
Array3f(Float(1, 2), 1, Float(1, 2) + 1).state, Array3f(1).state, Array3f().state, Float().state, Bool(True).state, Matrix2f(1).state
dr.scalar.Array3f(1).state
a = dr.opaque(5); a
dr.opaque(Float(1)).state, dr.opaque([Float(1)])[0].state, dr.opaque(Array3f, 2), dr.opaque(int, 3)
a = dr.empty(Float, 3); dr.eval(a)
a = dr.empty(Float, 3) + 1; a.state
t = dr.zeros(Float, 3); dr.eval(t); dr.scatter(t, 1, UInt(0)); (t.state, t[0], t.state)
dr.opaque_width(Float(1, 2, 3))
Float(1).index > 0, Float().index, Float(1).index_ad, ad.Float(1).index_ad
Array3f(1).index
a = ad.Float(1); dr.enable_grad(a); a.index_ad > 0
a = Float(1); b = Float(a); a.index == b.index
a = Float(1, 2); (a * 1).index == a.index, (a - a).state
a = Float(3); b = Float(3); c = Float(4); a.index == c.index
(Float(2) + 3).state, (Float(2) + 3), dr.sin(Float(1)).state, (Float(1) / 3).state
## labels
a = Float(1, 2); a.label = "x"; a.label
Float(1, 2).label
a = Float(1, 2); b = Float(3, 4); dr.set_label(a=a, b=b); (a.label, b.label)
a = Float(1); a.label = 5
dr.set_label(5, "x")
## kernel history
dr.set_flag(dr.JitFlag.KernelHistory, True); dr.kernel_history_clear(); dr.eval(Float(1, 2) + 1); h = dr.kernel_history(); len(h)
dr.set_flag(dr.JitFlag.KernelHistory, True); dr.kernel_history_clear(); dr.eval(Float(1, 2) + 1); h = dr.kernel_history([dr.KernelType.JIT]); (h[0]["type"], h[0]["size"], h[0]["backend"], len(dr.kernel_history()))
dr.set_flag(dr.JitFlag.KernelHistory, True); dr.kernel_history_clear(); x = dr.cumsum(Float(1, 2)); h = dr.kernel_history(); [e["type"] for e in h]
dr.set_flag(dr.JitFlag.KernelHistory, False); dr.kernel_history()
## format and print
dr.format(Float(1, 2))
dr.format("x")
dr.format("{}", Float(1, 2))
dr.format("{} {}", 1, Float(2))
dr.format("{a} {b}", a=Float(1), b="s")
x = Float(1, 2); dr.format("{x}", x=x)
x = Float(1, 2); dr.format("{x=}", x=x)
x = Array3f([1, 2], 3, 4); dr.format("{x=}", x=x)
x = Array3f([1, 2], 3, 4); dr.format("a {x} b", x=x)
dr.format("{0} {1} {0}", 1, 2)
dr.format("{:.2f}", 1.5)
dr.format("{:.2f}", Float(1.5))
dr.format("{{}} {}", 1)
dr.format("{", 1)
dr.format("{x}")
dr.format("{}")
dr.format(Float(1), 2)
dr.format("{}", dr.arange(Float, 30))
dr.format("{}", dr.arange(Float, 30), limit=4)
dr.format("{}", dr.arange(Float, 30), limit=-1)
dr.format("{}", dr.arange(Float, 5), limit=5)
dr.format("{}", dr.arange(Float, 7), limit=6)
dr.format("{}", dr.arange(Float, 8), limit=7)
dr.format(dr.arange(Float, 30), limit=6)
dr.format([Float(1), Float(2)])
dr.format({"a": Float(1), "b": [1, 2]})
dr.format((1, "s", None))
dr.format(5), dr.format(1.5), dr.format([]), dr.format(()), dr.format({})
dr.format("{}", {"a": Float(1)})
dr.format(Float)
import io; f = io.StringIO(); dr.print(Float(1, 2), file=f); f.getvalue()
import io; f = io.StringIO(); dr.print("v={}", Float(1, 2), file=f); f.getvalue()
import io; f = io.StringIO(); dr.print("v={x} {y}", x=Float(1, 2), y=3, file=f, end=""); f.getvalue()
import io; f = io.StringIO(); dr.print(Float(1, 2, 3), active=Bool(True, False, True), file=f); f.getvalue()
import io; f = io.StringIO(); dr.print("{}", Float(1, 2, 3), active=False, file=f); f.getvalue()
import io; f = io.StringIO(); dr.print("{} {thread_id}", Float(1, 2, 3), active=Bool(True, False, True), file=f); f.getvalue()
import io; f = io.StringIO(); dr.print("{} {}", Float(1, 2, 3), Int(5), file=f); f.getvalue()
import io; f = io.StringIO(); dr.print("{}", Float(1, 2, 3), Int(5), file=f); f.getvalue()
import io; f = io.StringIO(); dr.print(dr.arange(Float, 30), limit=4, file=f); f.getvalue()
import io; f = io.StringIO(); dr.print("hello", file=f); f.getvalue()
import io; f = io.StringIO(); dr.print(Array3f([1, 2], 3, 4), file=f); f.getvalue()
dr.print(Float(1), mode="x")
dr.print()
## assertions (they do nothing unless the Debug flag is set)
dr.assert_true(Bool(True)), dr.assert_true(True), dr.assert_false(False), dr.assert_equal(Float(1, 2), Float(1, 2)), dr.assert_equal(1, 1)
dr.assert_true(Bool(True, False))
dr.assert_true(False)
dr.assert_true(Bool(False), "bad {}", Float(1))
dr.assert_false(Bool(True))
dr.assert_equal(Float(1, 2), Float(1, 3))
dr.assert_equal(Float(1, 2), Float(1, 3), "values differ")
dr.assert_equal(1, 2)
dr.assert_true(Array3b(True, False, True))
dr.assert_true("x")
dr.assert_true(Float(1))
dr.assert_equal([Float(1)], [Float(1)])
dr.assert_equal(Array3f(1), Array3f(2))
## allclose
dr.allclose(1, 1), dr.allclose(Float(1, 2), [1, 2]), dr.allclose(Float(1), 1.00001), dr.allclose(Float(1), 1.1), dr.allclose(Float64(1), 1.00001), dr.allclose([1, [2]], [1, [2]]), dr.allclose(Float(1), Float(1, 1))
dr.allclose(Float(float("nan")), float("nan")), dr.allclose(Float(float("nan")), float("nan"), equal_nan=True), dr.allclose(float("nan"), float("nan"), equal_nan=True), dr.allclose(Float(float("inf")), float("inf"))
dr.allclose(Float(1, 2), Float(1, 2, 3))
dr.allclose([1, 2], [1, 2, 3])
dr.allclose(Array3f(1), 1), dr.allclose(Array3f(1, 2, 3), [1, 2, 3]), dr.allclose(TensorXf([1, 2]), [1, 2]), dr.allclose(TensorXf([1]), TensorXf([[1]])), dr.allclose(np.array([1.0]), Float(1)), dr.allclose(Float(1), np.array([1.0])), dr.allclose(Int(1), 1), dr.allclose(Bool(True), True)
dr.allclose(None, None)
dr.allclose(Float(1), 1.05, rtol=0.1), dr.allclose(Float(1), 1.05, atol=0.1), dr.allclose(Float16(1), 1.001), dr.allclose(Float(1), 1 + 2e-5), dr.allclose(Float(0), 1e-9)
dr.assert_allclose(Float(1), 1)
dr.assert_allclose(Float(1, 2), Float(1, 3))
type(dr.allclose(Float(1), 1))
## export
Float(1, 2).numpy()
Array3f([1, 2], [3, 4], [5, 6]).numpy()
Array3f(1, 2, 3).numpy()
Array3f([1, 2], 3, 4).numpy()
Array22f([1, 2], [3, 4]).numpy().shape
Matrix2f([[[1, 5], [2, 6]], [[3, 7], [4, 8]]]).numpy()[:, :, 0]
Complex2f(1, 2).numpy()
Complex2f([1, 2], [3, 4]).numpy().shape
Quaternion4f(1, 2, 3, 4).numpy()
TensorXf([[1, 2], [3, 4]]).numpy(), TensorXf(1).numpy(), TensorXf(1).numpy().shape, dr.zeros(TensorXf, (2, 0)).numpy().shape
Bool(True, False).numpy(), Int(1).numpy(), UInt8(1).numpy(), Int8(1).numpy(), UInt64(1).numpy(), Float16(1).numpy(), Float64(1).numpy()
Float().numpy(), Array3f().numpy().shape, dr.zeros(Array3f, 0).numpy().shape, ArrayXf([1, 2], [3, 4]).numpy(), ArrayXf().numpy().shape
Array3f(Float(1, 2), Float(1, 2, 3), 0).numpy()
dr.scalar.Array3f(1, 2, 3).numpy(), dr.scalar.Matrix2f(1, 2, 3, 4).numpy(), dr.scalar.ArrayXf(1, 2).numpy(), dr.scalar.Complex2f(1, 2).numpy()
Array3f([1, 2], [3, 4], [5, 6]).numpy().flags.c_contiguous, Array3f([1, 2], [3, 4], [5, 6]).numpy().strides
np.array(Float(1, 2)), np.asarray(Array3f(1, 2, 3)), np.array(Float(1, 2), dtype=np.float64), np.array(TensorXf([[1, 2]]))
np.array(Float(1, 2), copy=False)
np.sin(Float(1, 2)), np.add(Float(1, 2), 1), np.sum(Float(1, 2))
np.array([Float(1, 2), Float(3, 4)])
np.float32(Float(1))
Float(1, 2).__array__(), Float(1, 2).__array__(np.float64)
Float(1, 2).to_numpy()
memoryview(Float(1, 2).memview()).format, Float(1, 2).memview().shape, Float(1, 2).memview().readonly, Array3f([1, 2], 3, 4).memview().shape
np.from_dlpack(Float(1, 2)), Float(1, 2).__dlpack_device__(), type(Float(1, 2).__dlpack__()).__name__
np.from_dlpack(Array3f([1, 2], 3, 4))
ad.Float(1, 2).numpy()
a = ad.Float(1, 2); dr.enable_grad(a); a.numpy()
Float(1, 2).torch()
Float(1, 2).jax()
Float(Float(1, 2).numpy()) + 1
a = (Float(1, 2) + 1); b = a.numpy(); b[0] = 9; (a, a.state)
a = dr.zeros(Float, 2); b = a.numpy(); b[0] = 9; a
## state
import copy; a = [Float(1, 2)]; b = copy.deepcopy(a); b[0] += 1; (a, b)
import copy; a = Array3f(1); b = copy.copy(a); b.x = 5; (a, b)
import pickle; a = ad.Float(1, 2); dr.enable_grad(a); b = pickle.loads(pickle.dumps(a)); (b, dr.grad_enabled(b))
import pickle; pickle.loads(pickle.dumps(Bool(True))), pickle.loads(pickle.dumps(Float()))
import pickle; pickle.loads(pickle.dumps(dr.scalar.Array3f(1, 2, 3)))
import pickle; pickle.loads(pickle.dumps(Float)) is Float
## whos and flags
type(dr.whos(as_string=True)).__name__
a = Float(1, 2) + 1; a.label = "aa"; [l for l in dr.whos(as_string=True).splitlines() if "aa" in l][0].split()[1:3]
type(dr.graphviz(as_string=True)).__name__
dr.whos_ad(as_string=True)
dr.set_flag(dr.JitFlag.Debug, False)
dr.flag("x")
dr.sync_thread(), dr.flush_malloc_cache(), dr.flush_kernel_cache()
len(dr.detail.launch_stats()), dr.detail.llvm_version()[0] > 0
""",
    globals(),
)
