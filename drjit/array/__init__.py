"""The array classes: one table of types, classes built on demand, promotion, operators, indexing,
printing, and interoperability with other libraries.
"""

from ..jit import frames
from . import foreign_names, members, operators, table
from .base import ArrayBase

frames.guard_members(ArrayBase)

__all__ = ["ArrayBase", "foreign_names", "members", "operators", "table"]
