"""Matrix products: one tile of the result a task.

A task packs a block of B so that its columns lie side by side as the registers want them; the
innermost loop adds outer products of a column of A and a row of B to accumulators that stay in
registers (K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
34(3), 2008). The products with the first rows of A pack B on the way, which hides what it costs to
move it, unless B is stored as columns. Sums that later blocks of k add to are kept beside the
packed operands: each element of the result is written once.
"""

import ast
from collections.abc import Callable

from . import llvm
from .dots import dots
from .ir import BYTES, FLOATS, SCALAR, Function, KernelError
from .loops import (
    address,
    below,
    cast,
    choose,
    load,
    loop,
    numbers,
    splat,
    store,
    suffix,
    vector,
    width,
)
from .operands import (
    GAP,
    L1,
    L2,
    WRITTEN,
    Shape,
    ahead,
    ask,
    pack_a,
    pack_b,
    packed,
    packing,
    rows_of,
)
from .reduction import accumulator
from .translate import CALLS, Translator


def _register_tile(rows: int, columns: int, lanes: int) -> tuple[int, int]:
    """Rows and vectors of the accumulators, where a result has about so many rows and columns."""
    wide = llvm.register_bytes() == 64
    if rows == 1:
        tile = 1, 8 if wide else 6
    elif rows <= 4:
        tile = 4, 4 if wide else 2
    else:
        tile = 8 if wide else 6, 2
    return tile[0], min(tile[1], -(-columns // lanes))


def matmul(
    t: Translator,
    kind: ast.expr,
    rows: ast.expr,
    columns: ast.expr,
    depth: ast.expr,
    a: ast.expr,
    b: ast.expr,
    c: ast.expr,
    i: ast.expr,
    sizes: ast.expr,
    scratch: ast.expr,
    a_transposed: ast.expr,
    b_transposed: ast.expr,
) -> None:
    """`matmul(T, rows, columns, depth, p[a], p[b], p[c], i, p[sizes], p[scratch], at, bt)`."""
    t.lane_range(i)
    f, code = t.f, t.type(kind)
    if code not in FLOATS:
        raise KernelError(f"there is no matrix product of {code}")
    acc = accumulator(code)
    flags = [ast.literal_eval(e) for e in (a_transposed, b_transposed)]
    tile = _register_tile(t.integer(rows), t.integer(columns), width(acc))
    shape = Shape(code, acc, *tile, width(acc), t.integer(depth), *flags)
    size, i0, j0, starts = _task(f, f.pointer(t.parameter(sizes)))
    at_a, at_b, at_c = [
        address(f, code, f.pointer(t.parameter(p)), start)
        for p, start in zip((a, b, c), starts, strict=True)
    ]
    if shape.rows == 1 and shape.b_transposed:
        dots(f, shape, at_a, at_b, at_c, size["k"], j0, size["columns"])
        return
    room = f.op(f"mul i64 %thread, {size['room']}")
    memory = address(f, acc, f.pointer(t.parameter(scratch)), room)
    _tile(f, shape, size, at_a, at_b, at_c, i0, j0, memory)


def _task(f: Function, table: str) -> tuple[dict[str, str], str, str, list[str]]:
    """The sizes of a product and of the tile that is the task, where the tile begins, and the
    elements at which the operands and the result begin."""
    names = ("m", "n", "k", "mb", "nb", "tiles_m", "tiles_n", "room")
    size = numbers(f, "mm", table, names)
    column = f.op(f"udiv i64 %i, {size['tiles_m']}")
    row = f.op(f"urem i64 %i, {size['tiles_m']}")
    batch = f.op(f"udiv i64 {column}, {size['tiles_n']}")
    column = f.op(f"urem i64 {column}, {size['tiles_n']}")
    i0 = f.op(f"mul i64 {row}, {size['mb']}")
    j0 = f.op(f"mul i64 {column}, {size['nb']}")
    for name, whole, largest, start in (("rows", "m", "mb", i0), ("columns", "n", "nb", j0)):
        rest = f.op(f"sub i64 {size[whole]}, {start}")
        size[name] = f.op(f"call i64 @llvm.smin.i64(i64 {rest}, i64 {size[largest]})")
    entry = f.op(f"mul i64 {batch}, 2")
    starts = []
    for position in (len(names), len(names) + 1):
        index = f.op(f"add i64 {entry}, {position}")
        place = f.op(f"getelementptr i64, ptr {table}, i64 {index}")
        starts.append(f.op(f"load i64, ptr {place}"))
    area = f.op(f"mul i64 {size['m']}, {size['n']}")
    return size, i0, j0, [*starts, f.op(f"mul i64 {area}, {batch}")]


def _tile(
    f: Function, s: Shape, size: dict, a: str, b: str, c: str, i0: str, j0: str, memory: str
) -> None:
    """The tile of the result that begins at `i0`, `j0`."""
    acc = s.acc
    # The packed rows of A stand behind the panels of B, then the sums between blocks of k.
    whole = f.op(f"add i64 {size['columns']}, {s.columns - 1}")
    panels = f.op(f"udiv i64 {whole}, {s.columns}")
    rows = address(f, acc, memory, f.op(f"mul i64 {panels}, {s.columns * s.depth}"))
    all_sums = address(f, acc, rows, str(s.rows * (s.depth + GAP)))
    along_rows = 1 if s.a_transposed else s.depth + GAP
    packed_rows = [address(f, acc, rows, str(r * along_rows)) for r in range(s.rows)]
    kinds = [vector(acc, s.lanes)] * (s.rows * s.vectors)

    def block(k0: str, _: list[str]) -> tuple[()]:
        rest = f.op(f"sub i64 {size['k']}, {k0}")
        deep = f.op(f"call i64 @llvm.smin.i64(i64 {rest}, i64 {s.depth})")
        last = f.op(f"icmp eq i64 {rest}, {deep}")
        if s.b_transposed:
            pack_b(f, s, b, memory, size["k"], k0, deep, j0, size["columns"])

        def strip(i1: str, _: list[str]) -> tuple[()]:
            top = f.op(f"add i64 {i0}, {i1}")
            rows_left = f.op(f"sub i64 {size['rows']}, {i1}")
            rows_a = packed_rows
            if s.in_place:
                rows_a = rows_of(f, s, a, size["k"], k0, top, rows_left, s.rows)
            else:
                pack_a(f, s, a, rows, size, k0, deep, top, rows_left)
            line = f.op(f"mul i64 {top}, {size['n']}")
            first = f.op(f"mul i64 {f.op(f'udiv i64 {i1}, {s.rows}')}, {panels}")

            def register_tile(j1: str, _: list[str]) -> tuple[()]:
                left = f.op(f"add i64 {j0}, {j1}")
                columns_left = f.op(f"sub i64 {size['columns']}, {j1}")
                panel = address(f, acc, memory, f.op(f"mul i64 {j1}, {s.depth}"))
                place = address(f, s.code, c, line, left)
                number = f.op(f"add i64 {first}, {f.op(f'udiv i64 {j1}, {s.columns}')}")
                sums = address(f, acc, all_sums, f.op(f"mul i64 {number}, {s.rows * s.columns}"))
                _prefetch(f, s, place, sums, size, last)
                next_rows = ahead(f, s, a, size, k0, f.op(f"add i64 {top}, {s.rows}"), j1)

                def with_packed() -> list[str]:
                    row_of_b = packed(f, s, panel)
                    return _accumulated(f, s, rows_a, row_of_b, next_rows, deep)

                def with_packing() -> list[str]:
                    row_of_b = packing(f, s, b, panel, size["n"], k0, left, columns_left)
                    return _accumulated(f, s, rows_a, row_of_b, next_rows, deep)

                if s.b_transposed:
                    total = with_packed()
                else:
                    packs = f.op(f"icmp eq i64 {i1}, 0")
                    total = choose(f, packs, with_packing, with_packed, kinds)
                _add_to_result(
                    f, s, total, sums, place, size["n"], k0, last, rows_left, columns_left
                )
                return ()

            loop(f, "0", size["columns"], str(s.columns), (), register_tile)
            return ()

        loop(f, "0", size["rows"], str(s.rows), (), strip)
        return ()

    loop(f, "0", size["k"], str(s.depth), (), block)


def _accumulated(
    f: Function,
    s: Shape,
    a: list[str],
    row_of_b: Callable[[str], list[str]],
    next_rows: Callable[[str], list[str]],
    deep: str,
) -> list[str]:
    """The register tile: the sum over k of the products of A's column k and B's row k. A cache line
    of k at a time, the next ones of A are asked for.
    """
    kind, element = vector(s.acc, s.lanes), SCALAR[s.acc]

    def column(k: str, total: list[str]) -> list[str]:
        x = row_of_b(k)
        at = f.op(f"mul i64 {k}, {s.rows}") if s.a_transposed else k
        result = []
        for r in range(s.rows):
            place = address(f, s.acc, a[r], at)
            y = splat(
                f, element, s.lanes, f.op(f"load {element}, ptr {place}, align {BYTES[s.acc]}")
            )
            for v in range(s.vectors):
                operands = f"{kind} {y}, {kind} {x[v]}, {kind} {total[r * s.vectors + v]}"
                result.append(f.op(f"call {kind} @llvm.fma.{suffix(s.acc, s.lanes)}({operands})"))
        return result

    def columns(k: str, total: list[str]) -> list[str]:
        end = f.op(f"add i64 {k}, {s.line}")
        for place in next_rows(k):
            ask(f, place, L2)
        beyond = f.op(f"mul i64 {end}, {s.rows}")
        for r in range(s.rows):
            here = (a[0], beyond, str(r * s.line)) if s.a_transposed else (a[r], end)
            ask(f, address(f, s.acc, *here), L1)
        end = f.op(f"call i64 @llvm.smin.i64(i64 {deep}, i64 {end})")
        return loop(f, k, end, "1", [(kind, x) for x in total], column)

    zeros = [(kind, "zeroinitializer")] * (s.rows * s.vectors)
    return loop(f, "0", deep, str(s.line), zeros, columns)


def _prefetch(f: Function, s: Shape, place: str, kept: str, size: dict, last: str) -> None:
    """Asks for what the sums are added to and for the lines of the result, while the products are
    being added up.
    """

    def sums() -> None:
        for offset in range(0, s.rows * s.columns, s.line):
            ask(f, address(f, s.acc, kept, str(offset)), WRITTEN)

    def result() -> None:
        for r in range(s.rows):
            line = address(f, s.code, place, f.op(f"mul i64 {size['n']}, {r}")) if r else place
            for v in range(s.vectors):
                ask(f, address(f, s.code, line, str(v * s.lanes)), WRITTEN)

    choose(f, f.op(f"icmp sgt i64 {size['k']}, {s.depth}"), sums)
    choose(f, last, result)


def _add_to_result(
    f: Function,
    s: Shape,
    total: list[str],
    kept: str,
    result: str,
    stride: str,
    k0: str,
    last: str,
    rows: str,
    columns: str,
) -> None:
    """Adds a register tile to the sums of the blocks of k before, and keeps it for those that
    follow, or stores it as the result.
    """
    kind, mask_kind = vector(s.acc, s.lanes), f"<{s.lanes} x i1>"
    spots = [(r, v) for r in range(s.rows) for v in range(s.vectors)]
    lines = [f.op(f"mul i64 {stride}, {r}") if r else "0" for r in range(s.rows)]
    places = [address(f, s.acc, kept, str(number * s.lanes)) for number in range(len(total))]

    def more() -> list[str]:
        before = [load(f, s.acc, s.lanes, place) for place in places]
        return [f.op(f"fadd {kind} {x}, {y}") for x, y in zip(total, before, strict=True)]

    sums = choose(f, f.op(f"icmp ne i64 {k0}, 0"), more, lambda: total, [kind] * len(total))

    def keep() -> None:
        for x, place in zip(sums, places, strict=True):
            store(f, s.acc, s.lanes, x, place)

    def write(masks: list[str]) -> None:
        for x, (r, v), mask in zip(sums, spots, masks, strict=True):
            target = address(f, s.code, result, lines[r], str(v * s.lanes))
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


CALLS["matmul"] = matmul
