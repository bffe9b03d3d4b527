"""Indexing of tensors: integers, slices, None, an ellipsis, and integer arrays, as in NumPy.

A key is translated into the shape of the result and an index array into the flat storage, which is
then gathered from or scattered to. Integer arrays in one key are paired up entry by entry; their
axis comes where the first of them stands.
"""

import operator
from math import prod
from typing import Any

import numpy as np

from ..jit import dtype as dt
from ..jit import op
from . import elementwise, leaf, leaf_access, table, tensor
from .base import type_label
from .show import is_array

Shape = tuple[int, ...]


def getitem(self: Any, key: Any) -> Any:
    """The entries of a tensor that a key addresses, as a tensor.

    Raises:
        IndexError: an index is out of bounds, or there are too many.
        TypeError: the key is of an unsupported type.
    """
    what = f"{type_label(self)}.__getitem__()"
    cls, array = type(self), self._array
    shape, index = slice_index(self._namespace, self._shape, key, what)
    if prod(shape) == 0:
        return tensor.wrap(cls, type(array)(), shape)
    if array._kind == "nested":
        return tensor.wrap(cls, type(array)([array._c[i] for i in index]), shape)
    active = leaf.literal(type(array).Mask, True)
    return tensor.wrap(cls, leaf_access.gather(array, index, active, what), shape)


def setitem(self: Any, key: Any, value: Any) -> None:
    """Assigns a number, a tensor that is broadcast as in NumPy, or a flat array with all entries.

    Raises:
        IndexError: an index is out of bounds, or there are too many.
        TypeError: the key is of an unsupported type, or the value does not fit.
    """
    what = f"{type_label(self)}.__setitem__()"
    array = self._array
    shape, index = slice_index(self._namespace, self._shape, key, what)
    count = prod(shape)
    if is_array(value) and value._kind != "tensor":
        source = type(array)(value)
    else:
        given = type(self)(value)
        try:
            fits = tensor.broadcast_shape([given._shape, shape]) == shape
        except RuntimeError:
            fits = False
        if not fits:
            raise TypeError(
                f"{what}: a tensor of shape {given._shape} does not fit entries of shape {shape}"
            )
        source = tensor.broadcast(given._array, given._shape, shape)
    size = len(source)
    if size not in (1, count):
        raise TypeError(f"{what}: cannot assign {size} values to {count} entries")
    if count == 0:
        return
    if array._kind == "nested":
        for k, i in enumerate(index):
            array._c[i] = source._c[k if size > 1 else 0]
        return
    active = leaf.literal(type(array).Mask, True)
    leaf_access.scatter(array, [source], index, active, what)


def slice_index(namespace: str, shape: Shape, key: Any, what: str) -> tuple[Shape, Any]:
    """The shape that a key gives, and where its entries are in the flat storage.

    The index is an index array of the namespace, or a list of Python integers in `scalar`.

    Raises:
        IndexError: an index is out of bounds, or there are too many.
        TypeError: the key is of an unsupported type.
    """
    keys = _expanded(key if isinstance(key, tuple) else (key,), shape, what)
    result: list[int] = []
    parts: list[tuple[int, int, Any]] = []  # axis of the result (or -1), stride, positions
    paired = -1  # the axis of the result that index arrays share
    offset = 0
    axis = 0
    for k in keys:
        if k is None:
            result.append(1)
            continue
        n = shape[axis]
        stride = prod(shape[axis + 1 :])
        if isinstance(k, slice):
            chosen = range(*k.indices(n))
            parts.append((len(result), stride, chosen))
            result.append(len(chosen))
        elif is_array(k):
            count = len(k)
            if paired < 0:
                paired = len(result)
                result.append(count)
            elif result[paired] == 1:
                result[paired] = count
            elif count not in (1, result[paired]):
                raise IndexError(
                    f"{what}: index arrays have different sizes ({result[paired]} and {count})"
                )
            parts.append((paired, stride, _wrapped(namespace, k, n)))
        else:
            i = operator.index(k)
            if not -n <= i < n:
                raise IndexError(
                    f"{what}: index {i} is out of bounds for axis {axis} with size {n}"
                )
            offset += (i + n if i < 0 else i) * stride
        axis += 1
    final = tuple(result)
    if namespace == "scalar":
        return final, _host_index(final, parts, offset)
    return final, _traced_index(namespace, final, parts, offset, prod(shape))


def _expanded(keys: tuple, shape: Shape, what: str) -> list[Any]:
    """The keys with the ellipsis and missing axes written out as slices."""
    for k in keys:
        if not (
            k is None
            or k is ...
            or isinstance(k, slice)
            or (isinstance(k, (int, np.integer)) and not isinstance(k, bool))
            or _is_index_array(k)
        ):
            raise TypeError(
                f"{what}: invalid key of type '{type_label(k)}'; expected integers, slices, None, "
                "..., 1-D arrays of integers, or a mask of the tensor's shape"
            )
    used = sum(k is not None and k is not ... for k in keys)
    ellipses = sum(k is ... for k in keys)
    if ellipses > 1:
        raise IndexError(f"{what}: only one ellipsis (...) can be used")
    if used > len(shape):
        raise IndexError(f"{what}: {used} indices for a tensor of {len(shape)} dimensions")
    fill = [slice(None)] * (len(shape) - used)
    if not ellipses:
        return [*keys, *fill]
    found: list[Any] = []
    for k in keys:
        found += fill if k is ... else [k]
    return found


def _is_index_array(key: Any) -> bool:
    if not is_array(key) or not key._dtype.is_int:
        return False
    if key._kind == "tensor":
        return len(key._shape) == 1
    return key._kind == "leaf" or (key._namespace == "scalar" and key.__meta__.kind == "vector")


def _wrapped(namespace: str, key: Any, n: int) -> Any:
    """An index array with negative entries counted from the end."""
    flat = key._array if key._kind == "tensor" else key
    if namespace == "scalar":
        entries = [int(i) for i in flat]
        return [i + n if i < 0 else i for i in entries]
    if not flat._dtype.is_signed:
        return flat
    return elementwise.elementwise(op.select, flat < 0, flat + n, flat)


def _host_index(shape: Shape, parts: list, offset: int) -> list[int]:
    index = np.full(shape, offset, np.int64)
    for axis, stride, positions in parts:
        along = np.array(positions, np.int64) * stride
        index += along.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return index.ravel().tolist()


def _traced_index(namespace: str, shape: Shape, parts: list, offset: int, entries: int) -> Any:
    total = prod(shape)
    wide = max(total, entries) >= 1 << 32
    cls = table.find(namespace, "leaf", dt.u64 if wide else dt.u32)
    index = leaf.literal(cls, offset)
    if total == 0:
        return index
    lane = leaf.lane(cls, total)
    for axis, stride, positions in parts:
        n = shape[axis]
        if n == 1 and isinstance(positions, range):
            index = index + positions[0] * stride
            continue
        along = lane
        inner = prod(shape[axis + 1 :])
        if inner > 1:
            along = along // inner
        if axis > 0:
            along = along % n
        if isinstance(positions, range):
            # Unsigned arithmetic wraps, so that a negative step works as well.
            modulus = 1 << cls._dtype.bits
            index = index + positions.start * stride
            along = along * (positions.step * stride % modulus)
        else:
            taken = _gathered(cls, positions, along if len(positions) > 1 else None)
            along = taken * stride
        index = index + along
    return leaf.resize(index, total) if index._n.size != total else index


def _gathered(cls: Any, positions: Any, along: Any) -> Any:
    positions = positions if type(positions) is cls else cls(positions)
    if along is None:
        return positions
    return leaf_access.gather(positions, along, leaf.literal(cls.Mask, True), "dr.gather")
