"""Dependences of the results of a loop's body, as far as derivatives need them."""

from collections.abc import Sequence

from ...ad.graph import Var
from ...jit.tuples import NamedTuple
from .recorded import RecordedRegion


class Term(NamedTuple):
    """A result of an operation that is the value of the variable `start` plus something that
    depends on `others`."""

    start: Var
    others: set[Var]


class Trace:
    """The dependences of a body's results on its inputs, by position: `reach[k]` are the positions
    of inputs, and `written` the inputs on which scatters, as further results, depend. `results` are
    variables or None, `inputs` the positions of the variables that stood for the state."""

    def __init__(
        self, body: RecordedRegion, results: Sequence[Var | None], inputs: dict[Var, int]
    ) -> None:
        self.body, self.inputs = body, inputs
        self.reach: list[set[int]] = []
        self.touches: list[bool] = []
        for v in results:
            reach: set[int] = set()
            touches = False
            for d in () if v is None else body.sources([v]):
                if d in inputs:
                    reach.add(inputs[d])
                touches = touches or d.serial < body.begin
            self.reach.append(reach)
            self.touches.append(touches)
        self.written: set[int] = set()
        if body.written:
            self.written = {inputs[d] for d in body.sources(body.scatters) if d in inputs}

    def spread(self, active: set[int]) -> set[int]:
        """Returns the positions whose values depend, after any number of iterations, on those of
        `active` or on earlier variables."""
        active = active | {k for k, touches in enumerate(self.touches) if touches}
        while True:
            more = {k for k, reach in enumerate(self.reach) if reach & active} - active
            if not more:
                return active
            active |= more


def adds_to(result: Var | None, own: Var, body: RecordedRegion) -> bool:
    """Returns whether a result is `own`, an input, plus something that does not depend on it."""
    return result is own or bool(starts(result, body.reach([own]), body))


_SUMS = frozenset(("add", "sub", "fma", "select", "result"))


def is_sum(v: Var | None) -> bool:
    """Returns whether `starts` may find anything; if not, dependences need not be determined."""
    return v is not None and (v.rule is None or v.rule.name in _SUMS)


def starts(v: Var | None, inputs: int, body: RecordedRegion) -> int:
    """Returns the inputs, as a bit set, to which a value adds something that does not depend on
    them."""
    if v is None or not is_sum(v) or not (inputs := inputs & body.reach([v])):
        return 0
    if v.rule is None:
        return inputs
    match v.rule.name:
        case "add":
            a, b = v.deps
            rest = inputs & ~body.reach([b])
            return starts(a, rest, body) | starts(b, inputs & ~body.reach([a]), body)
        case "sub":
            return starts(v.deps[0], inputs & ~body.reach(v.deps[1:]), body)
        case "fma":
            return starts(v.deps[2], inputs & ~body.reach(v.deps[:2]), body)
        case "select":  # both operands must add to it: elsewhere, the sum would start again
            rest = starts(v.deps[1], inputs & ~body.reach(v.deps[:1]), body)
            return starts(v.deps[2], rest, body)
        case "result":  # of a branch, call or other custom operation
            known = getattr(v.deps[0].data.op, "term", None)  # type: ignore[union-attr]
            if known is not None and (term := known(v.data)) is not None:
                return starts(term.start, inputs & ~body.reach(term.others), body)
    return 0
