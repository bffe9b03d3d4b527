"""The passes of a radix sort: how often each digit occurs in a block, and where each key goes."""

import ast

from .ir import BITS, MEMORY, UNSIGNED, Function, KernelError
from .loops import address, loop, splat
from .translate import CALLS, Translator

# Bits of a digit; the table of a block has one more entry, for lanes beyond the end.
DIGIT = 11
ENTRIES = (1 << DIGIT) + 1


def _digits(t: Translator, key: ast.expr, shift: ast.expr) -> list[str]:
    """The digit of every lane, as `i64`; one beyond the largest for lanes that are not active."""
    f = t.f
    code, x = t.typed(key)
    if code not in UNSIGNED:
        raise KernelError(f"a sort key of type {code} is not unsigned")
    vector, word = f.vector[code], f.word(t.parameter(shift))
    if BITS[code] < 64:
        word = f.op(f"trunc i64 {word} to i{BITS[code]}")
    x = f.op(f"lshr {vector} {x}, {splat(f, f'i{BITS[code]}', f.lanes, word)}")
    wide = f.vector["u32"]
    if BITS[code] != 32:
        x = f.op(f"{'trunc' if BITS[code] > 32 else 'zext'} {vector} {x} to {wide}")
    x = f.op(f"and {wide} {x}, {f.constant('u32', (1 << DIGIT) - 1)}")
    beyond = f.constant("u32", 1 << DIGIT)
    x = f.op(f"select {f.vector['mask']} {t.active()}, {wide} {x}, {wide} {beyond}")
    slot = f.slot("u32", 0)
    f.do(f"store {wide} {x}, ptr {slot}")
    result = []
    for lane in range(f.lanes):
        place = f.op(f"getelementptr i32, ptr {slot}, i64 {lane}")
        result.append(f.op(f"zext i32 {f.op(f'load i32, ptr {place}')} to i64"))
    return result


def _table(t: Translator, a: ast.expr) -> str:
    """The table of this block."""
    f, k = t.f, t.parameter(a)
    offset = f.once(f"%radix{k}.o", f"mul i64 %block, {ENTRIES}")
    return f.once(f"%radix{k}", f"getelementptr i32, ptr {f.pointer(k)}, i64 {offset}")


def radix_count(t: Translator, a: ast.expr, i: ast.expr, x: ast.expr, shift: ast.expr) -> None:
    """`radix_count(p[a], i, x, p[shift])`."""
    t.lane_range(i)
    f, table = t.f, _table(t, a)
    for digit in _digits(t, x, shift):
        place = address(f, "u32", table, digit)
        count = f.op(f"load i32, ptr {place}")
        f.do(f"store i32 {f.op(f'add i32 {count}, 1')}, ptr {place}")
    t.finishers.append(lambda f: _starts(f, t.parameter(a)))


def _starts(f: Function, k: int) -> None:
    """Turns the counts of all blocks into positions: by digit first, then by block."""
    base = f.pointer(k)

    def digit(d: str, total: list[str]) -> list[str]:
        def block(b: str, total: list[str]) -> list[str]:
            place = address(f, "u32", base, f.op(f"mul i64 {b}, {ENTRIES}"), d)
            count = f.op(f"load i32, ptr {place}")
            f.do(f"store i32 {total[0]}, ptr {place}")
            return [f.op(f"add i32 {total[0]}, {count}")]

        return loop(f, "0", "%n_blocks", "1", [("i32", total[0])], block)

    loop(f, "0", str(ENTRIES), "1", [("i32", "0")], digit)


def radix_move(
    t: Translator, a: ast.expr, i: ast.expr, x: ast.expr, shift: ast.expr, *moved: ast.expr
) -> None:
    """`radix_move(p[a], i, x, p[shift], p[k], v, ...)`: lanes with equal digits keep their order.

    Lanes beyond the end go to the padding of the buffers. Everything is scalar: a vector of
    positions made of scalars in memory would wait for all stores before it.
    """
    t.lane_range(i)
    f, table = t.f, _table(t, a)
    columns = []
    for number in range(0, len(moved), 2):
        code, value = t.typed(moved[number + 1])
        slot = f.slot(code, 1 + number)
        f.do(f"store {f.vector[code]} {value}, ptr {slot}")
        columns.append((code, slot, f.pointer(t.parameter(moved[number]))))
    for lane, digit in enumerate(_digits(t, x, shift)):
        entry = address(f, "u32", table, digit)
        position = f.op(f"load i32, ptr {entry}")
        f.do(f"store i32 {f.op(f'add i32 {position}, 1')}, ptr {entry}")
        position = f.op(f"zext i32 {position} to i64")
        for code, slot, base in columns:
            kind = MEMORY[code]
            one = f.op(f"load {kind}, ptr {address(f, code, slot, str(lane))}")
            f.do(f"store {kind} {one}, ptr {address(f, code, base, position)}")


CALLS.update({"radix_count": radix_count, "radix_move": radix_move})
