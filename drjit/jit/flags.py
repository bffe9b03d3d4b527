"""Compiler flags. `JitFlag` holds the names and values of the public interface; `flag` and
`set_flag` read and write the current set.

The set is a single integer, so hot code tests a bit without a call: `flags.current &
JitFlag.Debug`.
"""

import enum
import os
from collections.abc import Callable

from .enumeration import Named


class JitFlag(Named, enum.IntEnum):
    """Compiler flags; see `set_flag`."""

    Debug = 1
    ReuseIndices = 2
    ConstantPropagation = 4
    FastMath = 8
    ValueNumbering = 16
    SymbolicLoops = 32
    OptimizeLoops = 64
    CompressLoops = 128
    SymbolicCalls = 256
    OptimizeCalls = 512
    MergeFunctions = 1024
    SymbolicConditionals = 2048
    PacketOps = 4096
    ForceOptiX = 8192
    PrintIR = 16384
    KernelHistory = 32768
    LaunchBlocking = 65536
    ForbidSynchronization = 131072
    ScatterReduceLocal = 262144
    SymbolicScope = 524288
    KernelFreezing = 1048576
    FreezingScope = 2097152
    EnableObjectTraversal = 4194304
    ShaderExecutionReordering = 8388608
    SpillToSharedMemory = 16777216
    # Not in the reference: masks out and reports indices beyond the end of an array.
    BoundsChecks = 33554432
    # Not in the reference; with Debug: stops at the first operation that produces a NaN or an
    # infinity.
    TrapNaN = 67108864
    TrapInf = 134217728
    # Not in the reference; with Debug: calls `breakpoint()` at the beginning of every kernel.
    Breakpoint = 268435456
    # Not in the reference: Numba compiles kernels, not the front end of this package alone. Also
    # set by DRJIT_COMPILER=numba.
    NumbaCompiler = 536870912
    # Not in the reference: on GPUs, networks accumulate products of half-precision numbers in half
    # precision, and products in single precision, including `matmul`, round their operands to 11
    # bits (TF32).
    ReducedPrecision = 1073741824
    # Not in the reference: terminals and notebooks show the progress of compilations, recordings
    # and gradient checks that take more than two seconds. Off with DRJIT_PROGRESS=0.
    Progress = 2147483648
    # Not in the reference: tracebacks include the frames of this package. Also set by
    # DRJIT_TRACEBACK=full.
    FullTraceback = 4294967296
    # Not in the reference: launches, compilations and waits are noted for `dr.report`, which sets
    # it.
    Record = 8589934592
    Default = 26484606 | 33554432
    VCallRecord = 256
    VCallOptimize = 512
    VCallDeduplicate = 1024
    LoopRecord = 32
    LoopOptimize = 64
    Recording = 524288


COMPILERS = ("direct", "numba")
_compiler = os.environ.get("DRJIT_COMPILER", "direct")
if _compiler not in COMPILERS:
    raise ValueError(f"DRJIT_COMPILER={_compiler!r}: expected one of {', '.join(COMPILERS)}")

current: int = int(JitFlag.Default)
if _compiler == "numba":
    current |= JitFlag.NumbaCompiler


PROGRESS = ("auto", "0", "1")
progress = os.environ.get("DRJIT_PROGRESS") or "auto"
"""Where progress is shown: in terminals and notebooks, nowhere, or elsewhere as well."""
if progress not in PROGRESS:
    raise ValueError(f"DRJIT_PROGRESS={progress!r}: expected one of {', '.join(PROGRESS)}")
if progress != "0":
    current |= JitFlag.Progress

TRACEBACKS = ("short", "full")
_traceback = os.environ.get("DRJIT_TRACEBACK") or "short"
if _traceback not in TRACEBACKS:
    raise ValueError(f"DRJIT_TRACEBACK={_traceback!r}: expected one of {', '.join(TRACEBACKS)}")
if _traceback == "full":
    current |= JitFlag.FullTraceback


_switches: list[Callable[[bool], None]] = []


def on_debug_switch(switch: Callable[[bool], None]) -> None:
    """Registers a function that is called now, whenever debug mode is switched on or off, and
    whenever a frozen function starts or stops recording. A report that notes lines is like debug
    mode here."""
    _switches.append(switch)
    switch(_notes())


def notify_debug_switches() -> None:
    """Calls the registered functions."""
    for switch in _switches:
        switch(_notes())


lines_are_noted = False
"""Whether a report has the lines of traced values noted, though debug mode is off."""


def note_lines(on: bool) -> None:
    """Begins or ends that."""
    global lines_are_noted
    if on is not lines_are_noted:
        lines_are_noted = on
        notify_debug_switches()


def _notes() -> bool:
    return lines_are_noted or bool(current & JitFlag.Debug)


def on_creation_in_debug_mode(cls: type, note: Callable[[object], None]) -> None:
    """Registers a function to be called with every new object of a class in debug mode. Otherwise,
    nothing is called, because programs create many of these objects.
    """

    def switch(on: bool) -> None:
        if on:
            cls.__init__ = note  # type: ignore[misc]
        elif "__init__" in vars(cls):
            del cls.__init__

    on_debug_switch(switch)


recording: Callable[[], bool] = bool
"""Whether this thread is recording a loop, branch or call; set by `scope`."""


def flag(arg: JitFlag, /) -> bool:
    """Returns whether a flag is set. `JitFlag.SymbolicScope` is set while a loop, branch or call is
    being recorded.

    >>> flag(JitFlag.SymbolicLoops)
    True
    """
    if not isinstance(arg, JitFlag):
        raise TypeError(_not_a_flag(arg))
    if arg is JitFlag.SymbolicScope and recording():
        return True
    return bool(current & arg)


def _not_a_flag(arg: object) -> str:
    return f"expected a flag such as dr.JitFlag.Debug, got {arg!r} of type {type(arg).__name__}"


def set_flag(arg0: JitFlag, arg1: bool, /) -> None:
    """Sets or clears a flag.

    Raises:
        TypeError: the first argument is not a `JitFlag`.

    >>> set_flag(JitFlag.KernelHistory, True); flag(JitFlag.KernelHistory)
    True
    >>> set_flag(JitFlag.KernelHistory, False)
    """
    global current
    if not isinstance(arg0, JitFlag):
        raise TypeError(_not_a_flag(arg0))
    current = current | arg0 if arg1 else current & ~arg0
    if arg0 is JitFlag.Debug:
        notify_debug_switches()


class scoped_set_flag:
    """Context manager that sets a flag and restores its previous value on exit.

    >>> with scoped_set_flag(JitFlag.Debug):
    ...     flag(JitFlag.Debug)
    True
    >>> flag(JitFlag.Debug)
    False
    """

    def __init__(self, flag: JitFlag, value: bool = True) -> None:
        self._flag, self._value = flag, value

    def __enter__(self) -> None:
        self._before = flag(self._flag)
        set_flag(self._flag, self._value)

    def __exit__(self, *_: object) -> None:
        set_flag(self._flag, self._before)
