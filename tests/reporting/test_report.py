"""What a report has: events, launches, the lines behind kernels; from programs of all kinds."""

import json
import os
import subprocess
import sys
import threading
import weakref
from collections import Counter

import numpy as np
import pytest

import drjit as dr
from drjit.jit import flags
from drjit.jit.cpu import kernel, memory, runtime
from drjit.jit.run import events
from drjit.llvm.ad import Float, UInt
from drjit.reporting import recorder

KINDS = {"trace", "schedule", "compile", "load", "wait", "kernel", "traverse"}
HERE = __file__


def check(data: dict) -> None:
    """Everything refers to something, and times add up."""
    assert json.loads(json.dumps(data)) == data
    end = data["program"]["seconds"] * 1e6 + 1
    assert data["events"] == sorted(data["events"], key=lambda e: (e[2], -e[3]))
    busy: Counter = Counter()
    for kind, thread, start, last, place, ref, text in data["events"]:
        assert kind in KINDS and isinstance(text, str)
        assert 0 <= thread < len(data["threads"]) and 0 <= place < len(data["places"])
        assert -1 <= ref < len(data["kernels"]) and 0 <= start <= last <= end
        if kind == "kernel":
            busy[ref] += last - start
    for k, entry in enumerate(data["kernels"]):
        assert len(entry["text"]) == len(entry["places"])
        assert sum(count for _, count in entry["sizes"]) == entry["launches"]
        joined = any("were joined" in note for note in data["program"]["notes"])
        assert (
            joined or busy[k] <= len(data["threads"]) * entry["seconds"] * 1e6 + entry["launches"]
        )
    assert all(path in data["files"] for path, *_ in data["places"][1:])
    assert [t for t, _ in data["memory"]] == sorted(t for t, _ in data["memory"])


def lines_of(data: dict, entry: dict) -> dict[str, str]:
    """The line of the program behind each statement of a kernel."""
    found = {}
    for text, place in zip(entry["text"], entry["places"], strict=True):
        path, line, _ = data["places"][place]
        found[text.strip()] = data["files"][path][line - 1].strip() if path else ""
    return found


def test_each_launch_and_its_lines(tier: str) -> None:
    x = dr.opaque(Float, 2, 1000)
    with dr.report() as r:
        y = dr.square(x)  # first
        z = y + 4  # second
        dr.eval(z)
    data = r.data()
    check(data)
    (entry,) = data["kernels"]
    assert entry["launches"] == 1 and entry["sizes"] == [[1000, 1]]
    assert entry["tier"] == tier and entry["seconds"] > 0 and entry["device"] == "LLVM"
    assert entry["title"].startswith("test_report.py:") and "test_each_launch" in entry["title"]
    found = lines_of(data, entry)
    assert found["v0 = x0 * x0"] == "y = dr.square(x)  # first"
    assert found["v1 = v0 + c0"] == "z = y + 4  # second"
    assert found["store(f32, p[3], i, v1)"] == "z = y + 4  # second"
    kinds = Counter(e[0] for e in data["events"])
    assert kinds["schedule"] == kinds["kernel"] == kinds["trace"] == 1
    assert next(e for e in data["events"] if e[0] == "trace")[6].endswith("operations")
    assert data["program"]["ended"] == "completed" and not data["program"]["notes"]


def test_texts_are_those_without_a_report() -> None:
    def program(x: Float) -> Float:
        s, c = dr.sincos(x)
        return dr.select(s > c, s * 2, dr.cos(x) + dr.sin(x * 3))

    x = dr.opaque(Float, 2, 100)
    text = str(dr.kernel_source(program(x)))
    before = len(kernel.kernels())
    dr.eval(program(x))
    with dr.report() as r:
        for _ in range(3):
            dr.eval(program(x))
    (entry,) = r.data()["kernels"]
    assert "\n".join(entry["text"]) == text.rstrip("\n") and len(kernel.kernels()) == before
    assert not any("#" in line for line in entry["text"])
    # Of a kernel that was known before as well.
    assert any(entry["places"]) and entry["launches"] == 3


@dr.syntax
def loop(x: Float, n: int) -> Float:
    i = UInt(0)
    while i < n:
        if x > 1:
            x *= 0.5
        else:
            x += 1
        i += 1
    return x


def test_lines_of_loops_and_calls() -> None:
    with dr.report() as r:
        x = loop(dr.arange(Float, 100) + 0.5, 3)
        index = dr.arange(UInt, 100) % 2
        y = dr.switch(index, [lambda x: x * 2, lambda x: x * 3], x)
        dr.eval(y)
        total = dr.sum(y * y)
        assert total[0] > 0
    data = r.data()
    check(data)
    found = {}
    for entry in data["kernels"]:
        found |= lines_of(data, entry)
    assert {"x *= 0.5", "x += 1", "while i < n:", "total = dr.sum(y * y)"} <= set(found.values())
    assert any("lambda x: x * 2" in line for line in found.values())


def test_labels_are_names() -> None:
    with dr.report() as r:
        x = dr.opaque(Float, 2, 100)
        y = x + 1
        dr.set_label(y, "shifted")
        dr.eval(y * 2)
    assert "shifted" in r.data()["kernels"][0]["names"].values()


def test_the_history_is_there_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")
    x = dr.opaque(Float, 2, 10_000)
    dr.kernel_history_clear()
    with dr.report() as r, dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        for k in range(3):
            dr.eval(x * (k + 2))
            dr.eval(dr.cumsum(x))
        history = dr.kernel_history()
    data = r.data()
    check(data)
    assert sum(e["launches"] for e in data["kernels"]) >= len(history) == 6
    own = next(e for e in data["kernels"] if e["name"] == "k" + history[0]["hash"])
    seconds = sum(h["execution_time"] for h in history if "k" + h["hash"] == own["name"]) * 1e-3
    assert own["seconds"] == pytest.approx(seconds, rel=1e-3, abs=1e-9)
    assert any("BlockPrefixReduce" in e["title"] for e in data["kernels"])


def test_workers_and_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")
    before = runtime.thread_count()
    runtime.set_thread_count(2)
    try:
        with dr.report() as r:
            x = dr.arange(Float, 1 << 20)
            dr.eval(dr.sin(dr.cbrt(x) - dr.lgamma(x + 1)))  # which no other test compiles
            dr.sync_thread()
            for _ in range(2):  # once it is compiled, the second one runs in this thread
                dr.eval(dr.arange(Float, 50) + 1)
                dr.sync_thread()
    finally:
        runtime.set_thread_count(before)
    data = r.data()
    check(data)
    names = data["threads"]
    assert names[0] == "main" and names[-2:] == ["worker 1", "worker 2"]
    rows = {e[1] for e in data["events"] if e[0] == "kernel"}
    assert 0 in rows and rows & {len(names) - 2, len(names) - 1}
    large = next(e for e in data["kernels"] if e["sizes"][0][0] == 1 << 20)
    compiled = next(e for e in data["events"] if e[0] in ("compile", "load") and e[5] >= 0)
    assert names[compiled[1]].startswith("compiler") and compiled[4] > 0
    assert large["compile_seconds"] > 0
    assert any(e[0] == "wait" for e in data["events"])


def test_kernels_know_their_times_while_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has a baseline optimized, and tells how long queued work takes."""
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")
    with dr.report():
        for _ in range(3):
            dr.eval(dr.arange(Float, 777) * 3.25)
        dr.sync_thread()
    (own,) = [k for k in kernel.kernels() if k.clock.launches == 3 and k.program is not None][-1:]
    assert own.clock.total > 0 and own.mean_time > 0


def test_lines_are_noted_until_kernels_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """If that has taken all the time that it may take."""
    monkeypatch.setattr(recorder, "_FREE_SECONDS", 0)
    monkeypatch.setattr(recorder, "_SHARE", 0)
    x = dr.opaque(Float, 2, 100)
    with dr.report() as r:
        noted = []
        for _ in range(6):
            dr.eval(x * 1.5 + 2)
            noted.append(flags.lines_are_noted)
        dr.eval(dr.sqrt(x) - 1)  # its nodes are not noted
        dr.eval(x * 1.5 + 2)
        again = flags.lines_are_noted
        dr.eval(dr.sqrt(x) - 1)
    assert noted == [True, True, True, False, False, False] and again
    assert all(any(e["places"]) for e in r.data()["kernels"])
    assert not flags.lines_are_noted and "__init__" not in vars(events.Node)


def test_derivatives_are_events() -> None:
    x = dr.opaque(Float, 2, 100)
    dr.enable_grad(x)
    with dr.report() as r:
        dr.backward(dr.sum(x * x))
        dr.eval(x.grad)
    (event,) = [e for e in r.data()["events"] if e[0] == "traverse"]
    assert event[6].startswith("Backward, ")


@pytest.mark.parametrize("size", [100, 100_000])
def test_frozen_functions(size: int) -> None:
    @dr.freeze
    def step(x: Float, k: Float) -> Float:
        return dr.sin(x) * k

    x = dr.opaque(Float, 0.5, size)
    calls = 80  # native code replays small ones then
    expected = np.sin(np.float32(0.5))
    with dr.report() as r:
        values = [step(x, Float(k))[0] for k in range(calls)]
    data = r.data()
    check(data)
    np.testing.assert_allclose(values, expected * np.arange(calls), rtol=1e-5)
    assert step.n_recordings == 2  # in the second one, the factor is data
    modes: Counter = Counter()
    for entry in data["kernels"]:
        modes.update(entry["modes"])
    assert modes["Recorded"] >= 1 and modes["Replayed"] == calls - modes["Recorded"]
    assert any("frozen" in e[6] for e in data["events"])
    assert step(x, Float(2))[0] == pytest.approx(2 * expected)  # the fast path again
    assert step.n_recordings == 2


def test_threads_of_the_program() -> None:
    together = threading.Barrier(2)

    def work(k: int) -> None:
        together.wait()
        dr.eval(dr.arange(Float, 100) * k)

    with dr.report() as r:
        threads = [threading.Thread(target=work, args=(k,), name=f"part {k}") for k in (2, 3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    data = r.data()
    check(data)
    rows = {data["threads"][e[1]] for e in data["events"] if e[0] == "schedule"}
    assert rows == {"part 2", "part 3"}
    assert sum(e["launches"] for e in data["kernels"]) == 2


@pytest.mark.parametrize(
    "error, ended",
    [
        (ValueError("no"), "failed"),
        (KeyboardInterrupt(), "interrupted"),
        (SystemExit(0), "completed"),
    ],
)
def test_programs_that_end_early(error: BaseException, ended: str, tmp_path) -> None:
    r = dr.report()
    with pytest.raises(type(error)), r:
        dr.eval(dr.arange(Float, 100) + 2)
        raise error
    data = r.data()
    check(data)
    assert data["program"]["ended"] == ended and len(data["kernels"]) == 1
    assert ("raise error" in data["program"]["error"]) == (ended != "completed")
    r.save(tmp_path / "run.json")
    assert events.sink is None and not dr.flag(dr.JitFlag.Record)


def test_what_cannot_be_done(tmp_path) -> None:
    r = dr.report()
    assert repr(r) == "<drjit report, not recorded>"
    with r:
        assert repr(r) == "<drjit report, recording>"
        with pytest.raises(
            RuntimeError, match=r"recorded already \(.*test_report.py:\d+ in test_what"
        ):
            dr.report().start()
        with pytest.raises(RuntimeError, match="nothing yet"):
            r.data()
    with pytest.raises(RuntimeError, match="recorded before"):
        r.start()
    with pytest.raises(ValueError, match=r"as .html or .json, not 'run.txt'"):
        r.save(tmp_path / "run.txt")
    r.stop()  # is over
    assert not list(tmp_path.iterdir())


def test_an_error_in_a_kernel_is_raised_where_its_result_is_read() -> None:
    with dr.report() as r:
        x = dr.gather(Float, dr.opaque(Float, 1, 10), dr.arange(UInt, 12))
        dr.eval(x)
    assert r.data()["program"]["ended"] == "completed"
    with pytest.raises(IndexError, match="index 10 is out of bounds"):
        print(x)


def test_nothing_is_kept_alive() -> None:
    with dr.report() as r:
        x = dr.arange(Float, 1 << 20) + 1
        dr.eval(x)
        gone = weakref.ref(x._node)
        dr.sync_thread()
        before = memory.usage.in_use
        del x
        assert gone() is None and memory.usage.in_use < before
    assert max(n for _, n in r.data()["memory"]) >= 1 << 22


def test_there_are_not_too_many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "MOST_EVENTS", 100)
    monkeypatch.setattr(recorder, "MOST_SAMPLES", 20)
    monkeypatch.setattr(recorder, "_PENDING", 16)
    monkeypatch.setattr(recorder, "_DETAIL", 5)
    x = dr.opaque(Float, 2, 10)
    count = 300
    with dr.report() as r:
        for k in range(count):
            dr.eval(x + k)
    data = r.data()
    check(data)
    assert len(data["events"]) <= 100 and len(data["memory"]) <= 21
    assert any("short events were joined" in note for note in data["program"]["notes"])
    assert any("events" in e[6] for e in data["events"])
    assert sum(e["launches"] for e in data["kernels"]) == count


def test_it_is_shown_in_a_few_lines() -> None:
    with dr.report() as r:
        for k in range(7):
            dr.eval(dr.arange(Float, 100 + k) ** (k + 3) * k)
    lines = repr(r).split("\n")
    assert lines[0].endswith(", completed") and "compiling" in lines[1] and "waiting" in lines[1]
    kernels = len(r.data()["kernels"])
    assert len(lines) == 2 + min(kernels, 5) + (kernels > 5)
    assert "test_report.py:" in lines[2]


def test_off_it_is_not_there() -> None:
    assert events.sink is None and not flags.current & flags.JitFlag.Record
    dr.set_flag(dr.JitFlag.Record, True)  # alone it changes nothing
    try:
        dr.eval(dr.arange(Float, 1000) * 7)
        assert dr.arange(Float, 3)[2] == 2
    finally:
        dr.set_flag(dr.JitFlag.Record, False)


GPU = """
import drjit as dr, json
from drjit.cuda.ad import Float
with dr.report() as r:
    x = dr.arange(Float, 1000)
    dr.eval(x * 2)
    y = dr.sum(x + 1)
    assert y[0] == 500500
print(json.dumps(r.data()))
"""


def test_the_emulated_gpu() -> None:
    environment = {**os.environ, "DRJIT_CUDA": "emulated", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", GPU], env=environment, capture_output=True, text=True, check=True
    )
    data = json.loads(done.stdout)
    check(data)
    assert data["program"]["device"] == "CUDA (emulated)" and "GPU (CUDA)" in data["threads"]
    assert "emulated" in data["program"]["notes"][0]
    assert all(e["device"] == "CUDA" and e["launches"] for e in data["kernels"])
    kinds = {e[0] for e in data["events"]}
    assert kinds >= {"compile", "kernel", "schedule"} or kinds >= {"load", "kernel", "schedule"}
