"""Functions of quaternions xi + yj + zk + w, on tuples (x, y, z, w).

A function that the complex numbers have is extended: w + n v̂ with a unit vector v̂ behaves as the
complex number w + ni (K. Shoemake, "Quaternion Calculus for Animation", 1987). Where the vector is
zero, v̂ = i, as in the complex numbers.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ..array import special
from ..array.elementwise import elementwise
from ..jit import op
from . import complex

Quad = tuple[Any, Any, Any, Any]

_div, _neg, _select, _sqrt, _eq = (
    partial(elementwise, o) for o in (op.div, op.neg, op.select, op.sqrt, op.eq)
)


def multiply(p: Quad, q: Quad) -> Quad:
    """Hamilton's product."""
    a, b, c, d = p
    e, f, g, h = q
    return (
        d * e + a * h + b * g - c * f,
        d * f + b * h + c * e - a * g,
        d * g + c * h + a * f - b * e,
        d * h - a * e - b * f - c * g,
    )


def rcp(q: Quad) -> Quad:
    """The conjugate over the squared norm."""
    x, y, z, w = q
    n = x * x + y * y + z * z + w * w
    return _div(_neg(x), n), _div(_neg(y), n), _div(_neg(z), n), _div(w, n)


def divide(p: Quad, q: Quad) -> Quad:
    """p q⁻¹."""
    return multiply(p, rcp(q))


def modulus(q: Quad) -> Any:
    """The length of the four parts."""
    x, y, z, w = q
    return _sqrt(x * x + y * y + z * z + w * w)


def square(q: Quad) -> Quad:
    """q q."""
    return multiply(q, q)


def _extend(function: Callable[[Any, Any], complex.Pair]) -> Callable[[Quad], Quad]:
    """The quaternion version of a complex function."""

    def extended(q: Quad) -> Quad:
        x, y, z, w = q
        n = _sqrt(x * x + y * y + z * z)
        re, im = function(w, n)
        flat = _eq(n, 0.0)
        scale = _select(flat, 0.0, _div(im, n))
        return _select(flat, im, x * scale), y * scale, z * scale, re

    return extended


def power(p: Quad, q: Quad) -> Quad:
    """exp(log(p) q)."""
    return FUNCTIONS["exp"](multiply(FUNCTIONS["log"](p), q))


FUNCTIONS: dict[str, Callable[[Quad], Quad]] = {"rcp": rcp, "square": square} | {
    name: _extend(complex.FUNCTIONS[name])
    for name in ("sqrt", "rsqrt", "exp", "exp2", "log", "log2")
}

special.register("quaternion", mul=multiply, div=divide, power=power, rcp=rcp, abs=modulus)
