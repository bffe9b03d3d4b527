"""Memory of GPUs on the emulated driver: buffers and the pool, copies, pinned memory."""

import gc

import numpy as np
import pytest
from cuda_stub import stub

from drjit.jit import device
from drjit.jit.cuda import pinned
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.driver import CudaError
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.cuda.memory import PADDING, CudaBuffer, OutOfMemory
from drjit.jit.ir import dtype as dt

TYPES = (dt.mask, dt.i8, dt.u16, dt.f16, dt.i32, dt.f32, dt.u64, dt.f64)


@pytest.fixture(params=[False, True], ids=["at once", "delayed"])
def gpu(request):
    return Cuda(EmulatedDriver(delayed=request.param, emulator=stub))


def emulated(limit=None, **options) -> Cuda:
    return Cuda(EmulatedDriver(limit=limit, emulator=stub), **options)


def contents(gpu: Cuda, b: CudaBuffer, dtype: dt.DType, size: int) -> np.ndarray:
    gpu.drain()
    return gpu.download(b, dtype, size)


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 257, 1024, 1025, 100_000, 1 << 20])
def test_buffers_are_aligned_and_padded(gpu, nbytes):
    b = gpu.allocate(nbytes)
    assert b.address % 256 == 0
    assert b.nbytes == device.size_class(nbytes) >= nbytes
    assert gpu.driver._blocks[b.address] == ("device", b.nbytes + PADDING)
    assert b.device is gpu


def test_freed_memory_is_used_again_without_waiting(gpu):
    a = gpu.upload(np.arange(1000.0))
    address = a.address
    b = gpu.copy(a, 8000)  # queued: reads what is freed now
    del a
    c = gpu.upload(np.zeros(1000))
    assert c.address == address
    np.testing.assert_array_equal(contents(gpu, b, dt.f64, 1000), np.arange(1000.0))
    np.testing.assert_array_equal(contents(gpu, c, dt.f64, 1000), np.zeros(1000))


@pytest.mark.parametrize("size", [1, 7, 300, 100_000, 1_500_000])
def test_uploads_and_downloads(gpu, size):
    values = np.random.default_rng(0).integers(0, 1 << 31, size, np.int32)
    kept = values.copy()
    b = gpu.upload(values)
    values[:] = 0  # the upload does not read it later
    np.testing.assert_array_equal(contents(gpu, b, dt.i32, size), kept)
    gpu.put(b, dt.i32, size - 1, -5)
    assert contents(gpu, b, dt.i32, size)[-1] == -5


def test_many_small_uploads_do_not_overwrite_each_other(gpu, monkeypatch):
    monkeypatch.setattr(pinned, "_SLOT", 2048)
    made = [gpu.upload(np.full(n, n, np.int32)) for n in range(1, 200)]
    downloaded = [contents(gpu, b, dt.i32, n) for n, b in enumerate(made, 1)]
    for n, values in enumerate(downloaded, 1):
        assert values.tolist() == [n] * n
    host = [b for b in gpu.driver._blocks.values() if b[0] == "host"]
    assert sum(nbytes for _, nbytes in host) == 4 * 2048


def test_an_upload_of_many_slots(gpu, monkeypatch):
    monkeypatch.setattr(pinned, "_SLOT", 4096)
    values = np.arange(100_000)
    b = gpu.upload(values)
    np.testing.assert_array_equal(contents(gpu, b, dt.i64, 100_000), values)
    c = gpu.upload(values[::3])  # not contiguous
    np.testing.assert_array_equal(contents(gpu, c, dt.i64, 33_334), values[::3])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("value", [0, 1, 3, 77])
def test_filled(gpu, dtype, value):
    size = 20_000
    b = gpu.filled(dtype, size, value)
    expected = np.full(size, value, dtype.numpy)
    np.testing.assert_array_equal(contents(gpu, b, dtype, size), expected)
    assert not gpu.filled(dtype, 0, value).nbytes < 256


def test_statistics():
    gpu = emulated()
    a, b = gpu.allocate(4096), gpu.allocate(8192)
    assert (gpu.memory_statistics()["in_use"], gpu.memory_statistics()["misses"]) == (12288, 2)
    del a
    found = gpu.memory_statistics()
    assert (found["in_use"], found["peak"], found["pooled"]) == (8192, 12288, 4096)
    gpu.clear_memory_statistics()
    assert gpu.memory_statistics()["peak"] == 8192
    a = gpu.allocate(4000)
    assert (gpu.memory_statistics()["hits"], gpu.memory_statistics()["misses"]) == (1, 0)
    del a, b
    gpu.flush_memory()
    assert gpu.memory_statistics()["pooled"] == 0
    assert gpu.driver.memory.used == 0


def test_out_of_memory_empties_the_pool_first():
    gpu = emulated(limit=1 << 20)
    for nbytes in (300_000, 500_000, 900_000):
        b = gpu.allocate(nbytes)
        del b
    b = gpu.allocate(262_144)
    with pytest.raises(OutOfMemory) as found:
        gpu.allocate(1_000_000)
    assert isinstance(found.value, MemoryError)
    assert str(found.value) == (
        "Cannot allocate 1,048,576 bytes on the GPU: 262,144 bytes are in use, 0 are in the pool, "
        "and 786,176 of 1,048,576 bytes of the device are free."
    )
    del b
    assert gpu.allocate(900_000).nbytes == 917_504


def test_out_of_memory_collects_reference_cycles():
    gpu = emulated(limit=1 << 20)
    gc.collect()
    gc.disable()
    try:
        cycle = [gpu.allocate(800_000)]
        cycle.append(cycle)
        del cycle
        gpu.allocate(600_000)
    finally:
        gc.enable()


def test_a_limit_of_ones_own(monkeypatch):
    monkeypatch.setenv("DRJIT_CUDA_MEMORY", "1M")
    gpu = emulated()
    a = gpu.allocate(1 << 19)
    with pytest.raises(
        OutOfMemory, match=r"524,288 bytes are in use.*MEMORY allows 1,048,576 bytes"
    ):
        gpu.allocate(1 << 20)
    del a
    gpu.allocate(1 << 20)


def test_foreign_memory_is_kept_while_work_uses_it():
    class Owner(list):
        pass

    gpu = Cuda(EmulatedDriver(delayed=True, emulator=stub))
    owner = Owner()
    count = len(gc.get_referrers(owner))
    b = gpu.pool.adopt(gpu.driver.allocate(32), 32, owner)
    module = gpu.driver.load(b"def k(memory): pass")
    kernel = gpu.driver.function(module, "k")
    gpu.queue.launch(kernel, (1, 1, 1), (32, 1, 1), b"")
    del b
    assert len(gc.get_referrers(owner)) > count  # the launch may read it
    gpu.drain()
    assert len(gc.get_referrers(owner)) == count
    assert gpu.memory_statistics()["pooled"] == 0


def test_error_words_are_pinned_and_zero(gpu):
    a, b = gpu.error_words(), gpu.error_words()
    assert (a.words.shape, a.words.dtype, a.words.tolist()) == ((6,), np.int64, [0] * 6)
    start = a.address
    assert a.words.ctypes.data == start and abs(b.address - start) >= 48
    assert gpu.driver.pointer(start)[0] == "host"
    a.words[:] = 7
    owner = a.owner
    del a
    assert gpu.error_words().address != start
    del owner
    again = gpu.error_words()
    assert again.address == start and not again.words.any()
    many = [gpu.error_words() for _ in range(3000)]
    assert len({w.address for w in many}) == 3000


def test_pointers(gpu):
    b = gpu.allocate(100)
    assert gpu.driver.pointer(b.address + 50) == ("device", 0)
    assert gpu.driver.pointer(np.zeros(3).ctypes.data) is None


def test_invalid_releases(gpu):
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_VALUE: no such memory"):
        gpu.driver.release(123)
