"""Buffers, the pool, adoption of foreign memory."""

import ctypes
import gc
import mmap
import resource
import subprocess
import sys
import weakref

import numpy as np
import pytest
from native_kernels import entry

from drjit.jit import device
from drjit.jit.cpu import memory, runtime


@pytest.fixture(autouse=True)
def empty_pool():
    gc.collect()
    memory.flush_malloc_cache()
    memory.clear_statistics()


def close_gate():
    """Queues a job that does not end before the returned flag is set."""
    flag = np.zeros(1, "q")
    params = (ctypes.c_int64 * 1)(flag.ctypes.data)
    runtime.launch(entry("gate"), params, 1, 1, keep=flag)
    return flag


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 257, 1024, 1025, 4097, 100_000, 5 << 20])
def test_a_buffer_is_aligned_large_enough_and_not_much_larger(nbytes):
    buffer = memory.allocate(nbytes)
    assert buffer.address % 64 == 0
    assert nbytes <= buffer.nbytes <= max(256 + nbytes, nbytes * 5 // 4 + 1)
    assert device.size_class(nbytes) == buffer.nbytes
    # A packet of 32 lanes of 8 bytes at the last element is inside the block.
    view = np.frombuffer(buffer._block.base, np.uint8)
    end = view.ctypes.data + view.nbytes
    assert buffer.address + buffer.nbytes + 256 <= end


def test_a_large_buffer_begins_at_a_large_page():
    buffer = memory.allocate(3 << 20)
    assert buffer.address % memory.LARGE_PAGE < 4096
    buffer.array(np.dtype(np.uint8), buffer.nbytes)[-1] = 1


@pytest.mark.parametrize("nbytes", [400_000, 3 << 20])
def test_buffers_begin_at_different_places_of_a_page(nbytes):
    """Else the entries of one lane in many arrays would compete for a few places of the cache."""
    memory.flush_malloc_cache()
    buffers = [memory.allocate(nbytes) for _ in range(16)]
    assert len({b.address % 4096 for b in buffers}) == 16


def test_size_classes_are_their_own_class():
    for nbytes in range(0, 70_000, 13):
        capacity = device.size_class(nbytes)
        assert device.size_class(capacity) == capacity
        assert device.size_class(capacity + 1) > capacity


def test_the_pool_hands_out_freed_memory():
    where = memory.allocate(100_000).address
    again = memory.allocate(100_001)
    assert again.address == where
    other = memory.allocate(100_000)
    assert other.address != where
    assert memory.statistics()["misses"] == 2


def test_statistics_and_watermark():
    start = memory.statistics()
    a, b = memory.allocate(4096), memory.allocate(8192)
    del a
    stats = memory.statistics()
    assert stats["in_use"] - start["in_use"] == 8192
    assert stats["pooled"] == 4096
    assert memory.malloc_watermark() == start["in_use"] + 12288
    memory.clear_statistics()
    assert memory.malloc_watermark() == start["in_use"] + 8192
    del b
    memory.flush_malloc_cache()
    assert memory.statistics()["pooled"] == 0


def test_memory_freed_while_jobs_are_queued_is_not_given_to_the_host():
    buffer = memory.allocate(1000)
    where = buffer.address
    flag = close_gate()
    del buffer
    host = memory.allocate(1000, host=True)
    assert host.address != where
    kernel = memory.allocate(1000)
    assert kernel.address == where
    del kernel
    flag[0] = 1
    runtime.sync()
    assert memory.allocate(1000, host=True).address == where


def test_the_host_gets_the_completed_one_of_several_blocks():
    early, late = memory.allocate(1000), memory.allocate(1000)
    where = early.address
    del early
    flag = close_gate()
    del late
    assert memory.allocate(1000, host=True).address == where
    flag[0] = 1
    runtime.sync()


def test_a_pool_hit_causes_no_page_faults():
    if not hasattr(resource, "RUSAGE_THREAD"):
        pytest.skip("this system counts those of all threads together")

    def faults() -> int:
        return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt

    memory.allocate(8 << 20).array(np.uint8, 8 << 20)[:] = 1
    found = []
    for _ in range(5):
        before = faults()
        memory.allocate(8 << 20).array(np.uint8, 8 << 20)[:] = 2
        found.append(faults() - before)
    assert min(found) < 20  # others may come at any time, such as when pages are joined


def test_arrays_share_the_memory():
    buffer = memory.allocate(40)
    buffer.array(np.float32, 10)[:] = np.arange(10)
    np.testing.assert_array_equal(buffer.view(np.dtype("f4"), 10), np.arange(10))
    assert buffer.array(np.float32, 10).ctypes.data == buffer.address


def test_views_keep_the_buffer_and_are_counted():
    buffer = memory.allocate(40)
    alive = weakref.ref(buffer)
    view = buffer.view(np.dtype("f4"), 10)
    part = buffer.view(np.dtype(bool), 4)[1:].reshape(3, 1)
    assert buffer.views == 2
    del view
    assert buffer.views == 1
    del buffer
    assert alive() is not None
    del part
    assert alive() is None


def aligned(nbytes, end_in_page):
    """Bytes that end at that offset of a page."""
    pages = mmap.mmap(-1, (nbytes // 4096 + 3) * 4096)
    end = (nbytes // 4096 + 1) * 4096 + end_in_page
    return np.frombuffer(pages, np.uint8, nbytes, end - nbytes)  # no view of a larger array


@pytest.mark.parametrize(
    "array, adopted, in_place",
    [
        (aligned(4000, 1000).view(np.float32), True, True),
        (aligned(4000, 4096 - 248).view(np.float64), True, True),
        (aligned(4000, 4096 - 240).view(np.float64), True, False),
        (aligned(4000, 4096 - 504).view(np.int64), True, True),
        (aligned(4000, 4096 - 496).view(np.int64), True, False),
        (aligned(4000, 4096).view(np.float32), True, False),
        (aligned(4000, 1001)[:3996].view(np.float32), True, False),
        (aligned(4000, 1000).view(np.float32).reshape(10, 100), True, True),
        (aligned(4000, 1000).view(np.float32)[::2], False, False),
        (aligned(4000, 1000).view(">f4"), False, False),
        (np.empty(0, np.float32), False, False),
    ],
)
def test_adoption(array, adopted, in_place):
    """Kernels read memory in place unless a packet might end in the next page."""
    buffer = memory.adopt(array)
    assert (buffer is not None) == adopted
    if buffer is not None:
        assert buffer.origin == array.ctypes.data
        assert (buffer.address == array.ctypes.data) == in_place
        assert buffer.nbytes == array.nbytes
        assert buffer.owner is array
        for value in (1, 2):
            array[...] = value
            read = ctypes.string_at(buffer.address or buffer.copy_for_launch(), buffer.nbytes)
            np.testing.assert_array_equal(np.frombuffer(read, array.dtype), value)
            np.testing.assert_array_equal(buffer.array(array.dtype, array.size), value)


def test_memory_that_no_packet_may_leave_is_read_without_waiting_unless_jobs_write_to_it(
    monkeypatch,
):
    waits = []
    monkeypatch.setattr(memory.runtime, "drain", lambda *_: waits.append(True))
    monkeypatch.setattr(memory, "_writes_outside", False)
    array = aligned(400, 4096).view(np.float32)
    buffer, other = memory.adopt(array), memory.adopt(array)
    assert buffer.copy_for_launch() and buffer.copy_for_launch() and not waits
    assert other.origin == array.ctypes.data  # where a job writes
    assert buffer.copy_for_launch() and waits == [True]
    assert buffer.copy_for_launch() and waits == [True]


def test_foreign_memory_is_kept_while_needed_and_never_pooled():
    array = aligned(4000, 1000).view(np.float32)
    alive = weakref.ref(array)
    array.flags.writeable = False
    buffer = memory.adopt(array)
    del array
    assert alive() is not None
    assert not buffer.view(np.dtype("f4"), 1000).flags.writeable
    flag = close_gate()
    del buffer
    assert alive() is not None
    flag[0] = 1
    runtime.sync()
    assert alive() is None
    assert memory.statistics()["pooled"] == 0


def test_flush_waits_for_queued_work():
    buffer = memory.allocate(8000)
    a = buffer.array(np.int64, 1000)
    a[:] = 1
    params = (ctypes.c_int64 * 3)(buffer.address, buffer.address, 4)
    runtime.launch(entry("add"), params, 1000, 64)
    memory.flush_malloc_cache()
    np.testing.assert_array_equal(a, 5)


def test_exhausted_memory_is_an_error_that_names_the_sizes(monkeypatch):
    held, freed = memory.allocate(4096), memory.allocate(8192)
    del freed
    pooled = []

    def empty(*_):
        pooled.append(memory.statistics()["pooled"])
        raise MemoryError

    monkeypatch.setattr(memory, "from_system", empty)
    with pytest.raises(MemoryError, match=r"Cannot allocate 5,242,880 bytes: .* in use, 0 are in"):
        memory.allocate(5 << 20)
    assert pooled == [8192, 0]  # the pool was emptied in between
    assert held.nbytes == 4096


def test_buffers_made_before_memory_runs_out_are_not_counted_as_freed_only(monkeypatch):
    def full(size):
        raise MemoryError

    kept = memory.allocate(1000)
    del kept  # one block of this size is free
    before = memory.statistics()["in_use"]
    monkeypatch.setattr(memory, "from_system", full)
    with pytest.raises(MemoryError):
        memory.allocate_all([1024, 1024], [])
    assert memory.statistics()["in_use"] == before


def test_a_real_shortage():
    code = (
        "import resource\n"
        "from drjit.jit.cpu import memory\n"
        "b = memory.allocate(64 << 20)\n"
        "now = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (now + (16 << 20),) * 2)\n"
        "del b\n"
        "memory.allocate(70 << 20)\n"
        "try: memory.allocate(1 << 30)\n"
        "except MemoryError as error: print(error)\n"
    )
    if not sys.platform.startswith("linux"):
        pytest.skip("needs /proc")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.stdout.startswith("Cannot allocate 1,073,741,824 bytes: 0 bytes are in use"), run
