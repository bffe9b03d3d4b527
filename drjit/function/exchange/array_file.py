"""Files of named arrays: NumPy's `.npz`, and `.safetensors`. Beside the arrays, a file has a few
facts in text form. Nothing in it is ever executed.
"""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ...jit.tuples import NamedTuple
from . import array_npz, array_safetensors
from .array_format import Arrays, Contents, Facts, damage


def write(path: Path, arrays: Arrays, facts: Facts, what: str) -> None:
    """Writes a file, which appears under its name only once it is complete. The suffix determines
    the format; `what` is the caller in messages.

    Raises:
        ValueError: the suffix is not a known format.
        ImportError: the format needs a package that is not installed.
        OSError: the file cannot be written.
    """
    import secrets

    form = _format(path, what)
    # In the same folder, because renaming is atomic only within one file system.
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        try:
            with open(scratch, "xb") as file:
                form.write(file, arrays, facts, what)
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, path)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise type(error)(error.errno, f"{what}: the file cannot be written: {reason}") from None


@contextmanager
def opened(path: Path, what: str) -> Iterator[Contents]:
    """Opens a file for reading.

    Raises:
        FileFormatError: the file is damaged or of another format, as far as is known by then; the
            functions that this yields raise it as well.
        ValueError: the suffix is not a known format.
        OSError: the file cannot be read.
    """
    form = _format(path, what)
    with open(path, "rb", opener=_open) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise damage(what, "a file", "something else, such as a pipe")
        yield form.read(file, status.st_size, what)


def _open(path: str, how: int) -> int:
    """Opens a file, and a pipe without waiting for what it may have."""
    return os.open(path, how | getattr(os, "O_NONBLOCK", 0))


class _Format(NamedTuple):
    write: Callable[[IO[bytes], Arrays, Facts, str], None]
    read: Callable[[IO[bytes], int, str], Contents]


_FORMATS = {
    ".npz": _Format(array_npz.write, array_npz.read),
    ".safetensors": _Format(array_safetensors.write, array_safetensors.read),
}


def check(path: Path, what: str) -> None:
    """Raises a ValueError if the suffix of a path is not a known format."""
    _format(path, what)


def _format(path: Path, what: str) -> _Format:
    found = _FORMATS.get(path.suffix.lower())
    if found is None:
        raise ValueError(
            f"{what}: unknown format {path.suffix!r}, expected one of {', '.join(_FORMATS)}"
        )
    return found
