"""The programs of tests/programs, from a new process to its end, with an empty and a filled kernel
cache, and where the time goes.

    python programs.py [--reference PYTHON] [--threads N] [--rounds N] [--only NAMES]

prints a table: seconds of wall time and of processor time (all threads, the start and the end of
Python included), the ratios to the reference, and what the main thread does, in milliseconds, from
processes of their own, which that slows down: imports, of which many happen when a function is
first used; compiling, or loading from the cache; running texts on NumPy; waiting for kernels;
tracing, which is all other Python, such as derivatives and scheduling; and the start and the end of
Python. With `NAME THREADS` it is a workload of `run.py`: a program in this process. What programs
print is left out.

Programs that the reference cannot run are in the table, but not in the means: some versions of LLVM
fail there. `DRJIT_LIBLLVM_PATH` names the library that it loads.
"""

import argparse
import builtins
import contextlib
import functools
import importlib
import io
import json
import math
import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

PROGRAMS = Path(__file__).parents[1] / "tests" / "programs"
STAGES: tuple[str, ...] = ("imports", "compiling", "NumPy", "waiting")
PLAIN = """
import runpy, sys
import drjit as dr
threads, folder, name = sys.argv[1:]
dr.set_thread_count(int(threads))
sys.path.append(folder)
sys.argv[1:] = []
runpy.run_path(f"{folder}/{name}.py", run_name="__main__")
dr.sync_thread()
"""
sys.path.append(str(PROGRAMS))


def seconds(name: str) -> float:
    """The time of a run of a program."""
    import drjit as dr

    program = importlib.import_module(name)
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        program.main()
    dr.sync_thread()
    return time.perf_counter() - start


def cold(name: str) -> float:
    """Seconds of the first run."""
    return seconds(name)


def warm(name: str) -> float:
    """Milliseconds of the best of the runs after the first."""
    seconds(name)
    return min(seconds(name) for _ in range(5)) * 1e3


# --------------------------------------------------------------------------------- whole processes


def child(name: str, threads: int) -> dict[str, float]:
    """Runs a program in this process: milliseconds of the stages and of the rest."""
    start = time.perf_counter()
    import drjit as dr

    imported = time.perf_counter() - start
    dr.set_thread_count(threads)
    stages = watched()
    stages["imports"] = imported
    sys.argv[1:] = []  # which programs read
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(PROGRAMS / f"{name}.py"), run_name="__main__")
    dr.sync_thread()
    stages["tracing"] = time.perf_counter() - start - sum(stages.values())
    return {stage: 1e3 * figure for stage, figure in stages.items()}


def watched() -> dict[str, float]:
    """Seconds that the stages take in the main thread from now on; what is within another stage
    counts there alone."""
    from drjit.jit.cpu import interpreted, kernel, launcher, runtime

    stages: dict[str, float] = dict.fromkeys(STAGES, 0.0)
    inside: list[float] = []  # seconds of the stages within each one that is open
    main = threading.current_thread()

    def watch(owner: object, attribute: str, stage: str) -> None:
        plain = getattr(owner, attribute)

        @functools.wraps(plain)
        def call(*args: object, **kwargs: object) -> object:
            if threading.current_thread() is not main:
                return plain(*args, **kwargs)
            inside.append(0.0)
            start = time.perf_counter()
            try:
                return plain(*args, **kwargs)
            finally:
                passed = time.perf_counter() - start
                stages[stage] += passed - inside.pop()
                if inside:
                    inside[-1] += passed

        setattr(owner, attribute, call)

    watch(builtins, "__import__", "imports")
    watch(importlib, "import_module", "imports")
    watch(kernel.CpuKernel, "compile", "compiling")
    watch(kernel.CpuKernel, "is_cached", "compiling")
    watch(launcher, "functions", "compiling")
    watch(interpreted, "interpret", "NumPy")
    watch(runtime, "_await", "waiting")
    return stages


def measure(
    python: str, name: str, threads: int, home: str, watch: bool = False
) -> dict[str, float]:
    """One process: its seconds of wall and of processor time, NaN where the reference fails; and
    milliseconds of the stages, if it is to `watch` them."""
    environment = os.environ | {"HOME": home, "DRJIT_CACHE_DIR": f"{home}/cache"}
    if python != sys.executable:
        environment.pop("PYTHONPATH", None)
    how = ["-c", PLAIN, str(threads), str(PROGRAMS), name]
    if watch:
        how = [__file__, "--child", name, "--threads", str(threads)]
    before = os.times()
    start = time.perf_counter()
    done = subprocess.run([python, "-P", *how], env=environment, capture_output=True, text=True)
    wall = time.perf_counter() - start
    after = os.times()
    if done.returncode and python != sys.executable:
        return {"wall": math.nan, "processor": math.nan}
    if done.returncode:
        sys.exit(f"{name} failed under {python}:\n{done.stderr}")
    processor = after.children_user + after.children_system
    processor -= before.children_user + before.children_system
    if not watch:
        return {"wall": wall, "processor": processor}
    stages = json.loads(done.stdout.splitlines()[-1])
    return stages | {"start and end": 1e3 * wall - sum(stages.values())}


def both(python: str, name: str, threads: int) -> list[dict[str, float]]:
    """The figures with an empty cache, and with what two processes have left there."""
    own = python == sys.executable
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as other:
        empty = measure(python, name, threads, home)
        stages = measure(python, name, threads, home, own)
        filled = measure(python, name, threads, home)
        if own:
            return [empty | measure(python, name, threads, other, True), filled | stages]
    return [empty, filled]


def table(names: list[str], reference: str | None, threads: int, rounds: int) -> None:
    """Prints the figures of programs with an empty and with a filled cache; a figure is the best
    of all rounds, and stages are those of the round with the best wall time."""
    stages = (*STAGES, "tracing", "start and end")
    columns = ["", "wall s", "processor s", *stages]
    if reference:
        columns += ["reference: wall s", "processor s", "ratio of wall", "of processor"]
    pythons = [sys.executable, *([reference] if reference else [])]
    rows: list[list[str]] = [[], []]
    ratios: list[list[tuple[float, float]]] = [[], []]
    for name in names:
        found = [[both(python, name, threads) for python in pythons] for _ in range(rounds)]
        for k in range(2):
            best, *others = [
                min((r[p][k] for r in found), key=lambda f: f["wall"]) for p in range(len(pythons))
            ]
            lowest = [min(r[p][k]["processor"] for r in found) for p in range(len(pythons))]
            cells = [name, f"{best['wall']:.2f}", f"{lowest[0]:.2f}"]
            cells += [f"{best[stage]:.0f}" for stage in stages]
            for other in others:
                pair = best["wall"] / other["wall"], lowest[0] / lowest[1]
                if pair[0] == pair[0]:
                    ratios[k].append(pair)
                cells += [f"{other['wall']:.2f}", f"{lowest[1]:.2f}", *[f"{r:.2f}" for r in pair]]
            rows[k].append(f"| {' | '.join(cells)} |")
            print(f"{('empty', 'filled')[k]} {rows[k][-1]}", file=sys.stderr, flush=True)
    for k, title in enumerate(("Empty caches", "Filled caches")):
        print(f"\n{title}:\n\n| {' | '.join(columns)} |\n| :-- |{' --: |' * (len(columns) - 1)}")
        print("\n".join(rows[k]))
        if ratios[k]:
            means = [math.exp(sum(map(math.log, r)) / len(r)) for r in zip(*ratios[k], strict=True)]
            rest = [""] * (len(columns) - 3)
            print(f"| {' | '.join(['geometric mean', *rest, *[f'{m:.2f}' for m in means]])} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reference", metavar="PYTHON")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", metavar="NAMES", help="separated by commas")
    parser.add_argument("--child", metavar="NAME", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments.child, arguments.threads)))
        return
    names = sorted(path.stem for path in PROGRAMS.glob("*.py"))
    if arguments.only:
        names = arguments.only.split(",")
    table(names, arguments.reference, arguments.threads, arguments.rounds)


def workload(name: str, threads: str) -> None:
    """Prints the figure of a row of `run.py`."""
    import drjit as dr

    dr.set_thread_count(int(threads))
    program, _, how = name.rpartition("_")
    ways: dict[str, Callable] = {"cold": cold, "cached": cold, "warm": warm}
    print(ways[how](program))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1][0] != "-":
        workload(*sys.argv[1:])
    else:
        main()
