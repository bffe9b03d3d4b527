"""From the third call on, a frozen function may find its recording by a short way. It must tell
inputs apart exactly as the general way does."""

import gc
import threading
import weakref
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from helpers import settle

import drjit as dr
from drjit.flow.freeze import frozen, layout
from drjit.jit import substitutes
from drjit.jit.cpu import plans, sequence, variants, warm_up
from drjit.llvm.ad import Array3f, Float, TensorXf, UInt


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Native code performs launches from the first call on."""
    monkeypatch.setattr(sequence, "_OFTEN", 1)
    if places := warm_up.places(plans):
        monkeypatch.setattr(substitutes, "plans", plans.KnownPrograms(places))


@dataclass
class Pair:
    x: Float
    y: object


class Record:
    DRJIT_STRUCT: ClassVar = {"x": Float}

    def __init__(self, x=None, scale=2.0):
        self.x = x
        if scale is not None:
            self.scale = scale


class Thing:
    """No PyTree."""

    def __init__(self, x, factor):
        self.x, self.factor = x, factor

    def times(self, y):
        return y * self.factor


def v(*values):
    return dr.opaque(Float, 0, len(values)) + Float(values)


def tracked(*values, grad=None):
    a = v(*values)
    dr.enable_grad(a)
    if grad is not None:
        dr.set_grad(a, grad)
    return a


def twice(x):
    return (x, x)


def total(value):
    """A number for everything in a structure that a fast path may overlook."""
    if isinstance(value, Float):
        return value * 2 + (dr.grad(value) if dr.grad_enabled(value) else 0)
    if isinstance(value, UInt):
        return Float(value)
    if isinstance(value, TensorXf):
        return dr.sum(value.array) * value.shape[0]
    if isinstance(value, Array3f):
        return value.x + 2 * value.y + 3 * value.z
    if isinstance(value, Pair):
        return total(value.x) + 3 * total(value.y)
    if isinstance(value, Record):
        return total(value.x) * getattr(value, "scale", 1)
    if isinstance(value, Thing):
        return total(value.x) * value.factor
    if isinstance(value, partial):
        return total(value.args[0]) * value.keywords["k"]
    if hasattr(value, "__self__"):
        return value(v(1, 2, 3))
    if isinstance(value, dict):
        return sum(total(e) * (k + 1) for k, e in enumerate(value.values())) + len(
            str(tuple(value))
        )
    if isinstance(value, (list, tuple)):
        result = Float(len(value))
        if len({id(e) for e in value}) < len(value):
            result += 100
        for k, e in enumerate(value):
            result += total(e) * (k + 1)
        return result
    if isinstance(value, str):
        return Float(len(value))
    return Float(0) if value is None else Float(float(value) + (str(value)[0] == "-") * 1000)


# Inputs that are first used several times, made anew each time, and different ones.
CASES = {
    "values": (lambda: v(1, 2, 3), lambda: v(4, 5, 6)),
    "size": (lambda: v(1, 2, 3), lambda: v(1, 2, 3, 4)),
    "one entry": (lambda: v(1, 2, 3), lambda: v(1)),
    "empty": (lambda: v(1, 2, 3), lambda: Float()),
    "type": (lambda: v(1, 2, 3), lambda: UInt(v(1, 2, 3))),
    "literal": (lambda: Float(2), lambda: Float(3)),
    "literal becomes data": (lambda: Float(2), lambda: dr.opaque(Float, 2)),
    "data becomes literal": (lambda: v(2), lambda: Float(2)),
    "negative zero": (lambda: (v(1), Float(0.0)), lambda: (v(1), Float(-0.0))),
    "not evaluated": (lambda: v(1, 2, 3), lambda: v(1, 2, 3) + 1),
    "tuple becomes list": (lambda: (v(1), v(2)), lambda: [v(1), v(2)]),
    "length": (lambda: [v(1), v(2)], lambda: [v(1), v(2), v(3)]),
    "nothing": (lambda: [v(1), v(2)], lambda: []),
    "from nothing": (lambda: ([], v(1)), lambda: ([v(2)], v(1))),
    "same array twice": (lambda: [v(1), v(2)], lambda: twice(v(1))),
    "no longer the same": (lambda: twice(v(1)), lambda: (v(1), v(1))),
    "same data": (lambda: [v(1), v(2)], lambda: (lambda a: [a, Float(a)])(v(1))),
    "no longer the same data": (lambda: (lambda a: [a, Float(a)])(v(1)), lambda: [v(1), v(1)]),
    "same list twice": (lambda: ([v(1)], [v(2)]), lambda: twice([v(1)])),
    "keys": (lambda: {"a": v(1), "b": v(2)}, lambda: {"a": v(1), "cc": v(2)}),
    "order of keys": (lambda: {"a": v(1), "b": v(2)}, lambda: {"b": v(1), "a": v(2)}),
    "number": (lambda: (v(1), 3.5), lambda: (v(1), 4.5)),
    "int becomes float": (lambda: (v(1), 3), lambda: (v(1), 3.0)),
    "sign of a zero": (lambda: (v(1), 0.0), lambda: (v(1), -0.0)),
    "text": (lambda: (v(1), "ab"), lambda: (v(1), "abc")),
    "none": (lambda: (v(1), None), lambda: (v(1), v(2))),
    "to none": (lambda: (v(1), v(2)), lambda: (v(1), None)),
    "bool": (lambda: (v(1), True), lambda: (v(1), False)),
    "bool becomes int": (lambda: (v(1), True), lambda: (v(1), 1)),
    "data class": (lambda: Pair(v(1), 2), lambda: Pair(v(1), 3)),
    "field becomes array": (lambda: Pair(v(1), 2), lambda: Pair(v(1), v(2))),
    "struct": (lambda: Record(v(1, 2)), lambda: Record(v(3, 4))),
    "attribute that is no field": (lambda: Record(v(1)), lambda: Record(v(1), 3.0)),
    "attribute is gone": (lambda: Record(v(1)), lambda: Record(v(1), None)),
    "attribute comes": (lambda: Record(v(1), None), lambda: Record(v(1))),
    "tensor": (lambda: TensorXf(v(1, 2), (1, 2)), lambda: TensorXf(v(1, 2), (2, 1))),
    "vector": (lambda: Array3f(v(1), v(2), v(3)), lambda: Array3f(v(1), v(2), v(4))),
    "vector of the same": (lambda: Array3f(v(1), v(2), v(3)), lambda: Array3f(v(1))),
    "tracked": (lambda: v(1, 2), lambda: tracked(1, 2)),
    "no longer tracked": (lambda: tracked(1, 2), lambda: v(1, 2)),
    "gradient": (lambda: tracked(1, 2), lambda: tracked(1, 2, grad=3)),
    "another gradient": (lambda: tracked(1, 2, grad=v(1, 1)), lambda: tracked(1, 2, grad=v(5, 6))),
    "literal gradient": (lambda: tracked(1, 2, grad=4), lambda: tracked(1, 2, grad=5)),
    "computed": (lambda: tracked(1, 2), lambda: tracked(1, 2) * 1.5),
    "partial": (lambda: partial(total, v(1), k=2), lambda: partial(total, v(1), k=3)),
}  # fmt: skip


def run(case, monkeypatch, after):
    """Results of calls for one case, and how often the function was recorded in them."""
    monkeypatch.setattr(frozen, "_REPLAYS", after)
    usual, other = CASES[case]
    # A copy of each object on every call, as programs make them.
    recorded = dr.freeze(total)
    found = []
    for make in (usual, usual, usual, usual, other, usual, other, other, other, other, usual):
        inputs = make()
        found.append((np.array(recorded(inputs)).tolist(), recorded.n_recordings))
        assert found[-1][0] == np.array(total(inputs)).tolist()
    return found, len(recorded._fast_paths)


@pytest.mark.parametrize("case", CASES)
def test_inputs_are_told_apart_as_in_the_general_way(case, monkeypatch, tier):
    short, shortcuts = run(case, monkeypatch, 2)
    general, none = run(case, monkeypatch, 1 << 30)
    assert short == general
    assert none == 0
    assert shortcuts > 0 or case in {"sign of a zero"}


def test_the_short_way_is_taken(monkeypatch):
    monkeypatch.setattr(variants, "pinned", "compiled")
    f = dr.freeze(lambda x, k: x * k)
    for _ in range(8):  # there is another short way when all kernels are compiled
        f(v(1, 2), 3)
        settle()
    monkeypatch.setattr(layout, "InputLayout", None)
    assert np.array(f(v(3, 4), 3)).tolist() == [9, 12]
    x = dr.opaque(Float, 3, 2)
    assert np.array(f(x, 3)).tolist() == [9, 9]
    with pytest.raises(TypeError, match="not callable"):
        f(v(3, 4), 4)


def test_the_short_way_is_taken_for_several_inputs_in_turn(monkeypatch):
    monkeypatch.setattr(variants, "pinned", "compiled")
    f = dr.freeze(lambda x, k: x * k)
    for _ in range(8):
        for k in (3, 4, 5):
            f(v(1, 2), k)
        settle()
    monkeypatch.setattr(layout, "InputLayout", None)
    for k in (3, 5, 4, 3):
        assert np.array(f(v(3, 4), k)).tolist() == [3 * k, 4 * k]


_replayed = frozen._replayed


def left_behind(tree, target):
    """Changes everything that a call can change."""
    tree["sum"] = tree["a"] + tree.get("sum", 0)
    tree["list"][0] = tree["list"][0] * 2
    tree["pair"].x = tree["pair"].x + Float(1)
    dr.set_grad(tree["tracked"], dr.grad(tree["tracked"]) + tree["a"])
    a = tree["a"] + 1
    dr.eval(a)
    b = dr.sum(a * 2)
    new = Float(a)
    dr.enable_grad(new)
    return {"a": a, "same": [a, a], "b": (b, None, 3), "new": new, "input": target}, Pair(a, 7), 2.5


def test_everything_that_a_call_leaves_behind(monkeypatch, tier):
    def states(f):
        tree = {"a": v(1, 2, 3), "list": [v(1, 2), 5], "pair": Pair(v(4), v(5)), "sum": v(0, 0, 0)}
        tree["tracked"], target, found = tracked(1, 1, 1), v(9), []
        for k in range(8):
            tree["a"] = v(k, k + 1, k + 2)
            made, pair, number = f(tree, target)
            assert made["same"][0] is made["same"][1] is made["a"] is pair.x
            assert made["input"] is target and dr.grad_enabled(made["new"])
            assert (made["b"][1:], pair.y, number, list(made)) == (
                (None, 3), 7, 2.5, ["a", "same", "b", "new", "input"]
            )  # fmt: skip
            found += [made["a"], made["b"][0], made["new"], tree["sum"], tree["list"][0]]
            found += [tree["pair"].x, dr.grad(tree["tracked"])]
            found = [np.array(a).tolist() if isinstance(a, Float) else a for a in found]
        return found

    general = []
    monkeypatch.setattr(frozen, "_replayed", lambda *a: general.append(1) or _replayed(*a))
    assert states(dr.freeze(left_behind)) == states(left_behind)
    assert len(general) == (2 if tier == "compiled" else 6)


def test_a_call_that_cannot_be_one_launch_is_made_in_the_general_way(monkeypatch):
    monkeypatch.setattr(variants, "pinned", "compiled")
    f, x = dr.freeze(lambda x: x * 3 + 1), v(1, 2)
    for _ in range(4):
        f(x)
        settle()
    monkeypatch.setattr(layout, "InputLayout", None)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        assert np.array(f(x)).tolist() == [4, 7]
        assert len(dr.kernel_history()) == 1
    bad = dr.gather(Float, v(1, 2), UInt(0, 5))  # whose error appears where the result is read
    result = f(bad)
    with pytest.raises(IndexError):
        np.array(result)
    monkeypatch.setattr(variants, "pinned", "numpy")
    assert np.array(f(x)).tolist() == [4, 7]


def test_kernels_that_are_compiled_later(monkeypatch):
    monkeypatch.setattr(variants, "pinned", "numpy")
    f, x, general = dr.freeze(lambda x: dr.floor(x * 5 - 1) + dr.ceil(x)), v(1, 2), []
    monkeypatch.setattr(frozen, "_replayed", lambda *a: general.append(1) or _replayed(*a))
    for _ in range(4):
        f(x)
    monkeypatch.setattr(variants, "pinned", "compiled")
    for _ in range(4):
        assert np.array(f(x)).tolist() == [5, 11]
    assert len(general) == 3 + 2


def test_calls_from_several_threads(monkeypatch):
    monkeypatch.setattr(variants, "pinned", "compiled")

    @dr.freeze
    def f(x, y):
        z = x * y
        dr.eval(z)
        return z + x, z

    f(v(1, 1, 1), v(1, 1, 1))
    wrong = []

    def calls(k):
        for j in range(300):
            a, b = f(v(j, k, 1), v(k, k, k))
            if np.array(a).tolist() != [j * k + j, k * k + k, k + 1] or b[2] != k:
                wrong.append((k, j))

    threads = [threading.Thread(target=calls, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and f.n_recordings == 1


def test_objects_are_the_same_ones():
    things = Thing(v(1, 2), 2), Thing(v(1, 2), 3)
    f = dr.freeze(total)
    for _ in range(4):
        assert np.array(f(things[0])).tolist() == [4, 8]
    things[0].factor = 5
    assert np.array(f(things[0])).tolist() == [10, 20]
    assert np.array(f(things[1])).tolist() == [6, 12]
    assert np.array(f(things[1].times)).tolist() == [3, 6, 9]


def test_variables_outside_of_the_function_are_inputs():
    scale = 2.0
    data = [v(1, 2)]

    @dr.freeze
    def f(x):
        return x * scale + data[0]

    for _ in range(4):
        assert np.array(f(v(1, 1))).tolist() == [3, 4]
    scale = 3.0
    assert np.array(f(v(1, 1))).tolist() == [4, 5]
    data[0] = v(10, 20)
    assert np.array(f(v(1, 1))).tolist() == [13, 23]


def test_arguments_are_told_apart_by_name():
    f = dr.freeze(lambda x=0, y=0: x + 2 * y)
    for _ in range(4):
        assert np.array(f(x=v(1))).tolist() == [1]
    assert np.array(f(y=v(1))).tolist() == [2]
    assert np.array(f(v(1))).tolist() == [1]


def test_changes_of_inputs_are_repeated():
    @dr.freeze
    def f(state, target):
        state["x"] = state["x"] * 2
        dr.scatter_add(target, Float(1), UInt(1))

    state, target = {"x": v(1, 2)}, v(0, 0, 0)
    other = Float(target)  # shares the data
    for _ in range(6):
        f(state, target)
    assert np.array(state["x"]).tolist() == [64, 128]
    assert np.array(target).tolist() == [0, 6, 0]
    assert np.array(other).tolist() == [0, 0, 0]


def test_recordings_that_were_dropped_are_not_used():
    f = dr.freeze(lambda x, k: x + k, limit=1)
    for _ in range(4):
        f(v(1), 1)
    f(v(1), 2)
    assert f.n_cached_recordings == 1
    assert np.array(f(v(1), 1)).tolist() == [2]
    assert f.n_recordings == 3
    f.clear()
    assert np.array(f(v(1), 1)).tolist() == [2]
    assert f.n_recordings == 1


def test_inputs_are_not_kept_alive():
    f = dr.freeze(lambda a, b: total(a) + b)
    a, b = Thing(v(1, 2), 2), v(1, 2)
    for _ in range(4):
        f(a, b)
    assert f._fast_paths
    watched = [weakref.ref(o) for o in (a, b._node, a.x._node)]
    del a, b
    gc.collect()
    assert [w() for w in watched] == [None] * 3


def test_objects_of_other_kinds_are_left_to_the_general_way():
    f = dr.freeze(lambda x, s: x * len(s))
    for _ in range(4):
        assert np.array(f(v(1), {1, 2})).tolist() == [2]
    assert not f._fast_paths
    assert np.array(f(v(1), {1, 2, 3})).tolist() == [3]
