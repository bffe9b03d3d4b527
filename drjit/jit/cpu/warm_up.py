"""Loads native code in processes that trace enough nodes for it to pay: that of each module in
`substitutes.modules`, from a library of its own.
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
"""After how many more nodes a process has the code compiled in the background, once for all later
processes, if the disk cache lacks it: where a compiler is loaded already, and where it is not."""
AGAIN = 1 << 12
"""After how many nodes to check whether it has been compiled."""

_due = dict(substitutes.modules)
"""The number of nodes at which something is to be done for a module whose code is not loaded."""
_tasks: dict[str, background.Task | None] = {}
"""The tasks that compile the code of modules; None if the disk cache lacks it, but it is too early
to compile it."""


def places(module: Any, compiles: bool = True) -> dict[str, int]:
    """Returns the addresses of the functions that a module needs; nothing if they do not fit the
    interpreter, or are not in the disk cache and this `compiles` nothing."""
    if not (objects.are_known(module.OBJECTS) and module.fits()):
        return {}
    names, more = module.exported(), module.definitions()
    return loader.addresses(module.MODULES, names, module.OBJECTS, compiles, more=more)


def advance(nodes: int) -> float:
    """Called when a process has traced so many nodes that it is time to do something for a module;
    returns when to call it again, see `substitutes.milestone`."""
    if variants.pinned == "numpy" or not _due:
        return inf
    name = min(_due, key=_due.__getitem__)
    module = import_module(name)
    if name not in _tasks:
        code, _tasks[name] = places(module, False), None
        done, more = bool(code), COMPILED if "llvmlite" in sys.modules else FIRST
    else:
        task = _tasks[name] = _tasks[name] or background.submit(partial(places, module))
        done, more = task is not None and task.done(), AGAIN
        code = task.result() if done and task else {}
    if code:
        module.install(code)
    if done:
        del _due[name]
    else:
        _due[name] = nodes + more
    return min(_due.values(), default=inf)
