# ruff: noqa: E501, F401, F403, F405
"""Construction from NumPy arrays, of nested types, matrices, complex numbers, quaternions and tensors."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit.llvm import *

DTYPES = (
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "object",
    "U3",
    "M8[s]",
)


def construct(cls, dtype):
    """Returns what a type makes of [0, 1, 3] of a NumPy dtype, or the exception's name."""
    try:
        return repr(cls(np.array([0, 1, 3]).astype(dtype)))
    except Exception as error:
        return type(error).__name__


for cls in (Float, Float16, Float64, Int, UInt8, Int64, Bool):
    for dtype in DTYPES:
        print(cls.__name__, dtype, construct(cls, dtype))

cases(
    """
## 1-D from arrays
Float(np.array(5.0))
Float(np.array(5.0, dtype=np.float32))
Float(np.zeros(0))
Float(np.zeros((2, 2)))
Float(np.zeros((1, 2)))
Float(np.zeros((2, 1)))
Float(np.array([1, 2, 3, 4], dtype=np.float32)[::2])
Float(np.array([1, 2, 3, 4], dtype=np.float32)[::-1])
Int(np.array([1.7, -1.7, 2.5]))
UInt8(np.array([300, -1]))
Int(np.array([2**40 + 7]))
a = np.array([1, 2, 3], dtype=np.float32); b = Float(a); dr.scatter(b, 9, UInt(0)); (a, b)
a = np.array([1, 2, 3], dtype=np.float32); a.setflags(write=False); b = Float(a); b
b = Float(1, 2, 3); c = b.numpy(); c[0] = 5; (b, c)
b = Float(1, 2, 3); c = np.asarray(b); c[0] = 5; (b, c)
b = Float(1, 2, 3); c = np.array(b); c[0] = 5; (b, c)
memoryview(np.array([1, 2], dtype=np.float32)); Float(memoryview(np.array([1, 2], dtype=np.float32)))
import array; Float(array.array("f", [1, 2]))
## nested: forms
Array3f()
Array3f(1)
Array3f(1, 2, 3)
Array3f([1, 2, 3])
Array3f((1, 2, 3))
Array3f([1, 2], [3, 4], [5, 6])
Array3f([[1, 2], [3, 4], [5, 6]])
Array3f([1, 2], 3, 4)
Array3f(Float(1, 2))
Array3f([Float(1, 2), 3, 4])
Array3f(Float(1, 2), Float(3), Float64(5, 6))
Array3f(Float(1, 2), Float(3, 4, 5), 1)
Array3f(Int(1, 2))
Array3f(1, 2)
Array3f(1, 2, 3, 4)
Array3f([1, 2])
Array3f([1, 2, 3, 4])
Array3f([[1, 2]])
Array3f(range(3))
Array3f(i for i in range(3))
Array3f(Array3f64(1, 2, 3))
Array3f(Array3i(1, 2, 3))
Array3f(Array2f(1, 2))
Array3f(Array4f(1, 2, 3, 4))
Array3f(ArrayXf([1], [2], [3]))
Array3f(Array33f(1))
Array3i(Array3f(1.7, -1.7, 2.5))
Array3b(Array3f(1, 0, 2))
Array3f(None)
Array3f("abc")
Array3f("x", "y", "z")
Array3f(1, 2, None)
Array3f(1j)
Array3u(-1, 2, 3)
Array3i(1.5, 2, 3)
Array3f(np.arange(6, dtype=np.float32).reshape(3, 2))
Array3f(np.arange(6, dtype=np.float32).reshape(2, 3))
Array3f(np.arange(9, dtype=np.float32).reshape(3, 3))
Array3f(np.arange(3, dtype=np.float32))
Array3f(np.arange(3, dtype=np.float64))
Array3f(np.arange(3))
Array3f(np.arange(4))
Array3f(np.arange(1))
Array3f(np.array(5))
Array3f(np.arange(12).reshape(3, 2, 2))
Array3f(np.arange(6.0).reshape(2, 3).T)
Array3f(np.arange(2.0), np.arange(2.0), np.arange(2.0))
Array3f(np.zeros((3, 0)))
Array3f(TensorXf(np.arange(6).reshape(3, 2)))
Array3f(TensorXf(np.arange(3)))
Array3f(Quaternion4f(1))
Array2f(Complex2f(1, 2))
Complex2f(Array2f(1, 2))
Array0f()
Array0f(1)
Array1f(1)
Array1f([1, 2])
Array1f([[1, 2]])
Array22f(1)
Array22f(1, 2)
Array22f([1, 2], [3, 4])
Array22f([[1, 2], [3, 4]])
Array22f(1, 2, 3, 4)
Array22f(Array2f(1, 2), Array2f(3, 4))
Array22f(np.arange(4.0).reshape(2, 2))
Array22f(np.arange(8.0).reshape(2, 2, 2))
Array22f(Matrix2f(1, 2, 3, 4))
Array33f(Matrix3f(2))
ArrayXf()
ArrayXf(1)
ArrayXf(1, 2)
ArrayXf([1, 2])
ArrayXf([1, 2], [3, 4])
ArrayXf([[1, 2], [3, 4]])
ArrayXf(Float(1, 2))
ArrayXf(Array3f(1, 2, 3))
ArrayXf(np.arange(6.0).reshape(3, 2))
ArrayXf(np.arange(3.0))
ArrayXf([])
ArrayXf(range(3))
ArrayXf(Float(1, 2), Float(3))
dr.scalar.Array3f(1)
dr.scalar.Array3f(1, 2, 3)
dr.scalar.Array3f([1, 2, 3])
dr.scalar.Array3f(1, 2)
dr.scalar.Array3f(Float(1, 2))
dr.scalar.Array3f(np.arange(3.0))
dr.scalar.Array3i(1.5)
dr.scalar.Array3u(-1)
dr.scalar.Array3u8(300)
dr.scalar.Array3f(None)
dr.scalar.ArrayXf(1, 2)
dr.scalar.ArrayXf([1, 2])
dr.scalar.ArrayXf(5)
dr.scalar.ArrayXf(np.arange(3))
dr.scalar.Float
dr.scalar.Int, dr.scalar.Bool
## matrices
Matrix2f()
Matrix2f(2)
Matrix2f(1, 2, 3, 4)
Matrix2f([1, 2], [3, 4])
Matrix2f([[1, 2], [3, 4]])
Matrix2f([1, 2, 3, 4])
Matrix2f(1, 2)
Matrix2f(1, 2, 3)
Matrix2f(1, 2, 3, 4, 5)
Matrix2f(Array2f(1, 2), Array2f(3, 4))
Matrix2f(Float(1, 2))
Matrix2f(Float(1, 2), 3, 4, 5)
Matrix2f(Array2f(1, 2))
Matrix2f(Array22f([1, 2], [3, 4]))
Matrix2f(Matrix2f64(1, 2, 3, 4))
Matrix3f(Matrix4f(2))
Matrix4f(Matrix3f(2))
Matrix2f(np.arange(4.0).reshape(2, 2))
Matrix2f(np.arange(8.0).reshape(2, 2, 2))
Matrix2f(np.arange(4.0))
Matrix2f(None)
Matrix2f(TensorXf([1, 2, 3, 4], (2, 2)))
Matrix3f(*range(9))
Matrix4f(*range(16))
Matrix34f(1)
Matrix41f(1)
## complex and quaternion
Complex2f()
Complex2f(1)
Complex2f(1, 2)
Complex2f([1, 2])
Complex2f(1 + 2j)
Complex2f([1 + 2j, 3 + 4j])
Complex2f([1, 2], [3, 4])
Complex2f(Float(1, 2))
Complex2f(Array2f(1, 2))
Complex2f(Complex2f64(1, 2))
Complex2f(np.array([1 + 2j, 3 + 4j]))
Complex2f(np.array([1 + 2j, 3 + 4j], dtype=np.complex64))
Complex2f(np.array([[1, 2], [3, 4.0]]))
Complex2f(np.complex64(1 + 2j))
Complex2f(1, 2, 3)
Complex2f("x")
Quaternion4f()
Quaternion4f(1)
Quaternion4f(1, 2, 3, 4)
Quaternion4f([1, 2, 3, 4])
Quaternion4f(Array3f(1, 2, 3), 4)
Quaternion4f(Float(1, 2))
Quaternion4f(Array4f(1, 2, 3, 4))
Quaternion4f(1, 2)
Quaternion4f(1 + 2j)
Quaternion4f(Complex2f(1, 2))
## tensors
TensorXf()
TensorXf(1)
TensorXf([1, 2, 3])
TensorXf([[1, 2], [3, 4]])
TensorXf([[1, 2], [3]])
TensorXf([])
TensorXf(())
TensorXf((1, 2))
TensorXf([[[1], [2]]]).shape
TensorXf(Float(1, 2, 3))
TensorXf(Float(1))
TensorXf(Float(1), ())
TensorXf(Int(1, 2, 3))
TensorXf(Float(1, 2, 3, 4), (2, 2))
TensorXf([1, 2, 3, 4], (2, 2))
TensorXf([1, 2, 3, 4], shape=(2, 2))
TensorXf(Float(1, 2, 3, 4), shape=[2, 2])
TensorXf(Float(1, 2, 3, 4), shape=(2, -1))
TensorXf(Float(1, 2, 3), shape=(2, 2))
TensorXf(Float(1, 2, 3), 3)
TensorXf(1, (2, 2))
TensorXf(Float(1), (2, 2))
TensorXf(array=Float(1, 2), shape=(1, 2))
TensorXf(np.arange(6).reshape(2, 3))
TensorXf(np.arange(6.0).reshape(2, 3).T)
TensorXf(np.array(3.0))
TensorXf(np.array(3.0)).shape
TensorXf(np.zeros((2, 0))).shape
TensorXf(Array3f(1, 2, 3))
TensorXf(Array3f([1, 2], [3, 4], [5, 6]))
TensorXf(Matrix2f(1, 2, 3, 4))
TensorXf(TensorXi([1, 2]))
TensorXf(TensorXf64([[1, 2]]))
TensorXi(TensorXf([1.7, -1.7]))
TensorXi([1.5])
TensorXf(None)
TensorXf([Float(1, 2), Float(3, 4)])
TensorXf([Float(1), 2])
TensorXf(1, 2)
TensorXf(range(3))
TensorXb(np.array([True, False]))
TensorXb([True, False])
TensorXf(dr.llvm.ad.TensorXf([1, 2]))
dr.llvm.ad.TensorXf(TensorXf([1, 2]))
dr.llvm.ad.Float(Float(1, 2))
dr.llvm.ad.Array3f(Array3f(1, 2, 3))
Array3f(dr.llvm.ad.Array3f(1, 2, 3))
dr.scalar.TensorXf([1, 2])
""",
    globals(),
)
