"""Frozen functions do what the functions themselves do, for all inputs that later calls may have:
other contents, sizes, literals, structures and objects. Nothing of a call is kept.
"""

import gc
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
from helpers import DEVICE, growth, settle
from hypothesis import given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit import llvm, nn
from drjit.llvm.ad import (
    PCG32,
    Array2f,
    Array3f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Float16,
    Int,
    Matrix3f,
    TensorXf,
    TensorXf16,
    Texture2f,
    UInt,
)
from drjit.opt import SGD, Adam, GradScaler, Muon

pytestmark = pytest.mark.usefixtures("tier")


def flat(value: Any) -> list[Any]:
    """The contents of a tree as Python values, with the types of its arrays."""
    if isinstance(value, dr.ArrayBase):
        return [type(value), np.array(value).tolist()]
    if isinstance(value, (list, tuple)):
        return [type(value), *map(flat, value)]
    if isinstance(value, dict):
        return [list(value), *map(flat, value.values())]
    if hasattr(value, "__dict__"):
        return [type(value), flat(vars(value))]
    return [value]


def same(a: Any, b: Any) -> bool:
    return repr(flat(a)) == repr(flat(b))  # NaN and -0.0 included


def data(n: int, seed: int = 0) -> Float:
    return Float(np.random.default_rng(seed + n).normal(size=n).astype(np.float32))


def ints(n: int, high: int, seed: int = 0) -> UInt:
    return UInt(np.random.default_rng(seed + n).integers(0, high, n).astype(np.uint32))


def tensor(*shape: int) -> TensorXf:
    return TensorXf(data(int(np.prod(shape))), shape)


def two_kernels(x: Float, y: Float) -> Any:
    z = dr.sin(x) * y
    dr.eval(z)
    return z + x, {"sum": dr.sum(z), "z": [z, 3, "a", None]}


def added(target: Float, x: Float, scatter: Callable = dr.scatter_add) -> Float:
    scatter(target, dr.sum(x) + dr.arange(Float, 3), dr.arange(UInt, 3))
    return target


@dr.syntax
def loop(x: Float, y: Float) -> Float:
    i = UInt(0)
    while i < 5:
        x = x * 0.5 + y
        i += 1
    return x


@dr.syntax
def rounds(x: Float, y: Float) -> Float:
    i = UInt(0)
    n = UInt(dr.abs(y) * 4)
    while i < n:
        x = dr.sin(x) * 1.5
        i += 1
    return x


def differentiated(f: Callable, x: Float, y: Float) -> Any:
    dr.enable_grad(x)
    dr.backward(dr.sum(f(x, y)))
    return dr.grad(x)


@dr.syntax
def branch(x: Float, y: Float) -> Float:
    if x > y:
        z = x - y
    else:
        z = dr.exp(y)
    return z


def scattered(x: Float, y: Float) -> Float:
    made = dr.zeros(Float, 20)
    dr.scatter_add(made, x, dr.arange(UInt, x._node.size) % 20)
    dr.scatter(made, Float(7), UInt(3))
    return made


def backpropagated(x: Float, y: Float) -> Any:
    dr.enable_grad(x)
    dr.backward(dr.sum(dr.square(x) * y))
    return dr.grad(x)


def forward(x: Float, y: Float) -> Any:
    dr.enable_grad(x)
    z = dr.sin(x) * y
    dr.forward(x)
    return dr.grad(z)


def switched(x: Float, y: Float) -> Float:
    return dr.switch(
        dr.arange(UInt, x._node.size) % 2, [lambda a, b: a + b, lambda a, b: a * b], x, y
    )


def recurrent(x: Float, y: Float) -> Any:
    doubled: Any = nn.CoopVec(x, y)
    return Array2f(doubled * 2)


# name -> function of two arrays of one size
PROGRAMS: dict[str, Callable[[Float, Float], Any]] = {
    "two kernels": two_kernels,
    "one of the inputs": lambda x, y: (x, [x, y]),
    "literals": lambda x, y: (Float(3), dr.zeros(Float, 4), x * 0 + 1),
    "constant data": lambda x, y: x + dr.sum(Float([1, 2, 4])),
    "sum": lambda x, y: dr.sum(x * y) + y,
    "mean": lambda x, y: (dr.mean(x), dr.mean(dr.square(y - dr.mean(y)))),
    "all of a kind": lambda x, y: (dr.max(x), dr.min(y), dr.all(x > -100), dr.count(x > y)),
    "prefix sum": lambda x, y: dr.prefix_sum(x + y) * dr.cumsum(y),
    "sort": lambda x, y: (dr.sort(x * y), dr.argsort(-x)),
    "gather": lambda x, y: dr.gather(Float, x * 2, UInt(0, 0, 0)),
    "scatter": scattered,
    "scatter into constant data": lambda x, y: added(Float([1, 2, 3]), x),
    "scatter into constant data after a use": lambda x, y: (
        (c := Float([1, 2, 3])), dr.eval(d := c * 2), added(c, x), added(c, y), d
    )[2:],
    "scatter into undefined memory": lambda x, y: added(dr.empty(Float, 3), x, dr.scatter),
    "set an entry": lambda x, y: (x.__setitem__(0, 5), x)[1],
    "loop": loop,
    "derivatives of a loop": lambda x, y: differentiated(rounds, x, y),
    "branch": branch,
    "switch": switched,
    "function": dr.func(lambda x, y: dr.sqrt(dr.abs(x)) + y),
    "nested arrays": lambda x, y: (Array3f(x, y, 1) * 2, dr.norm(Array3f(x, y, x)), ArrayXf(x, y)),
    "matrices": lambda x, y: Matrix3f(x, 1, 2, y, 3, 4, 5, x, 7) @ Array3f(x, y, 2),
    "complex numbers": lambda x, y: dr.exp(Complex2f(x, y)),
    "backward": backpropagated,
    "forward": forward,
    "cooperative vectors": recurrent,
    "tensor of it": lambda x, y: TensorXf(x) + TensorXf(y) * 2,
    "other types": lambda x, y: (Int(x * 100), Bool(x > 0), Float16(y)),
    "evaluated in between": lambda x, y: [dr.eval(z := x * y), dr.eval(z), z + 1][2],
    "half of the width": lambda x, y: dr.gather(Float, x, dr.arange(UInt, dr.width(x) // 2)),
    "width minus one": lambda x, y: dr.gather(Float, x, dr.arange(UInt, max(1, dr.width(x) - 1))),
    "reverse": lambda x, y: dr.reverse(x) + y,
    "compressed": lambda x, y: dr.gather(Float, x, dr.compress(y > 0)) * 2,
    "width as a number": lambda x, y: dr.sum(x) / dr.width(x),
    "random": lambda x, y: dr.rng(3).random(Float, 5),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.compiled_every(2)
def test_a_frozen_function_gives_what_the_function_gives(name: str):
    f = PROGRAMS[name]
    frozen = dr.freeze(f)
    for n in (15, 15, 17, 17, 16, 200, 200, 1, 15, 2):
        assert same(frozen(data(n), data(n, 9)), f(data(n), data(n, 9))), n
    for seed in (1, 2):
        assert same(frozen(data(17, seed), data(17)), f(data(17, seed), data(17)))


@pytest.mark.parametrize("name", ["two kernels", "sum", "mean", "prefix sum", "sort", "backward",
                                  "loop", "nested arrays", "matrices", "branch"])  # fmt: skip
def test_two_sizes_are_enough_to_know_the_others(name: str):
    f = PROGRAMS[name]
    frozen = dr.freeze(f)
    for n in (15, 17):
        frozen(data(n), data(n))
    for n in (18, 31, 200):
        assert same(frozen(data(n), data(n, 9)), f(data(n), data(n, 9)))
    assert frozen.n_recordings == frozen.n_cached_recordings == 1


TENSORS: dict[str, Callable[[TensorXf], Any]] = {
    "arithmetic": lambda t: t * 2 + 1,
    "sum of columns": lambda t: dr.sum(t, axis=0),
    "sum of rows": lambda t: dr.sum(t, axis=1),
    "mean": lambda t: dr.mean(t, axis=0),
    "column": lambda t: t[:, 0],
    "slice": lambda t: t[::-1, 1:],
    "product": lambda t: t @ dr.transpose(t),
    "transposed": lambda t: dr.transpose(t),
    "shape": lambda t: (t.shape, dr.reshape(t, (-1,))),
    "rows in order": lambda t: dr.sort(t, axis=1),
    "blocks": lambda t: dr.block_sum(t.array, 3),
    "joined": lambda t: dr.concat([t, t], axis=0),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors(name: str):
    f = TENSORS[name]
    frozen = dr.freeze(f)
    for shape in ((4, 3), (4, 3), (5, 3), (7, 3), (1, 3), (4, 5), (6, 3), (70, 3)):
        assert same(frozen(tensor(*shape)), f(tensor(*shape))), shape


def test_the_first_dimension_of_a_tensor_may_change():
    frozen = dr.freeze(lambda t: t + 1)
    for rows in (2, 3, 4, 50):
        assert frozen(tensor(rows, 3)).shape == (rows, 3)
    assert frozen.n_recordings == 1
    frozen(tensor(2, 4))
    assert frozen.n_recordings == 2


def test_two_sizes_are_enough_however_often_the_function_has_run():
    """Python replaces instructions that run often by special ones, at other places in the code."""
    for f in (lambda z: z[:, 2], lambda z: z[..., 0], lambda z: z[:, UInt(0, 1)]):
        frozen = dr.freeze(f)
        for n in (3, 4, 5):
            assert same(frozen(tensor(n, 4)), f(tensor(n, 4)))
            for _ in range(20):
                f(tensor(n, 4))
        assert frozen.n_recordings == 1


def test_decisions_by_size_are_taken_anew():
    for decide in (lambda x: dr.width(x) > 5, lambda x: len(x) > 5, lambda x: x.shape[0] > 5,
                   lambda x: dr.shape(x)[0] > 5, lambda x: dr.width(x) / 2 > 2.5,
                   lambda x: {5: False, 6: True}.get(dr.width(x), dr.width(x) > 5)):  # fmt: skip
        frozen = dr.freeze(lambda x, decide=decide: x + 1 if decide(x) else x - 1)
        for n in (3, 4, 5, 6, 7):
            assert same(frozen(data(n)), data(n) + 1 if n > 5 else data(n) - 1)


def counted(x: Float) -> Float:
    for _ in range(0, dr.width(x), 4):
        x = x + 1
    return x


def changed_at(x: Float, key: Any) -> Float:
    x = Float(x)
    x[key] = 9
    return x


def looped(x: Float) -> Float:
    x = Float(x)
    dr.enable_grad(x)
    _, z = dr.while_loop((UInt(0), Float(x)), lambda i, z: i < 5,
                         lambda i, z: (i + 1, dr.sin(z) * z + z), max_iterations=5)  # fmt: skip
    dr.backward(dr.sum(z))
    return x.grad


BY_SIZE: dict[str, Callable[[Float], Any]] = {
    "head": lambda x: x[:5],
    "tail": lambda x: x[-3:],
    "every other": lambda x: x[::2],
    "backwards": lambda x: x[::-1],
    "head of a tensor": lambda x: TensorXf(x)[:5],
    "entry of a tensor": lambda x: TensorXf(x)[3],
    "entry that changes": lambda x: changed_at(x, 3),
    "entries that change": lambda x: changed_at(x, slice(1, 6)),
    "shrunk": lambda x: dr.reshape(Float, x, 4, shrink=True),
    "steps": lambda x: dr.arange(Float, 0, dr.width(x), 4),
    "blocks": lambda x: dr.block_sum(x, 4),
    "median": dr.median,
    "rounds": counted,
    "bits": lambda x: x + dr.width(x).bit_length(),
    "local memory": lambda x: x + len(dr.alloc_local(Float, dr.width(x))),
    "reverse mode of a loop": looped,
}


@pytest.mark.parametrize("sizes", [(5, 7, 20, 4), (8, 16, 9, 24, 33), (7, 9, 4, 40)], ids=str)
@pytest.mark.parametrize("name", BY_SIZE)
def test_what_depends_on_a_size_is_no_constant(name: str, sizes: tuple[int, ...]):
    f = BY_SIZE[name]
    frozen = dr.freeze(f)
    for n in sizes:
        assert same(frozen(data(n)), f(data(n))), n


# Keys


def traced(f: Callable, *calls: tuple) -> list[int]:
    """After which calls a frozen function has been recorded how often."""
    frozen, found = dr.freeze(f), []
    for arguments in calls:
        frozen(*arguments)
        found.append(frozen.n_recordings)
    return found


def test_inputs_that_differ_in_kind_are_recorded_apart():
    x, y = data(4), data(4, 1)
    n = Int(1, 2, 3, 4)
    assert traced(lambda x, y: x + y, (x, y), (x, n), (x, 2), (x, 3), (x, 2.0), (x, y),
                  (x, 2), (x, True), (x, 1)) == [1, 2, 3, 4, 5, 5, 5, 6, 7]  # fmt: skip
    assert traced(lambda t: dr.eval(t), ([x],), ((x,),), ({"a": x},), ({"b": x},), ([x, x],),
                  ([x, y],), ([y, y],)) == [1, 2, 3, 4, 5, 6, 6]  # fmt: skip
    assert traced(lambda x, s: x, (x, "a"), (x, "b"), (x, None), (x, "a")) == [1, 2, 3, 3]
    assert traced(lambda x, s: x * s, (x, 0.0), (x, -0.0), (x, dr.nan), (x, dr.nan)) == [1, 2, 3, 3]
    a = Float(x)
    dr.enable_grad(a)
    assert traced(lambda x: x * 2, (x,), (a,), (x,)) == [1, 2, 2]


def test_sizes_that_agreed_have_to_agree():
    x = lambda n: data(n) + 1  # noqa: E731
    calls = [(3, 3), (4, 4), (1, 4), (1, 3), (4, 1), (5, 5), (1, 1)]
    found = traced(lambda x, y: x + y, *[(x(a), x(b)) for a, b in calls])
    assert found == [1, 1, 2, 2, 3, 3, 4]


def test_flags_belong_to_the_key():
    f = dr.freeze(lambda x: x + 1)
    f(data(3))
    with dr.scoped_set_flag(dr.JitFlag.FastMath, not dr.flag(dr.JitFlag.FastMath)):
        f(data(3))
    assert f.n_recordings == 2
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        f(data(3))
        assert len(dr.kernel_history()) == 1
    assert f.n_recordings == 2


def test_literals_that_change_become_data():
    f = dr.freeze(lambda x, y, z: x * y + z)
    for i in range(5):
        assert same(f(data(3), Float(i), Float(2)), data(3) * i + 2)
        assert f.n_recordings == min(i + 1, 2)
    assert same(f(data(3), Float(9), Float(3)), data(3) * 9 + 3)
    g = dr.freeze(lambda x, y: x * y, auto_opaque=False)
    for i in range(3):
        assert same(g(data(3), Float(i)), data(3) * i)
    assert g.n_recordings == 1
    assert traced(lambda x: x + 1, (dr.full(Float, 1, 4),), (dr.full(Float, 2, 4),),
                  (dr.full(Float, 3, 5),), (dr.full(Float, 3, 6),)) == [1, 2, 2, 2]  # fmt: skip


def test_numpy_arrays_count_by_value():
    f = dr.freeze(lambda x, a: x + Float(a))
    for i in (1, 2, 1):
        assert same(f(Float(1, 2), np.array([i, 2], np.float32)), Float(1 + i, 4))
    assert f.n_recordings == 2


def test_unknown_objects_count_by_identity_and_are_not_kept():
    class Thing:
        pass

    f = dr.freeze(lambda x, thing: x + 1)
    a, b = Thing(), Thing()
    for thing in (a, b, a):
        f(data(3), thing)
    assert f.n_recordings == 2
    gone = weakref.ref(a)
    del a, thing
    assert gone() is None
    with pytest.raises(TypeError, match=r"dr.freeze.*bytearray.*not hashable"):
        f(data(3), bytearray(2))


def test_keyword_arguments():
    f: Any = dr.freeze(lambda x, y=2: x * y)
    assert same(f(y=Float(1, 2), x=Float(2, 3)), Float(2, 6))
    assert same(f(Float(1, 2), y=Float(2, 3)), Float(2, 6))
    assert same(f(Float(1, 2)), Float(2, 4))
    with pytest.raises(TypeError, match="positional argument"):
        f(1, 2, 3)


# Changes of inputs


def test_scatters_into_an_input():
    f = dr.freeze(lambda x, i: dr.scatter(x, Float(9), i))
    for k in range(4):
        x = Float(1, 2, 3, 4)
        dr.eval(x)
        other = Float(x) if k % 2 else None
        memory_ = x._node.data if k == 2 else None
        f(x, UInt(k) + dr.opaque(UInt, 0))
        expected = [1, 2, 3, 4]
        expected[k] = 9
        assert list(x) == expected
        assert other is None or list(other) == [1, 2, 3, 4]
        assert memory_ is None or x._node.data is memory_  # in place
    assert f.n_recordings == 1


@pytest.mark.parametrize("cls", [Float, llvm.Float])
def test_a_copy_of_an_input_is_another_array(cls: type):
    def f(a: Any, b: Any) -> Any:
        a += 1
        return b + 0

    frozen = dr.freeze(f)
    for copy in (False, True, False):
        x = dr.opaque(cls, 1, 3)
        y = cls(x) if copy else x
        assert list(frozen(x, y)) == [1 if copy else 2] * 3
        assert list(x) == [2] * 3


def test_a_shared_target_is_copied_in_any_call():
    f = dr.freeze(lambda x: dr.scatter_add(x, Float(1), UInt(0)))
    for shared in (True, False, True, False):
        x = Float(1, 2)
        other = Float(x) if shared else None
        f(x)
        f(x)
        assert list(x) == [3, 2]
        assert other is None or list(other) == [1, 2]
    foreign = np.ones(64, np.float32)
    x = Float(foreign)
    f(x)
    assert x[0] == 2
    assert foreign[0] == 1


@dataclass
class State:
    x: Float
    n: int = 0
    parts: list | None = None

    @dr.freeze
    def step(self, by: Float) -> Any:
        self.x = self.x * by
        self.parts = [self.x, by]
        return self.x + 1

    @dr.freeze
    def add(self, by: Float) -> None:
        self.x += by
        dr.scatter(self.x, Float(0), UInt(0))

    def count(self) -> None:
        self.n += 1


def test_methods_and_attributes():
    s: Any = State(data(3))
    method: Any = State.step
    for k in range(4):
        old = s.x
        got = s.step(Float(1, 2, k))
        assert same(s.x, old * Float(1, 2, k))
        assert s.x is not old
        assert same(got, s.x + 1)
        assert s.parts[0] is s.x
    assert method.n_recordings == s.step.n_recordings == 2  # `parts` was None at first
    assert (s.step.__name__, s.step.enabled, s.step.f) == ("step", True, method.__wrapped__)
    s.step.clear()
    assert method.n_cached_recordings == 0
    s = State(Float(1, 2))
    for _ in range(3):
        x = s.x
        s.add(Float(1, 1))
        assert s.x is x
    assert list(s.x) == [0, 5]
    count = dr.freeze(State.count)
    for _ in range(3):
        count(s)
    assert s.n == 3


def test_lists_and_dictionaries_change():
    @dr.freeze
    def f(items: list, table: dict, x: Float) -> int:
        items.append(x + 1)
        items[0], table["a"] = table.get("a", x), x * 2
        table["n"] = len(items)
        return len(items)

    for k in range(3):
        items, table = [Float(1, 2)], {}
        x = Float(1, k)
        assert f(items, table, x) == 2
        assert items[0] is x
        assert same(items, [x, x + 1])
        assert same(table, {"a": x * 2, "n": 2})
    assert f.n_recordings == 1


def test_results_refer_to_inputs_and_to_each_other():
    class Pair(NamedTuple):
        a: Any
        b: Any

    def f(x: Any, thing: Any, s: State) -> Any:
        y = x + 1
        return Pair(x, [y, y]), thing, s, State(y), (), [()]

    frozen = dr.freeze(f)
    thing = object()
    for k in range(3):
        x, s = Float(1, k), State(Float(2, 2))
        pair, other, back, made, *_ = frozen(x, thing, s)
        assert type(pair) is Pair
        assert pair.a is x
        assert pair.b[0] is pair.b[1]
        assert other is thing
        assert back is s
        assert type(made) is State
        assert made.x is pair.b[0]
        dr.scatter(pair.b[0], Float(7), UInt(0))
        assert list(x) == [1, k]


def test_results_do_not_share_memory_with_later_ones():
    f = dr.freeze(lambda x: (x + 1, Float([5, 6]), Float(x)))
    x = Float(1, 2)
    first = f(x)
    for _ in range(3):
        for a in f(x):
            dr.scatter(a, Float(99), UInt(0))
            dr.eval(a)
        assert list(x) == [1, 2]
    assert same(first, (Float(2, 3), Float(5, 6), Float(1, 2)))
    assert same(f(x), (Float(2, 3), Float(5, 6), Float(1, 2)))


class NeedsArguments:
    DRJIT_STRUCT: ClassVar = {"x": Float}

    def __init__(self, x: Float) -> None:
        self.x = x


def test_results_that_cannot_be_made_again():
    for f, text in ((NeedsArguments, "constructible without arguments"),
                    (lambda x: threading.Lock(), "type _thread.lock|type .*lock")):  # fmt: skip
        frozen: Any = dr.freeze(f)
        with pytest.raises(TypeError, match=text):
            frozen(data(3))
        assert not dr.flag(dr.JitFlag.FreezingScope)
        assert frozen.n_cached_recordings == 0


# Inputs that are no arguments

TABLE = Float(1, 2, 3)
OFFSET = 1


def test_values_of_a_kernel_are_no_inputs():
    f = dr.freeze(lambda v: v)
    for value in (nn.CoopVec(Float(1, 2)), dr.alloc_local(Float, 3)):
        with pytest.raises(TypeError, match=r"dr.freeze.*within a kernel only"):
            f(value)


def test_sets_slices_and_defaults():
    chosen, factor = {1}, dr.opaque(Float, 2, 3)

    def f(x: Float, part: slice, by: Float = factor) -> Float:
        return (x * by)[part] + len(chosen)

    frozen = dr.freeze(f)
    for part in (slice(0, 2), slice(1, 3), slice(0, 2)):
        assert same(frozen(data(3), part), f(data(3), part))
    assert frozen.n_recordings == 2
    chosen.add(2)
    factor += 1
    assert same(frozen(data(3), slice(0, 2)), f(data(3), slice(0, 2)))


def test_closures_and_globals():
    global TABLE
    local = Float(5, 6, 7)

    @dr.freeze
    def f(x: Float) -> Float:
        return x + local * TABLE

    for k in range(3):
        local = Float(5, k, 7)
        TABLE = Float(1, 2, k)
        assert same(f(Float(1, 2, 3)), Float(1, 2, 3) + local * TABLE)
    assert f.n_recordings == 1


def test_rebinding_outside_is_noticed():
    total = Float(0, 0)

    @dr.freeze
    def f(x: Float) -> None:
        nonlocal total
        total = total + x

    for _ in range(3):
        f(Float(1, 2))
    assert list(total) == [3, 6]
    assert (f.n_recordings, f.n_cached_recordings) == (3, 0)


class Object:
    rate = 1.0

    def __init__(self, x: Float) -> None:
        self.x = x
        self.inner: Any = None

    @dr.freeze
    def step(self, y: Float) -> Float:
        self.x = self.x * y
        return self.x + self.rate

    def add(self, y: Float) -> Float:
        self.inner.x += y
        self.new = y * 2
        return self.inner.x * self.inner.rate


def test_objects_that_are_no_pytrees():
    step: Any = Object.step
    o, other = Object(Float(1, 2)), Object(Float(3, 4))
    for k in range(3):
        x, old = list(o.x), o.x
        assert list(o.step(Float(2, k))) == [2 * x[0] + 1, k * x[1] + 1]
        assert list(old) == x
        assert list(other.step(Float(k, 1))) == [other.x[0] + 1, other.x[1] + 1]
    assert step.n_recordings == 2
    o.rate = 5.0
    assert list(o.step(Float(1, 1))) == [o.x[0] + 5, o.x[1] + 5]
    o.inner = other
    add = dr.freeze(Object.add)
    for k in range(4):
        other.rate = 2.0 if k == 3 else 1.0
        before = list(other.x)
        assert list(add(o, Float(k, 1))) == [
            other.rate * (before[0] + k),
            other.rate * (before[1] + 1),
        ]
        assert list(o.new) == [2 * k, 2]
    assert add.n_recordings == 3  # without `new`, with it, and with another rate
    step.clear()
    gone = weakref.ref(o)
    del o
    assert gone() is None


settings_ = SimpleNamespace(scale=2.0, table=np.array([1, 2], np.float32))


def test_objects_outside():
    f = dr.freeze(lambda x: x * settings_.scale + Float(settings_.table))
    for scale in (2.0, 3.0, 2.0):
        settings_.scale, settings_.table[0] = scale, 1
        assert list(f(Float(1, 1))) == [scale + 1, scale + 2]
    settings_.table[0] = 9
    assert list(f(Float(1, 1))) == [11, 4]
    assert f.n_recordings == 3


def doubled(x: Float) -> Float:
    return x * 2


def test_numbers_and_functions_outside():
    global doubled, OFFSET
    factor = 2
    f = dr.freeze(lambda x: doubled(x) * factor + OFFSET)
    assert list(f(Float(1, 2))) == [5, 9]
    assert list(f(Float(1, 2))) == [5, 9]
    factor = 3
    assert list(f(Float(1, 2))) == [7, 13]
    before = doubled
    doubled, OFFSET = (lambda x: x * 10), 5
    assert list(f(Float(1, 2))) == [35, 65]
    doubled, OFFSET = before, 1
    assert list(f(Float(1, 2))) == [7, 13]
    assert f.n_recordings == 3


def test_callables_of_all_kinds():
    o = Object(Float(1, 2))

    def combined(a: Float, x: Float, f: Any = None) -> Float:
        return a + f(x) if f else a + x

    for make in (lambda: partial(combined, Float(3, 4)), lambda: partial(combined, o.x, f=doubled),
                 lambda: partial(combined, o.x, f=o.add)):  # fmt: skip
        o.inner = o
        f = dr.freeze(lambda g, x: g(x))
        theirs = [list(make()(Float(k, 1))) for k in range(3)]
        o.x = Float(1, 2)
        assert [list(f(make(), Float(k, 1))) for k in range(3)] == theirs
        assert f.n_recordings <= 2
        o.x = Float(1, 2)
    net = nn.Linear(2, 1).alloc(TensorXf)
    f = dr.freeze(net)
    for k in range(3):
        net.weights = tensor(1, 2) * k
        x = tensor(2)
        assert same(f(x), net(x))


class Holder:
    __slots__ = ("x",)

    def __init__(self, x: Float) -> None:
        self.x = x


def test_state_fn():
    with pytest.raises(RuntimeError, match=r"not among its inputs.*state_fn"):
        dr.freeze(lambda o: o.x + 1)(Holder(dr.opaque(Float, 1)))
    f = dr.freeze(lambda o: o.x + 1, state_fn=lambda o: o.x)
    o = Holder(data(3))
    for k in range(3):
        o.x = data(3, k)
        assert same(f(o), data(3, k) + 1)
    assert f.n_recordings == 1

    @dr.freeze(state_fn=lambda o: (o.x,))
    def change(o: Holder) -> None:
        o.x = o.x + 1

    @dr.freeze(state_fn=lambda o: (o.x,))
    def add(o: Holder) -> None:
        o.x += 1

    o.x = Float(1, 2)
    for _ in range(3):
        change(o)
        add(o)
    assert list(o.x) == [7, 8]
    assert (change.n_recordings, add.n_recordings) == (3, 1)


# Derivatives


def test_gradients_of_inputs():
    @dr.freeze
    def f(x: Float) -> Float:
        loss = dr.sum(dr.square(x))
        dr.backward(loss)
        return loss

    for k in range(3):
        x = Float(1, 2, k)
        dr.enable_grad(x)
        for i in range(2):
            f(x)
            assert same(x.grad, Float(1, 2, k) * 2 * (i + 1))
    assert f.n_recordings == 2  # without and with a gradient


def test_gradients_go_on_outside():
    @dr.freeze
    def f(y: Float) -> None:
        dr.backward(dr.sum(dr.square(y)))

    for k in range(3):
        x = Float(1, 2, k)
        dr.enable_grad(x)
        y = x * 2
        f(y)
        assert same(x.grad, Float(8, 16, 8 * k))
        assert same(y.grad, Float(0, 0, 0))
    assert f.n_recordings == 1


def test_results_are_new_variables():
    f = dr.freeze(lambda x: (x * x, dr.detach(x) * 2, x))
    for k in range(3):
        x = Float(1, k)
        dr.enable_grad(x)
        y, z, same_x = f(x)
        assert dr.grad_enabled(y)
        assert not dr.grad_enabled(z)
        assert same_x is x
        dr.backward(y)
        assert same(x.grad, Float(0, 0))
        dr.backward(x * 3)
        assert same(x.grad, Float(3, 3))


def test_changes_of_what_is_differentiable():
    @dr.freeze
    def f(x: Float, y: Float) -> None:
        dr.enable_grad(x)
        dr.disable_grad(y)
        dr.set_grad(x, 5)

    for k in range(2):
        x, y = Float(1, k), Float(2, k)
        dr.enable_grad(y)
        f(x, y)
        assert dr.grad_enabled(x)
        assert not dr.grad_enabled(y)
        assert same(x.grad, Float(5, 5))


def test_scopes_around_belong_to_the_key():
    f = dr.freeze(lambda x: x * x)
    x = Float(1, 2)
    dr.enable_grad(x)
    for _ in range(2):
        assert dr.grad_enabled(f(x))
        with dr.suspend_grad():
            assert not dr.grad_enabled(f(x))
    assert f.n_recordings == 2


# State of generators and optimizers


def test_generators_go_on():
    @dr.freeze
    def f(rng: Any, pcg: Any) -> Any:
        return rng.random(Float, 5), rng.normal(Float, 5), pcg.next_float32(), pcg.next_uint32()

    given_, expected = [(dr.rng(7), PCG32(15, 3)) for _ in range(2)]
    for _ in range(5):
        rng, pcg = expected
        assert same(f(*given_), (rng.random(Float, 5), rng.normal(Float, 5),
                                 pcg.next_float32(), pcg.next_uint32()))  # fmt: skip
    assert f.n_recordings == 2


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "adam": lambda p: Adam(0.01, p),
    "amsgrad": lambda p: Adam(0.01, p, amsgrad=True, mask_updates=True),
    "sgd": lambda p: SGD(0.01, p, momentum=0.9),
    "muon": lambda p: Muon(0.01, p),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str):
    def step(opt: Any, scaler: Any, y: Any) -> Any:
        loss = dr.mean(dr.square(opt["x"] - y), axis=None)
        dr.backward(scaler.scale(loss))
        scaler.step(opt)
        return loss

    frozen = dr.freeze(step)
    make = OPTIMIZERS[name]
    ours, theirs = [(make({"x": tensor(4, 5)}), GradScaler()) for _ in range(2)]
    for k in range(6):
        y = TensorXf(data(20, k), (4, 5))
        assert same(frozen(*ours, y), step(*theirs, y))
        assert same(dr.detach(ours[0]["x"]), dr.detach(theirs[0]["x"]))
        if k == 3:  # a step in between that is not frozen
            step(*ours, y)
            step(*theirs, y)
    assert frozen.n_recordings == 2
    for a, b in zip(ours, theirs, strict=True):
        saved, expected = a.state_dict(), b.state_dict()
        assert saved.keys() == expected.keys()
        assert all(np.array_equal(saved[k], expected[k]) for k in saved)
        a.load_state_dict(saved)
    step(*ours, y)


def test_training_a_network_gives_the_same_parameters():
    def make() -> Any:
        rng = dr.rng(seed=0)
        net = nn.Sequential(nn.Linear(-1, 16, bias=False), nn.ReLU(), nn.Linear(-1, 3), nn.Tanh())
        net = nn.pack(net.alloc(TensorXf16, 2, rng=rng), layout="training")
        opt = Adam(5e-3)
        opt.update(net)
        return rng, net, opt, GradScaler()

    def step(rng: Any, net: Any, opt: Any, scaler: Any) -> Any:
        net.update(opt)
        x, y = rng.random(Float16, 64), rng.random(Float16, 64)
        found = nn.CoopVec(x, y)
        a, b, c = net(found)
        loss = dr.mean(dr.square(a - x) + dr.square(b - y) + dr.square(c - x * y))
        dr.backward(scaler.scale(loss))
        scaler.step(opt)
        return loss

    frozen = dr.freeze(step)
    ours, theirs = make(), make()
    for _ in range(8):
        assert same(frozen(*ours), step(*theirs))
    saved, expected = ours[2].state_dict(), theirs[2].state_dict()
    assert all(np.array_equal(saved[k], expected[k]) for k in expected)
    assert frozen.n_recordings == 2


def test_textures():
    f = dr.freeze(lambda texture, p: texture.eval(p))
    p = Array2f(dr.linspace(Float, 0, 1, 9), dr.linspace(Float, 1, 0.2, 9))
    for k, shape in enumerate(((4, 4, 2), (4, 4, 2), (5, 4, 2), (4, 5, 2), (8, 4, 2), (6, 4, 2))):
        texture = Texture2f(TensorXf(data(int(np.prod(shape)), k), shape))
        assert same(f(texture, p), texture.eval(p))
    texture.set_tensor(tensor(6, 4, 2) * 3)
    assert same(f(texture, p), texture.eval(p))


class Shape:
    def __init__(self, size: Any, kind: int) -> None:
        self.size, self.kind = size, kind

    def area(self, x: Any) -> Any:
        return x * self.size if self.kind else x + self.size


def test_calls_of_methods_of_objects():
    pointer = dr.instance_t(Float, Shape)
    a, b = Shape(dr.opaque(Float, 2), 0), Shape(dr.opaque(Float, 3), 1)

    @dr.freeze
    def f(p: Any, x: Float) -> Any:
        return dr.dispatch(p, lambda shape, x: shape.area(x), x)

    for objects in ([a, b, None], [b, b, a]):
        p, x = pointer(objects), Float(1, 2, 3)
        assert same(f(p, x), dr.dispatch(p, lambda shape, x: shape.area(x), x))
    assert f.n_recordings == 1
    a.size = dr.opaque(Float, 10)
    assert list(f(pointer([a, b, None]), Float(1, 2, 3))) == [11, 6, 0]
    a.kind = 1
    assert list(f(pointer([a, b, None]), Float(1, 2, 3))) == [10, 6, 0]
    for shape in (a, b):
        pointer.unregister(shape)


def test_loops_of_any_number_of_rounds():
    f = dr.freeze(lambda x, y: differentiated(rounds, x, y))
    rows = (5, 1), (2, 1), (5, 1), (5.25, 2), (5.25, 2), (9, 3), (0, 3), (9, 3)
    for y, recordings in rows:
        expected = differentiated(rounds, Float(0.5, 1), Float(y, 1))
        assert same(f(Float(0.5, 1), Float(y, 1)), expected)
        assert f.n_recordings == recordings


def test_sizes_that_depend_on_data():
    f = dr.freeze(lambda x: dr.gather(Float, x, dr.compress(x > 0)) * 2)
    for x, recordings in ((Float(1, -1, 2), 1), (Float(3, 4, -1), 1), (Float(1, 2, 3), 2),
                          (Float(-1, -1, -1), 3), (Float(-1, -1, -2), 3)):  # fmt: skip
        assert list(f(x)) == [2 * v for v in list(x) if v > 0]
        assert f.n_recordings == recordings

    @dr.freeze
    def g(x: Float, y: Float) -> UInt:
        dr.scatter_add(y, Float(1), UInt(0))
        dr.eval(y)
        return dr.compress(x > 0)

    for k in range(3):
        y = Float(5, 5)
        assert list(g(Float(1, k), y)) == [0, 1][: 1 + (k > 0)]
        assert list(y) == [6, 5]
    assert g.n_cached_recordings == 0  # a replay that does not fit would have changed `y`


# What does not work, and being off


def test_a_result_of_any_size_needs_one_recording():
    f = dr.freeze(lambda x: (dr.compress(x > 3), x + 1))
    for n, first in ((7, 0), (9, 2), (20, 0), (9, 0), (5, 0), (9, 4), (9, -9)):
        x = dr.arange(Float, n) + dr.opaque(Float, first)
        found, more = f(x)
        assert list(found) == [k for k in range(n) if k + first > 3]
        assert same(more, x + 1)
    assert f.n_recordings == 1


USES_OF_A_SIZE: list[Callable] = [
    lambda x, i: dr.gather(Float, x, i),
    lambda x, i: (i, dr.width(i)),
    lambda x, i: (i, len(i)),
    lambda x, i: (i, i.shape[0] * 2),
    lambda x, i: (i, dr.arange(UInt, dr.width(i))),
    lambda x, i: (i, 0 * i),
    lambda x, i: (i, dr.tile(0 * i, 2)),
    lambda x, i: (i, dr.zeros(Float, dr.width(i))),
    lambda x, i: (i, dr.zeros(type(i), i.shape)),
    lambda x, i: dr.sum(i),
    lambda x, i: (i, x if dr.width(i) > 3 else x + 1),
]


@pytest.mark.parametrize("number", range(len(USES_OF_A_SIZE)))
def test_what_depends_on_the_size_of_a_result_follows_it(number: int):
    def f(x: Any) -> Any:
        return USES_OF_A_SIZE[number](x, dr.compress(x > 3))

    frozen = dr.freeze(f, warn_after=-1)
    for n, first in ((9, 2), (9, 0), (9, -4), (10, 0), (10, 2), (9, 2), (12, -7), (9, -9)):
        x = dr.arange(Float, n) + dr.opaque(Float, first)
        assert same(frozen(x), f(x))


def test_reading_is_refused():
    for read in (lambda x: x[0] > 0, lambda x: x.numpy(), lambda x: str(x), lambda x: list(x),
                 lambda x: dr.print("{}", x), lambda x: np.array(x), lambda x: float(dr.sum(x)[0]),
                 lambda x: memoryview(x), lambda x: x.__dlpack__()):  # fmt: skip
        f = dr.freeze(lambda x, read=read: (read(x * 2), x + 1)[1])
        with pytest.raises(Exception, match=r"reads the contents|bytes-like"):
            f(data(3))
        assert (f.n_recordings, dr.flag(dr.JitFlag.FreezingScope)) == (0, False)
        assert same(data(3)[0], float(np.array(data(3))[0]))


def test_literals_may_be_read():
    f = dr.freeze(lambda x, n: x * n[0])
    assert same(f(data(3), Float(2)), data(3) * 2)


def test_exceptions_leave_nothing_behind():
    def f(x: Float, y: Float, fail: bool) -> Any:
        dr.scatter(y, Float(7), UInt(0))
        z = x + 1
        dr.eval(z)
        if fail:
            raise ValueError("no")
        return z

    frozen = dr.freeze(f)
    x, y = Float(1, 2), Float(1, 2)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            frozen(x, y, True)
        assert not dr.flag(dr.JitFlag.FreezingScope)
        assert list(y) == [7, 2]
    for _ in range(2):
        assert list(frozen(x, y, False)) == [2, 3]
    assert (frozen.n_recordings, frozen.n_cached_recordings) == (1, 1)


def test_errors_in_kernels_appear_in_replays():
    f = dr.freeze(lambda x, i: dr.gather(Float, x, i))
    assert list(f(Float(1, 2), UInt(1, 0))) == [2, 1]
    f(Float(1, 2), UInt(1, 5))
    with pytest.raises(IndexError, match=r"index 5 .* size 2"):
        dr.sync_thread()


def test_off():
    f = dr.freeze(lambda x: (x + 1, dr.flag(dr.JitFlag.FreezingScope)))
    assert f(data(3))[1] is True
    with dr.scoped_set_flag(dr.JitFlag.KernelFreezing, False):
        assert f(data(3))[1] is False
        assert f(data(4))[1] is False
    f.enabled = False
    assert f(data(4))[1] is False
    assert f.n_recordings == 1
    assert dr.freeze(lambda x: x, enabled=False)(3) == 3
    with pytest.raises(TypeError, match="expected a function"):
        dr.freeze(3)  # type: ignore[call-overload]


def test_nested_and_within_loops():
    inner = dr.freeze(lambda x: x * 2)
    outer = dr.freeze(lambda x: inner(x) + 1)
    for k in range(3):
        assert list(outer(Float(1, k))) == [3, 2 * k + 1]
    assert (inner.n_recordings, outer.n_recordings) == (0, 1)
    _, x = dr.while_loop((UInt(0), Float(1, 2)), lambda i, x: i < 3, lambda i, x: (i + 1, inner(x)))
    assert list(x) == [8, 16]
    assert inner.n_recordings == 0


def test_limit_and_clear():
    f = dr.freeze(lambda x, k: x + k, limit=2)
    counts = []
    for k in (1, 2, 1, 3, 1, 2):
        assert same(f(data(3), k), data(3) + k)
        counts.append((f.n_recordings, f.n_cached_recordings))
    assert counts == [(1, 1), (2, 2), (2, 2), (3, 2), (3, 2), (4, 2)]
    f.clear()
    assert (f.n_recordings, f.n_cached_recordings) == (0, 0)
    f(data(3), 1)
    assert f.n_recordings == 1
    g = dr.freeze(lambda x: x + 1 if len(x) else x, limit=1)
    for n in (3, 4, 3):
        g(data(n))
    assert (g.n_recordings, g.n_cached_recordings) == (3, 1)
    h = dr.freeze(lambda x: x, limit=0)
    h(data(3))
    assert h.n_cached_recordings == 0


def test_many_recordings_give_a_warning(capsys: pytest.CaptureFixture):
    f = dr.freeze(lambda x, k: x + k, warn_after=2)
    for k in range(4):
        assert ("has been recorded" in capsys.readouterr().err) == (k > 2)
        f(data(3), k)
    assert "recorded 4 times" in capsys.readouterr().err


def test_discarded_recordings():
    backend = DEVICE.backend  # not the device, which holds what its launches change

    @dr.freeze
    def f(x: Float) -> Float:
        dr.detail.freeze_discard(backend, "because")
        return x + 1

    for k in range(3):
        assert list(f(Float(1, k))) == [2, k + 1]
    assert (f.n_recordings, f.n_cached_recordings) == (3, 0)
    dr.detail.freeze_discard(DEVICE.backend, "outside")


def test_the_object_behind():
    f = dr.detail.FrozenFunction(lambda tree: tree["a"] * 2, -1, 10, DEVICE.backend, True)
    for k in range(3):
        assert list(f({"a": Float(1, k)})) == [2, 2 * k]
    assert (f.n_recordings, f.n_cached_recordings) == (1, 1)
    f.clear()
    assert f.n_cached_recordings == 0


def test_no_arrays_at_all():
    f = dr.freeze(lambda: dr.arange(Float, 3) + 1)
    for _ in range(3):
        assert list(f()) == [1, 2, 3]
    assert dr.freeze(lambda x: x)(3) == 3


def test_cycles_among_inputs():
    items: list[Any] = [Float(1, 2)]
    items.append(items)
    f = dr.freeze(lambda items: items[0] + 1)
    for k in range(3):
        items[0] = Float(1, k)
        assert list(f(items)) == [2, k + 1]


def test_func():
    @dr.func
    def f(x: Float, y: Any, k: int = 1) -> Any:
        """What it does."""
        return {"a": x * y + k, "n": k}

    for _ in range(2):
        assert same(f(Float(1, 2), y=Float(3)), {"a": Float(4, 7), "n": 1})
    assert (f.__name__, f.__doc__) == ("f", "What it does.")
    x = Float(1, 2)
    dr.enable_grad(x)
    dr.backward(f(x, 3)["a"])
    assert list(x.grad) == [3, 3]
    assert "any_lane" not in str(dr.kernel_source(f(Float(1, 2), dr.opaque(Float, 3))["a"]))
    on_llvm = dr.func(backend=DEVICE.backend)
    assert list(on_llvm(lambda: dr.arange(Float, 3))()) == [0, 1, 2]
    with pytest.raises(RuntimeError, match="no argument is a traced array"):
        dr.func(lambda: 3)()
    with pytest.raises(TypeError, match="expected a function"):
        dr.func(3)  # type: ignore[call-overload]


# Memory and threads


def test_a_recording_keeps_neither_inputs_nor_results():
    f = dr.freeze(lambda x: [x + 1, {"a": dr.sort(x)}])
    seen = []
    for _ in range(3):
        x = data(100) * 2
        dr.eval(x)
        y = f(x)
        seen += [weakref.ref(a._node.data) for a in (x, y[0], y[1]["a"])]
        seen += [weakref.ref(a._node) for a in (x, y[0])]
        del x, y
    assert not any(r() for r in seen)


def test_a_thousand_calls_keep_nothing():
    @dr.freeze
    def f(x: Float, y: Float, rng: Any) -> Any:
        z = x * y
        dr.eval(z)
        dr.backward(dr.sum(dr.square(y)))
        return z + dr.sum(x), [dr.sort(z), dr.prefix_sum(y)], rng.random(Float, 3)

    rng = dr.rng(1)
    x, y = data(100), data(100, 1)
    dr.enable_grad(y)

    def run(n: int = 350 if DEVICE.on_host else 20) -> int:
        for _ in range(n):
            f(x, y, rng)
        dr.sync_thread()
        return DEVICE.memory_statistics()["in_use"]

    run(350)  # with the first compilations, and native code
    settle()
    gc.disable()  # what is not freed at once is part of a cycle
    try:
        used = run(10)
        assert growth(run, collect=False) < 20
        assert run(10) == used
    finally:
        gc.enable()


def test_a_dropped_function_is_freed_at_once():
    f = dr.freeze(lambda x: x + dr.sum(Float([1, 2, 3])))
    f(data(3))
    f(data(3))
    gone = weakref.ref(f)
    gc.disable()
    try:
        del f
        assert gone() is None
    finally:
        gc.enable()


def test_threads():
    f = dr.freeze(lambda x, y: (dr.sin(x) * y, dr.sum(x)))
    found: list[Any] = []

    def work(seed: int) -> None:
        for k in range(20):
            n = 10 + (seed + k) % 5
            x, y = data(n, seed), data(n, k)
            found.append(same(f(x, y), (dr.sin(x) * y, dr.sum(x))))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 80
    assert all(found)


# Programs made up

UNARY = [
    dr.sin,
    dr.abs,
    dr.exp,
    dr.sum,
    dr.prefix_sum,
    dr.sort,
    dr.max,
    lambda a: -a,
    lambda a: a * 2,
]
BINARY = [lambda a, b: a + b, lambda a, b: a * b, dr.minimum, lambda a, b: dr.select(a > b, a, b)]
STEP = st.tuples(st.integers(0, 99), st.integers(0, 99), st.integers(0, 99), st.booleans())


def program(steps: list[tuple[int, int, int, bool]]) -> Callable[..., Any]:
    def run(x: Float, y: Float, z: Float) -> Any:
        values = [x, y, z]
        for kind, a, b, evaluated in steps:
            first, second = values[a % len(values)], values[b % len(values)]
            if kind % 2:
                value = UNARY[kind // 2 % len(UNARY)](first)
            else:
                value = BINARY[kind // 2 % len(BINARY)](first, second)
            if evaluated:
                dr.eval(value)
            values.append(value)
        return values

    return run


@settings(max_examples=40)
@given(st.lists(STEP, max_size=8), st.lists(st.sampled_from([1, 2, 15, 17, 40]), max_size=4))
def test_made_up_programs(steps: list, sizes: list):
    f = program(steps)
    frozen = dr.freeze(f)
    for k, n in enumerate([*sizes, *sizes]):
        inputs = data(n, k), data(n, k + 50), Float(k // 2)
        assert same(frozen(*inputs), f(*inputs))


def test_small_launches_in_all_circumstances(monkeypatch):
    """Kernels that take no time are launched by a way of their own, once they are compiled and if
    nobody watches."""

    @dr.freeze
    def f(x, image, index):
        dr.scatter_add(image, x, index)
        dr.eval(image)
        return dr.sum(x * 2), x * x + dr.gather(Float, image, 3), x > 1

    launched = sum(k.launches for k in DEVICE.kernels())
    for turn in range(4):
        for tier in ("numpy", "compiled", "compiled", "numpy"):
            monkeypatch.setattr("drjit.jit.cpu.variants.pinned", tier)
            for flags in ((), (dr.JitFlag.KernelHistory,), (dr.JitFlag.LaunchBlocking,)):
                x, image = dr.arange(Float, 20) + turn, dr.full(Float, 1, 8)
                index = dr.arange(UInt, 20) % 8
                dr.eval(x, image, index)
                if turn % 2:  # something in the queue
                    busy = dr.sin(dr.arange(Float, 1 << 16))
                    dr.eval(busy)
                for flag in flags:
                    dr.set_flag(flag, True)
                try:
                    total, square, large = f(x, image, index)
                    if dr.JitFlag.KernelHistory in flags:
                        assert len(dr.kernel_history()) == 3
                finally:
                    for flag in flags:
                        dr.set_flag(flag, False)
                values, sums = np.arange(20.0) + turn, np.ones(8)
                np.add.at(sums, np.arange(20) % 8, values)
                assert list(total) == [2 * values.sum()]
                np.testing.assert_array_equal(image.numpy(), sums)
                np.testing.assert_array_equal(square.numpy(), values**2 + sums[3])
                np.testing.assert_array_equal(large.numpy(), values > 1)
    assert f.n_recordings == 1
    assert sum(k.launches for k in DEVICE.kernels()) - launched >= 4 * 4 * 3 * 3
