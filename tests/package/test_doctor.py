"""`python -m drjit doctor` reports on every machine, and says what is missing."""

import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nursery
import pytest

from drjit import __main__ as doctor
from drjit.jit import processor, substitutes
from drjit.jit.native import objects
from drjit.jit.run import cache

ROOT = Path(__file__).parents[2]


def run(*arguments, **variables):
    return nursery.run("from drjit.__main__ import main; main()", *arguments, environment=variables)


def test_the_report_can_be_pasted_into_a_bug_report(tmp_path):
    variables = {"DRJIT_CACHE_DIR": str(tmp_path), "DRJIT_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "drjit", "doctor"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=os.environ | variables
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = dict(re.findall(r"^  (\S.*?) {2,}(\S.*)$", done.stdout, re.MULTILINE))
    for name in (
        "drjit",
        "Python",
        "NumPy",
        "Numba",
        "llvmlite",
        "LLVM",
        "native",
        "processor",
        "memory",
        "GPU",
    ):
        assert lines[name] and "unknown" not in lines[name], (name, lines[name])
    assert lines["threads"].startswith("1 of ")
    assert re.fullmatch(r"(8|16) per packet", lines["lanes"])
    assert lines["cache"] == f"{tmp_path / cache._FOLDER} (writable)"
    assert re.match(r"\d+ entries, [\d.]+ MiB of at most \d+ MiB", lines["cached"])
    assert f"DRJIT_CACHE_DIR={tmp_path}" in lines["tier"]
    assert re.match(r"made by LLVM; machine code by (ptxas|nvJitLink|the driver)", lines["PTX"])
    assert re.match(r"\d|not installed .*drjit-numba\[numba-cuda\]", lines["numba.cuda"])
    for name in ("import", "NumPy tier", "compiled", "GPU"):
        assert lines[name].startswith("ok, ")


def test_a_python_that_native_code_does_not_know_is_reported(monkeypatch):
    monkeypatch.setattr(substitutes, "SWITCH", "off")
    assert any(re.match("  native +off: DRJIT_NATIVE=off", s) for s in doctor.report())
    monkeypatch.setattr(substitutes, "SWITCH", "on")
    assert doctor.native() == "knows the objects of this Python"
    monkeypatch.setattr(objects, "are_known", lambda kinds: False)
    assert any(re.match("  native +off: .* takes longer", s) for s in doctor.report())


def test_a_python_without_the_gil_is_reported(monkeypatch):
    assert "free-threaded" not in doctor.python()
    monkeypatch.setattr(objects, "is_free_threaded", lambda: True)
    assert any(re.match("  Python .* free-threaded build: NOT", s) for s in doctor.report())
    assert not objects.are_known(())  # which are not looked for in such a Python


def test_an_llvm_that_makes_no_ptx_is_reported(monkeypatch):
    def from_triple(triple):
        raise RuntimeError(f"no target {triple}")

    monkeypatch.setattr("llvmlite.binding.Target.from_triple", from_triple)
    assert re.match(r"not available: llvmlite was built without .*pip install", doctor.ptx())


def test_numba_is_not_imported_for_its_version():
    code = (
        "import sys; import drjit as dr; from drjit import __main__ as m; "
        "dr.set_flag(dr.JitFlag.NumbaCompiler, False); "
        "m.main(['doctor']); assert 'numba' not in sys.modules"
    )
    done = nursery.run(code)
    assert done.returncode == 0, done.stderr


on_x86 = platform.machine().lower() in ("x86_64", "amd64")


@pytest.mark.parametrize("missing", ["llvmlite", "numpy"])
def test_what_is_missing_is_a_line_of_the_report(monkeypatch, missing):
    def version(name):
        if name == missing:
            raise doctor.importlib.metadata.PackageNotFoundError
        return "1.0"

    monkeypatch.setattr(doctor.importlib.metadata, "version", version)
    assert any(re.search("not installed$", line) for line in doctor.report())


def test_a_probe_that_fails_is_a_line_of_the_report(monkeypatch):
    def broken():
        raise OSError("no such thing")

    monkeypatch.setitem(doctor.SECTIONS["machine"], "memory", broken)
    assert "  memory      unknown (OSError: no such thing)" in list(doctor.report())


def test_a_cache_that_cannot_be_used_is_reported(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = run("doctor", DRJIT_CACHE_DIR=str(blocked / "folder"))
    assert done.returncode == 0
    assert "every process compiles" in done.stdout
    assert "compiled    ok" in done.stdout


def test_the_command_line_explains_itself():
    explained = run()
    assert explained.stdout == run("--help").stdout and "doctor" in explained.stdout
    assert explained.returncode == 0
    assert run("--version").stdout.split() == ["drjit", doctor.drjit.__version__]


def test_kernels_can_be_compiled_for_a_narrower_processor(tmp_path):
    variables = {"DRJIT_CACHE_DIR": str(tmp_path), "DRJIT_TARGET_CPU": "x86-64-v3"}
    report = run("doctor", **variables).stdout
    assert "processor   x86-64-v3 " in report and "avx512" not in report
    assert "8 per packet" in report and "compiled    ok, " in report


def test_an_unknown_processor_is_an_error(tmp_path):
    code = """
import drjit as dr
from drjit.jit.cpu import variants
from drjit.llvm import Float

variants.pinned = "compiled"
print(dr.sin(dr.arange(Float, 9)))
"""
    variables = {"DRJIT_CACHE_DIR": str(tmp_path), "DRJIT_TARGET_CPU": "pentium"}
    done = nursery.run(code, environment=variables)
    assert "DRJIT_TARGET_CPU=pentium: LLVM knows no such processor with " in done.stderr
    assert "Expected 'native', or LLVM's name of a processor" in done.stderr


NAMED = """
from drjit.jit import processor, substitutes
from drjit.jit.run import cache

print(processor.target(), processor.register_bytes(), cache.digest("text"))
"""


@pytest.mark.skipif(not on_x86, reason="names of x86 processors")
def test_a_processor_is_named_as_llvm_names_it(tmp_path):
    def about(name):
        done = nursery.run(NAMED, environment={"DRJIT_TARGET_CPU": name})
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    haswell, v3, native = about("haswell"), about("x86-64-v3"), about("native")
    assert "+avx2" in haswell[1] and "avx512" not in haswell[1] and "+sse4a" not in haswell[1]
    assert haswell[2] == v3[2] == "32"
    assert len({haswell[3], v3[3], native[3]}) == 3, "machine code must not be shared"


@pytest.mark.skipif(not on_x86, reason="names of x86 processors")
def test_a_processor_with_other_instructions_is_an_error(monkeypatch):
    class Lacking(dict):
        flatten = None

    present = processor.binding().get_host_cpu_features()
    fewer = Lacking({name: on and name != "bmi2" for name, on in present.items()})
    monkeypatch.setattr(processor.binding(), "get_host_cpu_features", lambda: fewer)
    monkeypatch.setenv("DRJIT_TARGET_CPU", "haswell")
    with pytest.raises(RuntimeError) as error:
        processor.target.__wrapped__()
    message = str(error.value)
    assert "DRJIT_TARGET_CPU=haswell: this processor has no bmi2." in message
    assert "'haswell'" not in message and "'x86-64-v3'" not in message


@pytest.mark.skipif(not hasattr(os, "fork"), reason="pipes of Unix")
def test_whoever_reads_the_report_may_stop():
    command = f"{shlex.quote(sys.executable)} -m drjit doctor | head -n 1"
    path = os.pathsep.join([p for p in sys.path if p])
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.stderr == "" and len(done.stdout.splitlines()) == 1
