"""A network that learns a picture, in as few lines as it takes: half precision inside, single
precision around it.

    python examples/picture_network.py [--iterations N] [--output FILE]
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
parser.add_argument("--iterations", type=int, default=2000)
parser.add_argument("--output", default="picture_network.png")
arguments = parser.parse_args()

picture = TensorXf(iio.imread(Path(__file__).parent / "portrait.jpg") / 255)
texture = Texture2f(picture)

# Sizes of -1 follow from the layer before. An encoding makes biases unnecessary.
layers = [nn.TriEncode(16, 0.2), nn.Cast(Float16)]
for _ in range(3):
    layers += [nn.Linear(-1, -1, bias=False), nn.LeakyReLU()]
net = nn.Sequential(*layers, nn.Linear(-1, 3, bias=False), nn.Exp())

# Weights for two inputs, in the layout that kernels read: one array.
rng = dr.rng(seed=0)
net = nn.pack(net.alloc(TensorXf16, size=2, rng=rng), layout="training")
print(net)

# The optimizer keeps weights in single precision. Half-precision gradients would underflow, so the
# loss is scaled up, and gradients down again.
optimizer = Adam(lr=1e-3)
optimizer.update(net)
scaler = GradScaler()

for _ in tqdm(range(arguments.iterations)):
    net.update(optimizer)
    t = dr.arange(Float32, RES)
    p = (Array2f(dr.meshgrid(t, t)) + rng.random(Array2f, (2, RES * RES))) / RES
    colour = Array3f(net(nn.CoopVec(p)))
    loss = dr.squared_norm(texture.eval(p) - colour)
    dr.backward(scaler.scale(loss))
    scaler.step(optimizer)

net.update(optimizer)
t = dr.linspace(Float32, 0, 1, RES)
colour = Array3f(net(nn.CoopVec(Array2f(dr.meshgrid(t, t)))))
learnt = dr.reshape(TensorXf(colour, flip_axes=True), (RES, RES, 3))

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5))
left.imshow(picture)
right.imshow(dr.clip(dr.detach(learnt), 0, 1), aspect="auto")
figure.tight_layout()
figure.savefig(arguments.output)
