"""Spots and stripes: two substances that react and spread.

The model is that of Gray and Scott (Pearson, "Complex Patterns in a Simple System", 1993). The
field is a torus; how fast substances are removed changes from left to right. A frozen function is
traced once: every further step only launches its kernels.
"""

import numpy as np

import drjit as dr
from drjit.auto import Float, TensorXf, UInt
from drjit_examples.common import Options, Progress, start, write


def neighbours(field: Float, size: int) -> Float:
    """The weighted mean of the eight neighbours of every cell, less the cell."""
    i = dr.arange(UInt, size * size)
    x, y = i % size, i // size
    total = -field
    for dx, dy, weight in (
        *((1, 0, 0.2), (size - 1, 0, 0.2), (0, 1, 0.2), (0, size - 1, 0.2)),
        *((1, 1, 0.05), (1, size - 1, 0.05), (size - 1, 1, 0.05), (size - 1, size - 1, 0.05)),
    ):
        place = (y + dy) % size * size + (x + dx) % size
        total += weight * dr.gather(Float, field, place)
    return total


@dr.freeze
def step(u: Float, v: Float, feed: Float, kill: Float, size: int) -> tuple[Float, Float]:
    """Concentrations after one step."""
    reaction = u * v * v
    return (
        u + neighbours(u, size) - reaction + feed * (1 - u),
        v + 0.5 * neighbours(v, size) + reaction - (feed + kill) * v,
    )


def main() -> None:
    options = Options(__doc__, output="reaction_diffusion.png")
    options.number("--size", 384, "cells along a side", low=8)
    options.number("--steps", 6000, "how long substances react")
    arguments = options.parse()
    n = arguments.size

    x, y = dr.meshgrid(dr.arange(Float, n) / n, dr.arange(Float, n) / n)
    kill, feed = 0.056 + 0.007 * x, 0.025 + 0.03 * y
    block = UInt(y * n) // 8 * n + UInt(x * n) // 8
    seeds = dr.gather(Float, dr.rng(seed=3).random(Float, n * n), block) > 0.8
    u, v = dr.select(seeds, Float(0.5), 1), dr.select(seeds, Float(0.5), 0)
    dr.make_opaque(u, v, feed, kill)
    for _ in Progress(arguments.steps):
        u, v = step(u, v, feed, kill, n)

    field = np.array(TensorXf(v, (n, n)))
    shade = np.clip(field / 0.4, 0, 1)[:, :, None]
    picture = (1 - shade) * np.array([0.97, 0.94, 0.86]) + shade * np.array([0.1, 0.2, 0.45])
    write(arguments.output, picture)
    print(f"{arguments.output}: {n} x {n}, {step.n_recordings} recording, mean {field.mean():.3f}.")


if __name__ == "__main__":
    start(main)
