"""Matrix products: each block computes a tile of the result, from tiles of the operands in shared
memory. Either threads accumulate a few rows and columns in registers by multiply-adds (V. Volkov,
J. Demmel, "Benchmarking GPUs to tune dense linear algebra", 2008), or warps do by the instructions
for small matrices (`mma`) of the tensor cores.

Sums over a long depth may be divided among several blocks: then, each has a result of its own.

An operand is a matrix of lines, rows of A or columns of B, which have a depth in common. In memory,
either the elements of a line are consecutive, or those of a depth. Tiles of operands come from
memory to shared memory while the threads compute with earlier ones.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...simd.ir import BYTES
from ...simd.reduction import accumulator
from ...simd.values import Flag, Value, Word
from ..function import THREADS, WARP
from ..values import GpuPointer
from .entry import EntryCode

_WIDEST = 16
# Rows of tiles of the result that neighbouring blocks share, so that they read the same operands.
_TOGETHER = 8
# Lanes of a warp in a row of threads that use multiply-adds.
_ACROSS = 8
# Elements of a line that neighbouring threads copy if lines are consecutive in memory, but not in
# shared memory: a sector of 32-bit elements.
_COPIED = 8

STAGES = {True: 4, False: 2}
"""Stages of tiles in shared memory, with and without asynchronous copies."""


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
        inner = _COPIED if transposes else (form.depth if form.along else form.lines) // form.width
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
            across = more * _COPIED
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


class ProductForm(NamedTuple):
    """What products have in common: the type; that of results; whether A is stored transposed, and
    B; the elements of a copy of each; whether there are several products; and whether the GPU has
    asynchronous copies."""

    code: str
    result: str
    a_transposed: bool
    b_transposed: bool
    a_width: int
    b_width: int
    batched: bool
    asynchronous: bool

    def operands(
        self, kept: str, rows: int, columns: int, depth: int, gap: int, kept_along: bool | None
    ) -> tuple[OperandForm, OperandForm]:
        """Returns the forms of the operands of tiles. Without `kept_along`, lines are consecutive
        in shared memory where they are in memory."""
        forms = []
        for lines, along, width in (
            (rows, not self.a_transposed, self.a_width),
            (columns, self.b_transposed, self.b_width),
        ):
            here = along if kept_along is None else kept_along
            width = width if here == along else 1
            form = OperandForm(
                self.code, kept, lines, depth, along, here, width, gap, self.asynchronous
            )
            forms.append(form)
        return forms[0], forms[1]


def starts(
    c: EntryCode, a: GpuPointer, b: GpuPointer, batch: Word
) -> tuple[GpuPointer, GpuPointer]:
    """Returns where the operands of a product begin, as the last parameter says."""
    entry = c.buffer("offsets", "i64", read_only=True) + batch * 2
    first, second = entry.load(), (entry + 1).load()
    return a + first, b + second


class ProductTile:
    """The tile of a block.

    Parameters: A, B, and the results; rows and columns of the result; the depth, and the part of it
    that a block sums up; the number of products; if there are several, a table of where the
    operands of each begin. Of operands that are `mapped`, A and B are maps, and the last parameters
    say whether each product has a matrix of its own.
    """

    def __init__(
        self, c: EntryCode, layout: ProductForm, rows: int, columns: int, mapped: bool = False
    ) -> None:
        self.c, self.layout = c, layout
        if mapped:
            a, b = (c.tensor_map(name) for name in "ab")
        else:
            a, b = (c.buffer(name, layout.code, read_only=True) for name in "ab")
        result = c.buffer("result", layout.result)
        self.m, self.n, self.k, chunk, batches = c.sizes("m", "n", "k", "chunk", "batches")
        down, across = (self.m + (rows - 1)) // rows, (self.n + (columns - 1)) // columns
        number, tile = c.parts(c.block(), down * across)
        y, x = self._order(tile, down, across)
        self.i0, self.j0 = y * rows, x * columns
        part, self.batch = c.parts(number, batches)
        self.start = part * chunk
        self.end = c.least(self.start + chunk, self.k)
        self.steps = c.sizes("a.step", "b.step") if mapped else []
        separate = layout.batched and not mapped
        self.a, self.b = starts(c, a, b, self.batch) if separate else (a, b)
        self.target = result + number * (self.m * self.n)

    def _order(self, tile: Word, down: Word, across: Word) -> tuple[Word, Word]:
        """Returns the position of a tile: first down some rows of tiles, then across."""
        number, inside = self.c.parts(tile, across * _TOGETHER)
        top = number * _TOGETHER
        x, y = self.c.parts(inside, self.c.least(down - top, _TOGETHER))
        return top + y, x

    def loaded(self, forms: tuple[OperandForm, OperandForm]) -> tuple[TileOperand, TileOperand]:
        """Returns the operands."""
        a_row = self.m if self.layout.a_transposed else self.k
        b_row = self.k if self.layout.b_transposed else self.n
        return (
            TileOperand(self.c, forms[0], self.a, self.i0, self.m, a_row),
            TileOperand(self.c, forms[1], self.b, self.j0, self.n, b_row),
        )

    def store(self, rows: Sequence[Word], parts: Sequence[tuple[Value, list[list[Value]]]]) -> None:
        """Stores sums: `parts` are columns, counted from the first of the tile, as are rows, with
        consecutive elements from there on for each row."""
        c, width = self.c, len(parts[0][1][0])
        lines = []
        for y in rows:
            i = self.i0 + y
            lines.append((i < self.m, self.target + i * self.n + self.j0))
        left = _few(c, self.n - self.j0)
        # All sums are rounded before the first is stored: halves take half as many registers.
        found = [
            (column.bits("i32"), [c.vector(x).cast(self.layout.result) for x in sums])
            for column, sums in parts
        ]

        def write(together: int) -> None:
            for column, sums in found:
                for first in range(0, width, together):
                    here = column + first
                    is_column = here < left
                    for x, (is_row, line) in zip(sums, lines, strict=True):
                        for _ in c.when(is_row & is_column):
                            (line + here).store(c.part(x, first, together))

        if width == 1:
            write(1)
        else:
            c.choose(self.n % width == 0, lambda: write(width), lambda: write(1))


class MultiplyAdds(NamedTuple):
    """Products by multiply-adds: each thread has `y` rows and `x` columns of a tile."""

    layout: ProductForm
    rows: int
    columns: int
    depth: int
    y: int
    x: int

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        c.together = 2
        acc = accumulator(self.layout.code)
        task = ProductTile(c, self.layout, self.rows, self.columns)
        width, gap = min(_WIDEST // BYTES[acc], self.y, self.x), _WIDEST // BYTES[acc]
        forms = self.layout.operands(acc, self.rows, self.columns, self.depth, gap, False)
        # Threads of a warp have neighbouring tiles, four down and eight across.
        warps = self.columns // (self.x * _ACROSS)
        down = c.warp // warps * (WARP // _ACROSS) + c.lane // _ACROSS
        across = c.warp % warps * _ACROSS + c.lane % _ACROSS
        top, left = down * width, across * width

        def multiply(a: GpuPointer, b: GpuPointer, sums: list[Value]) -> list[Value]:
            a, b = a.of(acc) + top, b.of(acc) + left
            for k in range(self.depth):
                y = self._read(forms[0], a, k, self.y, width)
                x = self._read(forms[1], b, k, self.x, width)
                for n in range(self.y * self.x):
                    sums[n] = y[n // self.x].times_plus(x[n % self.x], sums[n])
            return sums

        zeros = [c.number(acc, 0)] * (self.y * self.x)
        stages = STAGES[self.layout.asynchronous]
        sums = accumulated(c, *task.loaded(forms), task.start, task.end, stages, zeros, multiply)
        rows = [y.cast("i64") for y in self._places(top, self.rows, self.y, width)]
        columns = self._places(left, self.columns, self.x, width)
        parts = []
        for first in range(0, self.x, width):
            lines = range(first, len(sums), self.x)
            parts.append((columns[first], [sums[k : k + width] for k in lines]))
        task.store(rows, parts)

    def _read(
        self, form: OperandForm, own: GpuPointer, k: int, count: int, width: int
    ) -> list[Value]:
        """Returns the elements of a thread's lines at a depth: groups of `width`, which are evenly
        spaced."""
        spacing = form.lines // (count // width)
        places = [own + (k * form.stride + g * spacing) for g in range(count // width)]
        return [x for place in places for x in place.load(width).elements()]

    def _places(self, first: Any, size: int, count: int, width: int) -> list[Value]:
        """Returns the lines of a thread."""
        spacing = size // (count // width)
        starts = range(0, size, spacing)
        return [first + (g + j) for g in starts for j in range(width)]


class TensorCores(NamedTuple):
    """Products by instructions for small matrices: of halves, or of single precision with operands
    rounded to 11 bits (TF32). The warps of a block form `down` rows, and a multiprocessor has room
    for `together` blocks, whose tiles in shared memory have some `stages`."""

    layout: ProductForm
    rows: int
    columns: int
    down: int
    together: int = 2
    stages: int = 3

    @property
    def depth(self) -> int:
        """The depth of a tile."""
        return 32 if self.layout.code == "f16" else 16

    @property
    def forms(self) -> tuple[OperandForm, OperandForm]:
        """The forms of the operands of a tile."""
        # The gap puts rows that are read together into different banks.
        code = self.layout.code
        gap = 8 if code == "f16" else 4
        a, b = self.layout.operands(code, self.rows, self.columns, self.depth, gap, None)
        if code != "f16":
            # Rows of a depth need another one.
            a, b = (o if o.kept_along else o._replace(gap=8) for o in (a, b))
        return a, b

    @property
    def stage_bytes(self) -> int:
        """The shared memory of a stage."""
        return sum([o.size for o in self.forms])

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        c.together = self.together
        layout, code, forms = self.layout, self.layout.code, self.forms
        task = ProductTile(c, layout, self.rows, self.columns)
        across = THREADS // WARP // self.down
        height, width = self.rows // self.down, self.columns // across
        top, left = c.warp // across * height, c.warp % across * width
        fragments = _Halves(c, *forms) if code == "f16" else _Singles(c, *forms)
        y, x = height // 16, width // 8

        def multiply(first: GpuPointer, second: GpuPointer, sums: list[Value]) -> list[Value]:
            a, b = first.of(code), second.of(code)
            for k in range(0, self.depth, fragments.depth):
                rows = fragments.of_a(a, top, k, y)
                columns = fragments.of_b(b, left, k, x)
                for n in range(y * x):
                    ab, at = (*rows[n // x], *columns[n % x]), 4 * n
                    sums[at : at + 4] = c.multiplied(fragments.name, ab, sums[at : at + 4])
            return sums

        zeros, depths = [c.number("f32", 0)] * (4 * y * x), (task.start, task.end)
        sums = accumulated(c, *task.loaded(forms), *depths, self.stages, zeros, multiply)
        # Of each small matrix, a lane has two elements in two rows.
        row = top + (c.lane >> 2)
        column = left + ((c.lane & 3) << 1)
        parts = []
        for j in range(x):
            places = [4 * (k // 2 * x + j) + 2 * (k % 2) for k in range(2 * y)]
            parts.append((column + 8 * j, [sums[k : k + 2] for k in places]))
        task.store([(row + 8 * k).cast("i64") for k in range(2 * y)], parts)


class _Halves:
    """Small matrices of halves in registers: 16 rows of A or 8 columns of B, and a depth of 16."""

    depth, name = 16, "m16n8k16.row.col.f32.f32"

    def __init__(self, c: EntryCode, a: OperandForm, b: OperandForm) -> None:
        self.c, self.a, self.b = c, a, b

    def _read(
        self, form: OperandForm, base: GpuPointer, first: Any, k: int, line: Any, deep: Any
    ) -> list[Value]:
        """Returns four matrices of 8 by 8: 16 lines and a depth of 16. Of these, each lane gives
        the address of a row in shared memory."""
        inner = self.c.lane & 7
        line, deep = (line | inner, deep) if form.kept_along else (line, deep | inner)
        y, x = (first + line, deep + k) if form.kept_along else (deep + k, first + line)
        place = base + (y * form.stride + x)
        return self.c.matrices(place, 4, turned=not form.kept_along)

    def of_a(self, base: GpuPointer, top: Any, k: int, count: int) -> list[list[Value]]:
        """Returns matrices of rows from `top` on: they follow each other along the lines, and then
        the depth."""
        odd, high = self.c.lane & 8, (self.c.lane & 16) >> 1
        return [self._read(self.a, base, top + 16 * i, k, odd, high) for i in range(count)]

    def of_b(self, base: GpuPointer, left: Any, k: int, count: int) -> list[list[Value]]:
        """Returns matrices of columns from `left` on, an even number: the other way round."""
        odd, high, found = self.c.lane & 8, (self.c.lane & 16) >> 1, []
        for j in range(0, count, 2):
            words = self._read(self.b, base, left + 8 * j, k, high, odd)
            found += [words[:2], words[2:]]
        return found


class _Singles:
    """Small matrices of single precision in registers: as above, with a depth of 8."""

    depth, name = 8, "m16n8k8.row.col.tf32"

    def __init__(self, c: EntryCode, a: OperandForm, b: OperandForm) -> None:
        self.c, self.a, self.b = c, a, b

    def _read(self, form: OperandForm, base: GpuPointer, first: Any, more: int, k: int) -> Value:
        """Returns an element per lane, rounded to TF32."""
        line, deep = first + ((self.c.lane >> 2) + more), (self.c.lane & 3) + k
        y, x = (line, deep) if form.kept_along else (deep, line)
        return self.c.tf32((base + (y * form.stride + x)).load())

    def of_a(self, base: GpuPointer, top: Any, k: int, count: int) -> list[list[Value]]:
        """Returns matrices of rows from `top` on."""
        places = [(0, 0), (8, 0), (0, 4), (8, 4)]
        return [
            [self._read(self.a, base, top, 16 * i + y, k + x) for y, x in places]
            for i in range(count)
        ]

    def of_b(self, base: GpuPointer, left: Any, k: int, count: int) -> list[list[Value]]:
        """Returns matrices of columns from `left` on."""
        return [
            [self._read(self.b, base, left, 8 * j, k + x) for x in (0, 4)] for j in range(count)
        ]
