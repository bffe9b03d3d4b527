"""Reductions of matrices along their columns: rows of threads read parts of rows of the matrix,
which are consecutive in memory, and are combined in shared memory.
"""

from typing import NamedTuple

from ...simd.ir import BYTES
from ...simd.values import Flag, Value, Word
from ..form import THREADS
from ..values import GpuPointer, in_register
from .entry import EntryCode
from .run_reduction import Total


class Rows(NamedTuple):
    """Reduces rows by blocks with `across` threads in a row, a power of two, each of which reads
    `width` columns at a time. The number of columns is a multiple of that. Results are of type
    `result`.

    Parameters: the elements; the results; rows and columns of a matrix; blocks to a row; rows of a
    chunk; chunks of a matrix, each of which has its results. The blocks are those of a chunk, then
    those of a matrix.
    """

    op: str
    code: str
    result: str
    width: int
    across: int

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        across, width = self.across, self.width
        down = THREADS // across
        source = c.buffer("source", self.code, read_only=True)
        result = c.buffer("result", self.result)
        rows, columns, strips, chunk, chunks = c.sizes(
            "rows", "columns", "strips", "chunk", "chunks"
        )
        part, strip = c.parts(c.block(), strips)
        matrix, number = c.parts(part, chunks)
        column = column_of_thread(c, strip, across, width)
        inside = column < columns
        # Rows of the chunk that are left from the one of this thread on.
        first, y = number * chunk, c.thread() // across
        left = c.select(inside, c.least(rows - first, chunk) - y, 0)
        place = source + (matrix * rows + first + y) * columns + column
        total = Total(c, self.op, self.code, width)
        x = of_columns(c, self.op, total.over(place, left, columns * down, down)[0], across)
        store_columns(c, x, across, inside, result + part * columns + column)


def column_of_thread(c: EntryCode, strip: Word, across: int, width: int) -> Word:
    """Returns the first of the columns of a thread in a strip that blocks have."""
    return (strip * across + (c.thread() & across - 1)) * width


def store_columns(c: EntryCode, x: Value, across: int, inside: Flag, place: GpuPointer) -> None:
    """Stores what the first row of threads has of its columns, rounded to its type, if these
    exist."""
    for _ in c.when((c.thread() < across) & inside):
        place.store(x.cast(in_register(place.code)))


def of_columns(c: EntryCode, op: str, x: Value, across: int) -> Value:
    """Returns the reduction of vectors of the threads that differ by multiples of `across`, valid
    in the first ones."""
    width, thread = x.lanes, c.thread()
    size = max(width * BYTES[x.code], 16)
    c.globals["@totals"] = (
        f"@totals = internal addrspace(3) global [{THREADS} x {x.kind}] undef, align {size}"
    )
    own = GpuPointer(c.f, x.code, "@totals", shared=True) + thread * width
    half = THREADS // 2
    while half >= across:
        for _ in c.when((thread >= half) & (thread < 2 * half)):
            own.store(x)
        c.f.barrier()
        joined = [x]
        for _ in c.when(thread < half, joined):
            joined[0] = c.combine(op, (own + half * width).load(width), x)
        x = joined[0]
        half //= 2
    return x
