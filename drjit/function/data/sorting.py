"""Sorting along an axis, order statistics, and distinct entries. NaN counts as larger than every
number."""

from collections.abc import Sequence
from math import prod
from typing import Any

from ...array import leaf_access, signatures
from ...array.elementwise import elementwise
from ...array.tensor import permuted, permuted_back
from ...jit.ir import dtype as dt
from ...jit.ir import op
from ...jit.lazy import np
from ...jit.run import freeze_size
from .. import conversion
from ..conversion import T, flat_class, is_array, is_flat, label, lanes, nested, pick, tensor
from ..signature import explains_misuse
from . import reduce
from .create import arange, zeros
from .layout import compress
from .memory import gather, scatter
from .scan import cumsum
from .shape import concat


def _array(value: Any, what: str) -> Any:
    if not is_array(value):
        raise conversion.unexpected(what, "an array or tensor", value)
    return value


def _axis(axis: Any, ndim: int, what: str) -> int:
    number = conversion.integer(axis, f"{what}(): 'axis' must be an int, not")
    return conversion.normalized_axis(number, ndim, f"{what}()")


def _order_of(t: Any, axes: tuple[int, ...], descending: bool) -> tuple[Any, Any, int, list[int]]:
    """Returns the storage of a tensor with some axes moved to the end, the flat sorting order of
    each run of entries, the length of a run, and the order of the axes.
    """
    shape = t._shape
    order = [a for a in range(len(shape)) if a not in axes] + list(axes)
    run = prod(shape[a] for a in axes)
    moved = permuted(t._array, shape, order)
    if moved._kind == "nested":
        result = _order_on_host(moved, run, descending)
    else:
        result = leaf_access.argsort(moved, conversion.flat_class(type(t), dt.u32), descending, run)
    return moved, result, run, order


def _order_on_host(flat: Any, run: int, descending: bool) -> Any:
    rows = np.array(flat._components, flat._dtype.numpy).reshape(-1, run)
    if descending:  # the reverse of a stable sort of the reverse is stable again
        found = run - 1 - np.argsort(rows[:, ::-1], axis=1, kind="stable")[:, ::-1]
    else:
        found = np.argsort(rows, axis=1, kind="stable")
    found = found + np.arange(len(rows))[:, None] * run
    return nested(conversion.flat_class(type(flat), dt.u32), found.ravel().tolist())


def _on_tensors(value: Any, axis: Any, what: str, f: Any) -> Any:
    """Applies a function of a tensor and an axis to any array and returns an array of the same
    shape."""
    t = conversion.as_tensor(_array(value, what))
    place = _axis(axis, len(t._shape), what)
    result = t if prod(t._shape) == 0 else f(t, place)
    if value._kind == "tensor":
        return result
    if is_flat(type(value)):
        return result._array
    return conversion.with_dtype(type(value), result._dtype)(result)


@explains_misuse
def sort(value: T, /, axis: int = -1, descending: bool = False) -> T:
    """Sorts the entries in increasing or decreasing order along an axis. The sort is stable.

    Raises:
        TypeError: the argument is not an array, or `axis` is not an int.
        RuntimeError: the axis is out of bounds.

    >>> from drjit.llvm import Float
    >>> dr.sort(Float(3, 1, 2))
    [1, 2, 3]
    """

    def along(t: Any, place: int) -> Any:
        if t._array._kind == "leaf" and t._shape[place] == len(t._array):
            return tensor(type(t), leaf_access.sort(t._array, descending), t._shape)
        moved, found, _, order = _order_of(t, (place,), descending)
        ordered = permuted_back(pick(moved, found, "dr.sort"), t._shape, order)
        return tensor(type(t), ordered, t._shape)

    return _on_tensors(value, axis, "dr.sort", along)


@signatures.sorted_index
@explains_misuse
def argsort(value: Any, /, axis: int = -1, descending: bool = False) -> Any:
    """Returns the positions along an axis that sort the entries, as 32-bit unsigned integers;
    positions of equal entries keep their order.

    Raises:
        TypeError: the argument is not an array, or `axis` is not an int.
        RuntimeError: the axis is out of bounds.

    >>> from drjit.llvm import Float
    >>> dr.argsort(Float(3, 1, 2))
    [1, 2, 0]
    """

    def along(t: Any, place: int) -> Any:
        _, found, run, order = _order_of(t, (place,), descending)
        index = found if run == len(found) else found % run
        cls = conversion.with_dtype(type(t), dt.u32)
        return tensor(cls, permuted_back(index, t._shape, order), t._shape)

    result = _on_tensors(value, axis, "dr.argsort", along)
    wanted = conversion.with_dtype(type(value), dt.u32)
    return result if type(result) is wanted else wanted(result)  # if there are no entries


@signatures.middle
def median(
    value: Any, /, axis: Any = -1, keepdims: bool = False, return_index: bool = False
) -> Any:
    """Returns the entry of rank `(n - 1) // 2` among the `n` entries along one or several axes: if
    their number is even, the lower of the two middle entries.

    `None` means all axes. With `return_index`, also returns its position along the axis, or among
    the entries of all reduced axes in row-major order. A Python sequence has the median of its
    entries; anything else is its own median.

    Raises:
        TypeError: entries of a sequence cannot be ordered.
        RuntimeError: an axis is out of bounds, or there are no entries along the axes.

    >>> from drjit.llvm import Float
    >>> median(Float(3, 1, 2))
    [2]
    """
    what = "dr.median"
    if not is_array(value):
        result, place = _median_of_sequence(value, what)
        return (result, place) if return_index else result
    t = conversion.as_tensor(value)
    shape = t._shape
    axes = reduce.axes_of(axis, len(shape), tuple(range(len(shape))), what)
    run = prod([shape[a] for a in axes])
    if run == 0:
        raise RuntimeError(f"{what}(<{label(value)}>): there are no entries, the shape is {shape}")
    if axes and prod(shape):
        moved, result, _, _ = _order_of(t, axes, False)
    else:
        index_type = conversion.flat_class(type(t), dt.u32)
        moved, result = t._array, index_type(lanes(type(t), prod(shape)))
    freeze_size.decided(*shape)
    middle = (run - 1) // 2
    rows = prod(shape) // run
    chosen = pick(result, lanes(type(t), rows) * run + middle, what)
    kept = tuple([1 if a in axes else n for a, n in enumerate(shape) if keepdims or a not in axes])
    values = tensor(type(t), pick(moved, chosen, what), kept)
    indices = tensor(conversion.with_dtype(type(t), dt.u32), chosen % run, kept)
    if value._kind != "tensor":
        values, indices = (_like(value, v, axes, len(shape)) for v in (values, indices))
    return (values, indices) if return_index else values


def _median_of_sequence(value: Any, what: str) -> tuple[Any, int]:
    """Returns the median of a Python sequence or number, and its position."""
    if not isinstance(value, (Sequence, np.ndarray)):
        return value, 0
    items = list(value)
    if not items:
        raise RuntimeError(f"{what}(<{label(value)}>): there are no entries")

    def key(i: int) -> tuple[bool, Any]:  # NaN comes last
        v = items[i]
        return not isinstance(v, str) and bool(v != v), v

    place = sorted(range(len(items)), key=key)[(len(items) - 1) // 2]
    return items[place], place


def _like(value: Any, found: Any, axes: tuple[int, ...], ndim: int) -> Any:
    """Returns the reduction of an array that is not a tensor: one-dimensional, or nested if either
    the lanes were not reduced or nothing else was.
    """
    if is_flat(type(value)) or len(axes) == ndim:
        return found._array
    if axes == (ndim - 1,) and value.__meta__.is_jit:
        cls = conversion.with_dtype(type(value), found._dtype)
        return cls(tensor(type(found), found._array, (*value.shape[:-1], 1)))
    return found._array if len(found._shape) == 1 else found


@signatures.index_of
@explains_misuse
def argmin(value: Any, /, axis: int | None = None, keepdims: bool = False) -> Any:
    """Returns the position of the smallest entry along an axis, the first one if there are several;
    without an axis, the position among all entries as a one-dimensional array.

    Raises:
        TypeError: the argument is not an array, or neither a tensor nor one-dimensional.
        ValueError: there are no entries along the axis.
        RuntimeError: the axis is out of bounds.

    >>> from drjit.llvm import Float
    >>> dr.argmin(Float(3, 1, 2))
    [1]
    """
    return _extreme(value, axis, keepdims, reduce.min, "dr.argmin")


@signatures.index_of
@explains_misuse
def argmax(value: Any, /, axis: int | None = None, keepdims: bool = False) -> Any:
    """Returns the position of the largest entry along an axis; see `argmin`.

    >>> from drjit.llvm import Float
    >>> dr.argmax(Float(3, 1, 2))
    [0]
    """
    return _extreme(value, axis, keepdims, reduce.max, "dr.argmax")


def _extreme(value: Any, axis: int | None, keepdims: bool, best: Any, what: str) -> Any:
    t = conversion.as_tensor(_array(value, what))
    if value._kind != "tensor" and not is_flat(type(value)):
        raise conversion.unexpected(what, "a tensor or a one-dimensional array", value)
    if axis is None:
        t = tensor(type(t), t._array, (prod(t._shape),))
    place = 0 if axis is None else _axis(axis, len(t._shape), what)
    shape, n = t._shape, t._shape[place]
    if n == 0:
        raise ValueError(f"{what}(<{label(value)}>): axis {place} of {shape} has no entries")
    kept = tuple([1 if a == place else m for a, m in enumerate(shape) if keepdims or a != place])
    if t._array._kind == "nested":
        _, order, _, _ = _order_of(t, (place,), best is reduce.max)
        first = nested(type(order), [i % n for i in order._components[::n]])
    else:
        first = _first_of(t, place, best)
    result = tensor(conversion.with_dtype(type(t), dt.u32), first, kept)
    return result._array if axis is None or value._kind != "tensor" else result


def _first_of(t: Any, place: int, best: Any) -> Any:
    """Returns the first position of the smallest or largest entry along an axis."""
    shape, n = t._shape, t._shape[place]
    index_type = conversion.with_dtype(type(t), dt.u32)
    size, inner = prod(shape), prod(shape[place + 1 :])
    if size == 0:
        return index_type.Array()
    at = lanes(type(t), size)
    at = at // inner if inner > 1 else at
    at = at % n if prod(shape[:place]) > 1 else at
    keys = leaf_access.sort_keys(t._array)
    keys = tensor(conversion.tensor_class(type(keys)), keys, shape)
    extreme = best(keys, axis=place, keepdims=True)
    chosen = elementwise(op.select, keys == extreme, tensor(index_type, at, shape), n)
    return reduce.min(chosen, axis=place)._array


def unique(
    value: Any,
    /,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """Returns the distinct entries of a one-dimensional array or a tensor in increasing order, as
    `numpy.unique` does: a one-dimensional array or tensor.

    On request, a tuple with it also has, as 32-bit unsigned integers, the position of each distinct
    entry's first occurrence among all entries (`return_index`), the position of each entry among
    the distinct ones, in the shape of the argument (`return_inverse`), and how often each occurs
    (`return_counts`). NaN is larger than every number, and equal to itself. Gradients reach the
    first occurrences.

    How many entries there are depends on values, so this evaluates the argument: it cannot be part
    of a symbolic loop or branch.

    Raises:
        TypeError: the argument is neither a tensor nor a one-dimensional array.

    >>> dr.unique(Float(3, 1, 3, 2))
    [1, 2, 3]
    >>> dr.unique(UInt(7, 5, 7), return_index=True, return_inverse=True, return_counts=True)
    ([5, 7], [1, 0], [1, 0, 1], [1, 2])
    """
    what = "dr.unique"
    if not is_array(value) or not (value._kind == "tensor" or is_flat(type(value))):
        raise conversion.unexpected(what, "a tensor or a one-dimensional array", value)
    flat = value._array if value._kind == "tensor" else value
    cls, index_cls, n = type(flat), flat_class(type(flat), dt.u32), len(flat)

    def shaped(x: Any, shape: tuple[int, ...] | None = None) -> Any:
        whole = conversion.tensor_class(type(x))
        return x if flat is value else tensor(whole, x, shape or (len(x),))

    order, place = argsort(flat), arange(index_cls, n)
    entries = gather(cls, flat, order)
    before = gather(cls, entries, place - index_cls(place > 0))
    equal = (entries == before) | ((entries != entries) & (before != before))
    first = (place == 0) | ~equal
    starts = compress(first)
    found = [shaped(gather(cls, entries, starts))]
    if return_index:
        found.append(shaped(gather(index_cls, order, starts)))
    if return_inverse:
        inverse = zeros(index_cls, n)
        scatter(inverse, cumsum(index_cls(first)) - 1, order)
        found.append(shaped(inverse, value.shape))
    if return_counts:
        bounds = concat([starts, index_cls(n)])
        found.append(shaped(bounds[1:] - bounds[:-1]))
    return tuple(found) if len(found) > 1 else found[0]
