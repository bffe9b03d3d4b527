"""Arrays of Python numbers, which are computed at once. `Float`, `Int` and the like are the types
of Python.
"""

from ..array import namespace as _namespace

__getattr__, __dir__ = _namespace.serve(__name__)
