"""Memory of arrays: buffers, a pool of freed blocks, and zero-copy use of foreign memory.

Jobs run in order. Memory freed while jobs are queued may therefore be used by a later job at once.
However, the host must not write to it before these jobs are complete, and it is returned to the
system only after a synchronization.
"""

import ctypes
import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np

from drjit.jit import collector, device
from drjit.jit.cpu import runtime
from drjit.jit.device import elements
from drjit.jit.ir.dtype import DType

ALIGNMENT = 64
PADDING = 256  # one packet: 64 lanes of 4 bytes, or 32 of 8
_PAGE = 4096
# Above this size, the cost of random accesses is dominated by page table look-ups. NumPy requests
# large pages from 4 MiB on; the start of a buffer must coincide with the start of one.
LARGE_PAGE = 1 << 21
# The host may run far ahead of the jobs. When it needs memory to write to, it allows this many
# bytes of one size class to be in use by jobs; beyond that, it waits for one of them instead of
# allocating more.
HOST_AHEAD = 1 << 26

# Free blocks by size class: (number of jobs queued when it was freed, address, its offset in the
# array that owns the memory, that array). Lists and dicts are atomic under the GIL; without a lock,
# a destructor may run at any point.
_pool: defaultdict[int, list[tuple[int, int, int, np.ndarray]]] = defaultdict(list)
# A worker stuck in a kernel while the interpreter shuts down may still write to memory in the pool:
# the pool is never freed.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_pool))
_new = object.__new__

_stats = SimpleNamespace(in_use=0, peak=0, hits=0, misses=0)


class Buffer(device.Buffer):
    """A block of memory that goes back to the pool when the last reference is gone.

    `address` is a multiple of 64 unless the memory is foreign. `nbytes` may be used; a whole packet
    at the last element may be read, and written unless the memory is foreign.
    """

    __slots__ = ("_base", "_capacity", "_offset")

    def __init__(
        self,
        address: int,
        nbytes: int,
        base: np.ndarray,
        offset: int,
        capacity: int,
        owner: object = None,
    ) -> None:
        self.address = address
        self.nbytes = nbytes
        self.owner = owner
        self.views = 0
        self.source: Any = None
        self._base = base
        self._offset = offset
        self._capacity = capacity  # the size class, 0 for foreign memory

    def array(self, dtype: np.dtype, size: int) -> np.ndarray:
        """Returns the first `size` elements, for use while this buffer is alive; does not wait for
        jobs."""
        return np.ndarray(size, dtype, self._base, self._offset)

    def view(
        self, dtype: np.dtype, shape: int | tuple[int, ...], writable: bool = True
    ) -> np.ndarray:
        """Returns an array for users: it, and anything derived from it, keeps this buffer alive.

        It is counted in `views`. It is read-only if the memory is foreign and read-only.
        """
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        return np.asarray(_Export(self, np.dtype(dtype), shape, writable))

    # At interpreter exit, globals may be gone before the last buffer: hence the defaults.
    def __del__(
        self, _pool=_pool, _stats=_stats, _runtime=runtime, _finalizing=sys.is_finalizing
    ) -> None:
        capacity = self._capacity
        if capacity:
            _stats.in_use -= capacity
            _pool[capacity].append((_runtime.submitted, self.address, self._offset, self._base))
        elif not _finalizing():
            _runtime.retain(self.owner)

    def __repr__(self) -> str:
        return f"Buffer({self.nbytes} bytes{', foreign' if self.owner is not None else ''})"


class _Export:
    """The base of NumPy arrays returned by a buffer."""

    __slots__ = ("__array_interface__", "_buffer")

    def __init__(self, buffer: Buffer, dtype: np.dtype, shape: tuple[int, ...], writable: bool):
        self._buffer = buffer
        self.__array_interface__ = {
            "version": 3,
            "typestr": dtype.str,
            "shape": shape,
            "data": (buffer.address, not (writable and buffer._base.flags.writeable)),
        }
        buffer.views += 1

    def __del__(self) -> None:
        self._buffer.views -= 1


def allocate(nbytes: int, host: bool = False) -> Buffer:
    """Returns a buffer of at least `nbytes` bytes, with undefined contents.

    Kernels may write to it at any time. The host may write to it immediately only with `host`,
    which excludes memory that pending jobs may still use. Raises MemoryError if emptying the pool
    did not help.

    >>> from drjit.jit.cpu import memory
    >>> buffer = memory.allocate(1000)
    >>> buffer.address % 64, buffer.nbytes >= 1000
    (0, True)
    """
    if nbytes <= 1024:
        capacity = (nbytes + 255) & ~255 or 256
    else:
        shift = (nbytes - 1).bit_length() - 3
        capacity = (((nbytes - 1) >> shift) + 1) << shift
    stats = _stats
    free = _pool[capacity]
    try:
        if not host:
            _, address, offset, base = free.pop()
        else:
            _, address, offset, base = _pop_complete(free, capacity)
        stats.hits += 1
    except IndexError:
        address, offset, base = _fresh(capacity)
        stats.misses += 1
    in_use = stats.in_use + capacity
    stats.in_use = in_use
    if in_use > stats.peak:
        stats.peak = in_use
    b = _new(Buffer)
    b.address, b.nbytes, b._capacity = address, capacity, capacity
    b._base, b._offset = base, offset
    b.owner = b.source = None
    b.views = 0
    return b


def allocate_for(dtype: DType, size: int, host: bool = False) -> Buffer:
    """Returns a buffer for `size` elements, or vectors; see `allocate`."""
    return allocate(dtype.itemsize * elements(dtype, size), host)


def adopt(array: np.ndarray) -> Buffer | None:
    """Returns a buffer that uses the memory of an array and keeps it alive, or None if it must be
    copied.

    The memory must be contiguous, aligned, and in native byte order, and reading a packet beyond
    its end must stay within its last page. It is never written to.
    """
    nbytes = array.nbytes
    flags = array.flags
    if not (nbytes and flags.c_contiguous and flags.aligned and array.dtype.isnative):
        return None
    address = array.ctypes.data
    last = address + nbytes - 1
    if address % array.itemsize or last // _PAGE != (last + PADDING) // _PAGE:
        return None
    return Buffer(address, nbytes, array, 0, 0, array)


def flush_malloc_cache() -> None:
    """Returns unused memory to the system. Waits for queued work first."""
    runtime.drain()
    for free in list(_pool.values()):
        while free:
            free.pop()


def malloc_watermark() -> int:
    """Returns the peak number of bytes in use since the start, or since `clear_statistics`."""
    return _stats.peak


def clear_statistics() -> None:
    """Resets the watermark to the current use, and the counts of hits and misses to 0."""
    _stats.peak = _stats.in_use
    _stats.hits = _stats.misses = 0


def statistics() -> dict[str, int]:
    """Returns the bytes in use, in the pool, and at peak (`peak`), and the numbers of allocations
    served by the pool or not."""
    return {**vars(_stats), "pooled": _pooled()}


def _pooled() -> int:
    """Returns the bytes of unused memory."""
    return sum([capacity * len(free) for capacity, free in list(_pool.items())])


def _pop_complete(
    free: list[tuple[int, int, int, np.ndarray]], capacity: int
) -> tuple[int, int, int, np.ndarray]:
    """Takes a block that jobs no longer use; IndexError if there is none."""
    if len(free) * capacity >= HOST_AHEAD:
        runtime.drain(free[0][0])
    done = runtime.completed()
    for index in (-1, 0):
        # Another thread may change the list at any time: take first, then look.
        block = free.pop(index)
        if block[0] <= done:
            return block
        free.append(block)
    raise IndexError


def _fresh(capacity: int) -> tuple[int, int, np.ndarray]:
    """Allocates memory from the system, after collecting reference cycles that may hold memory of
    the pool."""
    collector.resume()
    alignment = ALIGNMENT if capacity < LARGE_PAGE else LARGE_PAGE
    size = capacity + alignment + PADDING
    try:
        base = np.empty(size, np.uint8)
    except MemoryError:
        try:
            flush_malloc_cache()
            base = np.empty(size, np.uint8)
        except MemoryError:
            raise MemoryError(
                f"Cannot allocate {capacity:,} bytes: {_stats.in_use:,} bytes are in use, "
                f"{_pooled():,} are in the pool."
            ) from None
    address = base.ctypes.data
    offset = -address % alignment
    return address + offset, offset, base
