"""What is known of the bodies of loops and branches only once they have been traced: it is noted
for their code, which is then traced once from the next time on.

This includes the variables that they read like tables, with `gather`, although these have as many
entries as there are lanes.
"""

import weakref
from collections.abc import Callable
from types import CodeType
from typing import Any


class Known:
    """The positions of the arrays that a body has read like tables, and whether it has referred to
    differentiable arrays from outside."""

    __slots__ = ("tables", "tracks")

    def __init__(self) -> None:
        self.tables: set[int] = set()
        self.tracks = False


_known: weakref.WeakKeyDictionary[CodeType, Known] = weakref.WeakKeyDictionary()
# The same by the numbers of code objects, while these exist: to compare two of them takes long.
_numbered: dict[int, tuple[Known, weakref.ref[CodeType]]] = {}


def known(body: Callable[..., Any]) -> Known:
    """Returns what is known of a function, to be added to."""
    code = getattr(body, "__code__", None)
    if code is None:
        return Known()
    number = id(code)
    found = _numbered.get(number)
    if found is None:
        made = _known.setdefault(code, Known())
        found = _numbered[number] = made, weakref.ref(code, lambda _: _numbered.pop(number, None))
    return found[0]
