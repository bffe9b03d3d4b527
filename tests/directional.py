"""Derivatives along one direction, against the finite difference: what `dr.check_grad` finds with a
call per entry, with four calls."""

from collections.abc import Callable

import numpy as np

import drjit as dr
from drjit.array import leaf
from drjit.function import check_grad
from drjit.function.grad import leaves


def check(f: Callable, *args, tol: float = 1e-6) -> None:
    """Compares the derivative of the weighted sum of all results along a direction that all entries
    of the arguments have a part in: of both modes, with the central difference. The arguments hold
    double precision."""
    inputs = list(leaves(args))
    points = [leaf.host(a).copy() for a in inputs]
    directions = [np.cos(3 * np.arange(p.size) + k) for k, p in enumerate(points)]
    step = 2.0**-17
    ahead, behind = (
        check_grad._total(
            f(
                *dr.detach(
                    check_grad._with(
                        args, [p + h * d for p, d in zip(points, directions, strict=True)]
                    )
                )
            )
        )
        for h in (step, -step)
    )
    expected = (ahead - behind) / (2 * step)
    parts = [
        float(np.dot(g, d))
        for g, d in zip(check_grad._reverse(f, args)[0], directions, strict=True)
    ]
    tolerance = tol * max(1, sum(map(abs, parts)))
    assert abs(sum(parts) - expected) <= tolerance, f"reverse: {sum(parts)}, not {expected}"

    tracked = dr.detach(args)
    dr.enable_grad(tracked)
    result = f(*tracked)
    dr.clear_grad(tracked)
    inputs = list(leaves(tracked))
    for a, d in zip(inputs, directions, strict=True):
        a._a.grad = leaf.node_from_numpy(a._dtype, d, copy=True)
    dr.enqueue(dr.ADMode.Forward, inputs)
    dr.traverse(dr.ADMode.Forward, dr.ADFlag.ClearEdges)  # a result may be an input
    found = check_grad._sum([(dr.grad(r), w) for r, w in check_grad._weights(result)])
    assert abs(found - expected) <= tolerance, f"forward: {found}, not {expected}"
