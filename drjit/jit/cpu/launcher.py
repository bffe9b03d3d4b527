"""The launcher: the queue of jobs, and worker threads that run them without the GIL.

All state is in one control block: a ring of jobs, and a seat per worker or waiter to park on.
Addresses of functions of the interpreter and the C library are stored there as well, so that the
code (`drjit.jit.native.launcher`) contains none and can be kept on disk.
"""

import ctypes
import sys
from typing import Any

from ..native import loader, objects
from ..native.objects import JOBS, WAITERS, WORKERS, address_of
from ..run import cache

__all__ = ["JOBS", "WAITERS", "WORKERS"]

_word = ctypes.c_int64
Times: Any = objects.layout(objects.Times)
Share: Any = objects.layout(objects.Share)
JobEntry: Any = objects.layout(objects.JobEntry)
Control: Any = objects.layout(objects.Control)


class OwnTimes(Times):
    """The times of one launch, which count in those at the address `whole` as well, and what each
    of `workers` and then the calling thread did of it."""

    def __init__(self, whole: int, workers: int = 0) -> None:
        self.whole = whole
        self.parts: Any = ()
        if workers:
            self.parts = (Share * (workers + 1))()
            self.shares = ctypes.addressof(self.parts)


_EXPORTED = (
    "post", "open_jobs", "first_closed", "run", "start", "halt", "work", "wait_for",
)  # fmt: skip

# The first launch waits for this: level 0 takes a quarter of the time, and makes launches no
# slower.
_LEVEL = 0


def cached() -> tuple[str, cache.CachedKernel | None]:
    """Returns the key of the launcher's code in the disk cache, and what that has."""
    key = loader.key_of("launcher", _EXPORTED, level=_LEVEL)
    return key, cache.get(key)


def machine_code() -> bytes | None:
    """Returns the launcher's code, if there is a disk cache to keep it."""
    if cached()[1] is None:
        loader.addresses("launcher", _EXPORTED, level=_LEVEL)
    found = cached()[1]
    return None if found is None else found.code


def code_for_chosen() -> bytes:
    """Returns the launcher's code for the processor that this thread compiles for."""
    return loader.compiled("launcher", _EXPORTED, _LEVEL, None)


_pointer, _sizes = ctypes.c_void_p, (_word,) * 3  # of the range, of a block; number of copies
_TYPES: dict[str, tuple] = {
    "post": (_word, _pointer, _word, _pointer, *_sizes, _word, _word),
    "open_jobs": (None, _pointer, _word, _word, _word),
    "first_closed": (_word, _pointer),
    "run": (None, _pointer, _word, _word, _pointer, *_sizes, _word),
    "halt": (None, _pointer),
    "wait_for": (_word, _pointer, _word, _word, _word),
}
"""The types of the result and the arguments of functions that ctypes calls."""


class Functions:
    """The compiled functions for ctypes, each made when it is first used, since most programs use
    few. Only `wait_for` releases the GIL."""

    def __init__(self) -> None:
        self.addresses = loader.addresses("launcher", _EXPORTED, level=_LEVEL)

    def __getattr__(self, name: str) -> Any:
        if name not in _TYPES:
            raise AttributeError(name)
        result, *arguments = _TYPES[name]
        factory = ctypes.CFUNCTYPE if name == "wait_for" else ctypes.PYFUNCTYPE
        compiled = factory(result, *arguments)(self.addresses[name])
        setattr(self, name, compiled)
        return compiled


def start_thread(function: int, argument: int) -> None:
    """Starts a thread that runs native code and is unknown to Python: it starts at once, without
    having to wait for the interpreter.

    Raises:
        RuntimeError: the system refuses.
    """
    begin = ctypes.pythonapi.PyThread_start_new_thread
    begin.restype, begin.argtypes = ctypes.c_ulong, (ctypes.c_void_p, ctypes.c_void_p)
    if begin(function, argument) == ctypes.c_ulong(-1).value:
        raise RuntimeError("can't start new thread")


def new_control(workers: int, first: int, spin_ns: int) -> Any:
    """Creates a control block for `workers` workers, with `first` jobs submitted and complete, and
    the locks on which they and waiting threads park.

    It is never freed, because a worker stuck in an endless kernel may outlive the interpreter's own
    objects.
    """
    api = ctypes.pythonapi
    api.PyMem_RawCalloc.restype = ctypes.c_void_p
    api.PyMem_RawCalloc.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
    memory = api.PyMem_RawCalloc(1, ctypes.sizeof(Control) + 64)
    if not memory:
        raise MemoryError("No memory for the launcher's control block.")
    control = Control.from_address((memory + 63) // 64 * 64)

    control.integer = address_of(api.PyLong_AsLongLong)
    control.truth = address_of(api.PyBool_FromLong)
    control.acquire = address_of(api.PyThread_acquire_lock_timed)
    control.release = address_of(api.PyThread_release_lock)
    if sys.platform == "win32":
        kernel32 = ctypes.WinDLL("kernel32")
        control.relax = address_of(kernel32.SwitchToThread)
        control.clock = address_of(kernel32.QueryPerformanceCounter)
        frequency = _word()
        kernel32.QueryPerformanceFrequency(ctypes.byref(frequency))
        control.tick = 1_000_000_000 // frequency.value
    else:
        # A library object of its own would have a class of its own.
        control.relax = address_of(api.sched_yield)
        control.clock = address_of(api.clock_gettime)
    control.spin = spin_ns
    control.workers = workers
    control.submitted = control.completed = first
    api.PyThread_allocate_lock.restype = ctypes.c_void_p
    api.PyThread_acquire_lock.argtypes = (ctypes.c_void_p, ctypes.c_int)
    for seat in (*control.waiters, *control.seats[:workers]):
        seat.lock = api.PyThread_allocate_lock()
        api.PyThread_acquire_lock(seat.lock, 1)
    return control
