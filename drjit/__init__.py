"""Array programs traced into kernels: the public names, grouped by topic."""

# ruff: noqa: E402

import gc as _gc
import importlib as _importlib
import itertools as _itertools
from types import ModuleType as _Module
from typing import Any as _Any

# Nothing created here is garbage, but looking for it would take a tenth of the import time.
_collects = _gc.isenabled()
_gc.disable()
# The classes of the objects so far, as `collector.every_object` would find them.
_every_object = _itertools.chain.from_iterable(_itertools.starmap(_gc.get_objects, ((),)))
_classes_before = [*map(type, _every_object)]

from .jit.run import modules as _modules

_modules.install()  # before what may come from there

from ._conflict import warn as _warn_of_conflict

_warn_of_conflict()

from . import auto, cuda, llvm, scalar
from ._names import MODULES as _MODULES
from ._names import OPERATIONS as _OPERATIONS
from ._names import TYPES as _TYPES
from .array import table as _table
from .array.base import ArrayBase
from .array.meta import DYNAMIC as Dynamic
from .array.meta import VarState
from .jit import collector as _collector
from .jit import frames as _frames
from .jit.backend import JitBackend
from .jit.flags import JitFlag, flag, scoped_set_flag, set_flag
from .jit.ir.dtype import VarType
from .jit.ir.op import ReduceMode, ReduceOp
from .jit.log import LogLevel, log_level, set_log_level

for _function in (flag, set_flag, log_level, set_log_level):
    _frames.guard(_function)
_frames.guard_members(scoped_set_flag)

__version__ = "0.1.0"

__all__ = sorted(
    {name for name, value in globals().items() if name[0] != "_" and not isinstance(value, _Module)}
    | {"auto", "cuda", "detail", "llvm", "scalar"}
    | _MODULES.keys()
)

# Modules that are imported on first use.
_LAZY = ("ast", "detail", "hashgrid", "interop", "nn", "opt", "random", "texture")


_OF_TYPES = ("array.annotations", "function.signature")


@_frames.guard
def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        found = globals()[name] = _frames.guard(getattr(_module(_MODULES[name]), name))
        return found
    if name in _LAZY:
        return _module(name)
    text = f"module {__name__!r} has no attribute {name!r}"
    if name[:1] != "_":
        text += _module("array.foreign_names").module_hint(name)
    raise AttributeError(text)


def __dir__() -> list[str]:
    # For completion, without what only annotations of generic functions contain.
    variables = {n for n, module in _MODULES.items() if module in _OF_TYPES} - {"AnyArray"}
    return sorted({*globals(), *_LAZY, *_MODULES} - variables)


def _module(name: str) -> _Any:
    """Imports a module of the package. Finalizers are held back meanwhile, because one might wait
    for a thread that is importing the same module."""
    with _collector.paused():
        return _importlib.import_module(f".{name}", __name__)


def _type(name: str) -> _Any:
    """Returns a function that gives a type of a namespace. It imports the type's module, which
    replaces the function in `table.extras` by its own."""

    def find(namespace: str) -> _Any:
        _module(_TYPES[name])
        return _table.extras[name](namespace)

    return find


def _complete(kind: str) -> None:
    """Imports what defines operations of arrays of a kind."""
    for module in ("function.ad.grad", *_OPERATIONS.get(kind, ())):
        _module(module)


_table.extras.update({name: _type(name) for name in _TYPES})
_table.importers.append(_complete)

_collector.hide_objects(_classes_before)
del _classes_before, _every_object
if _collects:
    _gc.enable()
