"""Derivatives of recorded loops in any order with what else a program does to their results:
evaluation, also by another thread, previews of kernels, further derivatives, and forgetting."""

import gc
import random
import threading

import numpy as np
import pytest

import drjit as dr
from drjit import ADFlag, ADMode, JitFlag
from drjit.llvm.ad import Array2f64, Float64, UInt

X = np.array([0.3, 0.7, 1.1, 0.5, 0.9])
ROUNDS = UInt(1, 2, 3, 4, 1)


def loop(start, body):
    """The variables of a loop behind its counter."""
    state = (UInt(0), *start)
    result = dr.while_loop(state, lambda i, *_: i < ROUNDS, lambda i, *v: (i + 1, *body(i, *v)))
    return list(result[1:])


def plain(x):
    return loop((Float64(x), Float64(1)), lambda i, y, z: (dr.sin(y) * z + x, z * 1.1 + y * y))


def swapping(x):
    return loop((Float64(x), x * x), lambda i, y, z: (z * 1.0, y * x))


def nested(x):
    def body(i, y):
        state = UInt(0), Float64(y)
        step = lambda j, w: (j + 1, w * dr.sin(w) + x)  # noqa: E731
        return (dr.while_loop(state, lambda j, _: j < 2 + i % 2, step)[1] * 0.5,)

    return loop((Float64(x),), body)


def gathering(x):
    table, lane = x * x, dr.arange(UInt, 5)

    def body(i, y):
        one = dr.gather(Float64, x, UInt(1))
        return (dr.sin(y) * dr.gather(Float64, table, (i + lane) % 5) + one,)

    return loop((Float64(x),), body)


def counting(x):
    """With a side effect, which happens once."""
    table = dr.zeros(UInt, 1)

    def body(i, y):
        dr.scatter_add(table, UInt(1), UInt(0))
        return (dr.sin(y) * x + y,)

    return [*loop((Float64(x),), body), Float64(table) * x]


def shared(x):
    call = dr.func(lambda x: loop((Float64(x),), lambda i, y: (dr.sin(y) * x + y,))[0])
    return [call(x), call(x * 0.5) * call(call(x))]


def vectors(x):
    def body(i, v):
        return (Array2f64(dr.sin(v.y) * x, v.x * v.y + x),)

    (v,) = loop((Array2f64(x, 1),), body)
    return [v.x, v.y]


FUNCTIONS = [plain, swapping, nested, gathering, counting, shared, vectors]


def weighted(results):
    return sum(dr.sum(r * Float64(np.cos(np.arange(5) + k))) for k, r in enumerate(results))


def propagate(mode, start, flags=ADFlag.ClearInterior):
    start.grad = 1
    dr.enqueue(mode, start)
    dr.traverse(mode, flags)


def expected(f):
    """The results, and the gradient of their weighted sum, step by step."""
    with (
        dr.scoped_set_flag(JitFlag.SymbolicLoops, False),
        dr.scoped_set_flag(JitFlag.SymbolicCalls, False),
    ):
        x = Float64(X)
        dr.enable_grad(x)
        results = f(x)
        dr.backward(weighted(results))
        return [dr.detach(r).numpy() for r in results], x.grad.numpy()


class Program:
    """A function of loops that has been called, and the gradients that have been asked for."""

    def __init__(self, f, draw):
        self.x, self.draw = Float64(X), draw
        dr.enable_grad(self.x)
        self.results = f(self.x)
        self.total = weighted(self.results)
        self.found, self.threads, self.tangents = [], [], []

    def evaluate_a_result(self):
        dr.eval(self.draw.choice(self.results))

    def preview(self):
        dr.kernel_source(*self.results)

    def reverse(self, flags=ADFlag.ClearInterior):
        self.x.grad = 0
        propagate(ADMode.Backward, self.total, flags)
        self.found.append(dr.detach(self.x.grad))
        self.x.grad = 0

    reverse_once_more = reverse

    def keep_the_graph(self):
        self.reverse(ADFlag.ClearInterior | ADFlag.KeepGraph)

    def forward(self):
        self.total.grad = 0
        propagate(ADMode.Forward, self.x)
        self.tangents.append(dr.detach(self.total.grad))
        self.x.grad, self.total.grad = 0, 0

    def evaluate_a_gradient(self):
        dr.eval(self.found[-1:])

    def forget_a_gradient(self):
        self.found[:1] = []
        gc.collect()

    def in_another_thread(self):
        arrays = [dr.detach(r) for r in self.results]
        self.threads.append(threading.Thread(target=lambda: dr.eval(*arrays)))
        self.threads[-1].start()
        self.reverse()


ACTIONS = [name for name in vars(Program) if not name.startswith("_")]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_derivatives_in_any_order_with_other_uses(f, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    values, gradient = expected(f)
    draw = random.Random(f.__name__)
    for _ in range(8):
        made = Program(f, draw)
        actions = draw.choices(ACTIONS, k=draw.randint(2, 6))
        for name in actions:
            getattr(made, name)()
        for thread in made.threads:
            thread.join()
        draw.shuffle(made.found)
        text = str(actions)
        for g in made.found:
            np.testing.assert_allclose(g.numpy(), gradient, 1e-9, 1e-9, err_msg=text)
        for t in made.tangents:
            np.testing.assert_allclose(t.numpy(), [sum(gradient)], 1e-9, 1e-9, err_msg=text)
        for r, value in zip(made.results, values, strict=True):
            np.testing.assert_allclose(dr.detach(r).numpy(), value, 1e-9, err_msg=text)
