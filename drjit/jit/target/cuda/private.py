"""Where scatter-reductions accumulate: in shared memory, if the target is small, so that the many
threads of a block that meet in one place do not go to the memory of the GPU one after the other.
"""

from typing import Any

import numpy as np

from ...ir.dtype import BY_CODE
from ..numpy.elementwise import passed_over
from ..simd.atomic import atomic_update
from ..simd.ir import BYTES, FLOATS, MEMORY, constant
from ..simd.loops import loop, when
from ..simd.reduction import accumulator
from .function import GpuFunction

ROOM = 1 << 14
"""Bytes of shared memory for a target."""
MOST = 2
"""How many targets of a kernel have such memory."""


def sums(t: Any, op: str, code: str, k: int, a: int, n: int) -> tuple[str, str]:
    """Returns the type and address where a kernel accumulates: the target itself or, if halves
    are summed in another type, one copy of accumulators, which `finish` combines into the target.
    """
    acc = accumulator(code)
    if acc == code:
        return code, t.f.pointer(k)
    if (op, code, k, a, n) not in t.expansions:
        t.expansions.append((op, code, k, a, n))
    return acc, t.f.pointer(a)


def room(t: Any, op: str, code: str, k: int, a: int, n: int) -> tuple[str, str]:
    """Returns the same, or where the block accumulates if the target is small enough."""
    f: GpuFunction = t.f
    acc, base = sums(t, op, code, k, a, n)
    found = t.private.get((op, code, k))
    if found is None and len(t.private) < MOST and BYTES[acc] >= 4 and not t.top:
        found = t.private[op, code, k] = f"%private{len(t.private)}", acc, base, n
        name, count = found[0], ROOM // BYTES[acc]
        own = t.c.shared(f"private.{len(t.private)}", acc, count)
        size = f.word(n)
        f.once(f"{name}.fits", f"icmp ule i64 {size}, {count}")
        f.once(f"{name}.pays", f"icmp ule i64 {size}, %end")
        f.once(f"{name}.small", f"and i1 {name}.fits, {name}.pays")
        f.once(f"{name}.own", f"addrspacecast ptr addrspace(3) {own} to ptr")
        f.once(name, f"select i1 {name}.small, ptr {name}.own, ptr {base}")
    return acc, base if found is None else found[0]


def _start(op: str, acc: str) -> str:
    """Returns a value that the reduction ignores, as a constant of integer type."""
    kind = np.dtype(BY_CODE[acc].numpy)
    bits = np.array([passed_over(op, kind)], kind).view(f"u{kind.itemsize}")[0]
    return constant(f"u{8 * kind.itemsize}", int(bits))


def prepare(t: Any, origin: str) -> tuple[list[str], str]:
    """Returns code that fills the memory of the block, to come after the block `origin` of the
    code, and the name of its last block."""
    lines: list[str] = []
    for (op, *_), (name, acc, _, n) in t.private.items():
        word, label = f"i{8 * BYTES[acc]}", name[1:]
        lines += [
            f"br i1 {name}.small, label %{label}.fill, label %{label}.begin",
            f"{label}.fill:",
            f"{name}.j = phi i64 [%thread, %{origin}], [{name}.k, %{label}.next]",
            f"{name}.more = icmp ult i64 {name}.j, {t.f.word(n)}",
            f"br i1 {name}.more, label %{label}.next, label %{label}.begin",
            f"{label}.next:",
            f"{name}.p = getelementptr {word}, ptr {name}, i64 {name}.j",
            f"store {word} {_start(op, acc)}, ptr {name}.p",
            f"{name}.k = add i64 {name}.j, {t.f.threads}",
            f"br label %{label}.fill",
            f"{label}.begin:",
        ]
        origin = f"{label}.begin"
    if t.private:
        lines.append("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")
    return lines, origin


def combine(t: Any) -> None:
    """After the lanes of a thread: combines the memory of the block into the targets."""
    f: GpuFunction = t.f
    if t.private:
        f.barrier()
    for (op, *_), (name, acc, base, n) in t.private.items():
        kind, word = MEMORY[acc], f"i{8 * BYTES[acc]}"
        with when(f, f"{name}.small"):
            with loop(f, "%thread", f.word(n), f.threads) as (j, _):
                x = f.op(f"load {word}, ptr {f.op(f'getelementptr {word}, ptr {name}, i64 {j}')}")
                with when(f, f.op(f"icmp ne {word} {x}, {_start(op, acc)}")):
                    place = f.op(f"getelementptr {kind}, ptr {base}, i64 {j}")
                    one = f.op(f"bitcast {word} {x} to {kind}") if acc in FLOATS else x
                    atomic_update(f, op, acc, place, one)
