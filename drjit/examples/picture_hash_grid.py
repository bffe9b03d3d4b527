"""A picture in a grid of trainable features and a network that reads them: sharp detail after few
steps.

    python examples/picture_hash_grid.py [--iterations N] [--output FILE]
"""

import argparse
from pathlib import Path

import imageio.v3 as iio
import matplotlib.pyplot as plt
from tqdm.auto import tqdm

import drjit as dr
from drjit import nn
from drjit.auto.ad import (
    Array2f,
    Array3f,
    Float16,
    Float32,
    TensorXf,
    TensorXf16,
    Texture2f,
)
from drjit.opt import Adam, GradScaler

RES = 256

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--iterations", type=int, default=1000)
parser.add_argument("--output", default="picture_hash_grid.png")
arguments = parser.parse_args()

picture = TensorXf(iio.imread(Path(__file__).parent / "portrait.jpg") / 255)
texture = Texture2f(picture)
rng = dr.rng(seed=0)

# Eight grids, each half as coarse again as the one before; nn.PermutoEncoding would be of
# triangles in place of squares.
grid = nn.HashGridEncoding(
    Float16, 2, n_levels=8, n_features_per_level=2, per_level_scale=1.5, rng=rng
)
print(grid)

# The grid stays outside of the packed weights. A prefix keeps the names of the two apart.
layers = [nn.HashEncodingLayer(grid), nn.Cast(Float16)]
for _ in range(3):
    layers += [nn.Linear(-1, -1, bias=False), nn.LeakyReLU()]
net = nn.Sequential(*layers, nn.Linear(-1, 3, bias=False), nn.Exp(), prefix="mlp")
net = nn.pack(net.alloc(TensorXf16, 2, rng=rng), layout="training")
print(net)

optimizer = Adam(lr=1e-3)
optimizer.update(net)
optimizer["grid"] = Float32(grid.params)
scaler = GradScaler()

for _ in tqdm(range(arguments.iterations)):
    net.update(optimizer)
    grid.params[:] = Float16(optimizer["grid"])
    t = dr.arange(Float32, RES)
    p = (Array2f(dr.meshgrid(t, t)) + rng.random(Array2f, (2, RES * RES))) / RES
    colour = Array3f(net(nn.CoopVec(p)))
    loss = dr.squared_norm(texture.eval(p) - colour)
    dr.backward(scaler.scale(loss))
    scaler.step(optimizer)

net.update(optimizer)
grid.params[:] = Float16(optimizer["grid"])
t = dr.linspace(Float32, 0, 1, RES)
colour = Array3f(net(nn.CoopVec(Array2f(dr.meshgrid(t, t)))))
learnt = dr.reshape(TensorXf(colour, flip_axes=True), (RES, RES, 3))

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5))
left.imshow(picture)
right.imshow(dr.clip(dr.detach(learnt), 0, 1), aspect="auto")
figure.tight_layout()
figure.savefig(arguments.output)
