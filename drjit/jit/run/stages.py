"""Stages of an evaluation: what must be finished before other values can be computed.

A value waits for the result of a reduction, for the source of a gather if that is not yet a buffer,
and for the side effects that must precede it. Most programs have a single stage: only nodes that
could wait, or be waited for, are noted during collection and examined here. Programs that are too
long for one kernel are also cut here.
"""

from bisect import bisect_left
from operator import attrgetter

from ..ir import op
from ..ir.effects import count_effects
from ..ir.node import AFTER, BUFFER, Node
from ..ir.scope import WRITTEN, innermost
from ..text import structure

LONGEST = 1 << 16  # nodes in a kernel: bounds the memory that compiling takes
# Accesses with a check of bounds in a kernel. Each has branches of its own, among which LLVM
# allocates registers in a time that is linear up to about a thousand reads, or 256 writes, each
# with its check: 1.3 and 2.7 ms for each of them, but three times that for four times as many.
MOST_CHECKS = 1 << 10
_EFFECT = 3  # what a side effect is worth in checks
SHORT = MOST_CHECKS // 4  # no program of so few nodes is too long

_serial = attrgetter("serial")
_REDUCE, _RESULT, _STATE = op.reduce, op.result, op.state


def find(
    roots: list[Node], leaves: list[Node], nodes: list[Node], waits: list[Node]
) -> list[list[Node]]:
    """Returns roots, and the values for which later ones wait, by stage, given nodes that may wait
    for each other.

    Raises:
        RuntimeError: a value depends on a side effect of an open recording.
    """
    given = set(roots)
    for n in nodes:
        if n.op is AFTER and n.deps[0] not in given:
            raise RuntimeError(WRITTEN)
    start = min(map(_serial, waits))
    later = sorted([n for n in nodes if n.serial >= start], key=_serial)
    if len(later) == 1 and waits[0].op is _REDUCE:  # nothing waits for it
        return [roots]
    for n in leaves:
        n.id = 0
    for n in nodes:
        n.id = 0
    late: set[Node] = set()
    single = {n for n in waits if n.op is _RESULT}
    stages: dict[int, list[Node]] = {}
    _follow(later, stages, late, single, _once(single, later))
    for n in roots:
        stages.setdefault(n.id - (n in late), []).append(n)
    return [list(dict.fromkeys(stages[k])) for k in sorted(stages)]


def _follow(
    nodes: list[Node], stages: dict[int, list[Node]], late: set[Node], single: set[Node],
    once: set[Node],
) -> None:  # fmt: skip
    """Sets the `id` of nodes to the stage in which others can use them, and adds to the stages what
    must be finished in each. Values of the nodes in `late` become available one stage after they
    are computed; `single` and `once` are results of one-lane loops and branches (see `_once`)."""
    for n in nodes:
        o = n.op
        own = 0
        if not o.waits and not single:
            for d in n.deps:
                at = d.id
                if at:
                    if d.op is _REDUCE:
                        stages.setdefault(at - 1, []).append(d)
                    if at > own:
                        own = at
            n.id = own
            continue
        sources = n.deps[o.reads] if o.reads else ()
        for d in n.deps:
            at = d.id
            made_by = d.op
            if made_by is _REDUCE:
                stages.setdefault(at - 1, []).append(d)
            elif made_by is BUFFER or made_by is AFTER:
                pass
            elif d in sources:
                at -= d in late
                stages.setdefault(at, []).append(d)
                at += 1
            elif made_by is _RESULT and (d in once or (d.size < n.size and d in single)):
                if not d.dtype.is_vector:
                    stages.setdefault(at, []).append(d)
                    at += 1
                elif d in once:  # local memory exists within a kernel only
                    raise RuntimeError(
                        "a loop or branch of one lane that writes to arrays has filled local "
                        "memory, which more lanes read: give the condition as many entries"
                    )
            if at > own:
                own = at
        if o.effect:
            own = max(own, *[_stage_after(before, n) for before in n.data.order], 0)
        elif o is AFTER:
            own += 1
        elif o is _REDUCE or (o is op.component and _is_old_value(n)):
            late.add(n)
            own += 1
        n.id = own


def waits(n: Node) -> bool:
    """Returns whether a noted node may have to wait for others, or others for it."""
    o = n.op
    if o is _REDUCE or o is AFTER or o.reads:  # one that reads buffers only is not noted
        return True
    if o is _RESULT:  # a loop or branch with one lane that is not part of another one runs once
        return n.size == 1 and n.deps[0].data.depth == 1
    if o is op.component:
        return _is_old_value(n)
    # A loop rather than `any`, which would start a generator for each node.
    for before in n.data.order if o.effect else ():  # noqa: SIM110
        if before.op is not BUFFER:
            return True
    return False


def _is_old_value(n: Node) -> bool:
    """Returns whether a component is the old value of a one-lane atomic operation."""
    return n.size == 1 and n.deps[0].op.effect


def _stage_after(before: Node, n: Node) -> int:
    """Returns the first stage in which an effect that follows another one can take place."""
    if before.op is not BUFFER and not hasattr(before, "id"):
        raise symbolic()  # it belongs to an open recording
    if before.op.block:
        return before.id + 1
    if not before.op.effect:
        return 0
    same = before.op.accumulates and n.op.accumulates
    commute = same and before.data.static == n.data.static
    # Without atomics, lanes of two updates on different threads would collide.
    commute = commute and n.data.mode != "no_conflicts"
    commute = commute or before.data.mode == n.data.mode == "disjoint"
    return before.id + (not commute)


def _once(results: set[Node], nodes: list[Node]) -> set[Node]:
    """Returns those results of one-lane loops and branches with side effects that are used by more
    lanes."""
    found = set()
    for result in results:
        if count_effects(result.deps[0]):
            users = {result}
            for n in nodes:
                if not users.isdisjoint(n.deps):
                    users.add(n)
                    if n.size > 1:
                        found.add(result)
                        break
    return found


def symbolic(name: str = "x") -> RuntimeError:
    """Returns the error to raise if a value of an open recording is evaluated, which has a `name`
    in the program."""
    scope = innermost()
    what = "is being recorded" if scope is not None else "has been recorded"
    return RuntimeError(
        f"a value of a symbolic loop, branch or call that {what} was to be evaluated. Inside of "
        "such a body values are known only when the whole kernel runs: dr.eval, print, and "
        "conversion to Python or NumPy do not work there. To print, use "
        f"dr.print({name}); for all else, use mode='evaluated', or return the "
        "value as part of the state."
    )


# ---- Programs that are too long for one kernel


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
    # A program that is many times too long is halved, as both parts are collected again.
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


def with_companions(
    roots: list[Node], graph: structure.ProgramGraph
) -> tuple[list[Node], structure.ProgramGraph]:
    """Returns the roots with other needed results of the loops below them, and everything below."""
    more = _companions([n for n in graph.blocks if n.op is op.loop], graph.mark)
    return (roots + more, structure.ProgramGraph(roots + more)) if more else (roots, graph)


def _companions(loops: list[Node], mark: object) -> list[Node]:
    """Returns other live results of loops, which would otherwise run again for each of them:
    results from which no other node of this evaluation (all have the `mark`) is computed, and sums
    of these over all lanes."""
    outermost = [n for n in loops if n.data.depth == 1]
    alive = [v for n in outermost for value in n.data.values if (v := value()) is not None]
    alive = [v for v in alive if v.mark is not mark and v.op is not BUFFER]
    alive = [v for v in alive if not v.dtype.is_vector]  # vectors exist within a kernel only
    summed = {v.deps[0] for v in alive if v.op is _REDUCE}
    return [v for v in alive if v not in summed]
