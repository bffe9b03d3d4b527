"""Reductions of runs of consecutive elements: each is the work of a group of neighbouring threads,
from a single one to a whole block, or of several blocks.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...simd.atomic import combine
from ...simd.compensated_sum import add_long, is_long
from ...simd.ir import BYTES, MEMORY
from ...simd.loops import address, cast, during, least, when
from ...simd.reduction import accumulator
from ..form import THREADS
from ..function import WARP, shared
from ..threads import is_first, lane_of_warp, neutral, of_block, of_warp
from .entry import EntryFunction, row

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

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        op, group = self.op, self.group
        source, result = f.buffer("source", read_only=True), f.buffer("result")
        count, run = f.size("count"), f.size("run")
        total = Total.of(f, op, self.code, self.width)
        if group > WARP:
            number, lane = f.block_number(), f.thread()
        else:
            # The groups of the last warp that have no run take part, with no elements.
            threads = f.op(f"mul i64 {f.block_number()}, {THREADS}")
            number = f.op(f"udiv i64 {f.op(f'add i64 {threads}, {f.thread()}')}, {group}")
            lane = f.op(f"and i64 {f.thread()}, {group - 1}")
        inside = f.op(f"icmp slt i64 {number}, {count}")
        if self.split:
            chunk, pieces = f.size("chunk"), f.size("pieces")
            first = f.op(f"mul i64 {f.op(f'urem i64 {number}, {pieces}')}, {chunk}")
            length = least(f, f.op(f"sub i64 {run}, {first}"), chunk)
            start = f.op(f"mul i64 {f.op(f'udiv i64 {number}, {pieces}')}, {run}")
            start = f.op(f"add i64 {start}, {first}")
        else:
            start, length = f.op(f"mul i64 {number}, {run}"), run
        # A thread reads the elements at `lane * width`, and a group further again and again.
        own = f.op(f"mul i64 {lane}, {self.width}")
        place = address(f, self.code, source, start, own)
        length = f.op(f"select i1 {inside}, i64 {length}, i64 0")
        left, step = f.op(f"sub i64 {length}, {own}"), group * self.width
        x = total.horizontal(total.over(place, left, step, step))
        target = address(f, self.result, result, number)
        store_of_group(f, op, total.acc, x, group, inside, self.result, target)


def store_of_group(
    f: EntryFunction, op: str, acc: str, x: str, group: int, inside: str, code: str, place: str
) -> None:
    """Reduces the elements of the threads of a group, and stores the result, rounded to its type,
    if the group has one."""
    if group > WARP:
        x = of_block(f, op, acc, x, shared(f, "@totals", THREADS // WARP, acc))
        leads = is_first(f)
    else:
        x = of_warp(f, op, acc, x, group)
        leads = f.op(f"icmp eq i32 {f.op(f'and i32 {lane_of_warp(f)}, {group - 1}')}, 0")
    with when(f, f.op(f"and i1 {leads}, {inside}")):
        if code != acc:
            x = f.op(f"fptrunc {MEMORY[acc]} {x} to {MEMORY[code]}")
        f.do(f"store {MEMORY[code]} {x}, ptr {place}, align {BYTES[code]}")


class Total(NamedTuple):
    """How a thread reduces elements, `width` at a time. Sums of floats keep what rounding takes
    from them."""

    f: EntryFunction
    op: str
    code: str
    acc: str
    width: int
    kind: str

    @classmethod
    def of(cls, f: EntryFunction, op: str, code: str, width: int) -> "Total":
        """The reduction of a type."""
        acc = accumulator(code)
        return cls(f, op, code, acc, width, row(acc, width))

    @property
    def is_long(self) -> bool:
        """Whether it is a sum with rounding."""
        return is_long(self.op, self.acc)

    def nothing(self) -> list[tuple[str, str]]:
        """The total of no elements, with its type; for sums with what is lost."""
        x = f"splat ({MEMORY[self.acc]} {neutral(self.op, self.acc)})"
        return [(self.kind, x)] * (1 + self.is_long)

    def load(self, place: str) -> str:
        """Returns consecutive elements."""
        f, width = self.f, self.width
        x = f.op(
            f"load {row(self.code, width)}, ptr {place}, align {width * BYTES[self.code]}, "
            "!invariant.load !0"
        )
        return cast(f, width, x, self.code, self.acc)

    def add(self, before: Sequence[str], xs: Sequence[str]) -> list[str]:
        """Returns a total with more elements, of which sums are pairwise."""
        f, kind, terms, after = self.f, self.kind, list(xs), list(before)
        if self.is_long:
            while len(terms) > 1:
                pairs = zip(terms[::2], terms[1::2], strict=True)
                terms = [f.op(f"fadd {kind} {x}, {y}") for x, y in pairs]
            return [*add_long(f, kind, after, terms[0])]
        for x in terms:
            after[0] = combine(f, self.op, self.acc, x, after[0], kind)
        return after

    def over(self, place: str, left: str, stride: object, step: int) -> list[str]:
        """Returns the total of the elements at a place, `stride` elements further, and so on, while
        `left`, which each one reduces by `step`, is positive."""
        f = self.f
        strides = [f.op(f"mul i64 {stride}, {k + 1}") for k in range(TOGETHER)]
        values = [("ptr", place), ("i64", left), *self.nothing()]
        kinds = [kind for kind, _ in values]
        for together in (TOGETHER, 1):
            most = (together - 1) * step
            with during(f, lambda v, most=most: f.op(f"icmp sgt i64 {v[1]}, {most}"), values) as v:
                at, rest, *total = v
                places = [at] + [address(f, self.code, at, s) for s in strides[:together]]
                xs = [self.load(here) for here in places[:-1]]
                rest = f.op(f"sub i64 {rest}, {together * step}")
                v[:] = [places[-1], rest, *self.add(total, xs)]
            values = [*zip(kinds, v, strict=True)]
        return v[2:]

    def horizontal(self, total: Sequence[str]) -> str:
        """Returns the total of all elements of a row."""
        f, width, x = self.f, self.width, total[0]
        kind = self.kind
        while width > 1:
            width //= 2
            halves = [f.shuffle(kind, x, "poison", range(k, k + width)) for k in (0, width)]
            kind = row(self.acc, width)
            x = combine(f, self.op, self.acc, halves[1], halves[0], kind)
        return f.op(f"extractelement {kind} {x}, i32 0")
