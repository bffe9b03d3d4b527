"""Bodies that are recorded again and again, as those of a function that is called at several
places: calls that compute the same share the nodes of the first one.

What a body takes from outside becomes an argument, so that calls differ in their arguments alone.
Constants stay in the body until they are seen to differ from one call to another.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from .. import flags
from ..ir import label, op
from ..ir.node import LITERAL, Node, make, next_serial

# Nodes from which on a body is shared.
SHORTEST = 16
# Constants that differ beyond this number leave calls with bodies of their own.
MOST_CONSTANTS = 16

_STATE, _LANE, _ACTIVE = op.state, op.lane, op.active
_serial = attrgetter("serial")


class Shared:
    """The body that calls share: `inside` stands for what it is called with, `results` are the
    nodes that it computes, by their positions. `values` are those of its constants, of which those
    at the positions `varying` are arguments. Its `nodes`, if these are not known one by one, have
    serial numbers from `first` on and before `last`."""

    __slots__ = (
        "__weakref__", "first", "inside", "last", "nodes", "results", "values", "varying",
    )  # fmt: skip

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
        """Whether a node is one of the body, or stands for an argument."""
        if n in self.inside:
            return True
        return self.first <= n.serial < self.last if self.nodes is None else n in self.nodes

    def copied(self, made: dict[Node, Node]) -> "Shared":
        """The same with other nodes."""
        inside = [made.get(n, n) for n in self.inside]
        results = {k: made.get(n, n) for k, n in self.results.items()}
        copy = Shared(inside, results, self.values, self.varying, 0)
        copy.nodes = {new for n, new in made.items() if n in self}
        return copy

    def fits(self, values: tuple) -> bool:
        """Whether a call with other values of the constants can share the body."""
        return self.values == values or self.varying >= _different(self.values, values)


_known: WeakValueDictionary[tuple, Shared] = WeakValueDictionary()
# The constants that are known to differ from call to call, by the hash of what bodies look like.
_varying: dict[int, frozenset[int]] = {}
_VARYING_LIMIT = 4096


def _different(before: tuple, now: tuple) -> frozenset[int]:
    pairs = enumerate(zip(before, now, strict=True))
    return frozenset([k for k, (a, b) in pairs if a != b])


def operands(n: Node) -> Sequence[Node]:
    """What a node is computed from; of a call that shares its body, what it is called with."""
    shared = n.data.shared if n.op is op.branch else None
    if shared is None:
        return n.deps
    count = len(shared.inside)
    own = {*shared.inside, *shared.results.values()}
    return [d for d in (*n.deps[:count], *n.deps[2 * count :]) if d not in own]


def _memory(n: Node) -> Sequence[int]:
    """Which operands are read as memory."""
    return range(len(n.deps))[n.op.reads] if n.op.reads else ()


class Look:
    """A body as it has been recorded: what it computes from its arguments, in order, what it takes
    from outside, and `key`, which bodies that compute the same have in common but for the values
    of constants."""

    def __init__(self, names: list[Node], results: list[Node], start: float) -> None:
        self.start = start
        self.place: dict[Node, int] = {n: k for k, n in enumerate(names)}
        self.nodes: list[Node] = []  # those that depend on arguments
        self.constants: list[Node] = []
        self.lifted: list[Node] = []  # what is neither a constant nor memory
        self._outside: dict[Node, int] = {}
        self._kinds: list[tuple] = []
        rows: list[tuple] = []
        place, nodes, other = self.place, self.nodes, self._outside
        for n in _recorded(results, place, start):
            o = n.op
            if not o.plain and (o.block or o.reads or o is _STATE):
                row = self._row(n)
                if row is None:
                    continue
            else:
                deps = n.deps
                refs = [place.get(d) for d in deps]
                if None in refs:
                    if refs.count(None) == len(refs):
                        continue
                    for k, d in enumerate(deps):
                        if refs[k] is None:
                            refs[k] = other[d] if d in other else self._add(d)
                row = (o, n.dtype, n.data, *refs)
            rows.append(row)
            place[n] = len(place)
            nodes.append(n)
        self.has_vectors = any(t.is_vector for t in {row[1] for row in rows})
        self.results = [place.get(r, -1) for r in results]
        arguments = tuple([(n.dtype, n.size, n.data) for n in names])
        self.key = (arguments, tuple(self._kinds), tuple(rows), tuple(self.results))
        self.values = tuple([_value(n) for n in self.constants])

    def _row(self, n: Node) -> tuple | None:
        """What a node looks like whose operands are not all alike."""
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
        """The number of a value from outside that is met first."""
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


def _recorded(results: list[Node], names: dict[Node, int], start: float) -> list[Node]:
    """What has been recorded of what some values depend on, in order, but for constants."""
    own = [r for r in dict.fromkeys(results) if r.serial >= start and r not in names]
    found = [r for r in own if r.deps or r.op is _STATE]
    seen = {*found, *names}
    add, mark = found.append, seen.add
    for n in found:  # which grows
        for d in operands(n) if n.op is op.branch else n.deps:
            if d.serial >= start and (d.deps or d.op is _STATE) and d not in seen:
                mark(d)
                add(d)
    found.sort(key=_serial)
    return found


def _value(n: Node) -> Any:
    value = n.data
    return value if value and value == value else repr(value)  # the two zeros differ


def share(
    names: list[Node], results: list[Node], start: float, depth: int
) -> tuple[Shared, list[Node], list[Node]] | None:
    """The body that a call has in common with others, if it is worth it: that, what it is called
    with beyond its arguments, and the results of the call.

    `names` stand for the arguments in what has been recorded since `start`.
    """
    if flags.current & 1:
        return None
    look = Look(names, results, start)
    if len(look.nodes) < SHORTEST or look.has_vectors or any(n.dtype.is_vector for n in names):
        return None
    if label.labels and any(n in label.labels for n in look.nodes):
        return None
    shared = _known.get(look.key)
    number = hash(look.key)
    if shared is None:
        varying = _varying.get(number, frozenset())
    elif shared.fits(look.values):
        varying = shared.varying
    else:
        varying = shared.varying | _different(shared.values, look.values)
        if len(_varying) >= _VARYING_LIMIT:
            _varying.clear()
        _varying[number] = varying
        shared = None
    if len(varying) > MOST_CONSTANTS:
        return None
    more = look.lifted + [look.constants[k] for k in sorted(varying)]
    if shared is None:
        shared = _known[look.key] = _made(look, names, results, more, varying, depth)
    found = [shared.results.get(k, r) for k, r in enumerate(results)]
    return shared, more, found


def _made(
    look: Look,
    names: list[Node],
    results: list[Node],
    more: list[Node],
    varying: frozenset[int],
    depth: int,
) -> Shared:
    """Makes arguments of what a body takes from outside."""
    arguments: dict[Node, Node] = {}
    for n in more:
        state = arguments[n] = make(_STATE, n.dtype, n.size, (), depth)
        state.serial = n.serial + 0.5  # type: ignore[assignment]  # before those that use it
    if arguments:
        for n in look.nodes:
            if any(d in arguments for d in n.deps):
                memory = _memory(n)
                n.deps = tuple(
                    [d if k in memory else arguments.get(d, d) for k, d in enumerate(n.deps)]
                )
    own = {k: r for k, r in enumerate(results) if look.results[k] >= 0}
    return Shared([*names, *arguments.values()], own, look.values, varying, look.start)
