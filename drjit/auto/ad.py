"""The types with derivatives of the backend that `drjit.set_backend` chose; those without where
there are none, in `drjit.scalar`.
"""

from ..array import namespace as _namespace

__getattr__, __dir__ = _namespace.serve(__name__)
