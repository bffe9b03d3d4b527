"""Divides the variables of a traversal into segments: at the boundaries between the iterations of a
loop that runs one iteration at a time, and where gradients that an observer waits for are complete.

At a boundary, a traversal evaluates the gradients that cross it, so that all iterations share their
kernels, and discards what it recomputes to differentiate an iteration. An observer can evaluate
complete gradients, and send them to other processes, while the traversal goes on.
"""

import weakref
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

from ..jit import locks
from ..jit.ir import op
from ..jit.ir.node import BUFFER, LITERAL, Node
from ..jit.ir.scope import recording
from ..jit.run import freeze, pending, schedule
from .graph import Value, Var, next_serial, recorder
from .rules import Rule, pass_through

STEP = Rule(op.copy, "", (pass_through,), "step")
"""The variable of a value beyond a boundary. Its data are two serial numbers, between which lies
the iteration that the boundary ends."""

_record = recorder(STEP)


divides = False
"""Whether traversals may have to stop on their way: at boundaries, or for observers."""
MAX_PENDING = 1000
"""Of gradients with more pending operations, it is not determined what else needs these."""


class Iterations:
    """The boundaries of a loop, created at the first one."""

    __slots__ = ("_start",)

    def __init__(self) -> None:
        global divides
        self._start = next_serial()
        divides = True

    def end(self, values: Sequence[Value]) -> list[Var | None]:
        """Ends an iteration that returned these values. Returns their variables from now on;
        variables from before the iteration do not change."""
        start, self._start = self._start, next_serial()
        data = start, self._start
        return [
            v if v is None or v.serial < start else _record(n, (n,), (v,), data) or v
            for n, v in values
        ]


observers: "weakref.WeakSet[Any]" = weakref.WeakSet()


def observe(observer: Any) -> None:
    """Tells an observer about complete gradients for as long as it exists. At the start of a
    traversal, its `variables()` returns the variables that it watches. Then `complete(found, rest)`
    says that nothing more will be added to the gradients of some of them; the variables `rest` are
    still to be visited, last one first. The last call of a traversal has no `rest`."""
    global divides
    observers.add(observer)
    divides = True


def segments(
    variables: list[Var], backward: bool, keep: bool, whole: bool = False
) -> Iterable[list[Var]]:
    """Divides variables into one segment per iteration, each in the order of serial numbers; if
    `backward`, the last segment comes first. When a segment has been visited, its gradients are
    evaluated; if the graph is to be kept (`keep`), they also end an iteration.

    A reverse traversal that is the `whole` (no other one adds to its gradients) is also divided
    where gradients are complete, unless it is recorded or keeps the graph.
    """
    if recording():
        return (variables,)
    cuts = {serial for v in variables if v.rule is STEP for serial in v.data}
    found = _divided(variables, backward, keep, sorted(cuts)) if cuts else (variables,)
    if not (whole and observers) or keep or freeze.active() is not None:
        return found
    return _observed(variables, found)


def _divided(
    variables: list[Var], backward: bool, keep: bool, cuts: list[int]
) -> Iterator[list[Var]]:
    recorded = Iterations() if keep else None
    found = _split_at(variables, cuts)
    if backward:
        while found:
            part = found.pop()
            reached = _before(part)
            yield part
            _evaluate(reached, recorded)
    else:
        for part in found:
            _evaluate(_before(part), recorded)
            yield part


def _split_at(variables: list[Var], cuts: list[int]) -> list[list[Var]]:
    from bisect import bisect  # a library of the system, which few programs need

    places = [0, *[bisect(variables, c, key=attrgetter("serial")) for c in cuts], len(variables)]
    return [variables[i:j] for i, j in pairwise(places) if i < j]


def _before(part: list[Var]) -> list[Var]:
    """Returns the earlier variables that a part depends on."""
    first = part[0].serial
    return [*{d: None for v in part for d in v.deps if d is not None and d.serial < first}]


def _evaluate(variables: list[Var], recorded: Iterations | None) -> None:
    found = [v for v in variables if v.grad is not None]
    schedule.evaluate([v.grad for v in found if v.grad is not None])
    if recorded is not None:
        ended = recorded.end([Value(v.grad, v.grad_var) for v in found if v.grad is not None])
        for v, grad_var in zip(found, ended, strict=True):
            v.grad_var = grad_var


def _observed(variables: list[Var], found: Iterable[list[Var]]) -> Iterator[list[Var]]:
    members = set(variables)
    watching = [(o, members.intersection(o.variables())) for o in list(observers)]
    watching = [(o, watched) for o, watched in watching if watched]
    every = set().union(*[watched for _, watched in watching])
    last = _last_dependents(variables, every)
    every.difference_update(*last.values())  # the rest was complete before
    left = len(variables)
    for part in found:
        end = len(part)
        for k in reversed(range(len(part))):
            inputs = last.get(part[k])
            if inputs is None:
                continue
            yield part[k:end]
            left, end = left - (end - k), k
            rest = [v for v in variables[:left] if v.rule is not None]
            for observer, watched in watching:
                with locks.released():
                    observer.complete([v for v in inputs if v in watched], rest)
        yield part[:end]
        left -= end
    for observer, watched in watching:
        with locks.released():
            observer.complete([v for v in every if v in watched], ())


def _last_dependents(variables: list[Var], watched: set[Var]) -> dict[Var, list[Var]]:
    """Returns, for each variable whose visit completes the gradients of watched ones, those watched
    ones. `variables` are in order of creation: the first dependent is visited last."""
    found: dict[Var, list[Var]] = {}
    waiting = set(watched)
    for v in variables:
        for d in v.deps if waiting else ():
            if d in waiting:
                waiting.discard(d)
                found.setdefault(v, []).append(d)
    return found


def is_separate(gradients: Iterable[Node], rest: Iterable[Var]) -> bool:
    """Returns whether evaluating gradients now computes nothing that the rest of the traversal also
    needs, and would compute again."""
    operations = _pending(gradients)
    if operations is None or (operations and pending.effects):
        return False
    if not operations:
        return True
    needed = [n for v in rest for n in (v.grad, v.result, *v.inputs) if n is not None]
    return _pending(needed, operations) is not None


def _pending(nodes: Iterable[Node], avoided: set[Node] | None = None) -> set[Node] | None:
    """Returns the operations below nodes that have not been computed, or None if there are many,
    effects among them, or some to be avoided."""
    todo = [n for n in nodes if n.op is not BUFFER and n.op is not LITERAL]
    found: set[Node] = set()
    while todo:
        n = todo.pop()
        if n in found:
            continue
        if avoided is not None and n in avoided:
            return None
        found.add(n)
        if avoided is None and (len(found) > MAX_PENDING or n.op.effect or n.op.block):
            return None
        todo += [d for d in n.deps if d.op is not BUFFER and d.op is not LITERAL]
    return found
