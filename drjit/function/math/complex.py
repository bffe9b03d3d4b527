"""Functions of complex numbers, given as pairs of real and imaginary parts, and the accessors
`real`, `imag`, `conj`, `arg`.

Formulas are from W. Kahan, "Branch Cuts for Complex Elementary Functions" (1987), and the NIST
Digital Library of Mathematical Functions (DLMF, chapter 4), arranged so that no intermediate value
overflows or cancels where the result does not. Branch cuts are those of C99 and NumPy.
"""

import math
import sys
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from ...array import signatures, special
from ...array.base import ArrayBase
from ...array.elementwise import elementwise
from ...array.inline import RECORDERS
from ...array.promote import promote
from ...jit.ir import op
from .constants import smallest

T = TypeVar("T", bound=Any)

Pair = tuple[Any, Any]

_div, _sqrt, _exp, _exp2, _log, _log2 = (
    partial(elementwise, o) for o in (op.div, op.sqrt, op.exp, op.exp2, op.log, op.log2)
)
_sin, _cos, _sinh, _cosh, _asinh, _atanh, _atan2 = (
    partial(elementwise, o)
    for o in (op.sin, op.cos, op.sinh, op.cosh, op.asinh, op.atanh, op.atan2)
)
_abs, _select, _minimum, _maximum = (
    partial(elementwise, o) for o in (op.abs, op.select, op.minimum, op.maximum)
)
_neg, _expm1, _log1p = (partial(elementwise, o) for o in (op.neg, op.expm1, op.log1p))
_FMA = RECORDERS[op.fma]
_lt, _le, _gt, _eq = (partial(elementwise, o) for o in (op.lt, op.le, op.gt, op.eq))


def fma(a: Any, b: Any, c: Any) -> Any:
    """Returns `a b + c`, rounded once. Kernels may fuse a product and a sum if they are compiled;
    formulas that say it have the same results where Python runs them."""
    result = _FMA[type(c)](a, b, c)
    return elementwise(op.fma, a, b, c) if result is None else result


def negative(x: Any) -> Any:
    """Returns whether a floating point value is negative, counting the sign of -0, but not of
    NaN.
    """
    return _lt(_select(_eq(x, 0.0), _div(1.0, x), x), 0.0)


def _with_sign(x: Any, sign: Any) -> Any:
    """Returns `x`, which is not negative, with the sign of another value."""
    return _select(negative(sign), _neg(x), x)


def _ordered(x: Any, y: Any) -> Pair:
    """Returns the larger and the smaller of two values. One comparison decides both, so that each
    operand is differentiated once even if they are equal, and NaN is preserved.
    """
    swapped = _lt(x, y)
    return _select(swapped, y, x), _select(swapped, x, y)


def modulus(x: Any, y: Any) -> Any:
    """Returns the length of (x, y) as `a sqrt(1 + (b/a)²)`, where `a` is the larger part: squares
    of large parts would overflow. Subnormal parts are divided by a normal number instead of `a`,
    because the tangent of `b/a` would overflow.
    """
    x, y = _abs(x), _abs(y)
    a, b = _ordered(x, y)
    least = smallest(a) if isinstance(a, ArrayBase) else sys.float_info.min
    subnormal, scale = _lt(a, least), 4.0 * least
    c, d = _select(subnormal, a * (1.0 / scale), 1.0), _select(subnormal, scale, a)
    r = _div(b, d)
    inside = _select(_gt(a, 0.0), _lt(a, math.inf), False)
    # An infinite part takes precedence over NaN, as in C99 (Annex F.10.4.3).
    infinite = _select(_eq(x, math.inf), True, _eq(y, math.inf))
    return _select(inside, d * _sqrt(fma(r, r, c * c)), _select(infinite, math.inf, x + y))


def multiply(a: Any, b: Any, c: Any, d: Any) -> Pair:
    """(a + bi)(c + di)."""
    return fma(a, c, -(b * d)), fma(a, d, b * c)


def divide(a: Any, b: Any, c: Any, d: Any) -> Pair:
    """(a + bi) / (c + di): the product with the divisor's conjugate over its squared modulus."""
    n = fma(c, c, d * d)
    return _div(fma(a, c, b * d), n), _div(fma(b, c, -(a * d)), n)


def rcp(x: Any, y: Any) -> Pair:
    n = fma(x, x, y * y)
    return _div(x, n), _div(_neg(y), n)


def square(x: Any, y: Any) -> Pair:
    return (x - y) * (x + y), 2 * x * y


def sqrt(x: Any, y: Any) -> Pair:
    """Kahan's CSQRT: the part without cancellation, and the other as `y` over twice that part. It
    is differentiable on the axes, where absolute values are not.
    """
    right = _le(0.0, x)
    t = _sqrt(fma(modulus(x, y), 0.5, _select(right, x, _neg(x)) * 0.5))
    u = _select(_eq(t, 0.0), y, _div(y, t * 2.0))
    return _select(right, t, _abs(u)), _select(right, u, _with_sign(t, y))


def rsqrt(x: Any, y: Any) -> Pair:
    return rcp(*sqrt(x, y))


def exp(x: Any, y: Any) -> Pair:
    r = _exp(x)
    return r * _cos(y), r * _sin(y)


def exp2(x: Any, y: Any) -> Pair:
    r, y = _exp2(x), y * math.log(2)
    return r * _cos(y), r * _sin(y)


def _log_modulus(x: Any, y: Any, logarithm: Callable, unit: float) -> Any:
    """Returns the logarithm of the modulus; near 1, as `log √(1 + u) = atanh(u / (2 + u))` with `u
    = x² - 1 + y²`.
    """
    a, b = _ordered(_abs(x), _abs(y))
    u = fma(a - 1.0, a + 1.0, b * b)
    near = _lt(_abs(u), 0.5)
    return _select(near, _atanh(_div(u, u + 2.0)) * (1 / unit), logarithm(modulus(x, y)))


def log(x: Any, y: Any) -> Pair:
    return _log_modulus(x, y, _log, 1.0), _atan2(y, x)


def expm1(x: Any, y: Any) -> Pair:
    half = _sin(y * 0.5)
    return fma(_expm1(x), _cos(y), half * half * -2.0), _exp(x) * _sin(y)


def log1p(x: Any, y: Any) -> Pair:
    u = fma(x, x + 2.0, y * y)
    real, imaginary = log(x + 1.0, y)
    return _select(_lt(_abs(u), 0.5), _log1p(u) * 0.5, real), imaginary


def log2(x: Any, y: Any) -> Pair:
    return _log_modulus(x, y, _log2, math.log(2)), _atan2(y, x) * (1 / math.log(2))


def power(a: Any, b: Any, c: Any, d: Any) -> Pair:
    """exp(log(a + bi) (c + di)); 0 for base 0 and an exponent with a positive real part."""
    x, y = exp(*multiply(*log(a, b), c, d))
    zero = _select(_eq(_abs(a) + _abs(b), 0.0), _gt(c, 0.0), False)
    return _select(zero, 0.0, x), _select(zero, 0.0, y)


def sin(x: Any, y: Any) -> Pair:
    """DLMF 4.21.37."""
    return _sin(x) * _cosh(y), _cos(x) * _sinh(y)


def cos(x: Any, y: Any) -> Pair:
    """DLMF 4.21.38."""
    return _cos(x) * _cosh(y), _neg(_sin(x) * _sinh(y))


def sinh(x: Any, y: Any) -> Pair:
    """DLMF 4.35.34."""
    return _sinh(x) * _cos(y), _cosh(x) * _sin(y)


def cosh(x: Any, y: Any) -> Pair:
    """DLMF 4.35.35."""
    return _cosh(x) * _cos(y), _sinh(x) * _sin(y)


# Beyond this value, tanh(x) rounds to 1, and the squares of cosh are still finite.
_FLAT = {"float16": 5.0, "float32": 10.0, "float64": 20.0}


def tanh(x: Any, y: Any) -> Pair:
    """DLMF 4.35.36 with the denominator `(cosh 2x + cos 2y) / 2 = sinh²x + cos²y`, which has no
    cancellation.
    """
    dtype = getattr(type(x), "_dtype", None)
    limit = _FLAT["float64" if dtype is None else dtype.name]
    x = _maximum(-limit, _minimum(limit, x))
    s, c = _sinh(x), _cos(y)
    n = fma(s, s, c * c)
    return _div(s * _cosh(x), n), _div(_sin(y) * c, n)


def asin(x: Any, y: Any) -> Pair:
    """Kahan's CASIN."""
    a, b = sqrt(1.0 - x, _neg(y)), sqrt(1.0 + x, y)
    return _atan2(x, multiply(*a, *b)[0]), _asinh(multiply(a[0], _neg(a[1]), *b)[1])


def acos(x: Any, y: Any) -> Pair:
    """Kahan's CACOS."""
    a, b = sqrt(1.0 - x, _neg(y)), sqrt(1.0 + x, y)
    return 2.0 * _atan2(a[0], b[0]), _asinh(multiply(b[0], _neg(b[1]), *a)[1])


def acosh(x: Any, y: Any) -> Pair:
    """Kahan's CACOSH."""
    a, b = sqrt(x - 1.0, y), sqrt(x + 1.0, y)
    return _asinh(multiply(a[0], _neg(a[1]), *b)[0]), 2.0 * _atan2(a[1], b[0])


def atanh(x: Any, y: Any) -> Pair:
    """DLMF 4.37.24, with the logarithm as a real atanh where that is more accurate."""
    squared = y * y
    far, near = fma(1.0 + x, 1.0 + x, squared), fma(1.0 - x, 1.0 - x, squared)
    w = _div(2.0 * x, fma(x, x, squared) + 1.0)
    half = _select(_le(_abs(w), 0.5), 0.5 * _atanh(w), 0.25 * _log(_div(far, near)))
    return half, 0.5 * _atan2(2.0 * y, fma(1.0 - x, 1.0 + x, -squared))


def _rotated(f: Callable[[Any, Any], Pair]) -> Callable[[Any, Any], Pair]:
    """-i f(iz), which turns a hyperbolic function into the circular one and vice versa (DLMF
    4.28.8)."""

    def function(x: Any, y: Any) -> Pair:
        u, v = f(_neg(y), x)
        return v, _neg(u)

    return function


tan, atan, asinh = _rotated(tanh), _rotated(atanh), _rotated(asin)

FUNCTIONS: dict[str, Callable[[Any, Any], Pair]] = {
    f.__name__: f
    for f in (
        rcp, square, sqrt, rsqrt, exp, exp2, expm1, log, log1p, log2, sin, cos, sinh, cosh, tanh
    )
} | {"tan": tan, "asin": asin, "acos": acos, "atan": atan} | {
    "asinh": asinh, "acosh": acosh, "atanh": atanh,
}  # fmt: skip


def _on_components(f: Callable) -> Callable:
    return lambda *numbers: f(*chain.from_iterable(numbers))


_PRODUCTS = {"mul": multiply, "div": divide, "power": power, "abs": modulus}
for _name, _function in (FUNCTIONS | _PRODUCTS).items():
    special.register("complex", **{_name: _on_components(_function)})


@signatures.real_part
def real(arg: Any, /) -> Any:
    """Returns the real part of a complex number or quaternion; anything else is returned unchanged.

    >>> dr.real(Complex2f(1, 2)), dr.real(1 + 2j), dr.real(Float(3))
    ([1], 1.0, [3])
    """
    return arg.real if isinstance(arg, (complex, ArrayBase)) else arg


@signatures.imaginary_part
def imag(arg: Any, /) -> Any:
    """Returns the imaginary part of a complex number, the three imaginary parts of a quaternion, or
    zero for anything else.

    >>> dr.imag(Complex2f(1, 2)), dr.imag(1 + 2j), dr.imag(Float(3))
    ([2], 2.0, [0])
    """
    if special.kind_of(arg) in ("complex", "quaternion"):
        return arg.imag
    if hasattr(arg, "__meta__"):
        return type(arg)(0)
    from numbers import Complex

    if isinstance(arg, Complex):
        return arg.imag
    raise TypeError(f"dr.imag(): unsupported argument of type {type(arg).__name__}")


def conj(arg: T, /) -> T:
    """Returns the conjugate of a complex number or quaternion; anything else is returned unchanged.

    >>> dr.conj(Complex2f(1, 2)), dr.conj(Quaternion4f(1, 2, 3, 4)), dr.conj(1 + 2j)
    ([1-2j], [-1i-2j-3k+4], (1-2j))
    """
    if special.kind_of(arg) == "complex":
        return type(arg)(arg._components[0], _neg(arg._components[1]))
    if special.kind_of(arg) == "quaternion":
        *parts, real = arg._components
        return type(arg)(*map(_neg, parts), real)
    return arg.conjugate() if isinstance(arg, complex) else arg  # type: ignore[return-value]


@signatures.real_part
def arg(z: Any, /) -> Any:
    """Returns the angle of a complex number in radians, in [-π, π]; 0 or π for a real number.

    >>> dr.arg(Complex2f(0, 1)), dr.arg(Float(-1)), dr.arg(-1.5)
    ([1.5708], [3.14159], 3.141592653589793)
    """
    if special.kind_of(z) == "complex":
        return _atan2(z._components[1], z._components[0], name="dr.arg")
    if isinstance(z, complex):
        return math.atan2(z.imag, z.real)
    zero = 0.0
    if isinstance(z, ArrayBase) and z._dtype.is_float:
        _, zero = promote(z, 0.0)
    return _select(z >= 0, zero, zero + math.pi)
