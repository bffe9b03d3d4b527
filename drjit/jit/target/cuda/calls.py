"""The statements and operations of the kernel language for GPUs: those of the SIMD target, without
the ones of which only primitives of the processor consist. Other modules replace some statements,
for vectors in memory and for those in registers.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ..simd import arguments, kernel
from ..simd.elementwise import TABLE, Emit, known
from ..simd.ir import BITS, SIGNED, Function

# Importing the module registers all statements.
assert kernel

# A GPU has kernels of its own for these.
_PRIMITIVES = (
    "block_reduce", "compress", "matmul", "radix_count", "radix_move", "reduce_rows", "scan",
    "scan_blocks", "scan_totals",
)  # fmt: skip

CALLS: dict[str, Callable] = {
    name: rule for name, rule in arguments.CALLS.items() if name not in _PRIMITIVES
}
statement = partial(arguments.statement, calls=CALLS)

MEMORY = object()
"""What a translator returns to leave a statement to that for vectors in memory."""


def in_registers(kinds: str, vector: int | None = None) -> Callable[[Callable], Callable]:
    """Registers a function as the translator of calls with its name, for vectors in registers: with
    a number, where this argument is one; with -1, where the result is to be one."""

    def register(function: Callable) -> Callable:
        name, ours = function.__name__, {}
        arguments.statement(kinds, ours)(function)
        ours, theirs = ours[name], CALLS[name]

        def translated(t: Any, *nodes: Any) -> Any:
            here = vector != -1 or not t.plan.in_memory(t.target)
            if vector is not None and vector >= 0:
                value = t.expr(nodes[vector])
                here = value is not None and hasattr(value[1], "forms")
            found = ours(t, *nodes) if here else MEMORY
            return theirs(t, *nodes) if found is MEMORY else found

        CALLS[name] = translated
        return function

    return register


# ---- operations on numbers


def _divides(remainder: bool) -> Emit:
    """Division by the GPU's own sequence; a zero divisor is first replaced by 1, and so is the -1
    in MIN / -1."""

    def emit(f: Function, code: str, x: str, y: str) -> str:
        vector, masks, signed = f.vector[code], f.vector["mask"], code in SIGNED
        zero = bad = f.op(f"icmp eq {vector} {y}, zeroinitializer")
        if signed:
            lowest = f.op(f"icmp eq {vector} {x}, {f.constant(code, -1 << BITS[code] - 1)}")
            minus = f.op(f"icmp eq {vector} {y}, {f.constant(code, -1)}")
            bad = f.op(f"or {masks} {f.op(f'and {masks} {lowest}, {minus}')}, {zero}")
        divisor = f.op(f"select {masks} {bad}, {vector} {f.constant(code, 1)}, {vector} {y}")
        how = f"{'s' if signed else 'u'}{'rem' if remainder else 'div'}"
        result = f.op(f"{how} {vector} {x}, {divisor}")
        if remainder:
            return result
        return f.op(f"select {masks} {zero}, {vector} zeroinitializer, {vector} {result}")

    return emit


def _shifts(name: str, f: Function, code: str, x: str, count: str) -> str:
    """LLVM turns a shift, and the choice of zero for counts that are too large, into one
    instruction, which takes the lower half of a 64-bit count only."""
    if BITS[code] == 64 and known(count) is None:
        suffix, vector = f.types.suffix[code], f.vector[code]
        limit = f.constant(code, 64)
        count = f.op(f"call {vector} @llvm.umin.{suffix}({vector} {count}, {vector} {limit})")
    rule: Callable[..., str] = TABLE[name]  # type: ignore[assignment]
    return rule(f, code, x, count)


# What is emitted in another way than for the processor.
ROWS: dict[str, Emit] = {
    "quotient": _divides(False),
    "remainder": _divides(True),
    "shl": partial(_shifts, "shl"),
    "shr": partial(_shifts, "shr"),
}
