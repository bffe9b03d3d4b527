"""Resampling of one axis: the samples that contribute to each result, their weights, and the
application of these.

Weights are values of a filter, computed on the host in double precision. They are applied by traced
gathers and products, so the result is part of the expression that uses it and is differentiated
like any other.
"""

import math
import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

from ...array import leaf, leaf_access
from ...array.interop import components
from ...jit.ir import dtype as dt
from ...jit.lazy import np
from ...jit.run import freeze
from ...jit.trace.access import Access
from ..conversion import T, always_true, flat_class, is_array, is_flat, pick, unexpected
from ..data.scan import block_sum
from ..evaluation import eval as evaluate
from ..kernel_loop import kernel_loop
from ..math.arithmetic import fma, maximum, minimum, select

BOUNDARIES = ("zero", "nearest", "wrap", "reflect", "mirror")

# With more taps than this, they are a loop in the kernel. The derivative of a loop would store its
# state, so if derivatives are tracked, an evaluated result takes several launches of one kernel.
_UNROLLED = 16
_TAPS_PER_KERNEL = 32
# So many weights are Python numbers: they take less time than importing NumPy.
_FEW = 2048
_NEIGHBOURS = (8, 4)
# In a loop over at least this many taps, several lanes share the taps of a result, so that they
# read adjacent samples at the same time. (The results of a convolution are adjacent themselves.)
_SHARED = 128
_LANES_PER_RESULT = 16


class Resampler:
    """Resampling of one axis from `source_res` to `target_res` samples: the samples that contribute
    to each result, and their weights.

    `Resampler(source_res, target_res, filter, filter_radius=None, ...)` reconstructs the signal
    with a filter, which is widened when reducing the resolution; or, with `convolve`, blurs it with
    a filter of the given radius. `Resampler(res, kernel, origin, ...)` convolves with a discrete
    kernel whose entry `origin` is the centre; `flip=False` makes it a correlation. With
    `normalize`, the weights of every result sum to 1.

    Raises:
        TypeError: an argument has the wrong type.
        RuntimeError: a resolution is zero, a filter, its radius or the boundary mode is unknown or
            out of range, or the weights of a result sum to 0, so that they cannot be normalized.
    """

    source_res = target_res = 0
    taps = 0
    """The number of samples that contribute to each result."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        discrete = "kernel" in kwargs or (len(args) > 1 and hasattr(args[1], "__len__"))
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
            raise _refused(f"a convolution keeps the resolution, got {n} and {m}")
        if n == m:
            reach = math.floor(radius)
            unit = (filter_radius or 1.0) if isinstance(filter, str) else -1.0 if convolve else 1.0
            weights = [function(k / unit) for k in range(-reach, reach + 1)]
            self._set_kernel(weights, -reach, normalize)
            return
        scale = max(n / m, 1.0)
        support = radius * scale
        taps = math.ceil(2 * support - 1e-9)

        def first(j: Any) -> Any:
            return ((j + 0.5) * (n / m) - support - 0.5) // 1 + 1

        def weight(i: Any, j: Any) -> Any:
            w = function((i + 0.5 - (j + 0.5) * (n / m)) / scale)
            return where((i >= 0) & (i < n), w) if boundary == "zero" else w

        self._kernel = None
        self.taps = taps
        if taps * m <= _FEW:
            self._first = [int(first(j)) for j in range(m)]
            rows = [[weight(i + k, j) for k in range(taps)] for j, i in enumerate(self._first)]
            if normalize:
                rows = [*map(_normalized, rows)]
            self._columns = [w for column in zip(*rows, strict=True) for w in column]
            return
        j = np.arange(m)
        self._first = first(j).astype(np.int64)
        weights = weight(self._first[:, None] + np.arange(taps), j[:, None])
        if normalize:
            sums = weights.sum(1)
            _check_sums(sums, abs(weights).sum(1))
            weights = weights / sums[:, None]
        self._columns = weights.T.ravel()

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
        if not weights:
            raise _refused("the filter kernel is empty")
        if not 0 <= origin < len(weights):
            raise _refused(
                f"'origin' must be an index into the kernel of {len(weights)} entries, got {origin}"
            )
        if flip:
            weights, origin = weights[::-1], len(weights) - 1 - origin
        self._set_kernel(weights, -origin, normalize)

    def _set(self, source_res: Any, target_res: Any, boundary: Any, symbolic: bool) -> None:
        try:
            self.source_res, self.target_res = map(operator.index, (source_res, target_res))
        except TypeError:
            raise _mistyped(
                f"resolutions must be integers, got {source_res!r} and {target_res!r}"
            ) from None
        if min(self.source_res, self.target_res) < 0:
            raise _mistyped("resolutions must not be negative")
        if 0 in (self.source_res, self.target_res):
            raise _refused("the source and target resolution must not be zero")
        if boundary not in BOUNDARIES:
            names = ", ".join(map(repr, BOUNDARIES))
            raise _refused(f"invalid boundary mode {boundary!r}; expected one of {names}")
        self.boundary = boundary
        self.symbolic = bool(symbolic)
        self._tables: dict[tuple[Any, str], Any] = {}

    def _set_kernel(self, weights: list[float], shift: int, normalize: bool) -> None:
        """Uses the same weights for all results. They apply to samples from `shift` on, relative to
        the result, and need no tables.
        """
        self._kernel: list[float] | None = weights
        self.taps = taps = len(weights)
        n = self.source_res
        self._first = range(shift, n + shift)
        self._shift = shift
        self._row_scale: list[float] | None = None
        if not normalize:
            return
        if self.boundary != "zero":
            self._kernel = _normalized(weights)
            return

        def scale(j: int) -> float:
            begin = min(max(-shift - j, 0), taps)
            return 1 / _total(weights[begin : min(max(n - shift - j, begin), taps)])

        # Results between these do not reach beyond the ends.
        left = min(max(-shift, 0), n)
        right = max(n - shift - taps + 1, left)
        between = [scale(left)] * (right - left) if left < right else []
        self._row_scale = [*map(scale, range(left)), *between, *map(scale, range(right, n))]

    def _rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the weights and the samples of every result."""
        index = np.array(self._first)[:, None] + np.arange(self.taps)
        if self._kernel is None:
            weights = np.reshape(self._columns, (self.taps, -1)).T
        else:
            weights = np.broadcast_to(self._kernel, index.shape)
            if self._row_scale is not None:
                weights = weights * np.array(self._row_scale)[:, None]
            if self.boundary == "zero":
                weights = np.where((index >= 0) & (index < self.source_res), weights, 0.0)
        return weights, folded(index, self.source_res, self.boundary)

    def table(self, cls: type[T], name: str, make: Callable[[], Any]) -> T:
        """Returns numbers of this resampler in memory, as an array of a class; created once."""
        key = cls, name
        if key not in self._tables:
            values = make()
            if isinstance(values, np.ndarray):
                made = leaf.from_numpy(cls, np.ascontiguousarray(values), copy=True)
            else:
                made = leaf.from_numbers(cls, values)
            freeze.permanent.add(made._node)
            self._tables[key] = made
        return self._tables[key]

    def __repr__(self) -> str:
        return (
            f"Resampler[source_res={self.source_res}, target_res={self.target_res}, "
            f"taps={self.taps}]"
        )

    # ---- application

    def resample_fwd(self, source: T, stride: int) -> T:
        """Returns the results for the storage of a tensor. `stride` is the product of the sizes of
        the axes after the resampled one.

        Raises:
            TypeError: the source is not a one-dimensional floating-point array.
            RuntimeError: its size does not match the resolution and the stride.
        """
        outer = self._outer(source, stride, self.source_res)
        if not source.__meta__.is_jit:
            blocks = components(source).reshape(outer, self.source_res, stride)
            out = np.zeros((outer, self.target_res, stride))
            weights, index = self._rows()
            for k in range(self.taps):
                out += weights[:, k, None] * blocks[:, index[:, k]]
            return type(source)(out.ravel())
        if outer == 0:
            return source
        cls, work = type(source), accumulator(type(source))
        size = outer * self.target_res * stride
        if self.taps <= _UNROLLED or source._var is not None:
            taps = Taps(self, work, outer, stride)
            totals = [work(0)]
            for k in range(self.taps):
                where, weight, active = taps.tap(k)
                at = Access(where._node, active._node, "dr.resample")
                totals = [fma(work(leaf_access.gather(source, at)), weight, totals[0])]
                if k % _TAPS_PER_KERNEL == _TAPS_PER_KERNEL - 1 and not self.symbolic:
                    evaluate(totals)
        else:
            # Neighbours along the following axes have the same weights: a lane reads several.
            counts = () if self.symbolic else _NEIGHBOURS
            count = next((n for n in counts if stride % n == 0), 1)
            shared = stride == 1 and self._kernel is None and self.taps >= _SHARED
            lanes = _LANES_PER_RESULT if shared else 1
            taps = Taps(self, work, outer, stride // count, lanes)
            totals = taps.sums(source, count)
        if taps.scale is not None:
            totals = [total * taps.scale for total in totals]
        if len(totals) == 1:
            return leaf.resize(cls(totals[0]), size)
        result = leaf.literal(cls, 0, size)
        lane = leaf.lane(flat_class(cls, dt.u32), size // len(totals))
        at = Access(lane._node, what="dr.resample", packet=len(totals))
        leaf_access.scatter(result, [cls(t) for t in totals], at)
        return result

    def resample_bwd(self, target: T, stride: int) -> T:
        """Applies the transpose of `resample_fwd`: every sample receives its contributions to the
        results.

        Raises:
            TypeError: the argument is not a one-dimensional floating-point array.
            RuntimeError: its size does not match the resolution and the stride.
        """
        outer = self._outer(target, stride, self.target_res)
        if not target.__meta__.is_jit:
            blocks = components(target).reshape(outer, self.target_res, stride)
            out = np.zeros((outer, self.source_res, stride))
            weights, index = self._rows()
            for k in range(self.taps):
                at: Any = slice(None), index[:, k]
                np.add.at(out, at, weights[:, k, None] * blocks)
            return type(target)(out.ravel())
        if outer == 0:
            return target
        cls, work = type(target), accumulator(type(target))
        taps = Taps(self, work, outer, stride)
        value = work(target)
        if taps.scale is not None:
            value = value * taps.scale
        result = leaf.literal(work, 0, outer * self.source_res * stride)
        for k in range(self.taps):
            where, weight, active = taps.tap(k)
            at = Access(where._node, active._node, "dr.resample", reduce="add")
            leaf_access.scatter(result, [value * weight], at)
        return cls(result)

    def _outer(self, value: Any, stride: int, res: int) -> int:
        if not is_array(value) or not is_flat(type(value)) or not value._dtype.is_float:
            expected = "a one-dimensional floating-point array"
            raise unexpected("drjit.Resampler", expected, value, "got")
        stride = operator.index(stride)
        if stride < 1 or len(value) % (res * stride):
            raise _refused(
                f"an array of {len(value)} entries does not consist of blocks "
                f"of {res} times {stride} entries"
            )
        return len(value) // (res * stride)


def _refused(text: str) -> RuntimeError:
    return RuntimeError(f"drjit.Resampler(): {text}")


def _mistyped(text: str) -> TypeError:
    return TypeError(f"drjit.Resampler(): {text}")


def _total(weights: list[float]) -> float:
    """Returns the sum of weights, by which they can be divided."""
    total = math.fsum(weights)
    _check_sums(total, math.fsum(map(abs, weights)))
    return total


def _normalized(weights: list[float]) -> list[float]:
    total = _total(weights)
    return [w / total for w in weights]


def _check_sums(sums: Any, sizes: Any) -> None:
    """Raises a RuntimeError if sums vanish relative to the sums of absolute weights."""
    vanish = abs(sums) <= 1e-12 * sizes
    if vanish if isinstance(vanish, bool) else vanish.any():
        raise _refused(
            "the weights of some results sum up to zero, because the filter is "
            "too narrow, or vanishes at all samples; it cannot be normalised"
        )


def numbers(kernel: Any) -> list[float]:
    """Returns the entries of a discrete kernel.

    Raises:
        TypeError: it is not a sequence of numbers.
    """
    try:
        return [float(v) for v in kernel]
    except (TypeError, ValueError):
        raise TypeError(
            "the filter must be a preset's name, a function, or a sequence of numbers, "
            f"got {kernel!r}"
        ) from None


def _filter(filter: Any, radius: Any, convolve: bool) -> tuple[Callable, float]:
    """Returns a filter as a function of a number or of a NumPy array, and its radius."""
    if isinstance(filter, str):
        if filter not in FILTERS:
            raise _refused(
                f"unknown filter {filter!r}; expected one of {', '.join(map(repr, FILTERS))}"
            )
        preset, own_radius = FILTERS[filter]
        if radius is None:
            return preset, own_radius
        if not convolve:
            raise _refused(
                "'filter_radius' must be None with a preset filter, whose "
                "radius follows from the resolutions"
            )
        if not 0 < radius < math.inf:
            raise _refused(f"the filter radius must be positive, got {radius}")
        return preset, own_radius * radius
    if not callable(filter):
        raise _mistyped(f"'filter' must be a preset's name or a function, got {filter!r}")
    if radius is None:
        raise _mistyped("'filter_radius' must be specified for a filter that is a function")
    if not 0 <= radius < math.inf:
        raise _refused(f"the filter radius must be positive, got {radius}")

    function = cache(lambda x: float(cast("Any", filter)(x)))

    def sampled(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return function(float(x))
        points, places = np.unique(x, return_inverse=True)
        values = np.array([function(float(p)) for p in points], np.float64)
        return values[places].reshape(x.shape)

    return sampled, float(radius)


def folded(index: np.ndarray, size: int, boundary: str) -> np.ndarray:
    """Maps positions of samples to indices into an array of `size` samples, extended according to a
    boundary mode."""
    if boundary == "wrap":
        return index % size
    if boundary in ("reflect", "mirror"):
        twice = boundary == "reflect"  # the samples at the ends occur twice in a row
        period = max(2 * (size - 1 + twice), 1)
        index = index % period
        return np.minimum(index, period - twice - index) % size
    return np.clip(index, 0, size - 1)


class Taps:
    """The taps of a resampler, the samples that contribute to each result, as traced arrays: their
    positions in the storage, and their weights."""

    def __init__(self, r: "Resampler", work: Any, outer: int, stride: int, lanes: int = 1) -> None:
        self.r, self.work, self.stride, self.lanes = r, work, stride, lanes
        total = outer * max(r.source_res, r.target_res * lanes) * stride
        small = max(total, r.target_res * r.taps) < 1 << 31
        self.signed = flat_class(work, dt.i32 if small else dt.i64)
        unsigned = flat_class(work, dt.u32 if small else dt.u64)
        lane = leaf.lane(unsigned, outer * r.target_res * stride * lanes)
        self.number = None  # number of the lane among those of a result
        if lanes > 1:
            lane, number = _divided(lane, lanes)
            self.number = self.signed(number)
        rest, inner = _divided(lane, stride) if stride > 1 else (lane, None)
        block, row = _divided(rest, r.target_res) if outer > 1 else (None, rest)
        self.row = self.signed(row)
        base = None if block is None else self.signed(block) * (r.source_res * stride)
        if inner is not None:
            base = self.signed(inner) if base is None else base + self.signed(inner)
        self.base = base
        self.yes = always_true(work)
        self.scale = None
        self.table = None
        if r._kernel is None:
            first = r.table(self.signed, "first", lambda: r._first)
            self.first = pick(first, self.row, "dr.resample")
        else:
            self.first = self.row + r._shift
            if r._row_scale is not None:
                scale = r.table(work, "scale", lambda: r._row_scale)
                self.scale = pick(scale, self.row, "dr.resample")
        self.low, high = int(r._first[0]), int(r._first[-1]) + r.taps - 1
        n = r.source_res
        far = self.low <= -n or high >= 2 * n - 1
        if far and r.boundary in ("wrap", "reflect", "mirror"):
            self.table = r.table(
                self.signed,
                "folded",
                lambda: folded(np.arange(self.low, high + 1), r.source_res, r.boundary),
            )

    def tap(self, k: Any) -> tuple[Any, Any, Any]:
        """Returns index, weight and mask of the k-th tap of every result; `k` is a number or an
        array."""
        r = self.r
        j = self.first + k
        active = self.yes
        if self.table is not None:
            j = _entry(self.table, j - self.low)
        elif r.boundary == "zero":
            active = (j >= 0) & (j < r.source_res)
        else:
            j = _folded_once(j, r.source_res, r.boundary)
        where = j * self.stride if self.stride > 1 else j
        if self.base is not None:
            where = where + self.base
        if r._kernel is None:
            if self.lanes > 1:
                weights = r.table(self.work, "rows", lambda: r._rows()[0].ravel())
                return where, _entry(weights, self.row * r.taps + k), active
            weights = r.table(self.work, "columns", lambda: r._columns)
            return where, _entry(weights, self.row + k * r.target_res), active
        if isinstance(k, int):
            return where, self.work(float(r._kernel[k])), active
        return where, _entry(r.table(self.work, "kernel", lambda: r._kernel), k), active

    def sums(self, source: Any, count: int = 1) -> list[Any]:
        """Returns the weighted sums of all taps, computed in a loop. With `count`, positions refer
        to records of that many entries, and there is a sum for each of them.
        """
        work, taps = self.work, self.r.taps

        def body(k: Any, *sums: Any) -> list[Any]:
            where, weight, active = self.tap(k)
            at = Access(where._node, active._node, "dr.resample", count, inside=True)
            values = leaf_access.gather_packet(source, at)
            found = [fma(work(v), weight, total) for v, total in zip(values, sums, strict=True)]
            return [k + self.lanes, *found]

        start = self.signed(0) if self.number is None else self.number
        state = [start, *[work(0) for _ in range(count)]]
        totals = kernel_loop(state, lambda k, *_: k < taps, body)[1:]
        return totals if self.lanes == 1 else [block_sum(t, self.lanes) for t in totals]


def _entry(table: Any, index: Any) -> Any:
    return leaf_access.gather(table, Access(index._node, what="dr.resample", inside=True))


def _folded_once(j: Any, n: int, boundary: str) -> Any:
    """`folded` as traced operations, for positions less than n beyond the ends."""
    if boundary == "wrap":
        j = select(j < 0, j + n, j)
        return select(j >= n, j - n, j)
    if boundary in ("reflect", "mirror"):
        twice = boundary == "reflect"
        j = maximum(j, -twice - j)
        return minimum(j, 2 * (n - 1) + twice - j)
    return minimum(maximum(j, 0), n - 1)


def _divided(a: Any, n: int) -> tuple[Any, Any]:
    """Returns quotient and remainder for the price of one division."""
    quotient = a // n
    return quotient, a - quotient * n


def accumulator(cls: Any) -> Any:
    """Returns the type in which sums are computed: half precision would round after every tap."""
    return flat_class(cls, dt.f32) if cls._dtype is dt.f16 else cls


# Reconstruction filters, as functions of the distance in samples: a number, or a NumPy array for
# many at once.


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


FILTERS: dict[str, tuple[Callable, float]] = {
    "box": (box, 0.5),
    "linear": (linear, 1.0),
    "hamming": (hamming, 1.0),
    "cubic": (cubic, 2.0),
    "lanczos": (lanczos, 3.0),
    "gaussian": (gaussian, 2.0),
}
"""The filters, and the distances beyond which they are 0."""
