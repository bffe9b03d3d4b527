"""Checks of arguments: integers, and errors that say what was expected."""

import operator
from collections.abc import Iterable
from typing import Any

from ..array.base import type_label


def unexpected(what: str, expected: str, value: Any, verb: str = "not") -> TypeError:
    """Returns the error of function `what` for an argument of the wrong type."""
    return TypeError(f"{what}(): expected {expected}, {verb} {type_label(value)}")


def is_real(value: Any) -> bool:
    """Returns whether an argument is a real number, of Python's or of a package that registers
    its own."""
    if isinstance(value, (float, int)):
        return True
    from numbers import Real  # a module that few programs need

    return isinstance(value, Real)


def integer(value: Any, message: str) -> int:
    """Returns an argument as a Python integer.

    Raises:
        TypeError: it is not an integer, with this message and the value.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{message} {value!r}") from None


def integers(value: Any, message: str) -> tuple[int, ...]:
    """Returns an integer, or a sequence of integers, as a tuple.

    Raises:
        TypeError: it is neither, with this message and the value.
    """
    try:
        given: Iterable = value if isinstance(value, (tuple, list)) else (value,)
        return tuple([operator.index(v) for v in given])
    except TypeError:
        raise TypeError(f"{message} {value!r}") from None
