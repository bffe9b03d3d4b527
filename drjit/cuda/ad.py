"""Differentiable arrays whose kernels run on an NVIDIA GPU."""

from ..array import table as _table
from .graphics import green_context as green_context

__getattr__, __dir__ = _table.serve(__name__)
