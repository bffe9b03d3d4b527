"""What can go wrong in a kernel, as exceptions that say where.

An error is raised in two steps. Whoever notices it (a load, a shuffle, the scheduler) raises a
`Fault`: what happened, and to which of the threads that were executing. The launch, which knows the
kernel's text and the threads' coordinates, turns it into an `EmulatorError`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .parse import Instruction


class EmulatorError(Exception):
    """A mistake in a kernel, in its launch, or in its arguments.

    `kernel`, `line`, `instruction` (of the PTX text), `block`, `thread` (coordinates), `lane` and
    `registers` (values of the first offending thread) are attributes as well as part of the
    message; they are None (or empty) where they make no sense.
    """

    kernel: str | None = None
    line: int | None = None
    instruction: str | None = None
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    lane: int | None = None
    registers: dict[str, str]

    def __init__(self, message: str, **where: Any):
        super().__init__(message)
        self.registers = {}
        self.__dict__.update(where)


class PTXSyntaxError(EmulatorError):
    """The text is not PTX, or names something that it does not declare."""


class UnknownInstruction(EmulatorError):
    """An instruction, or a variant of one, that the emulator does not have."""


class LaunchError(EmulatorError):
    """The size of the grid, of a block, of shared memory or of the parameters is impossible."""


class MemoryLimitExceeded(EmulatorError):
    """The memory has a limit, and the allocation would exceed it."""


class AccessError(EmulatorError):
    """An address is not that of live memory, or not a multiple of the size of the access."""


class OutOfBounds(AccessError):
    """An access outside of all allocations."""


class Misaligned(AccessError):
    """An address that is not a multiple of the size of the access."""


class UseAfterRelease(AccessError):
    """An access to memory that has been released."""


class DivergentCollective(EmulatorError):
    """An instruction of a whole warp or block was not reached by all of the threads it names."""


class Race(EmulatorError):
    """Two threads access the same shared memory with no barrier between, and one of them writes."""


class Deadlock(EmulatorError):
    """Threads wait for something that cannot happen anymore."""


class InvalidTarget(EmulatorError):
    """A jump or call to something that is not code."""


class TrapExecuted(EmulatorError):
    """The kernel executed `trap`, or an assertion failed."""


class Fault(Exception):
    """A mistake that was noticed during execution, before its place is known.

    `lanes` are positions among the threads that execute the current block (the first one is
    reported); `slots` are positions among all threads of the chunk instead.
    """

    def __init__(
        self,
        kind: type[EmulatorError],
        message: str,
        lane: int | None = None,
        slot: int | None = None,
        line: int | None = None,
    ):
        super().__init__(message)
        self.kind, self.message, self.lane, self.slot, self.line = kind, message, lane, slot, line


def first(mask: np.ndarray) -> int | None:
    """The position of the first element that is true."""
    return int(np.flatnonzero(mask)[0]) if np.count_nonzero(mask) else None


def coordinates(index: int, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    """The three coordinates of an element, of which the first one varies fastest."""
    x, y, _ = shape
    return index % x, index // x % y, index // (x * y)


@contextmanager
def located(kernel: str, instruction: "Instruction") -> Iterator[None]:
    """Adds the instruction to errors that have no place yet."""
    try:
        yield
    except EmulatorError as error:
        if error.line is not None:
            raise
        message = f"{error}\n  kernel {kernel}, line {instruction.line}: {instruction.text}"
        raise type(error)(
            message, kernel=kernel, line=instruction.line, instruction=instruction.text
        ) from None
