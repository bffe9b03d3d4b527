"""Operators of nested arrays, with the common case inlined: an operand of the same class, combined
component by component.
"""

import operator
from collections.abc import Callable
from itertools import repeat
from typing import Any

from ..jit.ir.node import SizeError
from ..jit.ir.op import ARITHMETIC, COMPARISONS, UNARY
from .inline import own_code
from .leaf import constants, new


def goes_into_each(cls: Any, arg: Any) -> bool:
    """Returns whether a nested array has the type of the class's components, and is broadcast to
    all of them."""
    mine, theirs = cls.__meta__, arg.__meta__
    depth = len(theirs.dims)
    return (
        theirs.kind == "vector"
        and theirs.is_jit == mine.is_jit
        and depth < len(mine.dims)
        and mine.dims[len(mine.dims) - depth :] == theirs.dims
    )


def operators(cls: type, general: type) -> dict[str, Callable]:
    """Returns operator methods for a nested class of a traced namespace; `general` has the general
    methods.

    They combine arrays of the class component by component, and each component with a number or a
    one-dimensional array, provided that this is the meaning of the operator: a number is added to
    the diagonal of a matrix, and `*` of special arrays is a product of its own.
    """
    if cls._namespace == "scalar" or cls._size is None:
        return {}
    leaf = cls._leaf
    numbers = (float, int) if leaf._dtype.is_float else (int,) if leaf._dtype.is_int else ()
    scalars = frozenset((leaf, *numbers))
    none: frozenset = frozenset()
    rows: list[tuple[str, Any, bool, frozenset, frozenset]] = []
    if cls.__meta__.kind == "vector":
        rows += [(o.method, cls, True, scalars, scalars) for o in ARITHMETIC]
        rows += [(o.method, cls.Mask, True, scalars, none) for o in COMPARISONS]
    else:
        rows += [(name, cls, True, none, none) for name in ("add", "sub")]
        rows += [("mul", cls, False, scalars, scalars), ("truediv", cls, False, scalars, none)]
        rows += [(name, cls.Mask, True, none, none) for name in ("eq", "ne")]
    found: dict[str, Callable] = {}
    for name, result, pairs, right, left in rows:
        method, reflected = f"__{name}__", f"__r{name}__"
        combine = getattr(operator, method)  # whose slots are faster than methods of `cls.Value`
        if getattr(leaf, method) is getattr(general, method):
            continue  # the element type does not support it
        otherwise = getattr(general, method)
        found[method] = _binary(cls, result, combine, pairs, right, otherwise)
        if left:
            otherwise = getattr(general, reflected)
            found[reflected] = _binary(cls, cls, combine, False, left, otherwise, True)
    for o in UNARY if cls.__meta__.kind == "vector" else ():
        method = f"__{o.method}__"
        if getattr(leaf, method) is not getattr(general, method):
            found[method] = _unary(cls, getattr(operator, method))
    return {name: own_code(f, name, cls) for name, f in found.items()}


def _unary(cls: type, function: Callable) -> Callable:
    def unary(self):
        r = new(cls)
        r._components = list(map(function, self._components))
        return r

    return unary


def _binary(
    cls: Any,
    result: Any,
    combine: Callable,
    pairs: bool,
    scalars: frozenset,
    otherwise: Callable,
    reflected: bool = False,
) -> Callable:
    leaf, shared = cls._leaf, constants(cls._leaf)

    def binary(self, other):
        kind, components = type(other), None
        try:
            if kind is cls and pairs:
                components = list(map(combine, self._components, other._components))
            elif kind in scalars:
                each = repeat(other if kind is leaf else shared(other))  # one for all components
                if reflected:
                    components = list(map(combine, each, self._components))
                else:
                    components = list(map(combine, self._components, each))
        except SizeError:
            pass  # which the general method reports, unless a number meets empty components
        if components is None:
            return otherwise(self, other)
        r = new(result)
        r._components = components
        return r

    return binary
