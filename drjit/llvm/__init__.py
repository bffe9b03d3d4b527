"""Arrays whose kernels run on the CPU, compiled by LLVM. `drjit.llvm.ad` holds the differentiable
counterparts.
"""

from ..array import namespace as _namespace
from . import ad as ad

__getattr__, __dir__ = _namespace.serve(__name__)
