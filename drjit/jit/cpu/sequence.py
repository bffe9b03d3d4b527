"""Successive small launches of a frozen function, performed by one call of native code."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from .. import flags, log, substitutes
from ..ir.node import next_serial
from ..native import division, objects
from . import kernel, runtime, variants

_OFTEN = 64  # calls from which on a record for native code pays


def can_join(step: Any) -> bool:
    """Returns whether a launch can be part of a sequence: one that runs in the calling thread and
    needs nothing besides its operands and its results."""
    k = step.kernel
    work = step.size * k.cost
    private = any(mode == "expand" for *_, mode in step.effects)
    return not (step.checks or private or k.loops or work >= division.INLINE_WORK)


class LaunchSequence:
    """Launches `steps`, each a `freeze.RecordedLaunch`, for a list of values, and enters there the
    results with the numbers `needed`."""

    def __init__(self, steps: Sequence[Any], needed: Collection[int]) -> None:
        self._steps = steps
        results = {o[0]: (o, step.size) for step in steps for o in step.outputs if o is not None}
        self._read = [*dict.fromkeys([k for step in steps for k in step.read if k not in results])]
        # The results that are needed: type and lanes.
        self._results = {
            k: (o[1], 1 if o[2] else size) for k, (o, size) in results.items() if k in needed
        }
        self._calls = 0
        self._launches: Any = None  # the record for native code

    def __call__(self, values: list) -> bool:
        """Returns whether it was possible; if not, nothing has happened."""
        if not self.is_ready() or flags.current & kernel.SLOW or runtime.unfinished:
            return False
        if log.level >= 3 or variants.pinned in variants.INTERPRETED:
            return False
        launches = self._launches
        if runtime.control() is not launches.control:
            launches.bind()
        nodes = launches.replay(*[values[k] for k in self._read])
        if nodes is False:
            return False
        for number, n in zip(self._results, nodes, strict=True):
            values[number] = n
        return True

    def statements(self, name_of: Callable[[object], str], refused: str) -> list[str]:
        """Returns a call as statements of Python that read the values `v0`, `v1`, ... and assign
        those with the numbers `needed`; `name_of` gives an object a name, and the statement
        `refused` is executed where a call would return False. The sequence must be ready."""
        f, r, g, c = map(name_of, (flags, runtime, log, variants))
        watched = f"{f}.current & {kernel.SLOW} or {r}.unfinished or {g}.level >= 3"
        s, results = name_of(self._launches), "".join([f"v{v}, " for v in self._results])
        return [
            f"if {watched} or {c}.pinned == 'numpy': {refused}",
            f"if {r}.control() is not {s}.control: {s}.bind()",
            f"made = {s}.replay({', '.join([f'v{v}' for v in self._read])})",
            f"if made is False: {refused}",
            *([f"{results}= made"] if results else []),
        ]

    def is_ready(self) -> bool:
        """Returns whether native code can perform the launches; makes the record for it once all
        kernels are compiled."""
        if self._launches is not None:
            return True
        self._calls += 1
        if self._calls < _OFTEN:
            return False
        if any(not s.kernel.address or s.size > s.kernel.inline_lanes for s in self._steps):
            return False
        substitutes.milestone -= substitutes.LAUNCH * len(self._steps)
        substitutes.look(next_serial())
        if substitutes.plans is None or len(self._results) > objects.OUTPUTS:
            return False
        self._prepare(substitutes.plans)
        return True

    def _prepare(self, programs: Any) -> None:
        """Makes the record for native code."""
        from .plans import Launches  # most processes do not need it

        launches = Launches(programs, "replay", [s.kernel for s in self._steps], objects.IS_SMALL)
        places = {k: n for n, k in enumerate(self._read)}
        for step in self._steps:
            operands = [(k, objects.IS_BUFFER) for k in step.inputs]
            operands += [value for _, value in step.literals]
            operands += [(k, objects.IS_BUFFER) for k, *_ in step.effects]
            launches.add(step.size, operands, step.results, places, self._results)
        launches.finish(made=[id(x) for row in self._results.values() for x in row])
        self._launches = launches
