"""Side effects that wait for the next evaluation, and their data."""

import weakref
from typing import Any

from ..device import Buffer
from ..ir import dtype as dt
from ..ir import op
from ..ir.effects import block_effects
from ..ir.node import AFTER, Node, make
from ..ir.scope import innermost, stack

effects: list[Node] = []


class Effect:
    """The data of a side effect besides its operands: the buffer it writes, its op and mode, and
    the nodes that wait for it.

    `afters` refer to nodes that stand for the target afterwards, `value` to the node of an atomic's
    old value, and `order` to effects that must have finished before. `shape` is the shape of the
    part of the buffer to which a sum of vectors is added. It `is_claimed` while the effect that
    follows it is made.
    """

    __slots__ = (
        "afters", "buffer", "dtype", "is_claimed", "mode", "order", "reduce", "shape", "size",
        "value",
    )  # fmt: skip

    def __init__(self, buffer: Buffer, dtype: dt.DType, size: int, reduce: str, mode: str) -> None:
        self.buffer, self.dtype, self.size = buffer, dtype, size
        self.reduce, self.mode = reduce, mode
        self.order: tuple[Node, ...] = ()
        self.shape: tuple[int, ...] = ()
        self.afters: list[Any] = []
        self.value: Any = None
        self.is_claimed = False

    @property
    def static(self) -> tuple:
        """Returns the part of the data that kernel text depends on."""
        return (self.dtype, self.reduce, self.mode)


def add(
    kind: op.Op, deps: tuple[Node, ...], lanes: int, effect: Effect, order: tuple[Node, ...]
) -> Node:
    """Queues a side effect, given its operation, its operands and the number of lanes; returns the
    node that stands for the target from now on.

    `order` is the pending side effect on the target that must come first, if there is one. The
    caller holds the lock.
    """
    effect.order = order
    n = make(kind, effect.dtype, lanes, deps, effect)
    after = make(AFTER, effect.dtype, effect.size, (n,), effect.buffer)
    effect.afters.append(weakref.ref(after))
    scope = innermost()
    if scope is None:
        effects.append(n)
    else:
        scope.effects.append(n)
        scope.afters += effect.afters
    for before in order:
        if before.op.effect:
            before.data.is_claimed = False
    return after


def drop_unseen() -> bool:
    """Drops pending side effects that nothing can observe: nothing refers to the nodes of their
    targets or old values, and no other effect follows them. Returns whether any are left."""
    for effect in effects:
        if effect.op.effect and not _is_seen(effect.data):
            break
    else:
        return bool(effects)
    kept: list[Node] = []
    needed: set[Node] = set()
    for scope in stack():  # recorded effects come later
        for effect in scope.effects:
            _follow(effect, needed)
    while effects:  # last effects first: earlier ones may only be held by what they need
        effect = effects.pop()
        if effect.op.effect and effect not in needed and not _is_seen(effect.data):
            continue
        kept.append(effect)
        _follow(effect, needed)
    effects.extend(reversed(kept))
    return bool(effects)


def _is_seen(effect: Effect) -> bool:
    """Returns whether there are nodes of its target or old value, or about to be."""
    if effect.is_claimed:
        return True
    for after in effect.afters:
        if after() is not None:
            return True
    return effect.value is not None and effect.value() is not None


def _follow(effect: Node, needed: set[Node]) -> None:
    """Adds the side effects that precede one, or that precede those of a loop or branch."""
    if effect.op.effect:
        needed.update(effect.data.order)
    elif effect.op.block:
        for e in block_effects(effect):
            _follow(e, needed)


def old_value(after: Node, dtype: dt.DType) -> Node:
    """Returns the old value of an atomic operation as a node."""
    effect_node = after.deps[0]
    value = make(op.component, dtype, effect_node.size, (effect_node,), 0)
    effect_node.data.value = weakref.ref(value)
    return value
