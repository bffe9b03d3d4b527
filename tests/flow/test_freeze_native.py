"""Replays of small launches by native code: they give what the function itself gives, and leave
nothing behind."""

import gc
import math
import os

import numpy as np
import pytest
from helpers import growth, settle

import drjit as dr
from drjit.jit import substitutes
from drjit.jit.cpu import kernel, memory, plans, sequence, variants, warm_up
from drjit.llvm.ad import Float, Float64, UInt

pytestmark = pytest.mark.skipif(not warm_up.places(plans), reason="other layout of objects")


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Native code replays from the first call on, and no records are collected meanwhile."""
    gc.collect()
    gc.disable()
    monkeypatch.setattr(variants, "pinned", "compiled")
    monkeypatch.setattr(sequence, "_OFTEN", 1)
    monkeypatch.setattr(substitutes, "plans", plans.KnownPrograms(warm_up.places(plans)))
    yield
    gc.enable()


def replays():
    """The number of launches by native code."""
    return sum(r.launches for k in kernel.kernels() for r in k.records)


def several(x, y, n):
    """Several kernels, with results of several types and sizes, one of which only later ones
    read."""
    z = dr.sin(x) * y
    dr.eval(z)
    total = dr.sum(z)
    dr.eval(total)
    return z + total, x > y, n * 3 + 1, Float64(total), total


def data(size, start=0.0):
    x, y = dr.linspace(Float, start, 2, size), dr.linspace(Float, 1, start, size)
    n = dr.arange(UInt, size) + int(start)
    dr.make_opaque(x, y, n)
    return x, y, n


@pytest.mark.parametrize("size", [1, 15, 17, 64, 1000])
def test_results(size):
    f = dr.freeze(several)
    before = replays()
    for k in range(8):
        inputs = data(size, k / 8)
        for found, expected in zip(f(*inputs), several(*inputs), strict=True):
            assert type(found) is type(expected)
            np.testing.assert_array_equal(found.numpy(), expected.numpy())
    assert f.n_recordings == 1 and replays() >= before + 12


def test_results_that_are_kept():
    """No memory can be used again: it has to be found in another way."""
    f, inputs = dr.freeze(several), data(33)
    kept = [f(*inputs) for _ in range(40)]
    expected = [v.numpy() for v in several(*inputs)]
    for row in kept:
        for found, values in zip(row, expected, strict=True):
            np.testing.assert_array_equal(found.numpy(), values)
    del kept
    before = replays()
    row = f(*inputs)
    assert replays() > before
    np.testing.assert_array_equal(row[0].numpy(), expected[0])


def test_targets_and_state():
    @dr.freeze
    def count(state, x):
        dr.scatter_add(state["sum"], x, dr.arange(UInt, 8))
        dr.eval(state["sum"])
        state["steps"] += 1

    x = dr.arange(Float, 8)
    dr.make_opaque(x)
    state = {"sum": dr.zeros(Float, 8), "steps": dr.opaque(UInt, 0)}
    for _ in range(20):
        count(state, x)
    assert state["steps"] == 20
    np.testing.assert_array_equal(state["sum"].numpy(), np.arange(8) * 20)
    assert count.n_recordings <= 2


def test_an_optimizer():
    from drjit.opt import Adam

    def step(opt, y):
        dr.backward(dr.sum(dr.square(opt["x"] - y)))
        opt.step()

    def trained(step):
        y = dr.opaque(Float, 0.5, 17)
        opt = Adam(lr=0.1, params={"x": dr.opaque(Float, 1, 17)})
        for _ in range(12):
            step(opt, y)
            dr.sync_thread()  # the first step waits for its kernels
        return opt["x"].numpy()

    before, frozen = replays(), dr.freeze(step)
    found = trained(frozen)
    assert replays() > before  # as long as there is the function, which has the records
    np.testing.assert_array_equal(found, trained(step))


def test_memory_and_objects_do_not_grow():
    f, inputs = dr.freeze(several), data(64)

    def run(n=700):
        for _ in range(n):
            f(*inputs)

    run(20)
    settle()
    before = memory.statistics()
    assert growth(run) < 20
    assert memory.statistics() == before


def test_launches_are_counted_once():
    def launches():
        return sum(k.launches for k in kernel.kernels())

    inputs, counts = data(9), []
    for times in (6, 16):
        f = dr.freeze(several)
        before = launches()
        for _ in range(times):
            f(*inputs)
        counts.append(launches() - before)
        del f
        gc.collect()
        assert launches() - before == counts[-1]
    assert (counts[1] - counts[0]) % 10 == 0 and counts[1] > counts[0]


def test_another_number_of_threads():
    f, inputs, count = dr.freeze(several), data(64), dr.thread_count()
    expected = several(*inputs)[0].numpy()
    try:
        for n in (1, 2, count):
            dr.set_thread_count(n)
            for _ in range(6):
                before = replays()
                np.testing.assert_array_equal(f(*inputs)[0].numpy(), expected)
            assert replays() > before
    finally:
        dr.set_thread_count(count)


def test_something_is_queued():
    f, inputs = dr.freeze(several), data(64)
    expected = several(*inputs)[0].numpy()
    for _ in range(6):
        busy = dr.sin(dr.arange(Float, 1 << 20))
        dr.eval(busy)
        np.testing.assert_array_equal(f(*inputs)[0].numpy(), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child():
    f, inputs = dr.freeze(several), data(64)
    expected = [f(*inputs) for _ in range(6)][-1][0].numpy()
    child = os.fork()
    if not child:
        good = 0
        try:
            good = all((f(*inputs)[0].numpy() == expected).all() for _ in range(6))
        finally:
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(f(*inputs)[0].numpy(), expected)


@pytest.mark.parametrize("replayed", [True, False])
def test_a_kernel_gets_a_better_form(monkeypatch, replayed):
    """What is recorded has the addresses of the form that there was before."""
    if not replayed:
        monkeypatch.setattr(sequence, "_OFTEN", 1000)
    before = {k: k.launches for k in kernel.kernels()}
    f, inputs = dr.freeze(several), data(100)
    expected = [v.numpy() for v in several(*inputs)]
    for _ in range(4):
        f(*inputs)
    dr.sync_thread()
    options = variants.compiler_options()
    for k in [k for k in kernel.kernels() if k.address and k.launches > before.get(k, 0)]:
        k.adopt(k.compiled(variants.optimized(k, options), options))
    for _ in range(4):
        for found, values in zip(f(*inputs), expected, strict=True):
            np.testing.assert_array_equal(found.numpy(), values)


def test_the_code_is_loaded_for_what_only_replays(monkeypatch):
    """Nodes are not evaluated then."""
    known, asked = substitutes.plans, []

    def warm_up_(nodes):
        asked.append(nodes)
        monkeypatch.setattr(substitutes, "plans", known)
        return math.inf

    monkeypatch.setattr(substitutes, "warm_up", warm_up_)
    for name in ("plans", "perform", "repeat"):
        monkeypatch.setattr(substitutes, name, None)
    inputs = data(21)
    dr.freeze(several)(*inputs)
    settle(collect=False)  # the kernels of both are there
    f = dr.freeze(several)
    for _ in range(4):
        f(*inputs)
    monkeypatch.setattr(substitutes, "milestone", 0)
    before = replays()
    for _ in range(8):
        f(*inputs)
    assert len(asked) == 1 and replays() > before
