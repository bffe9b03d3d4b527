"""Reconstruction filters of `resample` and `convolve`, as functions of the distance in samples."""

from collections.abc import Callable

from ...jit.lazy import np
from ...jit.tuples import NamedTuple


class Filter(NamedTuple):
    """A filter and the distance beyond which it is 0."""

    function: Callable[[np.ndarray], np.ndarray]
    radius: float


def box(x: np.ndarray) -> np.ndarray:
    # A sample half way between two results counts for the first one only.
    return np.where((x > -0.5) & (x <= 0.5), 1.0, 0.0)


def linear(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - abs(x), 0.0)


def hamming(x: np.ndarray) -> np.ndarray:
    """A sinc with the window of R. W. Hamming, "Digital Filters" (1977)."""
    return np.where(abs(x) < 1, np.sinc(x) * (0.54 + 0.46 * np.cos(np.pi * x)), 0.0)


def cubic(x: np.ndarray) -> np.ndarray:
    """R. Keys, "Cubic Convolution Interpolation for Digital Image Processing" (1981), a = -1/2."""
    x = abs(x)
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def lanczos(x: np.ndarray) -> np.ndarray:
    """C. E. Duchon, "Lanczos Filtering in One and Two Dimensions" (1979), with three lobes."""
    return np.where(abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)


def gaussian(x: np.ndarray) -> np.ndarray:
    """Standard deviation 1/2, shifted down to be 0 at the radius."""
    return np.maximum(np.exp(-2 * x * x) - np.exp(-8.0), 0.0)


FILTERS = {
    "box": Filter(box, 0.5),
    "linear": Filter(linear, 1.0),
    "hamming": Filter(hamming, 1.0),
    "cubic": Filter(cubic, 2.0),
    "lanczos": Filter(lanczos, 3.0),
    "gaussian": Filter(gaussian, 2.0),
}
