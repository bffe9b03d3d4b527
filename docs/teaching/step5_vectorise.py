"""Step 5, vectorise: the same text as machine code. Numba compiles it for one entry, and LLVM makes
vector instructions of the loop around it, which runs on all cores."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, prange
from step3_run import Machine

# The functions of the text, for a single entry.


@njit(inline="always")
def load(array: Any, i: int) -> float:
    return array[i]


@njit(inline="always")
def store(array: Any, i: int, value: float) -> None:
    array[i] = value


@njit(inline="always")
def number(value: float) -> float:
    return value


@njit(inline="always")
def index(i: int) -> float:
    return float(i)


@njit(inline="always")
def select(mask: bool, a: float, b: float) -> float:
    return a if mask else b


@njit(inline="always")
def any_lane(mask: bool) -> bool:
    return mask


NAMESPACE = {f.__name__: f for f in (load, store, number, index, select, any_lane)}
NAMESPACE |= {name: getattr(np, name) for name in ("sin", "cos", "exp", "log", "sqrt")}


def on_numba(text: str) -> Callable[[int, tuple], None]:
    """Returns a function that executes a kernel for all entries from 0 to n."""
    scope = dict(NAMESPACE)
    exec(compile(text, "<kernel>", "exec"), scope)
    kernel = njit(scope["kernel"], inline="always")

    @njit(parallel=True, error_model="numpy")
    def run(n: int, p: tuple) -> None:
        for i in prange(n):
            kernel(i, p)

    return run


numba_machine = Machine(on_numba)


if __name__ == "__main__":
    from step1_trace import arange, select, sin

    t = arange(8) / 8
    print(numba_machine.numpy(select(t < 0.5, sin(6 * t), 0)))
