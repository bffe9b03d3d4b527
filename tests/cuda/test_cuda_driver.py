"""The driver by ctypes, on a library that notes its calls, and how a GPU is found."""

import ctypes
import os
import subprocess
import sys
import threading
from functools import partial

import llvmlite
import numpy as np
import pytest
from cuda_library import CONTEXT, FakeLibrary

import drjit as dr
from drjit.jit.cuda import discovery, libcuda
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.discovery import check, discover
from drjit.jit.cuda.driver import CudaError, DeviceAttribute
from drjit.jit.cuda.libcuda import LibCuda
from drjit.jit.device import DeviceUnavailable
from drjit.jit.ir import dtype as dt
from drjit.jit.target import cuda
from drjit.jit.target.cuda import nvptx


@pytest.fixture
def library():
    return FakeLibrary()


@pytest.fixture
def driver(library):
    made = LibCuda(library)
    made.open(0)
    library.calls.clear()
    return made


def test_properties(library):
    driver = LibCuda(library)
    assert library.take() == [("cuInit", 0)]
    assert (driver.version(), driver.device_count()) == (12040, 1)
    assert driver.device_attribute(0, DeviceAttribute.MULTIPROCESSORS) == 16
    assert driver.device_attribute(0, DeviceAttribute.MAX_SHARED_PER_BLOCK_OPTIN) == 97
    driver.open(0)
    assert driver.memory_info() == (5 << 30, 8 << 30)
    assert [c[0] for c in library.calls][-2:] == ["cuCtxSetCurrent", "cuMemGetInfo_v2"]
    assert library.calls[-2] == ("cuCtxSetCurrent", CONTEXT)


def test_the_name_of_a_device(library, monkeypatch):
    def name(buffer, length, device):
        buffer.value = b"NVIDIA H200"
        return 0

    driver = LibCuda(library)
    monkeypatch.setattr(library, "cuDeviceGetName", name)
    assert driver.device_name(0) == "NVIDIA H200"


def test_memory(driver, library):
    a = driver.allocate(1000)
    assert library.take() == [("cuMemAlloc_v2", 1000)]
    host = driver.allocate_host(64)
    assert library.take() == [("cuMemHostAlloc", 64, 3)]
    driver.copy(a, host, 64, 0x51)
    driver.fill(a, 0xAB, 1, 10, 0x51)
    driver.fill(a, 0xABCD, 2, 10, 0x51)
    driver.fill(a, 0xDEADBEEF, 4, 10, 0x51)
    assert library.take() == [
        ("cuMemcpyAsync", a, host, 64, 0x51),
        ("cuMemsetD8Async", a, 0xAB, 10, 0x51),
        ("cuMemsetD16Async", a, 0xABCD, 10, 0x51),
        ("cuMemsetD32Async", a, 0xDEADBEEF, 10, 0x51),
    ]
    assert driver.pointer(a) == ("device", 0)
    assert driver.pointer(12345) is None
    library.take()
    driver.release(a)
    assert library.take() == [("cuMemFree_v2", a)]
    assert [*library.memory] == [host]


def test_code(driver, library):
    module = driver.load(b"// PTX")
    assert module == 0x30D and library.image == b"// PTX"
    library.take()
    function = driver.function(module, "k1")
    assert library.take() == [("cuModuleGetFunction", 0x30D, b"k1")]
    driver.set_dynamic_shared(function, 100_000)
    assert library.take() == [("cuFuncSetAttribute", function, 8, 100_000)]
    driver.launch(function, (7, 2, 1), (128, 1, 4), 512, 0x51, b"0123456789abcdef", "k1")
    assert library.launched == [b"0123456789abcdef"]
    assert without_address(library) == [
        ("cuLaunchKernel", function, 7, 2, 1, 128, 1, 4, 512, 0x51, None)
    ]
    zeros = bytes(24)
    driver.launch(function, (1, 1, 1), (1, 1, 1), 0, 0x51, zeros)
    assert library.launched[-1] == zeros
    driver.unload(module)
    assert library.take()[-1] == ("cuModuleUnload", 0x30D)


def without_address(library):
    """The calls, launches without the address of what follows."""
    return [c[:11] if c[0] == "cuLaunchKernel" else c for c in library.take()]


def test_a_launch_is_one_call_of_the_driver(driver, library):
    """But where another library has made its context current, or none is."""
    launch = partial(driver.launch, 1, (1, 1, 1), (1, 1, 1), 0, 0x51, b"12345678")
    for _ in range(3):
        launch()
    assert [c[0] for c in library.calls[-2:]] == ["cuLaunchKernel", "cuLaunchKernel"]
    for context in (0xBAD, None):
        library.calls.clear()
        library.current.context = context
        launch()
        launch()
        assert [c[0] for c in library.calls] == [
            "cuLaunchKernel", "cuCtxSetCurrent", "cuLaunchKernel", "cuLaunchKernel",
        ]  # fmt: skip
    thread = threading.Thread(target=launch)
    thread.start()
    thread.join()
    assert library.launched == [b"12345678"] * 8
    library.fails = {"cuLaunchKernel": 400}  # not because of the context
    with pytest.raises(CudaError, match=r"CUDA_ERROR_INVALID_HANDLE.*cuLaunchKernel"):
        launch()


def test_machine_code(driver, library):
    """From the linker of the driver, with what its compiler reports."""
    assert driver.assemble("// PTX") == (b"\x7fELF// PTX", "ptxas info    : Used 24 registers")
    calls = library.take()
    assert [c[0] for c in calls] == [
        "cuLinkCreate_v2", "cuLinkAddData_v2", "cuLinkComplete", "cuLinkDestroy",
    ]  # fmt: skip
    assert calls[1][2:6] == (1, b"// PTX", 7, b"PTX")
    library.fails = {"cuLinkAddData_v2": 218}
    with pytest.raises(CudaError, match="INVALID_PTX"):
        driver.assemble("bad")
    assert library.take()[-1][0] == "cuLinkDestroy"


def test_the_map_of_a_tensor(driver, library, monkeypatch):
    """128 bytes at a multiple of 64, which the library writes."""
    given = []

    def encode(to, kind, rank, address, shape, strides, box, steps, *how):
        assert to % 64 == 0
        given.append((kind, rank, address, shape[:3], strides[:2], box[:3], steps[:3], how))
        ctypes.memset(to, 0xAB, 128)
        return 0

    function = ctypes.CFUNCTYPE(ctypes.c_int, *libcuda.OTHERS["cuTensorMapEncodeTiled"])(encode)
    monkeypatch.setattr(library, "cuTensorMapEncodeTiled", function)
    made = driver.tensor_map(0x1000, (64, 8, 2), (128, 1024), (64, 128, 1))
    assert made == b"\xab" * 128
    sizes = [64, 8, 2], [128, 1024], [64, 128, 1], [1, 1, 1]
    assert given == [(6, 3, 0x1000, *sizes, (0, 3, 3, 0))]


def test_streams_and_events(driver, library):
    stream = driver.create_stream()
    first, second = driver.create_event(timing=True), driver.create_event()
    assert library.take() == [("cuStreamCreate", 1), ("cuEventCreate", 0), ("cuEventCreate", 2)]
    driver.record(first, stream)
    driver.wait_for(stream, second)
    assert driver.elapsed(first, second) == 1.5
    driver.synchronize(stream)
    assert driver.done(stream) and driver.reached(first)
    library.fails = {"cuStreamQuery": 600, "cuEventQuery": 600}
    assert not driver.done(stream) and not driver.reached(first)
    driver.destroy_event(first)
    driver.destroy_stream(stream)
    assert library.take() == [
        ("cuEventRecord", first, stream), ("cuStreamWaitEvent", stream, second, 0),
        ("cuEventElapsedTime", first, second), ("cuStreamSynchronize", stream),
        ("cuStreamQuery", stream), ("cuEventQuery", first), ("cuStreamQuery", stream),
        ("cuEventQuery", first), ("cuEventDestroy_v2", first), ("cuStreamDestroy_v2", stream),
    ]  # fmt: skip


def test_errors_name_the_call_and_the_kernel(driver, library):
    library.fails = {
        "cuMemAlloc_v2": 2,
        "cuLaunchKernel": 1,
        "cuEventQuery": 700,
        "cuMemFree_v2": 999,
    }
    with pytest.raises(CudaError) as found:
        driver.allocate(10)
    assert str(found.value) == "CUDA_ERROR_OUT_OF_MEMORY: out of memory (cuMemAlloc_v2)"
    assert found.value.is_out_of_memory and found.value.code == 2
    with pytest.raises(CudaError) as found:
        driver.launch(1, (1, 1, 1), (1, 1, 1), 0, 0, b"", "k12")
    assert str(found.value) == (
        "CUDA_ERROR_INVALID_VALUE: invalid argument (cuLaunchKernel, kernel k12)"
    )
    assert found.value.kernel == "k12" and not found.value.is_of_launch
    with pytest.raises(CudaError, match="CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory") as found:
        driver.reached(1)
    assert found.value.is_of_launch
    with pytest.raises(CudaError, match=r"CUDA error 999: no description \(cuMemFree_v2\)"):
        driver.release(1)
    library.log = b"ptxas application ptx input, line 4; error: Unexpected instruction"
    with pytest.raises(CudaError) as found:
        driver.load(b"bad")
    assert str(found.value) == (
        "CUDA_ERROR_INVALID_PTX: a PTX JIT compilation failed\nptxas application ptx input, line "
        "4; error: Unexpected instruction (cuModuleLoadDataEx)"
    )


def test_a_device_on_the_library(library):
    gpu = Cuda(LibCuda(library))
    values = np.arange(300_000, dtype=np.float32)
    b = gpu.upload(values)
    np.testing.assert_array_equal(gpu.download(gpu.copy(b, 1_200_000), dt.f32, 300_000), values)
    np.testing.assert_array_equal(
        gpu.download(gpu.filled(dt.f64, 50_000, 1.1), dt.f64, 50_000), np.full(50_000, 1.1)
    )
    gpu.queue.launch(5, (1, 1, 1), (32, 1, 1), b"12345678", name="k1")
    assert library.launched == [b"12345678"]
    gpu.sync()
    library.fails = {"cuEventRecord": 719}  # the driver reports a failure by any later call
    gpu.queue.launch(5, (1, 1, 1), (32, 1, 1), b"12345678", name="k2")
    with pytest.raises(CudaError, match="LAUNCH_FAILED") as found:
        gpu.sync()
    assert found.value.__notes__ == ["One of these kernels failed, or several: k2."]
    library.fails.clear()


# Discovery


def test_no_driver(monkeypatch):
    def load(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(libcuda.ctypes, "CDLL", load)
    monkeypatch.delenv("DRJIT_CUDA", raising=False)
    for find in LibCuda, discover:
        with pytest.raises(
            DeviceUnavailable, match=r"no NVIDIA driver: libcuda.so.1 .*cannot open .*nvidia.com"
        ):
            find()


def test_a_driver_without_a_function(monkeypatch, library):
    del library.cuMemcpyAsync
    for name in libcuda.PROTOTYPES:
        if hasattr(library, name):
            setattr(library, name, lambda *_: 0)
    monkeypatch.setattr(libcuda.ctypes, "CDLL", lambda name: library)
    with pytest.raises(DeviceUnavailable, match=r"too old: .*no function cuMemcpyAsync.* 525"):
        LibCuda()


def test_too_old_a_driver(library):
    library.version = 11080
    with pytest.raises(DeviceUnavailable, match=r"supports CUDA 11\.8, and 12\.0 .*driver 525"):
        check(LibCuda(library))
    library.version, library.capability = 12000, (8, 9)
    check(LibCuda(library))
    library.capability = (9, 0)
    message = r"CUDA 12\.0, and 12\.1 is required for compute capability 9\.0\. .*driver 530"
    with pytest.raises(DeviceUnavailable, match=message):
        check(LibCuda(library))
    library.version, library.capability = 12070, (10, 3)
    check(LibCuda(library))
    library.capability = (12, 1)
    message = r"CUDA 12\.7, and 12\.8 is required for compute capability 12\.1\. .*driver 570"
    with pytest.raises(DeviceUnavailable, match=message):
        check(LibCuda(library))


def test_no_device(library, monkeypatch):
    library.devices = 0
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises(DeviceUnavailable, match=r"finds no GPU\.$"):
        check(LibCuda(library))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with pytest.raises(DeviceUnavailable, match=r"finds no GPU \(CUDA_VISIBLE_DEVICES is '-1'\)"):
        check(LibCuda(library))


def test_too_old_a_device(library):
    library.capability = (6, 1)
    with pytest.raises(DeviceUnavailable, match=r"compute capability 6\.1, and 7\.0"):
        check(LibCuda(library))


def test_llvm_without_ptx(library, monkeypatch):
    from llvmlite import binding

    def from_triple(triple):
        raise RuntimeError(f"no target {triple}")

    monkeypatch.setattr(binding.Target, "from_triple", from_triple)
    with pytest.raises(DeviceUnavailable, match="llvmlite was built without the target NVPTX"):
        check(LibCuda(library))


def test_too_old_an_llvm(library, monkeypatch):
    """It is refused before it compiles anything, because it would end the process."""
    monkeypatch.setattr(llvmlite, "__version__", "0.47.0")
    monkeypatch.setattr(nvptx.binding, "llvm_version_info", (20, 1, 8))
    message = r"llvmlite 0\.47\.0 has LLVM 20, and LLVM 22 .*0\.48 or later: pip install --upgrade"
    with pytest.raises(DeviceUnavailable, match=message):
        check(LibCuda(library))
    with pytest.raises(DeviceUnavailable, match=message):
        nvptx._target.__wrapped__()
    monkeypatch.setattr(nvptx.binding, "llvm_version_info", (22, 1, 0))
    check(LibCuda(library))


def test_no_llvmlite(library, monkeypatch):
    monkeypatch.delattr(cuda, "nvptx")
    monkeypatch.setitem(sys.modules, nvptx.__name__, None)
    with pytest.raises(DeviceUnavailable, match=r"cannot be imported .*pip install llvmlite"):
        check(LibCuda(library))


def test_an_error_of_the_driver(library, monkeypatch):
    library.fails = {"cuInit": 100}
    monkeypatch.setattr(discovery, "open_library", lambda: library)
    monkeypatch.setattr(libcuda, "load_library", lambda: library)
    monkeypatch.delenv("DRJIT_CUDA", raising=False)
    with pytest.raises(DeviceUnavailable, match=r"reports CUDA_ERROR_NO_DEVICE: no CUDA-capable"):
        discover()


def test_a_usable_driver(library, monkeypatch):
    monkeypatch.setattr(discovery, "open_library", lambda: library)
    monkeypatch.setattr(libcuda, "load_library", lambda: library)
    monkeypatch.delenv("DRJIT_CUDA", raising=False)
    found = discover()
    assert isinstance(found, Cuda) and found.capability == (9, 0)


def test_what_the_environment_says(monkeypatch):
    monkeypatch.setenv("DRJIT_CUDA", "off")
    with pytest.raises(DeviceUnavailable, match="DRJIT_CUDA=off disables it"):
        discover()
    monkeypatch.setenv("DRJIT_CUDA", "yes")
    with pytest.raises(DeviceUnavailable, match="DRJIT_CUDA='yes': expected 'off', 'emulated', "):
        discover()
    for wish, capability, shared in (
        ("emulated", (9, 0), 227), ("emulated:8.6", (8, 6), 99), ("emulated:12.0", (12, 0), 99),
    ):  # fmt: skip
        monkeypatch.setenv("DRJIT_CUDA", wish)
        found = discover()
        assert (found.capability, found.shared_limit) == (capability, shared << 10)
    monkeypatch.setenv("DRJIT_CUDA", "emulated:6.1")
    with pytest.raises(DeviceUnavailable, match=r"compute capability 6\.1, and 7\.0"):
        discover()


def process(code: str, **environment: str) -> list[str]:
    command = [sys.executable, "-W", "error", "-c", code]
    found = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()


def test_the_first_use_looks_for_a_device():
    lines = process(
        """
import sys, drjit as dr
from drjit.llvm import Float
dr.eval(Float(1, 2) + 1)
print(sorted(m for m in sys.modules if "cuda" in m))
print(dr.has_backend(dr.JitBackend.CUDA), dr.auto.Float, dr.detail.cuda_version())
for make in (dr.cuda.Float, dr.cuda.Event):
    try:
        make(1)
    except RuntimeError as error:
        print(error)
""",
        DRJIT_CUDA="off",
    )
    loaded, found, *errors = lines
    assert loaded == "['drjit.cuda', 'drjit.cuda.ad', 'drjit.cuda.graphics']"
    assert found == "0 <class 'drjit.llvm.Float'> (0, 0)"
    assert errors == [
        f"drjit.cuda.{name}: the CUDA backend is not available: the environment variable "
        "DRJIT_CUDA=off disables it. Without an NVIDIA GPU, use drjit.llvm."
        for name in ("Float", "Event()")
    ]


def test_functions_that_ask_for_the_backend():
    with pytest.raises(TypeError):
        dr.has_backend("cuda")
