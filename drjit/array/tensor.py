"""Tensors: a flat array and a shape, in C order. Broadcasting works as in NumPy, and so does
indexing, by integers, slices, None, an ellipsis, and integer arrays and masks, which may be NumPy
arrays or lists.

A key is translated to the shape of the result and an index array into the flat storage, which is
then gathered from or scattered to. Index arrays in one key are broadcast against each other; their
axes are placed at the position of the first one, or first if a slice separates them. Integers are
applied beforehand. A mask is equivalent to the index arrays of its true entries.
"""

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

from ..jit.ir import dtype as dt
from ..jit.ir import node
from ..jit.ir import op as ops
from ..jit.lazy import np
from ..jit.run import freeze_size
from ..jit.trace.access import ALWAYS, Access
from ..jit.tuples import NamedTuple
from . import leaf, leaf_access, table
from .base import ArrayBase, BoundsError, OperandError, listed, type_label
from .leaf import new
from .meta import DYNAMIC
from .promote import Incompatible, check_range, convert
from .show import is_array

Shape = tuple[int, ...]
_NO_CONFLICTS = ops.ReduceMode.NoConflicts  # looking it up takes long


def wrap(cls: type, array: Any, shape: Shape) -> Any:
    """Returns a tensor for a shape and a flat array, which it takes over."""
    t = new(cls)
    t._array = array
    t._shape = shape
    return t


def parts(cls: Any, value: Any) -> tuple[Any, Shape]:
    """Returns the flat array and the shape of a tensor operand; numbers have the shape `()`."""
    if not isinstance(value, ArrayBase) and isinstance(value, (list, tuple, np.ndarray)):
        value = convert(cls, value)
    if not isinstance(value, ArrayBase):
        check_range(cls, value)
        return cls.Array(value), ()
    if value._kind == "tensor":
        return convert(cls.Array, value._array), value._shape
    return convert(cls.Array, value), (len(value),)


def broadcast_shape(shapes: list[Shape]) -> Shape:
    """Returns the shape of an element-wise operation on tensors of the given shapes.

    Raises:
        RuntimeError: they are incompatible.
    """
    depth = max(len(s) for s in shapes)
    result = []
    for axis in range(-depth, 0):
        sizes = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(sizes) > 1:
            raise Incompatible(f"operands have incompatible shapes: {listed(shapes)}.")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def broadcast(array: Any, shape: Shape, target: Shape) -> Any:
    """Broadcasts the flat array of a tensor to another shape."""
    size, full = prod(shape), prod(target)
    if not full:
        return type(array)()
    if size == full or size == 1:
        return array
    if array._kind == "nested":
        values = np.array(array._components, array._dtype.numpy).reshape(shape)
        return type(array)(np.broadcast_to(values, target).ravel())
    source = (1,) * (len(target) - len(shape)) + shape
    steps = [0 if n == 1 else stride for n, stride in zip(source, strides(source), strict=True)]
    index = strided_index(array._namespace, target, steps)
    return leaf_access.gather(array, Access(index._node))


def strides(shape: Shape) -> list[int]:
    """Returns how many entries of an array in C order lie between neighbours along each axis."""
    return [prod(shape[k + 1 :]) for k in range(len(shape))]


def strided_index(
    namespace: str, shape: Shape, steps: Sequence[int], offset: int = 0, entries: int = 0
) -> Any:
    """Returns, for the entries of a tensor in C order, the indices of the entries of another array
    that go there: the one at `offset` comes first, and the next along each axis is `steps` further.
    The index has 64 bits if one of the arrays is too large for 32, the other one having `entries`.
    """
    total = prod(shape)
    cls = index_class(namespace, max(total, entries) >= 1 << 32)
    if total == 0:
        return leaf.literal(cls, 0, 0)
    t = cls._dtype
    index, rest = node.literal(t, offset), node.cast(t, node.lane(total, cls._device))
    outer, inner = total, 1  # positions along the axes not yet visited, and along those skipped
    for n, step in zip(reversed(shape), reversed(steps), strict=True):
        outer //= n
        if n == 1 or step == 0:
            inner *= n
            continue
        rest = along = node.combine(ops.quotient, (rest, node.literal(t, inner)))
        if outer > 1:
            along = node.combine(ops.remainder, (rest, node.literal(t, n)))
        # Unsigned arithmetic wraps, so a negative step works as well.
        along = node.combine(ops.mul, (along, node.literal(t, step)))
        index = node.combine(ops.add, (index, along))
        inner = n
    return leaf.wrap(cls, index if index.size == total else node.literal(t, offset, total))


def index_class(namespace: str, wide: bool, signed: bool = False) -> Any:
    """Returns the class of positions, with 64 bits if they are `wide`."""
    dtype = (dt.i64 if wide else dt.i32) if signed else (dt.u64 if wide else dt.u32)
    return table.find(namespace, "leaf", dtype)


def permuted(array: Any, shape: Shape, order: Sequence[int], what: str = "dr.gather") -> Any:
    """Returns the flat array of a tensor with its axes in another order."""
    moving = [a for a in order if shape[a] != 1]
    if moving == sorted(moving) or prod(shape) == 0:
        return array
    if array._kind == "nested":
        positions = np.arange(prod(shape)).reshape(shape).transpose(order)
        return type(array)([array._components[i] for i in positions.ravel().tolist()])
    steps = strides(shape)
    target = tuple([shape[a] for a in order])
    index = strided_index(array._namespace, target, [steps[a] for a in order])
    return leaf_access.gather(array, Access(index._node, what=what))


def permuted_back(array: Any, shape: Shape, order: Sequence[int], what: str = "dr.gather") -> Any:
    """Undoes `permuted`: `shape` is that of the tensor, whose axes are in another order in the
    array."""
    back = [order.index(a) for a in range(len(shape))]
    return permuted(array, tuple([shape[a] for a in order]), back, what)


def joined(arrays: Sequence[Any], sizes: Sequence[int], what: str = "dr.scatter") -> Any:
    """Concatenates traced arrays of one type, given their numbers of entries; a single entry is
    broadcast to its number."""
    cls = type(arrays[0])
    result, start = leaf.unwritten(cls, sum(sizes)), 0
    for array, size in zip(arrays, sizes, strict=True):
        if size:
            index = node.lane(size, cls._device)
            if start:
                index = node.combine(ops.add, (index, node.literal(dt.u32, start)))
            at = Access(index, what=what, mode=_NO_CONFLICTS)
            leaf_access.scatter(result, [array], at)
        start += size
    return result


def transposed(t: Any, order: Sequence[int], what: str = "dr.gather") -> Any:
    """Returns a tensor with its axes in another order."""
    shape, array = t._shape, t._array
    moved = permuted(array, shape, order, what)
    moved = type(array)(array) if moved is array else moved
    return wrap(type(t), moved, tuple([shape[a] for a in order]))


# Indexing


class Selection(NamedTuple):
    """The entries that a key addresses: the shape, the index into the flat storage, and the mask of
    entries whose index is within its axis. The index is None if the key addresses everything in
    order, and a list of Python integers in `scalar`. The mask is None if it is true for all.
    """

    shape: Shape
    index: Any
    active: Any = None

    def access(self, what: str) -> Access:
        """Returns the access to the flat storage of a traced array."""
        active = ALWAYS if self.active is None else self.active._node
        return Access(self.index._node, active, what)


def title(value: Any, method: str) -> str:
    return f"{type_label(value)}.{method}()"


def getitem(self: Any, key: Any, what: str = "") -> Any:
    """Returns the entries of a tensor that a key addresses, as a tensor; `what` is the function
    that the user called.

    Raises:
        IndexError: an index is out of bounds, or there are too many.
        TypeError: the key has an unsupported type.
    """
    cls, array = type(self), self._array
    what = what or title(cls, "__getitem__")
    found = select(self._namespace, self._shape, key, what)
    shape, index, _ = found
    if index is None:
        return wrap(cls, type(array)(array), shape)
    if prod(shape) == 0:
        return wrap(cls, type(array)(), shape)
    if array._kind == "nested":
        return wrap(cls, type(array)([array._components[i] for i in index]), shape)
    return wrap(cls, leaf_access.gather(array, found.access(what)), shape)


def setitem(self: Any, key: Any, value: Any) -> None:
    """Assigns a number, a tensor that is broadcast as in NumPy, or a flat array with all entries.

    Raises:
        IndexError: an index is out of bounds, or there are too many.
        TypeError: the key has an unsupported type, or the value is incompatible.
    """
    array = self._array
    what = title(type(self), "__setitem__")
    found = select(self._namespace, self._shape, key, what, everything=True)
    shape, index, _ = found
    count = prod(shape)
    flat = is_array(value) and value._kind != "tensor"
    try:
        given = (type(array) if flat else type(self))(value)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None
    if flat:
        source = given
    else:
        if not is_assignable(given._shape, shape):
            raise TypeError(
                f"{what}: a tensor of shape {given._shape} does not fit entries of shape {shape}"
            )
        lead = len(given._shape) - len(shape)
        source = broadcast(given._array, given._shape[max(lead, 0) :], shape)
    size = len(source)
    if size not in (1, count):
        raise TypeError(f"{what}: cannot assign {size} values to {count} entries")
    if count == 0:
        return
    if array._kind == "nested":
        for k, i in enumerate(index):
            array._numbers[i] = source._components[k if size > 1 else 0]
        return
    leaf_access.scatter(array, [source], found.access(what))


def is_assignable(given: Shape, shape: Shape) -> bool:
    """Returns whether values of one shape can be assigned to entries of another: NumPy drops
    leading axes of size 1.
    """
    while len(given) > len(shape) and given[0] == 1:
        given = given[1:]
    try:
        return broadcast_shape([given, shape]) == shape
    except RuntimeError:
        return False


def select(
    namespace: str, shape: Shape, key: Any, what: str, everything: bool = False
) -> Selection:
    """Returns the shape that a key selects, and the positions of its entries in the flat storage.

    `everything` requests an index even if the key addresses all entries in order.

    Raises:
        IndexError: an index is out of bounds, or there are too many.
        TypeError: the key has an unsupported type.
    """
    keys = key if isinstance(key, tuple) else (key,)
    for k in keys:
        if type(k) not in _SIMPLE:
            keys = [_as_array(namespace, k) for k in keys]
            keys = _expanded(keys, *_used(keys, what), shape, what)
            break
    else:
        if len(keys) != len(shape) or None in keys or ... in keys:
            used = len(keys) - keys.count(None) - keys.count(...)
            keys = _expanded(keys, used, False, shape, what)
        if namespace != "scalar":
            return _basic(namespace, shape, keys, what, everything)
    if namespace == "scalar":
        return _host_selection(shape, keys, what)
    if not any(map(is_array, keys)):
        return _basic(namespace, shape, keys, what, everything)
    return _advanced(namespace, shape, keys, what)


# Keys

_SIMPLE = frozenset((int, slice, type(None), type(...)))
_ALL = slice(None)


def _as_array(namespace: str, key: Any) -> Any:
    """Converts a list or NumPy array of integers or bools to a tensor; other keys are returned
    unchanged."""
    if not isinstance(key, (list, np.ndarray)):
        return key
    try:
        found = np.asarray(key)
    except ValueError:  # a ragged list
        return key
    if found.dtype.kind == "b":
        return table.find(namespace, "tensor", dt.mask)(found)
    if found.dtype.kind in "iu" or (found.size == 0 and isinstance(key, list)):
        made = table.find(namespace, "tensor", dt.i64)(found.astype(np.int64))
        return made if found.ndim else int(found)
    return key


def _used(keys: Sequence[Any], what: str) -> tuple[int, bool]:
    """Checks keys; returns the number of axes that they address, and whether there are masks."""
    for k in keys:
        simple = k is None or k is ... or isinstance(k, slice) or is_integer(k)
        if not (simple or _is_index(k)):
            raise OperandError(
                f'{what}: unsupported type "{type_label(k)}" in slice expression; expected '
                "integers, slices, None, ..., integer arrays, or masks"
            )
    return sum(map(_axes, keys)), any(map(is_mask, keys))


def _expanded(
    keys: Sequence[Any], used: int, masks: bool, shape: Shape, what: str
) -> Sequence[Any]:
    """Returns the keys, which address `used` axes, with slices for axes without a key, and with
    index arrays for the masks, if there are any. An ellipsis stays before its slices, because it
    separates index arrays even if it stands for no axis.
    """
    at = len(keys)
    for i, k in enumerate(keys):
        if k is ...:
            if at < len(keys):
                raise BoundsError(f"{what}: multiple ellipses (...) are not allowed")
            at = i + 1
    if used > len(shape):
        raise BoundsError(
            f"{what}: too many indices, {used} for a tensor of {len(shape)} dimensions"
        )
    if used < len(shape):
        keys = [*keys[:at], *[_ALL] * (len(shape) - used), *keys[at:]]
    if not masks:
        return keys
    found: list[Any] = []
    axis = 0
    for k in keys:
        found += _positions_of(k, shape, axis, what) if is_mask(k) else [k]
        axis += _axes(k)
    return found


def is_integer(key: Any) -> bool:
    return isinstance(key, (int, np.integer)) and not isinstance(key, bool)


def _axes(key: Any) -> int:
    """Returns the number of axes that a key addresses."""
    if key is None or key is ...:
        return 0
    return len(_flat(key)[1]) if is_mask(key) else 1


def _is_index(key: Any) -> bool:
    """Returns whether a key is an array of integers, or a mask."""
    if not is_array(key) or key._dtype.is_float:
        return False
    if key._kind == "nested":
        return key._namespace == "scalar" and key.__meta__.kind == "vector"
    return True


def is_mask(key: Any) -> bool:
    return is_array(key) and key._dtype.is_mask


def _flat(key: Any) -> tuple[Any, Shape]:
    """Returns the entries and the shape of an index array or mask."""
    return (key._array, key._shape) if key._kind == "tensor" else (key, (len(key),))


def _positions_of(mask: Any, shape: Shape, axis: int, what: str) -> list[Any]:
    """Returns the index arrays, one per axis of the mask, of its true entries."""
    flat, own = _flat(mask)
    given = shape[axis : axis + len(own)]
    if own != given:
        raise BoundsError(f"{what}: a mask of shape {own} does not fit axes of shape {given}")
    if flat._kind == "nested":
        index_type = table.find("scalar", "vector", dt.u32, (DYNAMIC,))
        where = np.nonzero(np.array(flat._components, bool).reshape(own))
        return [index_type(positions.tolist()) for positions in where]
    rest = leaf_access.compress(flat, table.find(flat._namespace, "leaf", dt.u32))
    if len(rest) == 0:
        return [type(rest)() for _ in own]
    found = []
    for n in reversed(own):
        found.append(rest % n if len(found) < len(own) - 1 else rest)
        rest = rest // n
    return found[::-1]


# Positions in `drjit.scalar`


def _host_selection(shape: Shape, keys: Sequence[Any], what: str) -> Selection:
    """Lets NumPy select from the positions of all entries, applying integers first; see
    `_index_axis`."""
    first = [k for k in keys if k is not None and k is not ...]
    integers = [isinstance(k, (int, np.integer)) for k in first]
    host = []
    for k in keys:
        if is_array(k):
            flat, own = _flat(k)
            entries = flat._components if flat._kind == "nested" else leaf.host(flat)
            k = np.array(entries, np.int64).reshape(own)
        if not isinstance(k, (int, np.integer)):
            host.append(k)
    try:
        chosen = np.arange(prod(shape)).reshape(shape)
        rest = [k if one else slice(None) for k, one in zip(first, integers, strict=True)]
        chosen = chosen[tuple(rest)][tuple(host)]
    except IndexError as problem:
        raise BoundsError(f"{what}: {problem}") from None
    return Selection(np.shape(chosen), np.ravel(chosen).tolist())


# Traced positions


def _basic(
    namespace: str, shape: Shape, keys: Sequence[Any], what: str, everything: bool
) -> Selection:
    final, steps, offset = _ranges(shape, keys, what)
    entries = prod(shape)
    if prod(final) == entries and min(steps, default=0) >= 0 and not everything:
        return Selection(final, None)
    return Selection(final, strided_index(namespace, final, steps, offset, entries))


def _ranges(shape: Shape, keys: Sequence[Any], what: str) -> tuple[Shape, list[int], int]:
    """Returns the shape selected by slices and None, how far the entries along each axis are apart,
    and where the first one is."""
    result: list[int] = []
    steps: list[int] = []
    offset = axis = 0
    for k in keys:
        if k is None or k is ...:
            result += [1] if k is None else []
            steps += [0] if k is None else []
            continue
        n, stride = shape[axis], prod(shape[axis + 1 :])
        if isinstance(k, slice):
            chosen = range(n) if k is _ALL else freeze_size.positions(k, n)
            result.append(len(chosen))
            steps.append(chosen.step * stride if len(chosen) > 1 else 0)
            offset += chosen.start * stride
        elif not is_array(k):
            offset += _within(operator.index(k), n, axis, what) * stride
        axis += 1
    return tuple(result), steps, offset


def _within(i: int, n: int, axis: int, what: str) -> int:
    if i and not axis:
        freeze_size.decided(n)
    if not -n <= i < n:
        raise BoundsError(f"{what}: index {i} is out of bounds for axis {axis} with size {n}")
    return i + n if i < 0 else i


def _advanced(namespace: str, shape: Shape, keys: Sequence[Any], what: str) -> Selection:
    """Merges index arrays into a single array of offsets, which the entries then read."""
    basic, steps, offset = _ranges(shape, keys, what)
    arrays = [_flat(k) for k in keys if is_array(k)]
    try:
        common = broadcast_shape([own for _, own in arrays])
    except RuntimeError:
        shown = " and ".join([str(own) for _, own in arrays])
        raise BoundsError(f"{what}: index arrays have incompatible shapes {shown}") from None
    at = _index_axis(keys)
    final = (*basic[:at], *common, *basic[at:])
    steps = [*steps[:at], *[0] * len(common), *steps[at:]]
    index = strided_index(namespace, final, steps, offset, prod(shape))
    if prod(final) == 0:
        return Selection(final, index)
    offsets, valid = _offsets(type(index), shape, keys, common, what)
    entries, inner = prod(common), prod(basic[at:])
    outer = [prod(final) // (entries * inner)] if at else []
    wide = (*outer, entries, inner)
    if entries not in (1, prod(wide)):
        place = strided_index(namespace, wide, [*[0 for _ in outer], 1, 0])._node
        offsets, valid = [leaf_access.gather(a, Access(place)) for a in (offsets, valid)]
    return Selection(final, index + offsets, valid)


def _index_axis(keys: Sequence[Any]) -> int:
    """Returns the axis of the result where the axes of index arrays begin. Unlike in NumPy,
    integers are applied beforehand and do not count as arrays.
    """
    keys = [k for k in keys if not isinstance(k, (int, np.integer))]
    which = [is_array(k) for k in keys]
    first = which.index(True)
    last = len(which) - which[::-1].index(True)
    return sum(k is not ... for k in keys[:first]) if all(which[first:last]) else 0


def _offsets(
    cls: Any, shape: Shape, keys: Sequence[Any], common: Shape, what: str
) -> tuple[Any, Any]:
    """Returns the sum of the offsets of index arrays, and where all are within their axes."""
    count = prod(common)
    total, valid = leaf.literal(cls, 0, count), leaf.literal(cls.Mask, True, count)
    axis = 0
    for k in keys:
        if k is None or k is ...:
            continue
        if is_array(k):
            flat, own = _flat(k)
            flat = flat if flat._kind == "leaf" else cls(flat)
            if flat._namespace != cls._namespace:
                flat = table.find(cls._namespace, "leaf", flat._dtype)(flat)
            flat = broadcast(flat, own, common)
            n = shape[axis]
            if flat._dtype.is_signed:
                negative, moved = flat < 0, flat + n
                flat = leaf.apply(ops.select, negative, moved, flat)
            bounded, inside = leaf_access.bounded(flat, valid, n, what)
            valid = valid & inside
            total = total + cls(bounded) * prod(shape[axis + 1 :])
        axis += 1
    return total, valid
