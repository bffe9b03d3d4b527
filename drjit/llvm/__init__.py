"""Arrays whose kernels run on the CPU, compiled by LLVM. `drjit.llvm.ad` holds the differentiable
counterparts.
"""

from ..array import table as _table
from . import ad as ad

__getattr__, __dir__ = _table.serve(__name__)
