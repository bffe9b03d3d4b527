"""Matrix products: each task computes one tile of the result.

A task packs a block of B so that its columns are adjacent, in the layout of the registers. The
innermost loop adds outer products of a column of A and a row of B to accumulators that stay in
registers (K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
34(3), 2008). The products with the first rows of A pack B along the way, which hides the cost of
moving it, unless B is stored column-major. Sums to which later blocks of k contribute are kept next
to the packed operands: each element of the result is written once.
"""

from functools import partial
from typing import Any

from .arguments import statement
from .dot_products import dot_products
from .ir import FLOATS, Function, KernelError
from .loops import (
    address,
    below,
    cast,
    choose,
    fma,
    least,
    load,
    load_splat,
    loop,
    numbers,
    splat,
    store,
    vector,
    when,
    width,
)
from .packing import (
    GAP,
    L1,
    L2,
    WRITTEN,
    Rows,
    Shape,
    ahead,
    pack_a,
    pack_b,
    packed,
    packing,
    prefetch,
    rows_of,
)
from .reduction import accumulator
from .translate import Translator

_SIZES = ("m", "n", "k", "mb", "nb", "tiles_m", "tiles_n", "room")


def _register_tile(f: Function, rows: int, columns: int, lanes: int) -> tuple[int, int]:
    """Returns the number of rows and vectors of the accumulators, given the approximate number of
    rows and columns of a result."""
    wide = f.machine.register_bytes == 64
    if rows == 1:
        tile = 1, 8 if wide else 6
    elif rows <= 4:
        tile = 4, 4 if wide else 2
    else:
        tile = 8 if wide else 6, 2
    return tile[0], min(tile[1], -(-columns // lanes))


@statement(
    "type integer integer integer pointer pointer pointer lane_range pointer pointer flag flag"
)
def matmul(t: Translator, code: str, rows: int, columns: int, depth: int, *given: Any) -> None:
    """`matmul(T, rows, columns, depth, p[a], p[b], p[c], i, p[sizes], p[scratch], at, bt)`."""
    if code not in FLOATS:
        raise KernelError(f"there is no matrix product of {code}")
    f, (*operands, sizes, scratch, a_transposed, b_transposed) = t.f, given
    acc = accumulator(code)
    lanes = width(f, acc)
    tile = _register_tile(f, rows, columns, lanes)
    shape = Shape(code, acc, *tile, lanes, depth, a_transposed, b_transposed)
    size, i0, j0, starts = _task(f, sizes)
    a, b, c = (address(f, code, p, at) for p, at in zip(operands, starts, strict=True))
    if shape.rows == 1 and shape.b_transposed:
        dot_products(f, shape, a, b, c, size["k"], j0, size["columns"])
        return
    memory = address(f, acc, scratch, f.op(f"mul i64 %thread, {size['room']}"))
    _tile(f, shape, size, a, b, c, i0, j0, memory)


def _task(f: Function, table: str) -> tuple[dict[str, str], str, str, list[str]]:
    """Loads the sizes of a product and of the task's tile, the tile's position, and the offsets of
    the operands and the result."""
    size = numbers(f, "mm", table, _SIZES)
    column = f.op(f"udiv i64 %i, {size['tiles_m']}")
    row = f.op(f"urem i64 %i, {size['tiles_m']}")
    batch = f.op(f"udiv i64 {column}, {size['tiles_n']}")
    column = f.op(f"urem i64 {column}, {size['tiles_n']}")
    i0 = f.op(f"mul i64 {row}, {size['mb']}")
    j0 = f.op(f"mul i64 {column}, {size['nb']}")
    for name, whole, largest, start in (("rows", "m", "mb", i0), ("columns", "n", "nb", j0)):
        size[name] = least(f, f.op(f"sub i64 {size[whole]}, {start}"), size[largest])
    entry = f.op(f"mul i64 {batch}, 2")
    places = [address(f, "i64", table, entry, len(_SIZES) + k) for k in (0, 1)]
    starts = [f.op(f"load i64, ptr {place}") for place in places]
    area = f.op(f"mul i64 {size['m']}, {size['n']}")
    return size, i0, j0, [*starts, f.op(f"mul i64 {area}, {batch}")]


def _tile(
    f: Function, s: Shape, size: dict, a: str, b: str, c: str, i0: str, j0: str, memory: str
) -> None:
    """Computes the tile of the result at `i0`, `j0`."""
    acc = s.acc
    # The packed rows of A follow the panels of B, then the sums between blocks of k.
    whole = f.op(f"add i64 {size['columns']}, {s.columns - 1}")
    panels = f.op(f"udiv i64 {whole}, {s.columns}")
    rows = address(f, acc, memory, f.op(f"mul i64 {panels}, {s.columns * s.depth}"))
    all_sums = address(f, acc, rows, s.rows * (s.depth + GAP))
    along_rows = 1 if s.a_transposed else s.depth + GAP
    packed_rows = [address(f, acc, rows, r * along_rows) for r in range(s.rows)]
    kinds = [vector(acc, s.lanes)] * (s.rows * s.vectors)
    with loop(f, 0, size["k"], s.depth) as (k0, _):
        rest = f.op(f"sub i64 {size['k']}, {k0}")
        deep = least(f, rest, s.depth)
        last = f.op(f"icmp eq i64 {rest}, {deep}")
        if s.b_transposed:
            pack_b(f, s, b, memory, size["k"], k0, deep, j0, size["columns"])
        with loop(f, 0, size["rows"], s.rows) as (i1, _):
            top = f.op(f"add i64 {i0}, {i1}")
            rows_left = f.op(f"sub i64 {size['rows']}, {i1}")
            rows_a = packed_rows
            if s.in_place:
                rows_a = rows_of(f, s, a, size["k"], k0, top, rows_left, s.rows)
            else:
                pack_a(f, s, a, rows, size, k0, deep, top, rows_left)
            line = f.op(f"mul i64 {top}, {size['n']}")
            first = f.op(f"mul i64 {f.op(f'udiv i64 {i1}, {s.rows}')}, {panels}")
            with loop(f, 0, size["columns"], s.columns) as (j1, _):
                left = f.op(f"add i64 {j0}, {j1}")
                columns_left = f.op(f"sub i64 {size['columns']}, {j1}")
                panel = address(f, acc, memory, f.op(f"mul i64 {j1}, {s.depth}"))
                place = address(f, s.code, c, line, left)
                number = f.op(f"add i64 {first}, {f.op(f'udiv i64 {j1}, {s.columns}')}")
                sums = address(f, acc, all_sums, f.op(f"mul i64 {number}, {s.rows * s.columns}"))
                _prefetch_sums(f, s, place, sums, size, last)
                next_rows = ahead(f, s, a, size, k0, f.op(f"add i64 {top}, {s.rows}"), j1)
                products = partial(_accumulated, f, s, rows_a, next_rows, deep)
                with_packed = partial(products, partial(packed, f, s, panel))
                how = partial(packing, f, s, b, panel, size["n"], k0, left, columns_left)
                if s.b_transposed:
                    total = with_packed()
                else:
                    packs = f.op(f"icmp eq i64 {i1}, 0")
                    total = choose(f, packs, lambda: products(how()), with_packed, kinds)
                _add_to_result(
                    f, s, total, sums, place, size["n"], k0, last, rows_left, columns_left
                )


def _accumulated(
    f: Function, s: Shape, a: list[str], next_rows: Rows, deep: str, row_of_b: Rows
) -> list[str]:
    """Computes the register tile: the sum over k of the products of A's column k and B's row k, one
    cache line of k at a time, while prefetching the next lines of A.
    """
    kind = vector(s.acc, s.lanes)
    zeros = [(kind, "zeroinitializer")] * (s.rows * s.vectors)
    with loop(f, 0, deep, s.line, zeros) as (line, total):
        end = f.op(f"add i64 {line}, {s.line}")
        for place in next_rows(line):
            prefetch(f, place, L2)
        beyond = f.op(f"mul i64 {end}, {s.rows}")
        for r in range(s.rows):
            base, offsets = (a[0], (beyond, r * s.line)) if s.a_transposed else (a[r], (end,))
            prefetch(f, address(f, s.acc, base, *offsets), L1)
        end = least(f, deep, end)
        with loop(f, line, end, 1, [(kind, x) for x in total]) as (k, sums):
            x = row_of_b(k)
            at = f.op(f"mul i64 {k}, {s.rows}") if s.a_transposed else k
            for r in range(s.rows):
                y = load_splat(f, s.acc, s.lanes, address(f, s.acc, a[r], at))
                for v in range(s.vectors):
                    n = r * s.vectors + v
                    sums[n] = fma(f, s.acc, s.lanes, y, x[v], sums[n])
        total[:] = sums
    return total


def _prefetch_sums(f: Function, s: Shape, place: str, kept: str, size: dict, last: str) -> None:
    """Prefetches the previous sums and the lines of the result while the products are being
    summed.
    """
    with when(f, f.op(f"icmp sgt i64 {size['k']}, {s.depth}")):
        for offset in range(0, s.rows * s.columns, s.line):
            prefetch(f, address(f, s.acc, kept, offset), WRITTEN)
    with when(f, last):
        for r in range(s.rows):
            line = address(f, s.code, place, f.op(f"mul i64 {size['n']}, {r}")) if r else place
            for v in range(s.vectors):
                prefetch(f, address(f, s.code, line, v * s.lanes), WRITTEN)


def _add_to_result(
    f: Function, s: Shape, total: list[str], kept: str, result: str, stride: str, k0: str,
    last: str, rows: str, columns: str,
) -> None:  # fmt: skip
    """Adds a register tile to the sums of previous blocks of k, and keeps it for subsequent ones,
    or stores it as the result.
    """
    kind, mask_kind = vector(s.acc, s.lanes), f"<{s.lanes} x i1>"
    spots = [(r, v) for r in range(s.rows) for v in range(s.vectors)]
    lines = [f.op(f"mul i64 {stride}, {r}") if r else "0" for r in range(s.rows)]
    places = [address(f, s.acc, kept, number * s.lanes) for number in range(len(total))]
    carried = [(kind, x) for x in total]
    with when(f, f.op(f"icmp ne i64 {k0}, 0"), carried) as sums:
        before = [load(f, s.acc, s.lanes, place) for place in places]
        sums[:] = [f.op(f"fadd {kind} {x}, {y}") for x, y in zip(total, before, strict=True)]

    def keep() -> None:
        for x, place in zip(sums, places, strict=True):
            store(f, s.acc, s.lanes, x, place)

    def write(masks: list[str]) -> None:
        for x, (r, v), mask in zip(sums, spots, masks, strict=True):
            target = address(f, s.code, result, lines[r], v * s.lanes)
            store(f, s.code, s.lanes, cast(f, s.lanes, x, s.acc, s.code), target, mask)

    def edge() -> None:
        inside = [splat(f, "i1", s.lanes, f.op(f"icmp sgt i64 {rows}, {r}")) for r in range(s.rows)]
        masks = [
            below(f, f.op(f"sub i64 {columns}, {v * s.lanes}"), s.lanes) for v in range(s.vectors)
        ]
        write([f.op(f"and {mask_kind} {masks[v]}, {inside[r]}") for r, v in spots])

    def finish() -> None:
        high = f.op(f"icmp sge i64 {rows}, {s.rows}")
        wide = f.op(f"icmp sge i64 {columns}, {s.columns}")
        whole = f.op(f"and i1 {high}, {wide}")
        choose(f, whole, lambda: write([""] * len(spots)), edge)

    choose(f, last, finish, keep)
