"""The modules that contain the types, such as `drjit.llvm`. A type is added to its module on first
use, and all of them are when the module's entries are listed, as by `vars`: importing the modules
builds no class.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from ..jit import frames
from ..jit.backend import JitBackend
from ..jit.device import find
from . import table

_chosen = ""
_stored: Any = vars(ModuleType)["__dict__"]


def chosen() -> str:
    """Returns the namespace behind `drjit.auto`: the one that was chosen, or else `cuda` if there
    is a GPU, or else `llvm`."""
    if not _chosen:
        choose("llvm" if find(JitBackend.CUDA) is None else "cuda")
    return _chosen


def choose(namespace: str) -> None:
    """Sets the namespace behind `drjit.auto`."""
    global _chosen
    _chosen = namespace
    for module in (sys.modules["drjit.auto"], sys.modules["drjit.auto.ad"]):
        for name in table.names(""):
            _entries(module).pop(name, None)


def _entries(module: ModuleType) -> dict[str, Any]:
    return _stored.__get__(module)


def _source(module: str) -> str:
    """Returns the namespace whose types a module contains; differentiable types only if there are
    any."""
    found = module.removeprefix("drjit.")
    if found.startswith("auto"):
        found = found.replace("auto", chosen())
    return "scalar" if found == "scalar.ad" else found


class _Namespace(ModuleType):
    """A module of types."""

    @property
    def __dict__(self) -> dict[str, Any]:
        entries = _entries(self)
        for name in table.names(_source(self.__name__)):
            if name not in entries:
                getattr(self, name)
        return entries

    def __reduce__(self) -> Any:
        """Functions that refer to it can be sent to other processes."""
        return import_module, (self.__name__,)


def serve(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Turns a module that is being imported into a namespace of types: returns its `__getattr__`
    and `__dir__`."""
    made = sys.modules[module]
    made.__class__ = _Namespace
    entries = _entries(made)

    @frames.guard
    def get(name: str) -> Any:
        found = entries[name] = table.attribute(_source(module), name)
        return found

    def names() -> list[str]:
        return sorted({*entries, *table.names(_source(module))})

    return get, names
