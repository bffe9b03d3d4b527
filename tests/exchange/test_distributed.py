"""Programs in several processes, by the engines that are installed."""

import importlib.util
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import drjit as dr
from drjit import distributed
from drjit.distributed import engine
from drjit.llvm.ad import Float

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "drjit_examples" / "distributed_field.py")
PROGRAM = Path(__file__).parents[1] / "support" / "distributed_program.py"


def command(engine: str, processes: int) -> list[str]:
    if importlib.util.find_spec(engine) is None:
        pytest.skip(f"{engine} is not installed")
    if engine == "torch":
        start = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
        return [sys.executable, *start, "--standalone"]
    # That of a wheel such as mpich belongs to the same library as mpi4py.
    mpiexec = shutil.which("mpiexec", path=Path(sys.executable).parent) or shutil.which("mpiexec")
    if mpiexec is None:
        pytest.skip("mpiexec is not installed")
    return [mpiexec, "-n", str(processes), sys.executable]


SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "DRJIT_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}


def run(engine: str, processes: int, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*command(engine, processes), *arguments],
        env=os.environ | SETTINGS,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("engine", "processes"), [("torch", 2), ("torch", 4), ("mpi4py", 2), ("mpi4py", 3)]
)
def test_values_adjoints_and_errors(engine, processes):
    done = run(engine, processes, str(PROGRAM), engine, str(processes))
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"process (\d) is done", done.stdout)) == list("0123"[:processes])


@pytest.mark.parametrize("engine", ["torch", "mpi4py"])
@pytest.mark.parametrize("when", ["die", "die in training"])
def test_a_process_that_ends_ends_the_others(engine, when):
    done = run(engine, 2, str(PROGRAM), engine, "2", when)
    assert done.returncode != 0
    assert "process 1 ends" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="pipes do not tell what is unread")
def test_last_words_are_waited_for_until_they_have_been_read(tmp_path):
    reader, writer = os.pipe()
    with open(reader, "rb", 0) as source, open(writer, "w") as stream:
        print("process 1 ends", file=stream, flush=True)
        engine.wait_until_read(stream, seconds=0.05)  # nobody reads: not forever
        found = []
        thread = threading.Thread(target=lambda: (time.sleep(0.2), found.append(source.read(100))))
        thread.start()
        engine.wait_until_read(stream, seconds=60)
        assert found == [b"process 1 ends\n"]
        thread.join()
    with open(tmp_path / "errors", "w") as stream:
        engine.wait_until_read(stream)
    engine.wait_until_read(io.StringIO())
    engine.wait_until_read(None)


def process_of_rank(rank: int, mark: str) -> int:
    """The id of a process with a mark in its environment."""
    ranks = {f"{name}={rank}" for name in ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")}
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            values = path.read_bytes().decode(errors="replace").split("\0")
            command = (path.parent / "cmdline").read_bytes()
        except OSError:  # ended, or another user's
            continue
        if mark in values and ranks.intersection(values) and b"distributed_field" in command:
            return int(path.parent.name)
    raise AssertionError(f"there is no process {rank}")


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
@pytest.mark.parametrize("engine", ["torch", "mpi4py"])
def test_training_resumes_after_a_process_was_killed(engine, tmp_path):
    example = [EXAMPLE, "--size", "32", "--every", "20"]
    state = tmp_path / "state.npz"
    saved = ["--checkpoint", str(state), "--iterations"]
    mark = f"DRJIT_TEST_MARK={tmp_path}"
    running = subprocess.Popen(
        [*command(engine, 2), *example, *saved, "100000"],
        env=os.environ | SETTINGS | {"DRJIT_TEST_MARK": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        while not state.exists() and running.poll() is None:
            time.sleep(0.02)
        os.kill(process_of_rank(1, mark), signal.SIGKILL)
        output = running.communicate(timeout=60)[0]
    finally:
        running.kill()
    assert running.returncode != 0
    assert re.search(r"signal:? 9|SIGKILL", output, re.IGNORECASE), output
    reached = dr.load(state)["step"]
    end = str(reached + 20)
    again = run(engine, 2, *example, *saved, end).stdout
    assert f"continues after step {reached}" in again
    whole = run(engine, 2, *example, "--iterations", end).stdout
    lost, kept = (re.findall(r"step (\d+): loss (\S+)", text)[-1] for text in (again, whole))
    assert lost[0] == end
    np.testing.assert_allclose(float(lost[1]), float(kept[1]), rtol=1e-4)


@pytest.mark.parametrize("engine", ["torch", "mpi4py"])
def test_the_example_has_the_loss_of_one_process_and_continues(engine, tmp_path):
    example = [EXAMPLE, "--size", "32", "--every", "4"]
    start = command(engine, 2)
    assert start
    whole = subprocess.run(
        [sys.executable, *example, "--iterations", "8"], capture_output=True, text=True, check=True
    ).stdout
    saved = ["--checkpoint", str(tmp_path / "state.npz")]
    first = run(engine, 2, *example, *saved, "--iterations", "4").stdout
    second = run(engine, 2, *example, *saved, "--iterations", "8").stdout
    assert "continues after step 4" in second
    expected = [float(x) for x in re.findall(r"loss (\S+)", whole)]
    found = [float(x) for x in re.findall(r"loss (\S+)", first + second)]
    assert len(expected) == 2
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_a_process_alone_needs_no_engine():
    x = Float(1, 2)
    dr.enable_grad(x)
    y = distributed.all_reduce({"x": x})["x"]
    dr.backward(dr.sum(y))
    assert list(x.grad) == [1, 1]
    assert (distributed.rank(), distributed.world_size()) == (0, 1)
    with pytest.raises(RuntimeError, match="expected 2 processes, but there are 1"):
        distributed.init(world_size=2)
    with pytest.raises(ValueError, match="unknown engine 'pigeon'"):
        distributed.init("pigeon")


def test_a_missing_engine_and_a_program_that_was_not_started_by_one(monkeypatch):
    monkeypatch.setattr(distributed.collective, "_engine", None)
    for name in ("torch", "mpi4py"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(ModuleNotFoundError, match=rf"init\('{name}'\).*pip install {name}"):
            distributed.init(name)


def test_the_import_loads_no_engine():
    program = "import drjit.distributed, sys; print({'torch', 'mpi4py'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n"
