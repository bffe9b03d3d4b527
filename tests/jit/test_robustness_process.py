"""Threads, interrupts, forks, the end of the process, and its surroundings: no home, a full disk, a
damaged or read-only cache, unusual settings."""

import errno
import marshal
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import nursery
import pytest

import drjit as dr
from drjit.jit.run import cache, modules
from drjit.jit.target import numpy as numpy_target
from drjit.llvm import Float, UInt

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals and fork")

# What a user would run: elements wise work, a scatter, a gather, a reduction.
PROGRAM = """
import sys
import numpy as np
import drjit as dr
from drjit.jit.cpu import variants
from drjit.llvm import Float, UInt, Bool

def program(salt=0, n=1000):
    x = dr.arange(Float, n) + salt
    target = dr.zeros(UInt, 4)
    dr.scatter_add(target, UInt(x), dr.arange(UInt, n) % 4)
    return dr.sum(dr.gather(Float, x * 2, dr.arange(UInt, 8))), target

def right(salt=0, n=1000):
    total, target = program(salt, n)
    x = np.arange(n) + salt
    return total.numpy()[0] == 2 * x[:8].sum() and np.array_equal(
        target.numpy(), np.bincount(np.arange(n) % 4, x).astype(np.uint64).astype(np.uint32))
"""


def run(text, *args, **environment):
    done = nursery.run(PROGRAM + textwrap.dedent(text), *args, environment=environment)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done


# Threads


def program(salt, n=1000):
    x = dr.arange(Float, n) + salt
    target = dr.zeros(UInt, 4)
    dr.scatter_add(target, UInt(x), dr.arange(UInt, n) % 4)
    total = dr.sum(dr.gather(Float, x * 2, dr.arange(UInt, 8)))
    expected = np.arange(n) + salt
    return total.numpy()[0] == 2 * expected[:8].sum() and np.array_equal(
        target.numpy(), np.bincount(np.arange(n) % 4, expected).astype(np.uint32)
    )


def in_threads(work, count=4):
    results, errors = [], []

    def call(k):
        try:
            results.append(work(k))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    return results


def test_threads_trace_and_evaluate_at_once(tier):
    assert all(in_threads(lambda k: all(program(100 * k + j) for j in range(15))))


def test_threads_share_an_array(tier):
    shared = dr.arange(Float, 5000) * 2  # pending when the threads start
    expected = np.arange(5000, dtype=np.float32) * 2
    assert all(in_threads(lambda k: np.array_equal((shared + k).numpy(), expected + k)))


def test_threads_compile_one_kernel_at_once(tier):
    for n in (3, 5, 7):

        def work(k, n=n):
            x = dr.arange(Float, 100) + k
            for _ in range(n):
                x = x * 2 - 1
            return x.numpy()[0] == (k - 1) * 2**n + 1

        assert all(in_threads(work))


def test_the_number_of_threads_changes_no_result(tier):
    """Work is divided alike for 1 to 8 threads, and blocks are combined in their order."""
    before = dr.thread_count()
    rng = np.random.default_rng(1)
    data = rng.standard_normal(200_003).astype(np.float32)
    index = rng.integers(0, 50, data.size).astype(np.uint32)
    results = set()
    try:
        for count in (1, 2, 3, 5, 8):
            x = Float(data)
            dr.eval(x + 1)  # queued while the number changes
            dr.set_thread_count(count)
            assert dr.thread_count() == count
            histogram = dr.zeros(UInt, 50)
            dr.scatter_add(histogram, 1, UInt(index))
            y = dr.sin(x) * 2
            results.add(
                (
                    y.numpy().tobytes(), dr.max(y).numpy().tobytes(), dr.min(x).numpy().tobytes(),
                    histogram.numpy().tobytes(), dr.compress(x > 1).numpy().tobytes(),
                    dr.cumsum(UInt(index)).numpy().tobytes(),
                )
            )  # fmt: skip
            sums = {dr.sum(y).numpy()[0] for _ in range(5)}
            assert len(sums) == 1  # the same from run to run
            assert abs(sums.pop() - np.sin(data.astype(float)).sum() * 2) < 1e-2
    finally:
        dr.set_thread_count(before)
    assert len(results) == 1


# Ctrl-C


@posix
@pytest.mark.parametrize("which", ["numpy", "compiled"])
def test_an_interrupt_during_a_long_kernel(which):
    """It ends dr.sync_thread() and printing; pending work is neither lost nor done twice."""
    done = run(
        """
        import os, signal, threading, time
        variants.pinned = sys.argv[1]
        n, repeats = (30_000, 40) if variants.pinned == "numpy" else (1_000_000, 60)

        def slow(salt):
            x = dr.arange(UInt, n)
            y = Float(x) * 1e-6 + salt
            for _ in range(repeats):
                y = dr.sin(y) + 1
            return x + UInt(y * 0)

        def interrupted(call):
            timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            try:
                call()
                time.sleep(5)
            except KeyboardInterrupt:
                print("interrupted")
            timer.join()

        dr.eval(slow(0))  # compiles
        dr.sync_thread()
        a, b = slow(1), slow(2)
        target = dr.zeros(UInt, 4)
        dr.scatter_add(target, slow(3) * 0 + 1, dr.arange(UInt, n) % 4)
        interrupted(lambda: (dr.eval(a), dr.sync_thread()))
        interrupted(lambda: str(b))
        interrupted(lambda: str(target))
        print(np.array_equal(a.numpy(), np.arange(n)), np.array_equal(b.numpy(), np.arange(n)))
        print(target.numpy().tolist() == [n // 4] * 4, right())
        """,
        which,
    )
    assert done.stdout.splitlines() == ["interrupted"] * 3 + ["True True", "True True"], done.stdout


@posix
def test_updates_of_a_kernel_on_numpy_happen_once(monkeypatch):
    """Ctrl-C between two updates of one kernel takes effect after both."""
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    first, second = dr.zeros(UInt, 2), dr.zeros(UInt, 2)
    dr.eval(first, second)
    real = numpy_target.run

    def run_and_interrupt(*args):
        real(*args)
        signal.raise_signal(signal.SIGINT)

    dr.scatter_add(first, dr.opaque(UInt, 1), UInt(0, 1, 1))
    dr.scatter_add(second, dr.opaque(UInt, 1), UInt(0, 1, 1))
    monkeypatch.setattr(numpy_target, "run", run_and_interrupt)
    with pytest.raises(KeyboardInterrupt):
        dr.eval(first, second)
    monkeypatch.setattr(numpy_target, "run", real)
    assert (first.numpy().tolist(), second.numpy().tolist()) == ([1, 2], [1, 2])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# The end of the process


@pytest.mark.parametrize("which", ["numpy", "compiled"])
@pytest.mark.parametrize("ending", ["", "raise SystemExit(0)", "x.numpy()"])
def test_the_end_with_queued_work(which, ending):
    done = run(
        """
        variants.pinned = sys.argv[1]
        x = dr.arange(Float, 2_000_000)
        for _ in range(60):
            x = dr.sin(x)
        if variants.pinned == "compiled":
            dr.eval(x)
        pending = dr.zeros(UInt, 4)
        dr.scatter_add(pending, 1, UInt(0, 9))  # never evaluated, so never reported
        """
        + (ending if which == "compiled" or "numpy" not in ending else ""),
        which,
    )
    assert done.stderr == ""


def test_an_error_nobody_waited_for_does_no_harm_at_the_end():
    done = run(
        """
        variants.pinned = "compiled"
        dr.eval(dr.gather(Float, dr.arange(Float, 4), dr.opaque(UInt, 9, 3)))
        print(right())
        """
    )
    assert done.stdout == "True\n"
    assert "dr.gather: index 9 is out of bounds" in done.stderr


# Forks


@posix
@pytest.mark.parametrize("which", ["numpy", "compiled"])
def test_forks_before_and_after_first_use(which):
    done = run(
        """
        import os
        variants.pinned = sys.argv[1]

        def child(salt):
            pid = os.fork()
            if pid == 0:
                os._exit(0 if right(salt) and right(salt + 1) else 1)
            return os.waitpid(pid, 0)[1]

        print(child(1))
        print(right())
        x = dr.arange(Float, 30_000 if variants.pinned == "numpy" else 1_000_000)
        for _ in range(20):
            x = dr.sin(x)
        dr.eval(x)  # on its way while the process forks
        print(child(2), child(3), right(4), right(5))
        print(np.isfinite(x.numpy()).all())
        """,
        which,
    )
    assert done.stdout.splitlines() == ["0", "True", "0 0 True True", "True"]


@posix
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(method):
    assert program(1)
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert all(pool.map(program, range(4)))
    assert program(2)


# The surroundings


def test_no_home_directory(tmp_path):
    done = run(
        "variants.pinned = 'compiled'; print(right())",
        HOME=None, USER=None, LOGNAME=None, XDG_CACHE_HOME=None, DRJIT_CACHE_DIR=None,
        TMPDIR=str(tmp_path),
    )  # fmt: skip
    assert done.stdout == "True\n"
    done = run(
        "variants.pinned = 'compiled'; print(right())",
        HOME="/nonexistent/home", XDG_CACHE_HOME=None, DRJIT_CACHE_DIR=None, TMPDIR=str(tmp_path),
    )  # fmt: skip
    assert done.stdout == "True\n"


def test_a_full_disk(tmp_path, monkeypatch):
    """Kernels are compiled and run, and no half-written entry stays behind."""
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "_complained", False)
    monkeypatch.setattr(cache, "_is_lost", False)
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, data):
            self.file.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

    real = os.fdopen
    monkeypatch.setattr(cache.os, "fdopen", lambda *a, **k: Full(real(*a, **k)))
    x = dr.arange(Float, 100)
    for _ in range(3):
        x = x * 3 - 2  # a kernel that no other test has
    assert x.numpy()[1] == 1
    end = time.monotonic() + 60
    while list((tmp_path / cache._FOLDER).iterdir()) and time.monotonic() < end:
        time.sleep(0.01)  # the writer may be at work
    assert list((tmp_path / cache._FOLDER).iterdir()) == []


CACHED = "variants.pinned = 'compiled'; print(right())"
DAMAGES = {
    "emptied": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "another file": lambda data: b"not a kernel" * 100,
    "a flipped bit": lambda data: data[:-9] + bytes([data[-9] ^ 4]) + data[-8:],
    "longer": lambda data: data + b"\0" * 100,
}


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    """A cache with the kernels of a program that computes what it should."""
    folder = tmp_path_factory.mktemp("cache")
    assert run(CACHED, DRJIT_CACHE_DIR=str(folder)).stdout == "True\n"
    return folder / cache._FOLDER


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_cache_entries(tmp_path, entries, damage):
    found = [p for p in entries.iterdir() if p.suffix == ".kernel"]
    assert len(found) >= 2
    own = tmp_path / cache._FOLDER
    own.mkdir()
    for path in found:
        (own / path.name).write_bytes(DAMAGES[damage](path.read_bytes()))
    assert run(CACHED, DRJIT_CACHE_DIR=str(tmp_path)).stdout == "True\n"
    for path in found:  # compiled anew
        assert content(own / path.name) == content(path)


def content(path):
    """What a file of the cache says. The bytes that Python writes of an object are not always the
    same: they depend on who else has its parts."""
    data = path.read_bytes()
    if data.startswith(modules._MAGIC):
        return modules._table(data).keys()
    entry = cache._decode(path.stem, data)
    try:
        return entry._replace(code=marshal.loads(entry.code))
    except (ValueError, EOFError, TypeError):  # a machine's
        return entry


@posix
def test_a_cache_folder_that_cannot_be_used(tmp_path, monkeypatch):
    """Read-only, or not even a folder. (Root may write anywhere: so opening is made to fail.)"""
    folder = tmp_path / "readonly" / cache._FOLDER
    folder.mkdir(mode=0o500, parents=True)
    text = """
    from drjit.jit.run import cache
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")
    cache._create = refuse
    variants.pinned = 'compiled'
    print(right())
    """
    done = run(text, DRJIT_CACHE_DIR=str(folder.parent))
    assert done.stdout == "True\n" and list(folder.iterdir()) == []
    assert done.stderr.count("kernel cache") == 1 and "Permission denied" in done.stderr
    file = tmp_path / "file"
    file.write_text("")
    done = run("variants.pinned = 'compiled'; print(right())", DRJIT_CACHE_DIR=str(file))
    assert done.stdout == "True\n" and "kernel cache" in done.stderr


@pytest.mark.parametrize("count", ["0", "-3", "many", "100000", "1"])
def test_numbers_of_threads_in_the_environment(count):
    done = run("variants.pinned = 'compiled'; print(right(0, 300_000))", DRJIT_NUM_THREADS=count)
    assert done.stdout == "True\n"
    assert ("DRJIT_NUM_THREADS" in done.stderr) == (count in ("0", "-3", "many"))


def test_a_tier_that_does_not_exist():
    command = [sys.executable, "-c", "import drjit.jit.cpu.kernel"]
    environment = os.environ | {"DRJIT_TIER": "fast"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    expected = "ValueError: DRJIT_TIER='fast': expected one of auto, python, numpy, compiled"
    assert done.stderr.splitlines()[-1] == expected
