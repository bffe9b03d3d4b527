"""Reductions of matrices along their columns: rows of threads read parts of rows of the matrix,
which are consecutive in memory, and are combined in shared memory.
"""

from typing import NamedTuple

from ...simd.atomic import combine
from ...simd.ir import BYTES
from ...simd.loops import address, least, when
from ..form import THREADS
from .entry import EntryFunction, row
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

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        across, width = self.across, self.width
        down = THREADS // across
        source, result = f.buffer("source", read_only=True), f.buffer("result")
        rows, columns, strips, chunk, chunks = (
            f.size(name) for name in ("rows", "columns", "strips", "chunk", "chunks")
        )
        total = Total.of(f, self.op, self.code, width)
        block, thread = f.block_number(), f.thread()
        part = f.op(f"udiv i64 {block}, {strips}")
        strip = f.op(f"sub i64 {block}, {f.op(f'mul i64 {part}, {strips}')}")
        matrix = f.op(f"udiv i64 {part}, {chunks}")
        number = f.op(f"sub i64 {part}, {f.op(f'mul i64 {matrix}, {chunks}')}")
        column = column_of_thread(f, strip, across, width)
        inside = f.op(f"icmp slt i64 {column}, {columns}")
        y = f.op(f"udiv i64 {thread}, {across}")
        # Rows of the chunk that are left from the one of this thread on.
        first = f.op(f"mul i64 {number}, {chunk}")
        left = least(f, f.op(f"sub i64 {rows}, {first}"), chunk)
        left = f.op(f"select i1 {inside}, i64 {f.op(f'sub i64 {left}, {y}')}, i64 0")
        line = f.op(f"add i64 {f.op(f'mul i64 {matrix}, {rows}')}, {first}")
        line = f.op(f"mul i64 {f.op(f'add i64 {line}, {y}')}, {columns}")
        place = address(f, self.code, source, line, column)
        x = total.over(place, left, f.op(f"mul i64 {columns}, {down}"), down)[0]
        x = of_columns(f, self.op, total.acc, width, across, x)
        target = address(f, self.result, result, f.op(f"mul i64 {part}, {columns}"), column)
        store_columns(f, total.acc, x, width, across, inside, self.result, target)


def column_of_thread(f: EntryFunction, strip: str, across: int, width: int) -> str:
    """Returns the first of the columns of a thread, as `i64`, in a strip that blocks have."""
    first = f.op(f"mul i64 {strip}, {across}")
    number = f.op(f"add i64 {first}, {f.op(f'and i64 {f.thread()}, {across - 1}')}")
    return f.op(f"mul i64 {number}, {width}")


def store_columns(
    f: EntryFunction, acc: str, x: str, width: int, across: int, inside: str, code: str, place: str
) -> None:
    """Stores what the first row of threads has of its columns, rounded to its type, if these
    exist."""
    leads = f.op(f"icmp ult i64 {f.thread()}, {across}")
    with when(f, f.op(f"and i1 {leads}, {inside}")):
        kept = row(code, width)
        if code != acc:
            x = f.op(f"fptrunc {row(acc, width)} {x} to {kept}")
        f.do(f"store {kept} {x}, ptr {place}, align {width * BYTES[code]}")


def of_columns(f: EntryFunction, op: str, acc: str, width: int, across: int, x: str) -> str:
    """Returns the reduction of vectors of `width` elements of the threads that differ by multiples
    of `across`, valid in the first ones."""
    kind, size = row(acc, width), width * BYTES[acc]
    name = "@totals"
    f.globals[name] = f"{name} = internal addrspace(3) global [{THREADS} x {kind}] undef"
    f.globals[name] += f", align {max(size, 16)}"
    own = f.op(f"getelementptr {kind}, ptr addrspace(3) {name}, i64 {f.thread()}")
    half = THREADS // 2
    while half >= across:
        upper = f.op(f"icmp uge i64 {f.thread()}, {half}")
        both = f.op(f"icmp ult i64 {f.thread()}, {2 * half}")
        with when(f, f.op(f"and i1 {upper}, {both}")):
            f.do(f"store {kind} {x}, ptr addrspace(3) {own}, align {size}")
        f.barrier()
        with when(f, f.op(f"icmp ult i64 {f.thread()}, {half}"), [(kind, x)]) as joined:
            place = f.op(f"getelementptr {kind}, ptr addrspace(3) {own}, i64 {half}")
            y = f.op(f"load {kind}, ptr addrspace(3) {place}, align {size}")
            joined[0] = combine(f, op, acc, y, x, kind)
        x = joined[0]
        half //= 2
    return x
