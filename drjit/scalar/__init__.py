"""Arrays of Python numbers, computed immediately. `Float`, `Int` and so on are Python's own
types.
"""

from ..array import table as _table

__getattr__, __dir__ = _table.serve(__name__)
