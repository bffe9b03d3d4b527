"""Geometry: unit vectors, cross products, spherical coordinates, and angles."""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from ...array import signatures
from ...array.base import ArrayBase, type_label
from ...array.promote import promote
from ...array.special import of_components
from ...array.table import find
from ..arguments import unexpected
from .arithmetic import fma, mulsign, rsqrt, safe_asin, select
from .dot import dot, norm, squared_norm
from .transcendental import sincos

T = TypeVar("T", bound=Any)


def normalize(arg: T, /) -> T:
    """Divides the argument by its length: a vector, complex number or quaternion per lane, or a
    whole one-dimensional array. The result is NaN for length 0.

    >>> dr.normalize(Array3f(3, 0, 4))
    [[0.6, 0, 0.8]]
    """
    return arg * rsqrt(squared_norm(arg))


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
