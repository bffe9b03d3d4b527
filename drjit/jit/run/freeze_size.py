"""Sizes as seen by recorded code. Values proportional to a size may be computed from it: two
recordings for different sizes reveal the factor. Any other use of a size in Python is a decision:
the recording notes the number, and is tied to the size only if the number differs in the next
recording.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from ..ir.location import Location, user_location

_PACKAGE = __name__.partition(".")[0]


class Uses:
    """How a recorded call uses sizes. `decisions` are sizes or proportional numbers whose exact
    values matter, `places` the user's lines that used them, `divisions` sizes that are divided into
    parts of some length. `seen` are all sizes that the call has asked for."""

    def __init__(self) -> None:
        self.decisions: list[float] = []
        self.places: list[Location] = []
        self.divisions: list[tuple[int, int]] = []
        self.seen: set[int] = set()


uses: dict[int, Uses] = {}
"""The uses in the calls that are being recorded, by thread; set by `freeze`."""


def length(value: int) -> int:
    """Returns the result of `len`: a plain number, because user code may do anything with it."""
    if uses:
        own = uses.get(threading.get_ident())
        if own is not None:
            own.seen.add(value)
        if _is_outside(sys._getframe(2)):
            decided(value)
    return value


def shape(found: tuple[int, ...]) -> tuple[int, ...]:
    """Returns trackable sizes, for recorded code."""
    own = uses.get(threading.get_ident()) if uses else None
    if own is None:
        return found
    own.seen.update(found)
    return RecordedShape(map(Size, found)) if _is_outside(sys._getframe(2)) else found


def tracked(value: int) -> int:
    """Returns a trackable size, for recorded code."""
    own = uses.get(threading.get_ident()) if uses else None
    if own is None:
        return value
    own.seen.add(plain(value))
    return _tracked(value, sys._getframe(2))


def _tracked(value: int, caller: FrameType) -> int:
    if "range" in caller.f_code.co_names and _is_outside(caller):
        decided(value)  # a range does not call any methods of a size
    return value if type(value) is Size else Size(value)


def decided(*sizes: float) -> None:
    """Declares that recorded code depends on the exact values of sizes."""
    own = uses.get(threading.get_ident()) if uses else None
    if own is not None:
        own.decisions += map(plain, sizes)
        own.places += [user_location()] * len(sizes)


def parts(size: int, length: int) -> int:
    """Returns the number of parts of a length, the last of which may be shorter. Code that handles
    a shorter last part must also be correct without one."""
    own = uses.get(threading.get_ident()) if uses else None
    if own is not None:
        own.divisions.append((plain(size), plain(length)))
    return -(-size // length)


def positions(key: slice, size: int) -> range:
    """Returns the positions that a slice selects among `size` entries."""
    if key.start is not None or key.stop is not None or size % (key.step or 1):
        decided(size)
    return range(*key.indices(size))


def _is_outside(frame: FrameType) -> bool:
    """Returns whether a function is outside this package."""
    return frame.f_globals.get("__name__", "").partition(".")[0] != _PACKAGE


class Size(int):
    """A size, or an integer proportional to one."""

    __slots__ = ()


class RecordedShape(tuple):
    """A tuple of sizes, which registers the use of each one that is taken out."""

    __slots__ = ()

    def __getitem__(self, at: Any) -> Any:
        found = tuple.__getitem__(self, at)
        if isinstance(found, tuple):
            return RecordedShape(found)
        return _tracked(found, sys._getframe(1))

    def __iter__(self) -> Iterator[int]:
        caller = sys._getframe(1)
        return iter([_tracked(n, caller) for n in tuple.__iter__(self)])


class Ratio(float):
    """A number proportional to a size, or to its reciprocal."""

    __slots__ = ()


def plain(value: Any) -> Any:
    """Returns a result with ordinary numbers in place of sizes."""
    if isinstance(value, Size):
        return int.__index__(value)
    if isinstance(value, Ratio):
        return float.__pos__(value)
    cls = type(value)
    if cls is RecordedShape or cls is tuple:
        items = [plain(v) for v in tuple.__iter__(value)]
        same = cls is tuple and all(a is b for a, b in zip(items, value, strict=True))
        return value if same else tuple(items)
    if cls is list:
        value[:] = map(plain, value)
    elif cls is dict:
        value.update({k: plain(v) for k, v in value.items()})
    return value


def _in_proportion(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps an operation that preserves proportions if the other operand is a plain number."""

    def operation(self: Any, other: Any) -> Any:
        result = method(self, other)
        exact = name != "__floordiv__" or (other and not plain(self) % other)
        if result is NotImplemented or type(other) not in (int, float) or not exact:
            _decide(self, other)
            return result
        return Size(result) if type(result) is int else Ratio(result)

    return operation


def _decision(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps an operation whose result is not tracked any further."""

    def operation(self: Any, *args: Any) -> Any:
        _decide(self, *args)
        return method(self, *args)

    return operation


def _decide(*operands: Any) -> None:
    """Declares that the exact values of sizes among operands matter."""
    decided(*[v for v in operands if isinstance(v, Size | Ratio)])


def _attribute(self: Any, name: str) -> Any:
    """Returns attributes that code accesses by name, such as `bit_length`."""
    if not name.startswith("__"):
        decided(self)
    return object.__getattribute__(self, name)


_PROPORTIONS = ("__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__floordiv__")
_OPERATIONS = (WrapperDescriptorType, MethodDescriptorType)

for _kind, _number in ((Size, int), (Ratio, float)):
    for _name, _method in vars(_number).items():
        if _name in _PROPORTIONS:
            setattr(_kind, _name, _in_proportion(_name, _method))
        elif isinstance(_method, _OPERATIONS) and _name != "__index__":
            setattr(_kind, _name, _decision(_method))
    _kind.__getattribute__ = _attribute
