"""Loops, branches and calls in combination: cases that an exhaustive comparison with plain loops
over the lanes has found."""

import gc
import random

import numpy as np
import pytest

import drjit as dr
from drjit.jit.ir import scope
from drjit.jit.run import schedule
from drjit.jit.text import structure
from drjit.llvm.ad import Float64 as F
from drjit.llvm.ad import UInt

MODES = ("evaluated", "symbolic")
LANE = dr.arange(UInt, 3)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [F(0.5), F(0.5, 1.5, 2.5)])
def test_lanes_that_never_enter_a_loop_keep_gradients(tier, mode, value):
    """Also if the body replaces a variable by what does not depend on anything differentiable."""

    def run():
        y = F(1, 2, 3)
        dr.enable_grad(y)
        dr.set_grad(y, F(5, 6, 7))
        state = F(y), UInt(0)
        test = lambda _, i: (i < 1) & (LANE < 2)  # noqa: E731
        return y, dr.while_loop(state, test, lambda _, i: (F(value), i + 1), mode=mode)[0]

    _, found = run()
    dr.forward_to(found)
    assert list(dr.grad(found)) == [0, 0, 7]
    y, found = run()
    dr.set_grad(y, 0)
    dr.backward(dr.sum(found * F(5, 6, 7)))
    assert list(y.grad) == [0, 0, 7]


@pytest.mark.parametrize("mode", MODES)
def test_a_loop_that_shifts_values_out(mode):
    y, z = F(1, 2, 3), F(1, 2, 3)
    dr.enable_grad(y, z)
    r, s, _ = dr.while_loop(
        (F(y), F(z), UInt(0)),
        lambda y, z, i: (i < 2) & (i < LANE),
        lambda y, z, i: (z * 2, F(0.5), i + 1),
        mode=mode,
    )
    dr.backward(dr.sum(r * F(5, 6, 7) + s * F(8, 9, 10)))
    assert list(y.grad) == [5, 0, 0]
    assert list(z.grad) == [8, 12, 0]


@pytest.mark.parametrize("size", [1, 3])
def test_scatters_of_a_function_that_no_lane_calls(tier, size):
    """The index is a constant, so that it is known while functions are traced."""
    x, target, source = F([0.5] * size), dr.zeros(F, 4), F(1, 2, 3)
    dr.make_opaque(x)
    dr.enable_grad(x, source)

    def write(a):
        dr.scatter_add(target, a * a * dr.gather(F, source, UInt(1)), UInt(1))
        return a * 1

    y = dr.switch(UInt(1), [write, lambda a: a * 2, write], x)
    dr.backward(dr.sum(y) + dr.sum(target))
    assert list(x.grad) == [2] * size
    assert list(source.grad) == [0, 0, 0]


def test_scatters_of_a_function_that_no_lane_calls_in_a_branch(tier):
    x, target = F(0.5, 0.5, 0.5), dr.zeros(F, 4)
    dr.make_opaque(x)
    dr.enable_grad(x)

    def write(a):
        dr.scatter_add(target, a * a, UInt(1))
        return a * 1

    call = lambda a: dr.switch(UInt(1), [write, write], a)  # noqa: E731
    y = dr.if_stmt((x,), LANE < 2, call, lambda a: a * 1)
    dr.backward(dr.sum(y) + dr.sum(target))
    assert list(x.grad) == [2, 2, 1]


def test_constants_of_arithmetic_that_leaves_a_loop_in_a_branch(tier):
    """The constant is a variable of the loop, and has no other use in the kernel."""

    def body(x):
        return dr.while_loop(
            (x, F(0.75), UInt(0)),
            lambda x, z, i: i < 1,
            lambda x, z, i: (x + F(0.5) * F(z), F(z), i + 1),
        )[0]

    x = dr.opaque(F, 1, 3)
    assert list(dr.if_stmt((x,), LANE < 2, lambda x: x, body)) == [1, 1, 1.375]


def test_evaluated_call_within_evaluated_call_for_one_value():
    """What has one entry stands for the lanes of the call around it: for all of them, or none."""
    target = dr.zeros(F, 2)

    def inner(_):
        dr.scatter_add(target, F(1), UInt(1))
        return F(0)

    def outer(x, active=True):
        return dr.switch(UInt(0), [inner], F(2), mode="evaluated")

    dr.switch(UInt(0, 1, 0, 0), [outer, lambda x: F(0)], F(1), mode="evaluated")
    assert list(target) == [0, 3]
    dr.switch(
        UInt(1, 1, 1), [lambda x, active: F(0), outer], F(1), dr.mask_t(F)(False), mode="evaluated"
    )
    assert list(target) == [0, 3]


def test_evaluated_call_where_all_lanes_are_active():
    """No mask is left that could be looked at."""
    function = lambda x: dr.switch(UInt(0), [lambda x: x + 1], x, mode="evaluated")  # noqa: E731
    x = dr.if_stmt((F(1),), dr.opaque(dr.mask_t(F), True), function, lambda x: x, mode="evaluated")
    assert list(x) == [2]
    assert list(dr.switch(UInt(0, 0), [function], F(1, 2), mode="evaluated")) == [2, 3]
    i, x = dr.while_loop(
        (0, F(1)), lambda i, x: dr.mask_t(F)(i < 2), lambda i, x: (i + 1, function(x)),
        mode="evaluated", strict=False,
    )  # fmt: skip
    assert i == 2
    assert list(x) == [3]


def test_the_lanes_of_a_kernel_have_no_value():
    with pytest.raises(RuntimeError, match="outside of one"):
        schedule.evaluate([scope.ACTIVE])
    assert scope.ACTIVE.op.name == "active"
    assert list(UInt(1, 2) + 1) == [2, 3]


@pytest.mark.parametrize("again", [False, True])
def test_exception_after_an_earlier_scatter_has_happened(again):
    """A target is again what it was before the recording, also if that has become known since."""
    target, x = dr.zeros(F, 3), F(1, 2, 3)
    dr.make_opaque(x)
    dr.scatter_add(target, x, LANE)

    def yes():
        dr.scatter_add(target, x, LANE)
        if again:
            dr.eval(x * 2)
        raise ValueError("here")

    with pytest.raises(RuntimeError if again else ValueError):
        dr.switch(LANE % 2, [yes, yes]) if again else dr.if_stmt((), x > 1, yes, lambda: x)
    assert not scope.stack()
    assert list(target) == [1, 2, 3]
    dr.scatter_add(target, x, LANE)
    np.testing.assert_array_equal(target.numpy(), [2, 4, 6])


def test_evaluation_within_a_recording_that_has_written_is_refused():
    x, target = F(1, 2, 3), dr.zeros(F, 3)
    dr.make_opaque(x)

    def write(x):
        dr.scatter_add(target, x, LANE)
        return x + 1

    def other(x):
        y = dr.if_stmt((x,), x > 1, write, lambda x: x)
        return dr.while_loop((y,), lambda y: y > 2, lambda y: (y - 1,), mode="evaluated")[0]

    with pytest.raises(RuntimeError, match="cannot execute a loop"):
        dr.if_stmt((x,), x > 2, write, other)
    assert not scope.stack()
    assert list(target) == [0, 0, 0]


def test_gradients_of_gathers_in_loops_within_a_loop_in_a_branch(tier):
    source, y = F(1, 2, 3, 4, 5), F(1, 2, 3)
    dr.enable_grad(source, y)

    def repeated(body, z):
        return dr.while_loop((z, UInt(0)), lambda z, i: i < 2, lambda z, i: (body(z), i + 1))[0]

    def term(z):
        return z + dr.gather(F, source, UInt(1)) + y

    z = dr.if_stmt(
        (F(0.5),), LANE < 2, lambda z: repeated(lambda z: repeated(term, z), z), lambda z: z
    )
    dr.backward(dr.sum(z))
    assert list(source.grad) == [0, 8, 0, 0, 0]
    assert list(y.grad) == [4, 4, 0]


def test_what_cycles_keep_alive_takes_no_part_in_forward_mode():
    """Functions that hold what they compute keep the variables of bodies alive."""

    def loop(start, step):
        state = {"y": start}

        def body(i, y):
            state["y"] = step(y)
            return i + 1, state["y"]

        again = (UInt(0), start), lambda i, y: i < 2, body
        state["y"] = dr.while_loop(*again, mode="symbolic")[1]
        return state["y"]

    collects = gc.isenabled()
    gc.disable()
    try:
        x = F(1, 2, 3)
        dr.enable_grad(x)
        dr.set_grad(x, F(1, 1, 1))
        target, lanes = dr.zeros(F, 3), UInt(0, 1, 2)

        def add(y):
            dr.scatter_add(target, x, lanes)
            return y

        def inner(y):
            return loop(dr.switch(lanes * 0, [add], y), lambda y: y + x)

        y = loop(F(x), lambda y: loop(y, inner))
        dr.eval(y, target)
        dr.forward_to(y, target)
        assert dr.all(y.grad == 9) and dr.all(target.grad == 4)
    finally:
        if collects:
            gc.enable()


def _of_four(rng, mode):
    """A branch, call or loop on up to four variables, of which some results are evaluated; returns
    them, and what they should be."""
    n, kind = rng.randint(1, 4), rng.choice(("if", "switch", "loop"))
    numbers = [rng.randint(1, 3) for _ in range(n)]
    values = [F(a) for a in numbers]
    if rng.random() < 0.5:  # two that are the same array
        numbers[-1], values[-1] = numbers[0], values[0]
    constants = [rng.choice((None, 1.5, 2.5)) for _ in range(n)]
    others = [rng.choice((None, 0, 1)) for _ in range(n)]

    def body(of, x):
        found = [x[k] if c is None else of(c) for k, c in enumerate(constants)]
        return [a if j is None else a + x[j % n] for a, j in zip(found, others, strict=True)]

    traced = lambda *x: tuple(body(F, x))  # noqa: E731
    if kind == "if":
        found = dr.if_stmt(tuple(values), LANE < 1, traced, lambda *x: x, mode=mode)
    elif kind == "switch":
        found = dr.switch(dr.minimum(LANE, 1), [traced, lambda *x: x], *values, mode=mode)
    else:
        found = dr.while_loop(
            (UInt(0), *values),
            lambda i, *_: i < dr.select(LANE < 1, UInt(1), 0),
            lambda i, *x: (i + 1, *traced(*x)),
            mode=mode,
        )[1:]
    first = body(float, numbers)
    which = rng.sample(range(n), rng.randint(1, n))
    return [found[k] for k in which], [[first[k], numbers[k], numbers[k]] for k in which]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("new", [1000, 3])
def test_results_that_are_not_needed_identify_nothing(new, mode, monkeypatch):
    """The structures of small programs: those that follow the start of a process, or others."""
    monkeypatch.setattr("drjit.jit.cpu.variants.pinned", "numpy")
    for k in range(400):
        if k % new == 0:
            schedule.forget_kernels()
            structure.forget()
        found, expected = _of_four(random.Random(k), mode)
        dr.eval(found)
        for a, values in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.broadcast_to(a.numpy(), 3), values, err_msg=str(k))


def test_kernels_do_not_read_what_they_do_not_need():
    x, y = F(1, 2, 3), F(4, 5, 6)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        a, _ = dr.if_stmt((x, y), LANE < 1, lambda x, y: (x + 1, y * 2), lambda x, y: (x, y))
        assert a.numpy().tolist() == [2, 2, 3]
        (entry,) = dr.kernel_history()
    assert entry["input_count"] == 1
