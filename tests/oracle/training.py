"""Fifty steps of training of small networks: the loss, outputs and parameters afterwards.

Differences of rounding grow from step to step: compare with `--rtol 1e-3 --atol 1e-3`.
"""

import numpy as np

import drjit as dr
from drjit import nn
from drjit.auto.ad import Array2f, Array3f, Float16, Float32, TensorXf, TensorXf16, Texture2f
from drjit.opt import Adam, GradScaler

STEPS = 50
GRID = 64


def image():
    """A smooth picture of 32 x 32 with three channels."""
    y, x = (np.mgrid[:32, :32] + 0.5) / 32
    channels = [0.5 + 0.4 * np.sin(9 * x * y), 0.5 + 0.4 * np.cos(7 * y), x * (1 - y)]
    return np.stack(channels, axis=2).astype(np.float32)


def hidden(count, activation, **options):
    """Layers of a width that the first one determines."""
    return [f() for _ in range(count) for f in (lambda: nn.Linear(-1, -1, **options), activation)]


def networks():
    """The layers of every network, the type of its parameters, and a grid of features or None."""
    last = [nn.Linear(-1, 3, bias=False), nn.Exp()]
    grid = nn.HashGridEncoding(
        Float32,
        2,
        n_levels=4,
        n_features_per_level=2,
        per_level_scale=1.5,
        rng=dr.rng(seed=3),
    )
    single = [nn.TriEncode(16, 0.2), *hidden(3, nn.LeakyReLU, bias=False), *last]
    half = [single[0], nn.Cast(Float16), *single[1:]]
    hashed = [nn.HashEncodingLayer(grid), *hidden(2, nn.LeakyReLU, bias=False), *last]
    tanh = [nn.SinEncode(4), nn.Linear(-1, 24), nn.Tanh(), nn.Linear(-1, 3)]
    return {
        "single": (single, TensorXf, None),
        "half": (half, TensorXf16, None),
        "hash": (hashed, TensorXf, grid),
        "bias": (tanh, TensorXf, None),
    }


def train(name, steps=STEPS, grid=GRID):
    """Trains a network on a position in each cell of a grid. Returns the last loss, the network's
    output for a few positions, entries of its matrices one after the other, and of the grid of
    features if there is one.
    """
    layers, dtype, features = networks()[name]
    net = nn.Sequential(*layers, prefix="net").alloc(dtype, 2, rng=dr.rng(seed=0))
    net = nn.pack(net, layout="training")
    texture = Texture2f(TensorXf(image()))
    rng = dr.rng(seed=1)
    opt = Adam(lr=1e-3)
    opt.update(net)
    if features is not None:
        opt["grid"] = Float32(features.params)
        opt.set_learning_rate(grid=1e-2)
    scaler = GradScaler()

    def update():
        net["net.weights"] = opt["net.weights"]
        if features is not None:
            features.params[:] = opt["grid"]

    def colour(p):
        return Array3f(net(nn.CoopVec(p)))

    for _ in range(steps):
        update()
        t = dr.arange(Float32, grid)
        p = (Array2f(dr.meshgrid(t, t)) + rng.random(Array2f, (2, grid * grid))) / grid
        loss = dr.squared_norm(texture.eval(p) - colour(p))
        dr.backward(scaler.scale(loss))
        scaler.step(opt)

    update()
    t = (dr.arange(Float32, 3) + 0.5) / 3
    found = {
        "loss": np.mean(np.array(dr.detach(loss))) / 3,
        "output": np.array(dr.detach(colour(Array2f(dr.meshgrid(t, t))))).ravel(),
        "parameters": parameters(net, dtype),
    }
    if features is not None:
        found["grid"] = np.array(dr.detach(opt["grid"]))[::13]
    return {key: np.asarray(value, np.float64).ravel() for key, value in found.items()}


def parameters(net, dtype):
    """Every few entries of the matrices and biases of a packed network."""
    found = []
    for layer in net.layers:
        for kind in ("weights", "bias"):
            view = getattr(layer, kind, None)
            if view is not None:
                found.append(np.array(dr.detach(dtype(nn.unpack(view)))).ravel())
    return np.concatenate(found)[::13]


if __name__ == "__main__":
    np.set_printoptions(precision=6, threshold=10**6, linewidth=10**6, suppress=True)
    for name in networks():
        for key, value in train(name).items():
            print(name, key, value)
