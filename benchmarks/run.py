"""Measures this project, and beside it the reference Dr.Jit and hand-written kernels.

    python benchmarks/run.py [--reference PYTHON] [--limits SCRIPT] [--pytorch] [--threads N]
        [--rounds N] [--only NAMES]

`--reference` is the interpreter of an environment in which the reference Dr.Jit is installed.
`--limits` is a script that prints lines `name milliseconds ...` for hand-written kernels,
`--pytorch` measures the training step of PyTorch as well. Both implementations run the same
workloads (workloads.py, control_flow.py, programs.py, network.py), each in a process of its own, in
turn: one of ours, one of the reference, and again. The table shows the best of all rounds.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent


class Row(NamedTuple):
    name: str
    title: str
    unit: str
    limit: str = ""  # its name in the output of the hand-written kernels
    warm: bool = False  # runs once before, with the same kernel cache, and is not counted
    script: str = "workloads.py"
    most: bool = False  # the largest figure of all rounds is the best one


ROWS = (
    Row("axpy", "`2.5*x + y`, 16M", "ms", "saxpy_16M"),
    Row(
        "transcendental",
        "`exp(-x)*log(x) + tanh(x)*atan2(x, 1+x) + x**1.7`, 16M",
        "ms",
        "transcendental_16M",
    ),
    Row("exported", "the same as an exported file", "ms"),
    Row("fresnel", "`mean(sin(a*a))`, 16M", "ms", "fresnel_mean_16M"),
    Row("gather", "random gather times 2, 4M", "ms", "gather_random_4M"),
    Row("histogram", "scatter-add of 4M into 1024", "ms", "histogram_4M_to_1k"),
    Row("matmul", "matrix product 1024 x 1024", "ms", "matmul_1024"),
    Row("matmul_half", "the same in half precision", "ms"),
    Row("determinant", "determinants of 100,000 matrices of 4 x 4", "ms"),
    Row("inverse", "their inverses", "ms"),
    Row("polar", "their polar decompositions", "ms"),
    Row("matvec", "4096 x 4096 matrix times a column", "ms"),
    Row("sort", "sort of 4M", "ms"),
    Row("sum_columns", "sum of 4096 x 4096 over the first axis", "ms"),
    Row("sum_rows", "the same over the last axis", "ms"),
    Row("texture", "bilinear look-ups of 4 channels of a 512 x 512 texture, 1M", "ms"),
    Row("ad_primal", "20 times `sin(y)*y + 0.1`, 1M", "ms"),
    Row("ad_chain", "the same with its gradient", "ms"),
    Row("ad_gather", "adjoint of a random gather, 4M", "ms"),
    Row("ad_texture", "gradient of the texels in the bilinear look-ups", "ms"),
    Row("ad_step", "a step of an optimization, the chain on 64 entries", "µs"),
    Row("ad_adam", "a step of Adam for the chain on 64 entries", "µs"),
    Row("ad_adam_frozen", "the same, frozen", "µs"),
    Row("ad_plain", "tracing an operation of differentiable types, without gradients", "µs"),
    Row("ad_record", "recording the derivative of an operation", "µs"),
    Row("ad_edge", "reverse traversal of an edge", "µs"),
    Row("ad_layers", "400 layers with gradients on 4096 entries, new", "ms"),
    Row("random_numbers", "uniform random numbers, 16M", "ms"),
    Row("import_time", "import, in the second process", "ms", warm=True),
    Row("first_print", "first print of three numbers, empty cache", "ms"),
    Row("first_print_cached", "the same with its kernel in the disk cache", "ms", warm=True),
    Row("compile_30", "new kernel of 30 operations", "ms"),
    Row("compile_300", "new kernel of 300 operations", "ms"),
    Row("compile_3000", "new kernel of 3000 operations", "ms"),
    Row("disk_cache", "300 operations from the disk cache, new process", "ms", warm=True),
    Row("small_launch", "two operations on 64 entries", "µs"),
    Row(
        "first_launches",
        "the same, the mean of the first 1000 of a process, kernels in the disk cache",
        "µs",
        warm=True,
    ),
    Row("first_launches_python", "the same with `DRJIT_NATIVE=off`", "µs", warm=True),
    Row("small_wide", "16 inputs and 16 outputs of 64 entries", "µs"),
    Row("small_round_trip", "the same, waiting for each", "µs"),
    Row(
        "small_frozen",
        "frozen function with two kernels on 64 entries, 500th call, kernels in the disk cache",
        "µs",
        warm=True,
    ),
    Row("memory_growth", "memory left by 10,000 evaluations", "KiB"),
    *(
        Row(name, title, "ms", limit, script="control_flow.py")
        for name, title, limit in (
            ("mandelbrot", "Mandelbrot set, 1024 x 1024, 200 rounds", "mandelbrot_1M"),
            ("sphere_tracer", "sphere tracing, 1M rays, 64 steps", ""),
            ("newton", "Newton's method for 1M equations", ""),
            ("switch", "a call of one of 16 functions, 4M", ""),
            ("summation", "a loop that sums 64 sines, 1M", ""),
            ("summation_gradient", "the same with its gradient", ""),
            *[
                (f"histogram_{n}", f"histograms of 1M lanes, 64 rounds, {n} local entries", "")
                for n in (4, 16, 256, 1024)
            ],
            ("insertion_sort", "insertion sort of 16 local entries, 1M", ""),
            ("tree_walk_16", "depth-first walk of a tree, stack of 16, 1M", ""),
            ("tree_walk_256", "the same with a stack of 256", ""),
            ("compile_loop", "new loop of 300 operations", ""),
        )
    ),
    *(
        Row(f"path_tracer_{how}", title, unit, warm=how == "cached", script="programs.py")
        for how, title, unit in (
            ("cold", "differentiable path tracer, 3 epochs, new process, empty cache", "s"),
            ("cached", "the same with kernels in the disk cache", "s"),
            ("warm", "the same once more in the process", "ms"),
        )
    ),
    *(
        Row(
            name,
            title,
            unit,
            script="network.py",
            warm=name.endswith("cached"),
            most="FLOP" in unit,
        )
        for name, title, unit in (
            ("step_half", "training step, half precision", "ms"),
            ("step_single", "training step, single precision", "ms"),
            ("step_python", "Python's part of the step in half precision", "ms"),
            ("step_frozen", "the same, frozen, without the gradient scaler", "ms"),
            ("forward_half", "the network alone, half precision", "ms"),
            ("forward_single", "the network alone, single precision", "ms"),
            ("export_half", "the network alone as an exported file, half precision", "ms"),
            ("export_single", "the same, single precision", "ms"),
            ("hash_step", "training step with a hash grid", "ms"),
            ("fma_peak", "fused multiply-adds of registers", "GFLOP/s"),
            ("width_16", "matrix products, 3 layers of width 16", "GFLOP/s"),
            ("width_32", "matrix products, 3 layers of width 32", "GFLOP/s"),
            ("width_64", "matrix products, 3 layers of width 64", "GFLOP/s"),
            ("width_128", "matrix products, 3 layers of width 128", "GFLOP/s"),
            ("depth_8", "matrix products, 8 layers of width 64", "GFLOP/s"),
            ("first_step", "first training step, new process, empty cache", "ms"),
            ("first_step_cached", "the same with kernels in the disk cache", "ms"),
            ("peak_memory", "peak memory of training", "MiB"),
        )
    ),
)
PYTORCH = ("step_single", "step_bf16")  # workloads of network_torch.py
OWN_ONLY = (
    "width_",
    "depth_",
    "fma_peak",
    "export",
)  # rows that compare with the processor, not with the reference


def measure(python: str, row: Row, threads: int) -> float:
    """One process with a kernel cache of its own, which is empty unless the row says otherwise."""
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"HOME": home, "DRJIT_CACHE_DIR": f"{home}/cache"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # which few users set
        if row.name.startswith("disk") or row.script == "control_flow.py":
            environment["DRJIT_TIER"] = "compiled"  # else small work would run uncompiled
        if row.name == "first_launches_python":
            environment["DRJIT_NATIVE"] = "off"
        if python != sys.executable:
            environment.pop("PYTHONPATH", None)
        command = [python, str(FOLDER / row.script), row.name, str(threads)]
        for _ in range(1 + row.warm):
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(f"{row.name} failed under {python}\n{done.stderr}", file=sys.stderr)
        return math.inf
    return float(done.stdout.split()[-1])


def measure_limits(script: str, rows: list[Row], threads: int) -> dict[str, float]:
    """The best time among the variants (`name`, `name.variant`) of each hand-written kernel."""
    names = {row.limit: row.name for row in rows if row.limit}
    environment = os.environ | {"NUMBA_NUM_THREADS": str(threads)}
    # The script selects by group; gather and histogram come together.
    groups = {"gather" if name.endswith(("4M", "1k")) else name for name in names}
    best: dict[str, float] = {}
    for contract in ([], ["--contract"]):
        command = [sys.executable, script, ",".join(sorted(groups)), *contract]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            variant, *figures = line.split() or [""]
            name = names.get(variant.split(".")[0])
            if name and figures and figures[0] != "FAILED":
                best[name] = min(best.get(name, math.inf), float(figures[0]))
    return best


def cell(value: float) -> str:
    if math.isinf(value):
        return "failed"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def table(rows: list[Row], own: dict[str, float], others: dict[str, dict[str, float]]) -> str:
    """A Markdown table; a ratio below 1 says that this project is the quicker one."""
    header = ["", "unit", "drjit-numba"]
    last = ["geometric mean of the times", "", ""]
    lines = [[row.title, row.unit, cell(own[row.name])] for row in rows]
    for title, figures in others.items():
        header += [title, "ratio"]
        ratios = []
        for row, line in zip(rows, lines, strict=True):
            mine, other = own[row.name], figures.get(row.name)
            ratio = mine / other if other and row.unit in ("ms", "µs") else math.nan
            line += ["" if other is None else cell(other)]
            line += [f"{ratio:.2f}" if 0 < ratio < math.inf else ""]
            ratios += [ratio] if 0 < ratio < math.inf else []
        last += ["", f"{geometric_mean(ratios):.2f}" if ratios else ""]
    rule = [":--", ":--"] + ["--:"] * (len(header) - 2)
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *lines, last])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reference", metavar="PYTHON")
    parser.add_argument("--limits", metavar="SCRIPT")
    parser.add_argument("--pytorch", action="store_true")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", metavar="NAMES", help="separated by commas: axpy,gather")
    arguments = parser.parse_args()
    rows = [row for row in ROWS if not arguments.only or row.name in arguments.only.split(",")]
    own: dict[str, float] = {}
    reference: dict[str, float] = {}
    pytorch: dict[str, float] = {}
    for _ in range(arguments.rounds):
        for row in rows:
            for python, best in ((sys.executable, own), (arguments.reference, reference)):
                if python and not (best is reference and row.name.startswith(OWN_ONLY)):
                    figure = measure(python, row, arguments.threads)
                    better = max if row.most else min
                    best[row.name] = better(best.get(row.name, figure), figure)
        for name in PYTORCH if arguments.pytorch else ():
            row = Row(name, name, "ms", script="network_torch.py")
            figure = measure(sys.executable, row, arguments.threads)
            pytorch[name] = min(pytorch.get(name, math.inf), figure)
    others: dict[str, dict[str, float]] = {}
    if arguments.reference:
        others["reference"] = reference
    if arguments.limits:
        others["hand-written"] = measure_limits(arguments.limits, rows, arguments.threads)
    if pytorch:
        others["PyTorch"] = {"step_single": pytorch["step_single"]}
        others["PyTorch bf16"] = {"step_single": pytorch["step_bf16"]}
    print(table(rows, own, others))


if __name__ == "__main__":
    main()
