"""The limits of a machine: measured once, kept in a file of their own."""

import json
import os
from pathlib import Path

import pytest

from drjit.jit.cpu import kernel, runtime
from drjit.jit.run import cache
from drjit.reporting import machine


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and nothing known."""
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(machine, "_known", {})
    monkeypatch.setattr(machine, "STREAM_LANES", 1 << 16)
    monkeypatch.setattr(machine, "FUSED_LANES", 1 << 12)
    return tmp_path


def files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.machine"))


def test_measured_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = kernel.kernels()
    found = machine.limits()
    assert found["bandwidth"] > 0 and found["threads"] == runtime.thread_count()
    assert {code: rate > 0 for code, rate in found["flops"].items()} == {"f32": True, "f64": True}
    assert kernel.kernels() == kernels  # nobody else's
    (file,) = files(folder)
    assert json.loads(file.read_text()) == found
    assert file.stat().st_mode & 0o077 == 0 or os.name == "nt"

    def never(*_: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(machine, "_measured", never)
    assert machine.limits() is found
    machine._known.clear()
    assert machine.limits() == found


def test_another_number_of_threads(folder: Path) -> None:
    machine.limits()
    before = runtime.thread_count()
    try:
        runtime.set_thread_count(before + 1)
        assert machine.limits()["threads"] == before + 1
    finally:
        runtime.set_thread_count(before)
    assert len(files(folder)) == 2


def test_a_damaged_file_is_replaced(folder: Path) -> None:
    found = machine.limits()
    files(folder)[0].write_text("{")
    machine._known.clear()
    assert machine.limits()["flops"].keys() == found["flops"].keys()
    assert json.loads(files(folder)[0].read_text())


def test_files_are_not_entries(folder: Path) -> None:
    machine.limits()
    cache.write_pending()
    cache.flush()
    assert cache.info()["entries"] == 0 and len(files(folder)) == 1


def test_without_a_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> float:
        raise ImportError

    monkeypatch.setattr(machine, "_bandwidth", missing)
    assert machine.limits() == {} and not files(folder)
