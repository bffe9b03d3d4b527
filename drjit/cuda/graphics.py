"""Memory sharing with OpenGL and partitioning of a GPU: the public names, all of which require the
CUDA backend.
"""

from typing import Any

from ..array.unavailable import missing_cuda


class GLInterop:
    """An OpenGL buffer or texture to which GPU arrays are copied: call `map()`, `upload(array)`,
    `unmap()`. Each method returns the object itself.

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
        """Wraps the OpenGL buffer with the given number."""
        missing_cuda("drjit.cuda.GLInterop.from_buffer()")

    @staticmethod
    def from_texture(arg: int, /) -> "GLInterop":
        """Wraps the OpenGL texture with the given number."""
        missing_cuda("drjit.cuda.GLInterop.from_texture()")

    def map(self, mip_level: int = 0) -> "GLInterop":
        """Maps the buffer, or a MIP level of the texture, for access by CUDA."""
        missing_cuda("drjit.cuda.GLInterop.map()")

    def upload(self, arg: Any, /) -> "GLInterop":
        """Copies a GPU array of the same size and element type to the mapped memory."""
        missing_cuda("drjit.cuda.GLInterop.upload()")

    def unmap(self) -> "GLInterop":
        """Returns the buffer or texture to OpenGL."""
        missing_cuda("drjit.cuda.GLInterop.unmap()")


class green_context:
    """Context manager that runs kernels on a part of the GPU with at least `sm_count`
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
        """The number of multiprocessors in the partition."""
        missing_cuda("drjit.cuda.green_context.sm_count")

    @property
    def requested_sm_count(self) -> int:
        """The number of multiprocessors requested."""
        missing_cuda("drjit.cuda.green_context.requested_sm_count")

    @property
    def remaining_ctx(self) -> Any:
        """The context of the remaining multiprocessors."""
        missing_cuda("drjit.cuda.green_context.remaining_ctx")


def register_gl_buffer(gl_buffer: int) -> Any:
    """Registers an OpenGL buffer with CUDA and returns the resource.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    missing_cuda("drjit.cuda.register_gl_buffer()")


def register_gl_texture(gl_texture: int) -> Any:
    """Registers an OpenGL texture with CUDA and returns the resource.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    missing_cuda("drjit.cuda.register_gl_texture()")


def unregister_cuda_resource(cuda_resource: Any) -> None:
    """Unregisters a CUDA resource.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    missing_cuda("drjit.cuda.unregister_cuda_resource()")


def map_graphics_resource_ptr(cuda_resource: Any) -> tuple[int, int]:
    """Returns the address and the size in bytes of a mapped resource.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    missing_cuda("drjit.cuda.map_graphics_resource_ptr()")


def map_graphics_resource_array(cuda_resource: Any, mip_level: int = 0) -> int:
    """Returns the handle of a mapped MIP level of a texture.

    Raises:
        RuntimeError: the CUDA backend is not available.
    """
    missing_cuda("drjit.cuda.map_graphics_resource_array()")


def unmap_graphics_resource(cuda_resource: Any) -> None:
    """Unmaps a CUDA resource.

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
