"""Changes of shape: grids, repetition, concatenation, stacking, splitting, and reversal of
one-dimensional and nested arrays, tensors, and PyTrees."""

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from ...array import leaf, leaf_access, signatures
from ...array.base import ArrayBase
from ...array.interop import is_foreign_array
from ...array.promote import promote
from ...array.pytree import is_container, map_tree
from ...array.tensor import joined
from ...jit.ir import dtype as dt
from ...jit.ir.op import ReduceMode
from ...jit.lazy import np
from ...jit.trace.access import Access
from .. import conversion
from ..conversion import T, flat_size, is_array, is_flat, label, nested, tensor
from ..signature import explains_misuse
from .layout import ravel
from .reorder import expand_dims, reshaped, tensor_argument

if TYPE_CHECKING:
    from ...array.signatures import TensorT


def _each(f: Callable[[Any], Any], value: Any) -> Any:
    """Applies a function to the one-dimensional arrays of an array, with all lanes broadcast."""
    if is_flat(type(value)):
        return f(value)
    if not value.__meta__.is_jit:
        return value
    return conversion.map_leaves(conversion.broadcast_components(value), f)


# Grids


@signatures.grid
def meshgrid(*args: Any, indexing: Literal["xy", "ij"] = "xy") -> Any:
    """Returns the coordinates of all points of a grid, given the coordinates along its axes, as
    one-dimensional arrays.

    With 'xy', the first axis varies fastest, then the second; with 'ij', the last one varies
    fastest. Further axes are as in NumPy.

    Raises:
        TypeError: the arguments are not one-dimensional arrays of the same type.
        ValueError: `indexing` is unknown.

    >>> from drjit.llvm import Float
    >>> dr.meshgrid(Float(1, 2), Float(3, 4))
    ([1, 2, 1, 2], [3, 3, 4, 4])
    """
    what = "dr.meshgrid"
    if indexing not in ("xy", "ij"):
        raise ValueError(f"{what}(): 'indexing' must be 'xy' or 'ij', not {indexing!r}")
    for a in args:
        if not is_array(a) or not is_flat(type(a)) or type(a) is not type(args[0]):
            raise TypeError(
                f"{what}(): expected one-dimensional arrays of the same type, got "
                f"{', '.join(label(v) for v in args)}"
            )
    if len(args) == 1:
        return args[0]
    order = list(range(len(args)))
    if indexing == "xy" and args:
        order[:2] = [1, 0]
    sizes = [flat_size(args[k]) for k in order]

    def coordinates(axis: int) -> Any:
        return conversion.take_entries(
            args[order[axis]], prod(sizes), lambda i: conversion.places(i, sizes)[axis], what
        )

    return tuple([coordinates(order.index(k)) for k in range(len(args))])


# Repetition


def repeat(
    value: T, repeats: SupportsIndex | Sequence[int] | ArrayBase, axis: int | None = None
) -> T:
    """Repeats every entry `repeats` times in a row.

    One-dimensional and nested arrays are repeated along their lanes, and tensors along `axis`, or
    as flat arrays without it. Integers in an array or a sequence specify the number of repetitions
    for each entry. PyTrees are repeated array by array; numbers stay as they are.

    Raises:
        RuntimeError: an axis is out of bounds, or `repeats` has the wrong number of entries.
        ValueError: a number in `repeats` is negative.
        TypeError: `repeats` holds something else than integers, or has several axes.

    >>> from drjit.llvm import Float, UInt
    >>> dr.repeat(Float(1, 2), 3), dr.repeat(Float(1, 2), UInt(1, 2))
    ([1, 1, 1, 2, 2, 2], [1, 2, 2])
    """
    what = "dr.repeat"
    if is_container(value):
        return map_tree(lambda v: repeat(v, repeats, axis), value, what=what)
    if not is_array(value):
        return value
    repeats = _repeats(value, repeats, what)
    if value._kind == "tensor":
        return _repeat_tensor(value, repeats, axis, what)
    if is_flat(type(value)) and type(repeats) is int and repeats == 1:
        return value
    if axis is not None:
        depth = value.ndim
        found = conversion.normalized_axis(axis, depth, what) if axis < 0 else axis
        if found != (0 if axis == 0 else depth - 1):
            raise RuntimeError(f"{what}(<{label(value)}>): only the lanes can be repeated")
    return _each(lambda v: _repeat_flat(v, repeats, (1, flat_size(v), 1), what), value)


def _repeats(value: Any, given: Any, what: str) -> Any:
    """Returns an integer, or a flat array of unsigned integers in the namespace of a value."""
    flat = conversion.flat_class(type(value), dt.u32)
    if isinstance(given, ArrayBase):
        one = given._kind == "tensor" and len(given._shape) == 1
        found: Any = given._array if one else given
        if is_flat(type(found)) and found._dtype.is_int:
            return flat(found)
    elif conversion.is_integer(given):
        found = operator.index(given)
        if found < 0:
            raise ValueError(f"{what}(): 'repeats' must not be negative, got {found}")
        return found
    elif isinstance(given, Sequence) or is_foreign_array(given):
        found = np.asarray(given)
        if found.ndim == 1 and (found.dtype.kind in "iu" or not found.size):
            if (found < 0).any():
                raise ValueError(f"{what}(): 'repeats' must not be negative, got {min(found)}")
            return flat(found.astype(np.uint32))
    raise TypeError(f"{what}(): 'repeats' must be an int or an integer array, not {label(given)}")


def _repeat_flat(array: Any, repeats: Any, blocks: tuple[int, int, int], what: str) -> Any:
    """Repeats the entries of a flat array along the middle one of three axes."""
    before, n, after = blocks
    sources = None if isinstance(repeats, int) else _sources(repeats, n, what)
    count = n * repeats if sources is None else len(sources)

    def source(axis: int, place: Any) -> Any:
        if axis != 1:
            return place
        if sources is None:
            return place // repeats
        if before * after == 1 or count == 1:  # the places are 0, 1, 2, ...
            return sources
        if isinstance(place, np.ndarray):
            return sources[place]
        return conversion.pick(sources, place, what)

    return conversion.take_places(array, blocks, (before, count, after), source, what)


def _sources(counts: Any, size: int, what: str) -> Any:
    """Returns for every entry of the result its source entry, where each entry has an individual
    number of copies."""
    if flat_size(counts) != size:
        raise RuntimeError(
            f"{what}(): 'repeats' has {flat_size(counts)} entries, but there are {size} to repeat"
        )
    if counts._kind == "nested":
        return np.repeat(np.arange(size), counts._components)
    starts = leaf_access.prefix("add", counts, True)
    total = leaf_access.reduce_all("add", counts)[0]
    if total == 0:
        return leaf.literal(type(counts), 0, 0)
    # Entry k of the result comes from the last entry that starts at or before k: count the starts.
    marks = leaf.literal(type(counts), 0, total)
    one = leaf.literal(type(counts), 1)
    at = Access(starts._node, (starts < total)._node, what, reduce="add")
    leaf_access.scatter(marks, [one], at)
    return leaf_access.prefix("add", marks, False) - 1


def _repeat_tensor(value: Any, repeats: Any, axis: int | None, what: str) -> Any:
    shape, array = value._shape, value._array
    if axis is None:
        flat = _repeat_flat(array, repeats, (1, flat_size(array), 1), what)
        return tensor(type(value), flat, (flat_size(flat),))
    k = conversion.normalized_axis(axis, len(shape), conversion.UserCall(what, value))
    if type(repeats) is int and repeats == 1:
        return value
    blocks = prod(shape[:k]), shape[k], prod(shape[k + 1 :])
    flat = _repeat_flat(array, repeats, blocks, what)
    count = flat_size(flat) // (blocks[0] * blocks[2])
    return tensor(type(value), flat, (*shape[:k], count, *shape[k + 1 :]))


def tile(value: T, reps: int | Sequence[int]) -> T:
    """Repeats the whole array several times.

    With a sequence, tensors are repeated along several axes, as in NumPy; a one-dimensional array
    becomes a tensor if the sequence has several entries. Nested arrays are repeated along their
    lanes, and PyTrees array by array; numbers stay as they are.

    Raises:
        ValueError: a number of repetitions is negative.
        TypeError: `reps` is neither an int nor a sequence of ints, or does not match the type.

    >>> from drjit.llvm import Float
    >>> dr.tile(Float(1, 2), 2)
    [1, 2, 1, 2]
    """
    what = "dr.tile"
    if is_container(value):
        return map_tree(lambda v: tile(v, reps), value, what=what)
    if not is_array(value):
        return value
    times = conversion.integers(reps, f"{what}(): 'reps' must be an int or a sequence of ints, not")
    if any(r < 0 for r in times):
        raise ValueError(f"{what}(): 'reps' must not be negative, got {reps!r}")
    depth = len(value._shape) if value._kind == "tensor" else is_flat(type(value))
    if all(r == 1 for r in times) and len(times) <= depth:
        return value
    if value._kind == "tensor" or (len(times) > 1 and is_flat(type(value))):
        return _tile_tensor(value, times, what)
    if len(times) != 1:
        raise TypeError(f"{what}(<{label(value)}>): nested arrays are tiled along their lanes only")
    (count,) = times

    def tiled(v: Any) -> Any:
        n = flat_size(v)
        return conversion.take_entries(v, n * count, lambda i: i % n if n else i, what)

    return _each(tiled, value)


def _tile_tensor(value: Any, times: tuple[int, ...], what: str) -> Any:
    value = conversion.as_tensor(value)
    depth = max(len(value._shape), len(times))
    shape = (1,) * (depth - len(value._shape)) + value._shape
    times = (1,) * (depth - len(times)) + times
    result = tuple([n * r for n, r in zip(shape, times, strict=True)])
    flat = conversion.take_places(value._array, shape, result, lambda k, p: p % shape[k], what)
    return tensor(type(value), flat, result)


# Concatenation


@explains_misuse
def concat(arr: Sequence[T], /, axis: int | None = 0) -> T:
    """Concatenates arrays along an axis; None joins their flat entries, see `ravel`.

    One-dimensional arrays have axis 0 only. In nested arrays, axis 0 are the components, which can
    be concatenated if the type is of dynamic size, and the last axis are the lanes.

    Raises:
        RuntimeError: there are no arrays, or the axis is out of bounds.
        TypeError: the arrays differ in type, or in their size along another axis.

    >>> from drjit.llvm import Float
    >>> dr.concat([Float(1, 2), Float(3)])
    [1, 2, 3]
    """
    what = "dr.concat"
    if not isinstance(arr, (list, tuple)):
        raise conversion.unexpected(what, "a sequence of arrays", arr)
    if not arr:
        raise RuntimeError(f"{what}(): at least one array is needed")
    if len(arr) == 1 and is_array(arr[0]) and (axis is not None or is_flat(type(arr[0]))):
        conversion.normalized_axis(axis or 0, arr[0].ndim, conversion.UserCall(what, arr[0]))
        return arr[0]
    cls = type(arr[0])
    for a in arr:
        if not is_array(a) or type(a) is not cls:
            raise TypeError(
                f"{what}(): the arrays must all be of the same type, got "
                f"{label(cls)} and {label(a)}"
            )
    if axis is None:
        return _concat_flat([ravel(a) for a in arr], what)
    if cls._kind == "tensor":
        return concat_tensors(arr, axis, what)
    axis = conversion.normalized_axis(axis, arr[0].ndim, conversion.UserCall(what, cls))
    return _concat_axis(arr, axis, what)


def _concat_axis(arr: Sequence[Any], axis: int, what: str) -> Any:
    cls = type(arr[0])
    if is_flat(cls):
        return _concat_flat(arr, what)
    if axis == 0:
        if cls._size is not None:
            raise RuntimeError(
                f"{what}(<{label(cls)}>): the type has {cls._size} components; only types of "
                "dynamic size can be joined along axis 0"
            )
        return nested(cls, [c for a in arr for c in a._components])
    counts = {len(a._components) for a in arr}
    if len(counts) > 1:
        raise TypeError(f"{what}(<{label(cls)}>): the arrays have {sorted(counts)} components")
    spread = [conversion.broadcast_components(a) for a in arr] if cls.__meta__.is_jit else arr
    columns = zip(*[a._components for a in spread], strict=True)
    return nested(cls, [_concat_axis(column, axis - 1, what) for column in columns])


def _concat_flat(arr: Sequence[Any], what: str) -> Any:
    cls = type(arr[0])
    if cls._kind == "nested":
        return nested(cls, [v for a in arr for v in a._components])
    filled = [a for a in arr if a._node.size]
    if len(filled) <= 1:
        return cls(filled[0]) if filled else cls()
    return joined(filled, [a._node.size for a in filled], what)


def concat_tensors(arr: Sequence[Any], axis: int, what: str) -> Any:
    """Concatenates tensors of one type along an axis; see `concat`."""
    cls, shape = type(arr[0]), arr[0]._shape
    k = conversion.normalized_axis(axis, len(shape), conversion.UserCall(what, cls))
    for position, a in enumerate(arr):
        other = a._shape
        if len(other) != len(shape) or other[:k] + other[k + 1 :] != shape[:k] + shape[k + 1 :]:
            raise TypeError(
                f"{what}(): array {position} of shape {other} does not go with one of "
                f"shape {shape} along axis {k}"
            )
    total = sum(a._shape[k] for a in arr)
    final = (*shape[:k], total, *shape[k + 1 :])
    if arr[0]._array._kind == "nested":
        rows = np.concatenate([conversion.host_entries(a._array, a._shape) for a in arr], k)
        return tensor(cls, nested(cls.Array, rows.ravel().tolist()), final)
    if k == 0:
        flat = joined([a._array for a in arr], [prod(a._shape) for a in arr], what)
        return tensor(cls, flat, final)
    stride = prod(shape[k + 1 :])
    result = conversion.unwritten(cls.Array, prod(final))
    start = 0
    for a in arr:
        run = a._shape[k] * stride
        if prod(a._shape):
            i = conversion.lanes(cls, prod(a._shape))
            index = (i // run) * (total * stride) + i % run + start
            at = Access(index._node, what=what, mode=ReduceMode.NoConflicts)
            leaf_access.scatter(result, [a._array], at)
        start += run
    return tensor(cls, result, final)


# Reversal


def reverse(value: T, axis: int | tuple[int, ...] = 0) -> T:
    """Reverses the entries along an axis: of arrays, of the components of nested arrays, or of
    sequences.

    Raises:
        RuntimeError: an axis is out of bounds.
        TypeError: the value is not a sequence.

    >>> from drjit.llvm import Array2f, Float
    >>> dr.reverse(Float(1, 2, 3)), dr.reverse(Array2f(1, 2)), dr.reverse([1, 2])
    ([3, 2, 1], [[2, 1]], [2, 1])
    """
    what = "dr.reverse"
    axes = axis if isinstance(axis, tuple) else (axis,)
    name = conversion.UserCall(what, value)
    if not is_array(value):
        if not isinstance(value, (list, tuple, str)):
            raise conversion.unexpected(what, "an array or a sequence", value)
        for a in axes:
            conversion.normalized_axis(a, 1, name)
        return value[::-1]  # type: ignore[return-value]
    reversed_axes = {conversion.normalized_axis(a, value.ndim, name) for a in axes}
    if value._kind != "tensor":
        return _reverse_axes(value, reversed_axes, what)
    shape = value._shape

    def place(axis: int, p: Any) -> Any:
        return (shape[axis] - 1) - p if axis in reversed_axes else p

    flat = conversion.take_places(value._array, shape, shape, place, what)
    return tensor(type(value), flat, shape)


def _reverse_axes(value: Any, axes: set[int], what: str) -> Any:
    if not axes:
        return value
    if is_flat(type(value)):
        n = flat_size(value)
        return conversion.take_entries(value, n, lambda i: (n - 1) - i, what)
    below = {a - 1 for a in axes if a > 0}
    components = [_reverse_axes(c, below, what) if below else c for c in value._components]
    return nested(type(value), components[::-1] if 0 in axes else components)


def _tensors(arrays: Any, what: str) -> list[Any]:
    """Converts the arguments to tensors of one type."""
    if not isinstance(arrays, (list, tuple)):
        raise conversion.unexpected(what, "a sequence of tensors", arrays)
    if not arrays:
        raise RuntimeError(f"{what}(): at least one tensor is needed")
    result = []
    for a in arrays:
        if not is_array(a):
            raise conversion.unexpected(what, "tensors or arrays", a)
        result.append(conversion.as_tensor(a))
    classes = [type(a) for a in result]
    if len(set(classes)) > 1:
        # Promotion broadcasts nothing here: empty tensors are only used for their type.
        cls = type(promote(*[c() for c in classes])[0])
        result = [cls(a) for a in result]
    return result


@signatures.stacking_along
@explains_misuse
def stack(arrays: Sequence[Any], /, axis: int = 0) -> Any:
    """Joins tensors of the same shape along a new axis. Other arrays are first converted to
    tensors.

    Raises:
        RuntimeError: there are none, or the axis is out of bounds.
        TypeError: an argument is not an array, or shapes differ.

    >>> from drjit.llvm import TensorXf
    >>> dr.stack([TensorXf([1, 2]), TensorXf([3, 4])], axis=1)
    [[1, 3],
     [2, 4]]
    """
    what = "dr.stack"
    found = _tensors(arrays, what)
    shape = found[0]._shape
    for number, a in enumerate(found):
        if a._shape != shape:
            raise TypeError(
                f"{what}(): all inputs must have the same shape, but tensor {number} has "
                f"{a._shape} and tensor 0 has {shape}"
            )
    place = conversion.normalized_axis(operator.index(axis), len(shape) + 1, f"{what}()")
    return concat_tensors([expand_dims(a, place) for a in found], place, what)


def _at_least(ndim: int, a: Any) -> Any:
    """Returns a tensor with at least `ndim` dimensions, like NumPy's `atleast_1d`, `atleast_2d` and
    `atleast_3d`."""
    shape = a._shape
    if ndim == 3 and len(shape) in (1, 2):
        return reshaped(a, (*(1,) * (2 - len(shape)), *shape, 1))
    return reshaped(a, (1,) * (ndim - len(shape)) + shape) if len(shape) < ndim else a


@signatures.stacking
def vstack(arrays: Sequence[Any], /) -> Any:
    """Joins tensors along the first axis; one-dimensional ones are rows.

    Raises:
        RuntimeError: there are none.
        TypeError: an argument is not an array, or shapes are incompatible.

    >>> from drjit.llvm import Float
    >>> vstack([Float(1, 2), Float(3, 4)])
    [[1, 2],
     [3, 4]]
    """
    what = "dr.vstack"
    return concat_tensors([_at_least(2, a) for a in _tensors(arrays, what)], 0, what)


row_stack = vstack


@signatures.stacking
def hstack(arrays: Sequence[Any], /) -> Any:
    """Joins tensors along the second axis, or one-dimensional ones along their only axis.

    Raises:
        RuntimeError: there are none.
        TypeError: an argument is not an array, or shapes are incompatible.
    """
    what = "dr.hstack"
    found = [_at_least(1, a) for a in _tensors(arrays, what)]
    return concat_tensors(found, 0 if len(found[0]._shape) == 1 else 1, what)


@signatures.stacking
def column_stack(arrays: Sequence[Any], /) -> Any:
    """Joins tensors along the second axis; one-dimensional ones are columns.

    Raises:
        RuntimeError: there are none.
        TypeError: an argument is not an array, or shapes are incompatible.
    """
    what = "dr.column_stack"
    found = [_at_least(1, a) for a in _tensors(arrays, what)]
    return concat_tensors([expand_dims(a, 1) if len(a._shape) == 1 else a for a in found], 1, what)


@signatures.stacking
def dstack(arrays: Sequence[Any], /) -> Any:
    """Joins tensors along the third axis, which is added if missing; one-dimensional ones are rows.

    Raises:
        RuntimeError: there are none.
        TypeError: an argument is not an array, or shapes are incompatible.
    """
    what = "dr.dstack"
    return concat_tensors([_at_least(3, a) for a in _tensors(arrays, what)], 2, what)


# Splitting


def _pieces(value: Any, ends: Sequence[int | None], axis: int) -> list[Any]:
    """Returns the tensors between consecutive positions along an axis."""
    lead = (slice(None),) * axis
    return [value[(*lead, slice(a, b))] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


_SECTIONS = "(): expected a number of parts or a list of positions, not"


def _sections(count: Any, what: str) -> int:
    n = conversion.integer(count, what + _SECTIONS)
    if n <= 0:
        raise ValueError(f"{what}(): the number of parts must be positive, got {n}")
    return n


def _ends(places: Any, what: str) -> list[int | None]:
    """Returns where pieces end that begin at the given places."""
    return [*conversion.integers(places, what + _SECTIONS), None]


def split(
    value: "TensorT", indices_or_sections: int | Sequence[int], /, axis: int = 0
) -> "list[TensorT]":
    """Splits a tensor along an axis into equal parts, or at the given positions.

    Raises:
        TypeError: the value is not a tensor.
        RuntimeError: it cannot be cut into that many equal parts, or the axis is out of bounds.
        ValueError: the number of parts is not positive.

    >>> from drjit.llvm import TensorXf
    >>> split(TensorXf([1, 2, 3, 4]), [1, 3])
    [[1], [2, 3], [4]]
    """
    what = "dr.split"
    place, n = _axis_of(value, axis, what)
    if not conversion.is_integer(indices_or_sections):
        return _pieces(value, _ends(indices_or_sections, what), place)
    count = _sections(indices_or_sections, what)
    if n % count:
        raise RuntimeError(
            f"{what}(): axis {place} of size {n} cannot be equally split into {count} parts; "
            "dr.array_split() makes parts of different sizes"
        )
    return array_split(value, count, place)


def array_split(
    value: "TensorT", sections: int | Sequence[int], /, axis: int = 0
) -> "list[TensorT]":
    """Splits a tensor along an axis into a number of parts, the first of which may be longer by
    one.

    Raises:
        TypeError: the value is not a tensor.
        RuntimeError: the axis is out of bounds.
        ValueError: the number of parts is not positive.
    """
    what = "dr.array_split"
    place, n = _axis_of(value, axis, what)
    if not conversion.is_integer(sections):
        return _pieces(value, _ends(sections, what), place)
    count = _sections(sections, what)
    sizes = [n // count + (k < n % count) for k in range(count)]
    return _pieces(value, np.cumsum(sizes).tolist(), place)


def _axis_of(value: Any, axis: int, what: str) -> tuple[int, int]:
    shape = tensor_argument(value, what)._shape
    place = conversion.normalized_axis(operator.index(axis), len(shape), f"{what}()")
    return place, shape[place]
