"""Axes of tensors: reordering, axes of size 1, and selection of entries along an axis."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...array import leaf, table
from ...array.base import OperandError
from ...array.elementwise import elementwise
from ...array.interop import is_foreign_array
from ...array.special import kind_of
from ...array.tensor import getitem, select, transposed
from ...jit.ir import dtype as dt
from ...jit.ir import op
from ...jit.lazy import np
from .. import conversion
from ..conversion import T, is_array, is_array_class, is_flat, label, tensor

if TYPE_CHECKING:
    from ...array.kinds import Convertible, Index


def tensor_argument(value: Any, what: str) -> Any:
    """Returns the argument if it is a tensor.

    Raises:
        TypeError: the value is not a tensor.
    """
    if not is_array(value) or value._kind != "tensor":
        raise conversion.unexpected(what, "a tensor such as TensorXf", value)
    return value


def _given(axis: Any, what: str) -> tuple[int, ...]:
    return conversion.integers(axis, f"{what}(): expected an axis or a tuple of axes, not")


def _axes(axis: Any, ndim: int, what: str) -> tuple[int, ...]:
    """Returns one or several axes, counted from the front and checked for duplicates."""
    given = _given(axis, what)
    result = tuple([conversion.normalized_axis(a, ndim, f"{what}()") for a in given])
    if len(set(result)) < len(result):
        raise RuntimeError(f"{what}(): duplicate axes in {axis!r}")
    return result


def moveaxis(arg: T, /, source: int | Sequence[int], destination: int | Sequence[int]) -> T:
    """Moves one or several axes of a tensor to other positions; the others keep their order.

    Raises:
        TypeError: the argument is not a tensor.
        ValueError: the numbers of axes differ.
        RuntimeError: an axis is out of bounds, or occurs twice.

    >>> from drjit.llvm import TensorXf
    >>> moveaxis(TensorXf([[1, 2, 3]]), 0, 1).shape
    (3, 1)
    """
    what = "dr.moveaxis"
    ndim = len(tensor_argument(arg, what)._shape)
    start, end = _axes(source, ndim, what), _axes(destination, ndim, what)
    if len(start) != len(end):
        raise ValueError(f"{what}(): 'source' names {len(start)} axes and 'destination' {len(end)}")
    order = [a for a in range(ndim) if a not in start]
    for place, axis in sorted(zip(end, start, strict=True)):
        order.insert(place, axis)
    return transposed(arg, order, what)


def transpose(value: T, /, axes: tuple[int, ...] | None = None) -> T:
    """Returns a tensor with its axes in the order `axes`, by default reversed, or the transpose of
    a matrix.

    Raises:
        TypeError: the argument is neither a tensor nor a matrix.
        RuntimeError: `axes` is not a permutation of the axes.

    >>> from drjit.llvm import TensorXf
    >>> transpose(TensorXf([[1, 2], [3, 4]]))
    [[1, 3],
     [2, 4]]
    """
    what = "dr.transpose"
    if axes is None and kind_of(value) == "matrix":
        return value.T
    ndim = len(tensor_argument(value, what)._shape)
    if axes is None:
        return transposed(value, range(ndim)[::-1], what)
    if len(_given(axes, what)) != ndim:
        raise RuntimeError(f"{what}(): 'axes' must have length {ndim}, not {axes!r}")
    try:
        order = _axes(axes, ndim, what)
    except RuntimeError as error:
        raise RuntimeError(f"{error}; it must be a permutation of the {ndim} axes") from None
    return transposed(value, order, what)


def swapaxes(value: T, /, axis1: int, axis2: int) -> T:
    """Swaps two axes of a tensor.

    Raises:
        TypeError: the argument is not a tensor.
        RuntimeError: an axis is out of bounds.
    """
    what = "dr.swapaxes"
    ndim = len(tensor_argument(value, what)._shape)
    (a,), (b,) = _axes(axis1, ndim, what), _axes(axis2, ndim, what)
    order = list(range(ndim))
    order[a], order[b] = b, a
    return transposed(value, order, what)


def expand_dims(value: T, /, axis: int | tuple[int, ...]) -> T:
    """Inserts axes of size 1 into a tensor, at the given positions of the result.

    Raises:
        TypeError: the argument is not a tensor.
        RuntimeError: an axis is out of bounds, or occurs twice.

    >>> from drjit.llvm import TensorXf
    >>> expand_dims(TensorXf([1, 2]), (0, 2)).shape
    (1, 2, 1)
    """
    what = "dr.expand_dims"
    shape = list(tensor_argument(value, what)._shape)
    for place in sorted(_axes(axis, len(shape) + len(_given(axis, what)), what)):
        shape.insert(place, 1)
    return reshaped(value, shape)


def squeeze(value: T, /, axis: int | tuple[int, ...] | None = None) -> T:
    """Removes the given axes of size 1 from a tensor, by default all of them.

    Raises:
        TypeError: the argument is not a tensor.
        RuntimeError: an axis is out of bounds or does not have size 1.
    """
    what = "dr.squeeze"
    shape = tensor_argument(value, what)._shape
    if axis is None:
        return reshaped(value, [n for n in shape if n != 1])
    gone = _axes(axis, len(shape), what)
    for a in gone:
        if shape[a] != 1:
            raise RuntimeError(f"{what}(): axis {a} has size {shape[a]}, not 1")
    return reshaped(value, [n for a, n in enumerate(shape) if a not in gone])


def reshaped(value: Any, shape: Any) -> Any:
    """Returns a tensor with the same entries in another shape."""
    if tuple(shape) == value._shape:
        return value
    return tensor(type(value), type(value._array)(value._array), tuple(shape))


# Entries


def take(value: T, index: "Index", axis: int = 0) -> T:
    """Returns the entries of a tensor at one or several positions along an axis.

    An integer removes the axis, as a one-dimensional array with one entry does; other arrays and
    sequences of integers replace it by their axes. Negative positions count from the end. The value
    may be a one-dimensional array as well.

    Raises:
        TypeError: the value is not a tensor, or the index is not an integer, or an array or
            sequence of integers.
        IndexError: a position is out of bounds.
        RuntimeError: the axis is out of bounds.

    >>> from drjit.llvm import TensorXf, UInt
    >>> take(TensorXf([[1, 2], [3, 4]]), UInt(1, 0), axis=1)
    [[2, 1],
     [4, 3]]
    """
    what = "dr.take"
    if is_array(value) and is_flat(type(value)):
        return take(conversion.as_tensor(value), index, axis)._array
    tensor_argument(value, what)
    (place,) = _axes(axis, len(value._shape), what)
    if isinstance(index, (list, tuple, range)) or is_foreign_array(index):
        entries = np.asarray(index)
        if entries.ndim and entries.size and entries.dtype.kind not in "iu":
            raise TypeError(
                f"{what}(): the index has elements of type {entries.dtype}, not integers"
            )
        whole = conversion.with_dtype(type(value), dt.i64)
        index = whole(entries.astype(np.int64)) if entries.ndim else entries.item()
    result = getitem(value, (slice(None),) * place + (index,), f"{what}()")
    return squeeze(result, place) if _is_single(index) else result


def _is_single(index: Any) -> bool:
    """Returns whether an index is a one-dimensional array that stands for one number."""
    is_numeric = is_array(index) and is_flat(type(index)) and not index._dtype.is_mask
    return is_numeric and conversion.flat_size(index) == 1


def take_interp(value: T, pos: "Convertible", axis: int = 0) -> T:
    """Returns the linearly interpolated entries of a tensor at fractional positions along an axis.

    `pos` is a number, which removes the axis, as a one-dimensional array with one entry does, or an
    array, whose axes replace it. Positions beyond the first and last entry extrapolate the first
    and last segment.

    Raises:
        TypeError: the value is not a floating point tensor, or `pos` is not numeric.
        RuntimeError: the axis is out of bounds, or has no entries.

    >>> from drjit.llvm import Float, TensorXf
    >>> take_interp(TensorXf([1, 2, 4]), Float(0.5, 1.5))
    [1.5, 3]
    """
    what = "dr.take_interp"
    if is_array(value) and is_flat(type(value)):
        return take_interp(conversion.as_tensor(value), pos, axis)._array
    tensor_argument(value, what)
    if not value._dtype.is_float:
        raise conversion.unexpected(what, "floating-point numbers", value)
    (place,) = _axes(axis, len(value._shape), what)
    n = value._shape[place]
    if n == 0:
        raise RuntimeError(f"{what}(): axis {place} has no entries")
    cls = type(value)
    if isinstance(pos, (int, float, np.integer, np.floating)):
        first = min(max(int(np.floor(pos)), 0), max(n - 2, 0)) if np.isfinite(pos) else 0
        weight: Any = pos - first
        index: Any = first
    else:
        dtype = getattr(pos, "_dtype", None)
        if dtype is None or not dtype.is_float:
            dtype = max(cls._dtype, dt.f32, key=lambda d: d.itemsize)
        try:
            at = conversion.with_dtype(cls, dtype)(pos)
        except TypeError as error:
            raise TypeError(f"{what}(): 'pos' holds no positions: {error}") from None
        whole = elementwise(op.maximum, elementwise(op.floor, at), 0)
        index = elementwise(op.minimum, conversion.with_dtype(cls, dt.u32)(whole), max(n - 2, 0))
        fraction = cls(at - type(at)(index))
        tail = (1,) * (len(value._shape) - place - 1)
        weight = tensor(cls, fraction._array, (*fraction._shape, *tail))
    key = (slice(None),) * place
    low_entries = value[(*key, index)]
    if n == 1:
        result = low_entries + weight * 0
    else:
        step = value[(*key, index + 1)] - low_entries
        result = elementwise(op.fma, step, weight, low_entries)
    return squeeze(result, place) if _is_single(pos) else result


def slice_index(
    dtype: type[T], shape: tuple[int, ...], indices: tuple[Any, ...]
) -> tuple[tuple[int, ...], T]:
    """Returns the shape that a tensor's key selects, and the flat positions of its entries.

    `dtype` is a one-dimensional array type of 32-bit unsigned integers, `shape` the shape of the
    tensor, and `indices` the parts of the key.

    Raises:
        TypeError: `dtype` is another type, or the key is of an unsupported type.
        IndexError: an index is out of bounds.

    >>> from drjit.llvm import UInt
    >>> slice_index(UInt, (3, 4), (slice(None), 1))
    ((3,), [1, 5, 9])
    """
    what = "dr.slice_index"
    if not is_array_class(dtype) or not is_flat(dtype) or dtype._dtype is not dt.u32:
        raise OperandError(
            f"{what}(): incompatible function arguments: 'dtype' must be a one-dimensional array "
            f"type of 32-bit unsigned integers, not {label(dtype)}"
        )
    if not isinstance(indices, (tuple, list)):
        raise OperandError(
            f"{what}(): incompatible function arguments: 'indices' must be a tuple, not {indices!r}"
        )
    conversion.size_tuple(tuple(shape), what)
    found = select(dtype._namespace, tuple(shape), tuple(indices), f"{what}()", True)
    index = found.index
    if isinstance(index, list):
        return found.shape, dtype(index)
    if index._node.size == 1 and found.active is None:
        return found.shape, dtype(leaf.resize(index, max(1, len(index))))
    return found.shape, table.find(dtype._namespace, "leaf", dt.u32)(index)
