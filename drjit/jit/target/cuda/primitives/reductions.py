"""Reductions of runs of consecutive elements: each is the work of a group of neighbouring threads,
from a single one to a whole block, or of several blocks.

Reductions of matrices along their columns: rows of threads read parts of rows of the matrix, which
are consecutive in memory, and are combined in shared memory.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...simd.compensated_sum import is_long
from ...simd.ir import BYTES
from ...simd.reduction import accumulator
from ...simd.values import Flag, Value, Word
from ..function import THREADS, WARP
from ..threads import of_block, of_warp
from ..values import GpuPointer, in_register
from .entry import EntryCode

TOGETHER = 4
"""Loads that a thread has in flight."""


class Runs(NamedTuple):
    """Reduces runs by groups of `group` threads (a power of two up to a warp, or a block), reading
    `width` elements at a time, of which each run has a multiple. Results are of type `result`.

    Parameters: the elements; the results, and their number; elements of a run. If a run is `split`,
    it has as many results as pieces, and further parameters are the elements of a piece, and the
    pieces of a run.
    """

    op: str
    code: str
    result: str
    width: int
    group: int
    split: bool = False

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        group = self.group
        source = c.buffer("source", self.code, read_only=True)
        result = c.buffer("result", self.result)
        count, run = c.sizes("count", "run")
        total = Total(c, self.op, self.code, self.width)
        number, lane = c.block(), c.thread()
        if group <= WARP:
            # The groups of the last warp that have no run take part, with no elements.
            number, lane = (number * THREADS + lane) // group, lane & group - 1
        inside = number < count
        start, length = number * run, run
        if self.split:
            chunk, pieces = c.sizes("chunk", "pieces")
            first = number % pieces * chunk
            start, length = number // pieces * run + first, c.least(run - first, chunk)
        # A thread reads the elements at `lane * width`, and a group further again and again.
        own, step = lane * self.width, group * self.width
        left = c.select(inside, length, 0) - own
        x = total.horizontal(total.over(source + start + own, left, step, step)[0])
        store_of_group(c, self.op, x, group, inside, result + number)


def store_of_group(
    c: EntryCode, op: str, x: Value, group: int, inside: Flag, place: GpuPointer
) -> None:
    """Reduces the elements of the threads of a group, and stores the result, rounded to its type,
    if the group has one."""
    if group > WARP:
        x = of_block(c, op, x, c.shared("totals", x.code, THREADS // WARP))
        leads = c.is_first
    else:
        x = of_warp(c, op, x, group)
        leads = (c.lane & group - 1) == 0
    for _ in c.when(leads & inside):
        place.store(x.cast(in_register(place.code)))


class Total:
    """How a thread reduces elements, `width` at a time. Sums of floats keep what rounding takes
    from them."""

    def __init__(self, c: EntryCode, op: str, code: str, width: int) -> None:
        self.c, self.op, self.width, self.acc = c, op, width, accumulator(code)

    def nothing(self) -> list[Value]:
        """The total of no elements; for sums with what is lost."""
        x = self.c.neutral(self.op, self.acc, self.width)
        return [x] * (1 + is_long(self.op, self.acc))

    def add(self, before: Sequence[Value], xs: Sequence[Value]) -> list[Value]:
        """Returns a total with more elements, of which sums are pairwise."""
        terms, after = list(xs), list(before)
        if len(after) > 1:
            while len(terms) > 1:
                terms = [x + y for x, y in zip(terms[::2], terms[1::2], strict=True)]
        for x in terms:
            after = self.c.total(self.op, after, x)
        return after

    def over(self, place: GpuPointer, left: Word, stride: Any, step: int) -> list[Value]:
        """Returns the total of the elements at a place, `stride` elements further, and so on, while
        `left`, which each one reduces by `step`, is positive."""
        strides = [stride * (k + 1) for k in range(TOGETHER)]
        state: list[Any] = [place, left, *self.nothing()]
        for together in (TOGETHER, 1):
            for _ in self.c.during(lambda v, n=together: v[1] > (n - 1) * step, state):
                at, rest, *total = state
                places = [at, *[at + s for s in strides[:together]]]
                xs = [p.load(self.width).cast(in_register(self.acc)) for p in places[:-1]]
                state[:] = [places[-1], rest - together * step, *self.add(total, xs)]
        return state[2:]

    def horizontal(self, x: Value) -> Value:
        """Returns the total of all elements of a row."""
        width = self.width
        while width > 1:
            width //= 2
            x = self.c.combine(self.op, self.c.part(x, width, width), self.c.part(x, 0, width))
        return x.lane(0)


# ---- along columns


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
