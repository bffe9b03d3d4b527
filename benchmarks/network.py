"""Training workloads in this process: `python network.py NAME THREADS` prints its figure.

The network is the one of the example `neural_field`: 65,536 random points, a triangle-wave encoding
to 64 features, three layers of 64 x 64 and one of 64 x 3. As in workloads.py, the scripts use only
what both implementations have.
"""

# ruff: noqa: E402
import resource
import sys
import time
from collections.abc import Callable

_start = time.perf_counter()
import drjit as dr
import drjit.nn as nn
from drjit.auto.ad import (
    Array2f,
    Array3f,
    Float16,
    Float32,
    TensorXf,
    TensorXf16,
    Texture2f,
)
from drjit.opt import Adam, GradScaler

RES = 256
POINTS = RES * RES


def image() -> TensorXf:
    """A smooth picture of 128 x 128 with three channels."""
    t = (dr.arange(Float32, 128) + 0.5) / 128
    x, y = dr.meshgrid(t, t)
    channels = [0.5 + 0.4 * dr.sin(9 * x * y), 0.5 + 0.4 * dr.cos(7 * y), x * (1 - y)]
    index = dr.arange(dr.auto.ad.UInt32, 128 * 128) * 3
    flat = dr.zeros(Float32, 128 * 128 * 3)
    for k, channel in enumerate(channels):
        dr.scatter(flat, channel, index + k)
    return TensorXf(flat, (128, 128, 3))


def network(first: list[nn.Module], half: bool, rng: object, prefix: str = ""):
    """A network packed for training: `first`, and three layers of the width that these give."""
    layers = [*first, nn.Cast(Float16)] if half else [*first]
    for _ in range(3):
        layers += [nn.Linear(-1, -1, bias=False), nn.LeakyReLU()]
    net = nn.Sequential(*layers, nn.Linear(-1, 3, bias=False), nn.Exp(), prefix=prefix)
    net = net.alloc(TensorXf16 if half else TensorXf, 2, rng=rng)
    return nn.pack(net, layout="training")


def encoded(half: bool):
    """The network of the training step."""
    return network([nn.TriEncode(16, 0.2)], half, dr.rng(seed=0))


def descend(net, opt: Adam, tex: Texture2f, rng, scaler: GradScaler | None = None) -> None:
    """One training step."""
    t = dr.arange(Float32, RES)
    p = (Array2f(dr.meshgrid(t, t)) + rng.random(Array2f, (2, POINTS))) / RES
    img = Array3f(net(nn.CoopVec(p)))
    loss = dr.squared_norm(tex.eval(p) - img)
    if scaler is None:
        dr.backward(loss)
        opt.step()
    else:
        dr.backward(scaler.scale(loss))
        scaler.step(opt)


def stepper(net, opt: Adam, fetch: Callable[[], None]) -> Callable[[], object]:
    """A function that fetches the parameters and takes one training step."""
    tex, scaler, rng = Texture2f(image()), GradScaler(), dr.rng(seed=1)

    def step() -> None:
        fetch()
        descend(net, opt, tex, rng, scaler)

    return step


def trainer(half: bool) -> Callable[[], object]:
    """The training step."""
    net = encoded(half)
    opt = Adam(lr=1e-3)
    opt.update(net)
    return stepper(net, opt, lambda: net.update(opt))


def frozen_trainer() -> Callable[[], object]:
    """The training step as a frozen function. Gradients are not scaled, as the reference cannot
    freeze that."""
    net = encoded(True)
    opt = Adam(lr=1e-3)
    opt.update(net)
    tex, rng = Texture2f(image()), dr.rng(seed=1)

    @dr.freeze
    def step(net, opt: Adam, tex: Texture2f, rng) -> None:
        net.update(opt)
        descend(net, opt, tex, rng)

    return lambda: step(net, opt, tex, rng)


def hash_trainer() -> Callable[[], object]:
    """The same with a hash grid in place of the encoding; its parameters are in single precision,
    as the reference has no atomic additions in half precision on the CPU."""
    rng = dr.rng(seed=0)
    enc = nn.HashGridEncoding(
        Float32, 2, n_levels=8, n_features_per_level=2, per_level_scale=1.5, rng=rng
    )
    net = network([nn.HashEncodingLayer(enc)], True, rng, "mlp")
    opt = Adam(lr=1e-3)
    opt.update(net)
    opt["enc.params"] = Float32(enc.params)

    def fetch() -> None:
        net["mlp.weights"] = opt["mlp.weights"]
        enc.params[:] = opt["enc.params"]

    return stepper(net, opt, fetch)


def timed(step: Callable[[], object], count: int) -> float:
    """Seconds of a step, of several one after the other: Python runs ahead of the kernels."""
    start = time.perf_counter()
    for _ in range(count):
        step()
    dr.sync_thread()
    return (time.perf_counter() - start) / count


def best(step: Callable[[], object], seconds: float = 2, count: int = 6) -> float:
    """Milliseconds of a step in the quickest run; the first ones compile and are not counted."""
    for _ in range(2):
        timed(step, 2)
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        times.append(timed(step, count))
    return min(times) * 1e3


def python_part(step: Callable[[], object]) -> float:
    """Milliseconds until Python has handed a step over, with nothing else under way."""
    timed(step, 8)
    times = []
    for _ in range(40):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
        dr.sync_thread()
    return min(times) * 1e3


def forward(half: bool) -> float:
    net = encoded(half)
    p = Array2f(dr.meshgrid(dr.linspace(Float32, 0, 1, RES), dr.linspace(Float32, 0, 1, RES)))
    dr.make_opaque(p)

    def run() -> object:
        img = Array3f(net(nn.CoopVec(p)))
        dr.eval(img)
        return img

    return best(run)


def exported(half: bool) -> float:
    """The network alone as a file for Numba."""
    import runpy
    import tempfile

    net = encoded(half)
    t = dr.linspace(Float32, 0, 1, RES)
    p = Array2f(dr.meshgrid(t, t))

    def field(p):
        return Array3f(net(nn.CoopVec(p)))

    with tempfile.TemporaryDirectory() as folder:
        function = runpy.run_path(str(dr.export(field, p, path=f"{folder}/f.py")))["field"]
        points = p.numpy()
        return best(lambda: function(points))


def first_step() -> float:
    step = trainer(True)
    step()
    dr.sync_thread()
    return (time.perf_counter() - _start) * 1e3


def peak_memory() -> float:
    step = trainer(True)
    for _ in range(40):
        step()
    dr.sync_thread()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def fma_peak() -> float:
    """Billions of floating-point operations a second in fused multiply-adds of registers: what a
    kernel with more of them takes longer than one with fewer.
    """
    chains, lanes = 12, 1 << 21
    x = dr.opaque(Float32, 0.5, lanes)

    def kernel(length: int) -> float:
        def run() -> object:
            values = [x + k for k in range(chains)]
            for _ in range(length):
                values = [dr.fma(v, x, x) for v in values]
            total = values[0]
            for v in values[1:]:
                total = total + v
            dr.eval(total)
            return total

        return best(run, seconds=0.4)

    return 2 * chains * 40 * lanes / (kernel(60) - kernel(20)) / 1e6


def products(width: int, depth: int) -> float:
    """Billions of floating-point operations a second in matrix products: layers without
    activations, forward and in reverse with the gradients of all weights, in single precision.
    """
    layers = [nn.Linear(width, width, bias=False) for _ in range(depth)]
    net = nn.pack(nn.Sequential(*layers).alloc(TensorXf, width), layout="training")
    dr.enable_grad(net["weights"])
    x = dr.linspace(Float32, -1, 1, POINTS)
    y = dr.linspace(Float32, 1, 0.5, POINTS)
    dr.make_opaque(x, y)

    def run() -> object:
        v = net(nn.CoopVec([x, y] * (width // 2)))
        dr.backward(dr.sum(sum(v)))
        gradient = dr.grad(net["weights"])
        dr.clear_grad(net["weights"])
        dr.eval(gradient)
        return gradient

    # Forward, for the gradients of weights, and but for the first layer for those of its input.
    return 2 * POINTS * width * width * (3 * depth - 1) / best(run) / 1e6


WORKLOADS: dict[str, Callable[[], float]] = {
    "step_half": lambda: best(trainer(True)),
    "step_single": lambda: best(trainer(False)),
    "step_python": lambda: python_part(trainer(True)),
    "step_frozen": lambda: python_part(frozen_trainer()),
    "forward_half": lambda: forward(True),
    "forward_single": lambda: forward(False),
    "export_half": lambda: exported(True),
    "export_single": lambda: exported(False),
    "hash_step": lambda: best(hash_trainer()),
    "fma_peak": fma_peak,
    "width_16": lambda: products(16, 3),
    "width_32": lambda: products(32, 3),
    "width_64": lambda: products(64, 3),
    "width_128": lambda: products(128, 3),
    "depth_8": lambda: products(64, 8),
    "first_step": first_step,
    "first_step_cached": first_step,
    "peak_memory": peak_memory,
}

if __name__ == "__main__":
    name, threads = sys.argv[1:3]
    dr.set_thread_count(int(threads))
    print(WORKLOADS[name]())
