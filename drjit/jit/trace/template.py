"""Templates: code that would be traced over and over is traced once, and its nodes are then
repeated for other operands, which takes a fraction of the time.
"""

from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

from .. import flags
from .. import substitutes as native
from ..ir.dtype import DType
from ..ir.node import BUFFER, LITERAL, Node, make, next_serial
from ..ir.scope import innermost


class Template:
    """The nodes that `trace` creates for two kinds of operands: those that are gathered from, with
    the element types and sizes `sources`, and those with an entry per lane, with the element types
    `lanes`.

    `trace` is called once, with placeholder nodes for the operands, and returns the results, which
    have one entry per lane.
    """

    __slots__ = ("_constants", "_results", "_sizes", "_steps", "_words")

    def __init__(
        self,
        trace: Callable[[list[Node], list[Node]], Sequence[Node]],
        sources: Sequence[tuple[DType, int]],
        lanes: Sequence[DType],
    ) -> None:
        read = [make(BUFFER, dtype, size) for dtype, size in sources]
        own = [make(BUFFER, dtype, 2) for dtype in lanes]
        results = trace(read, own)
        self._sizes = [size for _, size in sources]
        place = {n: k for k, n in enumerate(read + own)}
        below = dict.fromkeys(results)
        nodes = list(below)
        for n in nodes:  # the list grows during iteration
            for d in n.deps:
                if d not in below:
                    below[d] = None
                    nodes.append(d)
        self._constants = [n for n in nodes if not n.deps and n not in place]
        computed = sorted([n for n in nodes if n.deps], key=attrgetter("serial"))
        for n in (*self._constants, *computed):
            place[n] = len(place)
        rows = [(n.op, n.dtype, n.data, [place[d] for d in n.deps]) for n in computed]
        self._steps: list[Any] = [
            (*row, itemgetter(*places), len(places) == 1) for *row, places in rows
        ]
        # The same as words, for native code (`substitutes.remake`).
        words = [[*map(id, row), len(places), *places] for *row, places in rows]
        self._words = array("q", chain(*words)).tobytes()
        self._results = [place[n] for n in results]

    def __call__(self, sources: Sequence[Node], lanes: Sequence[Node]) -> list[Node] | None:
        """Returns the results for other operands, or None where tracing might produce different
        nodes, because operands are literals or differ in size.
        """
        for n, expected in zip(sources, self._sizes, strict=True):
            if n.op is LITERAL or n.size != expected:
                return None
        size = lanes[0].size
        for n in lanes:
            if n.op is LITERAL or n.size != size:
                return None
        values = [*sources, *lanes, *self._constants]
        if native.remake is not None:
            native.remake(values, size, self._words)
            return [values[k] for k in self._results]
        add = values.append
        for op, dtype, data, pick, single in self._steps:
            n = Node()
            n.op = op
            n.dtype = dtype
            n.size = size
            n.deps = (pick(values),) if single else pick(values)
            n.data = data
            n.mark = None
            n.serial = next_serial()
            add(n)
        return [values[k] for k in self._results]


def is_repeatable() -> bool:
    """Returns whether templates can be used now: in no symbolic loop or branch, and where nodes
    need no source locations."""
    return not flags.current & 1 and innermost() is None
