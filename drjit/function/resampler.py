"""The resampling of one axis: which samples make up each result, with what weights, and how they
are applied.

Weights are computed on the host in double precision. They are applied by traced gathers and
products, so that the result is part of the expression that uses it, and differentiates like any
other.
"""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from ..array import leaf, leaf_access
from ..array.base import ArrayBase
from ..jit import dtype as dt
from ..jit.op import ReduceMode
from . import parts
from .arithmetic import fma, maximum, minimum, select
from .evaluation import eval as evaluate
from .filters import FILTERS
from .parts import flat_class, is_array, is_flat, label

BOUNDARIES = ("zero", "nearest", "wrap", "reflect", "mirror")

# With more taps than this, an evaluated result takes several launches of one kernel.
_TAPS_PER_KERNEL = 32


def folded(index: np.ndarray, size: int, boundary: str) -> np.ndarray:
    """Positions of samples as indices into an array of `size` samples that a boundary mode
    extends."""
    if boundary == "wrap":
        return index % size
    if boundary == "reflect":
        index = index % (2 * size)
        return np.minimum(index, 2 * size - 1 - index)
    if boundary == "mirror":
        period = max(2 * size - 2, 1)
        index = index % period
        return np.minimum(index, period - index) % size
    return np.clip(index, 0, size - 1)


class Resampler:
    """Resampling of one axis from `source_res` to `target_res` samples: which samples make up each
    result, and with what weight.

    `Resampler(source_res, target_res, filter, filter_radius=None, ...)` reconstructs the signal
    with a filter, which is widened when there are fewer results than samples; or, with `convolve`,
    blurs it with a filter of the given radius. `Resampler(res, kernel, origin, ...)` convolves with
    a discrete kernel, of which entry `origin` falls on the result's own sample; `flip=False` makes
    it a correlation. With `normalize`, the weights of every result sum up to 1.

    Raises:
        TypeError: the arguments are of wrong types.
        RuntimeError: a resolution is zero, a filter, its radius or the boundary mode is unknown or
            out
            of range, or the weights of a result sum up to 0, so that they cannot be normalised.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        discrete = "kernel" in kwargs or (len(args) > 1 and not _is_integer(args[1]))
        (self._from_kernel if discrete else self._from_filter)(*args, **kwargs)

    def _from_filter(
        self,
        source_res: int,
        target_res: int,
        filter: Any,
        filter_radius: float | None = None,
        convolve: bool = False,
        boundary: str = "zero",
        normalize: bool = True,
        symbolic: bool = False,
    ) -> None:
        self._set(source_res, target_res, boundary, symbolic)
        function, radius = _filter(filter, filter_radius, convolve)
        n, m = self.source_res, self.target_res
        if convolve and n != m:
            raise RuntimeError(
                f"drjit.Resampler(): a convolution keeps the resolution, got {n} and {m}"
            )
        if n == m:
            reach = math.floor(radius)
            offsets = np.arange(-reach, reach + 1)
            if isinstance(filter, str):
                weights = function(offsets / (filter_radius if filter_radius else 1.0))
            else:
                weights = function(-offsets if convolve else offsets)
            self._set_kernel(weights, -reach, normalize)
            return
        scale = max(n / m, 1.0)
        support = radius * scale
        taps = math.ceil(2 * support - 1e-9)
        centre = (np.arange(m) + 0.5) * (n / m)
        first = np.floor(centre - support - 0.5).astype(np.int64) + 1
        index = first[:, None] + np.arange(taps)
        weights = function((index + 0.5 - centre[:, None]) / scale)
        self._set_rows(first, weights, normalize)

    def _from_kernel(
        self,
        res: int,
        kernel: Sequence[float],
        origin: int,
        boundary: str = "zero",
        normalize: bool = True,
        flip: bool = True,
        symbolic: bool = False,
    ) -> None:
        self._set(res, res, boundary, symbolic)
        weights = numbers(kernel)
        origin = operator.index(origin)
        if weights.size == 0:
            raise RuntimeError("drjit.Resampler(): the filter kernel is empty")
        if not 0 <= origin < weights.size:
            raise RuntimeError(
                f"drjit.Resampler(): 'origin' must be an index into the kernel of {weights.size} "
                f"entries, got {origin}"
            )
        if flip:
            weights, origin = weights[::-1], weights.size - 1 - origin
        self._set_kernel(weights, -origin, normalize)

    def _set(self, source_res: Any, target_res: Any, boundary: Any, symbolic: bool) -> None:
        try:
            self.source_res, self.target_res = (
                operator.index(source_res),
                operator.index(target_res),
            )
        except TypeError:
            raise TypeError(
                f"drjit.Resampler(): resolutions must be integers, got {source_res!r} and "
                f"{target_res!r}"
            ) from None
        if self.source_res < 0 or self.target_res < 0:
            raise TypeError("drjit.Resampler(): resolutions must not be negative")
        if self.source_res == 0 or self.target_res == 0:
            raise RuntimeError(
                "drjit.Resampler(): the source and target resolution must not be zero"
            )
        if boundary not in BOUNDARIES:
            shown = ", ".join(f"'{b}'" for b in BOUNDARIES)
            raise RuntimeError(
                f"drjit.Resampler(): unknown boundary mode {boundary!r}; expected one of {shown}"
            )
        self.boundary = boundary
        self.symbolic = bool(symbolic)

    def _set_kernel(self, weights: np.ndarray, shift: int, normalize: bool) -> None:
        """The same weights for all results, of samples from `shift` on relative to the result's."""
        rows = np.arange(self.target_res) + shift
        full = np.broadcast_to(weights, (self.target_res, weights.size))
        self._set_rows(rows, full, normalize)
        # What all rows have in common is applied without tables.
        self._kernel: np.ndarray | None = np.array(weights, np.float64)
        self._shift = shift
        self._row_scale: np.ndarray | None = None
        if normalize and self.boundary == "zero":
            self._row_scale = 1 / self._sums
        elif normalize:
            self._kernel = self._kernel / self._sums[0]

    def _set_rows(self, first: np.ndarray, weights: np.ndarray, normalize: bool) -> None:
        """Weights by result and tap; the first tap of a result is the sample at `first`."""
        self._kernel = None
        self._first = first
        index = first[:, None] + np.arange(weights.shape[1])
        if self.boundary == "zero":
            inside = (index >= 0) & (index < self.source_res)
            weights = np.where(inside, weights, 0.0)
        if normalize:
            self._sums = weights.sum(1)
            if not weights.shape[1] or (abs(self._sums) <= 1e-12 * abs(weights).sum(1)).any():
                raise RuntimeError(
                    "drjit.Resampler(): the weights of some results sum up to zero, because the "
                    "filter is too narrow, or vanishes at all samples; it cannot be normalised"
                )
            weights = weights / self._sums[:, None]
        self._weights = weights
        self._index = folded(index, self.source_res, self.boundary)

    @property
    def taps(self) -> int:
        """The number of samples that each result is made of."""
        return self._weights.shape[1]

    def __repr__(self) -> str:
        return (
            f"Resampler[source_res={self.source_res}, target_res={self.target_res}, "
            f"taps={self.taps}]"
        )

    # ---- application

    def resample_fwd(self, source: Any, stride: int) -> Any:
        """The results for the storage of a tensor. `stride` is the product of the sizes of the axes
        after the one that is resampled.

        Raises:
            TypeError: the source is not a one-dimensional floating-point array.
            RuntimeError: its size does not go with the resolution and the stride.
        """
        outer = self._outer(source, stride, self.source_res)
        if not source.__meta__.is_jit:
            blocks = _host(source).reshape(outer, self.source_res, stride)
            out = np.zeros((outer, self.target_res, stride))
            for k in range(self.taps):
                out += self._weights[:, k, None] * blocks[:, self._index[:, k]]
            return type(source)(out.ravel())
        if outer == 0:
            return source
        cls, work = type(source), _accumulator(type(source))
        place = _Place(self, work, outer, stride)
        total = work(0)
        for k in range(self.taps):
            where, weight, active = place.tap(k)
            value = leaf_access.gather(source, where, active, "dr.resample")
            total = fma(work(value), weight, total)
            if k % _TAPS_PER_KERNEL == _TAPS_PER_KERNEL - 1 and not self.symbolic:
                evaluate(total)
        if place.scale is not None:
            total = total * place.scale
        return leaf.resize(cls(total), outer * self.target_res * stride)

    def resample_bwd(self, target: Any, stride: int) -> Any:
        """The transpose of `resample_fwd`: every sample receives what it contributes to the
        results.

        Raises:
            TypeError: the argument is not a one-dimensional floating-point array.
            RuntimeError: its size does not go with the resolution and the stride.
        """
        outer = self._outer(target, stride, self.target_res)
        if not target.__meta__.is_jit:
            blocks = _host(target).reshape(outer, self.target_res, stride)
            out = np.zeros((outer, self.source_res, stride))
            for k in range(self.taps):
                for row, i in enumerate(self._index[:, k]):
                    out[:, i] += self._weights[row, k] * blocks[:, row]
            return type(target)(out.ravel())
        if outer == 0:
            return target
        cls, work = type(target), _accumulator(type(target))
        place = _Place(self, work, outer, stride)
        value = work(target)
        if place.scale is not None:
            value = value * place.scale
        size = outer * self.source_res * stride
        result = leaf.literal(work, 0, size)
        for k in range(self.taps):
            where, weight, active = place.tap(k)
            leaf_access.scatter_reduce(
                "add", result, [value * weight], where, active, ReduceMode.Auto
            )
        return cls(result)

    def _outer(self, value: Any, stride: int, res: int) -> int:
        if not is_array(value) or not is_flat(type(value)) or not value._dtype.is_float:
            raise TypeError(
                "drjit.Resampler(): expected a one-dimensional floating-point array, got "
                f"{label(value)}"
            )
        stride = operator.index(stride)
        if stride < 1 or len(value) % (res * stride):
            raise RuntimeError(
                f"drjit.Resampler(): an array of {len(value)} entries does not consist of blocks "
                f"of {res} times {stride} entries"
            )
        return len(value) // (res * stride)


class _Place:
    """Where the taps of each result are in the storage, and their weights, as traced arrays."""

    def __init__(self, r: Resampler, work: Any, outer: int, stride: int) -> None:
        self.r, self.work, self.stride = r, work, stride
        total = outer * max(r.source_res, r.target_res) * stride
        self.signed = flat_class(work, dt.i32 if total < 1 << 31 else dt.i64)
        lane = leaf.lane(
            flat_class(work, dt.u32 if total < 1 << 31 else dt.u64), outer * r.target_res * stride
        )
        rest, inner = _divided(lane, stride) if stride > 1 else (lane, None)
        block, row = _divided(rest, r.target_res) if outer > 1 else (None, rest)
        self.row = self.signed(row)
        base = None if block is None else self.signed(block) * (r.source_res * stride)
        if inner is not None:
            base = self.signed(inner) if base is None else base + self.signed(inner)
        self.base = base
        self.yes = parts.yes(work)
        self.scale = None
        self.table = None
        if r._kernel is None:
            first = leaf.from_numpy(self.signed, r._first)
            self.first = parts.pick(first, self.row, "dr.resample")
            self.weights = leaf.from_numpy(work, np.ascontiguousarray(r._weights.T).ravel())
        else:
            self.first = self.row + r._shift
            if r._row_scale is not None:
                scale = leaf.from_numpy(work, r._row_scale)
                self.scale = parts.pick(scale, self.row, "dr.resample")
        self.low, high = int(r._first.min()), int(r._first.max()) + r.taps - 1
        n = r.source_res
        far = self.low <= -n or high >= 2 * n - 1
        if far and r.boundary in ("wrap", "reflect", "mirror"):
            reach = np.arange(self.low, high + 1)
            self.table = leaf.from_numpy(self.signed, folded(reach, r.source_res, r.boundary))

    def tap(self, k: int) -> tuple[Any, Any, Any]:
        """Index, weight and mask of the k-th tap of every result."""
        r = self.r
        j = self.first + k
        active = self.yes
        if self.table is not None:
            j = parts.pick(self.table, j - self.low, "dr.resample")
        elif r.boundary == "zero":
            active = (j >= 0) & (j < r.source_res)
        else:
            j = _folded_once(j, r.source_res, r.boundary)
        where = j * self.stride if self.stride > 1 else j
        if self.base is not None:
            where = where + self.base
        if r._kernel is not None:
            return where, self.work(float(r._kernel[k])), active
        entry = self.row + k * r.target_res
        return where, parts.pick(self.weights, entry, "dr.resample"), active


def _folded_once(j: Any, n: int, boundary: str) -> Any:
    """`folded` as traced operations, for positions less than n beyond the ends."""
    if boundary == "wrap":
        j = select(j < 0, j + n, j)
        return select(j >= n, j - n, j)
    if boundary == "reflect":
        j = maximum(j, -1 - j)
        return minimum(j, 2 * n - 1 - j)
    if boundary == "mirror":
        j = maximum(j, -j)
        return minimum(j, 2 * n - 2 - j)
    return minimum(maximum(j, 0), n - 1)


def _divided(a: Any, n: int) -> tuple[Any, Any]:
    """Quotient and remainder, for the price of one division."""
    quotient = a // n
    return quotient, a - quotient * n


def _accumulator(cls: Any) -> Any:
    """The type that sums are computed in: half precision would round after every tap."""
    return flat_class(cls, dt.f32) if cls._dtype is dt.f16 else cls


def _host(source: Any) -> np.ndarray:
    return np.array(source._c, np.float64)


def _is_integer(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, ArrayBase)


def numbers(kernel: Any) -> np.ndarray:
    """The entries of a discrete kernel.

    Raises:
        TypeError: it is not a sequence of numbers.
    """
    try:
        weights = np.array([float(v) for v in kernel], np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            "the filter must be a preset's name, a function, or a sequence of numbers, "
            f"got {kernel!r}"
        ) from None
    return weights


def _filter(filter: Any, radius: float | None, convolve: bool) -> tuple[Callable, float]:
    """A filter as a function of NumPy arrays, and its radius."""
    if isinstance(filter, str):
        preset = FILTERS.get(filter)
        if preset is None:
            shown = ", ".join(f"'{name}'" for name in FILTERS)
            raise RuntimeError(f"'filter': unknown filter {filter!r}; expected one of {shown}")
        if radius is None:
            return preset.function, preset.radius
        if not convolve:
            raise RuntimeError(
                "drjit.Resampler(): 'filter_radius' is for filters that are functions; the radius "
                "of a preset follows from the resolutions"
            )
        if not 0 < radius < math.inf:
            raise RuntimeError(
                f"drjit.Resampler(): the filter radius must be positive, got {radius}"
            )
        return preset.function, preset.radius * radius
    if not callable(filter):
        raise TypeError(
            f"drjit.Resampler(): 'filter' must be a preset's name or a function, got {filter!r}"
        )
    if radius is None:
        raise TypeError("drjit.Resampler(): a filter that is a function needs a 'filter_radius'")
    if not 0 <= radius < math.inf:
        raise RuntimeError(f"drjit.Resampler(): the filter radius must be positive, got {radius}")

    function = cast(Callable[[float], float], filter)

    def sampled(x: np.ndarray) -> np.ndarray:
        points, where = np.unique(x, return_inverse=True)
        values = np.array([float(function(float(p))) for p in points], np.float64)
        return values[where].reshape(x.shape)

    return sampled, float(radius)
