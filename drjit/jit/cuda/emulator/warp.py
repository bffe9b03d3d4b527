"""Instructions of a warp: shuffles and votes.

Values of the threads that execute are arranged as rows of 32 lanes. The scheduler lets a warp begin
such an instruction when all threads named by `members` are there that still run; what is checked
here is that nobody takes part without being named, or reads from a thread that does not take part.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from drjit.jit.cuda.emulator.errors import DivergentCollective, Fault, first
from drjit.jit.cuda.emulator.matrix import Fragments
from drjit.jit.cuda.emulator.threads import spread

u32, i64 = np.uint32, np.int64
_LANES = np.arange(32)
_ALL = 0xFFFFFFFF
_BITS = (np.uint32(1) << np.arange(32, dtype=u32))[None]


@lru_cache(maxsize=256)
def _partner(mode: str, b: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """For each lane the lane that it reads, and whether that is within the bounds."""
    return _partners(mode, _LANES, np.array([b]), np.array([c]))


def _partners(mode: str, lane: Any, b: Any, c: Any) -> tuple[np.ndarray, np.ndarray]:
    """The definition of `shfl.sync` in the PTX ISA."""
    b, bound, segment = b & 31, c & 31, (c >> 8) & 31
    highest = (lane & segment) | (bound & ~segment)
    lowest = lane & segment
    if mode == "up":
        j = lane - b
        within = j >= highest
    else:
        j = {"down": lane + b, "bfly": lane ^ b, "idx": lowest | (b & ~segment)}[mode]
        within = j <= highest
    return np.where(within, j, lane), within & np.ones(np.shape(lane), bool)


class Warps(Fragments):
    """A chunk of threads with collective instructions of warps."""

    def members_of(
        self, place: np.ndarray, members: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows and lanes of the executing threads, and a table: with whom (32 lanes) does each
        lane of each row take part? Raises a `Fault` if a thread is not named itself."""
        lane = place & 31
        members = spread(members, len(place))
        unnamed = ((members >> lane.astype(u32)) & u32(1)) == 0
        if (k := first(unnamed)) is not None:
            raise Fault(
                DivergentCollective,
                f"divergent collective: lane {int(lane[k])} executes the instruction, but its mask "
                f"{int(members[k]):#010x} does not name it",
                k,
            )
        warps, row = np.unique(place >> 5, return_inverse=True)
        present = np.zeros((len(warps), 32), bool)
        present[row, lane] = True
        named = np.zeros((len(warps), 32), u32)
        named[row, lane] = members
        table = ((named[:, :, None] & _BITS) != 0) & present[:, None, :]
        return row, lane, table

    def simple(self, place: np.ndarray, members: np.ndarray) -> bool:
        """Whether whole warps take part as such, which is nearly always so."""
        return len(members) == 1 and int(members[0]) == _ALL and self.whole_warps(place)

    def rows_of(
        self, value: np.ndarray, row: np.ndarray, lane: np.ndarray, warps: int
    ) -> np.ndarray:
        """A value of the executing threads in rows; 0 for others."""
        table = np.zeros((warps, 32), value.dtype)
        table[row, lane] = value
        return table

    def shuffle(
        self, place: np.ndarray, mode: str, a: np.ndarray, b: np.ndarray, c: np.ndarray,
        members: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """The value of another lane, and whether that lane was within bounds."""
        if self.simple(place, members) and len(b) == len(c) == 1:
            j, within = _partner(mode, int(b[0]), int(c[0]))
            inside = np.tile(within, len(place) // 32)
            if len(a) == 1:
                return a, inside
            return a.reshape(-1, 32)[:, j].reshape(-1), inside
        row, lane, table = self.members_of(place, members)
        j, within = _partners(mode, lane, b.astype(i64), c.astype(i64))
        missing = ~table[row, lane, j]
        if (k := first(missing)) is not None:
            raise Fault(
                DivergentCollective,
                f"divergent collective: lane {int(lane[k])} reads from lane {int(j[k])}, which "
                "does not take part",
                k,
            )
        return self.rows_of(a, row, lane, len(table))[row, j], within

    def vote(self, place: np.ndarray, mode: str, p: np.ndarray, members: np.ndarray) -> np.ndarray:
        """all, any, uni (all are equal) of a predicate, or its bits (ballot)."""
        if self.simple(place, members):
            rows = spread(p, len(place)).reshape(-1, 32)
            if mode == "ballot":
                return np.repeat(_packed(rows), 32)
            if mode == "uni":
                result = np.all(rows, 1) | ~np.any(rows, 1)
            else:
                result = np.any(rows, 1) if mode == "any" else np.all(rows, 1)
            return np.repeat(result, 32)
        row, lane, table = self.members_of(place, members)
        true = self.rows_of(spread(p, len(place)), row, lane, len(table))[:, None, :]
        if mode == "ballot":
            return _packed(table & true)[row, lane]
        every, some = np.all(true | ~table, 2), np.any(true & table, 2)
        return {"all": every, "any": some, "uni": every | ~some}[mode][row, lane]

    def active(self, place: np.ndarray) -> np.ndarray:
        """`activemask`: lanes of the warp that execute this together."""
        members = np.array([_ALL], u32)
        return self.vote(place, "ballot", np.ones(1, bool), members)

    def warp_barrier(self, place: np.ndarray, members: np.ndarray) -> None:
        """`bar.warp.sync`: orders the accesses of a warp to shared memory."""
        if not self.simple(place, members):
            self.members_of(place, members)
        if self.detector is not None:
            warps = np.unique(place >> 5)
            self.detector.warp_count[warps] += 1


def _packed(bits: np.ndarray) -> np.ndarray:
    """Words from their bits (the last axis)."""
    octets = np.packbits(bits, axis=-1, bitorder="little")
    return np.ascontiguousarray(octets).view(u32)[..., 0]
