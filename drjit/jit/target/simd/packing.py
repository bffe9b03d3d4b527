"""Packing of a matrix product's operands: rows of A, panels of B.

A panel holds as many columns of B as a register tile has, row by row. Rows of A are read in place,
unless they are halves or stored column-major: then the rows of a register tile are packed together.
"""

from collections.abc import Callable

from ...tuples import NamedTuple
from .ir import BYTES
from .values import Code, Mask, Pointer, Vector, Word

Rows = Callable[[Word], list[Vector]]  # returns the registers of row k

# Elements between packed rows of A: rows at distances of a power of two would share cache sets.
GAP = 16
LINE = 64  # bytes of a cache line
# Distance, in rows of B, of prefetches while packing.
_FAR = 32


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
            lines = rows_of(c, s, b, stride, k0, j0 + j1 + v, count - j1 - v, n)
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
    lines = rows_of(c, s, a, size["k"], k0, top, rest, s.rows)
    for k in c.range(0, deep, s.lanes):
        mask = c.below(deep - k, s.lanes)
        for r, line in enumerate(lines):
            x = loaded(s, line + k, s.lanes, mask)
            (rows + k + r * (s.depth + GAP)).store(x)


def rows_of(
    c: Code, s: Shape, x: Pointer, stride: Word, k0: Word | int, top: Word, rest: Word, count: int
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
