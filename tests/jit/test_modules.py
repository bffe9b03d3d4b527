"""The modules of the package come from the disk cache, unless they have changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from drjit.jit.run import cache

PACKAGE = Path(__file__).parents[2] / "drjit"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    folder = tmp_path / "cache" / cache._FOLDER
    folder.mkdir(parents=True)
    return folder


def run(code: str, *options: str) -> str:
    command = [sys.executable, "-W", "error", *options, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


LOADERS = """
import sys, drjit as dr
from drjit.auto import Float
dr.sin(Float(1))
names = [n for n in sys.modules if n.startswith("drjit.") and hasattr(sys.modules[n], "__file__")]
print(len([n for n in names if type(sys.modules[n].__loader__).__name__ == "_Loader"]))
"""
SAME = """
import importlib, inspect, sys, drjit as dr
from drjit.function.data import reduce
from drjit import opt
print(reduce.__file__, reduce.__cached__, reduce.__spec__.origin, reduce.__package__, opt.__path__)
print(inspect.getsource(dr.mean), dr.mean.__code__.co_filename, reduce.__spec__.parent)
print(importlib.reload(reduce).__loader__.__class__.__name__)
print(importlib.import_module("drjit.function.data.scan").__spec__.loader.get_source("drjit.function.data.scan"))
"""


def test_a_second_process_has_modules_from_the_cache(folder):
    first = run(SAME)
    assert int(run(LOADERS)) > 100
    # Nothing but where they come from is different; what is loaded again comes from its file.
    assert run(SAME) == first and "SourceFileLoader" in first
    assert int(run(LOADERS)) > 100


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "nothing"])
def test_a_damaged_file_is_no_obstacle(folder, damage: str):
    run(LOADERS)
    path = max(folder.iterdir(), key=lambda file: file.stat().st_size)
    data = path.read_bytes()
    changed = {"cut": data[:-100], "empty": b"", "other": b"x" * 1000, "nothing": data}[damage]
    path.write_bytes(changed)
    assert (int(run(LOADERS)) > 100) == (damage == "nothing")
    assert int(run(LOADERS)) > 100  # written anew


def test_changed_modules_are_imported_anew(folder, tmp_path, monkeypatch):
    shutil.copytree(PACKAGE, tmp_path / "drjit")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    show = (
        "import drjit.ad.memory_rules as m; "
        "print(m.__file__, getattr(m, 'added', None), m.__doc__[0])"
    )
    path = tmp_path / "drjit" / "ad" / "memory_rules.py"
    text = path.read_text()
    assert text.startswith('"""') and text[3] != "?"
    run(LOADERS, "-P")
    assert run(show, "-P") == f"{path} None {text[3]}\n"
    path.write_text(text + "added = 1\n")
    for _ in range(2):
        assert run(show, "-P") == f"{path} 1 {text[3]}\n"
    path.write_text('"""?' + text[4:])  # as long as before
    os.utime(path, (path.stat().st_mtime + 2,) * 2)
    for _ in range(2):
        assert run(show, "-P") == f"{path} None ?\n"
    path.unlink()
    with pytest.raises(subprocess.CalledProcessError):
        run(show, "-P")


def test_an_import_makes_no_folder(folder, monkeypatch):
    folder.rmdir()
    run("import drjit.nn")
    assert not folder.exists()


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="needs permissions")
def test_a_folder_that_is_read_only_is_no_obstacle(folder):
    run(LOADERS)
    folder.chmod(0o500)
    assert int(run(LOADERS + "import drjit.nn, drjit.opt, drjit.texture")) > 100
    folder.chmod(0o700)


def test_without_bytecode_nothing_is_written(folder):
    run("import drjit.nn", "-B")
    assert not list(folder.iterdir())
