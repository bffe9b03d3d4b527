"""Launches: what they have in common on all devices, which is how errors in kernels come to light,
and how the host gets data into buffers and out of them.
"""

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from .. import device, flags
from ..device import Buffer, Device, ErrorWords, Kernel, Operands, elements
from ..flags import JitFlag
from ..ir import dtype as dt
from ..ir.dtype import DType
from ..ir.location import describe
from ..lazy import np
from ..target.foreign import ForeignFunction
from ..text.program import effect_words
from . import events

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # `signal` makes enumerations of all its constants

_BLOCKING = int(JitFlag.LaunchBlocking)  # a plain number is tested faster than an enumeration

# How `struct` spells a literal in a word of the parameter block.
_FORMAT = {
    dt.mask: "?7x", dt.i8: "q", dt.u8: "Q", dt.i16: "q", dt.u16: "Q", dt.i32: "q", dt.u32: "Q",
    dt.i64: "q", dt.u64: "Q", dt.f16: "e6x", dt.f32: "f4x", dt.f64: "d",
}  # fmt: skip

on_read: Callable[[], None] | None = None
"""Called before the host reads what kernels computed; set by `freeze`."""

on_change: Callable[[Any, Any], None] | None = None
"""Called before an array gets another value, variable or gradient, with the array and its node;
with None and a node before the memory of that is written, and with another object and None before
its arrays are replaced; set by `freeze`. While there is one, native code leaves changes to
Python."""


def changing(owner: Any) -> None:
    """Declares that other arrays are about to become the state of an object."""
    if on_change is not None:
        on_change(owner, None)


class ErrorRecord:
    """The error record of one launch, and the message if a kernel wrote to it.

    Everything written by a launch, or computed from that, refers to the record (`Buffer.source`),
    because its `error` is raised where the data is read. `above` are the records of what the launch
    has read.
    """

    __slots__ = ("_owner", "above", "address", "checks", "device", "done", "error", "words")

    def __init__(
        self, at: Device, checks: Sequence[tuple[tuple, DType]], words: ErrorWords | None = None
    ) -> None:
        self.device = at
        self.words, self.address, self._owner = words or at.error_words()
        self.checks = checks
        self.above: tuple[ErrorRecord, ...] = ()
        self.done = False
        self.error: Exception | None = None

    def settled(self) -> bool:
        """Whether the launch and those before it have ended without an error."""
        if self.above and all(r.settled() for r in self.above):
            self.above = ()
        return self.done and self.error is None and not self.above

    def failures(self) -> list[Exception]:
        """Returns the errors that have not been raised yet and must be raised now."""
        found = [error for r in self.above for error in r.failures()]
        error, self.error, self.above = self.error, None, ()
        return [*found, error] if error is not None and self.device.forget_error(error) else found

    def check(self) -> Exception | None:
        """Marks the launch as ended. Returns an error if an index was out of bounds, or a function
        that it calls raised an exception."""
        self.done = True
        flag, site, index, _, lane, _ = self.words.tolist()
        if not flag:
            return None
        self.words[0] = 0
        (_, what, location, signed, size, packet), dtype = self.checks[site]
        if type(what) is ForeignFunction:  # which returned the number of an exception
            self.error = what.error(index, lane, describe(location))
            return self.error
        if not signed:
            index = ctypes.c_uint64(index).value
        elif dtype is dt.u32 and index >= 1 << 31:
            index -= 1 << 32
        self.error = OutOfBoundsError(
            f"{out_of_bounds(what, index, size, packet)} "
            f"(lane {lane}; at {describe(location)}). The entry was skipped."
        )
        return self.error


def is_settled(b: Buffer) -> bool:
    """Whether what made the contents of a buffer has ended without an error; forgets what has."""
    if not b.source.settled():
        return False
    b.source = None
    return True


def checked(checks: Iterable) -> list[tuple[tuple, DType]]:
    """Returns what an error record says about bounds checks."""
    return [(c.data, c.deps[0].dtype) for c in checks]


def link(
    read: Sequence[Buffer], made: Sequence[Buffer | None], changed: Sequence[Buffer] = (),
    own: ErrorRecord | None = None,
) -> None:  # fmt: skip
    """Links what a launch has made and changed to its own record, or to the records of what it has
    read."""
    if own is None and not changed:
        for b in read:
            if b.source is not None:
                break
        else:
            return
    source = _source(own, [*read, *changed])
    if source is not None:
        for b in (*made, *changed):
            if b is not None:
                b.source = source


def _source(own: ErrorRecord | None, buffers: Iterable[Buffer]) -> ErrorRecord | None:
    """Returns the record for the output of a launch that reads from buffers, and may itself contain
    checks."""
    above: dict[ErrorRecord, None] = {}
    for b in buffers:
        if b.source is not None and not is_settled(b):
            above[b.source] = None
    if own is None and len(above) <= 1:
        return next(iter(above), None)
    if own is None:
        own = ErrorRecord(next(iter(above)).device, [])
        own.done = True
    own.above = tuple(above)
    return own


class OutOfBoundsError(IndexError, RuntimeError):
    """An index is out of bounds; also a `RuntimeError`, because some programs expect that."""


_DETAILS = {
    "dr.switch": (
        ": it must be strictly smaller than that (where functions are counted from 1: "
        "out-of-bounds callable ID {next_index} (must be < {next_size}).)"
    ),
    "dr.Local.read": ": out of bounds read (source size={size}, offset={index})",
    "dr.Local.write": ": out of bounds write (target size={size}, offset={index})",
}


def out_of_bounds(what: str, index: int, size: int, packet: int, noun: str = "an array") -> str:
    """Returns the message for an index beyond the end of an array, or of its packets of `packet`
    entries."""
    details = next((text for name, text in _DETAILS.items() if what.startswith(name)), "").format(
        index=index, size=size, next_index=index + 1, next_size=size + 1
    )
    holds = f"{noun} of size {size}{details}"
    if packet > 1:
        count = size // packet
        holds += f", which holds {count} packet{'' if count == 1 else 's'} of {packet} entries"
    return f"{what}: index {index} is out of bounds for {holds}"


def layout_of(program: Any) -> str:
    """Returns the parameter block of a program in the notation of `struct`."""
    pointers = "Q" * (program.words - 1 - len(program.inputs) - len(program.literals))
    literals = "".join([_FORMAT[t] for t in program.literals])
    return "Q" + "Q" * len(program.inputs) + literals + pointers


def as_python(
    program: Any,
    size: int,
    operands: Operands,
    record: ErrorRecord | None,
    given: Callable[[DType, int, Any], np.ndarray],
    changed: Callable[[Any], np.ndarray],
    made: Callable[[DType, int], tuple[Any, np.ndarray]],
) -> tuple[list[Any], list[Any]]:
    """Returns the parameters of a kernel that runs as Python, and its outputs, None for an effect.

    `operands` and the record are those of `Kernel.launch`. `given` returns the elements of an
    input, `changed` those of an effect's target, and `made` an output for some elements, with
    these.
    """
    inputs, literals, checks, targets = operands
    p: list[Any] = [np.asarray(record.words) if record else None]
    p += [given(n.dtype, elements(n.dtype, n.size), n.data) for n in inputs]
    p += [n.dtype.scalar(n.data) for n in literals]
    p += [c.data[0] for c in checks]
    for e in targets:
        p.append(changed(e))
        p += [None, e.size][: effect_words(e.mode) - 1]
    outputs: list[Any] = []
    for o in program.outputs:
        outputs.append(None)
        if o.kind != "effect":
            outputs[-1], values = made(o.dtype, elements(o.dtype, size if o.kind == "store" else 1))
            p += [None] * (o.kind == "reduce")
            p.append(values)
    return p, outputs


def run(kernel: Kernel, size: int, operands: Operands) -> list[Buffer | None]:
    """Launches a kernel over `size` lanes; returns a buffer per output (None for an effect)."""
    short = kernel.begin(size, operands)
    if short is not None:
        return short
    inputs, _, checks, targets = operands
    record = None
    if checks or kernel.loops:
        record = ErrorRecord(kernel.device, checked(checks))
    kernel.counted += 1
    sink = events.sink
    after = None if sink is None else sink.launching(kernel, size, operands)
    outputs = kernel.launch(size, operands, record)
    if after is not None:
        after(outputs)
    own = record if checks else None
    link([n.data for n in inputs], outputs, [e.buffer for e in targets], own)
    if flags.current & _BLOCKING:
        kernel.device.sync()
    return outputs


@contextmanager
def interrupts_postponed() -> Iterator[None]:
    """Postpones a first Ctrl-C to the end of a block that must not stop half-way, such as updates
    of arrays that a second attempt would repeat; a second one takes effect immediately."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield  # Python handles signals in the main thread only
        return
    received: list[tuple[int, FrameType | None]] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append((number, frame))
        if len(received) > 1:
            before(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if len(received) == 1:
            before(*received[0])


def to_numpy(dtype: DType, size: int, buffer: Buffer) -> np.ndarray:
    """The finished data of a buffer, for use while the buffer is alive (see `view` for users)."""
    await_data(buffer)
    return buffer.device.download(buffer, dtype, size)


def entries(dtype: DType, size: int, buffer: Buffer) -> Any:
    """The finished data of a buffer as a sequence of Python numbers; see `to_numpy`."""
    await_data(buffer)
    return buffer.device.entries(buffer, dtype, size)


def entry(dtype: DType, i: int, buffer: Buffer) -> Any:
    """An entry of the finished data of a buffer as a Python number; see `to_numpy`."""
    place = buffer.device
    if on_read is None and buffer.source is None:  # the short way of `await_data`
        place.drain()
    else:
        await_data(buffer)
    return place.entry(buffer, dtype, i)


def view(dtype: DType, size: int, buffer: Buffer) -> np.ndarray:
    """The finished data of a buffer as an array for users, which shares memory if the device can
    do that."""
    await_data(buffer)
    return buffer.device.view(buffer, dtype, size)


def put(dtype: DType, buffer: Buffer, at: int, value: float) -> None:
    """Writes an entry of a buffer that nothing else uses."""
    await_data(buffer)
    buffer.device.put(buffer, dtype, at, value)


def await_data(buffer: Buffer) -> None:
    """Waits for all kernels, so that the host can read what they computed.

    Raises:
        IndexError: an index was out of bounds in the kernel that computed the data, or in one
            before it.
    """
    if on_read is not None:
        on_read()
    buffer.device.drain()
    if buffer.source is not None:
        errors = buffer.source.failures()
        buffer.source = None
        if errors:
            device.raise_first(errors)


def from_numpy(dtype: DType, array: np.ndarray, to: Device | None = None) -> Buffer:
    """Returns a buffer with a copy of a one-dimensional array, converted to the element type."""
    return (to or device.current()).upload(array.astype(dtype.numpy, copy=False))
