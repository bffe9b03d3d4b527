"""What the results of a loop's body depend on, as far as derivatives need it."""

from collections.abc import Sequence
from typing import NamedTuple

from ..ad.graph import Var
from .recorded import Body


class Term(NamedTuple):
    """What a result of an operation is if it is the value of the variable `start` plus something
    that depends on `others`."""

    start: Var
    others: set[Var]


class Trace:
    """How the results of a body depend on its inputs, by position: `reach[k]` are the positions of
    the inputs, `written` those on which scatters, further results, depend. `results` are variables
    or None, `inputs` the positions of the variables that stood for the state."""

    def __init__(self, body: Body, results: Sequence[Var | None], inputs: dict[Var, int]) -> None:
        self.body, self.inputs = body, inputs
        self.reach: list[set[int]] = []
        self.touches: list[bool] = []
        for v in results:
            sources = body.sources([v])
            self.reach.append({inputs[d] for d in sources if d in inputs})
            self.touches.append(any(d.serial < body.begin for d in sources))
        self.written = {inputs[d] for d in body.sources(body.scatters) if d in inputs}

    def spread(self, active: set[int]) -> set[int]:
        """The positions whose values come to depend on those of `active`, or on variables from
        before, in some iteration."""
        active = active | {k for k, touches in enumerate(self.touches) if touches}
        while True:
            more = {k for k, reach in enumerate(self.reach) if reach & active} - active
            if not more:
                return active
            active |= more


SUMS = {"add": ([0], [1]), "sub": ([0],), "fma": ([2],), "select": ([1], [2], [1, 2])}
"""The operands to which operations add something."""


def may_add(v: Var) -> bool:
    """Whether the operation that a variable comes from may add something to one of its operands."""
    return v.rule is not None and (v.rule.name in SUMS or v.rule.name == "result")


def adds_to(result: Var | None, own: Var, body: Body) -> bool:
    """Whether a result is `own` plus something that does not depend on it."""
    if result is own:
        return True
    if result is None or result.rule is None or not body.depends(result, own):
        return False
    if result.rule.name == "result":  # of a branch, call or other custom operation
        term = getattr(result.deps[0].data.op, "terms", {}).get(result.data)
        if term is None or any(body.depends(v, own) for v in term.others):
            return False
        return adds_to(term.start, own, body)
    operands = [k for k, d in enumerate(result.deps) if d is not None and body.depends(d, own)]
    if operands not in SUMS.get(result.rule.name, ()):
        return False
    if result.rule.name == "select" and len(operands) == 1:
        return False  # elsewhere the sum would start again
    return all(adds_to(result.deps[k], own, body) for k in operands)
