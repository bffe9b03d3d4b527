"""Functions of quaternions xi + yj + zk + w, given as tuples (x, y, z, w).

Functions of complex numbers are extended: w + n v̂ with a unit vector v̂ behaves like the complex
number w + ni (K. Shoemake, "Quaternion Calculus for Animation", 1987). Where the vector is zero, v̂
= i, as for complex numbers.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ...array import special
from ...array.elementwise import elementwise
from ...jit.ir import op
from ..evaluation import separate
from . import complex
from .complex import fma

Quad = tuple[Any, Any, Any, Any]

_div, _neg, _select, _sqrt, _eq, _le = (
    partial(elementwise, o) for o in (op.div, op.neg, op.select, op.sqrt, op.eq, op.le)
)


def multiply(p: Quad, q: Quad) -> Quad:
    """Hamilton's product."""
    a, b, c, d = p
    e, f, g, h = q
    return (
        _sum_of_products((d, e), (a, h), (b, g), (-c, f)),
        _sum_of_products((d, f), (b, h), (c, e), (-a, g)),
        _sum_of_products((d, g), (c, h), (a, f), (-b, e)),
        _sum_of_products((d, h), (-a, e), (-b, f), (-c, g)),
    )


def _sum_of_products(*pairs: tuple[Any, Any]) -> Any:
    (a, b), (c, d), *others = pairs
    result = fma(a, b, c * d)
    for a, b in others:
        result = fma(a, b, result)
    return result


def _squared(*parts: Any) -> Any:
    """Returns the sum of the squares."""
    return _sum_of_products(*[(x, x) for x in parts])


def rcp(q: Quad) -> Quad:
    """The conjugate over the squared norm."""
    x, y, z, w = q
    n = _squared(x, y, z, w)
    return _div(_neg(x), n), _div(_neg(y), n), _div(_neg(z), n), _div(w, n)


def divide(p: Quad, q: Quad) -> Quad:
    """p q⁻¹."""
    return multiply(p, rcp(q))


def modulus(q: Quad) -> Any:
    """The length of the four parts."""
    return _sqrt(_squared(*q))


def square(q: Quad) -> Quad:
    """q q."""
    return multiply(q, q)


def _extend(
    function: Callable[[Any, Any], complex.Pair], slope: Callable[[Any, Any], Any], entire: bool
) -> Callable[[Quad], Quad]:
    """Returns the quaternion version of a complex function.

    `slope(w, f(w))` is the derivative of the function on the real axis, or on its positive half if
    the function is not `entire`; there it replaces the quotient 0 / 0.
    """

    def extended(q: Quad) -> Quad:
        x, y, z, w = q
        squared = _squared(x, y, z)
        flat = _eq(squared, 0.0)
        # The root of zero has no derivative, but the results do: it must not be involved.
        n = _select(flat, 0.0, _sqrt(_select(flat, 1.0, squared)))
        re, im = function(w, n)
        quotient = _div(im, _select(flat, 1.0, n))
        # The slopes use the real part, whose gradient is cleared, unlike the gradient of the
        # result.
        real = separate(re)
        if entire:
            scale = _select(flat, slope(w, re), quotient)
            return x * scale, y * scale, z * scale, real
        cut = _select(flat, _le(w, 0.0), False)
        scale = _select(cut, 0.0, _select(flat, slope(w, re), quotient))
        return _select(cut, im, x * scale), y * scale, z * scale, real

    return extended


def power(p: Quad, q: Quad) -> Quad:
    """exp(log(p) q)."""
    return FUNCTIONS["exp"](multiply(FUNCTIONS["log"](p), q))


_SLOPES = {
    "sqrt": lambda w, f: _div(0.5, f),
    "rsqrt": lambda w, f: _div(-0.5 * f, w),
    "exp": lambda w, f: f,
    "exp2": lambda w, f: f * math.log(2),
    "log": lambda w, f: _div(1.0, w),
    "log2": lambda w, f: _div(1 / math.log(2), w),
}

FUNCTIONS: dict[str, Callable[[Quad], Quad]] = {"rcp": rcp, "square": square} | {
    name: _extend(complex.FUNCTIONS[name], slope, name.startswith("exp"))
    for name, slope in _SLOPES.items()
}

special.register("quaternion", mul=multiply, div=divide, power=power, abs=modulus, **FUNCTIONS)
