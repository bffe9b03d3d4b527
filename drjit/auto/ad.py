"""The differentiable array types of the backend chosen by `drjit.set_backend`. For `drjit.scalar`,
which has none, these are the plain types.
"""

from ..array import namespace as _namespace

__getattr__, __dir__ = _namespace.serve(__name__)
