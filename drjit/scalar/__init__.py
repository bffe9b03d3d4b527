"""Arrays of Python numbers, which are computed at once. `Float`, `Int` and the like are the types
of Python.
"""

from typing import Any

from ..array import table

__all__ = table.names("scalar")  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    found = globals()[name] = table.attribute("scalar", name)
    return found


def __dir__() -> list[str]:
    return list(__all__)
