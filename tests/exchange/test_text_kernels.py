"""Kernel texts that users write, as functions of arrays (`dr.kernel`)."""

# ruff: noqa: F821
# pyright: reportUndefinedVariable=false

import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from cuda_namespace import registered
from helpers import differing, launched

import drjit as dr
from drjit import nn
from drjit.ad.graph import Value
from drjit.array import leaf, table
from drjit.jit import flags
from drjit.jit.cpu import variants
from drjit.jit.cuda.device import Cuda
from drjit.jit.cuda.emulated import EmulatedDriver
from drjit.jit.device import elements
from drjit.jit.ir import node as ir
from drjit.jit.ir.dtype import VECTOR_BLOCK
from drjit.jit.run import cache, launch
from drjit.llvm.ad import Array3f, Float, Float64, TensorXf, UInt
from drjit.nn import coopvec

SIZES = (0, 1, 15, 17, 1000)


# ---- Texts of traced programs compute the same


def arithmetic(m: Any, n: int) -> Any:
    x = dr.linspace(m.Float, -3, 3, n)
    k = dr.arange(m.Int, n) - 7
    dr.eval(x, k)
    y = dr.fma(x, x, 2) / (dr.abs(x) + 1)
    return [
        y, dr.select(x < k, x, -x), k // 3, k % 5, k << 2, m.UInt64(k), dr.popcnt(k),
        m.Float16(x) * 3, m.Float64(x) - 0.1, (x > 0) & ~(k == 2), m.Int8(k) * 9, dr.floor(x),
    ]  # fmt: skip


def library(m: Any, n: int) -> Any:
    x = dr.linspace(m.Float64, -3, 3, n)
    dr.eval(x)
    return [*dr.sincos(x), dr.exp(x), dr.log(dr.abs(x)), dr.erf(x), dr.power(dr.abs(x), 1.5)]


def reductions(m: Any, n: int) -> Any:
    x = m.Float(dr.arange(m.Int, n) % 13 - 3)
    dr.eval(x)
    h = m.Float16(x)
    return [dr.sum(x * 2), dr.max(x), dr.prod(x * 0 + 1), dr.min(m.Int(x)), dr.any(x > 5),
            dr.all(x < 20), dr.sum(h)]  # fmt: skip


def gathers(m: Any, n: int) -> Any:
    x = dr.opaque(m.Float, 0.5, 4 * n) + dr.arange(m.Float, 4 * n)
    k = (dr.arange(m.UInt, n) * 7) % max(n, 1)
    dr.eval(x, k)
    points = dr.gather(m.Array4f, x, k)
    return [points, dr.gather(m.Float, x, m.UInt64(k) + n, k % 2 == 0), x[dr.arange(m.Int, n)]]


def scatters(m: Any, n: int) -> Any:
    k = (dr.arange(m.UInt, n) * 5) % 8
    x = m.Float(k) + 1
    dr.eval(k, x)
    a, b, c, d = (
        dr.zeros(m.Float, 8),
        dr.zeros(m.Float, 8),
        dr.full(m.Int, 99, 8),
        dr.zeros(m.Float, 24),
    )
    dr.scatter_reduce(dr.ReduceOp.Add, a, x, k)
    dr.scatter_add(b, x, k, mode=dr.ReduceMode.Direct)
    dr.scatter_reduce(dr.ReduceOp.Min, c, m.Int(k), k, x > 3)
    dr.scatter_add(d, m.Array3f(x, 1, 2), k)
    return [a, b, c, d]


def counters(m: Any, n: int) -> Any:
    k = dr.arange(m.UInt, n)
    one, t = dr.zeros(m.UInt, n + 1), dr.zeros(m.UInt, n + 1)
    old = dr.scatter_inc(one, k)
    dr.scatter(t, old + k, k, k % 3 != 0)
    return [one, old, t]


@dr.syntax
def loops(m: Any, n: int) -> Any:
    x = dr.arange(m.UInt, n) + 1
    values = dr.arange(m.Float, 64) * 0.25
    dr.eval(x, values)
    steps, total = m.UInt(0), m.Float(0)
    while x != 1:
        if x % 2 == 0:
            x //= 2
        else:
            x = x * 3 + 1
        steps += 1
        total += dr.gather(m.Float, values, x % 64)
    return [steps, total]


def calls(m: Any, n: int) -> Any:
    values = dr.arange(m.Float, 16)
    x = dr.arange(m.Float, n) * 0.5
    k = dr.arange(m.UInt, n) % 3
    dr.eval(values, x, k)

    def first(x: Any) -> Any:
        y = dr.gather(m.Float, values, m.UInt(dr.abs(x)) % 16) + dr.sin(x)
        return y * dr.gather(m.Float, values, m.UInt(y * y) % 16) + x * x + 3 / (1 + x)

    found = dr.switch(k, [first, lambda x: x * 2, lambda x: first(x + 1)], x)
    return [found, dr.switch(m.UInt(x) % 2, [lambda x: -x, lambda x: first(x - 1)], x)]


def memory_of_lanes(m: Any, n: int) -> Any:
    x = dr.arange(m.UInt, n)
    dr.eval(x)
    local = dr.alloc_local(m.Float, 6, value=dr.zeros(m.Float))
    local[x % 6] = m.Float(x) + 0.5
    local[(x + 2) % 6] = m.Float(x) * 2
    return [local[(x + 1) % 6], local[2] + local[x % 6]]


def network(m: Any, n: int) -> Any:
    weights = m.TensorXf16(np.arange(64).reshape(8, 8) % 5 - 2)
    bias = m.TensorXf16(np.arange(8) % 3)
    w, b = nn.pack(weights, bias, layout="training")
    dr.eval(w.buffer)
    x = m.Float16(dr.arange(m.UInt, n) % 7)
    dr.eval(x)
    dr.enable_grad(w.buffer)
    v = nn.CoopVec([x + k for k in range(8)])
    hidden: Any = nn.matvec(w, v, b)
    found = list(nn.matvec(w, dr.maximum(hidden, 0), b, transpose=True))
    dr.backward(dr.sum(found[0] + found[3]))
    return [*found, w.buffer.grad]


@dr.syntax
def vectors_of_several_kernels(m: Any, n: int) -> Any:
    x, k = dr.linspace(m.Float16, -1, 1, n), m.UInt(0)
    dr.eval(x)
    v: Any = nn.CoopVec(x, x * x, 1)
    while dr.hint(k < 3, mode="evaluated"):
        v = v * 2 - nn.CoopVec(*[x * 0.5 for x in v])
        k += 1
    return list(v)


PROGRAMS = (
    arithmetic, library, reductions, gathers, scatters, counters, loops, calls, memory_of_lanes,
    network, vectors_of_several_kernels,
)  # fmt: skip


def of_features(values: np.ndarray, count: int, size: int) -> np.ndarray:
    """Returns vectors in memory by feature and lane, without what is beyond the last lane."""
    return values.reshape(-1, count, VECTOR_BLOCK).swapaxes(0, 1).reshape(count, -1)[:, :size]


class Again:
    """Takes the place of `launch.run`: launches each kernel of a program a second time by its text,
    and compares the results bit by bit."""

    def __init__(self) -> None:
        self.run, self.busy, self.same, self.kernels = launch.run, False, 0, 0

    def __call__(self, made: Any, size: int, operands: tuple) -> list:
        if self.busy:
            return self.run(made, size, operands)
        device, self.busy = made.device, True
        *_, targets = operands
        try:
            device.drain()
            copies = {e.buffer: device.copy(e.buffer, e.dtype.itemsize * e.size) for e in targets}
            found = self.run(made, size, operands)
            self.compare(made, size, *operands, found, copies)
        finally:
            self.busy = False
        return found

    def compare(
        self, made: Any, size: int, inputs: list, literals: list, checks: list, targets: list,
        found: list, copies: dict,
    ) -> None:  # fmt: skip
        def array(n: Any) -> Any:
            cls = table.find(space, "leaf", n.dtype.element)
            return coopvec.wrap(cls, Value(n)) if n.dtype.is_vector else leaf.wrap(cls, n)

        space, device = made.device.backend.name.lower(), made.device
        again = dr.kernel(made.text)
        changed = {e.buffer: array(ir.buffer(e.dtype, e.size, copies[e.buffer])) for e in targets}
        words: list[Any] = [None, *map(array, inputs), *[n.data for n in literals]]
        words += [c.data[0] for c in checks]
        for e in targets:
            words += [changed[e.buffer]] + [None] * (2 if e.mode == "expand" else 0)
        given = [words[k] for k in again._read.arguments]
        results = again(*given, size=size)
        results = results if isinstance(results, tuple) else () if results is None else (results,)
        pairs = [
            (b, a) for b, a in zip([b for b in found if b is not None], results, strict=True)
        ] + [*changed.items()]
        for b, a in pairs:
            n = a._node
            device.drain()
            parts = n.dtype.element, elements(n.dtype, n.size)
            want = device.download(b, *parts).copy()
            got = device.download(n.data, *parts).copy()
            if n.dtype.is_vector:
                want, got = (of_features(v, n.dtype.count, n.size) for v in (want, got))
            assert not differing(got, want).size, f"{made.text}\n{got}\n{want}"
        self.kernels += 1
        self.same += again.source == made.text


@contextmanager
def route(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A target, and the namespace of its types."""
    if name == "cuda":
        with registered(Cuda(EmulatedDriver())):
            yield dr.cuda.ad
        return
    with monkeypatch.context() as patch:
        if name == "numba":
            pytest.importorskip("numba")
            patch.setattr(cache, "folder", lambda: None)
            patch.setattr(flags, "current", flags.current | dr.JitFlag.NumbaCompiler)
        patch.setattr(variants, "pinned", "numpy" if name == "numpy" else "compiled")
        dr.flush_kernel_cache()
        yield dr.llvm.ad
    dr.flush_kernel_cache()


ROUTES = ("numpy", "compiled", "numba", "cuda")


@pytest.mark.processor
@pytest.mark.parametrize("target", ROUTES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_text_of_a_program(program: Callable, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    again = Again()
    with route(target, monkeypatch) as types, monkeypatch.context() as patch:
        patch.setattr(launch, "run", again)
        for n in (1, 17) if target in ("numba", "cuda") else (1, 17, 3000):
            dr.eval(program(types, n))
    assert again.kernels >= 2


# ---- Functions in the kernel language

OFFSET = 0.25


@dr.kernel
def saxpy(i, a, x, y, result):
    """Computes `a * x + y`, and adds a constant."""
    ax = literal(f32, a) * load(f32, x, i)
    store(f32, result, i, ax + load(f32, y, i) + OFFSET)


@dr.kernel
def collatz(i, n, steps):
    def next_number(i, p, a: u32):
        b = a * 3 + 1
        return select((a & 1) == 1, b, shr(a, 1))

    x = load(u32, n, i)
    k = u32(0)
    while any_lane(x > 1):
        m = x > 1
        x = select(m, next_number(i, p, x), x)
        if any_lane(m):
            k += u32(m)
    store(u32, steps, i, k)


@dr.kernel
def histogram(i, index, weight, bins):
    k = load(u32, index, i)
    scatter_reduce(f32, "add", "direct", bins, load(f32, weight, i), k, True)


def test_a_function_of_arrays(tier):
    x, y = Float(1, 2, 3), Float(10, 20, 30)
    assert saxpy(2, x, y).numpy().tolist() == [12.25, 24.25, 36.25]
    assert saxpy(2.0, y=y, x=x).numpy().tolist() == [12.25, 24.25, 36.25]
    assert saxpy(np.float64(0), x=x, y=x + 1).numpy().tolist() == [2.25, 3.25, 4.25]
    assert type(saxpy(2, x, y)) is Float
    plain = dr.llvm.Float
    assert type(saxpy(2, plain(x), plain(y))) is plain
    assert type(saxpy(2, plain(x), y)) is Float
    assert "Computes" in (saxpy.__doc__ or "") and saxpy.__name__ == "saxpy"
    assert repr(saxpy) == ("<kernel saxpy(a: f32 number, x: f32 array, y: f32 array) -> f32 array>")


@pytest.mark.parametrize("n", SIZES)
def test_sizes(n: int, tier):
    x = dr.arange(Float, n)
    np.testing.assert_array_equal(saxpy(2, x, x).numpy(), np.arange(n) * 3 + 0.25)
    found = collatz(dr.arange(UInt, n) + 1)
    if n > 26:
        assert found[26] == 111
    assert len(found) == n
    bins = dr.zeros(Float, 3)
    histogram(dr.arange(UInt, n) % 3, dr.full(Float, 0.5, n), bins)
    want = np.bincount(np.arange(n) % 3, minlength=3) * 0.5
    np.testing.assert_array_equal(bins.numpy(), want)
    total = dr.kernel("def total(i, x, y):\n    reduce(f32, 'add', y, i, load(f32, x, i))")
    assert total(x).numpy().tolist() == [n * (n - 1) / 2]


@pytest.mark.processor
@pytest.mark.parametrize("target", ROUTES)
def test_targets(target: str, monkeypatch: pytest.MonkeyPatch):
    with route(target, monkeypatch) as types:
        found = collatz(dr.arange(types.UInt, 100) + 1)
        assert type(found) is types.UInt and found[26] == 111 and found[96] == 118
        bins = dr.zeros(types.Float, 2)
        histogram(types.UInt(0, 1, 1), types.Float(1, 2, 3), bins)
        assert bins.numpy().tolist() == [1, 5]
        with pytest.raises(IndexError, match="index 2 is out of bounds for an array of size 2"):
            dr.eval(bins)
            histogram(types.UInt(0, 2, 1), types.Float(1, 2, 3), bins)
            bins.numpy()


@pytest.mark.parametrize(
    "code", ["mask", "i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64"]
)
def test_element_types(code: str, tier):
    cls = getattr(dr.llvm, next(name for t, name in table.LEAF_NAME.items() if t.code == code))
    one = {"m": True, "f": 1.5}.get(code[0], 1)
    text = (
        f"def k(i, x, c, out, r):\n    v = load({code}, x, i)\n    w = literal({code}, c)\n"
        f"    store({code}, out, i, select(lane(i) < 3, v, w))\n"
        f"    reduce({code}, 'or', r, i, v)"
    )
    x = cls(dr.arange(dr.llvm.UInt, 17) % 2)
    if code[0] == "f":
        text = text.replace("'or'", "'max'")
    out, r = dr.kernel(text)(x, one)
    assert type(out) is cls and type(r) is cls
    want = x.numpy().copy()
    want[3:] = one
    np.testing.assert_array_equal(out.numpy(), want)
    assert r.numpy().tolist() == [1]
    assert len(dr.kernel(text)(cls(), one)[0]) == 0


def test_lanes_beyond_the_end_do_nothing(tier):
    """Neither reads nor writes nor loops need a mask for what is behind the last entry."""
    text = """
    def kernel(i, p):
        k = load(u32, p[1], i)
        x = gather(f32, p[2], k, True)
        m = x < 4
        while any_lane(m):
            x = select(m, x + 1, x)
            m = x < 4
        scatter(f32, p[3], x, k, True)
        old = scatter_inc(u32, p[4], u32(0) * k, k < 100)
        store(u32, p[5], i, old)
    """
    n = 17
    index, values, target = dr.arange(UInt, n), dr.arange(Float, n), dr.zeros(Float, n)
    count = dr.zeros(UInt, 1)
    old = dr.kernel(text)(index, values, target, count)
    np.testing.assert_array_equal(target.numpy(), np.maximum(np.arange(n), 4))
    assert count.numpy().tolist() == [n] and sorted(old.numpy()) == list(range(n))


def test_shared_arrays_are_copied(tier):
    bins = dr.opaque(Float, 0, 2)
    other, view = Float(bins), bins.numpy()
    histogram(UInt(1), Float(5), bins)
    assert bins.numpy().tolist() == [0, 5]
    assert other.numpy().tolist() == [0, 0] and view.tolist() == [0, 0]
    histogram(UInt(0), Float(2), bins)
    assert bins.numpy().tolist() == [2, 5]
    shift = dr.kernel(
        "def shift(i, x, y):\n"
        "    scatter(f32, y, load(f32, x, i), (lane(i) + 1) % 4, True)".replace(
            "(lane(i) + 1) % 4", "remainder(lane(i) + 1, 4)"
        )
    )
    x = Float(1, 2, 3, 4)
    shift(x, x)  # reads what was there before
    assert x.numpy().tolist() == [4, 1, 2, 3]


def test_pending_updates_come_first(tier):
    bins = dr.zeros(Float, 2)
    dr.scatter_add(bins, Float(1, 1), UInt(0, 1))
    histogram(UInt(1), Float(5), bins)
    dr.scatter_add(bins, Float(1, 1), UInt(0, 1))
    assert bins.numpy().tolist() == [2, 7]


def test_an_edited_text(tier):
    x = dr.opaque(Float, 4, 3)
    text = dr.kernel_source(dr.sqrt(x) + 1)
    same, edited = dr.kernel(text), dr.kernel(text.replace("sqrt(", "exp2("))
    assert same.source == text
    assert same(x, 1).numpy().tolist() == [3, 3, 3]
    assert edited(x, 2).numpy().tolist() == [18, 18, 18]
    dr.eval(y := dr.sqrt(x) + 1)
    del y
    before = len(dr.kernels())
    dr.eval(same(x, 1))
    assert len(dr.kernels()) == before  # it is the same kernel


def test_history_and_table():
    dr.flush_kernel_cache()
    entry, = launched(lambda: saxpy(2, Float(1, 2), Float(3, 4)))  # fmt: skip
    assert entry["size"] == 2 and entry["source"] == saxpy.source
    assert (entry["input_count"], entry["output_count"]) == (2, 1)
    assert saxpy.source in [row.source for row in dr.kernels()]


def test_what_it_becomes():
    assert "define void" in saxpy.llvm and "@llvm.fma" in saxpy.llvm
    assert "ret" in saxpy.asm
    assert ".entry" in saxpy.ptx and "ld.global" in saxpy.ptx


@pytest.mark.processor
def test_stepping(monkeypatch: pytest.MonkeyPatch):
    seen = []

    def stop() -> None:
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_name, frame.f_locals["i"].end))

    monkeypatch.setattr(sys, "breakpointhook", stop)
    assert saxpy.step(2, Float(1, 2) + 0, Float(3, 4)).numpy().tolist() == [5.25, 8.25]
    assert seen == [("kernel", 2)]
    assert not dr.flag(dr.JitFlag.Debug) and not dr.flag(dr.JitFlag.Breakpoint)


def test_debug_mode_names_lines():
    dr.flush_kernel_cache()
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        entry, = launched(lambda: saxpy(2, Float(1, 2), Float(3, 4)))  # fmt: skip
    assert "# test_text_kernels.py:" in entry["source"]
    assert "ax = literal(f32, a) * load(f32, x, i)" in entry["source"]


def test_traps_know_the_names_of_variables():
    text = "def k(i, x, y):\n    angle = load(f32, x, i)\n    store(f32, y, i, sqrt(angle) + 1)"
    root = dr.kernel(text)
    with dr.scoped_set_flag(dr.JitFlag.Debug), dr.scoped_set_flag(dr.JitFlag.TrapNaN):
        with pytest.raises(FloatingPointError, match=r"nan in lane 1: .*operands: -1.0"):
            root(Float(1, -1)).numpy()
        assert np.isnan(root(Float(np.nan)).numpy()).all()


# ---- Vectors in memory

VECTORS = """
    def kernel(i, scale, x, factor, y, length):
        v = load_vector(f32, 3, x, i) * broadcast_vector(f32, 3, factor)
        v = fma(v, literal(f32, scale), 1.0)
        store_vector(f32, 3, y, i, v)
        store(f32, length, i, total(v))
"""


@pytest.mark.processor
@pytest.mark.parametrize("target", ROUTES)
def test_vectors_in_memory(target: str, monkeypatch: pytest.MonkeyPatch):
    """They are cooperative vectors; results can be arguments."""
    kernel = dr.kernel(VECTORS)
    with route(target, monkeypatch) as types:
        factor = nn.CoopVec(types.Float(1), 2, 3)
        for n in (0, 1, 15, 17, 64, 65, 1000):
            x = dr.arange(types.Float, n)
            y, length = kernel(2, nn.CoopVec(x, x + 1, 4), factor)
            assert type(y) is nn.CoopVec and y.type is types.Float
            again, _ = kernel(scale=1, factor=factor, x=y)
            i = np.arange(n, dtype="f")
            want = np.stack([2 * i + 1, 4 * i + 5, 0 * i + 25])
            assert [v.numpy().tolist() for v in y] == want.tolist()
            assert length.numpy().tolist() == want.sum(0).tolist()
            want = want * np.array([[1], [2], [3]]) + 1
            assert [v.numpy().tolist() for v in again] == want.tolist()


@pytest.mark.parametrize("code", ["i8", "u32", "i64", "f16", "f64"])
def test_element_types_of_vectors_in_memory(code: str, tier):
    name = next(name for t, name in table.LEAF_NAME.items() if t.code == code)
    cls = getattr(dr.llvm, name)
    swap = dr.kernel(f"""
        def swap(i, x, y):
            v = load_vector({code}, 2, x, i)
            store_vector({code}, 2, y, i, vector({code}, feature(v, 1), feature(v, 0) + 1))
    """)
    x = cls(dr.arange(dr.llvm.UInt, 70))
    first, second = swap(nn.CoopVec(x, x * 0 + 7))
    assert type(first) is cls and set(first.numpy()) == {7}
    np.testing.assert_array_equal(second.numpy(), np.arange(70) + 1)


def test_wrong_vectors():
    kernel, factor = dr.kernel(VECTORS), nn.CoopVec(Float(1), 2, 3)
    assert repr(kernel) == (
        "<kernel kernel(scale: f32 number, x: vector of 3 f32 features, factor: vector of 3 f32 "
        "features of 1 entry) -> vector of 3 f32 features, f32 array>"
    )
    wrong = [
        (Float(1, 2), TypeError, r"got a drjit.llvm.ad.Float: nn.CoopVec\(x, y, z\)"),
        (nn.CoopVec(Float(1, 2), 3), TypeError, "x is a cooperative vector of 3 .*of 2 Float"),
        (nn.CoopVec(dr.llvm.ad.Float16(1), 3, 4), TypeError, "got a .* of 3 Float16"),
    ]
    for x, error, message in wrong:
        with pytest.raises(error, match=message):
            kernel(1, x, factor)
    x = Float(1, 2)
    with pytest.raises(RuntimeError, match="factor has 1 entry for all lanes"):
        kernel(1, factor, nn.CoopVec(x, 1, 2))
    dr.enable_grad(x)
    with pytest.raises(RuntimeError, match=r"x is a differentiable vector.*Pass dr.detach"):
        kernel(1, nn.CoopVec(x, 1, 2), factor)
    y, _ = kernel(1, dr.detach(nn.CoopVec(x, 1, 2)), factor)
    assert next(iter(y)).numpy().tolist() == [2, 3]


# ---- Ctrl-C


@pytest.mark.processor
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interrupt_ends_an_endless_loop(tier, monkeypatch: pytest.MonkeyPatch):
    """What follows runs as always, also the same kernel."""
    monkeypatch.setattr("drjit.jit.device.GRACE_SECONDS", 0.2)
    halve = dr.kernel("""
        def halve(i, p):
            x = load(f32, p[1], i)
            while any_lane(x > 0):
                x = select(x > 0, x * 0.5 + 1, x)
            store(f32, p[2], i, x)
    """)
    assert "going(p[0], " in halve.source
    assert halve(Float(-1, -2)).numpy().tolist() == [-1, -2]  # it is there, and ends

    def endless():
        return halve(Float(1, -1)).numpy()

    if tier == "compiled":  # the call only queues it: the interrupt is to end a wait
        endless = halve(Float(1, -1)).numpy
    timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        endless()
        time.sleep(10)
    timer.join()
    assert halve(Float(-1, -2)).numpy().tolist() == [-1, -2]
    assert saxpy(2, Float(1, 2), Float(3, 4)).numpy().tolist() == [5.25, 8.25]


# ---- Where they are called


def test_in_frozen_functions(tier):
    @dr.freeze
    def frozen(x: Float, bins: Float) -> Float:
        histogram(UInt(x) % 2, x + 1, bins)
        return saxpy(2, x * 2, x) + 1

    bins = dr.zeros(Float, 2)
    want = np.zeros(2)
    for n in (3, 17, 40, 5, 3):
        x = np.arange(n, dtype=np.float32)
        found = frozen(Float(x), bins)
        np.testing.assert_array_equal(found.numpy(), x * 5 + 1.25)
        want += np.bincount(np.arange(n) % 2, x + 1, 2)
        np.testing.assert_array_equal(bins.numpy(), want)
    assert frozen.n_recordings <= 2


@pytest.mark.processor
def test_in_exported_functions(tmp_path):
    pytest.importorskip("numba")

    def function(x: Float, y: Float) -> Float:
        return saxpy(2, x + 1, y) * 3

    path = dr.export(function, Float(1, 2), Float(3, 4), path=tmp_path / "function.py")
    found = runpy.run_path(str(path))["function"](np.arange(5), np.ones(5))
    np.testing.assert_array_equal(found, function(dr.arange(Float, 5), dr.full(Float, 1, 5)))


def test_in_several_threads():
    found: list[list[float]] = []

    def work(k: int) -> None:
        for n in range(20):
            found.append(saxpy(k, dr.full(Float, n, 3), Float(1, 2, 3)).numpy().tolist())

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    want = [[k * n + j + OFFSET for j in (1, 2, 3)] for k in range(3) for n in range(20)]
    assert sorted(found) == sorted(want)


def test_another_number_is_no_other_kernel():
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        for a in (1, 2.5, 1e9):
            saxpy(a, Float(1, 2), Float(3, 4))
        assert len({entry["hash"] for entry in dr.kernel_history()}) == 1


def test_in_symbolic_bodies():
    x, bins = dr.opaque(Float, 1, 3), dr.zeros(Float, 1)

    @dr.syntax
    def loop(inner: Callable, mode: str) -> Float:
        k, total = UInt(0, 0, 0), Float(0)
        while dr.hint(k < 2, mode=mode):
            total += inner(total)
            k += 1
        return total

    constant = loop(lambda total: saxpy(2, x, x), "symbolic")
    assert constant.numpy().tolist() == [6.5, 6.5, 6.5]
    with pytest.raises(RuntimeError) as error:
        loop(lambda total: saxpy(2, total, total), "symbolic")
    assert "x is not evaluated" in str(error.value)
    with pytest.raises(RuntimeError) as error:
        loop(lambda total: histogram(UInt(0), Float(0), bins), "symbolic")
    assert "it writes to bins" in str(error.value)
    evaluated = loop(lambda total: saxpy(2, x, total + dr.zeros(Float, 3)), "evaluated")
    assert evaluated.numpy().tolist() == [6.75, 6.75, 6.75]
    with pytest.raises(RuntimeError) as error:
        loop(lambda total: histogram(UInt(0), Float(0), bins), "evaluated")
    assert "for some lanes only" in str(error.value)


def test_derivatives_are_unknown():
    x = Float(1, 2)
    dr.enable_grad(x)
    with pytest.raises(RuntimeError, match=r"derivatives of saxpy\(\) are unknown"):
        dr.backward(saxpy(2, x, x))
    dr.enable_grad(x)
    assert not dr.grad_enabled(saxpy(2, dr.detach(x), dr.detach(x)))
    bins = dr.zeros(Float, 2)
    histogram(UInt(0, 1), x, bins)
    with pytest.raises(RuntimeError, match=r"derivatives of histogram\(\) are unknown"):
        dr.backward(bins)
    bins = dr.zeros(Float, 2)
    dr.enable_grad(bins)
    with pytest.raises(RuntimeError, match="bins is written to, but it is differentiable"):
        histogram(UInt(0, 1), Float(1, 2), bins)


def test_derivatives_of_ones_own():
    class Saxpy(dr.CustomOp):
        def eval(self, a, x, y):
            self.a = a
            return saxpy(a, x, y)

        def backward(self):
            g = self.grad_out()
            self.set_grad_in("x", self.a * g)
            self.set_grad_in("y", g)

        def forward(self):
            self.set_grad_out(self.a * self.grad_in("x") + self.grad_in("y"))

    x = Float(1, 2)
    dr.enable_grad(x)
    dr.backward(dr.custom(Saxpy, 2, x, Float(0, 0)) * 3)
    assert x.grad.numpy().tolist() == [6, 6]


DOUBLE_WELL = """
    def well(i, a, x, b, y, s):
        v = load(f64, x, i)
        w = v * v - broadcast(f64, b)
        store(f64, y, i, literal(f64, a) * w * w)
        reduce(f64, 'add', s, i, 2 * w)
"""


def broadcast(b: Any, x: Any) -> Any:
    """Returns an array of one entry in the lanes of another one, of which there may be none."""
    return dr.gather(Float64, b, dr.zeros(UInt, dr.width(x)))


def well(a: float, x: Any, b: Any) -> tuple[Any, Any]:
    w = x * x - broadcast(b, x)
    return a * w * w, dr.sum(2 * w)


def well_slopes(a: float, x: Any, b: Any) -> tuple:
    w = x * x - broadcast(b, x)
    return (4 * a * w * x, -2 * a * w), (4 * x, -2)


SLOPES_AS_KERNEL = """
    def slopes(i, a, x, b, yx, yb, tx, tb):
        v = load(f64, x, i)
        w = (v * v - broadcast(f64, b)) * literal(f64, a)
        store(f64, yx, i, 4 * w * v)
        store(f64, yb, i, -2 * w)
        store(f64, tx, i, 4 * v)
        store(f64, tb, i, f64(-2))
"""


@pytest.mark.parametrize("n", [0, 1, 17, 1000])
@pytest.mark.parametrize("slopes", [well_slopes, SLOPES_AS_KERNEL], ids=["function", "kernel"])
def test_partial_derivatives(slopes: Any, n: int, tier):
    """Those of a text are those of the same program, traced, in both directions."""
    kernel = dr.kernel(DOUBLE_WELL, derivative=slopes)
    found: list = []
    for function in (kernel, well):
        x, b = dr.linspace(Float64, -1, 2, n), Float64(0.5)
        dr.enable_grad(x, b)
        y, total = function(3, x, b)
        dr.backward(dr.sum(y * y) + 5 * total)
        gradients = [dr.grad(x), dr.grad(b)]
        y, total = function(3, x, b)
        dr.set_grad(x, 2)
        dr.set_grad(b, 7)
        dr.forward_to(y, total)
        found.append([v.numpy() for v in (*gradients, dr.grad(y), dr.grad(total))])
    for got, want in zip(*found, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, 1e-12, 1e-12)


def test_partial_derivatives_are_those_of_finite_differences():
    kernel = dr.kernel(DOUBLE_WELL, derivative=SLOPES_AS_KERNEL)
    x, step = np.linspace(-1, 2, 9), 1e-6
    values = [kernel(3, Float64(x + h), Float64(0.5))[0].numpy() for h in (step, -step)]
    given = Float64(x)
    dr.enable_grad(given)
    dr.backward(kernel(3, given, Float64(0.5))[0])
    slopes = (values[0] - values[1]) / (2 * step)
    np.testing.assert_allclose(given.grad.numpy(), slopes, 1e-7, 1e-7)


PICK = "def pick(i, t, k, y):\n    store(f32, y, i, gather(f32, t, load(u32, k, i), True))"


def picked_gradient(t: Float, k: UInt, g: Float) -> Float:
    result = dr.zeros(Float, len(t))
    dr.scatter_add(result, g, k)
    return result


def test_gradients_and_tangents_of_lanes_that_depend_on_each_other(tier):
    pick = dr.kernel(PICK, backward=picked_gradient, forward=lambda t, k, d: dr.gather(Float, d, k))
    table, k = Float(1, 2, 3), UInt(1, 1, 2, 2, 2)
    dr.enable_grad(table)
    dr.backward(pick(table + 0, k) * 2)
    assert table.grad.numpy().tolist() == [0, 4, 6]
    dr.set_grad(table, Float(5, 6, 7))
    dr.forward_to(y := pick(table, k))
    assert dr.grad(y).numpy().tolist() == [6, 6, 7, 7, 7]


def test_derivatives_are_of_values_at_the_call():
    """Arrays that change afterwards do not change them."""
    square = dr.kernel(
        "def square(i, x, y):\n    v = load(f32, x, i)\n    store(f32, y, i, v * v)",
        derivative=lambda x: 2 * x,
    )
    x = Float(1, 2)
    dr.enable_grad(x)
    shared = dr.detach(x)
    y = square(x)
    dr.scatter(shared, Float(9), UInt(0))
    dr.backward(y)
    assert x.grad.numpy().tolist() == [2, 4] and shared.numpy().tolist() == [9, 2]
    twice = dr.freeze(lambda x: dr.grad(_differentiated(square, x)))
    for n in (3, 4, 5):
        assert twice(dr.arange(Float, n)).numpy().tolist() == [2 * k for k in range(n)]
    half = square(Float(1.5, 2))  # no derivatives are tracked
    assert not dr.grad_enabled(half)


def _differentiated(function: Callable, x: Float) -> Float:
    dr.enable_grad(x)
    dr.backward(function(x))
    return x


def test_mistakes_in_derivatives():
    x = Float(1, 2)
    dr.enable_grad(x)
    text = "def square(i, x, y):\n    v = load(f32, x, i)\n    store(f32, y, i, v * v)"
    wrong = [
        (lambda x: (x, x), TypeError, "returned 2 values; expected 1 partial derivatives"),
        (lambda x: "2x", TypeError, "returned a str; expected arrays, numbers, or None"),
        (lambda x: Float(1, 2, 3), RuntimeError, "returned an array of size 3"),
    ]
    for rule, error, message in wrong:
        with pytest.raises(error, match=message):
            dr.backward(dr.kernel(text, derivative=rule)(x))
    with pytest.raises(RuntimeError, match="in this direction: backward= is given"):
        dr.set_grad(x, 1)
        dr.forward_to(dr.kernel(text, backward=lambda x, g: g)(x))
    with pytest.raises(TypeError, match=r"t of pick.. is read at any position .*pass backward="):
        dr.kernel(PICK, derivative=lambda t, k: 1)
    with pytest.raises(TypeError, match=r"derivative= is a function of arrays.*got int"):
        dr.kernel(text, derivative=3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"y of add.. is changed .*dr.CustomOp"):
        dr.kernel("def add(i, x, y):\n    scatter_reduce(f32, 'add', 'direct', y, "
                  "load(f32, x, i), lane(i), True)", derivative=lambda x, y: 1)  # fmt: skip


# ---- Mistakes

HEAD = "def k(i, p):\n    x = load(f32, p[1], i)\n"
STORE = "    store(f32, p[9], i, x)\n"
V = HEAD + "    v = vector(f32, x, x, x)\n    u = vector(f32, x, x)\n"
MISTAKES = [
    ("def k(i, p):\n    x = load(f32 p[1], i)\n", 2, "invalid syntax"),
    ("x = 3\n", 1, "a kernel text consists of functions"),
    ("", 1, "a kernel text begins with a function"),
    ("def k(p, i):\n    pass\n", 1, "the parameters of a kernel are i"),
    ("def k(i, x, y):\n    store(f32, x, i, x + 1)\n", 2, "x is a parameter: load(f32, x, i)"),
    ("def k(i, x, y, z):\n    store(f32, y, i, load(f32, x, i))\n", 1, "z is never used"),
    (HEAD, 1, "computes nothing"),
    (HEAD + "    y = x + n\n", 3, "the name n is undefined"),
    (HEAD + "    y = sinn(x)\n", 3, "the function sinn is unknown (did you mean sin?)"),
    (HEAD + "    y = x + load(u32, p[2], i)\n", 3, "the operands of + have the types f32 and u32"),
    (HEAD + "    y = x & x\n", 3, "& does not exist for f32"),
    (HEAD + "    y = u8(x) + 300\n", 3, "300 is no u8"),
    (HEAD + "    y = 3\n", 3, "3 has no type"),
    (HEAD + "    s = sincos(x)\n", 3, "2 values for 1 name"),
    (HEAD + "    y = select(x, x, x)\n", 3, "the condition of select is f32, not mask"),
    (HEAD + "    y = bitcast(f64, x)\n", 3, "f32 and f64 differ in size"),
    (HEAD + "    y = x ** 2\n", 3, "pow(x, y)"),
    (HEAD + "    m = x > 0 and x < 1\n", 3, "masks are combined by & and |"),
    (HEAD + "    y = x.sum()\n", 3, "only plain calls"),
    (HEAD + "    store(u32, p[2], i, x)\n", 3, "x is f32, not u32"),
    (HEAD + "    store(f32, p[1], i, x)\n", 3, "p[1] is a result, but in line 2"),
    (HEAD + STORE + STORE, 4, "p[9] is a result again"),
    (HEAD + "    y = load(f64, p[1], i)\n", 3, "p[1] has the element type f64, but in line 2"),
    (HEAD + "    y = literal(f32, p[1])\n", 3, "p[1] is a number, but in line 2"),
    (HEAD + "    store(f32, p[0], i, x)\n", 3, "p[0] is the error record"),
    (HEAD + "    store(i16, p[2], i, i16(x))\n", 3, "there are no arrays of i16"),
    (HEAD + "    y = gather(f32, p[2], x, True)\n", 3, "x is f32, not an index"),
    (HEAD + "    y = gather(f32, p[2], lane(i), x)\n", 3, "x is f32, not mask"),
    (HEAD + "    y = gather(f32, p[2], lane(i))\n", 3, "gather takes more arguments"),
    (HEAD + "    y = scan(f32, 'add', p[2], i, x, True)\n", 3, "dr.prefix_reduce()"),
    (HEAD + "    y = reduce(f32, 'mean', p[2], i, x)\n", 3, "there is no reduction 'mean' of f32"),
    (HEAD + "    if x > 0:\n        x = x + 1\n", 3, "if any_lane(m):"),
    (HEAD + "    for q in range(3):\n        x = x + 1\n", 3, "loops are `while any_lane(m):`"),
    (HEAD + "    if any_lane(x > 0):\n        store(f32, p[2], i, x)\n", 4, "outside of loops"),
    (HEAD + "    if any_lane(x > 0):\n        x = u32(x)\n", 3, "x has the type f32 before"),
    (HEAD + "    if any_lane(x > 0):\n        z = x\n    store(f32, p[2], i, z)\n", 5,
     "z is assigned only in the body in line 3"),
    (HEAD + "    while any_lane(x > 1):\n        y = x\n", 3, "the loop never ends"),
    (HEAD + "    return x\n", 3, "a kernel returns nothing"),
    (HEAD + "    sin = x\n", 3, "the name sin has a meaning already"),
    (HEAD + "    y = f(i, p, x, x)\ndef f(i, p, a: f32):\n    return a\n", 3, "f takes (a: f32)"),
    (HEAD + STORE + "def f(i, p, a: f32):\n    return a\n", 4, "f is never called"),
    (HEAD + "    y = f(i, p, x)\ndef f(i, p, a: f32):\n    b = f(i, p, a)\n    return b\n", 5,
     "f calls itself"),
    (HEAD + "    v = vector(f32, x, x)\n    w = feature(v, 2)\n", 4, "the vector has 2 features"),
    (HEAD + "    store_vector(f32, 2, p[2], i, x)\n", 3, "x is f32, not a vector of 2 features"),
    (HEAD + "    v = load_vector(f32, 0, p[2], i)\n", 3, "a vector has at least 1 feature"),
    (HEAD + "    v = load_vector(f32, 2, p[1], i)\n", 3, "p[1] has the element type f32x2, but"),
    (HEAD + "    v = load_vector(u16, 2, p[2], i)\n", 3, "there are no arrays of u16"),
    (HEAD + "    scatter(f32, p[2], x, u32(x), True)\n    y = gather(f32, p[2], u32(x), True)\n", 4,
     "p[2] is an array to read from, but in line 3"),
    (V + "    w = v + u\n", 5, "the vectors have 2 and 3 features"),
    (V + "    w = v & v\n", 5, "& does not exist for f32"),
    (V + "    w = feature(x, 0)\n", 5, "x is not a vector"),
    (V + "    w = total(v < v)\n", 5, "total sums floats, not maskx3"),
    (V + "    w = take(v, x, True)\n", 5, "x is f32, not u32"),
    (V + "    w = put(v, 3, x, True)\n", 5, "the vector has 3 features"),
    (V + "    w = put(v, 1, f16(x), True)\n", 5, "is f16, not f32"),
    (V + "    w = select(v, v, v)\n", 5, "the condition of select is f32x3, not mask"),
    (V + "    w = vector(f32)\n", 5, "a vector has at least 1 feature"),
    (V + "    w = sin(v, v)\n", 5, "sin takes 1 operands, not 2"),
    (V + "    store(f32, p[2], i, v)\n", 5, "v is f32x3, not f32"),
    (V + "    w = matvec(f32, p[3], p[4], 4, 5, 5, False, v)\n", 5,
     "the factor is f32x3, not f32x5"),
    (V + "    w = matvec(f16, p[3], p[4], 4, 3, 3, False, v)\n", 5,
     "the factor is f32x3, not f16x3"),
    (V + "    outer(f32, p[3], p[4], p[5], p[6], 3, 3, 3, v, u, True)\n", 5,
     "the factors are f32x3 and f32x2"),
    (V + "    w = u32(u)\n    accumulate(u32, p[3], p[4], p[5], p[6], w, True)\n", 6,
     "there are no such sums of u32"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "message"), MISTAKES, ids=[m[2][:40] for m in MISTAKES])
def test_mistakes_in_texts(text: str, line: int, message: str):
    with pytest.raises(SyntaxError) as error:
        dr.kernel(text)
    assert error.value.lineno == line
    assert message in str(error.value)
    if text:
        statement = text.splitlines()[line - 1].strip()
        assert str(error.value).startswith(statement.removesuffix(":"))


def test_mistakes_in_functions():
    def wrong(i, x, y):
        z = load(f32, x, i) + constants
        store(f32, y, i, z)

    constants = np.zeros(3)
    with pytest.raises(SyntaxError) as error:
        dr.kernel(wrong)
    assert error.value.filename == __file__
    assert error.value.lineno == wrong.__code__.co_firstlineno + 1
    assert "constants is a ndarray outside of the kernel" in str(error.value)
    del constants
    for value in (3, print, lambda i, p: None):
        with pytest.raises(TypeError, match=r"dr\.kernel"):
            dr.kernel(value)  # type: ignore[arg-type]


MIXED = dr.kernel("""
    def mixed(i, p):
        x = load(f32, p[1], i)
        n = literal(i32, p[2])
        y = gather(f32, p[3], bitcast(u32, n), active(i))
        b = broadcast(f32, p[4])
        scatter(f32, p[5], y * x + b, lane(i), active(i))
        store(f32, p[6], i, y)
""")
X, ONE = Float(1, 2), Float(5)
WRONG = [
    ((X,), TypeError, "missing a required argument: 'n'"),
    ((X, 1, X, ONE, X, 3), TypeError, "too many positional arguments"),
    ((np.zeros(2), 1, X, ONE, X), TypeError, "x is an array of type Float .*got a numpy.ndarray"),
    ((Array3f(1), 1, X, ONE, X), TypeError, "pass its components"),
    ((TensorXf([1.0, 2.0]), 1, X, ONE, X), TypeError, "pass its .array"),
    ((UInt(1, 2), 1, X, ONE, X), TypeError, r"Float\(x\) converts"),
    ((Float64(1, 2), 1, X, ONE, X), TypeError, r"Float\(x\) converts"),
    ((dr.scalar.ArrayXf(1, 2), 1, X, ONE, X), TypeError, "x is an array of type Float"),
    ((X, 1.5, X, ONE, X), TypeError, "n is an integer .*got 1.5"),
    ((X, "a", X, ONE, X), TypeError, "n is a number .*got a str"),
    ((X, X, X, ONE, X), TypeError, r"broadcast\(i32, p\[k\]\) reads one entry"),
    ((X, 1 << 40, X, ONE, X), OverflowError, "n is an i32"),
    ((X, 1, X, X, X), RuntimeError, "b has 1 entry for all lanes"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), WRONG, ids=[w[2][:30] for w in WRONG])
def test_wrong_arguments(arguments: tuple, error: type, message: str):
    with pytest.raises(error, match=message):
        MIXED(*arguments)


def test_wrong_names_and_sizes():
    with pytest.raises(TypeError, match="unexpected keyword argument 'q'"):
        MIXED(X, 1, X, ONE, X, q=3)
    with pytest.raises(TypeError, match="multiple values for argument 'x'"):
        MIXED(X, 1, X, ONE, X, x=X)
    with pytest.raises(RuntimeError, match="x has 2, size is 3"):
        MIXED(X, 1, X, ONE, Float(X), size=3)
    numbers = dr.kernel("def numbers(i, p):\n    store(u32, p[1], i, lane(i))")
    assert numbers(size=4).numpy().tolist() == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="no array has an entry for each lane"):
        numbers()
    with pytest.raises(ValueError, match="got -1"):
        numbers(size=-1)
    with pytest.raises(TypeError, match=r"got 2\.5"):
        numbers(size=2.5)  # type: ignore[arg-type]
    text = "def both(i, x, y, z):\n    store(f32, z, i, load(f32, x, i) + load(f32, y, i))"
    both = dr.kernel(text)
    with pytest.raises(RuntimeError, match="x has 2, y has 1"):
        both(X, ONE)


def test_indices_out_of_bounds(tier):
    target = dr.zeros(Float, 2)
    found = MIXED(X, -1, X, ONE, target)
    with pytest.raises(
        IndexError, match=r"gather\(\): index -1 is out of .* size 2 \(lane 0; at .*:4"
    ):
        found.numpy()
    found = MIXED(X, 0, X, ONE, target := dr.zeros(Float, 1))
    with pytest.raises(IndexError, match=r"scatter\(\): index 1 is out of bounds .*:6 in mixed"):
        target.numpy()


def test_products_are_within_their_arrays():
    text = """
    def product(i, p):
        v = vector(f32, load(f32, p[1], i), 1.0)
        w = matvec(f32, p[2], p[3], 2, 2, 2, False, v)
        store(f32, p[4], i, feature(w, 0) + feature(w, 1))
    """
    product = dr.kernel(text)
    matrix = Float(0, 1, 2, 3, 4)
    assert product(Float(1, 2), matrix, 1).numpy().tolist() == [10, 14]
    for offset in (2, -1):
        with pytest.raises(IndexError, match=f"entries {offset} to {offset + 3} of p2"):
            product(Float(1, 2), matrix, offset)


def test_indexed_features_are_within_their_vector(tier):
    text = """
    def chosen(i, p):
        k = load(u32, p[1], i)
        v = vector(f32, f32(k), 5, 7)
        v = put(v, k, 1.0, active(i))
        store(f32, p[2], i, take(v, k + 1, active(i)))
    """
    chosen = dr.kernel(text)
    assert chosen(UInt(0, 1)).numpy().tolist() == [5, 7]
    with pytest.raises(IndexError, match=r"take\(\): index 3 is out of bounds .* size 3"):
        chosen(UInt(0, 2)).numpy()
