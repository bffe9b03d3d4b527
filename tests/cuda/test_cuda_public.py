"""What the public functions say of a GPU: memory, events, waiting, the version, the choice of the
backend. The device is the emulated one."""

import _thread
import os
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from cuda_namespace import registered

import drjit as dr
from drjit import llvm, nn
from drjit.jit import flags
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.driver import CudaError
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.cuda.kernel import CudaKernel
from drjit.jit.cuda.memory import OutOfMemory

CUDA = dr.JitBackend.CUDA


@pytest.fixture
def gpu():
    with registered(Cuda(EmulatedDriver())) as made:
        yield made


@pytest.fixture
def slow():
    """A device whose work waits until somebody asks for it."""
    with registered(Cuda(EmulatedDriver(delayed=True))) as made:
        yield made


def test_the_backend_is_there(gpu):
    assert dr.has_backend(CUDA) == 1
    assert dr.backend_v(dr.cuda.Float) is CUDA
    assert dr.detail.cuda_version() == (13, 0)
    assert dr.detail.cuda_compute_capability() == 90
    first = dr.detail.new_scope(CUDA)
    assert dr.detail.scope(CUDA) == first


def test_auto_prefers_the_gpu(gpu, monkeypatch):
    monkeypatch.setattr("drjit.array.table._auto_namespace", "")
    assert dr.auto.Float is dr.cuda.Float
    assert dr.auto.ad.Array3f is dr.cuda.ad.Array3f
    dr.set_backend("llvm")
    assert dr.auto.Float is llvm.Float
    dr.set_backend(CUDA)
    assert dr.auto.Float is dr.cuda.Float


def test_memory_statistics(gpu):
    dr.detail.malloc_clear_statistics()
    before = dr.detail.malloc_watermark(dr.JitBackend.LLVM)
    x = dr.opaque(dr.cuda.Float, 1, 100_000)
    assert dr.detail.malloc_watermark(CUDA) == 458_752
    assert dr.detail.malloc_watermark(dr.JitBackend.LLVM) == before
    shown = dr.whos(as_string=True)
    assert "CUDA f32  evaluated" in shown
    assert "CUDA     : 448 KiB in use, at most 448 KiB; 0 B to be used again." in shown
    del x
    assert "CUDA     : 0 B in use, at most 448 KiB; 448 KiB to be used again." in dr.whos(True)
    dr.flush_malloc_cache()
    assert "CUDA     : 0 B in use, at most 448 KiB; 0 B to be used again." in dr.whos(True)
    dr.detail.malloc_clear_statistics()
    assert dr.detail.malloc_watermark(CUDA) == 0


def test_the_history_has_kernels_and_primitives(gpu):
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        x = dr.arange(dr.cuda.UInt, 300)
        dr.eval(dr.prefix_sum(x * 3))
    entries = dr.kernel_history()
    kinds = [e["type"] for e in entries]
    assert kinds == [dr.KernelType.JIT, dr.KernelType.BlockPrefixReduce]
    for e in entries:
        assert e["backend"] is CUDA and re.fullmatch("[0-9a-f]{16}", e["hash"])
        assert e["size"] == 300 and e["execution_time"] > 0


def test_tools_name_the_backend_of_values(gpu):
    x = dr.cuda.Float([1, 2, 3])
    dr.set_label(x, "input")
    y = x * 2 + 1
    dr.set_label(y, "output")
    z = llvm.Float([1, 2]) + 1
    dr.set_label(z, "other")
    lines = dr.whos(as_string=True).splitlines()
    named = {words[-1]: words[1:3] for words in (line.split() for line in lines) if words}
    assert named["input"] == ["CUDA", "f32"] and named["output"] == ["CUDA", "f32"]
    assert named["other"] == ["LLVM", "f32"]
    assert "Type: CUDA f32|Size: 3" in dr.graphviz(as_string=True)
    assert "input = load(f32, p[1], i)  # [input]" in dr.kernel_source(y)


def test_memory_that_is_full(monkeypatch):
    with registered(Cuda(EmulatedDriver(limit=8 << 20))):
        x = dr.opaque(dr.cuda.Float, 1, 1_000_000)
        with pytest.raises(OutOfMemory, match=r"on the GPU: 4,194,304 bytes are in use.* are free"):
            dr.eval(dr.arange(dr.cuda.Float, 1_000_000) + x)
        del x
        y = dr.arange(dr.cuda.Float, 1_000_000) + 1
        assert y[999_999] == 1_000_000


def test_events(slow):
    assert dr.cuda.Event is dr.cuda.ad.Event and issubclass(
        dr.cuda.Event, type(llvm.Event()).__base__
    )
    start, end = dr.cuda.Event(), dr.cuda.Event()
    start.record()
    x = dr.opaque(dr.cuda.Float, 1, 1000) + 1
    dr.eval(x)
    end.record()
    assert not end.query()
    end.wait()
    assert start.query() and end.query() and start.elapsed_time(end) > 0
    assert isinstance(start.handle, int)
    with pytest.raises(RuntimeError, match="different backends"):
        start.elapsed_time(llvm.Event())


def test_waiting(slow):
    x = dr.gather(dr.cuda.Float, dr.cuda.Float([1, 2]), dr.opaque(dr.cuda.UInt, 9))
    dr.eval(x)
    assert slow.queue.completed < slow.queue.submitted
    dr.flush_thread()
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        dr.sync_thread()
    assert slow.queue.completed == slow.queue.submitted
    dr.sync_thread()
    y = dr.gather(dr.cuda.Float, dr.cuda.Float([1, 2]), dr.opaque(dr.cuda.UInt, 7))
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        y.numpy()
    dr.sync_thread()


def test_blocking_launches(slow):
    with dr.scoped_set_flag(dr.JitFlag.LaunchBlocking):
        x = dr.gather(dr.cuda.Float, dr.cuda.Float([1, 2]), dr.opaque(dr.cuda.UInt, 9))
        with pytest.raises(IndexError, match="index 9"):
            dr.eval(x)


def test_a_kernel_that_fails(slow, monkeypatch):
    x = dr.cuda.Float([1, 2, 3]) + 1
    launch = slow.driver.launch

    def broken(function, grid, block, shared, stream, parameters, name=""):
        bad = parameters[:8] + (16).to_bytes(8, "little") + parameters[16:]  # the first input
        launch(function, grid, block, shared, stream, bad, name)

    monkeypatch.setattr(slow.driver, "launch", broken)
    dr.eval(x)
    with pytest.raises(CudaError, match=r"(?s)CUDA_ERROR_LAUNCH_FAILED: .*0x10.*kernel k") as found:
        x.numpy()
    assert "One of these kernels failed" in found.value.__notes__[0]
    monkeypatch.undo()
    assert (dr.cuda.Float([1, 2, 3]) + 1).numpy().tolist() == [2, 3, 4]


@dr.syntax
def endless(x):
    while x >= 0:
        x = dr.select(x > 1000, 0, x + 1)
    return x


def test_loops_end_where_the_host_says_so(gpu):
    """What Ctrl-C does on a GPU: the host writes to the record while the kernel reads it."""

    def stop():
        records = []
        while not records:  # until it runs
            time.sleep(0.1)
            records = [r for *_, r in list(gpu.queue._entries) if r is not None]
        records[-1].words[5] = 1

    threading.Thread(target=stop).start()
    x = endless(dr.opaque(dr.cuda.Float, 0, 4))
    dr.eval(x)
    assert len(x.numpy()) == 4


def test_ctrl_c_ends_an_emulated_loop(gpu):
    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        dr.eval(endless(dr.opaque(dr.cuda.Float, 0, 4)))
    assert (dr.cuda.Float([1, 2]) + 1).numpy().tolist() == [2, 3]
    dr.sync_thread()


def test_threads_of_python(slow):
    found = {}

    def work(k):
        x = dr.arange(dr.cuda.Float, 1000) + k
        for _ in range(5):
            x = x * 2
            dr.eval(x)
        found[k] = x.numpy()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(4):
        np.testing.assert_array_equal(found[k], (np.arange(1000) + k) * 32)


def test_arrays_in_cycles_are_freed(gpu):
    import gc

    before = gpu.memory_statistics()["in_use"]
    x = dr.cuda.ad.Float([1, 2, 3])
    dr.enable_grad(x)
    y = dr.gather(dr.cuda.ad.Float, x, dr.cuda.ad.UInt(2, 1)) * x[0]
    dr.backward(dr.sum(y))
    assert dr.grad(x).numpy().tolist() == [0, 1, 1]
    del x, y
    gc.collect()
    assert gpu.memory_statistics()["in_use"] == before


def test_a_program_of_its_own():
    """The environment chooses the emulated device, for `drjit.auto` as well."""
    code = """
import drjit as dr
from drjit.auto.ad import Float
x = Float([1, 2, 3])
dr.enable_grad(x)
dr.backward(x * x)
print(type(x).__module__, dr.grad(x), dr.detail.cuda_version(), dr.has_backend(dr.JitBackend.CUDA))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True,
        env={**os.environ, "DRJIT_CUDA": "emulated"},
    )  # fmt: skip
    assert done.stderr == ""
    assert done.stdout == "drjit.cuda.ad [2, 4, 6] (13, 0) 1\n"


# ---- Less precision, on request

REDUCED = dr.JitFlag.ReducedPrecision


def test_products_of_matrices_in_less_precision(gpu):
    rng = np.random.default_rng(0)
    a, b = [rng.standard_normal((40, 50)).astype(np.float32) for _ in range(2)]
    exact = a.astype(float) @ b.T
    errors = []
    for flag in (False, True, False):
        with dr.scoped_set_flag(REDUCED, flag):
            found = dr.matmul(dr.cuda.TensorXf(a), dr.cuda.TensorXf(b), Bt=True).numpy()
        errors.append(np.abs(found - exact).max())
    assert errors[0] == errors[2] < 1e-5 and 1e-4 < errors[1] < 2e-2
    with dr.scoped_set_flag(REDUCED):  # the processor has no such products
        same = dr.matmul(llvm.TensorXf(a), llvm.TensorXf(b), Bt=True).numpy()
    np.testing.assert_allclose(same, exact, atol=1e-4)


def test_networks_in_less_precision(gpu):
    """Sums of halves; a kernel that is compiled for both settings is chosen by the flag."""
    mod, rng = dr.cuda, np.random.default_rng(1)
    weights = rng.standard_normal((16, 64)).astype(np.float16)
    x = rng.standard_normal((64, 100)).astype(np.float16)
    matrix = nn.view(mod.TensorXf16(weights))
    exact = weights.astype(float) @ x
    errors = []
    gpu.forget_kernels()
    for flag in (False, True, False, True):
        with dr.scoped_set_flag(REDUCED, flag):
            parts = list(nn.matvec(matrix, nn.CoopVec([mod.Float16(row) for row in x])))
            dr.eval(parts)
        errors.append(np.abs(np.array([part.numpy() for part in parts], float) - exact).max())
    assert errors[0] == errors[2] < 2e-2 and errors[1] == errors[3] > 2 * errors[0]
    (kernel,) = [k for k in gpu.kernels() if "matvec(" in k.text]
    assert kernel.launches == 4 and len(kernel.codes) == 2


def test_networks_in_single_precision_use_tf32_on_request(gpu):
    """Values and gradients, which are those of the processor within the rounding to 11 bits."""
    rng = np.random.default_rng(1)
    weights = (rng.standard_normal((20, 20)) / 20**0.5).astype(np.float32)
    x = rng.standard_normal((20, 70)).astype(np.float32)

    def trained(mod):
        net = nn.Sequential(nn.Linear(20, 20, bias=False), nn.Tanh(), nn.Linear(20, 20, bias=False))
        net = net.alloc(mod.ad.TensorXf, 20, rng=dr.rng(seed=0))
        net.layers[0].weights = net.layers[2].weights = mod.ad.TensorXf(weights)
        net = nn.pack(net, layout="training")
        rows = [mod.ad.Float(row) for row in x]
        dr.enable_grad(net["weights"], rows)
        y = list(net(nn.CoopVec(rows)))
        dr.backward(dr.sum(sum(v * v for v in y)))
        results = [*y, *dr.grad(rows), dr.grad(net["weights"])]
        return np.concatenate([r.numpy().ravel() for r in results])

    gpu.forget_kernels()
    exact, errors = trained(llvm), []
    for flag in (False, True, False):
        with dr.scoped_set_flag(REDUCED, flag):
            errors.append(np.abs(trained(dr.cuda) - exact).max() / np.abs(exact).max())
    assert errors[0] == errors[2] < 1e-5 and 1e-5 < errors[1] < 2e-3
    for kernel in (k for k in gpu.kernels() if "matvec(" in k.text):
        assert len(kernel.codes) == 2


def test_sums_in_large_targets_have_one_lane_a_thread(gpu):
    """Those in small ones are made in shared memory, by packets."""
    n, rng = 5001, np.random.default_rng(0)

    def add(x, at, total):
        dr.scatter_add(total, x, at)
        return total

    gpu.forget_kernels()
    for size in (100, 9000):
        at, x = rng.integers(0, size, n).astype(np.uint32), rng.integers(0, 9, n)
        for function in (add, add, *[dr.freeze(add)] * 3):
            operands = dr.cuda.Float(x), dr.cuda.UInt(at), dr.cuda.Float(np.zeros(size))
            assert (function(*operands).numpy() == np.bincount(at, x, size)).all()
    (kernel,) = [k for k in gpu.kernels() if "scatter_reduce_expand" in k.text]
    assert [c.form.lanes for c in kernel.codes.values()] == [4, 1] and kernel.launches == 10


@pytest.mark.parametrize("count", [2, 3, 4])
def test_records_of_large_targets_are_added_together(gpu, count):
    """Gradients of gathers, and sums: one instruction for two or four floats, if the compute
    capability has it, whatever the size of the target."""
    mod = dr.cuda.ad
    cls, n, lanes = getattr(mod, f"Array{count}f"), 500_000, 40
    index = np.random.default_rng(1).integers(0, n, lanes).astype(np.uint32)
    index[3:6] = index[0]
    x = dr.opaque(mod.Float, 2, n * count)
    dr.enable_grad(x)
    y = dr.gather(cls, x, mod.UInt(index))
    dr.backward(dr.sum(dr.squared_norm(y)))
    gradient = dr.grad(x).numpy().reshape(n, count)
    added = dr.opaque(mod.Float, 1, n * count)
    dr.scatter_add(added, cls(*[mod.Float(k + 1) for k in range(count)]), mod.UInt(index))
    sums, times = added.numpy().reshape(n, count), np.bincount(index, minlength=n)[:, None]
    assert np.array_equal(gradient, np.repeat(4 * times, count, 1))
    assert np.array_equal(sums, 1 + times * np.arange(1, count + 1))
    kernels = [k for k in gpu.kernels() if "scatter" in k.text]
    for kernel in kernels:
        assert kernel.text.count("scatter_reduce_packet(") == 1, kernel.text
        assert "scatter_reduce(" not in kernel.text
        code = kernel.lowered(True).code
        wanted = {2: ["v2"], 3: [], 4: ["v4"]}[count]
        assert re.findall(r"red\.global\.add\.(v\d)\.f32", code) == wanted
    assert len(kernels) == 2


# ---- Frozen functions


def test_frozen_functions_launch_without_preparation(gpu, monkeypatch):
    mod = dr.cuda

    def step(x, counts, k):
        y = dr.fma(x, 2, k)
        dr.scatter_add(counts, mod.UInt(1), mod.UInt(x) % 5)
        return y, dr.sum(y), dr.max(x)

    monkeypatch.setattr("drjit.jit.flags.current", flags.current & ~dr.JitFlag.BoundsChecks)
    frozen = dr.freeze(step)
    for n in range(6):
        size = 700 if n < 4 else 15
        x = dr.arange(mod.Float, size) + n
        k = dr.opaque(mod.Float, n)
        got, want = dr.zeros(mod.UInt, 5), dr.zeros(mod.UInt, 5)
        expected = step(x, want, k)
        dr.eval(x, k, got, want, expected)
        if n in (2, 3):  # recorded, and compiled
            with monkeypatch.context() as patch:
                patch.setattr(CudaKernel, "launch", None)
                found = frozen(x, got, k)
        else:
            found = frozen(x, got, k)
        for a, b in zip((*found, got), (*expected, want), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_frozen_functions_follow_flags(gpu):
    """Debug mode and watched launches take the usual way."""
    mod, x = dr.cuda, dr.arange(dr.cuda.Float, 20)
    frozen = dr.freeze(lambda x: dr.sum(x * 3))
    for chosen in (
        (),
        (dr.JitFlag.LaunchBlocking,),
        (dr.JitFlag.KernelHistory,),
        (dr.JitFlag.Debug,),
    ):
        for flag in chosen:
            dr.set_flag(flag, True)
        try:
            for _ in range(3):
                assert frozen(x)[0] == 570
        finally:
            for flag in chosen:
                dr.set_flag(flag, False)
        if dr.JitFlag.KernelHistory in chosen:
            assert len(dr.kernel_history()) == 3
    assert frozen(mod.Float(1, 2, 3))[0] == 18


@dr.syntax
def doubled(x, n):
    k = type(n)(0)
    while k < n:
        x = x * 2
        k += 1
    return x


def test_frozen_kernels_with_records_and_accumulators(gpu, monkeypatch):
    """Bounds checks, loops, and sums of halves in single precision are launched the short way, too;
    errors have their line, and are raised where the data are read."""
    mod = dr.cuda

    def step(x, index, total, n):
        y = doubled(dr.gather(mod.Float, x, index), n)
        dr.scatter_add(total, mod.Float16(y), index % 3)
        return y + 1

    frozen = dr.freeze(step)
    x, index, n = dr.arange(mod.Float, 40), dr.arange(mod.UInt, 30) + 5, dr.opaque(mod.UInt, 3, 30)
    want = dr.zeros(mod.Float16, 3)
    expected = step(x, index, want, n).numpy()
    for k in range(4):
        got = dr.zeros(mod.Float16, 3)
        dr.eval(x, index, got, n)
        with monkeypatch.context() as patch:
            if k > 1:  # recorded, and compiled
                patch.setattr(CudaKernel, "launch", None)
            found = frozen(x, index, got, n)
        np.testing.assert_array_equal(found.numpy(), expected)
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    line = rf"dr.gather: index 40 is out of bounds for an array of size 40 .*{__file__}:"
    beyond, totals = index + 15, [dr.zeros(mod.Float16, 3) for _ in range(2)]
    dr.eval(beyond, totals)
    with monkeypatch.context() as patch:
        patch.setattr(CudaKernel, "launch", None)
        found = frozen(x, beyond, totals[0], n)
        other = frozen(x, index, totals[1], n)
    assert other.numpy().tolist() == expected.tolist()
    with pytest.raises(IndexError, match=line):
        found.numpy()
    dr.sync_thread()


def test_numbers_that_are_the_same_in_each_packet(gpu):
    """A store of several lanes has them as constants of floating point."""
    mod = dr.cuda
    for cls, whole in ((mod.Float, mod.UInt), (mod.Float64, mod.UInt), (mod.Float16, mod.Int)):
        x = cls(dr.arange(whole, 17) % 4)
        assert x.numpy().tolist() == [k % 4 for k in range(17)]
