"""What calls of exported functions cost in C, and of the same frozen functions in Python.

`python object_files.py` prints microseconds of a call and, in brackets, of processor time, which
other programs disturb less, with one thread and two; it needs a C compiler. DRJIT_TIER=compiled has
both run the same code.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import drjit as dr
from drjit import nn
from drjit.llvm.ad import Float, Float16, TensorXf16

CALLS = {16: 10_000, 1 << 15: 100, 1 << 17: 30, 1 << 20: 5}  # by the number of entries
RUNS = 5


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
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int count, char **words) {
    size_t n = atol(words[1]), k;
    long calls = atol(words[2]), c;
    float *x = aligned_alloc(64, 4 * n), *y = aligned_alloc(64, 4 * n);
    float *result = aligned_alloc(64, 4 * n);
    double best = 1e9, spent;
    int run;
    f_arguments a = {0};
    for (k = 0; k < n; k++) { x[k] = (float)k / n; y[k] = 1 - x[k]; result[k] = 0; }
    a.threads = atol(words[3]);
    a.x = x; a.y = y; a.x_size = a.y_size = n; a.result = result; ROOM
    if (f(&a)) return 1;
    spent = clock();
    for (run = 0; run < RUNS; run++) {
        double start = now();
        for (c = 0; c < calls; c++) if (f(&a)) return 1;
        start = now() - start;
        if (start < best) best = start;
    }
    spent = (clock() - spent) / CLOCKS_PER_SEC / RUNS;
    printf("%.4f %.4f", best / calls * 1e6, spent / calls * 1e6);
    return 0;
}
"""


def in_python(f: Callable, n: int, threads: int) -> tuple[float, float]:
    """The microseconds of a call, in the best of some runs, and those of processor time."""
    dr.set_thread_count(threads)
    x = dr.linspace(Float, 0, 1, n)
    y = 1 - x
    f(x, y)
    dr.sync_thread()
    best, spent = float("inf"), time.process_time()
    for _ in range(RUNS):
        start = time.perf_counter()
        for _ in range(CALLS[n]):
            f(x, y)
        dr.sync_thread()
        best = min(best, time.perf_counter() - start)
    spent = (time.process_time() - spent) / RUNS
    return best / CALLS[n] * 1e6, spent / CALLS[n] * 1e6


def program(f: Callable, folder: Path) -> Path:
    dr.export(f, folder / "f.o")
    has_capacity = "size_t result_capacity" in (folder / "f.h").read_text()
    text = PROGRAM.replace("ROOM", "a.result_capacity = n;" if has_capacity else "")
    (folder / "main.c").write_text(text.replace("RUNS", str(RUNS)))
    command = ["cc", "-O2", "main.c", "f.o", "-o", "main", "-lm", "-lpthread"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "main"


def in_c(path: Path, n: int, threads: int) -> tuple[float, float]:
    command = [path, *map(str, (n, CALLS[n], threads))]
    best, spent = subprocess.run(command, capture_output=True, check=True).stdout.split()
    return float(best), float(spent)


def main() -> None:
    print("function, entries, threads: Python, C (us), ratio")
    for function in (product, waves, total, network()):
        f = dr.freeze(function)
        for n in (16, 64):
            dr.eval(f(dr.linspace(Float, 0, 1, n), dr.linspace(Float, 0, 1, n)))
        with tempfile.TemporaryDirectory() as folder:
            path = program(f, Path(folder))
            for n in CALLS:
                for threads in (1, 2):
                    python, c = in_python(f, n, threads), in_c(path, n, threads)
                    shown = [f"{wall:.2f} ({spent:.2f})" for wall, spent in (python, c)]
                    ratios = [f"{x / y:.2f}" for x, y in zip(c, python, strict=True)]
                    print(
                        f"{function.__name__}, {n}, {threads}: {', '.join(shown)},"
                        f" {ratios[0]} ({ratios[1]})", flush=True,
                    )  # fmt: skip


if __name__ == "__main__":
    main()
