"""Backends: the devices on which the kernels of an array type run."""

import enum

from .enumeration import Named


class JitBackend(Named, enum.Enum):
    """The backend on which the kernels of an array type run."""

    Invalid = 0
    CUDA = 1
    LLVM = 2
    Metal = 3
