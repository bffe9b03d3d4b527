"""Checks and measures `drjit.cuda` on this machine's GPU, and prints a report in Markdown.

    python benchmarks/gpu.py [--emulated] [--scale LOG2]

The first part runs a corpus of programs on the GPU and, in a process of its own, on the emulated
one: what they compute must be equal, bit by bit but for the order in which floats are summed. The
second part measures: launches, memory, arithmetic, networks. With `--emulated`, everything runs on
the emulated GPU at a tiny size, which checks the script; the times mean nothing then. `--scale` is
the binary logarithm of the number of entries in large workloads.
"""

# ruff: noqa: E402
import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("--emulated", action="store_true")
parser.add_argument("--scale", type=int)
parser.add_argument("--corpus", help="write what the corpus computes to a file, and nothing else")
options = parser.parse_args()
if options.emulated:
    os.environ["DRJIT_CUDA"] = "emulated"

import launches
import numpy as np
import scenes

import drjit as dr
from drjit import cuda, nn
from drjit.cuda import Event
from drjit.cuda.ad import (
    PCG32,
    Array2f,
    Array3f,
    Float,
    Float16,
    Float64,
    Int,
    Int64,
    TensorXf,
    TensorXf16,
    Texture2f,
    UInt,
    UInt64,
)  # fmt: skip
from drjit.jit import device
from drjit.jit.cuda.device import Cuda
from drjit.opt import Adam

SCALE = options.scale or (12 if options.emulated else 28)
LARGE, MEDIUM = 1 << SCALE, 1 << min(SCALE, 20)
SECONDS = 0.0 if options.emulated else 0.5


# ------------------------------------------------------------------------------------- the corpus


def elementary() -> dict[str, object]:
    """Every function on every type."""
    rng = np.random.default_rng(1)
    found: dict[str, object] = {}
    for kind in (Float16, Float, Float64):
        x = kind(rng.normal(size=700).astype(np.float64) * 3)
        for name in (
            "sin", "cos", "tan", "exp", "exp2", "log", "log2", "sqrt", "cbrt", "erf", "tanh",
            "asin", "acos", "atan", "sinh", "cosh", "floor", "round", "rcp", "rsqrt", "lgamma",
        ):  # fmt: skip
            found[f"{name} {kind.__name__}"] = getattr(dr, name)(x)
        found[f"power {kind.__name__}"] = dr.abs(x) ** kind(1.7)
        found[f"atan2 {kind.__name__}"] = dr.atan2(x, x + 1)
    for kind in (Int, UInt, Int64, UInt64):
        a = kind(rng.integers(0, 1000, 700))
        b = kind(rng.integers(1, 40, 700))
        for name, f in {
            "quotient": lambda a, b: a // b, "remainder": lambda a, b: a % b,
            "shift": lambda a, b: (a << b) >> (b // 2), "mulhi": dr.mul_hi,
            "bits": lambda a, b: dr.popcnt(a) + dr.lzcnt(b) + dr.tzcnt(a ^ b),
        }.items():  # fmt: skip
            found[f"{name} {kind.__name__}"] = f(a, b)
    return found


def memory() -> dict[str, object]:
    rng = np.random.default_rng(2)
    index = UInt(rng.integers(0, 500, 3000).astype(np.uint32))
    values = Int(rng.integers(-99, 99, 3000).astype(np.int32))
    table = dr.arange(Float, 500)
    histogram, large = dr.zeros(Int, 500), dr.zeros(Int, 100_000)
    dr.scatter_reduce(dr.ReduceOp.Add, histogram, values, index)
    dr.scatter_reduce(dr.ReduceOp.Max, large, values, index * 200)
    counter = dr.zeros(UInt, 1)
    slots = dr.scatter_inc(counter, dr.zeros(UInt, 3000))
    return {
        "gather": dr.gather(Float, table, index), "histogram": histogram, "maxima": large,
        "records": dr.gather(Array3f, table, index % 160), "count": counter,
        "slots": dr.sum(slots), "texture": Texture2f(TensorXf(table, (10, 10, 5))).eval(
            Array2f(dr.linspace(Float, 0, 1, 333), dr.linspace(Float, 1, 0, 333))),
    }  # fmt: skip


def collectives() -> dict[str, object]:
    rng = np.random.default_rng(3)
    x = Int(rng.integers(-9, 9, 50_001).astype(np.int32))
    half = TensorXf16(rng.normal(size=(64, 96)).astype(np.float16))
    return {
        "sum": dr.sum(x), "least": dr.min(x), "prefix": dr.prefix_sum(x),
        "where": dr.compress(x > 3), "float sum": dr.sum(Float(x) / 7),
        "product": dr.matmul(half, half, False, True),
        "rows": dr.sum(TensorXf(Float(x)[:50_000], (200, 250)), axis=0),
        "random": PCG32(1000).next_float32(),
    }  # fmt: skip


def mandelbrot(n: int, rounds: int) -> UInt:
    return scenes.mandelbrot(cuda.ad, scenes.plane(cuda.ad, n), n * n, rounds)


def spheres(n: int) -> Float:
    return scenes.sphere_tracing(cuda.ad, scenes.rays(cuda.ad, n), n * n)


def control_flow() -> dict[str, object]:
    k, x = dr.arange(UInt, 1000) % 4, dr.linspace(Float, 0, 2, 1000)
    functions = [lambda x, k=k: x * (k + 1.5) + dr.sqrt(x + k) for k in range(4)]
    y = Float(x)
    dr.enable_grad(y)
    dr.backward(dr.sum(dr.sin(y * y) * dr.exp(-y)))
    return {
        "mandelbrot": mandelbrot(24, 60), "spheres": spheres(16), "gradient": dr.grad(y),
        "switch": dr.switch(k, functions, x),
    }  # fmt: skip


def network(width: int, layers: int, half: bool = True):
    """A network packed for training with 2 inputs, encoded to `width`, and 3 outputs."""
    parts: list[nn.Module] = [nn.TriEncode(width // 4, 0.2)]
    parts += [nn.Cast(Float16)] if half else []
    for _ in range(layers):
        parts += [nn.Linear(-1, -1, bias=False), nn.LeakyReLU()]
    net = nn.Sequential(*parts, nn.Linear(-1, 3, bias=False), nn.Exp())
    net = net.alloc(TensorXf16 if half else TensorXf, 2, rng=dr.rng(seed=0))
    return nn.pack(net, layout="training")


def networks() -> dict[str, object]:
    found: dict[str, object] = {}
    for width in (16, 64):
        net = network(width, 2)
        dr.enable_grad(net["weights"])
        y = Array3f(net(nn.CoopVec(points(777))))
        dr.backward(dr.sum(y))
        found[f"network {width}"] = y
        found[f"float gradient {width}"] = dr.grad(net["weights"])
    return found


def points(n: int) -> Array2f:
    t = dr.linspace(Float, 0, 1, n)
    return Array2f(t, dr.sin(9 * t) * 0.5 + 0.5)


CORPUS = (elementary, memory, collectives, control_flow, networks)


def computed() -> Iterator[tuple[str, np.ndarray]]:
    """What the corpus computes; an error is a text in place of the values."""
    for part in CORPUS:
        try:
            values = part()
        except Exception as error:
            yield part.__name__, np.array(f"{type(error).__name__}: {error}")
            continue
        for name, value in values.items():
            try:
                yield f"{part.__name__}: {name}", np.asarray(value.numpy())
            except Exception as error:
                yield f"{part.__name__}: {name}", np.array(f"{type(error).__name__}: {error}")


def compare() -> None:
    """Prints how the GPU and the emulated one differ."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "corpus.npz"
        command = [sys.executable, __file__, "--emulated", "--corpus", str(file)]
        subprocess.run(command, check=True)
        expected = dict(np.load(file))
    equal, close, problems = 0, 0, []
    for name, values in computed():
        other = expected[name]
        if values.dtype.kind == "U" or other.dtype.kind == "U":
            problems.append(f"{name}: {values if values.dtype.kind == 'U' else other}")
        elif np.array_equal(values, other, equal_nan=values.dtype.kind == "f"):
            equal += 1
        elif "float" in name or "network" in name or "gradient" in name:
            scale = np.abs(other).max() or 1
            if np.abs(values.astype(float) - other).max() <= 4e-3 * scale:
                close += 1
            else:
                problems.append(f"{name}: values differ")
        else:
            problems.append(f"{name}: {np.count_nonzero(values != other)} values differ")
    print(
        f"Of {equal + close + len(problems)} results, {equal} are equal to the emulated GPU's bit"
    )
    print(f"by bit, and {close} within the rounding of sums.\n")
    for line in problems:
        print(f"- **{line}**")
    print()


# ------------------------------------------------------------------------------------- the figures


def on_device(make: Callable[[], object], at_least: int = 5) -> float:
    """Seconds of the GPU for the quickest evaluation."""
    times: list[float] = []
    start, end = Event(), Event()
    for _ in range(2):
        dr.eval(make())
    stop = time.perf_counter() + SECONDS
    while len(times) < at_least or time.perf_counter() < stop:
        start.record()
        value = make()
        dr.eval(value)
        end.record()
        del value
        times.append(start.elapsed_time(end) * 1e-3)
    return min(times)


def on_host(run: Callable[[], object], count: int) -> float:
    """Seconds of Python for each of several launches, in the quickest round."""
    times = []
    for _ in range(2 if options.emulated else 20):
        dr.sync_thread()
        start = time.perf_counter()
        for _ in range(count):
            run()
        times.append((time.perf_counter() - start) / count)
    return min(times)


def opaque(*arrays):
    dr.make_opaque(arrays)
    dr.sync_thread()
    return arrays if len(arrays) > 1 else arrays[0]


class Table:
    """Rows of a table, printed as they come."""

    def __init__(self, *columns: str) -> None:
        self.show(columns)
        self.show(["---"] * len(columns))

    def show(self, cells) -> None:
        print("|", " | ".join(str(c) for c in cells), "|", flush=True)


def bandwidth() -> float:
    """Bytes a second that a copy moves: what memory allows."""
    x = opaque(dr.linspace(Float, 0, 1, LARGE))
    seconds = on_device(lambda: x + 1)
    return 8 * LARGE / seconds


def measure_memory() -> None:
    peak = bandwidth()
    print(f"Memory moves {peak / 1e12:.2f} TB/s in a copy with an addition.\n")
    table = Table("workload", "ms", "bytes an entry", "TB/s", "share of the copy")

    def row(name: str, make: Callable[[], object], nbytes: float) -> None:
        seconds = on_device(make)
        rate = nbytes * LARGE / seconds
        table.show(
            [name, f"{seconds * 1e3:.3g}", nbytes, f"{rate / 1e12:.2f}", f"{rate / peak:.0%}"]
        )

    x, y = opaque(dr.linspace(Float, 0.01, 3, LARGE), dr.linspace(Float, 1, 2, LARGE))
    row("`2.5*x + y`", lambda: 2.5 * x + y, 12)
    row("`exp(-x)*log(x) + tanh(x)`", lambda: dr.exp(-x) * dr.log(x) + dr.tanh(x), 8)
    row(
        "`exp(-x)*log(x) + tanh(x)*atan2(x, 1+x) + x**1.7`",
        lambda: dr.exp(-x) * dr.log(x) + dr.tanh(x) * dr.atan2(x, 1 + x) + x**1.7,
        8,
    )
    row("`sum(sin(x*x))`", lambda: dr.sum(dr.sin(x * x)), 4)
    near = opaque((dr.arange(UInt, LARGE) * 97 + 13) % (1 << min(SCALE, 20)))
    row("gather from 1M", lambda: dr.gather(Float, x, near), 8)
    far = opaque(dr.arange(UInt, LARGE) * 2654435761 % LARGE)
    row("gather from all, 32 bytes each", lambda: dr.gather(Float, x, far), 40)
    bins = opaque(dr.arange(UInt, LARGE) * 2654435761 % 1024)

    def histogram() -> Float:
        target = dr.zeros(Float, 1024)
        dr.scatter_add(target, Float(1), bins)
        return target

    row("histogram into 1024", histogram, 4)
    row("prefix sum", lambda: dr.prefix_sum(x), 8)
    row("compress, half", lambda: dr.compress(x > 1.5), 6)
    keys = opaque(dr.arange(UInt, LARGE) * 2654435761)
    row("sort of 32-bit keys", lambda: dr.sort(keys), 8 * 4 + 4)
    side = 1 << SCALE // 2
    matrix = opaque(TensorXf(dr.linspace(Float, 0, 1, side * side), (side, side)))
    row("sum over the first axis", lambda: dr.sum(matrix, axis=0), 4)
    row("sum over the last axis", lambda: dr.sum(matrix, axis=1), 4)
    print()


def measure_arithmetic() -> None:
    table = Table("workload", "ms", "rate")
    n = 32 if options.emulated else 4096
    for kind, name in ((TensorXf16, "half"), (TensorXf, "single")):
        a = opaque(kind(dr.linspace(kind.Array, -1, 1, n * n), (n, n)))
        seconds = on_device(lambda a=a: dr.matmul(a, a))
        rate = f"{2 * n**3 / seconds / 1e12:.1f} TFLOP/s"
        table.show(
            [f"product of matrices {n} x {n}, {name} precision", f"{seconds * 1e3:.3g}", rate]
        )
    side = 16 if options.emulated else 1024
    seconds = on_device(lambda: mandelbrot(side, 200))
    table.show([f"Mandelbrot, {side} x {side}, 200 rounds", f"{seconds * 1e3:.3g}", ""])
    seconds = on_device(lambda: spheres(side))
    table.show([f"sphere tracing, {side} x {side}, 64 steps", f"{seconds * 1e3:.3g}", ""])
    n = 64 if options.emulated else 1 << 20
    p = opaque(points(n))
    net = network(64, 4)
    seconds = on_device(lambda: Array3f(net(nn.CoopVec(p))))
    table.show(["network, 64 wide, 4 hidden layers, half", f"{seconds * 1e3:.3g}",
                f"{n / seconds:.3g} inferences/s"])  # fmt: skip
    seconds = on_device(training(net, p))
    table.show(["the same, value and gradient", f"{seconds * 1e3:.3g}",
                f"{n / seconds:.3g} samples/s"])  # fmt: skip
    net = network(64, 4, half=False)
    for flag, how in ((False, "single"), (True, "single precision, TF32")):
        with dr.scoped_set_flag(dr.JitFlag.ReducedPrecision, flag):
            seconds = on_device(lambda: Array3f(net(nn.CoopVec(p))))
            table.show([f"the network in {how}", f"{seconds * 1e3:.3g}",
                        f"{n / seconds:.3g} inferences/s"])  # fmt: skip
            seconds = on_device(training(net, p))
            table.show(["the same, value and gradient", f"{seconds * 1e3:.3g}",
                        f"{n / seconds:.3g} samples/s"])  # fmt: skip
    seconds = on_device(training_step(256 if options.emulated else 65536))
    table.show(["training step of the example neural_field, frozen", f"{seconds * 1e3:.3g}", ""])
    print()


def training(net, p: Array2f) -> Callable[[], object]:
    """What computes the gradient of the network's parameters at some points."""

    def train() -> object:
        dr.enable_grad(net["weights"])
        dr.clear_grad(net["weights"])
        dr.backward(dr.squared_norm(Array3f(net(nn.CoopVec(p))) - 0.5))
        return dr.detach(dr.grad(net["weights"]))

    return train


def training_step(n: int) -> Callable[[], object]:
    net = network(64, 3)
    opt = Adam(lr=1e-3)
    opt.update(net)
    rng = dr.rng(seed=1)
    image = Texture2f(TensorXf(dr.linspace(Float, 0, 1, 64 * 64 * 3), (64, 64, 3)))

    @dr.freeze
    def step(net, opt: Adam, image: Texture2f, rng) -> None:
        net.update(opt)
        p = rng.random(Array2f, (2, n))
        dr.backward(dr.squared_norm(image.eval(p) - Array3f(net(nn.CoopVec(p)))))
        opt.step()

    return lambda: step(net, opt, image, rng)


def measure_launches() -> None:
    table = Table("launches", "µs")
    x = opaque(dr.linspace(Float, 0, 1, 64))
    count = 5 if options.emulated else 100

    def small() -> None:
        dr.eval(x * 2 + 1)

    table.show(["two operations on 64 entries: trace, schedule, launch", micro(small, count)])
    frozen = dr.freeze(lambda a: a * 2 + 1)
    table.show(["the same, frozen", micro(lambda: frozen(x), count)])
    table.show(["the same, and its value", micro(lambda: (x * 2 + 1).numpy(), count)])
    for n in (30, 300, 3000):
        whole, ptx = new_kernel(n)
        table.show([f"new kernel of {n} operations", f"{whole * 1e6:.0f}"])
        table.show(["of that, from its text to PTX", f"{ptx * 1e6:.0f}"])
    print()
    gpu = device.find(dr.JitBackend.CUDA)
    assert isinstance(gpu, Cuda)
    table = Table("a launch", "µs of the processor", "µs until it has ended")
    ways = launches.programs()
    if not options.emulated:  # which has no graphs
        ways = chain(ways, launches.calls(gpu))
    effort = (1, 1) if options.emulated else (40, 40)
    for name, run, kernels in ways:
        host = launches.cost(run, kernels, *effort)
        whole = launches.until_done(gpu, run, kernels, effort[1])
        table.show([name, f"{host:.2f}", f"{whole:.2f}"])
    print()


def micro(run: Callable[[], object], count: int) -> str:
    run()
    return f"{on_host(run, count) * 1e6:.1f}"


def new_kernel(n: int) -> tuple[float, float]:
    """Seconds until a program of `n` operations that nobody has seen has run, and of these, those
    from the kernel's text to PTX."""
    x, rng = opaque(dr.linspace(Float, 0.5, 1, 1000)), np.random.default_rng(n)
    times = []
    for _ in range(1 if options.emulated else 3):
        values = [x, x + 1]
        for k in rng.integers(0, 1 << 30, n):
            a, b = values[k % len(values)], values[k // 7 % len(values)]
            values.append([a * b, a + b, a - b, dr.fma(a, b, x), dr.sqrt(dr.abs(a))][k % 5])
        start = time.perf_counter()
        dr.eval(sum(values[-20:]))
        dr.sync_thread()
        times.append(time.perf_counter() - start)
    found: Any = device.find(dr.JitBackend.CUDA)
    kernel = max(found.kernels(), key=lambda k: k.statements)
    start = time.perf_counter()
    kernel.lowered(False)
    return min(times), time.perf_counter() - start


def main() -> None:
    if options.corpus:
        np.savez(options.corpus, **dict(computed()))
        return
    print("# drjit.cuda on this machine\n")
    for name, value in facts():
        print(f"- {name}: {value}")
    print("\n## The same results as emulated\n")
    compare()
    for title, part in (
        ("Launches", measure_launches), ("Memory", measure_memory),
        ("Arithmetic", measure_arithmetic),
    ):  # fmt: skip
        print(f"## {title}\n")
        try:
            part()
        except Exception as error:
            print(f"\n**{type(error).__name__}: {error}**\n")


def facts() -> Iterator[tuple[str, object]]:
    from drjit.jit.device import find

    gpu = find(dr.JitBackend.CUDA)
    free, total = gpu.driver.memory_info()
    yield "GPU", f"{gpu.name}, compute capability {'.'.join(map(str, gpu.capability))}"
    yield "multiprocessors", gpu.multiprocessors
    yield "memory", f"{total / 2**30:.1f} GiB, of which {free / 2**30:.1f} GiB are free"
    yield "driver", f"for CUDA {gpu.driver.version() // 1000}.{gpu.driver.version() % 1000 // 10}"
    yield "images", gpu.image_facts()
    yield "drjit", dr.__version__
    yield "Python", f"{platform.python_version()} on {platform.platform()}"


if __name__ == "__main__":
    main()
