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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..simd.atomic import atomic_update
from ..simd.conversion import convert
from ..simd.ir import BYTES
from ..simd.loops import choose
from ..simd.reduction import accumulator
from ..simd.values import Value
from . import atomic, fragments, pairs, tf32
from .calls import MEMORY, in_registers
from .features import GpuVector, Scalar
from .function import WARP
from .plan import FRAGMENTS, OWN, STRIP, WIDEST, Sum
from .products import multiplied
from .values import GpuCode, GpuPointer

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
    if max(rows, columns) > WIDEST:
        return MEMORY
    left, right = t.features(y), t.features(x)
    s = Sum(code, k, a, n, offset, rows, columns, stride)
    if s in t.plan.sums and not t.depth:
        _of_block(t, s, left, right, mask)
    elif t.plan.by_warp(code):
        _of_warp(t, s, left, right, mask)
    else:
        _of_lanes(t, s, left, right, mask)
    return None


def _target(t: Any, code: str, k: int, a: int, n: int, offset: int) -> GpuPointer:
    """Returns the address of the first accumulator in memory. The position is read here: otherwise,
    what a matrix has at the same position would be kept until then."""
    f, (acc, base) = t.f, atomic.target_accumulators(t, "add", code, k, a, n)
    position = f.op(f"load volatile i64, ptr {f.word_address_here(offset)}")
    return GpuPointer(f, acc, base) + t.c.word(position)


def _add(t: Any, target: GpuPointer, at: Value, x: Value, *more: Value) -> None:
    """Adds a number, or two, to the accumulators at a position, which has a sign: LLVM then knows
    that it is near the next one."""
    place = (target + at.bits("i32")).name
    if more:
        atomic.add_together(t.f, place, [x.name, *[y.name for y in more]])
    else:
        atomic_update(t.f, "add", target.code, place, x.name)


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
        return tf32.rounded_pair(t.c, Value(f, "f32", 2, x)).name if v.code == "f32" else x

    for region, (v, form) in zip((0, f.threads * t.plan.row), known, strict=True):
        if form == FRAGMENTS:
            every = range(-(-v.count // 8))
            fragments.store_tiles(t, v, every, region, partial(masked, v, form))
            continue
        last, size = -(-v.count // 2), pairs.words(v.code)
        for k in range(0, last, 4):
            some = [masked(v, form, j) for j in range(k, min(k + 4, last))]
            words = [fragments.words_of(t.c, v.code, x) for x in some]
            words += [t.c.zeros("u32", size)] * (4 - len(words))
            fragments.store_row(t, words, region + 4 * size * k)


def _form(v: GpuVector) -> str:
    """Returns the form in which a vector is stored."""
    known = v.forms.get(FRAGMENTS, [""])
    return FRAGMENTS if "" not in known or v.form == FRAGMENTS else OWN


def _depth(code: str) -> int:
    """Returns how many lanes an instruction sums over."""
    return 8 if code == "f32" else 16


def _operand(
    t: Any, code: str, base: tuple[GpuPointer, GpuPointer], offset: int, tiles: int, *, left: bool
) -> list[Value]:
    """Returns fragments of some lanes and one or two tiles: as operand A of rows, or as operand B
    of columns. The addresses are those for either order of matrices."""
    source = base[left and tiles == 2] + offset
    if code == "f32":
        return tf32.operand(source, t.plan.row, tiles, left=left)
    found = t.c.matrices(source, 2 * tiles, turned=True)
    if left and tiles == 1:
        zero = t.c.zeros("f16", 2)
        found = [found[0], zero, found[1], zero]
    return found


# ------------------------------------------------------------------------------------ of a block


def _orders(t: Any, code: str) -> tuple[Value, Value]:
    """Returns the offsets of fragments in rows of lanes, for either order of matrices."""
    c, row = t.c, t.plan.row
    if code == "f32":
        order = tf32.of_rows(c, row)
        return order, order
    return fragments.low(c, row), fragments.high(c, row)


def _begin(t: Any, order: Value, number: Value, size: int) -> GpuPointer:
    """Returns the address of a thread's fragments in the rows of the block's lanes, for a tile with
    a number."""
    c, rows = t.c, t.plan.rows
    key = "begin", order.name, number.name, size
    return c.once(key, lambda: c.dynamic() + rows + order + number * size)


def _of_block(t: Any, s: Sum, y: GpuVector, x: GpuVector, mask: str) -> None:
    f, plan = t.f, t.plan
    region = f.threads * plan.row
    _store_rows(t, y, x, mask)
    t.forget(y)
    f.barrier()
    low, high = _orders(t, s.code)
    tile = 8 * BYTES[s.code]
    tall = _tiles_of(y.count)
    down, across = _numbers(t, s)
    places = []
    for number, offset in down:
        parts = [_begin(t, order, number, 2 * tile) for order in (low, high)]
        places.append(tuple(place + 2 * tile * offset for place in parts))
    columns = [_begin(t, low, n, tile) + (region + tile * offset) for n, offset in across]

    home, wide = _home(t, s), len(across)
    # Fragments of two neighbouring tiles are loaded together.
    joined = s.code == "f16" and wide % 2 == 0 and across[0][0].name == across[-1][0].name
    at_once = max(_TILES // wide, 1)
    for top in range(0, len(down), at_once):
        some = home + 4 * f.threads * wide * top
        left = [(*p, min(tall, 2)) for p in places[top : top + at_once]]
        _add_products(t, s.code, some, left, columns[::2] if joined else columns, joined)
    f.barrier()


def _add_products(
    t: Any, code: str, home: GpuPointer, left: Sequence[tuple], right: Sequence[GpuPointer],
    joined: bool,
) -> None:  # fmt: skip
    """Adds the products of rows of tiles with columns of tiles, or with pairs of columns, to the
    thread's accumulators. Addresses are those of fragments of the block's first lanes."""
    c, plan, depth = t.c, t.plan, _depth(code)
    wide = len(right) * (1 + joined)
    slots = [home + 4 * c.f.threads * k for k in range(len(left) * wide)]
    sums = [x for v in [place.load(4) for place in slots] for x in v.elements()]
    for k in c.range(0, c.f.threads // depth, _AT_ONCE, sums):
        here = k.cast("u32") * (depth * plan.row)
        tops = [(p + here, q + here, n) for p, q, n in left]
        starts = [p + here for p in right]
        for step in range(_AT_ONCE):
            more = depth * step * plan.row
            a = [_operand(t, code, (p, q), more, n, left=True) for p, q, n in tops]
            b = []
            for p in starts:
                found = _operand(t, code, (p, p), more, 1 + joined, left=False)
                b += [found[i : i + 2] for i in range(0, len(found), 2)]
            for slot in range(len(slots)):
                i, j = divmod(slot, wide)
                own = slice(4 * slot, 4 * slot + 4)
                sums[own] = multiplied(c, plan, a[i], b[j], sums[own])
    for k, place in enumerate(slots):
        place.store(c.vector(sums[4 * k : 4 * k + 4]))


def _tiles_of(count: int) -> int:
    return -(-count // 8)


def _home(t: Any, s: Sum) -> GpuPointer:
    """Returns the address of the thread's first accumulators of a sum."""
    c = t.c
    base = c.once("sums", lambda: c.dynamic() + (c.tid << 4))
    return (base + t.plan.sums[s]).of("f32")


def _numbers(t: Any, s: Sum) -> tuple[list[tuple[Value, int]], list[tuple[Value, int]]]:
    """Returns the rows of tiles of a warp, and its columns of tiles: each as the number of a first
    one and the distance from that. Those beyond the last one repeat it."""
    c = t.c
    down, across, tall, wide = t.plan.split(s)
    first = c.once(("down", across, tall), lambda: c.warp // across * tall)
    second = c.once(("across", across, wide), lambda: c.warp % across * wide)

    def listed(number: Value, warps: int, count: int, last: int) -> list[tuple[Value, int]]:
        if warps * count <= last:
            return [(number, k) for k in range(count)]

        def clamped(k: int) -> Value:
            return c.once((number.name, k, last), lambda: c.least(number + k, last - 1))

        return [(clamped(k), 0) for k in range(count)]

    rows, columns = -(-s.rows // 16), _tiles_of(s.columns)
    return listed(first, down, tall, rows), listed(second, across, wide, columns)


def prepare(t: Any) -> None:
    """Before the lanes of a block: sets its accumulators to zero."""
    for s in t.plan.sums:
        *_, tall, wide = t.plan.split(s)
        for k in range(tall * wide):
            (_home(t, s) + 4 * t.f.threads * k).store(t.c.zeros("f32", 4))


def finish(t: Any) -> None:
    """After the lanes of a block: adds its sums to memory."""
    for s in t.plan.sums:
        target = _target(t, *s[:5])
        _in_pairs(t, target, [s.columns, s.stride], partial(_add_tiles, t, s, target))
    for flush in t.flushes:
        flush()


def _in_pairs(
    t: Any, target: GpuPointer, counts: Sequence[int], add: Callable[[int], None]
) -> None:
    """Adds numbers to memory, as many neighbours at a time as `add` is given: two where GPUs have
    an instruction for that, these counts are even, and so is the address, which is known later."""
    if t.module.options.capability < (9, 0) or target.code != "f32" or any(n % 2 for n in counts):
        add(1)
        return
    f = t.f
    address = f.op(f"and i64 {f.op(f'ptrtoint ptr {target} to i64')}, 7")
    choose(f, f.op(f"icmp eq i64 {address}, 0"), lambda: add(2), lambda: add(1))


def _add_tiles(t: Any, s: Sum, target: GpuPointer, together: int) -> None:
    """Adds the tiles of a thread to memory."""
    c = t.c
    down, across, tall, wide = t.plan.split(s)
    first_row, first_column = c.warp // across * (16 * tall), c.warp % across * (8 * wide)
    exact = down * tall * 16 == s.rows and across * wide * 8 == s.columns
    for k in range(tall * wide):
        sums = (_home(t, s) + 4 * c.f.threads * k).load(4).elements()
        i, j = divmod(k, wide)
        row, column = first_row + 16 * i, first_column + 8 * j
        _add_tile(t, s, target, row, column, sums, whole=exact, together=together)


def _add_tile(
    t: Any, s: Sum, target: GpuPointer, row: Value, column: Value, sums: Sequence[Value], *,
    whole: bool, together: int = 1,
) -> None:  # fmt: skip
    """Adds a tile of accumulators to memory, some neighbours at a time."""
    row, column = row + fragments.group(t.c), column + fragments.pair(t.c)
    for k in range(0, len(sums), together):
        r, e = row + 8 * (k > 1), column + k % 2
        with _below(t.c, [] if whole else [(r, s.rows), (e, s.columns)]):
            _add(t, target, r * s.stride + e, *sums[k : k + together])


@contextmanager
def _below(c: GpuCode, limits: Sequence[tuple[Value, int]]) -> Iterator[None]:
    """Code for threads whose numbers are below limits."""
    inside = c.within(limits)
    if inside is None:
        yield
        return
    for _ in c.when(inside):
        yield


# -------------------------------------------------------------------------------------- of a warp


def _of_warp(t: Any, s: Sum, y: GpuVector, x: GpuVector, mask: str) -> None:
    c, plan = t.c, t.plan
    region = c.f.threads * plan.row
    target = _target(t, *s[:5])
    _store_rows(t, y, x, mask)
    c.f.meet()
    rows, size, depth = fragments.rows(c, plan), BYTES[s.code], _depth(s.code)
    low, high = [
        c.once(("warp", order.name), partial(rows.__add__, order)) for order in _orders(t, s.code)
    ]
    tall, wide = _tiles_of(s.rows), _tiles_of(s.columns)
    exact = s.rows % 16 == 0 and s.columns % 8 == 0

    def some(first: Value, tops: tuple[GpuPointer, GpuPointer], number: int) -> None:
        steps = range(WARP // depth)
        a = [_operand(t, s.code, tops, depth * k * plan.row, number, left=True) for k in steps]
        for j in range(0, wide, 2):
            count = min(2, wide - j)
            b = []
            for k in steps:
                more = region + depth * k * plan.row + 8 * size * j
                b.append(_operand(t, s.code, (low, low), more, count, left=False))
            for i in range(count):
                sums = [c.number("f32", 0)] * 4
                for k in steps:
                    sums = multiplied(c, plan, a[k], b[k][2 * i : 2 * i + 2], sums)
                _add_tile(t, s, target, first, c.number("u32", 8 * (j + i)), sums, whole=exact)

    if tall > 1:
        for m in c.range(0, tall // 2):
            first = m.cast("u32") << 4
            at = first * size
            some(first, (low + at, high + at), 2)
    if tall % 2:
        last = low + 8 * size * (tall - 1)
        some(c.number("u32", 8 * (tall - 1)), (last, last), 1)


# ------------------------------------------------------------------------------------- of lanes


def _strip(t: Any, v: GpuVector, first: int, mask: str, acc: str, region: int) -> int:
    """Stores some features of a vector, as accumulators, to the rows of the lanes, with zeros where
    the mask is false. Returns their number."""
    f, last, together = t.f, min(v.count, first + STRIP), 16 // BYTES[acc]
    parts = []
    for k in range(first, last):
        x = f.select(acc, mask, convert(f, acc, v.code, t.feature_of(v, k)))
        parts.append(Value(f, acc, 0, f.scalar(acc, x)))
    parts += [t.c.number(acc, 0)] * (-len(parts) % together)
    place = (fragments.own_row(t.c, t.plan) + region).of(acc)
    for k in range(0, len(parts), together):
        (place + k).store(t.c.vector(parts[k : k + together]))
    return last - first


def _shape(rows: int, columns: int) -> tuple[int, int]:
    """Returns the elements that each thread of a warp sums, out of some rows and columns."""
    shapes = [(a, b) for a in (1, 2, 4) for b in (4, 8)]
    fits = [s for s in shapes if -(-rows // s[0]) * -(-columns // s[1]) <= WARP]
    return min(fits, key=lambda s: (s[0] * s[1], abs(s[0] - s[1])))


def _of_lanes(t: Any, s: Sum, y: GpuVector, x: GpuVector, mask: str) -> None:
    """Each thread sums some elements over the lanes of its warp."""
    acc, region = accumulator(s.code), t.f.threads * t.plan.row
    target = _target(t, *s[:5])
    for top in range(0, s.rows, STRIP):
        for left in range(0, s.columns, STRIP):
            t.f.meet()
            rows = _strip(t, y, top, mask, acc, 0)
            columns = _strip(t, x, left, mask, acc, region)
            t.f.meet()
            _sum_strip(t, s, acc, target, (top, rows), (left, columns), region)


def _sum_strip(
    t: Any, s: Sum, acc: str, target: GpuPointer, rows: tuple[int, int], columns: tuple[int, int],
    region: int,
) -> None:  # fmt: skip
    c, size = t.c, BYTES[acc]
    tall, wide = _shape(rows[1], columns[1])
    across = -(-columns[1] // wide)
    row, column = c.lane // across * tall, c.lane % across * wide
    # Threads without elements read the last rows.
    existing = c.least(row, max(STRIP - tall, 0))
    base = fragments.rows(c, t.plan)
    places = base + existing * size, base + (column * size + region)

    def loaded(place: GpuPointer, count: int) -> list[Value]:
        together = min(16 // size, count)
        parts = [(place + k).load(together) for k in range(0, count, together)]
        return [x for part in parts for x in part.elements()]

    sums = [c.number(acc, 0)] * (tall * wide)
    for k in c.range(0, WARP, 1, sums):
        here = k.cast("u32") * t.plan.row
        a, b = [(p + here).of(acc) for p in places]
        left, right = loaded(a, tall), loaded(b, wide)
        for n in range(tall * wide):
            sums[n] = left[n // wide].times_plus(right[n % wide], sums[n])
    for n, x in enumerate(sums):
        r, e = row + n // wide, column + n % wide
        with _below(c, [(r, rows[1]), (e, columns[1])]):
            _add(t, target, (r + rows[0]) * s.stride + (e + columns[0]), x)


# ---------------------------------------------------------------------------------------- vectors


@in_registers("type parameter parameter parameter parameter node mask")
def accumulate(
    t: Any, code: str, k: int, a: int, n: int, offset: int, y: ast.expr, mask: str
) -> object:
    """`accumulate(T, p[k], p[w], p[n], p[o], y, m)`."""
    if t.expr(y)[1].count > WIDEST:
        return MEMORY
    v = t.features(y)
    if not t.plan.by_warp(code):
        _columns_of_lanes(t, v, mask, accumulator(code), _target(t, code, k, a, n, offset))
        return None
    sums, halved = _columns_of_warp(t, v, mask)

    def add(values: Sequence[Value]) -> None:
        target = _target(t, code, k, a, n, offset)
        counts = [v.count, len(values), *halved.values()]
        _in_pairs(t, target, counts, partial(_add_columns, t, v.count, target, values, halved))

    if t.depth:
        add(sums)
        return None
    carried = [t.carry("float", "0.0") for _ in sums]
    for total, x in zip(carried, sums, strict=True):
        total.end = (x.like(total.name) + x).name
    t.flushes.append(lambda: add([x.like(c.name) for c, x in zip(carried, sums, strict=True)]))
    return None


# The bits of a thread's number that are the row that it has.
_BITS = (4, 8, 16)


def _columns_of_warp(t: Any, v: GpuVector, mask: str) -> tuple[list[Value], dict[int, int]]:
    """Returns the sums over the lanes of a warp that the thread has, and how many there were of
    each of two threads whose numbers differ by a bit.

    A thread sums its four rows. Then threads exchange halves of their sums, so that each has half
    as many of twice as many rows, or, if the number is odd, all of them.
    """
    c, f, tiles = t.c, t.f, _tiles_of(v.count)
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
        total = c.zeros("f32", 2)
        for row, bits in enumerate(masks):
            k = fragments.index(row // 2, j, row % 2, tiles)
            x = pairs.select(f, v.code, bits, registers[k], "zeroinitializer")
            total = total + Value(f, v.code, 2, x).cast("f32")
        sums += total.elements()
    halved: dict[int, int] = {}
    for bit in _BITS:
        half = len(sums) // 2
        if len(sums) % 2:
            others = [c.shuffled("bfly", x, bit) for x in sums]
            sums = [x + y for x, y in zip(sums, others, strict=True)]
            continue
        halved[bit] = half
        upper, kept = _has_bit(c, bit), []
        for x, y in zip(sums[:half], sums[half:], strict=True):
            given = c.select(upper, x, y)
            kept.append(c.select(upper, y, x) + c.shuffled("bfly", given, bit))
        sums = kept
    return sums, halved


def _has_bit(c: GpuCode, bit: int) -> Value:
    return c.once(("has bit", bit), lambda: (c.lane & bit) != 0)


def _add_columns(
    t: Any, count: int, target: GpuPointer, sums: Sequence[Value], halved: dict[int, int],
    together: int,
) -> None:  # fmt: skip
    """Adds the sums of `_columns_of_warp` to memory, some neighbours at a time; where several
    threads have one, the first."""
    c, number = t.c, t.c.number("u32", 0)
    for bit, half in halved.items():
        number = number + c.select(_has_bit(c, bit), c.number("u32", half), 0)
    others = sum(set(_BITS) - set(halved))
    limits = [(c.lane & others, 1)] if others else []
    for k in range(0, len(sums), together):
        one = number + k
        column = fragments.pair(c) + (one & 1) + (one >> 1 << 3)
        with _below(c, [(column, count), *limits]):
            _add(t, target, column, *sums[k : k + together])


def _columns_of_lanes(t: Any, v: GpuVector, mask: str, acc: str, target: GpuPointer) -> None:
    """Each thread sums a feature over the lanes of its warp."""
    c = t.c
    for first in range(0, v.count, STRIP):
        c.f.meet()
        count = _strip(t, v, first, mask, acc, 0)
        c.f.meet()
        base = fragments.rows(c, t.plan) + c.lane * BYTES[acc]
        with _below(c, [(c.lane, count)]):
            total = c.number(acc, 0)
            for k in range(WARP):
                total = total + (base + k * t.plan.row).of(acc).load()
            _add(t, target, c.lane + first, total)
