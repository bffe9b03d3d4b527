# ruff: noqa: E501, F401, F403
"""PCG32, Philox4x32 and generators of random arrays."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
import drjit.random
from drjit import scalar
from drjit.llvm import *
from drjit.llvm import ad

G = drjit.random.Philox4x32Generator
cases(
    """
PCG32.DRJIT_STRUCT
p=PCG32(); [p.state,p.inc]
p=PCG32(3); [p.state,p.inc]
p=PCG32(3,1,2); [p.state,p.inc]
p=PCG32(1,UInt64(1,2),2); [p.state,p.inc]
p=PCG32(3,UInt64(1,2,3),2); [p.state,p.inc]
p=PCG32(3,UInt64(1,2),2); [p.state,p.inc]
p=PCG32(-1); [p.state,p.inc]
p=PCG32(2.0); [p.state,p.inc]
p=PCG32(size=2, initstate=1, initseq=5); q=PCG32(p); q.next_uint32(); [p.state,q.state]
p=PCG32(2,1,1); p.seed(); [p.state,p.inc]
p=PCG32(2,1,1); p.seed(UInt(3),UInt64(4,5)); [p.state,p.inc]
p=PCG32(2,1,1); p.seed(Float(3)); [p.state,p.inc]
p=PCG32(2); [p.next_uint32(), p.next_uint32(), p.next_uint64(), p.next_uint64()]
p=PCG32(2); [p.next_float32(), p.next_float64(), p.next_float16()]
p=PCG32(2); [p.next_float16(), p.next_float16(), p.next_float16()]
p=PCG32(2); [p.next_float(Float), p.next_float(Float64), p.next_float(Float16)]
p=PCG32(2); p.next_float(Array3f)
p=PCG32(2); p.next_float(TensorXf)
p=PCG32(2); p.next_float(UInt)
p=PCG32(2); p.next_float(float)
p=PCG32(2); p.next_float(ad.Float)
p=PCG32(2); p.next_float(3)
p=PCG32(2); [p.next_float32_normal(), p.next_float64_normal(), p.next_float16_normal()]
p=PCG32(2); [p.next_float_normal(Float), p.next_float_normal(Float64), p.next_float_normal(Float16), p.state]
p=PCG32(2); [p.next_float32_normal(), p.state]
p=PCG32(2); [p.next_float64_normal(), p.state]
p=PCG32(2); [p.next_float16_normal(), p.state]
p=PCG32(2); [p.next_uint32(Bool(True,False)), p.state]
p=PCG32(2); [p.next_uint32(False), p.state]
p=PCG32(2); [p.next_uint64(Bool(True,False)), p.state]
p=PCG32(2); [p.next_float32(Bool(True,False)), p.state]
p=PCG32(2); [p.next_float16(Bool(True,False)), p.state]
p=PCG32(2); [p.next_float64(Bool(True,False)), p.state]
p=PCG32(2); [p.next_float(Float, Bool(True,False)), p.state]
p=PCG32(2); [p.next_float(Float, False), p.state]
p=PCG32(2); [p.prev_uint32(), p.state]
p=PCG32(2); [p.prev_uint64(), p.state]
p=PCG32(2); [p.prev_float32(), p.state]
p=PCG32(2); [p.prev_float64(), p.state]
p=PCG32(2); [p.prev_float16(), p.state]
p=PCG32(2); [p.prev_float32_normal(), p.state]
p=PCG32(2); [p.prev_float64_normal(), p.state]
p=PCG32(2); [p.prev_float(Float), p.prev_float_normal(Float64)]
p=PCG32(2); [p.prev_uint32(Bool(True,False)), p.state]
p=PCG32(2); [p.prev_float64(Bool(True,False)), p.state]
p=PCG32(2); a=[p.next_uint32(),p.next_uint64(), p.next_float32()]; [a,p.prev_float32(),p.prev_uint64(),p.prev_uint32(),p.state]
p=PCG32(2); [p.next_uint32_bounded(6), p.state]
p=PCG32(4); [p.next_uint32_bounded(1), p.state]
p=PCG32(4); [p.next_uint32_bounded(-1), p.state]
p=PCG32(4); [p.next_uint32_bounded(2**32), p.state]
p=PCG32(4); [p.next_uint32_bounded(UInt(3)), p.state]
p=PCG32(4); [p.next_uint32_bounded(3.0), p.state]
p=PCG32(8); [p.next_uint32_bounded(3000000000), p.state]
p=PCG32(8); [p.next_uint32_bounded(8), p.state]
p=PCG32(8); [p.next_uint64_bounded(9000000000), p.state]
p=PCG32(8); [p.next_uint64_bounded(2**63+1), p.state]
p=PCG32(8); [p.next_uint64_bounded(8), p.state]
p=PCG32(8); [p.next_uint64_bounded(1), p.state]
p=PCG32(8); [p.next_uint64_bounded(2**64), p.state]
p=PCG32(2); [p.next_uint32_bounded(7, Bool(True,False)), p.state]
p=PCG32(2); [p.next_uint32_bounded(7, mask=False), p.state]
p=PCG32(2); [(p+5).state, (p-3).state, (p+Int64(1,2)).state, p.state]
p=PCG32(2); q=p+7; [q-p, p-q, type(q)]
p=PCG32(2); q=p; q+=4; [q.state, p.state, q is p]
p=PCG32(2); q=p; q-=4; [q.state, p.state, q is p]
p=PCG32(2); p+1.5
p=PCG32(2); 1+p
p=PCG32(2); p+"a"
p=PCG32(2); p.state=UInt64(1,2); p.inc=UInt64(3); p.next_uint32()
p=PCG32(2); p.state=1; p.state
p=PCG32(2); p.state="a"
p=PCG32(2); p.state=Float(1)
p=PCG32(2); dr.width(p)
p=PCG32(2); dr.eval(p)
p=PCG32(2); dr.schedule(p)
p=PCG32(2); q=dr.copy(p); q.next_uint32(); [p.state,q.state]
p=PCG32(2); p==PCG32(2)
p=ad.PCG32(2); [p.next_float32(), p.state]
p=scalar.PCG32(); [p.next_uint32(), p.next_uint64(), p.next_float32(), p.next_float64(), p.next_float16(), p.next_float32_normal(), p.next_float64_normal(), p.state, p.inc]
p=scalar.PCG32(3); p.state
p=scalar.PCG32(0); p.state
p=scalar.PCG32(); p.next_float(float)
p=scalar.PCG32(); p.next_float(scalar.Float64)
p=scalar.PCG32(); p.next_float(scalar.Array3f)
p=scalar.PCG32(); [p.next_uint32(False), p.state]
p=scalar.PCG32(); [p.next_uint32_bounded(3),p.next_uint64_bounded(3), p.state]
p=scalar.PCG32(); [(p+1).state, (p+1)-p]
PCG32(1,2,3,4)
PCG32("a")
import drjit.auto as au; [au.PCG32, au.ad.PCG32, au.Texture2f]
PCG32.__name__, PCG32.__module__, PCG32.__qualname__
## Philox4x32
p=Philox4x32(0,0); p.next_uint32x4()
p=Philox4x32(0,0,iterations=10); p.next_uint32x4()
p=Philox4x32(5,0); p.next_uint64x2()
p=Philox4x32(5,0); p.next_float32x4()
p=Philox4x32(5,0); p.next_float16x4()
p=Philox4x32(5,0); p.next_float64x2()
p=Philox4x32(5,0); p.next_float32x4_normal()
p=Philox4x32(5,0); p.next_float16x4_normal()
p=Philox4x32(5,0); p.next_float64x2_normal()
p=Philox4x32(5,0); p.counter=3
p=Philox4x32(5,0); p.iterations=3
p=Philox4x32(5,-1)
p=Philox4x32(5,1.0)
p=Philox4x32(5,1,iterations=-1); p.next_uint32x4()
p=Philox4x32(5,1,iterations=0); p.next_uint32x4()
p=Philox4x32(5,1,iterations=1); p.next_uint32x4()
p=Philox4x32(5,1,iterations=2); p.next_uint32x4()
## generator
g=dr.rng(5); [g.random(Float,3), g._counter, g._seed, g]
g=dr.rng(5); [g.random(Float,1), g.random(Float,1), g.random(Float,1)]
g=dr.rng(5); [g.random(Array2f,(2,3)), g._counter]
g=dr.rng(5); [g.random(TensorXf,(2,3)), g._counter]
g=dr.rng(5); [g.random(Matrix2f,(2,2,3)), g._counter]
g=dr.rng(5); [g.random(Complex2f,(2,3)), g._counter]
g=dr.rng(5); [g.random(Array2f,3), g._counter]
g=dr.rng(5); [g.random(Array2f,(3,3)), g._counter]
g=dr.rng(5); [g.random(ArrayXf,(3,2)), g._counter]
g=dr.rng(5); [g.random(UInt,3), g._counter]
g=dr.rng(5); [g.random(float,3), g._counter]
g=dr.rng(5); [g.random(float,()), g._counter]
g=dr.rng(5); [g.random(scalar.Array3f,3), g._counter]
g=dr.rng(5); [g.random(scalar.ArrayXf,3), g._counter]
g=dr.rng(5); [g.random(Float,(2,2)), g._counter]
g=dr.rng(5); [g.random(TensorXf,()), g._counter]
g=dr.rng(5); [g.random(TensorXf,4), g._counter]
g=dr.rng(5); [g.random(ad.Float,3), g._counter]
g=dr.rng(5); [g.random(ad.TensorXf16,(2,2)), g._counter]
g=dr.rng(5); [g.uniform(Float,3,2,4), g._counter]
g=dr.rng(5); [g.uniform(Float,3,Float(1,2,3),4), g._counter]
g=dr.rng(5); [g.uniform(TensorXf,(2,3),TensorXf([1,2,3]),4), g._counter]
g=dr.rng(5); [g.uniform(Float,3,4,2), g._counter]
g=dr.rng(5); [g.uniform(UInt,3,0,2), g._counter]
g=dr.rng(5); [g.normal(Float,6), g._counter]
g=dr.rng(5); [g.normal(Float,5,1,2), g._counter]
g=dr.rng(5); [g.normal(Float64,5), g._counter]
g=dr.rng(5); [g.normal(Float16,5), g._counter]
g=dr.rng(5); [g.normal(Array3f,(3,2)), g._counter]
g=dr.rng(5); [g.integers(UInt,6,10), g._counter]
g=dr.rng(5); [g.integers(Int,6,-5,5), g._counter]
g=dr.rng(5); [g.integers(Int,6,-5,5,endpoint=True), g._counter]
g=dr.rng(5); [g.integers(UInt64,6,0,10), g._counter]
g=dr.rng(5); [g.integers(Float,6,0,10), g._counter]
g=dr.rng(5); [g.integers(UInt8,6,0,10), g._counter]
g=dr.rng(5); [g.integers(TensorXi,(2,3),0,10), g._counter]
g=dr.rng(5); [g.integers(UInt,3,2.5), g._counter]
g=dr.rng(5); [g.permutation(UInt,8), g._counter]
g=dr.rng(5); [g.permutation(Int,8), g._counter]
g=dr.rng(5); [g.permutation(Float,8), g._counter]
g=dr.rng(5); [g.permutation(Float(10,20,30,40)), g._counter]
g=dr.rng(5); [g.permutation(TensorXf([[1,2,3],[4,5,6],[7,8,9]])), g._counter]
g=dr.rng(5); [g.permutation(TensorXf([[1,2,3],[4,5,6],[7,8,9]]),axis=1), g._counter]
g=dr.rng(5); [g.permutation(TensorXf([[1,2,3],[4,5,6],[7,8,9]]),axis=-1), g._counter]
g=dr.rng(5); [g.permutation(TensorXf([[1,2,3],[4,5,6],[7,8,9]]),axis=2), g._counter]
g=dr.rng(5); [g.permutation(TensorXf([[1,2,3],[4,5,6],[7,8,9]]),1), g._counter]
g=dr.rng(5); [g.permutation(UInt,0), g._counter]
g=dr.rng(5); [g.permutation(UInt,1), g._counter]
g=dr.rng(5); [g.permutation(UInt,-1), g._counter]
g=dr.rng(5); [g.permutation(Array2f([1,2,3],[4,5,6])), g._counter]
g=dr.rng(5); [g.permutation([1,2,3]), g._counter]
g=dr.rng(5); [g.permutation(ad.Float(1,2,3)), g._counter]
g=dr.rng(5); h=g.clone(); [g.random(Float,2), h.random(Float,2)]
g=dr.rng(5); g.random(Float,2); h=g.clone(); [g.random(Float,2), h.random(Float,2), h._counter]
g=dr.rng(UInt64(5)); [g.random(Float,2), g._counter, g._seed]
g=dr.rng(UInt64(5,6)); [g.random(Float,2), g._counter, g._seed]
g=dr.rng(UInt(5)); [g.random(Float,2), g._counter, g._seed]
g=dr.rng(-1); [g.random(Float,2), g._counter, g._seed]
g=dr.rng(2**64); [g.random(Float,2), g._counter, g._seed]
g=dr.rng(1.5); [g.random(Float,2), g._counter, g._seed]
g=dr.rng("a"); [g.random(Float,2), g._counter, g._seed]
g=dr.rng(0,"philox"); g
g=dr.rng(0); g.random(UInt64,2)
list(G.DRJIT_STRUCT)
drjit.random.Generator().random(Float,3)
drjit.random.Generator().clone()
drjit.random.Generator().integers(UInt,3,4)
g=dr.rng(5); [g.random(scalar.ArrayXf,2), g.random(Float,2), g._counter]
p=Philox4x32(5,UInt(0,1)); a=p.next_uint32x4(); [a, p.counter]
p=Philox4x32(5,UInt(0,1),7,8); a=p.next_uint32x4(Bool(True,False)); b=p.next_float32x4(); [a, b, p.counter]
g=dr.rng(5); g.random(Float,5); a=g.random(Float,5); [a, g._counter]
g=dr.rng(5); g.integers(UInt,8,UInt(3<<30)); [g.random(Float,2)]
""",
    globals(),
)
