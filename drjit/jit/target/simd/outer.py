"""Sums over the lanes: outer products and vectors, added to a thread's private copy.

The rows of one operand are transposed through registers, so that the lanes become the terms of the
sums. The rest is the innermost loop of `matvec`, whose accumulators are loaded from memory and
stored back. Inactive lanes become zeros.
"""

import ast

from .arguments import statement
from .ir import FLOATS, SCALAR, Function, KernelError
from .loops import address, alternated, load, loop, store, transposed, vector, when, width
from .matvec import Tile, accumulated, registers_across, rows_down, strips, times
from .reduction import accumulator, private_copy
from .vector import VectorTranslator


def _lane_masks(f: Function, bits: str, lanes: int) -> list[str]:
    """Returns the active lanes as masks of one register each."""
    kind = f.vector["mask"]
    whole = f.op(f"bitcast i{f.lanes} {bits} to {kind}")
    firsts = range(0, f.lanes, lanes)
    return [f.shuffle(kind, whole, "poison", range(k, k + lanes)) for k in firsts]


def _first(count: int, lanes: int) -> str:
    """Returns the mask of the first lanes of a register, or none if these are all."""
    if count == lanes:
        return ""
    return f"<{', '.join([f'i1 {str(k < count).lower()}' for k in range(lanes)])}>"


def _leave_if_none(f: Function, bits: str) -> None:
    none, some = f.new_block(), f.new_block()
    f.branch(f.op(f"icmp eq i{f.lanes} {bits}, 0"), none, some)
    f.start(none)
    f.do("ret void")
    f.start(some)


def _turned(f: Function, code: str, lanes: int, columns: int, bits: str) -> tuple[str, int]:
    """Returns the vector `%2` lane by lane, with zeros for inactive lanes."""
    stride, kind = -(-columns // lanes) * lanes, vector(code, lanes)
    turned = f.once("%turned", f"alloca [{stride * f.lanes} x {SCALAR[code]}], align 64")
    masks = _lane_masks(f, bits, lanes)
    for column, number in strips(f, columns, lanes):
        start = address(f, code, "%2", times(f, column, f.lanes))
        target = address(f, code, turned, column)
        for group, mask in enumerate(masks):
            places = [k * f.lanes + group * lanes for k in range(number)]
            rows = [load(f, code, lanes, address(f, code, start, place), mask) for place in places]
            rows += ["zeroinitializer"] * (lanes - number)
            for k, x in enumerate(transposed(f, kind, rows)):
                lane = group * lanes + k
                store(f, code, lanes, x, address(f, code, target, lane * stride))
    return turned, stride


def _masked_rows(f: Function, code: str, lanes: int, rows: int, bits: str) -> str:
    """Returns the vector `%1`, or a copy of it with zeros for inactive lanes."""
    copy = f.once("%copy", f"alloca [{rows * f.lanes} x {SCALAR[code]}], align 64")
    with when(f, f.op(f"icmp ne i{f.lanes} {bits}, -1"), [("ptr", "%1")]) as found:
        masks = _lane_masks(f, bits, lanes)
        with loop(f, 0, rows, 1) as (number, _):
            place = times(f, number, f.lanes)
            source, target = (address(f, code, base, place) for base in ("%1", copy))
            for group, mask in enumerate(masks):
                x = load(f, code, lanes, address(f, code, source, group * lanes), mask)
                store(f, code, lanes, x, address(f, code, target, group * lanes))
        found[:] = [copy]
    return found[0]


def _emit_outer(f: Function, code: str, rows: int, columns: int, stride: int) -> None:
    """Emits the function; its parameters are `%0` the sums, `%1` and `%2` the vectors, `%3` the
    active lanes."""
    lanes = min(width(f, code), f.lanes)
    _leave_if_none(f, "%3")
    turned, step = _turned(f, code, lanes, columns, "%3")
    left = _masked_rows(f, code, lanes, rows, "%3")
    across = registers_across(f, -(-columns // lanes)) * lanes
    for first, number in strips(f, columns, across):
        b, target = address(f, code, turned, first), address(f, code, "%0", first)
        registers = -(-number // lanes)
        masks = [_first(min(number - k * lanes, lanes), lanes) for k in range(registers)]
        for top, height in strips(f, rows, rows_down(f, rows, registers)):
            a = address(f, code, left, times(f, top, f.lanes))
            corner = address(f, code, target, times(f, top, stride))
            places = [
                (address(f, code, corner, r * stride + c * lanes), masks[c])
                for r in range(height)
                for c in range(registers)
            ]
            start = [load(f, code, lanes, place, mask) for place, mask in places]
            block = Tile(code, lanes, height, registers, f.lanes, 1, step)
            sums = accumulated(f, block, f.lanes, a, b, start)
            for x, (place, mask) in zip(sums, places, strict=True):
                store(f, code, lanes, x, place, mask)


def _emit_accumulate(f: Function, code: str, rows: int) -> None:
    """Emits the function; its parameters are `%0` the sums, `%1` the vector, `%2` the active
    lanes."""
    lanes = min(width(f, code), f.lanes)
    kind = vector(code, lanes)
    _leave_if_none(f, "%2")
    masks = _lane_masks(f, "%2", lanes)
    for first, number in strips(f, rows, lanes):
        source = address(f, code, "%1", times(f, first, f.lanes))
        parts = []
        for k in range(number):
            groups = enumerate(masks)
            places = [(address(f, code, source, k * f.lanes + g * lanes), m) for g, m in groups]
            sums = [load(f, code, lanes, place, mask) for place, mask in places]
            while len(sums) > 1:
                a, b, *rest = sums
                sums = [*rest, f.op(f"fadd {kind} {a}, {b}")]
            parts += sums
        parts += ["zeroinitializer"] * (lanes - number)
        # Pairs of rows are halved and added until lane k holds the sum of row k.
        step = 1
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            halves = [
                [alternated(f, kind, lanes, *pair, step, high) for high in (False, True)]
                for pair in pairs
            ]
            parts = [f.op(f"fadd {kind} {x}, {y}") for x, y in halves]
            step *= 2
        target, mask = address(f, code, "%0", first), _first(number, lanes)
        before = load(f, code, lanes, target, mask)
        store(f, code, lanes, f.op(f"fadd {kind} {before}, {parts[0]}"), target, mask)


def _target(t: VectorTranslator, code: str, k: int, a: int, n: int, offset: int) -> str:
    """Returns the address where this thread accumulates."""
    if code not in FLOATS:
        raise KernelError(f"there are no such sums of {code}")
    copy = private_copy(t, "add", code, k, a, n)
    return address(t.f, accumulator(code), copy, t.f.word_here(offset))


@statement("type parameter parameter parameter parameter integer integer integer node node mask")
def outer(
    t: VectorTranslator, code: str, k: int, a: int, n: int, offset: int, rows: int, columns: int,
    stride: int, y: ast.expr, x: ast.expr, mask: str,
) -> None:  # fmt: skip
    """`outer(T, p[k], p[w], p[n], p[o], rows, columns, stride, y, x, m)`."""
    f, target, held = t.f, _target(t, code, k, a, n, offset), accumulator(code)
    left, right = t.vector(y, code, rows), t.vector(x, code, columns)
    bits = f.bits(mask)
    t.flush([v for v in (left, right) if v.op is not None])
    symbol = t.module.routine(
        f"outer.{held}.{rows}x{columns}.{stride}",
        ("ptr noalias", "ptr readonly", "ptr readonly", f"i{f.lanes}"),
        lambda g: _emit_outer(g, held, rows, columns, stride),
    )
    operands = f"ptr {target}, ptr {t.place(left)}, ptr {t.place(right)}, i{f.lanes} {bits}"
    f.do(f"call fastcc void {symbol}({operands})")


@statement("type parameter parameter parameter parameter node mask")
def accumulate(
    t: VectorTranslator, code: str, k: int, a: int, n: int, offset: int, y: ast.expr, mask: str
) -> None:
    """`accumulate(T, p[k], p[w], p[n], p[o], y, m)`."""
    f, target, held = t.f, _target(t, code, k, a, n, offset), accumulator(code)
    v = t.vector(y, code)
    bits, count = f.bits(mask), v.count
    symbol = t.module.routine(
        f"accumulate.{held}.{count}",
        ("ptr noalias", "ptr readonly", f"i{f.lanes}"),
        lambda g: _emit_accumulate(g, held, count),
    )
    f.do(f"call fastcc void {symbol}(ptr {target}, ptr {t.place(v)}, i{f.lanes} {bits})")
