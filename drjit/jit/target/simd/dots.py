"""Products of a row and matrices that are stored as columns: dot products, read in order."""

from .ir import SCALAR, Function
from .loops import address, below, cast, loop, store, suffix, vector
from .operands import Shape, loaded, rows_of

# Columns at a time: as many loads as are needed to keep memory busy.
_TOGETHER = 8


def dots(f: Function, s: Shape, a: str, b: str, c: str, k: str, j0: str, count: str) -> None:
    """Stores the dot products of the row at `a` with the columns `j0 ...` at `b`, each with `k`
    entries that lie side by side, at `c`.
    """
    acc, lanes = s.acc, s.lanes
    kind, element = vector(acc, lanes), SCALAR[acc]
    rest = f.op(f"urem i64 {k}, {lanes}")
    whole = f.op(f"sub i64 {k}, {rest}")

    def group(j1: str, _: list[str]) -> tuple[()]:
        first, left = f.op(f"add i64 {j0}, {j1}"), f.op(f"sub i64 {count}, {j1}")
        columns = rows_of(f, s, b, k, "0", first, left, _TOGETHER)

        def more(at: str, total: list[str], mask: str = "") -> list[str]:
            x = loaded(f, s, address(f, s.code, a, at), lanes, mask)
            found = []
            for column, sums in zip(columns, total, strict=True):
                y = loaded(f, s, address(f, s.code, column, at), lanes, mask)
                operands = f"{kind} {x}, {kind} {y}, {kind} {sums}"
                found.append(f.op(f"call {kind} @llvm.fma.{suffix(acc, lanes)}({operands})"))
            return found

        def tail(at: str, total: list[str]) -> list[str]:
            return more(at, total, below(f, rest, lanes))

        total = loop(f, "0", whole, str(lanes), [(kind, "zeroinitializer")] * _TOGETHER, more)
        total = loop(f, whole, k, str(lanes), [(kind, x) for x in total], tail)
        result = "poison"
        for number, sums in enumerate(total):
            name = f"@llvm.vector.reduce.fadd.{suffix(acc, lanes)}"
            x = f.op(f"call reassoc {element} {name}({element} -0.0, {kind} {sums})")
            into = f"{vector(acc, _TOGETHER)} {result}, {element} {x}, i32 {number}"
            result = f.op(f"insertelement {into}")
        result = cast(f, _TOGETHER, result, acc, s.code)
        inside = below(f, left, _TOGETHER)
        store(f, s.code, _TOGETHER, result, address(f, s.code, c, first), inside)
        return ()

    loop(f, "0", count, str(_TOGETHER), (), group)
