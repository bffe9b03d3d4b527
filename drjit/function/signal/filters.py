"""Reconstruction filters of `resample` and `convolve`, as functions of the distance in samples: a
Python number, or a NumPy array for many at once."""

import math
from collections.abc import Callable
from typing import Any

from ...jit.lazy import np
from ...jit.tuples import NamedTuple


class Filter(NamedTuple):
    """A filter and the distance beyond which it is 0."""

    function: Callable[[Any], Any]
    radius: float


def where(chosen: Any, x: Any) -> Any:
    """Returns `x` where a condition holds, and 0 elsewhere."""
    if isinstance(chosen, bool):
        return x if chosen else 0.0
    return np.where(chosen, x, 0.0)


def _applied(name: str, x: Any) -> Any:
    return getattr(np if isinstance(x, np.ndarray) else math, name)(x)


def _sinc(x: Any) -> Any:
    y = math.pi * (x + where(x == 0, 1e-20))
    return _applied("sin", y) / y


def box(x: Any) -> Any:
    # A sample half way between two results counts for the first one only.
    return where((x > -0.5) & (x <= 0.5), 1.0)


def linear(x: Any) -> Any:
    return where(abs(x) < 1, 1 - abs(x))


def hamming(x: Any) -> Any:
    """A sinc with the window of R. W. Hamming, "Digital Filters" (1977)."""
    return where(abs(x) < 1, _sinc(x) * (0.54 + 0.46 * _applied("cos", math.pi * x)))


def cubic(x: Any) -> Any:
    """R. Keys, "Cubic Convolution Interpolation for Digital Image Processing" (1981), a = -1/2."""
    x = abs(x)
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return where(x < 1, near) + where((x >= 1) & (x < 2), far)


def lanczos(x: Any) -> Any:
    """C. E. Duchon, "Lanczos Filtering in One and Two Dimensions" (1979), with three lobes."""
    return where(abs(x) < 3, _sinc(x) * _sinc(x / 3))


def gaussian(x: Any) -> Any:
    """Standard deviation 1/2, shifted down to be 0 at the radius."""
    above = _applied("exp", -2 * x * x) - math.exp(-8.0)
    return where(above > 0, above)


FILTERS = {
    "box": Filter(box, 0.5),
    "linear": Filter(linear, 1.0),
    "hamming": Filter(hamming, 1.0),
    "cubic": Filter(cubic, 2.0),
    "lanczos": Filter(lanczos, 3.0),
    "gaussian": Filter(gaussian, 2.0),
}
