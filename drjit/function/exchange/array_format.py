"""What the formats of `array_file` have in common: descriptions of arrays that are still in a file,
and the error for whatever is wrong with one.

A file may come from anywhere. Nothing in it is ever executed, and an array is unpacked only once
its description has been read, and it is asked for.
"""

import errno
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
    """What is in an open file: for the name of each array, what returns its description, and what
    returns the facts."""

    arrays: Mapping[str, Callable[[], StoredArray]]
    facts: Callable[[], Facts]


MOST_AXES = 32
_CHUNK = 1 << 20
_DAMAGED = "the file is damaged or of another format"


def damage(where: str, expected: str, found: object) -> FileFormatError:
    """Returns the error for a file, or for what has a name in it."""
    return FileFormatError(f"{where}: {_DAMAGED} (expected {expected}, found {found})")


@contextmanager
def expecting(expected: str, where: str) -> Iterator[None]:
    """Turns what libraries raise for damaged data into a `FileFormatError`."""
    try:
        yield
    except (FileFormatError, MemoryError):
        raise
    except Exception as error:
        # A system's error says that the disk failed, or that there is no such place in the file.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        why = str(error) or "it ends too early"
        raise FileFormatError(f"{where}: {_DAMAGED} (expected {expected}: {why})") from error


def parsed(data: bytes | str, where: str) -> dict[str, Any]:
    """Returns an object in JSON. Names that it has twice are an error."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise damage(where, "different names", f"{name!r} twice")
            found[name] = value
        return found

    with expecting("JSON", where):
        found = json.loads(
            data if isinstance(data, str) else data.decode(), object_pairs_hook=unique
        )
    if type(found) is not dict:
        raise damage(where, "an object in JSON", short(found))
    return found


def short(value: object) -> str:
    """Describes what a file has, of any size."""
    import reprlib

    return reprlib.repr(value)


def bytes_of(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    """Returns the size of an array."""
    return math.prod(shape) * dtype.itemsize


def array_of(
    file: IO[bytes], dtype: np.dtype, shape: tuple[int, ...], where: str, fortran: bool = False
) -> np.ndarray:
    """Returns an array of the next bytes of a file, in the order that this machine has them in."""
    data = np.empty(bytes_of(dtype, shape), np.uint8)
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
