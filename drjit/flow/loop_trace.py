"""What the results of a loop's body depend on, as far as derivatives need it."""

from collections.abc import Sequence
from typing import NamedTuple

from ..ad.graph import Scope, Var


class Term(NamedTuple):
    """What a result of an operation is if it is the value of the variable `start` plus something
    that depends on `others`."""

    start: Var
    others: set[Var]


class Trace:
    """How the results of a body depend on its inputs, by position: `reach[k]` are the positions of
    the inputs, `around` the variables from before on which some result depends. `written` are the
    positions on which `scatters`, further results, depend."""

    def __init__(
        self,
        results: Sequence[Var | None],
        scatters: Sequence[Var],
        inputs: dict[Var, int],
        inner: Scope,
    ) -> None:
        self.first = inner.isolate_from
        self.inputs = inputs
        self.reach: list[set[int]] = []
        self.touches: list[bool] = []
        found: dict[Var, None] = {}
        for v in results:
            found_below = [] if v is None else below(v, self.first)
            self.reach.append({inputs[d] for d in found_below if d in inputs})
            outer = [d for d in found_below if d.serial < self.first]
            self.touches.append(bool(outer))
            found.update(dict.fromkeys(outer))
        written = [d for v in scatters for d in below(v, self.first)]
        self.written = {inputs[d] for d in written if d in inputs}
        found.update(dict.fromkeys([d for d in written if d.serial < self.first]))
        self.around = sorted(found, key=lambda v: v.serial)

    def spread(self, active: set[int]) -> set[int]:
        """The positions whose values come to depend on those of `active`, or on variables from
        before, in some iteration."""
        active = active | {k for k, touches in enumerate(self.touches) if touches}
        while True:
            more = {k for k, reach in enumerate(self.reach) if reach & active} - active
            if not more:
                return active
            active |= more


def below(v: Var, first: int) -> list[Var]:
    """The variables that one depends on, itself included, as far as they are from `first` on, and
    those from before where these begin."""
    stack, seen = [v], {v}
    for u in stack:  # which grows
        for d in u.deps if u.serial >= first else ():
            if d is not None and d not in seen:
                seen.add(d)
                stack.append(d)
    return stack


SUMS = {"add": ([0], [1]), "sub": ([0],), "fma": ([2],), "select": ([1], [2], [1, 2])}
"""The operands to which operations add something."""


def adds_to(result: Var | None, own: Var, first: int) -> bool:
    """Whether a result is `own` plus something that does not depend on it."""
    if result is None:
        return False
    using = {own}
    for v in sorted(below(result, first), key=lambda v: v.serial):
        if not using.isdisjoint(v.deps):
            using.add(v)
    return _adds_to(result, own, first, using)


def _adds_to(result: Var, own: Var, first: int, using: set[Var]) -> bool:
    """The same, where `using` are the variables that depend on `own`."""
    if result is own:
        return True
    if result not in using or result.serial < first or result.rule is None:
        return False
    if result.rule.name == "result":  # of a branch, call or other custom operation
        term = getattr(result.deps[0].data.op, "terms", {}).get(result.data)
        if term is None or not using.isdisjoint(term.others):
            return False
        return _adds_to(term.start, own, first, using)
    operands = [k for k, d in enumerate(result.deps) if d in using]
    if operands not in SUMS.get(result.rule.name, ()):
        return False
    if result.rule.name == "select" and len(operands) == 1:
        return False  # elsewhere the sum would start again
    return all(_adds_to(result.deps[k], own, first, using) for k in operands)
