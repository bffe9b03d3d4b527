"""Traversals within the functions of branches and loops: gradients go to what the arguments were
computed from, in the lanes that execute the function."""

import pytest

import drjit as dr
from drjit.llvm.ad import Bool, Float, UInt

LANES = UInt(0, 1, 2, 3, 4)


@pytest.fixture(params=["symbolic", "evaluated"])
def mode(request):
    return request.param


def mask():
    return Bool(True, True, False, False, False)


def tracked(size):
    x = Float(1, 2, 3, 4, 5) if size == 5 else Float(2)
    dr.enable_grad(x)
    return x, x * 2


@pytest.mark.parametrize("backward", [dr.backward, dr.backward_from])
@pytest.mark.parametrize("by", ["argument", "gather", "closure"])
@pytest.mark.parametrize("size", [5, 1])
@pytest.mark.parametrize("both", [True, False])
def test_branches_propagate_in_their_lanes(backward, by, size, both, mode):
    x, y = tracked(size)

    def true_fn(v):
        z = {"argument": v, "gather": dr.gather(Float, y, LANES), "closure": y}[by]
        backward(2 * z * z)
        return dr.detach(z)

    def false_fn(v):
        if both:
            backward(3 * v)
        return dr.detach(v)

    dr.if_stmt((y,), mask(), true_fn, false_fn, mode=mode)
    if size == 5:
        assert list(x.grad) == [16, 32, *[6 * both] * 3]
    else:
        assert list(x.grad) == [64 + 18 * both]
    assert dr.all(y.grad == 0)


@pytest.mark.parametrize("active", [0, 1, 3, 5])
@pytest.mark.parametrize("size", [5, 1])
def test_gradients_set_for_what_is_around(active, size, mode):
    """Those of an argument, and of what the function computes, count in the lanes that execute it;
    those of anything else count once."""

    def grad(body, other=lambda lane, y: lane):
        x, y = tracked(size)
        dr.if_stmt((LANES, y), active > LANES, lambda lane, v: body(lane, v, x), other, mode=mode)
        assert size == 5 or dr.width(y) == 1
        assert dr.all(y.grad == 0)
        return list(x.grad)

    def argument(lane, v, _):
        dr.backward(v)
        return lane

    def value(lane, v, _):
        dr.set_grad(v, Float(lane))
        dr.backward_from(v)
        return lane

    def number(lane, v, _):
        dr.set_grad(v, 3)
        dr.backward_from(v)
        return lane

    def captured(lane, _, x):
        dr.backward(x * 1)
        return lane

    def leaf(lane, _, x):
        dr.backward(x)
        return lane

    def lanes(values):
        values = [v * (k < active) for k, v in enumerate(values)]
        return values if size == 5 else [sum(values)]

    assert grad(argument) == lanes([2] * 5)
    assert grad(number) == lanes([6] * 5)
    assert grad(captured) == lanes([1] * 5)
    assert grad(leaf) == [1] * size
    if size == 5:
        assert grad(value) == lanes([0, 2, 4, 6, 8])
    both = grad(argument, lambda lane, v: argument(lane, v, None))
    assert both == ([2] * 5 if size == 5 else [10])


@pytest.mark.parametrize("active", [0, 2, 5])
def test_a_gradient_set_for_an_argument_that_does_not_have_the_lanes(active, mode):
    x = dr.arange(Float, 7)
    dr.enable_grad(x)
    y = x * 2

    def true_fn(lane, v):
        dr.backward(v)
        return lane

    dr.if_stmt((LANES, y), active > LANES, true_fn, lambda lane, v: lane, mode=mode)
    assert list(x.grad) == [2] * 7


@pytest.mark.parametrize("construct", ["if", "while", "switch"])
def test_a_traversal_that_begins_outside_of_a_recorded_body(construct):
    def grad(g):
        x, y = tracked(5)

        def body(lane):
            dr.set_grad(y, g(lane))
            dr.backward_from(y)
            return lane

        active = LANES < 2
        if construct == "if":
            dr.if_stmt((LANES,), active, body, lambda lane: lane, mode="symbolic")
        elif construct == "while":
            dr.while_loop(
                (LANES, UInt(0)), lambda lane, i: (i < 1) & (lane < 2),
                lambda lane, i: (body(lane), i + 1), mode="symbolic",
            )  # fmt: skip
        else:
            index = dr.select(active, UInt(0), UInt(1))
            dr.switch(index, [body, lambda lane: lane], LANES, mode="symbolic")
        return list(x.grad)

    assert grad(lambda lane: 3) == [6] * 5
    assert grad(lambda lane: Float(lane) + 1) == [2, 4, 0, 0, 0]


def test_what_goes_on_after_the_branch(mode):
    x, y = tracked(5)

    def true_fn(y):
        dr.backward(y * y)
        return y * 10

    r = dr.if_stmt((y,), mask(), true_fn, lambda y: y, mode=mode)
    assert list(r) == [20, 40, 6, 8, 10]
    assert list(x.grad) == [8, 16, 0, 0, 0]


def test_syntax_and_leaves(mode):
    @dr.syntax
    def f(x):
        if dr.hint(x < 2.5, mode=mode):
            dr.backward(x * x)

    x = Float(1, 2, 3, 4, 5)
    dr.enable_grad(x)
    f(x)
    assert list(x.grad) == [2, 4, 0, 0, 0]
    x.grad = 0

    def nested(x):
        return dr.if_stmt(
            (x,), x > 1.5, lambda x: dr.backward(x * x) or x, lambda x: x + 0, mode=mode
        )

    dr.if_stmt((x,), mask(), nested, lambda x: x, mode=mode)
    assert list(x.grad) == [0, 4, 0, 0, 0]


@pytest.mark.parametrize("size", [5, 1])
def test_loops_propagate_in_each_iteration(size, mode):
    x, y = tracked(size)

    def body(i, y):
        dr.backward(2 * y * Float(i))
        return i + 1, y

    dr.while_loop((LANES, y), lambda i, y: i < 3, body, mode=mode)
    assert list(x.grad) == ([12, 12, 8, 0, 0] if size == 5 else [32])


def test_gradients_of_the_caller_are_seen(mode):
    x = Float(1, 2, 3, 4, 5)
    dr.enable_grad(x)
    x.grad = Float(5, 6, 7, 8, 9)
    r = dr.if_stmt((x,), mask(), lambda x: x.grad, lambda x: Float(0), mode=mode)
    assert list(r) == [5, 6, 0, 0, 0]
    assert list(x.grad) == [5, 6, 7, 8, 9]


def test_gradients_that_a_body_has_propagated_are_seen_in_it(mode):
    x = Float(1, 2, 3, 4, 5)
    dr.enable_grad(x)
    x.grad = Float(5, 6, 7, 8, 9)

    def true_fn(x):
        dr.backward(x * x)
        dr.backward(x * 3)
        return x.grad

    r = dr.if_stmt((x,), mask(), true_fn, lambda x: Float(0), mode=mode)
    assert list(r) == [10, 13, 0, 0, 0]
    assert list(x.grad) == [10, 13, 7, 8, 9]


def test_a_variable_that_a_symbolic_loop_changes_is_refused():
    _, y = tracked(5)

    def body(i, y):
        dr.backward(y * y)
        return i + 1, y * 2

    with pytest.raises(RuntimeError, match=r"propagates gradients to variable 'state\[1\]'"):
        dr.while_loop((LANES, y), lambda i, y: i < 3, body, mode="symbolic")


def test_values_of_other_lanes_do_not_spoil_gradients(mode):
    x = Float(0, 4)
    dr.enable_grad(x)

    def true_fn(x):
        dr.backward(dr.sqrt(x) * x)
        return x

    dr.if_stmt((x,), Bool(False, True), true_fn, lambda x: x, mode=mode)
    assert list(x.grad) == [0, 3]
