"""What the disk cache loads was written by this user, and files of others stay."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from drjit.jit.run import cache

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")

KEY, OTHER = "a" * 40, "b" * 40


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    """The folder that a user names. Entries are written at once, as a thread might do it while a
    test changes files."""
    monkeypatch.setattr(cache, "_at_once", True)
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "mine" / "cache"))
    monkeypatch.setattr(cache, "_complained", False)
    monkeypatch.setattr(cache, "_is_lost", False)
    monkeypatch.setattr(cache, "_puts", 0)
    (tmp_path / "mine" / "cache").mkdir(parents=True)
    tmp_path.chmod(0o755)
    return tmp_path / "mine" / "cache"


@pytest.fixture
def give_away(monkeypatch):
    """Makes something belong to another user, or look like it if this user cannot do that."""
    others = set()

    def seen(call):
        def status(what, *more, **options):
            found = call(what, *more, **options)
            row = list(found)
            row[4] = 4242 if (found.st_dev, found.st_ino) in others else row[4]
            return os.stat_result(row)

        return status

    def give(path):
        if os.geteuid() == 0:
            os.chown(path, 4242, -1)
        else:
            status = os.stat(path)
            others.add((status.st_dev, status.st_ino))

    if os.geteuid() != 0:
        for name in ("lstat", "fstat"):
            monkeypatch.setattr(os, name, seen(getattr(os, name)))
    return give


def put(key: str = KEY) -> Path:
    cache.put(key, "text", b"code", False)
    cache.write_pending()
    return Path(os.environ["DRJIT_CACHE_DIR"], cache._FOLDER, f"{key}.kernel")


def warned(capfd) -> str:
    """The one warning."""
    message = capfd.readouterr().err
    assert message.count("\n") == 1, message
    return message


SHARED = [  # what is changed, its mode, whether the cache is used
    ("mine/cache/drjit", 0o770, False),
    ("mine/cache/drjit", 0o702, False),
    ("mine/cache/drjit", 0o1777, False),
    ("mine/cache/drjit", 0o755, True),
    ("mine/cache", 0o770, False),
    ("mine/cache", 0o757, False),
    ("mine/cache", 0o1777, True),
    ("mine", 0o775, False),
    ("mine", 0o1775, True),
    ("", 0o777, False),
    ("", 0o1777, True),
]


@pytest.mark.parametrize(("name", "mode", "used"), SHARED)
def test_a_folder_in_which_others_can_write_is_not_used(tmp_path, capfd, name, mode, used):
    """Nor is one below it, which they could replace, unless only owners may rename there."""
    put()
    changed = tmp_path / name.replace("drjit", cache._FOLDER)
    changed.chmod(mode)
    cache._folder = (), None  # what a new process knows
    assert (cache.get(KEY) is not None) == (cache.folder(make=False) is not None) == used
    assert (cache.info()["folder"] is not None) == cache.is_writable() == used
    put(OTHER)
    if used:
        assert capfd.readouterr().err == ""
    else:
        message = warned(capfd)
        assert f"other users can write to {changed}, with mode {mode:04o}" in message
        assert f"run `chmod go-w {changed}`" in message and "DRJIT_CACHE_DIR" in message
        subprocess.run(["chmod", "go-w", changed], check=True)
        cache._folder = (), None
        assert cache.get(KEY) is not None and cache.get(OTHER) is None


@pytest.mark.parametrize("name", ["mine/cache/drjit", "mine/cache", "mine"])
def test_a_folder_of_another_user_is_not_used(tmp_path, capfd, give_away, name):
    put()
    changed = tmp_path / name.replace("drjit", cache._FOLDER)
    give_away(changed)
    cache._folder = (), None
    assert cache.get(KEY) is None and cache.folder(make=False) is None
    assert f"{changed} belongs to another user (uid 4242)" in warned(capfd)


def test_the_folder_is_chosen_anew_for_another_user(monkeypatch, give_away, root):
    """Such as that which a process of root becomes."""
    put()
    assert cache.info()["folder"]
    give_away(root)
    monkeypatch.setattr(os, "geteuid", lambda: 4243)
    assert cache.info()["folder"] is None and cache.get(KEY) is None


def test_links_count_as_what_they_lead_to(tmp_path, monkeypatch, capfd):
    put()
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "link" / "cache"))
    assert cache.get(KEY) is not None
    assert cache.info()["folder"] == str(tmp_path / "mine" / "cache" / cache._FOLDER)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "mine" / "away").symlink_to(tmp_path / "open" / "cache")
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "mine" / "away"))
    assert cache.info()["folder"] is None
    assert f"other users can write to {tmp_path / 'open'}" in warned(capfd)
    assert not (tmp_path / "open" / "cache").exists()


@pytest.mark.parametrize("mask", [0, 0o077, 0o777])
def test_only_the_user_may_access_what_is_made(tmp_path, monkeypatch, mask):
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "new" / "folder"))
    before = os.umask(mask)
    try:
        path = put()
        assert cache.get(KEY).code == b"code"
    finally:
        os.umask(before)
    for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600


def fifo(path):
    path.unlink()
    os.mkfifo(path)


def bound(path):
    path.unlink()
    here = os.getcwd()
    os.chdir(path.parent)  # the paths of sockets are short
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(path.name)
    os.chdir(here)


def folder_instead(path):
    path.unlink()
    path.mkdir()


def linked(path):
    path.rename(path.with_name("target"))
    path.symlink_to("target")


def endless(path):
    path.unlink()
    path.symlink_to("/dev/zero")


INSTEAD = {
    "a pipe": (fifo, "is no regular file"),
    "a socket": (bound, "Errno"),
    "a folder": (folder_instead, "is no regular file"),
    "a link": (linked, "is a symbolic link"),
    "an endless file": (endless, "is a symbolic link"),
    "a huge file": (lambda path: os.truncate(path, cache._LARGEST + 1), "bytes, of at most"),
    "writable by a group": (lambda path: path.chmod(0o660), "other users can write to"),
    "writable by all": (lambda path: path.chmod(0o602), "other users can write to"),
    "of another user": (None, "belongs to another user"),
}


@pytest.mark.parametrize("what", INSTEAD)
def test_what_this_user_has_not_written_is_not_loaded(capfd, give_away, what):
    """It is no reason to wait either, and is replaced by an entry."""
    path = put()
    change, why = INSTEAD[what]
    (change or give_away)(path)
    assert cache.get(KEY) is None and cache.get(KEY) is None
    message = warned(capfd)
    assert "an entry of the kernel cache is not used" in message
    assert str(path) in message and why in message
    assert os.path.lexists(path)
    put()
    if what == "a folder":
        assert path.is_dir() and cache.get(KEY) is None
    else:
        assert cache.get(KEY).code == b"code" and not path.is_symlink()


def test_entries_are_of_a_sane_size(monkeypatch):
    monkeypatch.setattr(cache, "_LARGEST", 1000)
    cache.put(KEY, "text", bytes(2000), False)
    cache.write_pending()
    assert cache.get(KEY) is None and cache.info()["entries"] == 0


NAMESPACE = """
import ctypes, os, shlex, sys, tempfile
from drjit.jit.run import cache

user, mapped, mount, package = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
if os.geteuid() != int(user):
    os.setgid(int(user))
    os.setuid(int(user))
    libc.prctl(4, 1, 0, 0, 0)  # may write its own maps again
group = os.getegid()
if libc.unshare(0x10000000 | 0x20000):  # users, and mounts
    sys.exit("no namespaces")
if mapped:
    maps = {"uid_map": f"{user} {user} 1", "setgroups": "deny", "gid_map": f"{group} {group} 1"}
    try:
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    except OSError:
        sys.exit("no namespaces")
if mount and libc.mount(b"none", mount.encode(), b"tmpfs", 0, None):
    sys.exit("no namespaces")
cache.__file__ = package
print(cache.info()["folder"])
"""
OUTSIDE = "belongs to a user from outside of this user namespace.*a file system that .* tmpfs"
NAMESPACES = {  # whether the user is mapped, something is mounted, the package is near; a message
    "a user that is not mapped": ("", False, False, "not know which files.*--map-current-user"),
    "folders from outside": ("1", False, False, OUTSIDE),
    "a file system of its own": ("1", True, False, ""),
    "folders above the package": ("1", False, True, ""),
}


@pytest.mark.skipif(sys.platform != "linux", reason="needs namespaces of users")
@pytest.mark.parametrize("what", NAMESPACES)
def test_in_a_namespace_folders_from_outside_are_trusted_as_far_as_the_package_is(what):
    mapped, mounts, near, message = NAMESPACES[what]
    root = Path(os.path.realpath(tempfile.mkdtemp()))
    try:
        user = os.geteuid() or 4242
        os.chown(root, user, -1)
        package = (root if near else Path("/nowhere")) / "drjit" / "jit" / "run" / "cache.py"
        mount = str(Path(*root.parts[:2])) if mounts else ""
        where = Path(mount, "new") if mounts else root / "new"
        done = subprocess.run(
            [sys.executable, "-c", NAMESPACE, str(user), mapped, mount, str(package)],
            env=os.environ | {"DRJIT_CACHE_DIR": str(where)}, capture_output=True, text=True,
        )  # fmt: skip
    finally:
        shutil.rmtree(root)
    if done.returncode and "no namespaces" in done.stderr:
        pytest.skip("namespaces of users are not available")
    assert done.returncode == 0, done.stderr
    if message:
        assert done.stdout == "None\n" and done.stderr.count("\n") == 1
        assert re.search(message, done.stderr) and "DRJIT_CACHE_DIR" in done.stderr
    else:
        assert (done.stdout, done.stderr) == (f"{where / cache._FOLDER}\n", "")


FOREIGN = [
    "thesis.tmp", "model.kernel", "photo.jpg", "a-b.tmp", "1-2-3.tmp.gz", "x1-2-3.tmp",
    f"{KEY[1:]}.kernel", f"{'g' * 40}.kernel", f"{KEY}.kernel.bak", f"{KEY.upper()}.kernel",
]  # fmt: skip


def test_files_of_others_stay(root, monkeypatch):
    """However old and large they are, in the folder that a user names and in that of the cache."""
    monkeypatch.setenv("DRJIT_CACHE_MAXSIZE", "1k")
    own = put().parent
    folders = [root, own]
    for folder in folders:
        for name in FOREIGN:
            (folder / name).write_bytes(bytes(5000))
            os.utime(folder / name, (1, 1))
        (folder / f"{OTHER}.kernel").mkdir()
        (folder / f"{'c' * 40}.kernel").symlink_to(folder / "photo.jpg")
    (root / f"{'d' * 40}.kernel").write_bytes(bytes(5000))  # of the form of an entry, but not there
    for k in range(70):
        put(f"{k:040x}")
    cache.write_pending()
    cache.evict()
    assert 0 < cache.info()["bytes"] <= 1024
    cache.flush()
    assert cache.info()["entries"] == 0
    for folder in folders:
        assert all((folder / name).stat().st_size == 5000 for name in FOREIGN)
        assert (folder / f"{OTHER}.kernel").is_dir()
        assert (folder / f"{'c' * 40}.kernel").is_symlink()
    assert (root / f"{'d' * 40}.kernel").exists()


PROGRAM = """
import drjit as dr
from drjit.jit.cpu import kernel, variants
from drjit.llvm import Float
variants.pinned = "compiled"
cached = type(dr.sum.__globals__["__loader__"]).__name__ == "_Loader"
print("from the cache" if cached else "from its file", dr.sum(dr.arange(Float, 100) + 1))
"""


def run(**variables: str) -> tuple[str, str]:
    environment = os.environ | variables
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_a_program_runs_without_a_folder_that_is_not_its_own(root):
    root.chmod(0o777)
    out, message = run()
    assert out == "from its file [5050]\n"
    assert message.count("\n") == 1 and f"run `chmod go-w {root}`" in message
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("change", [fifo, linked, lambda path: path.chmod(0o666)])
def test_modules_that_others_could_have_written_are_not_loaded(root, change):
    """They come from their own files, at once, and what others had a hand in is replaced."""
    run()
    assert run() == ("from the cache [5050]\n", "")
    path = max((root / cache._FOLDER).glob("*.kernel"), key=lambda file: file.stat().st_size)
    change(path)
    out, message = run()
    assert out == "from its file [5050]\n"
    assert message.count("\n") == 1 and str(path) in message
    assert run() == ("from the cache [5050]\n", "")
