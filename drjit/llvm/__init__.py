"""Arrays whose kernels run on the CPU, compiled by LLVM. `drjit.llvm.ad` has the same types with derivatives."""

from typing import Any

from ..array import table

__all__ = table.names("llvm")  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "ad":
        import importlib

        return importlib.import_module(".ad", __name__)
    found = globals()[name] = table.attribute("llvm", name)
    return found


def __dir__() -> list[str]:
    return [*table.names("llvm"), "ad"]
