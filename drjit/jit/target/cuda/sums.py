"""Sums over lanes: outer products of vectors, and vectors, added to a matrix or a bias in memory.

The sum of outer products is a product of matrices as well, Y^T X, whose terms are the lanes.
Threads write their vectors as rows to shared memory, with zeros where the mask is false, and warps
read both operands with `ldmatrix.trans`.

Where each thread of a block gets, at the top level of a kernel, all warps share the sum: each has
some tiles of the matrix, and the lanes of the block are the terms.

                       columns of X
                 +-----------+-----------+
    columns      | warp 0    | warp 1    |      accumulators: in shared memory, where only
    of Y         +-----------+-----------+      the threads that own them read and write
                 | warp 2    | warp 3    |
                 +-----------+-----------+

They are added to memory once, after all lanes of the block. Elsewhere, a warp adds the sum over its
own lanes to memory at once.
"""

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..simd.atomic import atomic_update
from ..simd.ir import BYTES, FLOATS, SCALAR, KernelError
from ..simd.loops import address, cast, loop, when
from ..simd.reduction import accumulator
from . import fragments, pairs, private, tf32, vector_memory
from .features import GpuVector, Scalar
from .function import DYNAMIC, WARP, GpuFunction, fma, halves, matrices
from .memory import within
from .plan import FRAGMENTS, OWN, STRIP, WIDEST, Sum
from .products import multiplied
from .registers import MEMORY, in_registers
from .threads import lane_of_warp, warp_of_block

# Imported because it registers the statements for vectors in memory.
assert vector_memory

_FOUR = "<4 x float>"
# Steps of a product that an iteration takes.
_AT_ONCE = 4
# Tiles of a sum that a warp keeps in registers at a time.
_TILES = 8


@in_registers("type parameter parameter parameter parameter integer integer integer node node mask")
def outer(
    t: Any, code: str, k: int, a: int, n: int, offset: int, rows: int, columns: int,
    stride: int, y: ast.expr, x: ast.expr, mask: str,
) -> object:  # fmt: skip
    """`outer(T, p[k], p[w], p[n], p[o], rows, columns, stride, y, x, m)`."""
    if code not in FLOATS:
        raise KernelError(f"there are no such sums of {code}")
    if max(rows, columns) > WIDEST:
        return MEMORY
    left, right = t.features(y, code, rows), t.features(x, code, columns)
    s = Sum(code, k, a, n, offset, rows, columns, stride)
    if s in t.plan.sums and not t.depth:
        _of_block(t, s, left, right, mask)
    elif t.plan.by_warp(code):
        _of_warp(t, s, left, right, mask)
    else:
        _of_lanes(t, s, left, right, mask)
    return None


def _target(t: Any, code: str, k: int, a: int, n: int, offset: int) -> str:
    """Returns the address of the first accumulator in memory. The position is read here: otherwise,
    what a matrix has at the same position would be kept until then."""
    f, (acc, base) = t.f, private.sums(t, "add", code, k, a, n)
    position = f.op(f"load volatile i64, ptr {f.word_address_here(offset)}")
    return address(f, acc, base, position)


# ---------------------------------------------------------------------------- rows of shared memory


def _store_rows(t: Any, y: GpuVector, x: GpuVector, mask: str) -> None:
    """Stores two vectors to the rows of the lanes, with zeros where the mask is false, as operands
    of products on tensor cores."""
    f, scalar = t.f, Scalar("mask", mask)
    known = [(v, _form(v)) for v in (y, x)]
    for v, form in known:  # which may exchange features by way of shared memory as well
        t.all_registers(v, form)
        t.twice(scalar, form, 0, v.count)
    f.meet()

    def masked(v: GpuVector, form: str, k: int) -> str:
        bits = t.twice(scalar, form, k, v.count)
        x = pairs.select(f, v.code, bits, t.register(v, form, k), "zeroinitializer")
        return tf32.rounded_pair(f, x) if v.code == "f32" else x

    for region, (v, form) in zip((0, f.threads * t.plan.row), known, strict=True):
        if form == FRAGMENTS:
            every = range(-(-v.count // 8))
            fragments.store_tiles(t, v, every, region, partial(masked, v, form))
            continue
        last, size = -(-v.count // 2), pairs.words(v.code)
        for k in range(0, last, 4):
            some = [masked(v, form, j) for j in range(k, min(k + 4, last))]
            words = [pairs.to_words(f, v.code, x) for x in some]
            words += ["zeroinitializer"] * (4 - len(words))
            fragments.store_row(t, words, size, region + 4 * size * k)


def _form(v: GpuVector) -> str:
    """Returns the form in which a vector is stored."""
    known = v.forms.get(FRAGMENTS, [""])
    return FRAGMENTS if "" not in known or v.form == FRAGMENTS else OWN


def _depth(code: str) -> int:
    """Returns how many lanes an instruction sums over."""
    return 8 if code == "f32" else 16


def _operand(
    t: Any, code: str, base: tuple[str, str], offset: int, tiles: int, *, left: bool
) -> list[str]:
    """Returns fragments of some lanes and one or two tiles: as operand A of rows, or as operand B
    of columns. The addresses are those for either order of matrices."""
    f, source = t.f, fragments.at(t.f, base[left and tiles == 2], offset)
    if code == "f32":
        return tf32.operand(f, source, t.plan.row, tiles, left=left)
    found = halves(f, matrices(f, source, 2 * tiles, turned=True))
    if left and tiles == 1:
        found = [found[0], "zeroinitializer", found[1], "zeroinitializer"]
    return found


# ------------------------------------------------------------------------------------ of a block


def _orders(t: Any, code: str) -> tuple[str, str]:
    """Returns the offsets of fragments in rows of lanes, for either order of matrices."""
    f, row = t.f, t.plan.row
    if code == "f32":
        order = tf32.of_rows(f, row)
        return order, order
    return fragments.low(f, row), fragments.high(f, row)


def _of_block(t: Any, s: Sum, y: GpuVector, x: GpuVector, mask: str) -> None:
    f, plan = t.f, t.plan
    region = f.threads * plan.row
    _store_rows(t, y, x, mask)
    t.forget(y)
    f.barrier()
    low, high = _orders(t, s.code)
    size = BYTES[s.code]
    rows = fragments.place(f, "%rows", DYNAMIC, str(plan.rows))
    tall = _tiles_of(y.count)
    down, across = _numbers(t, s)
    places = []
    for number, offset in down:
        first = f.once(f"{number}.down{size}", f"mul i32 {number}, {16 * size}")
        parts = []
        for order in (low, high):
            base = fragments.place(f, f"{order}.rows", rows, order)
            base = fragments.place(f, f"{number}.{order[1:]}", base, first)
            parts.append(fragments.at(f, base, 16 * size * offset))
        places.append(tuple(parts))
    columns = []
    for number, offset in across:
        first = f.once(f"{number}.across{size}", f"mul i32 {number}, {8 * size}")
        base = fragments.place(f, f"{low}.rows", rows, low)
        base = fragments.place(f, f"{number}.{low[1:]}", base, first)
        columns.append(fragments.at(f, base, region + 8 * size * offset))

    home, wide = _home(t, s), len(across)
    # Fragments of two neighbouring tiles are loaded together.
    joined = s.code == "f16" and wide % 2 == 0 and across[0][0] == across[-1][0]
    at_once = max(_TILES // wide, 1)
    for top in range(0, len(down), at_once):
        some = fragments.at(f, home, 16 * f.threads * wide * top)
        left = [(*p, min(tall, 2)) for p in places[top : top + at_once]]
        _add_products(t, s.code, some, left, columns[::2] if joined else columns, joined)
    f.barrier()


def _add_products(
    t: Any, code: str, home: str, left: Sequence[tuple], right: Sequence[str], joined: bool
) -> None:
    """Adds the products of rows of tiles with columns of tiles, or with pairs of columns, to the
    thread's accumulators. Addresses are those of fragments of the block's first lanes."""
    f, plan = t.f, t.plan
    wide = len(right) * (1 + joined)
    slots = [fragments.at(f, home, 16 * f.threads * k) for k in range(len(left) * wide)]
    start = [f.op(f"load {_FOUR}, ptr addrspace(3) {p}, align 16") for p in slots]
    values = [x for v in start for x in f.split(_FOUR, v, 4)]
    depth = _depth(code)
    steps = f.threads // depth
    with loop(f, 0, steps, _AT_ONCE, [("float", v) for v in values]) as (k, sums):
        here = f.op(f"mul i32 {f.op(f'trunc i64 {k} to i32')}, {depth * plan.row}")

        def moved(p: str) -> str:
            return f.op(f"getelementptr i8, ptr addrspace(3) {p}, i32 {here}")

        tops = [(moved(p), moved(q), n) for p, q, n in left]
        starts = [moved(p) for p in right]
        for step in range(_AT_ONCE):
            more = depth * step * plan.row
            a = [_operand(t, code, (p, q), more, n, left=True) for p, q, n in tops]
            b = []
            for p in starts:
                found = _operand(t, code, (p, p), more, 1 + joined, left=False)
                b += [found[i : i + 2] for i in range(0, len(found), 2)]
            for slot in range(len(slots)):
                i, j = divmod(slot, wide)
                c = sums[4 * slot : 4 * slot + 4]
                sums[4 * slot : 4 * slot + 4] = _multiplied(t, code, a[i], b[j], c)
    for k, place in enumerate(slots):
        v = f.joined(_FOUR, sums[4 * k : 4 * k + 4])
        f.do(f"store {_FOUR} {v}, ptr addrspace(3) {place}, align 16")


def _multiplied(
    t: Any, code: str, a: Sequence[str], b: Sequence[str], c: Sequence[str]
) -> list[str]:
    if code == "f32":
        return tf32.multiplied(t.f, a, b, c)
    return multiplied(t.f, t.plan, a, b, c)


def _tiles_of(count: int) -> int:
    return -(-count // 8)


def _home(t: Any, s: Sum) -> str:
    """Returns the address of the thread's first accumulators of a sum."""
    f, begin = t.f, t.plan.sums[s]
    own = f.once("%thread.16", f"shl i32 {f.special('tid.x')}, 4")
    return fragments.at(f, fragments.place(f, "%sums", DYNAMIC, own), begin)


def _numbers(t: Any, s: Sum) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Returns the rows of tiles of a warp, and its columns of tiles: each as the number of a first
    one and the distance from that. Those beyond the last one repeat it."""
    f = t.f
    down, across, tall, wide = t.plan.split(s)
    warp = warp_of_block(f)
    found = []
    for name, how, warps, of, last in (
        ("down", "udiv", down, tall, -(-s.rows // 16)),
        ("across", "urem", across, wide, _tiles_of(s.columns)),
    ):
        number = f.once(f"%warp.{name}{across}", f"{how} i32 {warp}, {across}")
        first = f.once(f"%{name}{across}.{of}", f"mul i32 {number}, {of}")
        if warps * of <= last:
            found.append([(first, k) for k in range(of)])
            continue
        numbers = []
        for k in range(of):
            one = f.once(f"%{name}{across}.{of}.{k}", f"add i32 {first}, {k}")
            least = f"call i32 @llvm.umin.i32(i32 {one}, i32 {last - 1})"
            numbers.append((f.once(f"%{name}{across}.{of}.{k}.{last}", least), 0))
        found.append(numbers)
    return found[0], found[1]


def prepare(t: Any) -> None:
    """Before the lanes of a block: sets its accumulators to zero."""
    f = t.f
    for s in t.plan.sums:
        *_, tall, wide = t.plan.split(s)
        for k in range(tall * wide):
            place = fragments.at(f, _home(t, s), 16 * f.threads * k)
            f.do(f"store {_FOUR} zeroinitializer, ptr addrspace(3) {place}, align 16")


def finish(t: Any) -> None:
    """After the lanes of a block: adds its sums to memory."""
    f = t.f
    for s in t.plan.sums:
        down, across, tall, wide = t.plan.split(s)
        target = _target(t, *s[:5])
        warp = warp_of_block(f)
        first_row = f.op(f"mul i32 {f.op(f'udiv i32 {warp}, {across}')}, {16 * tall}")
        first_column = f.op(f"mul i32 {f.op(f'urem i32 {warp}, {across}')}, {8 * wide}")
        for k in range(tall * wide):
            source = fragments.at(f, _home(t, s), 16 * f.threads * k)
            v = f.op(f"load {_FOUR}, ptr addrspace(3) {source}, align 16")
            c = f.split(_FOUR, v, 4)
            i, j = divmod(k, wide)
            row = f.op(f"add i32 {first_row}, {16 * i}")
            column = f.op(f"add i32 {first_column}, {8 * j}")
            exact = down * tall * 16 == s.rows and across * wide * 8 == s.columns
            _add_tile(t, s, target, row, column, c, whole=exact)
    for flush in t.flushes:
        flush()


def _add_tile(
    t: Any, s: Sum, target: str, row: str, column: str, c: Sequence[str], *, whole: bool
) -> None:
    """Adds a tile of accumulators to memory."""
    f = t.f
    row = f.op(f"add i32 {row}, {fragments.group(f)}")
    pair = f.once("%member.2", f"shl i32 {fragments.member(f)}, 1")
    column = f.op(f"add i32 {column}, {pair}")
    for k, x in enumerate(c):
        r = f.op(f"add i32 {row}, 8") if k > 1 else row
        e = f.op(f"add i32 {column}, 1") if k % 2 else column
        with _below(f, [] if whole else [(r, s.rows), (e, s.columns)]):
            at = f.op(f"add i32 {f.op(f'mul i32 {r}, {s.stride}')}, {e}")
            place = f.op(f"getelementptr float, ptr {target}, i32 {at}")
            atomic_update(f, "add", "f32", place, x)


@contextmanager
def _below(f: GpuFunction, limits: Sequence[tuple[str, int]]) -> Iterator[None]:
    """Code for threads whose numbers are below limits."""
    if not limits:
        yield
        return
    with when(f, within(f, limits)):
        yield


# -------------------------------------------------------------------------------------- of a warp


def _of_warp(t: Any, s: Sum, y: GpuVector, x: GpuVector, mask: str) -> None:
    f, plan = t.f, t.plan
    region = f.threads * plan.row
    target = _target(t, *s[:5])
    _store_rows(t, y, x, mask)
    f.meet()
    rows, size, depth = fragments.rows(f, plan), BYTES[s.code], _depth(s.code)
    low, high = [fragments.place(f, f"{order}.warp", rows, order) for order in _orders(t, s.code)]
    tall, wide = _tiles_of(s.rows), _tiles_of(s.columns)

    def some(first: str, tops: tuple[str, str], number: int) -> None:
        steps = range(WARP // depth)
        a = [_operand(t, s.code, tops, depth * k * plan.row, number, left=True) for k in steps]
        for j in range(0, wide, 2):
            count = min(2, wide - j)
            b = []
            for k in steps:
                more = region + depth * k * plan.row + 8 * size * j
                b.append(_operand(t, s.code, (low, low), more, count, left=False))
            for i in range(count):
                c = ["0.0"] * 4
                for k in steps:
                    c = _multiplied(t, s.code, a[k], b[k][2 * i : 2 * i + 2], c)
                _add_tile(t, s, target, first, str(8 * (j + i)), c, whole=exact)

    exact = s.rows % 16 == 0 and s.columns % 8 == 0
    if tall > 1:
        with loop(f, 0, tall // 2, 1) as (m, _):
            first = f.op(f"shl i32 {f.op(f'trunc i64 {m} to i32')}, 4")
            at = f.op(f"mul i32 {first}, {size}")
            tops = [f.op(f"getelementptr i8, ptr addrspace(3) {p}, i32 {at}") for p in (low, high)]
            some(first, (tops[0], tops[1]), 2)
    if tall % 2:
        last = fragments.at(f, low, 8 * size * (tall - 1))
        some(str(8 * (tall - 1)), (last, last), 1)


# ------------------------------------------------------------------------------------- of lanes


def _strip(t: Any, v: GpuVector, first: int, mask: str, acc: str, region: int) -> int:
    """Stores some features of a vector, as accumulators, to the rows of the lanes, with zeros where
    the mask is false. Returns their number."""
    f, last = t.f, min(v.count, first + STRIP)
    together = 16 // BYTES[acc]
    for k in range(first, last, together):
        x = "zeroinitializer"
        for e in range(min(together, last - k)):
            one = cast(f, f.lanes, t.feature_of(v, k + e), v.code, acc)
            one = f.scalar(acc, f.select(acc, mask, one))
            x = f.op(
                f"insertelement <{together} x {SCALAR[acc]}> {x}, {SCALAR[acc]} {one}, i32 {e}"
            )
        place = fragments.at(f, fragments.own_row(f, t.plan), region + (k - first) * BYTES[acc])
        f.do(f"store <{together} x {SCALAR[acc]}> {x}, ptr addrspace(3) {place}, align 16")
    return last - first


def _shape(rows: int, columns: int) -> tuple[int, int]:
    """Returns the elements that each thread of a warp sums, out of some rows and columns."""
    shapes = [(a, b) for a in (1, 2, 4) for b in (4, 8)]
    fits = [s for s in shapes if -(-rows // s[0]) * -(-columns // s[1]) <= WARP]
    return min(fits, key=lambda s: (s[0] * s[1], abs(s[0] - s[1])))


def _of_lanes(t: Any, s: Sum, y: GpuVector, x: GpuVector, mask: str) -> None:
    """Each thread sums some elements over the lanes of its warp."""
    acc = accumulator(s.code)
    f, target, region = t.f, _target(t, *s[:5]), t.f.threads * t.plan.row
    for top in range(0, s.rows, STRIP):
        for left in range(0, s.columns, STRIP):
            f.meet()
            rows = _strip(t, y, top, mask, acc, 0)
            columns = _strip(t, x, left, mask, acc, region)
            f.meet()
            _sum_strip(t, s, acc, target, (top, rows), (left, columns), region)


def _sum_strip(
    t: Any, s: Sum, acc: str, target: str, rows: tuple[int, int], columns: tuple[int, int],
    region: int,
) -> None:  # fmt: skip
    f, kind, size = t.f, SCALAR[acc], BYTES[acc]
    tall, wide = _shape(rows[1], columns[1])
    across = -(-columns[1] // wide)
    lane = lane_of_warp(f)
    row = f.op(f"mul i32 {f.op(f'udiv i32 {lane}, {across}')}, {tall}")
    column = f.op(f"mul i32 {f.op(f'urem i32 {lane}, {across}')}, {wide}")
    # Threads without elements read the last rows.
    row = f.op(f"call i32 @llvm.umin.i32(i32 {row}, i32 {max(STRIP - tall, 0)})")
    base = fragments.rows(f, t.plan)
    places = []
    for number, more in ((row, 0), (column, region)):
        offset = f.op(f"add i32 {f.op(f'mul i32 {number}, {size}')}, {more}")
        places.append(f.op(f"getelementptr i8, ptr addrspace(3) {base}, i32 {offset}"))

    def loaded(place: str, count: int) -> list[str]:
        together = min(16 // size, count)
        of, found = f"<{together} x {kind}>", []
        for k in range(0, count, together):
            at = fragments.at(f, place, k * size)
            v = f.op(f"load {of}, ptr addrspace(3) {at}, align {together * size}")
            found += f.split(of, v, together)
        return found

    start = [(kind, "0.0")] * (tall * wide)
    with loop(f, 0, WARP, 1, start) as (k, sums):
        here = f.op(f"mul i32 {f.op(f'trunc i64 {k} to i32')}, {t.plan.row}")
        a, b = [f.op(f"getelementptr i8, ptr addrspace(3) {p}, i32 {here}") for p in places]
        left, right = loaded(a, tall), loaded(b, wide)
        for n in range(tall * wide):
            sums[n] = fma(f, kind, left[n // wide], right[n % wide], sums[n])
    row = f.op(f"mul i32 {f.op(f'udiv i32 {lane}, {across}')}, {tall}")
    for n, x in enumerate(sums):
        r, c = f.op(f"add i32 {row}, {n // wide}"), f.op(f"add i32 {column}, {n % wide}")
        with _below(f, [(r, rows[1]), (c, columns[1])]):
            at = f.op(f"mul i32 {f.op(f'add i32 {r}, {rows[0]}')}, {s.stride}")
            at = f.op(f"add i32 {at}, {f.op(f'add i32 {c}, {columns[0]}')}")
            place = f.op(f"getelementptr {kind}, ptr {target}, i32 {at}")
            atomic_update(f, "add", acc, place, x)


# ---------------------------------------------------------------------------------------- vectors


@in_registers("type parameter parameter parameter parameter node mask")
def accumulate(
    t: Any, code: str, k: int, a: int, n: int, offset: int, y: ast.expr, mask: str
) -> object:
    """`accumulate(T, p[k], p[w], p[n], p[o], y, m)`."""
    if code not in FLOATS:
        raise KernelError(f"there are no such sums of {code}")
    value = t.expr(y)
    if value is None or getattr(value[1], "count", 0) > WIDEST:
        return MEMORY
    v = t.features(y, code)
    if not t.plan.by_warp(code):
        _columns_of_lanes(t, v, mask, accumulator(code), _target(t, code, k, a, n, offset))
        return None
    sums, halved = _columns_of_warp(t, v, mask)

    def add(values: Sequence[str]) -> None:
        _add_columns(t, v.count, _target(t, code, k, a, n, offset), values, halved)

    if t.depth:
        add(sums)
        return None
    carried = [t.carry("float", "0.0") for _ in sums]
    for c, x in zip(carried, sums, strict=True):
        c.end = t.f.op(f"fadd float {c.name}, {x}")
    t.flushes.append(lambda: add([c.name for c in carried]))
    return None


# The bits of a thread's number that are the row that it has.
_BITS = (4, 8, 16)


def _columns_of_warp(t: Any, v: GpuVector, mask: str) -> tuple[list[str], dict[int, int]]:
    """Returns the sums over the lanes of a warp that the thread has, and how many there were of
    each of two threads whose numbers differ by a bit.

    A thread sums its four rows. Then threads exchange halves of their sums, so that each has half
    as many of twice as many rows, or, if the number is odd, all of them.
    """
    f, tiles = t.f, _tiles_of(v.count)
    registers = t.all_registers(v, FRAGMENTS)
    masks = [
        t.twice(Scalar("mask", mask), FRAGMENTS, fragments.index(m, 0, h, tiles), v.count)
        for m in range(2)
        for h in range(2)
    ]
    if t.plan.is_crowded:  # or LLVM would keep what an outer product has selected before
        masks = [pairs.disguised(f, "mask", bits) for bits in masks]
    sums = []
    for j in range(tiles):
        total = "zeroinitializer"
        for m in range(2):
            for h in range(2):
                k = fragments.index(m, j, h, tiles)
                x = pairs.select(f, v.code, masks[2 * m + h], registers[k], "zeroinitializer")
                if v.code == "f16":
                    x = f.op(f"fpext <2 x half> {x} to <2 x float>")
                total = f.op(f"fadd <2 x float> {total}, {x}")
        sums += f.split("<2 x float>", total, 2)
    halved: dict[int, int] = {}
    for bit in _BITS:
        half = len(sums) // 2
        if len(sums) % 2:
            others = [f.shuffled("bfly", "f32", x, bit) for x in sums]
            sums = [f.op(f"fadd float {x}, {y}") for x, y in zip(sums, others, strict=True)]
            continue
        halved[bit] = half
        upper, kept = _has_bit(f, bit), []
        for x, y in zip(sums[:half], sums[half:], strict=True):
            given = f.op(f"select i1 {upper}, float {x}, float {y}")
            own = f.op(f"select i1 {upper}, float {y}, float {x}")
            kept.append(f.op(f"fadd float {own}, {f.shuffled('bfly', 'f32', given, bit)}"))
        sums = kept
    return sums, halved


def _has_bit(f: GpuFunction, bit: int) -> str:
    found = f.once(f"%lane.and{bit}", f"and i32 {lane_of_warp(f)}, {bit}")
    return f.once(f"%lane.has{bit}", f"icmp ne i32 {found}, 0")


def _add_columns(
    t: Any, count: int, target: str, sums: Sequence[str], halved: dict[int, int]
) -> None:
    """Adds the sums of `_columns_of_warp` to memory; where several threads have one, the first."""
    f, number = t.f, "0"
    for bit, half in halved.items():
        more = f.op(f"select i1 {_has_bit(f, bit)}, i32 {half}, i32 0")
        number = f.op(f"add i32 {number}, {more}")
    others = sum(set(_BITS) - set(halved))
    limits = [(f.op(f"and i32 {lane_of_warp(f)}, {others}"), 1)] if others else []
    pair = f.once("%member.2", f"shl i32 {fragments.member(f)}, 1")
    for k, x in enumerate(sums):
        one = f.op(f"add i32 {number}, {k}")
        column = f.op(f"add i32 {pair}, {f.op(f'and i32 {one}, 1')}")
        tile = f.op(f"shl i32 {f.op(f'lshr i32 {one}, 1')}, 3")
        column = f.op(f"add i32 {column}, {tile}")
        with _below(f, [(column, count), *limits]):
            place = f.op(f"getelementptr float, ptr {target}, i32 {column}")
            atomic_update(f, "add", "f32", place, x)


def _columns_of_lanes(t: Any, v: GpuVector, mask: str, acc: str, target: str) -> None:
    """Each thread sums a feature over the lanes of its warp."""
    f, kind, size, lane = t.f, SCALAR[acc], BYTES[acc], lane_of_warp(t.f)
    for first in range(0, v.count, STRIP):
        f.meet()
        count = _strip(t, v, first, mask, acc, 0)
        f.meet()
        offset = f.op(f"mul i32 {lane}, {size}")
        base = f.op(f"getelementptr i8, ptr addrspace(3) {fragments.rows(f, t.plan)}, i32 {offset}")
        with _below(f, [(lane, count)]):
            total = "0.0"
            for k in range(WARP):
                source = fragments.at(f, base, k * t.plan.row)
                x = f.op(f"load {kind}, ptr addrspace(3) {source}, align {size}")
                total = f.op(f"fadd {kind} {total}, {x}")
            number = f.op(f"add i32 {lane}, {first}")
            place = f.op(f"getelementptr {kind}, ptr {target}, i32 {number}")
            atomic_update(f, "add", acc, place, total)
