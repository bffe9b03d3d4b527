"""Machine code in memory. An image is ready to run: the sections of an object file, laid out and
linked (`simd/linker.py`), so that a later process only copies them into memory. That takes a tenth
of the time of LLVM's linker, and neither LLVM nor the compiler needs to be loaded.
"""

import ctypes
import mmap
from collections.abc import Sequence
from functools import cache
from typing import Any

from . import foreign

HEAD = b"image "
_READ_EXECUTE = 5


def is_image(code: bytes) -> bool:
    """Returns whether the code is an image."""
    return code.startswith(HEAD)


class Loaded:
    """A kernel in memory: the addresses of its functions (`finish` is 0 if there is none), valid as
    long as this object lives.
    """

    __slots__ = ("_library", "finish", "kernel")

    def __init__(self, code: bytes, name: str, has_finish: bool):
        self._library, addresses = load(code, exports(name, has_finish))
        self.kernel, self.finish = addresses if has_finish else (addresses[0], 0)


def exports(name: str, has_finish: bool) -> list[str]:
    """Returns the names of the functions of a kernel."""
    return [name, f"{name}_finish"] if has_finish else [name]


def load(code: bytes, symbols: list[str]) -> tuple[Any, list[int]]:
    """Loads an image or an object file into memory; returns the object that keeps it there, and the
    addresses of the symbols."""
    if is_image(code):
        return _map(code, symbols)
    from .simd import llvm

    return llvm.link(code, symbols)


def _map(code: bytes, symbols: Sequence[str]) -> tuple[Any, list[int]]:
    """Makes an image executable; returns the object that keeps it in memory, and the addresses of
    the functions.

    Raises:
        OSError: the system refuses, or a function that the image calls does not exist.
    """
    head, _, data = code.partition(b"\n")
    exported, imported = [
        {name: int(offset) for name, offset in [entry.split("=") for entry in part.split()]}
        for part in head[len(HEAD) :].decode().split("|")
    ]
    memory = mmap.mmap(-1, max(len(data), 1))
    memory[: len(data)] = data
    for name, offset in imported.items():
        memory[offset : offset + 8] = _address(name).to_bytes(8, "little")
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if _protect()(start, len(memory), _READ_EXECUTE):
        raise OSError(ctypes.get_errno(), "memory cannot be made executable")
    return memory, [start + exported[symbol] for symbol in symbols]


@cache
def _protect() -> Any:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return function


def _address(name: str) -> int:
    """Returns the address of a function of this process."""
    found = foreign.symbols.get(name)
    if found is None:
        try:
            found = ctypes.cast(ctypes.CDLL(None)[name], ctypes.c_void_p).value
        except AttributeError:
            raise OSError(f"this process has no function {name!r}") from None
    return found or 0
