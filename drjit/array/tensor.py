"""Tensors: a flat array and a shape, in C order. Shapes broadcast as in NumPy."""

from collections.abc import Sequence
from math import prod
from typing import Any

from ..jit.ir import dtype as dt
from ..jit.ir import node
from ..jit.ir import op as ops
from ..jit.ir.op import ReduceMode
from ..jit.lazy import np
from ..jit.trace.access import Access
from . import leaf, leaf_access, table
from .base import ArrayBase, listed
from .leaf import new
from .promote import Incompatible, check_range, convert

Shape = tuple[int, ...]
_NO_CONFLICTS = ReduceMode.NoConflicts  # looking it up takes long


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


def index_class(namespace: str, wide: bool) -> Any:
    """Returns the class of positions, with 64 bits if they are `wide`."""
    return table.find(namespace, "leaf", dt.u64 if wide else dt.u32)


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
    """Traced arrays of one type and of these numbers of entries, or one for all, one after the
    other."""
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
