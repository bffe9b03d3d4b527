"""Which instructions belong to the bodies of loops and branches.

A node belongs to the innermost body on whose state or arguments it depends; what depends on none is
computed outside, once. Side effects stay where they were recorded. Arithmetic in a branch within a
loop that only depends on arguments which the loop does not change leaves the loop.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from . import op
from .node import Node

ROUNDS = 16  # what a loop is taken to run, for estimates of cost


class Parts:
    """The operands of a loop or branch by their meaning. There is one list of `inside`, `results`
    and `effects` for each body."""

    __slots__ = ("effects", "inputs", "inside", "live", "masks", "outer", "results", "test")

    def __init__(self, block: Node) -> None:
        deps = iter(block.deps)

        def following(count: int) -> tuple[Node, ...]:
            return tuple(islice(deps, count))

        n, *more = block.data.counts
        self.inputs = following(n)
        if block.op is op.loop:
            self.inside = [following(n)]
            self.live, self.outer, self.test = following(3)
            self.results = [following(n)]
            self.masks: tuple[Node, ...] = ()
            self.effects = [tuple(deps)]
            return
        results, effects = more
        self.inside = [following(n) for _ in effects]
        self.masks = following(len(effects))
        self.results = [following(results) for _ in effects]
        self.effects = [following(count) for count in effects]


class Region:
    """A body of a loop or branch: the nodes that belong to it, in order, and the bodies around it
    on which they depend. `arguments` are the positions of those in which its calls differ, if
    there are several."""

    __slots__ = ("arguments", "around", "block", "depth", "nodes", "rounds")

    def __init__(self, block: Node) -> None:
        self.block, self.depth = block, block.data.depth
        self.nodes: list[Node] = []
        self.around: set[Region] = set()
        nested = ROUNDS if self.depth > 1 else 1
        self.rounds = nested * (ROUNDS if block.op is op.loop else 1)
        self.arguments: list[int] | None = None


class Nesting:
    """The bodies of the blocks among `nodes`, and where each node belongs (`home`; nodes outside of
    all blocks have no entry).

    `same` says which nodes are others: arguments of branches, states that loops keep, literals that
    share a parameter, and what has left a loop and is there already.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self._present = {n: k for k, n in enumerate(nodes)}
        self.parts: dict[Node, Parts] = {}
        self.bodies: dict[Node, list[Region]] = {}
        self.home: dict[Node, Region] = {}
        self.same: dict[Node, Node] = {}
        forced: dict[Node, Region] = {}
        kept: set[Node] = set()
        constants: dict[int, Node] = {}
        calls: dict[Any, list[Node]] = {}  # of bodies that several of them share
        for n in nodes:
            if n.op is op.branch and n.data.shared is not None:
                calls.setdefault(n.data.shared, []).append(n)
        self.calls = {n: same for same in calls.values() if len(same) > 1 for n in same}
        for n in nodes:
            if n.op is op.literal:
                first = constants.setdefault(n.id, n)
                if first is not n:
                    self.same[n] = first
            if n.op is not op.loop and n.op is not op.branch:
                continue
            parts = self.parts[n] = Parts(n)
            if n in self.calls:
                self._call(n)
                continue
            bodies = self.bodies[n] = [Region(n) for _ in parts.inside]
            for k, body in enumerate(bodies):
                forced |= dict.fromkeys(parts.effects[k], body)
                for j, (inside, before) in enumerate(
                    zip(parts.inside[k], parts.inputs, strict=True)
                ):
                    self.home[inside] = body
                    if n.op is op.branch:
                        self.same[inside] = before
                    elif parts.results[k][j] is inside:
                        self.same[inside] = before
                        kept.add(inside)
            if n.op is op.loop:
                self.home[parts.live] = bodies[0]
        home = self.home
        for n in nodes:
            if n in kept:
                del home[n]
                outside = home.get(self.same[n])
                if outside is not None:
                    home[n] = outside
            elif n not in home and n.deps:
                if n in forced or n in self.bodies:
                    self._place(n, forced.get(n))
                    continue
                found = {b for d in n.deps if (b := home.get(d)) is not None}
                if len(found) == 1:
                    (body,) = found
                    body.nodes.append(n)
                    home[n] = body
                elif found:
                    self._place(n, None)
        self._hoist(nodes)
        self._sink_constants(nodes)

    def _call(self, n: Node) -> None:
        """Notes on a call that shares its body with others. What all of these pass is known in the
        body as it is."""
        first, *others = self.calls[n]
        if n is not first:
            self.bodies[n] = self.bodies[first]
            return
        (body,) = self.bodies[n] = [Region(n)]
        body.rounds *= 1 + len(others)
        inputs = [Parts(m).inputs for m in self.calls[n]]
        body.arguments = []
        for k, name in enumerate(self.parts[n].inside[0]):
            if name not in self._present:  # what no call needs
                continue
            self.home[name] = body
            given = inputs[0][k]
            if all(other[k].id == given.id for other in inputs):
                self.same[name] = given
            else:
                body.arguments.append(k)

    def _place(self, n: Node, body: Region | None) -> None:
        """Finds the home of a node from those of its operands."""
        own = self.bodies.get(n, [])
        others = {b for d in n.deps if (b := self.home.get(d)) is not None and b not in own}
        for b in own:
            others |= b.around
        for b in others:
            if body is None or b.depth > body.depth:
                body = b
            elif b is not body and b.depth == body.depth:
                raise leaked()
        if body is not None:
            body.around |= others - {body}
            body.nodes.append(n)
            self.home[n] = body

    def _hoist(self, nodes: list[Node]) -> None:
        """Moves arithmetic out of the loops whose variables it does not depend on. What several
        branches of a loop compute in the same way is then computed once."""
        if not any(body.depth > 1 for bodies in self.bodies.values() for body in bodies):
            return
        made: dict[tuple, Node] = {}
        moved: list[tuple[Region, Region | None, Node]] = []
        for n in nodes:
            if not n.op.plain or n.dtype.is_vector:
                continue
            deps = [self.origin(d) for d in n.deps]
            body = self.home.get(n)
            if body is not None:
                outside = self._outside(body, {self.home.get(d) for d in deps})
                if outside is not body:
                    moved.append((body, outside, n))
                    del self.home[n]
                    if outside is not None:
                        self.home[n] = outside
            key = (n.op, n.dtype, n.data, self.home.get(n), *[d.id for d in deps])
            first = made.setdefault(key, n)
            if first is not n:
                self.same[n] = first
        for _, outside, n in moved:
            if outside is not None:
                outside.nodes.append(n)
        for body in {b for before, after, _ in moved for b in (before, after) if b is not None}:
            here = [n for n in body.nodes if self.home.get(n) is body]
            body.nodes[:] = sorted(here, key=self._present.__getitem__)

    def _outside(self, body: Region, known: set[Region | None]) -> Region | None:
        """Where a node of a body can be computed whose operands the bodies `known` have: around the
        outermost loop in which none of these is, and within what several calls share."""
        found = at = body
        while at is not None and at not in known and at.arguments is None:
            around = self.home.get(at.block)
            if at.block.op is op.loop:
                found = around
            at = around
        return found

    def origin(self, n: Node) -> Node:
        """The node that another one is the same as."""
        while n in self.same:
            n = self.same[n]
        return n

    def _sink_constants(self, nodes: list[Node]) -> None:
        """Moves constants that only one body of a branch uses there, where lanes that do not call
        it need not load them."""
        sunk: dict[Region, list[Node]] = {
            body: [] for n, bodies in self.bodies.items() if n.op is op.branch for body in bodies
        }
        if not sunk:
            return
        users: dict[Node, set[Region | None]] = {}
        same, literal = self.same, op.literal
        for n in nodes:
            for d in n.deps:
                if d in same:
                    d = self.origin(d)
                if d.op is literal:
                    users.setdefault(d, set()).add(self.home.get(n))
        for n, homes in users.items():
            body = homes.pop()
            if body in sunk and not homes:
                self.home[n] = body
                sunk[body].append(n)
        for body, constants in sunk.items():
            body.nodes[:0] = constants

    def reached(self, body: Region, wanted: Iterable[Node]) -> set[Node]:
        """What of a body and the blocks in it is needed to compute some values."""
        home, same, depth, present = self.home, self.same, body.depth, self._present
        stack, found = list(wanted), set()
        while stack:
            n = stack.pop()
            while n in same:  # as `origin`, for every operand of a program
                n = same[n]
            if n in found:
                continue
            own = home.get(n)
            if own is not None and own.depth >= depth:
                found.add(n)
                # A block also refers to what only those of its results need that nobody uses.
                stack += n.deps if n not in self.parts else [d for d in n.deps if d in present]
        return found


def leaked() -> RuntimeError:
    """What to raise when a value leaves the body in which it is known."""
    return RuntimeError(
        "a value that was computed in the body of a symbolic loop, branch or call is used outside "
        "of it. Only the state that a loop's body gives, and the results of a branch or call, are "
        "known afterwards."
    )
