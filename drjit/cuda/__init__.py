"""Arrays whose kernels run on an NVIDIA GPU; so far their types only. `drjit.cuda.ad` has them with
derivatives.
"""

from typing import Any

from ..array import table
from . import ad as ad


def __getattr__(name: str) -> Any:
    if name == "__all__":  # modules above this one add types
        return [*table.names("cuda"), "ad"]
    found = globals()[name] = table.attribute("cuda", name)
    return found


def __dir__() -> list[str]:
    return [*table.names("cuda"), "ad"]
