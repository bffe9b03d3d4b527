"""Progress of long work: shown where somebody watches, true, and gone afterwards."""

import re
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

import drjit as dr
from drjit.jit import flags, progress
from drjit.jit.cpu import background
from drjit.llvm import Float, ad


@pytest.fixture
def soon(monkeypatch):
    """Work is long at once; a function waits until something has been shown. What earlier tests
    have had compiled in the background is over."""
    background.finish()
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "PERIOD", 0.001)
    monkeypatch.setattr(flags, "current", flags.current | dr.JitFlag.Progress)
    monkeypatch.setattr(flags, "progress", "1")
    shown = []

    class Watched(progress._Lines):
        def show(self, tasks):
            shown.append(progress._joined(tasks))

        def close(self):
            shown.append("closed")

    monkeypatch.setattr(progress, "_display", Watched)

    def wait(text: str) -> None:
        end = time.monotonic() + 20
        while not any(text in s for s in shown) and time.monotonic() < end:
            time.sleep(0.001)

    wait.shown = shown
    return wait


def threads():
    """Returns the threads, except for those in which kernels of other tests are compiled and
    written to the cache."""
    return {t for t in threading.enumerate() if not t.name.startswith("drjit-c")}


@pytest.fixture
def clock(monkeypatch):
    """What the time of tasks is measured with."""
    clock = SimpleNamespace(now=100.0)
    clock.perf_counter = lambda: clock.now
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_short_work_shows_nothing_and_leaves_no_thread(capsys, monkeypatch):
    background.finish()  # what earlier tests have had compiled would be shown as well
    monkeypatch.setattr(flags, "progress", "1")
    monkeypatch.setattr(flags, "current", flags.current | dr.JitFlag.Progress)
    before = threads()
    with progress.Task("work", 3, "steps") as task:
        task.done += 1
    assert threads() <= before and not progress._running
    assert capsys.readouterr() == ("", "")


def test_nothing_is_started_where_nobody_watches(monkeypatch):
    def started(*_, **__):
        raise AssertionError

    monkeypatch.setattr(progress._thread, "start_new_thread", started)
    monkeypatch.setattr(flags, "progress", "auto")
    with progress.Task("work"):
        pass
    monkeypatch.setattr(flags, "progress", "1")
    with dr.scoped_set_flag(dr.JitFlag.Progress, False), progress.Task("work"):
        pass


def test_tasks_within_tasks(soon):
    with progress.Task("outer", 2000, "steps") as outer:
        outer.done = 1234
        soon("outer: 1,234 of 2,000 steps, 0:0")
        with pytest.raises(KeyboardInterrupt):
            with progress.Task("inner"):
                soon("outer: 1,234 of 2,000 steps, 0:00 · inner, 0:00")
                raise KeyboardInterrupt
        soon.shown.clear()
        soon("outer")
        assert not any("inner" in s for s in soon.shown)
    assert soon.shown[-1] == "closed" and not progress._running


def test_work_of_other_threads_is_not_shown(soon):
    def work():
        with progress.Task("elsewhere"):
            assert not progress._running

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert soon.shown == []


def test_check_grad_counts_the_calls_of_the_function(soon):
    calls = []

    def f(x):
        soon(f"dr.check_grad(): {len(calls)} of 10 calls")
        calls.append(x)
        return dr.sin(x)

    assert dr.check_grad(f, ad.Float64(0.1, 0.2, 0.3))
    assert len(calls) == 10
    for k in range(10):
        assert any(f"dr.check_grad(): {k} of 10 calls, 0:0" in s for s in soon.shown)


@pytest.mark.processor
def test_recordings_and_compilations_say_what_they_do(soon, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")
    from drjit.jit.target import simd

    compile_text = simd.compile

    def slowly(*args, **options):
        soon("compiling")
        return compile_text(*args, **options)

    monkeypatch.setattr(simd, "compile", slowly)

    @dr.freeze
    def frozen(x):
        soon("recording")
        return dr.sin(x) * 1.25 + dr.cos(x + 17)  # a kernel that no other test has

    frozen(dr.arange(Float, 100))
    dr.sync_thread()
    texts = r"recording dr\.freeze\(.*frozen\), 0:00", r"compiling kernel k\w+ \(\d+ statements\)"
    assert all(any(re.search(t, s) for s in soon.shown) for t in texts), soon.shown
    assert soon.shown[-1] == "closed"


def test_lines_come_at_growing_intervals(capsys, clock):
    lines = progress._Lines()
    task = progress.Task("work", 10, "steps")
    task.start = clock.now - 3
    for _ in range(5):
        lines.show([task])
    task.start -= 65
    lines.show([task])
    assert capsys.readouterr().err.splitlines() == [
        "drjit: work: 0 of 10 steps, 0:03",
        "drjit: work: 0 of 10 steps, 1:08",
    ]


@pytest.mark.parametrize("total", [None, 10])
@pytest.mark.parametrize("installed", [True, False])
def test_terminals(capsys, monkeypatch, clock, installed, total):
    if installed:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    bar = progress._Bar()
    task = progress.Task("work", total, "steps")
    task.start = clock.now - 3
    before = threads()
    bar.show([task])
    task.done = 4
    bar.show([task])
    bar.close()
    assert threads() <= before
    written = capsys.readouterr().err
    assert "work" in written and ("10" in written) == (total is not None)
    assert "0:03" in written
    assert written.rpartition("\r")[2].strip("\x1b[K ") == ""  # the line is empty again


def test_a_terminal_that_is_gone_does_not_end_the_work(soon, monkeypatch):
    class Gone(progress._Lines):
        def show(self, tasks):
            soon.shown.append("tried")
            raise OSError

    monkeypatch.setattr(progress, "_display", Gone)
    with progress.Task("work"):
        soon("tried")
    assert not progress._running


def test_the_environment_decides(monkeypatch):
    code = "import drjit as dr; print(dr.flag(dr.JitFlag.Progress))"

    def run(wish):
        monkeypatch.setenv("DRJIT_PROGRESS", wish)
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert run("0").stdout == "False\n" and run("1").stdout == run("").stdout == "True\n"
    assert "DRJIT_PROGRESS='2': expected one of auto, 0, 1" in run("2").stderr
