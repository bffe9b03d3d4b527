"""`python -m drjit doctor` prints what belongs in a bug report: versions, processor, cache, GPU,
and whether kernels run. `python -m drjit demo` lists examples, and runs one. `python -m drjit
report` runs a program and saves a report of it. `python -m drjit cache` packs compiled kernels for
other machines, and unpacks them there.

Whatever a machine lacks is a line of the report, never an error.
"""

import argparse
import difflib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import drjit
from drjit import _conflict

if not _conflict.is_intact(drjit):
    sys.exit(_conflict.problem(drjit))

import drjit_examples as examples
from drjit.jit import processor, substitutes
from drjit.jit.cpu import plans, runtime, variants
from drjit.jit.device import DeviceUnavailable, find, unavailable_reason
from drjit.jit.native import objects
from drjit.jit.run import cache
from drjit.jit.target import packet_width

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


def python() -> str:
    """Returns Python's version and location, and whether it may run threads without the GIL."""
    found = f"{platform.python_version()} ({sys.executable})"
    if objects.is_free_threaded():
        found += (
            ", a free-threaded build: NOT supported, since threads that trace at the same time may "
            "lose operations; use a standard build of Python"
        )
    return found


def native() -> str:
    """Returns whether the native code that takes over from Python in long programs can be used."""
    if substitutes.SWITCH == "off":
        return "off: DRJIT_NATIVE=off"
    if objects.are_known(plans.OBJECTS):
        return "knows the objects of this Python"
    return "off: it does not know the objects of this Python, so tracing takes longer"


def llvm() -> str:
    """Returns the version of LLVM in llvmlite."""
    from drjit.detail import llvm_version

    return ".".join(map(str, llvm_version()))


def processor_name() -> str:
    """Returns the processor's name according to LLVM and to the operating system."""
    name = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"^model name\s*: (.*)$", cpuinfo.read_text(), re.MULTILINE)
        name = found[1] if found else name
    return f"{processor.target()[0]} ({name or platform.machine()})"


def features() -> str:
    """Returns the vector extensions that kernels may use."""
    present = set(processor.target()[1].split(","))
    return " ".join(f for f in FEATURES if f"+{f}" in present) or "none of those looked for"


def system_memory() -> str:
    """Returns the size of physical memory."""
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB"


def cache_folder() -> str:
    """Returns the folder of the kernel cache, and whether it is writable."""
    folder = cache.info()["folder"]
    if folder is None:
        return f"none, so every process compiles: it {cache.problem} (set DRJIT_CACHE_DIR)"
    return f"{folder} ({'writable' if os.access(str(folder), os.W_OK) else 'NOT writable'})"


def cache_size() -> str:
    """Returns the number and size of what is cached: kernels, programs, and transformed
    functions."""
    info = cache.info()
    return (
        f"{info['entries']} entries, {int(str(info['bytes'])) / 2**20:.1f} MiB "
        f"of at most {int(str(info['maxsize'])) / 2**20:.0f} MiB"
    )


def tier() -> str:
    """Returns the pinned tier, and the environment variables that change the package's
    behaviour."""
    set_ = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("DRJIT_")]
    return f"{variants.pinned} ({', '.join(set_) or 'no DRJIT_ variables set'})"


def gpu() -> str:
    """Returns the GPU on which kernels can run, or what is missing."""
    found: Any = find(drjit.JitBackend.CUDA)
    if found is None:
        return f"not available: {unavailable_reason(drjit.JitBackend.CUDA)}"
    capability = ".".join(map(str, found.capability))
    version = ".".join(map(str, drjit.detail.cuda_version()))
    free, total = (n / 2**30 for n in found.driver.memory_info())
    return (
        f"{found.name}, compute capability {capability}, {found.multiprocessors} multiprocessors, "
        f"{free:.1f} of {total:.1f} GiB free, driver for CUDA {version}"
    )


def ptx() -> str:
    """Returns what turns kernels into PTX, and PTX into machine code."""
    from drjit.jit.cuda import assembler
    from drjit.jit.cuda.discovery import check_llvm

    try:
        check_llvm()
    except DeviceUnavailable as reason:
        return f"not available: {reason}"
    device: Any = find(drjit.JitBackend.CUDA)
    used = device and assembler.tool_of(device)
    tools = [t for t in [used] if isinstance(t, assembler.Tool)] if used else assembler.tools()
    found = [f"{t.name} {'.'.join(map(str, t.version))}" for t in tools]
    code = ", ".join(found) or "the driver (faster: pip install 'drjit-numba[cuda]')"
    return f"made by LLVM; machine code by {code}"


def numba_cuda() -> str:
    """Returns the version of Numba's part for GPUs, in whose programs kernels can be used."""
    from drjit.jit.target.cuda import nvvm

    problem = nvvm.problem()
    return installed("numba-cuda") + (
        f" (only for kernels inside of Numba's CUDA programs: {problem})" if problem else ""
    )


def on_gpu() -> str:
    """Runs a program on the GPU, or on the emulated one if there is none, in another process."""
    emulated = find(drjit.JitBackend.CUDA) is None
    variables = {**os.environ, "DRJIT_CUDA": "emulated"} if emulated else None
    command = [sys.executable, "-c", GPU_TEST, str(TEST_SIZE)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
    if done.returncode:
        return f"FAILED: {done.stderr.strip().splitlines()[-1]}"
    return done.stdout.strip() + (" (emulated)" if emulated else "")


def compute(tier: str) -> str:
    """Runs a kernel in one tier and compares the result with NumPy."""
    import numpy as np

    x = np.arange(TEST_SIZE, dtype=np.float32)
    before, variants.pinned = variants.pinned, tier
    try:
        start = time.perf_counter()
        values = drjit.llvm.Float(x)
        got = (values * values).numpy()
        seconds = time.perf_counter() - start
    finally:
        variants.pinned = before
    if not np.array_equal(got, x * x):
        return f"WRONG: {np.count_nonzero(got != x * x)} of {TEST_SIZE} values"
    return f"ok, {seconds * 1e3:.1f} ms"


SECTIONS: dict[str, dict[str, Callable[[], object]]] = {
    "versions": {
        "drjit": lambda: f"{drjit.__version__} in {Path(__file__).parent}",
        "Dr.Jit": lambda: _conflict.problem(drjit) or "not in this environment",
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
        "lanes": lambda: f"{packet_width.default_lanes()} per packet",
        "threads": lambda: f"{runtime.thread_count()} of {os.cpu_count()} processors",
        "memory": system_memory,
        "GPU": gpu,
        "PTX": ptx,
        "numba.cuda": numba_cuda,
    },
    "kernels": {"tier": tier, "cache": cache_folder, "cached": cache_size},
    "self test": {
        "import": lambda: f"ok, {len(dir(drjit))} names",
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


def listing() -> Iterator[str]:
    """Yields the lines that say which examples there are."""
    yield "python -m drjit demo NAME runs an example; with --help, it prints its options."
    yield f"They are in {Path(examples.__file__).parent}. Times are those of two cores."
    yield ""
    for name, seconds in examples.SECONDS.items():
        yield f"  {name:<20}{seconds:3} s  {examples.summary(name)}"


def demo(name: str, options: list[str]) -> None:
    """Runs an example, or says what has to be installed first."""
    try:
        examples.run(name, options)
    except ModuleNotFoundError as error:
        if error.name not in examples.NEEDED:
            raise
        needed = " ".join(examples.NEEDED)
        sys.exit(f"The example {name} needs {error.name}: python -m pip install {needed}")
    except KeyboardInterrupt:  # while it is imported; it takes care of later ones itself
        sys.exit("Interrupted before there was a result.")


def recorded(parser: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    """Runs a program and saves a report of it; returns the exit status."""
    from drjit.reporting import command, report

    out, options = given.out, given.options
    if out is None and options[-2:-1] == ["--out"]:
        *options, _, out = options
    elif out is None and options and options[-1].startswith("--out="):
        *options, out = options
        out = out.partition("=")[2]
    if not given.module and not Path(given.program).exists():
        parser.error(f"there is no file {given.program!r}")
    try:
        path = report.checked_name(out or "report.html")
    except ValueError as error:
        parser.error(str(error).partition(": ")[2])
    return command.run(given.program, options, path, given.module, given.lanes, given.gradients)


def lane_numbers(text: str) -> str | list[int]:
    """Reads the option `--lanes`."""
    from drjit.reporting import lanes

    try:
        given = text if text == "nan" else [int(part) for part in text.split(",")]
        lanes.chosen(given)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected nan, or up to {lanes.MOST_LANES} lane numbers such as 0,5,9, not {text!r}"
        ) from None
    return given


def moved(how: str, file: str) -> int:
    """Packs or unpacks the kernel cache; returns the exit status."""
    from drjit.function.exchange import kernel_pack

    try:
        print((kernel_pack.pack if how == "pack" else kernel_pack.unpack)(file))
    except (OSError, ValueError) as error:
        print(f"python -m drjit cache: {error}", file=sys.stderr)
        return 1
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(prog="python -m drjit", description="Tools of drjit.")
    parser.add_argument("--version", action="version", version=f"drjit {drjit.__version__}")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser(
        "doctor", help="print what a bug report should say, and test that kernels run"
    )
    demos = commands.add_parser("demo", help="list the examples, or run one")
    demos.add_argument("name", nargs="?", metavar="NAME", help="the example to run")
    demos.add_argument("options", nargs=argparse.REMAINDER, help="options of the example")
    reports = commands.add_parser("report", help="run a program, and save a report of what ran")
    reports.add_argument(
        "--out", metavar="FILE",
        help="report.html by default; a name with .json is a trace for https://ui.perfetto.dev. It "
        "may also come last, after the options of the program",
    )  # fmt: skip
    reports.add_argument("--gradients", action="store_true", help="compute norms of gradients")
    reports.add_argument(
        "--lanes", type=lane_numbers, metavar="LANES",
        help="record all values of these lanes, such as 0,5,9, in one launch of each kernel; "
        "or nan: of the first lane that has one",
    )  # fmt: skip
    reports.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    reports.add_argument("program", metavar="PROGRAM", help="the file to run")
    reports.add_argument("options", nargs=argparse.REMAINDER, help="options of the program")
    caches = commands.add_parser("cache", help="move compiled kernels to other machines")
    caches.add_argument("how", choices=("pack", "unpack"), help="write a file, or add what one has")
    caches.add_argument("file", metavar="FILE", help="its name, which ends with .npz")
    given = parser.parse_args(arguments)
    if given.command == "cache":
        return moved(given.how, given.file)
    if given.command is None:
        parser.print_help()
        return 0
    if given.command == "report":
        return recorded(reports, given)
    if given.command == "demo" and given.name is not None:
        if given.name not in examples.SECONDS:
            meant = difflib.get_close_matches(given.name, examples.SECONDS, 1)
            names = f"did you mean {meant[0]!r}?" if meant else ", ".join(examples.SECONDS)
            demos.error(f"there is no example {given.name!r}: {names}")
        demo(given.name, given.options)
        return 0
    try:
        for line in report() if given.command == "doctor" else listing():
            print(line, flush=True)
    except BrokenPipeError:  # `| head` has seen enough; nor is there anywhere to flush to at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
