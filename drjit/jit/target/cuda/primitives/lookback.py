"""What tiles learn about those before them, in a single pass over memory: each tells its total as
soon as it has it, and later the total of all tiles up to it, which it finds by looking back. D.
Merrill, M. Garland, "Single-pass parallel prefix scan with decoupled look-back" (2016).

A value of up to 32 bits and what it is are told in one word, so no fence is needed. Blocks take
tiles in the order in which they start: those before a tile are always under way.
"""

from typing import Any

from ...simd.ir import BYTES
from ...simd.values import Flag, Value, Word
from ..function import WARP
from ..threads import of_warp
from ..values import GpuPointer, as_integer
from .entry import EntryCode

# What a word tells, in its upper half; 0 until there is something.
_OWN, _ALL = 1, 2

TICKET = 0
"""The word that counts the tiles that were taken; those of the tiles begin after `FIRST`."""
FIRST = 2


def next_tile(c: EntryCode, ticket: GpuPointer) -> Word:
    """Returns the number of the block's tile."""
    room = c.shared("ticket", "u32", 1)
    for _ in c.when(c.is_first):
        room.store(ticket.add(c.number("u64", 1)).cast("u32"))
    c.f.barrier()
    return room.load().cast("i64")


def word(x: Value, status: Any) -> Value:
    """Returns a value of up to 32 bits with what it is."""
    return as_integer(x).cast("u64") | status << 32


def value(code: str, w: Value) -> Value:
    """Returns the value in a word."""
    return w.cast(f"u{8 * BYTES[code]}").bits(code)


def tell(place: GpuPointer, w: Value) -> None:
    """Writes a word that others wait for."""
    place.f.do(f"store atomic i64 {w}, ptr {place}{place.f.scope} monotonic, align 8")


def told(place: GpuPointer) -> Value:
    """Reads a word that another block writes."""
    f = place.f
    return Value(f, "u64", 0, f.op(f"load atomic i64, ptr {place}{f.scope} monotonic, align 8"))


def before_tile(
    c: EntryCode, op: str, words: GpuPointer, tile: Word, number: Word, total: Value, nothing: Value
) -> Value:
    """Returns the reduction of the `number` tiles before this one, given its total, in all threads.
    A warp looks at as many tiles at once. The reduction must be one of integers, of which that of
    no elements is `nothing`."""
    room = c.shared("before", total.code, 1)
    own = words + tile + FIRST
    for _ in c.when(c.warp == 0):
        is_start = number == 0
        for _ in c.when(c.is_first):
            tell(own, word(total, c.select(is_start, c.number("u64", _ALL), _OWN)))
        state = [c.word(1), is_start, nothing]
        for _ in c.during(lambda v: ~v[1], state):
            first, _, later = state
            back = first + c.lane.cast("i64")
            # Before the first tile there is nothing, which is known.
            beyond = back > number
            back = c.select(beyond, number, back)
            w = _polled(c, own + (c.word(0) - back))
            # The tiles up to the nearest one that knows all before it.
            known = c.ballot((w >= _ALL << 32) | beyond)
            nearest = c.call("cttz", known, "i1 false")
            x = c.select((c.lane <= nearest) & ~beyond, value(total.code, w), nothing)
            x = c.combine(op, later, of_warp(c, op, x))
            state[:] = [first + WARP, known != 0, x]
        before = state[2]
        for _ in c.when(c.is_first):
            room.store(before)
            tell(own, word(c.combine(op, total, before), _ALL))
    c.f.barrier()
    return room.load()


def _polled(c: EntryCode, place: GpuPointer) -> Value:
    """Returns the words that threads of a warp wait for, once all of them are there."""
    state: list[Any] = [c.number("u64", 0), c.flag(True)]
    for _ in c.during(lambda v: v[1], state):
        w = told(place)
        waits: Flag = w < _OWN << 32
        state[:] = [w, c.any(waits)]
    return state[0]
