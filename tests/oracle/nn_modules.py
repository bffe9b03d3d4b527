# ruff: noqa: E501, F403, F405
"""Neural network modules: initial weights bit for bit, names, printing, outputs in both modes,
gradients, packed buffers, and what is raised.
"""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from _cases import cases

import drjit as dr
from drjit import nn
from drjit.llvm.ad import *


def bits(x):
    """The exact entries of an array."""
    return [v.hex() for v in np.asarray(x).astype(np.float64).ravel().tolist()]


def mlp(dtype, *layers, size=2, seed=0, **kwargs):
    """A network with weights of a seed."""
    return nn.Sequential(*layers, **kwargs).alloc(dtype, size, rng=dr.rng(seed=seed))


def rows(y):
    """The features of a result as a NumPy array."""
    return (y if isinstance(y, TensorXf) else TensorXf(y)).numpy().round(5).tolist()


def points(n=7, features=2):
    """Some inputs as a tensor."""
    return TensorXf(np.random.default_rng(1).uniform(-1, 1, (features, n)).astype(np.float32))


def vector(x):
    """The columns of a tensor as a cooperative vector."""
    return nn.CoopVec(*[Float(row.array) for row in x])


def both(*layers, features=2, **kwargs):
    """Outputs of a network for a tensor and for a cooperative vector."""
    net, x = mlp(TensorXf, *layers, size=features, **kwargs), points(features=features)
    return [rows(net(x)), rows(nn.pack(net, layout="training")(vector(x)))]


def gradients(*layers, features=2):
    """Gradients of a network's parameters: for a tensor, for a vector, with packing in between."""
    found = []
    for packed in (False, True):
        net, x = mlp(TensorXf, *layers, size=features), points(features=features)
        dr.enable_grad(net)
        y = nn.pack(net, layout="training")(vector(x)) if packed else net(x)
        y = TensorXf(y)
        dr.backward(dr.sum(y * y))
        found.append([dr.grad(v).numpy().round(4).tolist() for v in net.values()])
    return found


L, R = nn.Linear, nn.ReLU
cases(
    """
bits(L(3,5).alloc(TensorXf,3)["weights"])
bits(L(3,5).alloc(TensorXf,3,dr.rng(seed=0))["weights"])
bits(L(3,5).alloc(TensorXf16,3,dr.rng(seed=0))["weights"])
bits(L(3,5).alloc(TensorXf64,3,dr.rng(seed=0))["weights"])
[bits(v) for v in mlp(TensorXf, L(17,9,bias=False), R(), L(-1,-1), L(-1,1), size=17).values()]
[bits(v) for v in nn.Sequential(L(2,3), L(-1,2)).alloc(TensorXf16,2).values()]
bits(L(64,64,bias=False).alloc(TensorXf16,64,dr.rng(seed=3))["weights"])[::97]
L(2,3).alloc(TensorXf,2)["bias"]
[type(v) for v in mlp(TensorXf16, L(-1,2)).values()]
list(mlp(TensorXf, L(2,4), R(), L(-1,1)))
list(mlp(TensorXf, L(2,4,bias=False), L(-1,1), prefix="mlp"))
list(mlp(TensorXf, nn.Sequential(L(2,3), prefix="in"), L(-1,4), prefix="out"))
list(nn.Sequential(L(2,4), R(), L(-1,1)))
list(nn.Sequential(nn.LeakyReLU(Float(0.2)), nn.ScaleAdd(2, Float(3))))
list(nn.pack(mlp(TensorXf, L(2,4), L(-1,1)))), list(nn.pack(mlp(TensorXf, L(2,4), prefix="mlp")))
list(nn.pack(mlp(TensorXf, R())))
len(mlp(TensorXf, L(2,4), L(-1,1))), "layers.0.bias" in mlp(TensorXf, L(2,4)), "layers.0" in mlp(TensorXf, L(2,4)), 3 in mlp(TensorXf, L(2,4))
nn.pack(mlp(TensorXf16, nn.TriEncode(16,0.2), nn.Cast(Float16), L(-1,-1,bias=False), nn.LeakyReLU(), L(-1,3), nn.Exp()), layout="training")
nn.Sequential(L(), L(2,3), R(), nn.Exp2(), nn.Tanh(), nn.ScaleAdd(1,2), nn.SinEncode(3))
nn.Sequential(nn.Sequential(L(2,3)), nn.Sequential())
nn.Sequential(L(-1,-1), nn.Tanh(), L(-1,3), R(), L(-1,-1)).alloc(TensorXf,5)
nn.SinEncode(3).alloc(TensorXf16,5), nn.TriEncode(), nn.TriEncode(2,0.5)
nn.Module(), nn.Module().alloc(TensorXf, 2)
nn.pack(mlp(TensorXf, L(2,3)), layout="training")["weights"]
nn.pack(mlp(TensorXf16, L(2,3,bias=False), L(-1,2)))["weights"]
both(L(-1,5), R(), L(-1,3))
both(L(-1,17,bias=False), nn.LeakyReLU(), L(-1,16), nn.Tanh(), L(-1,1), nn.Exp())
both(nn.LeakyReLU(0.25), nn.Exp2(), nn.ScaleAdd(2,-1))
both(nn.TriEncode(3))
both(nn.TriEncode(2,0.2), L(-1,3))
both(nn.SinEncode(2))
both(nn.SinEncode(3,0.3), L(-1,2), features=3)
rows(mlp(TensorXf16, nn.Cast(Float16), L(-1,3), nn.Cast(Float))(points()))
type(nn.Cast(Float16)(points())), type(nn.Cast(Float)(TensorXf16(points()))), type(nn.Cast(TensorXf64)(points()))
gradients(L(-1,5), R(), L(-1,3))
gradients(L(-1,17), nn.LeakyReLU(), L(-1,16,bias=False), nn.Tanh(), L(-1,1), nn.Exp())
gradients(nn.TriEncode(2,0.2), L(-1,3), nn.Exp2())
n=mlp(TensorXf16, L(2,2)); n["layers.0.weights"]=TensorXf([1,2,3,4],(2,2)); [type(n["layers.0.weights"]), n["layers.0.weights"]]
n=mlp(TensorXf, L(2,2)); n.update({"layers.0.bias": TensorXf([1,2])}); n["layers.0.bias"]
n=mlp(TensorXf, L(2,2)); n.update({"foo": Float(1)})
n=mlp(TensorXf, L(2,2)); n.update(); n.update({}); n.update(**{"layers.0.bias": TensorXf16([1,2])}); n["layers.0.bias"]
n=mlp(TensorXf, L(2,2)); n["foo"]
n=mlp(TensorXf, L(2,2)); n["foo"]=Float(1)
n=mlp(TensorXf, L(2,2)); n["layers.0.bias"]=None
n=mlp(TensorXf, L(2,2)); del n["layers.0.bias"]
n=mlp(TensorXf, L(2,2)); n.pop("layers.0.bias")
n=mlp(TensorXf, L(2,2)); n.get("foo", 3)
p=nn.pack(mlp(TensorXf, L(2,2)), layout="training"); p["weights"]=dr.arange(Float,6); [p["weights"], rows(p(vector(points())))]
p=nn.pack(mlp(TensorXf, L(2,2))); p["weights"]=3; p["weights"]
p=nn.pack(mlp(TensorXf, L(2,2))); del p["weights"]
w=dr.arange(Float,6); dr.enable_grad(w); p=nn.pack(mlp(TensorXf, L(2,2)), layout="training"); p.update({"weights": w}); dr.backward(dr.sum(TensorXf(p(vector(points(3)))))); w.grad
L(-1,3).alloc(TensorXf)
L(2,3).alloc(Float, 2)
L(2,3).alloc(float, 2)
L(2,3)(points())
L(2,2).alloc(TensorXf,2)(vector(points()))
nn.pack(L(2,2).alloc(TensorXf,2))(points())
mlp(TensorXf, L(2,2))(TensorXf16(points()))
mlp(TensorXf, L(2,2))(Array2f(1,2))
nn.Module()(3)
nn.pack(mlp(TensorXf, L(2,2)), layout="foo")
""",
    globals(),
)
