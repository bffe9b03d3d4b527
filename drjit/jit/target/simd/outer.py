"""Sums over the lanes: outer products and vectors, added to a thread's private copy.

The rows of one operand are transposed through registers, so that the lanes become the terms of the
sums. The rest is the innermost loop of `matvec`, whose accumulators are loaded from memory and
stored back. Inactive lanes become zeros.
"""

import ast

from .arguments import statement
from .ir import Function
from .loops import address
from .matvec import Tile, accumulated, registers_across, rows_down, strips
from .reduction import accumulator, private_copy
from .values import Code, Flag, Mask, Pointer, Vector
from .vector import VectorTranslator


def _turned(
    c: Code, source: Pointer, columns: int, lanes: int, masks: list[Mask]
) -> tuple[Pointer, int]:
    """Returns a vector lane by lane, with zeros for inactive lanes, and the distance of lanes."""
    packet, stride = lanes * len(masks), -(-columns // lanes) * lanes
    turned = c.room("turned", source.code, stride * packet)
    for column, number in strips(c, columns, lanes):
        start, target = source + column * packet, turned + column
        for group, mask in enumerate(masks):
            places = [k * packet + group * lanes for k in range(number)]
            rows = [(start + place).load(lanes, mask) for place in places]
            rows += [c.zeros(source.code, lanes)] * (lanes - number)
            for k, x in enumerate(c.transposed(rows)):
                (target + (group * lanes + k) * stride).store(x)
    return turned, stride


def _masked_rows(
    c: Code, vector: Pointer, rows: int, lanes: int, masks: list[Mask], some_inactive: Flag
) -> Pointer:
    """Returns a vector, or if some lanes are inactive, a copy of it with zeros for these."""
    packet = lanes * len(masks)
    copy, found = c.room("copy", vector.code, rows * packet), [vector]
    for _ in c.when(some_inactive, found):
        for number in c.range(0, rows):
            place = number * packet
            source, target = vector + place, copy + place
            for group, mask in enumerate(masks):
                (target + group * lanes).store((source + group * lanes).load(lanes, mask))
        found[:] = [copy]
    return found[0]


def add_outer(
    c: Code, sums: Pointer, y: Pointer, x: Pointer, active: list[Mask], some_inactive: Flag,
    rows: int, columns: int, stride: int,
) -> None:  # fmt: skip
    """Adds the outer products of two vectors to sums, rows of which are `stride` elements apart.
    `active` are the active lanes, register by register."""
    code, lanes = sums.code, len(active[0])
    packet = lanes * len(active)
    turned, step = _turned(c, x, columns, lanes, active)
    left = _masked_rows(c, y, rows, lanes, active, some_inactive)
    across = registers_across(c, -(-columns // lanes)) * lanes
    for first, number in strips(c, columns, across):
        b, target = turned + first, sums + first
        registers = -(-number // lanes)
        masks = [c.first(min(number - k * lanes, lanes), lanes) for k in range(registers)]
        for top, height in strips(c, rows, rows_down(c, rows, registers)):
            a, corner = left + top * packet, target + top * stride
            places = [
                (corner + (r * stride + k * lanes), masks[k])
                for r in range(height)
                for k in range(registers)
            ]
            start = [place.load(lanes, mask) for place, mask in places]
            block = Tile(code, lanes, height, registers, packet, 1, step)
            found = accumulated(c, block, packet, a, b, start)
            for total, (place, mask) in zip(found, places, strict=True):
                place.store(total, mask)


def add_vector(c: Code, sums: Pointer, x: Pointer, active: list[Mask], rows: int) -> None:
    """Adds the sum over the active lanes of each row of a vector to sums."""
    lanes = len(active[0])
    packet = lanes * len(active)
    for first, number in strips(c, rows, lanes):
        source = x + first * packet
        parts: list[Vector] = []
        for k in range(number):
            places = [(source + (k * packet + g * lanes), m) for g, m in enumerate(active)]
            terms = [place.load(lanes, mask) for place, mask in places]
            while len(terms) > 1:
                a, b, *rest = terms
                terms = [*rest, a + b]
            parts += terms
        parts += [c.zeros(sums.code, lanes)] * (lanes - number)
        # Pairs of rows are halved and added until lane k holds the sum of row k.
        step = 1
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            halves = [[c.alternated(*pair, step, odd) for odd in (False, True)] for pair in pairs]
            parts = [a + b for a, b in halves]
            step *= 2
        target, mask = sums + first, c.first(number, lanes)
        target.store(target.load(lanes, mask) + parts[0], mask)


def _emit(f: Function, code: str, *sizes: int) -> None:
    """Emits the function that adds an outer product, or a vector if there is one size. Its
    parameters are the sums, the vectors, and the active lanes as bits."""
    c, adds_vector = Code(f), len(sizes) == 1
    bits = "%2" if adds_vector else "%3"
    none, some = f.new_block(), f.new_block()
    f.branch(f.op(f"icmp eq i{f.lanes} {bits}, 0"), none, some)
    f.start(none)
    f.do("ret void")
    f.start(some)
    active = c.lane_masks(bits, min(c.width(code), f.lanes))
    sums, y, x = (c.pointer(code, f"%{k}") for k in range(3))
    if adds_vector:
        add_vector(c, sums, y, active, *sizes)
    else:
        add_outer(c, sums, y, x, active, c.some_inactive(bits), *sizes)


def _target(t: VectorTranslator, code: str, k: int, a: int, n: int, offset: int) -> str:
    """Returns the address where this thread accumulates."""
    copy = private_copy(t, "add", code, k, a, n)
    return address(t.f, accumulator(code), copy, t.f.word_here(offset))


@statement("type parameter parameter parameter parameter integer integer integer node node mask")
def outer(
    t: VectorTranslator, code: str, k: int, a: int, n: int, offset: int, rows: int, columns: int,
    stride: int, y: ast.expr, x: ast.expr, mask: str,
) -> None:  # fmt: skip
    """`outer(T, p[k], p[w], p[n], p[o], rows, columns, stride, y, x, m)`."""
    f, target, held = t.f, _target(t, code, k, a, n, offset), accumulator(code)
    left, right = t.vector(y), t.vector(x)
    bits = f.bits(mask)
    t.flush([v for v in (left, right) if v.op is not None])
    symbol = t.module.routine(
        f"outer.{held}.{rows}x{columns}.{stride}",
        ("ptr noalias", "ptr readonly", "ptr readonly", f"i{f.lanes}"),
        lambda g: _emit(g, held, rows, columns, stride),
    )
    operands = f"ptr {target}, ptr {t.place(left)}, ptr {t.place(right)}, i{f.lanes} {bits}"
    f.do(f"call fastcc void {symbol}({operands})")


@statement("type parameter parameter parameter parameter node mask")
def accumulate(
    t: VectorTranslator, code: str, k: int, a: int, n: int, offset: int, y: ast.expr, mask: str
) -> None:
    """`accumulate(T, p[k], p[w], p[n], p[o], y, m)`."""
    f, target, held = t.f, _target(t, code, k, a, n, offset), accumulator(code)
    v = t.vector(y)
    bits, count = f.bits(mask), v.count
    symbol = t.module.routine(
        f"accumulate.{held}.{count}",
        ("ptr noalias", "ptr readonly", f"i{f.lanes}"),
        lambda g: _emit(g, held, count),
    )
    f.do(f"call fastcc void {symbol}(ptr {target}, ptr {t.place(v)}, i{f.lanes} {bits})")
