"""The table of types: every name in the namespaces follows from a few rules, and a class is built
on first use.

`find` returns the class for a namespace, kind, element type and shape; `attribute` serves the
namespace modules.
"""

import sys
import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from ..jit import collector, device, frames, locks
from ..jit.backend import JitBackend
from ..jit.ir import dtype as dt
from . import inline, recorders
from .base import ArrayBase, type_label
from .meta import DYNAMIC, LEAF_NAME, SUFFIX, ArrayMeta, type_name


def python_type(dtype: dt.DType) -> type:
    """Returns the Python type of an entry."""
    return bool if dtype.is_mask else float if dtype.is_float else int


_ALL = tuple(SUFFIX)
_WITH_MASK = (dt.mask, dt.f16, dt.f32, dt.f64)
_FLOATS = (dt.f16, dt.f32, dt.f64)
_SQUARES = ((2, 2), (3, 3), (4, 4))
_BLOCKS = ((3, 3, 4), (4, 4, 1), (4, 4, 3), (4, 4, 4))

# kind, element types, sizes of the nesting levels
RULES = (
    ("leaf", _ALL, ((),)),
    ("vector", _ALL, ((0,), (1,), (2,), (3,), (4,), (DYNAMIC,))),
    ("vector", _WITH_MASK, (*_SQUARES, (3, 4), (4, 1), (4, 3), *_BLOCKS)),
    ("matrix", _FLOATS, (*_SQUARES, *_BLOCKS)),
    ("complex", (dt.f32, dt.f64), ((2,),)),
    ("quaternion", _FLOATS, ((4,),)),
    ("tensor", _ALL, ((),)),
)
SPECS: dict[str, tuple[str, dt.DType, tuple[int, ...]]] = {
    type_name(kind, dtype, dims): (kind, dtype, dims)
    for kind, dtypes, shapes in RULES
    for dtype in dtypes
    for dims in shapes
}
ALIASES = {"Float32": "Float", "Int32": "Int", "UInt32": "UInt"}
# The leaf types of drjit.scalar are Python's, which accept any width.
SCALARS = {name: python_type(dtype) for dtype, name in LEAF_NAME.items()}
SCALARS |= {"Float32": float, "Int32": int, "UInt32": int, "Int16": int, "UInt16": int}

extras: dict[str, Callable[[str], Any]] = {}
"""Further types of the namespaces: name -> function that returns the type for a namespace such as
`llvm.ad`. For modules above this one.
"""


def derive(name: str, base: type, members: Callable[[str], dict[str, Any]]) -> None:
    """Creates a class for every namespace, derived from a base; `members(namespace)` returns its
    own class attributes."""

    def derived(namespace: str) -> type:
        cls = _derived.get((namespace, name))
        if cls is None:
            common = {"__module__": f"drjit.{namespace}", "__doc__": base.__doc__, "__slots__": ()}
            cls = type(name, (base,), common | members(namespace))
        return _derived.setdefault((namespace, name), cls)

    extras[name] = derived


importers: list[Callable[[str], None]] = []
"""Functions that import what classes of a kind need. They are called before the lock is taken, as
another thread that imports the same module may need a class."""
finishers: list[Callable[[type], None]] = []
"""Hooks called for each class when it is built. For modules above this one."""

_SLOTS = {"leaf": ("_node", "_var"), "tensor": ("_array", "_shape")}
_classes: dict[tuple[str, str], type] = {}
_derived: dict[tuple[str, str], type] = {}
# Classes being built refer to one another; other threads see them when all are complete.
_unfinished: dict[tuple[str, str], type] = {}
_lock = threading.RLock()
# While this is held, no finalizer runs, and the program's lock is not taken.
_leaf = locks.leaf("the lock of the classes")


def for_each(finish: Callable[[type], None]) -> None:
    """Calls a function for every class, both those already built and those built later."""
    with collector.paused(), _lock, _leaf:
        for cls in _classes.values():
            finish(cls)
        finishers.append(finish)


def find(namespace: str, kind: str, dtype: dt.DType, dims: tuple[int, ...] = ()) -> Any:
    """Returns the class of a kind, element type and shape (excluding lanes).

    Raises:
        RuntimeError: there is no such type.
    """
    name = type_name(kind, dtype, dims)
    cls = _classes.get((namespace, name))
    if cls is not None:
        return cls
    if namespace == "scalar" and kind == "leaf":
        return python_type(dtype)
    if name not in SPECS:
        raise RuntimeError(
            f"the operation needs a type drjit.{namespace}.{name}, which does not exist"
        )
    return build(namespace, name)


@cache
def related(cls: Any, **changes: Any) -> Any:
    """Returns the class whose descriptor differs from that of `cls` in the given fields: `dtype`,
    `kind`, `dims`, `namespace`."""
    fields = {name: getattr(cls.__meta__, name) for name in ("namespace", "kind", "dtype", "dims")}
    return find(**(fields | changes))


def build(namespace: str, name: str) -> type:
    """Returns the class of that name, building it on first use."""
    kind, dtype, dims = SPECS[name]
    if not _lock._is_owned():  # type: ignore[attr-defined]
        for load in importers:
            for k in (kind, "vector", "leaf"):
                load(k)
        device.find(ArrayMeta(namespace, kind, dtype, dims).backend)
        recorders.prepare()
    with collector.paused(), _lock, _leaf:
        key = (namespace, name)
        cls = _classes.get(key) or _unfinished.get(key)
        if cls is not None:
            return cls
        outermost = not _unfinished
        try:
            cls = _build(namespace, name)
            if outermost:
                _classes.update(_unfinished)
        finally:
            if outermost:
                _unfinished.clear()
        return cls


def _build(namespace: str, name: str) -> type:
    kind, dtype, dims = SPECS[name]
    meta = ArrayMeta(namespace, kind, dtype, dims)
    is_leaf, is_tensor = kind == "leaf", kind == "tensor"
    slots = _SLOTS.get(kind, ("_components",))[: 1 + (meta.is_diff or is_tensor)]
    place = device.find(meta.backend)
    if place is not None and not place.on_host:
        slots += ("_exported",)  # see `foreign`
    of_numbers = namespace == "scalar" and len(dims) == 1
    if of_numbers:
        slots = ("_numbers",)
    members: dict[str, Any] = {
        "__slots__": slots,
        "__module__": f"drjit.{namespace}",
        "__doc__": _described(meta, name),
        "__meta__": meta,
        "_dtype": dtype,
        "_kind": kind if is_leaf or is_tensor else "nested",
        "_size": dims[0] if dims and dims[0] != DYNAMIC else None,
        "_diff": meta.is_diff,
        "_backend": meta.backend,
        "_namespace": namespace,
        "_device": place,
        "_usable": not meta.is_jit or place is not None,
    }
    cls: Any = type(name, (ArrayBase,), members)
    _unfinished[namespace, name] = cls
    if of_numbers:
        cls._components = property(_number_list, cls._numbers.__set__)
    if is_leaf and not cls._usable:
        cls._node = _Unavailable()
    cls._leaf = cls if is_leaf else find(namespace, "leaf", dtype)
    cls.Mask = find(namespace, kind if is_leaf or is_tensor else "vector", dt.mask, dims)
    if is_leaf:
        cls.Value, cls.Array = python_type(dtype), cls
        methods = inline.leaf_operators(cls, cls.Mask, ArrayBase)
    elif is_tensor:
        cls.Value = python_type(dtype)
        scalar = namespace == "scalar"
        cls.Array = find(namespace, "vector", dtype, (DYNAMIC,)) if scalar else cls._leaf
        methods = {}
    else:
        rest = dims[1:]
        cls.Value = find(namespace, "vector" if rest else "leaf", dtype, rest)
        cls.Array = cls if kind == "vector" else find(namespace, "vector", dtype, dims)
        if cls.Value is cls._leaf and cls._size and cls._usable and namespace != "scalar":
            cls._part = cls._leaf
        methods = inline.nested_operators(cls, ArrayBase)
    for method, function in methods.items():
        setattr(cls, method, function)
    for finish in finishers:
        finish(cls)
    return cls


_NOUNS = {
    "leaf": "One-dimensional array", "tensor": "Array of any shape", "vector": "Vector",
    "matrix": "Matrix", "complex": "Complex number", "quaternion": "Quaternion",
}  # fmt: skip


def _described(meta: ArrayMeta, name: str) -> str:
    """Returns the docstring of a class."""
    size = ""
    if meta.kind in ("vector", "matrix"):
        sizes = ["any number of" if n == DYNAMIC else str(n) for n in meta.dims]
        size = f" of {' x '.join(sizes)} components"
    t = meta.dtype
    numbers = "truth values" if t.is_mask else f"{t.name} numbers"
    numbers += "" if meta.is_jit else " of Python"
    derivatives = ", with derivatives" if meta.is_diff and t.is_float else ""
    return (
        f"{_NOUNS[meta.kind]}{size}: {numbers}{derivatives}.\n\n"
        f"`{name}(...)` takes numbers, sequences, and arrays of this and of other libraries."
    )


def _number_list(self: Any) -> list:
    """Returns the entries of an array of Python numbers, which may be in memory shared with
    NumPy."""
    numbers = self._numbers
    return numbers if type(numbers) is list else numbers.tolist()


class _Unavailable:
    """Takes the place of the traced value of arrays whose backend is unavailable, so that no such
    array can be created."""

    def __set__(self, array: Any, _: object) -> None:
        refuse(type(array))


def refuse(cls: Any) -> NoReturn:
    """Always raises a RuntimeError: the backend of the class cannot be used, or it is the base
    class, which has no entries."""
    if cls is ArrayBase:
        raise RuntimeError("drjit.ArrayBase is not constructible: use one of its subclasses")
    missing_cuda(type_label(cls))


def missing_cuda(what: str) -> NoReturn:
    """Always raises a RuntimeError: `what`, which the user called, needs the CUDA backend."""
    if device.find(JitBackend.CUDA) is not None:
        raise RuntimeError(f"{what}: this package does not support this yet")
    missing = device.unavailable_reason(JitBackend.CUDA)
    raise RuntimeError(
        f"{what}: the CUDA backend is not available: {missing} Without an NVIDIA GPU, use "
        "drjit.llvm."
    )


def names(namespace: str) -> list[str]:
    """Returns all names available in a namespace."""
    every = {*SPECS, *ALIASES, *extras}
    return sorted(every - {"Event"} | {"Int16", "UInt16"} if namespace == "scalar" else every)


def attribute(namespace: str, name: str) -> Any:
    """Returns the type of that name in a namespace.

    Raises:
        AttributeError: there is none.
    """
    if namespace == "scalar" and name in SCALARS:
        return SCALARS[name]
    canonical = ALIASES.get(name, name)
    if canonical in SPECS:
        return build(namespace, canonical)
    if name in extras:
        return extras[name](namespace)
    raise AttributeError(f"module 'drjit.{namespace}' has no type {name!r}")


# The modules that contain the types, such as `drjit.llvm`. A type is added to its module on first
# use, and all of them are when the module's entries are listed, as by `vars`: importing the modules
# builds no class.

_auto_namespace = ""
_stored: Any = vars(ModuleType)["__dict__"]


def auto_namespace() -> str:
    """Returns the namespace behind `drjit.auto`: the one that was chosen, or else `cuda` if there
    is a GPU, or else `llvm`."""
    if not _auto_namespace:
        set_auto_namespace("llvm" if device.find(JitBackend.CUDA) is None else "cuda")
    return _auto_namespace


def set_auto_namespace(namespace: str) -> None:
    """Sets the namespace behind `drjit.auto`."""
    global _auto_namespace
    _auto_namespace = namespace
    for module in (sys.modules["drjit.auto"], sys.modules["drjit.auto.ad"]):
        for name in names(""):
            _entries(module).pop(name, None)


def _entries(module: ModuleType) -> dict[str, Any]:
    return _stored.__get__(module)


def _source(module: str) -> str:
    """Returns the namespace whose types a module contains; differentiable types only if there are
    any."""
    namespace = module.removeprefix("drjit.")
    if namespace.startswith("auto"):
        namespace = namespace.replace("auto", auto_namespace())
    return "scalar" if namespace == "scalar.ad" else namespace


class _Namespace(ModuleType):
    """A module of types."""

    @property
    def __dict__(self) -> dict[str, Any]:
        entries = _entries(self)
        for name in names(_source(self.__name__)):
            if name not in entries:
                getattr(self, name)
        return entries

    def __reduce__(self) -> Any:
        """Functions that refer to it can be sent to other processes."""
        return import_module, (self.__name__,)


def serve(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Turns a module that is being imported into a namespace of types: returns its `__getattr__`
    and `__dir__`."""
    namespace = sys.modules[module]
    namespace.__class__ = _Namespace
    entries = _entries(namespace)

    @frames.guard
    def get(name: str) -> Any:
        found = entries[name] = attribute(_source(module), name)
        return found

    return get, lambda: sorted({*entries, *names(_source(module))})
