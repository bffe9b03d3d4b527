"""Arrays whose kernels run on the CPU, with derivatives."""

from typing import Any

from ..array import table


def __getattr__(name: str) -> Any:
    if name == "__all__":  # modules above this one add types
        return table.names("llvm.ad")
    found = globals()[name] = table.attribute("llvm.ad", name)
    return found


def __dir__() -> list[str]:
    return table.names("llvm.ad")
