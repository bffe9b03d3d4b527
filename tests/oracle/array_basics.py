# ruff: noqa: F401, F403
"""What the pages of the documentation on arrays show."""

import copy
import os
import pickle
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
import drjit.scalar as sc
from drjit.llvm import *
from drjit.llvm import ad

cases(
    r"""
dr.value_t(Array3f)
## documentation basics
Array3f(1,2,3)+1.0
Array3i(1,2,3)+1.0
Array3f(1,2,3)*Array3f(2)
Array3f([1,2],3,4)
Array3f([1,2],[3,4,5],6)
Array3f(0)[1]
ArrayXf([1,2,3])[0]
dr.arange(Float,5)
dr.linspace(Float,0,1,3)
dr.zeros(Array3f,2)
dr.ones(Array3f)
dr.full(Array2f,3,2)
dr.empty(Float,2).shape
dr.zeros(TensorXf,(2,2))
dr.zeros(TensorXf,3)
dr.zeros(Matrix2f)
dr.zeros(Matrix2f,2)
dr.zeros(int)
dr.zeros(float,3)
dr.zeros(sc.Array3f)
dr.zeros(sc.ArrayXf,3)
dr.zeros(Complex2f)
dr.ones(Complex2f)
dr.ones(Matrix2f)
dr.ones(Quaternion4f)
dr.full(Complex2f,2)
dr.full(Matrix2f,2)
dr.identity(Matrix3f)
dr.identity(Complex2f)
dr.identity(Quaternion4f)
dr.identity(Float)
dr.zeros(Bool,2)
dr.ones(Bool,2)
dr.zeros(Array3b,2)
dr.arange(Int,2,10,3)
dr.arange(UInt,5,0,-1)
dr.arange(TensorXf,3)
dr.arange(ArrayXf,3)
dr.arange(sc.ArrayXf,3)
dr.arange(Array3f,3)
dr.linspace(Float,1,2,0)
dr.linspace(Float,0,1,4,endpoint=False)
dr.mean(Array3f(1,2,3))
dr.sum(Array3f([1,2],3,4))
dr.sum(TensorXf([[1,2],[3,4]]))
dr.sum(TensorXf([[1,2],[3,4]]),axis=0)
dr.sum(TensorXf([[1,2],[3,4]]),axis=None)
dr.any(Array3f(1,2,3)>2)
dr.all(Array3b(True))
dr.select(Float(1,2)>1,Float(5),0)
dr.width(Array3f([1,2],3,4))
dr.shape(Array3f([1,2],3,4))
Array3f(1,2,3).xy
Array3f(1,2,3).zyx
Array4f(1,2,3,4).xxxx
a=Array3f(1,2,3); a.xy=5; a
a=Array3f(1,2,3); a.xy=a.yx; a
Complex2f(1,2)*Complex2f(3,4)
Complex2f(1,2)/Complex2f(3,4)
dr.abs(Complex2f(3,4))
dr.conj(Complex2f(3,4))
dr.real(Complex2f(3,4))
dr.imag(Float(3))
dr.imag(Array3f(3))
dr.imag(3)
dr.imag(3j)
dr.real(3)
dr.sqrt(Complex2f(-1,0))
dr.exp(Complex2f(0,dr.pi))
Quaternion4f(1,2,3,4)*Quaternion4f(4,3,2,1)
dr.abs(Quaternion4f(1,2,3,4))
dr.rcp(Quaternion4f(1,2,3,4))
Matrix2f(1,2,3,4)@Array2f(1,2)
Matrix2f(1,2,3,4)*Array2f(1,2)
Array2f(1,2)@Matrix2f(1,2,3,4)
Array2f(1,2)*Matrix2f(1,2,3,4)
Matrix2f(1,2,3,4)@Matrix2f(1,2,3,4)
Matrix2f(1,2,3,4)*2
1/Matrix2f(1,2,3,4)
dr.rcp(Matrix2f(1,2,3,4))
dr.det(Matrix2f(1,2,3,4))
dr.trace(Matrix2f(1,2,3,4))
Array2f(1,2)@Array2f(3,4)
Array22f(1,2)@Array2f(3,4)
1@Array2f(3,4)
Array2f(3,4)@2
TensorXf([[1,2],[3,4]])@TensorXf([1,2])
TensorXf([[1,2],[3,4]])@TensorXf([[1,2],[3,4]])
TensorXf([1,2])@TensorXf([1,2])
TensorXf([[1,2],[3,4]])@TensorXf([[1,2,3]])
TensorXf([[1,2],[3,4]])@2
2@TensorXf([1,2])
Float(1,2)@2
x=Float(1,2); y=x; y+=1; x
x=Float(1,2); y=Float(x); y+=1; x
x=Array2f(1,2); y=x.x; y+=1; x
Float(True,False)
Float([True,False])
UInt(1)-UInt(2)
UInt(5)//2
Int(7)//-2
Int(-7)%3
Float(7)/2
Int(7)/2
-UInt(1)
~UInt(0)
abs(Float(-1))
Float(1)<Int(2)
(Float(1,2)<1.5)&(Float(1,2)>0)
Float(1,2)==Float(1,3)
Array3f(1,2,3)==Array3f(1,2,4)
Array3f(1,2,3)!=2
bool(dr.all(Float(1,2)==Float(1,2)))
Int(1)<<3
Int(-8)>>1
UInt(2**31)>>31
Int(1)&3|4
x=Int(1); x<<=2; x
x=Int(7); x//=2; x
x=Float(7); x/=2; x
x=Int(7); x/=2; x
x=Int(7); x&=3; x
x=Float(2); x**=3; x
x=Bool(True); x^=True; x
x=Array2f(1,2); x@=2; x
x=1; x+=Float(1,2); x
dr.detail.any_symbolic(Float(1))
dr.backend_v(dr.auto.Float)
dr.is_array_v(dr.ArrayBase)
isinstance(Float(1),dr.ArrayBase)
issubclass(TensorXf,dr.ArrayBase)
dr.leaf_t(TensorXf)
dr.leaf_t(Matrix4f)
dr.type_v(Float16)
dr.itemsize_v(Float16)
dr.itemsize_v(float)
dr.tensor_t(Array3f)
dr.matrix_t(Array3f)
dr.matrix_t(Float)
dr.mask_t(Float(1))
dr.mask_t(TensorXf)
dr.mask_t(Matrix3f)
dr.mask_t(Complex2f)
dr.scalar_t(Array3i)
dr.array_t(Quaternion4f)
dr.uint32_array_t(Array3f)
dr.int32_array_t(TensorXf)
dr.float32_array_t(1)
dr.bool_array_t(Array3f)
""",
    globals(),
)
