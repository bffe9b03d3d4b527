"""Reverse mode of loops within other loops, branches and calls: what it costs, which lanes it runs
for, and what remains when it fails."""

import gc
import weakref

import numpy as np
import pytest
from directional import check

import drjit as dr
from drjit.jit import collector
from drjit.jit.run import pending, schedule
from drjit.jit.target import numpy as numpy_target
from drjit.llvm.ad import Float64 as F
from drjit.llvm.ad import UInt

N = UInt(0, 1, 2, 3, 8, 9, 17)
X = np.array([0.7, 1.3, 0.6, 1.1, 0.9, 0.8, 1.2])


def repeated(x, i=None, limit=None):
    """A loop of `N` iterations, or so many more."""
    n = N if i is None else N + i

    def body(k, y):
        return k + 1, dr.sin(y * x) + 0.3

    return dr.while_loop((UInt(0), F(0.5)), lambda k, y: k < n, body, max_iterations=limit)[1]


def in_loop(x, limit=None):
    return dr.while_loop(
        (UInt(0), F(1)), lambda i, y: i < 2, lambda i, y: (i + 1, y * repeated(x * y, i, limit))
    )[1]


def in_branch(x, limit=None):
    return dr.if_stmt((x,), N > 1, lambda x: repeated(x, None, limit), lambda x: x * x)


def in_call(x, limit=None):
    functions = [lambda x: x * 3, lambda x: repeated(x, None, limit) * x]
    return dr.switch(N & 1, functions, x)


def twice(x, limit=None):
    """A loop in a call in a loop."""
    return dr.while_loop(
        (UInt(0), x), lambda i, y: i < 2, lambda i, y: (i + 1, in_call(0.5 * y, limit) + x)
    )[1]


@pytest.mark.parametrize(
    "limit", [None, 1, 80, *(pytest.param(k, marks=pytest.mark.sweep) for k in (5, 100000))]
)
@pytest.mark.parametrize("function", [in_loop, in_branch, in_call, twice])
@pytest.mark.compiled_every(3)
def test_bounds_only_matter_for_the_cost(function, limit, tier):
    check(lambda x: function(x, limit), F(X))


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.sweep), 3])
def test_a_stack_that_is_full(count, monkeypatch, tier):
    monkeypatch.setattr("drjit.flow.loop.gradient.CHECKPOINTS", count)
    check(in_loop, F(X))


@pytest.mark.processor
def test_iterations_are_not_computed_from_the_beginning_each(monkeypatch):
    rounds = 0

    def going(record, mask):
        nonlocal rounds
        rounds += 1
        return mask

    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    monkeypatch.setitem(numpy_target.namespace, "going", going)

    def run(n):
        def inner(x):
            return dr.while_loop(
                (UInt(0), x), lambda i, y: i < n, lambda i, y: (i + 1, dr.sin(y) * 1.01)
            )[1]

        x = F(0.5)
        dr.enable_grad(x)
        dr.backward(dr.switch(UInt(0, 0), [inner], x))
        dr.eval(x.grad)

    for n in (10, 40, 120):
        rounds = 0
        run(UInt(n))
        assert 3 * n < rounds < n * (np.log2(n) / 2 + 4)


def test_only_lanes_that_take_part_run_again(tier):
    """In the others, the loop would go on for ever, and read beyond the end of the table."""
    x, table = F(2, -1, 3, 0), F(0.5, 1, 1.5)
    dr.enable_grad(x)

    def inside(x):
        def body(i, y):
            return i + 1, y * x * dr.gather(F, table, i)

        return dr.while_loop((UInt(0), x), lambda i, y: dr.abs(y) < 1.2 * x * x, body)[1]

    def f(x, mode):
        return dr.if_stmt((x,), x > 1, inside, lambda x: x * 2, mode=mode)

    for mode in ("symbolic", "evaluated"):
        x.grad = 0
        y = f(x, mode)
        np.testing.assert_allclose(y.numpy(), [12, -2, 13.5, 0])
        dr.backward(y)
        np.testing.assert_allclose(x.grad.numpy(), [24, 2, 13.5, 2])
        x.grad = 0
        dr.backward(f(x, mode), flags=dr.ADFlag.Default | dr.ADFlag.KeepGraph)
        np.testing.assert_allclose(x.grad.numpy(), [24, 2, 13.5, 2])
        x.grad = 0
        y = f(x, mode)
        x.grad = 1
        dr.forward_to(y)
        np.testing.assert_allclose(y.grad.numpy(), [24, 2, 13.5, 2])


class Fails(dr.CustomOp):
    """The identity, without derivatives."""

    def eval(self, x):
        return x + 0

    def forward(self):
        raise ValueError("no tangents")

    def backward(self):
        raise ValueError("no gradients")


@pytest.mark.parametrize("limit", [None, 3, 1])
def test_a_failure_leaves_nothing_pending(limit):
    """What was recorded before it is forgotten, with the memory that it writes to."""

    def body(i, y):
        return i + 1, dr.sin(dr.custom(Fails, y * x) * dr.gather(F, table, i))

    x, table = F(0.5, 0.7), F(0.5, 1, 1.5)
    dr.enable_grad(x, table)
    y = dr.while_loop((UInt(0), F(1)), lambda i, y: i < 3, body, max_iterations=limit)[1]
    gc.collect()
    schedule.evaluate([])
    alive = {id(b) for b in collector.objects_of(type(x._node.data))}
    with pytest.raises(ValueError, match=r"^no gradients\n"):
        dr.backward(y)
    assert not pending.effects
    assert x.grad.numpy().tolist() == [0, 0]
    gc.collect()
    left = [b for b in collector.objects_of(type(x._node.data)) if id(b) not in alive]
    assert [b for b in left if b.nbytes > 64] == []
    y = dr.while_loop((UInt(0), F(1)), lambda i, y: i < 3, body, max_iterations=limit)[1]
    x.grad = 1
    with pytest.raises(ValueError, match=r"^no tangents\n"):
        dr.forward_to(y)
    schedule.evaluate([])


def test_a_failed_pass_within_another_loop():
    def inner(i, y):
        return i + 1, dr.custom(Fails, dr.sin(y * x))

    def outer(j, y):
        return j + 1, dr.while_loop((UInt(0), y), lambda i, y: i < 3, inner)[1]

    x = F(0.5, 0.7)
    dr.enable_grad(x)
    y = dr.while_loop((UInt(0), F(1)), lambda j, y: j < 2, outer)[1]
    with pytest.raises(ValueError, match="no gradients"):
        dr.backward(y)
    assert not pending.effects
    reference = weakref.ref(y._node)
    del y
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("limit", [None, 80])
@pytest.mark.parametrize("function", [repeated, in_loop, in_branch, in_call, twice])
def test_a_pass_that_fails_can_be_repeated(function, limit):
    class Fragile(dr.CustomOp):
        def eval(self, x):
            return x * x

        def backward(self):
            if fails:
                raise KeyboardInterrupt
            self.set_grad_in("x", 3 * self.grad_out())

    found = []
    for failures in (0, 2):
        x = F(X)
        dr.enable_grad(x)
        # The failure comes when the loop has been differentiated, as it was computed first.
        y = function(dr.custom(Fragile, x), limit=limit)
        for _ in range(failures):
            fails = True
            with pytest.raises(KeyboardInterrupt):
                dr.backward(y)
            assert not x.grad.numpy().any()
        fails = False
        dr.backward(y)
        found.append(x.grad.numpy())
        assert found[-1].any()
    np.testing.assert_array_equal(*found)


def powers(x, w, limit=None):
    """A loop with a variable that it changes, one that it leaves alone, and a captured one."""

    def body(k, y, z):
        return k + 1, y * z + w * dr.sin(y), z

    start = UInt(0), F(x), F(x)
    return dr.while_loop(start, lambda k, y, z: k < 3, body, max_iterations=limit)[1]


def expected(x, w):
    """The result of `powers`, and its derivatives with respect to both arguments."""
    y, dx, dw = x, np.ones_like(x), np.zeros_like(x)
    for _ in range(3):
        slope = x + w * np.cos(y)
        dx, dw, y = slope * dx + y, slope * dw + np.sin(y), y * x + w * np.sin(y)
    return y, dx, dw


W = np.linspace(0.2, 0.8, len(X))
VALUE, DX, DW = expected(X, W)


@pytest.mark.parametrize("limit", [None, 3])
@pytest.mark.parametrize("evaluated", [False, True])
@pytest.mark.parametrize("order", ["f", "b", "ff", "fb", "bf", "bb", "bfb", "fbf", "ffbb"])
@pytest.mark.parametrize("lazy", [False, True])
def test_derivatives_can_be_taken_again(order, evaluated, limit, lazy):
    x, w = F(X), F(W)
    dr.enable_grad(x, w)
    y = powers(x, w, limit)
    if evaluated:
        dr.eval(y)
    found = []
    for number, mode in enumerate(order):
        last = number == len(order) - 1
        flags = dr.ADFlag.Default if last else dr.ADFlag.ClearVertices
        for variable in (x, w, y):
            dr.clear_grad(variable)
        if mode == "f":
            dr.set_grad(x, number + 1)
            dr.set_grad(w, 2)
            dr.enqueue(dr.ADMode.Forward, x, w)
            dr.traverse(dr.ADMode.Forward, flags)
            found.append((dr.grad(y), (number + 1) * DX + 2 * DW))
        else:
            dr.backward(y, flags)
            found += [(dr.grad(x), DX), (dr.grad(w), DW)]
        if not lazy:
            dr.eval(found[-1][0])
    for value, wanted in [*reversed(found), (y, VALUE)]:
        np.testing.assert_allclose(value, wanted, rtol=1e-12)


def test_a_tangent_that_depends_on_the_result():
    x, w = F(X), F(W)
    dr.enable_grad(x, w)
    y = powers(x, w)
    dr.set_grad(x, dr.detach(y))
    dr.enqueue(dr.ADMode.Forward, x)
    dr.traverse(dr.ADMode.Forward)
    np.testing.assert_allclose(dr.grad(y), DX * VALUE, rtol=1e-12)


def test_a_tangent_that_waits_for_a_scatter():
    x, w, tangent = F(X), F(W), dr.zeros(F, len(X))
    dr.enable_grad(x, w)
    y = powers(x, w)
    dr.scatter(tangent, dr.detach(y), dr.arange(UInt, len(X)))
    dr.set_grad(x, tangent)
    dr.enqueue(dr.ADMode.Forward, x)
    dr.traverse(dr.ADMode.Forward)
    np.testing.assert_allclose(dr.grad(y), DX * VALUE, rtol=1e-12)


def test_tangents_are_variables_of_the_loop_that_has_not_run():
    x, w = F(X), F(W)
    dr.enable_grad(x, w)
    y = powers(x, w)
    dr.forward(x)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.eval(y, dr.grad(y))
        (kernel,) = dr.kernel_history((dr.KernelType.JIT,))
    assert kernel["ir"].getvalue().count("while ") == 1
    np.testing.assert_allclose(y, VALUE, rtol=1e-12)
    np.testing.assert_allclose(dr.grad(y), DX, rtol=1e-12)


def test_a_tangent_that_a_loop_takes_in_twice():
    x, w = F(X), F(W)
    dr.enable_grad(x, w)
    y = powers(x, w)
    tangent = F(X)
    for _ in range(60):
        tangent = dr.sin(tangent)
    found = []
    for _ in range(3):
        dr.clear_grad(y)
        dr.set_grad(w, tangent)
        dr.enqueue(dr.ADMode.Forward, w)
        dr.traverse(dr.ADMode.Forward, dr.ADFlag.ClearNone)
        found.append(dr.grad(y))
    below = [value._node for value in found]
    seen = set(below)
    for n in below:  # which grows
        assert all(d.serial < n.serial for d in n.deps), "operands come first"
        below += [d for d in n.deps if d not in seen]
        seen.update(n.deps)
    del below, seen, n
    for value in found:
        np.testing.assert_allclose(value, DW * np.array(tangent), rtol=1e-12)
