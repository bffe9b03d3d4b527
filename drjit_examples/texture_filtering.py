"""A texture that is found from a few pixels of pictures of a floor, near and far.

Look-ups are filtered as a camera's pixels are. Parameters are texels, or what each level of the
pyramid adds: that also reaches the texels that no pixel has shown.
"""

from typing import Any

import imageio.v3 as iio
import numpy as np
from numpy.typing import NDArray

import drjit as dr
from drjit.auto.ad import Array2f, Array3f, Float, TensorXf, Texture2f, UInt
from drjit.opt import Adam
from drjit_examples.common import PORTRAIT, Options, Panel, Progress, start, write_panels

FILTER: dict[str, Any] = {
    "wrap_mode": dr.WrapMode.Mirror, "mip_filter": dr.MipFilter.Linear, "max_aniso": 8,
}  # fmt: skip


def floor(i: Float, j: Float, turn: Float, size: int) -> Array2f:
    """Where the ray of a pixel meets the floor, in the texture."""
    x, y = (i + 0.5) / size - 0.5, 0.25 + (j + 0.5) / size * 0.75
    x, y = x / y, 0.35 / y
    c, s = dr.cos(turn), dr.sin(turn)
    return Array2f(0.5 + c * x - s * y, 0.5 + s * x + c * y)


def seen(texture: Texture2f, turn: Float, number: UInt, size: int) -> Array3f:
    """Pixels of the picture of the floor from one side."""
    i, j = Float(number % size), Float(number // size)
    at, right, below = (floor(i + dx, j + dy, turn, size) for dx, dy in ((0, 0), (1, 0), (0, 1)))
    return texture.eval_filtered(at, right - at, below - at)


def fitted(
    wanted: Texture2f, basis: dr.MipBasis, learning_rate: float, steps: int, size: int
) -> tuple[Texture2f, list[float]]:
    """The texture, and how far its pictures are from those wanted at each step."""
    texture = Texture2f(
        dr.full(TensorXf, 0.5, (256, 256, 3)), migrate=False, mip_basis=basis, **FILTER
    )
    levels = range(texture.mip_levels() if basis is dr.MipBasis.Laplacian else 1)
    optimizer = Adam(lr=learning_rate, params={str(k): texture.tensor(k) for k in levels})
    losses: list[float] = []
    rng = dr.rng(seed=0)
    for step in Progress(steps):
        if basis is dr.MipBasis.Laplacian:
            for k in levels:
                texture.set_tensor(k, optimizer[str(k)], rebuild=False)
            texture.update_inplace()
        else:
            texture.set_tensor(optimizer["0"])
        turn = Float(step * 2.4)
        some = rng.integers(UInt, size * size // 32, low=0, high=size * size)
        error = seen(texture, turn, some, size) - seen(wanted, turn, some, size)
        loss = dr.mean(dr.square(error), axis=None)
        dr.backward(loss)
        optimizer.step()
        losses.append(loss[0])
    return texture, losses


def image(colour: Array3f, n: int) -> NDArray[np.float32]:
    return np.clip(dr.ravel(Array3f(colour)).numpy().reshape(n, n, 3), 0, 1)


def panels(texture: Texture2f, size: int, title: str) -> list[Panel]:
    """The floor, and the texture itself."""
    i, j = dr.meshgrid(dr.arange(Float, size), dr.arange(Float, size))
    flat = texture.eval(Array2f(i + 0.5, j + 0.5) / size)
    near = seen(texture, Float(0.4), dr.arange(UInt, size * size), size)
    return [Panel(f"floor, {title}", image(near, size)), Panel("the texture", image(flat, size))]


def main() -> None:
    options = Options(__doc__, output="texture_filtering.png")
    options.number("--iterations", 100, "steps of each optimization")
    options.number("--size", 256, "pixels along a side", low=8)
    arguments = options.parse()
    steps, size = arguments.iterations, arguments.size

    picture = iio.imread(PORTRAIT)[30:286, 100:356] / 255
    wanted = Texture2f(TensorXf(picture), **FILTER)
    found = panels(wanted, size, "as it is")
    for basis, rate, title in (
        (dr.MipBasis.Standard, 0.03, "fitted by texels"),
        (dr.MipBasis.Laplacian, 0.01, "fitted by levels"),
    ):
        texture, losses = fitted(wanted, basis, rate, steps, size)
        print(f"{basis.name:9}: error {losses[0]:.4f} -> {np.mean(losses[-5:]):.5f}")
        found += panels(texture, size, title)
    write_panels(arguments.output, found, columns=2, size=max(size, 160))


if __name__ == "__main__":
    start(main)
