"""Types of an unavailable backend: they can be inspected, and report what is missing when an array
is created.
"""

from typing import Any, NoReturn

from ..jit.backend import JitBackend
from ..jit.device import find, missing
from . import table
from .base import ArrayBase, type_label


def refuse(cls: Any) -> NoReturn:
    """Always raises a RuntimeError: the backend of the class cannot be used, or it is the base
    class, which has no entries."""
    if cls is ArrayBase:
        raise RuntimeError("drjit.ArrayBase is not constructible: use one of its subclasses")
    missing_cuda(type_label(cls))


def missing_cuda(what: str) -> NoReturn:
    """See `refuse`; `what` is the function that the user called."""
    if find(JitBackend.CUDA) is not None:
        raise RuntimeError(f"{what}: this package does not support this yet")
    raise RuntimeError(
        f"{what}: the CUDA backend is not available: {missing(JitBackend.CUDA)} Without an NVIDIA "
        "GPU, use drjit.llvm."
    )


class _Unavailable:
    """The traced value of a CUDA array: there can be none, however it is created."""

    def __set__(self, array: Any, _: object) -> None:
        refuse(type(array))


def _finish(cls: Any) -> None:
    if cls._kind == "leaf" and not cls._usable:
        cls._node = _Unavailable()


table.finishers.append(_finish)
