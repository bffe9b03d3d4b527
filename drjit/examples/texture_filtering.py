"""A texture is found from a few pixels of pictures of a floor, near and far, through look-ups that
are filtered as a camera's pixels are; with texels as parameters, and with what each level of the
pyramid adds, which also reaches the texels that no pixel has shown.

    python examples/texture_filtering.py [--iterations N] [--size N] [--output FILE]
"""

import argparse
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
from numpy.typing import NDArray

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Float, TensorXf, Texture2f, UInt
from drjit.opt import Adam

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--iterations", type=int, default=60)
parser.add_argument("--size", type=int, default=128)
parser.add_argument("--output", default="texture_filtering.png")
arguments = parser.parse_args()
size = arguments.size
options: dict[str, Any] = {
    "wrap_mode": dr.WrapMode.Mirror, "mip_filter": dr.MipFilter.Linear, "max_aniso": 8,
}  # fmt: skip

picture = iio.imread(Path(__file__).parent / "portrait.jpg")[:256, :256] / 255
wanted = Texture2f(TensorXf(picture), **options)


def floor(i: Float, j: Float, turn: Float) -> Array2f:
    """Where the ray of a pixel meets the floor, in the texture."""
    x, y = (i + 0.5) / size - 0.5, 0.25 + (j + 0.5) / size * 0.75
    x, y = x / y, 0.35 / y
    c, s = dr.cos(turn), dr.sin(turn)
    return Array2f(0.5 + c * x - s * y, 0.5 + s * x + c * y)


def seen(texture: Texture2f, turn: Float, number: UInt) -> Array3f:
    """Pixels of the picture of the floor from one side."""
    i, j = Float(number % size), Float(number // size)
    at = floor(i, j, turn)
    return texture.eval_filtered(at, floor(i + 1, j, turn) - at, floor(i, j + 1, turn) - at)


def fitted(basis: dr.MipBasis, learning_rate: float) -> tuple[Texture2f, list[float]]:
    """The texture, and how far its pictures are from those wanted at each step."""
    texture = Texture2f(
        dr.full(TensorXf, 0.5, (256, 256, 3)), migrate=False, mip_basis=basis, **options
    )
    levels = range(texture.mip_levels() if basis is dr.MipBasis.Laplacian else 1)
    optimizer = Adam(lr=learning_rate, params={str(k): texture.tensor(k) for k in levels})
    losses: list[float] = []
    rng = dr.rng(seed=0)
    for step in range(arguments.iterations):
        if basis is dr.MipBasis.Laplacian:
            for k in levels:
                texture.set_tensor(k, optimizer[str(k)], rebuild=False)
            texture.update_inplace()
        else:
            texture.set_tensor(optimizer["0"])
        turn = Float(step * 2.4)
        some = rng.integers(UInt, size * size // 32, low=0, high=size * size)
        error = seen(texture, turn, some) - seen(wanted, turn, some)
        loss = dr.mean(dr.square(error), axis=None)
        dr.backward(loss)
        optimizer.step()
        losses.append(loss[0])
    return texture, losses


def image(colour: Array3f, n: int) -> NDArray[np.float32]:
    return np.clip(dr.ravel(Array3f(colour)).numpy().reshape(n, n, 3), 0, 1)


def pictures(texture: Texture2f) -> NDArray[np.float32]:
    """The floor, and the texture itself, side by side."""
    i, j = dr.meshgrid(dr.arange(Float, size), dr.arange(Float, size))
    flat = texture.eval(Array2f(i + 0.5, j + 0.5) / size)
    near = seen(texture, Float(0.4), dr.arange(UInt, size * size))
    return np.concatenate([image(near, size), image(flat, size)], axis=1)


rows = [pictures(wanted)]
for basis, rate in ((dr.MipBasis.Standard, 0.03), (dr.MipBasis.Laplacian, 0.01)):
    texture, losses = fitted(basis, rate)
    print(f"{basis.name:9}: error {losses[0]:.4f} -> {np.mean(losses[-5:]):.5f}")
    rows.append(pictures(texture))
iio.imwrite(arguments.output, (np.concatenate(rows) * 255).astype(np.uint8))
