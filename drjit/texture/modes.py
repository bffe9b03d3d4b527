"""Modes of texture look-ups: interpolation between texels and behaviour beyond the boundary."""

import enum
import operator
from typing import Any

from ..jit.enumeration import Named


class FilterMode(Named, enum.Enum):
    """How a value between texels is computed."""

    Nearest = 0
    Linear = 1


class WrapMode(Named, enum.Enum):
    """The values beyond the boundary of a texture."""

    Repeat = 0
    Clamp = 1
    Mirror = 2


class MipFilter(enum.Enum):
    """How look-ups choose between the levels of a texture, each half as large as the previous
    one."""

    Disabled = 0
    Nearest = 1
    Linear = 2


class MipBasis(enum.Enum):
    """What a MIP-mapped texture stores for each level: its texels, or their difference to the next
    coarser level (Weier et al., "Practical inverse rendering of textured and translucent
    appearance", 2025)."""

    Standard = 0
    Laplacian = 1


def mode_of(cls: Any, value: Any, what: str) -> Any:
    """Returns a member of an enumeration, given the member or its number."""
    try:
        return value if isinstance(value, cls) else cls(operator.index(value))
    except (TypeError, ValueError):
        choices = ", ".join(f"dr.{m}" for m in cls)
        raise TypeError(f"{what}: {value!r} is none of {choices}") from None
