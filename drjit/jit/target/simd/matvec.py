"""Products of a matrix with a vector in every lane: a register-blocked kernel over rows of lanes.

The accumulators are a block of results, features times lanes. Each step of the innermost loop adds
the products of a column of the matrix, whose elements are broadcast from memory, and a row of the
vector. The transposed product swaps the strides of the matrix, so nothing is copied.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from .arguments import statement
from .feature_loop import Product
from .ir import FLOATS, SCALAR, Function, KernelError, Value
from .loops import address, cast, concatenated, fma, load, load_splat, loop, vector, width
from .reduction import accumulator
from .translate import Translator
from .vector import VectorTranslator

# With fewer accumulators than this, a sum is split, because a fused multiply-add waits for the
# previous one.
_IN_FLIGHT = 8


class Tile(NamedTuple):
    """The parameters of the innermost loop: element type, lanes of a register, rows and registers
    of accumulators, and the strides in the operands between rows and between terms of the sums.
    """

    code: str
    lanes: int
    rows: int
    registers: int
    a_row: int
    a_term: int
    b_term: int


def registers_across(f: Function, count: int) -> int:
    """Returns the number of adjacent registers in a block, out of `count`."""
    most = 4 if f.machine.register_bytes == 64 else 2
    groups = -(-count // most)
    return -(-count // groups)


def rows_down(f: Function, count: int, registers: int) -> int:
    """Returns the number of rows in a block, out of `count`: few enough for the registers, and such
    that blocks have equal heights."""
    most = min((24 if f.machine.register_bytes == 64 else 12) // registers, 16)
    for rows in range(most, most * 2 // 3, -1):
        if count % rows == 0:
            return rows
    return -(-count // -(-count // most))


def accumulated(
    f: Function, s: Tile, terms: int, a: str, b: str, start: Sequence[str]
) -> list[str]:
    """Returns the accumulators after `count` terms: `start[r][c] + sum_k a[r, k] * b[k][c]`."""
    kind, size, split = vector(s.code, s.lanes), s.rows * s.registers, 1
    while size * split < _IN_FLIGHT and split * 4 <= terms:
        split *= 2

    def some(k: str, total: list[str], number: int) -> None:
        row = address(f, s.code, b, times(f, k, s.b_term))
        first = address(f, s.code, a, times(f, k, s.a_term))
        for u in range(number):
            places = [u * s.b_term + c * s.lanes for c in range(s.registers)]
            x = [load(f, s.code, s.lanes, address(f, s.code, row, place)) for place in places]
            for r in range(s.rows):
                place = address(f, s.code, first, u * s.a_term + r * s.a_row)
                y = load_splat(f, s.code, s.lanes, place)
                for c in range(s.registers):
                    n = u * size + r * s.registers + c
                    total[n] = fma(f, s.code, s.lanes, y, x[c], total[n])

    total = [*start, *["zeroinitializer"] * (size * (split - 1))]
    whole = terms // split * split
    if whole == split:
        some("0", total, split)
    else:
        with loop(f, 0, whole, split, [(kind, x) for x in total]) as (k, total):
            some(k, total, split)
    if whole < terms:
        some(str(whole), total, terms - whole)
    while split > 1:
        split //= 2
        half = size * split
        total = [f.op(f"fadd {kind} {total[n]}, {total[n + half]}") for n in range(half)]
    return total


def times(f: Function, k: str, step: int) -> str:
    """Returns a position times the stride between rows."""
    if k.isdigit():
        return str(int(k) * step)
    return k if step == 1 else f.op(f"mul nsw i64 {k}, {step}")


def strips(f: Function, count: int, step: int) -> Iterator[tuple[str, int]]:
    """Yields the parts of a range, with their start and size: a loop over the whole ones, then the
    rest. The code for a part is emitted once for each of the two.
    """
    whole = count // step * step
    if whole > step:
        with loop(f, 0, whole, step) as (k, _):
            yield k, step
    elif whole:
        yield "0", step
    if whole < count:
        yield str(whole), count - whole


class _Shape(NamedTuple):
    """A product: element type, size, strides of the matrix, and whether there is a bias."""

    code: str
    rows: int
    columns: int
    a_row: int
    a_term: int
    bias: bool


def _product(s: _Shape, f: Function, pointers: Sequence[str], use: Callable[..., None]) -> None:
    """Calls `use(first, rows)` with the rows of the result from `first` on. The pointers are those
    of the matrix, the vector, and the bias if there is one.
    """
    held = accumulator(s.code)
    lanes = min(width(f, held), f.lanes)
    registers = f.lanes // lanes
    for first, number in strips(f, s.rows, rows_down(f, s.rows, registers)):
        a = address(f, held, pointers[0], times(f, first, s.a_row))
        block = Tile(held, lanes, number, registers, s.a_row, s.a_term, f.lanes)
        start = ["zeroinitializer"] * number * registers
        if s.bias:
            source, start = address(f, held, pointers[2], first), []
            for r in range(number):
                start += [load_splat(f, held, lanes, address(f, held, source, r))] * registers
        total = accumulated(f, block, s.columns, a, pointers[1], start)
        rounded = [cast(f, lanes, x, held, s.code) for x in total]
        total = [cast(f, lanes, x, s.code, held) for x in rounded]
        groups = [total[r : r + registers] for r in range(0, len(total), registers)]
        use(first, [concatenated(f, SCALAR[held], lanes, group) for group in groups])


@statement("type node node integer integer integer flag node *node")
def matvec(
    t: VectorTranslator, code: str, a: ast.expr, offset: ast.expr, rows: int, columns: int,
    stride: int, transposed: bool, x: ast.expr, *bias: ast.expr,
) -> Value:  # fmt: skip
    """`matvec(T, p[a], p[o], rows, columns, stride, transposed, x[, p[b], p[ob]])`."""
    if code not in FLOATS:
        raise KernelError(f"there is no matrix product of {code}")
    held, step = accumulator(code), (stride, 1)
    if transposed:
        rows, columns, step = columns, rows, (1, stride)
    v = t.vector(x, code, columns)
    pointers = [_element(t, held, a, offset), t.place(v)]
    if bias:
        pointers.append(_element(t, held, *bias))
    shape = _Shape(code, rows, columns, *step, bool(bias))
    return t.multiply(Product(partial(_product, shape), shape, v, pointers), code, rows)


def _element(t: Translator, code: str, p: ast.expr, offset: ast.expr) -> str:
    """Returns the address of the buffer element given by a word of the parameter block."""
    base, word = t.f.pointer(t.parameter(p)), t.f.word_here(t.parameter(offset))
    return address(t.f, code, base, word)
