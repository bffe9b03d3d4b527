"""Functions that cross the border to other array frameworks."""

from .function.wrap import wrap

__all__ = ["wrap"]
