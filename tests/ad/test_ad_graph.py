"""The graph of derivatives: tracking, traversals and their flags, scopes, errors, and what it
costs."""

import copy
import gc
import re
import sys
import threading
from itertools import pairwise
from statistics import median_low
from typing import ClassVar

import numpy as np
import pytest
from helpers import forget_forward_traversals, in_cycles, settle, tracked

import drjit as dr
from drjit import ADFlag, ADMode, JitFlag, nn
from drjit.ad import graph, memory_rules, vector
from drjit.llvm.ad import (
    Array2f,
    Array3f,
    ArrayXf,
    Bool,
    Float,
    Float64,
    Matrix2f,
    TensorXf,
    UInt,
)


def variables():
    gc.collect()
    return len(graph.live_variables())


@pytest.fixture
def before_forward():
    """Restores the state of a program without forward traversals so far."""
    forget_forward_traversals()


@pytest.mark.parametrize("frozen", [False, True])
def test_the_first_forward_traversal_finds_what_was_computed_before(before_forward, frozen):
    x = Float(3, 4)
    dr.enable_grad(x)
    y = dr.square(x) + x
    dr.square(y)  # freed
    with dr.isolate_grad():
        z = dr.sum(y)
    if frozen:
        gc.freeze()
    try:
        dr.forward(x, dr.ADFlag.ClearVertices)
    finally:
        gc.unfreeze()
    assert dr.all(z.grad == 7 + 9)
    for _ in range(4):  # some find them among all objects, further ones in a list
        later = x * y
        dr.forward(x, dr.ADFlag.ClearVertices)
        assert dr.all(later.grad == Float(12 + 3 * 7, 20 + 4 * 9))
    assert graph.taped


def test_the_first_forward_traversal_does_not_visit_recorded_bodies(before_forward):
    x = Float(3, 4)
    dr.enable_grad(x)
    count = variables()
    _, y = dr.while_loop((UInt(0), x), lambda i, y: i < 2, lambda i, y: (i + 1, y * x), ["i", "y"])
    assert variables() == count + 2  # the loop and its result
    dr.forward(x)
    assert dr.all(y.grad == Float(27, 48))


# ---- Examples of the manual


def test_first_examples():
    x = Float(10)
    dr.enable_grad(x)
    y = x**2
    dr.forward(x)
    assert str(y.grad) == "[20]"
    y = x**2
    dr.clear_grad(x)
    dr.backward(y)
    assert str(x.grad) == "[20]"


def test_gradients_of_interior_variables():
    a = tracked(1)
    b = a * 2
    c = b * 2
    dr.forward(a)
    assert (str(c.grad), str(b.grad)) == ("[4]", "[0]")
    a = tracked(1)
    b = a * 2
    c = b * 2
    dr.forward(a, flags=ADFlag.ClearNone)
    assert (str(b.grad), str(c.grad)) == ("[2]", "[4]")


def test_a_copy_is_the_same_variable():
    a = tracked(1)
    b = a * 2
    copied = dr.copy({"b": b})["b"]
    c = b * 2
    assert copied.index_ad == b.index_ad
    dr.forward(a)
    assert (list(b.grad), list(copied.grad), list(c.grad)) == ([0], [0], [4])
    a = tracked(1)
    copied = dr.copy([a])[0]
    dr.backward(copied * 3)
    assert (list(a.grad), list(copied.grad)) == ([3], [3])


@pytest.mark.parametrize(
    "choose",
    [lambda x: dr.select(True, x, 0), lambda x: dr.select(Bool(True, False), x, x),
     lambda x: dr.select(Bool(True, False) | True, x, 0), lambda x: dr.select(False, x + 1, x)],
)  # fmt: skip
def test_a_choice_of_one_value_is_that_variable(choose):
    x = tracked(1, 2)
    y = choose(x)
    dr.backward(y * 3)
    assert (list(x.grad), list(y.grad)) == ([3, 3], [3, 3])
    with dr.suspend_grad(x):
        assert not dr.grad_enabled(choose(x))
    x = tracked(1, 2)
    dr.backward(dr.select(Bool(True, False), x, dr.detach(x)))
    assert list(x.grad) == [1, 0]


def test_mutation_of_inputs():
    x = tracked(1)
    before = Float(x)
    x *= x * 2
    dr.backward(x * 2)
    assert list(x.grad) == [0]
    assert list(before.grad) == [8]


def test_jacobian_vector_products():
    a, b = tracked(1), tracked(2)
    a.grad, b.grad = 10, 20
    x, y = a * b, a + b
    grad_x, grad_y = dr.forward_to(x, y)
    assert (list(grad_x), list(grad_y)) == ([40], [30])


def test_loop_of_the_manual():
    def grad_loop(x, grad_y, n):
        grad_x = Float(0)
        for i in range(n):
            dr.enable_grad(x)
            y_i = x * x * i
            y_i.grad = grad_y
            grad_x += dr.backward_to(x)
            dr.disable_grad(x)
        return grad_x

    assert list(grad_loop(Float(3), Float(1), 4)) == [36]


# ---- Tracking and gradients


def test_tracking():
    x = Float(1)
    assert not dr.grad_enabled(x)
    dr.enable_grad({"x": [x]})
    assert dr.grad_enabled(x) and dr.grad_enabled([Float(1), (x,)])
    assert x.index_ad and (x * 2).index_ad != x.index_ad
    number = x.index_ad
    dr.enable_grad(x)
    assert x.index_ad == number
    dr.set_grad_enabled(x, False)
    assert not dr.grad_enabled(x) and x.index_ad == 0


def test_what_cannot_be_tracked_is_passed_over():
    for value in (1, 1.0, ["a"], None, UInt(1), dr.llvm.Float(1), dr.scalar.Array3f(1)):
        dr.enable_grad(value)
        assert not dr.grad_enabled(value)
    dr.enable_grad()


def test_detach():
    x = tracked(1, 2)
    tree = dr.detach({"x": [x, 3, "text"]})
    assert not dr.grad_enabled(tree) and type(tree["x"][0]) is Float
    assert tree["x"][1:] == [3, "text"]
    assert type(dr.detach(x, preserve_type=False)) is dr.llvm.Float
    assert type(dr.detach(Array3f(1), preserve_type=False)) is dr.llvm.Array3f
    assert dr.grad_enabled(x)
    assert not dr.grad_enabled(Float(dr.llvm.Float(x)))


def test_gradients_of_everything():
    assert list(Float(1, 2).grad) == [0, 0]
    assert list(UInt(1, 2).grad) == [0, 0]
    assert dr.grad(1.5) == 0.0 and dr.grad(3) == 0
    x = tracked(1, 2)
    dr.backward(x * x)
    assert type(x.grad) is Float and list(x.grad) == [2, 4]
    assert type(dr.grad(x, preserve_type=False)) is dr.llvm.Float
    found = dr.grad({"a": x, "b": (Float(4), 2.0)})
    assert list(found["a"]) == [2, 4] and list(found["b"][0]) == [0] and found["b"][1] == 0
    t = tracked([1, 2, 3, 4], (2, 2), cls=TensorXf)
    assert t.grad.shape == (2, 2)


@pytest.mark.parametrize(
    "value, gradient, expected",
    [
        (Float(1, 2), 5, [5, 5]),
        (Float(1, 2), Float(5), [5, 5]),
        (Float(1, 2), dr.llvm.Float(5, 6), [5, 6]),
        (Float(1, 2), [5, 6], [5, 6]),
        (Float(1, 2), UInt(5, 6), [5, 6]),
        (Float(1, 2), np.array([5.0, 6.0]), [5, 6]),
        (Float(1), Float(5, 6), [11]),
        (Float(1, 2, 3), TensorXf([5, 6, 7]), [5, 6, 7]),
        (Array2f(1, 2), 5, [[5], [5]]),
        (Array2f(1, 2), [5, 6], [[5], [6]]),
        (Array2f(1, 2), Float(5), [[5], [5]]),
        (Matrix2f(1), Matrix2f(1, 2, 3, 4), [[[1], [2]], [[3], [4]]]),
        (TensorXf([1, 2], (1, 2)), 5, [[5, 5]]),
        (ArrayXf([[1, 2], [3, 4]]), 5, [[5, 5], [5, 5]]),
        (ArrayXf([[1, 2], [3, 4]]), Float(5, 6), [[5, 6], [5, 6]]),
        (TensorXf([1, 2], (1, 2)), TensorXf([5, 6], (1, 2)), [[5, 6]]),
        (TensorXf([1, 2], (1, 2)), TensorXf([5, 6]), [[5, 6]]),
        (TensorXf([1, 2], (1, 2)), Array2f(5, 6), [[5, 6]]),
        (TensorXf(1), TensorXf([5, 6]), 11),
    ],
)  # fmt: skip
def test_assigned_gradients(value, gradient, expected):
    dr.enable_grad(value)
    value.grad = gradient
    assert value.grad.numpy().tolist() == expected


@pytest.mark.parametrize(
    "value, gradient, error",
    [
        (Float(1, 2), Float(1, 2, 3), RuntimeError),
        (Float(1, 2), "a", TypeError),
        (Float(1, 2), None, TypeError),
        (Array2f(1, 2), [1, 2, 3], TypeError),
        (ArrayXf(1, 2), ArrayXf(1, 2, 3), RuntimeError),
        (TensorXf([1, 2, 3, 4], (2, 2)), TensorXf([1, 2, 3], (3,)), RuntimeError),
        (TensorXf([1, 2, 3, 4], (2, 2)), Array2f(1, 2), RuntimeError),
    ],
)
def test_gradients_that_do_not_fit(value, gradient, error):
    dr.enable_grad(value)
    with pytest.raises(error):
        value.grad = gradient
    with pytest.raises(error):
        dr.accum_grad(value, gradient)


def test_trees_of_gradients():
    x, y = tracked(1), tracked(2)
    dr.set_grad({"x": x, "y": [y]}, {"x": 3, "y": [4]})
    dr.accum_grad([x, y], (1, 1.5))
    assert (list(x.grad), list(y.grad)) == ([4], [5.5])
    for wrong in ([1], 1, {"a": 1, "b": 2}):
        with pytest.raises(TypeError, match="structure"):
            dr.set_grad([x, y], wrong)
    with pytest.raises(RuntimeError, match="size"):
        dr.accum_grad([x, tracked(1, 2)], [1, Float(1, 2, 3)])
    assert list(x.grad) == [4]
    dr.clear_grad({"x": x, "y": y})
    assert (list(x.grad), list(y.grad)) == ([0], [0])


@pytest.mark.parametrize("f", [dr.set_grad, dr.accum_grad])
def test_assigned_gradients_have_no_derivatives(f):
    x, y = tracked(1, 2), tracked(3, 4)
    f(x, y * 2)
    assert list(x.grad) == [6, 8] and not dr.grad_enabled(x.grad)
    single = tracked(1)
    f(single, y * 2)
    assert list(single.grad) == [14] and not dr.grad_enabled(single.grad)


def test_gradients_of_numbers_and_other_values():
    found = dr.grad([2, 2.5, True, "a", None, UInt(3), ADFlag.Default])
    assert [type(v) for v in found] == [int, float, float, float, float, UInt, float]
    assert not any(v for v in found if not isinstance(v, UInt)) and list(found[5]) == [0]


class Pair:
    DRJIT_STRUCT: ClassVar = {"a": Float, "b": Array2f}

    def __init__(self, a=None, b=None):
        self.a, self.b = a, b


def test_a_number_is_the_gradient_of_all_fields():
    pair = Pair(tracked(1, 2), tracked(3, 4, cls=Array2f))
    dr.set_grad(pair, 5)
    assert (list(pair.a.grad), list(pair.b.y.grad)) == ([5, 5], [5])
    dr.accum_grad([pair], [Float(1, 2)])
    assert (list(pair.a.grad), list(pair.b.y.grad)) == ([6, 7], [8])
    for wrong in ([5], "a", None):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            dr.set_grad(pair, wrong)


def test_gradients_of_what_is_not_tracked_are_ignored():
    x = Float(1, 2)
    x.grad = 3
    assert list(x.grad) == [0, 0]


def test_replace_grad():
    x = tracked(1, 2)
    z = dr.replace_grad(Float(5, 6), x * 3)
    assert list(z) == [5, 6]
    dr.backward(z)
    assert list(x.grad) == [3, 3]
    x = tracked(1, 2)
    z = dr.replace_grad(Float(5), x * 3)
    assert list(z) == [5, 5]
    dr.backward(z)
    assert list(x.grad) == [3, 3]
    x = tracked(1)
    z = dr.replace_grad([Array2f([1, 2], 3)], [Array2f(x, x * 2)])
    dr.backward(z)
    assert list(x.grad) == [2 + 2]
    assert not dr.grad_enabled(dr.replace_grad(Float(1), Float(2)))
    with pytest.raises(RuntimeError, match="size"):
        dr.replace_grad(Float(1, 2), Float(1, 2, 3))
    x = tracked(1, 2)
    dr.backward(dr.replace_grad([5, 6], x * 3))
    assert list(x.grad) == [3, 3]
    assert list(dr.replace_grad(x, (5, 6))) == [1, 2]


@pytest.mark.parametrize("cls", [Float, Float64, Array2f, ArrayXf, TensorXf])
def test_relative_gradients_are_0_at_0(cls):
    x = tracked([2, 0] if cls is not ArrayXf else [[2, 0]], cls=cls)
    y = dr.relative_grad(x)
    assert set(dr.ravel(y).numpy()) == {1}
    dr.backward(y)
    assert dr.ravel(x.grad).numpy().tolist() == [0.5, 0]


def test_copies_share_the_variable():
    x = tracked(1, 2)
    for y in (Float(x), dr.copy(x)):
        assert y.index_ad == x.index_ad
        y += 1
        assert y.index_ad != x.index_ad
        assert list(x) == [1, 2]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize(
    "value", [Float(1, 2), Array2f(1, 2), ArrayXf([[1, 2]]), TensorXf([[1, 2]])]
)
def test_copies_by_python_have_no_derivatives(duplicate, value):
    dr.enable_grad(value)
    made = duplicate(value)
    assert not dr.grad_enabled(made) and dr.grad_enabled(value)
    assert made.numpy().tolist() == value.numpy().tolist()
    dr.enable_grad(made)
    dr.backward(made * 2)
    assert not dr.ravel(value.grad).numpy().any()


# ---- Traversals


@pytest.mark.parametrize("flags", range(8))
def test_what_flags_clear(flags):
    def kept(flag, value):
        return [0] if flags & flag else [value]

    a = tracked(1)
    b = a * 2
    c = b * 2
    dr.backward(c, flags=flags)
    assert list(a.grad) == [4]
    assert list(b.grad) == kept(ADFlag.ClearInterior, 2)
    assert list(c.grad) == kept(ADFlag.ClearInput, 1)
    before = list(a.grad)
    if flags == ADFlag.ClearVertices:
        dr.backward(c)
        assert list(a.grad) == [8]
    elif flags & ADFlag.ClearEdges:
        dr.backward(c, flags=ADFlag.Default)
        assert list(a.grad) == before
    a = tracked(1)
    b = a * 2
    c = b * 2
    dr.forward(a, flags=flags)
    assert list(a.grad) == kept(ADFlag.ClearInput, 1)
    assert list(b.grad) == kept(ADFlag.ClearInterior, 2)
    assert list(c.grad) == [4]


@pytest.mark.parametrize("mode", [ADMode.Forward, ADMode.Backward])
@pytest.mark.parametrize("flags", [ADFlag.ClearInput, ADFlag.ClearInterior])
def test_ends_of_the_graph_are_told_from_its_interior(mode, flags):
    a = tracked(1)
    b = a * 2
    c = b * 3
    d = c * 5
    if mode is ADMode.Backward:
        dr.backward(c, flags)  # which `d` depends on
        expected = [6, 3, 1, 0] if flags is ADFlag.ClearInput else [6, 0, 0, 0]
    else:
        dr.forward(b, flags)  # which depends on `a`
        expected = [0, 1, 3, 15] if flags is ADFlag.ClearInput else [0, 0, 0, 15]
    assert [v.grad[0] for v in (a, b, c, d)] == expected
    if mode is ADMode.Backward:
        dr.backward(d, flags)
        assert (d.grad[0] == 0) == (flags is ADFlag.ClearInput)


def test_the_end_of_isolation_keeps_the_graph():
    a = tracked(1)
    b = a * 2
    for n in (1, 2):
        with dr.isolate_grad():
            dr.backward(b * 3)
        assert (list(a.grad), list(b.grad)) == ([6 * n], [0])
    a.grad = 5
    assert list(dr.forward_to(b)) == [10]


def test_four_directions():
    x = tracked(1, 2)
    y = x * x
    x.grad = 4
    dr.forward_from(x)
    assert (list(x.grad), list(y.grad)) == ([0, 0], [8, 16])
    x = tracked(1, 2)
    y = x * x
    y.grad = 4
    dr.backward_from(y)
    assert (list(x.grad), list(y.grad)) == ([8, 16], [0, 0])


def zeros(*_):
    """A gradient that is no constant."""
    return dr.opaque(Float, 0, 2)


@pytest.mark.parametrize(
    "assigned, seeded",
    [(None, True), (0, True), (0.0, True), (Float(0), True), (dr.zeros(Float, 2), True),
     (5, False), (zeros, False), (Float(0, 5), False)],
)  # fmt: skip
@pytest.mark.parametrize("flags", [ADFlag.Default, ADFlag.ClearNone])
@pytest.mark.parametrize("mode", [ADMode.Forward, ADMode.Backward])
def test_a_gradient_that_is_not_set_is_1(assigned, seeded, flags, mode):
    x = tracked(1, 2)
    y = x * 3
    start, end = (x, y) if mode is ADMode.Forward else (y, x)
    gradient = Float(1, 1)
    if assigned is not None:
        start.grad = gradient = assigned() if callable(assigned) else assigned
        gradient = Float(1, 1) if seeded else Float(start.grad)
    (dr.forward_from if mode is ADMode.Forward else dr.backward_from)(start, flags)
    assert list(end.grad) == list(3 * gradient)
    assert list(start.grad) == ([0, 0] if flags else list(gradient))


def test_a_gradient_of_a_part_is_one_of_the_whole():
    for assigned, expected in ((None, [1, 2, 3]), (0, [1, 2, 3]), (7, [0, 14, 0])):
        x = [tracked(1), tracked(1), tracked(1)]
        y = Array3f(x[0], x[1] * 2, x[2] * 3)
        if assigned is not None:
            y.y.grad = assigned
        dr.backward_from(y)
        assert [v.grad[0] for v in x] == expected
    x = tracked([[1, 2]], cls=TensorXf)
    dr.backward_from({"a": x * 2, "b": [x * 3]})
    assert x.grad.numpy().tolist() == [[5, 5]]
    x, y = tracked(1), tracked(1)
    z = {"a": x * 2, "b": [y * 3]}
    z["a"].grad = 5
    dr.backward_from(z)
    assert (list(x.grad), list(y.grad)) == ([10], [0])


def test_traversals_that_are_repeated_start_anew_or_go_on():
    x = tracked(1)
    y = x * 3
    for n in (1, 2, 3):
        dr.backward_from(y, ADFlag.ClearVertices)
        assert (list(x.grad), list(y.grad)) == ([3 * n], [0])
    y.grad = 5
    dr.backward_from(y, ADFlag.ClearNone)
    dr.backward_from(y, ADFlag.ClearNone)
    assert (list(x.grad), list(y.grad)) == ([9 + 30], [5])


@pytest.mark.parametrize(
    "make, count",
    [(Array3f, 3), (Matrix2f, 2), (lambda x: ArrayXf([x, x]), 2), (lambda x: [x, {"a": x}], 2)],
)
@pytest.mark.parametrize("f", [dr.backward, dr.backward_from])
def test_a_variable_that_occurs_several_times_has_the_sum(make, count, f):
    x = tracked(1, 2)
    f(make(x * 3))
    assert list(x.grad) == [3 * count] * 2


def test_gradients_of_a_variable_that_occurs_several_times_add_up():
    x = tracked(1, 2)
    dr.set_grad(Array3f(x), Array3f(1, 2, 3))
    assert list(x.grad) == [6, 6]
    dr.set_grad(Array3f(x), 1)
    assert list(x.grad) == [3, 3]
    dr.accum_grad(Array3f(x), Array3f(1, 2, [3, 4]))
    assert list(x.grad) == [9, 10]
    y = x * 10
    dr.forward(Array3f(x), ADFlag.ClearNone)
    assert (list(x.grad), list(y.grad)) == ([3, 3], [30, 30])


def test_flags_by_position():
    x = tracked(1, 2)
    y = x * 2
    y.grad = 3
    found = dr.backward_to(x, ADFlag.Default)  # a further argument, as other numbers are
    assert (list(found[0]), found[1:], list(y.grad)) == ([6, 6], (0.0,), [0, 0])
    y = x * 2
    y.grad = 3
    dr.clear_grad(x)
    assert list(dr.backward_to(x, 0)) == [6, 6]
    assert list(y.grad) == [3, 3]
    x.grad = 5
    y, z = x * 2, x * 3
    found = dr.forward_to(y, z, ADFlag.Default)
    assert [list(g) for g in found[:2]] == [[10, 10], [15, 15]]
    assert found[2:] == (0.0,)


def test_backward_to_leaves_others_alone():
    x, w = tracked(2), tracked(5)
    y = x * w
    z = y + w
    z.grad = 1
    assert list(dr.backward_to(x)) == [5]
    assert list(w.grad) == [0]
    x, w = tracked(2), tracked(5)
    y = x * w
    y.grad = 1
    assert list(dr.backward_to(x, flags=ADFlag.ClearNone)) == [5]
    dr.clear_grad(x)
    y.grad = 1
    assert list(dr.backward_to(w)) == [2]
    assert list(x.grad) == [0]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("f", [dr.sum, dr.prod, dr.max, dr.min, dr.mean, dr.cumsum])
def test_a_reduction_has_gradients_of_its_own(f, size):
    w = dr.ones(Float, size)
    dr.enable_grad(w)
    square, total = w * w, f(w)
    w.grad = 1
    of_square, of_total = dr.forward_to(square, total)
    expected = {dr.mean: 1, dr.cumsum: size * (size + 1) / 2}.get(f, size)
    assert list(of_square) == [2] * size
    np.testing.assert_allclose(dr.sum(of_total), expected)


def test_forward_to_leaves_others_alone():
    x = tracked(3)
    y, z = x * x, x * 5
    x.grad = 1
    assert list(dr.forward_to(y)) == [6]
    assert list(z.grad) == [0]


def test_several_seeds():
    x = tracked(3)
    y = x * x
    z = y * 2
    y.grad, z.grad = 1, 1
    dr.enqueue(ADMode.Backward, y, [z])
    dr.traverse(ADMode.Backward)
    assert list(x.grad) == [18]
    dr.traverse(ADMode.Backward)
    assert list(x.grad) == [18]


def test_one_seed_as_a_keyword():
    x = tracked(3)
    y = x * x
    y.grad = 1
    dr.enqueue(mode=ADMode.Backward, arg=y)
    dr.traverse(mode=ADMode.Backward)
    assert list(x.grad) == [6]
    for arguments, keywords in [((y,), {"arg": y}), ((), {"args": y}), ((), {"arg": y, "x": y})]:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            dr.enqueue(ADMode.Backward, *arguments, **keywords)


def test_trees_of_seeds():
    x = tracked(3)
    dr.backward({"a": x * 2, "b": [Array2f(x, x * 3)]})
    assert list(x.grad) == [6]


def test_gradients_add_up():
    x = tracked(3)
    for _ in range(3):
        dr.backward(x * x)
    assert list(x.grad) == [18]


def test_a_freed_graph_gives_nothing():
    x = tracked(1, 2)
    y = x * x
    dr.backward(y)
    dr.backward(y * 2)
    assert list(x.grad) == [2, 4]


def test_tracking_what_was_computed():
    a = tracked(1)
    b = a * 2
    dr.enable_grad(b)
    dr.backward(b * b)
    assert (list(a.grad), list(b.grad)) == ([8], [0])


def test_disable_grad_cuts():
    a = tracked(2)
    b = a * 2
    dr.disable_grad(b)
    dr.backward(b * a)
    assert list(a.grad) == [4]


@pytest.mark.parametrize(
    "f",
    [dr.backward, dr.forward, dr.backward_from, dr.forward_from, dr.backward_to, dr.forward_to],
)
@pytest.mark.parametrize("value", [Float(1), UInt(1), dr.llvm.Float(1), [Float(1)]])
def test_without_gradients(f, value):
    with pytest.raises(RuntimeError, match=f"dr.{f.__name__}.*enable_grad.*AllowNoGrad"):
        f(value)
    f(value, flags=ADFlag.Default | ADFlag.AllowNoGrad)
    with dr.scoped_set_flag(JitFlag.SymbolicCalls, False):
        f(value)
    with pytest.raises(TypeError, match="flags"):
        f(value, flags="all")


@pytest.mark.parametrize("wrong", [1.0, "a", None, [], [1.0]])
def test_without_arrays(wrong):
    for f in (dr.backward, dr.forward, dr.backward_from, dr.forward_from):
        with pytest.raises(TypeError, match="expected an array"):
            f(wrong)
    for f in (dr.backward_to, dr.forward_to):
        with pytest.raises(RuntimeError, match="AllowNoGrad"):
            f(wrong)
        assert f(wrong, flags=ADFlag.AllowNoGrad) == dr.grad(wrong)


@pytest.mark.parametrize(
    "f", [dr.enable_grad, dr.grad_enabled, dr.grad, dr.clear_grad, dr.detach,
          dr.backward, dr.forward, dr.backward_to, lambda a: dr.set_grad(a, 1)]
)  # fmt: skip
@pytest.mark.parametrize("cls", [Float, dr.llvm.ad.Array3f, dr.llvm.ad.TensorXf])
def test_arrays_that_were_never_initialized(f, cls):
    derived = type("Derived", (cls,), {})
    with pytest.raises(RuntimeError, match="never initialized"):
        f(derived.__new__(derived))


@pytest.mark.parametrize("f", [dr.enqueue, dr.traverse])
def test_wrong_modes(f):
    with pytest.raises(RuntimeError, match="mode"):
        f(ADMode.Primal)
    with pytest.raises(TypeError, match="mode"):
        f(3)


def test_deep_graphs():
    x = tracked(1)
    y = x
    for _ in range(25_000):
        y = y * 1.0001 + 0.5
    dr.backward(y)
    np.testing.assert_allclose(x.grad.numpy(), 1.0001**25_000, rtol=1e-2)
    del y
    x = tracked(1)
    y = x
    for _ in range(25_000):
        y = y * 1.0001 + 0.5
    before = variables()
    del y
    assert variables() == before - 50_000


def test_gradients_that_are_not_needed_are_not_computed():
    x, w = tracked(1, 2), Float(3, 4)
    y = dr.sin(w) * x
    dr.backward(y)
    assert "cos" not in dr.kernel_source(x.grad)


def test_one_kernel_for_loss_and_gradients():
    with dr.scoped_set_flag(JitFlag.KernelHistory):
        x = Float(np.linspace(0, 1, 100))
        w = tracked(2)
        dr.enable_grad(x)
        dr.kernel_history_clear()
        loss = dr.sum(dr.square(dr.sin(x) * w - 1))
        dr.backward(loss)
        dr.eval(loss, x.grad, w.grad)
        history = dr.kernel_history()
    assert len(history) == 1


def test_order_of_accumulation_is_fixed(tier):
    def run():
        x = tracked(0.1, 0.7, cls=Float)
        parts = [dr.sin(x * k) * 1e3 ** (k % 5) for k in range(30)]
        total = Float(0)
        for p in parts:
            total += p
        dr.backward(total)
        return x.grad.numpy().tobytes()

    assert len({run() for _ in range(5)}) == 1


def test_interruption_leaves_no_gradients_behind():
    class Failing(dr.CustomOp):
        def eval(self, x):
            return x * 2

        def backward(self):
            raise ValueError("no")

    x = tracked(1)
    y = dr.custom(Failing, x) * 3
    with pytest.raises(ValueError, match="no") as caught:
        dr.backward(y)
    assert "Failing" in "".join(caught.value.__notes__)
    assert list(y.grad) == [0]
    z = x * 2
    dr.backward(z)
    assert list(x.grad) == [2]


@pytest.mark.parametrize("mode", [ADMode.Forward, ADMode.Backward])
@pytest.mark.parametrize("flags", [ADFlag.Default, ADFlag.ClearVertices])
def test_a_traversal_that_fails_can_be_repeated(mode, flags):
    fails = True

    class Double(dr.CustomOp):
        def eval(self, x):
            return x * 2

        def forward(self):
            if fails:
                raise KeyboardInterrupt
            self.set_grad_out(2 * self.grad_in("x"))

        def backward(self):
            if fails:
                raise KeyboardInterrupt
            self.set_grad_in("x", 2 * self.grad_out())

    x = tracked(3, 4)
    y = dr.custom(Double, x * x)
    z = y * y + y
    traverse, source, result = (dr.forward, x, z) if mode is ADMode.Forward else (dr.backward, z, x)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            traverse(source, flags)
        assert list(result.grad) == [0, 0]
    fails = False
    traverse(source, flags)
    assert list(result.grad) == [16 * 27 + 12, 16 * 64 + 16]
    if flags & ADFlag.ClearEdges:
        traverse(source)
        assert list(result.grad) == [16 * 27 + 12, 16 * 64 + 16]


@pytest.mark.parametrize("rule", [memory_rules.PACKET, vector.UNPACK])
def test_operations_that_collect_gradients_forget_them_if_a_traversal_fails(rule, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    x = tracked(1, 2, 3, 4)
    if rule is memory_rules.PACKET:
        a, b = dr.gather(Array2f, x, UInt(0, 1))
    else:
        a, b = nn.CoopVec(x, 2 * x)
    with monkeypatch.context() as patch:
        patch.setattr(type(rule), "backward", fail)
        with pytest.raises(KeyboardInterrupt):
            dr.backward(a + b)
    dr.backward(b)
    assert list(x.grad) == ([0, 1, 0, 1] if rule is memory_rules.PACKET else [2] * 4)


@pytest.mark.parametrize("mode", [ADMode.Forward, ADMode.Backward])
def test_results_of_operations_forget_gradients_if_a_traversal_fails(mode, monkeypatch):
    class Both(dr.CustomOp):
        def eval(self, x):
            return Array2f(x * 2, x * 3)

        def forward(self):
            t = self.grad_in("x")
            self.set_grad_out(Array2f(t * 2, t * 3))

        def backward(self):
            g = self.grad_out()
            self.set_grad_in("x", g.x * 2 + g.y * 3)

    def fail(*_):
        raise KeyboardInterrupt

    x = tracked(1)
    y = dr.custom(Both, x)
    rule = y.x._var.rule if mode is ADMode.Forward else y.x._var.deps[0].rule
    with monkeypatch.context() as patch:
        patch.setattr(type(rule), mode.name.lower(), fail)
        with pytest.raises(KeyboardInterrupt):
            dr.forward(x) if mode is ADMode.Forward else dr.backward(y)
    if mode is ADMode.Forward:
        dr.forward(x)
        assert list(y.x.grad) == [2] and list(y.y.grad) == [3]
    else:
        dr.backward(y.y)
        assert list(x.grad) == [3]


def test_the_operation_that_interrupts_has_no_gradient_afterwards(monkeypatch):
    def fail(*_, **__):
        raise ValueError("no")

    x = Float(1, 2)
    dr.enable_grad(x)
    y = dr.gather(Float, x, UInt(1, 1))
    with monkeypatch.context() as patch:
        patch.setattr("drjit.jit.trace.access.scatter", fail)
        with pytest.raises(ValueError, match="no"):
            dr.backward(y)
    assert list(y.grad) == [0, 0]


# ---- Scopes


def enabled(*args):
    return [dr.grad_enabled(a) for a in args]


def test_suspend_everything():
    a, b = tracked(1), tracked(2)
    with dr.suspend_grad():
        c = a * b
        d = Float(3)
        dr.enable_grad(d)
        assert enabled(a, c, d) == [False] * 3
        a.grad = 5
        assert list(a.grad) == [0]
        e = Float(a)
        with pytest.raises(RuntimeError):
            dr.backward(a)
    assert enabled(a, b, c, d, e) == [True, True, False, False, False]
    assert list(a.grad) == [0]


def test_suspend_some():
    a, b = tracked(1), tracked(2)
    with dr.suspend_grad([a]):
        c = a * b
        d = Float(3)
        dr.enable_grad(d)
        assert enabled(a, b, c, d) == [False, True, True, True]
        with dr.resume_grad(a):
            assert enabled(a, b) == [True, True]
        with dr.suspend_grad(b):
            assert enabled(a, b) == [False, False]
        with dr.resume_grad():
            assert enabled(a, b) == [True, True]
            with dr.suspend_grad(b):
                assert enabled(a, b) == [True, False]
    dr.backward(c)
    assert (list(a.grad), list(b.grad)) == ([0], [1])


def test_resume_some():
    a, b = tracked(1), tracked(2)
    with dr.suspend_grad(), dr.resume_grad(a):
        assert enabled(a, b, a * 2, b * 2) == [True, False, True, False]
        with dr.resume_grad(b):
            assert enabled(a, b) == [True, True]
        with dr.suspend_grad(a):
            assert enabled(a, b) == [False, False]


def test_new_variables_of_a_scope_with_exceptions():
    a, b = tracked(1), tracked(2)
    with dr.suspend_grad():
        with dr.resume_grad(a):
            c = tracked(3)
            d = c * b
            assert enabled(b, c, d) == [False, True, True]
            with dr.resume_grad(b):
                e = b * 2
                assert enabled(a, b, c, d, e) == [True] * 5
            assert enabled(b, e) == [False, False]
            with dr.suspend_grad(c):
                assert enabled(c, d, tracked(1)) == [False, True, True]
        assert enabled(c, d, tracked(1)) == [False, False, False]
        with dr.resume_grad(c):
            assert enabled(c, d) == [True, False]
        with dr.resume_grad(Float(1)), dr.resume_grad([]):  # of nothing, but for what is new
            assert enabled(a, tracked(1)) == [False, True]
        with dr.resume_grad(a), dr.suspend_grad(a):
            assert enabled(a, tracked(1)) == [False, False]
    assert enabled(c, d, e) == [True] * 3
    dr.backward(d + e)
    assert [list(v.grad) for v in (b, c)] == [[2], [2]]


def test_suspended_gradients_can_be_cleared_only():
    a = tracked(1)
    for f in (dr.clear_grad, lambda x: dr.set_grad(x, 7), lambda x: dr.set_grad([x], [7])):
        for scope in (dr.suspend_grad, lambda: dr.suspend_grad(a)):
            a.grad = 5
            with scope():
                dr.accum_grad(a, 1)
                assert list(a.grad) == [0]
            assert list(a.grad) == [5]
            with scope():
                f(a)
            assert list(a.grad) == [0]


def test_conditional_scopes():
    a = tracked(1)
    with dr.suspend_grad(when=False), dr.suspend_grad(a, when=False):
        assert dr.grad_enabled(a)
    with dr.suspend_grad(), dr.resume_grad(when=False):
        assert not dr.grad_enabled(a)
    with dr.isolate_grad(when=False):
        b = a * 2
        dr.backward(b)
        assert list(a.grad) == [2]


def test_isolation():
    a = tracked(1)
    b = a * 2
    with dr.isolate_grad():
        c = b * 3
        dr.backward(c * c)
        assert (list(a.grad), list(b.grad)) == ([0], [36])
    assert (list(a.grad), list(b.grad)) == ([72], [0])


def test_nested_isolation():
    a = tracked(1)
    b = a * 2
    with dr.isolate_grad():
        c = b * 2
        with dr.isolate_grad():
            dr.backward(c * 3)
            assert (list(b.grad), list(c.grad)) == ([0], [3])
        assert (list(a.grad), list(b.grad), list(c.grad)) == ([0], [6], [0])
    assert (list(a.grad), list(b.grad)) == ([12], [0])


def test_tangents_come_from_outside_of_a_scope():
    a = tracked(1)
    a.grad = 2
    with dr.isolate_grad():
        b = a * 3
        assert list(dr.forward_to(b)) == [6]
        dr.forward_from(a)
        assert list(b.grad) == [6]
    assert list(a.grad) == [2]
    a = tracked(1)
    b = a * 2
    with dr.isolate_grad():
        c = b * 3
        dr.forward(b)
        assert list(c.grad) == [3]


@pytest.mark.parametrize("f", [lambda a, c: dr.forward_to(c), lambda a, c: dr.forward(a)])
def test_tangents_do_not_pass_what_is_outside_of_a_scope(f):
    a = tracked(1)
    b = a * 2
    a.grad, b.grad = 5, 7
    with dr.isolate_grad():
        c = b * 3
        with pytest.raises(RuntimeError, match=r"result of 'mul', .* outside of the current"):
            f(a, c)
    a.grad = b.grad = 5
    assert list(dr.forward_to(c)) == [45]


@pytest.mark.parametrize("flags", [ADFlag.Default, ADFlag.ClearNone])
def test_what_is_propagated_to_arrays_outside_goes_on_there(flags):
    a, other = tracked(1), tracked(2)
    b = a * other
    with dr.isolate_grad():
        c = b * 3
        c.grad = 5
        assert list(dr.backward_to(a, flags=flags)) == [0]
        assert (list(b.grad), list(c.grad)) == ([15], [0] if flags else [5])
    assert [list(v.grad) for v in (a, b, other)] == [[30], [0], [0]]
    a = tracked(1)
    b = a * 2
    with dr.isolate_grad():
        c = b * 3
        c.grad = 5
        assert list(dr.backward_to(b)) == [15]
    assert [list(v.grad) for v in (a, b)] == [[0], [15]]


@pytest.mark.parametrize("flags", [ADFlag.Default, ADFlag.ClearNone])
def test_traversals_from_outside_of_a_scope_wait_for_its_end(flags):
    a = tracked(1)
    b = a * 2
    c = b * 3
    with dr.isolate_grad():
        with dr.isolate_grad():
            dr.backward(c, flags)
        assert [list(v.grad) for v in (a, b, c)] == [[0], [0], [1]]
    assert [list(v.grad) for v in (a, b, c)] == [[6], [0], [0]]


def test_isolation_and_suspension():
    a = tracked(1)
    b = a * 2
    with dr.isolate_grad(), dr.suspend_grad(a):
        dr.backward(b * a * 3)
        assert list(b.grad) == [3]
    assert list(a.grad) == [6]


def test_errors_leave_scopes():
    a = tracked(1)
    b = a * 2
    with pytest.raises(ValueError):
        with dr.isolate_grad(), dr.suspend_grad(b):
            raise ValueError
    assert dr.grad_enabled(b) and not graph.scopes
    dr.backward(b)
    assert list(a.grad) == [2]


def test_scopes_belong_to_threads():
    a = tracked(1)
    found = []
    with dr.suspend_grad():
        thread = threading.Thread(target=lambda: found.append(dr.grad_enabled(a * 2)))
        thread.start()
        thread.join()
    assert found == [True]


def test_threads_differentiate_at_once():
    def work(k):
        for _ in range(30):
            x = tracked(1, 2, cls=Float64)
            y = x
            for _ in range(50):
                y = dr.sin(y) + k
            dr.backward(y)
            results[k].add(x.grad.numpy().tobytes())

    results = [set() for _ in range(4)]
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [len(r) for r in results] == [1] * 4


# ---- Memory


def step(x, data):
    loss = dr.mean(dr.square(dr.sin(x * data) - 0.5))
    dr.backward(loss)
    x = dr.detach(x - 0.01 * x.grad)
    dr.enable_grad(x)
    dr.eval(x)
    return x


def test_training_does_not_grow():
    device = Float._device
    steps = 2500 if device.on_host else 75
    data = Float(np.linspace(0, 1, 64))
    x = tracked(1)
    for _ in range(300):
        x = step(x, data)
    settle()
    gc.disable()
    try:
        # Tracing allocations would make steps many times as slow.
        count, in_use = variables(), device.memory_statistics()["in_use"]
        blocks = [sys.getallocatedblocks()]
        for _ in range(4):
            for _ in range(steps):
                x = step(x, data)
            blocks.append(sys.getallocatedblocks())
        assert device.memory_statistics()["in_use"] == in_use
        settle()  # what the compiler left behind
        for _ in range(100):
            x = step(x, data)
        assert in_cycles() == []
        assert variables() == count
    finally:
        gc.enable()
    # What is imported or compiled for all later steps comes in one of the rounds.
    grown = median_low(after - before for before, after in pairwise(blocks))
    assert grown < 600 or steps < 2500  # a leak of one object a step would be 2500


# ---- Debugging


def test_labels_and_lists():
    x, y = tracked(1), tracked(2)
    x.label = "x"
    dr.set_label(y=y)
    z = dr.sin(x) * y
    text = dr.whos_ad(as_string=True)
    assert "x" in text and "mul" in text and "sin" in text
    for n, v in (2, x), (2, y), (1, z):  # the array, and an operation
        assert re.search(rf"\b{v.index_ad} +f32 +1 +{n} ", text)
    dot = dr.graphviz_ad(as_string=True)
    assert dot.count("->") >= 3 and 'Label: \\"y\\"' in dot and f"a{z.index_ad}" in dot
    z.grad = 1
    assert "Gradient present" in dr.graphviz_ad(as_string=True)


def test_whos_prints(capsys):
    x = tracked(1)
    dr.whos_ad()
    assert str(x.index_ad) in capsys.readouterr().out


@pytest.fixture
def debug():
    before = {f: dr.flag(f) for f in (JitFlag.Debug, JitFlag.TrapNaN, JitFlag.TrapInf)}
    dr.set_flag(JitFlag.Debug, True)
    yield
    for f, on in before.items():
        dr.set_flag(f, on)


@pytest.mark.parametrize("mode", ["backward", "forward"])
def test_trap_for_infinities(debug, mode):
    x = tracked(4, 1, 0, 9)
    y = dr.sqrt(x) * 2
    dr.set_flag(JitFlag.TrapInf, True)
    with pytest.raises(FloatingPointError, match=r"test_ad_graph.py") as caught:
        dr.backward(y) if mode == "backward" else dr.forward(x)
    text = str(caught.value)
    assert "the derivative of 'sqrt' recorded at" in text and "is inf in lane 2" in text
    dr.set_flag(JitFlag.TrapInf, False)
    dr.backward(x * 2)


def test_trap_for_nan(debug):
    x = tracked(4, 1, 0, 9)
    y = x * x
    y.grad = Float(1, 1, dr.nan, 1)
    dr.set_flag(JitFlag.TrapNaN, True)
    with pytest.raises(FloatingPointError, match=r"test_ad_graph.py.* is nan in lane 2"):
        dr.backward_from(y)


def test_errors_name_the_line(debug):
    x = Float(1, 2)
    dr.enable_grad(x)
    with pytest.raises(RuntimeError, match=r"recorded at .*test_ad_graph.py:\d+"):
        x.grad = Float(1, 2, 3)


def test_classes_are_no_arrays() -> None:
    assert not dr.grad_enabled(Float)
    for differentiate in (dr.backward, dr.forward, dr.backward_from, dr.forward_from):
        with pytest.raises(TypeError, match="expected an array"):
            differentiate(Float)
