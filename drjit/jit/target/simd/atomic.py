"""Read-modify-write operations on memory: scatter-reductions, counters, exchanges; and the
combination of two partial results.
"""

import ast

from ...dtype import BY_CODE
from ...op import REDUCTIONS
from .conversion import bitcast
from .ir import BITS, BYTES, FLOATS, INTEGERS, MEMORY, SCALAR, SIGNED, Function, KernelError, Value
from .memory import each_lane, element_address, prefetch
from .translate import CALLS, Translator


def combine(f: Function, op: str, code: str, x: str, y: str, *, vector: bool) -> str:
    """Two partial results of a reduction made one; scalars or vectors, masks as `i1` vectors or
    bytes.

    `min` and `max` keep `y` where `x` is NaN, so a NaN never enters an accumulator `y`.
    """
    kind = f.vector[code] if vector else MEMORY[code]
    if code == "f16":
        wide = f.vector["f32"] if vector else "float"
        x, y = (f.op(f"fpext {kind} {v} to {wide}") for v in (x, y))
        result = combine(f, op, "f32", x, y, vector=vector)
        return f.op(f"fptrunc {wide} {result} to {kind}")
    if op in ("min", "max"):
        relation = "lt" if op == "min" else "gt"
        sign = "o" if code in FLOATS else "s" if code in SIGNED else "u"
        compare = "fcmp" if code in FLOATS else "icmp"
        condition = f.op(f"{compare} {sign}{relation} {kind} {x}, {y}")
        test = f.vector["mask"] if vector else "i1"
        return f.op(f"select {test} {condition}, {kind} {x}, {kind} {y}")
    letter = "f" if code in FLOATS and op in ("add", "mul") else ""
    return f.op(f"{letter}{op} {kind} {x}, {y}")


def updated(f: Function, op: str, code: str, x: str, old: str, *, vector: bool = False) -> str:
    """What memory that holds `old` becomes. Other than an accumulator, it may hold a NaN, which
    `min` and `max` replace."""
    result = combine(f, op, code, x, old, vector=vector)
    if op not in ("min", "max") or code not in FLOATS:
        return result
    kind, test = (f.vector[code], f.vector["mask"]) if vector else (MEMORY[code], "i1")
    undefined = f.op(f"fcmp uno {kind} {old}, {old}")
    return f.op(f"select {test} {undefined}, {kind} {x}, {kind} {result}")


def check_reduction(op: str, code: str) -> None:
    """Raises KernelError for an operation that an element type lacks."""
    if op not in REDUCTIONS or not REDUCTIONS[op].accepts(BY_CODE[code]):
        raise KernelError(f"a reduction '{op}' of {code} does not exist")


def scatter_reduce(
    t: Translator,
    kind: ast.expr,
    op_name: ast.expr,
    mode: ast.expr,
    p: ast.expr,
    v: ast.expr,
    x: ast.expr,
    m: ast.expr,
) -> None:
    """`scatter_reduce(T, 'add', 'direct', p[k], v, x, m)`."""
    f, code, op, how = t.f, t.type(kind), t.text(op_name), t.text(mode)
    check_reduction(op, code)
    base = t.pointer(p)
    value = t.typed(v, code)
    index, mask = t.index(x), t.mask(m)
    if how not in ("direct", "no_conflicts"):
        raise KernelError(f"the mode {how!r} does not exist")

    def body(elements: list[str]) -> None:
        element = MEMORY[code]
        address = element_address(f, element, base, index[0], elements[1])
        if how == "direct":
            atomic_update(f, op, code, address, elements[0])
            return
        old = f.op(f"load {element}, ptr {address}, align {BYTES[code]}")
        new = updated(f, op, code, elements[0], old)
        f.do(f"store {element} {new}, ptr {address}, align {BYTES[code]}")

    if how == "direct":
        prefetch(f, code, base, index)
    each_lane(f, mask, [value, index], body)


def atomic_update(f: Function, op: str, code: str, address: str, value: str) -> None:
    """Combines a scalar into memory atomically, if need be in a compare-and-swap loop."""
    element, size = MEMORY[code], BYTES[code]
    if op == "add" and code in ("f32", "f64"):
        f.op(f"atomicrmw fadd ptr {address}, {element} {value} monotonic, align {size}")
        return
    if code not in FLOATS and op != "mul":
        prefix = "" if op not in ("min", "max") or code in SIGNED else "u"
        f.op(f"atomicrmw {prefix}{op} ptr {address}, {element} {value} monotonic, align {size}")
        return
    word = f"i{8 * size}"
    start = f.op(f"load atomic {word}, ptr {address} monotonic, align {size}")
    origin, again, done = f.block, f.new_block(), f.new_block()
    f.do(f"br label %{again}")
    f.start(again)
    line, seen = len(f.lines), f.op("")
    old = f.op(f"bitcast {word} {seen} to {element}")
    new = updated(f, op, code, value, old)
    new = f.op(f"bitcast {element} {new} to {word}")
    swap = f"cmpxchg weak ptr {address}, {word} {seen}, {word} {new} monotonic monotonic"
    pair = f.op(f"{swap}, align {size}")
    found = f.op(f"extractvalue {{{word}, i1}} {pair}, 0")
    f.lines[line] = f"{seen} = phi {word} [{start}, %{origin}], [{found}, %{again}]"
    f.branch(f.op(f"extractvalue {{{word}, i1}} {pair}, 1"), done, again)
    f.start(done)


def scatter_inc(t: Translator, kind: ast.expr, p: ast.expr, x: ast.expr, m: ast.expr) -> Value:
    """`scatter_inc(T, p[k], x, m)`."""
    f, code = t.f, t.type(kind)
    if code not in INTEGERS:
        raise KernelError("scatter_inc counts in integers")
    base = t.pointer(p)
    index, mask = t.index(x), t.mask(m)
    element = SCALAR[code]

    def body(elements: list[str]) -> str:
        address = element_address(f, element, base, index[0], elements[0])
        return f.op(f"atomicrmw add ptr {address}, {element} 1 monotonic, align {BYTES[code]}")

    return code, each_lane(f, mask, [index], body, code)


def scatter_exch(
    t: Translator, kind: ast.expr, p: ast.expr, v: ast.expr, x: ast.expr, m: ast.expr
) -> Value:
    """`scatter_exch(T, p[k], v, x, m)`."""
    f, code = t.f, t.type(kind)
    base = t.pointer(p)
    word, value = _as_word(f, t.typed(v, code))
    index, mask = t.index(x), t.mask(m)

    def body(elements: list[str]) -> str:
        element = MEMORY[word]
        address = element_address(f, element, base, index[0], elements[1])
        size = BYTES[word]
        return f.op(
            f"atomicrmw xchg ptr {address}, {element} {elements[0]} monotonic, align {size}"
        )

    old = each_lane(f, mask, [(word, value), index], body, word)
    return code, old if code == word else bitcast(f, code, word, old)


def scatter_cas(
    t: Translator,
    kind: ast.expr,
    p: ast.expr,
    cmp: ast.expr,
    v: ast.expr,
    x: ast.expr,
    m: ast.expr,
) -> Value:
    """`scatter_cas(T, p[k], cmp, v, x, m)`."""
    f, code = t.f, t.type(kind)
    base = t.pointer(p)
    word, expected = _as_word(f, t.typed(cmp, code))
    _, value = _as_word(f, t.typed(v, code))
    index, mask = t.index(x), t.mask(m)

    def body(elements: list[str]) -> str:
        element = MEMORY[word]
        address = element_address(f, element, base, index[0], elements[2])
        pair = f.op(
            f"cmpxchg ptr {address}, {element} {elements[0]}, {element} {elements[1]}"
            f" monotonic monotonic, align {BYTES[word]}"
        )
        return f.op(f"extractvalue {{{element}, i1}} {pair}, 0")

    old = each_lane(f, mask, [(word, expected), (word, value), index], body, word)
    return code, old if code == word else bitcast(f, code, word, old)


def _as_word(f: Function, value: Value) -> Value:
    """A float as the integer of its bits; anything else as it is."""
    code, x = value
    if code not in FLOATS:
        return value
    word = f"u{BITS[code]}"
    return word, bitcast(f, word, code, x)


CALLS.update(
    {
        "scatter_reduce": scatter_reduce,
        "scatter_inc": scatter_inc,
        "scatter_exch": scatter_exch,
        "scatter_cas": scatter_cas,
    }
)
