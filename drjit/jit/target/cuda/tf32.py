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

from collections.abc import Callable, Sequence
from typing import Any

from ..simd.loops import address
from . import fragments, pairs
from .features import GpuVector
from .function import DYNAMIC, GpuFunction
from .memory import element
from .plan import FRAGMENTS, MatrixOperand, padded, tf32_rows


def rounded(f: GpuFunction, x: str) -> list[str]:
    """Returns the two features of a register, rounded to TF32, as `i32`."""
    if x == "zeroinitializer":
        return ["0", "0"]
    parts = f.split("<2 x float>", x, 2)
    return [f.op(f"call i32 @llvm.nvvm.f2tf32.rna(float {p})") for p in parts]


def rounded_pair(f: GpuFunction, x: str) -> str:
    """Returns a register with both features rounded to TF32."""
    both = f.joined("<2 x i32>", rounded(f, x))
    return f.op(f"bitcast <2 x i32> {both} to <2 x float>")


def multiplied(f: GpuFunction, a: Sequence[str], b: Sequence[str], c: Sequence[str]) -> list[str]:
    """Returns the accumulators after `mma.m16n8k8`."""
    return f.multiplied("m16n8k8.row.col.tf32", "i32", (*a, *b), c)


# ------------------------------------------------------------------------------------- products


def product(
    t: Any, w: MatrixOperand, turned: bool, x: GpuVector, start: Callable[[int], list[str]]
) -> GpuVector:
    """Returns the product of a matrix with a vector. `start` gives what the accumulators of a tile
    start from."""
    f, plan = t.f, t.plan
    t.forget(x)
    terms, count = (w.rows, w.columns) if turned else (w.columns, w.rows)
    steps, tiles = -(-terms // 8), -(-count // 8)
    left = [[_left(t, x, m, k) for m in range(2)] for k in range(steps)]
    right = _right_of_memory if plan.matrices[w] < 0 else _right_of_shared
    found = [""] * (4 * tiles)
    for j in range(0, tiles, 2):
        some = range(j, min(j + 2, tiles))
        begin = _crossed([start(i) for i in some]) if turned else [start(i) for i in some]
        sums = [[list(c), list(c)] for c in begin]
        for k, operands in right(t, w, turned, some, steps):
            for b, rows in zip(operands, sums, strict=True):
                for m in range(2):
                    rows[m] = multiplied(f, left[k][m], b, rows[m])
        for m in range(2):
            results = [rows[m] for rows in sums]
            results = _crossed(results) if turned else results
            for i, c in zip(some, results, strict=False):
                for h in range(2):
                    place = fragments.index(m, i, h, tiles)
                    found[place] = f.joined("<2 x float>", c[2 * h : 2 * h + 2])
    return GpuVector(w.code, count, FRAGMENTS, found)


def _crossed(tiles: Sequence[Sequence[str]]) -> list[list[str]]:
    """Returns accumulators of one or two tiles as those of two products, of which the first has the
    even columns of both, and back."""
    first, second = tiles[0], tiles[1] if len(tiles) > 1 else ["0.0"] * 4
    return [[x for h in (0, 2) for x in (first[h + e], second[h + e])] for e in range(2)]


def _left(t: Any, x: GpuVector, m: int, k: int) -> list[str]:
    """Returns operand A for 16 rows and 8 columns. Columns beyond the last one are zeros: what is
    there may be infinite or NaN."""
    f, tiles, found = t.f, -(-x.count // 8), []
    for h in range(2):
        register = t.register(x, FRAGMENTS, fragments.index(m, k, h, tiles))
        if x.count < 8 * (k + 1):
            kept = fragments.first_columns(f, x.count % 8)
            register = pairs.select(f, x.code, kept, register, "zeroinitializer")
        found.append(rounded(f, register))
    return [found[h][e] for e in range(2) for h in range(2)]


def _right_of_shared(t: Any, w: MatrixOperand, turned: bool, some: range, steps: int) -> Any:
    """Yields operands B from shared memory, with the step of each."""
    f, begin, (one, two) = t.f, t.plan.matrices[w], tf32_rows(w)
    thread = fragments.group(f), fragments.member(f)
    if turned:  # rows 2 t, columns 2 g
        down = f.once(f"%turned.{two}.y", f"mul i32 {thread[1]}, {two}")
        across = f.once("%group.8", f"shl i32 {thread[0]}, 3")
    else:  # rows g, columns 4 t
        half = f.once("%group.half", f"lshr i32 {thread[0]}, 1")
        odd = f.once("%group.odd", f"and i32 {thread[0]}, 1")
        even = f.once(f"%row.{two}.y", f"mul i32 {half}, {two}")
        more = f.once(f"%row.{one}.{two}.y", f"mul i32 {odd}, {one}")
        down = f.once(f"%row.{one}.{two}", f"add i32 {even}, {more}")
        across = f.once("%member.16", f"shl i32 {thread[1]}, 4")
    offset = f.once(f"{down}.at", f"add i32 {down}, {across}")
    base = fragments.place(f, f"{down}.all", DYNAMIC, offset)

    def read(number: int, more: int) -> list[str]:
        kind = f"<{number} x i32>"
        place = fragments.at(f, base, begin + more)
        x = f.op(f"load {kind}, ptr addrspace(3) {place}, align {4 * number}")
        return f.split(kind, x, number)

    if turned:
        for k in range(steps):
            rows = [read(2, 4 * k * two + e * one + 32 * some[0]) for e in range(2)]
            yield k, [[row[e] for row in rows] for e in range(2)]
        return
    for k in range(0, steps, 2):
        found = [read(4, 4 * j * two + 32 * k) for j in some]
        for s in range(min(2, steps - k)):
            yield k + s, [x[2 * s : 2 * s + 2] for x in found]


def _right_of_memory(t: Any, w: MatrixOperand, turned: bool, some: range, steps: int) -> Any:
    """Yields operands B from the memory of the GPU, with the step of each."""
    f = t.f
    base = address(f, "f32", f.pointer(w.buffer), f.word(w.offset))
    group, pair = fragments.group(f), f.once("%member.2", f"shl i32 {fragments.member(f)}, 1")
    count, terms = (w.columns, w.rows) if turned else (w.rows, w.columns)
    numbers = [f.op(f"add i32 {group}, {8 * j}") for j in some]
    if turned:  # the column g of the first product: that of the first tile or, if odd, the next
        odd = f.op(f"and i32 {group}, 1")
        first = f.op(f"add i32 {group}, {f.op(f'mul i32 {odd}, 7')}")
        numbers = [f.op(f"add i32 {first}, {8 * some[0] + e}") for e in range(2)]
    for k in range(steps):
        found = []
        for n in numbers:
            parts = []
            for e in range(2):
                term = f.op(f"add i32 {pair}, {8 * k + e}")
                r, c = (term, n) if turned else (n, term)
                at = f.op(f"add i32 {f.op(f'mul i32 {r}, {w.stride}')}, {c}")
                limits = [(n, count)] if count < padded(some[-1] * 8 + 8, 16) else []
                limits += [(term, terms)] if 8 * k + 8 > terms else []
                x = element(f, "f32", base, at, limits)
                parts.append(f.op(f"call i32 @llvm.nvvm.f2tf32.rna(float {x})"))
            found.append(parts)
        yield k, found


def stored(t: Any, w: MatrixOperand, base: str, e: str) -> tuple[str, str]:
    """Returns the offset of two neighbouring columns of a matrix in shared memory, and their
    rounded values, given their number among all and the address of the matrix."""
    f, (one, two) = t.f, tf32_rows(w)
    across = padded(w.columns, 16) // 2
    r, c = f.op(f"udiv i32 {e}, {across}"), f.op(f"urem i32 {e}, {across}")
    parts = []
    for k in range(2):
        column = f.op(f"add i32 {f.op(f'shl i32 {c}, 1')}, {k}")
        limits = [(r, w.rows)] if w.rows % 8 else []
        limits += [(column, w.columns)] if w.columns % 16 else []
        at = f.op(f"add i32 {f.op(f'mul i32 {r}, {w.stride}')}, {column}")
        parts.append(element(f, "f32", base, at, limits))
    # Pair 8 b + 4 j + t is at 16 b + 4 t + 2 j.
    block, tile = f.op(f"and i32 {c}, -8"), f.op(f"and i32 {c}, 4")
    member = f.op(f"and i32 {c}, 3")
    target = f.op(f"add i32 {f.op(f'shl i32 {block}, 3')}, {f.op(f'shl i32 {tile}, 1')}")
    target = f.op(f"add i32 {target}, {f.op(f'shl i32 {member}, 4')}")
    half, odd = f.op(f"lshr i32 {r}, 1"), f.op(f"and i32 {r}, 1")
    for number, stride in ((half, two), (odd, one)):
        target = f.op(f"add i32 {target}, {f.op(f'mul i32 {number}, {stride}')}")
    return target, rounded_pair(f, f.joined("<2 x float>", parts))


# --------------------------------------------------------------------------- sums of outer products


def of_rows(f: GpuFunction, row: int) -> str:
    """Returns the offset of the thread's first element in rows of lanes: lane t, feature g."""
    down = f.once(f"%lane.{row}.y", f"mul i32 {fragments.member(f)}, {row}")
    across = f.once("%group.4", f"shl i32 {fragments.group(f)}, 2")
    return f.once(f"%lane.{row}.at", f"add i32 {down}, {across}")


def operand(f: GpuFunction, base: str, row: int, tiles: int, *, left: bool) -> list[str]:
    """Returns fragments of 8 lanes and one or two tiles of features: operand A of rows, or one
    operand B of columns for each tile."""
    found = [
        [f.op(f"load i32, ptr addrspace(3) {fragments.at(f, base, 4 * k * row + 32 * j)}, align 4")
         for k in range(2)]
        for j in range(tiles)
    ]  # fmt: skip
    if not left:
        return [x for tile in found for x in tile]
    if tiles == 1:
        found.append(["0", "0"])
    return [tile[k] for k in range(2) for tile in found]
