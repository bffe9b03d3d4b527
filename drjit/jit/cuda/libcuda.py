"""The CUDA driver API by ctypes: a table of prototypes, and `LibCuda`, the `Driver` on top of it.

The library comes with the driver of the GPU. It is loaded when a `LibCuda` is created.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from ..device import DeviceUnavailable
from .driver import CudaError, DeviceAttribute, Driver, excerpt
from .library import NAME, open_library

_INT, _HANDLE, _SIZE = POINTER(c_int), POINTER(c_void_p), POINTER(c_size_t)
_ADDRESS = ctypes.c_uint64  # CUdeviceptr

PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (_INT,),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (_INT,),
    "cuDeviceGet": (_INT, c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (_INT, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (_HANDLE, c_int),
    "cuCtxSetCurrent": (c_void_p,),
    "cuMemGetInfo_v2": (_SIZE, _SIZE),
    "cuMemAlloc_v2": (POINTER(_ADDRESS), c_size_t),
    "cuMemFree_v2": (_ADDRESS,),
    "cuMemHostAlloc": (_HANDLE, c_size_t, c_uint),
    "cuMemcpyAsync": (_ADDRESS, _ADDRESS, c_size_t, c_void_p),
    "cuMemsetD8Async": (_ADDRESS, ctypes.c_ubyte, c_size_t, c_void_p),
    "cuMemsetD16Async": (_ADDRESS, ctypes.c_ushort, c_size_t, c_void_p),
    "cuMemsetD32Async": (_ADDRESS, c_uint, c_size_t, c_void_p),
    "cuPointerGetAttribute": (c_void_p, c_int, _ADDRESS),
    "cuModuleLoadDataEx": (_HANDLE, c_void_p, c_uint, _INT, _HANDLE),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (_HANDLE, c_void_p, c_char_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    # Numbers are converted to pointers twice as fast as to `unsigned int`.
    "cuLaunchKernel": (c_void_p,) * 11,
    "cuStreamCreate": (_HANDLE, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamQuery": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuEventCreate": (_HANDLE, c_uint),
    "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventQuery": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
}
"""The functions of the library that are called, and the types of their arguments. All return an
error code, 0 for success."""

OTHERS: dict[str, tuple[Any, ...]] = {
    "cuGraphicsGLRegisterBuffer": (_HANDLE, c_uint, c_uint),
    "cuGraphicsGLRegisterImage": (_HANDLE, c_uint, c_uint, c_uint),
    "cuGraphicsUnregisterResource": (c_void_p,),
    "cuGraphicsMapResources": (c_uint, _HANDLE, c_void_p),
    "cuGraphicsUnmapResources": (c_uint, _HANDLE, c_void_p),
    "cuGraphicsResourceGetMappedPointer_v2": (POINTER(_ADDRESS), _SIZE, c_void_p),
    "cuGraphicsSubResourceGetMappedArray": (_HANDLE, c_void_p, c_uint, c_uint),
    "cuArrayGetDescriptor_v2": (c_void_p, c_void_p),
    "cuMemcpy2DAsync_v2": (c_void_p, c_void_p),
    "cuDeviceGetDevResource": (c_int, c_void_p, c_int),
    "cuDevSmResourceSplitByCount": (c_void_p, POINTER(c_uint), c_void_p, c_void_p, c_uint, c_uint),
    "cuDevResourceGenerateDesc": (_HANDLE, c_void_p, c_uint),
    "cuGreenCtxCreate": (_HANDLE, c_void_p, c_int, c_uint),
    "cuCtxFromGreenCtx": (_HANDLE, c_void_p),
    "cuGreenCtxStreamCreate": (_HANDLE, c_void_p, c_uint, c_int),
    "cuGreenCtxDestroy": (c_void_p,),
    "cuGreenCtxRecordEvent": (c_void_p, c_void_p),
    "cuLinkCreate_v2": (c_uint, _INT, _HANDLE, _HANDLE),
    "cuLinkAddData_v2": (c_void_p, c_int, c_char_p, c_size_t, c_char_p, c_uint, _INT, _HANDLE),
    "cuLinkComplete": (c_void_p, _HANDLE, _SIZE),
    "cuLinkDestroy": (c_void_p,),
    "cuTensorMapEncodeTiled": (
        c_void_p,
        c_int,
        c_uint,
        c_void_p,
        POINTER(_ADDRESS),
        POINTER(_ADDRESS),
        POINTER(c_uint),
        POINTER(c_uint),
        c_int,
        c_int,
        c_int,
        c_int,
    ),
}
"""More functions, which are looked for when they are called."""

_NOT_READY = 600
_NOT_A_POINTER = 1  # CUDA_ERROR_INVALID_VALUE
_PORTABLE_MAPPED = 1 | 2  # CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
_MEMORY_TYPE, _ORDINAL = 2, 9  # of CUpointer_attribute
_MEMORY_TYPES = {1: "host", 2: "device"}
_INFO_LOG, _INFO_LOG_BYTES, _ERROR_LOG, _ERROR_LOG_BYTES = 3, 4, 5, 6  # of CUjit_option
_VERBOSE_LOG = 12
_PTX_INPUT = 1  # of CUjitInputType
_LOG_BYTES = 1 << 14
_MAX_DYNAMIC_SHARED = 8  # of CUfunction_attribute
_PARAMETERS, _PARAMETER_BYTES = 1, 2  # CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE
_MAP_BYTES, _MAP_ALIGNMENT = 128, 64  # of a CUtensorMap
_HALVES = 6  # CU_TENSOR_MAP_DATA_TYPE_FLOAT16
_SWIZZLE_128, _PROMOTE_256 = 3, 3  # CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B
_WRONG_CONTEXT = (201, 400)  # CUDA_ERROR_INVALID_CONTEXT, _HANDLE


class _Extra(ctypes.Structure):
    """The parameter block of a launch, and the address of its size."""

    _fields_ = (
        ("block_follows", c_void_p), ("block", c_char_p), ("size_follows", c_void_p),
        ("size", c_void_p), ("end", c_void_p),
    )  # fmt: skip


@functools.cache
def _stable_size(size: int) -> c_size_t:
    """Returns a size in memory that stays where it is."""
    return c_size_t(size)


def load_library() -> Any:
    """Returns the library of the driver, with prototypes.

    Raises:
        DeviceUnavailable: there is none, or it lacks a function.
    """
    library = open_library()
    for function, types in PROTOTYPES.items():
        try:
            entry = getattr(library, function)
        except AttributeError:
            raise DeviceUnavailable(
                f"the NVIDIA driver is too old: its library {NAME} has no function {function}. "
                "Install driver 525 or later (CUDA 12.0)."
            ) from None
        entry.argtypes, entry.restype = types, c_int
    return library


class LibCuda(Driver):
    """The driver of the system. `library` has its functions."""

    name = "CUDA driver"

    def __init__(self, library: Any = None) -> None:
        self.library = load_library() if library is None else library
        self._context = c_void_p()
        self._launch = self.library.cuLaunchKernel
        self._call("cuInit", 0)

    def _call(self, function: str, *arguments: Any) -> None:
        code = getattr(self.library, function)(*arguments)
        if code:
            raise self._error(code, function)

    def _call_in_context(self, function: str, *arguments: Any) -> None:
        """Calls a function in the context that was opened. Another library may have changed that of
        the thread since the last call."""
        self._call("cuCtxSetCurrent", self._context)
        self._call(function, *arguments)

    def _new(self, call: Callable[..., None], function: str, *arguments: Any) -> int:
        """Returns the handle that a function writes to its first argument."""
        handle = c_void_p()
        call(function, byref(handle), *arguments)
        return handle.value or 0

    def _query_int(self, function: str, *arguments: Any) -> int:
        number = c_int()
        self._call(function, byref(number), *arguments)
        return number.value

    def _error(self, code: int, function: str, kernel: str | None = None, log: str = "") -> Any:
        """Returns the exception for an error code."""
        texts = []
        for describe in ("cuGetErrorName", "cuGetErrorString"):
            description = c_char_p()
            getattr(self.library, describe)(code, byref(description))
            texts.append((description.value or b"").decode(errors="replace"))
        name, text = texts
        text = "\n".join(filter(None, (text or "no description", log.strip())))
        return CudaError(name or f"CUDA error {code}", text, function, code, kernel or None)

    # ---- Devices

    def version(self) -> int:
        return self._query_int("cuDriverGetVersion")

    def device_count(self) -> int:
        return self._query_int("cuDeviceGetCount")

    def device_name(self, ordinal: int) -> str:
        name = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", name, 256, self.handle(ordinal))
        return name.value.decode(errors="replace")

    def device_attribute(self, ordinal: int, attribute: DeviceAttribute) -> int:
        return self._query_int("cuDeviceGetAttribute", attribute, self.handle(ordinal))

    def handle(self, ordinal: int) -> int:
        return self._query_int("cuDeviceGet", ordinal)

    def open(self, ordinal: int) -> None:
        device = self.handle(ordinal)
        self._context = c_void_p(self._new(self._call, "cuDevicePrimaryCtxRetain", device))

    def memory_info(self) -> tuple[int, int]:
        free, total = c_size_t(), c_size_t()
        self._call_in_context("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    # ---- Memory

    def allocate(self, nbytes: int) -> int:
        address = _ADDRESS()
        self._call_in_context("cuMemAlloc_v2", byref(address), nbytes)
        return address.value

    def release(self, address: int) -> None:
        self._call_in_context("cuMemFree_v2", address)

    def allocate_host(self, nbytes: int) -> int:
        return self._new(self._call_in_context, "cuMemHostAlloc", nbytes, _PORTABLE_MAPPED)

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        self._call_in_context("cuMemcpyAsync", to, source, nbytes, stream)

    def fill(self, to: int, value: int, width: int, count: int, stream: int) -> None:
        self._call_in_context(f"cuMemsetD{8 * width}Async", to, value, count, stream)

    def pointer(self, address: int) -> tuple[str, int] | None:
        values = []
        self._call("cuCtxSetCurrent", self._context)
        for attribute in (_MEMORY_TYPE, _ORDINAL):
            value = _ADDRESS()
            code = self.library.cuPointerGetAttribute(byref(value), attribute, address)
            if code == _NOT_A_POINTER:
                return None
            if code:
                raise self._error(code, "cuPointerGetAttribute")
            values.append(value.value & 0xFFFFFFFF)
        kind = _MEMORY_TYPES.get(values[0])
        return None if kind is None else (kind, values[1])

    # ---- Code

    def load(self, image: bytes) -> int:
        self._call("cuCtxSetCurrent", self._context)
        module, log = c_void_p(), ctypes.create_string_buffer(_LOG_BYTES)
        options = (c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        text = image + b"\0"  # PTX ends with it
        code = self.library.cuModuleLoadDataEx(byref(module), text, 2, options, values)
        if code:
            problem = log.value.decode(errors="replace").strip()
            ptx = "" if image[:4] == b"\x7fELF" else image.decode(errors="replace")
            shown = f"{problem}{excerpt(problem, ptx)}"
            raise self._error(code, "cuModuleLoadDataEx", log=shown)
        return module.value or 0

    def assemble(self, ptx: str) -> tuple[bytes, str]:
        linker, cubin, size = c_void_p(), c_void_p(), c_size_t()
        log, text = ctypes.create_string_buffer(_LOG_BYTES), ptx.encode() + b"\0"
        options = (c_int * 3)(_INFO_LOG, _INFO_LOG_BYTES, _VERBOSE_LOG)
        values = (c_void_p * 3)(ctypes.addressof(log), _LOG_BYTES, 1)
        call = self.call_optional
        call("cuLinkCreate_v2", 3, options, values, byref(linker))
        try:
            data = linker, _PTX_INPUT, text, len(text), b"PTX"
            call("cuLinkAddData_v2", *data, 0, options, values)
            call("cuLinkComplete", linker, byref(cubin), byref(size))
            code = ctypes.string_at(cubin.value or 0, size.value)
        finally:
            call("cuLinkDestroy", linker)
        return code, log.value.decode(errors="replace").strip()

    def unload(self, module: int) -> None:
        self._call_in_context("cuModuleUnload", module)

    def function(self, module: int, name: str) -> int:
        return self._new(self._call_in_context, "cuModuleGetFunction", module, name.encode())

    def set_dynamic_shared(self, function: int, nbytes: int) -> None:
        self._call_in_context("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, nbytes)

    def tensor_map(
        self, address: int, shape: Sequence[int], strides: Sequence[int], box: Sequence[int]
    ) -> bytes:
        room = ctypes.create_string_buffer(2 * _MAP_BYTES)
        at = -(-ctypes.addressof(room) // _MAP_ALIGNMENT) * _MAP_ALIGNMENT
        sizes, steps = (_ADDRESS * 3)(*shape), (_ADDRESS * 2)(*strides)
        boxes, each = (c_uint * 3)(*box), (c_uint * 3)(1, 1, 1)
        tensor = at, _HALVES, 3, address, sizes, steps, boxes, each
        self.call_optional("cuTensorMapEncodeTiled", *tensor, 0, _SWIZZLE_128, _PROMOTE_256, 0)
        return ctypes.string_at(at, _MAP_BYTES)

    def launch(
        self, function: int, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int,
        stream: int, parameters: bytes, name: str = "",
    ) -> None:  # fmt: skip
        size = ctypes.addressof(_stable_size(len(parameters)))
        extra = _Extra(_PARAMETERS, parameters, _PARAMETER_BYTES, size, None)
        # The function and the stream belong to a context. In a thread where none or another one is
        # current, the driver refuses them.
        code = self._launch(function, *grid, *block, shared, stream, None, byref(extra))
        if code in _WRONG_CONTEXT:
            self._call("cuCtxSetCurrent", self._context)
            code = self._launch(function, *grid, *block, shared, stream, None, byref(extra))
        if code:
            raise self._error(code, "cuLaunchKernel", name)

    def call_optional(self, function: str, *arguments: Any) -> None:
        entry = getattr(self.library, function, None)
        if entry is None:
            super().call_optional(function)
        else:
            entry.argtypes, entry.restype = OTHERS[function], c_int
            self._call_in_context(function, *arguments)

    # ---- Streams and events

    def create_stream(self) -> int:
        return self._new(self._call_in_context, "cuStreamCreate", _NON_BLOCKING)

    def destroy_stream(self, stream: int) -> None:
        self._call_in_context("cuStreamDestroy_v2", stream)

    def synchronize(self, stream: int) -> None:
        self._call_in_context("cuStreamSynchronize", stream)

    def done(self, stream: int) -> bool:
        return self._ready("cuStreamQuery", stream)

    def wait_for(self, stream: int, event: int) -> None:
        self._call_in_context("cuStreamWaitEvent", stream, event, 0)

    def create_event(self, timing: bool = False) -> int:
        return self._new(self._call_in_context, "cuEventCreate", 0 if timing else _NO_TIMING)

    def destroy_event(self, event: int) -> None:
        self._call_in_context("cuEventDestroy_v2", event)

    def record(self, event: int, stream: int) -> None:
        self._call_in_context("cuEventRecord", event, stream)

    def reached(self, event: int) -> bool:
        return self._ready("cuEventQuery", event)

    def elapsed(self, start: int, end: int) -> float:
        milliseconds = c_float()
        self._call_in_context("cuEventElapsedTime", byref(milliseconds), start, end)
        return milliseconds.value

    def _ready(self, function: str, handle: int) -> bool:
        self._call("cuCtxSetCurrent", self._context)
        code = getattr(self.library, function)(handle)
        if code and code != _NOT_READY:
            raise self._error(code, function)
        return not code
