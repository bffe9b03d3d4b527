"""Reductions over an axis that is not the last: rows are read as they lie, and added to
accumulators in memory that stay in the nearest cache.
"""

import ast

from .atomic import check_reduction
from .ir import FLOATS, SCALAR, SIGNED, Function, constant
from .loops import address, load, loop, store, vector, width
from .reduction import accumulator, identity
from .translate import CALLS, Translator

# Rows that are read together: as many fewer times are accumulators loaded and stored.
_TOGETHER = 8


def reduce_rows(
    t: Translator,
    kind: ast.expr,
    op_name: ast.expr,
    p: ast.expr,
    k: ast.expr,
    i: ast.expr,
    sizes: ast.expr,
) -> None:
    """`reduce_rows(T, 'add', p[x], p[k], i, p[sizes])`."""
    t.lane_range(i)
    f, code, op = t.f, t.type(kind), t.text(op_name)
    check_reduction(op, code)
    if code == "mask":
        code = "u8"  # as it lies in memory
    acc = accumulator(code)
    lanes = width(acc)
    table = f.pointer(t.parameter(sizes))
    size = {}
    for number, name in enumerate(
        ("rows", "columns", "chunk", "chunks", "strip", "strips", "stride")
    ):
        place = f.once(f"%rr.{name}.p", f"getelementptr i64, ptr {table}, i64 {number}")
        size[name] = f.once(f"%rr.{name}", f"load i64, ptr {place}")
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
    line = f.op(f"mul i64 {part}, {size['stride']}")
    target = address(f, acc, f.pointer(t.parameter(k)), line, first_column)
    neutral = f"splat ({SCALAR[acc]} {constant(acc, identity(op, acc))})"

    def clear(j: str, _: list[str]) -> tuple[()]:
        store(f, acc, lanes, neutral, address(f, acc, target, j))
        return ()

    loop(f, "0", columns, str(lanes), (), clear)

    def rows(count: int, begin: str, stop: str) -> None:
        def some(r: str, _: list[str]) -> tuple[()]:
            starts = []
            for together in range(count):
                row = f.op(f"mul i64 {f.op(f'add i64 {r}, {together}')}, {size['columns']}")
                starts.append(address(f, code, source, row))

            following = address(f, code, starts[0], f.op(f"mul i64 {size['columns']}, {count}"))

            def add(j: str, _: list[str]) -> tuple[()]:
                if count > 1:
                    # The rows after these, as they lie in memory where strips are whole rows.
                    ahead = address(f, code, following, f.op(f"mul i64 {j}, {count}"))
                    for k in range(count):
                        line = address(f, code, ahead, str(k * lanes))
                        f.do(f"call void @llvm.prefetch.p0(ptr {line}, i32 0, i32 2, i32 1)")
                place = address(f, acc, target, j)
                total = load(f, acc, lanes, place)
                for begin in starts:
                    x = load(f, code, lanes, address(f, code, begin, j))
                    if acc != code:
                        x = f.op(f"fpext {vector(code, lanes)} {x} to {vector(acc, lanes)}")
                    total = _combine(f, op, acc, lanes, x, total)
                store(f, acc, lanes, total, place)
                return ()

            loop(f, "0", columns, str(lanes), (), add)
            return ()

        loop(f, begin, stop, str(count), (), some)

    many = f.op(f"sub i64 {end}, {first_row}")
    left = f.op(f"urem i64 {many}, {_TOGETHER}")
    last = f.op(f"sub i64 {end}, {left}")
    rows(_TOGETHER, first_row, last)
    rows(1, last, end)


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
