"""Prefix reductions, and compression of masks."""

from .arguments import statement
from .atomic import combine
from .conversion import convert
from .ir import BYTES, MEMORY, Function, Value
from .loops import below, store
from .memory import lane_numbers
from .reduction import accumulator, identity, masked_to_identity, starting_value, without_nan
from .translate import Translator

# Number of 32-bit lanes in the widest register: LLVM 22 compresses wider vectors through the stack,
# and the code crashes.
REGISTER = 16


def _last_everywhere(f: Function, acc: str, x: str) -> str:
    return f.shuffle(f.vector[acc], x, "poison", [f.lanes - 1] * f.lanes)


def _shifted(f: Function, acc: str, x: str, by: int, fill: str) -> str:
    """Shifts lanes: lane `k` gets lane `k - by`; the first lanes get the last ones of `fill`."""
    return f.shuffle(f.vector[acc], fill, x, range(f.lanes - by, 2 * f.lanes - by))


def _distances(f: Function) -> list[int]:
    """Returns the distances, doubling each time, at which lanes are combined."""
    return [1 << k for k in range(f.lanes.bit_length() - 1)]


@statement("type reduction parameter lane_range operand flag")
def scan(t: Translator, code: str, op: str, k: int, x: str, inclusive: bool) -> Value:
    """`scan(T, 'add', p[a], i, x, inclusive)`: within a packet in log2(lanes) steps, then continued
    from the previous packets.
    """
    f, acc = t.f, accumulator(code)
    value = without_nan(f, op, acc, masked_to_identity(t, op, acc, convert(f, acc, code, x)))
    neutral, element = f.constant(acc, identity(op, acc)), MEMORY[acc]
    place = f.once(f"%scan{k}.p", f"getelementptr {element}, ptr {f.pointer(k)}, i64 %block")
    start = f.once(f"%scan{k}.m", f"load {element}, ptr {place}, align {BYTES[acc]}")
    if acc == "mask":
        start = f.once(f"%scan{k}.t", f"icmp ne i8 {start}, 0")
    carried = t.carry(f.vector[acc], f.splat_once(f"%scan{k}.v", acc, start))
    for by in _distances(f):
        value = combine(f, op, acc, value, _shifted(f, acc, value, by, neutral))
    result = combine(f, op, acc, value, carried.name)
    # The same bits as the last lane of the result, without its shuffle between one packet and the
    # next.
    carried.end = combine(f, op, acc, _last_everywhere(f, acc, value), carried.name)
    if not inclusive:
        result = _shifted(f, acc, result, 1, carried.name)
    return code, convert(f, code, acc, result)


@statement("type reduction lane_range operand parameter flag")
def scan_blocks(t: Translator, code: str, op: str, x: str, k: int, inclusive: bool) -> Value:
    """`scan_blocks(T, 'add', i, x, p[n], inclusive)`: a lane combines only with lanes of its own
    run.
    """
    f, acc = t.f, accumulator(code)
    value = without_nan(f, op, acc, convert(f, acc, code, x))
    mask, index = f.vector["mask"], f.vector["u32"]
    length = f.splat_once(f"%run{k}", "u32", f.once(f"%run{k}.i", f"trunc i64 {f.word(k)} to i32"))
    # The position of each lane in its run: a block begins with a run.
    first = f.once(f"%run{k}.p", f"urem {index} <{f.types.iota}>, {length}")
    step = f.once(f"%run{k}.s", f"urem {index} {f.constant('u32', f.lanes)}, {length}")
    position = t.carry(index, first)
    place = position.name
    ahead = f.op(f"add {index} {place}, {step}")
    wrapped = f.op(f"sub {index} {ahead}, {length}")
    suffix = f.types.suffix["u32"]
    position.end = f.op(f"call {index} @llvm.umin.{suffix}({index} {ahead}, {index} {wrapped})")
    for by in _distances(f):
        other = combine(f, op, acc, value, _shifted(f, acc, value, by, "poison"))
        within = f.op(f"icmp uge {index} {place}, {f.constant('u32', by)}")
        # A run that began before the packet has no lanes in this packet before the first one.
        lanes_before = f.op(f"icmp uge {index} <{f.types.iota}>, {f.constant('u32', by)}")
        within = f.op(f"and {mask} {within}, {lanes_before}")
        value = f.select(acc, within, other, value)
    carried = t.carry(f.vector[acc], f.constant(acc, identity(op, acc)))
    going_on = f.op(f"icmp ugt {index} {place}, <{f.types.iota}>")
    result = f.select(acc, going_on, combine(f, op, acc, value, carried.name), value)
    carried.end = _last_everywhere(f, acc, result)
    if not inclusive:
        result = _shifted(f, acc, result, 1, carried.name)
        begins = f.op(f"icmp eq {index} {place}, zeroinitializer")
        result = f.select(acc, begins, f.constant(acc, starting_value(op, acc)), result)
    return code, convert(f, code, acc, result)


@statement("parameter pointer lane_range mask")
def compress(t: Translator, k: int, base: str, mask: str) -> None:
    """`compress(p[a], p[k], i, m)`: the indices of a packet are moved together and stored by one
    masked store.
    """
    f = t.f
    place = f.once(f"%compress{k}.p", f"getelementptr i32, ptr {f.pointer(k)}, i64 %block")
    start = f.once(f"%compress{k}.i", f"load i32, ptr {place}, align 4")
    position = t.carry("i64", f.once(f"%compress{k}", f"zext i32 {start} to i64"))
    chosen = f.op(f"and {f.vector['mask']} {mask}, {t.active()}")
    position.end, x = position.name, lane_numbers(f)
    for part in range(0, f.lanes, REGISTER):
        position.end = _compress_part(f, base, position.end, chosen, x, part)


def _compress_part(f: Function, base: str, position: str, mask: str, x: str, part: int) -> str:
    """Stores the lanes of one register that the mask selects; returns the position after them."""
    lanes = min(f.lanes, REGISTER)
    index, mask_type, bits = f"<{lanes} x i32>", f"<{lanes} x i1>", f"i{lanes}"
    if lanes < f.lanes:
        places = range(part, part + lanes)
        x = f.shuffle(f.vector["u32"], x, "poison", places)
        mask = f.shuffle(f.vector["mask"], mask, "poison", places)
    operands = f"{index} {x}, {mask_type} {mask}, {index} poison"
    x = f.op(f"call {index} @llvm.experimental.vector.compress.v{lanes}i32({operands})")
    word = f.op(f"bitcast {mask_type} {mask} to {bits}")
    count = f.op(f"zext {bits} {f.op(f'call {bits} @llvm.ctpop.{bits}({bits} {word})')} to i64")
    place = f.op(f"getelementptr i32, ptr {base}, i64 {position}")
    store(f, "u32", lanes, x, place, below(f, count, lanes))
    return f.op(f"add i64 {position}, {count}")
