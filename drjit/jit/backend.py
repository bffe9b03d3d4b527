"""The backends: where the kernels of a type run."""

import enum

from .enumeration import Named


class JitBackend(Named, enum.Enum):
    """Where the kernels of a type run."""

    Invalid = 0
    CUDA = 1
    LLVM = 2
    Metal = 3
