"""Prefix reductions, and compression of masks."""

import ast

from .atomic import check_reduction, combine
from .conversion import convert
from .ir import BYTES, MEMORY, Function, KernelError, Value
from .reduction import accumulator, identity, masked_to_identity, without_nan
from .translate import CALLS, Translator

# Lanes of 32 bits in the widest register: LLVM 22 compresses wider vectors through the stack, and
# the code crashes.
REGISTER = 16


def _flag(e: ast.expr) -> bool:
    if type(e) is ast.Constant and type(e.value) is bool:
        return e.value
    raise KernelError(f"{ast.unparse(e)} is neither True nor False")


def _last_everywhere(f: Function, acc: str, x: str) -> str:
    vector = f.vector[acc]
    last = f"<{', '.join([f'i32 {f.lanes - 1}'] * f.lanes)}>"
    return f.op(f"shufflevector {vector} {x}, {vector} poison, <{f.lanes} x i32> {last}")


def _shifted(f: Function, acc: str, x: str, by: int, fill: str) -> str:
    """Lane `k` gets lane `k - by`; the first lanes get the last ones of `fill`."""
    places = ", ".join([f"i32 {f.lanes - by + k}" for k in range(f.lanes)])
    vector = f.vector[acc]
    return f.op(f"shufflevector {vector} {fill}, {vector} {x}, <{f.lanes} x i32> <{places}>")


def _starting_value(op: str, acc: str) -> float:
    # A prefix sum starts from 0.0, not from -0.0, since it is seen.
    return 0 if op == "add" else identity(op, acc)


def scan(
    t: Translator,
    kind: ast.expr,
    op_name: ast.expr,
    a: ast.expr,
    i: ast.expr,
    x: ast.expr,
    inclusive: ast.expr,
) -> Value:
    """`scan(T, 'add', p[a], i, x, inclusive)`: within a packet in log2(lanes) steps, then on from
    what the packets before give.
    """
    t.lane_range(i)
    f, code, op = t.f, t.type(kind), t.text(op_name)
    check_reduction(op, code)
    acc = accumulator(code)
    value = masked_to_identity(t, op, acc, convert(f, acc, code, t.typed(x, code)[1]))
    value = without_nan(f, op, acc, value)
    neutral = f.constant(acc, identity(op, acc))
    k = t.parameter(a)
    element = MEMORY[acc]
    place = f.once(f"%scan{k}.p", f"getelementptr {element}, ptr {f.pointer(k)}, i64 %block")
    start = f.once(f"%scan{k}.m", f"load {element}, ptr {place}, align {BYTES[acc]}")
    if acc == "mask":
        start = f.once(f"%scan{k}.t", f"icmp ne i8 {start}, 0")
    carried = t.carry(f.vector[acc], f.splat_once(f"%scan{k}.v", acc, start))
    by = 1
    while by < f.lanes:
        value = combine(f, op, acc, value, _shifted(f, acc, value, by, neutral), vector=True)
        by *= 2
    result = combine(f, op, acc, value, carried.name, vector=True)
    # The same bits as the last lane of the result, without its shuffle between one packet and the
    # next.
    total = _last_everywhere(f, acc, value)
    carried.end = combine(f, op, acc, total, carried.name, vector=True)
    if not _flag(inclusive):
        result = _shifted(f, acc, result, 1, carried.name)
    return code, convert(f, code, acc, result)


def scan_blocks(
    t: Translator,
    kind: ast.expr,
    op_name: ast.expr,
    i: ast.expr,
    x: ast.expr,
    n: ast.expr,
    inclusive: ast.expr,
) -> Value:
    """`scan_blocks(T, 'add', i, x, p[n], inclusive)`: a lane combines with lanes of its own run
    only.
    """
    t.lane_range(i)
    f, code, op = t.f, t.type(kind), t.text(op_name)
    check_reduction(op, code)
    acc = accumulator(code)
    value = without_nan(f, op, acc, convert(f, acc, code, t.typed(x, code)[1]))
    vector, mask, index = f.vector[acc], f.vector["mask"], f.vector["u32"]
    k = t.parameter(n)
    length = f.splat_once(f"%run{k}", "u32", f.once(f"%run{k}.i", f"trunc i64 {f.word(k)} to i32"))
    # Where each lane stands in its run: a block begins with a run.
    first = f.once(f"%run{k}.p", f"urem {index} <{f.types.iota}>, {length}")
    step = f.once(f"%run{k}.s", f"urem {index} {f.constant('u32', f.lanes)}, {length}")
    position = t.carry(index, first)
    place = position.name
    ahead = f.op(f"add {index} {place}, {step}")
    wrapped = f.op(f"sub {index} {ahead}, {length}")
    suffix = f.types.suffix["u32"]
    position.end = f.op(f"call {index} @llvm.umin.{suffix}({index} {ahead}, {index} {wrapped})")
    by = 1
    while by < f.lanes:
        other = combine(f, op, acc, value, _shifted(f, acc, value, by, "poison"), vector=True)
        within = f.op(f"icmp uge {index} {place}, {f.constant('u32', by)}")
        # A run that began before the packet has no lanes of this packet before its first.
        lanes_before = f.op(f"icmp uge {index} <{f.types.iota}>, {f.constant('u32', by)}")
        within = f.op(f"and {mask} {within}, {lanes_before}")
        value = f.op(f"select {mask} {within}, {vector} {other}, {vector} {value}")
        by *= 2
    carried = t.carry(vector, f.constant(acc, identity(op, acc)))
    going_on = f.op(f"icmp ugt {index} {place}, <{f.types.iota}>")
    joined = combine(f, op, acc, value, carried.name, vector=True)
    result = f.op(f"select {mask} {going_on}, {vector} {joined}, {vector} {value}")
    carried.end = _last_everywhere(f, acc, result)
    if not _flag(inclusive):
        result = _shifted(f, acc, result, 1, carried.name)
        begins = f.op(f"icmp eq {index} {place}, zeroinitializer")
        neutral = f.constant(acc, _starting_value(op, acc))
        result = f.op(f"select {mask} {begins}, {vector} {neutral}, {vector} {result}")
    return code, convert(f, code, acc, result)


def compress(t: Translator, a: ast.expr, p: ast.expr, i: ast.expr, m: ast.expr) -> None:
    """`compress(p[a], p[k], i, m)`: a packet's indices are moved together and stored by one masked
    store.
    """
    t.lane_range(i)
    f, mask = t.f, t.mask(m)
    k, base, lanes = t.parameter(a), f.pointer(t.parameter(p)), f.lanes
    place = f.once(f"%compress{k}.p", f"getelementptr i32, ptr {f.pointer(k)}, i64 %block")
    start = f.once(f"%compress{k}.i", f"load i32, ptr {place}, align 4")
    position = t.carry("i64", f.once(f"%compress{k}", f"zext i32 {start} to i64"))
    chosen = f.op(f"and {f.vector['mask']} {mask}, {t.active()}")
    first = f.splat("u32", f.op("trunc i64 %i to i32"))
    x = f.op(f"add {f.vector['u32']} {first}, <{f.types.iota}>")
    position.end = position.name
    for part in range(0, lanes, REGISTER):
        position.end = _compress_part(f, base, position.end, chosen, x, part)


def _compress_part(f: Function, base: str, position: str, mask: str, x: str, part: int) -> str:
    """Stores what the mask selects among the lanes of one register; gives the position after it."""
    lanes = min(f.lanes, REGISTER)
    index, mask_type, bits = f"<{lanes} x i32>", f"<{lanes} x i1>", f"i{lanes}"
    if lanes < f.lanes:
        places = ", ".join([f"i32 {part + k}" for k in range(lanes)])
        selector = f"<{lanes} x i32> <{places}>"
        x, mask = (
            f.op(f"shufflevector {kind} {v}, {kind} poison, {selector}")
            for kind, v in ((f.vector["u32"], x), (f.vector["mask"], mask))
        )
    operands = f"{index} {x}, {mask_type} {mask}, {index} poison"
    x = f.op(f"call {index} @llvm.experimental.vector.compress.v{lanes}i32({operands})")
    word = f.op(f"bitcast {mask_type} {mask} to {bits}")
    count = f.op(f"zext {bits} {f.op(f'call {bits} @llvm.ctpop.{bits}({bits} {word})')} to i32")
    one = f.op(f"insertelement {index} poison, i32 {count}, i32 0")
    many = f.op(f"shufflevector {index} {one}, {index} poison, {index} zeroinitializer")
    iota = ", ".join([f"i32 {k}" for k in range(lanes)])
    filled = f.op(f"icmp ult {index} <{iota}>, {many}")
    address = f.op(f"getelementptr i32, ptr {base}, i64 {position}")
    where = f"ptr align 4 {address}, {mask_type} {filled}"
    f.do(f"call void @llvm.masked.store.v{lanes}i32.p0({index} {x}, {where})")
    return f.op(f"add i64 {position}, {f.op(f'zext i32 {count} to i64')}")


CALLS.update({"scan": scan, "scan_blocks": scan_blocks, "compress": compress})
