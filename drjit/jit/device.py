"""Devices: where arrays are kept, kernels run and primitives work. The rest of the compiler knows
only what is declared here; the processor (`drjit.jit.cpu`) is the first device.

A node does not say where it is. A program runs where its data are: buffers, the targets of side
effects, and lane indices refer to their device. A program without any of these consists of
constants, and runs where its caller asks for, by default on the `current` device of the thread.
"""

import ctypes
import threading
from _imp import source_hash  # type: ignore[attr-defined]
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NoReturn

from . import locks, log
from .backend import JitBackend
from .ir.dtype import VECTOR_BLOCK, DType
from .lazy import np
from .tuples import NamedTuple


class Buffer:
    """A block of memory of a `device`. At least `nbytes` bytes from `address` on may be used.

    `owner` is the foreign object that is kept alive, or None. `views` is the number of live host
    arrays that share the memory. `source` is None, or the record of whether the launches that
    produced the data have failed (`run.launch.ErrorRecord`).
    """

    __slots__ = ("__weakref__", "address", "nbytes", "owner", "source", "views")

    device: "Device"
    address: int
    nbytes: int
    owner: object
    source: Any
    views: int

    @property
    def shared(self) -> bool:
        """Whether anything but nodes refers to the memory: foreign objects or host arrays."""
        return self.views != 0 or self.owner is not None

    @property
    def writes_through(self) -> bool:
        """Whether an array of the user owns the memory, and is to see what the program writes to
        single entries."""
        return False


class ErrorWords(NamedTuple):
    """The six words of an error record, of type `int64`, their address, and what keeps them
    alive."""

    words: Any
    address: int
    owner: object = None


class ForeignArray(NamedTuple):
    """An array of another library in the memory of a device.

    The `size` entries of the buffer span it: entry (i, j, ...) is `offset + i*strides[0] + ...`.
    `strides` is None for a dense array.
    """

    buffer: Buffer
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    offset: int
    size: int


Operands = tuple[Sequence, Sequence, Sequence, Sequence]
"""What a kernel takes: nodes as inputs, literals and bounds checks, and the effects by which it
writes to targets."""


class Kernel(ABC):
    """A kernel text as a device runs it, and what its launches cost. `program` is the program from
    which the text was made, without its instructions, and `work` says how much that computes."""

    def __init__(self, device: "Device", text: str, program: Any = None, work: Any = None) -> None:
        self.device, self.text = device, text
        self.name = "k" + source_hash(0, text.encode()).hex()
        self.statements = text.count("\n") - 1
        self.program: Any = program and program._replace(instrs=(), body=())
        if work is None and program is not None:
            work = program.work
        self.work: Any = work
        self.bytecode = b""  # the text as Python has compiled it, if it has
        self.variant: Any = None  # the optimized one, as simple objects for the disk cache
        self.operations = work.instructions if work is not None else 0
        self.fills = work is not None and work.fills
        self.loops = work is not None and work.loops
        self.state = "new"  # new, numpy, memory (compiled in this process), disk (from the cache)
        self.counted = 0  # launches
        self.compiled_at = 0  # the number of the launch that waited for compiling or loading
        self.rendering = 0.0  # seconds that making the text took
        self.seconds = 0.0  # what compiling or loading took

    @property
    def launches(self) -> int:
        """The number of launches so far."""
        return self.counted

    @property
    @abstractmethod
    def tier(self) -> str:
        """What runs the kernel, as reports name it: `python`, `numpy` or `compiled`."""

    @property
    @abstractmethod
    def mean_time(self) -> float:
        """The mean time in seconds of the launches that have ended."""

    def log(self, text: str, *args: Any) -> None:
        """Logs what has been done with the kernel."""
        log.log(log.LogLevel.Info, f"kernel {self.name}: {text}", *args)

    def log_code(self) -> None:
        """Logs that the machine code is ready."""
        how = "loaded" if self.state == "disk" else "compiled"
        self.log("%s in %.1f ms, %d statements", how, self.seconds * 1e3, self.statements)
        log.log(log.LogLevel.Trace, "kernel %s:\n%s", self.name, self.text)

    @property
    def can_be_interrupted(self) -> bool:
        """Whether Ctrl-C may end the next launch between two side effects."""
        return False

    @abstractmethod
    def launch(self, size: int, operands: Operands, record: Any) -> list[Buffer | None]:
        """Queues a launch over `size` lanes. Returns a buffer for each output, None for an effect.
        `record` is None, or has the words that the kernel writes if an index is out of bounds, and
        is checked when the launch is over.
        """

    def begin(self, size: int, operands: Operands) -> list[Any] | None:
        """Launches a small kernel that needs no preparation, in less time than `launch` and with
        the same result; returns None where that is not possible."""
        return None

    def repeated(self, step: Any, general: Callable[[list], None]) -> Callable[[list], None]:
        """Returns a function that launches the kernel for the values of a recording: `general`, or
        something faster for `step`, a `freeze.RecordedLaunch`."""
        return general


class Device(ABC):
    """What runs the programs of one backend. Its methods take its own buffers only."""

    backend: JitBackend

    # ---- Memory

    @abstractmethod
    def allocate(self, nbytes: int) -> Buffer:
        """Returns a buffer of at least `nbytes` bytes for later launches, with undefined
        contents."""

    def allocate_for(self, dtype: DType, size: int) -> Buffer:
        """Returns a buffer for `size` entries, or vectors."""
        return self.allocate(dtype.itemsize * elements(dtype, size))

    @abstractmethod
    def upload(self, values: np.ndarray) -> Buffer:
        """Returns a buffer with a copy of a one-dimensional array."""

    def upload_numbers(self, dtype: DType, values: Sequence) -> Buffer:
        """Returns a buffer with numbers of the type, or floats, which are rounded to it.

        Raises:
            OverflowError: the type does not have one of them.
        """
        with np.errstate(over="ignore"):
            return self.upload(np.array(values, dtype.numpy))

    def filled(self, dtype: DType, size: int, value: Any) -> Buffer:
        """Returns a buffer of equal entries, or vectors."""
        return self.upload(np.full(elements(dtype, size), value, dtype.numpy))

    def adopt(self, values: np.ndarray) -> Buffer | None:
        """Returns a buffer that shares the memory of a host array, or None if that needs a copy."""
        return None

    @abstractmethod
    def copy(self, buffer: Buffer, nbytes: int) -> Buffer:
        """Returns a copy of memory to which no queued launch writes."""

    @abstractmethod
    def download(self, buffer: Buffer, dtype: DType, size: int) -> np.ndarray:
        """Returns the entries, for reading while the buffer is alive. Queued work must have ended
        (`drain`)."""

    def entries(self, buffer: Buffer, dtype: DType, size: int) -> Any:
        """Returns the entries as a sequence of Python numbers; see `download`."""
        return self.download(buffer, dtype, size).tolist()

    def entry(self, buffer: Buffer, dtype: DType, i: int) -> Any:
        """Returns an entry as a Python number; see `download`."""
        return self.download(buffer, dtype, i + 1).item(i)

    @abstractmethod
    def put(self, buffer: Buffer, dtype: DType, at: int, value: float) -> None:
        """Writes an entry. Queued work must have ended."""

    def view(self, buffer: Buffer, dtype: DType, size: int) -> np.ndarray:
        """Returns the entries for users: in shared memory, which counts in `views`, or a copy."""
        return self.download(buffer, dtype, size).copy()

    # ---- Exchange with other libraries

    on_host = False
    """Whether its memory is that of the process, which NumPy can share."""
    dlpack_device = (1, 0)
    """Its type and number according to DLPack."""

    def import_array(self, obj: Any, what: str) -> ForeignArray | None:
        """Returns the array that an object exposes in memory of the device, or None if it is
        elsewhere; `what` is the caller in messages."""
        return None

    def dlpack(
        self, buffer: Buffer, dtype: DType, shape: tuple[int, ...], stream: Any, **options: Any
    ) -> Any:
        """Returns a DLPack capsule for a dense array that is not in memory of the process; see
        `__dlpack__` in the array API standard."""
        raise BufferError("the memory of this backend cannot be shared")

    def export(self, buffer: Buffer, dtype: DType, shape: tuple[int, ...]) -> Any:
        """Returns an object that keeps a dense array alive for other libraries, and describes it
        as `interface`, the value of `__cuda_array_interface__`."""
        raise AttributeError("the memory of this backend cannot be shared")

    # ---- More about memory

    def error_words(self) -> ErrorWords:
        """Returns the words of an error record that kernels can write to: zeros."""
        words = memoryview(bytearray(48)).cast("q")
        return ErrorWords(words, ctypes.addressof(ctypes.c_char.from_buffer(words)))

    def flush_memory(self) -> None:  # noqa: B027
        """Returns unused memory to the system; waits for queued work."""

    def memory_statistics(self) -> dict[str, int]:
        """Returns the bytes `in_use`, at `peak`, and `pooled` for later use."""
        return {"in_use": 0, "peak": 0, "pooled": 0}

    def clear_memory_statistics(self) -> None:  # noqa: B027
        """Resets the peak to the current use."""

    # ---- Kernels

    def threads(self) -> int:
        """Returns how many private copies of a target a scatter-reduction without atomics has."""
        return 1

    sums_in_place = False
    """Whether scatter-reductions need no private copies of their target, in its own type, to be
    fast: they use atomic operations, of which one adds several neighbouring entries."""

    keeps_programs = False
    """Whether texts depend on nothing but what programs compute: then the disk cache keeps the
    texts of known programs."""

    @abstractmethod
    def kernel(self, text: str, program: Any, work: Any = None) -> Kernel:
        """Returns the kernel of a program and its text: one for each text and way to launch it. Of
        a program without instructions, the `work` is given as well."""

    @abstractmethod
    def kernels(self) -> list[Kernel]:
        """Returns all kernels that the device has made."""

    @abstractmethod
    def forget_kernels(self) -> None:
        """Drops every kernel."""

    def can_join(self, step: Any) -> bool:
        """Returns whether a launch of a recording, a `freeze.RecordedLaunch`, can be part of
        a `sequence`."""
        return False

    def sequence(self, steps: Sequence[Any], needed: Collection[int]) -> Callable[[list], bool]:
        """Returns a function that performs launches that `can_join` accepts, one after the other,
        for the values of a recording, and enters the results with the numbers `needed`; or returns
        False, if that is not possible now. It also has the methods `is_ready` and `statements`; see
        `drjit.jit.cpu.sequence`."""
        raise NotImplementedError

    @abstractmethod
    def drain(self) -> None:
        """Waits for queued work; its errors are left for `sync`."""

    @abstractmethod
    def sync(self) -> None:
        """Waits for queued work, and raises the first error in it."""

    @abstractmethod
    def forget_error(self, error: BaseException) -> bool:
        """Keeps `sync` from raising an error that is raised elsewhere; returns whether it had yet
        to be raised."""

    event: "type[Event]"
    """The class of marks in its queue."""

    # ---- Primitives: `n` entries of type `t` in a buffer, with n > 1

    @abstractmethod
    def prefix(
        self, reduce: str, t: DType, n: int, source: Buffer, exclusive: bool, run: int
    ) -> Buffer:
        """Returns the running reductions within runs of `run` entries."""

    @abstractmethod
    def block_reduce(self, reduce: str, t: DType, n: int, source: Buffer, run: int) -> Buffer:
        """Returns the reduction of each run of `run` entries; `n` is a multiple of `run`."""

    @abstractmethod
    def reduce_rows(
        self, reduce: str, t: DType, n: int, source: Buffer, rows: int, columns: int
    ) -> Buffer:
        """Reduces matrices of `rows` by `columns` entries along their columns."""

    @abstractmethod
    def compress(self, n: int, mask: Buffer) -> tuple[Buffer, int]:
        """Returns the `u32` indices at which a mask is true, and their number."""

    @abstractmethod
    def sort(self, t: DType, n: int, keys: Buffer, payload: Buffer | None, bits: int) -> Buffer:
        """Sorts unsigned keys of `bits` bits in increasing order; returns them or, if there is one,
        the `u32` payload in their order. Equal keys keep their order."""

    @abstractmethod
    def matmul(self, t: DType, a: tuple[Buffer, int], b: tuple[Buffer, int], layout: Any) -> Buffer:
        """Returns the products of matrices in buffers of given sizes, as a
        `drjit.jit.primitives.matmul.ProductLayout` says."""


class Event(ABC):
    """A mark in the queue of a device, to wait for the work before it or to measure time.

    Without timing, there is nothing to measure later.

    >>> from drjit.llvm import Event
    >>> start, end = Event(), Event()
    >>> start.record(); end.record()
    >>> end.wait()
    >>> start.elapsed_time(end) >= 0
    True
    """

    __slots__ = ("__weakref__", "_recorded", "_timing")

    def __init__(self, enable_timing: bool = True) -> None:
        self._timing = enable_timing
        self._recorded = False

    @abstractmethod
    def record(self) -> None:
        """Marks this point of the queue; the event is complete when all work queued before it
        is."""

    @abstractmethod
    def query(self) -> bool:
        """Returns whether all work before the event is complete."""

    @abstractmethod
    def wait(self) -> None:
        """Waits for all work before the event."""

    def elapsed_time(self, end_event: "Event") -> float:
        """Returns the milliseconds from this event to another; waits for both.

        Raises:
            RuntimeError: one was not recorded, or was created without timing, or they belong to
                different backends.
            TypeError: the argument is no event.
        """
        what = "Event.elapsed_time()"
        if not isinstance(end_event, Event):
            raise TypeError(f"{what}: expected an Event, got {type(end_event).__name__}.")
        if type(end_event) is not type(self):
            raise RuntimeError(f"{what}: the events belong to different backends.")
        if not (self._timing and end_event._timing):
            raise RuntimeError(f"{what}: both events must have timing enabled.")
        if not (self._recorded and end_event._recorded):
            raise RuntimeError(f"{what}: both events must be recorded first.")
        self.wait()
        end_event.wait()
        return self._milliseconds(end_event)

    @abstractmethod
    def _milliseconds(self, end: Any) -> float:
        """Returns the time to a later event of the same class; both are complete."""

    @property
    @abstractmethod
    def handle(self) -> int:
        """A number that identifies the event: on a GPU, the `CUevent`."""


class DeviceUnavailable(RuntimeError):
    """What is missing to use a device, and how to get it."""


class DeviceMismatch(RuntimeError):
    """A program that was to be computed from arrays of several devices."""


def mismatch(devices: Iterable[Device]) -> DeviceMismatch:
    """Returns the error to raise where arrays of several devices meet."""
    names = ", ".join(sorted(d.backend.name for d in devices))
    return DeviceMismatch(
        f"a computation combines arrays of different backends ({names}), whose memory is apart. "
        "Bring them to one backend first, for example with drjit.llvm.Float(x)."
    )


def common(*buffers: Buffer) -> Device:
    """Returns the device that all buffers are on.

    Raises:
        DeviceMismatch: there are several.
    """
    devices = {b.device for b in buffers}
    if len(devices) > 1:
        raise mismatch(devices)
    return devices.pop()


_devices: dict[JitBackend, Device] = {}
_discoveries: dict[JitBackend, Callable[[], Device]] = {}
_missing: dict[JitBackend, str] = {}


class _ChosenDevice(threading.local):
    device: Device | None = None


chosen = _ChosenDevice()
"""The device that `scope.using` has chosen for this thread, if any."""


def register(device: Device) -> None:
    """Makes a device the one of its backend. The first device is the default."""
    _devices[device.backend] = device


def register_discovery(backend: JitBackend, discover: Callable[[], Device]) -> None:
    """Lets the first use of a backend call `discover`, which returns its device or raises
    `DeviceUnavailable`."""
    _discoveries[backend] = discover


def find(backend: JitBackend) -> Device | None:
    """Returns the device of a backend, or None if it cannot be used (see
    `unavailable_reason`)."""
    device = _devices.get(backend)
    if device is None and backend in _discoveries:
        with locks.lock:  # another thread may be searching
            discover = _discoveries.pop(backend, None)
            if discover is not None:
                try:
                    register(discover())
                except DeviceUnavailable as reason:
                    _missing[backend] = str(reason)
            device = _devices.get(backend)
    return device


def unavailable_reason(backend: JitBackend) -> str:
    """Returns why a backend cannot be used."""
    find(backend)
    return _missing.get(backend, "there is none in this package.")


def devices() -> list[Device]:
    """Returns all registered devices."""
    return [*_devices.values()]


def current() -> Device:
    """Returns the device on which this thread runs programs that consist of constants."""
    return chosen.device or next(iter(_devices.values()))


def raise_first(errors: Sequence[BaseException]) -> NoReturn:
    """Raises the oldest error of launches; the others commonly follow from it."""
    error, *others = errors
    if others:
        error.add_note(f"{len(others)} more kernel launches reported an error.")
    raise error


class Errors(deque[BaseException]):
    """Errors of work that is complete, for a later call to raise."""

    def check(self, check: Callable[[], BaseException | None]) -> None:
        """Calls the check of work that is complete, and keeps its error."""
        try:
            error = check()
        except Exception as raised:
            error = raised
        if error is not None:
            self.append(error)

    def forget(self, error: BaseException) -> bool:
        """Drops an error that is raised elsewhere; returns whether it was there."""
        try:
            self.remove(error)
        except ValueError:
            return False
        return True

    def raise_first(self) -> None:
        """Raises the first error, if there is one, and forgets all."""
        if self:
            errors = [*self]
            self.clear()
            raise_first(errors)

    def warn(self) -> None:
        """Logs errors that nobody has seen."""
        for error in self:
            log.log(log.LogLevel.Warn, "%s (nobody has used the result)", error)
        self.clear()


GRACE_SECONDS = 2.0
"""How long an interrupted wait lets kernels run before it stops their loops."""
STOP_WORD = 5
"""The word of an error record that stops loops: see docs/kernel-language.md."""


def stop_loops(
    interrupt: KeyboardInterrupt, ends: Callable[[float], bool], stop: Callable[[], None]
) -> None:
    """After Ctrl-C, stops the loops of kernels that do not soon end by themselves, so that an
    endless one does not block the process. `ends` waits for some seconds and returns whether all
    have ended."""
    try:
        if ends(GRACE_SECONDS):
            return
    except KeyboardInterrupt:
        pass  # the user does not want to wait any longer
    stop()
    interrupt.add_note(
        "Loops of running kernels were stopped. Arrays that they were computing hold unfinished "
        "values."
    )
    ends(GRACE_SECONDS)


def size_class(nbytes: int) -> int:
    """Returns the capacity of the block for a request: steps of 256 bytes, and above 1024 four per
    octave."""
    if nbytes <= 1024:
        return (nbytes + 255) & ~255 or 256
    shift = (nbytes - 1).bit_length() - 3
    return (((nbytes - 1) >> shift) + 1) << shift


def whole_blocks(size: int) -> int:
    """Rounds a number of lanes up to whole blocks of vectors, which have a row for every
    feature."""
    return -(-size // VECTOR_BLOCK) * VECTOR_BLOCK


def elements(dtype: DType, size: int) -> int:
    """Returns how many elements of memory the values of `size` lanes take."""
    return whole_blocks(size) * dtype.count if dtype.is_vector else size
