# ruff: noqa: F401, F403
"""Item access, components, swizzles and attributes."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit.llvm import *

cases(
    """
## 1-D get
Float(1, 2, 3)[0]
Float(1, 2, 3)[-1]
Float(1, 2, 3)[3]
Float(1, 2, 3)[-4]
Int(1, 2)[1]
Bool(True)[0]
Float64(1.5)[0]
Float16(1.5)[0]
UInt64(5)[0]
Float(1)[1]
Float()[0]
Float(1, 2, 3)[1:3]
Float(1, 2, 3, 4)[::2]
Float(1, 2, 3)[:]
Float(1, 2, 3)[5:]
Float(1, 2, 3)[:-1]
Float(1, 2, 3)[UInt(2, 0)]
Float(1, 2, 3)[Int(0)]
Float(1, 2, 3)[Int64(0)]
Float(1, 2, 3)[Float(0)]
Float(1, 2, 3)[Bool(True, False, True)]
Float(1, 2, 3)[True]
Float(1, 2, 3)[None]
Float(1, 2, 3)[...]
Float(1, 2, 3)[()]
Float(1, 2, 3)[0,]
Float(1, 2, 3)[0, 0]
Float(1, 2, 3)[[0, 1]]
Float(1, 2, 3)[1.0]
Float(1, 2, 3)["x"]
Float(1, 2, 3)[np.array([0, 1])]
## 1-D set
a = Float(1, 2, 3); a[0] = 9; a
a = Float(1, 2, 3); a[-1] = 9; a
a = Float(1, 2, 3); a[3] = 9; a
a = Float(1, 2, 3); a[0] = Float(9); a
a = Float(1, 2, 3); a[0] = Float(9, 8); a
a = Float(1, 2, 3); a[0] = Int(9); a
a = Float(1, 2, 3); a[0] = "x"; a
a = Float(1, 2, 3); a[0] = None; a
a = Int(1, 2, 3); a[0] = 1.5; a
a = Int(1, 2, 3); a[0] = 2**40; a
a = Bool(True, True); a[0] = 0; a
a = Float(1, 2, 3); a[1:3] = 9; a
a = Float(1, 2, 3); a[:2] = Float(7, 8); a
a = Float(1, 2, 3); a[::2] = 0; a
a = Float(1, 2, 3); a[:] = 5; a
a = Float(1, 2, 3); a[...] = 5; a
a = Float(1, 2, 3); a[Bool(True, False, True)] = 9; a
a = Float(1, 2, 3); a[a > 1] = a * 10; a
a = Float(1, 2, 3); a[a > 1] = 0; a
a = Float(1, 2, 3); a[True] = 0; a
a = Float(1, 2, 3); a[UInt(0, 2)] = 9; a
a = Float(1, 2, 3); a[UInt(0, 2)] = Float(7, 8); a
a = Float(1); a[Bool(True, False)] = 9; a
a = Float(1, 2, 3); a[[0, 1]] = 9; a
a = Float(1, 2, 3); b = a; b[0] = 9; (a, b)
a = Float(1, 2, 3); b = Float(a); b[0] = 9; (a, b)
a = Float(1, 2, 3); c = a + 0; a[0] = 9; c
a = Int(1, 2, 3); a[a > 1] = 1.5; a
a = Float(1, 2, 3); a[a > 1] = Float64(1.5); a
## nested get
Array3f(1, 2, 3)[0]
Array3f(1, 2, 3)[-1]
Array3f(1, 2, 3)[3]
Array3f([1, 2], 3, 4)[0, 1]
Array3f([1, 2], 3, 4)[0][1]
Array3f(1, 2, 3)[0:2]
Array3f(1, 2, 3)[1:]
Array3f(1, 2, 3)[::-1]
Array3f(1, 2, 3)[UInt(0)]
Array3f(1, 2, 3)[Array3b(True)]
Array3f(1, 2, 3)[None]
Array3f(1, 2, 3)[...]
ArrayXf([1, 2], [3, 4])[0]
ArrayXf([1, 2], [3, 4])[1:]
Array22f([1, 2], [3, 4])[0]
Array22f([1, 2], [3, 4])[0, 1]
Array22f([1, 2], [3, 4])[0, 1, 0]
## nested set
a = Array3f(1, 2, 3); a[0] = 9; a
a = Array3f(1, 2, 3); a[0] = Float(8, 9); a
a = Array3f(1, 2, 3); a[0] = Int(8); a
a = Array3f(1, 2, 3); a[0] = Float64(8); a
a = Array3f(1, 2, 3); a[3] = 8; a
a = Array3f(1, 2, 3); a[0] = "x"; a
a = Array3f(1, 2, 3); a[0] = Array3f(1); a
a = Array3i(1, 2, 3); a[0] = 1.5; a
a = Array3i(1, 2, 3); a[0] = Float(1.5); a
a = Array3f(1, 2, 3); a[0:2] = 7; a
a = Array3f(1, 2, 3); a[...] = 7; a
a = Array3f(1, 2, 3); a[Bool(True, False)] = 9; a
a = Array3f(1, 2, 3); a[Array3b(True, False, True)] = 9; a
a = Array3f(1, 2, 3); a[a > 1] = a * 10; a
a = Array3f(1, 2, 3); a[Bool(True)] = Array3f(7, 8, 9); a
a = Array3f([1, 2], 3, 4); a[0, 1] = 9; a
a = Array3f(1, 2, 3); x = a[0]; x += 1; a
a = Array3f(1, 2, 3); x = a.x; a.x = 9; x
a = Array3f(Float(1, 2), 3, 4); f = a.x; a[a > 1] = 0; f
f = Float(1); a = Array3f(f, f, f); a.x += 1; (f, a)
f = Float(1); a = Array3f(f, 2, 3); f += 1; (f, a)
## components
Array3f(1, 2, 3).x
Array3f(1, 2, 3).w
Array2f(1, 2).z
Array4f(1, 2, 3, 4).w
Float(1, 2).x
ArrayXf([1], [2]).x
ArrayXf([1], [2]).z
Array3f(1, 2, 3).xy
Array3f(1, 2, 3).zyx
Array3f(1, 2, 3).xx
Array3f(1, 2, 3).xyzx
Array3f(1, 2, 3).xyzxy
Array3f(1, 2, 3).xw
Array3f(1, 2, 3).xyq
Array4f(1, 2, 3, 4).wzyx
Array3i(1, 2, 3).yz
Array22f([1, 2], [3, 4]).yx
dr.scalar.Array3f(1, 2, 3).xz
dr.scalar.Array3f(1, 2, 3).x
Complex2f(1, 2).yx
Matrix2f(1, 2, 3, 4).x
TensorXf([1, 2]).x
ArrayXf([1], [2]).xy
a = Array3f(1, 2, 3); a.x = 9; a
a = Array3f(1, 2, 3); a.x = Float(8, 9); a
a = Array3f(1, 2, 3); a.w = 9; a
a = Array3f(1, 2, 3); a.xy = 9; a
a = Array3f(1, 2, 3); a.xy = Array2f(8, 9); a
a = Array3f(1, 2, 3); a.xy = Float(8, 9); a
a = Array3f(1, 2, 3); a.xy += 1; a
a = Array3f(1, 2, 3); a.xy = a.yx; a
a = Array3f(1, 2, 3); a.xy = (8, 9); a
a = Array3f(1, 2, 3); a.xy = Array3f(8, 9, 10); a
## matrix, complex, quaternion
Matrix2f(1, 2, 3, 4)[0]
Matrix2f(1, 2, 3, 4)[0, 1]
Matrix2f(1, 2, 3, 4)[0][1]
Matrix2f(1, 2, 3, 4)[2]
Matrix2f(1, 2, 3, 4)[:, 0]
Matrix2f(1, 2, 3, 4)[0:1]
a = Matrix2f(1, 2, 3, 4); a[0, 1] = 9; a
a = Matrix2f(1, 2, 3, 4); a[0] = Array2f(8, 9); a
a = Matrix2f(1, 2, 3, 4); a[0] = 9; a
a = Matrix2f(1, 2, 3, 4); a[0][1] = 9; a
a = Matrix2f(1, 2, 3, 4); a[0, 1] = Float(8, 9); a
Matrix2f(1, 2, 3, 4).T
Matrix2f(1, 2, 3, 4).mT
Array3f(1, 2, 3).T
TensorXf([[1, 2], [3, 4]]).T
TensorXf([[1, 2], [3, 4]]).mT
TensorXf([1, 2]).T
Complex2f(1, 2).real
Complex2f(1, 2).imag
Complex2f(1, 2).x
Complex2f(1, 2)[0]
a = Complex2f(1, 2); a.real = 5; a
a = Complex2f(1, 2); a.imag = Float(5, 6); a
Quaternion4f(1, 2, 3, 4).w
Float(1).real
Float(1).imag
Array3f(1).real
## tensors
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[0]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[0, 1]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[-1]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[:, 1]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[:, 0:2]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[:, ::2]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[:, ::-1]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[..., 1]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[None]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[:, None, :].shape
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[..., None].shape
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[UInt(1, 0)]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[:, UInt(2, 0)]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[UInt(1, 0), UInt(2, 0)]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[1.0]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[TensorXu([1])]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[TensorXi([1]), 0]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[()]
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[0:0].shape
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[0, 1] = 9; t
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[0] = 9; t
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[0] = TensorXf([7, 8]); t
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[:] = 1; t
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[t > 2] = 0; t
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[t > 2] = t * 10; t
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[UInt(0, 1), 0] = 9; t
t = TensorXf(dr.arange(Float, 6), (2, 3)); t[0:1] = Float(7, 8, 9); t
t = TensorXf(dr.arange(Float, 6), (2, 3)); u = t; u[0] = 9; t
t = TensorXf(dr.arange(Float, 6), (2, 3)); t.array
t = TensorXf(dr.arange(Float, 6), (2, 3)); t.array[0] = 5; t
t = TensorXf(dr.arange(Float, 6), (2, 3)); (t.shape, t.ndim, len(t))
TensorXf(1)[()]
TensorXf([1, 2])[0]
## attributes
Float(1, 2).shape, Float(1, 2).ndim
Array3f(1, 2, 3).shape, Array3f(1).ndim
Array3f([1, 2], 3, 4).shape
Array3f(Float(1, 2), Float(1, 2, 3), 1).shape
Matrix2f(1).shape
ArrayXf([1, 2], [3, 4]).shape
Array3f(1, 2, 3).array
Float(1, 2).array
Matrix2f(1, 2, 3, 4).array
Complex2f(1, 2).array
dr.scalar.Array3f(1, 2, 3).shape
dr.scalar.Array3f(1, 2, 3).array
Float(1).item()
Float(1, 2).item()
Array3f(1).item()
TensorXf(5).item()
TensorXf([5]).item()
TensorXf([[5]]).item()
Int(3).item(), Bool(True).item()
Float().item()
Array1f(5).item()
dr.scalar.Array3f(1).item()
""",
    globals(),
)
