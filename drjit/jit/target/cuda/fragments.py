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

from ..simd.loops import concatenated
from . import pairs
from .function import DYNAMIC, WARP, GpuFunction, matrices
from .plan import FRAGMENTS, OWN, KernelPlan
from .threads import lane_of_warp


def index(m: int, j: int, h: int, tiles: int) -> int:
    """Returns the position of a register among those of a vector."""
    return (m * tiles + j) * 2 + h


def row(k: int, count: int) -> int:
    """Returns which of a thread's four rows a register of a vector belongs to."""
    return 2 * (k // (2 * -(-count // 8))) + k % 2


# ------------------------------------------------------------------------------------- addresses


def group(f: GpuFunction) -> str:
    """Returns `g` of the thread."""
    return f.once("%group", f"lshr i32 {lane_of_warp(f)}, 2")


def member(f: GpuFunction) -> str:
    """Returns `t` of the thread."""
    return f.once("%member", f"and i32 {lane_of_warp(f)}, 3")


def place(f: GpuFunction, name: str, base: str, offset: str) -> str:
    """Returns an address in shared memory, which is computed once."""
    return f.once(name, f"getelementptr i8, ptr addrspace(3) {base}, i32 {offset}")


def at(f: GpuFunction, base: str, offset: int) -> str:
    """Returns the address some bytes further."""
    return f.op(f"getelementptr i8, ptr addrspace(3) {base}, i32 {offset}") if offset else base


def rows(f: GpuFunction, plan: KernelPlan) -> str:
    """Returns the address of the rows of the warp."""
    first = f.once("%warp.thread", f"and i32 {f.special('tid.x')}, {-WARP}")
    before = f.once("%warp.offset", f"mul i32 {first}, {plan.row}")
    return place(f, "%warp.rows", place(f, "%rows", DYNAMIC, str(plan.rows)), before)


def own_row(f: GpuFunction, plan: KernelPlan) -> str:
    """Returns the address of the row of the thread's lane."""
    return place(
        f, "%own.row", rows(f, plan), f.once("%own.at", f"mul i32 {lane_of_warp(f)}, {plan.row}")
    )


def own_pair(f: GpuFunction, plan: KernelPlan, words: int) -> str:
    """Returns the address of the thread's pair in the first tile and the first row, if a pair has a
    number of words."""
    name = f"%pair{words}"
    across = f.once(f"{name}.x", f"mul i32 {member(f)}, {4 * words}")
    down = f.once("%pair.y", f"mul i32 {group(f)}, {plan.row}")
    return place(f, name, rows(f, plan), f.once(f"{name}.at", f"add i32 {across}, {down}"))


def low(f: GpuFunction, stride: int) -> str:
    """Returns the offset for `ldmatrix` of matrices in the order of rows 0 to 7 and 8 to 15 of a
    tile, then of the next tile."""
    name = f"%low{stride}"
    below = f.once("%lane.15", f"and i32 {lane_of_warp(f)}, 15")
    across = f.once("%lane.16", f"and i32 {lane_of_warp(f)}, 16")
    down = f.once(f"{name}.y", f"mul i32 {below}, {stride}")
    return f.once(name, f"add i32 {down}, {across}")


def high(f: GpuFunction, stride: int) -> str:
    """The same in the order of two neighbouring tiles, then of the rows 8 to 15 of these."""
    name = f"%high{stride}"
    eight = f.once(
        "%lane.16h", f"lshr i32 {f.once('%lane.16', f'and i32 {lane_of_warp(f)}, 16')}, 1"
    )
    below = f.once(
        "%lane.h", f"or i32 {f.once('%lane.7', f'and i32 {lane_of_warp(f)}, 7')}, {eight}"
    )
    across = f.once("%lane.8", f"and i32 {lane_of_warp(f)}, 8")
    across = f.once("%lane.8t", f"shl i32 {across}, 1")
    down = f.once(f"{name}.y", f"mul i32 {below}, {stride}")
    return f.once(name, f"add i32 {down}, {across}")


def across(f: GpuFunction, stride: int) -> str:
    """The same for rows 0 to 7 of four neighbouring tiles."""
    name = f"%across{stride}"
    down = f.once(
        f"{name}.y", f"mul i32 {f.once('%lane.7', f'and i32 {lane_of_warp(f)}, 7')}, {stride}"
    )
    tile = f.once("%lane.3t", f"lshr i32 {lane_of_warp(f)}, 3")
    tile = f.once("%lane.tile", f"shl i32 {tile}, 4")
    return f.once(name, f"add i32 {down}, {tile}")


# ----------------------------------------------------------------------------------- conversions


def spread(t: Any, v: Any) -> list[str]:
    """Returns the registers of a vector in the form of fragments, given those of each lane."""
    f, code, words = t.f, v.code, pairs.words(v.code)
    own = [pairs.to_words(f, code, x) for x in t.all_registers(v, OWN)]
    tiles = -(-v.count // 8)
    own += ["zeroinitializer"] * (4 * tiles - len(own))
    found = [""] * (4 * tiles)
    for some in _passes(t, range(tiles), words):
        f.meet()
        store_row(t, [x for j in some for x in own[4 * j : 4 * j + 4]], words)
        f.meet()
        for m in range(2):
            for j, h, x in _loaded(t, some, m, words):
                found[index(m, j, h, tiles)] = pairs.from_words(f, code, x)
    return found


def _passes(t: Any, tiles: Iterable[int], words: int) -> list[list[int]]:
    """Divides tiles into parts that fit into the rows of shared memory."""
    most, rest = t.plan.row // (16 * words), list(tiles)
    return [rest[k : k + most] for k in range(0, len(rest), most)]


def store_row(t: Any, parts: Sequence[str], words: int, region: int = 0) -> None:
    """Stores pairs of features, as words, to the row of the thread's lane."""
    f, together = t.f, 4 // words
    base = own_row(f, t.plan)
    for k in range(0, len(parts), together):
        x = concatenated(f, "i32", words, list(parts[k : k + together]))
        target = at(f, base, region + 4 * words * k)
        f.do(f"store <4 x i32> {x}, ptr addrspace(3) {target}, align 16")


def _loaded(t: Any, tiles: Sequence[int], m: int, words: int) -> Iterable[tuple[int, int, str]]:
    """Yields the tile, half and words of each register of 16 rows, from shared memory."""
    f, plan = t.f, t.plan
    if words > 1:
        base = own_pair(f, plan, words)
        for k, j in enumerate(tiles):
            for h in range(2):
                source = at(f, base, (16 * m + 8 * h) * plan.row + 16 * words * k)
                how = f"ptr addrspace(3) {source}, align {4 * words}"
                yield j, h, f.op(f"load <{words} x i32>, {how}")
        return
    base = place(f, "%rows.low", rows(f, plan), low(f, plan.row))
    for k in range(0, len(tiles), 2):
        some = tiles[k : k + 2]
        source = at(f, base, 16 * m * plan.row + 16 * k)
        found = matrices(f, source, 2 * len(some))
        for i, x in enumerate(found):
            yield some[i // 2], i % 2, f.op(f"bitcast i32 {x} to <1 x i32>")


def store_tiles(
    t: Any, v: Any, tiles: Sequence[int], region: int = 0, of: Callable[[int], str] | None = None
) -> None:
    """Stores tiles of a vector, or what `of` returns for its registers, to the rows of the warp,
    one after the other."""
    f, plan, words = t.f, t.plan, pairs.words(v.code)
    base, number = own_pair(f, plan, words), -(-v.count // 8)
    for m in range(2):
        for k, j in enumerate(tiles):
            for h in range(2):
                n = index(m, j, h, number)
                x = of(n) if of else t.register(v, v.form, n)
                x = pairs.to_words(f, v.code, x)
                target = at(f, base, region + (16 * m + 8 * h) * plan.row + 16 * words * k)
                how = f"ptr addrspace(3) {target}, align {4 * words}"
                f.do(f"store <{words} x i32> {x}, {how}")


def unpack(t: Any, v: Any, tiles: Iterable[int]) -> None:
    """Adds the own form of tiles of a vector."""
    f, code, words = t.f, v.code, pairs.words(v.code)
    known, together = v.forms.get(OWN, ()), 4 // words
    tiles = [j for j in tiles if not known or not known[4 * j]]
    last, number = -(-v.count // 2), -(-v.count // 8)
    for j in tiles:  # what these need may be exchanged by way of shared memory as well
        for k in range(4):
            t.register(v, v.form, index(k // 2, j, k % 2, number))
    for some in _passes(t, tiles, words):
        f.meet()
        store_tiles(t, v, some)
        f.meet()
        for k, j in enumerate(some):
            for i in range(0, min(4, last - 4 * j), together):
                source = at(f, own_row(f, t.plan), 16 * words * k + 4 * words * i)
                x = f.op(f"load <4 x i32>, ptr addrspace(3) {source}, align 16")
                for part in range(min(together, last - 4 * j - i)):
                    places = range(words * part, words * part + words)
                    one = f.shuffle("<4 x i32>", x, "poison", places)
                    t.fill(v, OWN, 4 * j + i + part, pairs.from_words(f, code, one))


def rows_of(f: GpuFunction, code: str, x: str) -> list[str]:
    """Returns the scalars of the thread's four rows, as pairs of equal features."""
    found = []
    if code == "mask":
        bits = f.op(f"lshr i32 {f.ballot(f.scalar('mask', x))}, {group(f)}")
        for k in range(4):
            one = f.op(f"icmp ne i32 {f.op(f'and i32 {bits}, {1 << 8 * k}')}, 0")
            found.append(pairs.twice(f, code, f.packet("mask", one)))
        return found
    one = f.scalar(code, x)
    for k in range(4):
        source = f.once(f"%row{k}", f"add i32 {group(f)}, {8 * k}") if k else group(f)
        found.append(pairs.twice(f, code, f.packet(code, f.shuffled("idx", code, one, source))))
    return found


def totals(t: Any, v: Any) -> str:
    """Returns the sum over the features of the thread's lane, in single precision: a thread sums
    what it has of its four rows, the four threads that share these add up, and each lane gets that
    of its row from one of them."""
    f, code, tiles = t.f, v.code, -(-v.count // 8)
    rows = []
    for k in range(4):
        total = "zeroinitializer"
        for j in range(tiles):
            x = t.register(v, FRAGMENTS, index(k // 2, j, k % 2, tiles))
            if v.count < 8 * (j + 1):
                x = pairs.select(f, code, first_columns(f, v.count % 8), x, "zeroinitializer")
            if code == "f16":
                x = f.op(f"fpext <2 x half> {x} to <2 x float>")
            total = f.op(f"fadd <2 x float> {total}, {x}")
        a, b = f.split("<2 x float>", total, 2)
        rows.append(f.op(f"fadd float {a}, {b}"))
    for bit in (1, 2):
        rows = [f.op(f"fadd float {x}, {f.shuffled('bfly', 'f32', x, bit)}") for x in rows]
    mine = rows[0]
    for k in range(1, 4):
        here = f.once(f"%member.is{k}", f"icmp eq i32 {member(f)}, {k}")
        mine = f.op(f"select i1 {here}, float {rows[k]}, float {mine}")
    # Row 8 k + g is the k-th one of the threads 4 g to 4 g + 3; of these, the k-th has it.
    seven = f.once("%lane.7", f"and i32 {lane_of_warp(f)}, 7")
    source = f.once("%total.4g", f"shl i32 {seven}, 2")
    source = f.once(
        "%total.from", f"or i32 {source}, {f.once('%lane.3t', f'lshr i32 {lane_of_warp(f)}, 3')}"
    )
    return f.shuffled("idx", "f32", mine, source)


def first_columns(f: GpuFunction, count: int) -> str:
    """Returns which of the thread's pair are among the first columns of a tile, as masks."""
    name = f"%first{count}"
    twice = f.once("%member.2", f"shl i32 {member(f)}, 1")
    low = f.once(f"{name}.l", f"icmp ult i32 {twice}, {count}")
    high = f.once(f"{name}.h", f"icmp ult i32 {twice}, {count - 1}")
    low = f.once(f"{name}.lw", f"select i1 {low}, i32 65535, i32 0")
    high = f.once(f"{name}.hw", f"select i1 {high}, i32 -65536, i32 0")
    word = f.once(f"{name}.w", f"or i32 {low}, {high}")
    return f.once(name, f"bitcast i32 {word} to <2 x i16>")
