"""Nothing waits for ever (docs/concurrency.md): finalizers that compute wherever the collector
runs, forks and the end of a process at any moment, threads that record functions at once."""

import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import settle
from native_kernels import address

import drjit as dr
from drjit.ad import graph
from drjit.jit import collector, locks, parsing
from drjit.jit.cpu import background, kernel, launcher, runtime, variants
from drjit.jit.run import cache, schedule
from drjit.jit.target import library, simd
from drjit.jit.target.simd.ir import KernelError
from drjit.llvm import Float, UInt32
from drjit.llvm.ad import Float as AdFloat

LIMIT = 30
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def run(text, *arguments, seconds=LIMIT, **environment):
    """Runs a program in a process with an empty cache, in which a hang shows where it is."""
    head = f"import faulthandler; faulthandler.dump_traceback_later({seconds}, exit=True)\n"
    what = [text] if isinstance(text, Path) else ["-c", head + textwrap.dedent(text)]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, what), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=2 * seconds + LIMIT,
    )
    return done.stdout.strip(), done.stderr.strip(), done.returncode


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "kernels"))


def ends(*work):
    """Calls functions in threads of their own; fails if one of them is stuck, and raises the errors
    of others."""
    errors = []

    def call(f):
        try:
            f()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(f,), daemon=True) for f in work]
    for t in threads:
        t.start()
    for t in threads:
        t.join(LIMIT)
    assert not any(t.is_alive() for t in threads), "stuck"
    if errors:
        raise errors[0]


# ---- Finalizers

PROGRAM = Path(__file__).parents[1] / "support" / "finalizers_program.py"


@pytest.mark.parametrize("tier", ["auto", "compiled"])
def test_finalizers_compute_wherever_the_collector_runs(tier):
    children = 4 if hasattr(os, "fork") else 0
    found = run(PROGRAM, 5, LIMIT, children, DRJIT_TIER=tier, DRJIT_CHECK_LOCKS="1")
    assert found[0].startswith("ok") and found[1:] == ("", 0), found


@pytest.mark.sweep
@pytest.mark.parametrize("tier", ["auto", "compiled"])
@pytest.mark.parametrize("checks", ["0", "1"])
def test_finalizers_compute_for_a_minute(tier, checks):
    children = 50 if hasattr(os, "fork") else 0
    found = run(PROGRAM, 60, LIMIT, children, DRJIT_TIER=tier, DRJIT_CHECK_LOCKS=checks)
    assert found[0].startswith("ok") and found[1:] == ("", 0), found


EVERYWHERE = PROGRAM.with_name("everywhere_program.py")


@pytest.mark.parametrize("native", ["on", "off"])
def test_finalizers_compute_at_some_calls_of_the_package(native):
    found = run(EVERYWHERE, 41, 7, seconds=120, DRJIT_NATIVE=native)
    assert found[0].startswith("ok") and found[1:] == ("", 0), found


@pytest.mark.sweep
@pytest.mark.parametrize("native", ["on", "off"])
def test_finalizers_compute_at_every_call_of_the_package(native):
    found = run(EVERYWHERE, 1, 0, seconds=550, DRJIT_NATIVE=native)
    assert found[0].startswith("ok") and found[1:] == ("", 0), found


def test_finalizers_compute_while_workers_are_started_and_stopped():
    """Whatever call of the launcher's runs a finalizer, what that launches and what is launched
    around it are both done, on one set of workers."""
    text = """
        import os, sys
        import drjit as dr
        from drjit.jit.cpu import launcher, runtime
        from drjit.llvm import Float

        files = {module.__file__ for module in (launcher, runtime)}
        x = dr.arange(Float, 300_000) * dr.opaque(Float, 0.5)  # enough for several workers
        dr.sum(x)[0]

        def compute(scale, left=-1):
            # At the call number `left` that the launcher makes, `act` runs.
            def count(frame, event, arg):
                nonlocal left
                if event in ("call", "c_call") and frame.f_code.co_filename in files:
                    left -= 1
                    if left < 0:
                        sys.setprofile(None)
                        act()

            def act():
                found.append(dr.sum(x * dr.opaque(Float, 3))[0] / 3)

            found = []
            if left >= 0:
                sys.setprofile(count)
            dr.set_thread_count(2 + (scale & 1))
            found.append(dr.sum(x * dr.opaque(Float, scale))[0] / scale)
            sys.setprofile(None)
            return found

        want, number = compute(1)[0], 0
        while len(found := compute(number + 2, number)) == 2:
            assert all(abs(f / want - 1) < 1e-3 for f in found), (number, found, want)
            assert runtime.thread_count() == 2 + (number & 1) == runtime.control().workers, number
            number += 1
        print("ok", number > 30)
    """
    assert run(text, DRJIT_TIER="compiled", DRJIT_CHECK_LOCKS="1") == ("ok True", "", 0)


def test_no_finalizer_runs_in_a_thread_of_the_package_at_work(monkeypatch):
    """The thread that writes the disk cache pauses the collector each time. A collection may run
    on the way there, in this thread: its finalizers must be free to evaluate."""
    seen = []

    def see(what):
        if threading.current_thread() is thread:  # others pause the collector as well
            seen.append((what, locks.is_own_thread()))

    class Paused(collector.paused):
        def __enter__(self):
            see("before")
            super().__enter__()

        def __exit__(self, *error):
            super().__exit__(*error)
            see("after")

    monkeypatch.setattr(cache, "_writer", writer := threading.Lock())
    monkeypatch.setattr(cache, "DELAY", 0)
    monkeypatch.setattr(collector, "paused", Paused)
    write = cache.write_pending
    monkeypatch.setattr(cache, "write_pending", lambda: (see("at work"), write()))
    writer.acquire()
    thread = threading.Thread(target=cache._write_later, args=(writer,), daemon=True)
    thread.start()
    thread.join(LIMIT)
    # There are more rounds if other threads add entries meanwhile.
    assert seen[:3] == [("before", False), ("at work", True), ("after", False)]


def test_a_pause_ends_where_an_interrupt_comes_before_its_end(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    x = dr.arange(Float, 100)
    monkeypatch.setattr(collector.paused, "__exit__", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dr.eval(dr.sin(x * 0.25) / (x + 3))  # a new program
    with pytest.raises(KeyboardInterrupt):
        dr.while_loop((x,), lambda x: x < 5, lambda x: (x + 2,))
    monkeypatch.undo()
    settle()
    with collector.paused():
        assert len(collector.pauses) == 1
    assert not collector.pauses and gc.get_threshold()[0] != collector.PAUSED
    assert dr.eval(dr.sin(x * 0.25) / (x + 3))


@pytest.mark.parametrize("change", [collector.defer, collector.resume])
def test_a_pause_by_another_thread_while_the_threshold_changes(change, monkeypatch):
    """Python may run another thread between any two calls."""

    class Gc:
        """The module, in which a pause begins once the thresholds have been read."""

        def __getattr__(self, name):
            return getattr(gc, name)

        def get_threshold(self):
            found = gc.get_threshold()
            if not collector.pauses:
                monkeypatch.setattr(collector, "gc", gc)
                collector.pause(self)
            return found

    settle(collect=False)  # others pause it as well
    before, paused = gc.get_threshold(), Gc()
    try:
        gc.set_threshold(10)
        if change is collector.resume:
            collector.defer()
            assert gc.get_threshold()[0] == collector.DEFERRED_THRESHOLD
        else:
            monkeypatch.setattr(collector, "_restore", lambda: None)
        monkeypatch.setattr(collector, "gc", paused)
        change()
        assert gc.get_threshold()[0] == collector.PAUSED
        monkeypatch.undo()
        collector.end_pause(paused)
        assert gc.get_threshold()[0] == 10
    finally:
        collector.end_pause(paused)
        collector.resume()
        gc.set_threshold(*before)


@pytest.mark.processor
def test_no_finalizer_runs_in_a_thread_that_compiles(monkeypatch):
    """It would wait for what this thread compiles, or for who waits for that."""
    schedule.forget_kernels()
    kernel.forget()
    monkeypatch.setattr(variants, "pinned", "compiled")
    monkeypatch.setattr(runtime, "_thread_count", max(runtime.thread_count(), 2))
    places, compile_ = set(), simd.compile

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            places.add(threading.get_ident())

    compilers = set()

    def with_garbage(*arguments, **options):
        compilers.add(threading.get_ident())
        for _ in range(1000):
            Cycle()
        return compile_(*arguments, **options)

    monkeypatch.setattr(simd, "compile", with_garbage)
    usual = gc.get_threshold()
    gc.set_threshold(10)
    try:
        x = Float(1, 2, 3)
        for k in range(4):
            x = dr.sin(x) * (1.0625 + k)
            dr.eval(x)
        assert len(x.numpy()) == 3
        background.finish()
        while collector.pauses:  # by threads that are about to leave
            time.sleep(1e-3)
        assert gc.get_threshold()[0] == 10
    finally:
        gc.set_threshold(*usual)
    gc.collect()
    assert places and compilers and threading.get_ident() not in compilers
    assert not places & compilers


def test_garbage_is_collected_while_threads_compile(monkeypatch):
    """By the threads of the program, when they evaluate."""
    opened, gone = threading.Event(), []

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            gone.append(self)

    dr.eval(Float(1, 2) * 3)
    task = background.submit(lambda: opened.wait(LIMIT))
    try:
        for _ in range(
            2 * collector.DEFERRED_THRESHOLD
        ):  # also if an earlier test has deferred the collector
            Cycle()
        assert not gone
        dr.eval(Float(1, 2, 3) * 3 + 2)
        assert gone
    finally:
        opened.set()
        task.wait()


def test_the_threshold_of_the_program_wins(monkeypatch):
    usual = gc.get_threshold()
    try:
        with collector.paused():
            with collector.paused():
                assert gc.get_threshold()[0] == collector.PAUSED and gc.isenabled()
            assert gc.get_threshold()[0] == collector.PAUSED
            gc.set_threshold(123)
        assert gc.get_threshold()[0] == 123
        gc.set_threshold(0)
        with collector.paused():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*usual)


def test_a_finalizer_records_while_the_list_of_variables_is_made_shorter():
    def with_finalizer():
        x = AdFloat(1, 2, 3)
        dr.enable_grad(x)
        y = x * 2
        graph.compact()
        made.append(y)
        return

    made = []
    graph._tape.insert(0, with_finalizer)
    ends(graph.compact)
    assert len(made) == 1 and with_finalizer not in graph._tape
    assert dr.grad_enabled(made[0]) and not graph._compacting


def test_a_finalizer_needs_the_library_while_it_is_read(monkeypatch):
    monkeypatch.setattr(library, "_unread", ["common", *dict.fromkeys(library.MODULES.values())])
    monkeypatch.setattr(library, "_functions", {})
    monkeypatch.setattr(library, "_constants", {})
    parse, found = parsing.syntax_tree, []

    def with_finalizer(text):
        if not found:
            found.append(None)
            found[0] = library.function("sin", "f32")
        return parse(text)

    monkeypatch.setattr(parsing, "syntax_tree", with_finalizer)
    ends(library.definitions)
    assert library.function("sin", "f32") is found[0] and not library._unread


@pytest.mark.processor
def test_a_finalizer_launches_while_a_job_is_queued(monkeypatch):
    """Memory of both is kept until their own jobs are complete."""
    monkeypatch.setattr(variants, "pinned", "compiled")
    runtime.sync()
    x = dr.linspace(Float, 0, 1, 500_000)
    dr.eval(x)
    first = dr.sin(x) * 1.5
    dr.eval(first)
    post, inner = runtime._native.post, []

    def with_finalizer(*arguments):
        if not inner:
            inner.append(None)
            inner[0] = dr.cos(x) * 2.5
            dr.eval(inner[0])
            tickets.append([e[0] for e in runtime.unfinished])
        return post(*arguments)

    tickets = []
    monkeypatch.setattr(runtime._native, "post", with_finalizer)
    outer = dr.tan(x) * 3.5
    ends(lambda: dr.eval(outer))
    submitted = runtime._control.submitted
    assert runtime.submitted == submitted
    waiting = [e[0] for e in list(runtime.unfinished)]
    assert waiting == sorted(waiting) and len(set(waiting)) == len(waiting)
    values = np.linspace(0, 1, 500_000)
    np.testing.assert_allclose(outer.numpy(), np.tan(values) * 3.5, rtol=1e-5)
    np.testing.assert_allclose(inner[0].numpy(), np.cos(values) * 2.5, rtol=1e-5)


@pytest.mark.processor
@pytest.mark.parametrize("wrong", [False, True])
def test_a_finalizer_launches_what_is_over_before_a_job_is_queued(wrong, monkeypatch):
    """Both jobs were to have the same ticket: what the other one keeps stays, and its check is
    called when it is over."""
    monkeypatch.setattr(variants, "pinned", "compiled")
    runtime.sync()
    x, index = dr.linspace(Float, 0, 1, 500_000), dr.arange(UInt32, 500_000)
    dr.eval(x, index)
    dr.eval(dr.gather(Float, x, index) * 1.75, dr.sin(x) * 1.25)
    runtime.sync()
    outer, inner, post = dr.gather(Float, x, index + int(wrong)) * 1.75, [], runtime._native.post

    def with_finalizer(*arguments):
        if not inner:
            inner.append(None)
            inner[0] = dr.sin(x) * 1.25
            dr.eval(inner[0])
            runtime.drain()
        return post(*arguments)

    monkeypatch.setattr(runtime._native, "post", with_finalizer)
    ends(lambda: dr.eval(outer))
    monkeypatch.undo()
    assert runtime._ahead >= 0 and not runtime._posting
    if wrong:
        with pytest.raises(IndexError, match="index 500000 is out of bounds"):
            outer.numpy()
    else:
        values = np.float32(np.linspace(0, 1, 500_000))
        np.testing.assert_allclose(outer.numpy(), values * 1.75, rtol=1e-6)
    runtime.drain()
    assert not runtime.unfinished and runtime._ahead == 0


@pytest.mark.processor
def test_a_kernel_that_turns_out_not_to_compile_while_it_is_launched(monkeypatch):
    """Its job is not left closed, which would hold up all others for ever."""
    monkeypatch.setattr(variants, "pinned", "compiled")
    monkeypatch.setattr(runtime, "_thread_count", max(runtime.thread_count(), 2))

    def fails(*arguments, **options):
        raise KernelError("no such instruction")

    launch = runtime.launch

    def later(*arguments, **options):
        background.finish()  # the compiler is faster
        return launch(*arguments, **options)

    compile_ = simd.compile
    monkeypatch.setattr(simd, "compile", fails)
    monkeypatch.setattr(runtime, "launch", later)
    x = dr.atan(Float(1, 2, 3)) * 1.0234375

    def evaluates():
        with pytest.raises(KernelError, match="no such instruction"):
            dr.eval(x)
            x.numpy()

    ends(evaluates)
    monkeypatch.setattr(simd, "compile", compile_)
    assert (Float(1, 2) + 0.0234375).numpy()[0] == np.float32(1.0234375)


# ---- Threads of the program


def signal():
    """Returns a lock that is held until somebody releases it. Frozen functions take it as it is,
    while the attributes of other objects are inputs."""
    made = threading.Lock()
    made.acquire()
    return made


def test_two_threads_record_functions_at_once():
    """Each is recorded while the other one is."""
    results = {}

    def make(number, mine, other):
        @dr.freeze
        def f(x):
            mine.release()
            y = dr.sin(x) * number + dr.sum(x)
            assert other.acquire(timeout=LIMIT)
            return y

        def call():
            found = [f(Float(1, 2, 3) * k + dr.opaque(Float, 0)).numpy() for k in (1, 2, 5)]
            results[number] = found, f.n_recordings

        return call

    first, second = signal(), signal()
    ends(make(2.0, first, second), make(3.0, second, first))
    for number, (found, recordings) in results.items():
        assert recordings == 1
        for k, values in zip((1, 2, 5), found, strict=True):
            x = np.arange(1, 4) * k
            np.testing.assert_allclose(values, np.sin(x) * number + x.sum(), rtol=1e-5)
    assert not dr.flag(dr.JitFlag.FreezingScope)


def test_two_threads_record_one_function_at_once():
    first, second, sizes = signal(), signal(), {}

    @dr.freeze
    def f(x):
        if len(sizes) < 2:
            sizes[len(x)] = True
            mine, other = (first, second) if len(x) == 10 else (second, first)
            mine.release()
            assert other.acquire(timeout=LIMIT)
        return x * 2 + 1

    results = []

    def call(size):
        results.append((size, f(dr.arange(Float, size) + dr.opaque(Float, 0)).numpy()))

    ends(lambda: call(10), lambda: call(20))
    for size, found in results:
        np.testing.assert_array_equal(found, np.arange(size) * 2 + 1)
    assert f(dr.arange(Float, 10) + dr.opaque(Float, 0))[3] == 7


def test_others_evaluate_while_a_function_is_recorded():
    """They are not part of the recording, and their reads are not refused."""
    inside, done, seen = signal(), signal(), []

    @dr.freeze
    def f(x):
        inside.release()
        assert done.acquire(timeout=LIMIT)
        return x + 1

    def other():
        assert inside.acquire(timeout=LIMIT)
        y = dr.arange(Float, 7) * 3
        seen.append((y[2], len(y), dr.shape(y), type(dr.shape(y)), dr.sum(y)[0]))
        done.release()

    ends(lambda: f(Float(1, 2)), other)
    assert seen == [(6, 7, (7,), tuple, 63)]
    assert f(Float(5, 6))[1] == 7 and f.n_recordings == 1


def test_a_lock_of_the_program_in_a_frozen_function():
    """One thread has the program's lock and wants to record, the other one records and wants the
    program's lock."""
    own, recording = threading.Lock(), signal()

    @dr.freeze
    def f(x):
        recording.release()
        with own:
            return x * 2

    @dr.freeze
    def g(x):
        return x * 3

    def second():
        with own:
            assert recording.acquire(timeout=LIMIT)
            g(Float(1, 2))

    ends(second, lambda: f(Float(1, 2)))


@pytest.mark.processor
def test_many_launches_wait_when_nothing_is_held(monkeypatch):
    """An evaluation of many kernels waits for the queue after it has released the lock."""
    monkeypatch.setattr(variants, "pinned", "compiled")
    runtime.sync()
    held, await_, entry = [], runtime._await, launcher.JobEntry()

    def noted(ticket):
        held.append(runtime.lock._is_owned())
        runtime.open_jobs(entry, address("add"), 0)
        await_(ticket)

    parts = [dr.sin(dr.arange(Float, 200_000 + k)) for k in range(8)]
    dr.eval(parts)
    runtime.sync()
    monkeypatch.setattr(runtime, "AHEAD_NS", 1)
    monkeypatch.setattr(runtime, "_await", noted)
    values = np.zeros(8, "q")
    words = (ctypes.c_int64 * 3)(values.ctypes.data, values.ctypes.data, 1)
    runtime.launch(entry, words, 8, 64, keep=values)  # which holds up the others
    parts = [dr.sin(dr.arange(Float, 200_000 + k)) for k in range(8)]
    dr.eval(parts)
    monkeypatch.undo()
    assert held and not any(held)
    assert abs(parts[3][5] - np.sin(5)) < 1e-6


# ---- Forks

FORK = """
import os, signal, sys, threading, time
import drjit as dr

def child(compute):
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        os._exit(0 if compute() else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def in_fork(text, **options):
    return run(FORK + textwrap.dedent(text), **options)


@forks
@pytest.mark.parametrize("tier", ["numpy", "compiled"])
def test_a_fork_while_another_thread_evaluates(tier):
    text = """
    from drjit.llvm.ad import Float
    stop = False
    def work():
        k = 0
        while not stop:
            k += 1
            y = x
            for i in range(k % 20 + 10):
                y = dr.fma(y, 0.5 + i, float(k))
            dr.eval(y)
    x = dr.arange(Float, 1000)
    dr.eval(x + 1)
    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.2)
    for _ in range(10):
        child(lambda: dr.sum(dr.arange(Float, 100))[0] == 4950)
    stop = True
    thread.join()
    """
    assert in_fork(text, DRJIT_TIER=tier, DRJIT_NUM_THREADS="2") == ("\n".join("0" * 10), "", 0)


@forks
def test_a_fork_while_another_thread_imports():
    text = """
    begun = threading.Event()
    class Slowly:
        @staticmethod
        def find_spec(name, *_):
            if name == "drjit.nn":
                begun.set()
                time.sleep(0.5)
    sys.meta_path.insert(0, Slowly)
    thread = threading.Thread(target=lambda: dr.nn)
    thread.start()
    begun.wait()
    child(lambda: dr.nn.Linear)
    thread.join()
    """
    assert in_fork(text) == ("0", "", 0)


@forks
def test_a_fork_waits_for_no_work_that_has_not_begun():
    text = """
    from drjit.jit.cpu import background
    from drjit.llvm import Float
    begun, opened = threading.Event(), threading.Event()
    tasks = [background.submit(lambda: (begun.set(), opened.wait()))]
    tasks += [background.submit(lambda: time.sleep(1000)) for _ in range(3)]
    begun.wait()
    threading.Timer(0.2, opened.set).start()
    child(lambda: dr.sum(dr.arange(Float, 100))[0] == 4950 and not tasks[1].done())
    print(tasks[0].done(), len(background._threads))
    """
    assert in_fork(text, DRJIT_TIER="numpy") == ("0\nTrue 1", "", 0)


@forks
def test_a_child_does_what_has_not_begun():
    text = """
    from drjit.jit.cpu import background
    begun, opened = threading.Event(), threading.Event()
    first = background.submit(lambda: (begun.set(), opened.wait()))
    second = background.submit(lambda: 17)
    begun.wait()  # or the child would begin it, where nothing opens
    threading.Timer(0.2, opened.set).start()
    child(lambda: second.result() == 17)
    print(second.result())
    """
    assert in_fork(text) == ("0\n17", "", 0)


@forks
def test_a_fork_in_a_finalizer():
    text = """
    import gc
    from drjit.llvm import Float
    from drjit.jit.run import schedule
    class Forks:
        def __init__(self): self.me = self
        def __del__(self):
            child(lambda: dr.sum(dr.arange(Float, 100) + 1)[0] == 5050)
    inner = schedule._kernel_for
    def forks(*arguments):  # the lock is held
        schedule._kernel_for = inner
        Forks()
        gc.collect()
        return inner(*arguments)
    schedule._kernel_for = forks
    print((dr.arange(Float, 10) * 3)[3])
    """
    assert in_fork(text) == ("0\n9.0", "", 0)


@forks
@pytest.mark.parametrize("tier", ["numpy", "compiled"])
def test_a_fork_in_an_evaluation(tier):
    """The child goes on in the middle of it, and so does the parent."""
    text = """
    from drjit.llvm import Float
    from drjit.jit.run import schedule
    inner = schedule._kernel_for
    def forks(*arguments):
        global pid
        schedule._kernel_for = inner
        pid = os.fork()
        if pid:
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        else:
            signal.alarm(30)
        return inner(*arguments)
    schedule._kernel_for = forks
    print((dr.arange(Float, 10) * 3)[3], flush=True)
    if not pid:
        os._exit(0)  # the thread that shows a hang is the parent's
    """
    assert in_fork(text, DRJIT_TIER=tier) == ("9.0\n0\n9.0", "", 0)


@forks
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python refuses")
def test_a_fork_at_the_end():
    text = """
    from drjit.jit.cpu import background
    class Forks:
        def __del__(self): child(lambda: True)
    kept = Forks()
    background.submit(threading.Event().wait)
    """
    assert in_fork(text) == ("0", "", 0)


@forks
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_pools_of_processes_while_another_thread_evaluates(method, tmp_path):
    text = """
    import multiprocessing, sys, threading
    import drjit as dr
    from drjit.llvm import Float

    def total(n):
        return dr.sum(dr.arange(Float, n) * float(n))[0]

    if __name__ == "__main__":
        stop = threading.Event()
        def work():
            k = 0
            while not stop.is_set():
                k += 1
                dr.eval(dr.arange(Float, 1000) * float(k) + k)
        thread = threading.Thread(target=work)
        thread.start()
        with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
            print(pool.map(total, [10, 20, 30]))
        stop.set()
        thread.join()
    """
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(text))
    assert run(program, method) == ("[450.0, 3800.0, 13050.0]", "", 0)


# ---- The end


ENDS = """
import threading, time
from drjit.jit.cpu import background
def never():
    threading.Event().wait()
"""


def test_the_end_waits_for_nothing_that_nobody_waits_for():
    text = """
    from drjit.llvm import Float
    import drjit as dr
    for _ in range(3):
        background.submit(never, threads=2)
    print(dr.sum(dr.arange(Float, 10))[0])
    """
    assert run(ENDS + textwrap.dedent(text)) == ("45.0", "", 0)


def test_the_end_finds_a_thread_in_llvm():
    """It goes on there while the interpreter ends; what is buffered is written."""
    text = """
    import ctypes, sys, time
    from drjit.jit import locks
    from drjit.jit.cpu import background
    def long():
        with locks.native_call():
            ctypes.PyDLL(None)  # as if in LLVM
            threading.Event().wait()
    import threading, atexit
    background.submit(long)
    while not locks.in_native:
        time.sleep(0.001)
    sys.stdout.write("x" * 100_000)
    sys.exit(7)
    """
    out, err, status = run(text)
    assert (len(out), err, status) == (100_000, "", 7)


def test_a_large_kernel_does_not_keep_the_process():
    """Only the result is waited for, which NumPy computes."""
    text = """
    import numpy as np
    import drjit as dr
    from drjit.jit.cpu import background, variants
    from drjit.jit.target import simd
    from drjit.llvm import Float
    parts = [Float(k) + dr.arange(Float, 3) for k in range(1000)]
    simd.compile = lambda *_, **__: never()
    print(np.array(dr.concat(parts)).sum())
    assert background._threads
    """
    found = run(ENDS + textwrap.dedent(text), seconds=4 * LIMIT, DRJIT_NUM_THREADS="2")
    assert found == ("1.5015e+06", "", 0)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_at_the_end_shows_no_traceback():
    text = """
    import atexit, os, signal
    from drjit.llvm import Float
    import drjit as dr
    background.submit(never)
    print(dr.sum(dr.arange(Float, 10))[0], flush=True)
    background.END_SECONDS = 30
    begun = threading.Event()
    atexit.register(begun.set)
    def interrupts():
        begun.wait()
        for _ in range(2):
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupts, daemon=True).start()
    """
    assert run(ENDS + textwrap.dedent(text)) == ("45.0", "", 0)


def test_handlers_at_the_end_compute():
    """Those that were registered before the package was imported run after its own."""
    text = """
    import atexit
    def late():
        print(dr.sum(dr.arange(Float, 17) * 2.125)[0], task.done())
        task.wait()
        print(task.done())
    atexit.register(late)
    import drjit as dr
    from drjit.llvm import Float
    dr.eval(dr.arange(Float, 5) * 2)
    background.submit(never)
    task = background.submit(lambda: None)
    """
    text = "from drjit.jit.cpu import background\n" * 0 + textwrap.dedent(text).replace(
        "import drjit as dr\n", "import drjit as dr\n" + ENDS
    )
    out, err, status = run(text, DRJIT_TIER="compiled", DRJIT_NUM_THREADS="2")
    assert (out.splitlines(), err, status) == (["289.0 False", "True"], "", 0)


# ---- The rules


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "background.submit(lambda: locks.lock.acquire()).result()",
            "a thread of the package takes the program's lock, which is held by",
        ),
        ("background.submit(runtime.sync).result()", None),
        (
            "background.submit(lambda: background.submit(int).wait()).result()",
            "a thread of the package waits for a task",
        ),
        (
            "with table._leaf: locks.lock.acquire()",
            "the program's lock is taken while the lock of the classes is held",
        ),
        (
            "with table._leaf: background.submit(int).wait()",
            "a thread waits for a task while the lock of the classes is held",
        ),
        ("with table._leaf, locks.leaf('b'): pass", "b is taken while the lock of the classes"),
        ("with locks.lock, locks.lock, table._leaf: background.submit(int)", None),
        (
            "with table._leaf: import drjit.hashgrid",
            "the lock of the module drjit.hashgrid is taken while the lock of the classes is held",
        ),
    ],
)
def test_a_rule_that_is_broken(code, message):
    text = f"""
    import drjit
    from drjit.array import table
    from drjit.jit import locks
    from drjit.jit.cpu import background, runtime
    try:
        {code}
    except locks.LockError as error:
        print(error)
    """
    out, err, status = run(text, DRJIT_CHECK_LOCKS="1")
    assert (err, status) == ("", 0) and (message in out if message else not out), out


def test_a_module_that_takes_the_lock_when_it_is_imported(tmp_path):
    path = tmp_path / "taker.py"
    path.write_text("from drjit.jit import locks\nlocks.lock.acquire()\n")
    text = f"""
    import drjit, types
    from drjit.jit import locks
    from drjit.jit.run import modules
    try:
        modules._Quiet("drjit.taker", {str(path)!r}).exec_module(types.ModuleType("drjit.taker"))
    except locks.LockError as error:
        print(error)
    """
    out, err, status = run(text, DRJIT_CHECK_LOCKS="1")
    assert (err, status) == ("", 0)
    assert "taken while the lock of the module drjit.taker is held" in out


def test_imports_do_not_take_the_lock():
    """Whoever holds it may be waiting for the import."""
    text = """
    import importlib, pkgutil, drjit
    count = 0
    for m in pkgutil.walk_packages(drjit.__path__, "drjit."):
        if not m.name.endswith("__main__"):
            try:
                importlib.import_module(m.name)
                count += 1
            except ImportError:  # of an optional package
                pass
    print(count > 200)
    """
    assert run(text, DRJIT_CHECK_LOCKS="1")[::2] == ("True", 0)


def test_entries_written_by_two_threads_are_whole(monkeypatch):
    """The one that ends the process does not wait for the other one."""
    monkeypatch.setattr(cache, "DELAY", 0.0)
    for k in range(20):
        cache.put(f"{k:040x}", "text", b"code" * 1000, False)
    ends(cache.write_pending, cache.write_pending)
    assert not cache._pending
    assert all(cache.get(f"{k:040x}").code == b"code" * 1000 for k in range(20))


def test_a_search_for_objects_leaves_tuples_of_other_threads_alone():
    """`tuple` fails if anything else refers to the tuple that it is filling."""
    text = """
    import sys, threading
    others, failed, over = [[k] for k in range(100_000)], [], threading.Event()
    def fill():
        while not (over.is_set() or failed):
            try:
                tuple(k for k in range(300))
            except SystemError as error:
                failed.append(error)
    thread = threading.Thread(target=fill)
    thread.start()
    import drjit as dr
    from drjit.ad import graph
    from drjit.jit import collector
    from drjit.llvm.ad import Float
    x = Float(1, 2)
    dr.enable_grad(x)
    dr.whos(as_string=True)
    sys.setswitchinterval(1e-4)
    for _ in range(20):
        assert x._var in graph._find_variables()[0]
        collector._some_have_finalizers([*map(type, collector.every_object())])
    over.set()
    thread.join()
    print(failed)
    """
    assert run(text)[::2] == ("[]", 0)
