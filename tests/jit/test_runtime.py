"""Launching: order, threads, waiting, errors, interrupts, forks, exit, events."""

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest
from native_kernels import entry

from drjit.jit.cpu import launcher, runtime
from drjit.jit.cpu.runtime import Event
from drjit.jit.target import simd

SYNC_LIMIT = 60


@pytest.fixture(autouse=True)
def clean():
    count = runtime.thread_count()
    yield
    runtime.sync()
    runtime.set_thread_count(count)


def words(*values):
    """A parameter block: arrays by address, numbers as they are."""
    return (ctypes.c_int64 * len(values))(
        *[v.ctypes.data if isinstance(v, np.ndarray) else v for v in values]
    )


class Gate:
    """A job that holds up the queue until it is opened."""

    def __init__(self, expected=0):
        self.flag = np.zeros(1, np.int64)
        self.ticket = runtime.launch(
            entry("gate"), words(self.flag), 1, 1, keep=(self, self.flag), expected=expected
        )

    def open(self):
        self.flag[0] = 1


def run_script(text, **options):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("size, block", [(1, 16), (16, 16), (17, 16), (1000, 16), (100, 4096)])
def test_blocks_cover_the_range_once(threads, inline, size, block):
    runtime.set_thread_count(threads)
    blocks = -(-size // block)
    sizes, calls, result = np.zeros(blocks, "q"), np.zeros(threads, "q"), np.zeros(3, "q")
    times = launcher.Times()
    params = words(sizes, calls, result)
    before = time.perf_counter_ns()
    ticket = runtime.launch(
        entry("count", "total"),
        params,
        size,
        block,
        inline,
        times=ctypes.addressof(times),
    )
    runtime.wait(ticket)
    after = time.perf_counter_ns()
    np.testing.assert_array_equal(sizes[:-1], block)
    assert sizes[-1] == size - (blocks - 1) * block
    assert calls.sum() == blocks
    np.testing.assert_array_equal(result, [size, blocks, threads])
    assert before <= times.start <= times.end <= after
    assert times.last == times.total == times.end - times.start and times.launches == 1


@pytest.mark.parametrize("inline", [False, True])
def test_an_empty_range_runs_only_finish(inline):
    sizes, calls, result = np.zeros(1, "q"), np.zeros(8, "q"), np.full(3, -1)
    runtime.wait(
        runtime.launch(entry("count", "total"), words(sizes, calls, result), 0, 16, inline)
    )
    assert calls.sum() == 0
    assert list(result[:2]) == [0, 0]


@pytest.mark.parametrize("threads", [1, 3])
def test_jobs_run_in_order(threads):
    runtime.set_thread_count(threads)
    n, jobs = 1000, 2 * launcher.JOBS + 10  # more than fit into the ring
    a = np.arange(n)
    other = np.zeros(n, "q")
    for k in range(jobs):
        source, target = (a, other) if k % 2 == 0 else (other, a)
        runtime.launch(entry("add"), words(source, target, k), n, 64, inline=k % 3 == 0)
    runtime.sync()
    np.testing.assert_array_equal(a, np.arange(n) + jobs * (jobs - 1) // 2)
    assert runtime.completed() == runtime.submitted


def test_launch_returns_at_once_and_inline_work_queues_behind():
    gate = Gate()
    a = np.zeros(4, "q")
    ticket = runtime.launch(entry("add"), words(a, a, 5), 4, 16, inline=True, keep=a)
    assert ticket == gate.ticket + 1
    assert runtime.completed() < gate.ticket
    assert a[0] == 0
    gate.open()
    runtime.wait(ticket)
    np.testing.assert_array_equal(a, 5)


def test_no_more_work_is_queued_than_takes_a_while():
    """A launch waits where kernels that are queued will take long, and goes on when they end."""
    a, gate, queued = np.zeros(4, "q"), Gate(), []

    def launch_many():
        for _ in range(20):
            runtime.launch(
                entry("add"), words(a, a, 1), 4, 16, keep=a, expected=runtime.AHEAD_NS // 3
            )
            queued.append(runtime.submitted - gate.ticket)

    thread = threading.Thread(target=launch_many)
    thread.start()
    deadline = time.monotonic() + SYNC_LIMIT
    while len(queued) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    thread.join(0.2)
    assert queued == [1, 2, 3, 4] and runtime.completed() < gate.ticket
    gate.open()
    thread.join(SYNC_LIMIT)
    runtime.sync()
    assert len(queued) == 20 and a.tolist() == [20] * 4


def test_long_kernels_are_queued_in_twos():
    a, gate = np.zeros(4, "q"), Gate()
    for _ in range(2):
        runtime.launch(entry("add"), words(a, a, 1), 4, 16, keep=a, expected=100 * runtime.AHEAD_NS)
    threading.Timer(0.2, gate.open).start()
    runtime.launch(entry("add"), words(a, a, 1), 4, 16, keep=a)
    assert runtime.completed() >= gate.ticket


def test_short_kernels_are_queued_behind_a_long_one():
    a, gate = np.zeros(4, "q"), Gate(expected=100 * runtime.AHEAD_NS)
    for _ in range(20):
        runtime.launch(entry("add"), words(a, a, 1), 4, 16, keep=a, expected=1000)
    assert runtime.completed() < gate.ticket
    gate.open()
    runtime.sync()
    assert a.tolist() == [20] * 4


def test_what_a_job_needs_lives_until_it_is_complete_and_no_longer():
    class Thing:
        pass

    gate, thing, retained = Gate(), Thing(), Thing()
    alive, retained_alive = weakref.ref(thing), weakref.ref(retained)
    runtime.launch(None, 0, 1, 1, keep=thing)
    runtime.retain(retained)
    del thing, retained
    gc.collect()
    assert alive() is not None
    assert retained_alive() is not None
    gate.open()
    runtime.sync()
    assert alive() is None
    assert retained_alive() is None


def test_many_launches_leave_nothing_behind():
    a = np.zeros(64, "q")
    for _ in range(10_000):
        runtime.launch(entry("add"), words(a, a, 1), 64, 32, keep=a)
    runtime.sync()
    assert len(runtime.unfinished) == 0
    np.testing.assert_array_equal(a, 10_000)


def test_each_check_is_called_once_also_where_the_ring_was_full():
    gate, calls, a = Gate(), [], np.zeros(4, "q")
    count = launcher.JOBS + 20

    def launch_many():
        for k in range(count):
            runtime.launch(
                entry("add"), words(a, a, 1), 4, 16, keep=a, check=lambda k=k: calls.append(k)
            )

    thread = threading.Thread(target=launch_many)
    thread.start()
    deadline = time.monotonic() + SYNC_LIMIT
    while runtime.submitted < gate.ticket + launcher.JOBS - 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert runtime.completed() < gate.ticket
    gate.open()
    thread.join(SYNC_LIMIT)
    runtime.sync()
    assert calls == [*range(count)] and a.tolist() == [count] * 4


def test_two_python_threads_launch_and_wait_at_once():
    runtime.set_thread_count(2)
    arrays = [np.zeros(100, "q") for _ in range(4)]

    def work(a):
        for _ in range(500):
            runtime.wait(runtime.launch(entry("add"), words(a, a, 1), 100, 32, keep=a))

    threads = [threading.Thread(target=work, args=(a,)) for a in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SYNC_LIMIT)
    for a in arrays:
        np.testing.assert_array_equal(a, 500)


def test_more_waiting_threads_than_seats():
    gate, woken = Gate(), []

    def work():
        runtime.wait(gate.ticket)
        woken.append(1)

    threads = [threading.Thread(target=work) for _ in range(launcher.WAITERS + 3)]
    for thread in threads:
        thread.start()
    gate.open()
    for thread in threads:
        thread.join(SYNC_LIMIT)
    assert len(woken) == launcher.WAITERS + 3


def test_workers_wake_up_after_sleeping():
    a = np.zeros(100, "q")
    for _ in range(20):
        time.sleep(0.002)
        runtime.wait(runtime.launch(entry("add"), words(a, a, 1), 100, 32))
    np.testing.assert_array_equal(a, 20)


def test_idle_workers_sleep():
    runtime.set_thread_count(3)
    runtime.wait(runtime.launch(None, 0, 1, 1))
    control = runtime._control
    for _ in range(1000 * SYNC_LIMIT):
        if control.parked == 3:
            break
        time.sleep(0.001)
    assert (control.parked, control.spinning) == (3, 0)


def test_threads_that_the_system_refuses(monkeypatch):
    begin, left = launcher.start_thread, 0

    def limited(*arguments):
        nonlocal left
        if not left:
            raise RuntimeError("can't start new thread")
        left -= 1
        begin(*arguments)

    runtime.set_thread_count(1)
    runtime.set_thread_count(3)
    monkeypatch.setattr(launcher, "start_thread", limited)
    a = np.zeros(100, "q")
    with pytest.raises(RuntimeError, match="can't start new thread"):
        runtime.launch(entry("add"), words(a, a, 1), 100, 10)
    left = 1
    for _ in range(3):
        runtime.wait(runtime.launch(entry("add"), words(a, a, 1), 100, 10))
    np.testing.assert_array_equal(a, 3)
    assert runtime._control.entered == 1 and not left


def failing(record, error):
    """Launches a kernel that sets the flag of its error record."""

    def check():
        return error if record[0] else None

    return runtime.launch(entry("fail"), words(record), 1, 1, keep=record, check=check)


def test_an_error_in_a_kernel_is_raised_once_by_the_next_wait():
    record = np.zeros(5, "q")
    ticket = failing(record, IndexError("site 7"))
    runtime.launch(None, 0, 1, 1)
    with pytest.raises(IndexError, match="site 7"):
        runtime.wait(ticket)
    runtime.sync()
    assert record[1] == 7
    assert len(runtime.unfinished) == 0


def test_launches_do_not_raise_and_later_errors_become_a_note():
    gate = Gate()
    records = [np.zeros(5, "q") for _ in range(3)]
    for k, record in enumerate(records):
        failing(record, IndexError(f"number {k}"))
    gate.open()
    while runtime.completed() < runtime.submitted:
        time.sleep(0.001)
    runtime.launch(None, 0, 1, 1)
    with pytest.raises(IndexError, match="number 0") as info:
        runtime.sync()
    assert info.value.__notes__ == ["2 more kernel launches reported an error."]
    runtime.sync()


def test_a_check_that_raises_counts_as_an_error():
    def check():
        raise ZeroDivisionError("in the check")

    runtime.launch(None, 0, 1, 1, check=check)
    with pytest.raises(ZeroDivisionError, match="in the check"):
        runtime.sync()


def test_an_inline_launch_leaves_its_error_to_the_next_wait():
    runtime.launch(None, 0, 1, 1, inline=True, check=lambda: IndexError("inline"))
    with pytest.raises(IndexError, match="inline"):
        runtime.sync()


def test_drain_leaves_errors_for_sync():
    failing(np.zeros(5, "q"), IndexError("later"))
    runtime.drain()
    assert runtime.completed() == runtime.submitted
    with pytest.raises(IndexError, match="later"):
        runtime.sync()


def test_the_thread_count():
    runtime.set_thread_count(3)
    assert runtime.thread_count() == 3
    runtime.set_thread_count(0)
    assert runtime.thread_count() == 1
    with pytest.raises(TypeError, match=r"set_thread_count\(\).*negative \(-1\)"):
        runtime.set_thread_count(-1)
    with pytest.raises(TypeError, match=r"expected an int, got str"):
        runtime.set_thread_count("2")


@pytest.mark.parametrize("wish, count", [("3", 3), ("100000", launcher.WORKERS), ("many", None)])
def test_the_environment_sets_the_thread_count(monkeypatch, wish, count):
    monkeypatch.setenv("DRJIT_NUM_THREADS", wish)
    monkeypatch.setattr(runtime, "_thread_count", 0)
    found = runtime.thread_count()
    monkeypatch.undo()
    assert found == (count or len(os.sched_getaffinity(0)))


def test_changing_the_thread_count_waits_for_queued_work():
    a = np.zeros(100_000, "q")
    for count in (2, 1, 4, 2):
        runtime.launch(entry("add"), words(a, a, 1), a.size, 64)
        runtime.set_thread_count(count)
    runtime.sync()
    np.testing.assert_array_equal(a, 4)


def test_events():
    start, end = Event(), Event()
    assert start.query() is True
    with pytest.raises(RuntimeError, match="recorded first"):
        start.elapsed_time(end)
    with pytest.raises(RuntimeError, match="timing enabled"):
        start.elapsed_time(Event(enable_timing=False))
    with pytest.raises(TypeError, match="expected an Event, got int"):
        start.elapsed_time(3)
    gate = Gate()
    start.record()
    runtime.launch(entry("spin"), words(1_000_000), 1, 1)
    end.record()
    assert end.query() is False
    gate.open()
    end.wait()
    assert end.query() is True
    assert start.elapsed_time(end) > 0
    assert end.elapsed_time(start) == -start.elapsed_time(end)
    assert start.handle != end.handle


def test_events_keep_their_time_when_the_ring_has_turned():
    start, end = Event(), Event()
    start.record()
    end.record()
    before = start.elapsed_time(end)
    for _ in range(2 * launcher.JOBS):
        runtime.launch(None, 0, 1, 1)
    runtime.sync()
    assert start.elapsed_time(end) == before


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interrupt_ends_the_wait_and_the_job_goes_on():
    process = run_script("""
        import ctypes, os, signal, threading
        import numpy as np
        from native_kernels import entry
        from drjit.jit import device
        from drjit.jit.cpu import runtime
        # What the first words of parameter blocks point to has the word that stops loops.
        flag = np.zeros(8, "q")
        a = np.zeros(8, "q")
        params = (ctypes.c_int64 * 1)(flag.ctypes.data)
        runtime.launch(entry("gate"), params, 1, 1)
        params = (ctypes.c_int64 * 3)(a.ctypes.data, a.ctypes.data, 5)
        runtime.launch(entry("add"), params, 4, 16)
        device.GRACE_SECONDS = 0.1
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            runtime.sync()
        except KeyboardInterrupt:
            print("interrupted", runtime.completed())
        flag[0] = 1
        runtime.sync()
        print(a[:4].tolist(), runtime.completed())
    """)
    out, err = process.communicate(timeout=SYNC_LIMIT)
    assert (out.split("\n")[:2], err) == (["interrupted 0", "[5, 5, 5, 5] 2"], "")


@pytest.mark.parametrize("work", ["0", "1 << 62"])
def test_the_interpreter_exits_while_kernels_run(work):
    process = run_script(f"""
        import ctypes
        from native_kernels import entry
        from drjit.jit.cpu import runtime
        runtime._EXIT_SECONDS = 0.1
        params = (ctypes.c_int64 * 1)({work})
        for _ in range(100):
            runtime.launch(entry("spin"), params, 1000, 1, keep=object())
        print("queued")
    """)
    assert process.communicate(timeout=SYNC_LIMIT) == ("queued\n", "")
    assert process.returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_the_results_and_workers_of_its_own():
    process = run_script("""
        import ctypes, os, warnings
        import numpy as np
        from native_kernels import entry
        from drjit.jit.cpu import runtime
        warnings.simplefilter("ignore", DeprecationWarning)
        a = np.zeros(100_000, "q")
        params = (ctypes.c_int64 * 3)(a.ctypes.data, a.ctypes.data, 1)
        def launch():
            return runtime.launch(entry("add"), params, a.size, 64)
        for _ in range(20):
            launch()
        child = os.fork()
        values = [int(a[0]), int(a[-1])]
        launch()
        runtime.sync()
        values += [int(a[0]), int(a[-1])]
        if child == 0:
            grandchild = os.fork()
            launch()
            runtime.sync()
            if grandchild:
                os.waitpid(grandchild, 0)
            os._exit(0 if values == [20, 20, 21, 21] and a[0] == 22 else 1)
        print(values, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    assert process.communicate(timeout=SYNC_LIMIT) == ("[20, 20, 21, 21] 0\n", "")


def test_a_missing_llvmlite_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    monkeypatch.delitem(sys.modules, "drjit.jit.target.simd.llvm", raising=False)
    monkeypatch.delattr(simd, "llvm", raising=False)
    with pytest.raises(ImportError, match=r"need the package 'llvmlite'.*DRJIT_TIER=numpy"):
        launcher.Functions()
