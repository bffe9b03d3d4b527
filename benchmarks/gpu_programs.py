"""The programs of `gpu.py`: a corpus whose results are compared with those of the emulated GPU, and
workloads whose time is measured. Each function yields rows of a part; see `gpu_process`.
"""

import time
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import launches
import numpy as np
import scenes
from gpu_process import Differs, Figure, Row, Setting, gpu
from gpu_report import (
    AXPY,
    COPIES,
    FAR,
    FROZEN,
    INFERENCE,
    MIX,
    NEAR,
    SMALL,
    SORT,
    STEP,
    TRAINING,
)  # fmt: skip

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
from drjit.opt import Adam

# ------------------------------------------------------------------------------------- the corpus


def elementary(at: Setting) -> Iterator[Row]:
    """Every function on every type: as polynomials, which have the same bits everywhere, and with
    the approximations of the machine."""
    rng = np.random.default_rng(1)
    unary = (
        "sin", "cos", "tan", "exp", "exp2", "log", "log2", "sqrt", "cbrt", "erf", "tanh", "asin",
        "acos", "atan", "sinh", "cosh", "floor", "round", "rcp", "rsqrt", "lgamma",
    )  # fmt: skip
    for kind in (Float16, Float, Float64):
        x = kind(rng.normal(size=700).astype(np.float64) * 3)
        functions = {name: getattr(dr, name) for name in unary}
        functions["power"] = lambda x: dr.abs(x) ** type(x)(1.7)
        functions["atan2"] = lambda x: dr.atan2(x, x + 1)
        for name, f in functions.items():
            yield f"{name} {kind.__name__}", lambda f=f, x=x: exact(f, x)
        for name in ("sin", "cos", "exp", "exp2", "log", "log2", "tanh", "power"):
            f = functions[name]
            yield f"float {name} {kind.__name__}", lambda f=f, x=x: f(x).numpy()
    for kind in (Int, UInt, Int64, UInt64):
        a = kind(rng.integers(0, 1000, 700))
        b = kind(rng.integers(1, 40, 700))
        for name, g in {
            "quotient": lambda a, b: a // b, "remainder": lambda a, b: a % b,
            "shift": lambda a, b: (a << b) >> (b // 2), "mulhi": dr.mul_hi,
            "bits": lambda a, b: dr.popcnt(a) + dr.lzcnt(b) + dr.tzcnt(a ^ b),
        }.items():  # fmt: skip
            yield f"{name} {kind.__name__}", lambda g=g, a=a, b=b: g(a, b).numpy()


def exact(f: Callable, x: Any) -> np.ndarray:
    """Computes without approximations."""
    with dr.scoped_set_flag(dr.JitFlag.FastMath, False):
        return f(x).numpy()


def memory(at: Setting) -> Iterator[Row]:
    rng = np.random.default_rng(2)
    index = UInt(rng.integers(0, 500, 3000).astype(np.uint32))
    values = Int(rng.integers(-99, 99, 3000).astype(np.int32))
    table = dr.arange(Float, 500)

    def scattered(op: dr.ReduceOp, size: int, step: int) -> np.ndarray:
        target = dr.zeros(Int, size)
        dr.scatter_reduce(op, target, values, index * step)
        return target.numpy()

    def slots() -> np.ndarray:
        counter = dr.zeros(UInt, 1)
        found = dr.scatter_inc(counter, dr.zeros(UInt, 3000)).numpy()
        return np.append(np.sort(found), counter.numpy())

    def texture() -> np.ndarray:
        p = Array2f(dr.linspace(Float, 0, 1, 333), dr.linspace(Float, 1, 0, 333))
        return np.asarray(Texture2f(TensorXf(table, (10, 10, 5))).eval(p).numpy())

    yield "gather", lambda: dr.gather(Float, table, index).numpy()
    yield "records", lambda: dr.gather(Array3f, table, index % 160).numpy()
    yield "histogram", lambda: scattered(dr.ReduceOp.Add, 500, 1)
    yield "maxima", lambda: scattered(dr.ReduceOp.Max, 100_000, 200)
    yield "slots", slots
    yield "texture", texture


def collectives(at: Setting) -> Iterator[Row]:
    rng = np.random.default_rng(3)
    x = Int(rng.integers(-9, 9, 50_001).astype(np.int32))
    half = TensorXf16(rng.normal(size=(64, 96)).astype(np.float16))
    rows = TensorXf(Float(x)[:50_000], (200, 250))
    for name, make in {
        "sum": lambda: dr.sum(x), "least": lambda: dr.min(x), "prefix": lambda: dr.prefix_sum(x),
        "where": lambda: dr.compress(x > 3), "float sum": lambda: dr.sum(Float(x) / 7),
        # Tensor cores do not round the sums of products as the emulator does.
        "float product": lambda: dr.matmul(half, half, False, True),
        "rows": lambda: dr.sum(rows, axis=0), "sorted": lambda: dr.sort(x),
        "random": lambda: PCG32(1000).next_float32(),
    }.items():  # fmt: skip
        yield name, lambda make=make: np.asarray(make().numpy())


def mandelbrot(n: int, rounds: int) -> UInt:
    return scenes.mandelbrot(cuda.ad, scenes.plane(cuda.ad, n), n * n, rounds)


def spheres(n: int) -> Float:
    return scenes.sphere_tracing(cuda.ad, scenes.rays(cuda.ad, n), n * n)


def control_flow(at: Setting) -> Iterator[Row]:
    k, x = dr.arange(UInt, 1000) % 4, dr.linspace(Float, 0, 2, 1000)
    functions = [lambda x, k=k: x * (k + 1.5) + dr.sqrt(x + k) for k in range(4)]

    def gradient() -> np.ndarray:
        y = Float(x)
        dr.enable_grad(y)
        dr.backward(dr.sum(dr.sin(y * y) * dr.exp(-y)))
        return dr.grad(y).numpy()

    yield "mandelbrot", lambda: mandelbrot(24, 60).numpy()
    yield "spheres", lambda: spheres(16).numpy()
    yield "gradient", gradient
    yield "switch", lambda: dr.switch(k, functions, x).numpy()


def network(width: int, layers: int, half: bool = True) -> Any:
    """A network packed for training with 2 inputs, encoded to `width`, and 3 outputs."""
    parts: list[nn.Module] = [nn.TriEncode(width // 4, 0.2)]
    parts += [nn.Cast(Float16)] if half else []
    for _ in range(layers):
        parts += [nn.Linear(-1, -1, bias=False), nn.LeakyReLU()]
    net = nn.Sequential(*parts, nn.Linear(-1, 3, bias=False), nn.Exp())
    net = net.alloc(TensorXf16 if half else TensorXf, 2, rng=dr.rng(seed=0))
    return nn.pack(net, layout="training")


def networks(at: Setting) -> Iterator[Row]:
    for width in (16, 64):
        net = network(width, 2)
        dr.enable_grad(net["weights"])
        y = Array3f(net(nn.CoopVec(points(777))))

        def gradient(net: Any = net, y: Array3f = y) -> np.ndarray:
            dr.backward(dr.sum(y))
            return np.asarray(dr.grad(net["weights"]).numpy())

        yield f"network {width}", lambda y=y: np.asarray(y.numpy())
        yield f"float gradient {width}", gradient


def points(n: int) -> Array2f:
    t = dr.linspace(Float, 0, 1, n)
    return Array2f(t, dr.sin(9 * t) * 0.5 + 0.5)


# ------------------------------------------------------------------------------------- the figures


def on_device(at: Setting, make: Callable[[], object], at_least: int = 5) -> float:
    """Seconds of the GPU for the quickest evaluation."""
    times: list[float] = []
    start, end = Event(), Event()
    for _ in range(2):
        dr.eval(make())
    stop = time.perf_counter() + at.seconds
    while len(times) < (1 if at.emulated else at_least) or time.perf_counter() < stop:
        start.record()
        value = make()
        dr.eval(value)
        end.record()
        del value
        times.append(start.elapsed_time(end) * 1e-3)
    return min(times)


def on_host(at: Setting, run: Callable[[], object]) -> float:
    """Seconds of Python for each of several launches, in the quickest round."""
    times, count = [], 5 if at.emulated else 100
    run()
    for _ in range(2 if at.emulated else 20):
        dr.sync_thread()
        start = time.perf_counter()
        for _ in range(count):
            run()
        times.append((time.perf_counter() - start) / count)
    return min(times)


def opaque(*arrays: Any) -> Any:
    dr.make_opaque(arrays)
    dr.sync_thread()
    return arrays if len(arrays) > 1 else arrays[0]


def moved(at: Setting, make: Callable[[], object], nbytes: float) -> Callable[[], Figure]:
    """What measures a workload that moves so many bytes for each of the `large` entries."""
    return lambda: Figure(on_device(at, make), nbytes * at.large, "B/s")


def by_driver(at: Setting) -> Figure:
    device, nbytes = gpu(), 4 * at.large
    source, target = device.allocate(nbytes), device.allocate(nbytes)

    def copy() -> None:
        device.queue.copy(target.address, source.address, nbytes)

    return Figure(on_device(at, copy), 2 * nbytes, "B/s")


def streams(at: Setting) -> Iterator[Row]:
    """What goes through memory once."""
    n = at.large
    yield COPIES[0], lambda: by_driver(at)
    x, y = opaque(dr.linspace(Float, 0.01, 3, n), dr.linspace(Float, 1, 2, n))
    yield COPIES[1], moved(at, lambda: x + 1, 8)
    yield AXPY, moved(at, lambda: 2.5 * x + y, 12)
    yield MIX, moved(at, lambda: dr.exp(-x) * dr.log(x) + dr.tanh(x), 8)
    near = opaque((dr.arange(UInt, n) * 97 + 13) % at.medium)
    yield NEAR, moved(at, lambda: dr.gather(Float, x, near), 8)
    far = opaque(dr.arange(UInt, n) * 2654435761 % n)
    yield FAR, moved(at, lambda: dr.gather(Float, x, far), 40)
    name = "`exp(-x)*log(x) + tanh(x)*atan2(x, 1+x) + x**1.7`"
    long = lambda: dr.exp(-x) * dr.log(x) + dr.tanh(x) * dr.atan2(x, 1 + x) + x**1.7  # noqa: E731
    yield name, moved(at, long, 8)
    yield "`sum(sin(x*x))`", moved(at, lambda: dr.sum(dr.sin(x * x)), 4)


def sorting(at: Setting) -> Iterator[Row]:
    keys = opaque(dr.arange(UInt, at.large) * 2654435761)
    # Four passes read and write the keys; before, these are read once to be counted.
    yield SORT, moved(at, lambda: dr.sort(keys), 4 * 8 + 4)


def reductions(at: Setting) -> Iterator[Row]:
    n = at.large
    x = opaque(dr.linspace(Float, 0.01, 3, n))
    bins = opaque(dr.arange(UInt, n) * 2654435761 % 1024)

    def histogram() -> Float:
        target = dr.zeros(Float, 1024)
        dr.scatter_add(target, Float(1), bins)
        return target

    yield "histogram into 1024", moved(at, histogram, 4)
    yield "prefix sum", moved(at, lambda: dr.prefix_sum(x), 8)
    yield "compress, half", moved(at, lambda: dr.compress(x > 1.5), 6)
    side = 1 << (n.bit_length() - 1) // 2
    matrix = opaque(TensorXf(dr.linspace(Float, 0, 1, side * side), (side, side)))
    for axis, name in enumerate(("first", "last")):
        make = lambda axis=axis: Figure(  # noqa: E731
            on_device(at, lambda: dr.sum(matrix, axis=axis)), 4 * side * side, "B/s"
        )
        yield f"sum over the {name} axis", make


def products(at: Setting) -> Iterator[Row]:
    n = 32 if at.emulated else 4096
    for kind, name in ((TensorXf16, "half"), (TensorXf, "single")):
        a = opaque(kind(dr.linspace(kind.Array, -1, 1, n * n), (n, n)))
        yield (
            f"product of matrices {n} x {n}, {name} precision",
            lambda a=a: Figure(on_device(at, lambda: dr.matmul(a, a)), 2 * n**3, "FLOP/s"),
        )


def warpgroups(at: Setting) -> Iterator[Row]:
    """Products of halves by the kernel that is off by default, against those by `mma`, which differ
    in how tensor cores round sums."""
    device, n = gpu(), 128 if at.emulated else 4096
    if device.capability != (9, 0):
        yield "warpgroups", lambda: "this GPU has none"
        return

    def product(by_groups: bool, *operands: Any) -> Any:
        device.has_warpgroups = by_groups
        return dr.matmul(*operands)

    def compared(*operands: Any) -> str:
        before = {k.name: k.counted for k in device.kernels()}
        found, expected = [product(by_groups, *operands).numpy() for by_groups in (True, False)]
        ran = [k.name for k in device.kernels() if k.counted > before.get(k.name, 0)]
        if not any("WarpGroups" in name for name in ran):
            raise Differs(f"it did not run, but {', '.join(ran)}")
        apart, most = np.abs(found.astype(float) - expected).max(), np.abs(expected).max()
        if not apart <= 2e-3 * most:
            raise Differs(f"results differ by {apart}, the largest one is {most}")
        return f"the same as by `mma`, but for {apart / most:.1g} of the largest result"

    rng = np.random.default_rng(1)
    for m, columns, depth in ((128, 256, 64), (n + 8, n + 24, n - 56), (2 * n, 264, 1608)):
        a, b = (rng.uniform(-1, 1, s).astype(np.float16) for s in ((m, depth), (depth, columns)))
        for at_bt in ((False, False), (False, True), (True, False), (True, True)):
            x, y = (TensorXf16(v.T if t else v) for v, t in zip((a, b), at_bt, strict=True))
            turned = " and ".join([v for v, t in zip("AB", at_bt, strict=True) if t])
            name = f"{m} x {columns} x {depth}" + f", {turned} transposed" * bool(turned)
            yield name, lambda x=x, y=y, t=at_bt: compared(x, y, *t)
    several = TensorXf16(rng.uniform(-1, 1, (3, 136, 72)).astype(np.float16))
    yield "three products", lambda: compared(several, TensorXf16(b[:72, :256]))
    a = opaque(TensorXf16(dr.linspace(TensorXf16.Array, -1, 1, n * n), (n, n)))
    for by_groups, name in ((True, "wgmma"), (False, "mma")):
        yield (
            f"product of matrices {n} x {n} by {name}",
            lambda by=by_groups: Figure(
                on_device(at, lambda: product(by, a, a)), 2 * n**3, "FLOP/s"
            ),
        )


def loops(at: Setting) -> Iterator[Row]:
    n = 16 if at.emulated else 1024
    few, many = 200, 300 if at.emulated else 4000
    for rounds in (few, many):
        name = f"Mandelbrot, {n} x {n}, {rounds} rounds"
        yield name, lambda k=rounds: Figure(on_device(at, lambda: mandelbrot(n, k)))

    def consistent() -> str:
        """The kernel looks now and then whether it is to stop, which must not change anything."""
        short, long = mandelbrot(n, few).numpy(), mandelbrot(n, many).numpy()
        if not np.array_equal(np.minimum(long, few), short):
            raise Differs("points escape in other rounds than in a loop of fewer rounds")
        return f"as many points as in {few} rounds, {np.count_nonzero(long == many)} stay inside"

    yield f"a loop of {many} rounds", consistent
    yield f"sphere tracing, {n} x {n}, 64 steps", lambda: Figure(on_device(at, lambda: spheres(n)))


def speeds(at: Setting) -> Iterator[Row]:
    """A network in half precision, and the training step of the example."""
    n = 64 if at.emulated else 1 << 20
    p, net = opaque(points(n)), network(64, 4)
    run = lambda: Array3f(net(nn.CoopVec(p)))  # noqa: E731
    yield INFERENCE, lambda: Figure(on_device(at, run), n, "inferences/s")
    yield TRAINING, lambda: Figure(on_device(at, training(net, p)), n, "samples/s")
    step = training_step(256 if at.emulated else 65536)
    yield STEP, lambda: Figure(on_device(at, step))


def speeds_single(at: Setting) -> Iterator[Row]:
    n = 64 if at.emulated else 1 << 20
    p, net = opaque(points(n)), network(64, 4, half=False)
    run = lambda: Array3f(net(nn.CoopVec(p)))  # noqa: E731
    for flag, how in ((False, "single precision"), (True, "single precision, TF32")):

        def measured(make: Callable[[], object], unit: str, flag: bool = flag) -> Figure:
            with dr.scoped_set_flag(dr.JitFlag.ReducedPrecision, flag):
                return Figure(on_device(at, make), n, unit)

        yield f"the network in {how}", lambda m=measured: m(run, "inferences/s")
        name = f"the network in {how}: value and gradient"
        yield name, lambda m=measured: m(training(net, p), "samples/s")


def training(net: Any, p: Array2f) -> Callable[[], object]:
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
    def step(net: Any, opt: Adam, image: Texture2f, rng: Any) -> None:
        net.update(opt)
        p = rng.random(Array2f, (2, n))
        dr.backward(dr.squared_norm(image.eval(p) - Array3f(net(nn.CoopVec(p)))))
        opt.step()

    return lambda: step(net, opt, image, rng)


def small_kernels(at: Setting) -> Iterator[Row]:
    x = opaque(dr.linspace(Float, 0, 1, 64))
    frozen = dr.freeze(lambda a: a * 2 + 1)
    yield SMALL, lambda: Figure(on_host(at, lambda: dr.eval(x * 2 + 1)))
    yield FROZEN, lambda: Figure(on_host(at, lambda: frozen(x)))
    name = "two operations on 64 entries, and their value"
    yield name, lambda: Figure(on_host(at, lambda: (x * 2 + 1).numpy()))


def new_kernels(at: Setting) -> Iterator[Row]:
    for n in (30, 300, 3000):
        yield f"new kernel of {n} operations", lambda n=n: new_kernel(at, n)


def new_kernel(at: Setting, n: int) -> Figure:
    """The time until a program of `n` operations that nobody has seen has run."""
    x, rng = opaque(dr.linspace(Float, 0.5, 1, 1000)), np.random.default_rng(n)
    times = []
    for _ in range(1 if at.emulated else 3):
        values = [x, x + 1]
        for k in rng.integers(0, 1 << 30, n):
            a, b = values[k % len(values)], values[k // 7 % len(values)]
            values.append([a * b, a + b, a - b, dr.fma(a, b, x), dr.sqrt(dr.abs(a))][k % 5])
        start = time.perf_counter()
        dr.eval(sum(values[-20:]))
        dr.sync_thread()
        times.append(time.perf_counter() - start)
    kernel: Any = max(gpu().kernels(), key=lambda k: k.statements)
    start = time.perf_counter()
    kernel.lowered(False)
    ptx = time.perf_counter() - start
    return Figure(min(times), more=f"{ptx * 1e3:.0f} ms of it from its text to PTX")


def calls(at: Setting) -> Iterator[Row]:
    """Launches by Python and by the driver, with and without graphs."""
    ways = launches.programs()
    if not at.emulated:  # which has no graphs
        ways = chain(ways, launches.calls(gpu()))
    effort = (1, 1) if at.emulated else (40, 40)

    def figure(run: Callable[[], object], kernels: int) -> Figure:
        host = launches.cost(run, kernels, *effort)
        whole = launches.until_done(gpu(), run, kernels, effort[1])
        return Figure(whole * 1e-6, more=f"{host:.2f} µs of the processor")

    for name, run, kernels in ways:
        yield f"a launch: {name}", lambda run=run, kernels=kernels: figure(run, kernels)
