"""Reverse traversals that say when the gradients of certain variables are complete, while they go
on: an observer can then evaluate these gradients, and send them to other processes.
"""

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from ..jit import locks
from ..jit.ir.node import BUFFER, LITERAL, Node
from ..jit.ir.scope import recording
from ..jit.run import freeze, pending
from . import steps
from .graph import Var

FEW = 1000  # of a gradient with more pending operations, it is not found out what else needs them


observers: "weakref.WeakSet[Any]" = weakref.WeakSet()


def observe(observer: Any) -> None:
    """Has an observer told about gradients as long as it exists. At the start of a traversal, its
    `variables()` returns the variables that it watches. Then `complete(found, rest)` says that
    nothing more is added to the gradients of some of them; the variables `rest` are still to be
    visited, last one first. The last call of a traversal has no `rest`."""
    observers.add(observer)
    steps.divides = True


def segments(variables: list[Var], keep: bool, whole: bool) -> Iterable[list[Var]]:
    """Divides the variables of a reverse traversal as `steps.segments` does, and also where
    gradients are complete. Traversals that are recorded, keep their graph, or are not the `whole`
    (others complete the gradients) are not observed."""
    found = steps.segments(variables, True, keep)
    if not (whole and observers) or keep or recording() or freeze.active() is not None:
        return found
    return _observed(variables, found)


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
                with locks.given_up():
                    observer.complete([v for v in inputs if v in watched], rest)
        yield part[:end]
        left -= end
    for observer, watched in watching:
        with locks.given_up():
            observer.complete([v for v in every if v in watched], ())


def _last_dependents(variables: list[Var], watched: set[Var]) -> dict[Var, list[Var]]:
    """Returns the variables to which the gradients of watched ones are complete once they have been
    visited. They are given in order of creation: the first dependent is visited last."""
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
        if avoided is None and (len(found) > FEW or n.op.effect or n.op.block):
            return None
        todo += [d for d in n.deps if d.op is not BUFFER and d.op is not LITERAL]
    return found
