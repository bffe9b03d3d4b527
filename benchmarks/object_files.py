"""What calls of exported functions cost in C, and of the same frozen functions in Python.

`python object_files.py` prints microseconds of processor time, with one thread, for a few and for
many entries; it needs a C compiler. DRJIT_TIER=compiled has both run the same code.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import drjit as dr
from drjit import nn
from drjit.llvm.ad import Float, Float16, TensorXf16

FEW, MANY = 16, 1 << 20


def product(x: Float, y: Float) -> Float:
    return x * y + x


def waves(x: Float, y: Float) -> Float:
    return dr.sin(x) * dr.exp(-y) + dr.tanh(x)


def total(x: Float, y: Float) -> Float:
    return dr.sum(dr.square(x - y))


def network() -> Callable:
    layers = [nn.Linear(-1, 32), nn.ReLU(), nn.Linear(-1, 32), nn.ReLU(), nn.Linear(-1, 1)]
    net = nn.Sequential(*layers).alloc(TensorXf16, 2, rng=dr.rng(seed=0))
    net = nn.pack(net)

    def colour(x: Float, y: Float) -> Float:
        (found,) = net(nn.CoopVec(Float16(x), Float16(y)))
        return dr.detach(Float(found))

    return colour


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "f.h"

static double now(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

int main(int count, char **words) {
    size_t n = atol(words[1]), k;
    long calls = atol(words[2]), c;
    float *x = aligned_alloc(64, 4 * n), *y = aligned_alloc(64, 4 * n);
    float *result = aligned_alloc(64, 4 * n);
    double best = 1e9;
    int run;
    f_arguments a = {0};
    for (k = 0; k < n; k++) { x[k] = (float)k / n; y[k] = 1 - x[k]; result[k] = 0; }
    a.x = x; a.y = y; a.x_size = a.y_size = n; a.result = result; ROOM
    for (run = 0; run < 5; run++) {
        double start = now();
        for (c = 0; c < calls; c++) if (f(&a)) return 1;
        if (now() - start < best) best = now() - start;
    }
    printf("%.4f", best / calls * 1e6);
    return 0;
}
"""


def in_python(f: Callable, n: int, calls: int) -> float:
    """The microseconds of a call, the best of some runs."""
    x = dr.linspace(Float, 0, 1, n)
    y = 1 - x
    dr.eval(x, y)
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(calls):
            f(x, y)
        dr.sync_thread()
        best = min(best, time.process_time() - start)
    return best / calls * 1e6


def in_c(f: Callable, n: int, calls: int, folder: Path) -> float:
    dr.export(f, folder / "f.o")
    room = (
        "a.result_capacity = n;" if "size_t result_capacity" in (folder / "f.h").read_text() else ""
    )
    (folder / "main.c").write_text(PROGRAM.replace("ROOM", room))
    command = ["cc", "-O2", "main.c", "f.o", "-o", "main", "-lm", "-lpthread"]
    subprocess.run(command, cwd=folder, check=True)
    shown = subprocess.run(
        [folder / "main", *map(str, (n, calls))], capture_output=True, check=True
    )
    return float(shown.stdout)


def main() -> None:
    dr.set_thread_count(1)
    print("function, entries: Python, C (us), ratio")
    for function in (product, waves, total, network()):
        f = dr.freeze(function)
        for n in (FEW, 4 * FEW):
            dr.eval(f(dr.linspace(Float, 0, 1, n), dr.linspace(Float, 0, 1, n)))
        for n, calls in ((FEW, 100_000), (MANY, 40)):
            python = in_python(f, n, calls)
            with tempfile.TemporaryDirectory() as folder:
                c = in_c(f, n, calls, Path(folder))
            print(f"{function.__name__}, {n}: {python:.2f}, {c:.3f}, {c / python:.2f}")


if __name__ == "__main__":
    main()
