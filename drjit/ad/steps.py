"""Boundaries between the iterations of a loop that runs one iteration at a time. A traversal
evaluates the gradients that cross a boundary, so that all iterations share their kernels, and
discards what it recomputes to differentiate an iteration at its end.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from ..jit.ir import op
from ..jit.ir.scope import recording
from ..jit.run import schedule
from .graph import Value, Var, next_serial, recorder
from .rules import Rule, same

STEP = Rule(op.copy, "", (same,), "step")
"""The variable of a value beyond a boundary. Its data are two serial numbers, between which lies
the iteration that the boundary ends."""

_record = recorder(STEP)
_serial = attrgetter("serial")


divides = False
"""Whether traversals may have to stop on their way: for boundaries, or observers (`completion`)."""


class Steps:
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


def segments(variables: list[Var], backward: bool, keep: bool) -> Iterable[list[Var]]:
    """Divides variables into one segment per iteration, each in the order of serial numbers; if
    `backward`, the last segment comes first. When a segment has been visited, its gradients are
    evaluated; if the graph is to be kept (`keep`), they also end an iteration.
    """
    if recording():
        return (variables,)
    cuts = {serial for v in variables if v.rule is STEP for serial in v.data}
    return _divided(variables, backward, keep, sorted(cuts)) if cuts else (variables,)


def _divided(
    variables: list[Var], backward: bool, keep: bool, cuts: list[int]
) -> Iterator[list[Var]]:
    recorded = Steps() if keep else None
    found = _cut(variables, cuts)
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


def _cut(variables: list[Var], cuts: list[int]) -> list[list[Var]]:
    from bisect import bisect  # a library of the system, which few programs need

    places = [0, *[bisect(variables, c, key=_serial) for c in cuts], len(variables)]
    return [variables[i:j] for i, j in pairwise(places) if i < j]


def _before(part: list[Var]) -> list[Var]:
    """Returns the earlier variables that a part depends on."""
    first = part[0].serial
    return [*{d: None for v in part for d in v.deps if d is not None and d.serial < first}]


def _evaluate(variables: list[Var], recorded: Steps | None) -> None:
    found = [v for v in variables if v.grad is not None]
    schedule.evaluate([v.grad for v in found if v.grad is not None])
    if recorded is not None:
        ended = recorded.end([Value(v.grad, v.grad_var) for v in found if v.grad is not None])
        for v, grad_var in zip(found, ended, strict=True):
            v.grad_var = grad_var
