"""Arrays that stay on a device without memory of the process, such as a GPU: from and to other
libraries there, by DLPack and by `__cuda_array_interface__`.
"""

from math import prod
from typing import Any

from ..jit.device import Device, Foreign
from ..jit.ir import dtype as dt
from ..jit.ir import node
from ..jit.ir.node import Node
from ..jit.run import launch, schedule
from ..jit.trace.access import Access
from . import leaf, leaf_access, table
from .base import type_label


def away(value: Any) -> Device | None:
    """Returns the device of an array or class if its memory is not that of the process."""
    device = value._device
    return None if device is None or device.on_host else device


def to_tensor(cls: Any, found: Foreign, flip_axes: bool = False) -> Any:
    """Returns a tensor with the element type of a class and the contents of an array on its
    device. Dense arrays share the memory until they are written to."""
    shape, strides = found.shape, found.strides
    flat = node.buffer(found.dtype, found.size, found.buffer)
    if found.size == 0:
        flat = node.literal(found.dtype, 0, 0)
    if flip_axes and len(shape) > 1:
        steps = strides or tuple(prod(shape[k + 1 :]) for k in range(len(shape)))
        shape, strides = shape[::-1], steps[::-1]
    if strides is not None:
        flat = _gathered(cls, flat, shape, strides, found.offset)
    made = table.find(cls._namespace, "tensor", cls._dtype)
    result = made.__new__(made)
    result._array = leaf.wrap(made.Array, node.cast(cls._dtype, flat))
    result._shape = shape
    return result


def _gathered(
    cls: Any, flat: Node, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Node:
    """Returns the entries of an array in C order."""
    integer = table.find(cls._namespace, "leaf", dt.u64 if flat.size >> 32 else dt.u32)
    rest = leaf.lane(integer, prod(shape))
    index = leaf.literal(integer, offset)
    for n, step in zip(reversed(shape), reversed(strides), strict=True):
        # Integers wrap around, so negative steps work as well.
        index = index + (rest % n) * leaf.literal(integer, step)
        rest = rest // n
    source = leaf.wrap(cls._leaf, flat)
    return leaf_access.gather(source, Access(index._node, inside=True))._node


def _dense(value: Any) -> tuple[Node, tuple[int, ...]]:
    """Returns the evaluated entries of an array, and their shape."""
    if value._kind == "nested":
        value = table.like(type(value), kind="tensor")(value)
    if launch.on_read is not None:  # a frozen function would not export what it is called for
        launch.on_read()
    held = value._array if value._kind == "tensor" else value
    shape = value._shape if value._kind == "tensor" else (held._node.size,)
    n = held._node
    if not n.is_evaluated and n.size:
        n = held._node = schedule.materialize(n, held._device)
    return n, shape


def dlpack(value: Any, device: Device, stream: Any, **options: Any) -> Any:
    """Returns a DLPack capsule with the array's memory on its device."""
    n, shape = _dense(value)
    buffer = n.data if n.size else device.allocate(0)
    return device.dlpack(buffer, n.dtype, shape, stream, **options)


def interface(value: Any) -> dict[str, Any]:
    """The array as `__cuda_array_interface__` describes it, for CuPy, Numba and others.

    The memory stays valid as long as this array does, also if it is written to: that copies it.
    """
    device = away(value)
    if device is None:
        raise AttributeError(f"{type_label(value)} has no attribute '__cuda_array_interface__'")
    n, shape = _dense(value)
    value._exported = device.export(n.data if n.size else device.allocate(0), n.dtype, shape)
    return value._exported.interface


def _finish(cls: Any) -> None:
    if cls._kind != "nested" and away(cls) is not None:
        cls.__cuda_array_interface__ = property(interface)


table.finishers.append(_finish)
