"""Products of a matrix with a vector of every lane: a register-blocked kernel over rows of lanes.

The accumulators are a block of results, features times lanes; each step of the innermost loop adds
the products of a column of the matrix, whose elements are broadcast from memory, and a row of the
vector. The transposed product has the strides of the matrix swapped, so nothing is copied.
"""

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from . import llvm
from .feature_loop import Product
from .ir import BYTES, FLOATS, SCALAR, Function, KernelError, Value
from .loops import address, load, loop, splat, suffix, vector, width
from .memory import concatenated
from .reduction import accumulator
from .translate import CALLS, Translator
from .vector import VectorTranslator

# Accumulators below which a sum is split: a fused multiply-add waits for the one before it.
_IN_FLIGHT = 8


class Block(NamedTuple):
    """What the innermost loop works on: element type, lanes of a register, rows and registers of
    accumulators, and the steps from one row, and one term of the sums, to the next in the operands.
    """

    code: str
    lanes: int
    rows: int
    registers: int
    a_row: int
    a_term: int
    b_term: int


def registers_across(count: int) -> int:
    """How many registers next to each other a block takes of so many."""
    most = 4 if llvm.register_bytes() == 64 else 2
    groups = -(-count // most)
    return -(-count // groups)


def rows_down(count: int, registers: int) -> int:
    """How many rows a block has, of so many: few enough for the registers, and of equal heights."""
    most = min((24 if llvm.register_bytes() == 64 else 12) // registers, 16)
    for rows in range(most, most * 2 // 3, -1):
        if count % rows == 0:
            return rows
    return -(-count // -(-count // most))


def accumulated(
    f: Function, s: Block, terms: int, a: str, b: str, start: Sequence[str]
) -> list[str]:
    """The accumulators after so many terms: `start[r][c] + sum_k a[r, k] * b[k][c]`."""
    kind, element = vector(s.code, s.lanes), SCALAR[s.code]
    fma = f"call {kind} @llvm.fma.{suffix(s.code, s.lanes)}"
    size = s.rows * s.registers
    split = 1
    while size * split < _IN_FLIGHT and split * 4 <= terms:
        split *= 2

    def some(k: str, total: Sequence[str], number: int) -> list[str]:
        result = list(total)
        row = address(f, s.code, b, _times(f, k, s.b_term))
        first = address(f, s.code, a, _times(f, k, s.a_term))
        for u in range(number):
            x = [
                load(
                    f,
                    s.code,
                    s.lanes,
                    address(f, s.code, row, str(u * s.b_term + c * s.lanes)),
                )
                for c in range(s.registers)
            ]
            for r in range(s.rows):
                place = address(f, s.code, first, str(u * s.a_term + r * s.a_row))
                y = f.op(f"load {element}, ptr {place}, align {BYTES[s.code]}")
                y = splat(f, element, s.lanes, y)
                for c in range(s.registers):
                    n = u * size + r * s.registers + c
                    result[n] = f.op(f"{fma}({kind} {y}, {kind} {x[c]}, {kind} {result[n]})")
        return result

    total = [*start, *["zeroinitializer"] * (size * (split - 1))]
    whole = terms // split * split
    if whole == split:
        total = some("0", total, split)
    else:
        carried = [(kind, x) for x in total]
        total = loop(f, "0", str(whole), str(split), carried, lambda k, t: some(k, t, split))
    if whole < terms:
        total = some(str(whole), total, terms - whole)
    while split > 1:
        split //= 2
        total = [
            f.op(f"fadd {kind} {total[n]}, {total[n + size * split]}") for n in range(size * split)
        ]
    return list(total)


def _times(f: Function, k: str, step: int) -> str:
    if k.isdigit():
        return str(int(k) * step)
    return k if step == 1 else f.op(f"mul nsw i64 {k}, {step}")


def strips(f: Function, count: int, step: int, body) -> None:
    """`body(start, size)` for the parts of a range: a loop over the whole ones, then the rest."""
    whole = count // step * step
    if whole > step:
        loop(f, "0", str(whole), str(step), (), lambda k, _: body(k, step) or ())
    elif whole:
        body("0", step)
    if whole < count:
        body(str(whole), count - whole)


class _Shape(NamedTuple):
    """A product: element type, size, steps of the matrix, and whether there is a bias."""

    code: str
    rows: int
    columns: int
    a_row: int
    a_term: int
    bias: bool


def _product(s: _Shape, f: Function, pointers: Sequence[str], use: Callable[..., None]) -> None:
    """Calls `use(first, rows)` with the rows of the result from `first` on. The pointers are the
    matrix, the vector, and the bias if there is one.
    """
    held = accumulator(s.code)
    lanes = min(width(held), f.lanes)
    registers = f.lanes // lanes
    down = rows_down(s.rows, registers)
    kind = vector(held, lanes)

    def rows_from(first: str, number: int) -> None:
        a = address(f, held, pointers[0], _times(f, first, s.a_row))
        block = Block(held, lanes, number, registers, s.a_row, s.a_term, f.lanes)
        start = ["zeroinitializer"] * number * registers
        if s.bias:
            source = address(f, held, pointers[2], first)
            for r in range(number):
                place = address(f, held, source, str(r))
                x = f.op(f"load {SCALAR[held]}, ptr {place}, align {BYTES[held]}")
                x = splat(f, SCALAR[held], lanes, x)
                start[r * registers : (r + 1) * registers] = [x] * registers
        total = accumulated(f, block, s.columns, a, pointers[1], start)
        if s.code == "f16":
            half = vector(s.code, lanes)
            total = [f.op(f"fptrunc {kind} {x} to {half}") for x in total]
            total = [f.op(f"fpext {half} {x} to {kind}") for x in total]
        use(
            first,
            [
                concatenated(f, SCALAR[held], lanes, total[r : r + registers])
                for r in range(0, len(total), registers)
            ],
        )

    strips(f, s.rows, down, rows_from)


def element(f: Function, t: Translator, code: str, p: ast.expr, offset: ast.expr) -> str:
    """The address of the element of a buffer that a word of the parameter block gives."""
    k, o = t.parameter(p), f.word_here(t.parameter(offset))
    return f.op(f"getelementptr {SCALAR[code]}, ptr {f.pointer(k)}, i64 {o}")


def matvec(
    t: VectorTranslator,
    kind: ast.expr,
    a: ast.expr,
    offset: ast.expr,
    rows: ast.expr,
    columns: ast.expr,
    stride: ast.expr,
    transposed: ast.expr,
    x: ast.expr,
    *bias: ast.expr,
) -> Value:
    """`matvec(T, p[a], p[o], rows, columns, stride, transposed, x[, p[b], p[ob]])`."""
    f, code, v = t.f, t.type(kind), t.vector(x)
    if code not in FLOATS:
        raise KernelError(f"there is no matrix product of {code}")
    m, n, step = t.integer(rows), t.integer(columns), t.integer(stride)
    swapped = ast.literal_eval(transposed)
    a_row, a_term = step, 1
    if swapped:
        m, n, a_row, a_term = n, m, a_term, a_row
    if (v.code, v.count) != (code, n):
        raise KernelError(f"{ast.unparse(x)} is {v.code}x{v.count}, not {code}x{n}")
    held = accumulator(code)
    pointers = [element(f, t, held, a, offset), t.place(v)]
    if bias:
        pointers.append(element(f, t, held, *bias))
    shape = _Shape(code, m, n, a_row, a_term, bool(bias))
    return t.multiply(Product(partial(_product, shape), shape, v, pointers), code, m)


CALLS["matvec"] = matvec
