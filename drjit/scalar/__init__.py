"""Arrays of Python numbers, which are computed at once. `Float`, `Int` and the like are the types
of Python.
"""

from typing import Any

from ..array import table


def __getattr__(name: str) -> Any:
    if name == "__all__":  # modules above this one add types
        return table.names("scalar")
    found = globals()[name] = table.attribute("scalar", name)
    return found


def __dir__() -> list[str]:
    return table.names("scalar")
