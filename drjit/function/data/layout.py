"""Changes of layout: slices, the entries of arrays in another shape or type, indices of masks,
reinterpretation of bits; also binary search."""

import builtins
import itertools
import operator
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

from ...array import leaf, leaf_access, signatures, table
from ...array.base import ArrayBase, KernelValue
from ...array.elementwise import elementwise
from ...array.meta import DYNAMIC
from ...array.pytree import is_container, map_tree
from ...array.show import innermost
from ...array.tensor import joined
from ...jit.ir import dtype as dt
from ...jit.ir import node, op
from ...jit.lazy import np
from ...jit.run import freeze_size
from ...jit.trace.access import Access
from .. import conversion
from ..conversion import T, is_array, is_array_class, is_flat, label, nested
from .memory import gather


@signatures.sliced
def slice(value: Any, index: Any = 0) -> Any:
    """Returns the entries `index` along the lanes, i.e. the last axis, of an array or of every
    array of a PyTree.

    With an integer, arrays become Python numbers or arrays of `drjit.scalar`. With several indices
    (an array or a sequence of integers), they keep their type. Everything without lanes, such as
    numbers, tensors and arrays of fixed size, is returned unchanged.

    Raises:
        IndexError: the index is out of bounds.
        TypeError: the index is neither an integer nor a collection of integers.

    >>> from drjit.llvm import Array2f, Float
    >>> dr.slice(Array2f([1, 2], [3, 4]), 1)
    [2, 4]
    >>> dr.slice(Float(5, 6, 7), 2)
    7.0
    >>> dr.slice(Float(5, 6, 7), [0, 2])
    [5, 7]
    """
    what = "dr.slice"
    if is_container(value):
        return map_tree(lambda v: slice(v, index), value, what=what)
    if not is_array(value) or value._kind == "tensor":
        return value
    meta = value.__meta__
    if not meta.is_jit and meta.dims[-1] != DYNAMIC:
        return value
    single = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
    if not single and not isinstance(index, builtins.slice):
        if not meta.is_jit:
            return gather(type(value), value, index)
        index = conversion.index_leaf(index, type(value), what)
    if is_flat(type(value)):
        return value[index]
    dims = conversion.dims_of(value, what)
    if not single:
        leaves, _ = conversion.even_leaves(value, what)
        return conversion.assemble(type(value), [v[index] for v in leaves], dims)
    cls = conversion.related(type(value), namespace="scalar")
    return conversion.assemble(cls, [v[index] for v in innermost(value)], dims)


def _check_order(order: str, what: str) -> None:
    if order not in ("A", "C", "F"):
        raise RuntimeError(f"{what}(): order parameter must equal 'A', 'C' or 'F', not {order!r}")


@cache
def _column_major(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the row-major positions of components in column-major order."""
    strides = [prod(dims[k + 1 :]) for k in range(len(dims))]
    return tuple(
        [
            sum(map(operator.mul, reversed(place), strides))
            for place in itertools.product(*map(range, reversed(dims)))
        ]
    )


@signatures.flattened
def ravel(array: Any, order: str = "A") -> Any:
    """Returns the entries of an array as a one-dimensional array.

    'C' is row-major: the lanes of a component stay together. 'F' is column-major: the components of
    a lane stay together, as in the layout used by `gather` and `scatter` for nested types. 'A' is
    'F' for nested arrays and 'C' for tensors. Lists of numbers become arrays of `drjit.scalar`.

    Raises:
        RuntimeError: the array is ragged, or `order` is unknown, or 'F' for a tensor.

    >>> from drjit.llvm import Array2f
    >>> dr.ravel(Array2f([1, 2, 3], [4, 5, 6]))
    [1, 4, 2, 5, 3, 6]
    >>> dr.ravel(Array2f([1, 2, 3], [4, 5, 6]), order='C')
    [1, 2, 3, 4, 5, 6]
    """
    what = "dr.ravel"
    _check_order(order, what)
    if isinstance(array, (list, tuple, KernelValue)):
        return _ravel_sequence(list(array), order)
    if not is_array(array) or is_flat(type(array)):
        return array
    if array._kind == "tensor":
        if order == "F":
            raise RuntimeError(f"{what}({label(array)}): tensors are laid out in 'C' order only")
        return array._array
    dims = conversion.dims_of(array, what)
    if not array.__meta__.is_jit:
        entries = list(innermost(array))
        if order != "C":
            entries = [entries[k] for k in _column_major(dims)]
        return nested(conversion.flat_class(type(array)), entries)
    leaves, width = conversion.even_leaves(array, what)
    cls, count = array._leaf, len(leaves)
    if count == 1:
        return leaves[0]
    if order == "C" and leaves:
        return joined(leaves, [width] * count, what)
    result = conversion.unwritten(cls, count * width)
    if width:
        ordered = [leaves[k] for k in _column_major(dims)]
        at = Access(conversion.lanes(cls, width)._node, what=what, packet=count)
        leaf_access.scatter(result, ordered, at)
    return result


def _ravel_sequence(array: Sequence[Any], order: str) -> Any:
    if any(is_array(v) for v in array):
        first = next(v for v in array if is_array(v))
        if first._kind != "leaf":
            raise TypeError(f"dr.ravel(): cannot join a list of {label(first)}")
        cls = conversion.related(type(first), kind="vector", dims=(DYNAMIC,))
        return ravel(cls(*array), order)
    data = np.array(array, np.float32)
    cls = table.find("scalar", "vector", dt.f32, (DYNAMIC,))
    return cls(data.ravel(order="C" if order == "C" else "F").tolist())


def unravel(dtype: type[T], array: ArrayBase, order: str = "A") -> T:
    """Returns a nested array of class `dtype` with the entries of a one-dimensional array; the
    inverse of `ravel`.

    Raises:
        TypeError: `dtype` is a tensor or of dynamic size, or `array` is not one-dimensional.
        RuntimeError: the entries do not fill all components, or `order` is unknown.

    >>> from drjit.llvm import Array2f, Float
    >>> dr.unravel(Array2f, Float(1, 2, 3, 4, 5, 6))
    [[1, 2],
     [3, 4],
     [5, 6]]
    """
    what = "dr.unravel"
    _check_order(order, what)
    if not is_array_class(dtype) or dtype._kind == "tensor":
        raise TypeError(f"{what}(): 'dtype' must be a nested array type, not {label(dtype)}")
    if not is_array(array) or not is_flat(type(array)):
        raise conversion.unexpected(
            what, f"array of type {label(conversion.flat_class(dtype))}", array
        )
    if is_flat(dtype):
        return array if type(array) is dtype else dtype(array)  # type: ignore[return-value]
    dims = dtype.__meta__.dims
    if DYNAMIC in dims:
        raise TypeError(f"{what}(): the number of components of {label(dtype)} is not fixed")
    if dtype.__meta__.is_jit != array.__meta__.is_jit:
        array = conversion.flat_class(dtype, array._dtype)(array)
    return unravel_dims(dtype, array, dims, order, what)


def unravel_dims(dtype: type, array: Any, dims: tuple[int, ...], order: str, what: str) -> Any:
    """Performs `unravel` with the given level sizes."""
    count, size = prod(dims), len(array)
    scalar = not dtype.__meta__.is_jit
    if count == 0 or size % count or (scalar and size != count):
        raise RuntimeError(
            f"{what}(<{label(dtype)}>): {size} entries are not divisible among {count} components"
        )
    positions = _column_major(tuple(dims))
    if scalar:
        values = [node.normalize(dtype._dtype, v) for v in array._components]
        if order != "C":
            values = [values[positions.index(k)] for k in range(count)]
        return conversion.assemble(dtype, values, dims)
    width = size // count
    lane = conversion.lanes(type(array), width)
    if count == 1:
        leaves = [array]
    elif order == "C":
        leaves = [conversion.pick(array, lane + k * width, what) for k in range(count)]
    else:
        packet = leaf_access.gather_packet(array, Access(lane._node, what=what, packet=count))
        leaves = [packet[positions.index(k)] for k in range(count)]
    return conversion.assemble(dtype, [dtype._leaf(v) for v in leaves], dims)


@signatures.from_mask
def compress(arg: Any, /) -> Any:
    """Returns the indices where a one-dimensional mask is true, in increasing order, as unsigned
    integers. Evaluates the mask.

    Raises:
        RuntimeError: the argument is not a one-dimensional mask.

    >>> from drjit.llvm import Bool
    >>> dr.compress(Bool(True, False, True))
    [0, 2]
    """
    if not is_array(arg):
        raise conversion.unexpected("dr.compress", "a mask", arg)
    cls = type(arg)
    if not is_flat(cls) or not cls._dtype.is_mask:
        raise RuntimeError(f"dr.compress(<{label(cls)}>): expected a one-dimensional mask")
    result = conversion.flat_class(cls, dt.u32)
    if cls._kind == "leaf":
        return leaf_access.compress(arg, result)
    return nested(result, [i for i, on in enumerate(arg._components) if on])


def reinterpret_array(dtype: type[T], value: complex | ArrayBase, /) -> T:
    """Reinterprets the bits of every entry as an element type of the same size.

    Raises:
        RuntimeError: the types differ in shape, or in the size of their elements.

    >>> from drjit.llvm import Float, UInt
    >>> dr.reinterpret_array(UInt, Float(1.0))
    [1065353216]
    """
    what = "dr.reinterpret_array"
    if not is_array_class(dtype) or not is_array(value):
        raise TypeError(
            f"{what}({label(dtype)}, {label(value)}): expected an array type and an array"
        )
    given: Any = value
    a, b = type(given), dtype
    if a._dtype.itemsize != b._dtype.itemsize or a._dtype.is_mask is not b._dtype.is_mask:
        raise RuntimeError(
            f"{what}(): cannot reinterpret-cast between types of different size, {label(a)} and "
            f"{label(b)}"
        )
    if a._kind == b._kind == "leaf" and a is not b:
        return leaf.bitcast(b, given)
    if len({(c._kind, c.__meta__.dims, c.__meta__.is_jit) for c in (a, b)}) > 1:
        raise RuntimeError(f"{what}(): {label(a)} and {label(b)} are of different shape")

    def reinterpret(v: Any, cls: Any) -> Any:
        if is_array(v):
            return leaf.bitcast(cls, v)
        return np.array(v, a._dtype.numpy).view(b._dtype.numpy).item()

    return given if a is b else conversion.converted(given, dtype, reinterpret)


@signatures.search
def binary_search(start: Any, end: Any, pred: Callable[[Any], Any]) -> Any:
    """Returns the first index in [start, end) for which `pred` is false, or `end` if there is none.

    `pred` maps indices to masks. It must be true for all indices below some position and false from
    there on. With arrays, every lane performs its own search; all steps are traced, so `pred` may
    gather.

    Raises:
        RuntimeError: `start` and `end` differ in size.

    >>> from drjit.llvm import Float
    >>> a = Float(1, 3, 5, 7)
    >>> dr.binary_search(0, 4, lambda i: dr.gather(Float, a, i) < Float(0, 4, 9))
    [0, 2, 4]
    """
    plain = not is_array(start) and not is_array(end)
    span = end - start if plain else (end - start).numpy().max(initial=0)
    steps = max(int(span), 0).bit_length()
    low, high = start, end
    for _ in range(steps):
        # Lanes that are done query a valid index once more and ignore the result.
        middle = low + ((high - low) >> 1)
        last = end - 1
        if is_array(middle) or is_array(last):
            middle = elementwise(op.minimum, middle, last, name="dr.minimum")
        elif middle > last:
            break
        holds = pred(middle)
        if is_array(holds) or is_array(middle):
            up = holds & (low < high)
            low = elementwise(op.select, up, middle + 1, low, name="dr.select")
            high = elementwise(op.select, holds, high, middle, name="dr.select")
        elif holds:
            low = middle + 1
        else:
            high = middle
    return low


@signatures.reshaped
def reshape(
    dtype: Any = None,
    value: Any = None,
    shape: Any = None,
    order: str = "A",
    shrink: bool = False,
) -> Any:
    """Returns the entries of an array as another type, or in another shape: `reshape(dtype, value,
    shape)` or `reshape(value, shape)`.

    `shape` includes the lanes: (3, n) for `Array3f`. One size may be -1 and is inferred from the
    others. `order` is the order in which entries are read and written; see `ravel`. With `shrink`,
    surplus entries at the end are dropped, and an int as the shape is the number of lanes, also for
    nested arrays. PyTrees are reshaped array by array.

    Raises:
        RuntimeError: sizes do not agree, or `shape` does not match the type.

    >>> from drjit.llvm import Array2f, Float
    >>> dr.reshape(Array2f, Float(1, 2, 3, 4), (2, -1))
    [[1, 2],
     [3, 4]]
    """
    if dtype is not None and not isinstance(dtype, type):
        # Called without a type, all arguments shift by one.
        if isinstance(shape, str):
            order = shape
        if value is not None:
            shape = value
        dtype, value = None, dtype
    what = f"dr.reshape(<{label(dtype if dtype is not None else value)}>, <{label(value)}>)"
    joined = isinstance(value, (list, tuple, KernelValue))
    if joined and dtype is not None and is_array_class(dtype):
        value = conversion.tensor_class(dtype)(value)
    elif is_container(value):
        sizes: Any = shape
        return map_tree(lambda v: reshape(v, sizes, order, shrink=shrink), value, what=what)
    if not is_array(value):
        if dtype is None or not is_array_class(dtype):
            return value
        value = dtype(value)
    dtype = type(value) if dtype is None else dtype
    if not is_array_class(dtype):
        raise TypeError(f"{what}: expected an array type, not {label(dtype)}")
    sizes = _target_sizes(shape, what)
    by_lanes = shrink and len(sizes) == 1 and type(value) is dtype
    if by_lanes and dtype._kind == "nested" and dtype.__meta__.is_jit:
        return conversion.map_leaves(
            conversion.broadcast_components(value),
            lambda v: _reshape(type(v), v, sizes, order, True, what),
        )
    return _reshape(dtype, value, sizes, order, shrink, what)


def _target_sizes(shape: Any, what: str) -> tuple[int, ...]:
    sizes = conversion.integers(shape, f"{what}: 'shape' must be an int or a tuple of ints, not")
    if any(s < -1 for s in sizes):
        raise RuntimeError(f"{what}: invalid 'shape' entry (must be nonzero or -1), got {shape!r}")
    if sizes.count(-1) > 1:
        raise RuntimeError(f"{what}: only a single 'shape' entry may be equal to -1, got {shape!r}")
    return sizes


def _reshape(
    dtype: Any, value: Any, shape: tuple[int, ...], order: str, shrink: bool, what: str
) -> Any:
    if dtype._kind == "tensor" and value._kind == "tensor" and order == "F":
        raise RuntimeError(f"{what}: tensors are laid out in 'C' order only")
    flat = ravel(value, order)
    size = conversion.flat_size(flat)
    if -1 in shape:
        known = -prod(shape)
        if known == 0 or size % known:
            raise RuntimeError(
                f"{what}: cannot infer a compatible shape, {size} entries do not fill {shape}"
            )
        shape = tuple([size // known if s == -1 else s for s in shape])
    if shape == value.shape and type(value) is dtype:
        return value
    if shape == value.shape:  # regardless of the order of entries
        order = "C"
        flat = ravel(value, order)
    count = prod(shape)
    if shrink:
        freeze_size.decided(size, *shape)
    if count > size or (count < size and not shrink):
        raise RuntimeError(
            f"{what}: mismatched array sizes (input: {size}, target: {count}); the shape is {shape}"
        )
    if count < size:
        flat = conversion.take_entries(flat, count, lambda i: i, what)
    if dtype._kind == "tensor":
        return conversion.tensor(dtype, dtype.Array(flat), shape)
    dims = dtype.__meta__.dims if not is_flat(dtype) else ()
    lanes = dtype.__meta__.is_jit or is_flat(dtype)
    levels = shape[: len(dims)]
    if len(shape) != len(dims) + lanes or not conversion.fits(dims, levels):
        raise RuntimeError(f"{what}: the shape {shape} does not fit the type {label(dtype)}")
    if not dims:
        return dtype(flat)
    if count == 0:
        return conversion.assemble(dtype, [dtype._leaf() for _ in range(prod(dims))], levels)
    return unravel_dims(dtype, flat, levels, order, what)
