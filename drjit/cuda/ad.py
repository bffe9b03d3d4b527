"""Differentiable arrays whose kernels run on an NVIDIA GPU."""

from ..array import namespace as _namespace
from .graphics import green_context as green_context

__getattr__, __dir__ = _namespace.serve(__name__)
