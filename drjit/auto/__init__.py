"""The array types of the current backend, as chosen by `drjit.set_backend` (`drjit.llvm` by
default). `drjit.auto.ad` holds their differentiable counterparts.
"""

from ..array import namespace as _namespace
from . import ad as ad

__getattr__, __dir__ = _namespace.serve(__name__)
