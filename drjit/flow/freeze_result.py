"""What a call of a frozen function leaves behind: its result, arrays that it changed in place, and
new contents of the objects it was given. All of it is described by nested tuples, from which a
replay makes it again.

A description refers to values by their number in the recording, and to objects among the inputs by
their place in the `Layout`.
"""

import dataclasses
import enum
from collections.abc import Callable
from operator import index
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..ad import graph
from ..array import leaf
from ..array.base import ArrayBase, IncompatibleError, type_label
from ..array.pytree import field_names, make_struct
from ..array.tensor import wrap as wrap_tensor
from ..jit.dtype import DType
from ..jit.freeze import Recorder, Slot
from ..jit.freeze_size import Ratio, Shape, Size
from ..jit.node import LITERAL, Node, literal
from .freeze_layout import Layout, contents, fields, places

_CONSTANTS = (
    bool, int, float, complex, str, bytes, type(None), type, enum.Enum, np.generic, np.dtype,
    range, slice, FunctionType, BuiltinFunctionType, MethodType, ModuleType,
)  # fmt: skip


class Value(NamedTuple):
    """A value that the recording computes or is given."""

    slot: Slot


class Constant(NamedTuple):
    """A literal."""

    dtype: DType
    value: Any
    size: int


class Outcome(NamedTuple):
    """All that a call leaves behind.

    `arrays` are the changed ones of `Layout.leaves`: number, value and variable; `gradients` those
    of `Layout.variables`; `contents` changes of `Layout.containers`: number, where, and what is
    there. `new` are gradients of new variables. `waiting` numbers the variables whose gradients
    are propagated further after the call.
    """

    result: Any
    arrays: tuple
    gradients: tuple
    contents: tuple
    new: tuple
    waiting: tuple

    def values(self) -> set[int]:
        """The numbers of the values that are needed."""
        found: set[int] = set()
        pending: list[Any] = [self]
        for d in pending:  # which grows
            if type(d) is Value:
                found.add(d.slot)
            elif isinstance(d, tuple):
                pending += d
        return found


class Before:
    """What the inputs of a recorded call were like before it."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.variables = [getattr(a, "_a", None) for a in layout.leaves]
        self.literals = [a._n if a._n.op is LITERAL else None for a in layout.leaves]
        self.contents = [contents(c) for c in layout.containers]
        self.places = [places(c) for c in layout.containers]
        self.gradients = [v.grad if v.grad is None or v.grad.op is LITERAL else False
                          for v in layout.variables]  # fmt: skip
        # Buffers are told apart by their numbers: to hold nodes would make scatters copy them.
        self.slots = _places_of(layout, "_n", layout.leaves)
        self.gradient_slots = _places_of(layout, "grad", layout.variables)

    def nodes(self) -> list[Node]:
        """What the arrays that were given hold now, and their gradients."""
        gradients = [v.grad for v in self.layout.variables if v.grad is not None]
        return [a._n for a in self.layout.leaves] + gradients


def _places_of(layout: Layout, attribute: str, objects: list[Any]) -> list[int | None]:
    """The numbers of the values that objects hold."""
    number = {
        id(o): k for k, held in enumerate(layout.holders) for o, name in held if name == attribute
    }
    return [number.get(id(o)) for o in objects]


class Describer:
    """Describes what a recorded call left behind, when it has been evaluated."""

    def __init__(self, recorder: Recorder, before: Before, what: str) -> None:
        layout = before.layout
        self._recorder, self._before, self._what = recorder, before, what
        self._leaves = {id(a): k for k, a in enumerate(layout.leaves)}
        self._containers = {id(c): k for k, c in enumerate(layout.containers)}
        self._others = {id(o): k for k, o in enumerate(layout.others)}
        self._variables = {id(v): k for k, v in enumerate(layout.variables)}
        self._made: dict[int, int] = {}
        self._kept: list[Any] = []  # as ids of what is gone may come back
        self._new: dict[int, tuple[int, Any]] = {}
        self._gradients: list[Any] = []

    def outcome(self, result: Any, waiting: list[Any]) -> Outcome:
        """The description of everything."""
        before, layout = self._before, self._before.layout
        described = self.describe(result)
        changes = []
        for k, c in enumerate(layout.containers):
            now = contents(c)
            if places(c) != before.places[k] or any(
                a is not b for a, b in zip(now, before.contents[k], strict=True)
            ):
                changes.append((Slot(k), *self._contents(c, now, k)))
        arrays = []
        for k, a in enumerate(layout.leaves):
            variable = getattr(a, "_a", None)
            n = a._n
            same = n is before.literals[k] if n.op is LITERAL else self._is(n, before.slots[k])
            if not same or variable is not before.variables[k]:
                arrays.append((Slot(k), self._value(n), self._variable(a)))
        gradients = []
        for k, v in enumerate(layout.variables):
            old, n = before.gradients[k], v.grad
            if n is None or n.op is LITERAL:
                same = n is old
            else:
                same = old is False and self._is(n, before.gradient_slots[k])
            if not same:
                v.grad_var = None  # which would lead into the function
                gradients.append((Slot(k), None if n is None else self._value(n)))
        late = tuple([Slot(self._variables[id(v)]) for v in waiting if id(v) in self._variables])
        return Outcome(
            described, tuple(arrays), tuple(gradients), tuple(changes), tuple(self._gradients), late
        )

    def _is(self, n: Node, slot: int | None) -> bool:
        return slot is not None and self._recorder.slot(n) == slot

    def _contents(self, container: Any, now: list[Any], k: int) -> tuple[Any, tuple]:
        """Where there is something new in a container, and what."""
        where = places(container)
        if not isinstance(container, (ArrayBase, list, dict)):
            old = dict(zip(self._before.places[k], self._before.contents[k], strict=True))
            changed = {
                n: v for n, v in zip(where, now, strict=True) if old.get(n, _MISSING) is not v
            }
            where, now = tuple(changed), list(changed.values())
        return where, tuple([self.describe(v) for v in now])

    def describe(self, value: Any) -> Any:
        """The description of a tree.

        Raises:
            TypeError: a replay could not make something in it.
        """
        key, cls = id(value), type(value)
        for kind, known in (
            ("leaf", self._leaves), ("container", self._containers), ("other", self._others),
            ("made", self._made),
        ):  # fmt: skip
            if key in known and not isinstance(value, (str, int, float, type(None))):
                return (kind, Slot(known[key]))
        if isinstance(value, ArrayBase):
            if cls._kind == "leaf" and cls._namespace != "scalar":
                found = ("array", cls, self._value(value._n), self._variable(value))
            elif cls._kind == "tensor":
                found = ("tensor", cls, self.describe(value._array), value._shape)
            else:
                found = ("nested", cls, tuple([self.describe(c) for c in value._c]))
        elif isinstance(value, (list, tuple)):
            kind = tuple if cls is Shape else cls
            found = ("sequence", kind, tuple([self.describe(v) for v in value]))
        elif isinstance(value, dict):
            items = tuple([self.describe(v) for v in value.values()])
            found = ("dictionary", cls, tuple(value), items)
        elif fields(cls) is not None and not isinstance(value, type):
            self._check_constructible(cls)
            found = ("structure", cls, tuple([self.describe(v) for v in contents(value)]))
        elif isinstance(value, (Size, Ratio)):
            return ("constant", index(value) if isinstance(value, Size) else float.__pos__(value))
        elif isinstance(value, _CONSTANTS):
            return ("constant", value)
        else:
            raise TypeError(
                f"{self._what}: the recorded function returns or stores an object of type "
                f"{type_label(cls)}, which could not be made again in later calls. Results can be "
                "arrays, Python numbers and the like, and lists, tuples, dictionaries, data "
                "classes and classes with DRJIT_STRUCT of them."
            )
        self._made[key] = len(self._made)
        self._kept.append(value)
        return found

    def _check_constructible(self, cls: type) -> None:
        if dataclasses.is_dataclass(cls):
            return
        try:
            cls()
        except TypeError as error:
            raise IncompatibleError(
                f"{self._what}: the recorded function returns or stores a new {type_label(cls)}. "
                f"To make one in later calls, it must be constructible without arguments ({error})"
            ) from None

    def _value(self, n: Node) -> Value | Constant:
        if n.op is LITERAL:
            return Constant(n.dtype, n.data, n.size)
        return Value(self._recorder.slot(n))

    def _variable(self, a: Any) -> Any:
        """How an array takes part in differentiation: not, as an input does, or anew."""
        v = getattr(a, "_a", None)
        if v is None:
            return None
        known = self._variables.get(id(v))
        if known is not None:
            return ("given", Slot(known))
        if id(v) not in self._new:
            made = v
            if v.rule is not None:
                # Derivatives are not propagated through the function, whether replayed or not.
                made = graph.new_input(a._n)
                made.grad = v.grad
            self._new[id(v)] = len(self._gradients), made
            self._kept.append(v)
            self._gradients.append(None if v.grad is None else self._value(v.grad))
        number, a._a = self._new[id(v)]
        return ("new", Slot(number))


_MISSING = object()


class Maker:
    """Makes what an outcome describes, for the values and the inputs of a replayed call."""

    __slots__ = ("_layout", "_made", "_new", "_outcome", "_values")

    def __init__(self, outcome: Outcome, layout: Layout, values: list[Any]) -> None:
        self._outcome, self._layout, self._values = outcome, layout, values
        self._made: list[Any] = []
        self._new: dict[int, Any] = {}

    def run(self) -> Any:
        """Changes the inputs and gives the result."""
        outcome, layout = self._outcome, self._layout
        # In the order in which things were described, as they refer to each other by it.
        result = self.make(outcome.result)
        changes = [
            (layout.containers[k], where, [self.make(d) for d in items])
            for k, where, items in outcome.contents
        ]
        arrays = [
            (layout.leaves[k], self._value(d), self._variable(v, d)) for k, d, v in outcome.arrays
        ]
        for container, where, items in changes:
            _fill(container, where, items)
        for a, n, v in arrays:
            a._n = n
            if a._diff:
                a._a = v
        for k, d in outcome.gradients:
            v = layout.variables[k]
            v.grad, v.grad_var = None if d is None else self._value(d), None
        return result

    def _value(self, d: Value | Constant) -> Node:
        return self._values[d.slot] if isinstance(d, Value) else literal(*d)

    def _variable(self, d: Any, of: Value | Constant) -> Any:
        if d is None:
            return None
        kind, number = d
        if kind == "given":
            return self._layout.variables[number]
        v = self._new.get(number)
        if v is None:
            v = self._new[number] = graph.new_input(self._value(of))
            gradient = self._outcome.new[number]
            if gradient is not None:
                v.grad = self._value(gradient)
        return v

    def make(self, d: Any) -> Any:
        """What a description stands for."""
        return _MAKERS[d[0]](self, d)

    def _array(self, d: Any) -> Any:
        _, cls, of, variable = d
        made = leaf.new(cls)
        made._n = self._value(of)
        if cls._diff:
            made._a = None if variable is None else self._variable(variable, of)
        self._made.append(made)
        return made

    def _keep(self, made: Any) -> Any:
        self._made.append(made)
        return made

    def _tensor(self, d: Any) -> Any:
        return self._keep(wrap_tensor(d[1], self.make(d[2]), d[3]))

    def _nested(self, d: Any) -> Any:
        items = [self.make(c) for c in d[2]]
        made = leaf.new(d[1])
        made._c = items
        return self._keep(made)

    def _sequence(self, d: Any) -> Any:
        items = [self.make(c) for c in d[2]]
        return self._keep(d[1](*items) if hasattr(d[1], "_fields") else d[1](items))

    def _dictionary(self, d: Any) -> Any:
        items = [self.make(c) for c in d[3]]
        return self._keep(d[1](zip(d[2], items, strict=True)))

    def _structure(self, d: Any) -> Any:
        names = field_names(d[1]) or ()
        return self._keep(make_struct(d[1], names, [self.make(c) for c in d[2]]))


_MAKERS: dict[str, Callable[[Maker, Any], Any]] = {
    "constant": lambda maker, d: d[1],
    "leaf": lambda maker, d: maker._layout.leaves[d[1]],
    "container": lambda maker, d: maker._layout.containers[d[1]],
    "other": lambda maker, d: maker._layout.others[d[1]],
    "made": lambda maker, d: maker._made[d[1]],
    "array": Maker._array,
    "tensor": Maker._tensor,
    "nested": Maker._nested,
    "sequence": Maker._sequence,
    "dictionary": Maker._dictionary,
    "structure": Maker._structure,
}


def _fill(container: Any, where: Any, items: list[Any]) -> None:
    """Gives a container new contents."""
    if issubclass(type(container), ArrayBase):
        if container._kind == "tensor":
            container._array, container._shape = items[0], where
        else:
            container._c = items
    elif isinstance(container, list):
        container[:] = items
    elif isinstance(container, dict):
        if tuple(container) != where:
            container.clear()
        container.update(zip(where, items, strict=True))
    else:
        for name, value in zip(where, items, strict=True):
            object.__setattr__(container, name, value)  # frozen data classes included
