"""Arrays whose kernels run on the CPU, compiled by LLVM. `drjit.llvm.ad` has the same types with
derivatives.
"""

from ..array import namespace as _namespace
from . import ad as ad

__getattr__, __dir__ = _namespace.serve(__name__)
