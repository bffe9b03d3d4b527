"""How the features of the 32 lanes of a warp are spread over its threads, and how they get there.

Rows are lanes and columns are features. A tile has 8 columns. Thread 4 g + t has the columns 2 t
and 2 t + 1 of the rows g, g + 8, g + 16 and g + 24, in one register each (PTX ISA, "Matrix
fragments for mma.m16n8k16"):

              tile 0                      tile 1
            0 1   2 3   4 5   6 7       8 9  10 11  ...
    row 0   T0    T1    T2    T3        T0    T1           registers (0, 0, 0) and (0, 1, 0)
    row 1   T4    T5    T6    T7        T4    T5
     ...
    row 7   T28   T29   T30   T31       T28   T29
    row 8   T0    T1    T2    T3        T0    T1           registers (0, 0, 1) and (0, 1, 1)
     ...
    row 16  T0    T1    T2    T3        T0    T1           registers (1, 0, 0) and (1, 1, 0)

Register (m, j, h) is that of rows 16 m + 8 h + g and tile j. The four registers (m, 2 k, 0),
(m, 2 k, 1), (m, 2 k + 1, 0), (m, 2 k + 1, 1) are operand A of `mma.m16n8k16`. Accumulators of the
same instruction are registers (m, j, 0) and (m, j, 1) in single precision: the result of a product
is the operand of the next one, and nothing moves in between.

To convert, a warp writes rows to shared memory and reads them in the other way. The distance of two
rows is an odd multiple of 16 bytes, so that all these accesses avoid conflicts of banks.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..simd.values import Value
from . import pairs
from .function import WARP
from .plan import FRAGMENTS, OWN, KernelPlan
from .values import GpuCode, GpuPointer


def index(m: int, j: int, h: int, tiles: int) -> int:
    """Returns the position of a register among those of a vector."""
    return (m * tiles + j) * 2 + h


def row(k: int, count: int) -> int:
    """Returns which of a thread's four rows a register of a vector belongs to."""
    return 2 * (k // (2 * -(-count // 8))) + k % 2


# ------------------------------------------------------------------------------------- addresses


def group(c: GpuCode) -> Value:
    """Returns `g` of the thread."""
    return c.once("group", lambda: c.lane >> 2)


def member(c: GpuCode) -> Value:
    """Returns `t` of the thread."""
    return c.once("member", lambda: c.lane & 3)


def pair(c: GpuCode) -> Value:
    """Returns the first of the thread's two columns of a tile."""
    return c.once("pair", lambda: member(c) << 1)


def rows(c: GpuCode, plan: KernelPlan) -> GpuPointer:
    """Returns the address of the rows of the warp."""
    return c.once("rows", lambda: c.dynamic() + plan.rows + (c.tid & -WARP) * plan.row)


def own_row(c: GpuCode, plan: KernelPlan) -> GpuPointer:
    """Returns the address of the row of the thread's lane."""
    return c.once("own row", lambda: rows(c, plan) + c.lane * plan.row)


def own_pair(c: GpuCode, plan: KernelPlan, words: int) -> GpuPointer:
    """Returns the address of the thread's pair in the first tile and the first row, if a pair has a
    number of words."""

    def place() -> GpuPointer:
        return rows(c, plan) + (member(c) * (4 * words) + group(c) * plan.row)

    return c.once(("own pair", words), place)


def low(c: GpuCode, stride: int) -> Value:
    """Returns the offset for `ldmatrix` of matrices in the order of rows 0 to 7 and 8 to 15 of a
    tile, then of the next tile."""
    return c.once(("low", stride), lambda: (c.lane & 15) * stride + (c.lane & 16))


def high(c: GpuCode, stride: int) -> Value:
    """The same in the order of two neighbouring tiles, then of the rows 8 to 15 of these."""

    def offset() -> Value:
        return (c.lane & 7 | (c.lane & 16) >> 1) * stride + ((c.lane & 8) << 1)

    return c.once(("high", stride), offset)


def across(c: GpuCode, stride: int) -> Value:
    """The same for rows 0 to 7 of four neighbouring tiles."""
    return c.once(("across", stride), lambda: (c.lane & 7) * stride + (c.lane >> 3 << 4))


# ----------------------------------------------------------------------------------- conversions


def words_of(c: GpuCode, code: str, x: str) -> Value:
    """Returns a register of a vector as the words that shared memory holds."""
    return Value(c.f, "u32", pairs.words(code), pairs.to_words(c.f, code, x))


def spread(t: Any, v: Any) -> list[str]:
    """Returns the registers of a vector in the form of fragments, given those of each lane."""
    f, code, words = t.f, v.code, pairs.words(v.code)
    own = [words_of(t.c, code, x) for x in t.all_registers(v, OWN)]
    tiles = -(-v.count // 8)
    own += [t.c.zeros("u32", words)] * (4 * tiles - len(own))
    found = [""] * (4 * tiles)
    for some in _passes(t, range(tiles), words):
        f.meet()
        store_row(t, [x for j in some for x in own[4 * j : 4 * j + 4]])
        f.meet()
        for m in range(2):
            for j, h, x in _loaded(t, some, m, words):
                found[index(m, j, h, tiles)] = pairs.from_words(f, code, x.name)
    return found


def _passes(t: Any, tiles: Iterable[int], words: int) -> list[list[int]]:
    """Divides tiles into parts that fit into the rows of shared memory."""
    most, rest = t.plan.row // (16 * words), list(tiles)
    return [rest[k : k + most] for k in range(0, len(rest), most)]


def store_row(t: Any, parts: Sequence[Value], region: int = 0) -> None:
    """Stores pairs of features, as words, to the row of the thread's lane."""
    words, base = parts[0].lanes, own_row(t.c, t.plan)
    for k in range(0, len(parts), 4 // words):
        x = t.c.joined(parts[k : k + 4 // words])
        (base + (region + 4 * words * k)).of("u32").store(x)


def _loaded(t: Any, tiles: Sequence[int], m: int, words: int) -> Iterable[tuple[int, int, Value]]:
    """Yields the tile, half and words of each register of 16 rows, from shared memory."""
    c, plan = t.c, t.plan
    if words > 1:
        base = own_pair(c, plan, words)
        for k, j in enumerate(tiles):
            for h in range(2):
                source = base + ((16 * m + 8 * h) * plan.row + 16 * words * k)
                yield j, h, source.of("u32").load(words)
        return
    base = c.once("rows low", lambda: rows(c, plan) + low(c, plan.row))
    for k in range(0, len(tiles), 2):
        some = tiles[k : k + 2]
        found = c.matrices(base + (16 * m * plan.row + 16 * k), 2 * len(some))
        for i, x in enumerate(found):
            yield some[i // 2], i % 2, x.bits("u32", 1)


def store_tiles(
    t: Any, v: Any, tiles: Sequence[int], region: int = 0, of: Callable[[int], str] | None = None
) -> None:
    """Stores tiles of a vector, or what `of` returns for its registers, to the rows of the warp,
    one after the other."""
    plan, words = t.plan, pairs.words(v.code)
    base, number = own_pair(t.c, plan, words), -(-v.count // 8)
    for m in range(2):
        for k, j in enumerate(tiles):
            for h in range(2):
                n = index(m, j, h, number)
                x = of(n) if of else t.register(v, v.form, n)
                target = base + (region + (16 * m + 8 * h) * plan.row + 16 * words * k)
                target.of("u32").store(words_of(t.c, v.code, x))


def unpack(t: Any, v: Any, tiles: Iterable[int]) -> None:
    """Adds the own form of tiles of a vector."""
    c, code, words = t.c, v.code, pairs.words(v.code)
    known, together = v.forms.get(OWN, ()), 4 // words
    tiles = [j for j in tiles if not known or not known[4 * j]]
    last, number = -(-v.count // 2), -(-v.count // 8)
    for j in tiles:  # what these need may be exchanged by way of shared memory as well
        for k in range(4):
            t.register(v, v.form, index(k // 2, j, k % 2, number))
    for some in _passes(t, tiles, words):
        c.f.meet()
        store_tiles(t, v, some)
        c.f.meet()
        for k, j in enumerate(some):
            for i in range(0, min(4, last - 4 * j), together):
                source = own_row(c, t.plan) + (16 * words * k + 4 * words * i)
                x = source.of("u32").load(4)
                for part in range(min(together, last - 4 * j - i)):
                    one = c.part(x, words * part, words)
                    t.fill(v, OWN, 4 * j + i + part, pairs.from_words(c.f, code, one.name))


def rows_of(c: GpuCode, code: str, x: str) -> list[str]:
    """Returns the scalars of the thread's four rows, as pairs of equal features."""
    f, one = c.f, c.f.scalar(code, x)
    if code == "mask":
        bits = c.ballot(Value(f, "mask", 0, one)) >> group(c)
        found = [((bits & 1 << 8 * k) != 0).name for k in range(4)]
    else:
        sources = [c.once(("row", k), lambda k=k: group(c) + 8 * k) for k in range(4)]
        found = [c.shuffled("idx", Value(f, code, 0, one), source).name for source in sources]
    return [pairs.twice(f, code, f.packet(code, name)) for name in found]


def totals(t: Any, v: Any) -> Value:
    """Returns the sum over the features of the thread's lane, in single precision: a thread sums
    what it has of its four rows, the four threads that share these add up, and each lane gets that
    of its row from one of them."""
    c, tiles = t.c, -(-v.count // 8)
    rows = []
    for k in range(4):
        total = c.zeros("f32", 2)
        for j in range(tiles):
            x = t.register(v, FRAGMENTS, index(k // 2, j, k % 2, tiles))
            total = total + Value(c.f, v.code, 2, first_columns(c, v, j, x)).cast("f32")
        rows.append(total.lane(0) + total.lane(1))
    for bit in (1, 2):
        rows = [x + c.shuffled("bfly", x, bit) for x in rows]
    mine = rows[0]
    for k in range(1, 4):
        mine = c.select(member(c) == k, rows[k], mine)
    # Row 8 k + g is the k-th one of the threads 4 g to 4 g + 3; of these, the k-th has it.
    source = c.once("total", lambda: (c.lane & 7) << 2 | c.lane >> 3)
    return c.shuffled("idx", mine, source)


def first_columns(c: GpuCode, v: Any, j: int, x: str) -> str:
    """Returns a register of the tile `j` of a vector, with zeros in columns beyond the last one:
    what is there may be infinite or NaN."""
    count = v.count - 8 * j
    if count >= 8:
        return x

    def masks() -> Value:
        zero, first = c.number("u32", 0), pair(c) < count
        low = c.select(first, c.number("u32", 0xFFFF), zero)
        both = c.select(pair(c) < count - 1, c.number("u32", 0xFFFF0000), zero) | low
        return both.bits("i16", 2)

    kept = c.once(("first columns", count), masks)
    return pairs.select(c.f, v.code, kept.name, x, "zeroinitializer")
