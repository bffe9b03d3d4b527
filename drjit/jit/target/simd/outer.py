"""Sums over the lanes: outer products and vectors, added to the private copy of a thread.

The rows of one operand are transposed through registers, so that the lanes become the terms of the
sums; the rest is the innermost loop of `matvec`, whose accumulators come from memory and go back.
Lanes that do not take part become zeros.
"""

import ast

from .ir import FLOATS, SCALAR, Function, KernelError
from .loops import address, load, loop, store, vector, width
from .matvec import Block, accumulated, registers_across, rows_down, strips
from .reduction import accumulator, note_expansion, private_copy
from .translate import CALLS
from .vector import VectorTranslator
from .vector_memory import Vector


def _lane_masks(f: Function, bits: str, lanes: int) -> list[str]:
    """The lanes that take part, as masks of one register each."""
    whole = f.op(f"bitcast i{f.lanes} {bits} to {f.vector['mask']}")
    return [
        f.op(
            f"shufflevector {f.vector['mask']} {whole}, {f.vector['mask']} poison, "
            f"<{lanes} x i32> <{', '.join([f'i32 {first + k}' for k in range(lanes)])}>"
        )
        for first in range(0, f.lanes, lanes)
    ]


def _without_others(f: Function, kind: str, lanes: int, x: str, mask: str) -> str:
    return f.op(f"select <{lanes} x i1> {mask}, {kind} {x}, {kind} zeroinitializer")


def _leave_if_none(f: Function, bits: str) -> None:
    none, some = f.new_block(), f.new_block()
    f.branch(f.op(f"icmp eq i{f.lanes} {bits}, 0"), none, some)
    f.start(none)
    f.do("ret void")
    f.start(some)


def _shuffled(f: Function, kind: str, lanes: int, x: str, y: str, step: int, high: bool) -> str:
    """Of two rows, the groups of `step` elements with an even (odd) number, alternating."""
    places = []
    for k in range(lanes):
        odd = bool(k & step)
        source = k | step if high else k & ~step
        places.append((lanes if odd else 0) + source)
    selector = ", ".join([f"i32 {k}" for k in places])
    return f.op(f"shufflevector {kind} {x}, {kind} {y}, <{lanes} x i32> <{selector}>")


def _square_transposed(f: Function, kind: str, lanes: int, rows: list[str]) -> list[str]:
    """A square of elements with rows and columns swapped."""
    step = 1
    while step < lanes:
        rows = [
            _shuffled(f, kind, lanes, rows[k & ~step], rows[k | step], step, bool(k & step))
            for k in range(lanes)
        ]
        step *= 2
    return rows


def _transposed(f: Function, held: str, lanes: int, columns: int, bits: str) -> tuple[str, int]:
    """The vector `%2` lane by lane, with zeros for the lanes that do not take part."""
    stride = -(-columns // lanes) * lanes
    kind = vector(held, lanes)
    turned = f.once("%turned", f"alloca [{stride * f.lanes} x {SCALAR[held]}], align 64")
    masks = _lane_masks(f, bits, lanes)

    def square(column: str, number: int) -> None:
        start = _row(f, held, "%2", column)
        target = address(f, held, turned, column)
        for group, mask in enumerate(masks):
            rows = ["zeroinitializer"] * lanes
            for k in range(number):
                place = address(f, held, start, str(k * f.lanes + group * lanes))
                x = load(f, held, lanes, place)
                rows[k] = _without_others(f, kind, lanes, x, mask)
            for k, x in enumerate(_square_transposed(f, kind, lanes, rows)):
                lane = group * lanes + k
                store(f, held, lanes, x, address(f, held, target, str(lane * stride)))

    strips(f, columns, lanes, square)
    return turned, stride


def _row(f: Function, held: str, base: str, number: str) -> str:
    if number.isdigit():
        return address(f, held, base, str(int(number) * f.lanes))
    return address(f, held, base, f.op(f"mul nsw i64 {number}, {f.lanes}"))


def _masked_rows(f: Function, held: str, lanes: int, rows: int, bits: str) -> str:
    """The vector `%1`, or a copy of it with zeros for the lanes that do not take part."""
    kind = vector(held, lanes)
    copy = f.once("%copy", f"alloca [{rows * f.lanes} x {SCALAR[held]}], align 64")
    full = f.op(f"icmp eq i{f.lanes} {bits}, -1")
    origin, inside, done = f.block, f.new_block(), f.new_block()
    f.branch(full, done, inside)
    f.start(inside)
    masks = _lane_masks(f, bits, lanes)

    def one(number: str, _: list[str]) -> tuple[()]:
        source, target = _row(f, held, "%1", number), _row(f, held, copy, number)
        for group, mask in enumerate(masks):
            offset = str(group * lanes)
            x = load(f, held, lanes, address(f, held, source, offset))
            x = _without_others(f, kind, lanes, x, mask)
            store(f, held, lanes, x, address(f, held, target, offset))
        return ()

    loop(f, "0", str(rows), "1", (), one)
    end = f.block
    f.do(f"br label %{done}")
    f.start(done)
    return f.op(f"phi ptr [%1, %{origin}], [{copy}, %{end}]")


def _emit_outer(f: Function, held: str, rows: int, columns: int, stride: int) -> None:
    """The function: `%0` the sums, `%1` and `%2` the vectors, `%3` the lanes that take part."""
    lanes = min(width(held), f.lanes)
    _leave_if_none(f, "%3")
    turned, step = _transposed(f, held, lanes, columns, "%3")
    left = _masked_rows(f, held, lanes, rows, "%3")
    across = registers_across(-(-columns // lanes))

    def columns_from(first: str, number: int) -> None:
        b, target = address(f, held, turned, first), address(f, held, "%0", first)
        registers = -(-number // lanes)
        masks = [""] * registers
        if number % lanes:
            inside = [f"i1 {str(k < number % lanes).lower()}" for k in range(lanes)]
            masks[-1] = f"<{', '.join(inside)}>"

        def rows_from(top: str, height: int) -> None:
            a = _row(f, held, left, top)
            line = top if top == "0" else f.op(f"mul nsw i64 {top}, {stride}")
            corner = address(f, held, target, line)
            places = [
                (address(f, held, corner, str(r * stride + c * lanes)), masks[c])
                for r in range(height)
                for c in range(registers)
            ]
            start = [load(f, held, lanes, place, mask) for place, mask in places]
            block = Block(held, lanes, height, registers, f.lanes, 1, step)
            sums = accumulated(f, block, f.lanes, a, b, start)
            for x, (place, mask) in zip(sums, places, strict=True):
                store(f, held, lanes, x, place, mask)

        strips(f, rows, rows_down(rows, registers), rows_from)

    strips(f, columns, across * lanes, columns_from)


def _emit_accumulate(f: Function, held: str, rows: int) -> None:
    """The function: `%0` the sums, `%1` the vector, `%2` the lanes that take part."""
    lanes = min(width(held), f.lanes)
    kind = vector(held, lanes)
    _leave_if_none(f, "%2")
    masks = _lane_masks(f, "%2", lanes)

    def square(first: str, number: int) -> None:
        source = _row(f, held, "%1", first)
        parts = []
        for k in range(number):
            sums = []
            for group, mask in enumerate(masks):
                place = address(f, held, source, str(k * f.lanes + group * lanes))
                x = load(f, held, lanes, place)
                sums.append(_without_others(f, kind, lanes, x, mask))
            while len(sums) > 1:
                a, b, *rest = sums
                sums = [*rest, f.op(f"fadd {kind} {a}, {b}")]
            parts += sums
        parts += ["zeroinitializer"] * (lanes - number)
        # Pairs of rows, halved and added, until lane k holds the sum of row k.
        step = 1
        while len(parts) > 1:
            parts = [
                f.op(
                    f"fadd {kind} {_shuffled(f, kind, lanes, x, y, step, False)}, "
                    f"{_shuffled(f, kind, lanes, x, y, step, True)}"
                )
                for x, y in zip(parts[::2], parts[1::2], strict=True)
            ]
            step *= 2
        target = address(f, held, "%0", first)
        inside = [f"i1 {str(k < number).lower()}" for k in range(lanes)]
        mask = "" if number == lanes else f"<{', '.join(inside)}>"
        before = load(f, held, lanes, target, mask)
        store(f, held, lanes, f.op(f"fadd {kind} {before}, {parts[0]}"), target, mask)

    strips(f, rows, lanes, square)


def _target(
    t: VectorTranslator, kind: ast.expr, p: ast.expr, a: ast.expr, n: ast.expr, o: ast.expr
) -> tuple[str, str]:
    """The element type, and where this thread adds up."""
    f, code = t.f, t.type(kind)
    if code not in FLOATS:
        raise KernelError(f"there are no such sums of {code}")
    copy = private_copy(t, code, p, a, n)
    note_expansion(t, "add", code, p, a, n)
    offset = f.word_here(t.parameter(o))
    return code, f.op(f"getelementptr {SCALAR[accumulator(code)]}, ptr {copy}, i64 {offset}")


def _operand(t: VectorTranslator, code: str, e: ast.expr, count: int) -> Vector:
    v = t.vector(e)
    if (v.code, v.count) != (code, count):
        raise KernelError(f"{ast.unparse(e)} is {v.code}x{v.count}, not {code}x{count}")
    return v


def outer(
    t: VectorTranslator,
    kind: ast.expr,
    p: ast.expr,
    a: ast.expr,
    n: ast.expr,
    offset: ast.expr,
    rows: ast.expr,
    columns: ast.expr,
    stride: ast.expr,
    y: ast.expr,
    x: ast.expr,
    m: ast.expr,
) -> None:
    """`outer(T, p[k], p[w], p[n], p[o], rows, columns, stride, y, x, m)`."""
    f = t.f
    code, target = _target(t, kind, p, a, n, offset)
    down, across, step = t.integer(rows), t.integer(columns), t.integer(stride)
    left, right = _operand(t, code, y, down), _operand(t, code, x, across)
    bits = f.bits(t.mask(m))
    t.flush([v for v in (left, right) if v.op is not None])
    held = accumulator(code)
    symbol = t.module.routine(
        f"outer.{held}.{down}x{across}.{step}",
        ("ptr noalias", "ptr readonly", "ptr readonly", f"i{f.lanes}"),
        lambda g: _emit_outer(g, held, down, across, step),
    )
    operands = f"ptr {target}, ptr {t.place(left)}, ptr {t.place(right)}, i{f.lanes} {bits}"
    f.do(f"call fastcc void {symbol}({operands})")


def accumulate(
    t: VectorTranslator,
    kind: ast.expr,
    p: ast.expr,
    a: ast.expr,
    n: ast.expr,
    offset: ast.expr,
    y: ast.expr,
    m: ast.expr,
) -> None:
    """`accumulate(T, p[k], p[w], p[n], p[o], y, m)`."""
    f = t.f
    code, target = _target(t, kind, p, a, n, offset)
    v = t.vector(y)
    _operand(t, code, y, v.count)
    bits, held, count = f.bits(t.mask(m)), accumulator(code), v.count
    symbol = t.module.routine(
        f"accumulate.{held}.{count}",
        ("ptr noalias", "ptr readonly", f"i{f.lanes}"),
        lambda g: _emit_accumulate(g, held, count),
    )
    f.do(f"call fastcc void {symbol}(ptr {target}, ptr {t.place(v)}, i{f.lanes} {bits})")


CALLS.update({"outer": outer, "accumulate": accumulate})
