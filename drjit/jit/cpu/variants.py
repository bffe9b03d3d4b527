"""The variants of a kernel, and the choice of the one that runs the next launch.

| variant | what runs |
| --- | --- |
| python | the text as Python, lane by lane on single numbers |
| numpy | the text as Python, each statement on NumPy arrays of all lanes |
| baseline | machine code that is ready sooner: on narrow packets, unoptimized, or both |
| optimized | machine code that is compiled at full effort, from the text or by Numba |

All of them give the same results. The first two need no compiler: a new, small kernel runs on
NumPy, if that has been imported, or else as Python, if there are very few lanes. Once the time
spent there would have paid for compiling, or if there is much work, machine code is compiled, or
loaded from the disk cache, which keeps it for later processes: at first a baseline, if the kernel
has a loop or little work, and later, if it turns out to be hot, the optimized variant.

`DRJIT_TIER` pins the choice: to `python` where that is possible and NumPy elsewhere, to `numpy`, or
to the two that are `compiled`. All estimates that the choice depends on are in this file.
"""

import math
import os
import sys
from typing import TYPE_CHECKING

from .. import flags, processor
from ..flags import JitFlag
from ..run import cache
from ..target import packet_width
from ..tuples import NamedTuple

if TYPE_CHECKING:
    from .kernel import CpuKernel

CHOICES = ("auto", "python", "numpy", "compiled")
INTERPRETED = frozenset({"python", "numpy"})
"""The choices that compile nothing."""
pinned: str = os.environ.get("DRJIT_TIER", "auto")
if pinned not in CHOICES:
    raise ValueError(f"DRJIT_TIER={pinned!r}: expected one of {', '.join(CHOICES)}")

# All times are in seconds. On NumPy: a launch, each statement, and each operation on a lane; a
# fused multiply-add takes as long as NUMPY_FUSED other operations.
NUMPY_LAUNCH = 50e-6
NUMPY_STATEMENT = 1.5e-6
NUMPY_LANE = 0.8e-9
NUMPY_FUSED = 20
# As Python: a launch, and each operation on a lane.
PYTHON_LAUNCH = 30e-6
PYTHON_LANE = 2e-6
COMPILE_BASE = 12e-3
COMPILE_STATEMENT = 80e-6
LOAD = 0.2e-3  # a kernel from the disk cache
FIRST_LOAD = 3e-3
PYTHON_BEFORE_LOAD = 0.6e-3  # of Python, after which kernels from the disk cache are loaded
FIRST_USE = 60e-3
# Compiling in the background slows the program down by this fraction of the time.
BACKGROUND = 1 / 16
FIRST_IN_BACKGROUND = 1 / 4  # and loading LLVM, during which Python often waits, by this one

# As long as NumPy has not been imported, small kernels are compiled as well, for up to this many
# seconds: a later process finds them in the cache, and needs no NumPy.
INSTEAD_OF_NUMPY = 3.0

# Up to the first number of lane-operations per statement, code without LLVM's optimization will do.
# From the second on, the optimized variant pays after ten or twenty processes: it is compiled by a
# process that finds a baseline on the disk.
LITTLE_WORK, LONG_WORK = 2_000_000, 1_000_000
# Once launches of a baseline have taken HOT_SECONDS, or there were HOT_LAUNCHES of them, the
# optimized variant is compiled.
HOT_SECONDS = 30e-3
HOT_LAUNCHES = 1000

# Plain numbers: testing for an enumeration member takes ten times as long.
_DEBUG = int(JitFlag.Debug)
FAST_MATH, NUMBA = int(JitFlag.FastMath), int(JitFlag.NumbaCompiler)

compile_seconds = 0.0
"""How long compiling has taken in this process."""
_python_seconds = 0.0  # estimated time that kernels have run as Python


class Variant(NamedTuple):
    """A compiled variant: its key in the disk cache, the packet width, whether it is a baseline,
    and the level of LLVM's code generation, None if that depends on the text."""

    key: str
    lanes: int
    is_baseline: bool = False
    level: int | None = None


def compiler_options() -> int:
    """Returns the flags that determine how a text is compiled."""
    return flags.current & (FAST_MATH | NUMBA)


def key_of(text: str, options: int, lanes: int) -> str:
    """Returns the key of machine code in the disk cache."""
    compiler = ("numba", processor.version_file("numba")) if options & NUMBA else ()
    return cache.digest(text, bool(options & FAST_MATH), lanes, *compiler)


def optimized(kernel: "CpuKernel", options: int) -> Variant:
    """Returns the optimized variant. Finding its packet width takes a while, so the disk cache
    keeps it for later processes."""
    compiler = cache.compiler(), options
    if kernel.variant is not None and kernel.variant[:2] == compiler:
        return Variant(*kernel.variant[2:])
    lanes = packet_width.packet_lanes(kernel.text)
    key = key_of(kernel.text, options, lanes)
    if not options & NUMBA:  # whose version counts as well
        kernel.variant = *compiler, key, lanes
    return Variant(key, lanes)


def candidates(kernel: "CpuKernel", options: int, unoptimized: bool) -> list[Variant]:
    """Returns the compiled variants that may serve, from the optimized one to the one that is
    compiled soonest, which is `unoptimized` if that will do."""
    variants = [optimized(kernel, options)]
    if options & NUMBA:
        return variants
    if kernel.loops:  # narrow packets take half the time to compile
        lanes = packet_width.default_lanes()
        if lanes < variants[0].lanes:
            variants.append(Variant(key_of(kernel.text, options, lanes), lanes, True))
    if unoptimized:
        last = variants[-1]
        variants.append(Variant(f"{last.key}-quick", last.lanes, True, 0))
    return variants


def has_little_work(kernel: "CpuKernel", work: int) -> bool:
    """Returns whether code without LLVM's optimization will do for `work` lane-operations."""
    return pinned == "auto" and work <= LITTLE_WORK * max(kernel.statements, 4)


def has_long_work(kernel: "CpuKernel", work: int) -> bool:
    """Returns whether the optimized variant pays if several processes do this work."""
    return work > LONG_WORK * kernel.statements


def should_optimize(kernel: "CpuKernel") -> bool:
    """Returns whether the optimized variant is worth the time to compile it."""
    return (
        kernel.clock.total * 1e-9 > HOT_SECONDS
        or kernel.launches - kernel.compiled_at > HOT_LAUNCHES
    )


def optimize_if_hot(kernel: "CpuKernel") -> None:
    """Has the optimized variant compiled of a kernel that runs a baseline, if that pays."""
    if kernel.task is None and should_optimize(kernel):
        kernel.submit_optimized()


def prefers_python(kernel: "CpuKernel", lanes: int) -> bool:
    """Returns whether to run the next launch as Python, which new processes do as long as that
    takes less time than importing NumPy or loading machine code; accumulates its cost."""
    if pinned not in ("auto", "python") or flags.current & _DEBUG:
        return False
    if pinned == "auto" and (kernel.address or "numpy" in sys.modules):
        return False
    cost = PYTHON_LAUNCH + kernel.cost * lanes * PYTHON_LANE
    total = _python_seconds + cost
    first = "drjit.jit.target.image" not in sys.modules and total < FIRST_LOAD
    if first and total >= PYTHON_BEFORE_LOAD:
        first = not kernel.is_cached()
    if pinned == "auto" and kernel.estimated_seconds + cost >= LOAD and not first:
        return False
    if kernel.runs_as_python is None:
        from ..target import python

        kernel.runs_as_python = python.handles(kernel.text)
    if kernel.runs_as_python:
        add_python_time(kernel, cost)
    return kernel.runs_as_python


def python_limit() -> float:
    """Returns the seconds after which a loop is no longer worth running as Python."""
    return FIRST_LOAD if pinned == "auto" else math.inf


def add_python_time(kernel: "CpuKernel", seconds: float) -> None:
    """Adds to the time that a kernel has run as Python."""
    global _python_seconds
    kernel.estimated_seconds += seconds
    _python_seconds += seconds


def prefers_numpy(kernel: "CpuKernel", lanes: int) -> bool:
    """Returns whether to run the next launch on NumPy; accumulates its cost."""
    if pinned == "compiled":
        return False
    if pinned in INTERPRETED or flags.current & _DEBUG:
        return True
    if kernel.address or kernel.loops:  # the duration of a loop is unknown
        return False
    if "numpy" not in sys.modules and _avoids_numpy(kernel):
        return False
    cost = kernel.numpy_calls * NUMPY_STATEMENT + kernel.numpy_cost * lanes * NUMPY_LANE
    # The estimate, or the measured time of launches.
    kernel.estimated_seconds = max(
        kernel.estimated_seconds + NUMPY_LAUNCH + cost, kernel.interpreted_seconds
    )
    if kernel.estimated_seconds < LOAD:
        return True
    if kernel.is_cached():
        return False
    # Later processes find what this one compiles, even a kernel that is launched once.
    lasting = cache.is_writable()
    compile_cost = COMPILE_BASE + COMPILE_STATEMENT * kernel.statements
    background_cost = compile_cost * BACKGROUND
    if "llvmlite" not in sys.modules:
        compile_cost += FIRST_USE
        background_cost += 0.0 if lasting else FIRST_USE * FIRST_IN_BACKGROUND
    if kernel.estimated_seconds >= compile_cost:
        return False
    if (task := kernel.task) is not None:
        return not task.done()
    if kernel.estimated_seconds >= background_cost and (lasting or kernel.launches > 1):
        kernel.submit_optimized()
    return True


def _avoids_numpy(kernel: "CpuKernel") -> bool:
    """Returns whether to load the kernel, or to compile it for this and all later processes,
    because importing NumPy would take longer than compiling does in most programs."""
    return kernel.is_cached() or (compile_seconds < INSTEAD_OF_NUMPY and cache.is_writable())
