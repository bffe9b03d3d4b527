"""Sharing of bodies that are recorded repeatedly, for example when a function is called in several
places: calls whose bodies compute the same share the nodes of the first one.

Values from outside the body become arguments, so calls differ in their arguments only. Constants
stay in the body until they turn out to differ between calls.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from .. import flags
from ..ir import op
from ..ir.node import LITERAL, Node, make, next_serial

# Minimum number of nodes for sharing a body.
SHORTEST = 16
# If more constants than this differ, calls keep separate bodies.
MOST_CONSTANTS = 16

_STATE, _LANE, _ACTIVE = op.state, op.lane, op.active


class SharedBody:
    """A body shared by several calls. `inside` are the nodes that stand for its arguments,
    `results` the nodes it computes, by position. `values` are its constants; those at the positions
    `varying` are passed as arguments. Unless `nodes` is listed explicitly, the body consists of the
    nodes with serial numbers from `first` up to, but excluding, `last`."""

    def __init__(
        self,
        inside: list[Node],
        results: dict[int, Node],
        values: tuple,
        varying: frozenset[int],
        first: float,
    ) -> None:
        self.inside, self.results = inside, results
        self.first, self.last = first, next_serial()
        self.nodes: set[Node] | None = None
        self.values, self.varying = values, varying

    def __contains__(self, n: Node) -> bool:
        """Returns whether a node is part of the body or stands for an argument."""
        if n in self.inside:
            return True
        return self.first <= n.serial < self.last if self.nodes is None else n in self.nodes

    def copied(self, copies: dict[Node, Node]) -> "SharedBody":
        """Returns the same body with other nodes."""
        inside = [copies.get(n, n) for n in self.inside]
        results = {k: copies.get(n, n) for k, n in self.results.items()}
        copy = SharedBody(inside, results, self.values, self.varying, 0)
        copy.nodes = {new for n, new in copies.items() if n in self}
        return copy

    def fits(self, values: tuple) -> bool:
        """Returns whether a call with other constants can share the body."""
        return self.values == values or self.varying >= _different(self.values, values)


_bodies: WeakValueDictionary[tuple, SharedBody] = WeakValueDictionary()
# The constants known to differ between calls, by the hash of the body's key.
_varying: dict[int, frozenset[int]] = {}
_VARYING_LIMIT = 4096


def _different(before: tuple, now: tuple) -> frozenset[int]:
    return frozenset([k for k, (a, b) in enumerate(zip(before, now, strict=True)) if a != b])


def operands(n: Node) -> Sequence[Node]:
    """Returns the operands of a node; for a call that shares its body, its arguments."""
    shared = n.data.shared if n.op is op.branch else None
    if shared is None:
        return n.deps
    count = len(shared.inside)
    own = {*shared.inside, *shared.results.values()}
    return [d for d in (*n.deps[:count], *n.deps[2 * count :]) if d not in own]


def _memory(n: Node) -> Sequence[int]:
    """Returns the indices of the operands that are read as memory."""
    return range(len(n.deps))[n.op.reads] if n.op.reads else ()


class BodyStructure:
    """The structure of a recorded body: the nodes computed from its arguments, in order, the values
    it takes from outside, and a `key` that is equal for bodies that compute the same up to the
    values of constants."""

    def __init__(self, names: list[Node], results: list[Node], start: float) -> None:
        self.start, self.names = start, names
        self.place: dict[Node, int] = {n: k for k, n in enumerate(names)}
        self.nodes: list[Node] = []  # nodes that depend on arguments
        self.constants: list[Node] = []
        self.lifted: list[Node] = []  # values from outside that are neither constants nor memory
        self._outside: dict[Node, int] = {}
        self._kinds: list[tuple] = []
        rows: list[tuple] = []
        place = self.place
        for n in _recorded(results, place, start):
            row = self._row(n)
            if row is not None:
                rows.append(row)
                place[n] = len(place)
                self.nodes.append(n)
        self.has_vectors = any(t.is_vector for t in {row[1] for row in rows})
        self.results = [place.get(r, -1) for r in results]
        arguments = tuple([(n.dtype, n.size, n.data) for n in names])
        self.key = (arguments, tuple(self._kinds), tuple(rows), tuple(self.results))
        self.values = tuple([_value(n) for n in self.constants])

    def _row(self, n: Node) -> tuple | None:
        """Returns the structure of a node; None if it depends on no argument."""
        place, memory, deps = self.place, _memory(n), operands(n)
        if deps and not any(d in place for d in deps):
            return None
        data = n.data
        if n.op.block:
            data = (data.static, id(data.shared) if data.shared is not None else None)
        refs: list[Any] = []
        for k, d in enumerate(deps):
            if k in memory:
                refs.append(place.get(d, id(d)))
            else:
                at = place.get(d, self._outside.get(d))
                refs.append(self._add(d) if at is None else at)
        return (n.op, n.dtype, n.size, data, len(memory), *refs)

    def _add(self, n: Node) -> int:
        """Numbers a value from outside on first use."""
        number = self._outside[n] = -1 - len(self._outside)
        if n.op is LITERAL:
            self.constants.append(n)
            self._kinds.append((LITERAL, n.dtype, n.size))
        elif n.op is _LANE or n.op is _ACTIVE:
            self._kinds.append((n.op, n.size))
        else:
            self.lifted.append(n)
            self._kinds.append((n.dtype, n.size))
        return number

    def shared(
        self, results: list[Node], more: list[Node], varying: frozenset[int], depth: int
    ) -> SharedBody:
        """Returns the body to be shared, after turning values that it takes from outside (`more`)
        into arguments."""
        arguments: dict[Node, Node] = {}
        for n in more:
            state = arguments[n] = make(_STATE, n.dtype, n.size, (), depth)
            state.serial = n.serial + 0.5  # type: ignore[assignment]  # before those that use it
        if arguments:
            for n in self.nodes:
                if any(d in arguments for d in n.deps):
                    memory = _memory(n)
                    n.deps = tuple(
                        [d if k in memory else arguments.get(d, d) for k, d in enumerate(n.deps)]
                    )
        own = {k: r for k, r in enumerate(results) if self.results[k] >= 0}
        return SharedBody([*self.names, *arguments.values()], own, self.values, varying, self.start)


def _recorded(results: list[Node], names: dict[Node, int], start: float) -> list[Node]:
    """Returns the recorded nodes, except constants, that some values depend on, in order."""
    own = [r for r in dict.fromkeys(results) if r.serial >= start and r not in names]
    nodes = [r for r in own if r.deps or r.op is _STATE]
    seen = {*nodes, *names}
    add, mark = nodes.append, seen.add
    for n in nodes:  # the list grows during iteration
        for d in operands(n) if n.op is op.branch else n.deps:
            if d.serial >= start and (d.deps or d.op is _STATE) and d not in seen:
                mark(d)
                add(d)
    nodes.sort(key=attrgetter("serial"))
    return nodes


def _value(n: Node) -> Any:
    value = n.data
    return value if value and value == value else repr(value)  # 0.0 and -0.0 differ


def share(
    names: list[Node], results: list[Node], start: float, depth: int
) -> tuple[SharedBody, list[Node], list[Node]] | None:
    """Returns the body that a call can share with others, the call's extra arguments, and its
    results; None if sharing is not worthwhile.

    `names` are the nodes that stand for the arguments in the code recorded since `start`.
    """
    if flags.current & 1:
        return None
    body = BodyStructure(names, results, start)
    if len(body.nodes) < SHORTEST or body.has_vectors or any(n.dtype.is_vector for n in names):
        return None
    shared = _bodies.get(body.key)
    number = hash(body.key)
    if shared is None:
        varying = _varying.get(number, frozenset())
    elif shared.fits(body.values):
        varying = shared.varying
    else:
        varying = shared.varying | _different(shared.values, body.values)
        if len(_varying) >= _VARYING_LIMIT:
            _varying.clear()
        _varying[number] = varying
        shared = None
    if len(varying) > MOST_CONSTANTS:
        return None
    more = body.lifted + [body.constants[k] for k in sorted(varying)]
    if shared is None:
        shared = _bodies[body.key] = body.shared(results, more, varying, depth)
    return shared, more, [shared.results.get(k, r) for k, r in enumerate(results)]
