"""Operators of nested arrays with the common case inlined: an operand of the same class, whose components are combined one by one."""

from collections.abc import Callable
from operator import add, and_, eq, floordiv, ge, gt, le, lshift, lt, mod, mul, ne, or_, rshift, sub, truediv, xor
from types import FunctionType
from typing import Any

from .leaf import new

_VECTOR = {
    "add": add, "sub": sub, "mul": mul, "truediv": truediv, "floordiv": floordiv, "mod": mod,
    "and": and_, "or": or_, "xor": xor, "lshift": lshift, "rshift": rshift,
}  # fmt: skip
_LINEAR = {"add": add, "sub": sub}
_ORDER = {"lt": lt, "le": le, "gt": gt, "ge": ge}
_EQUALITY = {"eq": eq, "ne": ne}


def operators(cls: type, general: type) -> dict[str, Callable]:
    """Methods for a nested class of a traced namespace; `general` has the general methods."""
    if cls._namespace == "scalar" or cls._size is None:
        return {}
    is_vector = cls.__meta__.kind == "vector"
    rows = [(name, f, cls) for name, f in (_VECTOR if is_vector else _LINEAR).items()]
    comparisons = _EQUALITY | (_ORDER if is_vector else {})
    rows += [(name, f, cls.Mask) for name, f in comparisons.items()]
    found: dict[str, Callable] = {}
    for name, f, result in rows:
        method = f"__{name}__"
        if not hasattr(cls._leaf, method) or getattr(cls._leaf, method) is getattr(general, method):
            continue  # the element type does not have it
        found[method] = _binary(cls, result, f, getattr(general, method), method)
    return found


def _binary(cls: type, result: Any, combine: Callable, general: Callable, name: str) -> Callable:
    def binary(self, other):
        if type(other) is cls:
            r = new(result)
            r._c = [combine(a, b) for a, b in zip(self._c, other._c)]
            return r
        return general(self, other)

    code = binary.__code__.replace(co_name=name, co_qualname=f"{cls.__qualname__}.{name}")
    return FunctionType(code, binary.__globals__, name, None, binary.__closure__)
