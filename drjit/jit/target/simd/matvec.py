"""Products of a matrix with a vector in every lane: a register-blocked kernel over rows of lanes.

The accumulators are a block of results, features times lanes. Each step of the innermost loop adds
the products of a column of the matrix, whose elements are broadcast from memory, and a row of the
vector. The transposed product swaps the strides of the matrix, so nothing is copied.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ...tuples import NamedTuple
from .arguments import statement
from .feature_loop import Operation
from .ir import Function, Operand
from .loops import address
from .reduction import accumulator
from .translate import Translator
from .values import Code, Pointer, Vector, Word
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


def registers_across(c: Code, count: int) -> int:
    """Returns the number of adjacent registers in a block, out of `count`."""
    most = c.machine.registers // 8
    groups = -(-count // most)
    return -(-count // groups)


def rows_down(c: Code, count: int, registers: int) -> int:
    """Returns the number of rows in a block, out of `count`: few enough for the registers, and such
    that blocks have equal heights."""
    most = min(c.machine.accumulators // registers, 16)
    for rows in range(most, most * 2 // 3, -1):
        if count % rows == 0:
            return rows
    return -(-count // -(-count // most))


def accumulated(
    c: Code, s: Tile, terms: int, a: Pointer, b: Pointer, start: Sequence[Vector]
) -> list[Vector]:
    """Returns the accumulators after `terms` terms: `start[r][i] + sum_k a[r, k] * b[k][i]`."""
    size, split = s.rows * s.registers, 1
    while size * split < _IN_FLIGHT and split * 4 <= terms:
        split *= 2
    total = [*start, *[c.zeros(s.code, s.lanes)] * (size * (split - 1))]
    for k, number in strips(c, terms, split, total):
        row, first = b + k * s.b_term, a + k * s.a_term
        for u in range(number):
            x = [(row + (u * s.b_term + i * s.lanes)).load(s.lanes) for i in range(s.registers)]
            for r in range(s.rows):
                y = (first + (u * s.a_term + r * s.a_row)).splat(s.lanes)
                for i in range(s.registers):
                    n = u * size + r * s.registers + i
                    total[n] = y.times_plus(x[i], total[n])
    while split > 1:
        split //= 2
        half = size * split
        total = [total[n] + total[n + half] for n in range(half)]
    return total


def strips(
    c: Code, count: int, step: int, carried: list[Vector] | None = None
) -> Iterator[tuple[Word | int, int]]:
    """Yields the parts of a range, with their start and size: a loop over the whole ones, then the
    rest. The code for a part is emitted once for each of the two.
    """
    whole = count // step * step
    if whole > step:
        for k in c.range(0, whole, step, carried):
            yield k, step
    elif whole:
        yield 0, step
    if whole < count:
        yield whole, count - whole


class MatvecShape(NamedTuple):
    """A product: element type, size, strides of the matrix, and whether there is a bias."""

    code: str
    rows: int
    columns: int
    a_row: int
    a_term: int
    bias: bool


def _product(
    s: MatvecShape, f: Function, pointers: Sequence[str], use: Callable[..., None]
) -> None:
    """Calls `use(first, rows)` with the rows of the result from `first` on. The pointers are those
    of the matrix, the vector, and the bias if there is one.
    """
    c, held = Code(f), accumulator(s.code)
    for first, rows in product(c, s, f.lanes, *[c.pointer(held, p) for p in pointers]):
        use(str(first), [x.name for x in rows])


def product(
    c: Code, s: MatvecShape, packet: int, a: Pointer, x: Pointer, bias: Pointer | None = None
) -> Iterator[tuple[Word | int, list[Vector]]]:
    """Yields rows of the result, and the number of the first of them, for as many lanes as a packet
    has. A row of the vector `x` is a packet."""
    held = accumulator(s.code)
    lanes = min(c.width(held), packet)
    registers = packet // lanes
    for first, number in strips(c, s.rows, rows_down(c, s.rows, registers)):
        corner = a + first * s.a_row
        block = Tile(held, lanes, number, registers, s.a_row, s.a_term, packet)
        start = [c.zeros(held, lanes)] * number * registers
        if bias is not None:
            source, start = bias + first, []
            for r in range(number):
                start += [(source + r).splat(lanes)] * registers
        total = accumulated(c, block, s.columns, corner, x, start)
        rounded = [x.cast(s.code) for x in total]
        total = [x.cast(held) for x in rounded]
        groups = [total[r : r + registers] for r in range(0, len(total), registers)]
        yield first, [c.joined(group) for group in groups]


@statement("type node node integer integer integer flag node *node")
def matvec(
    t: VectorTranslator, code: str, a: ast.expr, offset: ast.expr, rows: int, columns: int,
    stride: int, transposed: bool, x: ast.expr, *bias: ast.expr,
) -> Operand:  # fmt: skip
    """`matvec(T, p[a], p[o], rows, columns, stride, transposed, x[, p[b], p[ob]])`."""
    held, step = accumulator(code), (stride, 1)
    if transposed:
        rows, columns, step = columns, rows, (1, stride)
    v = t.vector(x)
    pointers = [_element(t, held, a, offset), t.place(v)]
    if bias:
        pointers.append(_element(t, held, *bias))
    shape = MatvecShape(code, rows, columns, *step, bool(bias))
    product = Operation(partial(_product, shape), shape, [v], pointers=pointers)
    return t.multiply(product, code, rows)


def _element(t: Translator, code: str, p: ast.expr, offset: ast.expr) -> str:
    """Returns the address of the buffer element given by a word of the parameter block."""
    base, word = t.f.pointer(t.parameter(p)), t.f.word_here(t.parameter(offset))
    return address(t.f, code, base, word)
