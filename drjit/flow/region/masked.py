"""Restriction of ordinarily traced code to some lanes, for the evaluated mode. Within `masked`,
memory is accessed in those lanes only; `merged` combines values of different lanes.
"""

from typing import Any

from ...ad.algebra import RECORDED
from ...ad.graph import Value, as_value, visible
from ...array import leaf
from ...jit.ir import node as ir
from ...jit.ir import op
from ...jit.ir.node import LITERAL, Node
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


class masked:
    """Restricts the memory accesses of this thread to the lanes of a mask, in the statements of a
    `with`. These get the set of the serial numbers of nodes that stand for targets of scatters.
    If the mask is of `other` lanes than those of the surrounding code, it replaces their mask."""

    __slots__ = ("scope",)

    def __init__(self, mask: Node, other: bool = False) -> None:
        if not other:
            mask = ir.apply(op.and_, mask, active())  # also: not beyond the end of the arrays
        scopes = stack()
        self.scope = Scope(mask, scopes[-1].depth if scopes else 0)

    def __enter__(self) -> set[int]:
        scopes, scope = stack(), self.scope
        inner = scopes[-1] if scopes else None
        written: set[int] = set()
        scope.effects = _Effects(inner.effects if inner else schedule.pending, written)
        scope.afters = _Effects(inner.afters if inner else [], written)
        scopes.append(scope)
        return written

    def __exit__(self, *_: object) -> None:
        scopes = stack()
        del scopes[scopes.index(self.scope) :]


def same_constant(a: Value, b: Value) -> bool:
    """Returns whether two values are the same constant, if perhaps of different sizes."""
    literals = a.node.op is LITERAL and b.node.op is LITERAL and a.var is b.var is None
    return literals and repr(a.node.data) == repr(b.node.data)


def merged(mask: Any, first: Value, second: Value) -> Value:
    """Returns the contents of an array: the first value in the lanes of the mask, and the second in
    the others."""
    if first == second or (first.node.size == second.node.size and same_constant(first, second)):
        return first
    if (m := mask._node).op is LITERAL and m.size == 1:
        value, other = (first, second) if m.data else (second, first)
        n, size = value.node, other.node.size
        if n.op is not LITERAL and (n.size == size or size == 1):
            return as_value((n, visible(value.var)))
    chosen = RECORDED(op.select, as_value((mask._node, None)), first, second)
    if not chosen.node.size:
        leaf.check_empty(op.select.name, (mask._node, first.node, second.node))
    return chosen
