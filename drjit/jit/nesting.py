"""Which instructions belong to the bodies of loops and branches.

A node belongs to the innermost body on whose state or arguments it depends; what depends on none is
computed outside, once. Side effects stay where they were recorded.
"""

from collections.abc import Iterable

from . import op
from .node import Node

ROUNDS = 16  # what a loop is taken to run, for estimates of cost


class Parts:
    """The operands of a loop or branch by their meaning. There is one list of `inside`, `results`
    and `effects` for each body."""

    __slots__ = ("effects", "inputs", "inside", "live", "masks", "outer", "results", "test")

    def __init__(self, block: Node) -> None:
        deps, counts = block.deps, block.data.counts
        n = counts[0]
        self.inputs = deps[:n]
        if block.op is op.loop:
            self.inside = [deps[n : 2 * n]]
            self.live, self.outer, self.test = deps[2 * n : 2 * n + 3]
            self.results = [deps[2 * n + 3 : 3 * n + 3]]
            self.effects = [deps[3 * n + 3 :]]
            self.masks: tuple[Node, ...] = ()
            return
        _, results, effects = counts
        cases = len(effects)
        self.inside = _chunks(deps[n : n + n * cases], [n] * cases)
        at = n + n * cases
        self.masks = deps[at : at + cases]
        at += cases
        self.results = _chunks(deps[at : at + results * cases], [results] * cases)
        self.effects = _chunks(deps[at + results * cases :], list(effects))


def _chunks(deps: tuple[Node, ...], sizes: list[int]) -> list[tuple[Node, ...]]:
    found, at = [], 0
    for size in sizes:
        found.append(deps[at : at + size])
        at += size
    return found


class Body:
    """A body of a loop or branch: the nodes that belong to it, in order, and the bodies around it
    on which they depend."""

    __slots__ = ("around", "depth", "nodes", "rounds")

    def __init__(self, block: Node) -> None:
        self.depth = block.data.depth
        self.nodes: list[Node] = []
        self.around: set[Body] = set()
        nested = ROUNDS if self.depth > 1 else 1
        self.rounds = nested * (ROUNDS if block.op is op.loop else 1)


class Nesting:
    """The bodies of the blocks among `nodes`, and where each node belongs (`home`; nodes outside of
    all blocks have no entry).

    `same` says which nodes are others: arguments of branches, and the states that loops keep.
    """

    def __init__(self, nodes: list[Node]) -> None:
        self.parts: dict[Node, Parts] = {}
        self.bodies: dict[Node, list[Body]] = {}
        self.home: dict[Node, Body] = {}
        self.same: dict[Node, Node] = {}
        forced: dict[Node, Body] = {}
        kept: set[Node] = set()
        for n in nodes:
            if n.op is not op.loop and n.op is not op.branch:
                continue
            parts = self.parts[n] = Parts(n)
            bodies = self.bodies[n] = [Body(n) for _ in parts.inside]
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
        for n in nodes:
            if n in kept:
                del self.home[n]
                outside = self.home.get(self.same[n])
                if outside is not None:
                    self.home[n] = outside
            elif n not in self.home:
                self._place(n, forced.get(n))
        self._sink_constants(nodes)

    def _place(self, n: Node, body: Body | None) -> None:
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

    def _sink_constants(self, nodes: list[Node]) -> None:
        """Moves constants that only one body of a branch uses there, where lanes that do not call
        it need not load them."""
        users: dict[Node, set[Body | None]] = {}
        for n in nodes:
            for d in n.deps:
                if d.op is op.literal:
                    users.setdefault(d, set()).add(self.home.get(n))
        sunk: dict[Body, list[Node]] = {
            body: [] for n, bodies in self.bodies.items() if n.op is op.branch for body in bodies
        }
        for n, homes in users.items():
            body = homes.pop()
            if body in sunk and not homes:
                self.home[n] = body
                sunk[body].append(n)
        for body, constants in sunk.items():
            body.nodes[:0] = constants

    def reached(self, body: Body, wanted: Iterable[Node]) -> set[Node]:
        """What of a body and the blocks in it is needed to compute some values."""
        stack, found = list(wanted), set()
        while stack:
            n = stack.pop()
            n = self.same.get(n, n)
            home = self.home.get(n)
            if n not in found and home is not None and home.depth >= body.depth:
                found.add(n)
                stack += n.deps
        return found


def leaked() -> RuntimeError:
    """What to raise when a value leaves the body in which it is known."""
    return RuntimeError(
        "a value that was computed in the body of a symbolic loop, branch or call is used outside "
        "of it. Only the state that a loop's body gives, and the results of a branch or call, are "
        "known afterwards."
    )
