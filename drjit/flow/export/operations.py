"""The operations of recordings that launch kernels of their own, in the drivers of object files:
scans, reductions of blocks and rows, sorting and products of matrices, as `jit/cpu/primitives.py`
launches them. Each function gets a `driver.Driver`, the arguments of the operation and the numbers
of its results.
"""

import struct
from math import gcd
from typing import Any

from ...jit.cpu import primitives
from ...jit.cpu.kernel import text_of
from ...jit.ir import dtype as dt
from ...jit.ir.dtype import DType
from ...jit.ir.op import starting_value
from .interface import CannotExport

OTHER_SIZES = 2  # the result of a recording that is none for some sizes


def pattern(t: DType, value: Any) -> int:
    """Returns a number, repeated to fill a word."""
    data = struct.pack("<" + dt.FORMATS[t.element], value) * (8 // t.itemsize)
    return int.from_bytes(data, "little", signed=True)


def allocated(d: Any, given: Any, results: Any) -> None:
    size, t, _ = given
    d.allocate(results[0], t, d.number(size))


def duplicate(d: Any, given: Any, results: Any) -> None:
    d.alias(results[0], given[0])


def check_bound(d: Any, given: Any, results: Any) -> None:
    source, bound = given
    t, n = d.sizes[source]
    largest = d.scratch("8")
    partial = d.scratch(f"8 * (({n} + 63) // 64)")
    text = text_of(f"x0 = load({t.code}, p[1], i)", f"reduce({t.code}, 'max', p[2], p[3], i, x0)")
    d.lines.append(f"put({largest}, 0)")
    d.run(text, 2, n, [d.values[source], partial, largest])
    text = f"{d.f.name}: more is needed than in the recording (memory for a loop, say)"
    d.lines += [f"if word({largest}) > {d.number(bound)}:"]
    d.lines += [f"    result = {d.module.message(text)}", "    break"]


def prefix(d: Any, given: Any, results: Any) -> None:
    reduce, source, exclusive, run = given
    t, n = d.sizes[source]
    run = d.number(run) if run else "0"
    if "1" in (run, n) and not exclusive:
        d.alias(results[0], source)
        return
    result = d.allocate(results[0], t, n)
    if "1" in (run, n):
        start = pattern(t, starting_value(reduce, t))
        d.lines.append(f"fill({result}, {n} * {t.itemsize}, {start})")
        return
    names = {"t": t.code, "op": reduce, "inclusive": not exclusive}
    x = d.values[source]
    if run not in ("0", n):
        block = d.planned(f"lanes_of_block({n}, {_multiple(run)}, threads)")
        scan = primitives._SCAN_BLOCKS.format(**names)
        d.run(scan, 8, n, [x, run, result], block=block)
        return
    block = d.planned(f"lanes_of_block({n}, 64, threads)")
    count = d.planned(f"({n} + {block} - 1) // {block}")
    totals = d.scratch(f"8 * {count}")
    start = pattern(t.accumulator, starting_value(reduce, t.accumulator))
    kept, d.lines = d.lines, []
    d.run(primitives._TOTALS.format(**names), 3, n, [x, totals], block=block)
    inner, d.lines = d.lines, kept
    d.lines += [f"if {count} == 1:", f"    put({totals}, {start})", "else:"]
    d.lines += ["    " + line for line in inner]
    d.run(primitives._SCAN.format(**names), 8, n, [x, totals, result], block=block)


def block_reduce(d: Any, given: Any, results: Any) -> None:
    reduce, source, run, count = given
    t, n = d.sizes[source]
    run, count = d.number(run), d.number(count)
    if run == "1" or n == "0":
        d.alias(results[0], source)
        return
    d.late_checks += [f"if {count} * {run} != {n}:", f"    return {OTHER_SIZES}"]
    result = d.allocate(results[0], t, count)
    divided = not (t is dt.f16 and reduce in ("add", "mul"))
    k = d.planned(f"pieces({run}, {n}, threads)" if divided else "1 + 0")
    part = d.planned(f"{run} // {k}")
    parts = d.scratch(f"{n} // {part} * {t.itemsize}")
    text = primitives._BLOCK_REDUCE.format(t=t.code, op=reduce)
    for test, source_at, size, of, to in (
        (f"if {k} > 1:", d.values[source], n, part, parts),
        ("", f"choose({k} > 1, {parts}, {d.values[source]})",
         f"choose({k} > 1, {n} // {part}, {n})", f"choose({k} > 1, {k}, {run})", result),
    ):  # fmt: skip
        size, of = d.planned(size), d.planned(of)
        lanes = d.planned(f"{size} // {of}")
        kept, d.lines = d.lines, []
        d.run(text, 0, lanes, [source_at, of, to], work=f"{lanes} * max(64, 2 * {of})")
        inner, d.lines = d.lines, kept
        d.lines += [test, *["    " + line for line in inner]] if test else inner


def reduce_rows(d: Any, given: Any, results: Any) -> None:
    reduce, source, rows, columns = given
    t, n = d.sizes[source]
    rows, columns = d.number(rows), d.number(columns)
    if rows == "1":
        d.alias(results[0], source)
        return
    matrices = d.planned(f"{n} // ({rows} * {columns})")
    a, table = t.accumulator, d.name("t")
    d.plans.append(f"{table} = room(7)")
    tasks = d.planned(f"row_plan({table}, {matrices}, {rows}, {columns}, threads, {a.itemsize})")
    result = d.allocate(results[0], t, d.planned(f"{matrices} * {columns}"))
    scratch = d.scratch(f"2 * threads * word({table} + 40) * {a.itemsize}")
    partial = d.scratch(f"{matrices} * word({table} + 32) * {columns} * {a.itemsize}")
    text = primitives._REDUCE_ROWS.format(t=t.code, op=reduce)
    words = [d.values[source], result, table, scratch, partial]
    d.run(text, 1, tasks, words, block="1", work=f"max({n} // 4, {tasks})")


def sort(d: Any, given: Any, results: Any) -> None:
    key, payload, digits = given
    t, n = d.sizes[key]
    least = primitives._SORTED_BLOCK
    blocks = d.planned(f"min(2 * threads, ({n} + {least - 1}) // {least})")
    block = d.planned(f"rounded_up({n}, {blocks} * 64) // {blocks}")
    entries = d.planned(f"({n} + {block} - 1) // {block} * {primitives._ENTRIES * 4}")
    table = d.scratch(entries)
    columns = [d.values[key]] + ([] if payload is None else [d.values[payload]])
    passes = [*primitives._passes(t, payload is not None, digits)]
    for k, (text, of, shift, kinds) in enumerate(passes):
        d.lines.append(f"fill({table}, {entries}, 0)")
        counted = [columns[0], table, str(shift)]
        d.run(primitives._COUNT.format(t=of.code), 8, n, counted, block=block)
        if k == len(passes) - 1:
            moved = [d.allocate(results[0], kinds[0], n)]
        else:
            moved = [d.scratch(f"{n} * {r.itemsize}") for r in kinds]
        words = [*counted, moved[0]]
        if "p[5]" in text:
            words += [columns[1], *moved[1:]]
        d.run(text.format(t=of.code), 16, n, words, block=block)
        columns = moved


def matmul(d: Any, given: Any, results: Any) -> None:
    left, right, layout = given
    (m, n, k), (t, _) = layout.sizes, d.sizes[left]
    if n == 1 and m > 1:
        matmul(d, (right, left, layout.flipped()), results)
        return
    if m * n * k * len(layout.offsets) == 0:
        raise CannotExport("products of empty matrices")
    at, bt = layout.transposed
    a, count = t.accumulator, len(layout.offsets)
    column = primitives._DEPTH_PACKED if at or t is not a else primitives._DEPTH
    depth = column // a.itemsize
    text = primitives._MATMUL.format(
        t=t.code, rows=1 if m == 1 else 4 if m <= 4 else 8, depth=depth, at=at, bt=bt,
        columns=8 if n <= 8 else 16 if n <= 16 else 64,
    )  # fmt: skip
    table, plan = d.name("t"), d.name("t")
    widest = primitives._widest_tile(column)
    d.plans += [
        f"{table} = room({8 + 2 * count})",
        f"{plan} = tile_plan({table}, {m}, {n}, {k}, {count}, threads, {depth}, {widest})",
    ]
    offsets = d.module.constant(layout.offsets.astype("<i8").tobytes())
    d.lines.append(d.copy(f"{table} + 64", f'external("{offsets}")', str(16 * count)))
    scratch = d.scratch(f"threads * word({table} + 56) * {a.itemsize}")
    result = d.allocate(results[0], t, str(m * n * count))
    words = [d.values[left], d.values[right], result, table, scratch]
    cost = f"max(word({table} + 24) * word({table} + 32) * {k} // 8, 1)"
    d.run(text, 1, plan, words, block="1", work=f"{plan} * {cost}")


def _multiple(run: str) -> str:
    """Returns lanes of which blocks are multiples: whole packets and whole runs."""
    if run.isdecimal():
        return str(int(run) * 64 // gcd(int(run), 64))
    return f"{run} * 64"


WRITERS: dict[str, Any] = {
    "_allocated": allocated, "_duplicate": duplicate,
    "_check_bound": check_bound, "prefix": prefix,
    "_block_reduce": block_reduce, "reduce_rows": reduce_rows,
    "_sorted": sort, "matmul": matmul,
}  # fmt: skip
TITLES = {
    "compress": "dr.compress(), whose result has a size that depends on the contents of an array"
}
