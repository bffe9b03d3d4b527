"""Reductions over all lanes, expanded scatter-reductions, and the finish function that combines
their partial results.
"""

import ast
from collections.abc import Callable

from ...dtype import BY_CODE
from ...op import neutral
from .atomic import check_reduction, combine, updated
from .conversion import convert, from_memory, to_memory
from .ir import BYTES, FLOATS, MEMORY, SCALAR, Function, constant
from .long_sum import LongSum, is_long
from .long_sum import add as add_long
from .loops import loop
from .memory import element_address, in_rows, row_addresses, safe_index, transpose
from .translate import CALLS, Translator


def accumulator(code: str) -> str:
    """The type that a reduction accumulates in."""
    return "f32" if code == "f16" else code


def identity(op: str, code: str) -> float:
    """The neutral element of a reduction."""
    return neutral(op, BY_CODE[code])


def masked_to_identity(t: Translator, op: str, acc: str, value: str) -> str:
    """A vector with the identity in the lanes beyond the end of the range."""
    f = t.f
    vector, neutral = f.vector[acc], f.constant(acc, identity(op, acc))
    return f.op(f"select {f.vector['mask']} {t.active()}, {vector} {value}, {vector} {neutral}")


def without_nan(f: Function, op: str, acc: str, value: str) -> str:
    """A vector with the identity in place of NaN where a reduction passes over NaN: `min` and
    `max`.
    """
    if op not in ("min", "max") or acc not in FLOATS:
        return value
    return combine(f, op, acc, value, f.constant(acc, identity(op, acc)), vector=True)


def accumulate(
    t: Translator, kind: ast.expr, op_name: ast.expr, x: ast.expr
) -> tuple[str, str, Callable[[], str]]:
    """An accumulator that the packet loop carries: the operation, the element type, and what gives
    the total after the last packet.
    """
    f, code, op = t.f, t.type(kind), t.text(op_name)
    check_reduction(op, code)
    acc = accumulator(code)
    value = convert(f, acc, code, t.typed(x, code)[1])
    value = masked_to_identity(t, op, acc, value)
    neutral = f.constant(acc, identity(op, acc))
    carried = t.carry(f.vector[acc], neutral)
    end = carried.end = combine(f, op, acc, value, carried.name, vector=True)
    if not is_long(op, acc):
        return op, code, lambda: end
    total = LongSum(f, acc, len(t.carried))
    carried.resumed = neutral
    t.pauses.append(lambda: total.add(f, end))
    return op, code, lambda: total.value(f)


def reduce(
    t: Translator,
    kind: ast.expr,
    op_name: ast.expr,
    a: ast.expr,
    p: ast.expr,
    i: ast.expr,
    x: ast.expr,
) -> None:
    """`reduce(T, 'add', p[a], p[k], i, x)`."""
    t.lane_range(i)
    op, code, total = accumulate(t, kind, op_name, x)
    t.reductions.append((op, code, t.parameter(a), t.parameter(p), total))


def scan_totals(
    t: Translator, kind: ast.expr, op_name: ast.expr, a: ast.expr, i: ast.expr, x: ast.expr
) -> None:
    """`scan_totals(T, 'add', p[a], i, x)`: a reduction whose partial results `finish` turns into
    starting values.
    """
    t.lane_range(i)
    op, code, total = accumulate(t, kind, op_name, x)
    t.reductions.append((op, code, t.parameter(a), None, total))


def private_copy(t: Translator, code: str, p: ast.expr, a: ast.expr, n: ast.expr) -> str:
    """Where this thread accumulates: thread 0 in the target itself, if it has the type for that,
    the others in copies.
    """
    f, k, acc = t.f, t.parameter(a), accumulator(code)
    base, size, name = f.pointer(k), f.word(t.parameter(n)), f"%copy{k}"
    place = "%thread"
    if acc == code:
        place = f.once(f"{name}.t", "sub i64 %thread, 1")
    offset = f.once(f"{name}.o", f"mul i64 {place}, {size}")
    copy = f.once(f"{name}.c", f"getelementptr {MEMORY[acc]}, ptr {base}, i64 {offset}")
    if acc != code:
        return copy
    first = f.once(f"{name}.f", "icmp eq i64 %thread, 0")
    target = f.pointer(t.parameter(p))
    return f.once(name, f"select i1 {first}, ptr {target}, ptr {copy}")


def note_expansion(
    t: Translator, op: str, code: str, p: ast.expr, a: ast.expr, n: ast.expr
) -> None:
    """Private copies that `finish` will combine, once whatever the number of statements."""
    entry = op, code, t.parameter(p), t.parameter(a), t.parameter(n)
    if entry not in t.expansions:
        t.expansions.append(entry)


def expand(
    t: Translator,
    kind: ast.expr,
    op_name: ast.expr,
    p: ast.expr,
    a: ast.expr,
    n: ast.expr,
    v: ast.expr,
    x: ast.expr,
    m: ast.expr,
) -> None:
    """`scatter_reduce_expand(...)`: unrolled over the lanes without a branch; lanes that are masked
    out combine what changes nothing into element 0.
    """
    f, code, op = t.f, t.type(kind), t.text(op_name)
    check_reduction(op, code)
    acc = accumulator(code)
    copy = private_copy(t, code, p, a, n)
    value = convert(f, acc, code, t.typed(v, code)[1])
    (index_code, index), mask = t.index(x), t.mask(m)
    mask_type, vector, indices = f.vector["mask"], f.vector[acc], f.vector[index_code]
    # NaN where memory may hold one, which the identity would replace.
    undefined = op in ("min", "max") and acc in FLOATS
    neutral = f.constant(acc, float("nan") if undefined else identity(op, acc))
    value = f.op(f"select {mask_type} {mask}, {vector} {value}, {vector} {neutral}")
    index = f.op(f"select {mask_type} {mask}, {indices} {index}, {indices} zeroinitializer")
    value = to_memory(f, acc, value)
    element, memory = MEMORY[acc], f.types.memory[acc]
    for lane in range(f.lanes):
        place = f.op(f"extractelement {indices} {index}, i32 {lane}")
        address = element_address(f, element, copy, index_code, place)
        one = f.op(f"extractelement {memory} {value}, i32 {lane}")
        old = f.op(f"load {element}, ptr {address}, align {BYTES[acc]}")
        new = updated(f, op, acc, one, old)
        f.do(f"store {element} {new}, ptr {address}, align {BYTES[acc]}")
    note_expansion(t, op, code, p, a, n)


def expand_packet(
    t: Translator,
    kind: ast.expr,
    op_name: ast.expr,
    p: ast.expr,
    a: ast.expr,
    n: ast.expr,
    x: ast.expr,
    m: ast.expr,
    *values: ast.expr,
) -> None:
    """`scatter_reduce_packet(...)`: as `expand`, with one load and store per row of values; sums
    of floats."""
    f, code, op = t.f, t.type(kind), t.text(op_name)
    check_reduction(op, code)
    acc = accumulator(code)
    copy = private_copy(t, code, p, a, n)
    (index_code, index), mask = t.index(x), t.mask(m)
    mask_type, vector, indices = f.vector["mask"], f.vector[acc], f.vector[index_code]
    neutral = f.constant(acc, identity(op, acc))
    columns = []
    for v in values:
        value = convert(f, acc, code, t.typed(v, code)[1])
        columns.append(f.op(f"select {mask_type} {mask}, {vector} {value}, {vector} {neutral}"))
    index = safe_index(f, index_code, index, mask)
    note_expansion(t, op, code, p, a, n)
    count = len(values)
    if in_rows(acc, count):
        addresses = row_addresses(f, copy, index_code, index, count)
        rows = [transpose(f, acc, columns[part : part + 4]) for part in range(0, count, 4)]
        for lane, address in enumerate(addresses):
            for part, quads in enumerate(rows):
                first = lane // 4 * 4
                places = ", ".join([f"i32 {first + j}" for j in range(4)])
                one = f.op(
                    f"shufflevector {vector} {quads[lane % 4]}, {vector} poison, "
                    f"<4 x i32> <{places}>"
                )
                place = f.op(f"getelementptr {SCALAR[acc]}, ptr {address}, i64 {4 * part}")
                _add_row(f, acc, 4, place, one)
        return
    array = f"[{count} x {MEMORY[acc]}]"
    for lane in range(f.lanes):
        one = "poison"
        for j, column in enumerate(columns):
            x_j = f.op(f"extractelement {vector} {column}, i32 {lane}")
            one = f.op(
                f"insertelement <{count} x {SCALAR[acc]}> {one}, {SCALAR[acc]} {x_j}, i32 {j}"
            )
        place = f.op(f"extractelement {indices} {index}, i32 {lane}")
        _add_row(f, acc, count, element_address(f, array, copy, index_code, place), one)


def _add_row(f: Function, code: str, count: int, address: str, row: str) -> None:
    """Adds consecutive floats to memory."""
    kind = f"<{count} x {SCALAR[code]}>"
    old = f.op(f"load {kind}, ptr {address}, align {BYTES[code]}")
    total = f.op(f"fadd {kind} {row}, {old}")
    f.do(f"store {kind} {total}, ptr {address}, align {BYTES[code]}")


CALLS.update(
    {
        "reduce": reduce,
        "scan_totals": scan_totals,
        "scatter_reduce_expand": expand,
        "scatter_reduce_packet": expand_packet,
    }
)


def horizontal(f: Function, op: str, code: str, x: str) -> str:
    """The combination of all lanes, as a scalar as it lies in memory: halves are combined until one
    lane is left.
    """
    width = f.lanes // 2
    vector = f.vector[code]
    # The lanes that no longer matter are poison: with indices in their place, LLVM 22 takes some of
    # these shuffles for broadcasts of the wrong element (AVX-512, several reductions in a block).
    while width:
        places = [str(width + k) if k < width else "poison" for k in range(f.lanes)]
        selector = ", ".join([f"i32 {k}" for k in places])
        y = f.op(f"shufflevector {vector} {x}, {vector} poison, <{f.lanes} x i32> <{selector}>")
        x = combine(f, op, code, x, y, vector=True)
        width //= 2
    x = to_memory(f, code, x)
    return f.op(f"extractelement {f.types.memory[code]} {x}, i32 0")


def store_partials(t: Translator) -> None:
    """After the packet loop: the accumulators of the block go to `p[a][block]`."""
    f = t.f
    for op, code, a, _, total in t.reductions:
        acc = accumulator(code)
        value = horizontal(f, op, acc, total())
        address = f.op(f"getelementptr {MEMORY[acc]}, ptr {f.pointer(a)}, i64 %block")
        f.do(f"store {MEMORY[acc]} {value}, ptr {address}, align {BYTES[acc]}")


def _narrow(f: Function, code: str, x: str) -> str:
    return f.op(f"fptrunc float {x} to half") if code == "f16" else x


def _counted(
    f: Function, count: str, start: str, kind: str, body: Callable[[str, str], str]
) -> str:
    """A loop over `0 ... count` that carries one scalar; gives its last value."""
    origin, head, inside, done = f.block, f.new_block(), f.new_block(), f.new_block()
    f.do(f"br label %{head}")
    f.start(head)
    line, k, carried = len(f.lines), f.op(""), f.op("")
    f.branch(f.op(f"icmp slt i64 {k}, {count}"), inside, done)
    f.start(inside)
    result = body(k, carried)
    after = f.op(f"add i64 {k}, 1")
    f.lines[line] = f"{k} = phi i64 [0, %{origin}], [{after}, %{f.block}]"
    f.lines[line + 1] = f"{carried} = phi {kind} [{start}, %{origin}], [{result}, %{f.block}]"
    f.do(f"br label %{head}")
    f.start(done)
    return carried


def _combine_partials(f: Function, op: str, acc: str, a: int, *, is_scan: bool) -> str:
    """The partial results made one; for a scan, each becomes the result of those before it."""
    element, size, base = MEMORY[acc], BYTES[acc], f.pointer(a)

    def place(block: str) -> tuple[str, str]:
        address = f.op(f"getelementptr {element}, ptr {base}, i64 {block}")
        return address, f.op(f"load {element}, ptr {address}, align {size}")

    if is_long(op, acc) and not is_scan:
        none = [(element, "-0.0")] * 2

        def term(block: str, total: list[str]) -> tuple[str, str]:
            return add_long(f, element, total, place(block)[1])

        return loop(f, "0", "%n_blocks", "1", none, term)[0]

    def partial(block: str, total: str) -> str:
        address, one = place(block)
        if is_scan:
            f.do(f"store {element} {total}, ptr {address}, align {size}")
        return combine(f, op, acc, one, total, vector=False)

    # A mask lies in memory as a byte. A prefix sum starts from 0.0, not from -0.0, since it is
    # seen.
    neutral = identity(op, acc)
    if is_scan and op == "add":
        neutral = 0
    start = constant("u8" if acc == "mask" else acc, neutral)
    return _counted(f, "%n_blocks", start, element, partial)


def finish(t: Translator, name: str) -> str:
    """The finish function: combines partial results in the order of blocks, private copies in the
    order of threads.
    """
    f = Function(t.f.lanes)
    for op, code, a, k, _ in t.reductions:
        acc = accumulator(code)
        total = _combine_partials(f, op, acc, a, is_scan=k is None)
        if k is not None:
            narrow = _narrow(f, code, total)
            f.do(f"store {MEMORY[code]} {narrow}, ptr {f.pointer(k)}, align {BYTES[code]}")
    for op, code, k, a, n in t.expansions:
        _finish_expansion(f, op, code, k, a, n)
    for emit in t.finishers:
        emit(f)
    f.do("ret void")
    return f'define void @"{name}"(ptr %p, i64 %n_blocks, i64 %n_threads) #0 {{\n{f.text()}\n}}'


def _finish_expansion(f: Function, op: str, code: str, k: int, a: int, n: int) -> None:
    """Whole packets of the target at a time: buffers have room for a whole last one."""
    acc = accumulator(code)
    size, target, copies = f.word(n), f.pointer(k), f.pointer(a)
    threads = "%n_threads"
    if acc == code:  # that of thread 0 is in the target
        threads = f.once("%n_copies", "sub i64 %n_threads, 1")
    memory, narrow = f.types.memory[acc], f.types.memory[code]
    more = f.op(f"add i64 {size}, {f.lanes - 1}")
    packets = f.op(f"udiv i64 {more}, {f.lanes}")

    def one_packet(number: str, carried: str) -> str:
        j = f.op(f"mul i64 {number}, {f.lanes}")
        address = f.op(f"getelementptr {MEMORY[code]}, ptr {target}, i64 {j}")
        start = f.op(f"load {narrow}, ptr {address}, align {BYTES[code]}")
        start = convert(f, acc, code, from_memory(f, code, start))

        def one_thread(thread: str, total: str) -> str:
            offset = f.op(f"mul i64 {thread}, {size}")
            place = f.op(f"add i64 {offset}, {j}")
            source = f.op(f"getelementptr {MEMORY[acc]}, ptr {copies}, i64 {place}")
            x = from_memory(f, acc, f.op(f"load {memory}, ptr {source}, align {BYTES[acc]}"))
            return updated(f, op, acc, x, total, vector=True)

        total = _counted(f, threads, start, f.vector[acc], one_thread)
        total = to_memory(f, code, convert(f, code, acc, total))
        f.do(f"store {narrow} {total}, ptr {address}, align {BYTES[code]}")
        return carried

    _counted(f, packets, "0", "i64", one_packet)
