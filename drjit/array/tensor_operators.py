"""Operators of tensors, with the common case inlined: the same class and shape, or a number."""

from collections.abc import Callable
from typing import Any

from ..jit.ir import op as ops
from .inline import RECORDERS, own_code


def operators(cls: type, general: type) -> dict[str, Callable]:
    """Returns the operator methods of a class of traced tensors; `general` has the others."""
    found: dict[str, Callable] = {}
    for op_ in (*ops.ARITHMETIC, *ops.COMPARISONS, *ops.UNARY):
        if op_.accepts(cls._dtype):
            known = RECORDERS[op_]
            names = [f"__{op_.method}__", f"__r{op_.method}__"]
            for name in names[: 1 + (op_ in ops.ARITHMETIC)]:
                found[name] = _if_recorded(known, cls, name, getattr(general, name))
    return {name: own_code(f, name, cls) for name, f in found.items()}


def _if_recorded(known: Any, cls: type, name: str, general: Callable) -> Callable:
    """Returns the operator that records the operation, if it can, on arrays of the class."""

    def unary(self):
        result = known[cls](self)
        return general(self) if result is None else result

    def forward(self, other):
        result = known[cls](self, other)
        return general(self, other) if result is None else result

    def backward(self, other):
        result = known[cls](other, self)
        return general(self, other) if result is None else result

    if known.op.arity == 1:
        return unary
    return backward if name == f"__r{known.op.method}__" else forward
