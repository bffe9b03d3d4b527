"""Memory of arrays: buffers, a pool of freed blocks, and zero-copy use of foreign memory.

Jobs run in order. Memory freed while jobs are queued may therefore be used by a later job at once.
However, the host must not write to it before these jobs are complete, and it is returned to the
system only after a synchronization.
"""

import contextlib
import ctypes
import itertools
import mmap
import struct
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from .. import collector, device
from ..device import elements
from ..ir.dtype import FORMATS, DType, f16
from ..lazy import np
from ..native import objects
from . import runtime

ALIGNMENT = 64
# A packet has at most 512 bytes, 64 lanes of 8. It begins at a multiple of its size, so it exceeds
# the capacity of a block, a multiple of 256, by at most this.
PADDING = 256
_PAGE = 4096
_PIECE = 1 << 14  # elements that are filled at a time
# Above this size, page table look-ups dominate the cost of random accesses. Large pages are
# requested for memory of at least `_MOST_SMALL_PAGES` bytes; a buffer must begin in the first page
# of one.
LARGE_PAGE = 1 << 21
_MOST_SMALL_PAGES = 1 << 22
_MAPPED = 1 << 17  # bytes from which on memory is mapped: below, zeros cost less than pages
# Kernels read several arrays at the same positions. If all of them began at the start of a page,
# these positions would share one set of the first-level cache, which has 8 to 12 places.
_STARTS = itertools.cycle(range(0, _PAGE, 256))
# A forked process has its own copy.
_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
# The host may run far ahead of the jobs. When it needs memory to write to, it allows this many
# bytes of one size class to be in use by jobs; beyond that, it waits for one of them instead of
# allocating more.
HOST_AHEAD = 1 << 26

# Free blocks by size class. Lists and dicts are atomic under the GIL; without a lock, a destructor
# may run at any point.
_pool: defaultdict[int, list["Block"]] = defaultdict(list)
# A worker stuck in a kernel while the interpreter shuts down may still write to memory in the pool:
# the pool is never freed.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_pool))
_READ = 0x100  # PyBUF_READ
_bytes_at: Callable[[int, int, int], memoryview] = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int
)(("PyMemoryView_FromMemory", ctypes.pythonapi))

_READERS: dict[DType, Any] = {t: struct.Struct(f).unpack_from for t, f in FORMATS.items()}
"""How to read a single element."""


usage: Any = objects.layout(objects.Usage)()  # native code counts as well
_IN_USE, _PEAK = 0, 1
_use = memoryview(usage).cast("B").cast("q")  # faster than attributes
_misses = 0
_writes_outside = False  # whether jobs that are queued may write to foreign memory
# Bytes taken from the system since the collector's threshold was last restored, which happens after
# so many of them.
_since_restored, _RESTORE_AFTER = 0, 1 << 18


class Block:
    """Memory of `capacity` bytes that begins `offset` bytes into `base`, a NumPy array or memory of
    the system; `views` is as in `device.Buffer`.

    A block outlives the buffers that use it one after the other, so that making one costs little:
    `free` puts it back into the pool, where `ticket` is the number of jobs queued at that time.
    Foreign memory is kept alive by its `owner`, and `free` is None.
    """

    __slots__ = ("address", "base", "capacity", "free", "offset", "owner", "ticket", "views")

    def __init__(
        self,
        address: int,
        capacity: int,
        base: Any,
        offset: int,
        free: Callable[["Block"], None] | None = None,
        owner: object = None,
    ) -> None:
        self.address, self.capacity = address, capacity
        self.base, self.offset = base, offset
        self.free, self.owner = free, owner
        self.ticket = self.views = 0


class Buffer(device.Buffer):
    """A block that goes back to the pool when the last reference is gone.

    `address` is a multiple of 64 unless the memory is foreign. `nbytes` may be used; a whole packet
    at the last element may be read, and written unless the memory is foreign. `origin` is the
    address of what belongs to the buffer, where single elements are written. Kernels read from
    `address or copy_for_launch()`.
    """

    __slots__ = ("_block",)

    @property
    def nbytes(self) -> int:
        return self._block.capacity

    @property
    def origin(self) -> int:
        global _writes_outside
        block = self._block
        if block.owner is not None:
            _writes_outside = True
        return block.address

    def copy_for_launch(self) -> int:
        """Returns the address of a copy of the current contents, for the launch that is about to be
        queued. Only memory that kernels cannot read in place is copied."""
        raise NotImplementedError

    @property
    def owner(self) -> object:
        return self._block.owner

    @property
    def views(self) -> int:
        return self._block.views

    @views.setter
    def views(self, count: int) -> None:
        self._block.views = count

    @property
    def shared(self) -> bool:
        block = self._block
        return block.views != 0 or block.owner is not None

    @property
    def writes_through(self) -> bool:
        block = self._block
        return block.owner is not None and block.base.flags.writeable and block.base.flags.aligned

    def entries(self, dtype: DType, size: int) -> memoryview | tuple:
        """Returns the first `size` elements as a sequence of Python numbers, for reading while this
        buffer is alive; does not wait for jobs."""
        data = _bytes_at(self._block.address, dtype.itemsize * size, _READ)
        if dtype.element is f16:
            return struct.unpack(f"{size}e", data)
        return data.cast(FORMATS[dtype.element])  # pyright: ignore[reportCallIssue, reportArgumentType]

    def entry(self, dtype: DType, i: int) -> Any:
        """Returns an element as a Python number; does not wait for jobs."""
        block = self._block
        return _READERS[dtype](block.base, block.offset + dtype.itemsize * i)[0]

    def put(self, dtype: DType, i: int, value: float) -> None:
        """Sets an element; does not wait for jobs."""
        entry = struct.pack(FORMATS[dtype], value)
        ctypes.memmove(self._block.address + dtype.itemsize * i, entry, len(entry))

    def fill(self, dtype: DType, size: int, value: Any) -> None:
        """Sets the first `size` elements; does not wait for jobs."""
        one = struct.pack(FORMATS[dtype.element], value)
        nbytes = dtype.itemsize * size
        if not any(one):
            ctypes.memset(self.address, 0, nbytes)
            return
        piece = one * min(size, _PIECE)
        for at in range(0, nbytes, len(piece) or 1):
            ctypes.memmove(self.address + at, piece, min(len(piece), nbytes - at))

    def write(self, dtype: DType, values: Sequence) -> None:
        """Sets the first elements; does not wait for jobs."""
        data = struct.pack(f"{len(values)}{FORMATS[dtype]}", *values)
        ctypes.memmove(self.address, data, len(data))

    def array(self, dtype: np.dtype, size: int) -> np.ndarray:
        """Returns the first `size` elements, for use while this buffer is alive; does not wait for
        jobs."""
        return np.ndarray(size, dtype, self._block.base, self._block.offset)

    def view(self, dtype: np.dtype, size: int) -> np.ndarray:
        """Returns the first `size` elements for users: the array, and anything derived from it,
        keeps this buffer alive.

        It is counted in `views`. It is read-only if the memory is foreign and read-only.
        """
        return np.asarray(_Export(self, dtype, size))

    # At interpreter exit, globals may be gone before the last buffer: hence the defaults. Programs
    # with many launches get native code for memory of the pool (`plans.install_finalizer`).
    def __del__(self, _use=_use, _runtime=runtime, _finalizing=sys.is_finalizing) -> None:
        block = self._block
        free = block.free
        if free is not None:
            _use[0] -= block.capacity
            block.ticket = _runtime.submitted
            free(block)
        elif not _finalizing():
            _runtime.retain(block.owner)

    def __repr__(self) -> str:
        return f"Buffer({self.nbytes} bytes{', foreign' if self.owner is not None else ''})"


class Unpadded(Buffer):
    """Foreign memory that is not aligned, or beyond whose end no packet may be read, as the next
    page need not exist: one array of floats in 16, see `_overread_bytes`. Its `address` is 0, and
    each launch gets a copy of all of it, since its owner may write to it at any time. It is a class
    of its own so that native code leaves it alone.
    """

    __slots__ = ("_padded",)

    def __init__(self, block: Block) -> None:
        self._block, self.address, self.source = block, 0, None
        self._padded: Buffer | None = None

    def copy_for_launch(self) -> int:
        global _writes_outside
        if _writes_outside:
            _writes_outside = False
            runtime.drain()
        block = self._block
        # Not the one of the last launch, which may be waiting to read that.
        padded = self._padded = allocate(block.capacity, host=True)
        ctypes.memmove(padded.address, block.address, block.capacity)
        return padded.address


class _Export:
    """The base of NumPy arrays returned by a buffer."""

    __slots__ = ("__array_interface__", "_buffer")

    def __init__(self, buffer: Buffer, dtype: np.dtype, size: int) -> None:
        block = buffer._block
        read_only = block.owner is not None and not block.base.flags.writeable
        self._buffer = buffer
        self.__array_interface__ = {
            "version": 3,
            "typestr": dtype.str,
            "shape": (size,),
            "data": (block.address, read_only),
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
    capacity = device.size_class(nbytes)
    free = _pool[capacity]
    try:
        block = _pop_complete(free, capacity) if host else free.pop()
    except IndexError:
        block = _fresh(capacity, free)
    _add_in_use(capacity)
    return _buffer(block)


def _add_in_use(nbytes: int) -> None:
    """Counts more bytes as in use."""
    _use[_IN_USE] = in_use = _use[_IN_USE] + nbytes
    if in_use > _use[_PEAK]:
        _use[_PEAK] = in_use


def pool(capacity: int) -> list[Block]:
    """Returns the list of free blocks of a size class."""
    return _pool[capacity]


def allocate_all(capacities: list[int], addresses: list[int]) -> list[Buffer]:
    """Returns a buffer for each size class, whose addresses it adds to a list; see `allocate`."""
    total = 0
    buffers = []
    try:
        for capacity in capacities:
            free = _pool[capacity]
            try:
                block = free.pop()
            except IndexError:
                block = _fresh(capacity, free)
            total += capacity
            b = Buffer()  # as _buffer does
            b._block = block
            b.address = address = block.address
            b.source = None
            buffers.append(b)
            addresses.append(address)
    finally:  # those that were made are freed if there is no memory for others
        _use[_IN_USE] = in_use = _use[_IN_USE] + total  # as _add_in_use does
        if in_use > _use[_PEAK]:
            _use[_PEAK] = in_use
    return buffers


def _buffer(block: Block) -> Buffer:
    b = Buffer()
    b._block = block
    b.address = block.address
    b.source = None
    return b


def allocate_for(dtype: DType, size: int, host: bool = False) -> Buffer:
    """Returns a buffer for `size` elements, or vectors; see `allocate`."""
    return allocate(dtype.itemsize * elements(dtype, size), host)


def adopt(array: np.ndarray) -> Buffer | None:
    """Returns a buffer that uses the memory of an array and keeps it alive, or None if it must be
    copied.

    The memory must be contiguous and in native byte order.
    """
    nbytes = array.nbytes
    if not (nbytes and array.flags.c_contiguous and array.dtype.isnative):
        return None
    address = array.ctypes.data
    block = Block(address, nbytes, array, 0, None, array)
    if not address % array.itemsize and _is_padded(array, address + nbytes):
        return _buffer(block)
    return Unpadded(block)


def _overread_bytes(dtype: np.dtype) -> int:
    """Returns how many bytes beyond the end of an array kernels may read, if a packet begins at its
    last element. A packet has at most 64 lanes, 32 of doubles (`target/packet_width.py`)."""
    return dtype.itemsize * (31 if dtype.char == "d" else 63)


def _is_padded(array: np.ndarray, end: int) -> bool:
    """Returns whether what kernels read stays within the pages of an array with this end address,
    or of an array that it is a view of."""
    last = (end - 1 + _overread_bytes(array.dtype)) // _PAGE
    if (end - 1) // _PAGE == last:
        return True
    whole = array.base
    while isinstance(whole, np.ndarray):
        if whole.flags.forc and (whole.ctypes.data + whole.nbytes - 1) // _PAGE >= last:
            return True
        whole = whole.base
    return False


def flush_malloc_cache() -> None:
    """Returns unused memory to the system. Waits for queued work first."""
    runtime.drain()
    for free in list(_pool.values()):
        while free:
            free.pop()


def malloc_watermark() -> int:
    """Returns the peak number of bytes in use since the start, or since `clear_statistics`."""
    return usage.peak


def clear_statistics() -> None:
    """Resets the watermark to the current use, and the count of misses to 0."""
    global _misses
    usage.peak, _misses = usage.in_use, 0


def statistics() -> dict[str, int]:
    """Returns the bytes in use, in the pool, and at peak (`peak`), and the number of allocations
    that the pool could not serve (`misses`)."""
    in_use, peak = _use
    return {"in_use": in_use, "peak": peak, "misses": _misses, "pooled": _pooled()}


def _pooled() -> int:
    """Returns the bytes of unused memory."""
    return sum([capacity * len(free) for capacity, free in list(_pool.items())])


def _pop_complete(free: list[Block], capacity: int) -> Block:
    """Takes a block that jobs no longer use; IndexError if there is none."""
    if len(free) * capacity >= HOST_AHEAD:
        runtime.drain(free[0].ticket)
    done = runtime.completed()
    for index in (-1, 0):
        # Another thread may change the list at any time: take first, then look.
        block = free.pop(index)
        if block.ticket <= done:
            return block
        free.append(block)
    raise IndexError


def _fresh(capacity: int, free: list[Block]) -> Block:
    """Allocates memory from the system. After many bytes, the collector's threshold is restored, as
    reference cycles may hold some of them."""
    global _misses, _since_restored
    _since_restored += capacity
    if _since_restored >= _RESTORE_AFTER:
        _since_restored = 0
        collector.resume()
    alignment = ALIGNMENT if capacity < LARGE_PAGE else LARGE_PAGE
    start = next(_STARTS) if capacity >= _MAPPED else 0
    size = start + capacity + alignment + PADDING
    try:
        base, address = from_system(size)
    except (MemoryError, OSError, OverflowError):
        try:
            flush_malloc_cache()
            base, address = from_system(size)
        except (MemoryError, OSError, OverflowError):
            raise MemoryError(
                f"Cannot allocate {capacity:,} bytes: {usage.in_use:,} bytes are in use, "
                f"{_pooled():,} are in the pool."
            ) from None
    _misses += 1
    offset = -address % alignment + start
    return Block(address + offset, capacity, base, offset, free.append)


def from_system(size: int) -> tuple[Any, int]:
    """Returns zeroed memory of `size` bytes, and its address."""
    if size < _MAPPED:
        base: Any = bytearray(size)
    else:  # pages that are not touched before they are used
        base = mmap.mmap(-1, size, **_PRIVATE)
        if size >= _MOST_SMALL_PAGES and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):
                base.madvise(mmap.MADV_HUGEPAGE)
    return base, ctypes.addressof(ctypes.c_char.from_buffer(base))
