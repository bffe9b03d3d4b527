"""Sizes that recorded code asks for. It may compute with them what is in proportion to a size: two
recordings for different sizes then show the factor. Everything else that Python does with a size is
a decision: the recording takes note of the number, and is tied to the size only if that is another
one in the next recording.
"""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_PACKAGE = __name__.partition(".")[0]

on_decision: Callable[[float], None] | None = None
"""Called with a size when recorded code depends on its very value; set by `freeze`."""

on_division: Callable[[int, int], None] | None = None
"""Called with a size and the length of the parts that it is divided into; set by `freeze`."""


def length(value: int) -> int:
    """What `len` gives, which is a plain number: if the caller is the user's code, it may do
    anything with it."""
    if on_decision is not None and _is_outside(sys._getframe(2)):
        on_decision(value)
    return value


def shape(found: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes to compute with, for recorded code."""
    if on_decision is None:
        return found
    return Shape(map(Size, found)) if _is_outside(sys._getframe(2)) else found


def tracked(value: int) -> int:
    """A size to compute with, for recorded code."""
    return value if on_decision is None else _tracked(value, sys._getframe(2))


def _tracked(value: int, caller: FrameType) -> int:
    if "range" in caller.f_code.co_names and _is_outside(caller):
        decided(value)  # a range does not ask a size anything
    return value if type(value) is Size else Size(value)


def decided(*sizes: float) -> None:
    """Says that sizes decide what recorded code does."""
    if on_decision is not None:
        for n in sizes:
            on_decision(n)


def parts(size: int, length: int) -> int:
    """The number of parts of a length, the last of which may be shorter. Code that provides for
    that must be right as well if it is not."""
    if on_division is not None:
        on_division(size, length)
    return -(-size // length)


def positions(key: slice, size: int) -> range:
    """What a slice selects among so many entries."""
    if key.start is not None or key.stop is not None or size % (key.step or 1):
        decided(size)
    return range(*key.indices(size))


def _is_outside(frame: FrameType) -> bool:
    """Whether a function is not one of this package."""
    return frame.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE


class Size(int):
    """A size, or an integer in proportion to one."""

    __slots__ = ()


class Shape(tuple):
    """Sizes, of which each one that is taken out matters by itself."""

    __slots__ = ()

    def __getitem__(self, at: Any) -> Any:
        found = tuple.__getitem__(self, at)
        if isinstance(found, tuple):
            return Shape(found)
        return _tracked(found, sys._getframe(1))

    def __iter__(self) -> Iterator[int]:
        caller = sys._getframe(1)
        return iter([_tracked(n, caller) for n in tuple.__iter__(self)])


class Ratio(float):
    """A number in proportion to a size, or to its reciprocal."""

    __slots__ = ()


def plain(value: Any) -> Any:
    """A result with ordinary numbers in place of sizes."""
    if isinstance(value, Size):
        return int.__index__(value)
    if isinstance(value, Ratio):
        return float.__pos__(value)
    cls = type(value)
    if cls is Shape or cls is tuple:
        items = [plain(v) for v in tuple.__iter__(value)]
        same = cls is tuple and all(a is b for a, b in zip(items, value, strict=True))
        return value if same else tuple(items)
    if cls is list:
        value[:] = map(plain, value)
    elif cls is dict:
        value.update({k: plain(v) for k, v in value.items()})
    return value


def _decided_with(*operands: Any) -> None:
    """Says that the sizes among operands decide something."""
    decided(*[v for v in operands if isinstance(v, Size | Ratio)])


def _in_proportion(kind: type, name: str) -> Callable[..., Any]:
    """An operation that keeps proportions, if the other operand is a plain number."""
    plain = getattr(kind, name)

    def method(self: Any, other: Any) -> Any:
        result = plain(self, other)
        exact = name != "__floordiv__" or (other and not kind.__mod__(self, other))
        if result is NotImplemented or type(other) not in (int, float) or not exact:
            _decided_with(self, other)
            return result
        return Size(result) if type(result) is int else Ratio(result)

    return method


def _attribute(self: Any, name: str) -> Any:
    """Attributes that code asks for by name, such as `bit_length`."""
    if not name.startswith("__"):
        decided(self)
    return object.__getattribute__(self, name)


def _decision(kind: type, name: str) -> Callable[..., Any]:
    """An operation after which nothing is known about its result."""
    plain = getattr(kind, name)

    def method(self: Any, *args: Any) -> Any:
        _decided_with(self, *args)
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
