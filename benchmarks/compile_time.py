"""How long kernels of many operations take to compile, and beside it the same of the reference.

    python benchmarks/compile_time.py [--reference PYTHON] [--only NAMES] [--sizes 3000,10000,20000]

Generates programs of so many operations: straight-line code and its gradient, loops with 10, 100
and 300 state variables, nested loops, calls of functions, and networks of hundreds of layers with
gradients. Every program is traced and evaluated for a few lanes in a process of its own with an
empty kernel cache. The columns are milliseconds of processor time: tracing, and making the kernel,
which ours parts into the text of the kernel, the front end, LLVM's passes, and machine code; then
the sum where Numba compiles the kernel (`DRJIT_COMPILER=numba`), without importing it; the last
ones are microseconds an operation, and the ratio to the reference.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

LANES = 16
LAYERS_PER_OPERATION = 1 / 50  # 400 layers in place of 20,000 operations
STAGES = ("text", "front end", "passes", "machine code")


# -------------------------------------------------------------------------------- the programs


def operations(dr, choose: random.Random, values: Sequence, count: int) -> list:
    """Appends so many operations to values: most on recent ones, some on any."""
    values = list(values)
    step = 0
    while step < count:
        window = 24 if choose.random() < 0.9 else len(values)
        a, b, c = (values[-choose.randint(1, min(window, len(values)))] for _ in range(3))
        number = choose.uniform(0.5, 1.5)
        form = choose.randrange(8)
        if form < 2:
            values.append(dr.fma(a, number, b))
        elif form == 2:
            values.append(a - b * number)
            step += 1
        elif form == 3:
            values.append(dr.select(a < b, c, a))
            step += 1
        elif form == 4:
            values.append(dr.sqrt(dr.abs(a) + number))
            step += 2
        elif form == 5:
            values.append(dr.abs(a * b - c))
            step += 2
        elif form == 6:
            values.append(a * number)
        else:
            values.append((a + b) * number)
            step += 1
        step += 1
    return values


def straight(dr, types, choose: random.Random, count: int) -> Iterator[list | None]:
    """A chain of operations."""
    x = dr.arange(types.Float32, LANES) / LANES
    yield
    yield operations(dr, choose, [x, x + 1], count)[-4:]


def gradient(dr, types, choose: random.Random, count: int) -> Iterator[list | None]:
    """The same and its gradient, together about as long."""
    x = dr.arange(types.Float32, LANES) / LANES
    dr.make_opaque(x)
    yield
    dr.enable_grad(x)
    y = operations(dr, choose, [x, x + 1], count // 3)[-1]
    dr.backward(y * y)
    yield [dr.grad(x), dr.detach(y)]


def loop(states: int) -> Callable:
    """A loop with so many state variables."""

    def program(dr, types, choose: random.Random, count: int) -> Iterator[list | None]:
        def body(i, *values):
            values = operations(dr, choose, values, count)
            return i + 1, *values[-states:]

        x = dr.arange(types.Float32, LANES) / LANES
        first = [x + k for k in range(states)]
        yield
        yield dr.while_loop((types.UInt32(0), *first), lambda i, *_: i < 3, body)[1:]

    return program


def nested(dr, types, choose: random.Random, count: int) -> Iterator[list | None]:
    """Three loops in each other, every one with a quarter of the operations before the inner one;
    and with what is left behind it.
    """

    def body_at(depth: int) -> Callable:
        def body(i, *values):
            values = operations(dr, choose, values, count // 6)[-20:]
            if depth < 2:
                inner = types.UInt32(0), *values
                values = dr.while_loop(inner, lambda i, *_: i < 3, body_at(depth + 1))[1:]
            values = operations(dr, choose, values, count // 6)[-20:]
            return i + 1, *values

        return body

    x = dr.arange(types.Float32, LANES) / LANES
    first = types.UInt32(0), *[x + k for k in range(20)]
    yield
    yield dr.while_loop(first, lambda i, *_: i < 3, body_at(0))[1:]


def switch(dr, types, choose: random.Random, count: int) -> Iterator[list | None]:
    """A call of one of ten functions."""
    x = dr.arange(types.Float32, LANES) / LANES
    index = dr.arange(types.UInt32, LANES) % 10

    def function(number: int) -> Callable:
        def call(*values):
            return tuple(operations(dr, choose, values, count // 10)[-4:])

        call.__name__ = f"f{number}"
        return call

    yield
    yield list(dr.switch(index, [function(k) for k in range(10)], x, x + 1, x + 2, x + 3))


def repeated(dr, types, choose: random.Random, count: int) -> Iterator[list | None]:
    """Ten calls of one function."""

    @dr.func
    def call(a, b, c, d):
        same = random.Random(1)
        return tuple(operations(dr, same, [a, b, c, d], count // 10)[-4:])

    x = dr.arange(types.Float32, LANES) / LANES
    values = x, x + 1, x + 2, x + 3
    yield
    for _ in range(10):
        values = call(*values)
    yield list(values)


def network(dr, types, choose: random.Random, count: int) -> Iterator[list | None]:
    """A network of many layers of width 16, and the gradients of its parameters."""
    import drjit.nn as nn

    layers = []
    for _ in range(max(1, int(count * LAYERS_PER_OPERATION))):
        layers += [nn.Linear(16, 16), nn.ReLU()]
    net = nn.Sequential(*layers).alloc(types.TensorXf16, rng=dr.rng(seed=0))
    net = nn.pack(net, layout="training")
    parameters = net["weights"]
    dr.enable_grad(parameters)
    dr.eval(parameters)
    x = types.Float16(dr.arange(types.Float32, LANES) / LANES)
    dr.eval(x)
    yield
    out = list(net(nn.CoopVec([x + k for k in range(16)])))
    dr.backward(dr.sum(sum(out[1:], out[0])))
    yield [dr.grad(parameters)]


PROGRAMS: dict[str, Callable] = {
    "straight": straight,
    "gradient": gradient,
    "loop_10": loop(10),
    "loop_100": loop(100),
    "loop_300": loop(300),
    "nested": nested,
    "switch": switch,
    "func": repeated,
    "network": network,
}


# -------------------------------------------------------------------------------- measurement


def child(name: str, count: int) -> dict[str, float]:
    """Runs a program in this process: milliseconds of processor time, and operations."""
    import drjit as dr
    import drjit.llvm.ad as types

    dr.set_thread_count(0)
    dr.set_flag(dr.JitFlag.KernelHistory, True)
    stages = _watch() if hasattr(dr, "kernels") else {}
    dr.eval(dr.arange(types.Float32, LANES) * 2)  # loads the compiler
    program = PROGRAMS[name](dr, types, random.Random(name), count)
    next(program)
    dr.sync_thread()
    dr.kernel_history_clear()
    stages.update(dict.fromkeys(stages, 0.0))
    start = time.process_time()
    outputs = next(program)
    traced = time.process_time()
    dr.eval(outputs)
    dr.sync_thread()
    end = time.process_time()
    launches = [h for h in dr.kernel_history() if h["type"] == dr.KernelType.JIT]
    return {
        "operations": sum(h["operation_count"] for h in launches),
        "kernels": len(launches),
        "tracing": 1e3 * (traced - start),
        "evaluation": 1e3 * (end - traced),
        **stages,
    }


def _watch() -> dict[str, float]:
    """Milliseconds that the stages of compiling take from now on."""
    from drjit.jit.target import simd
    from drjit.jit.target.simd import llvm
    from drjit.jit.text import source

    stages: dict[str, float] = {}

    def watched(owner, attribute: str, stage: str) -> None:
        plain = getattr(owner, attribute)
        stages[stage] = 0.0

        def call(*args, **kwargs):
            start = time.process_time()
            result = plain(*args, **kwargs)
            stages[stage] += 1e3 * (time.process_time() - start)
            return result

        setattr(owner, attribute, call)

    watched(source, "render", "text")
    watched(simd, "_module_text", "front end")
    watched(llvm, "_optimized", "passes")
    watched(llvm, "object_code", "machine code")  # with the passes
    return stages


def measure(
    python: str, name: str, count: int, limit: float, compiler: str = "direct"
) -> dict[str, float]:
    """The figures of a new process with an empty kernel cache."""
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {
            "HOME": home, "DRJIT_CACHE_DIR": f"{home}/cache", "DRJIT_TIER": "compiled",
            "DRJIT_COMPILER": compiler,
        }  # fmt: skip
        if python != sys.executable:
            environment.pop("PYTHONPATH", None)
        command = [python, "-P", str(Path(__file__)), "--child", name, "--sizes", str(count)]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=limit
            )
        except subprocess.TimeoutExpired:
            return {}
    if done.returncode:
        print(f"{name} failed under {python}\n{done.stderr}", file=sys.stderr)
        return {}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reference", metavar="PYTHON")
    parser.add_argument("--only", metavar="NAMES", default=",".join(PROGRAMS))
    parser.add_argument("--sizes", metavar="NUMBERS", default="3000,10000,20000")
    parser.add_argument("--limit", metavar="SECONDS", type=float, default=300)
    parser.add_argument("--child", metavar="NAME", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = [int(n) for n in arguments.sizes.split(",")]
    if arguments.child:
        print(json.dumps(child(arguments.child, sizes[0])))
        return
    columns = (
        "operations",
        "tracing",
        *STAGES,
        "sum",
        "by Numba",
        "us/op",
        "growth",
        "reference",
        "ratio",
    )
    print("| | " + " | ".join(columns) + " |")
    print("| :-- |" + " --: |" * len(columns), flush=True)
    for name in arguments.only.split(","):
        before = math.nan
        for count in sizes:
            own = measure(sys.executable, name, count, arguments.limit)
            by_numba = measure(sys.executable, name, count, arguments.limit, "numba")
            other: dict[str, float] = {}
            if arguments.reference:
                other = measure(arguments.reference, name, count, arguments.limit)
            print(row(name, own, by_numba, other, before), flush=True)
            before = own["evaluation"] / own["operations"] if own else math.nan


def row(
    name: str,
    own: dict[str, float],
    by_numba: dict[str, float],
    other: dict[str, float],
    before: float,
) -> str:
    """A line of the table; growth is that of the time an operation."""
    cells = [name, *["over the limit" if not own else f"{own['operations']:.0f}"]]
    if own:
        machine = own["machine code"] - own["passes"]
        stages = own["text"], own["front end"], own["passes"], machine
        each = own["evaluation"] / own["operations"]
        numba = by_numba.get("evaluation", math.nan)
        times = own["tracing"], *stages, own["evaluation"], numba, 1e3 * each
        cells += [f"{x:.0f}" for x in times]
        cells.append("" if math.isnan(before) else f"{each / before:.2f}")
    else:
        cells += [""] * 9
    if other:
        cells.append(f"{other['evaluation']:.0f}")
        cells.append(f"{own['evaluation'] / other['evaluation']:.2f}" if own else "")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
