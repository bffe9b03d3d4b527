"""Reductions over an axis other than the last: rows are read in memory order and added to
accumulators in memory, which stay in the L1 cache. Chunks of rows are combined at the end.
"""

from collections.abc import Sequence
from typing import NamedTuple

from .arguments import statement
from .atomic import combine
from .compensated_sum import add_long, is_long
from .ir import SCALAR, Function, constant
from .loops import address, below, cast, choose, least, load, loop, numbers, store, vector, width
from .reduction import accumulator, identity
from .translate import Translator

# Number of rows read in succession, which divides the loads and stores of accumulators.
_TOGETHER = 8
_SIZES = ("matrices", "rows", "columns", "chunk", "chunks", "strip", "strips")


@statement("type reduction pointer parameter lane_range parameter pointer parameter")
def reduce_rows(
    t: Translator, code: str, op: str, base: str, k: int, sizes: int, scratch: str, partial: int
) -> None:
    """`reduce_rows(T, 'add', p[x], p[k], i, p[sizes], p[scratch], p[partial])`."""
    f = t.f
    code = "u8" if code == "mask" else code  # as in memory
    r = _Rows.of(f, op, code, sizes)
    size, lanes, acc = r.size, r.lanes, r.acc
    # Compute the strip of columns, the chunk of rows, and the matrix of this task.
    strip = f.op(f"urem i64 %i, {size['strips']}")
    part = f.op(f"udiv i64 %i, {size['strips']}")
    chunk = f.op(f"urem i64 {part}, {size['chunks']}")
    matrix = f.op(f"udiv i64 {part}, {size['chunks']}")
    first_column = f.op(f"mul i64 {strip}, {size['strip']}")
    rest = f.op(f"sub i64 {size['columns']}, {first_column}")
    columns = least(f, rest, size["strip"])
    first_row = f.op(f"mul i64 {chunk}, {size['chunk']}")
    end = least(f, f.op(f"add i64 {first_row}, {size['chunk']}"), size["rows"])
    row_of_all = f.op(f"mul i64 {matrix}, {size['rows']}")
    start = f.op(f"mul i64 {row_of_all}, {size['columns']}")
    source = address(f, code, base, start, first_column)
    # Accumulators, followed by the rounding errors of sums.
    own = f.op(f"mul i64 %thread, {size['strip']}")
    own = f.op(f"mul i64 {own}, 2")
    target = address(f, acc, scratch, own)
    sums = [target, address(f, acc, target, size["strip"])] if r.is_sum else [target]
    with loop(f, 0, columns, lanes) as (j, _):
        for into in sums:
            store(f, acc, lanes, r.neutral, address(f, acc, into, j))
    left = f.op(f"urem i64 {f.op(f'sub i64 {end}, {first_row}')}, {_TOGETHER}")
    last = f.op(f"sub i64 {end}, {left}")
    with loop(f, first_row, last, _TOGETHER) as (row, _):
        _add_rows(r, source, row, str(_TOGETHER), columns, sums, ahead=True)
    _add_rows(r, source, last, left, columns, sums, ahead=False)

    def put(into: str, kept: str) -> None:
        line = f.op(f"mul i64 {part}, {size['columns']}")
        result = address(f, kept, into, line, first_column)
        with loop(f, 0, columns, lanes) as (j, _):
            x = load(f, acc, lanes, address(f, acc, target, j))
            r.store(kept, x, result, j, columns)

    several = f.op(f"icmp sgt i64 {size['chunks']}, 1")
    choose(f, several, lambda: put(f.pointer(partial), acc), lambda: put(f.pointer(k), code))
    t.finishers.append(lambda f: _join(_Rows.of(f, op, code, sizes), k, partial))


class _Rows(NamedTuple):
    """A reduction of rows: the element type and the accumulator type, the lanes of a register and
    the type of its vectors, and the parameters of the task.
    """

    f: Function
    op: str
    code: str
    acc: str
    lanes: int
    kind: str
    is_sum: bool
    neutral: str
    size: dict[str, str]

    @classmethod
    def of(cls, f: Function, op: str, code: str, sizes: int) -> "_Rows":
        acc = accumulator(code)
        lanes, size = width(f, acc), numbers(f, "rr", f.pointer(sizes), _SIZES)
        neutral = f"splat ({SCALAR[acc]} {constant(acc, identity(op, acc))})"
        return cls(f, op, code, acc, lanes, vector(acc, lanes), is_long(op, acc), neutral, size)

    def add(self, totals: Sequence[str], x: str) -> list[str]:
        """Adds a term to a total; returns it, with its rounding error if it is a long sum."""
        if len(totals) > 1:
            return list(add_long(self.f, self.kind, totals, x))
        return [combine(self.f, self.op, self.acc, x, totals[0], self.kind)]

    def store(self, code: str, x: str, line: str, j: str, columns: str) -> None:
        """Stores results of columns from `j` on, in their own type."""
        f, lanes = self.f, self.lanes
        inside = below(f, f.op(f"sub i64 {columns}, {j}"), lanes)
        store(f, code, lanes, cast(f, lanes, x, self.acc, code), address(f, code, line, j), inside)


def _add_rows(
    r: _Rows, source: str, row: str, count: str, columns: str, sums: list[str], *, ahead: bool
) -> None:
    """Adds `count` consecutive rows. They are first summed in registers, which are short sums with
    little rounding.
    """
    f, lanes, code, acc, across = r.f, r.lanes, r.code, r.acc, r.size["columns"]
    start = address(f, code, source, f.op(f"mul i64 {row}, {across}"))
    # The subsequent rows in memory, if strips are whole rows.
    following = address(f, code, start, f.op(f"mul i64 {count}, {across}"))

    def strip(j: str, number: int) -> None:
        first = address(f, code, start, j)
        fetched = address(f, code, following, f.op(f"mul i64 {j}, {count}"))
        with loop(f, 0, count, 1, [(r.kind, r.neutral)] * number) as (k, totals):
            line = address(f, code, first, f.op(f"mul i64 {k}, {across}"))
            next_ = address(f, code, fetched, f.op(f"mul i64 {k}, {number * lanes}"))
            for n, total in enumerate(totals):
                x = load(f, code, lanes, address(f, code, line, n * lanes))
                (totals[n],) = r.add([total], cast(f, lanes, x, code, acc))
                if ahead:
                    place = address(f, code, next_, n * lanes)
                    f.do(f"call void @llvm.prefetch.p0(ptr {place}, i32 0, i32 2, i32 1)")
        for k, total in enumerate(totals):
            places = [address(f, acc, a, j, k * lanes) for a in sums]
            after = r.add([load(f, acc, lanes, place) for place in places], total)
            for x, place in zip(after, places, strict=True):
                store(f, acc, lanes, x, place)

    registers = 16 if f.machine.register_bytes == 64 else 8
    left = f.op(f"urem i64 {columns}, {registers * lanes}")
    whole = f.op(f"sub i64 {columns}, {left}")
    with loop(f, 0, whole, registers * lanes) as (j, _):
        strip(j, registers)
    with loop(f, whole, columns, lanes) as (j, _):
        strip(j, 1)


def _join(r: _Rows, k: int, partial: int) -> None:
    """Combines the results of a matrix, in the order of its rows, when all chunks are complete."""
    f, size, lanes, acc = r.f, r.size, r.lanes, r.acc
    source, result = f.pointer(partial), f.pointer(k)
    several = f.op(f"icmp sgt i64 {size['chunks']}, 1")
    count = f.op(f"select i1 {several}, i64 {size['matrices']}, i64 0")
    with loop(f, 0, count, 1) as (matrix, _):
        first = f.op(f"mul i64 {matrix}, {size['columns']}")
        parts = address(f, acc, source, f.op(f"mul i64 {first}, {size['chunks']}"))
        line = address(f, r.code, result, first)
        with loop(f, 0, size["columns"], lanes) as (j, _):
            place = address(f, acc, parts, j)
            start = [(r.kind, load(f, acc, lanes, place))]
            if r.is_sum:
                start.append((r.kind, r.neutral))
            with loop(f, 1, size["chunks"], 1, start) as (chunk, totals):
                offset = f.op(f"mul i64 {chunk}, {size['columns']}")
                x = load(f, acc, lanes, address(f, acc, place, offset))
                totals[:] = r.add(totals, x)
            r.store(r.code, totals[0], line, j, size["columns"])
