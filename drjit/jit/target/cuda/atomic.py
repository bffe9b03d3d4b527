"""Read-modify-write operations on memory, one lane at a time.

Scatter-reductions accumulate in shared memory if the target is small, so that the many threads of a
block that meet in one place do not go to the memory of the GPU one after the other: such memory is
called private here.
"""

import ast
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.dtype import BY_CODE
from ..numpy.elementwise import ignored_number
from ..simd.atomic import atomic_update, plain_update, updated
from ..simd.conversion import convert, first_element
from ..simd.feature_loop import load_row, row_address
from ..simd.ir import BYTES, FLOATS, MEMORY, SCALAR, Operand, constant
from ..simd.loops import address, choose, loop, when
from ..simd.memory import element_address
from ..simd.reduction import accumulator
from ..simd.vector_memory import FeatureVector
from .calls import statement
from .function import PRIVATE_BYTES, GpuFunction
from .memory import lane_address

PRIVATE_TARGETS = 2
"""How many targets of a kernel may have such memory."""


@statement("type reduction text pointer operand index mask")
def scatter_reduce(
    t: Any, code: str, op: str, mode: str, base: str, value: str, index: Operand, mask: str
) -> None:
    """`scatter_reduce(T, 'add', 'direct', p[k], v, x, m)`."""
    f, kind = t.f, MEMORY[code]
    with when(f, f.scalar("mask", mask)):
        place, one = lane_address(f, kind, base, index), first_element(f, code, value)
        if mode == "direct" and op == "add" and code == "f16":
            f.op(f"atomicrmw fadd ptr {place}, half {one} monotonic, align 2")
        elif mode == "direct":
            atomic_update(f, op, code, place, one)
        else:
            plain_update(f, op, code, place, one)


@statement("type reduction parameter parameter parameter operand index mask")
def scatter_reduce_expand(
    t: Any, code: str, op: str, k: int, a: int, n: int, x: str, index: Operand, mask: str
) -> None:
    """`scatter_reduce_expand(...)`."""
    f, acc, (kind, at) = t.f, accumulator(code), index
    packets = (
        (f.vector["mask"], mask),
        (f.vector[acc], convert(f, acc, code, x)),
        (f.vector[kind], at),
    )
    lanes = [
        [f.op(f"extractelement {of} {v}, i32 {lane}") for of, v in packets]
        for lane in range(f.lanes)
    ]

    def update(base: str, shared: bool) -> None:
        for here, one, place in lanes:
            with when(f, here):
                atomic_update(f, op, acc, element_address(f, MEMORY[acc], base, kind, place), one)

    in_block(t, (op, code, k, a, n), update)


@statement("type reduction parameter parameter parameter index mask *operand")
def scatter_reduce_packet(
    t: Any, code: str, op: str, k: int, a: int, n: int, index: Operand, mask: str, *xs: str
) -> None:
    """`scatter_reduce_packet(...)`."""
    f, acc = t.f, accumulator(code)
    parts = [first_element(f, acc, convert(f, acc, code, x)) for x in xs]
    width = 4 if len(parts) % 4 == 0 else 2
    can = t.module.options.capability >= (9, 0) and op == "add" and acc == "f32"
    together = can and len(parts) % width == 0

    def update(base: str, shared: bool) -> None:
        place = lane_address(f, f"[{len(parts)} x {MEMORY[acc]}]", base, index)
        if together and not shared:
            for j in range(0, len(parts), width):
                add_together(f, address(f, acc, place, j), parts[j : j + width])
        else:
            for j, x in enumerate(parts):
                atomic_update(f, op, acc, address(f, acc, place, j), x)

    with when(f, f.scalar("mask", mask)):
        in_block(t, (op, code, k, a, n), update)


def add_together(f: Any, place: str, parts: Sequence[str]) -> None:
    """Adds 2 or 4 neighbouring floats to the memory of the GPU, by one instruction."""
    place = f.op(f"addrspacecast ptr {place} to ptr addrspace(1)")
    names = ", ".join([f"${k + 1}" for k in range(len(parts))])
    text = f'"red.global.add.v{len(parts)}.f32 [$0], {{{names}}};"'
    constraints = f'"l{",f" * len(parts)},~{{memory}}"'
    operands = ", ".join([f"ptr addrspace(1) {place}", *[f"float {x}" for x in parts]])
    f.do(f"call void asm sideeffect {text}, {constraints}({operands})")


def finish_sums(f: Any, expansion: tuple) -> None:
    """Combines accumulators into a target of halves, an element for each thread of the launch and
    those a launch further."""
    op, code, k, a, n = expansion
    acc = accumulator(code)
    target, source = f.pointer(k), f.pointer(a)
    with loop(f, "%first", f.word(n), "%step") as (j, _):
        place = address(f, code, target, j)
        old = f.op(f"load {MEMORY[code]}, ptr {place}, align {BYTES[code]}")
        old = f.op(f"fpext {SCALAR[code]} {old} to {SCALAR[acc]}")
        x = f.op(f"load {MEMORY[acc]}, ptr {address(f, acc, source, j)}, align {BYTES[acc]}")
        new = updated(f, op, acc, x, old, MEMORY[acc])
        new = f.op(f"fptrunc {SCALAR[acc]} {new} to {SCALAR[code]}")
        f.do(f"store {MEMORY[code]} {new}, ptr {place}, align {BYTES[code]}")


# ---- where scatter-reductions accumulate


def target_accumulators(t: Any, op: str, code: str, k: int, a: int, n: int) -> tuple[str, str]:
    """Returns the type and the address of a kernel's accumulators: the target itself or, if halves
    are summed in another type, one copy of accumulators, which `finish_sums` combines into the
    target."""
    acc = accumulator(code)
    if acc == code:
        return code, t.f.pointer(k)
    if (op, code, k, a, n) not in t.expansions:
        t.expansions.append((op, code, k, a, n))
    return acc, t.f.pointer(a)


def in_block(
    t: Any, target: tuple[str, str, int, int, int], update: Callable[[str, bool], None]
) -> None:
    """Emits updates of a target's accumulators, given their address and whether that is in shared
    memory. If the target is small, they are in that of the block. Each memory has instructions of
    its own, so there are two copies of the updates."""
    f: GpuFunction = t.f
    op, code, k, _, n = target
    acc, base = target_accumulators(t, *target)
    found = t.private.get((op, code, k))
    if found is None and len(t.private) < PRIVATE_TARGETS and BYTES[acc] >= 4 and not t.top:
        found = t.private[op, code, k] = f"%private{len(t.private)}", acc, base, n
        name, count = found[0], PRIVATE_BYTES // BYTES[acc]
        own = t.c.shared(f"private.{len(t.private)}", acc, count)
        size = f.word(n)
        f.once(f"{name}.fits", f"icmp ule i64 {size}, {count}")
        f.once(f"{name}.pays", f"icmp ule i64 {size}, %end")
        f.once(f"{name}.small", f"and i1 {name}.fits, {name}.pays")
        f.once(name, f"addrspacecast ptr addrspace(3) {own} to ptr")
    if found is None:
        update(base, False)
        return
    name = found[0]
    choose(f, f"{name}.small", lambda: update(name, True), lambda: update(base, False))


def _start(op: str, acc: str) -> str:
    """Returns a value that the reduction ignores, as a constant of integer type."""
    kind = np.dtype(BY_CODE[acc].numpy)
    bits = np.array([ignored_number(op, kind)], kind).view(f"u{kind.itemsize}")[0]
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


# ---- sums over lanes of vectors in memory, one lane and element at a time


def _added(t: Any, acc: str, place: str, v: FeatureVector, k: str, factor: str = "") -> None:
    f, source = t.f, t.place(v)
    x = load_row(f, v.code, row_address(f, v.code, source, k))
    if factor:
        x = f.op(f"fmul {f.vector[acc]} {x}, {factor}")
    atomic_update(f, "add", acc, place, first_element(f, acc, x))


@statement("type parameter parameter parameter parameter integer integer integer node node mask")
def outer(
    t: Any, code: str, k: int, a: int, n: int, offset: int, rows: int, columns: int,
    stride: int, y: ast.expr, x: ast.expr, mask: str,
) -> None:  # fmt: skip
    """`outer(T, p[k], p[w], p[n], p[o], rows, columns, stride, y, x, m)`."""
    f, (acc, base) = t.f, target_accumulators(t, "add", code, k, a, n)
    left, right = t.vector(y), t.vector(x)
    t.flush([v for v in (left, right) if v.op is not None])
    target = address(f, acc, base, f.word_here(offset))
    places = t.place(left), t.place(right)
    with when(f, f.scalar("mask", mask)), loop(f, 0, rows, 1) as (r, _):
        factor = load_row(f, left.code, row_address(f, left.code, places[0], r))
        row = address(f, acc, target, f.op(f"mul i64 {r}, {stride}"))
        with loop(f, 0, columns, 1) as (c, _):
            _added(t, acc, address(f, acc, row, c), right, c, factor)


@statement("type parameter parameter parameter parameter node mask")
def accumulate(
    t: Any, code: str, k: int, a: int, n: int, offset: int, y: ast.expr, mask: str
) -> None:
    """`accumulate(T, p[k], p[w], p[n], p[o], y, m)`."""
    f, (acc, base) = t.f, target_accumulators(t, "add", code, k, a, n)
    v = t.vector(y)
    t.flush([v] if v.op is not None else [])
    target = address(f, acc, base, f.word_here(offset))
    t.place(v)
    with when(f, f.scalar("mask", mask)), loop(f, 0, v.count, 1) as (r, _):
        _added(t, acc, address(f, acc, target, r), v, r)
