"""The decomposition of the inputs of a frozen function: the values and objects in them, and a key
that determines which recordings match.

Everything is visited in a fixed order, so inputs with the same key have corresponding objects and
values at the same positions.
"""

import dis
import enum
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ...array import pytree, tree
from ...array.base import ArrayBase, KernelValue, type_label
from ...jit.ir.node import BUFFER, LITERAL, Node
from ...jit.lazy import np
from ...jit.run import schedule
from ..call.instance import InstanceArray


class InputLayout:
    """The parts of `inputs`, and of those in `implicit`, where any kind of object is allowed.

    `objects` are the arrays, containers, derivative variables and other objects, without
    duplicates. `nodes` are the values of one-dimensional arrays, each followed by its gradient if
    there is one; `holders` lists the objects and attributes that hold them. Equal entries of
    `nodes` are one value. `literals` lists the positions of constants among them and in the key.
    `sizes` are the distinct sizes other than 0 and 1. `unopened` lists the numbers of objects that
    are not opened.
    """

    def __init__(self, names: Any, inputs: Sequence[Any], implicit: Sequence[Any]) -> None:
        self.key: list[Any] = [names]
        self.objects: list[Any] = []
        self.nodes: list[Any] = []
        self.holders: list[list[tuple[Any, str]]] = []
        self.sizes: list[int] = []
        self.literals: list[tuple[int, int]] = []
        self.unopened: set[int] = set()
        self._numbers: dict[int, int] = {}
        self._node_numbers: dict[int, int] = {}
        self._size_numbers = {0: -1, 1: -2}  # sizes for which code may differ
        self._lenient = False
        self._depth = 0
        try:
            self._add(inputs)
            self._lenient = True
            self._add(implicit)
        except RecursionError:
            raise pytree.too_deep() from None

    def _add(self, values: Iterable[Any]) -> None:
        key, objects = self.key, self.objects
        for v in values:
            cls = type(v)
            kind = kind_of(cls)
            if kind == "constant":
                key += (cls, v)
                continue
            key.append(cls)
            if kind in _BY_VALUE:
                key.append(_BY_VALUE[kind](v))
            elif kind == "slice":
                self._add((v.start, v.stop, v.step))
            else:
                before = self._numbers.setdefault(id(v), len(objects))
                if before != len(objects):
                    key += (..., before)
                    continue
                objects.append(v)
                if kind == "leaf":
                    self._add_leaf(v)
                else:
                    self._add_object(v, kind)

    def _add_leaf(self, a: Any) -> None:
        key = self.key
        self._add_node(a._node, a, "_node")
        v = a._var
        if v is None:
            key.append(None)
            return
        before = self._numbers.setdefault(id(v), len(self.objects))
        if before != len(self.objects):
            key += (..., before)
            return
        self.objects.append(v)
        key.append(v.rule is None)
        if v.grad is None:
            key.append(None)
        else:
            self._add_node(v.grad, v, "grad")

    def _add_node(self, n: Node, holder: Any, attribute: str) -> None:
        number = len(self.nodes)
        size = self._size_numbers.get(n.size)
        if size is None:
            size = self._size_numbers[n.size] = len(self.sizes)
            self.sizes.append(n.size)
        if n.op is LITERAL:
            self.literals.append((number, len(self.key)))
            self.key += (-1, size)
        else:
            before = self._node_numbers.setdefault(id(n), number)
            if before != number:
                self.key.append(before)
                self.holders[before].append((holder, attribute))
                return
            self.key += (number, size)
        self.nodes.append(n)
        self.holders.append([(holder, attribute)])

    def _add_object(self, value: Any, kind: str) -> None:
        """Adds an object that consists of others, or that is compared by identity."""
        key = self.key
        if kind == "vector" and not self._lenient:
            raise TypeError(
                f"an input is or contains a {type_label(type(value))}, which exists within a "
                "kernel only; pass the arrays that it is made of, and make it in the function"
            )
        if kind == "object" and (
            self._depth >= DEEPEST or type(getattr(value, "__dict__", None)) is not dict
        ):
            kind = "other"
        if kind == "other" or kind == "vector":
            key.append(self._identity(value))
            self.unopened.add(len(self.objects) - 1)
            return
        keys, parts = keys_and_parts(value, kind)
        if kind == "struct":
            fields = len(fields_of(type(value)))  # which its class determines
            key.append(keys[fields:])
            self._add(parts[:fields])
            parts = parts[fields:]
            if isinstance(value, InstanceArray):  # calls may read all attributes of the objects
                instances = dict(sorted(value.instances().items()))
                key += instances
                parts += instances.values()
            if not parts:
                return
        elif kind == "tensor":
            key.append((len(keys), *[min(n, 2) for n in keys[:1]], *keys[1:]))
        else:
            key.append(keys or len(parts))
        if kind == "object":
            key.append(None if type(value).__hash__ is None else reference_to(value))
        elif kind != "struct":
            self._add(parts)
            return
        # Any kind of object may be an attribute.
        lenient, self._lenient = self._lenient, True
        self._depth += 1
        self._add(parts)
        self._depth -= 1
        self._lenient = lenient

    def _identity(self, value: Any) -> Any:
        """Returns a representative of an object that is compared by identity or equality."""
        cls = type(value)
        if cls.__hash__ is not None:
            return reference_to(value)
        if self._lenient:
            return None
        raise TypeError(
            f"an input of type {type_label(cls)} cannot be told from others: it is neither an "
            "array nor a PyTree (list, tuple, dictionary, data class, or class with "
            "DRJIT_STRUCT), and not hashable"
        )


def evaluated_layout(
    what: str, names: Any, inputs: Sequence[Any], implicit: Sequence[Any]
) -> InputLayout:
    """Returns the decomposed inputs of the function `what`, whose values have been evaluated."""
    try:
        layout = InputLayout(names, inputs, implicit)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None
    todo = [n for n in layout.nodes if n.op is not BUFFER and n.op is not LITERAL]
    if todo:
        schedule.evaluate(todo)
    return layout


def nodes_in(*trees: Any) -> list[Node]:
    """Returns the values in what a call has left behind."""
    return InputLayout(None, (), trees).nodes


def reference_to(value: Any) -> Any:
    """Returns a value that is equal for equal objects and, where possible, does not keep an object
    alive."""
    try:
        return weakref.ref(value)
    except TypeError:
        return value


def keys_and_parts(value: Any, kind: str) -> tuple[Any, Any]:
    """Returns the keys, attribute names or shape of a container, and its parts. Of a structure,
    fields come before other attributes."""
    if kind == "struct":
        names = fields_of(type(value))
        attributes = getattr(value, "__dict__", ())
        # Code may depend on attributes that are not fields.
        names = (*names, *[name for name in attributes if name not in names])
        return names, [getattr(value, name, None) for name in names]
    if kind in pytree.CONTAINERS:
        return pytree.keys_and_parts(value, kind)
    if kind == "object":
        attributes = vars(value)
        return tuple(attributes), [*attributes.values()]
    if kind == "method":
        return None, [value.__func__, value.__self__]
    if kind == "partial":
        return None, [value.func, value.args, value.keywords]
    return tree.keys_and_parts(value, kind)


def _number(value: Any) -> Any:
    # 0.0 and -0.0 differ; NaN equals NaN.
    return repr(value) if not value or value != value else value


def _host_array(value: Any) -> tuple:
    return value.shape, value.dtype.str, value.tobytes()


def _foreign_array(value: Any) -> tuple:
    """Returns the key of an array of another library."""
    try:
        return _host_array(np.asarray(value))
    except Exception as error:
        raise TypeError(
            f"the entries of an input of type {type_label(type(value))} cannot be read ({error})"
        ) from None


DEEPEST = 3  # maximum nesting of objects whose attributes are examined
_FIXED = (ModuleType, type, BuiltinFunctionType)
_module = sys.modules[__name__]


_BY_VALUE: dict[str, Callable[[Any], Any]] = {
    "number": _number, "set": frozenset, "host": _host_array, "foreign": _foreign_array,
    "hashed": reference_to,
}  # fmt: skip
"""Functions from values that are compared by value, not by identity, to their entries in the
key."""

_CLASSES: tuple[tuple[Any, str], ...] = (
    (KernelValue, "vector"),
    ((list, tuple), "sequence"),
    (dict, "dict"),
    (np.ndarray, "host"),
    ((float, complex, np.inexact), "number"),
    ((*_FIXED, FunctionType), "other"),
    ((np.generic, enum.Enum, int, str, bytes, range, frozenset), "hashed"),
)


_EXACT = {
    **dict.fromkeys((bool, int, str, bytes, type(None)), "constant"),
    set: "set", slice: "slice", MethodType: "method", partial: "partial",
}  # fmt: skip


@cache
def fields_of(cls: Any) -> tuple[str, ...]:
    """Returns the names of the fields of a structure; nothing for other classes."""
    return tuple(getattr(cls, "_traversed", pytree.field_names(cls)) or ())


@cache
def kind_of(cls: Any) -> str:
    """Returns how values of a class are visited: the kinds of PyTrees, and a few more."""
    if cls in _EXACT:
        return _EXACT[cls]
    if issubclass(cls, ArrayBase):
        is_leaf = cls._kind == "leaf" and cls._namespace != "scalar"
        return "leaf" if is_leaf else "tensor" if cls._kind == "tensor" else "nested"
    is_struct = pytree.field_names(cls) is not None or hasattr(cls, "_traversed")
    if is_struct and not issubclass(cls, KernelValue):
        return "struct"
    if getattr(cls, "_by_identity", False):  # which only functions of this package say
        return "other"
    for classes, kind in _CLASSES:
        if issubclass(cls, classes):
            return kind
    return "foreign" if hasattr(cls, "__array__") or hasattr(cls, "__dlpack__") else "object"


@cache
def _is_fixed(cls: type) -> bool:
    """Returns whether values of a class are modules, classes or built-in functions."""
    return issubclass(cls, _FIXED)


# The free variables of a function.


def free_variables(function: Any) -> Callable[[], list[Any]]:
    """Returns a function that returns the current values of the variables outside a function that
    its code refers to, except modules and classes; of those of its closure; the defaults of its
    arguments; and the object itself if it is not a Python function."""
    code = getattr(function, "__code__", None)
    if code is None:
        return lambda: [function]
    pending: list[CodeType] = [code]
    names: dict[str, None] = {}
    for c in pending:  # the list grows during iteration
        used = [i.argval for i in dis.get_instructions(c) if i.opname == "LOAD_GLOBAL"]
        names.update(dict.fromkeys(used))
        pending += [k for k in c.co_consts if isinstance(k, CodeType)]
    scope, cells = function.__globals__, function.__closure__ or ()
    defaults = [d for d in (function.__defaults__, function.__kwdefaults__) if d]

    def values() -> list[Any]:
        found = [*defaults]
        for name in names:
            v = scope.get(name, _module)  # which is left out
            if not _is_fixed(type(v)):
                found.append(v)
        for cell in cells:
            try:
                v = cell.cell_contents
            except ValueError:  # not yet set
                continue
            if not _is_fixed(type(v)):
                found.append(v)
        return found

    return values
