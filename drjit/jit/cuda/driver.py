"""The driver of NVIDIA GPUs as the rest of the package sees it: `Driver`, in the terms of the CUDA
driver API. `drjit.jit.cuda.libcuda` implements it with the system's library, and
`drjit.jit.cuda.emulated` by interpreting PTX.

Handles of contexts, modules, functions, streams and events are numbers; addresses of memory are as
well. Pinned memory of the host has the same address on the device (unified addressing).
"""
# pyright: reportReturnType=false
# (methods of the protocol have docstrings only)

import enum
import re
from collections.abc import Sequence
from typing import Any, Protocol

OLDEST_CUDA = {80: (12000, 525), 81: (12010, 530), 86: (12070, 565), 87: (12080, 570)}
"""The oldest version of CUDA whose tools and drivers know a version of PTX (see
`drjit.jit.target.cuda.nvptx.version`), and the oldest such driver."""
OLDEST_CAPABILITY = (7, 0)
"""The oldest compute capability of a device, Volta's."""

_AROUND = 2  # lines shown before and after the one of an error


class DeviceAttribute(enum.IntEnum):
    """Attributes of a device, with the numbers of `CUdevice_attribute`."""

    CLOCK_RATE = 13  # in kHz
    MULTIPROCESSORS = 16
    MEMORY_CLOCK_RATE = 36
    MEMORY_BUS_WIDTH = 37  # in bits
    CAPABILITY_MAJOR = 75
    CAPABILITY_MINOR = 76
    MAX_SHARED_PER_BLOCK_OPTIN = 97


_OF_LAUNCHES = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ASSERT", "ECC_UNCORRECTABLE", "HARDWARE_STACK_ERROR", "ILLEGAL_ADDRESS",
        "ILLEGAL_INSTRUCTION", "INVALID_ADDRESS_SPACE", "INVALID_PC", "LAUNCH_FAILED",
        "LAUNCH_TIMEOUT", "MISALIGNED_ADDRESS",
    )
)  # fmt: skip


class CudaError(RuntimeError):
    """A call of the driver that failed. After some errors, such as a kernel's access to an invalid
    address, every call of the process fails.

    `name` and `code` are those of the error, `call` is the function of the driver, and `kernel` the
    name of what was to be launched, or None.
    """

    def __init__(
        self, name: str, text: str, call: str, code: int = 0, kernel: str | None = None
    ) -> None:
        where = f"{call}, kernel {kernel}" if kernel else call
        super().__init__(f"{name}: {text} ({where})")
        self.name, self.code, self.call, self.kernel = name, code, call, kernel

    @property
    def is_out_of_memory(self) -> bool:
        """Whether the device did not have enough memory."""
        return self.name == "CUDA_ERROR_OUT_OF_MEMORY"

    @property
    def is_of_launch(self) -> bool:
        """Whether a kernel failed, which a later call reports."""
        return self.name in _OF_LAUNCHES


def excerpt(problem: str, ptx: str) -> str:
    """Returns the lines of PTX that the message of a compiler names, and those around them."""
    lines = ptx.rstrip("\0").splitlines()
    shown = set()
    for match in re.finditer(r"line (\d+)", problem):
        at = int(match[1])
        shown.update(range(max(1, at - _AROUND), min(len(lines), at + _AROUND) + 1))
    return "".join(f"\n{k:5}  {lines[k - 1]}" for k in sorted(shown))


class Driver(Protocol):
    """Access to GPUs. Methods after `open` refer to the device that was opened and may be called
    from any thread; those with a `stream` return before the work is done.

    Raises:
        CudaError: a call fails, or work that was queued earlier has failed.
    """

    name: str
    emulated = False
    """Whether it stands for a GPU: memory is that of the process, and `load` accepts PTX only."""

    # ---- Devices

    def version(self) -> int:
        """Returns the version of CUDA that the driver supports: 12040 for 12.4."""

    def device_count(self) -> int:
        """Returns the number of devices."""

    def device_name(self, ordinal: int) -> str:
        """Returns the name of a device."""

    def device_attribute(self, ordinal: int, attribute: DeviceAttribute) -> int:
        """Returns a property of a device."""

    def handle(self, ordinal: int) -> int:
        """Returns the driver's number of a device."""
        return ordinal

    def open(self, ordinal: int) -> None:
        """Uses a device from now on, by its primary context, which other libraries share."""

    def memory_info(self) -> tuple[int, int]:
        """Returns the bytes of the device's memory that are free, and all of them."""

    # ---- Memory

    def allocate(self, nbytes: int) -> int:
        """Returns the address of new memory on the device, a multiple of 256."""

    def release(self, address: int) -> None:
        """Frees memory on the device. Waits for queued work."""

    def allocate_host(self, nbytes: int) -> int:
        """Returns the address of new pinned memory of the host, which kernels may access."""

    def copy(self, to: int, source: int, nbytes: int, stream: int) -> None:
        """Copies between memory on the device and pinned memory, in any direction."""

    def fill(self, to: int, value: int, width: int, count: int, stream: int) -> None:
        """Writes the bits of a value `count` times, in `width` bytes each: 1, 2 or 4."""

    def pointer(self, address: int) -> tuple[str, int] | None:
        """Returns where an address is, `"device"` or `"host"`, and the ordinal of the device; None
        for memory that CUDA does not know."""

    # ---- Code

    def load(self, image: bytes) -> int:
        """Loads a module from PTX or machine code (a cubin).

        Raises:
            CudaError: the code is invalid; the message contains the log of the compiler.
        """

    def assemble(self, ptx: str) -> tuple[bytes, str]:
        """Returns machine code for PTX, and what the compiler says about it."""
        raise CudaError("CUDA_ERROR_NOT_SUPPORTED", f"the {self.name} lacks it", "assemble", 801)

    def unload(self, module: int) -> None:
        """Drops a module. Launches of its functions must have ended."""

    def function(self, module: int, name: str) -> int:
        """Returns a function of a module."""

    def set_dynamic_shared(self, function: int, nbytes: int) -> None:
        """Allows launches with up to this much dynamic shared memory, beyond the usual 48 KiB."""

    def tensor_map(
        self, address: int, shape: Sequence[int], strides: Sequence[int], box: Sequence[int]
    ) -> bytes:
        """Returns a map, by which kernels copy boxes of a tensor of halves to shared memory: the
        sizes of its three dimensions, the first of which is consecutive, the bytes from one entry
        to the next of the others, and the sizes of a box, whose rows have 128 bytes."""

    def launch(
        self, function: int, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int,
        stream: int, parameters: bytes, name: str = "",
    ) -> None:  # fmt: skip
        """Queues a launch with a parameter block and `shared` bytes of dynamic shared memory;
        `name` is that of the kernel in errors."""

    # ---- What not every driver has

    def call_optional(self, function: str, *arguments: Any) -> None:
        """Calls a function of the CUDA driver API that not every driver has, in the context that
        was opened.

        Raises:
            CudaError: it fails, or does not exist.
        """
        raise CudaError("CUDA_ERROR_NOT_SUPPORTED", f"the {self.name} lacks it", function, 801)

    # ---- Streams and events

    def create_stream(self) -> int:
        """Returns a new stream, whose work is independent of other streams, including the default
        one."""

    def destroy_stream(self, stream: int) -> None:
        """Drops a stream when its work has ended."""

    def synchronize(self, stream: int) -> None:
        """Waits for all work of a stream. Ctrl-C does not end the wait."""

    def done(self, stream: int) -> bool:
        """Returns whether all work of a stream has ended."""

    def wait_for(self, stream: int, event: int) -> None:
        """Lets later work of a stream wait for an event."""

    def create_event(self, timing: bool = False) -> int:
        """Returns a new event, with or without the time at which it was reached."""

    def destroy_event(self, event: int) -> None:
        """Drops an event."""

    def record(self, event: int, stream: int) -> None:
        """Moves an event to the end of the work that is queued in a stream now."""

    def reached(self, event: int) -> bool:
        """Returns whether the work before an event has ended; True if it was never recorded."""

    def elapsed(self, start: int, end: int) -> float:
        """Returns the milliseconds between two events that have been reached."""


def capability_of(driver: Driver, ordinal: int) -> tuple[int, int]:
    """Returns the compute capability of a device."""
    major = driver.device_attribute(ordinal, DeviceAttribute.CAPABILITY_MAJOR)
    return major, driver.device_attribute(ordinal, DeviceAttribute.CAPABILITY_MINOR)
