"""Real spherical harmonics of directions."""

import math
from typing import Any

from ...array import signatures
from ...array.base import ArrayBase
from ...array.promote import number_type
from ..arguments import integer, unexpected
from ..evaluation import separate
from .arithmetic import fma


@signatures.harmonics
def sh_eval(d: Any, order: int) -> list[Any]:
    """Returns the real spherical harmonics `Y_lm` at unit vectors for l = 0 ... order and m = -l
    ... l, in this order, with the phase factor (-1)^m.

    P.-P. Sloan, "Efficient Spherical Harmonic Evaluation" (2013): polynomials in the components,
    from the recurrence of the normalized associated Legendre functions in l (without their common
    factor sin^m) and the recurrence of r^m cos(mφ) and r^m sin(mφ) in m.

    Raises:
        TypeError: `d` does not have three floating-point components, or `order` is not an integer.
        RuntimeError: `order` is negative.

    >>> dr.sh_eval(Array3f(0, 0, 1), 1)
    [[0.282095], [-0], [0.488603], [-0]]
    """
    x, y, z = _components(d)
    order = integer(order, "dr.sh_eval(): 'order' must be an integer, got")
    if order < 0:
        raise RuntimeError(f"dr.sh_eval(): 'order' must not be negative, got {order}")
    result: list[Any] = [None] * (order + 1) ** 2
    cosine: Any = None
    sine: Any = None
    diagonal = math.sqrt(1 / (4 * math.pi))
    for m in range(order + 1):
        if m == 1:
            cosine, sine = x, y
        elif m > 1:
            cosine, sine = fma(cosine, x, -(sine * y)), fma(cosine, y, sine * x)
        if m:
            diagonal *= -math.sqrt((2 * m + 1) / (2 * m))
        factor = math.sqrt(2) * diagonal if m else diagonal
        before: Any = None
        here: Any = factor
        for l in range(m, order + 1):  # noqa: E741 - the name that formulas use
            if l == m + 1:
                before, here = here, z * (math.sqrt(2 * m + 3) * factor)
            elif l > m + 1:
                up = math.sqrt((4 * l * l - 1) / (l * l - m * m))
                back = up * math.sqrt(((l - 1) ** 2 - m * m) / (4 * (l - 1) ** 2 - 1))
                before, here = here, fma(z, here * up, -(before * back))
            if m:
                result[l * l + l + m] = cosine * here
                result[l * l + l - m] = sine * here
            else:
                # In forward mode, intermediate values that others are computed from have no
                # gradient.
                result[l * l + l] = separate(here) if l else type(z)(here)
    return result


def _components(d: Any) -> list[Any]:
    """Returns the three components of a vector."""
    what = "dr.sh_eval"
    sequence = isinstance(d, (list, tuple, ArrayBase))
    if not sequence or (isinstance(d, ArrayBase) and d._kind == "leaf") or len(d) != 3:
        raise unexpected(what, "a vector of three components", d, "got")
    if isinstance(d, ArrayBase):
        if not d._dtype.is_float:
            raise unexpected(what, "floating-point components", d, "got")
        return [d[i] for i in range(3)]
    for c in d:
        if not (c._dtype.is_float if isinstance(c, ArrayBase) else number_type(type(c))):
            raise unexpected(what, "floating-point components", c, "got")
    return [c if isinstance(c, ArrayBase) else float(c) for c in d]
