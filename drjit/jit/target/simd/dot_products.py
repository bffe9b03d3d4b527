"""Products of a row and column-major matrices: dot products, read in memory order."""

from .packing import Shape, loaded, rows_of
from .values import Code, Pointer, Word

# Columns at a time: as many loads as it takes to keep memory busy.
_TOGETHER = 8


def dot_products(
    c: Code, s: Shape, a: Pointer, b: Pointer, result: Pointer, k: Word, j0: Word, count: Word
) -> None:
    """Stores at `result` the dot products of the row at `a` with the columns `j0 ...` at `b`, each
    with `k` contiguous entries.
    """
    rest = k % s.lanes
    whole = k - rest
    for j1 in c.range(0, count, _TOGETHER):
        first, left = j0 + j1, count - j1
        columns = rows_of(c, s, b, k, 0, first, left, _TOGETHER)
        total = [c.zeros(s.acc, s.lanes)] * _TOGETHER
        for start, end in ((0, whole), (whole, k)):
            for at in c.range(start, end, s.lanes, total):
                mask = c.below(rest, s.lanes) if end is k else None
                x = loaded(s, a + at, s.lanes, mask)
                for number, column in enumerate(columns):
                    total[number] = x.times_plus(
                        loaded(s, column + at, s.lanes, mask), total[number]
                    )
        (result + first).store(c.totals(total).cast(s.code), c.below(left, _TOGETHER))
