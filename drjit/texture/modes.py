"""What a texture look-up does between texels and beyond the boundary."""

import enum

from ..jit.named import Named


class FilterMode(Named, enum.Enum):
    """How a value between texels is found."""

    Nearest = 0
    Linear = 1


class WrapMode(Named, enum.Enum):
    """What lies beyond the boundary of a texture."""

    Repeat = 0
    Clamp = 1
    Mirror = 2
