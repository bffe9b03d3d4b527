"""What the hardware does while threads go on, from compute capability 9.0 on: barriers that count
bytes (`mbarrier`), copies of boxes of tensors to shared memory (`cp.async.bulk.tensor`), and
products of matrices there (`wgmma`), by four warps.

A copy arrives when a thread has waited for its barrier, and not earlier: until then, nobody may
touch its target. Products are computed at once, but what they read may not be overwritten before
somebody has waited for them. Sums of an instruction are computed in float64 and rounded once.

Maps of tensors, of which only the driver knows the format, have one of their own here: see
`tensor_map`. Rows of boxes have 128 bytes, and in each group of eight, the parts of 16 bytes are in
another order: a bit of the number of the part is inverted for each bit of the number of the row
that is set (PTX ISA, "Swizzling Modes", 128 bytes).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .access import AmongLanes, spread
from .errors import DivergentCollective, EmulatorError, Fault, Misaligned, Race, first
from .memory import flat, flat_index
from .warp import Warps

u8, u32, u64, i64 = np.uint8, np.uint32, np.uint64, np.int64
f16, f32, f64 = np.float16, np.float32, np.float64

_MAP = struct.Struct("<8s9Q48x")  # a name, the address, sizes, strides, and sizes of a box
_NAME = b"emulated"
_NO_GROUP = 1 << 62  # that no thread waits for
_NO_BYTES = np.zeros(1, u32)
_LANES = np.arange(128)
_SWIZZLE_128 = 1


def tensor_map(
    address: int, shape: Sequence[int], strides: Sequence[int], box: Sequence[int]
) -> bytes:
    """Returns the map of a tensor of halves: the sizes of its three dimensions, those of a box, and
    the bytes from one entry to the next, but for the first dimension. Raises `EmulatorError` where
    the driver would refuse it."""
    if address % 16 or any(s % 16 or not 0 < s < 1 << 40 for s in strides):
        raise EmulatorError("the map of a tensor is not aligned to 16 bytes")
    if any(not 0 < n <= 1 << 32 for n in shape) or any(not 0 < n <= 256 for n in box):
        raise EmulatorError(f"a tensor cannot have a shape of {shape}, or boxes of {box}")
    if 2 * box[0] != 128 or strides[1] % strides[0] or strides[0] < 2 * shape[0]:
        raise EmulatorError(f"a tensor cannot have strides of {strides}, or boxes of {box}")
    return _MAP.pack(_NAME, address, *shape, *strides, *box)


def swizzled(at: np.ndarray) -> np.ndarray:
    """Returns where what belongs to addresses in shared memory is."""
    return at ^ (at >> 3 & 0x70)


@dataclass(slots=True)
class PhasedBarrier:
    """A barrier: the arrivals of a phase, those that are missing in this one, and its bytes; the
    number of the phase; who has made it, and whether the hardware that copies may see it."""

    arrivals: int
    missing: int
    owner: int
    expected: int = 0
    phase: int = 0
    is_public: bool = False


@dataclass(slots=True)
class ProductGroup:
    """What products read, as ranges of shared memory, and the registers to which they add."""

    ranges: list[tuple[int, int]] = field(default_factory=list)
    registers: set[str] = field(default_factory=set)


@dataclass(slots=True)
class GroupProducts:
    """The products of a warpgroup: those that are not committed yet, and the groups of others that
    may not have ended. `fenced` is whether registers may be used."""

    open: ProductGroup = field(default_factory=ProductGroup)
    groups: list[ProductGroup] = field(default_factory=list)
    fenced: bool = False

    @property
    def unfinished(self) -> list[ProductGroup]:
        return [*self.groups, self.open]


class Warpgroups(Warps):
    """A chunk of threads with barriers, copies and products that go on by themselves."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.phased: dict[int, PhasedBarrier] = {}  # by their place in shared memory
        self.products: dict[int, GroupProducts] = {}  # by the first place of a warpgroup

    # ---- barriers

    def _places(self, place: np.ndarray, base: np.ndarray, offset: int) -> np.ndarray:
        """Where the barriers of threads are, each a word of shared memory."""
        return spread(
            self.inside("shared", place, base, offset, 8, "access to a barrier"), len(place)
        )

    def _barriers(self, place: np.ndarray, base: np.ndarray, offset: int) -> np.ndarray:
        """The same, of barriers that exist; nobody may use one without having seen it begin."""
        at = self._places(place, base, offset)
        for lane, k in enumerate(at.tolist()):
            if k not in self.phased:
                raise Fault(Race, "there is no barrier (mbarrier) at this address", lane)
        self.check_races(place, at, 8, False, True, None, self.line())
        return at

    def barrier_init(
        self, place: np.ndarray, base: np.ndarray, offset: int, count: np.ndarray
    ) -> None:
        """`mbarrier.init`"""
        at = self._places(place, base, offset)
        self.check_races(place, at, 8, True, False, None, self.line())
        for k, who, n in zip(
            at.tolist(), place.tolist(), spread(count, len(at)).tolist(), strict=True
        ):
            self.phased[k] = PhasedBarrier(n, n, who)

    def publish_barriers(self, place: np.ndarray) -> None:
        """`fence.proxy.async`: the hardware that copies sees what these threads have done."""
        who = set(place.tolist())
        for barrier in self.phased.values():
            barrier.is_public |= barrier.owner in who

    def barrier_arrive(
        self, place: np.ndarray, base: np.ndarray, offset: int, nbytes: np.ndarray = _NO_BYTES
    ) -> None:
        """`mbarrier.arrive`, with bytes to expect"""
        at = self._barriers(place, base, offset)
        for lane, (k, n) in enumerate(
            zip(at.tolist(), spread(nbytes, len(at)).tolist(), strict=True)
        ):
            barrier = self.phased[k]
            if not barrier.missing:
                raise Fault(Race, "more arrivals at a barrier (mbarrier) than it counts", lane)
            barrier.expected += n
            barrier.missing -= 1
            self._end_phase(barrier)

    def _end_phase(self, barrier: PhasedBarrier) -> None:
        if not barrier.missing and not barrier.expected:
            barrier.missing, barrier.phase = barrier.arrivals, barrier.phase + 1
            self.memory.writes += 1  # somebody may wait for it

    def barrier_try_wait(
        self, place: np.ndarray, base: np.ndarray, offset: int, parity: np.ndarray
    ) -> np.ndarray:
        """`mbarrier.try_wait.parity`: whether the phase has ended. Copies arrive if all have."""
        at = self._barriers(place, base, offset)
        for k in np.unique(at).tolist():
            if (barrier := self.phased[k]).expected and not barrier.missing:
                self._arrive_copies(k, barrier)
        phases = {k: self.phased[k].phase & 1 for k in np.unique(at).tolist()}
        return np.array([phases[k] for k in at.tolist()]) != parity

    # ---- copies

    def copy_box(
        self, place: np.ndarray, to: np.ndarray, offset: int, tensor: np.ndarray,
        at: tuple[np.ndarray, ...], base: np.ndarray, more: int,
    ) -> None:  # fmt: skip
        """`cp.async.bulk.tensor.3d`: begins to copy a box, given its first entry."""
        n = len(place)
        barriers = self._barriers(place, base, more).tolist()
        targets = spread(self.inside("shared", place, to, offset, 128, "asynchronous write"), n)
        starts = np.stack([spread(x, n) for x in at], 1).astype(i64)
        for lane, (barrier, target) in enumerate(zip(barriers, targets.tolist(), strict=True)):
            if not self.phased[barrier].is_public:
                raise Fault(Race, "a copy uses a barrier without fence.proxy.async", lane)
            with AmongLanes(np.array([lane])):
                rows = self._box(spread(tensor, n)[lane : lane + 1], starts[lane])
            self._start_box(place[lane : lane + 1], target, rows, barrier, lane)

    def _box(self, tensor: np.ndarray, start: np.ndarray) -> np.ndarray:
        """The rows of a box, with zeros beyond the edges of the tensor."""
        self.memory.check(tensor, 64, "read")
        self.memory.check(tensor + u64(64), 64, "read")
        data = self.memory.view(int(tensor[0]), _MAP.size).tobytes()
        name, address, *numbers = _MAP.unpack(data)
        if name != _NAME:
            raise Fault(Misaligned, "this is no map of a tensor", 0)
        shape, strides, box = numbers[:3], numbers[3:5], numbers[5:8]
        rows = np.zeros((box[2] * box[1], box[0]), f16)
        x, y, z = (s + np.arange(n) for s, n in zip(start, box, strict=True))
        inside = (x >= 0) & (x < shape[0])
        z, y = (v.reshape(-1) for v in np.meshgrid(z, y, indexing="ij"))
        exists = (y >= 0) & (y < shape[1]) & (z >= 0) & (z < shape[2])
        if exists.any() and inside.any():
            line = y[exists] * strides[0] + z[exists] * strides[1]
            place = (u64(address) + line[:, None].astype(u64)) + (2 * x[inside]).astype(u64)
            for end in (place[:, 0], place[:, -1]):
                try:
                    self.memory.check(end, 2, "asynchronous read")
                except Fault as fault:  # of a row, not of a thread
                    fault.lane = 0
                    raise
            rows[np.ix_(exists, inside)] = flat(f16)[flat_index(place, 2)]
        return rows.view(u8)

    def _start_box(
        self, place: np.ndarray, target: int, rows: np.ndarray, barrier: int, lane: int
    ) -> None:
        size = rows.size
        start = int(np.max(self._start("shared", place)))
        if (target - start) % 1024 or target - start + size > self.windows["shared"].limit:
            message = f"a box of {size} bytes cannot be at offset {target - start:#x}"
            raise Fault(Misaligned, message, lane)
        for work in self.products.values():
            for low, high in (r for group in work.unfinished for r in group.ranges):
                if target < high and low < target + size:
                    message = "a copy overwrites operands of products (wgmma) that have not ended"
                    raise Fault(Race, message, lane)
        parts = rows.reshape(-1, 16)
        at = start + swizzled(target - start + 16 * np.arange(len(parts)))
        self._check_copies(at, 16)
        self.awaited[(at[:, None] // 4 + np.arange(4)).reshape(-1)] = True
        n = len(parts)
        self.copies.append({
            "place": np.repeat(place, n), "at": at, "rows": parts, "line": self.line(),
            "group": np.full(n, _NO_GROUP), "barrier": np.full(n, barrier),
        })  # fmt: skip

    def _arrive_copies(self, at: int, barrier: PhasedBarrier) -> None:
        """Lets the copies of a barrier arrive."""
        copies, self.copies = self.copies, []  # those that arrive do not wait for each other
        others = [c for c in copies if c["barrier"][0] != at]
        for copy in copies:
            if copy["barrier"][0] == at:
                self._deliver(copy)
                barrier.expected -= copy["rows"].size
        self.copies = others
        if barrier.expected < 0:
            raise Fault(Race, "more bytes arrive at a barrier (mbarrier) than it expects", 0)
        self._end_phase(barrier)

    # ---- products

    def _group_products(self, place: np.ndarray) -> list[GroupProducts]:
        """The products of all warpgroups that execute an instruction, which must be whole."""
        rows, inner = len(place) // 128, place % (self.warps_per_block * 32)
        whole = len(place) == 128 * rows and not np.count_nonzero(
            (place.reshape(rows, 128) - place[::128, None] != _LANES) | (inner[::128, None] % 128)
        )
        if not whole:
            message = "divergent collective: the four warps of a warpgroup are needed"
            raise Fault(DivergentCollective, message, 0)
        return [self.products.setdefault(k, GroupProducts()) for k in place[::128].tolist()]

    def group_fence(self, place: np.ndarray) -> None:
        """`wgmma.fence`: registers and shared memory may be used by products."""
        for work in self._group_products(place):
            work.fenced = True

    def group_commit(self, place: np.ndarray) -> None:
        """`wgmma.commit_group`"""
        for work in self._group_products(place):
            work.groups.append(work.open)
            work.open = ProductGroup()

    def group_wait(self, place: np.ndarray, pending: int) -> None:
        """`wgmma.wait_group`: all but the last groups have ended."""
        for work in self._group_products(place):
            work.groups = work.groups[len(work.groups) - pending :] if pending else []

    def use_held(self, place: np.ndarray, registers: list[str], accumulates: bool) -> None:
        """Notes registers to which products add from now on, or checks that none does any more."""
        if accumulates:
            for work in self._group_products(place):
                work.open.registers.update(registers)
            return
        for start, work in self.products.items():
            if all(group.registers.isdisjoint(registers) for group in work.unfinished):
                continue
            if (k := first((place >= start) & (place < start + 128))) is not None:
                message = "a register of products (wgmma) that have not ended is used"
                raise Fault(Race, message, k)

    def group_mma(
        self, place: np.ndarray, columns: int, sums: tuple[np.ndarray, ...], a: np.ndarray,
        b: np.ndarray, adds: np.ndarray, sign_a: int, sign_b: int, turned_a: int, turned_b: int,
    ) -> tuple[np.ndarray, ...]:  # fmt: skip
        """`wgmma.mma_async`: the sums, and products of 64 rows, a depth of 16, and some columns."""
        works = self._group_products(place)
        if not all(work.fenced for work in works):
            raise Fault(Race, "wgmma.mma_async without wgmma.fence before", 0)
        n = len(place)
        left = self._operand(place, works, spread(a, n), 64, turned_a) * float(sign_a)
        right = self._operand(place, works, spread(b, n), columns, turned_b) * float(sign_b)
        total = left @ right.transpose(0, 2, 1)
        # Lane 4 g + t of a warp, which has 16 rows, has the columns 2 t and 2 t + 1 of each eight
        # in the rows g and g + 8.
        k = np.arange(len(sums))[:, None]
        row = 16 * (_LANES >> 5) + (_LANES >> 2 & 7) + 8 * (k >> 1 & 1)
        column = 8 * (k >> 2) + 2 * (_LANES & 3) + (k & 1)
        own = total[:, row, column].transpose(1, 0, 2).reshape(len(sums), n)
        before = (np.where(adds, x, f32(0)).astype(f64) for x in sums)
        return tuple((x + y).astype(f32) for x, y in zip(before, own, strict=True))

    def _operand(
        self, place: np.ndarray, works: list[GroupProducts], words: np.ndarray, lines: int,
        turned: int,
    ) -> np.ndarray:  # fmt: skip
        """The elements of an operand for each warpgroup, by line and depth, given the words that
        describe it (PTX ISA, "Matrix Descriptor Format")."""
        if (k := first(words != np.repeat(words[::128], 128))) is not None:
            raise Fault(DivergentCollective, "a warpgroup has several descriptions of a matrix", k)
        word = words[::128].astype(i64)
        start, leading, stride = (((word >> bit) & 0x3FFF)[:, None] << 4 for bit in (0, 16, 32))
        if (k := first((word >> 62 & 3 != _SWIZZLE_128) | (start[:, 0] >> 7 & 7 != 0))) is not None:
            message = f"this description of a matrix is not known: {int(words[128 * k]):#x}"
            raise Fault(Misaligned, message, 128 * k)
        # Parts of eight elements: first rows of shared memory, then parts of each.
        if turned:
            depth, line = np.divmod(np.arange(2 * lines), lines // 8)
            part = (
                (line >> 3) * leading + (depth >> 3) * stride + (depth & 7) * 128 + (line & 7) * 16
            )
        else:
            line, depth = np.divmod(np.arange(2 * lines), 2)
            part = (line >> 3) * stride + (line & 7) * 128 + depth * 16
        return self._parts(place, works, start + part, lines, turned)

    def _parts(
        self, place: np.ndarray, works: list[GroupProducts], at: np.ndarray, lines: int, turned: int
    ) -> np.ndarray:
        """Reads parts of eight elements, and notes which range they are in."""
        groups, count = at.shape
        base = swizzled(at).reshape(-1).astype(u64)
        with AmongLanes(128 * np.repeat(np.arange(groups), count)):
            real = self.inside("shared", np.repeat(place[::128], count), base, 0, 16, "read")
            self._check_copies(real, 16)
        for work, own in zip(works, real.reshape(groups, count), strict=True):
            work.open.ranges.append((int(own.min()), int(own.max()) + 16))
        rows = self.shared[real[:, None] + np.arange(16)].view(f16).astype(f64)
        if turned:
            return rows.reshape(groups, 16, lines).transpose(0, 2, 1)
        return rows.reshape(groups, lines, 16)
