"""Memory sharing with OpenGL and partitioning of a GPU."""

import contextlib
import ctypes
import sys
from math import prod
from typing import Any

from ..array.base import type_label
from ..array.table import missing_cuda
from ..jit.backend import JitBackend
from ..jit.device import find

_RESOURCE, _CONTEXT = b"CUgraphicsResource", b"CUcontext"


def _of_capsules(name: str, *types: Any) -> Any:
    """Returns a function of Python's for capsules, given the types of its result and arguments."""
    return ctypes.PYFUNCTYPE(*types)((f"PyCapsule_{name}", ctypes.pythonapi))


_object, _address, _text = ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p
_new = _of_capsules("New", _object, _address, _text, _address)
_is_valid = _of_capsules("IsValid", ctypes.c_int, _object, _text)
_pointer = _of_capsules("GetPointer", _address, _object, _text)


def _gpu(what: str) -> Any:
    """Returns the device, or raises a RuntimeError that says what is missing."""
    return find(JitBackend.CUDA) or missing_cuda(what)


def _interop(what: str) -> tuple[Any, Any]:
    """Returns the device, and the module that exchanges memory with graphics systems."""
    gpu = _gpu(what)
    from ..jit.cuda import graphics

    return gpu, graphics


def _opened(capsule: Any, function: str) -> tuple[Any, Any, int]:
    """Returns what `_interop` does, and the resource in a capsule."""
    what = f"drjit.cuda.{function}()"
    gpu, graphics = _interop(what)
    if not _is_valid(capsule, _RESOURCE):
        raise TypeError(
            f"{what}: expected what register_gl_buffer() or register_gl_texture() returned, got "
            f"{type_label(capsule)}"
        )
    return gpu, graphics, _pointer(capsule, _RESOURCE) or 0


class GLInterop:
    """An OpenGL buffer or texture to which GPU arrays are copied: call `map()`, `upload(array)`,
    `unmap()`. Each method returns the object itself.

    Create it with `from_buffer` or `from_texture`, while the OpenGL context is current.
    """

    __module__ = "drjit.cuda"
    _gpu: Any
    _graphics: Any
    _texture: bool
    _resource = 0
    _level: int | None = None  # the level that is mapped

    def __init__(self) -> None:
        raise TypeError(
            "drjit.cuda.GLInterop: use GLInterop.from_buffer() or GLInterop.from_texture()"
        )

    @classmethod
    def _of(cls, number: int, texture: bool) -> "GLInterop":
        what = f"drjit.cuda.GLInterop.from_{'texture' if texture else 'buffer'}()"
        self = cls.__new__(cls)
        self._gpu, self._graphics = _interop(what)
        self._resource = _registered(number, texture, what, discard=True)
        self._texture = texture
        return self

    @staticmethod
    def from_buffer(arg: int, /) -> "GLInterop":
        """Wraps the OpenGL buffer with the given number.

        Raises:
            RuntimeError: the CUDA backend is not available, or there is no such buffer.
        """
        return GLInterop._of(arg, False)

    @staticmethod
    def from_texture(arg: int, /) -> "GLInterop":
        """Wraps the two-dimensional OpenGL texture with the given number.

        Raises:
            RuntimeError: the CUDA backend is not available, or there is no such texture.
        """
        return GLInterop._of(arg, True)

    def map(self, mip_level: int = 0) -> "GLInterop":
        """Maps the buffer, or a MIP level of the texture, for access by CUDA.

        Raises:
            RuntimeError: it is mapped.
        """
        if self._level is not None:
            raise RuntimeError("drjit.cuda.GLInterop.map(): it is mapped; call unmap() first")
        self._graphics.map_resource(self._gpu, self._resource)
        self._level = mip_level
        return self

    def upload(self, arg: Any, /) -> "GLInterop":
        """Copies a dense array on the GPU to what is mapped: one with the bytes of the buffer, or
        of shape (height, width) or (height, width, channels) with those of the texture. It may be
        an array of another library.

        Raises:
            RuntimeError: nothing is mapped.
            TypeError: the array is not on the GPU, or not dense.
            ValueError: its size differs.
        """
        what = "drjit.cuda.GLInterop.upload()"
        if self._level is None:
            raise RuntimeError(f"{what}: nothing is mapped; call map() first")
        gpu, graphics = self._gpu, self._graphics
        given = gpu.import_array(arg, what)
        if given is None or given.strides is not None:
            where = "in C order" if given is not None else "on the GPU"
            raise TypeError(f"{what}: expected an array {where}, got {type_label(arg)}")
        shape, item = given.shape, given.dtype.itemsize
        if self._texture:
            target = graphics.array(gpu, self._resource, self._level)
            _check_texture(shape, item, graphics.extent(gpu, target), what)
            pitch = item * prod(shape[1:])
            graphics.copy_rows(gpu, target, given.buffer.address, pitch, shape[0])
        else:
            address, size = graphics.pointer(gpu, self._resource)
            nbytes = item * prod(shape)
            if size != nbytes:
                raise ValueError(f"{what}: the array has {nbytes} bytes, and the buffer {size}")
            gpu.queue.copy(address, given.buffer.address, nbytes)
        return self

    def unmap(self) -> "GLInterop":
        """Returns the buffer or texture to OpenGL.

        Raises:
            RuntimeError: it is not mapped.
        """
        if self._level is None:
            raise RuntimeError("drjit.cuda.GLInterop.unmap(): nothing is mapped")
        self._graphics.unmap_resource(self._gpu, self._resource)
        self._level = None
        return self

    def __del__(self, _finalizing: Any = sys.is_finalizing) -> None:
        if self._resource and not _finalizing():
            with contextlib.suppress(RuntimeError):  # after a fork, or without the context
                if self._level is not None:
                    self._graphics.unmap_resource(self._gpu, self._resource)
                self._graphics.unregister(self._gpu, self._resource)


def _check_texture(shape: tuple, item: int, extent: tuple[int, int, int], what: str) -> None:
    height, width, texel = extent
    if len(shape) not in (2, 3):
        raise ValueError(
            f"{what}: expected an array of shape (height, width, channels), got shape {shape}"
        )
    given = shape[0], shape[1], item * prod(shape[2:])
    if given != (height, width, texel or given[2]):
        raise ValueError(
            f"{what}: an array of shape {shape} has {given[0]} x {given[1]} texels of {given[2]} "
            f"bytes, and the texture {height} x {width} of {texel or 'unknown'} bytes"
        )


class green_context:
    """Context manager that runs kernels on a part of the GPU with at least `sm_count`
    multiprocessors: those of all threads, from entering to leaving it, after what was queued
    before. It can be entered several times.

    Raises:
        RuntimeError: the CUDA backend is not available, there are not that many multiprocessors, or
            the driver is too old.
    """

    __module__ = "drjit.cuda"

    def __init__(self, sm_count: int) -> None:
        what = "drjit.cuda.green_context()"
        self._gpu = _gpu(what)
        from ..jit.cuda.green import Partition

        self._part = Partition(self._gpu, sm_count, what)
        self._requested = sm_count
        self._before: list[tuple[int, int]] = []

    def __enter__(self) -> "green_context":
        part, switch = self._part, self._gpu.queue.switch_stream
        self._before.append(switch(part.stream, part.context))
        return self

    def __exit__(self, *exc_info: object) -> bool:
        self._gpu.queue.switch_stream(*self._before.pop())
        return False

    @property
    def sm_count(self) -> int:
        """The number of multiprocessors in the partition."""
        return self._part.count

    @property
    def requested_sm_count(self) -> int:
        """The number of multiprocessors requested."""
        return self._requested

    @property
    def remaining_ctx(self) -> Any:
        """The context of the remaining multiprocessors: a capsule named `CUcontext`, valid as long
        as this object, or None if there are none."""
        rest = self._part.rest
        return None if rest is None else _new(rest, _CONTEXT, None)


def register_gl_buffer(gl_buffer: int) -> Any:
    """Registers an OpenGL buffer with CUDA and returns the resource, a capsule.

    Raises:
        RuntimeError: the CUDA backend is not available, or there is no such buffer.
    """
    resource = _registered(gl_buffer, False, "drjit.cuda.register_gl_buffer()")
    return _new(resource, _RESOURCE, None)


def register_gl_texture(gl_texture: int) -> Any:
    """Registers a two-dimensional OpenGL texture with CUDA and returns the resource, a capsule.

    Raises:
        RuntimeError: the CUDA backend is not available, or there is no such texture.
    """
    resource = _registered(gl_texture, True, "drjit.cuda.register_gl_texture()")
    return _new(resource, _RESOURCE, None)


def _registered(number: Any, texture: bool, what: str, discard: bool = False) -> int:
    """Returns the resource of an OpenGL object, whose contents mapping may `discard`."""
    gpu, graphics = _interop(what)
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 32:
        raise TypeError(f"{what}: expected the number of an OpenGL object, got {number!r}")
    return graphics.register(gpu, number, texture, discard, what)


def unregister_cuda_resource(cuda_resource: Any) -> None:
    """Unregisters a CUDA resource.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    gpu, graphics, resource = _opened(cuda_resource, "unregister_cuda_resource")
    graphics.unregister(gpu, resource)


def map_graphics_resource_ptr(cuda_resource: Any) -> tuple[int, int]:
    """Maps a buffer for access by CUDA; returns its address and its size in bytes.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    gpu, graphics, resource = _opened(cuda_resource, "map_graphics_resource_ptr")
    graphics.map_resource(gpu, resource)
    return graphics.pointer(gpu, resource)


def map_graphics_resource_array(cuda_resource: Any, mip_level: int = 0) -> int:
    """Maps a texture for access by CUDA; returns the handle of a MIP level, a `CUarray`.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    gpu, graphics, resource = _opened(cuda_resource, "map_graphics_resource_array")
    graphics.map_resource(gpu, resource)
    return graphics.array(gpu, resource, mip_level)


def unmap_graphics_resource(cuda_resource: Any) -> None:
    """Returns a mapped buffer or texture to OpenGL.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    gpu, graphics, resource = _opened(cuda_resource, "unmap_graphics_resource")
    graphics.unmap_resource(gpu, resource)


def memcpy_2d_to_array_async(
    dst: int, src: int, src_pitch: int, height: int, from_host: bool = False
) -> None:
    """Copies `height` rows of `src_pitch` bytes from an address on the GPU (with `from_host`, of
    the process) to a mapped texture, after the work that is queued. Does not wait.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    gpu, graphics = _interop("drjit.cuda.memcpy_2d_to_array_async()")
    graphics.copy_rows(gpu, dst, src, src_pitch, height, from_host)
