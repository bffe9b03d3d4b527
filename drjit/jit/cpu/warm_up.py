"""Loads native code in processes that trace much, after so many nodes that it pays: that of each
room in `substitutes.rooms`, from a library of its own.
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
AGAIN = 1 << 12
"""After how many nodes to look whether it has been."""

_due = dict(substitutes.rooms)
"""The number of nodes at which something is to be done for a room whose code is not there."""
_tasks: dict[str, background.Task | None] = {}
"""What compiles the code of a room, or None if the disk cache does not have it."""


def places(room: Any, compiles: bool = True) -> dict[str, int]:
    """Returns the addresses of the functions that a room needs; nothing if they do not fit to the
    interpreter, or are not in the disk cache and this `compiles` nothing."""
    if not (objects.are_known(room.OBJECTS) and room.fits()):
        return {}
    names, more = room.exported(), room.definitions()
    return loader.addresses(room.MODULES, names, room.OBJECTS, compiles, more=more)


def advance(nodes: int) -> float:
    """Called when a process has traced so many nodes, and it is time to do something for a room;
    returns when to call it again, see `substitutes.milestone`."""
    if variants.pinned == "numpy" or not _due:
        return inf
    name = min(_due, key=_due.__getitem__)
    room = import_module(name)
    if name not in _tasks:
        found, _tasks[name] = places(room, False), None
        done, more = bool(found), COMPILED if "llvmlite" in sys.modules else FIRST
    else:
        task = _tasks[name] = _tasks[name] or background.submit(partial(places, room))
        done, more = task is not None and task.done(), AGAIN
        found = task.result() if done and task else {}
    if found:
        room.install(found)
    if done:
        del _due[name]
    else:
        _due[name] = nodes + more
    return min(_due.values(), default=inf)
