"""Functions in the language of native code, for `test_native_language`."""

from drjit.jit.native import objects
from drjit.jit.native.language import (
    Word,
    add,
    address,
    call,
    cas,
    external,
    inline,
    library,
    load,
    put,
    room,
    store,
    word,
)  # fmt: skip
from drjit.jit.native.objects import Array, Structure, array

LOW = 15
LIBRARY = {"labs": "i64(i64)"}


class Drawer(Structure):
    _pad: Word
    sheets: Word


class Desk(Structure):
    last: Word
    open: Word
    drawers: Array[Drawer] = array(Drawer, 4)


def divisor(x: Word, y: Word) -> Word:
    while y != 0:
        rest = x - x // y * y
        x = y
        y = rest
    return x


def first_above(limit: Word) -> Word:
    k = 0
    while 1:
        if k * k > limit and not k == 3:  # noqa: SIM201
            break
        k = k + 1
    return k


def bits(x: Word) -> Word:
    return x << 4 | x >> 2 & LOW


def smallest(x: Word, y: Word) -> Word:
    if x < y or x == y:
        return min(x, y)
    else:
        return max(y, -x)


def is_among(x: Word) -> Word:
    return x in (2, 3, LOW)


def is_apart(x: Word) -> Word:
    return x not in (2, 3, LOW)


def drawer_of(desk: Desk, k: Word) -> Drawer:
    return desk.drawers[k]


def count(desk: Desk, k: Word, n: Word) -> Word:
    drawer = drawer_of(desk, k)
    before = add(drawer.sheets, n, "seq_cst")
    desk.last = drawer.sheets
    store(desk.open, k, "release")
    return before


def exchange(desk: Desk, old: Word, new: Word) -> Word:
    if cas(desk.open, old, new, "acq_rel", "acquire"):
        return 1
    return 10 + load(desk.open, "acquire")


def noted(desk: Desk, x: Word) -> Word:
    """Gives x, and leaves a trace."""
    desk.last = desk.last * 10 + x
    return x


def first_of(desk: Desk, x: Word, y: Word) -> Word:
    if noted(desk, x) and noted(desk, y):
        return 1
    return noted(desk, x) or noted(desk, y + 2)


@inline
def squared(x: Word) -> Word:
    return x * x


def sum_of_squares(x: Word, y: Word) -> Word:
    return squared(x) + squared(y)


def sum_of_odd(first: Word, last: Word, most: Word) -> Word:
    total = 0
    for k in range(first, last):
        last = 0  # the limit is that of the beginning
        for _ in range(k & 1):
            total = total + k
        if total > most:
            break
    return total


def place_of_digits() -> Word:
    return objects.DIGIT + LOW


def rename(desk: Desk, x: Word) -> Word:
    put(address(desk.open), x)
    return desk.open


def place_of_abs() -> Word:
    return external("labs")


def absolute(x: Word) -> Word:
    return library("labs", x)


def write(place: Word, at: Word, x: Word) -> Word:
    place[0] = at
    place[at + 1] = x


def through(f: Word, x: Word) -> Word:
    time = room(2)
    put(time + 8, x)
    return call("i32(i32, i64)", f, word(time + 8), 5)
