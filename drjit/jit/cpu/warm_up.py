"""Loads native code in processes that trace much: all of it at once, from one library, after so
many nodes that it pays.
"""

import sys
from importlib import import_module
from math import inf

from ..native import functions, loader, objects
from . import background, kernel

COMPILED, FIRST = 1 << 14, 1 << 16
"""How much later a process has it compiled in the background, once for all that follow, if the disk
cache does not have it: where a compiler is there already, and where it has to be loaded."""

_coming: background.Task | None = None
_asked = False  # whether the disk cache has been
_installed = False


def places(compiles: bool = True) -> dict[str, int]:
    """Returns the addresses of the code's functions; nothing if it does not fit to the interpreter,
    or is not in the disk cache and this `compiles` nothing."""
    rooms = [import_module(name) for name in functions.rooms]
    if not objects.are_known() or not all(room.fits() for room in rooms):
        return {}
    modules = " ".join([room.MODULES for room in rooms])
    names = [name for room in rooms for name in room.exported()]
    more = {module: text for room in rooms for module, text in room.definitions().items()}
    return loader.addresses(modules, names, compiles, more=more)


def advance(nodes: int) -> float:
    """Called when a process has traced so many nodes, and first when it is time to look into the
    disk cache; returns when to call it again, see `functions.milestone`."""
    global _asked, _coming
    if _installed or kernel.tier == "numpy":
        return inf
    if not _asked:
        _asked = True
        if not (found := places(compiles=False)):
            return nodes + (COMPILED if "llvmlite" in sys.modules else FIRST)
        install(found)
        return inf
    if _coming is None:
        _coming = background.submit(places)
    elif _coming.done():
        install(_coming.result())
        return inf
    return nodes + functions.FIRST


def install(found: dict[str, int]) -> None:
    """Has the code at some addresses do what it can."""
    global _installed
    if found and not _installed:
        _installed = True
        for name in functions.rooms:
            import_module(name).install(found)
