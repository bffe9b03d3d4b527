"""Arrays whose kernels run on the CPU, with derivatives."""

from typing import Any

from ..array import table

__all__ = table.names("llvm.ad")  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    found = globals()[name] = table.attribute("llvm.ad", name)
    return found


def __dir__() -> list[str]:
    return list(__all__)
