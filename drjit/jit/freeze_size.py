"""Sizes that recorded code asks for. It may compute with them what is in proportion to a size: two
recordings for different sizes then show the factor. Everything else that Python does with a size,
decisions above all, ties the recording to the sizes that it was made for.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_PACKAGE = __name__.partition(".")[0]

on_decision: Callable[[], None] | None = None
"""Called when recorded code depends on the very value of a size; set by `freeze`."""


def shown(value: Any) -> Any:
    """What a function or property that gives sizes hands out: if the caller of that is the user's
    code, it may do anything with it."""
    if on_decision is not None and _is_outside(sys._getframe(2)):
        on_decision()
    return value


def tracked(value: int) -> int:
    """A size to compute with, for recorded code."""
    if on_decision is None:
        return value
    caller = sys._getframe(2)
    if "range" in caller.f_code.co_names and _is_outside(caller):
        on_decision()  # a range does not ask a size anything
    return Size(value)


def decided() -> None:
    """Says that a size decides what recorded code does."""
    if on_decision is not None:
        on_decision()


def parts(size: int, length: int) -> int:
    """The number of parts of a length, the last of which may be shorter."""
    if size % length:
        decided()
    return -(-size // length)


def positions(key: slice, size: int) -> range:
    """What a slice selects among so many entries."""
    if key.start is not None or key.stop is not None or size % (key.step or 1):
        decided()
    return range(*key.indices(size))


def _is_outside(frame: FrameType) -> bool:
    """Whether a function is not one of this package."""
    return frame.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE


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
            decided()
            return result
        return Size(result) if type(result) is int else Ratio(result)

    return method


def _attribute(self: Any, name: str) -> Any:
    """Attributes that code asks for by name, such as `bit_length`."""
    if not name.startswith("__"):
        decided()
    return object.__getattribute__(self, name)


def _decision(kind: type, name: str) -> Callable[..., Any]:
    """An operation after which nothing is known about its result."""
    plain = getattr(kind, name)

    def method(self: Any, *args: Any) -> Any:
        decided()
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
    _kind.__getattribute__ = _attribute
    for _name in _PROPORTIONS:
        setattr(_kind, f"__{_name}__", _in_proportion(_plain, f"__{_name}__"))
    for _name in (*_DECISIONS, *(_BITS if _plain is int else ())):
        setattr(_kind, f"__{_name}__", _decision(_plain, f"__{_name}__"))
