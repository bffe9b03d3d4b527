"""Transcendental functions and roots, element by element.

They take arrays of every floating-point type and kind, with the same result type, and Python
numbers, for which they give floats in double precision. Complex arrays use the formulas of
`complex.py`, quaternions those of `quaternion.py` as far as there are some, else each part is
mapped by itself. On arrays of float32 and float64, results are within 2 units in the last place;
NaN gives NaN.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..array.base import ArrayBase, KernelValue, type_label
from ..array.elementwise import elementwise
from ..array.inline import recorded
from ..jit import op
from . import complex, quaternion

FLOATS = (float, np.floating)
NUMBERS = (bool, int, np.bool_, np.integer, *FLOATS)


def special_form(name: str, arg: Any) -> Any:
    """The function of that name of a complex number or quaternion; None if the argument is none or
    has no such function.
    """
    kind = arg.__meta__.kind
    if kind == "complex" and name in complex.FUNCTIONS:
        return type(arg)(*complex.FUNCTIONS[name](*arg._c))
    if kind == "quaternion" and name in quaternion.FUNCTIONS:
        return type(arg)(*quaternion.FUNCTIONS[name](tuple(arg._c)))
    return None


def number_function(o: op.Op) -> Callable[[float], float]:
    """An operation on a Python number: that of `math` or, where that raises (a pole, an overflow),
    the definition that kernels share.
    """
    native = getattr(math, o.name, None)

    def function(x: float) -> float:
        if native is not None:
            try:
                return float(native(x))
            except (ValueError, OverflowError):
                pass
        return elementwise(o, x, name=f"dr.{o.name}")

    return function


def unsupported(name: str, *args: Any) -> TypeError:
    """The error of a function for arguments that are neither arrays nor numbers."""
    types = ", ".join(type_label(a) for a in args)
    return TypeError(
        f"dr.{name}(): expected a Dr.Jit array or a number, got ({types}). "
        "Lists and NumPy arrays must be converted first, e.g. Float([1, 2])."
    )


def to_float(x: Any) -> float:
    """A number as a float; an integer that is too large becomes infinite."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _function(name: str, doc: str) -> Callable[[Any], Any]:
    """The public function of an operation with one operand."""
    o = op.TABLE[name]
    on_number = number_function(o)
    title = f"dr.{name}"

    def function(arg: Any, /) -> Any:
        result = recorded(o, arg)
        if result is not None:
            return result
        if isinstance(arg, ArrayBase):
            result = special_form(name, arg)
            return elementwise(o, arg, name=title) if result is None else result
        if isinstance(arg, KernelValue):
            return elementwise(o, arg, name=title)
        if isinstance(arg, NUMBERS):
            return on_number(to_float(arg))
        raise unsupported(name, arg)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


sqrt = _function("sqrt", """Square root, rounded correctly; NaN for negative numbers.

    >>> dr.sqrt(Float(0, 2, 4)), dr.sqrt(2)
    ([0, 1.41421, 2], 1.4142135623730951)
    """)  # fmt: skip
cbrt = _function("cbrt", """Cube root, also of negative numbers.

    >>> dr.cbrt(Float(-8, 27))
    [-2, 3]
    """)  # fmt: skip
exp = _function("exp", """e to the power of the argument; infinity where that overflows.

    >>> dr.exp(Float(0, 1, 100))
    [1, 2.71828, inf]
    """)  # fmt: skip
exp2 = _function("exp2", """2 to the power of the argument, exact for integers.

    >>> dr.exp2(Float(-1, 3))
    [0.5, 8]
    """)  # fmt: skip
log = _function("log", """Natural logarithm; -infinity for 0, NaN for negative numbers.

    >>> dr.log(Float(0, 1, 10))
    [-inf, 0, 2.30259]
    """)  # fmt: skip
log2 = _function("log2", """Logarithm to the base 2, exact for powers of 2; -infinity for 0, NaN for
    negative numbers.

    >>> dr.log2(Float(0.5, 8))
    [-1, 3]
    """)  # fmt: skip
sin = _function("sin", """Sine of an angle in radians, over the full range of the type; NaN for
    infinities.

    >>> dr.sin(Float(0, 1))
    [0, 0.841471]
    """)  # fmt: skip
cos = _function("cos", """Cosine of an angle in radians, over the full range of the type; NaN for
    infinities.

    >>> dr.cos(Float(0, 1))
    [1, 0.540302]
    """)  # fmt: skip
tan = _function("tan", """Tangent of an angle in radians, over the full range of the type; NaN for
    infinities.

    >>> dr.tan(Float(0, 1))
    [0, 1.55741]
    """)  # fmt: skip
asin = _function("asin", """Inverse of the sine, in [-π/2, π/2]; NaN outside of [-1, 1].

    >>> dr.asin(Float(0, 1))
    [0, 1.5708]
    """)  # fmt: skip
acos = _function("acos", """Inverse of the cosine, in [0, π]; NaN outside of [-1, 1].

    >>> dr.acos(Float(0, 1))
    [1.5708, 0]
    """)  # fmt: skip
atan = _function("atan", """Inverse of the tangent, in [-π/2, π/2].

    >>> dr.atan(Float(0, 1))
    [0, 0.785398]
    """)  # fmt: skip
sinh = _function("sinh", """Hyperbolic sine.

    >>> dr.sinh(Float(0, 1))
    [0, 1.1752]
    """)  # fmt: skip
cosh = _function("cosh", """Hyperbolic cosine.

    >>> dr.cosh(Float(0, 1))
    [1, 1.54308]
    """)  # fmt: skip
tanh = _function("tanh", """Hyperbolic tangent; ±1 for infinities.

    >>> dr.tanh(Float(0, 1))
    [0, 0.761594]
    """)  # fmt: skip
asinh = _function("asinh", """Inverse of the hyperbolic sine.

    >>> dr.asinh(Float(0, 1))
    [0, 0.881374]
    """)  # fmt: skip
acosh = _function("acosh", """Inverse of the hyperbolic cosine, not negative; NaN below 1.

    >>> dr.acosh(Float(1, 2))
    [0, 1.31696]
    """)  # fmt: skip
atanh = _function("atanh", """Inverse of the hyperbolic tangent; ±infinity for ±1, NaN outside of
    [-1, 1].

    >>> dr.atanh(Float(0, 0.5, 1))
    [0, 0.549306, inf]
    """)  # fmt: skip
erf = _function("erf", """Error function, 2/√π times the integral of exp(-t²) from 0 to the
    argument.

    >>> dr.erf(Float(0, 1))
    [0, 0.842701]
    """)  # fmt: skip
erfinv = _function("erfinv", """Inverse of the error function; ±infinity for ±1, NaN outside of [-1,
    1].

    >>> dr.erfinv(Float(0, 0.5))
    [0, 0.476936]
    """)  # fmt: skip
lgamma = _function("lgamma", """Logarithm of the absolute value of the gamma function; infinity for
    0 and negative integers.

    >>> dr.lgamma(Float(1, 4))
    [0, 1.79176]
    """)  # fmt: skip


def sincos(arg: Any, /) -> tuple[Any, Any]:
    """Sine and cosine.

    >>> dr.sincos(Float(1))
    ([0.841471], [0.540302])
    """
    return sin(arg), cos(arg)


def sincosh(arg: Any, /) -> tuple[Any, Any]:
    """Hyperbolic sine and cosine.

    >>> dr.sincosh(Float(1))
    ([1.1752], [1.54308])
    """
    return sinh(arg), cosh(arg)


def atan2(arg0: Any, arg1: Any, /) -> Any:
    """The angle of the point (arg1, arg0) in radians, in [-π, π]; the sign of a zero tells from
    which side it was approached.

    >>> dr.atan2(Float(1, -1, 0), Float(0, 0, -1))
    [1.5708, -1.5708, 3.14159]
    """
    if isinstance(arg0, (ArrayBase, KernelValue)) or isinstance(arg1, (ArrayBase, KernelValue)):
        return elementwise(op.atan2, arg0, arg1, name="dr.atan2")
    if isinstance(arg0, NUMBERS) and isinstance(arg1, NUMBERS):
        return math.atan2(to_float(arg0), to_float(arg1))
    raise unsupported("atan2", arg0, arg1)
