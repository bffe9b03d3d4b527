"""Files of named arrays: NumPy's `.npz`, a zip archive with an `.npy` file for each array, and
`.safetensors`, a header in JSON followed by the arrays. Besides the arrays, a file has a few facts
as text.

A file may come from anywhere. Nothing in it is ever executed, and an array is unpacked only once
its description has been checked and the array is asked for.
"""

import errno
import functools
import json
import math
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ...jit.lazy import np
from ...jit.tuples import NamedTuple

Arrays = dict[str, np.ndarray]
Facts = dict[str, Any]


class FileFormatError(ValueError):
    """A file is damaged, of another format, or of a version that is not known."""


class StoredArray(NamedTuple):
    """An array in an open file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


class Contents(NamedTuple):
    """The contents of an open file: for each name, a function that returns the description of the
    array; and a function that returns the facts."""

    arrays: Mapping[str, Callable[[], StoredArray]]
    facts: Callable[[], Facts]


_MOST_AXES = 32
_CHUNK = 1 << 20
_DAMAGED = "the file is damaged or of another format"


def damage(where: str, expected: str, found: object) -> FileFormatError:
    """Returns the error for a damaged file, or for a damaged part of one."""
    return FileFormatError(f"{where}: {_DAMAGED} (expected {expected}, found {found})")


@contextmanager
def expecting(expected: str, where: str) -> Iterator[None]:
    """Turns what libraries raise for damaged data into a `FileFormatError`."""
    try:
        yield
    except (FileFormatError, MemoryError):
        raise
    except Exception as error:
        # Errors of the system are about the disk, except for positions outside of the file.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        why = str(error) or "it ends too early"
        raise FileFormatError(f"{where}: {_DAMAGED} (expected {expected}: {why})") from error


def _parsed(data: bytes | str, where: str) -> dict[str, Any]:
    """Parses a JSON object, in which no name may occur twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, value in pairs:
            if name in result:
                raise damage(where, "different names", f"{name!r} twice")
            result[name] = value
        return result

    with expecting("JSON", where):
        result = json.loads(
            data if isinstance(data, str) else data.decode(), object_pairs_hook=unique
        )
    if type(result) is not dict:
        raise damage(where, "an object in JSON", short(result))
    return result


def short(value: object) -> str:
    """Returns the text of a value of any size, abbreviated."""
    import reprlib

    return reprlib.repr(value)


def _bytes_of(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    """Returns the size of an array in bytes."""
    return math.prod(shape) * dtype.itemsize


def _array_of(
    file: IO[bytes], dtype: np.dtype, shape: tuple[int, ...], where: str, fortran: bool = False
) -> np.ndarray:
    """Reads an array from the next bytes of a file, and converts it to the byte order of this
    machine."""
    data = np.empty(_bytes_of(dtype, shape), np.uint8)
    rest = data.data
    while rest:
        part = file.read(min(len(rest), _CHUNK))
        if not part:
            raise damage(where, f"{len(data)} bytes", len(data) - len(rest))
        rest[: len(part)] = part
        rest = rest[len(part) :]
    if dtype.kind == "b":
        np.not_equal(data, 0, out=data.view(bool))  # a mask has no other values
    array = np.ndarray(shape, dtype, data.data, order="F" if fortran else "C")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


# NumPy's .npz

_FACTS = "drjit.json"  # the name of the facts in an archive
_LOCAL = 30  # bytes in front of a member, besides its name
_MOST_PACKED = 1032  # bytes that one byte of a deflated stream stands for, at most
_LONGEST_NPY = 10_000  # bytes of an array's header, as in NumPy
_FACTS_SIZE = 1 << 20  # bytes of facts, if the file is not longer itself


def _write_npz(file: IO[bytes], arrays: Arrays, facts: Facts, what: str) -> None:
    """Writes an archive."""
    # Not numpy.savez: it takes names as keyword arguments, some of which it uses itself.
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        if facts:
            archive.writestr(_FACTS, json.dumps(facts))


def _read_npz(file: IO[bytes], size: int, what: str) -> Contents:
    """Returns the contents of an archive of `size` bytes."""
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
            rest, needed = members[name].file_size - start, _bytes_of(dtype, shape)
            if rest != needed:
                raise damage(where, f"{needed} bytes for {dtype} of shape {shape}", rest)

        def values() -> np.ndarray:
            with expecting("an array", where), _unpacked(archive, members[name], where) as f:
                f.read(start)
                return _array_of(f, dtype, shape, where, fortran)

        return StoredArray(dtype, shape, values)

    def facts() -> Facts:
        where = f"{what}: {_FACTS!r}"
        if _FACTS not in members:
            return {}
        most = max(size, _FACTS_SIZE)  # JSON takes many times its size once it is read
        if members[_FACTS].file_size > most:
            raise damage(where, f"at most {most} bytes", members[_FACTS].file_size)
        with expecting("text", where), _unpacked(archive, members[_FACTS], where) as f:
            return _parsed(f.read(), where)

    return Contents({n: functools.partial(array, n) for n in members if n != _FACTS}, facts)


def _check_places(members: dict[str, zipfile.ZipInfo], size: int, what: str) -> None:
    """Checks that the members lie within the file and do not overlap."""
    end, last = 0, "the start"
    for name, info in sorted(members.items(), key=lambda member: member[1].header_offset):
        if info.header_offset < end:
            found = f"byte {info.header_offset}"
            raise damage(f"{what}: {name!r}", f"a place behind {last}, from byte {end}", found)
        end, last = info.header_offset + _LOCAL + info.compress_size, repr(name)
    if end > size:
        raise damage(f"{what}: {last}", f"its end within the file of {size} bytes", f"byte {end}")


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> IO[bytes]:
    """Opens a member whose declared size is plausible."""
    if info.flag_bits & 1:
        raise damage(where, "a member without a password", "one with a password")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        method = f"compression method {info.compress_type}"
        raise damage(where, "a member that is stored or deflated", method)
    most = info.compress_size * (1 if info.compress_type == zipfile.ZIP_STORED else _MOST_PACKED)
    if info.file_size > most:
        raise damage(where, f"at most {most} bytes", f"{info.file_size} according to its header")
    return archive.open(info)


# NumPy writes a Python dictionary with these keys. It is not passed to Python's parser, which is
# slow and has limits and warnings of its own.
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
    if length > _LONGEST_NPY:
        raise damage(where, f"a header of at most {_LONGEST_NPY} bytes", length)
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
    if len(axes) > _MOST_AXES:
        raise damage(where, f"at most {_MOST_AXES} dimensions", len(axes))
    return np.dtype(descr), axes, fortran == "True", len(start) + digits + length


# .safetensors, which the package of that name writes

_LENGTH = 8  # bytes of the header's size, at the start
_LONGEST_HEADER = 100_000_000  # bytes of the header, as in the package
_TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8",
}  # fmt: skip


def _write_safetensors(file: IO[bytes], arrays: Arrays, facts: Facts, what: str) -> None:
    """Writes a file."""
    try:
        from safetensors.numpy import save
    except ImportError:
        raise ImportError(
            f"{what}: files of the format .safetensors need the package 'safetensors', which is "
            "not installed. The format .npz needs none."
        ) from None
    contiguous = {key: np.ascontiguousarray(a).reshape(a.shape) for key, a in arrays.items()}
    file.write(save(contiguous, {"drjit": json.dumps(facts)} if facts else None))


def _read_safetensors(file: IO[bytes], size: int, what: str) -> Contents:
    """Returns the contents of a file of `size` bytes."""
    length = int.from_bytes(file.read(_LENGTH), "little")
    start = _LENGTH + length
    if length > _LONGEST_HEADER or start > size:
        most = min(_LONGEST_HEADER, size - _LENGTH)
        raise damage(what, f"a header of at most {most} bytes", length)
    header = _parsed(file.read(length), f"{what}: the header")
    metadata = header.pop("__metadata__", {})
    if type(metadata) is not dict or not all(type(v) is str for v in metadata.values()):
        raise damage(f"{what}: '__metadata__'", "names and texts", short(metadata))
    places = sorted([(*_place(header[name], f"{what}: {name!r}"), name) for name in header])
    end = 0
    for first, last, name in places:
        if first != end:
            raise damage(f"{what}: {name!r}", f"data from byte {end}", f"from byte {first}")
        end = last
    if start + end != size:
        raise damage(what, f"{size - start} bytes of arrays", f"{end} according to the header")

    def array(name: str) -> StoredArray:
        where, row = f"{what}: {name!r}", header[name]
        if row["dtype"] not in _TYPES:
            raise damage(where, f"one of the types {', '.join(_TYPES)}", short(row["dtype"]))
        dtype, shape = np.dtype(_TYPES[row["dtype"]]), tuple(row["shape"])
        needed = _bytes_of(dtype, shape)
        first, last = row["data_offsets"]
        if last - first != needed:
            raise damage(where, f"{needed} bytes for {dtype} of shape {shape}", last - first)

        def values() -> np.ndarray:
            with expecting("an array", where):
                file.seek(start + first)
                return _array_of(file, dtype, shape, where)

        return StoredArray(dtype, shape, values)

    def facts() -> Facts:
        return _parsed(metadata["drjit"], f"{what}: 'drjit'") if "drjit" in metadata else {}

    return Contents({name: functools.partial(array, name) for name in header}, facts)


def _place(row: Any, where: str) -> tuple[int, int]:
    """Returns where an array begins and ends, after having checked its description."""
    if type(row) is not dict or row.keys() != {"dtype", "shape", "data_offsets"}:
        raise damage(where, "'dtype', 'shape' and 'data_offsets'", short(row))
    shape, place = row["shape"], row["data_offsets"]
    if type(row["dtype"]) is not str or not _are_sizes(shape) or len(shape) > _MOST_AXES:
        raise damage(where, f"a type, and a shape of at most {_MOST_AXES} dimensions", short(row))
    if not _are_sizes(place) or len(place) != 2 or place[0] > place[1]:
        raise damage(where, "data_offsets: where it begins and ends", short(place))
    return place[0], place[1]


def _are_sizes(value: Any) -> bool:
    return type(value) is list and all(type(n) is int and 0 <= n < 1 << 63 for n in value)


# Any format


def write(path: Path, arrays: Arrays, facts: Facts, what: str) -> None:
    """Writes a file, which appears under its name only once it is complete. The suffix determines
    the format; `what` is the caller in messages.

    Raises:
        ValueError: the suffix is not a known format.
        ImportError: the format needs a package that is not installed.
        OSError: the file cannot be written.
    """
    import secrets

    write_to, _ = format_of(path, what)
    # In the same folder, because renaming is atomic only within one file system.
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        try:
            with open(scratch, "xb") as file:
                write_to(file, arrays, facts, what)
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, path)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(error.errno, f"{what}: the file cannot be written: {reason}") from None


@contextmanager
def open_file(path: Path, what: str) -> Iterator[Contents]:
    """Opens a file for reading.

    Raises:
        FileFormatError: the file is damaged or of another format, as far as is known by then; the
            functions that this yields raise it as well.
        ValueError: the suffix is not a known format.
        OSError: the file cannot be read.
    """
    _, read = format_of(path, what)
    with open(path, "rb", opener=_open) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise damage(what, "a file", "something else, such as a pipe")
        yield read(file, status.st_size, what)


def _open(path: str, how: int) -> int:
    """Opens a file without waiting if it is a pipe."""
    return os.open(path, how | getattr(os, "O_NONBLOCK", 0))


_FORMATS = {
    ".npz": (_write_npz, _read_npz),
    ".dr": (_write_npz, _read_npz),  # of frozen functions
    ".safetensors": (_write_safetensors, _read_safetensors),
}


def format_of(path: Path, what: str) -> tuple[Callable, Callable]:
    """Returns the functions that write and read the format of a path.

    Raises:
        ValueError: the suffix is not a known format.
    """
    result = _FORMATS.get(path.suffix.lower())
    if result is None:
        raise ValueError(
            f"{what}: unknown format {path.suffix!r}, expected one of {', '.join(_FORMATS)}"
        )
    return result
