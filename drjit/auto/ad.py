"""The differentiable array types of the backend chosen by `drjit.set_backend`. For `drjit.scalar`,
which has none, these are the plain types.
"""

from ..array import table as _table

__getattr__, __dir__ = _table.serve(__name__)
