"""Instructions of a warp: shuffles, votes, products of matrices (`mma.sync`), and loads of 8 x 8
matrices (`ldmatrix`).

Values of the threads that execute are arranged as rows of 32 lanes. The scheduler lets a warp begin
such an instruction when all threads named by `members` are there that still run; what is checked
here is that nobody takes part without being named, or reads from a thread that does not take part.

A matrix is spread over the registers of the 32 lanes. In all of these layouts, lane l has the row
(or column) g = l / 4, and two neighbouring elements at 2 t, t = l mod 4 (PTX ISA, "Matrix fragments
for mma.m16n8k16" and following).

Products are exact, and their sum with the accumulator is computed in float64 and rounded once, to
float32 (or float16). The hardware adds in another order and with fewer bits: its results differ in
the last place of float32, and these here are the more accurate ones.
"""

from typing import Any

import numpy as np

from .access import Accesses, AmongLanes, spread
from .errors import DivergentCollective, Fault, first
from .numeric import canonical

u16, u32, i64 = np.uint16, np.uint32, np.int64
f16, f32, f64 = np.float16, np.float32, np.float64
_LANES = np.arange(32)
_ALL = 0xFFFFFFFF
_BITS = (np.uint32(1) << np.arange(32, dtype=u32))[None]


G, T = np.arange(32) >> 2, np.arange(32) & 3
PAIR = 2 * T[:, None] + np.arange(2)


def _partners(mode: str, lane: Any, b: Any, c: Any) -> tuple[np.ndarray, np.ndarray]:
    """For lanes the lane that each reads, and whether that is within the bounds: the definition of
    `shfl.sync` in the PTX ISA."""
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


class Warps(Accesses):
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
            j, within = _partners(mode, _LANES, b.astype(i64), c.astype(i64))
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
        n = len(place)
        if self.simple(place, members):
            row, lane, table = np.arange(n) >> 5, 0, np.ones((n >> 5, 1, 32), bool)
            true = spread(p, n).reshape(-1, 1, 32)
        else:
            row, lane, table = self.members_of(place, members)
            true = self.rows_of(spread(p, n), row, lane, len(table))[:, None, :]
        if mode == "ballot":
            return _packed(table & true)[row, lane]
        every, some = np.all(true | ~table, 2), np.any(true & table, 2)
        return {"all": every, "any": some, "uni": every | ~some}[mode][row, lane]

    def active(self, place: np.ndarray) -> np.ndarray:
        """`activemask`: lanes of the warp that execute this together."""
        return self.vote(place, "ballot", np.ones(1, bool), np.array([_ALL], u32))

    def warp_barrier(self, place: np.ndarray, members: np.ndarray) -> None:
        """`bar.warp.sync`: orders the accesses of a warp to shared memory."""
        if not self.simple(place, members):
            self.members_of(place, members)
        if self.detector is not None:
            warps = np.unique(place >> 5)
            self.detector.warp_count[warps] += 1

    # ---- matrices spread over the registers of a warp

    _whole: bool | None = None

    def whole_warps(self, place: np.ndarray) -> bool:
        """Whether the threads that execute are whole warps."""
        if self._whole is None:
            self._whole = False
            if len(place) % 32 == 0:
                rows = place.reshape(-1, 32)
                ends = (rows[:, 0] & 31) | (rows[:, 31] - rows[:, 0] - 31)
                self._whole = not np.count_nonzero(ends)
        return self._whole

    def _require_warps(self, place: np.ndarray) -> int:
        """The number of warps; a `Fault` if one is not complete."""
        if not self.whole_warps(place):
            warps, counts = np.unique(place >> 5, return_counts=True)
            warp = int(warps[np.flatnonzero(counts < 32)[0]])
            k = int(np.flatnonzero(place >> 5 == warp)[0])
            lanes = sorted(set(range(32)) - {int(p) & 31 for p in place[place >> 5 == warp]})
            raise Fault(
                DivergentCollective,
                f"divergent collective: the whole warp is needed, but lanes {_ranges(lanes)} do "
                "not take part",
                k,
            )
        return len(place) // 32

    def _spread(self, value: np.ndarray, warps: int) -> np.ndarray:
        return np.broadcast_to(value, (warps * 32,)).reshape(warps, 32)

    def _halves(self, value: np.ndarray, warps: int) -> np.ndarray:
        """The two numbers in each word, as float64."""
        words = np.ascontiguousarray(self._spread(value, warps))
        return words.view(f16).reshape(warps, 32, 2).astype(f64)

    def mma(
        self, place: np.ndarray, kind: str, depth: int, a: tuple[np.ndarray, ...],
        b: tuple[np.ndarray, ...], c: tuple[np.ndarray, ...],
    ) -> tuple[np.ndarray, ...]:  # fmt: skip
        """D = A B + C for matrices of 16 x depth, depth x 8, and 16 x 8 numbers per warp."""
        n = self._require_warps(place)
        left, right, total = np.zeros((n, 16, depth)), np.zeros((n, depth, 8)), np.zeros((n, 16, 8))
        for r, value in enumerate(a):
            row, column = G + 8 * (r & 1), r >> 1
            if kind == "tf32":
                left[:, row, T + 4 * column] = self._tf32(value, n)
            else:
                left[:, row[:, None], PAIR + 8 * column] = self._halves(value, n)
        for r, value in enumerate(b):
            if kind == "tf32":
                right[:, T + 4 * r, G] = self._tf32(value, n)
            else:
                right[:, PAIR + 8 * r, G[:, None]] = self._halves(value, n)
        wide = len(c) == 4
        for r, value in enumerate(c):
            if wide:
                total[:, G + 8 * (r >> 1), 2 * T + (r & 1)] = self._spread(value, n)
            else:
                total[:, (G + 8 * r)[:, None], PAIR] = self._halves(value, n)
        # In the order of the columns of A; sums of a product of matrices have any order.
        for k in range(depth):
            total += left[:, :, k, None] * right[:, k, None, :]
        if wide:
            result = total.astype(f32)
            parts = (result[:, G + 8 * (r >> 1), 2 * T + (r & 1)] for r in range(4))
            return tuple(np.ascontiguousarray(part).reshape(-1) for part in parts)
        narrow = canonical(total.astype(f16))
        return tuple(_words(narrow[:, (G + 8 * r)[:, None], PAIR]) for r in range(2))

    def _tf32(self, value: np.ndarray, warps: int) -> np.ndarray:
        """float32, of which the hardware reads the upper 19 bits."""
        bits = self._spread(value, warps) & u32(0xFFFFE000)
        return np.ascontiguousarray(bits).view(f32).astype(f64)

    # ---- matrices of 8 x 8 elements of 16 bits

    def _row_addresses(
        self, place: np.ndarray, base: np.ndarray, offset: int, count: int
    ) -> np.ndarray:
        """Where the rows of matrices are in shared memory: lanes 8 i to 8 i + 7 give the rows of
        the i-th matrix, the others' addresses do not matter."""
        n = self._require_warps(place)
        used = np.flatnonzero((place & 31) < 8 * count)
        addresses = base if len(base) == 1 else base[used]
        with AmongLanes(used):
            at = self.inside("shared", place[used], addresses, offset, 16, "read")
        return np.broadcast_to(at, (len(used),)).reshape(n, count, 8)

    def load_matrix(
        self, place: np.ndarray, base: np.ndarray, offset: int, count: int, transposed: bool
    ) -> tuple[np.ndarray, ...]:
        """`ldmatrix`: each lane gets two neighbouring elements of each matrix."""
        rows = self._row_addresses(place, base, offset, count)
        memory = self.shared.view(u16)
        result = []
        for i in range(count):
            element = self._elements(rows[:, i], transposed)
            result.append(_words(memory[element // 2]))
            self._note_matrix(place, rows[:, i], element)
        return tuple(result)

    def _elements(self, at: np.ndarray, transposed: bool) -> np.ndarray:
        """Where the two elements of each lane are, given the rows of a matrix."""
        if transposed:
            return at[:, PAIR] + 2 * G[:, None]
        return at[:, G[:, None]] + 2 * PAIR

    def _note_matrix(self, place: np.ndarray, at: np.ndarray, element: np.ndarray) -> None:
        """Checks an access to a matrix, whose eight rows are one request of 32 words."""
        if self.detector is None:
            return
        line = self.line()
        for k in range(2):
            self.check_races(place, element[:, :, k].reshape(-1), 2, False, False, None, line)
        self.count_conflicts((at[:, :, None] // 4 + np.arange(4)).reshape(-1, 32), line)


def _packed(bits: np.ndarray) -> np.ndarray:
    """Words from their bits (the last axis)."""
    octets = np.packbits(bits, axis=-1, bitorder="little")
    return np.ascontiguousarray(octets).view(u32)[..., 0]


def _words(halves: np.ndarray) -> np.ndarray:
    """Pairs of 16 bits as the words of threads."""
    return np.ascontiguousarray(halves).view(u32).reshape(-1)


def _ranges(numbers: list[int]) -> str:
    """Numbers as text: 0-6, 9."""
    parts: list[str] = []
    k = 0
    while k < len(numbers):
        end = k
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        first, last = numbers[k], numbers[end]
        parts.append(str(first) if first == last else f"{first}-{last}")
        k = end + 1
    return ", ".join(parts)
