"""Pinned memory of the host: for uploads and downloads, and for the error records of kernels."""

import ctypes
import threading
from typing import Any

import numpy as np

from drjit.jit.cuda.runtime import Queue

_SLOT = 1 << 21
_SLOTS = 4
_ALIGNMENT = 256
_RECORD, _RECORDS = 64, 1024  # bytes of a record, and how many are allocated together


class Staging:
    """A ring of pinned memory through which data are copied: the host writes to one slot while the
    device reads from the others.
    """

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._lock = threading.RLock()
        self._slots: list[tuple[int, int]] = []  # address, event after its last use
        self._at = 0  # the slot in use
        self._used = 0  # its bytes in use

    def upload(self, values: np.ndarray, to: int) -> None:
        """Copies a contiguous array to an address on the device, after the work that is queued."""
        source, left = values.ctypes.data, values.nbytes
        with self._lock:
            while left:
                slot, n = self._room(left)
                ctypes.memmove(slot, source, n)
                self.queue.copy(to, slot, n)
                source, to, left = source + n, to + n, left - n

    def download(self, source: int, values: np.ndarray) -> None:
        """Fills a contiguous array from an address on the device, with what queued work leaves
        there."""
        to, left = values.ctypes.data, values.nbytes
        pending: list[tuple[int, int, int, int]] = []
        with self._lock:
            while left or pending:
                if left:
                    self._advance()
                    self._used = _SLOT  # also if the wait below is interrupted
                    slot, event = self._slots[self._at]
                    n = min(left, _SLOT)
                    self.queue.copy(slot, source, n)
                    self.queue.record(event)
                    pending.append((to, slot, n, event))
                    source, to, left = source + n, to + n, left - n
                if not left or len(pending) == _SLOTS - 1:
                    target, slot, n, event = pending.pop(0)
                    self.queue.wait_for_event(event)
                    ctypes.memmove(target, slot, n)

    def _room(self, nbytes: int) -> tuple[int, int]:
        """Returns where up to `nbytes` bytes of pinned memory are free, and how many."""
        if not self._slots or self._used + min(nbytes, _SLOT) > _SLOT:
            self._advance()
        n = min(nbytes, _SLOT - self._used)
        start = self._slots[self._at][0] + self._used
        self._used += -(-n // _ALIGNMENT) * _ALIGNMENT
        return start, n

    def _advance(self) -> None:
        """Goes on to a slot that nothing uses any longer."""
        driver = self.queue.driver
        if self._slots:
            self.queue.record(self._slots[self._at][1])
        if len(self._slots) < _SLOTS:
            self._slots.append((driver.allocate_host(_SLOT), driver.create_event()))
            self._at = len(self._slots) - 1
        else:
            self._at = (self._at + 1) % _SLOTS
            self.queue.wait_for_event(self._slots[self._at][1])
        self._used = 0


class Records:
    """Error records that kernels write to."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._free: list[int] = []

    def words(self) -> np.ndarray:
        """Returns the six words of a new record: zeros, at the same address on the device."""
        try:
            address = self._free.pop()
        except IndexError:
            start = self.queue.driver.allocate_host(_RECORD * _RECORDS)
            self._free += range(start + _RECORD, start + _RECORD * _RECORDS, _RECORD)
            address = start
        words = np.asarray(_Words(self._free, address))
        words[:] = 0
        return words


class _Words:
    """The base of the array of a record, which goes back to the free ones with it."""

    __slots__ = ("__array_interface__", "_free")

    def __init__(self, free: list[int], address: int) -> None:
        self._free = free
        self.__array_interface__: Any = {
            "version": 3, "typestr": "<i8", "shape": (6,), "data": (address, False),
        }  # fmt: skip

    def __del__(self) -> None:
        self._free.append(self.__array_interface__["data"][0])
