"""Restriction of ordinarily traced code to some lanes, for the evaluated mode. Within `masked`,
memory is accessed in those lanes only; `merged` combines values of different lanes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...ad.algebra import RECORDED
from ...ad.graph import Value, as_value
from ...array import leaf
from ...jit.ir import node as ir
from ...jit.ir import op
from ...jit.ir.node import Node
from ...jit.ir.scope import Scope, active, stack
from ...jit.run import schedule


class _Effects(list):
    """Passes side effects on to the enclosing program or recording; `written` receives the serial
    numbers of the nodes that stand for their targets."""

    def __init__(self, target: list, written: set[int]) -> None:
        self._target, self._written = target, written

    def append(self, effect: Any) -> None:
        data = getattr(effect, "data", None)
        for after in data.afters if isinstance(data, schedule.Effect) else ():
            self._written.add(after().serial)
        self._target.append(effect)

    def __iadd__(self, effects: Any) -> Any:
        self._target.extend(effects)
        return self


@contextmanager
def masked(mask: Node) -> Iterator[set[int]]:
    """Restricts the memory accesses of this thread to the lanes of a mask. Yields the set of the
    serial numbers of nodes that stand for targets of scatters.
    """
    scopes = stack()
    mask = ir.apply(op.and_, mask, active())  # also: not beyond the end of the arrays
    inner = scopes[-1] if scopes else None
    scope = Scope(mask, inner.depth if inner else 0)
    written: set[int] = set()
    scope.effects = _Effects(inner.effects if inner else schedule.pending, written)
    scope.afters = _Effects(inner.afters if inner else [], written)
    scopes.append(scope)
    try:
        yield written
    finally:
        del scopes[scopes.index(scope) :]


def merged(mask: Any, first: Value, second: Value) -> Value:
    """Returns the contents of an array: the first value in the lanes of the mask, and the second in
    the others."""
    if first == second:
        return first
    chosen = RECORDED(op.select, as_value((mask._node, None)), first, second)
    if not chosen.node.size:
        leaf.check_empty(op.select, (mask._node, first.node, second.node))
    return chosen
