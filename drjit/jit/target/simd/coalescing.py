"""Coalescing of gathers, or scatters, with the same index: if lanes access consecutive elements in
order, as in the rows of a table, each gather or scatter becomes a single memory access.

The test runs once for all of them while the kernel executes. Collecting or spreading the elements
of lanes one by one takes processors many times as long.
"""

import ast
from collections.abc import Sequence

from . import loops
from .arguments import RUNS
from .ir import SCALAR, Function, Value
from .memory import gather_masked, scatter_masked
from .translate import Translator


def _first_element(f: Function, index: Value, mask: str) -> tuple[str, str]:
    """Returns whether the lanes of a mask access adjacent elements and, if so, the element of lane
    0."""
    code, x = index
    vector, element, bits = f.vector[code], SCALAR[code], f"i{f.lanes}"
    iota = ", ".join([f"{element} {lane}" for lane in range(f.lanes)])
    starts = f.op(f"sub {vector} {x}, <{iota}>")
    place = f.op(f"call {bits} @llvm.cttz.{bits}({bits} {f.bits(mask)}, i1 false)")
    place = f.op(f"and i64 {f.widened(place)}, {f.lanes - 1}")
    first = f.op(f"extractelement {vector} {starts}, i64 {place}")
    other = f.op(f"icmp ne {vector} {starts}, {f.splat(code, first)}")
    other = f.bits(f.op(f"and {f.vector['mask']} {other}, {mask}"))
    if code == "u32":  # as in gathers
        first = f.op(f"sext i32 {first} to i64")
    return f.op(f"icmp eq {bits} {other}, 0"), first


def gathers(t: Translator, statements: Sequence[ast.Assign]) -> None:
    """`y = gather(T, p[k], x, m)` with several `T` and `p[k]`."""
    f = t.f
    calls = [s.value.args for s in statements]  # type: ignore[attr-defined]
    index, mask = t.index(calls[0][2]), t.mask(calls[0][3])
    sources = [(t.type(kind), t.pointer(p)) for kind, p, _, _ in calls]
    adjacent, first = _first_element(f, index, mask)

    def together() -> list[str]:
        places = [loops.address(f, code, base, first) for code, base in sources]
        return [
            loops.load(f, code, f.lanes, place, mask)
            for (code, _), place in zip(sources, places, strict=True)
        ]

    def apart() -> list[str]:
        return [gather_masked(f, code, base, index, mask) for code, base in sources]

    kinds = [f.vector[code] for code, _ in sources]
    values = loops.choose(f, adjacent, together, apart, kinds)
    for s, (code, _), x in zip(statements, sources, values, strict=True):
        f.variables[s.targets[0].id] = code, x  # type: ignore[attr-defined]


def scatters(t: Translator, statements: Sequence[ast.Expr]) -> None:
    """`scatter(T, p[k], v, x, m)` with several `T`, `p[k]` and `v`."""
    f = t.f
    calls = [s.value.args for s in statements]  # type: ignore[attr-defined]
    index, mask = t.index(calls[0][3]), t.mask(calls[0][4])
    targets = []
    for kind, p, v, _, _ in calls:
        code = t.type(kind)
        targets.append((code, t.pointer(p), t.typed(v, code)[1]))
    adjacent, first = _first_element(f, index, mask)

    def together() -> None:
        for code, base, value in targets:
            loops.store(f, code, f.lanes, value, loops.address(f, code, base, first), mask)

    def apart() -> None:
        for code, base, value in targets:
            scatter_masked(f, code, base, value, index, mask)

    loops.choose(f, adjacent, together, apart)


RUNS.update({"gather": gathers, "scatter": scatters})
