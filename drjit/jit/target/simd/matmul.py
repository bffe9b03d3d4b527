"""Matrix products: each task computes one tile of the result.

A task packs a block of B so that its columns are adjacent, in the layout of the registers. The
innermost loop adds outer products of a column of A and a row of B to accumulators that stay in
registers (K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
34(3), 2008). The products with the first rows of A pack B along the way, which hides the cost of
moving it, unless B is stored column-major. Sums to which later blocks of k contribute are kept next
to the packed operands: each element of the result is written once.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ...tuples import NamedTuple
from .arguments import statement
from .ir import BYTES
from .reduction import accumulator
from .translate import Translator
from .values import Code, Flag, Mask, Pointer, Vector, Word

Rows = Callable[[Word], list[Vector]]  # returns the registers of row k

# Elements between packed rows of A: rows at distances of a power of two would share cache sets.
GAP = 16
LINE = 64  # bytes of a cache line
# Distance, in rows of B, of prefetches while packing.
_FAR = 32
# Columns of dot products at a time: as many loads as it takes to keep memory busy.
_DOTS = 8
_SIZES = ("m", "n", "k", "mb", "nb", "tiles_m", "tiles_n", "room")


class Shape(NamedTuple):
    """The compile-time parameters of a product: the element type and the type of the accumulators,
    rows and vectors of the register tile, lanes of a vector, depth of a block, and whether A and B
    are stored transposed.
    """

    code: str
    acc: str
    rows: int
    vectors: int
    lanes: int
    depth: int
    a_transposed: bool
    b_transposed: bool

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def in_place(self) -> bool:
        """Whether rows of A are read in place."""
        return self.acc == self.code and not self.a_transposed

    @property
    def line(self) -> int:
        """The number of elements in a cache line."""
        return LINE // BYTES[self.acc]


def _register_tile(c: Code, rows: int, columns: int, lanes: int) -> tuple[int, int]:
    """Returns the number of rows and vectors of the accumulators, given the approximate number of
    rows and columns of a result."""
    machine = c.machine
    if rows == 1:
        tile = 1, min(8, machine.accumulators // 2)
    elif rows <= 4:
        tile = 4, machine.registers // 8
    else:
        vectors = max(2, LINE // machine.register_bytes)
        tile = min(8, machine.accumulators // vectors), vectors
    return tile[0], min(tile[1], -(-columns // lanes))


@statement(
    "type integer integer integer pointer pointer pointer lane_range pointer pointer flag flag"
)
def matmul(t: Translator, code: str, rows: int, columns: int, depth: int, *given: Any) -> None:
    """`matmul(T, rows, columns, depth, p[a], p[b], p[c], i, p[sizes], p[scratch], at, bt)`."""
    run_task(Code(t.f), code, rows, columns, depth, *given)


def run_task(c: Code, code: str, rows: int, columns: int, depth: int, *given: Any) -> None:
    """Computes one tile: the task of a kernel with the statement `matmul`."""
    *operands, sizes, scratch, a_transposed, b_transposed = given
    acc = accumulator(code)
    lanes = c.width(acc)
    tile = _register_tile(c, rows, columns, lanes)
    shape = Shape(code, acc, *tile, lanes, depth, a_transposed, b_transposed)
    size = c.numbers("mm", sizes, _SIZES)
    i0, j0, *starts = _task(c, size, c.pointer("i64", sizes))
    a, b, result = (c.pointer(code, p) + at for p, at in zip(operands, starts, strict=True))
    if shape.rows == 1 and shape.b_transposed:
        _dot_products(c, shape, a, b, result, size["k"], j0, size["columns"])
        return
    memory = c.pointer(acc, scratch) + c.thread() * size["room"]
    _tile(c, shape, size, a, b, result, i0, j0, memory)


def _task(c: Code, size: dict[str, Word], table: Pointer) -> list[Word]:
    """Returns the position of the task's tile and the offsets of the operands and the result; adds
    the tile's numbers of rows and columns to the sizes."""
    task = c.task()
    column = task // size["tiles_m"]
    row = task % size["tiles_m"]
    batch = column // size["tiles_n"]
    column = column % size["tiles_n"]
    i0 = row * size["mb"]
    j0 = column * size["nb"]
    for name, whole, largest, start in (("rows", "m", "mb", i0), ("columns", "n", "nb", j0)):
        size[name] = c.least(size[whole] - start, size[largest])
    entry = batch * 2
    places = [table + entry + (len(_SIZES) + k) for k in (0, 1)]
    starts = [place.word() for place in places]
    return [i0, j0, *starts, size["m"] * size["n"] * batch]


def _tile(
    c: Code, s: Shape, size: dict[str, Word], a: Pointer, b: Pointer, result: Pointer, i0: Word,
    j0: Word, memory: Pointer,
) -> None:  # fmt: skip
    """Computes the tile of the result at `i0`, `j0`."""
    # The packed rows of A follow the panels of B, then the sums between blocks of k.
    panels = (size["columns"] + (s.columns - 1)) // s.columns
    rows = memory + panels * (s.columns * s.depth)
    all_sums = rows + s.rows * (s.depth + GAP)
    along_rows = 1 if s.a_transposed else s.depth + GAP
    packed_rows = [rows + r * along_rows for r in range(s.rows)]
    for k0 in c.range(0, size["k"], s.depth):
        rest = size["k"] - k0
        deep = c.least(rest, s.depth)
        last = rest == deep
        if s.b_transposed:
            pack_b(c, s, b, memory, size["k"], k0, deep, j0, size["columns"])
        for i1 in c.range(0, size["rows"], s.rows):
            top = i0 + i1
            rows_left = size["rows"] - i1
            rows_a = packed_rows
            if s.in_place:
                rows_a = rows_of(c, a, size["k"], k0, top, rows_left, s.rows)
            else:
                pack_a(c, s, a, rows, size, k0, deep, top, rows_left)
            line = top * size["n"]
            first = i1 // s.rows * panels
            for j1 in c.range(0, size["columns"], s.columns):
                left = j0 + j1
                columns_left = size["columns"] - j1
                panel = memory + j1 * s.depth
                place = result + line + left
                sums = all_sums + (first + j1 // s.columns) * (s.rows * s.columns)
                _prefetch_sums(c, s, place, sums, size, last)
                next_rows = ahead(c, s, a, size, k0, top + s.rows, j1)
                products = partial(_accumulated, c, s, rows_a, next_rows, deep)
                with_packed = partial(products, partial(packed, s, panel))
                how = partial(packing, c, s, b, panel, size["n"], k0, left, columns_left)
                if s.b_transposed:
                    total = with_packed()
                else:
                    total = c.choose(i1 == 0, partial(_packs, products, how), with_packed)
                _add_to_result(
                    c, s, total, sums, place, size["n"], k0, last, rows_left, columns_left
                )


def _accumulated(
    c: Code, s: Shape, a: list[Pointer], next_rows: Any, deep: Word, row_of_b: Rows
) -> list[Vector]:
    """Computes the register tile: the sum over k of the products of A's column k and B's row k, one
    cache line of k at a time, while prefetching the next lines of A.
    """
    total = [c.zeros(s.acc, s.lanes)] * (s.rows * s.vectors)
    for line in c.range(0, deep, s.line, total):
        end = line + s.line
        for place in next_rows(line):
            place.prefetch(L2)
        beyond = end * s.rows
        for r in range(s.rows):
            place = a[0] + beyond + r * s.line if s.a_transposed else a[r] + end
            place.prefetch(L1)
        for k in c.range(line, c.least(deep, end), 1, total):
            x = row_of_b(k)
            at = k * s.rows if s.a_transposed else k
            for r in range(s.rows):
                y = (a[r] + at).splat(s.lanes)
                for v in range(s.vectors):
                    n = r * s.vectors + v
                    total[n] = y.times_plus(x[v], total[n])
    return total


def _packs(products: Callable[[Rows], list[Vector]], how: Callable[[], Rows]) -> list[Vector]:
    """Computes a register tile while packing B."""
    return products(how())


def _prefetch_sums(
    c: Code, s: Shape, place: Pointer, kept: Pointer, size: dict[str, Word], last: Flag
) -> None:
    """Prefetches the previous sums and the lines of the result while the products are being
    summed.
    """
    for _ in c.when(size["k"] > s.depth):
        for offset in range(0, s.rows * s.columns, s.line):
            (kept + offset).prefetch(WRITTEN)
    for _ in c.when(last):
        for r in range(s.rows):
            line = place + size["n"] * r if r else place
            for v in range(s.vectors):
                (line + v * s.lanes).prefetch(WRITTEN)


def _add_to_result(
    c: Code, s: Shape, total: list[Vector], kept: Pointer, result: Pointer, stride: Word, k0: Word,
    last: Flag, rows: Word, columns: Word,
) -> None:  # fmt: skip
    """Adds a register tile to the sums of previous blocks of k, and keeps it for subsequent ones,
    or stores it as the result.
    """
    spots = [(r, v) for r in range(s.rows) for v in range(s.vectors)]
    lines = [stride * r if r else 0 for r in range(s.rows)]
    places = [kept + number * s.lanes for number in range(len(total))]
    sums = list(total)
    for _ in c.when(k0 != 0, sums):
        before = [place.load(s.lanes) for place in places]
        sums[:] = [x + y for x, y in zip(total, before, strict=True)]

    def keep() -> None:
        for x, place in zip(sums, places, strict=True):
            place.store(x)

    def write(masks: list[Mask | None]) -> None:
        for x, (r, v), mask in zip(sums, spots, masks, strict=True):
            target = result + lines[r] + v * s.lanes
            target.store(x.cast(s.code), mask)

    def edge() -> None:
        inside = [c.everywhere(rows > r, s.lanes) for r in range(s.rows)]
        masks = [c.below(columns - v * s.lanes, s.lanes) for v in range(s.vectors)]
        write([masks[v] & inside[r] for r, v in spots])

    def finish() -> None:
        whole = (rows >= s.rows) & (columns >= s.columns)
        c.choose(whole, lambda: write([None] * len(spots)), edge)

    c.choose(last, finish, keep)


def _dot_products(
    c: Code, s: Shape, a: Pointer, b: Pointer, result: Pointer, k: Word, j0: Word, count: Word
) -> None:
    """Stores at `result` the dot products of the row at `a` with the columns `j0 ...` at `b`, each
    with `k` contiguous entries.
    """
    rest = k % s.lanes
    whole = k - rest
    for j1 in c.range(0, count, _DOTS):
        first, left = j0 + j1, count - j1
        columns = rows_of(c, b, k, 0, first, left, _DOTS)
        total = [c.zeros(s.acc, s.lanes)] * _DOTS
        for start, end in ((0, whole), (whole, k)):
            for at in c.range(start, end, s.lanes, total):
                mask = c.below(rest, s.lanes) if end is k else None
                x = loaded(s, a + at, s.lanes, mask)
                for number, column in enumerate(columns):
                    total[number] = x.times_plus(
                        loaded(s, column + at, s.lanes, mask), total[number]
                    )
        (result + first).store(c.totals(total).cast(s.code), c.below(left, _DOTS))


# ------------------------------------------------------------------------------------ packing
#
# A panel holds as many columns of B as a register tile has, row by row. Rows of A are read in
# place, unless they are halves or stored column-major: then the rows of a register tile are packed
# together.


# The cache level for a line, and whether it will be written.
L1, L2, WRITTEN = "i32 0, i32 3", "i32 0, i32 2", "i32 1, i32 3"


def loaded(s: Shape, place: Pointer, lanes: int, mask: Mask | None = None) -> Vector:
    """Loads consecutive elements of an operand, in the type of the sums."""
    return place.load(lanes, mask).cast(s.acc)


def packed(s: Shape, panel: Pointer, k: Word) -> list[Vector]:
    """Loads row k of a packed panel."""
    start = k * s.columns
    return [(panel + start + v).load(s.lanes) for v in range(0, s.columns, s.lanes)]


def packing(
    c: Code, s: Shape, b: Pointer, panel: Pointer, stride: Word, k0: Word, left: Word, count: Word
) -> Rows:
    """Returns a function that loads row k of a panel from B and packs it. Far rows are prefetched
    to L2: if the stride is a power of two, few of them fit into L1."""
    masks = [c.below(count - v * s.lanes, s.lanes) for v in range(s.vectors)]
    b = b + k0 * stride + left
    far = b + stride * _FAR

    def row(k: Word) -> list[Vector]:
        line, start = k * stride, k * s.columns
        x = []
        for v, mask in enumerate(masks):
            offset = v * s.lanes
            (far + line + offset).prefetch(L2)
            x.append(loaded(s, b + line + offset, s.lanes, mask))
            if s.rows > 1:  # a single row of A reads B once
                (panel + start + offset).store(x[-1])
        return x

    return row


def pack_b(
    c: Code, s: Shape, b: Pointer, panels: Pointer, stride: Word, k0: Word, deep: Word, j0: Word,
    count: Word,
) -> None:  # fmt: skip
    """Packs columns `j0 ...` of the rows `k0 ...` of B, which is stored row-major: panels with as
    many columns as a register tile, row by row. Square blocks are transposed in registers.
    """
    n = s.lanes
    for j1 in c.range(0, count, s.columns):
        target = panels + j1 * s.depth
        for v in range(0, s.columns, n):
            lines = rows_of(c, b, stride, k0, j0 + j1 + v, count - j1 - v, n)
            for k in c.range(0, deep, n):
                mask = c.below(deep - k, n)
                x = [loaded(s, line + k, n, mask) for line in lines]
                for j, one in enumerate(c.transposed(x)):
                    (target + (k + j) * s.columns + v).store(one)


def pack_a(
    c: Code, s: Shape, a: Pointer, rows: Pointer, size: dict[str, Word], k0: Word, deep: Word,
    top: Word, rest: Word,
) -> None:  # fmt: skip
    """Packs rows `top ...` of the columns `k0 ...` of A next to each other; column by column if A
    is stored that way.
    """
    if s.a_transposed:
        mask = c.below(rest, s.rows)
        for k in c.range(0, deep):
            x = loaded(s, a + (k0 + k) * size["m"] + top, s.rows, mask)
            (rows + k * s.rows).store(x)
        return
    lines = rows_of(c, a, size["k"], k0, top, rest, s.rows)
    for k in c.range(0, deep, s.lanes):
        mask = c.below(deep - k, s.lanes)
        for r, line in enumerate(lines):
            x = loaded(s, line + k, s.lanes, mask)
            (rows + k + r * (s.depth + GAP)).store(x)


def rows_of(
    c: Code, x: Pointer, stride: Word, k0: Word | int, top: Word, rest: Word, count: int
) -> list[Pointer]:
    """Returns the starts of `count` stored rows of an operand from `top` on. Only `rest` of them
    exist; further ones repeat the last row, and their results are never stored."""
    last = rest - 1
    return [x + (top + c.least(last, r)) * stride + k0 for r in range(count)]


def ahead(
    c: Code, s: Shape, a: Pointer, size: dict[str, Word], k0: Word, following: Word, j1: Word
) -> Callable[[Word], list[Pointer]]:
    """Returns a function that prefetches parts of the next rows of A at k: each panel of B
    prefetches another two."""
    last = size["m"] - 1
    if s.a_transposed:
        start = a + k0 * size["m"] + c.least(last, following)

        def columns(k: Word) -> list[Pointer]:
            places = [k + j for j in range(s.line)]
            return [start + place * size["m"] for place in places]

        return columns
    number = j1 // s.columns
    starts = []
    for distance in {0, s.rows // 2}:
        row = c.least(last, following + (number + distance) % s.rows)
        starts.append(a + row * size["k"] + k0)
    return lambda k: [start + k for start in starts]
