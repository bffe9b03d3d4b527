"""Derivatives along directions, against the finite difference: what `dr.check_grad` finds with
three calls per entry, with three per argument. NumPy computes the difference: kernels that only
compute values are not compiled for it."""

from collections.abc import Callable

import numpy as np
import pytest

import drjit as dr
from drjit.array import leaf
from drjit.function.ad import check_grad
from drjit.function.ad.grad import leaves

STEP = 2.0**-17


def check(f: Callable, *args, together: bool = False, tol: float = 1e-6) -> None:
    """Compares the derivative of the weighted sum of all results by each array in the arguments,
    along a direction that all of its entries have a part in, or by all of them `together`: of both
    modes, with the central difference. The arrays hold double precision."""
    points = [leaf.host(a).copy() for a in leaves(args)]
    directions = [np.cos(3 * np.arange(p.size) + k) for k, p in enumerate(points)]
    gradients, _ = check_grad._reverse(f, args)
    parts = range(len(points))
    for moving in [parts] if together else [[k] for k in parts]:
        steps = [d if k in moving else 0 * d for k, d in enumerate(directions)]
        ends = [[p + h * d for p, d in zip(points, steps, strict=True)] for h in (STEP, -STEP)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
            ahead, behind = (
                check_grad._sum(
                    check_grad._weights(f(*dr.detach(check_grad._with_entries(args, end))))
                )
                for end in ends
            )
        expected = (ahead - behind) / (2 * STEP)
        terms = [float(np.dot(gradients[k], directions[k])) for k in moving]
        limit = tol * max(1, sum(map(abs, terms)))
        found = {"reverse": sum(terms), "forward": _forward(f, args, moving, directions)}
        for mode, value in found.items():
            where = f"in {mode} mode, by {'all arrays' if together else f'array {moving[0]}'}"
            assert abs(value - expected) <= limit, f"{where}: {value}, not {expected}"


def _weighted_sum(result) -> float:
    return check_grad._sum(check_grad._weights(result))


def _forward(f: Callable, args: tuple, moving, directions: list[np.ndarray]) -> float:
    tracked = dr.detach(args)
    dr.enable_grad(tracked)
    inputs = list(leaves(tracked))
    result = f(*tracked)
    dr.clear_grad(tracked)
    for k in moving:
        x = inputs[k]
        x._var.grad = leaf.from_numpy(type(x), directions[k], True)._node
        dr.enqueue(dr.ADMode.Forward, x)
    dr.traverse(dr.ADMode.Forward, dr.ADFlag.ClearEdges)  # a result may be an input
    return check_grad._sum([(dr.grad(r), w) for r, w in check_grad._weights(result)])
