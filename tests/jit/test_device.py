"""The seam between the compiler and devices: a second device, with memory of its own and kernels
that run on NumPy, does what the processor does, and nothing of it runs there."""

from typing import Any

import numpy as np
import pytest
from cuda_namespace import registered

import drjit as dr
from drjit import llvm
from drjit.jit import device, substitutes
from drjit.jit.backend import JitBackend
from drjit.jit.cpu import plans, primitives, runtime, warm_up
from drjit.jit.cpu.device import CPU
from drjit.jit.device import Buffer, Device, Kernel
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import node, op
from drjit.jit.run import launch
from drjit.jit.target import numpy as target


class HostBuffer(Buffer):
    """Memory that only `Second` reads and writes."""

    __slots__ = ("memory",)

    def __init__(self, nbytes: int) -> None:
        self.memory = np.empty(max(nbytes, 8), np.uint8)
        self.address, self.nbytes = -1, nbytes  # which nobody may use
        self.owner = self.source = None
        self.views = 0

    def array(self, dtype: Any, size: int) -> np.ndarray:
        return self.memory.view()[: np.dtype(dtype).itemsize * size].view(dtype)


class TextKernel(Kernel):
    """A kernel text, run by the NumPy target."""

    __slots__ = ("function",)
    tier = "numpy"
    mean_time = 0.0

    def __init__(self, at: Device, text: str, program: Any) -> None:
        super().__init__(at, text, program)
        names = dict(target.namespace)
        exec(text, names)
        self.function = names["kernel"]

    def launch(self, size, operands, record):
        self.device.calls.append("launch")

        def made(t, n):
            b = self.device.allocate(t.itemsize * n)
            return b, b.array(t.numpy, n)

        p, outputs = launch.as_python(
            self.program,
            size,
            operands,
            record,
            lambda t, n, b: b.array(t.numpy, n),
            lambda e: e.buffer.array(e.dtype.numpy, e.size),
            made,
        )
        target.run(self.function, p, size)
        if record is not None and (error := record.check()):
            self.device.errors.append(error)
        return outputs


class Second(Device):
    """A device that notes what is asked of it."""

    backend = JitBackend.CUDA

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.errors: list[BaseException] = []
        self.made: dict[Any, TextKernel] = {}

    def allocate(self, nbytes):
        return HostBuffer(nbytes)

    def upload(self, values):
        self.calls.append("upload")
        made = HostBuffer(values.nbytes)
        made.array(values.dtype, values.size)[:] = values
        return made

    def copy(self, buffer, nbytes):
        return self.upload(buffer.array(np.uint8, nbytes))

    def download(self, buffer, dtype, size):
        self.calls.append("download")
        return buffer.array(dtype.numpy, size).copy()

    def put(self, buffer, dtype, at, value):
        buffer.array(dtype.numpy, at + 1)[at] = value

    def kernel(self, text, program):
        return self.made.setdefault(text, TextKernel(self, text, program))

    def kernels(self):
        return [*self.made.values()]

    def forget_kernels(self):
        self.made.clear()

    def drain(self):
        pass

    def sync(self):
        if self.errors:
            errors = [*self.errors]
            self.errors.clear()
            device.raise_first(errors)

    def forget_error(self, error):
        self.errors.remove(error)
        return True

    def _computed(self, name: str, values: np.ndarray, t: dt.DType) -> Buffer:
        self.calls.append(name)
        return self.upload(values.astype(t.numpy))

    def prefix(self, reduce, t, n, source, exclusive, run):
        rows = np.cumsum(source.array(t.numpy, n).reshape(-1, run), axis=1)
        return self._computed("prefix", rows.ravel(), t)

    def block_reduce(self, reduce, t, n, source, run):
        rows = source.array(t.numpy, n).reshape(-1, run)
        return self._computed("block_reduce", rows.sum(axis=1), t)

    def reduce_rows(self, reduce, t, n, source, rows, columns):
        matrices = source.array(t.numpy, n).reshape(-1, rows, columns)
        return self._computed("reduce_rows", matrices.sum(axis=1).ravel(), t)

    def compress(self, n, mask):
        found = np.flatnonzero(mask.array(np.bool_, n))
        return self._computed("compress", found, dt.u32), found.size

    def sort(self, t, n, keys, payload, bits):
        values = keys.array(t.numpy, n)
        order = np.argsort(values, kind="stable")
        if payload is None:
            return self._computed("sort", values[order], t)
        return self._computed("sort", payload.array(np.uint32, n)[order], dt.u32)

    def matmul(self, t, a, b, layout):
        m, n, k = layout.sizes
        x, y = (v.array(t.numpy, size) for v, size in (a, b))
        return self._computed("matmul", (x.reshape(m, k) @ y.reshape(k, n)).ravel(), t)


HostBuffer.device = Second()


@pytest.fixture
def second() -> Any:
    """The device, registered as that of `drjit.cuda`."""
    HostBuffer.device.calls.clear()
    with registered(HostBuffer.device) as own:
        yield own


@pytest.fixture
def alone(second: Second, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same, where the processor must not be used."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the processor was used")

    monkeypatch.setattr(CPU, "kernel", refuse)
    monkeypatch.setattr(CPU, "upload", refuse)
    monkeypatch.setattr(CPU, "filled", refuse)
    monkeypatch.setattr(runtime, "launch", refuse)
    monkeypatch.setattr(primitives.kernel, "run_text", refuse)
    return second


def test_arrays_live_in_its_memory(alone: Second):
    x = dr.cuda.Float([1, 2, 3])
    assert x._node.data.device is alone
    y = dr.arange(dr.cuda.Float, 3) * x + 1
    assert dr.eval(y)
    assert y._node.data.device is alone
    assert alone.calls.count("launch") == 1
    np.testing.assert_array_equal(y.numpy(), [1, 3, 7])
    assert alone.calls[-1] == "download"
    y[1] = 5
    assert y[1] == 5
    assert dr.has_backend(dr.JitBackend.CUDA)


def test_programs_of_constants(alone: Second):
    x = dr.opaque(dr.cuda.Float, 2, 3)
    big = dr.opaque(dr.cuda.Float, 2, 10_000)
    assert (x + 1).numpy().tolist() == [3] * 3
    assert big._node.data.device is alone
    assert dr.sum(big)[0] == 20_000

    @dr.syntax
    def power() -> Any:
        i = dr.cuda.UInt(0)
        p = dr.cuda.UInt(1)
        while i < 5:
            p *= 2
            i += 1
        return p

    found = power()
    dr.eval(found)
    assert found._node.data.device is alone
    assert found[0] == 32


def test_loops_scatters_and_reductions(alone: Second):
    @dr.syntax
    def collatz(n: Any) -> Any:
        steps = dr.cuda.UInt(0)
        while n > 1:
            n = dr.select(n % 2 == 0, n // 2, 3 * n + 1)
            steps += 1
        return steps

    assert collatz(dr.arange(dr.cuda.UInt, 8)).numpy().tolist() == [0, 0, 1, 7, 2, 5, 8, 16]
    counts = dr.zeros(dr.cuda.UInt, 3)
    dr.scatter_add(counts, dr.cuda.UInt(1), dr.arange(dr.cuda.UInt, 10) % 3)
    assert counts.numpy().tolist() == [4, 3, 3]
    x = dr.arange(dr.cuda.Float, 100)
    assert dr.sum(x)[0] == 4950
    assert dr.gather(dr.cuda.Float, x, dr.cuda.UInt(7, 9)).numpy().tolist() == [7, 9]


def test_primitives(alone: Second):
    x = dr.cuda.Float([3, 1, 2, 5])
    assert dr.sort(x).numpy().tolist() == [1, 2, 3, 5]
    assert dr.argsort(x).numpy().tolist() == [1, 2, 0, 3]
    assert dr.cumsum(x).numpy().tolist() == [3, 4, 6, 11]
    assert dr.cumsum(dr.ones(dr.cuda.Float, 3)).numpy().tolist() == [1, 2, 3]
    assert dr.block_sum(x, 2).numpy().tolist() == [4, 7]
    assert dr.compress(x > 1).numpy().tolist() == [0, 2, 3]
    a = dr.cuda.TensorXf(np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal((a @ dr.cuda.TensorXf(a.numpy().T)).numpy(), [[5, 14], [14, 50]])
    assert {"sort", "prefix", "block_reduce", "compress", "matmul"} <= {*alone.calls}


def test_derivatives(alone: Second):
    x = dr.cuda.ad.Float([1, 2, 3])
    dr.enable_grad(x)
    y = dr.gather(dr.cuda.ad.Float, x, dr.cuda.ad.UInt(0, 2, 2)) * x
    dr.backward(dr.sum(dr.cumsum(y)))
    assert dr.grad(x).numpy().tolist() == [3 + 3, 3 * 2, 3 + 2 * 2 + 3 - 0]


def test_frozen_functions(alone: Second):
    @dr.freeze
    def step(x: Any, y: Any) -> Any:
        total = dr.zeros(dr.cuda.Float, 2)
        dr.scatter_add(total, x * y, dr.arange(dr.cuda.UInt, 4) % 2)
        return dr.cumsum(x) + 1, total

    for k in range(3):
        x, y = dr.cuda.Float([1, 2, 3, 4]) + k, dr.opaque(dr.cuda.Float, 2, 4)
        a, b = step(x, y)
        base = np.arange(1, 5) + k
        np.testing.assert_array_equal(a.numpy(), np.cumsum(base) + 1)
        np.testing.assert_array_equal(b.numpy(), [2 * (base[0] + base[2]), 2 * (base[1] + base[3])])
    assert step.n_recordings == 1


def test_errors_in_its_kernels(alone: Second):
    x = dr.cuda.Float([1, 2, 3])
    y = dr.gather(dr.cuda.Float, x, dr.opaque(dr.cuda.UInt, 7))
    dr.eval(y)
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        y.numpy()
    dr.sync_thread()


def test_two_devices_side_by_side(second: Second):
    x, y = llvm.Float([1, 2]), dr.cuda.Float([3, 4])
    a, b = x * 2, y * 2
    dr.eval(a, b)  # of the same size and structure
    assert a._node.data.device is CPU
    assert b._node.data.device is second
    assert (a.numpy().tolist(), b.numpy().tolist()) == ([2, 4], [6, 8])
    target = dr.zeros(dr.cuda.Float, 2)
    dr.scatter(target, y, dr.arange(dr.cuda.UInt, 2))  # pending while the other evaluates
    assert (x + 1).numpy().tolist() == [2, 3]
    assert target.numpy().tolist() == [3, 4]


def test_native_code_tells_devices_apart(second: Second, monkeypatch: pytest.MonkeyPatch):
    found = warm_up.places(plans)
    if not found:
        pytest.skip("other layout of objects")
    monkeypatch.setattr(substitutes, "collect_nodes", plans.KnownPrograms(found).collect_nodes)
    for _ in range(2):
        for mod, n in ((dr.cuda, 1), (llvm, 0)):
            second.calls.clear()
            x = mod.Float(1, 2) * mod.Float(3, 4) - 1
            assert x.numpy().tolist() == [2, 7] and second.calls.count("launch") == n


def test_what_mixes_devices_is_an_error(second: Second):
    x, y = llvm.Float([1, 2]), dr.cuda.Float([3, 4])
    with pytest.raises((RuntimeError, TypeError), match="different backends do not mix"):
        x + y
    mixed = llvm.Float(0)
    mixed._node = node.apply(op.add, x._node, y._node)
    with pytest.raises(device.DeviceMismatch, match=r"different backends \(CUDA, LLVM\)"):
        dr.eval(mixed)
    del mixed
    assert (x + 1).numpy().tolist() == [2, 3]
    assert launch.to_numpy(dt.f32, 2, y._node.data).tolist() == [3, 4]
