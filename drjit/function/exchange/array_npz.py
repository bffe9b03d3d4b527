"""NumPy's `.npz`: a zip archive with an `.npy` file for each array."""

import functools
import json
import re
import zipfile
from typing import IO

from ...jit.lazy import np
from .array_format import (
    MOST_AXES,
    Arrays,
    Contents,
    Facts,
    StoredArray,
    array_of,
    bytes_of,
    damage,
    expecting,
    parsed,
    short,
)

_FACTS = "drjit.json"  # the name of the facts in an archive
_LOCAL = 30  # bytes in front of a member, besides its name
_MOST_PACKED = 1032  # bytes that one byte of a deflated stream stands for, at most
_LONGEST = 10_000  # bytes of an array's header, as in NumPy
_FACTS_SIZE = 1 << 20  # bytes of facts, if the file is not longer itself


def write(file: IO[bytes], arrays: Arrays, facts: Facts, what: str) -> None:
    """Writes an archive."""
    # Not numpy.savez: it takes names as keyword arguments, some of which it uses itself.
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        if facts:
            archive.writestr(_FACTS, json.dumps(facts))


def read(file: IO[bytes], size: int, what: str) -> Contents:
    """Returns the contents of an archive of a size."""
    with expecting("a zip archive", what):
        archive = zipfile.ZipFile(file)
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise damage(what, "different names", f"{name!r} twice")
        members[name] = info
    _check_places(members, size, what)

    def array(name: str) -> StoredArray:
        where = f"{what}: {name!r}"
        with expecting("an array of NumPy", where), _unpacked(archive, members[name], where) as f:
            dtype, shape, fortran, start = _header(f, where)
            rest, needed = members[name].file_size - start, bytes_of(dtype, shape)
            if rest != needed:
                raise damage(where, f"{needed} bytes for {dtype} of shape {shape}", rest)

        def values() -> np.ndarray:
            with expecting("an array", where), _unpacked(archive, members[name], where) as f:
                f.read(start)
                return array_of(f, dtype, shape, where, fortran)

        return StoredArray(dtype, shape, values)

    def facts() -> Facts:
        where = f"{what}: {_FACTS!r}"
        if _FACTS not in members:
            return {}
        most = max(size, _FACTS_SIZE)  # JSON takes many times its size once it is read
        if members[_FACTS].file_size > most:
            raise damage(where, f"at most {most} bytes", members[_FACTS].file_size)
        with expecting("text", where), _unpacked(archive, members[_FACTS], where) as f:
            return parsed(f.read(), where)

    return Contents({n: functools.partial(array, n) for n in members if n != _FACTS}, facts)


def _check_places(members: dict[str, zipfile.ZipInfo], size: int, what: str) -> None:
    """Checks that members are in the file, each in a place of its own."""
    end, last = 0, "the start"
    for name, info in sorted(members.items(), key=lambda member: member[1].header_offset):
        if info.header_offset < end:
            found = f"byte {info.header_offset}"
            raise damage(f"{what}: {name!r}", f"a place behind {last}, from byte {end}", found)
        end, last = info.header_offset + _LOCAL + info.compress_size, repr(name)
    if end > size:
        raise damage(f"{what}: {last}", f"its end within the file of {size} bytes", f"byte {end}")


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> IO[bytes]:
    """Opens a member that can have as many bytes as it says."""
    if info.flag_bits & 1:
        raise damage(where, "a member without a password", "one with a password")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        method = f"compression method {info.compress_type}"
        raise damage(where, "a member that is stored or deflated", method)
    most = info.compress_size * (1 if info.compress_type == zipfile.ZIP_STORED else _MOST_PACKED)
    if info.file_size > most:
        raise damage(where, f"at most {most} bytes", f"{info.file_size} according to its header")
    return archive.open(info)


# What NumPy writes is a dictionary with these keys. It is not given to Python's parser, which is
# slow, and has limits and warnings of its own.
_VALUE = r"True|False|'[^'\\]*+'|\"[^\"\\]*+\"|\([\d,\sL]*+\)"
_FIELD = rf"\s*+['\"](\w++)['\"]\s*+:\s*+({_VALUE})\s*+"
_FIELDS = re.compile(rf"\s*+\{{(?:{_FIELD},)*(?:{_FIELD})?\s*+\}}\s*+")
_TYPE = re.compile(r"[<>=|]?[?biufcSUmM]\d{0,9}(\[\w+\])?")
_SHAPE = re.compile(r"\(\s*+(\d{1,19}L?\s*+(,\s*+\d{1,19}L?\s*+)*,?)?\s*+\)")


def _header(file: IO[bytes], where: str) -> tuple[np.dtype, tuple[int, ...], bool, int]:
    """Reads the start of an `.npy` file: the type, the shape, whether the first index runs fastest,
    and how many bytes these take."""
    start = file.read(8)
    if start[:6] != b"\x93NUMPY" or start[6:] not in (b"\1\0", b"\2\0", b"\3\0"):
        raise damage(where, "an array of NumPy's format 1, 2 or 3", short(start))
    digits = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(digits), "little")
    if length > _LONGEST:
        raise damage(where, f"a header of at most {_LONGEST} bytes", length)
    text = file.read(length).decode("latin1" if start[6] < 3 else "utf-8")
    rows = re.findall(_FIELD, text) if _FIELDS.fullmatch(text) else []
    fields = dict(rows)
    if len(rows) != 3 or fields.keys() != {"descr", "fortran_order", "shape"}:
        raise damage(where, "a header with 'descr', 'fortran_order' and 'shape'", short(text))
    descr, fortran, shape = fields["descr"][1:-1], fields["fortran_order"], fields["shape"]
    if not _TYPE.fullmatch(descr):
        raise damage(where, "a type of numbers or text", short(descr))
    if fortran not in ("True", "False") or not _SHAPE.fullmatch(shape):
        raise damage(where, "a shape, and its order", f"{short(shape)}, {short(fortran)}")
    axes = tuple([int(n) for n in re.findall(r"\d+", shape)])
    if len(axes) > MOST_AXES:
        raise damage(where, f"at most {MOST_AXES} dimensions", len(axes))
    return np.dtype(descr), axes, fortran == "True", len(start) + digits + length
