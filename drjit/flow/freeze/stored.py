"""Recordings as text: nested values of a few kinds become JSON, with the arrays and kernels that
they refer to in tables beside it. Nothing but what is listed here is ever made of a text: no code
of a file runs, and in place of a class of the program that wrote it, there is a record.
"""

import base64
import enum
import importlib
import weakref
from collections import namedtuple
from types import EllipsisType, FunctionType, MethodType
from typing import Any

from ...jit.backend import JitBackend
from ...jit.device import Device, Kernel, find
from ...jit.ir.dtype import DType, by_name
from ...jit.ir.node import Node, buffer
from ...jit.lazy import np
from ...jit.primitives.matmul import ProductLayout, layout
from ...jit.run import freeze
from ...jit.text import program
from . import recordings, result
from .layout import fields_of, kind_of

_TUPLES = {
    cls.__name__: cls
    for cls in (
        freeze.RecordedLaunch, freeze.RecordedOperation, freeze.Literal, freeze.Recording,
        recordings.Proportion, recordings.SizedNumber, recordings.GeneralRecording,
        result.Array, result.GradVariable, result.Container, result.CallOutcome,
        program.Program, program.Output, program.Work,
    )
}  # fmt: skip
_PACKAGE = __name__.partition(".")[0]
_BUILTIN = (
    bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, slice, range,
    type(None), EllipsisType, FunctionType, MethodType,
)  # fmt: skip
_OTHER = "other"  # any class whose objects are compared by identity
_BUILTINS = {cls.__name__: cls for cls in _BUILTIN}


class Record:
    """An object of a class of the program that saved a function."""

    def __repr__(self) -> str:
        parts = ", ".join([f"{name}={value!r}" for name, value in vars(self).items()])
        return f"{type(self).__name__}({parts})"


def is_known(cls: type) -> bool:
    """Returns whether who loads a function has a class as well."""
    inside = cls.__module__.partition(".")[0] == _PACKAGE and not issubclass(cls, Record)
    return cls in _BUILTIN or inside or _is_of_numpy(cls)


def _is_of_numpy(cls: type) -> bool:
    return cls.__module__ == "numpy" and issubclass(cls, (np.generic, np.ndarray))


class Writer:
    """Turns values into JSON."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.kernels: dict[Kernel, int] = {}
        self.classes: dict[str, Any] = {}
        """The kinds and fields of classes of the program, by name."""

    def text(self, value: Any) -> Any:
        """Returns the JSON of a value.

        Raises:
            TypeError: there is none.
        """
        cls = type(value)
        if value is None or cls in (bool, int, str):
            return value
        if cls is tuple:
            return [*map(self.text, value)]
        if cls.__name__ in _TUPLES and cls is _TUPLES[cls.__name__]:
            return {cls.__name__: [*map(self.text, value)]}
        for kind, (classes, write) in _WRITERS.items():
            if isinstance(value, classes):
                return {kind: write(self, value)}
        raise TypeError(f"an object of type {cls.__qualname__}")

    def array(self, values: np.ndarray) -> int:
        """Returns the number of an array."""
        self.arrays.append(values)
        return len(self.arrays) - 1

    def kernel(self, kernel: Kernel) -> int:
        """Returns the number of a kernel."""
        return self.kernels.setdefault(kernel, len(self.kernels))

    def constant(self, n: Node) -> list[Any]:
        device = n.data.device
        values = device.download(n.data, n.dtype, n.size)
        return [self.array(values), n.dtype.name, device.backend.name]

    def name(self, cls: Any) -> str:
        """Returns the name of a class. The module of a program is no part of it, as it may have
        another name elsewhere."""
        if is_known(cls):
            known = f"{cls.__module__}:{cls.__qualname__}"
            return str(cls.__name__) if cls in _BUILTIN else known
        kind = kind_of(cls)
        fields = [*getattr(cls, "_fields", fields_of(cls))]
        name = str(cls.__qualname__)
        self.classes[name] = [kind, fields, cls.__hash__ is not None]
        return name

    def other(self, value: Any) -> str:
        """Returns the name of an object that is compared by identity: a function, or one object of
        its class."""
        return getattr(value, "__qualname__", "") or self.name(type(value))


def _function(w: Writer, f: Any) -> str:
    name = f"{f.__module__}:{f.__qualname__}"
    if name not in freeze.operations:
        raise TypeError(f"the function {f.__qualname__}")
    return name


def _enum(w: Writer, v: enum.Enum) -> list[str]:
    if not is_known(type(v)):
        raise TypeError(f"an object of type {type(v).__qualname__}")
    return [w.name(type(v)), v.name]


def _class(w: Writer, cls: Any) -> str:
    return _OTHER if kind_of(cls) == "other" else w.name(cls)


def _location(w: Writer, code: Any) -> list[Any]:
    return [code.co_filename, code.co_name]


_WRITERS: dict[str, tuple[Any, Any]] = {
    "value": (freeze.ValueNumber, lambda w, v: int(v)),
    "enum": (enum.Enum, _enum),
    "integer": (int, lambda w, v: int(v)),
    "float": (float, lambda w, v: float(v).hex()),
    "dtype": (DType, lambda w, v: v.name),
    "kernel": (Kernel, Writer.kernel),
    "constant": (Node, Writer.constant),
    "device": (Device, lambda w, v: v.backend.name),
    "array": (np.ndarray, Writer.array),
    "operation": (FunctionType, _function),
    "class": (type, _class),
    "code": (type(_location.__code__), _location),
    "product": (
        ProductLayout,
        lambda w, v: [*map(w.text, (v.sizes, v.transposed)), w.array(np.array(v.offsets))],
    ),
    "list": (list, lambda w, v: [*map(w.text, v)]),
    "dict": (dict, lambda w, v: [[w.text(k), w.text(x)] for k, x in v.items()]),
    "set": ((set, frozenset), lambda w, v: sorted(map(w.text, v), key=str)),
    "slice": (slice, lambda w, v: [*map(w.text, (v.start, v.stop, v.step))]),
    "range": (range, lambda w, v: [v.start, v.stop, v.step]),
    "complex": (complex, lambda w, v: [v.real.hex(), v.imag.hex()]),
    "bytes": (bytes, lambda w, v: base64.b85encode(v).decode()),
    "ellipsis": (EllipsisType, lambda w, v: 0),
    "scalar": (np.generic, lambda w, v: w.array(np.array(v))),
    "type": (np.dtype, lambda w, v: v.str),
    "reference": (weakref.ref, lambda w, v: w.other(v())),
}


class Reader:
    """Turns JSON of a `Writer` into values; `arrays` and `kernels` are the tables beside it, and
    `classes` the classes of the program that wrote it."""

    def __init__(self, arrays: list[np.ndarray], classes: dict[str, Any]) -> None:
        self.arrays, self.kernels = arrays, list[Kernel]()
        self.classes = classes
        self._made: dict[str, Any] = {}

    def value(self, text: Any) -> Any:
        """Returns a value."""
        if isinstance(text, list):
            return tuple(map(self.value, text))
        if not isinstance(text, dict):
            return text
        ((kind, of),) = text.items()
        if kind in _TUPLES:
            return _TUPLES[kind]._make(map(self.value, of))
        return _READERS[kind](self, of)

    def constant(self, row: list[Any]) -> Node:
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
        return freeze.operations[name]

    def cls(self, name: str) -> Any:
        """Returns a class, which may be a record's."""
        if name in _BUILTINS or name == _OTHER:
            return _BUILTINS.get(name, FunctionType)
        module, _, qualified = name.partition(":")
        if qualified:
            if module != "numpy" and module.partition(".")[0] != _PACKAGE:
                raise ValueError(f"the class {name}")
            found = getattr(importlib.import_module(module), qualified)
            if not isinstance(found, type) or not is_known(found):
                raise ValueError(f"the class {name}")
            return found
        if name not in self._made:
            kind, fields, hashable = self.classes[name]
            members: dict[str, Any] = {"__module__": "__main__", "__qualname__": name}
            if kind == "sequence":
                made: Any = namedtuple(name.rpartition(".")[2], fields)
                made.__qualname__, made.__module__ = name, "__main__"
            else:
                if not hashable:
                    members["__hash__"] = None
                if kind == "struct":
                    members["DRJIT_STRUCT"] = dict.fromkeys(fields, object)
                made = type(name.rpartition(".")[2], (Record,), members)
            self._made[name] = made
        return self._made[name]


def _code(r: Reader, row: list[Any]) -> Any:
    file, name = row
    return compile("0", file, "exec").replace(co_name=str(name))


_READERS: dict[str, Any] = {
    "value": lambda r, v: freeze.ValueNumber(v),
    "enum": lambda r, v: r.cls(v[0])[v[1]],
    "integer": lambda r, v: int(v),
    "float": lambda r, v: float.fromhex(v),
    "dtype": lambda r, v: by_name(v),
    "kernel": lambda r, v: r.kernels[v],
    "constant": Reader.constant,
    "device": Reader.device,
    "array": lambda r, v: r.arrays[v],
    "operation": Reader.operation,
    "class": Reader.cls,
    "code": _code,
    "product": lambda r, v: layout(r.value(v[0]), r.value(v[1]), r.arrays[v[2]]),
    "list": lambda r, v: [*map(r.value, v)],
    "dict": lambda r, v: {r.value(k): r.value(x) for k, x in v},
    "set": lambda r, v: frozenset(map(r.value, v)),
    "slice": lambda r, v: slice(*map(r.value, v)),
    "range": lambda r, v: range(*v),
    "complex": lambda r, v: complex(*map(float.fromhex, v)),
    "bytes": lambda r, v: base64.b85decode(v),
    "ellipsis": lambda r, v: ...,
    "scalar": lambda r, v: r.arrays[v][()],
    "type": lambda r, v: np.dtype(v),
    "reference": lambda r, v: v,
}
