"""Side effects that never happen: those of a recording that has failed, and those that depend on a
symbolic value outside of its body. Their targets are again what they were before.
"""

from collections.abc import Iterable
from typing import Any
from weakref import ref

from . import op
from .nesting import Nesting, Parts
from .node import BUFFER, Node
from .scope import stack

OLD_VALUES = (
    "the body of a symbolic loop or call that is differentiated uses the old values that an atomic "
    "operation such as dr.scatter_inc() gives. They are known only where it takes place, which it "
    "does not when the body is computed again for derivatives. Use mode='evaluated', or "
    "dr.suspend_grad()."
)


def effects_inside(block: Node) -> int:
    """The number of side effects of a loop or branch."""
    counts = block.data.counts
    return counts[1] if block.op is op.loop else sum(counts[2])


def inside(block: Node) -> tuple[Node, ...]:
    """The side effects of a loop or branch."""
    return block.deps[len(block.deps) - effects_inside(block) :]


def afters(n: Node) -> list[Node]:
    """The nodes that stand for what a side effect writes to, where somebody holds them."""
    if n.op.block:
        return [a for e in inside(n) for a in afters(e)]
    if not n.op.effect:
        return []
    return [after for reference in n.data.afters if (after := reference()) is not None]


def old_values(effects: Iterable[Node]) -> list[Any]:
    """References to the nodes of what atomic operations give, those in loops and branches
    included."""
    found: list[Any] = []
    for e in effects:
        if e.op.block:
            found += old_values(inside(e))
        elif e.op.effect and e.data.value is not None:
            found.append(e.data.value)
    return found


def undo(dropped: Iterable[Node], targets: Iterable[Node]) -> None:
    """Makes the nodes `targets`, which stand for what side effects have written to, stand for what
    was there before those that are `dropped`. Loops and branches among these lose their side
    effects, as somebody may still need what they compute."""
    gone = set(dropped)
    for target in targets:
        before = target.deps
        while before and before[0] in gone:
            before = _order(before[0], target.data) or ()
        if before and before[0].op is not BUFFER:  # which it is when it has happened
            target.deps = before
            wait(target, before[0])
        else:
            target.op, target.deps = BUFFER, ()
    blocks = [n for n in gone if n.op.block]
    for n in blocks:  # which grows
        blocks += [e for e in inside(n) if e.op.block]
        n.deps = n.deps[: len(n.deps) - effects_inside(n)]
        first, second, *rest = n.data.counts
        n.data.counts = (first, second, (0,) * len(rest[0])) if rest else (first, 0)


def wait(target: Node, effect: Node) -> None:
    """Has what becomes of a side effect, or of the recording to which it belongs, become of its
    target as well."""
    reference = ref(target)
    for scope in stack():
        if effect in scope.effects:
            scope.afters.append(reference)
    last = effect
    while last.op.block:
        last = next(e for e in reversed(inside(last)) if _order(e, target.data) is not None)
    last.data.afters.append(reference)


def _order(effect: Node, buffer: Any) -> tuple[Node, ...] | None:
    """The side effect on a buffer that comes before another one, or before those of a loop or
    branch. None if the buffer is not written to."""
    if effect.op.block:
        found = (_order(e, buffer) for e in inside(effect))
        return next((order for order in found if order is not None), None)
    return effect.data.order if effect.op.effect and effect.data.buffer is buffer else None


def without_escaped(effects: list[Node], below: dict[Node, list[Node]]) -> list[Node]:
    """The side effects that can happen; the others are undone. `below` has the nodes on which each
    one depends."""
    dropped = {e for e in effects if _escaped(e, below[e])}
    if not dropped:
        return effects
    kept = [e for e in effects if e not in dropped]
    every = kept[:]
    for e in every:  # which grows
        if e.op.block:
            every += inside(e)
        while e.op.effect and e.data.order and e.data.order[0] in dropped:
            e.data.order = _order(e.data.order[0], e.data.buffer) or ()
    undo(dropped, [a for e in dropped for a in afters(e)])
    return kept


def _escaped(effect: Node, nodes: list[Node]) -> bool:
    """Whether a value is used outside of the body in which it is known."""
    blocks = [n for n in nodes if n.op.block]
    known = {s for n in blocks for states in Parts(n).inside for s in states}
    known |= {Parts(n).live for n in blocks if n.op is op.loop}
    if any(n.op is op.state and n not in known for n in nodes):
        return True
    if not blocks:
        return False
    try:
        return effect in Nesting(nodes).home
    except RuntimeError:
        return True
