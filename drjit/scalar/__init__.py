"""Arrays of Python numbers, computed immediately. `Float`, `Int` and so on are Python's own
types.
"""

from ..array import namespace as _namespace

__getattr__, __dir__ = _namespace.serve(__name__)
