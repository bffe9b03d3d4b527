"""`python -m drjit doctor` prints what belongs in a bug report: versions, processor, cache, GPU,
and whether kernels run.

Whatever a machine lacks is a line of the report, never an error.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FEATURES = (
    "sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512fp16", "avx512bf16", "neon", "sve",
)  # fmt: skip
TEST_SIZE = 1000
GPU_TEST = """
import sys, time
import numpy as np
import drjit as dr
start, n = time.perf_counter(), int(sys.argv[1])
x = dr.arange(dr.cuda.Float, n)
total, square = dr.sum(x)[0], (x * x).numpy()
right = total == n * (n - 1) / 2 and np.array_equal(square, np.arange(n, dtype="f") ** 2)
print(f"ok, {(time.perf_counter() - start) * 1e3:.1f} ms" if right else "WRONG values")
"""


def attempt(probe: Callable[[], object]) -> str:
    """Returns what a probe found, or why it found nothing."""
    try:
        return str(probe())
    except Exception as error:
        return f"unknown ({type(error).__name__}: {error})"


def installed(name: str) -> str:
    """Returns the version of an installed distribution without importing it."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def values_of(file: Path, key: str) -> list[str]:
    """Returns the values of a key in a file of `key: value` lines."""
    lines = file.read_text().splitlines()
    return [line.partition(":")[2].strip() for line in lines if line.startswith(key)]


def own_version() -> str:
    """Returns this package's version and location."""
    import drjit

    return f"{drjit.__version__} in {Path(__file__).parent}"


def python() -> str:
    """Returns Python's version and location, and whether it may run threads without the GIL."""
    from drjit.jit.native import objects

    found = f"{platform.python_version()} ({sys.executable})"
    if objects.is_free_threaded():
        found += (
            ", a free-threaded build: NOT supported, since threads that trace at the same time may "
            "lose operations; use a standard build of Python"
        )
    return found


def native() -> str:
    """Returns whether the native code that takes over from Python in long programs can be used."""
    from drjit.jit import substitutes
    from drjit.jit.cpu import plans
    from drjit.jit.native import objects

    if substitutes.SWITCH == "off":
        return "off: DRJIT_NATIVE=off"
    if objects.are_known(plans.OBJECTS):
        return "knows the objects of this Python"
    return "off: it does not know the objects of this Python, so tracing takes longer"


def llvm() -> str:
    """Returns the version of LLVM in llvmlite."""
    from drjit.jit.target import simd

    return simd.llvm_version()


def processor_name() -> str:
    """Returns the processor's name according to LLVM and to the operating system."""
    from drjit.jit import processor

    name = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        name = next(iter(values_of(cpuinfo, "model name")), name)
    return f"{processor.target()[0]} ({name or platform.machine()})"


def features() -> str:
    """Returns the vector extensions that kernels may use."""
    from drjit.jit import processor

    present = set(processor.target()[1].split(","))
    return " ".join(f for f in FEATURES if f"+{f}" in present) or "none of those looked for"


def lanes() -> str:
    """Returns the number of lanes per packet."""
    from drjit.jit.target import packet_width

    return f"{packet_width.default_lanes()} per packet"


def threads() -> str:
    """Returns the number of threads that run kernels."""
    from drjit.jit.cpu import runtime

    return f"{runtime.thread_count()} of {os.cpu_count()} processors"


def system_memory() -> str:
    """Returns the size of physical memory."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return f"{pages * page / 2**30:.1f} GiB"


def cache_folder() -> str:
    """Returns the folder of the kernel cache, and whether it is writable."""
    from drjit.jit.run import cache

    folder = cache.info()["folder"]
    if folder is None:
        return f"none, so every process compiles: it {cache.problem} (set DRJIT_CACHE_DIR)"
    return f"{folder} ({'writable' if os.access(str(folder), os.W_OK) else 'NOT writable'})"


def cache_size() -> str:
    """Returns the number and size of what is cached: kernels, programs, and transformed
    functions."""
    from drjit.jit.run import cache

    info = cache.info()
    return (
        f"{info['entries']} entries, {int(str(info['bytes'])) / 2**20:.1f} MiB "
        f"of at most {int(str(info['maxsize'])) / 2**20:.0f} MiB"
    )


def tier() -> str:
    """Returns the pinned tier, and the environment variables that change the package's
    behaviour."""
    from drjit.jit.cpu import variants

    set_ = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("DRJIT_")]
    return f"{variants.pinned} ({', '.join(set_) or 'no DRJIT_ variables set'})"


def gpu() -> str:
    """Returns the GPU on which kernels can run, or what is missing."""
    import drjit
    from drjit.jit.device import find, missing

    found: Any = find(drjit.JitBackend.CUDA)
    if found is None:
        return f"not available: {missing(drjit.JitBackend.CUDA)}"
    capability = ".".join(map(str, found.capability))
    version = ".".join(map(str, drjit.detail.cuda_version()))
    free, total = (n / 2**30 for n in found.driver.memory_info())
    return (
        f"{found.name}, compute capability {capability}, {found.multiprocessors} multiprocessors, "
        f"{free:.1f} of {total:.1f} GiB free, driver for CUDA {version}"
    )


def ptx() -> str:
    """Returns what makes PTX of kernels, and machine code of PTX."""
    from drjit.jit.cuda.assembler import tools
    from drjit.jit.cuda.discovery import check_llvm
    from drjit.jit.device import DeviceUnavailable

    try:
        check_llvm()
    except DeviceUnavailable as missing:
        return f"not available: {missing}"
    found = [f"{t.name} {'.'.join(map(str, t.version))}" for t in tools()]
    code = ", ".join(found) or "the driver (faster: pip install 'drjit-numba[cuda]')"
    return f"made by LLVM; machine code by {code}"


def numba_cuda() -> str:
    """Returns the version of Numba's part for GPUs, in whose programs kernels can be used."""
    found = installed("numba-cuda")
    hint = (
        " (only for kernels inside of Numba's CUDA programs: pip install 'drjit-numba[numba-cuda]')"
    )
    return found + (hint if found == "not installed" else "")


def on_gpu() -> str:
    """Runs a program on the GPU, or on the emulated one if there is none, in another process."""
    import drjit
    from drjit.jit.device import find

    emulated = find(drjit.JitBackend.CUDA) is None
    variables = {**os.environ, "DRJIT_CUDA": "emulated"} if emulated else None
    command = [sys.executable, "-c", GPU_TEST, str(TEST_SIZE)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
    if done.returncode:
        return f"FAILED: {done.stderr.strip().splitlines()[-1]}"
    return done.stdout.strip() + (" (emulated)" if emulated else "")


def compute(tier: str) -> str:
    """Runs a kernel in one tier and compares the result with NumPy."""
    import time

    import numpy as np

    from drjit.jit.cpu import runtime, variants
    from drjit.jit.ir import dtype, node, op
    from drjit.jit.run import launch, schedule

    x = np.arange(TEST_SIZE, dtype=np.float32)
    before, variants.pinned = variants.pinned, tier
    try:
        start = time.perf_counter()
        values = node.buffer(dtype.f32, TEST_SIZE, launch.from_numpy(dtype.f32, x))
        square = node.apply(op.mul, values, values)
        schedule.evaluate([square])
        got = launch.to_numpy(dtype.f32, TEST_SIZE, square.data).copy()
        seconds = time.perf_counter() - start
        runtime.sync()
    finally:
        variants.pinned = before
    if not np.array_equal(got, x * x):
        return f"WRONG: {np.count_nonzero(got != x * x)} of {TEST_SIZE} values"
    return f"ok, {seconds * 1e3:.1f} ms"


def imports() -> str:
    """Imports the whole package."""
    import drjit

    return f"ok, {len(dir(drjit))} names"


SECTIONS: dict[str, dict[str, Callable[[], object]]] = {
    "versions": {
        "drjit": own_version,
        "Python": python,
        "NumPy": lambda: installed("numpy"),
        "Numba": lambda: installed("numba"),
        "llvmlite": lambda: installed("llvmlite"),
        "LLVM": llvm,
        "native": native,
        "system": platform.platform,
    },
    "machine": {
        "processor": processor_name,
        "features": features,
        "lanes": lanes,
        "threads": threads,
        "memory": system_memory,
        "GPU": gpu,
        "PTX": ptx,
        "numba.cuda": numba_cuda,
    },
    "kernels": {"tier": tier, "cache": cache_folder, "cached": cache_size},
    "self test": {
        "import": imports,
        "NumPy tier": lambda: compute("numpy"),
        "compiled": lambda: compute("compiled"),
        "GPU": on_gpu,
    },
}


def report() -> Iterator[str]:
    """Yields the lines of the report."""
    for title, probes in SECTIONS.items():
        yield title
        for name, probe in probes.items():
            yield f"  {name:<12}{attempt(probe)}"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m drjit", description="Tools of drjit.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "doctor", help="print what a bug report should say, and test that kernels run"
    )
    parser.parse_args(arguments)
    for line in report():
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
