"""Prefix reductions, and compression of masks."""

from functools import partial
from typing import Any

from .arguments import statement
from .conversion import convert
from .ir import BYTES, MEMORY, Function, Operand
from .memory import lane_numbers
from .reduction import accumulator, masked_to_neutral, neutral_number, starting_value, without_nan
from .translate import Translator
from .values import Code, Mask, Pointer, Vector, Word

# Number of 32-bit lanes in the widest register: LLVM 22 compresses wider vectors through the stack,
# and the code crashes.
REGISTER = 16

# Number of lanes that are compressed at a time without an instruction for it, and a constant of the
# module with the positions of the bits of every number with so many bits.
TABLE_LANES = 8
_POSITIONS = "@positions"


@statement("type reduction parameter lane_range operand flag")
def scan(t: Translator, code: str, op: str, k: int, x: str, inclusive: bool) -> Operand:
    """`scan(T, 'add', p[a], i, x, inclusive)`: within a packet in log2(lanes) steps, then continued
    from the previous packets.
    """
    f, acc = t.f, accumulator(code)
    value = without_nan(f, op, acc, masked_to_neutral(t, op, acc, convert(f, acc, code, x)))
    element = MEMORY[acc]
    place = f.once(f"%scan{k}.p", f"getelementptr {element}, ptr {f.pointer(k)}, i64 %block")
    start = f.once(f"%scan{k}.m", f"load {element}, ptr {place}, align {BYTES[acc]}")
    if acc == "mask":
        start = f.once(f"%scan{k}.t", f"icmp ne i8 {start}, 0")
    carried = t.carry(f.vector[acc], f.splat_once(f"%scan{k}.v", acc, start))
    neutral = _lanes(f, acc, f.constant(acc, neutral_number(op, acc)))
    result, end = scan_packet(
        Code(f), op, _lanes(f, acc, value), _lanes(f, acc, carried.name), neutral, inclusive
    )
    carried.end = end.name
    return code, convert(f, code, acc, result.name)


@statement("type reduction lane_range operand parameter flag")
def scan_blocks(t: Translator, code: str, op: str, x: str, k: int, inclusive: bool) -> Operand:
    """`scan_blocks(T, 'add', i, x, p[n], inclusive)`: a lane combines only with lanes of its own
    run.
    """
    f, acc, c = t.f, accumulator(code), Code(t.f)
    value = _lanes(f, acc, without_nan(f, op, acc, convert(f, acc, code, x)))
    index = f.vector["u32"]
    length = f.splat_once(f"%run{k}", "u32", f.once(f"%run{k}.i", f"trunc i64 {f.word(k)} to i32"))
    # The position of each lane in its run: a block begins with a run.
    first = f.once(f"%run{k}.p", f"urem {index} <{f.types.iota}>, {length}")
    step = f.once(f"%run{k}.s", f"urem {index} {f.constant('u32', f.lanes)}, {length}")
    back = f.once(f"%run{k}.b", f"sub {index} {step}, {length}")
    position = t.carry(index, first)
    place = _lanes(f, "u32", position.name)
    position.end = next_places(c, place, _lanes(f, "u32", step), _lanes(f, "u32", back)).name
    carried = t.carry(f.vector[acc], f.constant(acc, neutral_number(op, acc)))
    begin = None if inclusive else _lanes(f, acc, f.constant(acc, starting_value(op, acc)))
    result, end = scan_runs(c, op, value, place, _lanes(f, acc, carried.name), begin)
    carried.end = end.name
    return code, convert(f, code, acc, result.name)


@statement("parameter pointer lane_range mask")
def compress(t: Translator, k: int, base: str, mask: str) -> None:
    """`compress(p[a], p[k], i, m)`: the indices of a packet are moved together and stored at once,
    beyond them unless another block begins there."""
    f = t.f
    place = f.once(f"%compress{k}.p", f"getelementptr i32, ptr {f.pointer(k)}, i64 %block")
    start = f.once(f"%compress{k}.i", f"load i32, ptr {place}, align 4")
    after = f.once(f"%compress{k}.q", f"getelementptr i32, ptr {place}, i64 1")
    after = f.once(f"%compress{k}.j", f"load i32, ptr {after}, align 4")
    end = f.once(f"%compress{k}.e", f"zext i32 {after} to i64")
    position = t.carry("i64", f.once(f"%compress{k}", f"zext i32 {start} to i64"))
    chosen = _lanes(f, "mask", mask) & _lanes(f, "mask", t.active())
    c, x, to = Code(f), _lanes(f, "u32", lane_numbers(f)), Pointer(f, "u32", base)
    table = None
    if not f.machine.has_gathers:
        table = Pointer(f, "u8", _POSITIONS)
        numbers = ", ".join([f"i8 {n}" for row in positions() for n in row])
        kind = f"[{TABLE_LANES << TABLE_LANES} x i8]"
        t.module.globals[_POSITIONS] = f"{_POSITIONS} = private constant {kind} [{numbers}]"
    from_here, end_of_block = c.word(position.name), c.word(end)
    position.end = compress_packet(c, to, from_here, end_of_block, x, chosen, table).name


def positions() -> list[list[int]]:
    """Returns the positions of the bits of each number of 8 bits, followed by zeros."""
    rows = []
    for number in range(1 << TABLE_LANES):
        row = [k for k in range(TABLE_LANES) if number >> k & 1]
        rows.append(row + [0] * (TABLE_LANES - len(row)))
    return rows


def _lanes(f: Function, code: str, name: str) -> Any:
    """Returns the lanes of a packet as a vector or mask."""
    return Vector(f, code, f.lanes, name)


def _distances(lanes: int) -> list[int]:
    """Returns the distances, doubling each time, at which lanes are combined."""
    return [1 << k for k in range(lanes.bit_length() - 1)]


def scan_packet(
    c: Code, op: str, value: Any, carried: Any, neutral: Any, inclusive: bool
) -> tuple[Any, Any]:
    """Returns the prefixes of a packet that continues those before it, whose reduction is `carried`
    in all lanes, and what the next packet continues."""
    for by in _distances(len(value)):
        value = c.combine(op, value, c.shifted(value, by, neutral))
    result = c.combine(op, value, carried)
    # The same bits as the last lane of the result, without its shuffle between one packet and the
    # next.
    end = c.combine(op, c.last_everywhere(value), carried)
    return result if inclusive else c.shifted(result, 1, carried), end


def next_places(c: Code, place: Vector, step: Vector, back: Vector) -> Vector:
    """Returns the positions of the lanes of the next packet in their runs: `step` ahead, unless
    that is beyond the end of the run; `back` is `step` less the length of a run, as an unsigned
    number."""
    return c.combine("min", c.combine("add", place, step), c.combine("add", place, back))


def scan_runs(
    c: Code, op: str, value: Any, place: Vector, carried: Any, begin: Any = None
) -> tuple[Any, Any]:
    """The same as `scan_packet` for runs of lanes, which have positions `place` in these. With
    `begin`, prefixes exclude their lane, and those of the first lanes of runs are that."""
    lanes = c.lane_numbers(len(value))
    for by in _distances(len(value)):
        other = c.combine(op, value, c.shifted(value, by))
        distance = c.full("u32", len(value), by)
        # A run that began before the packet has no lanes in this packet before the first one.
        within = (place >= distance) & (lanes >= distance)
        value = c.select(within, other, value)
    result = c.select(place > lanes, c.combine(op, value, carried), value)
    end = c.last_everywhere(result)
    if begin is not None:
        first = c.zeros("u32", len(value)) >= place
        result = c.select(first, begin, c.shifted(result, 1, carried))
    return result, end


def compress_packet(
    c: Code, to: Pointer, position: Word, end: Word, x: Vector, mask: Mask, table: Pointer | None
) -> Word:
    """Stores the lanes that a mask selects from a position on; returns the position after them.
    Memory between that and `end` may be overwritten. With a table of the positions of bits, `x`
    counts up."""
    lanes = min(len(x), REGISTER if table is None else TABLE_LANES)
    for first in range(0, len(x), lanes):
        some, which = c.part(x, first, lanes), c.part(mask, first, lanes)
        found, count = c.chosen(some, which) if table is None else c.counted(some, which, table)
        place, fits = to + position, end >= position + lanes
        few = partial(place.store, found, c.below(count, lanes))
        c.choose(fits, partial(place.store, found), few)
        position = position + count
    return position
