"""Resampling and convolution of arrays and tensors along their axes, and upsampling by
repetition."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from typing import Any

from ...array import signatures
from ...array.meta import DYNAMIC
from ...array.table import find
from ...jit.ir import dtype as dt
from ...jit.lazy import np
from .. import conversion
from ..conversion import T, integers, is_array, is_flat, tensor, unexpected
from ..data.layout import ravel
from ..data.reduce import axes_of, check_mode
from ..evaluation import eval as evaluate
from .resampler import Resampler, numbers


@contextmanager
def _named(what: str) -> Iterator[None]:
    """Makes errors of the resampler, but not of a user's filter, name the function that the user
    called."""
    try:
        yield
    except (RuntimeError, TypeError) as problem:
        text = str(problem)
        if not text.startswith("drjit.Resampler()"):
            raise
        raise type(problem)(what + text.removeprefix("drjit.Resampler")) from None


@lru_cache(maxsize=256)
def _preset(*args: Any) -> Resampler:
    return Resampler(*args)


# ------------------------------------------------------------------------------ public functions


def _storage(source: Any, what: str) -> tuple[Any, tuple[int, ...]]:
    """Returns the flat array and the shape of an argument."""
    fits = is_array(source) and source._dtype.is_float
    if fits and source._kind == "tensor":
        return source._array, source._shape
    if fits and is_flat(type(source)):
        return source, (len(source),)
    raise unexpected(what, "a floating-point tensor or one-dimensional array", source, "got")


def _result(source: Any, flat: Any, shape: tuple[int, ...], mode: str | None) -> Any:
    if mode != "symbolic":
        evaluate(flat)
    return tensor(type(source), flat, shape) if source._kind == "tensor" else flat


def resample(
    source: T,
    shape: Sequence[int],
    filter: str | Callable[[float], float] = "cubic",
    filter_radius: float | None = None,
    boundary: str = "zero",
    mode: str | None = None,
) -> T:
    """Resamples a tensor or one-dimensional array to another resolution, axis by axis.

    Sample i covers the interval from i to i + 1. The signal is reconstructed with a filter, which
    is widened when reducing the resolution, so that it averages: `box` (radius 0.5), `linear` (1),
    `hamming` (a windowed sinc, 1), `cubic` (R. Keys, "Cubic Convolution Interpolation", 1981; 2),
    `lanczos` (3), `gaussian` (standard deviation 0.5, 2), or a function of the distance, which
    needs a `filter_radius`. Weights are normalized. `boundary` defines the signal beyond the ends:
    nothing (`zero`), the last sample (`nearest`), the signal again (`wrap`), or its reflection,
    with the last sample repeated (`reflect`) or not (`mirror`).

    The result is evaluated; with `mode='symbolic'`, it remains an expression.

    Raises:
        TypeError: the source is not a floating-point tensor or one-dimensional array, or `shape` is
            not a sequence of integers.
        RuntimeError: the number of axes differs, an axis to be resized is empty, or `filter`,
            `filter_radius`, `boundary` or `mode` is invalid.

    >>> dr.resample(Float(1, 2, 4, 8), (2,), "box")
    [1.5, 6]
    """
    what = "dr.resample"
    flat, sizes = _storage(source, what)
    check_mode(mode, what)
    if is_array(shape) or not isinstance(shape, Sequence):
        raise TypeError(f"{what}(): 'shape' must be a sequence of integers, got {shape!r}")
    target: Any = conversion.size_tuple(tuple(shape), what)
    if len(target) != len(sizes):
        raise RuntimeError(
            f"{what}(): 'source' and 'shape' must have the same number of axes, not "
            f"{len(sizes)} and {len(target)}"
        )
    make = _preset if isinstance(filter, str) else Resampler
    with _named(what):  # checks the arguments
        make(1, 1, filter, filter_radius, False, boundary, False)
    for axis, (n, m) in enumerate(zip(sizes, target, strict=True)):
        if n != m:
            with _named(what):
                r = make(n, m, filter, filter_radius, False, boundary, True, mode == "symbolic")
            flat = r.resample_fwd(flat, prod(sizes[axis + 1 :]))
            if mode != "symbolic":
                evaluate(flat)
            sizes = (*sizes[:axis], m, *sizes[axis + 1 :])
    return _result(source, flat, target, mode)


def convolve(
    source: T,
    filter: str | Callable[[float], float] | Sequence[float],
    filter_radius: float | None = None,
    *,
    axis: int | tuple[int, ...] | None = None,
    boundary: str = "zero",
    normalize: bool = False,
    mode: str | None = None,
) -> T:
    """Convolves a tensor or one-dimensional array with a filter along one axis, several, or
    (`axis=None`) all of them. The shape does not change.

    The filter is a sequence of numbers, whose entry `(len - 1) // 2` is the centre, as in
    `numpy.convolve(..., mode="same")`; a function, sampled at the integers in [-filter_radius,
    filter_radius]; or the name of one of the filters of `resample`, widened by `filter_radius`.
    With `normalize`, the weights of every result sum to 1. `boundary` and `mode` are as in
    `resample`.

    Raises:
        TypeError: the source is not a floating-point tensor or one-dimensional array, or the filter
            has another type.
        RuntimeError: an axis is out of range or empty, or `filter`, `filter_radius`, `boundary` or
            `mode` is invalid.

    >>> dr.convolve(Float(1, 2, 3, 4), [1, 1, 1])
    [3, 6, 9, 7]
    """
    what = "dr.convolve"
    flat, sizes = _storage(source, what)
    check_mode(mode, what)
    axes = axes_of(axis, len(sizes), tuple(range(len(sizes))), f"{what}()")
    symbolic = mode == "symbolic"
    named, kernel = isinstance(filter, str), None
    if not named and (is_array(filter) or not callable(filter)):
        if filter_radius is not None:
            raise RuntimeError(f"{what}(): 'filter_radius' must be None for a sequence of numbers")
        kernel = numbers(filter)
    elif not named and filter_radius is None:
        raise RuntimeError(
            f"{what}(): 'filter_radius' must be specified for a filter that is a function"
        )
    make = _preset if named else Resampler
    for a in axes:
        n = sizes[a]
        with _named(what):
            if kernel is None:
                r = make(n, n, filter, filter_radius, True, boundary, normalize, symbolic)
            else:
                origin = max((len(kernel) - 1) // 2, 0)
                r = Resampler(n, kernel, origin, boundary, normalize, symbolic=symbolic)
        flat = r.resample_fwd(flat, prod(sizes[a + 1 :]))
        if not symbolic:
            evaluate(flat)
    if flat is source:
        flat = type(flat)(flat)
    return _result(source, flat, sizes, mode)


@signatures.upsampling
def upsample(t: Any, shape: Any = None, scale_factor: Any = None) -> Any:
    """Repeats every entry of a tensor, as often as given by `scale_factor` or by a target `shape`,
    whose sizes must be multiples of the tensor's; omitted axes do not change. A texture is sampled
    at the new resolution with its own filter, which needs no multiples.

    Raises:
        TypeError: the argument is not a tensor or texture, or the factors or sizes are invalid.

    >>> dr.upsample(TensorXf([1, 2]), scale_factor=[2])
    [1, 1, 2, 2]
    """
    what = "dr.upsample"
    texture = not is_array(t) and hasattr(t, "tensor") and hasattr(t, "wrap_mode")
    if not texture and not (is_array(t) and t._kind == "tensor"):
        raise unexpected(what, "a tensor or a texture", t, "got")
    if shape is not None and scale_factor is not None:
        raise TypeError(f"{what}(): give either 'shape' or 'scale_factor', not both")
    sizes = tuple(t.shape)[:-1] if texture else t._shape
    given, name = (shape, "shape") if shape is not None else (scale_factor, "scale_factor")
    if not isinstance(given, (list, tuple)) or len(given) > len(sizes):
        raise TypeError(
            f"{what}(): '{name}' must be a list of at most {len(sizes)} integers, got {given!r}"
        )
    values = list(integers(given, f"{what}(): '{name}' must contain integers, got"))
    if scale_factor is not None:
        if any(v < 1 for v in values):
            raise TypeError(f"{what}(): factors must be positive, got {given!r}")
        values = [n * f for n, f in zip(sizes, values, strict=False)]
    target = (*values, *sizes[len(values) :])
    if any(m < n for n, m in zip(sizes, target, strict=True)):
        raise TypeError(f"{what}(): the target shape {target} is smaller than {sizes}")
    if texture:
        return _upsample_texture(t, target)
    if any(m % n if n else m for n, m in zip(sizes, target, strict=True)):
        raise TypeError(f"{what}(): the sizes {target} are not multiples of {sizes}")
    if target == sizes:
        return tensor(type(t), type(t._array)(t._array), target)
    factors = [m // n if n else 1 for n, m in zip(sizes, target, strict=True)]
    flat = conversion.take_places(t._array, sizes, target, lambda k, p: p // factors[k], what)
    return tensor(type(t), flat, target)


def _upsample_texture(t: Any, target: tuple[int, ...]) -> Any:
    """Returns a texture of the same kind with the values at the cell centres of another
    resolution."""
    cls = type(t.tensor())
    precision = dt.f64 if cls._dtype is dt.f64 else dt.f32
    vector = find(cls.__meta__.namespace, "vector", precision, (len(target),))
    if not cls.__meta__.is_jit:
        centres = [
            [(k + 0.5) / n for k, n in zip(reversed(cell), reversed(target), strict=True)]
            for cell in np.ndindex(*target)
        ]
        values = [v for centre in centres for v in t.eval(vector(*centre))]
        made = tensor(cls, cls.Array(values), (*target, t.shape[-1]))
        return type(t)(made, filter_mode=t.filter_mode(), wrap_mode=t.wrap_mode())
    places = conversion.places(conversion.lanes(cls, prod(target)), target)
    position = [
        (vector.Value(p) + 0.5) * (1 / n) for p, n in zip(places[::-1], target[::-1], strict=True)
    ]
    channels = t.eval(vector(*position))
    count = len(channels)
    dims = (count if count <= 4 else DYNAMIC,)
    stacked = conversion.related(type(channels[0]), kind="vector", dims=dims)
    storage = ravel(stacked(*channels)) if count > 1 else channels[0]
    made = tensor(cls, cls.Array(storage), (*target, count))
    return type(t)(made, filter_mode=t.filter_mode(), wrap_mode=t.wrap_mode())
