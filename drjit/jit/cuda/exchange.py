"""Arrays of other libraries in the memory of a GPU, such as PyTorch's and CuPy's, by DLPack and by
`__cuda_array_interface__` (https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html).

Nobody waits on the host: events let one library's stream wait for the other's.
"""

import contextlib
from typing import Any

import numpy as np

from ..device import ForeignArray
from ..ir import dtype as dt
from ..ir.dtype import DType
from . import dlpack
from .memory import CudaBuffer

_NO_SYNC = -1  # in place of a stream
_LEGACY = 1  # the default stream
_ALIGNMENT = 16  # of memory that is not copied: the widest access of kernels


def import_array(device: Any, obj: Any, what: str) -> ForeignArray | None:
    """Returns the array that an object exposes in memory of a device, or None if it is elsewhere.

    Raises:
        TypeError: its element type does not exist here, or it is on another device.
    """
    if getattr(obj, "requires_grad", False):
        obj = obj.detach()  # PyTorch tensors in a graph do not provide their contents
    kind = getattr(obj, "__dlpack_device__", None)
    if kind is not None and kind()[0] in (dlpack.CUDA_MANAGED, device.dlpack_device[0]):
        return _foreign_array(
            device, dlpack.take_array(obj.__dlpack__(stream=device.queue.stream), what), what
        )
    interface = getattr(obj, "__cuda_array_interface__", None)
    return _import_interface(device, obj, interface, what) if isinstance(interface, dict) else None


def _import_interface(device: Any, obj: Any, interface: dict[str, Any], what: str) -> ForeignArray:
    address, shape = interface["data"][0] or 0, tuple(interface["shape"])
    kind = np.dtype(interface["typestr"])
    if interface.get("mask") is not None:
        raise TypeError(f"{what}: an array with a mask cannot be converted; fill it in first")
    steps = interface.get("strides")
    if kind.kind == "c":  # real and imaginary parts follow each other
        kind, shape = np.dtype(f"<f{kind.itemsize // 2}"), (*shape, 2)
        steps = None if steps is None else (*steps, kind.itemsize)
    dtype = dt.types_by_numpy().get(kind)
    if dtype is None:
        raise TypeError(f"{what}: elements of type {kind} have no equivalent; convert them first")
    # Before version 3, the interface has no stream, and the default one is meant.
    if (stream := interface.get("stream", _LEGACY)) is not None:
        _wait_for_stream(device, stream, device.queue.stream)
    strides = None if steps is None else tuple([s // kind.itemsize for s in steps])
    return _foreign_array(device, dlpack.CapsuleArray(address, dtype, shape, strides, obj), what)


def _foreign_array(device: Any, array: dlpack.CapsuleArray, what: str) -> ForeignArray:
    """Returns an array with a buffer that spans it: the foreign memory, or a copy if that is not
    aligned."""
    address, dtype, shape, strides, owner = array
    where = ("device", device.ordinal) if 0 in shape else device.driver.pointer(address)
    if where is None or where[1] != device.ordinal:
        place = "in memory that CUDA does not know" if where is None else f"on GPU {where[1]}"
        raise TypeError(f"{what}: the array is {place}, and the backend uses GPU {device.ordinal}")
    steps = dense(shape) if strides is None else strides
    reach = [(n - 1) * s for n, s in zip(shape, steps, strict=True)]
    first = sum(r for r in reach if r < 0)
    count = 0 if 0 in shape else 1 + sum(map(abs, reach))
    start, nbytes = address + first * dtype.itemsize, count * dtype.itemsize
    buffer = device.pool.adopt(start, nbytes, owner)
    if start % _ALIGNMENT:
        buffer = device.copy(buffer, nbytes)
    is_dense = all(n == 1 or s == d for n, s, d in zip(shape, steps, dense(shape), strict=True))
    return ForeignArray(buffer, dtype, shape, None if is_dense else steps, -first, count)


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the strides of a dense array in C order."""
    steps = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        steps[k] = steps[k + 1] * shape[k + 1]
    return tuple(steps)


def _wait_for_stream(device: Any, first: int, second: int) -> None:
    """Lets later work of the second stream wait for what the first one has been given."""
    if first == second:
        return
    event, queue = device.driver.create_event(), device.queue
    if first == queue.stream:
        queue.record(event)
    else:
        device.driver.record(event, first)
    device.driver.wait_for(second, event)
    device.driver.destroy_event(event)


class _Shared:
    """Keeps a buffer alive that another library sees, and counts as one of its views, as long as
    that library keeps this object."""

    def __init__(self, device: Any, buffer: CudaBuffer, stream: int) -> None:
        self.device, self.buffer, self.stream = device, buffer, stream
        buffer.views += 1

    def __del__(self) -> None:
        self.buffer.views -= 1
        if self.stream != _NO_SYNC:
            # The other library's last work may still read. Its stream may be gone, though.
            with contextlib.suppress(RuntimeError):
                _wait_for_stream(self.device, self.stream, self.device.queue.stream)


def export_capsule(
    device: Any, buffer: CudaBuffer, dtype: DType, shape: tuple[int, ...], stream: Any,
    max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:  # fmt: skip
    """Returns a DLPack capsule of a buffer; see `__dlpack__` in the array API standard.

    Raises:
        BufferError: it is requested on another device.
    """
    if dl_device is not None and tuple(dl_device) != device.dlpack_device:
        raise BufferError(
            f"__dlpack__(): the array is on device {device.dlpack_device}, not on {dl_device}"
        )
    if copy:
        buffer = device.copy(buffer, buffer.nbytes)
    to = _LEGACY if stream is None else int(stream)
    if to != _NO_SYNC:
        _wait_for_stream(device, device.queue.stream, to)
    versioned = max_version is not None and max_version[0] >= 1
    owner = _Shared(device, buffer, to)
    return dlpack.make_capsule(buffer.address, dtype, shape, device.dlpack_device, owner, versioned)


class Export(_Shared):
    """A buffer behind `__cuda_array_interface__`, for as long as the array keeps this object."""

    def __init__(
        self, device: Any, buffer: CudaBuffer, dtype: DType, shape: tuple[int, ...]
    ) -> None:
        # What reads it later is not known; the default stream waits for most streams of others.
        super().__init__(device, buffer, _LEGACY)
        self.interface = {
            "version": 3,
            "shape": shape,
            "typestr": dtype.numpy.str,
            "data": (buffer.address, False),
            "strides": None,
            "stream": device.queue.stream,
        }
