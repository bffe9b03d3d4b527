"""Reductions over all lanes, expanded scatter-reductions, and the finish function, which combines
their partial results.
"""

from collections.abc import Callable

from ...ir import op as ops
from ...ir.dtype import BY_CODE
from .arguments import statement
from .atomic import combine, updated
from .compensated_sum import CompensatedSum, add_long, is_long
from .conversion import convert, first_element, from_memory, to_memory
from .ir import BYTES, FLOATS, MEMORY, SCALAR, Function, Operand, constant
from .loops import address, load, loop, store
from .memory import element_address, in_rows, row_addresses, safe_index, transpose
from .translate import Translator


def accumulator(code: str) -> str:
    """Returns the type in which a reduction accumulates."""
    return BY_CODE[code].accumulator.code


def neutral_number(op: str, code: str) -> float:
    """Returns the neutral number of a reduction: see `op.neutral`."""
    return ops.neutral(op, BY_CODE[code])


def starting_value(op: str, code: str) -> float:
    """Returns the visible start of a prefix reduction: 0.0 for a sum, not -0.0."""
    return ops.starting_value(op, BY_CODE[code])


def masked_to_neutral(t: Translator, op: str, acc: str, value: str) -> str:
    """Returns a vector with the neutral number in the lanes beyond the end of the range."""
    return t.f.select(acc, t.active(), value, t.f.constant(acc, neutral_number(op, acc)))


def without_nan(f: Function, op: str, acc: str, value: str) -> str:
    """Returns a vector with NaN replaced by the neutral number, for the reductions that ignore NaN:
    `min` and `max`.
    """
    if op not in ("min", "max") or acc not in FLOATS:
        return value
    return combine(f, op, acc, value, f.constant(acc, neutral_number(op, acc)))


def _carried_total(t: Translator, code: str, op: str, x: str) -> Callable[[], str]:
    """Creates an accumulator carried by the packet loop; returns a function that computes the total
    after the last packet."""
    f, acc = t.f, accumulator(code)
    value = masked_to_neutral(t, op, acc, convert(f, acc, code, x))
    neutral = f.constant(acc, neutral_number(op, acc))
    carried = t.carry(f.vector[acc], neutral)
    end = carried.end = combine(f, op, acc, value, carried.name)
    if not is_long(op, acc):
        return lambda: end
    total = CompensatedSum(f, acc, len(t.carried))
    carried.resumed = neutral
    t.pauses.append(lambda: total.add(f, end))
    return lambda: total.value(f)


@statement("type reduction parameter parameter lane_range operand")
def reduce(t: Translator, code: str, op: str, a: int, k: int, x: str) -> None:
    """`reduce(T, 'add', p[a], p[k], i, x)`."""
    t.reductions.append((op, code, a, k, _carried_total(t, code, op, x)))


@statement("type reduction parameter lane_range operand")
def scan_totals(t: Translator, code: str, op: str, a: int, x: str) -> None:
    """`scan_totals(T, 'add', p[a], i, x)`: a reduction whose partial results `finish` turns into
    starting values.
    """
    t.reductions.append((op, code, a, None, _carried_total(t, code, op, x)))


def private_copy(t: Translator, op: str, code: str, k: int, a: int, n: int) -> str:
    """Returns the address where this thread accumulates: thread 0 in the target itself, if that has
    the right type, the others in copies. `finish` combines these, once regardless of the number of
    statements.
    """
    if (op, code, k, a, n) not in t.expansions:
        t.expansions.append((op, code, k, a, n))
    f, acc, name = t.f, accumulator(code), f"%copy{a}"
    base, size = f.pointer(a), f.word(n)
    place = "%thread" if acc != code else f.once(f"{name}.t", "sub i64 %thread, 1")
    offset = f.once(f"{name}.o", f"mul i64 {place}, {size}")
    copy = f.once(f"{name}.c", f"getelementptr {MEMORY[acc]}, ptr {base}, i64 {offset}")
    if acc != code:
        return copy
    first = f.once(f"{name}.f", "icmp eq i64 %thread, 0")
    return f.once(name, f"select i1 {first}, ptr {f.pointer(k)}, ptr {copy}")


@statement("type reduction parameter parameter parameter operand index mask")
def scatter_reduce_expand(
    t: Translator, code: str, op: str, k: int, a: int, n: int, x: str, index: Operand, mask: str
) -> None:
    """`scatter_reduce_expand(...)`: unrolled over the lanes without a branch; masked-out lanes
    combine a number that is ignored into element 0.
    """
    f, acc = t.f, accumulator(code)
    element, copy = MEMORY[acc], private_copy(t, op, code, k, a, n)
    ignored = f.constant(acc, ops.ignored(op, BY_CODE[acc]))
    value = to_memory(f, acc, f.select(acc, mask, convert(f, acc, code, x), ignored))
    kind, places = safe_index(f, index, mask)
    for lane in range(f.lanes):
        place = f.op(f"extractelement {f.vector[kind]} {places}, i32 {lane}")
        at = element_address(f, element, copy, kind, place)
        one = f.op(f"extractelement {f.types.memory[acc]} {value}, i32 {lane}")
        old = f.op(f"load {element}, ptr {at}, align {BYTES[acc]}")
        new = updated(f, op, acc, one, old, element)
        f.do(f"store {element} {new}, ptr {at}, align {BYTES[acc]}")


@statement("type reduction parameter parameter parameter index mask *operand")
def scatter_reduce_packet(
    t: Translator, code: str, op: str, k: int, a: int, n: int, index: Operand, mask: str, *xs: str
) -> None:
    """`scatter_reduce_packet(...)`: like `scatter_reduce_expand`, with one load and store per row
    of values; sums of floats only.
    """
    f, acc, count = t.f, accumulator(code), len(xs)
    copy, neutral = private_copy(t, op, code, k, a, n), f.constant(acc, neutral_number(op, acc))
    columns = [f.select(acc, mask, convert(f, acc, code, x), neutral) for x in xs]
    index, vector = safe_index(f, index, mask), f.vector[acc]
    if in_rows(acc, count):
        addresses = row_addresses(f, copy, index, count)
        rows = [transpose(f, acc, columns[part : part + 4]) for part in range(0, count, 4)]
        for lane, at in enumerate(addresses):
            for part, quads in enumerate(rows):
                first = lane // 4 * 4
                one = f.shuffle(vector, quads[lane % 4], "poison", range(first, first + 4))
                _add_row(f, acc, 4, address(f, acc, at, 4 * part), one)
        return
    array, row = f"[{count} x {MEMORY[acc]}]", f"<{count} x {SCALAR[acc]}>"
    for lane in range(f.lanes):
        one = "poison"
        for j, column in enumerate(columns):
            x = f.op(f"extractelement {vector} {column}, i32 {lane}")
            one = f.op(f"insertelement {row} {one}, {SCALAR[acc]} {x}, i32 {j}")
        place = f.op(f"extractelement {f.vector[index[0]]} {index[1]}, i32 {lane}")
        _add_row(f, acc, count, element_address(f, array, copy, index[0], place), one)


def _add_row(f: Function, code: str, count: int, place: str, row: str) -> None:
    """Adds consecutive floats to memory."""
    old = load(f, code, count, place)
    store(f, code, count, f.op(f"fadd <{count} x {SCALAR[code]}> {row}, {old}"), place)


def horizontal(f: Function, op: str, code: str, x: str) -> str:
    """Reduces all lanes to a scalar in its memory representation: halves are combined until one
    lane is left.
    """
    width = f.lanes // 2
    # Lanes that no longer matter are poison: with indices in their place, LLVM 22 mistakes some of
    # these shuffles for broadcasts of the wrong element (AVX-512, several reductions in a block).
    while width:
        places = [width + k if k < width else "poison" for k in range(f.lanes)]
        y = f.shuffle(f.vector[code], x, "poison", places)
        x = combine(f, op, code, x, y)
        width //= 2
    return first_element(f, code, x)


def store_partials(t: Translator) -> None:
    """Stores the accumulators of the block in `p[a][block]`, after the packet loop."""
    f = t.f
    for op, code, a, _, total in t.reductions:
        acc = accumulator(code)
        value = horizontal(f, op, acc, total())
        place = f.op(f"getelementptr {MEMORY[acc]}, ptr {f.pointer(a)}, i64 %block")
        f.do(f"store {MEMORY[acc]} {value}, ptr {place}, align {BYTES[acc]}")


def _combine_partials(f: Function, op: str, acc: str, a: int, *, is_scan: bool) -> str:
    """Combines the partial results; for a scan, each is replaced by the combination of the previous
    ones."""
    element, size, base = MEMORY[acc], BYTES[acc], f.pointer(a)
    is_sum = is_long(op, acc) and not is_scan
    # A mask is a byte in memory.
    first = starting_value(op, acc) if is_scan else neutral_number(op, acc)
    start = constant("u8" if acc == "mask" else acc, first)
    with loop(f, 0, "%n_blocks", 1, [(element, start)] * (1 + is_sum)) as (block, total):
        place = f.op(f"getelementptr {element}, ptr {base}, i64 {block}")
        one = f.op(f"load {element}, ptr {place}, align {size}")
        if is_scan:
            f.do(f"store {element} {total[0]}, ptr {place}, align {size}")
        if is_sum:
            total[:] = add_long(f, element, total, one)
        else:
            total[0] = combine(f, op, acc, one, total[0], element)
    return total[0]


def finish(t: Translator, name: str) -> str:
    """Emits the finish function, which combines partial results in the order of blocks, and private
    copies in the order of threads.
    """
    f = t.module.new_function(t.f.lanes)
    for op, code, a, k, _ in t.reductions:
        total = _combine_partials(f, op, accumulator(code), a, is_scan=k is None)
        if k is not None:
            total = f.op(f"fptrunc float {total} to half") if code == "f16" else total
            f.do(f"store {MEMORY[code]} {total}, ptr {f.pointer(k)}, align {BYTES[code]}")
    for expansion in t.expansions:
        _finish_expansion(f, *expansion)
    for emit in t.finishers:
        emit(f)
    f.do("ret void")
    return f'define void @"{name}"(ptr %p, i64 %n_blocks, i64 %n_threads) #0 {{\n{f.text()}\n}}'


def _finish_expansion(f: Function, op: str, code: str, k: int, a: int, n: int) -> None:
    """Combines private copies into the target, whole packets at a time: buffers have room for a
    whole last one."""
    acc = accumulator(code)
    size, target, copies = f.word(n), f.pointer(k), f.pointer(a)
    threads = "%n_threads"
    if acc == code:  # thread 0 has accumulated in the target
        threads = f.once("%n_copies", "sub i64 %n_threads, 1")
    with loop(f, 0, size, f.lanes) as (j, _):
        place = address(f, code, target, j)
        start = convert(f, acc, code, from_memory(f, code, load(f, code, f.lanes, place)))
        with loop(f, 0, threads, 1, [(f.vector[acc], start)]) as (thread, total):
            source = address(f, acc, copies, f.op(f"mul i64 {thread}, {size}"), j)
            x = from_memory(f, acc, load(f, acc, f.lanes, source))
            total[0] = updated(f, op, acc, x, total[0])
        store(f, code, f.lanes, to_memory(f, code, convert(f, code, acc, total[0])), place)
