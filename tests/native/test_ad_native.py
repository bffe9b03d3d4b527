"""Reverse traversals go through the derivative graph by native code in programs that trace much. It
does what the functions of Python do, and leaves nothing behind."""

import gc
import sys
import weakref

import numpy as np
import pytest
from helpers import forget_forward_traversals, growth, tracked
from hypothesis import given, settings
from hypothesis import strategies as st

import drjit as dr
from drjit.ad import traverse
from drjit.array import native_operators
from drjit.jit import collector, substitutes
from drjit.jit.cpu import variants, warm_up
from drjit.llvm.ad import Float

pytestmark = pytest.mark.skipif(not warm_up.places(native_operators), reason="other layout")


@pytest.fixture(autouse=True, scope="module")
def installed():
    before, variants.pinned = variants.pinned, "compiled"  # results are the same to the last bit
    if native_operators._installed is None and (places := warm_up.places(native_operators)):
        native_operators.install(places)
    yield
    variants.pinned = before


def test_native_code_is_in_use():
    assert substitutes.collect_variables is not None and substitutes.cut is not None


def graph(steps):
    """Arrays, of which each is computed from two earlier ones."""
    values = [tracked(0.5, 1.5), tracked(2, -1), Float(3, 4)]
    for i, j in steps:
        a, b = values[-1 - i % len(values)], values[-1 - j % len(values)]
        values.append(a * b if (i + j) % 2 else a + dr.sin(b))
    return values


STEPS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=30)


@given(STEPS, st.integers(1, 3))
@settings(max_examples=80, deadline=None, database=None)
def test_the_same_variables_in_the_same_order(steps, seeds):
    values = graph(steps)
    starts = [v._var for v in values[-seeds:] if v._var is not None]
    starts = [*dict.fromkeys(starts)]
    found = []
    for collect in (traverse._collect, substitutes.collect_variables):
        reached, mark = [*starts], object()
        for v in starts:
            v.mark = mark
        found.append((collect(reached, mark), reached))
    assert found[0] == found[1]
    serials = [v.serial for v in found[0][1]]
    if len(starts) == 1:
        assert found[0][0] == (serials == sorted(serials, reverse=True))


@given(STEPS)
@settings(max_examples=20, deadline=None, database=None)
def test_gradients(steps):
    found = []
    native = substitutes.collect_variables, substitutes.cut
    for collect, cut in (native, (None, None)):
        substitutes.collect_variables, substitutes.cut = collect, cut
        try:
            values = graph(steps)
            dr.backward(dr.sum(sum(values)))
            found.append([v.grad.numpy() for v in values[:2]])
        finally:
            substitutes.collect_variables, substitutes.cut = native
    np.testing.assert_array_equal(found[0], found[1])


def test_edges_are_freed():
    x = tracked(1, 2)
    y = dr.exp(x * 2)
    z = y * y
    inner, kept = weakref.ref(z._var.deps[0]), y._var
    assert inner() is kept
    dr.backward(z)
    assert z._var.deps == z._var.inputs == () and z._var.rule is None
    assert kept.deps == () and kept.result is None and kept.data is None
    del y, kept
    assert inner() is None
    dr.backward(z, flags=dr.ADFlag.Default)
    np.testing.assert_allclose(x.grad.numpy(), 4 * np.exp([4.0, 8.0]), rtol=1e-5)


def test_edges_can_be_kept():
    x = tracked(1, 2)
    y = x * x * x
    for k in (1, 2):
        dr.backward(y, flags=dr.ADFlag.ClearVertices)
        np.testing.assert_allclose(x.grad.numpy(), np.array([3, 12.0]) * k)


def test_destructors_that_run_meanwhile():
    runs = []

    class Twice(dr.CustomOp):
        def eval(self, x):
            return x * 2

        def backward(self):
            self.set_grad_in("x", self.grad_out() * 2)

        def __del__(self):
            a = tracked(1, 2, 3)
            dr.backward(a * a)
            runs.append(a.grad.numpy().tolist())

    x = tracked(1, 2)
    y = dr.custom(Twice, x) * dr.custom(Twice, x * 3)
    dr.backward(y)
    del y
    gc.collect()
    np.testing.assert_allclose(x.grad.numpy(), 24 * np.array([1, 2.0]))
    assert runs == [[2, 4, 6]] * 2


def test_references_are_counted():
    forget_forward_traversals()  # which keep a list of all variables
    x = tracked(*range(1, 40))

    def step():
        y = x
        for _ in range(10):
            y = dr.sin(y) * x + 0.5
        dr.backward(y)
        dr.eval(x.grad)
        dr.clear_grad(x)

    def steps(n=150):
        for _ in range(n):
            step()

    def counts():
        return [sys.getrefcount(w) for w in (x, x._var, x._node)]

    steps(600)
    before = counts()
    for count in (sys.getallocatedblocks, lambda: [sys.getrefcount(w) for w in ((), None)]):
        assert np.all(abs(growth(steps, count)) < 30)
    assert counts() == before


def test_failing_allocations():
    limits = pytest.importorskip("_testcapi")
    x = tracked(1, 2, 3)
    y = dr.sin(x) * x
    for _ in range(30):
        y = y * x + y
    expected = None
    for k in range(40):
        z = y + k
        try:
            limits.set_nomemory(k, k + 1)
            traverse.enqueue(dr.ADMode.Backward, [z._var])
        except MemoryError:
            assert not traverse._thread.queue.variables
        finally:
            limits.remove_mem_hooks()
        traverse._thread.queue = traverse._Queue()
        dr.backward(z, flags=dr.ADFlag.ClearVertices)
        found = x.grad.numpy()
        dr.clear_grad(x)
        expected = found if expected is None else expected
        np.testing.assert_array_equal(found, expected)
    collector.pauses.clear()  # those that could not be ended without memory
    collector.end_pause(None)
