"""Loads native code in processes that trace much, after so many nodes that it pays: that of all
rooms in `substitutes.rooms`, each from a library of its own.
"""

import sys
from functools import partial
from importlib import import_module
from math import inf
from typing import Any

from .. import substitutes
from ..native import loader, objects
from . import background, variants

COMPILED, FIRST = 1 << 14, 1 << 16
"""How much later a process has it compiled in the background, once for all that follow, if the disk
cache does not have it: where a compiler is there already, and where it has to be loaded."""

_missing: list[Any] | None = None
"""The rooms whose code is not there, once the disk cache has been asked."""
_coming: list[tuple[Any, background.Task]] = []


def rooms() -> list[Any]:
    """Returns the modules that native code is for."""
    return [import_module(name) for name in substitutes.rooms]


def places(room: Any, compiles: bool = True) -> dict[str, int]:
    """Returns the addresses of the functions that a room needs; nothing if they do not fit to the
    interpreter, or are not in the disk cache and this `compiles` nothing."""
    rooms()  # all of them know objects that native code reads
    if not (objects.are_known() and room.fits()):
        return {}
    return loader.addresses(room.MODULES, room.exported(), compiles, more=room.definitions())


def advance(nodes: int) -> float:
    """Called when a process has traced so many nodes, and first when it is time to look into the
    disk cache; returns when to call it again, see `substitutes.milestone`."""
    global _missing
    if variants.pinned == "numpy":
        return inf
    if _missing is None:
        _missing = [room for room in rooms() if not _install(room, places(room, False))]
        if _missing:
            return nodes + (COMPILED if "llvmlite" in sys.modules else FIRST)
    elif not _coming:
        for room in _missing:
            if task := background.submit(partial(places, room)):
                _coming.append((room, task))
    for room, task in _coming[:]:
        if task.done():
            _coming.remove((room, task))
            _missing.remove(room)
            _install(room, task.result())
    return nodes + substitutes.FIRST if _missing else inf


def _install(room: Any, found: dict[str, int]) -> bool:
    """Has the code of a room do what it can; returns whether there is any."""
    if found:
        room.install(found)
    return bool(found)
