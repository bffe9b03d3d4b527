"""Matrix products: one tile of the result a task.

A task packs a block of B so that its columns lie side by side as the registers want them; the
innermost loop adds outer products of a column of A and a row of B to accumulators that stay in
registers (K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS
34(3), 2008). The products with the first rows of A pack B on the way, which hides what it costs to
move it, unless B is stored as columns. Rows of A are read where they are, but packed, a few at a
time, if they are halves or stored as columns.
"""

import ast
from collections.abc import Callable
from typing import NamedTuple

from . import llvm
from .dots import dots
from .ir import BYTES, FLOATS, SCALAR, Function, KernelError
from .loops import address, below, choose, load, loop, splat, store, suffix, vector, width
from .reduction import accumulator
from .translate import CALLS, Translator

# Elements between the ends of packed rows of A: rows of a power of two would share cache sets.
_GAP = 16
# Rows of B ahead of the current one that are asked for while it is packed.
_FAR = 32


class Shape(NamedTuple):
    """What is fixed when a product is compiled: the element type and that of the accumulators,
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
    def line(self) -> int:
        """Elements of a cache line."""
        return 64 // BYTES[self.acc]


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
    names = ("m", "n", "k", "mb", "nb", "tiles_m", "tiles_n", "room")
    table = f.pointer(t.parameter(sizes))
    size = {}
    for number, name in enumerate(names):
        place = f.once(f"%mm.{name}.p", f"getelementptr i64, ptr {table}, i64 {number}")
        size[name] = f.once(f"%mm.{name}", f"load i64, ptr {place}")
    # Which tile of which product of the batch this is.
    column = f.op(f"udiv i64 %i, {size['tiles_m']}")
    row = f.op(f"urem i64 %i, {size['tiles_m']}")
    batch = f.op(f"udiv i64 {column}, {size['tiles_n']}")
    column = f.op(f"urem i64 {column}, {size['tiles_n']}")
    i0 = f.op(f"mul i64 {row}, {size['mb']}")
    j0 = f.op(f"mul i64 {column}, {size['nb']}")
    entry = f.op(f"mul i64 {batch}, 2")
    offsets = []
    for position in (len(names), len(names) + 1):
        index = f.op(f"add i64 {entry}, {position}")
        place = f.op(f"getelementptr i64, ptr {table}, i64 {index}")
        offsets.append(f.op(f"load i64, ptr {place}"))
    area = f.op(f"mul i64 {size['m']}, {size['n']}")
    result = f.op(f"mul i64 {area}, {batch}")
    bases = [
        address(f, element, f.pointer(t.parameter(p)), offset)
        for p, element, offset in (
            (a, code, offsets[0]),
            (b, code, offsets[1]),
            (c, code, result),
        )
    ]
    rest_n = f.op(f"sub i64 {size['n']}, {j0}")
    columns_here = f.op(f"call i64 @llvm.smin.i64(i64 {rest_n}, i64 {size['nb']})")
    if shape.rows == 1 and shape.b_transposed:
        dots(f, code, *bases, size["k"], j0, columns_here)
        return
    room = f.op(f"mul i64 %thread, {size['room']}")
    packed_b = address(f, acc, f.pointer(t.parameter(scratch)), room)
    rest_m = f.op(f"sub i64 {size['m']}, {i0}")
    rows_here = f.op(f"call i64 @llvm.smin.i64(i64 {rest_m}, i64 {size['mb']})")
    # The panel of A stands behind those of B, then the sums that are kept between blocks of k.
    whole = f.op(f"add i64 {columns_here}, {shape.columns - 1}")
    panels = f.op(f"udiv i64 {whole}, {shape.columns}")
    behind = f.op(f"mul i64 {panels}, {shape.columns * shape.depth}")
    packed_a = address(f, acc, packed_b, behind)
    kept_sums = address(f, acc, packed_a, str(shape.rows * (shape.depth + _GAP)))

    in_place = acc == code and not shape.a_transposed
    along_rows = 1 if shape.a_transposed else shape.depth + _GAP

    def block(k0: str, _: list[str]) -> tuple[()]:
        rest = f.op(f"sub i64 {size['k']}, {k0}")
        deep = f.op(f"call i64 @llvm.smin.i64(i64 {rest}, i64 {shape.depth})")
        if shape.b_transposed:
            _pack_b(f, shape, bases[1], packed_b, size["k"], k0, deep, j0, columns_here)

        def rows_of_a(i1: str, _: list[str]) -> tuple[()]:
            top = f.op(f"add i64 {i0}, {i1}")
            rows_left = f.op(f"sub i64 {rows_here}, {i1}")
            following = f.op(f"add i64 {top}, {shape.rows}")
            if in_place:
                rows_a = _rows_of(f, shape, bases[0], size["k"], k0, top, rows_left)
            else:
                _pack_a(f, shape, bases[0], packed_a, size, k0, deep, top, rows_left)
                rows_a = [address(f, acc, packed_a, str(r * along_rows)) for r in range(shape.rows)]

            def columns_of_b(j1: str, _: list[str]) -> tuple[()]:
                left = f.op(f"add i64 {j0}, {j1}")
                columns_left = f.op(f"sub i64 {columns_here}, {j1}")
                panel = address(f, acc, packed_b, f.op(f"mul i64 {j1}, {shape.depth}"))
                line = f.op(f"mul i64 {top}, {size['n']}")
                place = address(f, code, bases[2], line, left)
                number = f.op(f"mul i64 {f.op(f'udiv i64 {i1}, {shape.rows}')}, {panels}")
                number = f.op(f"add i64 {number}, {f.op(f'udiv i64 {j1}, {shape.columns}')}")
                number = f.op(f"mul i64 {number}, {shape.rows * shape.columns}")
                kept = address(f, acc, kept_sums, number)
                last = f.op(f"icmp eq i64 {rest}, {deep}")
                _prefetch(f, shape, place, kept, size, last)
                ahead = _ahead(f, shape, bases[0], size, k0, following, j1)
                kinds = [vector(acc, shape.lanes)] * (shape.rows * shape.vectors)

                def packed() -> list[str]:
                    row_of_b = _packed(f, shape, panel)
                    return _accumulated(f, shape, rows_a, row_of_b, ahead, deep)

                def packing() -> list[str]:
                    row_of_b = _packing(
                        f, shape, bases[1], panel, size["n"], k0, left, columns_left
                    )
                    return _accumulated(f, shape, rows_a, row_of_b, ahead, deep)

                if shape.b_transposed:
                    total = packed()
                else:
                    total = choose(f, f.op(f"icmp eq i64 {i1}, 0"), packing, packed, kinds)
                _add_to_result(
                    f, shape, total, kept, place, size["n"], k0, last, rows_left, columns_left
                )
                return ()

            loop(f, "0", columns_here, str(shape.columns), (), columns_of_b)
            return ()

        loop(f, "0", rows_here, str(shape.rows), (), rows_of_a)
        return ()

    loop(f, "0", size["k"], str(shape.depth), (), block)


def _widened(f: Function, s: Shape, x: str, lanes: int) -> str:
    if s.code == s.acc:
        return x
    return f.op(f"fpext {vector(s.code, lanes)} {x} to {vector(s.acc, lanes)}")


def _packed(f: Function, s: Shape, panel: str) -> Callable[[str], list[str]]:
    """What gives the row k of a packed panel."""

    def row(k: str) -> list[str]:
        start = f.op(f"mul i64 {k}, {s.columns}")
        x = []
        for v in range(s.vectors):
            x.append(load(f, s.acc, s.lanes, address(f, s.acc, panel, start, str(v * s.lanes))))
        return x

    return row


def _packing(
    f: Function, s: Shape, b: str, panel: str, stride: str, k0: str, left: str, count: str
) -> Callable[[str], list[str]]:
    """What gives the row k of a panel as it is in B, and packs it on the way. Far rows go to the
    second cache: where the stride is a power of two, few of them fit into the first."""
    masks = [below(f, f.op(f"sub i64 {count}, {v * s.lanes}"), s.lanes) for v in range(s.vectors)]
    b = address(f, s.code, b, f.op(f"mul i64 {k0}, {stride}"), left)
    far = address(f, s.code, b, f.op(f"mul i64 {stride}, {_FAR}"))

    def row(k: str) -> list[str]:
        line, start = f.op(f"mul i64 {k}, {stride}"), f.op(f"mul i64 {k}, {s.columns}")
        x = []
        for v, mask in enumerate(masks):
            offset = str(v * s.lanes)
            _ask(f, address(f, s.code, far, line, offset), _L2)
            place = address(f, s.code, b, line, offset)
            x.append(_widened(f, s, load(f, s.code, s.lanes, place, mask), s.lanes))
            if s.rows > 1:  # a single row of A reads B once
                store(f, s.acc, s.lanes, x[-1], address(f, s.acc, panel, start, offset))
        return x

    return row


def _pack_b(
    f: Function, s: Shape, b: str, packed: str, stride: str, k0: str, deep: str, j0: str, count: str
) -> None:
    """Columns `j0 ...` of the rows `k0 ...` of B, stored as rows: panels of as many columns as a
    register tile has, each row by row.
    """

    def panel(j1: str, _: list[str]) -> tuple[()]:
        left = f.op(f"add i64 {j0}, {j1}")
        target = address(f, s.acc, packed, f.op(f"mul i64 {j1}, {s.depth}"))
        rest = f.op(f"sub i64 {count}, {j1}")
        for v in range(s.vectors):
            _pack_transposed(f, s, b, target, stride, k0, deep, left, rest, v)
        return ()

    loop(f, "0", count, str(s.columns), (), panel)


def _pack_transposed(
    f: Function, s: Shape, b: str, target: str, stride: str, k0: str, deep: str, left: str,
    rest: str, v: int,
) -> None:  # fmt: skip
    """One vector of columns of a panel, where they are stored as rows: square blocks, transposed in
    registers.
    """
    n, kind = s.lanes, vector(s.acc, s.lanes)
    halves = [
        ", ".join([f"i32 {base + k // 2 + (n if k % 2 else 0)}" for k in range(n)])
        for base in (0, n // 2)
    ]
    last = f.op(f"sub i64 {rest}, 1")
    lines = []
    for r in range(n):
        # Rows beyond the end repeat the last one: nothing of them is stored in the end.
        r_ = f.op(f"call i64 @llvm.smin.i64(i64 {last}, i64 {v * n + r})")
        line = f.op(f"mul i64 {f.op(f'add i64 {left}, {r_}')}, {stride}")
        lines.append(address(f, s.code, b, line, k0))

    def square(k: str, _: list[str]) -> tuple[()]:
        mask = below(f, f.op(f"sub i64 {deep}, {k}"), n)
        x = [_widened(f, s, load(f, s.code, n, address(f, s.code, p, k), mask), n) for p in lines]
        step = 1
        while step < n:
            x = [
                f.op(
                    f"shufflevector {kind} {x[j // 2]}, {kind} {x[j // 2 + n // 2]}, "
                    f"<{n} x i32> <{halves[j % 2]}>"
                )
                for j in range(n)
            ]
            step *= 2
        for j in range(n):
            row = f.op(f"mul i64 {f.op(f'add i64 {k}, {j}')}, {s.columns}")
            store(f, s.acc, n, x[j], address(f, s.acc, target, row, str(v * n)))
        return ()

    loop(f, "0", deep, str(n), (), square)


def _pack_a(
    f: Function, s: Shape, a: str, packed: str, size: dict, k0: str, deep: str, top: str, rest: str
) -> None:
    """Rows `top ...` of the columns `k0 ...` of A, side by side; column by column if they are
    stored so.
    """
    if s.a_transposed:
        mask = below(f, rest, s.rows)

        def column(k: str, _: list[str]) -> tuple[()]:
            line = f.op(f"mul i64 {f.op(f'add i64 {k0}, {k}')}, {size['m']}")
            x = load(f, s.code, s.rows, address(f, s.code, a, line, top), mask)
            place = address(f, s.acc, packed, f.op(f"mul i64 {k}, {s.rows}"))
            store(f, s.acc, s.rows, _widened(f, s, x, s.rows), place)
            return ()

        loop(f, "0", deep, "1", (), column)
        return
    lines = _rows_of(f, s, a, size["k"], k0, top, rest)

    def part(k: str, _: list[str]) -> tuple[()]:
        mask = below(f, f.op(f"sub i64 {deep}, {k}"), s.lanes)
        for r, line in enumerate(lines):
            x = load(f, s.code, s.lanes, address(f, s.code, line, k), mask)
            place = address(f, s.acc, packed, k, str(r * (s.depth + _GAP)))
            store(f, s.acc, s.lanes, _widened(f, s, x, s.lanes), place)
        return ()

    loop(f, "0", deep, str(s.lanes), (), part)


def _rows_of(f: Function, s: Shape, a: str, stride: str, k0: str, top: str, rest: str) -> list[str]:
    """Where the rows `top ...` of A begin. Rows beyond the end repeat the last one: nothing of them
    is stored in the end."""
    last = f.op(f"sub i64 {rest}, 1")
    lines = []
    for r in range(s.rows):
        r_ = f.op(f"call i64 @llvm.smin.i64(i64 {last}, i64 {r})")
        line = f.op(f"mul i64 {f.op(f'add i64 {top}, {r_}')}, {stride}")
        lines.append(address(f, s.code, a, line, k0))
    return lines


def _ahead(
    f: Function, s: Shape, a: str, size: dict, k0: str, following: str, j1: str
) -> Callable[[str], list[str]]:
    """What of the next rows of A to ask for at k: each panel of B asks for another two."""
    last = f.op(f"sub i64 {size['m']}, 1")
    if s.a_transposed:
        following = f.op(f"call i64 @llvm.smin.i64(i64 {last}, i64 {following})")
        start = address(f, s.code, a, f.op(f"mul i64 {k0}, {size['m']}"), following)

        def columns(k: str) -> list[str]:
            lines = [
                f.op(f"mul i64 {f.op(f'add i64 {k}, {j}')}, {size['m']}") for j in range(s.line)
            ]
            return [address(f, s.code, start, line) for line in lines]

        return columns
    number = f.op(f"udiv i64 {j1}, {s.columns}")
    starts = []
    for distance in {0, s.rows // 2}:
        row = f.op(f"urem i64 {f.op(f'add i64 {number}, {distance}')}, {s.rows}")
        row = f.op(f"add i64 {following}, {row}")
        row = f.op(f"call i64 @llvm.smin.i64(i64 {last}, i64 {row})")
        starts.append(address(f, s.code, a, f.op(f"mul i64 {row}, {size['k']}"), k0))
    return lambda k: [address(f, s.code, start, k) for start in starts]


def _accumulated(
    f: Function,
    s: Shape,
    a: list[str],
    row_of_b: Callable[[str], list[str]],
    ahead: Callable[[str], list[str]],
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
        for place in ahead(k):
            _ask(f, place, _L2)
        packed = f.op(f"mul i64 {end}, {s.rows}")
        for r in range(s.rows):
            here = (a[0], packed, str(r * s.line)) if s.a_transposed else (a[r], end)
            _ask(f, address(f, s.acc, *here), _L1)
        end = f.op(f"call i64 @llvm.smin.i64(i64 {deep}, i64 {end})")
        return loop(f, k, end, "1", [(kind, x) for x in total], column)

    zeros = [(kind, "zeroinitializer")] * (s.rows * s.vectors)
    return loop(f, "0", deep, str(s.line), zeros, columns)


# How near to the registers a line is wanted, and whether it will be written.
_L1, _L2, _WRITTEN = "i32 0, i32 3", "i32 0, i32 2", "i32 1, i32 3"


def _ask(f: Function, place: str, how: str) -> None:
    f.do(f"call void @llvm.prefetch.p0(ptr {place}, {how}, i32 1)")


def _prefetch(f: Function, s: Shape, place: str, kept: str, size: dict, last: str) -> None:
    """Asks for what the sums are added to and for the lines of the result, while the products are
    being added up.
    """

    def sums() -> None:
        for offset in range(0, s.rows * s.columns, s.line):
            _ask(f, address(f, s.acc, kept, str(offset)), _WRITTEN)

    def result() -> None:
        for r in range(s.rows):
            line = address(f, s.code, place, f.op(f"mul i64 {size['n']}, {r}")) if r else place
            for v in range(s.vectors):
                _ask(f, address(f, s.code, line, str(v * s.lanes)), _WRITTEN)

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
            if s.code != s.acc:
                x = f.op(f"fptrunc {kind} {x} to {vector(s.code, s.lanes)}")
            target = address(f, s.code, result, lines[r], str(v * s.lanes))
            store(f, s.code, s.lanes, x, target, mask)

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
