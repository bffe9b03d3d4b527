"""Compiles native code, or finds it in the disk cache, and turns it into Python functions."""

import ctypes
import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from ..run import cache
from . import objects

_METH_O, _METH_FASTCALL = 0x8, 0x80


def addresses(
    modules: str,
    names: Sequence[str],
    kinds: Sequence[type] = (),
    compiles: bool = True,
    level: int = 2,
    more: dict[str, str] | None = None,
) -> dict[str, int]:
    """Returns the addresses of functions of some modules of this folder, which access objects of
    the `kinds` declared in `objects`. They come from the disk cache or are compiled at one of
    LLVM's levels of code generation; the result is empty if they are not in the cache and this
    `compiles` nothing. `more` are texts that define further functions, by the module in which their
    names have a meaning (see `language.module_text`)."""
    from ..target import image

    key = key_of(modules, names, kinds, level, more)
    entry = cache.get(key)
    if entry is None and not compiles:
        return {}
    code = entry.code if entry else compiled(modules, names, level, more)
    exported = sorted(names)
    library, found = image.load(code, exported)
    if entry is None:
        cache.put(key, modules, code, False)
    # Threads may still be inside while the interpreter shuts down: code is never unloaded.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    return dict(zip(exported, found, strict=True))


def key_of(
    modules: str,
    names: Sequence[str],
    kinds: Sequence[type] = (),
    level: int = 2,
    more: dict[str, str] | None = None,
) -> str:
    """Returns the key of functions in the disk cache; see `addresses`."""
    return cache.digest(modules, "native", *names, level, repr(more), objects.description(kinds))


def compiled(modules: str, names: Sequence[str], level: int, more: dict[str, str] | None) -> bytes:
    """Returns the machine code of some functions."""
    from ..target.simd import linker, llvm
    from . import language  # not needed if the code is in the cache

    found = {m: importlib.import_module(f".{m}", __package__) for m in modules.split()}
    functions = [
        f for m in found.values() for name, f in vars(m).items()
        if isinstance(f, FunctionType) and f.__module__ == m.__name__ and name in names
    ]  # fmt: skip
    text = language.module_text(functions, [(t, found[m]) for m, t in (more or {}).items()])
    code = llvm.object_code(text, False, in_memory=True, level=level)
    return linker.build(code, sorted(names))


def bound(name: str, function: int, *owner: int) -> Callable[..., Any]:
    """Returns native code as a Python function, whose first argument is a bytes object with the
    addresses `owner`. A call costs a fraction of one by ctypes, which converts each argument."""
    method = _method(name, function, _METH_FASTCALL, None)
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    words = b"".join([place.to_bytes(8, sys.byteorder) for place in owner])
    return create(ctypes.addressof(method), words, None)


def method(cls: type, name: str, function: int, text: str) -> Any:
    """Returns native code as a method of a class with one argument. The docstring `text` begins
    with the signature, as that of `int.__add__` does."""
    create = ctypes.pythonapi.PyDescr_NewMethod
    create.restype, create.argtypes = ctypes.py_object, (ctypes.py_object, ctypes.c_void_p)
    return create(cls, ctypes.addressof(_method(name, function, _METH_O, text.encode())))


slot_wrapper: Any = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, *[ctypes.c_void_p] * 2)(
    ("PyDescr_NewWrapper", ctypes.pythonapi)
)
"""Returns the attribute that puts a C function into a class's slot for a special method, given the
class, the address of Python's description of the slot, and that of the function."""


class _Method(ctypes.Structure):
    """A `PyMethodDef`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    ]


@functools.cache
def _method(name: str, function: int, flags: int, text: bytes | None) -> _Method:
    made = _Method(name.encode(), function, flags, text)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # functions refer to it
    return made
