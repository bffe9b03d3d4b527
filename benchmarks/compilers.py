"""Kernels as the direct route and as Numba compile them, in turn.

    python benchmarks/compilers.py [--only NAMES] [--rounds N] [--instructions]

For each row of run.py that repeats an evaluation, two processes with one thread and an empty kernel
cache take turns, one for each route. The columns are milliseconds of processor time of an
evaluation, the least of all rounds, and what it takes by Numba relative to the direct route. Both
include tracing, which is the same. With `--instructions`, nothing is timed: the columns are how
many instructions the machine code of a row's kernels has, and of how many kernels it differs.
"""

import argparse
import fcntl
import importlib
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from run import ROWS, Row, cell, geometric_mean

# Rows about starting, compiling and Python, and about functions that are no kernels.
OTHERS = (
    "import", "first", "compile", "disk", "small", "memory", "peak", "path_tracer", "export",
    "ad_record", "ad_edge", "step_python", "step_frozen",
)  # fmt: skip


def run(name: str, rounds: int, turn: str) -> None:
    """Prints the figure of a row: its workload, with another function in place of `best`."""
    import drjit as dr

    figures: list[float] = []

    def best(make: Callable[[], object], *_: object, **__: object) -> float:
        least = math.inf
        for k in range(3 + rounds):
            with open(turn) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                start = time.process_time()
                dr.eval(make())
                dr.sync_thread()
                taken = (time.process_time() - start) * 1e3
            time.sleep(1e-3)  # for the other process to begin
            least = min(least, taken) if k > 2 else math.inf  # the first ones compile
        figures.append(least)
        return float(len(figures))  # some rows subtract

    run_workload(name, best)
    print(sum(figures))


def run_workload(name: str, best: Callable[..., float]) -> None:
    """Runs the workload of a row with a function in place of `best`."""
    import drjit as dr

    dr.set_thread_count(1)
    (script,) = (row.script.removesuffix(".py") for row in ROWS if row.name == name)
    module: Any = importlib.import_module(script)
    for place in {"workloads", script} & sys.modules.keys():
        vars(sys.modules[place])["best"] = best
    vars(module).get("WORKLOADS", vars(module))[name]()


def compare(name: str) -> None:
    """Prints how many instructions the kernels of a row have on both routes, and how many of the
    kernels differ."""
    import drjit as dr
    from drjit.jit.target import simd

    calls: list[object] = []

    def best(make: Callable[[], object], *_: object, **__: object) -> float:
        dr.eval(make())
        calls.append(make)
        return float(len(calls))

    run_workload(name, best)
    texts = {k.source for k in dr.kernels() if k.source.startswith("def ")}
    counts, different = [0, 0], 0
    for text in texts:
        codes = [
            [s for s in simd.assembly(text, by_numba=route).split("\n") if s[:2].strip(".\t")]
            for route in (False, True)
        ]
        counts = [n + len(code) for n, code in zip(counts, codes, strict=True)]
        different += codes[0] != codes[1]
    print(*counts, different, len(texts))


def measure(row: Row, rounds: int) -> list[float]:
    """The figures of a row on both routes."""
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        turn = os.path.join(folder, "turn")
        open(turn, "w").close()
        command = [sys.executable, __file__, "--rounds", str(rounds), "--run", row.name, turn]
        environment = os.environ | {"DRJIT_CACHE_DIR": folder, "DRJIT_TIER": "compiled"}
        processes = [
            subprocess.Popen(
                command, env=environment | {"DRJIT_COMPILER": route}, stdout=subprocess.PIPE
            )
            for route in ("direct", "numba")
        ]
        for process in processes:
            printed, _ = process.communicate()
            figures.append(math.inf if process.returncode else float(printed.split()[-1]))
    return figures


def instructions(rows: list[Row]) -> None:
    """Prints the table of instructions."""
    print("| | direct | Numba | different kernels |\n| :-- | --: | --: | --: |")
    for row in rows:
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"DRJIT_CACHE_DIR": folder, "DRJIT_TIER": "compiled"}
            command = [sys.executable, __file__, "--instructions", "--run", row.name, ""]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        direct, numba, different, kernels = done.stdout.split()[-4:]
        print(f"| {row.title} | {direct} | {numba} | {different} of {kernels} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="NAMES", help="separated by commas: axpy,gather")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        name, turn = arguments.run
        return compare(name) if arguments.instructions else run(name, arguments.rounds, turn)
    chosen = arguments.only.split(",") if arguments.only else None
    rows = [
        row for row in ROWS if (row.name in chosen if chosen else not row.name.startswith(OTHERS))
    ]
    if arguments.instructions:
        return instructions(rows)
    print("| | direct | Numba | ratio |\n| :-- | --: | --: | --: |", flush=True)
    ratios = []
    for row in rows:
        direct, numba = measure(row, arguments.rounds)
        ratios.append(numba / direct)
        line = f"| {row.title} | {cell(direct)} | {cell(numba)} | {ratios[-1]:.2f} |"
        print(line, flush=True)
    print(f"| geometric mean | | | {geometric_mean(ratios):.2f} |")


if __name__ == "__main__":
    main()
