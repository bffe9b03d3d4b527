# ruff: noqa: E501, F401
"""Hash encodings: tables, hashes, initial parameters, features, gradients, printing."""

import os
import sys
import warnings

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit import hashgrid, nn
from drjit.llvm import ad
from drjit.llvm.ad import Array2f, Array3f, ArrayXf, ArrayXu, Bool, Float, Float16, TensorXf

warnings.simplefilter("ignore")

G, P = nn.HashGridEncoding, nn.PermutoEncoding
SMALL = {"n_levels": 3, "base_resolution": 4, "per_level_scale": 1.5, "hashmap_size": 60}


def make(cls, dimension, **settings):
    """A small encoding with large parameters."""
    return cls(Float, dimension, init_scale=1, rng=dr.rng(3), **{**SMALL, **settings})


def offsets(cls, dimension, **settings):
    """Where tables begin, which only one class tells by itself."""
    made = cls(Float16, dimension, **settings)
    return made.n_params


def values(cls, dimension, **settings):
    """Features at a few positions, rounded."""
    made = make(cls, dimension, **settings)
    x = np.random.default_rng(1).random((dimension, 3)).astype("f4")
    return (np.array(made(ArrayXf(x))).round(4) + 0.0).tolist()


def gradients(cls, dimension, **settings):
    """Gradients of the sum of squared features by positions and parameters, rounded."""
    made = make(cls, dimension, **settings)
    x = ArrayXf(np.random.default_rng(1).random((dimension, 3)).astype("f4"))
    params = Float(made.params)
    dr.enable_grad(x, params)
    made.set_params(params)
    dr.backward(sum(dr.sum(dr.square(f)) for f in made(x)))
    found = (np.array(dr.grad(x)), np.array(params.grad)[:24])
    return [(g.round(3) + 0.0).tolist() for g in found]


cases(
    """
## tables
[offsets(G, d, n_levels=5) for d in (1,2,3,4)]
[offsets(P, d, n_levels=5) for d in (1,2,3,4)]
[offsets(c, 2, n_levels=8, per_level_scale=1.5) for c in (G,P)]
[offsets(G, 2, n_levels=6, per_level_scale=s, base_resolution=b) for s in (1.1,1.25,1.3,1.38,1.5,2,2.5) for b in (4,10,16)]
[offsets(G, 2, n_levels=4, n_features_per_level=f, hashmap_size=600) for f in (1,2,3,4,6)]
e=G(Float,2,n_levels=4); [e.level_offset(i) for i in range(5)]
e=G(Float,2,n_levels=4,hashmap_size=500); [e.level_offset(i) for i in range(5)]
## hashes
[make(G,2).hash([3,4]), make(P,2).hash([3,4]), make(G,3).hash([3,4,5]), make(P,3).hash([3,4,5])]
[make(c,2).indexing_function(ArrayXu([0,1,3,9],[2,0,7,100]), l) for c in (G,P) for l in (0,1,2)]
[hashgrid.div_round_up(9,8), hashgrid.next_multiple(9,8), hashgrid.cosine_ramp(Float(0,.25,.5)), hashgrid.cosine_ramp(.25)]
## parameters
G(Float16,2,n_levels=2).params
G(Float,2,n_levels=2).params
P(TensorXf,2,n_levels=2,rng=dr.rng(7)).params
e=make(G,2); e.set_params(dr.arange(Float,e.n_params)); [e.params, e.data]
e=make(G,2); e.params[:]=dr.arange(Float,e.n_params); e.params
e=make(P,2); [e.n_params,e.dtype,e.dimension,e.hashmap_size,e.n_levels,e.base_resolution,e.per_level_scale,e.n_features_per_level,e.align_corners,e.torchngp_compat,e.smooth_weight_gradients,e.smooth_weight_lambda,e.init_scale,e.n_output_features]
## features
[values(c, d) for c in (G,P) for d in (1,2,3,4)]
[values(c, 2, align_corners=True) for c in (G,P)]
values(G, 2, align_corners=True, torchngp_compat=True)
[values(c, 3, n_features_per_level=4) for c in (G,P)]
[values(c, 2, per_level_scale=.7) for c in (G,P)]
e=make(G,2); e(Array2f([.1,.2],[.3,.4]), Bool(True,False))
e=make(P,2); e(Array2f([.1,.2],[.3,.4]), False)
e=make(G,2); [e([Float(.1),Float(.2)]), e(TensorXf([[.1,.2],[.3,.4]])), e(nn.CoopVec(Float(.1),Float(.2)))]
e=make(P,2); e(.1)
## gradients
[gradients(c, d) for c in (G,P) for d in (1,2,3)]
[gradients(c, 2, smooth_weight_gradients=True) for c in (G,P)]
[gradients(c, 2, smooth_weight_gradients=True, smooth_weight_lambda=.3, align_corners=True) for c in (G,P)]
## printing, layer
G(Float16,2,n_levels=8,per_level_scale=1.5)
P(ad.Float,3,smooth_weight_lambda=2,align_corners=True)
nn.HashEncodingLayer(make(P,2))
l=nn.HashEncodingLayer(make(P,2)); [list(l), len(l), l(nn.CoopVec(Float(.1),Float(.2)))]
s=nn.Sequential(nn.HashEncodingLayer(make(G,2)),nn.Cast(Float16),nn.Linear(-1,3),prefix='mlp').alloc(ad.TensorXf16,2); [s, list(s), list(nn.pack(s,layout='training'))]
""",
    globals(),
)
