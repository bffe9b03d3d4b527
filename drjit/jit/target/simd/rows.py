"""Reductions over an axis that is not the last: rows are read as they lie, and added to
accumulators in memory that stay in the nearest cache. Chunks of rows are joined at the end.
"""

import ast

from .atomic import check_reduction
from .ir import FLOATS, SCALAR, SIGNED, Function, constant
from .llvm import register_bytes
from .long_sum import add as add_long
from .long_sum import is_long
from .loops import address, below, cast, choose, load, loop, numbers, store, vector, width
from .reduction import accumulator, identity
from .translate import CALLS, Translator

# Rows that are read one after the other: as many fewer times are accumulators loaded and stored.
_TOGETHER = 8


def reduce_rows(
    t: Translator,
    kind: ast.expr,
    op_name: ast.expr,
    p: ast.expr,
    k: ast.expr,
    i: ast.expr,
    sizes: ast.expr,
    scratch: ast.expr,
    partial: ast.expr,
) -> None:
    """`reduce_rows(T, 'add', p[x], p[k], i, p[sizes], p[scratch], p[partial])`."""
    t.lane_range(i)
    f, code, op = t.f, t.type(kind), t.text(op_name)
    check_reduction(op, code)
    if code == "mask":
        code = "u8"  # as it lies in memory
    acc = accumulator(code)
    lanes = width(acc)
    size = _table(f, t.parameter(sizes))
    # Which strip of columns of which chunk of rows of which matrix this is.
    strip = f.op(f"urem i64 %i, {size['strips']}")
    part = f.op(f"udiv i64 %i, {size['strips']}")
    chunk = f.op(f"urem i64 {part}, {size['chunks']}")
    matrix = f.op(f"udiv i64 {part}, {size['chunks']}")
    first_column = f.op(f"mul i64 {strip}, {size['strip']}")
    rest = f.op(f"sub i64 {size['columns']}, {first_column}")
    columns = f.op(f"call i64 @llvm.smin.i64(i64 {rest}, i64 {size['strip']})")
    first_row = f.op(f"mul i64 {chunk}, {size['chunk']}")
    end = f.op(f"add i64 {first_row}, {size['chunk']}")
    end = f.op(f"call i64 @llvm.smin.i64(i64 {end}, i64 {size['rows']})")
    row_of_all = f.op(f"mul i64 {matrix}, {size['rows']}")
    start = f.op(f"mul i64 {row_of_all}, {size['columns']}")
    source = address(f, code, f.pointer(t.parameter(p)), start, first_column)
    # Accumulators, and behind them what rounding has taken from sums.
    own = f.op(f"mul i64 %thread, {size['strip']}")
    own = f.op(f"mul i64 {own}, 2")
    target = address(f, acc, f.pointer(t.parameter(scratch)), own)
    errors, of = address(f, acc, target, size["strip"]), vector(acc, lanes)
    is_sum = is_long(op, acc)
    neutral = f"splat ({SCALAR[acc]} {constant(acc, identity(op, acc))})"

    def clear(j: str, _: list[str]) -> tuple[()]:
        for into in (target, errors) if is_sum else (target,):
            store(f, acc, lanes, neutral, address(f, acc, into, j))
        return ()

    loop(f, "0", columns, str(lanes), (), clear)

    def block(r: str, count: str, ahead: bool) -> None:
        """Adds `count` rows from row `r` on. Their own sums, in registers, are short, so that
        they round little."""
        start = address(f, code, source, f.op(f"mul i64 {r}, {size['columns']}"))
        # The rows after these, as they lie in memory where strips are whole rows.
        behind = f.op(f"mul i64 {count}, {size['columns']}")
        following = address(f, code, start, behind)

        def strip(j: str, number: int) -> tuple[()]:
            first = address(f, code, start, j)
            fetched = address(f, code, following, f.op(f"mul i64 {j}, {count}"))

            def row(k: str, totals: list[str]) -> list[str]:
                line = address(f, code, first, f.op(f"mul i64 {k}, {size['columns']}"))
                next_ = address(f, code, fetched, f.op(f"mul i64 {k}, {number * lanes}"))
                result = []
                for n, total in enumerate(totals):
                    x = load(f, code, lanes, address(f, code, line, str(n * lanes)))
                    result.append(_combine(f, op, acc, lanes, cast(f, lanes, x, code, acc), total))
                    if ahead:
                        place = address(f, code, next_, str(n * lanes))
                        f.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 2, i32 1)")
                return result

            totals = [(vector(acc, lanes), neutral)] * number
            for k, total in enumerate(loop(f, "0", count, "1", totals, row)):
                places = [address(f, acc, a, j, str(k * lanes)) for a in (target, errors)]
                if is_sum:
                    before = [load(f, acc, lanes, place) for place in places]
                    after = add_long(f, of, before, total)
                else:
                    before = load(f, acc, lanes, places[0])
                    after = (_combine(f, op, acc, lanes, total, before),)
                for x, place in zip(after, places, strict=False):
                    store(f, acc, lanes, x, place)
            return ()

        registers = 16 if register_bytes() == 64 else 8
        wide = str(registers * lanes)
        left = f.op(f"urem i64 {columns}, {wide}")
        whole = f.op(f"sub i64 {columns}, {left}")
        loop(f, "0", whole, wide, (), lambda j, _: strip(j, registers))
        loop(f, whole, columns, str(lanes), (), lambda j, _: strip(j, 1))

    def blocks(r: str, _: list[str]) -> tuple[()]:
        block(r, str(_TOGETHER), True)
        return ()

    many = f.op(f"sub i64 {end}, {first_row}")
    left = f.op(f"urem i64 {many}, {_TOGETHER}")
    last = f.op(f"sub i64 {end}, {left}")
    loop(f, first_row, last, str(_TOGETHER), (), blocks)
    block(last, left, False)

    def put(into: str, kept: str) -> None:
        line = f.op(f"mul i64 {part}, {size['columns']}")
        result = address(f, kept, into, line, first_column)

        def some(j: str, _: list[str]) -> tuple[()]:
            x = load(f, acc, lanes, address(f, acc, target, j))
            x = cast(f, lanes, x, acc, kept)
            inside = below(f, f.op(f"sub i64 {columns}, {j}"), lanes)
            store(f, kept, lanes, x, address(f, kept, result, j), inside)
            return ()

        loop(f, "0", columns, str(lanes), (), some)

    parts, whole = f.pointer(t.parameter(partial)), f.pointer(t.parameter(k))
    several = f.op(f"icmp sgt i64 {size['chunks']}, 1")
    choose(f, several, lambda: put(parts, acc), lambda: put(whole, code))
    words = [t.parameter(e) for e in (k, sizes, partial)]
    t.finishers.append(lambda f: _join(f, op, code, *words))


def _table(f: Function, sizes: int) -> dict[str, str]:
    """The numbers that say what there is to do, loaded in the entry block."""
    names = ("matrices", "rows", "columns", "chunk", "chunks", "strip", "strips")
    return numbers(f, "rr", f.pointer(sizes), names)


def _join(f: Function, op: str, code: str, k: int, sizes: int, partial: int) -> None:
    """When all chunks are there: the results of a matrix, in the order of its rows."""
    acc = accumulator(code)
    lanes, size = width(acc), _table(f, sizes)
    kind = vector(acc, lanes)
    source, result = f.pointer(partial), f.pointer(k)
    several = f.op(f"icmp sgt i64 {size['chunks']}, 1")
    count = f.op(f"select i1 {several}, i64 {size['matrices']}, i64 0")

    def matrix(m: str, _: list[str]) -> tuple[()]:
        first = f.op(f"mul i64 {m}, {size['columns']}")
        parts = address(f, acc, source, f.op(f"mul i64 {first}, {size['chunks']}"))
        line = address(f, code, result, first)

        def column(j: str, _: list[str]) -> tuple[()]:
            place = address(f, acc, parts, j)

            def chunk(c: str, total: list[str]) -> list[str]:
                offset = f.op(f"mul i64 {c}, {size['columns']}")
                x = load(f, acc, lanes, address(f, acc, place, offset))
                if is_long(op, acc):
                    return list(add_long(f, kind, total, x))
                return [_combine(f, op, acc, lanes, x, total[0])]

            first = load(f, acc, lanes, place)
            start = [(kind, first), (kind, f"splat ({SCALAR[acc]} {constant(acc, -0.0)})")]
            start = start if is_long(op, acc) else start[:1]
            found = loop(f, "1", size["chunks"], "1", start, chunk)
            inside = below(f, f.op(f"sub i64 {size['columns']}, {j}"), lanes)
            x = cast(f, lanes, found[0], acc, code)
            store(f, code, lanes, x, address(f, code, line, j), inside)
            return ()

        loop(f, "0", size["columns"], str(lanes), (), column)
        return ()

    loop(f, "0", count, "1", (), matrix)


def _combine(f: Function, op: str, code: str, lanes: int, x: str, y: str) -> str:
    """As `atomic.combine`, for vectors of another width than the packet's."""
    kind = vector(code, lanes)
    if op in ("min", "max"):
        relation = "lt" if op == "min" else "gt"
        sign = "o" if code in FLOATS else "s" if code in SIGNED else "u"
        compare = "fcmp" if code in FLOATS else "icmp"
        condition = f.op(f"{compare} {sign}{relation} {kind} {x}, {y}")
        return f.op(f"select <{lanes} x i1> {condition}, {kind} {x}, {kind} {y}")
    letter = "f" if code in FLOATS and op in ("add", "mul") else ""
    return f.op(f"{letter}{op} {kind} {x}, {y}")


CALLS["reduce_rows"] = reduce_rows
