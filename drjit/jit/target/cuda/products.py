"""Products of matrices with vectors.

A product of halves is one of the whole warp: Y = X W^T, where the 32 rows of X are the vectors of
the lanes. Tensor cores multiply fragments (`mma.sync`, see `fragments`); the sums are single
precision and rounded once. Operand B, a tile of 8 rows of W and 16 of its columns, comes from
shared memory with `ldmatrix`, or with `ldmatrix.trans` for the transposed product. There, the
matrices of a kernel are kept as halves, padded with zeros to multiples of 16 rows and columns, for
all the lanes that a block goes through.

In other types, each lane sums its own products, and the threads of a warp read the same elements of
the matrix at the same time.
"""

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..simd.conversion import convert
from ..simd.ir import BYTES, Operand
from ..simd.reduction import accumulator
from ..simd.values import Value
from . import fragments, tf32
from .calls import MEMORY, in_registers
from .features import GpuVector
from .plan import FRAGMENTS, OWN, WIDEST, Bias, KernelPlan, MatrixOperand, padded, row_stride
from .values import GpuCode, GpuPointer

# Elements of the largest matrix whose products are emitted one by one.
_SMALL = 512
# Rows of a larger one that an iteration multiplies.
_AT_ONCE = 4
# Elements that a thread loads for shared memory before it stores the first one.
_BATCH = 8


@in_registers("type parameter parameter integer integer integer flag node *parameter")
def matvec(
    t: Any, code: str, a: int, offset: int, rows: int, columns: int, stride: int, turned: bool,
    e: ast.expr, *words: int,
) -> Operand | object:  # fmt: skip
    """`matvec(T, p[a], p[o], rows, columns, stride, transposed, x[, p[b], p[ob]])`."""
    if max(rows, columns) > WIDEST:
        return MEMORY
    matrix = MatrixOperand(code, a, offset, rows, columns, stride)
    x = t.features(e)
    bias = Bias(code, words[0], words[1], columns if turned else rows) if words else None
    if not t.plan.by_warp(code):
        result = _of_lane(t, matrix, turned, x, bias)
    else:
        result = _of_warp(t, matrix, turned, x, bias)
    if result.form == FRAGMENTS and t.plan.form(t.target) == OWN:
        result = t.in_form(result, OWN)
    return t.delivered(result)


# ------------------------------------------------------------------------------------ of the warp


def _of_warp(t: Any, w: MatrixOperand, turned: bool, x: GpuVector, bias: Bias | None) -> GpuVector:
    """A product by `mma`, two tiles of the result at a time."""
    c, plan, is_half = t.c, t.plan, w.code == "f16"
    t.forget(x)
    terms, count = (w.rows, w.columns) if turned else (w.columns, w.rows)
    steps, tiles = -(-terms // (16 if is_half else 8)), -(-count // 8)
    make = _left if is_half else tf32.left
    left = [[make(t, x, m, k) for m in range(2)] for k in range(steps)]
    if plan.matrices[w] < 0:
        right = _right_of_memory if is_half else tf32.right_of_memory
    else:
        right = _right_of_shared if is_half else tf32.right_of_shared
    # The transposed product in TF32 has the columns of two tiles in another order.
    ordered = tf32.crossed if turned and not is_half else (lambda c, tiles: tiles)
    found = [""] * (4 * tiles)
    for j in range(0, tiles, 2):
        some = range(j, min(j + 2, tiles))
        sums = [[start] * 2 for start in ordered(c, [_start(t, w.code, bias, i) for i in some])]
        for k, operands in enumerate(right(t, w, turned, some, steps)):
            for b, rows in zip(operands, sums, strict=True):
                for m in range(2):
                    rows[m] = multiplied(c, plan, left[k][m], b, rows[m])
        for m in range(2):
            results = ordered(c, [rows[m] for rows in sums])
            for i, total in zip(some, results, strict=False):
                for h in range(2):
                    register = _rounded(c, plan, w.code, total, h)
                    found[fragments.index(m, i, h, tiles)] = register.name
    return GpuVector(w.code, count, FRAGMENTS, found)


def _left(t: Any, x: GpuVector, m: int, k: int) -> list[Value]:
    """Returns operand A for 16 rows and 16 columns."""
    c, tiles, found = t.c, -(-x.count // 8), []
    for j in (2 * k, 2 * k + 1):
        for h in range(2):
            if j >= tiles:
                found.append(c.zeros(x.code, 2))
                continue
            register = t.register(x, FRAGMENTS, fragments.index(m, j, h, tiles))
            found.append(Value(c.f, x.code, 2, fragments.first_columns(c, x, j, register)))
    return found


def multiplied(
    c: GpuCode, plan: KernelPlan, a: Sequence[Value], b: Sequence[Value], sums: Sequence[Value]
) -> list[Value]:
    """Returns the accumulators after `mma.m16n8k8` of numbers in TF32, or after `mma.m16n8k16` of
    halves: four floats, or two pairs of halves."""
    if a[0].code != "f16":
        return c.multiplied("m16n8k8.row.col.tf32", (*a, *b), sums)
    half_steps, depth = [(*a, *b)], 16
    if plan.options.capability < (8, 0):  # which have half of that instruction
        half_steps, depth = [(*a[:2], *b[:1]), (*a[2:], *b[1:])], 8
    types = "f32.f32" if len(sums) == 4 else "f16.f16"
    for operands in half_steps:
        sums = c.multiplied(f"m16n8k{depth}.row.col.{types}", operands, sums)
    return list(sums)


def _start(t: Any, code: str, bias: Bias | None, j: int) -> list[Value]:
    """Returns what a tile of the accumulators starts from."""
    c, halves = t.c, t.plan.options.reduced and code == "f16"
    if bias is None:
        return [c.zeros("f16", 2)] * 2 if halves else [c.number("f32", 0)] * 4
    column, begin = fragments.pair(c), t.plan.biases[bias]
    if begin >= 0:
        base = c.once("biases", lambda: c.dynamic() + (column << 2))
        parts = (base + (begin + 32 * j)).of("f32").load(2).elements()
    else:
        places = [column + (8 * j + k) for k in range(2)]
        base = c.origin("f32", bias)
        parts = [c.element(base, here, [(here, bias.count)]) for here in places]
    return [c.vector(parts).cast("f16")] * 2 if halves else [*parts, *parts]


def _rounded(c: GpuCode, plan: KernelPlan, code: str, sums: Sequence[Value], h: int) -> Value:
    """Returns a register of the result, of the upper or lower 8 rows of accumulators."""
    if len(sums) == 2:
        return sums[h]
    low, high = sums[2 * h : 2 * h + 2]
    if code == "f32":
        return c.vector((low, high))
    if plan.options.capability >= (8, 0):
        # LLVM would put a conversion of its own off until the result is used, and keep two floats.
        text = '"cvt.rn.f16x2.f32 $0, $1, $2;", "=r,f,f"'
        name = c.f.op(f"call <2 x half> asm sideeffect {text}(float {high}, float {low})")
        return Value(c.f, "f16", 2, name)
    return c.vector((low, high)).cast("f16")


def _right_of_shared(t: Any, w: MatrixOperand, turned: bool, some: range, steps: int) -> list:
    """Returns operand B from shared memory: for each step, that of each tile."""
    c, stride = t.c, row_stride(True, w)
    order = fragments.low if turned else fragments.across
    base = c.once((order, stride, "all"), lambda: c.dynamic() + order(c, stride))
    base = base + t.plan.matrices[w]
    found: list[list] = [[[]] * len(some) for _ in range(steps)]
    if turned:
        for k in range(steps):
            source = base + (16 * k * stride + 16 * some[0])
            parts = c.matrices(source, 2 * len(some), turned=True)
            found[k] = [parts[2 * i : 2 * i + 2] for i in range(len(some))]
        return found
    for k in range(0, steps, 2):
        number = min(2, steps - k)
        for i, j in enumerate(some):
            parts = c.matrices(base + (8 * j * stride + 32 * k), 2 * number)
            for s in range(number):
                found[k + s][i] = parts[2 * s : 2 * s + 2]
    return found


def _right_of_memory(t: Any, w: MatrixOperand, turned: bool, some: range, steps: int) -> list:
    """Returns operand B from the memory of the GPU."""
    c, count = t.c, w.columns if turned else w.rows

    def read(j: int, k: int, half: int) -> Value:
        n, first = fragments.group(c) + 8 * j, 16 * k + 8 * half
        parts = tf32.elements(c, w, turned, n, first, 8 * j + 8 > count, 16 * k + 16)
        return c.vector(parts).cast("f16")

    return [[[read(j, k, half) for half in range(2)] for j in some] for k in range(steps)]


# ------------------------------------------------------------------------------------- of a lane


def _of_lane(t: Any, w: MatrixOperand, turned: bool, x: GpuVector, bias: Bias | None) -> GpuVector:
    """A product by fused multiply-adds: of rows with the vector or, for the transposed matrix, a
    sum of rows times features."""
    c, f, acc = t.c, t.f, accumulator(w.code)
    features = [
        Value(f, acc, 0, f.scalar(acc, convert(f, acc, w.code, t.feature_of(x, k))))
        for k in range(x.count)
    ]
    count = w.columns if turned else w.rows
    start = [c.number(acc, 0)] * count if bias is None else _bias(t, bias, acc)
    sums = (_sum_of_rows if turned else _dot_products)(t, w, acc, features, start)
    found = [convert(f, w.code, acc, f.packet(acc, y.name)) for y in sums]
    return t.of_scalars(w.code, found)


def _bias(t: Any, bias: Bias, acc: str) -> list[Value]:
    c, begin = t.c, t.plan.biases[bias]
    base = c.origin(acc, bias) if begin < 0 else (c.dynamic() + begin).of(acc)
    return [(base + k).load() for k in range(bias.count)]


def _row(t: Any, w: MatrixOperand, acc: str, r: Value) -> list[Value]:
    """Returns a row of the matrix, which is the same for all lanes."""
    c, begin, together = t.c, t.plan.matrices[w], 16 // BYTES[acc]
    if begin < 0:
        base = c.origin(acc, w) + r * w.stride
        return [(base + k).load() for k in range(w.columns)]
    base = (c.dynamic() + begin + r.cast("u32") * row_stride(False, w)).of(acc)
    found = [(base + k).load(together) for k in range(0, w.columns, together)]
    return [x for part in found for x in part.elements()][: w.columns]


def _room(c: GpuCode, xs: Sequence[Value]) -> GpuPointer:
    """Returns memory of the thread with some numbers."""
    number, like = sum(name.startswith("%room") for name in c.f.head), xs[0]
    text = f"alloca [{len(xs)} x {like.kind}], align 16"
    room = GpuPointer(c.f, like.code, c.f.once(f"%room{number}", text))
    for k, x in enumerate(xs):
        (room + k).store(x)
    return room


def _dot_products(
    t: Any, w: MatrixOperand, acc: str, x: list[Value], start: list[Value]
) -> list[Value]:
    """Returns the products of rows with the vector, some at a time: a loop leaves them in
    memory."""
    c = t.c

    def added(first: Value, sums: list[Value]) -> list[Value]:
        rows = [_row(t, w, acc, first + k) for k in range(len(sums))]
        for k, feature in enumerate(x):
            sums = [row[k].times_plus(feature, y) for row, y in zip(rows, sums, strict=True)]
        return sums

    if w.rows * w.columns <= _SMALL:
        return [added(c.word(r), [y])[0] for r, y in enumerate(start)]
    room = _room(c, start)

    def some(first: Value, number: int) -> None:
        places = [room + first + k for k in range(number)]
        sums = added(first, [p.load() for p in places])
        for y, p in zip(sums, places, strict=True):
            p.store(y)

    whole = w.rows // _AT_ONCE * _AT_ONCE
    for r in c.range(0, whole, _AT_ONCE):
        some(r, _AT_ONCE)
    if whole < w.rows:
        some(c.word(whole), w.rows - whole)
    return [(room + r).load() for r in range(w.rows)]


def _sum_of_rows(
    t: Any, w: MatrixOperand, acc: str, x: list[Value], start: list[Value]
) -> list[Value]:
    """Returns the sum of rows times features, which a loop reads from memory."""
    c, sums = t.c, list(start)

    def add(r: Value, feature: Value) -> None:
        row = zip(_row(t, w, acc, r), sums, strict=True)
        sums[:] = [a.times_plus(feature, y) for a, y in row]

    if w.rows * w.columns <= _SMALL:
        for r, feature in enumerate(x):
            add(c.word(r), feature)
        return sums
    room = _room(c, x)
    for r in c.range(0, w.rows, 1, sums):
        add(r, (room + r).load())
    return sums


# ---------------------------------------------------------------------- shared memory of the block


def prepare(t: Any) -> None:
    """Before the lanes of a block: copies matrices and biases to shared memory."""
    plan: KernelPlan = t.plan
    for w, begin in plan.matrices.items():
        if begin >= 0:
            pairs = padded(w.columns, 16) // 2
            if not plan.by_warp(w.code):
                across = row_stride(False, w) // BYTES[accumulator(w.code)]
                _keep_rows(t, w, begin, w.rows, w.columns, across, w.stride)
            elif w.code == "f32":
                _copied(t, padded(w.rows, 8) * pairs, begin, partial(tf32.stored, t.c, w))
            else:
                _copied(t, padded(w.rows, 16) * pairs, begin, partial(_stored_halves, t.c, w))
    for b, begin in plan.biases.items():
        if begin >= 0:
            _keep_rows(t, b, begin, 1, b.count, padded(b.count, 16), 0)
    if plan.matrices:
        t.f.barrier()


def _stored_halves(c: GpuCode, w: MatrixOperand, e: Value) -> tuple[Value, Value]:
    r, column, x = tf32.neighbours(c, w, e, 16)
    return r * row_stride(True, w) + (column << 1), x.cast("f16")


def _keep_rows(
    t: Any, operand: MatrixOperand | Bias, begin: int, rows: int, columns: int, across: int,
    stride: int,
) -> None:  # fmt: skip
    """Copies rows, each of which has zeros up to `across` elements."""
    acc = accumulator(operand.code)
    base = t.c.origin(acc, operand)

    def read(e: Value) -> tuple[Value, Value]:
        r, column = (e // across, e % across) if rows > 1 else (None, e)
        limits = [(column, columns)] if across != columns else []
        at = column if r is None else r * stride + column
        return e * BYTES[acc], t.c.element(base, at, limits)

    _copied(t, rows * across, begin, read)


def _copied(t: Any, count: int, begin: int, read: Callable[[Value], tuple[Value, Value]]) -> None:
    """Stores elements to shared memory, those with a number each by one thread of the block. `read`
    returns the offset of an element and its value; some are read before the first is stored."""
    c, threads = t.c, t.f.threads
    base = c.dynamic() + begin

    def some(first: Any, number: int) -> None:
        found = [read(c.tid + first + n * threads) for n in range(number)]
        for target, x in found:
            (base + target).of(x.code).store(x)

    whole, rest = count // threads, count % threads
    loops = whole // _BATCH * _BATCH
    if loops > _BATCH:
        for k in c.range(0, loops * threads, _BATCH * threads):
            some(k.cast("u32"), _BATCH)
    elif loops:
        some(0, _BATCH)
    if whole > loops:
        some(loops * threads, whole - loops)
    if rest:
        for _ in c.when(c.tid < rest):
            some(whole * threads, 1)
