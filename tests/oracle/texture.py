# ruff: noqa: E501, F401, F403, F405
"""Textures: construction, contents, look-ups, element types."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit import FilterMode, WrapMode, scalar
from drjit.llvm import *
from drjit.llvm import ad

R, C, M = WrapMode.Repeat, WrapMode.Clamp, WrapMode.Mirror
N, L = FilterMode.Nearest, FilterMode.Linear


def T1(n, ch=1, **k):
    """A texture of one dimension."""
    return Texture1f(TensorXf(dr.arange(Float, n * ch) * 2 + 1, shape=(n, ch)), **k)


def T2(h, w, ch=1, **k):
    """A texture of two dimensions."""
    return Texture2f(TensorXf(dr.arange(Float, h * w * ch) * 2 + 1, shape=(h, w, ch)), **k)


def T3(d, h, w, ch=1, **k):
    """A texture of three dimensions."""
    return Texture3f(TensorXf(dr.arange(Float, d * h * w * ch) * 2 + 1, shape=(d, h, w, ch)), **k)


cases(
    """
t=Texture2f((3,4),0); t.shape
t=Texture2f((3,0),1); [t.shape,t.value()]
t=Texture2f(3,1); t.shape
t=Texture2f((3,-1),1); t.shape
t=Texture1f((3,),1); t.set_value(Float(1,2,3)); [t.value(), t.tensor()]
t=Texture1f((3,),1); t.set_value(Float(1,2)); [t.value(), t.tensor()]
t=Texture1f((3,),1); t.set_value(Float(1)); [t.value(), t.tensor()]
t=Texture1f((3,),1); t.set_value(Float64(1,2,3)); [t.value(), t.tensor()]
t=Texture1f((3,),1); t.set_value([1,2,3]); [t.value(), t.tensor()]
t=Texture1f((3,),1); t.set_tensor(TensorXf([[1,2],[3,4]])); [t.value(), t.tensor(), t.shape, t.channel_count()]
t=Texture1f((3,),1); t.set_tensor(TensorXf([1,2,3])); [t.value(), t.tensor(), t.shape, t.channel_count()]
t=Texture1f(TensorXf([1,2,3])); [t.value(), t.tensor(), t.shape, t.channel_count()]
t=Texture1f(TensorXf64([[1],[2],[3]])); [t.value(), t.tensor(), t.shape, t.channel_count()]
t=Texture1f(np.array([[1],[2],[3]])); [t.value(), t.tensor(), t.shape, t.channel_count()]
t=Texture1f([[1],[2],[3]]); [t.value(), t.tensor(), t.shape, t.channel_count()]
t=Texture1f(ad.TensorXf([[1],[2],[3]])); [t.value(), t.tensor(), t.shape, t.channel_count()]
t=T1(3); x=t.tensor(); x=TensorXf([[1],[2]]); t.update_inplace(); t.shape
## 1D
t=T1(4); t.eval(.3)
t=T1(4); t.eval([.3])
t=T1(4); t.eval(Float(.3,.4))
t=T1(4); t.eval(Array2f(.3,.4))
t=T1(4); t.eval(ArrayXf([3,4]))
t=T1(4); t.eval(TensorXf([[.3,.4]]))
t=T1(4); t.wrap(Int([-5,3]))
t=T1(4); t.wrap(3)
t=T1(4); t.wrap(Array2i([3,7],[3,8]))
## 2D, 3D
t=T2(3,4,2); t.eval(Array2f([0,.3,.6],[.2,.5,.9]))
t=T2(3,4,2); t.eval_fetch(Array2f([0,.3,.6],[.2,.5,.9]))
t=T2(3,4,2); t.eval_cubic(Array2f([0,.3,.6],[.2,.5,.9]))
t=T2(3,4,2); t.eval_cubic_grad(Array2f([0,.3],[.2,.5]))
t=T2(3,4,1); t.wrap(Array2i([5,-1],[1,7]))
t=T2(3,4,2); t.eval([.2,.3])
t=T2(3,4,2); t.eval((.2,Float(.3)))
t=T3(2,3,4,2); t.eval(Array3f([0,.3],[.2,.5],[.1,.7]))
t=T3(2,3,4,2); t.eval_fetch(Array3f([0,.3],[.2,.5],[.1,.7]))
t=T3(2,3,4,2); t.eval_cubic(Array3f([0,.3],[.2,.5],[.1,.7]))
t=T3(2,3,4,1); t.eval_cubic_grad(Array3f([0,.3],[.2,.5],[.1,.7]))
## types
t=Texture1f(TensorXf([[1,10],[250,200]]),srgb=True); t.srgb()
t=Texture1f([3],1,srgb=True); t.srgb()
t=Texture1f([3],1,writable=True); t.writable()
t=Texture1f([3],1); t.map()
t=Texture1f([3],1); t.unmap()
t=Texture1f([3],1); t.native_handle()
Texture1f.from_native_handle(3)
t=scalar.Texture2f(scalar.TensorXf([[[1.0,2],[3,4]],[[5,6],[7,8]]])); [t.eval(scalar.Array2f(.3,.4)), t.eval([.3,.4]), t.value(), t.shape, t.eval_fetch([.3,.4]), t.eval_cubic([.3,.4]), t.eval_cubic_grad([.3,.4]), t.eval_cubic_hessian([.3,.4])]
t=ad.Texture2f(ad.TensorXf([[[1.0,2],[3,4]],[[5,6],[7,8]]])); [t.eval(ad.Array2f(.3,.4)), t.value(), t.eval_fetch([.3,.4])]
t=ad.Texture2f(ad.TensorXf([[[1.0,2],[3,4]],[[5,6],[7,8]]])); t.eval(Array2f(.3,.4))
Texture1f.IsTexture
t=T2(3,4,1); t.eval(Array3f(1,2,3))
t=T2(3,4,1); t.eval(Array2f([1,2],[1,2,3]))
t=T2(3,4,1); t.eval(Array2f([1,2,3],[1,2,3]), Bool(True,False))
t=T2(3,4,1); dr.eval(t)
dr.is_struct_v(Texture2f)
dr.is_array_v(Texture2f)
t=Texture1f((3,),1); t.set_value(Float(1,2,3,4))
t=Texture1f((3,),2); t.set_value(Float(1,2,3))
## one dimension
t=T1(4); t.eval(Array1f(Float([-.5,-.1,0,.1,.3,.5,.6,.99,1,1.2,2.6])))
t=T1(4,wrap_mode=R); t.eval(Array1f(Float([-.5,-.1,0,.1,.3,.5,.6,.99,1,1.2,2.6])))
t=T1(4,wrap_mode=M); t.eval(Array1f(Float([-.5,-.1,0,.1,.3,.5,.6,.99,1,1.2,2.6])))
t=T1(4,filter_mode=N); t.eval(Array1f(Float([-.5,-.1,0,.1,.3,.5,.6,.99,1,1.2,2.6])))
t=T1(4,filter_mode=N,wrap_mode=R); t.eval(Array1f(Float([-.5,-.1,0,.1,.3,.5,.6,.99,1,1.2,2.6])))
t=T1(4,filter_mode=N,wrap_mode=M); t.eval(Array1f(Float([-.5,-.1,0,.1,.3,.5,.6,.99,1,1.2,2.6])))
t=T1(4); [t.eval_fetch(Array1f(Float([-.5,0,.3,.5,1.2])))]
t=T1(4,wrap_mode=M); [t.eval_fetch(Array1f(Float([-.5,0,.3,.5,1.2])))]
t=T1(4,filter_mode=N); [t.eval_fetch(Array1f(Float([-.5,0,.3,.5,1.2])))]
t=T1(4); t.eval(Array1f64(Float64([.3,.4])))
t=T1(4); t.eval(Array1f16(Float16([.3,.4])))
t=T1(4); t.eval(ad.Array1f(Float([.3,.4])))
t=T1(4); t.eval(Array1i(Int([3,4])))
t=T1(4,3); t.eval(Array1f(Float([.3,.4])))
t=T1(4,3); t.eval(Array1f(Float([.3,.4])), Bool(True,False))
t=T1(4,3); t.eval(Array1f(Float([.3,.4])), active=False)
t=T1(4,3); t.eval(Array1f(Float([.3,.4])), active=ad.Bool(True,False))
t=T1(4,5); t.eval(Array1f(Float([.3,.4])))
t=T1(4,2); [t.eval_cubic(Array1f(Float([-.3,.2,.4,.7,1.1]))), t.eval_cubic_helper(Array1f(Float([-.3,.2,.4,.7,1.1])))]
t=T1(4,2,wrap_mode=R); [t.eval_cubic(Array1f(Float([-.3,.2,.4,.7,1.1]))), t.eval_cubic_helper(Array1f(Float([-.3,.2,.4,.7,1.1])))]
t=T1(4,2,wrap_mode=M); [t.eval_cubic(Array1f(Float([-.3,.2,.4,.7,1.1]))), t.eval_cubic_helper(Array1f(Float([-.3,.2,.4,.7,1.1])))]
t=T1(4,2,filter_mode=N); [t.eval_cubic(Array1f(Float([-.3,.2,.4,.7,1.1]))), t.eval_cubic_helper(Array1f(Float([-.3,.2,.4,.7,1.1])))]
t=T1(4,2); t.eval_cubic_grad(Array1f(Float([.2,.4])))
t=T1(4,1); t.eval_cubic_grad(Array1f(Float([-1,0,.2,.4])))
t=T1(4,2); t.eval_cubic(Array1f(Float([.2,.4])), Bool(True,False))
t=T1(4,2); t.eval_cubic(Array1f(Float([.2,.4])), True, True)
t=T1(4,2); t.eval_cubic_grad(Array1f(Float([.2,.4])), Bool(True,False))
t=T1(4); t.wrap(Array1i(Int([-5,-4,-1,0,3,4,7,8,9])))
t=T1(4,wrap_mode=R); t.wrap(Array1i(Int([-5,-4,-1,0,3,4,7,8,9])))
t=T1(4,wrap_mode=M); t.wrap(Array1i(Int([-9,-8,-5,-4,-1,0,3,4,7,8,9])))
t=T1(4); t.wrap(Array1u(UInt([3,7])))
t=Texture1f16(TensorXf16([[1],[2.3]])); [t.eval(Array1f(Float([.4,.6]))), t.eval(Array1f16(Float16([.4,.6]))), t.eval(Array1f64(Float64([.4,.6]))), t.value()]
t=Texture1f64(TensorXf64([[1],[2.3]])); [t.eval(Array1f(Float([.4,.6]))), t.eval(Array1f16(Float16([.4,.6]))), t.eval(Array1f64(Float64([.4,.6]))), t.value()]
t=Texture1f8u(TensorXu8([[1],[250]])); [t.eval(Array1f(Float([.4,.6]))), t.eval(Array1f16(Float16([.4,.6]))), t.eval(Array1f64(Float64([.4,.6]))), t.value()]
t=Texture1f8u(TensorXu8([[1],[250]])); [t.eval_fetch(Array1f(Float([.4,.6]))), t.eval_cubic(Array1f(Float([.4,.6]))), t.eval_cubic_grad(Array1f(Float([.4,.6])))]
t=Texture1f8u(TensorXu8([[1],[250]]),filter_mode=N); t.eval(Array1f(Float([.4,.6])))
t=Texture1f8u(TensorXu8([[1,10,20,30,40,50],[250,200,150,100,50,10]]),srgb=True); [t.eval(Array1f(Float([0.1,.4,.6]))), t.eval_fetch(Array1f(.4)),t.srgb()]
t=Texture1f8u(TensorXu8([[1,10],[250,200]]),srgb=True); [t.eval(Array1f(Float([0.1,.4,.6]))), t.eval_fetch(Array1f(.4)),t.srgb(), t.eval_cubic(Array1f(.4)), t.eval_cubic_grad(Array1f(.4)), t.eval_cubic_helper(Array1f(.4))]
t=Texture1f([3],1); t.write(Array1u(0),[Float(1)])
## members and types
t=Texture1f([3],1,writable=True); t.set_value(Float(1,2,3)); t.write(Array1u(0),[Float(9)]); [t.value(), t.eval(0)]
t=Texture2f([2,2],2,writable=True); t.set_value(dr.arange(Float,8)); t.write(Array2u(1,0),[Float(9),Float(8)]); t.value()
t=Texture2f([2,2],2); t.set_value(dr.arange(Float,8)); t.eval(Float(.5))
t=Texture2f([2,2],2); t.set_value(dr.arange(Float,8)); t.eval(.5)
t=Texture1f64([3],1); t.set_value(Float64(1,2,3)); t.eval(.3)
t=Texture1f64([3],1); t.set_value(Float64(1,2,3)); t.eval([.3])
t=Texture1f16([3],1); t.set_value(Float16(1,2,3)); t.eval([.3])
t=Texture1f8u([3],1); t.set_value(UInt8(1,2,3)); t.eval([.3])
t=Texture1f64([3],1); t.set_value(Float64(1,2,3)); t.eval(Int(0))
t=Texture1f([3],1); t.set_tensor(TensorXf([[1],[2],[3]]), migrate=True); t.migrated()
t=Texture1f([3],1); t.set_tensor(TensorXf([[1],[2],[3]])); x=t.tensor(); x is t.tensor()
t=Texture1f([3],1); t.set_value(Float([1,2,3])); t.eval_nearest(0)
t=Texture1f([3],1); t.set_tensor(TensorXf([[[1],[2],[3]]]))
t=Texture1f([3],1); t.set_tensor(dr.zeros(TensorXf,(0,1))); [t.shape, t.value()]
t=Texture1f([3],1); t.set_tensor(dr.zeros(TensorXf,(2,0))); [t.shape, t.value()]
t=Texture1f(dr.zeros(TensorXf,(2,0))); [t.shape, t.value()]
t=Texture1f(3.0)
t=Texture1f([3],"a")
t=Texture1f([3],1.5)
t=Texture1f([3],1,filter_mode=7)
t=scalar.Texture1f8u(scalar.TensorXu8([[1],[250]])); [t.eval(.4), t.value()]
""",
    globals(),
)
