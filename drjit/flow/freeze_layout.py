"""What a frozen function is given, taken apart: arrays, objects that can change, and a key that
says whether a recording fits.

Everything is visited in a fixed order, so that what was at some place of the inputs of the recorded
call is at the same place of those of another call with the same key.
"""

import dataclasses
import dis
import enum
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ..array.base import ArrayBase, KernelValue, type_label
from ..array.pytree import field_names
from ..jit.node import LITERAL, Node
from .instance import InstanceArray

Visit = Callable[["Layout", Any], Any]


class Layout:
    """The parts of `inputs`, and of those in `implicit`, among which anything is allowed.

    `leaves` are the one-dimensional arrays, `variables` what differentiation knows about them,
    `literals` numbers of constants among the values and their places in the key, `nodes` the
    values followed by their gradients, where there are any, each with the object and
    attribute that hold it in `holders`; equal entries of `nodes` are one value. `containers` are
    objects whose contents may change, `others` objects without a value.
    """

    __slots__ = (
        "_classes", "_lenient", "_numbers", "_seen", "containers", "depth", "holders", "key",
        "leaves", "literals", "nodes", "others", "sizes", "variables",
    )  # fmt: skip

    def __init__(self, names: Any, inputs: Sequence[Any], implicit: Sequence[Any]) -> None:
        self.key: list[Any] = [names]
        self.leaves: list[Any] = []
        self.variables: list[Any] = []
        self.nodes: list[Any] = []
        self.holders: list[list[tuple[Any, str]]] = []
        self.containers: list[Any] = []
        self.others: list[Any] = []
        self.sizes: list[int] = []
        self.literals: list[tuple[int, int]] = []
        self._classes = {0: -1, 1: -2}  # sizes for which code may differ
        self._numbers: dict[int, int] = {}
        self._seen: dict[int, int] = {}
        self._lenient = False
        self.depth = 0
        _visit_all(self, inputs)
        if implicit:
            self._lenient = True
            self.key.append(len(implicit))
            _visit_all(self, implicit)

    def visit(self, value: Any) -> None:
        """Adds a tree."""
        _visits[type(value)](self, value)

    def again(self, value: Any) -> bool:
        """Whether an object has been met before, which is noted in the key."""
        seen = self._seen
        before = seen.get(id(value))
        if before is None:
            seen[id(value)] = len(seen)
            return False
        self.key += (..., before)
        return True

    def size(self, n: int) -> int:
        """What the key says about a size: 0 and 1, or which of the sizes of this call it is."""
        found = self._classes.get(n)
        if found is None:
            found = self._classes[n] = len(self.sizes)
            self.sizes.append(n)
        return found

    def node(self, n: Node, holder: Any, attribute: str) -> None:
        """Adds a value."""
        number = len(self.nodes)
        size = self._classes.get(n.size)
        if size is None:
            size = self.size(n.size)
        if n.op is LITERAL:
            self.literals.append((number, len(self.key)))
            self.key += (-1, size)
        else:
            before = self._numbers.setdefault(id(n), number)
            if before != number:
                self.key.append(before)
                self.holders[before].append((holder, attribute))
                return
            self.key += (number, size)
        self.nodes.append(n)
        self.holders.append([(holder, attribute)])


# What there can be in a tree, and how it is visited.


def _visit_all(layout: Layout, values: Iterable[Any]) -> None:
    key = layout.key
    for v in values:
        cls = type(v)
        if cls in _CONSTANTS:
            key += (cls, v)
        else:
            _visits[cls](layout, v)


def _leaf(layout: Layout, value: Any) -> None:
    key = layout.key
    key.append(type(value))
    if layout.again(value):
        return
    layout.leaves.append(value)
    layout.node(value._n, value, "_n")
    v = value._a
    if v is None:
        key.append(None)
    elif not layout.again(v):
        layout.variables.append(v)
        key.append(v.rule is None)
        if v.grad is None:
            key.append(None)
        else:
            layout.node(v.grad, v, "grad")


def _nested(layout: Layout, value: Any) -> None:
    if _opened(layout, value, len(value._c)):
        _visit_all(layout, value._c)


def _tensor(layout: Layout, value: Any) -> None:
    shape = value._shape
    first = min(shape[0], 2) if shape else 0
    if _opened(layout, value, (len(shape), first, *shape[1:])):
        layout.visit(value._array)


def _opened(layout: Layout, value: Any, detail: Any) -> bool:
    """Adds a container; gives whether its contents are to follow."""
    layout.key.append(type(value))
    if layout.again(value):
        return False
    layout.containers.append(value)
    layout.key.append(detail)
    return True


def _sequence(layout: Layout, value: Any) -> None:
    if _opened(layout, value, len(value)):
        _visit_all(layout, value)


def _dictionary(layout: Layout, value: Any) -> None:
    if _opened(layout, value, tuple(value)):
        _visit_all(layout, value.values())


def _set(layout: Layout, value: Any) -> None:
    layout.key += (type(value), frozenset(value))


def _slice(layout: Layout, value: slice) -> None:
    layout.key.append(slice)
    for v in (value.start, value.stop, value.step):
        layout.visit(v)


def _structure(names: tuple[str, ...]) -> Visit:
    def visit(layout: Layout, value: Any) -> None:
        if _opened(layout, value, None):
            _visit_all(layout, [getattr(value, name, None) for name in names])
            attributes = getattr(value, "__dict__", None)
            if attributes is not None and len(attributes) > len(names):
                _simple_attributes(layout, attributes, names)

    return visit


def _simple_attributes(layout: Layout, attributes: dict, names: tuple[str, ...]) -> None:
    """Adds numbers and the like that an object has beside its fields: code may depend on them."""
    for name, value in attributes.items():
        if type(value) in _SIMPLE and name not in names:
            layout.key += (name, type(value), value)


def _instances(layout: Layout, value: Any) -> None:
    """An array of references: calls may read all attributes of the objects."""
    if not _opened(layout, value, None):
        return
    layout.visit(value.index)
    for number, instance in sorted(type(value).instances().items()):
        layout.key.append(number)
        layout.visit(instance)


def _number(layout: Layout, value: Any) -> None:
    # 0.0 and -0.0 differ, NaN is NaN.
    layout.key += (type(value), repr(value) if not value or value != value else value)


def _host_array(layout: Layout, value: Any) -> None:
    layout.key += (type(value), value.shape, value.dtype.str, value.tobytes())


def _other(layout: Layout, value: Any) -> None:
    """An object that counts by its identity, or by what it is equal to."""
    cls = type(value)
    if cls.__hash__ is None:
        if not layout._lenient:
            raise TypeError(
                f"an input of type {type_label(cls)} cannot be told from others: it is neither an "
                "array nor a PyTree (list, tuple, dictionary, data class, or class with "
                "DRJIT_STRUCT), and not hashable"
            )
        layout.key.append(cls)
        return
    layout.others.append(value)
    layout.key += (cls, _identity(value))


def _identity(value: Any) -> Any:
    """What is equal for equal objects, and does not keep an object alive if it can be helped."""
    try:
        return weakref.ref(value)
    except TypeError:
        return value


def by_identity(*classes: type) -> None:
    """Says that only the identity of the objects of some classes matters."""
    _visits.update(dict.fromkeys(classes, _other))


def _object(layout: Layout, value: Any) -> None:
    """An object of a class of Python's: its identity where that is defined, and its attributes."""
    attributes = getattr(value, "__dict__", None)
    if type(attributes) is not dict or layout.depth >= _DEEPEST:
        _other(layout, value)
        return
    identity = None if type(value).__hash__ is None else _identity(value)
    if not _opened(layout, value, identity):
        return
    layout.key.append(tuple(attributes))
    lenient, layout._lenient = layout._lenient, True
    layout.depth += 1
    _visit_all(layout, attributes.values())
    layout.depth -= 1
    layout._lenient = lenient


def _method(layout: Layout, value: Any) -> None:
    if _opened_others(layout, value):
        layout.visit(value.__func__)
        layout.visit(value.__self__)


def _partial(layout: Layout, value: Any) -> None:
    if _opened_others(layout, value):
        layout.visit(value.func)
        layout.visit(value.args)
        layout.visit(value.keywords)


def _opened_others(layout: Layout, value: Any) -> bool:
    """Adds an object that consists of others and does not change."""
    layout.key.append(type(value))
    if layout.again(value):
        return False
    layout.others.append(value)
    return True


def _foreign_array(layout: Layout, value: Any) -> None:
    """An array of another library."""
    try:
        _host_array(layout, np.asarray(value))
    except Exception as error:
        raise TypeError(
            f"the entries of an input of type {type_label(type(value))} cannot be read ({error})"
        ) from None


def _kernel_value(layout: Layout, value: Any) -> None:
    if not layout._lenient:
        raise TypeError(
            f"an input is or contains a {type_label(type(value))}, which exists within a kernel "
            "only; pass the arrays that it is made of, and make it in the function"
        )
    _other(layout, value)


_DEEPEST = 3  # objects within objects whose attributes are looked at
_FIXED = (ModuleType, type, BuiltinFunctionType)
_SIMPLE = frozenset((bool, int, float, str, type(None)))
_CONSTANTS = frozenset((bool, int, str, bytes, type(None)))


class _Visits(dict[type, Visit]):
    """How values are visited, by class."""

    def __missing__(self, cls: type) -> Visit:
        return _classify(cls)


_visits = _Visits({
    **dict.fromkeys(_CONSTANTS, lambda layout, value: _visit_all(layout, (value,))),
    float: _number, complex: _number, list: _sequence, tuple: _sequence, dict: _dictionary,
    set: _set, slice: _slice, np.ndarray: _host_array, MethodType: _method, partial: _partial,
})  # fmt: skip


def _classify(cls: type) -> Visit:
    """How values of a class are visited; the answer is kept."""
    if issubclass(cls, ArrayBase):
        kind = cls._kind
        visit = _tensor if kind == "tensor" else _nested
        if kind == "leaf" and cls._namespace != "scalar":
            visit = _leaf
    elif issubclass(cls, KernelValue):
        visit = _kernel_value
    elif issubclass(cls, InstanceArray):
        visit = _instances
    elif fields(cls) is not None:
        visit = _structure(fields(cls) or ())
    elif issubclass(cls, (list, tuple)):
        visit = _sequence
    elif issubclass(cls, dict):
        visit = _dictionary
    elif issubclass(cls, np.ndarray):
        visit = _host_array
    elif issubclass(cls, (float, complex, np.inexact)):
        visit = _number
    elif issubclass(cls, (*_FIXED, FunctionType, np.generic, enum.Enum, int, str, bytes)):
        visit = _other
    elif hasattr(cls, "__array__") or hasattr(cls, "__dlpack__"):
        visit = _foreign_array
    else:
        visit = _object
    _visits[cls] = visit
    return visit


def fields(cls: type) -> tuple[str, ...] | None:
    """The attributes of the objects of a class that are visited; None if it is no structure."""
    hidden = getattr(cls, "_traversed", None)
    if hidden is not None:
        return hidden
    if dataclasses.is_dataclass(cls) or isinstance(getattr(cls, "DRJIT_STRUCT", None), dict):
        return tuple(field_names(cls) or ())
    return None


def contents(container: Any) -> list[Any]:
    """What a container holds, in the order of `fields`, keys or numbers."""
    cls = type(container)
    if issubclass(cls, ArrayBase):
        return [container._array] if cls._kind == "tensor" else list(container._c)
    if issubclass(cls, (list, tuple)):
        return list(container)
    if issubclass(cls, dict):
        return list(container.values())
    names = fields(cls)
    if names is None:
        return list(vars(container).values())
    return [getattr(container, name, None) for name in names]


def places(container: Any) -> Any:
    """Where a container holds its contents: the keys of a dictionary, the shape of a tensor, the
    number of entries of a sequence, the names of attributes."""
    if isinstance(container, dict):
        return tuple(container)
    if isinstance(container, ArrayBase) and container._kind == "tensor":
        return container._shape
    if isinstance(container, (ArrayBase, list, tuple)):
        return len(contents(container))
    return fields(type(container)) or tuple(vars(container))


# What a function refers to without being given it.


class Surroundings:
    """The variables outside of a function that its code refers to, those of its closure, defaults
    of its arguments, and the object itself if it is no function of Python's."""

    __slots__ = ("_cells", "_names", "_objects", "_scope")

    def __init__(self, function: Any) -> None:
        self._names: tuple[str, ...] = ()
        self._cells, self._objects, self._scope = (), [], {}
        code = getattr(function, "__code__", None)
        if code is None:
            self._objects = [function]
            return
        pending: list[CodeType] = [code]
        names: dict[str, None] = {}
        for c in pending:  # which grows
            used = [i.argval for i in dis.get_instructions(c) if i.opname == "LOAD_GLOBAL"]
            names.update(dict.fromkeys(used))
            pending += [k for k in c.co_consts if isinstance(k, CodeType)]
        self._names, self._scope = tuple(names), function.__globals__
        self._cells = function.__closure__ or ()
        defaults = (function.__defaults__ or (), function.__kwdefaults__ or {})
        self._objects = [d for d in defaults if d]

    def values(self) -> list[Any]:
        """What is there now; modules and classes are left out."""
        scope = self._scope
        found = [scope[name] for name in self._names if name in scope]
        for cell in self._cells:
            try:
                found.append(cell.cell_contents)
            except ValueError:  # not set yet
                continue
        return self._objects + [v for v in found if not isinstance(v, _FIXED)]
