"""Fits a small neural network to a photograph: colours as a function of position.

    python examples/neural_field.py [IMAGE] [--iterations N] [--precision half|single]
        [--encoding hash|permuto|tri|sin] [--checkpoint FILE] [--output FILE]

IMAGE is a file or an address; without one, the portrait beside this script is used (Grace Hopper,
photographed by the U.S. Navy, in the public domain). The random positions, the look-ups in the
image, the network, its derivatives and the sums over all positions are one kernel. Ctrl-C ends the
training early; what was learnt by then is written all the same. With a checkpoint, a training that
was stopped in any way goes on where it was.
"""

import argparse
import sys
import time
from math import log10
from pathlib import Path
from typing import Any

import imageio.v3 as iio
import numpy as np
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

PORTRAIT = Path(__file__).parent / "portrait.jpg"
GRID = 256  # a training step looks at one random position in each cell of a grid of this size
LEVELS = 10  # of a grid: the finest one has about as many cells as the portrait pixels
# Learning rates; the entries of a grid are seen by few positions each.
RATE, RATE_WITH_GRID, RATE_OF_GRID = 1e-3, 5e-3, 2e-2
REPORT = 50  # steps between two updates of the figures shown


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


def psnr(mean_square_error: float) -> float:
    """The peak signal-to-noise ratio in decibels, for values from 0 to 1."""
    return -10 * log10(max(mean_square_error, 1e-10))


def train(
    image: TensorXf,
    iterations: int,
    half: bool,
    encoding: str,
    seed: int = 0,
    checkpoint: Path | None = None,
    every: int = 200,
) -> tuple[np.ndarray, float]:
    """Trains a network on an image; returns what it learnt, and how well (PSNR in decibels). The
    state is saved to the checkpoint after every so many steps, and taken from it at the start."""
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

    first, start = state["step"], time.perf_counter()
    with tqdm(range(first, iterations), unit="step") as progress:
        try:
            for step in progress:
                # The optimizer's copy of the weights is in single precision.
                net["net.weights"] = opt["net.weights"]
                if grid is not None:
                    grid.params[:] = type(grid.params)(opt["grid"])
                p = positions(rng.random(Array2f, (2, GRID * GRID)))
                difference = texture.eval(p) - Array3f(net(nn.CoopVec(p)))
                loss = dr.squared_norm(difference)
                dr.backward(scaler.scale(loss))
                report = step % REPORT == 0
                if report:
                    loss = dr.sum(dr.detach(loss)) / (3 * GRID * GRID)
                    dr.schedule(loss)
                scaler.step(opt)
                if report:
                    progress.set_postfix(loss=f"{loss[0]:.5f}", PSNR=f"{psnr(loss[0]):.1f} dB")
                state["step"] = step + 1
                if checkpoint is not None and (step + 1) % every == 0:
                    dr.save(checkpoint, state)
        except KeyboardInterrupt:
            progress.write("Interrupted; writing what was learnt so far.", file=sys.stderr)
    dr.sync_thread()  # the last steps may still be running
    steps, seconds = state["step"] - first, time.perf_counter() - start
    print(
        f"{steps} steps in {seconds:.1f} seconds, compilation included: "
        f"{steps * GRID**2 / seconds / 1e6:.1f} million positions a second."
    )
    net["net.weights"] = opt["net.weights"]
    if grid is not None:
        grid.params[:] = type(grid.params)(opt["grid"])
    learnt = render(net, *image.shape[:2])
    return learnt, psnr(float(np.mean((learnt - image.numpy()) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("image", nargs="?", default=str(PORTRAIT))
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--precision", choices=("half", "single"), default="half")
    parser.add_argument("--encoding", choices=("hash", "permuto", "tri", "sin"), default="hash")
    parser.add_argument("--checkpoint", type=Path, help="file to save the state to, and go on from")
    parser.add_argument("--every", type=int, default=200, help="steps between two checkpoints")
    parser.add_argument("--output", default="neural_field.png", help="original and copy")
    arguments = parser.parse_args()
    if arguments.iterations < 0:
        parser.error("--iterations must not be negative")
    image = load(arguments.image)
    try:
        open(arguments.output, "ab").close()  # found out before the training, not after
    except OSError as error:
        sys.exit(f"{arguments.output} cannot be written: {error.strerror}")
    half = arguments.precision == "half"
    learnt, quality = train(
        image,
        arguments.iterations,
        half,
        arguments.encoding,
        checkpoint=arguments.checkpoint,
        every=arguments.every,
    )
    both = np.concatenate([image.numpy(), learnt], axis=1)
    iio.imwrite(arguments.output, (both * 255 + 0.5).astype(np.uint8), extension=".png")
    print(f"PSNR {quality:.2f} dB.")
    print(f"{arguments.output}: the original beside what was learnt.")


if __name__ == "__main__":
    main()
