"""Links object files to images (`target/image.py`), which later processes only copy into memory.

It leans on the ELF format (System V ABI, chapter 4 and the supplement for AMD64), and handles what
the compiler emits for kernels: position-independent code with constants, and calls of functions of
the C library. For anything else, other formats included, there is no image, and LLVM links.
"""

import struct
import sys
from collections.abc import Sequence

from ...tuples import NamedTuple
from ..image import HEAD

# The start of a 64-bit ELF file for AMD64: magic, class, byte order, version; type and machine.
_ELF, _AMD64 = b"\x7fELF\2\1\1", struct.pack("<HH", 1, 62)
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_PROGBITS, _SYMTAB, _RELA, _NOBITS, _UNWIND = 1, 2, 4, 8, 0x70000001
_WRITE, _ALLOCATE, _TLS = 1, 2, 0x400
_UNDEFINED, _RESERVED = 0, 0xFF00
_PC32, _GOTPCREL, _PLT32, _GOTPCRELX, _REX_GOTPCRELX = 2, 9, 4, 41, 42
# `jmp *[rip + 0]`, and the address: a call reaches functions at any distance through it.
_JUMP = b"\xff\x25\0\0\0\0" + bytes(8)


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
    return HEAD + "|".join(entries).encode() + b"\n" + bytes(data)


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
