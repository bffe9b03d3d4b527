"""The direction of a traversal of the derivative graph, and its flags."""

import enum

from ..jit.enumeration import Named


class ADMode(Named, enum.Enum):
    """The direction of a traversal."""

    __hash__ = object.__hash__  # that of enumerations takes a call of a Python function
    Primal = 0
    Forward = 1
    Backward = 2


class ADFlag(Named, enum.IntEnum):
    """What a traversal clears, and whether it may have nothing to do."""

    ClearNone = 0
    ClearEdges = 1
    ClearInput = 2
    ClearInterior = 4
    ClearVertices = 6
    AllowNoGrad = 8
    Default = 7
    # Not in the reference: gradients stay part of the graph and can be differentiated again.
    KeepGraph = 16
