"""Recorded code once more, on other values.

What the body of a loop, branch or call computes is known as nodes. Its derivatives need them again:
on what the state was in an earlier iteration, or within another block. They are copied with other
nodes in place of those that stood for the state, which is much quicker than to trace the body.
"""

import weakref
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from . import flags, label, op
from .effects import BLOCKS, EFFECTS, effects_inside
from .node import Node, make, next_serial
from .schedule import Effect
from .scope import Block, Scope, innermost
from .sharing import operands

OLD_VALUES = (
    "the body of a symbolic loop or call that is differentiated uses the old values that an atomic "
    "operation such as dr.scatter_inc() gives. They are known only where it takes place, which it "
    "does not when the body is computed again for derivatives. Use mode='evaluated', or "
    "dr.suspend_grad()."
)


class Span:
    """The nodes that a thread makes from now until `close`, by their serial numbers."""

    __slots__ = ("first", "last")

    def __init__(self, first: int | None = None) -> None:
        self.first = next_serial() if first is None else first
        self.last = self.first

    def close(self) -> None:
        """Ends the span."""
        self.last = next_serial()


class Substitution:
    """Copies of nodes that stand in the innermost recording, with the nodes `made` for others.

    `body` spans the recorded body, which lies at a `depth` of recordings, for `lanes` lanes; its
    side effects are not repeated.
    """

    def __init__(self, made: dict[Node, Node], body: Span, depth: int, lanes: int) -> None:
        self._made, self._body = made, body
        self._spans = [(body.first, body.last)]
        scope = innermost()
        self._shift = (0 if scope is None else scope.depth) - depth
        size = max([n.size for n in made.values()], default=1)
        self._size = size if lanes == 1 else 1
        self._values: dict[Node, Block] = {}

    def __call__(self, roots: Sequence[Node]) -> list[Node]:
        """The copies of some nodes.

        Raises:
            RuntimeError: the body uses the old values that atomic operations give.
        """
        made, size = self._made, self._size
        get = made.get
        plain = not (flags.current & 1 or label.labels or self._values)
        for n in self.inside(roots):
            o = n.op
            deps = n.deps
            new = tuple([get(d, d) for d in deps])
            if o in _SPECIAL:
                copy = self._special(n, new)
            elif new == deps:
                continue
            else:
                copy = make(o, n.dtype, size if n.size == 1 else n.size, new, n.data)
            made[n] = copy
            if not plain or self._values:
                self._note(n, copy)
        return [get(n, n) for n in roots]

    def extend(self, derived: Span, made: dict[Node, Node]) -> None:
        """Adds what has been computed from the body later, with further nodes for others."""
        self._spans.append((derived.first, derived.last))
        self._made.update(made)

    def effects(self, scope: Scope) -> None:
        """Makes the side effects of a recording those of the innermost one, as copies."""
        around = innermost()
        if not scope.effects or around is None:
            return
        around.effects += self(scope.effects)
        for reference in scope.afters:
            after = reference()
            if after is not None and after.deps:
                after.deps = (self._made.get(after.deps[0], after.deps[0]),)
                after.serial = next_serial()
        around.afters += scope.afters

    def inside(self, roots: Sequence[Node]) -> list[Node]:
        """What is to be copied for some values, operands first."""
        made, spans, body = self._made, self._spans, self._body
        found: list[Node] = []
        seen: set[Node] = set()
        pending = list(roots)
        for n in pending:  # which grows
            if n in seen or n in made:
                continue
            serial = n.serial
            for first, last in spans:
                if first <= serial < last:
                    break
            else:
                continue
            seen.add(n)
            found.append(n)
            if n.op in BLOCKS:
                pending += self._operands(n)
            elif n.op in EFFECTS and serial < body.last and serial >= body.first:
                raise RuntimeError(OLD_VALUES)
            else:
                pending += n.deps
        found.sort(key=_serial)
        return found

    def _operands(self, block: Node) -> Sequence[Node]:
        """What the copy of a loop or branch depends on. A body that calls share is not copied if
        it fits."""
        shared = block.data.shared
        if shared is None:
            dropped = effects_inside(block) if self._drops(block) else 0
            return block.deps[: len(block.deps) - dropped]
        if self._fits:
            return operands(block)
        inside = [n.serial for n in (*shared.inside, *shared.results.values())]
        self._spans.append((min(inside), max(inside) + 1))
        return block.deps

    @property
    def _fits(self) -> bool:
        return self._shift == 0 and self._size == 1

    def _drops(self, block: Node) -> bool:
        """Whether a block loses its side effects."""
        return self._body.first <= block.serial < self._body.last

    def _special(self, n: Node, deps: tuple[Node, ...]) -> Node:
        """The copy of a node that knows others, or that they know."""
        data = n.data
        if n.op is op.state:
            data += self._shift
        elif deps == n.deps and n.op not in EFFECTS:
            return n
        elif n.op in BLOCKS:
            counts, shared = data.counts, data.shared if self._fits else None
            data = Block(counts, data.depth + self._shift, shared)
            if self._drops(n) and (count := effects_inside(n)):
                deps = deps[: len(deps) - count]
                first, second, *rest = counts
                data.counts = (first, second, (0,) * len(rest[0])) if rest else (first, 0)
            for reference in n.data.values:
                if (value := reference()) is not None:
                    self._values[value] = data
        elif n.op in EFFECTS:
            order: tuple[Node, ...] = data.order
            effect = Effect(data.buffer, data.dtype, data.size, data.reduce, data.mode)
            effect.order = tuple([self._made.get(e, e) for e in order])
            effect.shape, effect.afters = data.shape, data.afters
            data = effect
        copy = make(n.op, n.dtype, self._size if n.size == 1 else n.size, deps, data)
        if n.op is op.component and deps[0].op in EFFECTS:
            deps[0].data.value = weakref.ref(copy)
        return copy

    def _note(self, n: Node, copy: Node) -> None:
        """Lets a copy be known as what it is a copy of: the result of a block, under a name, from
        a line of the program."""
        block = self._values.pop(n, None)
        if block is not None:
            block.values.append(weakref.ref(copy))
        notes: WeakKeyDictionary[Node, Any]
        for notes in (label.labels, label.locations):
            if n in notes:
                notes[copy] = notes[n]


_SPECIAL = BLOCKS | EFFECTS | {op.state, op.component}


def _serial(n: Node) -> int:
    return n.serial
