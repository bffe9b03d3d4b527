"""Arrays whose kernels run on the CPU, compiled by LLVM. `drjit.llvm.ad` has the same types with
derivatives.
"""

from typing import Any

from ..array import table
from . import ad as ad


def __getattr__(name: str) -> Any:
    if name == "__all__":  # modules above this one add types
        return [*table.names("llvm"), "ad"]
    found = globals()[name] = table.attribute("llvm", name)
    return found


def __dir__() -> list[str]:
    return [*table.names("llvm"), "ad"]
