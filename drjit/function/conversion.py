"""Shared parts of array functions: related classes, the innermost components of nested
arrays, entries of flat arrays, and checks and conversions of arguments: integers, indices, masks,
sizes and axes."""

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import prod
from typing import Any, TypeVar

from ..array import leaf, leaf_access, pytree, show
from ..array.base import ArrayBase
from ..array.base import nested as nested
from ..array.base import type_label as label
from ..array.interop import host_array, is_foreign_array
from ..array.leaf import unwritten as unwritten
from ..array.meta import DYNAMIC
from ..array.show import common_width, component_shape, innermost
from ..array.show import is_array as is_array
from ..array.table import related as related
from ..array.tensor import wrap as tensor  # noqa: F401 - for the modules that import this one
from ..jit import log
from ..jit.ir import dtype as dt
from ..jit.ir.dtype import DType
from ..jit.ir.op import ReduceMode
from ..jit.lazy import np
from ..jit.trace.access import ALWAYS, Access

T = TypeVar("T", bound=Any)


def with_dtype(cls: type, dtype: DType) -> type:
    """Returns the class of the same shape with another element type."""
    return cls if cls._dtype is dtype else related(cls, dtype=dtype)


def in_single(f: Callable[..., Any], *args: Any) -> Any:
    """Returns `f(*args)`. If all arrays in the arguments are of half precision, `f` gets them in
    single precision, and its results are rounded."""
    found = pytree.arrays(args)
    if not found or any(a._dtype is not dt.f16 for a in found):
        return f(*args)

    def converter(dtype: DType) -> Callable[[Any], Any]:
        return lambda v: with_dtype(type(v), dtype)(v) if is_array(v) else v

    return pytree.map_tree(converter(dt.f16), f(*pytree.map_tree(converter(dt.f32), args)))


@cache
def flat_class(cls: type, dtype: DType | None = None) -> Any:
    """Returns the one-dimensional array class of the namespace, with the given element type:
    `Float` for `Array3f`, `ArrayXf` for `drjit.scalar.Array3f`."""
    dtype = dtype or cls._dtype
    if cls.__meta__.is_jit:
        return related(cls, kind="leaf", dims=(), dtype=dtype)
    return related(cls, kind="vector", dims=(DYNAMIC,), dtype=dtype)


def tensor_class(cls: type) -> Any:
    """Returns the tensor class with the same namespace and element type."""
    return related(cls, kind="tensor", dims=())


def as_tensor(value: Any) -> Any:
    """Returns the entries of any array as a tensor."""
    return value if value._kind == "tensor" else tensor_class(type(value))(value)


class UserCall:
    """A call by the user, with its arguments, for messages; formatted only when needed."""

    __slots__ = ("_arguments", "_name")

    def __init__(self, name: str, *arguments: Any) -> None:
        self._name, self._arguments = name, arguments

    def __str__(self) -> str:
        return f"{self._name}({', '.join([f'<{label(a)}>' for a in self._arguments])})"


def is_array_class(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, ArrayBase)


def is_flat(cls: type) -> bool:
    """Returns whether an array class is one-dimensional and of dynamic size."""
    if cls._kind == "leaf":
        return True
    meta = cls.__meta__
    return meta.kind == "vector" and meta.dims == (DYNAMIC,) and not meta.is_jit


def plain(value: Any) -> Any:
    """Returns a matrix, complex number or quaternion as an array of its components."""
    if is_array(value) and value._kind == "nested" and value.__meta__.kind != "vector":
        return nested(type(value).Array, [plain(c) for c in value._components])
    return value


def assemble(cls: type, leaves: Sequence[Any], dims: Sequence[int]) -> Any:
    """Returns a nested array of class `cls` from its innermost components in row-major order;
    `dims` are the sizes of its levels."""
    if not dims:
        return leaves[0]
    if len(dims) == 1:
        return nested(cls, leaves)
    size, step = dims[0], prod(dims[1:])
    parts = [assemble(cls.Value, leaves[k * step : (k + 1) * step], dims[1:]) for k in range(size)]
    return nested(cls, parts)


def fits(dims: Sequence[int], sizes: Sequence[int]) -> bool:
    """Returns whether a class with level sizes `dims` can hold arrays with level sizes `sizes`."""
    pairs = zip(dims, sizes, strict=False)
    return len(dims) == len(sizes) and all(d in (DYNAMIC, s) for d, s in pairs)


def dims_of(value: Any, what: str) -> tuple[int, ...]:
    """Returns the sizes of the levels of a nested array, excluding lanes.

    Raises:
        RuntimeError: they differ between components.
    """
    shape = component_shape(value)
    if shape is None:
        raise RuntimeError(f"{what}(<{label(value)}>): the components have different sizes")
    return shape


def width_of(leaves: Sequence[Any], what: str, cls: type) -> int:
    """Returns the common number of lanes of innermost components.

    Raises:
        RuntimeError: components have different numbers of lanes.
    """
    width = common_width(leaves)
    if width is None:
        sizes = ", ".join(str(v._node.size) for v in leaves)
        raise RuntimeError(
            f"{what}(<{label(cls)}>): the array is ragged, its components have {sizes} entries. "
            "They must all have the same number of entries, or one."
        )
    return width


def even_leaves(value: Any, what: str) -> tuple[list[Any], int]:
    """Returns the innermost components of a traced array, broadcast to the same number of lanes,
    and that number."""
    leaves = list(innermost(value))
    width = width_of(leaves, what, type(value))
    return [leaf.resize(v, width) for v in leaves], width


def index_leaf(index: Any, cls: type, what: str) -> Any:
    """Converts an index argument to a one-dimensional traced integer array in the namespace of
    `cls`. Masks and floating point numbers are converted as by the class of the indices, with a
    warning where this may drop fractions.

    Raises:
        TypeError: the index is not a number, array or sequence of integers.
    """
    if is_array(index):
        if index._kind == "tensor":
            index = index._array
        if index._kind == "leaf":
            if index._dtype.is_int:
                return index
            if index._dtype.is_float:
                _warn_of_fractions(index, cls, what)
            return leaf.cast(flat_class(cls, dt.u32), index)
        if index.__meta__.is_jit or not is_flat(type(index)):
            raise _no_index(index, cls, what)
        index = index._components
    if isinstance(index, (bool, int, float, np.generic)):
        if index != int(index):
            _warn_of_fractions(index, cls, what)
        index = int(index)
        return leaf.literal(flat_class(cls, _index_dtype(index, index)), index)
    accepted = "biu"
    if is_foreign_array(index):
        data = np.atleast_1d(host_array(index)).reshape(-1)
        accepted = "biuf"
    elif isinstance(index, (list, tuple, range)):
        try:
            data = np.array(index, np.int64 if len(index) == 0 else None).reshape(-1)
        except ValueError:  # rows of different length, or arrays among the entries
            raise _no_index(index, cls, what) from None
    else:
        try:
            return index_leaf(operator.index(index), cls, what)
        except TypeError:
            raise _no_index(index, cls, what) from None
    if data.dtype.kind not in accepted:
        raise TypeError(f"{what}(): the index has elements of type {data.dtype}, not integers")
    if data.dtype.kind in "bf":
        if data.dtype.kind == "f":
            _warn_of_fractions(index, cls, what)
        data = data.astype(np.int64)
    low, high = (int(data.min()), int(data.max())) if data.size else (0, 0)
    return leaf.from_numpy(flat_class(cls, _index_dtype(low, high)), data, copy=True)


def _no_index(index: Any, cls: type, what: str) -> TypeError:
    return TypeError(
        f"{what}(): the index is of type {label(index)}; expected an integer, a sequence of "
        "integers, or a one-dimensional integer array such as "
        f"{label(flat_class(cls, dt.u32))}"
    )


def _warn_of_fractions(index: Any, cls: type, what: str) -> None:
    log.warn(
        f"{what}() with an index that is no integer: it is of type {label(index)}, and its "
        f"fractions are dropped. Convert it, such as by {label(flat_class(cls, dt.u32))}(index)"
    )


def _index_dtype(low: int, high: int) -> DType:
    if low < 0:
        return dt.i32 if low >= -(1 << 31) and high < 1 << 31 else dt.i64
    return dt.u32 if high < 1 << 32 else dt.u64


def mask_leaf(active: Any, cls: type, what: str) -> Any:
    """Converts a mask argument to a one-dimensional traced mask in the namespace of `cls`. Entries
    of other arrays count as true if they are not 0; any other object has Python's truth value.

    Raises:
        TypeError: it is None, text, or a sequence with entries other than bools.
    """
    if active is True:
        return always_true(cls)
    target = flat_class(cls, dt.mask)
    if is_array(active):
        if active._kind == "tensor":
            active = active._array
        if active._kind == "leaf":
            return active if active._dtype.is_mask else leaf.cast(target, active)
        if active.__meta__.is_jit or not active._dtype.is_mask:
            raise _no_mask(active, target, what)
        active = list(active)
    if is_foreign_array(active) or isinstance(active, Iterable):
        try:
            return target(active)
        except (TypeError, RuntimeError):
            raise _no_mask(active, target, what) from None
    if active is None:
        raise _no_mask(active, target, what)
    return leaf.literal(target, bool(active))


def _no_mask(active: Any, target: type, what: str) -> TypeError:
    return TypeError(
        f"{what}(): 'active' is of type {label(active)}; expected a bool, a sequence of bools, or "
        f"a one-dimensional mask such as {label(target)}"
    )


def lanes(cls: type, size: int) -> Any:
    """Returns the positions of entries, 0 to `size` - 1: a traced array for traced classes, a NumPy
    array for those of `drjit.scalar`."""
    return leaf.lane(flat_class(cls, dt.u32), size) if cls.__meta__.is_jit else np.arange(size)


@cache
def always_true(cls: type) -> Any:
    """Returns the mask that is always true, in the namespace of `cls`. It is shared, so use it as
    an operand only."""
    return leaf.literal(flat_class(cls, dt.mask), True)


def pick(source: Any, index: Any, what: str) -> Any:
    """Returns entries of a flat array at positions that are known to be in bounds."""
    if source._kind == "nested":
        return nested(type(source), [source._components[i] for i in index])
    return leaf_access.gather(source, Access(index._node, what=what, inside=True))


def access_to(
    cls: type,
    index: Any,
    active: Any,
    what: str,
    mode: ReduceMode = ReduceMode.Auto,
    reduce: str = "",
    packet: int = 1,
) -> Access:
    """Returns the access to arrays of the namespace of `cls` that an index and a mask describe."""
    given = index
    if getattr(index, "_kind", None) != "leaf" or not index._dtype.is_int:
        index = index_leaf(index, cls, what)
    if active is True:
        mask = ALWAYS
    else:
        mask = (active if type(active) is cls.Mask else mask_leaf(active, cls, what))._node
        if mask.size == 0:
            leaf.check_empty(what, (index._node, mask), (given, active))
    at = Access(index._node, mask, what, packet, False, mode, reduce)
    at.depth = 5  # `gather`, `leaf_access.gather`, `access.gather`, and two more
    return at


def normalized_axis(axis: int, ndim: int, what: str | UserCall) -> int:
    """Returns an axis counted from the front.

    Raises:
        TypeError: it is no integer.
        RuntimeError: it is out of range.
    """
    if not is_integer(axis):
        raise TypeError(f"{what}: 'axis' must be an int, not {axis!r}")
    result = axis + ndim if axis < 0 else axis
    if not 0 <= result < ndim:
        raise RuntimeError(
            f"{what}: axis {axis} is out of bounds for an array of {ndim} dimensions"
        )
    return result


def shape_of(value: Any, what: str) -> tuple[int, ...]:
    """Returns the sizes of all dimensions of an array, lanes last.

    Raises:
        RuntimeError: they differ between components.
    """
    result = show.shape_of(value)
    if result is None:
        raise show.ragged(value, f"{what}(<{label(value)}>)")
    return result


def size_tuple(shape: Any, what: str) -> tuple[int, ...] | int:
    """Checks a `shape` argument, an int or a sequence of ints, of which it returns a tuple.

    Raises:
        TypeError: it is neither, or negative.
    """
    sizes = integers(shape, f"{what}(): 'shape' must be an int or a tuple of ints, not")
    if any(s < 0 for s in sizes):
        raise TypeError(f"{what}(): 'shape' must not be negative, got {shape!r}")
    return sizes[0] if is_integer(shape) else sizes


def map_leaves(value: Any, f: Callable[[Any], Any]) -> Any:
    """Applies `f` to the innermost components of an array and returns one of the same class."""
    return converted(value, type(value), lambda v, _: f(v))


def converted(value: Any, cls: Any, f: Callable[[Any, Any], Any]) -> Any:
    """Returns an array of class `cls` with the shape of another one, from `f(leaf, class)` of its
    leaves."""
    kind = cls._kind
    if kind == "leaf":
        return f(value, cls)
    result = object.__new__(cls)
    if kind == "tensor":
        result._array, result._shape = converted(value._array, cls.Array, f), value._shape
    elif issubclass(cls.Value, ArrayBase):
        result._components = [converted(c, cls.Value, f) for c in value._components]
    else:
        result._components = [f(c, cls.Value) for c in value._components]
    return result


def broadcast_components(value: Any) -> Any:
    """Broadcasts the innermost components of a nested array to its width, unless it is ragged."""
    width = common_width(list(innermost(value)))
    return value if width in (None, 1) else map_leaves(value, lambda v: leaf.resize(v, width))


def unexpected(what: str, expected: str, value: Any, verb: str = "not") -> TypeError:
    """Returns the error of function `what` for an argument of the wrong type."""
    return TypeError(f"{what}(): expected {expected}, {verb} {label(value)}")


def is_real(value: Any) -> bool:
    """Returns whether an argument is a real number: one of Python's, or of a package that registers
    its types with the module `numbers`."""
    if isinstance(value, (float, int)):
        return True
    from numbers import Real  # a module that few programs need

    return isinstance(value, Real)


def integer(value: Any, message: str) -> int:
    """Returns an argument as a Python integer.

    Raises:
        TypeError: it is not an integer, with this message and the value.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{message} {value!r}") from None


def integers(value: Any, message: str) -> tuple[int, ...]:
    """Returns an integer, or several integers, such as those of a list or an array, as a tuple.

    Raises:
        TypeError: it is neither, with this message and the value.
    """
    try:
        return (operator.index(value),)
    except TypeError:
        pass
    try:
        return tuple(map(operator.index, value))
    except TypeError:
        raise TypeError(f"{message} {value!r}") from None


def is_integer(value: Any) -> bool:
    """Returns whether a value can be used as an integer."""
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


# Flat arrays: one-dimensional traced arrays, and those of `drjit.scalar`


def flat_size(array: Any) -> int:
    """Returns the number of entries of a flat array."""
    return array._node.size if array._kind == "leaf" else len(array._components)


def take_entries(array: Any, size: int, index: Callable[[Any], Any], what: str) -> Any:
    """Returns the array of `size` entries whose entry i is entry `index(i)` of a flat array."""
    cls = type(array)
    if array._kind == "nested":
        return pick(array, np.broadcast_to(index(lanes(cls, size)), size), what)
    if array._node.is_literal and array._var is None:
        return leaf.literal(cls, array._node.data, size)
    if size == 0:
        return leaf.literal(cls, 0, 0)
    if array._node.size == 1:
        return leaf.resize(array, size)
    return pick(array, index(lanes(cls, size)), what)


def places(index: Any, shape: Sequence[int]) -> list[Any]:
    """Returns the position along each axis of a tensor's entry with a flat index."""
    found: list[Any] = []
    for axis in range(len(shape) - 1, -1, -1):
        n = shape[axis]
        if n == 1:
            found.append(0)
        elif prod(shape[:axis]) == 1:
            found.append(index)
        else:
            found.append(index % n)
            index = index // n
    return found[::-1]


def flat_index(places: Sequence[Any], shape: Sequence[int]) -> Any:
    """Returns the flat index of a tensor's entry with the given position along each axis."""
    result: Any = None
    for place, n in zip(places, shape, strict=True):
        if n != 1:
            result = place if result is None else result * n + place
    return 0 if result is None else result


def take_places(
    array: Any,
    shape: Sequence[int],
    result: Sequence[int],
    place: Callable[[int, Any], Any],
    what: str,
) -> Any:
    """Returns the entries, in the shape `result`, that are at `place(axis, position)` along each
    axis of a flat array of another shape."""

    def index(i: Any) -> Any:
        chosen = [place(axis, p) for axis, p in enumerate(places(i, result))]
        return flat_index(chosen, shape)

    return take_entries(array, prod(result), index, what)


def host_entries(array: Any, shape: Sequence[int]) -> np.ndarray:
    """Returns the entries of a flat `drjit.scalar` array as Python numbers in the given shape."""
    found = np.empty(len(array._components), object)
    found[:] = array._components
    return found.reshape(shape)
