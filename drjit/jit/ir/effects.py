"""Discards side effects that will never happen: those of a failed recording, and those that depend
on a symbolic value outside its body. Their targets return to their previous contents.
"""

from collections.abc import Iterable, Iterator
from typing import Any
from weakref import ref

from . import op
from .nesting import Nesting, RegionOperands
from .node import BUFFER, Node
from .scope import stack

OLD_VALUES = (
    "the body of a symbolic loop or call that is differentiated uses the old values that an atomic "
    "operation such as dr.scatter_inc() gives. They are known only where it takes place, which it "
    "does not when the body is computed again for derivatives. Use mode='evaluated', or "
    "dr.suspend_grad()."
)


def count_effects(block: Node) -> int:
    """Returns the number of side effects of a loop or branch."""
    counts = block.data.counts
    return counts[1] if block.op is op.loop else sum(counts[2])


def without_effects(counts: tuple) -> tuple:
    """Returns the operand counts of a loop or branch that loses its side effects."""
    first, second, *rest = counts
    return (first, second, (0,) * len(rest[0])) if rest else (first, 0)


def block_effects(block: Node) -> tuple[Node, ...]:
    """Returns the side effects of a loop or branch."""
    return block.deps[len(block.deps) - count_effects(block) :]


def afters(n: Node) -> list[Node]:
    """Returns the nodes that stand for the targets of a side effect after it has happened, if they
    are still alive."""
    nodes = [reference() for e in _single([n]) for reference in e.data.afters]
    return [after for after in nodes if after is not None]


def old_values(effects: Iterable[Node]) -> list[Any]:
    """Returns references to the nodes that hold old values returned by atomic operations, including
    those in loops and branches."""
    return [e.data.value for e in _single(effects) if e.data.value is not None]


def _single(effects: Iterable[Node]) -> Iterator[Node]:
    """Yields side effects, with those of loops and branches in place of these."""
    for e in effects:
        if e.op.block:
            yield from _single(block_effects(e))
        elif e.op.effect:
            yield e


def undo(dropped: Iterable[Node], targets: Iterable[Node]) -> None:
    """Undoes side effects: each node of `targets`, which stood for an array after a side effect,
    then stands for the array without the effects in `dropped`. Loops and branches among these only
    lose their side effects, since their results may still be needed."""
    gone = set(dropped)
    for target in targets:
        before = target.deps
        while before and before[0] in gone:
            before = _order(before[0], target.data) or ()
        if before and before[0].op is not BUFFER:  # it is a buffer once the effect has happened
            target.deps = before
            tie(target, before[0])
        else:
            target.op, target.deps = BUFFER, ()
    blocks = [n for n in gone if n.op.block]
    for n in blocks:  # the list grows during iteration
        blocks += [e for e in block_effects(n) if e.op.block]
        n.deps = n.deps[: len(n.deps) - count_effects(n)]
        n.data.counts = without_effects(n.data.counts)


def tie(target: Node, effect: Node) -> None:
    """Ties a target to a side effect and the recordings that contain it: if these are undone, the
    target returns to its contents before the effect."""
    reference = ref(target)
    for scope in stack():
        if effect in scope.effects:
            scope.afters.append(reference)
    last = effect
    while last.op.block:
        last = next(e for e in reversed(block_effects(last)) if _order(e, target.data) is not None)
    last.data.afters.append(reference)


def _order(effect: Node, buffer: Any) -> tuple[Node, ...] | None:
    """Returns the side effect on a buffer that precedes `effect`, or precedes the effects of a loop
    or branch; None if the buffer is not written to."""
    if effect.op.block:
        orders = (_order(e, buffer) for e in block_effects(effect))
        return next((order for order in orders if order is not None), None)
    return effect.data.order if effect.op.effect and effect.data.buffer is buffer else None


def without_escaped(effects: list[Node], below: dict[Node, list[Node]]) -> list[Node]:
    """Returns the side effects that can happen, and undoes the others. `below` maps each effect to
    the nodes that it depends on."""
    dropped = {e for e in effects if _escaped(e, below[e])}
    if not dropped:
        return effects
    kept = [e for e in effects if e not in dropped]
    every = kept[:]
    for e in every:  # the list grows during iteration
        if e.op.block:
            every += block_effects(e)
        while e.op.effect and e.data.order and e.data.order[0] in dropped:
            e.data.order = _order(e.data.order[0], e.data.buffer) or ()
    undo(dropped, [a for e in dropped for a in afters(e)])
    return kept


def _escaped(effect: Node, nodes: list[Node]) -> bool:
    """Returns whether an effect, or one of the nodes that it depends on, uses a value outside the
    body in which that is defined."""
    blocks = [n for n in nodes if n.op.block]
    defined = {s for n in blocks for states in RegionOperands(n).inside for s in states}
    defined |= {RegionOperands(n).live for n in blocks if n.op is op.loop}
    if any(n.op is op.state and n not in defined for n in nodes):
        return True
    if not blocks:
        return False
    try:
        return effect in Nesting(nodes).home
    except RuntimeError:
        return True
