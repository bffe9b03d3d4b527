"""Sharing memory with OpenGL, and parts of a GPU: the names of the interface, which need the CUDA
backend.
"""

from typing import Any

from ..array.unavailable import missing_cuda


class GLInterop:
    """An OpenGL buffer or texture that arrays on the GPU are copied to: `map()`, `upload(array)`,
    `unmap()`, each of which gives the object itself.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """

    __module__ = "drjit.cuda"

    def __init__(self) -> None:
        raise TypeError(
            "drjit.cuda.GLInterop: use GLInterop.from_buffer() or GLInterop.from_texture()"
        )

    @staticmethod
    def from_buffer(arg: int, /) -> "GLInterop":
        """The OpenGL buffer of a number."""
        missing_cuda("drjit.cuda.GLInterop.from_buffer()")

    @staticmethod
    def from_texture(arg: int, /) -> "GLInterop":
        """The OpenGL texture of a number."""
        missing_cuda("drjit.cuda.GLInterop.from_texture()")

    def map(self, mip_level: int = 0) -> "GLInterop":
        """Gives CUDA access to the buffer, or to a level of the texture."""
        missing_cuda("drjit.cuda.GLInterop.map()")

    def upload(self, arg: Any, /) -> "GLInterop":
        """Copies an array on the GPU, of the same size and element type, to what is mapped."""
        missing_cuda("drjit.cuda.GLInterop.upload()")

    def unmap(self) -> "GLInterop":
        """Gives the buffer or texture back to OpenGL."""
        missing_cuda("drjit.cuda.GLInterop.unmap()")


class green_context:
    """Within its `with` block, kernels run on a part of the GPU, of at least `sm_count`
    multiprocessors.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """

    __module__ = "drjit.cuda"

    def __init__(self, sm_count: int) -> None:
        missing_cuda("drjit.cuda.green_context()")

    def __enter__(self) -> "green_context":
        return self

    def __exit__(self, *exc_info: object) -> bool:
        return False

    @property
    def sm_count(self) -> int:
        """The number of multiprocessors of the part."""
        missing_cuda("drjit.cuda.green_context.sm_count")

    @property
    def requested_sm_count(self) -> int:
        """The number that was asked for."""
        missing_cuda("drjit.cuda.green_context.requested_sm_count")

    @property
    def remaining_ctx(self) -> Any:
        """The context of the other multiprocessors."""
        missing_cuda("drjit.cuda.green_context.remaining_ctx")


def register_gl_buffer(gl_buffer: int) -> Any:
    """The CUDA resource of an OpenGL buffer.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    missing_cuda("drjit.cuda.register_gl_buffer()")


def register_gl_texture(gl_texture: int) -> Any:
    """The CUDA resource of an OpenGL texture.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    missing_cuda("drjit.cuda.register_gl_texture()")


def unregister_cuda_resource(cuda_resource: Any) -> None:
    """Frees a CUDA resource.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    missing_cuda("drjit.cuda.unregister_cuda_resource()")


def map_graphics_resource_ptr(cuda_resource: Any) -> tuple[int, int]:
    """Address and size, in bytes, of a mapped resource.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    missing_cuda("drjit.cuda.map_graphics_resource_ptr()")


def map_graphics_resource_array(cuda_resource: Any, mip_level: int = 0) -> int:
    """The handle of a mapped level of a texture.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    missing_cuda("drjit.cuda.map_graphics_resource_array()")


def unmap_graphics_resource(cuda_resource: Any) -> None:
    """Gives a mapped resource back.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    missing_cuda("drjit.cuda.unmap_graphics_resource()")


def memcpy_2d_to_array_async(
    dst: int, src: int, src_pitch: int, height: int, from_host: bool = False
) -> None:
    """Copies rows of `src_pitch` bytes to a mapped texture.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    missing_cuda("drjit.cuda.memcpy_2d_to_array_async()")
