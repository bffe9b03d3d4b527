"""What the tests of neural networks share: inputs, a network and the same in NumPy, derivatives."""

from collections.abc import Callable
from typing import Any

import numpy as np

import drjit as dr
import drjit.nn as nn


def inputs(features: int, n: int, seed: int = 0) -> np.ndarray:
    """Points that are no kinks of an activation, and exact in half precision."""
    x = np.random.default_rng(seed).uniform(0.05, 2, (features, n))
    sign = np.random.default_rng(seed + 1).choice([-1, 1], (features, n))
    return (x * sign).astype(np.float16).astype(np.float64)


def evaluate(net: nn.Module, x: Any, mode: str) -> Any:
    """The output for a tensor, which is a tensor again."""
    if mode == "tensor":
        return net(x)
    rows = [x[i].array for i in range(len(x))]
    y = net(nn.CoopVec(*rows))
    assert isinstance(y, nn.CoopVec)
    return type(x)(y)


def evaluated(*arrays: Any) -> tuple[Any, ...]:
    """The arrays, computed by one kernel."""
    dr.eval(arrays)
    return arrays


def differences(f: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """The gradient of the sum of f at x by central differences."""
    h = 1e-6
    found = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = h
        found[i] = (f(x + step).sum() - f(x - step).sum()) / (2 * h)
    return found


def network(dtype: Any, *, seed: int = 0, prefix: str = "") -> nn.Sequential:
    """A network of layers of odd sizes."""
    layers = [nn.Linear(-1, 17), nn.LeakyReLU(0.1), nn.Linear(-1, 15, bias=False), nn.Tanh()]
    made = nn.Sequential(*layers, nn.Linear(-1, 3), nn.Exp2(), prefix=prefix)
    return made.alloc(dtype, 2, rng=dr.rng(seed=seed))


def model(parameters: list[np.ndarray], x: np.ndarray) -> np.ndarray:
    """The same in NumPy."""
    a, b, c, d, e = parameters
    x = a @ x + b[:, None]
    x = np.tanh(c @ np.where(x > 0, x, 0.1 * x))
    return np.exp2(d @ x + e[:, None])
