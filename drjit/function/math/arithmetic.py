"""Element-wise functions that are not transcendental: selection, extrema, signs, products,
rounding, and bit operations.

Unless stated otherwise, arguments are arrays of any kind and Python numbers in any mixture, which
are promoted as by operators. For Python numbers alone, the result is a Python number.
"""

import math
from typing import Any

from ...array import inline, signatures
from ...array.base import ArrayBase, IncompatibleError, KernelValue, type_label
from ...array.elementwise import elementwise
from ...array.inline import RECORDED, RECORDERS
from ...array.promote import join, promote
from ...array.pytree import is_container, map_tree
from ...array.special import by_formula, formulas, kind_of, reciprocal
from ...array.table import related
from ...jit.ir import dtype as dt
from ...jit.ir import op
from ...jit.lazy import np
from . import transcendental as functions
from .complex import modulus, negative
from .transcendental import acos, asin, elementary, has_array, only_numbers, sqrt


def _number(value: Any) -> int | float:
    """Converts a number to `int` or `float`."""
    return float(value) if isinstance(value, functions.FLOATS) else int(value)


def _as_numbers(*values: Any) -> list:
    """Converts numbers to floats if one of them is a float, and otherwise to integers."""
    if any(isinstance(v, functions.FLOATS) for v in values):
        return [float(v) for v in values]
    return [int(v) for v in values]


# ---- Selection


@signatures.selected
def select(arg0: Any, arg1: Any, arg2: Any) -> Any:
    """Returns the second argument where the mask `arg0` is true and the third elsewhere, entry by
    entry, also within PyTrees (lists, dictionaries, ...).

    A Python `bool` selects one of the arguments as it is, promoted if one is an array. The mask may
    be a sequence of bools if another argument is an array; entries of an integer array are true if
    they are not 0. Equal non-array leaves of two PyTrees appear in the result unchanged.

    Raises:
        RuntimeError: sizes or types are incompatible.
        TypeError: the first argument is not a mask (floating point numbers are not accepted), or
            the PyTrees have different structures.

    >>> dr.select(Float(1, 2, 3) < 2.5, 1, 0)
    [1, 1, 0]
    >>> dr.select([True, False], Float(1), Float(2))
    [1, 2]
    >>> dr.select(Float(1, 2) < 2, {"a": Float(3)}, {"a": Float(4)})
    {'a': [3, 4]}
    """
    kind = type(arg2)
    if kind is float or kind is int:
        kind = type(arg1)
        if kind is float or kind is int:
            return _select_number(arg0, arg1, arg2)
    result = _SELECT[kind](arg0, arg1, arg2)
    return _select(arg0, arg1, arg2) if result is None else result


_SELECT, _FMA = RECORDERS[op.select], RECORDERS[op.fma]


def _select_number(mask: Any, a: float, b: float) -> Any:
    kind = type(mask)
    result = None
    if getattr(kind, "_kind", "") == "leaf" and "__meta__" in kind.__dict__ and mask._dtype.is_mask:
        result = _SELECT[join((kind, join((type(a), type(b)))))](mask, a, b)
    return _select(mask, a, b) if result is None else result


def _select(arg0: Any, arg1: Any, arg2: Any) -> Any:
    result = RECORDED[op.select](arg0, arg1, arg2)
    if result is not None:
        return result
    if isinstance(arg0, bool):
        if has_array(arg1, arg2):
            return elementwise(op.select, arg0, arg1, arg2, name="dr.select")
        return arg1 if arg0 else arg2
    if not has_array(arg0, arg1, arg2):
        raise IncompatibleError(
            f"dr.select(): expected a mask or a bool, got {type_label(type(arg0))}; one of the "
            "arguments has to be an array"
        )
    if type(arg1) is type(arg2) and is_container(arg1):
        return map_tree(lambda a, b: _select_entry(arg0, a, b), arg1, arg2, what="dr.select")
    return _select_leaf(arg0, arg1, arg2)


def _select_entry(mask: Any, a: Any, b: Any) -> Any:
    if not has_array(a, b) and (a is b or a == b):
        return a
    return _select_leaf(mask, a, b)


def _select_leaf(mask: Any, a: Any, b: Any) -> Any:
    if not has_array(a, b) and not (_is_operand(a) and _is_operand(b)):
        if a is b or a == b:
            return a
        raise RuntimeError(
            "dr.select(): encountered incompatible objects with an unknown type (not a Dr.Jit "
            f"array, not a PyTree). They are of the types {type_label(type(a))} and "
            f"{type_label(type(b))}."
        )
    return elementwise(op.select, mask, a, b, name="dr.select")


def _is_operand(value: Any) -> bool:
    """Returns whether a value is a sequence or a number, but not an enumeration member or the
    like."""
    return type(value) in (bool, int, float) or isinstance(
        value, (list, tuple, np.ndarray, np.generic)
    )


# ---- Extrema


def _extremum(title: str, o: op.Op, keeps_nan: bool, a: Any, b: Any) -> Any:
    """Computes `minimum` and `maximum`, which return NaN if an operand is NaN (`keeps_nan`), or
    `fmin` and `fmax`, which return the other operand. The kernel operation returns its second
    operand if either is NaN.

    If the operands are equal, the first one receives the gradient of a minimum, the second one that
    of a maximum.
    """
    is_minimum = o is op.minimum
    if keeps_nan and isinstance(a, KernelValue) != isinstance(b, KernelValue):
        # For equal operands, the cooperative vector receives the gradient, not the number or array.
        v, other = (a, b) if isinstance(a, KernelValue) else (b, a)
        if not is_minimum:
            return elementwise(o, other, v, name=title)
        taken = elementwise(op.gt, v, other, name=title)
        return elementwise(op.select, taken, other, v, name=title)
    if only_numbers(title, a, b):
        a, b = _as_numbers(a, b)
        decisive = a if keeps_nan else b
        return a if decisive != decisive or (a < b if is_minimum else a > b) else b
    # With a number that is not NaN, ordering the operands is enough, unless the order also decides
    # which of two equal ones receives the gradient.
    for number, array, exceeds in zip((b, a), (a, b), inline.exceeding(o), strict=True):
        if not functions.are_numbers(number) or number != number:
            continue
        if keeps_nan and isinstance(array, ArrayBase) and inline.is_tracked(array):
            taken = elementwise(exceeds, array, number, name=title)
            return elementwise(op.select, taken, number, array, name=title)
        operands = (number, array) if keeps_nan else (array, number)
        zero = -inline.NEAR_ZERO < number < inline.NEAR_ZERO
        if zero and (number is b) is keeps_nan and _is_floating(array):
            decided = elementwise(inline.at_zero(o, keeps_nan), array, number, name=title)
            return elementwise(op.select, decided, *operands, name=title)
        return elementwise(o, *operands, name=title)
    result = elementwise(o, a, b, name=title)
    # Cooperative vectors are built for speed: their extrema are those of kernels.
    if not result._dtype.is_float or isinstance(result, KernelValue):
        return result
    # Where this operand is NaN, the result is `a`.
    decisive = a if keeps_nan else b
    if isinstance(decisive, (list, tuple, np.ndarray)) or kind_of(decisive) == "matrix":
        decisive = type(result)(decisive)
    undefined = elementwise(op.ne, decisive, decisive)
    return elementwise(op.select, undefined, a, result, name=title)


def _is_floating(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._dtype.is_float


_MINIMUM, _MAXIMUM = [inline.extrema(o, True) for o in (op.minimum, op.maximum)]
_FMIN, _FMAX = [inline.extrema(o, False) for o in (op.minimum, op.maximum)]


@signatures.extremum
def minimum(arg0: Any, arg1: Any) -> Any:
    """Returns the smaller of two values; NaN if either is NaN.

    >>> dr.minimum(Float(1, 5), 3)
    [1, 3]
    """
    kind = type(arg1)
    result = _MINIMUM[type(arg0) if kind is float or kind is int else kind](arg0, arg1)
    return _extremum("dr.minimum", op.minimum, True, arg0, arg1) if result is None else result


@signatures.extremum
def maximum(arg0: Any, arg1: Any) -> Any:
    """Returns the larger of two values; NaN if either is NaN.

    >>> dr.maximum(Float(1, 5), 3)
    [3, 5]
    """
    kind = type(arg1)
    result = _MAXIMUM[type(arg0) if kind is float or kind is int else kind](arg0, arg1)
    return _extremum("dr.maximum", op.maximum, True, arg0, arg1) if result is None else result


@signatures.binary
def fmin(arg0: Any, arg1: Any, /) -> Any:
    """Returns the smaller of two values; if one is NaN, the other one.

    >>> dr.fmin(Float(1, dr.nan), 3)
    [1, 3]
    """
    kind = type(arg1)
    result = _FMIN[type(arg0) if kind is float or kind is int else kind](arg0, arg1)
    return _extremum("dr.fmin", op.minimum, False, arg0, arg1) if result is None else result


@signatures.binary
def fmax(arg0: Any, arg1: Any, /) -> Any:
    """Returns the larger of two values; if one is NaN, the other one.

    >>> dr.fmax(Float(1, dr.nan), 3)
    [3, 3]
    """
    kind = type(arg1)
    result = _FMAX[type(arg0) if kind is float or kind is int else kind](arg0, arg1)
    return _extremum("dr.fmax", op.maximum, False, arg0, arg1) if result is None else result


@signatures.clipped
def clip(value: Any, min: Any, max: Any) -> Any:
    """Clamps a value to the given bounds: `minimum(maximum(value, min), max)`.

    >>> dr.clip(Float(-1, 0.5, 2), 0, 1)
    [0, 0.5, 1]
    """
    return minimum(maximum(value, min), max)


@signatures.clamped
def clamp(value: Any, min: Any, max: Any, /) -> Any:
    """Same as `clip`.

    >>> dr.clamp(5, 0, 3)
    3
    """
    return clip(value, min, max)


# ---- Products


@signatures.fused
def fma(arg0: Any, arg1: Any, arg2: Any) -> Any:
    """Returns `arg0 * arg1 + arg2`; in floating point, the result is rounded once.

    >>> dr.fma(Float(1, 2), 10, 0.5)
    [10.5, 20.5]
    """
    result = _FMA[type(arg2)](arg0, arg1, arg2)
    return _fma(arg0, arg1, arg2, "dr.fma") if result is None else result


def _fma(arg0: Any, arg1: Any, arg2: Any, name: str) -> Any:
    result = RECORDED[op.fma](arg0, arg1, arg2)
    if result is not None:
        return result
    if only_numbers(name, arg0, arg1, arg2):
        a, b, c = _as_numbers(arg0, arg1, arg2)
        return elementwise(op.fma, a, b, c) if isinstance(a, float) else a * b + c
    for a in (arg0, arg1, arg2):
        if isinstance(a, KernelValue):
            exact = a._dtype.is_int
            return arg0 * arg1 + arg2 if exact else elementwise(op.fma, arg0, arg1, arg2, name=name)
    a, b, c = promote(arg0, arg1, arg2, name=name)
    meta = a.__meta__
    if meta.dtype.is_float and meta.kind in ("leaf", "vector", "tensor"):
        return elementwise(op.fma, a, b, c, name=name)
    if meta.dtype.is_mask:
        raise RuntimeError(f"{name}(): operation not supported for {type_label(a)}")
    return a * b + c


@signatures.interpolated
def lerp(a: Any, b: Any, t: Any) -> Any:
    """Interpolates linearly from `a` to `b`; `t` = 0 and 1 return them exactly.

    >>> dr.lerp(Float(1, 2), 5, 0.25)
    [2, 2.75]
    """
    return _fma(b, t, _fma(a, -t, a, "dr.lerp"), "dr.lerp")


@signatures.numeric
def square(arg: Any, /) -> Any:
    """Returns the square of the argument.

    >>> dr.square(Float(1, 2, 3)), dr.square(3)
    ([1, 4, 9], 9)
    """
    result = by_formula("square", arg)
    return arg * arg if result is None else result


@signatures.numeric
def sqr(arg: Any, /) -> Any:
    """Same as `square`.

    >>> dr.sqr(3)
    9
    """
    return square(arg)


@signatures.elementary
def rcp(arg: Any, /) -> Any:
    """Returns the reciprocal 1/x: infinity for 0, and the inverse of a matrix, complex number or
    quaternion.

    >>> dr.rcp(Float(2, 0)), dr.rcp(Complex2f(1, 2)), dr.rcp(4)
    ([0.5, inf], [0.2-0.4j], 0.25)
    """
    result = RECORDED[op.div](1, arg)
    if result is not None:
        return result
    if only_numbers("dr.rcp", arg):
        return elementwise(op.div, 1.0, float(arg))
    result = by_formula("rcp", arg)
    if result is not None:
        return result
    if arg.__meta__.kind == "matrix":
        return reciprocal(arg)
    if not arg.__meta__.dtype.is_float:
        raise RuntimeError(f"dr.rcp(): operation not supported for {type_label(arg)}")
    return elementwise(op.div, 1, arg, name="dr.rcp")


@signatures.elementary
def rsqrt(arg: Any, /) -> Any:
    """Returns the reciprocal square root 1/√x: infinity for 0, NaN for negative numbers.

    >>> dr.rsqrt(Float(4, 0)), dr.rsqrt(4)
    ([0.5, inf], 0.5)
    """
    root = RECORDED[op.sqrt](arg)
    if root is not None:
        return 1 / root
    if has_array(arg):
        result = by_formula("rsqrt", arg)
        if result is not None:
            return result
        if arg.__meta__.kind == "matrix":
            return type(arg)(*[rsqrt(row) for row in arg._components])
        return elementwise(op.div, 1, elementwise(op.sqrt, arg, name="dr.rsqrt"))
    return rcp(sqrt(arg))


@signatures.hypotenuse
def hypot(a: Any, b: Any) -> Any:
    """Returns √(a² + b²) without intermediate overflow, by scaling with the larger argument.

    >>> dr.hypot(Float(3, 1e30), Float(4, 1e30))
    [5, 1.41421e+30]
    """
    if only_numbers("dr.hypot", a, b):
        a, b = float(a), float(b)
    else:
        a, b = promote(a, b, name="dr.hypot")
        if not a.__meta__.dtype.is_float:
            raise IncompatibleError(f"dr.hypot(): operation not supported for {type_label(a)}")
    return modulus(abs(a), abs(b))


@signatures.binary_float
def power(arg0: Any, arg1: Any, /) -> Any:
    """Raises `arg0` to the power of `arg1`.

    On arrays, this is the operator `**`: a Python number with an integral value as the exponent
    means repeated multiplication and keeps the type; other exponents require floating point
    numbers. On Python numbers, the result is a float.

    Raises:
        RuntimeError: an integer array has a negative exponent or an integer array as its exponent.

    >>> dr.power(Float(1, 2, 3), 2), dr.power(Int(3), 5), dr.power(Float(2), 0.5), dr.power(2, -1)
    ([1, 4, 9], [243], [1.41421], 0.5)
    """
    if only_numbers("dr.power", arg0, arg1):
        base, exponent = functions.to_float(arg0), functions.to_float(arg1)
        try:
            return math.pow(base, exponent)
        except (ValueError, OverflowError):
            return elementwise(op.pow, base, exponent)
    return arg0**arg1


# ---- Signs


@signatures.modulus
def abs(arg: Any, /) -> Any:
    """Returns the absolute value; for complex numbers and quaternions, the modulus as a real array.

    >>> dr.abs(Float(-1, 2)), dr.abs(Complex2f(3, 4)), dr.abs(-3)
    ([1, 2], [5], 3)
    """
    result = RECORDED[op.abs](arg)
    if result is not None:
        return result
    if only_numbers("dr.abs", arg):
        value = _number(arg)
        return -value if value < 0 else value + 0
    formula = formulas.get((arg.__meta__.kind, "abs"))
    if formula is not None:
        return formula(tuple(arg._components))
    return elementwise(op.abs, arg, name="dr.abs")


@signatures.numeric
def sign(arg: Any, /) -> Any:
    """Returns -1 for negative values (and NaN), and 1 otherwise, including zeros.

    >>> dr.sign(Float(-2, 0, 3)), dr.sign(-2)
    ([-1, 1, 1], -1)
    """
    if only_numbers("dr.sign", arg):
        value = _number(arg)
        return type(value)(1 if value >= 0 else -1)
    if isinstance(arg, KernelValue):
        return elementwise(op.select, arg >= 0, arg._with_number(1), arg._with_number(-1))
    cls = type(arg)
    if cls._dtype.is_mask:
        raise RuntimeError(f"dr.sign(): operation not supported for {type_label(arg)}")
    _, *signs = promote(arg, 1, -1 if cls._dtype.is_signed else 1, name="dr.sign")
    return select(arg >= 0, *signs)


@signatures.binary
def copysign(arg0: Any, arg1: Any, /) -> Any:
    """Returns the absolute value of `arg0` with the sign of `arg1`; the sign of -0 counts.

    >>> dr.copysign(Float(1, -2), Float(-0.0, 3))
    [-1, 2]
    """
    if only_numbers("dr.copysign", arg0, arg1):
        a, b = _as_numbers(arg0, arg1)
        return math.copysign(a, b) if isinstance(a, float) else -abs(a) if b < 0 else abs(a)
    a, b = promote(arg0, arg1, name="dr.copysign")
    if b.__meta__.dtype.is_float:  # derivatives of 1 or -1, also at 0
        minus = elementwise(op.xor, negative(a), negative(b), name="dr.copysign")
    else:
        minus = elementwise(op.lt, b, 0, name="dr.copysign")
        a = elementwise(op.abs, a, name="dr.copysign")
    return elementwise(op.select, minus, elementwise(op.neg, a), a)


@signatures.binary
def mulsign(arg0: Any, arg1: Any, /) -> Any:
    """Returns `arg0` with its sign flipped where `arg1` is negative; the type is that of `arg0`.

    >>> dr.mulsign(Float(1, -2), Float(-3, -4))
    [-1, 2]
    """
    if only_numbers("dr.mulsign", arg0, arg1):
        a = _number(arg0)
        return -a if arg1 < 0 else a
    return select(arg1 < 0, -arg0, arg0)


@signatures.stepped
def step(arg0: Any, arg1: Any, /) -> Any:
    """Returns 0 where `arg0` < `arg1` and 1 elsewhere, as 32-bit integers.

    >>> dr.step(Float(1, 2, 3), 2)
    [0, 1, 1]
    """
    if not has_array(arg0, arg1):
        raise functions.unsupported("step", arg0, arg1)
    for a in (arg0, arg1):
        if isinstance(a, KernelValue):
            return elementwise(op.select, arg0 < arg1, a._with_number(0), a._with_number(1))
    return select(arg0 < arg1, 0, 1)


# ---- Rounding and classification


@elementary
def floor(arg: Any, /) -> Any:
    """Rounds down to an integral value, returned as a floating point number.

    >>> dr.floor(Float(-1.5, 1.5)), dr.floor(1.5)
    ([-2, 1], 1.0)
    """


@elementary
def ceil(arg: Any, /) -> Any:
    """Rounds up to an integral value, returned as a floating point number.

    >>> dr.ceil(Float(-1.5, 1.5))
    [-1, 2]
    """


@elementary
def trunc(arg: Any, /) -> Any:
    """Rounds towards zero to an integral value, returned as a floating point number.

    >>> dr.trunc(Float(-1.5, 1.5))
    [-1, 1]
    """


@elementary
def round(arg: Any, /) -> Any:
    """Rounds to the nearest integral value, with ties to even, returned as a floating point number.

    >>> dr.round(Float(0.5, 1.5, 2.25))
    [0, 2, 2]
    """


@signatures.tested
def isnan(arg: Any, /) -> Any:
    """Returns whether values are NaN.

    >>> dr.isnan(Float(1, dr.nan)), dr.isnan(1.5)
    ([False, True], False)
    """
    return arg != arg


@signatures.tested
def isinf(arg: Any, /) -> Any:
    """Returns whether values are infinite.

    >>> dr.isinf(Float(1, -dr.inf, dr.nan))
    [False, True, False]
    """
    return abs(arg) == math.inf


@signatures.tested
def isfinite(arg: Any, /) -> Any:
    """Returns whether values are neither infinite nor NaN.

    >>> dr.isfinite(Float(1, -dr.inf, dr.nan))
    [True, False, False]
    """
    return abs(arg) < math.inf


# ---- Bits. Python integers count as 32-bit ones.


@signatures.integral
@elementary
def popcnt(arg: Any, /) -> Any:
    """Returns the number of set bits, in the type of the argument.

    >>> dr.popcnt(UInt(0, 7)), dr.popcnt(255)
    ([0, 3], 8)
    """


@signatures.integral
@elementary
def lzcnt(arg: Any, /) -> Any:
    """Returns the number of zero bits above the highest set bit; the width of the type for 0.

    >>> dr.lzcnt(UInt(0, 1)), dr.lzcnt(UInt64(1))
    ([32, 31], [63])
    """


@signatures.integral
@elementary
def tzcnt(arg: Any, /) -> Any:
    """Returns the number of zero bits below the lowest set bit; the width of the type for 0.

    >>> dr.tzcnt(UInt(0, 8))
    [32, 3]
    """


@signatures.integral
@elementary
def brev(arg: Any, /) -> Any:
    """Reverses the order of the bits.

    >>> dr.brev(UInt(1)), dr.brev(1)
    ([2147483648], 2147483648)
    """


@signatures.integral
def log2i(arg: Any, /) -> Any:
    """Returns the position of the highest set bit, i.e. the integer part of the base-2 logarithm;
    -1 (all bits set) for 0.

    >>> dr.log2i(UInt(1, 8, 9)), dr.log2i(9)
    ([0, 3, 3], 3)
    """
    bits = type(arg)._dtype.bits if has_array(arg) else 32
    return (bits - 1) - lzcnt(arg)


def _factors(name: str, a: Any, b: Any) -> tuple[int, int]:
    """Returns two Python integers that are both unsigned or both signed 32-bit integers."""
    if isinstance(a, int) and isinstance(b, int):
        low, high = (-1 << 31, 1 << 31) if a < 0 or b < 0 else (0, 1 << 32)
        if low <= a < high and low <= b < high:
            return int(a), int(b)
    raise TypeError(f"dr.{name}(): expected integer arrays or 32-bit integers, got {a!r} and {b!r}")


@signatures.binary
def mul_hi(arg0: Any, arg1: Any, /) -> Any:
    """Returns the upper half of the double-width product of integers.

    >>> dr.mul_hi(UInt(2**31), UInt(4)), dr.mul_hi(-1, 5)
    ([2], -1)
    """
    if has_array(arg0, arg1):
        return elementwise(op.mul_hi, arg0, arg1, name="dr.mul_hi")
    a, b = _factors("mul_hi", arg0, arg1)
    return a * b >> 32


@signatures.wide_product
def mul_wide(arg0: Any, arg1: Any, /) -> Any:
    """Returns the full product of 32-bit integers, in 64 bits.

    >>> dr.mul_wide(UInt(2**31), UInt(4)), dr.mul_wide(Int(-1), 5)
    ([8589934592], [-5])
    """
    if not has_array(arg0, arg1):
        a, b = _factors("mul_wide", arg0, arg1)
        return a * b
    a, b = promote(arg0, arg1, name="dr.mul_wide")
    wide = {dt.i32: dt.i64, dt.u32: dt.u64}.get(type(a)._dtype)
    if wide is None:
        raise RuntimeError(
            f"dr.mul_wide(): operation not supported for {type_label(a)}; it takes 32-bit integers"
        )
    cls = related(type(a), dtype=wide)
    return cls(a) * cls(b)


# ---- Guarded functions and angles


@signatures.elementary
def safe_sqrt(arg: Any, /) -> Any:
    """Returns the square root of the argument, and 0 where it is negative.

    >>> dr.safe_sqrt(Float(-1, 4))
    [0, 2]
    """
    return sqrt(maximum(arg, 0))


def _within_one(arg: Any) -> Any:
    """Clips the argument to [-1, 1], with derivative 0 also at the bounds, where the derivatives of
    the inverse functions are infinite."""
    return -maximum(-maximum(arg, -1), -1)


@signatures.elementary
def safe_asin(arg: Any, /) -> Any:
    """Returns the arcsine of the argument clipped to [-1, 1].

    >>> dr.safe_asin(Float(2, -2))
    [1.5708, -1.5708]
    """
    return asin(_within_one(arg))


@signatures.elementary
def safe_acos(arg: Any, /) -> Any:
    """Returns the arccosine of the argument clipped to [-1, 1].

    >>> dr.safe_acos(Float(2, -2))
    [0, 3.14159]
    """
    return acos(_within_one(arg))


@signatures.elementary
def rad2deg(arg: Any, /) -> Any:
    """Converts radians to degrees.

    >>> dr.rad2deg(Float(1)), dr.rad2deg(dr.pi)
    ([57.2958], 180.0)
    """
    return arg * (180.0 / math.pi)


@signatures.elementary
def deg2rad(arg: Any, /) -> Any:
    """Converts degrees to radians.

    >>> dr.deg2rad(Float(180)), dr.deg2rad(180)
    ([3.14159], 3.141592653589793)
    """
    return arg * (math.pi / 180.0)
