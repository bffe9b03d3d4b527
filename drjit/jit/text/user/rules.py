"""What calls of a kernel text have to obey beyond the kinds of their arguments, by name. Each is a
function of an `accesses.Call` whose arguments have been read.
"""

from collections.abc import Callable
from typing import Any

from ...ir import dtype as dt
from .reading import ACTIVE, BoundedIndex
from .words import Range


def _in_bounds(call: Any) -> None:
    """The mask implies that the index is within bounds."""
    (index,), mask = call.indices, call.mask
    variable = call.reader.scope.get(index.text)
    if variable is not None:
        call.implies = mask.implies | {BoundedIndex(index.text, variable.version, call.check)}


def _bitcast(call: Any) -> None:
    (value,) = call.values
    if value.types[0].is_vector or value.types[0].itemsize != call.dtype.itemsize:
        raise call.error(f"{value.types[0].code} and {call.dtype.code} differ in size")
    if value.types[0].is_mask is not call.dtype.is_mask:
        raise call.error("a mask has no bits: mask(x) and u32(m) convert")


def _integer(call: Any) -> None:
    if not call.dtype.is_int:
        raise call.error(f"scatter_inc counts in integers, not in {call.dtype.code}")


def _weighted(call: Any) -> None:
    if len(call.taps) < 2 or len(call.taps) % 2 or not call.dtype.is_float:
        raise call.error("gather_weighted takes indices, each with a weight, and sums floats")
    if len({v.types for v in call.indices}) > 1:
        raise call.error("the indices have different types")


def _going(call: Any) -> None:
    call.implies = call.mask.implies


def _active(call: Any) -> None:
    call.implies = frozenset((ACTIVE,))


def _vector(call: Any) -> None:
    if (call.integers[0] if call.integers else len(call.values)) < 1:
        raise call.error("a vector has at least 1 feature")


def _total(call: Any) -> None:
    if not call.vector.is_float:
        raise call.error(f"total sums floats, not {call.vector.code}")


def _matvec(call: Any) -> None:
    reader, t = call.reader, call.dtype
    rows, columns, stride = call.integers
    taken = dt.vector(t, rows if call.flag else columns)
    if not t.is_float:
        raise call.error(f"there are no products of {t.code}")
    if call.vector is not taken:
        found = call.vector.code if call.vector is not None else "no vector"
        raise call.error(f"the factor is {found}, not {taken.code}")
    if stride < columns:
        raise call.error("the stride is smaller than a row")
    last = (rows - 1) * stride + columns
    reader.reading.words[call.word].ranges.append(Range(call.offset, last, reader.where))


def _outer(call: Any) -> None:
    y, x = [v.types[0] for v in call.values]
    rows, columns, stride = call.integers
    if (y, x) != (dt.vector(call.dtype, rows), dt.vector(call.dtype, columns)):
        raise call.error(f"the factors are {y.code} and {x.code}, not vectors of {call.dtype.code} "
                         f"with {rows} and {columns} features")  # fmt: skip
    _sums(call, (rows - 1) * stride + columns)


def _accumulate(call: Any) -> None:
    if call.vector.element is not call.dtype:
        raise call.error(f"the vector is {call.vector.code}, not of {call.dtype.code}")
    _sums(call, call.vector.count)


def _sums(call: Any, count: int) -> None:
    if not call.dtype.is_float:
        raise call.error(f"there are no such sums of {call.dtype.code}")
    where = call.reader.where
    call.reader.reading.words[call.word].ranges.append(Range(call.offset, count, where))


RULES: dict[str, Callable[[Any], None]] = {
    "in_bounds": _in_bounds, "bitcast": _bitcast, "scatter_inc": _integer,
    "gather_weighted": _weighted, "going": _going, "active": _active, "vector": _vector,
    "splat": _vector,
    "total": _total, "matvec": _matvec, "outer": _outer, "accumulate": _accumulate,
}  # fmt: skip
