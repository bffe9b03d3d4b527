"""Memory is free when the program drops it: nothing that programs of any kind leave behind is part
of a reference cycle."""

import gc
import io

import numpy as np
import pytest
from helpers import settle, tracked

import drjit as dr
from drjit import nn, opt
from drjit.jit import collector
from drjit.llvm.ad import (
    PCG32,
    Array2f,
    Array3f,
    Float,
    Float16,
    Matrix3f,
    TensorXf,
    TensorXf16,
    Texture2f,
    UInt,
)

# With both ways to run kernels, so that nothing is compiled while objects are counted.
pytestmark = pytest.mark.usefixtures("tier")
MODES = ("symbolic", "evaluated")


def derivatives():
    x = tracked(1, 2, 3)
    y = dr.sin(x) * x
    dr.backward(y)
    z = dr.norm(Array3f(x) + Matrix3f(2) @ Array3f(x))
    dr.forward(x)
    with dr.isolate_grad():
        dr.backward(x * x)
    return z


def second_derivatives():
    x = tracked(1, 2, 3)
    flags = dr.ADFlag.Default | dr.ADFlag.KeepGraph
    dr.backward(x * x * x, flags)
    dr.backward(dr.sum(x.grad))
    dr.clear_grad(x)


class Square(dr.CustomOp):
    def eval(self, x):
        self.x = x
        return x * x

    def forward(self):
        self.set_grad_out(2 * self.x * self.grad_in("x"))

    def backward(self):
        self.set_grad_in("x", 2 * self.x * self.grad_out())


def custom_operations():
    x = tracked(1, 2, 3)
    dr.backward(dr.custom(Square, x))
    return dr.custom(Square, x)


def reductions():
    x = TensorXf(np.ones((4, 5), np.float32))
    dr.enable_grad(x)
    dr.backward(dr.sum(x @ dr.ones(TensorXf, (5, 3))))
    found = dr.sum(x, axis=1), dr.max(x, axis=0), dr.mean(x), dr.cumsum(x.array)
    return found, dr.resample(TensorXf(np.ones((8, 8), np.float32)), (4, 4))


def scatters():
    x, t = tracked(1, 2, 3), dr.zeros(Float, 4)
    dr.scatter(t, x, UInt(0, 1, 2))
    dr.scatter_add(t, x, UInt(0, 1, 2))
    dr.backward(dr.gather(Float, t, UInt(0, 1)))
    return t


def loops():
    x = tracked(1, 2, 3)
    for mode in MODES:
        for limit in (None, 3):
            for traverse in (dr.backward, lambda y: dr.forward(x), len):
                _, y = dr.while_loop(
                    (UInt(0), x),
                    lambda k, y: k < 3,
                    lambda k, y: (k + 1, y * x),
                    mode=mode,
                    max_iterations=limit,
                )
                traverse(y)


def branches():
    x = tracked(1, 2, 3)
    for mode in MODES:
        for traverse in (dr.backward, lambda y: dr.forward(x), len):
            traverse(dr.if_stmt((x,), x > 1, lambda y: y * x, lambda y: y, mode=mode))


def calls():
    x, w = tracked(1, 2, 3), tracked(4)
    for mode in MODES:
        for traverse in (dr.backward, lambda y: dr.forward(x), len):
            y = dr.switch(UInt(0, 1, 0), [lambda y: y * w, lambda y: y], x, mode=mode)
            traverse(y)


def failures():
    x = tracked(1, 2, 3)
    for f in (
        lambda: dr.while_loop((UInt(0), x), lambda k, y: k < 3, lambda k, y: (k + 1, 1 / 0)),
        lambda: dr.if_stmt((x,), x > 1, lambda y: 1 / 0, lambda y: y),
        lambda: dr.switch(UInt(0, 1, 0), [lambda y: 1 / 0, lambda y: y], x),
    ):
        with pytest.raises((ZeroDivisionError, RuntimeError)):
            f()


def local_memory():
    x = tracked(1, 2, 3)

    def body(i, entries):
        entries[i] = x * Float(i)
        return i + 1, entries

    for traverse in (dr.backward, len):
        entries = dr.alloc_local(Float, 4, value=Float(0))
        _, entries = dr.while_loop((UInt(0), entries), lambda i, _: i < 4, body)
        traverse(entries[1] + entries[2])


def lists_in_loops():
    x = tracked(1, 2, 3)

    def body(k, found):
        found["a"][0] = found["a"][0] * x
        return k + 1, found

    return dr.while_loop((UInt(0), {"a": [Float(1)]}), lambda k, _: k < 3, body)


def printing():
    file = io.StringIO()

    def body(i):
        dr.print("{i}", i=[i, Array2f(i)], mode="symbolic", file=file)
        return (i + 1,)

    dr.eval(dr.while_loop((UInt(0),), lambda i: i < 2, body))
    dr.sync_thread()
    return repr(Array3f(1, 2, 3))


def debug_mode():
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        x = tracked(1, 2, 3)
        dr.backward(x * x + dr.arange(Float, 3))
        return x.grad


def textures():
    data = TensorXf(np.ones((8, 8, 3), np.float32))
    dr.enable_grad(data)
    texture, at = Texture2f(data), Array2f(tracked(0.1, 0.2), 0.5)
    dr.backward(texture.eval(at)[0] + texture.eval_cubic(at)[1])
    texture.eval_cubic_hessian(at)
    texture.eval_fetch(at)
    texture.set_tensor(data)
    return texture.eval(at)


def random_numbers():
    return PCG32().next_float32(), dr.rng(seed=1).normal(TensorXf, (3, 4))


def optimizers():
    for kind in (opt.SGD, opt.Adam, opt.AdamW, opt.RMSProp, opt.Muon):
        optimizer = kind(lr=0.1)
        optimizer["x"] = TensorXf(np.ones((4, 4), np.float32))
        for _ in range(2):
            dr.backward(dr.sum(dr.square(optimizer["x"])))
            optimizer.step()


def network():
    layers = [
        nn.Cast(Float16),
        nn.TriEncode(8, 0.2),
        nn.Linear(-1, 16),
        nn.GELU(),
        nn.Linear(16, 1),
    ]
    return nn.pack(nn.Sequential(*layers).alloc(TensorXf16, 2), layout="training")


def train(points, net, optimizer):
    net.update(optimizer)
    (y,) = net(nn.CoopVec(points))
    loss = dr.mean(dr.square(Float(y) - 1))
    dr.backward(loss)
    optimizer.step()
    return loss


def training():
    net, points = network(), Array2f(Float(1, 2, 3), 1)
    optimizer = opt.Adam(lr=0.1, params=net)
    for step in (train, dr.freeze(train)):
        for _ in range(3):
            step(points, net, optimizer)
    return net(nn.CoopVec(points))


class Counter:
    def __init__(self):
        self.total = Float(0)

    @dr.freeze
    def add(self, x):
        self.total = self.total + dr.sum(x)
        return [self.total, {"x": x * 2}]


def frozen_functions():
    counter = Counter()
    for n in (2, 3, 4, 4):
        counter.add(dr.zeros(Float, n))


PROGRAMS = (
    derivatives, second_derivatives, custom_operations, reductions, scatters, loops, branches,
    calls, failures, local_memory, lists_in_loops, printing, debug_mode, textures, random_numbers,
    optimizers, training, frozen_functions,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_nothing_waits_for_the_collector(program):
    for _ in range(2):  # what is made once for all times, and compiled
        program()
        dr.sync_thread()
    gc.collect()
    gc.disable()
    try:
        program()
        dr.sync_thread()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = [o for o in gc.garbage if (type(o).__module__ or "").startswith("drjit")]
        functions = [
            o for o in gc.garbage if (getattr(o, "__module__", "") or "").startswith("drjit")
        ]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not found
    assert not functions


@pytest.fixture
def threshold():
    settle()  # a thread that compiles pauses the collector
    collector.resume()  # what an earlier test has deferred
    before = gc.get_threshold()
    gc.set_threshold(200, 5, 7)
    yield
    gc.set_threshold(*before)


def recorded_loop():
    """A value of a loop with two hundred operations, which waits for its evaluation. That takes
    more memory than what earlier tests may give back in the meantime."""

    def body(i, x):
        for k in range(200):
            x = x * 0.5 + i * k
        return i + 1, x

    x = tracked(dr.linspace(Float, 0, 1, 100_000))
    return dr.while_loop((UInt(0), x), lambda i, x: i < 3, body)[1]


def test_the_collector_leaves_a_program_alone_until_it_is_evaluated(threshold):
    collections = []
    note = lambda phase, info: collections.append(info)  # noqa: E731
    dr.eval(recorded_loop())  # compiles
    settle()
    gc.collect()
    gc.callbacks.append(note)
    try:
        x = recorded_loop()
    finally:
        gc.callbacks.remove(note)
    assert not collections
    assert gc.get_threshold()[0] > 200
    dr.flush_malloc_cache()
    dr.eval(x)  # takes memory from the system
    assert gc.get_threshold() == (200, 5, 7)


def test_arrays_in_cycles_are_freed_before_memory_grows(threshold):
    class Scene:
        def __init__(self):
            self.owner = self
            self.parts = [[] for _ in range(50)]
            start = UInt(0), dr.zeros(Float, 1 << 20)
            self.values = dr.while_loop(start, lambda i, x: i < 3, lambda i, x: (i + 1, x + 1))[1]
            dr.eval(self.values)

    Scene()
    dr.flush_malloc_cache()
    dr.detail.malloc_clear_statistics()
    for _ in range(60):
        Scene()
    assert dr.detail.malloc_watermark() < 30 << 22


@pytest.mark.parametrize("number", [0, 300, 20_000])
def test_a_threshold_that_a_program_sets_stays(threshold, number):
    dr.eval(recorded_loop())
    settle()  # a thread that compiles defers the collector as well
    x = recorded_loop()
    gc.set_threshold(number, 5, 7)
    dr.flush_malloc_cache()
    dr.eval(x)
    assert gc.get_threshold() == (number, 5, 7)
    dr.eval(recorded_loop())
    dr.flush_malloc_cache()
    dr.eval(Float(1) + 1)
    assert gc.get_threshold() == (number, 5, 7)
