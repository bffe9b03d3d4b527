"""Statements on vectors in registers, in place of those on memory."""

from collections.abc import Callable
from typing import Any

from ..simd import arguments
from .calls import CALLS

MEMORY = object()
"""What a translator returns to leave a statement to that for vectors in memory."""


def in_registers(kinds: str) -> Callable[[Callable], Callable]:
    """Registers a function as the translator of calls with its name, for vectors in registers."""

    def register(function: Callable) -> Callable:
        name, ours = function.__name__, {}
        arguments.statement(kinds, ours)(function)
        ours, theirs = ours[name], CALLS[name]

        def translated(t: Any, *nodes: Any) -> Any:
            found = ours(t, *nodes)
            return theirs(t, *nodes) if found is MEMORY else found

        CALLS[name] = translated
        return function

    return register
