"""Types of an unavailable backend: they can be inspected, and report what is missing when an array
is created.
"""

from typing import Any, NoReturn

from . import table
from .base import ArrayBase, type_label


def refuse(cls: Any) -> NoReturn:
    """Always raises a RuntimeError, as there is no CUDA target, and the base class has no
    entries."""
    if cls is ArrayBase:
        raise RuntimeError("drjit.ArrayBase is not constructible: use one of its subclasses")
    missing_cuda(type_label(cls))


def missing_cuda(what: str) -> NoReturn:
    """See `refuse`; `what` is the function that the user called."""
    raise RuntimeError(
        f"{what}: the CUDA backend is not available. This version of drjit-numba has "
        "no compiler for it; one that has also needs an NVIDIA GPU with its driver, and Numba's "
        "package for it (pip install numba-cuda). On the CPU, use drjit.llvm."
    )


class _Unavailable:
    """The traced value of a CUDA array: there can be none, however it is created."""

    def __set__(self, array: Any, _: object) -> None:
        refuse(type(array))


def _finish(cls: Any) -> None:
    if cls._kind == "leaf" and not cls._usable:
        cls._node = _Unavailable()


table.finishers.append(_finish)
