"""Arrays of one entry as numbers of Python: conversion, rounding, formatting. An addition: the
reference has none of these methods."""

import math
from collections.abc import Callable
from typing import Any

from ..jit import frames
from . import table
from .base import ArrayBase, type_label
from .members import is_single, item

_INSTEAD = (
    "Use x[i] for an entry, dr.sum(), dr.mean() and the like for one number, and .numpy() for all "
    "of them."
)


def _entry(a: Any, method: str, instead: str = _INSTEAD) -> Any:
    """Returns the only entry of an array, for a method.

    Raises:
        TypeError: it has another number of entries, or components.
    """
    if not is_single(a):
        raise TypeError(
            f"{type_label(a)}.{method}(): only an array of one entry is a number, and the shape of "
            f"this one is {a.shape}. {instead}"
        )
    return item(a)


def _converted(method: str, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda self: convert(_entry(self, method))


def _rounded(self: Any, ndigits: int | None = None) -> Any:
    return round(_entry(self, "__round__", "Use dr.round()."), ndigits)


def _format(self: Any, spec: str) -> str:
    if not spec:
        return str(self)
    instead = f"Use '.numpy()', dr.format(), or a list of parts such as f'{{x[0]:{spec}}}'."
    return format(_entry(self, "__format__", instead), spec)


@frames.guard
def _index(self: Any) -> int:
    return int(_entry(self, "__index__"))


def _complex(self: Any) -> complex:
    if self.__meta__.kind == "complex":
        return complex(float(self.real), float(self.imag))
    return complex(_entry(self, "__complex__"))


def _add_index(cls: Any) -> None:
    """Lets arrays of integers be indices of Python's sequences and bounds of `range`."""
    if cls._usable and cls._dtype.is_int and cls._kind != "nested":
        cls.__index__ = _index


def install() -> None:
    """Adds the methods to `ArrayBase`."""
    methods: dict[str, Any] = {
        "__float__": _converted("__float__", float),
        "__int__": _converted("__int__", int),
        "__trunc__": _converted("__trunc__", math.trunc),
        "__floor__": _converted("__floor__", math.floor),
        "__ceil__": _converted("__ceil__", math.ceil),
        "__round__": _rounded,
        "__format__": _format,
        "__complex__": _complex,
    }
    for name, method in methods.items():
        setattr(ArrayBase, name, method)
    table.finishers.append(_add_index)


install()
