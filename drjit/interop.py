"""Functions that cross the border to other array frameworks."""

from .function.exchange.wrap import wrap

__all__ = ["wrap"]
