"""Plans: the launches of an evaluation in which something waits for something else."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from ..device import Kernel
from ..ir.node import Node

# A kernel to launch for a number of lanes: the nodes that it computes, and those that it takes
# (inputs, literals, checks), and effects, one for each buffer that it writes to.
Launch = tuple[Kernel, int, list[Node], list[Node], list[Node], Sequence[Node], list[Node]]


class EvaluationPlan:
    """The `launches` of an evaluation, with functions that take nodes from those in traversal
    order; and the `sizes` of nodes on which the launches depend, by position.

    A device that performs them in a way of its own keeps what it needs in `native`, and counts its
    `calls` until then.
    """

    __slots__ = ("calls", "launches", "native", "sizes")

    def __init__(
        self, launches: list[Launch], watched: list[tuple[Node, int]], order: list[Node]
    ) -> None:
        place = dict(zip(order, range(len(order)), strict=True))
        sizes = watched + [(n, n.size) for _, _, roots, *_ in launches for n in roots]
        self.launches: list[tuple] = [
            (*v[:2], *[taken([place[n] for n in part]) for part in v[2:]]) for v in launches
        ]
        self.sizes = [*{place[n]: size for n, size in sizes}.items()]
        self.native: Any = None
        self.calls = 0


def taken(places: list[int]) -> itemgetter:
    """Returns a function that takes the entries of a list at some places."""
    if len(places) > 1:
        return itemgetter(*places)
    start = places[0] if places else 0
    return itemgetter(slice(start, start + len(places)))
