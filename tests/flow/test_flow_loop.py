"""`dr.while_loop` in all modes: against plain Python loops over lanes, and what it refuses."""

import gc
import sys
import weakref
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import PCG32, Array2f, Array3f, ArrayXf, Bool, Float, Float64, Int, TensorXf, UInt
from drjit.llvm.ad import Float as ADFloat
from drjit.scalar import Array3f as ScalarArray3f

MODES = ("evaluated", "symbolic")
SIZES = (0, 1, 15, 17, 100)


@pytest.fixture(params=[*MODES, "compressed"])
def how(request):
    """Options of the call: both modes, and evaluated with compression."""
    if request.param == "compressed":
        return {"mode": "evaluated", "compress": True}
    return {"mode": request.param}


def collatz_cond(n, steps):
    return n != 1


def collatz_body(n, steps):
    odd = n & 1
    return (3 * n + 1) * odd + (n >> 1) * (1 - odd), steps + 1


def orbit_cond(x, y, k):
    return (x * x + y * y < 4) & (k < 50)


def orbit_body(x, y, k):
    return x * x - y * y - 0.4, 2 * x * y + 0.6, k + 1


def gcd_cond(a, b):
    return b != 0


def gcd_body(a, b):
    return b, a % b


def integers(n, seed, high):
    return np.random.default_rng(seed).integers(1, high, n).astype(np.int32)


PROGRAMS = {
    "collatz": (
        collatz_cond, collatz_body, lambda n: (integers(n, 1, 30), np.zeros(n, np.int32)),
        (Int, Int),
    ),
    "gcd": (
        gcd_cond, gcd_body, lambda n: (integers(n, 2, 200), integers(n, 3, 200)), (Int, Int),
    ),
    "orbit": (
        orbit_cond, orbit_body,
        lambda n: (np.linspace(-1, 1, n), np.linspace(0.5, -0.2, n), np.zeros(n, np.int32)),
        (Float64, Float64, Int),
    ),
}  # fmt: skip


def by_lane(cond, body, state):
    """What a Python loop gives for every lane."""
    rows = []
    for row in zip(*[a.tolist() for a in state], strict=True):
        while cond(*row):
            row = body(*row)
        rows.append(row)
    return list(zip(*rows, strict=True)) or [()] * len(state)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_matches_a_python_loop_over_lanes(name, size, how, tier):
    cond, body, initial, classes = PROGRAMS[name]
    state = initial(size)
    arrays = tuple(c(a) for c, a in zip(classes, state, strict=True))
    found = dr.while_loop(arrays, cond, body, **how)
    for a, cls, expected in zip(found, classes, by_lane(cond, body, state), strict=True):
        assert type(a) is cls
        np.testing.assert_allclose(a.numpy(), expected, rtol=1e-9)


def test_python_conditions_make_an_ordinary_loop():
    state = dr.while_loop((0, Float(1, 2)), lambda i, x: i < 3, lambda i, x: (i + 1, x * 2))
    assert state[0] == 3
    np.testing.assert_array_equal(state[1].numpy(), [8, 16])
    state = dr.while_loop((UInt(0),), lambda i: i < 3, lambda i: (i + 1,), mode="scalar")
    assert list(state[0]) == [3]


def test_the_default_mode_follows_the_flag():
    calls = []

    def body(i):
        calls.append(i)
        return (i + 1,)

    dr.while_loop((UInt(0, 1),), lambda i: i < 3, body)
    assert len(calls) == 1
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        dr.while_loop((UInt(0, 1),), lambda i: i < 3, body)
    assert len(calls) == 1 + 3


@pytest.mark.parametrize("count", [0, 1, 4])
def test_variables_of_one_entry_spread_over_the_lanes(count, how, tier):
    n = UInt(0, 1, 2, 3, count)
    i, x, k, _ = dr.while_loop(
        (UInt(0), Float(1), Int(5), n),
        lambda i, x, k, n: i < n,
        lambda i, x, k, n: (i + 1, x * 2, k, n),
        **how,
    )
    np.testing.assert_array_equal(dr.zeros(UInt, 5) + i, [0, 1, 2, 3, count])
    np.testing.assert_array_equal((dr.zeros(Float, 5) + x).numpy(), 2.0 ** n.numpy())
    assert list(k) == [5]


def test_loops_within_loops(how, tier):
    def inner(i, total):
        _, total, _ = dr.while_loop(
            (UInt(0), total, i),
            lambda j, total, i: j < i,
            lambda j, total, i: (j + 1, total + j, i),
            **how,
        )
        return i + 1, total

    n = UInt(0, 1, 2, 5, 9)
    _, total, _ = dr.while_loop(
        (UInt(0), UInt(0), n),
        lambda i, t, n: i < n,
        lambda i, t, n: (*inner(i, t), n),
        **how,
    )
    expected = [sum(sum(range(i)) for i in range(k)) for k in n.numpy()]
    np.testing.assert_array_equal(total.numpy(), expected)


# ---- What the state consists of


@dataclass
class Ray:
    o: Array3f
    t: Float
    name: str = "ray"


class Walk:
    DRJIT_STRUCT: ClassVar = {"x": Float, "steps": UInt}

    def __init__(self):
        self.x, self.steps = Float(0), UInt(0)


def test_trees_structures_and_tensors(how, tier):
    n = UInt(1, 3, 5)

    def body(i, n, ray, walk, tree, tensor):
        walk.x += 0.5
        walk.steps = walk.steps + 1
        new = Ray(ray.o + Array3f(1, 2, 3), ray.t + ray.o.x, ray.name)
        return i + 1, n, new, walk, {"a": (tree["a"][0] + 1, tree["a"][1] * 2)}, tensor * 2

    walk, tree = Walk(), {"a": (UInt(7), Array2f(1, 2))}
    ray, tensor = Ray(Array3f(0), Float(0)), TensorXf([1, 1, 1], (3, 1))
    found = dr.while_loop(
        (UInt(0), n, ray, walk, tree, tensor), lambda i, n, *_: i < n, body, **how
    )
    _, _, found_ray, found_walk, found_tree, found_tensor = found
    k = n.numpy().astype(float)
    np.testing.assert_array_equal(found_ray.o.numpy(), [k, 2 * k, 3 * k])
    np.testing.assert_array_equal(found_ray.t.numpy(), k * (k - 1) / 2)
    assert found_ray.name == "ray"
    assert found_walk is walk
    np.testing.assert_array_equal(walk.x.numpy(), k / 2)
    np.testing.assert_array_equal(walk.steps.numpy(), k)
    np.testing.assert_array_equal(found_tree["a"][0].numpy(), 7 + k)
    np.testing.assert_array_equal(found_tree["a"][1].numpy(), [2**k, 2 * 2**k])
    assert found_tensor.shape == (3, 1)
    np.testing.assert_array_equal(found_tensor.numpy()[:, 0], 2**k)
    np.testing.assert_array_equal(ray.o.numpy(), np.zeros((3, 1)))  # body made new objects


class Copied(Ray):
    def __copy__(self):
        made = Copied(self.o, self.t, self.name)
        made.weight = 3
        return made


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cls", [Ray, Copied])
@pytest.mark.parametrize("more", [True, False])
def test_bodies_see_all_attributes_of_structures(mode, cls, more):
    ray, names = cls(Array3f(0), Float(0, 1)), []
    if more:
        ray.weight = 2

    def body(i, ray):
        names.append((type(ray), ray.name, getattr(ray, "weight", None)))
        ray.t += 1
        return i + 1, ray

    _, found = dr.while_loop((UInt(0), ray), lambda i, _: i < 2, body, mode=mode)
    assert found is ray and list(ray.t) == [2, 3] and names
    assert {*names} == {(cls, "ray", 3 if cls is Copied else 2 if more else None)}


@pytest.mark.parametrize("mode", MODES)
def test_arrays_changed_in_place_are_seen_by_those_who_hold_them(mode, tier):
    x, y, inside = Float(1, 2), Float(0), [Float(5)]

    def body(i, x, y, inside):
        x *= 2
        inside[0] += 1
        return i + 1, x, y + 1, inside

    _, x2, y2, inside2 = dr.while_loop(
        (UInt(0), x, y, inside), lambda i, *_: i < 3, body, mode=mode
    )
    assert x2 is x and inside2 is inside
    np.testing.assert_array_equal(x.numpy(), [8, 16])
    assert set(inside[0]) == {8}
    assert y2 is not y and list(y) == [0]


def test_the_same_array_twice_is_two_variables(how):
    x = Float(1, 1)
    _, a, b = dr.while_loop(
        (UInt(0, 1), x, x), lambda i, *_: i < 2, lambda i, a, b: (i + 1, a + 1, b + 10), **how
    )
    np.testing.assert_array_equal(a.numpy(), [3, 2])
    np.testing.assert_array_equal(b.numpy(), [21, 11])
    assert list(x) == [1, 1]


def test_variables_may_change_places(how, tier):
    a, b = Float(1), Float(2, 3)
    _, c, d = dr.while_loop(
        (UInt(0, 1), a, b), lambda i, *_: i < 2, lambda i, a, b: (i + 1, b, a), **how
    )
    np.testing.assert_array_equal(c.numpy(), [1, 3])
    np.testing.assert_array_equal(d.numpy() + np.zeros(2), [2, 1])
    assert list(a) == [1] and list(b) == [2, 3]


def test_random_numbers(how, tier):
    def body(i, total, rng, n):
        return i + 1, total + rng.next_float64(), rng, n

    n, rng = UInt(0, 1, 4), PCG32(3)
    _, total, after, _ = dr.while_loop(
        (UInt(0), Float64(0), rng, n), lambda i, t, r, n: i < n, body, **how
    )
    draws, other = [], PCG32(3)
    for _ in range(4):
        draws.append(other.next_float64().numpy())
    expected = [sum(d[k] for d in draws[: int(m)]) for k, m in enumerate(n.numpy())]
    np.testing.assert_allclose(total.numpy(), expected, rtol=1e-12)
    np.testing.assert_array_equal((after - PCG32(3)).numpy(), n.numpy())


# ---- Memory


def test_tables_of_other_sizes(how, tier):
    table, n = Float(1, 10, 100, 1000), UInt(0, 1, 4)

    def body(i, x, table, n):
        return i + 1, x + dr.gather(Float, table, i), table, n

    _, x, same, _ = dr.while_loop(
        (UInt(0), Float(0), table, n), lambda i, x, t, n: i < n, body, **how
    )
    np.testing.assert_array_equal(x.numpy(), [0, 1, 1111])
    np.testing.assert_array_equal(same.numpy(), table.numpy())


@pytest.mark.parametrize("mode", MODES)
def test_a_table_as_long_as_the_loop_is_wide(mode, tier):
    table, n = Float(1, 10, 100), UInt(0, 1, 3)
    _, x, _ = dr.while_loop(
        (UInt(0), Float(0), table),
        lambda i, *_: i < n,
        lambda i, x, t: (i + 1, x + dr.gather(Float, t, i), t),
        mode=mode,
    )
    np.testing.assert_array_equal(x.numpy(), [0, 1, 111])


@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize("bins", [4, 5])
@pytest.mark.parametrize("mode", MODES)
def test_only_active_lanes_scatter(mode, bins, captured, tier):
    n = UInt(0, 1, 4, 2, 4)
    counts = dr.zeros(UInt, bins)

    if captured:

        def body(i):
            dr.scatter_add(counts, UInt(1), i)
            return (i + 1,)

        dr.while_loop((UInt(0),), lambda i: i < n, body, mode=mode)
        found = counts
    else:

        def update(i, counts):
            dr.scatter_add(counts, UInt(1), i)
            return i + 1, counts

        _, found = dr.while_loop((UInt(0), counts), lambda i, c: i < n, update, mode=mode)
        assert found is counts
    np.testing.assert_array_equal(found.numpy()[:4], [4, 3, 2, 2])


def test_evaluation_within_the_body_keeps_scatters(tier):
    counts, n = dr.zeros(UInt, 5), UInt(0, 1, 4, 2, 4)

    def body(i, counts):
        dr.scatter_add(counts, UInt(1), i)
        dr.eval(counts)
        return i + 1, counts

    _, found = dr.while_loop((UInt(0), counts), lambda i, c: i < n, body, mode="evaluated")
    np.testing.assert_array_equal(found.numpy(), [4, 3, 2, 2, 0])


def test_a_lane_that_has_left_does_not_come_back(how, tier):
    if how["mode"] == "symbolic":
        pytest.skip("what the body writes to cannot be read in the condition")
    lane = dr.arange(UInt, 2)

    def body(i, closed, lane):
        dr.scatter(closed, UInt(0), lane + 1)  # lane 0 opens the entry of lane 1
        return i + 1, closed, lane

    def test(i, closed, lane):
        return (dr.gather(UInt, closed, lane) == 0) & (i < 3)

    i = dr.while_loop((UInt(0, 0), UInt(0, 1, 1, 1, 1), lane), test, body, **how)[0]
    assert list(i) == [3, 0]


def test_loops_within_evaluated_branches_keep_to_their_lanes(how, tier):
    n, target = UInt(1, 5, 1, 4, 1, 1, 6, 1), dr.zeros(UInt, 8)

    def yes(n):
        def body(i, k, n):
            dr.scatter_add(target, UInt(1), k)
            return i + 1, k, n

        state = UInt(0), dr.arange(UInt, 8), n
        return dr.while_loop(state, lambda i, k, n: i < n, body, **how)[0]

    taken = UInt(0, 1, 0, 1, 1, 0, 0, 1) == 1
    found = dr.if_stmt((n,), taken, yes, lambda n: UInt(0), mode=how["mode"])
    assert list(found) == list(target) == [0, 5, 0, 4, 1, 0, 0, 1]


# ---- Errors


def check(message, state, cond, body, error=RuntimeError, modes=MODES, **kwargs):
    for mode in modes:
        with pytest.raises(error, match=message):
            dr.while_loop(state, cond, body, mode=mode, **kwargs)


def below_three(i, *_):
    return i < 3


WRONG = {
    "changed from 'drjit.llvm.UInt' to 'drjit.llvm.Float'": (
        (UInt(0, 1), UInt(0)), lambda i, x: (i + 1, Float(x)),
    ),
    r"changed from 'float' to 'drjit.llvm.Float', .* Start with an array: Float\(0.0\)": (
        (UInt(0, 1), 0.0), lambda i, x: (i + 1, x + Float(1)),
    ),
    r"variable 'x' of type 'int' changed from '0' to '1'.*Int\(1\), or .*strict=False": (
        (UInt(0, 1), 0), lambda i, x: (i + 1, x + 1),
    ),
    "size of state variable 'x' of type 'list' changed from 1 to 2": (
        (UInt(0, 1), [Float(0)]), lambda i, x: (i + 1, [*x, Float(1)]),
    ),
    "type of state variable 'x' changed from 'list' to 'tuple'": (
        (UInt(0, 1), [Float(0)]), lambda i, x: (i + 1, tuple(x)),
    ),
    r"keys of state variable 'x' changed from \['a'\] to \['b'\]": (
        (UInt(0, 1), {"a": Float(0)}), lambda i, x: (i + 1, {"b": Float(0)}),
    ),
    r"type of state variable 'x\['a'\]\[1\]' changed from 'drjit.llvm.Float' to 'drjit.llvm.Int'": (
        (UInt(0, 1), {"a": [Float(0), Float(0)]}), lambda i, x: (i + 1, {"a": [x["a"][0], Int(1)]}),
    ),
    r"variable 'x' of type 'drjit.llvm.TensorXf' changed.* shape \(2, 1\) before and \(3, 1\)": (
        (UInt(0, 1), TensorXf([1, 2], (2, 1))), lambda i, x: (i + 1, TensorXf([1, 2, 3], (3, 1))),
    ),
    "size of state variable 'x' of type 'drjit.llvm.ArrayXf' changed from 2 to 3": (
        (UInt(0, 1), ArrayXf([1, 2], [3, 4])), lambda i, x: (i + 1, ArrayXf(1, 2, 3)),
    ),
    "size of state variable 'x' of type 'drjit.llvm.Float' changed from 2 to 3": (
        (UInt(0, 1), Float(1, 2)), lambda i, x: (i + 1, Float(1, 2, 3)),
    ),
    "processes arrays of size 2, .* 'x' has an incompatible size 3. .* that of the condition": (
        (UInt(0, 1), Float(0)), lambda i, x: (i + 1, Float(1, 2, 3)),
    ),
    r"processes arrays of size 2, .* 'x\['a'\]' has an incompatible size 3. .* the condition": (
        (UInt(0, 1), {"a": dr.opaque(Float, 0)}), lambda i, x: (i + 1, {"a": Float(1, 2, 3)}),
    ),
    "processes arrays of size 2, .* 'x' has an incompatible size 3": (
        (UInt(0, 1), Float(1, 2, 3)), lambda i, x: (i + 1, x + 1),
    ),
    "variable 'x' of type 'drjit.llvm.Float' is uninitialized": (
        (UInt(0, 1), Float()), lambda i, x: (i + 1, x),
    ),
    r"variable 'x\[1\]' of type 'drjit.llvm.Float' is uninitialized": (
        (UInt(0, 1), Array2f(1, Float())), lambda i, x: (i + 1, x),
    ),
    "'body' must return a tuple, not drjit.llvm.UInt": ((UInt(0, 1), 0), lambda i, x: i + 1),
    "must return the 2 variables that it got, not 1": ((UInt(0, 1), 0), lambda i, x: (i + 1,)),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_bodies_that_change_the_state(message):
    state, body = WRONG[message]
    check(message, state, below_three, body, labels=("i", "x"))


def test_a_size_beside_a_condition_of_one_entry():
    def body(i, x):
        return i + 1, Float(1, 2, 3)

    for mode in MODES:
        _, x = dr.while_loop((UInt(0), Float(0)), below_three, body, mode=mode)
        assert list(x) == [1, 2, 3]
    check(
        r"size of state variable 'x' of type 'drjit.llvm.Float' changed from 2 to 3\.",
        (UInt(0), Float(1, 2)), below_three, body, labels=("i", "x"),
    )  # fmt: skip
    check(
        "processes arrays of size 2, .* 'x' has an incompatible size 3. The size 2 is that of 'y'",
        (UInt(0), Float(0), Float(1, 2)),
        lambda i, x, y: i < 3,
        lambda i, x, y: (i + 1, Float(1, 2, 3), y + 1),
        labels=("i", "x", "y"),
        modes=["symbolic"],
    )


def test_structures_changed_in_place():
    def rename(i, ray):
        ray.name += "!"
        return i + 1, ray

    ray = Ray(Array3f(0), Float(0))
    check(
        "non-array state variable 'ray.name' of type 'str' changed from 'ray' to 'ray!'",
        (UInt(0, 1), ray), below_three, rename, labels=("i", "ray"),
    )  # fmt: skip
    assert ray.name == "ray"


def test_numbers_may_change_if_that_is_allowed():
    state = (UInt(0, 0), 0)
    _, count = dr.while_loop(
        state, below_three, lambda i, k: (i + 1, k + 1), mode="evaluated", strict=False
    )
    assert count == 3


def test_numbers_and_scalar_arrays_that_stay():
    nan, vector = float("nan"), ScalarArray3f(1, 2, 3)
    for mode in MODES:
        found = dr.while_loop(
            (UInt(0, 1), nan, vector, None, "text"),
            below_three,
            lambda i, a, v, n, t: (i + 1, a * 1, ScalarArray3f(1, 2, 3), n, "te" + "xt"),
            mode=mode,
        )
        assert found[4] == "text" and found[3] is None


def test_conditions():
    one = lambda i: (i + 1,)  # noqa: E731
    check("condition is of type drjit.llvm.UInt. Expected", (UInt(0),), lambda i: i, one)
    check("condition is of type NoneType", (UInt(0),), lambda i: None, one)
    check("condition is of type drjit.llvm.Array2b", (Array2f(0),), lambda i: i < 3, one)
    check("condition is of type bool", (UInt(0),), lambda i: False, one)

    def writes(i):
        dr.scatter(target, i, 0)
        return i < 3

    def changes(i):
        i += 1
        return i < 3

    target, i = dr.zeros(UInt, 1), UInt(0, 1)
    check("condition has a side effect", (i,), writes, one, modes=["symbolic"])
    check(r"condition changes variable 'state\[0\]'", (i,), changes, one, modes=["symbolic"])
    assert list(i) == [0, 1]


def test_arguments():
    one = lambda i: (i + 1,)  # noqa: E731
    check("'state' must be a tuple, not list", [UInt(0)], below_three, one, TypeError)
    check("2 variables .* and 1 labels", (UInt(0), 0), below_three, one, labels=("i",))
    check("'max_iterations' must be .* not -2", (UInt(0),), below_three, one, max_iterations=-2)
    check("'max_iterations' must be .* not 1.5", (UInt(0),), below_three, one, max_iterations=1.5)
    with pytest.raises(RuntimeError, match=r"'mode' argument: it must be None, .* not 'lazy'"):
        dr.while_loop((UInt(0),), below_three, one, mode="lazy")
    check(r"dr.while_loop\('march'\): 'body' must", (UInt(0),), below_three, lambda i: 1,
          label="march")  # fmt: skip


class Problem(Exception):
    pass


@pytest.mark.parametrize("mode", MODES)
def test_an_exception_leaves_everything_as_it_was(mode):
    def body(i, x, tree, ray):
        i += 1
        x *= 2
        tree[0] += 1
        tree.append(5)
        ray.t = ray.t + 1
        ray.name = "changed"
        dr.scatter_add(target, UInt(1), i)
        raise Problem

    i, x, tree, ray = UInt(0, 1), Float(1, 2), [Float(3)], Ray(Array3f(0), Float(0))
    target, held = dr.zeros(UInt, 9), tree[0]
    with pytest.raises(Problem) as error:
        dr.while_loop((i, x, tree, ray), lambda i, *_: i < 3, body, mode=mode)
    assert error.traceback[-1].name == "body"
    assert list(i) == [0, 1] and list(x) == [1, 2]
    assert len(tree) == 1 and tree[0] is held and list(held) == [3]
    assert ray.name == "ray" and list(ray.t) == [0]
    if mode == "symbolic":
        assert list(target) == [0] * 9
    # Nothing is left open.
    np.testing.assert_array_equal((x + 1).numpy(), [2, 3])
    found = dr.while_loop((i,), below_three, lambda i: (i + 1,), mode=mode)
    assert list(found[0]) == [3, 3]


def test_symbolic_variables_have_no_values_yet():
    def body(i):
        print(i)
        return (i + 1,)

    with pytest.raises(RuntimeError, match=r"symbolic loop.*mode='evaluated'"):
        dr.while_loop((UInt(0, 1),), below_three, body, mode="symbolic")
    with pytest.raises(RuntimeError, match="symbolic loop"):
        dr.while_loop(
            (UInt(0, 1),), below_three, lambda i: (i + int(dr.sum(i)[0]),), mode="symbolic"
        )


def test_variables_that_are_gathered_from_and_change():
    def body(i, x):
        return i + 1, dr.gather(Float, x, i) + x

    check("'x' with 2 entries .* Use two variables", (UInt(0, 1), Float(1, 2)), below_three, body,
          modes=["symbolic"], labels=("i", "x"))  # fmt: skip


def test_captured_arrays_do_not_fit_compressed_lanes():
    n, x = UInt(0, 0, 0, 5), Float(1, 2, 3, 4)
    with pytest.raises(RuntimeError) as error:
        dr.while_loop(
            (UInt(0), Float(0, 0, 0, 0), n),
            lambda i, y, n: i < n,
            lambda i, y, n: (i + 1, y + x, n),
            mode="evaluated",
            compress=True,
        )
    assert any("variables of the loop" in note for note in error.value.__notes__)


def test_compression_drops_lanes():
    sizes = []

    def body(i, n):
        sizes.append(dr.width(n))
        return i + 1, n

    n = UInt(*range(16))
    found, same = dr.while_loop(
        (dr.zeros(UInt, 16), n), lambda i, n: i < n, body, mode="evaluated", compress=True
    )
    assert sizes[0] == 16 and sizes[-1] <= 2
    assert list(found) == list(range(16)) and list(same) == list(range(16))
    assert list(n) == list(range(16))


@pytest.mark.parametrize("in_place", [False, True])
def test_nothing_is_kept_alive(in_place):
    def double(i, x):
        x *= 2
        return i + 1, x

    def run(mode):
        x = ADFloat(1, 2)
        dr.enable_grad(x)
        node = weakref.ref(x._node)
        if in_place:
            x *= 1.5
            node = weakref.ref(x._node)
            dr.while_loop((UInt(0), x), lambda i, x: i < 3, double, mode=mode)
            dr.eval(x)
            return node
        y = dr.while_loop((UInt(0), x), lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), mode=mode)[
            1
        ]
        dr.eval(y)
        return node

    gc.collect()
    gc.disable()
    try:
        for mode in MODES:
            assert run(mode)() is None
    finally:
        gc.enable()


def test_types_of_masks():
    ok = dr.while_loop(
        (TensorXf([1, 2, 3, 4], (2, 2)),), lambda t: t < 5, lambda t: (t * 2,), mode="symbolic"
    )[0]
    np.testing.assert_array_equal(ok.numpy(), [[8, 8], [6, 8]])
    found = dr.while_loop((Bool(True, False),), lambda m: m, lambda m: (~m,), mode="symbolic")
    assert list(found[0]) == [False, False]


def test_deep_recursion_is_not_needed():
    depth = sys.getrecursionlimit()
    i = dr.while_loop((UInt(0, 0),), lambda i: i < 2 * depth, lambda i: (i + 1,), mode="symbolic")[
        0
    ]
    assert list(i) == [2 * depth] * 2


def test_captured_arrays_that_change():
    total, ray = Float(0, 0), Ray(Array3f(0), Float(1))

    def add(i):
        nonlocal total
        total += 1
        return (i + 1,)

    def move(i):
        ray.t += 1
        return (i + 1,)

    for body, name in ((add, "total"), (move, "ray")):
        check(f"captured variable '{name}' changes", (UInt(0, 1),), below_three, body,
              modes=["symbolic"])  # fmt: skip
        with pytest.raises(RuntimeError, match=f"captured variable '{name}' changes"):
            dr.if_stmt((UInt(0, 1),), Bool(True, False), body, lambda i: (i,), mode="symbolic")
    assert list(total) == [0, 0] and list(ray.t) == [1]


def test_iterations_over_lanes_run_the_same_kernel():
    """Constants of all lanes are data before the first iteration."""

    def body(active, x, y):
        y = y * 1.5 + x
        return active & (y < 100), x, y

    start = dr.full(Bool, True, 17), dr.arange(Float, 17) + 1, dr.zeros(Float, 17)
    dr.eval(start)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        _, _, y = dr.while_loop(start, lambda active, x, y: active, body, mode="evaluated")
        kernels = [k for k in dr.kernel_history() if k["type"] is dr.KernelType.JIT]
    assert len(kernels) > 5 and len({k["hash"] for k in kernels}) <= 2
    want = np.zeros(17, np.float32)
    for _ in range(len(kernels)):
        want = np.where(want < 100, want * 1.5 + np.arange(1, 18), want)
    np.testing.assert_allclose(np.asarray(y), want, rtol=1e-6)
