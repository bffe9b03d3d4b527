"""Differentiable arrays whose kernels run on the CPU."""

from ..array import table as _table

__getattr__, __dir__ = _table.serve(__name__)
