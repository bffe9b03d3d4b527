"""The statements of the kernel language for GPUs: those of the SIMD target, without the ones of
which only primitives of the processor consist. Other modules replace some.
"""

from collections.abc import Callable
from functools import partial

from ..simd import arguments, kernel
from ..simd.elementwise import Emit

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

# How operations are emitted instead.
ROWS: dict[str, Emit] = {}
