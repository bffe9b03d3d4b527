"""A small network that learns a photograph: colours as a function of position.

IMAGE is a file or an address; without one, the portrait beside this script is used (Grace Hopper,
photographed by the U.S. Navy, in the public domain). The random positions, the look-ups in the
image, the network, its derivatives and the sums over all positions are one kernel. The bar shows
how much the picture that has been learnt is like the original, as the last line does. With a
checkpoint, a training that was stopped in any way goes on where it was.
"""

import sys
from math import log10
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np

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
from drjit_examples.common import PORTRAIT, Options, Progress, start, write

GRID = 256  # a training step looks at one random position in each cell of a grid of this size
LEVELS = 10  # of a grid: the finest one has about as many cells as the portrait pixels
# Learning rates; the entries of a grid are seen by few positions each.
RATE, RATE_WITH_GRID, RATE_OF_GRID = 1e-3, 5e-3, 2e-2
REPORT = 25  # steps between two updates of the figure shown


def load(source: str) -> TensorXf:
    """An image as a tensor of shape (height, width, 3) with values from 0 to 1."""
    try:
        pixels = np.asarray(iio.imread(source, index=0))
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        sys.exit(f"{source} cannot be read as an image: {reason}")
    if pixels.ndim == 3 and pixels.shape[2] == 2:
        pixels = pixels[:, :, 0]  # the other channel is opacity
    if pixels.ndim == 2:
        pixels = np.repeat(pixels[:, :, None], 3, axis=2)
    if pixels.ndim != 3 or pixels.shape[2] < 3:
        sys.exit(f"{source} is no colour image: its shape is {pixels.shape}")
    scale = np.iinfo(pixels.dtype).max if pixels.dtype.kind == "u" else 1
    return TensorXf(pixels[:, :, :3].astype(np.float32) / scale)


def make_network(
    encoding: str, half: bool, rng: dr.random.Generator
) -> tuple[nn.Module, nn.HashGridEncoding | nn.PermutoEncoding | None]:
    """The network, packed for training, and its grid of features if it has one."""
    grid = None
    layer: nn.Module
    if encoding in ("tri", "sin"):
        layer = nn.TriEncode(16, 0.2) if encoding == "tri" else nn.SinEncode(16, 0.2)
    else:
        kind = nn.HashGridEncoding if encoding == "hash" else nn.PermutoEncoding
        grid = kind(
            Float16 if half else Float32,
            2,
            n_levels=LEVELS,
            n_features_per_level=2,
            per_level_scale=1.5,
            rng=rng,
        )
        layer = nn.HashEncodingLayer(grid)
    hidden: list[nn.Module] = []
    for _ in range(3):
        hidden += [nn.Linear(-1, -1, bias=False), nn.LeakyReLU()]
    net = nn.Sequential(
        layer,
        *([nn.Cast(Float16)] if half else []),
        *hidden,
        nn.Linear(-1, 3, bias=False),
        nn.Exp(),
        prefix="net",
    )
    net = net.alloc(TensorXf16 if half else TensorXf, 2, rng=rng)
    return nn.pack(net, layout="training"), grid


def positions(jitter: Array2f | float) -> Array2f:
    """A position in each cell of the grid, on the unit square."""
    t = dr.arange(Float32, GRID)
    return (Array2f(dr.meshgrid(t, t)) + jitter) / GRID


def render(net: nn.Module, height: int, width: int) -> np.ndarray:
    """What the network has learnt, as an image of shape (height, width, 3)."""
    x = (dr.arange(Float32, width) + 0.5) / width
    y = (dr.arange(Float32, height) + 0.5) / height
    colour = Array3f(net(nn.CoopVec(Array2f(dr.meshgrid(x, y)))))
    pixels = dr.reshape(TensorXf(colour, flip_axes=True), (height, width, 3))
    return dr.clip(dr.detach(pixels), 0, 1).numpy()


def save_field(
    net: nn.Module, grid: nn.HashGridEncoding | nn.PermutoEncoding | None, file: Path
) -> None:
    """Saves what the network has learnt as a function from positions to colours, for programs that
    have nothing of this one: `dr.load(file)` is all that they need."""
    # Without their part in the derivatives of the last step.
    learnt = dr.detach(net)
    if grid is not None:
        grid.params = dr.detach(grid.params)

    @dr.freeze
    def colour(p: Array2f) -> Array3f:
        return Array3f(learnt(nn.CoopVec(p)))

    for n in (64, 96):  # any number of positions, then
        t = dr.linspace(Float32, 0, 1, n)
        colour(Array2f(t, 1 - t))
    dr.save(file, colour)


def psnr(learnt: np.ndarray, image: TensorXf) -> float:
    """The peak signal-to-noise ratio in decibels, for values from 0 to 1."""
    return -10 * log10(max(float(np.mean((learnt - image.numpy()) ** 2)), 1e-10))


def train(
    image: TensorXf,
    iterations: int,
    half: bool,
    encoding: str,
    seed: int = 0,
    checkpoint: Path | None = None,
    every: int = 200,
    field: Path | None = None,
) -> tuple[np.ndarray, float]:
    """Trains a network on an image; returns what it learnt, and how well (PSNR in decibels). The
    state is saved to the checkpoint after every so many steps, and taken from it at the start; the
    field, in the end."""
    texture = Texture2f(image)
    rng = dr.rng(seed=seed)
    net, grid = make_network(encoding, half, rng)
    opt = Adam(lr=RATE if grid is None else RATE_WITH_GRID)
    opt.update(net)
    if grid is not None:
        opt["grid"] = Float32(grid.params)
        opt.set_learning_rate(grid=RATE_OF_GRID)
    scaler = GradScaler()
    state: dict[str, Any] = {"opt": opt, "scaler": scaler, "rng": rng, "step": 0}
    if checkpoint is not None and checkpoint.exists():
        state = dr.load(checkpoint, state)
        print(f"{checkpoint}: continues after step {state['step']}")

    def fetch() -> None:
        """Has the network use what the optimizer holds, which is in single precision."""
        net["net.weights"] = opt["net.weights"]
        if grid is not None:
            grid.params[:] = type(grid.params)(opt["grid"])

    progress = Progress(iterations, first=state["step"])
    for step in progress:
        fetch()
        p = positions(rng.random(Array2f, (2, GRID * GRID)))
        difference = texture.eval(p) - Array3f(net(nn.CoopVec(p)))
        dr.backward(scaler.scale(dr.squared_norm(difference)))
        scaler.step(opt)
        state["step"] = step + 1
        if (step + 1) % REPORT == 0 and step + 1 < iterations:
            fetch()
            progress.show(PSNR=f"{psnr(render(net, *image.shape[:2]), image):.2f} dB")
        if checkpoint is not None and (step + 1) % every == 0:
            dr.save(checkpoint, state)
    dr.sync_thread()  # the last steps may still be running
    fetch()
    if field is not None:
        save_field(net, grid, field)
    learnt = render(net, *image.shape[:2])
    return learnt, psnr(learnt, image)


def main() -> None:
    options = Options(__doc__, output="neural_field.png")
    options.add_argument(
        "image", nargs="?", default=str(PORTRAIT), help="file or address of a picture"
    )
    options.number("--iterations", 400, "steps of the training", low=0)
    options.add_argument(
        "--precision", choices=("half", "single"), default="half", help="of the network"
    )
    options.add_argument(
        "--encoding", choices=("hash", "permuto", "tri", "sin"), default="hash",
        help="what the network is given of a position",
    )  # fmt: skip
    options.add_argument(
        "--checkpoint", type=Path, help="file to save the state to, and go on from"
    )
    options.number("--every", 200, "steps between two checkpoints")
    options.add_argument(
        "--field", type=Path, help="file to save what is learnt to, as a function: NAME.dr"
    )
    arguments = options.parse()

    image = load(arguments.image)
    half = arguments.precision == "half"
    learnt, quality = train(
        image,
        arguments.iterations,
        half,
        arguments.encoding,
        checkpoint=arguments.checkpoint,
        every=arguments.every,
        field=arguments.field,
    )
    write(arguments.output, np.concatenate([image.numpy(), learnt], axis=1), extension=".png")
    print(f"PSNR {quality:.2f} dB.")
    print(f"{arguments.output}: the original beside what was learnt.")


if __name__ == "__main__":
    start(main)
