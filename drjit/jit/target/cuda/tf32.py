"""Products of vectors in single precision on tensor cores: `mma.m16n8k8` multiplies numbers that
are rounded to TF32 (11 bits of precision), and sums in single precision.

Its accumulators have the columns 2 t and 2 t + 1 of a tile, as registers of vectors do (see
`fragments`), but operand A wants the columns t and t + 4. Terms of a product may come in any order:
the columns that thread t has take these places, and the rows of operand B follow. So the result of
a product is the operand of the next one here, too.

In shared memory, an even row of a matrix and the next one begin at different halves of the banks,
and pairs of rows at different quarters. Of 16 columns, those that a thread needs together are
neighbours:

    column   0 1 8 9  2 3 10 11  4 5 12 13  6 7 14 15
    thread   t = 0    t = 1      t = 2      t = 3

For W, a thread reads four numbers of a row at a time, which are two steps of a tile of the result.
For the transposed matrix, it reads two numbers of a row: the column g of two products, whose even
columns are one tile of the result, and whose odd ones are the next.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from ..simd.values import Value
from . import fragments
from .features import GpuVector
from .plan import FRAGMENTS, MatrixOperand, padded, tf32_rows
from .values import GpuCode, GpuPointer


def rounded(c: GpuCode, x: Value) -> list[Value]:
    """Returns the two features of a register, rounded to TF32, as `u32`."""
    if x.name == "zeroinitializer":
        return [c.number("u32", 0)] * 2
    return [c.tf32(part) for part in x.elements()]


def rounded_pair(c: GpuCode, x: Value) -> Value:
    """Returns a register with both features rounded to TF32."""
    return c.vector(rounded(c, x)).bits("f32", 2)


# ------------------------------------------------------------------------------------- products


def crossed(c: GpuCode, tiles: Sequence[Sequence[Value]]) -> list[list[Value]]:
    """Returns accumulators of one or two tiles as those of two products, of which the first has the
    even columns of both, and back."""
    first, second = tiles[0], tiles[1] if len(tiles) > 1 else [c.number("f32", 0)] * 4
    return [[x for h in (0, 2) for x in (first[h + e], second[h + e])] for e in range(2)]


def left(t: Any, x: GpuVector, m: int, k: int) -> list[Value]:
    """Returns operand A for 16 rows and 8 columns."""
    c, tiles, found = t.c, -(-x.count // 8), []
    for h in range(2):
        register = t.register(x, FRAGMENTS, fragments.index(m, k, h, tiles))
        register = fragments.first_columns(c, x, k, register)
        found.append(rounded(c, Value(c.f, x.code, 2, register)))
    return [found[h][e] for e in range(2) for h in range(2)]


def right_of_shared(
    t: Any, w: MatrixOperand, turned: bool, some: range, steps: int
) -> Iterator[list]:
    """Yields operands B from shared memory, step by step."""
    c, (one, two) = t.c, tf32_rows(w)
    g, member = fragments.group(c), fragments.member(c)

    def start() -> GpuPointer:
        if turned:  # rows 2 t, columns 2 g
            return c.dynamic() + (member * two + (g << 3))
        return c.dynamic() + ((g >> 1) * two + (g & 1) * one + (member << 4))  # rows g, columns 4 t

    base = c.once(("tf32", turned, one, two), start) + t.plan.matrices[w]

    def read(number: int, more: int) -> list[Value]:
        return (base + more).of("u32").load(number).elements()

    if turned:
        for k in range(steps):
            rows = [read(2, 4 * k * two + e * one + 32 * some[0]) for e in range(2)]
            yield [[row[e] for row in rows] for e in range(2)]
        return
    for k in range(0, steps, 2):
        found = [read(4, 4 * j * two + 32 * k) for j in some]
        for s in range(min(2, steps - k)):
            yield [x[2 * s : 2 * s + 2] for x in found]


def right_of_memory(
    t: Any, w: MatrixOperand, turned: bool, some: range, steps: int
) -> Iterator[list]:
    """Yields operands B from the memory of the GPU, step by step."""
    c, g, count = t.c, fragments.group(t.c), w.columns if turned else w.rows
    numbers = [g + 8 * j for j in some]
    if turned:  # the column g of the first product: that of the first tile or, if odd, the next
        first = g + (g & 1) * 7
        numbers = [first + (8 * some[0] + e) for e in range(2)]
    beyond = count < padded(some[-1] * 8 + 8, 16)
    for k in range(steps):
        parts = [elements(c, w, turned, n, 8 * k, beyond, 8 * k + 8) for n in numbers]
        yield [[c.tf32(x) for x in part] for part in parts]


def elements(
    c: GpuCode, w: MatrixOperand, turned: bool, n: Value, first: int, beyond: bool, last: int
) -> list[Value]:
    """Returns the elements of the thread's two terms, from `first` on, for row `n` of a matrix, or
    column `n` if it is turned. They are zero where there is no such row, which may be the case if
    `beyond`, and where there is no such term, if there are fewer than `last`."""
    base, found = c.origin("f32", w), []
    count, terms = (w.columns, w.rows) if turned else (w.rows, w.columns)
    for e in range(2):
        term = fragments.pair(c) + (first + e)
        r, column = (term, n) if turned else (n, term)
        limits = [(n, count)] if beyond else []
        limits += [(term, terms)] if last > terms else []
        found.append(c.element(base, r * w.stride + column, limits))
    return found


def neighbours(c: GpuCode, w: MatrixOperand, e: Value, multiple: int) -> tuple[Value, Value, Value]:
    """Returns the row of two neighbouring columns of a matrix, given their number among all, the
    number of the first one, and their values. There are zeros up to the next `multiple` of rows,
    and the next 16 columns."""
    across, base = padded(w.columns, 16) // 2, c.origin("f32", w)
    r, column, parts = e // across, e % across << 1, []
    for k in range(2):
        limits = [(r, w.rows)] if w.rows % multiple else []
        limits += [(column + k, w.columns)] if w.columns % 16 else []
        parts.append(c.element(base, r * w.stride + column + k, limits))
    return r, column, c.vector(parts)


def stored(c: GpuCode, w: MatrixOperand, e: Value) -> tuple[Value, Value]:
    """Returns the offset of two neighbouring columns of a matrix in shared memory, and their
    rounded values, given their number among all."""
    one, two = tf32_rows(w)
    r, column, x = neighbours(c, w, e, 8)
    # Column 16 b + 8 j + 2 t is at 16 b + 4 t + 2 j.
    target = ((column & -16) << 2) + (column & 8) + ((column & 6) << 3)
    target = target + (r >> 1) * two + (r & 1) * one
    return target, rounded_pair(c, x)


# --------------------------------------------------------------------------- sums of outer products


def of_rows(c: GpuCode, row: int) -> Value:
    """Returns the offset of the thread's first element in rows of lanes: lane t, feature g."""
    return c.once(("tf32", row), lambda: fragments.member(c) * row + (fragments.group(c) << 2))


def operand(base: GpuPointer, row: int, tiles: int, *, left: bool) -> list[Value]:
    """Returns fragments of 8 lanes and one or two tiles of features: operand A of rows, or one
    operand B of columns for each tile."""
    words = base.of("u32")
    found = [[(words + (k * row + 8 * j)).load() for k in range(2)] for j in range(tiles)]
    if not left:
        return [x for tile in found for x in tile]
    if tiles == 1:
        found.append([found[0][0].like("0")] * 2)
    return [tile[k] for k in range(2) for tile in found]
