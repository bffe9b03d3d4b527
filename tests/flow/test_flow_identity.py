"""Which objects loops and branches change: an array that all lanes still share is updated in place,
an attribute or entry that a body binds to another array gets a new one, and whoever else holds the
old array does not see it. Shapes of tensors follow from the number of lanes."""

import math
from dataclasses import dataclass
from typing import ClassVar

import pytest

import drjit as dr
from drjit.llvm.ad import Array3f, Bool, Float, TensorXb, TensorXf, TensorXu, UInt


class Pair:
    DRJIT_STRUCT: ClassVar = {"a": Float, "b": Float}

    def __init__(self, a=None, b=None):
        self.a, self.b = a, b


@dataclass
class Data:
    a: Float
    b: Float


KINDS = {
    "struct": (Pair, setattr, getattr),
    "data class": (Data, setattr, getattr),
    "list": (
        lambda a, b: [a, b],
        lambda s, n, v: s.__setitem__("ab".index(n), v),
        lambda s, n: s["ab".index(n)],
    ),
    "dict": (lambda a, b: {"a": a, "b": b}, dict.__setitem__, dict.__getitem__),
}


@pytest.fixture(params=["symbolic", "evaluated"])
def mode(request):
    return request.param


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


def entries(*arrays):
    return [list(a) for a in arrays]


def mask():
    return Bool(True, False)


def test_a_branch_that_binds_an_entry_leaves_the_old_array_alone(kind, mode):
    make, put, get = kind
    z = Float(5)
    s = make(z, Float(0))

    def true_fn(s):
        put(s, "a", Float(2))
        return s

    r = dr.if_stmt((s,), mask(), true_fn, lambda s: s, mode=mode)
    assert r is s
    assert entries(get(s, "a"), z) == [[2, 5], [5]]
    assert get(s, "a") is not z


@pytest.mark.parametrize("bound", ["a", "b", "ab"])
def test_fields_that_share_an_array_are_bound_one_by_one(kind, bound, mode):
    make, put, get = kind
    z = Float(5)
    s = make(z, z)

    def true_fn(s):
        for name in bound:
            put(s, name, Float({"a": 2, "b": 3}[name]))
        return s

    dr.if_stmt((s,), mask(), true_fn, lambda s: s, mode=mode)
    assert entries(get(s, "a"), get(s, "b"), z) == [
        [2, 5] if "a" in bound else [5],
        [3, 5] if "b" in bound else [5],
        [5],
    ]
    for name in "ab":
        assert (get(s, name) is z) == (name not in bound)


def test_entries_that_both_functions_bind(kind, mode):
    make, put, get = kind
    z = Float(5, 6)
    s = make(z, z)

    def adding(name, number):
        def body(s):
            put(s, name, get(s, name) + number)
            return s

        return body

    dr.if_stmt((s,), mask(), adding("a", 1), adding("a", 10), mode=mode)
    assert entries(get(s, "a"), get(s, "b"), z) == [[6, 16], [5, 6], [5, 6]]
    dr.if_stmt((s,), mask(), adding("a", 1), adding("b", 10), mode=mode)
    assert entries(get(s, "a"), get(s, "b"), z) == [[7, 16], [5, 16], [5, 6]]


def test_an_array_that_changes_in_place_changes_for_all(kind, mode):
    make, _, get = kind
    z = Float(5, 6)
    s = make(z, z)

    def true_fn(s, z):
        z += 1
        return s, z

    r = dr.if_stmt((s, z), mask(), true_fn, lambda s, z: (s, z), mode=mode)
    assert r[0] is s and r[1] is z is get(s, "a") is get(s, "b")
    assert list(z) == [6, 6]


def test_an_array_bound_in_a_container_and_changed_as_a_variable(mode):
    z = Float(5)
    entry = [z, z]

    def true_fn(entry, z):
        entry[0] = Float(2)
        return entry, z + 1

    r = dr.if_stmt((entry, z), mask(), true_fn, lambda entry, z: (entry, z), mode=mode)
    assert entries(*r[0], r[1], z) == [[2, 5], [5], [6, 5], [5]]
    assert r[0] is entry and entry[1] is z


def test_components_of_nested_arrays(mode):
    a = Array3f(Float(5, 6), Float(5, 6), 0)
    s = {"whole": a, "part": a.x}

    def true_fn(s):
        s["whole"].x = s["whole"].x + 1
        return s

    def false_fn(s):
        s["part"] = s["part"] + 100
        return s

    r = dr.if_stmt((s,), mask(), true_fn, false_fn, mode=mode)
    assert r["whole"] is a
    assert entries(*a, r["part"]) == [[6, 6], [5, 6], [0], [6, 106]]


def test_nested_structures(mode):
    z = Float(1, 2)
    tree = {"list": [Pair(z, z), z], "tensor": TensorXf(z), "nested": Array3f(z)}

    def true_fn(tree):
        tree["list"][0].b = Float(7)
        tree["tensor"] = tree["tensor"] + 1
        tree["nested"].y += 1
        return tree

    r = dr.if_stmt((tree,), mask(), true_fn, lambda tree: tree, mode=mode)
    pair = tree["list"][0]
    assert r is tree
    assert entries(z, pair.a, pair.b, tree["list"][1]) == [[1, 2], [1, 2], [7, 2], [1, 2]]
    assert entries(tree["tensor"], *tree["nested"]) == [[2, 2], [1, 2], [2, 2], [1, 2]]


def test_what_a_branch_gives_although_it_was_no_array_before(mode):
    p = Data(5, Float(1))

    def put(value):
        def body(p):
            p.a = value
            return p

        return body

    dr.if_stmt((p,), mask(), put(Float(1)), put(Float(2)), mode=mode)
    assert list(p.a) == [1, 2]


def test_defaults_of_data_classes_are_shared(mode):
    @dataclass
    class Hit:
        t: Float = Float(9)  # noqa: RUF009

    def true_fn(hit):
        hit.t = hit.t - 5
        return hit

    for _ in range(2):
        r = dr.if_stmt((Hit(),), mask(), true_fn, lambda hit: hit, mode=mode)
        assert list(r.t) == [4, 9]


def test_gradients_of_a_loop_over_shared_defaults():
    default = Float(1)
    scale = Float(2, 3)
    dr.enable_grad(scale)
    for _ in range(2):
        s = Pair(default, default)

        def body(i, s):
            def true_fn(s):
                s.a = s.a * scale
                return s

            return i + 1, dr.if_stmt((s,), i < 2, true_fn, lambda s: s)

        _, r = dr.while_loop((UInt(0), s), lambda i, s: i < 3, body, max_iterations=3)
        dr.backward(r.a)
        assert list(r.a) == [4, 9]
    assert list(scale.grad) == [8, 12]
    assert list(default) == [1]


# ---- In-place operators on names


@dr.syntax
def reduced(x, m):
    if m:
        x -= 1


@dr.syntax
def either(x, m):
    if m:
        x -= 1
    else:
        x *= 2


@dr.syntax
def another_name(x, m):
    y = x
    if m:
        y -= 1


@dr.syntax
def nested(x, m):
    y = x
    if m:
        if m | m:
            y -= 1
        m = ~m


@dr.syntax
def looping(x, m):
    if m:
        i = UInt(0)
        while i < 1:
            x -= 1
            i += 1


@dr.syntax
def bound_later(x, m):
    if m:
        x -= 1
        x = x * 7
    return x


@dr.syntax
def bound_before(x, m):
    if m:
        x = x * 7
        x -= 1


@dr.syntax
def by_a_name_of_the_branch(x, m):
    y = x
    if m:
        z, y = y, y * 7
        z -= 1
    return y


@dr.syntax
def counted(x, m):
    count = 0
    if m:
        count = 5
        count += 1
        x -= 1


IN_PLACE = [reduced, another_name, nested, looping, bound_later, by_a_name_of_the_branch, counted]


@pytest.mark.parametrize("f", [*IN_PLACE, either, bound_before], ids=lambda f: f.__name__)
@pytest.mark.parametrize("make", [Float, TensorXf, lambda x: Array3f(x, 1, x)])
def test_in_place_operators_are_seen_by_the_caller(f, make, mode):
    x, y = make(Float(5, 20)), make(Float(5, 20))
    symbolic = mode == "symbolic"
    with dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, symbolic):
        with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, symbolic):
            f(x, mask())
    otherwise = y * 2 if f is either else y
    where = y if f is bound_before else y - 1
    assert dr.all(x == dr.select(mask(), where, otherwise), axis=None)


# ---- Tensors that are smaller than the condition


def tensor(shape, first=1):
    return TensorXf(dr.arange(Float, math.prod(shape)) + first, shape)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("cond", [Bool(True, False, True), TensorXb([True, False, True])])
def test_branches_give_tensors_of_all_lanes(shape, cond, mode):
    t = tensor(shape)
    r = dr.if_stmt((t,), cond, lambda t: t + 10, lambda t: t, mode=mode)
    assert r.shape == (3,) and list(r) == [11, 1, 11]
    assert t.shape == shape and t.array[0] == 1
    same = dr.if_stmt((t,), cond, lambda t: t, lambda t: t, mode=mode)
    assert same.shape == shape

    def true_fn(t):
        t += 10
        return t

    r = dr.if_stmt((t,), cond, true_fn, lambda t: t, mode=mode)
    assert r is t and t.shape == (3,) and list(t) == [11, 1, 11]


@pytest.mark.parametrize(
    "first, second, shape",
    [((3,), (), (3,)), ((), (1, 3), (1, 3)), ((3, 1), (1,), (3, 1)), ((3,), (1, 3), (1, 3))],
)
def test_branches_merge_tensors_of_different_shapes(first, second, shape, mode):
    r = dr.if_stmt(
        (), Bool(True, False, True), lambda: tensor(first), lambda: tensor(second, 11), mode=mode
    )
    a = [1, 2, 3] if len(tensor(first).array) == 3 else [1] * 3
    b = [11, 12, 13] if len(tensor(second).array) == 3 else [11] * 3
    assert r.shape == shape and list(r.array) == [a[0], b[1], a[2]]


@pytest.mark.parametrize(
    "counter, shape",
    [(UInt(0, 1, 2), (3,)), (TensorXu([0, 1, 2]), (3,)), (TensorXu([[0, 1], [2, 3]]), (2, 2))],
)
@pytest.mark.parametrize("start", [(), (1,)])
def test_loops_give_tensors_of_all_lanes(counter, shape, start, mode):
    t, _ = dr.while_loop(
        (tensor(start), counter), lambda t, k: k < 3, lambda t, k: (t * 2, k + 1), mode=mode
    )
    assert t.shape == shape
    assert list(t.array) == [8, 4, 2, 1][: len(t.array)]


def test_gradients_of_tensors_that_are_widened(mode):
    t = tensor(())
    dr.enable_grad(t)
    weights = TensorXf([1, 2, 4])
    r = dr.if_stmt((t,), Bool(True, False, True), lambda t: 3 * t, lambda t: 2 * t, mode=mode)
    dr.backward(r * weights)
    assert t.grad.shape == () and t.grad.array[0] == 19
    t.grad = 0
    r, _ = dr.while_loop(
        (t, UInt(0, 1, 2)),
        lambda t, k: k < 3,
        lambda t, k: (t * 2, k + 1),
        mode=mode,
        max_iterations=3,
    )
    dr.backward(r * weights)
    assert t.grad.array[0] == 24


def test_tensors_that_do_not_fit(mode):
    with pytest.raises(RuntimeError, match=r"incompatible sizes|the size of state variable"):
        dr.if_stmt(
            (tensor((2, 2)),), Bool(True, False, True), lambda t: t + 1, lambda t: t, mode=mode
        )
