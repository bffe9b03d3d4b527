"""The statements of the kernel language for GPUs: those of the SIMD target, without the ones of its
primitives. Other modules replace some of them, for vectors in memory and for those in registers.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ..language import PRIMITIVES
from ..simd import arguments, kernel

# Importing the module registers all statements.
assert kernel

# A GPU has kernels of its own for the primitives.
CALLS: dict[str, Callable] = {
    name: rule for name, rule in arguments.CALLS.items() if name not in PRIMITIVES
}
statement = partial(arguments.statement, calls=CALLS)

MEMORY = object()
"""What a translator returns to leave a statement to the translator for vectors in memory."""


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
