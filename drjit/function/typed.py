"""How types of results follow from those of arguments, which annotations of plain functions cannot
say: decorators for type checkers and editors, which return their argument.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..array.kinds import (  # pyright: ignore[reportMissingModuleSource]
        Binary,
        Clamp,
        Product,
        Reduction,
        Selection,
        Ternary,
    )


def binary(function: Any) -> "Binary":
    return function


def ternary(function: Any) -> "Ternary":
    return function


def selection(function: Any) -> "Selection":
    return function


def clamped(function: Any) -> "Clamp":
    return function


def product(function: Any) -> "Product":
    return function


def reducing(function: Any) -> "Reduction":
    return function
