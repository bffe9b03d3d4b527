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
from ..simd.ir import BYTES, MEMORY
from ..simd.loops import loop, when
from ..simd.reduction import accumulator, identity
from .calls import statement
from .function import WARP, GpuFunction, element, shared
from .threads import is_first, neutral, of_block


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
    f: GpuFunction = t.f
    if not t.reductions:
        return
    warps = f.threads // WARP
    first = is_first(f)
    for number, (op, code, a, _, total) in enumerate(t.reductions):
        acc = accumulator(code)
        room = shared(t.module, f"@totals.{number}", warps, acc)
        x = of_block(f, op, acc, element(f, acc, total), room)
        with when(f, first):
            place = f.op(f"getelementptr {MEMORY[acc]}, ptr {f.pointer(a)}, i64 %block")
            f.do(f"store {MEMORY[acc]} {x}, ptr {place}, align {BYTES[acc]}")
    flag = shared(t.module, "@last", 1, "u32")
    with when(f, first):
        f.fence()
        before = f.op("atomicrmw add ptr addrspace(1) %counter, i32 1 monotonic")
        blocks = f.special("nctaid.x")
        last = f.op(f"icmp eq i32 {before}, {f.op(f'sub i32 {blocks}, 1')}")
        f.do(f"store i32 {f.op(f'zext i1 {last} to i32')}, ptr addrspace(3) {flag}")
    f.barrier()
    is_last = f.op(f"icmp ne i32 {f.op(f'load i32, ptr addrspace(3) {flag}')}, 0")
    with when(f, is_last):
        f.fence()
        _last_block(t, f, t.reductions, first)


def _last_block(t: Any, f: GpuFunction, reductions: Sequence[tuple], first: str) -> None:
    for number, (op, code, a, k, _) in enumerate(reductions):
        acc = accumulator(code)
        x = _over_blocks(f, op, acc, f.pointer(a))
        room = shared(t.module, f"@all.{number}", f.threads // WARP, acc)
        x = of_block(f, op, acc, x, room)
        with when(f, first):
            if code != acc:
                x = f.op(f"fptrunc {MEMORY[acc]} {x} to {MEMORY[code]}")
            f.do(f"store {MEMORY[code]} {x}, ptr {f.pointer(k)}, align {BYTES[code]}")
    with when(f, first):
        f.do("store i32 0, ptr addrspace(1) %counter")


def _over_blocks(f: GpuFunction, op: str, acc: str, base: str) -> str:
    """Returns the reduction of the totals of the blocks that a thread takes: those with its number
    plus a multiple of the number of threads."""
    kind, size = MEMORY[acc], BYTES[acc]
    with loop(f, "%thread", "%blocks", f.threads, [(kind, neutral(op, acc))]) as (j, total):
        place = f.op(f"getelementptr {kind}, ptr {base}, i64 {j}")
        x = f.op(f"load volatile {kind}, ptr {place}, align {size}")
        total[0] = combine(f, op, acc, x, total[0], kind)
    return total[0]
