# ruff: noqa: F401, F403
"""Representations of arrays and types."""

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
## floats
Float(0.1)
Float(1/3)
Float(1e-5)
Float(1e-4)
Float(123456)
Float(1234567)
Float(1e5, 1e6, 1e7)
Float(999999.5)
Float(1.5e-8, 3.4028235e38, 1e-45)
Float(-0.0, 0.0)
Float(float("nan"), float("inf"), -float("inf"))
Float(100000, 0.5)
Float(3.14159274)
Float64(0.1)
Float64(1/3, 1e300, 1e-300)
Float64(123456789)
Float64(1.0000001)
Float16(0.1)
Float16(1/3, 65504, 6e-8)
Float16(2049)
Float(1e16)
Float(12345.678)
Int(-5, 7)
UInt8(200, 5)
Int8(-5, 65)
UInt64(2**64-1)
Bool(True, False)
str(Float(1, 2))
f"{Float(1, 2)}"
format(Float(1, 2), ".2f")
"%s" % Float(1)
## long arrays
dr.arange(Float, 19)
dr.arange(Float, 20)
dr.arange(Float, 21)
dr.arange(Float, 22)
dr.arange(Float, 100)
dr.arange(UInt, 1000000)
dr.zeros(Bool, 30)
Array3f(dr.arange(Float, 20))
Array3f(dr.arange(Float, 21))
Array2f(dr.arange(Float, 7), 1)
ArrayXf(dr.arange(Float, 30))
dr.zeros(ArrayXf, (30, 2))
dr.zeros(ArrayXf, (2, 30))
dr.scalar.ArrayXf(*range(30))
dr.scalar.ArrayXf(*range(20))
Matrix2f(dr.arange(Float, 30))
Complex2f(dr.arange(Float, 30), 1)
Quaternion4f(dr.arange(Float, 30), 1, 2, 3)
dr.arange(TensorXf, 30)
TensorXf(dr.arange(Float, 60), (30, 2))
TensorXf(dr.arange(Float, 60), (2, 30))
TensorXf(dr.arange(Float, 50), (5, 5, 2))
## nested
Array3f(1, 2, 3)
Array3f([1, 2], [3, 4], [5, 6])
Array3b(True, False, True)
Array3f64(1/3)
Array22f([[1, 2], [3, 4]])
Array22f([[[1, 5], [2, 6]], [[3, 7], [4, 8]]])
Matrix2f([[[1, 5], [2, 6]], [[3, 7], [4, 8]]])
Matrix34f(1)
Array2f(float("nan"), -0.0)
Array3f(dr.zeros(Float, 0))
Array3f()
Array2f([1, 2], [3, 4])
ArrayXf([1, 2], [3, 4], [5, 6])
ArrayXf(1)
## complex and quaternion
Complex2f(1, 2)
Complex2f(1, -2)
Complex2f(0, 1)
Complex2f(0, 0)
Complex2f(0, -1)
Complex2f(1, 0)
Complex2f(-1.5, 0.25)
Complex2f(float("nan"), float("inf"))
Complex2f([1, 2], [3, 4])
Complex2f(1e-7, 1e10)
Quaternion4f(1, 2, 3, 4)
Quaternion4f(0, 0, 0, 1)
Quaternion4f(0, 0, 0, 0)
Quaternion4f(-1, -2, -3, -4)
Quaternion4f(0, 1, 0, 0)
Quaternion4f([1, 2], 0, 0, [3, 4])
dr.scalar.Complex2f(1, 2)
dr.scalar.Quaternion4f(1, 2, 3, 4)
dr.scalar.Matrix2f(1, 2, 3, 4)
dr.scalar.Array22f([1, 2], [3, 4])
dr.scalar.Array3f(0.1, 1e-9, 2)
dr.scalar.Array3b(True)
## tensors
TensorXf(1.5)
TensorXf([1.5])
TensorXf([[1, 2], [3, 4]])
TensorXf(dr.arange(Float, 8), (2, 2, 2))
TensorXf([])
dr.zeros(TensorXf, (0, 3))
dr.zeros(TensorXf, (3, 0))
TensorXb([True])
TensorXi([[-1]])
## differentiable
ad.Float(1, 2)
ad.Array3f(1, 2, 3)
a = ad.Float(1, 2); dr.enable_grad(a); a
a = ad.Float(1, 2); dr.enable_grad(a); a.grad
## types
repr(Float)
str(Array3f)
Float.__name__, Float.__module__, Float32.__name__, Int32.__name__, Array3f.__qualname__
Float is Float32, Int is Int32, UInt is UInt32
ad.Float, ad.Bool, ad.Int
Float.__mro__
Array3f.__mro__
TensorXf.__mro__
dr.scalar.Array3f.__mro__
dr.ArrayBase
""",
    globals(),
)
