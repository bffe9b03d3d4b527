"""Scatters of differentiable values within loops, branches and calls: values against Python's own
loops over the lanes, derivatives against finite differences."""

import gc
import weakref
from functools import partial

import numpy as np
import pytest
from directional import check

import drjit as dr
from drjit import nn
from drjit.ad import graph
from drjit.llvm.ad import Array2f64, Bool, Float, Float16, TensorXf64, UInt
from drjit.llvm.ad import Float64 as F

MODES = ("evaluated", "symbolic")
TIERS = ("auto", "numpy")
X = F(0.7, 1.3, 0.6, 1.1, 0.9)
T = F(0.4, 1.8, 0.8, 1.5, 1.2, 0.5, 0.3)
COUNTS = UInt(0, 1, 3, 2, 2)
LANE = dr.arange(UInt, 5)


def loop(mode, body, x, t):
    """The body gets the number of the iteration; lanes have as many as `COUNTS` says."""

    def step(k):
        body(k, x, t)
        return (k + 1,)

    dr.while_loop((UInt(0),), lambda k: k < COUNTS, step, mode=mode)


def loop_state(mode, body, x, t):
    def step(k, x, t):
        body(k, x, t)
        return k + 1, x, t

    return dr.while_loop((UInt(0), x, t), lambda k, x, t: k < COUNTS, step, mode=mode)[2]


def branch(mode, body, x, t):
    def yes():
        body(LANE, x, t)
        return LANE

    dr.if_stmt((), COUNTS >= 2, yes, lambda: LANE, mode=mode)


def branch_state(mode, body, x, t):
    def yes(x, t):
        body(LANE, x, t)
        return t

    return dr.if_stmt((x, t), COUNTS >= 2, yes, lambda x, t: t, mode=mode)


def both_sides(mode, body, x, t):
    def side(k):
        def run(x):
            body(k, x, t)
            return x * k

        return run

    dr.if_stmt((x,), COUNTS >= 2, side(LANE), side(LANE + 1), mode=mode)


def call(mode, body, x, t):
    def one(x):
        body(LANE, x, t)
        return x

    def two(x):
        body(UInt(1), x * x, t)
        return x + 1

    dr.switch(COUNTS % 3, [one, lambda x: x, two], x, mode="symbolic")


def branch_in_loop(mode, body, x, t):
    def step(k):
        def yes(x):
            body(k, x * F(k + 1), t)
            return x

        dr.if_stmt((x,), (LANE + k) % 2 == 0, yes, lambda x: x, mode=mode)
        return (k + 1,)

    dr.while_loop((UInt(0),), lambda k: k < COUNTS, step, mode=mode)


def loop_in_branch(mode, body, x, t):
    def yes(x):
        loop(mode, body, x, t)
        return x

    dr.if_stmt((x,), COUNTS < 3, yes, lambda x: x, mode=mode)


def loop_in_loop(mode, body, x, t):
    def step(k):
        def inner(j):
            body(j, x * F(k + j + 1), t)
            return (j + 1,)

        dr.while_loop((UInt(0),), lambda j: j <= k, inner, mode=mode)
        return (k + 1,)

    dr.while_loop((UInt(0),), lambda k: k < COUNTS, step, mode=mode)


def call_in_loop(mode, body, x, t):
    def step(k):
        call(mode, lambda _, x, t: body(k, x, t), x, t)
        return (k + 1,)

    dr.while_loop((UInt(0),), lambda k: k < COUNTS, step, mode="symbolic")


def moving(mode, body, x, t):
    """What is written depends on variables that change."""

    def step(k, y):
        body(k, y, t)
        return k + 1, y * x + 0.1

    dr.while_loop((UInt(0), F(1)), lambda k, y: k < COUNTS, step, mode=mode)


FLOWS = {
    f.__name__: f
    for f in (
        loop, loop_state, branch, branch_state, both_sides, call, branch_in_loop, loop_in_branch,
        loop_in_loop, call_in_loop, moving,
    )
}  # fmt: skip


def add(k, x, t):
    dr.scatter_add(t, dr.sin(x) * x, LANE // 2)


def add_by_iteration(k, x, t):
    dr.scatter_add(t, dr.sin(x) * F(k + 1), LANE + k % 2, x > 0.65)


def add_twice(k, x, t):
    dr.scatter_add(t, x * x, LANE)
    dr.scatter_add(t, x * 3, LANE + 1)


def replace(k, x, t):
    dr.scatter(t, x * x * F(k + 2), LANE)


def replace_by_constants(k, x, t):
    dr.scatter(t, F(3), LANE, k % 2 == 0)


def replace_twice(k, x, t):
    dr.scatter(t, x * x, LANE)
    dr.scatter(t, x * 7, LANE, x > 1.05)


BODIES = {
    f.__name__: f
    for f in (add, add_by_iteration, add_twice, replace, replace_by_constants, replace_twice)
}


def run(flow, mode, body, x, t):
    """What the target holds afterwards."""
    t = t + 0
    found = FLOWS[flow](mode, BODIES[body], x, t)
    return t if found is None else found


# The evaluated mode runs kernels without loops, which other tests compile.
RUNS = [
    # Iterations that are evaluated are operations like those without a loop: half of them are
    # sweeps, such that each flow and each body remains.
    pytest.param(
        *(flow, body, mode, target),
        marks=[pytest.mark.sweep] * (mode == "evaluated" and (i + j) % 2),
    )
    for i, flow in enumerate(FLOWS)
    for j, body in enumerate(BODIES)
    for mode, target in (("evaluated", "numpy"), ("symbolic", "numpy"), ("symbolic", "compiled"))
    # Functions of a call would replace the same entries.
    if not (flow == "call" and body.startswith("replace"))
    and (
        target == "numpy"
        or body == "add_by_iteration"
        or (body == "replace_twice" and flow in ("loop", "branch_in_loop", "call_in_loop"))
    )
]


@pytest.mark.parametrize(("flow", "body", "mode", "target"), RUNS)
def test_derivatives(flow, body, mode, target, monkeypatch):
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", target)
    together = target == "compiled"  # what propagates is the same for all targets
    check(lambda x, t: run(flow, mode, body, x, t), X, T, together=together)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.compiled_every(7)
def test_values_agree_in_both_modes_and_without_derivatives(flow, body, tier):
    found = []
    for mode in MODES:
        x, t = F(X), F(T)
        found.append(run(flow, mode, body, x, t).numpy())
        dr.enable_grad(x, t)
        with dr.suspend_grad():
            y = run(flow, mode, body, x, t)
        assert not dr.grad_enabled(y)
        found.append(y.numpy())
        y = run(flow, mode, body, x, t)
        assert dr.grad_enabled(y)
        found.append(y.numpy())
        depends = body != "replace_by_constants"
        assert dr.grad_enabled(run(flow, mode, body, x, dr.detach(t))) == depends
        assert dr.grad_enabled(run(flow, mode, body, dr.detach(x), t))
    for y in found[1:]:
        np.testing.assert_allclose(found[0], y, rtol=1e-14)


def test_against_a_loop_over_lanes(tier):
    x, t = F(X), F(T)
    dr.enable_grad(x, t)
    y = run("loop", "symbolic", "replace_twice", x, t)
    values, gradient = np.array(T), np.array([1.0, 10, 100, 1000, 1e4, 1e5, 1e6])
    want = np.zeros(5)
    for i, n in enumerate(np.array(COUNTS)):
        for _ in range(n):
            values[i] = X[i] * X[i] if X[i] <= 1 else 7 * X[i]
        if n:
            want[i] = gradient[i] * (2 * X[i] if X[i] <= 1 else 7)
            gradient[i] = 0
    np.testing.assert_allclose(y.numpy(), values)
    dr.set_grad(y, F(1.0, 10, 100, 1000, 1e4, 1e5, 1e6))
    dr.enqueue(dr.ADMode.Backward, y)
    dr.traverse(dr.ADMode.Backward)
    np.testing.assert_allclose(x.grad.numpy(), want)
    np.testing.assert_allclose(t.grad.numpy(), gradient)


@pytest.mark.parametrize("mode", MODES)
def test_targets_of_all_kinds(mode, tier):
    """Components of vectors, tensors, attributes of objects, and several at once."""

    class Film:
        def __init__(self, t):
            self.image = TensorXf64(t, (2, 3))
            self.moments = Array2f64(t + 0, 0)

        def put(self, x, index):
            dr.scatter_add(self.image.array, x * x, index)
            dr.scatter_add(self.moments, Array2f64(x, x * x * x), index)

    def f(x, t):
        film = Film(t)

        def yes(x):
            film.put(x, LANE)
            return x

        def no(x):
            film.put(x * 2, LANE // 2)
            return x * 3

        y = dr.if_stmt((x,), x > 0.8, yes, no, mode=mode)
        return film.image.array, film.moments, y

    check(f, X, F(0.1, 0.2, 0.3, 0.4, 0.5, 0.6))


@pytest.mark.parametrize("mode", MODES)
def test_records(mode, tier):
    def f(x, t):
        t = t + 0

        def body(k, x):
            dr.scatter(t, Array2f64(x * x, x), LANE)
            return k + 1, x * 1.5

        dr.while_loop((UInt(0), x), lambda k, x: k < COUNTS, body, mode=mode)
        return t

    check(f, X, dr.linspace(F, 0, 1, 10))


@pytest.mark.parametrize("mode", MODES)
def test_sources_of_one_entry(mode, tier):
    def f(x, t):
        t = t + 0
        loop(mode, lambda k, x, t: dr.scatter_add(t, x * x, k), x, t)
        branch(mode, lambda k, x, t: dr.scatter_add(t, dr.sin(x), LANE), x, t)
        return t

    check(f, F(0.8), T)


def test_objects_that_dispatch_writes_to(tier):
    class Sensor:
        gain: F
        film: F

        def put(self, x, index):
            dr.scatter_add(self.film, x * self.gain, index)
            return x + self.gain

    a, b = Sensor(), Sensor()
    pointers = dr.instance_t(F, Sensor)([a, b, b, a, None])

    def f(x, gain, t):
        t = t + 0
        a.gain, b.gain, a.film, b.film = gain, gain * gain, t, t
        return dr.dispatch(pointers, Sensor.put, x, LANE // 2), t

    check(f, X, F(1.5), T)


@pytest.mark.parametrize("mode", MODES)
def test_syntax(mode, tier):
    @dr.syntax
    def histogram(x, t):
        k = UInt(0)
        while dr.hint(k < COUNTS, mode=mode):
            if dr.hint(x > 0.8, mode=mode):
                dr.scatter_add(t, x * x, k)
            k += 1
        return t

    check(lambda x, t: histogram(x, t + 0), X, T)


def test_entries_that_are_read_before_they_are_written():
    def f(x, t):
        t = t + 0

        def yes(x):
            y = x * dr.gather(F, t, LANE)
            dr.scatter_add(t, x * x, LANE)
            return y

        return dr.if_stmt((x,), COUNTS > 1, yes, lambda x: x, mode="symbolic"), t

    check(f, X, T)


@pytest.mark.parametrize("op", [dr.ReduceOp.Max, dr.ReduceOp.Min, dr.ReduceOp.Mul])
@pytest.mark.parametrize("flow", FLOWS)
def test_reductions_without_derivatives(flow, op):
    def run(mode, x):
        t = F(T)
        found = FLOWS[flow](mode, lambda k, x, t: dr.scatter_reduce(op, t, x, LANE), x, t)
        return t if found is None else found

    want = run("evaluated", F(X)).numpy()
    for backward in (True, False):
        x = F(X)
        dr.enable_grad(x)
        y = run("symbolic", x)
        np.testing.assert_allclose(dr.detach(y).numpy(), want)
        message = r"dr.scatter_reduce .* within a symbolic loop.*mode="
        with pytest.raises(RuntimeError, match=message):
            dr.backward(y) if backward else dr.forward(x)


def test_what_has_no_derivative_is_refused():
    def run(body, t):
        x = F(X)
        dr.enable_grad(x)
        return x, dr.if_stmt((x,), x > 0.8, lambda x: body(x, t), lambda x: x, mode="symbolic")

    def both(x, t):
        dr.scatter_add(t, x, LANE)
        dr.scatter(t, x * x, LANE)
        return x

    x, _ = run(both, t := F(T))
    np.testing.assert_allclose(t.numpy()[:5], np.where(X.numpy() > 0.8, X.numpy() ** 2, T[:5]))
    dr.forward(x)
    np.testing.assert_allclose(t.grad.numpy()[:5], np.where(X.numpy() > 0.8, 2 * X.numpy(), 0))
    x, _ = run(both, t := F(T))
    with pytest.raises(RuntimeError, match=r"both by dr.scatter and dr.scatter_add"):
        dr.backward(t)

    x, y = run(lambda x, t: dr.scatter_exch(t, x, LANE), t := F(T))
    np.testing.assert_allclose(dr.detach(y).numpy(), np.where(X.numpy() > 0.8, T[:5], X.numpy()))
    with pytest.raises(RuntimeError, match=r"derivatives of dr\.scatter_exch within"):
        dr.backward(y)
    x, y = run(lambda x, t: dr.scatter_exch(t, x, LANE) * 0 + x, t := F(T))
    with pytest.raises(RuntimeError, match=r"derivatives of dr\.scatter_exch within"):
        dr.backward(t)
    x, y = run(lambda x, t: x * dr.detach(dr.scatter_exch(t, dr.detach(x), LANE)), t := F(T))
    with pytest.raises(RuntimeError, match="old values"):
        dr.backward(y)

    x, _ = run(lambda x, t: dr.scatter_add(t, x, LANE) or x, t := F(T))
    with pytest.raises(RuntimeError, match=r"KeepGraph.*mode='evaluated'"):
        dr.backward(t, flags=dr.ADFlag.Default | dr.ADFlag.KeepGraph)

    def inner(x, t):
        z = F(2)
        dr.enable_grad(z)
        dr.scatter_add(t, z * z, LANE)
        dr.forward(z)
        return x

    with pytest.raises(RuntimeError, match="from within the body"):
        run(inner, F(T))


def test_results_and_targets_of_one_block():
    """Only what a traversal needs is visited; the rest has the gradient 0."""
    x, t = F(X), F(T)
    dr.enable_grad(x)

    def yes(x):
        dr.scatter_reduce(dr.ReduceOp.Max, t, x, LANE)
        return x * x

    y = dr.if_stmt((x,), x > 0.8, yes, lambda x: x, mode="symbolic")
    dr.backward(y)
    np.testing.assert_allclose(x.grad.numpy(), np.where(X.numpy() > 0.8, 2 * X.numpy(), 1))


def test_traversals_that_are_repeated():
    x, t = F(X), F(T)
    dr.enable_grad(x, t)
    y = run("loop_in_loop", "symbolic", "replace", x, t)
    dr.backward(y, flags=dr.ADFlag.ClearInterior)
    first = x.grad.numpy(), t.grad.numpy()
    dr.clear_grad([x, t, y])
    dr.backward(y)
    np.testing.assert_allclose(x.grad.numpy(), first[0])
    np.testing.assert_allclose(t.grad.numpy(), first[1])


def test_a_target_is_written_in_place():
    x, t = F(X), dr.opaque(F, 0, 1000)
    dr.enable_grad(x)
    before = t._node.data
    branch("symbolic", lambda k, x, t: dr.scatter_add(t, x * x, LANE), x, t)
    loop("symbolic", lambda k, x, t: dr.scatter_add(t, x * x, LANE), x, t)
    dr.eval(t)
    assert t._node.data is before
    dr.backward(t)
    dr.scatter_add(t, F(1), UInt(0))
    dr.eval(t)
    assert t._node.data is before


@pytest.mark.parametrize("mode", MODES)
def test_components_are_written_in_place(mode):
    def body(k, t):
        dr.scatter_add(t.x, F(1), k)
        return k + 1, t

    t = Array2f64(dr.arange(F, 5), dr.arange(F, 5))
    dr.make_opaque(t)
    before = [c._node.data for c in t]
    dr.while_loop((UInt(0, 1, 2), t), lambda k, t: k < 4, body, mode=mode)
    dr.eval(t)
    assert all(c._node.data is b for c, b in zip(t, before, strict=True))
    np.testing.assert_array_equal(t.x.numpy(), [1, 3, 5, 6, 4])


class Film:
    """An object that is no PyTree, with a target as attribute of an object within it."""

    def __init__(self, t):
        self.inner = type("Inner", (), {})()
        self.inner.image = t

    def put(self, body, k, x):
        body(k, x, self.inner.image)
        return x

    def closure(self, body, x):
        dr.if_stmt((x,), x > 0.8, lambda x: self.put(body, LANE, x), lambda x: x)

    def argument(self, body, x):
        def step(film, k):
            film.put(body, k, x)
            return film, k + 1

        dr.while_loop((self, UInt(0)), lambda film, k: k < COUNTS, step)

    def method(self, x):
        dr.scatter_add(self.inner.image, x * x, LANE)
        return x

    @dr.syntax
    def syntax(self, body, x):
        k = UInt(0)
        while k < COUNTS:
            self.put(body, k, x)
            k += 1


def in_list(body, x, t):
    found = {"targets": [t]}

    def yes(x):
        body(LANE, x, found["targets"][0])
        return x

    dr.if_stmt((x,), x > 0.8, yes, lambda x: x)


def in_tuple_of_functions(body, x, t):
    pair = (lambda x: (body(LANE, x, t), x)[1], lambda x: x)
    dr.switch(COUNTS % 2, [lambda x: pair[0](x), lambda x: pair[1](x)], x)


def as_default(body, x, t):
    def step(k, *, t=t):
        body(k, x, t)
        return (k + 1,)

    dr.while_loop((UInt(0),), lambda k: k < COUNTS, step)


def by_dispatch(body, x, t):
    class Sensor:
        def put(self, x):
            body(LANE, x, self.film)
            return x

    a, b = Sensor(), Sensor()
    a.film = b.film = t
    pointers = dr.instance_t(F, Sensor)
    dr.dispatch(pointers([a, b, b, a, None]), Sensor.put, x)
    pointers.unregister(a)
    pointers.unregister(b)


HOLDERS = {
    "list": in_list,
    "tuple": in_tuple_of_functions,
    "default": as_default,
    "dispatch": by_dispatch,
    "attribute": lambda body, x, t: Film(t).closure(body, x),
    "argument": lambda body, x, t: Film(t).argument(body, x),
    "syntax": lambda body, x, t: Film(t).syntax(body, x),
    "method": lambda body, x, t: dr.if_stmt((x,), x > 0, Film(t).method, lambda x: x),
    "partial": lambda body, x, t: dr.switch(UInt(0), [partial(body, LANE, t=t)], x),
}
"""By way of what a function refers to the array that it writes to."""


def test_nothing_stays_behind(monkeypatch):
    """What a program drops is free at once, whether it has been differentiated or not."""
    gc.collect()
    gc.disable()
    try:
        before = len(graph.live_variables())
        flows = [partial(f, "symbolic") for f in FLOWS.values()] + [*HOLDERS.values()]
        for flow in flows:
            for body in BODIES.values():
                # Kernels with loops are compiled for one of the bodies.
                monkeypatch.setattr("drjit.jit.cpu.variants.pinned", TIERS[body is not add])
                if flow is HOLDERS["partial"]:
                    body = partial_body
                for backward in (True, False):
                    x, t = F(X), F(T)
                    dr.enable_grad(x, t)
                    y = t + 0
                    dr.eval(y)
                    memory = weakref.ref(y._node.data)
                    z = flow(body, x, y)
                    dr.eval(y, z)
                    if backward:
                        dr.backward(y)
                    del x, t, y, z
                    dr.sync_thread()
                    assert memory() is None
                    assert len(graph.live_variables()) == before
    finally:
        gc.enable()


def partial_body(k, x, t):
    dr.scatter_add(t, x * x, k)
    return x


@pytest.mark.parametrize("body", ["add_by_iteration", "replace_twice"])
@pytest.mark.parametrize("holder", HOLDERS)
def test_derivatives_by_way_of(holder, body):
    body = partial_body if holder == "partial" else BODIES[body]
    if holder == "dispatch" and body is BODIES["replace_twice"]:
        return  # the order is not known

    def f(x, t):
        t = t + 0
        HOLDERS[holder](body, x, t)
        return t

    check(f, X, T)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 15, 17, 100])
def test_sizes(mode, size, tier):
    rng = np.random.default_rng(size)
    values, index = rng.random(size), rng.integers(0, 7, size)
    x, t, i = F(values), dr.zeros(F, 7), UInt(index)
    dr.enable_grad(x)

    def yes(x):
        dr.scatter_add(t, x * x * x, i)
        return x

    dr.if_stmt((x,), x > 0.5, yes, lambda x: x, mode=mode)
    weights = np.arange(1.0, 8)
    dr.backward(dr.dot(t, F(weights)))
    want = np.where(values > 0.5, 3 * values**2 * weights[index], 0)
    np.testing.assert_allclose(x.grad.numpy(), want)


def test_gradients_of_what_the_evaluated_mode_writes_stay_in_their_lanes():
    x, t = Float(1, 2, 3), dr.zeros(Float, 3)
    dr.enable_grad(x)

    def yes():
        dr.scatter_add(t, x * 2, dr.arange(UInt, 3))
        return UInt(0)

    dr.if_stmt((), Bool(True, True, False), yes, lambda: UInt(0), mode="evaluated")
    dr.backward(t)
    assert list(x.grad) == [2, 2, 0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.compiled_every(5)
def test_accumulators_of_one_entry(flow, mode, tier):
    def f(x, t):
        t = t + 0
        found = FLOWS[flow](mode, lambda k, x, t: dr.scatter_add(t, dr.sin(x), UInt(0)), x, t)
        return t if found is None else found

    check(f, X, F(0.5))


def test_half_precision(tier):
    x, t = Float16(1, 2, 3), dr.zeros(Float16, 2)
    dr.enable_grad(x)

    def yes(x):
        dr.scatter_add(t, x * x, UInt(0, 1, 1))
        return x

    dr.if_stmt((x,), x > 1, yes, lambda x: x, mode="symbolic")
    assert list(t) == [0, 13]
    dr.backward(t)
    assert list(x.grad) == [0, 4, 6]


@pytest.mark.parametrize("cls", [Float16, Float, F])
def test_replaced_entries_of_all_types(cls, tier):
    x, t = cls(1, 2, 3), cls(5, 6, 7, 8)
    dr.enable_grad(x, t)
    y = t * 2

    def yes(x):
        dr.scatter(y, x * x, UInt(0, 1, 2))
        return x

    dr.if_stmt((x,), x > 1, yes, lambda x: x, mode="symbolic")
    assert list(y) == [10, 4, 9, 16]
    dr.backward(y * cls(1, 2, 3, 4))
    assert list(x.grad) == [0, 8, 18]
    assert list(t.grad) == [2, 0, 0, 8]


@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize("where", ["body", "condition", "branch"])
def test_loops_that_read_what_they_write(where, state):
    lane = UInt(0, 1, 2)

    def run(mode):
        def body(k, t):
            t = t if state else table
            v = dr.gather(Float, t, lane) if where != "condition" else Float(5)

            def write(v):
                dr.scatter(t, v * 2, lane)
                return v

            if where == "branch":
                dr.if_stmt((v,), v > 1, write, lambda v: v, mode=mode)
            else:
                write(v)
            return k + 1, t if state else Float(0)

        def cond(k, t):
            t = t if state else table
            return k < (2 + dr.gather(Float, t, lane) * 0 if where == "condition" else Float(2))

        table = Float(1, 2, 3) if where != "condition" else dr.zeros(Float, 3)
        dr.while_loop((Float(0), table if state else Float(0)), cond, body, mode=mode)
        return list(table)

    assert run("evaluated") == {
        "body": [4, 8, 12], "condition": [10, 10, 10], "branch": [1, 8, 12],
    }[where]  # fmt: skip
    # A symbolic loop reads what the array held before it.
    assert run("symbolic") == {
        "body": [2, 4, 6], "condition": [10, 10, 10], "branch": [1, 4, 6],
    }[where]  # fmt: skip


@pytest.mark.parametrize("use", [lambda t: t, lambda t: t + 1, lambda t: dr.gather(Float, t, 0)])
def test_what_has_been_written_to_is_not_known_in_the_same_body(use):
    t = Float(1, 2)

    def body(i, x):
        dr.scatter(t, x, UInt(0, 1))
        return i + 1, use(t)

    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"written to and read in the same symbolic loop"):
            dr.while_loop((UInt(0, 0), Float(5, 6)), lambda i, _: i < 3, body)
        with pytest.raises(
            RuntimeError,
            match=r"written to and read in the same symbolic loop|written to by scatters",
        ):
            dr.if_stmt(
                (UInt(0, 0), Float(5, 6)), Bool(True, False), lambda *v: body(*v)[1], lambda i, x: x
            )
        assert list(t) == [1, 2]


@pytest.mark.parametrize("state", [True, False])
@pytest.mark.parametrize("add", [True, False])
@pytest.mark.parametrize("evaluated", [True, False])
def test_derivatives_of_loops_that_read_what_they_write(state, add, evaluated):
    def run():
        x, a = cls(1, 2, 3), cls(5, 6)
        dr.enable_grad(x, a)
        t = cls(x)
        if evaluated:
            dr.eval(t)

        def write(a, t):
            found = dr.gather(cls, t, UInt(0, 1))
            (dr.scatter_add if add else dr.scatter)(t, found * a, UInt(0, 1))

        if state:
            body = lambda k, a, t: (write(a, t), (k + 1, a, t))[1]  # noqa: E731
            t = dr.while_loop((UInt(0, 0), a, t), lambda k, *_: k < 2, body, max_iterations=2)[2]
        else:
            body = lambda k, a: (write(a, t), (k + 1, a))[1]  # noqa: E731
            dr.while_loop((UInt(0, 0), a), lambda k, _: k < 2, body, max_iterations=2)
        return x, a, t

    cls = F
    x, a, t = run()
    dr.backward(t * cls(1, 10, 100))
    assert list(t) == ([11, 26, 3] if add else [5, 12, 3])
    assert list(x.grad) == ([11, 130, 100] if add else [5, 60, 100])
    assert list(a.grad) == ([2, 40] if add else [1, 20])
    x, a, t = run()
    x.grad, a.grad = cls(1, 10, 100), cls(1, 2)
    dr.forward_to(t)
    assert list(t.grad) == ([13, 138, 100] if add else [6, 64, 100])


@pytest.mark.parametrize("reading", [True, False])
def test_targets_and_tables_do_not_set_the_size_of_a_loop(reading, tier):
    @dr.syntax
    def f():
        target, table, i, n = dr.zeros(Float, 5), dr.arange(Float, 5), UInt(0), Float(0)
        while i < 3:
            where = UInt(0, 1, 2) * i
            value = dr.gather(Float, table, where) if reading else Float(1)
            dr.scatter_add(target, value, where)
            n += 2
            i += 1
        return target, n, i

    target, n, i = f()
    assert list(target) == ([0, 1, 4, 0, 4] if reading else [5, 1, 2, 0, 1])
    assert n[0] == 6 and i[0] == 3


@pytest.mark.parametrize("kind", ["loop", "branch"])
def test_one_lane_scatters_once_however_many_use_what_it_computes(kind):
    target = dr.zeros(Float, 1)

    def body(k):
        dr.scatter_add(target, Float(1), UInt(0))
        return (k + 1,)

    if kind == "loop":
        (k,) = dr.while_loop((UInt(0),), lambda k: k < 4, body)
    else:
        (k,) = dr.if_stmt((UInt(3),), dr.opaque(Bool, True), body, lambda k: (k,))
    doubled = 2 * k  # is of one lane as well
    many = doubled * dr.arange(UInt, 6)
    dr.eval(many)
    np.testing.assert_array_equal(many, 8 * np.arange(6))
    assert target == (4 if kind == "loop" else 1)


def test_an_exception_takes_back_what_its_own_body_writes():
    """What the bodies around it write stays, unless they fail as well."""
    t = dr.opaque(F, 0, 3)

    def inner(j):
        dr.scatter(t, F(9), j)
        raise KeyError("inner")

    def outer(i):
        dr.scatter_add(t, F(1), i)
        with pytest.raises(KeyError, match="inner"):
            dr.while_loop((UInt(0),), lambda j: j < 3, inner)
        if fails:
            raise ValueError("outer")
        return (i + 1,)

    fails = False
    dr.while_loop((UInt(0),), lambda i: i < 3, outer)
    assert list(t) == [1, 1, 1]
    fails = True
    with pytest.raises(ValueError, match="outer"):
        dr.while_loop((UInt(0),), lambda i: i < 3, outer)
    assert list(t) == [1, 1, 1]


def test_a_loop_in_a_body_that_fails_loses_its_side_effects_only():
    """Its results do not depend on the body."""
    t, kept = dr.opaque(F, 0, 4), []

    def step(j, x):
        dr.scatter_add(t, x, j)
        return j + 1, x + 2

    def yes(x):
        kept.append(dr.while_loop((UInt(0, 1), F(1, 2)), lambda j, _: j < 3, step)[1])
        raise ValueError("stop")

    x = dr.opaque(F, 1, 2)
    with pytest.raises(ValueError, match="stop"):
        dr.if_stmt((x,), x > Float(0, 2), yes, lambda x: x)
    assert list(kept[0]) == [7, 2] and list(t) == [0, 0, 0, 0]


def test_a_loop_writes_although_its_tangents_are_wanted_first():
    """Values and tangents come from one loop, which writes once."""
    x = F(0.5, 1, 2)
    dr.enable_grad(x)
    t = dr.opaque(F, 0, 4)

    def body(i, y):
        dr.scatter_add(t, dr.detach(y), i)
        return i + 1, y * x

    y = dr.while_loop((UInt(0), F(x)), lambda i, _: i < UInt(1, 2, 3), body)[1]
    dr.set_grad(x, 1)
    dr.forward_to(y)
    assert list(t) == [3.5, 5, 8, 0]
    assert list(y.grad) == [1, 3, 32]


READS = {
    "NumPy": lambda t: t.numpy(),
    "text": str,
    "entry": lambda t: t[1],
    "entries": list,
    "nested": lambda t: Array2f64(t, t).numpy(),
    "tensor": lambda t: str(TensorXf64(t, (7, 1))),
    "running sum": dr.cumsum,
    "sorted": dr.sort,
    "assigned": lambda t: t.__setitem__(2, 5.0),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("flow", ["loop", "branch", "call"])
def test_what_a_body_writes_to_cannot_be_read_there(flow, read):
    """Not even what it held before: the program would not see what it has just written."""
    t = dr.opaque(F, 1, 7)

    def body(k, x, _):
        dr.scatter_add(t, 1, UInt(2))
        dr.eval(t)  # has nothing to do
        with pytest.raises(RuntimeError, match="symbolic loop, branch or call"):
            READS[read](t)

    FLOWS[flow]("symbolic", body, F(X), F(T))
    assert t[0] == 1 and t[2] > 1


@pytest.mark.parametrize("flow", ["loop", "branch", "call"])
def test_what_a_body_computes_for_nothing_holds_no_target(flow):
    """It would have to be copied."""
    x, one = F(X), dr.opaque(F, 2)
    dr.enable_grad(x)
    memory = one._node.data

    def body(k, x, t):
        dr.sin(x * one)  # of which the graph of derivatives remembers the operands
        dr.scatter_add(one, x, UInt(0))

    FLOWS[flow]("symbolic", body, x, F(T))
    dr.eval(one)
    assert one._node.data is memory


@pytest.mark.parametrize("size", [1, 3, 17])
def test_a_mask_that_is_evaluated_on_the_way_says_nothing_of_lanes_behind_the_last_one(
    size, monkeypatch
):
    """A packet has more lanes than such arrays."""
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "compiled")
    x, target = dr.opaque(UInt, 5, size), dr.zeros(UInt, 1)
    weights = dr.opaque(Float, 1, 4)
    dr.enable_grad(weights)
    net = nn.MatrixView()
    net.buffer, net.dtype, net.size = weights, dr.VarType.Float32, 4
    net.shape, net.stride, net.offset = (2, 2), 2, 0

    def body(x):
        y = dr.switch(x * 0, [lambda a: a + 1], x, mode="evaluated")
        dr.eval(y)
        dr.scatter_add(target, dr.full(UInt, 1, size), UInt(0))
        dr.backward(sum(net @ nn.CoopVec(Float(2), Float(3)) * Float(x - 4)))
        return y

    found = dr.if_stmt((x,), x > 2, body, lambda x: x, mode="evaluated")
    assert found[0] == 6 and target[0] == size
    assert weights.grad.numpy().tolist() == [2 * size, 3 * size] * 2
