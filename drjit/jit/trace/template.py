"""Programs that are traced over and over: their nodes are recorded once and repeated for other
operands, which takes a fraction of the time of tracing them.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter

from .. import flags
from ..ir.dtype import DType
from ..ir.node import BUFFER, LITERAL, Node, make, next_serial
from ..ir.scope import innermost


class Template:
    """The nodes that `trace` makes, for operands of two kinds: `sources`, of which it gathers and
    whose element types and sizes are given, and per-lane operands of the element types `lanes`.

    `trace` is called once, with nodes that stand for the operands, and gives the results, which
    have an entry per lane.
    """

    __slots__ = ("_constants", "_results", "_sizes", "_steps")

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
        found = list(below)
        for n in found:  # which grows
            for d in n.deps:
                if d not in below:
                    below[d] = None
                    found.append(d)
        # Equal literals become one, but for zeros of different signs.
        constants: dict[tuple, Node] = {}
        for n in found:
            if not n.deps and n not in place:
                constants.setdefault((n.op, n.dtype, repr(n.data)), n)
        self._constants = list(constants.values())
        numbers = {key: len(read) + len(own) + k for k, key in enumerate(constants)}
        made = []
        for n in sorted(found, key=lambda n: n.serial):
            if n.deps:
                place[n] = len(read) + len(own) + len(constants) + len(made)
                made.append(n)
            elif n not in place:
                place[n] = numbers[n.op, n.dtype, repr(n.data)]
        self._steps = [(n.op, n.dtype, n.data, *_picker([place[d] for d in n.deps])) for n in made]
        self._results = [place[n] for n in results]

    def __call__(self, sources: Sequence[Node], lanes: Sequence[Node]) -> list[Node] | None:
        """The results for other operands; None where tracing might give other nodes: operands are
        literals or differ in size.
        """
        for n, known in zip(sources, self._sizes, strict=True):
            if n.op is LITERAL or n.size != known:
                return None
        size = lanes[0].size
        for n in lanes:
            if n.op is LITERAL or n.size != size:
                return None
        values = [*sources, *lanes, *self._constants]
        add = values.append
        for op, dtype, data, one, several in self._steps:
            n = Node()
            n.op = op
            n.dtype = dtype
            n.size = size
            n.deps = (values[one],) if several is None else several(values)
            n.data = data
            n.mark = None
            n.serial = next_serial()
            add(n)
        return [values[k] for k in self._results]


def _picker(places: list[int]) -> tuple[int, itemgetter | None]:
    """One place, or what picks the values at several."""
    return (places[0], None) if len(places) == 1 else (0, itemgetter(*places))


def repeatable() -> bool:
    """Whether nodes are all that is recorded: no symbolic loop or branch, nor locations."""
    return not flags.current & 1 and innermost() is None
