"""The disk cache of kernels, of the programs that they compute (`plan`), and of functions that
`dr.syntax` has transformed: their text and code, shared by all processes of a user. It also has a
file with the modules of the package (`modules`).

A cache must never get in the way: any problem with the folder counts as a miss and is logged once.
An entry is a file with a checksum, written under a temporary name and renamed. Entries are written
together by a thread, as a file on a network takes longer than many kernels do to compile; until
then, this process has them in memory. If the cache exceeds `DRJIT_CACHE_MAXSIZE`, the least
recently used entries are removed.

What is loaded is run, so only this user (or root, who may do anything) can have written it: that is
checked for the folder and all above it (`_prepared`) and for each file once it is open (`opened`).
The folder is a subfolder of the one that a user names, and files in it whose names have another
form are left alone.
"""

import _thread
import atexit
import contextlib
import errno
import functools
import os
import stat
import sys
import threading
import time
from _imp import source_hash  # type: ignore[attr-defined]
from collections.abc import Iterator

from .. import collector, locks, log, processor
from ..tuples import NamedTuple

try:
    from _blake2 import blake2b
except ImportError:  # another interpreter; hashlib has the same function, but loads OpenSSL
    from hashlib import blake2b

# File format: the magic word, a checksum, whether there is a finish function, the size of the text
# as an 8-byte number, the text, the code.
_MAGIC, _CHECKSUM, _LENGTH = b"DRJITK03", 8, 8
_SUFFIX, _TEMPORARY = ".kernel", ".tmp"
_FOLDER = "drjit-3"  # with the version of the format
_LARGEST = 1 << 28  # bytes of an entry
_DIGEST, _HEX = 20, frozenset("0123456789abcdef")
_READ = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)
_DEFAULT_MAXSIZE = 1 << 30
_PUTS_PER_CHECK = 64
DELAY = 0.25
"""Seconds for which entries are collected before they are written."""
_STALE_SECONDS = 3600
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

_folder: tuple[tuple, str | None] = (), None
"""What the folder depends on, and the folder."""
problem = ""
"""Why there is no folder, or why it is not the usual one."""
# Not all from 0: a process that writes little then seldom looks at the whole folder.
_puts = os.urandom(1)[0] % _PUTS_PER_CHECK
states: dict[str, os.stat_result] = {}
"""The status of the files of modules when these were imported, as far as `modules` has looked."""
_complained = False
_is_lost = False  # whether an entry could not be written
COMPILER, _GPU = os.path.dirname(os.path.dirname(__file__)), "cuda"  # folders


class CachedKernel(NamedTuple):
    """A cached kernel."""

    text: str
    code: bytes
    has_finish: bool


_pending: dict[str, tuple[str, CachedKernel]] = {}
"""The entries that have not been written yet, with their keys, by path."""
_writer = _thread.allocate_lock()  # taken while a thread writes them, or is about to
_flushes = 0
_at_once = False  # whether this process may end without further notice


@functools.cache
def compiler() -> str:
    """Returns what object code depends on besides the text, as a hash: LLVM, the CPU, and the
    compiler's own files, except those that serve GPUs alone (`gpu_files`)."""
    return digest("", *processor.identity(), compiler_files(), machine=False)


@functools.cache
def compiler_files() -> str:
    """Returns a hash of the compiler's own files."""
    return digest(files_in(COMPILER), machine=False)


def gpu_files() -> str:
    """Returns what code for GPUs also depends on: the modules in folders named `cuda`."""
    return "\n".join([files_in(os.path.join(COMPILER, *p, _GPU)) for p in ((), ("target",))])


@functools.cache
def files_in(here: str) -> str:
    """Returns the state of the modules in a folder, on which an entry may depend: their paths,
    sizes and times, or those of another installation whose entries fit this one (`adopt`)."""
    mine = _state_of(here)
    adopted = get(_adoption(mine))
    return mine if adopted is None else adopted.text


def _state_of(here: str) -> str:
    found, folders, start = [], [here], len(here) + 1
    while folders:
        with os.scandir(folders.pop()) as files:
            for file in files:
                name = file.name
                if name.endswith(".py"):
                    status = states.get(file.path) or file.stat()
                    found.append(f"{file.path[start:]} {status.st_size} {status.st_mtime_ns}")
                elif "." not in name and name[:2] != "__" and name != _GPU and file.is_dir():
                    folders.append(file.path)
    return "\n".join(sorted(found)).replace("\\", "/")


def adopt(here: str, state: str) -> None:
    """Makes entries fit this installation that come from another one with the same contents, where
    `files_in` returns a `state` for the same folder. This takes effect in new processes."""
    mine = _state_of(here)
    if mine != state:
        put(_adoption(mine), state, b"", False)


def _adoption(state: str) -> str:
    return digest(state, "adopted", machine=False)


def digest(text: str, *facts: object, machine: bool = True) -> str:
    """Returns the key of an entry: a hash of its text, the facts, and, if code depends on the
    `machine`, the compiler, LLVM and the CPU."""
    state = blake2b(text.encode(), digest_size=_DIGEST)
    for fact in facts:
        state.update(b"\0" + (fact if type(fact) is bytes else str(fact).encode()))
    if machine:
        state.update(compiler().encode())
    return state.hexdigest()


def has(key: str) -> bool:
    """Returns whether there is an entry with that key."""
    where = folder()
    if where is None:
        return False
    name = path(where, key)
    return name in _pending or os.path.exists(name)


def is_writable() -> bool:
    """Returns whether entries of this process will be there for later ones."""
    where = folder()
    return where is not None and not _is_lost and os.access(where, os.W_OK)


def get(key: str) -> CachedKernel | None:
    """Returns the entry with that key, or None."""
    where = folder()
    if where is None:
        return None
    name = path(where, key)
    if (pending := _pending.get(name)) is not None:
        return pending[1]
    if (found := opened(name)) is None:
        return None
    try:
        with open(found[0], "rb", buffering=0) as file:
            entry = _decode(key, file.readall())
            if entry is not None:
                note_use(file.fileno(), name)
    except OSError as error:
        _complain(f"the kernel cache cannot be read ({error}); kernels are compiled anew")
        return None
    if entry is None:
        with contextlib.suppress(OSError):  # another process was faster, or the folder is read-only
            os.unlink(name)
    return entry


def opened(path: str) -> tuple[int, int] | None:
    """Opens a file of the cache for reading, and returns its descriptor and size; None if there is
    none, or if it is not what a process of this user has written. This never waits, whatever is
    there."""
    try:
        file = os.open(path, _READ)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = f"{path} is a symbolic link" if os.path.islink(path) else str(error)
    else:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            why = f"{path} is no regular file"
        elif status.st_size > _LARGEST:
            why = f"{path} has {status.st_size} bytes, of at most {_LARGEST}"
        else:
            why = _distrust(path, status)
        if not why:
            return file, status.st_size
        os.close(file)
    _complain(f"an entry of the kernel cache is not used: {why}. If it is not replaced, remove it")
    return None


def note_use(file: int, path: str) -> None:
    """Marks an open file as recently used, so that it is among the last to be removed."""
    with contextlib.suppress(OSError):  # the folder is read-only
        os.utime(file if os.utime in os.supports_fd else path)


def members() -> Iterator[tuple[str, bytes]]:
    """Yields the keys and contents of the files of all entries."""
    write_pending()
    for _, _, name in _entries(folder() or ""):
        if (found := opened(name)) is not None:
            with open(found[0], "rb") as file:
                data = file.read()
            key = os.path.basename(name).removesuffix(_SUFFIX)
            if _decode(key, data) is not None:
                yield key, data


def add_member(key: str, data: bytes) -> bool:
    """Adds an entry as `members` yields it; returns whether it is whole."""
    entry = _decode(key, data) if _is_key(key) else None
    if entry is not None:
        put(key, *entry)
    return entry is not None


def distrust_of(file: str) -> str:
    """Returns why others could have written a file, or put it into its folder; nothing if nobody
    could.

    Raises:
        OSError: there is no such file.
    """
    file = os.path.realpath(file)
    try:
        _prepared(os.path.dirname(file), False, shared=True)
    except _UnsafeError as error:
        return str(error)
    return _distrust(file, os.stat(file))


def put(key: str, text: str, code: bytes, has_finish: bool) -> None:
    """Stores an entry; does nothing if that is impossible."""
    where = folder()
    if where is None:
        return
    _pending[path(where, key)] = key, CachedKernel(text, code, has_finish)
    if _at_once or not _is_awaited():
        write_pending()


def _is_awaited() -> bool:
    """Makes sure that a thread will write what is pending; returns whether that is possible."""
    if _writer.acquire(False):
        try:
            _thread.start_new_thread(_write_later, (_writer,))
        except RuntimeError:  # the process is ending, or has reached its limit of threads
            _writer.release()
            return False
    return True


def _write_later(writer: _thread.LockType) -> None:
    """The life of the writing thread. There is never a second one: where entries come faster than
    they are written, more threads would only slow writing down further."""
    while True:
        time.sleep(DELAY)
        with collector.paused(), locks.own_thread():
            write_pending()
        writer.release()
        # From here on, further entries have another thread started.
        if not _pending or not writer.acquire(False):
            break


def write_pending() -> None:
    """Writes the entries that have not been written yet."""
    global _puts
    while found := list(_pending.items()):  # which another thread may be writing as well
        for where, pending in found:
            if _pending.get(where) is not pending:  # that thread has written it
                continue
            key, entry = pending
            before = _flushes
            if write(where, _encode(key, *entry)):
                if _puts % _PUTS_PER_CHECK == 0:
                    evict()
                _puts += 1
            if _flushes != before:
                with contextlib.suppress(OSError):
                    os.unlink(where)
            if _pending.get(where) is pending:
                _pending.pop(where, None)


@atexit.register
def _end() -> None:
    global _at_once
    _at_once = True
    write_pending()


def _after_fork(in_child: bool) -> None:
    """Begins anew without the thread. Processes of `multiprocessing` end without `atexit`."""
    global _at_once, _writer
    if in_child:
        _writer = _thread.allocate_lock()
        _at_once = True


locks.stop_hooks.append(write_pending)
locks.resume_hooks.append(_after_fork)


def write(path: str, data: bytes) -> bool:
    """Writes a file of the cache, which other processes see once it is whole; returns whether that
    is possible."""
    global _is_lost
    if len(data) > _LARGEST:
        return False
    # The module `tempfile` takes as long to import as a small program takes to run.
    name = f"{os.getpid():x}-{threading.get_native_id():x}-{time.time_ns():x}{_TEMPORARY}"
    temporary = os.path.join(os.path.dirname(path), name)
    try:
        with os.fdopen(_create(temporary), "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError as error:
        if os.path.isdir(os.path.dirname(path)):  # otherwise, it was a temporary folder
            _is_lost = True
            _complain(f"the kernel cache cannot be written ({error}); kernels are compiled anew")
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return False
    return True


def _create(path: str) -> int:
    """Opens a new file that only the user may read, whatever the umask is."""
    how = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
    file = os.open(path, how, 0o600)
    if hasattr(os, "fchmod"):
        with contextlib.suppress(OSError):  # the file system has no modes
            os.fchmod(file, 0o600)
    return file


def evict() -> None:
    """If the cache exceeds its maximum size, removes the least recently used entries until it has
    shrunk to 3/4 of that."""
    where = folder()
    if where is None:
        return
    limit = maxsize()
    entries = _entries(where)
    total = sum(size for _, size, _ in entries)
    if total <= limit:
        return
    for _, size, path in sorted(entries):
        try:
            os.unlink(path)
        except OSError:
            continue
        total -= size
        if total <= limit * 3 // 4:
            break


def flush() -> None:
    """Removes all entries."""
    global _flushes
    where = folder()
    if where is None:
        return
    _pending.clear()
    _flushes += 1  # whoever is writing one removes it
    for _, _, path in _entries(where):
        with contextlib.suppress(OSError):
            os.unlink(path)


def info() -> dict[str, object]:
    """Returns the folder (None if there is no usable one), the number of entries, their total
    bytes, and the maximum size."""
    write_pending()
    where = folder()
    entries = [] if where is None else _entries(where)
    return {
        "folder": where,
        "entries": len(entries),
        "bytes": sum(size for _, size, _ in entries),
        "maxsize": maxsize(),
    }


def maxsize() -> int:
    """Returns the maximum size of the cache in bytes: `DRJIT_CACHE_MAXSIZE` (`512M`, `2G`), by
    default 1 GiB."""
    return bytes_of("DRJIT_CACHE_MAXSIZE", _DEFAULT_MAXSIZE)


def bytes_of(variable: str, default: int) -> int:
    """Returns the size that an environment variable names (`512M`, `2G`), or the default."""
    wish = os.environ.get(variable, "").strip()
    value = wish.upper().removesuffix("B").removesuffix("I")
    if not value:
        return default
    number, unit = (value[:-1], value[-1]) if value[-1].isalpha() else (value, "")
    try:
        return int(float(number) * _UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        log.log(log.LogLevel.Warn, "%s=%r is no size such as 512M", variable, wish)
        return default


def folder(make: bool = True) -> str | None:
    """Returns the folder of the cache, created on demand, or None if there is no usable one.
    Without `make`, this creates nothing, never complains, and only looks for the usual folder.

    It is a subfolder of `DRJIT_CACHE_DIR`, or else of the user's cache folder, or else of one in
    the folder for temporary files.
    """
    global _folder, problem
    now = _wish()
    if now == _folder[0]:
        return _folder[1]
    found, reason = None, ""
    for candidate in (_user_folder, _temporary_folder) if not now[0] else (lambda: now[0] or "",):
        try:
            found = _prepared(os.path.join(candidate(), _FOLDER), make)
            break
        except (ImportError, OSError, RuntimeError) as error:
            if not make:
                return None
            what = "is not used" if isinstance(error, _UnsafeError) else "cannot be made"
            reason = reason or f"{what} ({error})"
    _folder, problem = (now, found), reason
    if problem:
        instead = f"{found} is used instead" if found else "kernels are compiled anew"
        _complain(f"the kernel cache {problem}; {instead}. DRJIT_CACHE_DIR names another folder")
    return found


def _wish() -> tuple[str | None, int]:
    """Returns what the folder depends on: a process may become one of another user's."""
    return os.environ.get("DRJIT_CACHE_DIR"), os.geteuid() if _HAS_USERS else 0


def _user_folder() -> str:
    """Returns the folder where the system keeps a user's caches."""
    home = os.path.expanduser("~")
    if home == "~":
        raise RuntimeError("there is no home folder")
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
        return os.path.join(local, "drjit", "Cache")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "drjit")
    wish = os.environ.get("XDG_CACHE_HOME", "").strip()
    return os.path.join(wish if os.path.isabs(wish) else os.path.join(home, ".cache"), "drjit")


def _temporary_folder() -> str:
    import tempfile

    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    return os.path.join(tempfile.gettempdir(), f"drjit-{user}")


def path(where: str, key: str) -> str:
    """Returns the path of the entry with a key in a folder."""
    return os.path.join(where, key + _SUFFIX)


_HAS_USERS = hasattr(os, "geteuid")


class _UnsafeError(OSError):
    """Other users can change what is in a folder."""


def _distrust(path: str, status: os.stat_result, shared: bool = False) -> str:
    """Returns why other users can change a file or folder with a status, and what to do about it;
    nothing if they cannot. In a `shared` folder, it is enough that they cannot rename what is
    there."""
    if not _HAS_USERS:
        return ""
    if _is_outside(os.geteuid()):
        return (
            f"this user namespace does not know which files are this user's (uid {os.geteuid()}): "
            "map the user, as `unshare --map-current-user` does"
        )
    if _is_outside(status.st_uid):
        if not (shared and _holds_package(path)):
            return (
                f"{path} belongs to a user from outside of this user namespace, who may be anybody "
                f"(uid {status.st_uid}): name a folder in a file system that the namespace has "
                "mounted, such as a tmpfs"
            )
    elif status.st_uid not in (os.geteuid(), 0):
        return f"{path} belongs to another user (uid {status.st_uid})"
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not writable or (shared and status.st_mode & stat.S_ISVTX):
        return ""
    from shlex import quote

    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    return f"other users can write to {path}, with mode {mode}: run `chmod go-w {quote(path)}`"


@functools.cache
def _is_outside(user: int) -> bool:
    """Returns whether this user number stands for all users that the current user namespace does
    not know, though perhaps also for one that it knows."""
    if user == 0:
        return False
    try:
        with open("/proc/sys/kernel/overflowuid", "rb") as file:
            if user != int(file.read()):
                return False
        with open("/proc/self/uid_map", "rb") as file:
            return [*map(int, file.read().split())] != [0, 0, (1 << 32) - 1]
    except (OSError, ValueError):  # there are no namespaces
        return False


def _holds_package(folder: str) -> bool:
    """Returns whether a folder is above this package: its owner could replace that as well."""
    package = os.path.realpath(__file__).rsplit(os.sep, 3)[0]
    return f"{package}{os.sep}".startswith(folder.rstrip(os.sep) + os.sep)


def _prepared(path: str, make: bool = True, shared: bool = False) -> str:
    """Returns the path of a folder without symbolic links, after having made it if need be.

    As with `ssh`, neither the folder nor one above it may be of another user, or be writable by
    others, who could put another one in its place. If the folder itself may be `shared`, it is
    enough that they cannot rename what is there.

    Raises:
        OSError: there is none, or it cannot be made.
        _UnsafeError: other users can change what is in it.
    """
    if not _HAS_USERS:
        path = os.path.abspath(path)
        if make:
            os.makedirs(path, exist_ok=True)
        elif not os.path.isdir(path):
            raise FileNotFoundError(path)
        return path
    path = os.path.realpath(path)
    start = len(path) - len(path.lstrip(os.sep))
    ends = [k for k in range(start, len(path)) if path[k] == os.sep]
    # From the top down: once a folder is trusted, nobody else can replace what it contains.
    for folder in [path[:start], *[path[:k] for k in ends], path]:
        try:
            status = os.lstat(folder)
        except FileNotFoundError:
            if not make:
                raise
            status = _made(folder)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
        if why := _distrust(folder, status, shared=shared or folder is not path):
            raise _UnsafeError(why)
    return path


def _made(folder: str) -> os.stat_result:
    """Makes a folder that only the user may access, whatever the umask is; returns its status."""
    with contextlib.suppress(FileExistsError):  # another process was faster
        os.mkdir(folder, 0o700)
    status = os.lstat(folder)
    if status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        os.chmod(folder, stat.S_IRWXU)
        status = os.lstat(folder)
    return status


def _is_key(word: str) -> bool:
    return len(word) == 2 * _DIGEST and _HEX.issuperset(word)


def _entries(where: str) -> list[tuple[float, int, str]]:
    """Returns last use, size and path of the entries; removes files left behind by interrupted
    writers."""
    found = []
    stale = time.time() - _STALE_SECONDS
    try:
        with os.scandir(where) as files:
            for file in files:
                try:
                    is_entry = file.name.endswith(_SUFFIX) and _is_key(file.name[: -len(_SUFFIX)])
                    if not (is_entry or _is_scratch(file.name)):
                        continue
                    status = file.stat(follow_symlinks=False)
                    if not stat.S_ISREG(status.st_mode):
                        continue
                    if is_entry:
                        found.append((status.st_mtime, status.st_size, file.path))
                    elif status.st_mtime < stale:
                        os.unlink(file.path)
                except OSError:
                    continue  # another process removed it
    except FileNotFoundError:
        pass  # it was a temporary folder
    except OSError as error:
        _complain(f"the kernel cache cannot be listed ({error})")
    return found


def _is_scratch(name: str) -> bool:
    """Returns whether a name is one that `write` gives to files that are not whole yet."""
    words = name.removesuffix(_TEMPORARY).split("-")
    return name.endswith(_TEMPORARY) and len(words) == 3 and all(map(_HEX.issuperset, words))


def _checksum(key: str, body: bytes) -> bytes:
    """Returns a SipHash, which takes a fifth of the time of `blake2b`: files may be damaged, but
    nobody forges those in a folder that no other user can write to."""
    return source_hash(0, key.encode() + b"\0" + body)


def _encode(key: str, text: str, code: bytes, has_finish: bool) -> bytes:
    written = text.encode()
    body = bytes([has_finish]) + len(written).to_bytes(_LENGTH, "little") + written + code
    return _MAGIC + _checksum(key, body) + body


def _decode(key: str, data: bytes) -> CachedKernel | None:
    """Returns the entry, or None if the data is damaged or belongs to another key."""
    start = len(_MAGIC) + _CHECKSUM
    body = data[start:]
    if data[:start] != _MAGIC + _checksum(key, body):
        return None
    code = 1 + _LENGTH + int.from_bytes(body[1 : 1 + _LENGTH], "little")
    return CachedKernel(body[1 + _LENGTH : code].decode(), body[code:], bool(body[0]))


def _complain(text: str) -> None:
    global _complained
    if not _complained:
        _complained = True
        log.log(log.LogLevel.Warn, text)
