"""Assigns instructions to the bodies of loops and branches.

A node belongs to the innermost body whose state or arguments it depends on. A node that depends on
none is computed once, outside. Side effects stay where they were recorded. Arithmetic in a loop is
hoisted if it depends only on values that the loop does not change, even out of a branch.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from . import op
from .node import Node

ASSUMED_ITERATIONS = 16  # iterations of a loop, for cost estimates


class RegionOperands:
    """The operands of a loop or branch by role. `inside`, `results` and `effects` hold one list per
    body."""

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
    """A body of a loop or branch: its `nodes` in order, and the bodies `around` it that they depend
    on. `rounds` estimates how often it runs. If several calls share the body, `arguments` lists the
    positions of the arguments in which they differ."""

    __slots__ = ("arguments", "around", "block", "depth", "nodes", "rounds")

    def __init__(self, block: Node) -> None:
        self.block, self.depth = block, block.data.depth
        self.nodes: list[Node] = []
        self.around: set[Region] = set()
        nested = ASSUMED_ITERATIONS if self.depth > 1 else 1
        self.rounds = nested * (ASSUMED_ITERATIONS if block.op is op.loop else 1)
        self.arguments: list[int] | None = None


class Nesting:
    """The bodies of the blocks among `nodes`, and the body that each node belongs to (`home`; nodes
    outside all blocks have no entry).

    `same` maps a node to the one that replaces it: arguments of branches, loop states that never
    change, literals that share a parameter, and hoisted nodes that duplicate an existing one.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self._present = {n: k for k, n in enumerate(nodes)}
        self.parts: dict[Node, RegionOperands] = {}
        self.bodies: dict[Node, list[Region]] = {}
        self.home: dict[Node, Region] = {}
        self.same: dict[Node, Node] = {}
        self._forced: dict[Node, Region] = {}  # side effects stay where they were recorded
        self._kept: set[Node] = set()  # states that their loop does not change
        calls: dict[Any, list[Node]] = {}  # calls that share one body, by body
        for n in nodes:
            if n.op is op.branch and n.data.shared is not None:
                calls.setdefault(n.data.shared, []).append(n)
        self.calls = {n: same for same in calls.values() if len(same) > 1 for n in same}
        constants: dict[int, Node] = {}
        for n in nodes:
            if n.op is op.literal:
                first = constants.setdefault(n.id, n)
                if first is not n:
                    self.same[n] = first
            elif n.op is op.loop or n.op is op.branch:
                self._add_block(n)
        self._assign(nodes)
        self._hoist(nodes)

    def _add_block(self, n: Node) -> None:
        """Adds the bodies of a loop, branch or call."""
        parts = self.parts[n] = RegionOperands(n)
        if n in self.calls:
            self._add_call(n)
            return
        bodies = self.bodies[n] = [Region(n) for _ in parts.inside]
        for k, body in enumerate(bodies):
            self._forced |= dict.fromkeys(parts.effects[k], body)
            for j, inside in enumerate(parts.inside[k]):
                self.home[inside] = body
                if n.op is op.branch:
                    self.same[inside] = parts.inputs[j]
                elif parts.results[k][j] is inside:
                    self.same[inside] = parts.inputs[j]
                    self._kept.add(inside)
        if n.op is op.loop:
            self.home[parts.live] = bodies[0]

    def _assign(self, nodes: list[Node]) -> None:
        """Assigns each node to the innermost body that it depends on."""
        home, forced = self.home, self._forced
        for n in nodes:
            if n in self._kept:
                del home[n]
                outside = home.get(self.same[n])
                if outside is not None:
                    home[n] = outside
            elif n not in home and n.deps:
                if n in forced or n in self.bodies:
                    self._place(n, forced.get(n))
                    continue
                bodies = {b for d in n.deps if (b := home.get(d)) is not None}
                if len(bodies) == 1:
                    (body,) = bodies
                    body.nodes.append(n)
                    home[n] = body
                elif bodies:
                    self._place(n, None)

    def _add_call(self, n: Node) -> None:
        """Adds a call that shares its body with others. An argument that is the same in all of them
        is used directly in the body."""
        first, *others = self.calls[n]
        if n is not first:
            self.bodies[n] = self.bodies[first]
            return
        (body,) = self.bodies[n] = [Region(n)]
        body.rounds *= 1 + len(others)
        inputs = [RegionOperands(m).inputs for m in self.calls[n]]
        body.arguments = []
        for k, parameter in enumerate(self.parts[n].inside[0]):
            if parameter not in self._present:  # no call needs it
                continue
            self.home[parameter] = body
            argument = inputs[0][k]
            if all(other[k].id == argument.id for other in inputs):
                self.same[parameter] = argument
            else:
                body.arguments.append(k)

    def _place(self, n: Node, body: Region | None) -> None:
        """Determines the home of a node from the homes of its operands."""
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
        """Hoists arithmetic out of loops whose variables it does not depend on. An expression that
        occurs in several branches of a loop is then computed only once."""
        if not any(body.depth > 1 for bodies in self.bodies.values() for body in bodies):
            return
        expressions: dict[tuple, Node] = {}
        moved: list[tuple[Region, Region | None, Node]] = []
        for n in nodes:
            if not n.op.elementwise or n.dtype.is_vector:
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
            first = expressions.setdefault(key, n)
            if first is not n:
                self.same[n] = first
        for _, outside, n in moved:
            if outside is not None:
                outside.nodes.append(n)
        for body in {b for before, after, _ in moved for b in (before, after) if b is not None}:
            here = [n for n in body.nodes if self.home.get(n) is body]
            body.nodes[:] = sorted(here, key=self._present.__getitem__)

    def _outside(self, body: Region, operand_bodies: set[Region | None]) -> Region | None:
        """Returns the body to which a node of `body` can be hoisted: outside the outermost loop
        that contains none of its operands, but still inside a body shared by several calls."""
        target = at = body
        while at is not None and at not in operand_bodies and at.arguments is None:
            around = self.home.get(at.block)
            if at.block.op is op.loop:
                target = around
            at = around
        return target

    def origin(self, n: Node) -> Node:
        """Returns the node that replaces `n`, or `n` itself."""
        while n in self.same:
            n = self.same[n]
        return n

    def reached(self, body: Region, wanted: Iterable[Node]) -> set[Node]:
        """Returns the nodes of a body, and of the blocks in it, that the `wanted` values depend
        on."""
        home, same, depth, present = self.home, self.same, body.depth, self._present
        stack, found = list(wanted), set()
        while stack:
            n = stack.pop()
            while n in same:  # inlined `origin`: runs for every operand of a program
                n = same[n]
            if n in found:
                continue
            own = home.get(n)
            if own is not None and own.depth >= depth:
                found.add(n)
                # A block also refers to nodes that only its unused results need.
                stack += n.deps if n not in self.parts else [d for d in n.deps if d in present]
        return found


def leaked() -> RuntimeError:
    """Returns the error for a value that escapes the body in which it is defined."""
    return RuntimeError(
        "a value that was computed in the body of a symbolic loop, branch or call is used outside "
        "of it. Only the state that a loop's body gives, and the results of a branch or call, are "
        "known afterwards."
    )
