"""Weighted sums of records, which is what an interpolation reads: `gather_weighted`."""

import ast

from .ir import BITS, SCALAR, Function, KernelError, Value
from .loops import address, splat
from .memory import (
    cleared,
    concatenated,
    each_bit,
    records,
    row_addresses,
    safe_index,
    selector,
    transpose,
)
from .translate import CALLS, Translator

QUAD = "<4 x float>"


def gather_weighted(
    t: Translator, kind: ast.expr, p: ast.expr, m: ast.expr, c: ast.expr, *taps: ast.expr
) -> tuple[Value, ...]:
    """`gather_weighted(T, p[k], m, c, x0, w0, x1, w1, ...)`.

    Neighbours in memory are read together, and records of 4 words are summed up as they lie in
    memory: only the sums are transposed.
    """
    f, code, count = t.f, t.type(kind), t.integer(c)
    base = t.pointer(p)
    mask = t.mask(m)
    if not 2 <= count <= 16 or len(taps) % 2 or not taps:
        raise KernelError("gather_weighted() takes 2 to 16 components and pairs of operands")
    indices = [t.index(x) for x in taps[::2]]
    weights = [t.typed(w, code)[1] for w in taps[1::2]]
    if code == "f32" and count == 4 and len(weights) % 2 == 0:
        sums = _in_rows(f, base, indices, weights, mask)
    else:
        sums = _in_turn(t, code, base, indices, weights, mask, count)
    return tuple((code, v) for v in cleared(f, code, sums, mask))


def _in_turn(
    t: Translator,
    code: str,
    base: str,
    indices: list[Value],
    weights: list[str],
    mask: str,
    count: int,
) -> list[str]:
    """The sums by a gather of each tap's records."""
    sums: list[list[Value]] = [[], []]
    for k, (x, w) in enumerate(zip(indices, weights, strict=True)):
        row = [(code, v) for v in records(t.f, code, base, x, mask, count)]
        before = sums[k % 2]
        if before:
            row = [t.apply("fma", [(code, w), v, s]) for v, s in zip(row, before, strict=True)]
        else:
            row = [t.infix(ast.Mult, (code, w), v) for v in row]
        sums[k % 2] = row
    even, odd = sums
    total = [t.infix(ast.Add, a, b) for a, b in zip(even, odd, strict=True)] if odd else even
    return [v for _, v in total]


def _in_rows(
    f: Function, base: str, indices: list[Value], weights: list[str], mask: str
) -> list[str]:
    """Sums of records of four components; an even number of taps."""
    index_code = indices[0][0]
    kind, masks = f.vector[index_code], f.vector["mask"]
    safe = [safe_index(f, index_code, x, mask) for index_code, x in indices]
    rows = _by_pairs(f, base, index_code, safe[::2], weights)
    apart = "zeroinitializer"
    for first, second in zip(safe[::2], safe[1::2], strict=True):
        following = f.op(f"add {kind} {first}, {f.constant(index_code, 1)}")
        differs = f.op(f"icmp ne {kind} {following}, {second}")
        apart = f.op(f"or {masks} {apart}, {differs}")
    apart = f.bits(f.op(f"and {masks} {apart}, {mask}"))
    rows = _one_by_one(f, base, index_code, safe, weights, rows, apart)
    return transpose(f, "f32", rows)


def _by_pairs(
    f: Function, base: str, index_code: str, indices: list[str], weights: list[str]
) -> list[str]:
    """The rows of four sums for pairs of neighbours, of which `indices` has the first ones: row r
    holds the lanes r, r + 4, r + 8, ... as in `memory`."""
    lanes, vector = f.lanes, f.vector["f32"]
    pairs = [row_addresses(f, base, index_code, x, 4) for x in indices]
    halves: list[list[str]] = []
    for half in (0, lanes // 2):
        totals = [""] * 4
        for addresses, first, second in zip(pairs, weights[::2], weights[1::2], strict=True):
            # Fours of first and of second weights by turns.
            fours = [
                s + g + k
                for g in range(half, half + lanes // 2, 4)
                for s in (0, lanes)
                for k in range(4)
            ]
            both = _shuffled(f, first, second, fours)
            for r in range(4):
                own = addresses[half + r : half + lanes // 2 : 4]
                parts = [f.op(f"load <8 x float>, ptr {a}, align 4") for a in own]
                w = _shuffled(
                    f, both, "poison", [g + r for g in range(0, lanes, 4) for _ in range(4)]
                )
                totals[r] = _added(f, lanes, totals[r], w, concatenated(f, "float", 8, parts))
        halves.append(totals)
    even = [g + k for g in range(0, 2 * lanes, 8) for k in range(4)]
    rows = []
    for a, b in zip(*halves, strict=True):
        first, second = _shuffled(f, a, b, even), _shuffled(f, a, b, [k + 4 for k in even])
        rows.append(f.op(f"fadd {vector} {first}, {second}"))
    return rows


def _one_by_one(
    f: Function,
    base: str,
    index_code: str,
    indices: list[str],
    weights: list[str],
    rows: list[str],
    which: str,
) -> list[str]:
    """The rows of four sums with those of some lanes computed from records that lie anywhere."""
    lanes, word = f.lanes, SCALAR[index_code]
    vector, numbers = f.vector["f32"], f.vector["u32"]
    some, done = f.new_block(), f.new_block()
    origin = f.block
    f.branch(f.op(f"icmp ne i{lanes} {which}, 0"), some, done, weights=", !prof !1")
    f.start(some)
    kept = []
    for k, (code, x) in enumerate(
        [(index_code, x) for x in indices] + [("f32", w) for w in weights]
    ):
        kept.append(f.slot(code, k))
        f.do(f"store {f.vector[code]} {x}, ptr {kept[-1]}")

    def lane(k: str, *rows: str) -> list[str]:
        sums = ["", ""]
        for tap, (slot, factor) in enumerate(
            zip(kept[: len(indices)], kept[len(indices) :], strict=True)
        ):
            index = f.op(f"load {word}, ptr {address(f, index_code, slot, k)}")
            if BITS[index_code] < 64:
                index = f.op(f"zext {word} {index} to i64")
            record = address(f, "f32", base, f.op(f"mul i64 {index}, 4"))
            texel = f.op(f"load {QUAD}, ptr {record}, align 4")
            w = splat(f, "float", 4, f.op(f"load float, ptr {address(f, 'f32', factor, k)}"))
            sums[tap % 2] = _added(f, 4, sums[tap % 2], w, texel)
        total = f.op(f"fadd {QUAD} {sums[0]}, {sums[1]}")
        everywhere = selector([j % 4 for j in range(lanes)])
        total = f.op(f"shufflevector {QUAD} {total}, {QUAD} poison, {everywhere}")
        number = f.splat("u32", f.op(f"trunc i64 {k} to i32"))
        # Not by way of memory: that would wait for the stores of other packets.
        changed = []
        for r, row in enumerate(rows):
            own = ", ".join([f"i32 {j // 4 * 4 + r}" for j in range(lanes)])
            here = f.op(f"icmp eq {numbers} {number}, <{own}>")
            changed.append(
                f.op(f"select {f.vector['mask']} {here}, {vector} {total}, {vector} {row}")
            )
        return changed

    patched = each_bit(f, which, lane, [(vector, row) for row in rows])
    end = f.block
    f.do(f"br label %{done}")
    f.start(done)
    return [
        f.op(f"phi {vector} [{a}, %{origin}], [{b}, %{end}]")
        for a, b in zip(rows, patched, strict=True)
    ]


def _added(f: Function, lanes: int, total: str, w: str, x: str) -> str:
    """A total, empty in the beginning, plus a product."""
    v = f"<{lanes} x float>"
    if not total:
        return f.op(f"fmul {v} {w}, {x}")
    return f.op(f"call {v} @llvm.fma.v{lanes}f32({v} {w}, {v} {x}, {v} {total})")


def _shuffled(f: Function, a: str, b: str, which: list[int]) -> str:
    vector = f.vector["f32"]
    return f.op(f"shufflevector {vector} {a}, {vector} {b}, {selector(which)}")


CALLS["gather_weighted"] = gather_weighted
