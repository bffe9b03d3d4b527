"""A library with the functions of the CUDA driver API that notes its calls and keeps the memory of
the device in the process. They are C functions, called through their prototypes."""

import ctypes
import threading
from ctypes import CFUNCTYPE, c_int

import numpy as np

from drjit.jit.cuda.libcuda import OTHERS, PROTOTYPES

NAMES = {
    1: (b"CUDA_ERROR_INVALID_VALUE", b"invalid argument"),
    2: (b"CUDA_ERROR_OUT_OF_MEMORY", b"out of memory"),
    100: (b"CUDA_ERROR_NO_DEVICE", b"no CUDA-capable device is detected"),
    218: (b"CUDA_ERROR_INVALID_PTX", b"a PTX JIT compilation failed"),
    400: (b"CUDA_ERROR_INVALID_HANDLE", b"invalid resource handle"),
    600: (b"CUDA_ERROR_NOT_READY", b"device not ready"),
    700: (b"CUDA_ERROR_ILLEGAL_ADDRESS", b"an illegal memory access was encountered"),
    719: (b"CUDA_ERROR_LAUNCH_FAILED", b"unspecified launch failure"),
}
CONTEXT, STREAM = 0xC0, 0x51


class FakeLibrary:
    """`fails` maps the name of a function to the code that it returns from now on."""

    def __init__(self) -> None:
        self.version, self.devices, self.capability = 12040, 1, (9, 0)
        self.calls: list[tuple] = []
        self.fails: dict[str, int] = {}
        self.memory: dict[int, np.ndarray] = {}
        self.handles = iter(range(0x1000, 1 << 30))
        self.launched: list[bytes] = []
        self.log = b""
        self.current = threading.local()  # the context of each thread
        for name, types in (PROTOTYPES | OTHERS).items():
            wrapper = CFUNCTYPE(c_int, *types)(self._noting(name))
            setattr(self, name, wrapper)

    def _noting(self, name):
        own = getattr(self, f"_{name}", None)

        def called(*arguments):
            if not name.startswith("cuGetError"):
                shown = [a for a in arguments if not hasattr(a, "contents")]
                self.calls.append((name, *shown))
            if name in self.fails:
                return self.fails[name]
            return (own(*arguments) if own else self._made(name, *arguments)) or 0

        return called

    def take(self) -> list[tuple]:
        """Returns the calls since the last time, without those that make the context current."""
        found = [c for c in self.calls if c[0] != "cuCtxSetCurrent"]
        assert all(c == ("cuCtxSetCurrent", CONTEXT) for c in self.calls if c not in found)
        self.calls.clear()
        return found

    def _made(self, name, *arguments):
        if name in ("cuStreamCreate", "cuEventCreate", "cuModuleGetFunction"):
            arguments[0][0] = next(self.handles)

    def _cuGetErrorName(self, code, text):
        text[0] = NAMES.get(code, (None, None))[0]

    def _cuGetErrorString(self, code, text):
        text[0] = NAMES.get(code, (None, None))[1]

    def _cuDriverGetVersion(self, version):
        version[0] = self.version

    def _cuDeviceGetCount(self, count):
        count[0] = self.devices

    def _cuDeviceGet(self, device, ordinal):
        device[0] = ordinal + 40
        return 0 if ordinal < self.devices else 101

    def _cuDeviceGetName(self, name, length, device):
        assert length == 256
        # The prototype turns the buffer into a copy; see test_properties.

    def _cuDeviceGetAttribute(self, value, attribute, device):
        assert device == 40
        value[0] = {75: self.capability[0], 76: self.capability[1]}.get(attribute, attribute)

    def _cuDevicePrimaryCtxRetain(self, context, device):
        context[0] = CONTEXT

    def _cuMemGetInfo_v2(self, free, total):
        free[0], total[0] = 5 << 30, 8 << 30

    def _allocate(self, address, nbytes):
        base = np.empty(nbytes + 256, np.uint8)
        start = -(-base.ctypes.data // 256) * 256
        self.memory[start] = base
        address[0] = start

    def _cuMemAlloc_v2(self, address, nbytes):
        self._allocate(address, nbytes)

    def _cuMemHostAlloc(self, address, nbytes, flags):
        assert flags == 3
        self._allocate(address, nbytes)

    def _cuMemFree_v2(self, address):
        return 1 if self.memory.pop(address, None) is None else 0

    def _cuMemcpyAsync(self, to, source, nbytes, stream):
        ctypes.memmove(to, source, nbytes)

    def _cuMemsetD8Async(self, to, value, count, stream):
        np.frombuffer((ctypes.c_uint8 * count).from_address(to), np.uint8)[:] = value

    def _cuMemsetD16Async(self, to, value, count, stream):
        np.frombuffer((ctypes.c_uint16 * count).from_address(to), np.uint16)[:] = value

    def _cuMemsetD32Async(self, to, value, count, stream):
        np.frombuffer((ctypes.c_uint32 * count).from_address(to), np.uint32)[:] = value

    def _cuPointerGetAttribute(self, data, attribute, address):
        if address not in self.memory:
            return 1
        ctypes.c_uint32.from_address(data).value = {2: 2, 9: 0}[attribute]
        return 0

    def _cuModuleLoadDataEx(self, module, image, count, options, values):
        self.image = ctypes.string_at(image)
        assert (count, options[0], options[1]) == (2, 5, 6)
        if self.log:
            ctypes.memmove(values[0], self.log, len(self.log))
            assert values[1] > len(self.log)
            return 218
        module[0] = 0x30D
        return 0

    def _cuLinkCreate_v2(self, count, options, values, linker):
        assert [options[k] for k in range(count)] == [3, 4, 12]
        self.report, linker[0] = values[0], 0x11C

    def _cuLinkAddData_v2(self, linker, kind, data, size, *rest):
        self.linked = np.frombuffer(b"\x7fELF" + data[: size - 1], np.uint8)

    def _cuLinkComplete(self, linker, cubin, size):
        text = b"ptxas info    : Used 24 registers\n\0"
        ctypes.memmove(self.report, text, len(text))
        cubin[0], size[0] = self.linked.ctypes.data, self.linked.size

    def _cuCtxSetCurrent(self, context):
        self.current.context = context

    def _cuLaunchKernel(self, function, *rest):
        current = getattr(self.current, "context", None)
        if current != CONTEXT:
            return 201 if current is None else 400
        extra = (ctypes.c_void_p * 5).from_address(rest[-1])
        assert rest[-2] is None and not extra[4]
        assert (extra[0], extra[2]) == (1, 2)
        size = ctypes.c_size_t.from_address(extra[3]).value
        self.launched.append(ctypes.string_at(extra[1], size))
        return 0

    def _cuEventElapsedTime(self, milliseconds, start, end):
        milliseconds[0] = 1.5
