"""Reductions over an axis other than the last: rows are read in memory order and added to
accumulators in memory, which stay in the L1 cache. Chunks of rows are combined at the end.
"""

from typing import Any

from ...tuples import NamedTuple
from .arguments import statement
from .compensated_sum import is_long
from .reduction import accumulator, neutral_number
from .translate import Translator
from .values import Code, Pointer, Vector, Word

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
    given = f.pointer(sizes), f.pointer(k), f.pointer(partial)
    run_task(Code(f), op, code, *given, base, scratch)
    t.finishers.append(
        lambda f: finish(Code(f), op, code, f.pointer(sizes), f.pointer(k), f.pointer(partial))
    )


class _Rows(NamedTuple):
    """A reduction of rows: the element type and the accumulator type, the lanes of a register, the
    parameters of the task, and where results go: those of all rows, or those of chunks.
    """

    code: str
    acc: str
    lanes: int
    op: str
    size: dict[str, Word]
    result: Pointer
    partial: Pointer

    @classmethod
    def of(cls, c: Code, op: str, code: str, sizes: Any, result: Any, partial: Any) -> "_Rows":
        acc, size = accumulator(code), c.numbers("rr", sizes, _SIZES)
        places = c.pointer(code, result), c.pointer(acc, partial)
        return cls(code, acc, c.width(acc), op, size, *places)

    @property
    def is_sum(self) -> bool:
        return is_long(self.op, self.acc)

    def neutral(self, c: Code) -> Vector:
        return c.full(self.acc, self.lanes, neutral_number(self.op, self.acc))

    def store(self, c: Code, x: Vector, line: Pointer, j: Word, columns: Word) -> None:
        """Stores results of columns from `j` on, in their own type."""
        (line + j).store(x.cast(line.code), c.below(columns - j, self.lanes))


def run_task(
    c: Code, op: str, code: str, sizes: Any, result: Any, partial: Any, base: Any, scratch: Any
) -> None:
    """Reduces a chunk of rows of a strip of columns: the task of a kernel with the statement
    `reduce_rows`."""
    r = _Rows.of(c, op, code, sizes, result, partial)
    size, lanes = r.size, r.lanes
    # Compute the strip of columns, the chunk of rows, and the matrix of this task.
    strip, part = c.task() % size["strips"], c.task() // size["strips"]
    chunk, matrix = part % size["chunks"], part // size["chunks"]
    first_column = strip * size["strip"]
    columns = c.least(size["columns"] - first_column, size["strip"])
    first_row = chunk * size["chunk"]
    end = c.least(first_row + size["chunk"], size["rows"])
    start = matrix * size["rows"] * size["columns"]
    source = c.pointer(code, base) + start + first_column
    # Accumulators, followed by the rounding errors of sums.
    target = c.pointer(r.acc, scratch) + c.thread() * size["strip"] * 2
    sums = [target, target + size["strip"]] if r.is_sum else [target]
    for j in c.range(0, columns, lanes):
        for into in sums:
            (into + j).store(r.neutral(c))
    left = (end - first_row) % _TOGETHER
    last = end - left
    for row in c.range(first_row, last, _TOGETHER):
        _add_rows(c, r, source, row, _TOGETHER, columns, sums, ahead=True)
    _add_rows(c, r, source, last, left, columns, sums, ahead=False)

    def put(into: Pointer) -> None:
        line = into + part * size["columns"] + first_column
        for j in c.range(0, columns, lanes):
            r.store(c, (target + j).load(lanes), line, j, columns)

    c.choose(size["chunks"] > 1, lambda: put(r.partial), lambda: put(r.result))


def _add_rows(
    c: Code, r: _Rows, source: Pointer, row: Word, count: Word | int, columns: Word,
    sums: list[Pointer], *, ahead: bool,
) -> None:  # fmt: skip
    """Adds `count` consecutive rows. They are first summed in registers, which are short sums with
    little rounding.
    """
    lanes, across = r.lanes, r.size["columns"]
    start = source + row * across
    # The subsequent rows in memory, if strips are whole rows.
    following = start + across * count

    def strip(j: Word, number: int) -> None:
        first, fetched = start + j, following + j * count
        totals = [r.neutral(c)] * number
        for k in c.range(0, count, 1, totals):
            line, next_ = first + k * across, fetched + k * (number * lanes)
            for n, total in enumerate(totals):
                x = (line + n * lanes).load(lanes)
                (totals[n],) = c.total(r.op, [total], x.cast(r.acc))
                if ahead:
                    (next_ + n * lanes).prefetch("i32 0, i32 2")
        for k, total in enumerate(totals):
            places = [a + j + k * lanes for a in sums]
            after = c.total(r.op, [place.load(lanes) for place in places], total)
            for x, place in zip(after, places, strict=True):
                place.store(x)

    registers = c.machine.registers // 2
    left = columns % (registers * lanes)
    whole = columns - left
    for j in c.range(0, whole, registers * lanes):
        strip(j, registers)
    for j in c.range(whole, columns, lanes):
        strip(j, 1)


def finish(c: Code, op: str, code: str, sizes: Any, result: Any, partial: Any) -> None:
    """Combines the results of a matrix, in the order of its rows, when all chunks are complete."""
    r = _Rows.of(c, op, code, sizes, result, partial)
    size, lanes = r.size, r.lanes
    count = c.select(size["chunks"] > 1, size["matrices"], 0)
    for matrix in c.range(0, count):
        first = matrix * size["columns"]
        parts, line = r.partial + first * size["chunks"], r.result + first
        for j in c.range(0, size["columns"], lanes):
            place = parts + j
            totals = [place.load(lanes)]
            if r.is_sum:
                totals.append(r.neutral(c))
            for chunk in c.range(1, size["chunks"], 1, totals):
                x = (place + chunk * size["columns"]).load(lanes)
                totals[:] = c.total(r.op, totals, x)
            r.store(c, totals[0], line, j, size["columns"])
