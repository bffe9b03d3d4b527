"""Operands of matrix products: how tiles of them come from memory to shared memory, while the
threads compute with earlier ones.

An operand is a matrix of lines, rows of A or columns of B, which have a depth in common. In memory,
either the elements of a line are consecutive, or those of a depth.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...simd.ir import BYTES, MEMORY
from ...simd.loops import Carried, address, during, least, when
from ..form import THREADS
from .entry import EntryFunction, row

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
    both, and the elements from one row of memory to the next, are `i64`.

    A thread makes several copies of each tile. Their lines and depths differ from those of the
    first one by numbers that are known, which takes few registers.
    """

    def __init__(
        self, f: EntryFunction, form: OperandForm, base: str, first: str, limit: str, row: str
    ) -> None:
        self.f, self.form, self.base, self.row = f, form, base, row
        thread, count = f.special("tid.x"), form.lines * form.depth // form.width
        self.busy = f.op(f"icmp ult i32 {thread}, {count}") if count < THREADS else ""
        transposes = form.along and not form.kept_along
        # Along the consecutive elements: threads, and elements of each. Then further rows, which
        # a transposition continues with the depth beyond the first threads.
        inner = _ACROSS if transposes else (form.depth if form.along else form.lines) // form.width
        step, rows = THREADS // inner, form.lines if form.along else form.depth
        x = f.op(f"mul i32 {f.op(f'urem i32 {thread}, {inner}')}, {form.width}")
        y = f.op(f"udiv i32 {thread}, {inner}")
        self.line, self.depth = (y, x) if form.along else (x, y)
        # How much further the other copies are, in rows and along them.
        self.others = [divmod(k * step, rows)[::-1] for k in range(max(count // THREADS, 1))]
        line, depth = (f.op(f"zext i32 {v} to i64") for v in (self.line, self.depth))
        within = f.op(f"add i64 {first}, {line}")
        down, across = (within, depth) if form.along else (depth, within)
        self.place = address(f, form.code, base, f.op(f"mul i64 {down}, {row}"), across)
        self.further = f.op(f"mul i64 {row}, {step}")
        self.lines = _few(f, f.op(f"sub i64 {limit}, {within}"))
        down, across = (y, x) if form.along is form.kept_along else (x, y)
        self.at = f.op(f"add i32 {f.op(f'mul i32 {down}, {form.stride}')}, {across}")
        # From the elements of one tile to those of the next.
        self.step = str(form.depth) if form.along else f.op(f"mul i64 {row}, {form.depth}")

    def copy(self, place: str, left: str, target: str) -> None:
        """Copies a tile to shared memory, given the place of the first copy, where so much of the
        depth is left (`i64`); zeros stand for what does not exist."""
        if self.busy:
            with when(self.f, self.busy):
                self._copy(place, left, target)
        else:
            self._copy(place, left, target)

    def _copy(self, place: str, left: str, target: str) -> None:
        f, form, start = self.f, self.form, place
        left = f.op(f"sub i32 {_few(f, left)}, {self.depth}")
        own = f.op(f"getelementptr {MEMORY[form.kept]}, ptr addrspace(3) {target}, i32 {self.at}")
        for number, (down, more) in enumerate(self.others):
            if number:
                place = address(f, form.code, place if down else start, self.further if down else 0)
            across = more * _ACROSS
            line, depth = (down, across) if form.along else (across, down)
            exists = f.op(f"icmp sgt i32 {self.lines}, {line}")
            exists = f.op(f"and i1 {exists}, {f.op(f'icmp sgt i32 {left}, {depth}')}")
            y, x = (line, depth) if form.kept_along else (depth, line)
            at = y * form.stride + x
            kept = f.op(f"getelementptr {MEMORY[form.kept]}, ptr addrspace(3) {own}, i32 {at}")
            source = address(f, form.code, place, across)
            if form.is_async:
                self._start(source, kept, exists)
            else:
                self._move(source, kept, exists)

    def _start(self, source: str, target: str, exists: str) -> None:
        """Starts an asynchronous copy."""
        f, nbytes = self.f, self.form.width * BYTES[self.form.code]
        source = f.op(f"addrspacecast ptr {source} to ptr addrspace(1)")
        size = f.op(f"select i1 {exists}, i32 {nbytes}, i32 0")
        # The widest ones bypass the nearest cache.
        name = f"cp.async.{'cg' if nbytes == 16 else 'ca'}.shared.global.{nbytes}.s"
        operands = f"ptr addrspace(3) {target}, ptr addrspace(1) {source}, i32 {size}"
        f.do(f"call void @llvm.nvvm.{name}({operands})")

    def _move(self, source: str, target: str, exists: str) -> None:
        """Copies by way of registers."""
        f, form = self.f, self.form
        kind, kept = row(form.code, form.width), row(form.kept, form.width)
        source = f.op(f"select i1 {exists}, ptr {source}, ptr {self.base}")
        x = f.op(f"load {kind}, ptr {source}, align {form.width * BYTES[form.code]}")
        x = f.op(f"select i1 {exists}, {kind} {x}, {kind} zeroinitializer")
        if kind != kept:
            x = f.op(f"fpext {kind} {x} to {kept}")
        align = min(form.width * BYTES[form.kept], 16)
        f.do(f"store {kept} {x}, ptr addrspace(3) {target}, align {align}")


def _few(f: EntryFunction, x: str) -> str:
    """Returns a number as `i32`, which is lower if that is too small."""
    x = least(f, x, 1 << 30)
    return f.op(f"trunc i64 {f.op(f'call i64 @llvm.smax.i64(i64 {x}, i64 {-1 << 30})')} to i32")


def accumulated(
    f: EntryFunction,
    a: TileOperand,
    b: TileOperand,
    start: str,
    end: str,
    stages: int,
    zeros: Sequence[Carried],
    multiply: Callable[[str, str, Sequence[str]], Sequence[str]],
) -> list[str]:
    """Returns sums over the depth from `start` to below `end` (`i64`), which begin at `zeros`:
    `multiply` adds the products of two tiles in shared memory. There are several stages of tiles:
    while one is multiplied, the others are filled.
    """
    depth, size = a.form.depth, a.form.size + b.form.size
    room = f.dynamic_shared(stages * size)
    is_async = a.form.is_async or b.form.is_async

    def fill(offset: object, places: Sequence[str], left: str) -> list[str]:
        target = f.op(f"getelementptr i8, ptr addrspace(3) {room}, i32 {offset}")
        a.copy(places[0], left, target)
        b.copy(places[1], left, second_of(target))
        if is_async:
            f.do("call void @llvm.nvvm.cp.async.commit.group()")
        following = [
            address(f, o.form.code, x, o.step) for x, o in zip(places, (a, b), strict=True)
        ]
        return [*following, f.op(f"sub i64 {left}, {depth}")]

    def second_of(stage: str) -> str:
        return f.op(f"getelementptr i8, ptr addrspace(3) {stage}, i32 {a.form.size}")

    number = f.op(f"udiv i64 {start}, {depth}")
    places = [address(f, o.form.code, o.place, f.op(f"mul i64 {o.step}, {number}")) for o in (a, b)]
    left = f.op(f"sub i64 {end}, {start}")
    for k in range(stages - 1):
        *places, left = fill(k * size, places, left)
    carried = [("ptr", x) for x in places] + [("i64", left)]
    carried += [("i32", "0"), ("i32", str((stages - 1) * size)), *zeros]
    done = -(stages - 1) * depth  # all stages have been multiplied
    with during(f, lambda v: f.op(f"icmp sgt i64 {v[2]}, {done}"), carried) as values:
        *places, left, reading, writing = values[:5]
        if is_async:
            f.do(f"call void @llvm.nvvm.cp.async.wait.group(i32 {stages - 2})")
        # All copies are there, and everybody has done with the stage before.
        f.barrier()
        *places, left = fill(writing, places, left)
        first = f.op(f"getelementptr i8, ptr addrspace(3) {room}, i32 {reading}")
        sums = multiply(first, second_of(first), values[5:])
        # What was read is written next.
        following = f.op(f"add i32 {reading}, {size}")
        wraps = f.op(f"icmp eq i32 {following}, {stages * size}")
        following = f.op(f"select i1 {wraps}, i32 0, i32 {following}")
        values[:] = [*places, left, following, reading, *sums]
    return values[5:]
