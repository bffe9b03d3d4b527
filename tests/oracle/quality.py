"""How well the network of `drjit_examples/neural_field.py` knows a small picture after some steps:
the peak signal-to-noise ratio in decibels. Runs under any implementation of the interface."""

import sys
from pathlib import Path

import numpy as np

from drjit.auto.ad import TensorXf

sys.path.append(str(Path(__file__).parents[2]))
from drjit_examples import neural_field


def quality(encoding: str, precision: str, steps: int = 100) -> float:
    """The ratio for the example's portrait at an eighth of its resolution."""
    neural_field.GRID = 64
    # With these, the reference's ratios were found.
    neural_field.LEVELS, neural_field.RATE_WITH_GRID, neural_field.RATE_OF_GRID = 8, 1e-3, 1e-2
    image = np.array(neural_field.load(str(neural_field.PORTRAIT)))
    image = image.reshape(75, 8, 64, 8, 3).mean(axis=(1, 3))
    _, ratio = neural_field.train(TensorXf(image), steps, precision == "half", encoding)
    return ratio


if __name__ == "__main__":
    for name in sys.argv[1:] or ("tri", "sin", "hash", "permuto"):
        for precision in ("single", "half"):
            print(name, precision, round(quality(name, precision), 3))
