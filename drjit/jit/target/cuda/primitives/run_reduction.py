"""Reductions of runs of consecutive elements: each is the work of a group of neighbouring threads,
from a single one to a whole block, or of several blocks.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...simd.compensated_sum import is_long
from ...simd.reduction import accumulator
from ...simd.values import Flag, Value, Word
from ..form import THREADS
from ..function import WARP
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
