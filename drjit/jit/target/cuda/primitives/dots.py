"""Products of a row and matrices, which read the matrices once, in the order of memory: dot
products if they are stored column by column, and otherwise sums of their rows.
"""

from typing import Any, NamedTuple

from ...simd.reduction import accumulator
from ...simd.values import Value, Word
from ..function import THREADS
from ..values import GpuPointer
from .entry import EntryCode
from .products import starts
from .reductions import TOGETHER, Total, column_of_thread, of_columns, store_columns, store_of_group

_TOGETHER = 4  # blocks on a multiprocessor, so that enough reads are under way


class _Part:
    """What a block has of a product.

    Parameters: the row, the matrix, and the results; columns of the matrix; its rows, and the part
    of them that a block sums up, which has results of its own; the number of products; blocks to
    the columns; if there are several products, a table of where the operands of each begin.
    """

    def __init__(self, c: EntryCode, spec: Any) -> None:
        c.together = _TOGETHER
        a, b = (c.buffer(name, spec.code, read_only=True) for name in "ab")
        result = c.buffer("result", spec.result)
        self.n, self.k, chunk, batches, strips = c.sizes("n", "k", "chunk", "batches", "strips")
        number, self.strip = c.parts(c.block(), strips)
        part, batch = c.parts(number, batches)
        self.start = part * chunk
        self.count = c.least(self.k - self.start, chunk)
        self.a, self.b = starts(c, a, b, batch) if spec.batched else (a, b)
        self.target = result + number * self.n


class _Sum(NamedTuple):
    """How a thread sums products of `width` elements with `width` others or, with `spreads`, with
    a single one."""

    c: EntryCode
    acc: str
    width: int
    spreads: bool

    def over(
        self, x: GpuPointer, y: GpuPointer, left: Word, step: int, x_stride: Any, y_stride: Any
    ) -> Value:
        """Returns the sum over products of elements at two places, and a stride further, and so on,
        while `left`, which each one reduces by `step`, is positive."""
        state: list[Any] = [x, y, left, self.c.zeros(self.acc, self.width)]
        for together in (TOGETHER, 1):
            for _ in self.c.during(lambda v, n=together: v[2] > (n - 1) * step, state):
                x, y, left, total = state
                pairs = []
                for _ in range(together):
                    pairs.append((self._load(x, self.spreads), self._load(y, False)))
                    x, y = x + x_stride, y + y_stride
                for a, b in pairs:
                    total = a.times_plus(b, total)
                state[:] = [x, y, left - together * step, total]
        return state[3]

    def _load(self, place: GpuPointer, spreads: bool) -> Value:
        if not spreads or self.width == 1:
            return place.load(self.width).cast(self.acc)
        return self.c.splat(place.load().cast(self.acc), self.width)


class Dots(NamedTuple):
    """A row times matrices that are stored column by column: a group of `group` threads, as in
    `Runs`, computes an element of the result, reading `width` elements at a time."""

    code: str
    result: str
    width: int
    group: int
    batched: bool

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        width, group, acc = self.width, self.group, accumulator(self.code)
        part = _Part(c, self)
        column = part.strip * (THREADS // group) + c.thread() // group
        inside = column < part.n
        own, step = (c.thread() & group - 1) * width, group * width
        left = c.select(inside, part.count, 0) - own
        x, y = part.a + part.start + own, part.b + column * part.k + part.start + own
        total = _Sum(c, acc, width, False).over(x, y, left, step, step, step)
        x = Total(c, "add", acc, width).horizontal(total)
        store_of_group(c, "add", x, group, inside, part.target + column)


class RowSums(NamedTuple):
    """A row times matrices that are stored row by row: blocks have `across` threads in a row, as in
    `Rows`, each of which computes `width` elements of the result."""

    code: str
    result: str
    width: int
    across: int
    batched: bool

    def emit(self, c: EntryCode) -> None:
        """Writes the body."""
        width, across = self.width, self.across
        down, part = THREADS // across, _Part(c, self)
        column = column_of_thread(c, part.strip, across, width)
        inside = column < part.n
        y = c.thread() // across
        left, line = c.select(inside, part.count - y, 0), part.start + y
        values = part.b + line * part.n + column
        total = _Sum(c, accumulator(self.code), width, True)
        x = total.over(part.a + line, values, left, down, down, part.n * down)
        x = of_columns(c, "add", x, across)
        store_columns(c, x, across, inside, part.target + column)
