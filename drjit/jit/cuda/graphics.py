"""Buffers and textures of OpenGL in the memory of a GPU, which the driver maps temporarily.

A resource is the handle that the driver gives for a registered buffer or texture.
"""

import ctypes
from ctypes import byref, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

from .driver import CudaError

_WRITE_DISCARD = 2  # CU_GRAPHICS_REGISTER_FLAGS_WRITE_DISCARD
_TEXTURE_2D = 0x0DE1  # GL_TEXTURE_2D
_HOST, _DEVICE, _ARRAY = 1, 2, 3  # CUmemorytype
_BYTES = {1: 1, 2: 2, 3: 4, 8: 1, 9: 2, 10: 4, 0x10: 2, 0x20: 4}  # of CUarray_format


class _Copy(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = (
        *[
            (f"{side}_{name}", kind)
            for side in ("source", "target")
            for name, kind in (
                ("x", c_size_t), ("y", c_size_t), ("type", c_uint), ("host", c_void_p),
                ("device", c_uint64), ("array", c_void_p), ("pitch", c_size_t),
            )
        ],
        ("width", c_size_t),
        ("height", c_size_t),
    )  # fmt: skip


class _Descriptor(ctypes.Structure):
    """CUDA_ARRAY_DESCRIPTOR."""

    _fields_ = (
        ("width", c_size_t), ("height", c_size_t), ("format", c_uint), ("channels", c_uint),
    )  # fmt: skip


def register(device: Any, number: int, texture: bool, discard: bool, what: str) -> int:
    """Returns the resource of an OpenGL buffer or two-dimensional texture; with `discard`, what it
    holds is lost when it is mapped.

    Raises:
        RuntimeError: the driver refuses it.
    """
    handle, flags = c_void_p(), _WRITE_DISCARD if discard else 0
    try:
        call = "cuGraphicsGLRegisterImage" if texture else "cuGraphicsGLRegisterBuffer"
        device.driver.call_optional(call, byref(handle), number, *[_TEXTURE_2D] * texture, flags)
    except CudaError as error:
        kind = "two-dimensional texture" if texture else "buffer"
        raise RuntimeError(
            f"{what}: the driver refuses {number!r} ({error}). It must be the number of an OpenGL "
            f"{kind} with contents, and an OpenGL context on the same GPU must be current in this "
            "thread."
        ) from error
    return handle.value or 0


def unregister(device: Any, resource: int) -> None:
    """Ends the use of a resource."""
    device.driver.call_optional("cuGraphicsUnregisterResource", resource)


def map_resource(device: Any, resource: int) -> None:
    """Lets later work access a resource, after what OpenGL was asked to do."""
    device.queue.call_optional("cuGraphicsMapResources", 1, byref(c_void_p(resource)))


def unmap_resource(device: Any, resource: int) -> None:
    """Returns a resource to OpenGL after the work that is queued."""
    device.queue.call_optional("cuGraphicsUnmapResources", 1, byref(c_void_p(resource)))


def pointer(device: Any, resource: int) -> tuple[int, int]:
    """Returns the address and the bytes of a mapped buffer."""
    address, size = c_uint64(), c_size_t()
    device.driver.call_optional(
        "cuGraphicsResourceGetMappedPointer_v2", byref(address), byref(size), resource
    )
    return address.value, size.value


def array(device: Any, resource: int, mip_level: int) -> int:
    """Returns the CUDA array of one level of a mapped texture."""
    handle = c_void_p()
    device.driver.call_optional(
        "cuGraphicsSubResourceGetMappedArray", byref(handle), resource, 0, mip_level
    )
    return handle.value or 0


def extent(device: Any, handle: int) -> tuple[int, int, int]:
    """Returns height, width, and the bytes of a texel of a CUDA array, 0 if they are not known."""
    descriptor = _Descriptor()
    device.driver.call_optional("cuArrayGetDescriptor_v2", byref(descriptor), handle)
    return (
        descriptor.height,
        descriptor.width,
        descriptor.channels * _BYTES.get(descriptor.format, 0),
    )


def copy_rows(
    device: Any, to: int, source: int, pitch: int, height: int, from_host: bool = False
) -> None:
    """Queues a copy of dense rows of `pitch` bytes to a CUDA array."""
    copy = _Copy(
        source_type=_HOST if from_host else _DEVICE, source_pitch=pitch, target_type=_ARRAY,
        target_array=to, width=pitch, height=height,
    )  # fmt: skip
    if from_host:
        copy.source_host = source
    else:
        copy.source_device = source
    device.queue.call_optional("cuMemcpy2DAsync_v2", byref(copy))
