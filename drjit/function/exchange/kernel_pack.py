"""Kernel caches that travel: what programs have compiled here, in a file for machines with the same
processor and the same version of this package, such as containers and the nodes of a cluster.

A file is an archive like those of `save`: an array of bytes for each entry of the cache. Machine
code is run, so a file is only used if nobody but this user can have written it.
"""

import functools
import hashlib
import os
import platform
from pathlib import Path
from typing import Any

from ...jit import processor
from ...jit.lazy import np
from ...jit.run import cache
from . import array_file
from .array_file import FileFormatError

_VERSION = 1
_PACKAGE = Path(__file__).parents[2]
_FOLDERS = ("jit", "jit/cuda", "jit/target/cuda", "flow/syntax")
"""Those whose state keys depend on (`cache.files_in`)."""


@functools.cache
def contents_of_package() -> str:
    """Returns a hash of all modules of the package."""
    state = hashlib.blake2b(digest_size=16)
    for file in sorted(_PACKAGE.rglob("*.py")):
        name, data = file.relative_to(_PACKAGE).as_posix(), file.read_bytes()
        state.update(f"{name} {len(data)}\n".encode() + data)
    return state.hexdigest()


def machine() -> list[str]:
    """Returns what machine code depends on, besides the package."""
    return [*map(str, processor.identity())]


def pack(path: str | os.PathLike[str]) -> str:
    """Writes all entries of the cache to a file, and returns what there is to say.

    Raises:
        ValueError: the name does not end with .npz, or the cache is empty.
        OSError: the file cannot be written.
    """
    to = Path(path)
    what = f"pack {str(to)!r}"
    if to.suffix.lower() != ".npz":
        raise ValueError(f"{what}: the name must end with .npz")
    entries = {key: np.frombuffer(data, np.uint8) for key, data in cache.members()}
    if not entries:
        raise ValueError(f"{what}: there are no entries in {cache.folder() or 'any folder'}")
    states = {name: cache.files_in(str(_PACKAGE / name)) for name in _FOLDERS}
    facts = {
        "kernels": _VERSION, "package": contents_of_package(), "states": states,
        "machine": machine(), "python": platform.python_version(), "system": platform.platform(),
    }  # fmt: skip
    array_file.write(to, entries, facts, what)
    return f"{len(entries)} entries in {to}, {to.stat().st_size / 2**20:.1f} MiB"


def unpack(path: str | os.PathLike[str]) -> str:
    """Adds the entries of a file to the cache, and returns what there is to say.

    Raises:
        ValueError: the file is damaged, of another format, or from another version of the package.
        PermissionError: somebody else can have written it.
        OSError: it cannot be read, or there is no usable cache.
    """
    what = f"unpack {str(path)!r}"
    if why := cache.distrust_of(os.fspath(path)):
        raise PermissionError(
            f"{what}: it may have been written by anybody ({why}). If you trust it, unpack a copy "
            "that belongs to you"
        )
    if cache.folder() is None:
        raise OSError(f"{what}: the kernel cache {cache.problem}")
    with array_file.open_file(Path(path), what) as contents:
        facts = _checked(contents.facts(), what)
        for name, described in contents.arrays.items():
            entry = described()
            if entry.dtype != np.uint8 or len(entry.shape) != 1:
                found = f"{entry.dtype} of shape {entry.shape}"
                raise array_file.damage(f"{what}: {name!r}", "bytes", found)
            if not cache.add_member(name, entry.read().tobytes()):
                raise array_file.damage(f"{what}: {name!r}", "an entry", "something else")
    for name, state in facts["states"].items():
        cache.adopt(str(_PACKAGE / name), state)
    cache.write_pending()
    if not cache.is_writable():
        raise OSError(f"{what}: nothing can be written to {cache.folder()}")
    return f"{len(contents.arrays)} entries in {cache.folder()}" + _differences(facts)


def _checked(facts: dict[str, Any], what: str) -> dict[str, Any]:
    """Returns the facts of a file whose entries fit this package."""
    version, states = facts.get("kernels"), facts.get("states")
    if version is None:
        raise FileFormatError(f"{what}: the file has no kernels: `cache pack` has not written it")
    if version != _VERSION or type(states) is not dict or {*states} != {*_FOLDERS}:
        raise FileFormatError(f"{what}: the file is from another version of this package")
    if facts.get("package") != contents_of_package():
        raise FileFormatError(
            f"{what}: the file was written with another version of this package, whose kernels do "
            "not fit this one: pack it again with this one"
        )
    if not all(type(part) is str for part in (*states.values(), facts.get("python"))):
        raise array_file.damage(what, "texts", "something else")
    return facts


def _differences(facts: dict[str, Any]) -> str:
    """Returns what this machine lacks to use all entries."""
    if facts.get("machine") != machine():
        return (
            ". They were compiled for another processor or by another LLVM, so kernels are "
            "compiled anew here"
        )
    mine, theirs = platform.python_version(), facts["python"]
    anew = f". Programs are traced anew by Python {mine}: those are of Python {theirs}"
    return anew if mine != theirs else ""
