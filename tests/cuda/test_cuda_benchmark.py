"""What `benchmarks/gpu.py` reports if parts of it fail, each in its own way."""

import ast
import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PROGRAM = f"""
import os, sys, time
sys.path.insert(0, {str(BENCHMARKS)!r})
import gpu
from gpu import Part

def values():
    from drjit.cuda import Float
    return Float([1, 2, 3])

def raises(at):
    yield "first", lambda: f"{{values() + 1}}"
    yield "broken", lambda: [][1]
    yield "last", lambda: f"{{values() + 2}}"

def aborts(at):
    import drjit as dr
    yield "first", lambda: f"{{values() + 1}}"
    yield "broken", lambda: (f"{{dr.sqrt(values())}}", os.abort())
    yield "last", lambda: f"{{values() + 2}}"

def hangs(at):
    import drjit as dr
    yield "broken", lambda: (f"{{dr.abs(values())}}", time.sleep(1000))

def fails(at):
    def misaligned():
        x = values() + 0.5
        x.numpy()
        x._node.data.address += 1
        return f"{{x * x}}"
    yield "first", lambda: f"{{values() + 1}}"
    yield "broken", misaligned
    yield "last", lambda: f"{{values() + 2}}"

def unready(at):
    yield "first", lambda: "done"
    raise RuntimeError("no inputs")

def corpus(at):
    emulated = "emulated" in sys.argv
    yield "equal", lambda: values().numpy()
    yield "float sum", lambda: (values() + 1e-6 * emulated).numpy()
    yield "digits", lambda: (values() * (3 if emulated else 4)).numpy()
    for name in ["here"] * (not emulated) + ["there"] * emulated:
        yield name, lambda: values().numpy()

broken = {{
    "raises": 30, "aborts": 30, "hangs": 5, "fails": 30, "unready": 30,
}}
gpu.main({{
    "facts": gpu.PARTS["facts"], "control flow": Part("__main__", "corpus", 30),
    **{{name: Part("__main__", name, seconds) for name, seconds in broken.items()}},
    "bad indices": gpu.PARTS["bad indices"], "sorting": gpu.PARTS["sorting"],
}})
"""
SANITIZER = "#!/bin/sh\necho ========= Invalid __global__ read of size 4\nexit 9\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The emulated run of the program: its report, what it said, and its folder."""
    folder = tmp_path_factory.mktemp("gpu")
    script, tool = folder / "program.py", folder / "bin" / "compute-sanitizer"
    script.write_text(PROGRAM)
    tool.parent.mkdir()
    tool.write_text(SANITIZER)
    tool.chmod(0o755)
    path = os.pathsep.join([str(tool.parent), os.environ["PATH"]])
    command = [sys.executable, str(script), "--emulated", "--out", str(folder / "out")]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"PATH": path}, timeout=300
    )
    report = (folder / "out" / "report.md").read_text()
    return SimpleNamespace(done=done, report=report, parts=folder / "out" / "parts")


def section(report: str, title: str) -> str:
    """The lines about a problem."""
    (found,) = [s for s in report.split("\n- **") if s.startswith(f"{title}**")]
    return found.partition("\n## ")[0]


def test_the_report_is_printed_and_has_what_went_well(run):
    assert run.done.returncode == 1 and run.done.stdout.rstrip() == run.report.rstrip()
    lines = run.report.splitlines()
    assert "**On the emulated GPU, at a tiny size: the times mean nothing.**" in lines
    assert "- compute capability: 9.0" in lines and any(s.startswith("- llvmlite: ") for s in lines)
    assert "## Problems: 8" in lines
    for part in ("raises", "aborts", "fails"):
        assert "| last | [3, 4, 5] |" in lines, part
    (tried,) = [s for s in lines if s.startswith("| bad indices in 4,096 lanes |")]
    assert "whose index, size and lane agree" in tried
    (goal,) = [s for s in lines if s.startswith("| sort of 32-bit keys | 85% of")]
    assert goal.endswith("| not measured |  |") or "%" in goal
    parts = {s.split(" | ")[0][2:]: s.split(" | ")[2] for s in lines if s.count(" | ") == 3}
    assert parts["raises"] == "complete" and parts["bad indices"] == "complete"
    assert parts["aborts"] == "complete, in 2 processes; one ended by signal 6 (SIGABRT)"
    assert parts["hangs"] == "complete, in 2 processes; one timed out after 5 s"
    assert parts["fails"] == "complete, in 2 processes" and parts["unready"] == "incomplete"


def test_an_exception(run):
    found = section(run.report, "raises: broken")
    assert "IndexError: list index out of range" in found
    assert "One launch at a time, it fails: IndexError" in found
    assert "IndexError" in (run.parts / "raises" / "errors.log").read_text()


def test_a_process_that_is_ended(run):
    found = section(run.report, "aborts: broken")
    assert "the process ended by signal 6 (SIGABRT)" in found and "os.abort" in PROGRAM
    assert "Fatal Python error: Aborted" in found
    assert "One launch at a time, in kernel k" in found and "def kernel(i, p):" in found
    has_kernel(run.parts / "aborts.blocking", "sqrt(")


def test_a_process_that_takes_too_long(run):
    found = section(run.report, "hangs: broken")
    assert "the time was up" in found and "Kernels, in `parts/hangs`" in found
    has_kernel(run.parts / "hangs", "abs(")
    assert "timed out after 5 s" in run.report


def test_a_kernel_that_fails(run):
    found = section(run.report, "fails: broken")
    assert "CUDA_ERROR_LAUNCH_FAILED" in found and "One of these kernels failed" in found
    assert "```python\n  def kernel(i, p):" in found
    assert "it fails: CudaError: CUDA_ERROR_LAUNCH_FAILED" in found.partition("at a time")[2]
    assert "Invalid __global__ read of size 4" in found
    for folder in ("fails", "fails.blocking"):
        has_kernel(run.parts / folder, "x0 * x0")
    launches = (run.parts / "fails.blocking" / "launches.log").read_text()
    assert "1 blocks of 128 threads, 3 lanes, 0 bytes of dynamic shared memory" in launches


def test_results_that_differ_or_that_one_side_lacks(run):
    found = section(run.report, "control flow: digits")
    assert "3 of 3 values differ, first at 0: np.float32(4.0) in place of np.float32(3.0)" in found
    has_kernel(run.parts / "control_flow", " * ")
    assert "only the emulated GPU has computed there" in section(run.report, "control flow")
    assert "only the GPU has computed it" in section(run.report, "control flow: here")
    assert "Of 2 results, 1 are equal" in run.report and "1 within the rounding" in run.report


def test_inputs_that_cannot_be_made(run):
    assert "RuntimeError: no inputs" in section(run.report, "unready")


def has_kernel(folder: Path, what: str) -> None:
    """Checks that a folder has a kernel with some text, and its PTX."""
    texts = [f for f in folder.glob("k*.txt") if what in f.read_text()]
    assert texts, [*folder.iterdir()]
    assert ".visible .entry" in texts[0].with_suffix(".ptx").read_text()


def test_all_parts_exist():
    sys.path.append(str(BENCHMARKS))
    try:
        parts = runpy.run_path(str(BENCHMARKS / "gpu.py"))["PARTS"]
    finally:
        sys.path.remove(str(BENCHMARKS))
    for part in parts.values():
        tree = ast.parse((BENCHMARKS / f"{part.module}.py").read_text())
        functions = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
        assert part.function in functions
    assert sum(part.seconds for part in parts.values()) > 8 * 60  # so there is a limit of the whole


@pytest.mark.sweep
def test_the_whole_run_without_a_gpu(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--emulated", "--out", str(tmp_path)]
    command += ["--minutes", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1300)
    assert done.returncode == 0 and "## No problems" in done.stdout
    assert "not measured" not in done.stdout
