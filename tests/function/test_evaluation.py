"""Scheduling, evaluation, waiting, opaque values and copies."""

from dataclasses import dataclass

import pytest

import drjit as dr
from drjit.llvm import Array3f, Bool, Float, Int, TensorXf, UInt

Evaluated, Unevaluated, Literal = (
    dr.VarState.Evaluated, dr.VarState.Unevaluated, dr.VarState.Literal,
)  # fmt: skip


@dataclass
class Pair:
    a: Float
    b: Int


def test_eval_evaluates_what_it_is_given(tier):
    f = Float(1, 2)
    a, b = f + 1, f + 2
    assert dr.eval(a) is True
    assert (a.state, b.state) == (Evaluated, Unevaluated)
    assert dr.eval(a) is False
    assert dr.eval(5, "x", [a]) is False
    assert list(a) == [2, 3] and list(b) == [3, 4]


def test_eval_takes_trees(tier):
    f = Float(1, 2)
    tree = [f + 1, {"a": f + 2}, Pair(f + 3, Int(1)), Array3f(f, f + 4, 1), TensorXf([1, 2]) + 1]
    assert dr.eval(tree, f + 1)
    assert tree[0].state == tree[1]["a"].state == tree[2].a.state == tree[4].state == Evaluated
    assert tree[2].b.state == Literal and tree[3].y.state == Evaluated


def test_scheduled_values_are_evaluated_together():
    f = Float(1, 2)
    a, b, c = f + 1, f + 2, f + 3
    assert dr.schedule(a, [b]) is True
    assert a.state == b.state == Unevaluated
    assert dr.schedule(a) is True
    assert dr.schedule(f, 5, Float(1)) is False
    dr.eval(c)
    assert a.state == b.state == c.state == Evaluated
    assert dr.eval() is False


def test_eval_without_arguments():
    a = Float(1, 2) + 1
    target = dr.zeros(Float, 3)
    dr.schedule(a)
    dr.scatter(target, 5, UInt(1))
    assert dr.eval() is True
    assert a.state == Evaluated and list(target) == [0, 5, 0]


def test_what_nobody_holds_is_not_computed():
    dr.schedule(Float(1, 2) + 1)
    assert dr.eval() is False


def test_an_error_in_one_evaluation_does_not_harm_the_next():
    bad = dr.gather(Float, Float(1, 2), dr.opaque(UInt, 5))
    good = Float(1, 2) + 1
    with pytest.raises(IndexError):
        dr.eval(bad, good)
        dr.sync_thread()
    assert list(good) == [2, 3] and list(bad) == [0]
    assert dr.sync_thread() is None and dr.flush_thread() is None


def test_make_opaque(tier):
    tree = [Float(1), {"a": dr.zeros(Int, 5)}, Array3f(1, 2, 3), Float(1, 2) + 1, Bool(True)]
    assert dr.make_opaque(tree) is None
    assert {v.state for v in (tree[0], tree[1]["a"], tree[2], tree[3], tree[4])} == {Evaluated}
    assert list(tree[0]) == [1] and list(tree[1]["a"]) == [0] * 5 and list(tree[3]) == [2, 3]


def test_make_opaque_changes_no_other_array():
    a = Float(1)
    b = Float(a)
    dr.make_opaque(a)
    assert (a.state, b.state) == (Evaluated, Literal)


def test_copies_are_independent():
    tree = [
        Float(1, 2),
        {"a": Array3f([1, 2], 3, 4)},
        TensorXf([1, 2]),
        Pair(Float(1), Int(2)),
        "x",
        None,
    ]
    twin = dr.copy(tree)
    twin[0] += 1
    twin[1]["a"].x += 1
    twin[2] += 1
    twin[3].a += 1
    assert list(tree[0]) == [1, 2] and list(tree[1]["a"].x) == [1, 2]
    assert tree[2].numpy().tolist() == [1, 2] and list(tree[3].a) == [1]
    assert list(twin[0]) == [2, 3] and twin[4:] == ["x", None]


def test_thread_count():
    count = dr.thread_count()
    assert count >= 1
    dr.set_thread_count(1)
    assert dr.thread_count() == 1 and list(dr.sum(dr.arange(Float, 1000) + 0)) == [499500]
    dr.set_thread_count(count)
