"""Copies recorded code with other operands.

The body of a loop, branch or call exists as nodes. Its derivatives need it again, on the state of
an earlier iteration or inside another block. Copying the nodes, with replacements for the
placeholders of the state, is much faster than tracing the body again.
"""

import math
import weakref
from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

from .. import flags
from ..ir import label, op
from ..ir.effects import OLD_VALUES, count_effects, without_effects
from ..ir.node import Node, make, next_serial
from ..ir.scope import BlockData, innermost
from .sharing import SharedBody, operands

STATE = op.state


class Span:
    """The range of serial numbers of the nodes that a thread creates from now until `close`."""

    __slots__ = ("first", "last")

    def __init__(self, first: int | None = None, last: int = 0) -> None:
        self.first = next_serial() if first is None else first
        self.last = last or self.first

    def close(self) -> None:
        """Ends the range."""
        self.last = next_serial()


_EMPTY = Span(0)


class Substitution:
    """Copies nodes of a body into the innermost recording, with replacements for some of them.

    Nodes in `span` belong to the body and are copied. The body lies at recording depth `depth` and
    has `lanes` lanes; its side effects are not repeated. Nodes computed from it later, listed in
    `derived`, are used once and therefore transformed in place. Nodes that belong to an enclosing
    body that is itself being substituted are looked up in `around`. `replacements` maps nodes to
    what replaces them, also to the copies made so far. Nodes with one entry get `size` entries.
    """

    def __init__(
        self,
        replacements: dict[Node, Node],
        span: Span,
        depth: int,
        lanes: int,
        derived: Span | None = None,
        around: "Substitution | None" = None,
    ) -> None:
        self.replacements, self._span, self._derived = replacements, span, derived or _EMPTY
        self._around = around
        self._first: float = span.first if around is None else around._first
        self._seen = set(replacements)
        self._values: dict[Node, BlockData] = {}  # results of blocks, and their copies
        scope = innermost()
        self._shift = (0 if scope is None else scope.depth) - depth
        self.size = 1 if lanes != 1 else max([n.size for n in replacements.values()], default=1)
        # Shared bodies, and their copies.
        self._shared: dict[SharedBody, SharedBody | None] = {}

    def extend(self, replacements: dict[Node, Node]) -> None:
        """Adds replacements."""
        self.replacements.update(replacements)
        self._seen.update(replacements)

    @property
    def fits(self) -> bool:
        """Whether bodies shared by several calls can be used unchanged."""
        return self._shift == 0 and self.size == 1

    def __call__(self, roots: Sequence[Node], needed: list[Node] | None = None) -> list[Node]:
        """Returns the replacements of some nodes. `needed` is what `collect` returns for them, if
        the caller has it already.

        Raises:
            RuntimeError: the body uses the old values that atomic operations return.
        """
        replacements, size = self.replacements, self.size
        get, untouched = replacements.get, replacements.keys().isdisjoint
        named = bool(flags.current & 1 or flags.lines_are_noted or label.labels)
        first, last, shared = self._derived.first, self._derived.last, self._shared
        values = self._values
        nodes = needed if needed is not None and self.fits else self.collect(roots)
        for n in sorted(nodes, key=attrgetter("serial")):
            if n in replacements:
                continue
            o, deps, data = n.op, n.deps, n.data
            moves = first <= n.serial < last and not (shared and self._is_shared(n))
            if o is STATE:
                data += self._shift
            elif untouched(deps) and (o.elementwise or not (moves and o.effect)):
                continue
            new = tuple(map(get, deps, deps))
            if o.block:
                if moves:
                    data.depth += self._shift
                    data.shared = self._body_of(data)
                else:
                    data, new = self._block(n, new)
            lanes = n.size
            if size != 1 and lanes == 1:
                lanes = size
            if moves:
                n.deps, n.data, n.size, n.serial = new, data, lanes, next_serial()
                replacements[n] = n
                continue
            replacements[n] = copy = make(o, n.dtype, lanes, new, data)
            if values and n in values:
                values[n].values.append(weakref.ref(copy))
            if named:
                _copy_notes(n, copy)
        return [get(n, n) for n in roots]

    def collect(self, roots: Sequence[Node]) -> list[Node]:
        """Returns the nodes that must be replaced to compute some values and have not been visited
        yet."""
        span, derived, shared = self._span, self._derived, self._shared
        start, end, first, last = span.first, span.last, derived.first, derived.last
        affected: list[Node] = []
        outside: list[Node] = []  # may belong to the enclosing body
        since = math.inf if self._around is None else self._first
        seen = self._seen
        see, add = seen.add, affected.append
        pending = list(roots)
        for n in pending:  # the list grows during iteration
            if n in seen:
                continue
            see(n)
            serial, o = n.serial, n.op
            own = start <= serial < end
            if own or first <= serial < last or (shared and self._is_shared(n)):
                add(n)
                if o.elementwise:
                    pending += n.deps
                    continue
                if own and (o.effect or (o is STATE and n.data is None)):
                    raise RuntimeError(OLD_VALUES)
                pending += n.deps if not o.block else self._operands(n)
            elif serial >= since:
                outside.append(n)
        if outside and self._around is not None:
            pairs = zip(outside, self._around(outside), strict=True)
            self.replacements.update([(n, new) for n, new in pairs if n is not new])
        return affected

    def _is_shared(self, n: Node) -> bool:
        return any(n in s for s in self._shared)

    def _body_of(self, block: BlockData) -> SharedBody | None:
        """Returns the body that the copy of a call shares with the copies of other calls."""
        shared = block.shared
        if shared is None or self.fits:
            return shared
        copy = self._shared.get(shared)
        if copy is None:
            copy = self._shared[shared] = shared.copied(self.replacements)
        return copy

    def _operands(self, block: Node) -> Sequence[Node]:
        """Returns the operands of a loop or branch when it is moved elsewhere."""
        shared = block.data.shared
        if shared is None:
            dropped = count_effects(block) if self._loses_effects(block) else 0
            return block.deps[: len(block.deps) - dropped]
        if self.fits:
            return operands(block)
        self._shared.setdefault(shared)
        return block.deps

    def _loses_effects(self, block: Node) -> bool:
        """Returns whether a block loses its side effects."""
        return self._span.first <= block.serial < self._span.last

    def _block(self, n: Node, deps: tuple[Node, ...]) -> tuple[BlockData, tuple[Node, ...]]:
        """Returns the metadata and the operands of the copy of a loop or branch."""
        block, counts = n.data, n.data.counts
        if self._loses_effects(n) and (count := count_effects(n)):
            deps = deps[: len(deps) - count]
            counts = without_effects(counts)
        copy = BlockData(counts, block.depth + self._shift, self._body_of(block), block.names)
        values = [v for reference in block.values if (v := reference()) is not None]
        self._values.update(dict.fromkeys(values, copy))
        return copy, deps


def _copy_notes(n: Node, copy: Node) -> None:
    """Gives a copy the label and source location of the original."""
    notes: WeakKeyDictionary[Node, Any]
    for notes in (label.labels, label.locations, label.noted):
        if n in notes:
            notes[copy] = notes[n]
