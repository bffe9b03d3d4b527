"""What the results of a loop's body depend on, as far as derivatives need it."""

from collections.abc import Sequence

from ..ad.graph import Scope, Var


class Trace:
    """How the results of a body depend on its inputs, by position: `reach[k]` are the positions of
    the inputs, `around` the variables from before on which some result depends."""

    def __init__(self, results: Sequence[Var | None], inputs: dict[Var, int], inner: Scope) -> None:
        self.first = inner.isolate_from
        self.inputs = inputs
        self.reach: list[set[int]] = []
        self.touches: list[bool] = []
        found: dict[Var, None] = {}
        for v in results:
            below = [] if v is None else _below(v, self.first)
            self.reach.append({inputs[d] for d in below if d in inputs})
            outer = [d for d in below if d.serial < self.first]
            self.touches.append(bool(outer))
            found.update(dict.fromkeys(outer))
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


def _below(v: Var, first: int) -> list[Var]:
    """The variables that one depends on, itself included, as far as they are from `first` on, and
    those from before where these begin."""
    stack, seen = [v], {v}
    for u in stack:  # which grows
        for d in u.deps if u.serial >= first else ():
            if d is not None and d not in seen:
                seen.add(d)
                stack.append(d)
    return stack


def adds_to(result: Var | None, own: Var, first: int) -> bool:
    """Whether a result is `own` plus something that does not depend on it."""
    if result is own:
        return True
    if result is None or result.serial < first or result.rule is None:
        return False
    using = [
        k
        for k, d in enumerate(result.deps)
        if d is not None and (d is own or own in _below(d, first))
    ]
    places = {"add": ([0], [1]), "sub": ([0],), "fma": ([2],), "select": ([1], [2], [1, 2])}
    if using not in places.get(result.rule.name, ()):
        return False
    if result.rule.name == "select" and len(using) == 1:
        return False  # elsewhere the sum would start again
    return all(adds_to(result.deps[k], own, first) for k in using)
