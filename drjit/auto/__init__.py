"""The types of the backend that `drjit.set_backend` chose: `drjit.llvm` unless it was called.
`drjit.auto.ad` has them with derivatives.
"""

from ..array import namespace as _namespace
from . import ad as ad

__getattr__, __dir__ = _namespace.serve(__name__)
