"""Operations on numbers that are emitted in another way than for the processor."""

from collections.abc import Callable
from functools import partial

from ..simd.elementwise import TABLE, Emit, known
from ..simd.ir import BITS, SIGNED, Function
from .calls import ROWS


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


ROWS["quotient"], ROWS["remainder"] = _divides(False), _divides(True)
ROWS["shl"], ROWS["shr"] = partial(_shifts, "shl"), partial(_shifts, "shr")
