"""The approximations of the machine, and the functions of the library that use them where
`JitFlag.FastMath` allows it: see `drjit/jit/target/mathlib/approximate.py`.
"""

import ast
from collections.abc import Callable
from typing import Any

from ..simd.ir import Operand
from .calls import CALLS

# Those with `.ftz` take subnormal numbers for zero, and return zero for them.
INSTRUCTIONS = {
    "ex2_ftz": "ex2.approx.ftz.f32",
    "lg2_ftz": "lg2.approx.ftz.f32",
    "rcp_ftz": "rcp.approx.ftz.f32",
    "sin_ftz": "sin.approx.ftz.f32",
    "tanh_approx": "tanh.approx.f32",
}

# The functions with an approximation, for each element type.
FUNCTIONS = {
    "f32": {"_reciprocal": "_approximate_reciprocal", "tanh": "approximate_tanh"},
    "f16": {
        name: f"approximate_half_{name}"
        for name in ("cos", "exp", "exp2", "log", "log2", "pow", "sin", "sincos", "tanh")
    },
}


def function(name: str, code: str, capability: tuple[int, int]) -> str:
    """Returns the function of the library that is called in place of one, for an element type."""
    if name == "tanh" and capability < (7, 5):
        code = "f32"  # which lack the instruction for `tanh`
    return FUNCTIONS.get(code, {}).get(name, name)


def _instruction(text: str) -> Callable[..., Operand]:
    def translated(t: Any, e: ast.expr) -> Operand:
        f, (code, x), result = t.f, t.typed(e), "poison"
        vector = f.vector[code]
        for k in range(f.lanes):
            one = f.op(f"extractelement {vector} {x}, i32 {k}")
            one = f.op(f'call float asm "{text} $0, $1;", "=f,f"(float {one})')
            result = f.op(f"insertelement {vector} {result}, float {one}, i32 {k}")
        return code, result

    return translated


CALLS.update({name: _instruction(text) for name, text in INSTRUCTIONS.items()})
