"""Loads the native code that goes through the nodes of programs and makes those of templates
(`graph_code.py`), in processes that evaluate many or large ones."""

import ctypes
import sys
from typing import Any

from ..ir import op
from ..ir.node import Node, serials
from ..text import structure
from ..trace import template
from . import background, graph_code, kernel, native, programs

WORDS, LITERALS = 1 << 16, 1 << 11
# Operands after which the code is loaded, if the disk cache has it, and after which it is compiled,
# once a compiler is loaded, or without one.
OFTEN, MANY, FIRST = 1 << 12, 1 << 13, 1 << 17

_Literal = programs.structure("Literal", "dtype", "bits", "number", "stamp")
_FUNCTIONS = {
    "integer": "PyLong_AsLongLong", "unsigned": "PyLong_AsUnsignedLongLongMask",
    "number": "PyLong_FromLongLong", "append": "PyList_Append",
    "bytes": "PyBytes_FromStringAndSize", "tuple": "PyTuple_New", "next": "PyIter_Next",
    "allocate": "PyType_GenericAlloc", "incref": "Py_IncRef", "decref": "Py_DecRef",
}  # fmt: skip
_OBJECTS = programs.OBJECTS | {"node_type": Node, "serials": serials}
_Scan = programs.structure(
    "Scan", *_FUNCTIONS, *_OBJECTS, "stamp", "length", "failed", "literals_met", "owner",
    plain=(native.Slot, 256), literals=(_Literal, 2 * LITERALS), key=(native.Slot, WORDS),
)  # fmt: skip


def loaded(compiles: bool = True) -> dict[str, int]:
    """Returns the addresses of the code's functions; nothing if it does not fit to the interpreter,
    or is not in the disk cache and this `compiles` nothing."""
    found = programs.layouts()
    if found is None:
        return {}
    structures, constants = found
    node = structures["node"]
    structures = {"s": _Scan, "literal": _Literal, "slot": native.Slot, "node": node}
    constants = constants | {
        "WORDS": WORDS, "LITERALS": LITERALS, "FRACTION": (1 << 52) - 1,
        "MARK": node.mark.offset, "ID": node.id.offset,
    }  # fmt: skip
    names = ("collect", "remake")
    return native.addresses(graph_code.CODE, structures, constants, names, compiles)


def functions(places: dict[str, int]) -> tuple[Any, Any]:
    """Returns the code as functions; see `structure.collect` and `template.remake`."""
    memory = ctypes.create_string_buffer(ctypes.sizeof(_Scan))
    s: Any = _Scan.from_buffer(memory)
    for name, function in _FUNCTIONS.items():
        setattr(s, name, native.address_of(getattr(ctypes.pythonapi, function)))
    for name, thing in _OBJECTS.items():
        setattr(s, name, id(thing))
    for o in op.TABLE.values():
        if o.plain:
            k = id(o) >> 4
            while s.plain[k % 256].value:
                k += 1
            s.plain[k % 256].value = id(o)
    _kept.append(memory)
    owner = ctypes.addressof(s)
    return tuple([native.bound(name, place, owner) for name, place in places.items()])


_kept: list[Any] = []  # memory that native code uses
_coming: Any = None


def load(operands: int) -> int:
    """Loads the code, or has it compiled in the background, after Python has visited a number of
    operands. Returns after how many to call this again, or 0."""
    global _coming
    if kernel.tier == "numpy":
        return 0
    places: dict[str, int] | None = None
    if operands < MANY:
        places = loaded(compiles=False) or None
    elif _coming is None:
        if operands >= FIRST or "llvmlite" in sys.modules:
            _coming = background.submit(loaded)
    elif _coming.done():
        places = _coming.result()
    if places is None:
        return operands + OFTEN
    if places:
        structure.collect, template.remake = functions(places)
    return 0
