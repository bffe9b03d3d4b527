"""Machine code in memory. An image is ready to run: the sections of an object file, laid out and
linked, so that a later process only copies them into memory. That takes a tenth of the time of
LLVM's linker, and neither LLVM nor the compiler needs to be loaded.

It leans on the ELF format (System V ABI, chapter 4 and the supplement for AMD64), and handles what
the compiler emits for kernels: position-independent code with constants, and calls of functions of
the C library. For anything else, other formats included, there is no image, and LLVM links.
"""

import ctypes
import mmap
import struct
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

from ..tuples import NamedTuple
from . import foreign

_HEAD = b"image "
# The start of a 64-bit ELF file for AMD64: magic, class, byte order, version; type and machine.
_ELF, _AMD64 = b"\x7fELF\2\1\1", struct.pack("<HH", 1, 62)
_SECTION, _SYMBOL, _RELOCATION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"), "<QII q"
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _UNWIND = 1, 2, 4, 8, 0x70000001
_WRITE, _ALLOCATE, _TLS = 1, 2, 0x400
_UNDEFINED, _RESERVED = 0, 0xFF00
_PC32, _GOTPCREL, _PLT32, _GOTPCRELX, _REX_GOTPCRELX = 2, 9, 4, 41, 42
# `jmp *[rip + 0]`, and the address: a call reaches functions at any distance through it.
_JUMP = b"\xff\x25\0\0\0\0" + bytes(8)
_READ_EXECUTE = 5


class _Unsupported(Exception):
    """The object file has something that an image cannot contain."""


class _Object(NamedTuple):
    """The tables of an object file: sections, names of sections, symbols."""

    data: bytes
    sections: list[tuple]
    names: list[str]
    symbols: list[tuple[str, int, int]]  # name, section, offset


def build(code: bytes, exported: Sequence[str]) -> bytes:
    """Returns an image of an object file that exports these functions, or the file itself if it has
    something that an image cannot contain."""
    if sys.platform != "linux" or code[:7] != _ELF or code[16:20] != _AMD64:
        return code
    try:
        return _build(_read_tables(code), exported)
    except (_Unsupported, struct.error):
        return code


def is_image(code: bytes) -> bool:
    """Returns whether the code is an image."""
    return code.startswith(_HEAD)


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
        for part in head[len(_HEAD) :].decode().split("|")
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


def _read_tables(code: bytes) -> _Object:
    """Reads the tables of an object file."""
    (start,) = struct.unpack_from("<Q", code, 40)
    _, count, names_at = struct.unpack_from("<HHH", code, 58)
    sections = [_SECTION.unpack_from(code, start + k * _SECTION.size) for k in range(count)]
    names = [_string(code, sections[names_at][4] + s[0]) for s in sections]
    symbols = []
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind == _SYMTAB:
            strings = sections[link][4]
            for entry in _SYMBOL.iter_unpack(code[offset : offset + size]):
                symbols.append((_string(code, strings + entry[0]), entry[3], entry[4]))
    return _Object(code, sections, names, symbols)


def _string(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()


def _build(o: _Object, exported: Sequence[str]) -> bytes:
    data, places = _lay_out(o)
    calls: dict[str, int] = {}  # the places of jumps to functions of the process

    def place(symbol: int, through: bool, slot: int = 0) -> int:
        """The place of a symbol, or of the jump or the address that stands for it."""
        name, section, offset = o.symbols[symbol]
        if section in places and not through:
            return places[section] + offset
        if section != _UNDEFINED or not name or set(name) & set(" =|\n"):
            raise _Unsupported
        if name not in calls:
            data.extend(bytes(-len(data) % 16))
            calls[name] = len(data)
            data.extend(_JUMP)
        return calls[name] + slot

    for _, kind, _, _, offset, size, _, of, *_ in o.sections:
        if kind != _RELA or of not in places:
            continue
        for at, relocation, symbol, addend in struct.iter_unpack(
            "<QIIq", o.data[offset : offset + size]
        ):
            where = places[of] + at
            if relocation in (_PC32, _PLT32):
                target = place(symbol, False)
            elif relocation in (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX):
                target = place(symbol, True, 6)
            else:
                raise _Unsupported
            struct.pack_into("<i", data, where, target + addend - where)
    found = {name: places[section] + at for name, section, at in o.symbols if section in places}
    entries = [
        " ".join([f"{name}={offset}" for name, offset in part.items()])
        for part in (
            {name: found[name] for name in exported},
            {name: offset + 6 for name, offset in calls.items()},
        )
    ]
    return _HEAD + "|".join(entries).encode() + b"\n" + bytes(data)


def _lay_out(o: _Object) -> tuple[bytearray, dict[int, int]]:
    """Returns the contents of memory, and the places of the sections in it."""
    data, places = bytearray(), {}
    for k, (_, kind, flags, _, offset, size, _, _, align, _) in enumerate(o.sections):
        if not flags & _ALLOCATE or kind == _UNWIND or o.names[k] == ".eh_frame":
            continue
        if kind not in (_PROGBITS, _NOBITS) or (size and flags & (_WRITE | _TLS)):
            raise _Unsupported
        data.extend(bytes(-len(data) % max(align, 1)))
        places[k] = len(data)
        data.extend(o.data[offset : offset + size] if kind == _PROGBITS else bytes(size))
    return data, places
