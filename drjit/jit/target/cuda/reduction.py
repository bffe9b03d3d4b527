"""Reductions over all lanes: by threads over their lanes, by shuffles within warps, in shared
memory within blocks, and by the last block over the results of all. The order depends on the number
of blocks only, so the result does not change from launch to launch. See M. Harris, "Optimizing
parallel reduction in CUDA" (2007), and the sample threadFenceReduction for the last block.
"""

from collections.abc import Sequence
from typing import Any

from ..simd.atomic import combine
from ..simd.compensated_sum import add_long, is_long
from ..simd.conversion import convert
from ..simd.reduction import accumulator, identity
from ..simd.values import Value
from .calls import statement
from .function import WARP, element
from .threads import of_block
from .values import GpuCode, GpuPointer, in_register


@statement("type reduction parameter parameter lane_range operand")
def reduce(t: Any, code: str, op: str, a: int, k: int, x: str) -> None:
    """`reduce(T, 'add', p[a], p[k], i, x)`. Sums of floats keep what rounding takes from them."""
    f, acc = t.f, accumulator(code)
    kind, start = f.vector[acc], f.constant(acc, identity(op, acc))
    value = convert(f, acc, code, x)
    if f.warps:
        value = f.select(acc, t.active(), value, start)
    carried = t.carry(kind, start)
    if is_long(op, acc):
        lost = t.carry(kind, f.constant(acc, -0.0))
        carried.end, lost.end = add_long(f, kind, (carried.name, lost.name), value)
    else:
        carried.end = combine(f, op, acc, value, carried.name)
    t.reductions.append((op, code, a, k, carried.name))


def store_totals(t: Any) -> None:
    """After the lanes of a thread: stores the totals of the block, and the last block those of the
    launch."""
    if not t.reductions:
        return
    c: GpuCode = t.c
    f, warps, counter = t.f, t.f.threads // WARP, "ptr addrspace(1) %counter"
    for number, (op, code, a, _, total) in enumerate(t.reductions):
        acc = accumulator(code)
        x = Value(f, in_register(acc), 0, element(f, acc, total))
        x = of_block(c, op, x, c.shared(f"totals.{number}", acc, warps))
        for _ in c.when(c.is_first):
            (GpuPointer(f, acc, f.pointer(a)) + c.block()).store(x)
    flag = c.shared("last", "u32", 1)
    for _ in c.when(c.is_first):
        f.fence()
        before = Value(f, "u32", 0, f.op(f"atomicrmw add {counter}, i32 1 monotonic"))
        flag.store((before == c.special("nctaid.x") - 1).cast("u32"))
    f.barrier()
    for _ in c.when(flag.load() != 0):
        f.fence()
        _last_block(c, t.reductions)
        for _ in c.when(c.is_first):
            f.do(f"store i32 0, {counter}")


def _last_block(c: GpuCode, reductions: Sequence[tuple]) -> None:
    for number, (op, code, a, k, _) in enumerate(reductions):
        acc = accumulator(code)
        x = _over_blocks(c, op, GpuPointer(c.f, acc, c.f.pointer(a)))
        x = of_block(c, op, x, c.shared(f"all.{number}", acc, c.f.threads // WARP))
        for _ in c.when(c.is_first):
            GpuPointer(c.f, code, c.f.pointer(k)).store(x.cast(in_register(code)))


def _over_blocks(c: GpuCode, op: str, base: GpuPointer) -> Value:
    """Returns the reduction of the totals of the blocks that a thread takes: those with its number
    plus a multiple of the number of threads."""
    total = [c.neutral(op, base.code)]
    for j in c.range("%thread", "%blocks", c.f.threads, total):
        total[0] = c.combine(op, (base + j).load(volatile=True), total[0])
    return total[0]
