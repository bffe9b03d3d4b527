"""The Mandelbrot set: in a loop, every pixel takes as many rounds as it needs.

The kernel of the loop is printed.
"""

import matplotlib.pyplot as plt
import numpy as np

import drjit as dr
from drjit.auto import Bool, Complex2f, Float, UInt32
from drjit_examples.common import Options, start


@dr.syntax
def escape_time(c: Complex2f, limit: int) -> Float:
    """The round in which z -> z^2 + c leaves a large disk, without steps between rounds (A. Douady
    and J. H. Hubbard's potential); 0 where it does not.
    """
    z = Complex2f(0)
    i = UInt32(0)
    while (dr.squared_norm(z) < 256) & (i < limit):
        z = z * z + c
        i += 1
    outside: Bool = dr.squared_norm(z) >= 256
    smooth = Float(i) + 1 - dr.log2(dr.log2(dr.norm(z)))
    return dr.select(outside, smooth, 0)


def main() -> None:
    options = Options(__doc__, output="mandelbrot.png")
    options.number("--size", 1024, "pixels along a side")
    options.number("--limit", 200, "rounds at most")
    arguments = options.parse()
    n = arguments.size

    x, y = dr.meshgrid(dr.linspace(Float, -2.1, 0.7, n), dr.linspace(Float, -1.4, 1.4, n))
    rounds = escape_time(Complex2f(x, y), arguments.limit)
    print(dr.kernel_source(rounds))
    picture = np.sqrt(rounds.numpy().reshape(n, n))
    plt.imsave(arguments.output, picture, cmap="twilight_shifted", origin="lower")
    print(f"{arguments.output}: {n} x {n}, {np.mean(picture == 0):.1%} inside.")


if __name__ == "__main__":
    start(main)
