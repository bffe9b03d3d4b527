# ruff: noqa: E501, F401, F403, F405
"""Gathers, scatters and changes of layout."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from dataclasses import dataclass

from _cases import cases

import drjit as dr
from drjit.llvm import *
from drjit.llvm import ad


@dataclass
class Data:
    """A structure described by annotations."""

    a: Float = 0
    b: Array2f = 0


cases(
    """
## gather
s = Float(1, 2, 3, 4); dr.gather(Float, s, UInt(0, 2))
s = Float(1, 2, 3, 4); dr.gather(Float, s, 2)
s = Float(1, 2, 3, 4); dr.gather(Float, s, [0, 1])
s = Float(1, 2, 3, 4); dr.gather(Float, s, Int(0, 2))
s = Float(1, 2, 3, 4); dr.gather(Float, s, Int64(0, 2))
s = Float(1, 2, 3, 4); dr.gather(Float, s, UInt64(3))
s = Float(1, 2, 3, 4); dr.gather(Float, s, UInt(0, 2), Bool(True, False))
s = Float(1, 2, 3, 4); dr.gather(Float, s, UInt(0, 2), False)
s = Float(1, 2, 3, 4); dr.gather(Float, s, UInt(0, 2), active=True)
s = Float(1, 2, 3, 4); dr.gather(Int, s, UInt(0, 2))
s = Float(1, 2, 3, 4); dr.gather(Float64, s, UInt(0, 2))
s = Int(1, 2, 3, 4); dr.gather(Float, s, UInt(0, 2))
s = Float(1, 2, 3, 4); dr.gather(float, s, 1)
s = Float(1, 2, 3, 4); dr.gather(dtype=Float, source=s, index=UInt(1))
s = Float(7); dr.gather(Float, s, UInt(0, 0, 0))
s = Float(); dr.gather(Float, s, UInt())
s = Float(1, 2, 3); dr.gather(Float, s, UInt())
s = dr.arange(Float, 9); dr.gather(Array3f, s, UInt(0, 2))
s = dr.arange(Float, 9); dr.gather(Array3f, s, UInt(0, 2), Bool(True, False))
s = dr.arange(Float, 8); dr.gather(Matrix2f, s, UInt(1))
s = dr.arange(Float, 8); dr.gather(Complex2f, s, UInt(1))
s = dr.arange(Float, 9); dr.gather(ArrayXf, s, UInt(1))
s = dr.arange(Float, 8); dr.gather(ArrayXf, s, UInt(1), shape=(2, 1))
s = Array3f([1, 2], [3, 4], [5, 6]); dr.gather(Array3f, s, UInt(1))
s = Array3f([1, 2], [3, 4], [5, 6]); dr.gather(Float, s, UInt(1))
s = [Float(1, 2), Int(3, 4)]; dr.gather(list, s, UInt(1))
s = (Float(1, 2), Array2f([3, 4], 5)); dr.gather(tuple, s, UInt(1, 0))
s = {"a": Float(1, 2)}; dr.gather(dict, s, UInt(1))
s = Data(Float(1, 2), Array2f([3, 4], [5, 6])); dr.gather(Data, s, UInt(1))
s = [Float(1, 2)]; dr.gather(tuple, s, UInt(1))
s = TensorXf([[1, 2], [3, 4]]); dr.gather(Float, s.array, UInt(1))
s = np.array([1, 2, 3.0]); dr.gather(Float, s, UInt(1))
s = [1.0, 2.0]; dr.gather(Float, s, UInt(1))
s = dr.scalar.ArrayXf(1, 2, 3); dr.gather(float, s, 1)
s = Bool(True, False); dr.gather(Bool, s, UInt(1))
s = Float16(1, 2); dr.gather(Float16, s, UInt(1))
s = Float(1, 2, 3, 4); dr.gather(Float, s, UInt(0, 1), mode=dr.ReduceMode.Local)
s = ad.Float(1, 2, 3); dr.gather(ad.Float, s, ad.UInt(1))
s = ad.Float(1, 2, 3); dr.gather(ad.Float, s, UInt(1))
s = ad.Float(1, 2, 3); dr.gather(Float, s, UInt(1))
s = Float(1, 2, 3); dr.gather(ad.Float, s, UInt(1))
## scatter
t = Float(1, 2, 3); dr.scatter(t, Float(9), UInt(0)); t
t = Float(1, 2, 3); dr.scatter(t, 9, 0); t
t = Float(1, 2, 3); dr.scatter(t, Float(8, 9), UInt(0, 2)); t
t = Float(1, 2, 3); dr.scatter(t, 9, UInt(0, 2)); t
t = Float(1, 2, 3); dr.scatter(t, [8, 9], [0, 1]); t
t = Int(1, 2, 3); dr.scatter(t, 8.7, UInt(0, 2)); t
t = Float(1, 2, 3); dr.scatter(t, Float(8, 9), UInt(0, 2), Bool(True, False)); t
t = Float(1, 2, 3); dr.scatter(t, 9, UInt(0, 2), active=False); t
t = Float(1, 2, 3); dr.scatter(t, Float(8, 9), Int(0, 2)); t
t = Float(1, 2, 3); dr.scatter(t, Float(8, 9), UInt(0, 1, 2)); t
t = Float(1, 2, 3); dr.scatter(t, Float(8, 9), UInt(0))
t = Float(1, 2, 3); dr.scatter(t, 9, UInt(1)); t.state
t = Float(1, 2, 3); dr.scatter(t, 9, UInt(1)); dr.scatter(t, 8, UInt(2)); t
t = dr.zeros(Float, 3); dr.scatter(t, 9, UInt(1)); t
t = dr.zeros(Float, 3); u = t + 0; dr.scatter(t, 9, UInt(1)); (t, u)
t = dr.zeros(Float, 3); u = Float(t); dr.scatter(t, 9, UInt(1)); (t, u)
t = Float(1); dr.scatter(t, 9, UInt(0)); t
t = Float(1, 2, 3); dr.scatter(t, t * 10, UInt(2, 1, 0)); t
t = dr.zeros(Array3f, 2); dr.scatter(t, Array3f(1, 2, 3), UInt(1)); t
t = dr.zeros(Float, 6); dr.scatter(t, Array3f(1, 2, 3), UInt(1)); t
t = dr.zeros(Float, 6); dr.scatter(t, Array3f(1, 2, 3), Array3u(5, 0, 1)); t
t = dr.zeros(Float, 6); dr.scatter(t, Matrix2f(1, 2, 3, 4), UInt(0)); t
t = [dr.zeros(Float, 2), dr.zeros(Int, 2)]; dr.scatter(t, [Float(1), Int(2)], UInt(1)); t
t = [dr.zeros(Float, 2)]; dr.scatter(t, [Float(1), Float(2)], UInt(1)); t
t = {"a": dr.zeros(Float, 2)}; dr.scatter(t, {"a": 1}, UInt(1)); t
t = Data(dr.zeros(Float, 2), dr.zeros(Array2f, 2)); dr.scatter(t, Data(Float(1), Array2f(2)), UInt(1)); t
t = TensorXf([1, 2]); dr.scatter(t.array, 9, UInt(0)); t
t = TensorXf([1, 2]); a = t.array; dr.scatter(a, 9, UInt(0)); (t, a)
t = np.zeros(3); dr.scatter(t, 1, 0); t
t = Float(1, 2); dr.scatter(t, "x", UInt(0))
t = Float(1, 2); dr.scatter(t, 1, "x")
t = Float(1, 2); dr.scatter(1, 1, UInt(0))
t = dr.scalar.ArrayXf(1, 2); dr.scatter(t, 9, 0); t
t = dr.zeros(Array3f); dr.scatter(t.x, 9, UInt(0)); t
## scatter_reduce
t = dr.zeros(Float, 3); dr.scatter_add(t, 1, UInt(0, 0, 2)); t
t = dr.zeros(Float, 3); dr.scatter_reduce(dr.ReduceOp.Add, t, 1, UInt(0, 0, 2)); t
t = dr.zeros(Float, 3); dr.scatter_reduce(dr.ReduceOp.Add, t, Float(1, 2, 3), UInt(0, 0, 2), Bool(True, False, True)); t
t = dr.zeros(Int, 3); dr.scatter_add(t, 1.5, UInt(0, 0, 2)); t
t = dr.ones(Int, 3); dr.scatter_reduce(dr.ReduceOp.Or, t, 6, UInt(0)); t
t = dr.full(Int, 7, 3); dr.scatter_reduce(dr.ReduceOp.And, t, 6, UInt(0)); t
t = dr.full(Float, 2, 3); dr.scatter_reduce(dr.ReduceOp.Or, t, 6, UInt(0)); t
t = dr.full(Float, 2, 3); dr.scatter_reduce(dr.ReduceOp.Identity, t, 6, UInt(0)); t
t = dr.zeros(Array2f, 2); dr.scatter_add(t, Array2f(1, 2), UInt(1, 1)); t
t = dr.zeros(Float, 4); dr.scatter_add(t, Array2f(1, 2), UInt(1, 1)); t
t = dr.zeros(Float64, 2); dr.scatter_add(t, 0.5, UInt(1, 1)); t
t = dr.zeros(Float, 3); dr.scatter_add(t, 1, UInt(0, 0, 2), mode=dr.ReduceMode.Expand); t
t = dr.zeros(Float, 3); dr.scatter_add(t, 1, UInt(0, 1, 2), mode=dr.ReduceMode.Permute); t
t = dr.zeros(Float, 3); dr.scatter_add(t, 1, UInt(0, 0, 2), mode=dr.ReduceMode.Local); t
t = dr.zeros(UInt, 1); i = dr.scatter_inc(t, dr.zeros(UInt, 3)); (type(i), sorted(i.numpy().tolist()), t)
t = dr.zeros(UInt, 1); dr.scatter_inc(t, UInt(0), Bool(False)); t
t = dr.zeros(UInt, 2); i = dr.scatter_inc(t, 0); (i, t)
t = Float(1, 2, 3); o = dr.scatter_exch(t, Float(9), UInt(1)); (o, t)
t = Float(1, 2, 3); o = dr.scatter_exch(t, Float(9, 8), UInt(1, 0), Bool(True, False)); (o, t)
t = UInt(1, 2, 3); o = dr.scatter_cas(t, UInt(2), UInt(9), UInt(1)); dr.eval(o); (o, t)
t = UInt(1, 2, 3); o = dr.scatter_cas(t, UInt(5), UInt(9), UInt(1)); (type(o), [type(x) for x in o])
t = UInt(1, 2, 3); o = dr.scatter_cas(t, UInt(5), UInt(9), UInt(1)); (o[0], t)
t = UInt(1, 2, 3); o = dr.scatter_cas(t, UInt(2), UInt(9), UInt(1)); t
## layout
dr.ravel(Array3f([1, 2], [3, 4], [5, 6]))
dr.ravel(Array3f([1, 2], [3, 4], [5, 6]), order="C")
dr.ravel(Array3f([1, 2], [3, 4], [5, 6]), order="F")
dr.ravel(Array3f([1, 2], [3, 4], [5, 6]), order="x")
dr.ravel(Array3f([1, 2], 3, 4))
dr.ravel(Float(1, 2)), dr.ravel(5), dr.ravel(Matrix2f(1, 2, 3, 4)), dr.ravel(Complex2f(1, 2)), dr.ravel(TensorXf([[1, 2], [3, 4]]))
dr.ravel(TensorXf([[1, 2], [3, 4]]), order="F")
dr.ravel(dr.scalar.Array3f(1, 2, 3)), dr.ravel(dr.scalar.Matrix2f(1, 2, 3, 4)), dr.ravel([1, 2])
dr.ravel(Array3f(Float(1, 2), Float(1, 2, 3), 0))
dr.unravel(Array3f, dr.arange(Float, 6))
dr.unravel(Array3f, dr.arange(Float, 6), order="C")
dr.unravel(Array3f, dr.arange(Float, 6), order="F")
dr.unravel(Array3f, dr.arange(Float, 7))
dr.unravel(Matrix2f, dr.arange(Float, 8))
dr.unravel(Array3f, dr.arange(Int, 6))
dr.unravel(Float, dr.arange(Float, 6))
dr.unravel(ArrayXf, dr.arange(Float, 6))
dr.unravel(dr.scalar.Array3f, dr.scalar.ArrayXf(1, 2, 3))
dr.slice(Array3f([1, 2], [3, 4], [5, 6]), 1), dr.slice(Float(1, 2), 1), dr.slice([Float(1, 2)], 1), dr.slice(5, 0), dr.slice(Matrix2f(1))
dr.slice(Float(1, 2), 5)
dr.slice(Array3f([1, 2], 3, 4), 1), dr.slice({"a": Float(1, 2)}, 1)
dr.slice(Complex2f(1, 2)), dr.slice(Quaternion4f(1, 2, 3, 4))
dr.reshape(Float(1, 2, 3, 4), 4), dr.reshape(TensorXf([1, 2, 3, 4]), (2, 2)), dr.reshape(TensorXf([1, 2, 3, 4]), (2, -1))
dr.reshape(Float(1, 2, 3, 4), (2, 2))
dr.reshape(Array2f, Float(1, 2, 3, 4), (2, 2))
dr.reshape(TensorXf, Float(1, 2, 3, 4), (2, 2))
dr.reshape(TensorXf([1, 2, 3, 4]), (3, -1))
dr.reshape(TensorXf([1, 2, 3, 4]), (-1, -1))
dr.reshape(TensorXf([1, 2, 3, 4]), 4)
dr.reshape(TensorXf([[1, 2], [3, 4]]), (4,), order="F")
dr.reshape(Array3f([1, 2], [3, 4], [5, 6]), 2)
dr.reshape(Array3f([1, 2], [3, 4], [5, 6]), (3, 1), shrink=True)
dr.reshape(Float, Array3f([1, 2], [3, 4], [5, 6]), -1)
dr.reshape(Float(1), 3)
dr.meshgrid(Float(1, 2), Float(3, 4, 5)), dr.meshgrid(Float(1, 2), Float(3, 4, 5), indexing="ij")
dr.meshgrid(Float(1, 2)), dr.meshgrid()
dr.meshgrid(UInt(0, 1), UInt(0, 1), UInt(0, 1))
dr.binary_search(0, 10, lambda i: i < 7)
dr.compress(Bool(True, False, True)), dr.compress(Bool(False)), dr.compress(Bool(True)), dr.compress(Bool())
dr.compress(Int(1, 0))
dr.compress(dr.scalar.ArrayXb(True, False, True))
dr.reinterpret_array(UInt, Float(1)), dr.reinterpret_array(Float, UInt(0x3f800000)), dr.reinterpret_array(Int, UInt(2**32-1)), dr.reinterpret_array(Array3u, Array3f(1))
dr.reinterpret_array(UInt64, Float(1))
dr.reinterpret_array(UInt, 1.0)
dr.repeat(Float(1, 2), 2), dr.repeat(5, 2), dr.repeat(Float(1, 2), 0), dr.repeat(TensorXf([1, 2]), 2), dr.repeat([Float(1, 2)], 2)
dr.repeat(Float(1, 2), UInt(1, 3))
dr.repeat(Float(1, 2), [1, 3]), dr.repeat(Float(1, 2), TensorXu([1, 3])), dr.repeat(Float(1, 2), np.array([1, 3]))
dr.tile(TensorXf([1, 2]), np.array([2, 1])), dr.zeros(TensorXf, UInt(2, 3)).shape, dr.zeros(TensorXf, range(2, 4)).shape
dr.take(TensorXf([1, 2, 3]), UInt(2)), dr.take(TensorXf([[1, 2], [3, 4]]), UInt(1), axis=1), dr.take_interp(TensorXf([[1, 2], [3, 4]]), Float(0.5))
dr.tile(Float(1, 2), 2), dr.tile(TensorXf([1, 2]), 2)
dr.tile(5, 2)
dr.tile(TensorXf([1, 2]), (2, 2))
dr.concat([Float(1, 2), Float(3)]), dr.concat([Float(1)]), dr.concat([TensorXf([[1, 2]]), TensorXf([[3, 4]])]), dr.concat([TensorXf([[1, 2]]), TensorXf([[3, 4]])], axis=1), dr.concat([TensorXf([[1, 2]]), TensorXf([[3, 4]])], axis=None)
dr.concat([])
dr.concat([Float(1), Int(2)])
dr.concat([Array2f(1, 2), Array2f(3, 4)])
dr.concat([Float(1), 2])
dr.reverse(Float(1, 2, 3)), dr.reverse(Array3f(1, 2, 3)), dr.reverse([1, 2, 3])
a = Float(1, 2); b = dr.copy(a); b += 1; (a, b, dr.copy([a])[0] is a, dr.copy(5))
dr.moveaxis(TensorXf([[1, 2], [3, 4]]), 0, 1), dr.transpose(TensorXf([[1, 2], [3, 4]])), dr.swapaxes(TensorXf([[1, 2], [3, 4]]), 0, 1)
dr.squeeze(TensorXf([[1, 2]])).shape, dr.expand_dims(TensorXf([1, 2]), 0).shape, dr.stack([TensorXf([1, 2]), TensorXf([3, 4])]), dr.take(TensorXf([[1, 2], [3, 4]]), 0)
dr.stack([Float(1, 2), Float(3, 4)])
dr.sort(Float(3, 1, 2)), dr.argsort(Float(3, 1, 2)), dr.argmin(Float(3, 1, 2)), dr.argmax(Float(3, 1, 2)), dr.median(Float(3, 1, 2))
dr.split(TensorXf([1, 2, 3, 4]), 2), dr.array_split(TensorXf([1, 2, 3]), 2)
dr.take(TensorXf([1, 2, 3]), UInt(0, 2))
dr.slice_index(TensorXf, (2, 3), (slice(None), 0))
dr.slice_index(UInt, (2, 3), (slice(None), 0))
## ranges
dr.gather(Float, Float(1, 2, 3), UInt(5), False)
dr.set_flag(dr.JitFlag.Debug, True); s = Float(1, 2, 3); dr.eval(dr.gather(Float, s, UInt(0, 7)))
""",
    globals(),
)
