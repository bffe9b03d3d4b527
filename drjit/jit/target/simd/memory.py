"""Lanes and memory: loads, stores, gathers and scatters."""

import ast
from collections.abc import Sequence

from . import loops
from .arguments import RUNS, statement
from .conversion import from_memory, reinterpret, to_memory
from .ir import BITS, BYTES, MEMORY, SCALAR, Function, Operand
from .loops import concatenated, each_lane, when
from .translate import ACTIVE, Deferred, Translator


@statement("lane_range")
def lane(t: Translator) -> Operand:
    """`lane(i)`."""
    return "u32", lane_numbers(t.f)


def lane_numbers(f: Function) -> str:
    """Returns the numbers of the packet's lanes."""
    first = f.splat("u32", f.op("trunc i64 %i to i32"))
    return f.op(f"add {f.vector['u32']} {first}, <{f.types.iota}>")


@statement("lane_range")
def active(t: Translator) -> Operand:
    """`active(i)`."""
    return "mask", t.active()


@statement("type pointer lane_range")
def load(t: Translator, code: str, base: str) -> Operand:
    """`load(T, p[k], i)`."""
    f = t.f
    base = f.at_packet(base)
    place = f.op(f"getelementptr {MEMORY[code]}, ptr {base}, i64 {f.position()}")
    x = f.op(f"load {f.types.memory[code]}, ptr {place}, align {BYTES[code]}")
    return code, from_memory(f, code, x)


@statement("type pointer lane_range operand")
def store(t: Translator, code: str, base: str, x: str) -> None:
    """`store(T, p[k], i, x)`."""
    _store(t.f, code, base, x, f"align {BYTES[code]}")


@statement("type pointer lane_range operand")
def stream(t: Translator, code: str, base: str, x: str) -> None:
    """`stream(T, p[k], i, x)`: whole packets at multiples of their size, up to a cache line."""
    _store(t.f, code, base, x, f"align {min(64, t.f.lanes * BYTES[code])}, !nontemporal !2")


def _store(f: Function, code: str, base: str, x: str, how: str) -> None:
    value, base = to_memory(f, code, x), f.at_packet(base)
    place = f.op(f"getelementptr {MEMORY[code]}, ptr {base}, i64 %i")
    f.do(f"store {f.types.memory[code]} {value}, ptr {place}, {how}")


@statement("type node")
def broadcast(t: Translator, code: str, p: ast.expr) -> Operand:
    """`broadcast(T, p[k])`, read once per block if there are enough registers."""
    f, element = t.f, MEMORY[code]
    x = f"load {element}, ptr {t.pointer(p)}, align {BYTES[code]}"
    if t.has_many_words:
        x = f.op(x)
        return code, f.splat(code, f.op(f"icmp ne i8 {x}, 0") if code == "mask" else x)
    name = f"%b{t.parameter(p)}.{code}"
    x = f.once(f"{name}.m", x)
    if code == "mask":
        x = f.once(f"{name}.t", f"icmp ne i8 {x}, 0")
    return code, f.splat_once(name, code, x)


@statement("type parameter")
def literal(t: Translator, code: str, k: int) -> Operand:
    """`literal(T, p[k])`."""
    f = t.f
    if t.crowded and code != "mask":
        # More literals than registers: each is a memory operand of the instruction that uses it.
        return code, Deferred(k)
    name, kind = f"%l{k}.{code}", SCALAR[code]
    if code == "mask":
        x = f.once(f"{name}.m", f"trunc i64 {f.word(k)} to i1")
    else:  # the first bytes of the word
        load = f"load {kind}, ptr {f.word_address(k)}, align 8, !invariant.load !0"
        x = f.once(f"{name}.m", load)
    return code, f.splat_once(name, code, x)


@statement("node node index node mask")
def in_bounds(
    t: Translator, p: ast.expr, site: ast.expr, x: Operand, n: ast.expr, mask: str
) -> Operand:
    """`in_bounds(p[0], site, x, p[n], m)`: the report is a cold block, claimed atomically."""
    f, (code, index) = t.f, x
    word, size = _size(t, n, code)
    vector, mask_type = f.vector[code], f.vector["mask"]
    inside = f.op(f"icmp ult {vector} {index}, {size}")
    result = f.op(f"and {mask_type} {mask}, {inside}")
    bad = f.bits(f.op(f"xor {mask_type} {mask}, {result}"))
    bits = f"i{f.lanes}"
    with when(f, f.op(f"icmp ne {bits} {bad}, 0"), weights=", !prof !1"):
        record = t.pointer(p)
        claim = f.op(f"cmpxchg ptr {record}, i64 0, i64 1 monotonic monotonic")
        with when(f, f.op(f"extractvalue {{i64, i1}} {claim}, 1")):
            first = f.widened(f.op(f"call {bits} @llvm.cttz.{bits}({bits} {bad}, i1 true)"))
            slot = f.slot(code, 0)
            f.do(f"store {vector} {index}, ptr {slot}")
            place = f.op(f"getelementptr {SCALAR[code]}, ptr {slot}, i64 {first}")
            one = f.op(f"load {SCALAR[code]}, ptr {place}")
            if code == "u32":
                one = f.op(f"zext i32 {one} to i64")
            lane = f.op(f"add i64 %i, {first}")
            for place, value in enumerate((t.whole(site), one, word, lane), 1):
                at = f.op(f"getelementptr i64, ptr {record}, i64 {place}")
                f.do(f"store i64 {value}, ptr {at}")
    return "mask", result


def _size(t: Translator, n: ast.expr, code: str) -> tuple[str, str]:
    """Returns the size in word `n` of the parameter block, and the same broadcast to all lanes as
    an index. Sizes beyond the range of the index admit every index.
    """
    f = t.f
    limit, to = "call i64 @llvm.umin.i64(i64 {}, i64 4294967295)", "trunc i64 {} to i32"
    # In a function, whose words begin at an offset.
    place = n.slice if type(n) is ast.Subscript and type(n.slice) is ast.BinOp else None
    if place is not None or t.has_many_words:
        word = f.word_here(t.whole(place)) if place is not None else t.word(n)
        one = f.op(to.format(f.op(limit.format(word)))) if code == "u32" else word
        return word, f.splat(code, one)
    k = t.parameter(n)
    one = word = f.word(k)
    size = f"%size{k}.{code}"
    if code == "u32":
        one = f.once(f"{size}.t", to.format(f.once(f"{size}.u", limit.format(word))))
    return word, f.splat_once(size, code, one)


@statement("pointer mask")
def going(t: Translator, record: str, mask: str) -> Operand:
    """`going(p[0], m)`: the mask, or no lane once the launch has been told to stop."""
    f, kind = t.f, t.f.vector["mask"]
    word = f.op(f"getelementptr i64, ptr {record}, i64 5")
    on = f.op(f"icmp eq i64 {f.op(f'load volatile i64, ptr {word}')}, 0")
    return "mask", f.op(f"select i1 {on}, {kind} {mask}, {kind} zeroinitializer")


# ------------------------------------------------------------------------------------ gathers


@statement("type pointer index mask")
def gather(t: Translator, code: str, base: str, index: Operand, mask: str) -> Operand:
    """`gather(T, p[k], x, m)`."""
    return code, gather_masked(t.f, code, base, index, mask)


def gather_masked(
    f: Function, code: str, base: str, index: Operand, mask: str, align: int = 0
) -> str:
    """Gathers elements at an index, 0 where the mask is false."""
    if BITS[code] >= 32 and f.machine.has_gathers:
        return gather_wide(f, code, base, index, mask, align=align)
    x = gather_lanes(f, code, base, safe_index(f, index, mask), align)
    return f.select(code, mask, x)


def gather_wide(
    f: Function, code: str, base: str, index: Operand, mask: str, other: str = "zeroinitializer",
    align: int = 0,
) -> str:  # fmt: skip
    """The same for elements of 32 or 64 bits, with another value where the mask is false."""
    vector = f.vector[code]
    operands = f"{_places(f, code, base, index, mask, align)}, {vector} {other}"
    return f.op(f"call {vector} @llvm.masked.gather.{_suffix(f, code)}({operands})")


def _suffix(f: Function, code: str) -> str:
    return f"{f.types.suffix[code]}.v{f.lanes}p0"


def _places(f: Function, code: str, base: str, index: Operand, mask: str, align: int = 0) -> str:
    """Returns the addresses of elements and a mask, as operands of intrinsics. A 32-bit index is
    interpreted as signed: checked indices are below 2**31.
    """
    places = f.op(f"getelementptr {MEMORY[code]}, ptr {base}, {f.vector[index[0]]} {index[1]}")
    return f"<{f.lanes} x ptr> align {align or BYTES[code]} {places}, {f.vector['mask']} {mask}"


def gather_lanes(f: Function, code: str, base: str, index: Operand, align: int = 0) -> str:
    """Gathers elements at an index that is valid in every lane, with one scalar load per lane."""
    memory, element = f.types.memory[code], MEMORY[code]
    result = "poison"
    for k, address in enumerate(lane_addresses(f, element, base, index)):
        x = f.op(f"load {element}, ptr {address}, align {align or BYTES[code]}")
        result = f.op(f"insertelement {memory} {result}, {element} {x}, i32 {k}")
    return from_memory(f, code, result)


def lane_addresses(f: Function, element: str, base: str, index: Operand) -> list[str]:
    """Returns the address of every lane's element, for an index that is valid in every lane."""
    (code, x), count = index, f.lanes
    if (count == 1 or f.machine.is_gpu) and code == "u32":
        code, x = "u64", f.op(f"zext {f.vector['u32']} {x} to {f.vector['u64']}")
    if code == "u32":
        # Two at a time: moving a lane to a general register costs more than splitting it there.
        count //= 2
        x = f.op(f"bitcast {f.vector['u32']} {x} to <{count} x i64>")
    result = []
    for k in range(count):
        parts = [f.op(f"extractelement <{count} x i64> {x}, i32 {k}")]
        if code == "u32":
            (both,) = parts
            parts = [f.op(f"and i64 {both}, 4294967295"), f.op(f"lshr i64 {both}, 32")]
        result += [f.op(f"getelementptr {element}, ptr {base}, i64 {one}") for one in parts]
    return result


def safe_index(f: Function, index: Operand, mask: str) -> Operand:
    """Returns the index, 0 where the mask is false: every buffer has room for element 0."""
    return index[0], f.select(index[0], mask, index[1])


@statement("type pointer index mask integer")
def gather_packet(
    t: Translator, code: str, base: str, index: Operand, mask: str, count: int
) -> tuple[Operand, ...]:
    """`gather_packet(T, p[k], x, m, c)`."""
    return tuple((code, v) for v in records(t.f, code, base, index, mask, count))


def records(f: Function, code: str, base: str, index: Operand, mask: str, count: int) -> list[str]:
    """Loads the components of every lane's record: as one word if it has the size of one, by rows
    of 4 words, which are transposed, or one component after the other."""
    bits = BITS[code] * count
    if bits in (32, 64) and code != "mask":
        return _words(f, code, base, index, mask, count)
    if BITS[code] == 32:
        addresses = row_addresses(f, base, safe_index(f, index, mask), count)
        values = []
        for part in range(0, count, 4):
            # The last row may end beyond the record, for which every buffer has room.
            values += _load_rows(f, code, addresses, part)[: count - part]
        return cleared(f, code, values, mask)
    vector, (kind, x) = f.vector["u64"], index
    if kind == "u32":
        x = f.op(f"zext {f.vector['u32']} {x} to {vector}")
    x = f.op(f"mul {vector} {x}, {f.constant('u64', count)}")
    values = []
    for j in range(count):
        place = f.op(f"add {vector} {x}, {f.constant('u64', j)}") if j else x
        values.append(gather_masked(f, code, base, ("u64", place), mask))
    return values


def _words(f: Function, code: str, base: str, index: Operand, mask: str, count: int) -> list[str]:
    """Loads records as words of 32 or 64 bits, and takes these apart."""
    word, part = f"u{BITS[code] * count}", f"u{BITS[code]}"
    x = gather_masked(f, word, base, index, mask, BYTES[code])
    values = []
    for k in range(count):
        shift = f.constant(word, k * BITS[code])
        one = f.op(f"lshr {f.vector[word]} {x}, {shift}") if k else x
        one = f.op(f"trunc {f.vector[word]} {one} to {f.vector[part]}")
        values.append(reinterpret(f, code, part, one))
    return values


def cleared(f: Function, code: str, values: list[str], mask: str) -> list[str]:
    """Returns values, with 0 where the mask is false."""
    if mask == ACTIVE:  # values of other lanes are never used
        return values
    return [f.select(code, mask, v) for v in values]


def in_rows(code: str, count: int) -> bool:
    """Returns whether records with `count` components are accessed by 128-bit words."""
    return BITS[code] == 32 and count in (4, 8, 12, 16)


def row_addresses(f: Function, base: str, index: Operand, count: int) -> list[str]:
    """Returns the address of every lane's record of `count` 32-bit components, for a checked
    index."""
    # In units of 8 bytes if possible, which addressing modes can scale: multiples of an index below
    # 2**31 then fit 32 bits, and no lane needs to be widened.
    unit, units = ("i32", count) if count % 2 else ("i64", count // 2)
    code, x = index
    scaled = f.op(f"mul {f.vector[code]} {x}, {f.constant(code, units)}")
    return lane_addresses(f, unit, base, (code, scaled))


def _load_rows(f: Function, code: str, addresses: list[str], part: int) -> list[str]:
    """Loads four components of every lane's row with one 128-bit load per lane."""
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


def transpose(f: Function, code: str, rows: Sequence[str]) -> list[str]:
    """Transposes four vectors within each group of four lanes."""
    lanes = f.lanes

    def shuffle(a: str, b: str, pattern: tuple[int, ...]) -> str:
        # A pattern of 4 within each group; 4 and above select from the second operand.
        places = [g + k % 4 + (lanes if k > 3 else 0) for g in range(0, lanes, 4) for k in pattern]
        return f.shuffle(f.vector[code], a, b, places)

    low = [shuffle(rows[k], rows[k + 1], (0, 4, 1, 5)) for k in (0, 2)]
    high = [shuffle(rows[k], rows[k + 1], (2, 6, 3, 7)) for k in (0, 2)]
    return [shuffle(a, b, p) for a, b in (low, high) for p in ((0, 1, 4, 5), (2, 3, 6, 7))]


# ----------------------------------------------------------------------------------- scatters


def element_address(f: Function, element: str, base: str, index_code: str, index: str) -> str:
    """Returns the address of one element, for a scalar index."""
    if index_code == "u32":
        index = f.op(f"zext i32 {index} to i64")
    return f.op(f"getelementptr {element}, ptr {base}, i64 {index}")


@statement("type pointer operand index mask")
def scatter(t: Translator, code: str, base: str, value: str, index: Operand, mask: str) -> None:
    """`scatter(T, p[k], v, x, m)`."""
    scatter_masked(t.f, code, base, value, index, mask)


def scatter_masked(
    f: Function, code: str, base: str, value: str, index: Operand, mask: str
) -> None:
    """Stores elements at an index where the mask is true."""
    if BITS[code] < 32 or f.lanes < 16:
        _scatter_rows(f, code, base, [value], index, mask)
        return
    operands = f"{f.vector[code]} {value}, {_places(f, code, base, index, mask)}"
    f.do(f"call void @llvm.masked.scatter.{_suffix(f, code)}({operands})")


@statement("type pointer index mask *operand")
def scatter_packet(
    t: Translator, code: str, base: str, index: Operand, mask: str, *values: str
) -> None:
    """`scatter_packet(T, p[k], x, m, v0, v1, ...)`, one lane's row at a time."""
    _scatter_rows(t.f, code, base, values, index, mask)


def _scatter_rows(
    f: Function, code: str, base: str, values: Sequence[str], index: Operand, mask: str
) -> None:
    element, size = MEMORY[code], len(values)
    row = element if size == 1 else f"[{size} x {element}]"
    with each_lane(f, mask, [*[(code, v) for v in values], index]) as ((*row_values, at), _):
        address = element_address(f, row, base, index[0], at)
        for j, x in enumerate(row_values):
            place = f.op(f"getelementptr {element}, ptr {address}, i64 {j}") if j else address
            f.do(f"store {element} {x}, ptr {place}, align {BYTES[code]}")


def prefetch(f: Function, code: str, base: str, index: Operand) -> None:
    """Prefetches the memory that a packet is about to update, because atomic operations would wait
    for one after the other."""
    for address in lane_addresses(f, MEMORY[code], base, index):
        f.do(f"call void @llvm.prefetch.p0(ptr {address}, i32 1, i32 3, i32 1)")


# --------------------------------------------------------------------------------- coalescing
#
# If lanes access consecutive elements in order, as in the rows of a table, gathers or scatters with
# the same index become single memory accesses. The test runs once for all of them while the kernel
# executes. Collecting or spreading the elements of lanes one by one takes processors many times as
# long.


def _first_element(f: Function, index: Operand, mask: str) -> tuple[str, str]:
    """Returns whether the lanes of a mask access adjacent elements and, if so, the element of lane
    0."""
    code, x = index
    vector, element, bits = f.vector[code], SCALAR[code], f"i{f.lanes}"
    iota = ", ".join([f"{element} {lane}" for lane in range(f.lanes)])
    starts = f.op(f"sub {vector} {x}, <{iota}>")
    place = f.op(f"call {bits} @llvm.cttz.{bits}({bits} {f.bits(mask)}, i1 false)")
    place = f.op(f"and i64 {f.widened(place)}, {f.lanes - 1}")
    first = f.op(f"extractelement {vector} {starts}, i64 {place}")
    other = f.op(f"icmp ne {vector} {starts}, {f.splat(code, first)}")
    other = f.bits(f.op(f"and {f.vector['mask']} {other}, {mask}"))
    if code == "u32":  # as in gathers
        first = f.op(f"sext i32 {first} to i64")
    return f.op(f"icmp eq {bits} {other}, 0"), first


def gathers(t: Translator, statements: Sequence[ast.Assign]) -> None:
    """`y = gather(T, p[k], x, m)` with several `T` and `p[k]`."""
    f = t.f
    calls = [s.value.args for s in statements]  # type: ignore[attr-defined]
    index, mask = t.index(calls[0][2]), t.mask(calls[0][3])
    sources = [(t.type(kind), t.pointer(p)) for kind, p, _, _ in calls]
    adjacent, first = _first_element(f, index, mask)

    def together() -> list[str]:
        places = [loops.address(f, code, base, first) for code, base in sources]
        return [
            loops.load(f, code, f.lanes, place, mask)
            for (code, _), place in zip(sources, places, strict=True)
        ]

    def apart() -> list[str]:
        return [gather_masked(f, code, base, index, mask) for code, base in sources]

    kinds = [f.vector[code] for code, _ in sources]
    values = loops.choose(f, adjacent, together, apart, kinds)
    for s, (code, _), x in zip(statements, sources, values, strict=True):
        f.variables[s.targets[0].id] = code, x  # type: ignore[attr-defined]


def scatters(t: Translator, statements: Sequence[ast.Expr]) -> None:
    """`scatter(T, p[k], v, x, m)` with several `T`, `p[k]` and `v`."""
    f = t.f
    calls = [s.value.args for s in statements]  # type: ignore[attr-defined]
    index, mask = t.index(calls[0][3]), t.mask(calls[0][4])
    targets = []
    for kind, p, v, _, _ in calls:
        code = t.type(kind)
        targets.append((code, t.pointer(p), t.typed(v, code)[1]))
    adjacent, first = _first_element(f, index, mask)

    def together() -> None:
        for code, base, value in targets:
            loops.store(f, code, f.lanes, value, loops.address(f, code, base, first), mask)

    def apart() -> None:
        for code, base, value in targets:
            scatter_masked(f, code, base, value, index, mask)

    loops.choose(f, adjacent, together, apart)


RUNS.update({"gather": gathers, "scatter": scatters})
