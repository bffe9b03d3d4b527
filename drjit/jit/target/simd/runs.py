"""Reductions of runs of consecutive elements, one run a lane."""

import ast

from .atomic import check_reduction, combine
from .conversion import convert
from .ir import BYTES, MEMORY, Function, Value
from .long_sum import SHORT, is_long
from .long_sum import add as add_long
from .loops import choose, loop
from .memory import each_lane, element_address, safe_index
from .reduction import accumulator, horizontal, identity, without_nan
from .translate import CALLS, Translator


def block_reduce(
    t: Translator,
    kind: ast.expr,
    op_name: ast.expr,
    p: ast.expr,
    x: ast.expr,
    n: ast.expr,
    m: ast.expr,
) -> Value:
    """`block_reduce(T, 'add', p[k], x, n, m)`: runs of up to a vector all at once, longer ones one
    after the other.
    """
    f, code, op = t.f, t.type(kind), t.text(op_name)
    check_reduction(op, code)
    base = t.pointer(p)
    index, mask = t.index(x), t.mask(m)
    length_code, length = t.index(n)
    count = f.op(f"extractelement {f.vector[length_code]} {length}, i32 0")
    if length_code == "u32":
        count = f.op(f"zext i32 {count} to i64")
    # A mask is computed with as the byte that it is in memory.
    element = "u8" if code == "mask" else code
    acc = accumulator(element)
    vector = f.vector[acc]
    runs = f, op, element, base, index, count, mask

    def longer() -> list[str]:
        if not is_long(op, acc):
            return [_long_runs(*runs)]
        few = f.op(f"icmp ule i64 {count}, {SHORT * f.lanes}")
        sums = f, element, base, index, count, mask
        return choose(f, few, lambda: [_long_runs(*runs)], lambda: [_long_sums(*sums)], [vector])

    (result,) = choose(
        f,
        f.op(f"icmp ule i64 {count}, {f.lanes}"),
        lambda: [_short_runs(*runs)],
        longer,
        [vector],
    )
    choice = f"{f.vector['mask']} {mask}, {vector} {result}, {vector} zeroinitializer"
    return code, convert(f, code, acc, f.op(f"select {choice}"))


def _part(f: Function, op: str, code: str, address: str, inside: str | None) -> str:
    """The elements of a vector; the identity in place of those that are not inside of the run.

    Every buffer may be read for a whole packet beyond its end.
    """
    acc = accumulator(code)
    x = f.op(f"load {f.vector[code]}, ptr {address}, align {BYTES[code]}")
    x = convert(f, acc, code, x)
    if inside is None:
        return x
    vector, neutral = f.vector[acc], f.constant(acc, identity(op, acc))
    return f.op(f"select {f.vector['mask']} {inside}, {vector} {x}, {vector} {neutral}")


def _inside(f: Function, count: str) -> str:
    few = f.splat("u32", f.op(f"trunc i64 {count} to i32"))
    return f.op(f"icmp ult {f.vector['u32']} <{f.types.iota}>, {few}")


def _short_runs(
    f: Function, op: str, code: str, base: str, index: Value, count: str, mask: str
) -> str:
    """A vector for each run. Pairs of vectors are combined until a single one holds one total a
    lane.
    """
    acc, lanes = accumulator(code), f.lanes
    vector, index_code = f.vector[acc], index[0]
    start = safe_index(f, *index, mask)
    inside = _inside(f, count)
    parts = []
    for k in range(lanes):
        first = f.op(f"extractelement {f.vector[index_code]} {start}, i32 {k}")
        address = element_address(f, MEMORY[code], base, index_code, first)
        parts.append(without_nan(f, op, acc, _part(f, op, code, address, inside)))
    even, odd = (
        f"<{lanes} x i32> <{', '.join([f'i32 {2 * k + j}' for k in range(lanes)])}>" for j in (0, 1)
    )
    while len(parts) > 1:
        joined = []
        for a, b in zip(parts[::2], parts[1::2], strict=True):
            x, y = (
                f.op(f"shufflevector {vector} {a}, {vector} {b}, {places}")
                for places in (even, odd)
            )
            joined.append(combine(f, op, acc, x, y, vector=True))
        parts = joined
    return parts[0]


def _long_runs(
    f: Function, op: str, code: str, base: str, index: Value, count: str, mask: str
) -> str:
    """Whole vectors of a run, then a last one with the identity beyond the end of the run."""
    acc, lanes = accumulator(code), f.lanes
    vector, neutral = f.vector[acc], f.constant(acc, identity(op, acc))

    def body(elements: list[str]) -> str:
        run = element_address(f, MEMORY[code], base, index[0], elements[0])
        origin, again, tail = f.block, f.new_block(), f.new_block()
        f.do(f"br label %{again}")
        f.start(again)
        line, j, total = len(f.lines), f.op(""), f.op("")
        address = f.op(f"getelementptr {MEMORY[code]}, ptr {run}, i64 {j}")
        result = combine(f, op, acc, _part(f, op, code, address, None), total, vector=True)
        after = f.op(f"add i64 {j}, {lanes}")
        f.lines[line] = f"{j} = phi i64 [0, %{origin}], [{after}, %{again}]"
        f.lines[line + 1] = f"{total} = phi {vector} [{neutral}, %{origin}], [{result}, %{again}]"
        left = f.op(f"sub i64 {count}, {after}")
        f.branch(f.op(f"icmp uge i64 {left}, {lanes}"), again, tail)
        f.start(tail)
        address = f.op(f"getelementptr {MEMORY[code]}, ptr {run}, i64 {after}")
        x = _part(f, op, code, address, _inside(f, left))
        return horizontal(f, op, acc, combine(f, op, acc, x, result, vector=True))

    return each_lane(f, mask, [index], body, acc)


def _long_sums(f: Function, code: str, base: str, index: Value, count: str, mask: str) -> str:
    """The same for sums that round, of more than a few vectors."""
    acc, lanes = accumulator(code), f.lanes
    vector, neutral = f.vector[acc], f.constant(acc, -0.0)
    rest = f.op(f"urem i64 {count}, {lanes}")
    whole = f.op(f"sub i64 {count}, {rest}")
    inside = _inside(f, rest)

    def body(elements: list[str]) -> str:
        run = element_address(f, MEMORY[code], base, index[0], elements[0])

        def place(j: str) -> str:
            return f.op(f"getelementptr {MEMORY[code]}, ptr {run}, i64 {j}")

        def short(first: str, long: list[str]) -> tuple[str, str]:
            far = f.op(f"add i64 {first}, {SHORT * lanes}")
            end = f.op(f"call i64 @llvm.smin.i64(i64 {far}, i64 {whole})")

            def term(j: str, total: list[str]) -> list[str]:
                x = _part(f, "add", code, place(j), None)
                return [combine(f, "add", acc, x, total[0], vector=True)]

            (total,) = loop(f, first, end, str(lanes), [(vector, neutral)], term)
            return add_long(f, vector, long, total)

        long = loop(f, "0", whole, str(SHORT * lanes), [(vector, neutral)] * 2, short)
        x = _part(f, "add", code, place(whole), inside)
        total, _ = add_long(f, vector, long, x)
        return horizontal(f, "add", acc, total)

    return each_lane(f, mask, [index], body, acc)


CALLS["block_reduce"] = block_reduce
