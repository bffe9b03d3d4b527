"""Workloads with loops and calls in this process: `python control_flow.py NAME THREADS` prints its
figure. As in workloads.py, they use only what both implementations have.
"""

import sys
from collections.abc import Callable

import scenes
from workloads import best, evaluation, random_program

import drjit as dr
from drjit import llvm
from drjit.llvm import Bool, Float, UInt32, ad


def mandelbrot() -> float:
    n = 1024
    c = scenes.plane(llvm, n)
    dr.make_opaque(c)
    return best(lambda: scenes.mandelbrot(llvm, c, n * n, 200))


def sphere_tracer() -> float:
    n = 1024
    d = scenes.rays(llvm, n)
    dr.make_opaque(d)
    return best(lambda: scenes.sphere_tracing(llvm, d, n * n))


def newton() -> float:
    """x**5 + a x = 1 for a million values of a."""
    a = dr.linspace(Float, 0.1, 5, 1 << 20)
    dr.make_opaque(a)

    def run() -> Float:
        def step(x: Float, change: Float, i: UInt32) -> tuple[Float, Float, UInt32]:
            square = x * x
            quartic = square * square
            change = (quartic * x + a * x - 1) / (5 * quartic + a)
            return x - change, change, i + 1

        def going(x: Float, change: Float, i: UInt32) -> Bool:
            return (dr.abs(change) > 1e-6) & (i < 50)

        state = (dr.full(Float, 1, 1 << 20), Float(1), UInt32(0))
        return dr.while_loop(state, going, step)[0]

    return best(run)


def switch() -> float:
    n = 1 << 22
    index = dr.arange(UInt32, n) * 2654435761 >> 28
    x = dr.linspace(Float, 0, 1, n)
    dr.make_opaque(index, x)

    def function(k: int) -> Callable[[Float], Float]:
        return lambda x: dr.fma(x, k + 1.5, k) * (x + 0.25 * k) - dr.sqrt(x + k)

    targets = [function(k) for k in range(16)]
    return best(lambda: dr.switch(index, targets, x))


def summation(differentiate: bool) -> float:
    """The sum of sin(k x) over k, and its gradient by the one-pass scheme."""
    n = 1 << 20
    kind, count = (ad.Float, ad.UInt32) if differentiate else (Float, UInt32)
    source = dr.linspace(kind, 0, 1, n)
    dr.make_opaque(source)

    def run() -> object:
        x = kind(source)
        if differentiate:
            dr.enable_grad(x)

        def body(y: object, i: object, x: object) -> tuple:
            return y + dr.sin(x * kind(i)), i + 1, x

        state = (dr.zeros(kind, n), count(0), x)
        y = dr.while_loop(state, lambda y, i, x: i < 64, body, max_iterations=-1)[0]
        if not differentiate:
            return y
        dr.backward(y)
        return dr.grad(x)

    return best(run)


def histogram(size: int) -> float:
    """64 random numbers a lane, counted by their upper bits."""
    lane = dr.arange(UInt32, 1 << 20)
    dr.make_opaque(lane)

    def run() -> UInt32:
        def body(i: UInt32, x: UInt32, counts: dr.Local) -> tuple:
            x = x * 1664525 + 1013904223
            k = (x >> 16) & (size - 1)
            counts[k] = counts[k] + 1
            return i + 1, x, counts

        state = (UInt32(0), UInt32(lane), dr.alloc_local(UInt32, size, UInt32(0)))
        _, x, counts = dr.while_loop(state, lambda i, x, counts: i < 64, body)
        return counts[x & (size - 1)]

    return best(run)


def insertion_sort(size: int) -> float:
    """The median of random numbers of each lane."""
    lane = dr.arange(UInt32, 1 << 20)
    dr.make_opaque(lane)

    def run() -> UInt32:
        def insert(i: UInt32, x: UInt32, values: dr.Local) -> tuple:
            x = x * 1664525 + 1013904223

            def shift(j: UInt32, before: UInt32, values: dr.Local) -> tuple:
                values.write(before, j)
                return j - 1, values.read(j - 2, j > 1), values

            def larger(j: UInt32, before: UInt32, values: dr.Local) -> Bool:
                return (j > 0) & (before > x)

            state = (UInt32(i), values.read(i - 1, i > 0), values)
            j, _, values = dr.while_loop(state, larger, shift)
            values.write(x, j)
            return i + 1, x, values

        state = (UInt32(0), UInt32(lane), dr.alloc_local(UInt32, size, UInt32(0)))
        return dr.while_loop(state, lambda i, x, values: i < size, insert)[2][size // 2]

    return best(run)


def tree_walk(size: int) -> float:
    """Depth first, with a stack, through the nodes of a binary tree that a lane meets."""
    lane = dr.arange(UInt32, 1 << 20)
    dr.make_opaque(lane)

    def run() -> UInt32:
        def step(top: UInt32, count: UInt32, stack: dr.Local) -> tuple:
            node = stack[top - 1]
            enters = ((node * 2654435761 + lane) >> 30 != 0) & (node < 256)
            stack.write(2 * node, top - 1, enters)
            stack.write(2 * node + 1, top, enters)
            return dr.select(enters, top + 1, top - 1), count + 1, stack

        stack = dr.alloc_local(UInt32, size, UInt32(1))
        state = (dr.full(UInt32, 1, 1 << 20), UInt32(0), stack)
        return dr.while_loop(state, lambda top, count, stack: top > 0, step)[1]

    return best(run)


def compile_loop() -> float:
    """Milliseconds to evaluate a loop for the first time, tracing left out. Its body is one of the
    programs of the row of 300 operations without a loop."""
    x = dr.linspace(Float, 0, 1, 1 << 14)
    dr.make_opaque(x)

    def loop(n_ops: int, seed: int) -> Float:
        def body(i: UInt32, y: Float) -> tuple[UInt32, Float]:
            return i + 1, random_program(y, n_ops, seed)

        return dr.while_loop((UInt32(0), Float(x)), lambda i, y: i < 2, body)[1]

    evaluation(lambda: loop(30, 0))  # what a process does once
    times = []
    for seed in range(1, 6):
        y = loop(300, seed)
        times.append(evaluation(lambda y=y: y))
    return min(times) * 1e3


WORKLOADS: dict[str, Callable[[], float]] = {
    "mandelbrot": mandelbrot,
    "sphere_tracer": sphere_tracer,
    "newton": newton,
    "switch": switch,
    "summation": lambda: summation(False),
    "summation_gradient": lambda: summation(True),
    **{f"histogram_{n}": lambda n=n: histogram(n) for n in (4, 16, 256, 1024)},
    "insertion_sort": lambda: insertion_sort(16),
    "tree_walk_16": lambda: tree_walk(16),
    "tree_walk_256": lambda: tree_walk(256),
    "compile_loop": compile_loop,
}

if __name__ == "__main__":
    name, threads = sys.argv[1:3]
    dr.set_thread_count(int(threads))
    print(WORKLOADS[name]())
