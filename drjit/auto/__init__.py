"""The types of the backend that `drjit.set_backend` chose: `drjit.llvm` unless it was called.
`drjit.auto.ad` has them with derivatives.
"""

from typing import Any

from ..array import table
from . import ad as ad
from .ad import current


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    return table.attribute(current(), name)


def __dir__() -> list[str]:
    return [*table.names(current()), "ad"]
