"""The outcome of a frozen function's call: its result, arrays that it changed in place, and new
contents of the objects it received. All of it is described by nested tuples, from which a replay
reproduces it: `reproduce` does, or writes the statements of Python that do, which `replay_writer`
generates for one recording.

A description refers to values by their number in the recording, and to objects by number: first the
`objects` of the inputs' `InputLayout`, then those that the call has created.
"""

import enum
from collections.abc import Callable, Sequence
from operator import setitem
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ...ad import graph
from ...array import leaf, pytree
from ...array.base import ArrayBase, IncompatibleError, type_label
from ...array.tree import differs, rebuilt, set_contents
from ...jit.ir.node import LITERAL, Node, literal
from ...jit.lazy import np
from ...jit.run import schedule
from ...jit.run.freeze import Literal, Recorder, Replay, ValueNumber
from ...jit.run.freeze_size import Ratio, RecordedShape, Size, plain
from ...jit.tuples import NamedTuple
from .layout import InputLayout, fields_of, keys_and_parts, kind_of

_CONSTANTS = (
    bool, int, float, complex, str, bytes, type(None), type, enum.Enum, np.generic, np.dtype,
    range, slice, FunctionType, BuiltinFunctionType, MethodType, ModuleType,
)  # fmt: skip
_CONTAINERS = frozenset(("nested", "tensor", "sequence", "dict", "struct"))
_CHANGING = _CONTAINERS | {"object"}

Value = ValueNumber | Literal
"""A value that the recording computes or receives, or a literal."""


class Array(NamedTuple):
    """A one-dimensional array."""

    cls: Any
    value: Value
    variable: ValueNumber | None


class GradVariable(NamedTuple):
    """A derivative variable of an array with the given value."""

    value: Value
    gradient: Value | None


class Container(NamedTuple):
    """An object with keys, attribute names or a shape, and its parts: numbers of objects, and
    constants."""

    cls: Any
    keys: Any
    parts: tuple


class CallOutcome(NamedTuple):
    """Everything that a call leaves behind.

    `created` are new objects. The others are changes of numbered objects: `arrays` by value and
    variable, `gradients` of variables, `contents` of containers by keys and parts. `waiting` are
    the variables whose gradients are propagated further after the call.
    """

    result: Any
    created: tuple[Array | GradVariable | Container, ...]
    arrays: tuple[tuple[ValueNumber, Value, ValueNumber | None], ...]
    gradients: tuple[tuple[ValueNumber, Value | None], ...]
    contents: tuple[tuple[ValueNumber, Any, tuple], ...]
    waiting: tuple[ValueNumber, ...]

    def values(self) -> set[int]:
        """The numbers of the required values."""
        found: list[Any] = [value for _, value, *_ in (*self.arrays, *self.gradients)]
        for row in self.created:
            if isinstance(row, Array):
                found.append(row.value)
            elif isinstance(row, GradVariable):
                found += row
        return {v for v in found if type(v) is ValueNumber}


class Snapshot:
    """The state of the inputs before a call that is recorded, from which its outcome is determined.

    Data is represented by numbers of nodes: holding the nodes themselves would force scatters to
    copy them.
    """

    def __init__(self, layout: InputLayout, what: str) -> None:
        self._what = what
        self._objects = [*layout.objects]  # and new objects: ids of freed ones may be reused
        self._numbers = {id(o): ValueNumber(k) for k, o in enumerate(self._objects)}
        self._created: list[Any] = []
        self._detached: dict[ValueNumber, graph.Var] = {}
        held = [(k, id(o), name) for k, held in enumerate(layout.holders) for o, name in held]
        nodes = layout.nodes
        self._nodes = {
            (o, name): nodes[k] if nodes[k].op is LITERAL else ValueNumber(k) for k, o, name in held
        }
        self._leaves: list[tuple[int, Any, Any]] = []
        self._variables: list[tuple[int, graph.Var]] = []
        self._containers: list[tuple[int, Any, Any, Any]] = []
        for k, o in enumerate(layout.objects):
            kind = "variable" if isinstance(o, graph.Var) else kind_of(type(o))
            if kind == "variable":
                self._variables.append((k, o))
            elif kind == "leaf":
                self._leaves.append((k, o, o._var))  # type: ignore[union-attr]
            elif k not in layout.unopened and kind in _CHANGING and not isinstance(o, tuple):
                self._containers.append((k, o, *keys_and_parts(o, kind)))

    def nodes(self) -> list[Node]:
        """The current contents of the input arrays, and their gradients."""
        gradients = [v.grad for _, v in self._variables if v.grad is not None]
        return [a._node for _, a, _ in self._leaves] + gradients

    def outcome(self, recorder: Recorder, result: Any, waiting: list[Any]) -> CallOutcome:
        """Returns the outcome of the call, which has been evaluated.

        Raises:
            TypeError: a replay could not reproduce part of it.
        """
        self._recorder = recorder
        described = self._part(result)
        contents = []
        for k, o, keys, parts in self._containers:
            now = keys_and_parts(o, kind_of(type(o)))
            if now[0] != keys or differs(o, keys, parts):
                contents.append((ValueNumber(k), *self._changed(o, (keys, parts), now)))
        arrays = []
        for k, a, variable in self._leaves:
            if a._var is not variable or not self._is_same(a, "_node"):
                arrays.append((ValueNumber(k), self._value(a._node), self._variable(a)))
        gradients = []
        for k, v in self._variables:
            if not self._is_same(v, "grad"):
                v.grad_var = None  # which would lead into the function
                gradients.append((ValueNumber(k), None if v.grad is None else self._value(v.grad)))
        recorder.refuse_changes(self._numbers)
        for v in waiting:
            if id(v) not in self._numbers:
                raise recorder.not_an_input("adds to the gradient of", v)
        late = tuple([self._numbers[id(v)] for v in waiting])
        return CallOutcome(
            described, tuple(self._created), tuple(arrays), tuple(gradients), tuple(contents), late
        )

    def _is_same(self, holder: Any, attribute: str) -> bool:
        """Returns whether an array or variable still holds the same node."""
        n, before = getattr(holder, attribute), self._nodes.get((id(holder), attribute))
        if n is None or n.op is LITERAL:
            return n is before
        return type(before) is ValueNumber and self._recorder.slot(n) == before

    def _changed(
        self, container: Any, before: tuple[Any, Any], now: tuple[Any, Any]
    ) -> tuple[Any, tuple]:
        """Returns the new contents of a container; for objects other than arrays, lists and
        dictionaries, the changed attributes."""
        keys, parts = now
        if not isinstance(container, (ArrayBase, list, dict)):
            old = dict(zip(*before, strict=True))
            rows = zip(keys, parts, strict=True)
            changed = {n: v for n, v in rows if old.get(n, _MISSING) is not v}
            keys, parts = tuple(changed), changed.values()
        return keys, tuple(map(self._part, parts))

    def _part(self, value: Any) -> Any:
        """Returns the number of an object, or a constant."""
        known = self._numbers.get(id(value))
        if known is not None:
            return known
        if isinstance(value, (Size, Ratio, RecordedShape)):
            value = plain(value)
        cls = type(value)
        kind = kind_of(cls)
        if kind == "leaf":
            found: Any = Array(cls, self._value(value._node), self._variable(value))
        elif kind in _CONTAINERS:
            if kind == "struct":
                self._check_constructible(cls)
            keys, parts = keys_and_parts(value, kind)
            if kind == "struct":
                keys = fields_of(cls)
                parts = parts[: len(keys)]
            found = Container(cls, keys, tuple(map(self._part, parts)))
        elif isinstance(value, _CONSTANTS):
            return value
        else:
            raise TypeError(
                f"{self._what}: the recorded function returns or stores an object of type "
                f"{type_label(cls)}, which could not be made again in later calls. Results can be "
                "arrays, Python numbers and the like, and lists, tuples, dictionaries, data "
                "classes and classes with DRJIT_STRUCT of them."
            )
        return self._add(value, found)

    def _add(self, value: Any, row: Any) -> ValueNumber:
        number = self._numbers[id(value)] = ValueNumber(len(self._objects))
        self._objects.append(value)
        self._created.append(row)
        return number

    def _check_constructible(self, cls: type) -> None:
        if pytree.is_data_class(cls):
            return
        try:
            cls()
        except TypeError as error:
            raise IncompatibleError(
                f"{self._what}: the recorded function returns or stores a new {type_label(cls)}. "
                f"To make one in later calls, it must be constructible without arguments ({error})"
            ) from None

    def _value(self, n: Node) -> Value:
        return Literal(n.dtype, n.data, n.size) if n.op is LITERAL else self._recorder.slot(n)

    def _variable(self, a: Any) -> ValueNumber | None:
        """Returns the number of an array's variable, which may be new."""
        v = a._var
        if v is None:
            return None
        number = self._numbers.get(id(v))
        if number is None:
            row = GradVariable(
                self._value(a._node), None if v.grad is None else self._value(v.grad)
            )
            number = self._add(v, row)
            if v.rule is not None:
                # Derivatives are not propagated through the function, whether replayed or not.
                made = self._detached[number] = graph.new_input(a._node)
                made.grad = v.grad
        a._var = self._detached.get(number, v)
        return number


_MISSING = object()


class _Actions:
    """Carries out each step of `reproduce` at once."""

    constant = staticmethod(lambda value: value)
    sequence = staticmethod(lambda cls, parts: cls(parts))
    assign, put = staticmethod(setattr), staticmethod(setitem)
    call = staticmethod(lambda function, *arguments: function(*arguments))


class _Statements:
    """Writes each step of `reproduce` as a statement of Python instead; objects and values are
    names. `constant` gives an object one."""

    def __init__(self, constant: Callable[[object], str]) -> None:
        self.constant = constant
        self.lines: list[str] = []

    def _named(self, expression: str) -> str:
        name = f"m{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        return name

    def sequence(self, cls: type, parts: Sequence[str]) -> str:
        listed = "".join([f"{part}, " for part in parts])
        return self._named(f"({listed})" if cls is tuple else f"[{listed}]")

    def assign(self, owner: str, attribute: str, value: str) -> None:
        self.lines.append(f"{owner}.{attribute} = {value}")

    def put(self, container: str, key: str, value: str) -> None:
        self.lines.append(f"{container}[{key}] = {value}")

    def call(self, function: Callable, *arguments: str) -> str:
        return self._named(f"{self.constant(function)}({', '.join(arguments)})")


def reproduce(
    outcome: CallOutcome, inputs: Sequence[Any], objects: list[Any], values: Sequence[Any],
    steps: Any = _Actions,
) -> Any:  # fmt: skip
    """Changes inputs as a recorded call did, and returns its result, given the values of a replay.
    `objects` are the inputs, or their names if `steps` writes statements; new objects are
    appended."""
    constant, call, assign = steps.constant, steps.call, steps.assign

    def value(of: Value | None) -> Any:
        if of is None or type(of) is ValueNumber:
            return constant(None) if of is None else values[of]
        return call(literal, *map(constant, of))  # type: ignore[arg-type]

    def part(p: Any) -> Any:
        return objects[p] if type(p) is ValueNumber else constant(p)

    for k, of, _ in outcome.arrays:
        assign(objects[k], "_node", value(of))
    for row in outcome.created:
        if isinstance(row, Array):
            made = call(leaf.new, constant(row.cls))
            assign(made, "_node", value(row.value))
            if row.cls._diff:
                assign(made, "_var", part(row.variable))
        elif isinstance(row, GradVariable):
            made = call(graph.new_input, value(row.value))
            if row.gradient is not None:
                assign(made, "grad", value(row.gradient))
        else:
            made = steps.sequence(tuple if row.cls is tuple else list, [*map(part, row.parts)])
            if row.cls is not tuple and row.cls is not list:
                made = call(rebuilt, constant(row.cls), constant(row.keys), made)
        objects.append(made)
    for k, keys, parts in outcome.contents:
        if type(inputs[k]) is dict:  # without a call of a Python function
            call(dict.clear, objects[k])
            for key, p in zip(keys, parts, strict=True):
                steps.put(objects[k], constant(key), part(p))
        else:
            now = steps.sequence(list, [*map(part, parts)])
            call(set_contents, objects[k], constant(keys), now)
    for k, _, variable in outcome.arrays:
        if type(inputs[k])._diff:
            assign(objects[k], "_var", part(variable))
    for k, of in outcome.gradients:
        assign(objects[k], "grad", value(of))
        assign(objects[k], "grad_var", constant(None))
    return part(outcome.result)


def replay_writer(replay: Replay, objects: Sequence[Any]) -> Callable | None:
    """Returns a function that writes the statements for a recording and inputs with these objects,
    or None if it cannot be replayed in this way: its launches are not one, it writes to inputs, or
    it leaves derivatives to be propagated."""
    recording, launches = replay.recording, replay.at_once
    inside = any(objects[k].rule is not None for k in recording.outcome.waiting)
    if launches is None or recording.written or inside:
        return None

    def statements(name_of: Callable[[object], str], give_up: str) -> list[str]:
        """Returns the statements for inputs with values `v0`, `v1`, ... and objects `o0`, `o1`,
        ...; they end with the return of a tuple with the result. `name_of` gives an object a name,
        and the statement `give_up` ends the function if nothing was launched."""
        lines = [f"v{number} = {name_of(constant)}" for number, constant in recording.constants]
        lines.append(f"with {name_of(schedule.lock)}:")
        lines += ["    " + line for line in launches.statements(name_of, give_up)]
        steps = _Statements(name_of)
        names = [f"o{k}" for k in range(len(objects))]
        values = [f"v{k}" for k in range(recording.count)]
        result = reproduce(recording.outcome, objects, names, values, steps)
        return [*lines, *steps.lines, f"return {result},"]

    return statements
