"""Operators of nested arrays with the common case inlined: an operand of the same class, whose
components are combined one by one.
"""

from collections.abc import Callable
from operator import (
    abs,
    add,
    and_,
    eq,
    floordiv,
    ge,
    gt,
    invert,
    le,
    lshift,
    lt,
    mod,
    mul,
    ne,
    neg,
    or_,
    rshift,
    sub,
    truediv,
    xor,
)
from types import FunctionType
from typing import Any

from .leaf import new

_VECTOR = {
    "add": add, "sub": sub, "mul": mul, "truediv": truediv, "floordiv": floordiv, "mod": mod,
    "and": and_, "or": or_, "xor": xor, "lshift": lshift, "rshift": rshift,
}  # fmt: skip
_UNARY = {"neg": neg, "invert": invert, "abs": abs}
_ORDER = {"lt": lt, "le": le, "gt": gt, "ge": ge}
_EQUALITY = {"eq": eq, "ne": ne}


def goes_into_each(cls: Any, arg: Any) -> bool:
    """Whether a nested array is one of the components of the class, and goes into all of them."""
    mine, theirs = cls.__meta__, arg.__meta__
    depth = len(theirs.dims)
    return (
        theirs.kind == "vector"
        and theirs.is_jit == mine.is_jit
        and depth < len(mine.dims)
        and mine.dims[len(mine.dims) - depth :] == theirs.dims
    )


def operators(cls: type, general: type) -> dict[str, Callable]:
    """Methods for a nested class of a traced namespace; `general` has the general methods.

    They combine arrays of the class component by component, and each component with a number or a
    one-dimensional array, as far as this is what the operator means: a number is added to the
    diagonal of a matrix, and `*` of special arrays is a product of its own.
    """
    if cls._namespace == "scalar" or cls._size is None:
        return {}
    leaf = cls._leaf
    numbers = (float, int) if leaf._dtype.is_float else (int,) if leaf._dtype.is_int else ()
    scalars = frozenset((leaf, *numbers))
    none: frozenset = frozenset()
    rows: list[tuple[str, Callable, Any, bool, frozenset, frozenset]] = []
    if cls.__meta__.kind == "vector":
        rows += [(n, f, cls, True, scalars, scalars) for n, f in _VECTOR.items()]
        rows += [(n, f, cls.Mask, True, scalars, none) for n, f in (_EQUALITY | _ORDER).items()]
    else:
        rows += [(n, _VECTOR[n], cls, True, none, none) for n in ("add", "sub")]
        rows += [("mul", mul, cls, False, scalars, scalars)]
        rows += [("truediv", truediv, cls, False, scalars, none)]
        rows += [(n, f, cls.Mask, True, none, none) for n, f in _EQUALITY.items()]
    found: dict[str, Callable] = {}
    for name, combine, result, pairs, right, left in rows:
        method = f"__{name}__"
        if getattr(leaf, method) is getattr(general, method):
            continue  # the element type does not have it
        found[method] = _forward(cls, result, combine, pairs, right, getattr(general, method))
        if left:
            reflected = f"__r{name}__"
            found[reflected] = _backward(result, combine, left, getattr(general, reflected))
    for name, function in _UNARY.items() if cls.__meta__.kind == "vector" else ():
        method = f"__{name}__"
        if getattr(leaf, method) is not getattr(general, method):
            found[method] = _unary(cls, function)
    return {name: _named(f, name, cls) for name, f in found.items()}


def _unary(cls: type, function: Callable) -> Callable:
    def unary(self):
        r = new(cls)
        r._c = [function(a) for a in self._c]
        return r

    return unary


def _forward(
    cls: type, result: Any, combine: Callable, pairs: bool, scalars: frozenset, general: Callable
) -> Callable:
    def binary(self, other):
        kind = type(other)
        if kind is cls and pairs:
            r = new(result)
            r._c = [combine(a, b) for a, b in zip(self._c, other._c)]  # noqa: B905
            return r
        if kind in scalars:
            r = new(result)
            r._c = [combine(a, other) for a in self._c]
            return r
        return general(self, other)

    return binary


def _backward(result: Any, combine: Callable, scalars: frozenset, general: Callable) -> Callable:
    def binary(self, other):
        if type(other) in scalars:
            r = new(result)
            r._c = [combine(other, a) for a in self._c]
            return r
        return general(self, other)

    return binary


def _named(f: Any, name: str, cls: type) -> Callable:
    code = f.__code__.replace(co_name=name, co_qualname=f"{cls.__qualname__}.{name}")
    return FunctionType(code, f.__globals__, name, None, f.__closure__)
