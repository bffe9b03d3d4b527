"""The execution environment: available backends and memory."""

from ...array import table
from ...array.meta import BACKENDS, JitBackend
from ...jit.device import Event, devices, find
from ...jit.trace import access


class _NoEvent(Event):
    """Stands for the class of events of a backend that is not available."""

    def __new__(cls, enable_timing: bool = True) -> "_NoEvent":
        table.missing_cuda("drjit.cuda.Event()")


def _event(namespace: str) -> type:
    """Returns the class `Event` of a namespace with traced arrays."""
    if namespace == "scalar":
        raise AttributeError("module 'drjit.scalar' has no type 'Event': nothing is queued there")
    device = find(BACKENDS[namespace.partition(".")[0]])
    return _NoEvent if device is None else device.event


table.extras["Event"] = _event


def has_backend(arg: JitBackend, /) -> int:
    """Returns whether arrays of a backend can be used on this machine, as 1 or 0.

    >>> dr.has_backend(dr.JitBackend.LLVM)
    1
    """
    if not isinstance(arg, JitBackend):
        raise TypeError(f"dr.has_backend(): expected a backend, got {arg!r}")
    if arg is JitBackend.Invalid:
        raise RuntimeError(f"dr.has_backend(): {arg} stands for no backend")
    return int(find(arg) is not None)


def flush_malloc_cache() -> None:
    """Returns unused memory of all backends to the system; waits for queued work.

    >>> dr.flush_malloc_cache()
    """
    for device in devices():
        device.flush_memory()


def expand_threshold() -> int:
    """Returns the largest target, in entries, for which scatter-reductions use a private copy per
    thread. All copies together have at most 64 MiB, unless `ReduceMode.Expand` is asked for.

    >>> before = dr.expand_threshold()
    >>> dr.set_expand_threshold(1000); dr.expand_threshold()
    1000
    >>> dr.set_expand_threshold(before)
    """
    return access.expand_threshold


def set_expand_threshold(arg: int, /) -> None:
    """Sets the largest target for which scatter-reductions use private copies; see
    `expand_threshold`.
    """
    if not isinstance(arg, int) or arg < 0:
        raise TypeError(f"dr.set_expand_threshold(): expected a non-negative integer, got {arg!r}")
    access.expand_threshold = arg


def get_cmake_dir() -> str:
    """Always raises a RuntimeError, because this package has no C++ headers and libraries to
    build against."""
    raise RuntimeError(
        "dr.get_cmake_dir(): this package is written in Python and has no C++ headers or libraries "
        "that a CMake project could use"
    )
