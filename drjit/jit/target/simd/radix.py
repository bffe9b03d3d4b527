"""The passes of a radix sort: counting each digit's occurrences in a block, and moving each key to
its position."""

import ast
from collections.abc import Sequence
from typing import Any

from .arguments import statement
from .ir import Function, Operand
from .translate import Translator
from .values import Code, Mask, Pointer, Vector, Word

# Bits of a digit; the table of a block has one more entry, for lanes beyond the end.
DIGIT = 11
ENTRIES = (1 << DIGIT) + 1


@statement("parameter lane_range typed parameter")
def radix_count(t: Translator, a: int, key: Operand, shift: int) -> None:
    """`radix_count(p[a], i, x, p[shift])`."""
    count_digits(_table(t.f, a), _digits(t, key, shift))
    t.finishers.append(lambda f: starts(Code(f), f.pointer(a), Code(f).word("%n_blocks")))


@statement("parameter lane_range typed parameter *node")
def radix_move(t: Translator, a: int, key: Operand, shift: int, *moved: ast.expr) -> None:
    """`radix_move(p[a], i, x, p[shift], p[k], v, ...)`: lanes with equal digits keep their order.

    Lanes beyond the end go to the padding of the buffers.
    """
    f = t.f
    columns = []
    for number in range(0, len(moved), 2):
        code, value = t.typed(moved[number + 1])
        base = Pointer(f, code, f.pointer(t.parameter(moved[number])))
        columns.append((Vector(f, code, f.lanes, value), base))
    move(_table(f, a), _digits(t, key, shift), columns)


def _digits(t: Translator, key: Operand, shift: int) -> list[Word]:
    f, (code, x) = t.f, key
    active = Mask(f, "mask", f.lanes, t.active())
    return digits(Code(f), Vector(f, code, f.lanes, x), Code(f).word(f.word(shift)), active)


def _table(f: Function, k: int) -> Pointer:
    """Returns the table of this block."""
    offset = f.once(f"%radix{k}.o", f"mul i64 %block, {ENTRIES}")
    name = f.once(f"%radix{k}", f"getelementptr i32, ptr {f.pointer(k)}, i64 {offset}")
    return Pointer(f, "u32", name)


def digits(c: Code, keys: Vector, shift: Word, active: Mask) -> list[Word]:
    """Returns the digit of every lane; one more than the largest for inactive lanes."""
    x = (keys >> shift).cast("u32") & (1 << DIGIT) - 1
    return c.select(active, x, c.full("u32", len(x), 1 << DIGIT)).words()


def count_digits(table: Pointer, of: Sequence[Word]) -> None:
    """Counts the digits of a packet in the table of its block."""
    for digit in of:
        (table + digit).counted()


def starts(c: Code, tables: Any, blocks: Word) -> None:
    """Turns the counts of all blocks into positions, ordered by digit, then by block."""
    base, total = c.pointer("u32", tables), [c.word(0)]
    for digit in c.range(0, ENTRIES, 1, total):
        for block in c.range(0, blocks, 1, total):
            place = base + (block * ENTRIES + digit)
            count = place.count()
            place.set_count(total[0])
            total[0] = total[0] + count


def move(table: Pointer, of: Sequence[Word], columns: Sequence[tuple[Vector, Pointer]]) -> None:
    """Moves the lanes of a packet, whose digits are given, to the next position for their digit.

    Everything is scalar: a vector of positions assembled from scalars in memory would wait for all
    previous stores.
    """
    for lane, digit in enumerate(of):
        position = (table + digit).counted()
        for x, base in columns:
            (base + position).store_lane(x, lane)
