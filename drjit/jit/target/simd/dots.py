"""Products of a row and matrices that are stored as columns: dot products, read in order."""

from .ir import Function
from .loops import address, below, load, loop, store, suffix, vector, width
from .reduction import accumulator

# Columns at a time: as many loads as are needed to keep memory busy.
_TOGETHER = 8


def dots(f: Function, code: str, a: str, b: str, c: str, k: str, j0: str, count: str) -> None:
    """Stores the dot products of the row at `a` with the columns `j0 ...` at `b`, each with `k`
    entries that lie side by side, at `c`.
    """
    acc = accumulator(code)
    lanes = width(acc)
    kind = vector(acc, lanes)
    rest = f.op(f"urem i64 {k}, {lanes}")
    whole = f.op(f"sub i64 {k}, {rest}")
    last = f.op(f"sub i64 {count}, 1")

    def widened(place: str, mask: str) -> str:
        x = load(f, code, lanes, place, mask)
        return x if code == acc else f.op(f"fpext {vector(code, lanes)} {x} to {kind}")

    def group(j1: str, _: list[str]) -> tuple[()]:
        columns = []
        for number in range(_TOGETHER):
            # Columns beyond the end repeat the last one: nothing of them is stored in the end.
            j = f.op(f"add i64 {j1}, {number}")
            j = f.op(f"call i64 @llvm.smin.i64(i64 {last}, i64 {j})")
            line = f.op(f"mul i64 {f.op(f'add i64 {j0}, {j}')}, {k}")
            columns.append(address(f, code, b, line))

        def more(at: str, total: list[str], mask: str = "") -> list[str]:
            x = widened(address(f, code, a, at), mask)
            found = []
            for column, sums in zip(columns, total, strict=True):
                y = widened(address(f, code, column, at), mask)
                operands = f"{kind} {x}, {kind} {y}, {kind} {sums}"
                found.append(f.op(f"call {kind} @llvm.fma.{suffix(acc, lanes)}({operands})"))
            return found

        def tail(at: str, total: list[str]) -> list[str]:
            return more(at, total, below(f, rest, lanes))

        total = loop(f, "0", whole, str(lanes), [(kind, "zeroinitializer")] * _TOGETHER, more)
        total = loop(f, whole, k, str(lanes), [(kind, x) for x in total], tail)
        scalar = kind.split()[-1][:-1]
        result = "poison"
        for number, sums in enumerate(total):
            name = f"@llvm.vector.reduce.fadd.{suffix(acc, lanes)}"
            x = f.op(f"call reassoc {scalar} {name}({scalar} -0.0, {kind} {sums})")
            into = f"{vector(acc, _TOGETHER)} {result}, {scalar} {x}, i32 {number}"
            result = f.op(f"insertelement {into}")
        if code != acc:
            result = f.op(f"fptrunc {vector(acc, _TOGETHER)} {result} to {vector(code, _TOGETHER)}")
        left = below(f, f.op(f"sub i64 {count}, {j1}"), _TOGETHER)
        place = address(f, code, c, f.op(f"add i64 {j0}, {j1}"))
        store(f, code, _TOGETHER, result, place, left)
        return ()

    loop(f, "0", count, str(_TOGETHER), (), group)
