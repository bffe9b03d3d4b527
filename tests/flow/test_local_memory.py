"""Local memory as memory of compiled kernels: random programs of accesses, loops and branches
against a loop over lanes, all element types, the text of kernels, and packets of any width."""

import copy
import ctypes
import pickle

import numpy as np
import pytest
from helpers import DEVICE, entries
from hypothesis import given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit.jit.target import image, simd
from drjit.llvm import (
    Array3f,
    Bool,
    Float,
    Float16,
    Float64,
    Int,
    Int8,
    Int64,
    UInt,
    UInt8,
    UInt64,
    ad,
)

pytestmark = pytest.mark.usefixtures("tier", "computing_nodes")
TYPES = [Bool, Int8, UInt8, Int, UInt, Int64, UInt64, Float16, Float, Float64]


def text_with(size):
    """The text of the kernel that has vectors of that many features, which no other test has."""
    (text,) = [k.text for k in DEVICE.kernels() if f"splat(u32, {size}," in k.text]
    return text


def contents(local, n):
    dr.eval(local)
    found = entries([local[k] for k in range(len(local))])
    return np.stack([np.broadcast_to(a, n) for a in found])


# ---- Random programs. An index, value or mask depends on the lane, the counter of the loop around
# and what was read last.

numbers = st.integers(0, 50)
index = st.tuples(st.sampled_from(["constant", "varying", "read"]), numbers)
mask = st.tuples(st.sampled_from(["all", "lane", "read"]), numbers)
access = st.one_of(
    st.tuples(st.just("write"), index, mask),
    st.tuples(st.just("read"), index, mask),
    st.tuples(st.just("copy")),
    st.tuples(st.just("back")),
)
program = st.lists(
    st.recursive(
        access,
        lambda inner: st.one_of(
            st.tuples(st.just("loop"), st.integers(0, 4), st.lists(inner, max_size=4)),
            st.tuples(
                st.just("branch"),
                mask,
                st.lists(inner, max_size=3),
                st.lists(inner, max_size=3),
            ),
        ),
        max_leaves=8,
    ),
    max_size=8,
)


class Traced:
    """Runs a program on arrays."""

    def __init__(self, size, n, mode):
        self.size, self.mode = size, mode
        self.lane = dr.arange(UInt, n)

    def index(self, spec, last, i):
        kind, k = spec
        if kind == "constant":
            return k % self.size
        return (self.lane * 7 + i * 3 + k + (last if kind == "read" else 0)) % self.size

    def mask(self, spec, last, i):
        kind, k = spec
        if kind == "all":
            return Bool(True)
        return (self.lane * 5 + i + k + (last if kind == "read" else 0)) % 3 != 0

    def run(self, ops, state, i):
        for op in ops:
            state = getattr(self, op[0])(state, i, *op[1:])
        return state

    def write(self, state, i, where, mask):
        local, other, last = state
        local.write(last * 3 + self.lane + i, self.index(where, last, i), self.mask(mask, last, i))
        return local, other, last

    def read(self, state, i, where, mask):
        local, other, last = state
        return local, other, local.read(self.index(where, last, i), self.mask(mask, last, i)) + 1

    def copy(self, state, i):
        return state[0], dr.Local(state[0]), state[2]

    def back(self, state, i):
        return state[1], state[0], state[2]

    def loop(self, state, i, rounds, ops):
        def body(j, local, other, last):
            return (j + 1, *self.run(ops, (local, other, last), j))

        def going(j, *state):
            return j < rounds + self.lane % 2

        _, *state = dr.while_loop((UInt(0), *state), going, body, mode=self.mode)
        return tuple(state)

    def branch(self, state, i, mask, yes, no):
        def case(ops):
            return lambda local, other, last, i: self.run(ops, (local, other, last), i)

        chosen = self.mask(mask, state[2], i)
        return dr.if_stmt((*state, UInt(i)), chosen, case(yes), case(no), mode=self.mode)


class Model:
    """Runs a program for one lane."""

    def __init__(self, size, lane):
        self.size, self.lane = size, lane
        self.local, self.other, self.last = [0] * size, [0] * size, 0

    def index(self, spec, i):
        kind, k = spec
        if kind == "constant":
            return k % self.size
        return (self.lane * 7 + i * 3 + k + (self.last if kind == "read" else 0)) % self.size

    def mask(self, spec, i):
        kind, k = spec
        return kind == "all" or (
            (self.lane * 5 + i + k + (self.last if kind == "read" else 0)) % 3 != 0
        )

    def run(self, ops, i):
        for kind, *rest in ops:
            if kind == "write":
                where, mask = self.index(rest[0], i), self.mask(rest[1], i)
                if mask:
                    self.local[where] = (self.last * 3 + self.lane + i) % 2**32
            elif kind == "read":
                where, mask = self.index(rest[0], i), self.mask(rest[1], i)
                self.last = (self.local[where] if mask else 0) + 1
            elif kind == "copy":
                self.other = [*self.local]
            elif kind == "back":
                self.local, self.other = self.other, self.local
            elif kind == "loop":
                for j in range(rest[0] + self.lane % 2):
                    self.run(rest[1], j)
            else:
                self.run(rest[1] if self.mask(rest[0], i) else rest[2], i)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.compiled_every(2)
@settings(max_examples=40)
@given(ops=program, size=st.sampled_from([1, 2, 4, 9, 17]), n=st.sampled_from([1, 15, 17]))
def test_random_programs(mode, ops, size, n):
    start = (dr.alloc_local(UInt, size), dr.alloc_local(UInt, size), dr.zeros(UInt, n))
    local, other, last = Traced(size, n, mode).run(ops, start, 0)
    dr.eval(local, other, last)
    models = [Model(size, lane) for lane in range(n)]
    for model in models:
        model.run(ops, 0)
    np.testing.assert_array_equal(contents(local, n).T, [m.local for m in models])
    np.testing.assert_array_equal(contents(other, n).T, [m.other for m in models])
    np.testing.assert_array_equal(np.broadcast_to(last.numpy(), n), [m.last for m in models])


# ---- Types, sizes, widths


@pytest.mark.parametrize(
    ("cls", "size"),
    [
        *((cls, size) for cls in TYPES for size in (1, 3, 8, 9)),
        *((cls, 300) for cls in (Bool, UInt8, Float16, UInt, Float64)),  # one of each width
    ],
)
@pytest.mark.compiled_every(3)
def test_every_element_type(cls, size):
    n = 37
    rng = np.random.default_rng(size)
    kind = cls(1).numpy().dtype
    raw = rng.integers(0, 256, (4, n, 8), np.uint8).view(np.uint64)[..., 0]
    if cls is Bool:
        values = raw % 2 == 0
    else:
        values = (rng.normal(size=(4, n)) if kind.kind == "f" else raw).astype(kind)
    indices = rng.integers(0, size, (4, n))
    active = rng.integers(0, 2, (4, n)).astype(bool)
    first = cls(values[0])
    local, model = dr.alloc_local(cls, size, first), np.repeat(values[:1], size, 0)
    lanes = np.arange(n)
    found = []
    for k in range(1, 4):
        local.write(cls(values[k]), UInt(indices[k]), Bool(active[k]))
        model[indices[k][active[k]], lanes[active[k]]] = values[k][active[k]]
        found.append(local.read(UInt(indices[k - 1])))
        np.testing.assert_array_equal(found[-1].numpy(), model[indices[k - 1], lanes])
    local[size - 1] = cls(values[3])
    model[size - 1] = values[3]
    assert type(found[0]) is cls
    np.testing.assert_array_equal(contents(local, n), model)


@pytest.mark.parametrize("cls", [Bool, Int8, Float16, Float64, Array3f])
@pytest.mark.parametrize("size", [5, 20])
def test_loops_with_every_width(cls, size):
    n = 19
    lane = dr.arange(UInt, n)
    kind = np.float32 if cls is Array3f else cls(1).numpy().dtype

    def body(i, local):
        local[(i * 3 + lane) % size] = cls(i + lane)
        return i + 1, local

    _, local = dr.while_loop((UInt(0), dr.alloc_local(cls, size)), lambda i, _: i < 7, body)
    model = np.zeros((n, size), kind)
    for k in range(n):
        for i in range(7):
            model[k, (i * 3 + k) % size] = kind.type(i + k) if cls is not Array3f else i + k
    found = [a.reshape(-1, n)[-1] for a in entries([local[k] for k in range(size)])]
    np.testing.assert_array_equal(np.transpose(found), model)


# ---- What kernels look like


def loop_text(rounds, size):
    """The body of the loop of a kernel that counts."""
    lane = dr.arange(UInt, 32)

    def body(i, local):
        k = (i + lane) % size
        local[k] = local[k] + 1
        return i + 1, local

    start = (UInt(0), dr.alloc_local(UInt, size))
    _, local = dr.while_loop(start, lambda i, _: i < rounds, body)
    assert local.read(lane % size).numpy().sum() > 0
    return text_with(size)


def test_a_loop_writes_in_place():
    size = 211
    text = loop_text(3, size)
    assert text.count("put(") == text.count("splat(") == 1 and text.count("take(") == 2
    assert f"splat(u32, {size}," in text
    vector = next(line.split()[0] for line in text.splitlines() if "splat(" in line)
    assert f"select({vector}" not in text and f", {vector})" not in text
    assert simd.compile(text, "k").ir.count("alloca [") == 1


def test_branches_write_in_place():
    size, lane = 213, dr.arange(UInt, 32)

    def body(i, local):
        def write(local):
            local[i + lane] = i
            return local

        def clear(local):
            local[i] = 0
            return local

        return i + 1, dr.if_stmt((local,), lane % 2 == i % 2, write, clear)

    start = (UInt(0), dr.alloc_local(UInt, size))
    _, local = dr.while_loop(start, lambda i, _: i < 9, body)
    np.testing.assert_array_equal(local[lane + 8].numpy(), [8, 0] * 16)
    assert simd.compile(text_with(size), "k").ir.count("alloca [") == 1


def test_what_is_needed_again_is_copied():
    lane = dr.arange(UInt, 20)

    def body(i, local, before):
        before = dr.Local(local)
        local[(i + lane) % 30] = i + 1
        return i + 1, local, before

    start = (UInt(0), dr.alloc_local(UInt, 30), dr.alloc_local(UInt, 30))
    _, local, before = dr.while_loop(start, lambda i, *_: i < 4, body)
    assert (local[(lane + 3) % 30] == 4).numpy().all()
    assert (before[(lane + 3) % 30] == 0).numpy().all()
    assert (before[(lane + 2) % 30] == 3).numpy().all()


@pytest.mark.parametrize("lanes", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("code", ["mask", "u8", "i16", "u32", "f16", "f32", "u64", "f64"])
@pytest.mark.parametrize("count", [3, 12])
@pytest.mark.parametrize("tier", ["compiled"], indirect=True)
def test_packets_of_any_width(lanes, code, count):
    """The compiled text against the same text on NumPy."""
    text = f"""def kernel(i, p):
    x = load({code}, p[1], i)
    k = load(u32, p[2], i)
    j = load(u32, p[3], i)
    m = load(mask, p[4], i)
    y = load({code}, p[5], i)
    v = splat({code}, {count}, x)
    w = put(v, k, y, m)
    a = take(w, j, m)
    w = put(w, 1, y, m)
    u = put(w, j, x, m)
    b = take(w, j, m)
    c = take(u, k, m)
    d = feature(u, 1)
    store({code}, p[6], i, a)
    store({code}, p[7], i, b)
    store({code}, p[8], i, c)
    store({code}, p[9], i, d)
"""
    from drjit.jit.ir.dtype import BY_CODE
    from drjit.jit.target import numpy as numpy_target

    n, t = 128, BY_CODE[code].numpy
    rng = np.random.default_rng(lanes)

    def values():
        return rng.integers(0, 2 if code == "mask" else 100, n).astype(t)

    inputs = [values(), *rng.integers(0, count, (2, n), np.uint32), rng.integers(0, 2, n) > 0]
    inputs.append(values())
    expected, results = [[np.zeros(n, t) for _ in range(4)] for _ in range(2)]
    numpy_target.run(text, [np.zeros(6, np.int64), *inputs, *expected], n)
    built = simd.compile(text, "k", lanes=lanes)
    loaded = image.Loaded(built.code, "k", built.has_finish)
    arrays = [np.zeros(6, np.int64), *inputs, *results]
    words = np.array([a.ctypes.data for a in arrays], np.int64)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 5)(loaded.kernel)
    function(words.ctypes.data, 0, n, 0, 0)
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_lanes_of_a_packet_follow_from_the_memory():
    def text(count, more=""):
        return (
            "def kernel(i, p):\n"
            f"    v = splat(f32, {count}, c)\n"
            f"{more}"
            "    x = take(v, k, m)\n"
            "    while any_lane(m):\n"
        )

    widths = [simd.packet_lanes(text(n)) for n in (4, 1000, 4096, 65536)]
    assert (
        widths == sorted(widths, reverse=True)
        and widths[0] > simd.default_lanes()
        and widths[-1] == 4
    )
    assert simd.packet_lanes(text(4, "    y = matvec(f32, p[1])\n")) == 16


# ---- Larger programs


def test_insertion_sort():
    size, n = 12, 40
    values = np.random.default_rng(0).integers(0, 1000, (size, n)).astype(np.uint32)
    table = UInt(values.ravel())
    lane = dr.arange(UInt, n)

    def insert(i, local):
        x = dr.gather(UInt, table, i * n + lane)

        def shift(j, local):
            local[j] = local[j - 1]
            return j - 1, local

        def larger(j, local):
            return (j > 0) & (local.read(j - 1, j > 0) > x)

        j, local = dr.while_loop((UInt(i), local), larger, shift)
        local[j] = x
        return i + 1, local

    start = (UInt(0), dr.alloc_local(UInt, size))
    _, local = dr.while_loop(start, lambda i, _: i < size, insert)
    np.testing.assert_array_equal(contents(local, n), np.sort(values, axis=0))


def test_side_effects_in_a_loop_with_local_memory():
    n = 21
    lane, count = dr.arange(UInt, n), dr.zeros(UInt, 4)

    def body(i, local):
        k = (i + lane) % 4
        local[k] = local[k] + 1
        dr.scatter_inc(count, k)
        return i + 1, local

    _, local = dr.while_loop((UInt(0), dr.alloc_local(UInt, 4)), lambda i, _: i < 6, body)
    dr.eval(count)
    assert count.numpy().sum() == 6 * n
    assert contents(local, n).sum() == 6 * n
    np.testing.assert_array_equal(contents(local, n).sum(axis=1), count.numpy())


def test_opaque_memory():
    local = dr.alloc_local(Float, 3, Float(2))
    dr.make_opaque(local)
    assert local[1].state is dr.VarState.Evaluated
    local[1] = 5
    dr.eval(local)
    assert [v.numpy().tolist() for v in local] == [[2], [5], [2]]


def test_without_bounds_checks_nothing_else_is_written():
    with dr.scoped_set_flag(dr.JitFlag.BoundsChecks, False):
        a, b = dr.alloc_local(UInt, 20), dr.alloc_local(UInt, 20)
        a[UInt(0, 25, 1 << 31)] = 7
        b[UInt(1, 1, 2)] = 1
        dr.eval(a, b)
    assert contents(b, 3).sum() == 3 and contents(a, 3)[:-1].sum() == 7


# ---- Derivatives


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("size", [3, 11])
def test_derivatives_of_a_recurrence(mode, size):
    n, rounds, h = 5, 12, 1e-20

    def result(lib, x, lane, local, loop):
        def body(i, local):
            k = (i * 5 + lane) % size
            local[k] = local[k] * 0.5 + x * local[(k + 1) % size]
            return i + 1, local

        return loop(body, local)

    x = ad.Float64(np.linspace(0.5, 1.5, n))
    lane = dr.arange(ad.UInt, n)

    def traced(x):
        def loop(body, local):
            return dr.while_loop(
                (ad.UInt(0), local), lambda i, _: i < rounds, body, mode=mode, max_iterations=rounds
            )[1]

        local = result(dr, x, lane, dr.alloc_local(ad.Float64, size, x * x), loop)
        return dr.sqr(local[lane % size]) + local.read(lane % 2)

    def plain(x, lane):
        def loop(body, local):
            for i in range(rounds):
                body(i, local)
            return local

        local = result(np, x, lane, [x * x] * size, loop)
        return local[lane % size] ** 2 + local[lane % 2]

    expected = [plain(v + 1j * h, k).imag / h for k, v in enumerate(x.numpy())]
    y = ad.Float64(x)
    dr.enable_grad(y)
    dr.backward(traced(y))
    np.testing.assert_allclose(y.grad.numpy(), expected)
    y = ad.Float64(x)
    dr.enable_grad(y)
    z = traced(y)
    dr.set_grad(y, 1)
    dr.forward_to(z)
    np.testing.assert_allclose(z.grad.numpy(), expected)


def test_gradients_of_the_memory_itself():
    local = dr.alloc_local(ad.Float, 3, ad.Float(2))
    dr.enable_grad(local)
    x = local[ad.UInt(0, 2, 2)]
    dr.backward(x * x)
    assert [v.numpy().tolist() for v in dr.grad(local)] == [[4], [0], [8]]
    assert not dr.grad_enabled(dr.detach(local)[0])


def test_copies_are_independent_and_pickling_is_refused():
    local = dr.alloc_local(ad.Float, 2, ad.Float(1))
    duplicate = copy.deepcopy(local)
    duplicate[0] = ad.Float(5)
    assert (local[0][0], duplicate[0][0], duplicate[1][0]) == (1, 5, 1)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(local)
