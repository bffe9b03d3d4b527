"""Reshaping: the entries of an array in another shape or type."""

from math import prod
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ...array.base import ArrayBase, KernelValue
from ...array.pytree import is_container, map_tree
from ...jit.run import freeze_size
from .. import conversion
from ..arguments import integers
from ..conversion import is_array, is_array_class, is_flat, label, tensor
from .entries import flat_size, take_entries
from .layout import ravel, unravel_dims

if TYPE_CHECKING:
    from ...array.kinds import Sizes
    from ...array.promotion import PyTree
    from ...array.signatures import TensorT

T = TypeVar("T", bound=Any)


@overload
def reshape(
    dtype: type[T],
    value: "ArrayBase | PyTree",
    shape: "Sizes | None" = None,
    order: str = "A",
    shrink: bool = False,
) -> T: ...
@overload
def reshape(
    value: "TensorT", shape: "Sizes", order: str = "A", *, shrink: bool = False
) -> "TensorT": ...
@overload
def reshape(
    value: "ArrayBase | PyTree", shape: "Sizes", order: str = "A", *, shrink: bool = False
) -> Any: ...
def reshape(  # pyright: ignore[reportInconsistentOverload]
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
        spread = conversion.spread(value)
        return conversion.map_leaves(
            spread, lambda v: _reshape(type(v), v, sizes, order, True, what)
        )
    return _reshape(dtype, value, sizes, order, shrink, what)


def _target_sizes(shape: Any, what: str) -> tuple[int, ...]:
    sizes = integers(shape, f"{what}: 'shape' must be an int or a tuple of ints, not")
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
    size = flat_size(flat)
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
        flat = take_entries(flat, count, lambda i: i, what)
    if dtype._kind == "tensor":
        return tensor(dtype, dtype.Array(flat), shape)
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
