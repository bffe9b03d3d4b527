"""Derivatives of operations that move entries between lanes, in both modes."""

import numpy as np
import pytest
from helpers import tracked

import drjit as dr
from drjit import ReduceOp
from drjit.jit.trace import access
from drjit.llvm.ad import (
    Array2f64,
    Array3f64,
    Bool,
    Float,
    Float16,
    Float64,
    Matrix2f64,
    TensorXf64,
    UInt,
)

X = [0.5, -1.5, 2.0, 3.5, -0.25, 1.25]
INDEX = UInt(3, 0, 0, 5, 2)
ACTIVE = Bool(True, True, True, False, True)
REDUCTIONS = [ReduceOp.Add, ReduceOp.Mul, ReduceOp.Min, ReduceOp.Max]


def scattered(op, as_target):
    def f(x):
        value = (
            dr.gather(Float64, x, UInt(0, 1, 2, 3, 4))
            if not as_target
            else Float64(0.7, 1.3, 1.9, -0.4, 0.2)
        )
        target = Float64(x) if as_target else Float64(0.6, 0.9, -1.1, 1.4, 0.8, 2.5)
        if op is None:
            dr.scatter(target, value, UInt(3, 0, 1, 5, 2), ACTIVE)
        else:
            dr.scatter_reduce(op, target, value, INDEX, ACTIVE)
        return target

    return f


def packet_scatter(x):
    target = Float64(x)
    active = Bool(True, True, False, False, False, False)
    dr.scatter(target, Array2f64(x * 2, x * x), UInt(2, 0, 1, 0, 0, 0), active)
    return target


def exchanged(x):
    target = Float64(x)
    old = dr.scatter_exch(target, dr.gather(Float64, x, UInt(0, 1)) * 2, UInt(3, 4))
    return [target, old * old]


def compared(x):
    target = Float64(x)
    expected = dr.detach(dr.gather(Float64, x, UInt(3, 3)))
    new = dr.gather(Float64, x, UInt(0, 1)) * 2
    old, _ = dr.scatter_cas(target, expected, new, UInt(3, 4))
    return [target, old * old]


FUNCTIONS = {
    "gather": lambda x: dr.gather(Float64, x, INDEX),
    "gather, masked": lambda x: dr.gather(Float64, x, INDEX, ACTIVE),
    "gather, one entry": lambda x: dr.gather(Float64, x, UInt(2)) * Float64(1, 2),
    "gather, packets": lambda x: dr.gather(Array3f64, x, UInt(1, 0, 1)),
    "gather, long packets": lambda x: dr.gather(Matrix2f64, dr.repeat(x, 2), UInt(2, 0)),
    "scatter, value": scattered(None, False),
    "scatter, target": scattered(None, True),
    "scatter, packets": packet_scatter,
    "scatter, one value": lambda x: scatter_one(x),
    "scatter, nested": lambda x: scatter_nested(x),
    "exchange": exchanged,
    "compare and swap": compared,
    "sum": dr.sum,
    "product": dr.prod,
    "minimum": dr.min,
    "maximum": dr.max,
    "mean": dr.mean,
    "dot": lambda x: dr.dot(x, x * x),
    "norm": dr.norm,
    "cumsum": dr.cumsum,
    "prefix sum": dr.prefix_sum,
    "prefix sum, reversed": lambda x: dr.prefix_sum(x, reverse=True),
    "repeat": lambda x: dr.repeat(x, 3),
    "tile": lambda x: dr.tile(x, 2),
    "reverse": dr.reverse,
    "concat": lambda x: dr.concat((x, x * x)),
    "broadcast": lambda x: dr.sum(x) + Float64(1, 2, 3) * dr.max(x),
    "ravel": lambda x: dr.ravel(Array3f64(x, x * x, 2)),
    "unravel": lambda x: dr.unravel(Array2f64, x),
    "tensor slices": lambda x: (tensor := TensorXf64(x * x, (2, 3)))[1, ::2] * tensor[0, 1],
    "tensor sum": lambda x: dr.sum(TensorXf64(x * x, (2, 3)), axis=1),
    "tensor maximum": lambda x: dr.max(TensorXf64(x, (2, 3)), axis=0),
    "tensor prefix": lambda x: dr.cumsum(TensorXf64(x, (2, 3)), axis=0),
    "tensor broadcast": lambda x: TensorXf64(x, (2, 3)) * TensorXf64(Float64(1, 2), (2, 1)),
    "tensor of parts": lambda x: TensorXf64([x, x * x]),
    "array of a tensor": lambda x: Array2f64(TensorXf64(x, (2, 3))),
    "slice assignment": lambda x: assigned(x),
    "evaluation between": lambda x: evaluated(x),
    "half precision": lambda x: Float64(dr.sum(Float16(x))),
}
for op in REDUCTIONS:
    FUNCTIONS |= {
        f"scatter {op.name}, value": scattered(op, False),
        f"scatter {op.name}, target": scattered(op, True),
        f"block {op.name}": lambda x, op=op: dr.block_reduce(op, x, 2),
        f"block {op.name}, uneven": lambda x, op=op: dr.block_reduce(op, x, 4),
        f"prefix {op.name}": lambda x, op=op: dr.prefix_reduce(op, x, exclusive=False),
        f"prefix {op.name}, exclusive": lambda x, op=op: dr.gather(
            Float64, dr.prefix_reduce(op, x), UInt(1, 2, 3, 4, 5)
        ),
        f"block prefix {op.name}": lambda x, op=op: dr.block_prefix_reduce(
            op, x, 3, exclusive=False
        ),
        f"block prefix {op.name}, uneven": lambda x, op=op: [
            dr.block_prefix_reduce(op, x, 4, exclusive=False, reverse=reverse)
            for reverse in (False, True)
        ],
    }
    if op.name in ("Add", "Mul"):
        FUNCTIONS[f"block prefix {op.name}, uneven and exclusive"] = lambda x, op=op: [
            dr.block_prefix_reduce(op, x, 4, reverse=reverse) for reverse in (False, True)
        ]


def scatter_one(x):
    target = dr.zeros(Float64, 4)
    dr.scatter_add(target, dr.sum(x), UInt(1, 1, 3))
    return target


def scatter_nested(x):
    target = Array2f64(x, 3)
    dr.scatter_add(target, Array2f64(x * 2, x * x), UInt(0, 1, 1, 2, 3, 3))
    return target


def assigned(x):
    tensor = TensorXf64(x, (2, 3))
    tensor[1, :] = tensor[0, :] * 2
    return tensor


def evaluated(x):
    y = dr.sin(x)
    dr.eval(y)
    z = dr.sum(y * y)
    dr.eval(z)
    return z * y


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.compiled_every(3)
def test_gradients_are_those_of_finite_differences(tier, name):
    tolerance = {"eps": 0.25, "tol": 1e-2} if name == "half precision" else {}
    assert dr.check_grad(FUNCTIONS[name], Float64(X), **tolerance)


@pytest.mark.parametrize("zeros", [(2,), (1, 4), (0,), (5,), (0, 1, 2)])
@pytest.mark.parametrize(
    "name",
    ["product", "prefix Mul", "prefix Mul, exclusive", "block Mul", "block prefix Mul",
     "block prefix Mul, uneven", "block prefix Mul, uneven and exclusive",
     "scatter Mul, value", "scatter Mul, target"],
)  # fmt: skip
def test_products_with_zeros(tier, name, zeros):
    x = np.array(X)
    x[list(zeros)] = 0
    assert dr.check_grad(FUNCTIONS[name], Float64(x))


def gradient(f, *values, cls=Float):
    x = cls(*values)
    dr.enable_grad(x)
    dr.backward(f(x))
    return list(x.grad)


@pytest.mark.parametrize(
    "f, values, expected",
    [
        (lambda x: dr.prefix_reduce(ReduceOp.Mul, x, exclusive=False), (1, 2, 0, 3), (3, 1, 8, 0)),
        (lambda x: dr.prefix_reduce(ReduceOp.Max, x, exclusive=False), (1, 2, 0, 3), (1, 2, 0, 1)),
        (lambda x: dr.block_reduce(ReduceOp.Max, x, 2), (1, 1, 0, 3), (1, 1, 0, 1)),
        (lambda x: dr.block_reduce(ReduceOp.Mul, x, 2), (1, 1, 0, 3), (1, 1, 3, 0)),
        (lambda x: x + Float(0, 0, 0), (1,), (3,)),
        (lambda x: dr.sum(x + Float(0, 0, 0)), (1,), (3,)),
        (lambda x: dr.sum(dr.sum(x + Float(0, 0, 0)) + Float(0, 0)), (1,), (6,)),
        (lambda x: dr.repeat(dr.sum(x), 4), (1, 2), (4, 4)),
    ],
)
def test_values_of_gradients(tier, f, values, expected):
    assert gradient(f, *values) == list(expected)


def test_winners_of_scatter_reductions_share_nothing():
    value, target = Float(1, 2, 3), Float(1, 2, 2, 4)
    dr.enable_grad(value, target)
    changed = target * 1
    dr.scatter_reduce(ReduceOp.Min, changed, value, UInt(0, 1, 1))
    dr.backward(changed)
    assert list(value.grad) == [1, 1, 0]
    assert list(target.grad) == [1, 1, 1, 1]


@pytest.mark.parametrize("old", [1.0, 0.0])
@pytest.mark.parametrize("op", [ReduceOp.Max, ReduceOp.Min])
@pytest.mark.parametrize("keep", [0, dr.ADFlag.KeepGraph])
def test_one_of_several_winners_has_the_tangent(tier, op, old, keep):
    sign = 1 if op is ReduceOp.Max else -1
    value, target = Float(1, 1, 1) * sign, Float(old * sign, 5)
    dr.enable_grad(value, target)
    changed = target * 1
    dr.scatter_reduce(op, changed, value, UInt(0, 0, 0))
    value.grad, target.grad = Float(1000, 100, 10), Float(0.125, 0.25)
    found = dr.forward_to(changed, flags=dr.ADFlag.Default | keep)
    assert found[0] in (1000, 100, 10) and found[1] == 0.25


@pytest.mark.parametrize("keep", [0, dr.ADFlag.KeepGraph])
@pytest.mark.parametrize(
    "op, expected",
    [(None, [10, 1, 4, 20]), (ReduceOp.Add, [10, 42, 68, 20]), (ReduceOp.Min, [10, 1, 60, 20]),
     (ReduceOp.Max, [10, 40, 4, 20])],
)  # fmt: skip
def test_repeated_tangents_replace_what_a_scatter_replaces(tier, op, expected, keep):
    def both(times):
        value, target = Float(1, 9), Float(5, 6, 7, 8)
        dr.enable_grad(value, target)
        changed = target * 1
        if op is None:
            dr.scatter(changed, value * value, UInt(1, 2), Bool(True, True))
        else:
            dr.scatter_reduce(op, changed, value * value, UInt(1, 2))
        for _ in range(times):
            value.grad, target.grad = Float(1, 1) * Float(0.5, 2 / 9), Float(5, 20, 30, 10)
            dr.enqueue(dr.ADMode.Forward, value, target)
            dr.traverse(dr.ADMode.Forward, dr.ADFlag.ClearVertices | keep)
        return list(changed.grad)

    # Entries that keep the tangent of the target add up, those that were replaced do not.
    assert both(2) == pytest.approx(expected)


def test_tangents_that_do_not_arrive_replace_nothing():
    value, target = Float(1, 2), Float(5, 6, 7)
    dr.enable_grad(value, target)
    changed = target * 1
    dr.scatter(changed, value, UInt(0, 1))
    dr.forward(value)
    dr.forward(target)  # the value's part of the graph has been freed
    assert list(changed.grad) == [1, 1, 1]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: dr.tile(x, 2),
        lambda x: dr.repeat(x, 2),
        lambda x: dr.reverse(x),
        lambda x: dr.tile(TensorXf64(x), 2).array,
        lambda x: dr.repeat(TensorXf64(x), 2).array,
        lambda x: dr.concat([x, x]),
        lambda x: dr.gather(Float64, x, UInt(0, 0)),
        lambda x: dr.prefix_reduce(ReduceOp.Add, x, exclusive=False, reverse=True),
        lambda x: dr.sort(x),
    ],
)
def test_constants_have_the_derivatives_of_other_arrays(f, size):
    found = []
    for x in (dr.full(Float64, 3, size), dr.opaque(Float64, 3, size)):
        dr.enable_grad(x)
        y = f(x)
        y.grad = dr.arange(Float64, dr.width(y)) + 1
        dr.backward_from(y)
        x.grad, y = dr.grad(x), f(x)
        found.append(list(x.grad))
        dr.forward_from(x)
        found.append(list(y.grad))
    assert found[:2] == found[2:]
    assert any(found[1])


def test_tangents_of_a_scatter_replace_those_that_were_set():
    value = Float(1, 2)
    dr.enable_grad(value)
    changed = Float(0, 0, 0)
    dr.scatter(changed, value, UInt(0, 1), Bool(True, False))
    changed.grad = Float(100, 200, 300)
    dr.forward(value)
    assert list(changed.grad) == [1, 200, 300]


@pytest.mark.parametrize("keep", [0, dr.ADFlag.KeepGraph])
@pytest.mark.parametrize("op, expected", [(ReduceOp.Add, 3), (ReduceOp.Mul, 1.5 * 16)])
def test_a_constant_tangent_counts_for_every_lane_that_writes(tier, op, expected, keep):
    value, target = Float(2, 2, 3), Float(1, 1.5, 2)
    dr.enable_grad(value)
    dr.scatter_reduce(op, target, value, UInt(1))
    dr.forward(value, flags=dr.ADFlag.Default | keep)
    assert list(target.grad) == [0, expected, 0]


@pytest.mark.parametrize("op, expected", [(ReduceOp.Add, 3), (ReduceOp.Mul, 1.5 * 3 * 4)])
def test_one_value_counts_for_every_lane_of_an_evaluated_call(tier, op, expected):
    def found(propagate):
        value, target = Float(2), Float(1, 1.5, 2)
        dr.enable_grad(value)
        index = UInt(0, 0, 0, 1)

        def write(_):
            dr.scatter_reduce(op, target, value, UInt(1))

        dr.switch(index, [write, lambda _: None], UInt(0, 1, 2, 3), mode="evaluated")
        return propagate(value, target)

    def forward(value, target):
        dr.forward(value)
        return list(target.grad)

    def reverse(value, target):
        dr.backward(target)
        return list(value.grad)

    assert found(forward) == [0, expected, 0]
    assert found(reverse) == [expected]


def test_results_of_nested_evaluated_calls_have_one_gradient_each(tier):
    x = Float64(1, 2, 3)
    dr.enable_grad(x)

    def inner(x, index):
        parts = [lambda x: x * x, lambda x: x * 3]
        return dr.switch(index, parts, x, mode="evaluated")

    y = dr.switch(UInt(0, 0, 0), [inner], x, UInt(0, 1, 1), mode="evaluated")
    dr.backward(y)
    assert list(x.grad) == [2, 3, 3]


def test_scatter_into_a_tracked_array_overwrites_its_variable():
    target, value = Float(0, 0, 0), Float(1, 2)
    dr.enable_grad(target, value)
    dr.scatter(target, value, UInt(0, 1))
    dr.backward(target * 2)
    assert list(target.grad) == [0, 0, 0]
    assert list(value.grad) == [2, 2]


def test_entries_out_of_bounds_have_no_gradient():
    x = Float(1, 2)
    dr.enable_grad(x)
    y = dr.gather(Float, x, UInt(0, 7, 1))
    dr.backward(y)
    with pytest.raises(IndexError, match="7"):
        dr.eval(x.grad)
        dr.sync_thread()
    assert list(x.grad) == [1, 1]


def test_empty_arrays():
    x = Float()
    dr.enable_grad(x)
    y = dr.sum(x * 2) + 1
    dr.backward(y)
    assert len(x.grad) == 0


def test_bilinear_interpolation():
    def lookup(values, u):
        p = u * 3 - 0.5
        i = dr.floor(p)
        w = p - i
        i = UInt(dr.clip(i, 0, 2))
        a, b = dr.gather(Float64, values, i), dr.gather(Float64, values, i + 1)
        return dr.lerp(a, b, w)

    assert dr.check_grad(lookup, Float64(1, 4, 2, 8), Float64(0.3, 0.9, 0.55))


@pytest.mark.parametrize("first", [True, False])
def test_gathers_of_no_lanes_leave_gradients_alone(first):
    x = Float64(X)
    dr.enable_grad(x)
    nothing = dr.gather(Float64, x, INDEX, False)
    something = dr.gather(Float64, x, INDEX)
    parts = [nothing, something] if first else [something, nothing]
    dr.backward(dr.sum(parts[0]) + dr.sum(parts[1]))
    assert list(x.grad) == [2, 0, 1, 1, 0, 1]
    y = Float64(X)
    dr.enable_grad(y)
    dr.backward(dr.gather(Float64, y, INDEX, False) + dr.gather(Float64, y, UInt(1)))
    assert list(y.grad) == [0, 5, 0, 0, 0, 0]


@pytest.mark.parametrize("used", [True, False])
def test_gradient_of_a_failed_traversal_can_be_repeated(used, monkeypatch):
    x = Float64(X)
    dr.enable_grad(x)
    if used:
        dr.set_grad(x, 1)
    y = dr.gather(Float64, x, INDEX)
    fail = RuntimeError("stopped")

    def stop(*_):
        raise fail

    with monkeypatch.context() as patch:
        patch.setattr(access, "_effect_mode", stop)
        with pytest.raises(RuntimeError, match="stopped"):
            dr.backward(y)
    assert list(dr.zeros(Float64, 6) + x.grad) == [float(used)] * 6
    dr.backward(y)
    assert list(x.grad) == [used + n for n in (2, 0, 1, 1, 0, 1)]


@pytest.mark.parametrize("index", [UInt(2, 0, 1), dr.arange(UInt, 3)], ids=["data", "lanes"])
def test_the_gradient_of_a_scatter_from_a_constant_is_one(index):
    x, target = tracked(1, 2, 3), dr.zeros(Float, 3)
    dr.scatter(target, x, index)
    dr.eval(target)
    dr.backward(target)
    assert x.grad.state is dr.VarState.Literal
    assert list(x.grad) == [1, 1, 1]
    x, target = tracked(1, 2, 3), dr.zeros(Float, 3)
    dr.scatter(target, x, index, x != 2)
    dr.backward(target)
    assert list(x.grad) == [1, 0, 1]
    x, target = tracked(1, 2, 3), dr.zeros(Float, 3)
    dr.scatter(target, x, index + 1)
    dr.backward(target)
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        target.numpy()


def test_gradients_of_fewer_lanes_meet_those_of_one_value_for_all() -> None:
    x = tracked(1, 2, 3)
    y = dr.sum(dr.gather(Float, x, UInt(0, 2))) + dr.sum(x)
    dr.backward(y)
    np.testing.assert_array_equal(x.grad.numpy(), [2, 1, 2])


@pytest.mark.parametrize("factor", [1, 5], ids=["next", "further"])
def test_lanes_that_a_selection_leaves_out_stay_at_zero_behind_a_product(factor):
    x = tracked(1, 2)
    y = dr.select(Bool(False, True), x * Float(np.inf, 3) * 2 * factor, 0)
    dr.backward(y)
    assert list(x.grad) == [0, 6 * factor]


def test_only_what_an_exchange_has_written_has_a_gradient():
    x, target = tracked(1, 2), Float(0, 0)
    dr.scatter_cas(target, Float(0, 5), x, UInt(0, 1))
    dr.backward(target)
    assert list(x.grad) == [1, 0]
