"""Newton's method in every pixel: which root of z³ = 1 it finds, and how fast.

Colours tell the roots apart; the darker, the more steps it takes to get there.
"""

from math import pi

import matplotlib.pyplot as plt
import numpy as np

import drjit as dr
from drjit.auto import Complex2f, Float, UInt32
from drjit_examples.common import Options, start


@dr.syntax
def newton(z: Complex2f) -> tuple[Complex2f, UInt32]:
    """A root near `z`, and the number of steps to it."""
    steps = UInt32(0)
    change = Complex2f(1)
    while (dr.squared_norm(change) > 1e-12) & (steps < 64):
        change = (z * z * z - 1) / (3 * z * z)
        z = z - change
        steps += 1
    return z, steps


def main() -> None:
    options = Options(__doc__, output="newton_fractal.png")
    options.number("--size", 768, "pixels along a side")
    arguments = options.parse()
    n = arguments.size

    # Half a cell off the origin, where the derivative is zero.
    t = (dr.arange(Float, n) + 0.5) / n * 4 - 2
    root, steps = newton(Complex2f(*dr.meshgrid(t, t)))
    number = dr.round(dr.arg(root) * (3 / (2 * pi)))  # -1, 0 or 1
    dr.eval(number, steps)

    shade = 1 / (1 + 0.12 * steps.numpy().reshape(n, n).astype(np.float32))
    colours = np.array([[0.95, 0.45, 0.3], [0.3, 0.75, 0.5], [0.3, 0.5, 0.95]], np.float32)
    picture = colours[number.numpy().astype(int).reshape(n, n) + 1] * shade[:, :, None]
    plt.imsave(arguments.output, np.clip(picture, 0, 1), origin="lower")
    print(f"{arguments.output}: {n} x {n}, {np.mean(steps.numpy()):.1f} steps on average.")


if __name__ == "__main__":
    start(main)
