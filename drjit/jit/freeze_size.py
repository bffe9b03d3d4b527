"""Sizes that recorded code asks for. It may compute with them what is in proportion to a size: two
recordings for different sizes then show the factor. Everything else that Python does with a size,
decisions above all, ties the recording to the sizes that it was made for.
"""

import sys
from collections.abc import Callable
from typing import Any

_PACKAGE = __name__.partition(".")[0]

on_decision: Callable[[], None] | None = None
"""Called when recorded code depends on the very value of a size; set by `freeze`."""


def shown(value: Any) -> Any:
    """What a function or property that gives sizes hands out: if the caller of that is the user's
    code, it may do anything with it."""
    if on_decision is not None:
        name = sys._getframe(2).f_globals.get("__name__", "")
        if name.partition(".")[0] != _PACKAGE:
            on_decision()
    return value


def tracked(value: int) -> int:
    """A size to compute with, for recorded code."""
    return value if on_decision is None else Size(value)


class Size(int):
    """A size, or an integer in proportion to one."""


class Ratio(float):
    """A number in proportion to a size, or to its reciprocal."""


def _in_proportion(kind: type, name: str) -> Callable[..., Any]:
    """An operation that keeps proportions, if the other operand is a plain number."""
    plain = getattr(kind, name)

    def method(self: Any, other: Any) -> Any:
        result = plain(self, other)
        exact = name != "__floordiv__" or (other and not kind.__mod__(self, other))
        if result is NotImplemented or type(other) not in (int, float) or not exact:
            if on_decision is not None:
                on_decision()
            return result
        return Size(result) if type(result) is int else Ratio(result)

    return method


def _decision(kind: type, name: str) -> Callable[..., Any]:
    """An operation after which nothing is known about its result."""
    plain = getattr(kind, name)

    def method(self: Any, *args: Any) -> Any:
        if on_decision is not None:
            on_decision()
        return plain(self, *args)

    return method


_PROPORTIONS = ("mul", "rmul", "truediv", "rtruediv", "floordiv")
_DECISIONS = (
    "add", "radd", "sub", "rsub", "rfloordiv", "mod", "rmod", "divmod", "rdivmod", "pow", "rpow",
    "neg", "pos", "abs", "eq", "ne", "lt", "le", "gt", "ge", "bool", "hash", "repr", "str",
    "format", "int", "float", "round", "trunc", "floor", "ceil",
)  # fmt: skip
_BITS = (
    "and", "rand", "or", "ror", "xor", "rxor", "lshift", "rlshift", "rshift", "rrshift", "invert",
)  # fmt: skip

for _kind, _plain in ((Size, int), (Ratio, float)):
    for _name in _PROPORTIONS:
        setattr(_kind, f"__{_name}__", _in_proportion(_plain, f"__{_name}__"))
    for _name in (*_DECISIONS, *(_BITS if _plain is int else ())):
        setattr(_kind, f"__{_name}__", _decision(_plain, f"__{_name}__"))
