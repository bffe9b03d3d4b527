"""Read-modify-write operations on memory (scatter-reductions, counters, exchanges), and the
combination of two partial results."""

from .arguments import statement
from .conversion import reinterpret
from .ir import BITS, BYTES, FLOATS, MEMORY, SIGNED, Function, Operand
from .loops import each_lane
from .memory import element_address, prefetch
from .translate import Translator


def combine(f: Function, op: str, code: str, x: str, y: str, kind: str = "") -> str:
    """Combines two partial results of a reduction: packets, or scalars or vectors of an IR type.
    Masks are `i1` in packets and bytes otherwise.

    `min` and `max` keep `y` where `x` is NaN, so a NaN never enters an accumulator `y`.
    """
    kind = kind or f.vector[code]
    if code == "f16":
        wide = kind.replace("half", "float")
        x, y = (f.op(f"fpext {kind} {v} to {wide}") for v in (x, y))
        result = combine(f, op, "f32", x, y, wide)
        return f.op(f"fptrunc {wide} {result} to {kind}")
    if op in ("min", "max"):
        relation = "lt" if op == "min" else "gt"
        sign = "o" if code in FLOATS else "s" if code in SIGNED else "u"
        compare = "fcmp" if code in FLOATS else "icmp"
        condition = f.op(f"{compare} {sign}{relation} {kind} {x}, {y}")
        return f.op(f"select {_mask(kind)} {condition}, {kind} {x}, {kind} {y}")
    letter = "f" if code in FLOATS and op in ("add", "mul") else ""
    return f.op(f"{letter}{op} {kind} {x}, {y}")


def _mask(kind: str) -> str:
    """Returns the type of a comparison of values of an IR type."""
    count, cross, _ = kind.partition(" x ")
    return f"{count}{cross}i1>" if cross else "i1"


def updated(f: Function, op: str, code: str, x: str, old: str, kind: str = "") -> str:
    """Returns the new value of memory that contains `old`. Unlike an accumulator, it may be NaN,
    which `min` and `max` replace."""
    kind = kind or f.vector[code]
    result = combine(f, op, code, x, old, kind)
    if op not in ("min", "max") or code not in FLOATS:
        return result
    undefined = f.op(f"fcmp uno {kind} {old}, {old}")
    return f.op(f"select {_mask(kind)} {undefined}, {kind} {x}, {kind} {result}")


@statement("type reduction text pointer operand index mask")
def scatter_reduce(
    t: Translator, code: str, op: str, mode: str, base: str, value: str, index: Operand, mask: str
) -> None:
    """`scatter_reduce(T, 'add', 'direct', p[k], v, x, m)`."""
    f, element = t.f, MEMORY[code]
    update = atomic_update if mode == "direct" else plain_update

    types = ["ptr", *[f.vector[kind] for kind in ("mask", code, index[0])]]

    def emit(g: Function) -> None:
        with each_lane(g, "%1", [(code, "%2"), (index[0], "%3")]) as ((one, at), _):
            update(g, op, code, element_address(g, element, "%0", index[0], at), one)

    def packet(*values: str) -> None:
        symbol = t.module.routine(f"{mode}.{op}", types, emit, key=(code, index[0]))
        _call(f, symbol, types, [base, *values])

    if mode == "direct":
        ahead = t.module.routine(
            "prefetch",
            [types[0], types[3]],
            lambda g: prefetch(g, code, "%0", (index[0], "%1")),
            key=(element, index[0]),
        )
        _call(f, ahead, [types[0], types[3]], [base, index[1]])
    if mode == "direct" and not t.depth:
        t.one_packet_later([("mask", mask), (code, value), index], packet)
    else:
        packet(mask, value, index[1])


def _call(f: Function, symbol: str, types: list[str], values: list[str]) -> None:
    f.call(symbol, [f"{kind} {x}" for kind, x in zip(types, values, strict=True)], ())


def plain_update(f: Function, op: str, code: str, address: str, value: str) -> None:
    """Combines a scalar into memory that no other lane writes."""
    element, size = MEMORY[code], BYTES[code]
    old = f.op(f"load {element}, ptr {address}, align {size}")
    new = updated(f, op, code, value, old, element)
    f.do(f"store {element} {new}, ptr {address}, align {size}")


def atomic_update(f: Function, op: str, code: str, address: str, value: str) -> None:
    """Combines a scalar into memory atomically, if necessary in a compare-and-swap loop."""
    element, size = MEMORY[code], BYTES[code]
    known = ("add",) if code in ("f32", "f64") else ("add", "min", "max", "and", "or")
    if op in known and code != "f16":
        sign = "f" if code in FLOATS else "u" if op in ("min", "max") and code not in SIGNED else ""
        f.op(f"atomicrmw {sign}{op} ptr {address}, {element} {value} monotonic, align {size}")
        return
    word = f"i{8 * size}"
    start = f.op(f"load atomic {word}, ptr {address}{f.scope} monotonic, align {size}")
    origin, again, done = f.block, f.new_block(), f.new_block()
    f.do(f"br label %{again}")
    f.start(again)
    line, seen = len(f.lines), f.op("")
    old = f.op(f"bitcast {word} {seen} to {element}")
    new = updated(f, op, code, value, old, element)
    new = f.op(f"bitcast {element} {new} to {word}")
    swap = f"cmpxchg weak ptr {address}, {word} {seen}, {word} {new}{f.scope}"
    pair = f.op(f"{swap} monotonic monotonic, align {size}")
    found = f.op(f"extractvalue {{{word}, i1}} {pair}, 0")
    f.lines[line] = f"{seen} = phi {word} [{start}, %{origin}], [{found}, %{again}]"
    f.branch(f.op(f"extractvalue {{{word}, i1}} {pair}, 1"), done, again)
    f.start(done)


@statement("type pointer index mask")
def scatter_inc(t: Translator, code: str, base: str, index: Operand, mask: str) -> Operand:
    """`scatter_inc(T, p[k], x, m)`."""
    return _exchanged(t.f, code, base, [], index, mask, "atomicrmw add ptr {at}, {kind} 1")


@statement("type pointer operand index mask")
def scatter_exch(
    t: Translator, code: str, base: str, value: str, index: Operand, mask: str
) -> Operand:
    """`scatter_exch(T, p[k], v, x, m)`."""
    return _exchanged(t.f, code, base, [value], index, mask, "atomicrmw xchg ptr {at}, {kind} {0}")


@statement("type pointer operand operand index mask")
def scatter_cas(
    t: Translator, code: str, base: str, expected: str, value: str, index: Operand, mask: str
) -> Operand:
    """`scatter_cas(T, p[k], cmp, v, x, m)`."""
    swap = f"cmpxchg ptr {{at}}, {{kind}} {{0}}, {{kind}} {{1}}{t.f.scope} monotonic"
    return _exchanged(t.f, code, base, [expected, value], index, mask, swap)


def _exchanged(
    f: Function, code: str, base: str, values: list[str], index: Operand, mask: str, how: str
) -> Operand:
    """Returns the memory contents before an instruction, for each lane in turn; floats as their
    bits."""
    word = f"u{BITS[code]}" if code in FLOATS else code
    operands = [(word, reinterpret(f, word, code, v)) for v in values]
    with each_lane(f, mask, [*operands, index], word) as ((*given, at), result):
        kind = MEMORY[word]
        at = element_address(f, kind, base, index[0], at)
        instruction = how.format(*given, at=at, kind=kind)
        old = f.op(f"{instruction} monotonic, align {BYTES[word]}")
        if how.startswith("cmpxchg"):
            old = f.op(f"extractvalue {{{kind}, i1}} {old}, 0")
        result.append(old)
    return code, reinterpret(f, code, word, result[0])
