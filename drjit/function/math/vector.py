"""Vectors: dot products, norms, cross products, angles, spherical coordinates, and spherical
harmonics of directions.
"""

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from ...array import leaf_access, signatures
from ...array.base import ArrayBase, KernelValue, type_label
from ...array.elementwise import elementwise
from ...array.inline import RECORDERS
from ...array.promote import number_type, promote
from ...array.special import of_components
from ...array.table import find
from ...jit.ir import node, op
from ..conversion import T, integer, is_array, is_flat, label, plain, unexpected
from ..data.reduce import reduce_axes, sum
from ..evaluation import separate
from .arithmetic import fma, mulsign, rsqrt, safe_asin, select
from .transcendental import sincos

_FMA = RECORDERS[op.fma]


@signatures.product
def dot(arg0: Any, arg1: Any, /) -> Any:
    """Returns the sum along axis 0 of the products of entries or components.

    Components are summed with one rounding per term (`fma`). Complex numbers, quaternions and
    matrices are treated as arrays of their components.

    Raises:
        RuntimeError: the operands differ in size, or are both numbers.

    >>> from drjit.llvm import Array3f, Float
    >>> dr.dot(Array3f(1, 2, 3), Array3f(4, 5, 6)), dr.dot(Float(1, 2), Float(3, 4))
    ([32], [11])
    """
    cls = type(arg0)
    form = _form(cls) if cls is type(arg1) else ""
    if form == "leaf":
        return leaf_access.reduce_all("add", elementwise(op.mul, arg0, arg1, name="dr.dot"))
    if form == "vector" and len(arg0._components) == len(arg1._components) > 0:
        return _dot_terms(arg0._components, arg1._components)
    what = f"dr.dot(<{label(arg0)}>, <{label(arg1)}>)"
    if isinstance(arg0, KernelValue) or isinstance(arg1, KernelValue):
        if not _feature_by_feature(arg0, arg1):
            return sum(elementwise(op.mul, arg0, arg1, name="dr.dot"))
        arg0, arg1 = list(arg0), list(arg1)
    if not is_array(arg0) and not is_array(arg1):
        if not isinstance(arg0, Iterable) or not isinstance(arg1, Iterable):
            raise RuntimeError(f"{what}: expected arrays, or sequences of the same length")
        a, b = list(arg0), list(arg1)
        if len(a) != len(b):
            raise RuntimeError(f"{what}: the operands have {len(a)} and {len(b)} entries")
        return _dot_terms(a, b)
    parts = all(
        is_array(v) and v._kind != "leaf" for v in (arg0, arg1)
    )  # have parts that are arrays
    if parts and (arg0._kind != arg1._kind or _depth(arg0) != _depth(arg1)):
        a, b = list(plain(arg0)), list(plain(arg1))
        if len(a) == len(b) > 0:
            return _dot_terms(a, b)
    try:
        a, b = promote(plain(arg0), plain(arg1))
    except RuntimeError as error:
        raise RuntimeError(f"{what}: {error}") from None
    if a._dtype.is_mask:
        raise RuntimeError(f"{what}: the operation is not defined for masks")
    if a._kind in ("leaf", "tensor"):
        return sum(elementwise(op.mul, a, b, name="dr.dot"), axis=0)
    if len(a._components) != len(b._components):
        raise RuntimeError(
            f"{what}: the operands have {len(a._components)} and {len(b._components)} components"
        )
    if not a._components:
        return reduce_axes("add", a, 0, None, False, "dr.dot")
    result = _dot_terms(a._components, b._components)
    return node.normalize(a._dtype, result) if is_flat(type(a)) else result


def _depth(value: Any) -> int:
    """Returns the number of axes without that of lanes."""
    return value.ndim - (value._kind == "nested" and value.__meta__.is_jit)


@cache
def _form(cls: type) -> str:
    """Returns what values of a class are, if they are of the most frequent kinds of operands: a
    traced numeric array of one dimension (`leaf`) or `vector`."""
    if not issubclass(cls, ArrayBase):
        return ""
    meta = cls.__meta__
    if not meta.is_jit or meta.dtype.is_mask:
        return ""
    return meta.kind if meta.kind in ("leaf", "vector") else ""


def _feature_by_feature(arg0: Any, arg1: Any) -> bool:
    """Returns whether one operand is a cooperative vector and the other has the same length but is
    not accepted by element-wise operations: it has another precision or is not a cooperative
    vector.
    """
    if isinstance(arg0, KernelValue) and isinstance(arg1, KernelValue):
        return arg0._dtype is not arg1._dtype
    other = arg1 if isinstance(arg0, KernelValue) else arg0
    return other._kind != "leaf" if is_array(other) else isinstance(other, Iterable)


def _dot_terms(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Returns the sum of products of components."""
    if not a:
        return 0
    pairs = zip(a, b, strict=True)
    x, y = next(pairs)
    total = x * y
    for x, y in pairs:
        found = _FMA[type(total)](x, y, total)
        if found is None:
            fused = is_array(total) and total._dtype.is_float
            found = elementwise(op.fma, x, y, total, name="dr.dot") if fused else total + x * y
        total = found
    return total


@signatures.product
def abs_dot(arg0: Any, arg1: Any, /) -> Any:
    """Returns the absolute value of `dot`.

    >>> from drjit.llvm import Array2f
    >>> dr.abs_dot(Array2f(1, 2), Array2f(-3, 1))
    [1]
    """
    found = dot(arg0, arg1)
    return elementwise(op.abs, found, name="dr.abs_dot") if is_array(found) else abs(found)


@signatures.reduction
def squared_norm(
    value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False
) -> Any:
    """Returns the sum of squares along axes; see `reduce`. If a tensor is left with axes of size 1
    only, its shape is `()`, unless `keepdims` is set.

    >>> from drjit.llvm import Array2f
    >>> dr.squared_norm(Array2f(3, 4))
    [25]
    """
    if not is_array(value):
        if isinstance(value, (int, float)):
            return value * value
        return dot(value, value)
    if value._kind == "nested" and axis is Ellipsis and not keepdims:
        return dot(value, value)
    value = plain(value)
    squares = elementwise(op.mul, value, value, name="dr.squared_norm")
    result = reduce_axes("add", squares, axis, mode, keepdims, "dr.squared_norm")
    is_tensor = is_array(result) and result._kind == "tensor"
    if is_tensor and not keepdims and all(n == 1 for n in result._shape):
        result._shape = ()
    return result


@signatures.reduction
def norm(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Returns the Euclidean norm along axes, the square root of `squared_norm`.

    Raises:
        RuntimeError: the array holds integers.

    >>> from drjit.llvm import Array2f
    >>> dr.norm(Array2f(3, 4)), dr.norm([3, 4])
    ([5], 5.0)
    """
    found = squared_norm(value, axis, mode, keepdims)
    if is_array(found):
        return elementwise(op.sqrt, found, name="dr.norm")
    return found**0.5


def normalize(arg: T, /) -> T:
    """Divides the argument by its length: a vector, complex number or quaternion per lane, or a
    whole one-dimensional array. The result is NaN for length 0, and empty for an empty array.

    >>> dr.normalize(Array3f(3, 0, 4))
    [[0.6, 0, 0.8]]
    """
    scale = rsqrt(squared_norm(arg))
    return arg if _form(type(arg)) == "leaf" and not len(arg) else arg * scale


@signatures.cross_product
def cross(arg0: Any, arg1: Any, /) -> Any:
    """Returns the cross product of vectors with three components.

    Raises:
        TypeError: an argument does not have three components.

    >>> dr.cross(Array3f(1, 0, 0), Array3f(0, 1, 0))
    [[0, 0, 1]]
    """
    for a in (arg0, arg1):
        if getattr(a, "_kind", "") != "nested" or len(a._components) != 3:
            raise TypeError(
                f"dr.cross(): expected two arrays with three components, "
                f"got {type_label(arg0)} and {type_label(arg1)}"
            )
    u, v = promote(arg0, arg1, name="dr.cross")
    return of_components(type(u), cross_product(u._components, v._components))


def cross_product(u: Sequence[Any], v: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Returns the components of the cross product of two vectors with three components."""
    (a, b, c), (d, e, f) = u, v
    return fma(b, f, -(c * e)), fma(c, d, -(a * f)), fma(a, e, -(b * d))


@signatures.direction
def sphdir(theta: Any, phi: Any) -> Any:
    """Returns the unit vector at polar angle `theta` from the z axis and azimuth `phi` from the x
    axis, in radians.

    Raises:
        TypeError: neither argument is a one-dimensional array.

    >>> dr.sphdir(Float(0), Float(0))
    [[0, 0, 1]]
    """
    if not (isinstance(theta, ArrayBase) or isinstance(phi, ArrayBase)):
        raise TypeError(
            "dr.sphdir(): expected one-dimensional arrays, "
            f"got {type_label(theta)} and {type_label(phi)}"
        )
    theta, phi = promote(theta, phi, name="dr.sphdir")
    meta = theta.__meta__
    if meta.kind != "leaf":
        raise unexpected("dr.sphdir", "one-dimensional arrays", theta, "got")
    (st, ct), (sp, cp) = sincos(theta), sincos(phi)
    return find(meta.namespace, "vector", meta.dtype, (3,))(cp * st, sp * st, ct)


@signatures.angle
def unit_angle(a: Any, b: Any) -> Any:
    """Returns the angle between unit vectors in radians, accurate also for angles near 0 and π.

    Computes `2 asin(|b - a| / 2)`, after W. Kahan, "How Futile are Mindless Assessments of Roundoff
    in Floating-Point Computation?" (2006), section 12; beyond a right angle, `-a` takes the place
    of `a`.

    >>> dr.unit_angle(Array3f(1, 0, 0), Array3f(0, 1, 0))
    [1.5708]
    """
    cosine = dot(a, b)
    angle = 2 * safe_asin(0.5 * norm(b - mulsign(a, cosine)))
    return select(cosine >= 0, angle, math.pi - angle)


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
    x, y, z = _three_components(d)
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


def _three_components(d: Any) -> list[Any]:
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
