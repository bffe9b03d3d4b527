"""The replay of a recording as generated statements of Python, which do what `Replay` and
`reproduce` do for it without loops over its launches and its outcome. They are the second half of a
`fast_path`, which compares the inputs first.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...ad import graph
from ...array import leaf
from ...array.tree import rebuilt, set_contents
from ...jit.ir.node import literal
from ...jit.run import schedule
from ...jit.run.freeze import Recording, Replay, ValueNumber
from .result import Array, CallOutcome, GradVariable, Value


def replay_writer(replay: Replay, objects: Sequence[Any]) -> Callable | None:
    """Returns a function that writes the statements for a recording and inputs with these objects,
    or None if it cannot be replayed in this way: its launches are not one, it writes to inputs, or
    it leaves derivatives to be propagated. See `_statements`."""
    recording, launches = replay.recording, replay.at_once
    inside = any(objects[k].rule is not None for k in recording.outcome.waiting)
    if launches is None or recording.written or inside:
        return None
    return partial(_statements, launches, recording, objects)


def _statements(
    launches: Any,
    recording: Recording,
    objects: Sequence[Any],
    name_of: Callable[[object], str],
    give_up: str,
) -> list[str]:
    """Returns the statements for inputs with values `v0`, `v1`, ... and objects `o0`, `o1`, ...;
    they end with the return of a tuple with the result. `name_of` gives an object a name, and the
    statement `give_up` ends the function if nothing was launched."""
    lines = [f"v{number} = {name_of(constant)}" for number, constant in recording.constants]
    lines.append(f"with {name_of(schedule.lock)}:")
    lines += ["    " + line for line in launches.statements(name_of, give_up)]
    return [*lines, *_Outcome(recording.outcome, objects, name_of).lines]


class _Outcome:
    """Writes the statements that reproduce an outcome; see `reproduce`."""

    def __init__(
        self, outcome: CallOutcome, objects: Sequence[Any], name_of: Callable[[object], str]
    ) -> None:
        self._name_of = name_of
        self.lines = [f"o{k}._node = {self._value(of)}" for k, of, _ in outcome.arrays]
        for number, row in enumerate(outcome.created, len(objects)):
            self._make(f"o{number}", row)
        for k, keys, parts in outcome.contents:
            self._fill(f"o{k}", type(objects[k]), keys, parts)
        for k, _, variable in outcome.arrays:
            if type(objects[k])._diff:
                self.lines.append(f"o{k}._var = {self._variable(variable)}")
        for k, of in outcome.gradients:
            self.lines.append(f"o{k}.grad = {'None' if of is None else self._value(of)}")
            self.lines.append(f"o{k}.grad_var = None")
        self.lines.append(f"return {self._part(outcome.result)},")

    def _value(self, of: Value) -> str:
        if type(of) is ValueNumber:
            return f"v{of}"
        return f"{self._name_of(literal)}(*{self._name_of(of)})"

    def _variable(self, number: ValueNumber | None) -> str:
        return "None" if number is None else f"o{number}"

    def _part(self, part: Any) -> str:
        return f"o{part}" if type(part) is ValueNumber else self._name_of(part)

    def _make(self, name: str, row: Any) -> None:
        if isinstance(row, Array):
            self.lines.append(f"{name} = {self._name_of(leaf.new)}({self._name_of(row.cls)})")
            self.lines.append(f"{name}._node = {self._value(row.value)}")
            if row.cls._diff:
                self.lines.append(f"{name}._var = {self._variable(row.variable)}")
        elif isinstance(row, GradVariable):
            self.lines.append(
                f"{name} = {self._name_of(graph.new_input)}({self._value(row.value)})"
            )
            if row.gradient is not None:
                self.lines.append(f"{name}.grad = {self._value(row.gradient)}")
        else:
            parts = "".join([f"{self._part(p)}, " for p in row.parts])
            made = f"({parts})" if row.cls is tuple else f"[{parts}]"
            if row.cls is not tuple and row.cls is not list:
                new, cls, keys = map(self._name_of, (rebuilt, row.cls, row.keys))
                made = f"{new}({cls}, {keys}, {made})"
            self.lines.append(f"{name} = {made}")

    def _fill(self, name: str, cls: type, keys: Any, parts: Sequence[Any]) -> None:
        if cls is dict:
            self.lines.append(f"{name}.clear()")
            for key, part in zip(keys, parts, strict=True):
                self.lines.append(f"{name}[{self._name_of(key)}] = {self._part(part)}")
        else:
            values = "".join([f"{self._part(p)}, " for p in parts])
            set_, name_of = self._name_of(set_contents), self._name_of(keys)
            self.lines.append(f"{set_}({name}, {name_of}, [{values}])")
