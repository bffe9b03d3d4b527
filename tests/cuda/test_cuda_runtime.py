"""The order of work on a GPU, on the emulated driver: launches and their checks, waiting, Ctrl-C,
errors, events, forks."""

import _thread
import gc
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from cuda_stub import stub

from drjit.jit.cuda import runtime
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.driver import CudaError
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.cuda.kernel import MachineCode
from drjit.jit.ir import dtype as dt
from drjit.jit.target.cuda.function import Compiled

KERNELS = b"""
import gc

def add(memory, to, n):
    memory.view(to, 8 * n).view(np.int64)[:] += 1

def double(memory, to, n):
    before = memory.view(to, 8 * n).view(np.int64).copy()
    gc.enable()
    for _ in range(1000):
        garbage = []
        garbage.append(garbage)
    memory.view(to, 8 * n).view(np.int64)[:] = before * 2

def fail(memory, record):
    memory.view(record, 40).view(np.int64)[:] = 1, 0, 5, 0, 3

def crash(memory):
    raise EmulatorError("ld.global.f32 at line 7: address 0x10 is not in any allocation")
"""
ONE = (1, 1, 1)


class Record:
    """What a launch may report to."""

    def __init__(self, gpu: Cuda) -> None:
        self.words, self.address, self.owner = gpu.error_words()
        self.done = False

    def check(self):
        self.done = True
        return IndexError(f"index {self.words[2]}") if self.words[0] else None


def device(delayed: bool = False) -> Cuda:
    gpu = Cuda(EmulatedDriver(delayed=delayed, emulator=stub))
    module = gpu.driver.load(KERNELS)
    gpu.add, gpu.double, gpu.fail, gpu.crash = [
        gpu.driver.function(module, name) for name in ("add", "double", "fail", "crash")
    ]
    return gpu


@pytest.fixture(params=[False, True], ids=["at once", "delayed"])
def gpu(request):
    return device(request.param)


def launch(gpu: Cuda, function: int, *words: int, **options) -> None:
    block = struct.pack(f"<{len(words)}q", *words)
    gpu.queue.launch(function, ONE, (32, 1, 1), block, **options)


def test_launches_run_in_order(gpu):
    b = gpu.filled(dt.i64, 10, 5)
    for _ in range(1000):
        launch(gpu, gpu.add, b.address, 10)
    c = gpu.copy(b, 80)
    launch(gpu, gpu.add, b.address, 10)
    gpu.sync()
    assert gpu.download(b, dt.i64, 10).tolist() == [1006] * 10
    assert gpu.download(c, dt.i64, 10).tolist() == [1005] * 10


def test_the_queue_is_bounded(monkeypatch):
    gpu = device(delayed=True)
    b = gpu.filled(dt.i64, 1, 0)
    depth = []
    for _ in range(5000):
        launch(gpu, gpu.add, b.address, 1)
        depth.append(gpu.queue.submitted - gpu.queue.completed)
    assert 2 * runtime.SPACING < max(depth) <= runtime.MARKERS * runtime.SPACING
    slow = device(delayed=True)
    monkeypatch.setattr(slow.driver, "elapsed", lambda start, end: 20.0 * runtime.SPACING)
    depth.clear()
    for _ in range(200):
        launch(slow, slow.add, b.address, 1)
        depth.append(slow.queue.submitted - slow.queue.completed)
    assert max(depth[100:]) <= 5


def test_what_launches_need_is_kept_until_they_have_ended():
    class Thing:
        alive = 0

        def __init__(self):
            Thing.alive += 1

        def __del__(self):
            Thing.alive -= 1

    gpu = device(delayed=True)
    b = gpu.filled(dt.i64, 1, 0)
    launch(gpu, gpu.add, b.address, 1, keep=Thing())
    assert Thing.alive == 1
    gpu.drain()
    assert Thing.alive == 0


def test_checks_are_called_when_a_launch_has_ended(gpu):
    first, second = Record(gpu), Record(gpu)
    for record in (first, second):
        launch(gpu, gpu.fail, record.words.ctypes.data, record=record)
    gpu.drain()  # leaves the errors
    assert first.done and second.done
    with pytest.raises(IndexError, match="index 5") as found:
        gpu.sync()
    assert found.value.__notes__ == ["1 more kernel launches reported an error."]
    gpu.sync()


def test_an_error_that_is_raised_elsewhere_is_forgotten(gpu):
    record = Record(gpu)
    error = IndexError("once")
    record.check = lambda: error
    launch(gpu, gpu.fail, record.words.ctypes.data, record=record)
    gpu.drain()
    assert gpu.forget_error(error) and not gpu.forget_error(error)
    gpu.sync()


def test_a_launch_that_fails_is_reported_by_the_next_wait(gpu):
    b = gpu.filled(dt.i64, 1, 0)
    launch(gpu, gpu.add, b.address, 1, name="k_add")
    launch(gpu, gpu.crash, name="k_crash")
    with pytest.raises(CudaError) as found:
        gpu.drain()
    assert str(found.value) == (
        "CUDA_ERROR_LAUNCH_FAILED: ld.global.f32 at line 7: address 0x10 is not in any allocation "
        "(launch, kernel k_crash)"
    )
    assert found.value.__notes__ == ["One of these kernels failed, or several: k_add, k_crash."]
    assert isinstance(found.value.__cause__, stub.EmulatorError)
    gpu.sync()  # unlike a GPU, the emulator goes on


def test_errors_of_the_launch_itself(gpu):
    for change, text in (
        ({"parameters": b"12345678"}, "8 bytes of parameters instead of 16 .launch, kernel k1."),
        ({"shared": 100_000}, "100000 bytes of dynamic shared memory"),
        ({"block": (2048, 1, 1)}, r"\(2048, 1, 1\) threads"),
    ):
        options = {"grid": ONE, "block": ONE, "parameters": b"x" * 16, **change}
        with pytest.raises(CudaError, match=f"CUDA_ERROR_INVALID_VALUE: .*{text}"):
            gpu.queue.launch(gpu.add, name="k1", **options)
    gpu.sync()
    gpu.driver.set_dynamic_shared(gpu.add, 100_000)
    b = gpu.filled(dt.i64, 1, 0)
    launch(gpu, gpu.add, b.address, 1, shared=100_000)
    gpu.sync()
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_PTX"):
        gpu.driver.load(b"no kernel")
    with pytest.raises(CudaError, match=r"CUDA_ERROR_NOT_FOUND.*kernel other"):
        gpu.driver.function(gpu.driver.load(b"a = 1"), "other")


def test_a_launch_that_lacks_memory_is_repeated_when_the_pool_is_empty(gpu, monkeypatch):
    """The driver takes memory for what the threads of a kernel keep there."""
    b = gpu.filled(dt.i64, 10, 5)
    del_me = [gpu.allocate(1 << 20) for _ in range(3)]
    del del_me
    record, launched = Record(gpu), gpu.driver.launch

    def lacks(*arguments):
        if gpu.pool.pooled:
            raise CudaError("CUDA_ERROR_OUT_OF_MEMORY", "out of memory", "launch", 2)
        launched(*arguments)

    monkeypatch.setattr(gpu.driver, "launch", lacks)
    launch(gpu, gpu.add, b.address, 10, record=record)
    assert gpu.pool.pooled == 0 and not record.done
    gpu.sync()
    assert record.done and gpu.download(b, dt.i64, 10).tolist() == [6] * 10
    monkeypatch.setattr(type(gpu.pool), "pooled", 1)
    with pytest.raises(CudaError, match="OUT_OF_MEMORY"):
        launch(gpu, gpu.add, b.address, 10)


@pytest.mark.parametrize("name", ["load", "function"])
def test_code_that_lacks_memory_is_loaded_when_the_pool_is_empty(gpu, monkeypatch, name):
    del_me = [gpu.allocate(1 << 20) for _ in range(3)]
    del del_me
    form, works = Compiled("", "add", True, False, "double"), getattr(gpu.driver, name)

    def lacks(*arguments):
        if gpu.pool.pooled:
            raise CudaError("CUDA_ERROR_OUT_OF_MEMORY", "out of memory", name, 2)
        return works(*arguments)

    monkeypatch.setattr(gpu.driver, name, lacks)
    code = MachineCode(gpu, form, KERNELS)
    assert gpu.pool.pooled == 0 and code.entry and code.finish
    monkeypatch.setattr(type(gpu.pool), "pooled", 1)
    with pytest.raises(CudaError, match="OUT_OF_MEMORY"):
        MachineCode(gpu, form, KERNELS)


def test_ctrl_c_stops_loops(monkeypatch):
    """A kernel that does not end by itself: here, an event that is not reached before the word
    that stops loops has been written."""
    monkeypatch.setattr("drjit.jit.device.GRACE_SECONDS", 0.05)
    gpu = device(delayed=True)
    record = Record(gpu)
    launch(gpu, gpu.fail, record.words.ctypes.data, record=record)
    reached = gpu.driver.reached
    monkeypatch.setattr(gpu.driver, "reached", lambda e: bool(record.words[5]) and reached(e))
    threading.Timer(0.2, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt) as found:
        gpu.sync()
    assert record.words[5] == 1
    assert "Loops of running kernels were stopped" in found.value.__notes__[0]
    with pytest.raises(IndexError):
        gpu.sync()


def test_ctrl_c_lets_short_work_end(monkeypatch):
    gpu = device(delayed=True)
    record = Record(gpu)
    launch(gpu, gpu.fail, record.words.ctypes.data, record=record)
    sent, reached = threading.Event(), gpu.driver.reached
    monkeypatch.setattr(gpu.driver, "reached", lambda e: sent.is_set() and reached(e))

    def interrupt():
        _thread.interrupt_main()
        sent.set()

    threading.Timer(0.2, interrupt).start()
    with pytest.raises(KeyboardInterrupt) as found:
        gpu.sync()
    assert not hasattr(found.value, "__notes__")
    assert record.words[5] == 0


def test_several_threads(gpu):
    results = {}

    def work(k):
        b = gpu.upload(np.full(100, k))
        for _ in range(50):
            launch(gpu, gpu.add, b.address, 100)
            c = gpu.copy(b, 800)
            b = c
        gpu.drain()
        results[k] = gpu.download(b, dt.i64, 100).tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: [k + 50] * 100 for k in range(4)}


def test_events(gpu):
    start, end = gpu.event(), gpu.event()
    assert start.query()  # never recorded
    b = gpu.filled(dt.i64, 10, 0)
    start.record()
    launch(gpu, gpu.add, b.address, 10)
    end.record()
    end.wait()
    assert start.query() and end.query()
    assert 0 <= start.elapsed_time(end) < 10_000
    assert start.handle != end.handle
    with pytest.raises(RuntimeError, match="recorded first"):
        start.elapsed_time(gpu.event())
    with pytest.raises(RuntimeError, match="timing enabled"):
        start.elapsed_time(gpu.event(enable_timing=False))
    with pytest.raises(TypeError, match="expected an Event, got int"):
        start.elapsed_time(1)
    with pytest.raises(RuntimeError, match="different backends"):
        start.elapsed_time(device().event())
    events = len(gpu.driver._events)
    del start
    assert len(gpu.driver._events) == events - 1


def test_waiting_for_an_event_raises_errors(gpu):
    record = Record(gpu)
    launch(gpu, gpu.fail, record.words.ctypes.data, record=record)
    event = gpu.event()
    event.record()
    with pytest.raises(IndexError, match="index 5"):
        event.wait()
    event.wait()
    gpu.sync()


def in_process(code: str) -> subprocess.CompletedProcess:
    lead = (
        "import sys; sys.path[:0] = ['tests/support', 'tests/cuda']\n"
        "from test_cuda_runtime import Record, device, dt, launch\n"
    )
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", lead + code], capture_output=True, text=True
    )


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
def test_a_forked_child_cannot_use_the_device():
    found = in_process("""
import os
gpu = device()
b, event = gpu.filled(dt.i64, 1, 0), gpu.event()
if os.fork() == 0:
    del event
    for call in (lambda: launch(gpu, gpu.add, b.address, 1), lambda: gpu.download(b, dt.i64, 1),
                 lambda: gpu.driver.version(), gpu.event):
        try:
            call()
        except RuntimeError as error:
            print(error)
    del b
    gpu.sync()
    gpu.flush_memory()
    sys.exit()
os.wait()
launch(gpu, gpu.add, b.address, 1)
gpu.sync()
print(gpu.download(b, dt.i64, 1))
""")
    assert found.stderr == ""
    *refused, last = found.stdout.splitlines()
    assert last == "[1]"
    assert len(refused) == 4
    assert all(
        line.startswith("CUDA cannot be used after a fork") and "'spawn'" in line
        for line in refused
    )


def test_errors_that_nobody_has_seen_are_shown_at_exit():
    found = in_process("""
gpu = device(delayed=True)
record = Record(gpu)
launch(gpu, gpu.fail, record.words.ctypes.data, record=record)
launch(gpu, gpu.crash)
""")
    assert found.returncode == 0
    assert "index 5 (nobody has used the result)" in found.stderr or "is not in any" in found.stderr


def test_an_error_that_has_been_raised_is_not_shown_at_exit():
    found = in_process("""
import itertools
gpu = device()
launch(gpu, gpu.crash)
reached, record = gpu.driver.reached, gpu.driver.record
try:
    gpu.sync()
except Exception as error:
    failed = error
    print(type(failed).__name__)
def fail(*arguments):  # as every call of a real driver does from then on
    raise failed
gpu.driver.record = fail
""")
    assert (found.stdout, found.stderr) == ("CudaError\n", "")


def test_finalizers_launch_after_what_is_running(gpu):
    """The emulated device runs Python, and so the collector could run in the middle of a kernel."""

    class Launches:
        def __init__(self):
            self.me = self

        def __del__(self):
            launch(gpu, gpu.add, b.address, 10)
            gpu.drain()

    b = gpu.filled(dt.i64, 10, 5)
    before = gc.get_threshold()
    gc.collect()
    gc.disable()
    Launches()
    try:
        gc.set_threshold(10)
        launch(gpu, gpu.double, b.address, 10)
        gpu.drain()
    finally:
        gc.enable()
        gc.set_threshold(*before)
    gc.collect()
    assert gpu.download(b, dt.i64, 10).tolist() == [11] * 10


def test_launches_may_take_no_time(monkeypatch):
    gpu = device()
    monkeypatch.setattr(gpu.driver, "elapsed", lambda start, end: 0.0)
    b = gpu.filled(dt.i64, 1, 0)
    for _ in range(200):
        launch(gpu, gpu.add, b.address, 1)
    gpu.sync()
    assert gpu.download(b, dt.i64, 1).tolist() == [200]


def test_waits_sleep_in_between(monkeypatch):
    """A waiter does not take a processor for itself."""
    gpu = device(delayed=True)
    event = gpu.event()
    event.record()
    calls = []
    end = time.monotonic() + 0.3
    reached = gpu.driver.reached

    def ask(e):
        calls.append(e)
        return time.monotonic() > end and reached(e)

    monkeypatch.setattr(gpu.driver, "reached", ask)
    event.wait()
    spins = sum(1 for _ in calls)
    assert spins < 0.3 / 1e-6 / 4
    assert runtime._LONGEST_SLEEP <= 1e-3
