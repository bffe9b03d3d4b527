"""The operations of recordings that launch kernels of their own, in the drivers of object files:
scans, reductions of blocks and rows, sorting and products of matrices, as `jit/cpu/primitives.py`
launches them. Each function gets a `driver.Driver`, the arguments of the operation and the numbers
of its results.
"""

import struct
from collections.abc import Sequence
from math import lcm
from typing import Any

from ...jit.cpu import primitives
from ...jit.cpu.kernel import text_of
from ...jit.ir import dtype as dt
from ...jit.ir.dtype import DType
from ...jit.ir.op import starting_value
from .interface import CannotExport

OTHER_SIZES = 2  # the result of a recording that is none for some sizes


def bits(t: DType, value: Any, count: int = 1) -> int:
    """Returns the bits of a number, or of several that are equal, as a signed word."""
    data = struct.pack("<" + dt.FORMATS[t.element], value) * count
    return int.from_bytes(data.ljust(8, b"\0"), "little", signed=True)


def pattern(t: DType, value: Any) -> int:
    """Returns a number, repeated to fill a word."""
    return bits(t, value, 8 // t.itemsize)


def under(head: str, lines: Sequence[str]) -> list[str]:
    """Returns a statement with others in it."""
    return [head, *["    " + line for line in lines]]


def returned_if(test: str, value: int = OTHER_SIZES) -> list[str]:
    """Returns the lines that end a function with a number if something is true, by default that of
    a recording which is none for the sizes of a call."""
    return under(f"if {test}:", [f"return {value}"])


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
    d.lines += d.run(text, n, [d.values[source], partial, largest], f"{n} * 2")
    number = d.f.message("more is needed than in the recording (memory for a loop, say)")
    test = f"if word({largest}) > {d.number(bound)}:"
    d.lines += under(test, [f"result = {number}", "break"])


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
        # Blocks of the launch are whole packets and whole runs.
        multiple = str(lcm(int(run), 64)) if run.isdecimal() else f"{run} * 64"
        block = d.planned(f"lanes_of_block({n}, {multiple}, threads)")
        scan = primitives._SCAN_BLOCKS.format(**names)
        d.lines += d.run(scan, n, [x, run, result], f"{n} * 8", block)
        return
    block = d.planned(f"lanes_of_block({n}, 64, threads)")
    count = d.planned(f"({n} + {block} - 1) // {block}")
    totals = d.scratch(f"8 * {count}")
    start = pattern(t.accumulator, starting_value(reduce, t.accumulator))
    d.lines += under(f"if {count} == 1:", [f"put({totals}, {start})"])
    adding = d.run(primitives._TOTALS.format(**names), n, [x, totals], f"{n} * 3", block)
    d.lines += under("else:", adding)
    scan = primitives._SCAN.format(**names)
    d.lines += d.run(scan, n, [x, totals, result], f"{n} * 8", block)


def block_reduce(d: Any, given: Any, results: Any) -> None:
    reduce, source, run, count = given
    t, n = d.sizes[source]
    run, count = d.number(run), d.number(count)
    if run == "1" or n == "0":
        d.alias(results[0], source)
        return
    d.plans += returned_if(f"{count} * {run} != {n}")
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
        lines = d.run(text, lanes, [source_at, of, to], f"{lanes} * max(64, 2 * {of})")
        d.lines += under(test, lines) if test else lines


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
    d.lines += d.run(text, tasks, words, f"max({n} // 4, {tasks})", "1")


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
        count = primitives._COUNT.format(t=of.code)
        d.lines += d.run(count, n, counted, f"{n} * 8", block)
        if k == len(passes) - 1:
            moved = [d.allocate(results[0], kinds[0], n)]
        else:
            moved = [d.scratch(f"{n} * {r.itemsize}") for r in kinds]
        words = [*counted, moved[0]]
        if "p[5]" in text:
            words += [columns[1], *moved[1:]]
        d.lines += d.run(text.format(t=of.code), n, words, f"{n} * 16", block)
        columns = moved


def matmul(d: Any, given: Any, results: Any) -> None:
    left, right, layout = given
    (m, n, k), (t, _) = layout.sizes, d.sizes[left]
    if n == 1 and m > 1:
        matmul(d, (right, left, layout.flipped()), results)
        return
    if m * n * k * len(layout.offsets) == 0:
        raise CannotExport("products of empty matrices")
    a, count = t.accumulator, len(layout.offsets)
    text, column = primitives.product_text(layout, t)
    depth = column // a.itemsize
    table, plan = d.name("t"), d.name("t")
    widest = primitives._widest_tile(column)
    d.plans += [
        f"{table} = room({8 + 2 * count})",
        f"{plan} = tile_plan({table}, {m}, {n}, {k}, {count}, threads, {depth}, {widest})",
    ]
    offsets = d.module.constant(layout.offsets.astype("<i8").tobytes())
    d.lines.append(f'copy({table} + 64, external("{offsets}"), {16 * count})')
    scratch = d.scratch(f"threads * word({table} + 56) * {a.itemsize}")
    result = d.allocate(results[0], t, str(m * n * count))
    words = [d.values[left], d.values[right], result, table, scratch]
    cost = f"max(word({table} + 24) * word({table} + 32) * {k} // 8, 1)"
    d.lines += d.run(text, plan, words, f"{plan} * {cost}", "1")


WRITERS: dict[str, Any] = {
    "_allocated": allocated, "_duplicate": duplicate,
    "_check_bound": check_bound, "prefix": prefix,
    "_block_reduce": block_reduce, "reduce_rows": reduce_rows,
    "_sorted": sort, "matmul": matmul,
}  # fmt: skip
