"""Memory on a device: buffers, a pool of freed blocks, and memory of other libraries.

What is freed may be used again at once, even by work that is queued before the last reader has
ended, because a stream does one thing after the other (see `drjit.jit.cuda.runtime`). Memory goes
back to the driver only after a synchronization.
"""

import gc
import sys
from collections import defaultdict
from typing import Any

import numpy as np

from .. import collector, device
from ..device import Device, size_class
from ..ir.dtype import DType
from ..run import cache
from .driver import CudaError
from .runtime import Queue

PADDING = 256  # a warp: 32 lanes of 8 bytes


class OutOfMemory(MemoryError):
    """A device does not have enough memory."""


class CudaBuffer(device.Buffer):
    """A block of memory on a device that goes back to the pool when the last reference is gone.

    `address` is a multiple of 256. `nbytes` bytes may be used, and beyond them as many as a warp
    accesses that begins at the last element; but of memory of another library (`owner`), none.
    """

    __slots__ = ("_capacity", "_pool", "device")

    def __init__(
        self, pool: "Pool", address: int, nbytes: int, capacity: int, owner: object = None
    ) -> None:
        self.device: Device = pool.device
        self.address, self.nbytes, self.owner = address, nbytes, owner
        self.views = 0
        self.source: Any = None
        self._pool, self._capacity = pool, capacity  # the size class, 0 for foreign memory

    def __del__(self, _finalizing=sys.is_finalizing) -> None:
        if self._capacity:
            self._pool.in_use -= self._capacity
            self._pool.free[self._capacity].append(self.address)
        elif not _finalizing():
            self._pool.queue.retain(self.owner)

    def __repr__(self) -> str:
        foreign = ", foreign" if self.owner is not None else ""
        return f"CudaBuffer({self.nbytes} bytes at {self.address:#x}{foreign})"


class Pool:
    """The memory of a device: blocks in use, and free ones by size class. `limit` is the number of
    bytes that may be taken from the driver, by default `DRJIT_CUDA_MEMORY` (such as `8G`)."""

    def __init__(self, device: Any, queue: Queue, limit: int | None = None) -> None:
        self.device, self.queue = device, queue
        queue.make_room = self.flush
        self.limit = cache.bytes_of("DRJIT_CUDA_MEMORY", sys.maxsize) if limit is None else limit
        # Lists and dicts are atomic under the GIL; without a lock, a destructor may run anywhere.
        self.free: defaultdict[int, list[int]] = defaultdict(list)
        self.in_use = self.peak = self.hits = self.misses = 0

    def allocate(self, nbytes: int) -> CudaBuffer:
        """Returns a buffer of at least `nbytes` bytes, with undefined contents.

        Raises:
            OutOfMemory: there is not enough memory, even after emptying the pool.
        """
        return self.block(size_class(nbytes))

    def block(self, capacity: int) -> CudaBuffer:
        """Returns a buffer of a size class; see `allocate`."""
        try:
            address = self.free[capacity].pop()
            self.hits += 1
        except IndexError:
            address = self._fresh(capacity)
            self.misses += 1
        self.in_use += capacity
        if self.in_use > self.peak:
            self.peak = self.in_use
        return CudaBuffer(self, address, capacity, capacity)

    def adopt(self, address: int, nbytes: int, owner: object) -> CudaBuffer:
        """Returns a buffer for memory of another library, and keeps its owner as long as anything
        uses it."""
        return CudaBuffer(self, address, nbytes, 0, owner)

    def flush(self) -> None:
        """Returns unused memory to the driver; waits for queued work."""
        self.queue.drain()
        for free in list(self.free.values()):
            while free:
                address = free.pop()
                if not self.queue.forked:  # otherwise, the memory is the parent's
                    self.queue.driver.release(address)

    def clear_statistics(self) -> None:
        """Resets the peak to the current use, and the counts of hits and misses to 0."""
        self.peak, self.hits, self.misses = self.in_use, 0, 0

    @property
    def pooled(self) -> int:
        """The bytes of unused memory."""
        return sum([capacity * len(free) for capacity, free in list(self.free.items())])

    def _fresh(self, capacity: int) -> int:
        """Allocates memory from the driver; if that fails, once more after collecting reference
        cycles that may hold memory, and emptying the pool."""
        collector.resume()
        try:
            return self._allocated(capacity)
        except OutOfMemory:
            gc.collect()
            self.flush()
            return self._allocated(capacity)

    def _allocated(self, capacity: int) -> int:
        reserved = self.in_use + self.pooled
        try:
            if reserved + capacity > self.limit:
                raise OutOfMemory(
                    f"{_asked(capacity)} {self._used()}, and DRJIT_CUDA_MEMORY allows "
                    f"{self.limit:,} bytes."
                )
            return self.queue.call(self.queue.driver.allocate, capacity + PADDING)
        except CudaError as error:
            if not error.is_out_of_memory:
                raise
        free, total = self.queue.driver.memory_info()
        raise OutOfMemory(
            f"{_asked(capacity)} {self._used()}, and {free:,} of {total:,} bytes of the device are "
            "free."
        )

    def _used(self) -> str:
        return f"{self.in_use:,} bytes are in use, {self.pooled:,} are in the pool"


def pattern_of(dtype: DType, value: Any) -> bytes:
    """Returns the bytes of an element, or the first of them if they repeat."""
    pattern = np.full(1, value, dtype.numpy).tobytes()
    width = next(w for w in (1, 2, 4, 8) if pattern == pattern[:w] * (len(pattern) // w))
    return pattern[:width]


def _asked(capacity: int) -> str:
    return f"Cannot allocate {capacity:,} bytes on the GPU:"
