"""The kernel cache on disk, and the log."""

import errno
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import standing_still

import drjit as dr
from drjit.jit import log, processor
from drjit.jit.cpu import background, interpreted, kernel, variants
from drjit.jit.run import cache, schedule
from drjit.jit.target import simd
from drjit.jit.text import program, structure
from drjit.llvm import Float, Float16, Float64, UInt32
from drjit.llvm.ad import Float as AdFloat

in_the_background = pytest.mark.skipif(
    os.environ.get("DRJIT_COMPILER") == "numba", reason="Numba compiles in the caller"
)


A, B, C = (letter * 40 for letter in "abc")  # keys


@pytest.fixture(autouse=True)
def where(tmp_path, monkeypatch):
    """Where entries are: in a subfolder of the folder that a user names. They are written at once,
    as a thread might do it while a test changes files."""
    monkeypatch.setattr(cache, "_at_once", True)
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setattr(cache, "_complained", False)
    monkeypatch.setattr(cache, "_is_lost", False)
    monkeypatch.setattr(cache, "_puts", 0)
    return tmp_path / "kernels" / cache._FOLDER


def entry_of(key):
    """Returns an entry as the disk has it."""
    cache.write_pending()
    return cache.get(key)


def test_entries_come_back(where):
    assert cache.get(A) is None
    cache.put(A, "def kernel(i, p): ...  # ä", b"\0code\xff", True)
    cache.put(B, "", b"", False)
    for get in (cache.get, entry_of):
        assert get(A) == ("def kernel(i, p): ...  # ä", b"\0code\xff", True)
        assert get(B) == ("", b"", False)
    info = cache.info()
    assert (info["folder"], info["entries"]) == (str(where), 2)
    assert info["bytes"] == sum(file.stat().st_size for file in where.iterdir())
    cache.flush()
    assert cache.get(A) is None
    assert cache.info()["entries"] == 0


def test_entries_are_written_together_after_a_while(where, monkeypatch):
    monkeypatch.setattr(cache, "_at_once", False)
    now, write_pending = threading.Event(), cache.write_pending
    monkeypatch.setattr(cache, "DELAY", 0.0)
    monkeypatch.setattr(cache, "write_pending", lambda: (now.wait(60), write_pending()))
    cache.put(A, "text", b"old", False)
    cache.put(A, "text", b"code", False)
    cache.put(B, "text", b"code", False)
    assert cache.get(A).code == b"code" and cache.has(A) and not cache.has(C)
    assert not list(where.iterdir())
    now.set()
    deadline = time.monotonic() + 60
    while cache._pending and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(file.stem for file in where.iterdir()) == [A, B]
    assert cache.get(A).code == b"code"


def test_one_thread_writes_however_slow_it_is(where, monkeypatch):
    """Threads that write the same entries slow each other down, until nothing else happens."""
    monkeypatch.setattr(cache, "_at_once", False)
    writers, written, wait = [], [], threading.Event()
    write = cache.write

    def slow(path, data):
        writers.append(threading.get_ident())
        assert wait.wait(60)
        written.append(Path(path).stem)
        return write(path, data)

    cache.write_pending()
    with cache._writer:  # no thread is about to write
        pass
    monkeypatch.setattr(cache, "DELAY", 0.01)
    monkeypatch.setattr(cache, "write", slow)
    names = [f"{k:040x}" for k in range(20)]
    for name in names:
        cache.put(name, "text", b"code", False)
        time.sleep(0.02)
    deadline = time.monotonic() + 60
    while not writers and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(set(writers)) == 1 and len(cache._pending) == 20
    wait.set()
    deadline = time.monotonic() + 60
    while cache._pending and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(written) == names and len(set(writers)) == 1


def test_no_thread_is_needed(where, monkeypatch):
    def refused(*_):
        raise RuntimeError("can't start new thread")

    cache.write_pending()
    monkeypatch.setattr(cache._thread, "start_new_thread", refused)
    monkeypatch.setattr(cache, "_writer", threading.Lock())
    cache.put(A, "text", b"code", False)
    assert (where / f"{A}.kernel").exists()


ENDS = {
    "at its end": "put('a')",
    "with an error": "put('a'); 1 / 0",
    "with a thread that goes on": "threading.Timer(0.5, put, ['a']).start()",
    "at the end of a handler": "import atexit; atexit.register(put, 'a')",
    "as a forked process": "put('b')\nif not os.fork(): put('a'); os._exit(0)\nos.wait()",
    "with a forked process": "put('a')\nif not os.fork(): os._exit(0)\nos.kill(os.getpid(), 9)",
    "as a pool": (
        "import multiprocessing as m\n"
        "with m.get_context('fork').Pool(2) as pool: pool.map(put, 'abc')"
    ),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("how", ENDS)
def test_no_entry_is_lost_when_a_process_ends(where, how):
    code = f"""
import os, threading
from drjit.jit.run import cache
def put(name):
    cache.put(name * 40, "text", b"code", False)
{ENDS[how]}
"""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    subprocess.run([sys.executable, "-c", code], env=env, stderr=subprocess.DEVNULL, timeout=60)
    assert cache.get(A).code == b"code"


def test_a_folder_that_is_gone_is_no_reason_to_complain(where, capfd, monkeypatch):
    monkeypatch.setattr(cache, "_at_once", False)
    cache.put(A, "text", b"code", False)
    where.rmdir()
    cache.write_pending()
    assert cache.info()["entries"] == 0
    assert capfd.readouterr().err == ""


def test_keys_depend_on_the_files_of_the_compiler():
    def names(facts):
        return {fact.split()[0] for fact in facts.split("\n")}

    files = names(cache.files_in(cache.COMPILER))
    assert {"target/simd/translate.py", "target/mathlib/trig.py", "run/cache.py"} <= files
    assert not any("cuda" in name for name in files)  # on which only code for GPUs depends
    assert {"kernel.py", "emulator/module.py", "vectors.py"} <= names(cache.gpu_files())


def test_keys_depend_on_text_and_facts():
    keys = {cache.digest("a"), cache.digest("b"), cache.digest("a", 16), cache.digest("a", 1, 6)}
    assert len(keys) == 4
    assert cache.digest("a", 16) == cache.digest("a", 16)
    assert all(key.isalnum() for key in keys)


@pytest.mark.parametrize(
    "damage", ["empty", "header", "cut", "longer", "text", "code", "flag", "key"]
)
def test_a_damaged_entry_is_a_miss_and_is_removed(where, damage):
    cache.put(A, "text", b"code", False)
    cache.write_pending()
    path = where / f"{A}.kernel"
    data = bytearray(path.read_bytes())
    if damage == "key":
        path = path.rename(where / f"{B}.kernel")
    elif damage in ("empty", "header", "cut"):
        path.write_bytes(data[: {"empty": 0, "header": 20, "cut": -1}[damage]])
    elif damage == "longer":
        path.write_bytes(data + b"x")
    else:
        data[{"text": -8, "code": -1, "flag": 16}[damage]] ^= 1
        path.write_bytes(data)
    assert cache.get(path.stem) is None
    assert not path.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("call", ["_create", "replace"])
def test_a_full_or_read_only_disk_costs_one_message(where, monkeypatch, capfd, number, call):
    cache.info()

    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os if call == "replace" else cache, call, fail)
    cache.put(A, "text", b"code", False)
    cache.put(B, "text", b"code", False)
    cache.write_pending()
    message = capfd.readouterr().err
    assert message.count("\n") == 1
    assert "kernel cache cannot be written" in message
    assert os.strerror(number) in message
    assert cache.get(A) is None and not cache.is_writable()
    assert list(where.iterdir()) == []


def test_a_folder_that_cannot_be_made(tmp_path, monkeypatch, capfd):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "file" / "kernels"))
    cache.put(A, "text", b"code", False)
    assert cache.get(A) is None
    assert cache.info()["folder"] is None
    cache.flush()
    assert "kernel cache cannot be made" in capfd.readouterr().err


def test_without_a_home_there_is_a_temporary_folder(tmp_path, monkeypatch, capfd):
    def no_home():
        raise RuntimeError("no home")

    monkeypatch.delenv("DRJIT_CACHE_DIR")
    monkeypatch.setattr(cache, "_user_folder", no_home)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    cache.put(A, "text", b"code", False)
    assert cache.get(A).code == b"code"
    assert cache.info()["folder"].startswith(str(tmp_path / "drjit-"))
    assert cache.is_writable()
    message = capfd.readouterr().err
    assert "cannot be made (no home)" in message
    assert f"{cache.info()['folder']} is used instead" in message


def test_least_recently_used_entries_go_first(where, monkeypatch):
    monkeypatch.setenv("DRJIT_CACHE_MAXSIZE", "100k")
    keys = [str(k) * 40 for k in range(8)]
    for k, key in enumerate(keys):
        cache.put(key, "text", b"x" * 20_000, False)
        cache.write_pending()
        if k < 4:
            os.utime(where / f"{key}.kernel", (k + 1, k + 1))
    assert cache.get(keys[0]) is not None
    cache.write_pending()
    cache.evict()
    assert cache.info()["bytes"] <= 75 * 1024
    assert cache.get(keys[0]) is not None
    assert cache.get(keys[1]) is None


def test_the_folder_is_looked_through_now_and_then(monkeypatch):
    """Not by each process that writes an entry: that takes a while if there are many."""
    looks = []
    monkeypatch.setattr(cache, "evict", lambda: looks.append(cache._puts))
    monkeypatch.setattr(cache, "_puts", 5)
    for k in range(130):
        cache.put(f"{k:040d}", "text", b"code", False)
    assert looks == [64, 128]
    code = "import drjit.jit.run.cache as cache; print(cache._puts)"
    starts = {subprocess.check_output([sys.executable, "-c", code]) for _ in range(8)}
    assert len(starts) > 1


def test_leftovers_of_interrupted_writers_are_removed(where):
    cache.put(A, "text", b"code", False)
    old, new = where / "1f-2-3e.tmp", where / "1f-2-3f.tmp"
    old.write_text("")
    new.write_text("")
    os.utime(old, (1, 1))
    cache.write_pending()
    cache.evict()
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize(
    "value, size",
    [
        ("", 1 << 30),
        ("1000", 1000),
        ("512M", 512 << 20),
        ("1.5 GiB", 3 << 29),
        ("2kb", 2048),
        ("x", 1 << 30),
    ],
)
def test_the_maximal_size(monkeypatch, value, size):
    monkeypatch.setenv("DRJIT_CACHE_MAXSIZE", value)
    assert cache.maxsize() == size


def test_processes_share_a_folder(where):
    code = (
        "from drjit.jit.run import cache\n"
        "for k in range(300):\n"
        "    key = str(k % 7) * 40\n"
        "    entry = cache.get(key)\n"
        "    assert entry is None or entry == (key, key.encode() * 250, True), entry\n"
        "    cache.put(key, key, key.encode() * 250, True)\n"
        "    if k % 50 == 0: cache.write_pending(); cache.evict()\n"
        "    if k % 90 == 0: cache.flush()\n"
    )
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), DRJIT_CACHE_MAXSIZE="60k")
    both = [
        subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:
        assert (process.communicate(timeout=60)[1], process.returncode) == ("", 0)
    assert not list(where.glob("*.tmp"))


def test_log_levels(capfd):
    before = log.log_level()
    log.set_log_level(log.LogLevel.Info)
    assert log.log_level() is log.LogLevel.Info
    assert log.level == 3
    log.log(log.LogLevel.Info, "%d of %s", 3, "x")
    log.log(4, "not shown")
    log.set_log_level(0)
    log.log(log.LogLevel.Error, "not shown")
    log.set_log_level(before)
    assert capfd.readouterr().err == "drjit: 3 of x\n"
    with pytest.raises(ValueError, match="9 is not a valid LogLevel"):
        log.set_log_level(9)
    for wrong in ("Warn", None, 1.5):
        with pytest.raises(TypeError, match=r"set_log_level.*incompatible function arguments"):
            log.set_log_level(wrong)


@pytest.mark.skipif(processor.register_bytes() == 16, reason="no packets are wider with NEON")
@in_the_background
def test_a_hot_loop_gets_wider_packets(where, monkeypatch):
    """Compiled once more, but not while the program waits, with the same results; the next process
    finds the better form at once.
    """
    monkeypatch.setattr(variants, "pinned", "compiled")
    monkeypatch.setattr(variants, "HOT_SECONDS", 1e9)
    x = dr.linspace(Float, 0, 1, 5000)

    def collatz():
        n = dr.arange(UInt32, 5000) + 1
        turn = lambda n, k: (dr.select(n & 1 == 1, 3 * n + 1, n >> 1), k + x)  # noqa: E731
        return dr.while_loop((n, dr.zeros(Float, 5000)), lambda n, k: n != 1, turn)[1]

    def own():
        (found,) = (k for k in kernel.kernels() if "while" in k.text)
        return found

    dr.flush_kernel_cache()
    want = collatz().numpy()
    assert own().is_baseline and own().state == "memory"
    first = own().address
    assert (collatz().numpy() == want).all() and own().address == first
    monkeypatch.setattr(variants, "HOT_SECONDS", 0.0)
    ready, threads = threading.Event(), []
    compile_ = simd.compile

    def watched(*arguments, **route):
        ready.wait(10)
        threads.append(threading.current_thread())
        return compile_(*arguments, **route)

    monkeypatch.setattr(simd, "compile", watched)
    assert (collatz().numpy() == want).all() and own().address == first
    ready.set()
    background.finish()
    assert (collatz().numpy() == want).all()
    assert not own().is_baseline and own().address != first
    assert len(threads) == 1 and threads[0] is not threading.current_thread()
    assert cache.info()["entries"] >= 2
    dr.flush_kernel_cache()
    monkeypatch.setattr(variants, "HOT_SECONDS", 1e9)
    assert (collatz().numpy() == want).all()
    assert not own().is_baseline and own().state == "disk"


@in_the_background
@pytest.mark.parametrize("long", [True, False])
def test_what_processes_run_again_is_compiled_once_more(where, monkeypatch, long):
    """A process with little work does with the form that is there first; the next one has the best
    form compiled if launches are long, and the results are the same."""
    monkeypatch.setattr(variants, "pinned", "auto")
    monkeypatch.setattr(variants, "LONG_WORK", 0 if long else 1e12)

    def run():
        """Computes in what is a new process for the cache."""
        dr.flush_kernel_cache()
        step = lambda n, x: (n + 1, dr.fma(x, x, -0.5))  # noqa: E731
        start = dr.arange(UInt32, 20_000) & 7, dr.linspace(Float, 0, 1, 20_000)
        values = dr.while_loop(start, lambda n, x: n < 9, step)[1].numpy()
        (found,) = (k for k in kernel.kernels() if "while" in k.text)
        background.finish()
        return values, (found.state, found.is_baseline)

    want, first = run()
    assert first == ("memory", True)
    again, second = run()
    assert second == (("memory", False) if long else ("disk", True))
    last, third = run()
    assert third == ("disk", not long)
    assert (want == again).all() and (want == last).all()


def compiling_waits(monkeypatch):
    """Has whoever compiles wait for an event; returns it, and a list of the threads that did."""
    ready, threads, compile_ = threading.Event(), [], simd.compile

    def compile_when_ready(*arguments, **route):
        assert ready.wait(100)
        threads.append(threading.current_thread())
        return compile_(*arguments, **route)

    monkeypatch.setattr(simd, "compile", compile_when_ready)
    return ready, threads


@in_the_background
@pytest.mark.parametrize("lasting", [True, False])
def test_a_kernel_is_compiled_in_the_background(where, monkeypatch, lasting):
    """While the program goes on with NumPy, of which the results are the same. One that has not
    come again is compiled only for later processes."""
    monkeypatch.setattr(variants, "pinned", "auto")
    monkeypatch.setattr(cache, "is_writable", lambda: lasting)
    standing_still(monkeypatch)
    monkeypatch.setattr(variants, "COMPILE_BASE", 1.0)
    monkeypatch.setattr(variants, "BACKGROUND", 0.0)
    monkeypatch.setattr(variants, "LOAD", 0.0)
    monkeypatch.setattr(variants, "LITTLE_WORK", -1)
    x = dr.linspace(Float, 0, 1, 100)
    dr.eval(x)
    dr.flush_kernel_cache()
    ready, threads = compiling_waits(monkeypatch)
    background.finish()
    f = lambda: ((x + 2.5) * x).numpy()  # noqa: E731
    want = f()
    (own,) = kernel.kernels()
    assert (own.task is not None) == lasting
    for _ in range(3):
        assert (f() == want).all()
        assert own.state == "numpy" and own.task is not None
    ready.set()
    background.finish()
    assert (f() == want).all()
    assert own.state == "memory" and own.address and own.interpreted_launches == 4
    assert own.compiled_at == 0  # no launch has waited
    assert len(threads) == 1 and threads[0] is not threading.current_thread()
    assert own.seconds > 0
    assert cache.has(
        variants.key_of(own.text, variants.compiler_options(), simd.packet_lanes(own.text))
    )


@in_the_background
def test_a_launch_is_a_miss_only_if_it_compiles_or_waits(where, monkeypatch):
    for name in ("LOAD", "BACKGROUND"):  # NumPy runs it, and it is compiled meanwhile
        monkeypatch.setattr(variants, name, 0.0)
    monkeypatch.setattr(variants, "COMPILE_BASE", 1.0)
    monkeypatch.setattr(variants, "pinned", "auto")
    x = dr.linspace(Float, 0, 1, 100)
    dr.eval(x)
    dr.flush_kernel_cache()
    ready, _ = compiling_waits(monkeypatch)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        for k in range(4):
            dr.eval((x + 3.5) * x)
            if k == 2:
                ready.set()
                background.finish()
        entries = dr.kernel_history()
    assert len(entries) == 4 and len({e["hash"] for e in entries}) == 1
    assert [e["tier"] for e in entries] == ["numpy"] * 3 + ["compiled"]
    assert [(e["cache_hit"], e["backend_time"]) for e in entries] == [(1, 0)] * 4


@in_the_background
def test_work_that_would_take_long_on_numpy_waits_for_the_background(monkeypatch):
    monkeypatch.setattr(variants, "pinned", "auto")
    standing_still(monkeypatch)
    monkeypatch.setattr(variants, "COMPILE_BASE", 0.1)
    monkeypatch.setattr(variants, "BACKGROUND", 0.0)
    monkeypatch.setattr(variants, "LOAD", 0.0)
    monkeypatch.setattr(cache, "is_writable", lambda: False)
    dr.flush_kernel_cache()
    x = dr.opaque(Float, 2, 1000)
    f = lambda x: dr.sin(x) * 7.125  # noqa: E731
    background.finish()
    ready, _ = compiling_waits(monkeypatch)
    dr.eval(f(x), f(x) + 1)
    for _ in range(2):
        dr.eval(f(x))
    (own,) = (k for k in kernel.kernels() if k.task is not None)
    dr.eval(f(dr.opaque(Float, 2, 1 << 20)))
    ready.set()
    dr.sync_thread()
    background.finish()  # a thread lets jobs run before it notes that it is done
    assert own.address and own.task is None


NOT_IN_THE_WAY = """
import numpy
import _thread, atexit, os, warnings
import drjit as dr, llvmlite
from drjit.jit.cpu import background, kernel, variants
from drjit.llvm import Float

variants.pinned, variants.BACKGROUND, variants.COMPILE_BASE = "auto", 0.0, 1.0
variants.LOAD = variants.FIRST_LOAD = 0.0
x = dr.opaque(Float, 1, 50)

def f(k):
    for _ in range(3):
        dr.eval((x + 1) * (x - 2.5) ** k)

@atexit.register
def last():
    background.finish()
    f(7)
    print(dr.sum(x * 3), flush=True)

def refused(*_):
    raise RuntimeError("can't start new thread")

begin, _thread.start_new_thread = _thread.start_new_thread, refused
f(2)
assert all(k.task is None for k in kernel.kernels())
_thread.start_new_thread = begin
f(3)
assert any(k.task for k in kernel.kernels())
if hasattr(os, "fork"):
    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later: of the threads
    child = os.fork()
    if not child:
        f(3), f(4), background.finish(), f(4)
        os._exit(0 if all(k.address for k in kernel.kernels()[-2:]) else 3)
    assert os.waitpid(child, 0)[1] == 0
f(5)
"""


@in_the_background
def test_what_is_compiled_in_the_background_is_not_in_the_way():
    """Of the end of a process, of a fork, of launches after its thread was stopped, or where there
    can be no thread."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    command = [sys.executable, "-c", NOT_IN_THE_WAY]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("[150]\n", "", 0)


def test_a_kernel_of_the_disk_cache_runs_on_numpy_for_less_than_loading_it_takes(monkeypatch):
    x = dr.linspace(Float, 0, 1, 2000)
    dr.eval(x)

    def state(launches):
        """That of a kernel that is new to the process."""
        dr.flush_kernel_cache()
        for _ in range(launches):
            dr.eval(x * 2.5 + dr.sqrt(x))
        dr.sync_thread()
        (found,) = (k for k in kernel.kernels() if "sqrt" in k.text)
        return found.state

    monkeypatch.setattr(variants, "pinned", "auto")
    monkeypatch.setattr(variants, "COMPILE_BASE", 1e9)
    assert state(1000) == "numpy"
    monkeypatch.setattr(variants, "pinned", "compiled")
    assert state(1) == "memory"
    monkeypatch.setattr(variants, "pinned", "auto")
    assert state(1) == "numpy"
    assert state(1000) == "disk"


# ---- Programs of earlier processes


def arithmetic(n):
    x = dr.linspace(Float, 1, 2, n)
    return dr.sqrt(x * 3 + 3) - x / 5


def sums(n):
    x = dr.linspace(Float64, 1, 2, n)
    dr.make_opaque(x)
    return dr.sum(x), x * x, dr.sum(x * 2)


def updates(n):
    x = dr.arange(UInt32, n) * 7
    target = dr.zeros(UInt32, 10)
    dr.scatter_add(target, x, x % 10)
    return target, dr.gather(Float, dr.linspace(Float, 0, 1, n), x % max(n, 1))


@dr.syntax
def iterates(n):
    x, k = dr.arange(UInt32, n) + 1, UInt32(0)
    while x != 1:
        if x % 2 == 0:
            x //= 2
        else:
            x = 3 * x + 1
        k += 1
    return k


def half(n):
    x = dr.linspace(Float16, 0, 1, n)
    return x * x + 0.5, dr.linspace(Float, 0, 1, n) > 0.5


def gradient(n):
    x = dr.linspace(AdFloat, 1, 2, n)
    dr.enable_grad(x)
    dr.backward(dr.sum(dr.exp(x) * x))
    return dr.grad(x)


def forget():
    """What a new process does not know."""
    schedule.forget_kernels()
    structure.forget()
    kernel.forget()


def values(found):
    return [v.numpy() for v in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("tier", ["numpy", "compiled"])
@pytest.mark.parametrize("f", [arithmetic, sums, updates, iterates, half, gradient])
def test_a_known_program_is_neither_built_nor_rendered(where, monkeypatch, f, tier):
    monkeypatch.setattr(variants, "pinned", tier)
    sizes = 1, 17, 1000, 0  # one entry is a structure of its own
    forget()
    want = [values(f(n)) for n in sizes]
    texts = {k.text for k in kernel.kernels()}

    def fail(*_):
        raise AssertionError("a program was built, or a text compiled by Python")

    monkeypatch.setattr(program, "build", fail)
    monkeypatch.setattr(interpreted, "compile", fail, raising=False)
    forget()
    for n, expected in zip(sizes, want, strict=True):
        for a, b in zip(values(f(n)), expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
    again = kernel.kernels()
    assert {k.text for k in again} == texts
    assert all(k.launches for k in again)
    with pytest.raises(AssertionError, match="a program was built"):
        dr.eval(dr.cos(dr.linspace(Float, 1, 2, 17) * 3) + 3)


def test_literals_are_told_apart_in_known_programs():
    def f(a, b):
        x = dr.linspace(Float, 0, 1, 5)
        dr.eval(x)
        return x * a + b

    pairs = (2.0, 2.0), (2.0, 3.0), (4.0, 4.0), (-0.0, 0.0), (3.0, 2.0)
    for _ in range(2):
        forget()
        for a, b in pairs:
            x = np.linspace(0, 1, 5, dtype=np.float32)
            np.testing.assert_array_equal(f(a, b).numpy(), x * np.float32(a) + np.float32(b))


def test_a_damaged_program_is_made_again(where, capfd):
    forget()
    want = arithmetic(9).numpy()
    cache.write_pending()
    for file in where.iterdir():
        entry = cache.get(file.stem)
        cache.put(file.stem, entry.text, b"damaged", entry.has_finish)
    for _ in range(2):  # the second time, there is a new entry
        forget()
        np.testing.assert_array_equal(arithmetic(9).numpy(), want)
    lines = capfd.readouterr().err.splitlines()
    assert len([line for line in lines if "cannot be used" in line]) == 1


def test_generated_functions_are_compiled_by_one_process(where):
    """And by the next one only if they are of other operations."""
    program = """
import sys
import drjit as dr
from drjit.jit.run import bytecode

texts = []
bytecode.compile = lambda text, *more: texts.append(text) or compile(text, *more)
from drjit.llvm.ad import Float

x = Float(1, 2, 3)
dr.enable_grad(x)
y = x * 2 - 1 if sys.argv[1] == "a" else dr.exp(dr.sin(x) / x)
dr.backward(y)
print(len(texts), dr.grad(x).numpy().tolist())
"""
    lines = []
    for which in "abab":
        found = subprocess.run(
            [sys.executable, "-c", program, which], capture_output=True, text=True, check=True
        )
        assert not found.stderr
        lines.append(found.stdout)
    counts = [int(line.split()[0]) for line in lines]
    assert counts[0] > 0 and counts[1] > 0 and counts[2:] == [0, 0]
    assert [line.partition(" ")[2] for line in lines[:2]] == [
        line.partition(" ")[2] for line in lines[2:]
    ]


SMALL = """
import sys
import drjit as dr
from drjit.jit.cpu import kernel, variants
from drjit.llvm import Float
variants.INSTEAD_OF_NUMPY = float(sys.argv[1])
variants.BACKGROUND = 1e9
x = dr.linspace(Float, 1, 3, int(sys.argv[2]))
y = dr.sin(x) + 1
print(y[0], y[-1], dr.sum(Float(1, 2, 3)))
print(sorted({"numpy", "llvmlite"} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("seconds", "lanes", "first", "second"),
    [
        (1000, 3, "[]", "[]"),
        (1000, 2000, "['llvmlite']", "[]"),
        (0, 2000, "['numpy']", "['numpy']"),
    ],
)
def test_small_kernels_are_compiled_as_long_as_numpy_is_not_imported(
    tmp_path, seconds, lanes, first, second
):
    """For a limited time; the next process then finds them, and loads neither LLVM nor NumPy. Those
    on few lanes run without either."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), DRJIT_CACHE_DIR=str(tmp_path))
    env["DRJIT_TIER"] = "auto"
    env.pop("DRJIT_COMPILER", None)  # Numba imports NumPy
    for imported in (first, second):
        command = [sys.executable, "-c", SMALL, str(seconds), str(lanes)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        values, *rest = done.stdout.splitlines()
        assert rest == [imported]
        assert values == "1.8414709568023682 1.1411199569702148 [6]"
