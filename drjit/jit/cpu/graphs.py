"""Loads the native code that goes through the nodes of programs and makes those of templates
(`graph_code.py`), in processes that evaluate many or large ones."""

import ctypes
import sys
from typing import Any

from ..ir import dtype as dt
from ..ir import op
from ..text import structure
from ..trace import template
from . import background, graph_code, kernel, memory, native, programs

WORDS, LITERALS = 1 << 16, 1 << 11
NUMBERS = 1 << 12
"""Positions of nodes below this are numbers made once."""
# Operands after which the code is loaded, if the disk cache has it, and after which it is compiled,
# once a compiler is loaded, or without one.
OFTEN, MANY, FIRST = 1 << 12, 1 << 13, 1 << 17

_DIGIT = int.__basicsize__  # where the digits of a number begin
_Literal = programs.structure("Literal", "dtype", "bits", "number", "stamp")
_FUNCTIONS = {
    "integer": "PyLong_AsLongLong", "unsigned": "PyLong_AsUnsignedLongLongMask",
    "number": "PyLong_FromLongLong", "append": "PyList_Append",
    "bytes": "PyBytes_FromStringAndSize", "tuple": "PyTuple_New", "next": "PyIter_Next",
    "allocate": "PyType_GenericAlloc", "incref": "Py_IncRef", "decref": "Py_DecRef",
}  # fmt: skip
_Scan = programs.structure(
    "Scan", *_FUNCTIONS, *programs.OBJECTS, "stamp", "length", "failed", "literals_met", "owner",
    "numbers",
    literals=(_Literal, 2 * LITERALS), key=(native.Slot, WORDS),
)  # fmt: skip


def loaded(compiles: bool = True) -> dict[str, int]:
    """Returns the addresses of the code's functions; nothing if it does not fit to the interpreter,
    or is not in the disk cache and this `compiles` nothing."""
    found = programs.layouts()
    largest = (1 << 30) - 1
    if found is None or any(programs.word_at(id(n) + _DIGIT) & largest != n for n in (0, largest)):
        return {}
    structures, constants = found
    node = structures["node"]
    structures = {
        **{"s": _Scan, "literal": _Literal, "slot": native.Slot, "node": node, "operand": node},
        "op": programs.layout(object.__new__(op.Op), "code"),
        "dtype": programs.layout(object.__new__(dt.DType), "number"),
    }
    constants = constants | {
        "WORDS": WORDS, "LITERALS": LITERALS, "FRACTION": (1 << 52) - 1,
        "NUMBERS": NUMBERS, "DIGIT": _DIGIT, "LARGEST_DIGIT": largest,
        "MARK": node.mark.offset, "ID": node.id.offset,
        "PLAIN": structure.PLAIN, "IS_LITERAL": structure.IS_LITERAL,
        "IS_BUFFER": structure.IS_BUFFER, "IS_STATE": structure.IS_STATE,
        "TYPE_AND_DATA": structure.TYPE_AND_DATA, "TYPE_ONLY": structure.TYPE_ONLY,
        "CHECK": structure.CHECK, "BODIES": structure.BODIES,
    }  # fmt: skip
    names = ("collect", "remake")
    # Programs of a second compile this while they wait for kernels. Level 0 takes 40% of the time
    # of level 2, and its code 28 rather than 23 ns for an operand.
    return native.addresses(graph_code.CODE, structures, constants, names, compiles, level=0)


def functions(places: dict[str, int]) -> tuple[Any, Any]:
    """Returns the code as functions; see `structure.collect` and `template.remake`."""
    base, address = memory.from_system(ctypes.sizeof(_Scan))  # pages that few programs all touch
    s: Any = _Scan.from_address(address)
    programs.set_addresses(s, _FUNCTIONS, programs.OBJECTS)
    numbers = [*range(NUMBERS)]
    s.numbers = programs.word_at(id(numbers) + programs.LIST)
    _kept.extend((base, numbers))
    owner = ctypes.addressof(s)
    return tuple([native.bound(name, place, owner) for name, place in places.items()])


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
