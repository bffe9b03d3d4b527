"""The same array or list as several variables of a loop or branch, and changes in place."""

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Array2f, Float, UInt

pytestmark = pytest.mark.usefixtures("tier")
both = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])


def stay(s, x):
    return s, x


def add_in_place(s, x):
    s += x
    return s, x


def change_second(s, x):
    x += 1
    return s, x


def change_both(s, x):
    s += x
    x += 1
    return s, x


def add(s, x):
    return s + x, x


def add_second(s, x):
    return s, x + 5


def swap(s, x):
    return x, s


FUNCTIONS = [stay, add_in_place, change_second, change_both, add, add_second, swap]


def value(x):
    return x.numpy().tolist()


@both
@pytest.mark.parametrize("no", FUNCTIONS)
@pytest.mark.parametrize("yes", FUNCTIONS)
def test_branches_do_what_they_do_lane_by_lane(yes, no, mode):
    """Results, and which objects they are, follow from the plain call of one function each."""
    expected, same = [], []
    for k, function in enumerate((yes, no)):
        x = Float([1, 2][k])
        s, t = function(x, x)
        expected.append([value(s)[0], value(t)[0]])
        same.append((s is x, t is x))
    x = Float(1, 2)
    s, t = dr.if_stmt((x, x), Float(1, 1) > Float(0.5, 1), yes, no, mode=mode)
    np.testing.assert_array_equal([value(s), value(t)], np.transpose(expected))
    for result, in_yes, in_no in zip((s, t), *same, strict=True):
        assert (result is x) == (in_yes and in_no)
    if s is not x and t is not x:
        assert value(x) == [1, 2]


def rebind(s, t):
    return t, s


def add_first(s, t):
    s += t
    return s, t


def add_then_swap(s, t):
    t += s
    return t, s


def replace(s, t):
    s += 1
    t = s
    return s * 2, t


def drop(s, t):
    s += 1
    return t, t * 2


PARTING = [rebind, add_first, add_then_swap, replace, drop, stay]


@both
@pytest.mark.parametrize("no", PARTING)
@pytest.mark.parametrize("yes", PARTING)
def test_a_branch_that_parts_arrays_changes_them_in_its_lanes(yes, no, mode):
    """Whoever holds an array sees what each lane has made of it, if its function returns it."""
    expected = []
    for k, function in enumerate((yes, no)):
        x, y = Float([1, 2][k]), Float([3, 4][k])
        before = value(x) + value(y)
        s, t = function(x, y)
        held = [
            value(v)[0] if v is s or v is t else old for v, old in zip((x, y), before, strict=True)
        ]
        expected.append([value(s)[0], value(t)[0], *held])
    x, y = Float(1, 2), Float(3, 4)
    s, t = dr.if_stmt((x, y), Float(1, 1) > Float(0.5, 1), yes, no, mode=mode)
    found = [dr.zeros(Float, 2) + v for v in (s, t, x, y)]
    np.testing.assert_array_equal([value(v) for v in found], np.transpose(expected))


@both
def test_a_branch_that_parts_a_list(mode):
    x = Float(1, 2)
    one, other = [x], [Float(10, 20)]

    def yes(a, b):
        a[0] = a[0] + 1
        return b, a

    a, b = dr.if_stmt((one, other), x > 1.5, yes, lambda a, b: (a, b), mode=mode)
    assert [value(v[0]) for v in (a, b, one, other)] == [[1, 20], [10, 3], [1, 3], [10, 20]]
    assert value(x) == [1, 2]


@both
def test_a_branch_without_else_that_parts_a_list(mode):
    @dr.syntax
    def swapped(c, a, b):
        if dr.hint(c, mode=mode):
            a[0] = a[0] + 1
            a, b = b, a
        return a, b

    x = Float(1, 2)
    one, other = [x], [Float(10, 20)]
    a, b = swapped(x > 1.5, one, other)
    assert [value(v[0]) for v in (a, b, one, other)] == [[1, 20], [10, 3], [1, 3], [10, 20]]
    assert value(x) == [1, 2]


@both
def test_a_parted_container_that_cannot_be_merged_is_as_before(mode):
    state = {"a": Float(1, 2), "b": None}

    def yes(s):
        s["b"] = s["a"] + 1
        return s

    made = dr.if_stmt(
        (state,), state["a"] > 1.5, yes, lambda s: {"a": s["a"], "b": s["a"] * 5}, mode=mode
    )
    assert value(made["b"]) == [5, 3] and state["b"] is None


@both
def test_a_parted_tensor_gets_all_lanes(mode):
    t = dr.llvm.ad.TensorXf(Float(5), ())

    def yes(t):
        t += 1
        return t

    made = dr.if_stmt((t,), Float(1, 2) > 1.5, yes, lambda t: t * 10, mode=mode)
    assert made.shape == t.shape == (2,)
    assert value(made.array) == [50, 6] and value(t.array) == [5, 6]


@pytest.mark.parametrize("direction", ["forward", "backward"])
@both
def test_derivatives_of_parted_arrays(mode, direction):
    x = Float(1, 2, 3)
    dr.enable_grad(x)
    s = x * 1

    def yes(s):
        s *= x
        return s * 2, s

    made, other = dr.if_stmt((s,), x > 1.5, yes, lambda s: (s * s * s, s + 1), mode=mode)
    result = made + 10 * other + 100 * s  # 112 x^2 in the upper lanes, else x^3 + 10 x + 100 x
    want = [3 + 110, 224 * 2, 224 * 3]
    if direction == "forward":
        dr.forward(x)
        assert value(dr.grad(result)) == want
    else:
        dr.backward(result)
        assert value(x.grad) == want


@both
@pytest.mark.parametrize("parts", [False, True])
def test_one_side_of_an_inner_branch_scatters(mode, parts):
    """To a table that the branch around it has written to, and that is a result of both."""

    @dr.syntax
    def run(x, table):
        b = x
        a = b
        if dr.hint(x > 1.5, mode=mode):
            dr.scatter_add(table, x - 2.5, UInt(0, 2, 2))
            if dr.hint(x == dr.select(x > 2.5, x, 0), mode=mode):
                if parts:
                    b -= x - 1
                else:
                    b = b + 1
            else:
                dr.scatter_add(table, x - 1, UInt(1, 2, 3))
        return a, b, table

    x, table = Float(1, 2, 3), Float(1, 2, 3, 4)
    kept = Float(table)
    a, b, t = run(x, table)
    assert t is table and value(table) == [1, 2, 4, 4] and value(kept) == [1, 2, 3, 4]
    assert value(b) == ([1, 2, 1] if parts else [1, 2, 4])
    assert value(a) == value(x) == ([1, 2, 1] if parts else [1, 2, 3])


# What two variables are after three iterations of [1, 2], and what becomes of the array.
LOOPS = {
    stay: ([1, 2], [1, 2], [1, 2]),
    add_in_place: ([4, 8], [1, 2], [4, 8]),
    change_second: ([4, 5], [4, 5], [4, 5]),
    change_both: ([4, 5], [4, 5], [4, 5]),  # the array gets what the last variable has
    add: ([4, 8], [1, 2], [1, 2]),
    add_second: ([1, 2], [16, 17], [1, 2]),
    swap: ([1, 2], [1, 2], [1, 2]),
}


@both
@pytest.mark.parametrize("function", LOOPS)
def test_variables_of_loops_do_not_see_each_other_change(function, mode):
    x = Float(1, 2)
    _, s, t = dr.while_loop(
        (UInt(0, 0), x, x), lambda i, *_: i < 3, lambda i, s, t: (i + 1, *function(s, t)), mode=mode
    )
    assert (value(s), value(t), value(x)) == LOOPS[function]


@both
def test_what_stays_is_the_same_object(mode):
    x, y = Float(1, 2), Float(1, 2)
    _, s, t, u = dr.while_loop(
        (UInt(0, 0), x, x, y),
        lambda i, *_: i < 3,
        lambda i, s, t, u: (i + 1, s + t, t, u),
        mode=mode,
    )
    assert s is not x and t is x and u is y


@both
def test_captured_arrays_do_not_see_variables_change(mode):
    x = Float(1, 2)

    def body(s):
        s += x
        return (s,)

    (s,) = dr.while_loop((x,), lambda s: s < x + 5, body, mode=mode)
    assert s is x and value(x) == [6, 8]


@both
def test_components_of_nested_arrays(mode):
    a = Array2f(Float(1, 2), Float(3, 4))

    def body(i, s, a):
        s += 1
        return i + 1, s, a

    _, s, b = dr.while_loop((UInt(0, 0), a.x, a), lambda i, *_: i < 2, body, mode=mode)
    assert s is a.x and value(s) == [3, 4]
    assert value(b.x) == [1, 2] and value(b.y) == [3, 4]


@both
def test_a_list_that_occurs_twice_is_two_lists_in_a_loop(mode):
    """As an array is; afterwards both variables are the list again, which has changed."""
    x = Float(1, 2)
    dr.enable_grad(x)
    values = [x]

    def body(i, a, b):
        a[0] = a[0] * x + b[0]
        return i + 1, a, b

    start = (UInt(0, 1), values, values)
    _, a, b = dr.while_loop(start, lambda i, *_: i < 3, body, mode=mode, max_iterations=3)
    assert a is values and b is values
    np.testing.assert_allclose(value(a[0]), [4, 14])  # x^(n + 1) + x + ... + x^n
    dr.backward(a[0])
    np.testing.assert_allclose(value(x.grad), [1 + 2 + 3 + 4, 1 + 4 + 12])


@both
def test_a_list_that_is_parted(mode):
    values = [Float(1, 2)]
    _, a, b = dr.while_loop(
        (UInt(0, 1), values, values),
        lambda i, *_: i < 3,
        lambda i, a, b: (i + 1, a, [b[0] + 1]),
        mode=mode,
    )
    assert a is values and b is not values
    assert value(values[0]) == [1, 2] and value(b[0]) == [4, 4]


@both
def test_what_has_not_changed_of_a_list_is_parted_from_what_has(mode):
    """The first variable gives the array in the list its value, so that the second one, which has
    not changed, gets a list of its own."""
    x = Float(1, 2)
    values = [x, Float(5, 6)]

    def body(i, a, b):
        a[0] += 1
        return i + 1, a, b

    start = (UInt(0, 1), values, values)
    _, a, b = dr.while_loop(start, lambda i, *_: i < 3, body, mode=mode)
    assert a is values and a[0] is x and b is not values and b[1] is values[1]
    assert value(x) == [4, 4] and value(b[0]) == [1, 2]


@both
@pytest.mark.parametrize("owner", [0, 1])
def test_a_table_is_one_array_wherever_it_occurs(mode, owner):
    """A scatter changes it for all of its owners, and for these only."""
    table = dr.zeros(Float, 3)
    other, box = Float(table), [table, Float(1, 2)]

    def body(i, a, b, t):
        dr.scatter_add((a, b)[owner][0], a[1], UInt(0, 2))
        dr.scatter_add(t, Float(10, 20), UInt(0, 2))
        a[1] = a[1] + b[1]
        return i + 1, a, b, t

    start = (UInt(0, 1), box, box, table)
    _, a, b, t = dr.while_loop(start, lambda i, *_: i < 3, body, mode=mode)
    assert a is box and b is box and a[0] is t is table
    assert value(table) == [1 + 2 + 3 + 30, 0, 2 + 4 + 40] and value(other) == [0, 0, 0]
    assert value(a[1]) == [4, 6]


COUNTS = UInt(0, 1, 3, 2, 2)


def by_loop(f, x):
    def body(k, y):
        return k + 1, f(y)

    return dr.while_loop((UInt(0), x), lambda k, y: k < COUNTS, body, mode="symbolic")[1]


def by_branch(f, x):
    return dr.if_stmt((x,), COUNTS >= 2, f, lambda x: -x, mode="symbolic")


def by_call(f, x):
    return dr.switch(COUNTS // 2, [lambda x: -x, lambda x: f(x)], x, mode="symbolic")


FLOWS = pytest.mark.parametrize("flow", [by_loop, by_branch, by_call])


@FLOWS
def test_variables_of_functions_may_change_before_derivatives(flow):
    """Bound to something else, or changed in place."""

    def run(change):
        x, number, rows = Float(1, 2, 3, 4, 5), 2, [Float(3), {"a": Float(4)}]
        w = Float(5)
        dr.enable_grad(x, w)
        inputs, in_place = (x, w), w * 1
        y = flow(lambda y: y * x * number + rows[0] * in_place * rows[1]["a"], Float(2))
        if change:
            x, number = y * x, 7
            in_place += 1
            rows[0] += 1
            rows[1]["a"] = Float(9)
        dr.backward(y)
        return [a.grad.numpy() for a in inputs]

    for changed, want in zip(run(True), run(False), strict=True):
        assert want.any()
        np.testing.assert_array_equal(changed, want)


@FLOWS
def test_variables_of_functions_that_are_arguments_as_well(flow):
    x = Float(1, 2, 3, 4, 5)
    dr.enable_grad(x)
    y = flow(lambda y: y * x, x)
    dr.backward(y)
    n, value = COUNTS.numpy(), np.arange(1.0, 6)
    want = (n + 1) * value**n if flow is by_loop else np.where(n >= 2, 2 * value, -1)
    np.testing.assert_array_equal(x.grad.numpy(), want)


def test_derivatives_of_branches_with_the_same_argument_twice():
    x = Float(1, 2, 3)
    dr.enable_grad(x)
    z = x * 1

    def yes(a, b):
        a *= 3
        return b * b

    y = dr.if_stmt((z, z), x > 1, yes, lambda a, b: a + b, mode="symbolic")
    dr.backward(y)
    assert value(x.grad) == [2, 36, 54]


@FLOWS
def test_functions_that_refer_to_themselves(flow):
    x, w, depth = Float(1, 2, 3, 4, 5), Float(2), [0]
    dr.enable_grad(x, w)

    def f(y):
        depth[0] += 1
        try:
            return f(y * w) if depth[0] < 3 else y * x
        finally:
            depth[0] -= 1

    y = flow(f, Float(1))
    f = w = None
    dr.backward(y)
    n, value = COUNTS.numpy(), np.arange(1.0, 6)
    want = n * 4.0**n * value ** np.maximum(n - 1, 0) if flow is by_loop else 4.0 * (n >= 2)
    np.testing.assert_array_equal(x.grad.numpy(), want)


@both
def test_an_array_is_put_where_it_is(mode):
    """Which changes nothing in an evaluated loop, while places have variables of their own in a
    symbolic one."""
    y = dr.opaque(Float, 4)
    p = [Float(y), Array2f(y, y)]
    q = [p[0], p[1]]

    def body(i, p, q):
        p[1].y = q[0]
        return i + 1, p, q

    _, p, q = dr.while_loop((UInt(0), p, q), lambda i, p, q: i < 2, body, mode=mode)
    assert p[0] is q[0] and (p[1] is q[1]) == (mode == "evaluated")
    assert p[1].numpy().tolist() == q[1].numpy().tolist() == [[4], [4]]
