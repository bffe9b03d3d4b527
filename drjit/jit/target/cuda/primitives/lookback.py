"""Tiles that know what those before them have found, in a single pass over memory: each tells its
total as soon as it has it, and then the total of all up to it, once it has found that by looking
back. D. Merrill, M. Garland, "Single-pass parallel prefix scan with decoupled look-back" (2016).

Values of up to 32 bits are told in one word with what they are, so no fence is needed. Blocks take
tiles in the order in which they start: those before a tile are always under way.
"""

from ...simd.atomic import combine
from ...simd.ir import BITS, MEMORY
from ...simd.loops import address, during, when
from ..function import WARP, shared
from ..threads import (
    is_first,
    lane_of_warp,
    load_shared,
    neutral,
    of_warp,
    store_shared,
    warp_of_block,
)
from .entry import EntryFunction

# What a word tells, in its upper half; 0 until there is something.
_OWN, _ALL = 1, 2

TICKET = 0
"""The word that counts the tiles that were taken; those of the tiles begin after `FIRST`."""
FIRST = 2


def next_tile(f: EntryFunction, words: str, at: int = TICKET) -> str:
    """Returns the number of the block's tile as `i64`."""
    room = shared(f, "@ticket", 1, "u32")
    with when(f, is_first(f)):
        place = address(f, "u64", words, at)
        number = f.op(f"atomicrmw add ptr {place}, i64 1 monotonic")
        store_shared(f, "u32", f.op(f"trunc i64 {number} to i32"), room, 0)
    f.barrier()
    return f.op(f"zext i32 {load_shared(f, 'u32', room, 0)} to i64")


def word(f: EntryFunction, code: str, x: str, status: int | str) -> str:
    """Returns a value of up to 32 bits with what it is."""
    bits = f"i{max(BITS[code], 8)}"
    if MEMORY[code] != bits:
        x = f.op(f"bitcast {MEMORY[code]} {x} to {bits}")
    x = f.op(f"zext {bits} {x} to i64")
    return f.op(f"or i64 {x}, {f.op(f'shl i64 {status}, 32')}")


def value(f: EntryFunction, code: str, w: str) -> str:
    """Returns the value in a word."""
    bits = f"i{max(BITS[code], 8)}"
    x = f.op(f"trunc i64 {w} to {bits}")
    return x if MEMORY[code] == bits else f.op(f"bitcast {bits} {x} to {MEMORY[code]}")


def tell(f: EntryFunction, place: str, w: str) -> None:
    """Writes a word that others wait for."""
    f.do(f"store atomic i64 {w}, ptr {place} monotonic, align 8")


def told(f: EntryFunction, place: str) -> str:
    """Reads a word that another block writes."""
    return f.op(f"load atomic i64, ptr {place} monotonic, align 8")


def before_tile(
    f: EntryFunction, op: str, acc: str, words: str, tile: str, number: str, total: str
) -> str:
    """Returns the reduction of the `number` tiles before this one, given its total, in all threads.
    A warp looks at as many tiles at once. The reduction must be one of integers."""
    kind, nothing = MEMORY[acc], neutral(op, acc)
    room = shared(f, "@before", 1, acc)
    own = address(f, "u64", words, tile, FIRST)
    with when(f, f.op(f"icmp eq i32 {warp_of_block(f)}, 0")):
        is_start = f.op(f"icmp eq i64 {number}, 0")
        with when(f, is_first(f)):
            status = f.op(f"select i1 {is_start}, i64 {_ALL}, i64 {_OWN}")
            tell(f, own, word(f, acc, total, status))
        lane = f.op(f"zext i32 {lane_of_warp(f)} to i64")
        start = [("i64", "1"), ("i1", is_start), (kind, nothing)]
        with during(f, lambda v: f.op(f"xor i1 {v[1]}, true"), start) as state:
            first, _, later = state
            back = f.op(f"add i64 {first}, {lane}")
            # Before the first tile there is nothing, which is known.
            beyond = f.op(f"icmp ugt i64 {back}, {number}")
            back = f.op(f"select i1 {beyond}, i64 {number}, i64 {back}")
            place = address(f, "u64", own, f.op(f"sub i64 0, {back}"))
            with during(f, lambda v: v[1], [("i64", "0"), ("i1", "true")]) as polled:
                w = told(f, place)
                polled[:] = [w, f.vote("any", f.op(f"icmp ult i64 {w}, {_OWN << 32}"))]
            w = polled[0]
            is_known = f.op(f"or i1 {f.op(f'icmp uge i64 {w}, {_ALL << 32}')}, {beyond}")
            # The tiles up to the nearest one that knows all before it.
            known = f.ballot(is_known)
            nearest = f.op(f"call i32 @llvm.cttz.i32(i32 {known}, i1 false)")
            counts = f.op(f"icmp ule i32 {lane_of_warp(f)}, {nearest}")
            counts = f.op(f"and i1 {counts}, {f.op(f'xor i1 {beyond}, true')}")
            x = f.op(f"select i1 {counts}, {kind} {value(f, acc, w)}, {kind} {nothing}")
            x = combine(f, op, acc, later, of_warp(f, op, acc, x), kind)
            first = f.op(f"add i64 {first}, {WARP}")
            state[:] = [first, f.op(f"icmp ne i32 {known}, 0"), x]
        before = state[2]
        with when(f, is_first(f)):
            store_shared(f, acc, before, room, 0)
            tell(f, own, word(f, acc, combine(f, op, acc, total, before, kind), _ALL))
    f.barrier()
    return load_shared(f, acc, room, 0)
