"""The modules of the package in one file of the disk cache, as Python has compiled them: to find,
open and read two hundred files takes a tenth of the time of a small program.

The file has copies of what is in the folders `__pycache__`. A module whose source has changed since
is imported as usual, and so is everything if there is no such file or if it is damaged.
"""

import atexit
import contextlib
import marshal
import os
import struct
import sys
from _imp import _fix_co_filename  # type: ignore[attr-defined]
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any

from .. import collector, frames, locks
from . import cache

# File format: the magic word, the file's size and where the table begins as 8-byte numbers, the
# checksum of the table, the copies, the table.
_MAGIC, _CHECKSUM = b"DRJITM03", 8
_START = struct.Struct("<8sQQ")
_HEAD = _START.size + _CHECKSUM
# A compiled file of Python's starts with a magic word, flags, the time and the size of the source.
_CHECKED_BY_TIME, _SKIPPED = bytes(4), 16
_FEW = 8  # modules may be missing before the file is written anew

# Modules and packages with functions that programs call.
_CALLED = (
    "dda", "detail", "distributed", "flow", "function", "hashgrid", "interop", "nn", "opt",
    "random", "texture",
)  # fmt: skip

_PACKAGE = __name__.partition(".")[0]
_Row = tuple[str, str, bool, tuple[int, int], int, int]
_rows: dict[str, _Row] = {}
"""The modules by name: the paths of source and compiled file, whether it is a package, time and
size of the source, and where the copy begins and ends."""
_data: Any = b""
_missing: list[Any] = []  # how Python found those that the cache does not have


class _Quiet(SourceFileLoader):
    """Loads modules like Python, but no finalizer runs meanwhile, which might wait for a thread
    that imports the same module."""

    def exec_module(self, module: Any) -> None:
        with collector.paused(), locks.leaf(locks.IMPORT + module.__name__):
            super().exec_module(module)
        package = module.__name__.split(".")[1]
        if package in _CALLED:
            # Functions of `function` are guarded when a program first uses one.
            frames.guard_module(module, package != "function")


class _Loader(_Quiet):
    """Has compiled files from the cache."""

    def get_code(self, fullname: str) -> Any:
        source, *_, start, end = _rows[fullname]
        code = marshal.loads(_data[start + _SKIPPED : end])
        _fix_co_filename(code, source)
        return code


class _Finder:
    """Finds the modules of the package, in the cache if it has them."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] != _PACKAGE or target is not None:  # which is to be loaded again
            return None
        spec = _cached(name)
        if spec is None:
            spec = PathFinder.find_spec(name, path)
            if spec is not None and type(spec.loader) is SourceFileLoader and spec.origin:
                spec.loader = _Quiet(name, spec.origin)
                if spec.cached:
                    _missing.append(spec)
        return spec


def _cached(name: str) -> ModuleSpec | None:
    """Returns how to load a module from the cache, if that has it as it is."""
    if name not in _rows:
        return None
    source, compiled, is_package, version, *_ = _rows[name]
    try:
        status = cache.states[source] = os.stat(source)
    except OSError:
        return None
    if (int(status.st_mtime), status.st_size) != version:
        return None
    spec = ModuleSpec(name, _Loader(name, source), origin=source, is_package=is_package)
    if spec.submodule_search_locations is not None:
        spec.submodule_search_locations.append(os.path.dirname(source))
    spec.has_location, spec.cached = True, compiled  # type: ignore[misc]
    return spec


def install() -> None:
    """Has the modules of the package that are imported from now on come from the cache."""
    global _data
    if PathFinder not in sys.meta_path:
        return
    sys.meta_path.insert(sys.meta_path.index(PathFinder), _Finder)  # type: ignore[arg-type]
    path = _path()
    if path is None or (found := cache.opened(path)) is None:
        return
    file, _ = found
    try:
        _data = _mapped(file)
        _rows.update(_table(_data))
        cache.note_use(file, path)
    except (OSError, ValueError, EOFError, TypeError, struct.error):
        pass  # it is damaged
    finally:
        os.close(file)


def _path() -> str | None:
    """Returns the path of the file of this interpreter and this copy of the package; None if there
    is no cache so far: an import does not make one."""
    where = cache.folder(make=False)
    if where is None:
        return None
    facts = sys.version, sys.flags.optimize, sys.pycache_prefix, os.path.abspath(__file__)
    return cache.path(where, cache.digest("", "modules", *facts, machine=False))


def _mapped(file: int) -> Any:
    import mmap

    return mmap.mmap(file, 0, access=mmap.ACCESS_READ)


def _table(data: Any) -> dict[str, _Row]:
    """Returns the table of a file.

    Raises:
        ValueError: it is no such file, or not a whole one.
    """
    magic, size, start = _START.unpack(data[: _START.size])
    if magic != _MAGIC or size != len(data) or data[24:_HEAD] != cache.source_hash(0, data[start:]):
        raise ValueError
    return marshal.loads(data[start:])


@atexit.register
def _keep() -> None:
    """Writes the file anew if this process has imported modules that it lacks."""
    if len(_missing) < _FEW or sys.dont_write_bytecode:
        return
    path = _path()
    if path is None or not os.access(os.path.dirname(path), os.W_OK):
        return
    rows, parts, end = {}, [b""], _HEAD

    def add(name: str, facts: tuple, compiled: bytes) -> None:
        nonlocal end
        rows[name] = (*facts, end, end + len(compiled))
        parts.append(compiled)
        end += len(compiled)

    for name, (*facts, start, stop) in _rows.items():
        add(name, tuple(facts), _data[start:stop])
    for spec in _missing:
        with contextlib.suppress(OSError), open(spec.cached, "rb", buffering=0) as file:
            compiled, status = file.readall(), os.stat(spec.origin)
            version = int(status.st_mtime), status.st_size
            if compiled[4:16] == _CHECKED_BY_TIME + struct.pack("<LL", *version):
                is_package = spec.submodule_search_locations is not None
                add(spec.name, (spec.origin, spec.cached, is_package, version), compiled)
    if len(parts) == 1 + len(_rows):
        return
    table = marshal.dumps(rows)
    size = end + len(table)
    parts[0] = _START.pack(_MAGIC, size, end) + cache.source_hash(0, table)
    cache.write(path, b"".join([*parts, table]))
