"""Shared and local memory: a part for each block, a part for each thread.

Addresses in these spaces are offsets into the part of the block or thread; `cvta` turns them into
addresses that work without naming a space, and those are the real ones of the arrays below.
Asynchronous copies (`cp.async`) to shared memory arrive when their group is waited for, and not
earlier: until then, nobody may touch their target.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from drjit.jit.cuda.emulator.access import Accesses, Among, chosen, filled, moved, put, taken
from drjit.jit.cuda.emulator.errors import Fault, Misaligned, OutOfBounds, Race, first
from drjit.jit.cuda.emulator.memory import flat, flat_index
from drjit.jit.cuda.emulator.race import RaceDetector, bank_conflicts
from drjit.jit.cuda.emulator.threads import spread

u8, u64, i64 = np.uint8, np.uint64, np.int64


_NOTHING = np.empty(0, u8)


def aligned(nbytes: int) -> np.ndarray:
    """Bytes at a multiple of 256."""
    if not nbytes:
        return _NOTHING
    owner = np.empty(nbytes + 256, u8)
    start = -owner.ctypes.data % 256
    return owner[start : start + nbytes]


def _is_same_in_warps(place: np.ndarray, at: np.ndarray) -> bool:
    """Returns whether all threads of each warp are there, and access the same bytes."""
    n = len(place)
    if n % 32 or place[0] & 31 or place[-1] - place[0] != n - 1:
        return False
    rows = at.reshape(-1, 32)
    return not np.count_nonzero(rows != rows[:, :1])


def _words(at: np.ndarray, size: int) -> np.ndarray:
    """The numbers of the words, of 4 bytes, in which aligned accesses lie."""
    words = at >> 2
    return words if size <= 4 else (words[:, None] + np.arange(size // 4)).reshape(-1)


class Windows(Accesses):
    """A chunk of threads with shared and local memory."""

    detector: RaceDetector | None = None
    conflicts: dict[int, int]
    checks: bool
    counted: bool
    line_text: Callable[[int], str]

    def open(self, static: int, local: int, grain: int, checks: bool, counted: bool) -> None:
        """Provides `static` and dynamic bytes of shared memory for each block, and `local` bytes
        for each thread. Races are looked for with `checks`, bank conflicts counted with
        `counted`."""
        self.checks, self.counted = checks, counted
        self.shared_size = static + self.dynamic
        self.shared_stride = -(-self.shared_size // 256) * 256
        self.shared = aligned(self.shared_stride * self.blocks_here)
        if len(self.shared):
            self.shared[:] = 0xCB
        self.local_size = -(-local // 16) * 16
        self.local = aligned(self.local_size * len(self.all_places))
        if len(self.local):
            self.local[:] = 0xCB
        self.conflicts = {}
        if checks and self.shared_size:
            warps = self.blocks_here * self.warps_per_block
            self.detector = RaceDetector(len(self.shared), grain, self.blocks_here, warps)
        self.copies: list[dict[str, Any]] = []
        self.awaited: np.ndarray | None = None
        self.committed: np.ndarray | None = None

    # ---- where the parts begin

    def _start(self, space: str, place: np.ndarray) -> Any:
        """Where the parts of threads begin in the array of their space."""
        if space == "shared":
            return self.block_of(place) * self.shared_stride
        if self.warps_per_block * 32 == self.threads:
            return place * self.local_size
        block = place // (self.warps_per_block * 32)
        return (block * self.threads + place % (self.warps_per_block * 32)) * self.local_size

    def _array(self, space: str) -> tuple[np.ndarray, int]:
        if space == "shared":
            return self.shared, self.shared_size
        return self.local, self.local_size

    def inside(
        self, space: str, place: np.ndarray, base: np.ndarray, offset: int, size: int, access: str
    ) -> np.ndarray:
        """Indices of bytes in the array of a space. Raises a `Fault` for those outside of the
        part of a block or thread."""
        limit = self._array(space)[1]
        signed = base.view(f"i{base.itemsize}").astype(i64)
        at = signed + i64(offset) if offset else signed
        outside = (at < 0) | (at > limit - size)
        if (lane := first(outside)) is not None:
            a = int(at[lane])
            beyond = (
                f"{a + size - limit} bytes beyond the end" if a >= 0 else "before the beginning"
            )
            owner = "block" if space == "shared" else "thread"
            raise Fault(
                OutOfBounds,
                f"out of bounds: {access} of {size} bytes at offset {a:#x} of {space} memory: "
                f"{beyond} of the {limit} bytes of a {owner}",
                lane,
            )
        if int(np.bitwise_or.reduce(at)) & (size - 1):
            lane = int(np.flatnonzero(at & (size - 1))[0])
            raise Fault(
                Misaligned,
                f"misaligned {access} of {size} bytes at offset {int(at[lane]):#x} of {space} "
                f"memory: not a multiple of {size}",
                lane,
            )
        return at + self._start(space, place)

    # ---- accesses to shared and local memory

    def load_in(
        self, space: str, place: np.ndarray, base: np.ndarray, offset: int, dtype: Any,
        count: int = 1, where: Any = None, strong: bool = False,
    ) -> Any:  # fmt: skip
        """Loads from shared or local memory, or from whichever space an address belongs to."""
        if where is not None or not space:
            parts = self._parts(space, place, base, offset, where)
            if parts is None:
                return self.load(base, offset, dtype, count, where)
            loads = [
                (lanes, partial(self.load_in, name, some, at, more, dtype, count, None, strong)
                 if name else partial(self.load, at, more, dtype, count))
                for name, lanes, some, at, more in parts
            ]  # fmt: skip
            return filled(loads, len(place), dtype, count)
        size = dtype().itemsize * count
        at = self.inside(space, place, base, offset, size, "read")
        if space == "shared":
            self._note(place, at, size, False, strong, None)
        return taken(self._table(space, dtype, count), at // size)

    def store_in(
        self, space: str, place: np.ndarray, base: np.ndarray, offset: int, values: Any,
        where: Any = None, strong: bool = False,
    ) -> None:  # fmt: skip
        """Stores to shared or local memory, or to whichever space an address belongs to."""
        rows = values if type(values) is tuple else (values,)
        if where is not None or not space:
            parts = self._parts(space, place, base, offset, where)
            if parts is None:
                self.store(base, offset, values, where)
                return
            for name, lanes, some, at, more in parts:
                if not len(lanes):
                    continue
                chosen_rows = tuple(row if len(row) == 1 else row[lanes] for row in rows)
                with Among(lanes):
                    if name:
                        self.store_in(name, some, at, more, chosen_rows, None, strong)
                    else:
                        self.store(at, more, chosen_rows)
            return
        size = rows[0].itemsize * len(rows)
        at = self.inside(space, place, base, offset, size, "write")
        if space == "shared":
            self._note(place, at, size, True, strong, rows[0])
        self.memory.writes += 1
        put(self._table(space, rows[0].dtype, len(rows)), at // size, rows)

    def _table(self, space: str, dtype: Any, count: int) -> np.ndarray:
        """The memory of a space as elements, or as rows of `count` elements."""
        array = self._array(space)[0]
        size = np.dtype(dtype).itemsize * count
        elements = array[: len(array) // size * size].view(dtype)
        return elements if count == 1 else elements.reshape(-1, count)

    def store_local_rows(self, place: np.ndarray, offset: int, rows: np.ndarray) -> None:
        """Copies parameters of a call to local memory."""
        at = self._start("local", place) + offset
        self.local[at[:, None] + np.arange(rows.shape[1])] = rows

    # ---- checks

    def line(self) -> int:
        """The line of generated code that is being executed."""
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_name[:6] != "block_":
            frame = frame.f_back
        return frame.f_lineno if frame is not None else 0

    def _note(
        self, place: np.ndarray, at: np.ndarray, size: int, writes: bool, strong: bool,
        value: np.ndarray | None,
    ) -> None:  # fmt: skip
        if self.detector is None:
            return
        line = self.line()
        at = spread(at, len(place))
        if not writes and _is_same_in_warps(place, at):
            # Frequent in products of matrices: no bank conflicts, and two lanes stand for a warp.
            lanes = np.arange(len(place)).reshape(-1, 32)[:, :2].reshape(-1)
            with Among(lanes):
                self.note(place[lanes], at[lanes], size, writes, strong, value, line)
            return
        if self.counted:
            self._count_conflicts(place, at, size, line)
        self.note(place, at, size, writes, strong, value, line)

    def note(
        self, place: np.ndarray, at: np.ndarray, size: int, writes: bool, strong: bool,
        value: np.ndarray | None, line: int,
    ) -> None:  # fmt: skip
        """Checks an access to shared memory for races, and for copies that are under way."""
        if self.detector is None:
            return
        if self.copies:
            self._check_copies(at, size)
        block, texts = self.block_of(place), (self.name_of, self.line_text)
        self.detector.access(place, block, at, size, writes, strong, line, value, *texts)

    def _count_conflicts(self, place: np.ndarray, at: np.ndarray, size: int, line: int) -> None:
        warps, row = np.unique(place >> 5, return_inverse=True)
        lanes = np.full((len(warps), 32), -1, i64)
        lanes[row, place & 31] = at >> 2
        first = lanes.max(1)
        lanes = np.where(lanes < 0, first[:, None], lanes)
        if size > 4:  # half a warp at a time, or a quarter
            lanes = (lanes[:, :, None] + np.arange(size // 4)).reshape(-1, 32)
        found = bank_conflicts(lanes)
        if found:
            self.conflicts[line] = self.conflicts.get(line, 0) + found

    # ---- addresses without a space

    def cvta(self, place: np.ndarray, space: str, a: np.ndarray) -> np.ndarray:
        """An offset in shared or local memory as an address."""
        start = np.asarray(self._start(space, place) + self._array(space)[0].ctypes.data)
        return moved(a, 0) + np.atleast_1d(start).astype(u64)

    def cvta_to(self, place: np.ndarray, space: str, a: np.ndarray) -> np.ndarray:
        """The opposite."""
        start = np.asarray(self._start(space, place) + self._array(space)[0].ctypes.data)
        return a - np.atleast_1d(start).astype(u64)

    def _within(self, space: str, a: np.ndarray) -> np.ndarray:
        array = self._array(space)[0]
        start = array.ctypes.data
        return (a >= u64(start)) & (a < u64(start + len(array)))

    def _parts(
        self, space: str, place: np.ndarray, base: np.ndarray, offset: int, where: Any
    ) -> list[Any] | None:
        """An access in parts, each with the space, and with lanes, places, addresses (offsets in
        other spaces than the global one), and an offset. None if all of it is global."""
        n = len(place)
        if space:
            lanes, (base, place) = chosen(np.broadcast_to(where, (n,)), base, place)
            return [(space, lanes, place, base, offset)]
        address = moved(base, offset)
        shared, local = self._within("shared", address), self._within("local", address)
        if not np.count_nonzero(shared) and not np.count_nonzero(local):
            return None
        address = np.broadcast_to(address, (n,))
        active = np.ones(n, bool) if where is None else np.broadcast_to(where, (n,))
        shared, local = (np.broadcast_to(x, (n,)) & active for x in (shared, local))
        parts = []
        for name, mask in (("shared", shared), ("local", local), ("", active & ~shared & ~local)):
            lanes = np.flatnonzero(mask)
            if len(lanes):
                some, at = place[lanes], address[lanes]
                parts.append((name, lanes, some, self.cvta_to(some, name, at) if name else at, 0))
        return parts

    def effective(
        self, space: str, place: np.ndarray, base: np.ndarray, offset: int, size: int
    ) -> np.ndarray:
        """The real addresses of an atomic operation."""
        if space == "":
            parts = self._parts("", place, base, offset, None)
            if parts is None:
                return super().effective("global", place, base, offset, size)
            for part, lanes, some, at, more in parts:
                with Among(lanes):
                    self.effective(part or "global", some, at, more, size)
            return np.broadcast_to(moved(base, offset), (len(place),))
        if space not in ("shared", "local"):
            return super().effective(space, place, base, offset, size)
        at = self.inside(space, place, base, offset, size, "atomic access")
        if space == "shared" and self.detector is not None:
            at = spread(at, len(place))
            self.note(place, at, size, True, True, None, self.line())
        return at.astype(u64) + u64(self._array(space)[0].ctypes.data)

    # ---- asynchronous copies

    def async_copy(
        self, place: np.ndarray, to: np.ndarray, offset: int, source: np.ndarray, more: int,
        size: int, given: Any, where: Any,
    ) -> None:  # fmt: skip
        """Begins to copy `size` bytes from global to shared memory. Of these, `given` bytes are
        read and the others become 0 (a predicate: all of them, if it holds)."""
        n = len(place)
        to, source = (np.broadcast_to(x, (n,)) for x in (to, moved(source, more)))
        count = np.full(n, size, i64)
        if given is not None:
            ignored = given.dtype == bool
            count = np.broadcast_to(np.where(given, 0, size) if ignored else given, (n,))
            count = count.astype(i64)
        lanes = np.arange(n)
        if where is not None:
            lanes = np.flatnonzero(np.broadcast_to(where, (n,)))
            place, to, source, count = (x[lanes] for x in (place, to, source, count))
        if not len(lanes):
            return
        with Among(lanes):
            at = self.inside("shared", place, to, offset, size, "asynchronous write")
            rows = np.zeros((len(place), size), u8)
            for width in np.unique(count).tolist():
                if width:
                    some = np.flatnonzero(count == width)
                    with Among(some):
                        self.memory.check(source[some], 1, "asynchronous read")
                        self.memory.check(source[some] + u64(width - 1), 1, "asynchronous read")
                        if width == size and int(np.bitwise_or.reduce(source[some])) % size:
                            bad = int(np.flatnonzero(source[some] % u64(size))[0])
                            message = f"misaligned asynchronous read of {size} bytes"
                            raise Fault(Misaligned, message, bad)
                    index = flat_index(source[some], 1)[:, None] + np.arange(width)
                    rows[some[:, None], np.arange(width)] = flat(u8)[index]
        self._await(at, size, True)
        groups = self._groups()[place]
        self.copies.append(
            {"place": place, "at": at, "rows": rows, "group": groups, "line": self.line()}
        )

    def _groups(self) -> np.ndarray:
        """How many groups of copies a thread (by its place) has committed."""
        if self.committed is None:
            self.committed = np.zeros(int(self.all_places[-1]) + 1, i64)
        return self.committed

    def async_commit(self, place: np.ndarray) -> None:
        self._groups()[place] += 1

    def async_wait(self, place: np.ndarray, pending: int) -> None:
        """All but the last `pending` groups of these threads arrive; -1: all there are."""
        groups = self._groups()
        if pending < 0:
            groups[place] += 1
            pending = 0
        waiting = np.zeros(len(groups), bool)
        waiting[place] = True
        left = []
        for copy in self.copies:
            arrives = waiting[copy["place"]] & (copy["group"] < groups[copy["place"]] - pending)
            for keep, mask in ((False, arrives), (True, ~arrives)):
                lanes = np.flatnonzero(mask)
                if not len(lanes):
                    continue
                part = {k: v if k == "line" else v[lanes] for k, v in copy.items()}
                if keep:
                    left.append(part)
                else:
                    self._deliver(part)
        self.copies = left
        for copy in left:  # which may have a target in common with one that has arrived
            self._await(copy["at"], copy["rows"].shape[1], True)

    def _await(self, at: np.ndarray, size: int, coming: bool) -> None:
        """Notes whether a copy to these words, of 4 bytes, is under way."""
        if self.awaited is None:
            self.awaited = np.zeros(len(self.shared) // 4, bool)
        self.awaited[_words(at, size)] = coming

    def _deliver(self, copy: dict[str, Any]) -> None:
        at, rows = copy["at"], copy["rows"]
        self.shared[at[:, None] + np.arange(rows.shape[1])] = rows
        self._await(at, rows.shape[1], False)
        if self.detector is not None:
            others, self.copies = self.copies, []
            size = max(rows.shape[1], self.detector.grain)
            self.note(copy["place"], at, size, True, False, None, copy["line"])
            self.copies = others

    def _check_copies(self, at: np.ndarray, size: int) -> None:
        """A fault if an access touches the target of a copy that has not arrived."""
        if self.awaited is None or not np.count_nonzero(self.awaited[_words(at, size)]):
            return
        for copy in self.copies:
            targets = np.sort(copy["at"])
            length = copy["rows"].shape[1]
            k = np.searchsorted(targets, at + size, "left") - 1
            hit = (k >= 0) & (targets[np.maximum(k, 0)] + length > at)
            if np.count_nonzero(hit):
                raise Fault(
                    Race,
                    "race in shared memory: an access to the target of an asynchronous copy "
                    f"(cp.async at line {self.line_text(copy['line'])}) that has not been waited "
                    "for",
                    int(np.flatnonzero(hit)[0]),
                )
