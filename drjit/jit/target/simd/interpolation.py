"""Weighted sums of records, as read by interpolation: `gather_weighted`."""

import ast
from collections.abc import Iterable, Sequence

from .arguments import statement
from .ir import BITS, SCALAR, Function, Operand
from .loops import address, concatenated, each_bit, fma, load, load_splat, when
from .memory import cleared, records, row_addresses, safe_index, transpose
from .translate import Translator


@statement("type pointer mask integer *node")
def gather_weighted(
    t: Translator, code: str, base: str, mask: str, count: int, *taps: ast.expr
) -> tuple[Operand, ...]:
    """`gather_weighted(T, p[k], m, c, x0, w0, x1, w1, ...)`.

    Neighbours in memory are read together, and records of 4 words are summed in their memory
    layout: only the sums are transposed.
    """
    indices, weights = operands(t, code, taps)
    if code == "f32" and count == 4 and len(weights) % 2 == 0:
        sums = _in_rows(t.f, base, indices, weights, mask)
    else:
        rows = (records(t.f, code, base, x, mask, count) for x in indices)
        sums = in_turn(t, code, rows, weights)
    return tuple((code, v) for v in cleared(t.f, code, sums, mask))


def operands(t: Translator, code: str, taps: Sequence[ast.expr]) -> tuple[list[Operand], list[str]]:
    """Returns the indices and the weights of `gather_weighted`."""
    return [t.index(x) for x in taps[::2]], [t.typed(w, code)[1] for w in taps[1::2]]


def in_turn(
    t: Translator, code: str, rows: Iterable[list[str]], weights: Sequence[str]
) -> list[str]:
    """Returns the sums over records, each of which is read when it is added."""
    sums: list[list[Operand]] = [[], []]
    for k, (row, w) in enumerate(zip(rows, weights, strict=True)):
        before, values = sums[k % 2], [(code, v) for v in row]
        if before:
            taps = zip(values, before, strict=True)
            sums[k % 2] = [t.apply("fma", [(code, w), v, s]) for v, s in taps]
        else:
            sums[k % 2] = [t.apply("mul", [(code, w), v]) for v in values]
    even, odd = sums
    total = [t.apply("add", [a, b]) for a, b in zip(even, odd, strict=True)] if odd else even
    return [v for _, v in total]


def _in_rows(
    f: Function, base: str, indices: list[Operand], weights: list[str], mask: str
) -> list[str]:
    """Returns sums of records with four components, for an even number of taps."""
    code = indices[0][0]
    kind, masks = f.vector[code], f.vector["mask"]
    safe = [safe_index(f, index, mask) for index in indices]
    rows = _by_pairs(f, base, safe[::2], weights)
    apart = "zeroinitializer"
    for (_, first), (_, second) in zip(safe[::2], safe[1::2], strict=True):
        following = f.op(f"add {kind} {first}, {f.constant(code, 1)}")
        differs = f.op(f"icmp ne {kind} {following}, {second}")
        apart = f.op(f"or {masks} {apart}, {differs}")
    apart = f.bits(f.op(f"and {masks} {apart}, {mask}"))
    return transpose(f, "f32", _one_by_one(f, base, safe, weights, rows, apart))


def _by_pairs(f: Function, base: str, indices: list[Operand], weights: list[str]) -> list[str]:
    """Returns the rows of four sums for pairs of neighbours, whose first indices are `indices`: row
    r holds the lanes r, r + 4, r + 8, ... as in `memory`."""
    lanes, vector = f.lanes, f.vector["f32"]
    pairs = [row_addresses(f, base, index, 4) for index in indices]
    halves: list[list[str]] = []
    for half in (0, lanes // 2):
        totals = [""] * 4
        for addresses, first, second in zip(pairs, weights[::2], weights[1::2], strict=True):
            # Groups of four first and four second weights, alternating.
            fours = [
                s + g + k
                for g in range(half, half + lanes // 2, 4)
                for s in (0, lanes)
                for k in range(4)
            ]
            both = f.shuffle(vector, first, second, fours)
            for r in range(4):
                own = addresses[half + r : half + lanes // 2 : 4]
                parts = [load(f, "f32", 8, a) for a in own]
                same = [g + r for g in range(0, lanes, 4) for _ in range(4)]
                w = f.shuffle(vector, both, "poison", same)
                totals[r] = _added(f, lanes, totals[r], w, concatenated(f, "float", 8, parts))
        halves.append(totals)
    even = [g + k for g in range(0, 2 * lanes, 8) for k in range(4)]
    rows = []
    for a, b in zip(*halves, strict=True):
        first, second = (f.shuffle(vector, a, b, [k + odd for k in even]) for odd in (0, 4))
        rows.append(f.op(f"fadd {vector} {first}, {second}"))
    return rows


def _one_by_one(
    f: Function, base: str, indices: list[Operand], weights: list[str], rows: list[str], which: str
) -> list[str]:
    """Returns the rows of four sums, with those of some lanes computed from records at arbitrary
    positions."""
    lanes, code = f.lanes, indices[0][0]
    vector, numbers, quad = f.vector["f32"], f.vector["u32"], "<4 x float>"
    carried = [(vector, row) for row in rows]
    with when(f, f.op(f"icmp ne i{lanes} {which}, 0"), carried, weights=", !prof !1") as patched:
        kept = []
        for k, (kind, x) in enumerate([*indices, *[("f32", w) for w in weights]]):
            kept.append(f.slot(kind, k))
            f.do(f"store {f.vector[kind]} {x}, ptr {kept[-1]}")
        with each_bit(f, which, carried) as (lane, values):
            sums = ["", ""]
            for tap in range(len(indices)):
                index = f.op(f"load {SCALAR[code]}, ptr {address(f, code, kept[tap], lane)}")
                if BITS[code] < 64:
                    index = f.op(f"zext {SCALAR[code]} {index} to i64")
                texel = load(f, "f32", 4, address(f, "f32", base, f.op(f"mul i64 {index}, 4")))
                w = load_splat(f, "f32", 4, address(f, "f32", kept[len(indices) + tap], lane))
                sums[tap % 2] = _added(f, 4, sums[tap % 2], w, texel)
            total = f.op(f"fadd {quad} {sums[0]}, {sums[1]}")
            total = f.shuffle(quad, total, "poison", [j % 4 for j in range(lanes)])
            number = f.splat("u32", f.op(f"trunc i64 {lane} to i32"))
            # Not by way of memory: that would wait for the stores of other packets.
            for r, row in enumerate(values):
                own = ", ".join([f"i32 {j // 4 * 4 + r}" for j in range(lanes)])
                here = f.op(f"icmp eq {numbers} {number}, <{own}>")
                values[r] = f.select("f32", here, total, row)
        patched[:] = values
    return patched


def _added(f: Function, lanes: int, total: str, w: str, x: str) -> str:
    """Returns a total, initially empty, plus a product."""
    if not total:
        return f.op(f"fmul <{lanes} x float> {w}, {x}")
    return fma(f, "f32", lanes, w, x, total)
