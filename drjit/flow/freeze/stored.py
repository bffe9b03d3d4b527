"""Recordings and objects as text: nested values of a few kinds become JSON, with the arrays and
kernels that they refer to in tables beside it. Nothing but what is listed here is ever made of a
text: no code of a file runs, and in place of a class of the program that wrote it, there is a
record.
"""

import base64
import enum
import importlib
import weakref
from collections import namedtuple
from collections.abc import Callable, Iterable
from functools import partial
from types import CodeType, EllipsisType, FunctionType, MethodType
from typing import Any

from ...array import leaf, tree
from ...array.base import ArrayBase
from ...function.ad.grad import enable_grad
from ...jit.backend import JitBackend
from ...jit.device import Device, Kernel, find
from ...jit.ir.dtype import DType, by_name
from ...jit.ir.node import LITERAL, Node, buffer, literal
from ...jit.lazy import np
from ...jit.primitives.matmul import ProductLayout, layout
from ...jit.run import freeze, freeze_size
from ...jit.run.launch import to_numpy
from ...jit.text import program
from . import recordings, result
from .layout import fields_of, keys_and_parts, kind_of

_PACKAGE = __name__.partition(".")[0]
_BUILTINS: dict[str, Any] = {
    "other": FunctionType,  # any class whose objects are compared by identity
    **{str(cls.__name__): cls for cls in (
        bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, slice, range,
        type(None), EllipsisType, FunctionType, MethodType, partial,
    )},
}  # fmt: skip
_BY_VALUE = frozenset(("constant", "number", "set", "host", "hashed", "slice"))


class Record:
    """An object of a class of the program that saved a function."""

    def __repr__(self) -> str:
        parts = ", ".join([f"{name}={value!r}" for name, value in vars(self).items()])
        return f"{type(self).__name__}({parts})"


def is_known(cls: type) -> bool:
    """Returns whether who loads a function has a class as well."""
    inside = cls.__module__.partition(".")[0] == _PACKAGE and not issubclass(cls, Record)
    of_numpy = cls.__module__ == "numpy" and issubclass(cls, (np.generic, np.ndarray))
    return inside or of_numpy or cls in _BUILTINS.values()


class Writer:
    """Turns values and objects into JSON."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.kernels: dict[Kernel, int] = {}
        self.texts_of_operations: dict[Any, None] = {}
        """The kernels of operations, which programs do not have; those of GPUs are left out."""
        self.classes: dict[str, Any] = {}
        """The kinds and fields of classes of the program, by name."""
        self._numbers: dict[int, tuple[int, Any]] = {}
        """The numbers of objects, which are kept as their ids are in use."""

    def text(self, value: Any) -> Any:
        """Returns the JSON of a value.

        Raises:
            TypeError: there is none.
        """
        cls = type(value)
        if value is None or cls in (bool, int, str):
            return value
        if cls is tuple:
            return self.texts(value)
        if cls is weakref.ref and kind_of(type(value())) == "hashed":
            return self.text(value())  # which equals others
        for kind, (classes, write, _) in _KINDS.items():
            if isinstance(value, classes):
                return {kind: write(self, value)}
        raise TypeError(f"an object of type {cls.__qualname__}")

    def texts(self, values: Iterable[Any]) -> list[Any]:
        """Returns the JSON of several values."""
        return [*map(self.text, values)]

    def array(self, values: np.ndarray) -> int:
        """Returns the number of an array."""
        self.arrays.append(values)
        return len(self.arrays) - 1

    def bytes(self, data: bytes) -> int:
        """Returns the number of an array of bytes."""
        return self.array(np.frombuffer(data, np.uint8))

    def kernel(self, kernel: Kernel) -> int:
        """Returns the number of a kernel."""
        return self.kernels.setdefault(kernel, len(self.kernels))

    @property
    def all_kernels(self) -> list[Kernel]:
        return [*self.kernels, *self.texts_of_operations]

    def constant(self, n: Node) -> list[Any]:
        values = to_numpy(n.dtype, n.size, n.data)
        return [self.array(values), n.dtype.name, n.data.device.backend.name]

    def name(self, cls: Any) -> str:
        """Returns the name of a class. The module of a program is no part of it, as it may have
        another name elsewhere."""
        if is_known(cls):
            is_builtin = cls in _BUILTINS.values()
            return cls.__name__ if is_builtin else f"{cls.__module__}:{cls.__qualname__}"
        fields = [*getattr(cls, "__members__", getattr(cls, "_fields", fields_of(cls)))]
        name = str(cls.__qualname__)
        self.classes[name] = [kind_of(cls), fields, cls.__hash__ is not None]
        return name

    def other(self, value: Any) -> str:
        """Returns the name of an object that is compared by identity: a function, or one object of
        its class."""
        return getattr(value, "__qualname__", "") or self.name(type(value))

    def recording(self, r: freeze.Recording) -> dict[str, Any]:
        """Returns the JSON of a recording, without what it takes to make it more general."""
        return {name: self.text(part) for name, part in r._asdict().items() if name != "uses"}

    def object(self, value: Any) -> Any:
        """Returns the JSON of an object, in which one that occurs again is a number.

        Raises:
            TypeError: there is none.
        """
        kind = kind_of(type(value))
        if kind in _BY_VALUE:
            return {"plain": self.text(value)}
        if (before := self._before(value)) is not None:
            return {"again": before}
        if kind == "leaf":
            return {"leaf": self._leaf(value)}
        if kind == "other" or kind == "vector":
            return {"other": self.other(value)}
        keys, parts = keys_and_parts(value, kind)
        return {kind: [self.name(type(value)), self.text(keys), [*map(self.object, parts)]]}

    def _before(self, value: Any) -> int | None:
        """Returns the number of an object that has occurred before; a new one gets the next."""
        count = len(self._numbers)
        number, _ = self._numbers.setdefault(id(value), (count, value))
        return None if number == count else number

    def _leaf(self, a: Any) -> list[Any]:
        v = a._var
        if v is not None and v.rule is not None:
            raise TypeError("an array that is the result of differentiable operations")
        grad = None if v is None or v.grad is None else self._node(v.grad)
        return [self.name(type(a)), self._node(a._node), v is not None, grad]

    def _node(self, n: Any) -> Any:
        if n.op is LITERAL:
            return self.text(freeze.Literal(n.dtype, n.data, n.size))
        before = self._before(n)  # arrays may be one value
        return {"constant": self.constant(n)} if before is None else before


class Reader:
    """Turns JSON of a `Writer` into values and objects; `arrays` and `kernels` are the tables
    beside it, and `classes` the classes of the program that wrote it."""

    def __init__(self, arrays: list[np.ndarray], classes: dict[str, Any]) -> None:
        self.arrays, self.kernels = arrays, list[Kernel]()
        self.texts_of_operations: list[Any] = []
        self.classes = classes
        self._made: dict[str, Any] = {}
        self._objects: list[Any] = []

    def value(self, text: Any) -> Any:
        """Returns a value."""
        if isinstance(text, list):
            return tuple(map(self.value, text))
        if not isinstance(text, dict):
            return text
        ((kind, of),) = text.items()
        return _KINDS[kind][2](self, self.value(of))

    def constant(self, row: tuple[int, str, str]) -> Node:
        number, name, backend = row
        dtype, values = by_name(name), self.arrays[number]
        if values.dtype != dtype.numpy or values.ndim != 1:
            raise ValueError(f"a constant of {dtype.name}, but {values.dtype}")
        return buffer(dtype, values.size, self.device(backend).upload(values))

    def device(self, name: str) -> Device:
        """Returns a device.

        Raises:
            RuntimeError: this machine has none of that backend.
        """
        found = find(JitBackend[name])
        if found is None:
            raise RuntimeError(f"the backend {name} is not available")
        return found

    def operation(self, name: str) -> Any:
        module = name.partition(":")[0]
        if module.startswith(f"{_PACKAGE}.jit."):
            importlib.import_module(module)
        found = freeze.operations[name]
        freeze.note_kernels(found, self.texts_of_operations)  # it may be saved again
        return found

    def cls(self, name: str) -> Any:
        """Returns a class, which may be a record's."""
        if name in _BUILTINS:
            return _BUILTINS[name]
        module, _, qualified = name.partition(":")
        if qualified:
            inside = module == "numpy" or module.partition(".")[0] == _PACKAGE
            found = getattr(importlib.import_module(module), qualified) if inside else None
            if not isinstance(found, type) or not is_known(found):
                raise ValueError(f"the class {name}")
            return found
        if name not in self._made:
            kind, fields, hashable = self.classes[name]
            short = name.rpartition(".")[2]
            if kind == "hashed":
                made: Any = enum.Enum(short, [(field, field) for field in fields])
            elif kind == "sequence" and fields:
                made = namedtuple(short, fields)
            else:
                base = {"dict": dict, "sequence": tuple if hashable else list}.get(kind, Record)
                made = type(short, (base,), {} if hashable else {"__hash__": None})
            if kind == "struct":
                made.DRJIT_STRUCT = dict.fromkeys(fields, object)
            made.__qualname__, made.__module__ = name, "__main__"
            self._made[name] = made
        return self._made[name]

    def recording(self, text: dict[str, Any]) -> freeze.Recording:
        """Returns a recording."""
        parts = {name: self.value(part) for name, part in text.items()}
        return freeze.Recording(**parts, uses=freeze_size.Uses())

    def object(self, text: dict[str, Any]) -> Any:
        """Returns an object."""
        ((kind, of),) = text.items()
        if kind == "plain":
            return self.value(of)
        if kind == "again":
            return self._objects[of]
        at = len(self._objects)
        self._objects.append(None)  # it may contain itself, through others
        if kind == "other":
            made = _stub(of)
        else:
            made = self._leaf(*of) if kind == "leaf" else self._container(at, kind, *of)
        self._objects[at] = made
        return made

    def _leaf(self, name: str, n: Any, tracked: bool, grad: Any) -> Any:
        cls = self.cls(name)
        if not issubclass(cls, ArrayBase) or cls._kind != "leaf":
            raise ValueError(f"the class {name}")
        gradient = None if grad is None else self._node(grad)  # in the order of their numbers
        a = leaf.wrap(cls, self._node(n))
        if tracked:
            enable_grad(a)
            a._var.grad = gradient
        return a

    def _node(self, text: Any) -> Any:
        if type(text) is int:
            return self._objects[text]
        found = self.value(text)
        if isinstance(found, freeze.Literal):
            return literal(found.dtype, found.value, found.size)
        self._objects.append(found)
        return found

    def _container(self, at: int, kind: str, name: str, keys: Any, parts: list) -> Any:
        cls, keys = self.cls(name), self.value(keys)
        if kind_of(cls) != kind:  # whose constructor may do anything
            raise ValueError(f"the class {cls.__qualname__}")
        if kind in ("struct", "object", "dict"):  # which is there before its parts
            made = self._objects[at] = cls() if kind == "dict" else object.__new__(cls)
            put = dict.__setitem__ if kind == "dict" else object.__setattr__
            for key, part in zip(keys, parts, strict=True):
                put(made, key, self.object(part))
            return made
        values = [*map(self.object, parts)]
        if kind == "method":
            return MethodType(*values)
        if kind == "partial":
            f, given, named = values
            return partial(f, *given, **named)
        return tree.rebuilt(cls, keys, values)


def _stub(name: str) -> Callable[..., Any]:
    """Returns a function in place of an object that only has to be the same one."""

    def missing(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{name} is not part of the file")

    missing.__qualname__ = missing.__name__ = name
    return missing


def _written_operation(w: Writer, f: Any) -> str:
    name = f"{f.__module__}:{f.__qualname__}"
    if name not in freeze.operations:
        raise TypeError(f"the function {f.__qualname__}")
    launched = freeze.kernels_of_operations.get(f, {}).values()
    w.texts_of_operations.update({k: None for k in launched if k.device.on_host})
    return name


def _written_product(w: Writer, v: ProductLayout) -> list[Any]:
    return [*w.texts((v.sizes, v.transposed)), w.array(np.array(v.offsets))]


def _written_scalar(w: Writer, v: np.generic) -> list[Any]:
    return w.texts((v.dtype.str, v.tobytes()))


def _complex(r: Reader, v: tuple[str, str]) -> complex:
    return complex(*map(float.fromhex, v))


def _code(r: Reader, v: tuple[str, str]) -> CodeType:
    return compile("0", v[0], "exec").replace(co_name=str(v[1]))


_KINDS: dict[str, tuple[Any, Callable[[Writer, Any], Any], Callable[[Reader, Any], Any]]] = {
    "value": (freeze.ValueNumber, lambda w, v: int(v), lambda r, v: freeze.ValueNumber(v)),
    "enum": (enum.Enum, lambda w, v: [w.name(type(v)), v.name], lambda r, v: r.cls(v[0])[v[1]]),
    "scalar": (np.generic, _written_scalar, lambda r, v: np.frombuffer(v[1], v[0])[0]),
    "integer": (int, lambda w, v: int(v), lambda r, v: int(v)),
    "float": (float, lambda w, v: float(v).hex(), lambda r, v: float.fromhex(v)),
    "dtype": (DType, lambda w, v: v.name, lambda r, v: by_name(v)),
    "kernel": (Kernel, Writer.kernel, lambda r, v: r.kernels[v]),
    "constant": (Node, Writer.constant, Reader.constant),
    "device": (Device, lambda w, v: v.backend.name, Reader.device),
    "array": (np.ndarray, Writer.array, lambda r, v: r.arrays[v]),
    "operation": (FunctionType, _written_operation, Reader.operation),
    "class": (type, lambda w, v: "other" if kind_of(v) == "other" else w.name(v), Reader.cls),
    "code": (CodeType, lambda w, v: [v.co_filename, v.co_name], _code),
    "product": (ProductLayout, _written_product, lambda r, v: layout(v[0], v[1], r.arrays[v[2]])),
    "list": (list, Writer.texts, lambda r, v: [*v]),
    "dict": (dict, lambda w, v: w.texts(v.items()), lambda r, v: dict(v)),
    "set": ((set, frozenset), lambda w, v: sorted(w.texts(v), key=str), lambda r, v: frozenset(v)),
    "slice": (slice, lambda w, v: w.texts((v.start, v.stop, v.step)), lambda r, v: slice(*v)),
    "range": (range, lambda w, v: [v.start, v.stop, v.step], lambda r, v: range(*v)),
    "complex": (complex, lambda w, v: [v.real.hex(), v.imag.hex()], _complex),
    "bytes": (bytes, lambda w, v: base64.b85encode(v).decode(), lambda r, v: base64.b85decode(v)),
    "ellipsis": (EllipsisType, lambda w, v: 0, lambda r, v: ...),
    "type": (np.dtype, lambda w, v: v.str, lambda r, v: np.dtype(v)),
    "reference": (weakref.ref, lambda w, v: w.other(v()), lambda r, v: v),
    **{
        cls.__name__: (cls, Writer.texts, lambda r, v, make=cls._make: make(v))
        for cls in (
            freeze.RecordedLaunch, freeze.RecordedOperation, freeze.Literal,
            recordings.Proportion, recordings.SizedNumber,
            result.Array, result.GradVariable, result.Container, result.CallOutcome,
            program.Program, program.Output, program.Work,
        )
    },
}  # fmt: skip
"""The kinds of values by name: their classes, what is written of a value, and what makes one of
what is read. Nested values have been read by then."""
