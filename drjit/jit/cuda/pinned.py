"""Pinned memory of the host: for uploads and downloads, and for the error records of kernels."""

import ctypes
from typing import Any

import numpy as np

from ..device import ErrorWords
from .runtime import Queue

_SLOT = 1 << 21
_SLOTS = 4
_ALIGNMENT = 256
_WORDS = 6  # of a record
_RECORD, _RECORDS = 64, 1024  # bytes of a record, and how many are allocated together


class Staging:
    """A ring of pinned memory through which data are copied: the host writes to one slot while the
    device reads from the others.
    """

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._lock = queue.lock
        self._slots: list[tuple[int, int]] = []  # address, event after its last use
        self._at = 0  # the slot in use
        self._used = 0  # its bytes in use

    def upload(self, values: np.ndarray, to: int) -> None:
        """Queues a copy of a contiguous array to an address on the device."""
        source, left = values.ctypes.data, values.nbytes
        with self._lock:
            while left:
                slot, n = self._room(left)
                ctypes.memmove(slot, source, n)
                self.queue.copy(to, slot, n)
                source, to, left = source + n, to + n, left - n

    def download(self, source: int, values: np.ndarray) -> None:
        """Fills a contiguous array with what queued work leaves at an address on the device."""
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
        """Moves to the next slot, once nothing uses it any longer."""
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
        self._free: list[tuple[np.ndarray, int]] = []

    def words(self) -> ErrorWords:
        """Returns the six words of a new record: zeros, at the same address on the device. They are
        used again when nobody keeps their owner alive."""
        try:
            words, address = self._free.pop()
        except IndexError:
            self._free += self._fresh()
            words, address = self._free.pop()
        words.fill(0)
        return ErrorWords(words, address, _Record(self._free, (words, address)))

    def _fresh(self) -> list[tuple[np.ndarray, int]]:
        start = self.queue.driver.allocate_host(_RECORD * _RECORDS)
        memory: Any = (ctypes.c_int64 * (_RECORD // 8 * _RECORDS)).from_address(start)
        rows = np.frombuffer(memory, np.int64).reshape(_RECORDS, -1)[:, :_WORDS]
        return [(row, start + k * _RECORD) for k, row in enumerate(rows)]


class _Record:
    """The owner of a record's words, which makes them free again when it is gone."""

    __slots__ = ("_free", "_words")

    def __init__(self, free: list, words: tuple[np.ndarray, int]) -> None:
        self._free, self._words = free, words

    def __del__(self) -> None:
        self._free.append(self._words)
