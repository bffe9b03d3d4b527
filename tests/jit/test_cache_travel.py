"""Packed kernel caches: another installation of the same modules uses what one has compiled."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.damaging import mutated, mutated_members

import drjit as dr
from drjit.__main__ import main
from drjit.function.exchange import kernel_pack
from drjit.jit.run import cache

PROGRAM = """
import drjit as dr
from drjit.llvm.ad import Float
with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
    x = dr.linspace(Float, 0, 1, 100_000)
    dr.enable_grad(x)
    dr.backward(dr.mean(dr.sin(x) * x))
    dr.eval(x.grad)
    launches = dr.kernel_history()
print(sum(launch["cache_disk"] for launch in launches), len(launches))
"""
KEY = "a" * 40


@pytest.fixture(autouse=True)
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache with an entry."""
    monkeypatch.setattr(cache, "_at_once", True)
    monkeypatch.setattr(cache, "_complained", False)
    monkeypatch.setattr(cache, "_is_lost", False)
    (tmp_path / "mine").mkdir(mode=0o700)
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "mine"))
    cache.put(KEY, "text", b"code", True)
    return tmp_path / "mine" / "drjit-3"


def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "other"))


def run(package: Path, folder: Path, *arguments: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(package), "DRJIT_CACHE_DIR": str(folder)}
    command = [sys.executable, *(arguments or ("-c", PROGRAM))]
    done = subprocess.run(command, cwd=folder.parent, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_installation_finds_the_kernels(tmp_path: Path) -> None:
    mine, other = Path(dr.__file__).parents[1], tmp_path / "other"
    for name in ("drjit", "drjit_examples"):
        shutil.copytree(
            mine / name, other / name, copy_function=shutil.copyfile,
            ignore=shutil.ignore_patterns("__pycache__"),
        )  # fmt: skip
    here, there, file = tmp_path / "here", tmp_path / "there", str(tmp_path / "kernels.npz")
    first = run(mine, here).split()
    assert first[0] == "0"
    assert run(other, here).split()[0] == "0"  # nobody has said that it is the same
    assert f" entries in {file}, " in run(mine, here, "-m", "drjit", "cache", "pack", file)
    assert str(there) in run(other, there, "-m", "drjit", "cache", "unpack", file)
    found, launches = run(other, there).split()
    assert found == launches == first[1] != "0"
    # From there, it may travel on.
    run(other, there, "-m", "drjit", "cache", "pack", file)
    run(mine, tmp_path / "again", "-m", "drjit", "cache", "unpack", file)
    assert run(mine, tmp_path / "again").split() == [found, launches]


def test_entries_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kernels.npz"
    assert kernel_pack.pack(file).startswith(f"1 entries in {file}, ")
    elsewhere(tmp_path, monkeypatch)
    assert cache.get(KEY) is None
    assert kernel_pack.unpack(file) == f"1 entries in {tmp_path / 'other' / 'drjit-3'}"
    assert cache.get(KEY) == ("text", b"code", True)


def test_what_cannot_be_used_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kernels.npz"
    kernel_pack.pack(file)
    elsewhere(tmp_path, monkeypatch)
    monkeypatch.setattr(kernel_pack.platform, "python_version", lambda: "3.99.0")
    assert "Programs are traced anew by Python 3.99.0" in kernel_pack.unpack(file)
    monkeypatch.setattr(kernel_pack, "machine", lambda: ["another"])
    assert "compiled for another processor" in kernel_pack.unpack(file)
    monkeypatch.setattr(kernel_pack, "contents_of_package", lambda: "another")
    with pytest.raises(ValueError, match="another version of this package, whose kernels do not"):
        kernel_pack.unpack(file)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX permissions")
def test_files_that_others_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    file = open_folder / "kernels.npz"
    kernel_pack.pack(file)
    elsewhere(tmp_path, monkeypatch)
    link = tmp_path / "link.npz"
    link.symlink_to(file)
    for changed, mode, usual in ((file, 0o666, 0o600), (open_folder, 0o777, 0o755)):
        changed.chmod(mode)
        for name in (file, link):
            with pytest.raises(PermissionError, match=r"other users can write to .* unpack a copy"):
                kernel_pack.unpack(name)
        changed.chmod(usual)
    assert cache.get(KEY) is None
    kernel_pack.unpack(link)
    assert cache.get(KEY)


def test_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str) -> str:
        assert main(["cache", *arguments]) == 1
        return capsys.readouterr().err

    assert "the name must end with .npz" in said("pack", str(tmp_path / "kernels.zip"))
    assert "No such file" in said("unpack", str(tmp_path / "kernels.npz"))
    dr.save(tmp_path / "state.npz", {"x": np.zeros(3)})
    assert "the file has no kernels" in said("unpack", str(tmp_path / "state.npz"))
    cache.flush()
    assert "there are no entries in " in said("pack", str(tmp_path / "kernels.npz"))


@pytest.mark.parametrize("count", [50, pytest.param(2000, marks=pytest.mark.sweep)])
def test_damaged_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Either a documented error names the file, or entries are those that were packed."""
    cache.put("b" * 40, "other", bytes(3000), False)
    file = tmp_path / "kernels.npz"
    kernel_pack.pack(file)
    known: dict[Any, Any] = {k * 40: cache.get(k * 40) for k in "ab"}
    elsewhere(tmp_path, monkeypatch)
    whole, r, failed = file.read_bytes(), random.Random(count), 0
    for k in range(count):
        file.write_bytes((mutated, mutated_members)[k % 2](whole, r))
        try:
            kernel_pack.unpack(file)
        except ValueError as error:
            assert f"unpack {str(file)!r}" in str(error)
            failed += 1
        assert all(cache.get(key) in (None, entry) for key, entry in known.items())
        cache.flush()
    assert failed > count / 2
