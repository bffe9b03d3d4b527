"""Files of named arrays: NumPy's `.npz`, and `.safetensors` where the package of that name is
installed. Beside the arrays, a file has a few facts in text form. Nothing in it is ever executed.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ...jit.lazy import np
from ...jit.tuples import NamedTuple

Arrays = dict[str, np.ndarray]
Facts = dict[str, Any]

_FACTS = "drjit.json"  # the name of the facts in an archive


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


def read(path: Path, what: str) -> tuple[Arrays, Facts]:
    """Returns the arrays and facts of a file.

    Raises:
        ValueError: the suffix is not a known format, or the file is damaged.
        ImportError: the format needs a package that is not installed.
        OSError: the file cannot be read.
    """
    import zipfile

    form = _format(path, what)
    with open(path, "rb") as file:
        try:
            return form.read(file, what)
        except (ValueError, zipfile.BadZipFile, EOFError, KeyError) as error:
            raise ValueError(
                f"{what}: the file is damaged or of another format ({error})"
            ) from None


def _write_npz(file: IO[bytes], arrays: Arrays, facts: Facts, what: str) -> None:
    import zipfile

    # Not numpy.savez: it takes names as keyword arguments, some of which it uses itself.
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        if facts:
            archive.writestr(_FACTS, json.dumps(facts))


def _read_npz(file: IO[bytes], what: str) -> tuple[Arrays, Facts]:
    import zipfile

    arrays, facts = {}, {}
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                if name == _FACTS:
                    facts = json.loads(member.read())
                else:
                    array = np.lib.format.read_array(member, allow_pickle=False)
                    arrays[name.removesuffix(".npy")] = array
    return arrays, facts


def _write_safetensors(file: IO[bytes], arrays: Arrays, facts: Facts, what: str) -> None:
    contiguous = {key: np.ascontiguousarray(a).reshape(a.shape) for key, a in arrays.items()}
    text = {"drjit": json.dumps(facts)} if facts else None
    file.write(_safetensors(what).save(contiguous, text))


def _read_safetensors(file: IO[bytes], what: str) -> tuple[Arrays, Facts]:
    package = _safetensors(what)
    data = file.read()
    try:
        arrays = package.load(data)
    except Exception as error:  # the package's own class has no public base
        raise ValueError(str(error)) from None
    # The header is JSON after its length; its entry for text is not part of what `load` returns.
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return arrays, json.loads(header.get("__metadata__", {}).get("drjit", "{}"))


def _safetensors(what: str) -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            f"{what}: files of the format .safetensors need the package 'safetensors', which is "
            "not installed. The format .npz needs none."
        ) from None
    return safetensors.numpy


class _Format(NamedTuple):
    write: Callable[[IO[bytes], Arrays, Facts, str], None]
    read: Callable[[IO[bytes], str], tuple[Arrays, Facts]]


_FORMATS = {
    ".npz": _Format(_write_npz, _read_npz),
    ".safetensors": _Format(_write_safetensors, _read_safetensors),
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
