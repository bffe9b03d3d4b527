"""One workload in this process: `python workloads.py NAME THREADS` prints its figure.

They are scripts of a user of either implementation: they use only what both have. A figure is the
best of several repetitions. Inputs are made opaque where memory traffic is what counts, since an
`arange` or `linspace` would otherwise be recomputed by the kernel; outputs are fresh each time.
"""

# ruff: noqa: E402
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

_start = time.perf_counter()
import drjit as dr
from drjit.llvm import PCG32, Array2f, Float, Matrix4f, TensorXf, TensorXf16, Texture2f, UInt32, ad

IMPORT_SECONDS = time.perf_counter() - _start

LARGE = 1 << 24
MEDIUM = 1 << 22


def opaque(*arrays):
    """The arrays, in memory: nothing of how they were made is left for a kernel to recompute."""
    for array in arrays:
        dr.make_opaque(array)
    dr.sync_thread()
    return arrays if len(arrays) > 1 else arrays[0]


def evaluation(make: Callable[[], object]) -> float:
    """Seconds from an expression to its evaluated arrays."""
    start = time.perf_counter()
    value = make()
    dr.eval(value)
    dr.sync_thread()
    return time.perf_counter() - start


def best(make: Callable[[], object], at_least: int = 7, seconds: float = 0.6) -> float:
    """Milliseconds of the quickest evaluation; the first ones compile and are not counted."""
    for _ in range(3):
        evaluation(make)
    times = []
    end = time.perf_counter() + seconds
    while len(times) < at_least or time.perf_counter() < end:
        times.append(evaluation(make))
    return min(times) * 1e3


def axpy() -> float:
    x, y = opaque(dr.linspace(Float, 0, 1, LARGE), dr.linspace(Float, 1, 2, LARGE))
    return best(lambda: 2.5 * x + y)


def transcendental() -> float:
    x = opaque(dr.linspace(Float, 0.01, 3, LARGE))
    return best(
        lambda: dr.exp(-x) * dr.log(x) + dr.tanh(x) * dr.atan2(x, 1 + x) + dr.power(x, Float(1.7))
    )


def fresnel() -> float:
    def mean():
        a = dr.linspace(Float, 0, 1, LARGE)
        return dr.mean(dr.sin(a * a))

    return best(mean)


def exported() -> float:
    """The expression of `transcendental` as a file for Numba, on the same numbers."""
    import runpy
    import tempfile

    def f(x):
        power = dr.power(x, Float(1.7))
        return dr.exp(-x) * dr.log(x) + dr.tanh(x) * dr.atan2(x, 1 + x) + power

    x = opaque(dr.linspace(Float, 0.01, 3, LARGE))
    with tempfile.TemporaryDirectory() as folder:
        function = runpy.run_path(str(dr.export(f, x, path=f"{folder}/f.py")))["f"]
        values = x.numpy()
        return best(lambda: function(values))


def random_index():
    return dr.arange(UInt32, MEDIUM) * UInt32(2654435761) % MEDIUM


def gather() -> float:
    x, index = opaque(dr.linspace(Float, 0, 1, MEDIUM), random_index())
    return best(lambda: dr.gather(Float, x, index) * 2)


def histogram() -> float:
    weight, index = opaque(dr.linspace(Float, 0, 1, MEDIUM), random_index() & 1023)

    def scatter():
        bins = dr.zeros(Float, 1024)
        dr.scatter_add(bins, weight, index)
        return bins

    return best(scatter)


def matrix(cls, *shape):
    """A tensor of uncorrelated numbers between 0 and 1."""
    size = shape[0] * shape[1]
    numbers = dr.arange(UInt32, size) * UInt32(2654435761) % UInt32(1000003)
    return opaque(cls(TensorXf(Float(numbers) / 1000003, shape)))


def matmul() -> float:
    a, b = matrix(TensorXf, 1024, 1024), matrix(TensorXf, 1024, 1024)
    return best(lambda: a @ b)


def matmul_half() -> float:
    a, b = matrix(TensorXf16, 1024, 1024), matrix(TensorXf16, 1024, 1024)
    return best(lambda: a @ b)


def matrices():
    """100,000 matrices of 4 x 4, which are far from singular."""
    rng = PCG32(100_000)
    return opaque(
        Matrix4f([[rng.next_float32() + 3 * (i == j) for j in range(4)] for i in range(4)])
    )


def determinant() -> float:
    m = matrices()
    return best(lambda: dr.det(m))


def inverse() -> float:
    m = matrices()
    return best(lambda: dr.rcp(m))


def polar() -> float:
    m = matrices()
    return best(lambda: dr.polar_decomp(m))


def matvec() -> float:
    a, x = matrix(TensorXf, 4096, 4096), matrix(TensorXf, 4096, 1)
    return best(lambda: a @ x)


def sort() -> float:
    x = matrix(TensorXf, 2048, 2048).array
    return best(lambda: dr.sort(x))


def sum_columns() -> float:
    a = matrix(TensorXf, 4096, 4096)
    return best(lambda: dr.sum(a, axis=0))


def sum_rows() -> float:
    a = matrix(TensorXf, 4096, 4096)
    return best(lambda: dr.sum(a, axis=1))


def texture() -> float:
    """Bilinear look-ups of 4 channels at random positions."""
    texels = dr.linspace(Float, 0, 1, 512 * 512 * 4)
    image = Texture2f(TensorXf(opaque(texels), shape=(512, 512, 4)))
    draw = PCG32(1 << 20)
    x, y = opaque(draw.next_float32(), draw.next_float32())
    return best(lambda: image.eval(Array2f(x, y)))


def random_numbers() -> float:
    rng = dr.rng(seed=1)
    return best(lambda: rng.random(Float, LARGE))


def import_time() -> float:
    return IMPORT_SECONDS * 1e3


def first_print() -> float:
    start = time.perf_counter()
    print(dr.sin(Float(1, 2, 3)) + 1, file=sys.stderr)
    return (time.perf_counter() - start) * 1e3


def first_print_cached() -> float:
    return first_print()


def random_program(x, n_ops: int, seed: int):
    """An expression of `n_ops` operations whose structure depends on the seed. Each value enters
    the next, so none is dead; they stay within -0.5 and 0.5."""
    random = Random(seed)
    values = [x * 0.25, x * 0.5]
    for _ in range(n_ops // 2 - 1):
        a, b = values[-1], random.choice(values[-20:-1])
        c = random.uniform(0.1, 0.25)
        values.append(a * b + c if random.random() < 0.5 else (a - b) * c)
    return values[-1]


def compile_new(n_ops: int) -> float:
    """Milliseconds to evaluate a kernel for the first time, tracing left out."""
    x = opaque(dr.linspace(Float, 0, 1, 1 << 14))
    evaluation(lambda: random_program(x, 30, 0))  # what a process does once
    times = []
    for seed in range(1, 6):
        y = random_program(x, n_ops, seed)
        times.append(evaluation(lambda y=y: y))
    return min(times) * 1e3


def compile_30() -> float:
    return compile_new(30)


def compile_300() -> float:
    return compile_new(300)


def compile_3000() -> float:
    return compile_new(3000)


def disk_cache() -> float:
    """The first kernel of a process; the second process with the same cache finds it on disk."""
    x = opaque(dr.linspace(Float, 0, 1, 1 << 14))
    y = random_program(x, 300, 0)
    return evaluation(lambda: y) * 1e3


def small_loop(n: int, sync: bool) -> float:
    """Microseconds from an expression of two operations on 64 entries to its evaluation."""
    x = opaque(dr.linspace(Float, 0, 1, 64))
    start = time.perf_counter()
    for _ in range(n):
        dr.eval(x * 2 + 1)
        if sync:
            dr.sync_thread()
    dr.sync_thread()
    return (time.perf_counter() - start) / n * 1e6


def small_launch() -> float:
    small_loop(200_000, sync=False)  # long enough for everything to be compiled
    return min(small_loop(1000, sync=False) for _ in range(9))


def first_launches() -> float:
    """Microseconds of a launch, the mean of the first 1000 of a process; the second process with
    the same cache finds on disk what the first one has compiled after these."""
    figure = small_loop(1000, sync=False)
    small_loop(100_000, sync=False)
    return figure


def first_launches_python() -> float:
    return first_launches()


def small_wide() -> float:
    """Microseconds of a kernel with 16 inputs and 16 outputs of 64 entries each."""
    small_loop(200_000, sync=False)  # long enough for everything to be compiled
    xs = [opaque(dr.linspace(Float, k, k + 1, 64)) for k in range(16)]
    return min(best(lambda: [x * 2 + 1 for x in xs]) for _ in range(3)) * 1e3


def small_round_trip() -> float:
    small_loop(200_000, sync=True)  # long enough for everything to be compiled
    return min(small_loop(1000, sync=True) for _ in range(9))


def small_frozen() -> float:
    """Microseconds of a call of a frozen function with two kernels, on four arrays of 64 entries;
    the calls follow each other."""

    @dr.freeze
    def f(a, b, c, d):
        y = dr.sin(a * b) + c
        dr.eval(y)
        return y * d + a

    arrays = [opaque(dr.linspace(Float, 0, k + 1, 64)) for k in range(4)]

    def seconds(n: int) -> float:
        start = time.perf_counter()
        for _ in range(n):
            f(*arrays)
        dr.sync_thread()
        return (time.perf_counter() - start) / n

    seconds(500)
    figure = min(seconds(1000) for _ in range(9)) * 1e6
    small_loop(100_000, sync=False)  # a later process finds on disk what this compiles
    return figure


def memory_growth() -> float:
    """KiB of resident memory that 10,000 evaluations leave behind."""
    page = Path("/proc/self/statm")
    small_loop(200_000, sync=True)  # long enough for everything to be compiled
    before = int(page.read_text().split()[1])
    small_loop(10_000, sync=True)
    return (int(page.read_text().split()[1]) - before) * 4.0


def chain(x):
    for _ in range(20):
        x = dr.sin(x) * x + 0.1
    return x


def gradient(f: Callable[[object], object], x: object) -> object:
    """The value of a function and the gradient of its argument."""
    x = type(x)(x)
    dr.enable_grad(x)
    y = f(x)
    dr.backward(y)
    return y, x.grad


def ad_primal() -> float:
    x = opaque(dr.linspace(ad.Float, 0, 1, 1 << 20))
    return best(lambda: chain(x))


def ad_chain() -> float:
    x = opaque(dr.linspace(ad.Float, 0, 1, 1 << 20))
    return best(lambda: gradient(chain, x))


def ad_gather() -> float:
    x, index = opaque(dr.linspace(ad.Float, 0, 1, MEDIUM), ad.UInt32(random_index()))
    return best(lambda: gradient(lambda x: dr.gather(ad.Float, x, index) * 2, x)[1])


def ad_texture() -> float:
    """The gradient of the texels in bilinear look-ups at random positions."""
    values = opaque(dr.linspace(ad.Float, 0, 1, 512 * 512 * 4))
    draw = PCG32(1 << 20)
    x, y = opaque(ad.Float(draw.next_float32()), ad.Float(draw.next_float32()))

    def look_up(values):
        image = ad.Texture2f(ad.TensorXf(values, shape=(512, 512, 4)))
        return sum(image.eval(ad.Array2f(x, y)))

    return best(lambda: gradient(look_up, values)[1])


def ad_step() -> float:
    """Microseconds of a step of an optimization: tracing, gradient, evaluation."""
    data = opaque(dr.linspace(ad.Float, 0, 1, 64))
    x = ad.Float(1)

    def step():
        nonlocal x
        dr.enable_grad(x)
        loss = dr.sum(dr.square(chain(x * data) - 0.5))
        dr.backward(loss)
        x = dr.detach(x - 1e-3 * x.grad)

    return best(lambda: (step(), x)[1]) * 1e3


def adam() -> tuple:
    """A step of Adam for the 64 parameters of a chain, and its arguments."""
    from drjit.opt import Adam

    data = opaque(dr.linspace(ad.Float, 0, 1, 64))
    optimizer = Adam(lr=1e-3, params={"x": opaque(dr.full(ad.Float, 1, 64))})

    def step(optimizer, data):
        dr.backward(dr.sum(dr.square(chain(optimizer["x"] * data) - 0.5)))
        optimizer.step()

    return step, optimizer, data


def ad_adam() -> float:
    """Microseconds of a step of Adam: tracing, gradient, evaluation."""
    step, optimizer, data = adam()
    return best(lambda: step(optimizer, data)) * 1e3


def ad_adam_frozen() -> float:
    """Microseconds of the same step as a frozen function."""
    step, optimizer, data = adam()
    frozen = dr.freeze(step)
    return best(lambda: frozen(optimizer, data)) * 1e3


def traced_seconds(x, differentiable: bool) -> tuple[float, float]:
    """Seconds to trace a chain of 60 operations, and the reverse traversal of its 80 edges."""
    x = ad.Float(x)
    if differentiable:
        dr.enable_grad(x)
    start = time.perf_counter()
    y = chain(x)
    traced = time.perf_counter()
    if differentiable:
        dr.backward(y)
    return traced - start, time.perf_counter() - traced


def ad_plain() -> float:
    """Microseconds to trace an operation of differentiable types that depends on no gradient."""
    small_loop(200_000, sync=False)  # long enough for everything to be compiled
    x = opaque(dr.linspace(ad.Float, 0, 1, 64))
    return min(traced_seconds(x, False)[0] for _ in range(3000)) / 60 * 1e6


def ad_layers() -> float:
    """Milliseconds of a chain of 400 layers and its gradient, whose kernels are new."""
    x = opaque(dr.linspace(ad.Float, 0, 1, 4096))

    def layers(x):
        for k in range(400):
            x = dr.sin(x * (1 + k / 400)) + x * 0.5
        return x

    return evaluation(lambda: gradient(layers, x)) * 1e3


def ad_record() -> float:
    """Microseconds that recording derivatives adds to an operation."""
    small_loop(200_000, sync=False)  # long enough for everything to be compiled
    x = opaque(dr.linspace(ad.Float, 0, 1, 64))
    plain, recorded = [min(traced_seconds(x, on)[0] for _ in range(3000)) for on in (False, True)]
    return (recorded - plain) / 60 * 1e6


def ad_edge() -> float:
    """Microseconds of a reverse traversal for an edge."""
    small_loop(200_000, sync=False)  # long enough for everything to be compiled
    x = opaque(dr.linspace(ad.Float, 0, 1, 64))
    return min(traced_seconds(x, True)[1] for _ in range(3000)) / 80 * 1e6


if __name__ == "__main__":
    dr.set_thread_count(int(sys.argv[2]))
    print(globals()[sys.argv[1]]())
