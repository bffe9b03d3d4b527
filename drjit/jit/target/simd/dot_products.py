"""Products of a row and column-major matrices: dot products, read in memory order."""

from .ir import SCALAR, Function
from .loops import address, below, cast, fma, loop, store, suffix, vector
from .packing import Shape, loaded, rows_of

# Columns at a time: as many loads as it takes to keep memory busy.
_TOGETHER = 8


def dot_products(
    f: Function, s: Shape, a: str, b: str, c: str, k: str, j0: str, count: str
) -> None:
    """Stores at `c` the dot products of the row at `a` with the columns `j0 ...` at `b`, each with
    `k` contiguous entries.
    """
    acc, lanes = s.acc, s.lanes
    kind, element, joined = vector(acc, lanes), SCALAR[acc], vector(acc, _TOGETHER)
    rest = f.op(f"urem i64 {k}, {lanes}")
    whole = f.op(f"sub i64 {k}, {rest}")
    reduction = f"call reassoc {element} @llvm.vector.reduce.fadd.{suffix(acc, lanes)}"
    with loop(f, 0, count, _TOGETHER) as (j1, _):
        first, left = f.op(f"add i64 {j0}, {j1}"), f.op(f"sub i64 {count}, {j1}")
        columns = rows_of(f, s, b, k, "0", first, left, _TOGETHER)
        total = ["zeroinitializer"] * _TOGETHER
        for start, end, is_tail in (("0", whole, False), (whole, k, True)):
            with loop(f, start, end, lanes, [(kind, x) for x in total]) as (at, total):
                mask = below(f, rest, lanes) if is_tail else ""
                x = loaded(f, s, address(f, s.code, a, at), lanes, mask)
                for number, column in enumerate(columns):
                    y = loaded(f, s, address(f, s.code, column, at), lanes, mask)
                    total[number] = fma(f, acc, lanes, x, y, total[number])
        result = "poison"
        for number, sums in enumerate(total):
            x = f.op(f"{reduction}({element} -0.0, {kind} {sums})")
            result = f.op(f"insertelement {joined} {result}, {element} {x}, i32 {number}")
        result = cast(f, _TOGETHER, result, acc, s.code)
        inside = below(f, left, _TOGETHER)
        store(f, s.code, _TOGETHER, result, address(f, s.code, c, first), inside)
