"""Boundaries between the iterations of a loop that is carried out step by step. A traversal
evaluates the gradients that cross one, so that all iterations share their kernels, and what is
computed again to differentiate an iteration is forgotten with it.
"""

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter

from ..jit.ir import op
from ..jit.ir.scope import recording
from ..jit.run import schedule
from .graph import Value, Var, next_serial, recorder
from .rules import Rule, same

STEP = Rule(op.copy, "", (same,), "step")
"""The variable that a value has beyond a boundary. Its data are two serial numbers: what comes
between them is the iteration that the boundary ends."""

_record = recorder(STEP)
_serial = attrgetter("serial")


class Steps:
    """The boundaries of a loop, the first of which is here."""

    __slots__ = ("_start",)

    def __init__(self) -> None:
        self._start = next_serial()

    def end(self, values: Sequence[Value]) -> list[Var | None]:
        """Ends an iteration that gave these values. Gives the variables that they have from now
        on: those from before the iteration keep theirs."""
        start, self._start = self._start, next_serial()
        data = start, self._start
        return [
            v if v is None or v.serial < start else _record(n, (n,), (v,), data) or v
            for n, v in values
        ]


def parts(variables: list[Var], backward: bool, keep: bool) -> Iterator[list[Var]]:
    """Variables in the order of a traversal: by serial number, or `backward` in parts, each in that
    order, of which the last comes first. There is a part for each iteration; when one is done, its
    gradients are evaluated, and end an iteration themselves if the graph is to `keep` them.
    """
    steps = [] if recording() else [v for v in variables if v.rule is STEP]
    cuts = {serial for v in steps for serial in v.data}
    if not cuts:
        yield variables
        return
    recorded = Steps() if keep else None
    found = _cut(variables, sorted(cuts))
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
    places = [0, *[bisect(variables, c, key=_serial) for c in cuts], len(variables)]
    return [variables[i:j] for i, j in pairwise(places) if i < j]


def _before(part: list[Var]) -> list[Var]:
    """The variables from before a part that it depends on."""
    first = part[0].serial
    return [*{d: None for v in part for d in v.deps if d is not None and d.serial < first}]


def _evaluate(variables: list[Var], recorded: Steps | None) -> None:
    found = [v for v in variables if v.grad is not None]
    schedule.evaluate([v.grad for v in found if v.grad is not None])
    if recorded is not None:
        ended = recorded.end([Value(v.grad, v.grad_var) for v in found if v.grad is not None])
        for v, grad_var in zip(found, ended, strict=True):
            v.grad_var = grad_var
