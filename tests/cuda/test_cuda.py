"""drjit.cuda on the emulated GPU: what differs from the processor, or goes another way. The rest of
the suite runs on it with `--device cuda`."""

import linecache
import re

import numpy as np
import pytest
from cuda_namespace import registered

import drjit as dr
from drjit.jit.cpu.device import Cpu
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.run import schedule


@pytest.fixture(scope="module", autouse=True)
def gpu():
    """A GPU of its own for these tests, in place of the one of this machine."""
    with registered(Cuda(EmulatedDriver())) as made:
        yield made


def test_values_live_on_the_device(gpu):
    Float = dr.cuda.Float
    x = Float(np.arange(1000, dtype=np.float32))
    y = dr.fma(x, 2, dr.sqrt(x))
    expected = np.float32(2) * x.numpy() + np.sqrt(x.numpy())
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
    assert y.numpy() is not y.numpy()  # copies
    (kernel,) = [k for k in gpu.kernels() if "sqrt" in k.text]
    assert kernel.tier == "compiled" and kernel.state == "memory"


@pytest.mark.parametrize("size", [1, 15, 17, 31, 32, 33, 255, 256, 257, 5000])
def test_sizes(size):
    Float, UInt = dr.cuda.Float, dr.cuda.UInt
    x = dr.arange(Float, size) + 1
    np.testing.assert_array_equal((x * x).numpy(), np.arange(1, size + 1, dtype=np.float32) ** 2)
    assert dr.sum(x)[0] == size * (size + 1) / 2
    y = dr.zeros(UInt, size)
    dr.scatter_reduce(dr.ReduceOp.Add, y, UInt(1), dr.arange(UInt, 3 * size) % size)
    np.testing.assert_array_equal(y.numpy(), np.full(size, 3))


def test_an_index_out_of_bounds_is_reported_at_the_line_of_the_program():
    Float, UInt = dr.cuda.Float, dr.cuda.UInt
    x = dr.arange(Float, 10)
    where = r"dr.gather: index 10 .* \(lane 2; at .*test_cuda.py:(\d+)"
    with pytest.raises(IndexError, match=where) as caught:
        print(dr.gather(Float, x, UInt(0, 1, 10)))  # the line of the program
    number = int(re.search(where, str(caught.value))[1])
    assert linecache.getline(__file__, number).endswith("# the line of the program\n")
    y = dr.zeros(Float, 4)
    dr.scatter(y, Float(1, 2), UInt(3, 77))
    dr.eval(y)
    with pytest.raises(IndexError, match="index 77"):
        dr.sync_thread()
    assert y.numpy().tolist() == [0, 0, 0, 1]  # the others took place


def test_debug_mode_runs_on_copies(gpu):
    Float, UInt = dr.cuda.Float, dr.cuda.UInt
    x = dr.arange(Float, 10)
    target = dr.zeros(Float, 3)
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        before = gpu.driver.memory.used
        y = dr.sin(x) + 1
        dr.scatter_add(target, y, UInt([0] * 9 + [2]))
        np.testing.assert_allclose(y.numpy(), np.sin(np.arange(10)) + 1, rtol=1e-6)
        assert gpu.driver.memory.used >= before
    found = target.numpy()
    np.testing.assert_allclose(found[0], (np.sin(np.arange(9)) + 1).sum(), rtol=1e-6)
    assert [k.tier for k in gpu.kernels() if k.state == "numpy"]


def test_backends_do_not_mix():
    a, b = dr.cuda.Float(1, 2), dr.llvm.Float(1, 2)
    with pytest.raises((TypeError, RuntimeError), match=r"(?i)backend|Float"):
        print(a + b)


def test_many_parameters():
    Float = dr.cuda.Float
    inputs = [dr.opaque(Float, k, 40) for k in range(520)]
    total = inputs[0]
    for x in inputs[1:]:
        total = total + x
    assert total.numpy().tolist() == [519 * 520 / 2] * 40


def test_history_and_logs(capfd):
    Float = dr.cuda.Float
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        y = dr.cos(dr.arange(Float, 100)) * 3
        dr.eval(y)
        (entry,) = dr.kernel_history()
    assert entry["backend"] is dr.JitBackend.CUDA
    assert entry["size"] == 100 and entry["execution_time"] > 0


def test_kernels_stay_in_the_disk_cache(gpu, tmp_path, monkeypatch):
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path))
    Float = dr.cuda.Float
    states = []
    for _ in range(2):
        schedule.forget_kernels()
        gpu.forget_kernels()
        x = dr.arange(Float, 33) * 1.25 + 7
        np.testing.assert_array_equal(x.numpy(), np.arange(33, dtype=np.float32) * 1.25 + 7)
        (kernel,) = gpu.kernels()
        states.append(kernel.state)
    assert states == ["memory", "disk"]


def test_a_changed_number_is_no_new_kernel(gpu):
    Float = dr.cuda.Float
    schedule.forget_kernels()
    gpu.forget_kernels()
    for k in range(4):
        dr.eval(dr.arange(Float, 8) * (1.5 + k))
    (kernel,) = gpu.kernels()
    assert kernel.launches == 4


@dr.syntax
def steps(n, limit):
    k = type(n)(0)
    while (n != 1) & (k < limit):
        n = dr.select(n % 2 == 0, n // 2, 3 * n + 1)
        k += 1
    return k


def test_loops_diverge():
    UInt = dr.cuda.UInt
    found = steps(dr.arange(UInt, 60) + 1, UInt(1000)).numpy()

    def collatz(n):
        k = 0
        while n != 1:
            n, k = (n // 2 if n % 2 == 0 else 3 * n + 1), k + 1
        return k

    assert found.tolist() == [collatz(n) for n in range(1, 61)]


def test_a_loop_can_be_stopped(gpu, monkeypatch):
    """What Ctrl-C does: it sets a word of the record, at which the loop looks from time to time."""
    UInt = dr.cuda.UInt
    real = gpu.error_words
    monkeypatch.setattr(gpu, "error_words", lambda: _stopping(real()))
    k = steps(UInt(27, 27), UInt(0xFFFFFFFF)).numpy()
    assert k.tolist() == [111, 111]  # it ends before the first look
    endless = _count(UInt(0), UInt(1 << 31)).numpy()
    assert 0 < endless[0] < 10_000


@dr.syntax
def _count(k, n):
    while k < n:
        k += 1
    return k


def _stopping(record):
    record.words[5] = 1
    return record


def test_derivatives():
    Float, UInt = dr.cuda.ad.Float, dr.cuda.ad.UInt
    x = dr.arange(Float, 100) / 10
    dr.enable_grad(x)
    y = dr.gather(Float, dr.exp(x) * x, UInt([3, 3, 5]))
    dr.backward(dr.sum(y))
    expected = np.zeros(100)
    for k in (3, 3, 5):
        expected[k] += np.exp(k / 10) * (1 + k / 10)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


def test_the_text_of_a_kernel_names_its_line():
    Float = dr.cuda.Float
    text = dr.kernel_source(dr.sin(dr.opaque(Float, 1, 3)) + 2)
    assert "sin(" in text and re.search(r"def kernel\(i, p\)", text)


@pytest.fixture
def idle_processor(monkeypatch):
    """A processor that cannot compute anything."""
    for name in ("allocate", "upload", "filled", "copy"):
        monkeypatch.delattr(Cpu, name)


@dr.syntax
def powers(x, n):
    """x to the power of n."""
    y, k = type(x)(1), type(n)(0)
    while k < n:
        y *= x
        k += 1
        dr.print("{}", k)
    return y


def test_loops_compute_constants_on_the_device(idle_processor, capsys):
    Float, UInt = dr.cuda.ad.Float, dr.cuda.ad.UInt
    x = Float(3)
    dr.enable_grad(x)
    cube = powers(x, UInt(3))
    assert cube.numpy().tolist() == [27]
    assert capsys.readouterr().out == "[1, 2, 3]\n"
    cube.grad = 1
    assert dr.backward_to(x, flags=dr.ADFlag.ClearNone).numpy().tolist() == [27]
    x = Float(2)
    dr.enable_grad(x)
    assert dr.check_grad(lambda v: powers(v, UInt(2, 3)), x)


def noisy_square(v):
    dr.print("{}", v)
    return v * v


def branched(x, mask, index):
    return dr.if_stmt((x,), mask, noisy_square, lambda v: -v)


def called(x, mask, index):
    return dr.switch(index, [noisy_square, lambda v: -v], x)


@pytest.mark.parametrize("function", [branched, called])
def test_branches_and_calls_compute_constants_on_the_device(idle_processor, capsys, function):
    Float, UInt, Bool = dr.cuda.ad.Float, dr.cuda.ad.UInt, dr.cuda.ad.Bool
    x = Float(3)
    dr.enable_grad(x)
    y = function(x, Bool(True, False, True), UInt(0, 1, 0))
    assert y.numpy().tolist() == [9, -3, 9]
    assert capsys.readouterr().out == "[3, 3]\n"
    y.grad = 2
    dr.enqueue(dr.ADMode.Backward, y)
    dr.traverse(dr.ADMode.Backward)
    assert x.grad.numpy().tolist() == [2 * (6 - 1 + 6)]


def test_counts_of_shifts_have_64_bits():
    UInt64, Int64 = dr.cuda.UInt64, dr.cuda.Int64
    counts = [0, 1, 63, 64, 1 << 31, 1 << 32, (1 << 32) + 1, 1 << 62]
    x, y = dr.opaque(UInt64, 3 << 60), dr.opaque(Int64, -8)
    for count in counts:
        shift = dr.opaque(UInt64, count)
        assert (x << shift).numpy().tolist() == [((3 << 60) << min(count, 64)) % (1 << 64)]
        assert (x >> shift).numpy().tolist() == [(3 << 60) >> min(count, 64)]
        assert (y >> Int64(shift)).numpy().tolist() == [-8 >> min(count, 63)]


def test_frozen_functions_compute_constants_on_the_device(idle_processor):
    Float, UInt = dr.cuda.ad.Float, dr.cuda.ad.UInt
    frozen = dr.freeze(lambda x: (dr.cumsum(dr.full(Float, 2, 3)) + x, dr.cumsum(UInt(7)) + 1))
    for k in range(3):
        sums, one = frozen(Float(k, k, k))
        assert sums.numpy().tolist() == [2 + k, 4 + k, 6 + k] and one.numpy().tolist() == [8]
    assert frozen.n_recordings == 1


@pytest.mark.parametrize("export", ["__dlpack__", "__cuda_array_interface__"])
def test_frozen_functions_export_nothing(export):
    def f(x):
        y = x * 2
        shown = getattr(y, export)
        return x + 1 if isinstance(shown, dict) else (x + 1, shown())[0]

    with pytest.raises(RuntimeError, match="reads the contents"):
        dr.freeze(f)(dr.cuda.Float(1, 2))
