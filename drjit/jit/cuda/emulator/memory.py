"""The memory of the emulated device: allocations in the memory of this process, at real addresses.

Kernels compute with addresses as they would on a device. Every access of theirs is compared with
the list of live allocations: one beyond an end, or in memory that has been released, is a fault
that names the nearest allocation. Fresh memory is filled with a pattern (0xCB) rather than with
zeros, so that a kernel that forgets to initialise something computes nonsense.
"""

import bisect
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from . import errors
from .errors import EmulatorError, Fault, first
from .numeric import flush

ALIGNMENT = 256
POISON = 0xCB
# Released memory is kept for a while, so that its addresses are not given out again at once.
_QUARANTINE = 1 << 26

_BASE = 4096
# An address below this comes from a null pointer, even if memory begins not far above it, as in
# some interpreters.
_NULL = 1 << 16


class _Everything:
    """All of this process's memory as one array of bytes."""

    __array_interface__ = {  # noqa: RUF012
        "version": 3,
        "typestr": "|u1",
        "shape": ((1 << 47) - _BASE,),
        "data": (_BASE, False),
    }


class Flat:
    """Memory as elements of a type, or rows of them: gathers and scatters by index.

    It does not show the array itself: printing that would read from addresses where there is
    nothing.
    """

    __slots__ = ("_array",)

    def __init__(self, array: np.ndarray):
        self._array = array

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        return self._array[index]

    def __setitem__(self, index: np.ndarray, values: np.ndarray) -> None:
        self._array[index] = values

    def update(self, ufunc: Any, index: np.ndarray, values: np.ndarray) -> None:
        """Applies a function to elements, one index after the other."""
        # Not `ufunc.at(self._array, ...)`, which would copy an array that overlaps with others.
        unique, inverse = np.unique(index, return_inverse=True)
        elements = self._array[unique]
        ufunc.at(elements, inverse, values)
        self._array[unique] = elements

    def part(self, start: int, end: int) -> np.ndarray:
        """Existing elements, as an array that shares their memory."""
        return self._array[start:end]


_bytes = Flat(np.asarray(_Everything()))
_flat: dict[Any, Flat] = {}
_MINUS_BASE = np.array([(1 << 64) - _BASE], np.uint64)
_SHIFTS = {1 << k: np.array([k], np.uint64) for k in range(7)}


def flat(dtype: Any, count: int = 1) -> Flat:
    """The process's memory as elements of a type, or as rows of `count` elements."""
    view = _flat.get((dtype, count))
    if view is None:
        array = _bytes.part(0, (1 << 47) - 2 * _BASE).view(dtype)
        view = _flat[dtype, count] = Flat(array if count == 1 else array.reshape(-1, count))
    return view


def flat_index(address: np.ndarray, width: int) -> np.ndarray:
    """The indices into `flat` of addresses (uint64) that are multiples of `width` bytes."""
    return ((address + _MINUS_BASE) >> _SHIFTS[width]).view(np.int64)


def new_bytes(nbytes: int, value: int) -> np.ndarray:
    """New bytes that begin at a multiple of `ALIGNMENT`, and some unused ones behind them."""
    owner = np.full(nbytes + 2 * ALIGNMENT, value, np.uint8)
    return owner[-owner.ctypes.data % ALIGNMENT :]


# Atomic operations on many addresses at once are done as if by one thread after the other. The
# order, that of the threads, matters for floating-point sums and for the old values that threads
# see; on a device, it can be any.

_UFUNCS: dict[str, Any] = {
    "add": np.add,
    "add.ftz": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": None,
    "cas": None,
}


def _add_flushed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return flush(flush(a) + flush(b))


def _is_tiny(x: np.ndarray) -> bool:
    """Returns whether sums of numbers may be subnormal: if all are far from it, or 0, so are the
    differences of any two."""
    size = np.abs(x)
    return bool(np.count_nonzero((size > 0) & (size < 2.0**-102)))


def update(
    memory: Flat, index: np.ndarray, operation: str, values: tuple[np.ndarray, ...], returns: bool
) -> tuple[Any, bool]:
    """Applies an operation to `memory[index]`; the old values, and whether anything changed."""
    ufunc, each = _UFUNCS[operation], False
    if operation == "add.ftz" and (_is_tiny(values[0]) or _is_tiny(memory[index])):
        ufunc, each = _add_flushed, True  # one number for each address at a time
    if not returns and not each and operation not in ("exch", "cas"):
        memory.update(ufunc, index, values[0])
        return None, True
    exchanges = operation == "exch"
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    _, starts, counts = np.unique(ordered, return_index=True, return_counts=True)
    old = np.empty(len(index), values[0].dtype)
    if operation == "cas":
        return _compare_and_swap(memory, ordered, order, starts, counts, values, old)
    changed = False
    if len(starts) < counts.max() and not each:  # one accumulation for each address
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            lanes = order[start : start + count]
            at = index[lanes[:1]]
            chain = np.concatenate((memory[at], values[0][lanes]))
            chain = chain if exchanges else ufunc.accumulate(chain)
            old[lanes] = chain[:-1]
            memory[at] = chain[-1:]
            changed |= bool(chain[0] != chain[-1])
        return old, changed
    rank = np.arange(len(index)) - np.repeat(starts, counts)
    by_rank = np.argsort(rank, kind="stable")
    ends = np.cumsum(np.bincount(rank))
    begin = 0
    for end in ends:
        lanes = order[by_rank[begin:end]]
        begin, at = end, index[lanes]
        old[lanes] = before = memory[at]
        after = values[0][lanes]
        memory[at] = after = after if exchanges else ufunc(before, after)
        changed |= bool(np.count_nonzero(before != after))
    return old, changed


def _compare_and_swap(
    memory: Flat, index: np.ndarray, order: np.ndarray, starts: np.ndarray, counts: np.ndarray,
    values: tuple[np.ndarray, ...], old: np.ndarray,
) -> tuple[np.ndarray, bool]:  # fmt: skip
    """One step for each thread that succeeds; between them, all threads see the same value."""
    expected, new = values[0][order], values[1][order]
    n = len(order)
    positions = np.arange(n)
    segment = np.repeat(np.arange(len(starts)), counts)
    current = memory[index[starts]]
    initial = current.copy()
    begin = starts.copy()
    seen = np.empty_like(expected)
    while True:
        left = positions >= begin[segment]
        if not np.count_nonzero(left):
            break
        value = current[segment]
        match = np.where(left & (expected == value), positions, n)
        first = np.minimum.reduceat(match, starts)
        reached = left & (positions <= first[segment])
        seen[reached] = value[reached]
        succeeds = first < n
        current[succeeds] = new[first[succeeds]]
        begin = first + 1
    old[order] = seen
    memory[index[starts]] = current
    return old, bool(np.count_nonzero(current != initial))


class AddressRange(NamedTuple):
    """A range of addresses that may be accessed, and what keeps its memory alive."""

    start: int
    end: int
    name: str
    owner: Any
    counted: bool

    def __repr__(self) -> str:
        size = self.end - self.start
        return f"{self.name!r} ({size} bytes at {self.start:#x})" if self.name else f"{size} bytes"


class Memory:
    """One address space. With a `limit` (bytes), allocations beyond it raise `MemoryLimitExceeded`.

    >>> memory = Memory()
    >>> a = memory.allocate(12, name="x")
    >>> memory.view(a, 12).view(np.float32)[:] = 1, 2, 3
    >>> memory.used
    12
    >>> memory.release(a)
    """

    def __init__(self, limit: int | None = None):
        self.limit = limit
        self.used = 0
        # Counts writes that may have changed something: threads that wait in a loop make progress
        # only if memory changes.
        self.writes = 0
        self._starts: list[int] = []
        self._regions: dict[int, AddressRange] = {}
        self._released: deque[AddressRange] = deque()
        self._quarantined = 0
        self._last = (0, 0)
        self._table: tuple[np.ndarray, np.ndarray] | None = None

    def allocate(self, nbytes: int, name: str = "") -> int:
        """The address, a multiple of 256, of `nbytes` new bytes. `name` appears in messages."""
        nbytes = int(nbytes)
        if nbytes < 0:
            raise EmulatorError(f"an allocation of {nbytes} bytes is not possible")
        if self.limit is not None and self.used + nbytes > self.limit:
            raise errors.MemoryLimitExceeded(
                f"out of memory: {nbytes} bytes asked for, {self.used} of {self.limit} in use"
            )
        owner = new_bytes(nbytes, POISON)
        start = owner.ctypes.data
        self._insert(AddressRange(start, start + nbytes, name, owner, True))
        self.used += nbytes
        return start

    def adopt(self, address: int, nbytes: int, owner: Any, name: str = "host memory") -> None:
        """Lets kernels access memory that was allocated elsewhere, until it is released here.

        `owner` is kept alive until then.
        """
        k = bisect.bisect_left(self._starts, address + nbytes) - 1
        if k >= 0 and self._regions[self._starts[k]].end > address:
            raise EmulatorError(
                f"{nbytes} bytes at {address:#x} overlap {self._regions[self._starts[k]]}"
            )
        self._insert(AddressRange(address, address + nbytes, name, owner, False))

    def release(self, address: int) -> None:
        """Ends an allocation (or adoption), given its first address. Accesses are faults then."""
        region = self._regions.pop(address, None)
        if region is None:
            raise EmulatorError(f"{address:#x} is not the address of a live allocation")
        del self._starts[bisect.bisect_left(self._starts, address)]
        self._last, self._table = (0, 0), None
        if not region.counted:
            return
        size = region.end - region.start
        self.used -= size
        self._released.append(region)
        self._quarantined += size
        while self._quarantined > _QUARANTINE:
            oldest = self._released.popleft()
            self._quarantined -= oldest.end - oldest.start

    def view(self, address: int, nbytes: int) -> np.ndarray:
        """Bytes of an allocation, as an array of uint8 that shares its memory."""
        if nbytes and self.find(address, address + nbytes) is None:
            fault = self.explain(address, nbytes, "access")
            raise fault.kind(fault.message)
        return _bytes.part(address - _BASE, address - _BASE + nbytes)

    def find(self, first: int, end: int) -> AddressRange | None:
        """The live region that contains all addresses from `first` up to, but without, `end`."""
        k = bisect.bisect_right(self._starts, first) - 1
        if k < 0:
            return None
        region = self._regions[self._starts[k]]
        return region if end <= region.end else None

    def check(self, address: np.ndarray, width: int, access: str) -> None:
        """Raises a `Fault` unless each of the addresses is that of `width` accessible bytes.

        `access` ("read", "write", ...) is for the message.
        """
        if len(address) == 1:
            first = last = either = int(address[0])
        else:
            first, last = int(np.minimum.reduce(address)), int(np.maximum.reduce(address))
            either = int(np.bitwise_or.reduce(address))
        if either & (width - 1):
            lane = int(np.flatnonzero(address & np.uint64(width - 1))[0])
            a = int(address[lane])
            message = f"misaligned {access} of {width} bytes at {a:#x}: not a multiple of {width}"
            raise Fault(errors.Misaligned, message, lane)
        start, end = self._last
        if first >= start and last + width <= end:
            return
        region = self.find(first, last + width)
        if region is not None:
            self._last = region.start, region.end
            return
        self._check_each(address, width, access)

    def _check_each(self, address: np.ndarray, width: int, access: str) -> None:
        """Checks addresses that are not all in one region; see `check`."""
        if self._table is None:
            ends = [self._regions[start].end for start in self._starts]
            self._table = np.array([0, *self._starts], np.uint64), np.array([0, *ends], np.uint64)
        starts, ends = self._table
        k = np.searchsorted(starts, address, "right") - 1
        # Not `address + width <= end`, which overflows at the end of the address space.
        outside = (address >= ends[k]) | (ends[k] - address < width)
        if (lane := first(outside)) is not None:
            fault = self.explain(int(address[lane]), width, access)
            fault.lane = lane
            raise fault

    def explain(self, address: int, width: int, access: str) -> Fault:
        """What is wrong with an access to an address that is not accessible."""
        text = f"{access} of {width} bytes at {address:#x}"
        for region in reversed(self._released):
            if region.start <= address < region.end:
                return Fault(
                    errors.UseAfterRelease,
                    f"use after release: {text}, {address - region.start} bytes into {region}, "
                    "which has been released",
                )
        best, distance = None, 1 << 64
        for region in self._regions.values():
            if address >= region.start:
                away = address + width - region.end
            else:
                away = region.start - address
            if away < distance:
                best, distance = region, away
        text = f"out of bounds: {text}"
        if best is None:
            return Fault(errors.OutOfBounds, f"{text}: nothing is allocated")
        where = "beyond the end" if address >= best.start else "before the beginning"
        if distance > 1 << 30 or address < _NULL:
            return Fault(errors.OutOfBounds, f"{text}: far from any allocation")
        return Fault(errors.OutOfBounds, f"{text}: {distance} bytes {where} of {best}")

    def _insert(self, region: AddressRange) -> None:
        bisect.insort(self._starts, region.start)
        self._regions[region.start] = region
        self._table = None
