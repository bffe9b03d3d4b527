"""Matrix products of halves by warpgroups, which are four warps each: `wgmma`, an instruction of
compute capability 9.0 alone. Its operands are in shared memory, where the hardware copies them
(`cp.async.bulk.tensor`); threads only say what, and when.

A block has two warpgroups, which multiply, and another warp, which fetches. They work on different
stages of a ring in shared memory. Each stage has two barriers (`mbarrier`): one on which those who
multiply wait until it is full, and one on which the other waits until they have done with it.

In shared memory, a row has 128 bytes: 64 halves of a line or of a depth, in eight parts whose order
depends on the row, so that neither rows nor columns of parts are in one bank (PTX ISA, "Shared
Memory Matrix Layout", swizzling of 128 bytes). Beyond the edges of matrices, copies write zeros.
"""

from typing import Any, NamedTuple

from ...simd.values import Value, Word
from ..function import WARP
from ..values import GpuPointer
from .entry import EntryCode
from .products import ProductForm, ProductTile

_GROUP = 4  # warps
_GROUPS = 2
_ROWS = 64  # rows of the result that a warpgroup computes
_DEPTH = 64  # halves in a row of shared memory
_STEP = 16  # the depth of an instruction
_ROW_BYTES = 128
_BOX_BYTES = 64 * _ROW_BYTES  # of 64 rows
_PATTERN = 8 * _ROW_BYTES  # after which the order of the parts recurs
_SWIZZLED = 1 << 62  # in the description of an operand


class GroupOperand(NamedTuple):
    """An operand: the lines of a tile, and whether the elements of a line are consecutive, rather
    than those of a depth."""

    lines: int
    along: bool

    @property
    def box(self) -> tuple[int, int]:
        """The elements in a row, and the rows, that one copy moves."""
        return 64, self.lines if self.along else _DEPTH

    @property
    def size(self) -> int:
        """Bytes of a tile."""
        return self.lines * _ROW_BYTES

    @property
    def step(self) -> int:
        """How much further the description of the next depths is."""
        return (2 * _STEP if self.along else _STEP * _ROW_BYTES) >> 4

    def described(self, c: EntryCode, place: GpuPointer) -> Word:
        """Returns the description of an operand at an address: the distances between boxes, which
        lines along rows have none of, and between groups of eight rows."""
        distances = (_BOX_BYTES >> 4 << 16) | (_PATTERN >> 4 << 32)
        return (c.shared_address(place) >> 4).cast("i64") | _SWIZZLED | distances

    def copy(
        self, c: EntryCode, tensor: GpuPointer, place: GpuPointer, full: GpuPointer, first: Word,
        depth: Word, batch: Word,
    ) -> None:  # fmt: skip
        """Starts to copy a tile, given its first line and depth."""
        if self.along:
            c.start_copy(tensor, [depth, first, batch], place, full)
            return
        for k in range(self.lines // 64):
            place_of_box = place + k * _BOX_BYTES
            c.start_copy(tensor, [first + 64 * k, depth, batch], place_of_box, full)


class WarpGroups(NamedTuple):
    """Products by warpgroups: the columns of a tile, and the stages in shared memory.

    Parameters: the maps of A and B, by value, and what `ProductTile` has after the operands; then
    how many matrices of each operand to go from one product to the next, none or one.
    """

    layout: ProductForm
    columns: int
    stages: int = 4

    rows = _GROUPS * _ROWS
    depth = _DEPTH

    @property
    def operands(self) -> tuple[GroupOperand, GroupOperand]:
        """The operands of a tile."""
        form = self.layout
        return (
            GroupOperand(self.rows, not form.a_transposed),
            GroupOperand(self.columns, form.b_transposed),
        )

    @property
    def stage_bytes(self) -> int:
        """The shared memory of a stage."""
        return sum([o.size for o in self.operands])

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        c.accelerated, c.f.threads = True, (_GROUPS * _GROUP + 1) * WARP
        stages, size = self.stages, self.stage_bytes
        task = ProductTile(c, self.layout, self.rows, self.columns, mapped=True)
        room = c.dynamic_shared(stages * (size + 16), _PATTERN)
        full = (room + stages * size).of("i64")
        empty = full + stages
        for _ in c.when(c.is_first):
            for k in range(stages):
                c.start_barrier(full + k, 1)
                c.start_barrier(empty + k, _GROUPS * _GROUP)
            c.publish_barriers()
        c.f.barrier()
        c.choose(
            c.warp == _GROUPS * _GROUP,
            lambda: self._fetch(c, task, room, full, empty),
            lambda: self._multiply(c, task, room, full, empty),
        )

    def _tiles(self, task: ProductTile) -> Value:
        """Returns how many depths there are to multiply."""
        return ((task.end - task.start + (_DEPTH - 1)) >> _DEPTH.bit_length() - 1).cast("u32")

    def _next(self, c: EntryCode, stage: Value, parity: Value) -> list[Value]:
        """Returns the next stage, and the parity of its use."""
        following = stage + 1
        ends = following == self.stages
        return [c.select(ends, 0, following), c.select(ends, parity ^ 1, parity)]

    def _fetch(
        self, c: EntryCode, task: ProductTile, room: GpuPointer, full: GpuPointer,
        empty: GpuPointer,
    ) -> None:  # fmt: skip
        """Fills the stages, by one thread, each as soon as it is empty; at first, all are."""
        a, b = self.operands
        for _ in c.when(c.lane == 0):
            batches = [task.batch * step for step in task.steps]
            state: list[Any] = [
                self._tiles(task),
                c.number("u32", 0),
                c.number("u32", 1),
                task.start,
            ]
            for _ in c.during(lambda v: v[0] != 0, state):
                left, stage, parity, depth = state
                c.await_barrier(empty + stage, parity)
                ready, place = full + stage, room + stage * self.stage_bytes
                c.expect_bytes(ready, self.stage_bytes)
                a.copy(c, task.a, place, ready, task.i0, depth, batches[0])
                b.copy(c, task.b, place + a.size, ready, task.j0, depth, batches[1])
                state[:] = [left - 1, *self._next(c, stage, parity), depth + _DEPTH]

    def _multiply(
        self, c: EntryCode, task: ProductTile, room: GpuPointer, full: GpuPointer,
        empty: GpuPointer,
    ) -> None:  # fmt: skip
        """Multiplies what is in the stages, and stores the sums. A stage is multiplied while the
        products of the one before end, which then is empty."""
        a, b = self.operands
        group = c.warp >> 2
        first = a.described(c, room + group * _BOX_BYTES)
        second = b.described(c, room + a.size)
        none, zero = c.number("u32", self.stages), c.number("u32", 0)
        state: list[Any] = [self._tiles(task), zero, zero, none]
        state += [c.number("f32", 0)] * (self.columns // 2)
        for _ in c.during(lambda v: v[0] != 0, state):
            left, stage, parity, before, *sums = state
            c.await_barrier(full + stage, parity)
            further = (stage * (self.stage_bytes >> 4)).cast("i64")
            c.begin_products()
            for k in range(_DEPTH // _STEP):
                ab = first + further + k * a.step, second + further + k * b.step
                sums = c.multiplied_by_group(ab, (not a.along, not b.along), sums)
            c.end_products(1)
            for _ in c.when((c.lane == 0) & (before != none)):
                c.arrive(empty + before)
            state[:] = [left - 1, *self._next(c, stage, parity), stage, *sums]
        sums = c.await_products(state[4:])
        # A warp has 16 rows, and of each eight columns, a lane has two in two rows.
        row = c.warp * 16 + (c.lane >> 2)
        column = (c.lane & 3) << 1
        parts = []
        for j in range(0, self.columns, 8):
            at = j // 2
            parts.append((column + j, [sums[at : at + 2], sums[at + 2 : at + 4]]))
        task.store([(row + 8 * k).cast("i64") for k in range(2)], parts)
