"""The array types of the current backend, as chosen by `drjit.set_backend`: by default those of
`drjit.cuda` if there is a GPU, and of `drjit.llvm` otherwise. `drjit.auto.ad` holds their
differentiable counterparts.
"""

from ..array import table as _table
from . import ad as ad

__getattr__, __dir__ = _table.serve(__name__)
