"""The modules that hold the types, such as `drjit.llvm`. A type becomes an entry of its module when
it is first used, and all of them do when someone looks at the entries, as `vars` does: importing
the modules builds no class.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import table

_chosen = "llvm"
_stored: Any = vars(ModuleType)["__dict__"]


def chosen() -> str:
    """The namespace that `drjit.auto` stands for."""
    return _chosen


def choose(namespace: str) -> None:
    """Sets the namespace that `drjit.auto` stands for."""
    global _chosen
    _chosen = namespace
    for module in (sys.modules["drjit.auto"], sys.modules["drjit.auto.ad"]):
        for name in table.names(""):
            _entries(module).pop(name, None)


def _entries(module: ModuleType) -> dict[str, Any]:
    return _stored.__get__(module)


def _source(module: str) -> str:
    """The namespace whose types a module has; types with derivatives only where there are any."""
    found = module.removeprefix("drjit.").replace("auto", _chosen)
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


def serve(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Makes a module that is being imported one of types: gives its `__getattr__` and `__dir__`."""
    made = sys.modules[module]
    made.__class__ = _Namespace
    entries = _entries(made)

    def get(name: str) -> Any:
        found = entries[name] = table.attribute(_source(module), name)
        return found

    def names() -> list[str]:
        return sorted({*entries, *table.names(_source(module))})

    return get, names
