"""Sixty-four threads: results, the memory of private copies, and wake-ups. There are more threads
than processors nearly everywhere, so that any of them may stand still anywhere.
"""

import threading
import time

import numpy as np
import pytest
from helpers import uniform

import drjit as dr
from drjit import nn
from drjit.jit.cpu import kernel, runtime, variants
from drjit.jit.native import division
from drjit.llvm.ad import Float, Float16, Float64, Int, TensorXf, TensorXf16, TensorXf64, UInt

THREADS = 64
LANES = 40_000
BINS = 1000


@pytest.fixture(autouse=True)
def threads(monkeypatch):
    monkeypatch.setattr(variants, "pinned", "compiled")
    before = dr.thread_count()
    dr.set_thread_count(THREADS)
    yield
    dr.sync_thread()
    dr.set_thread_count(before)


@pytest.fixture
def copied(monkeypatch):
    """The bytes that private copies took, one number per target."""
    found, accumulators = [], kernel._accumulators

    def watched(effect, copies):
        room = accumulators(effect, copies)
        own = effect.dtype is effect.dtype.accumulator  # the target is the first copy
        found.append((copies - own) * kernel._copy_bytes(effect))
        assert room.nbytes >= found[-1]
        return room

    monkeypatch.setattr(kernel, "_accumulators", watched)
    return found


def histogram(cls, mode):
    index, values = dr.arange(UInt, LANES) * 7919 % BINS, cls(dr.arange(UInt, LANES) % 5)
    target = dr.ones(cls, BINS)
    dr.eval(index, values, target)
    dr.scatter_add(target, values, index, mode=mode)
    return target


def weight_gradients(tensor):
    """The gradients of a layer's weights and bias for every lane's input and output, and what they
    should be."""
    cls = {TensorXf: Float, TensorXf16: Float16, TensorXf64: Float64}[tensor]
    x, y = (cls(uniform(LANES, seed)).numpy() for seed in (1, 2))
    A, b = nn.pack(tensor([[1, 2], [3, 4]]), tensor([5, 6]), layout="training")
    dr.enable_grad(A.buffer)
    r = nn.matvec(A, nn.CoopVec(cls(x), cls(x * 2)), b)
    dr.backward(dr.dot(r, nn.CoopVec(cls(y), cls(y * 2))))
    x, y = x.astype("d"), y.astype("d")
    expected = [x @ y * np.array([[1, 2], [2, 4]]), y.sum() * np.array([[1], [2]])]
    found = [tensor(nn.unpack(g)).numpy().astype("d") for g in (A.grad, b.grad)]
    return np.concatenate([*map(np.ravel, found)]), np.concatenate([*map(np.ravel, expected)])


@pytest.fixture(params=[division.COPIES_BYTES, 40_000, 1])
def limit(request, monkeypatch):
    """The bytes that copies may take; blocks are small enough for all threads to have some."""
    monkeypatch.setattr(division, "COPIES_BYTES", request.param)
    monkeypatch.setattr(division, "INLINE_WORK", 1000)
    monkeypatch.setattr(division, "BLOCK_WORK", 100)
    return request.param


@pytest.mark.parametrize("mode", [dr.ReduceMode.Auto, dr.ReduceMode.Expand])
@pytest.mark.parametrize("cls", [Float, Float16, Float64, Int])
def test_copies_of_histograms_have_a_limit(cls, mode, limit, copied):
    k = np.arange(LANES)
    expected = 1 + np.bincount(k * 7919 % BINS, k % 5, BINS)
    np.testing.assert_array_equal(histogram(cls, mode).numpy(), expected)
    one = (8 if cls is Float64 else 4) * BINS  # halves accumulate in single precision
    assert sum(copied) <= max(limit, one)
    assert (sum(copied) > 32 * one) == (limit > 32 * one)


@pytest.mark.parametrize("tensor", [TensorXf, TensorXf16, TensorXf64])
def test_copies_of_gradients_of_weights_have_a_limit(tensor, limit, copied):
    found, expected = weight_gradients(tensor)
    tolerance = {TensorXf16: 1e-2, TensorXf: 1e-4, TensorXf64: 1e-9}[tensor]
    np.testing.assert_allclose(found, expected, rtol=tolerance)
    one = (8 if tensor is TensorXf64 else 4) * 6
    assert sum(copied) <= max(limit, one)
    assert (sum(copied) > 32 * one) == (limit > 32 * one)


def test_sums_do_not_depend_on_threads_if_each_block_has_a_copy(monkeypatch):
    monkeypatch.setattr(division, "INLINE_WORK", 1000)
    monkeypatch.setattr(division, "BLOCK_WORK", 100)
    monkeypatch.setattr(division, "COPIES_BYTES", 12 * 5)  # bytes of the target, and copies

    def bits():
        index = dr.arange(UInt, LANES) % 3
        target = dr.zeros(Float, 3)
        dr.eval(index)
        dr.scatter_add(target, 1 / (1 + Float(dr.arange(UInt, LANES))), index)
        return target.numpy().tobytes()

    assert len({bits() for _ in range(20)}) == 1


def test_no_wake_up_is_lost():
    """Several Python threads, each of which waits for small jobs now and then; workers fall asleep
    in between."""
    results = {}

    def run(number):
        x = dr.full(Int, number, 3000 + number)
        for k in range(60):
            x = x + dr.opaque(Int, k)
            dr.eval(x)
            if k % 3 == 0:
                assert x[number] == number + k * (k + 1) // 2
        results[number] = x.numpy()

    running = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(6)]
    for t in running:
        t.start()
    for t in running:
        t.join(60)
    assert not any(t.is_alive() for t in running)
    for number, x in results.items():
        np.testing.assert_array_equal(x, np.full(3000 + number, number + 59 * 30))


def test_idle_threads_sleep():
    dr.eval(dr.arange(Float, 1_000_000) + dr.opaque(Float, 1))
    dr.sync_thread()
    control = runtime._control
    assert control is not None
    deadline = time.monotonic() + 30
    while control.parked < THREADS and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (control.parked, control.spinning) == (THREADS, 0)
