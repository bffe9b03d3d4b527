"""The passes of a radix sort: counting each digit's occurrences in a block, and moving each key to
its position."""

import ast

from .arguments import statement
from .ir import BITS, MEMORY, UNSIGNED, Function, KernelError, Value
from .loops import address, loop, splat
from .translate import Translator

# Bits of a digit; the table of a block has one more entry, for lanes beyond the end.
DIGIT = 11
ENTRIES = (1 << DIGIT) + 1


def _digits(t: Translator, key: Value, shift: int) -> list[str]:
    """Returns the digit of every lane as `i64`; one more than the largest for inactive lanes."""
    f, (code, x) = t.f, key
    if code not in UNSIGNED:
        raise KernelError(f"a sort key of type {code} is not unsigned")
    vector, word = f.vector[code], f.word(shift)
    if BITS[code] < 64:
        word = f.op(f"trunc i64 {word} to i{BITS[code]}")
    x = f.op(f"lshr {vector} {x}, {splat(f, f'i{BITS[code]}', f.lanes, word)}")
    wide = f.vector["u32"]
    if BITS[code] != 32:
        x = f.op(f"{'trunc' if BITS[code] > 32 else 'zext'} {vector} {x} to {wide}")
    x = f.op(f"and {wide} {x}, {f.constant('u32', (1 << DIGIT) - 1)}")
    x = f.select("u32", t.active(), x, f.constant("u32", 1 << DIGIT))
    lanes = [f.op(f"extractelement {wide} {x}, i32 {lane}") for lane in range(f.lanes)]
    return [f.op(f"zext i32 {digit} to i64") for digit in lanes]


def _table(f: Function, k: int) -> str:
    """Returns the table of this block."""
    offset = f.once(f"%radix{k}.o", f"mul i64 %block, {ENTRIES}")
    return f.once(f"%radix{k}", f"getelementptr i32, ptr {f.pointer(k)}, i64 {offset}")


def _counted(f: Function, place: str) -> str:
    """Returns the value of a counter and increments it."""
    count = f.op(f"load i32, ptr {place}")
    f.do(f"store i32 {f.op(f'add i32 {count}, 1')}, ptr {place}")
    return count


@statement("parameter lane_range typed parameter")
def radix_count(t: Translator, a: int, key: Value, shift: int) -> None:
    """`radix_count(p[a], i, x, p[shift])`."""
    table = _table(t.f, a)
    for digit in _digits(t, key, shift):
        _counted(t.f, address(t.f, "u32", table, digit))
    t.finishers.append(lambda f: _starts(f, a))


def _starts(f: Function, k: int) -> None:
    """Turns the counts of all blocks into positions, ordered by digit, then by block."""
    base = f.pointer(k)
    with loop(f, 0, ENTRIES, 1, [("i32", "0")]) as (digit, total):
        with loop(f, 0, "%n_blocks", 1, [("i32", total[0])]) as (block, so_far):
            place = address(f, "u32", base, f.op(f"mul i64 {block}, {ENTRIES}"), digit)
            count = f.op(f"load i32, ptr {place}")
            f.do(f"store i32 {so_far[0]}, ptr {place}")
            so_far[0] = f.op(f"add i32 {so_far[0]}, {count}")
        total[:] = so_far


@statement("parameter lane_range typed parameter *node")
def radix_move(t: Translator, a: int, key: Value, shift: int, *moved: ast.expr) -> None:
    """`radix_move(p[a], i, x, p[shift], p[k], v, ...)`: lanes with equal digits keep their order.

    Lanes beyond the end go to the padding of the buffers. Everything is scalar: a vector of
    positions assembled from scalars in memory would wait for all previous stores.
    """
    f, table = t.f, _table(t.f, a)
    columns = []
    for number in range(0, len(moved), 2):
        code, value = t.typed(moved[number + 1])
        columns.append((code, value, f.pointer(t.parameter(moved[number]))))
    for lane, digit in enumerate(_digits(t, key, shift)):
        position = f.op(f"zext i32 {_counted(f, address(f, 'u32', table, digit))} to i64")
        for code, value, base in columns:
            one = f.op(f"extractelement {f.vector[code]} {value}, i32 {lane}")
            f.do(f"store {MEMORY[code]} {one}, ptr {address(f, code, base, position)}")
