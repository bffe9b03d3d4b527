"""Loads the native code that goes through the nodes of programs and makes those of templates
(`native/walker.py`), in processes that evaluate many or large ones."""

import ctypes
import sys
from typing import Any

from ..native import loader, objects
from ..text import structure
from ..trace import template
from . import background, kernel, memory

# Operands after which the code is loaded, if the disk cache has it, and after which it is compiled,
# once a compiler is loaded, or without one.
OFTEN, MANY, FIRST = 1 << 12, 1 << 13, 1 << 17

_Walk = objects.layout(objects.Walk)


def loaded(compiles: bool = True) -> dict[str, int]:
    """Returns the addresses of the code's functions; nothing if it does not fit to the interpreter,
    or is not in the disk cache and this `compiles` nothing."""
    if not objects.are_known():
        return {}
    # Programs of a second compile this while they wait for kernels. Level 0 takes 40% of the time
    # of level 2, and its code 28 rather than 23 ns for an operand.
    return loader.addresses("walker", ("collect", "remake"), compiles, level=0)


def functions(places: dict[str, int]) -> tuple[Any, Any]:
    """Returns the code as functions; see `structure.collect` and `template.remake`."""
    base, address = memory.from_system(ctypes.sizeof(_Walk))  # pages that few programs all touch
    s: Any = _Walk.from_address(address)
    objects.fill(s)
    numbers = [*range(objects.NUMBERS)]
    s.numbers = objects.word_at(id(numbers) + objects.LIST)
    _kept.extend((base, numbers))
    owner = ctypes.addressof(s)
    return tuple([loader.bound(name, place, owner) for name, place in places.items()])


_kept: list[Any] = []  # memory that native code uses
_coming: Any = None
_asked = False  # whether the disk cache has been


def load(operands: int) -> int:
    """Loads the code, or has it compiled in the background, after Python has visited a number of
    operands. Returns after how many to call this again, or 0."""
    global _asked, _coming
    if kernel.tier == "numpy":
        return 0
    places: dict[str, int] | None = None
    if not _asked:
        _asked = True
        places = loaded(compiles=False) or None
    elif _coming is None:
        if operands >= FIRST or (operands >= MANY and "llvmlite" in sys.modules):
            _coming = background.submit(loaded)
    elif _coming.done():
        places = _coming.result()
    if places is None:
        return operands + OFTEN
    if places:
        structure.collect, template.remake = functions(places)
    return 0
