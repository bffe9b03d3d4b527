"""Colour: the transfer curve of sRGB, and conversions between linear sRGB and Oklab."""

from typing import Any

from ...array.base import ArrayBase, type_label
from ...array.promote import number_type
from ...array.special import of_components
from ..conversion import T, nested, related, tensor, unexpected
from ..data.layout import ravel, unravel
from .arithmetic import abs as abs_
from .arithmetic import clip as clip_
from .arithmetic import fma, maximum, mulsign, power, select
from .transcendental import cbrt

Matrix = tuple[tuple[float, float, float], ...]

# B. Ottosson, "A perceptual color space for image processing" (2020, matrices of 2021): linear sRGB
# to cone responses, their cube roots to Lab, and back.
_CONES: Matrix = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
_LAB: Matrix = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)
_LAB_INVERSE: Matrix = (
    (1.0, 0.3963377774, 0.2158037573),
    (1.0, -0.1055613458, -0.0638541728),
    (1.0, -0.0894841775, -1.2914855480),
)
_CONES_INVERSE: Matrix = (
    (4.0767416621, -3.3077115913, 0.2309699292),
    (-1.2684380046, 2.6097574011, -0.3413193965),
    (-0.0041960863, -0.7034186147, 1.7076147010),
)


def _real(x: Any, what: str) -> Any:
    """Converts an argument to a floating point number or array."""
    if isinstance(x, ArrayBase):
        return x if x._dtype.is_float else x * 1.0
    if number_type(type(x)) is None:
        raise unexpected(what, "a number or an array", x, "got")
    return float(x)


def _decoded(x: Any) -> Any:
    # Bounds keep the branch that is not taken, and its derivative, finite.
    base = fma(maximum(x, 0.04045), 1 / 1.055, 0.055 / 1.055)
    return select(x <= 0.04045, x * (1 / 12.92), power(base, 2.4))


def _encoded(x: Any) -> Any:
    root = power(maximum(x, 0.0031308), 1 / 2.4)
    return select(x <= 0.0031308, x * 12.92, fma(root, 1.055, -0.055))


def srgb_to_linear(x: T, clip: bool = True) -> T:
    """Converts sRGB values to linear intensities: the inverse of the transfer curve of IEC
    61966-2-1.

    Values are first clamped to [0, 1]. With `clip=False`, the curve extends beyond 1, and negative
    values are mirrored: they are converted by magnitude and keep their sign.

    Raises:
        TypeError: the argument is neither a number nor an array.

    >>> dr.srgb_to_linear(Float(0, 0.5, 1, 2))
    [0, 0.214041, 1, 1]
    """
    x = _real(x, "dr.srgb_to_linear")
    return _decoded(clip_(x, 0.0, 1.0)) if clip else mulsign(_decoded(abs_(x)), x)


def linear_to_srgb(x: T, clip: bool = True) -> T:
    """Converts linear intensities to sRGB values: the transfer curve of IEC 61966-2-1.

    Values are first clamped to [0, 1]. With `clip=False`, the curve extends beyond 1, and negative
    values are mirrored: they are converted by magnitude and keep their sign.

    Raises:
        TypeError: the argument is neither a number nor an array.

    >>> dr.linear_to_srgb(Float(0, 0.5, 1, 2))
    [0, 0.735357, 1, 1]
    """
    x = _real(x, "dr.linear_to_srgb")
    return _encoded(clip_(x, 0.0, 1.0)) if clip else mulsign(_encoded(abs_(x)), x)


def linear_srgb_to_oklab(value: T) -> T:
    """Converts linear sRGB colours to Oklab coordinates (lightness L, a from green to red, b from
    blue to yellow).

    Colour channels are the first axis of an array (`Array3f`, `Array4f`) and the last axis of a
    tensor; a fourth channel, alpha, stays unchanged.

    Raises:
        TypeError: the argument is not a floating-point array or tensor, or the axis does not have 3
            or 4 entries.

    >>> dr.linear_srgb_to_oklab(Array3f(1, 0, 0))
    [[0.627955, 0.224863, 0.125846]]
    """

    def convert(rgb: list) -> list:
        return _transform(_LAB, [cbrt(c) for c in _transform(_CONES, rgb)])

    return _convert(value, convert, "dr.linear_srgb_to_oklab")


def oklab_to_linear_srgb(value: T) -> T:
    """Converts Oklab coordinates to linear sRGB colours: the inverse of `linear_srgb_to_oklab`,
    with the same layout.

    Raises:
        TypeError: the argument is not a floating-point array or tensor, or the axis does not have 3
            or 4 entries.

    >>> dr.oklab_to_linear_srgb(Array3f(1, 0, 0))
    [[1, 1, 1]]
    """

    def convert(lab: list) -> list:
        return _transform(_CONES_INVERSE, [c * c * c for c in _transform(_LAB_INVERSE, lab)])

    return _convert(value, convert, "dr.oklab_to_linear_srgb")


def _transform(matrix: Matrix, v: list) -> list:
    sums = [fma(v[1], b, v[2] * c) for _, b, c in matrix]
    return [fma(v[0], row[0], s) for row, s in zip(matrix, sums, strict=True)]


def _convert(value: Any, convert: Any, what: str) -> Any:
    if not isinstance(value, ArrayBase) or not value._dtype.is_float:
        raise unexpected(what, "a floating-point array or tensor", value, "got")
    cls = type(value)
    if (
        value._kind == "nested"
        and value.__meta__.kind == "vector"
        and len(value._components) in (3, 4)
    ):
        return of_components(cls, [*convert(value._components[:3]), *value._components[3:]])
    shape = value._shape if value._kind == "tensor" else ()
    if not shape or shape[-1] not in (3, 4):
        raise TypeError(
            f"{what}(): the first axis of an array, or the last axis of a tensor, must have 3 or 4 "
            f"entries; got {type_label(value)} of shape {value.shape}"
        )
    channels, flat = shape[-1], value._array
    if not cls.__meta__.is_jit:
        columns = [nested(cls.Array, flat._components[k::channels]) for k in range(channels)]
        columns[:3] = convert(columns[:3])
        entries = [
            v for pixel in zip(*[c._components for c in columns], strict=True) for v in pixel
        ]
        return tensor(cls, nested(cls.Array, entries), shape)
    if len(flat) == 0:
        return value
    vector = related(cls, kind="vector", dims=(channels,))
    pixels = unravel(vector, flat)
    done = of_components(vector, [*convert(pixels._components[:3]), *pixels._components[3:]])
    return tensor(cls, ravel(done), shape)
