"""Arrays whose kernels run on the CPU, compiled by LLVM. `drjit.llvm.ad` has the same types with
derivatives.
"""

from typing import Any

from ..array import table
from . import ad

__all__ = [*table.names("llvm"), "ad"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    found = globals()[name] = table.attribute("llvm", name)
    return found


def __dir__() -> list[str]:
    return list(__all__)
