"""Transcendental functions and roots, element by element.

They accept arrays of every floating point type and kind, and return the same type; for Python
numbers, they return double-precision floats. Complex arrays use the formulas in `complex.py`,
quaternions those in `quaternion.py` where they exist; otherwise each component is mapped
separately. For float32 and float64 arrays, results are accurate to 2 units in the last place. NaN
yields NaN.
"""

import math
from collections.abc import Callable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

from ...array import signatures
from ...array.base import ArrayBase, KernelValue, type_label
from ...array.elementwise import elementwise, numbers
from ...array.inline import RECORDERS
from ...array.special import by_formula
from ...jit.ir import dtype as dt
from ...jit.ir import op
from ...jit.lazy import np
from . import complex, quaternion  # noqa: F401 - they register their formulas

if TYPE_CHECKING:
    from ...array.signatures import Elementary

FLOATS = (float, np.floating)
NUMBERS = (bool, int, np.bool_, np.integer, *FLOATS)


def unsupported(name: str, *args: Any) -> TypeError:
    """Returns the error for arguments that are neither arrays nor numbers."""
    types = ", ".join(type_label(a) for a in args)
    return TypeError(
        f"dr.{name}(): expected a Dr.Jit array or a number, got ({types}). "
        "Lists and NumPy arrays must be converted first, e.g. Float([1, 2])."
    )


_ARRAYS = (ArrayBase, KernelValue)


# Explicit loops: every call of `select` or `minimum` runs this, and generators are slow.
def are_numbers(*args: Any) -> bool:
    for a in args:  # noqa: SIM110
        if not isinstance(a, NUMBERS):
            return False
    return True


def has_array(*args: Any) -> bool:
    for a in args:  # noqa: SIM110
        if isinstance(a, _ARRAYS):
            return True
    return False


def only_numbers(title: str, *args: Any) -> bool:
    """Returns whether there are only numbers and no array.

    Raises:
        TypeError: there is neither a number nor an array.
    """
    if has_array(*args):
        return False
    if not are_numbers(*args):
        raise unsupported(title.removeprefix("dr."), *args)
    return True


def to_float(x: Any) -> float:
    """Converts a number to a float; integers that are too large become infinite."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _on_number(o: op.Op) -> Callable[[Any], Any]:
    """Returns an operation on Python numbers: the function in `math` or, where that raises (a pole,
    an overflow), the definition shared with kernels. Integers count as 32-bit ones.
    """
    # Exact functions in `math` return integers.
    native = None if o.exact else getattr(math, o.name, None)

    def on_float(x: Any) -> Any:
        x = to_float(x)
        if native is not None:
            try:
                return float(native(x))
            except (ValueError, OverflowError):
                pass
        return elementwise(o, x, name=f"dr.{o.name}")

    def on_word(x: Any) -> Any:
        if not isinstance(x, int) or not 0 <= x < 1 << 32:
            raise TypeError(
                f"dr.{o.name}(): expected an integer array or an int in [0, 2**32), got {x!r} of "
                f"type {type_label(x)}"
            )
        return numbers(o, dt.u32, [int(x)])

    return on_float if o.domain == "f" else on_word


def elementary(text: Callable[[Any], Any]) -> "Elementary":
    """Creates the function of the unary operation with the definition's name. The definition only
    states the parameters, for editors, and the docstring."""
    name = text.__name__
    o = op.TABLE[name]
    on_number = _on_number(o)
    known = RECORDERS[o]
    takes_words = o.domain == "i"
    title = f"dr.{name}"

    def function(arg: Any, /) -> Any:
        result = known[type(arg)](arg)
        if result is not None:
            return result
        if isinstance(arg, ArrayBase):
            result = by_formula(name, arg)
            return elementwise(o, arg, name=title) if result is None else result
        if isinstance(arg, KernelValue):
            return elementwise(o, arg, name=title)
        if takes_words or isinstance(arg, NUMBERS):
            return on_number(arg)
        raise unsupported(name, arg)

    return update_wrapper(function, text)  # type: ignore[return-value]


@elementary
def sqrt(arg: Any, /) -> Any:
    """Returns the square root, correctly rounded; NaN for negative numbers.

    >>> dr.sqrt(Float(0, 2, 4)), dr.sqrt(2)
    ([0, 1.41421, 2], 1.4142135623730951)
    """


@elementary
def cbrt(arg: Any, /) -> Any:
    """Returns the cube root, also of negative numbers.

    >>> dr.cbrt(Float(-8, 27))
    [-2, 3]
    """


@elementary
def exp(arg: Any, /) -> Any:
    """Returns e to the power of the argument; infinity where that overflows.

    >>> dr.exp(Float(0, 1, 100))
    [1, 2.71828, inf]
    """


@elementary
def exp2(arg: Any, /) -> Any:
    """Returns 2 to the power of the argument, exact for integers.

    >>> dr.exp2(Float(-1, 3))
    [0.5, 8]
    """


@elementary
def expm1(arg: Any, /) -> Any:
    """Returns `exp(arg) - 1`, accurate also if the argument is close to 0.

    >>> dr.expm1(Float(1e-8, 1, 100))
    [1e-08, 1.71828, inf]
    """


@elementary
def log(arg: Any, /) -> Any:
    """Returns the natural logarithm; -infinity for 0, NaN for negative numbers.

    >>> dr.log(Float(0, 1, 10))
    [-inf, 0, 2.30259]
    """


@elementary
def log2(arg: Any, /) -> Any:
    """Returns the base-2 logarithm, exact for powers of 2; -infinity for 0, NaN for negative
    numbers.

    >>> dr.log2(Float(0.5, 8))
    [-1, 3]
    """


@elementary
def log1p(arg: Any, /) -> Any:
    """Returns `log(1 + arg)`, accurate also if the argument is close to 0; -infinity for -1, NaN
    below.

    >>> dr.log1p(Float(-1, 1e-8, 1))
    [-inf, 1e-08, 0.693147]
    """


@elementary
def sin(arg: Any, /) -> Any:
    """Returns the sine of an angle in radians, over the full range of the type; NaN for infinities.

    >>> dr.sin(Float(0, 1))
    [0, 0.841471]
    """


@elementary
def cos(arg: Any, /) -> Any:
    """Returns the cosine of an angle in radians, over the full range of the type; NaN for
    infinities.

    >>> dr.cos(Float(0, 1))
    [1, 0.540302]
    """


@elementary
def tan(arg: Any, /) -> Any:
    """Returns the tangent of an angle in radians, over the full range of the type; NaN for
    infinities.

    >>> dr.tan(Float(0, 1))
    [0, 1.55741]
    """


@elementary
def asin(arg: Any, /) -> Any:
    """Returns the arcsine, in [-π/2, π/2]; NaN outside [-1, 1].

    >>> dr.asin(Float(0, 1))
    [0, 1.5708]
    """


@elementary
def acos(arg: Any, /) -> Any:
    """Returns the arccosine, in [0, π]; NaN outside [-1, 1].

    >>> dr.acos(Float(0, 1))
    [1.5708, 0]
    """


@elementary
def atan(arg: Any, /) -> Any:
    """Returns the arctangent, in [-π/2, π/2].

    >>> dr.atan(Float(0, 1))
    [0, 0.785398]
    """


@elementary
def sinh(arg: Any, /) -> Any:
    """Returns the hyperbolic sine.

    >>> dr.sinh(Float(0, 1))
    [0, 1.1752]
    """


@elementary
def cosh(arg: Any, /) -> Any:
    """Returns the hyperbolic cosine.

    >>> dr.cosh(Float(0, 1))
    [1, 1.54308]
    """


@elementary
def tanh(arg: Any, /) -> Any:
    """Returns the hyperbolic tangent; ±1 for infinities.

    >>> dr.tanh(Float(0, 1))
    [0, 0.761594]
    """


@elementary
def asinh(arg: Any, /) -> Any:
    """Returns the inverse hyperbolic sine.

    >>> dr.asinh(Float(0, 1))
    [0, 0.881374]
    """


@elementary
def acosh(arg: Any, /) -> Any:
    """Returns the inverse hyperbolic cosine, which is not negative; NaN below 1.

    >>> dr.acosh(Float(1, 2))
    [0, 1.31696]
    """


@elementary
def atanh(arg: Any, /) -> Any:
    """Returns the inverse hyperbolic tangent; ±infinity for ±1, NaN outside [-1, 1].

    >>> dr.atanh(Float(0, 0.5, 1))
    [0, 0.549306, inf]
    """


@elementary
def erf(arg: Any, /) -> Any:
    """Returns the error function: 2/√π times the integral of exp(-t²) from 0 to the argument.

    >>> dr.erf(Float(0, 1))
    [0, 0.842701]
    """


@elementary
def erfinv(arg: Any, /) -> Any:
    """Returns the inverse of the error function; ±infinity for ±1, NaN outside [-1, 1].

    >>> dr.erfinv(Float(0, 0.5))
    [0, 0.476936]
    """


@elementary
def lgamma(arg: Any, /) -> Any:
    """Returns the logarithm of the absolute value of the gamma function; infinity for 0 and
    negative integers.

    >>> dr.lgamma(Float(1, 4))
    [0, 1.79176]
    """


@signatures.both
def sincos(arg: Any, /) -> tuple[Any, Any]:
    """Returns the sine and the cosine.

    >>> dr.sincos(Float(1))
    ([0.841471], [0.540302])
    """
    return sin(arg), cos(arg)


@signatures.both
def sincosh(arg: Any, /) -> tuple[Any, Any]:
    """Returns the hyperbolic sine and cosine.

    >>> dr.sincosh(Float(1))
    ([1.1752], [1.54308])
    """
    return sinh(arg), cosh(arg)


@signatures.binary_float
def atan2(arg0: Any, arg1: Any, /) -> Any:
    """Returns the angle of the point (arg1, arg0) in radians, in [-π, π]; the sign of a zero
    determines the side from which it is approached.

    >>> dr.atan2(Float(1, -1, 0), Float(0, 0, -1))
    [1.5708, -1.5708, 3.14159]
    """
    if only_numbers("dr.atan2", arg0, arg1):
        return math.atan2(to_float(arg0), to_float(arg1))
    return elementwise(op.atan2, arg0, arg1, name="dr.atan2")
