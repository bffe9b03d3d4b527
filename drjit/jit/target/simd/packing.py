"""Packing of a matrix product's operands: rows of A, panels of B.

A panel holds as many columns of B as a register tile has, row by row. Rows of A are read in place,
unless they are halves or stored column-major: then the rows of a register tile are packed together.
"""

from collections.abc import Callable
from typing import NamedTuple

from .ir import BYTES, Function
from .loops import address, below, cast, least, load, loop, store, transposed, vector

Rows = Callable[[str], list[str]]  # returns the registers of row k

# Elements between packed rows of A: rows at distances of a power of two would share cache sets.
GAP = 16
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
        return 64 // BYTES[self.acc]


# The cache level for a line, and whether it will be written.
L1, L2, WRITTEN = "i32 0, i32 3", "i32 0, i32 2", "i32 1, i32 3"


def prefetch(f: Function, place: str, how: str) -> None:
    """Fetches the cache line of an address ahead of its use."""
    f.do(f"call void @llvm.prefetch.p0(ptr {place}, {how}, i32 1)")


def loaded(f: Function, s: Shape, place: str, lanes: int, mask: str) -> str:
    """Loads consecutive elements of an operand, in the type of the sums."""
    return cast(f, lanes, load(f, s.code, lanes, place, mask), s.code, s.acc)


def packed(f: Function, s: Shape, panel: str, k: str) -> list[str]:
    """Loads row k of a packed panel."""
    start, offsets = f.op(f"mul i64 {k}, {s.columns}"), range(0, s.columns, s.lanes)
    return [load(f, s.acc, s.lanes, address(f, s.acc, panel, start, v)) for v in offsets]


def packing(
    f: Function, s: Shape, b: str, panel: str, stride: str, k0: str, left: str, count: str
) -> Rows:
    """Returns a function that loads row k of a panel from B and packs it. Far rows are prefetched
    to L2: if the stride is a power of two, few of them fit into L1."""
    masks = [below(f, f.op(f"sub i64 {count}, {v * s.lanes}"), s.lanes) for v in range(s.vectors)]
    b = address(f, s.code, b, f.op(f"mul i64 {k0}, {stride}"), left)
    far = address(f, s.code, b, f.op(f"mul i64 {stride}, {_FAR}"))

    def row(k: str) -> list[str]:
        line, start = f.op(f"mul i64 {k}, {stride}"), f.op(f"mul i64 {k}, {s.columns}")
        x = []
        for v, mask in enumerate(masks):
            offset = v * s.lanes
            prefetch(f, address(f, s.code, far, line, offset), L2)
            x.append(loaded(f, s, address(f, s.code, b, line, offset), s.lanes, mask))
            if s.rows > 1:  # a single row of A reads B once
                store(f, s.acc, s.lanes, x[-1], address(f, s.acc, panel, start, offset))
        return x

    return row


def pack_b(
    f: Function, s: Shape, b: str, packed: str, stride: str, k0: str, deep: str, j0: str, count: str
) -> None:
    """Packs columns `j0 ...` of the rows `k0 ...` of B, which is stored row-major: panels with as
    many columns as a register tile, row by row. Square blocks are transposed in registers.
    """
    n, kind = s.lanes, vector(s.acc, s.lanes)
    with loop(f, 0, count, s.columns) as (j1, _):
        target = address(f, s.acc, packed, f.op(f"mul i64 {j1}, {s.depth}"))
        for v in range(0, s.columns, n):
            first = f.op(f"add i64 {f.op(f'add i64 {j0}, {j1}')}, {v}")
            rest = f.op(f"sub i64 {f.op(f'sub i64 {count}, {j1}')}, {v}")
            lines = rows_of(f, s, b, stride, k0, first, rest, n)
            with loop(f, 0, deep, n) as (k, _):
                mask = below(f, f.op(f"sub i64 {deep}, {k}"), n)
                x = [loaded(f, s, address(f, s.code, p, k), n, mask) for p in lines]
                for j, one in enumerate(transposed(f, kind, x)):
                    row = f.op(f"mul i64 {f.op(f'add i64 {k}, {j}')}, {s.columns}")
                    store(f, s.acc, n, one, address(f, s.acc, target, row, v))


def pack_a(
    f: Function, s: Shape, a: str, packed: str, size: dict, k0: str, deep: str, top: str, rest: str
) -> None:
    """Packs rows `top ...` of the columns `k0 ...` of A next to each other; column by column if A
    is stored that way.
    """
    if s.a_transposed:
        mask = below(f, rest, s.rows)
        with loop(f, 0, deep, 1) as (k, _):
            line = f.op(f"mul i64 {f.op(f'add i64 {k0}, {k}')}, {size['m']}")
            x = loaded(f, s, address(f, s.code, a, line, top), s.rows, mask)
            store(f, s.acc, s.rows, x, address(f, s.acc, packed, f.op(f"mul i64 {k}, {s.rows}")))
        return
    lines = rows_of(f, s, a, size["k"], k0, top, rest, s.rows)
    with loop(f, 0, deep, s.lanes) as (k, _):
        mask = below(f, f.op(f"sub i64 {deep}, {k}"), s.lanes)
        for r, line in enumerate(lines):
            x = loaded(f, s, address(f, s.code, line, k), s.lanes, mask)
            store(f, s.acc, s.lanes, x, address(f, s.acc, packed, k, r * (s.depth + GAP)))


def rows_of(
    f: Function, s: Shape, x: str, stride: str, k0: str, top: str, rest: str, count: int
) -> list[str]:
    """Returns the starts of `count` stored rows of an operand from `top` on. Only `rest` of them
    exist; further ones repeat the last row, and their results are never stored."""
    last = f.op(f"sub i64 {rest}, 1")
    lines = []
    for r in range(count):
        row = f.op(f"add i64 {top}, {least(f, last, r)}")
        lines.append(address(f, s.code, x, f.op(f"mul i64 {row}, {stride}"), k0))
    return lines


def ahead(f: Function, s: Shape, a: str, size: dict, k0: str, following: str, j1: str) -> Rows:
    """Returns a function that prefetches parts of the next rows of A at k: each panel of B
    prefetches another two."""
    last = f.op(f"sub i64 {size['m']}, 1")
    if s.a_transposed:
        first = f.op(f"mul i64 {k0}, {size['m']}")
        start = address(f, s.code, a, first, least(f, last, following))

        def columns(k: str) -> list[str]:
            places = [f.op(f"add i64 {k}, {j}") for j in range(s.line)]
            return [address(f, s.code, start, f.op(f"mul i64 {k}, {size['m']}")) for k in places]

        return columns
    number = f.op(f"udiv i64 {j1}, {s.columns}")
    starts = []
    for distance in {0, s.rows // 2}:
        row = f.op(f"urem i64 {f.op(f'add i64 {number}, {distance}')}, {s.rows}")
        row = least(f, last, f.op(f"add i64 {following}, {row}"))
        starts.append(address(f, s.code, a, f.op(f"mul i64 {row}, {size['k']}"), k0))
    return lambda k: [address(f, s.code, start, k) for start in starts]
