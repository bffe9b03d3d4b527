"""Operands of matrix products: how tiles of them come from memory to shared memory, while the
threads compute with earlier ones.

An operand is a matrix of lines, rows of A or columns of B, which have a depth in common. In memory,
either the elements of a line are consecutive, or those of a depth.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...simd.ir import BYTES
from ...simd.values import Flag, Value, Word
from ..form import THREADS
from ..values import GpuPointer
from .entry import EntryCode

# Elements of a line that neighbouring threads copy if lines are consecutive in memory, but not in
# shared memory: a sector of 32-bit elements.
_ACROSS = 8


class OperandForm(NamedTuple):
    """How an operand is kept: its type in memory and in shared memory; the lines and the depth of a
    tile; whether lines are consecutive in memory, and in shared memory; elements of a copy; how
    many elements separate the rows of shared memory; whether copies are asynchronous.
    """

    code: str
    kept: str
    lines: int
    depth: int
    along: bool
    kept_along: bool
    width: int
    gap: int
    asynchronous: bool

    @property
    def stride(self) -> int:
        """Elements from one row of shared memory to the next."""
        return (self.depth if self.kept_along else self.lines) + self.gap

    @property
    def size(self) -> int:
        """Bytes of a tile in shared memory."""
        rows = self.lines if self.kept_along else self.depth
        return rows * self.stride * BYTES[self.kept]

    @property
    def is_async(self) -> bool:
        """Whether threads go on while elements are copied; the hardware does that for 4 bytes and
        more."""
        return self.asynchronous and self.width * BYTES[self.code] >= 4 and self.kept == self.code


class TileOperand:
    """An operand at an address, of which the block needs the lines from `first` to below `limit`;
    `row` is the number of elements from one row of memory to the next.

    A thread makes several copies of each tile. Their lines and depths differ from those of the
    first one by numbers that are known, which takes few registers.
    """

    def __init__(
        self, c: EntryCode, form: OperandForm, base: GpuPointer, first: Word, limit: Word, row: Word
    ) -> None:
        self.c, self.form, self.base, self.row = c, form, base, row
        count = form.lines * form.depth // form.width
        self.busy = c.tid < count if count < THREADS else None
        transposes = form.along and not form.kept_along
        # Along the consecutive elements: threads, and elements of each. Then further rows, which
        # a transposition continues with the depth beyond the first threads.
        inner = _ACROSS if transposes else (form.depth if form.along else form.lines) // form.width
        step, rows = THREADS // inner, form.lines if form.along else form.depth
        x, y = c.tid % inner * form.width, c.tid // inner
        line, self.depth = (y, x) if form.along else (x, y)
        # How much further the other copies are, in rows and along them.
        self.others = [divmod(k * step, rows)[::-1] for k in range(max(count // THREADS, 1))]
        within, depth = first + line.cast("i64"), self.depth.cast("i64")
        down, across = (within, depth) if form.along else (depth, within)
        self.place = base + down * row + across
        self.further = row * step
        self.lines = _few(c, limit - within)
        down, across = (y, x) if form.along is form.kept_along else (x, y)
        self.at = down * form.stride + across
        # From the elements of one tile to those of the next.
        self.step: Any = form.depth if form.along else row * form.depth

    def copy(self, place: GpuPointer, left: Word, target: GpuPointer) -> None:
        """Copies a tile to shared memory, given the place of the first copy, where so much of the
        depth is left; zeros stand for what does not exist."""
        if self.busy is None:
            self._copy(place, left, target)
        else:
            for _ in self.c.when(self.busy):
                self._copy(place, left, target)

    def _copy(self, place: GpuPointer, left: Word, target: GpuPointer) -> None:
        form, start = self.form, place
        left = _few(self.c, left) - self.depth
        own = target.of(form.kept) + self.at
        for number, (down, more) in enumerate(self.others):
            if number:
                place = place + self.further if down else start
            across = more * _ACROSS
            line, depth = (down, across) if form.along else (across, down)
            exists = (self.lines > line) & (left > depth)
            y, x = (line, depth) if form.kept_along else (depth, line)
            copy = self._start if form.is_async else self._move
            copy(place + across, own + (y * form.stride + x), exists)

    def _start(self, source: GpuPointer, target: GpuPointer, exists: Flag) -> None:
        """Starts an asynchronous copy."""
        f, nbytes = self.c.f, self.form.width * BYTES[self.form.code]
        place = f.op(f"addrspacecast ptr {source} to ptr addrspace(1)")
        size = f.op(f"select i1 {exists}, i32 {nbytes}, i32 0")
        # The widest ones bypass the nearest cache.
        name = f"cp.async.{'cg' if nbytes == 16 else 'ca'}.shared.global.{nbytes}.s"
        operands = f"ptr addrspace(3) {target}, ptr addrspace(1) {place}, i32 {size}"
        f.do(f"call void @llvm.nvvm.{name}({operands})")

    def _move(self, source: GpuPointer, target: GpuPointer, exists: Flag) -> None:
        """Copies by way of registers."""
        c, form = self.c, self.form
        x = c.select(exists, source, self.base).load(form.width)
        x = c.select(exists, x, c.zeros(form.code, form.width)).cast(form.kept)
        target.store(x, align=min(form.width * BYTES[form.kept], 16))


def _few(c: EntryCode, x: Word) -> Value:
    """Returns a number in 32 bits, which is lower if that is too small."""
    return c.most(c.least(x, 1 << 30), -1 << 30).cast("i32")


def accumulated(
    c: EntryCode,
    a: TileOperand,
    b: TileOperand,
    start: Word,
    end: Word,
    stages: int,
    zeros: Sequence[Value],
    multiply: Callable[[GpuPointer, GpuPointer, list[Value]], list[Value]],
) -> list[Value]:
    """Returns sums over the depth from `start` to below `end`, which begin at `zeros`: `multiply`
    adds the products of two tiles in shared memory. There are several stages of tiles: while one is
    multiplied, the others are filled.
    """
    depth, size = a.form.depth, a.form.size + b.form.size
    room = c.dynamic_shared(stages * size)
    is_async = a.form.is_async or b.form.is_async

    def fill(offset: Any, state: list[Any]) -> None:
        *places, left = state[:3]
        a.copy(places[0], left, room + offset)
        b.copy(places[1], left, room + offset + a.form.size)
        if is_async:
            c.f.do("call void @llvm.nvvm.cp.async.commit.group()")
        state[:3] = [places[0] + a.step, places[1] + b.step, left - depth]

    number = start // depth
    state: list[Any] = [a.place + number * a.step, b.place + number * b.step, end - start]
    for k in range(stages - 1):
        fill(k * size, state)
    # Which stage is read, and which is written.
    state += [c.number("u32", 0), c.number("u32", (stages - 1) * size), *zeros]
    done = -(stages - 1) * depth  # all stages have been multiplied
    for _ in c.during(lambda v: v[2] > done, state):
        reading, writing, *sums = state[3:]
        if is_async:
            c.f.do(f"call void @llvm.nvvm.cp.async.wait.group(i32 {stages - 2})")
        # All copies are there, and everybody has done with the stage before.
        c.f.barrier()
        fill(writing, state)
        first = room + reading
        sums = multiply(first, first + a.form.size, sums)
        # What was read is written next.
        following = reading + size
        following = c.select(following == stages * size, c.number("u32", 0), following)
        state[3:] = [following, reading, *sums]
    return state[5:]
