"""The orbit of a planet from noisy positions, through a function of Numba.

Positions follow from Kepler's equation, whose root finder is written with Numba; gradient descent
goes through it by the derivative that is given beside it.
"""

import math

import numba
import numpy as np

import drjit as dr
from drjit.auto.ad import Array2f64, Float64
from drjit.opt import Adam
from drjit_examples.common import Options, Progress, start


@numba.njit()
def eccentric_anomaly(mean: float, e: float) -> float:
    """Solves Kepler's equation, x - e sin(x) = mean, by Newton's method."""
    x = mean + e * math.sin(mean)
    step = 1.0
    while abs(step) > 1e-12:
        step = (x - e * math.sin(x) - mean) / (1 - e * math.cos(x))
        x -= step
    return x


@numba.njit()
def slopes(mean: float, e: float) -> tuple[float, float]:
    """The derivatives of the solution, by the implicit function theorem."""
    x = eccentric_anomaly(mean, e)
    bottom = 1 - e * math.cos(x)
    return 1 / bottom, math.sin(x) / bottom


anomaly = dr.wrap(source="drjit", target="numba", derivative=slopes)(eccentric_anomaly)


def positions(t: Float64, e: Float64, axis: Float64, start: Float64) -> Array2f64:
    """Where the planet is at some times, in years; it was closest to the sun at `start`."""
    mean = 2 * dr.pi * (t - start) * axis ** Float64(-1.5)
    x = anomaly(mean, e)
    s, c = dr.sincos(x)
    return axis * Array2f64(c - e, dr.sqrt(1 - e * e) * s)


def main() -> None:
    options = Options(__doc__)
    options.number("--iterations", 400, "steps of the optimizer")
    options.number("--observations", 1000, "noisy positions")
    arguments = options.parse()

    rng = np.random.default_rng(0)
    count: int = arguments.observations
    t = Float64(rng.uniform(0, 2, count))
    noise = rng.normal(0, 0.01, (2, count))
    seen = positions(t, Float64(0.4), Float64(1.1), Float64(0.15)) + Array2f64(noise)

    orbit = Adam(lr=0.01, params={"e": Float64(0.2), "axis": Float64(1), "start": Float64(0)})
    error = Float64(0)
    for _ in Progress(arguments.iterations):
        orbit["e"] = dr.clip(orbit["e"], 0, 0.9)
        found = positions(t, orbit["e"], orbit["axis"], orbit["start"])
        error = dr.mean(dr.squared_norm(found - seen))
        dr.backward(error)
        orbit.step()
    e, axis, start = [orbit[name][0] for name in ("e", "axis", "start")]
    print(f"eccentricity {e:.2f}, axis {axis:.2f}, start {start:.2f}; error {error[0]:.5f}")


if __name__ == "__main__":
    start(main)
