"""Loops and calls with accesses to memory at any place, as exported files and as they are.

    python benchmarks/exported_loops.py [--rounds N]

Prints the processor time of a call for 128K entries, the least of all rounds.
"""

import argparse
import runpy
import tempfile
import time
from collections.abc import Callable

import numpy as np

import drjit as dr
from drjit.llvm import Float, UInt32

ENTRIES = 1 << 17


@dr.syntax
def gathered_sines(x: Float) -> Float:
    table = dr.sqrt(dr.arange(Float, 4096) + 1)
    dr.eval(table)
    i, total = UInt32(0), Float(0)
    while i < 20:
        k = (dr.reinterpret_array(UInt32, x) + i * 37) & 4095
        total += dr.sin(x + dr.gather(Float, table, k))
        i += 1
    return total


@dr.syntax
def pointers(x: Float) -> Float:
    table = (dr.arange(UInt32, 4096) * 1664525 + 1013904223) & 4095
    dr.eval(table)
    i, k = UInt32(0), dr.reinterpret_array(UInt32, x) & 4095
    while (i < 200) & (k > 3):
        k = dr.gather(UInt32, table, k)
        i += 1
    return Float(i) + Float(k)


def switched(x: Float) -> Float:
    functions = [
        lambda x, y: dr.sin(x) * y,
        lambda x, y: dr.exp(-x) + y,
        lambda x, y: x * x - y,
    ]
    return dr.switch(dr.reinterpret_array(UInt32, x) % 3, functions, x, x + 1)


def least(function: Callable, rounds: int) -> float:
    """Returns the least processor time of a call in milliseconds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best * 1e3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    values = np.random.default_rng(0).random(ENTRIES, np.float32)
    x = Float(values)
    for function in (gathered_sines, pointers, switched):

        def original(function: Callable = function) -> None:
            dr.eval(function(x))
            dr.sync_thread()

        with tempfile.TemporaryDirectory() as folder:
            path = dr.export(function, x, path=f"{folder}/f.py")
            exported = runpy.run_path(str(path))[function.__name__]
            for f in (original, lambda exported=exported: exported(values)):
                f()
            before = least(original, rounds)
            after = least(lambda exported=exported: exported(values), rounds)
        name, ratio = function.__name__, after / before
        print(f"{name:16}{before:8.2f} ms{after:8.2f} ms exported{ratio:6.2f}")


if __name__ == "__main__":
    main()
