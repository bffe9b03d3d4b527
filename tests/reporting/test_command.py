"""`python -m drjit report`: programs run as by Python itself, and are recorded however they end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = "import os, sys\nimport drjit as dr\nfrom drjit.llvm import Float, UInt\n"
SUM = "print(dr.sum(dr.arange(Float, 1000)), __name__, sys.argv[1:])\n"


def run(folder: Path, text: str, *arguments: str, before: tuple = (), out: str = "run.json"):
    (folder / "program.py").write_text(HEAD + text)
    command = [sys.executable, "-m", "drjit", "report", *before, "program.py", *arguments]
    command += ["--out", out] if out else []
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    saved = folder / (out or "other.json")
    data = json.loads(saved.read_text()) if saved.exists() else {}
    return done, data.get("otherData", {}), data.get("traceEvents", [])


def test_a_program_with_options(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("name = 'beside'\n")
    done, program, rows = run(tmp_path, "import beside\n" + SUM, "--n", "3")
    assert done.returncode == 0 and done.stdout == "[499500] __main__ ['--n', '3']\n"
    assert program["argv"] == ["program.py", "--n", "3"] and program["ended"] == "completed"
    assert program["command"] == "program.py --n 3"
    assert any(e.get("cat") == "kernel" and "program.py:5" in e["name"] for e in rows)
    assert done.stderr.startswith("program.py --n 3: ") and done.stderr.endswith("run.json\n")


def test_the_name_may_come_first_and_the_program_may_have_one_of_its_own(tmp_path: Path) -> None:
    before = ("--out", "other.json")
    done, program, _ = run(tmp_path, SUM, "--out", "mine", before=before, out="")
    assert done.stdout == "[499500] __main__ ['--out', 'mine']\n"
    assert program["argv"] == ["program.py", "--out", "mine"]


def test_a_module(tmp_path: Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "part/__main__.py").write_text(HEAD + SUM)
    (tmp_path / "part/__init__.py").touch()
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-m", "drjit", "report", "-m", "part", "x", "--out=run.json"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "[499500] __main__ ['x']\n" and (tmp_path / "run.json").exists()


def test_a_program_that_fails(tmp_path: Path) -> None:
    text = "def f(x):\n    return 1 / x\ndr.eval(dr.arange(Float, 1000) + 1)\nf(0)\n"
    done, program, rows = run(tmp_path, text)
    assert done.returncode == 1 and program["ended"] == "failed"
    trace = done.stderr.partition("ZeroDivisionError: division by zero")[0]
    assert trace.count("File ") == 2 and "program.py" in trace and "runpy" not in trace
    assert any(e.get("cat") == "kernel" for e in rows)


@pytest.mark.parametrize("status", ["0", "3", "'too bad'"])
def test_a_program_that_ends_itself(tmp_path: Path, status: str) -> None:
    done, program, _ = run(tmp_path, SUM + f"sys.exit({status})\n")
    assert done.returncode == (int(status) if status.isdigit() else 1)
    assert ("too bad\n" in done.stderr) == (not status.isdigit())
    assert program["ended"] == "completed"
    notes = [f"the program ended with sys.exit({status})"] if status != "0" else []
    assert program["notes"] == notes


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_in_a_kernel_that_does_not_end(tmp_path: Path) -> None:
    text = """
import signal, threading
@dr.syntax
def endless(x):
    while x >= 0:
        x += 1e-30
    return x
x = endless(dr.arange(Float, 100_000))
threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
print(x)
"""
    done, program, _ = run(tmp_path, text)
    assert done.returncode == 130 and program["ended"] == "interrupted"
    assert "KeyboardInterrupt" in done.stderr and "program.py" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_program_that_forks(tmp_path: Path) -> None:
    text = SUM + "pid = os.fork()\nprint(dr.sum(dr.arange(Float, 10 + bool(pid))), flush=True)\n"
    done, program, _ = run(tmp_path, text + "if pid: os.waitpid(pid, 0)\n")
    assert done.returncode == 0, done.stderr
    assert "[45]" in done.stdout and "[55]" in done.stdout
    assert program["notes"] == ["the program forked: what its children did is not here"]
    assert done.stderr.count("run.json") == 1


def test_what_cannot_be_done(tmp_path: Path) -> None:
    done, *_ = run(tmp_path, SUM, out="run.txt")
    assert done.returncode == 2 and "saved as .html or .json, not 'run.txt'" in done.stderr
    done, *_ = run(tmp_path, SUM, before=("missing.py",))
    assert done.returncode == 2 and "there is no file 'missing.py'" in done.stderr
