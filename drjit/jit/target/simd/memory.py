"""Lanes and memory: loads, stores, gathers, scatters and atomic operations."""

import ast
from collections.abc import Callable, Sequence

from .conversion import from_memory, to_memory
from .ir import BITS, BYTES, FLOATS, MEMORY, SCALAR, Function, KernelError, Value
from .translate import ACTIVE, CALLS, Deferred, Translator


def lane(t: Translator, i: ast.expr) -> Value:
    """`lane(i)`."""
    t.lane_range(i)
    f = t.f
    first = f.splat("u32", f.op("trunc i64 %i to i32"))
    return "u32", f.op(f"add {f.vector['u32']} {first}, <{f.types.iota}>")


def active(t: Translator, i: ast.expr) -> Value:
    """`active(i)`."""
    t.lane_range(i)
    return "mask", t.active()


def load(t: Translator, kind: ast.expr, p: ast.expr, i: ast.expr) -> Value:
    """`load(T, p[k], i)`."""
    t.lane_range(i)
    f, code = t.f, t.type(kind)
    address = f.op(f"getelementptr {MEMORY[code]}, ptr {t.pointer(p)}, i64 %i")
    x = f.op(f"load {f.types.memory[code]}, ptr {address}, align {BYTES[code]}")
    return code, from_memory(f, code, x)


def store(t: Translator, kind: ast.expr, p: ast.expr, i: ast.expr, x: ast.expr) -> None:
    """`store(T, p[k], i, x)`."""
    t.lane_range(i)
    f, code = t.f, t.type(kind)
    value = to_memory(f, code, t.typed(x, code)[1])
    address = f.op(f"getelementptr {MEMORY[code]}, ptr {t.pointer(p)}, i64 %i")
    f.do(f"store {f.types.memory[code]} {value}, ptr {address}, align {BYTES[code]}")


def stream(t: Translator, kind: ast.expr, p: ast.expr, i: ast.expr, x: ast.expr) -> None:
    """`stream(T, p[k], i, x)`: whole packets at multiples of their size, up to a cache line."""
    t.lane_range(i)
    f, code = t.f, t.type(kind)
    value = to_memory(f, code, t.typed(x, code)[1])
    address = f.op(f"getelementptr {MEMORY[code]}, ptr {t.pointer(p)}, i64 %i")
    align = min(64, f.lanes * BYTES[code])
    f.do(f"store {f.types.memory[code]} {value}, ptr {address}, align {align}, !nontemporal !2")


def broadcast(t: Translator, kind: ast.expr, p: ast.expr) -> Value:
    """`broadcast(T, p[k])`, read once a block if there is room for it."""
    f, code, k = t.f, t.type(kind), t.parameter(p)
    element = MEMORY[code]
    if t.has_many_words:
        x = f.op(f"load {element}, ptr {t.pointer(p)}, align {BYTES[code]}")
        return code, f.splat(code, f.op(f"icmp ne i8 {x}, 0") if code == "mask" else x)
    name = f"%b{k}.{code}"
    x = f.once(f"{name}.m", f"load {element}, ptr {f.pointer(k)}, align {BYTES[code]}")
    if code == "mask":
        x = f.once(f"{name}.t", f"icmp ne i8 {x}, 0")
    return code, f.splat_once(name, code, x)


def literal(t: Translator, kind: ast.expr, p: ast.expr) -> Value:
    """`literal(T, p[k])`."""
    f, code, k = t.f, t.type(kind), t.parameter(p)
    if t.crowded and code != "mask":
        # More literals than registers: each is a memory operand of the instruction that uses it.
        return code, Deferred(k)
    x, name = f.word(k), f"%l{k}.{code}"
    if BITS[code] < 64:
        x = f.once(f"{name}.i", f"trunc i64 {x} to i{BITS[code]}")
    if code in FLOATS:
        x = f.once(f"{name}.f", f"bitcast i{BITS[code]} {x} to {SCALAR[code]}")
    return code, f.splat_once(name, code, x)


def in_bounds(
    t: Translator, p: ast.expr, site: ast.expr, x: ast.expr, n: ast.expr, m: ast.expr
) -> Value:
    """`in_bounds(p[0], site, x, p[n], m)`: the report is a cold block, claimed atomically."""
    f = t.f
    (code, index), mask = t.index(x), t.mask(m)
    word, size = _size(t, n, code)
    vector, mask_type = f.vector[code], f.vector["mask"]
    inside = f.op(f"icmp ult {vector} {index}, {size}")
    result = f.op(f"and {mask_type} {mask}, {inside}")
    bad = f.bits(f.op(f"xor {mask_type} {mask}, {result}"))
    bits = f"i{f.lanes}"
    some = f.op(f"icmp ne {bits} {bad}, 0")
    report, claimed, done = f.new_block(), f.new_block(), f.new_block()
    f.branch(some, report, done, weights=", !prof !1")
    f.start(report)
    record = t.pointer(p)
    claim = f.op(f"cmpxchg ptr {record}, i64 0, i64 1 monotonic monotonic")
    f.branch(f.op(f"extractvalue {{i64, i1}} {claim}, 1"), claimed, done)
    f.start(claimed)
    first = f.op(f"call {bits} @llvm.cttz.{bits}({bits} {bad}, i1 true)")
    first = f.widened(first)
    slot = f.slot(code, 0)
    f.do(f"store {vector} {index}, ptr {slot}")
    address = f.op(f"getelementptr {SCALAR[code]}, ptr {slot}, i64 {first}")
    one = f.op(f"load {SCALAR[code]}, ptr {address}")
    if code == "u32":
        one = f.op(f"zext i32 {one} to i64")
    where = f.op(f"add i64 %i, {first}")
    for place, value in enumerate((t.whole(site), one, word, where), 1):
        f.do(f"store i64 {value}, ptr {f.op(f'getelementptr i64, ptr {record}, i64 {place}')}")
    f.do(f"br label %{done}")
    f.start(done)
    return "mask", result


def _size(t: Translator, n: ast.expr, code: str) -> tuple[str, str]:
    """The size that the word `n` of the parameter block holds, and the same in all lanes as an
    index. Sizes beyond the range of the index admit every index.
    """
    f = t.f
    limit, to = "call i64 @llvm.umin.i64(i64 {}, i64 4294967295)", "trunc i64 {} to i32"
    # In a function, whose words begin at an offset.
    place = n.slice if type(n) is ast.Subscript and type(n.slice) is ast.BinOp else None
    if place is not None or t.has_many_words:
        if place is not None:
            address = f.op(f"getelementptr i64, ptr %p, i64 {t.whole(place)}")
            word = f.op(f"load i64, ptr {address}, !invariant.load !0")
        else:
            word = t.word(n)
        one = f.op(to.format(f.op(limit.format(word)))) if code == "u32" else word
        return word, f.splat(code, one)
    k = t.parameter(n)
    one = word = f.word(k)
    size = f"%size{k}.{code}"
    if code == "u32":
        one = f.once(f"{size}.t", to.format(f.once(f"{size}.u", limit.format(word))))
    return word, f.splat_once(size, code, one)


def going(t: Translator, p: ast.expr, m: ast.expr) -> Value:
    """`going(p[0], m)`: the mask, or no lane once the launch was told to stop."""
    f, mask = t.f, t.mask(m)
    word = f.op(f"getelementptr i64, ptr {t.pointer(p)}, i64 5")
    stop = f.op(f"load volatile i64, ptr {word}")
    kind = f.vector["mask"]
    none = f"{kind} zeroinitializer"
    on = f.op(f"icmp eq i64 {stop}, 0")
    return "mask", f.op(f"select i1 {on}, {kind} {mask}, {none}")


# ------------------------------------------------------------------------------------ gathers


def gather(t: Translator, kind: ast.expr, p: ast.expr, x: ast.expr, m: ast.expr) -> Value:
    """`gather(T, p[k], x, m)`."""
    f, code = t.f, t.type(kind)
    base = t.pointer(p)
    (index_code, index), mask = t.index(x), t.mask(m)
    return code, gather_masked(f, code, base, index_code, index, mask)


def gather_masked(f: Function, code: str, base: str, index_code: str, index: str, mask: str) -> str:
    """Elements at an index, 0 where the mask is false."""
    vector, mask_type = f.vector[code], f.vector["mask"]
    if BITS[code] >= 32:
        # A 32-bit index is taken as signed: checked indices are below 2**31.
        addresses = _addresses(f, code, base, index_code, index)
        arguments = f"{_pointers(f)} align {BYTES[code]} {addresses}, {mask_type} {mask}"
        suffix = f"{f.types.suffix[code]}.v{f.lanes}p0"
        return f.op(
            f"call {vector} @llvm.masked.gather.{suffix}({arguments}, {vector} zeroinitializer)"
        )
    safe = safe_index(f, index_code, index, mask)
    x = gather_lanes(f, code, base, index_code, safe)
    return f.op(f"select {mask_type} {mask}, {vector} {x}, {vector} zeroinitializer")


def gather_lanes(f: Function, code: str, base: str, index_code: str, index: str) -> str:
    """Elements at an index that is valid in every lane, by one scalar load a lane."""
    memory, element = f.types.memory[code], MEMORY[code]
    result = "poison"
    for k, address in enumerate(_lane_addresses(f, element, base, index_code, index)):
        x = f.op(f"load {element}, ptr {address}, align {BYTES[code]}")
        result = f.op(f"insertelement {memory} {result}, {element} {x}, i32 {k}")
    return from_memory(f, code, result)


def _pointers(f: Function) -> str:
    return f"<{f.lanes} x ptr>"


def _addresses(f: Function, code: str, base: str, index_code: str, index: str) -> str:
    return f.op(f"getelementptr {MEMORY[code]}, ptr {base}, {f.vector[index_code]} {index}")


def _lane_addresses(f: Function, element: str, base: str, index_code: str, index: str) -> list[str]:
    count = f.lanes
    if index_code == "u32":
        # Two at a time: moving a lane to a general register costs more than parting it there.
        count //= 2
        index = f.op(f"bitcast {f.vector['u32']} {index} to <{count} x i64>")
    result = []
    for k in range(count):
        parts = [f.op(f"extractelement <{count} x i64> {index}, i32 {k}")]
        if index_code == "u32":
            (both,) = parts
            parts = [f.op(f"and i64 {both}, 4294967295"), f.op(f"lshr i64 {both}, 32")]
        result += [f.op(f"getelementptr {element}, ptr {base}, i64 {one}") for one in parts]
    return result


def safe_index(f: Function, index_code: str, index: str, mask: str) -> str:
    """The index, 0 where the mask is false: every buffer has room for element 0."""
    vector = f.vector[index_code]
    return f.op(f"select {f.vector['mask']} {mask}, {vector} {index}, {vector} zeroinitializer")


def gather_packet(
    t: Translator, kind: ast.expr, p: ast.expr, x: ast.expr, m: ast.expr, c: ast.expr
) -> tuple[Value, ...]:
    """`gather_packet(T, p[k], x, m, c)`."""
    f, code, count = t.f, t.type(kind), t.integer(c)
    base = t.pointer(p)
    index, mask = t.index(x), t.mask(m)
    if not 2 <= count <= 16:
        raise KernelError("a packet has 2 to 16 components")
    return tuple((code, v) for v in records(f, code, base, index, mask, count))


def records(f: Function, code: str, base: str, x: Value, mask: str, count: int) -> list[str]:
    """The components of every lane's record: rows of 4 words are loaded whole and transposed."""
    index_code, index = x
    if in_rows(code, count):
        safe = safe_index(f, index_code, index, mask)
        addresses = row_addresses(f, base, index_code, safe, count)
        values = []
        for part in range(0, count, 4):
            values += _load_rows(f, code, addresses, part)
        return cleared(f, code, values, mask)
    wide = _scaled(f, index_code, index, count)
    return [gather_masked(f, code, base, "u64", _plus(f, wide, j), mask) for j in range(count)]


def cleared(f: Function, code: str, values: list[str], mask: str) -> list[str]:
    """Values, 0 where the mask is false."""
    if mask == ACTIVE:  # the values of other lanes are never used
        return values
    vector, mask_type = f.vector[code], f.vector["mask"]
    return [
        f.op(f"select {mask_type} {mask}, {vector} {v}, {vector} zeroinitializer") for v in values
    ]


def in_rows(code: str, count: int) -> bool:
    """Whether records of so many components are accessed by 128-bit words."""
    return BITS[code] == 32 and count in (4, 8, 12, 16)


def row_addresses(f: Function, base: str, index_code: str, index: str, count: int) -> list[str]:
    """The address of every lane's record of `count` 32-bit components, for a checked index."""
    # In units of 8 bytes, which addresses can be made of: so the multiples of an index below 2**31
    # fit 32 bits, and no lane has to be widened.
    scaled = f.op(f"mul {f.vector[index_code]} {index}, {f.constant(index_code, count // 2)}")
    return _lane_addresses(f, "i64", base, index_code, scaled)


def _load_rows(f: Function, code: str, addresses: list[str], part: int) -> list[str]:
    """Four components of every lane's row, from one 128-bit load a lane."""
    element = SCALAR[code]
    rows = []
    for r in range(4):
        # Row r holds the quads of the lanes r, r + 4, r + 8, ...
        parts = []
        for address in addresses[r::4]:
            if part:
                address = f.op(f"getelementptr {element}, ptr {address}, i64 {part}")
            parts.append(f.op(f"load <4 x {element}>, ptr {address}, align 4"))
        rows.append(concatenated(f, element, 4, parts))
    return transpose(f, code, rows)


def concatenated(f: Function, element: str, width: int, parts: list[str]) -> str:
    """Vectors of `width` elements one after the other, a power of two of them."""
    while len(parts) > 1:
        kind, which = f"<{width} x {element}>", selector(range(2 * width))
        parts = [
            f.op(f"shufflevector {kind} {a}, {kind} {b}, {which}")
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
        width *= 2
    return parts[0]


def transpose(f: Function, code: str, rows: list[str]) -> list[str]:
    """Four vectors as columns instead of rows, within each group of four lanes."""
    vector, lanes = f.vector[code], f.lanes

    def shuffle(a: str, b: str, pattern: tuple[int, ...]) -> str:
        # A pattern of 4 within each group; 4 and above select from the second operand.
        places = [g + k % 4 + (lanes if k > 3 else 0) for g in range(0, lanes, 4) for k in pattern]
        return f.op(f"shufflevector {vector} {a}, {vector} {b}, {selector(places)}")

    low = [shuffle(rows[k], rows[k + 1], (0, 4, 1, 5)) for k in (0, 2)]
    high = [shuffle(rows[k], rows[k + 1], (2, 6, 3, 7)) for k in (0, 2)]
    return [shuffle(a, b, p) for a, b in (low, high) for p in ((0, 1, 4, 5), (2, 3, 6, 7))]


def selector(places: list[int] | range) -> str:
    """The operand of a shuffle that says which element goes to each place."""
    return f"<{len(places)} x i32> <{', '.join([f'i32 {k}' for k in places])}>"


def _scaled(f: Function, index_code: str, index: str, count: int) -> str:
    """The index times the number of components, in 64 bits."""
    vector = f.vector["u64"]
    if index_code == "u32":
        index = f.op(f"zext {f.vector['u32']} {index} to {vector}")
    return f.op(f"mul {vector} {index}, {f.constant('u64', count)}")


def _plus(f: Function, index: str, j: int) -> str:
    return f.op(f"add {f.vector['u64']} {index}, {f.constant('u64', j)}") if j else index


# ----------------------------------------------------------------------------------- scatters


def each_lane(
    f: Function,
    mask: str,
    operands: list[Value],
    body: Callable[[list[str]], str | None],
    result: str | None = None,
) -> str:
    """Runs scalar code for each lane of the mask in order, with its elements of the operands;
    collects a result.
    """
    slots = []
    for k, (code, x) in enumerate(operands):
        slots.append(f.slot(code, k))
        f.do(f"store {f.types.memory[code]} {to_memory(f, code, x)}, ptr {slots[-1]}")
    results = f.slot(result, len(operands)) if result else ""
    if result:
        f.do(f"store {f.types.memory[result]} zeroinitializer, ptr {results}")

    def lane(place: str) -> None:
        elements = []
        for (code, _), slot in zip(operands, slots, strict=True):
            address = f.op(f"getelementptr {MEMORY[code]}, ptr {slot}, i64 {place}")
            elements.append(f.op(f"load {MEMORY[code]}, ptr {address}"))
        value = body(elements)
        if result:
            address = f.op(f"getelementptr {MEMORY[result]}, ptr {results}, i64 {place}")
            f.do(f"store {MEMORY[result]} {value}, ptr {address}")

    each_bit(f, f.bits(mask), lane)
    if not result:
        return ""
    return from_memory(f, result, f.op(f"load {f.types.memory[result]}, ptr {results}"))


def each_bit(
    f: Function,
    start: str,
    body: Callable[..., Sequence[str] | None],
    carried: Sequence[tuple[str, str]] = (),
) -> list[str]:
    """Runs code for the number of each bit that is set, lowest first. The code gets it and values,
    and gives those of the next round; the first ones are `carried` with their types. Gives the
    last ones.
    """
    bits = f"i{f.lanes}"
    origin, inside, done = f.block, f.new_block(), f.new_block()
    f.branch(f.op(f"icmp ne {bits} {start}, 0"), inside, done)
    f.start(inside)
    line = len(f.lines)
    names = [f.op("") for _ in range(1 + len(carried))]
    left = names[0]
    place = f.op(f"call {bits} @llvm.cttz.{bits}({bits} {left}, i1 true)")
    values = body(f.widened(place), *names[1:]) or ()
    below = f.op(f"add {bits} {left}, -1")
    rest = f.op(f"and {bits} {left}, {below}")
    rounds = [(bits, start, rest)]
    rounds += [(kind, x, y) for (kind, x), y in zip(carried, values, strict=True)]
    for k, (name, (kind, x, y)) in enumerate(zip(names, rounds, strict=True)):
        f.lines[line + k] = f"{name} = phi {kind} [{x}, %{origin}], [{y}, %{f.block}]"
    end = f.block
    f.branch(f.op(f"icmp ne {bits} {rest}, 0"), inside, done)
    f.start(done)
    return [f.op(f"phi {kind} [{x}, %{origin}], [{y}, %{end}]") for kind, x, y in rounds[1:]]


def element_address(f: Function, element: str, base: str, index_code: str, index: str) -> str:
    """The address of one element, for a scalar index."""
    if index_code == "u32":
        index = f.op(f"zext i32 {index} to i64")
    return f.op(f"getelementptr {element}, ptr {base}, i64 {index}")


def scatter(
    t: Translator, kind: ast.expr, p: ast.expr, v: ast.expr, x: ast.expr, m: ast.expr
) -> None:
    """`scatter(T, p[k], v, x, m)`."""
    f, code = t.f, t.type(kind)
    base = t.pointer(p)
    _, value = t.typed(v, code)
    (index_code, index), mask = t.index(x), t.mask(m)
    scatter_masked(f, code, base, value, index_code, index, mask)


def scatter_masked(
    f: Function, code: str, base: str, value: str, index_code: str, index: str, mask: str
) -> None:
    """Stores elements at an index where the mask is true."""
    if BITS[code] >= 32 and f.lanes >= 16:
        addresses = _addresses(f, code, base, index_code, index)
        suffix = f"{f.types.suffix[code]}.v{f.lanes}p0"
        where = f"{_pointers(f)} align {BYTES[code]} {addresses}, {f.vector['mask']} {mask}"
        f.do(f"call void @llvm.masked.scatter.{suffix}({f.vector[code]} {value}, {where})")
        return

    def body(elements: list[str]) -> None:
        address = element_address(f, MEMORY[code], base, index_code, elements[1])
        f.do(f"store {MEMORY[code]} {elements[0]}, ptr {address}, align {BYTES[code]}")

    each_lane(f, mask, [(code, value), (index_code, index)], body)


def scatter_packet(
    t: Translator, kind: ast.expr, p: ast.expr, x: ast.expr, m: ast.expr, *values: ast.expr
) -> None:
    """`scatter_packet(T, p[k], x, m, v0, v1, ...)`, one lane's row at a time."""
    f, code = t.f, t.type(kind)
    base = t.pointer(p)
    (index_code, index), mask = t.index(x), t.mask(m)
    vectors = [t.typed(v, code) for v in values]
    row = f"[{len(vectors)} x {MEMORY[code]}]"

    def body(elements: list[str]) -> None:
        address = element_address(f, row, base, index_code, elements[-1])
        for j, element in enumerate(elements[:-1]):
            place = f.op(f"getelementptr {MEMORY[code]}, ptr {address}, i64 {j}")
            f.do(f"store {MEMORY[code]} {element}, ptr {place}, align {BYTES[code]}")

    each_lane(f, mask, [*vectors, (index_code, index)], body)


def prefetch(f: Function, code: str, base: str, index: Value) -> None:
    """Fetches what a packet is about to update: atomic operations would wait for one after the
    other."""
    for address in _lane_addresses(f, MEMORY[code], base, *index):
        f.do(f"call void @llvm.prefetch.p0(ptr {address}, i32 1, i32 3, i32 1)")


CALLS.update(
    {
        "lane": lane,
        "active": active,
        "load": load,
        "store": store,
        "stream": stream,
        "broadcast": broadcast,
        "literal": literal,
        "going": going,
        "in_bounds": in_bounds,
        "gather": gather,
        "gather_packet": gather_packet,
        "scatter": scatter,
        "scatter_packet": scatter_packet,
    }
)
