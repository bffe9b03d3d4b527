"""Operators of arrays exist as functions of Python and in native code. Both give the same graphs,
variables and errors, and leave nothing behind."""

import contextlib
import copy
import ctypes
import gc
import inspect
import math
import operator
import os
import pickle
import sys
import threading
import weakref

import numpy as np
import pytest
from helpers import forget_forward_traversals, growth, outcome, tracked
from hypothesis import given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit.ad import graph
from drjit.array import inline, native_operators, table
from drjit.jit.cpu import warm_up
from drjit.jit.ir import dtype as dt
from drjit.jit.ir import label, node
from drjit.jit.ir import op as ops
from drjit.jit.native import objects
from drjit.llvm import Float, Int, UInt
from drjit.llvm.ad import Array3f
from drjit.llvm.ad import Float as ADFloat

pytestmark = pytest.mark.skipif(not warm_up.places(native_operators), reason="other layout")
code = native_operators._operators


@pytest.fixture(autouse=True, scope="module")
def installed():
    if native_operators._installed is None and (places := warm_up.places(native_operators)):
        native_operators.install(places)


@contextlib.contextmanager
def in_python():
    """Has the functions of Python make all nodes."""
    code.off = 1
    try:
        yield
    finally:
        code.off = 0


def agree(function, *args):
    """Checks that native code gives the same."""
    with in_python():
        wanted = outcome(function, *args)
    assert outcome(function, *args) == wanted


CLASSES = [
    table.build(namespace, name)
    for namespace in ("llvm", "llvm.ad")
    for name in table.LEAF_NAME.values()
    if name in table.SPECS
]


BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, operator.eq,
    operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
UNARY = [operator.neg, operator.invert, operator.abs, operator.pos]
FUNCTIONS = [dr.sin, dr.sqrt, dr.abs, dr.floor, dr.lzcnt, dr.rcp, dr.square]
NUMBERS = [
    0, 1, 2, -1, 3, 255, 256, 1 << 31, -(1 << 31), 1 << 40, (1 << 53) + 1, (1 << 64) - 1, 10**400,
    0.0, -0.0, 1.0, 2.5, 0.1, math.nan, math.inf, -math.inf, True, False, None, "2", [1, 2], 1j,
]  # fmt: skip


def made(cls, size, start=1):
    values = (np.arange(start, start + size) % 100).astype(cls(0).numpy().dtype)
    return cls(values) if size else cls()


def arrays(cls):
    """Arrays of all kinds: of several sizes, of a constant, computed, tracked."""
    found = [made(cls, size) for size in (0, 1, 300, 5, int("300"))]
    x, t = found[3], cls._dtype
    computed = ~x if t.is_int else x == cls(x) if t.is_mask else -x
    found += [cls(3), dr.zeros(cls, 5), computed]
    if cls._diff and t.is_float:
        x = cls(x)
        dr.enable_grad(x)
        found += [x, x * x, cls(2)]
        dr.enable_grad(found[-1])
    return found


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: f"{c._namespace}.{c.__name__}")
def test_all_types_operators_and_operands(cls):
    xs = arrays(cls)
    others = [Float(1, 2, 3, 4, 5), ADFloat(2), Int(1, 2, 3, 4, 5), np.float32(2), np.arange(5)]
    others += [made(ADFloat, 5), dr.llvm.Array3f(1, 2, 3), dr.llvm.ad.TensorXf([1.0, 2, 3, 4, 5])]
    for f in BINARY:
        for x in xs:
            for y in xs:
                agree(f, x, y)
        for x in (xs[3], xs[-1]):
            for y in (*NUMBERS, *others):
                agree(f, x, y)
                agree(f, y, x)
    for x in xs:
        for f in (*UNARY, *FUNCTIONS):
            agree(f, x)
            agree(lambda f, x: f(f(x)), f, x)
        for y in (*xs, 2, 0.5):
            for f in (dr.minimum, dr.fmax, dr.atan2, dr.mul_hi):
                agree(f, x, y)


@pytest.mark.every(2)
@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: f"{c._namespace}.{c.__name__}")
def test_operations_on_three_operands(cls):
    xs = arrays(cls)
    masks = arrays(cls.Mask)
    others = [*NUMBERS, Float(1, 2, 3, 4, 5), ADFloat(2), made(Int, 5), np.arange(5), "a"]
    for y in xs:
        for z in (*xs, *others):
            for x in (xs[3], xs[-1], 2):
                agree(dr.fma, x, y, z)
                agree(dr.fma, x, z, y)
            for mask in masks:
                agree(dr.select, mask, y, z)
                agree(dr.select, mask, z, y)
    for y in others:
        for z in (0, 2.5, -0.0):
            agree(dr.fma, xs[-1], y, z)
            agree(dr.select, masks[3], y, z)


IN_PLACE = [getattr(operator, f"i{o.method}".rstrip("_")) for o in ops.ARITHMETIC]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: f"{c._namespace}.{c.__name__}")
def test_operators_in_place(cls):
    def run(f, x, y):
        z = cls(x)
        before = z
        z = f(z, y)
        assert (z is before) == (type(z) is cls)
        return z

    for f in IN_PLACE:
        for x in arrays(cls):
            for y in (*arrays(cls)[2:], x, 1, 3, 0.5, "a", Float(2), ADFloat(1, 2, 3, 4, 5)):
                agree(run, f, x, y)


STEPS = st.lists(
    st.tuples(*[st.integers(0, n) for n in (13, 50, 50)], st.sampled_from(NUMBERS[:21])),
    max_size=12,
)


def program(steps, x, y):
    """An array per step, from earlier ones and numbers."""
    pool = [x, y, type(x)(0.5)]
    for kind, i, j, number in steps:
        a, b = pool[i % len(pool)], pool[j % len(pool)]
        with contextlib.suppress(RuntimeError, TypeError, OverflowError):
            if kind < 4:
                pool.append((a + b, a - b, a * b, a / b)[kind])
            elif kind < 8:
                pool.append((a + number, number - a, a * number, number / a)[kind - 4])
            elif kind < 11:
                pool.append((-a, dr.sin(a), dr.abs(b))[kind - 8])
            elif kind == 11:
                pool.append(dr.select(a < b, a, b))
            elif kind == 12:
                pool.append(dr.select(a > number, b, number))
            else:
                a = type(a)(a)
                a *= b
                pool.append(a)
    return pool


@settings(max_examples=60)
@given(steps=STEPS, differentiable=st.booleans())
def test_programs(steps, differentiable):
    x, y = made(ADFloat, 5), made(ADFloat, 5, 3)
    if differentiable:
        dr.enable_grad(x, y)
    with in_python():
        wanted = [outcome(Float.__pos__, a) for a in program(steps, x, y)]
    found = program(steps, x, y)
    assert [outcome(Float.__pos__, a) for a in found] == wanted
    if differentiable:
        dr.backward(found[-1] + x)
        gradient, x.grad = x.grad.numpy(), 0
        with in_python():
            dr.backward(program(steps, x, y)[-1] + x)
        assert np.array_equal(gradient, x.grad.numpy(), equal_nan=True)


def test_most_operations_of_a_program_are_native():
    forget_forward_traversals()
    x, y, z = made(ADFloat, 5), made(ADFloat, 5), tracked(1, 2, 3, 4, 5)
    k, n, fma = ADFloat(3), made(Int, 5), inline.RECORDERS[ops.fma][ADFloat]
    numbers = x + 2, 1.5 - x, x / 3, 1 / x, n >> 3, k - 2, k < 3, k * k, x + 1
    calls = []
    sys.setprofile(lambda frame, event, arg: calls.append(frame.f_code) if event == "call" else 0)
    try:
        found = fma(k, k, k), k * k - 2, k < 3, -k, n >> 3, 1 / x, x * 0, 0.0 - x
        found += -(x * y) + 2 < 0, 1.5 - x / 3 * z - -z, abs(y) >= x
        y += 1
        y *= z
    finally:
        sys.setprofile(None)
    others = [c for c in calls if "drjit" in c.co_filename and "folding" not in c.co_filename]
    assert len(found) == 11 > len(numbers) and not others


def counts(*things):
    gc.collect()
    return [sys.getrefcount(t) for t in things]


def test_references_are_counted():
    x, y, z = made(ADFloat, 300), made(ADFloat, 300), tracked(*range(300))
    i, b, size = made(Int, 300), ADFloat(7.25), 0
    number = native_operators.ordinary_numbers(dt.f32, ops.special_numbers(ops.mul, dt.f32))[7.25]

    def step():
        nonlocal size
        a = (
            x * y + 7.25 < y,
            3 - x,
            -z * x + 2,
            z * z,
            z - 1.5,
            dr.sin(z),
            abs(x),
            ~i & i,
            i // 2,
            x * b,
            dr.fma(x, y, 7.25) + dr.fma(z, 3, x),
            dr.select(x < y, z, 1.5) + dr.select(x < y, x, y) + dr.fma(x, y, y),
            dr.fma(b, b, b) * b - b + 7.25 < -b,
            1 / x + x * 0 + (0.0 - z),
            (i >> 3) * (i % 7),
            dr.maximum(x, 0) + dr.minimum(z, 1.5) + dr.maximum(x, z),
        )
        c = ADFloat(x)
        c += y
        c *= z
        c -= 1.5
        for f in (
            lambda: x * "a",
            lambda: x + made(ADFloat, 301),
            lambda: x @ 2,
            lambda: dr.fma(x, y, "a"),
            lambda: dr.select(x < y, z, made(ADFloat, 301)),
        ):
            with contextlib.suppress(RuntimeError, TypeError):
                f()
        size += len(a)

    rows = [*native_operators._installed._referents]
    own = x, y, z, x._node, y._node, z._node, z._var, number
    others = [x._node.size, z._var.size, 7.25, 1.5, ADFloat, ADFloat.Mask, Int, ops.mul, ops.add,
              dt.f32, dt.mask, dt.i32, node.Node, graph.Var,
              *[r for r in rows if callable(r)]]  # fmt: skip

    def steps():
        for _ in range(100):
            step()

    step()
    before = counts(*own)
    assert not np.any(growth(steps, lambda: counts(*others)))
    assert np.all(abs(growth(steps, lambda: counts((), None))) < 20)
    assert abs(growth(steps, sys.getallocatedblocks)) < 40
    assert counts(*own) == before


def test_nothing_is_part_of_a_cycle():
    x, z = made(ADFloat, 5), tracked(1, 2, 3, 4, 5)
    gc.collect()
    gc.disable()
    try:
        refs = [weakref.ref(n) for y in (x * x + 1, z * 2 - x, -z) for n in (y._node, y._var) if n]
        assert len(refs) == 5 and not any(r() for r in refs)
    finally:
        gc.enable()


def test_objects_are_known_to_the_collector():
    y = tracked(1, 2) * 2
    assert all(map(gc.is_tracked, (y._node, y._var, y._node.deps, y._var.deps)))
    found = {y}
    y._node.data = found  # a cycle, which the collector frees
    ref = weakref.ref(y._node)
    del y, found
    gc.collect()
    assert ref() is None


def test_failing_allocations():
    limits = pytest.importorskip("_testcapi")
    x, z, programs_ = made(ADFloat, 5), tracked(1, 2, 3, 4, 5), []
    y, mask, b, i = ADFloat(x), x < 3, ADFloat(2.5), made(Int, 5)

    def in_place():
        nonlocal y
        y += x

    programs_ = [lambda: x * x, lambda: z * x, lambda: x + 2.5, lambda: 2 * z, lambda: -z, in_place,
                 lambda: x < 0, lambda: dr.sin(z), lambda: dr.fma(z, x, 2.5),
                 lambda: dr.fma(b, b, b), lambda: b * b, lambda: b + 2.5, lambda: -b,
                 lambda: i >> 3, lambda: dr.fma(x, 2.5, x),
                 lambda: dr.select(mask, z, 0)]  # fmt: skip
    watched = (x, x._node, z._node, z._var, ADFloat, ops.mul, 2.5)
    for run in programs_:
        run()
        y = ADFloat(x)
        before, failed = counts(*watched), 0
        gc.disable()  # what fails within the collector is kept, with its frames, for a report
        for k in range(60):
            try:
                limits.set_nomemory(k, k + 1)
                run()
            except MemoryError:
                failed += 1
            finally:
                limits.remove_mem_hooks()
        gc.enable()
        y = ADFloat(x)
        assert counts(*watched) == before
        assert run() is None or type(run()) in (ADFloat, ADFloat.Mask, Int)


def test_what_runs_while_memory_is_allocated():
    x, z, changes = ADFloat(1, 2, 3), tracked(1, 2, 3), 0

    def change(phase, info):  # drops the node and the variable, and reuses their memory
        nonlocal changes
        changes += 1
        x._node, z._var = ADFloat(changes, 2, 3)._node, tracked(1)._var

    threshold, found = gc.get_threshold(), []
    gc.callbacks.append(change)
    try:
        for _ in range(200):
            gc.set_threshold(1)
            y = x * x, z * z, x + 0.5, 2 - z, -z, x < 2.5
            gc.set_threshold(0)
            found.append(y)
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(change)
    # From Python 3.12 on, the collector runs between instructions, not in allocations.
    assert changes > (1000 if sys.version_info < (3, 12) else 200)
    for square, other, *_ in found:
        first, second = square._node.deps
        assert first is second and other._var.deps[0] is other._var.deps[1]
        assert square.numpy()[0] == first.data.entries(first.dtype, 3)[0] ** 2


def test_interrupts_are_not_lost(monkeypatch):
    x = tracked(1, 2, 3)

    def interrupted(table, value):
        raise KeyboardInterrupt

    monkeypatch.setattr(native_operators._OrdinaryNumbers, "__missing__", interrupted)
    before = counts(x, x._node, x._var)
    for run in (lambda: x + 761.25, lambda: x > 762.25, lambda: operator.iadd(x, 763.25)):
        with pytest.raises(KeyboardInterrupt):
            run()
    after = counts(x, x._node, x._var)
    assert after == before
    monkeypatch.undo()
    assert (x + 761.25).numpy().tolist() == [762.25, 763.25, 764.25]


class Length(Float):
    def __mul__(self, other):
        return "mul", super().__mul__(other)

    def __rsub__(self, other):
        return "rsub"

    def __eq__(self, other):
        return "eq"

    def __neg__(self):
        return NotImplemented

    __hash__ = Float.__hash__


class Plain(Float):
    pass


def test_classes_that_programs_derive():
    x, a, b = Float(1, 2), Length(3, 4), Plain(5, 6)
    assert [(a * 2)[0], (a * 2)[1].numpy().tolist(), type((a * x)[1])] == ["mul", [6, 8], Float]
    assert x - a == "rsub" and 1 - a == "rsub" and (a == x) == "eq" and (x == a) == "eq"
    assert (x * a).numpy().tolist() == [3, 8] and (a - 1).numpy().tolist() == [2, 3]
    for run in (
        lambda: b + x,
        lambda: x + b,
        lambda: 2 - b,
        lambda: -b,
        lambda: b < 6,
        lambda: x <= b,
    ):
        agree(run)
    c = b
    b += 1
    assert c is b and type(b) is Plain and b.numpy().tolist() == [6, 7]


def test_methods_that_programs_replace(monkeypatch):
    x = Float(1, 2)
    monkeypatch.setattr(Float, "__add__", lambda a, b: "mine")
    assert x + 1 == "mine" and x + x == "mine"
    monkeypatch.undo()
    assert (x + 1).numpy().tolist() == [2, 3] and (1 + x).numpy().tolist() == [2, 3]


def test_methods_are_described():
    x = Float(1, 2)
    for name in ("__add__", "__rmul__", "__iadd__", "__lt__", "__or__"):
        cls = Int if name == "__or__" else Float
        method = getattr(cls, name)
        assert str(inspect.signature(method)) == "(self, value, /)" and "Return" in method.__doc__
        assert method.__name__ == name and method.__objclass__ is cls
        assert pickle.loads(pickle.dumps(method)) is method is copy.copy(method)
    assert str(inspect.signature(Float.__neg__)) == "(self, /)"
    assert Float.__add__(x, 1).numpy().tolist() == x.__radd__(1).numpy().tolist() == [2, 3]
    assert Float.__rsub__(x, 1).numpy().tolist() == [0, -1]
    for wrong in (
        lambda: Float.__add__(1, x),
        lambda: Float.__iadd__(1, x),
        lambda: Float.__add__(),
    ):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(AttributeError):
        object.__new__(Float) + 1
    assert pickle.loads(pickle.dumps(x + 1)).numpy().tolist() == [2, 3]


def test_debug_mode_notes_the_lines_of_nodes_and_variables():
    x, z = made(ADFloat, 5), tracked(1, 2, 3, 4, 5)
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        y = x * z
        assert y._node in label.locations and y._var in graph.locations
    y = x * z
    assert y._node not in label.locations and y._var not in graph.locations


def test_forward_traversals_and_bodies_see_variables():
    def gradients():
        x = tracked(1, 2, 3)
        y = x * x
        dr.forward(x)
        z = 2 - y * x
        dr.forward(x)
        found = [y.grad, z.grad]
        x = tracked(1, 2, 3)
        state = dr.llvm.ad.UInt(0), ADFloat(x)
        body = lambda i, y: (i + 1, y * x)  # noqa: E731
        y = dr.while_loop(state, lambda i, y: i < 3, body, max_iterations=3)[1]
        with dr.suspend_grad():
            assert not dr.grad_enabled(x * x)
        dr.backward(y)
        return [g.numpy().tolist() for g in (*found, x.grad)]

    with in_python():
        wanted = gradients()
    assert gradients() == wanted and wanted[2] == [4, 32, 108]


def test_bodies_have_variables_of_their_own():
    calls = []

    def body(i, y):
        sys.setprofile(lambda frame, event, value: calls.append(frame) if event == "call" else None)
        z = y * x
        sys.setprofile(None)
        assert type(z._var) is graph.Inner and graph.tapes()[-1][-1] is z._var
        with dr.suspend_grad():
            assert not dr.grad_enabled(z * x)
        with dr.suspend_grad(x):
            w = z * x
        assert w._var.deps == (z._var, None) and graph.tapes()[-1][-1] is w._var
        return i + 1, w

    x = tracked(1, 2, 3)
    start = dr.llvm.ad.UInt(0), ADFloat(x)
    y = dr.while_loop(start, lambda i, y: i < 3, body, max_iterations=3)[1]
    assert not calls
    dr.backward(y)
    assert x.grad.numpy().tolist() == [4, 4 * 2**6, 4 * 3**6]
    assert type((x * x)._var) is graph.Var


def test_threads():
    wrong = []

    def work(k):
        x = made(Float, 32, k)
        for j in range(300):
            y = x * j + k - x
            y += j
            if y.numpy()[3] != (3 + k) * j + k - (3 + k) + j:
                wrong.append((k, j))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process")
def test_a_forked_child():
    x = made(Float, 5)
    child = os.fork()
    if not child:
        good = 1
        try:
            y = x * 2.5 - x
            good = (y + 1).numpy().tolist() == [2.5, 4, 5.5, 7, 8.5] and dr.all(y < x * 2)
        finally:
            os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_vectors_use_them():
    x, z = Array3f(1, 2, 3), Array3f(2)
    dr.enable_grad(z)
    for run in (lambda: x * x, lambda: x * 2, lambda: 2 - z, lambda: dr.sin(x), lambda: z < x):
        with in_python():
            wanted = [outcome(Float.__pos__, a) for a in run()]
        assert [outcome(Float.__pos__, a) for a in run()] == wanted


@pytest.mark.parametrize("part", ["nodes", "wrappers"])
def test_the_layout_of_objects_is_checked(part, monkeypatch):
    if part == "nodes":
        monkeypatch.setattr(objects, "word_at", lambda address: 0)
    else:
        words = objects.memory_of
        monkeypatch.setattr(objects, "memory_of", lambda thing: words(thing)[:6])
    assert not warm_up.places(native_operators)


def test_classes_and_functions_that_come_later(monkeypatch):
    known = native_operators._installed
    assert known.add in table.finishers
    made_ = inline.RECORDERS[ops.tanh]
    made_.pop(UInt, None)
    made_.pop(Float, None)
    assert type(made_[Float]) is type(len) and made_[UInt] is inline.record_nothing
    assert ctypes.sizeof(code) and type(Float.__mul__) is type(int.__mul__)


def test_classes_beyond_the_table_keep_the_operators_of_python(monkeypatch):
    made, most = native_operators._installed, native_operators._MOST
    assert 2 * most <= len(code.cells)  # so that look-ups end
    monkeypatch.setattr(made, "_classes", most)
    before = vars(Int)["__add__"]
    made.add(Int)
    assert vars(Int)["__add__"] is before and made._classes == most
