"""The native part of the launcher: the layout of jobs, and the code that worker threads run without
the GIL.

All state is in one control block: a ring of jobs, and a seat per worker or waiter to park on.
Addresses of functions of the interpreter and the C library are stored there as well, so that the
object code, compiled from LLVM IR, contains none and can be kept on disk.
"""

import ctypes
import functools
import sys
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

from drjit.jit.cpu import native_code
from drjit.jit.run import cache

JOBS = 256  # jobs that can be in flight, a power of two
WAITERS = 32  # Python threads that can park in `wait`
WORKERS = 512

_word = ctypes.c_int64


class Job(ctypes.Structure):
    """A launch. `claim` holds the ticket (upper half) and the number of unclaimed blocks, `closed`
    the address of the entry of a kernel that is not compiled yet."""

    _fields_ = [
        (name, _word)
        for name in ("kernel", "finish", "params", "size", "block", "blocks", "threads", "times")
    ] + [("claim", _word), ("done", _word), ("closed", _word), ("_pad", _word * 5)]


class Times(ctypes.Structure):
    """The start and end of a launch, in nanoseconds of `time.perf_counter_ns`, and its duration;
    the total duration of all launches that share this record, and their number.
    """

    _fields_ = [(name, _word) for name in ("start", "end", "last", "total", "launches")]


class JobEntry(ctypes.Structure):
    """What `start` runs: the functions of a kernel, the address of its `Times`, where its parameter
    block begins, and the number of lanes, or 0 if that is given."""

    _fields_ = [(name, _word) for name in ("kernel", "finish", "times", "params", "size")]


class Patch(ctypes.Structure):
    """What `repeat` writes to a parameter block: the address of a word, and the position of the
    argument in bytes."""

    _fields_ = [(name, _word) for name in ("place", "argument")]


class Slot(ctypes.Structure):
    """A word in memory."""

    _fields_ = [("value", _word)]


class _Method(ctypes.Structure):
    """A `PyMethodDef`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    ]


class Seat(ctypes.Structure):
    """Where a thread parks. `state` is nonzero while it may sleep: for waiters, their ticket."""

    _fields_ = [("lock", _word), ("state", _word), ("_pad", _word * 6)]


class Control(ctypes.Structure):
    """The control block; fields that change often have cache lines of their own."""

    _fields_ = [
        *[(name, _word) for name in ("acquire", "release", "relax", "clock", "tick", "spin")],
        ("workers", _word),
        ("submitted", _word),
        ("stop", _word),
        ("integer", _word),
        ("truth", _word),
        ("entered", _word),
        ("left", _word),
        ("_pad1", _word * 2),
        ("completed", _word),
        ("_pad2", _word * 7),
        ("spinning", _word),
        ("parked", _word),
        ("waiting", _word),
        ("_pad3", _word * 5),
        ("jobs", Job * JOBS),
        ("waiters", Seat * WAITERS),
        ("seats", Seat * WORKERS),
    ]


_EXPORTED = frozenset(
    "post open_jobs first_closed run start repeat now halt work wait_for".split()  # noqa: SIM905
)
_CONTENTS = bytes.__basicsize__ - 1  # where the data of bytes begins
Structures = dict[str, type[ctypes.Structure]]
STRUCTURES: Structures = {
    "c": Control, "job": Job, "seat": Seat, "times": Times, "entry": JobEntry, "patch": Patch,
    "slot": Slot,
}  # fmt: skip
CONSTANTS = {
    "JOBS": JOBS, "WAITERS": WAITERS, "WORKERS": WORKERS, "LOW": (1 << 32) - 1,
    "CLOCK": 8 if sys.platform == "darwin" else 1, "CONTENTS": _CONTENTS,
    "ENTRY": ctypes.sizeof(JobEntry), "PATCH": ctypes.sizeof(Patch),
}  # fmt: skip
_METH_O, _METH_FASTCALL = 0x8, 0x80
_functions = None


def functions() -> SimpleNamespace:
    """Returns the compiled functions for ctypes, of which `await_` releases the GIL; the bare
    addresses of those that ctypes does not call."""
    global _functions
    if _functions is None:
        _functions = _load()
    return _functions


def source() -> str:
    """Returns the driver for this platform."""
    clock = native_code.CLOCK_WINDOWS if sys.platform == "win32" else native_code.CLOCK_POSIX
    return clock + native_code.CODE


def _compile(
    source: str,
    structures: Structures,
    constants: dict[str, int],
    exported: Collection[str],
    level: int,
) -> bytes:
    """Returns the machine code of a source in the language of `native_ir`, generated at one of
    LLVM's levels."""
    from drjit.jit.target import image
    from drjit.jit.target.simd import llvm

    from . import native_ir  # not needed if the object code is in the cache

    text = native_ir.module_text(source, structures, constants, frozenset(exported))
    code = llvm.object_code(text, False, in_memory=True, level=level)
    return image.linked(code, sorted(exported))


def addresses(
    source: str,
    structures: Structures,
    constants: dict[str, int],
    exported: Collection[str],
    compiles: bool = True,
    level: int = 2,
) -> dict[str, int]:
    """Returns the addresses of functions of a source, from the disk cache or compiled at one of
    LLVM's levels of code generation; nothing if they are not in the cache and it `compiles`
    nothing."""
    from drjit.jit.target import image

    fields = [
        (name, f, getattr(kind, f).offset)
        for name, kind in structures.items()
        for f, *_ in kind._fields_
    ]
    key = cache.digest(source, "driver", repr(fields), repr(constants))
    entry = cache.get(key)
    if entry is None and not compiles:
        return {}
    code = entry.code if entry else _compile(source, structures, constants, exported, level)
    names = sorted(exported)
    library, found = image.link(code, names)
    if entry is None:
        cache.put(key, source, code, False)
    # Threads may still be inside while the interpreter shuts down: code is never unloaded.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    return dict(zip(names, found, strict=True))


def _load() -> SimpleNamespace:
    # The first launch waits for this: a quarter of the time, and launches take as long as before.
    places = addresses(source(), STRUCTURES, CONSTANTS, _EXPORTED, level=0)
    pointer = ctypes.c_void_p
    job = (pointer, _word, _word, pointer, _word, _word, _word, _word)

    def function(name, factory, result, *arguments):
        return factory(result, *arguments)(places[name])

    return SimpleNamespace(
        post=function("post", ctypes.PYFUNCTYPE, _word, *job, _word, _word),
        open=function("open_jobs", ctypes.PYFUNCTYPE, None, pointer, _word, _word, _word),
        closed=function("first_closed", ctypes.PYFUNCTYPE, _word, pointer),
        run=function("run", ctypes.PYFUNCTYPE, None, *job),
        now=function("now", ctypes.PYFUNCTYPE, _word, pointer),
        halt=function("halt", ctypes.PYFUNCTYPE, None, pointer),
        await_=function("wait_for", ctypes.CFUNCTYPE, _word, pointer, _word, _word, _word),
        start=places["start"],
        repeat=places["repeat"],
        work=places["work"],
    )


def bound(name: str, function: int, *owner: int) -> Callable[..., bool]:
    """Returns native code as a function of Python; its first argument are bytes with the addresses
    `owner`. A call costs a fraction of one by ctypes, which converts each argument."""
    method = _method(name, function, _METH_FASTCALL, None)
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    words = b"".join([place.to_bytes(8, sys.byteorder) for place in owner])
    return create(ctypes.addressof(method), words, None)


def method(cls: type, name: str, function: int, text: str) -> Any:
    """Returns native code as a method of a class with one argument. The text begins with the
    signature, as those of `int.__add__` and the like."""
    create = ctypes.pythonapi.PyDescr_NewMethod
    create.restype, create.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
    return create(cls, ctypes.addressof(_method(name, function, _METH_O, text.encode())))


@functools.cache
def _method(name: str, function: int, flags: int, text: bytes | None) -> _Method:
    made = _Method(name.encode(), function, flags, text)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # functions refer to it
    return made


def start_thread(function: int, argument: int) -> None:
    """Starts a thread that runs native code and is unknown to Python: it is there at once, without
    a turn of its own in the interpreter.

    Raises:
        RuntimeError: the system refuses.
    """
    begin = ctypes.pythonapi.PyThread_start_new_thread
    begin.restype, begin.argtypes = ctypes.c_ulong, (ctypes.c_void_p, ctypes.c_void_p)
    if begin(function, argument) == ctypes.c_ulong(-1).value:
        raise RuntimeError("can't start new thread")


def address_of(function: Any) -> int:
    """Returns the address of a C function."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def new_control(workers: int, first: int, spin_ns: int) -> Control:
    """Creates a control block for `workers` workers, with `first` jobs submitted and complete.

    It is never freed, because a worker stuck in an endless kernel may outlive the interpreter's own
    objects.
    """
    api = ctypes.pythonapi
    api.PyMem_RawCalloc.restype = ctypes.c_void_p
    api.PyMem_RawCalloc.argtypes = (ctypes.c_size_t, ctypes.c_size_t)
    api.PyThread_allocate_lock.restype = ctypes.c_void_p
    api.PyThread_acquire_lock.argtypes = (ctypes.c_void_p, ctypes.c_int)
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
        libc = ctypes.CDLL(None)
        control.relax = address_of(libc.sched_yield)
        control.clock = address_of(libc.clock_gettime)
    control.spin = spin_ns
    control.workers = workers
    control.submitted = control.completed = first
    for seat in (*control.waiters, *control.seats[:workers]):
        seat.lock = api.PyThread_allocate_lock()
        api.PyThread_acquire_lock(seat.lock, 1)
    return control
