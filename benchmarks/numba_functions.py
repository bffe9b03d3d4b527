"""A function of Numba inside of a kernel, beside the same function traced, written as the text of a
kernel, and plain Numba.

    python benchmarks/numba_functions.py [--size N] [--rounds N]

Prints the processor time of a call, the least of all rounds, also relative to plain Numba:
a compiled loop over the arrays. The functions are a polynomial with a square root, without
control flow, and Newton's method for Kepler's equation, with a loop in each lane. At the end: what
a launch costs that does little, for a traced program and for its text.
"""

# ruff: noqa: F821
# pyright: reportUndefinedVariable=false

import argparse
import math
import time
from collections.abc import Callable

import numba
import numpy as np

import drjit as dr
from drjit.llvm import Float64


@numba.njit(error_model="numpy")
def smooth(x, y):
    return math.sqrt(1 + x * x) * (y * (0.5 + y * (0.25 - y)) + x)


def smooth_traced(x: Float64, y: Float64) -> Float64:
    return dr.sqrt(1 + x * x) * (y * (0.5 + y * (0.25 - y)) + x)


@numba.njit(error_model="numpy")
def kepler(mean, e):
    x = mean
    step = 1.0
    while abs(step) > 1e-12:
        step = (x - e * math.sin(x) - mean) / (1 - e * math.cos(x))
        x -= step
    return x


@dr.syntax
def kepler_traced(mean: Float64, e: Float64) -> Float64:
    x, step = Float64(mean), Float64(1)
    while dr.abs(step) > 1e-12:
        s, c = dr.sincos(x)
        step = (x - e * s - mean) / (1 - e * c)
        x -= step
    return x


@dr.kernel
def smooth_text(i, x, y, result):
    u, v = load(f64, x, i), load(f64, y, i)
    store(f64, result, i, sqrt(1 + u * u) * (v * (0.5 + v * (0.25 - v)) + u))


@dr.kernel
def kepler_text(i, mean, e, result):
    m, k = load(f64, mean, i), load(f64, e, i)
    x, step = m, f64(1)
    going_on = active(i)
    while any_lane(going_on):
        s, c = sincos(x)
        step = select(going_on, (x - k * s - m) / (1 - k * c), step)
        x = select(going_on, x - step, x)
        going_on = going_on & (abs(step) > 1e-12)
    store(f64, result, i, x)


def over_arrays(function: Callable) -> Callable:
    """Returns plain Numba: a loop over arrays."""

    @numba.njit
    def loop(x, y, result):
        for k in range(x.size):
            result[k] = function(x[k], y[k])

    return loop


def best(call: Callable[[], object], rounds: int) -> float:
    """Returns the least processor time of all threads that a call takes."""
    times = []
    for _ in range(rounds + 2):  # two for compiling
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times[2:])


def measure(
    function: Callable, traced: Callable, text: Callable, size: int, rounds: int
) -> list[float]:
    rng = np.random.default_rng(0)
    given = [rng.uniform(0, high, size) for high in (3, 0.9)]
    result = np.empty(size)
    arrays = [Float64(a) for a in given]
    inside = dr.wrap("drjit", "numba")(function)
    plain = over_arrays(function)

    def evaluated(f: Callable) -> Callable[[], None]:
        def call() -> None:
            dr.eval(f(*arrays))
            dr.sync_thread()

        return call

    others = (inside, traced, text)
    calls = [lambda: plain(*given, result), *map(evaluated, others)]
    want = [function(*p) for p in zip(*[a[:99] for a in given], strict=True)]
    for f in others:
        np.testing.assert_allclose(f(*arrays).numpy()[:99], want)
    return [best(call, rounds) for call in calls]


def launches(rounds: int) -> list[float]:
    """Returns the processor time of a launch of 16 lanes, traced, and by its text."""
    x, y = Float64(np.arange(16)), Float64(np.ones(16))
    text = dr.kernel(dr.kernel_source(x * y + x))

    def many(f: Callable) -> Callable[[], None]:
        def call() -> None:
            for _ in range(2000):
                dr.eval(f(x, y))

        return call

    calls = [many(lambda x, y: x * y + x), many(text)]
    return [best(call, rounds) / 2000 for call in calls]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=int, default=1 << 20)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    print(f"{'':24}{'plain Numba':>14}{'in a kernel':>14}{'traced':>14}{'its text':>14}")
    cases: dict[str, tuple[Callable, Callable, Callable]] = {
        "sqrt and polynomial": (smooth, smooth_traced, smooth_text),
        "Kepler's equation": (kepler, kepler_traced, kepler_text),
    }
    for title, functions in cases.items():
        found = measure(*functions, arguments.size, arguments.rounds)
        cells = [f"{t * 1e3:7.2f} ms {t / found[0]:3.2f}" for t in found]
        print(f"{title:24}{''.join([f'{c:>14}' for c in cells])}")
    cells = [f"{t * 1e6:7.2f} us     " for t in launches(arguments.rounds)]
    print(f"{'a small launch':24}{'':28}{''.join([f'{c:>14}' for c in cells])}")


if __name__ == "__main__":
    main()
