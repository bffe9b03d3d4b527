"""A program of tests/programs in this process: `python programs.py NAME THREADS` prints its figure.
What it prints is left out; like the others, it runs under either implementation.
"""

import contextlib
import importlib
import io
import sys
import time
from pathlib import Path

import drjit as dr

sys.path.append(str(Path(__file__).parents[1] / "tests" / "programs"))


def seconds(name: str) -> float:
    """The time of a run of a program."""
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


if __name__ == "__main__":
    name, threads = sys.argv[1:3]
    dr.set_thread_count(int(threads))
    program, _, how = name.rpartition("_")
    print({"cold": cold, "cached": cold, "warm": warm}[how](program))
