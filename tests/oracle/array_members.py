# ruff: noqa: F401, F403
"""Properties, assignment, conversion and text of arrays."""

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
Float(1,2).state
Float(1).state
(Float(1,2)+1).state
dr.opaque(Float,1).state
dr.zeros(Float,3).state
Array3f(1,2,3).state
Array3f(Float(1,2),2,3).state
Array3f(Float(1,2)+1,Float(1,2),3).state
TensorXf([1,2]).state
sc.Array3f(1).state
sc.ArrayXf(1).state
a=dr.zeros(Float,3); dr.scatter(a,1,UInt(0)); a.state
a=Float(1,2)+1; dr.schedule(a); a.state
a=Float(1,2)+1; dr.eval(a); a.state
a=Float(1,2)+1; dr.make_opaque(a); a.state
a=Float(1); dr.make_opaque(a); a.state
ad.Float(1,2).state
Float(1,2).ndim
Array3f(1).ndim
Matrix2f(1).ndim
TensorXf([[1]]).ndim
TensorXf(1).ndim
sc.Array3f(1).ndim
sc.ArrayXf(1).ndim
sc.Matrix2f(1).ndim
Array0f().ndim
Float(1,2).shape
Array3f(1).shape
Array3f(Float(1,2),1,2).shape
Array3f(Float(1,2),Float(1,2,3),2).shape
Matrix2f(1).shape
TensorXf([[1]]).shape
TensorXf(1).shape
sc.Array3f(1).shape
sc.ArrayXf(1,2).shape
sc.Matrix2f(1).shape
Complex2f(1).shape
ArrayXf([[1,2],[3,4]]).shape
ArrayXf([[1,2],[3]]).shape
ArrayXf().shape
Float(1,2).array
Matrix2f(1,2,3,4).array
Complex2f(1,2).array
Quaternion4f(1,2,3,4).array
TensorXf([[1,2],[3,4]]).array
sc.Matrix2f(1,2,3,4).array
sc.TensorXf([1,2]).array
type(sc.TensorXf([1,2]).array)
Matrix2f(1,2,3,4).T
Matrix2f(1,2,3,4).mT
Array34f(1).T
Float(1,2).T
Array3f(1).T
TensorXf([[1,2],[3,4]]).T
TensorXf([1,2]).T
TensorXf([[[1,2],[3,4]]]).T
TensorXf([[[1,2],[3,4]]]).mT
TensorXf([1]).mT
Complex2f(1,2).T
sc.Matrix2f(1,2,3,4).T
Matrix34f(*[Array4f(i) for i in range(9)]).T
Float(1,2).label
a=Float(1,2); a.label="foo"; a.label
a=sc.Array3f(1); a.label="x"; a.label
Float(1,2).index>0
Array3f(1).index
TensorXf([1]).index
sc.Array3f(1).index
Float().index
Float(1,2).index_ad
ad.Float(1,2).index_ad
a=ad.Float(1,2); dr.enable_grad(a); a.index_ad>0
a=ad.Float(1,2); dr.enable_grad(a); a.grad
ad.Float(1,2).grad
Float(1,2).grad
Int(1,2).grad
ad.Int(1,2).grad
a=ad.Float(1,2); dr.enable_grad(a); a.grad=5; a.grad
a=ad.Array2f(1,2); dr.enable_grad(a); a.grad=ad.Array2f(5,6); a.grad
a=ad.TensorXf([1,2]); dr.enable_grad(a); a.grad
Float(1,2).numpy()
Array3f(1,2,3).numpy()
Array3f(Float(1,2),2,3).numpy()
Matrix2f(1,2,3,4).numpy()
Complex2f(1,2).numpy()
Complex2f(Float(1,2),2).numpy()
Quaternion4f(1,2,3,4).numpy()
TensorXf([[1,2],[3,4]]).numpy()
TensorXf(1).numpy()
Bool(True,False).numpy()
Int8(1,2).numpy()
Float16(1,2).numpy()
ArrayXf([[1,2],[3,4]]).numpy()
ArrayXf([[1,2],[3]]).numpy()
Array3f(Float(1,2),Float(1,2,3),2).numpy()
sc.Array3f(1,2,3).numpy()
sc.Matrix2f(1,2,3,4).numpy()
sc.Complex2f(1,2).numpy()
Float(1,2).to_numpy()
Float(1,2).memview().tolist()
Float(1,2).memview().readonly
Float(1,2).memview().format
Array3f(1,2,3).memview().shape
TensorXf([[1,2]]).memview().shape
Bool(True).memview().format
Float16(1).memview().format
sc.Array3f(1,2,3).memview().tolist()
Float(1,2).__dlpack_device__()
sc.Array3f(1).__dlpack_device__()
np.from_dlpack(Float(1,2))
np.from_dlpack(Array3f(1,2,3))
np.from_dlpack(TensorXf([[1,2]]))
np.from_dlpack(sc.Array3f(1,2,3))
Float(np.from_dlpack(Float(1,2)))
hasattr(Float(1),'__array_interface__')
hasattr(Float(1),'__cuda_array_interface__')
hasattr(Float(1),'__buffer__')
np.array([Float(1,2),Float(3,4)])
np.array(Float(1,2)).dtype
np.asarray(TensorXi([[1]])).dtype
np.sqrt(Float(4,9))
np.dot(Float(1,2),Float(3,4))
np.float32(Float(1))
float(np.array(Float(1)).item())
pickle.loads(pickle.dumps(Float(1,2)))
pickle.loads(pickle.dumps(Array3f(1,2,3)))
pickle.loads(pickle.dumps(TensorXf([[1,2],[3,4]])))
pickle.loads(pickle.dumps(Matrix2f(1,2,3,4)))
pickle.loads(pickle.dumps(sc.Array3f(1,2,3)))
pickle.loads(pickle.dumps(ad.Float(1,2)))
type(pickle.loads(pickle.dumps(ad.Float(1,2))))
copy.copy(Float(1,2))
copy.deepcopy(Array3f(1,2,3))
a=Float(1,2); b=copy.copy(a); b+=1; a
a=Array2f(1,2); b=copy.copy(a); b.x+=1; a
a=Array2f(1,2); b=copy.deepcopy(a); b.x+=1; a
a=Float(1,2); b=copy.copy(a); b is a
repr(Float(1,2))
str(Float(1,2))
repr(Float(*range(30)))
repr(Array3f(1,2,3))
repr(Array3f(Float(1,2),2,3))
repr(ArrayXf([[1,2],[3]]))
repr(ArrayXf([[1,2],[3,4,5]]))
repr(Bool(True,False))
repr(Complex2f(1,-2))
repr(Complex2f(0,1))
repr(Complex2f(0,0))
repr(Quaternion4f(1,2,3,4))
repr(TensorXf([[1,2],[3,4]]))
repr(TensorXf(1))
repr(TensorXf([]))
repr(dr.zeros(TensorXf,(0,3)))
repr(Float(1.5,1e10,1e-10,123456789,0.1))
repr(Float(dr.nan,dr.inf,-dr.inf,-0.0))
repr(Float64(0.1,1/3))
repr(Float16(0.1))
repr(Int(-1,2))
repr(UInt64(2**63))
repr(sc.ArrayXf(0.1,0.2))
repr(Float)
repr(type(Array3f(1)))
f"{Float(1.5)}"
"{}".format(Array3f(1,2,3))
Float(1,2).__class__.__name__
a=Float(1,2,3); a[0]=9; a
a=Float(1,2,3); a[-1]=9; a
a=Float(1,2,3); a[3]=9; a
a=Float(1,2,3); a[UInt(0,2)]=9; a
a=Float(1,2,3); a[UInt(0,2)]=Float(8,9); a
a=Float(1,2,3); a[Bool(True,False,True)]=9; a
a=Float(1,2,3); a[a>1]*=10; a
a=Float(1,2,3); a[1:]=9; a
a=Float(1,2,3); a[1:]=Float(8,9); a
a=Float(1,2,3); a[:]=Float(7,8,9); a
a=Float(1,2,3); a[...]=9; a
a=Float(1,2,3); a["x"]=9; a
a=Float(1,2,3); a[0]="x"; a
a=Float(1,2,3); a[0]=Float(9); a
a=Float(1,2,3); a[0]=Int(9); a
a=Float(1,2,3); a[0]=None; a
a=Int(1,2,3); a[0]=1.5; a
a=Int(1,2,3); a[0]=True; a
a=Bool(True,False); a[0]=0; a
a=Bool(True,False); a[0]=False; a
a=Array2f(1,2); a[0]=9; a
a=Array2f(1,2); a[0]=Float(8,9); a
a=Array2f(1,2); a[1]=Int(8,9); a
a=Array2f(1,2); a.x=Float(8,9); a
a=Array2f(1,2); a[Bool(True)]=9; a
a=Array2f([1,2],3); a[Bool(True,False)]=9; a
a=Array2f([1,2],3); a[Bool(True,False)]=Array2f(8,9); a
a=Array2f([1,2],3); a[Array2b(True,False)]=9; a
a=Array2f([1,2],3); a[a>1]=0; a
a=Array2f(1,2); a[0:2]=9; a
a=Array2f(1,2); a[0:2]=Array2f(8,9); a
a=Array2f([1,2],[3,4]); a[0,1]=9; a
a=Array2f(1,2); a[2]=9; a
a=Array2f(1,2); a[0]="x"; a
a=Array2f(1,2); a[0]=Array2f(1,2); a
a=Array2f(1,2); a[UInt(0)]=9; a
a=Matrix2f(1); a[0]=Array2f(8,9); a
a=Matrix2f(1); a[0]=[8,9]; a
a=Matrix2f(1); a[0,1]=9; a
a=Matrix2f(1); a[0][1]=9; a
a=Matrix2f(1); a[0]=5; a
a=Matrix2f(Float(1,2)); a[Bool(True,False)]=Matrix2f(7); a
a=Complex2f(1,2); a[0]=9; a
a=ArrayXf([[1,2],[3,4]]); a[0]=9; a
a=ArrayXf([[1,2],[3,4]]); a[0,1]=9; a
a=sc.Array3f(1,2,3); a[0]=9; a
a=sc.Array3f(1,2,3); a[0]="x"; a
a=sc.Array3f(1,2,3); a[-1]=9; a
a=sc.Array3i(1,2,3); a[0]=1.5; a
a=sc.Matrix2f(1,2,3,4); a[0]=[8,9]; a
a=sc.Matrix2f(1,2,3,4); a[0,0]=9; a
""",
    globals(),
)
