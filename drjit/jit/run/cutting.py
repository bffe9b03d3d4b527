"""Where programs that are too long for one kernel are cut."""

from bisect import bisect_left
from operator import attrgetter

from ..ir import op
from ..ir.node import Node
from ..text import structure

LONGEST = 1 << 16  # nodes in a kernel: bounds the memory that compiling takes
# Accesses with a check of bounds in a kernel. Each has branches of its own, among which LLVM
# allocates registers in a time that is linear up to about a thousand reads, or 256 writes, each
# with its check: 1.3 and 2.7 ms for each of them, but three times that for four times as many.
MOST_CHECKS = 1 << 10
_EFFECT = 3  # what a side effect is worth in checks
SHORT = MOST_CHECKS // 4  # nodes of which no program is too long
_STATE = op.state
_serial = attrgetter("serial")


def _length(n: Node) -> int:
    """Returns how much of the length of a kernel a node is."""
    checks = _EFFECT if n.op.effect else n.op is op.in_bounds
    return 1 + checks * LONGEST // MOST_CHECKS


def is_long(graph: structure.ProgramGraph) -> bool:
    """Returns whether a program is too long for one kernel."""
    checks = len(graph.checks) + _EFFECT * len(graph.noted)
    most = len(graph.order) + checks * LONGEST // MOST_CHECKS
    return most > LONGEST and sum(map(_length, dict.fromkeys(graph.order))) > LONGEST


def _by_roots(graph: structure.ProgramGraph, roots: list[Node]) -> list[Node]:
    """Returns all nodes, operands first, those of one root after the other, so that parts of the
    list have few values in common."""
    nodes = sorted(graph.ordered(), key=_serial)
    owner = {n: k for k, n in enumerate(sorted(roots, key=_serial))}
    for n in reversed(nodes):
        k = owner.setdefault(n, len(roots))
        for d in n.deps:
            if owner.get(d, k) >= k:
                owner[d] = k
    return sorted(nodes, key=owner.__getitem__)


def first_part(graph: structure.ProgramGraph, results: list[Node]) -> list[Node]:
    """Returns values to finish in a separate kernel, which splits a very long program at the cut
    that the fewest values cross; nothing if it cannot be cut."""
    nodes, roots = _by_roots(graph, results), set(results)
    place = {n: k for k, n in enumerate(nodes)}
    last = list(range(len(nodes)))
    whole = [_is_whole(n) for n in nodes]
    for k, n in enumerate(nodes):
        for d in n.deps:
            at = place[d]
            last[at] = k
            whole[at] = whole[at] or d.op.effect  # the kernel that updates has the old values
    crossing, ends = [0] * (len(nodes) + 1), [0]
    for k, end in enumerate(last):
        n = nodes[k]
        ends.append(ends[k] + _length(n))
        # Leaves exist anyway.
        if n.deps or n.op is _STATE:
            weight = len(nodes) if whole[k] else 1
            crossing[k + 1] += weight
            crossing[end + 1] -= weight
    for k in range(1, len(crossing)):
        crossing[k] += crossing[k - 1]
    # Of a program that is many times too long one half, as both are collected again.
    middle = max(LONGEST * 3 // 4, ends[-1] // 2)
    first, after = [bisect_left(ends, middle + d) for d in (-LONGEST // 4, LONGEST // 4)]
    cut = min(range(first, after), key=crossing.__getitem__)
    if crossing[cut] >= LONGEST // 4:
        return []
    return [n for k, n in enumerate(nodes[:cut]) if n in roots or (last[k] >= cut and n.deps)]


def _is_whole(n: Node) -> bool:
    """Returns whether a node stays in the kernel of those that use it: what belongs to a loop, and
    what has no single value."""
    return n.op.several or n.op.block or n.op is _STATE or n.dtype.is_vector
