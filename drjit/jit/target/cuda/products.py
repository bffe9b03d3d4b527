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

from ..simd.ir import BYTES, FLOATS, SCALAR, KernelError, Value
from ..simd.loops import address, cast, loop, when
from ..simd.reduction import accumulator
from . import fragments, pairs, tf32
from .features import GpuVector
from .function import DYNAMIC, GpuFunction, fma, halves, matrices
from .memory import element
from .plan import FRAGMENTS, OWN, WIDEST, Bias, KernelPlan, MatrixOperand, padded, row_stride
from .registers import MEMORY, in_registers

# Elements of the largest matrix whose products are emitted one by one.
_SMALL = 512
# Rows of a larger one that an iteration multiplies.
_AT_ONCE = 4
# Elements that a thread loads for shared memory before it stores the first one.
_BATCH = 8

_ZERO = "zeroinitializer"


@in_registers("type parameter parameter integer integer integer flag node *parameter")
def matvec(
    t: Any, code: str, a: int, offset: int, rows: int, columns: int, stride: int, turned: bool,
    e: ast.expr, *words: int,
) -> Value | object:  # fmt: skip
    """`matvec(T, p[a], p[o], rows, columns, stride, transposed, x[, p[b], p[ob]])`."""
    if code not in FLOATS:
        raise KernelError(f"there is no matrix product of {code}")
    if max(rows, columns) > WIDEST:
        return MEMORY
    matrix = MatrixOperand(code, a, offset, rows, columns, stride)
    x = t.features(e, code, rows if turned else columns)
    bias = Bias(code, words[0], words[1], columns if turned else rows) if words else None
    if not t.plan.by_warp(code):
        result = _of_lane(t, matrix, turned, x, bias)
    elif code == "f32":
        result = tf32.product(t, matrix, turned, x, partial(_start, t, code, bias))
    else:
        result = _of_warp(t, matrix, turned, x, bias)
    if result.form == FRAGMENTS and t.plan.form(t.target) == OWN:
        result = t.in_form(result, OWN)
    return t.delivered(result)


# ------------------------------------------------------------------------------------ of the warp


def _of_warp(t: Any, w: MatrixOperand, turned: bool, x: GpuVector, bias: Bias | None) -> GpuVector:
    """A product by `mma`, two tiles of the result at a time."""
    f, plan = t.f, t.plan
    t.forget(x)
    terms, count = (w.rows, w.columns) if turned else (w.columns, w.rows)
    steps, tiles = -(-terms // 16), -(-count // 8)
    left = [[_left(t, x, m, k) for m in range(2)] for k in range(steps)]
    right = _right_of_memory if plan.matrices[w] < 0 else _right_of_shared
    found = [""] * (4 * tiles)
    for j in range(0, tiles, 2):
        some = range(j, min(j + 2, tiles))
        sums = {(i, m): _start(t, w.code, bias, i) for i in some for m in range(2)}
        for k, b in enumerate(right(t, w, turned, some, steps)):
            for i in some:
                for m in range(2):
                    sums[i, m] = multiplied(f, plan, left[k][m], b[i - j], sums[i, m])
        for (i, m), c in sums.items():
            for h in range(2):
                found[fragments.index(m, i, h, tiles)] = _rounded(f, plan, c, h)
    return GpuVector(w.code, count, FRAGMENTS, found)


def _left(t: Any, x: GpuVector, m: int, k: int) -> list[str]:
    """Returns operand A for 16 rows and 16 columns. Columns beyond the last one are zeros: what is
    there may be infinite or NaN."""
    f, tiles, found = t.f, -(-x.count // 8), []
    for j in (2 * k, 2 * k + 1):
        for h in range(2):
            if j >= tiles:
                found.append(_ZERO)
                continue
            register = t.register(x, FRAGMENTS, fragments.index(m, j, h, tiles))
            if x.count < 8 * (j + 1):
                kept = fragments.first_columns(f, x.count % 8)
                register = pairs.select(f, x.code, kept, register, _ZERO)
            found.append(register)
    return found


def multiplied(
    f: GpuFunction, plan: KernelPlan, a: Sequence[str], b: Sequence[str], c: Sequence[str]
) -> list[str]:
    """Returns the accumulators after `mma.m16n8k16`: four floats, or two pairs of halves."""
    half_steps, depth = [(*a, *b)], 16
    if plan.options.capability < (8, 0):  # which have half of that instruction
        half_steps, depth = [(*a[:2], *b[:1]), (*a[2:], *b[1:])], 8
    types = "f32.f32" if len(c) == 4 else "f16.f16"
    for operands in half_steps:
        c = f.multiplied(f"m16n8k{depth}.row.col.{types}", "<2 x half>", operands, c)
    return list(c)


def _start(t: Any, code: str, bias: Bias | None, j: int) -> list[str]:
    """Returns what a tile of the accumulators starts from."""
    f, halves = t.f, t.plan.options.reduced and code == "f16"
    if bias is None:
        return [_ZERO] * 2 if halves else ["0.0"] * 4
    column = f.once("%member.2", f"shl i32 {fragments.member(f)}, 1")
    begin = t.plan.biases[bias]
    if begin >= 0:
        offset = f.once("%bias.t", f"shl i32 {column}, 2")
        base = fragments.place(f, "%biases", DYNAMIC, offset)
        source = fragments.at(f, base, begin + 32 * j)
        pair = f.op(f"load <2 x float>, ptr addrspace(3) {source}, align 8")
        parts = f.split("<2 x float>", pair, 2)
    else:
        base = address(f, "f32", f.pointer(bias.buffer), f.word(bias.offset))
        parts = []
        for k in range(2):
            here = f.op(f"add i32 {column}, {8 * j + k}")
            parts.append(element(f, "f32", base, here, [(here, bias.count)]))
    if not halves:
        return [*parts, *parts]
    return [f.op(f"fptrunc <2 x float> {f.joined('<2 x float>', parts)} to <2 x half>")] * 2


def _rounded(f: GpuFunction, plan: KernelPlan, c: Sequence[str], h: int) -> str:
    """Returns a register of the result, of the upper or lower 8 rows of accumulators."""
    if len(c) == 2:
        return c[h]
    low, high = c[2 * h : 2 * h + 2]
    if plan.options.capability >= (8, 0):
        # LLVM would put a conversion of its own off until the result is used, and keep two floats.
        text = '"cvt.rn.f16x2.f32 $0, $1, $2;", "=r,f,f"'
        return f.op(f"call <2 x half> asm sideeffect {text}(float {high}, float {low})")
    return f.op(f"fptrunc <2 x float> {f.joined('<2 x float>', (low, high))} to <2 x half>")


def _right_of_shared(t: Any, w: MatrixOperand, turned: bool, some: range, steps: int) -> list:
    """Returns operand B from shared memory: for each step, that of each tile."""
    f, begin, stride = t.f, t.plan.matrices[w], row_stride(True, w)
    offset = (fragments.low if turned else fragments.across)(f, stride)
    base = fragments.place(f, f"{offset}.all", DYNAMIC, offset)
    found: list[list] = [[[]] * len(some) for _ in range(steps)]
    if turned:
        for k in range(steps):
            source = fragments.at(f, base, begin + 16 * k * stride + 16 * some[0])
            parts = halves(f, matrices(f, source, 2 * len(some), turned=True))
            found[k] = [parts[2 * i : 2 * i + 2] for i in range(len(some))]
        return found
    for k in range(0, steps, 2):
        number = min(2, steps - k)
        for i, j in enumerate(some):
            source = fragments.at(f, base, begin + 8 * j * stride + 32 * k)
            parts = halves(f, matrices(f, source, 2 * number))
            for s in range(number):
                found[k + s][i] = parts[2 * s : 2 * s + 2]
    return found


def _right_of_memory(t: Any, w: MatrixOperand, turned: bool, some: range, steps: int) -> list:
    """Returns operand B from the memory of the GPU."""
    f = t.f
    base = address(f, "f32", f.pointer(w.buffer), f.word(w.offset))
    column = f.once("%member.2", f"shl i32 {fragments.member(f)}, 1")
    count, terms = (w.columns, w.rows) if turned else (w.rows, w.columns)
    found = []
    for k in range(steps):
        found.append([])
        for j in some:
            n = f.op(f"add i32 {fragments.group(f)}, {8 * j}")
            parts = []
            for half in range(2):
                pair = "poison"
                for e in range(2):
                    term = f.op(f"add i32 {column}, {16 * k + 8 * half + e}")
                    r, c = (term, n) if turned else (n, term)
                    at = f.op(f"add i32 {f.op(f'mul i32 {r}, {w.stride}')}, {c}")
                    limits = [(n, count)] if 8 * j + 8 > count else []
                    limits += [(term, terms)] if 16 * k + 16 > terms else []
                    x = element(f, "f32", base, at, limits)
                    pair = f.op(f"insertelement <2 x float> {pair}, float {x}, i32 {e}")
                parts.append(f.op(f"fptrunc <2 x float> {pair} to <2 x half>"))
            found[-1].append(parts)
    return found


# ------------------------------------------------------------------------------------- of a lane


def _of_lane(t: Any, w: MatrixOperand, turned: bool, x: GpuVector, bias: Bias | None) -> GpuVector:
    """A product by fused multiply-adds: of rows with the vector or, for the transposed matrix, a
    sum of rows times features."""
    f, acc = t.f, accumulator(w.code)
    features = [
        f.scalar(acc, cast(f, f.lanes, t.feature_of(x, k), w.code, acc)) for k in range(x.count)
    ]
    count = w.columns if turned else w.rows
    start = ["0.0"] * count if bias is None else _bias(t, bias, acc)
    sums = (_sum_of_rows if turned else _dot_products)(t, w, acc, features, start)
    found = [cast(f, f.lanes, f.packet(acc, y), acc, w.code) for y in sums]
    return t.made(w.code, found)


def _bias(t: Any, bias: Bias, acc: str) -> list[str]:
    f = t.f
    begin, kind = t.plan.biases[bias], SCALAR[acc]
    if begin >= 0:
        base = fragments.place(f, f"%bias{begin}", DYNAMIC, str(begin))
        return [
            f.op(f"load {kind}, ptr addrspace(3) {fragments.at(f, base, k)}")
            for k in range(0, BYTES[acc] * bias.count, BYTES[acc])
        ]
    base = address(f, acc, f.pointer(bias.buffer), f.word(bias.offset))
    return [element(f, acc, base, str(k), []) for k in range(bias.count)]


def _row(t: Any, w: MatrixOperand, acc: str, r: object) -> list[str]:
    """Returns a row of the matrix, which is the same for all lanes."""
    f, begin, kind, size = t.f, t.plan.matrices[w], SCALAR[acc], BYTES[acc]
    if begin < 0:
        base = address(f, acc, f.pointer(w.buffer), f.word(w.offset))
        base = address(f, acc, base, f.op(f"mul i64 {r}, {w.stride}"))
        return [
            f.op(f"load {kind}, ptr {address(f, acc, base, c)}, align {size}")
            for c in range(w.columns)
        ]
    base = fragments.place(f, f"%matrix{begin}", DYNAMIC, str(begin))
    offset = f.op(f"mul i32 {f.op(f'trunc i64 {r} to i32')}, {row_stride(False, w)}")
    base = f.op(f"getelementptr i8, ptr addrspace(3) {base}, i32 {offset}")
    together, found = 16 // size, []
    of = f"<{together} x {kind}>"
    for c in range(0, w.columns, together):
        x = f.op(f"load {of}, ptr addrspace(3) {fragments.at(f, base, c * size)}, align 16")
        number = min(together, w.columns - c)
        found += f.split(of, x, number)
    return found


def _room(f: GpuFunction, kind: str, count: int) -> str:
    """Returns memory of the thread."""
    number = sum(name.startswith("%room") for name in f.head)
    return f.once(f"%room{number}", f"alloca [{count} x {kind}], align 16")


def _dot_products(t: Any, w: MatrixOperand, acc: str, x: list[str], start: list[str]) -> list[str]:
    """Returns the products of rows with the vector, some at a time: a loop leaves them in
    memory."""
    f, kind = t.f, SCALAR[acc]
    if w.rows * w.columns <= _SMALL:
        sums = start[:]
        for r in range(w.rows):
            for a, b in zip(_row(t, w, acc, r), x, strict=True):
                sums[r] = fma(f, kind, a, b, sums[r])
        return sums
    room = _room(f, kind, w.rows)
    for r, y in enumerate(start):
        f.do(f"store {kind} {y}, ptr {address(f, acc, room, r)}, align {BYTES[acc]}")

    def some(r: str, number: int) -> None:
        rows = [_row(t, w, acc, f.op(f"add i64 {r}, {k}")) for k in range(number)]
        places = [address(f, acc, room, r, k) for k in range(number)]
        sums = [f.op(f"load {kind}, ptr {p}, align {BYTES[acc]}") for p in places]
        for k, b in enumerate(x):
            sums = [fma(f, kind, row[k], b, y) for row, y in zip(rows, sums, strict=True)]
        for y, p in zip(sums, places, strict=True):
            f.do(f"store {kind} {y}, ptr {p}, align {BYTES[acc]}")

    whole = w.rows // _AT_ONCE * _AT_ONCE
    with loop(f, 0, whole, _AT_ONCE) as (r, _):
        some(r, _AT_ONCE)
    if whole < w.rows:
        some(str(whole), w.rows - whole)
    places = [address(f, acc, room, r) for r in range(w.rows)]
    return [f.op(f"load {kind}, ptr {p}, align {BYTES[acc]}") for p in places]


def _sum_of_rows(t: Any, w: MatrixOperand, acc: str, x: list[str], start: list[str]) -> list[str]:
    """Returns the sum of rows times features, which a loop reads from memory."""
    f, kind = t.f, SCALAR[acc]

    def added(r: object, feature: str, sums: list[str]) -> list[str]:
        row = zip(_row(t, w, acc, r), sums, strict=True)
        return [fma(f, kind, a, feature, y) for a, y in row]

    sums = start
    if w.rows * w.columns <= _SMALL:
        for r in range(w.rows):
            sums = added(r, x[r], sums)
        return sums
    room = _room(f, kind, w.rows)
    for r, y in enumerate(x):
        f.do(f"store {kind} {y}, ptr {address(f, acc, room, r)}, align {BYTES[acc]}")
    with loop(f, 0, w.rows, 1, [(kind, y) for y in sums]) as (r, values):
        feature = f.op(f"load {kind}, ptr {address(f, acc, room, r)}, align {BYTES[acc]}")
        values[:] = added(r, feature, values)
    return values


# ---------------------------------------------------------------------- shared memory of the block


def prepare(t: Any) -> None:
    """Before the lanes of a block: copies matrices and biases to shared memory."""
    plan: KernelPlan = t.plan
    for w, begin in plan.matrices.items():
        if begin >= 0:
            if not plan.by_warp(w.code):
                _keep_rows(t, w, begin)
            elif w.code == "f32":
                _keep_tf32(t, w, begin)
            else:
                _keep_halves(t, w, begin)
    for b, begin in plan.biases.items():
        if begin >= 0:
            _keep_bias(t, b, begin)
    if plan.matrices:
        t.f.barrier()


def _keep_halves(t: Any, w: MatrixOperand, begin: int) -> None:
    f = t.f
    across, stride = padded(w.columns, 16) // 2, row_stride(True, w)
    base = address(f, "f32", f.pointer(w.buffer), f.word(w.offset))

    def read(e: str) -> tuple[str, str]:
        r, c = f.op(f"udiv i32 {e}, {across}"), f.op(f"urem i32 {e}, {across}")
        first = f.op(f"add i32 {f.op(f'mul i32 {r}, {w.stride}')}, {f.op(f'shl i32 {c}, 1')}")
        target = f.op(f"add i32 {f.op(f'mul i32 {r}, {stride}')}, {f.op(f'shl i32 {c}, 2')}")
        pair = "poison"
        for k in range(2):
            limits = [(r, w.rows)] if w.rows % 16 else []
            if w.columns % 16:
                limits.append((f.op(f"add i32 {f.op(f'shl i32 {c}, 1')}, {k}"), w.columns))
            x = element(f, "f32", base, f.op(f"add i32 {first}, {k}"), limits)
            pair = f.op(f"insertelement <2 x float> {pair}, float {x}, i32 {k}")
        return target, f.op(f"fptrunc <2 x float> {pair} to <2 x half>")

    _copied(t, padded(w.rows, 16) * across, begin, "<2 x half>", 4, read)


def _keep_tf32(t: Any, w: MatrixOperand, begin: int) -> None:
    f = t.f
    base = address(f, "f32", f.pointer(w.buffer), f.word(w.offset))
    count = padded(w.rows, 8) * padded(w.columns, 16) // 2
    _copied(t, count, begin, "<2 x float>", 8, partial(tf32.stored, t, w, base))


def _keep_rows(t: Any, w: MatrixOperand, begin: int) -> None:
    f, acc = t.f, accumulator(w.code)
    across = row_stride(False, w) // BYTES[acc]
    base = address(f, acc, f.pointer(w.buffer), f.word(w.offset))

    def read(e: str) -> tuple[str, str]:
        r, c = f.op(f"udiv i32 {e}, {across}"), f.op(f"urem i32 {e}, {across}")
        source = f.op(f"add i32 {f.op(f'mul i32 {r}, {w.stride}')}, {c}")
        limits = [(c, w.columns)] if across != w.columns else []
        x = element(f, acc, base, source, limits)
        return f.op(f"mul i32 {e}, {BYTES[acc]}"), x

    _copied(t, w.rows * across, begin, SCALAR[acc], BYTES[acc], read)


def _keep_bias(t: Any, b: Bias, begin: int) -> None:
    f, acc = t.f, accumulator(b.code)
    base = address(f, acc, f.pointer(b.buffer), f.word(b.offset))

    def read(e: str) -> tuple[str, str]:
        limits = [(e, b.count)] if b.count % 16 else []
        return f.op(f"mul i32 {e}, {BYTES[acc]}"), element(f, acc, base, e, limits)

    _copied(t, padded(b.count, 16), begin, SCALAR[acc], BYTES[acc], read)


def _copied(
    t: Any, count: int, begin: int, kind: str, size: int, read: Callable[[str], tuple[str, str]]
) -> None:
    """Stores elements to shared memory, those with a number each by one thread of the block. `read`
    returns the offset of an element and its value; some are read before the first is stored."""
    f, threads = t.f, t.f.threads
    base = fragments.place(f, f"%keep{begin}", DYNAMIC, str(begin))
    tid = f.special("tid.x")

    def some(k: str, number: int) -> None:
        found = []
        for n in range(number):
            e = f.op(f"add i32 {tid}, {n * threads}") if n else tid
            e = f.op(f"add i32 {e}, {f.op(f'trunc i64 {k} to i32')}") if k != "0" else e
            found.append(read(e))
        for target, x in found:
            place = f.op(f"getelementptr i8, ptr addrspace(3) {base}, i32 {target}")
            f.do(f"store {kind} {x}, ptr addrspace(3) {place}, align {size}")

    whole, rest = count // threads, count % threads
    loops = whole // _BATCH * _BATCH
    if loops > _BATCH:
        with loop(f, 0, loops * threads, _BATCH * threads) as (k, _):
            some(k, _BATCH)
    elif loops:
        some("0", _BATCH)
    if whole > loops:
        some(str(loops * threads), whole - loops)
    if rest:
        with when(f, f.op(f"icmp ult i32 {tid}, {rest}")):
            some(str(whole * threads), 1)
