# ruff: noqa: E501, F401, F403
"""Entries of tensors and arrays that generated keys select and assign to."""

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
TensorXf(np.arange(8).reshape(1,4,2))[0,1:4,UInt(0,1)]
TensorXf(np.arange(8).reshape(1,4,2))[UInt(0),1:4,UInt(0,1)]
TensorXf(np.arange(12).reshape(2,3,2))[UInt(0,1),:,UInt(0,1)]
TensorXf(np.arange(12).reshape(2,3,2))[UInt(0,1),:,1]
TensorXf(np.arange(12).reshape(2,3,2))[UInt(0,1),None,UInt(0,1)]
TensorXf(np.arange(12).reshape(2,3,2))[UInt(0,1),UInt(0,1)]
TensorXf(np.arange(12).reshape(2,3,2))[:,UInt(0,1),UInt(0,1)]
TensorXf(np.arange(12).reshape(2,3,2))[:,UInt(0,1),1]
TensorXf(np.arange(12).reshape(2,3,2))[1,UInt(0,1)]
TensorXf(np.arange(12).reshape(2,3,2))[1,:,UInt(0,1)]
TensorXf(np.arange(12).reshape(2,3,2))[1,None,UInt(0,1)]
TensorXf(np.arange(12).reshape(2,3,2))[UInt(0,1),...,UInt(0,1)]
TensorXf(np.arange(12).reshape(2,3,2))[0,...,UInt(0,1)]
t=TensorXf(np.arange(12).reshape(2,3,2)); t[1,:,UInt(0,1)]=0; t
t=TensorXf(np.arange(12).reshape(2,3,2)); t[1,1:,UInt(0,1)]=TensorXf([[1,2],[3,4]]).array; t
t=TensorXf(np.arange(12).reshape(2,3,2)); t[UInt(0,1),:,UInt(0,1)]=Float(1,2,3,4,5,6,7,8,9,10,11,12); t
t=TensorXf(np.arange(12).reshape(2,3,2)); t[UInt(0,1),:,UInt(0,1)]=0; t
sc.TensorXf(np.arange(12).reshape(2,3,2))[1,:,sc.ArrayXu(0,1)]
sc.TensorXf(np.arange(12).reshape(2,3,2))[1,None,sc.ArrayXu(0,1)]
sc.TensorXf(np.arange(12).reshape(2,3,2))[0,...,sc.ArrayXu(0,1)]
sc.TensorXf(np.arange(12).reshape(2,3,2))[sc.ArrayXu(0,1),:,1]
sc.TensorXf(np.arange(12).reshape(2,3,2))[sc.ArrayXu(0,1),:,sc.ArrayXu(0,1)]
sc.TensorXf(np.arange(12).reshape(2,3,2))[1,1,1]
sc.TensorXf(np.arange(12).reshape(2,3,2))[...,1]
sc.TensorXf(np.arange(12).reshape(2,3,2))[None,1]
TensorXf(np.arange(12).reshape(2,3,2))[UInt(0,1),2,UInt(1,0)]
TensorXf(np.arange(24).reshape(2,3,2,2))[:,1,UInt(1,0),UInt(0,1)]
TensorXf(np.arange(24).reshape(2,3,2,2))[UInt(1,0),1,:,UInt(0,1)]
TensorXf(np.arange(24).reshape(2,3,2,2))[1,:,:,UInt(0,1)]
TensorXf(np.arange(24).reshape(2,3,2,2))[1,UInt(0,1),:,0]
dr.slice_index(UInt,(2,3,2),(1,slice(None),UInt(0,1)))
t=TensorXi(np.arange(3).reshape(3, 1)); t[UInt(2),-1]=0.5; t
t=TensorXf(np.arange(4).reshape(4,)); t[:3]=9; t
TensorXf(np.arange(6).reshape(2, 3))[-1,-2]
TensorXf(np.arange(6).reshape(2, 3))[::2,2]
TensorXi(np.arange(4).reshape(4,))[UInt(2,3)]
sc.TensorXf(np.arange(12).reshape(2, 3, 2))[-1,sc.ArrayXu(0)]
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[UInt(0,0),-3:-3:1]
t=sc.TensorXf(np.arange(4).reshape(4,)); t[sc.ArrayXu(3,3,0)]=-1; t
t=TensorXf(np.arange(12).reshape(2, 3, 2)); t[UInt(1,1)]=-1; t
ad.TensorXf(np.arange(4).reshape(4,))[-3]
sc.TensorXf(np.arange(6).reshape(2, 3))[sc.ArrayXu(1,1)]
ad.TensorXf(np.arange(12).reshape(2, 3, 2))[-2:3:1,...,UInt(0,0)]
TensorXi(np.arange(6).reshape(2, 3))[-1]
t=ad.TensorXf(np.arange(12).reshape(2, 3, 2)); t[1,-3]=t.array[0]; t
t=TensorXf(np.arange(6).reshape(2, 3)); t[UInt(0),:]=t.array[0]; t
t=sc.TensorXf(np.arange(6).reshape(2, 3)); t[sc.ArrayXu(0,0),None]=t.array[0]; t
ad.TensorXf(np.arange(12).reshape(2, 3, 2))[-2,UInt(1,1,2)]
t=TensorXi(np.arange(4).reshape(4,)); t[-4]=-1; t
sc.TensorXf(np.arange(4).reshape(4,))[...]
t=sc.TensorXf(np.arange(6).reshape(2, 3)); t[sc.ArrayXu(0)]=0.5; t
ad.TensorXf(np.arange(6).reshape(2, 3))[UInt(1),-1:3:2]
TensorXi(np.arange(4).reshape(4,))[-1]
t=TensorXf(np.arange(8).reshape(1, 4, 2)); t[...,::1]=0.5; t
TensorXi(np.arange(12).reshape(2, 3, 2))[UInt(0,1),:]
TensorXi(np.arange(12).reshape(2, 3, 2))[None,...,UInt(0,0)]
TensorXi(np.arange(4).reshape(4,))[...]
TensorXf(np.arange(6).reshape(2, 3))[-1,UInt(1,2)]
TensorXf(np.arange(8).reshape(1, 4, 2))[UInt(0,0,0),-3]
ad.TensorXf(np.arange(3).reshape(3, 1))[None]
sc.TensorXf(np.arange(6).reshape(2, 3))[sc.ArrayXu(1,0,0)]
TensorXi(np.arange(8).reshape(1, 4, 2))[2::2,...,None]
t=TensorXi(np.arange(12).reshape(2, 3, 2)); t[1,-1::2]=0.5; t
TensorXi(np.arange(3).reshape(3, 1))[None,...]
ad.TensorXf(np.arange(4).reshape(4,))[-1]
ad.TensorXf(np.arange(12).reshape(2, 3, 2))[-1:-3,3:-4:2]
t=TensorXf(np.arange(3).reshape(3, 1)); t[...]=9; t
sc.TensorXf(np.arange(4).reshape(4,))[-2]
ad.TensorXf(np.arange(6).reshape(2, 3))[1:2,-2:-3]
TensorXf(np.arange(3).reshape(3, 1))[-3]
ad.TensorXf(np.arange(3).reshape(3, 1))[UInt(2),UInt(0)]
TensorXi(np.arange(6).reshape(2, 3))[UInt(0,1,1),-2::2]
TensorXi(np.arange(4).reshape(4,))[3]
ad.TensorXf(np.arange(12).reshape(2, 3, 2))[None,4::2,-1]
t=TensorXf(np.arange(3).reshape(3, 1)); t[2]=-1; t
t=TensorXi(np.arange(12).reshape(2, 3, 2)); t[1]=-1; t
TensorXf(np.arange(6).reshape(2, 3))[-1,0]
TensorXi(np.arange(3).reshape(3, 1))[:]
t=ad.TensorXf(np.arange(4).reshape(4,)); t[::1]=t.array[0]; t
t=sc.TensorXf(np.arange(6).reshape(2, 3)); t[1]=0.5; t
TensorXf(np.arange(8).reshape(1, 4, 2))[:,UInt(3),None]
t=TensorXi(np.arange(4).reshape(4,)); t[:]=t.array[0]; t
TensorXf(np.arange(3).reshape(3, 1))[-2,0]
TensorXf(np.arange(12).reshape(2, 3, 2))[...,::2]
TensorXi(np.arange(3).reshape(3, 1))[3::1]
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[::1,3]
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[:,UInt(2,1)]
t=sc.TensorXf(np.arange(8).reshape(1, 4, 2)); t[sc.ArrayXu(0)]=t.array[0]; t
TensorXf(np.arange(12).reshape(2, 3, 2))[1]
sc.TensorXf(np.arange(12).reshape(2, 3, 2))[0,-3:-4:2,None]
t=TensorXf(np.arange(6).reshape(2, 3)); t[-3::2,...]=9; t
TensorXf(np.arange(3).reshape(3, 1))[None]
t=TensorXi(np.arange(6).reshape(2, 3)); t[:3:1,None]=t.array[0]; t
TensorXi(np.arange(8).reshape(1, 4, 2))[0,-3:,1]
sc.TensorXf(np.arange(3).reshape(3, 1))[-1:3,-1]
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[0,...,:]
sc.TensorXf(np.arange(4).reshape(4,))[:-5:1]
t=ad.TensorXf(np.arange(12).reshape(2, 3, 2)); t[...,None]=9; t
t=TensorXf(np.arange(6).reshape(2, 3)); t[UInt(1,0),1]=t.array[0]; t
t=TensorXf(np.arange(6).reshape(2, 3)); t[-2]=t.array[0]; t
TensorXf(np.arange(4).reshape(4,))[UInt(0)]
t=TensorXi(np.arange(3).reshape(3, 1)); t[::2,:1]=9; t
sc.TensorXf(np.arange(4).reshape(4,))[:]
t=sc.TensorXf(np.arange(12).reshape(2, 3, 2)); t[1]=t.array[0]; t
sc.TensorXf(np.arange(4).reshape(4,))[sc.ArrayXu(1,3)]
t=ad.TensorXf(np.arange(3).reshape(3, 1)); t[UInt(0),UInt(0,0,0)]=-1; t
TensorXi(np.arange(6).reshape(2, 3))[0,1]
t=TensorXi(np.arange(6).reshape(2, 3)); t[::1,-3]=0.5; t
TensorXf(np.arange(12).reshape(2, 3, 2))[1,::2,1]
TensorXf(np.arange(4).reshape(4,))[3]
t=ad.TensorXf(np.arange(3).reshape(3, 1)); t[UInt(2)]=9; t
t=TensorXf(np.arange(12).reshape(2, 3, 2)); t[-2,-3:1:2]=9; t
t=sc.TensorXf(np.arange(3).reshape(3, 1)); t[::1,sc.ArrayXu(0,0)]=t.array[0]; t
t=ad.TensorXf(np.arange(6).reshape(2, 3)); t[0]=0.5; t
t=TensorXi(np.arange(8).reshape(1, 4, 2)); t[None,::1]=0.5; t
t=TensorXf(np.arange(12).reshape(2, 3, 2)); t[0,0,None]=-1; t
t=TensorXf(np.arange(8).reshape(1, 4, 2)); t[0]=t.array[0]; t
TensorXi(np.arange(6).reshape(2, 3))[::2]
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[:,-2]
TensorXi(np.arange(8).reshape(1, 4, 2))[0,...]
t=TensorXf(np.arange(6).reshape(2, 3)); t[...,0]=0.5; t
sc.TensorXf(np.arange(12).reshape(2, 3, 2))[None]
ad.TensorXf(np.arange(6).reshape(2, 3))[UInt(0,0,1),-1]
t=TensorXi(np.arange(4).reshape(4,)); t[-1]=-1; t
sc.TensorXf(np.arange(12).reshape(2, 3, 2))[sc.ArrayXu(0)]
ad.TensorXf(np.arange(12).reshape(2, 3, 2))[3:]
t=sc.TensorXf(np.arange(12).reshape(2, 3, 2)); t[...,sc.ArrayXu(0,1)]=-1; t
t=ad.TensorXf(np.arange(12).reshape(2, 3, 2)); t[None]=-1; t
ad.TensorXf(np.arange(6).reshape(2, 3))[-2,-2::1]
ad.TensorXf(np.arange(3).reshape(3, 1))[-3]
t=TensorXf(np.arange(12).reshape(2, 3, 2)); t[UInt(0,0),::1,:]=t.array[0]; t
TensorXf(np.arange(3).reshape(3, 1))[2,UInt(0)]
TensorXi(np.arange(8).reshape(1, 4, 2))[-1,-2]
t=TensorXi(np.arange(4).reshape(4,)); t[...]=0.5; t
ad.TensorXf(np.arange(3).reshape(3, 1))[2:1:1,-1]
ad.TensorXf(np.arange(12).reshape(2, 3, 2))[1::1]
TensorXi(np.arange(4).reshape(4,))[-4:]
sc.TensorXf(np.arange(4).reshape(4,))[2]
t=TensorXf(np.arange(6).reshape(2, 3)); t[...]=9; t
TensorXi(np.arange(6).reshape(2, 3))[:,None]
TensorXi(np.arange(3).reshape(3, 1))[None,:0]
TensorXi(np.arange(8).reshape(1, 4, 2))[::2,UInt(1,2)]
TensorXf(np.arange(8).reshape(1, 4, 2))[None,...,:-1:2]
sc.TensorXf(np.arange(6).reshape(2, 3))[:-2,sc.ArrayXu(0)]
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[0,1:]
t=TensorXi(np.arange(12).reshape(2, 3, 2)); t[-1]=t.array[0]; t
t=TensorXf(np.arange(4).reshape(4,)); t[None]=t.array[0]; t
TensorXf(np.arange(3).reshape(3, 1))[UInt(1,2,2)]
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[-1]
TensorXf(np.arange(8).reshape(1, 4, 2))[-1,-3]
TensorXi(np.arange(8).reshape(1, 4, 2))[2::2]
ad.TensorXf(np.arange(4).reshape(4,))[1:-4]
t=sc.TensorXf(np.arange(4).reshape(4,)); t[sc.ArrayXu(2)]=-1; t
sc.TensorXf(np.arange(4).reshape(4,))[sc.ArrayXu(2,2,1)]
sc.TensorXf(np.arange(6).reshape(2, 3))[:]
TensorXf(np.arange(4).reshape(4,))[:]
TensorXf(np.arange(4).reshape(4,))[1]
TensorXf(np.arange(8).reshape(1, 4, 2))[...,-1,-2]
t=sc.TensorXf(np.arange(4).reshape(4,)); t[-3]=0.5; t
t=TensorXf(np.arange(12).reshape(2, 3, 2)); t[-3:,UInt(2)]=0.5; t
t=TensorXf(np.arange(12).reshape(2, 3, 2)); t[-2,0,-1]=-1; t
t=sc.TensorXf(np.arange(8).reshape(1, 4, 2)); t[...,:,:]=t.array[0]; t
TensorXf(np.arange(8).reshape(1, 4, 2))[-2::1,None,-1]
TensorXf(np.arange(8).reshape(1, 4, 2))[:1,:-3:1]
TensorXi(np.arange(6).reshape(2, 3))[:,UInt(2,1,0)]
sc.TensorXf(np.arange(6).reshape(2, 3))[-2]
TensorXi(np.arange(6).reshape(2, 3))[UInt(1,0),-3]
ad.TensorXf(np.arange(12).reshape(2, 3, 2))[1]
t=sc.TensorXf(np.arange(8).reshape(1, 4, 2)); t[0,sc.ArrayXu(0,1)]=t.array[0]; t
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[UInt(0,0,0)]
sc.TensorXf(np.arange(3).reshape(3, 1))[None]
t=TensorXi(np.arange(12).reshape(2, 3, 2)); t[None,-4::2]=t.array[0]; t
TensorXf(np.arange(12).reshape(2, 3, 2))[::2]
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[0,5:3:1,UInt(0,0)]
sc.TensorXf(np.arange(4).reshape(4,))[1:]
sc.TensorXf(np.arange(12).reshape(2, 3, 2))[-2:2,...,:]
TensorXi(np.arange(6).reshape(2, 3))[None]
t=TensorXi(np.arange(3).reshape(3, 1)); t[UInt(1,1,2),-1]=-1; t
t=sc.TensorXf(np.arange(4).reshape(4,)); t[:]=-1; t
t=sc.TensorXf(np.arange(12).reshape(2, 3, 2)); t[1]=0.5; t
TensorXf(np.arange(8).reshape(1, 4, 2))[...,5:-2,2:]
TensorXi(np.arange(6).reshape(2, 3))[-3::1,-2]
TensorXi(np.arange(4).reshape(4,))[4:5:1]
TensorXf(np.arange(12).reshape(2, 3, 2))[UInt(0,0,0)]
TensorXf(np.arange(3).reshape(3, 1))[:-1,0::2]
sc.TensorXf(np.arange(12).reshape(2, 3, 2))[0,3:1:2,...]
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[1:,3,UInt(0,1,0)]
TensorXf(np.arange(8).reshape(1, 4, 2))[0]
TensorXf(np.arange(6).reshape(2, 3))[None]
TensorXf(np.arange(4).reshape(4,))[None]
t=sc.TensorXf(np.arange(3).reshape(3, 1)); t[-3,:]=t.array[0]; t
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[0,:2]
TensorXi(np.arange(12).reshape(2, 3, 2))[UInt(0,0)]
t=ad.TensorXf(np.arange(8).reshape(1, 4, 2)); t[UInt(0,0),-4]=9; t
t=sc.TensorXf(np.arange(12).reshape(2, 3, 2)); t[sc.ArrayXu(1),sc.ArrayXu(1,2)]=t.array[0]; t
TensorXi(np.arange(6).reshape(2, 3))[:2:1]
sc.TensorXf(np.arange(12).reshape(2, 3, 2))[:1,None,sc.ArrayXu(1,0)]
TensorXi(np.arange(12).reshape(2, 3, 2))[-3:-1:1,-3]
TensorXi(np.arange(6).reshape(2, 3))[...,UInt(2,1,1)]
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[-1,-5::2]
ad.TensorXf(np.arange(4).reshape(4,))[3::1]
sc.TensorXf(np.arange(3).reshape(3, 1))[:,0]
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[sc.ArrayXu(0),3]
sc.TensorXf(np.arange(4).reshape(4,))[sc.ArrayXu(2)]
t=sc.TensorXf(np.arange(3).reshape(3, 1)); t[-2]=t.array[0]; t
t=TensorXi(np.arange(8).reshape(1, 4, 2)); t[...,-4::2]=-1; t
t=TensorXi(np.arange(6).reshape(2, 3)); t[-2,-1]=t.array[0]; t
TensorXf(np.arange(12).reshape(2, 3, 2))[UInt(0),:4,-2:]
t=sc.TensorXf(np.arange(3).reshape(3, 1)); t[...]=9; t
t=ad.TensorXf(np.arange(3).reshape(3, 1)); t[-1]=0.5; t
ad.TensorXf(np.arange(3).reshape(3, 1))[1::2]
t=ad.TensorXf(np.arange(6).reshape(2, 3)); t[None]=9; t
TensorXi(np.arange(12).reshape(2, 3, 2))[-1]
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[0,...,:]
TensorXf(np.arange(4).reshape(4,))[...]
ad.TensorXf(np.arange(6).reshape(2, 3))[UInt(1)]
TensorXi(np.arange(4).reshape(4,))[-3:-3:1]
t=TensorXf(np.arange(6).reshape(2, 3)); t[-1::2,1:]=9; t
ad.TensorXf(np.arange(6).reshape(2, 3))[-1,...]
TensorXi(np.arange(3).reshape(3, 1))[-1]
TensorXf(np.arange(6).reshape(2, 3))[-2,4::1]
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[-2:-1]
t=TensorXi(np.arange(6).reshape(2, 3)); t[-2]=t.array[0]; t
t=TensorXi(np.arange(3).reshape(3, 1)); t[2]=0.5; t
t=sc.TensorXf(np.arange(8).reshape(1, 4, 2)); t[0]=9; t
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[:-2:1,0]
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[0]
TensorXi(np.arange(3).reshape(3, 1))[UInt(2,0),-2:]
TensorXi(np.arange(4).reshape(4,))[0]
t=TensorXf(np.arange(4).reshape(4,)); t[...]=-1; t
t=ad.TensorXf(np.arange(4).reshape(4,)); t[UInt(2)]=0.5; t
sc.TensorXf(np.arange(4).reshape(4,))[4:]
t=TensorXi(np.arange(6).reshape(2, 3)); t[1]=0.5; t
ad.TensorXf(np.arange(4).reshape(4,))[::2]
sc.TensorXf(np.arange(6).reshape(2, 3))[None,1::2]
TensorXi(np.arange(3).reshape(3, 1))[UInt(1),-1]
TensorXi(np.arange(12).reshape(2, 3, 2))[UInt(0),2:,None]
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[:,-5:-4:2,sc.ArrayXu(0)]
t=sc.TensorXf(np.arange(8).reshape(1, 4, 2)); t[:]=t.array[0]; t
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[-1,sc.ArrayXu(3,1)]
sc.TensorXf(np.arange(6).reshape(2, 3))[None,3:]
ad.TensorXf(np.arange(6).reshape(2, 3))[0,-2]
t=sc.TensorXf(np.arange(12).reshape(2, 3, 2)); t[sc.ArrayXu(0,1,0),1,0::1]=-1; t
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[1:1,-3:4,0]
t=TensorXi(np.arange(8).reshape(1, 4, 2)); t[0,None]=9; t
sc.TensorXf(np.arange(4).reshape(4,))[3:3:1]
ad.TensorXf(np.arange(12).reshape(2, 3, 2))[None,:-2:2,-3:]
sc.TensorXf(np.arange(3).reshape(3, 1))[sc.ArrayXu(1,2,0),-1:]
ad.TensorXf(np.arange(4).reshape(4,))[UInt(0,2)]
t=TensorXf(np.arange(4).reshape(4,)); t[3]=-1; t
TensorXi(np.arange(8).reshape(1, 4, 2))[-1,-3,-2]
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[UInt(0),UInt(2,1,1)]
TensorXf(np.arange(6).reshape(2, 3))[UInt(0,1,0),::1]
ad.TensorXf(np.arange(4).reshape(4,))[UInt(1)]
TensorXi(np.arange(8).reshape(1, 4, 2))[0,4:]
TensorXi(np.arange(8).reshape(1, 4, 2))[:,2]
ad.TensorXf(np.arange(3).reshape(3, 1))[1,None]
ad.TensorXf(np.arange(6).reshape(2, 3))[::2]
TensorXi(np.arange(3).reshape(3, 1))[UInt(0)]
ad.TensorXf(np.arange(6).reshape(2, 3))[None,None]
TensorXi(np.arange(3).reshape(3, 1))[-1:,None]
ad.TensorXf(np.arange(3).reshape(3, 1))[:,0::2]
TensorXi(np.arange(4).reshape(4,))[:-4:2]
TensorXf(np.arange(3).reshape(3, 1))[:-4]
TensorXi(np.arange(12).reshape(2, 3, 2))[-2,:3:1]
t=TensorXf(np.arange(6).reshape(2, 3)); t[UInt(1)]=9; t
t=ad.TensorXf(np.arange(12).reshape(2, 3, 2)); t[UInt(1),1:3:1,::1]=9; t
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[-1:]
TensorXf(np.arange(12).reshape(2, 3, 2))[UInt(0)]
ad.TensorXf(np.arange(12).reshape(2, 3, 2))[UInt(1)]
TensorXi(np.arange(8).reshape(1, 4, 2))[UInt(0),UInt(1)]
ad.TensorXf(np.arange(12).reshape(2, 3, 2))[0]
TensorXi(np.arange(12).reshape(2, 3, 2))[0]
t=ad.TensorXf(np.arange(12).reshape(2, 3, 2)); t[::1,...,UInt(1)]=-1; t
ad.TensorXf(np.arange(4).reshape(4,))[3:-5]
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[-1,sc.ArrayXu(3),None]
TensorXi(np.arange(6).reshape(2, 3))[UInt(1,1)]
sc.TensorXf(np.arange(3).reshape(3, 1))[4:]
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[...]
TensorXi(np.arange(12).reshape(2, 3, 2))[UInt(0,0,0),0]
TensorXf(np.arange(12).reshape(2, 3, 2))[None]
sc.TensorXf(np.arange(6).reshape(2, 3))[1]
TensorXi(np.arange(4).reshape(4,))[-5:4]
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[:,sc.ArrayXu(2,3),...]
sc.TensorXf(np.arange(6).reshape(2, 3))[:,sc.ArrayXu(2,0)]
sc.TensorXf(np.arange(8).reshape(1, 4, 2))[1::1,:,0]
sc.TensorXf(np.arange(6).reshape(2, 3))[1,1]
ad.TensorXf(np.arange(6).reshape(2, 3))[-2]
sc.TensorXf(np.arange(4).reshape(4,))[-1]
t=TensorXf(np.arange(6).reshape(2, 3)); t[0,None]=9; t
TensorXf(np.arange(3).reshape(3, 1))[4::2]
sc.TensorXf(np.arange(6).reshape(2, 3))[None,0:]
t=ad.TensorXf(np.arange(6).reshape(2, 3)); t[...,UInt(1,0)]=9; t
t=sc.TensorXf(np.arange(3).reshape(3, 1)); t[::2]=-1; t
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[...,0:]
t=TensorXf(np.arange(8).reshape(1, 4, 2)); t[-1,:3:2,:]=t.array[0]; t
TensorXf(np.arange(8).reshape(1, 4, 2))[UInt(0),UInt(2,2)]
sc.TensorXf(np.arange(6).reshape(2, 3))[2:2:1,:]
TensorXi(np.arange(8).reshape(1, 4, 2))[1::1,-3:]
TensorXf(np.arange(6).reshape(2, 3))[1]
t=sc.TensorXf(np.arange(8).reshape(1, 4, 2)); t[sc.ArrayXu(0),sc.ArrayXu(0),0]=9; t
sc.TensorXf(np.arange(6).reshape(2, 3))[sc.ArrayXu(0)]
t=ad.TensorXf(np.arange(4).reshape(4,)); t[UInt(1,0)]=9; t
TensorXf(np.arange(12).reshape(2, 3, 2))[...]
TensorXf(np.arange(3).reshape(3, 1))[UInt(1,0,0),-1]
t=sc.TensorXf(np.arange(4).reshape(4,)); t[:5]=-1; t
TensorXf(np.arange(12).reshape(2, 3, 2))[3:1:2,::1,0]
ad.TensorXf(np.arange(6).reshape(2, 3))[...]
t=TensorXf(np.arange(4).reshape(4,)); t[-3:4]=0.5; t
TensorXf(np.arange(8).reshape(1, 4, 2))[UInt(0),...]
ad.TensorXf(np.arange(3).reshape(3, 1))[-3,-1]
sc.TensorXf(np.arange(12).reshape(2, 3, 2))[1]
TensorXi(np.arange(12).reshape(2, 3, 2))[-1::2]
sc.TensorXf(np.arange(12).reshape(2, 3, 2))[None,-2::2]
TensorXf(np.arange(3).reshape(3, 1))[None,0]
ad.TensorXf(np.arange(8).reshape(1, 4, 2))[-1:-2]
sc.TensorXf(np.arange(6).reshape(2, 3))[None]
TensorXi(np.arange(4).reshape(4,))[1]
t=ad.TensorXf(np.arange(6).reshape(2, 3)); t[0,UInt(2,1,1)]=9; t
TensorXi(np.arange(8).reshape(1, 4, 2))[UInt(0,0,0)]
TensorXi(np.arange(4).reshape(4,))[UInt(0)]
t=TensorXf(np.arange(12).reshape(2, 3, 2)); t[...,None]=0.5; t
sc.TensorXf(np.arange(4).reshape(4,))[0]
TensorXi(np.arange(4).reshape(4,))[3::2]
sc.TensorXf(np.arange(6).reshape(2, 3))[...,None]
TensorXf(np.arange(4).reshape(4,))[3:5:2]
TensorXf(np.arange(8).reshape(1, 4, 2))[UInt(0,0),2]
t=ad.TensorXf(np.arange(4).reshape(4,)); t[UInt(2,0,1)]=-1; t
ad.TensorXf(np.arange(3).reshape(3, 1))[::2,:]
TensorXi(np.arange(12).reshape(2, 3, 2))[...,None,UInt(1)]
TensorXf(np.arange(12).reshape(2, 3, 2))[0,1:4:1]
t=ad.TensorXf(np.arange(3).reshape(3, 1)); t[...,UInt(0,0)]=0.5; t
t=TensorXi(np.arange(4).reshape(4,)); t[:4:2]=-1; t
TensorXi(np.arange(4).reshape(4,))[:-1:2]
t=ad.TensorXf(np.arange(3).reshape(3, 1)); t[::1]=-1; t
t=sc.TensorXf(np.arange(8).reshape(1, 4, 2)); t[sc.ArrayXu(0,0)]=-1; t
ad.TensorXf(np.arange(12).reshape(2, 3, 2))[UInt(1,0),:,:3:1]
ad.TensorXf(np.arange(12).reshape(2, 3, 2))[UInt(0),3:2:1,-2]
TensorXi(np.arange(12).reshape(2, 3, 2))[UInt(0),UInt(2,0),...]
ad.TensorXf(np.arange(3).reshape(3, 1))[-2,None]
TensorXf(np.arange(4).reshape(4,))[-1]
t=TensorXi(np.arange(4).reshape(4,)); t[-5::1]=0.5; t
Quaternion4f(1,2,3,4)[-4]
Array22f([1,2],[3,4])[-3:0:2]
t=Array22f([1,2],[3,4]); t[::2]=Float(8); t
Array34f(1,2,3)[::2]
t=Array4i(1,2,3,4); t[-1]=2.5; t
Matrix2f(1,2,3,4)[1,2:]
t=Array4i(1,2,3,4); t[-3]=Float(8); t
t=ArrayXf([1,2,3,4,5]); t[:-6]=2.5; t
t=sc.ArrayXf([1,2,3,4,5]); t[::1,-3::2]=2.5; t
Array22f([1,2],[3,4])[-1]
Array3f(1,Float(2,3),4)[:]
t=ArrayXf([1,2,3,4,5]); t[:-6]=-1; t
Array22f([1,2],[3,4])[1,3::1]
Complex2f(1,2)[::1,:1]
Array4i(1,2,3,4)[-3::2]
Array4i(1,2,3,4)[-3:,-3]
ArrayXf([1,2,3,4,5])[::2]
Array4i(1,2,3,4)[3]
Complex2f(1,2)[-1]
sc.ArrayXf([1,2,3,4,5])[-5:]
Array3f(1,Float(2,3),4)[-1:,-3]
t=Array34f(1,2,3); t[:]=-1; t
Matrix2f(1,2,3,4)[:]
t=Array4i(1,2,3,4); t[-2]=2.5; t
Array4i(1,2,3,4)[:0:1]
t=Array4i(1,2,3,4); t[1]=9; t
Quaternion4f(1,2,3,4)[3,3]
sc.ArrayXf([1,2,3,4,5])[0,:-5:1]
sc.Array3f(1,2,3)[0]
Array22f([1,2],[3,4])[-2]
sc.Array3f(1,2,3)[:-2]
t=ArrayXf([1,2,3,4,5]); t[6:5]=True; t
t=sc.Array3f(1,2,3); t[:3:2]=9; t
Array3f(1,Float(2,3),4)[0,::2]
t=Array3f(1,Float(2,3),4); t[1]=2.5; t
t=Matrix2f(1,2,3,4); t[:3:1]=2.5; t
Array22f([1,2],[3,4])[:1:1]
sc.ArrayXf([1,2,3,4,5])[2:4,-1:2]
ArrayXf([1,2,3,4,5])[-5:]
sc.Array3f(1,2,3)[:]
Complex2f(1,2)[:]
Quaternion4f(1,2,3,4)[-2]
Array22f([1,2],[3,4])[:-3]
t=Complex2f(1,2); t[::2,:]=2.5; t
sc.Array3f(1,2,3)[2]
Array22f([1,2],[3,4])[:3]
Complex2f(1,2)[-1,3:1]
t=Quaternion4f(1,2,3,4); t[:0]=Float(8); t
Array4i(1,2,3,4)[-2]
Complex2f(1,2)[2:-2,-2]
t=Array34f(1,2,3); t[:,-3:1:1]=-1; t
Array3f(1,Float(2,3),4)[-1]
t=Array3f(1,Float(2,3),4); t[2]=-1; t
sc.ArrayXf([1,2,3,4,5])[:,:]
Matrix2f(1,2,3,4)[-2]
t=Matrix2f(1,2,3,4); t[1,-2:-3]=9; t
ArrayXf([1,2,3,4,5])[3]
Array4i(1,2,3,4)[:-5:1,::1]
t=Matrix2f(1,2,3,4); t[:1,-1]=9; t
t=Array4i(1,2,3,4); t[-1:-3:2]=9; t
Array4i(1,2,3,4)[-1]
t=sc.ArrayXf([1,2,3,4,5]); t[:]=-1; t
sc.Array3f(1,2,3)[-1]
ArrayXf([1,2,3,4,5])[-4:-4:2]
Matrix2f(1,2,3,4)[-3:-2:2]
t=Matrix2f(1,2,3,4); t[2:]=-1; t
Matrix2f(1,2,3,4)[-1,:]
Array4i(1,2,3,4)[:,:2:1]
Array4i(1,2,3,4)[::1]
t=Matrix2f(1,2,3,4); t[::2]=2.5; t
Array34f(1,2,3)[-3]
t=Array34f(1,2,3); t[-3]=9; t
sc.Array3f(1,2,3)[-3]
ArrayXf([1,2,3,4,5])[:-4:2]
ArrayXf([1,2,3,4,5])[:,:-5:2]
Array3f(1,Float(2,3),4)[:3]
sc.ArrayXf([1,2,3,4,5])[::2]
sc.ArrayXf([1,2,3,4,5])[::1]
sc.Array3f(1,2,3)[1,-1]
Array4i(1,2,3,4)[:-4:2]
Complex2f(1,2)[-2,-2::2]
Quaternion4f(1,2,3,4)[1,-4::2]
t=ArrayXf([1,2,3,4,5]); t[:-5]=9; t
Quaternion4f(1,2,3,4)[3]
sc.ArrayXf([1,2,3,4,5])[2,6:-6]
t=sc.Array3f(1,2,3); t[-1]=9; t
t=ArrayXf([1,2,3,4,5]); t[-5:6:2]=-1; t
Complex2f(1,2)[1:3]
sc.ArrayXf([1,2,3,4,5])[4::1,-1]
t=ArrayXf([1,2,3,4,5]); t[:3,:1]=9; t
Matrix2f(1,2,3,4)[:-1:1,0::1]
t=Quaternion4f(1,2,3,4); t[0::1,0]=-1; t
t=Matrix2f(1,2,3,4); t[:-1:2,-2]=True; t
t=Array3f(1,Float(2,3),4); t[2:]=9; t
Matrix2f(1,2,3,4)[-1]
t=Matrix2f(1,2,3,4); t[-2]=-1; t
t=ArrayXf([1,2,3,4,5]); t[2:-1:1]=2.5; t
Quaternion4f(1,2,3,4)[::2]
t=Array34f(1,2,3); t[-2]=-1; t
t=Complex2f(1,2); t[0]=2.5; t
t=ArrayXf([1,2,3,4,5]); t[2]=2.5; t
sc.Array3f(1,2,3)[::2]
t=Matrix2f(1,2,3,4); t[0]=Float(8); t
t=Array22f([1,2],[3,4]); t[:0:1]=Float(8); t
t=Quaternion4f(1,2,3,4); t[:-4,-4::2]=2.5; t
t=sc.Array3f(1,2,3); t[0,:-3]=True; t
t=sc.Array3f(1,2,3); t[0]=Float(8); t
Quaternion4f(1,2,3,4)[-1]
Array22f([1,2],[3,4])[1]
t=ArrayXf([1,2,3,4,5]); t[:-2,-6:]=2.5; t
Matrix2f(1,2,3,4)[-1:-1:1]
t=Matrix2f(1,2,3,4); t[2:0:2,0]=9; t
sc.ArrayXf([1,2,3,4,5])[:5:2]
t=Array4i(1,2,3,4); t[:-2]=Float(8); t
Array3f(1,Float(2,3),4)[3:1:2]
Array4i(1,2,3,4)[:2:1,-1]
Quaternion4f(1,2,3,4)[::1,:-3]
t=Complex2f(1,2); t[::2,:]=Float(8); t
t=Array22f([1,2],[3,4]); t[-2]=2.5; t
t=Array3f(1,Float(2,3),4); t[-3]=-1; t
Array22f([1,2],[3,4])[:2]
t=Array34f(1,2,3); t[::1,-3]=-1; t
Matrix2f(1,2,3,4)[:,-2]
t=Array4i(1,2,3,4); t[:0]=True; t
Quaternion4f(1,2,3,4)[2]
x=TensorXf([1,2,3]); x*=Array3f(3,2,1); x
x=ArrayXf([1,2,3]); x/=Float(2); x
dr.maximum(ArrayXf([1,2,3]),Float(2))
x=Float(1,2,3); x*=Float(2); x
x=sc.Array3f(1,2,3); x-=Array3f(3,2,1); x
x=TensorXf([1,2,3]); x/=Array3f(3,2,1); x
dr.select(TensorXf([1,2,3])>1,Array3f(3,2,1),TensorXf([1,2,3]))
x=TensorXf([1,2,3]); x-=np.array([3,2,1],dtype=np.float32); x
x=Float(1,2,3); x*=2; x
x=Array3f(1,2,3); x+=[3,2,1]; x
dr.power(Array3f(1,2,3),[3,2,1])
x=ArrayXf([1,2,3]); x*=[3,2,1]; x
dr.power(ArrayXf([1,2,3]),[3,2,1])
x=TensorXf([1,2,3]); x*=np.array([3,2,1],dtype=np.float32); x
x=sc.Array3f(1,2,3); x+=Int(2); x
x=ArrayXf([1,2,3]); x/=Array3f(3,2,1); x
dr.power(ArrayXf([1,2,3]),Array3f(3,2,1))
x=sc.Array3f(1,2,3); x-=np.array([3,2,1],dtype=np.float32); x
dr.power(sc.Array3f(1,2,3),np.array([3,2,1],dtype=np.float32))
x=Float(1,2,3); x/=np.array([3,2,1],dtype=np.float32); x
x=Array3i(1,2,3); x-=2; x
dr.minimum(Array3i(1,2,3),2)
x=sc.Array3f(1,2,3); x/=Array3f(3,2,1); x
dr.hypot(sc.Array3f(1,2,3),Array3f(3,2,1))
dr.minimum(TensorXf([1,2,3]),Array3f(3,2,1))
x=Array3i(1,2,3); x*=np.array([3,2,1],dtype=np.float32); x
x=Array3f(1,2,3); x*=Array3f(3,2,1); x
x=sc.Array3f(1,2,3); x*=np.array([3,2,1],dtype=np.float32); x
dr.minimum(sc.Array3f(1,2,3),np.array([3,2,1],dtype=np.float32))
x=Array3i(1,2,3); x/=sc.Array3f(3,2,1); x
dr.maximum(Array3i(1,2,3),sc.Array3f(3,2,1))
x=Array3i(1,2,3); x+=sc.Array3f(3,2,1); x
dr.fma(Array3i(1,2,3),sc.Array3f(3,2,1),1)
x=Array3i(1,2,3); x/=Array3f(3,2,1); x
x=ArrayXf([1,2,3]); x+=[3,2,1]; x
dr.maximum(ArrayXf([1,2,3]),[3,2,1])
x=Float(1,2,3); x+=Float(2); x
x=Float(1,2,3); x-=Array3f(3,2,1); x
dr.select(Float(1,2,3)>1,Array3f(3,2,1),Float(1,2,3))
x=Array3f(1,2,3); x*=[3,2,1]; x
dr.maximum(Array3f(1,2,3),[3,2,1])
x=ArrayXf([1,2,3]); x+=Int(2); x
x=sc.Array3f(1,2,3); x+=np.array([3,2,1],dtype=np.float32); x
x=ArrayXf([1,2,3]); x/=[3,2,1]; x
x=Array3f(1,2,3); x-=Int(2); x
x=Array3i(1,2,3); x+=2; x
x=Float(1,2,3); x+=2; x
x=Array3i(1,2,3); x-=Int(2); x
dr.maximum(Array3i(1,2,3),Int(2))
x=TensorXf([1,2,3]); x+=Float(2); x
x=Float(1,2,3); x*=np.array([3,2,1],dtype=np.float32); x
dr.select(Float(1,2,3)>1,np.array([3,2,1],dtype=np.float32),Float(1,2,3))
x=Array3i(1,2,3); x/=2; x
dr.power(Array3i(1,2,3),2)
x=TensorXf([1,2,3]); x*=[3,2,1]; x
x=Float(1,2,3); x+=[3,2,1]; x
x=Float(1,2,3); x-=Float(2); x
dr.power(Float(1,2,3),Float(2))
dr.hypot(ArrayXf([1,2,3]),Int(2))
x=sc.Array3f(1,2,3); x+=sc.Array3f(3,2,1); x
dr.hypot(sc.Array3f(1,2,3),sc.Array3f(3,2,1))
x=TensorXf([1,2,3]); x*=2; x
x=sc.Array3f(1,2,3); x+=Float(2); x
x=TensorXf([1,2,3]); x/=Float(2); x
dr.minimum(ArrayXf([1,2,3]),Int(2))
x=Array3i(1,2,3); x-=[3,2,1]; x
dr.atan2(Array3i(1,2,3),[3,2,1])
dr.power(ArrayXf([1,2,3]),Int(2))
dr.power(TensorXf([1,2,3]),np.array([3,2,1],dtype=np.float32))
x=TensorXf([1,2,3]); x*=Float(2); x
dr.select(TensorXf([1,2,3])>1,Float(2),TensorXf([1,2,3]))
x=ArrayXf([1,2,3]); x+=sc.Array3f(3,2,1); x
dr.power(ArrayXf([1,2,3]),sc.Array3f(3,2,1))
x=Array3i(1,2,3); x*=Int(2); x
dr.power(Array3i(1,2,3),Int(2))
dr.fma(Float(1,2,3),np.array([3,2,1],dtype=np.float32),1)
x=Array3i(1,2,3); x/=np.array([3,2,1],dtype=np.float32); x
x=Array3f(1,2,3); x-=np.array([3,2,1],dtype=np.float32); x
x=TensorXf([1,2,3]); x+=Array3f(3,2,1); x
dr.atan2(TensorXf([1,2,3]),Array3f(3,2,1))
x=TensorXf([1,2,3]); x*=Int(2); x
dr.select(Array3f(1,2,3)>1,[3,2,1],Array3f(1,2,3))
x=Array3f(1,2,3); x*=Int(2); x
dr.fma(Array3f(1,2,3),Int(2),1)
x=Array3i(1,2,3); x/=Float(2); x
dr.fma(Array3i(1,2,3),Float(2),1)
dr.maximum(ArrayXf([1,2,3]),Int(2))
dr.power(Array3f(1,2,3),np.array([3,2,1],dtype=np.float32))
x=ArrayXf([1,2,3]); x/=sc.Array3f(3,2,1); x
dr.select(ArrayXf([1,2,3])>1,sc.Array3f(3,2,1),ArrayXf([1,2,3]))
dr.hypot(Array3i(1,2,3),sc.Array3f(3,2,1))
x=TensorXf([1,2,3]); x+=2; x
x=Array3f(1,2,3); x/=Float(2); x
dr.hypot(Array3f(1,2,3),Float(2))
x=ArrayXf([1,2,3]); x*=2; x
dr.power(ArrayXf([1,2,3]),2)
x=sc.Array3f(1,2,3); x-=Float(2); x
dr.maximum(sc.Array3f(1,2,3),Float(2))
x=ArrayXf([1,2,3]); x*=Float(2); x
dr.power(ArrayXf([1,2,3]),Float(2))
x=Float(1,2,3); x*=Array3f(3,2,1); x
dr.select(ArrayXf([1,2,3])>1,[3,2,1],ArrayXf([1,2,3]))
x=Array3f(1,2,3); x/=[3,2,1]; x
x=ArrayXf([1,2,3]); x/=2; x
dr.select(ArrayXf([1,2,3])>1,2,ArrayXf([1,2,3]))
x=Array3i(1,2,3); x+=Float(2); x
dr.power(Array3i(1,2,3),Float(2))
x=TensorXf([1,2,3]); x-=Float(2); x
dr.power(TensorXf([1,2,3]),[3,2,1])
x=Array3f(1,2,3); x/=np.array([3,2,1],dtype=np.float32); x
x=Float(1,2,3); x+=Array3f(3,2,1); x
dr.power(Float(1,2,3),Array3f(3,2,1))
x=TensorXf([1,2,3]); x-=2; x
x=sc.Array3f(1,2,3); x*=Array3f(3,2,1); x
x=Array3f(1,2,3); x-=Array3f(3,2,1); x
dr.hypot(Array3f(1,2,3),Array3f(3,2,1))
x=Array3f(1,2,3); x/=Array3f(3,2,1); x
dr.power(Array3f(1,2,3),Array3f(3,2,1))
x=sc.Array3f(1,2,3); x*=sc.Array3f(3,2,1); x
x=ArrayXf([1,2,3]); x-=Float(2); x
x=Float(1,2,3); x-=np.array([3,2,1],dtype=np.float32); x
x=Float(1,2,3); x+=np.array([3,2,1],dtype=np.float32); x
dr.maximum(ArrayXf([1,2,3]),2)
x=Float(1,2,3); x+=Int(2); x
dr.fma(Float(1,2,3),Int(2),1)
dr.fma(Array3f(1,2,3),[3,2,1],1)
x=Array3i(1,2,3); x+=np.array([3,2,1],dtype=np.float32); x
dr.minimum(Array3i(1,2,3),Int(2))
dr.select(sc.Array3f(1,2,3)>1,Float(2),sc.Array3f(1,2,3))
x=Array3f(1,2,3); x+=Float(2); x
dr.fma(Array3f(1,2,3),Float(2),1)
x=sc.Array3f(1,2,3); x*=Int(2); x
x=TensorXf([1,2,3]); x+=Int(2); x
x=sc.Array3f(1,2,3); x/=sc.Array3f(3,2,1); x
dr.maximum(sc.Array3f(1,2,3),sc.Array3f(3,2,1))
x=ArrayXf([1,2,3]); x-=Array3f(3,2,1); x
dr.minimum(Array3i(1,2,3),sc.Array3f(3,2,1))
x=Array3i(1,2,3); x*=Array3f(3,2,1); x
x=Array3f(1,2,3); x+=np.array([3,2,1],dtype=np.float32); x
x=TensorXf([1,2,3]); x+=[3,2,1]; x
x=Float(1,2,3); x-=[3,2,1]; x
dr.select(Float(1,2,3)>1,[3,2,1],Float(1,2,3))
x=Array3f(1,2,3); x*=Float(2); x
dr.select(Array3f(1,2,3)>1,Float(2),Array3f(1,2,3))
x=Array3f(1,2,3); x/=sc.Array3f(3,2,1); x
dr.power(Array3i(1,2,3),sc.Array3f(3,2,1))
dr.fma(ArrayXf([1,2,3]),2,1)
dr.select(Array3f(1,2,3)>1,np.array([3,2,1],dtype=np.float32),Array3f(1,2,3))
dr.fma(ArrayXf([1,2,3]),Float(2),1)
x=Array3f(1,2,3); x-=sc.Array3f(3,2,1); x
dr.minimum(Array3f(1,2,3),sc.Array3f(3,2,1))
dr.power(Array3i(1,2,3),np.array([3,2,1],dtype=np.float32))
x=Array3f(1,2,3); x-=2; x
x=Array3i(1,2,3); x/=Int(2); x
dr.power(TensorXf([1,2,3]),2)
x=Array3i(1,2,3); x*=Float(2); x
x=Float(1,2,3); x/=2; x
dr.maximum(ArrayXf([1,2,3]),sc.Array3f(3,2,1))
x=sc.Array3f(1,2,3); x*=Float(2); x
x=TensorXf([1,2,3]); x/=np.array([3,2,1],dtype=np.float32); x
dr.fma(TensorXf([1,2,3]),np.array([3,2,1],dtype=np.float32),1)
""",
    globals(),
)
