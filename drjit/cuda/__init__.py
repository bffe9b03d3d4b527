"""Arrays whose kernels run on an NVIDIA GPU. `drjit.cuda.ad` has them with derivatives."""

from typing import Any

from ..array import table
from . import ad

__all__ = [*table.names("cuda"), "ad"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    found = globals()[name] = table.attribute("cuda", name)
    return found


def __dir__() -> list[str]:
    return list(__all__)
