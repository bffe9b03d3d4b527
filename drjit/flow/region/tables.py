"""What is known of the bodies of loops and branches only once they have been traced: it is noted
for their code, which is then traced once from the next time on.

This includes the variables that they read like tables, with `gather`, although these have as many
entries as there are lanes.
"""

import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from ...array.tree import Plan, Tree


class Known:
    """The positions of the arrays that a body has read like tables, whether it has referred to
    differentiable arrays from outside, and plans to decompose its arguments and results."""

    __slots__ = ("_plans", "tables", "tracks")

    def __init__(self) -> None:
        self.tables: set[int] = set()
        self.tracks = False
        self._plans: dict[str, Any] = {}  # False if there cannot be one

    def taken_apart(self, values: Sequence[Any], what: str) -> Tree:
        """Returns the decomposition of values, which have probably had the same structure before;
        `what` says which values of the body they are."""
        plans = self._plans
        known = plans.get(what)
        tree = Tree(values, known or None)
        if tree.plan is None and tree.inside and known is not False:
            if known is None and what in plans:  # it is of use from the second time on
                made = Plan(tree)
                plans[what] = made.lasts and made
            else:
                plans[what] = None
        return tree


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
