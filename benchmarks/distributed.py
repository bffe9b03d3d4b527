"""Measures how far the exchange of gradients takes place during the reverse pass.

    torchrun --nproc-per-node 2 benchmarks/distributed.py [--network MBIT]
    mpiexec -n 2 python benchmarks/distributed.py

A network of tensors is trained by an optimizer that sends gradients during the reverse pass and by
one that sends them in its step, in turn. `--network` makes every exchange last as long as it would
on a network of this many megabits a second, without using the processor.
"""

import argparse
import time

import numpy as np

import drjit as dr
from drjit import distributed
from drjit.auto.ad import TensorXf
from drjit.distributed import optimizer


def slow_down(bits_per_second: float) -> None:
    """Makes every exchange of gradients last as long as on a network."""
    average, n = optimizer._average, distributed.world_size()

    def slow(engine, gradients, data):
        start = time.perf_counter()
        found = average(engine, gradients, data)
        sent = 2 * (n - 1) / n * sum(8 * 4 * len(g) for g in gradients)
        time.sleep(max(0.0, start + sent / bits_per_second - time.perf_counter()))
        return found

    optimizer._average = slow


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--samples", type=int, default=1024, help="of all processes")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--network", type=float, help="megabits a second")
    arguments = parser.parse_args()
    width, layers = arguments.width, arguments.layers

    distributed.init()
    n, first = distributed.world_size(), distributed.rank() == 0
    if arguments.network:
        slow_down(1e6 * arguments.network)
    rng = np.random.default_rng(distributed.rank())
    weights = [TensorXf(rng.normal(size=(width, width)) / width**0.5) for _ in range(layers)]
    x = TensorXf(rng.normal(size=(width, arguments.samples // n)))

    def optimizer(overlap: bool) -> distributed.DataParallel:
        sgd = dr.opt.SGD(1e-3, {f"w{k}": w for k, w in enumerate(weights)})
        return distributed.DataParallel(sgd, overlap=overlap)

    optimizers = {True: optimizer(True), False: optimizer(False)}
    times: dict[bool, list] = {True: [], False: []}
    for k in range(2 * (arguments.steps + 2)):
        overlap = k % 2 == 0
        opt = optimizers[overlap]
        distributed.barrier()
        start = time.perf_counter()
        h = x
        for key in opt:
            h = dr.tanh(opt[key] @ h)
        dr.backward(dr.mean(dr.square(h)))
        dr.sync_thread()
        middle = time.perf_counter()
        opt.step()
        dr.sync_thread()
        if k > 3:  # the first ones compile
            end = time.perf_counter()
            times[overlap].append((end - start, middle - start, end - middle))
    if first:
        bytes_ = 4 * width * width * layers
        print(f"{n} processes, {layers} matrices of {width} x {width}: {bytes_ / 1e6:.1f} MB")
        for overlap, rows in times.items():
            whole, reverse, step = 1e3 * np.median(rows, 0)
            print(
                f"{'during' if overlap else 'after'} the reverse pass: {whole:.0f} ms a step, "
                f"{reverse:.0f} ms forward and reverse, {step:.0f} ms exchange and step"
            )
    distributed.barrier()


if __name__ == "__main__":
    main()
