"""What `gpu.py` tries once and shows as a line: errors, interrupts, memory, threads, other
libraries. Each function yields rows of a part; see `gpu_process`. What is not installed is no
problem: the line says so.
"""

import os
import platform
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
from gpu_process import Differs, Row, Setting, gpu
from gpu_programs import on_device, opaque

import drjit as dr
from drjit import cuda
from drjit.cuda import Float, UInt
from drjit.jit.cuda import kernel as kernels
from drjit.jit.cuda.driver import DeviceAttribute

ROOT = Path(__file__).parents[1]


def equal(found: Any, expected: Any, what: str) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    if not np.array_equal(found, expected):
        wrong = np.flatnonzero(found != expected) if found.shape == expected.shape else ["shape"]
        raise Differs(f"{what}: wrong in {len(wrong)} places, the first one is {wrong[0]}")


def small_sum_works() -> None:
    """Raises an error unless the GPU still computes."""
    equal(dr.sum(dr.arange(UInt, 1000)).numpy(), [499500], "a sum of 1,000 numbers")


# --------------------------------------------------------------------------------------- the facts


def facts(at: Setting) -> Iterator[Row]:
    """What the report says of the machine, and whether a first kernel runs."""
    yield "Python", lambda: f"{platform.python_version()} on {platform.platform()}"
    yield "NumPy", lambda: np.__version__
    yield "llvmlite", llvm
    yield "drjit", drjit_version
    yield "nvidia-smi", smi
    yield "GPU", lambda: gpu().name
    yield "compute capability", lambda: ".".join(map(str, gpu().capability))
    yield "driver", lambda: "for CUDA {}.{}".format(*dr.detail.cuda_version())
    yield "assembler", assembler
    yield "memory", memory_of_gpu
    yield "multiprocessors", lambda: gpu().multiprocessors
    yield "others", lambda: ", ".join(filter(None, map(version, OTHERS))) or "none"
    yield "a first kernel", first_kernel


OTHERS = "torch", "cupy", "cupy-cuda13x", "cupy-cuda12x", "numba", "numba-cuda", "nvidia-nvjitlink"


def version(package: str) -> str:
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return ""


def llvm() -> str:
    import llvmlite
    from llvmlite import binding

    return f"{llvmlite.__version__} with LLVM {'.'.join(map(str, binding.llvm_version_info))}"


def drjit_version() -> str:
    commit = ""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
    return f"{dr.__version__} {commit}".strip()


def smi() -> str:
    if not shutil.which("nvidia-smi"):
        return "not there"
    what = "name,driver_version,clocks.max.sm,clocks.max.mem,power.limit,mig.mode.current"
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    return "; ".join((done.stdout + done.stderr).strip().splitlines())


def assembler() -> str:
    name, *version, _ = gpu().image_facts()
    return name + "".join(" {}.{}".format(*v) for v in version)


def memory_of_gpu() -> str:
    driver = gpu().driver
    free, total = driver.memory_info()
    text = f"{total / 2**30:.1f} GiB, of which {free / 2**30:.1f} GiB are free"
    if not driver.emulated:
        clock = driver.device_attribute(0, DeviceAttribute.MEMORY_CLOCK_RATE)
        width = driver.device_attribute(0, DeviceAttribute.MEMORY_BUS_WIDTH)
        text += f"; {width} bits at {clock / 1e6:.2f} GHz"
    return text


def first_kernel() -> str:
    start = time.perf_counter()
    small_sum_works()
    return f"a sum of 1,000 numbers, {time.perf_counter() - start:.2f} s until it was there"


# ------------------------------------------------------------------------------- errors and memory


def bad_index(at: Setting) -> Iterator[Row]:
    """The report of a bad index comes from one lane of many that compete for it."""
    n = 1 << (12 if at.emulated else 20)
    table, lanes = opaque(dr.arange(Float, n), dr.arange(UInt, n))

    def once(k: int) -> None:
        index = dr.select(lanes % 3 == 1, n + 5 * lanes + k, lanes)
        try:
            values = dr.gather(Float, table, index)
            dr.eval(values)
            dr.sync_thread()
        except IndexError as error:
            found = re.search(r"index (\d+) .* size (\d+) \(lane (\d+)", str(error))
            said = found and tuple(map(int, found.groups()))
            if not said or said[1] != n or said[0] != n + 5 * said[2] + k or said[2] % 3 != 1:
                raise Differs(f"the index, size and lane do not belong together: {error}") from None
        else:
            raise Differs("no IndexError")
        dr.sync_thread()  # it is raised once
        expected = np.arange(n, dtype=np.float32)
        expected[1::3] = 0
        equal(values.numpy(), expected, "the entries that were not skipped")

    def many() -> str:
        rounds = 2 if at.emulated else 20
        for k in range(rounds):
            once(k)
        return f"one IndexError, whose index, size and lane agree, in {rounds} of {rounds} gathers"

    yield f"bad indices in {n:,} lanes", many


@dr.syntax
def endless(x: Float) -> Float:
    while x >= 0:
        x = dr.select(x > 1000, 0, x + 1)
    return x


def interrupt(at: Setting) -> Iterator[Row]:
    def stopped() -> str:
        small_sum_works()
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        start = time.perf_counter()
        try:
            dr.eval(endless(dr.opaque(Float, 0, 4)))
            dr.sync_thread()
        except KeyboardInterrupt:
            seconds = time.perf_counter() - start - 1
        else:
            raise Differs("the loop ended without KeyboardInterrupt")
        small_sum_works()
        return f"a loop without end was stopped {seconds:.1f} s later, and the next kernel works"

    yield "Ctrl-C", stopped


def memory_limit(at: Setting) -> Iterator[Row]:
    gpu().pool.limit = 64 << 20  # as with DRJIT_CUDA_MEMORY=64M

    def refused() -> str:
        kept = dr.opaque(Float, 1, 10 << 20)
        try:
            dr.empty(Float, 10 << 20)
        except MemoryError as error:
            message = str(error)
        else:
            raise Differs("80 MiB were given where 64 are allowed")
        if "DRJIT_CUDA_MEMORY allows 67,108,864" not in message:
            raise Differs(f"the error does not name the limit: {message}")
        del kept
        equal(dr.opaque(Float, 2, 10 << 20)[7], 2, "what was asked for afterwards")
        return "MemoryError beyond DRJIT_CUDA_MEMORY, and what fits works afterwards"

    yield "a limit of memory", refused


def full_memory(at: Setting) -> Iterator[Row]:
    driver: Any = gpu().driver
    if at.emulated:
        driver.limit = driver.memory.limit = 64 << 20

    def exhausted() -> str:
        kept, (_, total) = [], driver.memory_info()
        try:
            for _ in range(100):
                kept.append(dr.empty(Float, total // 4 // 50))
        except MemoryError as error:
            message = str(error)
        else:
            raise Differs(f"twice the {total:,} bytes of the GPU were given")
        count = len(kept)
        small_sum_works()  # in what is left, or in the pool
        kept.clear()
        equal(dr.opaque(Float, 2, total // 4 // 50)[7], 2, "what was asked for afterwards")
        return (f"{count} of 50 parts of the memory were given, and the next small kernel works. "
                f"The error: {message}")  # fmt: skip

    yield "memory that is full", exhausted


def threads(at: Setting) -> Iterator[Row]:
    rounds, n = (3, 1000) if at.emulated else (200, 100_000)

    def four() -> str:
        found: dict[int, Any] = {}

        def work(k: int) -> None:
            try:
                x = dr.arange(Float, n) + k
                for _ in range(rounds):
                    x = dr.select(x > 1e6, x / 1024, x * 2)
                    dr.eval(x)
                found[k] = x.numpy(), dr.sum(dr.arange(UInt, 1000 + k)).numpy()
            except BaseException as error:
                found[k] = error

        start = time.perf_counter()
        workers = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(4)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        seconds = time.perf_counter() - start
        for k, result in sorted(found.items()):
            if isinstance(result, BaseException):
                raise result
            x = np.arange(n, dtype=np.float32) + np.float32(k)
            for _ in range(rounds):
                x = np.where(x > 1e6, x / np.float32(1024), x * np.float32(2))
            equal(result[0], x, f"what thread {k} computed")
            equal(result[1], [(1000 + k) * (999 + k) // 2], f"the sum of thread {k}")
        return f"{rounds} launches in each, {seconds / rounds / 4 * 1e6:.1f} µs a launch"

    yield "four threads", four


# --------------------------------------------------------------------------------- other libraries


def missing(name: str, title: str, at: Setting) -> str:
    """Returns why a library cannot be tried; nothing if it can."""
    if at.emulated:
        return f"not tried: {title} has no GPU here"
    try:
        import_module(name)
    except ImportError:
        return f"not tried: {title} is not installed"
    return ""


def address(x: Float) -> int:
    dr.eval(x)
    return x._node.data.address


def used_again(read: Callable[[Float], Any], busy: Any) -> None:
    """Another library, which is `busy`, has yet to read an array when Dr.Jit uses its memory again
    for other things."""
    n = 1 << 20
    for k in range(5):
        x = dr.opaque(Float, k, n)
        dr.sync_thread()
        for _ in range(20):
            busy += 1
        y = read(x)
        del x
        others = [dr.opaque(Float, -1, n) for _ in range(2)]
        found = y.get() if hasattr(y, "get") else y.cpu().numpy()
        equal(found, np.full(n, 2 * k, np.float32), "an array that the other library still reads")
        del others


def pytorch(at: Setting) -> Iterator[Row]:
    why, n = missing("torch", "PyTorch", at), 1 << 22

    def by_dlpack() -> str:
        import torch

        x = dr.arange(Float, n)
        if torch.from_dlpack(x).data_ptr() != address(x):
            raise Differs("PyTorch has a copy")
        with torch.cuda.stream(torch.cuda.Stream()):
            back = Float(torch.from_dlpack(x) * 2 + 1)
        equal(back.numpy(), np.arange(n, dtype=np.float32) * 2 + 1, "a tensor of another stream")
        made = torch.arange(n, device="cuda", dtype=torch.float32)
        if address(Float(made)) != made.data_ptr():
            raise Differs("Dr.Jit has a copy")
        used_again(lambda x: torch.from_dlpack(x) * 2, torch.ones(1 << 26, device="cuda"))
        return "both see the same memory, one after the other, on two streams"

    def by_interface() -> str:
        import torch

        x = dr.arange(Float, n)
        if torch.as_tensor(x, device="cuda").data_ptr() != address(x):
            raise Differs("PyTorch has a copy")
        busy = torch.ones(1 << 26, device="cuda")
        used_again(lambda x: torch.as_tensor(x, device="cuda") * 2, busy)
        return "both see the same memory, one after the other"

    def by_wrap() -> str:
        x = cuda.ad.Float(1, 2, 3)
        dr.enable_grad(x)
        dr.backward(dr.sum(dr.wrap("drjit", "torch")(lambda t: t * t * t)(x)))
        equal(dr.grad(x).numpy(), [3, 12, 27], "the gradient")
        return "a function of PyTorch and its gradient"

    if not why and not import_module("torch").cuda.is_available():
        why = "not tried: PyTorch has no GPU here"
    yield "PyTorch by DLPack", lambda: why or by_dlpack()
    yield "PyTorch by `__cuda_array_interface__`", lambda: why or by_interface()
    yield "PyTorch by `dr.wrap`", lambda: why or by_wrap()


def cupy(at: Setting) -> Iterator[Row]:
    why, n = missing("cupy", "CuPy", at), 1 << 22

    def by_dlpack() -> str:
        import cupy as cp

        x = dr.arange(Float, n)
        if cp.from_dlpack(x).data.ptr != address(x):
            raise Differs("CuPy has a copy")
        with cp.cuda.Stream(non_blocking=True):
            back = Float(cp.from_dlpack(x) * 2 + 1)
        equal(back.numpy(), np.arange(n, dtype=np.float32) * 2 + 1, "an array of another stream")
        used_again(lambda x: cp.from_dlpack(x) * 2, cp.ones(1 << 26, np.float32))
        return "both see the same memory, one after the other, on two streams"

    def by_interface() -> str:
        import cupy as cp

        x = dr.arange(Float, n)
        if cp.asarray(x).data.ptr != address(x):
            raise Differs("CuPy has a copy")
        used_again(lambda x: cp.asarray(x) * 2, cp.ones(1 << 26, np.float32))
        return "both see the same memory, one after the other"

    yield "CuPy by DLPack", lambda: why or by_dlpack()
    yield "CuPy by `__cuda_array_interface__`", lambda: why or by_interface()


def numba(at: Setting) -> Iterator[Row]:
    def route() -> str:
        if not kernels.numba_versions():
            return "not tried: the package numba-cuda is not installed"
        x, found = opaque(dr.linspace(Float, 0.1, 3, 100_000 >> 6 * at.emulated)), []
        for flag in (False, True):
            with dr.scoped_set_flag(dr.JitFlag.NumbaCompiler, flag):
                y = dr.sin(x) * dr.log(x) + 1
                found.append((y.numpy(), dr.sum(dr.floor(100 * y)).numpy()))
        for direct, by_numba in zip(*found, strict=True):
            equal(by_numba, direct, "what a kernel compiled by Numba computes")
        bit = int(dr.JitFlag.NumbaCompiler)
        if not any(code & bit for k in gpu().kernels() for code in getattr(k, "codes", ())):
            raise Differs("no kernel was compiled by Numba")
        return f"the same bits as without, with {version('numba')} and {version('numba-cuda')}"

    yield "kernels compiled by Numba", route


def green(at: Setting) -> Iterator[Row]:
    def part() -> str:
        if at.emulated:
            return "not tried: the emulated GPU has none"
        x = opaque(dr.linspace(Float, 0, 1, at.medium))
        run = lambda: dr.sin(x) * dr.exp(x)  # noqa: E731
        whole, expected, context = on_device(at, run), run().numpy(), cuda.green_context(16)
        with context:
            equal(run().numpy(), expected, "what a part of the GPU computes")
            seconds = on_device(at, run)
        equal(run().numpy(), expected, "what the whole GPU computes afterwards")
        return (f"{context.sm_count} of {gpu().multiprocessors} multiprocessors take "
                f"{seconds / whole:.1f} times as long as all of them")  # fmt: skip

    yield "a green context", part


def graphics(at: Setting) -> Iterator[Row]:
    def shown() -> str:
        from gpu_opengl import OpenGL

        try:
            gl = OpenGL()
        except OSError as error:
            return f"not tried: {error}"
        if at.emulated:
            return f"not tried: the emulated GPU has none, but EGL has {gl.renderer}"
        if "NVIDIA" not in gl.renderer:
            return f"not tried: EGL has {gl.renderer} alone"
        buffer = gl.buffer(4000)
        values = dr.arange(Float, 1000) + 1
        cuda.GLInterop.from_buffer(buffer).map().upload(values).unmap()
        dr.sync_thread()
        equal(gl.contents(buffer, 1000), values.numpy(), "the buffer of OpenGL")
        return f"a buffer of OpenGL by EGL, of {gl.renderer}"

    yield "OpenGL", shown
