"""A network learns the signed distance of a shape; a loop then calls the network in every step of
every ray, and a texture colours what it finds.

    python examples/neural_shape.py [--iterations N] [--size N] [--output FILE]

Rendering is one kernel: rays, the loop with four matrix products in it, and texture look-ups.
"""

import argparse
from pathlib import Path

import imageio.v3 as iio
import matplotlib.pyplot as plt
import numpy as np
from tqdm.auto import tqdm

import drjit as dr
from drjit import nn
from drjit.auto.ad import Array2f, Array3f, Bool, Float, TensorXf, Texture2f, UInt32
from drjit.opt import Adam


def distance(p: Array3f) -> Float:
    """What is learnt: a ball and a ring around it."""
    ball = dr.norm(p) - 0.45
    ring = dr.norm(Array2f(dr.norm(Array2f(p.x, p.z)) - 0.75, p.y)) - 0.12
    return dr.minimum(ball, ring)


def evaluate(net: nn.Module, p: Array3f) -> Float:
    """The distance that the network gives. Its encoding has period 1, so the scene has to fit."""
    (found,) = net(nn.CoopVec(p / 3 + 0.5))
    return found


def train(iterations: int, rng: dr.random.Generator) -> nn.Module:
    """A network from positions to distances."""
    layers: list[nn.Module] = [nn.SinEncode(4)]
    for _ in range(3):
        layers += [nn.Linear(-1, 32), nn.ReLU()]
    net = nn.Sequential(*layers, nn.Linear(-1, 1)).alloc(TensorXf, 3, rng=rng)
    net = nn.pack(net, layout="training")
    optimizer = Adam(lr=4e-3)
    optimizer.update(net)
    for _ in tqdm(range(iterations)):
        net.update(optimizer)
        p = 2.4 * rng.random(Array3f, (3, 16384)) - 1.2
        dr.backward(dr.mean(dr.square(evaluate(net, p) - distance(p))))
        optimizer.step()
    net.update(optimizer)
    return net


@dr.syntax
def trace(net: nn.Module, o: Array3f, d: Array3f) -> tuple[Float, Bool]:
    """How far rays go before they meet what the network describes, and whether they do."""
    t = Float(0.5)
    gap = Float(1)
    steps = UInt32(0)
    while (gap > 2e-3) & (t < 4) & (steps < 96):
        gap = evaluate(net, o + t * d)
        t += 0.9 * gap
        steps += 1
    return t, gap <= 2e-3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--output", default="neural_shape.png")
    arguments = parser.parse_args()
    n = arguments.size

    rng = dr.rng(seed=0)
    net = train(arguments.iterations, rng)
    picture = iio.imread(Path(__file__).parent / "portrait.jpg") / 255
    texture = Texture2f(TensorXf(picture))

    with dr.suspend_grad():
        x, y = dr.meshgrid(dr.linspace(Float, -1, 1, n), dr.linspace(Float, 1, -1, n))
        o = Array3f(0, 0.9, -2)
        d = dr.normalize(Array3f(x, y - 0.7, 1.7))
        t, hit = trace(net, o, d)
        p = o + t * d
        h = 1e-2
        steps = [Array3f(h, 0, 0), Array3f(0, h, 0), Array3f(0, 0, h)]
        slopes = [evaluate(net, p + s) - evaluate(net, p - s) for s in steps]
        normal = dr.normalize(Array3f(slopes))
        colour = Array3f(texture.eval(0.5 + 0.6 * Array2f(p.x, -p.y)))
        light = 0.25 + 0.75 * dr.maximum(dr.dot(normal, dr.normalize(Array3f(-1, 1.5, -1))), 0)
        image = dr.select(hit, colour * light, Array3f(0.93))
        pixels = image.numpy().T.reshape(n, n, 3)
    plt.imsave(arguments.output, np.clip(pixels, 0, 1))
    print(f"{arguments.output}: {n} x {n}; {np.mean(hit.numpy()):.0%} of the rays hit the shape.")


if __name__ == "__main__":
    main()
