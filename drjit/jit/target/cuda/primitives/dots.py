"""Products of a row and matrices, which read the matrices once, in the order of memory: dot
products if they are stored column by column, and otherwise sums of their rows.
"""

from typing import NamedTuple

from ...simd.ir import BYTES, MEMORY
from ...simd.loops import address, cast, during, fma, least, splat
from ...simd.reduction import accumulator
from ..form import THREADS
from .column_reduction import column_of_thread, of_columns, store_columns
from .entry import EntryFunction, row
from .products import starts
from .run_reduction import TOGETHER, Total, store_of_group

_TOGETHER = 4  # blocks on a multiprocessor, so that enough reads are under way


class _Part:
    """What a block has of a product.

    Parameters: the row, the matrix, and the results; columns of the matrix; its rows, and the part
    of them that a block sums up, which has results of its own; the number of products; blocks to
    the columns; if there are several products, a table of where the operands of each begin.
    """

    def __init__(self, f: EntryFunction, code: str, result: str, batched: bool) -> None:
        a, b = (f.buffer(name, read_only=True) for name in "ab")
        target = f.buffer("result")
        self.n, self.k, chunk, batches, strips = (
            f.size(name) for name in ("n", "k", "chunk", "batches", "strips")
        )
        number = f.op(f"udiv i64 {f.block_number()}, {strips}")
        self.strip = f.op(f"sub i64 {f.block_number()}, {f.op(f'mul i64 {number}, {strips}')}")
        part = f.op(f"udiv i64 {number}, {batches}")
        self.start = f.op(f"mul i64 {part}, {chunk}")
        self.count = least(f, f.op(f"sub i64 {self.k}, {self.start}"), chunk)
        if batched:
            batch = f.op(f"sub i64 {number}, {f.op(f'mul i64 {part}, {batches}')}")
            a, b = starts(f, code, a, b, batch)
        self.a, self.b = a, b
        self.target = address(f, result, target, f.op(f"mul i64 {number}, {self.n}"))


class _Sum(NamedTuple):
    """How a thread sums products of `width` elements with `width` others or, with `spreads`, with
    a single one."""

    f: EntryFunction
    code: str
    acc: str
    width: int
    spreads: bool

    def over(self, x: str, y: str, left: str, step: int, x_stride: object, y_stride: object) -> str:
        """Returns the sum over products of elements at two places, and a stride further, and so on,
        while `left`, which each one reduces by `step`, is positive."""
        f, kind = self.f, row(self.acc, self.width)
        values = [("ptr", x), ("ptr", y), ("i64", left), (kind, "zeroinitializer")]
        kinds = [k for k, _ in values]
        for together in (TOGETHER, 1):
            most = (together - 1) * step
            with during(f, lambda v, most=most: f.op(f"icmp sgt i64 {v[2]}, {most}"), values) as v:
                x, y, left, total = v
                pairs = []
                for _ in range(together):
                    pairs.append((self._load(x, self.spreads), self._load(y, False)))
                    x = address(f, self.code, x, x_stride)
                    y = address(f, self.code, y, y_stride)
                for a, b in pairs:
                    total = fma(f, self.acc, self.width, a, b, total)
                v[:] = [x, y, f.op(f"sub i64 {left}, {together * step}"), total]
            values = [*zip(kinds, v, strict=True)]
        return v[3]

    def _load(self, place: str, spreads: bool) -> str:
        f, width = self.f, 1 if spreads else self.width
        how = f"align {width * BYTES[self.code]}, !invariant.load !0"
        x = f.op(f"load {row(self.code, width)}, ptr {place}, {how}")
        x = cast(f, width, x, self.code, self.acc)
        if spreads and self.width > 1:
            one = f.op(f"extractelement {row(self.acc, 1)} {x}, i32 0")
            x = splat(f, MEMORY[self.acc], self.width, one)
        return x


class Dots(NamedTuple):
    """A row times matrices that are stored column by column: a group of `group` threads, as in
    `Runs`, computes an element of the result, reading `width` elements at a time."""

    code: str
    result: str
    width: int
    group: int
    batched: bool

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        f.together = _TOGETHER
        code, width, group = self.code, self.width, self.group
        acc = accumulator(code)
        part = _Part(f, code, self.result, self.batched)
        groups = THREADS // group
        number = f.op(f"udiv i64 {f.thread()}, {group}")
        column = f.op(f"add i64 {f.op(f'mul i64 {part.strip}, {groups}')}, {number}")
        inside = f.op(f"icmp slt i64 {column}, {part.n}")
        own = f.op(f"mul i64 {f.op(f'and i64 {f.thread()}, {group - 1}')}, {width}")
        left = f.op(f"sub i64 {f.op(f'select i1 {inside}, i64 {part.count}, i64 0')}, {own}")
        x = address(f, code, part.a, part.start, own)
        y = address(f, code, part.b, f.op(f"mul i64 {column}, {part.k}"), part.start, own)
        step = group * width
        total = _Sum(f, code, acc, width, False).over(x, y, left, step, step, step)
        x = Total.of(f, "add", acc, width).horizontal([total])
        target = address(f, self.result, part.target, column)
        store_of_group(f, "add", acc, x, group, inside, self.result, target)


class RowSums(NamedTuple):
    """A row times matrices that are stored row by row: blocks have `across` threads in a row, as in
    `Rows`, each of which computes `width` elements of the result."""

    code: str
    result: str
    width: int
    across: int
    batched: bool

    def emit(self, f: EntryFunction) -> None:
        """Writes the body."""
        f.together = _TOGETHER
        code, width, across = self.code, self.width, self.across
        acc, down = accumulator(code), THREADS // across
        part = _Part(f, code, self.result, self.batched)
        thread = f.thread()
        column = column_of_thread(f, part.strip, across, width)
        inside = f.op(f"icmp slt i64 {column}, {part.n}")
        y = f.op(f"udiv i64 {thread}, {across}")
        left = f.op(f"select i1 {inside}, i64 {f.op(f'sub i64 {part.count}, {y}')}, i64 0")
        line = f.op(f"add i64 {part.start}, {y}")
        weights = address(f, code, part.a, line)
        values = address(f, code, part.b, f.op(f"mul i64 {line}, {part.n}"), column)
        stride = f.op(f"mul i64 {part.n}, {down}")
        x = _Sum(f, code, acc, width, True).over(weights, values, left, down, down, stride)
        x = of_columns(f, "add", acc, width, across, x)
        target = address(f, self.result, part.target, column)
        store_columns(f, acc, x, width, across, inside, self.result, target)
