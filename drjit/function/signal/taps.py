"""The taps of a resampler as traced arrays: where each result finds its samples, their weights, and
the weighted sums.
"""

from typing import TYPE_CHECKING, Any

from ...array import leaf, leaf_access
from ...jit.ir import dtype as dt
from ...jit.lazy import np
from ...jit.trace.access import Access
from .. import conversion
from ..conversion import flat_class
from ..data.scan import block_sum
from ..kernel_loop import kernel_loop
from ..math.arithmetic import fma, maximum, minimum, select

if TYPE_CHECKING:
    from .resampler import Resampler


def folded(index: np.ndarray, size: int, boundary: str) -> np.ndarray:
    """Maps positions of samples to indices into an array of `size` samples, extended according to a
    boundary mode."""
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


class Place:
    """The positions of each result's taps in the storage, and their weights, as traced arrays."""

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
        self.yes = conversion.yes(work)
        self.scale = None
        self.table = None
        if r._kernel is None:
            first = r.table(self.signed, "first", lambda: r._first)
            self.first = conversion.pick(first, self.row, "dr.resample")
        else:
            self.first = self.row + r._shift
            if r._row_scale is not None:
                scale = r.table(work, "scale", lambda: r._row_scale)
                self.scale = conversion.pick(scale, self.row, "dr.resample")
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

    def totals(self, source: Any, count: int = 1) -> list[Any]:
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
    if boundary == "reflect":
        j = maximum(j, -1 - j)
        return minimum(j, 2 * n - 1 - j)
    if boundary == "mirror":
        j = maximum(j, -j)
        return minimum(j, 2 * n - 2 - j)
    return minimum(maximum(j, 0), n - 1)


def _divided(a: Any, n: int) -> tuple[Any, Any]:
    """Returns quotient and remainder for the price of one division."""
    quotient = a // n
    return quotient, a - quotient * n


def accumulator(cls: Any) -> Any:
    """Returns the type in which sums are computed: half precision would round after every tap."""
    return flat_class(cls, dt.f32) if cls._dtype is dt.f16 else cls
