"""What the types of a backend do that cannot be used: they can be inspected, and tell what is
missing when an array is made.
"""

from typing import Any

from . import table
from .base import type_label


def require_cuda(cls: type) -> None:
    """Raises:
    RuntimeError: always, as long as there is no CUDA target.
    """
    raise RuntimeError(
        f"{type_label(cls)}: the CUDA backend is not available. This version of drjit-numba has "
        "no compiler for it; one that has also needs an NVIDIA GPU with its driver, and Numba's "
        "package for it (pip install numba-cuda). On the CPU, use drjit.llvm."
    )


class _Unavailable:
    """The traced value of a CUDA array: nothing can be one, however it is made."""

    def __set__(self, array: Any, _: object) -> None:
        require_cuda(type(array))


def _finish(cls: Any) -> None:
    if cls._kind == "leaf" and cls._namespace[:4] == "cuda":
        cls._n = _Unavailable()


table.finishers.append(_finish)
