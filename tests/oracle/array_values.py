# ruff: noqa: E501, F401, F403
"""Construction from other arrays, identity, views, components, promotion, and indexing of arrays."""

import os
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
Array2f(np.array([[1,2],[3,4]],dtype=np.float32), flip_axes=True)
Array2f(np.array([[1,2],[3,4]],dtype=np.float32))
Array3f(np.arange(6.).reshape(2,3), flip_axes=True)
Array3f(np.arange(6.).reshape(3,2), flip_axes=True)
ArrayXf(np.arange(6.).reshape(2,3), flip_axes=True)
ArrayXf(np.arange(6.).reshape(2,3))
Array2i(np.array([[1,2],[3,4]]), flip_axes=True)
Matrix2f(np.arange(8.).reshape(2,2,2), flip_axes=True)
Matrix2f(np.arange(12.).reshape(3,2,2), flip_axes=True)
Matrix2f(np.arange(12.).reshape(2,2,3), flip_axes=True)
Matrix2f(np.arange(4.).reshape(2,2), flip_axes=True)
Array22f(np.arange(8.).reshape(2,2,2), flip_axes=True)
sc.Matrix2f(np.arange(4.).reshape(2,2), flip_axes=True)
sc.Matrix2f(np.arange(4.).reshape(2,2))
sc.Array3f(np.arange(3.), flip_axes=True)
sc.ArrayXf(np.arange(3.), flip_axes=True)
Float(np.arange(3.), flip_axes=True)
Float(np.arange(6.).reshape(2,3), flip_axes=True)
Array3f(np.arange(3.), flip_axes=True)
Array3f([1,2,3], flip_axes=True)
Array3f(1, flip_axes=True)
Array3f(1, 2, 3, flip_axes=True)
Array3f(TensorXf(np.arange(6.).reshape(2,3)), flip_axes=True)
Array3f(TensorXf(np.arange(6.).reshape(3,2)), flip_axes=False)
Array3f(Array3f(1,2,3), flip_axes=True)
TensorXf(np.arange(6.).reshape(2,3), flip_axes=True)
TensorXf(Array3f([1,2],[3,4],[5,6]), flip_axes=True)
TensorXf([[1,2],[3,4]], flip_axes=True)
TensorXf(Float(1,2,3), flip_axes=True)
Complex2f(np.array([1+2j,3+4j]), flip_axes=True)
Complex2f(np.arange(4.).reshape(2,2), flip_axes=True)
Complex2f(np.arange(4.).reshape(2,2))
Quaternion4f(np.arange(4.).reshape(1,4), flip_axes=True)
Quaternion4f(np.arange(4.).reshape(4,1))
ad.Array3f(np.arange(6.).reshape(2,3), flip_axes=True)
Array3f(np.float32(3), flip_axes=True)
Array3f(np.arange(6.).reshape(2,3), flip_axis=True)
Array3b(np.array([[True,False,True]]), flip_axes=True)
Array3f(np.zeros((0,3)), flip_axes=True)
## A4
Int(7,7) & [True, False]
Int(7,7) & (True, False)
Int(7,7) & np.array([True, False])
Int(7,7) & Bool(True, False)
Int(7,7) & [1, 0]
[True, False] & Int(7,7)
np.array([True, False]) & Int(7,7)
Bool(True,False) & Int(7,7)
Int(7,7) & True
Float(7,7) & [True, False]
Float(7,7) & np.array([True, False])
Float(7,7) & Bool(True, False)
Float(7,7) & True
Float(7,7) & [1, 0]
[True, False] & Float(7,7)
x=Int(7,7) ; x&=[True,False]; x
x=Float(7,7); x&=[True,False]; x
x=Float(7,7); x&=Bool(True,False); x
TensorXi([7,7]) & [True, False]
TensorXi([7,7]) & np.array([True, False])
TensorXf([7,7]) & np.array([True, False])
TensorXf([7,7]) & TensorXb([True, False])
TensorXf([[7,7],[8,8]]) & [True, False]
Array2i(7,7) & [True, False]
Array2i(7,7) & (True, False)
Array2i(7,7) & np.array([True, False])
Array2f(7,7) & [True, False]
Array2f(7,7) & Array2b(True, False)
Array2f(7,7) & Bool(True, False)
Array2f([7,7],7) & np.array([[True, False],[True,False]])
Array2i(7,7) & [Bool(True,False), False]
sc.Array2i(7,7) & [True, False]
sc.Array2i(7,7) & sc.Array2b(True, False)
sc.Array2i(7,7) & np.array([True, False])
sc.Array2f(7,7) & [True, False]
sc.ArrayXf(7,7) & [True, False]
sc.ArrayXi(7,7) & [True, False]
sc.TensorXf([7,7]) & [True, False]
Int(7,7) | [True, False]
Int(7,7) ^ [True, False]
Int(7,7) | Bool(True, False)
Float(7,7) | Bool(True, False)
Float(7,7) | [True, False]
Array22f(7) & [[True,False],[True,True]]
Array22f(7) & Array22b([[True,False],[True,True]])
Array33f(7) & Array3b(True,False,True)
Matrix2f(7) & [[True,False],[True,True]]
Complex2f(7) & [True,False]
Complex2f(7,8) & Array2b([True,False])
Int(7,7) & [True]
Int(7,7) & []
Int(7,7) & [True, 2]
Bool(True,False) & [True,True]
Bool(True,False) & 1
Int(7) & None
Int(7) & "x"
ad.Float(7,7) & [True, False]
ad.Float(7,7) & Bool(True, False)
UInt64(7,7) & [True, False]
a=sc.ArrayXf(1,2,3); n=a.numpy(); n[0]=9; a
a=sc.Array3f(1,2,3); n=a.numpy(); n[0]=9; a
a=sc.Array3i(1,2,3); n=a.numpy(); n[0]=9; a
a=sc.Array2f16(1,2); n=a.numpy(); n[0]=9; a
a=sc.Matrix2f(1,2,3,4); n=a.numpy(); n[0,1]=9; a
a=sc.Matrix2f(1,2,3,4); a.numpy().flags.c_contiguous
a=sc.Array22f(1,2); n=a.numpy(); n[0,1]=9; a
a=sc.Complex2f(1,2); n=a.numpy(); n
a=sc.Complex2f(1,2); n=a.numpy(); n.fill(3); a
a=sc.Quaternion4f(1,2,3,4); n=a.numpy(); n[0]=9; a
a=sc.TensorXf([[1,2],[3,4]]); n=a.numpy(); n[0,1]=9; a
a=sc.TensorXf([[1,2],[3,4]]); n=a.array.numpy(); n[0]=9; a
a=sc.Array3f(1,2,3); n=np.array(a, copy=False); n[0]=9; a
a=sc.Array3f(1,2,3); n=np.asarray(a); n[0]=9; a
a=sc.Array3f(1,2,3); n=np.array(a); n[0]=9; a
a=sc.Array3f(1,2,3); n=a.numpy(); a[0]=9; n
a=sc.Array3f(1,2,3); n=a.numpy(); a.x=9; n
a=sc.Array3f(1,2,3); n=a.numpy(); a+=9; n
a=sc.Array3f(1,2,3); n=a.numpy(); b=a+0; n[0]=5; b
a=sc.Array3f(1,2,3); n=a.numpy(); b=sc.Array3f(a); n[0]=5; b
a=sc.Array3f(1,2,3); n=a.numpy(); del a; n
a=sc.Array22f(1,2); r=a[0]; n=a.numpy(); n[0,0]=9; r
a=sc.Array22f(1,2); n=a.numpy(); r=a[0]; n[0,0]=9; r
a=sc.Array22f(1,2); n=a.numpy(); r=a[0]; r[0]=7; n
a=sc.Matrix2f(1,2,3,4); n=a.numpy(); a[0,1]=9; n
a=sc.ArrayXf(1,2,3); m=a.memview(); m[0]=9; a
a=sc.Array3f(1,2,3); m=a.memview(); (m.shape, m.format, m.readonly)
a=sc.Array3f(1,2,3); t=a.__dlpack__(); type(t).__name__
a=sc.ArrayXf(1,2,3); n=a.numpy(); n2=a.numpy(); n[0]=4; n2
a=sc.ArrayXf(); a.numpy()
a=sc.ArrayXf(1,2,3); n=a.numpy(); n*=2; a+1
a=sc.ArrayXf(1,2,3); n=a.numpy(); n*=2; dr.sum(a)
a=sc.TensorXf([1,2,3]); n=a.numpy(); n*=2; a+1
a=Float(1,2,3); n=a.numpy(); n[0]=9; a
a=Array3f(1,2,3); n=a.numpy(); n[0]=9; a
a=Array3f(1,2,3); n=np.array(a,copy=False); n
a=TensorXf([1,2,3]); n=a.numpy(); n[0]=9; a
a=sc.ArrayXf(1,2,3); dr.scatter(a, 7, sc.ArrayXu(1)) if 0 else None; a
sc.Array3f(1,2,3).numpy().dtype
sc.Matrix3f(1).numpy()
sc.Array443f(1).numpy().shape
sc.Array1f(1).numpy()
sc.Array0f().numpy()
sc.Array3f16(1).numpy().dtype
## A9
a=Float(1,2); dr.tile(a,1) is a
a=Float(1,2); dr.repeat(a,1) is a
a=Array2f(1,2); dr.tile(a,1) is a
a=Array2f(1,2); dr.repeat(a,1) is a
a=sc.ArrayXf(1,2); dr.repeat(a,1) is a
a=sc.ArrayXf(1,2); dr.tile(a,1) is a
a=TensorXf([1,2]); dr.tile(a,1) is a
a=TensorXf([1,2]); dr.repeat(a,1) is a
a=TensorXf([1,2]); dr.tile(a,(1,)) is a
a=TensorXf([1,2]); dr.repeat(a,1,axis=0) is a
a=[Float(1,2)]; dr.tile(a,1) is a
a=[Float(1,2)]; dr.tile(a,1)[0] is a[0]
a=Float(1,2); dr.unravel(Float,a) is a
a=sc.ArrayXf(1,2); dr.unravel(sc.ArrayXf,a) is a
a=Float(1,2); dr.reshape(Float,a,2) is a
a=Float(1,2); dr.reshape(Float,a,(2,)) is a
a=Float(1,2); dr.reshape(Float,a,-1) is a
a=Array2f(1,2); dr.reshape(Array2f,a,(2,1)) is a
a=TensorXf([1,2]); dr.reshape(TensorXf,a,2) is a
a=TensorXf([1,2]); dr.reshape(a,2) is a
a=TensorXf([[1,2]]); dr.reshape(TensorXf,a,(1,2)) is a
a=sc.ArrayXf(1,2); dr.reshape(sc.ArrayXf,a,2) is a
a=sc.ArrayXf(1,2); dr.ravel(a) is a
a=sc.Array2f(1,2); dr.ravel(a) is a
a=sc.Array2f(1,2); dr.ravel(a)
a=Float(1,2); dr.ravel(a) is a
a=Array2f(1,2); dr.ravel(a) is a
a=TensorXf([1,2]); dr.ravel(a) is a
a=TensorXf([1,2]); dr.ravel(a) is a.array
a=sc.TensorXf([1,2]); dr.ravel(a)
a=1.0; dr.ravel(a) is a
a=ad.Float(1,2); dr.tile(a,1) is a
a=Float(1,2); dr.reverse(a) is a
a=Float(1); dr.reverse(a) is a
a=Float(1,2); dr.concat([a]) is a
a=Float(1,2); dr.concat((a,)) is a
a=Float(1,2); dr.slice(a) is a
a=Float(1,2); dr.gather(Float,a,dr.arange(UInt,2)) is a
a=TensorXf([[1,2],[3,4]]); dr.slice(a,1)
a=TensorXf([[1,2],[3,4]]); dr.slice(a,1) is a
dr.slice([TensorXf([[1,2],[3,4]]), Float(1,2)],1)
a=Float(1,2); dr.detach(a) is a
a=Float(1,2); dr.real(a) is a
a=Float(1,2); a.real is a
a=Complex2f(1,2); a.real
a=Complex2f(1,2); a.real is a[0]
a=Float(1,2); a.array is a
a=Array2f(1,2); a.array is a
a=TensorXf([1,2]); a.array is a.array
a=TensorXf([1,2]); b=a.array; b+=1; a
a=Matrix2f(1); a.array
a=Matrix2f(1); b=a.array; b+=1; a
a=Float(1,2); +a is a
a=Float(1,2); b=+a; b+=1; a
a=Float(1,2); Float(a) is a
a=Float(1,2); dr.transpose(TensorXf(a)) is a
a=TensorXf([1,2]); dr.moveaxis(a,0,0) is a
a=TensorXf([1,2]); dr.squeeze(a) is a
a=TensorXf([[1,2]]); dr.expand_dims(a,()) is a
a=TensorXf([1,2]); a.T
a=TensorXf([1,2]); a[...] is a
a=TensorXf([1,2]); a[:] is a
a=Float(1,2); a[:] is a
a=Array2f(1,2); a[:] is a
a=Array2f(1,2); a[()]
a=TensorXf([1,2]); a[()]
a=Float(1,2); a[...]
a=Float(1,2); dr.block_sum(a,1) is a
a=Float(1,2); dr.sum(a,axis=()) is a
a=Float(1,2); dr.sum(a,axis=None)
a=Float(1,2); dr.sqr(a) is a
a=Float(1,2); dr.abs(UInt(1)) is a
a=UInt(1,2); dr.abs(a) is a
a=UInt(1,2); dr.floor(Float(1)) is a
a=Float(1,2); dr.mean(a, axis=())
a=Float(1,2); dr.make_opaque(a)
a=Float(1,2); dr.copy(a) is a
a=Float(1,2); dr.reinterpret_array(Float,a) is a
a=Float(1,2); dr.select(True,a,a) is a
a=Float(1,2); dr.select(Bool(True),a,a) is a
a=Float(1,2); b=Float(3); dr.select(True,a,b) is a
a=Float(1,2); dr.minimum(a,a) is a
a=TensorXf([[1,2]]); dr.repeat(a,1) is a
a=TensorXf([[1,2]]); dr.repeat(a,1)
a=TensorXf([[1,2]]); dr.repeat(a,1,axis=0) is a
a=TensorXf([[1,2]]); dr.tile(a,(1,1)) is a
a=TensorXf([[1,2]]); dr.tile(a,1) is a
a=TensorXf([[1,2]]); dr.tile(a,(1,1,1)) is a
a=TensorXf([[1,2]]); dr.tile(a,(1,1,1)).shape
a=TensorXf([[1,2]]); dr.tile(a,()) is a
a=Float(1,2); dr.tile(a,(1,)) is a
a=Float(1,2); dr.tile(a,(1,1))
a=Float(1,2); dr.tile(a,())
a=Float(1,2); dr.tile(a,0)
a=Float(1,2); dr.repeat(a,0)
a=Float(1,2); dr.repeat(a,1,axis=0) is a
a=Float(); dr.tile(a,1) is a
a=TensorXf([[1,2]]); dr.concat([a]) is a
a=TensorXf([[1,2]]); dr.concat([a],axis=1) is a
a=Float(1,2); dr.concat([a],axis=None) is a
a=Float(1,2); dr.concat([a],axis=0) is a
a=Array2f(1,2); dr.concat([a],axis=1) is a
a=ArrayXf([[1,2],[3,4]]); dr.concat([a],axis=0) is a
a=sc.ArrayXf([1,2]); dr.concat([a],axis=0) is a
a=Float(1,2); dr.reshape(Float,a,2,order='F') is a
a=TensorXf([[1,2],[3,4]]); dr.reshape(TensorXf,a,(2,2)) is a
a=TensorXf([[1,2],[3,4]]); dr.reshape(TensorXf,a,(2,-1)) is a
a=TensorXf([[1,2],[3,4]]); dr.reshape(TensorXf,a,(2,2),shrink=True) is a
a=Array2f([1,2],[3,4]); dr.reshape(Array2f,a,(2,2)) is a
a=Array2f([1,2],[3,4]); dr.reshape(Array2f,a,(2,2),order='C') is a
a=Array2f([1,2],3); dr.reshape(Array2f,a,(2,2)) is a
a=Array2f([1,2],3); dr.reshape(Array2f,a,(2,2))
a=Array2f([1,2],3); dr.reshape(Array2f,a,(2,-1)) is a
a=Matrix2f(1,2,3,4); dr.reshape(Matrix2f,a,(2,2,1)) is a
a=sc.Matrix2f(1,2,3,4); dr.reshape(sc.Matrix2f,a,(2,2)) is a
a=sc.Array2f(1,2); dr.reshape(sc.Array2f,a,(2,)) is a
a=sc.Array2f(1,2); dr.reshape(sc.Array2f,a,2) is a
a=sc.Array2f(1,2); dr.unravel(sc.Array2f,sc.ArrayXf(1,2))
a=sc.Array2f(1,2); dr.unravel(sc.Array2f,a)
a=TensorXf([1,2,3,4]); t=dr.reshape(TensorXf,a,(2,2)); t[0,0]=5; a
a=Float(1,2); t=TensorXf(a); t[0]=5; a
a=Float(1,2); t=TensorXf(a,(2,)); t[0]=5; a
a=Float(1,2); t=TensorXf(a,(2,)); t.array is a
a=TensorXf([1,2]); b=dr.ravel(a); b[0]=7; a
a=TensorXf([1,2]); b=a.array; b[0]=7; a
a=TensorXf([1,2]); b=TensorXf(a); b[0]=7; a
a=TensorXf([[1,2]]); b=dr.squeeze(a); b[0]=7; a
a=TensorXf([[1,2]]); b=a.T; b[0]=7; a
a=Float(1,2); b=Float(a); b[0]=7; a
a=Array2f(1,2); b=Array2f(a); b.x=7; a
a=Array2f(1,2); b=Array2f(a); b.x[0]=7; a
a=Array2f(1,2); b=Array2f(a.x,a.y); b.x+=7; a
x=Float(1,2); b=Array2f(x,x); b.x+=7; (b,x)
x=Float(1,2); b=Array2f(x); b.x+=7; (b,x)
x=Float(1,2); b=Array2f(x); b.x is b.y
a=Array2f(1,2); a.x is a.x
a=Array2f(1,2); a.x is a[0]
a=Array2f(1,2); b=a.x; a.x=5; b
a=Array2f(1,2); b=a.x; a.x+=5; b
a=Array2f(1,2); b=a.x; b+=5; a
a=Array2f(1,2); b=a.xy; b+=5; a
a=Array2f(1,2); b=a[:]; b+=5; a
a=Array3f(1,2,3); b=a[:2]; b+=5; a
a=Array3f(1,2,3); b=a[0:3]; b is a
a=Array3f(1,2,3); b=a[:3]; b is a
a=Array3f(1,2,3); b=a[::1]; b is a
a=Float(1,2,3); b=a[0:3]; b is a
a=Float(1,2,3); b=a[0:10]; b is a
a=Float(1,2,3); b=a[::1]; b is a
a=TensorXf([1,2,3]); b=a[0:3]; b is a
a=TensorXf([[1,2,3]]); b=a[:,:]; b is a
a=TensorXf([[1,2,3]]); b=a[...,:]; b is a
a=TensorXf([[1,2,3]]); b=a[0:1]; b is a
a=sc.ArrayXf([1,2,3]); b=a[:]; b is a
a=sc.Array3f([1,2,3]); b=a[:]; b is a
a=Matrix2f(1); b=a[:]; b is a
a=Float(1,2); b=a[Bool(True)]; b
a=Float(1,2); b=a[Bool(True)]; b is a
a=Float(1,2); b=a[True]; b
a=Float(1,2); b=a[Bool(True,False)]; b
a=Array2f(1,2); b=a[Bool(True)]; b is a
a=TensorXf([1,2]); b=+a; b is a
a=Array2f([1,2]); b=+a; b is a
a=sc.Array2f([1,2]); b=+a; b is a
a=Bool(True); b=+a; b is a
a=Matrix2f(1); b=+a; b is a
a=Complex2f(1); b=+a; b is a
a=Float(1,2); b=a; b+=1; b is a
a=Int(1,2); b=a; b+=1.5; (a,b)
a=Int(1,2); b=a; b+=Float(1); (a,b)
a=Float(1,2); b=a; b+=Array2f(1,2); (a,b)
a=Float(1); b=a; b+=Float(1,2); (a,b)
a=Float(1,2); b=a; b**=2; (a,b)
a=Matrix2f(2); b=a; b@=Matrix2f(3); (a,b)
a=Matrix2f(2); b=a; b*=Matrix2f(3); (a,b)
a=TensorXf([1,2]); b=a; b+=1; (a,b)
a=TensorXf([1,2]); b=a; b+=TensorXf([[1,2],[3,4]]); (a,b)
a=Array3f(1,2,3); v=a.xy; v+=1; a
a=Array3f(1,2,3); a.xy+=1; a
a=Array3f(1,2,3); a.xz=5; a
a=Array3f(1,2,3); a.xz=Array2f(5,6); a
a=Array3f(1,2,3); a.xz=[5,6]; a
a=Array3f(1,2,3); a.xz=(5,6); a
a=Array3f(1,2,3); a.xz=(5,6,7); a
a=Array3f(1,2,3); a.xw=(5,6); a
a=Array3f(1,2,3); a.xw=(5,6,7); a
a=Array3f(1,2,3); a.xw=5; a
a=Array3f(1,2,3); a.xyz=Array2f(5,6); a
a=Array3f(1,2,3); a.foo=1; a.foo
a=Float(1,2,3); a.foo=1; a.foo
a=Float(1,2,3); a.xy
a=Float(1,2,3); a.xy=1; a
a=Float(1,2,3); a.x=1; a
a=ArrayXf([1,2,3]); a.x
a=ArrayXf([1,2,3]); a.x=5; a
a=ArrayXf([1,2,3]); a.xy
a=ArrayXf([1,2,3]); a.xy=5; a
a=Matrix2f(1); a.x
a=Matrix2f(1); a.xy
a=Complex2f(1,2); a.x
a=Complex2f(1,2); a.xy
a=Complex2f(1,2); a.imag=5; a
a=Complex2f(1,2); a.real=Float(5,6); a
a=Quaternion4f(1,2,3,4); a.x=5; a
a=Quaternion4f(1,2,3,4); a.xyz=5; a
a=TensorXf([1,2]); a.imag
a=TensorXf([1,2]); a.real is a
a=Array3f(1,2,3); a.imag
a=Array3f(1,2,3); a.real is a
a=Float(1,2,3); a.imag
a=Bool(True); a.imag
a=Array1f(3); a.x
a=Array1f(3); a.xx
a=Array1f(3); a.xxx
a=Array4f(1,2,3,4); a.xxxxx
a=Array4f(1,2,3,4); a.wzyx
a=Array0f(); a.x
a=sc.Array3f(1,2,3); a.zyx
a=sc.Array3f(1,2,3); a.x
a=sc.Array3f(1,2,3); a.xz=5; a
a=sc.Array3f(1,2,3); a.xx=(5,6,7); a
a=sc.ArrayXf(1,2,3); a.x
a=Array3f(1,2,3); a.shape=3
a=Array3f(1,2,3); a.ndim=3
a=Array3f(1,2,3); a.state=3
a=Array3f(1,2,3); a.T=3
a=Float(1,2,3); a.label=3
a=Float(1,2,3); a.label="x"; a.label
a=Float(1,2,3); a.grad=3; a.grad
a=ad.Float(1,2,3); a.grad=3; a.grad
np.array(Float(1,2), dtype=np.float64, copy=False)
np.array(TensorXf([1,2]), dtype=np.float64, copy=False)
np.array(sc.Array2f(1,2), dtype=np.float64, copy=False)
np.array(Matrix2f(1), copy=False)
Float(1,2).__array__(dtype=np.int32, copy=False)
np.array(Float(1,2), dtype=np.int32)
np.asarray(Array3f(1,2,3))
np.asarray(Complex2f(1,2))
np.asarray(sc.Complex2f(1,2))
np.asarray(Float(1,2), copy=True)
Float(1,2).__array__()
a=Float(1,2); n=np.array(a,copy=True); n[0]=5; a
a=Float(1,2); n=np.array(a); n[0]=5; a
a=Float(1,2); n=np.asarray(a); n[0]=5; a
a=sc.Array2f(1,2); n=np.asarray(a,dtype=np.float32); n[0]=5; a
np.float32(2)*Float(1,2)
np.float64(2)*Float(1,2)
np.array([1,2])*Float(1,2)
np.array([1.,2])*Float(1,2)
np.array([1,2],dtype=np.float32)+Array2f(1,2)
Array2f(1,2)+np.array([1,2],dtype=np.float32)
np.sin(Float(1,2))
np.sum(Float(1,2))
np.add(Float(1,2),1)
## A17
Array34f(1)+Array3f(1,2,3)
Array3f(1,2,3)+Array34f(1)
Array34f(1)*Array3f(1,2,3)
Array43f(1)+Array4f(1,2,3,4)
Array33f(1)+Array3f(1,2,3)
Array22f(1,2)+Array2f(1,2)
Array2f(1,2)+Array22f(1,2)
Array22f(1,2)-Array2f(1,2)
Array2f(1,2)-Array22f(1,2)
Array22f([1,2],[3,4])*Array2f(10,100)
sc.Array22f([1,2],[3,4])*sc.Array2f(10,100)
Array22f([1,2],[3,4])*sc.Array2f(10,100)
Array44f(1)*Array4f(1,2,3,4)
Array41f(1)+Array4f(1,2,3,4)
Array41f(1)+Array1f(1)
Array334f(1)+Array3f(1,2,3)
Array334f(1)+Array33f(1)
Array443f(1)+Array4f(1,2,3,4)
Array444f(1)+Array44f(1)
Matrix34f(1)+Matrix3f(1)
Matrix34f(1)*Matrix3f(1)
Matrix34f(1)@Matrix3f(1)
Matrix34f(1)@Array3f(1,2,3)
Matrix34f(1)@Array34f(1)
Matrix34f(1)
Matrix41f(2)
Matrix41f(2)+Matrix4f(1)
Matrix41f(2)*Matrix4f(3)
Matrix41f(2)@Matrix4f(3)
Matrix4f(3)@Matrix41f(2)
Matrix43f(2)@Matrix4f(3)
Matrix34f(2)@Matrix34f(3)
Matrix34f(2)*Matrix34f(3)
Matrix34f(2)+Matrix34f(3)
Matrix34f(2)*2
2*Matrix34f(2)
Matrix34f(2)+2
Matrix34f(2)/2
Matrix3f(1)+Array3f(1)
Matrix3f(1)*Array3f(1,2,3)
Matrix3f(1)@Array3f(1,2,3)
Array34f(1)==Array3f(1,2,3)
Array34f(1)<Array3f(1,2,3)
Matrix34f(1)==Matrix3f(1)
dr.fma(Array34f(1),Array3f(1,2,3),1)
dr.fma(Array34f(1),Array3f(1,2,3),Array3f(1))
dr.maximum(Array34f(1),Array3f(1,2,3))
dr.minimum(Array3f(1,2,3),Array34f(1))
dr.select(Array3b(True,False,True),Array34f(1),Array34f(2))
dr.select(Array3b(True,False,True),Array34f(1),2)
dr.select(Array34b(True),Array3f(1,2,3),Array3f(5))
dr.select(Array3b(True,False,True),Array34f(1),Array3f(2))
Array34f(1)+ArrayXf([1,2,3])
ArrayXf([1,2,3])+Array3f(1,2,3)
ArrayXf([1,2])+Array3f(1,2,3)
Array34f(1)+Int(1,2)
Array34f(1)+Array3f64(1,2,3)
dr.expr_t(Array34f,Array3f)
dr.expr_t(Array3f,Array34f)
dr.expr_t(Matrix34f,Matrix3f)
dr.expr_t(Array334f,Array3f)
dr.expr_t(Array334f,Array33f)
dr.expr_t(ArrayXf,Array3f)
dr.expr_t(Array3f,[1,2,3])
dr.expr_t(Float,None)
dr.expr_t(Int,[1.0])
dr.expr_t(Int,[1])
dr.expr_t(Int,(1.0,2))
dr.expr_t(Int,[[1.0]])
dr.expr_t(Array3f,list)
dr.expr_t([1,2],Array3f)
dr.expr_t(None)
dr.expr_t()
dr.expr_t(None,1)
dr.expr_t("a",Float)
dr.expr_t("a",1)
dr.expr_t("a","b")
dr.expr_t(int,float)
dr.expr_t(1,2.0)
dr.expr_t(True,2)
dr.expr_t(bool,float)
dr.expr_t(np.array([1.0]),Float)
dr.expr_t(np.array([1.0]),Int)
dr.expr_t(Float,Array3f,ad.Int64)
dr.expr_t(Float16,Int)
dr.expr_t(Float16,Int64)
dr.expr_t(Float,UInt64)
dr.expr_t(Int,UInt)
dr.expr_t(Int8,UInt8)
dr.expr_t(Int8,float)
dr.expr_t(Int64,float)
dr.expr_t(Float16,float)
dr.expr_t(Float64,float)
dr.expr_t(Bool,int)
dr.expr_t(Bool,float)
dr.expr_t(Bool,Bool)
dr.expr_t(sc.Array3f,Float)
dr.expr_t(sc.Array3f,ad.Float)
dr.expr_t(sc.ArrayXf,Float)
dr.expr_t(TensorXf,Float)
dr.expr_t(TensorXf,Array3f)
dr.expr_t(TensorXf,ad.Int)
dr.expr_t(Float,dr.cuda.Float)
dr.expr_t(Complex2f,float)
dr.expr_t(Complex2f,Array2f)
dr.expr_t(Complex2f,Matrix2f)
dr.expr_t(Complex2f,complex)
dr.expr_t(Quaternion4f,Array4f)
dr.expr_t(Matrix3f,Array3f)
dr.expr_t(Matrix3f,Array33f)
dr.expr_t(Matrix3f,Float64)
dr.expr_t(object)
dr.expr_t(Float, object())
dr.expr_t([Float(1),Array2f(2)],Int)
dr.expr_t([],Int)
dr.expr_t({},Int)
Array22f([1,2],[3,4])*Array2i(10,100)
Array22f([1,2],[3,4])*Array2f64(10,100)
Array22f([1,2],[3,4])*ad.Array2f(10,100)
ad.Array22f([1,2],[3,4])*Array2f(10,100)
Array22f([1,2],[3,4])*ArrayXf([10,100])
Array22f([1,2],[3,4])*[10,100]
Array22f([1,2],[3,4])*np.array([10,100])
Array22f([1,2],[3,4])*np.array([10.,100],dtype=np.float32)
Array22f([1,2],[3,4])*np.array([[10.,100]],dtype=np.float32)
Array22f([1,2],[3,4])*Complex2f(10,100)
Array22f(Array2i(10,100))
Array22f(Array2f(10,100))
Array22f(sc.Array2f(10,100))
Array22f(ad.Array2f(10,100)) if 0 else 0
ad.Array22f(Array2f(10,100))
Array22f(Array2f64(10,100))
Array22f([10,100])
Array22f(np.array([10.,100]))
Array22f(ArrayXf([10,100]))
Array22f(10,100)
Array22f(Float(10,100))
Array22f(Complex2f(10,100))
Array34f(Array3f(1,2,3))
Array34f(Array4f(1,2,3,4))
Array34f(Array4i(1,2,3,4))
Array43f(Array4f(1,2,3,4))
Array43f(Array3f(1,2,3))
Array44f(Array4i(1,2,3,4))
Array444f(Array4f(1,2,3,4))
Array444f(Array44f(*range(4)))
Array444f(Array44f64(*range(4)))
Array444f(Array4i(1,2,3,4))
Array334f(Array33f(1,2,3))
Array334f(Array34f(1,2,3))
Array334f(Array3f(1,2,3))
Array334f(Array4f(1,2,3,4))
Matrix2f(Array2f(1,2))
Matrix2f(Array22f([1,2],[3,4]))
Matrix34f(Matrix3f(1,2,3,4,5,6,7,8,9))
Matrix34f(Matrix3f(2))
Matrix34f(Array33f(2))
Matrix34f(Array4f(1,2,3,4))
Matrix34f(Array3f(1,2,3))
Matrix34f(Float(1,2))
Matrix34f([Array3f(1,2,3)]*3)
Matrix34f([Array34f(1,2,3)]*3)
Matrix34f(1,2,3,4,5,6,7,8,9)
Matrix3f(Matrix34f(1))
Matrix3f(Matrix4f(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16))
Matrix4f(Matrix3f(1,2,3,4,5,6,7,8,9))
Matrix44f(Matrix34f(5))
Matrix4f(Matrix41f(2))
Matrix41f(Matrix4f(2))
sc.Array22f(sc.Array2f(1,2))
sc.Array22f(sc.Array2i(1,2))
sc.Array34f(sc.Array3f(1,2,3))
sc.Array33f(sc.Array3i(1,2,3))
sc.Array33f(sc.Array3i(1,2,3))+sc.Array3i(10,20,30)
sc.Array33f(0)+sc.Array3i(10,20,30)
sc.Array33f(0)+sc.Array3f(10,20,30)
Array33f(0)+Array3i(10,20,30)
Array33i(0)+Array3f(10,20,30) if 0 else 0
Array33f64(0)+Array3f(10,20,30)
Array33f(0)+Array3f64(10,20,30)
Array33f16(0)+Array3f(10,20,30)
Array33b(False)|Array3b(True,False,True)
Array33f(1)&Array3b(True,False,True)
Array33f(1)&Array33b(True)
Array34f(1)&Array3b(True,False,True)
dr.select(Array33b(True),Array3f(1,2,3),Array3f(4,5,6))
dr.select(Array3b(True,False,True),Array33f(1),Array33f(2))
dr.select(Array3b(True,False,True),Array3f(1,2,3),Array33f(2))
dr.select(Array3b(True,False,True),Array33f(1),2)
dr.select(sc.Array3b(True,False,True),Array33f(1),2)
dr.select([True,False,True],Array33f(1),2)
dr.select(Array3b(True,False,True),Matrix3f(1),Matrix3f(2))
dr.fma(Array33f(1),Array3f(1,2,3),Array3f(10,20,30))
dr.fma(Array33f(1),Array3i(1,2,3),Array3f(10,20,30))
dr.maximum(Array33f(2),Array3i(1,2,3))
dr.maximum(Array33f(2),sc.Array3f(1,2,3))
Matrix3f(1)+Array33f(1)
Matrix3f(2)-Array33f(1)
Matrix3f(2)==Array33f(1)
Matrix2f(1,2,3,4)@Array22f(1,2)
Array22f(1,2)@Matrix2f(1,2,3,4)
Array22f([1,2],[3,4])@Array2f(1,10)
Array2f(1,10)@Array22f([1,2],[3,4])
Array22f([1,2],[3,4])@Array22f([1,2],[3,4])
Array34f(1)@Array43f(1)
Array34f(1)@Array4f(1,2,3,4)
Array34f(1)@Array3f(1,2,3)
Matrix3f(1)+Matrix3f64(1)
Matrix3f(1)*Matrix3f64(2)
Complex2f(1,2)*Array2f(1,2)
Complex2f(1,2)+Array2f(1,2)
Complex2f(1,2)*Quaternion4f(1,2,3,4)
Quaternion4f(1,2,3,4)+Array4f(1)
Quaternion4f(1,2,3,4)*Array3f(1)
Array2f(1,2)*Complex2f(1,2)
Complex2f(1,2)+[1,2]
Complex2f(1,2)*[1,2]
Complex2f(1,2)*(1+2j)
Complex2f(1,2)+(1+2j)
(1+2j)*Complex2f(1,2)
Float(1)*(1+2j)
ArrayXf([1,2])+ArrayXf([1])
ArrayXf([1])+ArrayXf([1,2])
ArrayXf([1,2])+ArrayXf([1,2,3])
ArrayXf([1,2])+Array2f(1,2)
ArrayXf([[1,2]])+Array3f(1,2,3)
ArrayXf(1)+Array3f(1,2,3)
Array3f(1,2,3)+ArrayXf([10,20,30])
ArrayXf([1,2])+[10,20]
ArrayXf([1,2])+[10,20,30]
Array3f(1)+[10,20,30]
Array3f(1)+[10,20]
Array3f(1)+(10,Float(20,21),30)
Array3f(1)+np.array([10,20,30])
Array3f(1)+np.array([10,20])
Array3f(1)+np.array([[10],[20],[30]])
Array3f(1)+np.array([[10,20,30]])
Array3i(1)+[1.5,2,3]
Int(1)+[1.5,2.5]
Int(1)+[1,2]
Int(1)+np.array([1.5,2.5])
Int(1)+np.array([1.5,2.5],dtype=np.float32)
Int(1)+np.array([1,2],dtype=np.int64)
Int(1)+np.array([True,False])
UInt(1)+np.array([1,2],dtype=np.int32)
Float(1)+np.array([1,2],dtype=np.int64)
Float(1)+np.array([1,2],dtype=np.float64)
Float(1)+np.array([[1,2]],dtype=np.float64)
Float(1)+np.array(3)
Float(1,2)+[1,2]
Float(1,2)+[1,2,3]
Float(1,2)+[[1,2]]
Float(1,2)+[Float(1,2)]
Float(1,2)+[Float(1,2),3]
[1,2]+Float(1,2)
(1,2)+Float(1,2)
(1,2)*Float(1,2)
Float(1,2)*[2]
Float(1,2)==[1,3]
[1,3]==Float(1,2)
Float(1,2)<[1,3]
TensorXf([1,2])+[1,2]
TensorXf([1,2])+[[1],[2]]
TensorXf([1,2])+np.array([[1],[2]])
TensorXf([1,2])+Float(1,2)
TensorXf([[1,2],[3,4]])+Float(1,2)
TensorXf([1,2])+Array2f(1,2)
TensorXf([1,2])+TensorXf([1,2,3])
TensorXf([1,2])+TensorXi([1,2])
TensorXf([1,2])+TensorXf64([1,2])
TensorXf([1,2])+ad.TensorXf([1,2])
TensorXf([1,2])+sc.TensorXf([1,2])
TensorXi([1,2])//2
Float(5)%3
Int(5)%3
Int(-5)%3
Int(-5)//3
Float(1)+"a"
Float(1)+None
Float(1)+{}
Float(1)+object()
None+Float(1)
"a"+Float(1)
Float(1)==None
Float(1)!=None
Float(1)=="a"
Float(1)==object()
Array3f(1)==None
Array3f(1)=="x"
Float(1)<None
Int(1)+2**40
Int(1)+2**31
Int(1)+(2**31-1)
Int(1)*-2**31
UInt(1)+-1
UInt(1)+2**32
UInt64(1)+2**64
Int8(1)+200
Int8(1)+-129
Float(1)+2**200
Float(1)+1e300
Float16(1)+1e10
Bool(True)+1
Bool(True)+True
Bool(True)*2
Bool(True)-Bool(True)
Bool(True)&Bool(False)
Bool(True)|1
Bool(True)&1
Bool(True)^True
~Bool(True)
-Bool(True)
-UInt(1)
abs(Int(-1))
abs(Bool(True))
Bool(True)<Bool(False)
Bool(True)<1
Bool(True)==1
Float(1)&Float(1)
Float(1)|1
Float(1)<<1
~Float(1)
Int(1)<<Int(3)
Int(1)>>40
1<<Int(3)
Int(2)**3
Int(2)**-1
Int(2)**Int(3)
Int(2)**0.5
Float(2)**Int(3)
2**Int(3)
2**Float(3)
Float(2)**0.5
Float(2)**-2
Float(0)**0
Array3f(2)**2
divmod(Int(7),2)
float(Float(1,2))
bool(Bool(True))
bool(Bool(True,True))
bool(Float(1))
bool(Bool())
len(Float(1))
len(Array3f(1))
len(TensorXf(1))
len(TensorXf([[1,2,3]]))
len(Matrix3f(1))
list(Float(1,2))
list(Array2f([1,2],3))
list(TensorXf([[1,2],[3,4]]))
list(sc.Array3f(1,2,3))
list(Matrix2f(1,2,3,4))
1.0 in Float(1,2)
5 in Float(1,2)
min(Float(3,1,2))
sorted(Float(3,1,2))
sum(Float(1,2,3))
tuple(Array3f(1,2,3))
dr.clip([1,5],2,Float(4))
dr.minimum([1,2,3],Array3f(2))
dr.minimum((1,2,3),Array3f(2))
dr.minimum([1,2],[3,4])
dr.minimum([1,2],3)
dr.minimum(3,[1,2])
dr.clip([1,5],2,4)
dr.minimum(np.array([1.,5]),2)
dr.minimum(1,2.5)
dr.maximum(1,2)
dr.clip(5,1,3)
dr.clip(5.0,1,3)
dr.fma([1,2],Float(3,4),1)
dr.lerp([1,2],Float(3,4),0.5)
dr.power(Float(3,4),[1,2])
dr.sin([1,2])
dr.abs([-1,2])
dr.sqrt(np.array([1.,4]))
dr.copysign([1,2],Float(-1,1))
dr.mulsign([1,2],Float(-1,1))
dr.dot([1,2],Float(3,4))
dr.dot([1,2],[3,4])
dr.norm([3,4])
dr.sum([1,2])
dr.minimum(Bool(True),Bool(False))
dr.minimum(Float(1),dr.nan)
dr.minimum(dr.nan,Float(1))
dr.minimum(Int(1),2.5)
dr.minimum("a",Float(1))
dr.minimum(Array2f(1),Array3f(1))
dr.minimum(Complex2f(1),Complex2f(2))
dr.minimum(Matrix2f(1),Matrix2f(2))
## item
Float(5).item()
Float(1,2).item()
Float().item()
Int(5).item()
Bool(True).item()
Array1f(42).item()
Array2f(42).item()
ArrayXf(42).item()
ArrayXf([42]).item()
ArrayXf([[42]]).item()
TensorXf(3).item()
TensorXf([3]).item()
TensorXf([[3]]).item()
TensorXf([3,4]).item()
TensorXi([[3]]).item()
Matrix2f(1).item()
Complex2f(1).item()
sc.ArrayXf(42).item()
sc.Array1f(42).item()
sc.Array1i(42).item()
sc.Array1b(True).item()
sc.Array2f(42).item()
sc.ArrayXf().item()
sc.Array0f().item()
Array0f().item()
sc.TensorXf([3]).item()
sc.TensorXf([[3]]).item()
sc.Complex2f(1).item()
sc.ArrayXf([1,2]).item()
sc.TensorXf([1,2]).item()
ad.Float(5).item()
x=ad.Float(5); dr.enable_grad(x); x.item()
## A22 index arrays
sc.ArrayXf(1,2,3)[sc.ArrayXu(1,2)]
sc.ArrayXf(1,2,3)[sc.ArrayXi(-1,0)]
sc.ArrayXf(1,2,3)[sc.ArrayXu64(1,2)]
sc.ArrayXf(1,2,3)[sc.ArrayXf(1,2)]
sc.ArrayXf(1,2,3)[sc.Array2u(1,2)]
sc.ArrayXf(1,2,3)[UInt(1,2)]
sc.ArrayXf(1,2,3)[[1,2]]
sc.ArrayXf(1,2,3)[np.array([1,2])]
sc.ArrayXf(1,2,3)[sc.ArrayXb(True,False,True)]
sc.Array3f(1,2,3)[sc.ArrayXu(1,2)]
sc.ArrayXf(1,2,3)[sc.ArrayXu()]
a=sc.ArrayXf(1,2,3); a[sc.ArrayXu(1,2)]=5; a
a=sc.ArrayXf(1,2,3); a[sc.ArrayXu(1,2)]=sc.ArrayXf(7,8); a
a=sc.ArrayXf(1,2,3); a[sc.ArrayXi(-1)]=5; a
a=sc.ArrayXf(1,2,3); a[sc.ArrayXu(1,1)]=sc.ArrayXf(7,8); a
a=sc.ArrayXf(1,2,3); a[sc.ArrayXu(1,2)]=sc.ArrayXf(7,8,9); a
a=sc.ArrayXf(1,2,3); a[sc.ArrayXu(1,2)]=[7,8]; a
a=sc.ArrayXf(1,2,3); a[sc.ArrayXu(1,2)]+=1; a
a=sc.ArrayXi(1,2,3); a[sc.ArrayXu(1,2)]=5.5; a
a=sc.ArrayXf(1,2,3); a[sc.ArrayXb(True,False,True)]=9; a
a=sc.Array3f(1,2,3); a[sc.Array3b(True,False,True)]=9; a
a=sc.Array3f(1,2,3); a[sc.Array3b(True,False,True)]=sc.Array3f(7,8,9); a
a=sc.ArrayXf(1,2,3); a[1:]=9; a
a=sc.ArrayXf(1,2,3); a[1:]
a=sc.ArrayXf(1,2,3); a[::2]
a=sc.ArrayXf(1,2,3); a[-1]
a=sc.ArrayXf(1,2,3); a[3]
a=sc.ArrayXf(1,2,3); a[-4]
a=sc.ArrayXf(1,2,3); a[3]=1
## size-1 reads
ArrayXf([[1,2,3]])[1]
ArrayXf([[1,2,3]])[-3]
ArrayXf([[1,2,3]])[1] is ArrayXf([[1,2,3]])[0]
a=ArrayXf([[1,2,3]]); a[5] is a[0]
Array1f(7)[3]
Array1f(7)[-3]
sc.ArrayXf([5])[2]
sc.ArrayXf([5])[-2]
sc.Array1f([5])[-2]
Float(7)[-3]
Float(7)[3]
dr.opaque(Float,7)[-3]
dr.zeros(ArrayXf)[4]
ArrayXf(1)[4]
sc.ArrayXf(1)[4]
a=Float(7); a[1]=3
a=ArrayXf([[7]]); a[1]=3
a=Array1f(7); a[1]=3
a=sc.ArrayXf(7); a[1]=3
Array2f(1)[2]
Array2f(1)[-3]
Array2f(1)[-1]
Float(1,2)[2]
Float(1,2)[-3]
Float()[0]
Array0f()[0]
Float(7)[UInt(0,5)]
Float(7)[Int(-1)]
Float(7)[UInt(5)]
dr.opaque(Float,7)[UInt(0,5)]
Float(1,2)[Int(-1,0)]
Array2f([1,2],[3,4])[0,1]
Array2f([1,2],3)[1,5]
Array2f([1,2],3)[0,1,2]
Matrix2f(1,2,3,4)[0,1]
Matrix2f(1,2,3,4)[0,1,0]
Matrix2f(1,2,3,4)[0]
Matrix2f(1,2,3,4)[0][1]
Matrix2f(1,2,3,4)[5]
Float(1)[1.5]
Float(1)["a"]
Float(1)[None]
Float(1)[...]
Float(1)[1,2]
Array2f(1)[None]
Array2f(1)[...]
Array2f(1)[1.5]
Array2f(1)[UInt(1)]
Array2f(1)[0:1]
Array4f(1)[0:1]
Array4f(1,2,3,4)[::2]
Array4f(1,2,3,4)[::-1]
Array4f(1,2,3,4)[3:0:-1]
Array4f(1,2,3,4)[2:2]
Array4f(1,2,3,4)[0:1,0]
ArrayXf([1,2,3,4,5])[1:3]
ArrayXf([1,2,3,4,5])[::2]
Matrix3f(1)[0:2]
Matrix3f(1)[0,0:2]
Float(1,2,3)[0:2]
Float(1,2,3)[1:]
Float(1,2,3)[::2]
Float(1,2,3)[2:2]
Float(1,2,3)[Bool(True,False,True)]
Float(1,2,3)[True]
Float(1,2,3)[(1,)]
Float(1,2,3)[()]
Float(1,2,3)[UInt(1),]
Float(1,2,3)[[1]]
Float(1,2,3)[TensorXu([1])]
TensorXf([[1,2],[3,4]])[0]
TensorXf([[1,2],[3,4]])[0,1]
TensorXf([[1,2],[3,4]])[-1]
TensorXf([[1,2],[3,4]])[:,0]
TensorXf([[1,2],[3,4]])[...,0]
TensorXf([[1,2],[3,4]])[None]
TensorXf([[1,2],[3,4]])[:,None,0]
TensorXf([[1,2],[3,4]])[UInt(1,0)]
TensorXf([[1,2],[3,4]])[UInt(1,0),0]
TensorXf([[1,2],[3,4]])[UInt(1,0),UInt(0,1)]
TensorXf([[1,2],[3,4]])[:,UInt(1,0)]
TensorXf([[1,2],[3,4]])[::2,::-1]
TensorXf([[1,2],[3,4]])[1:1]
TensorXf([[1,2],[3,4]])[1.5]
TensorXf([[1,2],[3,4]])["a"]
TensorXf(5)[()]
TensorXf(5)[None]
TensorXf([[1,2],[3,4]])[Int(-1)]
TensorXf([[1,2],[3,4]])[5:]
TensorXf([[1,2],[3,4]])[0:10:3]
t=TensorXf([[1,2],[3,4]]); t[0]=9; t
t=TensorXf([[1,2],[3,4]]); t[:,0]=[8,9]; t
t=TensorXf([[1,2],[3,4]]); t[...]=0; t
t=TensorXf([[1,2],[3,4]]); t[UInt(1)]=7; t
t=TensorXf([[1,2],[3,4]]); t[0]=Float(5,6); t
t=TensorXf([[1,2],[3,4]]); t[t>2]=0; t
t=TensorXf([[1,2],[3,4]]); t[t>2]=t*10; t
t=TensorXf([[1,2],[3,4]]); t[0]="a"; t
t=TensorXf([[1,2],[3,4]]); t[0]=None; t
t=TensorXf([[1,2],[3,4]]); t[0]=[1,2,3]; t
t=TensorXi([[1,2],[3,4]]); t[0]=1.5; t
""",
    globals(),
)
