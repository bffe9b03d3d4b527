"""Variables that loops and branches read like tables, with `gather`, although they have as many
entries as there are lanes. That is known only once a body has been traced: what has been found is
noted for its code, which is then traced once from the next time on.
"""

from collections.abc import Callable
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

_known: WeakKeyDictionary[CodeType, set[int]] = WeakKeyDictionary()


def known_tables(body: Callable[..., Any]) -> set[int]:
    """Returns the positions of the arrays that a function has read like tables, to be added to."""
    code = getattr(body, "__code__", None)
    return set() if code is None else _known.setdefault(code, set())
