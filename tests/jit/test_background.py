"""Kernels that other threads compile: the program goes on, results are the same, errors come where
a result is waited for, and nothing is left half done."""

import ctypes
import os
import subprocess
import sys
import threading
import time

import native_kernels
import numpy as np
import pytest

import drjit as dr
from drjit.jit import locks
from drjit.jit.cpu import background, kernel, launcher, runtime, variants
from drjit.jit.run import cache
from drjit.jit.run.launch import layout_of
from drjit.jit.target import simd
from drjit.jit.target.simd.ir import KernelError
from drjit.llvm import Float, UInt32
from drjit.llvm.ad import Float as AdFloat

LIMIT = 30


def until_no_thread_is_left():
    end = time.monotonic() + LIMIT
    while background._threads and time.monotonic() < end:
        time.sleep(0.001)


@pytest.fixture(autouse=True)
def clean(tmp_path, monkeypatch):
    count = runtime.thread_count()
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(variants, "pinned", "compiled")
    runtime.set_thread_count(2)
    background.finish()
    until_no_thread_is_left()
    dr.flush_kernel_cache()
    yield
    background.finish()
    runtime.sync()
    runtime.set_thread_count(count)


class Gate:
    """Holds up what is compiled from texts that contain a word, until it is opened."""

    def __init__(self, monkeypatch, word=""):
        self.opened, self.threads, self.compile = threading.Event(), [], simd.compile
        self.word, self.error = word, None
        monkeypatch.setattr(simd, "compile", self)

    def __call__(self, text, *arguments, **options):
        if self.word in text:
            self.threads.append(threading.current_thread())
            assert self.opened.wait(LIMIT)
            if self.error is not None:
                raise self.error
        return self.compile(text, *arguments, **options)

    def open(self):
        self.opened.set()


# ---- Threads


def test_urgent_work_comes_first_and_what_is_hurried_next():
    opened, order = threading.Event(), []
    tasks = [background.submit(lambda: opened.wait(LIMIT))]
    for k in range(3):
        tasks.append(background.submit(lambda k=k: order.append(k)))
    tasks.append(background.submit(lambda: order.append("urgent"), urgent=True))
    tasks[2].hurry()
    assert not any(t.done() for t in tasks)
    opened.set()
    background.finish()
    assert order == ["urgent", 1, 0, 2] and all(t.done() for t in tasks)


def test_at_most_so_many_threads_which_end_when_nothing_is_left():
    background.finish()  # what earlier tests have left
    until_no_thread_is_left()
    usual = sys.getswitchinterval()
    opened, at_work = threading.Event(), []

    def work():
        at_work.append(threading.get_ident())
        assert locks.is_own_thread()
        opened.wait(LIMIT)

    for _ in range(7):
        background.submit(work, threads=3)
    end = time.monotonic() + LIMIT
    while len(at_work) < 3 and time.monotonic() < end:
        time.sleep(0.001)
    assert len(at_work) == 3 and sys.getswitchinterval() == background.SWITCH
    opened.set()
    background.finish()
    until_no_thread_is_left()
    assert len(at_work) == 7 and not background._threads
    assert sys.getswitchinterval() == usual and not locks.is_own_thread()


def test_the_switch_interval_of_the_program_stays(monkeypatch):
    opened = threading.Event()
    background.submit(lambda: opened.wait(LIMIT))
    sys.setswitchinterval(0.25)
    opened.set()
    background.finish()
    until_no_thread_is_left()
    assert sys.getswitchinterval() == 0.25
    sys.setswitchinterval(0.005)


def test_errors_are_for_those_who_ask():
    task = background.submit(lambda: 1 / 0)
    background.finish()
    with pytest.raises(ZeroDivisionError):
        task.result()
    assert background.submit(lambda: 5).result() == 5


def test_no_thread_can_be_started(monkeypatch):
    def refused(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(background._thread, "start_new_thread", refused)
    assert background.submit(lambda: None) is None
    background.finish()
    x = Float(1, 2, 3)
    assert dr.all(x * 2.0625 == Float(2.0625, 4.125, 6.1875))


# ---- Closed jobs


def words(*values):
    return (ctypes.c_int64 * len(values))(
        *[v.ctypes.data if isinstance(v, np.ndarray) else v for v in values]
    )


def add(a, number, entry=None):
    entry = entry or native_kernels.entry("add")
    return runtime.launch(entry, words(a, a, number), len(a), 64, keep=a)


@pytest.mark.parametrize("inline", [False, True])
def test_a_closed_job_holds_up_those_behind_it(inline):
    runtime.sync()
    entry, a = launcher.JobEntry(), np.zeros(1000, "q")
    params = words(a, a, 5)
    first = runtime.launch(entry, params, len(a), 64, inline, a)
    second = add(a, 10)
    time.sleep(0.01)
    assert runtime.completed() < first and not a.any()
    runtime.open_jobs(entry, native_kernels.address("add"), 0)
    runtime.wait(second)
    assert (a == 15).all() and entry.kernel == native_kernels.address("add")
    runtime.wait(add(a, 1, entry))  # open from now on
    assert (a == 16).all()


def test_more_closed_jobs_than_fit_into_the_ring():
    entry, a = launcher.JobEntry(), np.zeros(100, "q")
    timer = threading.Timer(0.05, runtime.open_jobs, (entry, native_kernels.address("add"), 0))
    timer.start()
    for _ in range(launcher.JOBS + 50):
        ticket = add(a, 1, entry)
    runtime.wait(ticket)
    timer.join()
    assert (a == launcher.JOBS + 50).all() and not runtime.first_closed()


def test_several_kernels_that_open_in_another_order():
    entries, a = [launcher.JobEntry() for _ in range(3)], np.zeros(100, "q")
    for k, entry in enumerate(entries):
        ticket = add(a, 10**k, entry)
    for entry in reversed(entries):
        assert runtime.completed() < ticket
        runtime.open_jobs(entry, native_kernels.address("add"), 0)
    runtime.wait(ticket)
    assert (a == 111).all()


@pytest.mark.parametrize("wait", [runtime.sync, runtime.drain])
def test_a_kernel_that_cannot_be_compiled(wait):
    entry, a = launcher.JobEntry(), np.zeros(100, "q")
    add(a, 1, entry)
    add(a, 5)
    runtime.fail_jobs(entry, KernelError("no such instruction"))
    with pytest.raises(KernelError, match="no such instruction"):
        wait()
    wait()
    assert (a == 5).all()  # what is behind it runs


def test_the_number_of_threads_changes_when_nothing_is_queued():
    entry, a = launcher.JobEntry(), np.zeros(100, "q")
    add(a, 1, entry)
    timer = threading.Timer(0.05, runtime.open_jobs, (entry, native_kernels.address("add"), 0))
    timer.start()
    runtime.set_thread_count(3)
    assert (a == 1).all()
    timer.join()


# ---- Kernels


def test_the_program_goes_on(monkeypatch):
    gate = Gate(monkeypatch)
    x = Float(np.linspace(0, 1, 1000))
    y = dr.sin(x) * 1.0625
    dr.eval(y)
    z = dr.cos(y) + 2.0625
    dr.eval(z)
    total = dr.sum(z)
    dr.eval(total)
    assert runtime.completed() < runtime.submitted
    gate.open()
    want = np.cos(np.sin(np.linspace(0, 1, 1000)) * 1.0625) + 2.0625
    np.testing.assert_allclose(z.numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(total.numpy(), [want.sum()], rtol=1e-5)
    assert gate.threads and threading.current_thread() not in gate.threads


def test_effects_and_derivatives_wait_for_their_kernels(monkeypatch):
    gate = Gate(monkeypatch)
    target = dr.zeros(Float, 10)
    index = dr.arange(UInt32, 1000) % 10
    for k in range(5):
        dr.scatter_add(target, Float(k + 0.5), index)
        dr.eval(target)
    x = AdFloat(np.linspace(0, 1, 100))
    dr.enable_grad(x)
    dr.backward(dr.sum(x * x * 0.03125))
    timer = threading.Timer(0.02, gate.open)
    timer.start()
    np.testing.assert_array_equal(target.numpy(), np.full(10, 100 * 12.5))
    np.testing.assert_allclose(x.grad.numpy(), np.linspace(0, 1, 100) * 0.0625, rtol=1e-6)
    timer.join()


def test_an_index_out_of_bounds_is_reported_where_the_result_is_read(monkeypatch):
    gate = Gate(monkeypatch)
    with dr.scoped_set_flag(dr.JitFlag.Debug, False):
        a = dr.gather(Float, Float(1, 2, 3), UInt32(0, 1, 7)) * 1.03125
        dr.eval(a)
        gate.open()
        with pytest.raises(IndexError, match="index 7 is out of bounds"):
            a.numpy()


def test_an_error_is_raised_where_a_result_is_read_and_then_by_each_launch(monkeypatch):
    gate = Gate(monkeypatch, "sinh")
    gate.error = KernelError("LLVM is out of order")
    x = Float(1, 2, 3)
    y = dr.sinh(x) * 1.015625
    dr.eval(y)
    gate.open()
    with pytest.raises(KernelError, match="LLVM is out of order"):
        y.numpy()
    with pytest.raises(KernelError, match="LLVM is out of order"):
        dr.eval(dr.sinh(x) * 1.015625)
    gate.error = None
    np.testing.assert_allclose((dr.sinh(x) * 1.015625).numpy(), np.sinh([1, 2, 3]) * 1.015625, 1e-6)


@pytest.mark.parametrize("flag", ["LaunchBlocking", "KernelHistory"])
def test_flags_under_which_the_caller_compiles(monkeypatch, flag):
    gate = Gate(monkeypatch, "atan")
    gate.open()
    with dr.scoped_set_flag(getattr(dr.JitFlag, flag), True):
        dr.eval(dr.atan(Float(1, 2)) * 1.0078125)
    assert gate.threads == [threading.current_thread()]
    dr.kernel_history()


def test_one_thread_compiles_itself(monkeypatch):
    runtime.set_thread_count(1)
    gate = Gate(monkeypatch, "atan")
    gate.open()
    dr.eval(dr.atan(Float(1, 2)) * 1.00390625)
    assert gate.threads == [threading.current_thread()]


def test_many_kernels_at_once():
    x = np.linspace(0, 1, 1000, dtype="f")
    arrays = [dr.sin(Float(x) * (k + 0.5)) + dr.sqrt(Float(x)) ** (k % 7) for k in range(30)]
    for a in arrays:
        dr.eval(a)
    for k, a in enumerate(arrays):
        want = np.sin(x * np.float32(k + 0.5)) + np.sqrt(x) ** (k % 7)
        np.testing.assert_allclose(a.numpy(), want, rtol=3e-5, atol=1e-5)


def test_threads_launch_what_others_compile(monkeypatch):
    gate, results = Gate(monkeypatch), []

    def work():
        x = Float(1, 2, 3) * 1.001953125
        dr.eval(x)
        results.append(x.numpy())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    gate.open()
    for t in threads:
        t.join(LIMIT)
    np.testing.assert_array_equal(results, [np.float32([1, 2, 3]) * np.float32(1.001953125)] * 4)


def test_threads_that_compile_build_no_syntax_trees(monkeypatch):
    """CPython may raise errors in programs that do so at the same time, see `parsing`."""
    import ast

    made, parse = [], ast.parse

    def noted(*arguments, **options):
        if locks.is_own_thread():
            made.append(arguments[0])
        return parse(*arguments, **options)

    monkeypatch.setattr(ast, "parse", noted)
    gate = Gate(monkeypatch)
    gate.open()
    x = Float(np.linspace(0, 1, 1000))
    target = dr.zeros(Float, 10)
    dr.scatter_add(target, dr.tanh(x) * 1.0625, UInt32(dr.arange(UInt32, 1000) % 10))
    n = dr.while_loop((UInt32(0), x), lambda i, x: i < 3, lambda i, x: (i + 1, dr.sin(x)))
    dr.eval(dr.sum(n[1]), dr.block_sum(x, 10), dr.cumsum(x), target)
    background.finish()
    assert len(gate.threads) >= 3 and not made


# ---- Variants


@pytest.fixture
def one(monkeypatch):
    """Evaluates a small kernel; returns it and its result."""
    monkeypatch.setattr(variants, "pinned", "auto")
    monkeypatch.setattr(variants, "LOAD", 0.0)
    monkeypatch.setattr(variants, "FIRST_LOAD", 0.0)
    monkeypatch.setattr(variants, "COMPILE_BASE", -1e9)
    dr.flush_kernel_cache()
    x = Float(np.linspace(0.1, 1, 1000))
    y = Float(np.linspace(0.3, 2, 1000))

    def run():
        made = dr.sin(x * y + 2.53125) * dr.rsqrt(x) - x * y
        found = made.numpy()
        (own,) = [k for k in kernel.kernels() if "sin" in k.text]
        return own, found

    return run


@pytest.mark.parametrize("limit", [("HOT_LAUNCHES", 3), ("HOT_SECONDS", 0.0)])
def test_what_is_there_soon_gives_way_to_the_best(one, monkeypatch, limit):
    monkeypatch.setattr(variants, "HOT_SECONDS", 1e9)
    own, want = one()
    background.finish()  # a thread has the kernel run before it notes what the code is
    assert own.address and own.is_baseline and own.state == "memory"
    first = own.address
    one()
    assert own.address == first
    monkeypatch.setattr(variants, *limit)
    for _ in range(80):
        _, found = one()
        assert (found == want).all()
    background.finish()
    assert own.address != first and not own.is_baseline
    _, found = one()
    assert (found == want).all()
    every = variants.candidates(own, variants.compiler_options(), True)
    assert all(cache.has(v.key) for v in every) and len(every) == 2


def test_the_query_for_a_form_reads_nothing(one, monkeypatch):
    own, _ = one()
    again = kernel.CpuKernel(own.text, layout_of(own.program), own.cost, own.program, own.work)
    with monkeypatch.context() as patch:
        patch.setattr(cache, "get", lambda key: pytest.fail("was read"))
        assert again.is_cached()
    again.compile(0)
    assert again.state == "disk" and again.is_baseline


def test_the_disk_cache_has_what_is_there_soon(one):
    own, want = one()
    dr.flush_kernel_cache()
    again, found = one()
    assert again is not own and again.state == "disk" and again.is_baseline
    assert (found == want).all()


def test_much_work_gets_the_best_form_at_once(monkeypatch):
    monkeypatch.setattr(variants, "pinned", "auto")
    dr.flush_kernel_cache()
    dr.eval(dr.cosh(dr.arange(Float, 1 << 20)) * 1.03125)
    dr.sync_thread()
    (own,) = [k for k in kernel.kernels() if "cosh" in k.text or "exp" in k.text]
    assert own.address and not own.is_baseline


# ---- Forks, the end


def run(text, **options):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), DRJIT_TIER="compiled")
    env["DRJIT_NUM_THREADS"] = "2"
    command = [sys.executable, "-c", text]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, **options)


SLOWLY = """
import os, time, threading
import drjit as dr
from drjit.jit.cpu import background, kernel, variants
from drjit.jit.target import simd
from drjit.llvm import Float
compile_ = simd.compile

def slowly(*arguments, **options):
    time.sleep(0.1)
    return compile_(*arguments, **options)

simd.compile = slowly
x = dr.linspace(Float, 0, 1, 1000)
y = dr.sin(x) * 1.25
dr.eval(y)
"""


def test_the_end_waits_for_what_is_being_compiled(tmp_path):
    done = run(SLOWLY)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    done = run(SLOWLY + "dr.sync_thread()\nprint({k.state for k in kernel.kernels()})")
    assert (done.stdout, done.stderr) == ("{'disk'}\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_forks_wait_for_what_is_being_compiled():
    done = run(
        SLOWLY
        + """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of the threads
child = os.fork()
z = dr.cos(y) + 1
dr.eval(z)
line = f"{round(float(dr.sum(y)[0]), 1)} {round(float(dr.sum(z)[0]), 1)}\\n"
os.write(1, line.encode())  # at once, while the other process writes as well
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    )
    assert done.stderr == "" and done.returncode == 0
    first, second = done.stdout.splitlines()
    assert first == second


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_ends_the_wait():
    done = run(
        SLOWLY
        + """
import numpy, signal  # an interrupt in the middle of this import would break it
ended = threading.Event()
def until_the_wait_has_ended(*arguments, **options):
    print(ended.wait(30))
    return compile_(*arguments, **options)
dr.sync_thread()
simd.compile = until_the_wait_has_ended
z = dr.cos(y) + 17
dr.eval(z)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    z.numpy()
except KeyboardInterrupt:
    ended.set()
print(len(z.numpy()))
"""
    )
    assert (done.stdout, done.stderr) == ("True\n1000\n", "")


def test_code_is_freed_when_launches_run_other_code():
    """Freeing it lets other threads run, which may launch the kernel."""
    x = dr.linspace(Float, 0, 1, 100_000)
    dr.eval(x * 1.5 + 0.25)
    dr.sync_thread()
    background.finish()
    (found,) = [k for k in kernel._kernels.values() if k.loaded is not None][-1:]
    code, places = found.loaded, []

    class Old:
        def __del__(self) -> None:
            places.append(found.entry.kernel)

    found.loaded = Old()
    runtime.open_jobs(found.entry, 1, 0)
    found.adopt(kernel.CompiledCode(code, found.state, found.running, 0.0))
    assert places == [code.kernel]
