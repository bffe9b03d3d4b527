"""Differentiable arrays whose kernels run on the CPU."""

from ..array import namespace as _namespace

__getattr__, __dir__ = _namespace.serve(__name__)
